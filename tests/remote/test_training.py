"""The training scripts, run with the TensorFlow that is installed here, on CPU devices and small images."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from mlperf_logging.compliance_checker import mlp_compliance, mlp_parser

from labtui.training_logs.diagnosis import join_streams
from labtui.training_logs.reader import parse_log
from tests.real_cluster.cluster import alive, wait_until
from tests.remote.conftest import IMAGES, REMOTE, Trained, ended, started, trained, training
from tests.remote.warm import Process

pytestmark = [pytest.mark.tensorflow, pytest.mark.slow, pytest.mark.xdist_group("tensorflow")]

RULESET = "6.1.0"


def records(run: Trained) -> list[tuple[str, Any, dict[str, Any]]]:
    """(key, value, metadata) of every record, as the mlperf-logging package reads them."""
    lines, errors = mlp_parser.parse_file(str(run.file), ruleset=RULESET)
    assert errors == []
    return [(line.key, line.value["value"], line.value["metadata"]) for line in lines]


def facts(run: Trained) -> dict[str, Any]:
    return {key: value for key, value, _ in records(run) if value is not None}


def metadata(run: Trained, key: str) -> list[dict[str, Any]]:
    return [found for name, _, found in records(run) if name == key]


def plain(run: Trained) -> list[str]:
    """What a reader without MLPerf's records sees."""
    return [line for line in run.lines if not line.startswith(":::MLLOG")]


def test_it_prints_the_books_banner_and_keras_lines(two_replicas):
    assert two_replicas.status == 0, two_replicas.err.decode()
    banner, lines = plain(two_replicas)[:4], plain(two_replicas)[5:]
    assert banner[0] == " Model ResNet50 2 GPUs " and set(banner[1]) == {"-"}
    assert banner[2:] == ["Batch_size: 16", "Num_replicas: 2 "]
    assert [line for line in lines if line.startswith("Epoch")] == ["Epoch 1/2", "Epoch 2/2"]
    summaries = [line for line in lines if re.match(r"3/3 - \d+s - ", line)]
    assert len(summaries) == 2
    assert all("loss: " in line and "accuracy: " in line and "/step" in line for line in summaries)


def test_its_records_hold_facts_times_and_the_metrics_of_keras(two_replicas):
    found = facts(two_replicas)
    expected = {
        "model_name": "ResNet50", "device": "cpu", "n_gpus": 2, "num_replicas": 2, "global_batch_size": 16,
        "train_samples": IMAGES, "epochs": 2, "opt_name": "sgd", "opt_base_learning_rate": 0.02,
    }  # fmt: skip
    assert {name: found[name] for name in expected} == expected
    assert found["framework"].startswith("tensorflow 2.") and found["host"]
    assert metadata(two_replicas, "device")[0]["small"] is True
    stops, (end,) = metadata(two_replicas, "epoch_stop"), metadata(two_replicas, "run_stop")
    for key in ("epoch_start", "epoch_stop", "tracked_stats"):
        assert [each["epoch_num"] for each in metadata(two_replicas, key)] == [1, 2]
    assert all(stop["steps"] == 3 and stop["samples"] == IMAGES and stop["seconds"] > 0 for stop in stops)
    assert end["status"] == "success" and sum(stop["seconds"] for stop in stops) <= end["seconds"]
    assert [stop["run_seconds"] for stop in stops] == sorted(stop["run_seconds"] for stop in stops)
    tracked = [value for key, value, _ in records(two_replicas) if key == "tracked_stats"]
    printed = [line for line in plain(two_replicas) if "/step" in line]
    for value, line in zip(tracked, printed, strict=True):
        assert f"loss: {value['loss']:.4f}" in line


