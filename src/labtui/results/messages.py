"""Sentences for titles and notes that say what the numbers show, with the digits of the tables; "" for nothing."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from operator import attrgetter
from typing import Any

from msgspec.structs import replace

from labtui.domain.model import Interval
from labtui.domain.run import MARKS, join_names
from labtui.domain.tuning import distinguishing_words
from labtui.results import charts, cost, laws, measured, numbers, scaling
from labtui.results.numbers import clean, percent_text, rate_text, ratio_text, seconds_text, time_text
from labtui.results.rows import LawFit, NoteKind, ResultRow, Results, named_rows, tell_rows_apart
from labtui.results.scaling import ScalingLine, lost_efficiency

_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
SCALING = ("epoch-time", "throughput", "speedup", "efficiency")
MAX_TITLE = 75
"""The most characters of a title on one line of a slide or a plot."""


def count_words(number: int, noun: str = "GPU", *, start: bool = False) -> str:
    """``Four GPUs``, ``one GPU``, ``32 GPUs``; without GPUs ``the CPU``."""
    if not number:
        return "The CPU" if start else "the CPU"
    word = _NUMBERS[number] if number < len(_NUMBERS) else f"{number:,}"
    return f"{word.capitalize() if start else word} {noun}{'s' if number != 1 else ''}"


def _with_end(sentence: str, end: str) -> str:
    """The sentence, with `end` where both fit on one line."""
    return sentence + end if len(sentence + end) <= MAX_TITLE else sentence


def network_of(row: ResultRow) -> str:
    """The network of a row, with what tells the row from others of that network: ``ResNet50 (tiny-224, naive)``."""
    return clean(row.name if row.apart_by or row.called else row.configuration.network)


def epoch_message(row: ResultRow, *more: ResultRow) -> str:
    """How long an epoch takes: ``An epoch of ResNet50 takes 5.36 s on four GPUs, 13.7 s on one``."""
    text = f"{seconds_text(row.epoch_seconds)} s on {count_words(row.n_gpus or 0)}"
    others = (f"{seconds_text(each.epoch_seconds)} s on one" for each in more if each.epoch_seconds)
    return f"An epoch of {network_of(row)} takes {', '.join((text, *others))}"


def rate_message(row: ResultRow) -> str:
    """How much is trained in a second: ``Four GPUs train ResNet50 at 9,290 images per second``."""
    n = row.n_gpus or 0
    who = f"{count_words(n, start=True)} train{'s' if n == 1 else ''}" if n else "The CPU trains"
    return f"{who} {network_of(row)} at {rate_text(row.throughput)} {row.configuration.unit} per second"


def scaling_message(lines: Sequence[ScalingLine], families: Set[str]) -> str:
    """The strongest true sentence about these lines, for charts of these families."""
    if lines and lines[0].last.program is not None:
        return program_message([row for line in lines for row in line.rows], families)
    every, lines = lines, [line for line in lines if len(line.rows) > 1] or list(lines)
    live = any(row.live for line in lines for row in line.rows)
    rows = rows_of_shared_size(lines)
    said = _pair_sentence(lines, rows, families) if len(rows) == 2 else ""
    said = said or _each_sentence(every, families) or _single_sentence(lines, families, live=live)
    return _with_end(said, ", so far" if said != "" and live else "")


_OF_EACH: dict[str, tuple[str, str, Callable[[Any], str], str]] = {
    "speedup": ("the speedup is ", "speedup", ratio_text, ""),
    "efficiency": ("the efficiency is ", "efficiency", percent_text, ""),
    "throughput": ("", "throughput", rate_text, " images per second"),
    "epoch-time": ("an epoch takes ", "epoch_seconds", seconds_text, " s"),
    "whole-training": ("the whole training takes ", "total_seconds", numbers.whole_text, " s"),
    "gpu-hours": ("all epochs cost ", "whole_gpu_hours", cost.training_hours_text, " GPU-hours"),
}
"""By family of charts: the words before a value, the field of a row that has it, its text, and its unit."""


def _each_sentence(lines: Sequence[ScalingLine], families: Set[str]) -> str:
    """The values of two lines, or the range of more, on the most GPUs that all have; a whole training's at both ends.

    ``On 32 GPUs, 6,923 images per second (tiny-224), 5,214 (micro-224)``
    """
    family = next(each for each in _OF_EACH if each in families)
    what, field, text, unit = _OF_EACH[family]
    value = attrgetter(field)
    lines = [replace(line, rows=told) for line in lines if (told := tuple(filter(value, line.rows)))]
    rows = rows_of_shared_size(lines)
    unit = unit.replace("images", lines[0].last.configuration.unit) if lines else unit
    if len(rows) > 1:
        values, where = [value(row) for row in rows], f"On {count_words(rows[0].processes)}, {what}"
        if len(rows) == 2:
            first, second = map(clean, charts.tell_apart([line.name for line in lines]))
            again = "" if family == "throughput" else unit  # that of a rate is long
            return f"{where}{text(values[0])}{unit} ({first}), {text(values[1])}{again} ({second})"
        values.sort(key=value_of)
        return f"{where}{' to '.join(dict.fromkeys(map(text, (values[0], values[-1])))).replace(' % to', ' to')}{unit}"
    line = max(lines, key=lambda each: len(each.rows), default=None)
    compared = any(row.speedup for each in lines for row in each.rows)  # then others say more
    if line is None or (family not in charts.WHOLE_TRAINING and (compared or len(line.rows) < 2)):
        return ""
    name = clean(line.name) if len(lines) > 1 else network_of(line.last)
    ends = line.rows[:: -max(1, len(line.rows) - 1)]
    shown = ", ".join(f"{text(value(row))}{unit} on {count_words(row.processes)}" for row in ends)
    noun, _, verb = what.strip().capitalize().rpartition(" ")
    return f"{noun} of {name} {verb} {shown}" if noun else f"{name}: {shown}"


def rows_of_shared_size(lines: Sequence[ScalingLine]) -> list[ResultRow]:
    """The row of each line on the largest number of GPUs that all lines share; [] where they share none above one."""
    rows = [{row.n_gpus: row for row in line.rows} for line in lines]
    shared = set.intersection(*map(set, rows)) if rows else set()
    most = max((n for n in shared if n and n > 1), default=None)
    return [] if most is None else [found[most] for found in rows]


def value_of(interval: Interval | None) -> float:
    return 0.0 if interval is None else interval.value


def _pair_sentence(lines: Sequence[ScalingLine], rows: Sequence[ResultRow], families: Set[str]) -> str:
    """Which of two lines is faster, and which scales better, on the most GPUs that both were measured on."""
    names = list(map(clean, charts.tell_apart([line.name for line in lines])))
    if any(row.speedup is None for row in rows) or not families & {"speedup", "efficiency"}:
        return ""
    by_speedup = sorted(zip(names, rows, strict=True), key=lambda each: value_of(each[1].speedup))
    (slow, last), (fast, first) = by_speedup
    many = count_words(first.n_gpus or 0)
    if not is_more("speedup", first, last):
        return f"{names[0]} and {names[1]} use {many} equally well, within the uncertainty"
    if "speedup" in families:
        better, worse = ratio_text(first.speedup), ratio_text(last.speedup)
        return f"{fast} gains more from {many}: {better}× {faster(first)}, {slow} only {worse}×"
    shares = f"{percent_text(first.efficiency)} against {percent_text(last.efficiency)}"
    return f"{fast} scales better: {shares} efficiency on {many}"


def is_more(quantity: str, row: ResultRow, than: ResultRow) -> bool:
    """Whether a row's rate, speedup or efficiency is above another's, beyond the uncertainty of both."""
    mine, its = (getattr(each, quantity) for each in (row, than))
    if mine is None or its is None:
        return False
    ratio = quantity != "throughput"
    least, most = numbers.shown_bounds(row, mine, ratio=ratio), numbers.shown_bounds(than, its, ratio=ratio)
    return least.lo > most.hi


def _single_sentence(lines: Sequence[ScalingLine], families: Set[str], *, live: bool) -> str:
    lasts = named_rows([line.last for line in lines])  # by what tells the drawn lines apart
    rows = [each for each in lasts if (each.n_gpus or 0) > 1 and each.speedup is not None]
    row = max(rows, key=lambda each: (each.n_gpus or 0, value_of(each.speedup)), default=None)
    if row is None:
        return ""
    many, name = count_words(row.n_gpus or 0, start=True), network_of(row)
    if "speedup" in families or {"throughput", "efficiency"} <= families:
        share = "" if live else f", at {percent_text(row.efficiency)} efficiency"  # room for ", so far"
        if row.by_rate:
            return f"{name}: {count_words(row.n_gpus or 0)} give {ratio_text(row.speedup)} times {faster(row, 'one')}"
        if row.total_seconds and row.epoch_seconds:  # the whole training gains less: its first epoch is slow
            name = f"an epoch of {name}"
        return _with_end(f"{many} train {name} {ratio_text(row.speedup)} times as fast as one", share)
    if "efficiency" in families:
        return f"{many} train {name} at {percent_text(row.efficiency)} efficiency"
    if row.epoch_seconds is not None and "epoch-time" in families:
        # an epoch of other images is not compared with one GPU's
        return epoch_message(row, *filter(None, () if row.by_rate else (row.baseline,)))
    return rate_message(row)


def faster(row: ResultRow, than: str = "") -> str:
    """What a speedup multiplies: ``as fast as one``, ``as many images per second as one`` where rates are compared."""
    words = f"as many {row.configuration.unit} per second" if row.by_rate else "as fast"
    return f"{words} as {than}" if than else words


def acceleration_message(row: ResultRow) -> str:
    return f"One GPU is {ratio_text(row.acceleration)} times as fast as the CPU"


_COSTS = {scaling.SHORT_BATCH: "The short last batch costs", scaling.SLOWER_STEPS: "Slower steps cost"}


def loss_sentence(row: ResultRow) -> str:
    """What a row loses in all (``Four GPUs lose 36.8 points of efficiency.``)."""
    many, lost = count_words(row.processes, start=True), numbers.lost_text(row.efficiency)
    if lost.startswith("-"):
        return f"{many} are {lost[1:]} points above ideal efficiency."
    points = f"{lost} points of efficiency" if scaling.loses(row) else "no efficiency beyond rounding"
    return f"{many} lose {points}."


def loss_message(rows: Sequence[ResultRow]) -> str:
    """The part that costs most, where its lower bound is above all other parts' upper bounds; else the sum."""
    found = [row for row in named_rows(rows) if scaling.loses(row) and value_of(row.efficiency) < 1]
    if not found:
        return ""
    row = min(found, key=lambda each: value_of(each.efficiency))
    parts = lost_efficiency(row)
    name, many = network_of(row), count_words(row.n_gpus or 0)
    most = max(parts, key=lambda each: each.share.value)
    lost = numbers.in_digits_of(f"{most.text} points", 1 - value_of(row.efficiency))
    clear = all(most.share.lo > other.share.hi for other in parts if other is not most)
    if clear and most.name != scaling.UNEXPLAINED:
        what = _COSTS.get(most.name, f"{most.name[0].upper()}{most.name[1:]} costs")
        which = "all" if lost == f"{most.text} points" else f"most: {most.text} of the"
        return f"{what} {which} {lost} {name} loses on {many}"
    return f"{name} loses {lost} of efficiency on {many}"


