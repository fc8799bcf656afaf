"""Decides which run and which epoch Keras's headers and summary lines belong to.

A summary line is an epoch's own or an `evaluate`'s, and nothing in it says which. They are told apart by an open
header; by ``val_`` metrics, which only an epoch's own line has; by the number of steps; and by the place among the
lines of an epoch, since a callback that evaluates after each epoch prints before Keras's own line (from 2.7 on) or
after it (earlier). The first epoch may therefore be stored twice: as a guess, and corrected when the second begins.
Other steps than those of the epochs before are those of a training that was resumed on other GPUs: a run of its own.

A header that comes twice with nothing in between means a second process in the same log, or a training that died in its
first epoch. While the processes keep in step, the first summary line of each epoch counts; otherwise none does. Workers
of one training wait for each other, so their times of an epoch are the same within some per cent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from labtui.domain.model import EpochSample, Interval
from labtui.training_logs.keras import FirstStep, Summary, epoch_interval
from labtui.training_logs.runs import RunFacts

if TYPE_CHECKING:
    from labtui.training_logs.fold import Fold
    from labtui.training_logs.run import OpenRun
    from labtui.training_logs.said import Opens

KERAS = "keras"
APART, START_APART = 0.10, 0.5
"""Two numbers of one thing contradict each other above this share; of workers' first epochs, above the other."""


class KerasLines(msgspec.Struct):
    """The state of a run in Keras's lines.

    `open` is the epoch whose line is awaited, `last` that of the last header. `seen` are the summary lines since that
    header, `kept` the index of the one that was stored. `total` is the step count of this run's own lines, `place` the
    index of the own line among an epoch's lines, `alike` whether others look the same, `validated` whether all own
    lines have ``val_`` metrics. `usual_after` is the number of lines after an epoch's own.
    `workers` is the number of processes that write into the log, `times` how often the open epoch's header came, and
    `owed` how many summary lines of the epoch before are still to come.
    """

    open: int | None = None
    last: int | None = None
    seen: list[tuple[Summary, int]] = []
    kept: int = -1
    total: int | None = None
    place: int | None = None
    alike: bool = False
    validated: bool = False
    usual_after: int = 0
    workers: int = 1
    times: int = 0
    owed: int = 0
    first: FirstStep | None = None  # the bar of step 1, where it stood on a line of its own

    def awaits(self, run: OpenRun, number: float | None) -> bool:
        """Whether a line of another form may give the open epoch's time, as none of Keras's own has come."""
        mine = self.open is not None and self.total is None and self.open not in run.epochs
        return mine and not self.seen and number in (None, self.open)

    def lines_after(self) -> int:
        """The number of lines that came after the epoch's own."""
        return len(self.seen) - 1 - self.kept if self.kept >= 0 else 0

    @property
    def evaluates(self) -> bool:
        """Whether an `evaluate` ended the run: more lines came after the last epoch's own than after earlier ones."""
        return self.open is None and self.workers == 1 and self.lines_after() > self.usual_after

    def may_be_own(self, summary: Summary) -> bool:
        """Whether a line may be an epoch's own, judging by this run's earlier lines."""
        if self.total is not None and summary.total != self.total:
            return False
        return summary.validates or not self.validated

    def must_wait(self, summary: Summary) -> bool:
        """Whether a line must wait for the next header: judging by earlier ones, it is not the epoch's own."""
        if not self.may_be_own(summary):
            return True
        return self.alike and self.place is not None and len(self.seen) - 1 < self.place

    def own_place(self) -> int:
        """The index of the epoch's own line among those seen."""
        lines = list(enumerate(one for one, _ in self.seen))
        lines = [one for one in lines if one[1].validates] or lines
        if self.place is not None:
            lines = [one for one in lines if one[1].total == self.total] or lines
        plain = [one for one in lines if not one[1].bar]
        if plain:  # from 2.7 on lines have a step time, and Keras's own comes after those of callbacks
            return plain[-1 if "step" in plain[-1][1].units else 0][0]
        return next((place for place, one in reversed(lines) if one.continues), lines[0][0])

    def repeats(self, run: OpenRun, number: int, planned: int | None) -> bool:
        """Whether a header is another process's, which repeats the last one."""
        if number != self.last or run.facts.epochs_planned != planned or run.fresh:
            return False
        return self.times < self.workers or not self.seen


