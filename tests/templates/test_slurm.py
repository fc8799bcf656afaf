"""Rendered job scripts in a real Slurm: accepted as they are, run, sampled, cancelled."""

from __future__ import annotations

import shlex

import msgspec
import pytest

from labtui.assets import FORMS
from labtui.core.jobscript import HEADER_BEGIN
from labtui.core.model import JobForm
from labtui.core.sampler import read_samples
from tests.cluster import Cluster, Student
from tests.cluster.cluster import wait_until
from tests.templates.samples import PROFILE, rendered

pytestmark = pytest.mark.cluster

WAITING = "import sys, time\nprint('training', *sys.argv, flush=True)\ntime.sleep(600)\n"
PASSING = "import os, sys\nprint('training', os.environ['CIFAR10_DATA'], *sys.argv, flush=True)\n"


def script_for(student: Student, form: JobForm, **more: object) -> str:
    """A job script for the test cluster, whose container is where the student sees it."""
    profile = msgspec.structs.replace(PROFILE, container=student.container, data_dir=student.data_dir)
    qos = student.cpu_qos if form == "cpu" else student.gpu_qos
    return rendered(form, profile, **({"account": student.account, "qos": qos} | more))


class Place:
    """A directory of the student's on the cluster."""

    def __init__(self, cluster: Cluster, student: Student, name: str) -> None:
        self.cluster = cluster
        self.path = f"{student.scratch}/templates/{name}"
        self.shell(f"rm -rf {shlex.quote(self.path)} && mkdir -p {shlex.quote(self.path)}", cd=False)

    def shell(self, command: str, *, stdin: str = "", cd: bool = True) -> str:
        """Run a command there as the student; its output."""
        place = f"cd {shlex.quote(self.path)} && " if cd else ""
        done = self.cluster.as_student(place + command, stdin=stdin.encode())
        assert done.status == 0, (command, done.out, done.err)
        return done.out + done.err

    def write(self, name: str, text: str) -> None:
        """Write a file."""
        self.shell(f"cat > {shlex.quote(name)}", stdin=text)

    def submit(self) -> str:
        """Submit job.slurm; the job id."""
        return self.shell("sbatch --parsable job.slurm").strip()

    def read(self, pattern: str) -> str:
        """What the file of this name holds; empty when it is not there."""
        return self.cluster.as_student(f"cat {self.path}/{pattern} 2>/dev/null").out

    def state(self, job: str) -> str:
        """Slurm's word for the job, and its exit code."""
        said = self.cluster.as_root("scontrol", "-o", "show", "job", job).out
        words = dict(word.split("=", 1) for word in said.split() if "=" in word)
        return f"{words['JobState']} {words['ExitCode']}"


@pytest.mark.parametrize("form", FORMS)
def test_slurm_would_accept_it(cluster: Cluster, student: Student, form: JobForm) -> None:
    place = Place(cluster, student, f"test-only-{form}")
    place.write("job.slurm", script_for(student, form))
    said = place.shell("sbatch --test-only job.slurm")
    assert "to start at" in said
    assert ("partition gpp" if form == "cpu" else "partition acc") in said


def test_slurm_would_refuse_another_account(cluster: Cluster, student: Student) -> None:
    """The same check says no where it should, so its yes means something."""
    place = Place(cluster, student, "test-only-no")
    place.write("job.slurm", script_for(student, "cpu", account="nct_999"))
    assert cluster.as_student(f"cd {place.path} && sbatch --test-only job.slurm").status != 0


def test_a_job_runs_its_trainings_and_samples_its_gpus(cluster: Cluster, student: Student) -> None:
    place = Place(cluster, student, "runs")
    # Each training lasts until the sampler has written something, so there is something to read.
    wait = (
        "import glob, time\n"
        "while not any(open(name).read().count('\\n') > 4 for name in glob.glob('*.gpu.csv')):\n"
        "    time.sleep(0.05)\n"
    )
    place.write("ResNet50.py", PASSING + wait)
    place.write("job.slurm", script_for(student, "one-job", job_name="ResNet50-zm2"))
    job = place.submit()
    wait_until(
        lambda: place.state(job).split()[0] not in ("PENDING", "RUNNING", "COMPLETING"), what="the job"
    )
    out, err = place.read(f"ResNet50-zm2.{job}.out"), place.read(f"ResNet50-zm2.{job}.err")
    assert place.state(job) == "COMPLETED 0:0", (out, err)
    assert HEADER_BEGIN in out and f"job:       {job} ResNet50-zm2" in out
    assert "NVIDIA-SMI" in out
    trainings = [line for line in out.splitlines() if line.startswith("training ")]
    assert [line.split()[-1] for line in trainings] == ["1", "2", "4"]
    assert all(student.data_dir in line for line in trainings)
    reading = read_samples(place.read(f"ResNet50-zm2.{job}.gpu.csv").encode())
    assert {sample.index for sample in reading.samples} == {0, 1, 2, 3}


def test_nothing_outlives_a_cancelled_job(cluster: Cluster, student: Student) -> None:
    place = Place(cluster, student, "cancelled")
    place.write("ResNet50.py", WAITING)
    place.write("job.slurm", script_for(student, "one-job", job_name="ResNet50-zm3"))
    job = place.submit()
    wait_until(lambda: "training " in place.read(f"ResNet50-zm3.{job}.out"), what="the first training")
    wait_until(lambda: "2" in place.read(f"ResNet50-zm3.{job}.gpu.csv"), what="the first sample")
    assert "--loop=2" in place.shell("ps -u $USER -o args=")
    place.shell(f"scancel {job}")
    wait_until(lambda: place.state(job).startswith("CANCELLED"), what="the job to be cancelled")
    wait_until(lambda: "--loop=2" not in place.shell("ps -u $USER -o args="), what="the sampler to end")
    assert "ResNet50.py" not in place.shell("ps -u $USER -o args=")
    assert place.read(f"ResNet50-zm3.{job}.out").count("training ") == 1


def test_a_failed_training_fails_the_job_and_not_the_others(cluster: Cluster, student: Student) -> None:
    place = Place(cluster, student, "fails")
    place.write("ResNet50.py", "import sys\nsys.exit(5 if sys.argv[-1] == '2' else 0)\n")
    place.write("job.slurm", script_for(student, "one-job", job_name="ResNet50-zm4"))
    job = place.submit()
    wait_until(
        lambda: place.state(job).split()[0] not in ("PENDING", "RUNNING", "COMPLETING"), what="the job"
    )
    assert place.state(job) == "FAILED 5:0"
    assert place.read(f"ResNet50-zm4.{job}.err").count("ended with exit status") == 1
