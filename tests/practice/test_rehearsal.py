"""`python SCRIPT` in a practice job: the student's script runs, mistakes fail as they would there."""

import json
import os
import pickle
import subprocess
import sys
import time
from pathlib import Path

import pytest

from labtui.domain.tuning import tuning_words
from labtui.practice import programs
from labtui.practice.pace import Pace, Training
from labtui.slurm.probe import CIFAR10
from labtui.training_logs.reader import parse_log

REMOTE = Path(__file__).parents[2] / "remote"


@pytest.fixture
def lab(tmp_path):
    """The scripts of the lab, and data files as the practice cluster has them."""
    for source in REMOTE.rglob("*.py"):
        target = tmp_path / source.relative_to(REMOTE)
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(source.read_bytes())
    data = tmp_path / "data"
    data.mkdir()
    for name in CIFAR10:
        content = {b"data": b"rehearsal:10000x3072", b"labels": list(range(10)) * 1000}
        (data / name).write_bytes(pickle.dumps(content, protocol=2))
    return tmp_path


def rehearse(lab, *words, gpus="0,1,2,3", **values):
    environment = {
        **os.environ, "CIFAR10_DATA": str(lab / "data"), "CUDA_VISIBLE_DEVICES": gpus, "LABTUI_PRACTICE_FACTOR": "5000",
        "LABTUI_PRACTICE_JOB": str(lab), **values,
    }  # fmt: skip
    return subprocess.run(
        [sys.executable, "-m", "labtui.practice.rehearse", *words],
        cwd=lab, env=environment, capture_output=True, text=True, timeout=480, check=False,
    )  # fmt: skip


def test_the_log_reads_like_the_course_and_keras_lines_tell_the_same_as_the_records(lab):
    done = rehearse(lab, "ResNet152.py", "--epochs", "6", "--batch_size", "2048", "--n_gpus", "2")
    assert done.returncode == 0, done.stderr
    (run,) = parse_log(done.stdout.encode()).runs
    assert (run.model, run.n_gpus, run.batch_size, run.outcome) == ("ResNet152", 2, 2048, "completed")
    records = run.epochs
    assert records[0].seconds.value > 1.5 * records[1].seconds.value
    assert [sample.seconds.value for sample in records[1:]] == pytest.approx([17.95] * 5, rel=0.03)
    plain = "\n".join(line for line in done.stdout.splitlines() if not line.startswith(":::MLLOG"))
    printed = parse_log(plain.encode()).runs[0].epochs
    assert len(records) == len(printed) == 6
    for truth, read in zip(records, printed, strict=True):
        assert read.seconds.contains(truth.seconds.value)


def test_too_large_a_batch_runs_out_of_memory(lab):
    done = rehearse(lab, "ResNet152.py", "--epochs", "2", "--batch_size", "8192", "--n_gpus", "4")
    assert done.returncode == 5
    out, err = parse_log(done.stdout.encode()), parse_log(done.stderr.encode())
    assert "oom" in {found.kind for found in (*out.diagnosis, *err.diagnosis)}
    done = torchrun(lab, *VIT, "--dataset", image_folder(lab))
    assert done.returncode == 1
    assert "128 images per GPU do not fit: give a smaller --batch_size." in done.stderr
    assert "exitcode  : 5" in done.stderr
    (run,) = parse_log(done.stdout.encode()).runs
    assert (run.outcome, run.epochs) == ("oom", ())


