"""Keras's headers and summary lines, put in terms of runs and epochs (`keras` reads them, `runs` keeps them).

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
from labtui.training_logs.keras import FirstStep, Header, KerasLines, Summary, epoch_interval
from labtui.training_logs.run_tracker import OpenRun, RunTracker, merged
from labtui.training_logs.runs import RunFacts


def take_header(tracker: RunTracker, line: int, header: Header, *, takeover: bool = False) -> None:
    """``Epoch k/N``. `takeover`: a lower rank repeats a higher one's line."""
    run = tracker.current
    if run is not None and _repeats(run, header):
        run.last_line = line
        _again(run, header, takeover)
        return
    if run is not None:
        _settle_before(tracker, run, header)
        if _beside(tracker, run, header):
            reason = "two trainings wrote to this log at once, and nothing shows which training an epoch belongs to"
            tracker.refuse(line, f"Epoch {header.epoch}/{header.epochs}", reason)
            return
    if run is None or _restarts(run, header):
        run = _another(tracker, line)
    keras = run.keras
    if not keras.headers:
        _forget_evaluation(run)
    if run.held is None or run.clocked is None or run.clocked[0] != run.held.epoch:
        tracker.release()  # else the record of its end is still to come, after the next epoch's header
    run.last_line = line
    keras.open = keras.last = header.epoch
    keras.headers[header.epoch] += 1
    keras.seen.clear()
    keras.kept, keras.first = -1, None
    tracker.epoch_opens(run)
    tracker.settle = settle_end
    run.learn(RunFacts(epochs_planned=header.epochs, framework=run.facts.framework or "keras"))


def take_summary(tracker: RunTracker, line: int, summary: Summary, *, continues: bool = False) -> None:
    """The line at the end of an epoch, or of an `evaluate`, which has no header open."""
    run = tracker.here(line)
    keras = run.keras
    if not summary.finished:
        if summary.first is not None and keras.first is None:
            keras.first = FirstStep(None if summary.unknown_total else summary.total, summary.first)
        keras.unknown = (summary, line) if summary.unknown_total else None
        return
    summary = _with_first_step(keras, summary)
    keras.unknown = keras.first = None
    run.interleaved = run.interleaved or summary.glued
    keras.summaries += 1
    if keras.workers > 1:
        _among_workers(tracker, run, summary, line)
    else:
        keras.seen.append((summary, line, continues))
        _alone(tracker, run, summary, line, continues)


def take_first_step(tracker: RunTracker, first: FirstStep) -> None:
    """The bar of step 1 on a line of its own, or one that a warning cut off from the rest."""
    if tracker.current is not None:
        tracker.current.keras.first = first


def _with_first_step(keras: KerasLines, summary: Summary) -> Summary:
    """The bar with the first step of an earlier line, where one process writes."""
    first = keras.first
    if first is None or summary.first is not None or not summary.bar or keras.workers > 1:
        return summary
    return replace(summary, first=first.seconds) if first.total in (None, summary.total) else summary


def settle_end(tracker: RunTracker, run: OpenRun) -> None:
    """No more lines come: what waited for the next is decided by what is there."""
    keras = run.keras
    if keras.doubtful is not None:
        _one_process(tracker, run)
    elif keras.open is not None and len(keras.seen) > (keras.place or 0):
        _keep_own(tracker, run, keras.open)
        keras.open = None


# --------------------------------------------------------------------------- which run


def _another(tracker: RunTracker, line: int) -> OpenRun:
    """The run a first header opens: the one announced, or another fit of the same script."""
    run = tracker.current
    if run is not None and not run.training:
        return tracker.here(line)
    follows = run is not None and run.training and not run.broken
    before = run.keras.total if run is not None and follows else None
    run = tracker.begin(line, RunFacts(), inherited=run.facts if run is not None and follows else None)
    run.keras.inherited = before
    return run


def _repeats(run: OpenRun, header: Header) -> bool:
    keras = run.keras
    if keras.headers[header.epoch] == 0 or run.facts.epochs_planned != header.epochs:
        return False
    if keras.doubtful is not None:
        return header.epoch == keras.doubtful[0]
    if keras.workers > 1:
        return not (header.epoch == 1 and bool(run.epochs) and max(run.epochs) > 1)
    return header.epoch == keras.open and not keras.seen and not run.broken and not run.fresh


