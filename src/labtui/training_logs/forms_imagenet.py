"""PyTorch's ImageNet example: a line a batch with the running mean of a batch's seconds, and its validation."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from labtui.domain.model import EpochSample, Interval
from labtui.training_logs.said import Epoch, Measures, Progress, Said

FORM = "pytorch"
_NUMBER = r"\d{1,12}(?:\.\d{1,12})?(?:[eE][-+]?\d{1,3})?"
_PROGRESS = re.compile(
    rf"\s*Epoch: \[(\d{{1,9}})\]\[ *(\d{{1,9}})/(\d{{1,9}})\]\s+Time +({_NUMBER}) \( *({_NUMBER})\)(.*)\Z"
)
_METER = re.compile(rf"([A-Za-z][\w@]{{0,30}}) +{_NUMBER} \( *({_NUMBER}|nan|inf)\)")
_VALIDATED = re.compile(rf"\s*\* +(?:Acc|Prec)@1 +({_NUMBER})(?: +(?:Acc|Prec)@5 +({_NUMBER}))?")


@dataclass(slots=True)
class Batches:
    """Where an epoch stands: batches done, of how many, mean seconds a batch as printed."""

    epoch: int
    done: int
    total: int
    mean: float
    half: float
    line: int
    meters: str
    metrics: dict[str, float] = field(default_factory=dict)

    def epoch_sample(self, *, proven: bool) -> EpochSample | None:
        """The epoch, when its last batches were printed or what follows proves it over."""
        missing = self.total - self.done
        if missing < 0 or missing > max(1, self.total // 4) or (missing > 1 and not proven):
            return None
        # `--print-freq` may leave the last batches out: they take at most twice the mean, we allow.
        low = max(0.0, self.mean - self.half) * self.done
        high = (self.mean + self.half) * (self.total + missing)
        meters = {name: float(value) for name, value in _METER.findall(self.meters) if name != "Data"}
        return EpochSample(
            epoch=self.epoch,
            seconds=Interval.between(low, high),
            steps=self.total,
            ms_per_step=self.mean * 1000,
            metrics={**meters, **self.metrics},
            source=FORM,
            line=self.line,
        )


def read(text: str) -> Said | None:
    """A line of this form."""
    if match := _PROGRESS.match(text):
        half = 0.5 * 10.0 ** -len(match[5].partition(".")[2])
        return Progress(int(match[1]) + 1, int(match[2]), int(match[3]), float(match[5]), half, match[6])
    if text.startswith("Test: ["):
        return Epoch("imagenet-test")
    if match := _VALIDATED.match(text):
        metrics = {"val_acc1": float(match[1])}
        if match[2]:
            metrics["val_acc5"] = float(match[2])
        return Measures(metrics, form=FORM)
    return None
