"""The practice cluster's small programs, each call a process of its own: `python programs.py NAME WORDS...`.

sbatch, squeue, ... ask the cluster's process; `date`, `sleep` and `nvidia-smi` show its clock and its GPUs; `watchdog`
cleans up after labtui. Run with `python -I -S`, so that they start in a few milliseconds; the standard library alone,
and of that what is seldom needed when it is. LABTUI_PRACTICE_CONTROL holds the cluster's loopback port and the secret;
the clock comes from LABTUI_PRACTICE_BEGAN, LABTUI_PRACTICE_AHEAD and LABTUI_PRACTICE_FACTOR.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
import time
from collections.abc import Sequence
from typing import BinaryIO, TypedDict

PASSED = (
    "SLURM_",
    "SBATCH_",
    "SQUEUE_",
    "SACCT_",
    "TZ",
    "LC_",
    "LANG",
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "BASH_FUNC_",
)


def read_exactly(stream: BinaryIO, count: int) -> bytes:
    """Read so many bytes; exit when the cluster is gone."""
    data = stream.read(count)
    if data is None or len(data) < count:
        sys.exit("The practice cluster is no longer running.")
    return data


def ask_cluster(program: str, words: list[str]) -> None:
    """Send the call to the cluster's process and print its answer: JSON behind four bytes of length, both ways."""
    import socket

    port, _, secret = os.environ.get("LABTUI_PRACTICE_CONTROL", "").partition(":")
    if not port:
        sys.exit(f"{program}: this shell does not belong to the practice cluster.")
    named = [word for word in words if not word.startswith("-")]
    takes_input = (
        program == "sbatch" and not named and not sys.stdin.isatty() and "--wrap" not in " ".join(words)
    )
    environment = (
        os.environ if program == "sbatch" else {k: v for k, v in os.environ.items() if k.startswith(PASSED)}
    )
    call = {
        "secret": secret,
        "program": program,
        "words": words,
        "folder": os.getcwd(),
        "environment": dict(environment),
        "stdin": sys.stdin.buffer.read().decode("latin-1") if takes_input else "",
    }
    data = json.dumps(call).encode()
    try:
        with socket.create_connection(("127.0.0.1", int(port)), timeout=60) as connection:
            connection.sendall(len(data).to_bytes(4, "big") + data)
            stream = connection.makefile("rb")
            answer = json.loads(read_exactly(stream, int.from_bytes(read_exactly(stream, 4), "big")))
    except OSError:
        sys.exit("slurm_load_jobs error: Unable to contact slurm controller (connect failure)")
    sys.stdout.buffer.write(answer["stdout"].encode("utf-8", "surrogateescape"))
    sys.stdout.flush()
    sys.stderr.buffer.write(answer["stderr"].encode("utf-8", "surrogateescape"))
    sys.stderr.flush()
    sys.exit(answer["status"])


TOTAL_MIB = 65247
STAMP = "practice: yes (labtui's practice cluster: no real GPU was read)"
"""A log with this line counts as practice."""
UNITS = {
    "utilization.gpu": "%",
    "utilization.memory": "%",
    "memory.total": "MiB",
    "memory.used": "MiB",
    "memory.free": "MiB",
    "power.draw": "W",
    "power.limit": "W",
}


def factor() -> float:
    """Cluster seconds per second."""
    return max(1e-6, float(os.environ.get("LABTUI_PRACTICE_FACTOR", "1")))


def now() -> float:
    """The cluster's time in UNIX seconds."""
    began = float(os.environ.get("LABTUI_PRACTICE_BEGAN", time.time()))
    ahead = float(os.environ.get("LABTUI_PRACTICE_AHEAD", "0"))
    return began + ahead + (time.time() - began) * factor()


def real_program(name: str) -> str:
    """The path of the laptop's own program of this name."""
    ours = os.path.dirname(os.environ.get("LABTUI_PRACTICE_BIN", "") + os.sep)
    folders = [folder for folder in os.environ.get("PATH", "").split(os.pathsep) if folder != ours]
    import shutil

    path = shutil.which(name, path=os.pathsep.join(folders))
    if path is None:
        sys.exit(f"{name}: command not found")
    return path


def date(words: list[str]) -> None:
    """Run the laptop's `date` with the cluster's time."""
    program = real_program("date")
    if not any(word.startswith(("-d", "--date", "-r", "--reference", "-s")) for word in words):
        # GNU takes -d @SECONDS, BSD (macOS) takes -r SECONDS.
        words = (["-r", str(int(now()))] if sys.platform == "darwin" else ["-d", f"@{now():.6f}"]) + words
    os.execv(program, ["date", *words])


