"""Two students work in one lab folder, one after the other and at the same time: nothing of either is lost."""

from pathlib import Path

import pytest

from labtui.lab.evidence import PLACEHOLDER
from labtui.session.labs import open_answers
from labtui.tui.app import LabApp
from tests.tui.fed_session import NOW, FedSession, lab_session, make_folder, open_session
from tests.tui.waiting import text_of, until


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A lab folder with a finished session, closed."""
    path = make_folder(tmp_path / "lab").path
    session = open_session(path)
    lab_session(session)
    session.close()
    return path


async def write(session: FedSession, words: str) -> None:
    """Open the screens, write at the first question without an answer, leave."""
    app = LabApp(session, pane="answers", clock=lambda: NOW)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await until(pilot, lambda: "How close is the speedup" in text_of(app))
        await pilot.press("ctrl+n")
        await pilot.press(*words)
        await pilot.press("q" if app.focused is None else "escape")
        await until(pilot, lambda: any(words in path.read_text() for path in answers(session.folder.path)))
        await pilot.press("q")


def answers(folder: Path) -> list[Path]:
    return sorted((folder / "answers").glob("10.5*.md"))


async def test_one_after_the_other(folder):
    first = open_session(folder)
    before = first.state
    await write(first, "mine")
    first.close()

    second = open_session(folder)
    assert not second.read_only
    assert dict(second.state.runs) == dict(before.runs)
    await write(second, "hers")
    second.close()

    third = open_session(folder)
    assert dict(third.state.runs) == dict(before.runs)
    third.close()
    (sheet,) = answers(folder)
    lines = sheet.read_text().split("\n")
    assert lines.index("mine") < lines.index("hers"), "each below a question of its own"
    assert lines.count(PLACEHOLDER) == 3


async def test_both_at_once_write_to_the_same_sheet(folder):
    first = open_session(folder)
    second = open_session(folder)
    assert second.read_only, "one process does the work; the other looks"
    task = first.edition.task("10.5")
    assert task is not None
    sheet = open_answers(first.folder, task)
    app = LabApp(first, pane="answers", clock=lambda: NOW)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await until(pilot, lambda: "How close is the speedup" in text_of(app))
        await pilot.press("ctrl+n", *"mine")
        theirs = sheet.read_text().replace(PLACEHOLDER, "hers", 1)
        sheet.write_text(theirs)  # the other's editor stores first
        await pilot.press("escape")
        await until(pilot, lambda: len(answers(folder)) == 2)
    first.close()
    second.close()
    assert sheet.read_text() == theirs
    (beside,) = [path for path in answers(folder) if path != sheet]
    assert "mine" in beside.read_text()
