"""MLPerf logging records, and what each says.

Format: MLCommons `mlperf-logging`, releases 0.7 to 4.1.
"""

import contextlib
import json
from collections.abc import Mapping
from typing import Any

import msgspec

from labtui.domain.model import Outcome
from labtui.domain.tuning import tuning_of
from labtui.training_logs.run_headers import device_of, short_model
from labtui.training_logs.runs import NO_FACTS, GpuCount, RunFacts, measured
from labtui.training_logs.said import Begins, Ends, Epoch, Measures, Opens, Said, Says

MARK = ":::MLLOG"
FORM = "mllog"

_DECODER = json.JSONDecoder()


class Record(msgspec.Struct, frozen=True):
    """One record: `key` in lower case, `at` in seconds of the writer's clock or None."""

    key: str
    value: Any
    at: float | None
    metadata: Mapping[str, Any]

    def number(self, *names: str) -> float | None:
        """Its value, where it is the record of one of these names; else their first finite number in its metadata."""
        if self.key in names:
            return finite(self.value)
        for name in names:
            if name in self.metadata and (number := finite(self.metadata[name])) is not None:
                return number
        return None

    def count(self, *names: str) -> int | None:
        """The same as a number of things: whole, not negative, at most 10^12."""
        number = self.number(*names)
        return int(number) if number is not None and 0 <= number <= 1e12 else None

    def word(self, name: str) -> str:
        """Its value as text, where it is the record of that name; else that of its metadata."""
        found = self.value if self.key == name else self.metadata.get(name)
        return found if isinstance(found, str) else ""


def finite(value: object) -> float | None:
    """The value as a float when it is a finite number of sensible size."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= 1e18:
        return None
    return float(value)


def read_records(text: str) -> list[Record]:
    """The records in a line, wherever they start: processes that share an output may write two in one line."""
    start = text.find(MARK)
    records = []
    while start >= 0:
        end = start + len(MARK)
        with contextlib.suppress(ValueError, RecursionError):
            data, end = _DECODER.raw_decode(text, text.find("{", end))
            if isinstance(data, dict) and isinstance(data.get("key"), str):
                more, ms = data.get("metadata"), finite(data.get("time_ms"))
                at = None if ms is None else ms / 1000
                metadata = more if isinstance(more, dict) else {}
                records.append(Record(data["key"].strip().lower(), data.get("value"), at, metadata))
        start = text.find(MARK, end)
    return records


_REASONS: dict[str, Outcome] = {"out of memory": "oom", "terminated": "cancelled"}
_OPENING = ("run_start", "init_start", "submission_benchmark", "global_batch_size", "cache_clear")


def said_of(line: int, record: Record) -> list[Said]:
    """What a record says. Unknown keys say nothing."""
    key = record.key
    said: list[Said] = [Begins("record", text=key)] if key in _OPENING else []
    if (facts := _facts(record)) != NO_FACTS:
        said.append(Says(facts, late=True))
    if key == "num_replicas" and (count := record.count(key)):
        said.append(Says(gpus=GpuCount("replicas", count, line, f"num_replicas {count}")))
    elif key == "run_stop":
        status = record.word("status").lower()
        success = status in ("success", "") and record.metadata.get("success") is not False
        outcome = _REASONS.get(record.word("reason"))
        said.append(Ends(success=success, outcome=outcome, status=status or "not successful"))
    elif key in ("epoch_start", "epoch_stop", "block_start", "block_stop"):
        said += _bound(record, block=key.startswith("block"))
    elif key in ("tracked_stats", "eval_accuracy"):
        values = record.value if isinstance(record.value, dict) else {key: record.value}
        found = {str(name): number for name, value in values.items() if (number := finite(value)) is not None}
        said += [Measures(found, record.number("epoch_num"), FORM)] if found else []
    return said


def _bound(record: Record, *, block: bool) -> list[Said]:
    """Where an epoch, or a block of them, begins or ends."""
    count = (record.count("epoch_count") or 1) if block else 0
    number = record.number("epoch_num", "epoch", "first_epoch_num")
    number = finite(record.value) if number is None else number
    if record.key.endswith("start"):
        # a block of training steps says so, or gives no number
        counted = record.number("first_epoch_num", "epoch_num", "epoch_count") is not None
        return [Opens(FORM, number, at=record.at, count=count)] if counted or not block else []
    given = None if block else record.number("seconds")
    seconds = None if given is None or given < 0 else measured(given)
    number = None if block else number
    return [Epoch(FORM, number, seconds, steps=record.count("steps"), at=record.at, count=count)]


def _facts(record: Record) -> RunFacts:
    """What a point in time tells about the run; keys of MLPerf, and what metadata may add."""
    own = record.value if isinstance(record.value, str) else ""
    named = own if record.key in ("submission_benchmark", "model_name") else record.word("model")
    device = device_of(record.word("device"))
    gpus = record.count("n_gpus", "num_gpus", "number_of_accelerators")
    small = record.metadata.get("practice")
    if device == "cpu":
        # CPU devices that stand in for GPUs keep the number and the name of what they stand for.
        device, gpus = (None, None) if small is True else (device, 0)
    return RunFacts(
        model=short_model(named) if named else None,
        device=device,
        n_gpus=gpus,
        batch_size=record.count("global_batch_size") or None,
        epochs_planned=record.count("epochs", "max_epochs", "num_epochs") or None,
        images=record.count("train_samples"),
        learning_rate=record.number("opt_base_learning_rate"),
        framework=own if record.key == "framework" and own else None,
        tuning=tuning_of({"control": own}) if record.key == "control" else None,
        small=small if isinstance(small, bool) else None,
        sequence_length=record.count("sequence_length"),
    )
