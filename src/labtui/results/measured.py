"""Measured runs with the log line of each number, and their epoch times in both readings: precise and as printed.

They are made from the lab folder's state or from parsed logs; nothing here reads files.

Precise: each epoch's true time lies in its bounds, so the true mean lies between the means of the lower and of the
upper bounds: a hard bound, not a probability. The *scatter* (standard deviation) says how much epochs differ.

As printed: reconstructed from the published tables (each rule has a test):

- epoch time: the whole seconds of epoch 2 (book, tables 10.1 and 10.2). Later epochs do not count.
- speedup: quotient of two such times, rounded to two decimals.
- efficiency: that *rounded* speedup over the number of GPUs. Table 10.2 prints 91.5 % for 33 s and 18 s on
  two GPUs: 1.83 / 2 = 0.915, while 33 / 18 / 2 would be 91.7 %.
- logs that print a rate and no epoch time: quotient of the rates, not rounded (thesis, figures 14 to 17).
- repeated runs: the numbers of one of them, since a mean of whole seconds is no whole second.

Halves are rounded up on exact fractions, so that no binary rounding error decides a digit.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Collection, Iterable, Sequence
from operator import attrgetter
from pathlib import PurePath
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from labtui.domain.model import EpochSample, RunSpec, plural
from labtui.domain.run import DEEDS, Mark, RunRecord, join_names, listed, planned_facts
from labtui.domain.state import TRAINING, LabState, RunState, SubmissionState
from labtui.domain.tuning import Tuning, named_options, other_options, tuning_words
from labtui.slurm.states import told_outcome
from labtui.slurm.values import job_id
from labtui.training_logs import patterns, run_headers
from labtui.training_logs.runs import LogReport, ParsedRun

if TYPE_CHECKING:
    from labtui.results.rows import Results


K = TypeVar("K")
T = TypeVar("T")


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """One line of one log. `job_id` is "" for a bare file, `run_id` None outside a lab folder.

    `line` is 1-based, None when unknown; `epoch` is the epoch that the line reports, None for a rate.
    """

    source: str
    job_id: str = ""
    run_id: int | None = None
    epoch: int | None = None
    line: int | None = None


def grouped(things: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """The things of each key, in their order."""
    found: dict[K, list[T]] = {}
    for each in things:
        found.setdefault(key(each), []).append(each)
    return found


def by_log(origins: Iterable[Origin]) -> dict[tuple[str, str], list[Origin]]:
    """The origins of each log, by its job ("" for a bare file) and its name."""
    return grouped(origins, lambda origin: (origin.job_id, origin.source))


def cite(origins: Iterable[Origin], *, most: int = 4) -> str:
    """The origins as a phrase; of the logs beyond the first `most`, only their number.

    The lines of one log are listed together: ``job 31337, ResNet50.31337.out, lines 5, 7, 9``.
    """
    texts = []
    for (job, source), found in by_log(origins).items():
        lines = dict.fromkeys(origin.line for origin in found if origin.line is not None)
        texts.append(", ".join(filter(None, (job and f"job {job}", source, listed("line", lines)))))
    rest = len(texts) - most
    return "; ".join(texts[:most]) + (f"; and {rest} more" if rest > 0 else "")


class MeasuredRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run with where it was read and what decides whether it counts.

    `source` is the log's path as given (bare files) or its name in the lab folder. Runs with a `mark` are never pooled
    with others. `live`: the run is in progress. `no_gpu`: the log shows that the training found no GPU. `data_set`
    names the images where a lab has several data sets ("" for others and for logs without labtui's header). `job_name`
    stands for the model where neither plan nor log names one; `called` is how the screens call a run of an own job
    file. `takes_images`: the edition's number of images applies, since the script is the edition's, as labtui sent it.
    `startup`: seconds of its job beside the epochs, for each run; None while unknown, and on a fast practice clock.
    """

    run: RunRecord
    run_id: int | None = None
    job_id: str = ""
    job_name: str = ""
    called: str = ""
    source: str = ""
    mark: Mark = ""
    live: bool = False
    no_gpu: bool = False
    task_id: str = ""
    data_set: str = ""
    takes_images: bool = True
    startup: float | None = None
    partition: str = ""

    @property
    def label(self) -> str:
        """Its number in a lab folder, ``run 3``, else its log."""
        return f"run {self.run_id}" if self.run_id else self.source or "a run"

    def printed(self, *, rate: bool) -> float | None:
        """The `rate` as the log prints it, else the whole seconds of epoch 2; None where they are not printed."""
        seconds = (each.printed_seconds for each in steady_samples(self) if each.epoch == 2)
        return self.run.printed_rate if rate else next(seconds, None)

    def origin(self, sample: EpochSample | None = None) -> Origin:
        """Where a sample of this run (or, without one, its rate) was read."""
        line = sample.line_of("seconds") if sample else self.run.rate_line or self.run.last_line
        epoch = sample.epoch if sample else None
        return Origin(source=self.source, job_id=self.job_id, run_id=self.run_id, epoch=epoch, line=line)