@pytest.mark.parametrize(("words", "text"), [
    (["nowhere.py"], "can't open file"),
    (["ResNet50.py", "–epochs", "5"], "unrecognized arguments"),
    (["ResNet50.py", "-- epochs 5"], "unrecognized arguments"),
    (["ResNet50.py", "--epochs", "“5”"], "invalid int value"),
    (["ResNet50.py", "--device", "cpu", "--data", "/no/such/folder"], "does not exist"),
    (["quotes.py"], "SyntaxError: invalid character"),
    (["module.py"], "ModuleNotFoundError: No module named 'no_such_module'"),
    *((["weights.py"], "Network is unreachable"), (["ResNet50.py"], "TensorFlow sees no GPU at all")),
    (["network.py"], "_v2' has no attribute 'ResNet15V2'"),
    (["imported.py"], "cannot import name 'ResNet152' from 'tensorflow.keras.applications.resnet_v2'"),
])  # fmt: skip
def test_mistakes_fail_as_they_would_there(lab, words, text):
    (lab / "quotes.py").write_text("print(“hello”)\n")
    (lab / "module.py").write_text("import no_such_module\n")
    weights = "tf.keras.applications.ResNet50V2(weights='imagenet')"
    (lab / "weights.py").write_text(f"import tensorflow as tf\n{weights}\n")
    (lab / "network.py").write_text("import keras\nkeras.applications.resnet_v2.ResNet15V2\n")
    (lab / "imported.py").write_text("from tensorflow.keras.applications.resnet_v2 import ResNet152\n")
    done = rehearse(lab, *words, gpus="-1")
    assert done.returncode != 0 and text in done.stderr
    assert "practice/" not in done.stderr, "no frame of ours in a student's traceback"
    found = parse_log(done.stderr.encode()).diagnosis
    assert words != ["network.py"] or "stopped at network.py, line 2" in found[0].advice


def test_the_log_of_a_rehearsal_says_so_whatever_the_job_script_says(lab):
    """A folder whose profile names a real cluster writes `practice: no` into its job scripts."""
    done = rehearse(lab, "ResNet50.py", "--epochs", "2", "--batch_size", "2048", "--n_gpus", "1")
    no = "practice:  no\n"
    for text in (done.stdout, no + done.stdout, done.stdout.replace("\n", f"\n{no}", 1)):
        assert [run.practice for run in parse_log(text.encode()).runs] == [True]
    stamped = done.stdout.splitlines()[0]
    bare = done.stdout.replace(stamped + "\n", "")
    assert [run.practice for run in parse_log(bare.encode()).runs] == [False]
    assert [run.practice for run in parse_log((stamped + "\n" + bare + bare).encode()).runs] == [True, True]
    words = [sys.executable, "-I", "-S", programs.__file__, "nvidia-smi"]
    shown = subprocess.check_output(words, env={**os.environ, "CUDA_VISIBLE_DEVICES": "0"}, text=True)
    log = shown + "Epoch 1/1\n25/25 - 14s - loss: 2.1 - 14s/epoch - 544ms/step\n"
    assert [run.practice for run in parse_log(log.encode()).runs] == [True]


def image_folder(lab, name="micro-224", train=12_500):
    for part in ("train", "val"):
        for number in range(200):
            (lab / name / part / f"n{number:03d}").mkdir(parents=True, exist_ok=True)
    (lab / name / "rehearsal.json").write_text(json.dumps({"train": train, "val": 10_000}))
    return str(lab / name)


def torchrun(lab, *words, each=1, nodes=1, **values):
    start = ("torchrun", f"--nnodes={nodes}", f"--nproc_per_node={each}", "--rdzv_backend=c10d")
    return rehearse(lab, *start, *words, **values)


VIT = ("pytorch/train_ddp.py", "--model_name", "vit", "--num_epochs", "3", "--batch_size", "128")
TUNED = ("--num_workers", "10", "--mixed_precision", "bf16", "--compile")
LM_TUNED = "--mixed_precision bf16 --attn sdpa --use_liger_kernel"


