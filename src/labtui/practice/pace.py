"""How long trainings and programs take on MareNostrum 5, and their memory, by the tables that the editions publish.

Imports little, because the cluster's small programs use it.
"""

import math
import random
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from labtui.domain.tuning import named_options, tuning_of

IMAGES = 50_000
FULL_SIZE = 128
GPU_MEMORY_GIB = 63.4
"""Memory of a 64 GB H100 of MareNostrum 5 that a framework can use."""
USUAL_ACCURACY = 0.3
"""The validation accuracy of a training for which none is published."""
NOISE = 0.004
"""Standard deviation of epoch times, as a fraction: in the course's logs steady epochs differ by less than 1 %."""


@cache
def published_rows(*editions: str) -> tuple[dict[str, Any], ...]:
    """The rows of these editions' published tables, each merged with the table's fields and its model's options."""
    found: list[dict[str, Any]] = []
    for name in editions:
        text = (Path(__file__).parents[1] / "labs" / f"{name}.toml").read_text("utf-8")
        edition = tomllib.loads(text)
        usual: dict[str, list[str]] = {}
        for sweep in (each for task in edition["tasks"] for each in task.get("sweeps", ())):
            usual.setdefault(sweep["model"], sweep.get("options", []))
        for table in edition.get("published", ()):
            for row in table.pop("rows"):
                found.append({"gpus": 1, "options": usual.get(table.get("model", ""), []), **table, **row})
    return tuple(found)


def interpolate(table: Mapping[int, float], count: int) -> float:
    """The table's value for `count`, interpolated and extrapolated linearly in log-log space."""
    if count in table or len(table) == 1:
        return table[count if count in table else min(table)]
    rows = sorted(table)
    place = min(max(1, sum(row < count for row in rows)), len(rows) - 1)
    low, high = rows[place - 1], rows[place]
    slope = math.log(table[high] / table[low]) / math.log(high / low)
    return table[low] * math.exp(slope * math.log(count / low))


EDITIONS = ("hpc4ai-ch12", "hpc4ai-ch11", "hpc4ai-ch15", "thesis-2019")
"""If two of them publish the same, the first one counts."""
DATA_SETS = {"micro-224": {"train": 12_500, "val": 10_000}, "tiny-224": {"train": 100_000, "val": 10_000}}
"""Images of the practice cluster's data sets."""


class Pace(msgspec.Struct, frozen=True):
    """The speed of a training on GPUs by the tables of `editions`. `batch` is that of one GPU."""

    model: str
    data_set: str
    tuning: frozenset[tuple[str, str]]
    gpus: int
    batch: int
    editions: tuple[str, ...] = EDITIONS

    def rate(self) -> float:
        """Images or tokens per second on all GPUs: the nearest row's, scaled by the efficiency of the model's rows."""
        row = self._nearest_row()
        kept = self.efficiency()
        scale = interpolate(kept, self.gpus) / interpolate(kept, row["gpus"])
        return float(_rate(row) / row["gpus"] * self.gpus * scale)

    def first_s(self) -> float:
        """Seconds that the first epoch takes longer than the others."""
        row = self._nearest_row()
        return float(row.get("first_epoch_seconds", 0.0) - row.get("epoch_seconds", 0.0))

    def accuracy(self) -> float:
        """The validation accuracy (0 to 1) that the nearest row publishes."""
        return float(self._nearest_row().get("accuracy", USUAL_ACCURACY))

    def memory_gib(self, sequence_gib: float) -> float:
        """GiB of GPU memory: the nearest row's, plus `sequence_gib` for each sequence that the batch has more."""
        row = self._nearest_row()
        return float(row["gpu_memory"] + (self.batch - row["batch_size"] / row["gpus"]) * sequence_gib)

    def _rows(self) -> list[dict[str, Any]]:
        """The rows of this model, else of its family (same first three letters), else all rows."""
        timed = [row for row in published_rows(*self.editions) if row["gpus"] and _rate(row)]
        exact = [row for row in timed if row["model"].lower() == self.model]
        return exact or [row for row in timed if row["model"].lower()[:3] == self.model[:3]] or timed

    def _nearest_row(self) -> dict[str, Any]:
        def distance(row: dict[str, Any]) -> tuple[float, ...]:
            batch = row["batch_size"] / row["gpus"]
            return (
                len(_tuning(row) ^ self.tuning),
                abs(math.log2(row["gpus"] / self.gpus)),
                row.get("data_set", self.data_set) != self.data_set,
                abs(math.log2(batch / self.batch)),
            )

        return min(self._rows(), key=distance)

    def efficiency(self) -> dict[int, float]:
        """By number of GPUs, the rate of one of them relative to a GPU alone, as far as the model's rows tell."""
        several = [row for row in self._rows() if row["gpus"] > 1]
        if not several:
            return {1: 1.0}
        first = (_tuning(several[0]), several[0].get("data_set"))
        alike = (row for row in self._rows() if (_tuning(row), row.get("data_set")) == first)
        rates = {row["gpus"]: _rate(row) / row["gpus"] for row in alike}
        return {gpus: rate / rates[min(rates)] for gpus, rate in rates.items()}


