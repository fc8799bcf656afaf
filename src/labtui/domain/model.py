"""labtui's nouns, as frozen values: run, plan, submission, job, epoch sample, diagnosis."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from labtui.domain.tuning import Tuning, named_options, tuning_of


class Interval(msgspec.Struct, frozen=True):
    """A value inside closed bounds, ``lo <= value <= hi``, all finite. Raises ValueError for any other."""

    value: float
    lo: float
    hi: float

    def __post_init__(self) -> None:
        if not -math.inf < self.lo <= self.value <= self.hi < math.inf:
            raise ValueError(f"{self.value} is not within finite bounds [{self.lo}, {self.hi}]")

    @classmethod
    def exact(cls, value: float) -> Interval:
        """A number known exactly."""
        return cls(value, value, value)

    @classmethod
    def between(cls, lo: float, hi: float) -> Interval:
        """What is known by its bounds alone: the value is their middle."""
        return cls((lo + hi) / 2, lo, hi)

    @classmethod
    def around(cls, value: float, half_width: float) -> Interval:
        """``value`` plus or minus ``half_width``."""
        return cls(value, value - half_width, value + half_width)

    @property
    def half_width(self) -> float:
        """Half the distance between the bounds, in the value's unit."""
        return (self.hi - self.lo) / 2

    def scaled(self, factor: float) -> Interval:
        """The interval times an exactly known factor."""
        low, high = sorted((self.lo * factor, self.hi * factor))
        return Interval(self.value * factor, low, high)

    def minus(self, other: Interval) -> Interval:
        """The difference; its bounds are those of the worst case."""
        return Interval(self.value - other.value, self.lo - other.hi, self.hi - other.lo)

    @classmethod
    def mean(cls, intervals: Sequence[Interval], weights: Sequence[int] = ()) -> Interval | None:
        """Mean of the values inside the mean of the bounds, by weight (1 where none are given); None for nothing."""
        if not intervals:
            return None
        weights = weights or [1] * len(intervals)

        def mean(numbers: Iterable[float]) -> float:
            return math.fsum(map(operator.mul, numbers, weights)) / sum(weights)

        lo, hi = mean(each.lo for each in intervals), mean(each.hi for each in intervals)
        value = mean(each.value for each in intervals)
        return cls(min(max(value, lo), hi), lo, hi)  # the division may round a bound past the value

    def contains(self, number: float) -> bool:
        return self.lo <= number <= self.hi

    def over(self, other: Interval) -> Interval:
        """This interval divided by another; both must be positive (times, rates)."""
        if self.lo < 0 or other.lo <= 0:
            raise ValueError("only positive intervals can be divided here")
        return Interval(self.value / other.value, self.lo / other.hi, self.hi / other.lo)


Device = Literal["cpu", "gpu"]
Launcher = Literal["python", "torchrun", "task-per-gpu", "srun-python", "srun", "mpirun"]
"""What starts a training: one process for all GPUs of a node; torchrun, or srun itself, with one for each GPU; srun
with one a node. A program of one's own is started by ``srun`` or ``mpirun``, with as many processes as the run says."""
PROCESS_PER_GPU = ("torchrun", "task-per-gpu")
"""The launchers of PyTorch's scripts: these have the same options, whatever starts their processes."""
MANY_NODES = (*PROCESS_PER_GPU, "srun-python")
"""The launchers, and the job forms of these names, that train once on the GPUs of one node or several."""
BatchOption = Literal["global", "per-node", "per-task", "per-gpu"]
"""What a script's ``--batch_size`` means: the batch of all GPUs together, or that of each node, process or GPU."""
Stream = Literal["out", "err", "gpu"]
"""A log of a job: standard output, standard error, or the GPU sampler's CSV."""
Outcome = Literal["completed", "unfinished", "oom", "time-limit", "cancelled", "failed"]
DiagnosisKind = Literal[
    "oom", "time-limit", "cancelled", "no-gpu", "missing-module", "missing-file", "bad-arguments", "container", "quota",
    "host-memory", "process-lost", "node-lost", "rendezvous", "traceback", "contradiction", "mixed-trainings",
]  # fmt: skip
WorkUnit = Literal["images", "tokens", "samples", "sequences", "sentences"]
"""What a training counts its work in: a rate is so many of them per second."""
Scaling = Literal["strong", "weak"]
"""Strong: the same work on n processes, S = T1/Tn, E = S/n. Weak: n times the work on n processes, E = T1/Tn."""


