"""Pushing files by content: what goes up under which hash, how it gets there, and what has changed since.

Beside the directories of submissions lies a store of file contents by SHA-256. One command compares, copies
what the store already has, and names what it needs; what is needed goes up once and the same command is run
again. So a file that did not change costs nothing, even in a new directory, and every file appears whole or
not at all.

Two words stand beside each file that would be sent: whether it differs from the newest submission that Slurm accepted
(its files lie in their own directory there and are known here too), and from the lab's shared copy, which `labtui push`
fills.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from labtui.cluster.connection import Connection
from labtui.domain.errors import ConnectionLost, RemoteFailure, UsageError
from labtui.domain.events import SubmissionState
from labtui.domain.model import JobForm, SubmissionStatus
from labtui.slurm.remote_command import LIMIT, PINNED, CommandResult, RemoteCommand
from labtui.slurm.sbatch_answers import classify

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
    arguments = {"dir": remote_dir, "store": store, "files": [[f.path, f.digest, f.mode] for f in wanted]}
    return RemoteCommand("push", "\n".join(lines), arguments)


def digests_command(remote_dir: str, paths: Iterable[str]) -> RemoteCommand:
    """Ask what lies under these paths of a directory: a SHA-256 or ``-``, one a line. Changes nothing there."""
    wanted_paths = list(paths)
    look = (
        'cd -- "$1" >/dev/null 2>&1; here=$?; shift; for path; do '
        'if [ $here = 0 ] && [ -f "$path" ]; then sha256sum <"$path" | cut -c1-64; else echo -; fi; done'
    )
    names = [f"./{path}" for path in wanted_paths]
    script = shlex.join(["limit", "20", "bash", "-c", look, "look", remote_dir, *names])
    return RemoteCommand(
        "digests", f"{PINNED}\n{LIMIT}\n{script}", {"dir": remote_dir, "paths": wanted_paths}
    )


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


BATCH = 200
"""Files asked about in one command."""

Progress = Callable[[str, int, int], None]
"""Called with (path, bytes sent so far, bytes to send)."""


def push_files(
    connection: Connection,
    files: Mapping[str, bytes],
    remote_dir: str,
    progress: Progress | None = None,
) -> PushReport:
    """Make `remote_dir` hold `files`. Each lands under a temporary name and is renamed when it is whole.

    Raises:
        RemoteFailure: no room, no permission.
        ConnectionLost: the line broke; pushing again costs only what is missing.
    """
    plan = plan_push(files)
    needed = [
        file
        for start in range(0, max(1, len(plan)), BATCH)
        for file in _ask(connection, remote_dir, plan[start : start + BATCH])
    ]
    contents = {file.digest: file for file in needed}
    total = sum(len(file.data) for file in contents.values())
    done = 0
    store = store_of(remote_dir)
    for digest, file in contents.items():
        connection.files.write_atomic(f"{store}/{digest}", file.data, 0o600)
        done += len(file.data)
        if progress is not None:
            progress(file.path, done, total)
    for start in range(0, len(needed), BATCH):
        if _ask(connection, remote_dir, needed[start : start + BATCH]):
            raise RemoteFailure("Files that were sent are not there any more.", "Push again.", wait=True)
    sent = {file.path for file in needed}
    return PushReport(
        sent=tuple(file.path for file in plan if file.path in sent),
        unchanged=tuple(file.path for file in plan if file.path not in sent),
        bytes_sent=done,
    )


def digests_of(connection: Connection, remote_dir: str, paths: Sequence[str]) -> dict[str, str | None]:
    """What lies under `paths` of `remote_dir`: SHA-256 by path, None for what is not there. Changes nothing.

    Raises:
        RemoteFailure: the cluster gave no answer that can be read.
    """
    found: dict[str, str | None] = {}
    for start in range(0, len(paths), BATCH):
        batch = paths[start : start + BATCH]
        digests = parse_digests(connection.run(digests_command(remote_dir, batch), timeout_s=30).out, batch)
        if digests is None:
            raise RemoteFailure(
                f"The cluster did not say what lies in {remote_dir}.", "Its file system may be slow now."
            )
        found |= digests
    return found


def _ask(connection: Connection, remote_dir: str, files: Sequence[PushFile]) -> list[PushFile]:
    """Put in place what can be; the files that have to be sent."""
    result = connection.run(push_command(remote_dir, files), timeout_s=60)
    words = parse_push(result.out, len(files))
    if result.status is None:
        raise ConnectionLost(
            f"{connection.host} gave no answer about the files.", "Push again; it costs only what is missing."
        )
    if result.status != 0 or words is None or "failed" in words:
        raise _failure(remote_dir, result)
    return [file for file, word in zip(files, words, strict=True) if word == "need"]


def _failure(remote_dir: str, result: CommandResult) -> RemoteFailure:
    stderr = result.err.strip()
    refusal = classify(stderr)
    if refusal.key in ("quota", "permission"):
        return RemoteFailure(
            f"The files cannot be put into {remote_dir}: {refusal.sentence}",
            refusal.hint,
            detail=stderr,
            wait=refusal.key == "quota",
        )
    last = stderr.splitlines()[-1] if stderr else "no reason given"
    return RemoteFailure(
        f"The files cannot be put into {remote_dir}: {last}",
        "Check the remote folder (`root`).",
        detail=stderr,
    )


Standing = Literal["new", "changed", "unchanged"]
"""A file beside another copy of it: that one is not there, is another text, is the same."""

MAX_DIFFERENCE_BYTES = 200_000
"""Of longer files nobody reads the difference, and finding it would take seconds."""


@dataclass(frozen=True, slots=True)
class Sent:
    """What an accepted submission was sent with. `files` are the contents that are still kept here."""

    submission: SubmissionState
    files: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def job_id(self) -> str:
        """Slurm's number of its job."""
        return self.submission.job.job_id if self.submission.job is not None else ""


