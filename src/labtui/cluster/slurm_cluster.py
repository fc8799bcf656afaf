"""A Slurm cluster as labtui uses it: push, submit, tick, find, ask, cancel; a verb is one use of it."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence

from labtui.cluster.connection import Connection
from labtui.cluster.push import Progress, digests_of, push_files
from labtui.core.probe import parse_present, present_command
from labtui.core.profile import Profile
from labtui.core.push import PushReport
from labtui.core.remote import CommandResult
from labtui.core.slurm.details import JobDetails, details_command, parse_details
from labtui.core.slurm.lookup import lookup_command, parse_lookup
from labtui.core.slurm.refusals import classify
from labtui.core.slurm.submit import (
    CONTROL_DIR,
    NO_DIRECTORY,
    SBATCH_LIMIT_S,
    TAKEN_AWAY,
    already_over,
    cancel_command,
    early_end_command,
    parse_submit,
    submit_command,
)
from labtui.core.slurm.test_only import TestOnly, parse_test_only, test_only_command
from labtui.core.slurm.tick import PROGRAM_LIMIT_S, Tick, parse_tick, tick_command
from labtui.errors import ConnectionLost, RemoteFailure, SubmitRefused

LOOK_LIMIT_S = 30.0


class SlurmCluster:
    """Slurm's verbs on one connection; those that move no files may run beside the connection's thread."""

    def __init__(self, connection: Connection, profile: Profile) -> None:
        self.connection = connection
        self.profile = profile

    def home(self) -> str:
        """The absolute path of the home directory."""
        return self.connection.files.home()

    # ----------------------------------------------------------------- sending

    def push(
        self, files: Mapping[str, bytes], remote_dir: str, progress: Progress | None = None
    ) -> PushReport:
        """Make `remote_dir` hold `files` (paths relative to it); see `labtui.cluster.push.push_files`."""
        return push_files(self.connection, files, remote_dir, progress)

    def digests(self, remote_dir: str, paths: Sequence[str]) -> dict[str, str | None]:
        """SHA-256 of these files of a directory, None for what is not there; see `labtui.cluster.push.digests_of`."""
        return digests_of(self.connection, remote_dir, paths)

    def attempts(self, remote_dir: str) -> int:
        """How many tries to submit this directory have begun; the number of the next one, for `submit`."""
        tries = self.connection.files.listdir(f"{remote_dir.rstrip('/')}/{CONTROL_DIR}")
        return sum(entry.name.startswith("attempt-") for entry in tries)

    def submit(
        self,
        remote_dir: str,
        script_name: str,
        token: str,
        job_name: str,
        options: Sequence[str] = (),
        *,
        attempt: int | None = None,
    ) -> str:
        """Submit `script_name` in `remote_dir`; the job id.

        With `attempt` (from `attempts`) it needs no file transfer and may run beside other work.

        Whatever happens, this runs sbatch at most once. After `ConnectionLost` use `find_token`, and send
        again only when that says the job is certainly not there.

        Raises:
            SubmitRefused: Slurm said no; `wait` tells whether later may help. There is no job.
            ConnectionLost: it is not known whether there is a job.
        """
        number = self.attempts(remote_dir) if attempt is None else attempt
        command = submit_command(remote_dir, script_name, token, job_name, options, attempt=number)
        result = self.connection.run(command, timeout_s=SBATCH_LIMIT_S + 15)
        return self._job_id(result)

    def _job_id(self, result: CommandResult) -> str:
        job_id = parse_submit(result.out) if result.status == 0 else None
        if job_id is not None:
            return job_id
        if result.status in (None, 0, TAKEN_AWAY, 124, 137):
            raise ConnectionLost(
                "Slurm's answer to the submission did not arrive.",
                "labtui looks the job up by its token; nothing is sent twice.",
            )
        refusal = classify(result.err)
        if result.status == NO_DIRECTORY and refusal.key != "quota":
            raise SubmitRefused(
                "The directory of this submission is not on the cluster.", "Push again.", detail=result.err
            )
        if refusal.unclear:
            raise ConnectionLost(refusal.sentence, refusal.hint)
        raise SubmitRefused(refusal.sentence, refusal.hint, detail=refusal.detail, wait=refusal.wait)

    def find_token(self, token: str, job_name: str, remote_dir: str) -> str | None:
        """The id of the job with this token; None when there certainly is none (then it may be sent again).

        Looks at the receipt in `remote_dir`, the queue, accounting. A submit command that is still on its
        way can no longer act after this returned None.

        Raises:
            ConnectionLost: it could not be found out yet.
        """
        nonce = secrets.token_hex(8)
        command = lookup_command(remote_dir, token, job_name, nonce)
        result = self.connection.run(command, timeout_s=3 * PROGRAM_LIMIT_S + 15)
        found = parse_lookup(result, nonce, token, job_name)
        if not found.certain:
            raise ConnectionLost(
                f"It is not known yet whether the job is there: {found.problem}", "labtui asks again."
            )
        return found.job_id

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
            ConnectionLost: the line is gone. Slurm's own silence is not an error but `Tick.problem`.
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

    def cancel(self, job_id: str) -> None:
        """Cancel a job; fine when it is over already.

        Raises:
            RemoteFailure: Slurm said no.
        """
        _must_be_a_number(job_id)
        result = self.connection.run(cancel_command(job_id), timeout_s=60)
        if result.status == 0 or already_over(result.err):
            return
        if result.status is None:
            raise ConnectionLost(
                "Slurm did not say whether the job was cancelled.", "Look at its state, then try again."
            )
        said = result.err.strip()
        raise RemoteFailure(
            f"Job {job_id} was not cancelled: {said.splitlines()[-1] if said else 'no reason given'}",
            "Is it one of your own jobs?",
            detail=said,
        )

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
        said = result.err.strip()
        sentence = f"Slurm did not take a limit of {minutes} min for job {job_id}"
        if already_over(said) or "already finished" in said.lower():
            raise RemoteFailure(f"{sentence}: it is over.", "There is nothing left to end.", detail=said)
        if "permission denied" in said.lower():
            hint = "A running job's limit can only become shorter, and only for one's own job."
            raise RemoteFailure(f"{sentence}.", hint, detail=said)
        raise RemoteFailure(f"{sentence}.", classify(said).sentence, detail=said)


def _must_be_a_number(job_id: str) -> None:
    if not re.fullmatch(r"\d+(_\d+)?", job_id, re.ASCII):
        raise RemoteFailure(f"{job_id!r} is no job number.", "`labtui queue` shows the numbers.")
