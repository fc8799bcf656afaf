"""Charts over numbers of GPUs or processes, and across configurations: acceleration, tuning, lost efficiency, laws."""

import re
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any

from msgspec.structs import replace

from labtui.domain.model import Interval, Program
from labtui.results import charts as specs
from labtui.results import grouping, messages, numbers, scaling
from labtui.results.charts import ChartSpec, Point, Series, interval_point, make_chart
from labtui.results.cost import training_hours_text
from labtui.results.measured import grouped, longest, policy
from labtui.results.numbers import percent_text, rate_text, ratio_text, seconds_text, shown_bounds
from labtui.results.rows import ResultRow, Results, tell_rows_apart, with_rows
from labtui.results.scaling import Outlook, ScalingLine, hues_of, lost_efficiency, scaling_lines

_RATIOS = ("×", "%")
_TEXTS = {"s": seconds_text, "": rate_text, "×": ratio_text, "%": percent_text, "GPU-h": training_hours_text}
_IDEAL = Series(name="ideal", points=(), role="ideal")


def quantity_chart(family: str, lines: Sequence[ScalingLine], every: Sequence[ResultRow] = ()) -> ChartSpec:
    """One quantity over the number of GPUs or processes for some lines; a speedup also gets its ideal line.

    Sizes that were tried but have no mark are on the axis as well: no line is drawn across them. `every` row of a study
    counts for the looks of its policies.
    """
    given = len(lines)
    lines = _of_one_length(lines) if family in specs.WHOLE_TRAINING else lines
    seen = looks_of(lines, every)  # of all lines, so that one keeps its look where another has no value
    series = [
        Series(name=line.name, short=short, points=points, hue=seen[line.name].hue, look=seen[line.name])
        for line, short in zip(lines, specs.tell_apart([line.name for line in lines]), strict=True)
        if (points := tuple(points_of(family, line.rows)))
    ]
    is_ratio = specs.FAMILIES[family].unit in _RATIOS
    if is_ratio:  # a baseline alone compares nothing
        series = [each for each in series if len(each.points) > 1] or series
    rows = [row for line in lines for row in line.rows]
    marks = [point for each in series for point in each.points]
    xs = {point.x for point in marks}
    counts = sorted(xs | {n for row in rows if (n := row.n_gpus or 0) and xs and min(xs) < n < max(xs)})
    hidden = [run.label for line in lines for row in line.hidden for run in row.members if run.run_id]
    notes = [f"Not shown: {', '.join(hidden)} (other batch per GPU)."] if hidden else []
    notes += ["Trainings with other numbers of epochs are not shown."] if len(lines) < given else []
    fields: dict[str, Any] = {"notes": (*_notes(rows, marks, ratio=is_ratio), *notes)}
    if (program := rows[0].program) is not None:
        fields = _program_fields(rows[0], program, family)
    message = messages.scaling_message(lines, {family})
    chart = make_chart(family, series, counted=rows[0].configuration.unit, message=message, **fields)
    if chart.unit == "×" and series:
        chart = replace(chart, series=(*series, _IDEAL))
    return specs.with_sizes(chart, counts)


def _of_one_length(lines: Sequence[ScalingLine]) -> Sequence[ScalingLine]:
    """The lines, but of those with whole trainings only those with the commonest number of epochs, else the largest."""
    epochs = [{longest(r.members)[0].run.epochs_read for r in line.rows if r.total_seconds} for line in lines]
    usual = max(epochs, key=lambda each: (bool(each), epochs.count(each), sum(each)))
    return [line for line, each in zip(lines, epochs, strict=True) if each in (usual, set())]


def looks_of(lines: Sequence[ScalingLine], every: Sequence[ResultRow]) -> dict[str, specs.Look]:
    """The look of each line, by name: a colour for each title, or for each policy of `every` row of a study."""
    older = sorted(lines, key=lambda line: min(row.first_run for row in line.rows))
    hues = {line.name: line.last.hue for line in older}
    if len(set(hues.values())) == 1 < len(found := looks_of_policies(every)):
        hues = {line.name: found[policy(line.last.members[-1])].hue for line in older}
    return specs.looks([Series(name=name, points=(), hue=hue) for name, hue in hues.items()])


