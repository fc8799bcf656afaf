"""A lab's numbers on a page: its short tables, where each number was read, and the fact above them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set

from labtui.export.hand_in import KeyNumbers, Table
from labtui.lab.edition import HandInPage
from labtui.results import report
from labtui.results.accuracy import AccuracyCurve, accuracy_curves
from labtui.results.catalogue import tuning_labels
from labtui.results.course_charts import study_name
from labtui.results.measured import Origin
from labtui.results.numbers import (
    ABSENT,
    MEMORY,
    Column,
    cells,
    clean,
    count_text,
    device_text,
    fixed,
    percent_text,
    rate_text,
    ratio_text,
    three_digits,
    uncertainty,
    unit_of,
    with_uncertainty,
)
from labtui.results.programs import ProgramRow
from labtui.results.rows import LawFit, ResultRow, Results, of_rows
from labtui.results.scaling import sweet_spots

_MOST_LINES = 14


def short_table(results: Results) -> Table:
    """What a reader needs of each configuration: three digits, the uncertainty and what it is."""
    shown = [row for row in results.measured if row.epoch_seconds is not None or row.from_rate]
    unit = unit_of(shown)
    timed = any(row.epoch_seconds is not None for row in shown)
    columns = [
        Column("model", lambda row: clean(row.name) + (" (practice)" if row.practice else ""), number=False),
        Column("device", device_text, number=False),
        Column("global batch", lambda row: count_text(row.batch_size)),
    ]
    if timed:
        columns.append(Column("epoch, s", lambda row: with_uncertainty(row, row.epoch_seconds)))
        columns.append(Column("uncertainty", _uncertainty_text, number=False))
    columns.append(Column(f"{unit}/s", lambda row: rate_text(row.throughput)))
    if unit == "tokens":
        columns.append(Column("tokens/s per GPU", lambda row: rate_text(row.per_gpu_throughput)))
    if any(row.gpu_memory is not None for row in shown):
        columns.append(MEMORY)
    if any(row.total_seconds is not None for row in shown):
        columns.append(Column("whole training, s", _total_text))
    return Table(
        tuple(column.heading for column in columns),
        tuple(tuple(line) for line in cells(shown, columns)),
        tuple(column.number for column in columns),
    )


def _uncertainty_text(row: ResultRow) -> str:
    return uncertainty(row, row.epoch_seconds).sentence if row.epoch_seconds is not None else ""


def _total_text(row: ResultRow) -> str:
    return ABSENT if row.total_seconds is None else f"{int(row.total_seconds.lo):,}"


def acceleration_table(results: Results) -> Table:
    """The CPU and one GPU with the same batch."""
    return short_table(of_rows(results, [row for row in results.measured if (row.n_gpus or 0) <= 1]))


def fraction_table(fits: Sequence[LawFit]) -> Table:
    """Both laws of each network: the serial fraction, its bounds, and the speedup it allows at most."""
    rows = []
    for fit in fits:
        share = fit.serial_fraction
        limit = f"{1 / share.value:.1f}×" if fit.law == "amdahl" and share.value > 0 else "none"
        rows.append(
            (
                clean(fit.model) + (" (practice)" if fit.practice else ""),
                fit.law.capitalize(),
                percent_text(share),
                f"{100 * share.lo:.1f} to {100 * share.hi:.1f} %",
                limit,
                ", ".join(map(str, fit.n_gpus)),
            )
        )
    headings = ("model", "law", "serial fraction", "between", "limit", "from GPUs")
    return Table(headings, tuple(rows), (False, False, True, True, True, True))


def source_rows(row: ResultRow) -> Iterable[tuple[str, str, str, str, str]]:
    """Where a row's epochs were read: training, epoch time, job, log, lines with their epochs."""
    logs: dict[tuple[str, str], list[Origin]] = {}
    for origin in row.origins:
        logs.setdefault((origin.job_id, origin.source), []).append(origin)
    name = f"{clean(row.configuration.label)}{' (practice)' if row.practice else ''}"
    time = three_digits(row.epoch_seconds.value) if row.epoch_seconds is not None else "–"
    for at, ((job, source), origins) in enumerate(logs.items()):
        lines = _places([origin for origin in origins if origin.line is not None])
        yield (
            name if at == 0 else "",
            time if at == 0 else "",
            clean(job) or "–",
            clean(source),
            lines or "–",
        )


