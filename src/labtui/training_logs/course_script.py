"""Lines of the course book's `train.py` (one GPU) and `train_ddp.py` (torchrun): chapters 11 and 12.

Both print the same lines, on rank 0 only: the samples and batches of *one process*, and the rate of *all* of them.
How many processes trained is in the command or in the job script, not in these lines. Where no command was echoed,
the clock before each line tells the time of an epoch to a second; when only one number of processes fits all epochs
of a run, that is it, and an epoch's time is the samples of all of them over the printed rate. Otherwise the clock's
interval stays.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, replace
from datetime import datetime

from labtui.domain.model import TUNING_OPTIONS, EpochSample, Interval
from labtui.training_logs.run_headers import device_of, short_model
from labtui.training_logs.run_tracker import OpenRun, RunTracker
from labtui.training_logs.runs import RunFacts, rounded

_NUMBER = r"\d{1,12}(?:\.\d{1,12})?(?:[eE][-+]?\d{1,3})?"
_STAMP = re.compile(r"\[(\d\d/\d\d/\d{4} \d\d:\d\d:\d\d [AP]M)\] [A-Z]+ - ")
_LOG = re.compile(r"\[\d\d/\d\d/\d{4} [^\]]{1,20}\] [A-Z]+ - ")
_EPOCH = re.compile(rf"\[EPOCH: (\d{{1,9}})\] Training throughput: +({_NUMBER}) imgs/s")
_LINE = re.compile(r"\[EPOCH: (\d{1,9})\] (Starting training loop|Loss at iteration)")
_ACCURACY = re.compile(rf"\[EPOCH: (\d{{1,9}})\] Accuracy: +({_NUMBER})")
_CONFIG = re.compile(r"### (\w{1,40}): +(\S{1,80})\s*\Z")
_SAMPLES = re.compile(r"### Total training samples \(batches\): +(\d{1,12}) \((\d{1,9})\)")
_RATE = re.compile(rf"Training throughput: +({_NUMBER}) imgs/s")
_TOTAL_TIME = re.compile(
    rf"(?:Complete training Time: +({_NUMBER}) s|\s*Total Time: +({_NUMBER}) \(s\))\s*\Z"
)
_MEMORY = re.compile(rf"GPU memory reserved: +({_NUMBER}) GB\s*\Z")
_TOKENS = re.compile(rf"> Training throughput: +({_NUMBER}) Tokens/s/GPU\s*\Z")
_PEAK = re.compile(rf"> Max reserved GPU Memory: +({_NUMBER})\s*\Z")
_SWEEP = re.compile(r">{3,}\.* ?Running with batch size (\d{1,9})")
_UNKNOWN = (
    "The log gives the images of one process and the rate of all, but not how many processes there were: "
)
_MOST = 100_000
"""Processes that a training may have."""


@dataclass(slots=True)
class _Progress:
    """What the script has printed of one run.

    `rates` are the epochs read: images per second, line, and the seconds by the clock (None without one);
    `fewest` and `most` bound the number of processes that fits all of them.
    """

    run: OpenRun | None = None
    samples: int | None = None
    steps: int | None = None
    began: tuple[int, datetime] | None = None
    rates: dict[int, tuple[Interval, int, Interval | None]] = field(default_factory=dict)
    fewest: int = 1
    most: int = _MOST

    @property
    def processes(self) -> int | None:
        """How many processes trained, when the clock leaves one number only."""
        return self.fewest if self.fewest == self.most else None


class CourseScript:
    """Recognises these lines and puts them into runs."""

    def __init__(self, tracker: RunTracker) -> None:
        self._tracker = tracker
        self._now = _Progress()

    def take(self, line: int, text: str) -> bool:
        """Take a line if it is one of ours; True when it was."""
        bare = _LOG.sub("", text, count=1)
        if match := _EPOCH.match(bare):
            self._epoch(line, int(match[1]), rounded(match[2]), _clock(text))
        elif match := _SWEEP.match(bare):
            self._tracker.begin(line, RunFacts(batch_per_gpu=int(match[1]) or None, framework="pytorch"))
        elif match := _SAMPLES.match(bare):
            self._progress(line).samples, self._now.steps = int(match[1]), int(match[2])
            self._tracker.here(line).learn(RunFacts(framework="pytorch"))
        elif match := _CONFIG.match(bare):
            self._config(line, match[1].lower(), match[2])
        elif match := _RATE.match(bare):
            self._final_rate(line, match[1])
        elif bare.startswith("Training finished!"):
            self._tracker.release()
            self._tracker.here(line).success = True
        elif match := _ACCURACY.match(bare):
            self._accuracy(line, int(match[1]), float(match[2]))
        elif match := _LINE.match(bare):
            self._loop(line, int(match[1]), match[2].startswith("Starting"), _clock(text))
        else:
            return self._totals(line, bare)
        return True

    def _totals(self, line: int, bare: str) -> bool:
        """Take a line about the whole training; True when it was one."""
        if match := _TOTAL_TIME.match(bare):
            if (run := self._tracker.current) is not None:
                run.total_seconds = cut_off(match[1]) if match[1] else rounded(match[2])
                run.totals_line = line
        elif match := _MEMORY.match(bare):
            run = self._tracker.here(line)
            run.gpu_memory, run.totals_line = cut_off(match[1]), line
        elif match := _PEAK.match(bare):
            run = self._tracker.here(line)
            run.gpu_memory, run.totals_line = rounded(match[1]), line
        elif match := _TOKENS.match(bare):
            self._tokens(line, match[1])
        else:
            return False
        return True

    def _progress(self, line: int) -> _Progress:
        """What is known of the current run; a new one begins with nothing."""
        run = self._tracker.here(line)
        if self._now.run is not run:
            self._now = _Progress(run)
        return self._now

    def _final_rate(self, line: int, printed: str) -> None:
        run = self._tracker.here(line)
        run.rated = True
        run.throughput, run.throughput_printed = cut_off(printed), float(printed)
        run.learn(RunFacts(framework="pytorch"))

    def _tokens(self, line: int, printed: str) -> None:
        """Chapter 15's rate, of one GPU, over all steps."""
        run = self._tracker.here(line)
        run.rated = run.success = True
        run.stopped = run.stopped or not run.started  # its own record of the end is still to come
        run.tokens_per_gpu, run.totals_line = rounded(printed), line
        run.learn(RunFacts(framework="pytorch"))
        if not run.facts.n_gpus:
            run.note("The log gives tokens per second of one GPU and not how many GPUs there were.")

    def _config(self, line: int, key: str, value: str) -> None:
        if key in ("model", "model_name", "arch"):
            self._tracker.announce_next_run(RunFacts(model=short_model(value)))
        elif key == "device" and device_of(value) is not None and not self._stands_in(value):
            self._tracker.announce_next_run(RunFacts(device=device_of(value)))
        run = self._tracker.current
        if run is not None and not run.success and key in (*TUNING_OPTIONS, "warmup_epochs"):
            run.options[key] = value
        if not value.isascii() or not value.isdigit() or len(value) > 9:
            return
        number = int(value)
        if key == "batch_size":
            if run is None or run.success or run.epochs:
                self._tracker.begin(line, RunFacts())
            run = self._tracker.here(line)
            run.learn(RunFacts(batch_per_gpu=number or None, framework="pytorch"))
        elif key in ("epochs", "num_epochs"):
            self._tracker.here(line).learn(RunFacts(epochs_planned=number or None))

    def _stands_in(self, device: str) -> bool:
        """Whether a CPU is named that rehearses GPUs, as an MLPerf record has told."""
        run = self._tracker.current
        return run is not None and bool(run.facts.practice) and device_of(device) == "cpu"

    def _loop(self, line: int, epoch: int, begins: bool, clock: datetime | None) -> None:
        now, run = self._progress(line), self._tracker.here(line)
        if run.held is not None and run.held.epoch != epoch:
            self._tracker.release()
        if begins:
            self._tracker.epoch_opens(run)
            now.began = None if clock is None else (epoch, clock)

    def _accuracy(self, line: int, epoch: int, accuracy: float) -> None:
        run = self._tracker.here(line)
        if run.held is not None and run.held.epoch == epoch:
            run.held = replace(run.held, metrics={**run.held.metrics, "val_accuracy": accuracy})
            self._tracker.release()
        elif (stored := run.epochs.get(epoch)) is not None:  # an MLPerf record came between
            metrics = {**stored.metrics, "val_accuracy": accuracy}
            self._tracker.store(run, replace(stored, metrics=metrics))

    # ------------------------------------------------------------------ how many processes, how many seconds

    def _epoch(self, line: int, epoch: int, rate: Interval, clock: datetime | None) -> None:
        now, run = self._progress(line), self._tracker.here(line)
        run.rated = True
        if now.samples is None or not now.samples or rate.lo <= 0 or epoch in now.rates:
            return
        timed = _elapsed(now.began, epoch, clock)
        now.rates[epoch] = (rate, line, timed)
        self._tracker.release()
        if timed is not None:
            alone = Interval.exact(float(now.samples)).over(rate)
            now.fewest = max(now.fewest, math.ceil(timed.lo / alone.hi))
            now.most = min(now.most, math.floor(timed.hi / alone.lo))
        pinned = self._pin(now, run)
        for known in list(now.rates)[:-1] if pinned else ():
            self._tracker.store(run, self._sample(now, run, known))
        if not run.facts.images:
            run.note(
                _UNKNOWN + ("its times come from the timestamps." if timed else "its times are unknown.")
            )
        elif _UNKNOWN + "its times come from the timestamps." in run.notes:
            run.notes.remove(_UNKNOWN + "its times come from the timestamps.")
        if self._seconds(now, run, epoch) is None:
            return
        run.held = self._sample(now, run, epoch)  # its accuracy may follow

    def _pin(self, now: _Progress, run: OpenRun) -> bool:
        """Settle the number of processes; True when it was settled by this epoch, so that earlier ones are finer."""
        known = run.facts.n_gpus
        if now.fewest > now.most or (known and not now.fewest <= known <= now.most):
            if not run.contradictions:
                claim = f"{known} processes" if known else "any number of processes"
                run.contradictions.append(
                    f"the timestamps of this log do not fit the printed rates for {claim} of {now.samples} images each"
                )
            return False
        count = known or now.processes
        if not count or now.samples is None or run.facts.images:
            return False
        per = run.facts.batch_per_gpu
        run.learn(
            RunFacts(
                images=now.samples * count,
                batch_size=per * count if per else None,
                n_gpus=count if run.facts.device == "gpu" else None,
            )
        )
        return True

    def _seconds(self, now: _Progress, run: OpenRun, epoch: int) -> Interval | None:
        rate, _, timed = now.rates[epoch]
        if run.facts.images and not run.contradictions:
            return Interval.exact(float(run.facts.images)).over(rate)
        return timed

    def _sample(self, now: _Progress, run: OpenRun, epoch: int) -> EpochSample:
        seconds = self._seconds(now, run, epoch)
        stored = run.epochs.get(epoch)
        if seconds is None:
            raise ValueError(f"epoch {epoch} has no time")
        return EpochSample(
            epoch=epoch,
            seconds=seconds,
            steps=now.steps,
            metrics=stored.metrics if stored is not None else {},
            source="train.py",
            line=now.rates[epoch][1],
        )


def _clock(text: str) -> datetime | None:
    match = _STAMP.match(text)
    try:
        return datetime.strptime(match[1], "%m/%d/%Y %I:%M:%S %p") if match else None
    except ValueError:
        return None


def _elapsed(began: tuple[int, datetime] | None, epoch: int, now: datetime | None) -> Interval | None:
    """Seconds between two stamps of whole seconds: right to one second either way."""
    if began is None or now is None or began[0] != epoch:
        return None
    seconds = (now - began[1]).total_seconds()
    return Interval(seconds, max(0.0, seconds - 1), seconds + 1) if 0 <= seconds < 1e7 else None


def cut_off(text: str) -> Interval:
    """A number that the script prints by `int(x)`: 344 is anything from 344 to 345. One with decimals is rounded."""
    if not text.isdigit():
        return rounded(text)
    return Interval.between(float(text), float(text) + 1)
