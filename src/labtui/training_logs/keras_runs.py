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

_TWO_ENDS = "Epoch {}: line {} or line {} ends it, the other is an evaluation's. Neither counts."


class KerasEpoch(msgspec.Struct):
    """An epoch that a header began, or (`number` None) what came before the first header.

    `headers` is the number of processes that printed its header. `seen` are the summary lines since, `own` the index
    of the epoch's own among them (-1: not known yet). `first`: the bar of step 1, where it stood on a line of its own.
    """

    number: int | None = None
    headers: int = 1
    seen: list[tuple[Summary, int]] = []
    own: int = -1
    first: FirstStep | None = None

    @property
    def awaited(self) -> int | None:
        """Its number while its own line is awaited."""
        return self.number if self.own < 0 else None

    @property
    def lines_after(self) -> int:
        """The number of lines that came after its own."""
        return len(self.seen) - 1 - self.own if self.own >= 0 else 0


class KerasLines(msgspec.Struct):
    """The state of a run in Keras's lines: the epoch that its last header began, and what its own lines look like.

    `total` is the step count of own lines, `validated` whether all have ``val_`` metrics, `before` the number of lines
    that look alike and come before the own one (None until an epoch is over), `after` that of lines that follow it.
    `workers` is the number of processes that write into the log, `owed` how many of their lines of earlier epochs are
    still to come.
    """

    epoch: KerasEpoch = msgspec.field(default_factory=KerasEpoch)
    total: int | None = None
    validated: bool = False
    before: int | None = None
    after: int = 0
    workers: int = 1
    owed: int = 0
    evaluated: int | None = None  # the step count of an `evaluate` before the training

    def awaits(self, run: OpenRun, number: float | None) -> bool:
        """Whether a line of another form may give the open epoch's time, as none of Keras's own has come."""
        awaited, none = self.epoch.awaited, self.total is None and not self.epoch.seen
        return awaited is not None and none and awaited not in run.epochs and number in (None, awaited)

    @property
    def evaluates(self) -> bool:
        """Whether an `evaluate` ended the run: more lines came after the last epoch's own than after earlier ones."""
        return self.workers == 1 and self.epoch.lines_after > self.after

    def may_be_own(self, summary: Summary) -> bool:
        """Whether a line may be an epoch's own, judging by this run's earlier lines."""
        return self.total in (None, summary.total) and (summary.validates or not self.validated)

    def own_place(self) -> int:
        """The index of the epoch's own line among those seen, when all have come."""
        lines = list(enumerate(one for one, _ in self.epoch.seen))
        lines = [one for one in lines if one[1].validates] or lines
        lines = [one for one in lines if one[1].total != self.evaluated] or lines
        lines = [one for one in lines if self.before is None or one[1].total == self.total] or lines
        lines = [one for one in lines if one[1].metrics] or lines  # a `predict` prints none
        plain = [one for one in lines if not one[1].bar]
        if plain and "step" not in plain[-1][1].units:
            return plain[0][0]
        # From 2.7 on lines have a step time, and Keras's own line, after those of callbacks, holds their time.
        drawn = [one for one in lines if one[1].continues]
        return max(plain or drawn[-1:] or lines, key=lambda one: (one[1].seconds, one[0]))[0]


def take_header(fold: Fold, line: int, header: Opens) -> None:
    """Take a header, ``Epoch k/N``."""
    run, number, planned = fold.open, int(header.number or 0), header.planned
    if run is not None and run.form == KERAS:
        keras, epoch, last = run.keras, run.keras.epoch, run.keras.epoch.number
        alike, missing = planned == run.facts.epochs_planned, epoch.headers < keras.workers or not epoch.seen
        if alike and number == last and missing and not run.restarted:  # another process's
            run.last_line, run.interleaved = line, True
            epoch.headers += 1
            keras.workers = max(keras.workers, epoch.headers)
            return
        if alike and last is not None and number == last + 1:
            settle(fold, run, line, follows=True)
            run = fold.open or run
        if _is_parallel_training(fold, run, number, planned):
            fold.refuse(line, f"Epoch {number}/{planned}")
            return
    run = fold.run_of(line, lambda run: _belongs(run, number, planned, fold.coming))
    if run.keras.epoch.number is None and run.epochs:  # a line before the first header was an `evaluate`
        run.epochs, run.last, run.keras = {}, 0, KerasLines(evaluated=run.keras.total)
    run.form, run.last_line = KERAS, line
    run.keras.epoch, run.opened_anew = KerasEpoch(number), run.restarted
    if planned != run.facts.epochs_planned:
        run.update_facts(RunFacts(epochs_planned=planned))


