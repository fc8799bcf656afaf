"""Pushing by content: the plan, and the command run by a real bash."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from labtui.cluster.push import place, plan_push, store_of
from labtui.domain.errors import ConnectionLost, RemoteFailure, UsageError
from tests.slurm.recorded import read


def run(remote_dir: Path, files: dict[str, bytes]) -> list[str]:
    plan = plan_push(files)
    call = place(str(remote_dir), plan)
    done = subprocess.run(["bash", "-c", call.text("abc")], capture_output=True, check=True)
    needed = read(call, done.stdout.decode())
    for file in needed:
        (Path(store_of(str(remote_dir))) / file.digest).write_bytes(file.data)
    words = done.stdout.decode().split()
    assert [file for file, word in zip(plan, words, strict=True) if word == "need"] == needed
    return words


def push(remote_dir: Path, files: dict[str, bytes]) -> list[str]:
    first = run(remote_dir, files)
    if "need" in first:
        assert "need" not in run(remote_dir, files)
    return first


FILES = {
    "a b.py": b"print(1)\r\n",
    "sub/deep/job.slurm": b"#!/bin/bash\necho\n",
    "-odd'$(x)": b"\x00\r\n\xff",
}


def test_files_land_with_content_and_mode(tmp_path: Path) -> None:
    target = tmp_path / "lab dir" / "one"
    assert push(target, FILES) == ["need"] * 3
    assert (target / "a b.py").read_bytes() == b"print(1)\n"
    assert (target / "-odd'$(x)").read_bytes() == b"\x00\r\n\xff"
    assert (target / "sub/deep/job.slurm").stat().st_mode & 0o777 == 0o755
    assert (target / "a b.py").stat().st_mode & 0o777 == 0o644
    assert not list(target.rglob("*.part"))


def test_what_is_there_costs_nothing(tmp_path: Path) -> None:
    push(tmp_path / "one", FILES)
    assert run(tmp_path / "one", FILES) == ["same"] * 3
    assert run(tmp_path / "two", FILES) == ["placed"] * 3
    assert (tmp_path / "two" / "a b.py").read_bytes() == b"print(1)\n"


def test_a_damaged_store_is_noticed(tmp_path: Path) -> None:
    push(tmp_path / "one", FILES)
    for item in (tmp_path / ".objects").iterdir():
        item.write_bytes(b"rot")
    assert run(tmp_path / "two", FILES) == ["need"] * 3
    assert not (tmp_path / "two" / "a b.py").exists()
    push(tmp_path / "two", FILES)
    assert (tmp_path / "two" / "a b.py").read_bytes() == b"print(1)\n"


def test_a_file_that_was_edited_there_is_replaced(tmp_path: Path) -> None:
    push(tmp_path / "one", FILES)
    (tmp_path / "one" / "a b.py").write_text("edited")
    assert run(tmp_path / "one", FILES) == ["same", "placed", "same"]


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "../up", "a/../../up", "", ".", "a\nb", "C:\\x", "a\x1b[31m"]
)
def test_paths_that_leave_the_folder(path: str) -> None:
    with pytest.raises(UsageError):
        plan_push({path: b""})


def test_windows_separators_are_understood() -> None:
    assert plan_push({"cifar-utils\\cifar.py": b""})[0].path == "cifar-utils/cifar.py"


@pytest.mark.parametrize("text", ["", "same", "same same same", "same maybe", "same failed"])
def test_an_incomplete_answer_is_a_failure(text: str) -> None:
    call = place("/r", plan_push({"a": b"", "b": b""}))
    with pytest.raises(RemoteFailure):
        read(call, text)
    with pytest.raises(ConnectionLost):
        read(call, text, status=None)
