"""Which runs count for the runs a task planned, and notes on surprising results.

Any run of the folder may count. The best one is taken: one that meets the check before one that does not, then one
that is under way, then the common batch, real before practice, fresh before stale, the task's own before others', late
before early. A note names the band, its source and a question to ask; it never fails a check, and a result is outside
a band only if its whole interval is.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from operator import attrgetter

import msgspec
from msgspec.structs import replace

from labtui.domain.model import PROCESS_PER_GPU, Interval, RunPhase, RunSpec, plural
from labtui.domain.run import DEEDS, IS_SMALL, WHAT_COUNTS, Mark, join_names
from labtui.domain.state import LabState, RunState
from labtui.domain.tuning import tuning_words
from labtui.lab.edition import Edition, RunsCheck, Task, images_of
from labtui.lab.evidence import Evidence
from labtui.lab.plan import expected_learning_rate, planned_specs
from labtui.lab.runs import QUANTITIES, Band
from labtui.results.compute import with_drawn
from labtui.results.measured import Origin, cite
from labtui.results.numbers import tick_text
from labtui.results.rows import ResultRow, Results, rename_models, with_rows
from labtui.results.scaling import with_hues


def notes_for(edition: Edition, task: Task, evidence: Evidence) -> Iterator[str]:
    """Notes on the measured configurations that a task is about."""
    raw, named = evidence.results, rename_models(evidence.results, edition.names)
    rows = zip((*raw.measured, *raw.programs), (*named.measured, *named.programs), strict=True)
    mine = compared_runs(edition, task, evidence.state)
    for row, called in rows:
        if not row_has_run(row, mine):
            continue
        wanted = images_of(edition, row.configuration.data_set, task)
        made, images, bound = row.configuration, row.images, row.configuration.data_bound
        counted = row.program is None and made.unit == "images"
        if counted and (bound is None or not bound.contains(wanted)):
            if images is not None:  # else the log does not say
                trained = " to ".join(dict.fromkeys(f"{each:,.0f}" for each in (images.lo, images.hi)))
                sentence = f"{called.label} was trained on {trained} images an epoch"
                yield f"{sentence}, not on {wanted:,}: nothing published fits."
        else:
            yield from filter(None, (remark(band, row, called.label) for band in edition.bands))


def remark(band: Band, row: ResultRow, name: str) -> str:
    """The note on a row and a band; "" if the band is about other runs or the row is inside. `name` is the row's."""
    field, *words = QUANTITIES[band.quantity]
    measured: Interval | None = getattr(row, field)
    if measured is None or not band.matches(row) or (measured.hi >= band.low and measured.lo <= band.high):
        return ""
    yours, usual = (text.replace("images", row.configuration.unit) for text in words)
    known = f"{tick_text(band.low)} to {usual.format(tick_text(band.high))}"
    sentence = f"{name}: {yours.format(tick_text(measured.value))}, where {known} is usual ({band.source})."
    return f"{sentence} {' '.join(band.advice.split())}".strip()


class Match(msgspec.Struct, frozen=True, kw_only=True):
    """A planned run and the run that counts for it, if any; `not_counted_for_task` says why it does not, else "".

    `spec` has the edition's display name of its model.
    """

    task_id: str
    spec: RunSpec
    run: RunState | None = None
    not_counted_for_task: str = ""
    changed: tuple[str, ...] = ()
    mark: Mark = ""

    @property
    def met(self) -> bool:
        """Whether the planned run was made and meets the check."""
        return self.run is not None and not self.not_counted_for_task


def match_planned_runs(
    edition: Edition, task: Task, names: Sequence[str], evidence: Evidence, check: RunsCheck | None = None
) -> tuple[Match, ...]:
    """Match every run planned in the tasks `names` (else in `task`), by `check` or else by each task's own check."""
    matches: list[Match] = []
    sent = [run for run in evidence.state.runs.values() if evidence.sent(run)]
    for source in edition.tasks_of(task, names):
        wanted = check or source.own_runs_check
        specs = planned_specs(source, evidence.overrides)
        batch = _common_batch(specs, wanted, evidence) if wanted.batch == "any" else None
        for spec in specs:
            attempts = (run for run in sent if _is_attempt(run, spec, specs, source, wanted))
            found = (_match(run, spec, source, wanted, evidence) for run in attempts)
            no_run = Match(task_id=source.id, spec=spec)
            best = max((no_run, *found), key=lambda match: _rank(match, source, batch))
            matches.append(replace(best, spec=spec.called(edition.names)))
    return tuple(matches)