class Program(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A program that is timed without epochs, as an edition declares it: it prints one time a run.

    `sources` lie in `scripts/`; each of `build` is a command that makes the program from them, in the job, after the
    modules that the cluster has for its `toolchain` (``mpi``) are loaded. `command` is what one run starts,
    `sequential` what the run of one process starts where that is another program; ``{size}`` in both stands for the
    size, ``{nx}`` and ``{ny}`` for the sides of a grid. `lines` are the lines it prints its times in
    (`training_logs.patterns` has their form). `counts` is what runs differ by: processes on CPU cores, or GPUs with a
    process for each. Times are shown in `shown_in`.
    """

    name: str
    scaling: Scaling = "strong"
    counts: Literal["processes", "GPUs"] = "processes"
    launcher: Literal["srun", "mpirun"] = "srun"
    sources: tuple[str, ...] = ()
    build: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    sequential: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    shown_in: Literal["s", "ms"] = "s"
    toolchain: str = ""

    def counted(self, number: int) -> str:
        """So many of what its runs differ by: ``1 process``, ``8 processes``, ``1 GPU``."""
        if self.counts == "GPUs":
            return plural(number, "GPU")
        return f"{number} process{'es' * (number != 1)}"

    def words(self, number: int, size: str) -> tuple[str, ...]:
        """The command of a run on so many processes."""
        chosen = self.sequential if number == 1 and self.sequential else self.command
        sides = size.split("x")
        values = {"{size}": size, "{nx}": sides[0], "{ny}": sides[-1]}
        return tuple(values.get(word, word) for word in chosen)


def batch_shares(option: str, gpus: int, nodes: int, launcher: str) -> int:
    """How many batches, as a script's `option` means them, make the global one; a process has a GPU or a node."""
    processes = gpus if launcher in PROCESS_PER_GPU else nodes
    return max(1, {"per-node": nodes, "per-task": processes, "per-gpu": gpus}.get(option, 1))


class RunSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One training: fixed model, device count, batch and epochs. What a chart plots.

    `model` is the lab's short name ("ResNet50" for ResNet50V2). `n_gpus` is 0 on a CPU. `batch_size` is the *global*
    batch. `script` is the training script in `scripts/`, relative to it ("ResNet50.py"); `batch_option` is what its own
    batch option means. `nodes` is how many nodes share the GPUs evenly, `data_set` names the images where a lab has
    several. `arguments` stand in the place of those that labtui would write. `variant` is a word for a script of the
    student's that differs from the one it was copied from.
    A run of a `program` has one time and no epochs; `processes` are those it is started with, `size` its problem's.
    `unknown` names what nothing tells yet about a run of the student's own job file (model, n_gpus, batch_size,
    epochs): its value here means nothing.
    """

    model: str
    device: Device
    n_gpus: int
    batch_size: int
    epochs: int
    script: str
    learning_rate: float | None = None
    extra_args: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    nodes: int = 1
    launcher: Launcher = "python"
    batch_option: BatchOption = "global"
    data_set: str = ""
    arguments: tuple[str, ...] = ()
    variant: str = ""
    program: Program | None = None
    processes: int = 0
    size: str = ""

    @property
    def tuning(self) -> Tuning:
        """What its options, and the variant of its script, change of its speed."""
        return tuning_of(named_options((*self.arguments, *self.extra_args)), self.variant)

    @property
    def unit(self) -> WorkUnit:
        """What its rate counts as far as the plan tells."""
        return "tokens" if "sequence_length" in dict(self.tuning) else "images"

    @property
    def is_control(self) -> bool:
        return "control" in dict(self.tuning)

    @property
    def replicas(self) -> int:
        """Devices that share a step: the GPUs, or one CPU."""
        return max(1, self.n_gpus)

    @property
    def per_gpu_batch(self) -> int:
        """The global batch divided over the replicas."""
        return self.batch_size // self.replicas

    @property
    def option_batch(self) -> int:
        """What the script's own batch option is given for this global batch."""
        return self.batch_size // batch_shares(self.batch_option, self.replicas, self.nodes, self.launcher)

    @property
    def reads_folder(self) -> bool:
        """Whether its images are a folder below the data directory: not the CIFAR-10 pickles, and not made up."""
        return self.data_set not in ("", "cifar10", "synthetic")

    @property
    def label(self) -> str:
        """How the run is called on a screen, e.g. ``ResNet50 · 2 GPUs`` or ``ResNet50 · CPU``."""
        model = self.model or self.script or "run"
        if self.program is not None:
            return f"{model} · {self.size} · {self.program.counted(self.processes)}"
        if "n_gpus" not in self.unknown and self.data_set:
            model = f"{model} · {self.data_set}"
        return f"{model} · {self.devices}".removesuffix(" · ")

    def called(self, names: Mapping[str, str]) -> RunSpec:
        """The run as people read of it: its network as an edition's `names` have it, else as logs do."""
        return replace(self, model=names.get(self.model, self.model))

    @property
    def devices(self) -> str:
        """``CPU``, ``2 GPUs``; "" where that is not known."""
        if "n_gpus" in self.unknown:
            return ""
        return "CPU" if self.device == "cpu" else plural(self.n_gpus, "GPU")


