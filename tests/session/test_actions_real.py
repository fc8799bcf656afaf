"""Hold, release, limit, all my jobs and retry on a real Slurm."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from labtui.commands.cli import main
from labtui.domain.errors import RemoteFailure
from labtui.session.session import Session
from labtui.slurm.job_control import control
from labtui.slurm.job_script import STARTED_GUARD
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


def test_a_job_of_another_program_that_got_the_id_of_a_run_is_listed_and_cancelled_alone(
    session, cluster, student, capsys, request
):
    """As after a reset of Slurm's counter; the run ended while labtui was closed, so nothing was seen of its job."""
    head, conf = HEAD.format(account=student.account), cluster.outside("/etc/slurm/slurm.conf")
    session.submit(draft(student.account), script=head + STARTED_GUARD).result(240)
    job_id, folder = job_of(session).job_id, ["--folder", str(session.folder.path)]
    session.close()
    wait_until(lambda: "=COMPLETED" in scontrol(cluster, job_id), what="its end")

    def restart(text: str) -> None:
        conf.write_text(text)
        for action in ("stop", "start"):
            cluster.daemon("slurmctld", action)

    request.addfinalizer(partial(restart, conf.read_text()))
    again = f"MinJobAge=2\nFirstJobId={job_id}\nMaxJobId={int(job_id) + 1}\n"
    restart(conf.read_text() + again)  # the last value counts
    wait_until(lambda: "JobState" not in scontrol(cluster, job_id), what="its record to go")
    sbatch = f"cd {student.scratch} && sbatch --parsable -J by-hand"
    assert cluster.as_student(sbatch, stdin=f"{head}sleep 300\n".encode()).out.split()[-1] == job_id
    wait_until(lambda: "=RUNNING" in scontrol(cluster, job_id), what="the job")
    held = cluster.as_student(f"set -- hold {job_id}\n{control('hold', job_id).script}")
    assert held.status == 1 and "already running" in held.err
    assert main(["cancel", "1", *folder]) == 2
    assert f"Job {job_id} was not cancelled: Slurm gave its ID to another job." in capsys.readouterr().err
    wait_until(lambda: main(["queue", *folder]) or "never started" in capsys.readouterr().out, what="its end")
    assert main(["queue", "--all", *folder]) == 0
    said = capsys.readouterr()
    assert all(each in said.out for each in (job_id, "by-hand", "not labtui's")) and " s ago" in said.err
    assert "=RUNNING" in scontrol(cluster, job_id) and main(["cancel", "--job", job_id, *folder]) == 0
    wait_until(lambda: "=CANCELLED" in scontrol(cluster, job_id), what="the end of the job", deadline_s=480)
