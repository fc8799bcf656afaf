r"""Reads lines by expressions with named groups: hand-written forms, tqdm's bars, users' patterns, programs' lines.

A group's name says what it holds: `epoch`, `epochs` (planned), `steps`; the epoch's time as `hours`, `minutes`,
`seconds`, `milliseconds` (added up) or as `clock` (``1:02:03``), or as `step_seconds` or `step_milliseconds` of each of
its `steps`; `rate` in images per second. Any other group is a metric. One line is one epoch, or one rate; a rate beside
an epoch's time is that epoch's metric (`RATES`).

What such a line does not prove is left out: epochs that are not printed one by one (is it the time of one, or of all
since the last line?), times that grow like a running total, a number without a unit.

The lines of a program that is timed without epochs are declared by an edition as they are printed, with variable parts
in braces; see `line_pattern`.
"""

import contextlib
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import re2
from msgspec.structs import replace

from labtui.domain.errors import DataError, failure
from labtui.domain.model import EpochSample, Interval, Program, WorkUnit
from labtui.training_logs.runs import EXPRESSIONS, PROGRAM, RunFacts, rounded, whole_number
from labtui.training_logs.said import Begins, Ends, Epoch, Measures, Rate, Said

STEP_TIMES = {"step_milliseconds": 1e-3, "step_seconds": 1.0}
_SCALES = {**STEP_TIMES, "milliseconds": 1e-3, "seconds": 1.0, "minutes": 60.0, "hours": 3600.0}
TIMES = (*reversed(_SCALES), "clock")
_KNOWN = {*TIMES, "epoch", "epochs", "last_epoch", "steps", "rate", "v_num", "daytime"}
MAX_PATTERN_CHARS = 2000
"""The most characters of a line that a user's own pattern is tried on."""


# --------------------------------------------------------------------------- what a line holds

_UNITS: tuple[WorkUnit, ...] = ("images", "samples", "sentences")
RATES = {f"{unit}_per_second": unit for unit in _UNITS}
"""The metrics that are the rate beside an epoch's time, with what each counts."""
PERCENT_NAMES, TOP5_NAMES = ("acc@1", "prec@1", "acc1", "top1"), ("acc@5", "prec@5", "acc5", "top5")
"""Accuracies that programs print in percent; others are fractions of 1."""
_NUMBER = re.compile(r"(\d+(?:\.\d+)?(?:[eE][-+]?\d+)?%?)")
SUMMARY = "summary"
_SCORE = EXPRESSIONS["score"]
_SUMMARY = re.compile(rf"(?:{re.sub('[?]P<[a-z]+>', '', _SCORE.pattern)}){{1,6}}[\s|.)\]]*\Z")


def _scores(text: str) -> dict[str, str]:
    """The metrics in ``train loss 2.3, test accuracy 10.0%`` as printed, by Keras's names."""
    metrics = {}
    for one in _SCORE.finditer(text):
        trains = (one["of"] or "train").startswith("train")
        name = ("" if trains else "val_") + one["what"].replace("acc", "accuracy")
        metrics[name] = one["value"] + ("%" if one["percent"] else "")
    return metrics


class Alike:
    """A log's first hand-written line of an epoch: one that differs only in its values is read without a search."""

    def __init__(self) -> None:
        self._line = re.compile("(?!)")
        self._names: list[str] = []  # of its values, in order

    def learn(self, text: str, groups: Mapping[str, str]) -> None:
        """Remember a line if each of its values is a number that the line has once."""
        pieces, names = _NUMBER.split(text), {value: name for name, value in groups.items()}
        if self._names or any(pieces.count(value) != 1 or "e" in value.lower() for value in names):
            return  # learning each of many unlike lines would take longer than reading them
        self._names = [names[piece] for piece in pieces if piece in names]
        # no more digits than any expression of the first line allows: a longer number is read by these
        shapes = {value: f"({re.sub('[0-9]+', '[0-9]{1,7}', re.escape(value))})" for value in names}
        self._line = re.compile("".join(shapes.get(piece) or re.escape(piece) for piece in pieces))

    def read(self, text: str, *_: Any) -> list[Said] | None:
        """Read a line with other values; None for any other line."""
        match = self._line.fullmatch(text)
        return match and epoch_of("hand-written", dict(zip(self._names, match.groups(), strict=True)))