def test_labtui_reads_one_complete_run(two_replicas):
    report = parse_log(two_replicas.out)
    (run,) = report.runs
    assert (run.model, run.n_gpus, run.batch_size, run.epochs_planned) == ("ResNet50", 2, 16, 2)
    assert (run.outcome, run.images, run.learning_rate) == ("completed", IMAGES, 0.02) and run.small
    (keras,) = parse_log("\n".join(plain(two_replicas)).encode()).runs
    stops = metadata(two_replicas, "epoch_stop")
    for mine, other, stop in zip(run.epochs, keras.epochs, stops, strict=True):
        assert (mine.source, mine.epoch, mine.steps) == ("mllog", other.epoch, other.steps)
        assert mine.seconds.contains(stop["seconds"]) and other.source == "keras"
    both = join_streams(report, parse_log(two_replicas.err))
    assert both.diagnosis == (), "the CPU was asked for, so the missing GPU is no finding"


def test_the_real_compliance_checker_accepts_the_records(two_replicas, tmp_path):
    """The package's own rules for every key we write; a run without submission keys has no others to meet."""
    rules = yaml.safe_load(
        (Path(mlp_compliance.__file__).parent / f"training_{RULESET}" / "common.yaml").read_text()
    )
    # (Blocks are the package's alternative to epochs: their rules must be there, but ask for nothing more.)
    ours = {"run_stop", "epoch_start", "epoch_stop", "block_start", "block_stop", "train_samples"}
    kept = [rule for rule in rules if "BEGIN" in rule or rule.get("KEY", {}).get("NAME") in ours]
    assert len(kept) == 1 + len(ours)
    started = {"NAME": "run_start", "REQ": "EXACTLY_ONE", "POST": " s['run_started'] = True "}
    config = tmp_path / "rules.yaml"
    config.write_text(yaml.safe_dump([*kept, {"KEY": started}]))
    checker = mlp_compliance.make_checker("training", RULESET, quiet=False, werror=True)
    assert checker.check_file(str(two_replicas.file), str(config)), checker.overwritable
    broken = tmp_path / "broken.out"
    broken.write_bytes(two_replicas.out.replace(b'"epoch_num"', b'"number"'))
    assert not mlp_compliance.make_checker("training", RULESET, False, True).check_file(
        str(broken), str(config)
    )


def test_sequential_run_on_the_cpu(sequential):
    assert sequential.status == 0, sequential.err.decode()
    assert plain(sequential)[0] == " Model ResNet50 0 GPUs "
    found = facts(sequential)
    assert (found["device"], found["n_gpus"], found["num_replicas"]) == ("cpu", 0, 1)
    assert (found["train_samples"], found["opt_base_learning_rate"]) == (12, 0.01)
    assert metadata(sequential, "device")[0]["small"] is False
    (run,) = parse_log(sequential.out).runs
    assert (run.device, run.n_gpus, run.mark, len(run.epochs)) == ("cpu", 0, "small", 1)
    assert run.epochs[0].steps == 2


def test_out_of_memory_says_so(data, small_scripts, tmp_path):
    """An image of 192 TB, more than an address holds: refused at once, as a GPU refuses too large a batch."""
    run = trained(
        tmp_path, str(small_scripts / "ResNet50_seq.py"), "--data", str(data), "--image-size", "4000000",
        "--images", "2", "--batch_size", "2",
    )  # fmt: skip
    assert run.status == 5
    last = run.err.decode().strip().splitlines()[-1]
    assert last.startswith("error: Out of memory with a global batch of 2 on 1 replica(s)")
    assert "give a smaller --batch_size" in last and "OOM when allocating tensor" in last
    assert b"Traceback" not in run.err
    (end,) = metadata(run, "run_stop")
    assert (end["status"], end["reason"]) == ("aborted", "out of memory")
    assert parse_log(run.out).runs[0].outcome != "completed"


UNWRITABLE = """\
import os, signal, sys, time
sys.path.insert(0, sys.argv[1])
import resnet_lab


class Full:
    def flush(self):
        raise OSError(28, "No space left on device")


resnet_lab.on_sigterm(resnet_lab._terminated)
sys.stdout = Full()
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(60)
"""


