"""`labtui export`: tables, plots and the slide deck of this lab folder."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

_DECKS = ("pptx", "pdf")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which files, where to, and which template."""
    parser.add_argument("--folder", metavar="DIR", help="the lab folder (default: here or above)")
    parser.add_argument(
        "--deck", type=_decks, default=_DECKS, metavar="F[,F]", help="pptx, pdf or none (default: both)"
    )
    parser.add_argument("--out", metavar="DIR", help="where to write (default: the lab folder)")
    parser.add_argument(
        "--template", metavar="FILE.pptx", help="a PowerPoint file whose design is used instead"
    )
    parser.add_argument("--no-plots", action="store_true", help="leave out plots/")
    parser.add_argument(
        "--progress", action="store_true", help="say every step in a line of its own on stderr"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def _decks(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip().lower().lstrip(".") for name in text.split(",") if name.strip()))
    if names == ("none",):
        return ()
    if not names or any(name not in _DECKS for name in names):
        raise argparse.ArgumentTypeError(f"choose from pptx, pdf, none, not {text!r}")
    return names


def run(args: argparse.Namespace) -> int:
    """Write; prints the paths. Notes go to stderr."""
    from labtui.engine.folder import find_folder
    from labtui.export import export_lab
    from labtui.verbs.meter import Meter
    from labtui.verbs.terminal import say

    began = time.monotonic()
    with Meter(always=args.progress) as meter:
        report = export_lab(
            Path(args.folder) if args.folder else find_folder(),
            formats=args.deck,
            out=Path(args.out) if args.out else None,
            template=Path(args.template) if args.template else None,
            plots=not args.no_plots,
            progress=meter.show,
        )
    for note in report.notes:
        say(f"note: {note}")
    if args.json:
        told = {
            "files": [str(path) for path in report.files],
            "notes": list(report.notes),
            "seconds": round(time.monotonic() - began, 3),
        }
        print(json.dumps(told, indent=2, ensure_ascii=False))
    else:
        sys.stdout.writelines(f"{path}\n" for path in report.files)
    return 0
