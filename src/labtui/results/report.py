"""Results as text tables, split where the window is too narrow, and as JSON.

Other programs rely on the shapes of the JSON objects; each is one list of fields.
"""

import math
from collections.abc import Iterable, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

from msgspec.structs import asdict

from labtui.domain.model import EpochSample, Interval, plural
from labtui.domain.run import MARKS, mark_words
from labtui.domain.terminal_text import fitted_lines
from labtui.domain.tuning import tuning_words
from labtui.results import laws, measured, messages, numbers, scaling
from labtui.results.compute import own_rows
from labtui.results.cost import LabCost, RunUtilization, cost_columns
from labtui.results.grouping import natural_key
from labtui.results.numbers import ANSWER, bounds_text, clean, percent_text, ratio_text, text_table
from labtui.results.rows import ENOUGH_SIZES, ResultRow, Results
from labtui.training_logs.runs import ParsedRun

MAX_SENTENCES = 6
SIGNS = {
    ", warm-up ": "Warm-up with a number: the learning rate rises over so many epochs.",
    "±": "± is rounding or, if more, the scatter of epochs or of pooled runs.",
    "as printed": "As printed: whole seconds of epoch 2, or a rate; – is neither, or 0 s.",
}
"""What a sign or a heading in a table means."""


def short_report(results: Results, *, width: int | None = None) -> str:
    """The short answer: one table, then at most `MAX_SENTENCES` sentences; `report_text` has the rest."""
    table = _answer(results.rows, width) + "\n" if results.rows else ""
    fits, best = results.fits, laws.best_fits(results.fits)
    lines = [
        *_accelerations(results),
        *messages.note_lines(results),
        *(said for fit, said in zip(fits, messages.fit_sentences(fits), strict=True) if fit in best),
        # the first remark on few sizes is that they are
        *dict.fromkeys(fit.remarks[0] for fit in best if len(fit.n_gpus) < ENOUGH_SIZES),
        *(each.sentence for each in scaling.outlooks(results.rows)),
        *(meaning for sign, meaning in SIGNS.items() if sign in table),
    ]
    shown = lines if len(lines) <= MAX_SENTENCES else lines[: MAX_SENTENCES - 1]
    if len(lines) > len(shown):
        shown = [*shown, f"{plural(len(lines) - len(shown), 'more note')} with --details."]
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
    """The whole report in sections; "" when there is nothing to report.

    `width` is the window's in cells: lines are broken and tables split to fit. None: neither is done.
    """
    cited, table = results.rows if sources else (), _answer(results.rows, width)
    signs = [meaning for sign, meaning in SIGNS.items() if sign in table]
    sections: dict[str, Iterable[str]] = {
        "CPU against GPU (acceleration, not scaling)": _accelerations(results),
        "Laws": messages.law_lines(results.fits),
        "Scaling": scaling_sentences(results),
        "More GPUs": [each.sentence for each in scaling.outlooks(results.rows)],
        "GPU use": [use_sentence(use, row) for row in results.rows for use in uses if use.run in row.members],
        f"GPU-hours of jobs{mark_words('practice' if cost and cost.practice else '')}": cost_lines(cost),
        "Notes": messages.note_lines(results),
        "Sources": [f"{clean(row.label)}: {clean(measured.cite(row.origins, most=20))}" for row in cited],
    }
    own = [row for _, row in own_rows(results)] if any(len(row.members) > 1 for row in results.rows) else []
    texts = [
        _section("All epochs but the first", signs, width, table),
        _section("Each run by itself", (), width, _answer(own, width)),
        *_programs(results, width),
        *(_section(title, [*lines], width) for title, lines in sections.items()),
    ]
    return "\n".join(filter(None, texts))


def _answer(rows: Sequence[ResultRow], width: int | None) -> str:
    return text_table(rows, (*ANSWER, *cost_columns(rows)), width)


def _programs(results: Results, width: int | None) -> Iterable[str]:
    """The tables of programs that are timed without epochs: one for strong scaling, one for weak scaling."""
    for kind in ("strong", "weak"):
        rows = [row for row in results.programs if row.is_weak is (kind == "weak")]
        notes = list(dict.fromkeys(note for row in rows for note in row.notes))
        table = text_table(rows, numbers.PROGRAM, width)
        yield _section(f"Programs, {kind} scaling (± from rounding)", notes, width, table)


def _section(title: str, lines: Sequence[str], width: int | None, table: str = "") -> str:
    """A title with a table and lines under it; "" where there is neither."""
    if not (lines or table):
        return ""
    told = (*fitted_lines([title], width), table, *fitted_lines([f"  {line}" for line in lines], width))
    return "".join(f"{line}\n" for line in told if line)


