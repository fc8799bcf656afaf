"""Control runs of the TensorFlow scripts on CPU devices, and what the log costs a training: no bit of a loss."""

import importlib.util
import shutil

import pytest

from labtui.training_logs.reader import parse_log
from tests.remote.conftest import FITS, REMOTE, Trained, changed, ended, started, trained

pytestmark = [pytest.mark.tensorflow, pytest.mark.slow, pytest.mark.xdist_group("tensorflow")]

MULTIWORKER = REMOTE / "tensorflow" / "train_multiworker.py"


def batches_read(run: Trained) -> int:
    return run.file.with_name("read").read_text().count("batch")


def losses(run: Trained) -> list[str]:
    (line,) = [line for line in run.lines if line.startswith("losses")]
    return line.split()[1:]


def test_one_batch_again_and_again_has_no_loader(two_replicas, watched_scripts, two_words, tmp_path):
    """Each epoch reads the data set; a control run asks for one batch of it."""
    alone = trained(tmp_path, str(watched_scripts / "ResNet50.py"), *two_words, "--control", "one-batch")
    for made, tuning in ((two_replicas, ()), (alone, (("control", "one-batch"),))):
        assert made.status == 0, made.err.decode()
        (run,) = parse_log(made.out).runs
        assert [epoch.steps for epoch in run.epochs] == [3] * 2 and (run.images, run.tuning) == (40, tuning)
    assert batches_read(two_replicas) >= 2 * 3 and batches_read(alone) == 1


def test_the_log_changes_no_loss(two_replicas, watched_scripts, two_words, tmp_path):
    """The same training on two devices with labtui's log and without: equal to the last bit."""
    shutil.copytree(watched_scripts, tmp_path / "remote")
    changed(tmp_path / "remote", "ResNet50.py", ("[lab.RunLog(args, train_ds)]", "[]"))
    silent = trained(tmp_path, str(tmp_path / "remote" / "ResNet50.py"), *two_words)
    assert silent.status == 0 and b":::MLLOG" not in silent.out, silent.err.decode()
    assert losses(silent) == losses(two_replicas) and len(losses(silent)) == 2


def test_a_script_that_ignores_one_batch_is_refused(small_scripts, two_words, tmp_path):
    """Its log would be marked as a control run, though it reads the data set."""
    shutil.copytree(small_scripts, tmp_path / "remote")
    ignored = ("    batches = lab.batches(args, train_ds)\n", "")
    changed(tmp_path / "remote", "ResNet50.py", ignored, (FITS, FITS.replace("batches", "train_ds")))
    script = str(tmp_path / "remote" / "ResNet50.py")
    made = trained(tmp_path, script, *two_words, "--control", "one-batch")
    assert made.status == 2, made
    assert b"call fit(batches(args, train_ds), ...)" in made.err and b"epoch_stop" not in made.out


@pytest.mark.parametrize(("control", "tasks"), [("independent", 2), ("one-batch", 1)])
def test_control_runs_have_the_steps_of_the_training(control, tasks, tmp_path):
    """The first task's log; of independent trainings the second never starts, and is not waited for."""
    if importlib.util.find_spec("tf_keras") is None:
        pytest.skip("tf_keras is not installed: training over several workers was NOT tried")
    words = [
        *("--device", "cpu", "--model", "small", "--dataset", "synthetic", "--images", "50"),
        *("--batch_size", "16", "--epochs", "1", "--control", control),
    ]  # fmt: skip
    job = {"SLURM_JOB_ID": "5", "SLURM_STEP_NODELIST": "localhost", "SLURM_STEP_NUM_TASKS": str(tasks)}
    first = ended(started(tmp_path, str(MULTIWORKER), *words, SLURM_PROCID="0", **job), tmp_path)
    assert first.status == 0, first.err.decode()
    (run,) = parse_log(first.out).runs
    assert (run.n_gpus, run.batch_size, run.tuning) == (tasks, 16, (("control", control),))
    assert [epoch.steps for epoch in run.epochs] == [3]
