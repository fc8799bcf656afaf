"""What submitting and cancelling amount to, as plain shell commands: to learn them, or to go on without labtui.

Every word is quoted for the shells that will read it: ours, and for remote commands the cluster's as well. Nothing
here runs anything or asks the cluster; the job script that commands name is written to `slurm/by-hand/`.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from labtui.session.planning import BY_HAND, plan

if TYPE_CHECKING:
    from labtui.domain.model import SubmissionDraft
    from labtui.domain.state import SubmissionState
    from labtui.session.session import Session


@dataclass(frozen=True, slots=True)
class ManualCommands:
    """One action: what it does in a sentence, and its commands, one a line, ready to copy."""

    action: str
    sentence: str
    commands: tuple[str, ...]

    @property
    def text(self) -> str:
        return "\n".join([f"# {self.sentence}", *self.commands])


class _Login:
    """How `ssh` and `scp` reach a lab folder's cluster; what a config file says is not repeated."""

    def __init__(self, session: Session) -> None:
        settings, profile = session.settings, session.profile
        user, port = settings.user or profile.user, settings.port or profile.port
        host = settings.host or (profile.login_hosts[0] if profile.login_hosts else "HOST")
        data_host = "" if settings.port else profile.data_host(settings.host)
        self._port = [str(port)] if port not in {None, 22} else []
        self._key = ["-i", settings.identity] if settings.identity else []
        self._target = f"{user}@{host}" if user else host
        self._copies = f"{user}@{data_host or host}" if user else data_host or host

    def run(self, command: str) -> str:
        """A command for the cluster's login shell, quoted for ours.

        `bash -l` because only a login shell has the site's `module` and paths, also when ssh runs a single
        command. `-n` because ssh would else read the lines that were pasted after it.
        """
        port = ["-p", *self._port] if self._port else []
        ssh = shlex.join(["ssh", "-n", *port, *self._key, "--", self._target])
        return f"{ssh} {quoted(f'bash -lc {quoted(command)}')}"

    def copy(self, files: list[str], directory: str) -> str:
        port = ["-P", *self._port] if self._port else []
        return shlex.join(["scp", *port, *self._key, "-r", "--", *files, f"{self._copies}:{directory}/"])


def quoted(text: str) -> str:
    """One word for a shell, as a person would quote it: what is quoted twice stays readable.

    Exclamation marks keep their single quotes: at an interactive shell they would call up older commands.
    """
    if "'" not in text or "!" in text:
        return shlex.quote(text)
    return '"' + re.sub(r'([\\"$`])', r"\\\1", text) + '"'


def commands_of_draft(session: Session, draft: SubmissionDraft) -> tuple[ManualCommands, ...]:
    """What submitting a draft by hand takes; its job script is written to `slurm/by-hand/` so that they work.

    Raises:
        TemplateError, FolderError: as for submitting it.
    """
    login, submission = _Login(session), plan(session, draft, None, keep_in=BY_HAND).submission
    directory, name = submission.remote_dir, submission.script_file.rpartition("/")[2]
    there = f"cd {shlex.quote(directory)} && "
    make = login.run(f"mkdir -p {shlex.quote(directory)}")
    copy = login.copy(["scripts/.", submission.script_file], directory)
    test = login.run(there + shlex.join(["sbatch", "--test-only", *submission.options, name]))
    send = login.run(there + shlex.join(["sbatch", "--parsable", *submission.options, name]))
    return (
        ManualCommands("push", "make a directory on the cluster and copy the scripts there", (make, copy)),
        ManualCommands(
            "test", "ask Slurm whether it would take the job, and when; nothing is submitted", (test,)
        ),
        ManualCommands("submit", "submit the job; sbatch prints the job ID", (send,)),
    )


def commands_of_cancel(
    session: Session, submission: SubmissionState, minutes: int | None = None
) -> tuple[ManualCommands, ...]:
    """Cancelling a submission's job, now or `minutes` after its start; nothing for one without a job."""
    if submission.job is None:
        return ()
    number, login = submission.job.job_id, _Login(session)
    if minutes is None:
        return (ManualCommands("cancel", "cancel the job", (login.run(shlex.join(["scancel", number])),)),)
    command = shlex.join(["scontrol", "update", f"JobId={number}", f"TimeLimit={minutes:d}"])
    sentence = f"let Slurm end the job {minutes:d} minutes after its start"
    return (ManualCommands("end-after", sentence, (login.run(command),)),)