def test_termination_ends_a_training_that_cannot_write_its_log(tmp_path):
    (tmp_path / "unwritable.py").write_text(UNWRITABLE, encoding="ascii")
    assert ended(started(tmp_path, str(tmp_path / "unwritable.py"), str(REMOTE)), tmp_path).status == 143


LONG_STEP = """\
    def turn(number, images):
        return number + 1, images

    def forever(images):
        tf.print("begun", output_stream="file://begun")
        start = (tf.constant(0, tf.int64), images)
        return images + 0 * tf.stop_gradient(tf.while_loop(lambda number, _: number < 10**12, turn, start)[1])

    layers = [
        tf.keras.Input(input_shape),
        tf.keras.layers.Lambda(forever, output_shape=input_shape),
        tf.keras.layers.GlobalAveragePooling2D(),
        tf.keras.layers.Dense(classes, activation="softmax"),
    ]
    return tf.keras.Sequential(layers, name="resnet50v2")
"""


def test_termination_does_not_wait_for_the_step(data, small_scripts, tmp_path):
    """Slurm kills 30 s after SIGTERM, and a step on a CPU may take longer. The step here never ends."""
    scripts = tmp_path / "remote"
    shutil.copytree(small_scripts, scripts)
    script = scripts / "ResNet50_seq.py"
    head, body = script.read_text(encoding="ascii").split('instead of fifty."""\n')
    _, rest = body.split("\n\n\ndef train")
    script.write_text(f'{head}instead of fifty."""\n{LONG_STEP}\n\ndef train{rest}', encoding="ascii")
    words = ["--epochs", "100000", "--batch_size", "8", "--images", "8", "--data", str(data)]
    process = started(tmp_path, *training(str(script), *words))
    begun = tmp_path / "begun"
    wait_until(lambda: begun.exists() or process.poll() is not None, what="the step", deadline_s=480)
    process.terminate()
    run = ended(process, tmp_path)
    assert run.status == 143, run.err.decode()
    (end,) = [line for line in run.lines if '"run_stop"' in line]
    stop = json.loads(end.removeprefix(":::MLLOG "))["metadata"]
    assert (stop["status"], stop["reason"]) == ("aborted", "terminated")
    assert run.err.decode().strip().splitlines()[-1].startswith("error: The training was terminated")
    assert b"Traceback" not in run.err
    assert parse_log(run.out).runs[0].outcome == "cancelled"


def test_independent_trainings_speak_of_all_of_them(data, small_scripts, tmp_path):
    """The first of two, as it is started for both."""
    words = ["--epochs", "1", "--batch_size", "16", "--n_gpus", "2", "--images", "32", "--data", str(data)]
    script, control = str(small_scripts / "ResNet50.py"), ["--control", "independent"]
    run = trained(tmp_path, script, *words, *control, INDEPENDENT_TRAINING="0")
    assert run.status == 0, run.err.decode()
    (read,) = parse_log(run.out).runs
    assert (read.n_gpus, read.batch_size, read.images) == (2, 16, 32)
    assert read.tuning == (("control", "independent"),)
    assert [epoch.steps for epoch in read.epochs] == [2]


APART = """\
import os, sys, time
from pathlib import Path
share = os.environ.get("INDEPENDENT_TRAINING")
if share is None:
    sys.path.insert(0, os.environ["SCRIPTS"])
    import resnet_lab
    resnet_lab.main(None, parallel=True)
Path("started-" + share).write_text(str(os.getpid()))
time.sleep(int(os.environ["TAKES"]))
sys.exit(3 * int(share))
"""


def trained_apart(folder: Path, seconds: int) -> Process | subprocess.Popen[bytes]:
    """Two processes that only take this long, started as independent trainings are; the second fails."""
    (folder / "apart.py").write_text(APART, encoding="ascii")
    words = [str(folder / "apart.py"), "--n_gpus", "2", "--control", "independent"]
    return started(folder, *words, SCRIPTS=str(REMOTE), TAKES=str(seconds))


