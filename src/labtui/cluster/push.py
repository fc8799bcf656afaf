"""Files pushed by content: how they will lie on the cluster, and the question that puts in place what its store has.

Beside the directories of submissions lies a store of file contents by SHA-256. One question compares, copies what the
store already has, and names what it needs; what is needed goes up once and the same question is asked again. So a file
that did not change costs nothing, even in a new directory, and every file appears whole or not at all.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from labtui.cluster.target import failure
from labtui.domain.errors import RemoteFailure
from labtui.slurm.job_control import classify
from labtui.slurm.remote_command import Call, CommandResult, shell_file

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
        raise failure("bad-push", path=path)
    script = data.startswith(b"#!")
    if script or clean.endswith(_TEXT_SUFFIXES):
        data = data.replace(b"\r\n", b"\n")
    mode = 0o755 if script or clean.endswith(_RUNNABLE_SUFFIXES) else 0o644
    return PushFile(clean, data, mode, hashlib.sha256(data).hexdigest())


def store_of(remote_dir: str) -> str:
    """The store that `remote_dir` shares with its neighbours."""
    return posixpath.join(posixpath.dirname(remote_dir.rstrip("/")) or ".", STORE)


def place(remote_dir: str, files: Sequence[PushFile]) -> Call[list[PushFile]]:
    """Put in place what can be: the files that have to be sent. Reading may raise RemoteFailure."""
    triples = [word for file in files for word in (file.path, file.digest, f"{file.mode:o}")]
    return Call(
        name="push",
        script=shell_file("push"),
        arguments=(remote_dir, store_of(remote_dir), *triples),
        limit_s=60,
        read=partial(_read_placed, remote_dir, files),
        silence=("The cluster gave no answer about the files.", "Push again; only missing files are sent."),
    )


def _read_placed(remote_dir: str, files: Sequence[PushFile], result: CommandResult) -> list[PushFile]:
    words, known = result.out.split(), {"same", "placed", "need"}
    if result.status == 0 and len(words) == len(files) and set(words) <= known:
        return [file for file, word in zip(files, words, strict=True) if word == "need"]
    stderr = result.err.strip()
    refusal = classify(stderr)
    sentence, hint = (stderr.splitlines() or ["no reason given"])[-1], "Check the remote folder (`root`)."
    if refusal.key in ("quota", "permission"):
        sentence, hint = refusal.sentence, refusal.hint
    raise RemoteFailure(
        f"The files cannot be put into {remote_dir}: {sentence}",
        hint,
        detail=stderr,
        wait=refusal.key == "quota",
    )
