"""Which run and which epoch Keras's headers and summary lines belong to.

A summary line is an epoch's own or an `evaluate`'s, and nothing in it says which. What tells them apart: an open
header; ``val_`` metrics, which only an epoch's own line has; the number of steps; and the place among the lines of
an epoch, since a callback that evaluates at the end of epochs prints before Keras's own line (from 2.7 on) or after it
(before). The first epoch may therefore come twice: as it looked, and corrected when the second begins.

A header that comes twice with nothing between means a second process in the same log, or a training that died before
its first epoch was over and another that followed. Only alternating epochs prove the former; until they do, a line
that both readings place differently waits.
"""

from __future__ import annotations

from dataclasses import replace

from labtui.domain.model import EpochSample
from labtui.training_logs.fold import Fold
from labtui.training_logs.keras import FirstStep, KerasLines, Summary, epoch_interval
from labtui.training_logs.open_run import OpenRun
from labtui.training_logs.runs import RunFacts
from labtui.training_logs.said import Opens

KERAS = "keras"


def take_header(fold: Fold, line: int, header: Opens) -> None:
    """``Epoch k/N``."""
    run, number = fold.open, int(header.number or 0)
    if run is not None and run.form == KERAS:
        if _repeats(run, number, header.planned):
            run.last_line = line
            _again(run, number)
            return
        _settle_before(fold, run, number, header.planned)
        if _beside(fold, run, number, header.planned):
            reason = "two trainings wrote to this log at once, and nothing shows which training an epoch belongs to"
            fold.refuse(line, f"Epoch {number}/{header.planned}", reason)
            return
    if run is None or not _goes_on(run, number, header.planned):
        run = fold.begin(line)
    keras = run.keras
    if keras.last is None and run.epochs:  # a line before the first header was an `evaluate`
        run.epochs.clear()
        run.last = 0
    run.form, run.last_line, run.settle = KERAS, line, settle_end
    keras.open_epoch(number)
    run.epoch_opens()
    if run.facts.epochs_planned != header.planned or not run.facts.framework:
        run.learn(RunFacts(epochs_planned=header.planned, framework=run.facts.framework or KERAS))


def take_summary(fold: Fold, line: int, summary: Summary, *, continues: bool = False) -> None:
    """The line at the end of an epoch, or of an `evaluate`, which has no header open."""
    run = fold.open
    if run is None or (run.ended and not run.trained):
        run = fold.begin(line)
    if run.form not in ("", KERAS) or (run.ended and run.keras.last is None):
        return  # an evaluation after another program's training
    if run.form == "" and run.clocked and run.clock is None and run.last_clocked > 1:
        return
    keras = run.keras
    if not summary.finished:
        if summary.first is not None and keras.first is None:
            keras.first = FirstStep(None if summary.unknown_total else summary.total, summary.first)
        keras.unknown = (summary, line) if summary.unknown_total else None
        return
    run.last_line = line
    summary = _with_first_step(keras, summary)
    keras.unknown = keras.first = None
    run.interleaved = run.interleaved or summary.glued
    keras.summaries += 1
    keras.bare = False
    if keras.workers > 1:
        _among_workers(fold, run, summary, line)
    else:
        keras.seen.append((summary, line, continues))
        _alone(fold, run, summary, line, continues)


def settle_end(fold: Fold, run: OpenRun) -> None:
    """No more lines come: what waited for the next is decided by what is there."""
    keras = run.keras
    if keras.doubtful is not None:
        _one_process(fold, run)
    elif keras.open is not None and len(keras.seen) > (keras.place or 0):
        _keep_own(fold, run, keras.open)
        keras.open = None
    keras.evaluated_at_the_end = (
        keras.open is None and keras.workers == 1 and keras.after() > keras.usual_after
    )


def _with_first_step(keras: KerasLines, summary: Summary) -> Summary:
    """The bar with the first step of an earlier line, where one process writes."""
    first = keras.first
    if first is None or summary.first is not None or not summary.bar or keras.workers > 1:
        return summary
    return replace(summary, first=first.seconds) if first.total in (None, summary.total) else summary


