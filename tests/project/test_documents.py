"""What the documents point to is there: tests and files by name, links, targets of the Makefile."""

import re
from functools import cache
from itertools import chain
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
TEST = re.compile(r"`(?:\w+/)*(test_\w+)(?:\.py)?(?:::(test_\w+))?`")
SOURCE = re.compile(r"`((?:\w+/)+\w+\.(?:py|toml|slurm|sh))`")
LINK = re.compile(r"\]\(([^)#\s]+)")
TARGET = re.compile(r"`make ([a-z-]+)")


@cache
def names_of_tests() -> str:
    """Every file of tests and every test, a line each."""
    files = {path.stem: path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py")}
    return "\n".join(
        [*files, *re.findall(r"^(?:async )?def (test_\w+)", "\n".join(files.values()), re.MULTILINE)]
    )


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_what_a_document_points_to_is_there(document):
    text = document.read_text(encoding="utf-8")
    for name in {*chain.from_iterable(TEST.findall(text))} - {"", "test_batch"}:  # CIFAR-10 has a test_batch
        assert re.search(rf"^{name}$", names_of_tests(), re.MULTILINE), name
    if document.name == "architecture.md":  # elsewhere a file may be the student's, or an example
        for file in SOURCE.findall(text):
            assert any((folder / file).exists() for folder in (ROOT, ROOT / "src" / "labtui")), file
    for target in LINK.findall(re.sub(r"`[^`\n]*`", "", text)):  # what stands as code is an example
        assert re.match(r"[a-z]+:", target) or (document.parent / target).exists(), target
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert set(TARGET.findall(text)) <= targets