def tuning_labels(rows: Sequence[ResultRow]) -> list[str]:
    """What tells rows of one network apart: their batch per GPU and their tuning, where these differ."""
    words = distinguishing_words([row.configuration.tuning for row in rows])
    batches = [row.configuration.per_gpu_batch for row in rows]
    named = [f"batch {batch:,.0f}" if batch is not None else "" for batch in batches]
    several, told = len(set(batches)) > 1, zip(rows, named, words, strict=True)
    parts = ((batch, (row.called, batch if several else "", *mine)) for row, batch, mine in told)
    return [", ".join(filter(None, each)) or batch or "as planned" for batch, each in parts]


def tuning_message(rows: Sequence[ResultRow]) -> str:
    """The fastest of some runs of one network that differ in their tuning or batch, against the slowest."""
    labels = tuning_labels(rows)
    found = [(row, label) for row, label in zip(rows, labels, strict=True) if row.throughput]
    if len(found) < 2:
        return ""
    (last, other), *_, (first, name) = sorted(found, key=lambda each: value_of(each[0].throughput))
    where = f" on {count_words(first.n_gpus or 0)}"
    if not is_more("throughput", first, last):
        return f"No setting of {clean(first.model)}{where} is faster beyond the uncertainty"
    where = "" if first.n_gpus == 1 else f",{where}"
    best, worst = first.throughput, last.throughput
    rate = f"{rate_text(best)} {rows[0].configuration.unit} per second"
    times = ratio_text(best.over(worst)) if best and worst and worst.lo > 0 else "many"
    if len(name) + len(other) > 28 and len(found) > 2:
        return f"{rate} at best, {times} times the slowest of {len(found)} runs{where}"
    name = name[:1].upper() + name[1:] if name.partition(" ")[0].isalpha() else name  # no "Bf16"
    return f"{name}: {rate}, {times} times that of {other}{where}"


