"""How long trainings and programs would take on MareNostrum 5, and their memory.

Programs and PyTorch take what the editions publish; TensorFlow takes the constants of `pace.toml`.

Of the standard library and `labtui.domain.model` alone: small programs of the cluster use it.
"""

from __future__ import annotations

import math
import random
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from labtui.domain.model import named_options, tuning_of

IMAGES = 50_000
FULL_SIZE = 128
GPU_MEMORY_GIB = 63.4
"""What a framework can use of a 64 GB H100 of MareNostrum 5."""
NOISE = 0.004
"""Spread between epochs (standard deviation, as a fraction): steady epochs of the course's logs differ by under 1 %."""
SEQUENTIAL_WARM_UP = {"cpu": 1.023, "gpu": 24 / 14.308}
"""First epoch over steady epoch where the input pipeline, not graph building, is what is warmed up (220 s and 24 s)."""


@cache
def tables() -> dict[str, Any]:
    """`pace.toml`; keys that are numbers are numbers."""
    found: dict[str, Any] = _numbered(tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8")))
    return found


def _numbered(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {int(key) if key.isdecimal() else key: _numbered(item) for key, item in value.items()}


def interpolated(table: Mapping[int, float], at: float) -> float:
    """The table's value; between and beyond its rows along straight lines."""
    if at in table:
        return table[int(at)]
    low, high = _neighbours(table, at)
    return table[low] + (table[high] - table[low]) / (high - low) * (at - low)


def _neighbours(table: Mapping[int, float], at: float) -> tuple[int, int]:
    """The two rows of a table whose line goes through `at`."""
    rows = sorted(table)
    place = min(max(1, sum(row < at for row in rows)), len(rows) - 1)
    return rows[place - 1], rows[place]


# ------------------------------------------------------------------------------------------- TensorFlow


@dataclass(frozen=True, slots=True)
class Training:
    """What TensorFlow trains: `gpus` 0 is the CPU with `cores` cores; `batch` is the global batch."""

    network: str
    gpus: int
    batch: int
    images: int = IMAGES
    image_size: int = FULL_SIZE
    cores: int = 20
    mirrored: bool = True

    @property
    def steps(self) -> int:
        """Steps of an epoch; the last batch may be short."""
        return math.ceil(self.images / self.batch)

    @property
    def _table(self) -> dict[str, Any]:
        found: dict[str, Any] = tables()["tensorflow"][self.network]
        return found

    @property
    def _scale(self) -> float:
        """Arithmetic of an image relative to the full size."""
        return (self.image_size / FULL_SIZE) ** 2

    @property
    def _image_s(self) -> float:
        """Seconds that the GPUs compute in an epoch."""
        return float(self.images * self._table["image_ms"] * self._scale / self.gpus / 1000)

    @property
    def parameters(self) -> int:
        """Numbers that are trained."""
        return int(self._table["parameters"])

    @property
    def steady_s(self) -> float:
        """Seconds of an epoch after the first, without noise."""
        if self.gpus == 0:
            per_image_ms = self._table["cpu_image_ms"] * (20 / max(1, self.cores)) ** 0.75
            return float(self.images * per_image_ms * self._scale / 1000)
        return self.steps * interpolated(self._table["step_ms"], self.gpus) / 1000 + self._image_s

    @property
    def first_s(self) -> float:
        """Seconds of the first epoch: graph building, device set-up, resizing and caching the images."""
        if not self.mirrored or self.gpus == 0:
            return self.steady_s * SEQUENTIAL_WARM_UP["gpu" if self.gpus else "cpu"]
        return self.steady_s + max(0.0, interpolated(self._table["first_s"], self.gpus))

    def epoch_s(self, epoch: int, chance: random.Random) -> float:
        """Seconds of epoch `epoch` (from 1) with the noise a real node shows."""
        return (self.first_s if epoch == 1 else self.steady_s) * math.exp(chance.gauss(0.0, NOISE))

    @property
    def memory_gib(self) -> float:
        """GPU memory of one replica: activations of its share of the batch, and the network's own copies."""
        share = math.ceil(self.batch / max(1, self.gpus))
        images = share * self._table["memory_mib"] * self._scale
        return float((images + self.parameters * 16 / 2**20 + 900) / 1024)

    @property
    def fits(self) -> bool:
        """Whether the batch fits into the GPU; on the CPU the node's memory is large enough."""
        return self.gpus == 0 or self.memory_gib <= GPU_MEMORY_GIB

    @property
    def busy_percent(self) -> float:
        """Percent of an epoch in which a GPU computes: the images' share of the time."""
        return min(99.0, 100 * self._image_s / self.steady_s) if self.gpus else 0.0

    def metrics(self, epoch: int, chance: random.Random) -> dict[str, float]:
        """Loss and accuracy after `epoch`: learning slows with the number of updates, as large batches do."""
        accuracy = 0.10 + 0.86 * (1 - math.exp(-((epoch * self.steps / 3000) ** 0.55)))
        accuracy = min(0.999, max(0.08, accuracy + chance.gauss(0, 0.004)))
        return {"loss": max(0.02, 2.42 * (1 - accuracy) ** 0.9 + chance.gauss(0, 0.01)), "accuracy": accuracy}


# ------------------------------------------------------------------------------ what editions publish


@cache
def published(*editions: str) -> tuple[dict[str, Any], ...]:
    """The rows of the tables that these editions publish, each with its table's fields and its trainings' options."""
    found: list[dict[str, Any]] = []
    for name in editions:
        text = (Path(__file__).parents[1] / "labs" / f"{name}.toml").read_text("utf-8")
        edition = tomllib.loads(text)
        usual: dict[str, list[str]] = {}
        for sweep in (each for task in edition["tasks"] for each in task.get("sweeps", ())):
            usual.setdefault(sweep["model"], sweep.get("options", []))
        for table in edition.get("published", ()):
            for row in table.pop("rows"):
                whole = {"gpus": 1, "options": usual.get(table.get("model", ""), []), **table, **row}
                found.append(whole)
    return tuple(found)


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


# --------------------------------------------------------------------------------------------- programs


def pi_ms(processes: int, intervals: int, *, sequential: bool, weak: bool) -> float:
    """Milliseconds of pi_seq.c and pi_mpi.c."""
    rows = [row for row in published("hpc4ai-ch4") if row["model"] == ("pi-weak" if weak else "pi")]
    table = {row["processes"]: 1000 * row["seconds"] for row in rows}
    alone = table.pop(1)  # another program
    share = intervals / (1 << 32) / (processes if weak else 1)
    if sequential:
        return _noisy(alone * share)
    return _noisy(share * (_between(table, processes) if processes > 1 else table[2] * (1 if weak else 2)))


def jacobi_s(gpus: int, nx: int, ny: int, iterations: int, build: str) -> tuple[float, float]:
    """Seconds of jacobi.c on one GPU and on all of them."""
    sizes: dict[int, dict[int, float]] = {}
    for row in published("hpc4ai-ch6"):
        if row["model"] == "jacobi":
            sizes.setdefault(int(row["size"].partition("x")[0]), {})[row["processes"]] = row["seconds"]
    side = min(sizes, key=lambda row: abs(math.log(row * row / (nx * ny))))
    share, usual = nx * ny / side**2 * iterations / 100_000, sizes[16384]
    ratio = {n: seconds / usual[n] for n, seconds in tables()["jacobi"].get(build, usual).items()}
    one = _noisy(sizes[side][1] * share * ratio[1])
    if gpus == 1:
        return one, one
    return one, _noisy(_between(sizes[side], gpus) * share * ratio.get(gpus, ratio[4]))


def _between(table: Mapping[int, float], count: int) -> float:
    """As `interpolated`, along lines of the logarithms."""
    if count in table:
        return table[count]
    low, high = _neighbours(table, count)
    slope = math.log(table[high] / table[low]) / math.log(high / low)
    return table[low] * math.exp(slope * math.log(count / low))


def _noisy(value: float) -> float:
    return value * math.exp(random.gauss(0.0, NOISE / 4))
