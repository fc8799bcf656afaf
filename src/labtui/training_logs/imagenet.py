"""PyTorch's ImageNet example: a line a batch with the running mean of a batch's seconds, and its validation.

No line ends an epoch: it is over when its last batches were printed, or when what follows proves it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from labtui.domain.model import EpochSample, Interval
from labtui.training_logs.runs import RunFacts

if TYPE_CHECKING:
    from labtui.training_logs.fold import Fold
    from labtui.training_logs.run import OpenRun
    from labtui.training_logs.said import Batch

FORM = "pytorch"
FEW_BATCHES = 3
"""Batches after which the first batch once more means that the training began again."""
NUMBER = r"\d{1,12}(?:\.\d{1,12})?(?:[eE][-+]?\d{1,3})?"
_METER = re.compile(rf"([A-Za-z][\w@]{{0,30}}) +{NUMBER} \( *({NUMBER}|nan|inf)\)")


@dataclass(slots=True)
class ImagenetLines:
    """Where a run stands in these lines: the last batch of the open epoch, and what was seen of it."""

    batch: Batch | None = None
    last: Batch | None = None
    done: int = 0
    line: int = 0
    total: int = 0
    from_one: bool = False
    metrics: dict[str, float] = field(default_factory=dict)

    @property
    def batch_seconds(self) -> Interval | None:
        """Seconds of a batch, as printed last."""
        one = self.last
        return None if one is None else Interval(one.mean, max(0.0, one.mean - one.half), one.mean + one.half)

    def take(self, said: Batch, line: int) -> None:
        """The next batch; the example printed its index until 2022, its number since."""
        if self.batch is None or self.batch.epoch != said.epoch:
            self.from_one = said.index == 1
            self.metrics = {}
        self.batch = self.last = said
        self.line, self.total = line, said.total
        self.done = min(said.total, said.index if self.from_one else said.index + 1)

    def epoch(self, *, proven: bool) -> EpochSample | None:
        """The epoch, when its last batches were printed or what follows proves it over."""
        seen, self.batch = self.batch, None
        if seen is None:
            return None
        missing = seen.total - self.done
        if missing > max(1, seen.total // 4) or (missing > 1 and not proven):
            return None
        # `--print-freq` may leave the last batches out: they take at most twice the mean, we allow.
        low = max(0.0, seen.mean - seen.half) * self.done
        high = (seen.mean + seen.half) * (seen.total + missing)
        meters = {name: float(value) for name, value in _METER.findall(seen.meters) if name != "Data"}
        return EpochSample(
            epoch=seen.epoch,
            seconds=Interval.between(low, high),
            steps=seen.total,
            ms_per_step=seen.mean * 1000,
            metrics={**meters, **self.metrics},
            source=FORM,
            line=self.line,
        )


def take_batch(fold: Fold, line: int, said: Batch) -> None:
    """A line of a batch: of the open epoch, the first of another, or one that another rank repeats."""
    run = fold.open
    if run is not None and run.form == FORM and not run.ended:
        if run.imagenet.batch is not None and _repeats(fold, line, run, run.imagenet.batch, said):
            return
        run = fold.open
        late = run is not None and run.imagenet.batch is None and said.epoch <= run.last
        if run is not None and late and run.imagenet.total == said.total and said.index > 1 and not run.fresh:
            run.interleaved = True  # a slower process
            return
    if run is None or not _belongs(run, said):
        run = fold.begin(line)
    seen = run.imagenet
    if seen.batch is None or seen.batch.epoch != said.epoch:
        run.start_epoch()
    if run.form != FORM:
        run.form = FORM
        run.update_facts(RunFacts(framework=FORM))
    run.last_line = line
    seen.take(said, line)


def complete(fold: Fold, run: OpenRun, *, proven: bool) -> None:
    """Make an epoch of the batches, when its last ones were printed or what follows proves it over."""
    sample = run.imagenet.epoch(proven=proven)
    if sample is not None and not run.has_epoch(sample.epoch):
        fold.keep(run, sample)
        run.whole = True


def _belongs(run: OpenRun, said: Batch) -> bool:
    """Whether a batch is of this run: nothing else has trained in it, and its epoch goes on."""
    if run.ended or run.form not in ("", FORM) or run.clocked:
        return False
    total = run.imagenet.total
    return not total or (said.epoch > run.last and said.total == total)


def _repeats(fold: Fold, line: int, run: OpenRun, before: Batch, said: Batch) -> bool:
    """Whether the line adds nothing: another rank's, or one of another training. Else epochs or runs end here."""
    place, known = (said.epoch, said.index), (before.epoch, before.index)
    new_process = run.fresh or run.broken
    began_anew = said.index <= 1 and (new_process or run.imagenet.done > FEW_BATCHES)
    if said.epoch == before.epoch and said.total != before.total and not began_anew:
        reason = f"trainings of {before.total} and of {said.total} steps wrote to this log at once"
        fold.refuse(line, f"Epoch: [{said.epoch - 1}][{said.index}/{said.total}]", reason)
        return True
    lags = run.interleaved and said.epoch in (before.epoch, before.epoch - 1) and not new_process
    again = place == known and not run.fresh
    if again or (place <= known and (lags or said.index > 1) and said.total == before.total):
        run.interleaved = True
        return True
    if place <= known or said.total != before.total:
        fold.begin(line)
    elif said.epoch != before.epoch:
        complete(fold, run, proven=said.epoch == before.epoch + 1)
    return False
