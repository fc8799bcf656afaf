"""`srun` inside a practice job: a step's tasks as processes, their output by lines, their ends in srun's messages.

Run with `python -I -S`; beside the standard library it needs some pure modules of `slurm/` alone. Tasks stay in the
job's process group, so that whatever ends the job ends them too. Outside of a job the cluster's process answers,
through `programs.py`.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

sys.path.append(str(Path(__file__).resolve().parents[2]))

from labtui.practice.clock import PracticeClock
from labtui.practice.slurm.job import KILL_WAIT_S, VERSION, compressed, expand_log_name, stamp
from labtui.practice.slurm.steps import STEPS, JobStep, StepProblem, plan_step, read_words, task_ranges

FORCED = (signal.SIGKILL, signal.SIGTERM)
"""Signals after which srun reports that the step was terminated."""
LEAST_WAIT_S = 10.0
"""Real seconds: a cluster's minute is a moment here, and tasks that end together on a busy laptop end seconds apart."""


class Ledger:
    """The CPUs of one job (`cpus` in all) and the steps that hold some of them: a file behind a lock.

    Each step is this process's.
    """

    def __init__(self, folder: Path, cpus: int) -> None:
        self._path = folder / STEPS
        self._cpus = cpus

    def begin(self, cpus: int, say: Callable[[bool], None], pause_s: float = 0.1) -> int:
        """Take that many CPUs, waiting until they are free; the step's number, from 0.

        `say(True)` is called once when there is waiting to do, `say(False)` when it is over.
        """
        waited = False
        while (number := self._try(cpus)) is None:
            if not waited:
                say(True)
            waited = True
            time.sleep(pause_s)
        if waited:
            say(False)
        return number

    def end(self) -> None:
        """Give the CPUs back."""
        with self._open() as record:
            record["running"].pop(str(os.getpid()), None)

    def _try(self, cpus: int) -> int | None:
        with self._open() as record:
            record["running"] = {pid: held for pid, held in record["running"].items() if _alive(int(pid))}
            if cpus > self._cpus - sum(record["running"].values()):
                return None
            record["running"][str(os.getpid())] = cpus
            record["next"] += 1
            return int(record["next"]) - 1

    @contextlib.contextmanager
    def _open(self) -> Iterator[dict[str, Any]]:
        """The ledger's content, written back afterwards."""
        with self._path.open("a+", encoding="ascii") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            record = json.loads(file.read() or '{"next": 0, "running": {}}')
            yield record
            file.seek(0)
            file.truncate()
            json.dump(record, file)


