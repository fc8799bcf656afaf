r"""Log lines described by named groups: the common hand-written forms, tqdm's bars, a person's own, a program's.

A group's name says what it holds: `epoch`, `epochs` (planned), `steps`; the epoch's time as `hours`, `minutes`,
`seconds`, `milliseconds` (added up) or as `clock` (``1:02:03``), or as `step_seconds` or `step_milliseconds` of each of
its `steps`; `rate` in images per second. Any other group is a metric. One line is one epoch, or one rate.

What such a line does not prove is left out: epochs that are not printed one by one (is it the time of one, or of all
since the last line?), times that grow like a running total, a number without a unit.

A program that is timed without epochs has lines that an edition writes as they are printed, with what changes in
braces: `line_pattern` says how.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from labtui.domain.errors import DataError
from labtui.domain.model import Interval, Program, WorkUnit
from labtui.training_logs.runs import RunFacts, rounded
from labtui.training_logs.said import Begins, Ends, Epoch, Rate, Said

_PARTS = {"hours": 3600.0, "minutes": 60.0, "seconds": 1.0, "milliseconds": 1e-3}
STEP_TIMES = {"step_seconds": 1.0, "step_milliseconds": 1e-3}
TIMES = (*_PARTS, "clock", *STEP_TIMES)
_KNOWN = {*TIMES, "epoch", "epochs", "steps", "rate", "unit"}
MAX_PATTERN_CHARS = 2000
"""Characters of a person's own pattern, and of a line it is tried on."""


# --------------------------------------------------------------------------- what a line holds

NUMBER = r"\d{1,12}(?:\.\d{1,12})?(?:[eE][-+]?\d{1,3})?"
_PLAIN = r"\d{1,9}(?:\.\d{1,12})?"
DURATION = (
    rf"(?:(?P<hours>{_PLAIN}) ?h(?:ours?|rs?)?\b[ ,:]*)?(?:(?P<minutes>{_PLAIN}) ?m(?:in(?:ute)?s?)?\b[ ,:]*)?"
    rf"(?:(?P<seconds>{_PLAIN}) ?s(?:ec(?:ond)?s?)?\b|(?P<milliseconds>{_PLAIN}) ?ms\b"
    r"|(?P<clock>\d{1,4}(?::\d\d){1,2}(?:\.\d{1,9})?)(?![\d:]))?"
)
_HEAD = re.compile(
    r"(?i)(?:.{0,80}?[^\w/])?epochs?(?: ?\[ ?| ?[:#=] {0,3}| {1,4})0*(?P<epoch>\d{1,7})\b(?!\.\d)"
    r"(?:(?: ?/ ?| of )0*(?P<epochs>\d{1,7})\b)?\]?"
)
_KEY = re.compile(
    r"(?i)(?P<key>(?:\b|_)(?:(?:epoch|train(?:ing)?)[ _-]?)?(?:time|duration)(?: taken| cost)?"
    r"|\b(?:took|(?:finished|completed|done) in)\b)(?: ?[:=] ?| )[~(]?" + DURATION
)
_OTHER_TIME = re.compile(
    r"(?i)(?:total|elapsed|eta|remaining|left|val\w*|eval\w*|test\w*|infer\w*|data|batch|step|iter\w*|avg|average|mean|per"
    r"|load\w*|wall|run|so far)[\s_.:-]*\Z"
)
_NOT_AN_EPOCH = re.compile(
    r"(?i)\A\W*(?:val\w*|eval\w*|test\w*)\b|\b(?:step|batch|iter(?:ation)?)s?\b\W{0,3}\d+ ?(?:/|of) ?\d"
)
_METRIC = re.compile(
    r"([A-Za-z][\w@ -]{0,40}?) ?[:=] ?([-+]?\d{1,12}\.\d{1,12}(?:[eE][-+]?\d{1,3})?)(?=[^\w.:]|\Z)"
    r"(\s?%)?(?!\s?(?:m?s|sec\w*|min\w*|h)\b)"
)


