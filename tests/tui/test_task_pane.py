"""A task in words: what and why, a line each for runs, charts and answers, details when asked for."""

import pytest

from labtui.tui.widgets.task_pane import TaskPane
from tests.tui.waiting import screens, text_of, until


async def test_the_first_unfinished_line_is_open_and_enter_opens_all(filled_session):
    async with screens(filled_session, "task", size=(120, 60)) as (app, pilot):
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


@pytest.mark.parametrize("width", [80, 120])
async def test_an_open_line_says_all_of_it_and_runs_what_differs_first(filled_session, width):
    async with screens(filled_session, "task", size=(width, 90)) as (app, pilot):
        pane = app.screen.query_one(TaskPane)
        await until(pilot, lambda: "○ 4 GPUs: run 4 is running: 3 of 5 epochs read." in text_of(app))
        assert "✔ 1 GPU: run 2" in text_of(app)
        pane.focus()
        await pilot.press("enter")
        await until(pilot, lambda: "▾   Hints" in text_of(app))
        page = str(app.screen.query_one("#task-page").render())
        said = " ".join(page.split())
        for text in (*app.view.task.hints, *app.view.task.deliverables):
            assert said.count(" ".join(text.split())) == 1, text
        lines = page[page.index("Runs") :].splitlines()
        assert "…" not in page and all(len(line) < pane.size.width for line in lines)
