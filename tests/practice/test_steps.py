"""The steps of a job: how large they are, which wait for which, and that they end with their job.

What srun prints is compared with the real one in `tests/contract/test_sbatch.py`.
"""

import os
import shutil
import subprocess

import pytest

from labtui.practice.cluster import PracticeCluster
from labtui.practice.command_line import CommandError, compress_nodes, expand_nodes
from labtui.practice.srun import plan_step
from tests.real_cluster.cluster import alive, wait_until

JOB = {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "4", "SLURM_CPUS_ON_NODE": "8", "SLURM_JOB_NUM_NODES": "1"}


def planned(text, **environment):
    return plan_step([*text.split(), "echo"], {**JOB, **environment})


def test_tasks_are_spread_over_the_nodes_of_the_job_whose_lists_are_those_of_slurm():
    nodes = {"SLURM_JOB_NUM_NODES": "3", "SLURM_JOB_NODELIST": "as01r1b[01-02,04]", "SLURM_NTASKS": "3"}
    step = planned("--ntasks-per-node=1", **nodes)
    places = [(0, "as01r1b01", 0), (1, "as01r1b02", 0), (2, "as01r1b04", 0)]
    assert (step.tasks, [step.place(task) for task in range(3)]) == (3, places)
    assert [planned("-n 6 -c 4", **nodes).place(task)[0] for task in range(6)] == [0, 0, 1, 1, 2, 2]
    assert planned("-N 2 -n 2", **nodes).nodes == ("as01r1b01", "as01r1b02")
    with pytest.raises(CommandError, match="More processors requested than permitted"):
        planned("-n 6 -c 5", **nodes)
    assert planned("", SLURM_CPUS_PER_TASK="8").cpus_per_task is None, "not inherited from the job"
    assert planned("", SRUN_CPUS_PER_TASK="2").cpus_per_task == 2
    four = ["as01r1b01", "as01r1b02", "as01r1b04", "as01r1b08"]
    lists = {"as01r1b01": four[:1], "n[1-3]": ["n1", "n2", "n3"], "as01r1b[01-02,04,08]": four, "": []}
    for short, names in lists.items():
        assert (compress_nodes(names), expand_nodes(short)) == (short, names)


HEADER = b"#!/bin/bash\n#SBATCH -A nct_000 -q gp_training -n 2\n"


def submitted(cluster, script):
    """The job of a script that is handed to sbatch in the home of the student."""
    words, home = ["bash", "-lc", "sbatch --parsable job.sh"], cluster.layout.home
    (home / "job.sh").write_bytes(HEADER + script)
    shown = subprocess.check_output(words, cwd=home, env=cluster._ssh.environment, text=True)
    return cluster.controller.jobs[int(shown.split()[-1])]


@pytest.mark.skipif(os.name == "nt" or shutil.which("bash") is None, reason="needs bash")
def test_the_tasks_of_a_cancelled_job_end_with_it():
    with PracticeCluster(factor=200) as cluster:
        begun = b"srun -l sh -c 'echo $$ > pid.$SLURM_PROCID; echo begun; exec /bin/sleep 600'\n"
        job = submitted(cluster, begun)
        pids = [cluster.layout.home / "pid.0", cluster.layout.home / "pid.1"]
        wait_until(lambda: all(path.exists() and path.read_text().strip() for path in pids), what="the tasks")
        cluster.controller.cancel(job.job_id, cluster.clock.now())
        wait_until(lambda: job.finished, what="the tasks")
        assert job.state == "CANCELLED"
        wait_until(lambda: not any(alive(int(path.read_text())) for path in pids), what="the tasks to end")
