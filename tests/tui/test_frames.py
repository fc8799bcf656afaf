"""Every frame that is painted tells one state: nothing of a task or pane that was left."""

import pytest
from textual.screen import Screen
from textual.widgets import ContentSwitcher, Tabs

from tests.tui.waiting import press, screens, text_of, until


@pytest.fixture
def frames(painting, monkeypatch):
    """Each frame of the main screen as it is painted: pane behind the tabs, pane shown, text."""
    seen = []
    paint = Screen._compositor_refresh

    def painted(screen):
        app = screen.app
        sized = screen._compositor.size == app.size  # else it was resized since
        if sized and not app._batch_count and screen is app.main and screen.query("#panes > *"):
            parts = screen.query_one(Tabs).active, screen.query_one(ContentSwitcher).current
            seen.append((*parts, text_of(app)))
        paint(screen)

    monkeypatch.setattr(Screen, "_compositor_refresh", painted)
    return seen


async def test_title_tabs_and_pane_change_in_one_frame(filled_session, frames):
    async with screens(filled_session, "runs") as (app, pilot):
        await until(pilot, lambda: "0:11 left" in text_of(app))
        frames.clear()
        await press(pilot, "c", then=lambda: "4 Efficiency" in text_of(app))
        for at, key, said in (("10.3", "r", "215 s"), ("10.5", "r", "0:11 left"), ("10.6", "t", "ResNet152")):
            app.go_to_task(at)
            await press(pilot, key, then=lambda said=said: said in text_of(app), what=said)
    assert len(frames) > 5
    for tab, pane, text in frames:
        assert pane == f"pane-{tab}"
        title = text.splitlines()[2][32:].split()[0]
        told = "0:11 left" in text, "215 s" in text
        assert tab != "runs" or told == (title == "10.5", title == "10.3"), text


async def test_the_first_frame_after_a_resize_has_the_tasks_and_keys_of_its_size(filled_session, frames):
    async with screens(filled_session, "runs", size=(80, 24)) as (app, pilot):
        await until(pilot, lambda: bool(app.view_model.checks) and "0:11 left" in text_of(app))
        for size, shown in ((120, 40), True), ((80, 24), False):
            frames.clear()
            await pilot.resize_terminal(*size)
            await until(pilot, lambda: bool(frames))
            assert [each in frames[0][2] for each in ("10.1 Set up the files", "^p Palette")] == [shown] * 2
