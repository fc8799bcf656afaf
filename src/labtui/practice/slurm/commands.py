"""sbatch and scancel, and the table of all commands: each takes a `Call` and gives (exit status, stdout, stderr)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from labtui.practice.slurm import options as sbatch_options
from labtui.practice.slurm.admin import sacctmgr, scontrol, sinfo, sshare
from labtui.practice.slurm.controller import Controller
from labtui.practice.slurm.job import NO_CONTROLLER, VERSION, Answer, Call, stamp
from labtui.practice.slurm.options import OptionProblem, Refused, build_request, check_script, parse_words
from labtui.practice.slurm.queue import sacct, squeue
from labtui.practice.slurm.steps import StepProblem, read_words


def answer(program: str, call: Call, control: Controller, now: float) -> Answer:
    """Run one of Slurm's commands."""
    if program == "squeue":
        return squeue(list(call.words), call.environment, control, now)
    if program == "sacct":
        return sacct(list(call.words), call.environment, control, now)
    return _COMMANDS[program](call, control, now)


# ---------------------------------------------------------------------------------- srun and sbatch


def srun(call: Call, control: Controller, now: float) -> Answer:
    """``srun`` where there is no job: the refusal that a job of its own would meet, or the rehearsal's own limit."""
    try:
        options, command = read_words(call.words)
        request = build_request(options, name=command[0], work_dir=call.folder, site=control.site)
        if now < control.down_until:
            raise Refused((), NO_CONTROLLER)
        with control.lock:
            control.check_limits(request)
    except StepProblem as problem:
        return problem.status, "", problem.text
    except Refused as refused:
        final = (f"Unable to allocate resources: {refused.final}",) if refused.final else ()
        return refused.status, "", "".join(f"srun: error: {line}\n" for line in (*refused.lines, *final))
    return (
        1,
        "",
        "srun: error: The practice cluster runs srun inside a job alone: write a script and sbatch it.\n",
    )


def sbatch(call: Call, control: Controller, now: float) -> Answer:
    """Read the script and the options, and put a job into the queue (or say whether it would be taken)."""
    try:
        parsed = parse_words(call.words)
        if "version" in parsed.options:
            return 0, f"slurm-wlm {VERSION}\n", ""
        script, name, command = _script(call, parsed)
        options = {
            **sbatch_options.parse_script(script.decode("utf-8", "replace")),
            **sbatch_options.from_environment(call.environment),
            **parsed.options,
        }
        request = build_request(options, name=name, work_dir=call.folder, site=control.site)
        if now < control.down_until:
            raise Refused((), NO_CONTROLLER)
        if "test-only" in options:
            with control.lock:
                control.check_limits(request)
            node = control.site.nodes_of(request.partition)[0].name
            when = stamp(now + 60, call.environment, "Unknown")
            number = max((job.job_id for job in control.accounting()), default=0) + 1
            return (
                0,
                "",
                (
                    f"sbatch: Job {number} to start at {when} using {request.cpus} processors on nodes {node} "
                    f"in partition {request.partition}\n"
                ),
            )
        environment = {} if options.get("export", "").upper() == "NONE" else call.environment
        arguments = tuple(parsed.rest[1:])
        job = control.submit(
            request, script=script, command=command, arguments=arguments, environment=environment, now=now
        )
    except OptionProblem as problem:
        return 255, "", f"{problem}\n"
    except Refused as refused:
        return (
            refused.status,
            "",
            _refusal(refused, test_only="test-only" in call.words or "--test-only" in call.words),
        )
    return 0, f"{job.job_id}\n" if "parsable" in options else f"Submitted batch job {job.job_id}\n", ""


def _script(call: Call, parsed: sbatch_options.Parsed) -> tuple[bytes, str, str]:
    """(script, default job name, command) from --wrap, the named file, or standard input."""
    if "wrap" in parsed.options:
        return (
            f"#!/bin/sh\n# This script was created by sbatch --wrap.\n\n{parsed.options['wrap']}\n".encode(),
            "wrap",
            "(null)",
        )
    if not parsed.rest:
        script, name, command = call.stdin, "sbatch", "(null)"
    else:
        path = Path(call.folder) / parsed.rest[0]
        name, command = path.name, str(path)
        try:
            script = path.read_bytes()
        except OSError:
            raise Refused((f"Unable to open file {parsed.rest[0]}",)) from None
    check_script(script)
    return script, name, command


def _refusal(refused: Refused, *, test_only: bool) -> str:
    lines = [f"sbatch: error: {line}" for line in refused.lines]
    if refused.final:
        lines.append(
            f"allocation failure: {refused.final}"
            if test_only
            else f"sbatch: error: Batch job submission failed: {refused.final}"
        )
    return "".join(line + "\n" for line in lines)


# ------------------------------------------------------------------------------------------- scancel

SCANCEL = {
    "me": ("", "no"),
    "user": ("u", "yes"),
    "name": ("n", "yes"),
    "jobname": ("", "yes"),
    "signal": ("s", "yes"),
    "state": ("t", "yes"),
    "verbose": ("v", "no"),
    "quiet": ("Q", "no"),
    "full": ("f", "no"),
    "batch": ("b", "no"),
    "version": ("V", "no"),
}


def scancel(call: Call, control: Controller, now: float) -> Answer:
    """Cancel jobs by id, by name, or all of the student's."""
    try:
        parsed = parse_words(call.words, "scancel", SCANCEL)
    except OptionProblem as problem:
        return 1, "", f"{problem}\n"
    options = parsed.options
    if "version" in options:
        return 0, f"slurm-wlm {VERSION}\n", ""
    if now < control.down_until:
        return 1, "", f"scancel: error: slurm_kill_job: {NO_CONTROLLER}\n"
    for word in parsed.rest:
        if not word.isdecimal():
            return 1, "", f"scancel: error: Invalid job id {word}\n"
    wanted = [int(word) for word in parsed.rest]
    name = options.get("name") or options.get("jobname")
    if not wanted and (name or "me" in options or "user" in options):
        living = [job for job in control.in_queue(now) if not job.finished]
        wanted = [job.job_id for job in living if name is None or job.name == name]
    lines = []
    for job_id in wanted:
        outcome = control.cancel(job_id, now)
        if "verbose" in options:
            lines.append(f"scancel: Terminating job {job_id}")
            if outcome != "ok":
                trouble = (
                    "Job/step already completing or completed"
                    if outcome == "finished"
                    else "Invalid job id specified"
                )
                lines.append(f"scancel: error: Kill job error on job id {job_id}: {trouble}")
    return 0, "", "".join(line + "\n" for line in lines)


_COMMANDS: dict[str, Callable[[Call, Controller, float], Answer]] = {
    "sbatch": sbatch,
    "scancel": scancel,
    "scontrol": scontrol,
    "sinfo": sinfo,
    "srun": srun,
    "sacctmgr": sacctmgr,
    "sshare": sshare,
}
PROGRAMS = ("squeue", "sacct", *_COMMANDS)
