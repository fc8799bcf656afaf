"""The steps of a job: how large they are, which wait for which, and that they end with their job.

What srun prints is compared with the real one in `tests/contract/test_srun.py`.
"""

import os
import shutil
import subprocess
import sys
import threading
import time

import pytest

from labtui.practice.cluster import PracticeCluster
from labtui.practice.slurm.job import Site, compressed, expanded
from labtui.practice.slurm.options import OptionProblem, build_request, parse_words
from labtui.practice.slurm.steps import StepProblem, plan_step, task_ranges
from tests.practice.test_cluster import alive

needs_posix = pytest.mark.skipif(os.name == "nt" or shutil.which("bash") is None, reason="needs bash")
JOB = {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "4", "SLURM_CPUS_ON_NODE": "8", "SLURM_JOB_NUM_NODES": "1"}


def planned(text, **environment):
    return plan_step([*text.split(), "echo"], {**JOB, **environment})


def test_a_step_takes_everything_unless_it_says_how_much():
    assert planned("").cpus == 8 and planned("-n 1").cpus == 8
    assert planned("--exact").cpus == 4
    assert planned("-n 2 -c 3").cpus == 6
    assert planned("--exclusive -n 1").cpus == 1
    assert planned("--overlap").cpus == 0
    assert planned("-O -n 50").tasks == 50


def test_tasks_are_spread_over_the_nodes_of_the_job():
    nodes = {"SLURM_JOB_NUM_NODES": "3", "SLURM_JOB_NODELIST": "as01r1b[01-02,04]", "SLURM_NTASKS": "3"}
    step = planned("--ntasks-per-node=1", **nodes)
    places = [(0, "as01r1b01", 0), (1, "as01r1b02", 0), (2, "as01r1b04", 0)]
    assert (step.tasks, step.cpus, [step.place(task) for task in range(3)]) == (3, 24, places)
    step = planned("-n 6 -c 4", **nodes)
    assert [step.place(task)[0] for task in range(6)] == [0, 0, 1, 1, 2, 2]
    assert planned("-N 2 -n 2", **nodes).nodes == ("as01r1b01", "as01r1b02")
    with pytest.raises(StepProblem, match="More processors requested than permitted"):
        planned("-n 6 -c 5", **nodes)


@pytest.mark.parametrize(
    ("names", "short"),
    [
        (["as01r1b01"], "as01r1b01"), (["n1", "n2", "n3"], "n[1-3]"),
        (["as01r1b01", "as01r1b02", "as01r1b04", "as01r1b08"], "as01r1b[01-02,04,08]"), ([], ""),
    ],
)  # fmt: skip
def test_node_lists_are_written_and_read_as_slurm_does(names, short):
    assert compressed(names) == short
    assert expanded(short) == names


def test_the_jobs_cpus_per_task_are_not_inherited_but_sruns_own_variable_is():
    assert planned("", SLURM_CPUS_PER_TASK="8").cpus_per_task is None
    assert planned("", SRUN_CPUS_PER_TASK="2").cpus_per_task == 2
    with pytest.raises(StepProblem, match="More processors requested"):
        planned("", SRUN_CPUS_PER_TASK="3")


def test_a_bad_exit_kills_the_others_when_asked():
    assert [planned(words).kill_on_bad_exit for words in ("", "-K", "-K1", "-K0", "--kill-on-bad-exit=0")] == [
        False, True, True, False, False,
    ]  # fmt: skip


def test_gpus_of_a_job_with_gpus():
    assert planned("--gres=gpu:1", SLURM_JOB_GPUS="0").tasks == 4
    assert planned("--gpus=0").tasks == 4


@pytest.mark.parametrize(
    ("numbers", "text"), [([3], "task 3"), ([1, 0], "tasks 0-1"), ([0, 2, 3, 5], "tasks 0,2-3,5")]
)
def test_names_of_tasks(numbers, text):
    assert task_ranges(numbers) == text


