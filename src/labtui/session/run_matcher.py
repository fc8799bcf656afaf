"""Computes a submission's runs from the bytes of its mirrors, from what was planned, and from how the job ended.

The log readers number runs by their order in the log; here these are matched with the planned runs, in order. A run
in the log that contradicts the plan (other model, other number of GPUs) is matched by what it says, or not at all:
an epoch is never credited to a run it does not belong to.

A training that did not finish and began again in the same log (a requeued job that appends, a script that tries
twice) is one planned run: only the last attempt counts.
"""

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from labtui.domain.model import Diagnosis, JobView, Outcome, RunSpec, Stream, plural
from labtui.domain.run import RunFacts, RunRecord, planned_facts
from labtui.domain.state import LEFT_QUEUE, READ_STREAMS, LabState, RunState, SubmissionState, new_run
from labtui.results.measured import NO_GPU_DOUBT, found_no_gpu
from labtui.slurm.states import FINISHED, OUTCOMES, explain_reason, told_outcome
from labtui.training_logs.diagnosis import join_streams, runs_of_job
from labtui.training_logs.patterns import own_pattern
from labtui.training_logs.reader import LogReader
from labtui.training_logs.runs import LogReport, ParsedRun, most_reliable

_NODE_FAILURES = ("NODE_FAIL", "BOOT_FAIL")
_NOT_CANCELLED = ("TIMEOUT", "DEADLINE", *_NODE_FAILURES)
"""The log of a training that a signal ended says that it was cancelled; these Slurm states tell the real cause."""

_NEVER_BEGAN = ("oom", "failed", "time-limit")
"""A run that had not begun does not get these outcomes of its job: an earlier run ended the job."""

_FROM_LOG = tuple(name for name in RunRecord.__struct_fields__ if name not in ("outcome", "practice"))
"""The fields that the log alone decides."""

UNPLANNED = RunSpec(
    model="", device="gpu", n_gpus=0, batch_size=0, epochs=0, script="",
    unknown=("model", "n_gpus", "batch_size", "epochs"),
)  # fmt: skip
"""The plan of a run that was not planned: only the log of a student's own job file tells about it."""