def _places(origins: Sequence[Origin]) -> str:
    """The lines with their epochs; of very many the first, the last and how many (results.json has them all)."""
    shown = [f"{o.line} ({o.epoch})" if o.epoch is not None else str(o.line) for o in origins]
    if len(shown) > _MOST_LINES:
        shown = [*shown[:3], "…", f"{shown[-1]}: {len(origins)} lines"]
    return ", ".join(shown)


def program_table(rows: Sequence[ProgramRow]) -> Table:
    """Programs that are timed without epochs, by processes."""
    headings, lines = report.program_table(rows)
    return Table(headings, tuple(lines), tuple(place > 1 for place in range(len(headings))))


def program_sources(row: ProgramRow) -> Iterable[tuple[str, str, str, str, str]]:
    """Where a program's times were read."""
    name = (
        f"{clean(row.series)} on {row.program.counted(row.processes)}{' (practice)' if row.practice else ''}"
    )
    for origin in row.origins:
        line = str(origin.line) if origin.line is not None else "–"
        time = f"{report.time_text(row)} {row.program.shown_in}"
        yield name, time, clean(origin.job_id) or "–", clean(origin.source), line


def program_fact(rows: Sequence[ProgramRow]) -> str:
    """What the times of programs say in one sentence; strong and weak scaling are never put into one."""
    strong = [row for row in rows if row.speedup is not None and row.processes > 1]
    weak = [row for row in rows if row.weak_efficiency is not None and row.processes > 1]
    if strong and not weak:
        best = max(strong, key=lambda row: row.speedup.value if row.speedup else 0.0)
        many = best.program.counted(best.processes)
        share = percent_text(best.efficiency)
        return f"{clean(best.series)}: {ratio_text(best.speedup)} times as fast on {many}, {share} efficiency"
    if weak and not strong:
        last = max(weak, key=lambda row: row.processes)
        many = last.program.counted(last.processes)
        return f"{clean(last.series)}: weak efficiency {percent_text(last.weak_efficiency)} on {many}"
    return ""


_TITLE_NAMES = 40
"""Letters of two settings that a title has room for."""
_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight")


# --------------------------------------------------------------------------- facts


def facts(page: HandInPage, results: Results) -> Iterable[str]:
    """What the numbers of the page's charts say, each in one sentence, the likeliest title first; "" for nothing."""
    models = page.models or tuple(dict.fromkeys(row.model for row in results.rows))
    kinds = set(page.charts)
    if "accuracy" in kinds:
        yield _accuracy(results, page.target)
    elif kinds & {"laws"} or page.table == "fractions":
        yield _fractions(results, models)
    elif "efficiency-loss" in kinds:
        yield _loss(results, models)
    elif "cpu-gpu" in kinds:
        yield _acceleration(results)
    elif "tuning" in kinds:
        yield _tuned(results)
    elif kinds & {"learning-rate", "error", "batch-accuracy"}:
        yield _study(results)
    elif kinds:
        if len(models) > 1:
            yield _compared(results, models, kinds)
        elif "efficiency" in kinds:
            yield _data_sets(results)
        yield _scaling(_largest(results, models), results, kinds)
    elif page.table == "results":
        yield _spot(results) or _baseline(results) or _tuned(results)


