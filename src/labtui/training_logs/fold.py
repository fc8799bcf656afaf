"""Builds runs from what lines say: decides which run a line belongs to, and keeps the epochs.

An epoch belongs to the open run only if its form and its planned epochs are the run's and its number continues the
run; otherwise another run begins. A line that announces a training, or a rate of another form, ends the open run. What
a log says before a training is about the next run, and is never inherited from the last. Lines of a second form within
a training (a callback's, a bar) are about the same epochs and are left out.
Lines of Keras and PyTorch that depend on the lines around them are read in `keras_runs` and `spans`.
"""

import copy
from collections import deque
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from labtui.domain.model import EpochSample, Interval, Outcome
from labtui.domain.run import MIXED
from labtui.training_logs import diagnosis, keras, keras_runs, patterns, spans
from labtui.training_logs.keras_runs import KERAS
from labtui.training_logs.run import MAX_LISTED, OpenRun
from labtui.training_logs.runs import EXPRESSIONS, NO_FACTS, GpuCount, ParsedRun, RunFacts
from labtui.training_logs.said import Batch, Begins, Ends, Epoch, Measures, Opens, Rate, Says
from labtui.training_logs.spans import CLOCK, COURSE, IMAGENET, Opened

_BARS = "An epoch has several bars without a name, and nothing shows which is the training's."
_TWO_BATCHES = "The log has two global batches, {:,} and {:,}: the later one counts."


class Fold:
    """The runs of one writer: of one rank, or of the lines without a rank."""

    def __init__(self, diagnoser: diagnosis.Diagnoser) -> None:
        self.diagnoser = diagnoser
        self.closed: list[ParsedRun] = []
        self.open: OpenRun | None = None
        self.before: OpenRun | None = None  # the run closed last
        self.coming = OpenRun()  # what is known of the next run
        self.hints = RunFacts()
        self.plan: dict[int, RunFacts] = {}
        self.evaluates = False  # Hugging Face's Trainer, by its last head
        self.job_gpus: GpuCount | None = None
        self.strategies: deque[GpuCount] = deque(maxlen=MAX_LISTED)

    def fork(self) -> "Fold":
        """A copy for a rank that begins to train: what lines without a rank said is true of it, too.

        Kept runs and epochs never change, so both have the same: a copy of each would cost more with every line.
        """
        kept: list[Any] = [self.closed, *(run.epochs for run in (self.open, self.before) if run is not None)]
        memo = {id(each): each.copy() for each in kept}
        return copy.deepcopy(self, memo | {id(self.diagnoser): self.diagnoser})

    # ------------------------------------------------------------------ opening and closing

    def run_of(self, line: int, belongs: Callable[[OpenRun], bool]) -> OpenRun:
        """The run that a line is about: the open one if the line belongs to it, else the next, which then opens."""
        return self.open if self.open is not None and belongs(self.open) else self.begin(line)

    def begin(self, line: int) -> OpenRun:
        """Close the open run and open the next one with what is known of it so far."""
        self.close()
        run = self.open = self.coming
        self.coming = OpenRun()
        run.first_line = run.last_line = line
        for told in (self.plan.get(len(self.closed) + 1, NO_FACTS), self.hints):
            run.update_facts(told, sure=False)
        return run

    def close(self, *, job_known: bool = False) -> None:
        """Close the open run; see `OpenRun.shut`."""
        run = self.open
        if run is None:
            return
        keras_runs.settle(self, run, run.last_line)
        run = self.open or run  # the last epoch's steps may have begun another run
        spans.complete(self, proven=False)
        self.open = None
        run.shut(job_known=job_known)
        self.before = run
        self.closed.append(run.view())

    def keep(self, run: OpenRun, sample: EpochSample) -> None:
        """Keep an epoch of the open run. All epochs pass through here."""
        job, banner = self.job_gpus, run.gpus.get("banner")
        if job is not None and banner is not None and len(run.gpus) == 1 and banner.count > job.count:
            run.gpus["job"] = job  # the job's GPUs contradict only a banner that claims more
        run.keep(sample)
        self.diagnoser.kept = None

    def keep_printed(self, run: OpenRun, said: Epoch, number: int, seconds: Interval, line: int) -> None:
        """Keep an epoch from a single line, or merge it with an earlier one of the same number."""
        sample = EpochSample(
            epoch=number, seconds=seconds, steps=said.steps, metrics=said.metrics, source=said.form, line=line
        )
        if number in run.epochs:
            if not (run.refused or run.merge_repeat(sample)):
                self.refuse(line, f"Epoch {number}")
            return
        if run.last and number > run.last + 1:
            run.refuse("Epochs are not printed one by one: a time may be that of several epochs.")
        if self.before is not None and self.before.continues_with(sample, run):
            self.refuse(line, f"Epoch {number}")
        self.keep(run, sample)

    def see_epoch(self, text: str) -> None:
        """An unread line that begins with the next epoch's number shows that this epoch began."""
        run, head = self.open, EXPRESSIONS["head"].match(text.lstrip(" [|=-"))
        if run is not None and head is not None and int(head["epoch"]) + run.shift == run.last + 1:
            run.began = Opened(run.last + 1, None)

    # ------------------------------------------------------------------ failures

    def mark_without_gpu(self) -> None:
        """Mark a run whose program warned that it trains on the CPU; before its banner, that is the next run."""
        run = self.open
        about = self.coming if run is None or run.ended or run.outcome == "completed" else run
        about.masked = True

    def fail(self, outcome: Outcome) -> None:
        """A process failed. The gravest failure of a run is kept: a time limit rather than a traceback."""
        if self.open is not None:
            self.open.fail(outcome)
        if self.open is None or self.open.over:
            self.coming = OpenRun()  # what that process said of itself

    def refuse(self, line: int, text: str) -> None:
        """Discard the epochs of the open run: unmarked lines of two trainings are mixed in it."""
        run = self.open
        if run is None or run.refused:
            return
        run.refuse(MIXED)
        advice = "Write one log for each training (`srun --output`, or `> train1.log` for each command) and read those."
        self.diagnoser.add("mixed-trainings", line, f"{text.strip()[:120]} - {MIXED}", advice)


