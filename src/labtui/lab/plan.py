"""From a task to what would be submitted: runs, jobs, resources.

Pure: the profile says what the cluster is like, the overrides what the student chose. Nothing here decides
when.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from labtui.domain.errors import UsageError
from labtui.domain.model import (
    MANY_NODES,
    PROCESS_PER_GPU,
    JobForm,
    RunSpec,
    SubmissionDraft,
    TemplateForm,
)
from labtui.domain.profile import Profile
from labtui.lab.edition import EditedCheck, Edition, Task
from labtui.lab.expected_time import time_limit
from labtui.lab.runs import RunPlan, launcher_of

PER_GPU_BATCH = "{per_gpu_batch}"
"""Stands in a run's `arguments` for the batch of one GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOverrides:
    """What the student or the folder's settings say differently; None and "" mean: as planned.

    `gpus` keeps only these GPU counts. `per_gpu_batch` is what each GPU (or the CPU) gets; the global batch
    follows. `max_per_gpu_batch` is a ceiling for GPU runs (smaller GPUs); what is planned below it stays.
    """

    form: TemplateForm | None = None
    gpus: tuple[int, ...] | None = None
    per_gpu_batch: int | None = None
    max_per_gpu_batch: int | None = None
    epochs: int | None = None
    learning_rate: float | None = None
    time_limit_minutes: int | None = None
    cpus: int | None = None
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
        UsageError: when the edition has no such task; the hint lists those it has.
    """
    task = edition.task(task_id)
    if task is None:
        names = [item.id for item in edition.tasks]
        ending = [name for name in names if name.rpartition(".")[2] == task_id]  # 5 means 10.5
        meant = next(iter(ending or difflib.get_close_matches(task_id, names, n=1, cutoff=0.7)), "")
        suggestion = f"Did you mean {meant}? " if meant else ""
        raise UsageError(
            f"{edition.id} has no task {task_id!r}.", f"{suggestion}Its tasks are {', '.join(names)}."
        )
    return task


def planned_specs(task: Task, overrides: PlanOverrides | None = None) -> tuple[RunSpec, ...]:
    """The runs a task plans, with what the student changed."""
    wanted = overrides or PlanOverrides()
    plans = [plan for plan in task.runs if _kept(plan, wanted)]
    return tuple(_spec(plan, wanted) for plan in plans)


def task_drafts(
    edition: Edition, task_id: str, profile: Profile, overrides: PlanOverrides | None = None
) -> tuple[SubmissionDraft, ...]:
    """What a task would submit: one draft per job, in the order they should run; none for tasks without runs.

    Raises:
        UsageError: when the edition has no such task.
    """
    task = task_of(edition, task_id)
    wanted = overrides or PlanOverrides()
    plans = [plan for plan in task.runs if _kept(plan, wanted)]
    specs = [on_nodes(_spec(plan, wanted), profile) for plan in plans]
    forms = [form_of(plan.form, spec, wanted.form) for plan, spec in zip(plans, specs, strict=True)]
    jobs = gathered(forms, specs, _measures(specs))
    return tuple(
        _draft(
            edition,
            task,
            profile,
            wanted,
            form=form,
            specs=[specs[i] for i in at],
            plans=[plans[i] for i in at],
        )
        for form, at in jobs
    )


FRAMEWORK_FOLDERS = ("pytorch/", "tensorflow/")
"""Folders of `remote/` with the scripts of one framework for several nodes."""
PROGRAM_FOLDERS = ("pi/", "jacobi/")
"""Folders of `remote/` with the sources of a program that is timed."""
TRAINING_SCRIPTS = (
    *(f"ResNet{depth}{end}.py" for depth in (50, 101, 152) for end in ("", "_seq")),
    *("resnet_lab.py", "run_log.py", "mllog.py", "cifar-utils/"),
)
"""What a lab of programs alone starts without."""


def withheld_scripts(edition: Edition) -> frozenset[str]:
    """What a lab folder starts without: scripts the student is to make, and whole folders no run of the lab needs.

    A folder ends with ``/``. Every script in the lab folder travels with each job, so what nobody starts stays away.
    """
    started = {
        *framework_scripts(edition),
        *(name for program in edition.programs for name in program.sources),
    }
    folders = (*FRAMEWORK_FOLDERS, *PROGRAM_FOLDERS)
    unused = {each for each in folders if not any(name.startswith(each) for name in started)}
    trained = not edition.programs or any(plan.form != "mpi" for task in edition.tasks for plan in task.runs)
    return frozenset(edition.own_scripts | unused | (set() if trained else {*TRAINING_SCRIPTS}))


def framework_scripts(edition: Edition) -> tuple[str, ...]:
    """The scripts of `FRAMEWORK_FOLDERS` that the edition's runs start."""
    started = (plan.spec.script for task in edition.tasks for plan in task.runs)
    return tuple(dict.fromkeys(name for name in started if name.startswith(FRAMEWORK_FOLDERS)))


