"""How things stand: `labtui queue` for the jobs and the submission queue, `labtui check` for the tasks."""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from labtui.commands.terminal import (
    Open,
    add_folder_argument,
    plain,
    print_wrapped,
    say,
    say_error,
)
from labtui.domain.errors import LabError
from labtui.domain.model import JobPhase, JobView, SubmissionStatus
from labtui.domain.profile import Profile
from labtui.domain.state import LabState, RunState

if TYPE_CHECKING:
    from labtui.lab.checks import Progress, TaskCheck
    from labtui.lab.edition import Edition
    from labtui.results.rows import ResultRow
    from labtui.slurm.site_probe import SiteLoad


def spent(state: LabState, *, practice: bool) -> dict[str, Any]:
    """GPU-hours allocated and used, core-hours and jobs: ``{"practice", "total", "tasks": {id: ...}, "jobs": [...]}``.

    In a practice folder those of the rehearsal, which nobody pays for, and which says so.
    """
    from labtui.results.cost import lab_cost

    cost = lab_cost(state, practice=practice)
    return {
        "practice": practice,
        "total": asdict(cost.total),
        "tasks": {task: asdict(total) for task, total in cost.tasks.items()},
        "jobs": [asdict(job) for job in cost.jobs],
    }


LOAD_LIMIT_S = 60.0
READ_END_S = 30.0
"""How long the end of a finished job's log is waited for: it is quiet for a while before it counts as complete."""


