"""Commands about jobs: `labtui queue` shows them; `cancel`, `hold`, `release` and `retry` act on runs."""

import argparse
import time
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import msgspec

from labtui.commands import options, submit, terminal
from labtui.commands.terminal import OpenLab, fields_of, print_json, print_table, run_row, say, say_error
from labtui.domain import model, tuning
from labtui.domain.errors import LabError, NotTrusted, failure
from labtui.domain.run import MARKS, run_numbers
from labtui.domain.state import UNANSWERED, LabState, SubmissionState
from labtui.results.cost import lab_cost
from labtui.results.numbers import ABSENT
from labtui.session.own_jobs import batch_file
from labtui.session.planning import known_runs, retry_after, run_of
from labtui.session.preview import commands_of_cancel
from labtui.slurm.job_evidence import live_jobs, without_outcome
from labtui.slurm.states import end_reason, reason_words, waiting_reason
from labtui.tui.format import job_grid, limit_warning
from labtui.tui.guidance import remedy, success_text
from labtui.tui.view import ENDED_BADLY, RunLine, View

LOOK_UP_S = 10.0
"""How long to wait for Slurm's answer to what was submitted."""
READ_END_S = 30.0
"""How long to wait for the end of a finished job's log, which must stop growing before it counts as complete."""


def queue_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "In JSON, exit_code is null if only the queue shows a job's end: accounting has the code."
    parser.add_argument("--offline", action="store_true", help="show what is stored; ask no cluster")
    parser.add_argument("--all", action="store_true", help="all your jobs, also those of other programs")


def run_queue(args: argparse.Namespace) -> int:
    """Read the queue once if it may have changed a job, then print."""
    try:
        terminal.lab_folder(args.folder, args, writes=not args.offline)
    except NotTrusted as why:
        say_error(why)
        args.offline = True
    with OpenLab(args, view_only=True) as lab:
        open_ones = live_jobs(lab.state) or without_outcome(lab.state) or lab.state.in_status(*UNANSWERED)
        if not args.offline and (args.all or open_ones):
            lab.session.start()
            _refresh(lab, all_jobs=args.all)
        results, edition, read_at = lab.session.results(), lab.session.edition, lab.state.refreshed_at
        view = View.of(lab.session, edition=edition, results=results)
        if not args.json and any(line.phase in ENDED_BADLY for line in view.runs.values()):
            view = terminal.checked(lab, view)
        served = lab.session.open_elsewhere and not lab.session.other_closed
        if args.json and args.all:
            print_json({"refreshed_at": read_at, "jobs": lab.session.my_jobs()})
        elif args.json:
            rows = [_row(view, line, served) for line in view.runs.values()]
            print_json({"refreshed_at": read_at, "runs": rows, "spent": lab_cost(lab.state)})
        elif args.all and (jobs := lab.session.my_jobs()):
            print_table(job_grid(jobs))
        elif args.all:
            say("No job of yours is in the queue." if read_at else "The queue was not read.")
        else:
            _print_queue(view, served)
        live = args.all or not all(item.over for item in lab.state.submissions.values())
        if live and read_at and not args.json:
            say(f"read {max(0.0, time.time() - read_at):.0f} s ago")
    return 0


def _refresh(lab: OpenLab, *, all_jobs: bool) -> None:
    """Read the queue, and the ends of the logs of jobs that are over."""
    try:
        lab.wait_online()
        writes = not lab.session.read_only
        if all_jobs or (live_jobs(lab.state) and writes):
            lab.refresh()
        if writes and (tokens := {item.token for item in without_outcome(lab.state)}):
            lab.session.watch_logs(tokens)
            lab.wait(lambda state: not without_outcome(state), limit_s=READ_END_S)
        if writes:
            lab.wait(lambda state: not state.in_status(*UNANSWERED), limit_s=LOOK_UP_S)
    except LabError as error:
        say_error(error)
        say("The last known state follows.")
    for problem in lab.state.problems:
        say_error(problem)


def _row(view: View, line: RunLine, served: bool) -> dict[str, Any]:
    state, run = view.state, line.run
    submission = state.submissions[run.token]
    sent = fields_of(submission, "token status job_file held accepted")
    row = run_row(state, run) | fields_of(run, "cause diagnosis")
    row |= {
        "state": line.word,
        "batch_size": run.spec.batch_size,
        "epochs": {"read": run.epochs_read, "planned": run.spec.epochs},
        "smaller_batch_helps": run.gpu_memory_ran_out,
        "submission": sent | {"sentence": waiting_reason(state, view.profile, submission, served=served)},
        "gpu_hours_trained": run.gpu_hours(run.used.n_gpus),
        "job": submission.job,
        "limit_warning": limit_warning(line, view),
    }
    return dict(msgspec.to_builtins(row))


