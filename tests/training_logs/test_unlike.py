# ruff: noqa: E501 (lines of logs)
"""Where each training of a log begins and what is known of it; trainings that are not one, blocks that are no epochs, numbers of one log that contradict each other."""

import pytest

from labtui.training_logs.reader import LogReader, parse_log
from labtui.training_logs.run_headers import read_command
from tests.training_logs import samples
from tests.training_logs.samples import mllog, runs_of

KERAS = "Epoch 1/5\n25/25 - 29s - loss: 2.0 - 29s/epoch - 1s/step\nEpoch 2/5\n25/25 - 14s - loss: 2.0 - 14s/epoch - 544ms/step\n"
BESIDE = "Epoch 1 took 5.5 s{} img/s"


def test_records_that_stop_lend_nothing_to_what_follows():
    head = mllog("submission_benchmark", "resnet") + mllog("global_batch_size", 4096) + mllog("run_start")
    head += mllog("epoch_start", ms=0, epoch_num=1)
    for others, epochs in ((KERAS, 2), ("iter 10: loss 8.0, time 245.00ms, mfu 3.00%\n", 0)):
        (run,) = runs_of(head + others)
        assert (run.model, run.batch_size, run.throughput, len(run.epochs)) == (None, None, None, epochs)
        assert any("records stop" in note for note in run.notes)
    (run,) = runs_of(head + KERAS.partition("Epoch 2")[0] + mllog("epoch_stop", ms=29_000, epoch_num=1))
    assert (run.batch_size, len(run.epochs), run.notes) == (4096, 1, ())


def test_samples_and_a_rate_that_contradict_each_other_are_both_left_out():
    text = mllog("run_start", ms=0)
    for n in (1, 2, 3):
        at = 1e5 * n
        text += mllog("epoch_start", ms=at, epoch_num=n) + mllog("epoch_stop", ms=at + 1e4, epoch_num=n)
        text += mllog("tracked_stats", {"throughput": 12_900.0}, epoch_num=n)
    (run,) = runs_of(mllog("train_samples", 117_266) + text)
    assert run.images == 117_266 and run.notes == () and run.epochs[0].metrics == {"throughput": 12_900}
    (run,) = runs_of(mllog("train_samples", 659) + text)
    assert (run.images, run.throughput, *run.epochs[0].metrics) == (None, None) and "659" in run.notes[0]
    (run,) = runs_of("Images per epoch: 50,000\nEpoch 1 | time: 47.04s, 9,999 images/s\n")
    assert (run.images, run.epochs[0].metrics) == (None, {}) and "says 9,999.0. Neither" in run.notes[-1]


def test_a_bar_that_is_drawn_again_after_the_validation_adds_what_it_shows():
    bar = "Epoch {}: 100%|####| 49/49 [00:{}<00:00,  4.05it/s, v_num=0{}]\n"
    (run,) = runs_of("".join(bar.format(n, 12, "") + bar.format(n, 13, f", val_loss=1.{n}") for n in (0, 1)))
    assert (run.epochs[1].metrics, run.epochs[1].line_of("val_loss")) == ({"val_loss": 1.1}, 4)


def test_steps_that_are_called_samples_are_no_rate():
    head = "  Num examples = 10,000\n  Num Epochs = 3\n  Instantaneous batch size per device = 32\n"
    rates = "'train_samples_per_second': 9.375, 'train_steps_per_second': 9.375"
    (run,) = runs_of(f"{head}{{'train_runtime': 100.0, {rates}, 'epoch': 3.0}}\n")
    assert run.throughput is not None and run.throughput.contains(300.0)
    assert (run.batch_per_gpu, run.batch_size) == (32, None) and any("300.0" in note for note in run.notes)
    (half,) = runs_of("INFO:tensorflow:Mixed precision compatibility check (mixed_float16): OK\n" + KERAS)
    assert half.tuning == (("mixed_precision", "fp16"),)
    died, fit = runs_of(head + KERAS)
    assert (len(died.epochs), len(fit.epochs), fit.batch_per_gpu, fit.images) == (0, 2, None, None)


