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
)


def loaded_after(code: str) -> set[str]:
    """Top-level modules in memory after running `code` in a fresh interpreter."""
    script = (
        f"import sys\n{code}\nprint(*sorted({{name.split('.')[0] for name in sys.modules}}), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stderr.splitlines()[-1].split())


def test_version_loads_nothing_heavy():
    code = "from labtui.cli import main\ntry: main(['--version'])\nexcept SystemExit: pass"
    assert not loaded_after(code) & set(HEAVY)


def test_help_loads_nothing_heavy():
    code = "from labtui.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass"
    assert not loaded_after(code) & set(HEAVY)


@pytest.mark.parametrize(
    "verb", ["parse", "results", "submit", "watch", "queue", "doctor", "check", "labs", "export", "plot"]
)
def test_a_verbs_help_loads_nothing_heavy(verb):
    code = f"from labtui.cli import main\ntry: main(['{verb}', '--help'])\nexcept SystemExit: pass"
    assert not loaded_after(code) & (set(HEAVY) - {"sqlite3"})


def test_the_core_imports_nothing_heavy():
    code = (
        "import pkgutil, importlib, labtui.core as core\n"
        "for found in pkgutil.walk_packages(core.__path__, 'labtui.core.'): importlib.import_module(found.name)"
    )
    assert not loaded_after(code) & set(HEAVY)


def test_the_engine_and_the_cluster_know_no_screen():
    code = "import labtui.engine.session, labtui.cluster.connection"
    assert not loaded_after(code) & {"textual", "pandas", "numpy", "matplotlib", "plotext", "pptx", "typst"}
