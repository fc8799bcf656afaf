"""Make the screenshots in `docs/pictures`: `python docs/make_pictures.py`.

They show a replayed lab evening marked as practice, through the real screens over the real store; no cluster is needed.
Run it after every change of the screens and look at what changed.
"""

from __future__ import annotations

import asyncio
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


def main() -> None:
    """Write every picture."""
    from tests.tui.replay import evening, make_folder, open_session

    PICTURES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        lab = make_folder(Path(place) / "lab", practice=True).path
        session = open_session(lab)
        session.asked = []
        evening(session, practice=True)
        session.close()
        for shot in SHOTS:
            path = PICTURES / f"{shot.name}.svg"
            path.write_text(asyncio.run(take(shot, lab)).rstrip() + "\n", newline="\n")
            print(path.relative_to(ROOT))  # noqa: T201 - what a script made


if __name__ == "__main__":
    main()