def read_hand_written(text: str) -> list[Said] | None:
    """``Epoch [3] | Train loss: 0.52 | Time: 47.04s`` and its kin: an epoch's number, then its time with a unit."""
    head = _HEAD.match(text)
    if head is None:
        return None
    rest = text[head.end() :]
    if _NOT_AN_EPOCH.search(rest):
        return None
    for found in _KEY.finditer(rest):
        groups, before = given(found), rest[: found.start()]
        groups.pop("key", None)
        if not any(name in groups for name in TIMES) or _OTHER_TIME.search(before):
            continue
        metrics = {
            name.strip(" -"): value + "%" * bool(percent)
            for name, value, percent in _METRIC.findall(before)[:10]
        }
        named = {name: value for name, value in metrics.items() if name not in _KNOWN}
        said = epoch_of("hand-written", {**named, **given(head), **groups})
        return None if said is None else [said]
    return None


_BAR = re.compile(
    r"(?P<label>[^%|]{0,200}?)\s*100%(?:\|[^|]{0,1000}\|)? *(?P<steps>\d{1,9})/(?P=steps) "
    r"\[(?P<clock>\d{1,6}(?::\d\d){1,2})<0?0:00(?P<rest>[^\]]{0,500})"
)
_BAR_EPOCH = re.compile(r"(?i)epochs?\W{0,8}(?P<epoch>\d{1,7})(?:\s*(?:/|of)\s*(?P<epochs>\d{1,7}))?")
_BAR_OTHER = re.compile(r"(?i)\b(?:val\w*|eval\w*|test\w*|predict\w*|sanity)\b(?!.*train)")
_POSTFIX = re.compile(r"([A-Za-z]\w{0,40})=([-+]?\d{1,12}(?:\.\d{1,12})?(?:[eE][-+]?\d{1,3})?)(?=,|\Z)")


def read_bar(text: str) -> list[Said] | None:
    """A full bar of tqdm: ``Epoch 3: 100%|####| 196/196 [00:24<00:00, 8.06it/s]``.

    A bar that names no epoch has no number: it is an epoch's only where a header before it opened one.
    """
    bar = _BAR.match(text)
    if bar is None or _BAR_OTHER.search(bar["label"]):
        return None
    named = _BAR_EPOCH.search(bar["label"])
    if named is None and bar["label"].strip(" :"):
        return None  # a download, a tokenizer, anything
    metrics = {
        name: value for name, value in _POSTFIX.findall(bar["rest"])[:10] if name not in {*_KNOWN, "v_num"}
    }
    groups = {**metrics, "steps": bar["steps"], "clock": bar["clock"], **(given(named) if named else {})}
    said = epoch_of("tqdm", groups, cut=True)
    return None if said is None else [said]


_TRAINER_NUMBER = re.compile(r"'(train_\w{1,40})': '?(" + NUMBER + r")'?[,}]")
_TRAINER_NOTE = "The rate covers the whole training, including start-up, evaluation and saving."


def read_trainer(text: str) -> list[Said] | None:
    """Hugging Face's Trainer at its end: how long the whole training took, and its rate."""
    found = {name: rounded(value) for name, value in _TRAINER_NUMBER.findall(text)}
    if not text.startswith("{'train_runtime'") or "train_runtime" not in found:
        return None
    said = Rate(
        "transformers",
        found.get("train_samples_per_second"),
        "samples",
        total=True,
        facts=RunFacts(framework="transformers"),
        seconds=found["train_runtime"],
        steps_rate=found.get("train_steps_per_second"),
        note=_TRAINER_NOTE,
    )
    return [said]


def given(match: Any) -> dict[str, str]:
    return {name: value for name, value in match.groupdict().items() if value is not None}


