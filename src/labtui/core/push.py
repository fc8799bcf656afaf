"""Pushing files by content: what goes up under which hash, and the one command that puts it in place.

Beside the directories of submissions lies a store of file contents by SHA-256. The command compares, copies
what the store already has, and names what it needs; what is needed goes up once and the same command is run
again. So a file that did not change costs nothing, even in a new directory, and every file appears whole or
not at all.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from labtui.core.remote import RemoteCommand
from labtui.core.slurm.shell import LIMIT, PINNED
from labtui.errors import UsageError

STORE = ".objects"
_TEXT_SUFFIXES = (".py", ".sh", ".bash", ".slurm", ".sbatch", ".txt", ".toml", ".cfg", ".md", ".csv")
_RUNNABLE_SUFFIXES = (".sh", ".bash", ".slurm", ".sbatch")


@dataclass(frozen=True, slots=True)
class PushFile:
    """One file as it will lie on the cluster: relative path, content, mode, SHA-256 in hex."""

    path: str
    data: bytes
    mode: int
    digest: str


@dataclass(frozen=True, slots=True)
class PushReport:
    """What a push did: paths that were sent, paths that cost nothing, bytes that went over the line."""

    sent: tuple[str, ...]
    unchanged: tuple[str, ...]
    bytes_sent: int


def plan_push(files: Mapping[str, bytes]) -> tuple[PushFile, ...]:
    """The files as they will lie there: scripts with Unix line breaks, runnable ones with their mode.

    Raises:
        UsageError: a path leaves the directory or cannot be a file name.
    """
    return tuple(_plan(path, data) for path, data in sorted(files.items()))


def _plan(path: str, data: bytes) -> PushFile:
    clean = posixpath.normpath(path.replace("\\", "/"))
    bad = (
        clean.startswith(("/", "../"))
        or clean in (".", "..")
        or re.search(r"[\x00-\x1f\x7f]|^[A-Za-z]:", clean)
    )
    if bad:
        raise UsageError(f"{path!r} cannot be pushed: it is no path inside the folder.", "Rename the file.")
    script = data.startswith(b"#!")
    if script or clean.endswith(_TEXT_SUFFIXES):
        data = data.replace(b"\r\n", b"\n")
    mode = 0o755 if script or clean.endswith(_RUNNABLE_SUFFIXES) else 0o644
    return PushFile(clean, data, mode, hashlib.sha256(data).hexdigest())


def store_of(remote_dir: str) -> str:
    """The store that `remote_dir` shares with its neighbours."""
    return posixpath.join(posixpath.dirname(remote_dir.rstrip("/")) or ".", STORE)


def push_command(remote_dir: str, files: Iterable[PushFile]) -> RemoteCommand:
    """Make the directories, then say for each file ``same``, ``placed`` or ``need``, one word a line."""
    wanted = list(files)
    store = store_of(remote_dir)
    folders = sorted({posixpath.dirname(file.path) for file in wanted} - {""})
    lines = [
        f"mkdir -p -- {shlex.join([remote_dir, store])} || exit 74",
        f"store=$(cd -- {shlex.quote(store)} >/dev/null && pwd) || exit 74",
        f"cd -- {shlex.quote(remote_dir)} >/dev/null || exit 74",
        f"mkdir -p -- {shlex.join(f'./{name}' for name in folders)} || exit 74" if folders else ":",
        'sum() { sha256sum 2>/dev/null <"$1" | cut -c1-64; }',
        "put() {",
        '  if [ -f "$1" ] && [ "$(sum "$1")" = "$2" ]; then chmod "$3" "$1"; echo same; return; fi',
        '  if ! [ -f "$store/$2" ]; then echo need; return; fi',
        '  part="$1.$$.part"',
        '  if cp -- "$store/$2" "$part" && chmod "$3" "$part" && [ "$(sum "$part")" = "$2" ]; then',
        '    mv -f -- "$part" "$1" && echo placed && return',
        "  fi",
        '  rm -f -- "$part"; [ "$(sum "$store/$2")" = "$2" ] && echo failed && return',
        '  rm -f -- "$store/$2"; echo need',
        "}",
    ]
    lines += [f"put {shlex.quote('./' + file.path)} {file.digest} {file.mode:o}" for file in wanted]
    told = {"dir": remote_dir, "store": store, "files": [[f.path, f.digest, f.mode] for f in wanted]}
    return RemoteCommand("push", "\n".join(lines), told)


def digests_command(remote_dir: str, paths: Iterable[str]) -> RemoteCommand:
    """Ask what lies under these paths of a directory: a SHA-256 or ``-``, one a line. Changes nothing there."""
    asked = list(paths)
    look = (
        'cd -- "$1" >/dev/null 2>&1; here=$?; shift; for path; do '
        'if [ $here = 0 ] && [ -f "$path" ]; then sha256sum <"$path" | cut -c1-64; else echo -; fi; done'
    )
    names = [f"./{path}" for path in asked]
    script = shlex.join(["limit", "20", "bash", "-c", look, "look", remote_dir, *names])
    return RemoteCommand("digests", f"{PINNED}\n{LIMIT}\n{script}", {"dir": remote_dir, "paths": asked})


def parse_digests(text: str, paths: Sequence[str]) -> dict[str, str | None] | None:
    """The digests by path, None for a file that is not there; None for an answer that is not complete."""
    words = text.split()
    if len(words) != len(paths) or not all(re.fullmatch(r"-|[0-9a-f]{64}", word) for word in words):
        return None
    return {path: None if word == "-" else word for path, word in zip(paths, words, strict=True)}


def parse_push(text: str, count: int) -> list[str] | None:
    """One word for each file, or None when the answer is not complete."""
    words = text.split()
    good = len(words) == count and set(words) <= {"same", "placed", "need", "failed"}
    return words if good else None
