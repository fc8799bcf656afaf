"""How long the course's PyTorch scripts would have taken on MareNostrum 5: the editions' published rows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from labtui.domain.model import named_options, tuning_of
from labtui.practice.pace import interpolated, published

EDITIONS = ("hpc4ai-ch12", "hpc4ai-ch11", "hpc4ai-ch15", "thesis-2019")
"""Where two of them publish the same, the first one counts."""
DATA_SETS = {
    "micro-224": {"train": 12_500, "val": 10_000},
    "tiny-224": {"train": 100_000, "val": 10_000},
}
"""Images of the practice cluster's data sets."""


@dataclass(frozen=True, slots=True)
class TorchTraining:
    """What a PyTorch script trains: `batch` on each GPU; `tuning` as labtui says it."""

    model: str
    data_set: str
    tuning: frozenset[str]
    gpus: int
    batch: int

    def rate(self) -> float:
        """Images or tokens a second on all GPUs: those of the nearest row, spread as the model's other rows are."""
        row = self._near()
        kept = self._kept()
        alone = interpolated(kept, self.gpus) / interpolated(kept, row["gpus"]) if len(kept) > 1 else 1.0
        return float(_rate(row) / row["gpus"] * self.gpus * alone)

    def first_s(self) -> float:
        """Seconds that the first epoch takes longer."""
        row = self._near()
        return float(row.get("first_epoch_seconds", 0.0) - row.get("epoch_seconds", 0.0))

    def memory_gib(self, sequence_gib: float) -> float:
        """GPU memory of a published row; beyond it each sequence takes so much more."""
        row = self._near()
        return float(row["gpu_memory"] + (self.batch - row["batch_size"] / row["gpus"]) * sequence_gib)

    def _rows(self) -> list[dict[str, Any]]:
        """The rows of this model; of another one of its family where there are none."""
        timed = [row for row in published(*EDITIONS) if _rate(row)]
        exact = [row for row in timed if row["model"].lower() == self.model]
        return exact or [row for row in timed if row["model"].lower()[:3] == self.model[:3]] or timed

    def _near(self) -> dict[str, Any]:
        def unlike(row: dict[str, Any]) -> tuple[float, ...]:
            batch = row["batch_size"] / row["gpus"]
            return (
                len(_tuning(row) ^ self.tuning),
                abs(math.log2(row["gpus"] / self.gpus)),
                row.get("data_set", self.data_set) != self.data_set,
                abs(math.log2(batch / self.batch)),
            )

        return min(self._rows(), key=unlike)

    def _kept(self) -> dict[int, float]:
        """By GPUs: the share of one GPU's rate that each keeps, where the model's rows say it."""
        several = [row for row in self._rows() if row["gpus"] > 1]
        if not several:
            return {}
        alike = (_tuning(several[0]), several[0].get("data_set"))
        rates = {
            row["gpus"]: _rate(row) / row["gpus"]
            for row in self._rows()
            if (_tuning(row), row.get("data_set")) == alike
        }
        return {gpus: rate / rates[min(rates)] for gpus, rate in rates.items()}


def _tuning(row: dict[str, Any]) -> frozenset[str]:
    """The row's own, or that of the edition's trainings."""
    return frozenset(row["tuning"] if "tuning" in row else tuning_of(named_options(row["options"])))


def _rate(row: dict[str, Any]) -> float:
    """Images or tokens a second of a row; 0 where it has none."""
    if "throughput" in row:
        return float(row["throughput"])
    if not {"epoch_seconds", "batch_size"} <= row.keys() or row.get("data_set") not in DATA_SETS:
        return 0.0
    batches = DATA_SETS[row["data_set"]]["train"] // row["batch_size"]
    return float(batches * row["batch_size"] / row["epoch_seconds"])


def torch_memory_gib(options: Mapping[str, str], batch: int) -> float:
    """GPU memory of train_ddp.py (tables 11.1, 11.5 and 12.1 of the course's book)."""
    if options.get("model_name") == "custom":
        return 3.4
    if options.get("model_name", "").startswith("resnet"):
        return 1.5 + 0.09 * batch
    if options.get("mixed_precision", "fp32") in ("fp16", "bf16"):
        return (7.0 if "compile" in options else 4.2) + 0.36 * batch
    return 3.6 + 0.67 * batch
