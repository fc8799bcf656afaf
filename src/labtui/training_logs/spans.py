"""Reads epochs that span several lines: MLPerf's records, the course book's train.py, PyTorch's ImageNet example.

MLPerf's records are those of MLCommons' `mlperf-logging`, releases 0.7 to 4.1.
The course's script prints, on rank 0 only, the samples and batches of *one process* and the rate of *all* of them.
The ImageNet example prints a line per batch with the running mean of a batch's seconds, and then its validation; no
line ends an epoch: it is over when its last batches were printed, or when what follows proves it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from labtui.domain.model import EpochSample, Interval, Outcome
from labtui.domain.tuning import tuning_of
from labtui.training_logs import keras_runs, run_headers
from labtui.training_logs.runs import NO_FACTS, RECORDS, GpuCount, RunFacts, clock_interval, compiled
from labtui.training_logs.said import Batch, Begins, Ends, Epoch, Measures, Opens, Said, Says

if TYPE_CHECKING:
    from labtui.training_logs.fold import Fold
    from labtui.training_logs.run import OpenRun

CLOCK, BLOCK, COURSE, IMAGENET = "mllog", "mllog-block", "train.py", "pytorch"
MAX_BLOCK = 10_000

# --------------------------------------------------------------------------- MLPerf's records

MARK = ":::MLLOG"
_DECODER = json.JSONDecoder()


class Record(msgspec.Struct, frozen=True):
    """One record: `key` in lower case, `at` in seconds of the writer's clock or None, its value and metadata."""

    key: str
    at: float | None
    values: Mapping[str, Any]

    def number(self, *names: str) -> float | None:
        """The first of these values that is a finite number."""
        found = (finite(self.values.get(name)) for name in names)
        return next((number for number in found if number is not None), None)

    def count(self, *names: str, most: int = 10**9) -> int | None:
        """The first of these values that is a number, as a count: whole, not negative, not more than is plausible."""
        number = self.number(*names)
        return None if number is None or not number.is_integer() or not 0 <= number <= most else int(number)

    def text(self, *names: str) -> str:
        """The first of these values that is a string or a finite number, as text; "" without one."""
        for value in map(self.values.get, names):
            if isinstance(value, str) or (number := finite(value)) is not None:
                return value if isinstance(value, str) else f"{number:.15g}"
        return ""


