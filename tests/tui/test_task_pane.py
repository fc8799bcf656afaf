"""A task in words: what and why, a line each for runs, charts and answers, details when asked for."""

from msgspec.structs import replace

from labtui.tui.themes import roles
from labtui.tui.widgets.task_pane import TaskPane, task_page
from tests.tui.waiting import press, screens, text_of, until


async def test_the_first_unfinished_line_is_open_and_enter_opens_all_with_what_differs_first(filled_session):
    async with screens(filled_session, "task", size=(120, 90)) as (app, pilot):
        pane = app.screen.query_one(TaskPane)
        await until(pilot, lambda: "▾ ○ Runs" in text_of(app) and bool(app.view_model.checks))
        text = text_of(app)
        assert "2/3" in text and "0/4" in text and "▸ ○ Charts" in text
        assert "2.53× as fast with 4 GPUs as with one" in text and "so far" in text
        assert "scripts/cifar-utils/cifar.py" not in text
        assert "▶ 4 GPUs: run 4 is running: 3 of 5 epochs read." in text and "✔ 1 GPU: run 2" in text
        other = replace(app.view, task_id="10.6", results=None, charts=())
        kept = next(item for item in other.items if item.run_id == 5)
        tuned = (replace(kept.run, extra_args=("--lr_policy", each)) for each in ("naive", "linear"))
        checks = {"10.5": replace(app.view.check, items=[replace(kept, run=each) for each in tuned])}
        page = task_page(other, roles(app), 90, whole=True).plain
        assert "◌ 1 GPU: run 5 is waiting." in page and "○ 2 and 4 GPUs: not run yet." in page
        page = task_page(replace(app.view, checks=checks), roles(app), 90, whole=True).plain
        assert "◌ ResNet152 · 1 GPU, naive: run 5 is waiting." in page
        pane.focus()
        await press(pilot, "enter", then=lambda: "▾ ○ Charts" in text_of(app) and "▾   Hints" in text_of(app))
        said, asked = " ".join(text_of(app).split()), app.view.task.questions
        assert all(f"○ {' '.join(each.text.split())[:40]}" in said for each in asked)
        check = replace(app.view.check, items=3 * app.view.check.items)
        page = task_page(replace(app.view, checks={app.view.task_id: check}), roles(app), 90, whole=True)
        assert page.plain.count("run 4 is running: 3 of 5") == 1, "what is true of several runs, once"
        shown = app.screen.query_one("#task-page")
        for width in (120, 80):
            await pilot.resize_terminal(width, 90)
            await until(pilot, lambda width=width: app.screen.size.width == width > pane.size.width)
            lines = lambda: str(shown.render()).partition("Runs")[2].splitlines()  # noqa: E731
            await until(pilot, lambda lines=lines: max(map(len, lines())) < pane.size.width, "lines that fit")
            said = " ".join(str(shown.render()).split())
            for text in (*app.view.task.hints, *app.view.task.deliverables):
                assert said.count(" ".join(text.split())) == 1, text
            assert "…" not in said
        await pilot.resize_terminal(80, 24)
        await until(pilot, lambda: pane.size.height < 24 < shown.size.height)
        await pilot.press("end")
        await until(pilot, lambda: shown.region.y < 0 and shown.region.bottom <= pane.region.bottom)
        await pilot.press("home", "enter")
        await until(pilot, lambda: "▸ ○ Answers" in text_of(app) and "▾ ○ Runs" in text_of(app))
