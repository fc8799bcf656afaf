"""`labtui plot [FILE...]`: the charts as PNG, SVG or PDF, from this lab folder or from bare logs."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from labtui.errors import UsageError

if TYPE_CHECKING:
    from labtui.export.measurements import Measurements

_FORMATS = ("png", "svg", "pdf")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What is drawn, where to, and how."""
    parser.add_argument(
        "files", nargs="*", metavar="FILE", help="training logs; without any, this lab folder's runs"
    )
    parser.add_argument("--folder", metavar="DIR", help="the lab folder (default: here or above)")
    parser.add_argument(
        "--out", metavar="DIR", help="where to write (default: plots/ in the lab folder; here for logs)"
    )
    parser.add_argument(
        "--format", type=formats_of, default=("png",), metavar="F[,F...]", help="png, svg, pdf (default png)"
    )
    parser.add_argument(
        "--size", choices=("wide", "half"), default="wide", help="a 16:9 picture, or one for half a slide"
    )
    parser.add_argument(
        "--chart", action="append", default=[], metavar="KEY", help="only this chart; may be repeated"
    )
    parser.add_argument("--kind", choices=("bars", "lines"), help="bars or lines for the scaling charts")
    parser.add_argument(
        "--as-printed", action="store_true", help="draw whole seconds of epoch 2, as textbooks do"
    )
    parser.add_argument(
        "--images", type=int, metavar="N", help="images per epoch, where a log does not say it"
    )
    parser.add_argument("--list", action="store_true", help="only list the charts there are")


def formats_of(text: str) -> tuple[str, ...]:
    """``png,svg`` as a tuple."""
    names = tuple(dict.fromkeys(name.strip().lower().lstrip(".") for name in text.split(",") if name.strip()))
    unknown = [name for name in names if name not in _FORMATS]
    if unknown or not names:
        raise argparse.ArgumentTypeError(f"choose from {', '.join(_FORMATS)}, not {text!r}")
    return names


def run(args: argparse.Namespace) -> int:
    """Draw; prints the paths. 1 when there is nothing to draw yet."""
    from labtui.export.charts import all_charts, chosen, write_charts

    given, out = _input(args)
    results = given.results(args.images)
    charts = all_charts(given, results, reading="as-printed" if args.as_printed else "precise")
    charts = chosen(charts, args.chart)
    if args.list:
        print("\n".join(f"{each.stem:<32} {each.spec.key:<28} {each.spec.title}" for each in charts))
        return 0
    if not charts:
        print("labtui: There is nothing to draw yet: no epoch was measured.", file=sys.stderr)
        return 2 if given.unread else 1
    from labtui.verbs.meter import Meter

    with Meter() as meter:
        written = write_charts(
            charts, out, formats=args.format, size=args.size, kind=args.kind, progress=meter.show
        )
    print("\n".join(str(path) for path in written))
    return 2 if given.unread else 0


def _input(args: argparse.Namespace) -> tuple[Measurements, Path]:
    """What is measured, and where pictures go by default."""
    if args.images is not None and args.images < 1:
        raise UsageError("The number of images must be at least 1.")
    if args.files:
        from labtui.verbs.results import of_files

        return of_files(args.files), Path(args.out or ".")
    from labtui.engine.folder import LabFolder, find_folder
    from labtui.export.measurements import measurements_of

    folder = LabFolder.open(args.folder or find_folder())
    return measurements_of(folder), Path(args.out) if args.out else folder.plots
