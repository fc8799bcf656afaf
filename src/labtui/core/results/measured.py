"""A run with what the numbers need to know about it: where it was read, by whom it was started.

Made from the lab folder's state or from logs read as bare files; nothing here reads either.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Protocol

from labtui.core.model import Diagnosis, EpochSample, JobForm, Outcome, ParsedRun, RunPhase
from labtui.core.results.trace import Origin
from labtui.core.state import LabState, RunState, SubmissionState

_LIVE_PHASES = (RunPhase.STARTING, RunPhase.RUNNING)
_MODEL_IN_NAME = re.compile(r"resnet[-_]?(\d{2,3})", re.IGNORECASE)
_DEVICE_IN_NAME = re.compile(r"(?<![a-z])(cpu|gpu)(?![a-z])", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRun:
    """One run, ready to be counted.

    `source` is the log's path as given (bare files) or its name in the lab folder; `form` the template its
    job was made from. `practice` runs are never pooled with real ones. `live` means the run is still going.
    `guessed` names what was taken from the file's name because the log does not say it.
    `no_gpu` is true when the log shows that the training found no GPU; `doubts` are sentences about what the
    log leaves open.
    """

    run: ParsedRun
    run_id: int | None = None
    job_id: str = ""
    source: str = ""
    form: JobForm | None = None
    practice: bool = False
    live: bool = False
    guessed: tuple[str, ...] = ()
    no_gpu: bool = False
    doubts: tuple[str, ...] = ()
    task_id: str = ""

    def origin(self, sample: EpochSample | None = None) -> Origin:
        """Where a sample of this run (or, without one, its rate) was read."""
        return Origin(
            source=self.source,
            job_id=self.job_id,
            run_id=self.run_id,
            epoch=sample.epoch if sample else None,
            line=sample.line if sample else self.run.last_line,
        )


class _Report(Protocol):
    """The part of a log report that is needed here (`labtui.core.logs.LogReport` has it)."""

    @property
    def runs(self) -> Sequence[ParsedRun]: ...
    @property
    def diagnosis(self) -> Sequence[Diagnosis]: ...


def measured_from_state(state: LabState) -> tuple[MeasuredRun, ...]:
    """All runs of a lab folder that have epochs, in the order of their numbers."""
    return tuple(
        _from_run_state(run, state.submissions.get(run.token))
        for _, run in sorted(state.runs.items())
        if run.epochs
    )


def _from_run_state(run: RunState, submission: SubmissionState | None) -> MeasuredRun:
    spec = run.spec
    parsed = ParsedRun(
        model=spec.model,
        device=spec.device,
        n_gpus=spec.n_gpus,
        batch_size=spec.batch_size,
        epochs_planned=spec.epochs,
        outcome=run.outcome or "unfinished",
        epochs=run.epochs,
        images=run.images,
        learning_rate=spec.learning_rate,
        framework=run.framework,
    )
    job_id = submission.job.job_id if submission and submission.job else ""
    practice = run.practice or bool(submission and submission.practice)
    return MeasuredRun(
        run=parsed,
        run_id=run.run_id,
        job_id=job_id,
        source=_log_name(submission, job_id),
        form=submission.form if submission else None,
        practice=practice,
        live=run.outcome is None and run.phase in _LIVE_PHASES,
        no_gpu=spec.device == "gpu" and not practice and _no_gpu_lines(run.diagnosis) != [],
        task_id=run.task_id,
    )


def _log_name(submission: SubmissionState | None, job_id: str) -> str:
    """Where the job's standard output lies in the lab folder."""
    if submission is None or not job_id:
        return ""
    log = submission.logs.get("out")
    restart = f".restart{log.segment}" if log and log.segment else ""
    return f"logs/{submission.job_name}.{job_id}{restart}.out"


def _no_gpu_lines(diagnosis: Iterable[Diagnosis]) -> list[Diagnosis]:
    return [found for found in diagnosis if found.kind == "no-gpu"]


def _no_gpu(run: ParsedRun, report: _Report) -> tuple[bool, tuple[str, ...]]:
    """Whether this run found no GPU, and a doubt where the log has several runs and does not tell which one.

    A rehearsal on CPU devices is meant to have none.
    """
    lines = _no_gpu_lines(report.diagnosis)
    if not lines or run.device == "cpu" or run.practice:
        return False, ()
    if len(report.runs) == 1:
        return True, ()
    if any(line.stream == "out" and run.first_line <= line.line <= run.last_line for line in lines):
        return True, ()
    if all(line.stream == "out" for line in lines):
        return False, ()
    return False, ("The job's .err says that a training found no GPU, but not which one of these runs.",)


def measured_from_reports(reports: Iterable[tuple[str, _Report]]) -> tuple[MeasuredRun, ...]:
    """Runs of bare log files: pairs of the path as given and what was read from it.

    A log that says neither model nor device (the sequential script prints no banner) may still have them in
    its name, which Slurm made from the job name; what was taken from there is named in `guessed`.
    """
    measured = []
    for path, report in reports:
        job_id = _job_id_in_name(path)
        for run in report.runs:
            named, guessed = _complete_from_name(run, path)
            no_gpu, doubts = _no_gpu(named, report)
            measured.append(
                MeasuredRun(
                    run=named,
                    job_id=job_id,
                    source=path,
                    practice=run.practice,
                    guessed=guessed,
                    no_gpu=no_gpu,
                    doubts=doubts,
                )
            )
    return tuple(measured)


def _job_id_in_name(path: str) -> str:
    """The job id of a log named ``%x.%j.out``, else nothing."""
    pieces = PurePath(path).name.split(".")
    return pieces[-2] if len(pieces) >= 3 and pieces[-2].isdigit() else ""


def _complete_from_name(run: ParsedRun, path: str) -> tuple[ParsedRun, tuple[str, ...]]:
    name, guessed = PurePath(path).name, []
    if run.model is None and (found := _MODEL_IN_NAME.search(name)):
        run = replace(run, model=f"ResNet{found[1]}")
        guessed.append("model")
    if run.device is None and run.n_gpus is None and (found := _DEVICE_IN_NAME.search(name)):
        is_cpu = found[1].lower() == "cpu"
        run = replace(run, device="cpu" if is_cpu else "gpu", n_gpus=0 if is_cpu else 1)
        guessed.append("device")
    return run, tuple(guessed)


def ended_early(outcome: Outcome) -> bool:
    """Whether a run that is over ended before its plan was done."""
    return outcome not in ("completed", "unfinished")
