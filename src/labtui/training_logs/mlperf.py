"""MLPerf logging records, and what each says.

Format: MLCommons `mlperf-logging`, releases 0.7 to 4.1.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from labtui.domain.model import Outcome
from labtui.domain.tuning import tuning_of
from labtui.training_logs.run_headers import device_of, short_model
from labtui.training_logs.runs import NO_FACTS, GpuCount, RunFacts, measured
from labtui.training_logs.said import Begins, Ends, Epoch, Measures, Opens, Said, Says

MARK = ":::MLLOG"
FORM = "mllog"

_DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class Record:
    """One record: `key` in lower case, `time_ms` of the writer's clock or None."""

    key: str
    value: Any = None
    time_ms: float | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def number(self, *names: str) -> float | None:
        """The first finite number among the metadata entries of these names."""
        found = (finite(self.metadata.get(name)) for name in names)
        return next((number for number in found if number is not None), None)

    def either(self, *names: str) -> float | None:
        """Its own number, where it is the record of one of these names; else that of its metadata."""
        return finite(self.value) if self.key in names else self.number(*names)

    def word(self, name: str) -> str:
        """The text of a metadata entry."""
        found = self.metadata.get(name)
        return found if isinstance(found, str) else ""


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
    records = []
    while start >= 0:
        end = start + len(MARK)
        with contextlib.suppress(ValueError, RecursionError):
            data, end = _DECODER.raw_decode(text, text.find("{", end))
            if isinstance(data, dict) and isinstance(data.get("key"), str):
                more, time_ms = data.get("metadata"), finite(data.get("time_ms"))
                metadata = more if isinstance(more, dict) else {}
                records.append(Record(data["key"].strip().lower(), data.get("value"), time_ms, metadata))
        start = text.find(MARK, end)
    return records


_REASONS: dict[str, Outcome] = {"out of memory": "oom", "terminated": "cancelled"}
_OPENING = ("run_start", "init_start", "submission_benchmark", "global_batch_size", "cache_clear")


def said_of(line: int, record: Record) -> list[Said]:
    """What a record says. Unknown keys say nothing."""
    key = record.key
    said: list[Said] = []
    if key in _OPENING:
        said.append(Begins("record", text=key))
    if (facts := _facts(record)) != NO_FACTS:
        said.append(Says(facts, late=True))
    if key == "num_replicas" and (count := _count(record.value)):
        said.append(Says(NO_FACTS, gpus=GpuCount("replicas", count, line, f"num_replicas {count}")))
    elif key == "run_stop":
        status = record.word("status").lower()
        success = status in ("success", "") and record.metadata.get("success") is not False
        outcome = _REASONS.get(record.word("reason"))
        said.append(Ends(success=success, outcome=outcome, status=status or "not successful"))
    elif key in ("epoch_start", "block_start"):
        count = (_count(record.number("epoch_count")) or 1) if key == "block_start" else 0
        # a block of training steps says so, or gives no number
        if not count or record.number("first_epoch_num", "epoch_num", "epoch_count") is not None:
            said.append(Opens(FORM, _number(record), at=_seconds(record), count=count))
    elif key in ("epoch_stop", "block_stop"):
        said.append(_stop(record))
    elif key in ("tracked_stats", "eval_accuracy") and (found := _metrics(record)):
        said.append(Measures(found, record.number("epoch_num"), FORM))
    return said


def _stop(record: Record) -> Epoch:
    block = record.key == "block_stop"
    seconds = None if block else record.number("seconds")
    return Epoch(
        FORM,
        number=None if block else _number(record),
        seconds=None if seconds is None or seconds < 0 else measured(seconds),
        steps=_count(record.number("steps")),
        at=_seconds(record),
        count=(_count(record.number("epoch_count")) or 1) if block else 0,
    )


def _metrics(record: Record) -> dict[str, float]:
    values = record.value if isinstance(record.value, dict) else {record.key: record.value}
    return {str(name): number for name, value in values.items() if (number := finite(value)) is not None}


def _number(record: Record) -> float | None:
    given = record.number("epoch_num", "epoch", "first_epoch_num")
    return finite(record.value) if given is None else given


def _seconds(record: Record) -> float | None:
    return None if record.time_ms is None else record.time_ms / 1000


def _count(number: object) -> int | None:
    value = finite(number)
    return int(value) if value is not None and 0 <= value <= 1e12 else None


def _facts(record: Record) -> RunFacts:
    """What a point in time tells about the run; keys of MLPerf, and what metadata may add."""
    key, own = record.key, record.value if isinstance(record.value, str) else ""
    named = own if key in ("submission_benchmark", "model", "model_name") else record.word("model")
    device = device_of(own if key == "device" else record.word("device"))
    gpus = record.either("n_gpus", "num_gpus", "number_of_accelerators")
    small = record.metadata.get("practice")
    if device == "cpu":
        # CPU devices that stand in for GPUs keep the number and the name of what they stand for.
        device, gpus = (None, None) if small is True else (device, 0)
    return RunFacts(
        model=short_model(named) if named else None,
        device=device,
        n_gpus=_count(gpus),
        batch_size=_count(record.either("global_batch_size")) or None,
        epochs_planned=_count(record.either("epochs", "max_epochs", "num_epochs")) or None,
        images=_count(record.either("train_samples")),
        learning_rate=record.either("opt_base_learning_rate"),
        framework=own if key == "framework" and own else None,
        tuning=tuning_of({"control": own}) if key == "control" else None,
        small=small if isinstance(small, bool) else None,
        sequence_length=_count(record.number("sequence_length")),
    )
