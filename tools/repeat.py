"""Run tests that depend on a cluster, a clock or threads repeatedly on a busy machine, and list those that ever failed.

``python tools/repeat.py [--times 20] [--busy 2] [--workers 6] [-- PYTEST_ARGS]`` from the project's folder. No failed
test is retried. The output of each run with a failure is kept in ``--logs``.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

FOLDERS = ("cluster", "commands", "contract", "doctor", "e2e", "practice", "reliability", "session", "tui")
"""The folders whose tests may depend on timing."""
ENDED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


def run(pytest: list[str], log: Path) -> tuple[set[str], str]:
    """Run pytest once; return the failed tests and pytest's last line."""
    done = subprocess.run(pytest, capture_output=True, text=True, check=False)
    failed = set(ENDED.findall(done.stdout))
    lines = (done.stdout + done.stderr).strip().splitlines() or [f"exit status {done.returncode}"]
    if done.returncode and not failed:
        failed = {f"pytest itself (exit status {done.returncode})"}
    if failed:
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(done.stdout + done.stderr, encoding="utf-8")
    return failed, lines[-1]


def main() -> int:
    """Run the tests; return 1 if any test ever failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--busy", type=int, default=2, help="busy loops beside the tests")
    parser.add_argument("--workers", type=int, default=6)
    parser.add_argument("--logs", type=Path, default=Path("build/repeat"))
    parser.add_argument("pytest", nargs="*", help="arguments for pytest instead of the folders")
    args = parser.parse_args()
    chosen = args.pytest or [f"tests/{folder}" for folder in FOLDERS]
    pytest = [sys.executable, "-m", "pytest", "-q", "-rfE", "-n", str(args.workers), *chosen]
    account: Counter[str] = Counter()
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(args.busy)]
    try:
        for number in range(1, args.times + 1):
            began = time.monotonic()
            failed, last = run(pytest, args.logs / f"{number:02}.log")
            account.update(failed)
            print(f"run {number:2}: {last} ({time.monotonic() - began:.0f} s in all)", flush=True)
            for name in sorted(failed):
                print(f"        failed: {name}", flush=True)
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
    print(f"{args.times} runs; {len(account)} tests failed at least once")
    for name, times in account.most_common():
        print(f"  {times:2} of {args.times}: {name}")
    return 1 if account else 0


if __name__ == "__main__":
    sys.exit(main())
