"""Lines of other trainers: PyTorch ImageNet, tf_cnn_benchmarks, Horovod, the book's chapters 11 and 12.

Most of them give a rate and no epoch times; the rate is kept in `ParsedRun.throughput`. What may not enter:
Keras and MLPerf.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from labtui.core.interval import Interval
from labtui.core.logs.models import short_model
from labtui.core.logs.runs import Facts, OpenRun, RunTracker
from labtui.core.model import EpochSample

_NUMBER = r"\d{1,12}(?:\.\d{1,12})?(?:[eE][-+]?\d{1,3})?"
_PROGRESS = re.compile(
    rf"\s*Epoch: \[(\d{{1,9}})\]\[ *(\d{{1,9}})/(\d{{1,9}})\]\s+Time +({_NUMBER}) \( *({_NUMBER})\)(.*)\Z"
)
_METER = re.compile(rf"([A-Za-z][\w@]{{0,30}}) +{_NUMBER} \( *({_NUMBER}|nan|inf)\)")
_VALIDATED = re.compile(rf"\s*\* +(?:Acc|Prec)@1 +({_NUMBER})(?: +(?:Acc|Prec)@5 +({_NUMBER}))?")
_TOTAL = re.compile(rf"\s*total images/sec: +({_NUMBER})\s*\Z")
_STEP_RATE = re.compile(rf"\s*\d{{1,9}}\s+images/sec: +({_NUMBER}) \+/- ({_NUMBER})")
_GLOBAL_BATCH = re.compile(r"\s*Batch size: +(\d{1,9}) global\s*\Z")
_DEVICES = re.compile(r"\s*Devices: +\[([^\]]{1,2000})\]\s*\Z")
_HOROVOD = re.compile(rf"\s*Total img/sec on (\d{{1,6}}) (GPU|CPU)\(s\): +({_NUMBER}) \+-({_NUMBER})")
_WORKERS = re.compile(r"\s*Number of (GPU|CPU)s: +(\d{1,6})\s*\Z")
_HOROVOD_STEP = re.compile(rf"\s*(?:Iter #\d{{1,9}}: +{_NUMBER} img/sec per|Img/sec per (?:GPU|CPU): )")
_BOOK = re.compile(r"\[\d\d/\d\d/\d{4} [^\]]{1,20}\] [A-Z]+ - ")
_BOOK_EPOCH = re.compile(rf"\[EPOCH: (\d{{1,9}})\] Training throughput: +({_NUMBER}) imgs/s")
_BOOK_LINE = re.compile(r"\[EPOCH: (\d{1,9})\] (?:Starting training loop|Loss at iteration)")
_BOOK_ACCURACY = re.compile(rf"\[EPOCH: (\d{{1,9}})\] Accuracy: +({_NUMBER})")
_BOOK_CONFIG = re.compile(r"### (\w{1,40}): +(\S{1,80})\s*\Z")
_BOOK_SAMPLES = re.compile(r"### Total training samples \(batches\): +(\d{1,12}) \((\d{1,9})\)")
_BOOK_RATE = re.compile(rf"Training throughput: +({_NUMBER}) imgs/s")
_TOTAL_TIME = re.compile(
    rf"(?:Complete training Time: +({_NUMBER}) s|\s*Total Time: +({_NUMBER}) \(s\))\s*\Z"
)
_BOOK_SWEEP = re.compile(r">{3,}\.* ?Running with batch size (\d{1,9})")
_WORDS = (
    "Number of ",
    "Epoch: [",
    "images/sec",
    "img/sec",
    "imgs/s",
    "Batch size:",
    "[EPOCH:",
    "### ",
    "@1 ",
    ">>>",
    "finished",
    "Devices:",
    "Time: ",
)
_SPEAKING = ("images/sec", "imgs/s", "[EPOCH:", "### ", "Training finished!", "Complete training Time")


@dataclass(slots=True)
class _Batches:
    """Where a PyTorch ImageNet epoch stands: batches done, of how many, mean seconds a batch as printed."""

    epoch: int
    done: int
    total: int
    mean: float
    half: float
    line: int
    meters: str
    metrics: dict[str, float] = field(default_factory=dict)


def _ours(text: str) -> bool:
    for word in _WORDS:  # noqa: SIM110 (`any` costs twice as much, and this is asked of every line)
        if word in text:
            return True
    return False


class Trainers:
    """Recognises these lines and puts them into runs."""

    def __init__(self, tracker: RunTracker) -> None:
        self._tracker = tracker
        self._batches: _Batches | None = None
        self._batches_run = -1
        self._epoch = -1
        self._from_one = False
        self._samples: int | None = None
        self._steps: int | None = None

    @staticmethod
    def speaks(text: str) -> bool:
        """Whether a line may be one of these trainers' progress lines."""
        if text.lstrip().startswith("Epoch: ["):
            return True
        return any(word in text for word in _SPEAKING)

    def take(self, line: int, text: str) -> bool:
        """Take a line if it is one of ours; True when it was."""
        if not _ours(text):
            return False
        if "Epoch: [" in text and (match := _PROGRESS.match(text)):
            self._progress(line, match)
            return True
        bare = _BOOK.sub("", text, count=1)
        return self._benchmarks(line, text) or self._book(line, bare) or self._validated(line, text)

    def finish(self) -> None:
        """The log is over: the last epoch counts if its last batches were printed."""
        self._complete(proven=False)

    # ------------------------------------------------------------------ PyTorch ImageNet

    def _progress(self, line: int, match: re.Match[str]) -> None:
        epoch, index, total = int(match[1]) + 1, int(match[2]), int(match[3])
        before = self._batches
        run = self._tracker.here(line)
        if before is not None and self._batches_run == self._tracker.index:
            last = before.done - (0 if self._from_one else 1)
            if before.epoch == epoch and index < last:
                run = self._restart(line)
            elif before.epoch == epoch and index == last:
                run.interleaved = True
                return
            elif before.epoch != epoch:
                self._complete(proven=epoch == before.epoch + 1)
        elif run.stopped or (run.training and run.facts.framework != "pytorch"):
            run = self._tracker.begin(line, Facts())
        if run.facts.framework != "pytorch":
            run.learn(Facts(framework="pytorch"))
        mean, half = float(match[5]), 0.5 * 10.0 ** -len(match[5].partition(".")[2])
        done = min(total, index if self._counts_from_one(epoch, index) else index + 1)
        self._batches = _Batches(epoch, done, total, mean, half, line, match[6])
        self._batches_run = self._tracker.index
        run.batch_seconds = (mean, half)

    def _counts_from_one(self, epoch: int, index: int) -> bool:
        """The example printed the batch's index until 2022, its number since: the first line tells."""
        if self._epoch != epoch:
            self._epoch, self._from_one = epoch, index == 1
        return self._from_one

    def _restart(self, line: int) -> OpenRun:
        self._batches, self._epoch = None, -1
        return self._tracker.begin(line, Facts())

    def _complete(self, *, proven: bool) -> None:
        """Make an epoch of the batches, when its last ones were printed or what follows proves it over."""
        seen, self._batches = self._batches, None
        run = self._tracker.current
        if (
            seen is None
            or run is None
            or self._batches_run != self._tracker.index
            or seen.epoch in run.epochs
        ):
            return
        missing = seen.total - seen.done
        if missing < 0 or missing > max(1, seen.total // 4) or (missing > 1 and not proven):
            return
        # `--print-freq` may leave the last batches out: they take at most twice the mean, we allow.
        low = max(0.0, seen.mean - seen.half) * seen.done
        high = (seen.mean + seen.half) * (seen.total + missing)
        value = min(max(seen.mean * seen.total, low), high)
        sample = EpochSample(
            epoch=seen.epoch,
            seconds=Interval(value, low, high),
            steps=seen.total,
            ms_per_step=seen.mean * 1000,
            metrics={**dict(_meters(seen.meters)), **seen.metrics},
            source="pytorch",
            line=seen.line,
        )
        self._tracker.store(run, sample)

    def _validated(self, line: int, text: str) -> bool:
        match = _VALIDATED.match(text)
        if match is None:
            return False
        if self._batches is not None:
            self._batches.metrics["val_acc1"] = float(match[1])
            if match[2]:
                self._batches.metrics["val_acc5"] = float(match[2])
            self._complete(proven=True)
        return True

    # ------------------------------------------------------------------ benchmarks that print a rate

    def _benchmarks(self, line: int, text: str) -> bool:
        if match := _TOTAL.match(text):
            run = self._rated(line, "tf_cnn_benchmarks")
            run.throughput = _rounded(match[1])
            run.success = run.stopped = True
        elif _STEP_RATE.match(text):
            self._rated(line, "tf_cnn_benchmarks")
        elif match := _HOROVOD.match(text):
            run = self._rated(line, "horovod")
            device, count = match[2].lower(), int(match[1])
            run.learn(
                Facts(device="gpu" if device == "gpu" else "cpu", n_gpus=count if device == "gpu" else 0)
            )
            rate, spread = float(match[3]), float(match[4])
            run.throughput = Interval(rate, max(0.0, rate - spread), rate + spread)
            run.success = run.stopped = True
        elif _HOROVOD_STEP.match(text):
            self._rated(line, "horovod")
        elif match := _WORKERS.match(text):
            self._workers(line, int(match[2]), match[1])
        elif (match := _DEVICES.match(text)) and "pu:" in match[1]:
            gpus = match[1].count("gpu:")
            self._tracker.foretell(Facts(device="gpu" if gpus else "cpu", n_gpus=gpus))
        elif match := _GLOBAL_BATCH.match(text):
            self._tracker.tell(line, Facts(batch_size=int(match[1]) or None), batch_line=True)
        else:
            return False
        return True

    def _workers(self, line: int, count: int, device: str) -> None:
        """Horovod's benchmark prints one worker's batch, and on the next line the number of workers."""
        run = self._tracker.current
        if run is None or run.batch_line != line - 1 or not run.facts.batch_size:
            return
        on_gpu = device == "GPU"
        batch = run.facts.batch_size * max(1, count)
        run.learn(Facts(batch_size=batch, n_gpus=count if on_gpu else 0, device="gpu" if on_gpu else "cpu"))

    def _rated(self, line: int, framework: str) -> OpenRun:
        run = self._tracker.here(line)
        if run.stopped:
            run = self._tracker.begin(line, Facts())
        run.learn(Facts(framework=framework))
        return run

    # ------------------------------------------------------------------ the book's train.py

    def _book(self, line: int, text: str) -> bool:
        if match := _BOOK_EPOCH.match(text):
            self._book_epoch(line, int(match[1]), match[2])
        elif match := _BOOK_SWEEP.match(text):
            self._tracker.begin(line, Facts(batch_size=int(match[1]) or None, framework="pytorch"))
        elif match := _BOOK_SAMPLES.match(text):
            self._samples, self._steps = int(match[1]), int(match[2])
            self._tracker.tell(line, Facts(images=int(match[1]), framework="pytorch"))
        elif match := _BOOK_CONFIG.match(text):
            self._book_config(line, match[1].lower(), match[2])
        elif match := _BOOK_RATE.match(text):
            self._rated(line, "pytorch").throughput = _rounded(match[1])
        elif match := _TOTAL_TIME.match(text):
            if (run := self._tracker.current) is not None:
                run.total_seconds = _rounded(match[1] or match[2])
        elif text.startswith("Training finished!"):
            self._tracker.release()
            self._tracker.here(line).success = True
        elif match := _BOOK_ACCURACY.match(text):
            self._book_accuracy(line, int(match[1]), float(match[2]))
        elif match := _BOOK_LINE.match(text):
            run = self._tracker.here(line)
            if run.held is not None and run.held.epoch != int(match[1]):
                self._tracker.release()
        else:
            return False
        return True

    def _book_config(self, line: int, key: str, value: str) -> None:
        if key in ("model", "model_name", "arch"):
            self._tracker.foretell(Facts(model=short_model(value)))
        if not value.isascii() or not value.isdigit() or len(value) > 9:
            return
        number = int(value)
        if key == "batch_size":
            run = self._tracker.current
            if run is None or run.success or run.epochs:
                self._tracker.begin(line, Facts())
            self._tracker.here(line).learn(Facts(batch_size=number or None, framework="pytorch"))
        elif key in ("epochs", "num_epochs"):
            self._tracker.here(line).learn(Facts(epochs_planned=number or None))

    def _book_accuracy(self, line: int, epoch: int, accuracy: float) -> None:
        run = self._tracker.here(line)
        if run.held is not None and run.held.epoch == epoch:
            run.held = replace(run.held, metrics={**run.held.metrics, "accuracy": accuracy})
            self._tracker.release()

    def _book_epoch(self, line: int, epoch: int, rate: str) -> None:
        """The epoch's time is its samples over the rate it prints."""
        run = self._tracker.here(line)
        bounds = _rounded(rate)
        if self._samples is None or bounds.lo <= 0 or epoch in run.epochs:
            return
        sample = EpochSample(
            epoch=epoch,
            seconds=Interval.exact(float(self._samples)).over(bounds),
            steps=self._steps,
            source="train.py",
            line=line,
        )
        self._tracker.release()
        run.held = sample  # its accuracy may follow


def _meters(text: str) -> list[tuple[str, float]]:
    """The running means of a progress line, by name."""
    return [(name, float(value)) for name, value in _METER.findall(text) if name != "Data"]


def _rounded(text: str) -> Interval:
    """A printed number with half a unit of its last place either way."""
    decimals = len(text.partition(".")[2].lower().partition("e")[0])
    value, half = float(text), 0.5 * 10.0**-decimals
    return Interval(value, max(0.0, value - half), value + half)