def _beside(tracker: RunTracker, run: OpenRun, header: Header) -> bool:
    """Whether the header is of another training that goes on beside this one."""
    last, planned = run.keras.last, run.facts.epochs_planned
    if run.refused:
        return True
    if last is None or header.epoch == 1 or run.fresh or run.broken or run.stopped or run.keras.workers > 1:
        return False
    if header.epoch == last + 1 and planned in (header.epochs, last):
        return False
    before = tracker.before
    goes_on = before is not None and not before.success and before.keras.last == header.epoch - 1
    return header.epochs != planned or (
        goes_on and before is not None and before.facts.epochs_planned == header.epochs
    )


def _again(run: OpenRun, header: Header, takeover: bool) -> None:
    """The header of an epoch came once more."""
    keras = run.keras
    if keras.doubtful is not None:  # epochs alternate: the line that waited was the other process's
        keras.doubtful, keras.sure, run.interleaved = None, True, True
    elif keras.summaries:
        keras.sure = keras.sure or keras.workers > 1
    elif not takeover and not run.broken and header.epoch == keras.open:
        keras.workers += 1


def _restarts(run: OpenRun, header: Header) -> bool:
    headers = run.keras.headers
    if 1 < header.epoch == run.keras.open and header.epochs == run.facts.epochs_planned and not run.stopped:
        return False  # a resumed training begins again with the epoch it never finished
    if run.stopped or (run.broken and header.epoch == 1 and run.training):
        return True
    return bool(headers) and header.epoch <= max(headers)


def _forget_evaluation(run: OpenRun) -> None:
    """A line before the first header was an `evaluate`, not the one epoch of a run without headers."""
    if run.epochs and all(sample.source == "keras" for sample in run.epochs.values()):
        run.epochs.clear()


# --------------------------------------------------------------------------- which epoch


def _settle_before(tracker: RunTracker, run: OpenRun, header: Header) -> None:
    """The next header: the last epoch's lines are all there, so its own can be recognised."""
    keras = run.keras
    if keras.doubtful is not None:
        _one_process(tracker, run)
    if keras.last is None or header.epoch != keras.last + 1 or header.epochs != run.facts.epochs_planned:
        return
    if keras.unknown is not None and keras.open is not None:
        # TF 2.0 never closes a bar of unknown length; the next header proves that its epoch is over.
        summary, line = keras.unknown
        take_summary(tracker, line, replace(summary, finished=True))
    keras.unknown = None
    if keras.workers == 1 and keras.seen:
        _keep_own(tracker, run, keras.last)


def _keep_own(tracker: RunTracker, run: OpenRun, epoch: int) -> None:
    """Choose an epoch's own line among those seen, and remember what it looks like."""
    keras = run.keras
    place = _own_place(keras)
    own, line, _ = keras.seen[place]
    if place != keras.kept:
        _store(tracker, run, epoch, own, line, corrects=keras.kept >= 0)
        keras.kept = place
    keras.place, keras.total, keras.validated = place, own.total, keras.validated or _validates(own)
    keras.alike = any(_looks_own(keras, other) for at, (other, _, _) in enumerate(keras.seen) if at != place)


def _own_place(keras: KerasLines) -> int:
    lines = list(enumerate(keras.seen))
    for fits in (
        [one for one in lines if _validates(one[1][0])],
        [one for one in lines if keras.place is not None and one[1][0].total == keras.total],
    ):
        lines = [one for one in lines if one in fits] or lines
    plain = [one for one in lines if not one[1][0].bar]
    if plain:  # from 2.7 on lines have a step time, and Keras's own comes after those of callbacks
        return plain[-1 if "step" in plain[-1][1][0].units else 0][0]
    return next((place for place, (_, _, continues) in reversed(lines) if continues), lines[0][0])


def _validates(summary: Summary) -> bool:
    return any(name.startswith("val_") for name in summary.metrics)


def _looks_own(keras: KerasLines, summary: Summary) -> bool:
    if keras.total is not None and summary.total != keras.total:
        return False
    return _validates(summary) or not keras.validated


def _waits(keras: KerasLines, summary: Summary) -> bool:
    """Whether a line is no epoch's own by what is known of this run's lines; the next header decides."""
    if not _looks_own(keras, summary):
        return True
    return keras.alike and keras.place is not None and len(keras.seen) - 1 < keras.place


