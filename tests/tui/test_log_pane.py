"""The title over the log: where the search stands, in words, and the keys that go on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from labtui.domain.events import LogGrew, PlannedRun, RunStarted, SubmissionPlanned
from labtui.tui import session_app
from labtui.tui.app import LabApp
from tests.tui.fed_session import NOW, FedSession, finished_run, spec, write_log
from tests.tui.waiting import text_of, until

Make = Callable[..., LabApp]
LIVE = "lt000000000000000ddd"


def title(app: LabApp) -> str:
    return text_of(app).splitlines()[4]  # header, two lines of the task, tabs, then the frame of the log


async def test_the_title_says_where_the_search_stands_and_how_it_goes_on(
    filled_session: FedSession, app_of: Make
) -> None:
    write_log(filled_session, LIVE, "".join(f"filler {n}\n" for n in range(60)) + "the mark\n")
    write_log(filled_session, LIVE, "".join(f"filler {n}\n" for n in range(60)) + "the mark\n")
    app = app_of(filled_session, "log")
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "following" in text_of(app))
        await pilot.press("slash", *"the mark", "enter")
        await until(pilot, lambda: "(n next, N before)" in title(app))
        assert "end: follow" in title(app)
        assert "+0" not in title(app), "nothing is below"
        await pilot.press("n")
        await until(pilot, lambda: "none below, N goes up" in title(app))
        assert "not found" not in title(app)
        await pilot.press("N")
        await until(
            pilot, lambda: "(n next, N before)" in title(app) and " more lines, end: follow" in title(app)
        )
        await pilot.press("N")
        await until(pilot, lambda: "none above, n goes down" in title(app))


async def test_not_found_is_not_said_of_another_run(filled_session: FedSession, app_of: Make) -> None:
    app = app_of(filled_session, "log")
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "following" in text_of(app))
        await pilot.press("slash", *"no such words", "enter")
        await until(pilot, lambda: "not found" in title(app))
        app.view_model.choose_run(3)
        app.repaint()
        await until(pilot, lambda: "Run 3" in title(app))
        assert "not found" not in title(app)
        assert "/no such words (n, N)" in title(app)


# ------------------------------------------------------------------ streaming


async def test_states_that_stream_are_painted_seldom_and_the_last_one_always(
    filled_session: FedSession, app_of: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = app_of(filled_session, "log")
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "following" in text_of(app) and app.view_model.checks)
        await until(pilot, lambda: not app._repaint_resting and not app.view_model._checking.locked())
        await pilot.pause()
        painted, looks = [], []
        repaint = app.repaint
        monkeypatch.setattr(app, "repaint", lambda: (painted.append(app.view_model.state), repaint()))
        monkeypatch.setattr(app.view_model, "check_later", looks.append)
        monkeypatch.setattr(session_app, "REPAINT_EVERY", 3600.0)

        async def grow(first: int, last: int) -> None:
            for size in range(first, last):
                filled_session.feed(LogGrew(at=NOW, token=LIVE, stream="out", segment=0, size=size))
                await until(pilot, lambda size=size: sizes() == size)

        def sizes() -> int:
            return app.view_model.state.submissions[LIVE].logs["out"].size

        await grow(10_000, 10_030)
        assert len(painted) == 1, "the first of them at once, the others have to wait"
        app._repaint_rested()
        assert len(painted) == 2 and painted[-1] is app.lab is app.main.view_state.state
        app._repaint_rested()
        assert len(painted) == 2, "nothing new came"
        monkeypatch.setattr(session_app, "REPAINT_EVERY", 0.01)
        await grow(10_030, 10_033)
        await until(pilot, lambda: painted[-1] is app.lab and not app._repaint_due)
        assert app.main.view_state.state.submissions[LIVE].logs["out"].size == 10_032
        assert not looks, "no box depends on how long a log is"


# ------------------------------------------------------------------ selecting


async def test_lines_are_selected_with_keys_and_only_they_are_copied(
    filled_session: FedSession, app_of: Make
) -> None:
    write_log(
        filled_session, LIVE, "".join(f"line {n}\n" for n in range(100)) + "\x1b]52;c;b3duZWQ=\x07last\n"
    )
    app = app_of(filled_session, "log")
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await until(pilot, lambda: "following" in text_of(app))
        await pilot.press("C")
        await until(pilot, lambda: "Select lines first" in text_of(app))
        assert not app.clipboard
        await pilot.press("V", "up", "k")
        await until(pilot, lambda: "3 lines selected" in title(app))
        await pilot.press("C")
        await until(pilot, lambda: "3 lines copied" in text_of(app))
        assert app.clipboard == "line 98\nline 99\nlast\n"
        assert "selected" not in title(app)
        await pilot.press("V", "home")
        await until(pilot, lambda: "line 0" in app.main._log().active.selected_text)  # type: ignore[union-attr]
        assert app.main._log().active.scroll_y == 0  # type: ignore[union-attr]
        await pilot.press("escape")
        await until(pilot, lambda: "selected" not in title(app))


async def test_a_part_is_saved_into_a_new_file_each_time(filled_session: FedSession, app_of: Make) -> None:
    write_log(filled_session, LIVE, "the end\n")
    app = app_of(filled_session, "log")
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await until(pilot, lambda: "following" in text_of(app))
        await pilot.press("V", "S")
        await until(pilot, lambda: "Saved as saved/run-4-out-from-line-" in text_of(app))
        await pilot.press("V", "S")
        await until(pilot, lambda: "-2.txt" in text_of(app))
    saved = sorted((filled_session.folder.path / "saved").iterdir())
    assert [path.read_text() for path in saved] == ["the end\n"] * 2


async def test_the_editor_gets_a_copy_of_the_log(
    filled_session: FedSession, app_of: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = write_log(filled_session, LIVE, "the end\n")
    before, seen = log.read_bytes(), []

    def edit(path: Path) -> bool:
        seen.append((path.name, path.read_bytes()))
        path.write_text("spoiled")
        return True

    app = app_of(filled_session, "log")
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "following" in text_of(app))
        monkeypatch.setattr(app, "open_editor", edit)
        await pilot.press("e")
        await until(pilot, lambda: bool(seen))
    assert seen == [(log.name, before)] and log.read_bytes() == before


async def test_a_run_whose_job_went_on_opens_at_its_own_end(session: FedSession, app_of: Make) -> None:
    """Two runs write one log: the first is shown where it ended, the last one at the end, followed."""
    token = "lt000000000000000abc"
    events = finished_run(token, "10.5", 1, spec(gpus=1), "31340")
    plan = events[0]
    assert isinstance(plan, SubmissionPlanned)
    second = PlannedRun(run_id=2, spec=spec(gpus=2))
    session.feed(
        replace(plan, form="one-job", runs=(*plan.runs, second)), *events[1:], RunStarted(at=NOW, run_id=2)
    )
    line = session.state.runs[1].epochs[-1].line
    assert line is not None
    write_log(session, token, "".join(f"text {n}\n" for n in range(1, line + 200)))
    app = app_of(session, "log")
    async with app.run_test(size=(80, 24)) as pilot:
        app.view_model.choose_task("10.5")
        app.view_model.choose_run(1)
        app.repaint()
        await until(pilot, lambda: "Run 1" in title(app) and "more lines, end: follow" in title(app))
        assert f"text {line}\n" in "".join(f"{row.strip()}\n" for row in text_of(app).splitlines())
        assert f"text {line + 5}" not in text_of(app)
        app.view_model.choose_run(2)
        app.repaint()
        await until(pilot, lambda: "Run 2" in title(app) and "following" in title(app))
        assert f"text {line + 199}" in text_of(app)


# ------------------------------------------------------------------ long lines, two logs


async def test_long_lines_are_wrapped_on_a_page_of_their_own(
    filled_session: FedSession, app_of: Make
) -> None:
    long = "begin " + "x" * 200 + " [bold]end[/]"
    write_log(filled_session, LIVE, f"first\n{long}\nlast\n")
    app = app_of(filled_session, "log")
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "following" in text_of(app))
        assert "[bold]end[/]" not in text_of(app)
        await pilot.press("W")
        await until(pilot, lambda: "Run 4, lines 1 to 13 of the log, wrapped" in text_of(app))
        assert "[bold]end[/]" in text_of(app) and "first" in text_of(app)
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.main)
        await pilot.press("V", "up", "W")
        await until(pilot, lambda: "lines 12 to 13 of the log" in text_of(app))
        assert "first" not in text_of(app)


async def test_a_marked_runs_output_stands_beside_the_selected_ones(
    filled_session: FedSession, app_of: Make
) -> None:
    write_log(filled_session, LIVE, "of four\n")
    write_log(filled_session, "lt000000000000000ccc", "of two\n")
    app = app_of(filled_session, "log")
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "following" in text_of(app))
        for _ in range(3):  # err, both, out again
            await pilot.press("o")
        assert "of two" not in text_of(app) and "out + err" not in title(app)
        app.view_model.choose_run(3)
        await pilot.press("asterisk")
        app.view_model.choose_run(4)
        app.repaint()
        for _ in range(3):
            await pilot.press("o")
        await until(pilot, lambda: "out | Run 3 out" in title(app))
        left, right = (
            next(line.index(text) for line in text_of(app).splitlines() if text in line)
            for text in ("of four", "of two")
        )
        assert left < 5 and right > 38
        await pilot.press("tab", "V", "S")
        await until(pilot, lambda: (filled_session.folder.path / "saved").is_dir())
        (saved,) = (filled_session.folder.path / "saved").iterdir()
        assert saved.name.startswith("run-3-out-") and saved.read_text() == "of two\n"
        await pilot.press("W")
        await until(pilot, lambda: "Run 3, lines 1 to" in text_of(app))
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.main)
        await pilot.press("escape")  # no mark, no second log
        await until(pilot, lambda: "of two" not in text_of(app) and "of four" in text_of(app))
