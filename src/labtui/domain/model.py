"""labtui's basic records, all frozen: run, plan, submission, job, epoch sample, diagnosis."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from labtui.domain.tuning import Tuning, named_options, tuning_of


class Interval(msgspec.Struct, frozen=True, gc=False):
    """A value with bounds, ``lo <= value <= hi``, all finite. Raises ValueError for any other."""

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
        """A value of which only the bounds are known: their middle stands for it."""
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
        """The interval times an exact factor."""
        low, high = sorted((self.lo * factor, self.hi * factor))
        return Interval(self.value * factor, low, high)

    def minus(self, other: Interval) -> Interval:
        """The difference, with worst-case bounds."""
        return Interval(self.value - other.value, self.lo - other.hi, self.hi - other.lo)

    @classmethod
    def mean(cls, intervals: Sequence[Interval], weights: Sequence[float] = ()) -> Interval | None:
        """The weighted means of the values and of the bounds (weights of 1 by default); None for no intervals."""
        if not intervals:
            return None
        weights = weights or [1] * len(intervals)
        columns = zip(*((each.lo, each.value, each.hi) for each in intervals), strict=True)
        lo, value, hi = (math.fsum(map(operator.mul, each, weights)) / sum(weights) for each in columns)
        # Rounding in the division may push a bound past the value.
        return cls(min(max(value, lo), hi), lo, hi)

    def contains(self, number: float) -> bool:
        return self.lo <= number <= self.hi

    def over(self, other: Interval) -> Interval:
        """This interval divided by another. Raises ValueError unless both are positive (times, rates)."""
        if self.lo < 0 or other.lo <= 0:
            raise ValueError("only positive intervals can be divided here")
        return Interval(self.value / other.value, self.lo / other.hi, self.hi / other.lo)


Device = Literal["cpu", "gpu"]
Launcher = Literal["python", "torchrun", "task-per-gpu", "srun-python", "srun", "mpirun"]
"""What starts a training: ``python``, one process for all GPUs of a node; ``torchrun`` or ``task-per-gpu`` (srun), one
process per GPU; ``srun-python``, one per node. ``srun`` and ``mpirun`` start a `Program`."""
PROCESS_PER_GPU = ("torchrun", "task-per-gpu")
"""The launchers of the PyTorch scripts, whose options are the same under both."""
MANY_NODES = (*PROCESS_PER_GPU, "srun-python")
"""The launchers, and job forms of the same names, that run one training on the GPUs of one or more nodes."""
BatchOption = Literal["global", "per-node", "per-task", "per-gpu"]
"""What a script's ``--batch_size`` means: the batch of all GPUs together, or of each node, process or GPU."""
Stream = Literal["out", "err", "gpu"]
"""A log of a job: standard output, standard error, or the GPU sampler's CSV."""
Outcome = Literal["completed", "unfinished", "oom", "time-limit", "cancelled", "failed"]
DiagnosisKind = Literal[
    "oom", "time-limit", "cancelled", "no-gpu", "missing-module", "missing-file", "bad-arguments", "container", "quota",
    "host-memory", "process-lost", "node-lost", "rendezvous", "traceback", "contradiction", "mixed-trainings",
]  # fmt: skip
WorkUnit = Literal["images", "tokens", "samples", "sequences", "sentences"]
"""What a training counts its work in; a rate is a number of these per second."""
Scaling = Literal["strong", "weak"]
"""Strong: the same work on n processes, S = T1/Tn, E = S/n. Weak: n times the work on n processes, E = T1/Tn."""


