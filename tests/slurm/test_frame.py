"""The frame around remote commands: real shells, noise, odd accounts."""

from __future__ import annotations

import shutil
import subprocess
from importlib import resources
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labtui.slurm.remote_command import Call, cut_frame, frame

MARKER = "0123456789abcdef"


def run(
    script: str, home: Path, shell: str = "/bin/sh", **kwargs: object
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(  # type: ignore[call-overload,no-any-return]
        [shell, "-c", frame(script, MARKER)], capture_output=True, env={"HOME": str(home), "PATH": "/usr/bin:/bin"},
        **kwargs,
    )  # fmt: skip


def frame_answer(marker: str, content: bytes, status: int) -> bytes:
    """What a framed command writes on one stream."""
    name = marker.encode()
    return b"\n" + name + b"<\n" + content + b"\n" + name + b"> %d\n" % status


@given(content=st.binary(max_size=300), noise=st.binary(max_size=100), status=st.integers(0, 255))
def test_content_is_what_lies_between_the_markers(content: bytes, noise: bytes, status: int) -> None:
    cut = cut_frame(noise + frame_answer(MARKER, content, status) + noise, MARKER)
    assert (cut.content, cut.status, cut.began) == (content, status, True)


def test_an_unfinished_frame_has_no_status() -> None:
    whole = frame_answer(MARKER, b"content", 0)
    for length in range(len(whole)):
        cut = cut_frame(whole[:length], MARKER)
        assert cut.status is None
        assert cut.content in b"content" + whole


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="no shellcheck here")
def test_shellcheck_finds_nothing_in_the_shell_files() -> None:
    folder = resources.files("labtui.slurm").joinpath("sh")
    names = [str(path) for path in folder.iterdir() if path.name.endswith(".sh")]
    done = subprocess.run(["shellcheck", *names], capture_output=True, text=True, check=False)
    assert len(names) >= 4 and not done.stdout


def test_arguments_of_a_shell_file_stay_words(tmp_path: Path) -> None:
    hostile = ["$(touch pwned)", "a'b\"c", "; touch pwned", "-rf", "", "two\nlines"]
    call = Call(
        name="x",
        script="printf '%s\\0' \"$@\"",
        arguments=tuple(hostile),
        limit_s=1.0,
        read=lambda result: result,
    )
    done = subprocess.run(
        ["bash", "-c", call.text("abc")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split("\0")[:-1] == hostile
    assert not list(tmp_path.iterdir())


SHELLS = [
    path
    for name in ("sh", "bash", "dash", "zsh", "fish", "csh", "tcsh", "ksh")
    if (path := shutil.which(name))
]


@pytest.mark.parametrize("shell", SHELLS)
def test_any_account_shell_passes_the_script_on(shell: str, tmp_path: Path) -> None:
    done = run("printf '%s' \"it's $((1+1)) \\\\ ! \\`\"; echo out >&2; exit 7", tmp_path, shell)
    out, err = cut_frame(done.stdout, MARKER), cut_frame(done.stderr, MARKER)
    assert (out.content, out.status, err.content) == (b"it's 2 \\ ! `", 7, b"out\n")


def test_noise_before_and_after_is_no_output(tmp_path: Path) -> None:
    (tmp_path / ".bash_profile").write_text("echo welcome; echo grumble >&2; trap 'echo bye' EXIT; set -eu\n")
    done = run("false; echo fine; echo $UNSET_VARIABLE", tmp_path)
    out = cut_frame(done.stdout, MARKER)
    assert (out.content, out.status) == (b"fine\n\n", 0)
    assert b"welcome" in out.noise and b"bye" not in out.content
    assert b"grumble" in cut_frame(done.stderr, MARKER).noise


def test_a_profile_that_exits_shows_as_not_begun(tmp_path: Path) -> None:
    (tmp_path / ".bash_profile").write_text("echo your password has expired; exit 3\n")
    done = run("echo fine", tmp_path)
    cut = cut_frame(done.stdout, MARKER)
    assert (cut.began, cut.status) == (False, None) and b"expired" in cut.noise


def test_a_script_has_no_standard_input(tmp_path: Path) -> None:
    done = run("cat", tmp_path, input=b"bytes")
    assert cut_frame(done.stdout, MARKER).content == b""
