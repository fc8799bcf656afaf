"""What a training prints, from rank 0 only: the course's lines, and records in the form of MLPerf logging.

A course line is `[%m/%d/%Y %I:%M:%S %p] INFO - ...` on standard output. The records
(github.com/mlcommons/logging) carry what those lines leave out: how many processes, the exact seconds,
top-1 and top-5. Standard library only.
"""

import json
import logging
import math
import sys
import time


class CourseLog:
    """Writes both; off rank 0 it is silent."""

    def __init__(self, rank):
        self.silent = rank != 0
        self.began = None  # of the run that has started and not yet stopped
        if not self.silent:
            logging.basicConfig(
                stream=sys.stdout,
                level=logging.INFO,
                format="[%(asctime)s] %(levelname)s - %(message)s",
                datefmt="%m/%d/%Y %I:%M:%S %p",
                force=True,
            )

    def line(self, text):
        if not self.silent:
            logging.info("%s", text)

    def point(self, key, value, **metadata):
        """A record about a moment, or a fact."""
        self.record("POINT_IN_TIME", key, value, metadata)

    def record(self, event_type, key, value=None, metadata=None, when=None):
        """One MLPerf record, flushed at once; `when` is the time it speaks of (UNIX seconds)."""
        if self.silent:
            return
        record = {
            "namespace": "",
            "time_ms": int(1000 * (time.time() if when is None else when)),
            "event_type": event_type,
            "key": key,
            "value": _plain(value),
            "metadata": _plain(metadata or {}),
        }
        # One write: print() writes the line end apart, and the process may be ended in between.
        sys.stdout.write(":::MLLOG " + json.dumps(record, allow_nan=False) + "\n")
        sys.stdout.flush()

    def run_start(self):
        self.began = time.perf_counter()
        self.record("INTERVAL_START", "run_start")

    def run_stop(self, status, **metadata):
        """Ends the run that is under way, if there is one: "success", or "aborted" with a `reason`."""
        if self.began is None:
            return
        seconds, self.began = time.perf_counter() - self.began, None
        self.record("INTERVAL_END", "run_stop", None, dict(metadata, status=status, seconds=seconds))
        if status != "success":
            self.silent = True  # the training thread may go on for a moment, and nothing follows the end


def _plain(value):
    """JSON has no NaN and no infinity: they become null."""
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