def runs_for_specs(
    edition: Edition, task: Task, specs: Collection[RunSpec], evidence: Evidence, *, practice: bool
) -> dict[RunSpec, RunState]:
    """Those of `specs` that are already done or in progress, with the run for each.

    A done run meets the task's check with the same batch, rate and options, at least as many epochs, and the scripts
    as they are now; what starts its processes is no part of it. With `practice` only practice runs count, else only
    runs of a real cluster.
    """
    check, found = task.own_runs_check, {}

    def options(spec: RunSpec) -> tuple[object, ...]:
        return spec.batch_size, spec.extra_args, expected_learning_rate(edition, spec)

    for spec, run in ((spec, run) for spec in specs for run in evidence.state.runs.values()):
        other_kind = bool(evidence.state.mark_of(run)) is not practice
        if not evidence.sent(run) or other_kind or evidence.changed_since(run):
            continue
        same = _same_device(run, spec) and options(run.spec) == options(spec)
        done = not _not_counted(run, check, spec.batch_size, evidence)
        under_way = run.outcome is None and spec not in found
        if same and run.spec.epochs >= spec.epochs and (done or under_way):
            found[spec] = run
    return found


MAX_CITED_LINES = 3
"""How many lines of a log a condition names; results.csv names them all."""


def cite_run(run: RunState, evidence: Evidence, *lines: int | None) -> str:
    """The run with its job, log and first lines (of its epochs): ``run 3, job 31337, ResNet50.31337.out, lines 5, 7``.

    A log in which nothing was printed is not named: there may be no such file.
    """
    submission = evidence.submission(run)
    log = submission.logs.get(run.stream)
    job_id = submission.job.job_id if submission.job else ""
    source = submission.mirror(run.stream).rpartition("/")[2] if log is None or log.size else ""
    lines = lines or tuple(sample.line_of("seconds") for sample in run.epochs) or (None,)
    lines = tuple(dict.fromkeys(lines))
    where = cite(Origin(source=source, job_id=job_id, line=line) for line in lines[:MAX_CITED_LINES])
    more = f" and {len(lines) - MAX_CITED_LINES} more" if len(lines) > MAX_CITED_LINES else ""
    return f"run {run.run_id}, {where}{more}" if where else f"run {run.run_id}"


def compared_runs(edition: Edition, task: Task, state: LabState) -> tuple[RunState, ...]:
    """The runs of a task and those its checks compare them with: for example, a GPU run with an earlier task's CPU run.

    While a task that plans runs has none, there is nothing to compare. A run of another task from a job file of the
    student's own is compared only if that task plans such a run.
    """
    named = {name for check in task.checks for name in check.tasks} - {task.id}
    others = {each.id: each for each in edition.tasks if each.id in named}
    own = {run.run_id for run in runs_for_task(task, state)}
    if not own and task.runs:
        return ()

    def compared(run: RunState) -> bool:
        other, submission = others.get(run.task_id), state.submissions.get(run.token)
        if other is None:
            return any(_is_planned(run, each) for each in others.values())
        own_job = submission is not None and submission.job_file
        return not own_job or any(_same_device(run, plan.spec) for plan in other.runs)

    return tuple(run for run in state.runs.values() if run.run_id in own or compared(run))


def planned_instead(task: Task, run: RunState, state: LabState) -> list[str]:
    """The models that a task plans, if the run is of an own job file that was sent for it, and of another model."""
    submission, planned = state.submissions.get(run.token), {each.spec.model: None for each in task.runs}
    own = submission is not None and submission.job_file and run.task_id == task.id
    known = "model" not in run.used.unknown
    return [*planned] if own and known and run.used.model not in planned else []


def runs_for_task(task: Task, state: LabState) -> tuple[RunState, ...]:
    """The runs that were made for a task, or for another one and just as this one plans them."""
    return tuple(run for run in state.runs.values() if run.task_id == task.id or _is_planned(run, task))


def rows_with_runs(results: Results, runs: Collection[RunState]) -> Results:
    """The rows of any of these runs, with their baselines; each pools all of the lab's runs of its configuration."""
    rows = [row for row in results.rows if row_has_run(row, runs)]
    programs = tuple(row for row in results.programs if row_has_run(row, runs))
    return replace(with_rows(results, with_hues(with_baselines(results, rows, runs))), programs=programs)


def with_baselines(results: Results, rows: Iterable[ResultRow], runs: Iterable[RunState]) -> list[ResultRow]:
    """These rows and those on one GPU that they are compared with, in their order; charts draw these `runs`."""
    kept = {one.configuration for row in rows for one in (row, row.baseline) if one is not None}
    shown = {run.run_id for run in runs}
    return [with_drawn(row, shown) for row in results.rows if row.configuration in kept]


def row_has_run(row: ResultRow, runs: Iterable[RunState]) -> bool:
    """Whether a row is of any of these runs."""
    return not {run.run_id for run in row.members}.isdisjoint(run.run_id for run in runs)


def _is_planned(run: RunState, task: Task) -> bool:
    same = (each.spec for each in task.runs if _same_device(run, each.spec))
    same = (spec for spec in same if spec.tuning == run.spec.tuning)
    return any(task.own_runs_check.batch == "any" or _has_batch(run, spec.batch_size) for spec in same)


def _has_batch(run: RunState, batch: int) -> bool:
    """Whether a run has this global batch, or may have it: a 0 says that no log names one."""
    return run.spec.batch_size in (0, batch)


