"""Which line belongs to which run: a log may hold several, announced well, badly or not at all.

A run is opened by the script's banner, by the echoed command that starts it, by MLPerf's ``run_start`` or by
``Epoch 1/N``; what comes first opens it and the others complete it. What may not enter: how lines look.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from labtui.core.interval import Interval
from labtui.core.logs.events import GRAVITY, EpochRead, Failure, LogEvent, RunBegan, RunClosed
from labtui.core.logs.keras import Header, Summary, epoch_interval
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
    header: int | None = None  # the epoch whose line is awaited
    headers: Counter[int] = field(default_factory=Counter)
    summaries: int = 0
    workers: int = 1
    epochs: dict[int, EpochSample] = field(default_factory=dict)
    clocked: tuple[int, float | None] | None = None  # MLPerf epoch that has begun: number, time_ms
    held: EpochSample | None = None  # an epoch that waits for its other source
    zero_based: bool = False
    unknown: tuple[Summary, int] | None = None  # a bar of unknown length that may prove to be complete
    last_total: int | None = None
    throughput: Interval | None = None
    batch_seconds: tuple[float, float] | None = None  # mean as printed, half its last place
    interleaved: bool = False
    failure: Failure | None = None
    masked: bool = False  # trains on the CPU whatever its banner says
    broken: bool = False  # something went wrong since the last epoch: "Epoch 1/N" is a new run

    @property
    def training(self) -> bool:
        """Whether epochs have begun."""
        return bool(self.headers or self.epochs or self.held or self.clocked)

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
        self.plan: dict[int, Facts] = {}  # what the job script says of its runs, from 1
        self._without_gpu = False  # said before the run it belongs to began
        self.events: list[LogEvent] = []

    @property
    def index(self) -> int:
        """The number of the current run."""
        return len(self.closed)

    @property
    def runs(self) -> tuple[ParsedRun, ...]:
        """All runs as of now."""
        return (*self.closed, self.current.view()) if self.current else tuple(self.closed)

    # ------------------------------------------------------------------ opening and closing

    def begin(self, line: int, facts: Facts) -> OpenRun:
        """Close the current run and open one."""
        self.close()
        run = self.current = OpenRun(line, line)
        run.learn(facts)
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

    def banner(self, line: int, facts: Facts) -> None:
        """The script's own ``Model M n GPUs``."""
        run = self.current
        if run is None or run.banner or run.training or run.stopped:
            run = self.begin(line, facts)
        run.last_line = line
        run.banner = True
        run.learn(facts)

    def replicas(self, line: int, count: int) -> None:
        """``Num_replicas: n``: GPUs, where nothing else tells; one replica may as well be a CPU."""
        run = self.here(line)
        device: Device | None = "gpu" if count > 1 else None
        if run.facts.device != "cpu":
            run.learn(Facts(n_gpus=count or None, device=device), sure=False)

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

    # ------------------------------------------------------------------ Keras

    def header(self, line: int, header: Header, *, takeover: bool = False) -> None:
        """``Epoch k/N``. `takeover`: a lower rank repeats what a higher one said."""
        run = self.current
        if run is not None and self._repeats(run, header):
            run.last_line = line
            if not takeover and not run.broken and header.epoch == run.header and run.summaries == 0:
                run.workers += 1
            return
        if run is None or self._restarts(run, header):
            kept = run.facts if run is not None and run.training and not run.broken else Facts()
            run = self.begin(line, kept) if run is None or run.training else self.here(line)
        self._complete_unknown(run, header)
        if run.held is None or run.clocked is None or run.clocked[0] != run.held.epoch:
            self.release()  # else the record of its end is still to come, after the next epoch's header
        run.last_line = line
        run.header = header.epoch
        run.headers[header.epoch] += 1
        run.learn(Facts(epochs_planned=header.epochs, framework=run.facts.framework or "keras"))

    def _repeats(self, run: OpenRun, header: Header) -> bool:
        same = run.headers[header.epoch] > 0
        if run.workers > 1:
            return same and not (header.epoch == 1 and run.epochs and max(run.epochs) > 1)
        return same and header.epoch == run.header and not run.broken

    def _restarts(self, run: OpenRun, header: Header) -> bool:
        if run.stopped or (run.broken and header.epoch == 1 and run.training):
            return True
        return bool(run.headers) and header.epoch <= max(run.headers)

    def _complete_unknown(self, run: OpenRun, header: Header) -> None:
        """TF 2.0 never closes a bar of unknown length; the next header proves that its epoch is over."""
        if run.unknown is not None and run.header is not None and header.epoch == run.header + 1:
            summary, line = run.unknown
            self.summary(line, replace(summary, finished=True))
        run.unknown = None

    def summary(self, line: int, summary: Summary, *, continues: bool = False) -> None:
        """The line at the end of an epoch, or of an `evaluate`, which has no header open."""
        run = self.here(line)
        if not summary.finished:
            run.unknown = (summary, line) if summary.unknown_total else None
            return
        run.unknown = None
        run.interleaved = run.interleaved or summary.glued
        run.summaries += 1
        epoch = self._epoch_of(run, summary, continues)
        if epoch is None:
            return
        run.last_total = summary.total
        run.learn(Facts(framework="keras"), sure=False)
        self._keras_sample(run, epoch, summary, line)

    def _epoch_of(self, run: OpenRun, summary: Summary, continues: bool) -> int | None:
        if run.workers > 1:
            epoch = -(-run.summaries // run.workers)
            if epoch in run.epochs or epoch not in run.headers:
                run.interleaved = True
                return None
            return epoch
        if run.header is not None:
            epoch, run.header = run.header, None
            return epoch
        if continues and summary.bar and run.epochs and summary.total == run.last_total:
            return max(run.epochs)  # the same bar, written on after another print
        if run.headers or run.epochs or (run.facts.epochs_planned or 1) > 1:
            return None
        run.learn(Facts(epochs_planned=1))
        return 1

    def _keras_sample(self, run: OpenRun, epoch: int, summary: Summary, line: int) -> None:
        sample = EpochSample(
            epoch=epoch,
            seconds=epoch_interval(summary),
            printed_seconds=summary.seconds,
            # "Train on N samples": old Keras counts samples, not steps
            steps=None if summary.total == run.samples else summary.steps,
            ms_per_step=summary.ms_per_step,
            metrics=dict(summary.metrics),
            source="keras",
            line=line,
        )
        if "sample" in summary.units:
            run.learn(Facts(images=summary.total), sure=False)
        measured = run.held or run.epochs.get(epoch)
        if measured is not None and measured.epoch == epoch and measured.source.startswith("mllog"):
            run.held = None
            self.store(run, merged(measured, sample))
        elif run.clocked is not None and run.clocked[0] == epoch:
            run.held = sample  # MLPerf's epoch_stop will follow and knows better
        else:
            self.store(run, sample)

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
