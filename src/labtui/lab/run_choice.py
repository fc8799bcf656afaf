"""Which runs count for the runs a task planned, and notes on surprising results.

Any run of the folder may count. The best one is taken: one that meets the check before one that does not, then the
common batch, real before practice, fresh before stale, the task's own before others', late before early. A note names
the band, its source and a question to ask; it never fails a check, and a result is outside a band only if its whole
interval is.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from operator import attrgetter

import msgspec
from msgspec.structs import replace

from labtui.domain.model import PROCESS_PER_GPU, Interval, RunPhase, RunSpec, plural
from labtui.domain.run import DEEDS, WHAT_COUNTS, Mark, join_names
from labtui.domain.state import LabState, RunState
from labtui.domain.tuning import tuning_words
from labtui.lab.edition import Edition, RunsCheck, Task, images_of
from labtui.lab.evidence import Evidence
from labtui.lab.plan import expected_learning_rate, planned_specs
from labtui.lab.runs import QUANTITIES, Band
from labtui.results.measured import Origin, cite
from labtui.results.numbers import tick_text
from labtui.results.rows import ResultRow, Results, rename_models, with_rows


def notes_for(edition: Edition, task: Task, evidence: Evidence) -> Iterator[str]:
    """Notes on the measured configurations that a task is about."""
    raw, named = evidence.results, rename_models(evidence.results, edition.names)
    rows = zip((*raw.measured, *raw.programs), (*named.measured, *named.programs), strict=True)
    mine = runs_of(edition, task, evidence.state)
    for row, called in rows:
        if not has_run(row, mine):
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
    """A planned run and the run that counts for it, if any; `why_not` says why it does not count ("": it does).

    `spec` has the edition's display name of its model.
    """

    task_id: str
    spec: RunSpec
    run: RunState | None = None
    why_not: str = ""
    changed: tuple[str, ...] = ()
    mark: Mark = ""

    @property
    def met(self) -> bool:
        """Whether the planned run was made and meets the check."""
        return self.run is not None and not self.why_not


def match_runs(
    edition: Edition, task: Task, names: Sequence[str], evidence: Evidence, check: RunsCheck | None = None
) -> tuple[Match, ...]:
    """Match every run planned in the tasks `names` (else in `task`), by `check` or else by each task's own check."""
    matches: list[Match] = []
    for source in edition.tasks_of(task, names):
        wanted = check or source.own_runs_check
        specs = planned_specs(source, evidence.overrides)
        batch = _common_batch(specs, wanted, evidence) if wanted.batch == "any" else None
        for spec in specs:
            found = _match(source, spec, wanted, evidence, batch)
            matches.append(replace(found, spec=spec.called(edition.names)))
    return tuple(matches)


