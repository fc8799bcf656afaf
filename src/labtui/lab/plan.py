"""Plans what a task would submit: its runs, their jobs, and the resources of each job.

Pure: the profile describes the cluster, the overrides hold what the student chose.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby

import msgspec
from msgspec.structs import replace

from labtui.domain.errors import UsageError, failure
from labtui.domain.model import MANY_NODES, PROCESS_PER_GPU, JobForm, RunSpec, SubmissionDraft, TemplateForm
from labtui.domain.profile import Profile, fill
from labtui.lab.edition import Edition, Task
from labtui.lab.expected_time import time_limit
from labtui.lab.runs import RunPlan


class PlanOverrides(msgspec.Struct, frozen=True, kw_only=True):
    """Changes to a plan by the student or the folder's settings; None and "" mean as planned.

    `gpus` keeps only the runs with these GPU counts. `per_gpu_batch` is the batch of each GPU (or the CPU); the global
    batch follows from it. `max_per_gpu_batch` is an upper limit for GPU runs, for GPUs with less memory.
    """

    form: TemplateForm | None = None
    gpus: tuple[int, ...] | None = None
    per_gpu_batch: int | None = None
    max_per_gpu_batch: int | None = None
    epochs: int | None = None
    time_limit_minutes: int | None = None
    account: str = ""
    qos: str = ""
    partition: str = ""
    reservation: str = ""
    container: str = ""
    data_dir: str = ""
    user: str = ""


def task_of(edition: Edition, task_id: str) -> Task:
    """The task with this number.

    Raises:
        UsageError: when the edition has no such task; the hint lists those it has. Also when a script is meant.
    """
    if task_id.endswith(".py"):
        raise failure("training-script", script=task_id)
    if (task := edition.task(task_id)) is None:
        ids = [item.id for item in edition.tasks]
        digits = re.sub(r"\D", "", task_id)  # 5, 10,5 and 105 mean 10.5
        near = [one for one in ids if digits in (one.rpartition(".")[2], one.replace(".", ""))][:1]
        near = [one for one in ids if one.partition(".")[0] == task_id] or near  # 10 is a chapter
        suggestion = f"Did you mean {' to '.join(dict.fromkeys(near[:1] + near[-1:]))}? " if near else ""
        raise UsageError(f"{edition.id} has no task {task_id!r}.", f"{suggestion}It has {', '.join(ids)}.")
    return task


def planned_specs(task: Task, overrides: PlanOverrides | None = None) -> tuple[RunSpec, ...]:
    """The runs a task plans, with the student's changes."""
    return tuple(plan.spec for plan in _chosen_plans(task, overrides or PlanOverrides()))


def task_drafts(
    edition: Edition, task_id: str, profile: Profile, overrides: PlanOverrides | None = None
) -> tuple[SubmissionDraft, ...]:
    """What a task would submit: one draft per job, in the order to run them; none for a task without runs.

    Raises:
        UsageError: when the edition has no such task.
    """
    task, wanted = task_of(edition, task_id), overrides or PlanOverrides()
    plans, limit = _chosen_plans(task, wanted), wanted.time_limit_minutes
    planned = [_job_without_runs(task, profile, wanted, plan) for plan in plans]
    specs = [place_run(plan.spec, plan.form, profile) for plan in plans]
    rows = [PlanRow(spec, part, limit=limit) for spec, part in zip(specs, _parts(specs), strict=True)]
    return drafts_from(rows, planned, wanted.form, edition, profile)


class PlanRow(msgspec.Struct, frozen=True):
    """One run of the plan. `origin` is the index of its draft; `limit` a time limit in minutes by the student."""

    spec: RunSpec
    origin: int
    included: bool = True
    limit: int | None = None


