"""One task of each edition on a real OpenSSH and a real Slurm: submitted as planned, read from its log, ticked."""

import shutil
from pathlib import Path

import pytest

from labtui.results.compute import compute_results
from labtui.results.measured import measured_from_state
from labtui.training_logs.gpu_sampler import read_samples
from tests.commands.conftest import QUICK_TRAINING
from tests.lab import walk
from tests.lab.marks import marked
from tests.lab.mistakes import HEAD

pytestmark = pytest.mark.cluster

SAMPLED = """\
import glob, os

has_gpus = os.environ.get("CUDA_VISIBLE_DEVICES", "")[:1].isdigit()
while has_gpus and not any(open(name).read().count("\\n") > 4 for name in glob.glob("*.gpu.csv")):
    time.sleep(0.05)
"""
QUICK = QUICK_TRAINING.replace("for epoch", f"{SAMPLED}for epoch", 1)
"""It ends once its GPUs were sampled: the test is about everything around the training."""
TASKS = [("cc-mei-2025-lab5", "2"), ("hpc4ai-ch10", "10.5"), ("sa-miri-2021-ex12", "4")]


@pytest.mark.parametrize(("name", "task_id"), TASKS, ids=lambda value: value)
def test_a_task_from_plan_to_tick(cluster, student, tmp_path, name, task_id):
    with walk.real(student, tmp_path / "lab", name) as session:
        folder = session.folder
        for script in ("ResNet50.py", "ResNet50_seq.py"):
            (folder.scripts / script).write_text(f"{QUICK}# {script}\n", encoding="utf-8")
        task = session.edition.task(task_id)
        assert not walk.boxes(session)[task_id].done
        walk.submit(session, task_id)
        walk.finish(session)
        walk.answer(session, task)
        assert marked(walk.export(session, [task])) == []
        box = walk.boxes(session)[task_id]
        assert box.done and not box.mark, box.missing
        assert all(item.evidence for item in box.items)
        runs = [item.evidence for item in box.items if item.evidence.startswith("run ")]
        jobs = {s.job.job_id for s in session.state.submissions.values() if s.job}
        assert any(job in evidence for job in jobs for evidence in runs)
        for item in session.state.submissions.values():
            if item.gpus:
                sampled = cluster.outside(item.remote_logs["gpu"].replace("%j", item.job.job_id)).read_bytes()
                assert {sample.index for sample in read_samples(sampled)} == set(range(item.gpus))
        for script in ("ResNet50.py", "ResNet50_seq.py"):
            (folder.scripts / script).write_text(f"{QUICK}# {script}, tuned\n", encoding="utf-8")
        assert walk.boxes(session)[task_id].status == "stale"


TICK, OWN_PROGRAM = (Path(__file__).with_name(f"tick.{kind}").read_text("utf-8") for kind in ("c", "toml"))
PI = (Path(__file__).parents[2] / "remote" / "pi" / "pi_mpi.c").read_text(encoding="utf-8")
PROGRAMS = {
    "cc": ("srun", "size {size} on {processes} processes: {milliseconds} ms", TICK),
    "mpicc": ("mpirun", "Parallel execution time with {processes} processes: {milliseconds} ms", PI),
}
"""A program without MPI that srun starts, and pi with a real MPI, by what builds it."""


@pytest.mark.parametrize("compiler", PROGRAMS)
def test_a_program_of_ones_own_is_built_timed_and_compared(cluster, student, tmp_path, compiler):
    if any(shutil.which(name) is None for name in (compiler, "mpirun" if compiler == "mpicc" else "cc")):
        pytest.skip(f"{compiler} is not installed here, so nothing can be built with it")
    launcher, line, source = PROGRAMS[compiler]
    edition = tmp_path / "own.toml"
    text = HEAD + OWN_PROGRAM
    for place, word in (("@compiler@", compiler), ("@launcher@", launcher), ("@line@", line)):
        text = text.replace(place, word)
    edition.write_text(text, encoding="utf-8")
    with walk.real(student, tmp_path / "lab", str(edition)) as session:
        (session.folder.scripts / "tick").mkdir()
        (session.folder.scripts / "tick" / "tick.c").write_text(source, encoding="utf-8")
        walk.submit(session, "1")
        walk.finish(session)
        box = walk.boxes(session)["1"]
        assert box.done and not box.mark, box.missing
        rows = compute_results(measured_from_state(session.state)).programs
    assert [(row.processes, row.size) for row in rows] == [(count, "1000000") for count in (1, 2, 4)]
    assert all(row.speedup is not None and row.origins[0].job_id for row in rows)
    if compiler == "cc":
        assert [row.efficiency.value for row in rows] == pytest.approx([1, 1, 1])