def finite(value: object) -> float | None:
    """The value as a float if it is a finite number of reasonable size, else None."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= 1e18:
        return float(value)
    return None


def read_records(text: str) -> Iterator[Record]:
    """The records in a line, wherever they start: processes that share an output may write two in one line."""
    for part in text.split(MARK)[1:]:
        try:
            data, _ = _DECODER.raw_decode(part, part.find("{"))
        except (ValueError, RecursionError):
            continue
        if isinstance(data, dict) and isinstance(data.get("key"), str):
            more, ms = data.get("metadata"), finite(data.get("time_ms"))
            key, known = data["key"].strip().lower(), more if isinstance(more, dict) else {}
            yield Record(key, ms and ms / 1000, {**known, key: data.get("value")})


_REASONS: dict[str, Outcome] = {"out of memory": "oom", "terminated": "cancelled"}
_OPENING = ("run_start", "init_start", "submission_benchmark", "global_batch_size", "cache_clear")


def said_of(line: int, record: Record) -> list[Said]:
    """What a record says. Unknown keys say nothing."""
    key = record.key
    if key in ("epoch_start", "epoch_stop", "block_start", "block_stop"):
        return _said_of_bound(record, block=key.startswith("block"))
    said: list[Said] = [Begins("record", text=key)] if key in _OPENING else []
    if (facts := _facts(record)) != NO_FACTS:
        said.append(Says(facts, about="begun run"))
    if key == "num_replicas" and (count := record.count(key, most=99_999)):
        said.append(GpuCount("replicas", count, line, f"num_replicas {count}"))
    elif key == "run_stop":
        status = record.text("status").lower()
        success = status in ("success", "") and record.values.get("success") is not False
        outcome = _REASONS.get(record.text("reason"))
        whole = clock_interval(record.number("seconds")) if success else None
        held = record.count("reserved_bytes", most=2**60)
        facts = RunFacts(total_seconds=whole, gpu_memory=Interval.exact(held / 2**30) if held else None)
        said.append(Ends(success=success, outcome=outcome, final=True, facts=facts))
    elif key in ("tracked_stats", "eval_accuracy"):
        value = record.values[key]
        values = value if isinstance(value, dict) else {key: value}
        found = {str(name): number for name, value in values.items() if (number := finite(value)) is not None}
        said += [Measures(found, record.number("epoch_num"), CLOCK)] if found else []
    return said


def _said_of_bound(record: Record, *, block: bool) -> list[Said]:
    """The beginning or the end of an epoch, or of a block of epochs."""
    count = (record.count("epoch_count") or 1) if block else 0
    number = record.number("epoch_num", "epoch", "first_epoch_num", record.key)
    if record.key.endswith("start"):
        # a block without any of these is one of training steps, not of epochs
        counted = record.number("first_epoch_num", "epoch_num", "epoch_count") is not None
        return [Opens(CLOCK, number, at=record.at, count=count)] if counted or not block else []
    seconds = clock_interval(None if block else record.number("seconds"))
    return [Epoch(CLOCK, number, seconds, steps=record.count("steps"), at=record.at, count=count)]


def _facts(record: Record) -> RunFacts:
    """The facts of a record about its run: MLPerf's keys, and what the metadata may add."""
    known = run_headers.facts_of({fact: record.text(*names) for fact, names in RECORDS.items()})
    small = record.values.get("small", record.values.get("practice"))  # as earlier scripts call it
    pixels, images = record.count("image_size"), known.get("images")
    if images is not None and pixels is not None and "dataset" not in record.values:
        # By the lab's ResNet scripts, whose epoch is 50,000 images; independent trainings may leave out a few.
        small = pixels != 128 or not 49_900 < images <= 50_000
    if small is True and known.get("device") == "cpu":
        del known["device"], known["n_gpus"]  # CPU devices that stand in for GPUs
    tuning = tuning_of({"control": record.text("control")}) or None
    return RunFacts(**known, tuning=tuning, small=small if isinstance(small, bool) else None)


# --------------------------------------------------------------------------- MLPerf's clock


class Opened(msgspec.Struct, frozen=True):
    """An epoch that began: its number from 1, the writer's clock in seconds, and of a block the number of epochs."""

    number: int
    at: float | None
    count: int = 0
    line: int = 0

    def seconds_until(self, at: float | None, slack: float = 0.001) -> Interval | None:
        """The seconds from here to `at`, give or take the clock's `slack`; None without a clock that goes on."""
        return clock_interval(None if self.at is None or at is None else at - self.at, slack)


CLOCK_SLACK = 1.0
"""The most seconds by which two times of an epoch differ for what a script does between them."""
_TIMES_APART = "Epoch {}: line {} gives {:,.1f} s, line {} gives {:,.1f} s. Neither counts."


def times_apart(epoch: int, *times: tuple[Interval, int | None]) -> dict[int, str]:
    """A sentence for this epoch if its two times, each with its line, contradict each other: a clock was set."""
    (one, line), (other, its) = times
    if not keras_runs.are_apart(one, other) or abs(one.value - other.value) <= CLOCK_SLACK:
        return {}
    return {epoch: _TIMES_APART.format(epoch, line, one.value, its, other.value)}


