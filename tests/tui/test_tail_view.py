"""The log on the screen: follow as a state, search, growth, and files that begin anew."""

import asyncio
from pathlib import Path

import pytest
from textual.app import App, ComposeResult
from textual.events import Key, MouseScrollUp

from labtui.tui.widgets.tail_view import TailView
from tests.tui.waiting import text_of, until


class Bench(App[None]):
    def compose(self) -> ComposeResult:
        yield TailView(id="tail")

    @property
    def tail(self) -> TailView:
        return self.query_one(TailView)


def lines(first: int, last: int) -> str:
    return "".join(f"line {number}\n" for number in range(first, last))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "job.out"
    path.write_text(lines(0, 100))
    return path


async def test_it_follows_until_the_student_scrolls_up_and_again_from_end(log):
    app = Bench()
    async with app.run_test(size=(40, 10), notifications=True) as pilot:
        app.tail.show_file(log)
        await until(pilot, lambda: "line 99" in text_of(app))
        await pilot.press("pageup")
        await until(pilot, lambda: not app.tail.follow and app.tail.scroll_y == app.tail.scroll_target_y)
        place = app.tail.scroll_y
        with log.open("a") as file:
            file.write(lines(100, 150))
        app.tail.poll()
        await until(pilot, lambda: app.tail.virtual_size.height >= 150)
        assert app.tail.scroll_y == place
        assert "line 149" not in text_of(app)
        await pilot.press("end")
        await until(pilot, lambda: "line 149" in text_of(app))
        assert app.tail.follow
        await pilot._post_mouse_events([MouseScrollUp], app.tail)
        await until(pilot, lambda: not app.tail.follow, "the wheel ends following")


async def test_a_brief_view_has_no_time_stamps(log):
    log.write_text(
        "[11/25/2026 11:01:37 PM] INFO     one\n2026-11-25 23:01:37,123 - WARNING - two\n7/7 - 5s - loss: 2.1\n"
        "start: 2026-11-25T23:01:37\n"
    )
    app = Bench()
    async with app.run_test(size=(40, 10), notifications=True) as pilot:
        app.tail.brief = True
        app.tail.show_file(log)
        shown = ["one", "two", "7/7 - 5s - loss: 2.1", "start: 2026-11-25T23:01:37"]
        await until(pilot, lambda: text_of(app).split("\n")[:4] == shown)


@pytest.mark.parametrize(
    ("key", "action"), [("pageup", "page_up"), ("up", "scroll_up"), ("home", "scroll_home")]
)
async def test_bytes_that_come_with_the_key_do_not_take_it_back(log, key, action):
    """The key's movement is animated: its first step comes after the bytes."""
    app = Bench()
    async with app.run_test(size=(40, 10), notifications=True) as pilot:
        app.tail.show_file(log)
        await until(pilot, lambda: "line 99" in text_of(app))
        app.tail.on_key(Key(key, None))
        getattr(app.tail, f"action_{action}")()
        with log.open("a") as file:
            file.write(lines(100, 150))
        app.tail.poll()
        await pilot.wait_for_scheduled_animations()
        assert not app.tail.follow and "line 149" not in text_of(app)


async def test_a_smaller_screen_keeps_following(log):
    app = Bench()
    async with app.run_test(size=(40, 20), notifications=True) as pilot:
        app.tail.show_file(log)
        for size in ((40, 6), (20, 30), (60, 12)):
            await pilot.resize_terminal(*size)
            await until(pilot, lambda height=size[1]: app.tail.size.height >= height - 1)  # less a scrollbar
            await until(pilot, lambda: app.tail.follow and "line 99" in text_of(app))


async def test_search_goes_up_from_the_end_then_both_ways(log):
    app = Bench()
    async with app.run_test(size=(40, 10), notifications=True) as pilot:
        app.tail.show_file(log)
        await until(pilot, lambda: "line 99" in text_of(app))
        app.tail.search("LINE 1")
        await until(pilot, lambda: app.tail.match_line == 20 and "line 19" in text_of(app))
        assert not app.tail.follow
        app.tail.action_search_next(True)
        await until(pilot, lambda: app.tail.match_line == 19)
        app.tail.action_search_next()
        await until(pilot, lambda: app.tail.match_line == 20)
        app.tail.search("nowhere")
        await until(pilot, lambda: app.tail.search_ended == "not found")


async def test_a_match_far_to_the_right_comes_into_view_and_one_to_the_left_again(log):
    with log.open("a") as file:
        file.write("日本 " + "x" * 300 + "needle" + "y" * 300 + f"\n{' ' * 22}needle left\n" + lines(0, 3))
    app = Bench()
    async with app.run_test(size=(40, 10), notifications=True) as pilot:
        app.tail.show_file(log)
        app.tail.search("needle")
        await until(pilot, lambda: app.tail.match_line == 102)
        assert app.tail.scroll_x == 0
        app.tail.action_search_next(True)
        await until(pilot, lambda: app.tail.match_line == 101 and "xneedley" in text_of(app))
        app.tail.action_search_next()
        await until(pilot, lambda: app.tail.match_line == 102 and "needle left" in text_of(app))
        assert app.tail.scroll_x == 0


async def test_a_log_that_began_anew_is_shown_from_its_new_end(log):
    app = Bench()
    async with app.run_test(size=(40, 10), notifications=True) as pilot:
        app.tail.show_file(log)
        await pilot.press("pageup")
        await asyncio.to_thread(log.write_text, "requeued\n")
        app.tail.poll()
        await until(pilot, lambda: text_of(app).split() == ["requeued"])
        app.tail.show_file(None)
        await until(pilot, lambda: text_of(app).startswith(" What a run prints"))


async def test_hostile_lines_are_data(tmp_path):
    path = tmp_path / "job.out"
    path.write_bytes(b"[bold]x[/nothing]\n\x1b]0;title\x07\x1b[2Jcleared?\n1/9\r9/9 done\n")
    app = Bench()
    async with app.run_test(size=(40, 10), notifications=True) as pilot:
        app.tail.show_file(path)
        shown = ["[bold]x[/nothing]", "cleared?", "9/9 done"]
        await until(pilot, lambda: text_of(app).split("\n")[:3] == shown)
