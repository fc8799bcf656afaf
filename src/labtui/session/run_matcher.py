"""From a submission's mirrors to the epochs and ends of its planned runs.

The log readers know runs by their order in the log; here they become the runs that were planned, in order. A run in
the log that contradicts what was planned (other model, other number of GPUs) is matched by what it says, or not at
all: an epoch is never credited to a run it does not belong to.

A training that did not come to its end and began again in the same log (a requeued job that appends, a script that
tries twice) is one planned run: what it did before does not count any more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from labtui.domain.events import (
    AnyEvent,
    EpochSeen,
    LabState,
    RunEnded,
    RunFound,
    RunStarted,
    RunState,
    SamplesReset,
    SubmissionState,
    TotalsSeen,
)
from labtui.domain.model import Diagnosis, JobView, Outcome, RunSpec, Stream
from labtui.domain.reduce import reduce_all
from labtui.training_logs.diagnosis import join_streams
from labtui.training_logs.own_patterns import own_pattern
from labtui.training_logs.reader import LogReader
from labtui.training_logs.runs import (
    EpochRead,
    LogEvent,
    LogReport,
    ParsedRun,
    RunBegan,
    RunFacts,
    most_reliable,
)

_OUTCOME_OF_STATE: dict[str, Outcome] = {
    "CANCELLED": "cancelled",
    "PREEMPTED": "cancelled",
    "TIMEOUT": "time-limit",
    "DEADLINE": "time-limit",
    "OUT_OF_MEMORY": "oom",
    "FAILED": "failed",
    "NODE_FAIL": "failed",
    "BOOT_FAIL": "failed",
}


_TIME_OVER = ("TIMEOUT", "DEADLINE")
_NODE_LOST = ("NODE_FAIL", "BOOT_FAIL")


class SubmissionReader:
    """Reads the two logs of one submission. Gives events that the state does not know yet, and only those."""

    def __init__(
        self, submission: SubmissionState, planned: Sequence[RunSpec] = (), patterns: Sequence[str] = ()
    ) -> None:
        """`planned` are the runs that the commands of a student's own job file start; the log may not say them.

        `patterns` are the lab's own forms of log lines.
        """
        self._patterns = [own_pattern(text) for text in patterns]
        self._programs = tuple(dict.fromkeys(spec.program for spec in planned if spec.program is not None))
        self.token = submission.token
        self._run_ids = submission.run_ids
        self._own = bool(submission.job_file)
        self._plan = tuple(facts_of(spec) for spec in planned) if self._own else ()
        self._job_name = submission.job_name
        self._readers: dict[Stream, LogReader] = {}
        self._runs: dict[int, int | None] = {}
        self._superseded: set[int] = set()
        self.parsed: dict[Stream, int] = {}
        self.restart("out")
        self.restart("err")

    def restart(self, stream: Stream) -> None:
        """The log begins anew."""
        plan = self._plan if stream == "out" else ()
        self._readers[stream] = LogReader(
            stream=stream, plan=plan, patterns=self._patterns, programs=self._programs
        )
        self.parsed[stream] = 0
        if stream == "out":
            self._runs.clear()
            self._superseded.clear()

    def feed(self, stream: Stream, data: bytes, state: LabState, at: float) -> list[AnyEvent]:
        """The next bytes of a log. Epochs are read from standard output; the other stream explains failures."""
        reader = self._readers.get(stream)
        if reader is None:
            return []
        self.parsed[stream] += len(data)
        news_item = reader.feed(data)
        if stream != "out":
            return []
        return self._all_news(news_item, state, at)

    def _all_news(self, news_item: list[LogEvent], state: LabState, at: float) -> list[AnyEvent]:
        """What these tell beyond the state, each counted against the state after the one before."""
        events: list[AnyEvent] = []
        for item in news_item:
            news = list(self._news(item, state, at))
            state = reduce_all(state, news)
            events.extend(news)
        totals = list(self._totals(state, at))
        return [*events, *totals, *self._completed(reduce_all(state, totals), at)]

    def _totals(self, state: LabState, at: float) -> Iterator[AnyEvent]:
        """What the log says of whole runs and the state does not know yet."""
        for index, read in enumerate(self._readers["out"].runs):
            if read.totals_line is None:
                continue
            run = self._planned_run(index, state)
            if run is None:
                continue
            found = TotalsSeen(
                at=at if run.totals is None else run.totals.at,
                run_id=run.run_id,
                throughput=read.throughput if read.unit == "tokens" else None,
                unit=read.unit,
                sequence_length=read.sequence_length,
                total_seconds=read.total_seconds,
                gpu_memory=read.gpu_memory,
                line=read.totals_line,
            )
            if found != run.totals:
                yield msgspec.structs.replace(found, at=at)

    def _completed(self, state: LabState, at: float) -> Iterator[AnyEvent]:
        """Runs that said they are done are done, whatever else the job still does."""
        runs = self._readers["out"].runs
        for index, run_id in self._runs.items():
            run = None if run_id is None else state.runs.get(run_id)
            if run is None or run.outcome is not None or runs[index].outcome != "completed":
                continue
            report = self._report()
            yield from _ended(
                run,
                "completed",
                (*_against_plan(run, report, index), *_diagnosis(report, report.runs[index])),
                at,
            )

    def _news(self, news_item: LogEvent, state: LabState, at: float) -> Iterator[AnyEvent]:
        if isinstance(news_item, RunBegan):
            if news_item.index > 0:
                yield from self._earlier_runs_ended(news_item, state, at)
            begun = self._match(news_item.run, state)
            if begun is not None and self._own:
                yield from self._learned(state.runs[begun], news_item.run, at)
            if begun is not None:
                yield from _started(state.runs[begun], news_item.run, at)
            return
        if isinstance(news_item, EpochRead) and self._own:
            found = list(self._found(news_item.index, state, at))
            state = reduce_all(state, found)
            yield from found
        if isinstance(news_item, EpochRead):
            again = list(self._begun_again(news_item.index, state, at))
            state = reduce_all(state, again)
            yield from again
        run = self._planned_run(news_item.index, state)
        if run is None:
            return
        read = self._readers["out"].runs[news_item.index]
        yield from _started(run, read, at)
        if (
            isinstance(news_item, EpochRead)
            and news_item.sample not in run.epochs
            and not _begins_after(run, read)
        ):
            yield EpochSeen(at=at, run_id=run.run_id, sample=news_item.sample)

    # ------------------------------------------------------------------ runs of a student's own job file

    def _found(self, index: int, state: LabState, at: float) -> Iterator[AnyEvent]:
        """What the log tells of a run that nobody planned, or of a planned one whose command did not tell it."""
        reads = self._report().runs
        read = reads[index] if index < len(reads) else ParsedRun()
        known = self._planned_run(index, state)
        if known is None and not any(
            _may_be_again(state.runs[run_id], reads[earlier], read)
            for earlier, run_id in self._runs.items()
            if earlier < index and run_id is not None and run_id in state.runs
        ):
            run_id = max(state.runs, default=0) + 1
            self._run_ids = (*self._run_ids, run_id)
            self._runs[index] = run_id
            yield RunFound(
                at=at, token=self.token, run_id=run_id, spec=completed_by_log(_NOTHING_KNOWN, read)
            )
        elif known is not None:
            yield from self._learned(known, read, at)

    def _learned(self, run: RunState, read: ParsedRun, at: float) -> Iterator[AnyEvent]:
        spec = completed_by_log(run.spec, read)
        if spec != run.spec:
            yield RunFound(at=at, token=self.token, run_id=run.run_id, spec=spec)

    def _begun_again(self, index: int, state: LabState, at: float) -> Iterator[AnyEvent]:
        """The first epoch of a run that was tried before takes the planned run from that earlier try."""
        reads = self._readers["out"].runs
        if index in self._runs or index >= len(reads) or self._match(reads[index], state) is not None:
            return
        for earlier in range(index - 1, -1, -1):
            run_id = self._runs.get(earlier)
            run = None if run_id is None else state.runs.get(run_id)
            if run is None or not _may_be_again(run, reads[earlier], reads[index]):
                continue
            self._runs[earlier], self._runs[index] = None, run_id
            self._superseded.add(earlier)
            if not _begins_after(run, reads[earlier]) and (run.epochs or run.outcome is not None):
                yield SamplesReset(at=at, run_ids=(run.run_id,), reason="the training began again")
            return

    def _earlier_runs_ended(self, began: RunBegan, state: LabState, at: float) -> Iterator[AnyEvent]:
        """Another run began: those before it in the log are over, unless it is the same one once more."""
        report = self._report()
        free = self._match(began.run, state) is not None
        for earlier in range(began.index):
            run = self._planned_run(earlier, state)
            if run is not None and run.outcome is None and earlier < len(report.runs):
                read = report.runs[earlier]
                if not free and _may_be_again(run, read, began.run):
                    continue
                outcome: Outcome = "failed" if read.outcome == "unfinished" else read.outcome
                yield from _ended(run, outcome, _diagnosis(report, read), at)

    def _planned_run(self, index: int, state: LabState) -> RunState | None:
        """The planned run that the run number `index` of the log is; decided when its first epoch is read."""
        if index not in self._runs:
            read = self._readers["out"].runs
            facts = read[index] if index < len(read) else ParsedRun()
            self._runs[index] = self._match(facts, state)
        run_id = self._runs[index]
        return None if run_id is None else state.runs.get(run_id)

    def _match(self, read: ParsedRun, state: LabState) -> int | None:
        taken = set(self._runs.values())
        free = [run_id for run_id in self._run_ids if run_id not in taken and run_id in state.runs]
        return next((run_id for run_id in free if agrees(state.runs[run_id].spec, read)), None)

    # ------------------------------------------------------------------ the end

    @property
    def script_ended(self) -> bool:
        """Whether the log shows every planned run complete."""
        runs = self._readers["out"].runs
        tried = [run for index, run in enumerate(runs) if index not in self._superseded]
        return len(tried) >= len(self._run_ids) and all(run.outcome == "completed" for run in tried)

    @property
    def end_is_shown(self) -> bool:
        """Whether the logs show how it ended: every planned run complete, or Slurm's line that it ended the job."""
        return self.script_ended or any(
            found.kind in {"cancelled", "time-limit"} for found in self._report().diagnosis
        )

    def finish(self, job: JobView, state: LabState, at: float) -> list[AnyEvent]:
        """Both logs are complete: how each planned run ended, by its log first and by Slurm's word second."""
        events: list[AnyEvent] = []
        for reader in self._readers.values():
            news_item = reader.finish()
            if reader is self._readers["out"]:
                events = self._all_news(news_item, state, at)
                state = reduce_all(state, events)
        report = self._report()
        by_run = {self._runs.get(index): index for index in range(len(report.runs))}
        others = (read for index, read in enumerate(report.runs) if self._is_of_no_run(index, read))
        for run_id in self._run_ids:
            run = state.runs.get(run_id)
            if run is None:
                continue
            index = by_run.get(run_id)
            read = None if index is None else report.runs[index]
            if self._own and read is not None:  # the .err may have told its GPUs last
                events.extend(self._learned(run, read, at))
            found = (
                _another_training(run.spec, next(others, None))
                if index is None
                else _against_plan(run, report, index)
            )
            outcome = _outcome(read, job)
            if read is None and report.runs and outcome in ("oom", "failed"):
                outcome = "unfinished"  # it never began: what ended the job was the run before it
            events.extend(_ended(run, outcome, (*found, *_diagnosis(report, read)), at))
        return events

    def _is_of_no_run(self, index: int, read: ParsedRun) -> bool:
        """Whether the log names a training here that fits none of the planned runs."""
        return (
            self._runs.get(index) is None
            and index not in self._superseded
            and (read.model, read.n_gpus, read.batch_size) != (None, None, None)
        )

    def _report(self) -> LogReport:
        return join_streams(self._readers["out"].report, self._readers["err"].report)


