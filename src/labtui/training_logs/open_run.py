"""A run while its lines arrive: what is known of it, and how it looks as a value."""

from __future__ import annotations

import copy
import statistics
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from labtui.domain.model import EpochSample, Interval, WorkUnit, tuning_of
from labtui.training_logs.course_script import CourseTimes
from labtui.training_logs.forms_imagenet import Batches
from labtui.training_logs.keras import KerasLines
from labtui.training_logs.runs import (
    GRAVITY,
    Failure,
    GpuCount,
    GpuSource,
    ParsedRun,
    RunFacts,
    contradiction,
    most_reliable,
)
from labtui.training_logs.said import Begins, Ends, Epoch, Progress, Rate

_SHARED = (
    *("model", "device", "n_gpus", "batch_size", "epochs_planned", "learning_rate", "sequence_length"),
    *("batch_per_gpu", "program", "processes", "gpu_kind"),
)
"""What a run takes over from its facts as it is."""
MAX_NOTES = 20
MAX_RATES = 1000
ALIKE = 0.05
"""Totals in a row that differ by less than this share are those of two ranks of one run."""
_WIDENED = "Some epochs have two times in this log (training alone, with validation, or of two processes)."
_RECORDS_STOP = (
    "MLPerf's records stop in their first epoch and the printed epochs go on: they may be of another training, so "
    "model, batch and devices are not shown."
)
APART = 0.10
"""Two figures of one thing that differ by more than this share contradict each other."""


