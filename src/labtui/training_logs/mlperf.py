"""MLPerf logging records: reading one line, and putting the records of a run together.

Format: MLCommons `mlperf-logging`, releases 0.6 to 4.1.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from labtui.domain.model import EpochSample, Interval, Outcome
from labtui.training_logs.run_headers import device_of, short_model
from labtui.training_logs.run_tracker import OpenRun, RunTracker, merged
from labtui.training_logs.runs import Failure, GpuCount, RunFacts

MARK = ":::MLLOG"
CLOCK_SECONDS = 0.001
"""Half-width of an epoch's interval, seconds."""

_OLD = re.compile(
    r":::(?:MLL|MLPv0\.\d\.\d \S{1,80}) (\d{1,12}(?:\.\d{1,9})?)(?: \([^)]{0,300}\))? (\w{1,80})(?:: (.*))?\Z"
)
_DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class Record:
    """One record: `key` in lower case, `time_ms` of the writer's clock or None."""

    key: str
    value: Any = None
    time_ms: float | None = None
    event: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def number(self, *names: str) -> float | None:
        """The first finite number among the metadata entries of these names."""
        for name in names:
            found = finite(self.metadata.get(name))
            if found is not None:
                return found
        return None

    def word(self, *names: str) -> str:
        """The first text among the metadata entries of these names."""
        for name in names:
            found = self.metadata.get(name)
            if isinstance(found, str) and found:
                return found
        return ""


def finite(value: object) -> float | None:
    """The value as a float when it is a finite number of sensible size."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if isinstance(value, int) and abs(value) > 10**18:
        return None
    return float(value) if math.isfinite(value) else None


def read_records(text: str) -> list[Record]:
    """The records in a line, wherever they start: processes that share an output may write two in one line."""
    start = text.find(MARK)
    if start < 0:
        old = _read_old(text)
        return [old] if old is not None else []
    records = []
    while start >= 0:
        end = start + len(MARK)
        with contextlib.suppress(ValueError, RecursionError):
            data, end = _DECODER.raw_decode(text, text.find("{", end))
            if isinstance(data, dict) and isinstance(data.get("key"), str):
                records.append(_as_record(data))
        start = text.find(MARK, end)
    return records


def _as_record(data: Mapping[str, Any]) -> Record:
    metadata = data.get("metadata")
    return Record(
        key=data["key"].strip().lower(),
        value=data.get("value"),
        time_ms=finite(data.get("time_ms")),
        event=str(data.get("event_type") or "").upper(),
        metadata=metadata if isinstance(metadata, dict) else {},
    )


def _read_old(text: str) -> Record | None:
    """The forms of MLPerf v0.5 and v0.6.

    v0.5: ``:::MLPv0.5.0 resnet 1541640840.123 (file.py:12) key: value``
    v0.6: ``:::MLL 1557348823.123 key: {"value": ..., "metadata": {...}}``
    """
    match = _OLD.search(text)
    if match is None:
        return None
    value: Any = match[3]
    with contextlib.suppress(ValueError, RecursionError):
        value = json.loads(match[3]) if match[3] else None
    metadata = value if isinstance(value, dict) else {}
    if isinstance(metadata.get("metadata"), dict):
        value, metadata = metadata.get("value"), metadata["metadata"]
    return Record(match[2].lower(), value, float(match[1]) * 1000, "", metadata)


def measured(seconds: float) -> Interval:
    """The interval of a time taken by a program's own clock."""
    return Interval(seconds, max(0.0, seconds - CLOCK_SECONDS), seconds + CLOCK_SECONDS)


_REASONS: dict[str, Outcome] = {"out of memory": "oom", "terminated": "cancelled"}
_OPENING = ("run_start", "init_start", "submission_benchmark", "global_batch_size", "cache_clear")


def take_record(tracker: RunTracker, line: int, record: Record) -> None:
    """Put one record where it belongs. Unknown keys are left alone."""
    run = tracker.current
    if run is None or _opens(run, record):
        run = tracker.begin(line, RunFacts())
    run.last_line = line
    handler = _HANDLERS.get(record.key)
    if handler is not None:
        handler(tracker, run, line, record)
    else:
        run.learn(_facts(record))


