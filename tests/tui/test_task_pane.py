"""A task in words: what and why, a line each for runs, charts and answers, details when asked for."""

from labtui.tui.widgets.task_pane import TaskPane
from tests.tui.waiting import screens, text_of, until


async def test_the_first_unfinished_line_is_open_and_enter_opens_all(filled_session):
    async with screens(filled_session, "task", size=(120, 50)) as (app, pilot):
        await until(pilot, lambda: "▾ ○ Runs" in text_of(app) and bool(app.view_model.checks))
        text = text_of(app)
        assert "2/3" in text and "0/4" in text and "▸ ○ Charts" in text
        assert "4 GPUs: 2.53× as fast as one" in text and "so far" in text
        assert "scripts/cifar-utils/cifar.py" not in text
        app.screen.query_one(TaskPane).focus()
        await pilot.press("enter")
        await until(pilot, lambda: "▾ ○ Charts" in text_of(app) and "▾   Hints" in text_of(app))
        assert "○ Question 1 has no answer yet." in text_of(app)
        await pilot.press("enter")
        await until(pilot, lambda: "▸ ○ Charts" in text_of(app) and "▾ ○ Runs" in text_of(app))
