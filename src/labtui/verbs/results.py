"""`labtui results [FILE...]`: epoch time, throughput, speedup and efficiency, with their uncertainty.

Without files: this lab folder, read beside whoever has it open. With files: bare logs, no folder, no
cluster. A file that cannot be read gets a sentence on stderr, the rest is still reported, and the exit
code is 2.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from labtui.core.results.numbers import clean, range_text, ratio_text
from labtui.errors import UsageError

if TYPE_CHECKING:
    from labtui.core.results import MeasuredRun, ResultRow, Results
    from labtui.verbs.parse import ParsedFile

_WHERE = "Go to your lab folder, or name log files: labtui results FILE..."
_NOTHING = "No epoch time yet: a run needs two epochs, because the first is warm-up."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The files, the number of images, and the form of the answer."""
    parser.add_argument(
        "files", nargs="*", metavar="FILE", help="training logs; without any, this lab folder's runs"
    )
    parser.add_argument(
        "--images",
        type=_positive,
        default=None,
        metavar="N",
        help="images per epoch, where a log does not say it (default: 50000, CIFAR-10)",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON")
    form.add_argument("--csv", action="store_true", help="print CSV with full precision")
    form.add_argument("--markdown", action="store_true", help="print Markdown tables")
    form.add_argument("--latex", action="store_true", help="print LaTeX tables")
    form.add_argument("--extrap", action="store_true", help="print the measurements as Extra-P's JSON Lines")
    form.add_argument("--sources", action="store_true", help="also print job, file and line of every number")


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("the number of images must be at least 1")
    return number


def run(args: argparse.Namespace) -> int:
    """Print the numbers; 2 when a file could not be read."""
    from labtui.core.results import CIFAR10_IMAGES, compute_results

    if args.files:
        runs, unread = _runs_of_files(args.files)
    else:
        runs, unread = _runs_of_folder(), False
    results = compute_results(runs, images=args.images or CIFAR10_IMAGES)
    sys.stdout.write(_answer(args, results))
    if not results.measured and not args.json:
        print(f"labtui: {_NOTHING}", file=sys.stderr)
    return 2 if unread else 0


def _answer(args: argparse.Namespace, results: Results) -> str:
    """The answer in the form that was asked for."""
    if args.json:
        from labtui.core.results import results_json

        return json.dumps(results_json(results), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    if args.extrap:
        from labtui.core.results.extrap import extrap_lines

        return extrap_lines(results)
    if args.csv or args.markdown or args.latex:
        from labtui.export import tables

        make = tables.csv_text if args.csv else tables.markdown_text if args.markdown else tables.latex_text
        return make(results)
    return results_text(results, sources=args.sources)


# --------------------------------------------------------------------------- where the runs come from


def _runs_of_files(paths: Sequence[str]) -> tuple[tuple[MeasuredRun, ...], bool]:
    """The runs of bare logs, and whether a file could not be read."""
    from labtui.core.results import measured_from_reports
    from labtui.verbs.parse import parse_files

    files = parse_files(_each_once(paths))
    for one in files:
        if one.error is not None:
            _complain(one.error.sentence, one.error.hint)
        elif one.report is not None and not one.report.runs and one.stream == "out":
            _complain(f"{one.path}: there is no training in this log.", "")
    reports = [(one.path, one.report) for one in _not_twice(files) if one.report is not None]
    return measured_from_reports(reports), any(one.error is not None for one in files)


def _complain(sentence: str, hint: str) -> None:
    print(f"labtui: {clean(sentence)}", file=sys.stderr)
    if hint:
        print(f"  hint: {hint}", file=sys.stderr)


def _each_once(paths: Sequence[str]) -> list[str]:
    """The paths without repetition: a log named twice is still one run."""
    seen: dict[str, str] = {}
    for path in paths:
        seen.setdefault(path if path == "-" else str(Path(path).absolute()), path)
    return list(seen.values())


def _not_twice(files: Sequence[ParsedFile]) -> Iterator[ParsedFile]:
    """Leaves out a .err that was already read with the .out beside it."""
    beside = {str(Path(one.beside).absolute()) for one in files if one.beside}
    return (one for one in files if str(Path(one.path).absolute()) not in beside)


def _runs_of_folder() -> tuple[MeasuredRun, ...]:
    """The runs stored in the lab folder here, read without taking it from a labtui that has it open."""
    from labtui.core.reduce import reduce_all
    from labtui.core.results import measured_from_state
    from labtui.core.state import LabState
    from labtui.engine.folder import LabFolder, find_folder
    from labtui.engine.store import Store

    try:
        folder = LabFolder.open(find_folder())
    except UsageError as error:
        raise UsageError(error.sentence, _WHERE) from None
    if not folder.database_path.exists():
        return ()
    store = Store(folder.database_path, read_only=True)
    try:
        return measured_from_state(reduce_all(LabState(), store.events()))
    finally:
        store.close()


# --------------------------------------------------------------------------- for people


def results_text(results: Results, *, sources: bool = False) -> str:
    """Both readings as tables, then acceleration, laws, predictions and notes; "" without rows."""
    from labtui.core.results.tables import AS_PRINTED, PRECISE, law_lines, note_lines, text_table

    if not results.rows:
        return _section("Notes", note_lines(results))
    parts = [
        "Precise: all epochs but the first, with what the printed digits leave open\n",
        text_table(results.rows, PRECISE),
        "\n\n",
    ]
    printed = [row for row in results.measured if row.as_printed.epoch_seconds is not None]
    if printed:
        parts.append("As printed: whole seconds of epoch 2, as textbooks do\n")
        parts += [text_table(printed, AS_PRINTED), "\n\n"]
    parts.append(_section("CPU against GPU (acceleration, not scaling)", _accelerations(results)))
    parts.append(_section("Laws", law_lines(results.fits)))
    parts.append(_section("More GPUs", _predictions(results)))
    parts.append(_section("Notes", note_lines(results)))
    if sources:
        parts.append(_section("Sources", _sources(results)))
    return "".join(parts).rstrip("\n") + "\n"


def _section(title: str, lines: Sequence[str]) -> str:
    return "".join([f"{title}\n", *(f"  {line}\n" for line in lines), "\n"]) if lines else ""


def _accelerations(results: Results) -> list[str]:
    return [_acceleration(row) for row in results.measured if row.acceleration is not None]


def _acceleration(row: ResultRow) -> str:
    plain = "" if row.printed_acceleration is None else f"; as printed {row.printed_acceleration:.2f}"
    ratio = f"{ratio_text(row.acceleration)} times ({range_text(row.acceleration)}{plain})"
    return f"{clean(row.model)}: one GPU is faster than the CPU {ratio}."


def _predictions(results: Results) -> list[str]:
    from labtui.core.results.tables import prediction_sentence

    sentences = [prediction_sentence(each) for each in results.predictions]
    return [*sentences, *dict.fromkeys(each.note for each in results.predictions)]


def _sources(results: Results) -> list[str]:
    from labtui.core.results import cite

    return [f"{clean(row.configuration.label)}: {clean(cite(row.origins, most=20))}" for row in results.rows]
