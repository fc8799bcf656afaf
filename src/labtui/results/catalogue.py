"""Decides which charts exist, for which networks and in which order; makes the charts of single runs.

Real and practice runs never share a chart, nor do images and tokens. Charts over numbers of GPUs are made in
`scaling_charts`; charts of runs over time here: epoch times, accuracy, learning rate and GPU utilisation.
"""

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any

from msgspec.structs import replace

from labtui.domain.run import run_numbers
from labtui.results import charts as specs
from labtui.results import measured, messages, scaling_charts
from labtui.results.charts import ChartSpec, Look, Point, Series, interval_point, make_chart, slug, tell_apart
from labtui.results.grouping import UNKNOWN, devices
from labtui.results.measured import MeasuredRun, accuracy_curves, best_curve, grouped, policy, steady_samples
from labtui.results.numbers import clean, percent_text, round_epochs, tick_text, unique
from labtui.results.rows import ResultRow, Results, with_rows, without_small
from labtui.results.scaling import HUES, program_lines, scaling_lines
from labtui.training_logs.gpu_sampler import GpuSample

STRONG = ("program-time", "program-speedup", "program-efficiency")
WEAK = ("weak-time", "weak-efficiency")
"""The charts of programs, by family; strong and weak scaling never share one."""
MAX_LINES = 6
"""The most lines of a chart over epochs that compares networks."""


def networks(results: Results) -> tuple[str, ...]:
    """The names of the networks that have charts in the order of the rows, then those of the programs."""
    shown = without_small(results)
    return tuple(dict.fromkeys(row.model for row in (*shown.rows, *shown.programs)))


Charts = tuple[ChartSpec, ...]


def by_line(results: Results, *, marked: bool, sizes: Iterable[int] = ()) -> dict[str, Callable[[], Charts]]:
    """Functions that make the charts of each line of the scaling charts, by its short name; {} for a single line.

    Lines keep their looks. A network with one line gets the charts of all its rows.
    """
    results = without_small(results)
    rows = [row for row in results.rows if bool(row.mark) is marked]
    lines = [*scaling_lines(rows), *(line for each in program_lines(results.programs) for line in each)]
    several, seen = Counter(line.last.model for line in lines), scaling_charts.looks_of(lines, rows)
    found: dict[str, Callable[[], Charts]] = {}
    for line, short in zip(lines, tell_apart([line.name for line in lines]), strict=True):
        alone = several[line.last.model] == 1
        mine = [row for row in rows if row.model == line.last.model and (alone or row in line.rows)]
        programs = line.rows if line.last.program is not None else ()
        part = replace(with_rows(results, mine), programs=programs)
        found[short] = cache(partial(_charts_of_line, part, marked, seen[line.name], short, sizes))
    return found if len(found) > 1 else {}


def _charts_of_line(results: Results, marked: bool, look: Look, short: str, sizes: Iterable[int]) -> Charts:
    def drawn(chart: ChartSpec) -> ChartSpec:
        mine, said = () if chart.measured[1:] else chart.measured, chart.message
        series = (replace(s, look=look, short=short) if s in mine else s for s in chart.series)
        said = f"{clean(short)}: {said}" if said and clean(short) not in said else said
        return replace(chart, series=tuple(series), message=said)

    charts = (specs.with_sizes(chart, sizes) for chart in catalogue(results) if bool(chart.mark) is marked)
    return tuple(map(drawn, charts))


def catalogue(results: Results, *, model: str | None = None, repeats: bool = False) -> tuple[ChartSpec, ...]:
    """The charts of one network; without `model`, those that compare networks, or all charts of the only one.

    `repeats`: of many runs over epochs, all that repeat one another are drawn.
    """
    there = networks(results)
    only = there[0] if model is None and len(there) == 1 else model
    return with_unique_keys(_charts(results, only, repeats))