class RecordLines(msgspec.Struct):
    """The state of a run in MLPerf's records: the epochs that they time, and the one that is open.

    `reach` is the last epoch timed, of a block its last one. `fractional`: the numbers have fractions, so epochs are
    counted instead.
    """

    epochs: dict[int, EpochSample] = {}
    open: Opened | None = None
    reach: int = 0
    zero_based: bool = False
    fractional: bool = False

    @property
    def started(self) -> bool:
        """Whether they began or timed an epoch."""
        return bool(self.epochs or self.open)

    def number_of(self, given: float | None) -> int:
        """An epoch's number, from 1; numbers from 0 are shifted; without numbers, epochs are counted."""
        if given == 0 and not self.epochs:
            self.zero_based = True
        self.fractional = self.fractional or (given is not None and given != int(given))
        if given is None or given < 0 or self.fractional:
            return self.reach + 1
        return int(given) + (1 if self.zero_based else 0)


def start_clock(fold: Fold, line: int, said: Opens) -> None:
    # a run whose epochs were printed without records has none later
    run = fold.run_of(line, lambda run: not run.over and (run.records.started or not run.epochs))
    run.last_line = line
    records = run.records
    number = records.number_of(said.number)
    if records.open is not None and (said.count or records.open.number == number):
        run.interleaved = True  # another process says the same
        return
    run.opened_anew = run.restarted
    records.open = Opened(number, said.at, said.count, line)


def stop_clock(fold: Fold, line: int, said: Epoch) -> None:
    run, block = fold.open, said.count > 0
    if run is None or run.ended or (block and run.records.open is None):
        return
    records, began = run.records, run.records.open
    if began is not None and (block or said.number is None or records.fractional):
        number = began.number
    else:
        number = records.number_of(said.number)
    seconds, count = said.seconds, 1
    if began is not None and began.number == number:
        records.open = None
        clocked = began.seconds_until(said.at)
        if seconds and clocked and clocked.lo > 0:  # equal stamps are no clock's
            run.apart |= times_apart(number, (clocked, began.line), (seconds, line))
        seconds = seconds or clocked
        count = max(said.count, began.count) if block else 1
    if seconds is None or count > MAX_BLOCK:
        return
    if not block and number in records.epochs:
        run.interleaved = True
        return
    if block and number <= records.reach:
        number = records.reach + 1
        run.note("Blocks of epochs have the same numbers in this log; they are counted in order.")
    sample = EpochSample(
        epoch=number, seconds=seconds.scaled(1 / count), steps=said.steps, line=line, count=count,
        source=BLOCK if block else CLOCK, ended_at=None if block else said.at,
    )  # fmt: skip
    run.last_line = line
    fold.keep(run, sample)


# --------------------------------------------------------------------------- the course's script


LOADER_START_S = 2.0
"""After the stamp of an epoch's beginning, until its clock runs: the processes that load images start."""


def _course_run(fold: Fold, line: int) -> OpenRun:
    run = fold.run_of(line, lambda run: run.accepts(COURSE))
    run.form, run.last_line = COURSE, line
    return run


def start_course_epoch(fold: Fold, line: int, said: Opens) -> None:
    run = _course_run(fold, line)
    run.began = Opened(int(said.number or 0), said.at)
    run.opened_anew = run.restarted


def end_course_epoch(fold: Fold, line: int, said: Epoch) -> None:
    """Take an epoch of the course's script, which prints the rate of all processes but the samples of one.

    The number of processes is in the command or in the job script; the time stamps check it. Without that number, the
    epoch's time is the interval between the time stamps.
    """
    run = _course_run(fold, line)
    number, rate, samples = int(said.number or 0), said.rate, run.facts.process_samples
    if rate is None or not samples or rate.lo <= 0 or number in run.epochs:
        return
    began = run.began  # stamps are in whole seconds
    timed = began.seconds_until(said.at, slack=1) if began and began.number == number else None
    known, per = run.facts.n_gpus, run.facts.batch_per_gpu
    images = run.facts.images or (samples * known if known else None)
    seconds = Interval.exact(float(images)).over(rate) if images else None
    if seconds and (timed is None or (seconds.lo <= timed.hi and timed.lo <= seconds.hi + LOADER_START_S)):
        batch = per * known if per and known else None
        run.update_facts(RunFacts(images=images, batch_size=batch), sure=False)
    else:
        run.facts = msgspec.structs.replace(run.facts, n_gpus=None, batch_size=None)
        seconds, why = timed, "its times come from the timestamps" if timed else "its times are unknown"
        run.note(f"No number of processes fits the images of one and the rate of all: {why}.")
    if seconds is not None:
        steps = run.facts.process_steps
        fold.keep(run, EpochSample(epoch=number, seconds=seconds, steps=steps, source=COURSE, line=line))


