"""On the practice cluster: an edition of each kind to all boxes ticked, and single tasks. See also `test_editions`."""

from contextlib import ExitStack

import pytest
from msgspec.structs import replace

from labtui.commands.cli import main
from labtui.lab.plan import PlanOverrides
from labtui.practice.cluster import PracticeCluster
from labtui.results.compute import compute_results
from labtui.results.measured import measured_from_state
from labtui.session.labs import load_edition
from tests.lab import walk
from tests.lab.marks import MARKED, unmarked
from tests.lab.mistakes import HEAD
from tests.lab.test_editions import IDS
from tests.results.helpers import published

pytestmark = pytest.mark.slow

MICRO = published("chapter12.toml")["tables"][0]
PUBLISHED_WORKERS = (2163, 3871, 6953, 10818, 10881, 10746, 10496)
"""Images per second of table 11.3, with 1, 2, 4, 8, 10, 16 and 20 workers."""
KINDS = {"TensorFlow": "hpc4ai-ch10", "PyTorch": "hpc4ai-ch15", "MPI": "hpc4ai-ch4"}
KINDS |= {"learning rates": "thesis-2019"}
"""An edition of each kind of program."""
ONE_AT_A_TIME = "hpc4ai-ch10"
"""Walked through the debug queues: one job of a user at a time, two hours at most, a minute of ours."""
USUAL = {"thesis-2019": PlanOverrides(epochs=4), ONE_AT_A_TIME: PlanOverrides(epochs=3)}
SOME = {"thesis-2019": {"3"}, "hpc4ai-ch15": {"15.3", "15.4"}}
"""Shorter than planned, and only these tasks, where a walk would repeat the same for minutes."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with PracticeCluster(tmp_path_factory.mktemp("cluster"), factor=300) as running:
        yield running


SEVERAL_NODES = "hpc4ai-ch12"
EXPORTED_WHOLE = "thesis-2019"
AT_ONCE = PlanOverrides(qos="acc_training", epochs=2, gpus=(4, 32))
"""A queue that takes more than one job, on all nodes of the practice cluster; two epochs have a steady one."""


def test_a_lab_that_cannot_be_trained_here_is_refused_before_anything_starts(tmp_path, capsys):
    torch = {"hpc4ai-ch11", "hpc4ai-ch12", "hpc4ai-ch15", "sa-miri-2025-ph", "sa-miri-2025-pi", "thesis-2019"}
    assert {name for name in IDS if load_edition(name).framework_scripts} == torch
    train = ["practice", "--serve", "--lab", "hpc4ai-ch12", "--train", "--keep", str(tmp_path / "kept")]
    assert main(train) == 2
    said = "--train is for the labs on one node with TensorFlow, not for Chapter 12"
    assert said in capsys.readouterr().err and not (tmp_path / "kept").exists()


def test_a_training_on_one_node_on_two_by_srun_and_on_eight(cluster, tmp_path):
    with walk.practised(cluster, tmp_path / "lab", SEVERAL_NODES) as session:
        walk.submit(session, "12.1", AT_ONCE)
        walk.submit(session, "12.1", replace(AT_ONCE, form="task-per-gpu", gpus=(8,)))
        walk.finish(session)
        items = walk.boxes(session)["12.1"].items
        state = session.state
    runs = {run.spec.n_gpus: run for run in state.runs.values()}
    assert {size: run.outcome for size, run in runs.items()} == dict.fromkeys((4, 8, 32), "completed")
    assert sum(item.met for item in items if item.kind == "runs") == 3
    for size, run in runs.items():
        assert state.submissions[run.token].nodes == run.spec.nodes == size // 4
        assert run.spec.launcher == ("task-per-gpu" if size == 8 else "torchrun")
        assert 53 < run.gpu_memory.lo == run.gpu_memory.hi < 54, "the bytes of the record"
        rate = MICRO["throughput"][MICRO["gpus"].index(size)]
        assert run.images / run.epochs[1].seconds.value == pytest.approx(rate, rel=0.02)


WORKERS = (
    HEAD
    + """[[tasks]]
