"""Epochs that begin and end on lines of their own: MLPerf's records, and the course book's train.py and train_ddp.py.

The script prints, on rank 0 only, the samples and batches of *one process* and the rate of *all* of them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from labtui.domain.model import EpochSample, Interval
from labtui.training_logs.runs import RunFacts, measured

if TYPE_CHECKING:
    from labtui.training_logs.fold import Fold
    from labtui.training_logs.run import OpenRun
    from labtui.training_logs.said import Epoch, Opens

FORM, COURSE = "mllog", "train.py"
MAX_BLOCK = 10_000
_UNKNOWN = (
    "The log gives the images of one process and the rate of all, but not how many processes there were: "
)


def _may_start(run: OpenRun, given: float | None) -> bool:
    """Whether MLPerf's clock may begin an epoch of this number in a run."""
    if run.clocked or run.clock is not None or not run.trained:
        return True
    if run.rated or given is None:
        return not run.epochs
    number = int(given)
    opened = run.keras.last or (run.began[0] if run.began else None)
    if opened is not None:
        return number == opened + 1 or (number == opened and not run.has_epoch(opened))
    return number == run.last + 1 or (number == run.last > 1)


def _number(run: OpenRun, given: float | None) -> int:
    """The epoch's number, from 1; programs that count from 0 are shifted, fractions and gaps are counted."""
    if given == 0 and not run.clocked:
        run.zero_based = True
    run.fractional = run.fractional or (given is not None and given != int(given))
    if given is None or given < 0 or run.fractional:
        return run.clock_reach + 1
    return int(given) + (1 if run.zero_based else 0)


def opens(fold: Fold, line: int, said: Opens) -> None:
    run = fold.open
    if run is None or run.ended or not _may_start(run, said.number):
        run = fold.begin(line)
    run.last_line = line
    number = _number(run, said.number)
    if run.clock is not None and (said.count or run.clock[0] == number):
        run.interleaved = True  # another process says the same
        return
    run.start_epoch()
    run.clock = (number, said.at, said.count)


def stops(fold: Fold, line: int, said: Epoch) -> None:
    run = fold.open
    if run is None or run.ended or (said.count and run.clock is None):
        return
    block, began, seconds = said.count > 0, run.clock, said.seconds
    implied = began is not None and (block or said.number is None or run.fractional)
    number = began[0] if began is not None and implied else _number(run, said.number)
    count = 1
    if began is not None and began[0] == number:
        run.clock = None
        count = max(said.count, began[2], 1) if block else 1
        if seconds is None and None not in (began[1], said.at) and said.at >= began[1]:  # type: ignore[operator]
            seconds = measured(said.at - began[1])  # type: ignore[operator]
    if seconds is None or count > MAX_BLOCK:
        return
    if not block and number in run.clocked:
        run.interleaved = True
        return
    if block and number <= run.clock_reach:
        number = run.clock_reach + 1
        run.note("Blocks of epochs have the same numbers in this log; they are counted in order.")
    sample = EpochSample(
        epoch=number, seconds=seconds.scaled(1 / count), steps=said.steps, line=line, count=count,
        source="mllog-block" if block else FORM, ended_at=None if block else said.at,
    )  # fmt: skip
    run.last_line = line
    fold.keep(run, sample, clock=True)


def start_course_epoch(fold: Fold, line: int, said: Opens) -> None:
    run = fold.here(line, COURSE)
    run.form, run.began = COURSE, (int(said.number or 0), said.at)
    run.start_epoch()


def end_course_epoch(fold: Fold, line: int, said: Epoch) -> None:
    """An epoch of the course's script: the rate of all processes, where the log has the samples of one.

    How many there were is in the command or in the job script; else the clock before each line tells it, when only
    one number fits all epochs. Where none does, the clock's interval is the epoch's.
    """
    run = fold.here(line, COURSE)
    run.form = COURSE
    number, rate, samples = int(said.number or 0), said.rate, run.facts.process_samples
    if rate is None or not samples or rate.lo <= 0 or number in run.epochs:
        return
    timed = None
    if run.began is not None and run.began[0] == number and run.began[1] is not None and said.at is not None:
        elapsed = said.at - run.began[1]  # between two stamps of whole seconds
        timed = Interval(elapsed, max(0.0, elapsed - 1), elapsed + 1) if 0 <= elapsed < 1e7 else None
    if timed is not None:
        alone = Interval.exact(float(samples)).over(rate)
        run.fewest = max(run.fewest, math.ceil(timed.lo / alone.hi))
        run.most = min(run.most, math.floor(timed.hi / alone.lo))
    _settle_processes(run, samples)
    images = run.facts.images
    seconds = Interval.exact(float(images)).over(rate) if images and not run.contradictions else timed
    if not images:
        run.note(_UNKNOWN + ("its times come from the timestamps." if timed else "its times are unknown."))
    if seconds is not None:
        steps = run.facts.process_steps
        fold.keep(run, EpochSample(epoch=number, seconds=seconds, steps=steps, source=COURSE, line=line))


def _settle_processes(run: OpenRun, samples: int) -> None:
    known, per = run.facts.n_gpus, run.facts.batch_per_gpu
    if run.fewest > run.most or (known and not run.fewest <= known <= run.most):
        claim = f"{known} processes" if known else "any number of processes"
        if not run.contradictions:
            run.contradictions.append(
                f"the timestamps of this log do not fit the printed rates for {claim} of {samples} images each"
            )
        return
    count = known or (run.fewest if run.fewest == run.most else 0)
    if count and not run.facts.images:
        gpus = count if run.facts.device == "gpu" else None
        run.update_facts(
            RunFacts(images=samples * count, batch_size=per * count if per else None, n_gpus=gpus)
        )
