"""`labtui cancel RUN...`: cancel runs wherever they stand, now or after so many minutes of running."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from labtui.core.model import JobPhase, SubmissionStatus
from labtui.verbs.by_hand import add_show_commands, show_lessons
from labtui.verbs.terminal import Open, add_folder_argument, count, run_number, say

if TYPE_CHECKING:
    from labtui.core.state import SubmissionState

_NEVER_SENT = (SubmissionStatus.REFUSED, SubmissionStatus.WITHDRAWN)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The runs' numbers, as `labtui queue` shows them, and when."""
    parser.add_argument(
        "runs", nargs="+", type=run_number, metavar="RUN", help="numbers, as `labtui queue` shows"
    )
    parser.add_argument(
        "--after",
        type=count,
        metavar="MIN",
        help="not now: Slurm ends the job when it has run so many minutes, also when labtui is closed",
    )
    add_folder_argument(parser)
    add_show_commands(parser)


def run(args: argparse.Namespace) -> int:
    """Cancel; says what else ends with a run, and which runs were over already."""
    from labtui.engine.planning import run_of

    with Open(args, start=False) as lab:
        tokens = {run_of(lab.state, number).token: number for number in args.runs}
        submissions = {token: lab.state.submissions[token] for token in tokens}
        open_ones = {token: number for token, number in tokens.items() if not _over(submissions[token])}
        for token in tokens.keys() - open_ones.keys():
            say(f"run {tokens[token]} is over already; there is nothing to cancel")
        if not open_ones:
            return 0
        if args.show_commands:
            return _show_commands(
                lab, args, {number: submissions[token] for token, number in open_ones.items()}
            )
        lab.session.start()
        if any(submissions[token].status is not SubmissionStatus.WAITING for token in open_ones):
            lab.online()
        for token, number in open_ones.items():
            others = [str(other) for other in submissions[token].run_ids if other not in args.runs]
            along = f" (and with it {', '.join(others)}, in the same job)" if others else ""
            if args.after is None:
                lab.session.cancel(number).result(timeout=300)
                say(f"run {number} was cancelled{along}")
            else:
                lab.session.end_after(number, args.after).result(timeout=300)
                say(f"the job of run {number}{along} will be ended {args.after} min after its start")
    return 0


def _show_commands(lab: Open, args: argparse.Namespace, open_ones: dict[int, SubmissionState]) -> int:
    """The same by hand; of what was not sent there is nothing to tell Slurm."""
    from labtui.engine.lessons import lessons_of_cancel

    what = "cancelling" if args.after is None else "ending"
    groups = [
        (f"{what} the job of run {number}", lessons_of_cancel(lab.session, item, args.after))
        for number, item in open_ones.items()
    ]
    for number, item in open_ones.items():
        if item.job is None and item.status is not SubmissionStatus.WAITING:
            say(f"run {number} is on its way to Slurm: look whether it has a job first (`labtui queue`)")
        elif item.job is None and args.after is None:
            say(f"run {number} is in labtui's own waiting line: there is no job to cancel")
    return show_lessons(groups)


def _over(submission: SubmissionState) -> bool:
    job = submission.job
    return submission.status in _NEVER_SENT or (job is not None and job.phase is JobPhase.FINISHED)
