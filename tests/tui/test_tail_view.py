"""The log on the screen: follow as a state, search, growth, and files that begin anew."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from textual.app import App
from textual.events import MouseScrollUp

from labtui.tui.widgets.tail_view import TailView
from tests.tui.waiting import press, text_of, until


@asynccontextmanager
async def bench(path: Path) -> AsyncIterator[tuple[Any, Any, Any]]:
    """An app with nothing but the view of a log's end, the view, and the pilot."""
    app, tail = App[None](), TailView(id="tail")
    async with app.run_test(size=(40, 10), notifications=True) as pilot:
        await app.mount(tail)
        tail.focus().show_file(path, path.parent)
        await until(pilot, lambda: text_of(app).strip())
        yield app, tail, pilot


def lines(first: int, last: int) -> str:
    return "".join(f"line {number}\n" for number in range(first, last))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "job.out"
    path.write_text(lines(0, 100))
    return path


async def test_it_follows_until_the_student_scrolls_up_and_again_from_end(log):
    async with bench(log) as (app, tail, pilot):
        await until(pilot, lambda: "line 99" in text_of(app))
        await press(pilot, "pageup", then=lambda: not tail.follow and tail.scroll_y == tail.scroll_target_y)
        place = tail.scroll_y
        log.write_text(log.read_text() + lines(100, 150))
        tail.poll()
        await until(pilot, lambda: tail.virtual_size.height >= 150)
        assert tail.scroll_y == place and "line 149" not in text_of(app)
        await press(pilot, "end", then=lambda: "line 149" in text_of(app) and tail.follow)
        await pilot._post_mouse_events([MouseScrollUp], tail)
        await until(pilot, lambda: not tail.follow, "the wheel ends following")


async def test_a_look_to_the_right_and_a_smaller_screen_go_on_following(log):
    log.write_text(log.read_text() + "x" * 90 + "\n")
    async with bench(log) as (app, tail, pilot):
        for size in ((40, 6), (20, 30), (60, 12)):
            await pilot.resize_terminal(*size)
            await until(pilot, lambda height=size[1]: tail.size.height >= height - 1)  # less a scrollbar
            await until(pilot, lambda: tail.follow and "xxx" in text_of(app))
        await until(pilot, lambda: tail.max_scroll_x > 0 and tail.scroll_y == tail.max_scroll_y)
        await press(pilot, "right", then=lambda: tail.scroll_x == 10 and tail.follow)
        await press(pilot, "home", then=lambda: tail.scroll_x == tail.scroll_y == 0)


@pytest.mark.parametrize("stamp", ["[11/25/2026 1:01:37 PM] INFO   ", "2026-11-25 23:01:37,123 - WARNING - "])
async def test_a_brief_view_has_no_time_stamps_and_a_cut_line_is_marked(log, stamp):
    start = "start: 2026-11-25T23:01:37, and it goes"
    text = f"{stamp}[EPOCH: 2] rate: 466.04\n{stamp}one\n7/7 - 5s - loss: 2.1\n{start}"
    log.write_text(f"{text}{' on' * 200}\n")
    async with bench(log) as (app, tail, pilot):
        ends = "start: 2026-11-25T23:01:37 …", f"{start}…"
        for tail.brief, search, first in ((True, "", ""), (True, ":37", stamp), (False, "", stamp)):
            tail.search(search)
            brief = f"{'… ' * bool(first)}[EPOCH: 2] rate: 466.04"
            shown = [brief, f"{first}one", "7/7 - 5s - loss: 2.1", ends[tail.match_line == 4]]
            await until(pilot, lambda shown=shown: text_of(app).split("\n")[:4] == shown)


@pytest.mark.parametrize("action", ["page_up", "scroll_up", "scroll_home"])
async def test_bytes_that_come_with_the_key_do_not_take_it_back(log, action):
    async with bench(log) as (app, tail, pilot):
        getattr(tail, f"action_{action}")()
        log.write_text(log.read_text() + lines(100, 150))
        tail.poll()
        await pilot.wait_for_scheduled_animations()
        assert not tail.follow and "line 149" not in text_of(app)