# --------------------------------------------------------------------------- PyTorch's ImageNet example

FEW_BATCHES = 3
"""After more batches than this, another first batch means that the training began again."""
_METER = compiled(r"([A-Za-z][\w@]{0,30}) +<N> \( *(<N>|nan|inf)\)")


class ImagenetEpoch(msgspec.Struct):
    """An epoch in these lines: its last batch with its line, the index of its first; `open` until it is over."""

    number: int
    batch: Batch
    line: int
    first: int
    open: bool = True

    @property
    def done(self) -> int:
        """How many batches are over: the example printed a batch's index until 2022, and prints its number since."""
        return min(self.batch.total, self.batch.index + (self.first != 1))


def take_batch(fold: Fold, line: int, said: Batch) -> None:
    """Take a batch: of the open epoch, the first of another, or one that another rank repeats."""
    run = fold.run_of(line, lambda run: run.accepts(IMAGENET) and not run.records.epochs)
    if run.imagenet is not None:
        last, is_open = run.imagenet.batch, run.imagenet.open
        began_anew = said.index <= 1 and (run.restarted or run.imagenet.done > FEW_BATCHES)
        if is_open and said.epoch == last.epoch and said.total != last.total and not began_anew:
            fold.refuse(line, f"Epoch: [{said.epoch - 1}][{said.index}/{said.total}]")
            return
        passed = (said.epoch, said.index) <= (last.epoch, last.index)
        if passed and said.total == last.total and _repeats(run, said, last):
            run.interleaved = True
            return
        if passed or said.total != last.total:
            run = fold.begin(line)
        elif said.epoch != last.epoch:
            complete(fold, proven=said.epoch == last.epoch + 1)
    run.form, run.last_line = IMAGENET, line
    if run.imagenet is None or not run.imagenet.open:
        run.imagenet, run.opened_anew = ImagenetEpoch(said.epoch, said, line, said.index), run.restarted
    run.imagenet.batch, run.imagenet.line = said, line


def complete(fold: Fold, *, proven: bool) -> None:
    """Keep the open epoch of the batches, if its last ones were printed or what follows proves it complete."""
    run = fold.open
    epoch = run.imagenet if run is not None else None
    if run is None or epoch is None or not epoch.open:
        return
    epoch.open, last, missing = False, epoch.batch, epoch.batch.total - epoch.done
    if missing > max(1, last.total // 4) or (missing > 1 and not proven) or run.has_epoch(last.epoch):
        return
    meters = {name: float(value) for name, value in _METER.findall(last.meters) if name != "Data"}
    # `--print-freq` may leave out the last batches: assume that they take at most twice the mean.
    seconds = Interval.between(last.mean.lo * epoch.done, last.mean.hi * (last.total + missing))
    sample = EpochSample(epoch=last.epoch, seconds=seconds, metrics=meters, source=IMAGENET, line=epoch.line)
    fold.keep(run, msgspec.structs.replace(sample, steps=last.total, ms_per_step=last.mean.value * 1000))


def _repeats(run: OpenRun, said: Batch, last: Batch) -> bool:
    """Whether a batch that does not continue the epoch is another rank's; else a training begins again."""
    again = (said.epoch, said.index) == (last.epoch, last.index)
    alike = again or (run.interleaved and said.epoch >= last.epoch - 1)
    return said.index > 1 or (alike and not run.restarted)