def read_hand_written(text: str, *_: Any, alike: Alike) -> list[Said] | None:
    """Lines like ``Epoch [3] | Train loss: 0.52 | Time: 47.04s``: an epoch's number, then its time with a unit."""
    head = EXPRESSIONS["head"].search(text)
    if head is None:
        return None
    rest = text[head.end() :]
    lower = rest.lower()  # case-insensitive expressions are slower
    other = EXPRESSIONS["bar-other"].search(text[: head.start("epoch")])
    if _SUMMARY.match(lower) and not other:
        return [Measures(_metrics(_scores(lower)), int(head["epoch"]), SUMMARY)]
    if EXPRESSIONS["not-an-epoch"].search(lower) or other:
        return None
    times = [one for one in EXPRESSIONS["time"].finditer(lower) if given(one) and _is_bare(one)]
    if not times or not EXPRESSIONS["before"].search(text[: head.start()][-80:]):
        return None
    # the first one that says so, else the first
    found = max(times, key=lambda one: (not one["daytime"], "epoch" in one[0]))
    if not EXPRESSIONS["between"].match(lower[: found.start()]):
        return None
    named = EXPRESSIONS["metric"].findall(rest[: found.start()])[:10]
    told = ((name.strip(" -"), value + ("%" if percent else "")) for name, value, percent in named)
    metrics = {name: value for name, value in told if name not in _KNOWN}
    after = lower[found.end() :]
    scores = {} if metrics else _scores(lower[: found.start()] + (after if _SUMMARY.match(after) else ""))
    rates = filter(_is_bare, EXPRESSIONS["rate"].finditer(lower, found.end()))
    beside = next((one for one in rates if not EXPRESSIONS["one-gpu"].search(lower[: one.start()])), None)
    unit = "samples" if beside and beside["samples"] else "images"
    rate = {f"{unit}_per_second": beside["rate"].replace(",", "")} if beside else {}
    groups = {**metrics, **scores, **given(head), **given(found), **rate}
    alike.learn(text, groups)
    return epoch_of("hand-written", groups, lower)


def _is_bare(found: re.Match[str]) -> bool:
    before = found.string[: found.start()][-80:]
    return EXPRESSIONS["bare"].search(before) is not None and not EXPRESSIONS["other-work"].search(before)


def read_bar(text: str, *_: Any) -> list[Said] | None:
    """A full bar of tqdm: ``Epoch 3: 100%|####| 196/196 [00:24<00:00, 8.06it/s]``.

    A bar that names no epoch has no number: it counts as an epoch only where a header before it opened one.
    """
    bar = EXPRESSIONS["bar"].match(text)
    if bar is None or EXPRESSIONS["bar-other"].search(bar["label"]):
        return None
    named = EXPRESSIONS["bar-epoch"].search(bar["label"])
    if named is None and bar["label"].strip(" :"):
        return None  # a download, a tokenizer or the like
    shown = EXPRESSIONS["bar-postfix"].findall(bar["rest"])[:10]
    metrics = {name: value for name, value in shown if name not in _KNOWN}
    groups = {**metrics, "steps": bar["steps"], "clock": bar["clock"], **(given(named) if named else {})}
    return epoch_of("tqdm", groups, bar["label"].lower(), cut=True)


def given(match: Any) -> dict[str, str]:
    """The named groups that took part in a match."""
    return {name: value for name, value in match.groupdict().items() if value is not None}


def seconds_of(groups: Mapping[str, str], *, cut: bool) -> Interval | None:
    """The time in these groups in seconds, with the bounds that the digits of its smallest part leave open.

    A time in whole units may be rounded or cut off (`cut`: is surely cut off); one with decimals is rounded.
    """
    parts = [(groups[name], scale) for name, scale in _SCALES.items() if name in groups]
    if "clock" in groups:
        parts = list(zip(reversed(groups["clock"].split(":")), (1.0, 60.0, 3600.0), strict=False))
    try:
        total = sum([float(text) * scale for text, scale in parts])
        smallest, unit = parts[0]
        half = rounded(smallest).hi - float(smallest)
    except (ArithmeticError, ValueError, IndexError):
        return None
    low, high = max(0.0, total - half * unit), total + half * unit
    if half == 0.5:
        low, high = (total if cut else low), total + unit
    steps = 1 if groups.keys().isdisjoint(STEP_TIMES) else whole_number(groups.get("steps"))
    return Interval.between(low * steps, high * steps) if steps and low <= high < 1e9 else None


def grow_like_total(samples: Sequence[EpochSample]) -> bool:
    """Whether printed times grow like a total: each by half of the first (of three: a fifth), or all by the same.

    By the same means within 15 % and the printed digits. A slow drift is none: each grows by a fortieth of the first
    (of three: a tenth), or the first is that of all epochs up to its number, or over an hour (perhaps the time of day).
    A new process may count from zero again.
    """
    steps = ((two.seconds.value - one.seconds.value, two.starts_process) for one, two in pairwise(samples))
    grown = sorted(step for step, restarted in steps if step > 0 or not restarted)
    if not grown:
        return False
    first, least, digits = samples[0].seconds.value, grown[0], 2 * samples[-1].seconds.half_width
    alike = len(grown) > 1 and grown[-1] - least <= 0.15 * least + digits
    several, is_sum = len(grown) > 2, abs(least * samples[0].epoch - first) <= 0.15 * first
    drifts = first <= 3600 and not is_sum and least < (0.025 if several else 0.1) * first
    return (alike and least >= 5 * digits and not drifts) or least >= (0.2 if several else 0.5) * first


