"""How long a run in progress still takes, and whether its job's time limit is long enough. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from labtui.domain.model import JobPhase, RunPhase
from labtui.domain.state import RunState, SubmissionState
from labtui.results.rows import ResultRow


def limit_warning(
    submission: SubmissionState, runs: Mapping[int, RunState], row: ResultRow | None, now: float | None
) -> str:
    """A sentence when the job's time limit will, or may, come before the run in progress ends; else empty.

    `row` holds the pace of that run (see `Results`), `now` is the cluster's clock. Runs that follow in the same job are
    not counted: their pace is another one.
    """
    job, run = submission.job, running_run(submission, runs)
    if job is None or job.phase is not JobPhase.RUNNING or not job.time_limit_s:
        return ""
    if run is None or row is None or row.epoch_seconds is None:
        return ""
    rest = row.epoch_seconds.scaled(max(0, run.spec.epochs - len(run.epochs)))
    left = job.time_limit_s - job.ran_s(now)
    if rest.hi <= left:
        return ""
    killed_in = min(run.spec.epochs, len(run.epochs) + 1 + int(max(0.0, left) // row.epoch_seconds.value))
    sure = "will end it" if rest.lo > left else "may end it"
    return f"At this pace its time limit {sure} in epoch {killed_in} of {run.spec.epochs}."


def running_run(submission: SubmissionState, runs: Mapping[int, RunState]) -> RunState | None:
    """The run of a job that is being trained now."""
    mine = (runs[number] for number in submission.run_ids if number in runs)
    return next((each for each in mine if each.phase is RunPhase.RUNNING), None)
