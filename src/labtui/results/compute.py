"""Computes result rows from measured runs: pools repetitions, compares each configuration with its baseline."""

import math
import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from fractions import Fraction

from msgspec.structs import replace

from labtui.domain.model import EpochSample, Interval, plural
from labtui.results import grouping, laws, measured, scaling
from labtui.results.grouping import CIFAR10_IMAGES, Configuration, configuration_of, group_runs, same_images
from labtui.results.measured import SHORTEST, AsPrinted, MeasuredRun, longest, steady_samples, warmup_epochs
from labtui.results.rows import ResultRow, Results, Scatter, called_rows, compare_rates, step_times_of
from labtui.training_logs.patterns import rate_of
from labtui.training_logs.runs import rounded


def compute_results(
    runs: Iterable[MeasuredRun], *, images: int | None = None, insist: bool = False
) -> Results:
    """Compute all numbers of these runs.

    `images` per epoch are used for a log that does not print its own, unless its steps and batch contradict them;
    `insist` (a person gave the number) uses them even then. Without them the log's steps and batch bound the
    throughput, or there is none.
    """
    groups, left_out = group_runs(runs, images, insist=insist)
    alone = [_measure(key, tuple(members)) for key, members in groups.items()]
    rows = scaling.with_controls([row for row in alone if row.program is None])
    found = _index(rows)
    compared = scaling.with_hues(called_rows([with_drawn(_compare(row, found), ()) for row in rows]))
    return Results(
        images=CIFAR10_IMAGES if images is None else images,
        rows=tuple(compared),
        fits=laws.fit_laws(compared),
        left_out=left_out,
        programs=scaling.program_rows(alone),
    )


# --------------------------------------------------------------------------- one configuration by itself


def measure(run: MeasuredRun) -> ResultRow:
    """Times and rates of one run from its log alone, as `compute_results` of that log gives them."""
    return _measure(configuration_of(run, None, run.source, insist=False), (run,))


def with_drawn(row: ResultRow, numbers: Collection[int | None]) -> ResultRow:
    """The row of a task's runs, by number, all if none is given: only they are drawn; notes name others of its mean."""
    drawn = tuple(run for run in row.members if run.run_id in numbers or not numbers)
    row = replace(row, drawn=drawn, remarks=tuple(each for each in row.remarks if each[1] != "pooled"))
    return row.with_notes(*(measured.pooled_notes(row.pooled, numbers) if drawn else ()), about="pooled")


def own_rows(results: Results) -> tuple[tuple[MeasuredRun, ResultRow], ...]:
    """Each run with a row of its own numbers, even where its configuration's row pools several runs."""

    def own(run: MeasuredRun, row: ResultRow) -> ResultRow:
        alone = _measure(row.configuration, (run,))
        alone = replace(alone, apart_by=row.apart_by, called=row.called and run.called)
        return row if len(row.members) == 1 else _with_baseline(alone, row.baseline)

    return tuple((run, own(run, row)) for row in results.rows for run in row.members)


