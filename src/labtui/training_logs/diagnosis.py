"""Both streams of a job: the .out has the runs, the .err often has the reason why one of them stopped."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from labtui.domain.model import Diagnosis
from labtui.training_logs.errors import is_hint
from labtui.training_logs.runs import (
    Failure,
    GpuCount,
    LogReport,
    ParsedRun,
    contradiction,
    is_worse,
    most_reliable,
)

_ENDED_BY_SIGNAL = re.compile(r"terminated from outside|DUE to SIGNAL")


def join_streams(out: LogReport, err: LogReport | None) -> LogReport:
    """Outcome and diagnosis of both streams. Line numbers stay those of the stream a diagnosis names.

    Runs of the .err count only where the .out has none (a program that logs to stderr). TensorFlow tells the devices
    it uses in the .err: they count for the runs of the .out.
    """
    if err is None:
        return replace(out, diagnosis=_fitting(out.runs, out.diagnosis))
    warned = out.cpu_warnings + err.cpu_warnings
    if err.gpu_kind is not None and out.gpu_kind is None:
        named = tuple(replace(run, gpu_kind=run.gpu_kind or err.gpu_kind) for run in out.runs)
        out = replace(out, runs=named, gpu_kind=err.gpu_kind)
    if out.runs and warned < len(out.runs):  # else they trained on the CPU
        out = _with_gpu_lines(out, _strategies(len(out.runs), err.strategies))
    runs = out.runs or err.runs
    diagnosis = out.diagnosis + tuple(replace(found, stream="err") for found in err.diagnosis)
    runs = _blame(runs, err.failures if out.runs else ())
    runs = _finished(runs, err.groups_done if out.runs and not err.failures else 0)
    runs = _without_gpus(runs, warned)
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
        result[place] = _more_severe(result[place], failure)
    for failure in failures:
        if failure.job_level and result and result[-1].outcome != "completed":
            result[-1] = _more_severe(result[-1], failure)
    return tuple(result)


def _finished(runs: tuple[ParsedRun, ...], done: int) -> tuple[ParsedRun, ...]:
    """A launcher says in the .err that a training ended well; which one is known when all of them did."""
    if not runs or done < len(runs):
        return runs
    return tuple(replace(run, outcome="completed") if run.outcome == "unfinished" else run for run in runs)


def _strategies(count: int, reported: Sequence[GpuCount]) -> tuple[GpuCount | None, ...]:
    """The line of the .err that tells TensorFlow's devices, for each of `count` runs.

    Known where there is one line for each run, or where more lines than that (each process prints its own) all
    say the same. Else it is open which run a line belongs to, and none is taken.
    """
    lines = [replace(line, stream="err") for line in reported]
    if len(lines) == count:
        return tuple(lines)
    if len(lines) > count and len({(line.source, line.count, line.device) for line in lines}) == 1:
        return (lines[0],) * count
    return (None,) * count


def _with_gpu_lines(report: LogReport, strategies: Sequence[GpuCount | None]) -> LogReport:
    """The report with each run's surest number of GPUs, where a line of the .err tells one, and what contradicts it."""
    runs, found = list(report.runs), list(report.diagnosis)
    for place, line in enumerate(strategies):
        run = runs[place]
        if line is None or run.stand_in or run.device == "cpu":
            continue  # CPU devices that stand in for GPUs, and a CPU, which is one replica, too
        run = runs[place] = replace(run, gpu_lines=(*run.gpu_lines, line))
        best, other = most_reliable(run.gpu_lines)
        if best is line and line.device == "gpu":
            runs[place] = replace(run, n_gpus=line.count, device="gpu")
        if other is not None and not run.contradictions:
            text, advice = contradiction(other, best)
            runs[place] = replace(runs[place], contradictions=(text,))
            found.append(
                Diagnosis(kind="contradiction", line=best.line, text=text, advice=advice, stream=best.stream)
            )
    return replace(report, runs=tuple(runs), diagnosis=tuple(found))


def _more_severe(run: ParsedRun, failure: Failure) -> ParsedRun:
    if run.outcome == "unfinished" or is_worse(failure.outcome, run.outcome):
        return replace(run, outcome=failure.outcome)
    return run


def _without_gpus(runs: tuple[ParsedRun, ...], warnings: int) -> tuple[ParsedRun, ...]:
    """A run that asked for GPUs and had none is a CPU run; claimed only when all of the job's runs warned."""
    if not runs or warnings < len(runs):
        return runs
    return tuple(
        run if run.stand_in else replace(run, device="cpu", n_gpus=0, contradictions=()) for run in runs
    )


def _fitting(runs: Sequence[ParsedRun], diagnosis: tuple[Diagnosis, ...]) -> tuple[Diagnosis, ...]:
    """What is no news is left out: runs meant for the CPU find no GPU; a job out of time was terminated."""
    if any(found.kind == "time-limit" for found in diagnosis):
        diagnosis = tuple(found for found in diagnosis if not _ENDED_BY_SIGNAL.search(found.text))
    if _gpu_was_missed(runs, diagnosis):
        return diagnosis
    return tuple(found for found in diagnosis if not is_hint(found))


def _gpu_was_missed(runs: Sequence[ParsedRun], diagnosis: Sequence[Diagnosis]) -> bool:
    """Whether hints that there is no GPU are news: a GPU was wanted, and nothing says more than they do."""
    if any(found.kind == "no-gpu" and not is_hint(found) for found in diagnosis):
        return False
    if not runs:
        return all(is_hint(found) for found in diagnosis)
    return any(run.device != "cpu" and not run.stand_in for run in runs)
