"""Make the pictures in `docs/pictures`: `python docs/make_pictures.py [screens] [deck] [nodes] [gallery]`.

They show a lab session marked as practice, through the real screens over the real store, and pages of the deck
it exports; no cluster is needed. Those of several nodes show runs on the practice cluster (two minutes).
Run it after every change of the screens or slides and look at what changed. The deck needs poppler's `pdftoppm` and
`pdftotext`, the gallery (every screen at three sizes, dark and light) `chromium`.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
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
    Shot("runs", (120, 40), ("r",), "as fast with 4 GPUs"),
    Shot("runs-80x24", (80, 24), ("r",), "so far"),
    Shot("task", (120, 40), ("t",), "Answers"),
    Shot("log-80x24", (80, 24), ("l",), "following"),
    Shot("charts", (120, 40), ("c",), "2.53×"),
    Shot("charts-light", (120, 40), ("c",), "2.53×", "labtui-light"),
    Shot("charts-80x24", (80, 24), ("c",), "2.53×"),
    Shot("charts-200x55", (200, 55), ("c",), "9,301"),
    Shot("answers", (120, 40), ("a", "down"), "ideal"),
    Shot("plan", (120, 40), ("left_square_bracket", "s"), "Job script"),
    Shot("help", (120, 40), ("question_mark",), "Keys here"),
)


NODES_LAB, NODES_TASK, NODES_RUN = "hpc4ai-ch12", "12.2", 5
NODES = (
    Shot("nodes-plan", (120, 40), ("s",), "8 on 2 nodes"),
    Shot("nodes-run", (120, 40), ("r",), "✔"),
    Shot("nodes-charts", (120, 40), ("c", "3"), "Speedup"),
)
"""A run of sixteen GPUs on four nodes, beside the other sizes."""
FACTOR, PATIENCE_S = 200.0, 400.0


SIZES = ((80, 24), (120, 40), (200, 55))
THEMES = ("labtui-dark", "labtui-light")
GALLERY = {
    "task": (("t",), "Answers"),
    "runs": (("r",), "so far"),
    "log": (("l",), "following"),
    "charts": (("c",), "2.53"),
    "answers": (("a",), "No answer yet"),
    "plan": (("left_square_bracket", "s"), "Job script"),
    "help": (("question_mark",), "Keys here"),
    "palette": (("colon",), "Find an action"),
}
"""Screens of the gallery: keys to get there, words that must be on the screen first."""


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
    "deck-task": "Four GPUs train ResNet50",
}
"""Pages of the deck: the first one that holds these words."""


async def take(shot: Shot, lab: Path, task: str = "", run: int | None = None) -> str:
    """The SVG of one screen; `task` and `run` are chosen first."""
    from labtui.tui.app import LabApp
    from tests.tui.fed_session import NOW, online, open_session
    from tests.tui.waiting import text_of

    session = open_session(lab, start=False)
    now = (session.state.refreshed_at or NOW) if task else NOW
    session.feed(*online(now - 2))
    session.clock.wall = lambda: now  # type: ignore[method-assign]
    app = LabApp(session, factor=20)
    async with app.run_test(size=shot.size) as pilot:
        app.theme = shot.theme
        await _until(pilot, lambda: bool(app.view_model.checks))
        app.go_to_task(task or TASK)  # else the one that the picture before this one chose opens
        app.view_model.chosen = run
        app.repaint()
        for key in shot.keys:
            await pilot.press(key)
            await pilot.pause(0.5 if task else 0)  # samplers are read beside the screens
        await _until(pilot, lambda: shot.words in text_of(app) and not app._notifications)
        svg = app.export_screenshot(title="labtui")
    session.close()
    return svg


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


def gallery(lab: Path) -> None:
    """A sheet for each screen: its sizes in a row, dark above light."""
    from PIL import Image

    for name, (keys, words) in GALLERY.items():
        with tempfile.TemporaryDirectory() as place:
            rows = []
            for theme in THEMES:
                cells = []
                for width, height in SIZES:
                    svg = Path(place) / f"{theme}-{width}.svg"
                    shot = Shot(name, (width, height), keys, words, theme)
                    svg.write_text(asyncio.run(take(shot, lab)), encoding="utf-8")
                    cells.append(f'<img src="{svg.name}" width="{4.5 * width}">')
                rows.append(f"<div>{''.join(cells)}</div>")
            style = "body{margin:0;background:#888;width:1840px} img{margin:4px;vertical-align:top}"
            page, drawn = Path(place) / "page.html", Path(place) / "page.png"
            page.write_text(f"<style>{style}</style>{''.join(rows)}", encoding="utf-8")
            options = ["--headless", "--no-sandbox", "--hide-scrollbars", "--window-size=1840,1080"]
            subprocess.run(["chromium", *options, f"--screenshot={drawn}", page.as_uri()], check=True)
            sheet = PICTURES / f"gallery-{name}.webp"
            Image.open(drawn).convert("RGB").save(sheet, quality=70)
            print(sheet.relative_to(ROOT))  # noqa: T201


def deck(lab: Path) -> None:
    """Pages of the exported deck, with answers written."""
    from labtui.commands.cli import main as labtui
    from labtui.session.labs import open_answers
    from tests.tui.fed_session import open_session

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
    for name, words in PAGES.items():
        page(lab / "deck.pdf", words, name)


def several_nodes(place: Path) -> None:
    """Chapter 12's runs on 1 to 32 GPUs of the practice cluster, then their pictures."""
    from labtui.practice.cluster import PracticeCluster
    from labtui.session.folder import LabFolder
    from labtui.session.labs import load_edition
    from labtui.session.session import Session
    from labtui.session.settings import Settings

    edition = load_edition(NODES_LAB)
    with PracticeCluster(factor=FACTOR) as cluster:
        settings = Settings(edition=NODES_LAB, **cluster.settings(edition.framework_scripts))
        folder = LabFolder.create(place / "several", settings, wanted=edition.needs)
        _of_nodes(NODES[0], folder.path, None)  # before its runs are done
        session = Session.open(folder.path)
        for draft in session.drafts(NODES_TASK):
            session.submit(draft)
        end = time.monotonic() + PATIENCE_S
        while not all(run.outcome for run in session.state.runs.values()):
            if time.monotonic() > end:
                raise SystemExit("the runs on the practice cluster did not end")
            time.sleep(1)
        session.close()
    for shot in NODES[1:]:
        _of_nodes(shot, folder.path, NODES_RUN)