class SubmissionReader:
    """Reads the two logs of one submission."""

    def __init__(self, submission: SubmissionState, logs: Sequence[str], patterns: Sequence[str]) -> None:
        """`logs` are the paths of the mirrors, `patterns` the lab's own regular expressions for log lines.

        For a student's own job file, its commands supply what the log may not say about its runs.
        """
        specs = [spec for spec in submission.runs if spec != UNPLANNED]
        self.token, self.logs = submission.token, logs
        self._own_job_file = bool(submission.job_file)
        # the student's name of the model is that of every training of the job, whatever the log calls it
        self._given = {"model": specs[0].model} if specs and specs[0].named else {}
        self._match = Match()
        programs = tuple(dict.fromkeys(spec.program for spec in specs if spec.program is not None))
        facts = tuple(facts_of(spec) for spec in specs) if self._own_job_file else ()
        forms = [own_pattern(text) for text in patterns]
        given: dict[str, Any] = {"plan": facts, "patterns": forms, "programs": programs}
        self._readers = {stream: LogReader(stream=stream, **given) for stream in READ_STREAMS}
        self.parsed: dict[Stream, int] = dict.fromkeys(self._readers, 0)
        """How many bytes of each log were parsed."""
        self.ended = False
        """Whether `end` was called."""
        self.failures = 0
        """How many failed processes the logs showed at the last `apply_to`."""

    def feed(self, stream: Stream, data: bytes) -> bool:
        """Parse the next bytes of a log; return whether they changed anything in its runs."""
        self.parsed[stream] += len(data)
        return bool(self._readers[stream].feed(data))

    def is_binary(self, stream: Stream) -> bool:
        """Whether the part of a log that was parsed is not text."""
        return self._readers[stream].binary

    def end(self) -> None:
        """Finish parsing: both logs are complete."""
        self.ended = True
        for reader in self._readers.values():
            reader.finish(job_known=True)

    def apply_to(self, state: LabState) -> LabState:
        """The state with this submission's runs as read from its logs."""
        submission, parsed_runs = state.submissions[self.token], self._parsed_runs
        plan, first = submission.plans, submission.run_ids[0]
        first_new = state.last_run + 1 if self._own_job_file else None
        self._match = match = match_runs(plan, parsed_runs, first_new)
        used = match.run_ids.values()
        if self.ended:  # an earlier, worse reader may have found runs that are none
            plan = {n: spec for n, spec in plan.items() if spec != UNPLANNED or n in (first, *used)}
        plan = plan | {n: UNPLANNED for n in used if n not in plan}
        if tuple(plan) != submission.run_ids:
            submission = replace(submission, run_ids=tuple(plan), runs=tuple(plan.values()))
            state = state.with_planned(submission)
        return state.with_runs(self._runs_from_logs(state, parsed_runs))

    @property
    def _parsed_runs(self) -> tuple[ParsedRun, ...]:
        return runs_of_job(self._readers["out"].runs, self._readers["err"].runs)

    def _runs_from_logs(self, state: LabState, parsed_runs: Sequence[ParsedRun]) -> list[RunState]:
        submission = state.submissions[self.token]
        report = join_streams(self._readers["out"].report, self._readers["err"].report)
        match, self.failures = self._match, len(report.failures)
        index_of = {number: index for index, number in match.run_ids.items()}
        matched = match.run_ids.keys() | match.superseded
        others = (each for at, each in enumerate(report.runs) if at not in matched)
        # an iterator: each is reported for one run only
        unmatched = (each for each in others if {each.model, each.n_gpus, each.batch_size} != {None})
        runs = []
        for number in submission.run_ids:
            run = replace(new_run(submission, number), phase=state.runs[number].phase)
            if (index := index_of.get(number)) is not None:
                run = self._with_facts(run, parsed_runs[index], report.runs[index])
            elif report.mention and not report.runs and number == submission.run_ids[0]:
                run = replace(run, started=True)  # its lines are about epochs, but not known ones
            job = submission.job if self.ended else None
            if job is not None or self._is_over(run.spec, index, parsed_runs):
                run = _with_outcome(run, report, index, job, unmatched)
            if self._own_job_file and not report.runs and job and job.slurm_state == "COMPLETED":
                run = replace(run, outcome="completed")  # it may have printed what labtui does not read
            if job and run.outcome == "failed" and not run.diagnosis:
                run = replace(run, diagnosis=self._lost_log(submission, job))
            runs.append(run)
        return runs

    def _lost_log(self, submission: SubmissionState, job: JobView) -> tuple[Diagnosis, ...]:
        """What explains a job without a log, if that was to lie in a folder that labtui does not make."""
        own = f"{submission.remote_dir}/"
        folder = posixpath.normpath(posixpath.dirname(submission.remote_logs.get("out", own)))
        if any(self.parsed.values()) or ("%" not in folder and f"{folder}/".startswith(own)):
            return ()
        text = f"Job {job.job_id} left no log in {folder.replace('%j', job.job_id)}/."
        advice = "Slurm makes no folders: make this one if it is missing, or put the log beside the job file."
        return (Diagnosis(kind="missing-file", line=0, text=text, advice=advice),)

    def _with_facts(self, run: RunState, parsed: ParsedRun, joined: ParsedRun) -> RunState:
        """A run with what the log tells about it; `joined` includes what standard error adds."""
        values = {name: getattr(parsed, name) for name in _FROM_LOG} | {"gpu_lines": joined.gpu_lines}
        if run.device == "cpu" and not joined.names_gpus:  # its job asked for none, whatever its header says
            values |= {"device": "cpu", "n_gpus": 0}
        named = {"model": run.spec.model} if run.spec.model else {}
        spec = fill_unknown(run.spec, named | facts_by_field(joined) | self._given)
        if self._own_job_file and parsed.epochs and parsed.epochs_planned:
            # the log knows better than the command, and what was trained better than both
            spec = replace(spec, epochs=max(parsed.epochs_planned, parsed.epochs[-1].epoch))
        return replace(run, **values, started=True, spec=spec, practice=run.practice or bool(parsed.mark))

    def _is_over(self, spec: RunSpec, index: int | None, parsed_runs: Sequence[ParsedRun]) -> bool:
        """Whether a run has ended although its job goes on: it says so, or another run began after it."""
        if index is None or parsed_runs[index].outcome == "completed":
            return index is not None
        run, later = parsed_runs[index], range(index + 1, len(parsed_runs))
        return any(n in self._match.run_ids or not may_be_retry(spec, run, parsed_runs[n]) for n in later)

    @property
    def script_ended(self) -> bool:
        """Whether the log so far shows every planned run complete."""
        counted = [run for at, run in enumerate(self._parsed_runs) if at not in self._match.superseded]
        enough = len(counted) >= max(1, len(self._match.plan))
        return enough and all(run.outcome == "completed" for run in counted)


