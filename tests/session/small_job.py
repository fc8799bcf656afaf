"""A small job, and a lab folder for the real cluster, for tests of sessions there."""

from pathlib import Path

from labtui.domain.model import JobPhase, RunSpec, SubmissionDraft
from labtui.domain.state import SubmissionState
from labtui.session.folder import LabFolder
from labtui.session.settings import Settings, with_changes
from labtui.slurm.job_script import STARTED_GUARD
from tests.real_cluster import Student

HEAD = """#!/bin/bash
#SBATCH --account={account}
#SBATCH --qos=gp_training
#SBATCH --time=00:10:00
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=1
#SBATCH --output=%x.%j.out
#SBATCH --error=%x.%j.err
"""
"""The head of a job on one CPU, to be filled in with `str.format`."""
SCRIPT = (
    HEAD
    + STARTED_GUARD
    + """
echo "hello from $SLURM_JOB_NAME"
seq 1 {lines}
printf 'no newline at the end'
"""
)
"""A small job, to be filled in with `str.format`; it continues only if it is the first of its submission."""


def make_lab(path: Path, student: Student, port: int, **more: str) -> LabFolder:
    """A lab folder of this student; `port` may be a proxy's, `more` are settings."""
    settings = Settings(
        edition="hpc4ai-ch10", profile="mn5", host="127.0.0.1", port=port, user=student.user,
        identity=str(student.key), host_key=student.host_key, account=student.account,
        root=f"{student.scratch}/labtui-{path.name}",
    )  # fmt: skip
    return LabFolder.create(path, with_changes(settings, **more))


def draft(account: str) -> SubmissionDraft:
    """A small job in a queue without a limit of submitted jobs."""
    spec = RunSpec(model="ResNet50", device="cpu", n_gpus=0, batch_size=8, epochs=1, script="ResNet50_seq.py")
    return SubmissionDraft(
        task_id="10.3", form="cpu", runs=(spec,), gpus=0, cpus=1, time_limit_minutes=5, account=account,
        qos="gp_training", job_name="once",
    )  # fmt: skip


def complete(item: SubmissionState) -> bool:
    """Whether the job is over and both of its logs were read to the end."""
    if item.job is None or item.job.phase is not JobPhase.FINISHED:
        return False
    return all(stream in item.logs and item.logs[stream].complete for stream in item.remote_logs)
