"""How labtui's costs grow with the runs of a lab folder (10, 100, 500), and with 5,000 jobs of others in the queue.

`python benchmarks/large_lab.py [--sizes 10 100 500] [--others 5000]`

* for each size: opening the folder, first frame, everything stored on the screen, memory, processor time while idle
  and while the log on the screen grows by 10 MB per second, key presses meanwhile, the results, a whole export
* reading the queue of a real Slurm once, empty and with the jobs of others (skipped without a cluster)

Exit status 1 if a cost grows faster than the number of runs, or if the first frame or a key press grows with it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks._budgets import Budget, verdict
from benchmarks._terminal import until_shown
from benchmarks.first_paint import LABTUI, press_while_a_log_grows

SHOWN_TOKEN = "lt000000000000000ddd"
ROUNDS = 3

OPEN = """
import json, resource, sys, time
began = time.process_time()
from labtui.session.session import Session
with Session.open(sys.argv[1], start=False) as session:
    opened = time.process_time()
    rows = len(session.results().rows)
    counted = time.process_time()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"open_s": opened - began, "results_s": counted - opened, "rows": rows, "open_peak_mb": peak}))
"""
EXPORT = """
import json, sys, time
from pathlib import Path
from labtui.export import export_lab
from labtui.session.session import Session
with Session.open(sys.argv[1], start=False) as session:
    state = session.state