id = "1"
title = "4 and 16 GPUs"
what = "w"
why = "y"
checks = [{ kind = "runs" }]
files = ["tensorflow/train_multiworker.py"]
[[tasks.sweeps]]
form = "srun-python"
model = "ResNet50"
gpus = [4, 16]
batch = 1024
epochs = 3
script = "tensorflow/train_multiworker.py"
options = ["--image_size", "128"]
"""
)


def test_workers_of_tensorflow_on_several_nodes(cluster, tmp_path):
    (tmp_path / "workers.toml").write_text(WORKERS, encoding="utf-8")
    with walk.practised(cluster, tmp_path / "lab", str(tmp_path / "workers.toml")) as session:
        walk.submit(session, "1", PlanOverrides(qos="acc_training"))
        walk.finish(session)
        state = session.state
        rows = compute_results(measured_from_state(state)).rows
    assert {(run.outcome, len(run.epochs)) for run in state.runs.values()} == {("completed", 3)}
    assert sorted(one.nodes for one in state.submissions.values()) == [1, 4]
    assert [row.n_gpus for row in rows] == [4, 16] and all(row.mark == "practice" for row in rows)


def test_a_tweaked_copy_is_a_run_of_its_own_beside_the_original(cluster, tmp_path):
    with walk.practised(cluster, tmp_path / "lab", "sa-miri-2025-ph") as session:
        walk.make_copies(session, session.edition.task("11.8"))
        for task in ("11.6", "11.8"):
            walk.submit(session, task, PlanOverrides(qos="acc_training", epochs=2))
        walk.finish(session)
        walk.answer(session, session.edition.task("11.8"))
        box = walk.boxes(session)["11.8"]
        rows = compute_results(measured_from_state(session.state)).rows
    kinds = ("not compiled, original", "compiled, original", "compiled, tweaked")
    assert [row.name for row in rows] == [f"vit (micro-224, {kind} script)" for kind in kinds]
    assert [item.kind for item in box.items if not item.met] == []


def test_a_sweep_in_one_job(cluster, tmp_path):
    with walk.practised(cluster, tmp_path / "lab", "hpc4ai-ch11") as session:
        (token,) = walk.submit(session, "11.3", PlanOverrides(form="one-job", epochs=3, qos="acc_training"))
        walk.finish(session)
        items = walk.boxes(session)["11.3"].items
        state = session.state
    assert state.submissions[token].form == "one-job"
    assert len(state.runs) == 8 == sum(item.met for item in items if item.kind == "runs")
    rates = [run.images / run.epochs[2].seconds.value for run in state.runs.values()]
    assert rates[1:] == pytest.approx(PUBLISHED_WORKERS, rel=0.05)


@pytest.mark.parametrize("name", KINDS.values(), ids=KINDS)
def test_from_empty_folder_to_all_boxes(name, cluster, tmp_path):
    with ExitStack() as stack:
        if name == ONE_AT_A_TIME:
            cluster = stack.enter_context(PracticeCluster(tmp_path / "cluster", factor=100))
        session = stack.enter_context(walk.practised(cluster, tmp_path / "lab", name))
        edition = session.edition
        tasks = [task for task in edition.tasks if task.id in SOME.get(name, {task.id})]
        assert not any(box.done for box in walk.boxes(session).values())
        for task in tasks:
            walk.make_copies(session, task)
            plan = USUAL.get(name, PlanOverrides())
            on_gpus = name != ONE_AT_A_TIME and {run.spec.device for run in task.runs} == {"gpu"}
            walk.submit(session, task.id, replace(plan, qos="acc_training") if on_gpus else plan)
        walk.finish(session)
        for task in tasks:
            if task.questions:
                walk.answer(session, task)
        files = walk.export(session, tasks, whole=name == EXPORTED_WHOLE)
        boxes = walk.boxes(session)
    assert {task.id: boxes[task.id].missing for task in tasks if not boxes[task.id].done} == {}
    assert all(boxes[task.id].mark == "practice" for task in tasks if task.runs)
    assert {path.suffix for path in files} >= (set(MARKED) if name == EXPORTED_WHOLE else {".svg", ".csv"})
    assert unmarked(files) == []