async def test_search_goes_up_from_the_end_then_from_below_again(log):
    async with bench(log) as (app, tail, pilot):
        tail.search("LINE 1")
        await until(pilot, lambda: tail.match_line == 20 and "line 19" in text_of(app) and not tail.follow)
        tail.action_search_next()
        await until(pilot, lambda: tail.match_line == 19)
        tail.search("nowhere")
        for more, match in ("other\nno", None), ("where\n", 102):  # as a log that grows
            log.write_text(log.read_text() + more)
            tail.poll()
            assert tail.match_line == match
        tail.search("line 99")
        await until(pilot, lambda: tail.match_line == 100, "from below again")
        tail.file.first = 5  # as in a larger log
        tail.mark(3)
        await until(pilot, lambda: "Line 3 is above" in " ".join(text_of(app).split()))


async def test_a_match_far_to_the_right_comes_into_view_and_one_to_the_left_again(log):
    far = f"日本 {'x' * 300}needle{'y' * 300}\n{' ' * 22}needle left\n"
    log.write_text(log.read_text() + far + lines(0, 3))
    async with bench(log) as (app, tail, pilot):
        tail.search("needle")
        await until(pilot, lambda: tail.match_line == 102 and tail.scroll_x == 0)
        tail.action_search_next()
        await until(pilot, lambda: tail.match_line == 101 and "本 xxxxxx … xxxxxxxxxneedle" in text_of(app))
        tail.action_search_next()
        await until(pilot, lambda: tail.match_line == 102 and "needle left" in text_of(app))
        records = log.with_name("records")
        records.write_text("".join(f":::MLLOG {number}\nnext\n" for number in range(99)))
        tail.show_file(records, records.parent)
        tail.read_as = {197: "5.38 s"}
        tail.mark(197)
        await until(pilot, lambda: ":::MLLOG 98" in text_of(app) and "5.38" not in text_of(app), "whole")


async def test_a_log_that_began_anew_is_shown_from_its_new_end_and_hostile_lines_are_data(log):
    async with bench(log) as (app, tail, pilot):
        await pilot.press("pageup")
        hostile = "[bold]x[/nothing]\n\x1b]0;title\x07\x1b[2Jcleared?\n1/9\r9/9 done\n"
        await asyncio.to_thread(log.write_text, hostile)
        tail.poll()
        await until(pilot, lambda: text_of(app).startswith("[bold]x[/nothing]\ncleared?\n9/9 done\n"))
        log.unlink()
        tail.poll()
        tail.show_file(None, log.parent)
        await until(pilot, lambda: text_of(app).startswith("The log appears here"))


async def test_long_lines_are_whole_while_all_fit(log):
    log.write_text("begin\nslurmstepd: error: JOB 2 CANCELLED AT 09:41 DUE TO TIME LIMIT\nend\n")
    async with bench(log) as (app, tail, pilot):
        tail.numbered, tail.read_as = True, {2: "error"}
        assert tail._line_style("E0000 x.cc:1] failed call to cuInit: INTERNAL: UNKNOWN ERROR", 1) is None
        whole = [" 1 begin", " 2 slurmstepd: error: JOB          error", "   2 CANCELLED AT 09:41 DUE TO"]
        whole += ["   TIME LIMIT", " 3 end"]
        await until(pilot, lambda: [row.rstrip() for row in text_of(app).split("\n")[:5]] == whole)
        tail.excerpt = True
        tail.refresh()
        cut = [" 1 begin", " 2 slurmstepd: error: JOB 2 …      error", " 3 end"]
        await until(pilot, lambda: [row.rstrip() for row in text_of(app).split("\n")[:3]] == cut)
        tail.why_empty = "Job 7 is queued. It waits for nodes to become free."
        tail.show_file(None, log.parent)
        await until(pilot, lambda: text_of(app).split("\n")[1].strip() == "become free.")