def measured_from_state(state: LabState, scripts: Collection[str] = ()) -> tuple[MeasuredRun, ...]:
    """All runs of a lab folder that have epochs or a rate, or that ran and ended without, by their numbers.

    `scripts` are the edition's: another script of a job file is the student's own, and any option may change its speed.
    """
    return tuple(
        _from_run_state(run, state, scripts)
        for _, run in sorted(state.runs.items())
        # one that is done may have a log of which nothing is read
        if run.epochs or run.throughput or run.outcome == "completed" or (run.started and run.outcome)
    )


def _from_run_state(run: RunState, state: LabState, scripts: Collection[str]) -> MeasuredRun:
    """The measured run of a lab folder's run: what was planned takes precedence over its log."""
    submission, mark = state.submissions.get(run.token), state.mark_of(run)
    found = tuple(each.text for each in run.diagnosis if each.kind == "contradiction")
    job = submission.job if submission is not None else None
    own = submission is None or submission.form == "own"
    known = planned_facts(run.used) | {"tuning": sized_options(run.spec)}
    if own and submission is not None and (run.spec.named or run.spec.script not in scripts):
        known["tuning"] = own_options(run.spec, submission.cpus * submission.nodes)
    if run.spec.device == "cpu" and any(each.kind == "no-gpu" for each in run.diagnosis):
        known |= {"device": "cpu", "n_gpus": 0}  # its job asked for no GPU, and it found none
    return MeasuredRun(
        run=replace(run, **known, contradictions=found),
        run_id=run.run_id,
        job_id=job.job_id if job is not None else "",
        job_name=submission.job_name if submission else "",
        called=state.called(run, {}).model if submission is not None and submission.job_file else "",
        source=submission.mirror(run.stream) if submission else "",
        mark=mark,
        live=run.outcome is None and run.phase in TRAINING and told_outcome(job) is None,
        no_gpu=run.ran_on_cpu,
        task_id=run.task_id,
        data_set=run.spec.data_set,
        partition=job.partition if job is not None else "",
        takes_images=not (own or run.spec.variant or (submission and submission.edited)),
        startup=_startup(submission, state) if submission and not submission.practice else None,
    )


def _startup(submission: SubmissionState, state: LabState) -> float | None:
    """Seconds that a job whose runs all ended well took beside their epochs, for each of them."""
    runs = [state.runs[number] for number in submission.run_ids if number in state.runs]
    if submission.job is None or any(run.outcome != "completed" or not run.epochs for run in runs):
        return None
    rest = submission.job.ran_s(None) - sum(run.trained_s for run in runs)
    return rest / len(runs) if rest > 0 else None


NO_GPU_DOUBT = "The job's .err says that a training found no GPU, but not which one of these runs."


def found_no_gpu(run: ParsedRun, report: LogReport) -> bool | None:
    """Whether this run found no GPU; None (`NO_GPU_DOUBT`) where the log has several and does not say which one.

    A practice or small run is expected to have none.
    """
    lines = [found for found in report.diagnosis if found.kind == "no-gpu"]
    if not lines or run.device == "cpu" or run.mark:
        return False
    mine = any(line.stream == run.stream and run.first_line <= line.line <= run.last_line for line in lines)
    if mine or len(report.runs) == 1:
        return True
    return False if all(line.stream == run.stream for line in lines) else None


