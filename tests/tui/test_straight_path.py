"""The straight path through chapter 10 on the practice cluster, from the first screen to the deck, every key counted.

Typed answers, and what is done in the editor, are text; everything else is a key.
"""

from pathlib import Path

import pytest
from textual.pilot import Pilot

from labtui.domain.model import RunPhase
from labtui.practice.cluster import PracticeCluster
from labtui.session.session import Session
from labtui.tui.app import LabApp
from labtui.tui.widgets.answers_pane import AnswersPane
from tests.lab.walk import folder_of
from tests.tui.waiting import come_to, press, submit, text_of, until

MAX_KEYS = 40
FACTOR = 30.0
"""How much faster than real time: the shortest job's time limit leaves it twenty seconds to start on a busy machine."""


class Student(Pilot[int]):
    """Counts the keys that it presses."""

    keys = 0

    async def press(self, *keys: str) -> None:
        self.keys += len(keys)
        await super().press(*keys)
        await self.pause()

    async def read(self, words: str) -> None:
        await until(self, lambda: words in text_of(self.app), words)


def writes(app: LabApp) -> bool:
    return any(pane.writing for pane in app.main.query(AnswersPane))


async def answer(student: Student, app: LabApp, task: str, count: int) -> None:
    for number in range(count):
        await student.press("ctrl+n")
        assert writes(app), "what is typed after the key is text, also in another task"
        await until(student, lambda: app.view_model.task_id == task, task)
        said = [each.message for each in app._notifications if each.message.startswith("Now task ")]
        assert number or task == "10.6" or said[-1:] == [f"Now task {task}, question 1."]
        await Pilot.press(student, str(number))
    done = f"Task {task} is done."
    await until(student, lambda: done in [each.message[:18] for each in app._notifications], done)


def has_all_runs(app: LabApp) -> bool:
    phases = [line.phase for line in app.view.runs.values()]
    assert RunPhase.FAILED not in phases, text_of(app)
    return phases == [RunPhase.DONE] * 8 and not app.view.pending


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
            student = Student(app)
            await student.read("Step 1 of 3")
            await student.press("escape")
            await student.read("● online")
            for task in ("10.2", "10.3", "10.4", "10.5", "10.6"):
                moved = lambda task=task: app.view_model.task_id == task  # noqa: E731
                await press(student, "right_square_bracket", then=moved)
                if task == "10.6":
                    await student.press("b")
                    await student.read("is a copy of ResNet50.py")
                    await student.press("e")
                    assert "is a copy of" not in text_of(app), "nothing asks for what was done"
                    await until(student, lambda: all(i.met for i in app.view.items if i.kind == "edited"))
                if task != "10.2":
                    sent = len(session.state.submissions)
                    await student.press("s")
                    await submit(student)
                    await until(student, lambda sent=sent: len(session.state.submissions) > sent, "sent")
            await student.press("c")
            await come_to(student, lambda: has_all_runs(app), "eight runs, done")
            await student.read("Four GPUs train an epoch of ResNet152")
            await student.press("x")
            await student.read("deck.pptx, deck.pdf, report.pdf")
            for task, count in {"10.6": 3, "10.7": 5, "10.2": 2, "10.3": 2, "10.4": 3, "10.5": 5}.items():
                await answer(student, app, task, count)
            await pilot.press("ctrl+n")  # not on the path
            assert writes(app) and "No answer is missing." in text_of(app), "and letters stay text"
            await student.read("esc  Back")  # the card Next asks for no answer more
            await student.press("escape")
            await student.read("x  Export the slides")  # they are older than the answers
            await student.press("full_stop")
            await student.read("Practice is done")
        session.close()
    assert student.keys <= MAX_KEYS, student.keys