began = time.process_time()
export_lab(Path(sys.argv[1]), state=state)
print(json.dumps({"export_s": time.process_time() - began}))
"""


def make_lab(folder: Path, runs: int) -> Path:
    """Make a lab folder with `runs` runs, all finished but the last one, and their logs."""
    from tests.tui import fed_session

    fed_session.make_folder(folder)
    session = fed_session.open_session(folder)
    sizes = (1, 2, 4)
    tokens, events = {}, []
    for number in range(1, runs):
        token, what = f"lt{number:020x}", fed_session.spec(gpus=sizes[number % 3])
        tokens[token] = what
        events += fed_session.finished_run(token, "10.5", number, what, str(31_000 + number))
    events += fed_session.live_run(SHOWN_TOKEN, "10.5", runs, fed_session.spec(gpus=4), "39999", 3)
    session.feed(*events, *fed_session.online())
    for token, what in tokens.items():
        fed_session.write_log(session, token, fed_session.log_text(what, what.epochs))
    fed_session.write_log(session, SHOWN_TOKEN, fed_session.log_text(fed_session.spec(gpus=4), 3))
    session.close()
    return folder


def child(code: str, lab: Path) -> dict[str, float]:
    """Run `code` on the lab in a process of its own; return the figures it prints."""
    done = subprocess.run([sys.executable, "-c", code, str(lab)], check=True, capture_output=True, text=True)
    answer: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return answer


def measure(runs: int, seconds: float) -> dict[str, float]:
    """All figures of one size, the best of `ROUNDS`; seconds are processor time, which other load hardly changes."""
    with tempfile.TemporaryDirectory() as place:
        lab = make_lab(Path(place) / "lab", runs)
        rounds = [child(OPEN, lab) for _ in range(ROUNDS)]
        figures = {name: min(answer[name] for answer in rounds) for name in rounds[0]}
        command = [sys.executable, "-c", LABTUI, str(lab)]
        first = [until_shown(command, [(b"nct_345", b"")]) for _ in range(ROUNDS)]
        figures["first_frame_s"] = min(shown.processor_s for shown in first)
        everything = [until_shown(command, [(b"5.38", b"")]) for _ in range(ROUNDS)]
        figures["everything_s"] = min(shown.processor_s for shown in everything)
        figures["screens_peak_mb"] = max(shown.peak_mb for shown in everything)
        figures["idle_share"] = asyncio.run(_idle(lab, seconds))
        pressed = asyncio.run(press_while_a_log_grows(lab, SHOWN_TOKEN, seconds, 10_000_000))
        figures["streaming_share"] = pressed["core_share"]
        figures["reader_share"] = pressed["reader_core_share"]
        figures["key_p95_ms"] = pressed["p95_ms"]
        return figures | child(EXPORT, lab)


async def _idle(lab: Path, seconds: float) -> float:
    """The share of one core that the screens take while nothing happens."""
    from labtui.tui.app import LabApp
    from tests.tui.fed_session import open_session

    session = open_session(lab, start=False)
    app = LabApp(session)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause(2)
        spent = _processor_s()
        await asyncio.sleep(seconds)
        share = (_processor_s() - spent) / seconds
    session.close()
    return share


def _processor_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def queue_looks(others: int) -> dict[str, float]:
    """Seconds to read the queue of a real Slurm once, without and with `others` jobs of another user."""
    from labtui.session.session import Session
    from tests.real_cluster import Cluster, missing_requirements
    from tests.session.small_job import make_lab as make_real_lab

    if missing_requirements():
        return {}
    cluster = Cluster.start()
    try:
        figures: dict[str, float] = {}
        with tempfile.TemporaryDirectory() as place:
            folder = make_real_lab(Path(place) / "lab", cluster.student, cluster.student.port)
            for name, number in (("alone", 0), ("crowded", others)):
                for first in range(0, number, 1000):
                    array = f"--array=0-{min(1000, number - first) - 1}"
                    cluster.as_root(
                        "sbatch", "--hold", "--time=1", array, "--wrap=true", "--output=/dev/null"
                    )
                with _times_of("tick") as looks, Session.open(folder.path) as session:
                    _wait_until(lambda: session.state.connection.status == "online")
                    for _ in range(5):
                        seen = len(looks)
                        session.refresh()
                        _wait_until(lambda seen=seen: len(looks) > seen)  # type: ignore[misc]
                    figures[f"look_{name}_s"] = min(looks)
            figures["other_jobs"] = len(cluster.as_root("squeue", "-h", "-r", "-o", "%i").out.splitlines())
        return figures
    finally:
        cluster.down()


@contextlib.contextmanager
def _times_of(name: str) -> Iterator[list[float]]:
    """The seconds that each question of this name to the cluster takes, meanwhile."""
    from labtui.cluster.connection import Connection

    seconds: list[float] = []
    ask = Connection.ask

    def timed(connection: Connection, call: Any) -> Any:
        began = time.monotonic()
        answer = ask(connection, call)
        if call.name == name:
            seconds.append(time.monotonic() - began)
        return answer

    with mock.patch.object(Connection, "ask", timed):
        yield seconds


def _wait_until(condition: Any, limit_s: float = 120.0) -> None:
    end = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > end:
            raise SystemExit("the test cluster does not answer")
        time.sleep(0.05)


def budgets(small: dict[str, float], large: dict[str, float], times: float) -> list[Budget]:
    """The budgets, where `large` has `times` as many runs as `small`."""
    linear = ("open_s", "results_s", "export_s", "everything_s", "screens_peak_mb")
    return [
        *(
            Budget(f"{name}, times that of the small lab", large[name] / small[name], times)
            for name in linear
        ),
        Budget(
            "first frame, times that of the small lab", large["first_frame_s"] / small["first_frame_s"], 1.5
        ),
        Budget("key press while 10 MB/s arrive, 95 %, ms", large["key_p95_ms"], 50.0),
    ]


def main() -> int:
    """Measure and print JSON; return 1 if a budget is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10, 100, 500])
    parser.add_argument("--others", type=int, default=5000)
    parser.add_argument("--seconds", type=float, default=5.0)
    arguments = parser.parse_args()
    found = {runs: measure(runs, arguments.seconds) for runs in arguments.sizes}
    for runs, figures in found.items():
        print(json.dumps({"runs": runs} | figures), flush=True)
    if arguments.others:
        print(json.dumps(queue_looks(arguments.others)), flush=True)
    small, large = min(found), max(found)
    return verdict(budgets(found[small], found[large], large / small))


if __name__ == "__main__":
    sys.exit(main())
