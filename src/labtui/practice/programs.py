"""The practice cluster's clock, and its small programs: `python programs.py NAME WORDS...`, each a process of its own.

sbatch, squeue, ... ask the cluster's process; `date`, `sleep` and `nvidia-smi` show its clock and its GPUs; `run` is
the program that its compiler makes; `watchdog` cleans up after labtui. They run with `python -I -S` (`run` with `-I`)
and import late, so that they start in a few milliseconds. LABTUI_PRACTICE_CONTROL holds the cluster's port and secret.
"""

from __future__ import annotations

import math
import os
import sys
import time

# --------------------------------------------------------------------------- the clock

_PREFIX = "LABTUI_PRACTICE_"


class PracticeClock:
    """A clock that shows `began` + `ahead` at `began` (UNIX seconds) and goes `factor` cluster seconds per second."""

    def __init__(self, began: float, factor: float, ahead: float = 0.0) -> None:
        self.began, self.factor, self.ahead = began, factor, ahead

    @classmethod
    def from_environment(cls) -> PracticeClock:
        """The clock of the cluster that started this process."""
        names = {"BEGAN": time.time(), "FACTOR": 1.0, "AHEAD": 0.0}
        values = {name: float(os.environ.get(_PREFIX + name, usual)) for name, usual in names.items()}
        return cls(values["BEGAN"], max(values["FACTOR"], 1e-6), values["AHEAD"])

    @property
    def environment(self) -> dict[str, str]:
        """The variables from which `from_environment` makes this clock."""
        values = {"BEGAN": self.began, "FACTOR": self.factor, "AHEAD": self.ahead}
        return {_PREFIX + name: repr(value) for name, value in values.items()}

    def now(self) -> float:
        """UNIX seconds on the cluster's clock."""
        return self.began + self.ahead + (time.time() - self.began) * self.factor

    def sleep(self, seconds: float) -> None:
        """Wait for `seconds` on the cluster's clock."""
        time.sleep(max(0.0, seconds / self.factor))


class RehearsedTime:
    """A clock that only `advance` moves, while real time passes at the cluster's pace.

    `advance` is exact: an epoch of 13.600 s takes 13.600 s on this clock, however busy the computer is. The clock began
    `late` real seconds ago, so that the time to start the process does not count as the job's.
    """

    def __init__(self, clock: PracticeClock, late: float = 0.0) -> None:
        self._factor, self._now, self._elapsed = clock.factor, clock.now() - late * clock.factor, 0.0
        self._sleep, self._monotonic = time.sleep, time.monotonic
        self._real_start = time.monotonic() - late

    def advance(self, seconds: float) -> None:
        """Let `seconds` pass on this clock."""
        self._elapsed += max(0.0, seconds)
        behind = self._elapsed / self._factor - (self._monotonic() - self._real_start)
        if behind > 0:
            self._sleep(behind)

    def _passed(self) -> float:
        """Seconds since the start; another thread may ask (a cancelled job's) while the main one sleeps."""
        return min(self._elapsed, (self._monotonic() - self._real_start) * self._factor)

    def install(self) -> None:
        """Replace the functions of the module `time` in this process."""
        time.monotonic = time.perf_counter = self._passed
        time.time = lambda: self._now + self._passed()
        time.time_ns = lambda: int(1e9 * time.time())  # from which `logging` takes its times
        time.sleep = self.advance  # type: ignore[assignment]  # the parameter's name differs


# --------------------------------------------------------------------------- asking the cluster


def ask_cluster(program: str, argv: list[str]) -> None:
    """Send the call to the cluster's process, print its answer and exit; `serve_calls` documents their forms."""
    import _socket  # importing `socket` takes longer than all the rest

    port, _, secret = os.environ.get("LABTUI_PRACTICE_CONTROL", "").partition(":")
    if not port:
        sys.exit(f"{program}: this shell does not belong to the practice cluster.")
    named = any(not word.startswith("-") for word in argv)
    takes_input = program == "sbatch" and not named and not sys.stdin.isatty()
    variables = [f"{name}={value}" for name, value in os.environ.items()]
    call = [secret, program, os.getcwd(), str(len(argv)), str(len(variables)), *argv, *variables]
    data = b"\0".join([*map(os.fsencode, call), sys.stdin.buffer.read() if takes_input else b""])
    try:
        connection = _socket.socket()
        connection.settimeout(60)
        connection.connect(("127.0.0.1", int(port)))
        connection.sendall(data)
        connection.shutdown(_socket.SHUT_WR)
        head, _, text = b"".join(iter(lambda: connection.recv(65536), b"")).partition(b"\n")
    except OSError:
        sys.exit("slurm_load_jobs error: Unable to contact slurm controller (connect failure)")
    if not head:
        sys.exit("The practice cluster is no longer running.")
    status, length = map(int, head.split())
    for stream, part in ((sys.stdout.buffer, text[:length]), (sys.stderr.buffer, text[length:])):
        stream.write(part)
        stream.flush()
    sys.exit(status)


