"""Computes a submission's runs from the bytes of its mirrors, from what was planned, and from how the job ended.

The log readers number runs by their order in the log; here these are matched with the planned runs, in order. A run
in the log that contradicts the plan (other model, other number of GPUs) is matched by what it says, or not at all:
an epoch is never credited to a run it does not belong to.

A training that did not finish and began again in the same log (a requeued job that appends, a script that tries
twice) is one planned run: only the last attempt counts.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from labtui.domain.model import Diagnosis, JobView, Outcome, RunSpec, Stream, plural
from labtui.domain.run import RunFacts, RunRecord, planned_facts
from labtui.domain.state import LabState, RunState, SubmissionState, new_run
from labtui.slurm.states import FINISHED, OUTCOMES, explain_reason
from labtui.training_logs.diagnosis import join_streams
from labtui.training_logs.patterns import own_pattern
from labtui.training_logs.reader import LogReader
from labtui.training_logs.runs import LogReport, ParsedRun, most_reliable

_NODE_FAILURES = ("NODE_FAIL", "BOOT_FAIL")
_NOT_CANCELLED = ("TIMEOUT", "DEADLINE", *_NODE_FAILURES)
"""A training ended by a signal says that it was cancelled; these Slurm states tell the real cause."""

_NEVER_BEGAN = ("oom", "failed", "time-limit")
"""Outcomes of a job that do not apply to a run that had not begun: an earlier run ended the job."""

_COPIED = tuple(name for name in RunRecord.__struct_fields__ if name not in ("outcome", "practice"))
"""The fields that the log alone decides."""

NOTHING_KNOWN = RunSpec(
    model="", device="gpu", n_gpus=0, batch_size=0, epochs=0, script="",
    unknown=("model", "n_gpus", "batch_size", "epochs"),
)  # fmt: skip
"""The plan of a run that was not planned: only the log of a student's own job file tells about it."""


class SubmissionReader:
    """Reads the two logs of one submission."""

    def __init__(
        self, submission: SubmissionState, logs: Sequence[str], patterns: Sequence[str] = ()
    ) -> None:
        """`logs` are the paths of the mirrors, `patterns` the lab's own regular expressions for log lines.

        For a student's own job file, its commands supply what the log may not say about its runs.
        """
        specs = [spec for spec in submission.runs if spec != NOTHING_KNOWN]
        self.token, self.logs = submission.token, logs
        self._own = bool(submission.job_file)
        self._match = Match()
        programs = tuple(dict.fromkeys(spec.program for spec in specs if spec.program is not None))
        facts = tuple(facts_of(spec) for spec in specs) if self._own else ()
        forms = [own_pattern(text) for text in patterns]
        self._readers: dict[Stream, LogReader] = {
            "out": LogReader(stream="out", plan=facts, patterns=forms, programs=programs),
            "err": LogReader(stream="err", patterns=forms, programs=programs),
        }
        self.parsed: dict[Stream, int] = dict.fromkeys(self._readers, 0)
        """How many bytes of each log were parsed."""
        self.ended = False
        """Whether `end` was called."""

    def feed(self, stream: Stream, data: bytes) -> bool:
        """Parse the next bytes of a log; return whether they changed anything in its runs."""
        self.parsed[stream] += len(data)
        return bool(self._readers[stream].feed(data))

    def is_binary(self, stream: Stream) -> bool:
        """Whether the part of a log that was parsed is not text."""
        return self._readers[stream].report.binary

    def end(self) -> None:
        """Finish parsing: both logs are complete."""
        self.ended = True
        for reader in self._readers.values():
            reader.finish(job_known=True)

    def applied(self, state: LabState) -> LabState:
        """The state with this submission's runs as read from its logs.

        Epochs come from standard output; standard error explains failures.
        """
        submission = state.submissions[self.token]
        reads = self._readers["out"].runs
        plan = submission.plans
        self._match = match = match_runs(plan, reads, max(state.runs, default=0) + 1 if self._own else None)
        if found := [number for number in match.run_ids.values() if number not in plan]:
            specs = (*submission.runs, *[NOTHING_KNOWN] * len(found))
            submission = replace(submission, run_ids=(*submission.run_ids, *found), runs=specs)
            state = state.with_planned(submission)
        return state.with_runs(self._runs_from_logs(submission, state, reads))

    def _runs_from_logs(
        self, submission: SubmissionState, state: LabState, reads: Sequence[ParsedRun]
    ) -> list[RunState]:
        report = join_streams(self._readers["out"].report, self._readers["err"].report)
        match = self._match
        index_of = {number: index for index, number in match.run_ids.items()}
        matched = match.run_ids.keys() | match.superseded
        others = (
            read
            for index, read in enumerate(report.runs)
            if index not in matched and (read.model, read.n_gpus, read.batch_size) != (None, None, None)
        )
        runs = []
        for number in submission.run_ids:
            run = replace(new_run(submission, number), phase=state.runs[number].phase)
            index = index_of.get(number)
            if index is not None:
                run = self._with_facts(run, reads[index], report.runs[index])
            if self.ended and submission.job is not None:
                run = _with_outcome(run, report, index, submission.job, others)
                if self._own and not report.runs and submission.job.slurm_state == "COMPLETED":
                    run = replace(run, outcome="completed")  # it may have printed what labtui does not read
            elif index is not None:
                run = self._with_early_outcome(run, report, index, reads)
            runs.append(run)
        return runs

    def _with_facts(self, run: RunState, read: ParsedRun, joined: ParsedRun) -> RunState:
        """A run with what the log tells about it; `joined` includes what standard error adds."""
        told = {name: getattr(read, name) for name in _COPIED}
        spec = fill_unknown(run.spec, facts_by_field(joined)) if self._own else run.spec
        return replace(run, **told, started=True, spec=spec, practice=run.practice or bool(read.mark))

    def _with_early_outcome(
        self, run: RunState, report: LogReport, index: int, reads: Sequence[ParsedRun]
    ) -> RunState:
        """Set the outcome of a run that has ended while its job goes on: it said so, or another run began after it."""
        read = report.runs[index]
        if reads[index].outcome == "completed":
            found = (*_gpu_contradiction(run, report, index), *_diagnosis(report, read))
            return replace(run, outcome="completed", diagnosis=found)
        if all(
            later not in self._match.run_ids and may_be_retry(run.spec, reads[index], reads[later])
            for later in range(index + 1, len(reads))
        ):
            return run
        outcome: Outcome = "failed" if read.outcome == "unfinished" else read.outcome
        return replace(run, outcome=outcome, diagnosis=_diagnosis(report, read))

    @property
    def script_ended(self) -> bool:
        """Whether the log so far shows every planned run complete."""
        runs = self._readers["out"].runs
        tried = [run for index, run in enumerate(runs) if index not in self._match.superseded]
        return len(tried) >= max(1, len(self._match.plan)) and all(
            run.outcome == "completed" for run in tried
        )


