"""What every training script shares: records in the form of MLPerf logging, and what happens on SIGTERM.

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

# Held while a record is printed. Who holds it at the end of the process has the last word in the log.
LOCK = threading.RLock()
EXIT_TERMINATED = 128 + signal.SIGTERM
TERMINATED = "The training was terminated from outside (cancelled, or out of time)."


class Problem(Exception):
    """Something that can be put right: a sentence, and the exit code that goes with it."""

    def __init__(self, code, sentence):
        super().__init__(sentence)
        self.code = code


def record(event_type, key, value=None, metadata=None, when=None):
    """Prints one record, flushed at once; `when` is the time it speaks of (UNIX seconds)."""
    content = {
        "namespace": "",
        "time_ms": int(1000 * (time.time() if when is None else when)),
        "event_type": event_type,
        "key": key,
        "value": plain(value),
        "metadata": plain(metadata or {}),
    }
    # One write: print() writes the line end apart, and another process may write in between.
    with LOCK:
        sys.stdout.write(":::MLLOG " + json.dumps(content, allow_nan=False) + "\n")
        sys.stdout.flush()


def point(key, value, **metadata):
    """A record about a moment, or a fact."""
    record("POINT_IN_TIME", key, value, metadata)


def gpu_joules(places):
    """Joules of some visible GPUs since their driver was loaded, by the counters that NVML reads.

    None where there is no NVML, or a GPU without a counter.
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
    """What was used since `before`, for the log; {} where it is not known, or the counter did not move."""
    after = None if before is None else gpu_joules(places)
    return {"energy_joules": after - before} if after is not None and after > before else {}


def plain(value):
    """Plain JSON values: NumPy numbers become floats; JSON has no NaN and no infinity, they become null."""
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

    The main thread may be in a step of minutes or wait for another process, and an exception raised from a
    signal handler inside a framework can crash it. So end() writes the end of the log and calls os._exit().
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
