"""A run while its lines arrive: what is known of it so far, and its value as a `ParsedRun`."""

import statistics
from collections import deque
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from labtui.domain.model import EpochSample, Interval, Outcome, WorkUnit
from labtui.domain.tuning import tuning_of
from labtui.training_logs import spans
from labtui.training_logs.keras_runs import APART, KERAS, KerasLines, are_apart, union
from labtui.training_logs.patterns import RATES, grow_like_total, may_be_times_of_day, rate_of
from labtui.training_logs.runs import NO_FACTS, GpuCount, ParsedRun, RunFacts, count_gpus, is_worse, median
from labtui.training_logs.said import Begins, Ends, Epoch, Rate

_PRINTS_NO = {KERAS: {"config", "trainer"}, spans.COURSE: set[str]()}
"""By form: what announces a training that prints no such lines; for other forms the course's settings."""
_OF_ONE = ("model", "batch_size", "n_gpus")
"""Facts that do not change within a training."""
MAX_NOTES = 20
MAX_LISTED = 1000
SAME_RATE = 0.05
"""The rates of two ranks of one training differ by less than this share."""
_TIMED = (KERAS, spans.COURSE, spans.IMAGENET, spans.CLOCK, spans.BLOCK, "pattern")
"""Sources whose times are surely those of one epoch; a pattern of the student's own says so."""
_TOTAL = "The times grow from line to line like a running total: only the first may be of one epoch."
_DAYTIMES = "The times may be hours and minutes of the day: they count once one is less than the one before."
_OPEN_BATCH = "The log does not say if its batch of {:,} is of all GPUs or of each: no batch is shown."
_RECORDS_STOP = "MLPerf's records stop in an epoch: model, batch and devices may be another training's."