def _alive(pid: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


class Running:
    """A step's processes and the threads that carry their output."""

    def __init__(self, step: JobStep, number: int) -> None:
        self.step = step
        self.job = os.environ["SLURM_JOB_ID"]
        self.name = f"{self.job}.{number}"
        self.node = os.environ.get("SLURMD_NODENAME", "localhost")
        self.ends: dict[int, int] = {}
        """By task: its exit status, negative the signal that ended it."""
        self._number = number
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._threads: list[threading.Thread] = []
        self._files: dict[str, IO[bytes]] = {}
        self._screen = threading.RLock()  # a signal may find this thread inside `say`
        self._killing = False
        self._first_end = 0.0

    def say(self, line: str) -> None:
        """A line of srun's or slurmstepd's on standard error."""
        with self._screen, contextlib.suppress(OSError):
            sys.stderr.write(f"{line}\n")
            sys.stderr.flush()

    def start(self) -> None:
        """Start all tasks; one that cannot be executed has ended with the error's number."""
        folder = self._folder()
        program = self.step.command[0]
        found = os.path.join(os.getcwd(), program) if "/" in program else shutil.which(program) or program
        for task in range(self.step.tasks):
            try:
                process = subprocess.Popen(
                    [program, *self.step.command[1:]],
                    executable=found,
                    cwd=folder,
                    env={**os.environ, **self._environment(task)},
                    stdin=self._input(task),
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                )
            except OSError as trouble:
                self.say(f"slurmstepd-{self.node}: error: execve(): {found}: {trouble.strerror}")
                self.ends[task] = trouble.errno or 1
                continue
            self._processes[task] = process
            self._carry(process.stdout, task, "output", sys.stdout.buffer)
            self._carry(process.stderr, task, "error", sys.stderr.buffer)
        if any(process.stdin for process in self._processes.values()):
            threading.Thread(target=self._feed, daemon=True).start()

    def finish(self) -> int:
        """Wait for all tasks, say how they ended, and return srun's exit status: the worst of theirs."""
        reported: set[int] = set()
        while len(reported) < self.step.tasks:
            self._look()
            self._waited_enough()
            news = self.ends.keys() - reported
            if not news:
                time.sleep(0.02)
                continue
            if len(self.ends) < self.step.tasks:
                time.sleep(0.05)  # tasks that end together are reported together
                self._look()
                news = self.ends.keys() - reported
            reported |= news
            self._tell(sorted(news))
        for thread in self._threads:
            thread.join(1.0 if self._killing else None)
        if any(-status in FORCED for status in self.ends.values()):
            self.say(f"srun: Force Terminated StepId={self.name}")
        return max(128 - status if status < 0 else status for status in self.ends.values())

    def abort(self) -> None:
        """Called when the job is being ended; its tasks get the same signal as srun."""
        self._killing = True
        self.say(f"srun: Job step aborted: Waiting up to {KILL_WAIT_S + 2} seconds for job step to finish.")

    # ------------------------------------------------------------------ inside

    def _look(self) -> None:
        for task, process in self._processes.items():
            status = process.poll()
            if status is not None:
                self.ends[task] = status

    def _tell(self, tasks: list[int]) -> None:
        alike: dict[tuple[str, int], list[int]] = {}
        for task in tasks:
            alike.setdefault((self._node_of(task), self.ends[task]), []).append(task)
        for (node, status), them in alike.items():
            if status:
                how = f"Exited with exit code {status}" if status > 0 else signal.strsignal(-status)
                self.say(f"srun: error: {node}: {task_ranges(them)}: {how}")
        if self.step.kill_on_bad_exit and any(status for _, status in alike):
            self._terminate(signal.SIGTERM)

    def _node_of(self, task: int) -> str:
        return self.step.place(task)[1] if self.step.nodes else self.node

    def _terminate(self, number: int) -> None:
        """End the tasks that still run, as slurmstepd does."""
        alive = [process for process in self._processes.values() if process.poll() is None]
        if not alive or self._killing:
            return
        self._killing = True
        self.say(f"srun: launch/slurm: _step_signal: Terminating StepId={self.name}")
        self.say(
            f"slurmstepd-{self.node}: error: *** STEP {self.name} ON {self.node} CANCELLED AT {_stamp()} ***"
        )
        for process in alive:
            process.send_signal(number)

    def _waited_enough(self) -> None:
        """``--wait``: after the first task has ended, the others have so many seconds, and LEAST_WAIT_S here."""
        limit = self.step.options.get("wait", "0")
        seconds = float(limit) if limit.isdecimal() else 0.0
        if not self.ends or seconds == 0 or self._killing:
            return
        self._first_end = self._first_end or time.monotonic()
        if time.monotonic() - self._first_end < max(
            seconds / PracticeClock.from_environment().factor, min(seconds, LEAST_WAIT_S)
        ):
            return
        bad = [task for task, status in self.ends.items() if status]
        self.say(f"srun: First task exited {limit}s ago")
        self.say(
            f"srun: StepId={self.name} {task_ranges(sorted(self._processes.keys() - self.ends))}: running"
        )
        if bad:
            self.say(f"srun: StepId={self.name} {task_ranges(sorted(bad))}: exited abnormally")
        self._terminate(signal.SIGKILL)

    def _folder(self) -> str | None:
        folder = self.step.options.get("chdir")
        if folder is None or Path(folder).is_dir():
            return folder
        self.say(
            f"slurmstepd-{self.node}: error: couldn't chdir to `{folder}': No such file or directory: "
            "going to /tmp instead"
        )
        return "/tmp"  # noqa: S108  where Slurm goes, too

    def _environment(self, task: int) -> dict[str, str]:
        tasks, nodes = str(self.step.tasks), max(1, len(self.step.nodes))
        number, name, local = self.step.place(task)
        on_each = str(-(-self.step.tasks // nodes)) + (f"(x{nodes})" if nodes > 1 else "")
        values = {
            "SLURM_NODEID": str(number),
            "SLURMD_NODENAME": name,
            "SLURM_PROCID": str(task),
            "SLURM_LOCALID": str(local),
            "SLURM_NTASKS": tasks,
            "SLURM_NPROCS": tasks,
            "SLURM_TASKS_PER_NODE": on_each,
            "SLURM_STEP_NUM_TASKS": tasks,
            "SLURM_STEP_TASKS_PER_NODE": on_each,
            "SLURM_STEP_NUM_NODES": str(nodes),
            "SLURM_STEP_NODELIST": compressed(self.step.nodes) or self.node,
            "SLURM_STEP_ID": str(self._number),
            "SLURM_STEPID": str(self._number),
            "SLURM_GTIDS": ",".join(map(str, range(self.step.tasks))),
        }
        if self.step.cpus_per_task:
            values["SLURM_CPUS_PER_TASK"] = str(self.step.cpus_per_task)
        for piece in self.step.options.get("export", "").split(","):
            name, equals, value = piece.partition("=")
            if equals:
                values[name] = value
        return values

    def _input(self, task: int) -> int:
        where = self.step.options.get("input", "all")
        nothing = where == "none" or (where.isdecimal() and int(where) != task)
        return subprocess.DEVNULL if nothing or _is_empty(0) else subprocess.PIPE

    def _feed(self) -> None:
        """Standard input goes to every task that takes it."""
        inputs = [process.stdin for process in self._processes.values() if process.stdin]
        while chunk := os.read(0, 1 << 16):
            for stream in inputs:
                with contextlib.suppress(OSError):
                    stream.write(chunk)
                    stream.flush()
        for stream in inputs:
            with contextlib.suppress(OSError):
                stream.close()

    def _carry(self, source: IO[bytes] | None, task: int, name: str, screen: IO[bytes]) -> None:
        target = self._file(task, name) or screen
        mark = f"{task:{len(str(self.step.tasks - 1))}d}: ".encode() if self.step.label else b""
        thread = threading.Thread(target=self._pump, args=(source, target, mark), daemon=True)
        self._threads.append(thread)
        thread.start()

    def _pump(self, source: IO[bytes], target: IO[bytes], mark: bytes) -> None:
        pieces = (
            iter(lambda: os.read(source.fileno(), 1 << 16), b"")
            if self.step.unbuffered and not mark
            else source
        )
        for piece in pieces:
            end = b"" if not mark or piece.endswith(b"\n") else b"\n"
            with self._screen, contextlib.suppress(OSError, ValueError):
                target.write(mark + piece + end)
                target.flush()

    def _file(self, task: int, name: str) -> IO[bytes] | None:
        pattern = self.step.options.get(name) or (
            self.step.options.get("output") if name == "error" else None
        )
        if pattern is None or pattern == "all":
            return None
        if pattern == "none":
            pattern = os.devnull
        pattern = pattern.replace("%t", str(task)).replace("%s", str(self._number)).replace("%J", self.name)
        path = expand_log_name(
            pattern, int(self.job), os.environ.get("SLURM_JOB_NAME", ""), os.environ.get("USER", "")
        )
        if path not in self._files:
            self._files[path] = open(path, "wb", buffering=0)  # noqa: SIM115  open as long as its tasks run
        return self._files[path]


def _stamp() -> str:
    """The cluster's time, as slurmstepd writes it."""
    return stamp(PracticeClock.from_environment().now(), {}, "")


def _is_empty(descriptor: int) -> bool:
    """Whether a descriptor is closed or the null device, as a job's standard input is."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(os.devnull))
    except OSError:
        return True


def run(words: list[str]) -> int:
    """One call of srun; its exit status."""
    options, _ = read_words(words)
    if "version" in options:
        print(f"slurm-wlm {VERSION}")
        return 0
    if "help" in options:
        print("Usage: srun [OPTIONS...] executable [args...]")
        return 0
    if "SLURM_JOB_ID" not in os.environ:
        programs = Path(__file__).with_name("programs.py")
        os.execv(sys.executable, [sys.executable, "-I", "-S", str(programs), "srun", *words])
    step = plan_step(words, os.environ)
    sys.stderr.write("".join(step.warnings))
    cpus, nodes = (int(os.environ.get(name, "1")) for name in ("SLURM_CPUS_ON_NODE", "SLURM_JOB_NUM_NODES"))
    ledger = Ledger(Path(os.environ["LABTUI_PRACTICE_JOB"]), cpus * nodes)
    running = Running(step, ledger.begin(step.cpus, _waits(os.environ["SLURM_JOB_ID"])))
    signal.signal(signal.SIGTERM, lambda *_: running.abort())
    try:
        running.start()
        return running.finish()
    finally:
        ledger.end()


def _waits(job: str) -> Callable[[bool], None]:
    """Prints srun's messages when the step has to wait for CPUs, and when it gets them."""

    def say(waiting: bool) -> None:
        tail = (
            f"Job {job} step creation temporarily disabled, retrying (Requested nodes are busy)"
            if waiting
            else f"Step created for job {job}"
        )
        print(f"srun: {tail}", file=sys.stderr, flush=True)

    return say


def main() -> None:
    """Run, flush, and leave without waiting for a thread that still reads standard input."""
    try:
        status = run(sys.argv[1:])
    except StepProblem as problem:
        sys.stderr.write(problem.text)
        status = problem.status
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()
    os._exit(status)


if __name__ == "__main__":
    main()
