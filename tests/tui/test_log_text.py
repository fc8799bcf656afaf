"""The kept end of a log: any way of arriving gives the same lines, under their numbers in the file."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from labtui.cluster.local_files import reader_inside
from labtui.tui.widgets import log_pane, tail_view
from tests.training_logs.samples import mllog

ANY = [b"a\n", b"bc", b"\n", b":::MLLOG {}\n", b"x" * 40 + b"\n", b"d\r\n"]
PIECES = st.lists(st.sampled_from(ANY), max_size=30)


def shown(text: tail_view.LogText) -> list[str]:
    return [text.line(text.line_of_row(row)) for row in range(text.rows())]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(PIECES)
def test_any_chunking_gives_the_same_lines(tmp_path, pieces):
    whole, grown = tmp_path / "whole", tmp_path / "grown"
    whole.write_bytes(b"".join(pieces))
    grown.write_bytes(b"")
    at_once, bit_by_bit = tail_view.LogText(whole, tmp_path), tail_view.LogText(grown, tmp_path)
    at_once.refresh()
    for piece in pieces:
        with grown.open("ab") as file:
            file.write(piece)
        bit_by_bit.refresh()
    assert shown(bit_by_bit) == shown(at_once)
    raw = b"".join(pieces).split(b"\n")
    assert at_once.last == len(raw if raw[-1] else raw[:-1])
    assert at_once.hidden == sum(line.startswith(b":::MLLOG") for line in raw)


def test_a_short_view_begins_after_the_lines_about_the_job_and_an_error_keeps_its_beginning(tmp_path):
    (path := tmp_path / "log").write_text("---- labtui job ----\ntask: 10.5\n---- end ----\n")
    (text := tail_view.LogText(path, tmp_path, skip_header=True)).refresh()
    assert len(shown(text)) == 3, "there is nothing else"
    path.write_text(f"{path.read_text()}:::MLLOG {{}}\nEpoch 1/5\n")
    text.refresh()
    assert shown(text) == ["Epoch 1/5"] and text.line_of_row(0) == 5
    for line in "error: Out of memory with a batch of 6000 on 1 replica(s)", "error: Out of memory: 6000":
        assert "".join(tail_view.shorten_to_parts(line, 26)).startswith("error: Out of memory")


@pytest.mark.parametrize("count", [10, 400, 5000])
def test_of_a_large_log_the_end_is_kept_under_its_numbers(tmp_path, monkeypatch, count):
    monkeypatch.setattr(tail_view, "MAX_BYTES", 4096)
    monkeypatch.setattr(tail_view, "SLACK_BYTES", 512)
    (path := tmp_path / "log").write_text("".join(f"line {number}\n" for number in range(1, count + 1)))
    (text := tail_view.LogText(path, tmp_path)).refresh()
    assert text.last == count and text.line(count) == f"line {count}"
    path.write_text("".join(f"line {number}\n" for number in range(1, count + 900)))
    text.refresh()
    assert all(line == f"line {text.line_of_row(row)}" for row, line in enumerate(shown(text)))
    assert text.last == count + 899 and text.rows() < 700
    for _ in range(3):  # a line that does not end
        path.write_bytes(path.read_bytes() + b"x" * 9000)
        text.refresh()
        assert shown(text) == ["x" * 4096] and text.last == count + 900


def test_records_are_folded_away_and_found_when_shown(tmp_path):
    (path := tmp_path / "log").write_text("needle one\n:::MLLOG needle\no\x1b[1mth\x1b[0mer É\n")
    (text := tail_view.LogText(path, tmp_path)).refresh()
    assert shown(text) == ["needle one", "other É"]
    assert [text.find(each, 1) for each in ("é", "OTHER")] == [3, 3]
    assert text.find("NEEDLE", 3) == 1 and text.find("mllog", 3) is None
    text.toggle_folding()
    assert text.find("mllog", 3) == 2 and text.rows() == 3 and text.row_of_line(2) == 1


def test_what_a_record_counts_for_stands_at_the_line_before_it(tmp_path, monkeypatch):
    (path := tmp_path / "log").write_text(
        "Epoch 1/2\n25/25 - 31s\nEpoch 2/2\n:::MLLOG {}\n:::MLLOG {}\n25/25 - 8s\n"
    )
    (text := tail_view.LogText(path, tmp_path)).refresh()
    assert [text.visible_line_for(number) for number in (2, 3, 4, 5, 6)] == [2, 3, 2, 2, 6]
    path.write_text(mllog("tracked_stats", {"top1": 2.5}, epoch_num=1) + mllog("epoch_stop", seconds=2.36))
    reads = list[object]()
    monkeypatch.setattr(tail_view, "reader_inside", lambda *at: reads.append(at) or reader_inside(*at))
    assert [log_pane.line_text(tmp_path, path, number) for number in (1, 2)] == path.read_text().splitlines()
    assert len(reads) == 1, "what is loaded is kept"
    path.write_text("shorter\n")
    monkeypatch.setattr(tail_view, "reader_inside", lambda *_: tmp_path.open())  # OSError
    assert text.refresh() == (False, True), "that it began anew is told now: the next look cannot see it"
