"""A running job that an administrator puts back into the queue: one job still, its bytes and epochs never mixed.

labtui submits with ``--no-requeue``, so Slurm refuses to put its jobs back ("Requested operation is presently
disabled"); only an administrator who first says ``Requeue=1`` can. A job that was put back waits two minutes
(``BeginTime``), which ``StartTime=now`` shortens; but one that starts again in the second in which its first start was
ended, fails: slurmd tells credentials apart by whole seconds and says "Job credential revoked".
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from labtui.domain.model import JobPhase, RunPhase
from labtui.session.session import Session
from tests.real_cluster import Cluster, Student
from tests.session.segments import segments_of
from tests.session.small_job import draft, make_lab
from tests.session.test_real_cluster import complete, mirror, of, phase, remote, until

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.xdist_group("requeue")]

EPOCHS = 5
STOPS_AFTER = 3
SCRIPT = """#!/bin/bash
#SBATCH --account={account}
#SBATCH --qos=gp_training
#SBATCH --time=00:20:00
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=1
#SBATCH --output=%x.%j.out
#SBATCH --error=%x.%j.err
#SBATCH --open-mode={mode}
again=${{SLURM_RESTART_COUNT:-0}}
echo "+ python -u ResNet50_seq.py --epochs {epochs} --batch_size 8"
for epoch in $(seq 1 {epochs}); do
    echo "Epoch $epoch/{epochs}"
    if [ "$again" = 0 ]; then echo "196/196 - 9$epoch""s - loss: 2.9 - accuracy: 0.1"
    else echo "196/196 - 5$epoch""s - loss: 2.1 - accuracy: 0.2"; fi
    if [ "$again" = 0 ] && [ $epoch = {stops_after} ]; then sleep 900; fi
    sleep 0.3
done
"""


def lines(attempt: int, epochs: int) -> bytes:
    """What the script prints: 91 s, 92 s, ... the first time, 51 s, 52 s, ... after it was put back."""
    text = f"+ python -u ResNet50_seq.py --epochs {EPOCHS} --batch_size 8\n"
    tens, end = ("9", "2.9 - accuracy: 0.1") if attempt == 0 else ("5", "2.1 - accuracy: 0.2")
    for epoch in range(1, epochs + 1):
        text += f"Epoch {epoch}/{EPOCHS}\n196/196 - {tens}{epoch}s - loss: {end}\n"
    return text.encode()


def submit(session: Session, student: Student, mode: str) -> str:
    plan = draft(student.account)
    plan = replace(plan, runs=(replace(plan.runs[0], epochs=EPOCHS),))
    script = SCRIPT.format(account=student.account, mode=mode, epochs=EPOCHS, stops_after=STOPS_AFTER)
    token = session.submit(plan, script=script).result(240)
    session.watch_logs({token})
    return token


def put_back(cluster: Cluster, job_id: str) -> None:
    """What an administrator does; refused at first, as the job was sent with ``--no-requeue``."""
    refused = cluster.as_root("scontrol", "requeue", job_id)
    assert "disabled" in refused.err
    assert cluster.jobs()[job_id] == "RUNNING"
    for command in (("update", f"JobId={job_id}", "Requeue=1"), ("requeue", job_id)):
        done = cluster.as_root("scontrol", *command)
        assert done.status == 0, done.err
    until(lambda: cluster.jobs()[job_id] == "PENDING", "the job to be back in the queue")
    over = int(time.time())
    until(lambda: int(time.time()) > over, "another second")


@pytest.mark.parametrize("mode", ["truncate", "append"])
def test_a_job_put_back_into_the_queue_while_it_is_followed(
    tmp_path: Path, cluster: Cluster, student: Student, mode: str
) -> None:
    folder = make_lab(tmp_path / "lab", student, student.port)
    first, whole = lines(0, STOPS_AFTER), lines(1, EPOCHS)
    with Session.open(folder.path) as session:
        token = submit(session, student, mode)
        until(lambda: mirror(session, token) == first, "the first three epochs")
        until(lambda: phase(session, token) is JobPhase.RUNNING, "the job to run")
        job_id = of(session, token).job.job_id
        put_back(cluster, job_id)

        def queued() -> bool:
            session.refresh()
            return phase(session, token) is JobPhase.QUEUED

        until(queued, "the job to be seen in the queue")
        assert of(session, token).job.restarts == 1
        assert session.state.runs[1].outcome is None
        assert mirror(session, token) == first == remote(cluster, session, token)
        done = cluster.as_root("scontrol", "update", f"JobId={job_id}", "StartTime=now")
        assert done.status == 0, done.err
        until(lambda: complete(session, token), "the end")

        item = of(session, token)
        assert (item.job.phase, item.job.job_id) == (JobPhase.FINISHED, job_id)
        segments = [path.read_bytes() for path in segments_of(session, token)]
        assert segments == ([first, whole] if mode == "truncate" else [first + whole])
        assert mirror(session, token) == remote(cluster, session, token)
        error = session.log_path(token, "err")
        assert mode == "truncate" or (error is not None and b"DUE TO JOB REQUEUE" in error.read_bytes())
        ask = ["sacct", "-a", "-D", "-X", "-n", "-P", "-S", "2020-01-01", "-o", "JobIDRaw,State", "--name"]
        until(lambda: "COMPLETED" in cluster.as_root(*ask, item.job_name).out, "accounting to know")
        rows = cluster.as_root(*ask, item.job_name).out.split()
        assert rows == [f"{job_id}|REQUEUED", f"{job_id}|COMPLETED"], "one job, with a record of each start"
        out = cluster.outside(item.remote_logs["out"]).parent
        assert len(list(out.glob(".labtui/attempt-*"))) == 1
    with Session.open(folder.path, start=False) as again:
        run = again.state.runs[1]
        assert (run.outcome, run.phase) == ("completed", RunPhase.DONE)
        seconds = [(sample.epoch, round(sample.seconds.value)) for sample in run.epochs]
        assert seconds == [(1, 51), (2, 52), (3, 53), (4, 54), (5, 55)], "those of its last start alone"