def existing_runs(
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
        done = not _why_not(run, check, spec.batch_size, evidence)
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


def runs_of(edition: Edition, task: Task, state: LabState) -> tuple[RunState, ...]:
    """The runs of a task and those its checks compare them with, as a GPU's epoch with the CPU's of an earlier task.

    While a task that plans runs has none, there is nothing to compare. A run of another task from a job file of the
    student's own is compared only if that task plans such a run.
    """
    named = {name for check in task.checks for name in check.tasks} - {task.id}
    others = {each.id: each for each in edition.tasks if each.id in named}
    own = {run.run_id for run in runs_made(task, state)}
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


def runs_made(task: Task, state: LabState) -> tuple[RunState, ...]:
    """The runs that were made for a task, or for another one and just as this one plans them."""
    return tuple(run for run in state.runs.values() if run.task_id == task.id or _is_planned(run, task))


def results_of(results: Results, runs: Collection[RunState]) -> Results:
    """The rows of any of these runs, with their baselines; each pools all of the lab's runs of its configuration."""
    rows = [row for row in results.rows if has_run(row, runs)]
    programs = tuple(row for row in results.programs if has_run(row, runs))
    return replace(with_rows(results, with_baselines(results, rows)), programs=programs)


def with_baselines(results: Results, rows: Iterable[ResultRow]) -> list[ResultRow]:
    """These rows and those on one GPU that they are compared with, in their order."""
    kept = {one.configuration for row in rows for one in (row, row.baseline) if one is not None}
    return [row for row in results.rows if row.configuration in kept]


def has_run(row: ResultRow, runs: Iterable[RunState]) -> bool:
    """Whether a row is of any of these runs."""
    return not {run.run_id for run in row.members}.isdisjoint(run.run_id for run in runs)


def _is_planned(run: RunState, task: Task) -> bool:
    any_batch = task.own_runs_check.batch == "any"
    same = (each.spec for each in task.runs if _same_device(run, each.spec))
    same = (spec for spec in same if spec.tuning == run.spec.tuning)
    return any(any_batch or run.spec.batch_size in (0, spec.batch_size) for spec in same)


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
            done = _same_device(run, spec) and not _why_not(run, check, None, evidence)
            if evidence.sent(run) and done:
                counts.setdefault(run.spec.per_gpu_batch, set()).add(index)
    return max(counts, key=lambda batch: (len(counts[batch]), batch), default=None)


def _match(task: Task, spec: RunSpec, check: RunsCheck, evidence: Evidence, batch: int | None) -> Match:
    specs = planned_specs(task, evidence.overrides)
    wanted = spec.batch_size if check.batch == "exact" else None
    found: list[tuple[tuple[bool, ...], int, Match]] = []
    for run in evidence.state.runs.values():
        if not evidence.sent(run) or not _same_device(run, spec):
            continue
        other_batch = wanted is not None and run.spec.batch_size not in (0, wanted)
        meant = (each for each in specs if each.batch_size == run.spec.batch_size and _same_device(run, each))
        tried = run.epochs or run.outcome not in (None, "cancelled")
        if other_batch and (run.task_id not in ("", task.id) or not tried or any(meant)):
            continue  # another task's or another planned run, or one that did not train, is no attempt at this one
        mark = evidence.state.mark_of(run)
        why_not = _why_not(run, check, wanted, evidence)
        if mark == "small" and (not why_not or run.outcome is None):
            why_not = "is a small run, no result of the lab."
        changed = evidence.changed_since(run)
        match = Match(task_id=task.id, spec=spec, run=run, why_not=why_not, changed=changed, mark=mark)
        same_batch = batch is None or run.spec.per_gpu_batch == batch
        real = not match.mark or not match.met  # of those that do not count, the latest is named
        under_way = run.outcome is None  # it may count soon, which one that ended badly will not
        rank = (match.met, under_way, same_batch, real, not match.changed, run.task_id == task.id)
        found.append((rank, run.run_id, match))
    return max(found, key=lambda item: item[:2])[2] if found else Match(task_id=task.id, spec=spec)


def _why_not(run: RunState, check: RunsCheck, batch: int | None, evidence: Evidence) -> str:
    """Why a run of the right model and devices does not count, as words to follow its number; "" if it does."""
    read = run.epochs_read
    if batch is not None and run.spec.batch_size not in (0, batch):  # 0: no log names one
        how = "has" if run.outcome in (None, "completed") else f"{run.deed}, with"
        return f"{how} a global batch of {run.spec.batch_size:,}; {batch:,} is planned."
    if run.outcome is None:
        state = "is being cancelled" if evidence.submission(run).cancelling else f"is {run.phase.value}"
        state = "has no known end yet" if run.phase is RunPhase.UNKNOWN else state
        return f"{state}{f': {read} of {run.spec.epochs} epochs read' if read else ''}."
    if run.outcome not in check.outcomes:
        wanted = " or ".join(DEEDS[outcome] for outcome in check.outcomes)
        then = f"; this task wants one that {wanted}."
        if check.outcomes == ("completed",):
            elsewhere = evidence.without_gpus if run.used.n_gpus else ""
            again = WHAT_COUNTS if evidence.state.never_counts(run) else "Run again (R, or `labtui retry`)."
            then = f". {elsewhere or again}"
        return f"{run.deed}{then}"
    if run.ran_on_cpu or read >= check.min_epochs:
        return "trained on the CPU, and a GPU is planned." if run.ran_on_cpu else ""
    if run.spec.program is not None:
        return "has no line with its time in its log."
    few = f"has {plural(read, 'epoch')} in its log"
    return f"{few}; {check.min_epochs} are needed, as the first is warm-up."


def plan_words(spec: RunSpec) -> str:
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