def drafts_from(
    rows: Sequence[PlanRow],
    planned: Sequence[SubmissionDraft],
    form: JobForm | None,
    edition: Edition,
    profile: Profile,
) -> tuple[SubmissionDraft, ...]:
    """Group the included rows into jobs by the form; everything but the runs is as in their drafts in `planned`."""
    placed, drafts = [], []
    for row in (each for each in rows if each.included):
        kind = form_of(planned[row.origin].form, row.spec, None if form == "own" else form)
        placed.append((kind, replace(row, spec=place_run(row.spec, kind, profile))))
    for kind, job_rows in group_into_jobs(placed):
        runs, draft = tuple(row.spec for row in job_rows), planned[job_rows[0].origin]
        if (kind, runs) != (draft.form, draft.runs):
            prescribed: list[int] = []
            if not draft.runs or draft.time_limit_minutes != time_limit(draft, edition, profile):
                prescribed = [planned[row.origin].time_limit_minutes for row in job_rows]
            draft = size_job(draft, kind, runs, profile)
            draft = replace(draft, time_limit_minutes=time_limit(draft, edition, profile, prescribed))
        limit = max((row.limit for row in job_rows if row.limit is not None), default=None)
        drafts.append(draft if limit is None else with_limit(draft, limit))
    return tuple(drafts)


# --------------------------------------------------------------------------- runs

CONTROLS = {
    "independent": "every GPU trains by itself at the same time",
    "one-batch": "the same batch again and again, without a loader",
}
"""What each kind of control run does, by the scripts' value of ``--control``."""
CONTROL_EPOCHS = 6
"""The epochs of a control run: one for warm-up, and five whose scatter says how well the step is known."""


def control_run(spec: RunSpec, control: str) -> RunSpec | None:
    """The control run of a run; None if its script has no such control, or if it needs several GPUs and has one."""
    name, least = spec.script.rpartition("/")[2], 2 if control == "independent" else 1
    if spec.is_control or spec.n_gpus < least or not name.startswith(("train_", "ResNet")):
        return None
    return replace(spec, epochs=CONTROL_EPOCHS, extra_args=(*spec.extra_args, "--control", control))


def _chosen_plans(task: Task, wanted: PlanOverrides) -> list[RunPlan]:
    """The wanted runs with the student's changes; runs that only these make the same are one."""
    chosen, first = [], dict[RunSpec, RunSpec]()
    for plan in (each for each in task.runs if wanted.gpus is None or each.spec.n_gpus in wanted.gpus):
        spec = _with_overrides(plan.spec, wanted)
        if first.setdefault(spec, plan.spec) == plan.spec:
            chosen.append(replace(plan, spec=spec))
    return chosen


def _with_overrides(spec: RunSpec, wanted: PlanOverrides) -> RunSpec:
    if spec.program is not None:
        return spec
    each = spec.per_gpu_batch if wanted.per_gpu_batch is None else wanted.per_gpu_batch
    if wanted.max_per_gpu_batch is not None and wanted.per_gpu_batch is None and spec.n_gpus:
        each = min(each, wanted.max_per_gpu_batch)
    return replace(
        spec,
        batch_size=each * spec.replicas,
        epochs=spec.epochs if wanted.epochs is None else wanted.epochs,
        arguments=tuple(word.replace("{per_gpu_batch}", str(each)) for word in spec.arguments),
    )


def smaller_batch(spec: RunSpec, task: Task | None) -> int:
    """The batch per GPU to try after a run ran out of memory: the task's if that is smaller, else half of the run's."""
    specs = [plan.spec for plan in task.runs] if task is not None else []
    planned = (each.per_gpu_batch for each in specs if each.model == spec.model and each.n_gpus)
    least = min(planned, default=spec.per_gpu_batch)
    return least if least < spec.per_gpu_batch else spec.per_gpu_batch // 2


def expected_learning_rate(edition: Edition, spec: RunSpec) -> float:
    """The rate a script uses: the run's own, else the base rate, which scripts of one process multiply by the GPUs."""
    grows = spec.replicas if spec.launcher == "python" else 1
    return spec.learning_rate if spec.learning_rate is not None else edition.base_learning_rate * grows


