"""A Slurm cluster as labtui uses it: the connection, files, push, submit, tick, look up, cancel."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence

from labtui.cluster.connection import Connection
from labtui.cluster.push import Progress, PushReport, digests_of, push_files
from labtui.domain.errors import CannotConnect, ConnectionLost, RemoteFailure, SubmitRefused
from labtui.slurm.job_control import (
    Control,
    JobDetails,
    JobEfficiency,
    control_command,
    control_problem,
    details_command,
    efficiency_command,
    parse_details,
    parse_efficiency,
)
from labtui.slurm.probe import parse_present, present_command
from labtui.slurm.queue import Tick, parse_tick, tick_command
from labtui.slurm.remote_command import PROGRAM_LIMIT_S, CommandResult
from labtui.slurm.sbatch_answers import TestOnly, classify, parse_test_only, test_only_command
from labtui.slurm.site_probe import SiteLoad, load_command, parse_load
from labtui.slurm.submit import (
    NO_DIRECTORY,
    NOT_ASKED,
    SBATCH_LIMIT_S,
    TAKEN_AWAY,
    Lookup,
    already_over,
    broken_off,
    cancel_command,
    early_end_command,
    lookup_command,
    parse_lookup,
    parse_submit,
    submit_command,
)

LOOK_LIMIT_S = 30.0


PRACTICE_HINT = (
    "A practice cluster runs only while `labtui practice --keep DIR` has this folder open: start that."
)


class SlurmCluster:
    """A connection with Slurm behind it. Blocking; every call has a deadline of its own and raises `LabError`s.

    Files, `push` and `connect` belong to one thread; everything else may run beside it.
    """

    def __init__(self, connection: Connection, *, practice: bool = False) -> None:
        self.connection = connection
        self.stat = connection.files.stat
        self.read = connection.files.read
        self.read_into = connection.files.read_into
        self._practice = practice
        self._home = ""

    # ----------------------------------------------------------------- the connection

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

    # ----------------------------------------------------------------- files

    def home(self) -> str:
        """The absolute path of the home directory; asked once."""
        if not self._home:
            self._home = self.connection.files.home()
        return self._home

    # ----------------------------------------------------------------- sending

    def push(
        self, files: Mapping[str, bytes], remote_dir: str, progress: Progress | None = None
    ) -> PushReport:
        """Make `remote_dir` hold `files` (paths relative to it); see `labtui.cluster.push.push_files`."""
        return push_files(self.connection, files, remote_dir, progress)

    def digests(self, remote_dir: str, paths: Sequence[str]) -> dict[str, str | None]:
        """SHA-256 of these files of a directory, None for what is not there; see `labtui.cluster.push.digests_of`."""
        return digests_of(self.connection, remote_dir, paths)

    def submit(
        self,
        remote_dir: str,
        script_name: str,
        token: str,
        job_name: str,
        options: Sequence[str] = (),
        *,
        attempt: int,
    ) -> str:
        """Submit `script_name` in `remote_dir`; the job id. A job of this token that is there already is adopted.

        `attempt` is how many earlier tries are known to have made no job (`Lookup.attempts`, or one more after each
        refusal); with another number than there were tries nothing is sent. Whatever happens, this runs sbatch at
        most once. After `ConnectionLost` use `find_token`.

        Raises:
            SubmitRefused: Slurm said no; `wait` tells whether later may help. There is no job.
            ConnectionLost: it is not known whether there is a job.
        """
        command = submit_command(remote_dir, script_name, token, job_name, options, attempt=attempt)
        result = self.connection.run(command, timeout_s=SBATCH_LIMIT_S + PROGRAM_LIMIT_S + 15)
        return self._job_id(result)

    def _job_id(self, result: CommandResult) -> str:
        job_id = parse_submit(result.out) if result.status == 0 else None
        if job_id is not None:
            return job_id
        if result.status in (0, TAKEN_AWAY) or broken_off(result.status):
            raise ConnectionLost(
                "Slurm's answer to the submission did not arrive.",
                "labtui looks the job up by its token; nothing is sent twice.",
            )
        refusal = classify(result.err)
        if result.status == NO_DIRECTORY and refusal.key != "quota":
            raise SubmitRefused(
                "The directory of this submission is not on the cluster.", "Push again.", detail=result.err
            )
        if result.status == NOT_ASKED and refusal.key != "no-sbatch":
            raise SubmitRefused(
                "Slurm's controller does not answer. Nothing was sent.",
                "labtui sends it when the controller answers again.",
                detail=result.err,
                wait=True,
            )
        if refusal.unclear:
            raise ConnectionLost(refusal.sentence, refusal.hint)
        raise SubmitRefused(refusal.sentence, refusal.hint, detail=refusal.detail, wait=refusal.wait)

    def find_token(self, token: str, job_name: str, remote_dir: str) -> Lookup:
        """Look for the job with this token: its own word and the receipts in `remote_dir`, queue, accounting.

        A submit command that is still on its way can no longer act afterwards.

        Raises:
            ConnectionLost: no answer came.
        """
        nonce = secrets.token_hex(8)
        command = lookup_command(remote_dir, token, job_name, nonce)
        result = self.connection.run(command, timeout_s=3 * PROGRAM_LIMIT_S + 15)
        if result.status is None:
            raise ConnectionLost("The look for the job gave no answer.", "labtui asks again.")
        return parse_lookup(result, nonce, token, job_name)

    def test_only(self, remote_dir: str, script_name: str, options: Sequence[str] = ()) -> TestOnly:
        """Slurm's own word on a script that was pushed; nothing is submitted."""
        return parse_test_only(
            self.connection.run(test_only_command(remote_dir, script_name, options), timeout_s=75)
        )

    def present(self, paths: Sequence[str]) -> dict[str, bool]:
        """Which of these paths are there, in one remote command; a link that leads nowhere is not.

        Raises:
            RemoteFailure: the cluster gave no answer that can be read.
        """
        if not paths:
            return {}
        found = parse_present(self.connection.run(present_command(paths), timeout_s=LOOK_LIMIT_S).out, paths)
        if found is None:
            raise RemoteFailure(
                "The cluster did not say whether the data and the container are there.",
                "Its file system may be slow now; `labtui doctor` looks again.",
            )
        return found

    # ----------------------------------------------------------------- watching

    def tick(self, vanished: Sequence[str] = ()) -> Tick:
        """The queue, and accounting for the ids in `vanished`, in one remote command.

        Raises:
            ConnectionLost: the connection is gone. Slurm's own silence is not an error but `Tick.problem`.
        """
        nonce = secrets.token_hex(8)
        limit = PROGRAM_LIMIT_S * (2 if vanished else 1) + 15
        result = self.connection.run(tick_command(vanished, nonce), timeout_s=limit)
        return parse_tick(result, nonce, asked_accounting=bool(vanished))

    def job_details(self, job_id: str) -> JobDetails | None:
        """What Slurm keeps about a living job (log paths, restarts); None when it does not remember it.

        Raises:
            RemoteFailure: Slurm could not be asked.
        """
        result = self.connection.run(details_command(job_id), timeout_s=40)
        if result.status == 0:
            return parse_details(result.out, job_id)
        if "invalid job id" in result.err.lower():
            return None
        refusal = classify(result.err)
        raise RemoteFailure(
            f"Slurm could not be asked about job {job_id}.", refusal.sentence, detail=result.err.strip()
        )

    def cancel(self, job_id: str, *, only_pending: bool = False) -> None:
        """Cancel a job; fine when it is over already. With `only_pending` one that started meanwhile is left alone.

        Raises:
            RemoteFailure: Slurm said no.
        """
        _must_be_a_number(job_id)
        result = self.connection.run(cancel_command(job_id, only_pending=only_pending), timeout_s=60)
        if result.status == 0 or already_over(result.err):
            return
        if result.status is None:
            raise ConnectionLost(
                "Slurm did not say whether the job was cancelled.", "Look at its state, then try again."
            )
        message = result.err.strip()
        raise RemoteFailure(
            f"Job {job_id} was not cancelled: {message.splitlines()[-1] if message else 'no reason given'}",
            "Is it one of your own jobs?",
            detail=message,
        )

    def control(self, job_id: str, control: Control) -> None:
        """Hold a job that waits, or release one that is held.

        Raises:
            RemoteFailure: Slurm said no.
        """
        _must_be_a_number(job_id)
        result = self.connection.run(control_command(control, job_id), timeout_s=60)
        if result.status is None:
            raise ConnectionLost("Slurm did not answer.", "Look at the job, then try again.")
        if result.status != 0:
            raise RemoteFailure(*control_problem(control, job_id, result.err), detail=result.err.strip())

    def efficiency(self, job_id: str) -> JobEfficiency | None:
        """What a job used of what it held; None when accounting has no record of it.

        Raises:
            RemoteFailure: accounting could not be asked.
        """
        _must_be_a_number(job_id)
        result = self.connection.run(efficiency_command(job_id), timeout_s=PROGRAM_LIMIT_S + 15)
        if result.status != 0:
            hint = classify(result.err).sentence
            raise RemoteFailure(f"Accounting could not be asked about job {job_id}.", hint, detail=result.err)
        return parse_efficiency(result.out, job_id)

    def site_load(self) -> SiteLoad:
        """What is free on the cluster now, and the student's fair share; what the site refuses is said in it.

        Raises:
            ConnectionLost: no answer came.
        """
        nonce = secrets.token_hex(8)
        result = self.connection.run(load_command(nonce), timeout_s=2 * PROGRAM_LIMIT_S + 15)
        if result.status is None:
            raise ConnectionLost("The cluster did not say what is free.", "labtui asks again later.")
        return parse_load(result, nonce)

    def end_after(self, job_id: str, minutes: int) -> None:
        """Give a job a time limit of `minutes`, counted from its start; Slurm ends it then.

        Raises:
            RemoteFailure: Slurm said no: the job is over, or its limit is shorter already.
        """
        _must_be_a_number(job_id)
        result = self.connection.run(early_end_command(job_id, minutes), timeout_s=60)
        if result.status == 0:
            return
        if result.status is None:
            raise ConnectionLost(
                "Slurm did not say whether it took the limit.", "Look at the job, then try again."
            )
        message = result.err.strip()
        sentence = f"Slurm did not take a limit of {minutes} min for job {job_id}"
        if already_over(message) or "already finished" in message.lower():
            raise RemoteFailure(f"{sentence}: it is over.", "There is nothing left to end.", detail=message)
        if "permission denied" in message.lower():
            hint = "A running job's limit can only become shorter, and only for one's own job."
            raise RemoteFailure(f"{sentence}.", hint, detail=message)
        raise RemoteFailure(f"{sentence}.", classify(message).sentence, detail=message)


def _must_be_a_number(job_id: str) -> None:
    if not re.fullmatch(r"\d+(_\d+)?", job_id, re.ASCII):
        raise RemoteFailure(f"{job_id!r} is no job number.", "`labtui queue` shows the numbers.")