# --------------------------------------------------------------------------- matching runs with the plan


class Match(msgspec.Struct):
    """The number of each run of a log, by its index there; `superseded` are attempts that were started again."""

    plan: Mapping[int, RunSpec] = {}
    run_ids: dict[int, int] = {}
    superseded: set[int] = set()


def match_runs(plan: Mapping[int, RunSpec], parsed_runs: Sequence[ParsedRun], first_new: int | None) -> Match:
    """Match the runs of a log with the planned ones.

    `first_new` is the number for the first run that was not planned; if None, such runs are left out.
    """
    match, free = Match(plan), dict(plan)
    for index, parsed in enumerate(parsed_runs):
        # A run of which the log shows no result yet can only be a planned one.
        trained = bool(parsed.epochs) or parsed.throughput is not None
        open_plans = {number: spec for number, spec in free.items() if spec != UNPLANNED or trained}
        fits = (number for number, spec in open_plans.items() if agrees(spec, parsed))
        if (number := next(fits, None)) is not None:
            del free[number]
            match.run_ids[index] = number
            continue
        before = _find_earlier_try(match, parsed_runs, parsed)
        if before is not None and trained:
            match.run_ids[index] = match.run_ids.pop(before)
            match.superseded.add(before)
        elif before is None and trained and first_new is not None:
            match.run_ids[index] = first_new
            first_new += 1
    return match


def _find_earlier_try(match: Match, parsed_runs: Sequence[ParsedRun], parsed: ParsedRun) -> int | None:
    """The index of the latest earlier run of the log of which this one may be another attempt."""
    for earlier, number in reversed(match.run_ids.items()):  # in the order of the log
        spec = fill_unknown(match.plan.get(number, UNPLANNED), facts_by_field(parsed_runs[earlier]))
        if may_be_retry(spec, parsed_runs[earlier], parsed):
            return earlier
    return None


def agrees(spec: RunSpec, parsed: ParsedRun) -> bool:
    """Whether what a log tells about a run does not contradict the plan.

    The device is ignored: a run planned for a GPU that found none is still that run, and is reported as such.
    """
    model_unknown = spec.named or "model" in spec.unknown
    if not model_unknown and parsed.model not in (None, spec.model):
        return False
    if spec.program is not None:
        return parsed.processes == spec.processes and parsed.size in ("", spec.size)
    known = "n_gpus" not in spec.unknown
    if known and spec.device == "gpu" and parsed.n_gpus not in (None, 0, spec.n_gpus):
        return False
    return parsed.batch_size is None or "batch_size" in spec.unknown or parsed.batch_size == spec.batch_size


def facts_of(spec: RunSpec) -> RunFacts:
    """What the plan tells about a run, for the reader of its log."""
    known = planned_facts(spec)
    names = ("model", "device", "n_gpus", "batch_size", "epochs_planned")
    return RunFacts(**{name: known[name] for name in names if name in known})


