"""Chapter 12 and TensorFlow in small on two nodes; shell and screens; how they fail."""

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

from labtui.results.catalogue import lab_charts
from labtui.session.folder import LabFolder, read_template
from labtui.session.session import Session
from labtui.training_logs.gpu_sampler import read_samples
from labtui.tui.screens.plan import PlanScreen
from tests.commands.conftest import Labtui
from tests.conftest import TORCH_PYTHON
from tests.e2e.test_tui_real_cluster import open_app, sees
from tests.real_cluster import Cluster, Student
from tests.real_cluster.cluster import wait_until
from tests.tui.waiting import come_to, focus_at, ready, submit, text_of

EDITION = """
format = 1
id = "two-nodes"
title = "A small network on two nodes"
course = "Tests"
term = "2026"
source = "Tests"
about = "A tenth of a second of chapter 12."
profiles = ["mn5"]
images = 64
base_learning_rate = 0.0005
startup_seconds = [1, 60]

[[tasks]]
id = "1"
title = "1, 2 and 4 ranks"
what = "Train ViT-Ti on one, two and four ranks."
why = "To see the rig."
checks = [{ kind = "runs" }]
files = ["pytorch/train_ddp.py", "pytorch/datasets.py", "pytorch/models.py", "pytorch/distributed.py",
    "pytorch/schedules.py", "pytorch/course_log.py"]

[[tasks.sweeps]]
form = "torchrun"
model = "custom"
gpus = [1, 2, 4]
batch = 8
batch_option = "per-gpu"
epochs = 2
script = "pytorch/train_ddp.py"
data_set = "cifar10"
time_limit_minutes = 10
options = ["--device", "cpu", "--resolution", "32", "--images", "64", "--epochs_eval", "2",
    "--intermidiate_dimensions", "32"]

[[tasks]]
id = "2"
title = "Two workers"
what = "Train with MultiWorkerMirroredStrategy."
why = "To see the rig."
checks = [{ kind = "runs" }]
files = ["tensorflow/train_multiworker.py"]

[[tasks.sweeps]]
form = "srun-python"
model = "small"
gpus = [1, 2]
batch = 16
epochs = 2
script = "tensorflow/train_multiworker.py"
time_limit_minutes = 10
options = ["--device", "cpu", "--images", "64"]
"""
PROFILE = """
id = "pair"
title = "Two pretend nodes"
login_hosts = ["{host}"]
queue_option = "partition"
gpu_queue = "gpu"
cpu_queue = "gpu"
gres = "gpu"
cpus_per_gpu = 1
gpus_per_node = {gpus}
cpus_per_node = {gpus}
root = "{scratch}"
data_dir = "{data}"

[launch]
python = "{python}"
setup = ['export PATH="{bin}:$PATH" OMP_NUM_THREADS=1']

[[queues]]
name = "gpu"
devices = "gpu"
max_minutes = 480
max_nodes = 2
"""


def init_words(
    folder: Path, student: Student, gpus_per_node: int, python: str = str(TORCH_PYTHON)
) -> list[str]:
    """The words of `labtui init` for ``folder/lab``; writes the edition and the profile beside it."""
    edition, profile = folder / "two-nodes.toml", folder / "pair.toml"
    edition.write_text(EDITION)
    profile.write_text(
        PROFILE.format(
            host=student.host, scratch=student.scratch, data=student.data_dir, bin=TORCH_PYTHON.parent,
            gpus=gpus_per_node, python=python,
        )
    )  # fmt: skip
    options = {
        "--lab": edition, "--cluster": profile, "--host": student.host, "--port": student.port,
        "--root": f"{student.scratch}/{folder.name}", "--user": student.user, "--identity": student.key,
        "--host-key": student.host_key,
    }  # fmt: skip
    return ["init", str(folder / "lab"), *(str(word) for pair in options.items() for word in pair)]


# --------------------------------------------------------------------------- trained and failing


pytestmark = [
    pytest.mark.cluster(separate_nodes=True),
    pytest.mark.xdist_group("two-nodes"),
    pytest.mark.slow,
]


@pytest.fixture
def member(pair: Cluster) -> Student:
    """The student of the two nodes, with an empty queue."""
    pair.repair()
    pair.cancel_all()
    return pair.student


