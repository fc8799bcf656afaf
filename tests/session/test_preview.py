"""A preview says what of its files the student changed, and sends and writes nothing to find out."""

from __future__ import annotations

from pathlib import Path

import pytest

from labtui.session.folder import read_remote
from labtui.session.labs import gather_evidence, start_copy
from tests.session.conftest import Bench, accepted, draft


def scripts_of(bench: Bench) -> Path:
    return bench.path / "scripts"


def test_a_preview_writes_and_sends_nothing(bench: Bench) -> None:
    accepted(bench)
    (scripts_of(bench) / "ResNet50.py").write_text("edited\n")
    before = {path: path.read_bytes() for path in bench.path.rglob("*") if path.suffix in {".py", ".slurm"}}
    calls = len(bench.cluster.calls)
    bench.session.preview(draft())
    assert len(bench.cluster.calls) == calls
    assert before == {
        path: path.read_bytes() for path in bench.path.rglob("*") if path.suffix in {".py", ".slurm"}
    }
    assert len(bench.session.state.submissions) == 1


def test_a_preview_names_the_scripts_that_the_student_changed(bench: Bench) -> None:
    assert not any(file.changed for file in bench.session.preview(draft()).files)
    (scripts_of(bench) / "ResNet50.py").write_text("edited\n")
    (scripts_of(bench) / "new.py").write_text("x = 1\n")
    files = {file.path: file for file in bench.session.preview(draft()).files}
    assert [name for name, file in files.items() if file.changed] == ["ResNet50.py"]
    assert files["new.py"].size == 6


def test_a_script_of_an_older_labtui_is_not_changed_by_the_student(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither in the preview, nor for a task that wants a script of the student's own."""
    folder = bench.session.folder
    newer = {"ResNet50.py": b"x = 'as a newer labtui brings it'\n"}
    monkeypatch.setattr("labtui.session.folder.read_remote", lambda name: newer.get(name, read_remote(name)))
    (folder.scripts / "ResNet50.py").write_bytes(read_remote("ResNet50.py").replace(b"\n", b"\r\n"))
    assert not any(file.changed for file in bench.session.preview(draft()).files)
    evidence = gather_evidence(folder, bench.session.edition, bench.session.state)
    assert evidence.originals["ResNet50.py"] == evidence.scripts["ResNet50.py"]
    start_copy(folder, "ResNet152.py", "ResNet50.py")  # what the student did not write gives way
    assert [file.path for file in bench.session.preview(draft()).files if file.changed] == ["ResNet50.py"]
