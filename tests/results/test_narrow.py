"""The readable answer in a window: every cell whole, every number there, one form for each kind of number."""

from __future__ import annotations

import re

import pytest

from labtui.results.numbers import AS_PRINTED, PRECISE, cells, text_table
from labtui.results.report import report_text

from .helpers import results_of

BOTH = ("ResNet50.31337.out", "ResNet152.31338.out")
SEQUENTIAL = ("ResNet50_seq_CPU.31335.out", "ResNet50_seq_GPU.31336.out")


@pytest.mark.parametrize("width", [120, 80, 60])
def test_no_line_is_wider_than_the_window_and_no_cell_is_broken_or_lost(width):
    results = results_of(*BOTH)
    text = report_text(results, width=width)
    assert max(map(len, text.splitlines())) <= width
    words = text.replace(", ", "  ")
    for cell in {cell for line in cells(results.rows, PRECISE) for cell in line}:
        assert re.search(rf"(?<!\S){re.escape(cell)}(?!\S)", words), cell


def test_at_80_columns_each_part_says_which_run_a_line_is_about():
    results = results_of(*BOTH)
    first, second = text_table(results.rows, PRECISE, 80).split("\n\n")
    for part, column in ((first, "efficiency"), (second, "step factor")):
        head, *lines = part.splitlines()
        assert head.split()[:4] == ["model", "device", "global", "batch"] and column in head
        assert [line.split()[:4] for line in lines] == [
            [row.model, str(row.n_gpus), "GPU" if row.n_gpus == 1 else "GPUs", f"{row.batch_size:,}"]
            for row in results.rows
        ]
    assert text_table(results.rows, PRECISE, 130) == text_table(results.rows, PRECISE)
    assert text_table(results.rows, AS_PRINTED, 80) == text_table(results.rows, AS_PRINTED)


def test_a_share_has_one_form_and_a_ratio_is_so_many_times_as_fast():
    text = report_text(results_of(*BOTH)) + report_text(results_of(*SEQUENTIAL))
    assert re.search(r"\d%", text) is None
    assert "84.0 %" in text
    assert "one GPU is 15.0 times as fast as the CPU (14.9 to 15.2; as printed 15.36)" in text
    assert "  batch  " not in text and "global batch" in text