def date(argv: list[str]) -> None:
    """Run this computer's `date` with the cluster's time, before which no later training of the job begins."""
    if not any(word.startswith(("-d", "--date", "-r", "--reference", "-s")) for word in argv):
        # GNU takes -d @SECONDS, BSD (macOS) takes -r SECONDS.
        now = PracticeClock.from_environment().now()
        argv = (["-r", str(int(now))] if sys.platform == "darwin" else ["-d", f"@{now:.6f}"]) + argv
        account()
    os.execvpe("date", ["date", *argv], {**os.environ, "PATH": os.confstr("CS_PATH") or "/bin:/usr/bin"})


def sleep(argv: list[str]) -> None:
    """Sleep by the cluster's clock; units s, m, h, d as in GNU sleep."""
    scale = {"s": 1, "m": 60, "h": 3600, "d": 86400}
    parts = ((word[:-1], scale[word[-1]]) if word[-1:] in scale else (word, 1) for word in argv)
    PracticeClock.from_environment().sleep(sum(float(number) * unit for number, unit in parts))
    account()


def account() -> None:
    """Note that all real time until now is accounted for in the job's time (see `unaccounted_s`)."""
    if folder := os.environ.get("LABTUI_PRACTICE_JOB"):
        with open(os.path.join(folder, "accounted"), "wb") as note:
            # The file system's own clock lags by milliseconds; `time.time` may be a rehearsed one.
            os.utime(note.fileno(), ns=(time.clock_gettime_ns(time.CLOCK_REALTIME),) * 2)


def unaccounted_s() -> float:
    """Real seconds since the job began or last called `account`: the time to start its processes."""
    job = os.environ.get("LABTUI_PRACTICE_JOB", "")
    notes = [os.path.join(job, name) for name in ("slurm_script.new", "accounted")]
    began = [os.path.getmtime(note) for note in notes if job and os.path.exists(note)]
    return max(0.0, time.time() - max(began)) if began else 0.0


def run(argv: list[str]) -> None:
    """``SOURCE FLAGS -- ARGUMENTS``: print what the program built from SOURCE prints, after the time it would take."""
    from labtui.practice import pace

    mark = argv.index("--")
    source, flags, arguments = argv[0], argv[1:mark], argv[mark + 1 :]
    count, wait = int(os.environ.get("SLURM_NTASKS", "1")), PracticeClock.from_environment().sleep
    if source in ("pi_seq.c", "pi_mpi.c"):
        n, weak, alone = int(arguments[0]) if arguments else 1 << 32, "-DWEAK" in flags, source == "pi_seq.c"
        milliseconds = pace.pi_ms(count, n, sequential=alone, weak=weak)
        wait(milliseconds / 1000)
        print(f"pi is about {math.pi:.12f}")
        with_n = f" and n = {n}" if weak else ""
        parallel = f"Parallel execution time with {count} processes{with_n}"
        print(f"{'Sequential execution time' if alone else parallel}: {milliseconds:.2f} ms")
    elif source == "jacobi.c":
        build = next((flag.partition("=")[2] for flag in flags if flag.startswith("-DBUILD=")), "cub")
        options = dict(zip(arguments[::2], arguments[1::2], strict=False))
        nx, ny, iterations = (int(options.get(name, "1024")) for name in ("-nx", "-ny", "-niter"))
        one, many = pace.jacobi_s(count, nx, ny, iterations, build)
        wait(one + many)
        print(
            f"{nx}x{ny}: 1 GPU: {one:8.4f}s, {count} GPUs: {many:8.4f}s, speedup: {one / many:8.2f}, "
            f"efficiency: {100 * one / many / count:8.2f}"
        )
    else:
        sys.exit(f"The practice cluster has no times of {source}: only programs that come with labtui have.")


# ------------------------------------------------------------------------------------------- nvidia-smi

