"""Push, submit, tick, look up, cancel on a real Slurm; refusals; daemons stopped and frozen."""

from __future__ import annotations

import secrets

import pytest

from labtui.cluster.connection import Connection
from labtui.domain.errors import ConnectionLost, RemoteFailure, SubmitRefused
from labtui.domain.model import JobPhase
from labtui.slurm.job_control import cancel, check_script, details, end_after
from labtui.slurm.queue import tick
from labtui.slurm.submit import NoJobPeriod, lookup, submit
from tests.real_cluster import Cluster, Student
from tests.real_cluster.cluster import wait_until

pytestmark = pytest.mark.cluster

JOB = b"#!/bin/bash\n#SBATCH --output=%x.%j.out\n#SBATCH --error=%x.%j.err\necho began; sleep 300\n"
SHORT = b"#!/bin/bash\n#SBATCH --output=%x.%j.out\necho hello\n"


class Submission:
    """A directory of its own on the cluster, with a token."""

    def __init__(self, line: Connection, student: Student, script: bytes = JOB, qos: str = "") -> None:
        self.line = line
        self.token = f"t{secrets.token_hex(6)}"
        self.name = f"ResNet50-{self.token[-4:]}"
        self.dir = f"{student.scratch}/lab tests/{self.token}"
        self.options = [f"--account={student.account}", f"--qos={qos or student.cpu_qos}", "--time=10"]
        self.attempt = 0
        self.period = NoJobPeriod()
        line.push({"job.slurm": script}, self.dir)

    def submit(self, *more: str, script: str = "job.slurm", directory: str = "") -> str:
        where, options = directory or self.dir, [*self.options, *more]
        try:
            return self.line.ask(submit(where, script, self.token, self.name, options, attempt=self.attempt))
        except SubmitRefused:
            self.attempt += 1
            raise

    def find(self) -> str | None:
        """The job's id, None when there certainly is none; raises while that is not certain."""
        look = self.line.ask(lookup(self.dir, self.token, self.name))
        self.period = self.period.after(look)
        if look.job_id is None and not look.certain and not self.period.certain:
            raise ConnectionLost(look.problem or "not certain yet")
        self.attempt = look.attempts
        return look.job_id


@pytest.fixture
def submission(line: Connection, student: Student) -> Submission:
    return Submission(line, student)


def test_push_sends_what_is_not_there(line: Connection, student: Student) -> None:
    target = f"{student.home}/push me/{secrets.token_hex(4)}"
    unique = secrets.token_bytes(200_000)
    files = {"a.py": unique + b"\r\n", "cifar-utils/cifar.py": b"x = 1\r\n", "run.slurm": SHORT}
    first = line.push(files, target)
    assert set(first.sent) | set(first.unchanged) == set(files) and "a.py" in first.sent
    assert first.bytes_sent >= len(unique)
    assert line.push(files, target).bytes_sent == 0
    assert line.push(files, target + "-again").sent == ()
    assert line.files.read(f"{target}-again/cifar-utils/cifar.py") == b"x = 1\n"
    assert line.run(f"stat -c %a '{target}/run.slurm'").out == "755\n"
    assert line.push({}, target).sent == ()


def _phase(line: Connection, job_id: str) -> JobPhase | None:
    rows = line.ask(tick()).jobs or ()
    return next((row.phase for row in rows if row.job_id == job_id), None)


def test_hostile_names_come_back_whole(line: Connection, student: Student) -> None:
    name = "a|b;c\"d'\te $(id) `id` é%j\\"
    tricky = Submission(line, student)
    job_id = line.ask(submit(tricky.dir, "job.slurm", tricky.token, name, tricky.options, attempt=0))
    rows = line.ask(tick([job_id]))
    assert rows.jobs is not None
    assert next(row.name for row in rows.jobs if row.job_id == job_id) == name


def test_a_missing_script_and_a_missing_directory(submission: Submission, line: Connection) -> None:
    with pytest.raises(SubmitRefused, match="job script"):
        submission.submit(script="gone.slurm")
    with pytest.raises(SubmitRefused, match="directory"):
        submission.submit(directory="/no/such/place")
    assert "directory" in line.ask(check_script("/no/such/place", "job.slurm")).sentence


def test_one_job_per_user_means_wait(line: Connection, student: Student) -> None:
    gpu = ["--cpus-per-task=20", "--gres=gpu:1"]
    first, second = (Submission(line, student, qos=student.gpu_qos) for _ in range(2))
    for each in (first, second):
        each.options += gpu
    test = line.ask(check_script(first.dir, "job.slurm", first.options))
    assert test.ok
    job_id = first.submit()
    with pytest.raises(SubmitRefused) as caught:
        second.submit()
    assert caught.value.wait
    line.ask(cancel(job_id))

    def accepted() -> bool:
        try:
            return bool(second.submit())
        except SubmitRefused as refused:
            assert refused.wait
            return False

    wait_until(accepted, what="the slot to be free")


