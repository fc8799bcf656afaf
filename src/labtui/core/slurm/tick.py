"""The one remote command of a tick: the queue, and accounting for those jobs alone that left it.

A failed, cut or unreadable answer gives `jobs` None: "could not ask", which is never "finished".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from labtui.core.remote import CommandResult, RemoteCommand
from labtui.core.slurm.accounting import AccountingRow, accounting_command, parse_accounting
from labtui.core.slurm.queue import JobRow, parse_queue, queue_command
from labtui.core.slurm.shell import (
    LIMIT,
    NOT_FOUND,
    PINNED,
    TIMED_OUT,
    cut_sections,
    mark_function,
    section_status,
    trouble,
)

PROGRAM_LIMIT_S = 25
"""How long squeue and sacct may take each on the cluster (Slurm's own message timeout is 10 s)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """One look at the cluster.

    `jobs` None: the queue could not be asked, `problem` says why. `accounting` None: accounting was asked and
    could not answer (`accounting_problem`); an empty tuple when there was nothing to ask or it knows nothing
    yet. `server_time` is the cluster's clock in UNIX seconds, None when unknown.
    """

    jobs: tuple[JobRow, ...] | None
    accounting: tuple[AccountingRow, ...] | None = ()
    server_time: float | None = None
    problem: str = ""
    accounting_problem: str = ""


def tick_command(vanished: Sequence[str], nonce: str) -> RemoteCommand:
    """Ask the queue, and accounting for the ids in `vanished` (decimal job ids; others are left out)."""
    asked = [job_id for job_id in vanished if job_id.isascii() and job_id.isdecimal()]
    lines = [
        PINNED,
        LIMIT,
        mark_function(nonce),
        "mark now; date +%s",
        f"mark squeue; limit {PROGRAM_LIMIT_S} {queue_command(nonce)}",
        'mark "squeue-status $?"',
    ]
    if asked:
        lines += [
            f"mark sacct; limit {PROGRAM_LIMIT_S} {accounting_command(asked, nonce)}",
            'mark "sacct-status $?"',
        ]
    lines.append("mark done")
    return RemoteCommand("tick", "\n".join(lines), {"vanished": asked, "nonce": nonce})


def parse_tick(result: CommandResult, nonce: str, *, asked_accounting: bool) -> Tick:
    """Read the answer of `tick_command`."""
    out, err = cut_sections(result.out, nonce), cut_sections(result.err, nonce)
    now = out.get("now", "").strip()
    server_time = float(now) if now.isdecimal() else None
    problem = answer_problem("squeue", out, err, result)
    if problem:
        return Tick(jobs=None, accounting=None, server_time=server_time, problem=problem)
    jobs = parse_queue(out["squeue"], nonce)
    if not asked_accounting:
        return Tick(jobs=jobs, server_time=server_time)
    problem = answer_problem("sacct", out, err, result)
    if problem:
        return Tick(jobs=jobs, accounting=None, server_time=server_time, accounting_problem=problem)
    return Tick(jobs=jobs, accounting=parse_accounting(out["sacct"], nonce), server_time=server_time)


def answer_problem(program: str, out: dict[str, str], err: dict[str, str], result: CommandResult) -> str:
    """Why the section of `program` is no answer, as a sentence; empty when it is one."""
    status = section_status(out, f"{program}-status")
    said = trouble(err.get(program, ""))
    if program not in out or status is None:
        if result.timed_out:
            return f"{program} gave no answer in time."
        return f"{program} gave no complete answer."
    if status == TIMED_OUT:
        return f"{program} did not answer within {PROGRAM_LIMIT_S} s: Slurm's controller is busy or down."
    if status == NOT_FOUND:
        return f"There is no {program} on this host."
    if status != 0:
        return f"{program} failed: {said or f'exit status {status}'}"
    return f"{program} said: {said}" if said else ""
