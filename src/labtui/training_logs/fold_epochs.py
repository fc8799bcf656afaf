"""Epochs as each form tells them, given to the fold; which run one belongs to is decided here and in `fold_keras`."""

from __future__ import annotations

from dataclasses import replace

from labtui.domain.model import EpochSample, Interval
from labtui.training_logs import course_script, fold_keras, forms_imagenet, mlperf
from labtui.training_logs.fold import Fold
from labtui.training_logs.keras import FirstStep
from labtui.training_logs.open_run import OpenRun, sample_of
from labtui.training_logs.runs import RunFacts
from labtui.training_logs.said import Epoch, KerasLine, Measures, Opens, Progress

KERAS, MLLOG, IMAGENET, COURSE = "keras", mlperf.FORM, forms_imagenet.FORM, course_script.FORM
STRONG = (KERAS, IMAGENET, COURSE)
"""Forms whose epochs are surer than a hand-written line or a bar beside them."""
MAX_BLOCK = 10_000
FEW_BATCHES = 3
"""Batches after which the first batch once more means that the training began again."""
_GAPS = "Epochs are not printed one by one: a time may be that of several epochs."
_TOTAL = "The times grow from line to line like a running total, so none is the time of one epoch."


def take_opens(fold: Fold, line: int, said: Opens) -> None:
    if said.form == KERAS:
        fold_keras.take_header(fold, line, said)
    elif said.form == COURSE:
        run = fold.here(line, COURSE)
        run.form, run.opened = COURSE, int(said.number or 0)
        run.epoch_opens()
        run.course.began = None if said.at is None else (int(said.number or 0), said.at)
    else:
        _clock_starts(fold, line, said)


def take_first_step(fold: Fold, line: int, said: FirstStep) -> None:
    """The bar of step 1 on a line of its own, or one that a warning cut off from the rest."""
    if fold.open is not None:
        fold.open.keras.first = said


def take_keras_line(fold: Fold, line: int, said: KerasLine) -> None:
    fold_keras.take_summary(fold, line, said.summary, continues=said.continues)


def _clock_starts(fold: Fold, line: int, said: Opens) -> None:
    run = fold.open
    if run is None or run.ended or not run.clock_may_start(said.number):
        run = fold.begin(line)
    run.last_line = line
    number = run.clock_number(said.number)
    if run.clock is not None and (said.block or run.clock[0] == number):
        run.interleaved = True  # another process says the same
        return
    run.epoch_opens()
    run.clock = (number, said.at, said.count)


def _clock_stops(fold: Fold, line: int, said: Epoch) -> None:
    run = fold.open
    if run is None or run.ended:
        return
    began = run.clock
    if said.block and began is None:
        return
    number = began[0] if began and (said.number is None or run.fractional) else run.clock_number(said.number)
    if said.block and began is not None:
        number = began[0]
    seconds = said.seconds
    if seconds is None and began is not None and began[0] == number and began[1] is not None:
        elapsed = None if said.at is None else said.at - began[1]
        seconds = mlperf.measured(elapsed) if elapsed is not None and elapsed >= 0 else None
    if began is not None and began[0] == number:
        run.clock = None
    count = said.count if said.count > 1 else began[2] if said.block and began else 1
    if seconds is None or count > MAX_BLOCK:
        return
    if not said.block and number in run.clocked:
        run.interleaved = True
        return
    if said.block and number <= run.clock_reach:
        number = run.clock_reach + 1
        run.note("Blocks of epochs have the same numbers in this log; they are counted in order.")
    sample = EpochSample(
        epoch=number, seconds=seconds.scaled(1 / count), steps=said.steps, line=line, count=count,
        source="mllog-block" if said.block else MLLOG, ended_at=None if said.block else said.at,
    )  # fmt: skip
    run.last_line = line
    fold.keep(run, sample, clock=True)


def take_measures(fold: Fold, line: int, said: Measures) -> None:
    run = fold.open
    if run is None:
        return
    run.last_line = line
    rate = said.metrics.get("throughput") if said.form == MLLOG else None
    if rate is not None:
        run.claimed = (rate, line)
    if said.form == IMAGENET:
        if run.batches is not None:
            run.batches.metrics.update(said.metrics)
            fold.complete(run, proven=True)
        return
    number = run.last_clocked if run.clocked else run.last
    if (said.number is not None and said.form == COURSE) or (said.number is not None and not run.zero_based):
        number = int(said.number)
    if run.has_epoch(number):
        run.measures.setdefault(number, {}).update(said.metrics)


def take_progress(fold: Fold, line: int, said: Progress) -> None:
    """A batch of PyTorch's ImageNet example."""
    run = fold.open
    if run is not None and run.form == IMAGENET and not run.ended:
        if run.batches is not None and _progress_repeats(fold, line, run, said):
            return
        run = fold.open
    late = (
        run is not None and run.batches is None and run.batch_total == said.total and said.epoch <= run.last
    )
    if run is not None and late and said.index > 1 and not run.fresh:
        run.interleaved = True  # a slower process
        return
    if run is None or not run.batch_goes_on(said):
        run = fold.begin(line)
    run.form, run.last_line = IMAGENET, line
    run.learn(RunFacts(framework="pytorch"))
    if run.batches is None or run.batches.epoch != said.epoch:
        run.from_one = said.index == 1
        run.epoch_opens()
    run.batches = run.batches_at(said, line)
    run.batch_total = said.total
    run.batch_seconds = Interval(said.mean, max(0.0, said.mean - said.half), said.mean + said.half)


