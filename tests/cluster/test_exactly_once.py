"""A submission ends as exactly one job or none, wherever the line is cut, stalled or slowed.

The seed is in the test's name; `labtui.slurm.submit` tells how it is done.
"""

from __future__ import annotations

import random
import threading
import time

import paramiko
import pytest

from labtui.cluster.connection import Connection
from labtui.domain.errors import ConnectionLost
from labtui.slurm.queue import tick
from labtui.slurm.remote_command import Call
from labtui.slurm.submit import submit
from tests.cluster.conftest import Connect
from tests.cluster.test_asking import SHORT, Submission
from tests.real_cluster import Cluster, Student
from tests.real_cluster.cluster import wait_until
from tests.real_cluster.proxy import Fault, FaultProxy

pytestmark = pytest.mark.cluster


def jobs_of(line: Connection, token: str) -> list[str]:
    look = line.ask(tick())
    assert look.jobs is not None
    return [row.job_id for row in look.jobs if row.comment == f"labtui:{token}"]


def finish(line: Connection, submission: Submission) -> str:
    """What the engine does after an unknown answer: look up; send only when it is certainly not there."""
    for _ in range(60):
        try:
            return submission.find() or submission.submit()
        except ConnectionLost:
            time.sleep(1)  # the silence of Slurm has to last a while to be certain
    raise AssertionError("no certainty after sixty rounds")


@pytest.mark.parametrize("seed", range(24))
def test_a_fault_anywhere_in_a_submission(
    connect: Connect, student: Student, line: Connection, seed: int
) -> None:
    chooser = random.Random(seed)
    submission = Submission(line, student, SHORT)
    # The login takes some 4000 bytes up and 5000 down; the submission comes after it.
    kind = chooser.choice(("cut", "reset", "delay"))
    fault = Fault(
        kind, chooser.choice(("up", "down")), at_byte=int(3000 + 7000 * chooser.random()), seconds=0.01
    )  # fmt: skip
    with FaultProxy((student.host, student.port), {0: fault}.get) as proxy:
        faulty = connect(port=proxy.port)
        sent: str | None = None
        try:
            faulty.connect()
            submission.line = faulty
            sent = submission.submit()
        except ConnectionLost:
            pass
        submission.line = line
        job_id = sent or finish(line, submission)
    assert jobs_of(line, submission.token) == [job_id]
    assert submission.find() == job_id


@pytest.mark.parametrize("looked_up_first", [True, False])
def test_a_request_that_arrives_late(
    connect: Connect,
    cluster: Cluster,
    student: Student,
    line: Connection,
    monkeypatch: pytest.MonkeyPatch,
    looked_up_first: bool,
) -> None:
    """The line freezes with the request on it and labtui hangs up; the network delivers the request after all."""
    submission = Submission(line, student, SHORT)
    cluster.set_login_noise("echo $$ >>$HOME/logins\n")
    with FaultProxy((student.host, student.port)) as proxy:
        slow = connect(port=proxy.port)
        slow.connect()
        send = paramiko.Channel.exec_command

        def freeze_and_send(channel: paramiko.Channel, command: str) -> None:
            monkeypatch.undo()
            proxy.freeze()
            threading.Timer(0.3, slow.close).start()
            send(channel, command)

        monkeypatch.setattr(paramiko.Channel, "exec_command", freeze_and_send)
        with pytest.raises(ConnectionLost):
            slow.ask(_submit(submission))
        if looked_up_first:
            assert submission.find() is None
        before = _logins(line)
        proxy.thaw()
        wait_until(lambda: len(_logins(line)) > len(before), what="the late request to arrive")
        late = _logins(line)[len(before)]
        wait_until(lambda: line.files.stat(f"/proc/{late}") is None, what="the late request to end")
        # It may die of its closed output before sbatch; taken away by a look-up, it certainly runs none.
        assert len(jobs_of(line, submission.token)) <= (0 if looked_up_first else 1)
        if looked_up_first:
            with pytest.raises(ConnectionLost):  # taken away
                line.ask(_submit(submission))
            assert jobs_of(line, submission.token) == []
        job_id = finish(line, submission)
    assert jobs_of(line, submission.token) == [job_id]


def _logins(line: Connection) -> list[str]:
    """The process ids of the login shells so far, read without starting one."""
    files = line.files
    return files.read("logins").decode().split() if files.stat("logins") else []


def _submit(submission: Submission) -> Call[str]:
    return submit(
        submission.dir, "job.slurm", submission.token, submission.name, submission.options, attempt=0
    )