def agrees(spec: RunSpec, read: ParsedRun) -> bool:
    """Whether what a log tells about a run does not contradict what was planned.

    The device is left out: a run that was meant for a GPU and found none is still that run, and says so.
    """
    if read.model is not None and "model" not in spec.unknown and read.model != spec.model:
        return False
    if spec.program is not None:
        return read.processes == spec.processes and read.size in ("", spec.size)
    known = "n_gpus" not in spec.unknown
    if known and spec.device == "gpu" and read.n_gpus not in (None, 0, spec.n_gpus):
        return False
    return read.batch_size is None or "batch_size" in spec.unknown or read.batch_size == spec.batch_size


def facts_of(spec: RunSpec) -> RunFacts:
    """What is known of a run, for the reader of its log."""
    values: dict[str, Any] = {
        "model": spec.model,
        "n_gpus": spec.n_gpus,
        "batch_size": spec.batch_size,
        "epochs_planned": spec.epochs,
    }
    unknown = {"epochs_planned" if name == "epochs" else name for name in spec.unknown}
    device = None if "n_gpus" in unknown else spec.device
    return RunFacts(device=device, **{name: value for name, value in values.items() if name not in unknown})


_NOTHING_KNOWN = RunSpec(
    model="",
    device="gpu",
    n_gpus=0,
    batch_size=0,
    epochs=0,
    script="",
    unknown=("model", "n_gpus", "batch_size", "epochs"),
)


