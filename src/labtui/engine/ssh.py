"""The SSH room's connection and Slurm verbs as the one cluster that the lane knows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from labtui.core.profile import Profile
from labtui.engine.ports import ClusterFactory
from labtui.engine.settings import Settings
from labtui.errors import CannotConnect, LabError

if TYPE_CHECKING:
    from labtui.cluster.connection import Connection
    from labtui.cluster.files import FileStat
    from labtui.cluster.prompts import Prompter
    from labtui.cluster.target import Target
    from labtui.core.push import PushReport
    from labtui.core.remote import CommandRecord
    from labtui.core.slurm.details import JobDetails
    from labtui.core.slurm.test_only import TestOnly
    from labtui.core.slurm.tick import Tick


PRACTICE_HINT = (
    "A practice cluster runs only while `labtui practice --keep DIR` has this folder open: start that."
)


class SshCluster:
    """One connection with Slurm behind it. Files and `connect` belong to one thread; commands may run aside."""

    def __init__(self, connection: Connection, profile: Profile, *, practice: bool = False) -> None:
        from labtui.cluster.slurm_cluster import SlurmCluster

        self._connection = connection
        self._slurm = SlurmCluster(connection, profile)
        self._home = ""
        self._practice = practice

    @property
    def host(self) -> str:
        """The login host in use."""
        return self._connection.host

    @property
    def connected(self) -> bool:
        """Whether the transport stands."""
        return self._connection.connected

    def connect(self) -> None:
        """Connect and log in."""
        try:
            self._connection.connect()
        except CannotConnect as error:
            raise CannotConnect(error.sentence, PRACTICE_HINT if self._practice else error.hint) from None

    def close(self) -> None:
        """Drop the connection at once."""
        self._connection.close()

    def ping(self, deadline_s: float) -> None:
        """A cheap sign of life within the deadline."""
        self._connection.ping(deadline_s)

    def home(self) -> str:
        """The absolute remote home; asked once."""
        if not self._home:
            self._home = self._slurm.home()
        return self._home

    def stat(self, path: str) -> FileStat | None:
        """Size and time of a remote file."""
        return self._connection.files.stat(path)

    def read(self, path: str, offset: int, limit: int) -> bytes:
        """A piece of a remote file."""
        return self._connection.files.read(path, offset, limit)

    def read_into(
        self, path: str, offset: int, limit: int, take: Callable[[bytes], bool], *, within_s: float
    ) -> None:
        """A piece of a remote file, as it comes."""
        self._connection.files.read_into(path, offset, limit, take, within_s=within_s)

    def push(
        self, files: Mapping[str, bytes], remote_dir: str, progress: Callable[..., None] | None = None
    ) -> PushReport:
        """Bring a remote directory to these files."""
        return self._slurm.push(files, remote_dir, progress)

    def tick(self, vanished: Sequence[str]) -> Tick:
        """Queue and accounting in one remote command."""
        return self._slurm.tick(vanished)

    def attempts(self, remote_dir: str) -> int:
        """How many tries to submit this directory have begun."""
        return self._slurm.attempts(remote_dir)

    def submit(
        self,
        remote_dir: str,
        script_name: str,
        token: str,
        job_name: str,
        options: Sequence[str],
        *,
        attempt: int | None = None,
    ) -> str:
        """Send one job; its id."""
        return self._slurm.submit(remote_dir, script_name, token, job_name, options, attempt=attempt)

    def find_token(self, token: str, job_name: str, remote_dir: str) -> str | None:
        """The job with this token; None: there certainly is none."""
        return self._slurm.find_token(token, job_name, remote_dir)

    def job_details(self, job_id: str) -> JobDetails | None:
        """What the controller remembers of a job."""
        return self._slurm.job_details(job_id)

    def test_only(self, remote_dir: str, script_name: str, options: Sequence[str]) -> TestOnly:
        """Slurm's word on a script."""
        return self._slurm.test_only(remote_dir, script_name, options)

    def present(self, paths: Sequence[str]) -> dict[str, bool]:
        """Which remote paths are there."""
        return self._slurm.present(paths)

    def digests(self, remote_dir: str, paths: Sequence[str]) -> dict[str, str | None]:
        """What lies in a remote directory."""
        return self._slurm.digests(remote_dir, paths)

    def cancel(self, job_id: str) -> None:
        """Cancel a job."""
        self._slurm.cancel(job_id)

    def end_after(self, job_id: str, minutes: int) -> None:
        """Let Slurm end a job after so many minutes of running."""
        self._slurm.end_after(job_id, minutes)


def _target(settings: Settings, profile: Profile) -> Target:
    from labtui.cluster.resolve import resolve_target
    from labtui.cluster.target import Overrides

    overrides = Overrides(
        hosts=(settings.host,) if settings.host else (),
        port=settings.port,
        user=settings.user,
        identity_file=settings.identity,
        host_key=settings.host_key,
    )
    return resolve_target(profile, overrides)


def configured_user(settings: Settings, profile: Profile) -> str:
    """The user name that the SSH configuration gives; empty when there is no host or no readable configuration."""
    try:
        return _target(settings, profile).endpoints[0].user
    except LabError:
        return ""


def check_login(settings: Settings, profile: Profile) -> None:
    """Whether the settings name a login host that an SSH client could try.

    Raises:
        LabError: they do not.
    """
    _target(settings, profile)


def ssh_factory(settings: Settings, profile: Profile) -> ClusterFactory:
    """Makes the cluster that a lab folder's settings name, as OpenSSH would reach it."""

    def make(prompter: Prompter, on_command: Callable[[CommandRecord], None]) -> SshCluster:
        from labtui.cluster.connection import Connection

        line = Connection(_target(settings, profile), prompter, on_command)
        return SshCluster(line, profile, practice=settings.practice)

    return make