TOTAL_MIB = 65247
STAMP = "practice: yes (labtui's practice cluster: no real GPU was read)"
"""A log with this line counts as practice."""
UNITS = {
    "utilization.gpu": "%", "utilization.memory": "%", "memory.total": "MiB", "memory.used": "MiB", "power.draw": "W",
}  # fmt: skip


def read_load() -> tuple[int, float, float] | None:
    """GPUs in use, and percent and GiB of each, from the job's file ``gpu-load``, which a training writes.

    None before the first training: the real time to start its process is none of the job's.
    """
    try:
        with open(os.path.join(os.environ["LABTUI_PRACTICE_JOB"], "gpu-load"), encoding="ascii") as stream:
            gpus, percent, gib = stream.read().split()
    except (KeyError, OSError):
        return None
    return int(gpus), float(percent), float(gib)


def gpu_values(index: int, used: tuple[int, float, float]) -> dict[str, str]:
    """The values of one GPU by nvidia-smi's field names; it is idle unless the training uses it."""
    gpus, percent, gib = used
    busy = index < gpus
    wobble = time.time_ns() // 1000 % 7 - 3  # importing `random` takes as long as all the rest
    shown = min(100, max(0, round(percent) + wobble)) if busy else 0
    moment = PracticeClock.from_environment().now()
    utc = os.environ.get("TZ") in ("UTC", "UTC0")
    clock = time.strftime("%Y/%m/%d %H:%M:%S", time.gmtime(moment) if utc else time.localtime(moment))
    return {
        "timestamp": f"{clock}.{math.floor(moment % 1 * 1000):03d}",
        "index": str(index),
        "name": "NVIDIA H100",
        "utilization.gpu": str(shown),
        "utilization.memory": str(shown * 6 // 10),
        "memory.total": str(TOTAL_MIB),
        "memory.used": str(round(gib * 1024) if busy else 4),
        "power.draw": f"{75 + 4.8 * shown:.2f}",
    }


def nvidia_smi(argv: list[str]) -> None:
    """Print the fields of ``--query-gpu``, or common ones, as CSV without units; once or with ``--loop=SECONDS``."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    devices = range(sum(part.strip().isdigit() for part in visible))
    if not devices:
        print("No devices were found")
        sys.exit(6)
    options = dict(word.partition("=")[::2] for word in argv)
    if "--query-gpu" not in options:
        print(STAMP, "NVIDIA-SMI 535.86.10    Driver Version: 535.86.10    CUDA Version: 12.2", sep="\n")
    usual = "index,name,power.draw,memory.used,memory.total,utilization.gpu"
    fields = options.get("--query-gpu", usual).split(",")
    every = options.get("--loop")
    if "noheader" not in options.get("--format", ""):
        print(", ".join(f"{name} [{UNITS[name]}]" if name in UNITS else name for name in fields))
    while True:
        used = read_load()
        for index in devices if used or every is None else ():
            values = gpu_values(index, used or (0, 0.0, 0.0))
            print(", ".join(values.get(name, "[N/A]") for name in fields))
        sys.stdout.flush()
        if every is None:
            return
        # At most ten samples per real second, however fast the clock.
        time.sleep(max(0.1, float(every) / PracticeClock.from_environment().factor))


def watchdog(argv: list[str]) -> None:
    """Kill the practice jobs and remove the practice folder (`argv`, empty if it is kept) when labtui has ended.

    Reads ``+PID`` and ``-PID`` lines from standard input, whose end means that labtui has ended.
    """
    import contextlib
    import shutil
    import signal

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    living: set[int] = set()
    for line in sys.stdin:
        pid = int(line[1:])
        living.add(pid) if line[0] == "+" else living.discard(pid)
    for pid in living:
        with contextlib.suppress(OSError):
            os.killpg(pid, signal.SIGKILL)
    for _ in range(100 if argv[0] else 0):  # killed processes may still write for a moment
        shutil.rmtree(argv[0], ignore_errors=True)
        if not os.path.exists(argv[0]):
            break
        time.sleep(0.1)


PROGRAMS = {"date": date, "sleep": sleep, "nvidia-smi": nvidia_smi, "run": run, "watchdog": watchdog}

if __name__ == "__main__":
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    name, argv = sys.argv[1], sys.argv[2:]
    PROGRAMS[name](argv) if name in PROGRAMS else ask_cluster(name, argv)