def key_numbers(results: Results, *, accuracy: bool = False) -> KeyNumbers:
    """Up to three numbers for the title page: acceleration, speedup, efficiency, epoch times; `accuracy` on request."""
    items: list[tuple[str, str]] = []
    for row in results.measured:
        if row.acceleration is not None and not items:
            items.append(
                (f"{three_digits(row.acceleration.value)}×", f"{clean(row.model)}: one GPU against the CPU")
            )
    for model in dict.fromkeys(row.model for row in results.rows):
        best = _largest(results, (model,))
        if best is not None and best.speedup is not None and best.n_gpus and best.n_gpus > 1:
            items.append(
                (
                    f"{three_digits(best.speedup.value)}×",
                    f"{_with_data(best, results)}: {best.n_gpus} GPUs against one",
                )
            )
    if (best_program := program_fact([row for row in results.programs if row.speedup])) and not items:
        name, _, rest = best_program.partition(": ")
        number, _, where = rest.partition(" times as fast ")
        items.append((f"{number}×", f"{name}: {where.partition(',')[0]}"))
    if len(items) < 3:
        items += _more_numbers(results, accuracy=accuracy)
    return KeyNumbers(tuple(items[:3]))


def _more_numbers(results: Results, *, accuracy: bool) -> Iterable[tuple[str, str]]:
    for model in dict.fromkeys(row.model for row in results.rows):
        best = _largest(results, (model,))
        if best is not None and best.efficiency is not None and (best.n_gpus or 0) > 1:
            yield (
                percent_text(best.efficiency, 0),
                f"{_with_data(best, results)}: efficiency on {best.n_gpus} GPUs",
            )
    if accuracy and (top := _best_curve(results)) is not None:
        yield percent_text(top.best.accuracy), f"best {_whose(top)} accuracy, after {_epochs(top.best.epoch)}"
    gpus = [row for row in results.measured if row.device == "gpu" and row.n_gpus == 1 and row.epoch_seconds]
    for row in gpus:
        if row.epoch_seconds is not None:
            yield f"{three_digits(row.epoch_seconds.value)} s", f"{clean(row.model)}: an epoch on one GPU"


def overview(results: Results) -> KeyNumbers:
    """The machines from the slowest to the fastest, each with the seconds of an epoch of the first network."""
    model = results.rows[0].model if results.rows else ""
    rows = [row for row in results.measured if row.model == model and row.epoch_seconds is not None]
    cpu = [row for row in rows if row.device == "cpu"][:1]
    counts: dict[int, ResultRow] = {}
    for row in rows:
        if row.device == "gpu" and row.n_gpus and (row.n_gpus not in counts or row.batch_size != 256):
            counts[row.n_gpus] = row
    chosen = [*cpu, *(counts[n] for n in sorted(counts))]
    return KeyNumbers(
        tuple(
            (
                f"{three_digits(row.epoch_seconds.value)} s",
                "CPU" if row.device == "cpu" else _gpus(row.n_gpus or 1),
            )
            for row in chosen
            if row.epoch_seconds is not None
        ),
        steps=True,
    )


def _gpus(count: int) -> str:
    return f"{count} GPU{'s' * (count != 1)}"


def _largest(results: Results, models: Sequence[str]) -> ResultRow | None:
    """The row on the most GPUs; of several data sets the one that gains most."""
    rows = [
        (row.n_gpus, row.speedup.value, row)
        for row in results.rows
        if row.model in models and row.speedup is not None and row.n_gpus
    ]
    return max(rows, key=lambda each: each[:2], default=(0, 0.0, None))[2]


def _count(number: int) -> str:
    return _NUMBERS[number].capitalize() if number < len(_NUMBERS) else str(number)


def _scaling(row: ResultRow | None, results: Results, kinds: Set[str]) -> str:
    """The row on the most GPUs, by the numbers that these kinds of charts show."""
    if row is None or row.speedup is None or row.efficiency is None or (row.n_gpus or 0) < 2:
        return ""
    name, where = _with_data(row, results), f"{_count(row.n_gpus or 0)} GPUs"
    ratios = [f"{row.speedup.value:.1f}× as fast"] if "speedup" in kinds else []
    if "efficiency" in kinds:
        ratios.append(f"{percent_text(row.efficiency, 0)} efficiency")
    if ratios:
        return f"{where}: {', '.join(ratios)} ({name})"
    times = [f"{three_digits(row.epoch_seconds.value)} s an epoch"] if row.epoch_seconds is not None else []
    if "throughput" in kinds and row.throughput is not None:
        times.append(f"{rate_text(row.throughput)} {row.configuration.unit}/s")
    return f"{where}: {', '.join(times)} ({name})" if times else ""