class OpenRun(msgspec.Struct):
    """A training, or one that was only announced; `form` is that of its printed lines, "" before the first."""

    first_line: int = 0
    last_line: int = 0
    form: str = ""
    facts: RunFacts = RunFacts()
    announced: set[str] = set()  # what announced it (`Begins.by`), and the keys of MLPerf's records
    beside: set[str] = set()  # other forms whose lines are about the same epochs
    masked: bool = False  # it asked for GPUs and has none: a CPU run, whatever its banner says
    batch_line: Literal["", "global", "open"] = ""
    options: dict[str, str] = {}
    epochs: dict[int, EpochSample] = {}  # as printed
    last: int = 0  # the one that was printed last
    apart: dict[int, str] = {}  # why none of an epoch's two times counts
    counts: dict[str, int] = {}  # of the line that was printed last
    daytimes: int = 0  # how many of their times may be those of a clock on the wall
    shift: int = 0  # added to numbers that count from 0
    images_line: int = 0
    measures: dict[int, dict[str, tuple[float, int]]] = {}  # metrics on lines of their own: value and line
    records: spans.RecordLines = msgspec.field(default_factory=spans.RecordLines)
    keras: KerasLines = msgspec.field(default_factory=KerasLines)
    imagenet: spans.ImagenetEpoch | None = None
    began: spans.Opened | None = None  # the epoch that the course's script, or an unread line, began last
    rates: deque[Rate] = msgspec.field(default_factory=lambda: deque(maxlen=MAX_LISTED))
    out_of_data: int | None = None
    ended: bool = False
    success: bool = False
    failure: Outcome | None = None  # since the last epoch
    resumed: bool = False  # the epochs before were another run's
    restarted: bool = False  # a process began since the last epoch was kept
    opened_anew: bool | None = None  # `restarted` when the open epoch began
    interleaved: bool = False
    refused: bool = False  # none of its epochs can be trusted
    gpus: dict[str, GpuCount] = {}
    notes: list[str] = []

    # ------------------------------------------------------------------ state

    @property
    def begun(self) -> int:
        """The last epoch that was printed or that a line began; 0 without one."""
        opened = (self.began, self.records.open, self.keras.epoch, self.imagenet)
        return max(self.last, self.records.reach, *(one.number or 0 for one in opened if one is not None))

    @property
    def trained(self) -> bool:
        """Whether lines of the training itself have come."""
        return bool(self.form) or self.records.started

    @property
    def over(self) -> bool:
        """Whether no more epochs are this run's: it said its end, or failed before it trained."""
        return self.ended or (self.failure is not None and not self.trained)

    @property
    def outcome(self) -> Outcome:
        """The outcome so far; `unfinished` until a line says otherwise, or all planned epochs are there."""
        planned = self.facts.epochs_planned
        reached = planned is not None and max(self.last, self.records.reach) >= planned
        if self.success or (reached and not self.ended):
            return "completed"
        return self.failure or ("failed" if self.ended else "unfinished")

    def accepts(self, form: str) -> bool:
        """Whether lines of a form may be this run's: it is not over, and its lines and head have no other form."""
        others = self.announced & _PRINTS_NO.get(form, {"config"})
        return not self.over and self.form in ("", form) and (self.trained or not others)

    def may_be_announced_by(self, said: Begins) -> bool:
        """Whether the line may announce this run: it has not trained, and has no other such announcement."""
        if said.by == "record":
            again = said.text in self.announced and said.text == "run_start"
            other = self.rates or self.form not in ("", "keras", "train.py") or self.any_epoch
            return not (self.ended or other or (again and (self.trained or self.restarted)))
        if self.trained or self.ended or self.failure or said.by == "sweep":
            return False
        if said.by == "command" and self.announced:  # each process of a launcher may echo it
            return "command" in self.announced and said.facts.given().items() <= self.facts.given().items()
        return said.by not in self.announced or said.facts.given().items() <= self.facts.given().items()

    def is_in_other_form(self, said: Epoch) -> bool:
        """Whether the line is about an epoch of this training in another form, or its validation (in other steps).

        Such lines come from the first epoch on; a form that is new later is another training's.
        """
        if self.ended or self.restarted or self.success:
            return False
        if self.form == said.form and not self._has_other_steps(said):
            return False
        last = max(self.last, next(reversed(self.records.epochs), 0))
        number = last if said.number is None else int(said.number)
        if self.form == said.form:
            return number + self.shift >= last
        planned = {said.planned, self.facts.epochs_planned} - {None}
        beside = said.form in self.beside or len(self.epochs) + len(self.records.epochs) <= 1
        return beside and len(planned) < 2 and 0 < self.begun >= number >= last - 1  # from 0 or from 1

    def _has_other_steps(self, said: Epoch) -> bool:
        before = self.epochs.get(self.last) if said.steps is not None else None
        return before is not None and before.steps not in (None, said.steps)

    def includes(self, said: Epoch, coming: RunFacts) -> bool:
        """Whether a printed epoch is this run's: same form, planned epochs and steps, and a number that continues.

        `coming` are the facts read since the run began to train: after any, an epoch of the same number is another
        training's, and after another model, batch or number of GPUs each epoch is.
        """
        if not self.trained:
            return self.accepts(said.form)
        planned = self.facts.epochs_planned
        alike = said.form == self.form and said.planned in (None, planned) and not self._has_other_steps(said)
        facts = ((getattr(self.facts, name), getattr(coming, name)) for name in _OF_ONE)
        unlike = coming != NO_FACTS and any(None not in both and both[0] != both[1] for both in facts)
        if self.ended or unlike or not alike:
            return False
        if said.number is None:
            return not self.success
        number = int(said.number) + self.shift
        # by another process, or a bar drawn again; or the only epoch of another training
        if number == self.last:
            return not (self.restarted or coming.given())
        # a line that names the run's plan is the run's even beyond it: "Epoch 4/3"
        return not self.success and self.last < number <= (number if said.planned else planned or number)

    # ------------------------------------------------------------------ epochs

    def keep(self, sample: EpochSample) -> None:
        """Keep an epoch; one that is kept again keeps its `starts_process`."""
        known = self.records.epochs.get(sample.epoch) or self.epochs.get(sample.epoch)
        process = self.restarted if self.opened_anew is None else self.opened_anew
        starts = known.starts_process if known is not None else process or not self.any_epoch
        if clocked := sample.source in (spans.CLOCK, spans.BLOCK):
            self.records.reach = max(self.records.reach, sample.epoch + sample.count - 1)
        self.last = self.last if clocked else sample.epoch
        epochs = self.records.epochs if clocked else self.epochs
        epochs[sample.epoch] = replace(sample, starts_process=True) if starts else sample
        self.failure, self.restarted, self.opened_anew = None, False, None

    @property
    def any_epoch(self) -> bool:
        """Whether an epoch was kept, printed or by records."""
        return bool(self.epochs or self.records.epochs)

    def has_epoch(self, number: int) -> bool:
        return number in self.epochs or number in self.records.epochs

    def sample(self, number: int) -> EpochSample:
        """An epoch with its time from the most reliable source and everything that was printed."""
        clocked, printed = self.records.epochs.get(number), self.epochs.get(number)
        sample = clocked or self.epochs[number]
        if clocked is not None and printed is not None:
            # screens show the printed line and hide records
            sample = replace(printed, seconds=clocked.seconds, source=clocked.source, count=clocked.count)
            steps, lines = printed.steps or clocked.steps, {"seconds": clocked.line or 0}
            sample = replace(sample, ended_at=clocked.ended_at, steps=steps, metric_lines=lines)
        if number not in self.measures:
            return sample
        metrics, cited = dict(sample.metrics), dict(sample.metric_lines)
        for name, (value, line) in self.measures[number].items():
            # what a bar shows is of a batch, and Keras prints four decimals of a number
            if sample.source == "tqdm" or abs(sample.metrics.get(name, value) - value) < 1e-4:
                metrics[name], cited[name] = value, line
        return replace(sample, metrics=metrics, metric_lines=cited)

    def refuse_parts(self, said: Epoch, line: int) -> None:
        """Refuse the run if a count rises from line to line of an epoch, in even steps: the times are of its parts.

        The first step may be from 0. Later ones show it if they are ten or more, as smaller ones divide most counts by
        chance; the line before may count from 1, or not the last one.
        """
        same = said.form == self.form and (said.number or 0) + self.shift == self.last
        for name, count in said.counts.items() if same and not (self.restarted or self.refused) else ():
            last = self.counts.get(name, count)
            step = count - last
            if step > 0 and (last <= step or (step > 9 and last % step in (0, 1, step - 1))):
                what = f"Line {line}: {name or 'a count'} rises within an epoch"
                self.refuse(f"{what}: its times are of its parts.")

    def merge_repeat(self, sample: EpochSample) -> bool:
        """Merge an epoch that came twice: from another process, or from two trainings, the first of one epoch.

        Return False if the times contradict each other: two trainings wrote at once.
        """
        stored, other = self.epochs[sample.epoch], sample.seconds
        self.interleaved |= stored.line != sample.line and rate_of(sample.metrics) != ""
        if len(self.epochs) == 1 or stored.line == sample.line or stored.seconds == other:
            self.epochs[sample.epoch] = replace(sample, starts_process=stored.starts_process)
            if stored.seconds != other:  # not drawn or printed again
                self.note(f"Epoch {sample.epoch} has two times in this log: the later one is shown.")
        elif are_apart(stored.seconds, other):
            return False
        else:
            metrics = {**sample.metrics, **stored.metrics}
            lines = dict.fromkeys(sample.metrics.keys() - stored.metrics.keys(), sample.line or 0)
            both = union(stored.seconds, other)
            self.epochs[sample.epoch] = replace(stored, seconds=both, metrics=metrics, metric_lines=lines)
            self.note("Some epochs have two times in this log: the interval holds both.")
        return True

    def continues_with(self, sample: EpochSample, other: "OpenRun") -> bool:
        """Whether an epoch comes next here as well as in the run opened after this, and by its time is this run's."""
        mine, its = self.epochs.get(sample.epoch - 1), other.epochs.get(sample.epoch - 1)
        if mine is None or its is None or its.starts_process or self.has_epoch(sample.epoch):
            return False
        return are_apart(its.seconds, sample.seconds) and not are_apart(mine.seconds, sample.seconds)

    # ------------------------------------------------------------------ rates and ends

    def merge_other_rank(self, said: Rate) -> bool:
        """Whether a rate was another rank's of this run, which already has a total; its bounds then include it."""
        if not self.ended or self.form != said.form or not self.rates:
            return False
        if not said.total:
            return not said.first
        total, rate = self.rates[-1].rate, said.rate
        if rate is None or total is None or abs(total.value - rate.value) >= SAME_RATE * total.value:
            return False
        self.rates[-1] = replace(self.rates[-1], rate=union(total, rate))
        self.interleaved = True
        return True

    def goes_back(self, said: Rate) -> bool:
        """Whether a rate's iteration is below the last one, or its batch another: another training has begun."""
        if self.rates and said.facts.batch_size and said.facts.batch_size != self.facts.batch_size:
            return True
        before = self.rates[-1].iteration if self.rates and said.form == self.form else None
        return before is not None and said.iteration is not None and said.iteration < before

    def take_rate(self, said: Rate, line: int) -> None:
        """Take a rate, or the time of a step."""
        self.form, self.last_line = said.form, line
        if said.total and self.resumed:
            self.note("The training was resumed, but its rate counts all planned epochs: no rate is shown.")
            said = replace(said, rate=None, facts=replace(said.facts, total_seconds=None))
        self.update_facts(said.facts)
        batch, gpus = self.facts.batch_size, self.facts.n_gpus
        if said.form == "horovod" and self.batch_line and batch and gpus and not self.facts.batch_per_gpu:
            # it prints one worker's
            self.update_facts(RunFacts(batch_size=batch * gpus, batch_per_gpu=batch))
        if said.note:
            self.note(said.note)
        if said.per_gpu and not self.facts.n_gpus:
            self.note("The log gives tokens per second of one GPU and not how many GPUs there were.")
        self.rates.append(replace(self._check_rate(said), line=line))

    def _check_rate(self, said: Rate) -> Rate:
        """A total rate, checked against samples x epochs over the whole time: a wrong one is replaced or dropped."""
        rate, seconds = said.rate, said.facts.total_seconds
        work = (self.facts.images or 0) * (self.facts.epochs_planned or 0)
        if not (said.total and rate and seconds and work and seconds.lo > 0):
            return said
        expected = Interval.exact(float(work)).over(seconds)
        # with `max_steps`, no whole epochs
        by_steps = said.steps_rate.scaled(self.facts.batch_size or 0) if said.steps_rate else expected
        if not (are_apart(expected, rate) and are_apart(by_steps, rate)):
            return said
        told = f"The log prints {rate.value:g} samples per second"
        self.note(f"{told}, but {work:,} samples in {seconds.value:g} s are {expected.value:,.1f}.")
        known = said.steps_rate is None or not are_apart(said.steps_rate, rate)
        return replace(said, rate=expected if known else None)

    def end(self, said: Ends) -> None:
        self.success = said.success and (self.any_epoch or not said.early)
        if not said.final:
            return
        if said.success and self.records.open is not None:
            self.note(f"Epoch {self.records.open.number} began, but its end is not in the log.")
        self.failure = self.failure or said.outcome
        self.ended = True

    def fail(self, outcome: Outcome) -> None:
        self.restarted = True
        if self.failure is None or is_worse(outcome, self.failure):
            self.failure = outcome

    def shut(self, *, job_known: bool) -> None:
        """No more lines come: decide how the run ended. `job_known`: the job's end decides where no line does."""
        if self.failure is not None or not self.epochs:
            return
        if self.keras.evaluates and self.outcome != "completed":
            self.success = True
            self.note("The training stopped before its planned epochs and went on to evaluate.")
        facts = self.facts
        unplanned = facts.epochs_planned is None and facts.program is None and self.form != spans.COURSE
        if unplanned and self.begun == self.last:  # nothing of another epoch has begun
            self.success = not job_known
            self.note("The log does not say how many epochs were planned; its last epoch is complete.")

    # ------------------------------------------------------------------ what is known

    def update_facts(self, facts: RunFacts, *, sure: bool = True) -> None:
        """Add facts; with `sure` false they only fill gaps, and a CPU that stands in for GPUs is left out."""
        if self.facts.mark and facts.device == "cpu" and not sure:
            facts = replace(facts, device=None, n_gpus=None)
        self.facts = self.facts.with_others(facts, sure=sure)

    def note(self, sentence: str) -> None:
        """Note once why a number is absent or has wide bounds."""
        if not self.refused and sentence not in self.notes and len(self.notes) < MAX_NOTES:
            self.notes.append(sentence)

    def refuse(self, reason: str) -> None:
        self.refused, self.notes = True, [reason]

    # ------------------------------------------------------------------ as a value

    def view(self) -> ParsedRun:
        """The run as an immutable value."""
        records = self.records
        began = records.open if self.form and not (records.epochs or self.ended) else None
        if began and (self.rates or self.last >= began.number + max(1, began.count)):
            return self._without_records().view()
        apart = {} if self.refused else self.apart | self._times_apart()
        numbers = () if self.refused else sorted((self.epochs.keys() | records.epochs.keys()) - apart.keys())
        samples = tuple(map(self.sample, numbers))
        notes = (*self.notes, *apart.values())[: 2 * MAX_NOTES]
        told = ({"framework": self.form} if self.form in (KERAS, spans.IMAGENET) else {}) | self.facts.given()
        unit: WorkUnit = next((RATES[name] for one in samples if (name := rate_of(one.metrics))), "images")
        if note := self._contradicted_images(samples):
            notes, told = (*notes, note), told | {"images": None}
        if note or self.interleaved:  # each process prints its own rate
            hidden = {*RATES, "throughput"} if note else {*RATES}
            others = [{key: one.metrics[key] for key in one.metrics if key not in hidden} for one in samples]
            samples = tuple(replace(one, metrics=its) for one, its in zip(samples, others, strict=True))
        if grow_like_total([one for one in samples if one.source not in _TIMED]):
            samples, notes = samples[:1], (*notes, _TOTAL)  # a run on the screen never loses its first epoch
        only = not records.epochs and 0 < len(self.epochs) <= self.daytimes
        if only and samples and may_be_times_of_day(samples):
            samples, notes = (), (*notes, _DAYTIMES)
        if self.masked and not self.facts.mark:  # CPU devices that stand in for GPUs stay
            told |= {"device": "cpu", "n_gpus": 0}
        if self.options:
            told["tuning"] = tuning_of(self.options)
        if not self.refused:
            told |= self._rates_as_printed()
        run = ParsedRun(
            **told,
            outcome=self.outcome,
            epochs=samples,
            last_begun=self.begun,
            unit=self.rates[-1].unit if self.rates else unit,
            notes=notes,
            interleaved=self.interleaved,
            first_line=self.first_line,
            last_line=self.last_line,
            gpu_lines=tuple(self.gpus.values()),
        )
        run = count_gpus(run)
        if self.batch_line == "open" and not run.batch_per_gpu and (run.n_gpus or 0) > 1:
            return replace(run, batch_size=None, notes=(*run.notes, _OPEN_BATCH.format(run.batch_size)))
        return run

    def _without_records(self) -> "OpenRun":
        """The run without MLPerf's records: these stop, so the printed epochs may be of another training."""
        kept = {name: getattr(self.facts, name) for name in ("epochs_planned", "practice", "small")}
        facts = RunFacts(framework=self.form, **kept)
        return replace(self, records=spans.RecordLines(), facts=facts, notes=[*self.notes, _RECORDS_STOP])

    def _times_apart(self) -> dict[int, str]:
        """The epochs whose time by the records contradicts the printed one, with a sentence each."""
        notes: dict[int, str] = {}
        for number, timed in self.records.epochs.items() if self.epochs else ():
            if timed.count == 1 and (printed := self.epochs.get(number)) is not None:
                both = (timed.seconds, timed.line), (printed.seconds, printed.line)
                notes |= spans.times_apart(number, *both)
        return notes

    def _contradicted_images(self, samples: tuple[EpochSample, ...]) -> str:
        """A sentence where the images of an epoch and a rate of the same log contradict each other; else ""."""
        images = self.facts.images
        if images is None or not samples:
            return ""
        last, of_all = samples[-1], "throughput" in samples[-1].metric_lines  # in MLPerf's record
        name, timed = ("throughput", samples[1:]) if of_all else (rate_of(last.metrics), samples[-1:])
        rate = last.metrics.get(name, 0.0)
        seconds = statistics.median(sample.seconds.value for sample in timed) if timed else 0.0
        if not rate > 0 < seconds or abs(images / seconds / rate - 1) <= APART:
            return ""
        given = f"Line {self.images_line} gives {images:,} samples an epoch, so {images / seconds:,.1f}"
        return f"{given} samples/s; line {last.line_of(name)} says {rate:,.1f}. Neither is used."

    def _rates_as_printed(self) -> dict[str, Any]:
        """Work per second as printed, or the batch over the printed time of a step; as fields of the run.

        A total or a running mean counts as printed; of other rates the median counts, with the bounds of all.
        """
        found = [one for one in self.rates if one.rate is not None]
        sure = [one for one in found if one.total or one.printed is not None]
        rate, line = median((one.rate, one.line) for one in sure[-1:] or found)
        step, step_line = median((one.step_seconds, one.line) for one in self.rates)
        if step is None and self.imagenet is not None:
            step, step_line = self.imagenet.batch.mean, self.imagenet.line
        batch, gpus = self.facts.tokens_per_step or self.facts.batch_size, self.facts.n_gpus
        if rate is not None and self.rates[-1].per_gpu:
            rate = rate.scaled(gpus) if gpus else None
        elif rate is None and (self.rates or self.form == "pytorch") and batch and step and step.lo > 0:
            rate, line = Interval.exact(float(batch)).over(step), step_line
        printed = sure[-1].printed if sure and rate is not None else None
        return {"throughput": rate, "throughput_printed": printed, "rate_line": line, "batch_seconds": step}