def _progress_repeats(fold: Fold, line: int, run: OpenRun, said: Progress) -> bool:
    """Whether the line adds nothing: another rank's, or one of another training. Else epochs or runs end here."""
    before = run.batches
    if before is None:
        return False
    last = before.done - (0 if run.from_one else 1)
    began_anew = said.index <= 1 and (run.fresh or run.broken or before.done > FEW_BATCHES)
    if said.epoch == before.epoch and said.total != before.total and not began_anew:
        reason = f"trainings of {before.total} and of {said.total} steps wrote to this log at once"
        fold.refuse(line, f"Epoch: [{said.epoch - 1}][{said.index}/{said.total}]", reason)
        return True
    place, known = (said.epoch, said.index), (before.epoch, last)
    near = said.epoch in (before.epoch, before.epoch - 1)
    lags = run.interleaved and near and not (run.fresh or run.broken)
    again = place == known and not run.fresh
    if again or (place <= known and (lags or said.index > 1) and said.total == before.total):
        run.interleaved = True
        return True
    if place <= known or said.total != before.total:
        fold.begin(line)
    elif said.epoch != before.epoch:
        fold.complete(run, proven=said.epoch == before.epoch + 1)
    return False


def take_epoch(fold: Fold, line: int, said: Epoch) -> None:
    if said.form == MLLOG:
        _clock_stops(fold, line, said)
    elif said.form == COURSE:
        _course_epoch(fold, line, said)
    elif said.form == "imagenet-test":
        if fold.open is not None and fold.open.form == IMAGENET:
            fold.complete(fold.open, proven=True)
    elif said.seconds is not None:
        _printed_epoch(fold, line, said)


def _printed_epoch(fold: Fold, line: int, said: Epoch) -> None:
    run, seconds = fold.open, said.seconds
    if seconds is None:
        return
    if run is not None and run.keras.open is not None and run.keras.bare and said.form == "tqdm":
        _bar_of_header(fold, line, run, said)
        return
    if said.number is None and said.form == "tqdm":
        return  # a bar that names no epoch, where no header opened one
    key = said.form if run is None else run.key_of(said, fold.aside)
    if run is not None and run.training_of_another(key):
        _take_aside(fold, line, run, said, key)
        return
    if run is None or run.ended or not run.goes_on(said):
        if run is not None and run.form == said.form and not run.ended and run.lags(said):
            run.interleaved = True  # a slower process
            return
        run = fold.begin(line)
    _store_printed(fold, line, run, said)


def _bar_of_header(fold: Fold, line: int, run: OpenRun, said: Epoch) -> None:
    """A full bar below a line ``Epoch k/N``: the header was not Keras's own."""
    number = run.keras.open
    run.keras.open = None  # a second bar of this epoch is its validation
    run.form = KERAS
    run.last_line = line
    fold.keep(run, sample_of(replace(said, number=number), number or 1, line))


def _store_printed(fold: Fold, line: int, run: OpenRun, said: Epoch) -> None:
    run.form, run.last_line, run.printed_steps = said.form, line, said.steps
    if run.facts.epochs_planned is None and said.planned is not None:
        run.learn(RunFacts(epochs_planned=said.planned))
    if not run.epochs:
        run.shift = 1 if said.number == 0 else 0
    number = run.last + 1 if said.number is None else int(said.number) + run.shift
    sample = sample_of(said, number, line)
    stored = run.epochs.get(number)
    if stored is not None:
        _twice(run, stored, sample)
        return
    if fold.part_twins(run):
        run = fold.open or run
    if run.last and number > run.last + 1:
        run.refuse(_GAPS)
    if run.like_a_total(sample.seconds.value):
        run.refuse(_TOTAL)
    if said.note:
        run.note(said.note)
    fold.keep(run, sample)
    run.whole = True


def _twice(run: OpenRun, stored: EpochSample, sample: EpochSample) -> None:
    """An epoch that comes twice: by another process, or by a bar that went on during validation."""
    if stored.seconds == sample.seconds:
        run.interleaved = True
        return
    run.twins[sample.epoch] = sample
    run.widen(sample.epoch, sample.seconds)


def _take_aside(fold: Fold, line: int, run: OpenRun, said: Epoch, key: str) -> None:
    """A line of another form amid a training: beside it, or the first of another training."""
    aside = fold.aside
    if aside is None or aside.form != key:
        aside = fold.aside = OpenRun(line, line)
        aside.form = key
    number = aside.last + 1 if said.number is None else int(said.number)
    if number == 0 or aside.shift:
        aside.shift, number = 1, number + 1
    if number not in aside.epochs:
        aside.learn(RunFacts(epochs_planned=said.planned), sure=False)
        aside.last_line = line
        aside.keep(sample_of(said, number, line))
        aside.whole = True
    if len(aside.epochs) > 1 and key not in run.beside:
        aside.form = said.form
        fold.promote_aside()
    elif run.form not in STRONG and not run.clocked and number == run.last and key not in run.beside:
        run.widen(number, aside.epochs[number].seconds)


def _course_epoch(fold: Fold, line: int, said: Epoch) -> None:
    run = fold.here(line, COURSE)
    run.form = COURSE
    rate = said.rate
    if rate is None or said.number is None:
        return
    for number in run.course.take(run, int(said.number), rate, line, said.at):
        sample = run.course.sample(run, number)
        if sample is not None:
            fold.keep(run, sample)
