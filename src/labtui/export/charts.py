"""Which charts a lab has, under which file names, and how they are written.

The numbers come from `core.results`; here is only the choice. A chart of one network carries the network's name in
its file name (``speedup-ResNet50.png``), a combined one does not (``speedup.png``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from labtui.core.charts import ChartSpec, Kind, with_kind
from labtui.core.results.charts import Reading, slug, task_charts
from labtui.core.results.more_charts import lab_charts
from labtui.core.results.rows import Results
from labtui.core.results.run_charts import accuracy_chart, gpu_chart, readable_epoch_chart
from labtui.engine.folder import file_name
from labtui.errors import UsageError
from labtui.export import style
from labtui.export.files import write_whole
from labtui.export.measurements import Measurements

Progress = Callable[[str, float], None]
"""Told what is being done and which fraction (0 to 1) is behind."""


def quiet(what: str, share: float) -> None:
    """Progress nobody watches."""


@dataclass(frozen=True, slots=True)
class NamedChart:
    """A chart and its file name without ending. `model` is "" for a chart of several networks."""

    stem: str
    spec: ChartSpec
    model: str = ""


def all_charts(
    measurements: Measurements, results: Results, *, reading: Reading = "precise"
) -> tuple[NamedChart, ...]:
    """Every chart with something measured in it: per network, all together, then single runs and GPUs."""
    models = tuple(dict.fromkeys(row.model for row in results.rows))
    named: list[NamedChart] = []
    for model in models:
        named += [_of_model(spec, model) for spec in task_charts(results, model=model, reading=reading)]
    combined = lab_charts(results, reading=reading)
    scaled = {spec.key for spec in task_charts(results, reading=reading)} if len(models) == 1 else set()
    named += [NamedChart(file_name(spec.key), spec) for spec in combined if spec.key not in scaled]
    named += [_of_model(spec, model) for model in models for spec in _over_epochs(results, model)]
    named += [NamedChart(file_name(spec.key), spec) for spec in gpu_charts(measurements)]
    return _told_apart(each for each in named if not each.spec.empty)


def _of_model(spec: ChartSpec, model: str) -> NamedChart:
    stem, practice = spec.key.removesuffix("-practice"), spec.key.endswith("-practice")
    name = model if model.isascii() and file_name(model) == model else slug(model)
    return NamedChart(file_name(f"{stem}-{name}{'-practice' if practice else ''}"), spec, model)


def _over_epochs(results: Results, model: str) -> Iterable[ChartSpec]:
    for practice in (False, True):
        for chart in (
            readable_epoch_chart(results, model=model, practice=practice),
            accuracy_chart(results, model=model, practice=practice),
        ):
            if not chart.empty:
                other = any(row.practice is not practice for row in results.rows if row.model == model)
                yield replace(chart, key=f"{chart.key}-practice") if practice and other else chart


def gpu_charts(measurements: Measurements, *, tasks: Sequence[str] = ()) -> tuple[ChartSpec, ...]:
    """GPU utilisation over the time of each job with a sampler; of some tasks, when they are named."""
    charts, seen = [], set()
    for use in measurements.uses:
        run = use.run
        if run.source in seen or (tasks and run.task_id not in tasks):
            continue
        seen.add(run.source)
        job = f"job {run.job_id}" if run.job_id else Path(run.source).name
        spec = gpu_chart(
            measurements.samples[run.source], title=f"GPU utilisation, {job}", practice=run.practice
        )
        if any(len(series.points) > 1 for series in spec.series):  # one moment is no course
            name = file_name(run.job_id or Path(run.source).stem)
            charts.append(replace(spec, key=f"gpu-utilization-{name}"))
    return tuple(charts)


def _told_apart(charts: Iterable[NamedChart]) -> tuple[NamedChart, ...]:
    """Give equal file names a number."""
    seen: dict[str, int] = {}
    told = []
    for chart in charts:
        count = seen[chart.stem.casefold()] = seen.get(chart.stem.casefold(), 0) + 1
        told.append(chart if count == 1 else replace(chart, stem=f"{chart.stem}-{count}"))
    return tuple(told)


def chosen(charts: Sequence[NamedChart], wanted: Sequence[str]) -> tuple[NamedChart, ...]:
    """The charts of these keys or file names; all of them when none is named.

    Raises:
        UsageError: when there is no such chart; the hint names those there are.
    """
    if not wanted:
        return tuple(charts)
    found = []
    for name in wanted:
        hits = [
            each
            for each in charts
            if name in (each.spec.key, each.spec.key.removesuffix("-practice"), each.stem)
        ]
        if not hits:
            there = (
                ", ".join(dict.fromkeys(each.spec.key for each in charts)) or "none: nothing is measured yet"
            )
            raise UsageError(f"There is no chart {name!r} of these runs.", f"Charts: {there}.")
        found += [hit for hit in hits if hit not in found]
    return tuple(found)


def write_charts(
    charts: Sequence[NamedChart],
    folder: Path,
    *,
    formats: tuple[str, ...] = ("png",),
    size: style.Size = "wide",
    kind: Kind | None = None,
    progress: Progress = quiet,
) -> tuple[Path, ...]:
    """Draw the charts into files; the half-slide ones are named ``...-half``.

    Raises:
        ExportError: when a file cannot be written.
    """
    from labtui.export.draw import pictures

    written = []
    for at, chart in enumerate(charts):
        progress(f"chart {chart.stem}", at / max(1, len(charts)))
        end = "-half" if size == "half" else ""
        for name, data in pictures(with_kind(chart.spec, kind), formats, size=size).items():
            path = folder / f"{chart.stem}{end}.{name}"
            write_whole(path, data)
            written.append(path)
    return tuple(written)