def _measure(configuration: Configuration, members: tuple[MeasuredRun, ...]) -> ResultRow:
    """Times and rates of one configuration, before it is compared with another."""
    ended = [run for run in members if not run.live and (run.run.throughput or any(steady_samples(run)))]
    counted = ended or members  # a repetition in progress does not change the numbers
    samples = [(run, sample) for run in counted for sample in steady_samples(run)]
    seconds = _pooled([[(s.seconds, s.count) for s in steady_samples(run)] for run in counted])
    warm = ((run, warmup_epochs(run.run)) for run in members)
    firsts = [(run, next(s for s in run.run.epochs if s.epoch in epochs)) for run, epochs in warm if epochs]
    # the rate of a training with one epoch is that of its warm-up
    rates = [run for run in counted if run.run.throughput is not None and not (seconds or run.run.epochs)]
    steps, notes = _steps(configuration, members)
    row = ResultRow(
        configuration=configuration,
        members=members,
        runs=len({id(run) for run, _ in samples}) or len(rates) or len(members),
        epochs=sum(sample.count for _, sample in samples),
        epochs_read=sum(run.run.epochs_read for run in members),
        live=any(run.live for run in counted),
        steps=steps,
        step_times=step_times_of(sample for _, sample in samples),
        epoch_seconds=seconds,
        warmup_seconds=Interval.mean([first.seconds for _, first in firsts]),
        total_seconds=Interval.mean([took for run in longest(members) if (took := run.run.total_seconds)]),
        gpu_memory=Interval.mean([run.run.gpu_memory for run in members if run.run.gpu_memory]),
        origins=tuple(run.origin(sample) for run, sample in (samples or firsts)),
    ).with_notes(*notes)
    row = row.with_notes(*filter(None, map(measured.end_note, members)), about="end")
    waits = (f"Run {r.run_id} still trains: it is not in the mean." for r in members if ended and r.live)
    row = row.with_notes(*measured.run_notes(members)).with_notes(*waits, about="live")
    if rates:
        return _from_rates(row, rates)
    if row.program is not None:
        return row
    if seconds is None:
        return row.with_notes("Only warm-up epochs were read: a steady time needs one more.")
    if seconds.lo < SHORTEST:
        return row.with_notes("The log prints 0 s: no throughput and no speedup.", about="no throughput")
    images, values = configuration.images_bound, [sample.seconds.value for _, sample in samples]
    told = None if images else _told_throughput([sample for _, sample in samples])
    remarks = [_RATE_TOLD] if told else _images_note(members[0], configuration, images)
    row = row.with_notes(*remarks, about="" if images or told else "no throughput")
    return replace(
        row,
        images=images,
        throughput=images.over(seconds) if images else told,
        joules_per_image=_joules_per_image((sample for _, sample in samples), images),
        scatter=Scatter(statistics.stdev(values), len(values)) if len(values) > 1 else None,
        step_seconds=seconds.scaled(1 / steps) if steps else None,
    )


def _pooled(runs: Sequence[Sequence[tuple[Interval, int]]]) -> Interval | None:
    """The mean of all times or rates of some runs, each with its weight; its bounds hold the mean of each run."""
    groups = ([pair for run in runs for pair in run], *runs)
    means = [Interval.mean([each for each, _ in group], [n for _, n in group]) for group in groups]
    told = [mean for mean in means if mean is not None]
    return Interval(told[0].value, min(m.lo for m in told), max(m.hi for m in told)) if told else None


def _joules_per_image(samples: Iterable[EpochSample], images: Interval | None) -> Interval | None:
    """Joules per image by the GPUs' counters: the mean of some steady epochs, bounded by the least and the most."""
    told = [each for sample in samples if 0 < (each := sample.metrics.get("energy_joules", 0.0)) < math.inf]
    energy = Interval.mean([Interval(each, min(told), max(told)) for each in told])
    return energy.over(images) if energy is not None and images is not None and images.lo > 0 else None


def _told_throughput(samples: Iterable[EpochSample]) -> Interval | None:
    """The work of some epochs over their time, from the rate that each prints: a rate counts for its epoch's time."""
    told = [(s.metrics.get(rate_of(s.metrics), 0.0), s.seconds.scaled(s.count)) for s in samples]
    known = [(rounded(f"{rate:.9g}"), time) for rate, time in told if rate > 0 < time.lo]
    rates, times = [[each[n] for each in known] for n in (0, 1)]
    if (mean := Interval.mean(rates, [time.value for time in times])) is None:
        return None
    # Least where the slow epochs took as long as they may, most where the fast ones did.
    pairs = [(time, rate.value < mean.value) for time, rate in zip(times, rates, strict=True)]
    longer = [[t.hi if each == slower else t.lo for t, each in pairs] for slower in (True, False)]
    ends = [end for weights in longer if (end := Interval.mean(rates, weights)) is not None]
    return Interval(mean.value, min(end.lo for end in ends), max(end.hi for end in ends))


_RATE_TOLD = "The throughput is the rate that the log prints: it does not say how large an epoch is."