def study_message(what: str, best: Mapping[str, Mapping[int, charts.Point]], batch: int = 0) -> str:
    """The policies with the best and the worst top-1 accuracy (or "error") in validation at the largest batch.

    Of a single policy: its accuracy at the smallest batch and at the largest; of one `batch`: on the fewest and the
    most GPUs, by which `best` is given then.
    """
    which = f"{'Lowest' if what == 'error' else 'Best'} top-1 {what} in validation"
    if len(best) == 1:
        which = which.split(maxsplit=1)[1].capitalize()  # the best of all batches may be between the two
        (line,) = best.values()
        tops = {at: 1 - line[at].y if what == "error" else line[at].y for at in (min(line), max(line))}
        if batch:
            shown = [f"{percent_text(top)} on {count_words(gpus)}" for gpus, top in tops.items()]
            return f"{which} at a global batch of {batch:,}: {', '.join(shown)}"
        told = (f"{percent_text(top)} at {at:,}" for at, top in tops.items())
        return f"{which}: {', '.join(told).replace(' at ', ' at a global batch of ', 1)}"
    most = max((batch for line in best.values() for batch in line), default=0)
    found = sorted(((line[most].y, name) for name, line in best.items() if most in line), reverse=True)
    if not found:
        return ""
    shown = [percent_text(1 - top if what == "error" else top) for top, _ in found]
    said = f"{which} at the largest global batch, {most:,}"
    alike = measured.grouped(zip(shown, found, strict=True), lambda pair: pair[0])
    ends = {end: "; ".join(name for _, (_, name) in alike[end]) for end in (shown[0], shown[-1])}
    return f"{said}: {' to '.join(f'{end} ({names})' for end, names in ends.items())}"


