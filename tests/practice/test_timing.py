"""The timing model gives the published epochs back, and is as uncertain as a node."""

import random
import statistics

import pytest

from labtui.practice.pace import Training

PUBLISHED = [
    # network, GPUs, global batch, milliseconds per step as printed, steps
    ("ResNet50V2", 1, 256, 73, 196),
    ("ResNet50V2", 1, 2048, 544, 25),
    ("ResNet50V2", 2, 4096, 623, 13),
    ("ResNet50V2", 4, 8192, 768, 7),
    ("ResNet152V2", 1, 1024, 668, 49),
    ("ResNet152V2", 2, 2048, 718, 25),
    ("ResNet152V2", 4, 4096, 773, 13),
]


@pytest.mark.parametrize(("network", "gpus", "batch", "ms", "steps"), PUBLISHED)
def test_published_epochs_come_out(network, gpus, batch, ms, steps):
    training = Training(network, gpus, batch)
    assert training.steps == steps
    assert training.steady_s == pytest.approx(ms * steps / 1000, abs=0.0005 * steps)


@pytest.mark.parametrize(
    ("network", "gpus", "batch", "seconds"),
    [
        ("ResNet50V2", 1, 2048, 29),
        ("ResNet50V2", 2, 4096, 31),
        ("ResNet50V2", 4, 8192, 47),
        ("ResNet152V2", 4, 4096, 126),
    ],
)
def test_published_first_epochs_come_out(network, gpus, batch, seconds):
    assert Training(network, gpus, batch).first_s == pytest.approx(seconds, abs=0.5)


def test_the_cpu_baseline_comes_out():
    training = Training("ResNet50V2", 0, 256, cores=20, mirrored=False)
    assert round(training.steady_s) == 215
    assert round(training.first_s) == 220


def test_batches_that_do_not_fit_64_gb():
    assert Training("ResNet50V2", 1, 2048).fits
    assert not Training("ResNet50V2", 1, 4096).fits
    assert Training("ResNet152V2", 4, 4096).fits
    assert not Training("ResNet152V2", 1, 2048).fits, "the reason why the lab uses 1024 per GPU"
    assert Training("ResNet152V2", 0, 8192).fits, "the CPU has the node's memory"


def test_noise_is_small_and_follows_its_seed():
    training = Training("ResNet50V2", 2, 4096)
    times = [training.epoch_s(2, random.Random(seed)) for seed in range(400)]
    steady = training.steady_s
    assert statistics.fmean(times) == pytest.approx(steady, rel=0.002)
    assert 0.002 < statistics.stdev(times) / steady < 0.008
    assert training.epoch_s(2, random.Random(7)) == times[7]
