"""What a command does to runs and jobs: cancel, hold, release, limit and retry."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import TYPE_CHECKING

from labtui.commands.terminal import (
    Open,
    add_folder_argument,
    add_run_argument,
    add_show_commands,
    count,
    say,
    show_manual_commands,
)
from labtui.domain.errors import UsageError
from labtui.domain.model import SubmissionStatus

if TYPE_CHECKING:
    from labtui.domain.state import SubmissionState


def cancel_arguments(parser: argparse.ArgumentParser) -> None:
    """The runs' numbers, as `labtui queue` shows them, and when."""
    add_run_argument(parser, "runs", nargs="*")
    parser.add_argument("--after", type=count, metavar="MIN", help="end it MIN minutes after its start")
    parser.add_argument("--job", action="append", default=[], metavar="JOB", help="a job of yours, by its ID")
    add_folder_argument(parser)
    add_show_commands(parser)


def run_cancel(args: argparse.Namespace) -> int:
    """Cancel; says what else ends with a run, and which runs were over already."""
    from labtui.session.planning import run_of

    if bool(args.runs) == bool(args.job):
        raise UsageError("Name runs, or jobs with --job.", "`labtui queue` shows both.")
    if args.job:
        return _cancel_jobs(args)
    with Open(args, start=False) as lab:
        tokens = {run_of(lab.state, number).token: number for number in args.runs}
        submissions = {token: lab.state.submissions[token] for token in tokens}
        open_ones = {token: number for token, number in tokens.items() if not submissions[token].over}
        for token in tokens.keys() - open_ones.keys():
            say(f"Run {tokens[token]} is already over: there is nothing to cancel.")
        if not open_ones:
            return 0
        if args.show_commands:
            return _show_cancel_commands(
                lab, args, {number: submissions[token] for token, number in open_ones.items()}
            )
        _reach(lab, open_ones)
        for token, number in open_ones.items():
            others = [str(other) for other in submissions[token].run_ids if other not in args.runs]
            along = f" (and with it {', '.join(others)}, in the same job)" if others else ""
            if args.after is None:
                lab.session.cancel(number).result(timeout=300)
                say(f"Run {number} was cancelled{along}.")
            else:
                lab.session.end_after(number, args.after).result(timeout=300)
                say(f"The job of run {number}{along} will be ended {args.after} min after its start.")
    return 0


def _reach(lab: Open, tokens: Iterable[str]) -> None:
    """Start the session, and wait for the cluster where one of the submissions is with Slurm already."""
    lab.session.start()
    if any(lab.state.submissions[token].status is not SubmissionStatus.WAITING for token in tokens):
        lab.online()


def _cancel_jobs(args: argparse.Namespace) -> int:
    if args.after is not None or args.show_commands:
        raise UsageError(
            "--job takes neither --after nor --show-commands.", "Name the run, if it is one of labtui's."
        )
    with Open(args) as lab:
        lab.online()
        lab.refresh()
        for job_id in args.job:
            lab.session.cancel_job(job_id).result(timeout=120)
            say(f"Job {job_id} was cancelled.")
    return 0


def _show_cancel_commands(lab: Open, args: argparse.Namespace, open_ones: dict[int, SubmissionState]) -> int:
    """The same by hand; of what was not sent there is nothing to tell Slurm."""
    from labtui.session.preview import commands_of_cancel

    what = "cancelling" if args.after is None else "ending"
    groups = [
        (f"{what} the job of run {number}", commands_of_cancel(lab.session, item, args.after))
        for number, item in open_ones.items()
    ]
    for number, item in open_ones.items():
        if item.job is None and item.status is not SubmissionStatus.WAITING:
            say(f"Run {number} is being sent to Slurm: check first whether it has a job (`labtui queue`).")
        elif item.job is None:
            say(f"Run {number} is in labtui's own submission queue: there is no job to cancel.")
    return show_manual_commands(groups)


def hold_arguments(parser: argparse.ArgumentParser) -> None:
    """The runs' numbers."""
    add_run_argument(parser, "runs", nargs="+")
    add_folder_argument(parser)


release_arguments = hold_arguments


def run_hold(args: argparse.Namespace) -> int:
    return _hold(args, held=True)


def run_release(args: argparse.Namespace) -> int:
    return _hold(args, held=False)


def _hold(args: argparse.Namespace, *, held: bool) -> int:
    """Hold the jobs of runs, or release them; each job once."""
    from labtui.session.planning import run_of
    from labtui.tui.format import run_numbers

    with Open(args, start=False) as lab:
        numbers = {run_of(lab.state, number).token: number for number in args.runs}
        _reach(lab, numbers)
        for number in numbers.values():
            lab.session.hold(number, held=held).result(timeout=120)
            also = lab.state.submissions[run_of(lab.state, number).token].run_ids
            are = "is" if len(also) == 1 else "are"
            say(f"{run_numbers(also)} {are} {'held' if held else 'released'}.")
    return 0


def retry_arguments(parser: argparse.ArgumentParser) -> None:
    """The run, and what to do differently."""
    from labtui.commands.submit import add_sending_arguments

    parser.epilog = (
        "A run that its time limit ended gets at least twice the time, as far as the queue allows; after one that "
        "ran out of GPU memory, all sizes are planned with a smaller batch. Any other is submitted as it was."
    )
    add_run_argument(parser)
    parser.add_argument("--same", action="store_true", help="with unchanged settings, however the run ended")
    parser.add_argument("--time", type=count, metavar="MINUTES", help="with this time limit")
    add_folder_argument(parser)
    add_sending_arguments(parser)


def run_retry(args: argparse.Namespace) -> int:
    """Propose, check, ask, submit: the same way as `labtui submit`."""
    from labtui.commands.submit import send
    from labtui.session.planning import already, retry_after

    with Open(args, start=False) as lab:
        proposal = retry_after(lab.session, args.run, same=args.same, minutes=args.time)
        for other in already(lab.session, lab.state.runs[args.run].task_id, proposal.drafts).values():
            if other.outcome is None:
                said = f"Run {other.run_id} is the same, and is {other.phase.value}."
                raise UsageError(said, f"Cancel it first: `labtui cancel {other.run_id}`.")
        return send(lab, args, list(proposal.drafts), proposal.sentence)
