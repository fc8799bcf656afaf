"""One job's .out and .err read together, and a log beside what labtui knows it submitted.

The .out has the runs, the .err often has the reason why one of them stopped. What may not enter: reading bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from labtui.core.logs.events import Failure, LogReport
from labtui.core.model import Diagnosis, ParsedRun, RunSpec


def join_streams(out: LogReport, err: LogReport | None) -> LogReport:
    """Outcome and diagnosis of both streams. Line numbers stay those of the stream a diagnosis names.

    Runs of the .err count only where the .out has none (a program that logs to stderr).
    """
    if err is None:
        return replace(out, diagnosis=_fitting(out.runs, out.diagnosis))
    runs = out.runs or err.runs
    diagnosis = out.diagnosis + tuple(replace(found, stream="err") for found in err.diagnosis)
    runs = _blame(runs, err.failures if out.runs else ())
    runs = _unmask(runs, diagnosis)
    return replace(
        out,
        runs=runs,
        diagnosis=_fitting(runs, diagnosis),
        failures=out.failures + err.failures,
        binary=out.binary or err.binary,
    )


def _blame(runs: tuple[ParsedRun, ...], failures: Sequence[Failure]) -> tuple[ParsedRun, ...]:
    """Give the .err's failures to the runs that did not end, in order; the job's own end is the last run's."""
    result = list(runs)
    job = max((found for found in failures if found.job_level), key=_gravity, default=None)
    if job is not None and result and result[-1].outcome in ("unfinished", "failed"):
        result[-1] = replace(result[-1], outcome=job.outcome)
    own = [found for found in failures if not found.job_level]
    waiting = [place for place, run in enumerate(result) if run.outcome in ("unfinished", "failed")]
    for order, place in enumerate(waiting):
        if order < len(own):
            if result[place].outcome == "unfinished" or own[order].outcome != "failed":
                result[place] = replace(result[place], outcome=own[order].outcome)
    return tuple(result)


def _gravity(failure: Failure) -> int:
    return ("failed", "oom", "cancelled", "time-limit").index(failure.outcome)


def _unmask(runs: tuple[ParsedRun, ...], diagnosis: Sequence[Diagnosis]) -> tuple[ParsedRun, ...]:
    """A run that asked for GPUs and had none is a CPU run; said only where one run can be meant."""
    warned = any(found.kind == "no-gpu" and "non-GPU devices in" in found.text for found in diagnosis)
    if warned and len(runs) == 1:
        return (replace(runs[0], device="cpu", n_gpus=0),)
    return runs


def _fitting(runs: Sequence[ParsedRun], diagnosis: tuple[Diagnosis, ...]) -> tuple[Diagnosis, ...]:
    """A run that was meant for the CPU finds no GPU: that is no surprise, unless it was meant for one."""
    meant_for_cpu = bool(runs) and all(run.device == "cpu" for run in runs)
    if not meant_for_cpu:
        return diagnosis
    return tuple(
        found
        for found in diagnosis
        if found.kind != "no-gpu" or "non-GPU devices in" in found.text or "python" in found.text
    )


def with_plan(report: LogReport, specs: Sequence[RunSpec]) -> LogReport:
    """Fill what the log does not tell from the runs that were submitted, in their order."""
    runs = list(report.runs)
    for place, (run, spec) in enumerate(zip(runs, specs, strict=False)):
        runs[place] = replace(
            run,
            model=run.model or spec.model,
            device=run.device or spec.device,
            n_gpus=spec.n_gpus if run.n_gpus is None else run.n_gpus,
            batch_size=run.batch_size or spec.batch_size,
            epochs_planned=run.epochs_planned or spec.epochs,
            learning_rate=run.learning_rate if run.learning_rate is not None else spec.learning_rate,
        )
    return replace(report, runs=tuple(runs))
