"""The log of a training, from rank 0 only: the course's lines, and MLPerf records (mllog.py, one folder up).

A course line is `[%m/%d/%Y %I:%M:%S %p] INFO - ...` on standard output. The records add what those lines
lack: the number of processes, the exact seconds, top-1 and top-5.
"""

import logging
import os
import sys
import time

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import mllog  # noqa: E402  found one folder up


class CourseLog:
    """Writes lines and records on rank 0, and nothing on other ranks."""

    def __init__(self, rank):
        self.silent = rank != 0
        self.began = None  # the start of the run in progress
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
        """A record about a point in time or a fact."""
        self.record("POINT_IN_TIME", key, value, metadata)

    def record(self, event_type, key, value=None, metadata=None, when=None):
        if not self.silent:
            mllog.record(event_type, key, value, metadata, when)

    def run_start(self):
        self.began = time.perf_counter()
        self.record("INTERVAL_START", "run_start")

    def run_stop(self, status, **metadata):
        """Ends the run in progress, if any, with "success", or with "aborted" and a `reason`."""
        if self.began is None:
            return
        seconds, self.began = time.perf_counter() - self.began, None
        self.record("INTERVAL_END", "run_stop", None, dict(metadata, status=status, seconds=seconds))
        if status != "success":
            self.silent = True  # the training thread may go on for a moment, but nothing may follow the end
