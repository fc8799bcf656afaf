"""Drafts and a profile for the tests of job scripts; run as a program it rewrites the golden files.

python -m tests.slurm_templates.samples
"""

from pathlib import Path

from labtui.domain.model import JobForm, Program, RunSpec, SubmissionDraft
from labtui.domain.profile import Launch, Profile, Queue
from labtui.session.folder import FORMS, read_template
from labtui.slurm.job_script import JobContext, job_script

GOLDEN = Path(__file__).with_name("golden")

PROFILE = Profile(
    id="sample", title="A cluster with a container", login_hosts=("login.example.org",),
    queues=(Queue(name="acc_debug", devices="gpu"), Queue(name="gp_debug", devices="cpu", partition="gpp")),
    cpus_per_gpu=20, gpus_per_node=4, container="/gpfs/projects/{account}/MN5-NGC-TensorFlow-23.03.sif",
    data_dir="/gpfs/projects/{account}/cifar-utils/cifar-10-batches-py",
    datasets_dir="/gpfs/projects/{account}/datasets",
    containers={"pytorch": "/gpfs/apps/images/nvidiaPytorch24.07"},
    launch=Launch(modules=("singularity",)), toolchains={"mpi": ("oneapi/2023.2.0",)},
)  # fmt: skip
HEADER_BEGIN, HEADER_END = "---- labtui job ----", "---- end ----"
"""The templates' lines around the facts a job prints first, each ``key: value``."""
PLAIN = Profile(id="plain", title="Python as it is", login_hosts=("login.example.org",))
CONTEXT = JobContext(token="k7qzm2", edition="hpc4ai-ch10", practice=False)


def run(n_gpus: int, *, model: str = "ResNet50", batch: int = 2048, **more: object) -> RunSpec:
    """A run of the book: its batch per GPU, five epochs; 0 GPUs is the sequential script on the CPU."""
    device, script = ("gpu", f"{model}.py") if n_gpus else ("cpu", f"{model}_seq.py")
    values: dict[str, object] = {"model": model, "device": device, "n_gpus": n_gpus, "script": script}
    values |= {"batch_size": batch * max(1, n_gpus), "epochs": 5}
    return RunSpec(**(values | more))  # type: ignore[arg-type]


def ddp(n_gpus: int, *, nodes: int = 1, **more: object) -> RunSpec:
    """A run of chapter 12: 128 images per GPU, which is what its script takes."""
    values: dict[str, object] = {
        "nodes": nodes, "launcher": "torchrun", "batch_option": "per-gpu", "data_set": "tiny-224",
        "script": "pytorch/train_ddp.py", "extra_args": ("--mixed_precision", "bf16", "--compile"),
    }  # fmt: skip
    return run(n_gpus, model="vit", batch=128, **(values | more))


PI = Program(
    name="pi", sources=("pi/pi_mpi.c",), build=("mpicc -O3 pi/pi_mpi.c -o pi_mpi",),
    command=("./pi_mpi", "{size}"),
    lines=("Parallel execution time with {processes} processes: {milliseconds} ms",), toolchain="mpi",
)  # fmt: skip


def timed(processes: int) -> RunSpec:
    """A run of chapter 4, on as many nodes as hold its processes."""
    values: dict[str, object] = {"program": PI, "processes": processes, "size": "4294967296"}
    values["launcher"] = "srun"
    return run(
        0, model="pi", batch=1, script="pi/pi_mpi.c", arguments=PI.argv(processes, "4294967296"), **values
    )


def draft(form: JobForm, **more: object) -> SubmissionDraft:
    """A plausible job of this form."""
    runs = {
        "cpu": (run(0, batch=256, epochs=2),),
        "one-gpu": (run(1, batch=256, epochs=2, script="ResNet50_seq.py"),),
        "one-job": (run(1), run(2), run(4)), "job-per-size": (run(2, model="ResNet152", batch=1024),),
        "torchrun": (ddp(8, nodes=2),), "task-per-gpu": (ddp(8, nodes=2, launcher="task-per-gpu"),),
        "mpi": tuple(timed(count) for count in (2, 4, 64)),
        "srun-python": (run(8, nodes=2, launcher="srun-python", script="tensorflow/train_multiworker.py"),),
    }[form]  # fmt: skip
    nodes, gpus = runs[-1].nodes, -(-runs[-1].n_gpus // runs[-1].nodes)
    cpus, qos = 64 if form == "mpi" else 20 * max(1, gpus), "acc_debug" if gpus else "gp_debug"
    values: dict[str, object] = {"task_id": "10.5", "form": form, "job_name": f"{runs[0].model}-{form}-zm2"}
    values |= {"runs": runs, "gpus": gpus, "nodes": nodes, "cpus": cpus, "time_limit_minutes": 75}
    values |= {"account": "nct_345", "qos": qos}
    return SubmissionDraft(**(values | more))  # type: ignore[arg-type]


def rendered(form: JobForm, profile: Profile = PROFILE, **more: object) -> str:
    return job_script(draft(form, **more), profile, CONTEXT, read_template(form))


if __name__ == "__main__":
    for each in FORMS:
        (GOLDEN / f"{each}.slurm").write_text(rendered(each), encoding="utf-8")