def _opens(run: OpenRun, record: Record) -> bool:
    if record.key == "run_start" and run.started:
        # every rank of one job says so before any of them trains
        return run.stopped or run.training or run.broken or run.fresh
    return record.key in _OPENING and (run.stopped or bool(run.epochs) or run.held is not None)


def _whole(number: object) -> int | None:
    value = finite(number)
    return int(value) if value is not None and 0 <= value <= 1e12 else None


def _facts(record: Record) -> RunFacts:
    """What a point in time tells about the run; keys of MLPerf, and what metadata may add."""
    key, value = record.key, record.value
    number = finite(value)
    model = value if isinstance(value, str) else ""
    named = model if key in ("submission_benchmark", "model", "model_name") else record.word("model")
    device = device_of(model if key == "device" else record.word("device"))
    batch = _whole(number) if key == "global_batch_size" else _whole(record.number("global_batch_size"))
    gpus = record.number("n_gpus", "num_gpus")
    if key in ("n_gpus", "num_gpus", "number_of_accelerators"):
        gpus = number
    practice = record.metadata.get("practice")
    if device == "cpu":
        # CPU devices that stand in for GPUs keep the number and the name of what they stand for.
        device, gpus = (None, None) if practice is True else (device, 0)
    planned = number if key in ("epochs", "max_epochs", "num_epochs") else record.number("epochs")
    return RunFacts(
        model=short_model(named) if named else None,
        device=device,
        n_gpus=_whole(gpus),
        batch_size=batch or None,
        epochs_planned=_whole(planned) or None,
        images=_whole(number) if key == "train_samples" else _whole(record.number("train_samples")),
        learning_rate=number if key == "opt_base_learning_rate" else None,
        framework=model if key == "framework" and model else None,
        practice=practice if isinstance(practice, bool) else None,
        sequence_length=_whole(record.number("sequence_length")),
    )


def _replicas(tracker: RunTracker, run: OpenRun, line: int, record: Record) -> None:
    count = _whole(record.value)
    if count:
        tracker.gpus(GpuCount("replicas", count, line, f"num_replicas {count}"))


def _run_start(tracker: RunTracker, run: OpenRun, line: int, record: Record) -> None:
    run.interleaved = run.interleaved or run.started
    run.started = True
    run.learn(_facts(record))


def _run_stop(tracker: RunTracker, run: OpenRun, line: int, record: Record) -> None:
    tracker.release()
    if run.stopped:
        run.interleaved = True  # another rank's
        return
    if run.clocked is not None:
        run.note(f"Epoch {run.clocked[0]} began, but its end is not in the log.")
    status = record.word("status").lower()
    outcome = _REASONS.get(record.word("reason"))
    if outcome is not None and run.failure is None:
        run.failure = Failure(outcome, line)
    success = status in ("success", "") and record.metadata.get("success") is not False
    run.stopped, run.success, run.aborted = True, success, not success
    if not success:
        run.note(f'Its run_stop says "{status or "not successful"}", though epochs may be complete.')


def _number(run: OpenRun, record: Record) -> int:
    """The epoch's number, from 1; programs that count from 0 are shifted, fractions and gaps are counted."""
    given = record.number("epoch_num", "epoch", "first_epoch_num")
    if given is None:
        given = finite(record.value)
    if given == 0 and not run.epochs:
        run.zero_based = True
    run.fractional = run.fractional or (given is not None and given != int(given))
    if given is None or given < 0 or run.fractional:
        return max((*run.epochs, run.held.epoch if run.held else 0)) + 1
    return int(given) + (1 if run.zero_based else 0)


def _epoch_start(tracker: RunTracker, run: OpenRun, line: int, record: Record) -> None:
    epoch = _number(run, record)
    if run.clocked is not None and run.clocked[0] == epoch:
        run.interleaved = True  # another process says the same
        return
    tracker.release()
    tracker.epoch_opens(run)
    run.clocked = (epoch, record.time_ms)


