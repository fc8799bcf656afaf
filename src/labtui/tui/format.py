"""Words and glyphs for states, ages and numbers, and sentences about jobs. Pure: no Textual, no clock, no I/O."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from labtui.domain.model import Interval, JobPhase, JobView, RunPhase, SubmissionStatus
from labtui.domain.state import ConnectionState, LabState, SubmissionState

if TYPE_CHECKING:
    from labtui.tui.view import View


TASK_GLYPHS = {"done": "✔", "partial": "◐", "open": "○", "stale": "◐"}
TASK_WORDS = {"done": "done", "partial": "begun", "open": "open", "stale": "stale"}
CONNECTION_GLYPHS = {"online": "●", "connecting": "○", "stale": "○", "offline": "○", "needs-login": "!"}
CONNECTION_WORDS = {"needs-login": "not logged in", "stale": "no answer"}
PHASE_GLYPHS = {
    RunPhase.WAITING: "◌",
    RunPhase.QUEUED: "◔",
    RunPhase.STARTING: "▷",
    RunPhase.RUNNING: "▶",
    RunPhase.DONE: "✔",
    RunPhase.FAILED: "✘",
    RunPhase.CANCELLED: "⊘",
    RunPhase.UNKNOWN: "?",
}
PHASE_ROLES = {
    RunPhase.STARTING: "busy",
    RunPhase.RUNNING: "busy",
    RunPhase.DONE: "good",
    RunPhase.FAILED: "bad",
    RunPhase.UNKNOWN: "warn",
    "done": "good",
    "partial": "busy",
    "stale": "warn",
}
"""The role of a phase, or of a task's status, among `themes.Roles`; others are plain."""
NOTHING = "·"
"""In a table: no value."""
OUTCOME_WORDS = {
    "oom": "out of memory",
    "time-limit": "time limit",
    "cancelled": "cancelled",
    "failed": "failed",
    "unfinished": "ended early",
    "completed": "done",
}


def duration(seconds: float) -> str:
    """A span of time in one or two units: ``45 s``, ``3 min``, ``1 h 05 min``, ``2 d 3 h``."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    minutes = whole // 60
    if minutes < 60:
        return f"{minutes} min" if minutes >= 10 or not whole % 60 else f"{minutes} min {whole % 60:02d} s"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes:02d} min"
    return f"{hours // 24} d {hours % 24} h"


def ratio(number: Interval | None) -> str:
    """A speedup: ``1.68``."""
    from labtui.results.numbers import ratio_text

    return NOTHING if number is None else ratio_text(number)


def percent(number: Interval | None) -> str:
    """An efficiency given as a fraction of one: ``84 %``."""
    from labtui.results.numbers import percent_text

    return NOTHING if number is None else percent_text(number)


def plural(count: int, word: str) -> str:
    """``1 run``, ``3 runs``."""
    return f"{count} {word}{'' if count == 1 else 's'}"


def run_numbers(numbers: Sequence[int]) -> str:
    """``Run 3``, ``Runs 3, 4``."""
    return f"Run{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"


def clock(at: float) -> str:
    """A moment of today: ``14:02``."""
    return time.strftime("%H:%M", time.localtime(at))


def clock_span(seconds: float) -> str:
    """A span of time as a clock shows it: ``0:09``, ``1:19``, ``1:02:03``."""
    minutes, rest = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def bar(share: float, width: int) -> tuple[str, str]:
    """A progress bar of `width` cells, as its filled and its empty part."""
    filled = min(width, max(0, round(share * width)))
    return "━" * filled, "─" * (width - filled)


def connection_label(connection: ConnectionState) -> tuple[str, str]:
    """Glyph and word of the connection; before the first attempt ended it is not offline."""
    tried = connection.status != "offline" or bool(connection.sentence)
    status = connection.status if tried else "connecting"
    return CONNECTION_GLYPHS.get(status, "?"), CONNECTION_WORDS.get(status, status)


NO_LINE = ("offline", "needs-login")
"""States of the connection in which nothing can be sent."""


def submission_sentences(submission: SubmissionState, state: LabState) -> list[str]:
    """A submission that has no job yet: why it waits, or what became of it."""
    if submission.status is SubmissionStatus.WAITING and state.connection.status in NO_LINE:
        return ["In labtui's submission queue; it is sent when the cluster can be reached."]
    text = " ".join(part for part in (submission.sentence, submission.hint) if part)
    if text:
        return [text]
    plain = {
        SubmissionStatus.WAITING: "In labtui's submission queue; it is sent as soon as the queue accepts it.",
        SubmissionStatus.SENDING: "Being sent to Slurm.",
        SubmissionStatus.UNKNOWN: "Sent, but no answer arrived. labtui looks for the job and never sends it twice.",
        SubmissionStatus.REFUSED: "Slurm refused it.",
        SubmissionStatus.WITHDRAWN: "Withdrawn before it was sent.",
    }
    return [plain[submission.status]] if submission.status in plain else []


def job_sentences(submission: SubmissionState, job: JobView, view: View) -> list[str]:
    """A submission's job: pending and why, running since when, or how it ended."""
    head = f"Job {job.job_id}"
    if job.phase in {JobPhase.QUEUED, JobPhase.RUNNING} and _over_by_its_log(submission, view):
        return [f"{head} has ended, as its log shows. The queue is asked again soon."]
    if job.phase is JobPhase.QUEUED:
        return _queued_words(submission, job, view)
    if job.phase is JobPhase.RUNNING:
        return [
            _running_words(submission, cluster_now(view)),
            *_limit_words(view, submission),
        ]
    if job.phase is JobPhase.UNKNOWN:
        since = f" for {duration(view.now - job.unknown_since)}" if job.unknown_since else ""
        return [f"{head}: unknown{since}. The cluster has not reported how it ended."]
    if job.phase is JobPhase.SETTLING:
        return [f"{head} has left the queue; no accounting record yet."]
    took = f" after {duration(job.elapsed_s)}" if job.elapsed_s else ""
    where = f" on {job.node}" if "[" in job.node or "," in job.node else ""
    return [
        f"{head}{where}: {job.slurm_state or 'ended'}{took}"
        + (f", exit code {job.exit_code}" if job.exit_code not in ("", "0:0") else "")
        + "."
        + _end_words(job.slurm_state)
        + (" Its log is being read to the end." if _outcomes_unread(submission, view) else "")
    ]


