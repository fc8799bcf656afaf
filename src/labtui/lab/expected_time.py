"""A job's expected time and cost, from the student's own results or from published numbers; and its time limit. Pure.

The limit is from published numbers alone: the job script of a plan is the same before and after the first results.
"""

import math
import statistics
from collections.abc import Sequence, Set

from msgspec.structs import astuple, replace

from labtui.domain.model import Interval, Program, RunSpec, SubmissionDraft
from labtui.domain.profile import Profile
from labtui.domain.tuning import Tuning, named_options, without_option
from labtui.lab.edition import Edition, images_of
from labtui.results.measured import own_options, sized_options, steady_samples
from labtui.results.rows import ResultRow
from labtui.slurm.values import number

LIMIT_MARGIN = 2.0
"""The time limit is the longest expected time, times this: a job cut short costs more than a longer wait."""
STARTUP_SPREAD = 2.0
"""One start-up does not say what the next one's will be: up to this many times as long, or as short."""
MIN_MINUTES = 10
UNKNOWN_MINUTES = 75
"""The limit in the course's own job files; used if nothing is known about a run's time."""
STEP_MINUTES = 5


def time_and_cost(
    draft: SubmissionDraft, edition: Edition, rows: Sequence[ResultRow] = ()
) -> tuple[Interval | None, Interval | None]:
    """The seconds that a job's runs should take, and the GPU-hours it should use within its limit; None if unknown.

    The student's own results (`rows`) take precedence over the edition's bands, and what their jobs took beside the
    epochs over the edition's start-up. Waiting in the queue is not included.
    """
    whole = sum_intervals([run_seconds(run, edition, rows, draft.cpus * draft.nodes) for run in draft.runs])
    if whole is None:
        return None, None
    limit = draft.time_limit_minutes * 60.0 or whole.hi  # Slurm ends the job there
    spent = Interval(min(whole.value, limit), min(whole.lo, limit), min(whole.hi, limit))
    return whole, spent.scaled(draft.total_gpus / 3600)


def time_limit(
    draft: SubmissionDraft, edition: Edition, profile: Profile, prescribed: Sequence[int] = ()
) -> int:
    """The minutes to ask for, within the queue's limit: those prescribed for the runs, else their expected time.

    The prescribed limits of trainings that torchrun starts one after another add up; else the longest counts. An
    expected time is multiplied by `LIMIT_MARGIN`, rounded up to `STEP_MINUTES`, and at least `MIN_MINUTES`.
    """
    if any(prescribed):
        in_turn = draft.form == "one-job" and draft.runs[0].launcher == "torchrun"
        minutes = sum(prescribed) if in_turn else max(prescribed)
    else:
        seconds = sum_intervals([run_seconds(run, edition, ()) for run in draft.runs])
        minutes = UNKNOWN_MINUTES if seconds is None else math.ceil(seconds.hi * LIMIT_MARGIN / 60)
        minutes = max(MIN_MINUTES, STEP_MINUTES * math.ceil(minutes / STEP_MINUTES))
    return profile.within_limit(draft.queue, minutes)


def sum_intervals(parts: Sequence[Interval | None]) -> Interval | None:
    """The sum of times or costs; None if one of them is unknown, or there are none."""
    known = [part for part in parts if part is not None]
    if not known or len(known) < len(parts):
        return None
    return Interval(sum(p.value for p in known), sum(p.lo for p in known), sum(p.hi for p in known))


def run_seconds(run: RunSpec, edition: Edition, rows: Sequence[ResultRow], cpus: int = 0) -> Interval | None:
    """The expected seconds of a run alone; those of a control run are those of its training with as many epochs.

    None if there is neither a measured nor a published time, or if a job file of the student's own does not say what
    the run is. A script of the student's own takes the time of runs with the same script and options, on as many
    `cpus` if on a CPU; those also tell a batch and epochs that the job file leaves open.
    """
    is_own = run.script not in edition.run_scripts and not run.variant
    if set(run.unknown) - ({"batch_size", "epochs"} if is_own else set()):
        return None
    if run.is_control:
        run = replace(run, extra_args=without_option(run.extra_args, "--control"))
    if run.program is not None:
        return _program_seconds(run, run.program, edition)
    given = number(named_options((*run.arguments, *run.extra_args)).get("images", ""))
    images = None if is_own else given or images_of(edition, run.data_set, None)
    tuning = own_options(run, cpus) if is_own else sized_options(run)
    row = _matching_row(run, {run.model, run.called(edition.names).model}, rows, tuning, images)
    if row is not None:
        epoch, first = _measured_times(row, run)
    elif is_own or tuning != run.tuning:  # nothing is published about other pixels
        return None
    else:
        epoch, first = _from_bands(run, edition), _from_bands(run, edition, "first_epoch_seconds")
    planned = [member.run.epochs_planned or 0 for member in row.members] if row is not None else []
    epochs = run.epochs or max(planned, default=0)
    if epoch is None or not epochs:
        return None
    timed_images = row.configuration.images if row is not None else images_of(edition, run.data_set, None)
    if images and timed_images and images != timed_images:
        epoch, first = _with_images(epoch, first, images / timed_images)
    startup = _startup_seconds([each for each in rows if row is not None and each.mark == row.mark], edition)
    warm_up = first if first is not None else Interval(epoch.value * 2, epoch.lo, epoch.hi * 4)
    return sum_intervals([startup, warm_up, epoch.scaled(epochs - 1)])


