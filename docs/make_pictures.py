"""Make the pictures in `docs/pictures`: `python docs/make_pictures.py [screens] [deck]`.

They show a replayed lab evening marked as practice, through the real screens over the real store, and pages of the deck
it exports; no cluster is needed. Run it after every change of the screens or slides and look at what changed. The deck
needs poppler's `pdftoppm` and `pdftotext`.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
PICTURES = ROOT / "docs" / "pictures"
TURNS = 2000


@dataclass(frozen=True)
class Shot:
    """A picture: size in cells, keys to get there, words that must be on the screen first."""

    name: str
    size: tuple[int, int]
    keys: tuple[str, ...]
    words: str
    theme: str = "labtui-dark"


SHOTS = (
    Shot("runs", (120, 40), ("r",), "2.53"),
    Shot("runs-80x24", (80, 24), ("r",), "epoch 4 of 5"),
    Shot("task", (120, 40), ("t",), "What is there"),
    Shot("log-80x24", (80, 24), ("l",), "following"),
    Shot("charts", (120, 40), ("c",), "9,301"),
    Shot("charts-light", (120, 40), ("c",), "9,301", "labtui-light"),
    Shot("charts-80x24", (80, 24), ("c",), "2.53"),
    Shot("answers", (120, 40), ("a", "ctrl+n", "ctrl+n", "escape"), "·· ideal"),
    Shot("plan", (120, 40), ("s", "v"), "#!/bin/bash"),
    Shot("help", (120, 40), ("question_mark",), "Keys."),
)


TASK = "10.5"
ANSWERS = (
    """\
Throughput grows with every GPU, but less each time.

| GPUs | of ideal |
|--:|--:|
| 1 | 100 % |
| 2 | 84 % |
| 4 | 63 % |
""",
    "It is sublinear: $S_4 = T_1/T_4 = 2.53$ instead of 4.",
    "It falls from 100 % to 84 % and 63 %. On four GPUs **10.7 points** are lost to the short last batch alone:\n"
    "25 steps become 7, not 6.25.",
    "No. The second GPU buys 1.7 times the speed; the third and fourth together only 1.5 times more:\n\n"
    "- two GPUs waste a sixth of what is charged,\n- four GPUs more than a third.",
    "When the deadline matters more than the GPU-hours.",
)
PAGES = {
    "deck-task": "What was run",
    "deck-charts": "parallelism: charts",
    "deck-answers": "It is sublinear",
}
"""Pages of the deck: the first one of the task that holds these words."""


async def take(shot: Shot, lab: Path) -> str:
    """The SVG of one screen."""
    from labtui.tui.app import LabApp
    from tests.tui.replay import NOW, open_session
    from tests.tui.waiting import text_of

    session = open_session(lab, start=False)
    session.feed(*_online())
    app = LabApp(session, factor=20, clock=lambda: NOW)
    async with app.run_test(size=shot.size) as pilot:
        app.theme = shot.theme
        await _until(pilot, lambda: bool(app.desk.checks))
        await pilot.press(*shot.keys)
        await _until(pilot, lambda: shot.words in text_of(app) and not app._notifications)
        svg = app.export_screenshot(title="labtui")
    session.close()
    return svg


def _online() -> list[object]:
    from tests.tui.replay import online

    return online()  # type: ignore[return-value]


async def _until(pilot: object, condition: Callable[[], bool]) -> None:
    for _ in range(TURNS):
        await pilot.pause()  # type: ignore[attr-defined]
        if condition():
            return
        await asyncio.sleep(0.005)
    raise SystemExit("the screen never showed what the picture is about")


def screens(lab: Path) -> None:
    """One picture for each shot."""
    for shot in SHOTS:
        path = PICTURES / f"{shot.name}.svg"
        path.write_text(asyncio.run(take(shot, lab)).rstrip() + "\n", newline="\n")
        print(path.relative_to(ROOT))  # noqa: T201 - what a script made


def deck(lab: Path) -> None:
    """Pages of the exported deck, with answers written."""
    from labtui.cli import main as labtui
    from labtui.engine.answers import open_answers
    from tests.tui.replay import open_session

    session = open_session(lab)
    task = next(task for task in session.edition.tasks if task.id == TASK)
    path = open_answers(session.folder, task)
    session.close()
    sheet = path.read_text(encoding="utf-8")
    for answer in ANSWERS:
        sheet = sheet.replace("<!-- your answer -->", answer, 1)
    path.write_text(sheet, encoding="utf-8")
    if labtui(["export", "--folder", str(lab), "--deck", "pdf", "--no-plots"]):
        raise SystemExit("the deck was not exported")
    pages = subprocess.run(
        ["pdftotext", str(lab / "deck.pdf"), "-"], check=True, capture_output=True, text=True
    ).stdout.split("\f")
    for name, words in PAGES.items():
        number = next(at for at, text in enumerate(pages, 1) if f"Task {TASK}" in text and words in text)
        made = ["pdftoppm", "-png", "-singlefile", "-scale-to-x", "960", "-scale-to-y", "540"]
        made += ["-f", str(number), "-l", str(number), str(lab / "deck.pdf"), str(PICTURES / name)]
        subprocess.run(made, check=True)
        print((PICTURES / f"{name}.png").relative_to(ROOT))  # noqa: T201


def main() -> None:
    """Write the pictures that are asked for, or all."""
    from tests.tui.replay import evening, make_folder, open_session

    wanted = sys.argv[1:] or ["screens", "deck"]
    PICTURES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        lab = make_folder(Path(place) / "lab", practice=True).path
        session = open_session(lab)
        session.asked = []
        evening(session, practice=True)
        session.close()
        if "screens" in wanted:
            screens(lab)
        if "deck" in wanted:
            deck(lab)


if __name__ == "__main__":
    main()
