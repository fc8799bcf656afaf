"""A Slurm cluster as labtui uses it: the connection, its files, and whatever question there is to ask.

Files are pushed by content. Beside the directories of submissions lies a store of file contents by SHA-256. One
question compares, copies what the store already has, and names what it needs; what is needed goes up once and the same
question is asked again. So a file that did not change costs nothing, even in a new directory, and every file appears
whole or not at all.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from labtui.cluster.connection import Connection
from labtui.domain.errors import CannotConnect, RemoteFailure, UsageError
from labtui.slurm.remote_command import Call, CommandResult, T, shell_file
from labtui.slurm.sbatch_answers import classify

BATCH = 200
"""Files asked about in one command."""

PRACTICE_HINT = (
    "A practice cluster runs only while `labtui practice --keep DIR` has this folder open: start that."
)


class SlurmCluster:
    """A connection with Slurm behind it. Blocking; every call has a deadline of its own and raises `LabError`s.

    Files, `push` and `connect` belong to one thread; everything else may run beside it.
    """

    def __init__(self, connection: Connection, *, practice: bool = False) -> None:
        self.connection = connection
        self.remote_files = connection.files
        self._practice = practice
        self._home = ""

    @property
    def host(self) -> str:
        """The login host in use."""
        return self.connection.host

    @property
    def connected(self) -> bool:
        """Whether there is a connection that is not known to be dead."""
        return self.connection.connected

    def connect(self) -> None:
        """Connect and log in.

        Raises:
            CannotConnect, LoginRefused, HostKeyProblem.
        """
        try:
            self.connection.connect()
        except CannotConnect as error:
            if not self._practice:
                raise
            raise CannotConnect(error.sentence, PRACTICE_HINT) from None

    def close(self) -> None:
        """Drop the connection at once; unblocks whoever waits in another call. Any thread may call it."""
        self.connection.close()

    def ping(self, deadline_s: float) -> None:
        """A cheap request with a deadline. Raises ConnectionLost."""
        self.connection.ping(deadline_s)

    def ask(self, call: Call[T]) -> T:
        """Ask one question. Raises ConnectionLost, and what its reader raises."""
        return self.connection.ask(call)

    def home(self) -> str:
        """The absolute path of the home directory; asked once."""
        if not self._home:
            self._home = self.remote_files.home()
        return self._home

    def push(self, files: Mapping[str, bytes], remote_dir: str) -> PushReport:
        """Make `remote_dir` hold `files` (paths relative to it); each is renamed into place when it is whole.

        Raises:
            RemoteFailure: no room, no permission.
            ConnectionLost: the line broke; pushing again costs only what is missing.
        """
        plan = plan_push(files)
        needed = [
            file
            for start in range(0, max(1, len(plan)), BATCH)
            for file in self.ask(place(remote_dir, plan[start : start + BATCH]))
        ]
        contents = {file.digest: file for file in needed}
        store = store_of(remote_dir)
        for digest, file in contents.items():
            self.remote_files.write_atomic(f"{store}/{digest}", file.data, 0o600)
        for start in range(0, len(needed), BATCH):
            if self.ask(place(remote_dir, needed[start : start + BATCH])):
                raise RemoteFailure("Pushed files are missing on the cluster.", "Push again.", wait=True)
        sent = {file.path for file in needed}
        return PushReport(
            sent=tuple(file.path for file in plan if file.path in sent),
            unchanged=tuple(file.path for file in plan if file.path not in sent),
            bytes_sent=sum(len(file.data) for file in contents.values()),
        )


# --------------------------------------------------------------------------- files by content

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
        raise UsageError(
            f"{path!r} cannot be pushed: it is not a path inside the folder.", "Rename the file."
        )
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
    if refusal.key in ("quota", "permission"):
        sentence, hint = refusal.sentence, refusal.hint
    else:
        sentence = stderr.splitlines()[-1] if stderr else "no reason given"
        hint = "Check the remote folder (`root`)."
    raise RemoteFailure(
        f"The files cannot be put into {remote_dir}: {sentence}",
        hint,
        detail=stderr,
        wait=refusal.key == "quota",
    )
