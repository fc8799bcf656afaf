"""What stands beside an answer: facts and chart of the question the cursor is in, made anew only when that changes."""

from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace
from rich.text import Text

from labtui.lab.evidence import PLACEHOLDER
from labtui.results.charts import FAMILIES, ChartSpec, Point, Series
from labtui.results.compute import compute_results
from labtui.session.labs import load_edition, open_answers
from labtui.tui.app import LabApp
from labtui.tui.view_model import first_chart
from labtui.tui.widgets import answers_pane, frame
from labtui.tui.widgets.charts_pane import ChartView
from tests.results.helpers import run
from tests.tui.fed_session import epoch
from tests.tui.waiting import press, screens, text_of, until


def pane_of(app: LabApp) -> Any:
    assert app.main is not None
    return app.main.query_one("#pane-answers")


def footer(app: LabApp) -> str:
    """The last line of the screen."""
    return text_of(app).splitlines()[app.size.height - 1]


def beside(app: LabApp) -> str:
    return str(pane_of(app).query_one("#answer-numbers", frame.PlainText).render())


def spec(family: str, *, empty: bool = False) -> ChartSpec:
    series = (Series(name="a", points=() if empty else (Point(x=1, y=1),)),)
    return replace(FAMILIES[family], series=series)


def test_a_question_has_the_chart_that_its_edition_names_else_that_of_the_runs():
    chapter, asked = load_edition("hpc4ai-ch10"), SimpleNamespace(task=None, lines=(), pending=())
    asked.charts = [spec(name) for name in ("epoch-time", "throughput", "speedup", "efficiency")]
    assert answers_pane.chart_beside(asked, 0) is asked.charts[0] is first_chart(asked, asked.charts)
    for task in chapter.tasks:
        asked.task = task
        for at, question in enumerate(task.questions):
            wanted = question.chart or first_chart(asked, asked.charts).family
            assert answers_pane.chart_beside(asked, at).family == wanted
    asked.task, asked.charts = chapter.task("10.4"), [spec("cpu-gpu"), spec("epoch-time")]
    assert answers_pane.chart_beside(asked, 0).family == "cpu-gpu", "not the GPU's time alone"
    asked.charts = [spec("cpu-gpu", empty=True), spec("epoch-time")]
    assert answers_pane.chart_beside(asked, 0).family == "epoch-time"
    asked.charted = compute_results([run(0, [9, 5], batch=batch) for batch in (64, 128)]).rows
    answers_pane._numbers(text := Text(), asked, SimpleNamespace(busy=""))
    assert all(f"ResNet50 on the CPU, batch {batch}\n" in text.plain for batch in (64, 128))
    asked.edition = load_edition("hpc4ai-ch12")
    asked.results = compute_results([run(n, [9, 8 / n], images=50_000) for n in (1, 2)])
    asked.task, plain = asked.edition.task("12.3"), SimpleNamespace(busy="", soft="", quiet="")
    own, book = answers_pane.text_beside(asked, 0, plain, 400).plain.splitlines()[1:5:3]
    assert own.endswith("by doubling the GPUs (100 % is ideal): 2 GPUs +100 %.") and "What each" in book


async def test_facts_and_chart_are_those_of_the_question_under_the_cursor(filled_session):
    async with screens(filled_session, "answers") as (app, pilot):
        await until(pilot, lambda: "For question 1" in beside(app) and bool(app.view_model.checks))
        await until(pilot, lambda: "Images per second" in text_of(app))
        facts = {each.id: " ".join(each.text.split()) for each in app.view_model.edition.facts}
        chart, charts = pane_of(app).query_one("#answer-chart", ChartView), {2: "speedup", 3: "efficiency"}
        await pilot.press("g")  # the list of tasks closes: nobody types into what is not shown
        for number, question in enumerate(app.view_model.view().task.questions, 1):
            await pilot.press("ctrl+n")
            assert not app.main.has_class("-open")
            await until(pilot, lambda number=number: f"For question {number}\n" in beside(app))
            key = charts.get(number)
            await until(pilot, lambda key=key: chart.spec and key in (None, chart.spec.key))
            first, _, messages = beside(app).partition(f"For question {number}\n")
            messages, _, own = messages.partition("Your numbers")
            assert not first and messages.count("\n\n") == len(question.facts), "then one's own"
            assert "13.6 s" in own and "+68 % images/s against half the GPUs" in own
            assert all(facts[name] in " ".join(messages.split()) for name in question.facts)
            await until(pilot, lambda n=number: f"Answer to question {n}" in text_of(app))
            await pilot.press(*f"text{number}")
            await until(pilot, lambda: "^n  Next question" in text_of(app), "as in the footer")
        assert "13.6 s" in beside(app) and " GPU-h of" in beside(app) and "Runs\n" not in beside(app)
        for size in ((80, 24), (120, 40)):
            await pilot.resize_terminal(*size)
            await until(pilot, lambda size=size: app.main.size == size and chart.size.height >= 8)
            assert pane_of(app).editor.size.width >= 40