def laws_message(results: Results, models: Sequence[str]) -> str:
    """The serial fractions of these networks, all if none is named; "" where one would be named twice."""
    fits = [fit for fit in results.fits if not models or fit.baseline.model in models]
    amdahl = [fit for fit in fits if fit.law == "amdahl"]
    if amdahl and not any(fit.is_serial for fit in fits):
        return "No serial part can be measured"
    if len(amdahl) == 1:
        wholes = {"amdahl": "Amdahl, fixed work", "gustafson": "Gustafson, growing work"}
        nearest = {fit.law: f", {fit_words(fit, fits)}" for fit in laws.best_fits(fits)}
        shares = (f"{serial_text(fit)} ({wholes[fit.law]}{nearest.get(fit.law, '')})" for fit in fits)
        return f"Serial part: {', '.join(shares)}"
    names = {fit.baseline.network: fit for fit in amdahl}
    values = join_names(f"{serial_text(fit)} of {clean(name)}" for name, fit in names.items())
    return f"Serial by Amdahl's law: {values}" if 0 < len(names) == len(amdahl) else ""


def accuracy_message(curve: measured.AccuracyCurve | None, target: float | None) -> str:
    if curve is None:
        return ""
    which, best = "Validation" if curve.validation else "Training", curve.best
    text = f"{which} accuracy of {clean(curve.run.label)} comes to {percent_text(best.accuracy)}"
    text += f" after {count_words(best.epoch, 'epoch')}"
    if target is None:
        return text
    shown, aim = (float(percent_text(share).removesuffix(" %")) for share in (best.accuracy, target))
    where = "above" if shown > aim else "below" if shown < aim else "the aim of"
    return f"{text}, {where} {100 * target:g} %"