def _tuning(row: dict[str, Any]) -> frozenset[tuple[str, str]]:
    """The tuning of a row, else that of its model's trainings in the edition."""
    options = row.get("tuning") or named_options(row["options"])
    return frozenset(tuning_of(options, options.get("variant", "")))


def _rate(row: dict[str, Any]) -> float:
    """Images or tokens per second of a row; 0 if it has none."""
    if "throughput" in row:
        return float(row["throughput"])
    if not {"epoch_seconds", "batch_size"} <= row.keys():
        return 0.0
    if "data_set" not in row:
        return float(IMAGES / row["epoch_seconds"])
    batches = DATA_SETS[row["data_set"]]["train"] // row["batch_size"]
    return float(batches * row["batch_size"] / row["epoch_seconds"])


def torch_memory_gib(options: Mapping[str, str], batch: int) -> float:
    """GiB of GPU memory of train_ddp.py (tables 11.1, 11.5 and 12.1 of the course's book)."""
    if options.get("model_name") == "custom":
        return 3.4
    if options.get("model_name", "").startswith("resnet"):
        return 1.5 + 0.09 * batch
    if options.get("mixed_precision", "fp32") in ("fp16", "bf16"):
        return (7.0 if "compile" in options else 4.2) + 0.36 * batch
    return 3.6 + 0.67 * batch


# ------------------------------------------------------------------------------------------- TensorFlow


TENSORFLOW = ("hpc4ai-ch10", "sa-miri-2025-pg")
_CPU_TIMES_GPU = 215 / 14.3
_CPU_WARM_UP_S = 5.0
"""Of ResNet50V2 on 20 cores: an epoch's time relative to one GPU's, and how much longer the first epoch takes."""
NETWORKS = {
    "ResNet50V2": (23_585_290, 21.5),
    "ResNet101V2": (42_647_050, 32.5),
    "ResNet152V2": (58_352_138, 45.0),
}
"""Trained parameters, and MiB of GPU memory per image of full size."""