def _outcomes_unread(submission: SubmissionState, view: View) -> bool:
    runs = (view.state.runs.get(number) for number in submission.run_ids)
    return any(run is not None and run.outcome is None for run in runs)


def _end_words(state: str) -> str:
    """What a bad end means; a good one needs no words."""
    from labtui.slurm.states import FINISHED, plain_state

    word = plain_state(state)
    return f" It {FINISHED[word]}." if word in FINISHED and word != "COMPLETED" else ""


def _queued_words(submission: SubmissionState, job: JobView, view: View) -> list[str]:
    runs = [view.state.runs[number] for number in submission.run_ids if number in view.state.runs]
    if any(run.epochs or run.phase in {RunPhase.STARTING, RunPhase.RUNNING} for run in runs):
        return [f"Job {job.job_id} runs, as its log shows. The queue is asked again soon."]
    later = max(0.0, view.now - job.seen_at) * (view.factor or 1.0)
    return [
        f"Job {job.job_id} is pending: {pending_reason(job.reason)}",
        _start_words(job.start_estimate, job.seen_at + later),
    ]


def _over_by_its_log(submission: SubmissionState, view: View) -> bool:
    runs = [view.state.runs[number] for number in submission.run_ids if number in view.state.runs]
    return bool(runs) and all(run.phase is RunPhase.DONE for run in runs)


def pending_reason(reason: str) -> str:
    """Slurm's pending reason as a sentence, with its own word behind."""
    if not reason or reason == "None":
        return "Slurm has not said why yet."
    from labtui.slurm.states import explain_reason

    return f"{explain_reason(reason).rstrip('.')} ({reason})."


def _start_words(estimate: float | None, now: float) -> str:
    if estimate is None:
        return ""
    return (
        f"Slurm expects it to start in about {duration(estimate - now)}."
        if estimate > now
        else "It should start now."
    )


def cluster_now(view: View) -> float | None:
    """The cluster's clock now, as far as it is known: a rehearsal's goes faster than ours."""
    read_at, cluster_time = view.state.refreshed_at, view.state.cluster_time
    if read_at is None or cluster_time is None:
        return None
    return cluster_time + max(0.0, view.now - read_at) * (view.factor or 1.0)


def _running_words(submission: SubmissionState, now: float | None) -> str:
    job = submission.job
    if job is None:
        return ""
    where = f" on {job.node}" if job.node else ""
    elapsed = job.ran_s(now)
    if not elapsed:
        return f"Job {job.job_id} runs{where}."
    text = f"Job {job.job_id} has run{where} for {duration(elapsed)}"
    if job.time_limit_s:
        text += f", of at most {duration(job.time_limit_s)}"
        if submission.early_end_minutes * 60 == job.time_limit_s:
            text += " (your own limit)"
    return text + "."


def _limit_words(view: View, submission: SubmissionState) -> list[str]:
    """Whether the time limit will come before the end, as far as the epochs so far can tell."""
    from labtui.results.pace import limit_warning, running_run

    run = running_run(submission, view.state.runs)
    row = view.every[run.run_id].row if run is not None else None
    if submission.job is None:
        return []
    warning = limit_warning(submission, view.state.runs, row, cluster_now(view))
    return [warning] if warning else []