def why_no_speedup(rows: Iterable[ResultRow]) -> str:
    """What the first row without a speedup lacks, from its notes; "" where there is no such row."""
    return next((note for row in rows for note in row.notes_about("no speedup")), "")


def without_baseline(rows: Sequence[ResultRow]) -> tuple[str, ...]:
    """Which lines a chart of speedups or efficiencies lacks: those of rows that no one-GPU run was like."""
    names = list(dict.fromkeys(row.name for row in rows if row.program is None))
    seen = {row.name for row in rows if row.speedup or not row.notes_about("no speedup")}
    told = [short for name, short in zip(names, charts.tell_apart(names), strict=True) if name not in seen]
    return (f"No one-GPU run to compare with: {'; '.join(told)}.",) if told else ()


def times_message(rows: Sequence[ResultRow]) -> str:
    """The times on the same devices: ``On 4 GPUs, a takes 49.56 s, b 50.82 s``."""
    timed = sorted((row for row in rows if row.epoch_seconds), key=lambda row: value_of(row.epoch_seconds))
    # programs here have one size
    names = tell_rows_apart(timed, [row.name if row.program is None else row.model for row in timed])
    said = [f"{clean(who)} {'' if at else 'takes '}{time_text(timed[at])}" for at, who in enumerate(names)]
    epoch = "an epoch of " if rows[0].program is None else ""
    return f"On {rows[0].devices}, {epoch}{', '.join(said)}" if said else ""


def program_message(rows: Sequence[ResultRow], families: Set[str] = frozenset()) -> str:
    """How programs scale, for charts of these families, else how long they take on one number of processes.

    "" for strong and weak scaling together.
    """
    strong = [row for row in rows if row.speedup is not None and row.processes > 1]
    weak = [row for row in rows if row.is_weak and row.efficiency is not None and row.processes > 1]
    if len({(row.devices, row.size) for row in rows}) == 1:
        return times_message(rows)
    if bool(strong) == bool(weak):
        return ""
    if weak:
        last = max(weak, key=lambda row: row.processes)
        share = percent_text(last.efficiency)
        return f"{clean(last.model)} keeps {share} weak efficiency on {last.devices}"
    best = max(strong, key=lambda row: value_of(row.speedup))
    many = count_words(best.processes, start=True) if best.configuration.device == "gpu" else best.devices
    which = f" on {clean(best.size)}" if len({row.size for row in strong}) > 1 else ""
    told = families and "program-speedup" not in families
    how = f"in {time_text(best)}" if told else f"{ratio_text(best.speedup)} times as fast"
    return f"{many} run {clean(best.model)}{which} {how}, at {percent_text(best.efficiency)} efficiency"


# --------------------------------------------------------------------------- laws in sentences


def serial_text(fit: LawFit) -> str:
    """A law's serial fraction: ``19.3 %``; no fraction below zero is shown."""
    return percent_text(fit.serial_fraction) if fit.is_serial else "no measurable part"


def serial_words(fit: LawFit) -> str:
    """A law's serial fraction with its bounds: ``serial fraction 19.3 % (19.2 to 19.5 %)``."""
    if not fit.is_serial:
        return "no serial part can be measured"
    bounds = serial_bounds(fit)
    return f"serial fraction {serial_text(fit)}{f' ({bounds})' if bounds else ''}"


