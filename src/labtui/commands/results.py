"""A lab's numbers: `labtui results` prints, `why` explains, `plot` draws and `export` writes the files to hand in.

They read the lab folder, also while another labtui has it open, or log files, which need neither folder nor cluster. If
a file cannot be read, stderr says why, the rest is still reported, and the exit code is 2. `why` splits the lost
efficiency. `export` takes a folder only.
"""

import argparse
import functools
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from labtui import export
from labtui.commands import options, parse
from labtui.commands.terminal import lab_folder, print_json, say, say_error, window_width
from labtui.domain.errors import LabError, UsageError, failure, os_errors
from labtui.export.contents import SAMPLER_END, Measurements, measurements_of, samples_beside, small_notes
from labtui.lab import plan, run_choice
from labtui.results import grouping, measured
from labtui.results.messages import notes_with_names
from labtui.results.report import loss_json, losses_text, report_text, short_report
from labtui.results.rows import ResultRow
from labtui.results.scaling import SLOWER_STEPS, lost_efficiency, scaling_lines
from labtui.session import labs, opening
from labtui.session.folder import LabFolder
from labtui.session.settings import SETTINGS_FILE
from labtui.training_logs.gpu_sampler import clocks

_WHERE = "Run this in your lab folder, or give --folder DIR or log files."
_NO_RUN = "No run has been read yet: `labtui queue` lists those that were submitted."
_NOTHING = "No epoch time yet: a run needs two epochs, because the first is warm-up."


def results_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--details", action="store_true", help="also factors, laws, costs, readings, notes")
    parser.add_argument("--sources", action="store_true", help="also job, file and line of every number")


def run_results(args: argparse.Namespace) -> int:
    """Print the numbers; return 1 if there are none yet, 2 if a file could not be read."""
    folder, given = _measurements(args)
    results = given.results(args.images)
    if args.json:
        print_json(given.json_of(results))
    elif args.details or args.sources:
        how = {"sources": args.sources, "width": window_width()}
        print(report_text(given.named(results), uses=given.uses, cost=given.cost, **how), end="")
    else:
        print(short_report(given.named(results), width=window_width()), end="")
    there = bool(results.measured or results.programs)
    # else the report says why runs do not count, or measure_files said why
    if not (there or args.json or results.left_out) and (given.runs or folder is not None):
        say(_NOTHING if given.runs else _NO_RUN)
    if given.unread:
        return 2
    return 0 if there else 1


# --------------------------------------------------------------------------- log files


def measure_files(paths: Sequence[str], patterns: Sequence[str] = (), lab: str = "") -> Measurements:
    """The runs of training logs, and the times of a lab's programs; stderr says what cannot be read."""
    each = {path if path == "-" else str(Path(path).resolve()): path for path in paths}  # each log once
    samplers = [path for path in each.values() if path.endswith(SAMPLER_END) and Path(path).is_file()]
    # each .err is read with its .out
    companions = {f"{path.removesuffix('.out')}.err" for path in each if path.endswith(".out")}
    logs = [path for key, path in each.items() if path not in samplers and key not in companions]
    files = parse.parse_files(logs, patterns, parse.programs_of(lab))
    found = any(one.report.runs for one in files)
    for one in files:
        if one.error is not None:
            say_error(one.error)
        elif not one.report.runs and (one.stream == "out" or not found):
            say_error(failure("no-epochs-read", path=one.path))
    runs = measured.measured_from_reports((one.path, one.report) for one in files if one.error is None)
    return Measurements(
        runs=runs,
        samples={run.source: samples_beside(run.source) for run in runs},
        names=labs.load_edition(lab).names if lab else {},
        unread=any(one.error is not None for one in files),
    )


# --------------------------------------------------------------------------- the lab folder