def chart_of_run(results: Results, row: ResultRow, number: int, family: str) -> ChartSpec | None:
    """The chart over epochs whose only line with a name is one run's, before others of its model in grey.

    `row` is the run's own. Its last epoch ends the axis. A small run is drawn with small ones. None for a run that has
    no such chart.
    """
    small = row.mark == "small"
    alike = [each for each in results.rows if (each.model, each.mark) == (row.model, row.mark)]
    alike = [replace(r, configuration=replace(r.configuration, mark="" if small else r.mark)) for r in alike]
    for chart in catalogue(with_rows(results, alike), repeats=True):
        mine = [each for each in chart.measured if number in {point.run for point in each.points}]
        if mine and chart.family == family:
            ends = [run.run.epochs_planned or 0 for run in row.members if run.run_id == number and run.live]
            last = max([*ends, *(point.x for each in mine for point in each.points)])
            others = [replace(each, role="other") for each in chart.measured if each not in mine]
            series = [replace(s, points=tuple(p for p in s.points if p.x <= last)) for s in (*others, *mine)]
            heading = f"{specs.FAMILIES[family].title} of run {number}{' (small run)' * small}"
            heading += " (grey: other runs)" if others else ""
            return replace(chart, heading=heading, series=tuple(series), x_ticks=_epoch_ticks(series))
    return None


def lab_charts(results: Results) -> tuple[ChartSpec, ...]:
    """Every chart of a lab once: those of each network, with its name in their keys, then those that compare."""
    there = networks(results)
    several = len(there) > 1
    named = [
        replace(chart, key=f"{chart.key}-{slug(chart.model)}" if several or name != UNKNOWN else chart.key)
        for name in there
        for chart in _charts(results, name)
        if not (several and chart.family == "efficiency-loss")  # one chart shows it of all networks
    ]
    alone = [chart.series for chart in named]  # where all others have a single mark, it is nothing else
    together = (c for c in _charts(results, None) if several and not c.model and c.series not in alone)
    return with_unique_keys([*named, *together])


def _charts(results: Results, model: str | None, repeats: bool = False) -> list[ChartSpec]:
    """The charts of one network or of all together; a real and a practice chart may have the same key."""
    results = without_small(results)
    charts = [
        scaling_charts.quantity_chart(family, lines)
        for lines in program_lines(row for row in results.programs if model in (None, row.model))
        for family in (WEAK if lines[0].last.is_weak else STRONG)
    ]
    for marked in (False, True):
        rows = [row for row in results.rows if model in (None, row.model) and bool(row.mark) is marked]
        made = list(_charts_of(with_rows(results, rows), model is not None, repeats)) if rows else []
        charts += [replace(chart, mark="practice" if marked else "") for chart in made]
    # a single mark shows no speedup, efficiency or acceleration
    told = (chart for chart in charts if any(len(s.points) > chart.compares for s in chart.measured))
    pairs = {(row.title, row.model) for row in results.rows}
    alike = [title for title, _ in pairs if (title, model) in pairs]  # also of other networks
    named = (replace(chart, model=alike[0] if len(alike) == 1 else model or chart.model) for chart in told)
    return [replace(c, title=f"{c.title}, {c.model}") if c.model and "," not in c.title else c for c in named]


