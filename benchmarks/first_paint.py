"""First paint of labtui compared with a minimal Textual app, and key presses while a log grows by 10 MB per second.

Both are measured in one run and reported as a ratio and in milliseconds: `python benchmarks/first_paint.py`.
Each program starts in a pseudo-terminal of its own; its time ends when its first words are on the screen. For labtui
these are in the first frame (its tabs); the time until the last part, the epoch times, is reported as well. The lab
folder holds a finished session, so that there is something to paint. The processor time per second of log is compared
with that of a loop that only reads the same lines.
Exit status 1 if a budget is missed: the first paint takes at most 1.5 times the minimal app's, 95 % of the key presses
at most 50 ms.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks._budgets import Budget, verdict
from benchmarks._terminal import until_shown

MINIMAL = """
from textual.app import App
from textual.widgets import Static
class Minimal(App):
    def compose(self):
        yield Static("FIRST-WORDS")
Minimal().run()
"""
LABTUI = "import sys; from labtui.commands.cli import main; sys.exit(main([sys.argv[1]]))"


def first_words(command: list[str], words: bytes) -> float:
    """Seconds from the start of a program until it shows these words."""
    return until_shown(command, [(words, b"")])[0]


def make_lab(folder: Path) -> Path:
    """Make a lab folder with a finished session."""
    from tests.tui.fed_session import lab_session, make_folder, open_session

    make_folder(folder)
    session = open_session(folder)
    lab_session(session)
    session.close()
    return folder


def paint(rounds: int) -> dict[str, float]:
    """Medians of both programs, which run alternately so that the machine's load affects both."""
    with tempfile.TemporaryDirectory() as place:
        lab = make_lab(Path(place) / "lab")
        minimal: list[float] = []
        ours: list[float] = []
        whole: list[float] = []
        for _ in range(rounds):
            minimal.append(first_words([sys.executable, "-c", MINIMAL], b"FIRST-WORDS"))
            ours.append(first_words([sys.executable, "-c", LABTUI, str(lab)], b"Charts"))
            whole.append(first_words([sys.executable, "-c", LABTUI, str(lab)], b"8.10"))
    base, own, numbers = (statistics.median(times) for times in (minimal, ours, whole))
    return {
        "minimal_ms": base * 1000,
        "labtui_ms": own * 1000,
        "ratio": own / base,
        "labtui_everything_stored_ms": numbers * 1000,
    }


def keys(seconds: float, rate: int = 10_000_000) -> dict[str, float]:
    """How long a key press waits while the log on the screen grows by `rate` bytes per second."""
    import asyncio

    with tempfile.TemporaryDirectory() as place:
        lab = make_lab(Path(place) / "lab")
        return asyncio.run(press_while_a_log_grows(lab, "lt000000000000000ddd", seconds, rate))


async def press_while_a_log_grows(lab: Path, token: str, seconds: float, rate: int) -> dict[str, float]:
    """How long key presses wait, in ms, while this submission's log is on the screen and grows; and the core's load."""
    import threading

    from labtui.tui.app import LabApp
    from tests import changes
    from tests.tui.fed_session import open_session

    session = open_session(lab, start=False)
    app = LabApp(session, pane="log")
    path = session.folder.path / session.state.submissions[token].mirror("out")
    stop, written = threading.Event(), [0.0]
    line = b"7/7 - 5s - loss: 2.1481 - accuracy: 0.2160 - 5s/epoch - 768ms/step\n"
    chunk = line * (rate // 20 // len(line))

    def flood() -> None:
        size = path.stat().st_size
        with path.open("ab", buffering=0) as file:
            while not stop.wait(0.05):
                began = time.thread_time()
                file.write(chunk)
                written[0] += time.thread_time() - began
                size += len(chunk)
                session.feed(changes.grown(token, size))

    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        thread = threading.Thread(target=flood, daemon=True)
        spent, offset = time.process_time(), path.stat().st_size
        thread.start()
        waits = await _press(app, seconds)
        stop.set()
        thread.join()
        spent = time.process_time() - spent - written[0]
    session.close()
    seconds_worth = (path.stat().st_size - offset) / rate  # on a busy machine the log grows more slowly
    began = time.process_time()
    with path.open("rb") as file:
        file.seek(offset)
        for _ in file:
            pass
    reader = time.process_time() - began
    return {
        "presses": len(waits),
        "median_ms": statistics.median(waits) * 1000,
        "p95_ms": waits[int(len(waits) * 0.95)] * 1000,
        "worst_ms": waits[-1] * 1000,
        "core_share": spent / seconds_worth,
        "reader_core_share": reader / seconds_worth,
    }


async def _press(app: Any, seconds: float) -> list[float]:
    """The waiting times of many presses, sorted. Each is a callback, which is queued as a key press is."""
    import asyncio

    waits: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        await asyncio.sleep(0.03)
        pressed = time.perf_counter()
        done = asyncio.Event()
        app.call_later(done.set)
        await done.wait()
        waits.append(time.perf_counter() - pressed)
    return sorted(waits)


def budgets(painted: dict[str, float], pressed: dict[str, float]) -> list[Budget]:
    """The budgets for the results of `paint` and `keys`."""
    return [
        Budget("first paint, times a minimal app's", painted["ratio"], 1.5),
        Budget("key press while 10 MB/s arrive, 95 %, ms", pressed["p95_ms"], 50.0),
    ]


def main() -> int:
    """Measure and print JSON; return 1 if a budget is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=6.0)
    arguments = parser.parse_args()
    painted, pressed = paint(arguments.rounds), keys(arguments.seconds)
    print(json.dumps({"first_paint": painted, "key_press": pressed}, indent=2), flush=True)
    return verdict(budgets(painted, pressed))


if __name__ == "__main__":
    sys.exit(main())
