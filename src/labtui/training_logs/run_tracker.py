"""A run while its lines arrive, and which line belongs to which run: a log may hold several, announced or not.

A run is opened by the script's banner, by the echoed command that starts it, by MLPerf's ``run_start`` or by
``Epoch 1/N``; what comes first opens it and the others complete it. What may not enter: how lines look.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from labtui.domain.model import DiagnosisKind, EpochSample, Interval, Outcome, tuning_of
from labtui.training_logs.keras import KerasLines
from labtui.training_logs.runs import (
    GRAVITY,
    EpochRead,
    Failure,
    GpuCount,
    GpuSource,
    LogEvent,
    ParsedRun,
    RunBegan,
    RunClosed,
    RunFacts,
    contradiction,
    most_reliable,
)

_MOST_STRATEGIES = 1000


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
        best, other = most_reliable(self.gpus.values())
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


class RunTracker:
    """Keeps the runs of one log; every method takes what one line means and the line's number."""

    def __init__(self) -> None:
        self.closed: list[ParsedRun] = []
        self.current: OpenRun | None = None
        self.before: OpenRun | None = None  # the run closed last
        self.hints = RunFacts()
        self.coming = RunFacts()  # printed after a training had begun, so it is the next one's
        self.plan: dict[int, RunFacts] = {}  # what the job script says of its runs, from 1
        self.closed_gpus: list[tuple[GpuCount, ...]] = []  # of each closed run
        self.strategies: list[GpuCount] = []
        self.coming_gpus: dict[GpuSource, GpuCount] = {}
        self.job_gpus: GpuCount | None = None
        self.stored = False  # an epoch was kept since the reader looked last
        self.findings: list[tuple[DiagnosisKind, int, str, str]] = []  # kind, line, text, advice
        self._without_gpu = False  # printed before its run began
        self.events: list[LogEvent] = []
        self.settle: Callable[[RunTracker, OpenRun], None] | None = (
            None  # what still waits in a run that ends
        )

    @property
    def index(self) -> int:
        """The number of the current run."""
        return len(self.closed)

    @property
    def runs(self) -> tuple[ParsedRun, ...]:
        return (*self.closed, self.current.view()) if self.current else tuple(self.closed)

    @property
    def run_gpus(self) -> tuple[tuple[GpuCount, ...], ...]:
        """The lines that tell the GPUs of each of `runs`."""
        current = (tuple(self.current.gpus.values()),) if self.current else ()
        return (*self.closed_gpus, *current)

    # ------------------------------------------------------------------ opening and closing

    def begin(self, line: int, facts: RunFacts, *, inherited: RunFacts | None = None) -> OpenRun:
        """Close the current run and open one; `inherited` is what was known of the last fit of the same script."""
        self.close()
        run = self.current = OpenRun(line, line)
        run.learn(facts)
        run.learn(self.coming, sure=False)
        planned = self.plan.get(self.index + 1, RunFacts())
        run.learn(planned, sure=False)  # before what is inherited: the run before had a plan of its own
        run.learn(inherited or RunFacts(), sure=False)
        self.coming = RunFacts()
        if self._without_gpu:
            run.unmask()
            self._without_gpu = False
        run.learn(self.hints, sure=False)
        waiting, self.coming_gpus = self.coming_gpus, {}
        for found in waiting.values():
            self._weigh(run, found)
        self.events.append(RunBegan(self.index, run.view()))
        return run

    def close(self) -> None:
        """No more lines come for the current run."""
        run = self.current
        if run is None:
            return
        if self.settle is not None:
            self.settle(self, run)
        self.release()
        if run.whole and run.facts.epochs_planned is None and run.failure is None and run.epochs:
            run.success = True
            run.note("The log does not say how many epochs were planned; its last epoch is complete.")
        self.current = None
        self.before = run
        view = run.view()
        self.events.append(RunClosed(len(self.closed), view))
        self.closed.append(view)
        self.closed_gpus.append(tuple(run.gpus.values()))

    def here(self, line: int) -> OpenRun:
        """The current run, opened if there is none."""
        run = self.current or self.begin(line, RunFacts())
        run.last_line = line
        return run

    # ------------------------------------------------------------------ announcements

    def command(self, line: int, facts: RunFacts, text: str, *, masked: bool = False) -> None:
        """The echoed command that starts a training. Echoed twice in a row (`set -x`), it counts once."""
        run = self.current
        if run and run.command and not run.training and not run.banner and run.command == text:
            run.last_line = line
            return
        self.close()
        run = self.begin(line, self._by_header(facts))
        run.command, run.masked = text, masked

    def _by_header(self, facts: RunFacts) -> RunFacts:
        """The facts of the next run's command, its batch as the job's header says it is meant."""
        shares = self.plan.get(self.index + 1, RunFacts()).batch_shares
        given = facts.batch_per_gpu or facts.batch_size
        if shares is None or given is None:
            return facts
        total = given * shares
        return replace(facts, batch_size=total, batch_per_gpu=total // facts.n_gpus if facts.n_gpus else None)

    def banner(self, line: int, facts: RunFacts, text: str = "", *, takeover: bool = False) -> None:
        """The script's own ``Model M n GPUs``. `takeover`: a lower rank repeats a higher one's line."""
        run = self.current
        if run is None or (run.banner and not takeover) or run.training or run.stopped:
            run = self.begin(line, facts)
        run.last_line = line
        run.banner = True
        run.learn(facts)
        if facts.n_gpus:
            self._weigh(run, GpuCount("banner", facts.n_gpus, line, text))

    def gpus(self, found: GpuCount) -> None:
        """A number of GPUs that a strategy reports: of the run announced, else of the next."""
        run = self.current
        if len(self.strategies) < _MOST_STRATEGIES:
            self.strategies.append(found)
        again = run is not None and found.source == "devices" and "devices" in run.gpus
        if run is None and found.source == "replicas":
            run = self.here(found.line)
        if run is None or run.training or run.stopped or run.broken or again:
            self.coming_gpus[found.source] = found
            return
        run.last_line = found.line
        self._weigh(run, found)

    def _weigh(self, run: OpenRun, found: GpuCount) -> None:
        """Count this line's GPUs; two lines that cannot both be true become a finding."""
        self._contradicted(run.weigh(found))

    def _contradicted(self, pair: tuple[GpuCount, GpuCount] | None) -> None:
        if pair is None:
            return
        self.findings.append(("contradiction", pair[1].line, *contradiction(*pair)))

    def process_started(self) -> None:
        """A line that only a starting process prints: the next epoch to begin pays for its start-up."""
        if self.current is not None:
            self.current.fresh = True

    def refuse(self, line: int, text: str, reason: str) -> None:
        """Lines of two trainings stand here without marks: no epoch of the run can be believed."""
        run = self.current
        if run is None or run.refused:
            return
        run.refused = reason
        run.note(reason)
        advice = "Write one log for each training (`srun --output`, or `> train1.log` for each command) and read those."
        self.findings.append(("mixed-trainings", line, f"{text.strip()[:120]} - {reason}", advice))

    def epoch_opens(self, run: OpenRun) -> None:
        """An epoch begins: whether a process began before it is decided now."""
        run.fresh_header = run.fresh
        run.whole = False

    def announce_next_run(self, facts: RunFacts) -> None:
        """Something a script says before it trains: of the run announced, else of the next."""
        run = self.current
        if run is not None and not run.training and not run.stopped:
            run.learn(facts, sure=False)
            return
        changes = {name: value for name in RunFacts.__slots__ if (value := getattr(facts, name)) is not None}
        self.coming = replace(self.coming, **changes)

    def without_gpu(self) -> None:
        """The program warned that it trains on the CPU; before its banner, that means the next run."""
        run = self.current
        if run is None or run.outcome == "completed" or run.stopped:
            self._without_gpu = True
        else:
            run.unmask()

    def assign(
        self, line: int, facts: RunFacts, *, batch_line: bool = False, samples: int | None = None
    ) -> None:
        """A line of the script's head: batch size, replicas, samples."""
        run = self.current
        if run is None or run.stopped or (batch_line and run.batch_line and run.training):
            run = self.begin(line, RunFacts())
        run.last_line = line
        run.batch_line = line if batch_line else run.batch_line
        run.samples = samples or run.samples
        run.learn(facts)

    def hint(self, facts: RunFacts, *, run: int = 0) -> None:
        """Something about the whole job, or a run yet to come: fills gaps where nothing better tells."""
        if run:
            if len(self.plan) < 1000:
                self.plan[run] = facts
            return
        changes = {name: value for name in RunFacts.__slots__ if (value := getattr(facts, name)) is not None}
        if self.hints.practice or facts.practice:
            changes["practice"] = True
        self.hints = replace(self.hints, **changes)
        if facts.practice and self.current is not None:
            self.current.learn(RunFacts(practice=True))

    # ------------------------------------------------------------------ epochs

    def store(self, run: OpenRun, sample: EpochSample) -> None:
        """Keep an epoch and tell it."""
        sample = run.marked(sample)
        if self.job_gpus is not None and not run.epochs:
            self._contradicted(run.weigh_job(self.job_gpus))
        run.epochs[sample.epoch] = sample
        run.failure, run.broken = None, False
        run.fresh, run.fresh_header = False, None
        self.stored = True
        self.events.append(EpochRead(self.index, sample))

    def release(self) -> None:
        """An epoch that waited for its other source waits no more."""
        run = self.current
        if run is not None and run.held is not None:
            held, run.held = run.held, None
            if held.epoch not in run.epochs:
                self.store(run, held)

    # ------------------------------------------------------------------ endings

    def fail(self, failure: Failure) -> None:
        """A process ended badly. The gravest word stays: a time limit before a traceback."""
        run = self.current
        if run is None:
            return
        run.broken = run.fresh = True
        if run.failure is None or GRAVITY[failure.outcome] > GRAVITY[run.failure.outcome]:
            run.failure = failure

    def succeeded(self) -> None:
        """The launcher of the current run (torchrun) says that all of its processes ended well."""
        run = self.current
        begun = run is not None and (run.training or run.batch_seconds is not None)
        if run is not None and begun and not run.aborted:
            run.success = run.stopped = True

    def out_of_data(self, batches: int) -> None:
        """Keras's input ended before the epoch did; `batches` it would have needed (0: not given)."""
        if self.current is not None:
            self.current.out_of_data = batches

    def stopped_early(self, line: int) -> None:
        """Keras ended the training before the planned epochs, as planned."""
        run = self.here(line)
        run.success = bool(run.epochs)


def merged(measured: EpochSample, printed: EpochSample) -> EpochSample:
    """The measured time with what the Keras line printed."""
    return replace(
        measured,
        printed_seconds=printed.printed_seconds,
        ms_per_step=printed.ms_per_step,
        steps=printed.steps or measured.steps,
        metrics={**measured.metrics, **printed.metrics},
        line=measured.line,
    )