def _measurements(args: argparse.Namespace, *, writes: bool = False) -> tuple[LabFolder | None, Measurements]:
    """The lab folder, None for log files, and the runs of either.

    The folder is that of --folder, or given in place of log files, or without these the one here. Of a task only the
    runs that it shows.

    Raises:
        UsageError: there is no such folder, or both a folder and files are given.
        NotTrusted: a command that `writes` into it is not allowed to.
    """
    files, task_id = args.files, ""
    if len(files) == 1 and options.is_task_id(files[0]) and not Path(files[0]).exists():
        files, task_id = [], files[0]
    if task_id and writes:
        raise failure("plots-of-task", task=task_id)
    if args.folder and files:
        raise failure("folder-or-files")
    if files and (len(files) > 1 or not (Path(files[0]) / SETTINGS_FILE).is_file()):
        return None, measure_files(files, args.pattern, args.lab)
    try:
        folder = lab_folder(args.folder or (*files, None)[0], args, writes=writes)
    except UsageError as error:
        raise UsageError(error.sentence, _WHERE) from None
    if args.pattern or args.lab:
        raise failure("for-files")
    return folder, measure_folder(folder, task_id)


def measure_folder(folder: LabFolder, task_id: str) -> Measurements:
    """The runs stored in a lab folder, which another labtui may have open; with a task, those that it shows.

    Raises:
        LabError: there is no such task.
    """
    if (problem := opening.disk_problem(folder)) is not None:
        say_error(problem)
    edition = None
    try:
        edition = labs.load_edition(folder.settings().edition, folder)
    except LabError as error:  # the numbers of the logs do not depend on it
        if task_id:
            raise
        say_error(error)
    state = opening.stored_state(folder)
    given = measurements_of(folder, state, edition)
    if edition is None or not task_id:
        return given
    mine = run_choice.compared_runs(edition, plan.task_of(edition, task_id), state)
    shown = run_choice.rows_with_runs(given.results(), mine)  # with their repeats and baselines
    kept = {run.run_id for row in (*shown.rows, *shown.programs) for run in row.members}
    kept |= {run.run_id for run in mine}
    return replace(given, runs=tuple(run for run in given.runs if run.run_id in kept))


# --------------------------------------------------------------------------- why it does not scale


_NO_SPLIT = (
    "Nothing to explain yet: this needs runs on one GPU and on more, with steps and equal batches per GPU."
)

_CONTROL = "To tell contention from communication, run `labtui submit TASK --control independent`."


def run_why(args: argparse.Namespace) -> int:
    """Print where the efficiency went; return 1 if nothing can be said yet."""
    _, given = _measurements(args)
    results = given.results(args.images) if args.json else given.named(given.results(args.images))
    lines = scaling_lines(results.measured)
    rows = [row for line in lines for row in line.compared[1:] if lost_efficiency(row)]
    if args.json:
        print_json({"rows": [loss_json(row) for row in rows]})
    else:
        notes = notes_with_names(results.measured, "no speedup")
        clocks = [_clock_sentence(row, given) for row in rows]
        print(losses_text(rows, clocks, window_width(), notes), end="")
    if not rows:
        say(_NO_SPLIT)
    elif any(part.name == SLOWER_STEPS for row in rows if not row.mark for part in lost_efficiency(row)):
        say(_CONTROL)
    return 2 if given.unread else 0 if rows else 1


def _clock_sentence(row: ResultRow, given: Measurements) -> str:
    """The GPUs' clock and what slowed it, if it differs from that of one GPU by more than 1 %; else ""."""
    if row.baseline is None:
        return ""
    found = []
    for each in (row.baseline, row):
        sampled = ((given.samples.get(run.source, ()), run.run.epochs) for run in each.members)
        told = (clocks(*one, n_gpus=each.n_gpus) for one in sampled)
        found.append(next((one for one in told if one[0] is not None), (None, {})))
    (base, _), (clock, slowed) = found
    if clock is None or base is None or abs(clock - base) <= 0.01 * base:
        return ""
    why = "".join(f"; {name} in {100 * share:.0f} % of the samples" for name, share in slowed.items())
    return f"GPU clock: {clock:,.0f} MHz on {grouping.devices(row.n_gpus)}, {base:,.0f} MHz on one{why}."


