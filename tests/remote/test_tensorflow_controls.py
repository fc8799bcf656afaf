"""The control run of the TensorFlow scripts without a loader, on CPU devices, counted."""

import importlib.util
import shutil

import pytest

from labtui.training_logs.reader import parse_log
from tests.real_cluster.dataset import write_cifar
from tests.remote.conftest import REMOTE, ended, started, trained

pytestmark = [pytest.mark.tensorflow, pytest.mark.slow, pytest.mark.xdist_group("tensorflow")]

MULTIWORKER = REMOTE / "tensorflow" / "train_multiworker.py"
STEPS, EPOCHS = 3, 2
"""On two devices, the last step short."""
IMAGES, BATCH = 20, 8
BEFORE = ".batch(batch_size).prefetch(tf.data.AUTOTUNE)\n    test_ds"
COUNTED = ".batch(batch_size).map(counted).with_options(ALONE)\n    test_ds"
PLANTED = '''


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


def test_one_batch_again_and_again_has_no_loader(small_scripts, tmp_path):
    """Each epoch reads the data set; a control run asks for one batch of it."""
    scripts, data = tmp_path / "remote", tmp_path / "cifar-10-batches-py"
    shutil.copytree(small_scripts, scripts)
    write_cifar(data, per_file=IMAGES // 5)
    loader = scripts / "cifar-utils" / "cifar.py"
    text = loader.read_text("utf-8")
    assert text.count(BEFORE) == 1
    loader.write_text(text.replace(BEFORE, COUNTED) + PLANTED, "utf-8")
    words = ["--epochs", str(EPOCHS), "--batch_size", str(BATCH), "--n_gpus", "2", "--data", str(data)]
    read = {}
    for control in ("none", "one-batch"):
        here = tmp_path / control
        here.mkdir()
        made = trained(here, str(scripts / "ResNet50.py"), *words, "--control", control)
        assert made.status == 0, made.err.decode()
        (run,) = parse_log(made.out).runs
        assert [epoch.steps for epoch in run.epochs] == [STEPS] * EPOCHS and run.images == IMAGES
        assert run.tuning == (() if control == "none" else (("control", "one-batch"),))
        read[control] = (here / "read").read_text().count("batch")
    assert read["none"] >= STEPS * EPOCHS and read["one-batch"] == 1


def test_a_script_that_ignores_one_batch_is_refused(small_scripts, data, tmp_path):
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


@pytest.mark.parametrize(("control", "tasks"), [("independent", 2), ("one-batch", 1)])
def test_control_runs_have_the_steps_of_the_training(control, tasks, tmp_path):
    """Each task is a worker on this machine; those of independent trainings do not wait for each other."""
    if importlib.util.find_spec("tf_keras") is None:
        pytest.skip("tf_keras is not installed: training over several workers was NOT tried")
    words = [
        *("--device", "cpu", "--model", "small", "--dataset", "synthetic", "--images", "50"),
        *("--batch_size", "16", "--epochs", "1", "--control", control),
    ]  # fmt: skip
    job = {"SLURM_JOB_ID": "5", "SLURM_STEP_NODELIST": "localhost", "SLURM_STEP_NUM_TASKS": str(tasks)}
    folders = [tmp_path / str(rank) for rank in range(tasks)]
    for folder in folders:
        folder.mkdir()
    workers = [started(each, str(MULTIWORKER), *words, SLURM_PROCID=each.name, **job) for each in folders]
    first, *others = map(ended, workers, folders)
    assert not any(each.status for each in (first, *others)), (first, others)
    (run,) = parse_log(first.out).runs
    assert (run.n_gpus, run.batch_size, run.tuning) == (tasks, 16, (("control", control),))
    assert [epoch.steps for epoch in run.epochs] == [3]
    assert all(b"epoch_stop" not in each.out for each in others)


FIT = "    model.fit(batches, epochs=args.epochs, verbose=2, callbacks=[lab.RunLog(args, train_ds)])\n"
BEFORE_ALL = "    train_ds, test_ds = load_cifar("
SEEDED = "    tf.keras.utils.set_random_seed(1)\n    tf.config.experimental.enable_op_determinism()\n"


def test_the_log_changes_no_loss(small_scripts, tmp_path):
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
        write_cifar(data, per_file=4)
        words = ["--epochs", "2", "--batch_size", "8", "--n_gpus", "2", "--data", str(data)]
        made = trained(here, str(own), *words)
        assert made.status == 0, made.err.decode()
        assert (b":::MLLOG" in made.out) is (name == "with")
        losses.append(next(line.split()[1:] for line in made.lines if line.startswith("losses")))
    assert losses[0] == losses[1] and len(losses[0]) == 2