@pytest.mark.parametrize(("line", "metrics"), [
    ("Epoch 1 | Acc: 80.00% | Loss: 0.5234567890123456 | Time: 47.041234567890123s", {"Acc": pytest.approx(0.8), "Loss": 0.5234567890123456}), ("Epoch 1/3: train loss 2.4638, train acc 10.50%, time 1.43s", {"loss": 2.4638, "accuracy": 0.105}),
    *((BESIDE.format(", 1,234.5"), {"images_per_second": 1234.5}), (BESIDE.format(" (980.1234567890123"), {"images_per_second": 980.1234567890123})),
    *(("Time taken for epoch 2 is 28.98 sec, avg 141.3 samples/sec", {"samples_per_second": 141.3}), ("Epoch 1 took 5.5 s, 14.3 examples/s", {"samples_per_second": 14.3}), ("training time for epoch 1: 29.37 mins (2918.36 sent/sec, 139640.48 tokens/sec)", {"sentences_per_second": 2918.36})),
    *((BESIDE.format(text), {}) for text in (", -5", ", val 9", ", per GPU 9", ", 12k", " at 9 img/s per GPU, 1,2345")),
    *((f"Epoch 1 took 5.5 s, 9 img/s {text}", {}) for text in ("for each worker", "each", "(per GPU)")),
    *(("Epoch 1: 100%|###| 196/196 [00:31<00:00,  6.31it/s, loss=7,777.5]", {}), ("Epoch 1 | loss: 7.777,5 | time: 3 s", {})),
    *(("Epoch 1/3 time 1.4 s loss 2.4 accuracy 0.1", {"loss": 2.4, "accuracy": 0.1}), ("Epoch 1 time 1.4 s loss 2.4, best loss 0.1 so far", {})),
])  # fmt: skip
def test_the_metrics_of_a_line_with_their_units_and_no_part_of_a_number_or_another_rate(line, metrics):
    (run,) = runs_of(line + "\n")
    assert run.epochs[0].metrics == metrics and f"{run.unit}_per_second" in {*metrics, "images_per_second"}


@pytest.mark.parametrize("line", [
    "2026-11-21 10:00:00: I gpu_device.cc:1925] Created device /job:localhost/replica:0/task:0/device:GPU:0 with 14000 MB memory:  -> device: 0, name: Tesla P100-PCIE-16GB, pci bus id: 0000:3b:00.0\n",
    "GPU 0: Tesla P100-PCIE-16GB (UUID: GPU-1)\n",
])  # fmt: skip
def test_the_gpus_name(line):
    assert [run.gpu_kind for run in runs_of(line + KERAS)] == ["P100-PCIE-16GB"]


FIT = "Epoch 1/1\n196/196 - 24s - loss: 2.01 - accuracy: 0.25 - 24s/epoch - 121ms/step\n"
SUMMARY = 'Model: "resnet50v2"\n_____\nTotal params: 23,585,290\n_____\n'
ARGUMENTS = "Namespace(batch_size=256, epochs=1)\n"


@pytest.mark.parametrize("head", [SUMMARY, ARGUMENTS, "+ python resnet50.py --epochs 1 --batch_size 256\n"])
@pytest.mark.parametrize("epoch", [
    *(FIT, "Epoch 1/1 | loss: 2.0 | time: 47.04 s\n", "Epoch 1 | loss: 2.0 | time: 47.04 s\n"),
    "Epoch 1/1: 100%|####| 196/196 [00:24<00:00, 8.06it/s]\n",
])  # fmt: skip
def test_a_training_of_one_epoch_and_a_like_one_after_its_own_head_are_two_runs(head, epoch):
    runs = runs_of((head + epoch) * 2)
    assert [(len(run.epochs), run.outcome, run.interleaved) for run in runs] == [(1, "completed", False)] * 2