# --------------------------------------------------------------------------- matching runs with the plan


class Match(msgspec.Struct):
    """The number of each run of a log, by its index there; `superseded` are attempts that were started again."""

    plan: Mapping[int, RunSpec] = {}
    run_ids: dict[int, int] = {}
    superseded: set[int] = set()


def match_runs(plan: Mapping[int, RunSpec], reads: Sequence[ParsedRun], first_new: int | None) -> Match:
    """Match the runs of a log with the planned ones.

    `first_new` is the number for the first run that was not planned; if None, such runs are left out.
    """
    match, free = Match(plan), dict(plan)
    for index, read in enumerate(reads):
        trained = bool(read.epochs) or read.throughput is not None  # else it counts as a planned run only
        fits = (
            number
            for number, spec in free.items()
            if agrees(spec, read) and (spec != NOTHING_KNOWN or trained)
        )
        number = next(fits, None)
        if number is not None:
            del free[number]
            match.run_ids[index] = number
            continue
        before = _find_earlier_try(match, reads, index)
        if before is not None and trained:
            match.run_ids[index] = match.run_ids.pop(before)
            match.superseded.add(before)
        elif before is None and trained and first_new is not None:
            match.run_ids[index] = first_new
            first_new += 1
    return match


def _find_earlier_try(match: Match, reads: Sequence[ParsedRun], index: int) -> int | None:
    """The index of the latest earlier run of the log of which this one may be another attempt."""
    for earlier in range(index - 1, -1, -1):
        number = match.run_ids.get(earlier)
        if number is None:
            continue
        spec = fill_unknown(match.plan.get(number, NOTHING_KNOWN), facts_by_field(reads[earlier]))
        if may_be_retry(spec, reads[earlier], reads[index]):
            return earlier
    return None


def agrees(spec: RunSpec, read: ParsedRun) -> bool:
    """Whether what a log tells about a run does not contradict the plan.

    The device is ignored: a run planned for a GPU that found none is still that run, and is reported as such.
    """
    unsure = spec.named or "model" in spec.unknown
    if not unsure and read.model not in (None, spec.model):
        return False
    if spec.program is not None:
        return read.processes == spec.processes and read.size in ("", spec.size)
    known = "n_gpus" not in spec.unknown
    if known and spec.device == "gpu" and read.n_gpus not in (None, 0, spec.n_gpus):
        return False
    return read.batch_size is None or "batch_size" in spec.unknown or read.batch_size == spec.batch_size


def facts_of(spec: RunSpec) -> RunFacts:
    """What the plan tells about a run, for the reader of its log."""
    known = planned_facts(spec)
    names = ("model", "device", "n_gpus", "batch_size", "epochs_planned")
    return RunFacts(**{name: known[name] for name in names if name in known})


def facts_by_field(read: ParsedRun | RunFacts) -> dict[str, Any]:
    """What a log or a command tells about a run, by the fields of `RunSpec`."""
    names = {"model": "model", "n_gpus": "n_gpus", "batch_size": "batch_size", "epochs": "epochs_planned"}
    told = {field: getattr(read, name) for field, name in names.items()}
    return {field: value for field, value in told.items() if value is not None}


