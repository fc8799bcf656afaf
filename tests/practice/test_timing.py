"""The timing model gives the published epochs back, and is as uncertain as a node."""

import pytest

from labtui.practice.pace import Training

PUBLISHED = [
    # network, GPUs, global batch, steps, seconds of the first epoch and of the others
    ("ResNet50V2", 0, 256, 196, 220, 215),
    ("ResNet50V2", 1, 256, 196, 24, 14.3),
    ("ResNet50V2", 1, 2048, 25, 29, 13.6),
    ("ResNet50V2", 2, 4096, 13, 31, 8.1),
    ("ResNet50V2", 4, 8192, 7, 47, 5.38),
    ("ResNet152V2", 1, 1024, 49, 63, 32.73),
    ("ResNet152V2", 2, 2048, 25, 76, 17.95),
    ("ResNet152V2", 4, 4096, 13, 126, 10.05),
]


@pytest.mark.parametrize(("network", "gpus", "batch", "steps", "first", "steady"), PUBLISHED)
def test_published_epochs_come_out(network, gpus, batch, steps, first, steady):
    training = Training(network, gpus, batch)
    assert training.steps == steps
    assert (training.first_s, training.steady_s) == pytest.approx((first, steady))


def test_batches_that_do_not_fit_64_gb():
    assert Training("ResNet50V2", 1, 2048).fits
    assert not Training("ResNet50V2", 1, 4096).fits
    assert Training("ResNet152V2", 4, 4096).fits
    assert not Training("ResNet152V2", 1, 2048).fits, "the reason why the lab uses 1024 per GPU"
    assert Training("ResNet152V2", 0, 8192).fits, "the CPU has the node's memory"