def test_pytorchs_mean_over_its_batches_is_the_epochs_time():
    """Steps x mean, as wide as the digits and the batches that were not printed leave it."""
    head = "+ python main.py -a resnet50 --batch-size 128 --epochs 1 /data\n"
    (run,) = runs_of(head + samples.PYTORCH_OLD)
    (epoch,) = run.epochs
    assert (epoch.epoch, epoch.steps, epoch.ms_per_step) == (1, 20, 633)
    assert (epoch.seconds.value, epoch.seconds.half_width) == pytest.approx((12.66, 0.01))
    assert epoch.metrics == {"Loss": 6.9, "Prec@1": 0.1}
    assert run.throughput is not None and run.throughput.value == pytest.approx(128 / 0.633)
    (run,) = runs_of(samples.imagenet(0, 1005) + "Test: [ 0/98]\n * Acc@1 10.130 Acc@5 30.862\n")
    (epoch,) = run.epochs
    assert epoch.seconds.contains(502.5) and epoch.seconds.half_width > 1
    assert epoch.metrics["val_acc1"] == 10.13


def test_a_number_beyond_all_bounds_is_no_number():
    text = "epoch=0/step=1, RunningAvgSamplesPerSec=7,777.5\n{'train_runtime': 7,777.5, 'epoch': 2.0}\n"
    text += "Training throughput: 1e999 tok/s\niter 0: loss 8, time 1e999ms, mfu 3\n"
    (run,) = runs_of(text + KERAS)
    assert (len(run.epochs), run.throughput) == (2, None)
    text = mllog("global_batch_size", 1e12) + mllog("run_start", n_gpus=1e6) + mllog("num_replicas", 1e6)
    (run,) = runs_of(text)
    assert (run.batch_size, run.n_gpus, run.gpu_lines) == (None, None, ())


DIED = "Traceback (most recent call last):\n  File \"a.py\", line 3, in <module>\nKeyError: 'x'\n"
BAR = "Epoch {0}: 100%|####| {1}/{1} [00:24<00:00, 8.06it/s]\n"
BY_HAND = "Epoch 3 | Time: 10.20s\nEpoch 4 | Time: 10.30s\n"
CONFIG = "### model: resnet50\n### batch_size: 128\n### epochs: 3\n"


@pytest.mark.parametrize(("log", "planned", "model"), [
    *((KERAS + BY_HAND, [5, None], None), (f"{KERAS}Epoch 3/5\n{DIED}{BY_HAND}", [5, None], None)),
    *((CONFIG + BY_HAND, [3, None], "ResNet50"), (CONFIG + DIED + KERAS, [3, 5], "ResNet50")),
    ("### batch_size: 32\n" + DIED + samples.PYTORCH_OLD, [None, None], None),
    ("iter 0: loss 8.0, time 245.00ms, mfu 3.00%\n" + BY_HAND, [None, None], None),
    (f"{BAR.format(1, 196)}{DIED}{BAR.format(2, 98)}", [None, None], None),
    ("Epoch 2/2 | Time: 9.00s\n" + BY_HAND, [2, None], None),
    ("### model: r50\nKilled\n" + KERAS, [5], None),
    (BY_HAND + "`Trainer.fit` stopped: `max_epochs=10` reached.\n", [None], None),
    (BY_HAND + "`Trainer.fit` stopped: `max_epochs=4` reached.\n", [4], None),
])  # fmt: skip
def test_epochs_belong_to_a_training_that_printed_such_lines_and_got_as_far(log, planned, model):
    runs = runs_of(log)
    assert [run.epochs_planned for run in runs] == planned
    assert (runs[0].model, {run.model for run in runs[1:]} - {None}) == (model, set())


def test_a_rank_that_begins_shares_the_epochs_that_were_read():
    reader = LogReader()
    reader.feed(b"Epoch 1 time: 47 s\nEpoch 2 time: 47 s\n")
    mine, other = ((fold.open or fold.coming).epochs for fold in (reader._fold, reader._fold.fork()))
    assert other is not mine and other[2] is mine[2], "no copy of each"


