"""The straight path through chapter 10 on the practice cluster, from the first screen to the deck, every key counted.

Typed answers, and what is done in the editor, are text; everything else is a key.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from labtui.domain.model import RunPhase
from labtui.practice.cluster import PracticeCluster
from labtui.session.session import Session
from labtui.tui.app import LabApp
from labtui.tui.widgets.answers_pane import AnswersPane
from tests.lab.walk import folder_of
from tests.tui.waiting import chooses, come_to, ready, text_of, until

MAX_KEYS = 40
FACTOR = 30.0
"""How much faster than real time: the shortest job's time limit leaves it twenty seconds to start on a busy machine."""


class Student:
    """Presses keys and counts them."""

    def __init__(self, pilot: Pilot[int], app: LabApp) -> None:
        self.pilot, self.app, self.keys = pilot, app, 0

    async def press(self, *keys: str) -> None:
        for key in keys:
            self.keys += 1
            await self.pilot.press(key)
            await self.pilot.pause()

    async def see(self, condition: Callable[[], Any], what: str) -> None:
        await until(self.pilot, condition, what)

    async def read(self, words: str) -> None:
        await self.see(lambda: words in text_of(self.app), words)

    async def at(self, task: str) -> None:
        await self.see(lambda: self.app.view_model.task_id == task, f"task {task}")

    async def answer(self, task: str, count: int) -> None:
        for number in range(count):
            await self.press("ctrl+n")
            assert self.writing(), "what is typed after the key is text, also in another task"
            await self.at(task)
            said = [each.message for each in self.app._notifications if each.message.startswith("Now task ")]
            assert number or task == "10.6" or said[-1:] == [f"Now task {task}, question 1."]
            await self.pilot.press(str(number))

    def writing(self) -> bool:
        return any(pane.writing for pane in self.app.main.query(AnswersPane))

    async def submit(self) -> None:
        sent = self.app.session.state.submissions
        await self.press("s")
        await self.see(lambda: ready(self.app.screen), "the plan, checked")
        await self.press("s")
        await self.see(lambda: not ready(self.app.screen), "the plan is sent, or a doubt")
        if chooses(self.app):
            await self.press("y")
        await self.see(lambda: self.app.screen is self.app.main, "the main screen")
        await self.see(lambda: len(self.app.session.state.submissions) > len(sent), "what was submitted")

    def has_all_runs(self) -> bool:
        view = self.app.view
        phases = [line.phase for line in view.runs.values()]
        assert RunPhase.FAILED not in phases, text_of(self.app)
        return phases == [RunPhase.DONE] * 8 and not view.pending


@pytest.mark.slow
async def test_the_straight_path_takes_at_most_40_keys(tmp_path, monkeypatch):
    def editor(self: LabApp, path: Path) -> bool:
        path.write_text(path.read_text().replace("ResNet50V2", "ResNet152V2"))
        return True

    monkeypatch.setattr(LabApp, "open_editor", editor)
    with PracticeCluster(tmp_path / "cluster", factor=FACTOR) as cluster:
        lab = folder_of(tmp_path / "lab", "hpc4ai-ch10", **cluster.settings())
        session = Session.open(lab.path, start=False)
        app = LabApp(session, factor=FACTOR, kept=False)
        app.with_tour = True
        async with app.run_test(size=(120, 40), notifications=True) as pilot:
            student = Student(pilot, app)
            await student.read("Step 1 of 3")
            await student.press("escape")
            await student.read("● online")
            for task in ("10.2", "10.3", "10.4", "10.5", "10.6"):
                await student.press("right_square_bracket")
                await student.at(task)
                if task == "10.6":
                    await student.press("b")
                    await student.read("is a copy of ResNet50.py")
                    await student.press("e")
                    assert "is a copy of" not in text_of(app), "nothing asks for what was done"
                    await student.see(
                        lambda: all(item.met for item in app.view.items if item.kind == "edited"), "the copy"
                    )
                if task != "10.2":
                    await student.submit()
            await student.press("c")
            await come_to(pilot, student.has_all_runs, "eight runs, done")
            await student.read("Four GPUs train an epoch of ResNet152")
            await student.press("x")
            await student.read("deck.pptx, deck.pdf, report.pdf")
            for task, questions in {"10.6": 3, "10.7": 5, "10.2": 2, "10.3": 2, "10.4": 3, "10.5": 5}.items():
                await student.answer(task, questions)
                done = f"Task {task} is done."
                await student.see(
                    lambda done=done: done in [n.message[:18] for n in app._notifications], done
                )
            await pilot.press("ctrl+n")  # not on the path
            assert student.writing() and "No answer is missing." in text_of(app), "and letters stay text"
            await student.read("esc  Back")  # the card Next asks for no answer more
            await student.press("escape")
            await student.read("x  Export the slides")  # they are older than the answers
            await student.press("full_stop")
            await student.read("Practice is done")
        session.close()
    assert student.keys <= MAX_KEYS, student.keys