def _epoch_stop(tracker: RunTracker, run: OpenRun, line: int, record: Record) -> None:
    began = run.clocked
    explicit = record.number("epoch_num", "epoch") is not None or finite(record.value) is not None
    epoch = began[0] if began is not None and (run.fractional or not explicit) else _number(run, record)
    seconds = record.number("seconds")
    if seconds is None and began is not None and began[0] == epoch:
        seconds = _elapsed(began[1], record.time_ms)
    if began is not None and began[0] == epoch:
        run.clocked = None
    if seconds is None or seconds < 0:
        return
    sample = EpochSample(
        epoch=epoch,
        seconds=measured(seconds),
        steps=_whole(record.number("steps")),
        source="mllog",
        line=line,
        ended_at=None if record.time_ms is None else record.time_ms / 1000,
    )
    _keep(tracker, run, sample)


def _elapsed(start_ms: float | None, stop_ms: float | None) -> float | None:
    return None if start_ms is None or stop_ms is None else (stop_ms - start_ms) / 1000


def _keep(tracker: RunTracker, run: OpenRun, sample: EpochSample) -> None:
    epoch = sample.epoch
    held, stored = run.held, run.epochs.get(epoch)
    if stored is not None and stored.source in ("keras", "train.py"):
        tracker.store(run, merged(sample, stored))  # the record came late: it knows better all the same
        return
    if stored is not None or (held is not None and held.epoch == epoch and held.source == "mllog"):
        run.interleaved = True  # another process of the same run
        return
    if held is not None and held.epoch == epoch:
        run.held = None
        tracker.store(run, merged(sample, held))
        return
    tracker.release()
    run.held = sample  # a Keras line may follow and add what it prints


def _block_start(tracker: RunTracker, run: OpenRun, line: int, record: Record) -> None:
    if run.clocked is None:
        _epoch_start(tracker, run, line, record)
        run.block = _whole(record.number("epoch_count")) or 1


def _block_stop(tracker: RunTracker, run: OpenRun, line: int, record: Record) -> None:
    """A block of epochs without a clock of their own: each gets the block's mean."""
    began, run.clocked = run.clocked, None
    if began is None or run.held is not None:
        return
    first = began[0]
    if first in run.epochs:  # labels of two blocks collide: count on
        first = max(run.epochs) + 1
        run.note("Blocks of epochs have the same numbers in this log; they are counted in order.")
    elapsed = _elapsed(began[1], record.time_ms)
    count = _whole(record.number("epoch_count")) or run.block  # TensorFlow's says it at the start only
    if elapsed is None or elapsed < 0 or count > 10_000:
        return
    mean, width = elapsed / count, CLOCK_SECONDS / count
    for epoch in range(first, first + count):
        interval = Interval(mean, max(0.0, mean - width), mean + width)
        tracker.store(run, EpochSample(epoch=epoch, seconds=interval, source="mllog-block", line=line))


def _stats(tracker: RunTracker, run: OpenRun, line: int, record: Record) -> None:
    """``tracked_stats`` and ``eval_accuracy``: metrics of the epoch they name, or of the last."""
    values = record.value if isinstance(record.value, dict) else {record.key: record.value}
    found = {str(name): number for name, value in values.items() if (number := finite(value)) is not None}
    if not found:
        return
    if run.held is not None:
        run.held = replace(run.held, metrics={**found, **run.held.metrics})
    elif (stored := run.epochs.get(_whole(record.number("epoch_num")) or 0)) and not run.zero_based:
        if found.keys() - stored.metrics.keys():  # validation came between the epoch's end and its figures
            tracker.store(run, replace(stored, metrics={**found, **stored.metrics}))
    elif record.key == "tracked_stats" and (rate := found.get("throughput")) is not None and not run.epochs:
        run.throughput = Interval.exact(rate)


_HANDLERS = {
    "num_replicas": _replicas,
    "run_start": _run_start,
    "run_stop": _run_stop,
    "epoch_start": _epoch_start,
    "epoch_stop": _epoch_stop,
    "block_start": _block_start,
    "block_stop": _block_stop,
    "tracked_stats": _stats,
    "eval_accuracy": _stats,
}
