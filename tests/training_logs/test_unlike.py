# ruff: noqa: E501 (lines of logs)
"""Trainings that are not one, blocks that are no epochs."""

import pytest

from tests.training_logs import samples
from tests.training_logs.samples import runs_of

KERAS = "Epoch 1/5\n25/25 - 29s - loss: 2.0 - 29s/epoch - 1s/step\nEpoch 2/5\n25/25 - 14s - loss: 2.0 - 14s/epoch - 544ms/step\n"


def test_a_metrics_unit_comes_from_its_line():
    (run,) = runs_of("Epoch 1 | Acc: 80.00% | Loss: 0.52 | Time: 47.04s\n")
    assert run.epochs[0].metrics == {"Acc": pytest.approx(0.8), "Loss": 0.52}


@pytest.mark.parametrize(
    "line",
    [
        "2026-11-21 10:00:00: I gpu_device.cc:1925] Created device /job:localhost/replica:0/task:0/device:GPU:0 with 14000 MB memory:  -> device: 0, name: Tesla P100-PCIE-16GB, pci bus id: 0000:3b:00.0\n",
        "GPU 0: Tesla P100-PCIE-16GB (UUID: GPU-1)\n",
    ],
)
def test_the_gpus_name(line):
    assert [run.gpu_kind for run in runs_of(line + KERAS)] == ["P100-PCIE-16GB"]


FIT = "Epoch 1/1\n196/196 - 24s - loss: 2.01 - accuracy: 0.25 - 24s/epoch - 121ms/step\n"
SUMMARY = 'Model: "resnet50v2"\n_____\nTotal params: 23,585,290\n_____\n'
ARGUMENTS = "Namespace(batch_size=256, epochs=1)\n"


@pytest.mark.parametrize("head", [SUMMARY, ARGUMENTS, "+ python resnet50.py --epochs 1 --batch_size 256\n"])
@pytest.mark.parametrize(
    "epoch",
    [
        FIT,
        "Epoch 1/1 | loss: 2.0 | time: 47.04 s\n",
        "Epoch 1 | loss: 2.0 | time: 47.04 s\n",
        "Epoch 1/1: 100%|####| 196/196 [00:24<00:00, 8.06it/s]\n",
    ],
)
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
    (run,) = runs_of(samples.imagenet(0, 1005) + " * Acc@1 10.130 Acc@5 30.862\n")
    (epoch,) = run.epochs
    assert epoch.seconds.contains(502.5) and epoch.seconds.half_width > 1
    assert epoch.metrics["val_acc1"] == 10.13
