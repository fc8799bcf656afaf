"""From runs to rows: epoch time, throughput, speedup, efficiency and where the efficiency went.

    throughput   images per epoch / T_n
    speedup      S_n = T_1 / T_n        in [lo_1/hi_n, hi_1/lo_n]
    efficiency   E_n = S_n / n
    split        E_n = (steps_1/steps_n)/n  x  (step time_1 / step time_n), exactly

The baseline is one GPU with the same model and the same per-GPU batch. CPU against GPU is acceleration, a
ratio of its own that enters no scaling number.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from fractions import Fraction

from labtui.core.interval import Interval
from labtui.core.model import DEEDS
from labtui.core.results import printed
from labtui.core.results.grouping import find_baseline, group_runs, same_work
from labtui.core.results.laws import karp_flatt
from labtui.core.results.measured import MeasuredRun, ended_early
from labtui.core.results.rows import Configuration, ResultRow, Results
from labtui.core.results.scaling import fit_laws, predict
from labtui.core.results.steady import SHORTEST, mean_interval, scatter_of, steady_samples, warmup_sample
from labtui.core.results.trace import Origin

CIFAR10_IMAGES = 50_000
PREDICTED_GPUS = 8
_NAMELESS = "The log names no model: its runs are taken for one model and compared with one another only."


def compute_results(runs: Iterable[MeasuredRun], *, images: int = CIFAR10_IMAGES) -> Results:
    """All numbers of these runs. `images` per epoch counts where a log does not tell its own."""
    groups, left_out = group_runs(runs, images)
    rows = {
        configuration: _measure(configuration, tuple(members)) for configuration, members in groups.items()
    }
    measured = {key: row for key, row in rows.items() if row.epoch_seconds is not None}
    compared = tuple(_compare(row, measured) for row in rows.values())
    fits = fit_laws(compared)
    return Results(
        images=images,
        rows=compared,
        fits=fits,
        predictions=predict(compared, fits, n_gpus=PREDICTED_GPUS),
        left_out=left_out,
        notes=_overall_notes(compared),
    )


# --------------------------------------------------------------------------- one configuration by itself


def _measure(configuration: Configuration, members: tuple[MeasuredRun, ...]) -> ResultRow:
    """Times and rates of one configuration, before it is compared with another."""
    samples = [(run, sample) for run in members for sample in steady_samples(run)]
    seconds = mean_interval([sample.seconds for _, sample in samples])
    rates = [] if seconds else [run for run in members if run.run.throughput is not None]
    steps, notes = _steps(configuration, members)
    row = ResultRow(
        configuration=configuration,
        members=members,
        runs=len({id(run) for run, _ in samples}) or len(rates) or len(members),
        epochs=len(samples),
        epochs_read=sum(len(run.run.epochs) for run in members),
        live=any(run.live for run in members),
        steps=steps,
        epoch_seconds=seconds,
        throughput=None,
        warmup_seconds=mean_interval([first.seconds for run in members if (first := warmup_sample(run))]),
        notes=(*notes, *_run_notes(members)),
    )
    if rates:
        return _from_rates(row, rates)
    if seconds is None:
        return replace(row, notes=(*row.notes, _no_steady_time(row)), origins=_warmup_origins(members))
    return replace(
        row,
        throughput=Interval.exact(configuration.images).over(seconds) if seconds.lo >= SHORTEST else None,
        scatter=scatter_of([sample.seconds.value for _, sample in samples]),
        step_seconds=seconds.scaled(1 / steps) if steps else None,
        origins=tuple(run.origin(sample) for run, sample in samples),
    )


def _from_rates(row: ResultRow, runs: list[MeasuredRun]) -> ResultRow:
    """A row from logs that print images per second and no epoch times."""
    rate = mean_interval([run.run.throughput for run in runs if run.run.throughput is not None])
    if rate is None or rate.lo < SHORTEST:
        return replace(row, notes=(*row.notes, "The log prints no usable rate."))
    images = row.configuration.images
    seconds = Interval.exact(images).over(rate)
    note = f"The log gives a rate; the epoch time is what {images:,} images take at that rate."
    return replace(
        row,
        epoch_seconds=seconds,
        throughput=rate,
        step_seconds=seconds.scaled(1 / row.steps) if row.steps else None,
        from_rate=True,
        notes=(*row.notes, note),
        origins=tuple(run.origin() for run in runs),
    )


def _warmup_origins(members: tuple[MeasuredRun, ...]) -> tuple[Origin, ...]:
    return tuple(run.origin(first) for run in members if (first := warmup_sample(run)))


def _steps(
    configuration: Configuration, members: tuple[MeasuredRun, ...]
) -> tuple[int | None, tuple[str, ...]]:
    """Steps per epoch: as the log prints them, else from the batch; a note when the two disagree."""
    printed_steps = {sample.steps for run in members for sample in run.run.epochs if sample.steps is not None}
    batch = configuration.batch_size
    expected = math.ceil(configuration.images / batch) if batch else None
    if len(printed_steps) != 1:
        return expected, ()
    (steps,) = printed_steps
    if expected is None or steps == expected:
        return steps, ()
    note = (
        f"The log prints {steps:,} steps per epoch, but {configuration.images:,} images in global batches of "
        f"{batch:,} are {expected:,}: the number of images per epoch may be another."
    )
    return steps, (note,)


def _run_notes(members: tuple[MeasuredRun, ...]) -> tuple[str, ...]:
    notes = []
    if guessed := sorted({word for run in members for word in run.guessed}):
        notes.append(f"The {' and '.join(guessed)} was read from the file's name; the log does not tell.")
    if early := [DEEDS[run.run.outcome] for run in members if ended_early(run.run.outcome)]:
        notes.append(f"{len(early)} of these runs ended early ({', '.join(sorted(set(early)))}).")
    if cut := sum(run.run.outcome == "unfinished" and not run.live for run in members):
        notes.append(f"{cut} of these runs {'is' if cut == 1 else 'are'} unfinished in the log.")
    if any(run.run.interleaved for run in members):
        notes.append("Several workers wrote into the same log; the times are the first worker's.")
    return (*notes, *dict.fromkeys(doubt for run in members for doubt in run.doubts))


def _no_steady_time(row: ResultRow) -> str:
    if row.live:
        return "Only the first epoch is there yet, and it is warm-up: no steady time so far."
    return (
        "Only the first epoch was run, and it is warm-up: there is no steady time. Run at least two epochs."
    )


# --------------------------------------------------------------------------- compared with a baseline


def _compare(row: ResultRow, measured: Mapping[Configuration, ResultRow]) -> ResultRow:
    """The row with its ratios: to one GPU, and to the CPU."""
    baseline_key, note = find_baseline(row.configuration, tuple(measured))
    baseline = measured.get(baseline_key) if baseline_key else None
    row = replace(row, as_printed=_as_printed(row, baseline), baseline=baseline_key)
    if row.epoch_seconds is None:
        return row
    row = _with_acceleration(row, measured)
    if baseline is None:
        if row.device == "gpu":
            note = "There is no one-GPU run of this model to compare with, so no speedup."
        return replace(row, notes=(*row.notes, note) if note else row.notes)
    row = _with_speedup(row, baseline)
    notes = (note, _NAMELESS if row.configuration.apart and row.configuration != baseline_key else "")
    return replace(row, notes=(*row.notes, *filter(None, notes)))


def _with_speedup(row: ResultRow, baseline: ResultRow) -> ResultRow:
    n, mine, theirs = row.n_gpus, row.epoch_seconds, baseline.epoch_seconds
    if n is None or mine is None or theirs is None or min(mine.lo, theirs.lo) < SHORTEST:
        return row
    is_baseline = row.configuration == baseline.configuration
    speedup = Interval.exact(1.0) if is_baseline else _ratio(row, baseline)
    changes = replace(
        row, speedup=speedup, efficiency=speedup.scaled(1 / n), karp_flatt=karp_flatt(speedup, n)
    )
    if not row.steps or not baseline.steps:
        return changes
    # The split must be exact: the second factor is what the first leaves of the efficiency.
    batch_factor = baseline.steps / row.steps / n
    return replace(changes, batch_factor=batch_factor, step_factor=speedup.scaled(row.steps / baseline.steps))


def _ratio(row: ResultRow, baseline: ResultRow) -> Interval:
    """How many times faster `row` is than `baseline`; from the printed rates where both have one."""
    if row.from_rate and baseline.from_rate and row.throughput and baseline.throughput:
        return row.throughput.over(baseline.throughput)
    assert row.epoch_seconds is not None and baseline.epoch_seconds is not None  # noqa: S101 - callers looked
    return baseline.epoch_seconds.over(row.epoch_seconds)


def _as_printed(row: ResultRow, baseline: ResultRow | None) -> printed.AsPrinted:
    n = row.n_gpus or None
    if row.from_rate and row.throughput:
        rate = baseline.throughput.value if baseline and baseline.from_rate and baseline.throughput else None
        return printed.printed_from_rate(row.throughput.value, rate, n_gpus=n)
    return printed.printed_from_seconds(
        printed.printed_epoch_seconds(row.members),
        printed.printed_epoch_seconds(baseline.members) if baseline else None,
        n_gpus=n,
        images=row.configuration.images,
    )


def _with_acceleration(row: ResultRow, measured: Mapping[Configuration, ResultRow]) -> ResultRow:
    """CPU time over GPU time, for one GPU only: more would mix in scaling."""
    if row.device != "gpu" or row.n_gpus != 1 or row.epoch_seconds is None or row.epoch_seconds.lo < SHORTEST:
        return row
    cpus = [
        other
        for other in measured.values()
        if other.device == "cpu" and same_work(other.configuration, row.configuration)
    ]
    same_batch = [cpu for cpu in cpus if _same_batch(cpu, row)]
    if not same_batch or same_batch[0].epoch_seconds is None:
        return row
    cpu = same_batch[0]
    mine, theirs = (printed.printed_epoch_seconds(each.members) for each in (row, cpu))
    plain = printed.round_half_up(Fraction(theirs) / mine, 2) if mine and theirs else None
    return replace(row, acceleration=_ratio(row, cpu), printed_acceleration=plain)


def _same_batch(one: ResultRow, other: ResultRow) -> bool:
    """Whether two single-device runs have the same batch; where a log does not say it, the steps tell."""
    if one.batch_size is None or other.batch_size is None:
        return one.steps is not None and one.steps == other.steps
    return one.batch_size == other.batch_size


def _overall_notes(rows: tuple[ResultRow, ...]) -> tuple[str, ...]:
    notes = []
    if any(row.practice for row in rows):
        notes.append("Practice runs are counted apart from real ones.")
    if any(row.live for row in rows):
        notes.append("Some runs are still going; their numbers will move.")
    return tuple(notes)
