"""How much later than plain screens a practice evening is ready: start of the cluster and its lab folder, as a ratio.

Prints the median seconds of `PracticeCluster.start` until the first login is possible, and that time over the start of
a Python that imports Textual: the budget is one second beyond the screens' own start.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time

CLUSTER = """
import time
from labtui.practice.cluster import PracticeCluster
with PracticeCluster.start() as cluster:
    assert cluster.login.port
"""
SCREENS = "import textual.app, labtui.tui.app"


def seconds(code: str) -> float:
    """Wall time of a fresh Python that runs this."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - began


def main() -> None:
    """Print the medians and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=5)
    times = parser.parse_args().times
    pairs = [(seconds(SCREENS), seconds(CLUSTER)) for _ in range(times)]
    screens, cluster = (statistics.median(column) for column in zip(*pairs, strict=True))
    print(f"screens {screens:.2f} s, practice cluster {cluster:.2f} s, ratio {cluster / screens:.2f}")


if __name__ == "__main__":
    main()