def test_pytorch_on_32_gpus_reads_like_the_course(lab):
    done = torchrun(lab, *VIT, *TUNED, "--dataset", image_folder(lab), each=4, nodes=8, SLURM_NODEID="0")
    assert done.returncode == 0, done.stderr
    assert "### Total number of parameters 631021000" in done.stdout
    assert "### Total training samples (batches): 384 (3)" in done.stdout
    (run,) = parse_log(done.stdout.encode()).runs
    assert (run.practice, run.n_gpus, run.batch_size, run.images) == (True, 32, 4096, 12_288)
    assert tuning_words(run.tuning) == ("bf16", "10 workers", "compiled")
    assert run.epochs[0].seconds.value > 250  # compiled
    assert 12_288 / run.epochs[1].seconds.value == pytest.approx(5205, rel=0.02)
    assert 53 < run.gpu_memory.lo == run.gpu_memory.hi < 54, "the bytes of the record"
    waited = torchrun(lab, *VIT, each=4, nodes=8, SLURM_NODEID="3")
    assert (waited.returncode, waited.stdout) == (0, "")


@pytest.mark.parametrize(("policy", "published"), [("naive", 0.690), ("stepping --warmup_epochs 1", 0.747)])
def test_a_policy_comes_to_the_accuracy_that_is_published_for_it(lab, policy, published):
    reached = learned(lab, f"--num_epochs 18 --lr_policy {policy}", 32)
    assert reached == sorted(reached) and reached[-1] == pytest.approx(published, abs=0.005)


def test_a_larger_batch_learns_more_slowly_and_equal_trainings_differ_a_little(lab):
    ends = [[learned(lab, "--num_epochs 3", gpus, job)[-1] for job in "12"] for gpus in (1, 32)]
    assert min(ends[0]) > max(ends[1]) + 0.02, "a larger batch has fewer updates"
    assert all(0 < max(same) - min(same) < 0.02 for same in ends)
    alone, many = (Pace("resnet50", "tiny-224", frozenset(), gpus, 128).rate() / gpus for gpus in (1, 32))
    assert many / alone == pytest.approx(0.918, abs=0.001), "as the thesis says of its own GPUs"