def _charts_of(results: Results, alone: bool, every: bool) -> Iterable[ChartSpec]:
    """The charts of rows that are all real or all practice; `alone`: of one network; `every` repeat is drawn."""
    lines = scaling_lines(results.rows)
    by_unit = grouped(lines, lambda line: line.last.configuration.unit)
    if alone:
        yield from scaling_charts.cpu_gpu_charts(results.rows)
    for quantity in (*messages.SCALING, *specs.WHOLE_TRAINING):
        for unit, alike in by_unit.items():  # images and tokens share no axis
            chart = scaling_charts.quantity_chart(quantity, alike, results.rows)
            yield replace(chart, key=f"{chart.key}-{unit}") if len(by_unit) > 1 else chart
    yield from scaling_charts.cpu_charts(() if lines else results.rows)
    yield scaling_charts.loss_chart(lines)
    studies = list(study_charts(results))
    if alone:
        yield from scaling_charts.law_charts(results)
        # a policy does not change the speed
        yield from scaling_charts.tuned_charts(() if studies else results.rows)
    yield from studies
    told = any(chart.family == "error" for chart in studies)  # an error is what its accuracy lacks
    repeats: dict[int | None, str] = {}
    if not (alone or every) and len(_lines(results)) > MAX_LINES:
        kept = [(row, _drawn(row.drawn)) for row in results.rows]
        for row, runs in ((row, runs) for row, runs in kept if len(row.drawn) > len(runs)):
            whole = (f"{run.label}, which was stopped," if _stopped(run) else run.label for run in runs)
            who = " and ".join(whole) + (" are" if runs[1:] else " is")
            repeats[runs[0].run_id] = f"{len(row.drawn)} runs of {row.name}: {who} drawn."
        results = with_rows(results, [replace(row, drawn=runs) for row, runs in kept])
    losses = _lines_of(results, {"loss": "", "val_loss": ", validation"})
    learned = [] if told else [accuracy_chart(results), _over_epochs("loss", losses)]
    for chart in (epoch_chart(results), *learned):
        ended = [each for each in chart.measured if not each.points[-1].live]
        if alone or every or len(ended) <= MAX_LINES or len(lines) < 2:  # one of several lines can be chosen
            there = {point.run for each in chart.measured for point in each.points}
            said = [note for run, note in repeats.items() if run in there]
            yield replace(chart, notes=(*chart.notes, *said))


def _drawn(repeats: Sequence[MeasuredRun]) -> tuple[MeasuredRun, ...]:
    """Those that stand for repeated runs: the newest of the longest that ended as planned, and each that trains now."""
    one = measured.representative([run for run in repeats if not (run.live or _stopped(run))] or repeats)
    return tuple(run for run in repeats if run is one or (run.live and run.run.epochs))


def with_unique_keys(charts: Iterable[ChartSpec]) -> tuple[ChartSpec, ...]:
    """The charts with distinct keys: a practice chart with a real chart's key gets the ending ``-practice``."""
    charts = tuple(charts)
    real = {chart.key.casefold() for chart in charts if not chart.mark}
    keys = [f"{c.key}-practice" if c.mark and c.key.casefold() in real else c.key for c in charts]
    return tuple(replace(chart, key=key) for chart, key in zip(charts, unique(keys, "-{}"), strict=True))


# --------------------------------------------------------------------------- runs over time

MAX_POINTS = 240
"""Longer series are averaged down to at most this many marks."""


def _lines(results: Results) -> list[tuple[Series, MeasuredRun]]:
    """The lines of the runs that have epochs, still without marks: the name tells repeats of a configuration apart.

    The group is the configuration, where there are several learning-rate policies the policy.
    A run that ended within its warm-up is left out where another one of its configuration counts.
    """
    one = len({row.hue for row in results.rows}) == 1
    policies = scaling_charts.looks_of_policies(results.rows) if one else {}
    found, repeats, alike = [], Counter[str](), Counter[tuple[str, int | None]]()
    for row, run in ((each, run) for each in results.rows for run in each.drawn if run.run.epochs):
        if row.epoch_seconds is None or run.live or steady_samples(run):
            gpus = devices(0 if run.run.device == "cpu" else run.run.n_gpus, cpu="CPU", unknown="")
            apart = policy(run) or ", ".join(row.apart_by)
            name = " · ".join(filter(None, (row.title, row.configuration.data_set, apart, gpus)))
            # what stands for repeats that are not drawn looks like the first of them
            own = run.live or row.first_run in {each.run_id for each in row.drawn}
            first = run.run_id or 0 if own else row.first_run
            mark = round(math.log2(run.run.n_gpus)) if run.run.n_gpus else first - 1
            hue = policies[policy(run)].hue if len(policies) > 1 else row.hue
            mark %= specs.MARKS
            found.append((Series(name=name, points=(), hue=hue, first_run=first, mark=mark), run))
            repeats[name] += 1
            alike[name, run.run.batch_size] += 1

    # all by what was varied, or all by run
    by_batch = all(batch and n == 1 for (group, batch), n in alike.items() if repeats[group] > 1)

    several = len({policy(run) for _, run in found}) > 1

    def named(line: Series, run: MeasuredRun) -> Series:
        name, batch = line.name, run.run.batch_size
        apart = f"global batch {batch:,}" if batch and by_batch else run.label
        told = f"{apart}, {name}" if repeats[name] > 1 else name  # what is last may be cut
        return replace(line, name=told, group=(policy(run) or "constant rate") if several else name)

    lines = [named(line, run) for line, run in found]
    names = unique([each.name for each in lines], " ({})")  # drawers find a line by its name
    lines = [replace(line, name=name) for line, name in zip(lines, names, strict=True)]
    seen = specs.looks(lines)
    return [(replace(line, look=seen[line.name]), run) for line, (_, run) in zip(lines, found, strict=True)]