def _accelerations(results: Results) -> Iterable[str]:
    for row in results.measured:
        if row.acceleration is not None:
            shown, printed = ratio_text(row.acceleration), row.printed_acceleration
            plain = "" if printed is None else f"as printed {ratio_text(printed)}"
            more = "; ".join(filter(None, (bounds_text(row.acceleration, shown), plain)))
            yield f"{clean(row.title)}: one GPU is {shown} times as fast as the CPU{f' ({more})' if more else ''}."


def scaling_sentences(results: Results) -> Iterable[str]:
    """What each doubling of the GPUs gained."""
    for line in scaling.scaling_lines(results.measured):
        told = [(row.n_gpus, row.doubling_gain) for row in line.rows if row.doubling_gain]
        gains = ", ".join(f"{n_gpus} GPUs {100 * gain.value:+.0f} %" for n_gpus, gain in told)
        said = f"{line.last.configuration.unit} per second gained by doubling the GPUs (100 % is ideal): {gains}."
        if gains:
            yield f"{clean(line.rows[0].name)}: {said}"


def losses_text(
    rows: Sequence[ResultRow], clocks: Sequence[str], width: int | None = None, notes: Iterable[str] = ()
) -> str:
    """Where the efficiency of rows goes: a table of the points lost by each cause, and remarks; `clocks`: one a row."""
    causes = (*scaling.COLOUR_OF_PART, scaling.UNEXPLAINED)
    columns = (numbers.Column(cause, partial(_points_lost, cause), optional=True) for cause in causes)
    table = text_table(rows, (*ANSWER[: numbers.NAMING], numbers.EFFICIENCY, *columns), width)
    parts = (part for row in rows for part in scaling.lost_efficiency(row) if part.is_shown)
    shown = {part.name: part.evidence for part in parts}
    known = "; ".join(f"{cause}: from {evidence}" for cause, evidence in shown.items())
    remarks = [f"Points of efficiency lost by each cause ({known})."] if known else []
    for row, clock in zip(rows, clocks, strict=True):
        remarks += [f"{clean(row.label)}: {said}" for said in (clock, *loss_remarks(row)) if said]
    return "".join(f"{line}\n" for line in (table, *fitted_lines([*remarks, *notes], width)) if line)


def loss_remarks(row: ResultRow) -> Iterable[str]:
    """Which GPU the others wait for, the energy beside the speedup, and the step's efficiency as POP metrics.

    The product of the POP project's metrics is the efficiency of a step.
    """
    rank = row.step_times.slowest_rank if row.step_times else None
    waits = any(part.name == scaling.WAITING_FOR_SLOWEST for part in scaling.lost_efficiency(row))
    if rank is not None and waits:
        yield f"The other GPUs wait for that of rank {rank}."
    mine, theirs = row.joules_per_image, row.baseline.joules_per_image if row.baseline else None
    if mine is not None and theirs is not None and theirs.lo > 0:
        times = f"{ratio_text(row.speedup)} times as fast, {ratio_text(mine.over(theirs))} times the energy"
        joules = (numbers.three_digits(each.value) for each in (mine, theirs))
        yield f"{times} ({' J per image, '.join(joules)} J on one)."
    values = [f"{name} {percent_text(value)}" for name, value in scaling.pop_metrics(row).items()]
    if values:
        yield f"As POP metrics: {', '.join(values)}."


def _points_lost(cause: str, row: ResultRow) -> str:
    lost = {p.name: (p.text, p.share) for p in scaling.lost_efficiency(row) if p.is_shown}
    text, share = lost.get(cause, (numbers.ABSENT, Interval.exact(0.0)))
    return text + numbers.plus_minus(100 * share.half_width, len(text.partition(".")[2]))


def use_sentence(use: RunUtilization, row: ResultRow) -> str:
    """The mean GPU use of a run of a row after the first epoch, and how many GPUs of its job were idle."""
    job = f" (job {clean(use.run.job_id)})" if use.run.job_id else ""
    if use.steady is None:
        return f"{clean(row.label)}{job}: not known, too few samples after the first epoch."
    were = "was" if use.standing_by == 1 else "were"
    idle = f"; {use.standing_by} of the job's GPUs {were} idle" if use.standing_by else ""
    return f"{clean(row.label)}{job}: {percent_text(use.steady)} busy after the first epoch{idle}."


