"""Plans over several nodes: nodes by the cluster, a job for each size, costs of all nodes, queues too small."""

from typing import Any

import pytest
from msgspec.structs import replace

from labtui.domain.errors import UsageError
from labtui.domain.model import JobPhase, RunSpec
from labtui.lab.plan import PlanOverrides, drafts_from, place_run, refuse_too_many_nodes, task_drafts
from labtui.lab.plan_table import change_cell, forms_of, rows_of
from labtui.lab.runs import Sweep
from labtui.results.cost import lab_cost
from labtui.session.folder import read_template
from labtui.session.labs import load_edition
from labtui.session.settings import load_profile
from labtui.slurm.job_script import JobContext, job_script
from tests.changes import after, observed, planned
from tests.lab.builders import EDITION

MN5 = load_profile("mn5")
SIZES = (1, 2, 4, 8, 16, 32)


def sweep(*gpus: int, form: str = "torchrun", **more: object) -> Sweep:
    usual: dict[str, Any] = {"batch_option": "per-gpu", "data_set": "tiny-224", "options": ("--compile",)}
    usual |= {"script": "pytorch/train_ddp.py", "images": 100_000, "form": form}
    return Sweep(model="vit", gpus=gpus, batch=128, epochs=5, **(usual | more))


TASK = replace(EDITION.tasks[4], id="12.2", sweeps=(sweep(*SIZES),), checks=())
LAB = replace(EDITION, tasks=(TASK,), published=())
OVER = PlanOverrides(account="nct_345", user="nct01345")


def test_each_size_is_a_job_on_as_few_nodes_as_hold_it():
    for form in (None, "one-job", "job-per-size", "cpu", "one-gpu"):
        drafts = task_drafts(LAB, "12.2", MN5, replace(OVER, form=form))
        assert [draft.form for draft in drafts] == ["torchrun"] * 6
        assert [(d.nodes, d.gpus, d.total_gpus, d.cpus) for d in drafts] == [
            (1, 1, 1, 20), (1, 2, 2, 40), (1, 4, 4, 80), (2, 4, 8, 80), (4, 4, 16, 80), (8, 4, 32, 80),
        ]  # fmt: skip
        assert [run.nodes for draft in drafts for run in draft.runs] == [1, 1, 1, 2, 4, 8]
    assert len({draft.job_name for draft in drafts}) == 6
    assert drafts[-1].job_name == "vit-tiny-224-32gpu"
    assert drafts[-1].data_dir == "/gpfs/projects/nct_345/datasets"
    assert drafts[-1].container.endswith("/nvidiaPytorch24.07")


def test_srun_can_start_the_processes_in_place_of_torchrun():
    (draft,) = task_drafts(LAB, "12.2", MN5, replace(OVER, form="task-per-gpu", gpus=(8,)))
    (usual,) = task_drafts(LAB, "12.2", MN5, replace(OVER, gpus=(8,)))
    assert replace(draft, form=usual.form, runs=usual.runs) == usual
    assert replace(draft.runs[0], launcher="torchrun") == usual.runs[0]
    context = JobContext(token="lt000001", edition="e", practice=False, user="u")
    draft = replace(draft, job_name="vit-lt000001")
    script = job_script(draft, MN5, context, read_template("task-per-gpu"))
    for line in ("--nodes=2", "--ntasks-per-node=4", "--gres=gpu:4", "--cpus-per-task=20"):
        assert f"\n#SBATCH {line}\n" in script
    assert "torchrun" not in script.partition("# ---- The trainings.")[2]
    lab = replace(LAB, tasks=(replace(TASK, sweeps=(sweep(8, form="task-per-gpu"),)),))
    for form, started in ((None, "task-per-gpu"), ("torchrun", "torchrun"), ("one-job", "task-per-gpu")):
        (made,) = task_drafts(lab, "12.2", MN5, replace(OVER, form=form))
        assert (made.form, made.runs[0].launcher) == (started, started)
    usual = task_drafts(LAB, "12.2", MN5, OVER)
    by_srun = task_drafts(LAB, "12.2", MN5, replace(OVER, form="task-per-gpu"))
    assert drafts_from(rows_of(usual), usual, "task-per-gpu", LAB, MN5) == by_srun
    assert drafts_from(rows_of(by_srun), by_srun, "torchrun", LAB, MN5) == usual
    assert drafts_from(rows_of(usual), usual, "torchrun", LAB, MN5) == usual
    assert forms_of(by_srun) == ("task-per-gpu", "torchrun")


