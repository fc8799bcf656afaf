"""A submission ends as exactly one job or none, wherever the line is cut, stalled or slowed.

The seed is in the test's name; `labtui.core.slurm.submit` tells how it is done.
"""

from __future__ import annotations

import random

import pytest

from labtui.cluster.slurm_cluster import SlurmCluster
from labtui.errors import ConnectionLost, SubmitRefused
from tests.cluster import Student
from tests.cluster.cluster import wait_until
from tests.cluster.proxy import Fault, FaultProxy
from tests.cluster_room.conftest import Connect
from tests.cluster_room.prompting import PROFILE
from tests.cluster_room.test_slurm_cluster import SHORT, Submission

pytestmark = pytest.mark.cluster


def jobs_of(slurm: SlurmCluster, token: str) -> list[str]:
    tick = slurm.tick()
    assert tick.jobs is not None
    return [row.job_id for row in tick.jobs if row.comment == f"labtui:{token}"]


def finish(slurm: SlurmCluster, submission: Submission) -> str:
    """What the engine does after an unknown answer: look up; send only when it is certainly not there."""
    for _ in range(10):
        found = submission.find()
        if found is not None:
            return found
        try:
            return submission.submit()
        except ConnectionLost:
            continue
    raise AssertionError("no certainty after ten rounds")


@pytest.mark.parametrize("seed", range(24))
def test_a_fault_anywhere_in_a_submission(
    connect: Connect, student: Student, slurm: SlurmCluster, seed: int
) -> None:
    chooser = random.Random(seed)
    submission = Submission(slurm, student, SHORT)
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
            submission.slurm = SlurmCluster(faulty, PROFILE)
            sent = submission.submit()
        except ConnectionLost:
            pass
        submission.slurm = slurm
        told = sent or finish(slurm, submission)
    assert jobs_of(slurm, submission.token) == [told]
    assert submission.find() == told


@pytest.mark.parametrize("at_byte", range(3000, 7200, 300))
def test_a_stalled_submission_that_arrives_late(
    connect: Connect, student: Student, slurm: SlurmCluster, at_byte: int
) -> None:
    """The line freezes while the request is under way; labtui looks from another line; then the first one
    thaws.
    """
    submission = Submission(slurm, student, SHORT)
    with FaultProxy((student.host, student.port), {0: Fault("stall", "up", at_byte)}.get) as proxy:
        frozen = connect(port=proxy.port)
        try:
            frozen.connect()
            frozen.run(_submit_command(submission), timeout_s=0.5)
        except (ConnectionLost, SubmitRefused):
            pass
        found = submission.find()
        proxy.thaw()
        # Whatever was on its way has arrived when the server has closed the old line.
        proxy_done(proxy)
        if found is None:
            assert jobs_of(slurm, submission.token) == []
            found = finish(slurm, submission)
    assert jobs_of(slurm, submission.token) == [found]


def _submit_command(submission: Submission):  # type: ignore[no-untyped-def]
    from labtui.core.slurm.submit import submit_command

    return submit_command(
        submission.dir, "job.slurm", submission.token, submission.name, submission.options, attempt=0
    )


def proxy_done(proxy: FaultProxy) -> None:
    """Wait until nothing moves on the proxy any more."""
    last = [dict(proxy.bytes_passed), 0]

    def quiet() -> bool:
        now = dict(proxy.bytes_passed)
        last[1] = last[1] + 1 if now == last[0] else 0  # type: ignore[operator]
        last[0] = now
        return last[1] >= 6  # type: ignore[operator]

    wait_until(quiet, what="the thawed line to be quiet")
