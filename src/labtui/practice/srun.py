"""`srun` inside a practice job: runs a step's tasks as processes and reports their ends as srun does.

Run with `python -I`. Tasks stay in the job's process group, so that they end with the job. A step does not wait for
the CPUs of another one. As in Slurm 22.05, ``-c`` of the job is not inherited.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from labtui.practice import command_line


class JobStep(msgspec.Struct, frozen=True):
    """A step that fits into the allocation. `cpus_per_task` is None unless requested."""

    command: tuple[str, ...]
    tasks: int
    cpus_per_task: int | None
    options: Mapping[str, str]
    nodes: tuple[str, ...]

    def place(self, task: int) -> tuple[int, str, int]:
        """A task's node number, node name, and local number on that node."""
        each = -(-self.tasks // len(self.nodes))
        number = task // each
        return number, self.nodes[number], task % each


def plan_step(argv: Sequence[str], environment: Mapping[str, str]) -> JobStep:
    """The step inside the job that `environment` describes. Raises CommandError."""
    options, command = command_line.parse_argv(argv, command_line.SRUN)
    if not command:
        raise command_line.CommandError("srun: fatal: No command given to execute.\n")
    job = environment.get("SLURM_JOB_ID", "")
    requested_cpus = _number(options, environment, "cpus-per-task", "SRUN_CPUS_PER_TASK")
    allocated = int(environment.get("SLURM_JOB_NUM_NODES", "1"))
    nodes = _number(options, environment, "nodes", "") or allocated
    if nodes > allocated:
        raise command_line.CommandError(f"srun: error: Only allocated {allocated} nodes asked for {nodes}\n")
    tasks = _number(options, environment, "ntasks", "SLURM_NTASKS")
    tasks_per_node = _number(options, environment, "ntasks-per-node", "SLURM_NTASKS_PER_NODE")
    tasks = nodes * (tasks_per_node or 1) if tasks is None else tasks
    available = int(environment.get("SLURM_CPUS_ON_NODE", "1")) * nodes
    if tasks * (requested_cpus or 1) > available and "overcommit" not in options:
        why = f"Unable to create step for job {job}: More processors requested than permitted"
        raise command_line.CommandError(f"srun: error: {why}\n")
    names = command_line.expand_nodes(environment.get("SLURM_JOB_NODELIST", "")) or ["localhost"]
    return JobStep(tuple(command), tasks, requested_cpus, options, tuple(names[:nodes]))


def _number(
    options: Mapping[str, str], environment: Mapping[str, str], name: str, variable: str
) -> int | None:
    text = options.get(name, environment.get(variable))
    return None if text is None else command_line.positive_number(text, name, command_line.SRUN)


FORCED = (signal.SIGKILL, signal.SIGTERM)
"""Signals after which srun reports that the step was terminated."""


def say(line: str) -> None:
    """Write a line of srun or slurmstepd to standard error; unbuffered, as a signal handler may call this meanwhile."""
    with contextlib.suppress(OSError):
        os.write(2, f"{line}\n".encode())


def run_step(step: JobStep, number: int) -> int:
    """Run all tasks, say how they ended, and return srun's exit status, the highest of theirs."""
    program = step.command[0]
    found = os.path.join(os.getcwd(), program) if "/" in program else shutil.which(program) or program
    processes: dict[int, subprocess.Popen[bytes]] = {}
    ends: dict[int, int] = {}
    with contextlib.ExitStack() as files:
        named = {name: path for name, path in step.options.items() if name in ("output", "error")}
        outputs = {name: files.enter_context(Path(named[name]).open("wb", buffering=0)) for name in named}
        for task in range(step.tasks):
            try:
                processes[task] = subprocess.Popen(
                    step.command,
                    executable=found,
                    cwd=step.options.get("chdir"),
                    env=_environment(step, number, task),
                    stdin=subprocess.DEVNULL,
                    stdout=outputs.get("output"),
                    stderr=outputs.get("error"),
                )
            except OSError as trouble:
                say(f"slurmstepd-{step.place(task)[1]}: error: execve(): {found}: {trouble.strerror}")
                ends[task] = trouble.errno or 1
    alike: dict[tuple[str, int], list[int]] = {}
    for task in range(step.tasks):
        if task in processes:
            ends[task] = processes[task].wait()
        alike.setdefault((step.place(task)[1], ends[task]), []).append(task)
    for (node, status), tasks in alike.items():
        if status:
            how = f"Exited with exit code {status}" if status > 0 else signal.strsignal(-status)
            which = f"task{'s' if len(tasks) > 1 else ''} {command_line.compress_numbers(tasks)}"
            say(f"srun: error: {node}: {which}: {how}")
    if any(-status in FORCED for status in ends.values()):
        say(f"srun: Force Terminated StepId={os.environ['SLURM_JOB_ID']}.{number}")
    return max(128 - status if status < 0 else status for status in ends.values())


def _environment(step: JobStep, number: int, task: int) -> dict[str, str]:
    tasks, nodes = str(step.tasks), len(step.nodes)
    node, name, local = step.place(task)
    tasks_per_node = str(-(-step.tasks // nodes)) + (f"(x{nodes})" if nodes > 1 else "")
    values = {
        "SLURM_NODEID": str(node),
        "SLURMD_NODENAME": name,
        "SLURM_PROCID": str(task),
        "SLURM_LOCALID": str(local),
        **dict.fromkeys(("SLURM_NTASKS", "SLURM_NPROCS", "SLURM_STEP_NUM_TASKS"), tasks),
        **dict.fromkeys(("SLURM_TASKS_PER_NODE", "SLURM_STEP_TASKS_PER_NODE"), tasks_per_node),
        "SLURM_STEP_NUM_NODES": str(nodes),
        "SLURM_STEP_NODELIST": command_line.compress_nodes(step.nodes),
        "SLURM_STEP_ID": str(number),
    }
    if step.cpus_per_task:
        values["SLURM_CPUS_PER_TASK"] = str(step.cpus_per_task)
    return command_line.select_environment(step.options.get("export", ""), os.environ) | values


def step_number(folder: Path) -> int:
    """Claim the number of a new step of the job, counted from 0."""
    number = 0
    while True:
        try:
            (folder / f"step.{number}").touch(exist_ok=False)
            return number
        except FileExistsError:
            number += 1


def run(argv: list[str]) -> int:
    """Run srun with these arguments; return the exit status. Raises CommandError."""
    if "SLURM_JOB_ID" not in os.environ:
        limit = "The practice cluster runs srun only inside a job: write a script and submit it with sbatch."
        raise command_line.CommandError(f"srun: error: {limit}\n")
    step = plan_step(argv, os.environ)
    # When the job is ended, the tasks get the same signal as this process.
    aborted = f"srun: Job step aborted: Waiting up to {command_line.KILL_WAIT_S + 2} seconds for job step to finish."
    signal.signal(signal.SIGTERM, lambda *_: say(aborted))
    return run_step(step, step_number(Path(os.environ["LABTUI_PRACTICE_JOB"])))


if __name__ == "__main__":
    try:
        status = run(sys.argv[1:])
    except command_line.CommandError as problem:
        os.write(2, problem.text.encode())
        status = problem.status
    os._exit(status)