def facts_by_field(parsed: ParsedRun | RunFacts) -> dict[str, Any]:
    """What a log or a command tells about a run, by the fields of `RunSpec`."""
    names = {"model": "model", "n_gpus": "n_gpus", "batch_size": "batch_size", "epochs": "epochs_planned"}
    values = {field: getattr(parsed, name) for field, name in names.items()}
    return {field: value for field, value in values.items() if value is not None}


def fill_unknown(spec: RunSpec, facts: Mapping[str, Any]) -> RunSpec:
    """The spec with its unknown fields filled from `facts`."""
    values = {name: facts[name] for name in spec.unknown if name in facts}
    if "n_gpus" in values:
        values["device"] = "gpu" if values["n_gpus"] else "cpu"
    return replace(spec, **values, unknown=tuple(name for name in spec.unknown if name not in values))


def may_be_retry(spec: RunSpec, earlier: ParsedRun, later: ParsedRun) -> bool:
    """Whether the run `later` of a log may be another attempt at `spec` after the unfinished run `earlier`."""
    if earlier.outcome == "completed" or not agrees(spec, later):
        return False
    return not earlier.epochs or earlier.epochs_planned == later.epochs_planned


# --------------------------------------------------------------------------- outcomes


def _with_outcome(
    run: RunState, report: LogReport, index: int | None, job: JobView | None, unmatched: Iterator[ParsedRun]
) -> RunState:
    """The run with its outcome: from its log first, then from Slurm, if the `job` is over and the logs complete."""
    parsed = None if index is None else report.runs[index]
    found = _gpu_contradiction(run, parsed) if parsed else _other_training(run.spec, next(unmatched, None))
    state = job.slurm_state if job is not None else ""
    by_slurm: Outcome = OUTCOMES.get(state, "unfinished") if job is not None else "failed"
    outcome = by_slurm if parsed is None or parsed.outcome == "unfinished" else parsed.outcome
    if outcome == "cancelled" and state in _NOT_CANCELLED:
        outcome = by_slurm
    if parsed is None and report.runs and outcome in _NEVER_BEGAN:
        outcome = "unfinished"
    if outcome == "unfinished" and "epochs" in run.spec.unknown and state == "COMPLETED":
        outcome = "completed"  # nothing was planned that could be missing
    found = (*found, *_diagnosis(report, parsed, run.spec))
    if state == "FAILED" and not found and {each.outcome for each in report.runs} == {"completed"}:
        found = report.diagnosis  # it failed after its last training
    kinds = {item.kind for item in found}
    from_slurm = (item for item in _slurm_diagnosis(outcome, job) if item.kind not in kinds)
    return replace(run, outcome=outcome, diagnosis=(*found, *from_slurm))


def _slurm_diagnosis(outcome: Outcome, job: JobView | None) -> tuple[Diagnosis, ...]:
    """What Slurm says about a failed node or a lack of memory, which may not be in the log."""
    if job is None:
        return ()
    text = f"Job {job.job_id} {FINISHED.get(job.slurm_state, '')}."
    if outcome == "failed" and job.slurm_state in _NODE_FAILURES:
        advice = "The fault is not yours: submit it again."
        return (Diagnosis(kind="node-lost", line=0, text=text, advice=advice),)
    if outcome == "oom" and job.slurm_state == "OUT_OF_MEMORY":
        return (Diagnosis(kind="host-memory", line=0, text=text, advice=explain_reason("OutOfMemory")),)
    return ()


def with_slurm_outcome(state: LabState, run: RunState) -> RunState:
    """A run whose job is over but whose log is still being copied: Slurm's outcome, if it holds for all its runs."""
    submission = state.submissions.get(run.token)
    job = submission.job if submission is not None else None
    over = job is not None and job.phase in LEFT_QUEUE and run.outcome is None
    if submission is None or job is None or not over or (outcome := told_outcome(job)) is None:
        return run
    # if some run of the job had begun, one that had not never will
    began = any(state.runs[number].started for number in submission.run_ids)
    if began and not run.started and outcome in _NEVER_BEGAN:
        outcome = "unfinished"
    return replace(run, outcome=outcome, diagnosis=_slurm_diagnosis(outcome, job))