def completed_by_log(spec: RunSpec, read: ParsedRun) -> RunSpec:
    """A run with what the log tells where nothing else did."""
    news_item = {
        "model": read.model,
        "n_gpus": read.n_gpus,
        "batch_size": read.batch_size,
        "epochs": read.epochs_planned,
    }
    values: dict[str, Any] = {
        name: news_item[name] for name in spec.unknown if news_item.get(name) is not None
    }
    if not values:
        return spec
    if "n_gpus" in values:
        values["device"] = "gpu" if values["n_gpus"] else "cpu"
    left = tuple(name for name in spec.unknown if name not in values)
    return replace(spec, **values, unknown=left)


def _may_be_again(run: RunState, before: ParsedRun, now: ParsedRun) -> bool:
    """Whether what a log tells now may be the planned run `run`, tried `before` without coming to its end."""
    if before.outcome == "completed" or not agrees(run.spec, now):
        return False
    return not before.epochs or before.epochs_planned == now.epochs_planned


def _begins_after(run: RunState, read: ParsedRun) -> bool:
    """Whether the epochs known of a run come from below `read` in the log: then it was tried again since."""
    return bool(run.epochs) and all((sample.line or 0) > read.last_line for sample in run.epochs)


def _started(run: RunState, read: ParsedRun, at: float) -> Iterator[AnyEvent]:
    event = RunStarted(
        at=at,
        run_id=run.run_id,
        images=read.images,
        framework=read.framework,
        learning_rate=read.learning_rate,
        practice=read.practice,
    )
    news_item = (read.images, read.framework or None, read.learning_rate, read.practice or None)
    known = (run.images, run.framework, run.learning_rate, run.practice)
    if not run.started or any(
        new is not None and new != old for new, old in zip(news_item, known, strict=True)
    ):
        yield event


