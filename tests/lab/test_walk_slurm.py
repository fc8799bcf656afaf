"""One task of each edition on a real OpenSSH and a real Slurm: submitted as planned, read from its log, ticked."""

from __future__ import annotations

from pathlib import Path

import pytest

from labtui.session.session import Session
from tests.lab import walk
from tests.lab.marks import marked
from tests.real_cluster import Cluster, Student

pytestmark = pytest.mark.cluster

QUICK = '''\
"""Prints what Keras prints, at once: this test is about everything around the training."""
import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int)
parser.add_argument("--batch_size", type=int)
parser.add_argument("--n_gpus", type=int, default=1)
args = parser.parse_args()
learning_rate = 0.01 * args.n_gpus
steps = -(-50000 // args.batch_size)
print(" Model ResNet50 {} GPUs ".format(args.n_gpus))
print("-" * 40)
print("Batch_size: {}".format(args.batch_size))
print("Num_replicas: {} ".format(args.n_gpus))
for epoch in range(1, args.epochs + 1):
    seconds = 14 / args.n_gpus if epoch > 1 else 29
    print("Epoch {}/{}".format(epoch, args.epochs))
    print("{0}/{0} - {1:.0f}s - loss: 2.1 - accuracy: 0.2 - {1:.0f}s/epoch - {2:.0f}ms/step".format(
        steps, seconds, 1000 * seconds / steps))
'''

TASKS = [
    ("cc-mei-2025-lab5", "2"),
    ("hpc4ai-ch10", "10.5"),
    ("sa-miri-2021-ex12", "4"),
    ("sa-miri-2025-pg", "10.6"),
]


@pytest.mark.parametrize(("name", "task_id"), TASKS, ids=lambda value: value)
def test_a_task_from_plan_to_tick(
    cluster: Cluster, student: Student, tmp_path: Path, name: str, task_id: str
):
    folder = walk.folder_of(
        tmp_path / "lab",
        name,
        profile="mn5",
        host=student.host,
        port=student.port,
        user=student.user,
        identity=str(student.key),
        host_key=student.host_key,
        account=student.account,
        root=f"{student.scratch}/{tmp_path.name}",
    )
    for script in ("ResNet50.py", "ResNet50_seq.py"):
        (folder.scripts / script).write_text(QUICK, encoding="utf-8")
    with Session.open(folder.path) as session:
        task = session.edition.task(task_id)
        assert not walk.boxes(session)[task_id].done
        walk.submit(session, task_id)
        walk.finish(session)
        walk.answer(session, task)
        files = walk.export(session, [task], decks=())
        assert marked(files) == []
        box = walk.boxes(session)[task_id]
        assert box.done, box.missing
        assert not box.practice
        assert all(item.evidence for item in box.items)
        runs = [item.evidence for item in box.items if item.evidence.startswith("run ")]
        jobs = {s.job.job_id for s in session.state.submissions.values() if s.job}
        assert jobs
        assert any(job in evidence for job in jobs for evidence in runs)
        # The student edits the script: the box says so until it is run again.
        for script in ("ResNet50.py", "ResNet50_seq.py"):
            (folder.scripts / script).write_text(QUICK + "# tuned\n", encoding="utf-8")
        assert walk.boxes(session)[task_id].status == "stale"
