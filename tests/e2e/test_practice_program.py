"""The program itself on a real terminal: `labtui practice` with an empty HOME, by keys alone, to a ticked task."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.skipif(
        shutil.which("tmux") is None or shutil.which("bash") is None, reason="needs tmux and bash"
    ),
    pytest.mark.slow,
    pytest.mark.terminal,
]

DEADLINE_S = 720.0


class Terminal:
    """A tmux of our own: keys in, lines out."""

    def __init__(
        self, place: Path, command: list[str], environment: dict[str, str], size: tuple[int, int]
    ) -> None:
        self._socket = str(place / "tmux")
        words = [f"{name}={value}" for name, value in environment.items()]
        self._tmux(
            "-f", os.devnull, "new-session", "-d", "-x", str(size[0]), "-y", str(size[1]), "-c", str(place),
            "env", "-i", *words, "sh", "-c", '"$@"; echo "ended with $?"; exec sleep 600', "sh", *command,
        )  # fmt: skip

    def _tmux(self, *words: str) -> str:
        done = subprocess.run(
            ["tmux", "-S", self._socket, *words], capture_output=True, text=True, check=True
        )
        return done.stdout

    def press(self, *keys: str) -> None:
        for key in keys:
            self._tmux("send-keys", key)

    def text(self) -> str:
        return self._tmux("capture-pane", "-p")

    def come_to(self, *words: str, without: str = "") -> str:
        end = time.monotonic() + DEADLINE_S
        while time.monotonic() < end:
            text = self.text()
            if all(word in text for word in words) and not (without and without in text):
                return text
            time.sleep(0.25)
        raise AssertionError(f"it never came to {words}:\n{self.text()}")

    def close(self) -> None:
        self._tmux("kill-server")


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    for name in ("home", "tmp"):
        (tmp_path / name).mkdir()
    environment = {
        "HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path / "tmp"),
        "PATH": os.environ.get("PATH", os.defpath), "TERM": "screen-256color", "LANG": "C.UTF-8",
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
    }  # fmt: skip
    command = [sys.executable, "-m", "labtui", "practice", "--factor", "100"]
    opened = Terminal(tmp_path, command, environment, (120, 40))
    yield opened
    opened.close()


def test_from_the_command_to_a_ticked_task(terminal, tmp_path):
    terminal.come_to("Step 1 of 3", "its clock runs 100 times as fast")
    for step in ("Step 2 of 3", "enter  Begin"):
        terminal.press("Enter")
        terminal.come_to(step)
    terminal.press("Enter")
    terminal.come_to("● online", "10.5", "practice 100×", without="enter  Begin")
    terminal.press("]", "]", "]", "]")
    terminal.come_to("10.5  1, 2 and 4 GPUs", "Plan 3 runs")
    terminal.press("s")
    terminal.come_to("Findings  none", "s  Submit 1 job")
    terminal.press("s")
    terminal.come_to("Runs 3/3", "as fast with 4 GPUs as with one")  # the third size is measured
    terminal.press("x")
    terminal.come_to("deck.pdf")
    terminal.press("a")
    terminal.come_to("Answer question 1", "No answer yet")
    for number in range(5):
        terminal.press("C-n", f"answer{number}")
        terminal.come_to(f"answer{number}")
    terminal.press("Escape")
    text = terminal.come_to("✔ 10.5")
    assert "Traceback" not in text
    terminal.come_to("enter Write")  # the text is left: keys are keys again
    terminal.press("q")
    terminal.come_to("This practice session is not kept")
    terminal.press("k")
    terminal.come_to("Keep it and leave")
    terminal.press("Enter")
    terminal.come_to("Kept in", "ended with 0")
    assert [path for path in tmp_path.rglob("answers/10.5.md") if "answer0" in path.read_text()]
    end = time.monotonic() + 120
    while any((tmp_path / "tmp").iterdir()) and time.monotonic() < end:
        time.sleep(0.1)
    assert not list((tmp_path / "tmp").iterdir()), "the practice folder goes with the program"
    processes = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert str(tmp_path / "tmp") not in processes, "no process of it is left"