# --------------------------------------------------------------------------- which run


def _repeats(run: OpenRun, number: int, planned: int | None) -> bool:
    keras = run.keras
    if number not in keras.headers or run.facts.epochs_planned != planned:
        return False
    if keras.doubtful is not None:
        return number == keras.doubtful[0]
    if keras.workers > 1:
        return not (number == 1 and run.last > 1)
    return number == keras.open and not keras.seen and not run.broken and not run.fresh


def _again(run: OpenRun, number: int) -> None:
    """The header of an epoch came once more."""
    keras = run.keras
    if keras.doubtful is not None:  # epochs alternate: the line that waited was the other process's
        keras.doubtful, keras.sure, run.interleaved = None, True, True
    elif keras.summaries:
        keras.sure = keras.sure or keras.workers > 1
    elif not run.broken and number == keras.open:
        keras.workers += 1


def _beside(fold: Fold, run: OpenRun, number: int, planned: int | None) -> bool:
    """Whether the header is of another training that goes on beside this one."""
    last, mine = run.keras.last, run.facts.epochs_planned
    if run.refused:
        return True
    if last is None or number == 1 or run.fresh or run.broken or run.ended or run.keras.workers > 1:
        return False
    if number == last + 1 and mine in (planned, last):
        return False
    before = fold.before
    goes_on = before is not None and not before.success and before.keras.last == number - 1
    return planned != mine or (goes_on and before is not None and before.facts.epochs_planned == planned)


def _goes_on(run: OpenRun, number: int, planned: int | None) -> bool:
    """Whether the header is this run's: nothing else has trained in it, the plan is its own, the number goes on."""
    keras = run.keras
    if run.ended or run.form not in ("", KERAS) or run.rated:
        return False
    if run.form == "":
        return number == run.clock[0] if run.clock is not None else not run.clocked
    if keras.last is None:
        return True
    if (run.broken and number == 1) or planned != run.facts.epochs_planned:
        return False
    # a resumed training begins again with the epoch it never finished
    return 1 < number == keras.open or number > keras.highest


# --------------------------------------------------------------------------- which epoch


def _settle_before(fold: Fold, run: OpenRun, number: int, planned: int | None) -> None:
    """The next header: the last epoch's lines are all there, so its own can be recognised."""
    keras = run.keras
    if keras.doubtful is not None:
        _one_process(fold, run)
    if keras.last is None or number != keras.last + 1 or planned != run.facts.epochs_planned:
        return
    if keras.unknown is not None and keras.open is not None:
        # TF 2.0 never closes a bar of unknown length; the next header proves that its epoch is over.
        summary, line = keras.unknown
        take_summary(fold, line, replace(summary, finished=True))
    keras.unknown = None
    if keras.workers == 1 and keras.seen:
        _keep_own(fold, run, keras.last)
        keras.usual_after = max(keras.usual_after, keras.after())


def _keep_own(fold: Fold, run: OpenRun, epoch: int) -> None:
    """Choose an epoch's own line among those seen, and remember what it looks like."""
    keras = run.keras
    place = keras.own_place()
    own, line, _ = keras.seen[place]
    if place != keras.kept:
        _store(fold, run, epoch, own, line, corrects=keras.kept >= 0)
        keras.kept = place
    keras.place, keras.total, keras.validated = place, own.total, keras.validated or own.validates
    keras.alike = any(keras.looks_own(other) for at, (other, _, _) in enumerate(keras.seen) if at != place)


def _alone(fold: Fold, run: OpenRun, summary: Summary, line: int, continues: bool) -> None:
    """A summary line where one process writes."""
    keras = run.keras
    if keras.open is not None:
        if keras.waits(summary):
            return
        epoch, keras.open = keras.open, None
    elif run.epochs and continues and summary.bar and summary.total == keras.total:
        epoch = run.last  # the same bar, written on after another print
    elif run.epochs and not keras.validated and summary.validates and keras.kept >= 0:
        epoch = run.last  # only an epoch's own line has them: the one before was an `evaluate`
    elif keras.last is not None or run.epochs or (run.facts.epochs_planned or 1) > 1:
        return
    elif not summary.metrics and not _announced(run):
        return  # a `predict`: it prints no metric
    else:
        if not _announced(run) and not summary.validates:
            run.note("Keras prints such a line for a training of one epoch, and for `evaluate`.")
        run.learn(RunFacts(epochs_planned=1))
        epoch = 1
    _store(fold, run, epoch, summary, line, corrects=keras.kept >= 0)
    keras.kept = len(keras.seen) - 1