def looks_of_policies(rows: Iterable[ResultRow]) -> dict[str, specs.Look]:
    """The look of each policy of some rows, the same in every chart: the oldest first, runs without one last."""
    first = {policy(row.members[-1]): row.first_run for row in sorted(rows, key=lambda row: -row.first_run)}
    found = sorted(first, key=lambda name: (not name, first[name], name))
    return specs.looks([Series(name=name, points=(), hue=hue) for name, hue in hues_of(found).items()])


def _program_fields(row: ResultRow, program: Program, family: str) -> dict[str, Any]:
    """The fields of the charts of a program, by one of its rows: name, mark, labels, unit and note."""
    form, one = specs.FAMILIES[family], row.compared_with
    note = f"Strong scaling: the same work on n {program.counts}."
    if program.scaling == "weak":
        note = f"Weak scaling: n {program.counts} do n times the work. E = T1/Tn;"
    notes = (f"{note} T1 is the time of {one}.",)
    fields: dict[str, Any] = {"x_label": program.counts, "notes": notes, "model": row.model, "mark": row.mark}
    if form.unit == "s" and program.shown_in == "ms":
        return fields | {"heading": f"{form.title}, ms", "y_label": "milliseconds", "unit": "ms"}
    return fields | {"y_label": form.y_label.replace("processes", program.counts).replace("one process", one)}


def points_of(family: str, rows: Sequence[ResultRow]) -> Iterable[Point]:
    """The marks of a family's charts; for an epoch time, the warm-up's where there is no steady one."""
    unit, view = specs.FAMILIES[family].unit, specs.FAMILIES[family].view
    ratio, whole = unit in _RATIOS, family in specs.WHOLE_TRAINING
    field = specs.WHOLE_TRAINING.get(family) or ("shown" if view == "time" else view)
    for row in rows:
        value: Interval | None = getattr(row, field)
        told: dict[str, Any] = {"live": _moves(row) if ratio else row.live, "run": row.members[-1].run_id}
        hollow = value is None and family == "epoch-time"
        value = row.warmup_seconds if hollow else value
        if row.n_gpus is not None and value is not None:
            shown = value if hollow or whole else shown_bounds(row, value, ratio=ratio)
            text = (numbers.whole_text if family == "whole-training" else _TEXTS[unit])(value)
            yield interval_point(row.n_gpus, shown, label=text, hollow=hollow, **told)


def _moves(row: ResultRow) -> bool:
    """Whether a ratio to the baseline may still change: either of the two trains."""
    return row.live or (row.baseline is not None and row.baseline.live)


def _notes(rows: Sequence[ResultRow], marks: Sequence[Point], *, ratio: bool) -> Iterable[str]:
    if any(row.warmup_seconds and row.epoch_seconds for row in rows):
        timed = any(row.total_seconds is not None for row in rows)
        whole = "; a whole training's time and GPU-hours include it" if timed else ""
        yield f"The first epoch of each run is warm-up and not counted{whole}."
    if any(point.hollow for point in marks):
        yield "Hollow: only the first epoch is done."
    if any(row.live for row in rows):
        yield "Runs in progress are drawn as live; their marks will move."
    yield from dict.fromkeys(note for row in rows for note in row.notes_about("end"))
    if ratio:
        if any(row.by_rate and not row.is_baseline for row in rows):
            unit = rows[0].configuration.unit
            yield f"Runs are compared by {unit} per second, as the batch per GPU stays the same."
        yield from messages.baseline_notes(rows)


# --------------------------------------------------------------------------- acceleration, tuning


