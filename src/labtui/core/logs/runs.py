"""Which line belongs to which run: a log may hold several, announced well, badly or not at all.

A run is opened by the script's banner, by the echoed command that starts it, by MLPerf's ``run_start`` or by
``Epoch 1/N``; what comes first opens it and the others complete it. What may not enter: how lines look.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from labtui.core.interval import Interval
from labtui.core.logs.events import GRAVITY, EpochRead, Failure, LogEvent, RunBegan, RunClosed
from labtui.core.logs.keras import Summary
from labtui.core.model import Device, EpochSample, Outcome, ParsedRun


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
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


@dataclass(slots=True)
class OpenRun:
    """A run while its lines arrive."""

    first_line: int
    last_line: int
    facts: Facts = field(default_factory=Facts)
    command: str = ""
    banner: bool = False
    batch_line: int = 0  # where the batch size was said
    samples: int | None = None  # what "Train on N samples" said
    started: bool = False  # MLPerf run_start
    stopped: bool = False  # MLPerf run_stop, or the script said it has finished
    success: bool = False
    keras: KerasLines = field(default_factory=KerasLines)
    epochs: dict[int, EpochSample] = field(default_factory=dict)
    clocked: tuple[int, float | None] | None = None  # MLPerf epoch that has begun: number, time_ms
    held: EpochSample | None = None  # an epoch that waits for its other source
    zero_based: bool = False
    fractional: bool = False  # MLPerf epoch numbers with fractions: counted instead
    block: int = 1  # epochs in the MLPerf block that has begun
    throughput: Interval | None = None
    batch_seconds: tuple[float, float] | None = None  # mean as printed, half its last place
    total_seconds: Interval | None = None  # of the whole training, as the script says at its end
    interleaved: bool = False
    failure: Failure | None = None
    masked: bool = False  # trains on the CPU whatever its banner says
    broken: bool = False  # something went wrong since the last epoch: "Epoch 1/N" is a new run

    @property
    def training(self) -> bool:
        """Whether epochs have begun."""
        return bool(self.keras.headers or self.epochs or self.held or self.clocked)

    @property
    def outcome(self) -> Outcome:
        """How the run stands; `unfinished` until something says otherwise."""
        planned = self.facts.epochs_planned
        done = planned is not None and bool(self.epochs) and max(self.epochs) >= planned
        if self.success or (done and self.held is None):
            return "completed"
        if self.failure is not None:
            return self.failure.outcome
        return "failed" if self.stopped else "unfinished"

    def view(self) -> ParsedRun:
        """The run as an immutable value."""
        facts = self.facts
        samples = dict(self.epochs)
        if self.held is not None:
            samples.setdefault(self.held.epoch, self.held)
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
            throughput=self.throughput or self._rate(),
            batch_seconds=self._batch_interval(),
            total_seconds=self.total_seconds,
            interleaved=self.interleaved,
            practice=bool(facts.practice),
            framework=facts.framework or "",
            first_line=self.first_line,
            last_line=self.last_line,
        )

    def _batch_interval(self) -> Interval | None:
        if self.batch_seconds is None:
            return None
        mean, half = self.batch_seconds
        return Interval(mean, max(0.0, mean - half), mean + half)

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

    def learn(self, facts: Facts, *, sure: bool = True) -> None:
        """Take over what is known; an unsure source fills gaps only."""
        changes = {name: value for name in Facts.__slots__ if (value := getattr(facts, name)) is not None}
        if not sure:
            changes = {name: value for name, value in changes.items() if getattr(self.facts, name) is None}
        if self.facts.practice:
            changes.pop("practice", None)  # whoever says it is a rehearsal is right
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
        self.hints = Facts()
        self.coming = Facts()  # said after a training had begun, so it is the next one's
        self.plan: dict[int, Facts] = {}  # what the job script says of its runs, from 1
        self._without_gpu = False  # said before the run it belongs to began
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
        """All runs as of now."""
        return (*self.closed, self.current.view()) if self.current else tuple(self.closed)

    # ------------------------------------------------------------------ opening and closing

    def begin(self, line: int, facts: Facts, *, inherited: Facts | None = None) -> OpenRun:
        """Close the current run and open one; `inherited` is what was known of the last fit of the same script."""
        self.close()
        run = self.current = OpenRun(line, line)
        run.learn(facts)
        run.learn(self.coming, sure=False)
        run.learn(inherited or Facts(), sure=False)
        self.coming = Facts()
        if self._without_gpu:
            run.unmask()
            self._without_gpu = False
        run.learn(self.plan.get(self.index + 1, Facts()), sure=False)
        run.learn(self.hints, sure=False)
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
        self.current = None
        view = run.view()
        self.events.append(RunClosed(len(self.closed), view))
        self.closed.append(view)

    def here(self, line: int) -> OpenRun:
        """The current run, opened if there is none."""
        run = self.current or self.begin(line, Facts())
        run.last_line = line
        return run

    # ------------------------------------------------------------------ announcements

    def command(self, line: int, facts: Facts, text: str, *, masked: bool = False) -> None:
        """The echoed command that starts a training. Echoed twice in a row (`set -x`), it counts once."""
        run = self.current
        if run and run.command and not run.training and not run.banner and run.command == text:
            run.last_line = line
            return
        run = self.begin(line, facts)
        run.command, run.masked = text, masked

    def banner(self, line: int, facts: Facts, *, takeover: bool = False) -> None:
        """The script's own ``Model M n GPUs``. `takeover`: a lower rank repeats what a higher one said."""
        run = self.current
        if run is None or (run.banner and not takeover) or run.training or run.stopped:
            run = self.begin(line, facts)
        run.last_line = line
        run.banner = True
        run.learn(facts)

    def replicas(self, line: int, count: int) -> None:
        """``Num_replicas: n``: GPUs, where nothing else tells; one replica may as well be a CPU."""
        device: Device | None = "gpu" if count > 1 else None
        facts = Facts(n_gpus=count or None, device=device)
        run = self.current
        if run is not None and run.training:
            self.foretell(facts)
            return
        run = self.here(line)
        if run.facts.device != "cpu":
            run.learn(facts, sure=False)

    def foretell(self, facts: Facts) -> None:
        """Something a script says before it trains: of the run announced, else of the next."""
        run = self.current
        if run is not None and not run.training and not run.stopped:
            run.learn(facts, sure=False)
            return
        changes = {name: value for name in Facts.__slots__ if (value := getattr(facts, name)) is not None}
        self.coming = replace(self.coming, **changes)

    def without_gpu(self) -> None:
        """The program warned that it trains on the CPU; before its banner, that means the next run."""
        run = self.current
        if run is None or run.outcome == "completed" or run.stopped:
            self._without_gpu = True
        else:
            run.unmask()

    def tell(self, line: int, facts: Facts, *, batch_line: bool = False, samples: int | None = None) -> None:
        """A line of the script's head: batch size, replicas, samples."""
        run = self.current
        if run is None or run.stopped or (batch_line and run.batch_line and run.training):
            run = self.begin(line, Facts())
        run.last_line = line
        run.batch_line = line if batch_line else run.batch_line
        run.samples = samples or run.samples
        run.learn(facts)

    def hint(self, facts: Facts, *, run: int = 0) -> None:
        """Something about the whole job, or a run yet to come: fills gaps where nothing better tells."""
        if run:
            if len(self.plan) < 1000:
                self.plan[run] = facts
            return
        changes = {name: value for name in Facts.__slots__ if (value := getattr(facts, name)) is not None}
        self.hints = replace(self.hints, **changes)

    # ------------------------------------------------------------------ epochs

    def store(self, run: OpenRun, sample: EpochSample) -> None:
        """Keep an epoch and tell it."""
        run.epochs[sample.epoch] = sample
        run.failure, run.broken = None, False
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
        run.broken = True
        if run.failure is None or GRAVITY[failure.outcome] > GRAVITY[run.failure.outcome]:
            run.failure = failure

    def stopped_early(self, line: int) -> None:
        """Keras ended the training before the planned epochs, as it was told to."""
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
