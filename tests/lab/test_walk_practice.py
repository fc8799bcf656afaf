"""Each edition walked through on the practice cluster, from an empty folder to all boxes ticked."""

from __future__ import annotations

import pytest

from labtui.commands.cli import main
from labtui.lab.plan import PlanOverrides, framework_scripts
from labtui.session.labs import labs_folder, load_edition
from labtui.session.session import Session
from tests.lab import walk
from tests.lab.marks import MARKED, unmarked
from tests.lab.test_editions import IDS
from tests.results.helpers import published

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

PUBLISHED = {table["data_set"]: table for table in published("chapter12.toml")["tables"]}
SIZES = [1, 2, 4, 8, 16, 32]
MORE_EPOCHS = {("sa-miri-2021-ex12", "6"): PlanOverrides(epochs=300)}
"""Forty epochs are a first guess; the student sees the accuracy and asks for more."""


REHEARSED = [name for name in IDS if not framework_scripts(load_edition(name))]
SEVERAL_NODES = "hpc4ai-ch12"
AT_ONCE = PlanOverrides(qos="acc_training", epochs=2)
"""A queue that takes more than one job, on all nodes of the practice cluster; two epochs have a steady one."""


def test_a_lab_that_cannot_be_rehearsed_is_refused_before_anything_starts(tmp_path, capsys):
    assert set(IDS) - set(REHEARSED) == {"hpc4ai-ch11", "hpc4ai-ch12", "hpc4ai-ch15"}
    text = (labs_folder() / "hpc4ai-ch12.toml").read_text(encoding="utf-8")
    mine = tmp_path / "mine.toml"
    mine.write_text(text.replace("pytorch/train_ddp.py", "tensorflow/train_multiworker.py"), encoding="utf-8")
    assert main(["practice", "--serve", "--lab", str(mine), "--keep", str(tmp_path / "kept")]) == 2
    said = capsys.readouterr().err
    assert (
        "cannot rehearse" in said
        and "tensorflow/train_multiworker.py" in said
        and "hint: docs/training" in said
    )
    assert (
        main(["practice", "--serve", "--lab", "hpc4ai-ch12", "--train", "--keep", str(tmp_path / "kept")])
        == 2
    )
    assert "Really training is for the labs on TensorFlow" in capsys.readouterr().err
    assert not (tmp_path / "kept").exists()


def test_a_lab_on_one_to_32_gpus_of_eight_nodes(tmp_path):
    from labtui.practice.cluster import PracticeCluster

    with PracticeCluster.start(tmp_path / "cluster", factor=300) as cluster:
        scripts = framework_scripts(load_edition(SEVERAL_NODES))
        folder = walk.folder_of(tmp_path / "lab", SEVERAL_NODES, **cluster.login.settings_for(scripts))
        with Session.open(folder.path) as session:
            for task in session.edition.tasks:
                walk.submit(session, task.id, AT_ONCE)
            walk.finish(session)
            for task in session.edition.tasks:
                walk.answer(session, task)
            files = walk.export(session, session.edition.tasks, decks=("pptx",))
            boxes = walk.boxes(session)
            runs = session.state.runs.values()
    assert {task_id: box.missing for task_id, box in boxes.items() if not box.done} == {}
    assert unmarked(files) == []
    for run in runs:
        nodes = max(1, run.spec.n_gpus // 4)
        assert run.totals is not None and run.totals.gpu_memory.lo == 53
        rate = PUBLISHED[run.spec.data_set]["throughput"][SIZES.index(run.spec.n_gpus)]
        assert run.images / run.epochs[1].seconds.value == pytest.approx(rate, rel=0.02)
        assert session.state.submissions[run.token].nodes == nodes


@pytest.mark.parametrize("name", REHEARSED)
def test_from_empty_folder_to_all_boxes(name, tmp_path):
    from labtui.practice.cluster import PracticeCluster

    with PracticeCluster.start(tmp_path / "cluster", factor=300) as cluster:
        folder = walk.folder_of(tmp_path / "lab", name, **cluster.login.settings)
        with Session.open(folder.path) as session:
            edition = session.edition
            assert not any(box.done for box in walk.boxes(session).values())
            for task in edition.tasks:
                walk.make_copies(session, task)
                walk.submit(session, task.id, MORE_EPOCHS.get((name, task.id)))
            walk.finish(session)
            for task in edition.tasks:
                if task.questions:
                    walk.answer(session, task)
            files = walk.export(session, edition.tasks)
            boxes = walk.boxes(session)
    open_boxes = {task_id: box.missing for task_id, box in boxes.items() if not box.done}
    assert not open_boxes
    with_runs = [task.id for task in edition.tasks if task.runs]
    assert all(boxes[task_id].practice for task_id in with_runs)
    assert {path.suffix for path in files} == set(MARKED)
    assert unmarked(files) == []
