"""How things stand: `labtui queue` for jobs, `labtui gpus` for the GPUs of one, `labtui check` for the tasks."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Any

import msgspec

from labtui.commands.terminal import (
    Open,
    add_folder_argument,
    add_json_argument,
    plain,
    print_json,
    print_line,
    print_wrapped,
    run_row,
    say,
    say_error,
)
from labtui.domain.errors import LabError
from labtui.domain.model import JobPhase
from labtui.domain.state import LabState
from labtui.slurm.job_evidence import live, unread
from labtui.slurm.states import reason_words

if TYPE_CHECKING:
    from labtui.domain.profile import Profile
    from labtui.lab.checks import TaskCheck
    from labtui.tui.view import RunLine, TaskLine, View


def spent(state: LabState, *, practice: bool) -> dict[str, Any]:
    """GPU-hours allocated and used, core-hours and jobs: ``{"practice", "total", "tasks": {id: ...}, "jobs": [...]}``.

    In a practice folder those of the rehearsal, which nobody pays for, and which says so.
    """
    from labtui.results.cost import lab_cost

    cost = lab_cost(state, practice=practice)
    bill = {"practice": practice, "total": cost.total, "tasks": cost.tasks, "jobs": cost.jobs}
    return dict(msgspec.to_builtins(bill))


READ_END_S = 30.0
"""How long the end of a finished job's log is waited for: it is quiet for a while before it counts as complete."""


def queue_arguments(parser: argparse.ArgumentParser) -> None:
    """Folder and form of the answer."""
    add_folder_argument(parser)
    parser.add_argument("--offline", action="store_true", help="show what is stored; ask no cluster")
    parser.add_argument("--all", action="store_true", help="all your jobs, also those of other programs")
    add_json_argument(parser)


def run_queue(args: argparse.Namespace) -> int:
    """Ask the queue once if a job lives, then print."""
    from labtui.tui.view import View

    asked_at = 0.0 if args.offline else time.time()  # what was seen before is not taken for now
    with Open(args, start=False, looks=args.offline) as lab:
        if not args.offline:
            lab.tell_not_writable()
        if not args.offline and (args.all or live(lab.state) or unread(lab.state)):
            lab.session.start()
            _ask_once(lab, all_jobs=args.all)
        if args.all:
            return _all_jobs(lab, as_json=args.json)
        results, edition = lab.session.results(), lab.session.edition
        view = View(state=lab.state, edition=edition, results=results, opened_at=asked_at)
        rows = [_row(view, line, lab.session.profile) for line in view.every.values()]
        bill = spent(lab.state, practice=lab.session.practice)
        if args.json:
            print_json({"refreshed_at": lab.state.refreshed_at, "runs": rows, "spent": bill})
        else:
            _print_queue(rows, view)
            _print_bill(bill)
    return 0


def _all_jobs(lab: Open, *, as_json: bool) -> int:
    """Every living job, and which one holds the only slot of its queue."""
    from labtui.results.numbers import grid_text

    jobs, state = lab.session.my_jobs(), lab.state
    if as_json:
        print_json({"refreshed_at": state.refreshed_at, "jobs": jobs})
        return 0
    if not jobs:
        say("No job of yours is in the queue." if state.refreshed_at else "The queue was not read.")
    grid = [["job", "name", "state", "for", "queue", "node", "run", ""]] if jobs else []
    for job in jobs:
        runs = ", ".join(map(str, job.run_ids)) or "not labtui's"
        lasted = f"{job.lasted_s / 60:.0f} min" if job.lasted_s is not None else ""
        slot = "holds the queue's slot" if job.holds_slot else ""
        reason = reason_words(job.phase, job.reason) if job.phase is JobPhase.QUEUED else ""
        why = " ".join(filter(None, (slot, reason)))
        grid.append([job.job_id, job.name, job.phase.value, lasted, job.queue, job.node, runs, why])
    for line in grid_text(grid, [False] * 8).splitlines():
        print_line(line)
    return 0