# --------------------------------------------------------------------------- facts, and that a training begins


def _take_fact(fold: Fold, line: int, said: Says) -> None:
    """Take a fact about the announced run, else about the next."""
    if isinstance(said.about, int):
        fold.plan[said.about] = said.facts
        return
    if said.about == "job":
        fold.hints = fold.hints.with_others(said.facts)
        return
    run = fold.open
    if said.starts:
        fold.evaluates = said.starts == "evaluation"
    if run is not None:
        run.restarted |= said.starts in ("anew", "resumed")
        run.resumed |= said.starts == "resumed"
        if said.shortage is not None:
            run.out_of_data = said.shortage
    run = _run_of_fact(fold, line, said)
    if said.option is not None:
        run.options[said.option[0]] = said.option[1]
    before, batch = run.facts.batch_size, said.facts.batch_size
    if said.about == "begun run" and run.interleaved and None not in (before, batch) and before != batch:
        fold.refuse(line, f"global_batch_size {batch}")  # the records of another training, too
    run.update_facts(said.facts, sure=said.sure and not run.trained and not run.ended)
    if run.batch_line and before is not None and run.facts.batch_size != before:
        run.note(_TWO_BATCHES.format(before, run.facts.batch_size))
    if said.facts.images:
        run.images_line = line
    if said.about == "begun run" and said.facts.n_gpus and "banner" not in run.gpus:
        run.gpus["banner"] = GpuCount("banner", said.facts.n_gpus, line, f"n_gpus {said.facts.n_gpus}")
    run.last_line = line
    if said.batch_line:
        run.batch_line = "global" if before == batch else said.batch_line


def _run_of_fact(fold: Fold, line: int, said: Says) -> OpenRun:
    """The run that a fact is about: the open one, one that it begins, or the next."""
    run = fold.open
    if run is None:
        return fold.begin(line) if said.batch_line else fold.coming
    waits = not run.trained and not run.ended
    again = run.batch_line and (run.failure or not waits)
    if said.batch_line and (run.ended or again):
        return fold.begin(line)
    return run if waits or said.about == "begun run" else fold.coming


def _take_gpus(fold: Fold, line: int, found: GpuCount) -> None:
    """Take a number of GPUs that a strategy reports; after a failure or a strategy it is about the next run."""
    run = _run_of_fact(fold, line, Says())
    run.last_line = line
    if found.source == "job":
        fold.job_gpus = found
        return
    fold.strategies.append(found)
    again = found.source == "devices" and "devices" in run.gpus
    (fold.coming if run.failure or again else run).gpus[found.source] = found


def _take_begin(fold: Fold, line: int, said: Begins) -> None:
    if said.by == "command":
        said.facts = _with_global_batch(fold, said.facts)
    run = fold.open
    begun = run is not None and "trainer" in run.announced and run.facts.epochs_planned and not run.restarted
    if said.by == "trainer" and (begun or fold.evaluates):
        return
    run = fold.run_of(line, lambda run: run.may_be_announced_by(said))
    run.interleaved |= said.text == "run_start" and said.text in run.announced
    run.announced |= {said.by, said.text} if said.by == "record" else {said.by}
    run.last_line = line
    if said.by == "command":
        run.masked = said.masked
    run.update_facts(said.facts)
    if said.by == "banner" and said.facts.n_gpus:
        run.gpus["banner"] = GpuCount("banner", said.facts.n_gpus, line, said.text)


