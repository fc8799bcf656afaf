"""Any cutting of the bytes gives the same report, and no bytes make the reader raise."""

from functools import partial
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from labtui.training_logs.gpu_sampler import read_samples
from labtui.training_logs.lines import LineCutter
from labtui.training_logs.reader import LogReader, parse_log
from tests.training_logs import samples

SAMPLES = [text.encode() for text in samples.ALL]


def read(chunks: list[bytes]) -> str:
    """All that is read, which must not depend on how the bytes come."""
    return repr(parse_log(chunks))


def test_a_long_log_is_reported_once_and_broken_utf8_in_a_line_keeps_the_rest(monkeypatch):
    made, report = [], LogReader.report
    monkeypatch.setattr(LogReader, "report", property(lambda self: made.append(1) or report.__get__(self)))
    parse_log(b"Epoch 1/2\n25/25 - 14s - loss: 2.0\n" * 1000 for _ in range(3))
    assert len(made) == 1, "else reading would take the square of its epochs"
    report = parse_log(b"Epoch 1/1\n10/10 - 2s - loss: 1.0 - caf\xe9\xff: 0.5 - val_loss: 3.0\n")
    assert report.runs[0].epochs[0].metrics == {"loss": 1.0, "caf\ufffd\ufffd": 0.5, "val_loss": 3.0}


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[start:end] for start, end in pairwise(edges)]


@st.composite
def logs(draw: st.DrawFn) -> bytes:
    """A real log, whole or with some stretches of it lost or overwritten."""
    data = bytearray(draw(st.sampled_from(SAMPLES)))
    edit = st.tuples(st.integers(0), st.integers(0, 40), st.binary(max_size=8))
    for place, length, put in draw(st.lists(edit, max_size=10)):
        at = place % (len(data) + 1)
        data[at : at + length] = put
    return bytes(data)


WORDS = [
    *b"\r|\b|\b\b\b|\n| |\x1b[0m|\x1b[2D|\x1b[|\x1b]8;;x\x07|\xe2\x94|\x81|abc|/|Killed|\x00".split(b"|"),
    *b"Epoch 1/2|25/25 - 5s - loss: 1.0|24/25 [====>.] - ETA: 1s|Epoch 2/2|0: |[default1]:".split(b"|"),
    *b"Traceback (most recent call last):|ValueError: no| Model ResNet50 2 GPUs ".split(b"|"),
    *(b"Epoch 1: 100%|#| 9/9 [00:05<00:00, 1it/s]", b"Epoch 2:   9%|"),
    *(b':::MLLOG {"key": "epoch_stop", "metadata": {"epoch_num": 1, "seconds": 3}}', b"9 " * 15, b"x" * 50),
]
PARTS = st.lists(st.sampled_from(WORDS), max_size=60).map(b"".join)


@example(b"25/2\x1b5 4s 4s/step\n", [*range(20)])
@given(logs() | PARTS | st.binary(max_size=400), st.lists(st.integers(0, 1 << 20), max_size=40))
def test_any_chunking_gives_the_same_read(data, places):
    assert read(cut(data, places)) == read([data])
    assert isinstance(read_samples(data), tuple)


@given(PARTS, st.lists(st.integers(0, 2000), max_size=10), st.integers(30, 90))
def test_the_cutter_gives_the_same_lines_for_any_chunking(data, places, limit):
    def lines(chunks: list[bytes]) -> list[str]:
        cutter = LineCutter(piece_limit=limit)
        found = [line for chunk in chunks for line in cutter.feed(chunk)]
        # a bar on its way may be skipped in a stretch, or given as a line that means nothing
        shown = [str(line) for line in [*found, *cutter.finish()] if "24/25" not in line.text]
        return [*shown, str(cutter.lines)]

    assert lines(cut(data, places)) == lines([data])


def test_a_line_without_end_costs_no_memory_and_no_data():
    reader = LogReader()
    for _ in range(50):
        reader.feed(b"x" * 1_000_000)
    reader.feed(b"\nEpoch 1/1\n10/10 - 2s - loss: 1.0\n")
    reader.finish()
    assert reader.runs[0].epochs[0].line == 3 and len(reader._cutter._piece) < 100_000


def epoch_lines(epoch: int, width: int = 3, first: int = 0) -> list[str]:
    return [
        f"Epoch: [{epoch}][{batch:{width}d}/100]\tTime  0.500 ( {0.4 + batch / 1000:.3f})\tData  0.001 ( 0.002)\t"
        "Loss 6.9000e+00 (6.9e+00)\tAcc@1   0.00 (  0.12)\n"
        for batch in range(first, 100 + first)
    ]


def line_by_line(lines: list[str]) -> str:
    """Lines fed one at a time: no stretch is ever seen."""
    return read([line.encode() for line in lines])


def bar_lines(epoch: int) -> list[str]:
    bars = [f"{step:3d}/100 [==>...] - ETA: 0:05 - loss: 2.3000\n" for step in range(1, 100)]
    return [f"Epoch {epoch}/3\n", *bars, "100/100 [======] - 4s 10ms/step - loss: 2.1000\n"]


BATCHES = [partial(epoch_lines, width=width, first=first) for width in (1, 3) for first in (0, 1)]


@pytest.mark.parametrize(("of_epoch", "most"), [(bar_lines, 9), *((each, 39) for each in BATCHES)])
def test_of_an_epoch_of_batches_few_lines_are_read_of_bars_the_first_and_the_last(of_epoch, most):
    lines = [line for epoch in (1, 2, 3) for line in of_epoch(epoch)]
    data = "".join(lines).encode()
    assert len(list(LineCutter().feed(data))) <= most and read([data]) == line_by_line(lines)
    assert [sample.steps for sample in parse_log(data).runs[0].epochs] == [100] * 3


@pytest.mark.parametrize("spoiler", [
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 MiB.\n",
    *("Epoch: [0][ 10/100]\tTime  0.500 ( 0.500)\n", "Epoch: [0][75/100]\tTime  0.500 ( 0.500)\n"),
    *("Epoch: [0][75/100]\tTime  nan ( nan)\n", "Epoch: [1][  1/100]\tTime  0.500 ( 0.500)\n"),
    *("\r\x1b[1mgarbage\n", "caf\u00e9\n"),
    "=> creating model 'resnet50'\n",
    "Traceback (most recent call last):\n  File\nValueError: no\n",
])  # fmt: skip
def test_a_line_between_is_read(spoiler):
    for place in (0, 1, 2, 50, 98, 99, 100):
        lines = epoch_lines(0) + epoch_lines(1)
        lines.insert(place, spoiler)
        assert read(["".join(lines).encode()]) == line_by_line(lines)