def test_independent_trainings_end_with_the_worst_exit_code(tmp_path):
    assert ended(trained_apart(tmp_path, 0), tmp_path).status == 3


def test_cancelled_independent_trainings_all_end(tmp_path):
    process = trained_apart(tmp_path, 600)
    pids = [tmp_path / f"started-{number}" for number in range(2)]
    wait_until(lambda: all(path.exists() and path.read_text() for path in pids), what="two trainings")
    process.terminate()
    assert ended(process, tmp_path).status == 143
    wait_until(lambda: not any(alive(int(path.read_text())) for path in pids), what="both to end")


DRIVER = Path(__file__).with_name("driver.py")


@pytest.fixture(scope="module")
def report(data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What driver.py found, in one process."""
    folder = tmp_path_factory.mktemp("driver")
    done = ended(started(folder, str(DRIVER), str(REMOTE), str(data)), folder)
    assert done.status == 0, done.err.decode()
    (line,) = [line for line in done.lines if line.startswith("REPORT ")]
    found: dict[str, Any] = json.loads(line.removeprefix("REPORT "))
    return found


@pytest.mark.parametrize(("case", "code", "sentence"), [
    ("no data", 3, "error: The data folder /nowhere/cifar-10-batches-py does not exist. Name the folder"),
    ("default data", 3, f"The data folder {REMOTE}/cifar-utils/cifar-10-batches-py does not exist."),
    ("file missing", 3, "is incomplete: data_batch_3 missing."),
    ("file cut", 3, "data_batch_2 is not a CIFAR-10 file, or was not copied completely."),
    ("file strange", 3, "test_batch is not a CIFAR-10 file"),
    ("too many images", 3, "100000 training images were asked for, but"),
    ("no gpu", 4, "error: 2 GPUs were asked for, but TensorFlow sees no GPU at all."),
    ("no gpu in a gpu job", 4, "error: This job was given a GPU, but TensorFlow sees none."),
    ("small batch", 2, "--batch_size: 3 is the global batch, but must hold an image for each of 4 GPUs"),
    ("no epochs", 2, "error: argument --epochs: must be at least 1, not 0"),
    ("no rate", 2, "error: argument --learning_rate: must be a number above 0, not nan"),
    ("long dash", 2, "error: unrecognized arguments: –epochs 5"),
    ("long dash", 2, "as copied from a document: type '--epochs 5' by hand."),
    ("blank after dashes", 2, "as copied from a document"),
])  # fmt: skip
def test_a_sentence_and_an_exit_code(report, case, code, sentence):
    ending = report["endings"][case]
    assert ending["code"] == code and sentence in ending["err"]
    assert "Traceback" not in ending["err"]
    assert ending["out"] == "", "nothing that looks like a run"
    told = report["endings"]["help"]
    assert told["code"] == 0
    assert all(option in told["out"] for option in ("--epochs", "--batch_size", "--n_gpus", "--data"))


def test_pipeline(report):
    found = report["pipeline"]
    assert found["images"] == IMAGES
    assert found["batches"] == [7, 7, 7, 7, 7, 5], "the last batch is short, not dropped"
    assert found["same pixels"] and found["type"] == "float32"
    assert found["large"] == [128, 128, 3] and found["large batches"] == [4, 2]
    assert found["corner"] and found["range"]
    assert found["test images"] == IMAGES // 5, "once each: fit(validation_data=test_ds) comes to its end"


@pytest.mark.parametrize("script", ["ResNet50", "ResNet101_seq", "ResNet152"])
def test_each_script_trains_its_network(report, script):
    built, name = report["models"][script], script.removesuffix("_seq")
    told = {"keras": f"{name.lower()}v2", "short": name, "classes": 10}
    assert built == told | {"rate": 0.02, "verbose": 2, "epochs": 3}
