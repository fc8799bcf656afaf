"""How long a job should take and what it should cost, by own results or by published numbers; its time limit. Pure."""

import math
from collections.abc import Sequence

from msgspec.structs import replace

from labtui.domain.model import Interval, RunSpec, SubmissionDraft
from labtui.domain.profile import Profile
from labtui.lab.edition import Edition
from labtui.results.rows import ResultRow, Scatter

MARGIN = 2.0
"""A limit is this many times the longest time expected: a killed job costs more than a short wait."""
MIN_MINUTES = 10
UNKNOWN_MINUTES = 75
"""The limit the lab's own job files ask for; used where nothing is known about a run's length."""
STEP_MINUTES = 5


def expectation(
    draft: SubmissionDraft, edition: Edition, rows: Sequence[ResultRow] = ()
) -> tuple[Interval | None, Interval | None]:
    """Seconds a job's runs should take and GPU-hours it should cost within its limit; None where nothing tells.

    Own results (`rows`) go before the edition's bands. The time waiting in the queue is not part of it.
    """
    whole = total([run_seconds(run, edition, rows) for run in draft.runs])
    if whole is None:
        return None, None
    limit = draft.time_limit_minutes * 60.0 or whole.hi  # Slurm ends the job there, whatever is left
    spent = Interval(min(whole.value, limit), min(whole.lo, limit), min(whole.hi, limit))
    return whole, spent.scaled(draft.all_gpus / 3600)


def time_limit(
    draft: SubmissionDraft, edition: Edition, profile: Profile, prescribed: Sequence[int] = ()
) -> int:
    """Minutes to ask for, within the queue's own limit: what is prescribed for the runs, else their expected time.

    Trainings that torchrun starts in turn have their limits each by itself. An expected time gets a margin, in
    steps of five.
    """
    queue = profile.queue(draft.queue)
    most = queue.max_minutes if queue is not None else None
    if any(prescribed):
        in_turn = draft.form == "one-job" and draft.runs[0].launcher == "torchrun"
        if not in_turn:
            return max(prescribed)
        minutes = sum(prescribed)
    else:
        seconds = total([run_seconds(run, edition, ()) for run in draft.runs])
        minutes = UNKNOWN_MINUTES if seconds is None else math.ceil(seconds.hi * MARGIN / 60)
        minutes = max(MIN_MINUTES, STEP_MINUTES * math.ceil(minutes / STEP_MINUTES))
    return minutes if most is None else min(minutes, most)


def total(parts: Sequence[Interval | None]) -> Interval | None:
    """The sum of times or costs; None where one of them is not known, or there is none."""
    known = [part for part in parts if part is not None]
    if not known or len(known) < len(parts):
        return None
    return Interval(sum(p.value for p in known), sum(p.lo for p in known), sum(p.hi for p in known))


def run_seconds(run: RunSpec, edition: Edition, rows: Sequence[ResultRow]) -> Interval | None:
    """What a run takes by itself; a control run as much as the training that it belongs to.

    None where nothing tells: neither a measurement nor a document, or the run's own job file does not say what it is.
    """
    if run.unknown:
        return None
    if run.is_control and "--control" in run.extra_args:
        at = run.extra_args.index("--control")
        run = replace(run, extra_args=(*run.extra_args[:at], *run.extra_args[at + 2 :]))
    if run.program is not None:
        found, one = (_banded(replace(run, processes=n), edition) for n in (run.processes, 1))
        again = any("{baseline_" in line for line in run.program.lines)
        return total([found, one]) if again and one is not None else found
    row = _measured(run, rows) or _measured(run.called(edition.names), rows)
    if row is not None:
        epoch, first = (_scaled(s, row.batch_size, run) for s in (row.epoch_seconds, row.warmup_seconds))
    else:
        epoch, first = _banded(run, edition), _banded(run, edition, "first_epoch_seconds")
    if epoch is None:
        return None
    start = Interval(edition.startup_seconds[0], *edition.startup_seconds)
    warm_up = first if first is not None else Interval(epoch.value * 2, epoch.lo, epoch.hi * 4)
    return total([start, warm_up, epoch.scaled(max(0, run.epochs - 1))])


def _scaled(seconds: Interval | None, batch: int | None, run: RunSpec) -> Interval | None:
    """An epoch with another batch: between as many images a second as with that one, and as many steps a second."""
    if seconds is None or not batch or run.program is not None:
        return seconds
    steps = batch / run.batch_size
    return Interval(seconds.value * (1 + steps) / 2, seconds.lo * min(1, steps), seconds.hi * max(1, steps))


CONTROL_SHARE = 0.02
"""A control run's step is to be known as well as this fraction of it."""
_STEADY = range(3, 11)


def control_epochs(run: RunSpec, rows: Sequence[ResultRow]) -> int:
    """Epochs of a run's control run: one to warm up, then as many of `_STEADY` as `CONTROL_SHARE` takes.

    By how much the epochs of the run itself scattered: the margin of their mean at 95 % is to be within it.
    """
    row, steady = _measured(run, rows), _STEADY[0]
    if row is not None and row.scatter is not None and row.epoch_seconds is not None:
        wanted = CONTROL_SHARE * row.epoch_seconds.value
        deviation = row.scatter.deviation
        steady = next((n for n in _STEADY if Scatter(deviation, n).margin <= wanted), _STEADY[-1])
    return 1 + steady


def _measured(run: RunSpec, rows: Sequence[ResultRow]) -> ResultRow | None:
    """The row of the own results that a run repeats."""
    same = [
        row
        for row in rows
        if (row.model, row.n_gpus, row.configuration.data_set, row.configuration.tuning)
        == (run.model, run.n_gpus, run.data_set, run.tuning)
        and row.epoch_seconds is not None  # a run that has only its warm-up tells nothing yet
    ]
    best = [row for row in same if row.batch_size == run.batch_size] or same
    return best[-1] if best else None


def _banded(run: RunSpec, edition: Edition, quantity: str = "epoch_seconds") -> Interval | None:
    """The band that fits a run best: same batch, else any batch of the same model and GPUs."""
    wanted = "seconds" if run.program is not None else quantity
    bands = (band for band in edition.bands if band.quantity == wanted)
    fitting = (band for band in bands if band.is_about(replace(run, batch_size=band.batch_size or 1)))
    band = min(fitting, key=lambda band: band.batch_size != run.batch_size, default=None)
    if band is None:
        return None
    return _scaled(Interval(band.value, band.low, band.high), band.batch_size, run)