TemplateForm = Literal[
    "cpu", "one-gpu", "one-job", "job-per-size", "torchrun", "task-per-gpu", "srun-python", "mpi"
]
"""Which template: CPU; one GPU; one job that runs 1/2/4 GPUs in turn; a job per size; three for any nodes; programs."""
JobForm = Literal[TemplateForm, "own"]
"""How a job came to be: by a template, or ("own") from a job file of the student's own."""


class JobRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a job asks for: of a draft, and of the submission that it becomes.

    `time_limit_minutes` is the wall time asked for; `cpus` and `gpus` what Slurm allocates, on each of `nodes`. `qos`
    and `partition` go to `sbatch` under those names; an empty one is left out. `options` go on its command line.
    `job_file` is the name of the student's own job file (form "own").
    """

    task_id: str
    form: JobForm
    job_name: str
    runs: tuple[RunSpec, ...] = ()
    gpus: int = 0
    cpus: int = 0
    time_limit_minutes: int = 0
    account: str = ""
    qos: str = ""
    partition: str = ""
    nodes: int = 1
    options: tuple[str, ...] = ()
    job_file: str = ""

    @property
    def queue(self) -> str:
        """What limits how many jobs a user has: the QoS, else the partition."""
        return self.qos or self.partition

    @property
    def given(self) -> dict[str, str]:
        """The options on the command line of `sbatch`, by their long names."""
        return dict(option.removeprefix("--").split("=", 1) for option in self.options)

    @property
    def request(self) -> dict[str, Any]:
        """The fields of a `JobRequest`, by name."""
        return {name: getattr(self, name) for name in JobRequest.__struct_fields__}


class SubmissionDraft(JobRequest, frozen=True, kw_only=True):
    """What one `sbatch` would carry, before it has a token. Editable in the plan screen.

    Of a job file of the student's own: its logs by stream as sbatch's patterns, and the files beside it.
    """

    data_dir: str = ""
    container: str = ""
    reservation: str = ""
    log_patterns: tuple[tuple[Stream, str], ...] = ()
    beside: tuple[tuple[str, bytes], ...] = ()

    @property
    def all_gpus(self) -> int:
        """The GPUs of all nodes: what is charged."""
        return self.gpus * self.nodes


class AcceptedFinding(msgspec.Struct, frozen=True, kw_only=True):
    """A finding of preflight that the student overrode, and why. `line` is 1-based, 0 for the file as a whole."""

    rule: str
    file: str
    line: int
    effect: str
    reason: str


class SubmissionStatus(StrEnum):
    """Where a submission stands on its way into Slurm."""

    WAITING = "waiting"  # in labtui's submission queue
    SENDING = "sending"  # the intent is stored, the answer is not here yet
    UNKNOWN = "unknown"  # no answer: looked up by token, and nothing is sent before it is certain
    ACCEPTED = "accepted"  # Slurm gave it a job id
    REFUSED = "refused"  # Slurm said never
    WITHDRAWN = "withdrawn"  # taken back before it was sent, or to be wanted again


class JobPhase(StrEnum):
    """A job's state with evidence; `UNKNOWN` is never the same as `FINISHED`."""

    QUEUED = "queued"
    RUNNING = "running"
    SETTLING = "settling"  # left the queue, no accounting record yet
    FINISHED = "finished"
    UNKNOWN = "unknown"