class Training(msgspec.Struct, frozen=True):
    """A training with TensorFlow. With 0 `gpus` it runs on `cores` CPU cores; `batch` is the global batch."""

    network: str
    gpus: int
    batch: int
    images: int = IMAGES
    image_size: int = FULL_SIZE
    cores: int = 20

    @property
    def steps(self) -> int:
        """Steps per epoch; the last batch may be short."""
        return math.ceil(self.images / self.batch)

    @property
    def _scale(self) -> float:
        """Work per image, relative to an image of full size."""
        return (self.image_size / FULL_SIZE) ** 2

    @property
    def _pace(self) -> Pace:
        model, gpus = self.network.removesuffix("V2").lower(), max(1, self.gpus)
        return Pace(model, "", frozenset(), gpus, max(1, self.batch // gpus), TENSORFLOW)

    @property
    def steady_s(self) -> float:
        """Seconds per epoch after the first, without noise."""
        seconds = self.images * self._scale / self._pace.rate()
        return seconds if self.gpus else seconds * _CPU_TIMES_GPU / (self.cores / 20) ** 0.75

    @property
    def first_s(self) -> float:
        """Seconds of the first epoch, which includes building the graph, device set-up, resizing and caching images."""
        return self.steady_s + (self._pace.first_s() if self.gpus else _CPU_WARM_UP_S)

    def epoch_s(self, epoch: int, rng: random.Random) -> float:
        """Seconds of epoch `epoch` (from 1) with the noise of a real node."""
        return (self.first_s if epoch == 1 else self.steady_s) * math.exp(rng.gauss(0.0, NOISE))

    @property
    def memory_gib(self) -> float:
        """GiB of GPU memory of one replica: activations of its share of the batch, and the copies of the weights."""
        (parameters, image_mib), share = NETWORKS[self.network], math.ceil(self.batch / max(1, self.gpus))
        return (share * image_mib * self._scale + parameters * 16 / 2**20 + 900) / 1024

    @property
    def fits(self) -> bool:
        """Whether the batch fits into GPU memory; on the CPU it always does."""
        return self.gpus == 0 or self.memory_gib <= GPU_MEMORY_GIB

    @property
    def busy_percent(self) -> float:
        """Percent of an epoch in which a GPU computes: its efficiency."""
        return min(99.0, 100 * interpolate(self._pace.efficiency(), self.gpus)) if self.gpus else 0.0

    def metrics(self, epoch: int, rng: random.Random) -> dict[str, float]:
        """Loss and accuracy after `epoch`; they depend on the number of updates, so large batches learn slower."""
        accuracy = 0.10 + 0.86 * (1 - math.exp(-((epoch * self.steps / 3000) ** 0.55)))
        accuracy = min(0.999, max(0.08, accuracy + rng.gauss(0, 0.004)))
        return {"loss": max(0.02, 2.42 * (1 - accuracy) ** 0.9 + rng.gauss(0, 0.01)), "accuracy": accuracy}


# --------------------------------------------------------------------------------------------- programs


def pi_ms(processes: int, intervals: int, *, sequential: bool, weak: bool) -> float:
    """The time that pi_seq.c or pi_mpi.c prints, in milliseconds."""
    rows = [row for row in published_rows("hpc4ai-ch4") if row["model"] == ("pi-weak" if weak else "pi")]
    table = {row["processes"]: 1000 * row["seconds"] for row in rows}
    alone = table.pop(1)  # the sequential program
    share = intervals / (1 << 32) / (processes if weak else 1)
    one = table[2] * (1 if weak else 2)  # a process of pi_mpi.c, which no table times
    whole = alone if sequential else interpolate(table, processes) if processes > 1 else one
    return _add_noise(whole * share)


def jacobi_s(gpus: int, nx: int, ny: int, iterations: int, build: str) -> tuple[float, float]:
    """The times that jacobi.c prints, on one GPU and on `gpus` GPUs, in seconds."""
    times: dict[tuple[str, int], dict[int, float]] = {}
    for row in published_rows("hpc4ai-ch6"):
        place = (row["model"], int(row["size"].partition("x")[0]))
        times.setdefault(place, {})[row["processes"]] = row["seconds"]
    side = min((side for _, side in times), key=lambda side: abs(math.log(side * side / (nx * ny))))
    table = times["jacobi", side]
    usual = times["jacobi", 16384][4]
    built = times.get((f"jacobi-{build}", 16384), {}).get(4, usual)
    share = nx * ny / side**2 * iterations / 100_000 * built / usual
    one = _add_noise(table[1] * share)
    return one, one if gpus == 1 else _add_noise(interpolate(table, gpus) * share)


def _add_noise(value: float) -> float:
    return value * math.exp(random.gauss(0.0, NOISE / 4))