def may_be_times_of_day(samples: Sequence[EpochSample]) -> bool:
    """Whether times read from ``10:15`` may be hours and minutes: from 01:00 on, none less than the one before."""
    falls = (one.seconds.value - two.seconds.value for one, two in pairwise(samples))
    return samples[0].seconds.value >= 60 and not any(0 < fall < 720 for fall in falls)  # but to midnight


def rate_of(metrics: Mapping[str, float]) -> str:
    """The metric that is the rate beside an epoch's time; "" if none is."""
    return next((name for name in metrics if name in RATES), "")


def _metrics(groups: Mapping[str, str]) -> dict[str, float]:
    """The metrics in these groups, without accuracies that may be in percent or fractions of 1.

    One without a sign is a fraction if no accuracy in its line is in percent, by its name or a sign, or above 1.
    """
    values: dict[str, float] = {}
    for name, text in groups.items():
        if name not in _KNOWN:
            with contextlib.suppress(ValueError):
                values[name] = float(text.removesuffix("%"))
    if not values:
        return values
    signed = {name for name in values if groups[name].endswith("%")}
    by_name = {name for name in values if name.removeprefix("val_").lower() in (*PERCENT_NAMES, *TOP5_NAMES)}
    scores = by_name | {name for name in values if "acc" in name.lower()}
    large = {name for name in scores if values[name] > 1}
    unsure = scores - signed - (large & by_name)
    if not large and not signed & scores:
        unsure &= by_name
    parts = dict.fromkeys(signed - by_name, 100)
    return {name: value / parts.get(name, 1) for name, value in values.items() if name not in unsure}


def epoch_of(form: str, groups: Mapping[str, str], rest: str = "", *, cut: bool = False) -> list[Said] | None:
    """The epoch, or the rate, that these groups give; None without a usable number. `rest` may have counts.

    An epoch whose number cannot be read is none: only one that has no number gets it from its place.
    """
    number, planned, steps = map(whole_number, map(groups.get, ("epoch", "epochs", "steps")))
    seconds = None if number is None and "epoch" in groups else seconds_of(groups, cut=cut)
    rate = seconds_of({"seconds": groups["rate"]}, cut=False) if "rate" in groups else None
    if seconds is not None:
        metrics = _metrics(groups) | ({} if rate is None else {"images_per_second": float(groups["rate"])})
        counts = {name: int(count) for name, count in EXPRESSIONS["count"].findall(rest) if count}
        of_day = "daytime" in groups
        return [Epoch(form, number, seconds, planned or None, steps, metrics, counts=counts, daytime=of_day)]
    if rate is None or rate.lo <= 0:
        return None
    return [Rate(form, rate, printed=rate.value, facts=RunFacts(epochs_planned=planned or None))]


# --------------------------------------------------------------------------- users' own patterns

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_DIGITS = re.compile(r"(?<![\w.])\d{1,3}(?:_\d{3})+[\d.]*|[\d.]+")
OwnPattern = Any
"""A user's own pattern, compiled by RE2: matching takes time linear in the line, whatever the pattern is."""


def own_pattern(text: str) -> OwnPattern:
    """Compile a user's own pattern (`--pattern`, `log_patterns` of lab.toml).

    Raises:
        DataError: when it is not a valid regular expression, or names neither a time nor a rate.
    """
    shown = text if len(text) <= 80 else text[:79] + "…"
    try:
        own = re2.compile(text, _OPTIONS)
    except re2.error as error:
        raise failure("pattern", shown=shown, text=error.args[0].decode("utf-8", "replace")) from None
    groups = own.groupindex.keys()
    if not groups & {*TIMES, "rate"}:
        raise failure("pattern-time", shown=shown, groups=", ".join((*TIMES, "rate")))
    if groups & STEP_TIMES.keys() and "steps" not in groups:
        raise failure("pattern-steps", shown=shown)
    return own


def read_own(pattern: OwnPattern, text: str, *_: Any) -> list[Said] | None:
    """Read a line with a user's own pattern; None where it does not match or gives no usable number.

    `float` and `isdecimal` take digits of other scripts and ``1_0``, too; a number with these is none.
    """
    text = text[:MAX_PATTERN_CHARS]
    if not text.isascii() or "_" in text:  # a pattern would find the beginning of 1_234, too
        text = _DIGITS.sub(lambda found: found[0] if re.fullmatch("[0-9.]+", found[0]) else "\ufffd", text)
    match = pattern.search(text)
    groups = {} if match is None else given(match)
    return epoch_of("pattern", {name: value.replace("_", "\ufffd") for name, value in groups.items()})


