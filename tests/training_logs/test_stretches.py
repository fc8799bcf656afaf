"""Stretches of progress lines and bars are skipped; nothing may be lost by it."""

from __future__ import annotations

import random

import pytest

from labtui.training_logs.lines import LineCutter
from labtui.training_logs.reader import LogReader, parse_log
from labtui.training_logs.runs import LogReport


def progress(epoch: int, batch: int, total: int = 400, mean: float = 0.5, width: int = 3) -> str:
    return (
        f"Epoch: [{epoch}][{batch:{width}d}/{total}]\tTime  0.500 ( {mean:.3f})\tData  0.001 ( 0.002)\t"
        f"Loss 6.9000e+00 (6.9e+00)\tAcc@1   0.00 (  0.12)\n"
    )


def line_by_line(text: str) -> LogReport:
    """Lines fed one at a time: no stretch is ever seen."""
    reader = LogReader()
    for line in text.splitlines(keepends=True):
        reader.feed(line.encode())
    reader.finish()
    return reader.report


def epoch_lines(epoch: int, width: int, first: int = 0) -> list[str]:
    return [progress(epoch, batch + first, mean=0.4 + batch / 4000, width=width) for batch in range(400)]


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("first", [0, 1])
def test_epochs(width: int, first: int) -> None:
    text = "".join(line for epoch in range(3) for line in epoch_lines(epoch, width, first))
    report = parse_log(text.encode())
    assert len(list(LineCutter().feed(text.encode()))) < 40
    assert report == line_by_line(text)
    assert [sample.steps for sample in report.runs[0].epochs] == [400] * 3


@pytest.mark.parametrize(
    "spoiler",
    [
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 MiB.\n",
        "Epoch: [0][ 10/400]\tTime  0.500 ( 0.500)\n",
        "Epoch: [0][300/400]\tTime  0.500 ( 0.500)\n",
        "Epoch: [0][300/400]\tTime  nan ( nan)\n",
        "Epoch: [1][  1/400]\tTime  0.500 ( 0.500)\n",
        "\r\x1b[1mgarbage\n",
        "caf\u00e9\n",
        "=> creating model 'resnet50'\n",
        "Traceback (most recent call last):\n  File\nValueError: no\n",
    ],
)
def test_a_line_between_is_read(spoiler: str) -> None:
    for place in (0, 1, 2, 200, 398, 399, 400):
        lines = epoch_lines(0, 3) + epoch_lines(1, 3)
        lines.insert(place, spoiler)
        assert parse_log("".join(lines).encode()) == line_by_line("".join(lines))


def test_any_order_of_lines() -> None:
    order = random.Random(7)
    for _ in range(30):
        lines = [line for epoch in range(2) for line in epoch_lines(epoch, 1)[:40]]
        for _ in range(order.randrange(4)):
            lines.insert(order.randrange(len(lines)), lines[order.randrange(len(lines))])
        assert parse_log("".join(lines).encode()) == line_by_line("".join(lines))


def bars(epoch: int) -> str:
    bars = "".join(f"{step:3d}/400 [==>...] - ETA: 0:05 - loss: 2.3000\n" for step in range(1, 400))
    return f"Epoch {epoch}/3\n{bars}400/400 [======] - 4s 10ms/step - loss: 2.1000\n"


def test_bars_one_a_line_are_passed_over() -> None:
    text = "".join(bars(epoch) for epoch in (1, 2, 3))
    report = parse_log(text.encode())
    assert (
        len(list(LineCutter().feed(text.encode()))) == 9
    )  # of each epoch its header, its first bar and its last
    assert len(report.runs[0].epochs) == 3
    assert report == line_by_line(text)
