"""The control run of the TensorFlow scripts without a loader, on CPU devices, beside a loader that is slow."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import pytest

from labtui.training_logs.reader import parse_log
from tests.real_cluster.dataset import write_cifar
from tests.real_cluster.settings import free_ports
from tests.remote.conftest import REMOTE, Trained, ended, started, trained

pytestmark = [pytest.mark.tensorflow, pytest.mark.slow]

MULTIWORKER = REMOTE / "tensorflow" / "train_multiworker.py"
BATCH, IMAGES, EPOCHS = 16, 80, 3
"""Of a device; on two devices an epoch has three steps, the last one short."""
PAUSE_S = 0.05
"""For each image, as a loader takes its time."""
BEFORE = ".batch(batch_size).prefetch(tf.data.AUTOTUNE)\n    test_ds"
SLOW = ".batch(batch_size).map(slow)\n    test_ds"
PLANTED = '''


def slow(pixels, labels):
    """The batch, after a while."""
    def pause(count):
        time.sleep(float(os.environ.get("PAUSE_S", 0)) * int(count))
        return count

    tf.numpy_function(pause, [tf.shape(labels)[0]], tf.int32)
    return pixels, labels
'''


@pytest.fixture(scope="module")
def scripts(small_scripts: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scripts with a loader that pauses before each batch."""
    folder = tmp_path_factory.mktemp("slow") / "remote"
    shutil.copytree(small_scripts, folder)
    loader = folder / "cifar-utils" / "cifar.py"
    text = loader.read_text("utf-8")
    assert text.count(BEFORE) == 1
    loader.write_text(
        text.replace(BEFORE, SLOW).replace("import os\n", "import os\nimport time\n") + PLANTED, "utf-8"
    )
    return folder


def run(folder: Path, scripts: Path, *more: str) -> Trained:
    """A training of some epochs on two devices."""
    data = folder / "cifar-10-batches-py"
    if not data.exists():
        write_cifar(data, per_file=IMAGES // 5)
    here = folder / f"run{''.join(more)}"
    here.mkdir()
    words = ["--epochs", str(EPOCHS), "--batch_size", str(2 * BATCH), "--n_gpus", "2", "--data", str(data)]
    made = trained(here, str(scripts / "ResNet50.py"), *words, *more, PAUSE_S=str(PAUSE_S))
    assert made.status == 0, made.err.decode()
    return made


def test_one_batch_again_and_again_has_no_loader(scripts: Path, tmp_path: Path) -> None:
    plain, control = (run(tmp_path, scripts, *more) for more in ((), ("--control", "one-batch")))
    ((read,), (again,)) = (parse_log(made.out).runs for made in (plain, control))
    assert [epoch.steps for epoch in read.epochs] == [epoch.steps for epoch in again.epochs] == [3] * EPOCHS
    assert (read.tuning, again.tuning, again.images) == ((), (("control", "one-batch"),), IMAGES)
    pauses = IMAGES * PAUSE_S
    assert min(epoch.seconds.hi for epoch in read.epochs) > pauses, "the loader pauses for each image"
    assert min(epoch.seconds.lo for epoch in again.epochs[1:]) < pauses, "nothing waits for it"


def test_a_script_that_ignores_one_batch_is_refused(small_scripts: Path, data: Path, tmp_path: Path) -> None:
    """Its log would be marked as a control run, though it reads the data set."""
    scripts = tmp_path / "remote"
    shutil.copytree(small_scripts, scripts)
    own = scripts / "ResNet50.py"
    text = own.read_text("utf-8")
    assert text.count("model.fit(batches,") == 1
    own.write_text(
        text.replace("    batches = lab.batches(args, train_ds)\n", "").replace(
            "fit(batches,", "fit(train_ds,"
        )
    )
    here = tmp_path / "run"
    here.mkdir()
    words = ["--epochs", "1", "--batch_size", "8", "--n_gpus", "1", "--data", str(data), "--image-size", "32"]
    made = trained(here, str(own), *words, "--device", "cpu", "--control", "one-batch")
    assert made.status == 2, made
    assert b"call fit(batches(args, train_ds), ...)" in made.err and b"epoch_stop" not in made.out


@pytest.mark.parametrize("control", ["independent", "one-batch"])
def test_control_runs_have_the_steps_of_the_training(control: str, tmp_path: Path) -> None:
    """Two workers on this machine; those of independent trainings do not wait for each other."""
    if importlib.util.find_spec("tf_keras") is None:
        pytest.skip("tf_keras is not installed: training over several workers was NOT tried")
    words = [
        *("--device", "cpu", "--model", "small", "--dataset", "synthetic", "--images", "100"),
        *("--batch_size", "16", "--epochs", "2", "--control", control, "--port", str(free_ports(1)[0])),
    ]  # fmt: skip
    job = {"SLURM_JOB_ID": "5", "SLURM_STEP_NODELIST": "localhost", "SLURM_STEP_NUM_TASKS": "2"}
    workers = []
    for rank in ("0", "1"):
        (tmp_path / rank).mkdir()
        workers.append(started(tmp_path / rank, str(MULTIWORKER), *words, SLURM_PROCID=rank, **job))
    first, second = (ended(worker, tmp_path / str(rank)) for rank, worker in enumerate(workers))
    assert (first.status, second.status) == (0, 0), (first.err, second.err)
    (run,) = parse_log(first.out).runs
    assert (run.n_gpus, run.batch_size, run.tuning) == (2, 16, (("control", control),))
    assert [epoch.steps for epoch in run.epochs] == [6, 6]
    assert b"epoch_stop" not in second.out


FIT = "    model.fit(batches, epochs=args.epochs, verbose=2, callbacks=[lab.RunLog(args, train_ds)])\n"
BEFORE_ALL = "    train_ds, test_ds = load_cifar("
SEEDED = "    tf.keras.utils.set_random_seed(1)\n    tf.config.experimental.enable_op_determinism()\n"


def test_the_log_changes_no_loss(small_scripts: Path, tmp_path: Path) -> None:
    """The same training on two devices with labtui's log and without: equal to the last bit."""
    losses = []
    for name, callbacks in (("with", "[lab.RunLog(args, train_ds)]"), ("without", "[]")):
        scripts, here = tmp_path / name / "remote", tmp_path / name / "run"
        shutil.copytree(small_scripts, scripts)
        here.mkdir()
        own = scripts / "ResNet50.py"
        text = own.read_text("utf-8")
        assert text.count(FIT) == text.count(BEFORE_ALL) == 1
        fit = f"    past = model.fit(batches, epochs=args.epochs, verbose=2, callbacks={callbacks})\n"
        fit += '    print("losses", *(loss.hex() for loss in past.history["loss"]), flush=True)\n'
        own.write_text(text.replace(FIT, fit).replace(BEFORE_ALL, SEEDED + BEFORE_ALL), "utf-8")
        data = tmp_path / name / "cifar-10-batches-py"
        write_cifar(data, per_file=8)
        words = [
            "--epochs",
            "2",
            "--batch_size",
            "8",
            "--n_gpus",
            "2",
            "--device",
            "cpu",
            "--image-size",
            "32",
        ]
        made = trained(here, str(own), *words, "--data", str(data))
        assert made.status == 0, made.err.decode()
        assert (b":::MLLOG" in made.out) is (name == "with")
        losses.append(next(line.split()[1:] for line in made.lines if line.startswith("losses")))
    assert losses[0] == losses[1] and len(losses[0]) == 2