def _ended(
    run: RunState, outcome: Outcome, diagnosis: tuple[Diagnosis, ...], at: float
) -> Iterator[AnyEvent]:
    if run.outcome != outcome or run.diagnosis != diagnosis:
        yield RunEnded(at=at, run_id=run.run_id, outcome=outcome, diagnosis=diagnosis)


def _outcome(read: ParsedRun | None, job: JobView) -> Outcome:
    """The log's word where it has one; else what Slurm's state means for a run that did not come to its end."""
    if (
        read is not None and read.outcome == "cancelled"
    ):  # a training ended by a signal cannot tell whose it was
        if job.slurm_state in _TIME_OVER:
            return "time-limit"
        if job.slurm_state in _NODE_LOST:
            return "failed"
    if read is not None and read.outcome != "unfinished":
        return read.outcome
    return _OUTCOME_OF_STATE.get(job.slurm_state, "unfinished")


def _against_plan(run: RunState, report: LogReport, index: int) -> tuple[Diagnosis, ...]:
    """What TensorFlow says of a run's GPUs (often in the .err, after its first epochs) against what was planned."""
    spec, read = run.spec, report.runs[index]
    lines = report.gpus[index]
    if not lines or read.contradictions or "n_gpus" in spec.unknown or spec.device == "cpu":
        return ()
    best, _ = most_reliable(lines)
    if read.n_gpus in (None, 0, spec.n_gpus) or best.count != read.n_gpus:
        return ()
    text = f"planned: {spec.n_gpus} GPU{'s' if spec.n_gpus != 1 else ''}; {best}"
    advice = "This run is left out of speedups: check the GPUs the job asked for and the script's strategy."
    return (Diagnosis(kind="contradiction", line=best.line, text=text, advice=advice, stream=best.stream),)


def _another_training(spec: RunSpec, read: ParsedRun | None) -> tuple[Diagnosis, ...]:
    """That the log tells another training in the place of a planned run: what was planned, what was trained."""
    if read is None:
        return ()
    facts: list[tuple[str, object, object]] = [
        ("model", spec.model, read.model),
        ("GPUs", spec.n_gpus, read.n_gpus),
        ("global batch", spec.batch_size, read.batch_size),
    ]
    differ = [
        f"{name} {is_now}, planned {planned}"
        for name, planned, is_now in facts
        if is_now is not None and is_now != planned
    ]
    advice = "Its epochs are not counted for this run. Check the script this run starts, then run it again."
    text = f"The log is of another training: {'; '.join(differ)}."
    return (Diagnosis(kind="contradiction", line=read.first_line, text=text, advice=advice),)


def _diagnosis(report: LogReport, read: ParsedRun | None) -> tuple[Diagnosis, ...]:
    """What explains this run: the lines within it and those of the other stream; all of them as a last resort."""
    if read is None:
        return report.diagnosis
    own = tuple(
        item
        for item in report.diagnosis
        if (item.text in read.contradictions if item.kind == "contradiction" else item.stream != "out")
        or (item.stream == "out" and read.first_line <= item.line <= read.last_line)
    )
    if read.practice:  # it was meant for the CPU
        own = tuple(item for item in own if item.kind != "no-gpu")
    if read.outcome == "completed":  # a surprise is worth telling, the failure of another run is not
        surprises = ("no-gpu", "contradiction")
        return tuple(item for item in own if item.stream == "out" or item.kind in surprises)
    return own or report.diagnosis
