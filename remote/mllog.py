"""Shared by all training scripts: records in the form of MLPerf logging, and the handling of SIGTERM.

The course's containers have no MLPerf package (github.com/mlcommons/logging). Standard library only.
"""

import ctypes
import json
import math
import os
import select
import signal
import sys
import threading
import time

# Held while a record is printed, and to the end of the process by the thread that ends it.
LOCK = threading.RLock()
EXIT_TERMINATED = 128 + signal.SIGTERM
TERMINATED = "The training was terminated from outside (cancelled, or out of time)."


class Problem(Exception):
    """An error that the user can correct: a sentence, and the exit code."""

    def __init__(self, code, sentence):
        super().__init__(sentence)
        self.code = code


def record(event_type, key, value=None, metadata=None, when=None):
    """Prints one record and flushes; `when` is the time of the event (UNIX seconds; default: now)."""
    content = {
        "namespace": "",
        "time_ms": int(1000 * (time.time() if when is None else when)),
        "event_type": event_type,
        "key": key,
        "value": plain(value),
        "metadata": plain(metadata or {}),
    }
    # One write: print() writes the newline separately, and another process may write in between.
    with LOCK:
        sys.stdout.write(":::MLLOG " + json.dumps(content, allow_nan=False) + "\n")
        sys.stdout.flush()


def point(key, value, **metadata):
    """Prints a record about a point in time or a fact."""
    record("POINT_IN_TIME", key, value, metadata)


def gpu_joules(places):
    """Joules used by these visible GPUs (indexes) since their driver was loaded, as NVML reads them.

    None without NVML, or if a GPU has no counter.
    """
    names = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    total = 0
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
        if nvml.nvmlInit_v2():
            return None
        for place in places:
            name = names[place] if place < len(names) and names[place] else str(place)
            gpu, millijoules = ctypes.c_void_p(), ctypes.c_ulonglong()
            if name.isdigit():
                unknown = nvml.nvmlDeviceGetHandleByIndex_v2(int(name), ctypes.byref(gpu))
            else:
                unknown = nvml.nvmlDeviceGetHandleByUUID(name.encode(), ctypes.byref(gpu))
            if unknown or nvml.nvmlDeviceGetTotalEnergyConsumption(gpu, ctypes.byref(millijoules)):
                return None
            total += millijoules.value
    except (OSError, AttributeError):
        return None
    return total / 1000


def joules_since(before, places):
    """The joules used since `before`, as metrics; {} if unknown, or if the counter did not change."""
    after = None if before is None else gpu_joules(places)
    return {"energy_joules": after - before} if after is not None and after > before else {}


def plain(value):
    """Converts to JSON values: NumPy numbers become floats; NaN and infinity, not in JSON, become null."""
    if isinstance(value, dict):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if value is None or isinstance(value, (bool, int, str)):
        return value
    number = float(value)
    return number if math.isfinite(number) else None


def on_sigterm(end, meanwhile=lambda: None):
    """Starts a thread that calls end() on SIGTERM and meanwhile() twice a second.

    The main thread may be in a long step or wait for another process, and an exception raised in a signal
    handler can crash a framework. So end() has to write the end of the log and call os._exit() itself.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.signal(signal.SIGTERM, lambda number, frame: None)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)

    def watch():
        while True:
            ready, _, _ = select.select([reader], [], [], 0.5)
            if ready and signal.SIGTERM in os.read(reader, 1):
                end()
            meanwhile()

    threading.Thread(target=watch, name="sigterm", daemon=True).start()