def _images_note(run: MeasuredRun, configuration: Configuration, bound: Interval | None) -> Iterable[str]:
    """A note that says why the throughput is bounded or absent; nothing where the images are known."""
    if bound is None:
        missing = "its steps per epoch" if configuration.batch_size is not None else "its global batch"
        unsaid = f"how many images an epoch has nor {missing}"
        yield f"The log says neither {unsaid}: no throughput without `labtui results --images N`."
    elif configuration.images is None:
        known = f"{configuration.steps:,} steps of {configuration.batch_size:,} are {bound.lo:,.0f} to {bound.hi:,.0f}"
        if bound.contains(CIFAR10_IMAGES):  # one sentence for all sizes
            known = f"{CIFAR10_IMAGES:,} fits its steps and is used"
        unsaid = f"The log does not say how many images an epoch has: {known}."
        named = run.run.images and f"The log names {run.run.images:,} images an epoch, but its {known}."
        yield named or unsaid


def _from_rates(row: ResultRow, runs: list[MeasuredRun]) -> ResultRow:
    """A row from logs that print images per second and no epoch times."""
    rate = _pooled([[(run.run.throughput, 1)] for run in runs if run.run.throughput is not None])
    if rate is None or rate.lo < SHORTEST:
        return row.with_notes("The log prints no usable rate.")
    mine = row.configuration
    images = None if mine.images is None or mine.unit == "tokens" else Interval.exact(mine.images)
    a_step = row.batch_size and row.batch_size * ((mine.sequence_length or 0) if mine.unit == "tokens" else 1)
    if mine.unit == "tokens":
        note = "The rate covers all steps, including the slow first ones."
    else:
        note = "The log prints a rate and no epoch times: the cost of a short last batch is not in it."
        note += f" The epoch time is computed for {mine.images:,} {mine.unit} at that rate." if images else ""
    return replace(
        row.with_notes(note),
        images=images,
        epoch_seconds=images and images.over(rate),
        throughput=rate,
        steps=None,
        step_seconds=Interval.exact(a_step).over(rate) if a_step else None,
        from_rate=True,
        origins=tuple(run.origin() for run in runs),
    )


def _steps(configuration: Configuration, members: Sequence[MeasuredRun]) -> tuple[int | None, list[str]]:
    """Steps per epoch: as the log prints them, else from the batch; with a note where the two disagree."""
    batch, images = configuration.batch_size, configuration.images
    planned = math.ceil(images / batch) if images is not None and batch else None
    printed = {steps for run in members if (steps := grouping.printed_steps(run)) is not None}
    steps = printed.pop() if len(printed) == 1 else planned
    if planned in (None, steps):
        return steps, []
    expected = f"{images:,} images in global batches of {batch:,} are {planned:,}"
    return steps, [f"The log prints {steps:,} steps per epoch, but {expected}."]


# --------------------------------------------------------------------------- compared with a baseline


_Index = Mapping[tuple[object, ...], Sequence[ResultRow]]
"""The measured rows by device, number of GPUs and `family_key`, and by device, number of GPUs and `work_key`."""


def _index(rows: Iterable[ResultRow]) -> _Index:
    found: dict[tuple[object, ...], list[ResultRow]] = {}
    for row in rows:
        mine = row.configuration
        for key in (mine.family_key, mine.work_key) if row.is_measured else ():
            found.setdefault((mine.device, mine.n_gpus, key), []).append(row)
    return found


def _alike(mine: Configuration, device: str, n_gpus: float, found: _Index) -> list[ResultRow]:
    """The measured rows on these devices that do the same work in the same way."""
    rows = found.get((device, n_gpus, mine.work_key), ())
    return [row for row in rows if same_images(row.configuration, mine)]


def _compare(row: ResultRow, found: _Index) -> ResultRow:
    """The row with its ratios to one GPU, to half its GPUs and to the CPU."""
    baseline = _find_baseline(row, found)
    row = _with_baseline(row, baseline)
    if not row.is_measured:
        return row
    row = _with_acceleration(row, found)
    if baseline is None:
        return row.with_notes(*_explain_no_baseline(row, found), about="no speedup")
    row = _with_doubling(row, found)
    if row.is_baseline:
        return row
    row = row.with_notes(*_remarks(row, baseline), about="baseline")
    return row.with_notes(*_assumptions(row, baseline))


