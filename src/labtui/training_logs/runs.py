"""The runs of a log: what a reader tells of them, event by event, and a run while its lines arrive."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal

from labtui.domain.model import (
    Device,
    Diagnosis,
    EpochSample,
    Interval,
    Outcome,
    ParsedRun,
    Program,
    Stream,
    tuning_of,
)
from labtui.training_logs.keras import FirstStep, Summary


@dataclass(frozen=True, slots=True)
class RunBegan:
    """A run began; `run` holds what the log has given so far. `index` counts the runs of this log from 0."""

    index: int
    run: ParsedRun


@dataclass(frozen=True, slots=True)
class EpochRead:
    """An epoch is over. An epoch that comes again is a correction."""

    index: int
    sample: EpochSample


@dataclass(frozen=True, slots=True)
class RunClosed:
    """Nothing more will come for this run: another one began, it ended, or the log is complete."""

    index: int
    run: ParsedRun


@dataclass(frozen=True, slots=True)
class DiagnosisFound:
    """A line that explains a failure or a surprise."""

    diagnosis: Diagnosis


LogEvent = RunBegan | EpochRead | RunClosed | DiagnosisFound


GRAVITY: dict[Outcome, int] = {
    "unfinished": -1,
    "completed": -1,
    "failed": 0,
    "oom": 1,
    "cancelled": 2,
    "time-limit": 3,
}
"""Which of two failures of one run names its outcome."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A process that ended badly, in the order of the log: what a run's outcome is drawn from.

    `job_level` is true when Slurm or the kernel ended the whole job: it can only concern the last run.
    """

    outcome: Outcome
    line: int
    job_level: bool = False


GpuSource = Literal["devices", "replicas", "job", "banner"]
_GPU_RANK: tuple[GpuSource, ...] = ("devices", "replicas", "job", "banner")
"""Where a log tells the number of GPUs of a run, the surest first: the devices that TensorFlow used, the replicas
of its strategy, and what the script or its command intended."""


@dataclass(frozen=True, slots=True)
class GpuCount:
    """A number of GPUs as one line of the log gives it; `device` is cpu where the line names no GPU.

    `stream` is the log the line stands in.
    """

    source: GpuSource
    count: int
    line: int
    text: str
    device: Device = "gpu"
    stream: Stream = "out"

    def __str__(self) -> str:
        place = f"line {self.line}{' of the .err' if self.stream == 'err' else ''}"
        return f'{place}: "{self.text.strip()[:120]}"'


def surest(found: Iterable[GpuCount]) -> tuple[GpuCount, GpuCount | None]:
    """The surest of these counts, and the next surest that cannot be true beside it; at least one is given."""
    best, *others = sorted(found, key=lambda one: _GPU_RANK.index(one.source))
    other = next((one for one in others if (one.count, one.device) != (best.count, best.device)), None)
    return best, None if best.device == "cpu" else other


def contradiction(other: GpuCount, best: GpuCount) -> tuple[str, str]:
    """Two lines that cannot both be true, as the text of a finding and its advice."""
    of_whom = "the job has" if best.source == "job" else "TensorFlow reports"
    count = f"{best.count} GPU{'s' if best.count != 1 else ''}"
    advice = (
        f"These two lines cannot both be true. labtui counts {count}, the number that {of_whom}, and "
        "leaves this run out of speedups: check the GPUs the job asked for and the script's strategy."
    )
    return f"{other}; {best}", advice


@dataclass(frozen=True, slots=True)
class LogReport:
    """All that one log (or a pair of .out and .err) tells.

    `cpu_warnings` counts the trainings that found no GPU for their strategy, `groups_done` those whose
    launcher reported that all processes ended well. `gpus` are the lines that tell each run's GPUs (as many as
    runs), `strategies` those of TensorFlow, in the order of the log, whether of a run or not. `mention` is the first
    line (number and text) that looks like an epoch or a rate and was not read; `binary` is true for what is no text.
    """

    runs: tuple[ParsedRun, ...] = ()
    diagnosis: tuple[Diagnosis, ...] = ()
    failures: tuple[Failure, ...] = ()
    cpu_warnings: int = 0
    groups_done: int = 0
    gpus: tuple[tuple[GpuCount, ...], ...] = ()
    strategies: tuple[GpuCount, ...] = ()
    mention: tuple[int, str] | None = None
    lines: int = 0
    size: int = 0
    binary: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """What a banner, a command, a header line or a record tells about a run."""

    model: str | None = None
    device: Device | None = None
    n_gpus: int | None = None
    batch_size: int | None = None
    epochs_planned: int | None = None
    images: int | None = None
    learning_rate: float | None = None
    framework: str | None = None
    practice: bool | None = None
    batch_per_gpu: int | None = None
    tuning: tuple[str, ...] | None = None
    sequence_length: int | None = None
    program: Program | None = None
    processes: int | None = None
    size: str | None = None


@dataclass(slots=True)
class KerasLines:
    """Where a run stands in Keras's own lines (`keras_runs` reads and writes it).

    `open` is the epoch whose line is awaited, `last` the one whose header came last. `seen` are the summary lines
    since that header, `kept` the place of the one that was stored. `total` is the step count of this run's own lines
    (`inherited`: of the fit before), `place` where among an epoch's lines its own stands, `alike` whether others
    look the same, `validated` whether own lines carry ``val_`` metrics.
    `workers` counts processes that write into one log: suspected by a repeated header, `sure` once epochs
    alternate; until then a `doubtful` line waits.
    """

    open: int | None = None
    last: int | None = None
    headers: Counter[int] = field(default_factory=Counter)
    seen: list[tuple[Summary, int, bool]] = field(default_factory=list)
    kept: int = -1
    total: int | None = None
    inherited: int | None = None
    place: int | None = None
    alike: bool = False
    validated: bool = False
    summaries: int = 0
    workers: int = 1
    sure: bool = False
    doubtful: tuple[int, Summary, int] | None = None
    unknown: tuple[Summary, int] | None = None  # a bar of unknown length that may prove to be complete
    first: FirstStep | None = None  # the bar of step 1, where it stood on a line of its own


_MANY = 20
"""Notes kept of one run."""


@dataclass(slots=True)
class OpenRun:
    """A run while its lines arrive."""

    first_line: int
    last_line: int
    facts: RunFacts = field(default_factory=RunFacts)
    command: str = ""
    banner: bool = False
    batch_line: int = 0  # where the batch size stands
    samples: int | None = None  # of "Train on N samples"
    rated: bool = False  # lines with a rate have been read
    started: bool = False  # MLPerf run_start
    stopped: bool = False  # MLPerf run_stop, or the script's own end
    success: bool = False
    keras: KerasLines = field(default_factory=KerasLines)
    epochs: dict[int, EpochSample] = field(default_factory=dict)
    clocked: tuple[int, float | None] | None = None  # MLPerf epoch that has begun: number, time_ms
    held: EpochSample | None = None  # an epoch that waits for its other source
    zero_based: bool = False
    fractional: bool = False  # MLPerf epoch numbers with fractions: counted instead
    block: int = 1  # epochs in the MLPerf block that has begun
    throughput: Interval | None = None
    throughput_printed: float | None = None  # its digits, where they are not the middle
    batch_seconds: tuple[float, float] | None = None  # mean as printed, half its last place
    total_seconds: Interval | None = None  # of the whole training, as the script says at its end
    gpu_memory: Interval | None = None  # GiB, as the script says at its end
    totals_line: int | None = None  # where it says one of these
    tokens_per_gpu: Interval | None = None  # tokens per second of one GPU
    options: dict[str, str] = field(default_factory=dict)  # of the script, as it prints them
    interleaved: bool = False
    failure: Failure | None = None
    masked: bool = False  # trains on the CPU whatever its banner says
    broken: bool = False  # something went wrong since the last epoch: "Epoch 1/N" is a new run
    gpus: dict[GpuSource, GpuCount] = field(default_factory=dict)
    contradictions: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    out_of_data: int | None = (
        None  # batches that Keras says it needed and did not get; 0 where it gives no number
    )
    aborted: bool = False  # MLPerf run_stop with another status than success
    whole: bool = False  # the last epoch is over and nothing of another has begun (logs that tell no plan)
    fresh: bool = False  # a process began since the last epoch was kept
    fresh_header: bool | None = None  # the same, when the epoch that is open began
    refused: str = ""  # why none of the epochs can be believed

    @property
    def training(self) -> bool:
        """Whether epochs have begun."""
        return bool(self.keras.headers or self.epochs or self.held or self.clocked or self.rated)

    @property
    def outcome(self) -> Outcome:
        """How the run stands; `unfinished` until something says otherwise."""
        planned = self.facts.epochs_planned
        done = planned is not None and bool(self.epochs) and max(self.epochs) >= planned
        if self.success or (done and self.held is None and not self.aborted):
            return "completed"
        if self.failure is not None:
            return self.failure.outcome
        return "failed" if self.stopped else "unfinished"

    def note(self, sentence: str) -> None:
        """Say once why a figure is absent or wide."""
        if sentence not in self.notes and len(self.notes) < _MANY:
            self.notes.append(sentence)

    def marked(self, sample: EpochSample) -> EpochSample:
        """The sample with whether it is the first of its process; one that is stored again keeps its mark."""
        stored = self.epochs.get(sample.epoch)
        if stored is not None:
            starts = stored.starts_process
        else:
            starts = not self.epochs or (self.fresh if self.fresh_header is None else self.fresh_header)
        return sample if sample.starts_process == starts else replace(sample, starts_process=starts)

    def weigh(self, found: GpuCount) -> tuple[GpuCount, GpuCount] | None:
        """Take a number of GPUs; the surest line counts. Gives two lines that contradict each other, if there are."""
        self.gpus[found.source] = found
        if self.facts.practice or self.facts.device == "cpu":
            return None  # CPU devices that stand in for GPUs, and a CPU, which is one replica, too
        best, other = surest(self.gpus.values())
        if best.source != "banner" and best.device == "gpu":
            self.facts = replace(
                self.facts, n_gpus=best.count, device="gpu" if best.count > 1 else self.facts.device
            )
            if best.source == "devices":
                self.facts = replace(self.facts, device="gpu")
        if other is None or self.contradictions:
            return None
        self.contradictions.append(contradiction(other, best)[0])
        return other, best

    def weigh_job(self, found: GpuCount) -> tuple[GpuCount, GpuCount] | None:
        """Take the number of GPUs that the job has, once the run trains: it says nothing where TensorFlow has spoken.

        A run may use fewer than its job has, never more: only a banner that promises more is contradicted.
        """
        banner = self.gpus.get("banner")
        if self.gpus.keys() & {"devices", "replicas", "job"} or banner is None or banner.count <= found.count:
            return None
        return self.weigh(found)

    def view(self) -> ParsedRun:
        """The run as an immutable value."""
        facts = self.facts
        samples = dict(self.epochs)
        tokens = self.tokens_per_gpu is not None
        if self.held is not None:
            samples.setdefault(self.held.epoch, self.marked(self.held))
        if self.refused:
            samples.clear()
        return ParsedRun(
            model=facts.model,
            device=facts.device,
            n_gpus=facts.n_gpus,
            batch_size=facts.batch_size,
            epochs_planned=facts.epochs_planned,
            outcome=self.outcome,
            epochs=tuple(samples[epoch] for epoch in sorted(samples)),
            images=facts.images,
            learning_rate=facts.learning_rate,
            throughput=None if self.refused else self.throughput or self._rate() or self._tokens(),
            throughput_printed=None if self.refused or self.throughput is None else self.throughput_printed,
            batch_seconds=None if self.refused else self._batch_interval(),
            total_seconds=self.total_seconds,
            gpu_memory=self.gpu_memory,
            totals_line=self.totals_line,
            unit="tokens" if tokens else "images",
            tuning=tuning_of(self.options) if self.options else facts.tuning or (),
            sequence_length=facts.sequence_length,
            batch_per_gpu=facts.batch_per_gpu,
            contradictions=tuple(self.contradictions),
            notes=tuple(self.notes),
            interleaved=self.interleaved,
            practice=bool(facts.practice),
            framework=facts.framework or "",
            first_line=self.first_line,
            last_line=self.last_line,
            program=facts.program,
            processes=facts.processes,
            size=facts.size or "",
        )

    def _batch_interval(self) -> Interval | None:
        if self.batch_seconds is None:
            return None
        mean, half = self.batch_seconds
        return Interval(mean, max(0.0, mean - half), mean + half)

    def _tokens(self) -> Interval | None:
        """Tokens per second of all GPUs; unknown while nothing tells how many there are."""
        if self.tokens_per_gpu is None or not self.facts.n_gpus:
            return None
        return self.tokens_per_gpu.scaled(self.facts.n_gpus)

    def _rate(self) -> Interval | None:
        """Images per second of a trainer that prints the mean time of a batch."""
        batch = self._batch_interval()
        if batch is None or batch.lo <= 0 or not self.facts.batch_size:
            return None
        return Interval.exact(float(self.facts.batch_size)).over(batch)

    def unmask(self) -> None:
        """The run asked for GPUs and has none: it is a CPU run (stand-ins for GPUs are meant, and stay)."""
        if not self.facts.practice:
            self.masked = True
            self.facts = replace(self.facts, device="cpu", n_gpus=0)
            self.contradictions.clear()

    def learn(self, facts: RunFacts, *, sure: bool = True) -> None:
        """Take over what is known; an unsure source fills gaps only."""
        changes = {name: value for name in RunFacts.__slots__ if (value := getattr(facts, name)) is not None}
        if not sure:
            changes = {name: value for name, value in changes.items() if getattr(self.facts, name) is None}
        if self.facts.practice or facts.practice:
            changes["practice"] = True  # a rehearsal stays one, whatever another line says
        if self.masked:
            changes.pop("device", None)
            changes.pop("n_gpus", None)
        if changes:
            self.facts = replace(self.facts, **changes)