# --------------------------------------------------------------------------- plots and the hand-in


def plot_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", metavar="DIR", help="where to write (default: plots/ in the lab folder)")
    words = "png, svg, pdf (default png)"
    parser.add_argument("--format", type=formats_of, default=("png",), metavar="F[,F...]", help=words)


def formats_of(text: str, known: tuple[str, ...] = ("png", "svg", "pdf")) -> tuple[str, ...]:
    """The type of ``png,svg``, a tuple of `known` names; ``none``, if that is known, is an empty one."""
    names = tuple(dict.fromkeys(name.strip().lower().lstrip(".") for name in text.split(",") if name.strip()))
    if not names or not set(names) <= set(known) or ("none" in names and len(names) > 1):
        raise argparse.ArgumentTypeError(f"{text!r} is not one of {', '.join(known)}")
    return () if names == ("none",) else names


def run_plot(args: argparse.Namespace) -> int:
    """Draw the charts and print their paths; return 1 if there is nothing to draw yet, 2 if a file is unreadable."""
    folder, given = _measurements(args, writes=not args.out)
    results = given.named(given.results(args.images))
    charts = export.lab_plots(given, results)
    for note in (notes := small_notes(results)):
        say(f"note: {note}")
    if not charts:
        if not notes and (given.runs or not given.unread):
            say("Nothing is measured yet.")
        return 2 if given.unread else 1
    inside = folder if not args.out else None
    place = inside.plots if inside else _out_folder(args.out or ".")
    written = export.write_files(export.drawings(charts, args.format), place, inside.path if inside else None)
    print("\n".join(map(str, written)))
    return 2 if given.unread else 0


def _out_folder(named: str) -> Path:
    """The folder of --out, made and tried before anything is drawn for it. Raises LabError if it cannot be written."""
    with os_errors("cannot-write", path=named):
        Path(named).mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=named).close()
    return Path(named)


def export_arguments(parser: argparse.ArgumentParser) -> None:
    decks = functools.partial(formats_of, known=("pptx", "pdf", "none"))
    words = "slides: pptx, pdf or none (default: as the lab is handed in)"
    parser.add_argument("--deck", type=decks, metavar="F[,F]", help=words)
    reports = functools.partial(formats_of, known=("pdf", "ipynb", "none"))
    words = "report.pdf, analysis.ipynb: pdf, ipynb or none (default: both)"
    parser.add_argument("--report", type=reports, default=("pdf", "ipynb"), metavar="F[,F]", help=words)
    parser.add_argument("--out", metavar="DIR", help="where to write (default: the lab folder)")
    parser.add_argument("--no-plots", action="store_true", help="leave out plots/")


def run_export(args: argparse.Namespace) -> int:
    """Write the files and print their paths, of charts only how many; notes go to stderr."""
    began = time.monotonic()
    folder = lab_folder(args.folder, args, writes=not args.out)
    if (problem := opening.disk_problem(folder)) is not None:
        say_error(problem)
    say("Writing tables, plots and slides ...")
    where: dict[str, Any] = {"out": _out_folder(args.out) if args.out else None, "plots": not args.no_plots}
    report = export.export_lab(folder.path, formats=args.deck, reports=args.report, told=say, **where)
    for note in report.notes:
        say(f"note: {note}")
    if args.json:
        seconds = round(time.monotonic() - began, 3)
        print_json({"files": list(map(str, report.files)), "notes": list(report.notes), "seconds": seconds})
    else:
        plots = [path for path in report.files if path.parent.name == "plots"]
        charts = Counter(path.parent / f"*{path.suffix}" for path in plots)
        others = [str(path) for path in report.files if path not in plots]
        print("\n".join([*others, *(f"{names}  ({count} files)" for names, count in charts.items())]))
    return 0