def take_summary(fold: Fold, line: int, summary: Summary) -> None:
    """Take the line at the end of an epoch, or of an `evaluate`, which has no open header."""
    run = fold.run_of(line, lambda run: run.trained or not run.ended)
    keras, epoch = run.keras, run.keras.epoch
    earliest = next(iter(run.epochs.values()), None)
    others = earliest is not None and earliest.source != KERAS and earliest.epoch != epoch.awaited
    if run.form not in ("", KERAS) or (run.ended and epoch.number is None) or others:
        return  # an evaluation after another program's training
    run.last_line = line
    first, epoch.first = epoch.first, None
    if first is not None and summary.bar and summary.first is None and keras.workers == 1:
        summary.first = first.seconds if first.total in (None, summary.total) else None
    if keras.owed:
        keras.owed -= 1
    else:
        epoch.seen.append((summary, line))
        if keras.workers == 1 or epoch.awaited is not None:
            _assign_summary(fold, run, summary)
    if 1 < keras.workers >= len(epoch.seen):  # more lines are an `evaluate`'s
        most = APART if len(run.epochs) > 1 else START_APART
        apart = bool(run.epochs) and are_apart(run.epochs[run.last].seconds, epoch_interval(summary), most)
        if apart or keras.total not in (None, summary.total):
            fold.refuse(line, f"{summary.total}/{summary.total}")


def take_first_step(fold: Fold, line: int, said: FirstStep) -> None:
    """Take the bar of step 1 from a line of its own, or from one that a warning cut off from the rest."""
    if fold.open is not None:
        fold.open.keras.epoch.first = said


def are_apart(one: Interval, other: Interval, share: float = APART) -> bool:
    """Whether two times of an epoch differ by more than this share, whatever their bounds leave open."""
    return max(one.lo, other.lo) > (1 + share) * min(one.hi, other.hi)


def union(one: Interval, other: Interval) -> Interval:
    """The smallest interval that holds both."""
    return Interval.between(min(one.lo, other.lo), max(one.hi, other.hi))


def settle(fold: Fold, run: OpenRun, line: int, *, follows: bool = False) -> None:
    """Recognise the last epoch's own line, where the next one's header `follows` or at the end of the run."""
    keras, epoch = run.keras, run.keras.epoch
    if epoch.number is not None and epoch.headers < keras.workers:
        fold.refuse(line, f"Epoch {epoch.number}/{run.facts.epochs_planned}")
    elif not follows:
        known = run.opened_anew or any(keras.may_be_own(one) for one, _ in epoch.seen)
        if known and epoch.awaited is not None and len(epoch.seen) > (keras.before or 0):
            _keep_own(fold, run, epoch)
    elif keras.workers > 1:
        keras.owed += max(0, keras.workers - len(epoch.seen))
    elif epoch.seen:
        keras = _keep_own(fold, run, epoch).keras
        keras.after = max(keras.after, epoch.lines_after)


def _is_parallel_training(fold: Fold, run: OpenRun, number: int, planned: int | None) -> bool:
    """Whether the header is of another training that writes into the log at the same time."""
    last, mine, before = run.keras.epoch.number, run.facts.epochs_planned, fold.before
    if run.refused:
        return True
    if last is None or number == 1 or run.restarted or run.ended or run.keras.workers > 1:
        return False
    if number == last + 1 and mine in (planned, last):
        return False
    if planned != mine or before is None:
        return planned != mine
    next_there = before.keras.epoch.number == number - 1 and before.facts.epochs_planned == planned
    return next_there and not before.success


def _belongs(run: OpenRun, number: int, planned: int | None, coming: OpenRun) -> bool:
    """Whether the header is this run's: it has no other form, the same planned epochs, and a number that continues."""
    epoch, records = run.keras.epoch, run.records
    if not run.accepts(KERAS) or run.rates:
        return False
    if run.form == "":
        return number == records.open.number if records.open is not None else not records.epochs
    if epoch.number is None:  # a line before is an `evaluate`'s, or a whole training's if another head came
        return not (run.epochs and (run.restarted or coming.gpus or coming.facts.given()))
    if (run.failure and number == 1) or planned != run.facts.epochs_planned:
        return False
    moved = any(run.gpus.get(source, found).count != found.count for source, found in coming.gpus.items())
    # a resumed training begins again with the epoch it never finished, on other GPUs as another run
    return not moved and (number > epoch.number or 1 < number == epoch.awaited)


