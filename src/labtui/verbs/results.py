"""`labtui results [FILE...]`: epoch time, throughput, speedup and efficiency, with their uncertainty.

Without files: this lab folder, read beside whoever has it open. With files: bare logs, no folder, no
cluster. A file that cannot be read gets a sentence on stderr, the rest is still reported, and the exit
code is 2.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from labtui.errors import UsageError
from labtui.verbs.window import window_width

if TYPE_CHECKING:
    from labtui.core.results import Results
    from labtui.core.results.targets import TargetPlan
    from labtui.export.measurements import Measurements

_WHERE = "Go to your lab folder, or name log files: labtui results FILE..."
_NOTHING = "No epoch time yet: a run needs two epochs, because the first is warm-up."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The files, the number of images, and the form of the answer."""
    parser.add_argument(
        "files",
        nargs="*",
        metavar="FILE",
        help="training logs (a job's .gpu.csv is read with its log); without any, this lab folder's runs",
    )
    parser.add_argument(
        "--images",
        type=_positive,
        metavar="N",
        help="images per epoch, where a log does not say it (default: the edition's, else 50000)",
    )
    parser.add_argument(
        "--target",
        type=_share,
        metavar="ACCURACY",
        help="how many epochs an accuracy needs, and which time limit (0.95 or 95)",
    )
    parser.add_argument(
        "--sources", action="store_true", help="also print job, file and line of every number"
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON")
    form.add_argument("--csv", action="store_true", help="print CSV with full precision")
    form.add_argument("--markdown", action="store_true", help="print Markdown tables")
    form.add_argument("--latex", action="store_true", help="print LaTeX tables")
    form.add_argument("--extrap", action="store_true", help="print the measurements as Extra-P's JSON Lines")


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("the number of images must be at least 1")
    return number


def _share(text: str) -> float:
    number = float(text.removesuffix("%"))
    share = number / 100 if number > 1 else number
    if not 0 < share < 1:
        raise argparse.ArgumentTypeError("an accuracy lies between 0 and 1 (or 0 and 100 %)")
    return share


def run(args: argparse.Namespace) -> int:
    """Print the numbers; 1 when there are none yet, 2 when a file could not be read."""
    given = of_files(args.files) if args.files else _of_folder()
    results = given.results(args.images)
    sys.stdout.write(_answer(args, results, given))
    if not results.measured and not args.json:
        print(f"labtui: {_NOTHING}", file=sys.stderr)
    if given.unread:
        return 2
    return 0 if results.measured else 1


# --------------------------------------------------------------------------- the answer


def _answer(args: argparse.Namespace, results: Results, given: Measurements) -> str:
    """The answer in the form that was asked for."""
    if args.extrap:
        from labtui.core.results.extrap import extrap_lines

        return extrap_lines(results)
    if args.csv or args.markdown or args.latex:
        from labtui.export import tables

        make = tables.csv_text if args.csv else tables.markdown_text if args.markdown else tables.latex_text
        return make(results)
    plans = _plans(args, results)
    if args.json:
        return given.json_text(results, plans)
    from labtui.core.results.report import report_text

    return report_text(
        results, plans=plans, uses=given.uses, cost=given.cost, sources=args.sources, width=window_width()
    )


def _plans(args: argparse.Namespace, results: Results) -> tuple[TargetPlan, ...]:
    from labtui.core.results.targets import target_plans

    return () if args.target is None else target_plans(results, args.target)


# --------------------------------------------------------------------------- bare files


def of_files(paths: Sequence[str]) -> Measurements:
    """The runs of training logs; what cannot be read is said on stderr."""
    from labtui.core.results import measured_from_reports
    from labtui.export.measurements import SAMPLER_END, Measurements, beside, samples_in
    from labtui.verbs.parse import parse_files

    once = _each_once(paths)
    logs = [path for path in once if not path.endswith(SAMPLER_END)]
    missing = [path for path in once if path.endswith(SAMPLER_END) and not Path(path).is_file()]
    files = parse_files([*logs, *missing])
    for one in files:
        if one.error is not None:
            _complain(one.error.sentence, one.error.hint)
        elif one.report is not None and not one.report.runs and one.stream == "out":
            _complain(f"{one.path}: there is no training in this log.", "")
    reports = [(one.path, one.report) for one in files if one.report is not None]
    return Measurements(
        runs=measured_from_reports(reports),
        samples={path: samples_in(beside(path)) for path, _ in reports},
        unread=any(one.error is not None for one in files),
    )


def _complain(sentence: str, hint: str) -> None:
    from labtui.core.results.numbers import clean

    print(f"labtui: {clean(sentence)}", file=sys.stderr)
    if hint:
        print(f"  hint: {hint}", file=sys.stderr)


def _each_once(paths: Sequence[str]) -> list[str]:
    """The paths without repetition, and without a .err whose .out is given: both are read together.

    So a log named twice is still one run, and an empty .err, which is how a job should end, is no complaint.
    """
    seen: dict[str, str] = {}
    for path in paths:
        seen.setdefault(path if path == "-" else str(Path(path).absolute()), path)
    return [path for key, path in seen.items() if not _is_companion(key, seen)]


def _is_companion(path: str, given: Mapping[str, str]) -> bool:
    return path.endswith(".err") and path.removesuffix(".err") + ".out" in given


# --------------------------------------------------------------------------- the lab folder


def _of_folder() -> Measurements:
    """The runs stored in the lab folder here, read without taking it from a labtui that has it open."""
    from labtui.engine.folder import LabFolder, find_folder
    from labtui.export.measurements import measurements_of

    try:
        folder = LabFolder.open(find_folder())
    except UsageError as error:
        raise UsageError(error.sentence, _WHERE) from None
    return measurements_of(folder)
