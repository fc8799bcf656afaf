"""How the screens start and end: themes, folders, terminals, practice that is kept or not."""

import signal
import subprocess
import sys

import pytest
from textual import color, widgets

from labtui.commands import screens as screens_command
from labtui.domain.errors import UsageError
from labtui.session.folder import LabFolder
from labtui.session.session import Session
from labtui.session.settings import Settings
from labtui.tui import themes
from labtui.tui.app import LabApp
from labtui.tui.screens.wizard import WizardApp
from labtui.tui.widgets.frame import TaskList
from tests.tui.fed_session import live_run, make_folder, spec
from tests.tui.waiting import press, screens, text_of, types, until


async def test_the_preferred_theme_colours_the_first_frame(session, tmp_path, monkeypatch):
    preferences = tmp_path / "theme"
    preferences.write_text("labtui-light\n")
    monkeypatch.setattr(themes, "preferences_file", lambda: preferences)
    assert WizardApp(tmp_path / "lab").theme == "labtui-light"
    app = LabApp(session)
    async with app.run_test(size=(80, 24), notifications=True):
        assert app.query_one("#header").styles.background == color.Color.parse(str(themes.LIGHT.surface))
        assert app.screen.styles.background == color.Color.parse(str(themes.LIGHT.background))


def test_without_a_terminal_there_is_a_sentence_and_exit_2(tmp_path):
    how = {"capture_output": True, "text": True, "cwd": tmp_path, "stdin": subprocess.DEVNULL, "check": False}
    done = subprocess.run([sys.executable, "-m", "labtui"], **how)
    assert done.returncode == 2 and "need a terminal" in done.stderr
    assert "hint:" in done.stderr and "Traceback" not in done.stderr


def test_a_mistyped_command_is_no_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="neither a command"):
        screens_command._named_folder("sumbit")
    assert screens_command._named_folder(None) is None and screens_command._named_folder("./new") is None
    make_folder(tmp_path / "lab")
    assert screens_command._named_folder(str(tmp_path / "lab")) == tmp_path / "lab"


@pytest.mark.parametrize(("at", "said"), [
    ({"profile": "mn5"}, ("No account is known", "is named after it")),
    ({"profile": "practice", "host": "127.0.0.1", "port": 1, "user": "nct01000"},
     ("This cluster is over", "starts a new one.")),
])  # fmt: skip
async def test_a_folder_without_an_account_or_its_cluster_opens_and_says_what_to_do(tmp_path, at, said):
    folder = LabFolder.create(tmp_path / "lab", Settings(edition="hpc4ai-ch10", **at))
    with Session.open(folder.path, start=False) as session:
        async with screens(session) as (app, pilot):
            await until(pilot, lambda: isinstance(app.focused, TaskList))
            await pilot.press("escape")  # which takes no keys from the list beside a pane
            await until(pilot, lambda: "○ offline" in text_of(app) and isinstance(app.focused, TaskList))
            await press(pilot, "!", then=lambda: all(each in " ".join(text_of(app).split()) for each in said))
        if at["profile"] == "mn5":
            with pytest.raises(UsageError, match="account"):
                session.test_only(session.drafts("10.4")[0])


async def test_leaving_an_unkept_practice_session_is_asked_about(filled_session, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    async with screens(filled_session, kept=False, factor=20.0, size=(80, 24)) as (app, pilot):
        await press(pilot, "ctrl+k", "ctrl+q", "ctrl+q", then=lambda: "is not kept" in text_of(app))
        assert len(app.screen_stack) == 3, "asked over another question, and once"
        asked = app.screen
        for _ in "nn":  # the second key was typed before the first was seen to answer
            asked.choose("n")
        await until(pilot, lambda: "is not kept" not in text_of(app))
        assert app.return_value is None
        await pilot.press("n")
        await press(pilot, "colon", "ctrl+q", then=lambda: "is not kept" in text_of(app))
        await press(pilot, "k", then=lambda: types(app))
        app.screen.query_one(widgets.Input).value = str(tmp_path / "lab")
        await press(pilot, "enter", then=lambda: "exists already" in text_of(app))
        app.screen.query_one(widgets.Input).value = "kept"
        await until(pilot, lambda: "exists already" not in text_of(app))
        await pilot.press("enter")
    assert app.return_value == 0 and app.keep_in == tmp_path / "kept"


@pytest.mark.parametrize(("factor", "asks"), [(20.0, True), (None, False)])
async def test_leaving_a_kept_practice_session_with_a_job_under_way_is_asked_about(session, factor, asks):
    """Asked where the cluster ends with the screens; without it (a kept folder opened by itself) nothing ends."""
    session.feed(*live_run("lt000000000000000aaa", "10.5", 1, spec(gpus=4), "31001", 1))
    async with screens(session, kept=True, factor=factor, size=(80, 24)) as (app, pilot):
        await pilot.press("q")
        if asks:
            await until(pilot, lambda: "The practice cluster stops when you leave" in text_of(app))
            assert app.return_value is None
            await pilot.press("y")
    assert app.return_value == 0


@pytest.mark.terminal
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such terminal")
def test_a_signal_that_ends_the_program_gives_the_terminal_back(tmp_path):
    from tests.reliability.hostile import Terminal

    folder = make_folder(tmp_path / "lab")
    with Terminal([sys.executable, "-m", "labtui", str(folder.path)]) as terminal:
        terminal.until(lambda said: b"Set up the files" in said)
        terminal.process.terminate()
        assert terminal.end() == 128 + signal.SIGTERM
    said = terminal.output
    assert said.rfind(b"\x1b[?1049l") > said.rfind(b"\x1b[?1049h") >= 0, "the screen from before"
    assert said.rfind(b"\x1b[?1000l") > said.rfind(b"\x1b[?1000h") >= 0, "the mouse is the terminal's again"


@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")
def test_a_terminal_without_a_size_gets_one_and_ends_the_program_when_it_is_gone(tmp_path):
    """Textual would take two sizes by turns and repaint without end."""
    import os
    import pty
    import select
    import termios
    import time

    folder = make_folder(tmp_path / "lab")
    pid, terminal = pty.fork()
    if not pid:
        os.environ["TERM"] = "xterm-256color"
        os.execv(sys.executable, [sys.executable, "-m", "labtui", str(folder.path)])
    said = b""
    while b"Set up the files" not in said and select.select([terminal], [], [], 120)[0]:
        said += os.read(terminal, 1 << 16)
    assert termios.tcgetwinsize(terminal) == (24, 80)
    os.write(terminal, b"crlat" * 40)
    while len(said) < 15_000 and select.select([terminal], [], [], 120)[0]:
        said += os.read(terminal, 1 << 12)
    os.close(terminal)  # the window is closed while the screens paint
    end, ended = time.monotonic() + 120, 0
    while not ended and time.monotonic() < end:
        time.sleep(0.05)
        ended, _ = os.waitpid(pid, os.WNOHANG)
    if not ended:
        os.kill(pid, signal.SIGKILL)
    assert ended, "the program waits for a terminal that is gone"
