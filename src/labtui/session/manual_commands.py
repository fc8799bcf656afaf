"""What labtui's actions amount to, as plain shell commands: to learn them, or to go on without labtui.

Every word is quoted for the shells that will read it: ours, and for remote commands the cluster's as well. Nothing
here runs anything or asks the cluster; job scripts that commands name are written to `slurm/by-hand/`.
"""

from __future__ import annotations

import contextlib
import posixpath
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from labtui.domain.errors import UsageError
from labtui.domain.model import JobPhase, SubmissionDraft, SubmissionStatus
from labtui.session.folder import SCRIPT_NAME, LabFolder, hashes
from labtui.session.planning import BY_HAND, plan, shared_dir
from labtui.slurm.job_control import log_path
from labtui.slurm.states import early_end_options

if TYPE_CHECKING:
    from labtui.domain.state import SubmissionState
    from labtui.session.session import Session

Action = Literal[
    "log-in",
    "push",
    "test",
    "submit",
    "queue",
    "log",
    "cancel",
    "end-after",
    "results",
    "accounting",
    "push-scripts",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class SshAddress:
    """How to reach the cluster: a host as `ssh` takes it, and what a config file does not already say.

    `data_host` is where files are copied, when the site wants copies elsewhere than on its login nodes.
    """

    host: str
    user: str = ""
    port: int | None = None
    identity: str = ""
    data_host: str = ""

    @property
    def target(self) -> str:
        return f"{self.user}@{self.host}" if self.user else self.host

    @property
    def copy_target(self) -> str:
        host = self.data_host or self.host
        return f"{self.user}@{host}" if self.user else host

    def options(self, port_flag: str = "-p") -> list[str]:
        """Port and key; `scp` and `sftp` spell the port ``-P``."""
        port = [port_flag, str(self.port)] if self.port not in {None, 22} else []
        return port + (["-i", self.identity] if self.identity else [])


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What the commands are about; what is not known yet is written as a word in capitals.

    `local_job` is the job script here, when it does not lie among the scripts; `script` is its name there.
    `shared_dir` is the lab's directory that `labtui push` fills, `minutes` a limit of the student's own, counted
    from the job's start. `caution` is what to know before submitting. Without a job's number it is
    looked up by `job_name`.
    """

    remote_dir: str = "DIRECTORY"
    script: str = "job.slurm"
    job_id: str = "JOBID"
    out: str = "NAME.JOBID.out"
    local_scripts: str = "scripts"
    local_job: str = ""
    options: tuple[str, ...] = ()
    shared_dir: str = "DIRECTORY"
    minutes: int | None = None
    job_name: str = ""
    caution: str = ""


@dataclass(frozen=True, slots=True)
class ManualCommands:
    """One action: what it does in a sentence, and its commands, one a line, ready to copy."""

    action: Action
    sentence: str
    commands: tuple[str, ...]

    @property
    def text(self) -> str:
        return "\n".join([f"# {self.sentence}", *self.commands])


def commands_for(action: Action, address: SshAddress, subject: Subject | None = None) -> ManualCommands:
    sentence, commands = _COMMANDS[action](address, subject or Subject())
    return ManualCommands(action, sentence, tuple(commands))


def all_commands(
    address: SshAddress, subject: Subject | None = None, actions: Sequence[Action] | None = None
) -> tuple[ManualCommands, ...]:
    """The commands of several actions, in order; of all where none is named."""
    return tuple(commands_for(action, address, subject) for action in actions or _COMMANDS)


def remote(address: SshAddress, command: str) -> str:
    """A command for the cluster's login shell, quoted for ours.

    `bash -l` because only a login shell has the site's `module` and paths, also when ssh runs a single
    command. `-n` because ssh would else read the lines that were pasted after it.
    """
    ssh = shlex.join(["ssh", "-n", *address.options(), "--", address.target])
    return f"{ssh} {quoted(f'bash -lc {quoted(command)}')}"


def quoted(text: str) -> str:
    """One word for a shell, as a person would quote it: what is quoted twice stays readable.

    Exclamation marks keep their single quotes: at an interactive shell they would call up older commands.
    """
    if "'" not in text or "!" in text:
        return shlex.quote(text)
    return '"' + re.sub(r'([\\"$`])', r"\\\1", text) + '"'


_Described = tuple[str, list[str]]


def _in(directory: str, command: str) -> str:
    return f"cd {shlex.quote(directory)} && {command}"


def _log_in(address: SshAddress, _: Subject) -> _Described:
    return "log in to the cluster", [shlex.join(["ssh", *address.options(), "--", address.target])]


def _copied(address: SshAddress, about: Subject, directory: str) -> list[str]:
    """Make a directory there and copy the scripts into it, the job script too where there is one."""
    files = [f"{about.local_scripts}/.", *([about.local_job] if about.local_job else [])]
    copy = ["scp", *address.options("-P"), "-r", "--", *files, f"{address.copy_target}:{directory}/"]
    return [remote(address, f"mkdir -p {shlex.quote(directory)}"), shlex.join(copy)]


def _push(address: SshAddress, about: Subject) -> _Described:
    sentence = "make a directory on the cluster and copy the scripts there"
    return sentence, _copied(address, about, about.remote_dir)


def _push_scripts(address: SshAddress, about: Subject) -> _Described:
    scripts = replace(about, local_scripts="scripts", local_job="")
    sentence = "copy scripts/ to this lab's own directory on the cluster, as `labtui push` does"
    return sentence, _copied(address, scripts, about.shared_dir)


def _test(address: SshAddress, about: Subject) -> _Described:
    command = shlex.join(["sbatch", "--test-only", *about.options, about.script])
    sentence = "ask Slurm whether it would take the job, and when; nothing is submitted"
    return sentence, [remote(address, _in(about.remote_dir, command))]


def _submit(address: SshAddress, about: Subject) -> _Described:
    command = shlex.join(["sbatch", "--parsable", *about.options, about.script])
    caution = f" ({about.caution})" if about.caution else ""
    sentence = f"submit the job; sbatch prints the job ID{caution}"
    return sentence, [remote(address, _in(about.remote_dir, command))]


def _queue(address: SshAddress, _: Subject) -> _Described:
    sentence = "your jobs: number, name, state, time used, expected start, why they wait"
    return sentence, [remote(address, "squeue --me -o '%i %j %T %M %S %r'")]


def _log(address: SshAddress, about: Subject) -> _Described:
    sentence = "print the job's output and follow it as it grows (Ctrl-C ends it)"
    return sentence, [
        remote(address, f"tail -n +1 -F {shlex.quote(posixpath.join(about.remote_dir, about.out))}")
    ]


def _cancel(address: SshAddress, about: Subject) -> _Described:
    return "cancel the job", [remote(address, shlex.join(["scancel", about.job_id]))]


def _end_after(address: SshAddress, about: Subject) -> _Described:
    minutes = "MINUTES" if about.minutes is None else f"{about.minutes:d}"
    many = "so many" if about.minutes is None else minutes
    command = shlex.join(["scontrol", "update", f"JobId={about.job_id}", f"TimeLimit={minutes}"])
    return f"let Slurm end the job {many} minutes after its start", [remote(address, command)]


def _accounting(address: SshAddress, about: Subject) -> _Described:
    fields = "JobID,State,Elapsed,Timelimit,ExitCode,AllocTRES"
    which = [f"--name={about.job_name}"] if about.job_name else ["-j", about.job_id]
    return "how the job ended", [remote(address, shlex.join(["sacct", "-X", *which, f"--format={fields}"]))]


def _results(address: SshAddress, about: Subject) -> _Described:
    source = f"{address.copy_target}:{posixpath.join(about.remote_dir, about.out)}"
    copied = shlex.quote(posixpath.basename(about.out))
    return "fetch the output, look at its epochs, and let labtui compute the rest", [
        shlex.join(["scp", *address.options("-P"), "--", source, "."]),
        f"grep -A1 '^Epoch' {copied}",
        f"labtui results {copied}",
    ]


_COMMANDS: dict[Action, Callable[[SshAddress, Subject], _Described]] = {
    "log-in": _log_in,
    "push": _push,
    "test": _test,
    "submit": _submit,
    "queue": _queue,
    "log": _log,
    "cancel": _cancel,
    "end-after": _end_after,
    "accounting": _accounting,
    "results": _results,
    "push-scripts": _push_scripts,
}


# --------------------------------------------------------------------------- of a lab folder

_BEFORE: tuple[Action, ...] = ("log-in", "push", "test", "submit", "queue")
_WAITS = "it is in labtui's submission queue: take it back there first, otherwise it is sent twice"
_ON_ITS_WAY = (SubmissionStatus.SENDING, SubmissionStatus.UNKNOWN)


def address_of(session: Session) -> SshAddress:
    """How `ssh` reaches this folder's cluster."""
    settings, profile = session.settings, session.profile
    host = settings.host or (profile.login_hosts[0] if profile.login_hosts else "HOST")
    return SshAddress(
        host=host,
        user=settings.user or profile.user,
        port=settings.port or profile.port,
        identity=settings.identity,
        data_host="" if settings.port else profile.data_host(settings.host),
    )


def commands_of_draft(
    session: Session, draft: SubmissionDraft, script: str | None = None
) -> tuple[ManualCommands, ...]:
    """What submitting a draft by hand takes; `script` is its job script where the student edited it.

    The job script is written to `slurm/by-hand/` so that the commands work.

    Raises:
        TemplateError, FolderError: as for submitting it.
    """
    planned = plan(session, draft, script, keep_in=BY_HAND)
    written = planned.submission.script_file
    subject = Subject(
        remote_dir=planned.submission.remote_dir,
        script=written.rpartition("/")[2],
        local_job=written,
        out=_log_of(planned.submission),
    )
    return all_commands(address_of(session), subject, _BEFORE)


def commands_of_submission(
    session: Session, submission: SubmissionState | None
) -> tuple[ManualCommands, ...]:
    """What can be done by hand now: with a submission as it stands, and with the scripts.

    Raises:
        FolderError: the files of an unsent submission cannot be written where the commands look for them.
    """
    address = address_of(session)
    shared: tuple[ManualCommands, ...] = ()
    with contextlib.suppress(UsageError):  # what can be done with the job does not rest on it
        shared = commands_of_push(session)
    if submission is None:
        return (*all_commands(address, None, ("log-in", "queue")), *shared)
    if submission.job is not None:
        return (*_of_job(address, submission), *shared)
    if submission.status in _ON_ITS_WAY:
        named = Subject(job_name=submission.job_name)
        return (*all_commands(address, named, ("log-in", "queue", "accounting")), *shared)
    return (*all_commands(address, _unsent(session, submission), _BEFORE), *shared)


def commands_of_push(session: Session) -> tuple[ManualCommands, ...]:
    """Copying the scripts to the lab's own directory.

    Raises:
        UsageError: that directory needs an account or user that is not known.
    """
    directory = shared_dir(session.profile, session.settings, user=session.user)
    return (commands_for("push-scripts", address_of(session), Subject(shared_dir=directory)),)


def commands_of_cancel(
    session: Session, submission: SubmissionState, minutes: int | None = None
) -> tuple[ManualCommands, ...]:
    """Cancelling a submission's job, now or `minutes` after its start; of one without a job, what there is to do.

    Nothing has to be told to the cluster to take back what was not sent: that needs no command.
    """
    address = address_of(session)
    if submission.job is not None:
        about = replace(_subject_of_job(submission), minutes=minutes)
        return (commands_for("cancel" if minutes is None else "end-after", address, about),)
    if minutes is None or submission.status in _ON_ITS_WAY:
        return ()
    about = replace(_unsent(session, submission), options=(f"--time={minutes:d}",))
    return (commands_for("submit", address, about),)


# --------------------------------------------------------------------------- subjects


def _of_job(address: SshAddress, submission: SubmissionState) -> tuple[ManualCommands, ...]:
    over = submission.job is not None and submission.job.phase is JobPhase.FINISHED
    alive: tuple[Action, ...] = () if over else ("cancel", "end-after")
    wanted: tuple[Action, ...] = ("log-in", "queue", "log", *alive, "accounting", "results")
    return all_commands(address, _subject_of_job(submission), wanted)


def _subject_of_job(submission: SubmissionState) -> Subject:
    number = submission.job.job_id if submission.job is not None else "JOBID"
    return Subject(
        remote_dir=submission.remote_dir or "DIRECTORY",
        job_id=number,
        out=_log_of(submission),
    )


def _log_of(submission: SubmissionState) -> str:
    """The standard output of a submission's job, from its directory."""
    path = log_path(submission, "out", unknown_id="JOBID") or "NAME.JOBID.out"
    return path.removeprefix(f"{submission.remote_dir}/")


def _unsent(session: Session, submission: SubmissionState) -> Subject:
    """A submission that Slurm never had, with its files as they were when it was planned."""
    scripts, job = _files_here(session, submission)
    return Subject(
        remote_dir=submission.remote_dir,
        script=job.rpartition("/")[2] or SCRIPT_NAME,
        local_scripts=scripts,
        local_job="" if job.startswith(f"{scripts}/") else job,
        out=_log_of(submission),
        options=early_end_options(submission),
        caution=_WAITS if submission.status is SubmissionStatus.WAITING else "",
    )


def _files_here(session: Session, submission: SubmissionState) -> tuple[str, str]:
    """Where in the lab folder a submission's scripts and job script lie.

    Where they lie anyway when nothing changed since; else what is stored is written to `slurm/by-hand/NAME/`.
    """
    folder = session.folder
    stored = dict(session.files_of(submission.token))
    job = stored.pop(SCRIPT_NAME, None)
    if job is None or (
        hashes(stored) == hashes(folder.script_files()) and _same(folder, submission.script_file, job)
    ):
        return "scripts", submission.script_file
    place = f"{BY_HAND}/{submission.job_name}"
    for name, data in {**stored, SCRIPT_NAME: job}.items():
        folder.write(f"{place}/{name}", data)
    return place, f"{place}/{SCRIPT_NAME}"


def _same(folder: LabFolder, name: str, data: bytes) -> bool:
    try:
        return folder.has(name) and folder.read(name).replace(b"\r\n", b"\n") == data
    except OSError:
        return False
