"""A window that vanishes ends the program, also when no hang-up is sent."""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.tui.fed_session import make_folder

pytestmark = pytest.mark.skipif(os.name == "nt", reason="pseudo-terminals are a Unix thing")

START = "import sys; from labtui.commands.cli import main; sys.exit(main([sys.argv[1]]))"


@pytest.mark.parametrize("shown", ["Charts", "a new lab folder"], ids=["screens", "wizard"])
def test_a_vanished_terminal_ends_the_screens_and_the_wizard(tmp_path: Path, shown: str) -> None:
    import pty

    folder = tmp_path / "lab"  # the wizard opens where there is none
    if shown == "Charts":
        make_folder(folder)
    child, terminal = pty.fork()
    if child == 0:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as under nohup: nothing but the end of input tells
        os.environ.update(TERM="xterm-256color")
        os.execv(sys.executable, [sys.executable, "-c", START, str(folder)])
    try:
        seen, end = b"", time.monotonic() + 240
        while shown.encode() not in seen:
            assert time.monotonic() < end, seen[-300:]
            if select.select([terminal], [], [], 0.2)[0]:
                seen += os.read(terminal, 1 << 16)
        os.close(terminal)
        while not os.waitpid(child, os.WNOHANG)[0]:
            assert time.monotonic() < end, "it still runs without a terminal"
            time.sleep(0.1)
    except BaseException:
        os.kill(child, signal.SIGKILL)
        raise