def test_a_sweep_on_one_gpu_can_be_one_job():
    workers = tuple(("--num_workers", str(n)) for n in (1, 2, 4))
    limit = {"time_limit_minutes": 50}
    sweeps = (sweep(1, options=(), vary=workers, **limit), sweep(1, data_set="micro-224", **limit))
    lab = replace(LAB, tasks=(replace(TASK, sweeps=sweeps),))
    usual = task_drafts(lab, "12.2", MN5, OVER)
    assert [draft.form for draft in usual] == ["torchrun"] * 4
    job, rest = task_drafts(lab, "12.2", MN5, replace(OVER, form="one-job"))
    assert (job.form, job.job_name) == ("one-job", "vit-tiny-224-1gpu")
    assert (job.nodes, job.gpus, job.cpus) == (1, 1, 20)
    assert job.runs == tuple(draft.runs[0] for draft in usual[:3])
    assert job.time_limit_minutes == 120, "three times fifty minutes, and no more than the queue gives"
    assert rest == usual[3] and forms_of(usual) == ("torchrun", "task-per-gpu", "one-job")
    assert drafts_from(rows_of(usual), usual, "torchrun", lab, MN5) == usual
    assert drafts_from(rows_of(usual), usual, "one-job", lab, MN5)[0] == job
    context = JobContext(token="lt000001", edition="e", practice=False, user="u")
    script = job_script(replace(job, job_name="vit-lt000001"), MN5, context, read_template("one-job"))
    assert script.count("torchrun --standalone --nproc_per_node=1 pytorch/train_ddp.py") == 3


def test_a_programs_sizes_share_a_job_as_far_as_they_share_nodes():
    """One job for all would hold the largest size's nodes to its end; an unknown node is taken for large enough."""

    def jobs(name: str, task: str, profile: str) -> list[tuple[int, list[int]]]:
        wanted = PlanOverrides(account="nct_345", user="u1")
        drafts = task_drafts(load_edition(name), task, load_profile(profile), wanted)
        return [(draft.nodes, [run.processes for run in draft.runs]) for draft in drafts]

    assert jobs("hpc4ai-ch6", "6.7", "mn5") == [(1, [1, 2, 4]), (2, [8]), (4, [16]), (8, [32])] * 3
    assert jobs("hpc4ai-ch4", "4.5", "mn5") == [(1, [2, 4, 8, 16, 32, 64])]
    assert jobs("hpc4ai-ch4", "4.5", "slurm") == [(1, [2, 4, 8, 16, 32, 64])]


@pytest.mark.parametrize(("gpus", "each", "nodes"), [(6, 4, 2), (5, 4, 5), (8, 1, 8), (3, 4, 1), (12, 8, 2)])
def test_nodes_share_the_gpus_evenly(gpus, each, nodes):
    size = {"n_gpus": gpus, "batch_size": gpus, "epochs": 2}
    spec = RunSpec(model="vit", device="gpu", script="a.py", launcher="torchrun", **size)
    assert place_run(spec, "torchrun", replace(MN5, gpus_per_node=each)).nodes == nodes
    assert place_run(replace(spec, launcher="python"), "one-job", MN5).nodes == 1


def test_a_queue_that_takes_fewer_nodes_is_refused_with_one_that_takes_them():
    drafts = task_drafts(LAB, "12.2", MN5, replace(OVER, qos="acc_training"))
    for draft in drafts[:-1]:
        refuse_too_many_nodes(draft, MN5)
    with pytest.raises(UsageError) as caught:
        refuse_too_many_nodes(drafts[-1], MN5)
    assert str(caught.value) == "32 GPUs are 8 nodes of MareNostrum 5, and acc_training takes 4 a job."
    assert caught.value.hint == "acc_debug takes 8 nodes: name it with --qos."
    refuse_too_many_nodes(replace(drafts[-1], qos="acc_debug"), MN5)
    with pytest.raises(UsageError) as caught:
        refuse_too_many_nodes(replace(drafts[-1], qos="acc_debug", nodes=16), MN5)
    assert caught.value.hint == "Plan fewer GPUs."


def test_a_size_typed_into_the_plan_gets_its_nodes():
    drafts = task_drafts(LAB, "12.2", MN5, replace(OVER, gpus=(4, 8)))
    rows = rows_of(drafts)
    assert forms_of(drafts) == ("torchrun", "task-per-gpu")
    rows = (change_cell(rows[0], "gpus", "16"), change_cell(rows[1], "gpus", "2"))
    large, small = drafts_from(rows, drafts, None, LAB, MN5)
    assert (large.nodes, large.gpus, large.cpus, large.runs[0].batch_size) == (4, 4, 80, 2048)
    assert (small.nodes, small.gpus, small.cpus, small.runs[0].nodes) == (1, 2, 40, 1)


def test_a_job_is_charged_for_the_gpus_of_all_its_nodes():
    plan = planned("lt1", {}, task_id="12.2", form="torchrun", gpus=4, cpus=80, nodes=8)
    cost = lab_cost(after(plan, observed("lt1", "1", JobPhase.FINISHED, start_time=0.0, end_time=1800.0)))
    assert (cost.jobs[0].gpus, cost.jobs[0].allocated, cost.total.core_hours) == (32, 16.0, 320.0)
