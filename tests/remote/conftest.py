"""What the training tests share: a tiny data set, and finished runs that are trained once."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.real_cluster.dataset import write_cifar
from tests.remote.small_network import use_small_network
from tests.remote.warm import Process, Warm

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
        return self.out.decode().split("\n")


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in CIFAR-10's format with 5 x 8 training images."""
    folder = tmp_path_factory.mktemp("data") / "cifar-10-batches-py"
    write_cifar(folder, per_file=IMAGES // 5)
    return folder


@pytest.fixture(scope="session")
def small_scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scripts with a small network, for tests that do not depend on the network."""
    scripts = tmp_path_factory.mktemp("small") / "remote"
    shutil.copytree(REMOTE, scripts)
    use_small_network(scripts)
    return scripts


def environment(**more: str) -> dict[str, str]:
    """This process's environment without a job's variables, plus `more`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "CIFAR10"))}
    return {**kept, **QUIET, **more}


TENSORFLOW = Warm(TRAINER, "tensorflow", env=environment())


def started(folder: Path, script: str, *words: str, **more: str) -> Process | subprocess.Popen[bytes]:
    """Start a Python script with TensorFlow; its streams go into the files job.out and job.err, as in a batch job."""
    out, err = folder / "job.out", folder / "job.err"
    return TENSORFLOW.start([script, *words], cwd=folder, env=environment(**more), out=out, err=err)


def ended(process: Process | subprocess.Popen[bytes], folder: Path) -> Trained:
    """Wait for a process to end, and return what it wrote into this folder."""
    status = process.wait(900)
    file = folder / "job.out"
    return Trained(status, file.read_bytes(), (folder / "job.err").read_bytes(), file)


def training(script: str, *words: str) -> list[str]:
    """Script and options of a training with small images on the CPU."""
    return [str(REMOTE / script), "--device", "cpu", "--image-size", "32", *words]


def trained(folder: Path, script: str, *words: str, **more: str) -> Trained:
    return ended(started(folder, *training(script, *words), **more), folder)


COUNTED = '''


def counted(pixels, labels):
    """The batch; the file `read` gets a line."""
    def note(count):
        with open("read", "a") as file:
            file.write("batch\\n")
        return count

    tf.numpy_function(note, [tf.shape(labels)[0]], tf.int32)
    return pixels, labels


ALONE = tf.data.Options()
ALONE.experimental_optimization.inject_prefetch = False  # else a batch may be read that nobody asked for
'''
SEEDED = "    tf.keras.utils.set_random_seed(1)\n    tf.config.experimental.enable_op_determinism()\n"
BATCHES = ".batch(batch_size).prefetch(tf.data.AUTOTUNE)\n    test_ds"
LOADS, FITS = "    train_ds, test_ds = load_cifar(", "    model.fit(batches,"
LOSSES = '    print("losses", *(loss.hex() for loss in model.history.history["loss"]), flush=True)\n'


def changed(scripts: Path, file: str, *swaps: tuple[str, str]) -> None:
    """Replace some texts in a script, each of which occurs exactly once."""
    text = (scripts / file).read_text("utf-8")
    for old, new in swaps:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    (scripts / file).write_text(text, "utf-8")


@pytest.fixture(scope="session")
def watched_scripts(small_scripts: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small scripts, changed to be deterministic, to count the batches they read, and to print exact losses."""
    scripts = tmp_path_factory.mktemp("watched") / "remote"
    shutil.copytree(small_scripts, scripts)
    alone = (BATCHES, ".batch(batch_size).map(counted).with_options(ALONE)\n    test_ds")
    changed(scripts, "cifar-utils/cifar.py", alone)
    with (scripts / "cifar-utils" / "cifar.py").open("a", encoding="utf-8") as loader:
        loader.write(COUNTED)
    losses = ("train_ds)])\n", f"train_ds)])\n{LOSSES}")
    changed(scripts, "ResNet50.py", (LOADS, SEEDED + LOADS), losses)
    return scripts


@pytest.fixture(scope="session")
def two_words(data: Path) -> list[str]:
    """The options for 40 images in batches of 16 on two CPU devices, so that the third step is short."""
    return ["--epochs", "2", "--batch_size", "16", "--n_gpus", "2", "--data", str(data)]


@pytest.fixture(scope="session")
def two_replicas(
    two_words: list[str], watched_scripts: Path, tmp_path_factory: pytest.TempPathFactory
) -> Trained:
    """ResNet50.py with the small network (driver.py builds the real one)."""
    return trained(tmp_path_factory.mktemp("two"), str(watched_scripts / "ResNet50.py"), *two_words)


@pytest.fixture(scope="session")
def sequential(data: Path, small_scripts: Path, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """ResNet50_seq.py on the CPU: one epoch of 12 images; the data folder comes from the environment."""
    words = ["--epochs", "1", "--batch_size", "8", "--images", "12"]
    script = str(small_scripts / "ResNet50_seq.py")
    return trained(tmp_path_factory.mktemp("seq"), script, *words, CIFAR10_DATA=str(data))