def learned(lab, given, gpus, job="0"):
    """The accuracy in validation of ResNet-50 on tiny-224, by epoch; 128 images on each GPU."""
    words = f"train_ddp.py --model_name resnet50 --epochs_eval 1 --batch_size 128 --num_workers 10 {given}"
    where = {"each": min(4, gpus), "nodes": max(1, gpus // 4), "SLURM_NODEID": "0", "SLURM_JOB_ID": job}
    data = ("--mixed_precision", "tf32", "--dataset", image_folder(lab, "tiny-224", 100_000))
    (run,) = parse_log(torchrun(lab, *f"pytorch/{words}".split(), *data, **where).stdout.encode()).runs
    assert len({epoch.seconds for epoch in run.epochs}) > 2, "no two epochs take the same time"
    return [epoch.metrics["val_accuracy"] for epoch in run.epochs]


@pytest.mark.parametrize(("gpus", "rate"), [(1, 48229), (32, 41424)])
def test_tokens_of_a_language_model_are_those_of_the_tables(lab, gpus, rate):
    given = "--per_device_train_batch_size 37 --sequence_length 1024 --max_steps 450 --model_precision bf16"
    words = ["pytorch/benchmark_lm.py", *given.split(), *LM_TUNED.split()]
    done = torchrun(lab, *words, each=min(4, gpus), nodes=max(1, gpus // 4), SLURM_NODEID="0")
    assert done.returncode == 0, done.stderr
    (run,) = parse_log(done.stdout.encode()).runs
    assert (run.unit, run.n_gpus, run.outcome) == ("tokens", gpus, "completed")
    assert run.throughput.value / gpus == pytest.approx(rate, rel=0.01)
    assert run.gpu_memory.value == pytest.approx(62.2, abs=0.3)


def test_what_nobody_foresaw_is_recorded_and_the_script_goes_on(lab):
    (lab / "mine.py").write_text(
        "import torch, tensorflow as tf\nfrom torch.fft import rfft\nfrom keras.layers import Dense\n"
        "class Mine(tf.keras.layers.Layer):\n    pass\n"
        "print(rfft(torch.ones(3)) + 1, Mine(Dense(3)).built, tf.linalg.inv([[1.0]])[0])\n"
        "import numpy as np\n(x, y), (a, b) = tf.keras.datasets.cifar10.load_data()\n"
        "values, places = torch.ones(3).max(1)\n_, places = torch.max(torch.ones(3), dim=1)\n"
        "n, c = x.shape\nn, c, h, w = torch.ones(3).size()\ntorch.ones(3).max(1).indices\n"
        "print(f'{np.mean(x):.4f} {np.sum(y):d}', int(a // 2), round(abs(b % 2) & 1, 2), range(np.max(x, 1)))\n"
        "model = tf.keras.applications.ResNet50V2(weights=None)\n"
        "data = tf.data.Dataset.from_tensor_slices((x, y))\nmodel.fit(data.take(1000).batch(100), verbose=2)\n"
        "loss, accuracy = model.evaluate(data)\ntry:\n    model.fit(data.take(9).batch(10, drop_remainder=True))\n"
        "except ValueError as error:\n    print(error)\n"
    )
    done = rehearse(lab, "mine.py")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("practice: yes") == 2 and "recorded" in done.stdout
    assert "\nnan 50000" in done.stdout and "\n10/10 - " in done.stdout and "(Empty Logs)" in done.stdout


@pytest.mark.parametrize(("network", "gpus", "batch", "steps", "first", "steady"), [  # with a global batch
    *(("ResNet50V2", 0, 256, 196, 220, 215), ("ResNet50V2", 1, 256, 196, 24, 14.3)),
    *(("ResNet50V2", 1, 2048, 25, 29, 13.6), ("ResNet50V2", 2, 4096, 13, 31, 8.1)),
    *(("ResNet50V2", 4, 8192, 7, 47, 5.38), ("ResNet152V2", 1, 1024, 49, 63, 32.73)),
    *(("ResNet152V2", 2, 2048, 25, 76, 17.95), ("ResNet152V2", 4, 4096, 13, 126, 10.05)),
])  # fmt: skip
def test_published_epochs_come_out(network, gpus, batch, steps, first, steady):
    training = Training(network, gpus, batch)
    assert training.steps == steps
    assert (training.first_s, training.steady_s) == pytest.approx((first, steady))


def test_batches_that_do_not_fit_64_gb():
    assert Training("ResNet50V2", 1, 2048).fits
    assert not Training("ResNet50V2", 1, 4096).fits and Training("ResNet50V2", 4, 2).steady_s > 0
    assert Training("ResNet152V2", 4, 4096).fits
    assert not Training("ResNet152V2", 1, 2048).fits, "the reason why the lab uses 1024 per GPU"
    assert Training("ResNet152V2", 0, 8192).fits, "the CPU has the node's memory"


def test_what_a_slow_laptop_takes_to_start_a_script_is_no_time_of_its_job(monkeypatch, tmp_path):
    slept: list[float] = []
    monkeypatch.setenv("LABTUI_PRACTICE_JOB", str(tmp_path))
    for name in ("time", "monotonic", "perf_counter", "time_ns"):
        monkeypatch.setattr(time, name, lambda: 1000.0)
    monkeypatch.setattr(time, "sleep", slept.append)
    assert programs.unaccounted_s() == 0
    programs.account()
    # Begun, then put back and begun again.
    for name, at, late in (("accounted", 992, 8), ("slurm_script.new", 998, 2)):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (at, at))
        assert programs.unaccounted_s() == late
    shown = programs.PracticeClock(began=1000.0, factor=60.0)
    clock = programs.RehearsedTime(shown, programs.unaccounted_s())
    clock.advance(120.0)
    assert slept == []
    clock.advance(60.0)
    assert slept == [1.0]
    monkeypatch.setattr(os, "execvpe", lambda *_: None)
    programs.date([])
    assert programs.unaccounted_s() == 0, "no training begins before the start that the log's head names"
    clock.install()
    assert (time.monotonic(), time.time_ns()) == (120.0, 1000 * 10**9), "a cancelled one ends in its sleep"