def seconds_of(groups: Mapping[str, str], *, cut: bool) -> Interval | None:
    """The time in these groups, in seconds, between what the printing of its smallest part leaves open.

    A time in whole units may be rounded or cut off, `cut` says that it is; one with decimals is rounded.
    """
    total, unit, decimals = 0.0, 1.0, 0
    try:
        if "clock" in groups:
            numbers = [Decimal(part) for part in groups["clock"].split(":")]
            total = float(sum(number * 60**place for place, number in enumerate(reversed(numbers))))
            decimals = _places(numbers[-1])
        elif parts := [name for name in (*_PARTS, *STEP_TIMES) if name in groups]:
            scales = {**_PARTS, **STEP_TIMES}
            total = sum(float(Decimal(groups[name])) * scales[name] for name in parts)
            unit, decimals = scales[parts[-1]], _places(Decimal(groups[parts[-1]]))
        else:
            return None
    except (InvalidOperation, ValueError, OverflowError):
        return None
    grain = unit * 10.0**-decimals
    low, high = total - grain / 2, total + grain / 2
    if decimals == 0:
        low, high = (total, total + grain) if cut else (total - grain / 2, total + grain)
    low = max(0.0, low)
    if not 0 <= low <= high < 1e9:
        return None
    steps = _count(groups, "steps") if any(name in groups for name in STEP_TIMES) else 1
    return Interval((low + high) / 2, low, high).scaled(steps) if steps else None


def _places(number: Decimal) -> int:
    exponent = number.as_tuple().exponent
    return -exponent if isinstance(exponent, int) else 0


def _count(groups: Mapping[str, str], name: str) -> int | None:
    text = groups.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def _metrics(groups: Mapping[str, str]) -> dict[str, float]:
    found = {}
    for name, text in groups.items():
        if name not in _KNOWN:
            try:
                found[name] = float(text[:-1]) / 100 if text.endswith("%") else float(text)
            except ValueError:
                continue
    return found


def epoch_of(form: str, groups: Mapping[str, str], *, cut: bool = False) -> Said | None:
    """The epoch, or the rate, that these groups give; None without a usable number."""
    planned = _count(groups, "epochs") or None
    seconds = seconds_of(groups, cut=cut)
    if seconds is not None:
        number, steps = _count(groups, "epoch"), _count(groups, "steps")
        note = "" if seconds.hi > seconds.lo or seconds.hi > 0 else "An epoch is printed as 0 s."
        return Epoch(form, number, seconds, planned, steps, _metrics(groups), note=note)
    rate = seconds_of({"seconds": groups.get("rate", "")}, cut=False)
    if rate is None or rate.lo <= 0:
        return None
    unit = unit_of(groups.get("unit", ""))
    return Rate(form, rate, unit, printed=rate.value, facts=RunFacts(epochs_planned=planned))


_UNITS: dict[str, WorkUnit] = {
    "im": "images", "sa": "samples", "ex": "samples", "to": "tokens", "se": "sequences", "sent": "sentences",
}  # fmt: skip


def unit_of(word: str) -> WorkUnit:
    """What a rate counts, from the log's word: imgs, samples, examples, tok, sent, seq."""
    lower = word.lower()
    return _UNITS.get(lower[:4]) or _UNITS.get(lower[:2]) or "images"


# --------------------------------------------------------------------------- programs that are timed without epochs

SOURCE = "program"
"""`EpochSample.source` of a program's time."""
BASELINE = ("baseline_seconds", "baseline_lo", "baseline_hi")
"""Metrics of such a time: that of one process, where the line repeats it."""
MAX_LINE_CHARS = 400
"""Characters of the longest line that is read."""
_TIME_PARTS = {"seconds": 1.0, "milliseconds": 1e-3}
_BASELINES = {f"baseline_{name}": scale for name, scale in _TIME_PARTS.items()}
_PRINTED = r"\d{1,12}(?:\.\d{1,9})?"
_PROGRAM_PARTS = {
    **dict.fromkeys((*_TIME_PARTS, *_BASELINES), _PRINTED),
    "processes": r"\d{1,7}",
    "size": r"\d{1,15}(?:x\d{1,15})?",
    "number": r"-?" + _PRINTED,
}
_CUT = re.compile(r"(\{[^{}]*\}|\s+)")


