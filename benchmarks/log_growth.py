"""How the time to read a log grows: eight times as many epochs or runs may take at most ten times as long.

    python benchmarks/log_growth.py

Measured in processor seconds of one process; only the ratios compare across machines. The short log is read eight
times, so that both take as long and other programs slow them alike: a short reading alone may fall in a quiet moment.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from _budgets import Budget, verdict

from labtui.training_logs.reader import parse_log

TIMES = 8
MAX_GROWTH = 10.0
ROUNDS = 2
"""The better of so many readings counts."""


def keras(count: int) -> str:
    line = "25/25 - 14s - loss: 2.0 - 14s/epoch - 544ms/step\n"
    return "".join(f"Epoch {k}/{count}\n{line}" for k in range(1, count + 1))


def by_hand(count: int) -> str:
    return "".join(f"Epoch {k}/{count} | Time: 47.04s\n" for k in range(1, count + 1))


def mlperf(count: int) -> str:
    def record(key: str, epoch: int, ms: int) -> str:
        return ":::MLLOG " + json.dumps({"key": key, "time_ms": ms, "metadata": {"epoch_num": epoch}}) + "\n"

    lines = (
        record("epoch_start", k, 1000 * k) + record("epoch_stop", k, 1000 * k + 900)
        for k in range(1, count + 1)
    )
    return "".join(lines)


def runs(count: int) -> str:
    return "".join(f" Model ResNet50 1 GPUs \nBatch_size: {k + 1}\n{keras(2)}" for k in range(count))


FORMS: dict[str, tuple[Callable[[int], str], int]] = {
    "Keras epochs": (keras, 5000),
    "hand-written epochs": (by_hand, 5000),
    "MLPerf epochs": (mlperf, 3000),
    "runs": (runs, 500),
}


def seconds(text: str, readings: int) -> float:
    data = text.encode()
    began = time.process_time()
    for _ in range(readings):
        parse_log(data[at : at + (1 << 20)] for at in range(0, len(data), 1 << 20))
    return (time.process_time() - began) / readings


def main() -> int:
    budgets = []
    for name, (make, count) in FORMS.items():
        short, long = make(count), make(TIMES * count)
        pairs = [(seconds(short, TIMES), seconds(long, 1)) for _ in range(ROUNDS)]
        small, large = (min(times) for times in zip(*pairs, strict=True))
        print(
            f"{name}: {TIMES} x {count:,} cost {large / small:.1f} x; {1e6 * large / TIMES / count:.0f} us each"
        )
        budgets.append(Budget(f"growth of {name}", large / small, MAX_GROWTH))
    return verdict(budgets)


if __name__ == "__main__":
    sys.exit(main())
