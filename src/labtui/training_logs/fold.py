"""From what lines say to runs: the one place that decides which run a line belongs to, and that keeps epochs.

An epoch belongs to the open run only where its form and its plan are the run's and its number goes on; else another
run begins. A line that announces a training, and a rate of another form, end the open run. What a log says before a
training is the next run's, and is never inherited from the last. Lines of a second form that speak of the same epochs
(a callback's, a bar) wait aside: they are dropped when the first form goes on, and become a run when it does not.
"""

from __future__ import annotations

from labtui.domain.model import DiagnosisKind, EpochSample
from labtui.training_logs.open_run import OpenRun
from labtui.training_logs.runs import (
    Failure,
    GpuCount,
    GpuSource,
    ParsedRun,
    RunFacts,
    contradiction,
)


class Fold:
    """The runs of one writer; every method takes what one line says and its number."""

    def __init__(self) -> None:
        self.closed: list[ParsedRun] = []
        self.closed_gpus: list[tuple[GpuCount, ...]] = []
        self.open: OpenRun | None = None
        self.aside: OpenRun | None = None
        self.before: OpenRun | None = None  # the run closed last
        self.hints = RunFacts()
        self.coming = RunFacts()  # of the run to come
        self.coming_gpus: dict[GpuSource, GpuCount] = {}
        self.coming_options: dict[str, str] = {}
        self.plan: dict[int, RunFacts] = {}
        self.job_gpus: GpuCount | None = None
        self.strategies: list[GpuCount] = []
        self.findings: list[tuple[DiagnosisKind, int, str, str]] = []  # kind, line, text, advice
        self.went_on = False  # an epoch was kept since the reader looked last
        self.without_gpu_coming = False

    # ------------------------------------------------------------------ views

    @property
    def index(self) -> int:
        """The number of the open run."""
        return len(self.closed)

    @property
    def runs(self) -> tuple[ParsedRun, ...]:
        return (*self.closed, self.open.view()) if self.open else tuple(self.closed)

    @property
    def run_gpus(self) -> tuple[tuple[GpuCount, ...], ...]:
        """The lines that tell the GPUs of each of `runs`."""
        return (*self.closed_gpus, tuple(self.open.gpus.values())) if self.open else tuple(self.closed_gpus)

    def fork(self) -> Fold:
        """The fold of a writer that begins to speak: what nobody in particular said is true of it, too."""
        other = Fold()
        for name in ("hints", "coming", "job_gpus", "without_gpu_coming", "before"):
            setattr(other, name, getattr(self, name))
        for name in ("closed", "closed_gpus", "strategies"):
            setattr(other, name, list(getattr(self, name)))
        for name in ("coming_gpus", "coming_options", "plan"):
            setattr(other, name, dict(getattr(self, name)))
        if self.open is not None:
            other.open = self.open.copy()
        return other

    # ------------------------------------------------------------------ opening and closing

    def begin(self, line: int, facts: RunFacts | None = None) -> OpenRun:
        """Close the open run and open the one that what was said so far is about."""
        self.close()
        run = self.open = OpenRun(line, line)
        run.facts = (facts or RunFacts()).with_others(self.coming, sure=False)
        run.facts = run.facts.with_others(self.plan.get(self.index + 1, RunFacts()), sure=False)
        run.options, self.coming_options = self.coming_options, {}
        self.coming = RunFacts()
        if self.without_gpu_coming:
            run.unmask()
            self.without_gpu_coming = False
        run.learn(self.hints, sure=False)
        waiting, self.coming_gpus = self.coming_gpus, {}
        for found in waiting.values():
            self.contradicted(run.weigh(found))
        return run

    def close(self) -> None:
        """No more lines come for the open run."""
        run, aside = self.open, self.aside
        if run is None:
            return
        self.aside = None
        if self.part_twins(run):
            run = self.open or run
        if run.settle is not None:
            run.settle(self, run)
        self.complete(run, proven=False)
        self.open = None
        self._shut(run)
        if aside is not None and aside.stands_alone(run):
            self._shut(aside)

    def promote_aside(self) -> OpenRun:
        """The other form went on by itself: it is another training."""
        aside, run = self.aside, self.open
        if aside is None or run is None:
            raise ValueError("nothing waits beside a run")
        self.aside = None
        run.unwiden()
        self.close()
        aside.facts = self.coming.with_others(aside.facts)
        self.coming = RunFacts()
        self.open = aside
        return aside

    def part_twins(self, run: OpenRun) -> bool:
        """Part a training of one epoch from the like one that followed: only its first epoch came twice."""
        first = run.first
        if run.twins.keys() != {first} or run.last <= first:
            return False
        later = OpenRun(run.twins[first].line or run.last_line, run.last_line, run.form, run.facts)
        run.unwiden()
        samples = [run.twins.pop(first), *(one for number, one in run.epochs.items() if number > first)]
        run.epochs = {first: run.epochs[first]}
        run.last, later.shift, later.whole = first, run.shift, run.whole
        run.last_line, later.printed_steps = later.first_line, run.printed_steps
        self.open = None
        self._shut(run)
        self.open = later
        for sample in samples:
            later.keep(sample)
        return True

    def _shut(self, run: OpenRun) -> None:
        run.shut()
        self.before = run
        self.closed.append(run.view())
        self.closed_gpus.append(tuple(run.gpus.values()))

    def here(self, line: int, form: str = "") -> OpenRun:
        """The open run, or a new one; a run of another form, or one that has ended, is closed."""
        run = self.open
        if run is None or run.ended or (form and run.form not in ("", form)):
            run = self.begin(line)
        run.last_line = line
        return run

    # ------------------------------------------------------------------ the only places that keep an epoch

    def keep(self, run: OpenRun, sample: EpochSample, *, clock: bool = False) -> None:
        """Keep an epoch of the open run: by a clock (MLPerf), or as printed."""
        if self.job_gpus is not None and not run.trained_epochs:
            self.contradicted(run.weigh_job(self.job_gpus))
        run.keep(sample, clock=clock)
        self.went_on = True
        if run is self.open and not clock:
            self._drop_aside(run)

    def _drop_aside(self, run: OpenRun) -> None:
        """The first form goes on, so the other one speaks of the same training."""
        if self.aside is not None:
            run.beside.add(self.aside.form)
            self.aside = None

    def contradicted(self, pair: tuple[GpuCount, GpuCount] | None) -> None:
        if pair is not None:
            self.findings.append(("contradiction", pair[1].line, *contradiction(*pair)))

    def without_gpu(self) -> None:
        """The program warned that it trains on the CPU; before its banner, that means the next run."""
        run = self.open
        if run is None or run.outcome == "completed" or run.ended:
            self.without_gpu_coming = True
        else:
            run.unmask()

    # ------------------------------------------------------------------ PyTorch's ImageNet example

    def complete(self, run: OpenRun, *, proven: bool) -> None:
        """Make an epoch of the batches, when its last ones were printed or what follows proves it over."""
        sample = run.whole_epoch(proven=proven)
        if sample is not None and not run.has_epoch(sample.epoch):
            self.keep(run, sample)
            run.whole = True

    # ------------------------------------------------------------------ rates and ends

    def fail(self, failure: Failure) -> None:
        """A process ended badly. The gravest word stays: a time limit before a traceback."""
        if self.open is not None:
            self.open.fail(failure)

    def refuse(self, line: int, text: str, reason: str) -> None:
        """Lines of two trainings stand here without marks: no epoch of the run can be believed."""
        run = self.open
        if run is None or run.refused:
            return
        run.refuse(reason)
        advice = "Write one log for each training (`srun --output`, or `> train1.log` for each command) and read those."
        self.findings.append(("mixed-trainings", line, f"{text.strip()[:120]} - {reason}", advice))
