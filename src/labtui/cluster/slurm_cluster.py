"""A Slurm cluster as labtui uses it: the connection, its files, and whatever question there is to ask.

Files are pushed by content. Beside the directories of submissions lies a store of file contents by SHA-256. One
question compares, copies what the store already has, and names what it needs; what is needed goes up once and the same
question is asked again. So a file that did not change costs nothing, even in a new directory, and every file appears
whole or not at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from labtui.cluster.connection import Connection
from labtui.domain.errors import CannotConnect, RemoteFailure
from labtui.slurm.push import PushReport, place, plan_push, store_of
from labtui.slurm.remote_command import Call

BATCH = 200
"""Files asked about in one command."""

PRACTICE_HINT = (
    "A practice cluster runs only while `labtui practice --keep DIR` has this folder open: start that."
)

T = TypeVar("T")


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