def queue_arguments(parser: argparse.ArgumentParser) -> None:
    """Folder and form of the answer."""
    add_folder_argument(parser)
    parser.add_argument(
        "--offline", action="store_true", help="show what is stored, without asking the cluster"
    )
    parser.add_argument(
        "--all",
        action="store_true",
        help="all your jobs in the queue, including those labtui did not submit; free GPUs and your fair share",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run_queue(args: argparse.Namespace) -> int:
    """Ask the queue once if a job lives, then print."""
    from labtui.slurm.job_evidence import live, unread

    with Open(args, start=False, looks=args.offline) as lab:
        if not args.offline:
            lab.tell_not_writable()
        if not args.offline and (args.all or live(lab.state) or unread(lab.state)):
            lab.session.start()
            _ask_once(lab, all_jobs=args.all)
        if args.all:
            load = None if args.offline else _site_load(lab)
            return _all_jobs(lab, load, as_json=args.json)
        rows = [_row(lab.state, run, lab.session.profile) for run in lab.state.runs.values()]
        _add_warnings(rows, lab.state)
        bill = spent(lab.state, practice=lab.session.practice)
        if args.json:
            print(json.dumps({"refreshed_at": lab.state.refreshed_at, "runs": rows, "spent": bill}, indent=1))
        else:
            _print_queue(rows, lab.state)
            _print_bill(bill)
    return 0


def _site_load(lab: Open) -> SiteLoad | None:
    """What is free now; None, and a sentence, where nobody can be asked."""
    try:
        return lab.session.site_load().result(LOAD_LIMIT_S)
    except LabError as error:
        say_error(error)
    except TimeoutError:
        say("The query for free nodes got no answer.")
    return None


def _all_jobs(lab: Open, load: SiteLoad | None, *, as_json: bool) -> int:
    """Every living job, and which one holds the only slot of its queue; what is free now, and the fair share."""
    jobs = lab.session.my_jobs()
    if as_json:
        rows = [{**asdict(job), "phase": job.phase.value} for job in jobs]
        free = asdict(load) if load is not None else None
        answer = {
            "refreshed_at": lab.state.refreshed_at,
            "jobs": rows,
            "more": lab.state.more_jobs,
            "load": free,
        }
        print(json.dumps(answer, indent=1))
        return 0
    if not jobs:
        say("No job of yours is in the queue." if lab.state.refreshed_at else "The queue was not read.")
    for job in jobs:
        runs = f"run {', '.join(map(str, job.run_ids))}" if job.run_ids else "not labtui's"
        lasted = f"for {job.lasted_s / 60:.0f} min" if job.lasted_s is not None else ""
        slot = "holds the slot" if job.holds_slot else ""
        reason = _reason({"reason": job.reason}) if job.phase is JobPhase.QUEUED else ""
        words = [job.job_id, job.name, job.phase.value, lasted, job.queue, job.node, runs, slot, reason]
        print(plain("  ".join(word for word in words if word)))
    if lab.state.more_jobs:
        say(f"{lab.state.more_jobs:,} older jobs of yours are not listed.")
    if load is not None:
        say(plain(load.sentence))
    return 0


def _ask_once(lab: Open, *, all_jobs: bool = False) -> None:
    from labtui.slurm.job_evidence import live

    try:
        lab.online()
        if not lab.session.read_only:
            if all_jobs or live(lab.state):
                lab.session.refresh()
                lab.wait(lambda state: state.refreshed_at is not None or bool(state.problems), limit_s=60)
            _read_ends(lab)
    except LabError as error:
        say_error(error)
        say("The last known state follows.")
    for problem in lab.state.problems:
        say(f"labtui: {problem.sentence}")


def _read_ends(lab: Open) -> None:
    """How the runs of jobs that are over ended stands in their logs."""
    from labtui.slurm.job_evidence import unread

    if tokens := {item.token for item in unread(lab.state)}:
        lab.session.watch_logs(tokens)
        lab.wait(lambda state: not unread(state), limit_s=READ_END_S)


def _row(state: LabState, run: RunState, profile: Profile) -> dict[str, Any]:
    from labtui.domain.submission_queue import waiting_reason
    from labtui.results.cost import training_gpu_hours

    submission = state.submissions[run.token]
    sentence = submission.sentence
    if submission.status is SubmissionStatus.WAITING:
        sentence = waiting_reason(state, profile, submission)
    return {
        "run": run.run_id,
        "task": run.task_id,
        "model": run.spec.model,
        "n_gpus": run.spec.n_gpus,
        "practice": run.practice and not state.is_small(run),
        "small": state.is_small(run),
        "batch_size": run.spec.batch_size,
        "epochs": {"read": len(run.epochs), "planned": run.spec.epochs},
        "phase": run.phase.value,
        "outcome": run.outcome,
        "smaller_batch_helps": run.gpu_memory_ran_out,
        "submission": {
            "token": run.token,
            "status": submission.status.value,
            "sentence": sentence,
            "job_file": submission.job_file,
            "held": submission.held,
            "accepted": [asdict(found) for found in submission.accepted],
        },
        "gpu_hours_trained": training_gpu_hours(run.spec.n_gpus, run.epochs),
        "job": _job(submission.job) if submission.job else None,
    }


def _add_warnings(rows: list[dict[str, Any]], state: LabState) -> None:
    """Whether a time limit will come before the end of a run in progress, as far as its epochs can tell."""
    from labtui.results.pace import limit_warning, running_run

    going = {
        run.run_id
        for item in state.submissions.values()
        if item.job is not None and (run := running_run(item, state.runs)) is not None
    }
    paces: dict[int, ResultRow] = {}
    if going:
        from labtui.results.compute import compute_results
        from labtui.results.measured import measured_from_state

        for result in compute_results(measured_from_state(state)).rows:
            paces |= {member.run_id: result for member in result.members if member.run_id in going}
    for row in rows:
        submission = state.submissions[state.runs[row["run"]].token]
        pace = paces.get(row["run"])
        row["limit_warning"] = (
            limit_warning(submission, state.runs, pace, state.cluster_time) if row["run"] in going else ""
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


def _print_queue(rows: list[dict[str, Any]], state: LabState) -> None:
    if not rows:
        say("Nothing has been submitted yet: `labtui submit TASK`.")
        return
    aside = " " * len("  practice") if rows[0]["practice"] or rows[0]["small"] else ""
    print(f"run  {'task':<6} {'model':<10} {'device':<6} {'state':<10} epochs{aside}  job")
    for row in rows:
        job = row["job"] or {}
        epochs = f"{row['epochs']['read']}/{row['epochs']['planned']}"
        device = (f"{row['n_gpus']} GPU{'s' * (row['n_gpus'] > 1)}") if row["n_gpus"] else "CPU"
        why = _how_it_ended(row) or _reason(job) or row["submission"]["sentence"]
        line = (
            f"{row['run']:>3}  {row['task']:<6} {row['model']:<10} {device:<6} {row['phase']:<10} {epochs:>6}"
        )
        line += "  small run" if row["small"] else "  practice" if row["practice"] else ""
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
        return f"the job is over ({row['job']['slurm_state']}); its log is being read to the end"
    return ""


def _print_bill(bill: dict[str, Any]) -> None:
    for task, cost in bill["tasks"].items():
        if cost["allocated"]:
            sentence = f"task {task}: {cost['allocated']:.2f} GPU-hours allocated, {cost['used']:.2f} of them trained"
            say(sentence + (" (practice)" if bill["practice"] else ""))


def _reason(job: dict[str, Any]) -> str:
    if not job.get("reason"):
        return ""
    from labtui.slurm.states import explain_reason

    return f"{job['reason']}: {explain_reason(job['reason'])}"


def check_arguments(parser: argparse.ArgumentParser) -> None:
    """Which tasks, and the form of the answer."""
    parser.add_argument("task", nargs="*", metavar="TASK", help="a task's number (default: all of them)")
    add_folder_argument(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run_check(args: argparse.Namespace) -> int:
    """Look at the evidence in the folder; asks no cluster."""
    from labtui.lab.checks import check_all, progress
    from labtui.lab.plan import task_of
    from labtui.session.labs import gather_evidence

    with Open(args, start=False, looks=True) as lab:
        edition = lab.session.edition
        task_ids = [task_of(edition, name).id for name in args.task] or [task.id for task in edition.tasks]
        checks = check_all(edition, gather_evidence(lab.session.folder, edition, lab.state))
        bill = spent(lab.state, practice=lab.session.practice)
    far = progress(edition, checks)
    wanted = [check for check in checks if check.task_id in task_ids]
    if args.json:
        rows = [asdict(check) | {"title": task_of(edition, check.task_id).title} for check in wanted]
        answer = {"lab": edition.id, "tasks": rows, "progress": asdict(far), "spent": bill}
        print(json.dumps(answer, indent=1, ensure_ascii=False))
    else:
        for check in wanted:
            _print_task(edition, check, full=bool(args.task))
        if not args.task:
            _print_progress(far)
    return 0 if all(check.done for check in wanted) else 1


def _print_task(edition: Edition, check: TaskCheck, *, full: bool) -> None:
    from labtui.lab.plan import task_of
    from labtui.tui.format import TASK_GLYPHS, TASK_WORDS

    word = TASK_WORDS[check.status] + (" (practice)" if check.practice and check.status == "done" else "")
    title = task_of(edition, check.task_id).title
    print_wrapped(plain(f"{TASK_GLYPHS[check.status]} {check.task_id:<6} {word:<16} {title}"))
    if check.missing:
        print_wrapped(plain(f"         {check.missing}"))
    for item in check.items if full else ():
        mark = "stale" if item.met and item.stale else "yes" if item.met else "no"
        shown = f"  [{item.evidence}]" if item.evidence else ""
        print_wrapped(plain(f"         {mark:<5} {item.sentence}{shown}"))
    for note in check.notes:
        print_wrapped(plain(f"         note: {note}"))


def _print_progress(far: Progress) -> None:
    where = f", now {far.current}" if far.current else ""
    after = f", then {far.next}" if far.next else ""
    print(f"{far.percent:.0f} % ({far.done} of {far.total} tasks done{where}{after})")