def _print_queue(view: View, served: bool) -> None:
    if not view.runs:
        say("Nothing has been submitted yet: `labtui submit TASK`.")
        return
    names = view.edition.names if view.edition is not None else {}
    specs = [view.state.called(line.run, names) for line in view.runs.values()]
    options = tuning.distinguishing_words([spec.tuning for spec in specs])
    several = len({spec.data_set for spec in specs}) > 1
    grid, below = [["run", "task", "name", "device", "batch/GPU", "state", "epochs", "", "job", "note"]], [""]
    for line, spec, words in zip(view.runs.values(), specs, options, strict=True):
        run, job, done = line.run, line.job, line.run.outcome == "completed"
        unread = done and not run.epochs_read
        epochs = ABSENT if unread else f"{run.epochs_read}/{run.spec.epochs or '?'}"
        reason = line.not_counted if unread else ""
        if job is not None and not done and not line.cause:  # a done run's job may have another run's state
            reason = reason_words(job.phase, job.reason)
        submission = view.state.submissions[run.token]
        reason = reason or waiting_reason(view.state, view.profile, submission, served=served)
        name = ", ".join(filter(None, (spec.model, spec.data_set if several else "", *words)))
        batch = f"{spec.per_gpu_batch:,}" if spec.batch_size else ABSENT
        named = [f"{run.run_id}", run.task_id or "own", name, run.used.devices, batch]
        mark, job_id = MARKS[view.state.mark_of(run)], job.job_id if job is not None else ABSENT
        cause, advice = _cause_and_advice(view, line)
        note = cause or ("" if line.cancelling else reason)
        grid.append([*named, line.word, epochs, mark, job_id, note])
        below.append(limit_warning(line, view) or advice)
    # not below each of equal rows
    once = ["" if text == after else text for text, after in pairwise([*below, ""])]
    print_table(grid, {"run", "batch/GPU", "epochs"}, once)


def _cause_and_advice(view: View, line: RunLine) -> tuple[str, str]:
    """Why a run failed and what to do about it, "" for what the row says already.

    After a time limit, GPU memory that ran out, and a process that was lost, what to do stands in place of the cause.
    """
    run, again = line.run, remedy(view, line)
    if line.submission is not None and line.submission.status is model.SubmissionStatus.REFUSED:
        return line.submission.sentence, again.reason
    if run.gpu_memory_ran_out:
        way, item = f"`labtui retry {run.run_id}` plans a smaller batch", line.submission
        if item is not None and item.job_file:
            way = f"halve the batch in {batch_file(run.spec, item.job_file)}"
        return way if again.label else again.reason, ""
    if run.outcome == "time-limit":
        return f"`labtui retry {run.run_id}` plans more time" if again.label else again.reason, ""
    if run.outcome not in ("oom", "failed") and not (run.outcome == "completed" and line.cause):
        return "", ""
    for each in run.diagnosis[:1]:
        lost = each.kind == "process-lost"
        return (model.first_sentence(again.reason), "") if lost else (each.text, again.reason)
    return end_reason(line.job), ""


# --------------------------------------------------------------------------- acting on runs


def cancel_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_runs(parser, "*")
    parser.add_argument("--after", type=options.count, metavar="MIN", help="end it MIN min after its start")
    parser.add_argument("--job", action="append", default=[], metavar="JOB", help="a job of yours, by its ID")


def run_cancel(args: argparse.Namespace) -> int:
    """Cancel runs; say which other runs end with them, and which were over already."""
    if bool(args.runs) == bool(args.job):
        raise failure("name-runs")
    if args.job:
        return _cancel_jobs(args)
    with OpenLab(args) as lab:
        if not (open_ones := _select_open_runs(lab, args.runs, "cancel")):
            return 1
        if args.show_commands:
            return _show_cancel_commands(lab, args, [numbers[0] for numbers in open_ones.values()])
        _start_session(lab, open_ones)
        for token, numbers in open_ones.items():
            along = also_ended_text(lab.state, lab.state.submissions[token], args.runs)
            if args.after is None:
                terminal.wait_for(lab.session.cancel(numbers[0]))
                if lab.state.submissions[token].job is None:
                    say(f"{run_numbers(numbers)} {'was' if len(numbers) == 1 else 'were'} cancelled{along}.")
                else:  # Slurm reports the end later
                    say(f"Slurm was asked to cancel {run_numbers(numbers).lower()}{along}.")
            else:
                terminal.wait_for(lab.session.end_after(numbers[0], args.after))
                named = run_numbers(numbers).lower()
                say(f"The job of {named}{along} will be ended {args.after} min after its start.")
    return 0


