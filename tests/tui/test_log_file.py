"""Numbered lines of a growing file: the same as splitting the whole file, whatever the blocks and the growth."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labtui.domain.terminal_text import display_text
from labtui.tui.widgets import log_file
from labtui.tui.widgets.log_file import LogFile

PIECES = st.lists(
    st.sampled_from([b"a", b"bb\n", b"\n", b"some words\n", b"x" * 40, b"p 1\rp 2", b"\xc3\xa9\n"]),
    max_size=60,
)


def expected(data: bytes) -> list[str]:
    lines = data.split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    return [display_text(line) for line in lines]


def whole(file: LogFile) -> list[str]:
    return [file.line(number) for number in range(file.lines)]


def read_all(file: LogFile) -> list[str]:
    if file.head_blocks:
        file.adopt_head(file.count_head())
    return whole(file)


@given(chunks=st.lists(PIECES.map(b"".join), min_size=1, max_size=6), block=st.sampled_from([16, 64, 1024]))
def test_lines_are_those_of_the_file_after_every_growth(chunks: list[bytes], block: int) -> None:
    with (
        TemporaryDirectory() as place,
        patch.object(log_file, "BLOCK", block),
        patch.object(log_file, "TAIL_BLOCKS", 2),
    ):
        path = Path(place) / "job.out"
        file = LogFile(path)
        assert file.refresh().added == 0
        data = b""
        for chunk in chunks:
            data += chunk
            path.write_bytes(data) if not path.exists() else path.open("ab").write(chunk)
            before = file.lines
            growth = file.refresh()
            assert growth.added == file.lines - before
            shown = whole(file)
            assert shown == expected(data)[len(expected(data)) - len(shown) :]
        assert read_all(file) == expected(data)
        file.close()


@given(
    data=PIECES.map(b"".join),
    needle=st.sampled_from(["a", "WORDS", "é", "2", "zz", "p 1"]),
    block=st.sampled_from([16, 1024]),
)
def test_search_finds_the_lines_that_show_the_text(data: bytes, needle: str, block: int) -> None:
    with (
        TemporaryDirectory() as place,
        patch.object(log_file, "BLOCK", block),
        patch.object(log_file, "SEARCH_AT_ONCE", 32),
    ):
        path = Path(place) / "job.out"
        path.write_bytes(data)
        file = LogFile(path)
        file.refresh()
        if file.head_blocks:
            file.adopt_head(file.count_head())
        lines = expected(data)
        hits = [number for number, line in enumerate(lines) if needle.lower() in line.lower()]
        assert file.find(needle, 0) == (hits[0] if hits else None)
        assert file.find(needle, len(lines) - 1, backwards=True) == (hits[-1] if hits else None)
        twin = file.snapshot()
        assert twin.find(needle, 0) == (hits[0] if hits else None)
        twin.close()
        file.close()


def test_the_end_of_a_large_file_is_there_before_its_front_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "big.out"
    path.write_bytes(b"".join(b"line %d\n" % number for number in range(200_000)))
    file = LogFile(path)
    file.refresh()
    assert file.head_blocks > 0
    assert file.line(file.lines - 1) == "line 199999"
    known = file.lines
    moved = file.adopt_head(file.count_head())
    assert file.lines == 200_000 == known + moved
    assert file.line(0) == "line 0"
    assert file.line(moved) == f"line {200_000 - known}"


def test_a_file_that_shrank_or_was_replaced_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "job.out"
    path.write_bytes(b"first\nsecond\n")
    file = LogFile(path)
    file.refresh()
    path.write_bytes(b"new\n")
    assert file.refresh().restarted
    assert whole(file) == ["new"]
    path.unlink()
    assert file.refresh().restarted
    assert file.lines == 0
    assert file.line(3) == ""


@pytest.mark.parametrize("tail", [b"", b"\rlast state"])
def test_an_endless_line_is_read_in_part(tmp_path: Path, tail: bytes) -> None:
    path = tmp_path / "job.out"
    path.write_bytes(b"begin " + b"x" * 5_000_000 + tail)
    file = LogFile(path)
    file.refresh()
    if file.head_blocks:
        file.adopt_head(file.count_head())
    shown = file.line(0)
    assert shown.startswith("last state" if tail else "begin ")
    assert len(shown) <= log_file.LINE_MAX