def copies_to_start(task: Task) -> tuple[tuple[str, str], ...]:
    """(original, new script) pairs the task asks the student to make."""
    return tuple((check.original, check.script) for check in task.checks if isinstance(check, EditedCheck))


# --------------------------------------------------------------------------- runs


def _kept(plan: RunPlan, wanted: PlanOverrides) -> bool:
    return wanted.gpus is None or plan.spec.n_gpus in wanted.gpus


def _spec(plan: RunPlan, wanted: PlanOverrides) -> RunSpec:
    spec = plan.spec
    if spec.program is not None:
        return spec
    each = spec.per_gpu_batch if wanted.per_gpu_batch is None else wanted.per_gpu_batch
    if wanted.max_per_gpu_batch is not None and wanted.per_gpu_batch is None and spec.n_gpus:
        each = min(each, wanted.max_per_gpu_batch)
    either = {plan.form, wanted.form} <= {*PROCESS_PER_GPU}
    return replace(
        spec,
        batch_size=each * spec.replicas,
        epochs=spec.epochs if wanted.epochs is None else wanted.epochs,
        learning_rate=spec.learning_rate if wanted.learning_rate is None else wanted.learning_rate,
        launcher=launcher_of(wanted.form) if either and wanted.form is not None else spec.launcher,
        arguments=tuple(word.replace(PER_GPU_BATCH, str(each)) for word in spec.arguments),
    )


def expected_learning_rate(edition: Edition, spec: RunSpec) -> float:
    """Base x GPUs, unless the run plans its own."""
    return (
        spec.learning_rate if spec.learning_rate is not None else edition.base_learning_rate * spec.replicas
    )