def _program_seconds(run: RunSpec, program: Program, edition: Edition) -> Interval | None:
    """The published time of a program, and of its run on one process if it measures that, too."""
    found, baseline = (_from_bands(replace(run, processes=n), edition) for n in (run.processes, 1))
    measures_both = any("{baseline_" in line for line in program.lines)
    return sum_intervals([found, baseline]) if measures_both and baseline is not None else found


def _measured_times(row: ResultRow, run: RunSpec) -> tuple[Interval | None, Interval | None]:
    """The seconds of an epoch with the run's batch, and of the first one, from a row of the student's own results.

    The bounds hold each epoch of the row: those of the mean do not say how epochs differ.
    """
    mean, first = row.epoch_seconds, row.warmup_seconds
    if mean is None:
        return None, None
    seen = [mean, *(sample.seconds for member in row.members for sample in steady_samples(member))]
    measured = Interval(mean.value, min(each.lo for each in seen), max(each.hi for each in seen))
    epoch = _with_batch(measured, row.batch_size, run)
    if first is not None:  # what a first epoch takes longer does not depend on the batch
        lo, hi = first.lo - measured.lo + epoch.lo, first.hi - measured.hi + epoch.hi
        first = Interval(first.value, max(0, lo), hi)
    return epoch, first


def _with_images(epoch: Interval, first: Interval | None, ratio: float) -> tuple[Interval, Interval | None]:
    """The seconds with `ratio` times the images; what a first epoch takes longer does not depend on them."""
    left_out = epoch.scaled(1 - ratio)
    first = first and Interval(*(max(0.0, bound) for bound in astuple(first.minus(left_out))))
    return epoch.scaled(ratio), first


def _startup_seconds(rows: Sequence[ResultRow], edition: Edition) -> Interval:
    """What a job takes before its first epoch: as the jobs of these rows, of any size, else as the edition says.

    An end that Slurm noticed late only makes it longer.
    """
    startups = [run.startup for row in rows for run in row.members if run.startup is not None]
    usual, longest = edition.startup_seconds
    if not startups:
        return Interval(usual, usual, longest)
    usual = statistics.median_low(startups)
    return Interval(usual, min(usual / STARTUP_SPREAD, *startups), max(usual * STARTUP_SPREAD, *startups))


def _with_batch(seconds: Interval, batch: int | None, run: RunSpec) -> Interval:
    """An epoch's seconds with the run's batch, from those with `batch`.

    A GPU that is kept busy takes as long for the same images; the bounds include a time proportional to the steps.
    """
    if not batch or not run.batch_size or run.program is not None:
        return seconds
    ratio = batch / run.batch_size  # of the steps
    return Interval(seconds.value, seconds.lo * min(1, ratio), seconds.hi * max(1, ratio))


def _matching_row(
    run: RunSpec, names: Set[str], rows: Sequence[ResultRow], tuning: Tuning, images: int | None
) -> ResultRow | None:
    """The row of the student's own results with the run's configuration, if any; `names` are those of its model.

    The same images and the same batch are preferred, and real runs to practice runs. A small run tells nothing about
    one with other images.
    """
    wanted = (run.n_gpus, run.data_set, tuning)
    same = [
        row
        for row in reversed(rows)
        if row.model in names
        and (row.n_gpus, row.configuration.data_set, row.configuration.tuning) == wanted
        and row.epoch_seconds is not None  # None while a run has only its warm-up epoch
        and (row.mark != "small" or images in (None, row.configuration.images))
    ]

    def rank(row: ResultRow) -> tuple[bool, ...]:
        mine = row.configuration
        return (row.mark != "practice", mine.images == images, not row.mark, row.batch_size == run.batch_size)

    return max(same, key=rank, default=None)


def _from_bands(run: RunSpec, edition: Edition, quantity: str = "epoch_seconds") -> Interval | None:
    """The interval of the band that fits a run best: with the same batch, else scaled from another batch."""
    wanted = "seconds" if run.program is not None else quantity
    bands = (band for band in edition.bands if band.quantity == wanted)
    fitting = (band for band in bands if band.matches(replace(run, batch_size=band.batch_size or 1)))
    band = min(fitting, key=lambda band: band.batch_size != run.batch_size, default=None)
    if band is None:
        return None
    return _with_batch(Interval(band.value, band.low, band.high), band.batch_size, run)
