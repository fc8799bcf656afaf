"""The scripts as text: Python 3.8, only TensorFlow and NumPy, short and readable where students look."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from tests.remote.conftest import REMOTE

FILES = sorted(path for path in REMOTE.rglob("*.py"))
SCRIPTS = [path for path in FILES if path.name.startswith("ResNet")]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_python_3_8_reads_it(path: Path) -> None:
    ast.parse(path.read_text(encoding="utf-8"), str(path), feature_version=(3, 8))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_imports_only_what_a_course_container_has(path: Path) -> None:
    own = {file.stem for file in FILES}
    roots = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            roots |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            roots.add((node.module or "").split(".")[0])
    framework = {"torch", "PIL"} if path.parent.name == "pytorch" else {"tensorflow"}
    framework |= {"liger_kernel"} if path.name == "benchmark_lm.py" else set()  # only with --use_liger_kernel
    assert roots <= own | framework | {"numpy"} | set(sys.stdlib_module_names)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_scripts_are_short_ascii_and_lf(path: Path) -> None:
    data = path.read_bytes()
    assert data.isascii() and b"\r" not in data and data.endswith(b"\n")
    assert data.count(b"\n") <= 45


@pytest.mark.parametrize("kind", ["", "_seq"])
def test_the_labs_edit_is_one_word(kind: str) -> None:
    """ResNet50 becomes ResNet152 by copying the script and changing the network's name in one place."""
    text = (REMOTE / f"ResNet50{kind}.py").read_text()
    names = [node.attr for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Attribute)]
    assert names.count("ResNet50V2") == 1
    assert {"fit", "compile", "SGD"} <= set(names)
    assert ("MirroredStrategy" in names) == (kind == "")


def test_every_model_has_both_scripts() -> None:
    expected = {f"ResNet{depth}{kind}.py" for depth in (50, 101, 152) for kind in ("", "_seq")}
    assert {path.name for path in SCRIPTS} == expected
