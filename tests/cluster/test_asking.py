"""Push, submit, tick, look up, cancel on a real Slurm; refusals; daemons stopped and frozen."""

import secrets
from unittest.mock import patch

import pytest

from labtui.cluster.connection import Connection
from labtui.domain.errors import ConnectionLost, SubmitRefused
from labtui.slurm.queue import poll_queue
from labtui.slurm.submit import Lookup, lookup, submit
from tests.real_cluster import Student
from tests.real_cluster.cluster import wait_until

pytestmark = pytest.mark.cluster

JOB = b"#!/bin/bash\n#SBATCH --output=%x.%j.out\n#SBATCH --error=%x.%j.err\necho began; sleep 300\n"


class Submission:
    """A directory of its own on the cluster, with a token."""

    def __init__(self, line: Connection, student: Student) -> None:
        self.line = line
        self.token = f"t{secrets.token_hex(6)}"
        self.name = f"ResNet50-{self.token[-4:]}"
        self.dir = f"{student.scratch}/lab tests/{self.token}"
        self.options = [f"--account={student.account}", f"--qos={student.cpu_qos}", "--time=10"]
        self.attempt = 0
        line.push({"job.slurm": JOB}, self.dir)

    def submit(self) -> str:
        try:
            call = submit(self.dir, "job.slurm", self.token, self.name, self.options, attempt=self.attempt)
            return self.line.ask(call)
        except SubmitRefused:
            self.attempt += 1
            raise

    def look(self) -> Lookup:
        return self.line.ask(lookup(self.dir, self.token, self.name))


@pytest.fixture
def submission(line: Connection, student: Student) -> Submission:
    return Submission(line, student)


def test_push_sends_what_is_not_there(line, student):
    target = f"{student.home}/push me/{secrets.token_hex(4)}"
    unique = secrets.token_bytes(200_000)
    files = {"a.py": unique + b"\r\n", "cifar-utils/cifar.py": b"x = 1\r\n", "run.slurm": JOB}
    with patch.object(line.files, "write_atomic", wraps=line.files.write_atomic) as sent:
        for folder in (target, target, f"{target}-again"):
            line.push(files, folder)
        line.push({}, target)
    assert 1 <= sent.call_count <= len(files)
    assert line.files.read(f"{target}-again/cifar-utils/cifar.py") == b"x = 1\n"
    assert line.run(f"stat -c %a '{target}/run.slurm'").out == "755\n"


@pytest.mark.slow
@pytest.mark.parametrize(("trouble", "cure"), [("stop", "start"), ("pause", "resume")])
def test_a_controller_that_is_away_is_a_problem_gets_no_job_and_heals(
    line, cluster, student, submission, trouble, cure
):
    waiting, job_id = Submission(line, student), submission.submit()
    cluster.daemon("slurmctld", trouble)
    look = line.ask(poll_queue([job_id]))
    assert look.jobs is None and look.problem
    assert submission.look().job_id == job_id, "the receipt knows without Slurm"
    with pytest.raises(SubmitRefused, match="Nothing was sent") as caught:
        waiting.submit()
    assert caught.value.wait
    cluster.daemon("slurmctld", cure)
    wait_until(lambda: line.ask(poll_queue()).jobs is not None, what="the queue to answer")
    assert any(row.job_id == job_id for row in line.ask(poll_queue()).jobs or ())
    found = waiting.look()
    assert found.job_id is None and found.certain, "certain at once: sbatch did not run"
    waiting.attempt = found.attempts
    assert waiting.submit() == waiting.look().job_id


def test_accounting_down_does_not_hide_the_queue(line, cluster, submission):
    job_id = submission.submit()
    cluster.daemon("slurmdbd", "stop")
    look = line.ask(poll_queue(["999999"]))
    assert look.jobs is not None and any(row.job_id == job_id for row in look.jobs)
    assert look.accounting is None and look.accounting_problem
    cluster.daemon("slurmdbd", "start")
    wait_until(lambda: line.ask(poll_queue(["999999"])).accounting is not None, what="accounting to answer")


START_UP = {
    "noise": "echo '123'; printf 'no newline'; echo grumble >&2; (sleep 300; echo late) &\n",
    "variables": "export SQUEUE_STATES=CG SQUEUE_FORMAT=%i SQUEUE_USERS=root SLURM_TIME_FORMAT=relative TZ=Asia/Tokyo\n"
    "export SBATCH_QOS=nonsense SBATCH_ACCOUNT=nonsense SACCT_FORMAT=State LC_ALL=xx_YY.UTF-8\n",
    "aliases": "shopt -s expand_aliases; alias mkdir='mkdir -p' mv='mv -i' sbatch='echo aliased' exec=true\n",
    "functions": 'mkdir() { command mkdir -p "$@"; }; squeue() { echo wrapped; }; export -f mkdir squeue\n',
    "options": "set -eCu -o functrace; export SHELLOPTS; umask 777; trap 'echo traced' DEBUG\n",
    "attributes": "readonly id=5 status; declare -i n next lock; export BASH_ENV=$HOME/.bashrc\n",
}


@pytest.mark.parametrize("text", START_UP.values(), ids=START_UP.keys())
def test_start_up_files_open_no_guard_and_change_no_answer(line, cluster, submission, text):
    cluster.set_bashrc('mkdir() { command mkdir -p "$@"; }\n')
    cluster.set_login_noise(text)
    found = submission.look()
    assert (found.certain, found.attempts) == (True, 1), found.problem
    with pytest.raises(ConnectionLost):  # the attempt that the look-up blocked, late
        submission.submit()
    submission.attempt = found.attempts
    job_id = submission.submit()
    assert submission.look().job_id == job_id
    row = next(row for row in line.ask(poll_queue([job_id])).jobs or () if row.job_id == job_id)
    assert row.submit_time is not None and row.submit_time > 1_700_000_000
    assert line.run("bash -c 'type -t module'").out == "function\n", "a job inherits what is exported"
