"""Lines of the course book's `train.py` (one GPU) and `train_ddp.py` (torchrun): chapters 11, 12 and 15.

Both print the same lines, on rank 0 only: the samples and batches of *one process*, and the rate of *all* of them.
How many processes trained is in the command or in the job script, not in these lines. Where no command was echoed,
the clock before each line tells the time of an epoch to a second; when only one number of processes fits all epochs
of a run, that is it, and an epoch's time is the samples of all of them over the printed rate. Otherwise the clock's
interval stays.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Protocol

from labtui.domain.model import TUNING_OPTIONS, EpochSample, Interval
from labtui.training_logs.run_headers import device_of, short_model
from labtui.training_logs.runs import RunFacts
from labtui.training_logs.said import Begins, Said, Says

FORM = "train.py"
_UNKNOWN = (
    "The log gives the images of one process and the rate of all, but not how many processes there were: "
)
_BY_CLOCK = _UNKNOWN + "its times come from the timestamps."
MAX_PROCESSES = 100_000
_CONFIG = re.compile(r"### (\w{1,40}): +(\S{1,80})\s*\Z")


def read_config(text: str) -> list[Said] | None:
    """A line of the script's own configuration: ``### batch_size: 128``."""
    match = _CONFIG.match(text)
    if match is None:
        return None
    key, value = match[1].lower(), match[2]
    said: list[Said] = []
    number = int(value) if value.isascii() and value.isdigit() and len(value) < 10 else None
    if key in ("model", "model_name", "arch"):
        said.append(Says(RunFacts(model=short_model(value)), sure=False))
    elif key == "device" and (device := device_of(value)) is not None:
        said.append(Says(RunFacts(device=device), stands_in=device == "cpu", sure=False))
    elif key == "batch_size" and number is not None:
        said.append(Begins("config", RunFacts(batch_per_gpu=number or None, framework="pytorch")))
    elif key in ("epochs", "num_epochs") and number is not None:
        said.append(Says(RunFacts(epochs_planned=number or None)))
    if key in (*TUNING_OPTIONS, "warmup_epochs"):
        said.append(Says(RunFacts(), option=(key, value)))
    return said


class _Run(Protocol):
    """What is asked of a run here."""

    facts: RunFacts
    notes: list[str]
    contradictions: list[str]

    def note(self, sentence: str) -> None: ...

    def learn(self, facts: RunFacts) -> None: ...


@dataclass(slots=True)
class CourseTimes:
    """What the script has printed of one run's epochs.

    `rates` are the epochs read: images per second, line, and the seconds by the clock (None without one);
    `fewest` and `most` bound the number of processes that fits all of them.
    """

    began: tuple[int, float] | None = None
    rates: dict[int, tuple[Interval, int, Interval | None]] = field(default_factory=dict)
    fewest: int = 1
    most: int = MAX_PROCESSES

    def take(self, run: _Run, epoch: int, rate: Interval, line: int, clock: float | None) -> list[int]:
        """Take an epoch's rate; gives the epochs whose time is known, or known better, now."""
        samples = run.facts.process_samples
        if not samples or rate.lo <= 0 or epoch in self.rates:
            return []
        timed = _elapsed(self.began, epoch, clock)
        self.rates[epoch] = (rate, line, timed)
        if timed is not None:
            alone = Interval.exact(float(samples)).over(rate)
            self.fewest = max(self.fewest, math.ceil(timed.lo / alone.hi))
            self.most = min(self.most, math.floor(timed.hi / alone.lo))
        pinned = self._pin(run, samples)
        if not run.facts.images:
            run.note(_BY_CLOCK if timed else _UNKNOWN + "its times are unknown.")
        elif _BY_CLOCK in run.notes:
            run.notes.remove(_BY_CLOCK)
        return list(self.rates) if pinned else [epoch]

    def _pin(self, run: _Run, samples: int) -> bool:
        """Settle the number of processes; True when it was settled by this epoch, so that earlier ones are finer."""
        known = run.facts.n_gpus
        if self.fewest > self.most or (known and not self.fewest <= known <= self.most):
            if not run.contradictions:
                claim = f"{known} processes" if known else "any number of processes"
                run.contradictions.append(
                    f"the timestamps of this log do not fit the printed rates for {claim} of {samples} images each"
                )
            return False
        count = known or (self.fewest if self.fewest == self.most else None)
        if not count or run.facts.images:
            return False
        per = run.facts.batch_per_gpu
        run.learn(
            RunFacts(
                images=samples * count,
                batch_size=per * count if per else None,
                n_gpus=count if run.facts.device == "gpu" else None,
            )
        )
        return True

    def sample(self, run: _Run, epoch: int) -> EpochSample | None:
        """An epoch's sample; None where its time is unknown."""
        rate, line, timed = self.rates[epoch]
        images = run.facts.images
        seconds = Interval.exact(float(images)).over(rate) if images and not run.contradictions else timed
        if seconds is None:
            return None
        return EpochSample(
            epoch=epoch, seconds=seconds, steps=run.facts.process_steps, source=FORM, line=line
        )


def _elapsed(began: tuple[int, float] | None, epoch: int, now: float | None) -> Interval | None:
    """Seconds between two stamps of whole seconds: right to one second either way."""
    if began is None or now is None or began[0] != epoch:
        return None
    seconds = now - began[1]
    return Interval(seconds, max(0.0, seconds - 1), seconds + 1) if 0 <= seconds < 1e7 else None
