"""The plain shell commands of this lab folder's actions: to learn them, or to go on without labtui."""

from __future__ import annotations

from typing import TYPE_CHECKING

from labtui.core.lab.shell import ACTIONS, Action, Lesson, Line, Subject, lessons
from labtui.core.model import JobPhase, SubmissionDraft

if TYPE_CHECKING:
    from labtui.core.state import SubmissionState
    from labtui.engine.session import Session

_BEFORE: tuple[Action, ...] = ("log-in", "push", "test", "submit", "queue")


def line_of(session: Session) -> Line:
    """How `ssh` reaches this folder's cluster."""
    settings, profile = session.settings, session.profile
    host = settings.host or (profile.login_hosts[0] if profile.login_hosts else "HOST")
    return Line(
        host=host,
        user=settings.user or profile.user,
        port=settings.port or profile.port,
        identity=settings.identity,
    )


def lessons_of_draft(session: Session, draft: SubmissionDraft) -> tuple[Lesson, ...]:
    """What submitting a draft by hand takes; its job script is written to `slurm/by-hand/` so that the commands work.

    Raises:
        TemplateError, FolderError: as for submitting it.
    """
    from labtui.engine.planning import BY_HAND, plan

    planned = plan(session, draft, None, keep_in=BY_HAND)
    script = planned.event.script_file
    subject = Subject(
        remote_dir=planned.event.remote_dir,
        script=script.rpartition("/")[2],
        local_job=script,
        out=f"{planned.event.job_name}.JOBID.out",
    )
    return lessons(line_of(session), subject, _BEFORE)


def lessons_of_submission(session: Session, submission: SubmissionState | None) -> tuple[Lesson, ...]:
    """What can be done with a submission by hand now; without one, how to log in and look at the queue."""
    line = line_of(session)
    job = submission.job if submission is not None else None
    if submission is None or job is None:
        return lessons(line, None, ("log-in", "queue"))
    out = submission.remote_logs.get("out", "").replace("%j", job.job_id)
    subject = Subject(
        remote_dir=submission.remote_dir, job_id=job.job_id, out=out.rpartition("/")[2] or "NAME.JOBID.out"
    )
    over = job.phase is JobPhase.FINISHED
    left_out: set[Action] = {"push", "test", "submit", *(("cancel", "end-after") if over else ())}
    return lessons(line, subject, [action for action in ACTIONS if action not in left_out])