def line_pattern(line: str) -> re.Pattern[str]:
    """What a declared line matches.

        Parallel execution time with {processes} processes and n = {size}: {milliseconds} ms
        {size}: 1 GPU: {baseline_seconds}s, {processes} GPUs: {seconds}s, speedup: {number}, efficiency: {number}

    It is one time, `seconds` or `milliseconds`, of so many `processes` (one, where the line does not say) on a problem
    of a `size`; `baseline_seconds` or `baseline_milliseconds` is the time of one process that the line repeats, and
    `number` any number. A time lies within half of its last printed place. Blanks may vary. The whole line has to
    match, by bounded repeats one after the other: no log can make that slow.

    Raises:
        DataError: when it names no time, something twice, or what is not known.
    """
    shown, found = repr(line[:80]), list[str]()
    pieces = []
    for piece in _CUT.split(line.strip()):
        if piece.startswith("{") and piece.endswith("}"):
            name = piece[1:-1]
            if name not in _PROGRAM_PARTS:
                raise DataError(f"The line {shown} has {piece}; known are {', '.join(_PROGRAM_PARTS)}.")
            if name in found and name != "number":
                raise DataError(f"The line {shown} has {piece} twice.")
            found.append(name)
            group = _PROGRAM_PARTS[name] if name == "number" else f"(?P<{name}>{_PROGRAM_PARTS[name]})"
            pieces.append(rf"[ \t]{{0,20}}{group}")
        elif piece.strip():
            pieces.append(re.escape(piece))
        elif piece:
            pieces.append(r"[ \t]{1,20}")
    if len(set(found) & _TIME_PARTS.keys()) != 1 or len(set(found) & _BASELINES.keys()) > 1:
        raise DataError(f"The line {shown} needs one time: {{seconds}} or {{milliseconds}}.")
    if len(line) > MAX_LINE_CHARS:
        raise DataError(f"The line {shown} has more than {MAX_LINE_CHARS} characters.")
    return re.compile("".join(pieces).replace(r"[ \t]{1,20}[ \t]{0,20}", r"[ \t]{1,20}"), re.ASCII)


def read_program(lines: Sequence[tuple[Program, re.Pattern[str]]], text: str) -> list[Said] | None:
    """A line that one of these programs prints: a run of one time, and over."""
    text = text.strip() if len(text) <= MAX_LINE_CHARS else ""
    for program, regex in lines if text else ():
        if (match := regex.fullmatch(text)) is not None:
            return _program(program, match.groupdict())
    return None


def _program(program: Program, groups: dict[str, str]) -> list[Said]:
    count, size = int(groups.get("processes", "1")), groups.get("size")
    seconds, baseline = _seconds(groups, _TIME_PARTS), _seconds(groups, _BASELINES)
    if seconds is None or count < 1:
        return []
    one = {}
    if baseline is not None:
        one = dict(zip(BASELINE, (baseline.value, baseline.lo, baseline.hi), strict=True))
    gpus = program.counts == "GPUs"
    facts = RunFacts(
        model=program.name,
        device="gpu" if gpus else "cpu",
        n_gpus=count if gpus else 0,
        program=program,
        processes=count,
        size=size,
    )
    return [Begins("sweep", facts), Epoch(SOURCE, 1, seconds, metrics=one), Ends(status="success")]


def _seconds(groups: dict[str, str], scales: dict[str, float]) -> Interval | None:
    """The time in one of these groups, in seconds, and what its printed digits leave open."""
    for name, scale in scales.items():
        if name in groups:
            return rounded(groups[name]).scaled(scale)
    return None
