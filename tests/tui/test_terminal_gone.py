"""A window that vanishes ends the program, with a hang-up or without one."""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.tui.fed_session import make_folder

pytestmark = [
    pytest.mark.terminal,
    pytest.mark.skipif(os.name == "nt", reason="pseudo-terminals are a Unix thing"),
]

START = "import sys; from labtui.commands.cli import main; sys.exit(main(sys.argv[1:]))"


STUCK = (
    "import threading; from labtui.commands import screens; screens.CLOSE_S = 1.0; "
    "from labtui.practice.cluster import PracticeCluster; "
    "PracticeCluster.close = lambda self: threading.Event().wait(); "
)
"""A cluster whose closing hangs."""


@pytest.mark.parametrize("case", ["screens", "wizard", "practice", "practice, stuck"])
def test_a_vanished_terminal_ends_the_program(tmp_path: Path, case: str) -> None:
    import pty

    folder = tmp_path / "lab"  # the wizard opens where there is none
    if case == "screens":
        make_folder(folder)
    shown = "a new lab folder" if case == "wizard" else "Charts"
    child, terminal = pty.fork()
    if child == 0:
        if "practice" not in case:  # as under nohup: nothing but the end of input tells
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
        os.environ.update(TERM="xterm-256color")
        words = ["practice"] if "practice" in case else [str(folder)]
        code = f"{STUCK if 'stuck' in case else ''}{START}"
        os.execv(sys.executable, [sys.executable, "-c", code, *words])
    try:
        seen, end = b"", time.monotonic() + 240
        while shown.encode() not in seen:
            assert time.monotonic() < end, seen[-300:]
            if select.select([terminal], [], [], 0.2)[0]:
                seen += os.read(terminal, 1 << 16)
        os.close(terminal)
        while not os.waitpid(child, os.WNOHANG)[0]:
            assert time.monotonic() < end, "it still runs without a terminal"
            if case == "practice":
                os.kill(
                    child, signal.SIGTERM
                )  # as when the terminal multiplexer is ended with all of its programs
            time.sleep(0.1)
    except BaseException:
        os.kill(child, signal.SIGKILL)
        raise
