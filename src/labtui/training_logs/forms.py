"""The forms of lines that are read: a table of regular expressions (`forms.toml`), and a few readers that need more.

A form turns a line into records of what it says (`said`) and has no state; `fold` decides which run they are about. An
epoch's time is taken from MLPerf records first, then from Keras's lines, then from other trainers' forms.
"""

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import re2

from labtui.domain import decode, tuning
from labtui.domain.model import Device, Interval, Program
from labtui.training_logs import keras, patterns, run_headers, runs, spans
from labtui.training_logs.lines import LogLine
from labtui.training_logs.runs import GpuCount, RunFacts, cut_off, rounded, utc_seconds, whole_number
from labtui.training_logs.said import Batch, Begins, Ends, Epoch, Measures, Opens, Rate, Said, Says

_GPU, _CPU = re.compile(r"(?i)gpu:\d+"), re.compile(r"(?i)cpu:\d+")
Groups = Mapping[str, str]
Reader = Callable[[str, LogLine], Sequence[Said] | None]


class Form(msgspec.Struct, frozen=True):
    """A row of the table; the head of `forms.toml` explains the fields. `more` are fields of the record it makes."""

    word: str
    line: re.Pattern[str]
    says: str
    example: str
    facts: RunFacts
    more: dict[str, Any]
    form: str = ""
    cut: bool = False

    def number(self, text: str) -> Interval:
        """A printed number with its bounds."""
        return cut_off(text) if self.cut else rounded(text)

    def read(self, number: int, text: str, at: float | None) -> list[Said] | None:
        """What a line says; None where it has another form. `at` is the time stamp before it, in seconds."""
        match = self.line.match(text)
        return None if match is None else _SAYS[self.says](self, patterns.given(match), number, text, at)


def _make_form(row: dict[str, Any]) -> Form:
    named = {"framework": row["form"]} if "form" in row and row.get("about") != "begun run" else {}
    facts = RunFacts(**{**named, **row.pop("facts", {})})
    own = {name: row.pop(name) for name in ("word", "says", "example", "form", "cut") if name in row}
    return Form(line=runs.compiled(row.pop("line")), facts=facts, more=row, **own)


def _facts_of(form: Form, groups: Groups) -> RunFacts:
    """The facts in the groups of a line, added to those of the form itself."""
    if "job_name" in groups:
        told = run_headers.facts_of_name(groups["job_name"])
        return told if told.model else form.facts
    if "devices" in groups:
        groups = {**groups, "device": "gpu", "n_gpus": str(len(_GPU.findall(groups["devices"])))}
    values = run_headers.facts_of(groups)
    for name in {"total_seconds", "gpu_memory"} & groups.keys():
        values[name] = msgspec.structs.replace(form.number(groups[name]), value=float(groups[name]))
    return form.facts.with_others(RunFacts(**values))


def _says_facts(form: Form, groups: Groups, *_: Any) -> list[Said]:
    """A fact, or an option of the script if it changes the speed."""
    more = {**form.more, **({"shortage": int(groups["shortage"])} if "shortage" in groups else {})}
    if "option" in groups:
        option = groups["option"].lower()
        if not tuning.is_tuning(option):
            return []
        more["option"] = (option, groups["value"])
    return [Says(_facts_of(form, groups), **more)]


def _says_gpus(form: Form, groups: Groups, number: int, text: str, *_: Any) -> list[Said] | None:
    """The GPUs in a line; where it names only CPU devices, their number and that they are CPUs."""
    gpus, cpus = (len(kind.findall(groups.get("devices", ""))) for kind in (_GPU, _CPU))
    count = int(groups.get("count", gpus or cpus)) * int(groups.get("workers", 1))
    device: Device = "cpu" if cpus and not gpus else "gpu"
    return [GpuCount(form.more["source"], count, number, text, device)] if count else None


def _says_rate(form: Form, groups: Groups, *_: Any) -> list[Said]:
    more = dict(form.more)
    if text := groups.get("rate") or groups.get("last"):
        more["rate"] = rate = form.number(text)
        if form.cut or "last" in groups:  # of a running mean, the last value counts
            more["printed"] = float(text)
        if "spread" in groups:
            more["rate"] = Interval.around(rate.value, min(rate.value, float(groups["spread"])))
    for name, scale in patterns.STEP_TIMES.items():
        if name in groups:
            more["step_seconds"] = rounded(groups[name]).scaled(scale)
    if "steps_rate" in groups:
        more["steps_rate"] = rounded(groups["steps_rate"])
    counted = groups.get("iteration")
    first = groups.get("index", counted) in ("0", "1")
    if counted is not None:  # with an epoch, within it
        more["iteration"] = (int(groups.get("epoch", 0)), int(counted))
    return [Rate(form.form, first=first, facts=_facts_of(form, groups), **more)]