def cost_lines(cost: LabCost | None) -> Iterable[str]:
    """GPU-hours of the lab and of each task; nothing when no job used the cluster."""
    if cost is None or not cost.total.jobs:
        return
    total, jobs = cost.total, plural(cost.total.jobs, "job")
    yield f"lab: {total.allocated:.2f} allocated, {total.used:.2f} used by training, {jobs}"
    if total.used > total.allocated:
        yield "More is used than allocated: job files do not ask Slurm for the GPUs of their runs."
    if cost.practice:
        yield "With a fast clock, start-up takes more of these hours than on a real cluster."
    for task, each in sorted(cost.tasks.items(), key=lambda item: (not item[0], natural_key(item[0]))):
        name = f"task {clean(task)}" if task else "own jobs"
        yield f"{name}: {each.allocated:.2f} allocated, {each.used:.2f} used"


# --------------------------------------------------------------------------- JSON

Json = dict[str, Any]

_IDENTITY = "model name device=configuration.device n_gpus batch_size runs epochs"
_SOURCES = "practice=mark small=mark live notes sources=origins"
_ORIGIN = "path=source job_id run=run_id epoch line"
_ROW = f"""{_IDENTITY} epoch_seconds throughput speedup efficiency as_printed batch_factor step_factor
    karp_flatt doubling_gain data_set=configuration.data_set
    unit=configuration.unit sequence_length=configuration.sequence_length total_seconds gpu_memory_gib=gpu_memory
    per_gpu_batch_size=configuration.per_gpu_batch images=configuration.images images_bound=images steps step_seconds
    per_gpu_throughput warmup_seconds acceleration acceleration_as_printed=printed_acceleration epochs_read
    joules_per_image framework=configuration.framework {_SOURCES}"""
_UNSTEADY = f"{_IDENTITY} epochs_read warmup_seconds {_SOURCES}"
_FIT = "model=baseline.model law serial_fraction n_gpus baseline_batch_size=baseline.batch_size practice=baseline.mark"
_OUTLOOK = """model=line.last.model line=line.name measured n_gpus speedup_same_step=same speedup_growing_step=grows
    practice=line.last.mark"""
_LEFT_OUT = "path=run.source run=run.run_id model=run.run.model n_gpus=run.run.n_gpus reason"
_PROGRAM = """program=model scaling=program.scaling size counts=program.counts baseline=compared_with
    processes runs seconds=epoch_seconds speedup efficiency weak_efficiency=efficiency notes sources=origins
    practice=mark"""
_CURVE = """model=run.run.model n_gpus=run.run.n_gpus batch_size=run.run.batch_size run=run.run_id path=run.source
    metric validation"""
_USE = "model=run.run.model n_gpus=run.run.n_gpus run=run.run_id job_id=run.job_id steady standing_by"
_TOTAL = "jobs gpu_hours_allocated=allocated gpu_hours_used=used core_hours"
_JOB = "job_id task=task_id gpus wall_seconds gpu_hours_allocated=allocated gpu_hours_used=used running"
_RUN = """model device n_gpus batch_size epochs_planned outcome images learning_rate printed_throughput=printed_rate
    batch_seconds total_seconds gpu_memory_gib=gpu_memory batch_per_gpu contradictions interleaved processes
    practice=mark small=mark framework first_line last_line"""
_EPOCH = """epoch count seconds=seconds.value lo=seconds.lo hi=seconds.hi printed_seconds steps ms_per_step source
    starts_process line"""


def _json(thing: object, fields: str) -> Json:
    """An object's `fields` as JSON values; ``name=path`` where the attribute has another name; marks are booleans."""
    pairs = (field.partition("=") for field in fields.split())
    values = ((name, attrgetter(path or name)(thing)) for name, _, path in pairs)
    return {name: value == name if name in MARKS else _plain(value) for name, value in values}


def _plain(value: Any) -> Any:
    """A value for JSON; an interval is ``{"value", "lo", "hi"}``. Units: s, images per s, ratios, fractions of 1."""
    if isinstance(value, float):
        short = float(f"{value:.12g}")  # 2.6752, not 2.6752000000000002: the noise of a sum
        return short if abs(short - value) <= 4 * math.ulp(value) else value
    if isinstance(value, (Interval, measured.AsPrinted)):
        return {name: _plain(each) for name, each in asdict(value).items()}
    if isinstance(value, measured.Origin):
        found = _json(value, _ORIGIN)
        return found | {"job_id": found["job_id"] or None}
    return [_plain(each) for each in value] if isinstance(value, tuple) else value


def results_json(results: Results) -> Json:
    """All results as JSON values."""
    told = [(fit, {"points": len(fit.n_gpus), "note": " ".join(fit.remarks) or None}) for fit in results.fits]
    return {
        "images": results.images,
        "rows": [row_json(row) for row in results.measured],
        "fits": [_json(fit, _FIT) | more for fit, more in told],
        "outlooks": [_json(outlook, _OUTLOOK) for outlook in scaling.outlooks(results.rows)],
        "without_steady_time": [_json(row, _UNSTEADY) for row in results.rows if not row.is_measured],
        "left_out": [_json(left, _LEFT_OUT) for left in results.left_out],
        "programs": [program_json(row) for row in results.programs],
    }


