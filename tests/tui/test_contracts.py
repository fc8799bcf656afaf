"""Pictures the screens are held to, as simplified SVG: layout, words and colours at two widths, dark and light.

One that is meant to differ is written with LABTUI_WRITE_CONTRACTS=1. Another Textual version skips them.
"""

import asyncio
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import textual
from textual.widgets import Input

from labtui.cluster.target import LoginQuestion
from labtui.session import planning
from labtui.tui.app import LabApp
from labtui.tui.messages import ScreenPrompter
from tests import changes
from tests.tui.fed_session import HOST, FedSession, lab_session, make_folder, open_session
from tests.tui.waiting import text_of, until

HERE = Path(__file__).parent / "contracts"
TEXTUAL = "8.2.8"
pytestmark = pytest.mark.skipif(textual.__version__ != TEXTUAL, reason=f"they are of Textual {TEXTUAL}")
_IDS = re.compile(r"terminal-\d+")
TOKEN = "lt0123456789abcdef0123"


class Contract(NamedTuple):
    """A picture: how to get there, and what must be on the screen before it is taken."""

    name: str
    size: tuple[int, int]
    keys: tuple[str, ...]
    words: str
    theme: str = "labtui-dark"


CONTRACTS = [
    Contract("runs-80", (80, 24), ("r",), "0:11 left"),
    Contract("runs-120", (120, 40), ("r",), "(2.53×) so far"),
    Contract("tasks-80", (80, 24), ("g",), "10.6 A larger model"),
    Contract("charts-80-light", (80, 24), ("c",), "(2.53×) so far", "labtui-light"),
]


def normal(svg: str) -> str:
    """Without the ids that are made from the content; lines end with LF."""
    return _IDS.sub("terminal", svg).replace("\r\n", "\n").rstrip() + "\n"


@pytest.fixture
def lab(tmp_path: Path) -> FedSession:
    folder = make_folder(tmp_path / "lab", str(HERE / "edition.toml"))
    session = open_session(folder.path, start=False)
    session.requests = []
    lab_session(session)
    return session


SETTLED = 100
"""Pictures in a row that are equal, before one is stored."""
TRIES = 1000


async def hold(app: LabApp, pilot: object, contract: Contract, condition: Callable[[], bool]) -> None:
    """Compare the screen with the stored picture, or store it."""
    await until(pilot, condition, contract.words)  # type: ignore[arg-type]
    for line in app.screen.query(Input):
        line.cursor_blink = False
    await until(pilot, lambda: not app._notifications)  # type: ignore[arg-type]
    path = HERE / f"{contract.name}.svg"
    writing = bool(os.environ.get("LABTUI_WRITE_CONTRACTS"))
    expected = None if writing else path.read_text()
    shown, same, tries = "", 0, 0
    while shown != expected and tries < TRIES and (not writing or same < SETTLED):
        await pilot.pause()  # type: ignore[attr-defined]
        await asyncio.sleep(0.02)  # what is computed in a thread may still come
        tries += 1
        before, shown = shown, normal(app.export_screenshot(title="labtui", simplify=True))
        same = same + 1 if shown == before else 0
    if writing:
        path.write_text(shown, newline="\n")
    assert path.read_text() == shown, f"{path.name} differs; the screen reads\n{text_of(app)}"


@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda contract: contract.name)
async def test_the_screen_looks_as_agreed(lab, contract, monkeypatch):
    monkeypatch.setattr(planning.secrets, "token_hex", lambda _: TOKEN[2:])
    app = LabApp(lab)
    async with app.run_test(size=contract.size, notifications=True) as pilot:
        app.theme = contract.theme
        await until(pilot, lambda: bool(app.view_model.checks))
        await pilot.press(*contract.keys)
        await hold(app, pilot, contract, lambda: contract.words in text_of(app))
    lab.close()


QUESTION = LoginQuestion(
    kind="host-key", text="The authenticity of this server has never been seen.", host=HOST,
    fingerprint="SHA256:0123456789abcdefghijklmnopqrstuvwxyzABCDEFG",
)  # fmt: skip


async def test_the_question_about_a_server_looks_as_agreed(lab):
    app = LabApp(lab, prompter=ScreenPrompter())
    contract = Contract("host-key-80", (80, 24), (), "SHA256:")
    async with app.run_test(size=contract.size, notifications=True) as pilot:
        await until(pilot, lambda: bool(app.view_model.checks))
        lab.feed(changes.problem("x", "The cluster does not answer.", "Press u to try now."))
        await until(pilot, lambda: "does not answer" in text_of(app))
        app.call_later(app.prompter.show, app, QUESTION, lambda answer: None)
        await hold(app, pilot, contract, lambda: "SHA256:" in text_of(app))
    lab.close()
