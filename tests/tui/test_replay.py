"""A recorded session on the screens: played, paused, stepped; no key changes anything."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from labtui.domain.model import RunPhase
from labtui.session.replay import Replay, open_replay
from labtui.tui.actions import ACTIONS, CHANGING, only_looks
from labtui.tui.replay import KEYS, ReplayApp, ReplayBar
from tests.session.test_replay import fingerprint
from tests.tui.replay import lab_session, make_folder, open_session
from tests.tui.waiting import text_of, until


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    make_folder(tmp_path / "lab")
    with open_session(tmp_path / "lab") as session:
        lab_session(session)
    return tmp_path / "lab"


@pytest.fixture
def replay(lab: Path) -> Iterator[Replay]:
    with open_replay(lab) as opened:
        yield opened


def test_every_key_of_the_replay_has_one_meaning() -> None:
    keys = [key for each in KEYS for key in each.keys.split(",")]
    assert len(set(keys)) == len(keys)
    assert all(each.help for each in KEYS)
    assert {each.name.partition("(")[0] for each in ACTIONS} >= CHANGING


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 55)])
async def test_the_screens_show_the_moment_that_the_bar_says(replay: Replay, size: tuple[int, int]) -> None:
    app = ReplayApp(replay, playing=False)
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: "replay" in text_of(app) and "1/" in text_of(app), "the bar")
        assert "task 10.3" in text_of(app) or size[0] < 100
        last = len(replay.timeline.events)
        for _ in range(3):
            await pilot.press("full_stop")
        await until(pilot, lambda: f"4/{last}" in text_of(app))
        assert app.view_model.clock() == replay.now == replay.timeline.times[3]
        assert replay.state.runs[1].phase is not RunPhase.DONE
        app.go_to_task("10.5")
        await pilot.press("r")
        app.hold_at(last)
        await until(pilot, lambda: f"{last}/{last}" in text_of(app) and "2.53" in text_of(app), "numbers")
        app.hold_at(6)
        await until(pilot, lambda: f"6/{last}" in text_of(app) and "2.53" not in text_of(app), "none yet")
        await pilot.press("right_square_bracket")
        await until(pilot, lambda: replay.count > 6)
        assert replay.count in replay.timeline.chapters()
        await pilot.press("left_square_bracket", "left", "comma")
        await until(pilot, lambda: replay.count < 6)


async def test_playing_goes_on_with_time_pauses_and_ends(replay: Replay) -> None:
    app = ReplayApp(replay, playing=False, speed=60)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: app.screen.query(ReplayBar))
        app.play(1.0)
        assert replay.place == 60.0
        await pilot.press("plus", "plus", "minus")
        assert app.speed == 120
        replay.go_to(0)
        app.play(replay.timeline.seconds / 120 + 1)
        assert replay.place == replay.timeline.seconds
        assert app.view_model.task_id == "10.6"  # it went along to what was submitted last
        await until(pilot, lambda: "■" in text_of(app))
        await pilot.press("space")
        assert app.playing
        assert replay.place < replay.timeline.seconds


async def test_a_click_on_the_bar_goes_there(replay: Replay) -> None:
    app = ReplayApp(replay, playing=False)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: app.screen.query(ReplayBar))
        bar = app.screen.query_one(ReplayBar)
        first, width = bar._bar
        await pilot.click(bar, offset=(first + width - 1, 0))
        await until(pilot, lambda: replay.place == pytest.approx(replay.timeline.seconds))
        await pilot.click(bar, offset=(first, 0))
        await until(pilot, lambda: replay.place == 0)


async def test_no_key_changes_anything(lab: Path) -> None:
    """Every key that does in a lab folder, in the panes where it does most."""
    before = fingerprint(lab)
    with open_replay(lab) as replay:
        app = ReplayApp(replay, playing=False)
        async with app.run_test(size=(120, 40)) as pilot:
            await until(pilot, lambda: app.screen.query(ReplayBar))
            state = replay.state
            copied = {path: at for path, at in fingerprint(replay.folder.path).items() if "db" not in path}
            keys = [
                each.key
                for each in ACTIONS
                if not only_looks(each.name) or each.name in {"plan", "retry_run"}
            ]
            for pane in "ra":
                await pilot.press(pane)
                for key in dict.fromkeys(keys):
                    await pilot.press(key)
                    while len(app.screen_stack) > 1:
                        await pilot.press("s", "s", "e", "f", "i")
                        app.pop_screen()
                        await pilot.pause()
            assert replay.state.runs == state.runs
            await pilot.press("x")
            await until(pilot, lambda: "This is a replay" in text_of(app))
            assert {p: at for p, at in fingerprint(replay.folder.path).items() if "db" not in p} == copied
            await pilot.press("question_mark")
            await until(pilot, lambda: "Keys of the replay" in text_of(app))
            await pilot.press("escape", "q")
        assert app.return_value == 0
    assert fingerprint(lab) == before


async def test_a_search_in_the_log_takes_the_keys_as_letters(replay: Replay) -> None:
    app = ReplayApp(replay, playing=False)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: app.screen.query(ReplayBar))
        await pilot.press("l", "slash")
        await until(pilot, lambda: app.focused is not None and app.focused.id == "log-search")
        await pilot.press("a", "space", "full_stop", "left_square_bracket")
        assert app.focused.value == "a .["  # type: ignore[union-attr]
        assert replay.count == 1