def _with_global_batch(fold: Fold, facts: RunFacts) -> RunFacts:
    """The facts of a command, with the global batch worked out by the job's header (`batch_shares`)."""
    number = len(fold.closed) + 1 + (fold.open is not None)
    shares = fold.plan.get(number, RunFacts()).batch_shares
    given = facts.batch_per_gpu or facts.batch_size
    if shares is None or given is None:
        return facts
    total = given * shares
    return replace(facts, batch_size=total, batch_per_gpu=total // facts.n_gpus if facts.n_gpus else None)


# --------------------------------------------------------------------------- epochs


def _take_metrics(fold: Fold, line: int, said: Measures) -> None:
    run = fold.open
    if run is None or (said.form == patterns.SUMMARY and int(said.number or 0) + run.shift != run.last):
        return  # of an epoch that is not over
    run.last_line = line
    if said.form == IMAGENET:
        spans.complete(fold, proven=True)
        number = run.begun
    elif said.form == patterns.SUMMARY:
        number = run.last
    elif said.number is not None and (said.form == COURSE or not run.records.zero_based):
        number = int(said.number)
    else:
        number = next(reversed(run.records.epochs), run.last)
    if run.has_epoch(number):
        told = {name: (value, line) for name, value in said.metrics.items()}
        run.measures.setdefault(number, {}).update(told)


def _take_epoch(fold: Fold, line: int, said: Epoch) -> None:
    """Take an epoch from a single line."""
    run, seconds = fold.open, said.seconds
    if seconds is None:  # the example's validation begins
        spans.complete(fold, proven=True)
        return
    if said.number is None and said.form == "tqdm" and not (run and run.keras.awaits(run, None)):
        last = run.epochs.get(run.last) if run else None
        if run and last and last.source == "tqdm":
            alike = said.steps == last.steps and seconds.hi >= last.seconds.lo and not run.interleaved
            if alike or seconds.lo > last.seconds.hi:
                run.refuse(_BARS)
        return  # no header opened an epoch; or a validation's bar, which takes less than the training's
    if said.form == "tqdm" and _counts_epochs(said) and not (run and run.epochs and run.form == "tqdm"):
        return
    if run is not None:
        run.refuse_parts(said, line)
    if run is not None and run.is_in_other_form(said):
        run.beside.add(said.form)
        if run.keras.awaits(run, said.number):  # until Keras's own line gives a better time
            run.last_line = line
            fold.keep_printed(run, said, run.keras.epoch.number or 0, seconds, line)
        return
    run = fold.run_of(line, lambda run: run.includes(said, fold.coming.facts))
    run.form, run.last_line, run.counts = said.form, line, said.counts
    run.daytimes += said.daytime
    if said.planned is not None and (run.facts.epochs_planned is None or not run.any_epoch):
        run.update_facts(RunFacts(epochs_planned=said.planned))
    if not run.epochs:
        run.shift = 1 if said.number == 0 else 0
    number = run.last + 1 if said.number is None else int(said.number) + run.shift
    fold.keep_printed(run, said, number, seconds, line)


def _counts_epochs(bar: Epoch) -> bool:
    """Whether a full bar that names an epoch may be that of all epochs: it has as many steps."""
    number, steps = bar.number or 0, bar.steps or 0
    return steps > 1 and number in (steps - 1, steps) and bar.planned in (None, steps)


# --------------------------------------------------------------------------- rates and ends


def _take_rate(fold: Fold, line: int, said: Rate) -> None:
    run = fold.open
    if run is not None and run.merge_other_rank(said):
        return
    run = _run_of_rate(fold, line, said)
    if run is None:
        return
    run.take_rate(said, line)
    if said.total:
        run.success = True
        run.ended = "run_start" not in run.announced  # else MLPerf's own end is still to come


def _run_of_rate(fold: Fold, line: int, said: Rate) -> OpenRun | None:
    """The run that a rate belongs to; None where it is about a training that has lines of its own."""
    run = fold.open
    if run is None or run.over or (said.first and run.success) or run.goes_back(said):
        return fold.begin(line)
    if not run.trained or run.form in ("", said.form):
        return fold.begin(line) if run.records.epochs and run.form != said.form else run
    another = said.total or said.first or run.restarted or run.outcome == "completed"
    return fold.begin(line) if another else None


def _take_end(fold: Fold, line: int, said: Ends) -> None:
    run = fold.open
    if run is None or (run.form and run.begun < (said.facts.epochs_planned or 0)):
        return  # another training's, which printed no epochs
    run.last_line = line
    run.update_facts(said.facts)
    run.end(said)


_OPENS = {KERAS: keras_runs.take_header, COURSE: spans.start_course_epoch, CLOCK: spans.start_clock}
_ENDS = {COURSE: spans.end_course_epoch, CLOCK: spans.stop_clock}
"""The functions that take the beginning and the end of an epoch of these forms."""
TAKERS: dict[type, Callable[[Fold, int, Any], None]] = {
    Says: _take_fact,
    GpuCount: _take_gpus,
    Begins: _take_begin,
    Opens: lambda fold, line, said: _OPENS[said.form](fold, line, said),
    keras.Summary: keras_runs.take_summary,
    keras.FirstStep: keras_runs.take_first_step,
    Batch: spans.take_batch,
    Epoch: lambda fold, line, said: _ENDS.get(said.form, _take_epoch)(fold, line, said),
    Measures: _take_metrics,
    Rate: _take_rate,
    Ends: _take_end,
}
"""By what a line says: the function that takes it, with its fold and number."""
