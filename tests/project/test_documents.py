"""What the documents point to is there: tests by name, files, targets of the Makefile."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TEST = re.compile(r"`((?:\w+/)*test_\w+)(?:::(test_\w+))?`")
LINK = re.compile(r"\]\(([^)#\s]+)")
TARGET = re.compile(r"`make ([a-z-]+)")


def ids(path: Path) -> str:
    return path.name


@pytest.mark.parametrize("document", DOCUMENTS, ids=ids)
def test_every_test_that_is_named_exists(document: Path) -> None:
    for file, name in TEST.findall(document.read_text(encoding="utf-8")):
        found = list((ROOT / "tests").rglob(f"{file}.py"))
        assert found or not name, f"{file} is no file of tests"
        if name:
            assert any(f"def {name}(" in path.read_text(encoding="utf-8") for path in found), (
                f"{file}::{name}"
            )
        elif "/" in file:
            assert found, f"{file} is no file of tests"


@pytest.mark.parametrize("document", DOCUMENTS, ids=ids)
def test_every_link_inside_the_project_leads_somewhere(document: Path) -> None:
    # What stands as code is an example.
    prose = re.sub(r"`[^`\n]*`", "", document.read_text(encoding="utf-8"))
    for target in LINK.findall(prose):
        if not re.match(r"[a-z]+:", target):
            assert (document.parent / target).exists(), target


@pytest.mark.parametrize("document", DOCUMENTS, ids=ids)
def test_every_make_target_that_is_named_exists(document: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert set(TARGET.findall(document.read_text(encoding="utf-8"))) <= targets
