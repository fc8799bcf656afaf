"""Ends the practice jobs and removes the practice folder when labtui is gone. Run as a process of its own.

Reads ``+PID`` and ``-PID`` lines from standard input; the end of the input means labtui ended. Uses the
standard library alone.
"""

import contextlib
import os
import shutil
import signal
import sys


def main() -> None:
    """Wait for the end of the input, then clean up."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    folder = sys.argv[1]
    living: set[int] = set()
    for line in sys.stdin:
        pid = int(line[1:])
        living.add(pid) if line[0] == "+" else living.discard(pid)
    for pid in living:
        with contextlib.suppress(OSError):
            os.killpg(pid, signal.SIGKILL)
    if folder:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
