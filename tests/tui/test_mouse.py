"""Everything by mouse: each page and dialog that lies over a screen is opened and left, or answered, by clicks."""

from typing import Any

from labtui.cluster.target import LoginQuestion
from labtui.tui.screens.main import MainScreen
from labtui.tui.screens.modals import Ask, TextScreen, prompt_screen
from labtui.tui.screens.plan import PlanScreen
from labtui.tui.screens.wizard import WizardApp
from tests import changes
from tests.tui.clicking import choose, click_words, place_of
from tests.tui.waiting import screens, text_of, until

SMALL = (80, 24)


async def shown(pilot: Any, kind: type) -> None:
    await until(pilot, lambda: isinstance(pilot.app.screen, kind), kind.__name__)


async def test_every_page_is_opened_and_closed_by_clicks(filled_session):
    async with screens(filled_session, size=SMALL) as (app, pilot):
        for words in ("? Help", "Requests", "! The quota is full."):
            if words.startswith("!"):
                filled_session.feed(changes.problem("x", "The quota is full.", "Remove files."))
            await (choose if words == "Requests" else click_words)(pilot, words)
            await shown(pilot, TextScreen)
            await click_words(pilot, "esc Close")
            await shown(pilot, MainScreen)
        await pilot.press("ctrl+p")
        await until(pilot, lambda: "Find an action or a task" in text_of(app))
        assert await pilot.click(offset=(40, 0))  # above it
        await shown(pilot, MainScreen)


async def test_a_fix_is_left_and_taken_by_clicks(session):
    template = session.folder.slurm / "templates" / "one-job.slurm"
    template.write_text(template.read_text().replace("#SBATCH --nodes=1", "#SBATCH \u2014nodes=1"))
    async with screens(session, size=SMALL) as (app, pilot):
        app.go_to_task("10.5")
        await click_words(pilot, "s Submit")
        await shown(pilot, PlanScreen)
        plan: Any = app.screen
        for answer in ("n  Leave it", "y  Make this change"):
            await until(pilot, lambda: plan.found is not None)
            if place_of(app, "f Fix") is None:  # too narrow for all keys: the palette has them
                await choose(pilot, "Fix  f")
            else:
                await click_words(pilot, "f Fix")
            await shown(pilot, Ask)
            await click_words(pilot, answer)
            await shown(pilot, PlanScreen)
            assert bool(plan.plan.scripts) is answer.startswith("y")
        await click_words(pilot, "esc Back")
        await click_words(pilot, "Leave the plan")  # the change would be lost
        await shown(pilot, MainScreen)


async def test_a_question_during_the_first_run_is_answered_by_a_click(tmp_path):
    app = WizardApp(tmp_path)
    answers: list[str | None] = []
    question = LoginQuestion(kind="password", text="What is it?", host="login.rehearsal.test")
    async with app.run_test(size=SMALL, notifications=True) as pilot:
        for number, words in enumerate(("enter  Answer", "esc  Back"), 1):
            app.push_screen(prompt_screen(question), answers.append)
            await shown(pilot, Ask)
            await pilot.press(*"hush")
            await click_words(pilot, words)
            await until(pilot, lambda number=number: len(answers) == number)
    assert answers == ["hush", None]
