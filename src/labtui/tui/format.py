"""Words and glyphs for states, ages and numbers. Pure: no Textual, no clock, no I/O.

Every state is a word and a glyph before it is a colour; all glyphs are one cell wide.
"""

from __future__ import annotations

from labtui.core.interval import Interval
from labtui.core.model import JobPhase, RunPhase, SubmissionStatus
from labtui.core.state import ConnectionState, RunState, SubmissionState

TASK_GLYPHS = {"done": "✔", "partial": "◐", "open": "○", "stale": "↻"}
TASK_WORDS = {"done": "done", "partial": "begun", "open": "open", "stale": "stale"}
CONNECTION_GLYPHS = {"online": "●", "connecting": "◐", "stale": "◌", "offline": "○", "needs-login": "!"}
CONNECTION_WORDS = {"needs-login": "needs login"}
PHASE_GLYPHS = {
    RunPhase.WAITING: "·",
    RunPhase.QUEUED: "◌",
    RunPhase.STARTING: "◔",
    RunPhase.RUNNING: "▶",
    RunPhase.DONE: "✔",
    RunPhase.FAILED: "✘",
    RunPhase.CANCELLED: "⊘",
    RunPhase.UNKNOWN: "?",
}
OUTCOME_WORDS = {
    "oom": "out of memory",
    "time-limit": "time limit reached",
    "cancelled": "cancelled",
    "failed": "failed",
    "unfinished": "ended early",
    "completed": "done",
}
NOTHING = "-"


def age(seconds: float) -> str:
    """How long ago, in the largest fitting unit: ``2 s ago``, ``3 min ago``, ``1 h ago``."""
    if seconds < 1.0:
        return "now"
    return f"{duration(seconds)} ago"


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


def connection_label(connection: ConnectionState) -> tuple[str, str]:
    """Glyph and word of the line to the cluster."""
    glyph = CONNECTION_GLYPHS.get(connection.status, "?")
    return glyph, CONNECTION_WORDS.get(connection.status, connection.status)


def with_bounds(number: Interval | None, digits: int = 2) -> str:
    """``13.60 ±0.01``; bounds that round to nothing are left out, a missing number is a dash."""
    if number is None:
        return NOTHING
    half = f"{number.half_width:.{digits}f}"
    text = f"{number.value:,.{digits}f}"
    return text if float(half) == 0.0 else f"{text} ±{half}"


def whole(number: Interval | None) -> str:
    """A rate without decimals: ``3,676``."""
    return NOTHING if number is None else f"{number.value:,.0f}"


def ratio(number: Interval | None) -> str:
    """A speedup: ``1.68``."""
    return NOTHING if number is None else f"{number.value:.2f}"


def percent(number: Interval | None) -> str:
    """An efficiency given as a fraction of one: ``84 %``."""
    return NOTHING if number is None else f"{number.value * 100:.0f} %"


def bytes_size(count: int) -> str:
    """A size in bytes with a binary unit: ``640 B``, ``12.4 KiB``."""
    size = float(count)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024 or unit == "MiB":
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} MiB"


def epoch_progress(run: RunState) -> str:
    """``epoch 3 of 5``: the epoch being trained now."""
    current = min(len(run.epochs) + 1, run.spec.epochs)
    return f"epoch {current} of {run.spec.epochs}"


def run_words(run: RunState, submission: SubmissionState | None) -> str:
    """The state of a run in words, without its glyph."""
    if _ended_unread(run, submission):
        return "ended, log being read"
    if run.phase is RunPhase.RUNNING:
        return epoch_progress(run)
    if run.phase is RunPhase.FAILED:
        return OUTCOME_WORDS.get(run.outcome or "failed", "failed")
    if run.phase is RunPhase.WAITING and submission is not None:
        return _submission_words(submission)
    if _job_phase(submission) is JobPhase.SETTLING:
        return "done, settling" if run.phase is RunPhase.DONE else "settling"
    waits_inside = run.phase is RunPhase.QUEUED and _job_phase(submission) is JobPhase.RUNNING
    return "next in its job" if waits_inside else run.phase.value


def _submission_words(submission: SubmissionState) -> str:
    words = {
        SubmissionStatus.WAITING: "in our waiting line",
        SubmissionStatus.SENDING: "being sent",
        SubmissionStatus.UNKNOWN: "no answer yet",
        SubmissionStatus.REFUSED: "refused",
        SubmissionStatus.WITHDRAWN: "withdrawn",
        SubmissionStatus.ACCEPTED: "queued",
    }
    return words[submission.status]


def run_label(run: RunState, submission: SubmissionState | None) -> str:
    """Glyph and words: ``▶ epoch 3 of 5``, ``✔ done``, ``✘ out of memory``."""
    glyph = PHASE_GLYPHS[RunPhase.QUEUED if _ended_unread(run, submission) else run.phase]
    return f"{glyph} {run_words(run, submission)}"


def _job_phase(submission: SubmissionState | None) -> JobPhase | None:
    return submission.job.phase if submission is not None and submission.job is not None else None


def _ended_unread(run: RunState, submission: SubmissionState | None) -> bool:
    """Its job is over, and its log does not say yet how the run ended."""
    return run.outcome is None and _job_phase(submission) is JobPhase.FINISHED