def _stopped(run: MeasuredRun) -> str:
    """The end of the name of a run that ended badly before its planned epochs; "" for another one."""
    badly = run.run.outcome not in (None, "completed", "unfinished")
    return ", stopped" if badly and run.run.epochs_read < (run.run.epochs_planned or math.inf) else ""


def epoch_chart(results: Results) -> ChartSpec:
    """Time of every epoch of every run, warm-up hollow; logarithmic where some take many times as long."""
    series = []
    for line, run in _lines(results):
        warmup, told = measured.warmup_epochs(run.run), run_fields(run)
        marks = [
            interval_point(s.epoch, s.seconds, hollow=s.epoch in warmup, line=s.line_of("seconds"), **told)
            for s in run.run.epochs
        ]
        name = line.name + _stopped(run)
        series.append(replace(line, name=name, points=tuple(marks)))
    ends = [each.points[-1].y for each in series] or [0.0]
    wide = max(ends) >= specs.MIN_LOG_SPAN * min(ends) > 0
    return _over_epochs("epochs", series, y_log=wide, notes=("Hollow: warm-up, not counted.",))


def run_fields(run: MeasuredRun, metric: str = "") -> dict[str, Any]:
    """The fields that all points of a run share, or all those of one of its metrics."""
    return {"live": run.live, "run": run.run_id, "metric": metric}


def accuracy_chart(results: Results, *, target: float | None = None) -> ChartSpec:
    """Accuracy after each epoch, in training and in validation; with a `target`, only the best curve and the target."""
    runs = [(line, run) for line, run in _lines(results) if accuracy_curves(run)]
    best = best_curve(results)
    drawn: list[tuple[bool, Series]] = []
    for line, run in runs:
        # A log may print one accuracy twice, as a fraction and in percent: the first of each set is drawn.
        first = {curve.validation: curve for curve in reversed(accuracy_curves(run))}
        curves = [first[validation] for validation in sorted(first)]
        if target is not None:
            curves = [best] if best and best.run is run else []
        for curve in curves:
            told = run_fields(run, curve.metric)
            points = (Point(x=at, y=y, label=percent_text(y), line=of, **told) for at, y, of in curve.points)
            end = ", validation" if curve.validation else ", training" if len(curves) > 1 else ""
            paler = specs.toned(line, 2 * (curve is not curves[0]))
            named = replace(paler, name=line.name + end + _stopped(run), points=tuple(points))
            drawn.append((curve.validation, named))
    series = [each for _, each in drawn]
    validated = [each for validation, each in drawn if validation]
    as_long = len({each.points[-1].x for each in series}) == 1
    # of several runs the differences may be chance: none is named the best
    message = messages.accuracy_message(best, target) if target is not None or len(runs) == 1 else ""
    if not message and as_long:
        lasts = sorted((each.points[-1] for each in validated or series), key=lambda point: point.y)
        after = messages.count_words(int(lasts[0].x), "epoch")
        shown = " to ".join(dict.fromkeys((lasts[0].label, lasts[-1].label))).replace(" % to", " to")
        message = f"{'Validation' if validated else 'Training'} accuracy after {after}: {shown}"
    seldom = as_long and len({len(each.points) for each in series}) > 1
    epochs = {point.x for each in validated for point in each.points}
    when = f"after epoch {max(epochs):g}" if len(epochs) == 1 else "after some epochs"
    notes = (f"Validated {when} only.",) if validated and seldom else ()
    if target is not None and series:
        ends = tuple(Point(x=x, y=target) for x in (series[0].points[0].x, series[0].points[-1].x))
        series.append(Series(name=f"{100 * target:g} %", points=ends, role="ideal"))
    return replace(_over_epochs("accuracy", series, message=message, notes=notes), mark=results.mark)