def cpu_gpu_charts(rows: Sequence[ResultRow]) -> Iterable[ChartSpec]:
    """Epoch time and throughput of one network on the CPU and on one GPU: acceleration, not scaling."""
    gpu = next((row for row in rows if row.cpu is not None), None)
    if gpu is None or gpu.cpu is None:
        return
    rates = f"{rate_text(gpu.throughput)} {gpu.configuration.unit} per second"
    rates = f"One GPU trains on {rates}, the CPU on {rate_text(gpu.cpu.throughput)}"
    told = {"cpu-gpu": messages.acceleration_message(gpu), "cpu-gpu-throughput": rates}
    notes = (f"Acceleration {ratio_text(gpu.acceleration)} times; it says nothing about scaling.",)
    for family, message in told.items():
        yield _named_bars(family, [gpu.cpu, gpu], ("CPU", "1 GPU"), message=message, notes=notes)


def cpu_charts(rows: Sequence[ResultRow]) -> Iterable[ChartSpec]:
    """Throughput of different trainings on the CPU, as bars."""
    found = [row for row in rows if row.n_gpus == 0 and row.throughput is not None and not row.contradicted]
    if len({row.configuration.unit for row in found}) == 1 < len(found):
        names = tell_rows_apart(found, [row.name for row in found])
        (column,) = numbers.columns_of(found, (numbers.NAME,))
        told = {"key": "cpu-images-per-second", "title": "Throughput on the CPU", "x_label": column.heading}
        yield _named_bars("cpu-gpu-throughput", found, specs.tell_apart(names), **told)


def _named_bars(family: str, rows: Sequence[ResultRow], names: Sequence[str], **fields: Any) -> ChartSpec:
    """A bar with a name for each row that has the family's quantity."""
    points = (replace(mark, x=float(x)) for x, row in enumerate(rows) for mark in points_of(family, [row]))
    first = rows[0]
    series = Series(name=first.devices, points=tuple(points), hue=first.hue)
    ticks = tuple((float(x), name) for x, name in enumerate(names))
    return make_chart(family, [series], counted=first.configuration.unit, x_ticks=ticks, **fields)


_MIN_TUNED = 3
"""This many batches on one number of GPUs are a study of the batch; two may belong to two tasks."""
_MAX_NAMED, _MAX_LABEL = 8, 32
"""More bars than this with longer labels, in characters, make no chart."""


def tuned_charts(rows: Sequence[ResultRow]) -> Iterator[ChartSpec]:
    """Throughput of runs of one network on the same GPUs and data that differ in tuning or batch, as bars."""
    told = (row for row in rows if row.throughput is not None and row.n_gpus)
    sound = (row for row in told if not (row.contradicted or row.configuration.control))
    work = attrgetter("model", "configuration.framework", "configuration.data_set", "n_gpus")
    tuned = [
        found
        for found in grouped(sound, work).values()
        if (len({row.configuration.tuning for row in found}) > 1 or len(found) >= _MIN_TUNED)
        and (len(found) <= _MAX_NAMED or max(map(len, messages.tuning_labels(found))) <= _MAX_LABEL)
    ]
    data_sets = {found[0].configuration.data_set for found in tuned}
    counts = {found[0].n_gpus for found in tuned}
    for found in tuned:
        data = found[0].configuration.data_set
        end = f"-{specs.slug(data)}" if len(data_sets) > 1 and data else ""
        yield _tuning_chart(found, f"tuning{end}{f'-{found[0].n_gpus}' if len(counts) > 1 else ''}")


def _tuning_chart(rows: Sequence[ResultRow], key: str) -> ChartSpec:
    named = zip(messages.tuning_labels(rows), rows, strict=True)
    order = sorted(named, key=lambda pair: grouping.natural_key(pair[0])[::-1])  # by number
    first = rows[0].configuration
    data = f" ({first.data_set})" if first.data_set else ""
    of = f"{first.model}{data} on {grouping.devices(first.n_gpus)}"
    told = {"key": key, "of": of, "message": messages.tuning_message(rows)}
    notes = ("The same network, data and GPUs; batches are per GPU.",)
    return _named_bars("tuning", [row for _, row in order], [name for name, _ in order], notes=notes, **told)


# --------------------------------------------------------------------------- lost efficiency, laws


