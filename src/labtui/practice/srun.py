"""`srun` inside a practice job: a step's tasks as processes, their output by lines, their ends in srun's messages.

Run with `python -I -S`. Tasks stay in the job's process group, so that whatever ends the job ends them too. A step
does not wait until another one's CPUs are free.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO

sys.path.append(str(Path(__file__).resolve().parents[2]))

from labtui.practice.slurm.steps import JobStep, StepProblem, plan_step, read_words, task_ranges
from labtui.practice.slurm.written import KILL_WAIT_S, VERSION, compressed

FORCED = (signal.SIGKILL, signal.SIGTERM)
"""Signals after which srun reports that the step was terminated."""


class Running:
    """A step's processes and the threads that carry their output."""

    def __init__(self, step: JobStep, number: int) -> None:
        self.step, self._number = step, number
        self.name = f"{os.environ['SLURM_JOB_ID']}.{number}"
        self.ends: dict[int, int] = {}
        """By task: its exit status, negative the signal that ended it."""
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._threads: list[threading.Thread] = []
        self._screen = threading.RLock()  # a signal may find this thread inside `say`
        self._killing = False

    def say(self, line: str) -> None:
        """A line of srun's or slurmstepd's on standard error."""
        with self._screen, contextlib.suppress(OSError):
            sys.stderr.write(f"{line}\n")
            sys.stderr.flush()

    def start(self) -> None:
        """Start all tasks; one that cannot be executed has ended with the error's number."""
        program = self.step.command[0]
        found = os.path.join(os.getcwd(), program) if "/" in program else shutil.which(program) or program
        for task in range(self.step.tasks):
            try:
                process = subprocess.Popen(
                    [program, *self.step.command[1:]],
                    executable=found,
                    cwd=self.step.options.get("chdir"),
                    env={**os.environ, **self._environment(task)},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                )
            except OSError as trouble:
                node = self.step.place(task)[1]
                self.say(f"slurmstepd-{node}: error: execve(): {found}: {trouble.strerror}")
                self.ends[task] = trouble.errno or 1
                continue
            self._processes[task] = process
            self._carry(process.stdout, task, sys.stdout.buffer)
            self._carry(process.stderr, task, sys.stderr.buffer)

    def finish(self) -> int:
        """Wait for all tasks, say how they ended, and return srun's exit status: the worst of theirs."""
        reported: set[int] = set()
        while len(reported) < self.step.tasks:
            self._look()
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
            alike.setdefault((self.step.place(task)[1], self.ends[task]), []).append(task)
        for (node, status), them in alike.items():
            if status:
                how = f"Exited with exit code {status}" if status > 0 else signal.strsignal(-status)
                self.say(f"srun: error: {node}: {task_ranges(them)}: {how}")

    def _environment(self, task: int) -> dict[str, str]:
        tasks, nodes = str(self.step.tasks), len(self.step.nodes)
        number, name, local = self.step.place(task)
        on_each = str(-(-self.step.tasks // nodes)) + (f"(x{nodes})" if nodes > 1 else "")
        values = {
            "SLURM_NODEID": str(number),
            "SLURMD_NODENAME": name,
            "SLURM_PROCID": str(task),
            "SLURM_LOCALID": str(local),
            **dict.fromkeys(("SLURM_NTASKS", "SLURM_NPROCS", "SLURM_STEP_NUM_TASKS"), tasks),
            **dict.fromkeys(("SLURM_TASKS_PER_NODE", "SLURM_STEP_TASKS_PER_NODE"), on_each),
            "SLURM_STEP_NUM_NODES": str(nodes),
            "SLURM_STEP_NODELIST": compressed(self.step.nodes),
            "SLURM_STEP_ID": str(self._number),
        }
        if self.step.cpus_per_task:
            values["SLURM_CPUS_PER_TASK"] = str(self.step.cpus_per_task)
        exported = (piece.partition("=") for piece in self.step.options.get("export", "").split(","))
        return values | {name: value for name, equals, value in exported if equals}

    def _carry(self, source: IO[bytes] | None, task: int, target: IO[bytes]) -> None:
        mark = f"{task:{len(str(self.step.tasks - 1))}d}: ".encode() if self.step.label else b""
        thread = threading.Thread(target=self._pump, args=(source, target, mark), daemon=True)
        self._threads.append(thread)
        thread.start()

    def _pump(self, source: IO[bytes], target: IO[bytes], mark: bytes) -> None:
        for line in source:
            end = b"" if not mark or line.endswith(b"\n") else b"\n"
            with self._screen, contextlib.suppress(OSError, ValueError):
                target.write(mark + line + end)
                target.flush()


def step_number(folder: Path) -> int:
    """The number of a new step of the job, from 0: how many began before it."""
    number = 0
    while True:
        try:
            (folder / f"step.{number}").touch(exist_ok=False)
            return number
        except FileExistsError:
            number += 1


def run(words: list[str]) -> int:
    """One call of srun; its exit status."""
    options, _ = read_words(words)
    if "version" in options:
        print(f"slurm-wlm {VERSION}")
        return 0
    if "SLURM_JOB_ID" not in os.environ:
        limit = "The practice cluster runs srun only inside a job: write a script and submit it with sbatch."
        raise StepProblem(f"srun: error: {limit}\n")
    step = plan_step(words, os.environ)
    running = Running(step, step_number(Path(os.environ["LABTUI_PRACTICE_JOB"])))
    signal.signal(signal.SIGTERM, lambda *_: running.abort())
    running.start()
    return running.finish()


def main() -> None:
    """Run, flush, and leave."""
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