def _lines_of(
    results: Results, metrics: Mapping[str, str], shown: Callable[[float], float] = float
) -> list[Series]:
    """A line for each of these metrics, with the end of its name, in each run whose log has it."""
    return [
        replace(specs.toned(line, 2 * bool(end)), name=line.name + end + _stopped(run), points=points)
        for line, run in _lines(results)
        for metric, end in metrics.items()
        if (points := _by_epoch(run, metric, shown))
    ]


# --------------------------------------------------------------------------- a study of learning rates

_TOP1 = "val_top1"


def study_charts(results: Results) -> Iterator[ChartSpec]:
    """Learning rate and error over epochs, accuracy over the batch, by policy; nothing where no run has a policy.

    Each policy has a panel for its many lines.
    """
    tuned = [run for _, run in _lines(results) if policy(run)]
    if not tuned:
        return
    rates = _lines_of(results, {"learning_rate": ""})
    errors = _lines_of(results, {_TOP1: ""}, lambda top: 1 - top / 100)
    lines = _tops_by_policy(tuned, "batch_size")
    batches = sorted({batch for line in lines.values() for batch in line})
    sizes = {run.run.n_gpus for run in tuned if run.run.batch_size in batches[-1:]}
    alone = batches[0] if len(batches) == len(lines) == 1 < len(sizes) else 0  # then its sizes are compared
    over: dict[str, Any] = {"notes": _which_runs(lines.values())}
    if alone:
        lines, over = _tops_by_policy(tuned, "n_gpus"), {"x_label": "GPUs", "title": "Accuracy over GPUs"}
    where = f", on {devices(*sizes)}" if len(sizes) == 1 < len(lines) else ""
    errors = [each for each in errors if len(each.points) > 1]
    yield _over_epochs("error", errors, message=messages.study_message("error", lines, alone) + where)
    yield _rate_chart(rates)
    ticks = tuple((float(at), f"{at:,}") for at in sorted({at for line in lines.values() for at in line}))
    looks = scaling_charts.looks_of_policies(results.rows)
    drawn = [(name, tuple(line.values()), looks[name]) for name, line in lines.items()]
    series = [Series(name=name, points=points, hue=look.hue, look=look) for name, points, look in drawn]
    message = messages.study_message("accuracy", lines, alone) + where
    chart = make_chart("batch-accuracy", series, message=message, x_ticks=ticks, **over)
    yield specs.with_log_axes(chart)


def _which_runs(drawn: Iterable[Mapping[int, Point]]) -> tuple[str, ...]:
    """A note on the runs that a chart over the batch shows; nothing for logs, whose runs have no numbers."""
    numbers = sorted({point.run for line in drawn for point in line.values() if point.run})
    told = "A mark is the newest run of its policy and batch, at the usual batch per GPU"
    return (f"{told}: {run_numbers(numbers).lower()}.",) if numbers else ()


