"""Why a training does not scale: `labtui why` splits the lost efficiency, `labtui why A B` compares two runs."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

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
    from labtui.export.measurements import Measurements
    from labtui.results.rows import ResultRow, Results

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
    from labtui.results.scaling import SLOWER_STEPS, lost_efficiency

    losing = _losing(given.results(args.images))
    rows = [row for row, _ in losing]
    if args.json:
        print_json({"rows": [_row_json(row) for row in rows]})
    else:
        for row, baseline in losing:
            _print_row(row, baseline, given)
    if not rows:
        say(_NOTHING)
    elif any(part.name == SLOWER_STEPS for row in rows for part in lost_efficiency(row)):
        say(_CONTROL)
    return 2 if given.unread else 0 if rows else 1


def _losing(results: Results) -> list[tuple[ResultRow, ResultRow]]:
    """The rows that lose efficiency, each with its baseline."""
    from labtui.results.scaling import lost_efficiency, scaling_lines

    lines = scaling_lines(results.measured)
    beyond = ((row, line.baseline) for line in lines for row in line.beyond)
    return [(row, base) for row, base in beyond if base is not None and lost_efficiency(row)]


def _clock_sentence(row: ResultRow, baseline: ResultRow, given: Measurements) -> str:
    """The GPUs' clocks and what slowed them, where they differ from those of one GPU by more than 1 %."""
    from labtui.results.grouping import devices
    from labtui.training_logs.gpu_sampler import clocks

    found = []
    for each in (row, baseline):
        told = [
            clocks(given.samples.get(run.source, ()), run.run.epochs, n_gpus=each.n_gpus)
            for run in each.members
        ]
        found.append(next((one for one in told if one[0] is not None), (None, {})))
    (mine, slowed), (theirs, _) = found
    if mine is None or theirs is None or abs(mine - theirs) <= 0.01 * theirs:
        return ""
    why = "".join(f"; {name} in {100 * share:.0f} % of the samples" for name, share in slowed.items())
    return f"GPU clock: {mine:,.0f} MHz on {devices(row.n_gpus)}, {theirs:,.0f} MHz on one{why}."


def _print_row(row: ResultRow, baseline: ResultRow, given: Measurements) -> None:
    from labtui.results.grouping import devices
    from labtui.results.messages import (
        control_sentence,
        energy_sentence,
        loss_sentence,
        lost_points,
        pop_sentence,
        slowest_sentence,
    )
    from labtui.results.numbers import clean, grid_text, in_digits_of, percent_text
    from labtui.results.scaling import lost_efficiency

    mark = " (practice)" if row.rehearsed else " (small run)" if row.small else ""
    print_line(f"{clean(row.name)}, {devices(row.n_gpus)}{mark}: efficiency {percent_text(row.efficiency)}")
    print_line(loss_sentence(row))
    grid = [["part", "lost", "at least", "at most", "known from"]]
    for part, points in zip(lost_efficiency(row), lost_points(row), strict=True):
        shown = f"{points} %"  # the parts add up as they are shown: a bound never leaves one out
        low, high = min(part.share.lo, float(points) / 100), max(part.share.hi, float(points) / 100)
        bounds = (in_digits_of(shown, each) for each in (low, high))
        grid.append([part.name, shown, *bounds, part.evidence])
    print(grid_text(grid, [False, True, True, True, False]))
    clock, energy = _clock_sentence(row, baseline, given), energy_sentence(row, baseline)
    for sentence in (slowest_sentence(row), control_sentence(row), clock, energy, pop_sentence(row)):
        if sentence:
            print_line(sentence)
    print()


def _row_json(row: ResultRow) -> dict[str, Any]:
    from labtui.results.messages import loss_sentence
    from labtui.results.scaling import lost_efficiency, pop_metrics

    def plain(value: Any) -> dict[str, float]:
        return {"value": value.value, "lo": value.lo, "hi": value.hi}

    return {
        "model": row.model,
        "n_gpus": row.n_gpus,
        "practice": row.rehearsed,
        "small": row.small,
        "efficiency": plain(row.efficiency),
        "sentence": loss_sentence(row),
        "parts": [
            {"name": part.name, "share": plain(part.share), "evidence": part.evidence}
            for part in lost_efficiency(row)
        ],
        "slowest_rank": row.step_times.slowest_rank if row.step_times else None,
        "pop": {name: plain(value) for name, value in pop_metrics(row).items()},
    }


# --------------------------------------------------------------------------- two runs


def _compare(args: argparse.Namespace) -> int:
    from labtui.results.numbers import grid_text
    from labtui.session.comparison import compare_runs

    if len(args.files) != 2:
        raise UsageError("Two runs are compared.", "labtui why 3 7; `labtui queue` lists the runs.")
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
