"""The straight path through chapter 10, every key counted: typed answers are text, everything else is a key."""

from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from labtui.tui.app import LabApp
from labtui.tui.widgets.answers_pane import AnswersPane
from tests.tui.fed_session import FedSession, finished_run, make_folder, online, open_session
from tests.tui.waiting import chooses, ready, text_of, until

MAX_KEYS = 40


class Student:
    """Presses keys and counts them; runs that are submitted finish at once."""

    def __init__(self, pilot: Pilot[int], app: LabApp, session: FedSession) -> None:
        self.pilot, self.app, self.session = pilot, app, session
        self.keys = 0
        self.runs = 0

    async def press(self, *keys: str) -> None:
        for key in keys:
            self.keys += 1
            await self.pilot.press(key)
            await self.pilot.pause()

    async def see(self, condition: Callable[[], Any], what: str) -> None:
        await until(self.pilot, condition, what)

    async def at(self, task: str) -> None:
        await self.see(lambda: self.app.view_model.task_id == task, f"task {task}")

    async def answer(self, task: str, count: int) -> None:
        for number in range(count):
            await self.press("ctrl+n")
            assert self.writing(), "what is typed after the key is text, also in another task"
            await self.at(task)
            said = [each.message for each in self.app._notifications if each.message.startswith("Now task ")]
            assert number or task == "10.7" or said[-1:] == [f"Now task {task}, question 1."]
            await self.pilot.press(str(number))

    def writing(self) -> bool:
        main = self.app.main
        return main is not None and any(pane.writing for pane in main.query(AnswersPane))

    async def submit(self) -> None:
        task = self.app.view_model.task_id
        self.session.requests.clear()
        await self.press("s")
        await self.see(lambda: ready(self.app.screen), "the plan, checked")
        await self.press("s")
        await self.see(lambda: not ready(self.app.screen), "the plan is sent, or a doubt")
        if chooses(self.app):
            await self.press("y")
        await self.see(lambda: self.app.screen is self.app.main, "the main screen")
        for name, what, _ in list(self.session.requests):
            if name == "submit":
                for run in what[0].runs:
                    self._finish(task, run)
        await self.see(
            lambda: all( item.met for item in self.app.view.checks[task].items
            if item.kind in {"runs", "constant-batch", "learning-rate"} ), f"the runs of {task}",
        )  # fmt: skip

    def _finish(self, task: str, run: Any) -> None:
        self.runs += 1
        token = f"lt{self.runs:018d}"
        self.session.feed(*finished_run(token, task, self.runs, run, f"{31000 + self.runs}"))


def export(folder: Path, told: Callable[[str], None], _: Callable[..., None]) -> Future[str]:
    """What the tasks ask for by name, in place of the export of everything in a process of its own."""
    for chart in ("epoch-time", "throughput", "speedup", "efficiency"):
        for model in ("", "-ResNet50", "-ResNet152"):
            (folder / "plots" / f"{chart}{model}.svg").write_text(chart)
    (folder / "deck.pptx").write_text("slides")
    done: Future[str] = Future()
    done.set_result("Written: deck.pptx.")
    return done


@pytest.mark.slow
async def test_the_straight_path_takes_at_most_40_keys(tmp_path, monkeypatch):
    make_folder(tmp_path / "lab")
    (tmp_path / "lab" / "scripts" / "ResNet152.py").unlink()  # the student makes it, as in a real lab folder
    session = open_session(tmp_path / "lab", start=False)
    session.requests = []
    session.feed(*online())

    def editor(self: LabApp, path: Path) -> bool:
        path.write_text(path.read_text().replace("ResNet50V2", "ResNet152V2"))
        return True

    monkeypatch.setattr(LabApp, "open_editor", editor)
    monkeypatch.setattr("labtui.tui.messages.export_all", export)
    app = LabApp(session)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        student = Student(pilot, app, session)
        await student.see(lambda: bool(app.view_model.checks), "the checks")
        for task in ("10.2", "10.3", "10.4", "10.5", "10.6"):
            await student.press("right_square_bracket")
            await student.at(task)
            if task == "10.6":
                await student.press("b")
                await student.see(lambda: "is a copy of ResNet50.py" in text_of(app), "what was made")
                await student.press("e")
                assert "is a copy of" not in text_of(app), "nothing asks for what was done"
                await student.see(lambda: all(i.met for i in app.view.items if i.kind == "edited"), "copy")
            if task != "10.2":
                await student.submit()
        await student.press("right_square_bracket", "x")
        await student.see(lambda: "Written: deck.pptx." in text_of(app), "the export")
        for task, questions in (("10.7", 5), ("10.2", 2), ("10.3", 2), ("10.4", 3), ("10.5", 5), ("10.6", 3)):
            await student.answer(task, questions)
            done = f"Task {task} is done."
            await student.see(lambda done=done: done in [n.message[:18] for n in app._notifications], done)
        await student.press("ctrl+n")
        assert student.writing() and "No answer is missing." in text_of(app), "and letters stay text"
        await student.see(lambda: "esc  Back" in text_of(app), "the card Next asks for no answer more")
        await student.press("escape")
        await student.see(lambda: "x  Export the slides" in text_of(app), "they are older than the answers")
        await student.press("full_stop")
        await student.see(lambda: "Hand in deck.pptx" in text_of(app), "the slides are of now")
    session.close()
    assert student.keys <= MAX_KEYS, student.keys