def _data_sets(results: Results) -> str:
    """The efficiencies of one network on several data sets, on the most GPUs that all of them had; "" for one."""
    rows: dict[str, dict[int, ResultRow]] = {}
    for row in results.rows:
        if row.efficiency is not None and row.n_gpus and row.n_gpus > 1:
            rows.setdefault(row.configuration.data_set or "", {})[row.n_gpus] = row
    shared = set.intersection(*map(set, rows.values())) if len(rows) > 1 and all(rows) else set()
    if not shared:
        return ""
    most = max(shared)
    values = ", ".join(
        f"{clean(data)} {percent_text(found[most].efficiency, 0)}" for data, found in rows.items()
    )
    return f"Efficiency on {most} GPUs: {values}"


def _with_data(row: ResultRow, results: Results) -> str:
    """A network's name, with its data set where it was trained on several."""
    data = {each.configuration.data_set for each in results.rows if each.model == row.model}
    return clean(f"{row.model}, {row.configuration.data_set}" if len(data) > 1 else row.model)


def _compared(results: Results, models: Sequence[str], kinds: Set[str]) -> str:
    rows = [row for model in models if (row := _largest(results, (model,))) is not None]
    if len(rows) < 2:
        return ""
    count = rows[0].n_gpus or 0
    where = "one GPU" if count == 1 else f"{count} GPUs"
    if kinds <= {"speedup", "efficiency"}:
        values = ", ".join(f"{clean(row.model)} {percent_text(row.efficiency, 0)}" for row in rows)
        return f"Efficiency on {where}: {values}"
    values = ", ".join(
        f"{clean(row.model)} {three_digits(row.epoch_seconds.value)} s" for row in rows if row.epoch_seconds
    )
    return f"An epoch on {where}: {values}"


def _tuned(results: Results) -> str:
    """The fastest of some runs that differ in how they were tuned, against the slowest."""
    rows = [row for row in results.measured if row.throughput is not None]
    if len(rows) < 2 or len({(row.model, row.configuration.data_set) for row in rows}) > 1:
        return ""
    labels = dict(zip((row.configuration for row in rows), tuning_labels(rows), strict=True))
    rates = [(row.throughput, labels[row.configuration]) for row in rows if row.throughput is not None]
    (best, name), (worst, other) = (pick(rates, key=lambda each: each[0].value) for pick in (max, min))
    if best.lo <= worst.hi:
        return f"{clean(rows[0].model)}: no setting is faster than another by more than the uncertainty"
    times = fixed(best.value / worst.value, 2)
    rate = f"{rate_text(best)} {rows[0].configuration.unit}/s"
    if len(name) + len(other) > _TITLE_NAMES:
        return f"{clean(rows[0].model)}: {rate} at best, {times} times the slowest of {len(rates)} runs"
    return f"{clean(rows[0].model)}, {name}: {rate}, {times} times {other}"


def _study(results: Results) -> str:
    """The run of a learning-rate study with the best accuracy in validation."""
    found = [
        (sample.metrics["val_top1"], study_name(run))
        for row in results.rows
        for run in row.members
        for sample in run.run.epochs
        if "val_top1" in sample.metrics
    ]
    best = max(found, default=None)
    return "" if best is None else f"Best top-1 in validation: {fixed(best[0], 1)} %, {clean(best[1])}"


