"""`labtui parse FILE...`: read training logs, without a lab folder or a cluster.

Logs are read in chunks, so their size does not matter. If a log cannot be read, an error says why, the others are
still reported and the exit code is 2. It is 1 when no log has an epoch, a rate or an error.
"""

import argparse
import contextlib
import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import msgspec
from msgspec.structs import asdict

from labtui.commands import terminal
from labtui.domain.errors import LabError, failure
from labtui.domain.model import EpochSample, Program, Stream
from labtui.domain.run import MARKS, join_names
from labtui.domain.terminal_text import fitted_lines, printable
from labtui.results import compute, grouping, measured, numbers
from labtui.results.report import notes_of_run, run_json, step_seconds
from labtui.results.rows import ResultRow, is_step_time
from labtui.slurm.values import job_id
from labtui.training_logs.diagnosis import join_streams
from labtui.training_logs.forms import FORMS_READ
from labtui.training_logs.patterns import EXAMPLE_PATTERN, own_pattern, suggested_pattern
from labtui.training_logs.reader import parse_log
from labtui.training_logs.runs import LogReport, ParsedRun

CHUNK = 1 << 20
_INDENT = " " * 4
_Parse = Callable[..., LogReport]


class ParsedFile(msgspec.Struct, frozen=True):
    """One argument: its path as given, and the report of the log, empty if an `error` prevented reading it.

    `err_path` is the .err that was read with a .out; `stream` is the stream of the path itself.
    """

    path: str
    report: LogReport = LogReport()
    error: LabError | None = None
    err_path: str = ""
    stream: str = "out"


def parse_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", metavar="FILE", help="training logs, a job's .out; - reads stdin")


def programs_of(lab: str) -> tuple[Program, ...]:
    """The programs of the edition `lab` (none for ""). Raises LabError if there is no such edition."""
    if not lab:
        return ()
    from labtui.session.labs import load_edition

    return tuple(found.program for found in load_edition(lab).programs)


def run_parse(args: argparse.Namespace) -> int:
    """Print what the logs tell; return 2 if one could not be read, 1 if none tells anything."""
    parsed = parse_files(args.files, args.pattern, programs_of(args.lab))
    for one in parsed:
        if one.error is not None:
            terminal.say_error(one.error)
    if args.json:
        terminal.print_json({"files": [file_json(one) for one in parsed]})
    else:
        texts = [file_text(one, terminal.window_width()) for one in parsed if one.error is None]
        print("\n\n".join(texts), end="\n" if texts else "")
    if any(one.error is not None for one in parsed):
        return 2
    return 0 if any(_has_data(one.report) or one.report.diagnosis for one in parsed) else 1


# --------------------------------------------------------------------------- reading


def parse_files(
    paths: Sequence[str], patterns: Sequence[str] = (), programs: Sequence[Program] = ()
) -> tuple[ParsedFile, ...]:
    """Read each path, a .out together with the .err beside it. Errors of a file are stored in its entry.

    Raises:
        DataError: a pattern is invalid.
    """
    parse = functools.partial(parse_log, patterns=list(map(own_pattern, patterns)), programs=programs)
    found = {path: _parse_file(path, parse) for path in dict.fromkeys(paths)}
    return tuple(found[path] for path in paths)


def _parse_file(path: str, parse: _Parse) -> ParsedFile:
    stream: Stream = "err" if path.endswith(".err") else "out"
    err_path, err = f"{path.removesuffix('.out')}.err", None
    if path.endswith(".out") and Path(err_path).is_file():
        with contextlib.suppress(LabError):  # a .err that is unreadable, empty or binary is ignored
            err = _read(err_path, "err", parse)
    try:
        report = _read(path, stream, parse, may_be_empty=err is not None)
    except LabError as error:
        return ParsedFile(path, error=error, stream=stream)
    return ParsedFile(path, join_streams(report, err), err_path=err_path if err else "", stream=stream)


def _read(path: str, stream: Stream, parse: _Parse, *, may_be_empty: bool = False) -> LogReport:
    report = read_log(path, stream, parse)
    if report.size == 0 and not may_be_empty:  # beside a .err a .out may be empty: the .err tells why
        raise failure("empty-log", path=path)
    if report.binary:
        raise failure("no-text-log", path=path)
    return report