def form_of(planned: JobForm, spec: RunSpec, wanted: JobForm | None) -> JobForm:
    """The form that is wanted, if it can start the run; a script that srun or torchrun start has a form of its own.

    Of those, one GPU's trainings by torchrun can run in turn in one job.
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


def gathered(
    forms: Sequence[JobForm], specs: Sequence[RunSpec], parts: Sequence[int]
) -> list[tuple[JobForm, list[int]]]:
    """Consecutive runs that share a job, by their places: those of one model and data set in the form ``one-job``.

    A program's measure, and a job file of the student's own, is one job: there runs of one part share it.
    """
    jobs: list[tuple[JobForm, list[int]]] = []
    for at, (form, spec) in enumerate(zip(forms, specs, strict=True)):
        last = jobs[-1] if jobs and jobs[-1][0] == form else None
        before = last[1][-1] if last else 0
        same_data = (specs[before].model, specs[before].data_set) == (spec.model, spec.data_set)
        together = same_data if form == "one-job" else form in ("own", "mpi") and parts[before] == parts[at]
        if last is not None and together:
            last[1].append(at)
        else:
            jobs.append((form, [at]))
    return [
        (
            "torchrun"
            if form == "one-job" and len(at) == 1 and specs[at[0]].launcher == "torchrun"
            else form,
            at,
        )
        for form, at in jobs
    ]


def _measures(specs: Sequence[RunSpec]) -> list[int]:
    """The measure that each timing belongs to: each names its processes in rising order.

    Those that need more nodes are a job of their own: one for all would hold them to its end.
    """
    numbers = [0] * len(specs)
    for at in range(1, len(specs)):
        one, other = specs[at - 1], specs[at]
        same = (one.model, one.nodes) == (other.model, other.nodes) and one.processes < other.processes
        numbers[at] = numbers[at - 1] + (not same)
    return numbers


# --------------------------------------------------------------------------- resources


def _draft(
    edition: Edition,
    task: Task,
    profile: Profile,
    wanted: PlanOverrides,
    *,
    form: JobForm,
    specs: Sequence[RunSpec],
    plans: Sequence[RunPlan],
) -> SubmissionDraft:
    nodes, gpus = allocation(specs)
    planned = profile.names(profile.gpu_queue if gpus else profile.cpu_queue)
    account = profile.account_of(wanted.account)
    places = {"account": account, "user": wanted.user or profile.user}
    data_dir, container = profile.data_dir, profile.launch.container or profile.container
    if form == "mpi":
        data_dir = container = ""
    if specs[0].launcher in PROCESS_PER_GPU:
        container = profile.containers.get("pytorch", "")
        data_dir = profile.datasets_dir if specs[0].reads_folder else profile.data_dir
    draft = SubmissionDraft(
        task_id=task.id,
        form=form,
        runs=tuple(specs),
        gpus=gpus,
        nodes=nodes,
        cpus=wanted.cpus
        or cores_of(specs, gpus, nodes, profile)
        or cpus_for(0, profile, next((plan.cpus for plan in plans if plan.cpus), None)),
        time_limit_minutes=1,
        account=account,
        job_name=job_name(specs),
        data_dir=fill(wanted.data_dir or data_dir, places),
        container=fill(wanted.container or container, places),
        reservation=wanted.reservation,
        qos=wanted.qos or planned.qos,
        partition=wanted.partition or planned.partition,
    )
    minutes = wanted.time_limit_minutes or time_limit(
        draft, edition, profile, [plan.time_limit_minutes or 0 for plan in plans]
    )
    return replace(draft, time_limit_minutes=minutes)


def cores_of(specs: Sequence[RunSpec], gpus: int, nodes: int, profile: Profile) -> int:
    """CPU cores that each node needs: a program's process that is not on a GPU has one; 0 where a CPU run decides."""
    if specs[0].program is not None and not gpus:
        return -(-max(spec.processes for spec in specs) // nodes)
    return cpus_for(gpus, profile) if gpus else 0


def on_nodes(spec: RunSpec, profile: Profile) -> RunSpec:
    """The run on as few of the cluster's nodes as hold its GPUs (or a program's processes), the same number on each."""
    if spec.program is not None:
        return replace(spec, nodes=_program_nodes(spec.processes, spec.n_gpus, profile))
    if spec.launcher not in MANY_NODES or spec.device == "cpu":
        return spec
    most = max(1, profile.gpus_per_node)
    nodes = -(-spec.n_gpus // most)
    while spec.n_gpus % nodes:
        nodes += 1
    return replace(spec, nodes=nodes)


def _program_nodes(processes: int, gpus: int, profile: Profile) -> int:
    """Nodes that hold a program's processes; one where nobody knows how many cores a node has."""
    each = profile.gpus_per_node if gpus else profile.cpus_per_node
    return 1 if each <= 1 and not gpus else -(-processes // max(1, each))


def allocation(specs: Sequence[RunSpec]) -> tuple[int, int]:
    """(nodes, GPUs of each) that a job needs for its largest run."""
    if specs[0].program is not None:
        most = max(specs, key=lambda spec: spec.processes)
        return most.nodes, -(-most.n_gpus // most.nodes)
    return max(
        ((spec.nodes, spec.n_gpus // spec.nodes) for spec in specs), key=lambda size: size[0] * size[1]
    )


def refuse_too_many_nodes(draft: SubmissionDraft, profile: Profile) -> None:
    """Raises UsageError for a job with more nodes than its queue takes; the hint names a queue that takes them."""
    queue = profile.queue(draft.queue)
    if queue is None or queue.max_nodes is None or draft.nodes <= queue.max_nodes:
        return
    others = [q for q in profile.queues if q.devices == queue.devices and (q.max_nodes or 0) >= draft.nodes]
    most = max((q.max_nodes or 0 for q in profile.queues if q.devices == queue.devices), default=0)
    hint = f"No queue that labtui knows there takes more than {most} nodes: plan at most {most * draft.gpus} GPUs."
    if others:
        hint = f"{others[0].name} takes {others[0].max_nodes} nodes: name it with --{profile.queue_option}."
    gpus = f"{draft.all_gpus} GPUs are {draft.nodes} nodes of {profile.title}"
    takes = f"{queue.max_nodes} node{'s' * (queue.max_nodes != 1)}"
    raise UsageError(f"{gpus}, and {queue.name} takes {takes} a job.", hint)


def in_queue(draft: SubmissionDraft, profile: Profile, *, qos: str, partition: str) -> SubmissionDraft:
    """The draft in the student's QoS or partition, unless the profile says that it is for other devices."""
    devices = "gpu" if draft.gpus else "cpu"
    for name in (qos, partition):
        queue = profile.queue(name)
        if queue is not None and queue.devices != devices:
            return draft
    return replace(draft, qos=qos or draft.qos, partition=partition or draft.partition)


def fill(text: str, places: Mapping[str, str]) -> str:
    """A profile's text with ``{account}`` and ``{user}`` filled in; without a value they stay as written."""
    return re.sub(r"\{(account|user)\}", lambda match: places.get(match[1]) or match[0], text)


def cpus_for(gpus: int, profile: Profile, prescribed: int | None = None) -> int:
    """CPUs a job asks for: the site's number per GPU, else what a CPU run prescribes; at most a node."""
    if gpus:
        return gpus * profile.cpus_per_gpu
    return max(1, min(prescribed or profile.cpus_per_gpu, max(profile.cpus_per_node, 1)))


def job_name(specs: Sequence[RunSpec]) -> str:
    """A short name Slurm, a shell and a file name can all take: ``ResNet50-1-2-4gpu``, ``ResNet50-cpu``."""
    models = "-".join(dict.fromkeys(spec.model for spec in specs))
    if specs[0].program is not None:
        most = max(specs, key=lambda spec: spec.processes)
        size = f"-{most.size}" if specs[0].program.scaling == "strong" else ""
        return f"{models}{size}-{specs[0].program.counted(most.processes).replace(' ', '')}"
    if all(spec.device == "cpu" for spec in specs):
        return f"{models}-cpu"
    models = "-".join([models, *dict.fromkeys(spec.data_set for spec in specs if spec.data_set)])
    return f"{models}-{'-'.join(dict.fromkeys(str(spec.n_gpus) for spec in specs))}gpu"