def _ask_once(lab: Open, *, all_jobs: bool) -> None:
    """Read the queue, and in the logs of jobs that are over how their runs ended."""
    try:
        lab.online()
        if not lab.session.read_only:
            if all_jobs or live(lab.state):
                lab.refresh()
            if tokens := {item.token for item in unread(lab.state)}:
                lab.session.watch_logs(tokens)
                lab.wait(lambda state: not unread(state), limit_s=READ_END_S)
    except LabError as error:
        say_error(error)
        say("The last known state follows.")
    for problem in lab.state.problems:
        say(f"labtui: {problem.sentence}")


def _row(view: View, line: RunLine, profile: Profile) -> dict[str, Any]:
    from labtui.domain.state import waiting_reason
    from labtui.results.cost import limit_warning, training_gpu_hours

    state, run = view.state, line.run
    submission = state.submissions[run.token]
    row = run_row(state, run) | {
        "batch_size": run.spec.batch_size,
        "epochs": {"read": len(run.epochs), "planned": run.spec.epochs},
        "smaller_batch_helps": run.gpu_memory_ran_out,
        "cause": run.cause,
        "diagnosis": run.diagnosis,
        "submission": {
            "token": run.token,
            "status": submission.status.value,
            "sentence": waiting_reason(profile, submission),
            "job_file": submission.job_file,
            "held": submission.held,
            "accepted": submission.accepted,
        },
        "gpu_hours_trained": training_gpu_hours(run.spec.n_gpus, run),
        "job": submission.job,
        "limit_warning": limit_warning(submission.job, run, line.row, state.cluster_time),
    }
    return dict(msgspec.to_builtins(row))


def _print_queue(rows: list[dict[str, Any]], view: View) -> None:
    if not rows:
        say("Nothing has been submitted yet: `labtui submit TASK`.")
        return
    names = view.edition.names if view.edition is not None else {}
    wide = max(len(line.word) for line in view.every.values())
    aside = " " * len("  practice") if rows[0]["practice"] or rows[0]["small"] else ""
    print(f"run  {'task':<6} {'model':<10} {'device':<7} {'state':<{wide}} epochs{aside}  job")
    for row in rows:
        job, line = row["job"] or {}, view.every[row["run"]]
        done = row["outcome"] == "completed"  # what became of its job is another run's story
        counted = row["epochs"]["read"] or not done
        epochs = f"{row['epochs']['read']}/{row['epochs']['planned'] or '?'}" if counted else "-"
        model = names.get(row["model"], row["model"]) or job.get("name", "")
        reason = "" if done or line.cause else reason_words(job.get("phase"), job.get("reason", ""))
        why = _remedy(view, line) or reason or row["submission"]["sentence"]
        mark = "  small run" if row["small"] else "  practice" if row["practice"] else ""
        print_line(
            f"{row['run']:>3}  {row['task'] or 'own':<6} {model:<10} {line.run.spec.devices:<7} {line.word:<{wide}} "
            f"{epochs:>6}{mark}  {job.get('job_id', '-'):<9} {why}"
        )
        if row["limit_warning"]:
            print_line(f"     {row['limit_warning']}")
    if view.state.refreshed_at and not all(item.over for item in view.state.submissions.values()):
        say(f"read {max(0.0, time.time() - view.state.refreshed_at):.0f} s ago")


def _remedy(view: View, line: RunLine) -> str:
    """What explains the end of a run, or helps after it."""
    from labtui.tui.guidance import made_good

    run = line.run
    if run.gpu_memory_ran_out:
        return "" if made_good(view, line) else f"`labtui retry {run.run_id}` plans a smaller batch"
    if run.outcome == "oom":
        return "the node's main memory: ask for more CPUs, memory comes with them"
    return run.diagnosis[0].text if run.outcome == "failed" and run.diagnosis else ""


def _print_bill(bill: dict[str, Any]) -> None:
    for task, cost in bill["tasks"].items():
        if cost["allocated"]:
            hours = (
                f"{cost['allocated']:.2f} GPU-hours allocated, {cost['used']:.2f} of them spent on training"
            )
            say(
                f"{f'task {task}' if task else 'own jobs'}: {hours}{' (practice)' if bill['practice'] else ''}"
            )


_GPU_COLUMNS = {
    "use": "utilization.gpu",
    "memory": "memory.used",
    "of": "memory.total",
    "power": "power.draw",
    "clock": "clocks.current.sm",
}


