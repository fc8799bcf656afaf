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
    from labtui.domain.state import LabState
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

    rows = _losing(given.results(args.images))
    if args.json:
        print_json({"rows": [_row_json(row) for row in rows]})
    else:
        for row in rows:
            _print_row(row)
    if not rows:
        say(_NOTHING)
    elif any(part.name == SLOWER_STEPS for row in rows for part in lost_efficiency(row)):
        say(_CONTROL)
    return 2 if given.unread else 0 if rows else 1


def _losing(results: Results) -> list[ResultRow]:
    from labtui.results.scaling import lost_efficiency, scaling_lines

    beyond = (row for line in scaling_lines(results.measured) for row in line.beyond)
    return [row for row in beyond if lost_efficiency(row)]


def _print_row(row: ResultRow) -> None:
    from labtui.results.grouping import devices
    from labtui.results.messages import loss_sentence, lost_points, pop_sentence, slowest_sentence
    from labtui.results.numbers import clean, grid_text, percent_text
    from labtui.results.scaling import lost_efficiency

    mark = " (practice)" if row.rehearsed else " (small run)" if row.small else ""
    print_line(f"{clean(row.name)}, {devices(row.n_gpus)}{mark}: efficiency {percent_text(row.efficiency)}")
    print_line(loss_sentence(row))
    grid = [["part", "lost", "at least", "at most", "known from"]]
    for part, points in zip(lost_efficiency(row), lost_points(row), strict=True):
        bounds = map(percent_text, (part.share.lo, part.share.hi))
        grid.append([part.name, f"{points} %", *bounds, part.evidence])
    print(grid_text(grid, [False, True, True, True, False]))
    for sentence in (slowest_sentence(row), pop_sentence(row)):
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
    from labtui.results.differences import changed_files, differences, next_run
    from labtui.results.numbers import grid_text, three_digits
    from labtui.session.folder import SCRIPT_NAME

    if len(args.files) != 2:
        raise UsageError("Two runs are compared.", "labtui why 3 7; `labtui queue` lists the runs.")
    args.folder = args.folder or "."
    with Open(args, start=False, looks=True) as lab:
        numbers = [run_number(word) for word in args.files]
        first, second = (_row_of(lab.session.results(), number) for number in numbers)
        known = [_facts(lab.state, number) for number in numbers]
        tokens = [lab.state.runs[number].token for number in numbers]
        sent = [dict(lab.session.files_of(token)) for token in tokens]
    for files_of_run in sent:
        files_of_run.pop(SCRIPT_NAME, None)  # made anew for each submission
    files = changed_files(*sent)
    facts = ({**known[0], **files[0]}, {**known[1], **files[1]})
    found = differences(first, second, facts)
    names = [f"run {number}" for number in numbers]
    sentence = next_run(found, *names)
    if args.json:
        print_json({"runs": numbers, "differences": [each._asdict() for each in found], "next": sentence})
        return 0
    times = [three_digits(row.epoch_seconds.value) for row in (first, second) if row.epoch_seconds]
    if len(times) == 2:
        print_line(f"An epoch takes {times[0]} s in {names[0]} and {times[1]} s in {names[1]}.")
    if found:
        print(grid_text([["what", *names], *map(list, found)], [False, False, False]))
    print_line(sentence)
    return 0


def _row_of(results: Results, number: int) -> ResultRow:
    """The run's own row.

    Raises:
        UsageError: there is no such run, or nothing of it was measured.
    """
    from labtui.results.compute import own_rows

    for run, row in own_rows(results):
        if run.run_id == number:
            return row
    raise UsageError(f"Run {number} has no epochs to compare.", "`labtui queue` lists the runs.")


def _facts(state: LabState, number: int) -> dict[str, str]:
    """What the folder knows of a run beside its log."""
    run = state.runs[number]
    job = state.submissions[run.token].job
    return {"script": run.spec.script, "node": job.node if job is not None else ""}