def _gpu_contradiction(run: RunState, parsed: ParsedRun) -> tuple[Diagnosis, ...]:
    """A contradiction if TensorFlow reports other GPUs than planned, often in the .err after the first epochs."""
    spec, lines = run.spec, parsed.gpu_lines
    if not lines or parsed.contradictions or "n_gpus" in spec.unknown or spec.device == "cpu":
        return ()
    best, _ = most_reliable(lines)
    if parsed.n_gpus in (None, 0, spec.n_gpus) or best.count != parsed.n_gpus:
        return ()
    text = f"planned: {plural(spec.n_gpus, 'GPU')}; {best}"
    advice = "This run is left out of speedups: check the GPUs the job asked for and the script's strategy."
    return (Diagnosis(kind="contradiction", line=best.line, text=text, advice=advice, stream=best.stream),)


def _other_training(spec: RunSpec, parsed: ParsedRun | None) -> tuple[Diagnosis, ...]:
    """A contradiction if the log shows another training instead of the planned run, with the differences."""
    if parsed is None:
        return ()
    words = {"model": "model", "n_gpus": "GPUs", "batch_size": "global batch"}
    facts = ((word, getattr(spec, name), getattr(parsed, name)) for name, word in words.items())
    differ = (f"{word} {seen}, planned {plan}" for word, plan, seen in facts if seen not in (None, plan))
    advice = "Its epochs are not counted for this run. Check the script this run starts, then run it again."
    text = f"The log is of another training: {'; '.join(differ)}."
    return (Diagnosis(kind="contradiction", line=parsed.first_line, text=text, advice=advice),)


_DEVICES = re.compile(r"error: (?:Out of memory .{0,80} on )?(\d+) (?:GPUs? w|replica)")
"""The number of devices in an error of labtui's own scripts."""


_SURPRISES = ("no-gpu", "contradiction")
"""The kinds of findings that end no run."""


def _concerns(item: Diagnosis, parsed: ParsedRun, spec: RunSpec) -> bool:
    """Whether a finding is about this run: lines of the other log do not tell whose they are, so all are.

    A job that asks for no GPU has none for any of its runs, and programs say so before they begin.
    """
    first = 0 if item.kind == "no-gpu" and spec.device == "cpu" else parsed.first_line
    if item.stream == parsed.stream and first <= item.line <= parsed.last_line:
        return True
    contradicts = item.kind == "contradiction"
    return item.text in parsed.contradictions if contradicts else item.stream != parsed.stream


def _diagnosis(report: LogReport, parsed: ParsedRun | None, spec: RunSpec) -> tuple[Diagnosis, ...]:
    """What explains this run: the lines within it and those of the other log; all of them as a last resort."""
    told: tuple[list[str], ...] = ([], [str(spec.replicas)])
    every = tuple(item for item in report.diagnosis if _DEVICES.findall(item.text) in told)
    if parsed is None:
        return tuple(item for item in every or report.diagnosis if item.kind != "contradiction")
    # Where the .err has one error for each failed run, they are in the runs' order.
    errors = [item for item in report.diagnosis if item.stream == "err" and item.kind not in _SURPRISES]
    failed = [run for run in report.runs if run.outcome != "completed"]
    alike = len(errors) == len(failed) == len(report.failures)
    others = [item for item, run in zip(errors, failed, strict=False) if alike and run is not parsed]
    own = tuple(item for item in every if item not in others and _concerns(item, parsed, spec))
    if parsed.mark:  # a practice or small run needs no GPU
        own = tuple(item for item in own if item.kind != "no-gpu")
    elif spec.device == "gpu" and not parsed.names_gpus and found_no_gpu(parsed, report) is None:
        doubt = {"kind": "contradiction", "text": NO_GPU_DOUBT}
        own = tuple(replace(item, **doubt) if item.kind == "no-gpu" else item for item in own)
    if parsed.outcome == "completed":  # report surprises, but not the failure of another run
        return tuple(item for item in own if item.stream == parsed.stream or item.kind in _SURPRISES)
    return own or every or report.diagnosis
