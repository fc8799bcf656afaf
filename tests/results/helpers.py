"""Runs, epochs and published logs for the tests of results."""

import json
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from labtui.domain.model import EpochSample, Interval, RunSpec
from labtui.results import compute, messages, rows
from labtui.results.catalogue import catalogue
from labtui.results.measured import MeasuredRun, measured_from_reports
from labtui.training_logs.reader import parse_log
from labtui.training_logs.runs import ParsedRun

PUBLISHED = Path(__file__).parent.parent / "fixtures" / "published"
DERIVATIONS = (Path(__file__).parents[2] / "docs" / "derivations.md").read_text(encoding="utf-8")
"""The page that says how each published number is derived."""


def published(name: str) -> dict[str, Any]:
    return tomllib.loads((PUBLISHED / name).read_text("utf-8"))


def read_logs(*names: str) -> tuple[MeasuredRun, ...]:
    """The runs of published logs, read as the program reads them."""
    reports = [(name, parse_log((PUBLISHED / name).read_bytes())) for name in names]
    return measured_from_reports(reports)


def results_of(*names: str, images: int = 50_000) -> rows.Results:
    return compute.compute_results(read_logs(*names), images=images)


def course_log(
    command: str, model: str, batch: int, images: int, rate: float, told: tuple[int, float], *more: str
) -> bytes:
    """A log of the course's PyTorch script with five epochs; `told` are the whole seconds and the memory in GB."""
    lines = [f"+ {command} --num_epochs 5 --batch_size {batch}"]
    lines += [f"### model_name: {model}", f"### batch_size: {batch}"]
    lines += [*(f"### {option}" for option in more), "### num_epochs: 5", "### Device: cuda:0"]
    lines += [f"### Total training samples (batches): {images} ({images // batch})"]
    for number in range(1, 6):
        lines += [f"[EPOCH: {number}] Starting training loop..."]
        lines += [f"[EPOCH: {number}] Training throughput: {rate / 2 if number == 1 else rate:.3f} imgs/s"]
    lines += ["Training finished!", f"Complete training Time: {told[0]} s "]
    lines += [f"Training throughput:    {rate} imgs/s", f"GPU memory reserved:    {told[1]} GB"]
    return ("\n".join(lines) + "\n").encode()


def mllog(key: str, kind: str, value: object, **metadata: object) -> str:
    """A line as MLPerf's logging library prints it."""
    head = {"namespace": "", "time_ms": 1, "event_type": kind, "key": key, "value": value}
    return ":::MLLOG " + json.dumps({**head, "metadata": metadata})


def epoch(number: int, seconds: float, *, half_width: float = 0.0, **more: Any) -> EpochSample:
    """An epoch sample with a symmetric interval."""
    return EpochSample(epoch=number, seconds=Interval.around(seconds, half_width), **more)


def run(
    n_gpus: int | None,
    times: Sequence[float],
    *,
    batch: int | None = None,
    half_width: float = 0.0,
    **more: Any,
) -> MeasuredRun:
    """A run whose epochs took these seconds; `more` are fields of `MeasuredRun` or of `ParsedRun`."""
    known = n_gpus is not None
    told = {name: more.pop(name) for name in [*more] if name not in MeasuredRun.__struct_fields__}
    values = {
        "model": "ResNet50", "device": ("gpu" if n_gpus else "cpu") if known else None,
        "batch_size": 2048 * max(1, n_gpus or 1) if batch is None and known else batch,
        "outcome": "completed", "epochs_planned": len(times), "epochs": tuple(
        epoch(number, time, half_width=half_width, printed_seconds=round(time), line=10 * number)
        for number, time in enumerate(times, start=1) ),
    }  # fmt: skip
    parsed = ParsedRun(n_gpus=n_gpus, **(values | told))
    return MeasuredRun(run=parsed, **more)


def spec(n_gpus: int, epochs: int = 3) -> RunSpec:
    """A planned run of ResNet50 on `n_gpus` GPUs."""
    values = {"model": "ResNet50", "device": "gpu", "script": "ResNet50.py"}
    return RunSpec(n_gpus=n_gpus, batch_size=2048 * n_gpus, epochs=epochs, **values)


def task_charts(results, *, model=None):
    return tuple(each for each in catalogue(results, model=model) if each.family in messages.SCALING)
