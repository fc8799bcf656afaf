"""A process that has everything imported and makes copies of itself: labtui that can be killed hundreds of times.

Reads orders (JSON, one a line) from stdin. For each it forks; the child opens the lab folder, submits, follows the
logs and says on stdout what it was told; the parent says ``pid N`` before and ``gone`` after. It has no threads of
its own, so a fork is a whole process: killing it with SIGKILL is what ``kill -9 labtui`` is.
"""

import json
import os
import signal
import sys
import threading
from pathlib import Path

import paramiko  # noqa: F401  (imported before the fork, not in each child)

from labtui.domain.model import SubmissionStatus
from labtui.domain.state import LabState
from labtui.session.session import Session
from labtui.slurm import submit
from tests.session.small_job import SCRIPT, draft

submit.NO_JOB_S = 20.0  # hundreds of lives, and five minutes for each would be days


def say(*words: str) -> None:
    """Print one line in one write, so that lines of a killed process are whole or missing."""
    os.write(1, (" ".join(words) + "\n").encode())


def tell_all(session: Session) -> None:
    told = session.state
    while (state := session.next_state(told)) is not told:
        tell(told, state)
        told = state


def tell(told: LabState, state: LabState) -> None:
    """Print what labtui shows: each must be in the store after a kill."""
    for token, item in state.submissions.items():
        before = told.submissions.get(token)
        if before is None:
            say("planned", token)
        if item.status is not (before.status if before else SubmissionStatus.WAITING):
            say(item.status.value, token, item.job.job_id if item.job else "")


def live(order: dict[str, object]) -> None:
    with Session.open(Path(str(order["path"])), start=False) as session:
        assert not session.read_only, "a killed process still holds the folder"
        _work(session, order)


def _work(session: Session, order: dict[str, object]) -> None:
    threading.Thread(target=tell_all, args=(session,), daemon=True).start()
    session.start()
    account = str(order["account"])
    futures = [
        session.submit(draft(account), script=SCRIPT.format(account=account, lines=lines))
        for lines in order["jobs"]  # type: ignore[attr-defined]
    ]
    say("submitted")
    session.watch_logs(set(session.state.submissions))
    for future in futures:
        future.result(240)
    say("content")
    signal.pause()  # until killed: the logs go on growing


def main() -> None:
    say("ready")
    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            try:
                live(json.loads(line))
            except BaseException as error:
                say("error", type(error).__name__, str(error).replace("\n", " ")[:300])
            finally:
                os._exit(1)
        say("pid", str(pid))
        os.waitpid(pid, 0)
        say("gone")


if __name__ == "__main__":
    main()