_device = attrgetter("model", "device", "n_gpus", "processes", "size")


def _same_device(run: RunState, spec: RunSpec) -> bool:
    if _device(run.spec) != _device(spec) or (spec.data_set and run.spec.data_set not in ("", spec.data_set)):
        return False
    tuned = run.spec.launcher in PROCESS_PER_GPU or run.spec.is_control
    return not tuned or run.spec.tuning == spec.tuning


def _common_batch(specs: Sequence[RunSpec], check: RunsCheck, evidence: Evidence) -> int | None:
    """The batch per GPU with which most of the planned runs were made; on a tie, the larger one."""
    counts: dict[int, set[int]] = {}
    for run in evidence.state.runs.values():
        for index, spec in enumerate(specs):
            done = _same_device(run, spec) and not _not_counted(run, check, None, evidence)
            if evidence.sent(run) and done:
                counts.setdefault(run.spec.per_gpu_batch, set()).add(index)
    return max(counts, key=lambda batch: (len(counts[batch]), batch), default=None)


def _is_attempt(run: RunState, spec: RunSpec, specs: Sequence[RunSpec], task: Task, check: RunsCheck) -> bool:
    """Whether a run was made for the planned run `spec`, one of `specs`.

    One with another batch is none if it is another task's or another planned run, or did not train.
    """
    if not _same_device(run, spec):
        return False
    if check.batch == "any" or _has_batch(run, spec.batch_size):
        return True
    trained = bool(run.epochs) or run.outcome not in (None, "cancelled")
    planned = any(each.batch_size == run.spec.batch_size and _same_device(run, each) for each in specs)
    return run.task_id in ("", task.id) and trained and not planned


def _match(run: RunState, spec: RunSpec, task: Task, check: RunsCheck, evidence: Evidence) -> Match:
    mark, changed = evidence.state.mark_of(run), evidence.changed_since(run)
    why = _not_counted(run, check, spec.batch_size if check.batch == "exact" else None, evidence)
    if mark == "small" and (not why or run.outcome is None):
        why = f"{IS_SMALL}."
    return Match(task_id=task.id, spec=spec, run=run, not_counted_for_task=why, changed=changed, mark=mark)


def _rank(match: Match, task: Task, batch: int | None) -> tuple[int, ...]:
    """Of the matches of a planned run, the one with the greatest rank is taken; `batch` per GPU is the common one."""
    if (run := match.run) is None:
        return ()
    under_way = run.outcome is None  # it may count soon, which one that ended badly will not
    same_batch = batch is None or run.spec.per_gpu_batch == batch
    real = not match.mark or not match.met  # of those that do not count, the latest is named
    return (match.met, under_way, same_batch, real, not match.changed, run.task_id == task.id, run.run_id)


def _not_counted(run: RunState, check: RunsCheck, batch: int | None, evidence: Evidence) -> str:
    """Why a run of the right model and devices does not count, as words to follow its number; "" if it does."""
    read = run.epochs_read
    if batch is not None and not _has_batch(run, batch):
        how = "has" if run.outcome in (None, "completed") else f"{run.deed}, with"
        return f"{how} a global batch of {run.spec.batch_size:,}; {batch:,} is planned."
    if run.outcome is None:
        state = "is being cancelled" if evidence.submission(run).cancelling else f"is {run.phase.value}"
        state = "has no known end yet" if run.phase is RunPhase.UNKNOWN else state
        return f"{state}{f': {read} of {run.spec.epochs} epochs read' if read else ''}."
    if run.outcome not in check.outcomes:
        if check.outcomes == ("completed",):
            elsewhere = evidence.without_gpus if run.used.n_gpus else ""
            again = WHAT_COUNTS if evidence.state.never_counts(run) else "Run again (R, or `labtui retry`)."
            then = f". {elsewhere or again}"
        else:
            wanted = " or ".join(DEEDS[outcome] for outcome in check.outcomes)
            then = f"; this task wants one that {wanted}."
        return f"{run.deed}{then}"
    if run.ran_on_cpu:
        return "trained on the CPU, and a GPU is planned."
    if read >= check.min_epochs:
        return ""
    few = f"has {plural(read, 'epoch')} in its log; {check.min_epochs} are needed, as the first is warm-up."
    return few if run.spec.program is None else "has no line with its time in its log."


def describe_spec(spec: RunSpec) -> str:
    """A planned run in words, with its global batch and its batch per GPU."""
    if spec.program is not None:
        return spec.label
    batch = f"batch {spec.batch_size:,}"
    if spec.n_gpus > 1:
        batch = f"global batch {spec.batch_size:,}, {spec.per_gpu_batch:,} per GPU"
    if spec.tuning:
        batch = f"{batch}; {', '.join(tuning_words(spec.tuning))}"
    return f"{spec.label} ({batch})"


def not_run_yet(names: Sequence[str], where: str = "") -> str:
    """Return a sentence like ``ResNet50 · CPU: not run yet (task 10.3).``."""
    return f"{join_names(names)}: not run yet{where}."
