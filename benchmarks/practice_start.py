"""What the practice cluster adds to a lab session: the time until it is ready, and its cost while idle.

Prints the median time until `PracticeCluster` accepts logins, and its ratio to the start of a Python that imports the
screens; the budget is one second more than the latter. Then prints the processor time of an idle cluster and of its
watchdog; the budget is one hundredth of a core. Exit status 1 if a budget is missed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks._budgets import Budget, verdict

CLUSTER = """
import time
from labtui.practice.cluster import PracticeCluster
with PracticeCluster() as cluster:
    assert cluster.settings()["port"]
"""
SCREENS = "import textual.app, labtui.tui.app"
IDLE = """
import json, os, sys, time
from labtui.practice.cluster import PracticeCluster
cluster = PracticeCluster()
time.sleep(2)  # let the start finish
began, busy = time.monotonic(), time.process_time()
time.sleep(float(sys.argv[1]))
busy, took = time.process_time() - busy, time.monotonic() - began
cluster.close()  # waits for the watchdog, whose time is known from then on
used = os.times()
print(json.dumps({"idle": busy, "seconds": took, "watchdog": used.children_user + used.children_system}))
"""
BEYOND_SCREENS_S = 1.0
IDLE_PERCENT = 1.0


def seconds(code: str) -> float:
    """Wall time of a new Python process that runs this code."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - began


def idle(how_long: float) -> dict[str, float]:
    """Run an idle cluster: processor seconds that it took (`idle`) in `seconds`, and those of its watchdog in total."""
    done = subprocess.run(
        [sys.executable, "-c", IDLE, str(how_long)], check=True, capture_output=True, text=True
    )
    return json.loads(done.stdout)


def budgets(screens: float, cluster: float, idle_percent: float) -> list[Budget]:
    """The budgets; both starts in seconds, the idle cost in percent of a core."""
    return [
        Budget(
            "the practice cluster is ready, s beyond the screens' start", cluster - screens, BEYOND_SCREENS_S
        ),
        Budget("an idle practice cluster, % of a core", idle_percent, IDLE_PERCENT),
    ]


def main() -> int:
    """Print the figures; return 1 if a budget is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument(
        "--idle", type=float, default=20.0, metavar="SECONDS", help="how long to watch it idle"
    )
    options = parser.parse_args()
    pairs = [(seconds(SCREENS), seconds(CLUSTER)) for _ in range(options.times)]
    screens, cluster = (statistics.median(column) for column in zip(*pairs, strict=True))
    print(f"screens {screens:.2f} s, practice cluster {cluster:.2f} s, ratio {cluster / screens:.2f}")
    report = idle(options.idle)
    percent = 100 * report["idle"] / report["seconds"]
    print(
        f"idle for {report['seconds']:.0f} s: {1000 * report['idle']:.0f} ms of the processor, "
        f"that is {100 * report['idle']:.0f} ticks of 10 ms or {percent:.2f} % of a core; "
        f"its watchdog took {1000 * report['watchdog']:.0f} ms from start to end"
    )
    return verdict(budgets(screens, cluster, percent))


if __name__ == "__main__":
    sys.exit(main())
