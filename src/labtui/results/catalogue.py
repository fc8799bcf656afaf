"""The one place that decides which charts there are, for whom, and in which order.

Real and practice runs never share a chart, nor do images and tokens. The charts are made in `scaling_charts` and
`run_charts`.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import Any

from msgspec.structs import replace

from labtui.results import run_charts
from labtui.results.charts import HUES, MODEL_HUES, ChartSpec, distinct, slug
from labtui.results.messages import SCALING
from labtui.results.rows import Results, of_rows
from labtui.results.scaling import program_lines, scaling_lines
from labtui.results.scaling_charts import (
    acceleration_chart,
    law_chart,
    loss_chart,
    quantity_chart,
    tuning_charts,
)

STRONG = ("program-time", "program-speedup", "program-efficiency")
WEAK = ("weak-time", "weak-efficiency")
"""The charts of programs: strong and weak scaling are never in one."""
MAX_LINES = 6
"""Runs of several networks are drawn over each other by epoch up to so many lines."""


def networks(results: Results) -> tuple[str, ...]:
    """The networks of the rows, in their order, then the programs."""
    return tuple(dict.fromkeys(row.model for row in (*results.rows, *results.programs)))


Charts = tuple[ChartSpec, ...]


def by_line(results: Results, *, practice: bool) -> dict[str, Callable[[], Charts]]:
    """Makers of the charts of each line of the scaling charts, by what tells it from the others; {} for one line.

    A line keeps its colour. A network of one line has the charts of all of its rows.
    """
    rows = [row for row in results.rows if row.practice is practice]
    lines = [*scaling_lines(rows), *(line for each in program_lines(results.programs) for line in each)]
    several = Counter(line.model for line in lines)
    found: dict[str, Callable[[], Charts]] = {}
    for at, (line, short) in enumerate(zip(lines, distinct([line.name for line in lines]), strict=True)):
        alone = several[line.model] == 1
        mine = [row for row in rows if row.model == line.model and (alone or row in line.rows)]
        programs = line.rows if line.last.program is not None else ()
        hue = MODEL_HUES.get(line.model, at % HUES) if alone else at % HUES
        part = replace(of_rows(results, mine), programs=programs)
        found[short] = cache(partial(_of_line, part, practice, {"hue": hue, "short": short}))
    return found if len(found) > 1 else {}


def _of_line(results: Results, practice: bool, look: dict[str, Any]) -> Charts:
    return tuple(
        replace(chart, series=tuple(replace(s, **look) if s.role == "measured" else s for s in chart.series))
        if len(chart.measured) == 1
        else chart
        for chart in catalogue(results)
        if chart.practice is practice
    )


def catalogue(results: Results, *, model: str | None = None) -> tuple[ChartSpec, ...]:
    """The charts of one network; without `model` those of all together (all there are, if there is one only)."""
    there = networks(results)
    return with_unique_keys(_charts(results, there[0] if model is None and len(there) == 1 else model))


def lab_charts(results: Results) -> tuple[ChartSpec, ...]:
    """Every chart of a lab, once: those of each network, with its name in their keys, then those of all together."""
    there = networks(results)
    several = len(there) > 1
    named = [
        replace(chart, key=f"{chart.key}-{slug(chart.model)}")
        for name in there
        for chart in _charts(results, name)
        if not (several and chart.family == "efficiency-loss")  # one chart shows it of all networks
    ]
    together = [chart for chart in _charts(results, None) if not chart.model] if several else []
    return with_unique_keys([*named, *together])


def _charts(results: Results, model: str | None) -> list[ChartSpec]:
    """The charts of one network or of all together; real and practice ones may have one key."""
    charts: list[ChartSpec] = []
    for lines in program_lines(row for row in results.programs if model in (None, row.model)):
        last = lines[0].last
        made = [quantity_chart(each, lines) for each in (WEAK if last.is_weak else STRONG)]
        charts += [replace(chart, practice=last.practice) for chart in made]
    for practice in (False, True):
        rows = [row for row in results.rows if model in (None, row.model) and row.practice is practice]
        small = all(row.small for row in rows)
        made = list(_charts_of(of_rows(results, rows), model)) if rows else []
        charts += [replace(chart, practice=practice, small=small) for chart in made]
    return [replace(chart, model=model or chart.model) for chart in charts if _has_content(chart)]


def _charts_of(results: Results, model: str | None) -> Iterable[ChartSpec]:
    """The charts of rows that are all real or all practice; of one network where `model` names it."""
    lines = scaling_lines(results.rows)
    units = tuple(dict.fromkeys(line.unit for line in lines))
    if model is not None:
        yield acceleration_chart(results.rows, model)
    for quantity in SCALING:
        for unit in units:
            chart = quantity_chart(quantity, [line for line in lines if line.unit == unit])
            yield chart if unit == units[0] else replace(chart, key=f"{chart.key}-{unit}")
    yield loss_chart(lines)
    if model is not None:
        yield law_chart(results, model)
        yield from tuning_charts(results.rows)
    yield from run_charts.study_charts(results, model or "")
    for chart in (
        run_charts.epoch_chart(results, model or ""),
        run_charts.accuracy_chart(results, model or ""),
    ):
        if model is not None or len(chart.measured) <= MAX_LINES:
            yield chart


def _has_content(chart: ChartSpec) -> bool:
    """Whether a chart has what it compares: one mark alone is no speedup, no efficiency and no acceleration."""
    return any(len(series.points) > chart.compares for series in chart.measured)


def with_unique_keys(charts: Iterable[ChartSpec]) -> tuple[ChartSpec, ...]:
    """Charts with distinct keys: a practice chart beside a real one says so."""
    charts = tuple(charts)
    real = {chart.key.casefold() for chart in charts if not chart.practice}
    seen: Counter[str] = Counter()
    found = []
    for chart in charts:
        also_real = chart.practice and chart.key.casefold() in real
        key = f"{chart.key}-practice" if also_real else chart.key
        seen[key.casefold()] += 1
        count = seen[key.casefold()]
        found.append(replace(chart, key=key if count == 1 else f"{key}-{count}"))
    return tuple(found)
