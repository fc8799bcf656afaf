"""Results as text tables, split where the window is too narrow for them."""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from labtui.domain.terminal_text import fitted_lines
from labtui.results import messages
from labtui.results.compute import own_rows
from labtui.results.cost import LabCost, RunUtilization
from labtui.results.grouping import devices
from labtui.results.measured import cite
from labtui.results.numbers import (
    ANSWER,
    bounds_text,
    clean,
    grid_text,
    percent_text,
    program_columns,
    ratio_text,
    text_table,
)
from labtui.results.rows import ResultRow, Results
from labtui.results.scaling import gpu_hours_per_million, lost_efficiency, outlooks, scaling_lines

MAX_SENTENCES = 6
SIGNS = "± is from rounding, or the scatter of the epochs where that is more. As printed: epoch 2 alone."


def answer_text(results: Results, *, width: int | None = None) -> str:
    """The answer: one table, then at most five sentences; the rest is `report_text`."""
    table = text_table(results.rows, ANSWER, width) + "\n" if results.rows else ""
    lines = [
        *messages.left_out_lines(results),
        *_accelerations(results),
        *messages.note_lines(replace(results, left_out=(), notes=())),
        *(messages.fit_sentence(fit) for fit in results.fits if fit.law == "amdahl"),
        *(each.sentence for each in outlooks(results.rows)),
        *results.notes,
        *([SIGNS] if results.rows else []),
    ]
    shown = lines if len(lines) <= MAX_SENTENCES else lines[: MAX_SENTENCES - 1]
    if len(lines) > len(shown):
        shown = [*shown, f"{len(lines) - len(shown)} more with --details."]
    sentences = "".join(f"{line}\n" for line in fitted_lines(shown, width))
    return "\n".join(filter(None, (table, *_programs(results, width), sentences)))


def report_text(
    results: Results,
    *,
    uses: Sequence[RunUtilization] = (),
    cost: LabCost | None = None,
    sources: bool = False,
    width: int | None = None,
) -> str:
    """Everything worth reading, in sections; "" when there is nothing.

    `width` is that of the window in cells: no line is longer and no cell is broken. None: no line is broken at all.
    """
    sections = {
        "CPU against GPU (acceleration, not scaling)": _accelerations(results),
        "Laws": messages.law_lines(results.fits),
        "Scaling": scaling_sentences(results),
        "More GPUs": [each.sentence for each in outlooks(results.rows)],
        "GPU use": [use_sentence(use) for use in uses],
        "GPU-hours": cost_lines(cost) if cost else [],
        "Notes": messages.note_lines(results),
        "Sources": _sources(results) if sources else [],
    }
    own = [row for _, row in own_rows(results)] if any(row.runs > 1 for row in results.rows) else []
    texts = [
        _section(f"All epochs but the first. {SIGNS}", (), width, text_table(results.rows, ANSWER, width)),
        _section("Each run by itself", (), width, text_table(own, ANSWER, width)),
        *_programs(results, width),
        *(_section(title, lines, width) for title, lines in sections.items()),
    ]
    return "\n".join(filter(None, texts))


def _programs(results: Results, width: int | None) -> Iterable[str]:
    """Programs that are timed without epochs: a table for each kind of scaling, which are never mixed."""
    for kind in ("strong", "weak"):
        rows = [row for row in results.programs if row.is_weak is (kind == "weak")]
        notes = list(dict.fromkeys(note for row in rows for note in row.notes))
        table = text_table(rows, program_columns(rows))
        yield _section(f"Programs, {kind} scaling (± from rounding)", notes, width, table)


def _section(title: str, lines: Sequence[str], width: int | None, table: str = "") -> str:
    """A title with a table and lines under it; "" where there is neither."""
    if not (lines or table):
        return ""
    told = (*fitted_lines([title], width), table, *fitted_lines([f"  {line}" for line in lines], width))
    return "".join(f"{line}\n" for line in told if line)


def _accelerations(results: Results) -> list[str]:
    lines = []
    for row in results.measured:
        if row.acceleration is not None:
            shown, printed = ratio_text(row.acceleration), row.printed_acceleration
            plain = "" if printed is None else f"as printed {ratio_text(printed)}"
            more = "; ".join(filter(None, (bounds_text(row.acceleration, shown), plain)))
            ratio = f"{shown} times as fast as the CPU"
            lines.append(f"{clean(row.model)}: one GPU is {ratio}{f' ({more})' if more else ''}.")
    return lines


def scaling_sentences(results: Results) -> list[str]:
    """What each doubling gained, and what a unit of work costs."""
    lines = []
    for line in scaling_lines(results.measured):
        name, unit = clean(line.rows[0].name), line.unit
        gains = [
            f"{row.n_gpus} GPUs {100 * gain.value:+.0f} %" for row in line.rows if (gain := row.doubling_gain)
        ]
        costs = [
            f"{cost.value:.3g} on {row.n_gpus}" for row in line.rows if (cost := gpu_hours_per_million(row))
        ]
        if gains:
            lines.append(
                f"{name}: {unit} per second gained by doubling the GPUs (100 % is ideal): {', '.join(gains)}."
            )
        if len(costs) > 1:
            lines.append(f"{name}: GPU-hours for a million {unit}: {', '.join(costs)}.")
    return lines


def loss_text(row: ResultRow, clock: str) -> str:
    """Where the efficiency of a row went: the sum, a table of the parts, what else is known; `clock` of its GPUs."""
    grid, nothing = [["part", "lost", "known from"]], []
    for part, points in zip(lost_efficiency(row), messages.lost_points(row), strict=True):
        if not float(points):
            nothing.append(part.name)
            continue
        grid.append([part.name, f"{points} %", part.evidence])
    head = f"{clean(row.name)}, {devices(row.n_gpus)}{row.mark}: efficiency {percent_text(row.efficiency)}"
    told = (
        f"Costs nothing: {', '.join(nothing)}." if nothing else "",
        messages.slowest_sentence(row),
        messages.control_sentence(row),
        clock,
        messages.energy_sentence(row),
        messages.pop_sentence(row),
    )
    table = grid_text(grid, [False, True, False])
    return "\n".join(filter(None, (head, messages.loss_sentence(row), table, *told)))


def _sources(results: Results) -> list[str]:
    return [f"{clean(row.label)}: {clean(cite(row.origins, most=20))}" for row in results.rows]


def use_sentence(use: RunUtilization) -> str:
    """Mean GPU use after the first epoch, and GPUs that stood by."""
    run = use.run
    name = f"{clean(run.run.model or 'unknown')} on {devices(run.run.n_gpus)}"
    job = f" (job {clean(run.job_id)})" if run.job_id else ""
    idle = f"; {use.standing_by} of the job's GPUs were idle" if use.standing_by else ""
    return f"{name}{job}: {percent_text(use.steady)} busy after the first epoch{idle}."


def cost_lines(cost: LabCost) -> list[str]:
    """GPU-hours of the lab and of each task; nothing when no job used the cluster."""
    total = cost.total
    lines = [f"lab: {total.allocated:.2f} allocated, {total.used:.2f} used by training, {total.jobs} jobs"]
    for task, each in cost.tasks.items():
        lines.append(f"task {clean(task)}: {each.allocated:.2f} allocated, {each.used:.2f} used")
    return lines if cost.jobs else []
