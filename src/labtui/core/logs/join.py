"""One job's .out and .err read together, and a log beside what labtui knows it submitted.

The .out has the runs, the .err often has the reason why one of them stopped. What may not
enter: reading bytes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from labtui.core.logs.events import GRAVITY, Failure, LogReport
from labtui.core.logs.rules import WEAK_NO_GPU
from labtui.core.model import Diagnosis, ParsedRun, RunSpec

_ENDED_BY_SIGNAL = re.compile(r"terminated from outside|DUE to SIGNAL")


def join_streams(out: LogReport, err: LogReport | None) -> LogReport:
    """Outcome and diagnosis of both streams. Line numbers stay those of the stream a diagnosis names.

    Runs of the .err count only where the .out has none (a program that logs to stderr).
    """
    if err is None:
        return replace(out, diagnosis=_fitting(out.runs, out.diagnosis))
    runs = out.runs or err.runs
    diagnosis = out.diagnosis + tuple(replace(found, stream="err") for found in err.diagnosis)
    runs = _blame(runs, err.failures if out.runs else ())
    runs = _unmask(runs, out.cpu_warnings + err.cpu_warnings)
    return replace(
        out,
        runs=runs,
        diagnosis=_fitting(runs, diagnosis),
        failures=out.failures + err.failures,
        binary=out.binary or err.binary,
    )


def _blame(runs: tuple[ParsedRun, ...], failures: Sequence[Failure]) -> tuple[ParsedRun, ...]:
    """Give the .err's failures to the runs that did not end, in order; the job's end is the last run's."""
    result = list(runs)
    waiting = [place for place, run in enumerate(result) if run.outcome in ("unfinished", "failed")]
    own = [found for found in failures if not found.job_level]
    for place, failure in zip(waiting, own, strict=False):
        result[place] = _graver(result[place], failure)
    for failure in failures:
        if failure.job_level and result and result[-1].outcome != "completed":
            result[-1] = _graver(result[-1], failure)
    return tuple(result)


def _graver(run: ParsedRun, failure: Failure) -> ParsedRun:
    if run.outcome == "unfinished" or GRAVITY[failure.outcome] > GRAVITY[run.outcome]:
        return replace(run, outcome=failure.outcome)
    return run


def _unmask(runs: tuple[ParsedRun, ...], warnings: int) -> tuple[ParsedRun, ...]:
    """A run that asked for GPUs and had none is a CPU run; said only when all of the job's runs warned."""
    if not runs or warnings < len(runs):
        return runs
    return tuple(run if run.practice else replace(run, device="cpu", n_gpus=0) for run in runs)


def _fitting(runs: Sequence[ParsedRun], diagnosis: tuple[Diagnosis, ...]) -> tuple[Diagnosis, ...]:
    """What is no news is left out: runs meant for the CPU find no GPU; a job out of time was terminated."""
    if any(found.kind == "time-limit" for found in diagnosis):
        diagnosis = tuple(found for found in diagnosis if not _ENDED_BY_SIGNAL.search(found.text))
    if _gpu_was_missed(runs, diagnosis):
        return diagnosis
    return tuple(found for found in diagnosis if not _is_hint(found))


def _gpu_was_missed(runs: Sequence[ParsedRun], diagnosis: Sequence[Diagnosis]) -> bool:
    """Whether hints that there is no GPU are news: a GPU was wanted, and nothing says more than they do."""
    if any(found.kind == "no-gpu" and not _is_hint(found) for found in diagnosis):
        return False
    if not runs:
        return all(_is_hint(found) for found in diagnosis)
    return any(run.device != "cpu" and not run.practice for run in runs)


def _is_hint(found: Diagnosis) -> bool:
    return found.kind == "no-gpu" and WEAK_NO_GPU.search(found.text) is not None


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