class Program(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A program that prints one time per run and has no epochs, as an edition declares it.

    `sources` lie in `scripts/`. The job builds the program from them by the commands of `build`, after it has loaded
    the cluster's modules for `toolchain` (``mpi``). `command` starts a run; `sequential`, where given, starts the run
    of one process instead. In both ``{size}`` stands for the size, ``{nx}`` and ``{ny}`` for the sides of a grid.
    `lines` are patterns of the lines with its times (see `training_logs.patterns`). `counts` is what runs differ by:
    processes on CPU cores, or GPUs with one process interval. `shown_in` is the unit in which times are shown.
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

    def count_label(self, number: int) -> str:
        """`number` with the noun of `counts`: ``1 process``, ``8 processes``, ``1 GPU``."""
        return plural(number, "GPU" if self.counts == "GPUs" else "process").replace(",", "")

    def argv(self, number: int, size: str) -> tuple[str, ...]:
        """The command of a run on `number` processes."""
        chosen = self.sequential if number == 1 and self.sequential else self.command
        sides = size.split("x")
        values = {"{size}": size, "{nx}": sides[0], "{ny}": sides[-1]}
        return tuple(values.get(word, word) for word in chosen)


def batch_shares(option: str, gpus: int, nodes: int, launcher: str) -> int:
    """How many batches, in the meaning of a script's `option` (a `BatchOption`), make up the global batch."""
    processes = gpus if launcher in PROCESS_PER_GPU else nodes
    return max(1, {"per-node": nodes, "per-task": processes, "per-gpu": gpus}.get(option, 1))


class RunSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The plan of one training: model, devices, batch, epochs. A chart plots such runs.

    `model` is the lab's short name ("ResNet50" for ResNet50V2). `n_gpus` is 0 on a CPU. `batch_size` is the *global*
    batch. `script` is the path of the training script inside `scripts/` ("ResNet50.py"); `batch_option` is what the
    script's own batch option means. The GPUs are spread evenly over `nodes`. `data_set` names the images where a lab
    has several. `arguments` replace those that labtui would write. `variant` labels a script that the student changed.
    A run of a `program` has one time and no epochs, a number of `processes` and a problem `size`.
    `unknown` names the fields that a student's own job file does not give (model, n_gpus, batch_size, epochs); their
    values here mean nothing. `named`: `model` is the student's own name for it, and the log may print another.
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
    named: bool = False
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
        """The options, and the script variant, that change its speed."""
        return tuning_of(named_options((*self.arguments, *self.extra_args)), self.variant)

    @property
    def unit(self) -> WorkUnit:
        """The unit of its rate, as far as the plan tells."""
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
        """The share of one replica in the global batch."""
        return self.batch_size // self.replicas

    @property
    def option_batch(self) -> int:
        """The value of the script's own batch option for this global batch."""
        return self.batch_size // batch_shares(self.batch_option, self.replicas, self.nodes, self.launcher)

    @property
    def reads_folder(self) -> bool:
        """Whether it reads a folder of images below the data directory, not the CIFAR-10 pickles or synthetic data."""
        return self.data_set not in ("", "cifar10", "synthetic")

    @property
    def label(self) -> str:
        """The run's name on a screen, e.g. ``ResNet50 · 2 GPUs`` or ``ResNet50 · CPU``."""
        model = self.model or self.script or "run"
        if self.program is not None:
            return f"{model} · {self.size} · {self.program.count_label(self.processes)}"
        if "n_gpus" not in self.unknown and self.data_set:
            model = f"{model} · {self.data_set}"
        return f"{model} · {self.devices}".removesuffix(" · ")

    def called(self, names: Mapping[str, str]) -> RunSpec:
        """The run with the display name of its model from an edition's `names`, where they have one."""
        return replace(self, model=names.get(self.model, self.model))

    @property
    def devices(self) -> str:
        """``CPU``, ``2 GPUs``; "" if unknown."""
        if "n_gpus" in self.unknown:
            return ""
        return "CPU" if self.device == "cpu" else plural(self.n_gpus, "GPU")


TemplateForm = Literal[
    "cpu", "one-gpu", "one-job", "job-per-size", "torchrun", "task-per-gpu", "srun-python", "mpi"
]
"""The template of a job script: CPU; one GPU; 1/2/4 GPUs in turn; a job per size; three for several nodes; programs."""
JobForm = Literal[TemplateForm, "own"]
"""Where a job script comes from: a template, or ("own") a job file of the student's own."""


class JobRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a job asks for: the fields that a draft shares with the submission made from it.

    `time_limit_minutes` is the requested wall time; `cpus` and `gpus` are those of each of the `nodes`. `qos` and
    `partition` are passed to `sbatch` unless empty, `options` are further words of its command line.
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
        """The QoS, else the partition: the one whose limits apply."""
        return self.qos or self.partition

    @property
    def options_by_name(self) -> dict[str, str]:
        """`options` by long name, without dashes."""
        return dict(option.removeprefix("--").split("=", 1) for option in self.options)

    @property
    def request_fields(self) -> dict[str, Any]:
        """The fields of a `JobRequest`, by name."""
        return {name: getattr(self, name) for name in JobRequest.__struct_fields__}


class SubmissionDraft(JobRequest, frozen=True, kw_only=True):
    """A job as it would be submitted; it has no token yet. The plan screen edits it.

    Of an own job file: `log_patterns` are sbatch's, `beside` the files beside it, `left_out` those too large to send.
    """

    data_dir: str = ""
    container: str = ""
    reservation: str = ""
    log_patterns: tuple[tuple[Stream, str], ...] = ()
    beside: tuple[tuple[str, bytes], ...] = ()
    left_out: tuple[tuple[str, int], ...] = ()

    @property
    def total_gpus(self) -> int:
        """The GPUs of all nodes, which are what is charged."""
        return self.gpus * self.nodes


class AcceptedFinding(msgspec.Struct, frozen=True, kw_only=True):
    """A preflight finding that the student overrode, and why. `line` is 1-based, 0 for the whole file."""

    rule: str
    file: str
    line: int
    effect: str
    reason: str


class SubmissionStatus(StrEnum):
    """Where a submission stands on its way into Slurm."""

    WAITING = "waiting"  # in labtui's submission queue
    SENDING = "sending"  # stored as sent, not answered yet
    UNKNOWN = "unknown"  # no answer: looked up by token, never sent again before the look-up succeeds
    ACCEPTED = "accepted"  # Slurm gave it a job id
    REFUSED = "refused"  # Slurm refused it for good, or the cluster its files
    WITHDRAWN = "withdrawn"  # cancelled before it was sent


class JobPhase(StrEnum):
    """The phase of a job as far as there is evidence; a job that cannot be found is `UNKNOWN`, not `FINISHED`."""

    QUEUED = "queued"
    RUNNING = "running"
    SETTLING = "settling"  # left the queue, no accounting record yet
    FINISHED = "finished"
    UNKNOWN = "unknown"


class RunPhase(StrEnum):
    """The phase of a run, as its row shows it."""

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

    Times are UNIX seconds on the cluster's clock, `seen_at` on ours. `evidence` names the source: squeue, sacct, log,
    sbatch, started (the job's own link), gone (not queued). `reason` is why the job is pending. A pending job with a
    `start_time` ran before. Only accounting has an `exit_code`, and is not asked where the queue shows the end.
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
    exit_code: str | None = None
    evidence: str = ""
    seen_at: float = 0.0
    unknown_since: float | None = None
    name: str = ""
    qos: str = ""
    comment: str = ""
    work_dir: str = ""

    @property
    def since(self) -> float | None:
        """When its phase began, in UNIX seconds: the submission of a queued job, else the start."""
        return (self.submit_time if self.phase is JobPhase.QUEUED else self.start_time) or None

    def ran_s(self, cluster_time: float | None) -> float:
        """Seconds it has run by the cluster's clock; `cluster_time` is that clock's time, None if unknown.

        The time by the clock is capped at the time limit, since the clock may be wrong or the answer old. Slurm's own
        `elapsed_s` is taken as it is.
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

    def limit_left(self, cluster_time: float | None) -> float:
        """The seconds that its time limit still allows; infinite where it has none."""
        return max(0.0, self.time_limit_s - self.ran_s(cluster_time)) if self.time_limit_s else math.inf


class EpochSample(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Time and metrics of one epoch of one run.

    `seconds` is the interval that holds the epoch's true duration; `printed_seconds` are the whole seconds as printed;
    `ms_per_step` is in milliseconds, as printed. `source` is the form of its lines: ``mllog``, ``keras`` or another.
    `line` is the 1-based line of the log, `metric_lines` those of metrics, and of `seconds`, that another line gives.
    `ended_at` is the end in UNIX seconds on the node's clock, if the log has it. `starts_process` is true for the first
    epoch of a process, which includes start-up (in a resumed training this may be epoch 3). `count` is the number of
    epochs that the log times as one block: `epoch` is its first, `seconds` their mean.
    """

    epoch: int
    seconds: Interval
    printed_seconds: int | None = None
    steps: int | None = None
    ms_per_step: float | None = None
    metrics: Mapping[str, float] = {}
    metric_lines: Mapping[str, int] = {}
    source: str = "keras"
    line: int | None = None
    ended_at: float | None = None
    starts_process: bool = False
    count: int = 1

    def line_of(self, metric: str) -> int | None:
        """The line of the log that prints a metric, or the time (`seconds`)."""
        return self.metric_lines.get(metric, self.line)


def first_sentence(text: str) -> str:
    """The first sentence of a text."""
    return f"{text.partition('. ')[0].rstrip('.')}." if text else ""


def plural(count: int, noun: str) -> str:
    """``1 run``, ``3 runs``, ``8 processes``."""
    return f"{count:,} {noun}{'' if count == 1 else 'es' if noun.endswith('s') else 's'}"


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """An explanation of a failure, and what to do next. `line` is 1-based; 0 when Slurm's accounting says it."""

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