def row_json(row: ResultRow) -> Json:
    # other programs read a policy's name with this word
    options = ((n, f"{v} rate" if n == "lr_policy" else v) for n, v in row.configuration.tuning)
    deviation = row.scatter.deviation if row.scatter else None
    return _json(row, _ROW) | {"scatter_seconds": deviation, "tuning": list(tuning_words(tuple(options)))}


def program_json(row: ResultRow) -> Json:
    other = "efficiency" if row.is_weak else "weak_efficiency"
    return _json(row, _PROGRAM) | {"size": row.size or None, other: None}


def accuracy_json(results: Results) -> list[Json]:
    """Every accuracy curve: fractions of 1 by epoch, and the best."""
    return [_curve_json(curve) for curve in measured.all_curves(results)]


def _curve_json(curve: measured.AccuracyCurve) -> Json:
    points = [_json(point, "epoch accuracy line") for point in curve.points]
    return _json(curve, _CURVE) | {"points": points, "best": _json(curve.best, "epoch accuracy")}


def utilization_json(use: RunUtilization) -> Json:
    """GPU use of one run, fractions of 1."""
    return _json(use, _USE) | {"job_id": use.run.job_id or None}


def cost_json(cost: LabCost) -> Json:
    """GPU-hours allocated and used: the lab, its tasks, its jobs; `practice`: they were rehearsed and cost nothing."""
    return {
        "practice": cost.practice,
        "total": _json(cost.total, _TOTAL),
        "tasks": {task: _json(total, _TOTAL) for task, total in cost.tasks.items()},
        "jobs": [_json(job, _JOB) for job in cost.jobs],
    }


def loss_json(row: ResultRow) -> Json:
    """Where a row's efficiency went: the lost parts and the POP project's metrics, as fractions of 1."""
    return _json(row, "model n_gpus practice=mark small=mark efficiency") | {
        "sentence": messages.loss_sentence(row),
        "parts": [_json(part, "name share evidence") for part in scaling.lost_efficiency(row)],
        "slowest_rank": row.step_times.slowest_rank if row.step_times else None,
        "pop": {name: _plain(value) for name, value in scaling.pop_metrics(row).items()},
    }


# --------------------------------------------------------------------------- a log by itself


def run_json(run: ParsedRun, row: ResultRow) -> Json:
    """One run; `throughput` (images per second) is that of `labtui results`, lines count from 1.

    `printed_throughput` is the rate that the log prints, `images_bound` the bounds it gives for the images per epoch.
    """
    return _json(run, _RUN) | {
        "epochs": [_epoch_json(sample) for sample in run.epochs],
        "throughput": _plain(row.throughput),
        "steady_seconds": _plain(row.epoch_seconds),
        "images_bound": _plain(row.images),
        "notes": list(notes_of_run(run, row)),
        "program": None if run.program is None else run.program.name,
        "size": run.size or None,
    }


def _epoch_json(sample: EpochSample) -> Json:
    """One epoch, or the mean of a block of `count` epochs that begins with it.

    JSON has no nan or inf: such a metric is null, and `not_finite` says which it was.
    `ms_per_step` is as printed (1000 for Keras's "1s/step"); `step_seconds` is the epoch's time over its steps.
    """
    finite = {name: value if math.isfinite(value) else None for name, value in sample.metrics.items()}
    return _json(sample, _EPOCH) | {
        "step_seconds": _plain(step_seconds(sample)),
        "metrics": finite,
        "not_finite": {name: str(sample.metrics[name]) for name, value in finite.items() if value is None},
    }


def step_seconds(sample: EpochSample) -> Interval | None:
    """Seconds per step, with the bounds of the epoch's time; None without a number of steps or for batch means.

    Never less precise than Keras's own step time, which the epoch's interval already takes into account.
    """
    if not sample.steps or sample.source == "pytorch":  # its epoch time is the sum of printed batch means
        return None
    return sample.seconds.scaled(1 / sample.steps)


def notes_of_run(run: ParsedRun, row: ResultRow) -> tuple[str, ...]:
    """The notes of a run's row; only those from reading the log where the run has no epoch and no rate."""
    if run.program is not None or (not run.epochs and run.throughput is None):
        return run.notes
    # the title already has its outcome and its epochs
    return tuple(note for note, about in row.remarks if about != "end")