EXAMPLE_PATTERN = r"epoch (?P<epoch>\d+).* took (?P<seconds>[\d.]+) s"


def suggested_pattern(text: str) -> str | None:
    """A pattern that would read a line; None where no number, or more than one, is surely a time or a rate."""
    pieces, last, text = [], 0, text[:MAX_PATTERN_CHARS]
    if EXPRESSIONS["step"].search(text):
        return None
    for match in EXPRESSIONS["suggest"].finditer(text):
        before = re.escape(text[last : match.start()] + (match["epoch"] or match["plain"] or ""))
        digits = r"\d{1,9}" if match["epoch"] else r"[\d.]{1,20}"
        pieces.append(before.replace("\\ ", " ").replace("'", "."))
        pieces.append(f"(?P<{match.lastgroup}>{digits})" if match.lastgroup else digits)
        last = match.end()
    pieces += re.findall(r"\A(?: ?[a-z]+\b)?", text[last:])
    pattern = "".join(pieces).replace("<plain>", "<seconds>")
    with contextlib.suppress(DataError, re.error):  # it names no time or rate, or one of them twice
        own_pattern(re.compile(pattern).pattern)
        return pattern
    return None


# --------------------------------------------------------------------------- programs that are timed without epochs

SOURCE = "program"
"""`EpochSample.source` of a program's time."""
BASELINE = ("baseline_seconds", "baseline_lo", "baseline_hi")
"""Metrics of a program's time: the time of one process, where the line repeats it."""
_TIME, _BASELINE = {"seconds", "milliseconds"}, {"baseline_seconds", "baseline_milliseconds"}
_BLANKS = r"[ \t]{1,20}"


def line_pattern(line: str) -> re.Pattern[str]:
    """The expression for a line that an edition declares.

        Parallel execution time with {processes} processes and n = {size}: {milliseconds} ms
        {size}: 1 GPU: {baseline_seconds}s, {processes} GPUs: {seconds}s, speedup: {number}, efficiency: {number}

    A line has one time, `seconds` or `milliseconds`, for a number of `processes` (one, where the line does not say) and
    a problem `size`; `baseline_seconds` or `baseline_milliseconds` is the time of one process that the line repeats,
    and `number` is any number. A time lies within half a unit of its last printed digit. Blanks may vary. The whole
    line has to match, by bounded repeats one after the other, so no log can make matching slow.

    Raises:
        DataError: when it names no time, anything twice, or an unknown part.
    """
    shown, names = repr(line[:80]), re.findall(r"\{([^{}]*)\}", line)
    for name in names:
        if name not in PROGRAM:
            raise DataError(f"The line {shown} has {{{name}}}; known are {', '.join(PROGRAM)}.")
        if name != "number" and names.count(name) > 1:
            raise DataError(f"The line {shown} has {{{name}}} twice.")
    if len(_TIME.intersection(names)) != 1 or len(_BASELINE.intersection(names)) > 1:
        raise DataError(f"The line {shown} needs one time: {{seconds}} or {{milliseconds}}.")
    pattern = re.sub(r"(?:\\\s)+", lambda _: _BLANKS, re.escape(line.strip()))
    for name in names:
        group = PROGRAM[name] if name == "number" else f"(?P<{name}>{PROGRAM[name]})"
        pattern = pattern.replace(rf"\{{{name}\}}", rf"[ \t]{{0,20}}{group}", 1)
    return re.compile(pattern.replace(_BLANKS + r"[ \t]{0,20}", _BLANKS), re.ASCII)


def read_program(program: Program, pattern: re.Pattern[str], text: str, *_: Any) -> list[Said] | None:
    """Read a line of a program: a whole run with a single time."""
    match = pattern.fullmatch(text.strip())
    if match is None:
        return None
    groups = match.groupdict()
    scales = {name: _SCALES[name.removeprefix("baseline_")] for name in groups.keys() & (_TIME | _BASELINE)}
    times = {name.rpartition("_")[0]: rounded(groups[name]).scaled(scale) for name, scale in scales.items()}
    count, one = int(groups.get("processes", "1")), times.get("baseline")
    metrics = {} if one is None else dict(zip(BASELINE, (one.value, one.lo, one.hi), strict=True))
    facts = RunFacts(model=program.name, program=program, processes=count, size=groups.get("size"))
    on_gpus = program.counts == "GPUs"
    facts = replace(facts, device="gpu" if on_gpus else "cpu", n_gpus=count if on_gpus else 0)
    return [Begins("sweep", facts), Epoch(SOURCE, 1, times[""], metrics=metrics), Ends(final=True)]
