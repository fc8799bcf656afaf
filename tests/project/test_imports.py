"""The layers hold at run time too: import-linter cannot see what a late import drags in."""

import subprocess
import sys

import pytest

HEAVY = (
    "textual",
    "paramiko",
    "pandas",
    "numpy",
    "matplotlib",
    "plotext",
    "pptx",
    "typst",
    "tensorflow",
    "sqlite3",
    "aiohttp",
)


def loaded_after(code: str) -> set[str]:
    """Top-level modules in memory after running `code` in a fresh interpreter."""
    script = (
        f"import sys\n{code}\nprint(*sorted({{name.split('.')[0] for name in sys.modules}}), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stderr.splitlines()[-1].split())


def test_version_loads_nothing_heavy():
    code = "from labtui.commands.cli import main\ntry: main(['--version'])\nexcept SystemExit: pass"
    assert not loaded_after(code) & set(HEAVY)


def test_help_loads_nothing_heavy():
    code = "from labtui.commands.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass"
    assert not loaded_after(code) & set(HEAVY)


@pytest.mark.parametrize(
    "command",
    [
        "parse",
        "results",
        "submit",
        "watch",
        "queue",
        "doctor",
        "check",
        "labs",
        "export",
        "plot",
    ],
)
def test_a_commands_help_loads_nothing_heavy(command):
    code = (
        f"from labtui.commands.cli import main\ntry: main(['{command}', '--help'])\nexcept SystemExit: pass"
    )
    assert not loaded_after(code) & (set(HEAVY) - {"sqlite3"})


@pytest.mark.parametrize("room", ["domain", "slurm", "training_logs", "results", "preflight", "lab"])
def test_a_pure_room_imports_nothing_heavy(room):
    code = (
        f"import pkgutil, importlib, labtui.{room} as room\n"
        f"for found in pkgutil.walk_packages(room.__path__, 'labtui.{room}.'): importlib.import_module(found.name)"
    )
    assert not loaded_after(code) & set(HEAVY)


def test_the_session_and_the_cluster_know_no_screen():
    code = "import labtui.session.session, labtui.cluster.connection"
    assert not loaded_after(code) & {"textual", "pandas", "numpy", "matplotlib", "plotext", "pptx", "typst"}


def test_the_first_frame_loads_nothing_that_only_later_ones_need(tmp_path):
    """What computes numbers, reads logs or speaks to the cluster comes after the first paint: that is a promise."""
    code = (
        "import sys\n"
        "from labtui.session.folder import LabFolder\n"
        "from labtui.session.session import Session\n"
        "from labtui.session.settings import Settings\n"
        "from labtui.tui.app import LabApp\n"
        f"folder = LabFolder.create({str(tmp_path / 'lab')!r}, Settings(edition='hpc4ai-ch10', profile='mn5'))\n"
        "session = Session.open(folder.path, start=False)\n"
        "LabApp(session).view_model.view_state()\n"
        "session.close()\n"
        "rooms = {name.rsplit('.', 1)[0] for name in sys.modules if name.startswith('labtui.')}\n"
        "late = [name for name in ('labtui.tui.widgets.tables', 'json') if name in sys.modules]\n"
        "print(*sorted(rooms), *late, sep='\\n', file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    late = {"labtui.results", "labtui.training_logs", "labtui.slurm", "labtui.export", "labtui.doctor"}
    late |= {"labtui.tui.widgets.tables", "json"}
    assert not late & set(done.stderr.split())
