"""Run all benchmarks, one after another: `make bench`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main() -> int:
    """Run every benchmark beside this file; return the highest exit code."""
    worst = 0
    for path in sorted(HERE.glob("*.py")):
        if path.name.startswith("_"):
            continue
        print(f"\n== {path.stem} ==", flush=True)
        worst = max(worst, subprocess.run([sys.executable, str(path), *sys.argv[1:]], check=False).returncode)
    return worst


if __name__ == "__main__":
    sys.exit(main())
