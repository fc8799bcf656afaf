"""Rendered job scripts in a real Slurm: accepted as they are, run, sampled, cancelled."""

from __future__ import annotations

import shlex

import pytest
from msgspec.structs import replace

from labtui.domain.model import MANY_NODES, JobForm
from labtui.session.folder import FORMS
from labtui.training_logs.gpu_sampler import read_samples
from tests.real_cluster import Cluster, Student
from tests.real_cluster.cluster import wait_until
from tests.slurm_templates.samples import HEADER_BEGIN, PROFILE, draft, rendered

pytestmark = pytest.mark.cluster

PASSING = "import os, sys\nprint('training', os.environ['CIFAR10_DATA'], *sys.argv, flush=True)\n"


def script_for(student: Student, form: JobForm, **more: object) -> str:
    """A job script for the test cluster, whose container is where the student sees it."""
    profile = replace(PROFILE, container=student.container, data_dir=student.data_dir)
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
        self.shell(f"cat > {shlex.quote(name)}", stdin=text)

    def submit(self) -> str:
        return self.shell("sbatch --parsable job.slurm").strip()

    def read(self, pattern: str) -> str:
        """What the file of this name holds; empty when it is not there."""
        return self.cluster.as_student(f"cat {self.path}/{pattern} 2>/dev/null").out

    def state(self, job: str) -> str:
        """Slurm's word for the job, and its exit code."""
        shown = self.cluster.as_root("scontrol", "-o", "show", "job", job).out
        words = dict(word.split("=", 1) for word in shown.split() if "=" in word)
        return f"{words['JobState']} {words['ExitCode']}"


@pytest.mark.parametrize("form", FORMS)
def test_slurm_would_accept_it(cluster, student, form):
    place = Place(cluster, student, f"test-only-{form}")
    run = replace(draft(form).runs[0], n_gpus=4, nodes=1)
    one_node = {"runs": (run,), "gpus": 4, "nodes": 1} if form in MANY_NODES else {}
    place.write("job.slurm", script_for(student, form, **one_node))
    shown = place.shell("sbatch --test-only job.slurm")
    assert "to start at" in shown
    assert ("partition gpp" if form == "cpu" else "partition acc") in shown


def test_slurm_would_refuse_another_account(cluster, student):
    """The same check says no where it should, so its yes means something."""
    place = Place(cluster, student, "test-only-no")
    place.write("job.slurm", script_for(student, "cpu", account="nct_999"))
    assert cluster.as_student(f"cd {place.path} && sbatch --test-only job.slurm").status != 0


def test_a_job_runs_its_trainings_and_samples_its_gpus(cluster, student):
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
    samples = read_samples(place.read(f"ResNet50-zm2.{job}.gpu.csv").encode())
    assert {sample.index for sample in samples} == {0, 1, 2, 3}