def measured_from_reports(reports: Iterable[tuple[str, LogReport]]) -> tuple[MeasuredRun, ...]:
    """The runs of bare logs, given as pairs of a path and its report.

    Model and device that a log does not print (the sequential script has no banner) are taken from the file's name,
    which Slurm made from the job name; the run's notes say which.
    """
    measured = []
    for path, report in reports:
        for run in report.runs:
            seen = found_no_gpu(named := _complete_from_name(run, path), report)
            told = named if seen is not None else replace(named, notes=(NO_GPU_DOUBT, *named.notes))
            pieces = PurePath(path).name.split(".")  # %x.%j.out
            job = pieces[-2] if len(pieces) >= 3 and job_id(pieces[-2]) else ""
            log = path if run.stream == "out" else f"{path.removesuffix('.out')}.err"
            read = MeasuredRun(run=told, job_id=job, source=log, mark=run.mark, no_gpu=bool(seen))
            measured.append(replace(read, data_set=run.data_set or ""))
    return tuple(measured)


def _complete_from_name(run: ParsedRun, path: str) -> ParsedRun:
    """The run with facts that only the file's name has, and a note on each."""
    name, found = run_headers.facts_of_name(PurePath(path).name), []
    if run.model is None and name.model is not None:
        run = replace(run, model=name.model)
        found.append("model")
    if run.device is None and run.n_gpus is None and name.device is not None:
        run = replace(run, device=name.device, n_gpus=name.n_gpus)
        found.append("device")
    told = (f"The {each} was read from the file's name; the log does not say." for each in found)
    return replace(run, notes=(*told, *run.notes)) if found else run


def run_notes(members: tuple[MeasuredRun, ...]) -> tuple[str, ...]:
    """Notes about the runs of a row: guessed facts, contradictions."""
    notes = [said for run in members if (said := _loss_note(run))]
    if members[0].mark == "small":
        run = members[0].run
        stands_in = "CPU devices are its GPUs, or " if run.device != "cpu" else ""
        images = f" ({run.images:,} an epoch)" if run.images else ""
        notes.append(f"A small run, no result of the lab: {stands_in}it has other images{images}.")
    if any(run.run.interleaved for run in members):
        notes.append("Several workers wrote into the same log; the times are the first worker's.")
    counted = (sample for run in members for sample in steady_samples(run) if sample.printed_seconds)
    if len({any(name.startswith("val_") for name in sample.metrics) for sample in counted}) > 1:
        notes.append("Some epochs include a validation, others do not: their mean mixes both times.")
    if all(run.run_id and run.run.model is None and run.run.program is None for run in members):
        notes += ["The log names no model: name it with `labtui submit --model NAME` to compare its runs."]
    remarks = (line for run in members for line in (*run.run.notes, *run.run.contradictions))
    return tuple(dict.fromkeys((*notes, *remarks)))


def pooled_notes(members: Sequence[MeasuredRun], shown: Collection[int | None] = ()) -> Iterable[str]:
    """What a mean mixes: other runs than are `shown` (by number; else those of tasks), and partitions."""
    shown = shown or {run.run_id for run in members if run.task_id} or {run.run_id for run in members}
    others = (run for run in members if run.run_id not in shown)
    for task, runs in grouped(others, attrgetter("task_id")).items():
        whose = f"{', '.join(run.label for run in runs)}, of {'task ' if task else 'no task'}{task}"
        yield f"Pooled with {whose}: the same training."
    places = sorted({run.partition for run in members if run.partition})
    if len(places) > 1:
        yield f"On partitions {join_names(places)}, whose nodes may differ: compare the runs one by one."


CPUS = "CPUs"


def own_options(spec: RunSpec, cpus: int = 0) -> Tuning:
    """The script of a student's own run and its options that may change its speed; on a CPU also its `cpus`."""
    size = f"{cpus or ''}" if spec.device == "cpu" else ""
    options = other_options(named_options(spec.arguments))
    return tuple(filter(all, [("script", spec.script), (CPUS, size), *options]))