def _says_epoch(form: Form, groups: Groups, _number: int, _text: str, at: float | None) -> list[Said] | None:
    if "rate" in groups:
        return [Epoch(form.form, int(groups["epoch"]), rate=rounded(groups["rate"]), at=at)]
    if "last_epoch" in groups:  # counted from 0
        groups = {**groups, "epochs": str(int(groups["last_epoch"]) + 1)}
    return patterns.epoch_of(form.form, groups, cut=form.cut)


def _says_measures(form: Form, groups: Groups, *_: Any) -> list[Said]:
    metrics = {name: float(text) for name, text in groups.items() if name != "epoch"}
    return [Measures(metrics, int(groups["epoch"]) if "epoch" in groups else None, form.form)]


def _says_batch(_form: Form, groups: Groups, *_: Any) -> list[Said]:
    """A batch of PyTorch's ImageNet example, whose epochs count from 0."""
    epoch, index, total = int(groups["epoch"]) + 1, int(groups["index"]), int(groups["total"])
    return [Batch(epoch, index, total, rounded(groups["mean"]), groups["meters"])]


_SAYS: dict[str, Callable[..., list[Said] | None]] = {
    "facts": _says_facts,
    "gpus": _says_gpus,
    "rate": _says_rate,
    "epoch": _says_epoch,
    "measures": _says_measures,
    "batch": _says_batch,
    "validates": lambda form, *_: [Epoch(form.form)],
    "begins": lambda form, groups, _, text, *__: [
        Begins(facts=_facts_of(form, groups), text=text, **form.more)
    ],
    "opens": lambda form, groups, _number, _text, at: [
        Opens(form.form, int(groups["epoch"]), whole_number(groups.get("epochs")), at)
    ],
    "ends": lambda form, groups, *_: [Ends(facts=_facts_of(form, groups), **form.more)],
    "nothing": lambda *_: [],
}
_FILE = decode.own_toml(__file__, "forms.toml")
FORMS_READ: tuple[str, ...] = tuple(_FILE["read"])
"""What is read, in words, for people."""
TABLE = tuple(_make_form(row) for row in _FILE["form"])
_ROWS = tuple((row.word, row.read) for row in TABLE)
_WORDS = re2.compile("|".join(re.escape(row.word) for row in TABLE))
"""A quick filter: no row is tried on a line without any of these (those of an epoch surely have one)."""


class Forms:
    """The forms of one log: the common ones, the user's own patterns, and the lines of an edition's programs."""

    def __init__(self, own: Sequence[patterns.OwnPattern] = (), programs: Sequence[Program] = ()) -> None:
        lines = ((program, patterns.line_pattern(line)) for program in programs for line in program.lines)
        theirs: list[Reader] = [functools.partial(patterns.read_program, *each) for each in lines]
        theirs += [functools.partial(patterns.read_own, each) for each in own]
        self.every_line = bool(theirs)
        alike = patterns.Alike()
        hand_written = functools.partial(patterns.read_hand_written, alike=alike)
        self._readers: tuple[tuple[str, Reader], ...] = (
            *(("", read) for read in theirs),
            (spans.MARK, _read_records),
            ("", _read_keras),
            ("", alike.read),
            ("", _read_by_table),
            ("100%", patterns.read_bar),
            *((word, hand_written) for word in ("poch", "POCH")),
            ("run-", run_headers.read_job_header),
            (".py", lambda text, _: [one] if (one := run_headers.read_command(text)) else None),
        )  # each with a word that its lines contain

    def read(self, line: LogLine, text: str) -> Sequence[Said] | None:
        """What `text`, the line without its prefixes, says; None when no form reads it."""
        for word, read in self._readers:
            if word in text and (said := read(text, line)) is not None:
                return said
        return None


def _read_records(text: str, line: LogLine) -> Sequence[Said] | None:
    records = [*spans.read_records(text)]
    return [said for record in records for said in spans.said_of(line.number, record)] if records else None


def _read_keras(text: str, line: LogLine) -> Sequence[Said] | None:
    summary = keras.read_summary(text, line.head, line.before, line.continues)
    if isinstance(summary, keras.Summary):
        return (summary,)
    first = keras.read_first_step((summary and line.head) or text) if summary or " 1/" in f" {text}" else None
    return (first,) if first is not None else () if summary else None


def _read_by_table(text: str, line: LogLine) -> Sequence[Said] | None:
    at = None
    if text.startswith("[") and (stamp := runs.EXPRESSIONS["stamp"].match(text)) is not None:
        text, at = text[stamp.end() :], utc_seconds(stamp[1], "%m/%d/%Y %I:%M:%S %p")
    for word, read in _ROWS if "poch" in text or _WORDS.search(text) else ():
        if word in text and (said := read(line.number, text, at)) is not None:
            return said
    return None