def gpus_arguments(parser: argparse.ArgumentParser) -> None:
    """The job, also one that labtui did not submit."""
    parser.add_argument("job", metavar="JOB", help="the id of a running job of yours")
    add_folder_argument(parser)
    add_json_argument(parser)


def run_gpus(args: argparse.Namespace) -> int:
    """Ask each node of the job once; what a driver does not tell is absent, with its reason."""
    from labtui.results.numbers import grid_text
    from labtui.training_logs.gpu_sampler import number, read_rows, slowed_by

    with Open(args) as lab:
        lab.online()
        lab.refresh()
        rows = list(read_rows(lab.session.gpus(args.job).result(timeout=120).encode()))
    found: list[dict[str, str | None]] = []
    absent: dict[str, str] = {}
    for row in rows:
        slowed = slowed_by(row)
        values = {
            name: row.get(column, "the driver has no such field") for name, column in _GPU_COLUMNS.items()
        }
        absent |= {name: text for name, text in values.items() if number(text) is None}
        if slowed is None:
            absent["slowed by"] = "the driver does not tell"
        gpu = {"node": row["node"], "gpu": row["index"], "name": row["name"]}
        known = {name: text if number(text) is not None else None for name, text in values.items()}
        found.append({**gpu, **known, "slowed by": None if slowed is None else ", ".join(sorted(slowed))})
    if args.json:
        print_json({"job": args.job, "gpus": found, "absent": absent})
        return 0
    if found:
        cells = [["-" if value is None else value for value in each.values()] for each in found]
        print(grid_text([list(found[0]), *cells], [False] * 3 + [True] * 5 + [False]))
    for name, why in absent.items():
        say(f"No {name}: {why}.")
    return 0 if found else 1


def check_arguments(parser: argparse.ArgumentParser) -> None:
    """Which tasks, and the form of the answer."""
    parser.add_argument("task", nargs="*", metavar="TASK", help="a task's number (default: all of them)")
    add_folder_argument(parser)
    add_json_argument(parser)


def run_check(args: argparse.Namespace) -> int:
    """Look at the evidence in the folder; asks no cluster."""
    from labtui.lab.checks import check_all, progress
    from labtui.lab.plan import task_of
    from labtui.session.labs import gather_evidence
    from labtui.tui.view import View

    with Open(args, start=False, looks=True) as lab:
        edition = lab.session.edition
        task_ids = [task_of(edition, name).id for name in args.task] or [task.id for task in edition.tasks]
        checks = check_all(edition, gather_evidence(lab.session.folder, edition, lab.state))
        view = View(state=lab.state, edition=edition, checks={check.task_id: check for check in checks})
        lines = {line.task_id: line for line in view.tasks}
        bill = spent(lab.state, practice=lab.session.practice)
    far = progress(edition, checks)
    wanted = [check for check in checks if check.task_id in task_ids]
    if args.json:
        rows = [
            msgspec.to_builtins(check) | {"title": task_of(edition, check.task_id).title} for check in wanted
        ]
        print_json({"lab": edition.id, "tasks": rows, "progress": far, "spent": bill})
    else:
        for check in wanted:
            _print_task(lines[check.task_id], check, full=bool(args.task))
        if not args.task:
            where = f"; next is task {far.current}" if far.current else ""
            print(f"{far.done} of {far.total} tasks done{where}.")
    return 0 if all(check.done for check in wanted) else 1


def _print_task(line: TaskLine, check: TaskCheck, *, full: bool) -> None:
    word = line.word + " (practice)" * (check.practice and check.status == "done")
    print_wrapped(plain(f"{line.sign} {check.task_id:<6} {word:<16} {line.title}"))
    if check.missing:
        more = sum(not item.met for item in check.items) - 1
        rest = f" And {more} more: `labtui check {check.task_id}`." if more > 0 and not full else ""
        print_wrapped(plain(f"         {check.missing}{rest}"))
    for item in check.items if full else ():
        mark = "stale" if item.met and item.stale else "yes" if item.met else "no"
        shown = f"  [{item.evidence}]" if item.evidence else ""
        print_wrapped(plain(f"         {mark:<5} {item.sentence}{shown}"))
    for note in check.notes:
        print_wrapped(plain(f"         note: {note}"))