def form_of(planned: JobForm, spec: RunSpec, wanted: JobForm | None) -> JobForm:
    """The wanted form if it can start the run, else the planned one.

    A script that srun or torchrun starts needs a form for it; only torchrun's trainings on one GPU can also run one
    after another in one job.
    """
    if wanted is None or planned in ("own", "cpu") or spec.device == "cpu" or wanted == "cpu":
        return planned
    if wanted == "one-gpu" and spec.n_gpus != 1:
        wanted = "job-per-size"
    either = {planned, wanted}
    in_turn = wanted == "one-job" and planned == "torchrun" and spec.n_gpus == 1
    if either <= {*PROCESS_PER_GPU} or in_turn or not either & {*MANY_NODES, "mpi"}:
        return wanted
    return planned


def group_into_jobs(rows: Sequence[tuple[JobForm, PlanRow]]) -> Iterator[tuple[JobForm, list[PlanRow]]]:
    """Group consecutive rows, each with its form, that share a job.

    In the form ``one-job``, the runs of one model and data set share a job. A program's measure is one job, and so is
    a job file of the student's own: there, rows of the same origin share it.
    """

    def group_key(numbered: tuple[int, tuple[JobForm, PlanRow]]) -> tuple[object, ...]:
        at, (form, row) = numbered
        if form == "one-job":
            return form, row.spec.model, row.spec.data_set
        return form, row.origin if form in ("own", "mpi") else at, ""

    for _, group in groupby(enumerate(rows), group_key):
        (form, first), *more = (row for _, row in group)
        alone = form == "one-job" and not more and first.spec.launcher == "torchrun"
        yield "torchrun" if alone else form, [first, *(row for _, row in more)]


def _parts(specs: Sequence[RunSpec]) -> list[int]:
    """For each run, the index of the first run of its measure: within one, the processes increase.

    Runs that need more nodes begin a new job: a shared one would hold all nodes until its last run ends.
    """
    first: list[int] = []
    for at, spec in enumerate(specs):
        before = specs[at - 1]
        same = at and (before.model, before.nodes) == (spec.model, spec.nodes)
        first.append(first[-1] if same and before.processes < spec.processes else at)
    return first


# --------------------------------------------------------------------------- resources


def _job_without_runs(task: Task, profile: Profile, wanted: PlanOverrides, plan: RunPlan) -> SubmissionDraft:
    """A job of the task without its runs, with the CPU cores of a job without GPUs and the prescribed time limit."""
    queue = profile.queue_names(gpus=plan.spec.device == "gpu")
    account = profile.account_of(wanted.account)
    places = {"account": account, "user": wanted.user or profile.user}
    data_dir = profile.data_folder(images=plan.spec.reads_folder)
    container = profile.container_for(pytorch=plan.spec.launcher in PROCESS_PER_GPU)
    if plan.form == "mpi":
        data_dir = container = ""
    return SubmissionDraft(
        task_id=task.id,
        form=plan.form,
        account=account,
        job_name="",
        data_dir=fill(wanted.data_dir or data_dir, places),
        container=fill(wanted.container or container, places),
        reservation=wanted.reservation,
        qos=wanted.qos or queue.qos,
        partition=wanted.partition or queue.partition,
        cpus=max(1, min(plan.cpus or profile.cpus_per_gpu, profile.cpus_per_node)),
        time_limit_minutes=plan.time_limit_minutes or 0,
    )


