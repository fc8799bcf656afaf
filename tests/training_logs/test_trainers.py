"""Lines of PyTorch's ImageNet example."""

import pytest

from tests.training_logs import samples
from tests.training_logs.samples import only_run


def new_pytorch(epoch: int, steps: int, first: int = 0, every: int = 1) -> str:
    return "".join(
        f"Epoch: [{epoch}][{index:5d}/{steps}]\tTime  0.581 ( 0.500)\tData  0.273 ( 0.283)\tLoss 6.9e+00 (6.8e+00)\t"
        f"Acc@1   0.00 (  0.12)\tAcc@5   0.78 (  0.61)\n"
        for index in range(first, steps + first, every)
    )


def test_pytorch_old():
    run = only_run("+ python main.py -a resnet50 --batch-size 128 --epochs 1 /data\n" + samples.PYTORCH_OLD)
    (sample,) = run.epochs
    assert (sample.epoch, sample.steps, sample.ms_per_step) == (1, 20, 633)
    assert sample.seconds.value == pytest.approx(12.66)
    assert sample.seconds.half_width == pytest.approx(0.01)
    assert run.throughput is not None and run.throughput.value == pytest.approx(128 / 0.633)
    assert sample.metrics == {"Loss": 6.9, "Prec@1": 0.1}
    assert run.outcome == "completed"


@pytest.mark.parametrize("first", [0, 1])
def test_pytorch_new_with_validation(first):
    text = new_pytorch(0, 20, first) + " * Acc@1 10.130 Acc@5 30.862\n" + new_pytorch(1, 20, first)
    run = only_run(text)
    assert [sample.epoch for sample in run.epochs] == [1, 2]
    assert [sample.seconds.value for sample in run.epochs] == pytest.approx([10.0, 10.0])
    assert run.epochs[0].metrics["val_acc1"] == 10.13
    assert all(sample.seconds.contains(10.0) for sample in run.epochs)


def test_pytorch_print_frequency_leaves_a_wider_interval():
    run = only_run(new_pytorch(0, 1005, every=10) + " * Acc@1 10.130 Acc@5 30.862\n")
    (sample,) = run.epochs
    assert sample.seconds.contains(502.5) and sample.seconds.half_width > 1
