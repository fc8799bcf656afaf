"""Which runs are repetitions of each other, and which one-GPU configuration another is compared with."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence

from labtui.core.model import DEEDS
from labtui.core.results.measured import MeasuredRun
from labtui.core.results.rows import Configuration, LeftOut

UNKNOWN = "unknown"
_NUMBER = re.compile(r"(\d+)")
_KERAS = re.compile(r"(?:(?:tf\.)?keras|tensorflow|mlperf)(?![\w+])", re.IGNORECASE)
_SOFTWARE = re.compile(r"[a-z]+(?:[ _+/-]+[a-z]+)*", re.IGNORECASE)


def group_runs(
    runs: Iterable[MeasuredRun], images: int
) -> tuple[dict[Configuration, list[MeasuredRun]], tuple[LeftOut, ...]]:
    """Sort runs into configurations in reading order; name what measures nothing, and why."""
    groups: dict[Configuration, list[MeasuredRun]] = {}
    left_out: list[LeftOut] = []
    runs = tuple(runs)
    nameless = _one_nameless_model(runs)
    places: Counter[str] = Counter()
    for run in runs:
        places[run.source] += 1
        if reason := _unusable(run):
            left_out.append(LeftOut(run=run, reason=reason))
            continue
        shared = run.source in nameless and run.run.n_gpus is not None
        apart = run.source if shared else f"{run.source}#{places[run.source]:04}"
        groups.setdefault(_configuration(run, images, apart), []).append(run)
    ordered = sorted(groups, key=_reading_order)
    return {configuration: groups[configuration] for configuration in ordered}, tuple(left_out)


def _unusable(run: MeasuredRun) -> str:
    if run.no_gpu:
        return "the training found no GPU and ran on the CPU, so it is not counted as a GPU run"
    if not run.run.epochs and run.run.throughput is None:
        return f"no epoch was finished: it {DEEDS[run.run.outcome]}"
    return ""


def _one_nameless_model(runs: Sequence[MeasuredRun]) -> frozenset[str]:
    """Logs whose runs name no model and can be taken for one model: no size comes twice.

    Another model would be trained on the same sizes again, so a log in which sizes repeat may hold several; its
    runs are compared with nothing.
    """
    sizes: dict[str, list[int]] = {}
    for run in runs:
        if run.run.model is None and run.run.n_gpus is not None and not _unusable(run):
            sizes.setdefault(run.source, []).append(run.run.n_gpus)
    return frozenset(source for source, found in sizes.items() if source and len(set(found)) == len(found))


def _configuration(run: MeasuredRun, images: int, apart: str) -> Configuration:
    parsed = run.run
    device = parsed.device or (UNKNOWN if parsed.n_gpus is None else "gpu" if parsed.n_gpus else "cpu")
    n_gpus = 0 if device == "cpu" else parsed.n_gpus
    known = n_gpus is not None and parsed.model is not None
    return Configuration(
        practice=run.practice or parsed.practice,
        model=parsed.model or UNKNOWN,
        framework=software_family(parsed.framework),
        device=device,
        n_gpus=n_gpus,
        batch_size=parsed.batch_size,
        images=parsed.images or images,
        steps=_printed_steps(run) if parsed.batch_size is None else None,
        apart="" if known else apart,
    )


def _printed_steps(run: MeasuredRun) -> int | None:
    return next((sample.steps for sample in run.run.epochs if sample.steps is not None), None)


def software_family(framework: str) -> str:
    """The software without its versions: runs of different software are neither pooled nor compared.

    Keras, TensorFlow and MLPerf records without another name are one family (""): most Keras logs do not name
    themselves, and the lab's own scripts print both forms.
    """
    if not framework or (_KERAS.match(framework) and "+" not in framework):
        return ""
    return "+".join(_SOFTWARE.findall(framework.lower())) or framework.lower()


def _reading_order(configuration: Configuration) -> tuple[object, ...]:
    natural = [int(piece) if piece.isdigit() else 0 for piece in _NUMBER.split(configuration.model)]
    return (
        configuration.practice,
        _NUMBER.sub("#", configuration.model),
        natural,
        configuration.framework,
        {"cpu": 0, "gpu": 1}.get(configuration.device, 2),
        configuration.n_gpus if configuration.n_gpus is not None else math.inf,
        configuration.per_gpu_batch or 0,
        configuration.images,
        configuration.steps or 0,
        configuration.apart,
    )


def find_baseline(
    configuration: Configuration, measured: Sequence[Configuration]
) -> tuple[Configuration | None, str]:
    """The one-GPU configuration to compare with, and a note when it is not quite the same.

    Same model, same software, same images, real or practice alike. With several, the same per-GPU batch
    wins, then the same global batch, then the nearest per-GPU batch.
    """
    if configuration.device != "gpu" or not configuration.n_gpus:
        return None, ""
    candidates = [
        other
        for other in measured
        if other.device == "gpu" and other.n_gpus == 1 and same_work(other, configuration)
    ]
    if not candidates:
        return None, ""
    best = min(candidates, key=lambda other: _batch_distance(other, configuration))
    if best.per_gpu_batch == configuration.per_gpu_batch:
        return best, ""
    return best, _batch_note(best, configuration)


def same_work(one: Configuration, other: Configuration) -> bool:
    """Whether two configurations train the same thing, on whatever devices."""
    return (
        one.practice == other.practice
        and one.model == other.model
        and one.framework == other.framework
        and one.images == other.images
        and one.apart == other.apart
    )


def _batch_distance(one: Configuration, other: Configuration) -> tuple[bool, bool, float]:
    mine, theirs = one.per_gpu_batch, other.per_gpu_batch
    ratio = abs(math.log(mine / theirs)) if mine and theirs else math.inf
    return (mine != theirs, one.batch_size != other.batch_size, ratio)


def _batch_note(baseline: Configuration, configuration: Configuration) -> str:
    if baseline.per_gpu_batch is None or configuration.per_gpu_batch is None:
        return "The per-GPU batch of this run or of its one-GPU baseline is not known, so they may differ."
    return (
        f"The one-GPU baseline has {baseline.per_gpu_batch:,.0f} images per GPU and step, "
        f"this run {configuration.per_gpu_batch:,.0f}: the speedup mixes both effects."
    )