def take_header(fold: Fold, line: int, header: Opens) -> None:
    """Take a header, ``Epoch k/N``."""
    run, number, planned = fold.open, int(header.number or 0), header.planned
    if run is not None and run.form == KERAS:
        if run.keras.repeats(run, number, planned):
            run.last_line, run.interleaved = line, True
            run.keras.times += 1
            run.keras.workers = max(run.keras.workers, run.keras.times)
            return
        _settle_before(fold, run, line, header)
        run = fold.open or run
        if _is_parallel_training(fold, run, number, planned):
            fold.refuse(line, f"Epoch {number}/{planned}")
            return
    run = fold.run_of(line, lambda run: _belongs(run, number, planned, fold.coming))
    if run.keras.last is None and run.epochs:  # a line before the first header was an `evaluate`
        run.epochs.clear()
    run.form = KERAS
    run.last_line = line
    keras = run.keras
    keras.open, keras.last, keras.seen, keras.kept, keras.first, keras.times = number, number, [], -1, None, 1
    run.fresh_header = run.fresh
    if run.facts.epochs_planned != planned:
        run.update_facts(RunFacts(epochs_planned=planned))


def take_summary(fold: Fold, line: int, summary: Summary) -> None:
    """Take the line at the end of an epoch, or of an `evaluate`, which has no open header."""
    run = fold.run_of(line, lambda run: run.trained or not run.ended)
    earliest = next(iter(run.epochs.values()), None)
    others = earliest is not None and earliest.source != KERAS and earliest.epoch != run.keras.open
    if run.form not in ("", KERAS) or (run.ended and run.keras.last is None) or others:
        return  # an evaluation after another program's training
    keras = run.keras
    run.last_line = line
    first, keras.first = keras.first, None
    if first is not None and summary.bar and summary.first is None and keras.workers == 1:
        summary.first = first.seconds if first.total in (None, summary.total) else None
    if keras.owed:
        keras.owed -= 1
    else:
        keras.seen.append((summary, line))
        if keras.workers == 1 or keras.open is not None:
            _assign_summary(fold, run, summary)
    if 1 < keras.workers >= len(keras.seen):  # more lines are an `evaluate`'s
        most = APART if len(run.epochs) > 1 else START_APART
        apart = bool(run.epochs) and are_apart(run.epochs[run.last].seconds, epoch_interval(summary), most)
        if apart or keras.total not in (None, summary.total):
            fold.refuse(line, f"{summary.total}/{summary.total}")


def take_first_step(fold: Fold, line: int, said: FirstStep) -> None:
    """Take the bar of step 1 from a line of its own, or from one that a warning cut off from the rest."""
    if fold.open is not None:
        fold.open.keras.first = said


def are_apart(one: Interval, other: Interval, share: float = APART) -> bool:
    """Whether two times of an epoch differ by more than this share, whatever their bounds leave open."""
    return max(one.lo, other.lo) > (1 + share) * min(one.hi, other.hi)


def union(one: Interval, other: Interval) -> Interval:
    """The smallest interval that holds both."""
    return Interval.between(min(one.lo, other.lo), max(one.hi, other.hi))


def settle_end(fold: Fold, run: OpenRun) -> None:
    """Decide at the end of a run what waited for the next header."""
    keras = run.keras
    if keras.times < keras.workers and keras.last is not None:
        fold.refuse(run.last_line, f"Epoch {keras.last}/{run.facts.epochs_planned}")
    elif keras.open is not None and len(keras.seen) > (keras.place or 0):
        if run.fresh_header or any(keras.may_be_own(one) for one, _ in keras.seen):
            _keep_own(fold, run, keras.open)
        keras.open = None


def _is_parallel_training(fold: Fold, run: OpenRun, number: int, planned: int | None) -> bool:
    """Whether the header is of another training that writes into the log at the same time."""
    last, mine = run.keras.last, run.facts.epochs_planned
    if run.refused:
        return True
    if last is None or number == 1 or run.fresh or run.ended or run.keras.workers > 1:
        return False
    if number == last + 1 and mine in (planned, last):
        return False
    before = fold.before
    continues = before is not None and not before.success and before.keras.last == number - 1
    return planned != mine or (continues and before is not None and before.facts.epochs_planned == planned)


def _belongs(run: OpenRun, number: int, planned: int | None, coming: OpenRun) -> bool:
    """Whether the header is this run's: it has no other form, the same planned epochs, and a number that continues."""
    keras = run.keras
    if not run.accepts(KERAS) or run.rates:
        return False
    if run.form == "":
        records = run.records
        return number == records.open.number if records.open is not None else not records.epochs
    if keras.last is None:  # a line before is an `evaluate`'s, or a whole training's if another head came
        return not (run.epochs and (run.fresh or coming.gpus or coming.facts.given()))
    if (run.failure and number == 1) or planned != run.facts.epochs_planned:
        return False
    if any(run.gpus.get(source, found).count != found.count for source, found in coming.gpus.items()):
        return False  # resumed on other GPUs
    # a resumed training begins again with the epoch it never finished
    return 1 < number == keras.open or number > keras.last


