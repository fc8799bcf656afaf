"""What is loaded when: a student waits for every import, and import-linter does not see what other packages drag in."""

import os
import subprocess
import sys

import pytest
from msgspec.structs import replace

from labtui.commands.cli import COMMANDS
from tests.tui.fed_session import lab_session, make_folder, open_session

HEAVY = {"textual", "paramiko", "pandas", "numpy", "matplotlib", "plotext", "pptx", "typst", "tensorflow"}


def loaded_after(code: str) -> set[str]:
    """Modules in memory after running `code` in a fresh interpreter, and the packages they are in."""
    script = f"import sys\n{code}\nprint(*sys.modules, file=sys.stderr)"
    env = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=True)
    names = done.stderr.splitlines()[-1].split()
    return {*names, *(name.rpartition(".")[0] for name in names), *(name.split(".")[0] for name in names)}


WORDS = [["--version"], ["--help"], *([name, "--help"] for name in COMMANDS)]
"""One after the other in one process: what one of them loaded would be there after the last."""
HELP = f"""from labtui.commands.cli import main
for words in {WORDS}:
    try: main(words)
    except SystemExit: pass"""
PURE = """import pkgutil, importlib
for name in ("domain", "slurm", "training_logs", "results", "preflight", "lab"):
    package = importlib.import_module(f"labtui.{name}")
    for found in pkgutil.walk_packages(package.__path__, f"labtui.{name}."):
        importlib.import_module(found.name)"""


@pytest.mark.parametrize(
    ("code", "not_loaded"),
    [
        *((HELP, HEAVY), (PURE, HEAVY | {"sqlite3"})),
        ("import labtui.session.session, labtui.cluster.connection", HEAVY - {"paramiko"}),
        ("import labtui.export, labtui.commands.results", HEAVY | {"pygments", "markdown_it"}),
    ],
    ids=["version and help", "pure packages", "session and cluster", "exports, until they draw"],
)
def test_nothing_heavy_is_loaded_by(code, not_loaded):
    assert not loaded_after(code) & not_loaded


def test_the_thread_that_paints_loads_nothing_heavy_not_even_to_connect(tmp_path):
    folder = make_folder(tmp_path / "lab")
    folder.save_settings(replace(folder.settings(), host="127.0.0.1", port=9))
    session = open_session(folder.path)
    lab_session(session)
    session.close()
    code = (
        "import asyncio, sys, threading\n"
        "from labtui.session.session import Session\n"
        "from labtui.tui.app import LabApp\n"
        "class Painter:\n"
        "    def find_spec(self, name, *_):\n"
        "        assert name != 'paramiko' or threading.current_thread() is not threading.main_thread()\n"
        "sys.meta_path.insert(0, Painter())\n"
        f"session = Session.open({str(tmp_path / 'lab')!r}, start=False)\n"
        "async def main():\n"
        "    async with asyncio.timeout(60), LabApp(session, pane='task').run_test(size=(80, 24)):\n"
        "        while not session.state.connection.tried: await asyncio.sleep(0.01)\n"
        "asyncio.run(main())\n"
        "session.close()"
    )
    loaded = loaded_after(code)
    assert "paramiko" in loaded and not loaded & ((HEAVY - {"textual", "paramiko"}) | {"scipy"})


def test_the_first_frame_loads_nothing_that_only_later_ones_need(tmp_path):
    """What computes numbers, reads logs or speaks to the cluster comes after the first paint."""
    code = (
        "from labtui.session.folder import LabFolder\n"
        "from labtui.session.session import Session\n"
        "from labtui.session.settings import Settings\n"
        "from labtui.tui.app import LabApp\n"
        "from labtui.tui.screens.main import MainScreen\n"
        f"folder = LabFolder.create({str(tmp_path / 'lab')!r}, Settings(edition='hpc4ai-ch10', profile='mn5'))\n"
        "session = Session.open(folder.path, start=False)\n"
        "MainScreen._first_pane = lambda screen: screen.app.exit()\n"
        "LabApp(session).run(headless=True, size=(120, 40))\n"
        "session.close()"
    )
    late = {"labtui.results", "labtui.training_logs.runs", "labtui.slurm", "labtui.export", "labtui.doctor"}
    late |= {"labtui.tui.widgets.selected_run", "labtui.lab", "labtui.preflight"}
    assert not loaded_after(code) & late
