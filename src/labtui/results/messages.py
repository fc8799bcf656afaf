"""What the numbers say, as sentences of a title with the digits of the tables; "" for nothing. From results alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set

from labtui.results.accuracy import best_curve
from labtui.results.numbers import clean, lost_text, percent_text, rate_text, ratio_text, three_digits
from labtui.results.programs import ProgramRow
from labtui.results.rows import ResultRow, Results
from labtui.results.scaling import ScalingLine, lost_efficiency, scaling_lines, sweet_spots

_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
SCALING = ("epoch-time", "throughput", "throughput-per-gpu", "speedup", "efficiency")


def count_words(number: int, noun: str = "GPU", *, start: bool = False) -> str:
    """``Four GPUs``, ``one GPU``, ``32 GPUs``."""
    word = _NUMBERS[number] if number < len(_NUMBERS) else f"{number:,}"
    return f"{word.capitalize() if start else word} {noun}{'s' * (number != 1)}"


def scaling_message(lines: Sequence[ScalingLine], families: Set[str]) -> str:
    """What charts of these families say of the lines they show; the strongest sentence that is true."""
    lines = [line for line in lines if len(line.rows) > 1] or list(lines)
    for make in (_many, _pair, _single):
        if text := make(lines, families):
            return text
    return ""


def _shared_size(lines: Sequence[ScalingLine]) -> list[ResultRow]:
    """The rows of all lines on the most GPUs that each of them was measured on; nothing where there is no such size."""
    rows = [{row.n_gpus: row for row in line.rows} for line in lines]
    shared = set.intersection(*map(set, rows)) if rows else set()
    most = max((n for n in shared if n and n > 1), default=None)
    return [] if most is None else [found[most] for found in rows]


def _many(lines: Sequence[ScalingLine], families: Set[str]) -> str:
    rows = _shared_size(lines) if len(lines) > 2 else []
    if not rows:
        return ""
    many = count_words(rows[0].n_gpus or 0, start=True)
    if "efficiency" in families and families.isdisjoint({"speedup", "throughput"}):
        values = [row.efficiency for row in rows if row.efficiency is not None]
        if values:
            low, high = (pick(values, key=lambda each: each.value) for pick in (min, max))
            return f"{many} keep {percent_text(low).removesuffix(' %')} to {percent_text(high)} efficiency"
    ratios = [row.speedup for row in rows if row.speedup is not None]
    if not ratios:
        return ""
    least, most = (ratio_text(pick(ratios, key=lambda each: each.value)) for pick in (min, max))
    times = least if least == most else f"{least} to {most}"
    return f"{many} give {times} times the {lines[0].unit} per second of one"


def _pair(lines: Sequence[ScalingLine], families: Set[str]) -> str:
    rows = _shared_size(lines) if len(lines) == 2 else []
    if not rows:
        return ""
    names = _pair_names(lines)
    models = {line.model for line in lines}
    if (
        len(models) > 1
        and families & {"epoch-time", "throughput"}
        and (text := _faster_everywhere(lines, names))
    ):
        return text
    ratios = [
        (row.speedup, name, row) for row, name in zip(rows, names, strict=True) if row.speedup is not None
    ]
    if len(ratios) < 2 or (len(models) > 1 and not families & {"speedup", "efficiency"}):
        return ""
    (worse, slow, last), (better, fast, first) = sorted(ratios, key=lambda each: each[0].value)
    many = count_words(rows[0].n_gpus or 0)
    if better.lo <= worse.hi:
        return f"{names[0]} and {names[1]} use {many} equally well, within the uncertainty"
    if "speedup" in families:
        return f"{fast} uses {many} better: {ratio_text(better)}× as fast, {slow} only {ratio_text(worse)}×"
    shares = f"{percent_text(first.efficiency)} against {percent_text(last.efficiency)}"
    return f"{fast} scales better: {shares} efficiency on {many}"


def _pair_names(lines: Sequence[ScalingLine]) -> list[str]:
    if lines[0].model != lines[1].model:
        return [clean(line.model) for line in lines]
    return [clean(line.name.partition(" (")[2].removesuffix(")") or line.name) for line in lines]


def _faster_everywhere(lines: Sequence[ScalingLine], names: Sequence[str]) -> str:
    """Which of two is faster at every size, and whether the other scales better."""
    pairs = [(one, other) for one in lines[0].rows for other in lines[1].rows if one.n_gpus == other.n_gpus]
    rates = [(one.throughput, other.throughput) for one, other in pairs]
    if not rates or any(one is None or other is None for one, other in rates):
        return ""
    for fast, slow in ((0, 1), (1, 0)):
        if all(rate[fast].lo > rate[slow].hi for rate in rates):  # type: ignore[union-attr]
            last = _shared_size(lines)
            shares = [row.efficiency for row in last]
            if shares[0] and shares[1] and shares[slow].lo > shares[fast].hi:  # type: ignore[union-attr]
                return f"{names[fast]} is faster on any number of GPUs; {names[slow]} scales better"
            return f"{names[fast]} is faster than {names[slow]} on any number of GPUs"
    return ""


def _single(lines: Sequence[ScalingLine], families: Set[str]) -> str:
    rows = [line.last for line in lines if (line.last.n_gpus or 0) > 1 and line.last.speedup is not None]
    row = max(
        rows, key=lambda each: (each.n_gpus or 0, each.speedup.value if each.speedup else 0), default=None
    )
    if row is None or row.speedup is None:
        return ""
    many, name = count_words(row.n_gpus or 0, start=True), clean(row.model)
    if "speedup" in families or {"throughput", "efficiency"} <= families:
        share = f", at {percent_text(row.efficiency)} efficiency" if row.efficiency is not None else ""
        return f"{many} train {name} {ratio_text(row.speedup)} times as fast as one{share}"
    if "efficiency" in families:
        return f"{many} train {name} at {percent_text(row.efficiency)} efficiency"
    one = next((each for each in lines[0].rows if each.n_gpus == 1), None)
    if row.epoch_seconds is not None and "epoch-time" in families:
        before = f", {three_digits(one.epoch_seconds.value)} s on one" if one and one.epoch_seconds else ""
        return f"{many} need {three_digits(row.epoch_seconds.value)} s for an epoch of {name}{before}"
    unit = row.configuration.unit
    return f"{many} train {name} at {rate_text(row.throughput)} {unit} per second"


def acceleration_message(row: ResultRow | None) -> str:
    if row is None or row.acceleration is None:
        return ""
    return f"One GPU is {ratio_text(row.acceleration)} times as fast as the CPU"


def loss_message(rows: Sequence[ResultRow]) -> str:
    """The part that costs most, where its least is above the most of every other part; else the sum."""
    found = [(row, lost_efficiency(row)) for row in rows if (row.n_gpus or 0) > 1]
    found = [(row, parts) for row, parts in found if parts]
    if not found:
        return ""
    row, parts = min(found, key=lambda each: each[0].efficiency.value if each[0].efficiency else 1.0)
    lost = lost_text(row.efficiency)
    most = max(parts, key=lambda each: each.share.value)
    many = count_words(row.n_gpus or 0)
    if all(most.share.lo > other.share.hi for other in parts if other is not most):
        what = "The short last batch costs" if most is parts[0] else "Slower steps cost"
        share = percent_text(most.share).removesuffix(" %")
        return f"{what} most: {share} of the {lost} points that {clean(row.model)} loses on {many}"
    return f"{clean(row.model)} loses {lost} points of efficiency on {many}"


def readings_message(rows: Sequence[ResultRow]) -> str:
    """How the two readings of the largest speedup differ."""
    found = [
        row for row in rows if row.speedup is not None and row.as_printed.speedup and (row.n_gpus or 0) > 1
    ]
    if not found:
        return ""
    row = max(
        found,
        key=lambda each: abs((each.as_printed.speedup or 0) - (each.speedup.value if each.speedup else 0)),
    )
    precise, printed = ratio_text(row.speedup), f"{ratio_text(row.as_printed.speedup)}"
    if abs(float(printed) - float(precise.replace(",", ""))) < 0.02 * float(printed):
        return f"Both readings agree: {precise}× on {count_words(row.n_gpus or 0)}"
    flatter = "flatter" if float(printed) > float(precise.replace(",", "")) else "understate"
    return f"Whole seconds {flatter}: {printed}× as printed is {precise}× when read precisely"


def tuning_message(rows: Sequence[ResultRow], labels: Sequence[str]) -> str:
    """The fastest of some runs that differ in how they were tuned, against the slowest."""
    rates = [
        (row.throughput, label) for row, label in zip(rows, labels, strict=True) if row.throughput is not None
    ]
    if len(rates) < 2:
        return ""
    (best, name), (worst, other) = (pick(rates, key=lambda each: each[0].value) for pick in (max, min))
    if best.lo <= worst.hi:
        return f"{clean(rows[0].model)}: no setting is faster than another by more than the uncertainty"
    rate = f"{rate_text(best)} {rows[0].configuration.unit} per second"
    times = ratio_text(best.over(worst)) if worst.lo > 0 else "many"
    if len(name) + len(other) > 34:
        return f"{rate} at best, {times} times the slowest of {len(rates)} runs"
    return f"{name}: {rate}, {times} times {other}"


def study_message(results: Results, policy_of: Callable[[object], str]) -> str:
    """The policy with the best accuracy in validation on the most GPUs, against the worst there."""
    best: dict[str, tuple[float, int]] = {}
    most = max((row.batch_size or 0 for row in results.rows), default=0)
    for row in results.rows:
        for run in row.members:
            values = [sample.metrics["val_top1"] for sample in run.run.epochs if "val_top1" in sample.metrics]
            if values and row.batch_size == most:
                name = policy_of(run)
                best[name] = max(best.get(name, (0.0, 0)), (max(values), row.n_gpus or 0))
    if not best:
        return ""
    ranked = sorted(best.items(), key=lambda each: -each[1][0])
    (name, (value, _)), (last, (least, _)) = ranked[0], ranked[-1]
    batch = f"a global batch of {most:,}"
    if len(ranked) == 1:
        return f"{name.capitalize()}: {value:.1f} % top-1 in validation with {batch}"
    return f"{name.capitalize()} comes to {value:.1f} % with {batch}, {last} only to {least:.1f} %"


def laws_message(results: Results, models: Sequence[str]) -> str:
    fits = [fit for fit in results.fits if fit.law == "amdahl" and (not models or fit.model in models)]
    values = " and ".join(f"{percent_text(fit.serial_fraction)} of {clean(fit.model)}" for fit in fits)
    return f"By Amdahl's law {values} stay{'s' * (len(fits) == 1)} serial" if values else ""


def accuracy_message(results: Results, target: float | None) -> str:
    curve = best_curve(results)
    if curve is None:
        return ""
    epochs = count_words(curve.best.epoch, "epoch")
    which = "Validation" if curve.validation else "Training"
    text = f"{which} accuracy comes to {percent_text(curve.best.accuracy)} after {epochs}"
    return (
        text
        if target is None
        else f"{text}, {'above' if curve.best.accuracy > target else 'below'} {100 * target:g} %"
    )


def results_message(results: Results) -> str:
    """What a table of results says: the best sizes, else how long the first training takes."""
    spots = sweet_spots(results)
    if len(spots) == 1 and spots[0].least_time != spots[0].least_gpu_hours:
        time, hours = count_words(spots[0].least_time, start=True), count_words(spots[0].least_gpu_hours)
        return f"{time} take the least time, {hours} the fewest GPU-hours"
    row = next((row for row in results.measured if row.epoch_seconds is not None), None)
    if len(results.measured) == 1 and row is not None and row.epoch_seconds is not None:
        where = "The CPU" if row.device == "cpu" else count_words(row.n_gpus or 1, start=True)
        verb = "needs" if (row.n_gpus or 0) < 2 else "need"
        return f"{where} {verb} {three_digits(row.epoch_seconds.value)} s for an epoch of {clean(row.model)}"
    return scaling_message(scaling_lines(results.measured), {"speedup"}) or _fastest(results.measured)


def _fastest(rows: Sequence[ResultRow]) -> str:
    rates = [(row.throughput.value, row) for row in rows if row.throughput is not None]
    if len(rates) < 2:
        return ""
    best = max(rates, key=lambda each: each[0])[1]
    return f"{clean(best.model)} comes to {rate_text(best.throughput)} {best.configuration.unit} per second"


def program_message(rows: Sequence[ProgramRow]) -> str:
    """What the times of programs say; strong and weak scaling are never put into one sentence."""
    strong = [row for row in rows if row.speedup is not None and row.processes > 1]
    weak = [row for row in rows if row.weak_efficiency is not None and row.processes > 1]
    if strong and not weak:
        best = max(strong, key=lambda row: row.speedup.value if row.speedup else 0.0)
        noun = "GPU" if best.program.counts == "GPUs" else "process"
        many = (
            count_words(best.processes, noun, start=True)
            if noun == "GPU"
            else best.program.counted(best.processes)
        )
        times, share = ratio_text(best.speedup), percent_text(best.efficiency)
        return f"{many} run {clean(best.program.name)} {times} times as fast, at {share} efficiency"
    if weak and not strong:
        last = max(weak, key=lambda row: row.processes)
        many = last.program.counted(last.processes)
        return (
            f"{clean(last.program.name)} keeps {percent_text(last.weak_efficiency)} weak efficiency on {many}"
        )
    return ""
