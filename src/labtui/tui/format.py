"""Words and glyphs for states, ages and numbers, and sentences about jobs. Pure: no Textual, no clock, no I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from labtui.domain.events import ConnectionState, LabState, RunState, SubmissionState
from labtui.domain.model import Interval, JobPhase, JobView, RunPhase, SubmissionStatus

if TYPE_CHECKING:
    from labtui.results.rows import ResultRow


class Moment(Protocol):
    """The state as seen at one moment; `ViewState` is one."""

    @property
    def state(self) -> LabState:
        """The latest state."""

    @property
    def now(self) -> float:
        """UNIX seconds."""

    @property
    def factor(self) -> float | None:
        """How much faster than real a rehearsal's clock goes; None on a real cluster."""

    @property
    def rows_by_run(self) -> Mapping[int, ResultRow]:
        """The results row that each run counts into."""


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
    "time-limit": "time limit",
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


def connection_label(connection: ConnectionState, *, reader: bool = False) -> tuple[str, str]:
    """Glyph and word of the connection; before the first attempt ended it is not offline, unless we only read."""
    status = connection.status if reader else connection_status(connection)
    return CONNECTION_GLYPHS.get(status, "?"), CONNECTION_WORDS.get(status, status)


def connection_status(connection: ConnectionState) -> str:
    """The status to show: `offline` only after an attempt that failed."""
    started = connection.status != "offline" or bool(connection.sentence)
    return connection.status if started else "connecting"


def epoch_time(row: ResultRow | None) -> str:
    """``14.0 ±0.5``, or ``59.8 σ 0.9`` where epochs differ by more than printing hides."""
    if row is None or row.epoch_seconds is None:
        return NOTHING
    from labtui.results.numbers import with_uncertainty

    return with_uncertainty(row, row.epoch_seconds)


def speedup(row: ResultRow, rows: Sequence[ResultRow]) -> str:
    """``1.68 ±0.05``, with the uncertainty of both its times; `rows` hold the baseline.

    Where none is worth showing it has two decimals, as in charts and exported tables.
    """
    if row.speedup is None:
        return NOTHING
    from labtui.results.numbers import baseline_of, ratio_text, with_uncertainty

    text = with_uncertainty(row, row.speedup, baseline_of(row, rows))
    return text if " " in text else ratio_text(row.speedup)


def whole(number: Interval | None) -> str:
    """A rate without decimals: ``3,676``."""
    return NOTHING if number is None else f"{number.value:,.0f}"


def ratio(number: Interval | None) -> str:
    """A speedup: ``1.68``."""
    return NOTHING if number is None else f"{number.value:.2f}"


def percent(number: Interval | None) -> str:
    """An efficiency given as a fraction of one: ``84 %``."""
    return NOTHING if number is None else f"{number.value * 100:.0f} %"


def bar(share: float, width: int) -> tuple[str, str]:
    """A progress bar of `width` cells, as its filled and its empty part."""
    filled = min(width, max(0, round(share * width)))
    return "━" * filled, "─" * (width - filled)


def bytes_size(count: int) -> str:
    """A size in bytes with a binary unit: ``640 B``, ``12.4 KiB``."""
    size = float(count)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024 or unit == "MiB":
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} MiB"


def epoch_progress(run: RunState) -> str:
    """``epoch 3 of 5``: the epoch being trained now; ``epoch 3`` where nothing tells how many there are."""
    if run.spec.program is not None:
        return "running"
    if "epochs" in run.spec.unknown:
        return f"epoch {len(run.epochs) + 1}"
    current = min(len(run.epochs) + 1, run.spec.epochs)
    return f"epoch {current} of {run.spec.epochs}"


def run_words(run: RunState, submission: SubmissionState | None) -> str:
    """The state of a run in words, without its glyph."""
    if ended_unread(run, submission) and submission is not None and submission.job is not None:
        from labtui.slurm.states import plain_state

        return _STOPPED.get(plain_state(submission.job.slurm_state), "ended, reading")
    if run.phase is RunPhase.RUNNING:
        return epoch_progress(run)
    if run.phase is RunPhase.FAILED:
        return OUTCOME_WORDS.get(run.outcome or "failed", "failed")
    if run.phase is RunPhase.WAITING and submission is not None:
        return _submission_words(submission)
    if _job_phase(submission) is JobPhase.SETTLING:
        return "done, settling" if run.phase is RunPhase.DONE else "settling"
    waits_inside = run.phase is RunPhase.QUEUED and _job_phase(submission) is JobPhase.RUNNING
    return "next in job" if waits_inside else run.phase.value