def _select_open_runs(lab: OpenLab, numbers: Iterable[int], what: str) -> dict[str, list[int]]:
    """The runs with these numbers, by the token of their job; of those that are over that is said."""
    found: dict[str, list[int]] = {}
    for run in [run_of(lab.state, number) for number in numbers]:
        job = lab.state.submissions[run.token]
        others = any(lab.state.runs[number].outcome is None for number in job.run_ids)
        if job.over or (others and run.outcome is not None):
            say(f"Run {run.run_id} is already over: there is nothing to {what}.")
        else:
            found.setdefault(run.token, []).append(run.run_id)
    return found


def also_ended_text(state: LabState, submission: SubmissionState, named: Sequence[int]) -> str:
    """The other runs that end with a job, in brackets; those that are over already stay as they are."""
    others = [n for n in submission.run_ids if n not in named and state.runs[n].outcome is None]
    return f" (and {', '.join(map(str, others))}, in the same job)" if others else ""


def _start_session(lab: OpenLab, tokens: Iterable[str]) -> None:
    """Start the session; wait for the connection if one of the submissions has left labtui's own queue."""
    lab.session.start()
    if any(lab.state.submissions[token].status is not model.SubmissionStatus.WAITING for token in tokens):
        lab.wait_online()


def _cancel_jobs(args: argparse.Namespace) -> int:
    if args.after is not None or args.show_commands:
        raise failure("job-alone")
    with OpenLab(args) as lab:
        lab.session.start()
        lab.wait_online()
        lab.refresh()
        for job_id in args.job:
            terminal.wait_for(lab.session.cancel_job(job_id))
            say(f"Slurm was asked to cancel job {job_id}.")
    return 0


def _show_cancel_commands(lab: OpenLab, args: argparse.Namespace, runs: Iterable[int]) -> int:
    """Print the commands that cancel by hand. A run that was not sent has none, which is said instead."""
    what = "cancelling" if args.after is None else "ending"
    groups = []
    for number in runs:
        item = lab.state.submissions[lab.state.runs[number].token]
        groups.append((f"{what} the job of run {number}", commands_of_cancel(lab.session, item, args.after)))
        if item.job is None and item.status is not model.SubmissionStatus.WAITING:
            say(f"Run {number} is being sent to Slurm: check first whether it has a job (`labtui queue`).")
        elif item.job is None:
            say(f"Run {number} is in labtui's own submission queue: there is no job to cancel.")
    return terminal.print_commands(groups)


def _hold(args: argparse.Namespace, *, held: bool) -> int:
    """Hold or release the jobs of runs, each job once."""
    with OpenLab(args) as lab:
        if not (open_ones := _select_open_runs(lab, args.runs, "hold" if held else "release")):
            return 1
        _start_session(lab, open_ones)
        for token, numbers in open_ones.items():
            terminal.wait_for(lab.session.hold(numbers[0], held=held))
            also = lab.state.submissions[token].run_ids
            are = "is" if len(also) == 1 else "are"
            say(f"{run_numbers(also)} {are} {'held' if held else 'released'}.")
    return 0


run_hold, run_release = partial(_hold, held=True), partial(_hold, held=False)


def retry_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "A run that its time limit ended gets at least twice the time, as far as the queue allows; after one that "
        "ran out of GPU memory, all sizes are planned with a smaller batch. Any other is submitted as it was."
    )
    parser.add_argument("--again", action="store_true", help="also a run that is done, as --yes does")
    parser.add_argument("--same", action="store_true", help="keep the settings, however the run ended")
    parser.add_argument("--time", type=options.count, metavar="MINUTES", help="with this time limit")


def run_retry(args: argparse.Namespace) -> int:
    """Plan the run again, then check, ask and submit as `labtui submit` does."""
    with OpenLab(args) as lab:
        proposal = retry_after(lab.session, args.run, same=args.same, minutes=args.time)
        view = View.of(lab.session)
        line = view.runs[args.run]
        told = f"Run {args.run} is done." if line.run.outcome == "completed" else success_text(view, line)
        meant = args.again or args.yes or args.dry_run or args.show_commands or terminal.at_terminal()
        if told and not meant:
            say_error(failure("run-done", told=told))
            return 1
        for other in known_runs(lab.session, lab.state.runs[args.run].task_id, proposal.drafts).values():
            if other.outcome is None:
                raise failure("same-waits", run=other.run_id, word=view.runs[other.run_id].word)
        return submit.send(lab, args, list(proposal.drafts), proposal.sentence)