def new_lab(folder: Path, student: Student, *, gpus_per_node: int, python: str = str(TORCH_PYTHON)) -> Labtui:
    home = folder / "home"
    home.mkdir()
    labtui = Labtui(home, folder / "lab")
    labtui(*init_words(folder, student, gpus_per_node, python))
    return labtui


async def submit_four_ranks(lab: LabFolder) -> None:
    """The largest size of task 1 through the screens, left while its job is on its way."""
    app, session = open_app(lab)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await sees(pilot, "● online")
        app.go_to_task("1")
        await pilot.press("s")
        await come_to(pilot, lambda: ready(app.screen), "the plan")
        screen = app.screen
        assert isinstance(screen, PlanScreen)
        assert "4 on 2 nodes" in text_of(app)
        for row in (0, 1):
            focus_at(screen, row, "gpus")
            await pilot.press("d")
            await pilot.pause()
        await come_to(pilot, lambda: len(screen.plan.previews) == 1, "one job in the plan")
        await submit(pilot)
        await come_to(pilot, lambda: any(one.job for one in session.state.submissions.values()), "a job id")
        await pilot.press("q")
    session.close()


@pytest.mark.torch
async def test_one_two_and_four_ranks(pair, member, tmp_path, monkeypatch):
    labtui = new_lab(tmp_path, member, gpus_per_node=2)
    monkeypatch.setenv("HOME", str(labtui.home))
    await submit_four_ranks(LabFolder(labtui.folder))
    labtui("submit", "1", "--gpus", "1", "--yes", "--force")
    labtui("submit", "1", "--gpus", "2", "--form", "task-per-gpu", "--yes", "--force")
    labtui.lines("watch")
    assert outcomes(labtui) == ["completed"] * 3
    rows = labtui.json("results")["rows"]
    found = [(row["n_gpus"], row["batch_size"], row["epochs"]) for row in rows]
    assert found == [(1, 8, 1), (2, 16, 1), (4, 32, 1)]
    for row in rows:
        assert row["efficiency"]["value"] == pytest.approx(row["speedup"]["value"] / row["n_gpus"], rel=1e-3)
    with Session.open(labtui.folder, start=False) as session:
        charts = {chart.family: chart for chart in lab_charts(session.results())}
        assert [point.x for point in charts["efficiency"].series[0].points] == [1, 2, 4], charts.keys()
        (largest,) = [one for one in session.state.submissions.values() if one.nodes == 2]
        assert largest.job is not None and largest.job.node == "node[1-2]"
        sampled = session.log_path(largest.token, "gpu")
        assert sampled is not None
        seen = {sample.name for sample in read_samples(sampled.read_bytes())}
        assert seen == {f"node{node} GPU {gpu}" for node in (1, 2) for gpu in (0, 1)}


def trained(labtui: Labtui, task: str) -> list[str | None]:
    """Submit a task and watch it to its end: how each run ended."""
    labtui("submit", task, "--yes", "--force")
    labtui.lines("watch")
    return outcomes(labtui)


def outcomes(labtui: Labtui) -> list[str | None]:
    """Of each run; `watch` tells of those alone that end while it watches."""
    with Session.open(labtui.folder, start=False) as session:
        return [run.outcome for run in session.state.runs.values()]


def submitted(labtui: Labtui, pair: Cluster, *words: str) -> tuple[str, Path]:
    """A job of two ranks, one on each node: its id and where its standard output lies."""
    before = set(pair.jobs())
    labtui("submit", "1", "--gpus", "2", "--yes", "--force", "--again", *words)
    wait_until(lambda: set(pair.jobs()) > before, what="the job")
    (job,) = set(pair.jobs()) - before
    output = pair.as_root("scontrol", "show", "job", job).out
    return job, pair.outside(output.split("StdOut=")[1].split()[0])


def trains(out: Path) -> None:
    wait_until(lambda: out.exists() and "[EPOCH: 2]" in out.read_text(), what=f"epoch 2 in {out.name}")


def kill_rank(pair: Cluster, job: str, rank: int) -> None:
    found = f"for p in /proc/[0-9]*; do grep -zqx RANK={rank} $p/environ && grep -zqx SLURM_JOB_ID={job} $p/environ"
    done = pair.as_root("sh", "-c", f"({found} && kill -9 ${{p#/proc/}} && echo killed; done) 2>/dev/null")
    assert done.out == "killed", done