def sized_options(spec: RunSpec) -> Tuning:
    """The tuning of a run of the lab's own scripts; other pixels and CPU devices instead of GPUs belong to it."""
    given = named_options((*spec.arguments, *spec.extra_args))
    pixels, stands_in = given.get("image_size", "128"), spec.device == "gpu" and given.get("device") == "cpu"
    options = {"image_size": pixels if pixels != "128" else "", "device": "cpu" if stands_in else ""}
    return (*spec.tuning, *((name, value) for name, value in options.items() if value))


def end_note(run: MeasuredRun) -> str:
    """How a run ended early, and how many of its epochs the log has; "" for a complete run."""
    outcome, epochs = run.run.outcome or "unfinished", _missing_epochs(run)
    if outcome == "completed" or (outcome == "unfinished" and run.live):
        whose = f"Run {run.run_id}: the" if run.run_id else "The"
        return epochs and f"{whose} log has {epochs}."
    who = f"Run {run.run_id}" if run.run_id else "A run"
    deed = "is unfinished in the log" if outcome == "unfinished" else f"{DEEDS[run.run.end]} before its end"
    return f"{who} {deed}{epochs and f': {epochs}'}."


def _missing_epochs(run: MeasuredRun) -> str:
    """How many of its epochs a log has: ``3 epochs of 5``; "" where none is missing."""
    samples = run.run.epochs
    if not samples or run.live:
        return ""
    first = min(1, *(sample.epoch for sample in samples))  # some trainers count from 0
    last = max((run.run.epochs_planned or 0) + first - 1, *(s.epoch + s.count - 1 for s in samples))
    had, planned = run.run.epochs_read, last - first + 1
    return f"{plural(had, 'epoch')} of {planned:,}" if had < planned else ""


def _loss_note(run: MeasuredRun) -> str:
    """In which epoch the loss is first NaN or infinite; "" where it never is."""
    lost = [each.epoch for each in run.run.epochs if not math.isfinite(each.metrics.get("loss", 0.0))]
    loss = f"The loss of run {run.run_id}" if run.run_id else "The loss"
    if lost and lost[-1] == run.run.epochs[-1].epoch:
        return f"{loss} is not finite, first in epoch {lost[0]}: the training diverged."
    return f"{loss} is not finite in epoch {lost[0]}." if lost else ""


SHORTEST = 1e-9
"""Times (s) and rates (1/s) with a lower bound below this count as zero: nothing is divided by them."""


def warmup_epochs(run: RunRecord) -> frozenset[int]:
    """The epochs that include the start-up of a process and never count as steady.

    Trainers count from 0 or 1; a log that begins with a later epoch has no warm-up, unless it shows that a process
    started there.
    """
    epochs = run.epochs if run.program is None else ()
    first = min((sample.epoch for sample in epochs), default=2)
    started = {sample.epoch for sample in epochs if sample.starts_process}
    return frozenset(started | {first} if first <= 1 else started)


def steady_samples(run: MeasuredRun) -> tuple[EpochSample, ...]:
    """The epochs of a run that count: all but the first of each process and a last one that was cut short.

    MLPerf's programs stop within an epoch once they reach their target, so the last epoch of three or more is taken as
    incomplete if it is shorter than half their median.
    """
    warmup = warmup_epochs(run.run)
    steady = tuple(sample for sample in run.run.epochs if sample.epoch not in warmup)
    if len(steady) > 2 and steady[-1].source.startswith("mllog"):
        median = statistics.median(sample.seconds.value for sample in steady)
        if steady[-1].seconds.hi < median / 2:
            return steady[:-1]
    return steady


