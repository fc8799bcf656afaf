"""Hold, release, limit, all my jobs and retry on a real Slurm."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from labtui.commands.cli import main
from labtui.domain.errors import RemoteFailure
from labtui.session.session import Session
from labtui.slurm.job_control import control
from tests.real_cluster import Cluster, Student
from tests.real_cluster.cluster import wait_until
from tests.session.small_job import HEAD, draft, make_lab

pytestmark = pytest.mark.cluster


@pytest.fixture
def session(tmp_path: Path, cluster: Cluster, student: Student) -> Iterator[Session]:
    with Session.open(make_lab(tmp_path / "lab", student, student.port).path) as opened:
        yield opened


def job_of(session: Session):
    (submission,) = session.state.submissions.values()
    return submission.job


def scontrol(cluster: Cluster, job_id: str) -> str:
    return cluster.as_student(f"scontrol show job {job_id}").out


def started(cluster: Cluster, student: Student, script: str) -> str:
    """The id of a job of another program that runs."""
    sent = cluster.as_student(f"cd {student.scratch} && sbatch --parsable -J by-hand", stdin=script.encode())
    job_id = sent.out.strip().split("\n")[-1]
    assert job_id.isdecimal(), sent
    wait_until(lambda: "JobState=RUNNING" in scontrol(cluster, job_id), what="the job", deadline_s=240)
    return job_id


def test_hold_release_and_another_limit(session, cluster, student):
    script = HEAD.format(account=student.account) + "#SBATCH --begin=now+1day\nsleep 1\n"
    session.submit(draft(student.account), script=script).result(240)
    wait_until(lambda: job_of(session).evidence == "squeue", what="the queue's word")
    job_id = job_of(session).job_id
    session.hold(1).result(240)
    assert "Reason=JobHeldUser" in scontrol(cluster, job_id)
    session.hold(1, held=False).result(240)
    assert "JobHeldUser" not in scontrol(cluster, job_id)
    for minutes in (20, 2):
        session.end_after(1, minutes).result(240)
        assert f"TimeLimit=00:{minutes:02}:00" in scontrol(cluster, job_id)
    refused = session.end_after(1, 10_000).exception(240)
    assert isinstance(refused, RemoteFailure) and "within its partition's" in refused.hint, refused


def test_a_job_of_another_program_is_listed_and_cancelled(session, cluster, student, capsys):
    job_id = started(cluster, student, HEAD.format(account=student.account) + "sleep 300\n")
    session.close()
    folder = ["--folder", str(session.folder.path)]
    assert main(["queue", "--all", *folder]) == 0
    said = capsys.readouterr()
    line = next(line for line in said.out.split("\n") if job_id in line)
    assert "by-hand" in line and "not labtui's" in line and " s ago" in said.err
    held = cluster.as_student(f"set -- hold {job_id}\n{control('hold', job_id).script}")
    assert held.status == 1 and "already running" in held.err
    assert main(["cancel", "--job", job_id, *folder]) == 0
    wait_until(lambda: "=CANCELLED" in scontrol(cluster, job_id), what="the end of the job", deadline_s=480)