def size_job(
    base: SubmissionDraft, form: JobForm, specs: Sequence[RunSpec], profile: Profile
) -> SubmissionDraft:
    """The job with these runs, and with the nodes, GPUs and CPU cores that the largest of them needs.

    Without GPUs, a program has one core for each process, and a training keeps the cores of `base`.
    """
    largest = _largest(specs)
    nodes, gpus = largest.nodes, -(-largest.n_gpus // largest.nodes)
    cpus = gpus * profile.cpus_per_gpu if gpus else base.cpus
    if specs[0].program is not None and not gpus:
        cpus = -(-largest.processes // nodes)
    name = job_name(specs)
    return replace(base, form=form, runs=tuple(specs), gpus=gpus, nodes=nodes, cpus=cpus, job_name=name)


def place_run(spec: RunSpec, form: JobForm, profile: Profile) -> RunSpec:
    """The run with the form's launcher, on as few nodes as hold its GPUs (or a program's processes).

    A training has the same number of GPUs on each node. A program runs on one node if a node's cores are unknown.
    """
    if form == "torchrun" or form == "task-per-gpu":  # noqa: PLR1714 - mypy narrows the type by it
        spec = replace(spec, launcher=form)
    if spec.program is not None:
        each = profile.gpus_per_node if spec.n_gpus else profile.cpus_per_node
        return replace(spec, nodes=-(-spec.processes // max(1, each)) if each > 1 or spec.n_gpus else 1)
    if spec.launcher not in MANY_NODES or spec.device == "cpu":
        return spec
    nodes = -(-spec.n_gpus // max(1, profile.gpus_per_node))
    while spec.n_gpus % nodes:
        nodes += 1
    return replace(spec, nodes=nodes)


def _largest(specs: Sequence[RunSpec]) -> RunSpec:
    return max(specs, key=lambda spec: (spec.processes, spec.n_gpus))


def refuse_too_many_nodes(draft: SubmissionDraft, profile: Profile) -> None:
    """Raise UsageError for a job with more nodes than its queue takes; the hint names a queue that takes them."""
    queue = profile.queue(draft.queue)
    if queue is None or queue.max_nodes is None or draft.nodes <= queue.max_nodes:
        return
    larger = [q for q in profile.queues if q.devices == queue.devices and (q.max_nodes or 0) >= draft.nodes]
    hint = "Plan fewer GPUs."
    if larger:
        hint = f"{larger[0].name} takes {larger[0].max_nodes} nodes: name it with --{profile.queue_option}."
    gpus = f"{draft.total_gpus} GPUs are {draft.nodes} nodes of {profile.title}"
    raise UsageError(f"{gpus}, and {queue.name} takes {queue.max_nodes} a job.", hint)


def refuse_over_limit(queue: str, minutes: int | None, profile: Profile) -> None:
    """Raise UsageError for a time limit that the student gave and the queue does not allow."""
    if minutes and (most := profile.within_limit(queue, minutes)) < minutes:
        raise failure("over-limit", minutes=minutes, queue=queue, most=most)


def with_limit(draft: SubmissionDraft, minutes: int) -> SubmissionDraft:
    """The draft with this time limit, which `sbatch` gets as an option if the job file is the student's own."""
    options = draft.options_by_name | {"time": str(minutes)} if draft.form == "own" else {}
    words = tuple(f"--{option}={value}" for option, value in options.items())
    return replace(draft, time_limit_minutes=minutes, options=words)


def with_queue(draft: SubmissionDraft, profile: Profile, *, qos: str, partition: str) -> SubmissionDraft:
    """The draft with this queue and within its limit, unless the profile says that it is for other devices."""
    names = profile.queue_names(gpus=draft.gpus > 0, qos=qos, partition=partition)
    draft = replace(draft, **names._asdict())
    return replace(draft, time_limit_minutes=profile.within_limit(draft.queue, draft.time_limit_minutes))


def job_name(specs: Sequence[RunSpec]) -> str:
    """A short name that is safe in Slurm, in a shell and as a file name: ``ResNet50-1-2-4gpu``, ``ResNet50-cpu``."""
    models = "-".join(dict.fromkeys(spec.model for spec in specs))
    if specs[0].program is not None:
        most = _largest(specs)
        size = f"-{most.size}" if specs[0].program.scaling == "strong" else ""
        return f"{models}{size}-{specs[0].program.count_label(most.processes).replace(' ', '')}"
    if all(spec.device == "cpu" for spec in specs):
        return f"{models}-cpu"
    models = "-".join([models, *dict.fromkeys(spec.data_set for spec in specs if spec.data_set)])
    return f"{models}-{'-'.join(dict.fromkeys(str(spec.n_gpus) for spec in specs))}gpu"