def read_log(path: str, stream: Stream, parse: _Parse = parse_log) -> LogReport:
    """Read the log at `path` (`-`: standard input) in chunks; `parse` is `parse_log`, perhaps with patterns.

    Raises:
        DataError: the log cannot be read.
    """
    if path == "-":
        return parse(_chunks(sys.stdin.buffer), stream=stream)
    place = Path(path)
    name, _, number = place.stem.rpartition(".")  # Slurm's %x.%j
    try:
        if place.exists() and not place.is_file():  # a device or a pipe may never end
            raise failure("no-log", path=path, text="this is not a regular file")
        with place.open("rb") as source:
            return parse(_chunks(source), stream=stream, job_name=name if job_id(number) else "")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise failure("no-log", path=path, text=reason) from None


def _chunks(source: IO[bytes]) -> Iterator[bytes]:
    return iter(functools.partial(source.read, CHUNK), b"")


# --------------------------------------------------------------------------- JSON


def file_json(one: ParsedFile) -> dict[str, Any]:
    """The JSON entry of one file. Other programs rely on its fields: add some, change none."""
    report = one.report
    unread = None if _has_data(report) else report.mention
    entry: dict[str, Any] = {
        "path": one.path,
        "diagnosis": [asdict(found) for found in report.diagnosis],
        "runs": [run_json(run, row) for run, row in zip(report.runs, _rows(one), strict=True)],
        "stream": one.stream,
        "lines": report.lines,
        "err_path": one.err_path or None,
        "unread": unread and {"line": unread[0], "text": unread[1]},
    }
    if one.error is not None:
        entry["error"] = {"sentence": one.error.sentence, "hint": one.error.hint}
    return entry


def _rows(one: ParsedFile) -> tuple[ResultRow, ...]:
    """The row that `labtui results` makes of each run, so that both agree on a file."""
    return tuple(compute.measure(run) for run in measured.measured_from_reports([(one.path, one.report)]))


# --------------------------------------------------------------------------- for people


def file_text(one: ParsedFile, width: int | None = None) -> str:
    """A heading, what went wrong, and a table for each run, in at most `width` cells (None: no limit)."""
    report = one.report
    path, err_path = (name if name.isprintable() else repr(name) for name in (one.path, one.err_path))
    lines = [f"{path}  (with {err_path})" if err_path else path]
    lines += _diagnosis_lines(one)
    for number, (run, row) in enumerate(zip(report.runs, _rows(one), strict=True), start=1):
        lines += ["", f"  training {number}: {printable(run_title(run))}"]
        texts = [f"{_INDENT}{text}" for text in (*_steady_lines(row), *notes_of_run(run, row))]
        lines += fitted_lines(texts, width)
        lines += _epoch_table(run, width)
    if not _has_data(report) and (report.mention is not None or not report.diagnosis):
        lines += _no_data_lines(report)
    return "\n".join(lines)


def _diagnosis_lines(one: ParsedFile) -> list[str]:
    """What went wrong: the line of the log, then what to do, each advice once."""
    lines: list[str] = []
    advised: set[str] = set()
    for found in one.report.diagnosis:
        place = f"line {found.line}" + (" of the .err" if found.stream == "err" and one.err_path else "")
        lines += ["", f"  {found.kind}, {place}: {found.text}"]
        lines += [] if found.advice in advised else [f"    {found.advice}"]
        advised.add(found.advice)
    return lines


def _steady_lines(row: ResultRow) -> list[str]:
    """The time of an epoch and the throughput, each with its uncertainty."""
    parts = []
    if row.epoch_seconds is not None:
        which = "by its rate" if row.from_rate else "after the first"
        parts.append(f"{numbers.with_uncertainty(row, row.epoch_seconds)} s an epoch {which}")
    if row.throughput is not None:
        rate = numbers.rate_text(row.throughput)
        between = numbers.bounds_text(numbers.shown_bounds(row, row.throughput), rate)
        parts.append(f"{rate}{f' ({between})' if between else ''} {row.configuration.unit}/s")
    return [", ".join(parts)] if parts else []


def _has_data(report: LogReport) -> bool:
    """Whether any run has an epoch or a rate."""
    return any(run.epochs or run.throughput or run.batch_seconds for run in report.runs)