def sleep(words: list[str]) -> None:
    """Sleep for seconds of the cluster's clock; s, m, h, d as in GNU's."""
    scale = {"s": 1, "m": 60, "h": 3600, "d": 86400}
    seconds = 0.0
    for word in words:
        unit = scale.get(word[-1:])
        seconds += float(word[:-1] if unit else word) * (unit or 1)
    time.sleep(seconds / factor())


class GpuLoad(TypedDict):
    """What a rehearsed training does to its GPUs; `rehearsal/tensorflow` writes it as ``gpu.json``."""

    gpus: int
    percent: float
    gib: float


def load() -> GpuLoad:
    """The job's ``gpu.json``; idle GPUs where there is none."""
    try:
        with open(os.path.join(os.environ["LABTUI_PRACTICE_JOB"], "gpu.json"), encoding="ascii") as stream:
            return json.load(stream)  # type: ignore[no-any-return]
    except (KeyError, OSError, ValueError):
        return {"gpus": 0, "percent": 0.0, "gib": 0.0}


def reading(index: int, current: GpuLoad) -> dict[str, str]:
    """One GPU's values by nvidia-smi's field names; GPUs that the training does not use are idle."""
    import random

    busy = index < current["gpus"]
    percent = min(100, max(0, round(random.gauss(current["percent"], 3)))) if busy else 0
    used = round(current["gib"] * 1024) if busy else 4
    moment = now()
    utc = os.environ.get("TZ") in ("UTC", "UTC0")
    clock = time.strftime("%Y/%m/%d %H:%M:%S", time.gmtime(moment) if utc else time.localtime(moment))
    return {
        "timestamp": f"{clock}.{math.floor(moment % 1 * 1000):03d}",
        "index": str(index),
        "name": "NVIDIA H100",
        "uuid": f"GPU-00000000-0000-0000-0000-{index:012d}",
        "driver_version": "535.86.10",
        "utilization.gpu": str(percent),
        "utilization.memory": str(percent * 6 // 10),
        "memory.total": str(TOTAL_MIB),
        "memory.used": str(used),
        "memory.free": str(TOTAL_MIB - used),
        "temperature.gpu": str(34 + percent // 4),
        "power.draw": f"{75 + 4.8 * percent:.2f}",
        "power.limit": "700.00",
    }


def option(words: Sequence[str], *names: str) -> str | None:
    """The value of ``--name=VALUE`` or ``--name VALUE``."""
    for position, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name in names:
            return value if equals else words[position + 1] if position + 1 < len(words) else ""
    return None


def nvidia_smi(words: list[str]) -> None:
    """A table, or ``--query-gpu`` as CSV, once or with ``--loop=SECONDS``."""
    devices = [
        int(part) for part in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if part.strip().isdigit()
    ]
    if not devices:
        print("No devices were found")
        sys.exit(6)
    query = option(words, "--query-gpu")
    if query is None:
        table(devices)
        return
    fields = query.split(",")
    form = option(words, "--format") or "csv"
    if "noheader" not in form:
        print(", ".join(f"{name} [{UNITS[name]}]" if name in UNITS else name for name in fields))
    every = option(words, "--loop", "-l")
    while True:
        current = load()
        for position, _ in enumerate(devices):
            values = reading(position, current)
            print(
                ", ".join(
                    values.get(name, "[N/A]")
                    + (f" {UNITS[name]}" if name in UNITS and "nounits" not in form else "")
                    for name in fields
                )
            )
        sys.stdout.flush()
        if every is None:
            return
        # At most ten samples a second, however fast the clock.
        time.sleep(max(0.1, float(every) / factor()))


def table(devices: list[int]) -> None:
    """Print the table of plain ``nvidia-smi``."""
    rule = "+" + "-" * 77 + "+"
    print(STAMP)
    print(time.strftime("%a %b %e %H:%M:%S %Y", time.localtime(now())))
    print(rule)
    print(f"| {'NVIDIA-SMI 535.86.10    Driver Version: 535.86.10    CUDA Version: 12.2':<76}|")
    print(rule)
    current = load()
    for position, _ in enumerate(devices):
        values = reading(position, current)
        text = (
            f"{position}  NVIDIA H100   {values['temperature.gpu']}C   {values['power.draw']}W / 700W   "
            f"{values['memory.used']}MiB / {TOTAL_MIB}MiB   {values['utilization.gpu']}%"
        )
        print(f"| {text:<76}|")
    print(rule)


def watchdog(words: list[str]) -> None:
    """End the practice jobs and remove the practice folder (`words`, where one is named) when labtui is gone.

    Reads ``+PID`` and ``-PID`` lines from standard input; the end of the input means labtui ended.
    """
    import shutil
    import signal

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    folder = words[0]
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
    name, words = sys.argv[1], sys.argv[2:]
    own = {"date": date, "sleep": sleep, "nvidia-smi": nvidia_smi, "watchdog": watchdog}.get(name)
    own(words) if own else ask_cluster(name, words)
