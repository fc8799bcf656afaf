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
    SubmissionChanged,
)
from labtui.core.model import JobPhase, RunPhase, SubmissionStatus
from labtui.core.state import LabState, RunState, SubmissionState
from labtui.verbs.terminal import Open, add_folder_argument, plain, say

_QUIET = (LogGrew, Refreshed)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Folder and form."""
    add_folder_argument(parser)
    parser.add_argument("--json", action="store_true", help="one JSON line per event")


def run(args: argparse.Namespace) -> int:
    """Watch until nothing is open any more."""
    with Open(args, start=False) as lab:
        watched = [number for number, run in lab.state.runs.items() if run.outcome is None] or list(
            lab.state.runs
        )
        show = _as_json if args.json else _as_text
        if args.json:
            print(
                json.dumps({"type": "snapshot", "runs": [_row(run) for run in lab.state.runs.values()]}),
                flush=True,
            )
        if not all_over(lab.state):
            lab.session.start()
            if lab.session.read_only:
                say("Another labtui has this folder open and does the work; this one watches what it stores.")
            lab.session.watch_logs(set(lab.state.submissions))
            for event in lab.events(all_over):
                show(event, lab.state)
                lab.check_line(patient=True)
        ended = [lab.state.runs[number] for number in watched]
        if args.json:
            print(json.dumps({"type": "end", "runs": [_row(run) for run in ended]}), flush=True)
        return 0 if all(run.phase is RunPhase.DONE for run in ended) else 1


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
        "phase": run.phase.value,
        "outcome": run.outcome,
        "epochs": len(run.epochs),
    }


def _as_json(event: AnyEvent, state: LabState) -> None:
    from labtui.core.codec import encode_event

    if not isinstance(event, _QUIET):
        print(encode_event(event).decode(), flush=True)


def _as_text(event: AnyEvent, state: LabState) -> None:
    if isinstance(event, EpochSeen):
        run = state.runs[event.run_id]
        sample = event.sample
        metrics = "  ".join(f"{name} {value:.4g}" for name, value in sample.metrics.items())
        line = f"run {run.run_id}  {run.spec.label}  epoch {sample.epoch}/{run.spec.epochs}"
        _line(f"{line}  {sample.seconds.value:.2f} s  {metrics}")
    elif isinstance(event, RunEnded):
        run = state.runs[event.run_id]
        _line(f"run {run.run_id}  {run.spec.label}  {event.outcome}")
        for found in event.diagnosis:
            _line(f"    {found.kind}: {found.advice}")
    elif isinstance(event, JobObserved):
        _line(f"job {event.job.job_id}  {event.job.phase.value}  {event.job.slurm_state} {event.job.reason}")
    elif isinstance(event, SubmissionChanged):
        _line(f"submission {event.token[-6:]}  {event.status.value}  {event.job_id} {event.sentence}")
    elif isinstance(event, ConnectionChanged):
        say(f"{event.status} {event.sentence}".strip())
    elif isinstance(event, ErrorRaised):
        say(f"labtui: {event.sentence}")


def _line(text: str) -> None:
    print(plain(text).rstrip(), flush=True)
    sys.stdout.flush()