def fill_unknown(spec: RunSpec, told: Mapping[str, Any]) -> RunSpec:
    """The spec with its unknown fields filled from `told`."""
    values = {name: told[name] for name in spec.unknown if name in told}
    if "n_gpus" in values:
        values["device"] = "gpu" if values["n_gpus"] else "cpu"
    return replace(spec, **values, unknown=tuple(name for name in spec.unknown if name not in values))


def may_be_retry(spec: RunSpec, before: ParsedRun, now: ParsedRun) -> bool:
    """Whether the run `now` of a log may be another attempt at `spec` after the unfinished run `before`."""
    if before.outcome == "completed" or not agrees(spec, now):
        return False
    return not before.epochs or before.epochs_planned == now.epochs_planned


# --------------------------------------------------------------------------- outcomes


def _with_outcome(
    run: RunState, report: LogReport, index: int | None, job: JobView, others: Iterator[ParsedRun]
) -> RunState:
    """The run with its outcome when both logs are complete: from its log first, from Slurm second."""
    read: ParsedRun | None = None
    if index is None:
        found = _other_training(run.spec, next(others, None))  # each is reported for one run only
    else:
        read = report.runs[index]
        found = _gpu_contradiction(run, report, index)
    outcome = _outcome(read, job)
    if read is None and report.runs and outcome in _NEVER_BEGAN:
        outcome = "unfinished"
    if outcome == "unfinished" and "epochs" in run.spec.unknown and job.slurm_state == "COMPLETED":
        outcome = "completed"  # nothing was planned that could be missing
    found = (*found, *_diagnosis(report, read))
    told = {each.kind for each in found}
    more = (each for each in _by_slurm(outcome, job) if each.kind not in told)
    return replace(run, outcome=outcome, diagnosis=(*found, *more))


def _by_slurm(outcome: Outcome, job: JobView) -> tuple[Diagnosis, ...]:
    """What Slurm says about a failed node or a lack of memory, which may not be in the log."""
    text = f"Job {job.job_id} {FINISHED.get(job.slurm_state, '')}."
    if outcome == "failed" and job.slurm_state in _NODE_FAILURES:
        advice = "The fault is not yours: submit it again."
        return (Diagnosis(kind="node-lost", line=0, text=text, advice=advice),)
    if outcome == "oom" and job.slurm_state == "OUT_OF_MEMORY":
        advice = explain_reason("OutOfMemory")
        return (Diagnosis(kind="host-memory", line=0, text=text, advice=advice),)
    return ()


def ended_by_slurm(run: RunState, job: JobView, *, began: bool) -> RunState:
    """A run whose job is over but whose log is still being copied: Slurm's outcome, if it holds for all its runs.

    `began`: some run of the job had begun, so one that had not never will.
    """
    outcome = OUTCOMES.get(job.slurm_state)
    if outcome is None or job.slurm_state == "FAILED":
        return run
    if began and not run.started and outcome in _NEVER_BEGAN:
        outcome = "unfinished"
    return replace(run, outcome=outcome, diagnosis=_by_slurm(outcome, job))


def _outcome(read: ParsedRun | None, job: JobView) -> Outcome:
    """The outcome in the log, if it has one; else what Slurm's state means for an unfinished run."""
    by_slurm = OUTCOMES.get(job.slurm_state, "unfinished")
    if read is None or read.outcome == "unfinished":
        return by_slurm
    return by_slurm if read.outcome == "cancelled" and job.slurm_state in _NOT_CANCELLED else read.outcome


def _gpu_contradiction(run: RunState, report: LogReport, index: int) -> tuple[Diagnosis, ...]:
    """A contradiction if TensorFlow reports other GPUs than planned, often in the .err after the first epochs."""
    spec, read = run.spec, report.runs[index]
    lines = read.gpu_lines
    if not lines or read.contradictions or "n_gpus" in spec.unknown or spec.device == "cpu":
        return ()
    best, _ = most_reliable(lines)
    if read.n_gpus in (None, 0, spec.n_gpus) or best.count != read.n_gpus:
        return ()
    text = f"planned: {plural(spec.n_gpus, 'GPU')}; {best}"
    advice = "This run is left out of speedups: check the GPUs the job asked for and the script's strategy."
    return (Diagnosis(kind="contradiction", line=best.line, text=text, advice=advice, stream=best.stream),)


def _other_training(spec: RunSpec, read: ParsedRun | None) -> tuple[Diagnosis, ...]:
    """A contradiction if the log shows another training instead of the planned run, with the differences."""
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
    """What explains this run: the lines within it and those of standard error; all of them as a last resort."""
    if read is None:
        return report.diagnosis
    own = tuple(
        item
        for item in report.diagnosis
        if (item.text in read.contradictions if item.kind == "contradiction" else item.stream != "out")
        or (item.stream == "out" and read.first_line <= item.line <= read.last_line)
    )
    if read.mark:  # a practice or small run needs no GPU
        own = tuple(item for item in own if item.kind != "no-gpu")
    if read.outcome == "completed":  # report surprises, but not the failure of another run
        surprises = ("no-gpu", "contradiction")
        return tuple(item for item in own if item.stream == "out" or item.kind in surprises)
    return own or report.diagnosis