def _no_data_lines(report: LogReport) -> list[str]:
    """Say that no epoch or rate was found, which line may have one, and how to describe such a line."""
    lines, pattern = ["  No epoch time or rate found."], EXAMPLE_PATTERN
    if report.mention is not None:
        number, text = report.mention
        pattern = suggested_pattern(text) or "REGEX"
        lines.append(f"{_INDENT}Line {number} may contain an epoch or a rate: {text}")
    hint = "Describe such a line with a regular expression with named groups (epoch, seconds, rate)"
    lines.append(f"{_INDENT}{hint}: --pattern '{pattern}'")
    lines.append(f"{_INDENT}Known log formats: {join_names(FORMS_READ)}.")
    return lines


def _program_title(run: ParsedRun, program: Program) -> str:
    """``pi, 4 processes, 1,198.300 ±0.005 ms``, where the uncertainty is that of the printed digits."""
    size = (f"size {run.size}",) if run.size else ()
    shown = [sample.seconds.scaled(1000 if program.shown_in == "ms" else 1) for sample in run.epochs]
    places = [max(0, numbers.decimals(time.half_width or 0.5, most=9)) for time in shown]
    times = (
        f"{time.value:,.{place}f}{numbers.plus_minus(time.half_width, place)} {program.shown_in}"
        for time, place in zip(shown, places, strict=True)
    )
    return ", ".join([program.name, *size, program.count_label(run.processes or 0), *times])


def run_title(run: ParsedRun) -> str:
    if run.program is not None:
        return _program_title(run, run.program)
    where = grouping.devices(0 if run.device == "cpu" else run.n_gpus, cpu="CPU", unknown="")
    parts = [run.model or "unknown model", *filter(None, (where,))]
    if run.batch_size is not None:
        parts.append(f"global batch {run.batch_size:,}")
    elif run.batch_per_gpu is not None:
        parts.append(f"batch {run.batch_per_gpu:,} per GPU")
    if run.epochs_planned is not None:
        planned = f"{run.epochs_read} of {run.epochs_planned} epochs"
        parts.append(planned if run.epochs or not run.throughput else f"{run.epochs_planned} epochs planned")
    parts.append(run.outcome)
    if run.batch_seconds is not None:
        parts.append(f"{run.batch_seconds.value:g} s a batch as printed")
    elif run.printed_rate is not None:
        parts.append(f"{run.printed_rate:,.2f} {run.unit}/s as printed")
    if run.mark:
        parts.append(MARKS[run.mark])
    if run.interleaved:
        parts.append("several processes wrote into this log: repeated lines left out")
    return ", ".join(parts)


def _epoch_table(run: ParsedRun, width: int | None) -> list[str]:
    """The table of epochs; columns that do not fit in `width` follow in further tables below."""
    if not run.epochs or run.program is not None:
        return []
    metrics = dict.fromkeys(name for sample in run.epochs for name in sample.metrics)
    names = [name for name in metrics if not is_step_time(name)][:6]
    head = ["epoch", "seconds", "between", "printed", "steps", "ms/step", *map(printable, names)]
    columns = [_metric_column([one.metrics.get(name) for one in run.epochs]) for name in names]
    rows = enumerate(map(_epoch_row, run.epochs))
    grid = [head, *([*row, *(column[at] for column in columns)] for at, row in rows)]
    room = None if width is None else width - len(_INDENT)
    table = numbers.grid_text(grid, [True] * len(head), naming=1, width=room)
    return [f"{_INDENT}{line}".rstrip() for line in table.splitlines()]


def _step_text(sample: EpochSample) -> str:
    """Milliseconds per step with uncertainty, ``1,120 ±10``, or as the log prints them if it has no step times."""
    step = step_seconds(sample)
    if step is None:
        return numbers.ABSENT if sample.ms_per_step is None else f"{sample.ms_per_step:g}"
    return numbers.interval_text(step.scaled(1000))


def _metric_column(values: Sequence[float | None]) -> list[str]:
    """A metric with the decimals that the log prints, six at most; smaller numbers with an exponent."""
    places = max(len(f"{value or 0:.6f}".rstrip("0").partition(".")[2]) for value in values)
    form = ".4g" if any(0 < abs(value or 0) < 1e-6 for value in values) else f".{places}f"
    return [numbers.ABSENT if value is None else format(value, form) for value in values]


def _epoch_row(sample: EpochSample) -> list[str]:
    time = sample.seconds
    return [
        str(sample.epoch),
        f"{time.value:.3f}",
        f"{time.lo:.3f} to {time.hi:.3f}",
        numbers.ABSENT if sample.printed_seconds is None else f"{sample.printed_seconds} s",
        numbers.ABSENT if sample.steps is None else str(sample.steps),
        _step_text(sample),
    ]
