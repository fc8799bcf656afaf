"""What the training tests share: a tiny data set and one finished run of each kind, each trained once."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.real_cluster.dataset import write_cifar
from tests.remote.small_network import use_small_network

REMOTE = Path(__file__).resolve().parents[2] / "remote"
IMAGES = 40
TRAINER = os.environ.get("LABTUI_TRAINING_PYTHON") or sys.executable
"""The interpreter that trains: this one, or an older one with an older TensorFlow (`make old-tensorflow`)."""
QUIET = {"TF_CPP_MIN_LOG_LEVEL": "2", "PYTHONDONTWRITEBYTECODE": "1"}


@dataclass(frozen=True)
class Trained:
    """A finished training process: exit status, both streams, and the file that holds standard output."""

    status: int
    out: bytes
    err: bytes
    file: Path

    @property
    def lines(self) -> list[str]:
        """Standard output without its line ends."""
        return self.out.decode().split("\n")


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in CIFAR-10's format with 5 x 8 training images."""
    folder = tmp_path_factory.mktemp("data") / "cifar-10-batches-py"
    write_cifar(folder, per_file=IMAGES // 5)
    return folder


@pytest.fixture(scope="session")
def small_scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scripts with a small network, for ends that do not depend on the network."""
    scripts = tmp_path_factory.mktemp("small") / "remote"
    shutil.copytree(REMOTE, scripts)
    use_small_network(scripts)
    return scripts


def environment(**more: str) -> dict[str, str]:
    """This process's environment without a job's variables, and with these."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "CIFAR10"))}
    return {**kept, **QUIET, **more}


def command(script: str, *words: str) -> list[str]:
    """The command line that trains with small images on the CPU."""
    return [TRAINER, str(REMOTE / script), "--device", "cpu", "--image-size", "32", *words]


def trained(folder: Path, script: str, *words: str, **more: str) -> Trained:
    """Run a training script to its end, standard output in a file as in a batch job."""
    file = folder / "job.out"
    with file.open("wb") as stream:
        done = subprocess.run(
            command(script, *words),
            stdout=stream,
            stderr=subprocess.PIPE,
            env=environment(**more),
            cwd=folder,
            timeout=900,
            check=False,
        )
    return Trained(done.returncode, file.read_bytes(), done.stderr, file)


@pytest.fixture(scope="session")
def two_replicas(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """ResNet50.py on two CPU devices: 40 images in batches of 16, so the third step is short."""
    words = ["--epochs", "3", "--batch_size", "16", "--n_gpus", "2", "--data", str(data)]
    return trained(tmp_path_factory.mktemp("two"), "ResNet50.py", *words)


@pytest.fixture(scope="session")
def sequential(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """ResNet50_seq.py on the CPU: one epoch of 12 images; the data folder comes from the environment."""
    words = ["--epochs", "1", "--batch_size", "8", "--images", "12"]
    return trained(tmp_path_factory.mktemp("seq"), "ResNet50_seq.py", *words, CIFAR10_DATA=str(data))
