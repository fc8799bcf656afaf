"""`labtui cancel RUN...`: cancel runs wherever they stand: in the waiting line, in the queue, running."""

from __future__ import annotations

import argparse

from labtui.core.model import SubmissionStatus
from labtui.verbs.terminal import Open, add_folder_argument, run_number, say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The runs' numbers, as `labtui queue` shows them."""
    parser.add_argument(
        "runs", nargs="+", type=run_number, metavar="RUN", help="numbers, as `labtui queue` shows"
    )
    add_folder_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Cancel; says what else ends with a run."""
    from labtui.engine.planning import run_of

    with Open(args, start=False) as lab:
        tokens = {run_of(lab.state, number).token: number for number in args.runs}
        submissions = {token: lab.state.submissions[token] for token in tokens}
        lab.session.start()
        if any(item.status is not SubmissionStatus.WAITING for item in submissions.values()):
            lab.online()
        for token, number in tokens.items():
            lab.session.cancel(number).result(timeout=300)
            others = [str(other) for other in submissions[token].run_ids if other not in args.runs]
            along = f" (and with it {', '.join(others)}, in the same job)" if others else ""
            say(f"run {number} was cancelled{along}")
    return 0
