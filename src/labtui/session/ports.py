"""What a session needs from the outside: a cluster, a clock. The cluster room and the tests both have this shape."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from labtui.cluster.files import FileStat
    from labtui.cluster.push import PushReport
    from labtui.cluster.target import Prompter
    from labtui.slurm.job_control import Control, JobDetails, JobEfficiency
    from labtui.slurm.queue import Tick
    from labtui.slurm.remote_command import CommandRecord
    from labtui.slurm.sbatch_answers import TestOnly
    from labtui.slurm.site_probe import SiteLoad
    from labtui.slurm.submit import Lookup


class Cluster(Protocol):
    """A cluster as the worker uses it. Blocking; every call has a deadline of its own and raises `LabError`s."""

    @property
    def host(self) -> str:
        """The login host in use, for the screen."""
        ...

    @property
    def connected(self) -> bool:
        """Whether there is a connection that is not known to be dead."""
        ...

    def connect(self) -> None:
        """Connect and log in: CannotConnect, LoginRefused, HostKeyProblem."""
        ...

    def close(self) -> None:
        """Drop the connection at once; unblocks whoever waits in another call. Any thread may call it."""
        ...

    def ping(self, deadline_s: float) -> None:
        """A cheap question with a deadline: ConnectionLost."""
        ...

    def home(self) -> str:
        """The absolute remote home directory."""
        ...

    def stat(self, path: str) -> FileStat | None:
        """Size and time of a remote file; None when there is none."""
        ...

    def read(self, path: str, offset: int, limit: int) -> bytes:
        """At most `limit` bytes of a remote file from `offset`."""
        ...

    def read_into(
        self, path: str, offset: int, limit: int, take: Callable[[bytes], bool], *, within_s: float
    ) -> None:
        """The same, given to `take` piece by piece as it comes; `take` says whether to go on.

        After `within_s` seconds nothing more is asked for.
        """
        ...

    def push(
        self, files: Mapping[str, bytes], remote_dir: str, progress: Callable[..., None] | None = None
    ) -> PushReport:
        """Bring a remote directory to these files; unchanged ones cost nothing."""
        ...

    def tick(self, vanished: Sequence[str]) -> Tick:
        """The queue, and accounting for the ids that left it, in one remote command."""
        ...

    def submit(
        self,
        remote_dir: str,
        script_name: str,
        token: str,
        job_name: str,
        options: Sequence[str],
        *,
        attempt: int,
    ) -> str:
        """Send one job, or adopt the one that is there; its id. SubmitRefused, or ConnectionLost for "no answer"."""
        ...

    def find_token(self, token: str, job_name: str, remote_dir: str) -> Lookup:
        """Look for the job with this token; no try on its way can make one any more. ConnectionLost: no answer."""
        ...

    def job_details(self, job_id: str) -> JobDetails | None:
        """What the controller remembers of a job."""
        ...

    def test_only(self, remote_dir: str, script_name: str, options: Sequence[str]) -> TestOnly:
        """The cluster's own word on a job script, without submitting it."""
        ...

    def cancel(self, job_id: str, *, only_pending: bool = False) -> None:
        """Cancel a job; with `only_pending` not when it has started."""
        ...

    def control(self, job_id: str, control: Control) -> None:
        """Hold a job that waits, or release one that is held."""
        ...

    def efficiency(self, job_id: str) -> JobEfficiency | None:
        """What a finished job used of what it held; None without a record."""
        ...

    def site_load(self) -> SiteLoad:
        """What is free on the cluster now, and the student's fair share."""
        ...

    def end_after(self, job_id: str, minutes: int) -> None:
        """Let Slurm end a job `minutes` after its start."""
        ...

    def present(self, paths: Sequence[str]) -> dict[str, bool]:
        """Which of these remote paths are there."""
        ...

    def digests(self, remote_dir: str, paths: Sequence[str]) -> dict[str, str | None]:
        """SHA-256 of these files of a remote directory; None for what is not there."""
        ...


class ClusterFactory(Protocol):
    """Makes the (unconnected) cluster of a lab folder."""

    def __call__(self, prompter: Prompter, on_command: Callable[[CommandRecord], None]) -> Cluster:
        """A cluster that asks `prompter` and reports each remote command."""
        ...


class Clock(Protocol):
    """Time as the worker sees it; tests bring their own."""

    def wall(self) -> float:
        """UNIX seconds, as this computer believes."""
        ...

    def steady(self) -> float:
        """Seconds that never jump; may stand still while the computer sleeps."""
        ...


class SystemClock:
    """The real one."""

    def wall(self) -> float:
        """UNIX seconds."""
        return time.time()

    def steady(self) -> float:
        """Monotonic seconds."""
        return time.monotonic()
