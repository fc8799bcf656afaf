"""Why a training does not scale: `labtui why` splits the lost efficiency, `labtui why A B` compares two runs."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from labtui.commands.results import add_input, named_folder, of_files, of_folder
from labtui.commands.terminal import (
    Open,
    add_folder_argument,
    add_json_argument,
    print_json,
    print_line,
    run_number,
    say,
)
from labtui.domain.errors import UsageError

if TYPE_CHECKING:
    from labtui.export.contents import Measurements
    from labtui.results.rows import ResultRow

_NOTHING = "Nothing to split yet: this needs a run on one GPU and one on more, of the same training."

_CONTROL = (
    "To split slower steps: `labtui submit TASK --control independent` tells contention from communication."
)


def why_arguments(parser: argparse.ArgumentParser) -> None:
    """The logs or the folder, or two runs of it."""
    from labtui.commands.parse import add_pattern_argument

    parser.epilog = "With two run numbers it shows what differs between them: labtui why 3 7"
    add_input(parser)
    add_folder_argument(parser, default=None)
    add_pattern_argument(parser)
    add_json_argument(parser)


def run_why(args: argparse.Namespace) -> int:
    """Print where the efficiency went, or what differs; 1 when nothing can be said yet."""
    if args.files and all(word.isdecimal() for word in args.files):
        return _compare(args)
    folder = named_folder(args)
    given = of_files(args.files, args.pattern, args.lab) if folder is None else of_folder(folder)
    from labtui.results.report import loss_text
    from labtui.results.scaling import SLOWER_STEPS, lost_efficiency, scaling_lines
    from labtui.results.serialize import loss_json

    results = given.results(args.images)
    lines = scaling_lines((results if args.json else given.named(results)).measured)
    rows = [row for line in lines for row in line.beyond if lost_efficiency(row)]
    if args.json:
        print_json({"rows": [loss_json(row) for row in rows]})
    else:
        for row in sorted(rows, key=lambda each: -(each.n_gpus or 0)):
            print(f"{loss_text(row, _clock_sentence(row, given))}\n")
    if not rows:
        say(_NOTHING)
    elif any(part.name == SLOWER_STEPS for row in rows for part in lost_efficiency(row)):
        say(_CONTROL)
    return 2 if given.unread else 0 if rows else 1


def _clock_sentence(row: ResultRow, given: Measurements) -> str:
    """The GPUs' clocks and what slowed them, where they differ from those of one GPU by more than 1 %."""
    from labtui.results.grouping import devices
    from labtui.training_logs.gpu_sampler import clocks

    found = []
    for each in filter(None, (row.baseline, row)):
        told = [
            clocks(given.samples.get(run.source, ()), run.run.epochs, n_gpus=each.n_gpus)
            for run in each.members
        ]
        found.append(next((one for one in told if one[0] is not None), (None, {})))
    (theirs, _), (mine, slowed) = found[0], found[-1]
    if mine is None or theirs is None or abs(mine - theirs) <= 0.01 * theirs:
        return ""
    why = "".join(f"; {name} in {100 * share:.0f} % of the samples" for name, share in slowed.items())
    return f"GPU clock: {mine:,.0f} MHz on {devices(row.n_gpus)}, {theirs:,.0f} MHz on one{why}."


# --------------------------------------------------------------------------- two runs


def _compare(args: argparse.Namespace) -> int:
    from labtui.results.numbers import grid_text
    from labtui.session.comparison import compare_runs

    if len(args.files) != 2:
        raise UsageError("Name two runs to compare.", "`labtui why 3 7`; `labtui queue` lists the runs.")
    args.folder = args.folder or "."
    numbers = [run_number(word) for word in args.files]
    with Open(args, start=False, looks=True) as lab:
        names, found, sentences = compare_runs(lab.session, numbers)
    if args.json:
        rows = [each._asdict() for each in found]
        print_json({"runs": numbers, "differences": rows, "next": sentences[-1]})
        return 0
    for sentence in sentences[:-1]:
        print_line(sentence)
    if found:
        print(grid_text([["what", *names], *map(list, found)], [False, False, False]))
    print_line(sentences[-1])
    return 0