def _announced(run: OpenRun) -> bool:
    """Whether a line announced a training: a line without a header is then surely its one epoch."""
    return bool(run.announced or run.batch_line or run.started or run.clock or run.samples or run.gpus)


def _among_workers(fold: Fold, run: OpenRun, summary: Summary, line: int) -> None:
    """A summary line after a header that came twice: the epoch's first such line counts."""
    keras = run.keras
    share = -(-keras.summaries // keras.workers)
    if not keras.sure:
        if keras.doubtful is not None and keras.summaries > keras.workers:
            _one_process(fold, run)
            keras.seen.append((summary, line, False))
            _alone(fold, run, summary, line, continues=False)
            return
        if keras.doubtful is not None or keras.open is None:
            keras.doubtful, keras.sure, run.interleaved = None, True, True
        elif keras.open != share:
            keras.doubtful, keras.open = (keras.open, summary, line), None
            return
    if keras.sure and keras.total is not None and summary.total not in (None, keras.total):
        reason = f"trainings of {keras.total} and of {summary.total} steps wrote to this log at once"
        fold.refuse(line, f"{summary.total}/{summary.total}", reason)
    if share in run.epochs or share not in keras.headers:
        run.interleaved = True
        return
    keras.open = None
    _store(fold, run, share, summary, line)


def _one_process(fold: Fold, run: OpenRun) -> None:
    """Epochs did not alternate: the first header was that of a training that died."""
    keras = run.keras
    doubtful, keras.doubtful, keras.workers = keras.doubtful, None, 1
    if doubtful is not None:
        epoch, summary, line = doubtful
        keras.seen.append((summary, line, False))
        keras.kept = len(keras.seen) - 1
        _store(fold, run, epoch, summary, line)


def _is_whole(run: OpenRun, epoch: int, summary: Summary) -> bool:
    """Whether an epoch had all its steps: Keras prints the planned number also when its input ran out."""
    shortage = run.out_of_data
    planned = (summary.total or 0) * (run.facts.epochs_planned or 0)
    if shortage is not None and (shortage in (0, planned) or not planned):
        run.note(f"The input ran out of data in epoch {epoch}: the epochs from there on may not be complete.")
        return False
    if "loss" in summary.metrics and not any(summary.metrics.values()):
        run.note(f"Epoch {epoch} trained no step (all its metrics are zero): the input had run out of data.")
        return False
    return True


def _store(
    fold: Fold, run: OpenRun, epoch: int, summary: Summary, line: int, *, corrects: bool = False
) -> None:
    """Make a sample of a line and keep it."""
    keras = run.keras
    if not _is_whole(run, epoch, summary):
        return
    keras.total = summary.total if keras.total is None or corrects else keras.total
    keras.validated = keras.validated or summary.validates
    if summary.validates:
        run.note("Validation is inside each epoch's time.")
    if summary.seconds == 0 and not summary.units:
        run.note("Epochs printed as 0 s took less than a second; the log does not say how much less.")
    run.form = KERAS
    if not run.facts.framework:
        run.learn(RunFacts(framework=KERAS))
    if "sample" in summary.units:
        run.learn(RunFacts(images=summary.total), sure=False)
    sample = EpochSample(
        epoch=epoch,
        seconds=epoch_interval(summary),
        printed_seconds=summary.seconds,
        # "Train on N samples": old Keras counts samples, not steps
        steps=None if summary.total == run.samples else summary.steps,
        ms_per_step=summary.ms_per_step,
        metrics=dict(summary.metrics),
        source=KERAS,
        line=line,
    )
    fold.keep(run, sample)