class AsPrinted(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of a row in the "as printed" reading; None where the logs do not print what they need.

    Units: seconds, images per second, ratio, fraction of 1.
    """

    epoch_seconds: float | None = None
    throughput: float | None = None
    speedup: float | None = None
    efficiency: float | None = None


# --------------------------------------------------------------------------- accuracy

_NAMES = ("accuracy", "acc", "sparse_categorical_accuracy", "categorical_accuracy", "binary_accuracy")


def fraction_of(metric: str, value: float) -> float | None:
    """An accuracy as a fraction of 1, whether its log prints percent or a fraction; None for another metric."""
    name = metric.removeprefix("val_").casefold()
    if name in _NAMES:
        return None if value > 1 else value  # above 1 in an unknown unit
    return value / 100 if name in (*patterns.PERCENT_NAMES, *patterns.TOP5_NAMES) else None


class AccuracyPoint(NamedTuple):
    """Accuracy (fraction of 1) after an epoch, and the log line that prints it."""

    epoch: int
    accuracy: float
    line: int | None


class AccuracyCurve(msgspec.Struct, frozen=True, kw_only=True):
    """One accuracy metric of one run; `validation`: on the validation set, not on the training set."""

    run: MeasuredRun
    metric: str
    validation: bool
    points: tuple[AccuracyPoint, ...]

    @property
    def best(self) -> AccuracyPoint:
        """The highest accuracy, the earliest of equals."""
        return max(self.points, key=lambda point: (point.accuracy, -point.epoch))


def policy(run: MeasuredRun) -> str:
    """A run's learning-rate policy in words: ``gradual, warm-up 5``; "" for a constant rate."""
    return ", ".join(tuning_words(tuple(p for p in run.run.tuning if p[0] in ("lr_policy", "warmup_epochs"))))


def accuracies(metrics: Iterable[str]) -> list[str]:
    """The metrics that are accuracies, each once; first those in percent, which logs print with more digits."""
    known = (*_NAMES, *patterns.PERCENT_NAMES)
    found = [each for each in dict.fromkeys(metrics) if each.removeprefix("val_").casefold() in known]
    return sorted(found, key=lambda name: fraction_of(name, 1.0) == 1.0)


def accuracy_curves(run: MeasuredRun) -> tuple[AccuracyCurve, ...]:
    """Training and validation accuracy of a run, for every metric that is one; finite values only."""
    curves = []
    for name in accuracies(name for sample in run.run.epochs for name in sample.metrics):
        told = ((each, fraction_of(name, value)) for each, value in finite_epochs(run, name))
        points = tuple(AccuracyPoint(s.epoch, top, s.line_of(name)) for s, top in told if top is not None)
        curves.append(AccuracyCurve(run=run, metric=name, validation=name.startswith("val_"), points=points))
    return tuple(curve for curve in curves if curve.points)


def val_accuracy(run: RunRecord) -> float | None:
    """The accuracy in validation after the last epoch that tells it, as a fraction of 1; None if none does."""
    metrics = (sample.metrics for sample in reversed(run.epochs))
    named = ((each, name) for each in metrics for name in accuracies(each) if name.startswith("val_"))
    told = (fraction_of(name, each[name]) for each, name in named)
    return next((top for top in told if top is not None and math.isfinite(top)), None)


def longest(runs: Iterable[MeasuredRun]) -> list[MeasuredRun]:
    """Those of repeated runs with the most epochs: a shorter training has another accuracy, time and cost."""
    by_length = grouped(runs, lambda run: run.run.epochs_read)
    return by_length[max(by_length)] if by_length else []


def representative(runs: Iterable[MeasuredRun]) -> MeasuredRun | None:
    """The run that stands for its repeats: of the longest the newest that ended, else the newest; None of no run."""
    known = longest(runs)
    # logs alone have no numbers of runs
    known.sort(key=lambda run: (run.run.epochs and run.run.epochs[-1].ended_at) or 0.0)
    return max(reversed(known), key=lambda run: (not run.live, run.run_id or 0), default=None)


def newest_validated(runs: Iterable[MeasuredRun]) -> MeasuredRun | None:
    """The run whose accuracy in validation stands for that of its repeats."""
    return representative(run for run in runs if val_accuracy(run.run) is not None)


def finite_epochs(run: MeasuredRun, metric: str) -> Iterable[tuple[EpochSample, float]]:
    """The epochs of a run that have a finite value of a metric, each with the value."""
    values = ((sample, sample.metrics.get(metric, math.nan)) for sample in run.run.epochs)
    return (pair for pair in values if math.isfinite(pair[1]))


def all_curves(results: Results) -> Iterable[AccuracyCurve]:
    return (curve for row in results.rows for run in row.drawn for curve in accuracy_curves(run))


def best_curve(results: Results) -> AccuracyCurve | None:
    """The accuracy curve with the highest value; None where no run has one."""
    return max(all_curves(results), key=lambda curve: curve.best.accuracy, default=None)
