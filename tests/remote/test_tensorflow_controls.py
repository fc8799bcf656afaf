"""The control run of the TensorFlow scripts without a loader, on CPU devices, beside a loader that is slow."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from labtui.training_logs.reader import parse_log
from tests.real_cluster.dataset import write_cifar
from tests.remote.conftest import Trained, trained

pytestmark = [pytest.mark.tensorflow, pytest.mark.slow]

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
    assert (read.tuning, again.tuning, again.images) == ((), ("control: one-batch",), IMAGES)
    pauses = IMAGES * PAUSE_S
    assert min(epoch.seconds.hi for epoch in read.epochs) > pauses, "the loader pauses for each image"
    assert min(epoch.seconds.lo for epoch in again.epochs[1:]) < pauses, "nothing waits for it"