@pytest.mark.parametrize(
    ("words", "outputs"),
    [
        (["--no"], "option '--no' is ambiguous; possibilities: '--no-requeue' '--nodelist' '--nodes'"),
        (["--hold=yes"], "option '--hold' doesn't allow an argument"),
    ],
)
def test_sbatch_reads_options_the_same_way(words, outputs):
    with pytest.raises(OptionProblem) as caught:
        parse_words(words)
    assert outputs in str(caught.value)


@pytest.mark.parametrize(
    ("options", "cpus", "tasks"),
    [
        ({"ntasks": "4", "cpus-per-task": "20"}, 80, 4),
        ({"ntasks-per-node": "3", "cpus-per-task": "2"}, 6, 3),
        ({"ntasks": "2", "ntasks-per-node": "4"}, 4, 2),
        ({"cpus-per-task": "20"}, 20, None),
    ],
)
def test_the_cpus_of_an_allocation(options, cpus, tasks):
    site = Site(user="u", account="a")
    request = build_request(
        {"account": "a", "qos": "gp_training", **options}, name="j", work_dir="/w", site=site
    )
    assert (request.cpus, request.tasks) == (cpus, tasks)


@needs_posix
def test_steps_wait_for_one_another(tmp_path):
    from labtui.practice.srun import Ledger

    other = subprocess.Popen(
        [sys.executable, "-c", f"""
from pathlib import Path
from labtui.practice.srun import Ledger
print(Ledger(Path({str(tmp_path)!r}), 4).begin(3, print), flush=True)
input()
"""], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # fmt: skip
    assert other.stdout.readline() == "0\n"
    ledger, outputs, numbers = Ledger(tmp_path, 4), [], []
    assert ledger.begin(1, outputs.append) == 1, "there is room beside it"
    ledger.end()
    assert ledger.begin(0, outputs.append) == 2, "sharing needs none"
    ledger.end()
    assert outputs == []
    waiting = threading.Thread(target=lambda: numbers.append(ledger.begin(4, outputs.append, 0.01)))
    waiting.start()
    while not outputs:
        time.sleep(0.01)
    other.kill()  # it gives nothing back; that it is gone is enough
    other.wait()
    waiting.join(30)
    assert (numbers, outputs) == ([3], [True, False])


HEADER = b"#!/bin/bash\n#SBATCH -A nct_000 -q gp_training -n 2\n"


def submitted(cluster, script):
    """The job of a script that is handed to sbatch in the home of the student."""
    (cluster.layout.home / "job.sh").write_bytes(HEADER + script)
    completed = subprocess.run(
        ["bash", "-lc", "sbatch --parsable job.sh"],
        cwd=cluster.layout.home, env={**cluster._ssh.environment}, check=True, capture_output=True, text=True,
    )  # fmt: skip
    return cluster.controller.jobs[int(completed.stdout.split()[-1])]


@needs_posix
def test_the_tasks_of_a_cancelled_job_end_with_it():
    with PracticeCluster.start(factor=200) as cluster:
        begun = b"srun -l sh -c 'echo $$ > pid.$SLURM_PROCID; echo begun; exec /bin/sleep 600'\n"
        job = submitted(cluster, begun)
        pids = [cluster.layout.home / "pid.0", cluster.layout.home / "pid.1"]
        wait_until(lambda: all(path.exists() and path.read_text().strip() for path in pids))
        cluster.controller.cancel(job.job_id, cluster.clock.now())
        wait_until(lambda: job.finished)
        assert job.state == "CANCELLED"
        wait_until(lambda: not any(alive(int(path.read_text())) for path in pids))


@needs_posix
def test_a_task_that_ends_a_second_later_is_not_killed_for_it():
    """The minute of ``--wait=60`` is a fraction of a second on the cluster's clock."""
    with PracticeCluster.start(factor=400) as cluster:
        job = submitted(
            cluster,
            b"srun --wait=60 sh -c 'test $SLURM_PROCID = 0 || /bin/sleep 1; echo > end.$SLURM_PROCID'\n",
        )
        wait_until(lambda: job.finished)
        assert job.state == "COMPLETED"
        assert (cluster.layout.home / "end.1").exists()


def wait_until(condition, deadline_s=240):
    end = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)
