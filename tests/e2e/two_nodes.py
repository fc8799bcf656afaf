"""A lab like chapter 12, small enough for two pretend nodes with two GPUs each."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import TORCH_PYTHON
from tests.real_cluster import Student

EDITION = """
format = 1
id = "two-nodes"
title = "ViT-Ti on two nodes"
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
model = "vit_ti_16"
gpus = [1, 2, 4]
batch = 8
batch_option = "per-gpu"
epochs = 2
script = "pytorch/train_ddp.py"
data_set = "cifar10"
time_limit_minutes = 10
options = ["--device", "cpu", "--resolution", "32", "--images", "64", "--epochs_eval", "2"]

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