async def test_typing_paints_nothing_beside_anew_and_new_results_do(filled_session, painting, monkeypatch):
    async with screens(filled_session, "answers") as (app, pilot):
        await until(pilot, lambda: "Images per second" in text_of(app) and bool(app.view_model.checks))
        await pilot.press("enter", "x")
        made: list[str] = []
        for place, name in ((ChartView, "render"), (frame.PlainText, "refresh")):
            old = getattr(place, name)

            def counted(*args: Any, name: str = name, old: Any = old, **more: Any) -> Any:
                if name != "refresh" or args[0].id == "answer-numbers":
                    made.append(name)
                return old(*args, **more)

            monkeypatch.setattr(place, name, counted)
        await pilot.press(*"so many words")
        app.repaint()  # as when only the time went on
        await until(pilot, lambda: "so many words" in pane_of(app).editor.text)
        assert made == []
        filled_session.feed(epoch(4, 4, 5.4, 0.004, steps=7))
        await until(pilot, lambda: "refresh" in made and "render" in made)


@pytest.mark.parametrize("size", [(80, 24), (120, 28)])
async def test_what_does_not_fit_is_reached_by_keys(filled_session, size):
    async with screens(filled_session, "answers", size=size) as (app, pilot):
        await until(pilot, lambda: "For question 1" in text_of(app) and bool(app.view_model.checks))
        side, main = (pane_of(app).query_one(f"#answer-{name}").region for name in ("side", "main"))
        assert side.y == main.y == pane_of(app).region.y and side.right <= main.x
        await press(pilot, "tab", "pagedown", then=lambda: "For question 1" not in text_of(app))
        assert app.view_model.task_id == "10.5", "a page of the facts, not of the tasks"
        await press(pilot, "tab", "enter", then=lambda: pane_of(app).editor.has_focus)


async def test_enter_opens_the_first_open_answer_and_escape_shows_it_as_a_card(filled_session):
    sheet = open_answers(filled_session.folder, load_edition("hpc4ai-ch10").task("10.5"))
    mine = "![](no.png) mine <b>x</b>\n```python\nx = 1\n```"
    sheet.write_text(sheet.read_text().replace(PLACEHOLDER, mine, 1))
    async with screens(filled_session, "answers") as (app, pilot):
        await until(pilot, lambda: "No answer yet" in text_of(app) and bool(app.view_model.checks))
        assert "Answer 1 of 10.5: no.png is not" in text_of(app) and " mine <b>x</b>" in text_of(app)
        assert "#272822" not in app.export_screenshot(), "code stands on the theme's ground, not on Monokai's"
        await until(pilot, lambda: "Write" in footer(app))
        assert "<!--" not in text_of(app)
        await pilot.press("enter")
        await until(pilot, lambda: "Answer to question 2" in text_of(app) and "esc Back" in footer(app))
        assert "Write" not in footer(app) and "s Plan" not in footer(app), "there it is a letter"
        await pilot.press(*"**sublinear**", "escape")
        await until(pilot, lambda: "✔ 2" in text_of(app) and "Write" in footer(app))
        assert "sublinear" in text_of(app) and "**" not in text_of(app)
        parts = sheet.read_text().split("\n## ")
        assert "mine" in parts[1] and "**sublinear**" in parts[2] and PLACEHOLDER in parts[3]