def _rate_chart(rates: Sequence[Series]) -> ChartSpec:
    """Learning rates that change, logarithmic where they fall far: a warm-up's first 0 has no place there."""
    constant = [each for each in rates if len({p.y for p in each.points}) == 1]
    rates = [each for each in rates if each not in constant]
    notes = ("Trainings with a constant rate are not shown.",) if constant else ()
    said, levels = _rates_message(rates), [p.y for each in rates for p in each.points if p.y > 0]
    if wide := max(levels, default=0.0) >= specs.MIN_LOG_SPAN * min(levels, default=1.0):
        rates = [replace(each, points=tuple(p for p in each.points if p.y > 0)) for each in rates]
    return _over_epochs("learning-rate", rates, y_log=wide, message=said, notes=notes)


def _rates_message(rates: Sequence[Series]) -> str:
    """``Learning rates reach 0.1 to 1.6 and end at 0.001 to 0.016``; "" without lines."""
    last = max((each.points[-1].x for each in rates), default=0)
    # others go on, or were stopped before they fell
    whole = [[p.y for p in each.points] for each in rates if each.points[-1].x == last]
    found = ([max(ys) for ys in whole], [ys[-1] for ys in whole]) if whole else ()
    ends = (dict.fromkeys(map(tick_text, (min(ys), max(ys)))) for ys in found)
    return "Learning rates reach {} and end at {}".format(*map(" to ".join, ends)) if whole else ""


def _by_epoch(run: MeasuredRun, metric: str, shown: Callable[[float], float]) -> tuple[Point, ...]:
    told, fields = measured.finite_epochs(run, metric), run_fields(run, metric)
    return tuple(Point(x=s.epoch, y=shown(n), line=s.line_of(metric), **fields) for s, n in told)


def _tops_by_policy(runs: Sequence[MeasuredRun], x: str) -> dict[str, dict[int, Point]]:
    """The best validation accuracy of the newest run of each policy and `x`, as fractions of 1.

    Of runs with one global batch on several numbers of GPUs, those with the commonest batch per GPU come first.
    """

    def per_gpu(run: MeasuredRun) -> float:
        return (run.run.batch_size or 0) / (run.run.n_gpus or 1)

    usual = Counter(map(per_gpu, runs)).most_common(1)[0][0]
    tops: dict[str, dict[int, Point]] = {}
    for (name, at), alike in grouped(runs, lambda run: (policy(run), getattr(run.run, x))).items():
        usually = (run for run in alike if per_gpu(run) == usual)
        newest = measured.newest_validated(usually) or measured.newest_validated(alike)
        points = _by_epoch(newest, _TOP1, lambda percent: percent / 100) if newest else ()
        if at and points:
            top = max(points, key=lambda point: point.y)
            tops.setdefault(name, {})[at] = replace(top, x=at, label=percent_text(top.y))
    return tops


def _over_epochs(family: str, series: Sequence[Series], **fields: Any) -> ChartSpec:
    """A chart with about twelve ticks."""
    return make_chart(family, series, x_ticks=_epoch_ticks(series), **fields)


def _epoch_ticks(series: Sequence[Series]) -> tuple[tuple[float, str], ...]:
    epochs = sorted({point.x for each in series for point in each.points})
    return tuple((x, f"{x:g}") for x in round_epochs(epochs, 12))


# --------------------------------------------------------------------------- GPU utilisation


def job_gpu_chart(samples: Sequence[GpuSample], of: str = "") -> ChartSpec:
    """Utilisation of each GPU over a job; its title and its key end with `of`."""
    origin = min(sample.at for sample in samples)
    series = []
    for at, mine in sorted(grouped(samples, lambda sample: sample.index).items()):
        pairs = [(each.at - origin, each.utilization) for each in mine if each.utilization is not None]
        size = -(-len(pairs) // MAX_POINTS) or 1
        pieces = [pairs[start : start + size] for start in range(0, len(pairs), size)]
        means = (map(statistics.fmean, zip(*piece, strict=True)) for piece in pieces)
        points = tuple(Point(x=x, y=y) for x, y in means)
        series.append(Series(name=mine[-1].name, points=points, group=mine[-1].node, hue=at % HUES))
    shown = [each for each in series if each.points]
    return make_chart("gpu-utilisation", shown, key=f"gpu-utilisation-{slug(of)}", of=of)