def newest_sent(submissions: Iterable[SubmissionState]) -> SubmissionState | None:
    """The newest submission that Slurm accepted and whose files are known; None when there is none."""
    known = _known(submissions)
    return max(known, key=lambda item: item.planned_at, default=None)


def nearest_sent(submissions: Iterable[SubmissionState], form: JobForm, gpus: int) -> SubmissionState | None:
    """The accepted submission whose job script is most like one of this form with so many GPUs; the newest of those."""
    known = _known(submissions)
    return max(
        known,
        key=lambda item: (item.form == form, item.form == form and item.gpus == gpus, item.planned_at),
        default=None,
    )


def _known(submissions: Iterable[SubmissionState]) -> list[SubmissionState]:
    """The accepted ones whose files are known, the last one first: of those planned in one moment it is meant."""
    found = [
        item
        for item in submissions
        if item.status is SubmissionStatus.ACCEPTED and item.job is not None and item.script_hashes
    ]
    return found[::-1]


def standing(data: bytes, digest: str | None, old: bytes | None = None) -> Standing:
    """How `data` stands beside a copy with this SHA-256 hex digest (None: there is none), or this content."""
    if old is not None:
        return "unchanged" if _unix(data) == _unix(old) else "changed"
    if digest is None:
        return "new"
    return "unchanged" if hashlib.sha256(data).hexdigest() == digest else "changed"


def pushed_digest(path: str, data: bytes) -> str:
    """The digest of a file as a push puts it there; empty when its name cannot be pushed."""
    try:
        (planned,) = plan_push({path: data})
    except UsageError:
        return ""
    return planned.digest


def as_if_now(old: bytes, sent: SubmissionState, token: str, job_name: str) -> bytes:
    """A job script of then with the identity of now: token, job name and directory differ in every submission."""
    return old.replace(sent.job_name.encode(), job_name.encode()).replace(sent.token.encode(), token.encode())


def difference(old: bytes, new: bytes, path: str, since: str) -> str:
    """The unified difference of two texts; empty for binary or very long files.

    `since` says what the old one is, e.g. ``job 31337``.
    """
    if max(len(old), len(new)) > MAX_DIFFERENCE_BYTES or b"\0" in old + new:
        return ""
    import difflib

    lines = difflib.unified_diff(
        _unix(old).decode("utf-8", "replace").splitlines(),
        _unix(new).decode("utf-8", "replace").splitlines(),
        f"{path} ({since})",
        f"{path} (now)",
        lineterm="",
        n=2,
    )
    return "\n".join(lines)


def _unix(data: bytes) -> bytes:
    return data.replace(b"\r\n", b"\n")