def _keep_own(fold: Fold, run: OpenRun, epoch: KerasEpoch) -> OpenRun:
    """Choose an epoch's own line, and remember what it looks like; return its run: other steps begin another."""
    number, place = epoch.number or 0, run.keras.own_place() if len(epoch.seen) > 1 else 0
    own, line = epoch.seen[place]
    if 0 < place == len(epoch.seen) - 1 and "step" in own.units and not (own.bar or own.validates):
        run.note("Several lines end an epoch: the longest gives its time, if no evaluation took longer.")
    if number not in run.epochs and run.epochs and run.keras.total != own.total:  # resumed with other steps
        run.keras.epoch, planned = KerasEpoch(number - 1), run.facts.epochs_planned
        run = fold.begin(line)
        run.keras = KerasLines(epoch)
        run.update_facts(RunFacts(epochs_planned=planned))
    if place != epoch.own:
        _store(fold, run, number, place)
    keras = run.keras
    others = (other for at, (other, _) in enumerate(epoch.seen) if at != place)
    keras.before = place if len(epoch.seen) > 1 and any(map(keras.may_be_own, others)) else 0
    run.apart.pop(number, None)
    return run


def _assign_summary(fold: Fold, run: OpenRun, summary: Summary) -> None:
    """Store a summary line as an epoch's own, leave it to the next header, or take it for an `evaluate`'s."""
    keras, epoch = run.keras, run.keras.epoch
    if epoch.awaited is not None:
        if keras.may_be_own(summary) and len(epoch.seen) > (keras.before or 0):  # judging by earlier ones
            _store(fold, run, epoch.awaited, len(epoch.seen) - 1)
        return
    # a summary line without a header is a training's only epoch where these are
    announced = run.announced or run.batch_line or run.records.open or run.gpus
    again = summary.continues and summary.bar and summary.total == keras.total  # after other output
    # the stored line, which says less, is an `evaluate`'s or a `predict`'s
    stored = epoch.seen[epoch.own][0] if epoch.own >= 0 else summary
    proven = (summary.validates, bool(summary.metrics)) > (stored.validates, bool(stored.metrics))
    if run.epochs and (again or proven):
        number = run.last
    elif epoch.number is not None or run.epochs or (run.facts.epochs_planned or 1) > 1:
        longer = summary.seconds > stored.seconds and bool(summary.metrics) and not run.records.started
        if longer and keras.before is None:  # the stored one may be the `evaluate` of a callback
            run.apart[run.last] = _TWO_ENDS.format(run.last, epoch.seen[epoch.own][1], epoch.seen[-1][1])
        return
    elif not summary.metrics and not announced:
        return  # a `predict`: it prints no metric
    else:
        if not announced and not summary.validates:
            run.note("Keras prints such a line for a training of one epoch, and for `evaluate`.")
        run.update_facts(RunFacts(epochs_planned=1))
        number = 1
    _store(fold, run, number, len(epoch.seen) - 1)


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


def _store(fold: Fold, run: OpenRun, number: int, place: int) -> None:
    """Store one of the lines seen as the epoch's sample, replacing one that was stored before."""
    keras, epoch = run.keras, run.keras.epoch
    summary, line = epoch.seen[place]
    epoch.own, keras.total = place, summary.total
    keras.validated = summary.validates and (keras.validated or keras.before is None)
    if not _is_whole(run, number, summary):
        return
    if summary.validates:
        run.note("Validation is inside each epoch's time.")
    run.form = KERAS
    if counts_samples := "sample" in summary.units:  # "Train on N samples": old Keras counts these, not steps
        run.update_facts(RunFacts(images=summary.total), sure=False)
    step = summary.units.get("step") or summary.units.get("batch")
    sample = EpochSample(
        epoch=number,
        seconds=epoch_interval(summary),
        printed_seconds=summary.seconds,
        steps=None if counts_samples or summary.total == run.facts.images else summary.total,
        ms_per_step=step and step.ms,
        metrics=summary.metrics,
        line=line,
    )
    fold.keep(run, sample)