def _settle_before(fold: Fold, run: OpenRun, line: int, header: Opens) -> None:
    """At the next header, when all lines of the last epoch have come, recognise its own."""
    keras = run.keras
    if keras.last is None or header.number != keras.last + 1 or header.planned != run.facts.epochs_planned:
        return
    if keras.times < keras.workers:
        fold.refuse(line, f"Epoch {keras.last}/{run.facts.epochs_planned}")
    elif keras.workers > 1:
        keras.owed += max(0, keras.workers - len(keras.seen))
    elif keras.seen:
        _keep_own(fold, run, keras.last)
        keras.usual_after = max(keras.usual_after, keras.lines_after())


def _keep_own(fold: Fold, run: OpenRun, epoch: int) -> None:
    """Choose an epoch's own line among those seen, and remember what it looks like; other steps begin a run."""
    keras = run.keras
    place = keras.own_place() if len(keras.seen) > 1 else 0
    own, line = keras.seen[place]
    if epoch not in run.epochs and run.epochs and keras.total != own.total:  # resumed with other steps
        run.keras, planned = KerasLines(last=epoch - 1, times=1), run.facts.epochs_planned
        run = fold.begin(line)
        run.keras = keras = KerasLines(last=epoch, seen=keras.seen, times=1)
        run.update_facts(RunFacts(epochs_planned=planned))
    if place != keras.kept:
        _store(fold, run, epoch, place)
    keras.validated = own.validates and (keras.validated or keras.place is None)
    keras.place, keras.total = place, own.total
    keras.alike = any(keras.may_be_own(other) for at, (other, _) in enumerate(keras.seen) if at != place)


def _assign_summary(fold: Fold, run: OpenRun, summary: Summary) -> None:
    """Store a summary line as an epoch's own, leave it to the next header, or take it for an `evaluate`'s."""
    keras = run.keras
    if keras.open is not None:
        if keras.must_wait(summary):
            return
        epoch, keras.open = keras.open, None
    elif run.epochs and summary.continues and summary.bar and summary.total == keras.total:
        epoch = run.last  # the same bar, continued after other output
    elif run.epochs and not keras.validated and summary.validates and keras.kept >= 0:
        epoch = run.last  # only an epoch's own line validates: the one before was an `evaluate`
    elif keras.last is not None or run.epochs or (run.facts.epochs_planned or 1) > 1:
        return
    elif not summary.metrics and not _was_announced(run):
        return  # a `predict`: it prints no metric
    else:
        if not _was_announced(run) and not summary.validates:
            run.note("Keras prints such a line for a training of one epoch, and for `evaluate`.")
        run.update_facts(RunFacts(epochs_planned=1))
        epoch = 1
    _store(fold, run, epoch, len(keras.seen) - 1)


def _was_announced(run: OpenRun) -> bool:
    """Whether a line announced a training: a summary line without a header is then its only epoch."""
    return bool(run.announced or run.batch_line or run.records.open or run.gpus)


def _is_whole(run: OpenRun, epoch: int, summary: Summary) -> bool:
    """Whether an epoch had all its steps: Keras prints the planned number even when its input ran out."""
    shortage = run.out_of_data
    planned = (summary.total or 0) * (run.facts.epochs_planned or 0)
    if shortage is not None and (shortage in (0, planned) or not planned):
        run.note(f"The input ran out of data in epoch {epoch}: the epochs from there on may not be complete.")
        return False
    if "loss" in summary.metrics and not any(summary.metrics.values()):
        run.note(f"Epoch {epoch} trained no step (all its metrics are zero): the input had run out of data.")
        return False
    return True


def _store(fold: Fold, run: OpenRun, epoch: int, place: int) -> None:
    """Store one of the lines seen as the epoch's sample, replacing one that was stored before."""
    keras = run.keras
    summary, line = keras.seen[place]
    corrects, keras.kept = keras.kept >= 0, place
    if not _is_whole(run, epoch, summary):
        return
    keras.total = summary.total if keras.total is None or corrects else keras.total
    if summary.validates:
        keras.validated = keras.validated or keras.place is None
        run.note("Validation is inside each epoch's time.")
    if summary.seconds == 0 and not summary.units:
        run.note("Epochs printed as 0 s took less than a second; the log does not say how much less.")
    run.form = KERAS
    if counts_samples := "sample" in summary.units:  # "Train on N samples": old Keras counts these, not steps
        run.update_facts(RunFacts(images=summary.total), sure=False)
    step = summary.units.get("step") or summary.units.get("batch")
    sample = EpochSample(
        epoch=epoch,
        seconds=epoch_interval(summary),
        printed_seconds=summary.seconds,
        steps=None if counts_samples or summary.total == run.facts.images else summary.total,
        ms_per_step=step and step.ms,
        metrics=summary.metrics,
        line=line,
    )
    fold.keep(run, sample)