def test_ones_own_limit(submission: Submission, line: Connection) -> None:
    job_id = submission.submit()
    wait_until(lambda: _phase(line, job_id) is JobPhase.RUNNING, what="the job to run")
    line.ask(end_after(job_id, 1))
    row = next(row for row in line.ask(tick()).jobs or () if row.job_id == job_id)
    assert row.time_limit_s == 60
    with pytest.raises(RemoteFailure, match="did not accept a limit of 9 min") as longer:
        line.ask(end_after(job_id, 9))
    assert "shortened" in longer.value.hint
    line.ask(cancel(job_id))
    wait_until(lambda: _phase(line, job_id) is JobPhase.FINISHED, what="the job to end")
    for over in (job_id, "999999"):
        with pytest.raises(RemoteFailure, match="did not accept") as ended:
            line.ask(end_after(over, 1))
        assert "is over" in ended.value.hint
    with pytest.raises(RemoteFailure, match="not a job ID"):
        line.ask(end_after("1; touch pwned", 1))
    assert line.files.stat("pwned") is None


def test_what_cannot_be_cancelled(line: Connection) -> None:
    line.ask(cancel("999999"))  # over long ago, or never there: nothing to do
    with pytest.raises(RemoteFailure):
        line.ask(cancel("x; touch pwned"))
    assert line.files.stat("pwned") is None
    assert line.ask(details("999999")) is None


# --------------------------------------------------------------------------- Slurm in trouble


@pytest.mark.slow
def test_a_stopped_controller_is_a_problem_and_heals(
    line: Connection, cluster: Cluster, submission: Submission
) -> None:
    job_id = submission.submit()
    cluster.daemon("slurmctld", "stop")
    look = line.ask(tick([job_id]))
    assert look.jobs is None and "contact" in look.problem
    with pytest.raises(RemoteFailure):
        line.ask(details(job_id))
    assert submission.find() == job_id  # the receipt knows without Slurm
    cluster.daemon("slurmctld", "start")
    wait_until(lambda: line.ask(tick()).jobs is not None, what="the queue to answer")
    assert any(row.job_id == job_id for row in line.ask(tick()).jobs or ())


@pytest.mark.slow
@pytest.mark.parametrize(("trouble", "cure"), [("stop", "start"), ("pause", "resume")])
def test_nothing_is_sent_to_a_controller_that_is_away(
    line: Connection, cluster: Cluster, submission: Submission, trouble: str, cure: str
) -> None:
    cluster.daemon("slurmctld", trouble)
    with pytest.raises(SubmitRefused, match="Nothing was sent") as caught:
        submission.submit()
    assert caught.value.wait
    look = line.ask(tick())
    assert look.jobs is None and look.problem
    cluster.daemon("slurmctld", cure)
    wait_until(lambda: line.ask(tick()).jobs is not None, what="the controller to answer")
    assert submission.find() is None, "certain at once: sbatch did not run"
    assert submission.submit() == submission.find()


def test_accounting_down_does_not_hide_the_queue(
    line: Connection, cluster: Cluster, submission: Submission
) -> None:
    job_id = submission.submit()
    cluster.daemon("slurmdbd", "stop")
    look = line.ask(tick(["999999"]))
    assert look.jobs is not None and any(row.job_id == job_id for row in look.jobs)
    assert look.accounting is None and look.accounting_problem
    cluster.daemon("slurmdbd", "start")
    wait_until(lambda: line.ask(tick(["999999"])).accounting is not None, what="accounting to answer")


def test_a_students_own_settings_do_not_change_the_answers(
    line: Connection, cluster: Cluster, submission: Submission
) -> None:
    job_id = submission.submit()
    cluster.set_login_noise(
        "export SQUEUE_STATES=CG SQUEUE_FORMAT=%i SQUEUE_USERS=root SLURM_TIME_FORMAT=relative TZ=Asia/Tokyo\n"
        "export SBATCH_QOS=nonsense SBATCH_ACCOUNT=nonsense SACCT_FORMAT=State LC_ALL=xx_YY.UTF-8\n"
        "squeue() { echo wrapped; }\nalias sbatch='echo aliased'\n"
    )
    row = next(row for row in line.ask(tick([job_id])).jobs or () if row.job_id == job_id)
    assert row.submit_time is not None and row.submit_time > 1_700_000_000
    another = Submission(line, cluster.student)
    assert another.submit().isdecimal()
