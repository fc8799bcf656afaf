"""The frame around remote commands: real shells, noise, odd accounts."""

import shutil
import subprocess
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labtui.cluster.files import plan_push, put_files, store_of
from labtui.domain.errors import ConnectionLost, RemoteFailure, UsageError
from labtui.slurm.probe import paths_exist, paths_probe
from labtui.slurm.remote_command import Call, cut_frame, frame
from tests.slurm.recorded import read

MARKER = "0123456789abcdef"


def run(script: str, home: Path, shell: str = "/bin/sh", **more: Any) -> subprocess.CompletedProcess[bytes]:
    words, environment = [shell, "-c", frame(script, MARKER)], {"HOME": str(home), "PATH": "/usr/bin:/bin"}
    return subprocess.run(words, capture_output=True, env=environment, **more)


def frame_answer(marker: str, content: bytes, status: int) -> bytes:
    """What a framed command writes on one stream."""
    name = marker.encode()
    return b"\n" + name + b"<\n" + content + b"\n" + name + b"> %d\n" % status


@given(content=st.binary(max_size=300), noise=st.binary(max_size=100), status=st.integers(0, 255))
def test_content_is_what_lies_between_the_markers(content, noise, status):
    cut = cut_frame(noise + frame_answer(MARKER, content, status) + noise, MARKER)
    assert (cut.stdout, cut.status, cut.began) == (content, status, True)


def test_an_unfinished_frame_has_no_status():
    whole = frame_answer(MARKER, b"content", 0)
    for length in range(len(whole)):
        cut = cut_frame(whole[:length], MARKER)
        assert cut.status is None and cut.stdout in b"content" + whole


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="no shellcheck here")
def test_shellcheck_finds_nothing_in_the_shell_files():
    folders = (resources.files("labtui.slurm") / "sh", resources.files("labtui.practice") / "shell")
    names = [str(path) for folder in folders for path in folder.iterdir()]
    done = subprocess.run(["shellcheck", "--shell=bash", *names], capture_output=True, text=True, check=False)
    assert len(names) >= 20 and not done.stdout


def test_arguments_of_a_shell_file_stay_words(tmp_path):
    hostile = ["$(touch pwned)", "a'b\"c", "; touch pwned", "-rf", "", "two\nlines"]
    script = "printf '%s\\0' \"$@\""
    call = Call(name="x", script=script, arguments=tuple(hostile), limit_s=1.0, read=lambda result: result)
    command = ["bash", "-c", call.text("abc")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split("\0")[:-1] == hostile and not list(tmp_path.iterdir())


def test_a_path_from_home_is_looked_for_at_home(tmp_path):
    (tmp_path / "my data").mkdir()
    there, data = paths_exist(["~/my data", "~/none"]), paths_probe("~/labtui", ["~/my data"])
    out = [run(call.text("abc"), tmp_path, cwd=tmp_path).stdout.decode() for call in (there, data)]
    assert "there\nmissing" in out[0] and "dir readable" in out[1]


SHELLS = map(shutil.which, ("sh", "bash", "dash", "zsh", "fish", "csh", "tcsh", "ksh"))


@pytest.mark.parametrize("shell", filter(None, SHELLS))
def test_any_account_shell_passes_the_script_on(shell, tmp_path):
    script = "cat; printf '%s' \"it's $((1+1)) \\\\ ! \\`\"; echo out >&2; exit 7"
    done = run(script, tmp_path, shell, input=b"standard input is empty")
    out, err = cut_frame(done.stdout, MARKER), cut_frame(done.stderr, MARKER)
    assert (out.stdout, out.status, err.stdout) == (b"it's 2 \\ ! `", 7, b"out\n")


def test_noise_before_and_after_is_no_output(tmp_path):
    (tmp_path / ".bash_profile").write_text("echo welcome; echo grumble >&2; trap 'echo bye' EXIT; set -eu\n")
    done = run("false; echo fine; echo $UNSET_VARIABLE", tmp_path)
    out = cut_frame(done.stdout, MARKER)
    assert (out.stdout, out.status) == (b"fine\n\n", 0)
    assert b"welcome" in out.noise and b"bye" not in out.stdout
    assert b"grumble" in cut_frame(done.stderr, MARKER).noise
    (tmp_path / ".bash_profile").write_text("echo your password has expired; exit 3\n")
    cut = cut_frame(run("echo fine", tmp_path).stdout, MARKER)
    assert (cut.began, cut.status) == (False, None) and b"expired" in cut.noise


def place_all(remote_dir: Path, files: dict[str, bytes]) -> list[str]:
    plan = plan_push(files)
    call = put_files(str(remote_dir), plan)
    done = subprocess.run(["bash", "-c", call.text("abc")], capture_output=True, check=True)
    needed = read(call, done.stdout.decode())
    for file in needed:
        (Path(store_of(str(remote_dir))) / file.digest).write_bytes(file.data)
    words = done.stdout.decode().split()
    assert [file for file, word in zip(plan, words, strict=True) if word == "need"] == needed
    return words


def push(remote_dir: Path, files: dict[str, bytes]) -> list[str]:
    first = place_all(remote_dir, files)
    if "need" in first:
        assert "need" not in place_all(remote_dir, files)
    return first


FILES = {"a b.py": b"print(1)\r\n", "-odd'$(x)": b"\x00\r\n\xff"}
FILES |= {"sub/deep/job.slurm": b"#!/bin/bash\necho\n"}


def test_files_land_with_content_and_mode(tmp_path):
    target = tmp_path / "lab dir" / "one"
    assert push(target, FILES) == ["need"] * 3
    assert (target / "a b.py").read_bytes() == b"print(1)\n"
    assert (target / "-odd'$(x)").read_bytes() == b"\x00\r\n\xff"
    assert (target / "sub/deep/job.slurm").stat().st_mode & 0o777 == 0o755
    assert (target / "a b.py").stat().st_mode & 0o777 == 0o644
    assert not list(target.rglob("*.part"))


def test_what_is_there_costs_nothing_and_damage_is_noticed(tmp_path):
    push(tmp_path / "one", FILES)
    assert place_all(tmp_path / "one", FILES) == ["same"] * 3
    assert place_all(tmp_path / "two", FILES) == ["placed"] * 3
    assert (tmp_path / "two" / "a b.py").read_bytes() == b"print(1)\n"
    (tmp_path / "one" / "a b.py").write_text("edited")
    assert place_all(tmp_path / "one", FILES) == ["same", "placed", "same"]
    for item in (tmp_path / ".objects").iterdir():
        item.write_bytes(b"rot")
    assert place_all(tmp_path / "three", FILES) == ["need"] * 3
    assert not (tmp_path / "three" / "a b.py").exists()
    push(tmp_path / "three", FILES)
    assert (tmp_path / "three" / "a b.py").read_bytes() == b"print(1)\n"


def test_paths_that_leave_the_folder():
    for path in ("/etc/passwd", "../up", "a/../../up", "", ".", "a\nb", "C:\\x", "a\x1b[31m", "\udcff.py"):
        with pytest.raises(UsageError):
            plan_push({path: b""})
    assert plan_push({"of\\windows.py": b""})[0].path == "of/windows.py"


@pytest.mark.parametrize("text", ["", "same", "same same same", "same maybe", "same failed"])
def test_an_incomplete_answer_is_a_failure(text):
    call = put_files("/r", plan_push({"a": b"", "b": b""}))
    with pytest.raises(RemoteFailure):
        read(call, text)
    with pytest.raises(ConnectionLost):
        read(call, text, status=None)