def _spot(results: Results) -> str:
    """The best numbers of GPUs by purpose, where one network was measured on several."""
    spots = sweet_spots(results)
    if len(spots) != 1:
        return ""
    (spot,) = spots
    kept = f", {100 * spot.floor:.0f} % efficiency up to {spot.efficient}" if spot.efficient else ""
    return f"Least time on {spot.least_time} GPUs, fewest GPU-hours on {spot.least_gpu_hours}{kept}"


def _acceleration(results: Results) -> str:
    row = next((row for row in results.measured if row.acceleration is not None), None)
    if row is None or row.acceleration is None:
        return ""
    ratio = three_digits(row.acceleration.value)
    return f"One GPU is {ratio}× as fast as the CPU ({clean(row.model)}, batch {row.batch_size:,})"


def _baseline(results: Results) -> str:
    row = next((row for row in results.measured if row.epoch_seconds is not None), None)
    if row is None or row.epoch_seconds is None:
        return ""
    where = clean(row.configuration.label)
    images = row.configuration.images
    size = f" of {images:,} images" if images is not None else ""
    return f"{where}: {three_digits(row.epoch_seconds.value)} s for an epoch{size}"


def _fractions(results: Results, models: Sequence[str]) -> str:
    fits = [fit for fit in results.fits if fit.law == "amdahl" and fit.model in models]
    values = ", ".join(f"{clean(fit.model)} {percent_text(fit.serial_fraction)}" for fit in fits)
    return f"Serial fraction by Amdahl's law: {values}" if values else ""


def _loss(results: Results, models: Sequence[str]) -> str:
    row = _largest(results, models)
    if row is None or row.efficiency is None or row.batch_factor is None or (row.n_gpus or 0) < 2:
        return ""
    batch, steps = 1 - row.batch_factor, row.batch_factor - row.efficiency.value
    return (
        f"{_count(row.n_gpus or 0)} GPUs lose {percent_text(batch, 0)} to the short last batch and "
        f"{percent_text(steps, 0)} to slower steps ({clean(row.model)})"
    )


def rules(results: Results, models: Sequence[str]) -> tuple[str, ...]:
    """Two rules that follow from the numbers of two networks; fewer where the numbers do not carry them."""
    found = []
    rows = [
        row for model in models if (row := _largest(results, (model,))) is not None and (row.n_gpus or 0) > 1
    ]
    for row in rows:
        if row.batch_factor is not None and row.steps:
            most = row.batch_factor * (row.n_gpus or 1)
            found.append(
                f"{row.steps} steps an epoch allow {clean(row.model)} at most {most:.2f}× on {row.n_gpus} GPUs: with "
                "few steps, the short last batch costs more."
            )
            break
    steps = [(row, row.step_factor) for row in rows if row.step_factor is not None]
    if len(steps) > 1:
        best, worst = max(steps, key=lambda each: each[1].value), min(steps, key=lambda each: each[1].value)
        if best[1].lo > worst[1].hi:
            found.append(
                f"A step of {clean(best[0].model)} keeps {percent_text(best[1], 0)} of its speed, of "
                f"{clean(worst[0].model)} {percent_text(worst[1], 0)}. "
                "More work per step hides more communication time."
            )
    return tuple(found)


def _accuracy(results: Results, target: float | None) -> str:
    curve = _best_curve(results)
    if curve is None:
        return ""
    best = curve.best
    text = f"{_whose(curve).capitalize()} accuracy {percent_text(best.accuracy)} after {_epochs(best.epoch)}"
    if target is None:
        return text
    word = "above" if best.accuracy > target else "below"
    return f"{text}: {word} {100 * target:g} %"


def _best_curve(results: Results) -> AccuracyCurve | None:
    """The accuracy metric of one run that came highest."""
    curves = (curve for row in results.rows for run in row.members for curve in accuracy_curves(run))
    return max(curves, key=lambda curve: curve.best.accuracy, default=None)


def _whose(curve: AccuracyCurve) -> str:
    return "validation" if curve.validation else "training"


def _epochs(count: int) -> str:
    return f"{count} epoch{'s' * (count != 1)}"