def _with_baseline(row: ResultRow, baseline: ResultRow | None) -> ResultRow:
    """The row with its ratios to one GPU, in both readings."""
    row = replace(row, baseline=baseline, as_printed=_as_printed(row, baseline))
    n, speedup = row.n_gpus, _ratio(row, baseline) if baseline is not None and row.is_measured else None
    if baseline is None or not n or speedup is None:
        return row
    speedup = Interval.exact(1.0) if row.pooled == baseline.pooled else speedup  # not that of one of its runs
    efficiency = speedup.scaled(1 / n)
    row = replace(row, speedup=speedup, efficiency=efficiency, karp_flatt=laws.karp_flatt(speedup, n))
    # The factors must multiply to exactly the efficiency, so the second is derived from the first.
    batch_factor = row.batch_factor_on(n, row.steps)
    if row.by_rate:
        return replace(row, batch_factor=batch_factor, step_factor=efficiency)
    if not row.steps or not baseline.steps:
        return row
    if n > 1 and row.steps == baseline.steps and None in (row.batch_size, baseline.batch_size):
        return row.with_notes(_SAME_STEPS)
    return replace(row, batch_factor=batch_factor, step_factor=speedup.scaled(row.steps / baseline.steps))


_SAME_STEPS = "The batch is unknown and the steps are those of one GPU: the lost efficiency cannot be split."


def _find_baseline(row: ResultRow, found: _Index) -> ResultRow | None:
    """The one-GPU row to compare with.

    Of several with the same images, the one with the same per-GPU batch is taken, else the same global batch, else the
    nearest per-GPU batch.
    """
    mine = row.configuration
    if mine.device != "gpu" or not mine.n_gpus or row.contradicted:
        return None
    ones = _alike(mine, "gpu", 1, found)
    return min(ones, key=lambda one: _batch_distance(one.configuration, mine), default=None)


def _batch_distance(one: Configuration, other: Configuration) -> tuple[bool, bool, float]:
    mine, theirs = one.per_gpu_batch, other.per_gpu_batch
    ratio = abs(math.log(mine / theirs)) if mine and theirs else math.inf
    return (mine != theirs, one.batch_size != other.batch_size, ratio)


NO_ONE_GPU_RUN = "There is no one-GPU run of this model trained in the same way, so there is no speedup."


def _explain_no_baseline(row: ResultRow, found: _Index) -> Iterable[str]:
    """Why a row has no speedup; nothing for one that needs none."""
    mine = row.configuration
    if mine.device != "gpu" or (mine.control and not row.contradicted):
        return
    if row.contradicted:
        yield "Its log contradicts itself, so this run is not compared with others."
    elif family := found.get(("gpu", 1, mine.family_key)):
        lacking = grouping.what_others_lack(mine, [one.configuration for one in family])
        yield f"No one-GPU run of this model has {lacking}, so there is no speedup."
    else:
        yield NO_ONE_GPU_RUN


MAX_EFFICIENCY, UNLIKE = 1.05, 1.1
"""Above these a note asks for a check: the efficiency, and the slowest of pooled runs over the fastest."""


def _remarks(row: ResultRow, baseline: ResultRow) -> Iterable[str]:
    """How the baseline was measured, and whether it suits the row."""
    mine, theirs = row.configuration.per_gpu_batch, baseline.configuration.per_gpu_batch
    if mine is None or theirs is None:
        yield "The per-GPU batch of this run or of its one-GPU baseline is not known, so they may differ."
    elif mine != theirs:
        words = f"{baseline.configuration.batch_words}, this run {mine:,.0f}"
        yield f"The one-GPU baseline has {words}: the speedup mixes both effects."
    timed = baseline.pooled
    if len(timed) > 1:
        numbers = ", ".join(str(run.run_id) for run in timed if run.run_id)
        yield f"The one-GPU baseline is the mean of {f'runs {numbers}' if numbers else plural(len(timed), 'run')}."
        means = sorted(row.epoch_seconds.value for row in map(measure, timed) if row.epoch_seconds)
        if means and means[-1] > UNLIKE * means[0]:
            yield f"The runs of the one-GPU baseline differ: {means[0]:.3g} to {means[-1]:.3g} s an epoch."
    if row.efficiency is not None and row.efficiency.value > MAX_EFFICIENCY:
        yield "Faster than ideal: check batch, precision and machine of this run and of its one-GPU baseline."