class RunPhase(StrEnum):
    """What a run's row shows."""

    WAITING = "waiting"
    QUEUED = "queued"
    STARTING = "starting"  # its job runs, no epoch line yet
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"


class JobView(msgspec.Struct, frozen=True, kw_only=True):
    """What Slurm last said about a job, and when.

    Times are UNIX seconds of the cluster's clock; `seen_at` and `start_estimate` are UNIX seconds of ours. `evidence`
    names who said it: ``squeue``, ``sacct``, ``log``. `reason` is Slurm's reason why it is pending.
    """

    job_id: str
    phase: JobPhase
    slurm_state: str = ""
    reason: str = ""
    start_estimate: float | None = None
    submit_time: float | None = None
    start_time: float | None = None
    end_time: float | None = None
    time_limit_s: float | None = None
    elapsed_s: float | None = None
    node: str = ""
    partition: str = ""
    exit_code: str = ""
    evidence: str = ""
    seen_at: float = 0.0
    unknown_since: float | None = None
    restarts: int = 0
    name: str = ""
    qos: str = ""
    comment: str = ""
    work_dir: str = ""

    @property
    def since(self) -> float | None:
        """When it started, or was submitted where it waits."""
        return (self.submit_time if self.phase is JobPhase.QUEUED else self.start_time) or None

    def ran_s(self, cluster_time: float | None) -> float:
        """Seconds it has run, by the cluster's clock alone; `cluster_time` is None where that is not known.

        The clock counts no further than a running job's limit, be it wrong or the answer old; Slurm's word does.
        """
        if self.phase is JobPhase.QUEUED:
            return 0.0
        if self.start_time is not None and self.end_time is not None:
            return max(0.0, self.end_time - self.start_time)
        ran = self.elapsed_s or 0.0
        if self.phase is JobPhase.RUNNING and self.start_time is not None and cluster_time is not None:
            limit = math.inf if self.time_limit_s is None else self.time_limit_s
            ran = max(ran, min(cluster_time - self.start_time, limit))
        return ran


class EpochSample(msgspec.Struct, frozen=True, kw_only=True):
    """Time and metrics of one epoch of one run.

    `seconds` is the interval that holds the epoch's true duration in seconds; `printed_seconds` the whole
    seconds as printed (None when the log gives none); `ms_per_step` as printed, in milliseconds.
    `source` says what the interval rests on: ``mllog``, ``keras`` or another grammar's name.
    `line` is the 1-based line of the log it was read from: every figure can be traced to it.
    `ended_at` is when it ended, in UNIX seconds of the node's clock, for logs that tell. `starts_process` is true for
    the first epoch of a process: it pays for start-up, also in a resumed training whose first epoch is the third.
    `count` is the number of epochs of a block that the log times as one: `epoch` is its first, `seconds` their mean.
    """

    epoch: int
    seconds: Interval
    printed_seconds: int | None = None
    steps: int | None = None
    ms_per_step: float | None = None
    metrics: Mapping[str, float] = {}
    source: str = "keras"
    line: int | None = None
    ended_at: float | None = None
    starts_process: bool = False
    count: int = 1


def first_sentence(text: str) -> str:
    """A text up to the end of its first sentence."""
    return f"{text.partition('. ')[0].rstrip('.')}." if text else ""


def plural(count: int, noun: str) -> str:
    """``1 run``, ``3 runs``."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def count_epochs(samples: Iterable[EpochSample]) -> int:
    """How many epochs the samples stand for: a block counts as all of its epochs."""
    return sum(sample.count for sample in samples)


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """Something in a log that explains a failure or a surprise, and what to do next; line 0: it is Slurm's word."""

    kind: DiagnosisKind
    line: int
    text: str
    advice: str
    stream: Stream = "out"

    @property
    def place(self) -> str:
        """``line 12 of the log``, ``line 12 of standard error``."""
        stream = "standard error" if self.stream == "err" else "the log"
        return f"line {self.line} of {stream}" if self.line else "Slurm's accounting"
