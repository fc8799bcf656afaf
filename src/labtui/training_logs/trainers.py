"""Lines of other trainers: PyTorch ImageNet, tf_cnn_benchmarks, Horovod; the course's own in `course_script`.

Most of them give a rate and no epoch times; the rate is kept in `ParsedRun.throughput`. What may not enter:
Keras and MLPerf.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from labtui.domain.model import EpochSample, Interval
from labtui.training_logs.course_script import CourseScript
from labtui.training_logs.run_tracker import OpenRun, RunTracker
from labtui.training_logs.runs import RunFacts, rounded

_NUMBER = r"\d{1,12}(?:\.\d{1,12})?(?:[eE][-+]?\d{1,3})?"
_PROGRESS = re.compile(
    rf"\s*Epoch: \[(\d{{1,9}})\]\[ *(\d{{1,9}})/(\d{{1,9}})\]\s+Time +({_NUMBER}) \( *({_NUMBER})\)(.*)\Z"
)
_METER = re.compile(rf"([A-Za-z][\w@]{{0,30}}) +{_NUMBER} \( *({_NUMBER}|nan|inf)\)")
_VALIDATED = re.compile(rf"\s*\* +(?:Acc|Prec)@1 +({_NUMBER})(?: +(?:Acc|Prec)@5 +({_NUMBER}))?")
_TOTAL = re.compile(rf"\s*total images/sec: +({_NUMBER})\s*\Z")
_STEP_RATE = re.compile(rf"\s*(\d{{1,9}})\s+images/sec: +({_NUMBER}) \+/- ({_NUMBER})")
_GLOBAL_BATCH = re.compile(r"\s*Batch size: +(\d{1,9}) global\s*\Z")
_DEVICES = re.compile(r"\s*Devices: +\[([^\]]{1,2000})\]\s*\Z")
_HOROVOD = re.compile(rf"\s*Total img/sec on (\d{{1,6}}) (GPU|CPU)\(s\): +({_NUMBER}) \+-({_NUMBER})")
_WORKERS = re.compile(r"\s*Number of (GPU|CPU)s: +(\d{1,6})\s*\Z")
_HOROVOD_STEP = re.compile(rf"\s*(?:Iter #(\d{{1,9}}): +{_NUMBER} img/sec per|Img/sec per (?:GPU|CPU): )")
_HF_NUMBER = r"'?(\d{1,12}(?:\.\d{1,12})?(?:e[-+]?\d{1,3})?)'?[,}]"
_HF_STEP = re.compile(r"\{'(?:loss|grad_norm)': .{0,2000}'epoch': ")
_HF_RATE = re.compile(rf"'train_samples_per_second': {_HF_NUMBER}")
_HF_TIME = re.compile(rf"'train_runtime': {_HF_NUMBER}")
_HF_HEAD = re.compile(
    r"\s*(Num examples|Num Epochs|Instantaneous batch size per device|Total train batch size \([^)]{1,100}\))"
    r" = ([\d,]{1,15})\s*\Z"
)
_LIGHTNING_END = re.compile(r"`?Trainer\.fit`? stopped: `?max_epochs=(\d{1,7})`? reached")
_LIGHTNING_RANKS = re.compile(r"All distributed processes registered\. Starting with (\d{1,5}) processes")
_LIGHTNING_GPU = re.compile(r"GPU available: (?:True|False)[^,]{0,40}, used: (True|False)")
_STOPPED_EARLY = re.compile(
    r"Signaling Trainer to stop\.|\b[Ee]arly ?[Ss]topping at epoch|\b[Ee]arly stopping[.!]?\s*\Z"
)
_TIMM = re.compile(
    rf"\s*Train: \d{{1,7}} \[ *(\d{{1,9}})/\d{{1,9}} .{{0,400}}Time: {_NUMBER}s, +{_NUMBER}/s"
    rf" +\({_NUMBER}s, +({_NUMBER})/s\)"
)
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
    "Test: [",
    "'epoch'",
    "'train_runtime'",
    "Num ",
    "batch size",
    "Trainer",
    "distributed processes",
    "GPU available",
    "arly",
    "Train: ",
    "GPU memory reserved",
    "Tokens/s",
    "reserved GPU Memory",
)
_FEW = 3
"""Batches after which the first batch once more means that the training began again."""
_ALIKE = 0.05
"""Two totals in a row that differ by less than this share are those of two ranks of one run."""
_PROGRESS_WORDS = (
    *(
        "images/sec",
        "img/sec",
        "imgs/s",
        "Tokens/s",
        "[EPOCH:",
        "### ",
        "Training finished!",
        "Complete training Time",
    ),
    *("'train_runtime'", "{'loss'", "{'grad_norm'", "Num examples", "Num Epochs", "Trainer.fit", "Train: "),
    *("batch size per device", "Total train batch size", "Number of GPU", "Number of CPU", "GPU available"),
)


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
        self._course = CourseScript(tracker)

    @staticmethod
    def matches(text: str) -> bool:
        """Whether a line may be one of these trainers' progress lines."""
        if text.lstrip().startswith("Epoch: ["):
            return True
        return any(word in text for word in _PROGRESS_WORDS)

    def take(self, line: int, text: str) -> bool:
        """Take a line if it is one of ours; True when it was."""
        if "Epoch: [" in text and (match := _PROGRESS.match(text)):
            self._progress(line, match)
            return True
        if text.startswith("Test: ["):
            return self._validated(line, text)
        if not _ours(text):
            return False
        return (
            self._benchmarks(line, text)
            or self._course.take(line, text)
            or self._validated(line, text)
            or self._transformers(line, text)
            or self._lightning(line, text)
        )

    def finish(self) -> None:
        """The log is over: the last epoch counts if its last batches were printed."""
        self._complete(proven=False)

    # ------------------------------------------------------------------ PyTorch ImageNet

    def _progress(self, line: int, match: re.Match[str]) -> None:
        epoch, index, total = int(match[1]) + 1, int(match[2]), int(match[3])
        before = self._batches
        run = self._tracker.here(line)
        if before is not None and self._batches_run == self._tracker.index:
            if self._repeated(line, run, before, (epoch, index, total), match[0]):
                return
            run = self._tracker.here(line)
        elif run.stopped or (run.training and run.facts.framework != "pytorch"):
            run = self._tracker.begin(line, RunFacts())
        if run.facts.framework != "pytorch":
            run.learn(RunFacts(framework="pytorch"))
        mean, half = float(match[5]), 0.5 * 10.0 ** -len(match[5].partition(".")[2])
        done = min(total, index if self._counts_from_one(epoch, index) else index + 1)
        self._batches = _Batches(epoch, done, total, mean, half, line, match[6])
        self._batches_run = self._tracker.index
        run.batch_seconds = (mean, half)

    def _repeated(
        self, line: int, run: OpenRun, before: _Batches, place: tuple[int, int, int], text: str
    ) -> bool:
        """Whether the line adds nothing: another rank's, or one of another training. Else epochs or runs end here."""
        epoch, index, total = place
        last = before.done - (0 if self._from_one else 1)
        began_anew = index <= 1 and (run.fresh or run.broken or before.done > _FEW)
        if epoch == before.epoch and total != before.total and not began_anew:
            reason = f"trainings of {before.total} and of {total} steps wrote to this log at once"
            self._tracker.refuse(line, text, reason)
            return True
        behind = (epoch, index) <= (before.epoch, last)
        lags = run.interleaved and epoch in (before.epoch, before.epoch - 1) and not (run.fresh or run.broken)
        if (epoch, index) == (before.epoch, last) or (
            behind and (lags or index > 1) and total == before.total
        ):
            run.interleaved = True
            return True
        if behind:
            self._restart(line)
        elif epoch != before.epoch:
            self._complete(proven=epoch == before.epoch + 1)
        return False

    def _counts_from_one(self, epoch: int, index: int) -> bool:
        """The example printed the batch's index until 2022, its number since: the first line tells."""
        if self._epoch != epoch:
            self._epoch, self._from_one = epoch, index == 1
            if self._tracker.current is not None:
                self._tracker.epoch_opens(self._tracker.current)
        return self._from_one

    def _restart(self, line: int) -> OpenRun:
        self._batches, self._epoch = None, -1
        return self._tracker.begin(line, RunFacts())

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
        sample = EpochSample(
            epoch=seen.epoch,
            seconds=Interval.between(low, high),
            steps=seen.total,
            ms_per_step=seen.mean * 1000,
            metrics={**dict(_meters(seen.meters)), **seen.metrics},
            source="pytorch",
            line=seen.line,
        )
        self._tracker.store(run, sample)
        run.whole = True

    def _validated(self, line: int, text: str) -> bool:
        match = _VALIDATED.match(text)
        if match is None:
            if not text.startswith("Test: ["):
                return False
            if self._batches is not None:
                self._complete(proven=True)
            return True
        if self._batches is not None:
            self._batches.metrics["val_acc1"] = float(match[1])
            if match[2]:
                self._batches.metrics["val_acc5"] = float(match[2])
            self._complete(proven=True)
        return True

    # ------------------------------------------------------------------ benchmarks that print a rate

    def _benchmarks(self, line: int, text: str) -> bool:
        if match := _TOTAL.match(text):
            self._total(line, "tf_cnn_benchmarks", rounded(match[1]))
        elif match := _STEP_RATE.match(text):
            self._rated(line, "tf_cnn_benchmarks", goes_on=int(match[1]) > 1)
        elif match := _HOROVOD.match(text):
            rate, spread = float(match[3]), float(match[4])
            run = self._total(line, "horovod", Interval(rate, max(0.0, rate - spread), rate + spread))
            on_gpu, count = match[2] == "GPU", int(match[1])
            run.learn(RunFacts(device="gpu" if on_gpu else "cpu", n_gpus=count if on_gpu else 0))
        elif match := _HOROVOD_STEP.match(text):
            self._rated(line, "horovod", goes_on=match[1] != "0")
        elif match := _WORKERS.match(text):
            self._workers(int(match[2]), match[1])
        elif (match := _DEVICES.match(text)) and "pu:" in match[1]:
            gpus = match[1].count("gpu:")
            self._tracker.announce_next_run(RunFacts(device="gpu" if gpus else "cpu", n_gpus=gpus))
        elif match := _GLOBAL_BATCH.match(text):
            self._tracker.assign(line, RunFacts(batch_size=int(match[1]) or None), batch_line=True)
        else:
            return False
        return True

    def _workers(self, count: int, device: str) -> None:
        """Horovod's benchmark prints one worker's batch, and below it the number of workers."""
        run = self._tracker.current
        if (
            run is None
            or run.training
            or not run.batch_line
            or not run.facts.batch_size
            or run.facts.batch_per_gpu
        ):
            return
        on_gpu, batch = device == "GPU", run.facts.batch_size
        run.learn(
            RunFacts(
                batch_size=batch * max(1, count),
                batch_per_gpu=batch,
                n_gpus=count if on_gpu else 0,
                device="gpu" if on_gpu else "cpu",
            )
        )

    # ------------------------------------------------------------------ trainers that print few lines of their own

    def _transformers(self, line: int, text: str) -> bool:
        """Hugging Face's Trainer: dicts of metrics, and at the end how long the whole training took, and its rate."""
        if text.startswith("{'train_runtime'") and (time := _HF_TIME.search(text)):
            run = self._rated(line, "transformers")
            run.total_seconds = rounded(time[1])
            if rate := _HF_RATE.search(text):
                run.throughput = rounded(rate[1])
            run.note("The rate covers the whole training, including start-up, evaluation and saving.")
            run.success = run.stopped = True
        elif _HF_STEP.match(text):
            self._rated(line, "transformers")
        elif match := _HF_HEAD.match(text):
            run = self._tracker.here(line)
            if run.stopped:
                run = self._tracker.begin(line, RunFacts())
            number, name = int(match[2].replace(",", "")) or None, match[1]
            run.learn(
                RunFacts(
                    framework="transformers",
                    images=number if name == "Num examples" else None,
                    epochs_planned=number if name == "Num Epochs" else None,
                    batch_per_gpu=number if name.startswith("Inst") else None,
                    batch_size=number if name.startswith("Total") else None,
                )
            )
        else:
            return False
        return True

    def _lightning(self, line: int, text: str) -> bool:
        """What Lightning says beside its bars; the end of a training by early stopping; timm's rate."""
        if match := _LIGHTNING_END.match(text):
            run = self._tracker.here(line)
            run.learn(RunFacts(epochs_planned=int(match[1]) or None))
            run.success = run.stopped = True
        elif match := _LIGHTNING_RANKS.match(text):
            self._tracker.announce_next_run(RunFacts(n_gpus=int(match[1]) or None))
        elif match := _LIGHTNING_GPU.match(text):
            on_gpu = match[1] == "True"
            self._tracker.announce_next_run(
                RunFacts(device="gpu" if on_gpu else "cpu", n_gpus=None if on_gpu else 0)
            )
        elif (
            ("arly" in text or "Signaling" in text)
            and _STOPPED_EARLY.search(text)
            and self._tracker.current is not None
        ):
            self._tracker.stopped_early(line)
        elif match := _TIMM.match(text):
            self._rated(line, "timm", goes_on=int(match[1]) > 0).throughput = rounded(match[2])
        else:
            return False
        return True

    def _rated(self, line: int, framework: str, *, goes_on: bool = False) -> OpenRun:
        """The run a rate belongs to. `goes_on`: a slower rank's, where the run has already given its total."""
        run = self._tracker.here(line)
        if run.stopped and not (goes_on and run.facts.framework == framework):
            run = self._tracker.begin(line, RunFacts())
        run.rated = True
        run.learn(RunFacts(framework=framework))
        return run

    def _total(self, line: int, framework: str, rate: Interval) -> OpenRun:
        """The rate of a whole run. Every rank of an ``mpirun`` may print it: the bounds then hold all of them."""
        run = self._tracker.here(line)
        earlier = run.throughput
        if (
            run.stopped
            and run.facts.framework == framework
            and earlier
            and abs(earlier.value - rate.value) < _ALIKE * rate.value
        ):
            low, high = min(earlier.lo, rate.lo), max(earlier.hi, rate.hi)
            run.throughput, run.interleaved = Interval((low + high) / 2, low, high), True
            return run
        run = self._rated(line, framework)
        run.throughput, run.success, run.stopped = rate, True, True
        return run


def _meters(text: str) -> list[tuple[str, float]]:
    """The running means of a progress line, by name."""
    return [(name, float(value)) for name, value in _METER.findall(text) if name != "Data"]