_STOPPED = {"CANCELLED": "cancelled", "TIMEOUT": "time limit", "OUT_OF_MEMORY": "out of memory"}
"""How a run ended that its log does not tell of yet, where Slurm's word for the job says it for all of its runs."""


def _submission_words(submission: SubmissionState) -> str:
    words = {
        SubmissionStatus.WAITING: "queued here",
        SubmissionStatus.SENDING: "being sent",
        SubmissionStatus.UNKNOWN: "no answer yet",
        SubmissionStatus.REFUSED: "refused",
        SubmissionStatus.WITHDRAWN: "withdrawn",
        SubmissionStatus.ACCEPTED: "queued",
    }
    return words[submission.status]


def run_label(run: RunState, submission: SubmissionState | None) -> str:
    """Glyph and words: ``▶ epoch 3 of 5``, ``✔ done``, ``✘ out of memory``."""
    glyph = PHASE_GLYPHS[RunPhase.QUEUED if ended_unread(run, submission) else run.phase]
    return f"{glyph} {run_words(run, submission)}"


def _job_phase(submission: SubmissionState | None) -> JobPhase | None:
    return submission.job.phase if submission is not None and submission.job is not None else None


def ended_unread(run: RunState, submission: SubmissionState | None) -> bool:
    """Its job is over, and its log does not say yet how the run ended."""
    return run.outcome is None and _job_phase(submission) is JobPhase.FINISHED


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


def job_sentences(submission: SubmissionState, job: JobView, moment: Moment) -> list[str]:
    """A submission's job: pending and why, running since when, or how it ended."""
    head = f"Job {job.job_id}"
    if job.phase in {JobPhase.QUEUED, JobPhase.RUNNING} and _over_by_its_log(submission, moment):
        return [f"{head} has ended, as its log shows. The queue is asked again soon."]
    if job.phase is JobPhase.QUEUED:
        return _queued_words(submission, job, moment)
    if job.phase is JobPhase.RUNNING:
        return [
            _running_words(submission, _cluster_now(moment)),
            *_limit_words(moment, submission),
        ]
    if job.phase is JobPhase.UNKNOWN:
        since = f" for {duration(moment.now - job.unknown_since)}" if job.unknown_since else ""
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
        + (" Its log is being read to the end." if _outcomes_unread(submission, moment) else "")
    ]


def _outcomes_unread(submission: SubmissionState, moment: Moment) -> bool:
    runs = (moment.state.runs.get(number) for number in submission.run_ids)
    return any(run is not None and run.outcome is None for run in runs)


def _end_words(state: str) -> str:
    """What a bad end means; a good one needs no words."""
    from labtui.slurm.states import FINISHED, plain_state

    word = plain_state(state)
    return f" It {FINISHED[word]}." if word in FINISHED and word != "COMPLETED" else ""


def _queued_words(submission: SubmissionState, job: JobView, moment: Moment) -> list[str]:
    runs = [moment.state.runs[number] for number in submission.run_ids if number in moment.state.runs]
    if any(run.epochs or run.phase in {RunPhase.STARTING, RunPhase.RUNNING} for run in runs):
        return [f"Job {job.job_id} runs, as its log shows. The queue is asked again soon."]
    later = max(0.0, moment.now - job.seen_at) * (moment.factor or 1.0)
    return [
        f"Job {job.job_id} is pending: {pending_reason(job.reason)}",
        _start_words(job.start_estimate, job.seen_at + later),
    ]


def _over_by_its_log(submission: SubmissionState, moment: Moment) -> bool:
    runs = [moment.state.runs[number] for number in submission.run_ids if number in moment.state.runs]
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


def _cluster_now(moment: Moment) -> float | None:
    """The cluster's clock now, as far as it is known: a rehearsal's goes faster than ours."""
    read_at, cluster_time = moment.state.refreshed_at, moment.state.cluster_time
    if read_at is None or cluster_time is None:
        return None
    return cluster_time + max(0.0, moment.now - read_at) * (moment.factor or 1.0)


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


def _limit_words(moment: Moment, submission: SubmissionState) -> list[str]:
    """Whether the time limit will come before the end, as far as the epochs so far can tell."""
    from labtui.results.pace import limit_warning, running_run

    run = running_run(submission, moment.state.runs)
    row = moment.rows_by_run.get(run.run_id) if run is not None else None
    if submission.job is None:
        return []
    warning = limit_warning(submission, moment.state.runs, row, _cluster_now(moment))
    return [warning] if warning else []