HANGS = """mkdir slow
cat > slow/torchrun <<'end'
#!/bin/bash
[ "$(hostname)" != node2 ] || exec sleep 600
PATH=${PATH#*:} exec torchrun "$@"
end
chmod +x slow/torchrun
PATH=$PWD/slow:$PATH
"""
"""Shell lines after which nothing starts on the second node, as when a container hangs there."""
LISTENER = "import os, socket; s = socket.socket(); s.bind(('', 20001 + int(os.environ['SLURM_JOB_ID']))); s.listen(); "
LISTENER += "[*iter(s.accept, 0)]"


def listen_on_the_next_port(pair: Cluster) -> int:
    """A job on node1 that holds the port which the next job's id makes."""
    output = pair.as_student(
        f'sbatch -w node1 -o /dev/null --wrap "{pair.settings.python} -c \\"{LISTENER}\\""'
    ).out
    job = int(output.split()[-1])
    heard = f"bash -c ': < /dev/tcp/node1/{20001 + job}'"
    wait_until(lambda: pair.as_student(heard).status == 0, what="the listener")
    return 20001 + job


@pytest.mark.torch
def test_each_failure_names_rank_and_node(pair, member, tmp_path):
    labtui = new_lab(tmp_path, member, gpus_per_node=1)
    template = labtui.folder / "slurm" / "templates" / "torchrun.slurm"
    shipped = read_template("torchrun")
    template.parent.mkdir(exist_ok=True)
    late = shipped.replace("join_timeout=300", "join_timeout=5").replace("--wait=60", "--wait=3")
    template.write_text(late.replace("# ---- The trainings.", f"{HANGS}# ---- The trainings."))
    waiting, _ = submitted(labtui, pair)
    template.write_text(shipped)
    killed, out = submitted(labtui, pair, "--epochs", "3000")
    trains(out)
    kill_rank(pair, killed, 1)
    port = listen_on_the_next_port(pair)
    lost, out = lost_out = submitted(labtui, pair, "--epochs", "3000")
    trains(out)
    assert f"--rdzv_endpoint=node1:{port + 1} " in out.read_text(), "the port of its own id is another job's"
    pair.lose_node(2)
    wait_until(lambda: pair.jobs()[lost] == "NODE_FAIL", what="the job to be given up with its node")
    pair.repair()
    cut, out = cut_out = submitted(labtui, pair, "--epochs", "3000", "--form", "task-per-gpu")
    trains(out)
    pair.cut_node(2)
    pair.as_root("scontrol", "update", "nodename=node2", "state=down", "reason=unreachable")
    wait_until(
        lambda: pair.jobs()[cut] == "NODE_FAIL", what="the job to be given up with the unreachable node"
    )
    labtui("watch", code=1)
    rows: list[dict[str, Any]] = labtui.json("queue", "--offline")["runs"]
    output = {row["run"]: " ".join(found["advice"] for found in row["diagnosis"]) for row in rows}
    assert "Not all nodes joined the training" in output[1], (waiting, output)
    assert "Rank 1 on node2 was killed" in output[2], output
    again = labtui("retry", "3", "--dry-run", "--offline").stdout
    assert "#SBATCH --nodes=2" in again and "--rdzv_endpoint" in again, again
    for number, (job, out) in ((3, lost_out), (4, cut_out)):
        assert "The node node2 failed" in output[number], (job, output)
        # On a slow machine Slurm ends the job before the other rank has said whom it misses.
        if "Rank 1 on node2" in out.with_suffix(".err").read_text():
            assert "Rank 1 on node2" in output[number], (job, output)


@pytest.mark.tensorflow
def test_two_workers_of_tensorflow(pair, member, tmp_path):
    if importlib.util.find_spec("tf_keras") is None:
        pytest.skip("tf_keras is not installed: training over several workers was NOT tried")
    labtui = new_lab(tmp_path, member, gpus_per_node=1, python=sys.executable)
    assert trained(labtui, "2") == ["completed"] * 2
    rows = labtui.json("results")["rows"]
    assert [(row["model"], row["n_gpus"], row["batch_size"], row["epochs"]) for row in rows] == [
        ("small", 1, 16, 1),
        ("small", 2, 32, 1),
    ]
    with Session.open(labtui.folder, start=False) as session:
        charts = {chart.family: chart for chart in lab_charts(session.results())}
        assert [point.x for point in charts["efficiency"].series[0].points] == [1, 2], charts.keys()
        (job,) = [one for one in session.state.submissions.values() if one.nodes == 2]
        assert job.job is not None and job.job.node == "node[1-2]"
