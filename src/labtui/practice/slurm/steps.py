"""srun's options: the step they describe inside a job, or srun's refusal. Pure.

As Slurm 22.05: ``-c`` of the job is not inherited.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from labtui.practice.slurm.words import SRUN, parse_words
from labtui.practice.slurm.written import CommandError, expanded, ranges


@dataclass(frozen=True, slots=True)
class JobStep:
    """A step that fits the allocation. `cpus_per_task` is None unless requested."""

    command: tuple[str, ...]
    tasks: int
    cpus_per_task: int | None
    options: Mapping[str, str]
    nodes: tuple[str, ...]

    def place(self, task: int) -> tuple[int, str, int]:
        """Of a task: its node's number and name, and its own number there."""
        each = -(-self.tasks // len(self.nodes))
        number = task // each
        return number, self.nodes[number], task % each


def plan_step(words: Sequence[str], environment: Mapping[str, str]) -> JobStep:
    """The step inside the job that `environment` describes. Raises CommandError."""
    options, command = read_words(words)
    job = environment.get("SLURM_JOB_ID", "")
    requested_cpus = _number(options, environment, "cpus-per-task", "SRUN_CPUS_PER_TASK")
    allocated = int(environment.get("SLURM_JOB_NUM_NODES", "1"))
    nodes = _number(options, environment, "nodes", "") or allocated
    if nodes > allocated:
        raise CommandError(f"srun: error: Only allocated {allocated} nodes asked for {nodes}\n")
    tasks = _tasks(options, environment, nodes)
    available = int(environment.get("SLURM_CPUS_ON_NODE", "1")) * nodes
    if tasks * (requested_cpus or 1) > available and "overcommit" not in options:
        raise CommandError(
            f"srun: error: Unable to create step for job {job}: More processors requested than permitted\n"
        )
    names = expanded(environment.get("SLURM_JOB_NODELIST", "")) or ["localhost"]
    return JobStep(
        command=command,
        tasks=tasks,
        cpus_per_task=requested_cpus,
        options=options,
        nodes=tuple(names[:nodes]),
    )


def read_words(words: Sequence[str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Srun's options by their long names, and the command. Raises CommandError."""
    parsed = parse_words(words, SRUN)
    if not parsed.rest and "version" not in parsed.options:
        raise CommandError("srun: fatal: No command given to execute.\n")
    return parsed.options, tuple(parsed.rest)


def _number(
    options: Mapping[str, str], environment: Mapping[str, str], name: str, variable: str
) -> int | None:
    text = options.get(name, environment.get(variable))
    if text is None:
        return None
    if not re.fullmatch(r"\d+", text) or int(text) < 1:
        raise CommandError(f'srun: error: Invalid numeric value "{text}" for --{name}.\n')
    return int(text)


def _tasks(options: Mapping[str, str], environment: Mapping[str, str], nodes: int) -> int:
    tasks = _number(options, environment, "ntasks", "SLURM_NTASKS")
    on_each = _number(options, environment, "ntasks-per-node", "SLURM_NTASKS_PER_NODE")
    return nodes * (on_each or 1) if tasks is None else tasks


def task_ranges(numbers: Sequence[int]) -> str:
    """``task 3`` or ``tasks 0-1,3``, as srun names those that ended alike."""
    return f"task{'s' if len(numbers) > 1 else ''} {ranges(numbers)}"