def serial_bounds(fit: LawFit) -> str:
    """The bounds of a serial fraction: ``19.2 to 19.5 %``, ``at most 6 %``; "" where both look like the fraction."""
    share, shown = fit.serial_fraction, serial_text(fit)
    most = f"at most {numbers.in_digits_of(shown, share.hi, 'ROUND_CEILING')}"
    return most if share.lo < 0 else numbers.bounds_text(share, shown)


def fits_best(fit: LawFit, fits: Iterable[LawFit]) -> str:
    """The words after the law that is nearest to what was measured; "" for others and for one without a rival."""
    rivals = [each for each in fits if each.baseline == fit.baseline]
    return ", fits best" if len(rivals) > 1 and fit in laws.best_fits(rivals) else ""


def fit_words(fit: LawFit, fits: Iterable[LawFit]) -> str:
    """How far a law is from the measured speedup that it fits worst: ``within 0.4 % of each speedup, fits best``."""
    return f"within {percent_text(fit.misfit)} of each speedup{fits_best(fit, fits)}"


def fit_sentences(fits: Sequence[LawFit]) -> list[str]:
    """Each law in words: law, network, what tells its line apart, fraction with its bounds, and the sizes fitted to."""
    told = []
    for fit, tuning in zip(fits, distinguishing_words([each.baseline.tuning for each in fits]), strict=True):
        made, sizes = fit.baseline, ", ".join(map(str, fit.n_gpus))
        what = (fit.law.capitalize(), made.network, *tuning, fit.batch_words, MARKS[made.mark])
        where = f"fitted to {sizes} GPUs, {fit_words(fit, fits)}"
        told.append(f"{', '.join(map(clean, filter(None, what)))}: {serial_words(fit)}, {where}.")
    return told


def law_lines(fits: Sequence[LawFit]) -> list[str]:
    """Each fit with its own remarks under it, then the remarks that all fits share."""
    counts = Counter(remark for fit in fits for remark in fit.remarks)
    shared = [remark for remark, count in counts.items() if count == len(fits) > 1]
    of_all = "All of these: " if len({fit.baseline for fit in fits}) > 1 else ""
    lines = []
    for fit, sentence in zip(fits, fit_sentences(fits), strict=True):
        lines += [sentence, *(f"  {remark}" for remark in fit.remarks if remark not in shared)]
    return [*lines, *(f"{of_all}{remark}" for remark in shared)]


def _rows_of_notes(rows: Iterable[ResultRow], *kinds: NoteKind) -> dict[str, list[str]]:
    """Each note once, those of some kinds or all, with their rows: ``ResNet50 on 2 GPUs, 4 GPUs``."""
    told: dict[str, dict[str, dict[str, None]]] = {}
    for row in rows:
        for note in row.notes_about(*kinds) if kinds else row.notes:
            told.setdefault(note, {}).setdefault(clean(row.name), {})[row.devices] = None

    return {note: [f"{name} on {join_names(at)}" for name, at in who.items()] for note, who in told.items()}


def baseline_notes(rows: Iterable[ResultRow]) -> list[str]:
    """What is said of the baselines of some rows; "this run" is named, and the network where there are several."""
    lines, found = measured.grouped(rows, lambda row: clean(row.name)), []
    for name, mine in lines.items():
        whose = f"he one-GPU baseline of {name}" if len(lines) > 1 else "he one-GPU baseline"
        found += [
            note.replace("he one-GPU baseline", whose).replace("this run", who)
            for note, (who,) in _rows_of_notes(mine, "baseline").items()
        ]
    return found


def notes_with_names(rows: Iterable[ResultRow], *kinds: NoteKind) -> list[str]:
    """The notes of rows, those of some kinds or all, equal ones merged, each with what it concerns."""
    return [f"{join_names(who)}: {note}" for note, who in _rows_of_notes(rows, *kinds).items()]


def note_lines(results: Results) -> list[str]:
    """Which runs are in no row, then the notes of all rows, equal ones merged, each with what it concerns."""
    missing = [f"Not counted: {clean(left.run.label)}, {left.reason}." for left in results.left_out]
    return list(dict.fromkeys([*missing, *notes_with_names(results.rows)]))
