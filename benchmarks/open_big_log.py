"""Time and memory to show the end of a log of one gigabyte, compared with `less +G`.

`python benchmarks/open_big_log.py [--log-mb 1000]`. The time is from the start of the program: labtui paints, gets the
key of the log pane, and shows the end of the log. Seconds do not compare across machines.
Exit status 1 if a budget is missed: labtui takes at most 0.7 s and 200 MB.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks._budgets import Budget, verdict
from benchmarks._terminal import until_shown
from benchmarks.first_paint import LABTUI, make_lab
from tests.tui.fed_session import open_session

LINE = b"1234/5000 [=====>........] - ETA: 12s - loss: 2.1234 - accuracy: 0.2345 of a long progress bar\n"
LAST = b"the-last-line-of-all\n"


def grow(lab: Path, megabytes: int) -> Path:
    """Append so many megabytes to a mirror of the lab folder; return its path."""
    session = open_session(lab, start=False)
    submission = session.state.submissions["lt000000000000000ddd"]
    path = session.folder.path / submission.mirror("out")
    session.close()
    piece = LINE * (1_000_000 // len(LINE) + 1)
    with path.open("ab") as file:
        for _ in range(megabytes):
            file.write(piece[:1_000_000])
        file.write(b"\n" + LAST)
    return path


def budgets(seconds: float, peak_mb: float) -> list[Budget]:
    """The budgets of labtui: its median time and its peak memory in MB."""
    return [
        Budget("the end of a large log on the screen, s", seconds, 0.7),
        Budget("memory for a large log, MB", peak_mb, 200.0),
    ]


def main() -> int:
    """Print the table; return 1 if a budget is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--log-mb", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        lab = make_lab(Path(place) / "lab")
        path = grow(lab, arguments.log_mb)
        ways = {
            "labtui": ([sys.executable, "-c", LABTUI, str(lab)], [(b"nct_345", b"l"), (LAST.strip(), b"")])
        }
        if less := shutil.which("less"):
            ways["less +G"] = ([less, "+G", str(path)], [(LAST.strip(), b"")])
        shown = {name: [until_shown(*way) for _ in range(arguments.rounds)] for name, way in ways.items()}
    figures = {
        name: (statistics.median(one.seconds for one in rounds), max(one.peak_mb for one in rounds))
        for name, rounds in shown.items()
    }
    for name, (seconds, peak) in figures.items():
        print(f"end of a log of {arguments.log_mb} MB   {name:<8} {seconds:6.2f} s   {peak:5.0f} MB at most")
    return verdict(budgets(*figures["labtui"]))


if __name__ == "__main__":
    sys.exit(main())
