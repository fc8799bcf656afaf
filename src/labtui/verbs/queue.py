"""`labtui queue`: runs, jobs and the waiting line, with the age of what is shown."""

from __future__ import annotations

import argparse
import json
import time
from typing import TYPE_CHECKING, Any

from labtui.core.model import JobPhase, JobView, SubmissionStatus
from labtui.core.profile import Profile
from labtui.core.state import LabState, RunState
from labtui.errors import LabError
from labtui.verbs.by_hand import add_show_commands, show_lessons
from labtui.verbs.spent import spent
from labtui.verbs.terminal import Open, add_folder_argument, plain, say, say_error

if TYPE_CHECKING:
    from labtui.core.results.rows import ResultRow


READ_END_S = 30.0
"""How long the end of a finished job's log is waited for: it is quiet for a while before it counts as complete."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Folder and form of the answer."""
    add_folder_argument(parser)
    parser.add_argument(
        "--offline", action="store_true", help="show what is stored, without asking the cluster"
    )
    add_show_commands(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Ask the queue once if a job lives, then print."""
    from labtui.core.jobs import live, unread

    with Open(args, start=False) as lab:
        if args.show_commands:
            from labtui.engine.lessons import lessons_of_queue

            told = lessons_of_queue(lab.session, tuple(lab.state.submissions.values()))
            return show_lessons([("the queue", told)], as_json=args.json)
        if not args.offline and (live(lab.state) or unread(lab.state)):
            lab.session.start()
            _ask_once(lab)
        rows = [_row(lab.state, run, lab.session.profile) for run in lab.state.runs.values()]
        _add_warnings(rows, lab.state)
        bill = spent(lab.state, practice=lab.session.practice)
        if args.json:
            print(json.dumps({"refreshed_at": lab.state.refreshed_at, "runs": rows, "spent": bill}, indent=1))
        else:
            _print(rows, lab.state)
            _print_bill(bill)
    return 0


def _ask_once(lab: Open) -> None:
    from labtui.core.jobs import live

    try:
        lab.online()
        if not lab.session.read_only:
            if live(lab.state):
                lab.session.refresh()
                lab.wait(lambda state: state.refreshed_at is not None or bool(state.problems), limit_s=60)
            _read_ends(lab)
    except LabError as error:
        say_error(error)
        say("What follows is what was last known.")
    for problem in lab.state.problems:
        say(f"labtui: {problem.sentence}")


def _read_ends(lab: Open) -> None:
    """How the runs of jobs that are over ended stands in their logs."""
    from labtui.core.jobs import unread

    if tokens := {item.token for item in unread(lab.state)}:
        lab.session.watch_logs(tokens)
        lab.wait(lambda state: not unread(state), limit_s=READ_END_S)


def _row(state: LabState, run: RunState, profile: Profile) -> dict[str, Any]:
    from labtui.core.cost import training_gpu_hours
    from labtui.core.policy import waiting_reason

    submission = state.submissions[run.token]
    sentence = submission.sentence
    if submission.status is SubmissionStatus.WAITING:
        sentence = waiting_reason(state, profile, submission)
    return {
        "run": run.run_id,
        "task": run.task_id,
        "model": run.spec.model,
        "n_gpus": run.spec.n_gpus,
        "practice": run.practice,
        "batch_size": run.spec.batch_size,
        "epochs": {"read": len(run.epochs), "planned": run.spec.epochs},
        "phase": run.phase.value,
        "outcome": run.outcome,
        "smaller_batch_helps": run.gpu_memory_ran_out,
        "submission": {"token": run.token, "status": submission.status.value, "sentence": sentence},
        "gpu_hours_trained": training_gpu_hours(run.spec.n_gpus, run.epochs),
        "job": _job(submission.job) if submission.job else None,
    }


def _add_warnings(rows: list[dict[str, Any]], state: LabState) -> None:
    """Whether a time limit will come before the end of a run in progress, as far as its epochs can tell."""
    from labtui.core.forecast import limit_warning, running_run

    going = {
        run.run_id
        for item in state.submissions.values()
        if item.job is not None and (run := running_run(item, state.runs)) is not None
    }
    paces: dict[int, ResultRow] = {}
    if going:
        from labtui.core.results import compute_results, measured_from_state

        for result in compute_results(measured_from_state(state)).rows:
            paces |= {member.run_id: result for member in result.members if member.run_id in going}
    for row in rows:
        submission = state.submissions[state.runs[row["run"]].token]
        pace = paces.get(row["run"])
        row["limit_warning"] = (
            limit_warning(submission, state.runs, pace, time.time()) if row["run"] in going else ""
        )


def _job(job: JobView) -> dict[str, Any]:
    return {
        "job_id": job.job_id,
        "phase": job.phase.value,
        "slurm_state": job.slurm_state,
        "reason": job.reason,
        "start_estimate": job.start_estimate,
        "start_time": job.start_time,
        "end_time": job.end_time,
        "node": job.node,
        "exit_code": job.exit_code,
        "time_limit_s": job.time_limit_s,
        "elapsed_s": job.elapsed_s,
        "evidence": job.evidence,
        "seen_at": job.seen_at,
        "unknown_since": job.unknown_since,
    }


def _print(rows: list[dict[str, Any]], state: LabState) -> None:
    if not rows:
        say("Nothing was submitted yet: `labtui submit TASK`.")
        return
    for row in rows:
        job = row["job"] or {}
        epochs = f"{row['epochs']['read']}/{row['epochs']['planned']}"
        device = (f"{row['n_gpus']} GPU{'s' * (row['n_gpus'] > 1)}") if row["n_gpus"] else "CPU"
        why = _how_it_ended(row) or _reason(job) or row["submission"]["sentence"]
        line = (
            f"{row['run']:>3}  {row['task']:<6} {row['model']:<10} {device:<6} {row['phase']:<10} {epochs:>6}"
        )
        line += "  practice" if row["practice"] else ""
        print(plain(f"{line}  {job.get('job_id', '-'):<9} {why}").rstrip())
        if row["limit_warning"]:
            print(f"     {plain(row['limit_warning'])}")
    if state.refreshed_at is not None:
        say(f"read {max(0.0, time.time() - state.refreshed_at):.0f} s ago")


def _how_it_ended(row: dict[str, Any]) -> str:
    """A run's end goes before its job's: one job carries several runs."""
    if row["outcome"] == "oom" and not row["smaller_batch_helps"]:
        return "out of the node's main memory: ask for more CPUs, memory comes with them"
    if row["outcome"] == "oom":
        return f"out of memory: `labtui submit {row['task']} --halve {row['run']}` tries half the batch"
    if row["outcome"] == "time-limit":
        return "ended by its time limit"
    if row["outcome"] is None and row["job"] and row["job"]["phase"] == JobPhase.FINISHED.value:
        return f"the job is over ({row['job']['slurm_state']}); the end of its log is still to be read"
    return ""


def _print_bill(bill: dict[str, Any]) -> None:
    for task, cost in bill["tasks"].items():
        if cost["allocated"]:
            told = f"task {task}: {cost['allocated']:.2f} GPU-hours allocated, {cost['used']:.2f} of them trained"
            say(told + (" (practice: nobody pays)" if bill["practice"] else ""))


def _reason(job: dict[str, Any]) -> str:
    if not job.get("reason"):
        return ""
    from labtui.core.slurm.reasons import explain_reason

    return f"{job['reason']}: {explain_reason(job['reason'])}"
