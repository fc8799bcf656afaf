"""`labtui watch`: follow the runs until they end, and keep the waiting line moving meanwhile.

With `--json` each line is one event in the form the lab folder stores it, between a `snapshot` line and an `end`
line. Exit 1 when a run that was watched did not come to its end.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from labtui.core.events import (
    AnyEvent,
    ConnectionChanged,
    EpochSeen,
    ErrorRaised,
    JobObserved,
    LogGrew,
    Refreshed,
    RunEnded,
    SamplesReset,
    SubmissionChanged,
)
from labtui.core.model import JobPhase, RunPhase, SubmissionStatus
from labtui.core.slurm.reasons import explain_reason
from labtui.core.state import LabState, RunState, SubmissionState
from labtui.verbs.by_hand import add_show_commands, show_lessons
from labtui.verbs.terminal import Open, add_folder_argument, plain, say

_QUIET = (LogGrew, Refreshed)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Folder and form."""
    add_folder_argument(parser)
    add_show_commands(parser)
    parser.add_argument("--json", action="store_true", help="one JSON line per event")


def run(args: argparse.Namespace) -> int:
    """Watch until nothing is open any more."""
    with Open(args, start=False) as lab:
        if args.show_commands:
            from labtui.engine.lessons import lessons_of_watch

            told = lessons_of_watch(lab.session, tuple(lab.state.submissions.values()))
            return show_lessons(told, as_json=args.json)
        watched = [number for number, run in lab.state.runs.items() if run.outcome is None] or list(
            lab.state.runs
        )
        show = _as_json if args.json else _Teller()
        if args.json:
            print(
                json.dumps({"type": "snapshot", "runs": [_row(run) for run in lab.state.runs.values()]}),
                flush=True,
            )
        if all_over(lab.state):
            say(nothing_to_watch(lab.state))
        else:
            lab.session.start()
            if lab.session.read_only:
                say("Another labtui has this folder open and does the work; this one watches what it stores.")
            lab.session.watch_logs(set(lab.state.submissions))
            for event in lab.events(all_over):
                show(event, lab.state)
                lab.check_line(patient=True)
        ended = [lab.state.runs[number] for number in watched]
        _say_what_fits(lab, ended)
        if args.json:
            print(json.dumps({"type": "end", "runs": [_row(run) for run in ended]}), flush=True)
        return 0 if all(run.phase is RunPhase.DONE for run in ended) else 1


def nothing_to_watch(state: LabState) -> str:
    """Why there is nothing to follow."""
    if not state.runs:
        return "Nothing to watch: no run was submitted yet (labtui submit TASK)."
    runs = f"{len(state.runs)} runs are" if len(state.runs) != 1 else "one run is"
    return f"Nothing to watch: {runs} over (labtui queue lists them, labtui results has the numbers)."


def _say_what_fits(lab: Open, ended: list[RunState]) -> None:
    """After an out-of-memory: what the runs tell about the batch, and the two ways on."""
    from labtui.engine.batches import known_boundary

    for run in {run.spec.model: run for run in ended if run.gpu_memory_ran_out}.values():
        say(f"{run.spec.model}: {known_boundary(lab.session, run.spec.model).sentence}")
        say(
            f"  half the batch on all sizes: labtui submit {run.task_id} --halve {run.run_id}; "
            f"the largest that fits: labtui submit {run.task_id} --search-batch"
        )


def all_over(state: LabState) -> bool:
    """Whether nothing waits, runs, settles or is still being read."""
    return all(_over(state, submission) for submission in state.submissions.values())


def _over(state: LabState, submission: SubmissionState) -> bool:
    if submission.status in (SubmissionStatus.REFUSED, SubmissionStatus.WITHDRAWN):
        return True
    if submission.job is None or submission.job.phase is not JobPhase.FINISHED:
        return False
    if any(state.runs[number].outcome is None for number in submission.run_ids):
        return False
    return all(
        stream in submission.logs and submission.logs[stream].complete for stream in submission.remote_logs
    )


def _row(run: RunState) -> dict[str, Any]:
    return {
        "run": run.run_id,
        "task": run.task_id,
        "model": run.spec.model,
        "n_gpus": run.spec.n_gpus,
        "practice": run.practice,
        "phase": run.phase.value,
        "outcome": run.outcome,
        "epochs": len(run.epochs),
    }


def _name(run: RunState) -> str:
    return f"{run.spec.label} (practice)" if run.practice else run.spec.label


def _as_json(event: AnyEvent, state: LabState) -> None:
    from labtui.core.codec import encode_event

    if not isinstance(event, _QUIET):
        print(encode_event(event).decode(), flush=True)


class _Teller:
    """Events as lines; each thing once, though a log that is read again (its other stream grew) tells it again."""

    def __init__(self) -> None:
        self._said: dict[str, set[str]] = {}

    def __call__(self, event: AnyEvent, state: LabState) -> None:
        if isinstance(event, EpochSeen):
            self._epoch(event, state.runs[event.run_id])
        elif isinstance(event, RunEnded):
            run = state.runs[event.run_id]
            self._once(f"run {run.run_id}", f"run {run.run_id}  {_name(run)}  {event.outcome}")
            for found in event.diagnosis:
                self._once(f"run {run.run_id}", f"    {found.kind}: {found.advice}")
        elif isinstance(event, SamplesReset):
            for number in event.run_ids:
                self._said.pop(f"run {number}", None)  # it begins anew and says everything again
                _line(f"run {number}  its log began anew: {event.reason}")
        elif isinstance(event, JobObserved):
            self._job(event)
        elif isinstance(event, SubmissionChanged):
            _line(f"submission {event.token[-6:]}  {event.status.value}  {event.job_id} {event.sentence}")
        elif isinstance(event, ConnectionChanged):
            say(f"{event.status} {event.sentence}".strip())
        elif isinstance(event, ErrorRaised):
            say(f"labtui: {event.sentence}")

    def _once(self, about: str, text: str) -> None:
        said = self._said.setdefault(about, set())
        if text not in said:
            said.add(text)
            _line(text)

    def _epoch(self, event: EpochSeen, run: RunState) -> None:
        sample = event.sample
        metrics = "  ".join(f"{name} {value:.4g}" for name, value in sample.metrics.items())
        line = f"run {run.run_id}  {_name(run)}  epoch {sample.epoch}/{run.spec.epochs}"
        self._once(f"run {run.run_id}", f"{line}  {sample.seconds.value:.2f} s  {metrics}")

    def _job(self, event: JobObserved) -> None:
        job = event.job
        why = explain_reason(job.reason) if job.phase is JobPhase.QUEUED and job.reason else job.reason
        line = f"job {job.job_id}  {job.phase.value}  {job.slurm_state} {why}"
        if self._said.get(f"job {job.job_id}") != {line}:
            self._said[f"job {job.job_id}"] = {line}
            _line(line)


def _line(text: str) -> None:
    print(plain(text).rstrip(), flush=True)
    sys.stdout.flush()