def _alone(tracker: RunTracker, run: OpenRun, summary: Summary, line: int, continues: bool) -> None:
    """A summary line where one process writes."""
    keras = run.keras
    if keras.open is not None:
        if _waits(keras, summary):
            return
        epoch, keras.open = keras.open, None
    elif continues and summary.bar and run.epochs and summary.total == keras.total:
        epoch = max(run.epochs)  # the same bar, written on after another print
    elif run.epochs and not keras.validated and _validates(summary) and keras.kept >= 0:
        epoch = max(run.epochs)  # only an epoch's own line has them: the one before was an `evaluate`
    elif keras.headers or run.epochs or (run.facts.epochs_planned or 1) > 1:
        return
    elif not summary.metrics and not _announced(run):
        return  # a `predict`: it prints no metric
    else:
        if not _announced(run) and not _validates(summary):
            run.note("Keras prints such a line for a training of one epoch, and for `evaluate`.")
        run.learn(RunFacts(epochs_planned=1))
        epoch = 1
    _store(tracker, run, epoch, summary, line, corrects=keras.kept >= 0)
    keras.kept = len(keras.seen) - 1


def _announced(run: OpenRun) -> bool:
    """Whether a line announced a training: a line without a header is then surely its one epoch."""
    return bool(
        run.banner or run.command or run.batch_line or run.started or run.clocked or run.samples or run.gpus
    )


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


def _among_workers(tracker: RunTracker, run: OpenRun, summary: Summary, line: int) -> None:
    """A summary line after a header that came twice: the epoch's first such line counts."""
    keras = run.keras
    share = -(-keras.summaries // keras.workers)
    if not keras.sure:
        if keras.doubtful is not None and keras.summaries > keras.workers:
            _one_process(tracker, run)
            keras.seen.append((summary, line, False))
            _alone(tracker, run, summary, line, continues=False)
            return
        if keras.doubtful is not None or keras.open is None:
            keras.doubtful, keras.sure, run.interleaved = None, True, True
        elif keras.open != share:
            keras.doubtful, keras.open = (keras.open, summary, line), None
            return
    if keras.sure and keras.total is not None and summary.total not in (None, keras.total):
        reason = f"trainings of {keras.total} and of {summary.total} steps wrote to this log at once"
        tracker.refuse(line, f"{summary.total}/{summary.total}", reason)
    if share in run.epochs or share not in keras.headers:
        run.interleaved = True
        return
    keras.open = None
    _store(tracker, run, share, summary, line)


def _one_process(tracker: RunTracker, run: OpenRun) -> None:
    """Epochs did not alternate: the first header was that of a training that died."""
    keras = run.keras
    doubtful, keras.doubtful, keras.workers = keras.doubtful, None, 1
    if doubtful is not None:
        epoch, summary, line = doubtful
        keras.seen.append((summary, line, False))
        keras.kept = len(keras.seen) - 1
        _store(tracker, run, epoch, summary, line)


def _store(
    tracker: RunTracker, run: OpenRun, epoch: int, summary: Summary, line: int, *, corrects: bool = False
) -> None:
    """Make a sample of a line and put it where it belongs; MLPerf's clock knows the time better."""
    keras = run.keras
    if not _is_whole(run, epoch, summary):
        return
    if keras.total is None and keras.inherited not in (None, summary.total):
        run.facts = replace(run.facts, batch_size=None)  # another number of steps, so another batch
    keras.total = summary.total if keras.total is None or corrects else keras.total
    keras.validated = keras.validated or _validates(summary)
    if _validates(summary):
        run.note("Validation is inside each epoch's time.")
    sample = EpochSample(
        epoch=epoch,
        seconds=epoch_interval(summary),
        printed_seconds=summary.seconds,
        # "Train on N samples": old Keras counts samples, not steps
        steps=None if summary.total == run.samples else summary.steps,
        ms_per_step=summary.ms_per_step,
        metrics=dict(summary.metrics),
        source="keras",
        line=line,
    )
    run.learn(RunFacts(framework="keras"), sure=False)
    if "sample" in summary.units:
        run.learn(RunFacts(images=summary.total), sure=False)
    measured = run.held or run.epochs.get(epoch)
    if measured is not None and measured.epoch == epoch and measured.source.startswith("mllog"):
        run.held = None
        tracker.store(run, merged(measured, sample))
    elif run.clocked is not None and run.clocked[0] == epoch:
        run.held = sample  # MLPerf's epoch_stop will follow and knows better
    else:
        tracker.store(run, sample)
