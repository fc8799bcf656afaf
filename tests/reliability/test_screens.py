"""The real screens under a real pseudo-terminal: hostile text, tiny windows, resize storms, bad environments.

What is looked at is every byte the program writes to its terminal, not what Textual believes to show.
"""

import random
import re
import sys

import pytest

from tests.reliability.hostile import Terminal, acts

pytestmark = pytest.mark.terminal

SHOW = [sys.executable, "-m", "tests.reliability.show_hostile"]
QUIT = "\x11"
PANES = ("t", "r", "l", "c", "a")
EVERYWHERE = (
    "t", "r", "l", "/", "evil\r", "n", "\x1b", "o", "o", "c", "\x1b[C", "\x1b[C", "a", "]", "[", "g", "\x1b", "?",
    "\x1b", ":", "can", "\x1b", "w", "\x1b", "!", "\x1b", "m", "\r", "\x1b", "r", "k", "\x1b", "b", "\x1b", "s", "v",
    "v", "f", "\x1b", "w", "\x1b", "\x1b", "u",
)  # fmt: skip
TRACES = (b"Traceback", b"went wrong")


def test_no_text_from_outside_reaches_the_terminal_as_more_than_text(tmp_path):
    with Terminal([*SHOW, str(tmp_path / "lab")], size=(140, 45)) as terminal:
        terminal.until(lambda output: b"10.5" in output, what="the first paint")
        for key in EVERYWHERE:
            terminal.press(key)
            assert acts(terminal.read_some()) == [], f"after {key!r}"
        terminal.press(QUIT)
        assert terminal.end() == 0
    text = re.sub(rb"\x1b\[[0-9;?<>=]*[ -/]*[@-~]", b"", terminal.output)  # without Textual's own sequences
    assert b"markup[/]" in text, "markup is shown as what it is, wherever a line is broken"
    assert acts(terminal.output) == []
    assert not any(trace in terminal.output for trace in TRACES)


def test_every_pane_in_windows_of_any_size(tmp_path):
    chooser = random.Random(7)
    with Terminal([*SHOW, str(tmp_path / "lab")]) as terminal:
        terminal.until(lambda output: b"10.5" in output, what="the first paint")
        for size in ((20, 5), (220, 60)):
            terminal.resize(*size)
            for key in (*PANES, "s", "\x1b", "?", "\x1b"):
                terminal.press(key)
                terminal.read_some()
                assert terminal.process.poll() is None, f"{key!r} ended it at {size}"
        for number in range(10):
            terminal.resize(chooser.randrange(1, 220), chooser.randrange(1, 60))
            if number % 5 == 0:
                terminal.press(chooser.choice(PANES))
            terminal.read(0.01)
        terminal.resize(100, 30)
        terminal.press("r")
        terminal.read_some()
        terminal.press(QUIT)
        assert terminal.end() == 0
    assert not any(trace in terminal.output for trace in TRACES)


def test_a_dumb_terminal_gets_a_sentence():
    """Textual would paint for ever there."""
    for command in ([], ["practice"]):
        with Terminal([sys.executable, "-m", "labtui", *command], env={"TERM": "dumb"}) as terminal:
            assert terminal.end() == 2
        assert b"TERM is dumb" in terminal.output