COMMANDS = {
    "python ResNet50.py --epochs 5 --batch_size 4096 --n_gpus 2": ("ResNet50", "gpu", 2, 4096, 5),
    "+ singularity exec --nv $C python ResNet50_seq.py --epochs 1 --batch_size 256": ("ResNet50", "gpu", 1, 256, 1),
    "+ singularity exec /x.sif python ResNet50_seq.py --epochs 1 --batch_size 256": ("ResNet50", "cpu", 0, 256, 1),
    "+ singularity exec /x.sif python ResNet50.py --epochs 1 --n_gpus 2": ("ResNet50", "cpu", 0, None, 1),
    "++ python3 /home/u/ResNet152.py --epochs=3 --batch-size=64": ("ResNet152", None, None, 64, 3),
    "+ python -u ResNet101_seq.py --device cpu --epochs 2": ("ResNet101", "cpu", 0, None, 2),
    "+ python ResNet50.py --device cpu --n_gpus 4 --epochs 2 --batch_size 64": ("ResNet50", "gpu", 4, 64, 2),
    "mpirun -np 4 -bind-to none python3.6 scripts/tf_cnn_benchmarks/tf_cnn_benchmarks.py --model resnet50 --batch_size 32": ("ResNet50", "gpu", 4, 128, None),
    "mpirun -np 8 python3.6 pytorch-horovod-imagenet.py --bs 128 --lr 0.4 --epochs 1": (None, "gpu", 8, 1024, 1),
    "srun python ./main.py -a resnet50 --print-freq 1 --batch-size 128 --epochs 1 $TMPDIR/x/": ("ResNet50", None, None, 128, 1),
    "torchrun --nproc_per_node=4 --nnodes 2 train_ddp.py --batch_size 32 --epochs 5": (None, "gpu", 8, 256, 5),
    "torchrun --nproc_per_node=4 --nnodes 1:4 train_ddp.py --batch_size 32": (None, None, None, None, None),
    "deepspeed --num_gpus 4 train.py --batch_size 32 --epochs 5": (None, "gpu", 4, 128, 5),
    "mpirun -n 4 -x PATH python hvd_train.py --batch-size 32": ("hvd_train", "gpu", 4, 128, None),
    "+ srun --nodes=2 --ntasks-per-node=4 bash -c export\\ RANK=\\$SLURM_PROCID\\;\\ exec\\ \\\"\\$@\\\" rank python -u train_ddp.py --batch_size 32 --num_epochs 5": (None, "gpu", 8, 256, 5),
    "+ srun --nodes=1 --ntasks-per-node=1 bash -c RANK=0 rank python train_ddp.py --batch_size 32 --device cpu": (None, "gpu", 1, 32, None),
}  # fmt: skip


@pytest.mark.parametrize("text", COMMANDS)
def test_commands(text):
    command = read_command(text)
    assert command is not None
    facts = command.facts
    assert (facts.model, facts.device, facts.n_gpus, facts.batch_size, facts.epochs_planned) == COMMANDS[text]


@pytest.mark.parametrize("text", [
    'File "ResNet50.py", line 3, in <module>',
    "python: can't open file 'ResNet50.py': [Errno 2] No such file or directory", "usage: ResNet50.py [-h] [--epochs EPOCHS]",
    *("ResNet50.py: error: unrecognized arguments: -- epochs 5", "+ python -c 'print(1)'", "+ python plot.py", "python 'unclosed ResNet50"),
])  # fmt: skip
def test_lines_that_start_no_training(text):
    assert read_command(text) is None


def test_feeding_tells_whether_the_report_may_say_more_and_a_jobs_name_may_be_given():
    assert parse_log(samples.keras(1, 2, 2).encode(), job_name="ResNet50_seq_CPU").runs[0].device == "cpu"
    reader = LogReader()
    assert reader.feed(samples.THREE_RUNS.encode())
    assert not reader.feed(b"hello\n 3/25 [==>....] - ETA: 1s\n") and not reader.feed(b"Epoch 1/")
    assert reader.feed(b"2\n") and reader.feed(b"Killed\n") and reader.feed(b"Epoch 1/9: x=1.0 (2.0s)\n")
    reader.finish()
    report = reader.report
    reader.finish()
    assert reader.report == report