def loss_chart(lines: Sequence[ScalingLine]) -> ChartSpec:
    """The efficiency that was kept and the parts that were lost, for each line and number of GPUs."""
    rows = [(line, row) for line in lines for row in line.rows if scaling.loses(row)]
    several = len({line.name for line, _ in rows}) > 1
    shares: dict[str, list[Point]] = {}
    for x, (_, row) in enumerate(rows):
        for mark in points_of("efficiency", [row]):  # with the bounds that it has in its own chart
            shares.setdefault("efficiency", []).append(replace(mark, x=float(x)))
        shown: dict[str, Any] = {"live": _moves(row), "run": row.members[-1].run_id}
        for part in lost_efficiency(row):
            point = interval_point(float(x), part.share, label=f"{part.text} points", **shown)
            shares.setdefault(part.name, []).append(point)
    shares = {name: points for name, points in shares.items() if any(point.y for point in points)}
    points = [point for found in shares.values() for point in found]
    series = []
    for name, found in shares.items():
        share: Any = "kept" if name == "efficiency" else "lost"
        colour = scaling.COLOUR_OF_PART.get(name, -1)
        series.append(Series(name=name, points=tuple(found), part=share, colour=colour))
    names = (f"{line.name} on {row.n_gpus} GPUs" if several else f"{row.n_gpus}" for line, row in rows)
    notes = ("The last batch of an epoch is smaller but costs a whole step.",)
    return make_chart(
        "efficiency-loss",
        series,
        of=rows[0][0].name if rows and not several else "",
        message=messages.loss_message([row for _, row in rows]),
        kind="stacked" if all(point.y >= -1e-9 for point in points) else "bars",
        x_ticks=tuple((float(x), name) for x, name in enumerate(names)),
        notes=notes if scaling.SHORT_BATCH in shares else (),
    )


def law_charts(results: Results) -> Iterator[ChartSpec]:
    """For each line its measured speedup with both fitted laws, and the outlook to twice the GPUs."""
    lines = [line for line in scaling_lines(results.rows) if with_rows(results, line.rows).fits]
    seen = looks_of(lines, results.rows)
    for line, short in zip(lines, specs.tell_apart([line.name for line in lines]), strict=True):
        rows, fitted = line.rows, with_rows(results, line.rows)
        series = [Series(name=line.name, points=tuple(points_of("speedup", rows)), hue=seen[line.name].hue)]
        for fit in fitted.fits:
            name = fit.law.capitalize()
            told = f"{name}, {messages.fit_words(fit, fitted.fits)}"
            series.append(Series(name=told, short=name, points=(), role="fit", law=fit))
        series += [each for outlook in scaling.outlooks(rows) for each in _outlook_series(outlook)]
        laws = map(str.strip, messages.law_lines(fitted.fits))
        chart = make_chart(
            "laws",
            [*series, _IDEAL],
            key=f"laws-{specs.slug(short)}" if len(lines) > 1 else "laws",
            of=line.name,
            heading=f"Speedup, {short}",
            message=messages.laws_message(fitted, ()),
            x_ticks=tuple((n, f"{n:g}") for n in sorted({p.x for each in series for p in each.points})),
            # the chart shows of which line and sizes
            notes=tuple(re.sub(r"^(\w+), .*?: (.*), fitted to .*? GPUs", r"\1: \2", told) for told in laws),
        )
        chart = specs.with_curves(chart)
        yield specs.with_log_axes(chart) if line.last.processes >= specs.MIN_LOG_SPAN else chart


def _outlook_series(outlook: Outlook) -> Iterable[Series]:
    """Lines from the largest measured size to twice the GPUs: the step stays as it is, or grows as it did."""
    n, last = outlook.measured, messages.value_of(outlook.line.compared[-1].speedup)
    for name, speedup in (
        (f"if a step stays as on {n} GPUs", outlook.same),
        (f"if it grows as from {n // 2} to {n}", outlook.grows),
    ):
        end = Point(x=outlook.n_gpus, y=speedup, label=numbers.three_digits(speedup))
        yield Series(name=name, points=(Point(x=n, y=last), end), role="reference")
