"""Logs that are no UTF-8: UTF-16 as PowerShell writes it, in any chunks."""

from __future__ import annotations

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labtui.training_logs.reader import LogReader, parse_log

LOG = (
    " Model ResNet50 2 GPUs \r\nBatch_size: 4096\r\nEpoch 1/2\r\n"
    "13/13 - 31s - loss: 2.0 - accuracy: 0.2 - 31s/epoch - 2s/step\r\nEpoch 2/2\r\n"
    "13/13 - 8s - loss: 1.9 - accuracy: 0.3 - 8s/epoch - 623ms/step\r\n"
)
FORMS = {
    "marked little": codecs.BOM_UTF16_LE + LOG.encode("utf-16-le"),
    "marked big": codecs.BOM_UTF16_BE + LOG.encode("utf-16-be"),
    "marked UTF-8": codecs.BOM_UTF8 + LOG.encode(),
}


@pytest.mark.parametrize("form", FORMS)
def test_the_same_runs_in_every_encoding(form: str) -> None:
    report = parse_log(FORMS[form])
    assert report.runs == parse_log(LOG.encode()).runs
    assert not report.binary


@given(st.sampled_from(sorted(FORMS)), st.lists(st.integers(1, 50), min_size=1))
def test_any_chunks(form: str, sizes: list[int]) -> None:
    data, reader, position = FORMS[form], LogReader(), 0
    for size in sizes:
        reader.feed(data[position : position + size])
        position += size
    reader.feed(data[position:])
    reader.finish()
    assert reader.runs == parse_log(LOG.encode()).runs


@pytest.mark.parametrize(
    "data", [b"", b"E", b"\xff\xfe", b"\xff\xfeE", b"\xff\xfeE\x00p", b"\xfe\xff\xd8\x00"]
)
def test_broken_and_short_ones_raise_nothing(data: bytes) -> None:
    assert parse_log(data).runs == ()


def test_bytes_that_only_begin_like_it_are_no_text() -> None:
    assert parse_log(b"\x00\x00\x01\x00" * 100).binary
