"""The plain shell commands of this lab folder's actions: to learn them, or to go on without labtui.

Nothing here asks or tells the cluster anything. Job scripts that commands name are written to `slurm/by-hand/`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from labtui.domain.errors import UsageError
from labtui.domain.model import JobPhase, Stream, SubmissionDraft, SubmissionStatus
from labtui.lab.manual_commands import Action, ManualCommands, SshAddress, Subject, all_commands, commands_for
from labtui.session.folder import LabFolder, hashes
from labtui.session.planned_submission import BY_HAND, SCRIPT_NAME, shared_dir
from labtui.session.planning import plan
from labtui.session.settings import write_private
from labtui.slurm.states import early_end_options

if TYPE_CHECKING:
    from labtui.domain.events import SubmissionState
    from labtui.session.session import Session

_BEFORE: tuple[Action, ...] = ("log-in", "push", "test", "submit", "queue")
_WAITS = "it is in labtui's submission queue: take it back there first, else it is sent twice"
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
    written = planned.event.script_file
    subject = Subject(
        remote_dir=planned.event.remote_dir,
        script=written.rpartition("/")[2],
        local_job=written,
        out=f"{planned.event.job_name}.JOBID.out",
    )
    return all_commands(address_of(session), subject, _BEFORE)


def lessons_of_submission(session: Session, submission: SubmissionState | None) -> tuple[ManualCommands, ...]:
    """What can be done by hand now: with a submission as it stands, and with the scripts.

    Raises:
        FolderError: the files of an unsent submission cannot be written where the commands look for them.
    """
    line = address_of(session)
    shared: tuple[ManualCommands, ...] = ()
    with contextlib.suppress(UsageError):  # what can be done with the job does not rest on it
        shared = lessons_of_push(session)
    if submission is None:
        return (*all_commands(line, None, ("log-in", "queue")), *shared)
    if submission.job is not None:
        return (*_of_job(line, submission), *shared)
    if submission.status in _ON_ITS_WAY:
        named = Subject(job_name=submission.job_name)
        return (*all_commands(line, named, ("log-in", "queue", "accounting")), *shared)
    return (*all_commands(line, _unsent(session, submission), _BEFORE), *shared)


def lessons_of_push(session: Session) -> tuple[ManualCommands, ...]:
    """Copying the scripts to the lab's own directory.

    Raises:
        UsageError: that directory needs an account or user that is not known.
    """
    directory = shared_dir(session.profile, session.settings, user=session.user)
    return (commands_for("push-scripts", address_of(session), Subject(shared_dir=directory)),)


def lessons_of_cancel(
    session: Session, submission: SubmissionState, minutes: int | None = None
) -> tuple[ManualCommands, ...]:
    """Cancelling a submission's job, now or `minutes` after its start; of one without a job, what there is to do.

    Nothing has to be told to the cluster to take back what was not sent: that is no commands_for.
    """
    line = address_of(session)
    if submission.job is not None:
        about = replace(_subject_of_job(submission), minutes=minutes)
        return (commands_for("cancel" if minutes is None else "end-after", line, about),)
    if minutes is None or submission.status in _ON_ITS_WAY:
        return ()
    about = replace(_unsent(session, submission), options=(f"--time={minutes:d}",))
    return (commands_for("submit", line, about),)


def lessons_of_log(
    session: Session, submission: SubmissionState, stream: Stream = "out"
) -> tuple[ManualCommands, ...]:
    """Following one of a job's logs."""
    return (commands_for("log", address_of(session), _subject_of_job(submission, stream)),)


def lessons_of_queue(session: Session, submissions: Sequence[SubmissionState]) -> tuple[ManualCommands, ...]:
    """Reading the queue, and what became of those of the submissions whose jobs are not known to be over."""
    numbers = [
        item.job.job_id
        for item in submissions
        if item.job is not None and item.job.phase is not JobPhase.FINISHED
    ]
    wanted: tuple[Action, ...] = ("queue", "accounting") if numbers else ("queue",)
    return all_commands(address_of(session), Subject(job_id=",".join(numbers) or "JOBID"), wanted)


def lessons_of_watch(
    session: Session, submissions: Sequence[SubmissionState]
) -> list[tuple[str, tuple[ManualCommands, ...]]]:
    """What following the runs stands for, with what it is about: the queue, sending what waits, reading logs.

    Raises:
        FolderError: as `lessons_of_submission`.
    """
    parts = [("the queue", lessons_of_queue(session, submissions))]
    line = address_of(session)
    for item in submissions:
        if item.job is not None and item.job.phase is not JobPhase.FINISHED:
            parts.append((f"the log of {item.job_name}", lessons_of_log(session, item)))
        elif item.status is SubmissionStatus.WAITING:
            about = _unsent(session, item)
            parts.append((f"sending {item.job_name}", all_commands(line, about, ("push", "submit"))))
    return parts


# --------------------------------------------------------------------------- subjects


def _of_job(line: SshAddress, submission: SubmissionState) -> tuple[ManualCommands, ...]:
    over = submission.job is not None and submission.job.phase is JobPhase.FINISHED
    alive: tuple[Action, ...] = () if over else ("cancel", "end-after")
    wanted: tuple[Action, ...] = ("log-in", "queue", "log", *alive, "accounting", "results")
    return all_commands(line, _subject_of_job(submission), wanted)


def _subject_of_job(submission: SubmissionState, stream: Stream = "out") -> Subject:
    number = submission.job.job_id if submission.job is not None else "JOBID"
    path = submission.remote_logs.get(stream, "").replace("%j", number)
    return Subject(
        remote_dir=submission.remote_dir or "DIRECTORY",
        job_id=number,
        out=path.rpartition("/")[2] or f"NAME.JOBID.{stream}",
    )


def _unsent(session: Session, submission: SubmissionState) -> Subject:
    """A submission that Slurm never had, with its files as they were when it was planned."""
    scripts, job = _files_here(session, submission)
    return Subject(
        remote_dir=submission.remote_dir,
        script=job.rpartition("/")[2] or SCRIPT_NAME,
        local_scripts=scripts,
        local_job="" if job.startswith(f"{scripts}/") else job,
        out=f"{submission.job_name}.JOBID.out",
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
        write_private(folder.inside(f"{place}/{name}"), data)
    return place, f"{place}/{SCRIPT_NAME}"


def _same(folder: LabFolder, name: str, data: bytes) -> bool:
    path = folder.inside(name)
    try:
        return path.is_file() and path.read_bytes().replace(b"\r\n", b"\n") == data
    except OSError:
        return False