def _of_nodes(shot: Shot, lab: Path, run: int | None) -> None:
    path = PICTURES / f"{shot.name}.svg"
    svg = asyncio.run(take(shot, lab, NODES_TASK, run))
    path.write_text(svg.rstrip() + "\n", newline="\n")
    print(path.relative_to(ROOT))  # noqa: T201


def nodes(place: Path) -> None:
    """A page of chapter 12's deck over the reference runs: what the book's tables look like on 1 to 32 GPUs."""
    from labtui.export import export_lab
    from tests.export.helpers import DAY, make_lab

    lab = make_lab(place / "nodes", "hpc4ai-ch12")
    export_lab(lab.folder.path, formats=("pdf",), reports=(), state=lab.state, today=DAY, plots=False)
    page(lab.folder.path / "deck.pdf", "12.2", "deck-nodes")


def page(pdf: Path, words: str, name: str) -> None:
    """The first page that holds these words, as a PNG."""
    text = subprocess.run(["pdftotext", str(pdf), "-"], check=True, capture_output=True, text=True).stdout
    number = next((at for at, found in enumerate(text.split("\f"), 1) if words in found), None)
    if number is None:
        return
    made = ["pdftoppm", "-png", "-singlefile", "-scale-to-x", "960", "-scale-to-y", "540"]
    made += ["-f", str(number), "-l", str(number), str(pdf), str(PICTURES / name)]
    subprocess.run(made, check=True)
    print((PICTURES / f"{name}.png").relative_to(ROOT))  # noqa: T201


def main() -> None:
    """Write the pictures that are asked for, or all."""
    from tests.tui.fed_session import lab_session, make_folder, open_session

    wanted = sys.argv[1:] or ["screens", "deck", "nodes", "gallery"]
    PICTURES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        lab = make_folder(Path(place) / "lab", practice=True).path
        session = open_session(lab)
        lab_session(session, practice=True)
        session.close()
        if "screens" in wanted:
            screens(lab)
        if "gallery" in wanted:  # before the deck, which writes answers
            gallery(lab)
        if "deck" in wanted:
            deck(lab)
            nodes(Path(place))
        if "nodes" in wanted:
            several_nodes(Path(place))


if __name__ == "__main__":
    main()