def _assumptions(row: ResultRow, baseline: ResultRow) -> Iterable[str]:
    if row.configuration.apart:
        yield "The log names no model: its runs are treated as one model and compared only with each other."
    if not row.from_rate and (row.images is None or baseline.images is None):
        yield "The speedup assumes that both epochs have the same number of images, which the logs do not say."


def _with_doubling(row: ResultRow, found: _Index) -> ResultRow:
    """The row with its gain over half as many GPUs: the ratio of images per second, minus one."""
    mine = row.configuration
    halves = _alike(mine, mine.device, (mine.n_gpus or 0) / 2, found)
    half = next((one.throughput for one in halves if scaling.same_batch(one, row)), None)
    if row.throughput is None or half is None or half.lo < SHORTEST:
        return row
    return replace(row, doubling_gain=row.throughput.over(half).minus(Interval.exact(1.0)))


def _ratio(row: ResultRow, baseline: ResultRow) -> Interval | None:
    """How many times faster `row` is than `baseline`; None where one of the times is unknown or zero."""
    if compare_rates(row, baseline) and row.throughput and baseline.throughput:
        return row.throughput.over(baseline.throughput)
    mine, theirs = row.epoch_seconds, baseline.epoch_seconds
    if mine is None or theirs is None or min(mine.lo, theirs.lo) < SHORTEST:
        return None
    return theirs.over(mine)


def _as_printed(row: ResultRow, baseline: ResultRow | None) -> AsPrinted:
    """The row's numbers in the "as printed" reading; zero whole seconds are no time."""
    n, printed = row.n_gpus, row.printed
    before = baseline.printed if baseline and baseline.from_rate is row.from_rate else None
    if row.from_rate:
        ratio = printed / before if printed and before and n else None
        return AsPrinted(throughput=printed, speedup=ratio, efficiency=ratio / n if ratio and n else None)
    if not printed:
        return AsPrinted()
    bound = row.configuration.images_bound
    images = int(bound.value) if bound and (bound.lo == bound.hi or bound.value == CIFAR10_IMAGES) else None
    exact = Fraction(before) / Fraction(printed) if before and n else None
    speedup = math.floor(100 * exact + Fraction(1, 2)) / 100 if exact else None
    return AsPrinted(
        epoch_seconds=float(printed),
        throughput=images / printed if images is not None else None,
        speedup=speedup,
        efficiency=speedup / n if speedup is not None and n else None,
    )


def _with_acceleration(row: ResultRow, found: _Index) -> ResultRow:
    """The row with CPU time over GPU time, for one GPU only: more would mix in scaling; and one number of CPUs only."""
    if row.configuration.device != "gpu" or row.n_gpus != 1 or row.epoch_seconds is None:
        return row
    cpus = _alike(replace(row.configuration, gpu_kind=""), "cpu", 0, found)
    alike = [one for one in cpus if _same_global_batch(one, row)]
    ratio = _ratio(row, alike[0]) if len(alike) == 1 else None
    if ratio is None:
        return row
    printed = _as_printed(row, alike[0]).speedup
    return replace(row, cpu=alike[0], acceleration=ratio, printed_acceleration=printed)


def _same_global_batch(one: ResultRow, other: ResultRow) -> bool:
    """Whether two single-device runs have the same batch; where a log does not print it, the steps decide."""
    if one.batch_size is None or other.batch_size is None:
        return one.steps is not None and one.steps == other.steps
    return one.batch_size == other.batch_size
