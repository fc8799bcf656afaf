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

TEXTS = Path(__file__).with_name("two_nodes")
"""An edition, and a profile whose places in braces `new_lab` fills."""


pytestmark = [
    pytest.mark.cluster(separate_nodes=True), pytest.mark.xdist_group("two-nodes"), pytest.mark.slow,
]  # fmt: skip


@pytest.fixture
def member(pair: Cluster) -> Student:
    """The student of the two nodes, with an empty queue."""
    pair.repair()
    pair.cancel_all()
    return pair.student


def new_lab(folder: Path, student: Student, *, gpus_per_node: int, python: str = str(TORCH_PYTHON)) -> Labtui:
    (folder / "home").mkdir()
    profile = folder / "pair.toml"
    profile.write_text(
        (TEXTS / "profile.toml").read_text().format(
            host=student.host, scratch=student.scratch, data=student.data_dir, bin=TORCH_PYTHON.parent,
            gpus=gpus_per_node, python=python,
        )
    )  # fmt: skip
    lab = [f"--lab={TEXTS / 'edition.toml'}", f"--cluster={profile}"]
    labtui = Labtui(folder / "home", folder / "lab")
    root = f"--root={student.scratch}/{folder.name}"
    labtui("init", str(labtui.folder), *lab, *student.options, root)
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
async def test_one_and_four_ranks(pair, member, tmp_path, monkeypatch):
    labtui = new_lab(tmp_path, member, gpus_per_node=2)
    monkeypatch.setenv("HOME", str(labtui.home))
    await submit_four_ranks(LabFolder(labtui.folder))
    labtui("submit", "1", "--gpus", "1", "--form", "task-per-gpu", "--yes", "--force", "a test")
    labtui.lines("watch")
    assert outcomes(labtui) == ["completed"] * 2
    rows = labtui.json("results")["rows"]
    found = [(row["n_gpus"], row["batch_size"], row["epochs"]) for row in rows]
    assert found == [(1, 8, 1), (4, 32, 1)]
    for row in rows:
        assert row["efficiency"]["value"] == pytest.approx(row["speedup"]["value"] / row["n_gpus"], rel=1e-3)
    with Session.open(labtui.folder, start=False) as session:
        assert not lab_charts(session.results()), "runs without GPUs are small runs, which are in no chart"
        (largest,) = [one for one in session.state.submissions.values() if one.nodes == 2]
        assert largest.job is not None and largest.job.node == "node[1-2]"
        sampled = session.log_path(largest.token, "gpu")
        assert sampled is not None
        seen = {sample.name for sample in read_samples(sampled.read_bytes())}
        assert seen == {f"node{node} · GPU {gpu}" for node in (1, 2) for gpu in (0, 1)}


def outcomes(labtui: Labtui) -> list[str | None]:
    """Of each run; `watch` tells of those alone that end while it watches."""
    with Session.open(labtui.folder, start=False) as session:
        return [run.outcome for run in session.state.runs.values()]


def submitted(labtui: Labtui, pair: Cluster, *words: str) -> tuple[str, Path]:
    """A job of two ranks, one on each node: its id and where its standard output lies."""
    before = set(pair.jobs())
    labtui("submit", "1", "--gpus", "2", "--yes", "--force", "a test", "--again", *words)
    wait_until(lambda: bool(set(pair.jobs()) - before), what="the job")  # Slurm forgets old jobs meanwhile
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
cat > slow/sitecustomize.py <<'end'
import socket, time
if socket.gethostname() == "node2":
    time.sleep(600)
end
export PYTHONPATH=$PWD/slow
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
    port = listen_on_the_next_port(pair)
    killed, out = submitted(labtui, pair, "--epochs", "3000")
    trains(out)
    assert f"--rdzv_endpoint=node1:{port + 1} " in out.read_text(), "the port of its own id is another job's"
    kill_rank(pair, killed, 1)
    lost, out = submitted(labtui, pair, "--epochs", "3000", "--form", "task-per-gpu")
    trains(out)
    pair.lose_node(2)
    wait_until(lambda: pair.jobs()[lost] == "NODE_FAIL", what="the job to be given up with its node")
    labtui("watch", code=1)
    rows: list[dict[str, Any]] = labtui.json("queue", "--offline")["runs"]
    output = {row["run"]: " ".join(found["advice"] for found in row["diagnosis"]) for row in rows}
    assert "Not all nodes joined the training" in output[1], (waiting, output)
    assert "Rank 1 on node2 was killed" in output[2], output
    again = labtui("retry", "2", "--dry-run", "--offline").stdout
    assert "#SBATCH --nodes=2" in again and "--rdzv_endpoint" in again, again
    assert "The node node2 failed" in output[3], output
    # On a slow machine Slurm ends the job before the other rank has said whom it misses.
    if "Rank 1 on node2" in out.with_suffix(".err").read_text():
        assert "Rank 1 on node2" in output[3], output


@pytest.mark.tensorflow
def test_two_workers_of_tensorflow(pair, member, tmp_path):
    if importlib.util.find_spec("tf_keras") is None:
        pytest.skip("tf_keras is not installed: training over several workers was NOT tried")
    labtui = new_lab(tmp_path, member, gpus_per_node=1, python=sys.executable)
    labtui("submit", "2", "--yes", "--force", "a test")
    labtui.lines("watch")
    assert outcomes(labtui) == ["completed"]
    (row,) = labtui.json("results")["rows"]
    assert [row[name] for name in ("model", "n_gpus", "batch_size", "epochs")] == ["small", 2, 32, 1]
    with Session.open(labtui.folder, start=False) as session:
        (one,) = session.state.submissions.values()
        assert one.job is not None and one.job.node == "node[1-2]"
