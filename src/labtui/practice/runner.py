"""Runs practice jobs as local processes and makes sure that none outlives labtui.

A job's script runs in a session of its own. A watchdog process holds the reading end of a pipe: when labtui ends, in
whatever way, the pipe closes, and the watchdog kills every job and removes the practice folder unless it is kept. A
job does not begin before the watchdog knows of it.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from labtui.domain.errors import failure
from labtui.practice.job import Job

WATCHDOG = (str(Path(__file__).parent / "programs.py"), "watchdog")
GATE = str(Path(__file__).parent / "shell" / "gate.sh")


class JobRunner:
    """Starts and signals the processes of job scripts for the controller."""

    def __init__(
        self, spool: Path, environment: Mapping[str, str], ended: Callable[[int, int, int], None], remove: str
    ) -> None:
        """`ended` gets a job's ID, exit status and signal; `remove` is a folder to remove at the end, or ""."""
        self._spool, self._environment, self._ended = spool, dict(environment), ended
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._lock = threading.Lock()  # of the watchdog's input; one operation on a dict needs none
        self._watchdog = subprocess.Popen(
            [sys.executable, "-I", "-S", *WATCHDOG, remove],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._to_watchdog: Any = self._watchdog.stdin

    def start(self, job: Job) -> None:
        """Run the job's script; a job that cannot start fails at once, as on a cluster."""
        home = self._spool / f"job{job.job_id}"
        home.mkdir(parents=True, exist_ok=True)
        for step in home.glob("step.*"):  # a requeued job numbers its steps from 0 again
            step.unlink()
        script = home / "slurm_script"
        script.with_name("slurm_script.new").write_bytes(job.script)
        script.touch(0o700)
        try:
            with contextlib.ExitStack() as files:
                logs = (_open_log(path, append=job.request.append) for path in (job.stdout, job.stderr))
                out, err = map(files.enter_context, logs)
                process = subprocess.Popen(
                    [find_bash(), "-p", GATE, str(script), *job.arguments],
                    cwd=job.request.work_dir,
                    env=self._job_environment(job, home),
                    stdin=subprocess.PIPE,
                    stdout=out,
                    stderr=err,
                    bufsize=0,
                    start_new_session=True,
                )
        except (OSError, ValueError) as trouble:
            # A log that cannot be opened: Slurm fails the job without a log, too.
            self.write_error(job, f"slurmstepd: error: {trouble}")
            threading.Thread(target=self._ended, args=(job.job_id, 1, 0), daemon=True).start()
            return
        self._processes[job.job_id] = process
        self._tell_watchdog(f"+{process.pid}\n")
        if process.stdin is not None:  # for the type checker: never None with PIPE
            # The process may have been killed meanwhile.
            with contextlib.suppress(BrokenPipeError), process.stdin as gate:
                gate.write(b"\n")
        watched, name = (job.job_id, process), f"job-{job.job_id}"
        threading.Thread(target=self._wait, args=watched, name=name, daemon=True).start()

    def signal(self, job_id: int, number: int) -> None:
        """Signal the whole session of the job."""
        process = self._processes.get(job_id)
        if process is not None and process.poll() is None:
            signal_group(process.pid, number)

    def write_error(self, job: Job, line: str) -> None:
        """Append a line of slurmstepd to the job's standard error; a log that cannot be written is ignored."""
        with contextlib.suppress(OSError, ValueError), open(job.stderr, "ab") as stream:  # noqa: PTH123
            stream.write(line.encode() + b"\n")

    def close(self) -> None:
        """Kill every job, then end the watchdog, which removes the folder unless it is kept."""
        for job_id in tuple(self._processes):
            self.signal(job_id, signal.SIGKILL)
        with contextlib.suppress(OSError):
            self._to_watchdog.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._watchdog.wait(10)

    # ------------------------------------------------------------------ inside

    def _wait(self, job_id: int, process: subprocess.Popen[bytes]) -> None:
        code = process.wait()
        signal_group(process.pid, signal.SIGKILL)  # the script's background processes
        self._tell_watchdog(f"-{process.pid}\n")
        self._processes.pop(job_id, None)
        # A negative code is the signal that killed the script; bash reports a killed child as 128 + number.
        self._ended(job_id, max(0, code), max(0, -code))

    def _tell_watchdog(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError), self._lock:
            self._to_watchdog.write(text.encode())
            self._to_watchdog.flush()

    def _job_environment(self, job: Job, home: Path) -> dict[str, str]:
        asked, gpus = job.request, ",".join(map(str, job.gpu_numbers))

        tasks = asked.cpus // (asked.cpus_per_task or 1) // asked.nodes
        values: dict[str, str | int | None] = {
            **dict.fromkeys(("SLURM_JOB_ID", "SLURM_JOBID"), job.job_id),
            "SLURM_JOB_NAME": asked.name,
            "SLURM_JOB_ACCOUNT": asked.account,
            "SLURM_JOB_QOS": asked.queue.name,
            "SLURM_JOB_PARTITION": asked.partition,
            **dict.fromkeys(("SLURM_JOB_NODELIST", "SLURM_NODELIST"), job.node_list),
            "SLURMD_NODENAME": job.node,
            **dict.fromkeys(("SLURM_JOB_NUM_NODES", "SLURM_NNODES"), asked.nodes),
            "SLURM_TASKS_PER_NODE": f"{tasks}(x{asked.nodes})" if asked.nodes > 1 else tasks,
            **dict.fromkeys(("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID"), 0),
            "SLURM_CPUS_ON_NODE": asked.cpus // asked.nodes,
            "SLURM_SUBMIT_DIR": asked.work_dir,
            "SLURM_CLUSTER_NAME": "marenostrum5",
            "TMPDIR": str(home / "tmp"),
            "LABTUI_PRACTICE_JOB": str(home),
            **dict.fromkeys(("SLURM_NTASKS", "SLURM_NPROCS"), asked.tasks),
            "SLURM_NTASKS_PER_NODE": asked.tasks_per_node,
            "SLURM_CPUS_PER_TASK": asked.cpus_per_task,
            "SLURM_RESTART_COUNT": job.restarts or None,
        }
        if asked.gpus:
            values |= {"SLURM_JOB_GPUS": gpus, "SLURM_GPUS_ON_NODE": asked.gpus, "CUDA_VISIBLE_DEVICES": gpus}
        (home / "tmp").mkdir(exist_ok=True)
        known = {name: str(value) for name, value in values.items() if value is not None}
        return {**self._environment, **job.environment, **known}


def signal_group(pid: int, number: int) -> None:
    with contextlib.suppress(OSError):
        os.killpg(pid, number)


def find_bash() -> str:
    """The path of bash, which runs the job scripts.

    Raises:
        UsageError: there is none (plain Windows).
    """
    if os.name == "nt" or (bash := shutil.which("bash")) is None:
        raise failure("no-bash")
    return bash


def _open_log(path: str, *, append: bool) -> BinaryIO:
    """Open a job's log for appending, since slurmstepd and the script both write to it; empty it unless `append`."""
    if not append:
        open(path, "wb").close()  # noqa: PTH123  the path comes from the job as text
    return open(path, "ab")  # noqa: PTH123