@dataclass
class OpenRun:
    """One training (or one announced); `form` is that of its printed lines, "" while none has come."""

    first_line: int
    last_line: int
    form: str = ""
    facts: RunFacts = field(default_factory=RunFacts)
    announced: set[str] = field(default_factory=set)
    command: str = ""
    masked: bool = False  # trains on the CPU whatever its banner says
    batch_line: bool = False
    options: dict[str, str] = field(default_factory=dict)
    samples: int | None = None  # of "Train on N samples"
    epochs: dict[int, EpochSample] = field(default_factory=dict)  # as printed
    first: int = 0  # the number of the first epoch printed
    last: int = 0
    shift: int = 0  # added to numbers that count from 0
    clocked: dict[int, EpochSample] = field(default_factory=dict)  # by MLPerf's clock
    last_clocked: int = 0
    clock: tuple[int, float | None, int] | None = None  # MLPerf epoch that has begun: number, seconds, epochs
    zero_based: bool = False
    fractional: bool = False  # MLPerf epoch numbers with fractions: counted instead
    claimed: tuple[float, int] | None = None  # a rate that MLPerf's tracked_stats say, and its line
    images_line: int = 0
    measures: dict[int, dict[str, float]] = field(default_factory=dict)
    keras: KerasLines = field(default_factory=KerasLines)
    opened: int | None = None  # the epoch that the course's script began last
    course: CourseTimes = field(default_factory=CourseTimes)
    settle: Callable[[Any, Any], None] | None = None  # what still waits when no more lines come
    batches: Batches | None = None
    batch_total: int = 0
    from_one: bool = False
    rated: bool = False
    throughput: Interval | None = None
    throughput_printed: float | None = None
    unit: WorkUnit = "images"
    rates: deque[Interval] = field(default_factory=lambda: deque(maxlen=MAX_RATES))
    steps: deque[Interval] = field(default_factory=lambda: deque(maxlen=MAX_RATES))
    per_gpu: bool = False
    batch_seconds: Interval | None = None
    total_seconds: Interval | None = None
    gpu_memory: Interval | None = None
    totals_line: int | None = None
    beside: set[str] = field(default_factory=set)  # other forms that speak of the same training
    widened: dict[int, EpochSample] = field(default_factory=dict)  # epochs as they were before
    twins: dict[int, EpochSample] = field(default_factory=dict)  # a second line of the same epoch
    printed_steps: int | None = None
    growth: tuple[int, float, float, float] = (0, 0.0, 0.0, 0.0)  # count, first, last, least growth
    out_of_data: int | None = None
    started: bool = False  # MLPerf run_start
    ended: bool = False
    success: bool = False
    aborted: bool = False
    failure: Failure | None = None
    broken: bool = False  # something went wrong since the last epoch
    fresh: bool = False  # a process began since the last epoch was kept
    fresh_header: bool | None = None  # the same, when the epoch that is open began
    whole: bool = False  # the last epoch is over and nothing of another has begun
    interleaved: bool = False
    refused: str = ""  # why none of the epochs can be believed
    gpus: dict[GpuSource, GpuCount] = field(default_factory=dict)
    contradictions: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    # ------------------------------------------------------------------ where it stands

    @property
    def trained(self) -> bool:
        """Whether lines of the training itself have come."""
        return bool(self.form or self.clock or self.clocked or self.rated)

    @property
    def trained_epochs(self) -> bool:
        return bool(self.epochs or self.clocked)

    @property
    def done(self) -> bool:
        """Whether it said so, or all planned epochs are there."""
        planned = self.facts.epochs_planned
        return self.success or (
            planned is not None and max(self.last, self.clock_reach) >= planned and not self.aborted
        )

    @property
    def clock_reach(self) -> int:
        """The last epoch that MLPerf's clock has timed, 0 for none."""
        return self.last_clocked + self.clocked[self.last_clocked].count - 1 if self.clocked else 0

    @property
    def outcome(self):  # type: ignore[no-untyped-def]
        """How the run stands; `unfinished` until something says otherwise."""
        if self.done:
            return "completed"
        if self.failure is not None:
            return self.failure.outcome
        return "failed" if self.ended else "unfinished"

    def copy(self) -> OpenRun:
        return copy.deepcopy(self)

    def may_be_announced_by(self, said: Begins) -> bool:
        """Whether this run is the one that the line announces: it has not trained, and nobody said so before."""
        if said.by == "record":
            again = said.text == "run_start" and self.started
            other = self.rated or self.form not in ("", "keras", "train.py") or self.trained_epochs
            return not (self.ended or other or (again and (self.trained or self.broken or self.fresh)))
        if said.by == "config":
            return not (self.ended or self.success or self.trained_epochs)
        if self.trained or self.ended or self.broken or said.by == "sweep":
            return False
        if said.by == "command":  # each process of a launcher may echo it
            return (
                self.command == said.text
                if self.command and self.announced > {"command"}
                else self._same(said)
            )
        return said.by not in self.announced or said.facts.given().items() <= self.facts.given().items()

    def _same(self, said: Begins) -> bool:
        if not self.announced:
            return True
        return bool(self.command) and bool(said.facts.given()) and said.facts.given() == self.facts.given()

    def training_of_another(self, form: str) -> bool:
        """Whether this is a training of another form than `form`'s that has not ended."""
        trained = bool(self.form and self.form != form) or bool(self.clocked and self.form != form)
        return trained and not (self.ended or self.broken or self.fresh or self.success)

    def key_of(self, said: Epoch, aside: OpenRun | None) -> str:
        """What tells the line's training from this one: its form, and its steps where its number does not go on."""
        if (
            self.form != said.form
            or None in (said.steps, self.printed_steps)
            or said.steps == self.printed_steps
        ):
            return said.form
        key = f"{said.form} {said.steps}"
        again = said.number is not None and int(said.number) + self.shift == self.last
        return key if again or (aside is not None and aside.form == key) else said.form

    def goes_on(self, said: Epoch) -> bool:
        """Whether a printed epoch is this run's: its form and plan are the run's, and its number goes on."""
        planned = (said.planned, self.facts.epochs_planned)
        if not self.trained:
            return True
        if self.form != said.form or self.success or (None not in planned and len(set(planned)) > 1):
            return False
        if said.number is None or not self.epochs:
            return True
        number = int(said.number) + self.shift
        if number == self.last:  # once more, by another process; or the one epoch of another training
            return not (self.fresh or self.broken)
        return number > self.last

    def lags(self, said: Epoch) -> bool:
        """Whether the epoch is a slower process's, which repeats what another printed."""
        if said.number is None or self.fresh or self.broken or self.done:
            return False
        number = int(said.number) + self.shift
        return self.first < number < self.last and number in self.epochs

    def clock_may_start(self, number: float | None) -> bool:
        """Whether MLPerf's clock may begin an epoch of this number here."""
        if self.clocked or self.clock is not None or not self.trained:
            return True
        if self.rated or number is None:
            return not self.trained_epochs
        given, opened = int(number), self.keras.last or self.opened
        if opened is not None:
            return given == opened + 1 or (given == opened and not self.has_epoch(opened))
        return given == self.last + 1 or (given == self.last > 1)

    def clock_number(self, given: float | None) -> int:
        """The epoch's number, from 1; programs that count from 0 are shifted, fractions and gaps are counted."""
        if given == 0 and not self.clocked:
            self.zero_based = True
        self.fractional = self.fractional or (given is not None and given != int(given))
        if given is None or given < 0 or self.fractional:
            return self.clock_reach + 1
        return int(given) + (1 if self.zero_based else 0)

    # ------------------------------------------------------------------ epochs

    def epoch_opens(self) -> None:
        """An epoch begins: whether a process began before it is decided now."""
        self.fresh_header = self.fresh
        self.whole = False

    def keep(self, sample: EpochSample, *, clock: bool = False) -> None:
        """Keep an epoch; one that is kept again keeps its mark of a process's start."""
        mine = self.clocked if clock else self.epochs
        known = self.clocked.get(sample.epoch) or self.epochs.get(sample.epoch)
        if known is not None:
            starts = known.starts_process
        else:
            first = not self.trained_epochs
            starts = first or (self.fresh if self.fresh_header is None else self.fresh_header)
        mine[sample.epoch] = replace(sample, starts_process=True) if starts else sample
        if clock:
            self.last_clocked = max(self.last_clocked, sample.epoch)
        else:
            self.first = self.first if len(mine) > 1 else sample.epoch
            self.last = max(self.last, sample.epoch)
        self.failure, self.broken = None, False
        self.fresh, self.fresh_header = False, None

    def has_epoch(self, number: int) -> bool:
        return number in self.epochs or number in self.clocked

    def sample(self, number: int) -> EpochSample | None:
        """An epoch with its time by the surest source and all that was printed."""
        if self.refused:
            return None
        clocked, printed = self.clocked.get(number), self.epochs.get(number)
        sample = printed if clocked is None else clocked if printed is None else merged(clocked, printed)
        more = self.measures.get(number)
        return replace(sample, metrics={**more, **sample.metrics}) if sample and more else sample

    def like_a_total(self, seconds: float) -> bool:
        """Whether each time so far is the one before and another epoch; of two, whether the second is nearly double."""
        count, first, last, least = self.growth
        grown = seconds - last
        least = grown if count == 1 else min(least, grown)
        first = first if count else seconds
        self.growth = (count + 1, first, seconds, least)
        return count > 0 and first > 0 and least >= (0.8 if count == 1 else 0.5) * first

    def widen(self, number: int, seconds: Interval) -> None:
        """Another line gives another time for an epoch: both may be meant."""
        stored = self.epochs[number]
        if stored.seconds.lo <= seconds.hi and seconds.lo <= stored.seconds.hi:
            return
        self.widened.setdefault(number, stored)
        low, high = min(stored.seconds.lo, seconds.lo), max(stored.seconds.hi, seconds.hi)
        self.epochs[number] = replace(stored, seconds=Interval.between(low, high))
        self.note(_WIDENED)

    def unwiden(self) -> None:
        """The other form spoke of another training."""
        self.epochs.update(self.widened)
        self.notes = [note for note in self.notes if not self.widened or note != _WIDENED]
        self.widened = {}

    def batch_goes_on(self, said: Progress) -> bool:
        """Whether a batch is of this run: nothing else has trained in it, and its epoch goes on."""
        if self.ended or self.form not in ("", "pytorch") or self.clocked:
            return False
        return not self.batch_total or (said.epoch > self.last and said.total == self.batch_total)

    def batches_at(self, said: Progress, line: int) -> Batches:
        """Where an epoch of PyTorch's example stands; it printed the batch's index until 2022, its number since."""
        done = min(said.total, said.index if self.from_one else said.index + 1)
        metrics = self.batches.metrics if self.batches and self.batches.epoch == said.epoch else {}
        return Batches(said.epoch, done, said.total, said.mean, said.half, line, said.meters, dict(metrics))

    def whole_epoch(self, *, proven: bool) -> EpochSample | None:
        """The epoch that the batches make, when the last ones were printed or what follows proves it over."""
        seen, self.batches = self.batches, None
        return seen.epoch_sample(proven=proven) if seen is not None else None

    # ------------------------------------------------------------------ rates and ends

    def rate_is_a_ranks(self, said: Rate) -> bool:
        """Whether a rate is another rank's of this run, which has given its total."""
        if not self.ended or self.form != said.form or not self.rated:
            return False
        if not said.total:
            return not said.first
        total = self.throughput
        return (
            said.rate is not None
            and total is not None
            and abs(total.value - said.rate.value) < ALIKE * total.value
        )

    def begins_anew(self, said: Rate) -> bool:
        return said.first and self.success

    def widen_rate(self, rate: Interval) -> None:
        """Every rank of an ``mpirun`` prints the total: the bounds hold all of them."""
        if self.throughput is not None:
            low, high = min(self.throughput.lo, rate.lo), max(self.throughput.hi, rate.hi)
            self.throughput, self.interleaved = Interval.between(low, high), True

    def rate(self, said: Rate, line: int) -> None:
        """Take a rate: a total counts as printed, of others the middle one with all bounds."""
        self.unit = said.unit
        self.per_gpu = said.per_gpu
        self.totals_line = line if said.per_gpu else self.totals_line
        self.total_seconds = said.seconds or self.total_seconds
        if said.step_seconds is not None:
            self.steps.append(said.step_seconds)
        if said.rate is None:
            return
        if said.total or said.printed is not None:
            self.throughput, self.throughput_printed = said.rate, said.printed
        else:
            self.rates.append(said.rate)
        self._decide_rate(said)

    def _decide_rate(self, said: Rate) -> None:
        """Samples x epochs over the whole time is the rate; one that is steps per second does not count."""
        facts, seconds = self.facts, said.seconds
        if (
            not said.total
            or seconds is None
            or said.rate is None
            or not (facts.images and facts.epochs_planned)
        ):
            return
        if seconds.lo <= 0:
            return
        expected = Interval.exact(float(facts.images * facts.epochs_planned)).over(seconds)
        if _apart(expected, said.rate):
            self.throughput = (
                expected if said.steps_rate is None or not _apart(said.steps_rate, said.rate) else None
            )
            self.note(
                f"The log prints {said.rate.value:g} samples per second, but {facts.images:,} samples x "
                f"{facts.epochs_planned} epochs in {seconds.value:g} s are {expected.value:,.1f}."
            )

    def end(self, said: Ends, line: int) -> None:
        if said.early:
            self.success = self.trained_epochs
            return
        if not said.status:
            self.success = True
            return
        if self.clock is not None:
            self.note(f"Epoch {self.clock[0]} began, but its end is not in the log.")
        if said.outcome is not None and self.failure is None:
            self.failure = Failure(said.outcome, line)
        self.ended, self.success, self.aborted = True, said.success, not said.success
        if not said.success:
            self.note(f'Its run_stop says "{said.status}", though epochs may be complete.')

    def fail(self, failure: Failure) -> None:
        self.broken = self.fresh = True
        if self.failure is None or GRAVITY[failure.outcome] > GRAVITY[self.failure.outcome]:
            self.failure = failure

    def shut(self) -> None:
        """No more lines come."""
        if self.keras.evaluated_at_the_end and not self.done and self.failure is None and self.epochs:
            self.success = True
            self.note("The training stopped before its planned epochs and went on to evaluate.")
        if self.whole and self.facts.epochs_planned is None and self.failure is None and self.epochs:
            self.success = True
            self.note("The log does not say how many epochs were planned; its last epoch is complete.")

    def stands_alone(self, run: OpenRun) -> bool:
        """Whether lines of another form that came last are a training of their own, and not of `run`'s."""
        if self.form in run.beside:
            return False
        if self.rated:
            return self.last_line > run.last_line
        return len(self.epochs) > 1 or self.last != run.last

    # ------------------------------------------------------------------ what is known

    def learn(self, facts: RunFacts, *, sure: bool = True) -> None:
        """Take over what is known; an unsure source fills gaps only."""
        if self.masked:
            facts = replace(facts, device=None, n_gpus=None)
        self.facts = self.facts.with_others(facts, sure=sure)

    def note(self, sentence: str) -> None:
        """Say once why a figure is absent or wide."""
        if sentence not in self.notes and len(self.notes) < MAX_NOTES:
            self.notes.append(sentence)

    def refuse(self, reason: str) -> None:
        self.refused = reason
        self.note(reason)

    def weigh(self, found: GpuCount) -> tuple[GpuCount, GpuCount] | None:
        """Take a number of GPUs; the surest line counts. Gives two lines that contradict each other, if there are."""
        self.gpus[found.source] = found
        if self.facts.practice or self.facts.device == "cpu":
            return None  # CPU devices that stand in for GPUs, and a CPU, which is one replica, too
        best, other = most_reliable(self.gpus.values())
        if best.source != "banner" and best.device == "gpu":
            sure = best.count > 1 or best.source == "devices"
            self.facts = replace(self.facts, n_gpus=best.count, device="gpu" if sure else self.facts.device)
        if other is None or self.contradictions:
            return None
        self.contradictions.append(contradiction(other, best)[0])
        return other, best

    def weigh_job(self, found: GpuCount) -> tuple[GpuCount, GpuCount] | None:
        """Take the number of GPUs that the job has: only a banner that promises more is contradicted."""
        banner = self.gpus.get("banner")
        if self.gpus.keys() & {"devices", "replicas", "job"} or banner is None or banner.count <= found.count:
            return None
        return self.weigh(found)

    def unmask(self) -> None:
        """The run asked for GPUs and has none: it is a CPU run (stand-ins for GPUs are meant, and stay)."""
        if not self.facts.practice:
            self.masked = True
            self.facts = replace(self.facts, device="cpu", n_gpus=0)
            self.contradictions.clear()

    # ------------------------------------------------------------------ as a value

    def view(self) -> ParsedRun:
        """The run as an immutable value."""
        over = self.clock is not None and self.last >= self.clock[0] + self.clock[2]
        if over and self.form and not (self.clocked or self.ended):
            return self._without_records().view()
        facts = self.facts
        numbers = sorted(self.epochs.keys() | self.clocked.keys())
        samples = tuple(sample for number in numbers if (sample := self.sample(number)) is not None)
        images, notes = self._agreed_images(samples)
        rate, printed = (None, None) if self.refused else (self._rate(samples), self.throughput_printed)
        return ParsedRun(
            **{name: getattr(facts, name) for name in _SHARED},
            outcome=self.outcome,
            epochs=samples,
            images=images,
            throughput=rate,
            throughput_printed=printed if rate is not None else None,
            batch_seconds=None if self.refused else self._step(),
            total_seconds=self.total_seconds,
            gpu_memory=self.gpu_memory,
            totals_line=self.totals_line,
            unit=self.unit,
            tuning=tuning_of(self.options) if self.options else facts.tuning or (),
            contradictions=tuple(self.contradictions),
            notes=notes,
            interleaved=self.interleaved,
            practice=bool(facts.practice),
            framework=facts.framework or "",
            first_line=self.first_line,
            last_line=self.last_line,
            size=facts.size or "",
        )

    def _without_records(self) -> OpenRun:
        """The run without what MLPerf's records say: they stop, and the printed epochs may be of another training."""
        planned, practice = self.facts.epochs_planned, self.facts.practice
        facts = RunFacts(epochs_planned=planned, practice=practice, framework=self.form)
        return replace(self, clock=None, claimed=None, facts=facts, notes=[*self.notes, _RECORDS_STOP])

    def _agreed_images(self, samples: tuple[EpochSample, ...]) -> tuple[int | None, tuple[str, ...]]:
        """The images of an epoch, unless a rate of the same log says otherwise: then neither counts."""
        images = self.facts.images
        if images is None or self.claimed is None or len(samples) < 2:
            return images, tuple(self.notes)
        rate, line = self.claimed
        seconds = statistics.median(sample.seconds.value for sample in samples[1:])
        if rate <= 0 or seconds <= 0 or abs(images / seconds / rate - 1) <= APART:
            return images, tuple(self.notes)
        note = (
            f"Line {self.images_line} gives {images:,} samples an epoch, so {images / seconds:,.1f} samples/s; "
            f"line {line} says {rate:,.1f}. Neither is shown."
        )
        return None, (*self.notes, note)

    def _step(self) -> Interval | None:
        return self.batch_seconds if not self.steps else _middle(self.steps)

    def _rate(self, samples: tuple[EpochSample, ...]) -> Interval | None:
        """Work per second as printed, or the batch over the printed time of a step."""
        rate = self.throughput
        if rate is None and self.rates:
            rate = _middle(self.rates)
        if rate is not None and self.per_gpu:
            rate = rate.scaled(self.facts.n_gpus) if self.facts.n_gpus else None
        if rate is None and self.claimed is not None and not samples:
            rate = Interval.exact(self.claimed[0])
        step, batch = self._step(), self.facts.tokens_per_step or self.facts.batch_size
        if rate is None and not self.rated and self.form != "pytorch":
            return None
        if rate is None and step is not None and step.lo > 0 and batch and not self.per_gpu:
            return Interval.exact(float(batch)).over(step)
        return rate


def merged(measured: EpochSample, printed: EpochSample) -> EpochSample:
    """The measured time with what the printed line adds."""
    return replace(
        measured,
        printed_seconds=printed.printed_seconds,
        ms_per_step=printed.ms_per_step,
        steps=printed.steps or measured.steps,
        metrics={**measured.metrics, **printed.metrics},
    )


def sample_of(said: Epoch, number: int, line: int) -> EpochSample:
    """The sample of an epoch that one line tells."""
    if said.seconds is None:
        raise ValueError(f"epoch {number} has no time")
    return EpochSample(
        epoch=number,
        seconds=said.seconds,
        steps=said.steps,
        metrics=said.metrics,
        source=said.form,
        line=line,
        count=said.count,
    )


def _middle(values: deque[Interval]) -> Interval:
    """The median of what was printed now and then, with bounds that hold all but the first, which is warm-up."""
    known = list(values)[1:] or list(values)
    middle = statistics.median_low(value.value for value in known)
    return Interval(middle, min(value.lo for value in known), max(value.hi for value in known))


def _apart(one: Interval, other: Interval) -> bool:
    return abs(one.value - other.value) > APART * max(one.value, other.value)
