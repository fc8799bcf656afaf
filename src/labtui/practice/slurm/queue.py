"""squeue: the jobs as the controller sees them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from labtui.practice.slurm.call import Answer
from labtui.practice.slurm.controller import Controller
from labtui.practice.slurm.job import PENDING, SHORT, Job
from labtui.practice.slurm.options import OptionProblem, parse_words
from labtui.practice.slurm.site import VERSION
from labtui.practice.slurm.texts import short_duration, stamp

SQUEUE = {
    "me": ("", "no"),
    "user": ("u", "yes"),
    "noheader": ("h", "no"),
    "array": ("r", "no"),
    "states": ("t", "yes"),
    "format": ("o", "yes"),
    "jobs": ("j", "yes"),
    "name": ("n", "yes"),
    "qos": ("q", "yes"),
    "partition": ("p", "yes"),
    "account": ("A", "yes"),
    "start": ("", "no"),
    "long": ("l", "no"),
    "all": ("a", "no"),
    "sort": ("S", "yes"),
    "version": ("V", "no"),
    # Known to squeue, and without effect on a single small cluster.
    "local": ("", "no"),
    "clusters": ("M", "yes"),
    "federation": ("", "no"),
    "hide": ("", "no"),
    "noconvert": ("", "no"),
    "priority": ("", "no"),
    "sibling": ("", "no"),
    "verbose": ("v", "no"),
    "nodelist": ("w", "yes"),
    "reservation": ("R", "yes"),
}
DEFAULT_FORMAT = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
START_FORMAT = "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %20Y %R"

HEADINGS = {
    "i": "JOBID",
    "A": "JOBID",
    "F": "ARRAY_JOB_ID",
    "j": "NAME",
    "u": "USER",
    "a": "ACCOUNT",
    "P": "PARTITION",
    "q": "QOS",
    "T": "STATE",
    "t": "ST",
    "r": "REASON",
    "R": "NODELIST(REASON)",
    "S": "START_TIME",
    "V": "SUBMIT_TIME",
    "e": "END_TIME",
    "M": "TIME",
    "l": "TIME_LIMIT",
    "L": "TIME_LEFT",
    "b": "TRES_PER_NODE",
    "Z": "WORK_DIR",
    "o": "COMMAND",
    "N": "NODELIST",
    "B": "EXEC_HOST",
    "k": "COMMENT",
    "D": "NODES",
    "Q": "PRIORITY",
    "C": "CPUS",
    "K": "ARRAY_TASK_ID",
    "Y": "SCHEDNODES",
}


def squeue(words: list[str], environment: Mapping[str, str], control: Controller, now: float) -> Answer:
    """``squeue`` as Slurm 22.05 answers it for the student."""
    try:
        parsed = parse_words(words, "squeue", SQUEUE)
    except OptionProblem as problem:
        return 1, "", f"{problem}\n"
    options = parsed.options
    if "version" in options:
        return 0, f"slurm-wlm {VERSION}\n", ""
    if now < control.down_until:
        return 1, "", "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n"
    jobs = control.in_queue(now)
    if "jobs" in options:
        wanted = {int(part) for part in options["jobs"].split(",") if part.isdecimal()}
        jobs = [job for job in jobs if job.job_id in wanted]
        if len(wanted) == 1 and not jobs:
            return 1, "", "slurm_load_jobs error: Invalid job id specified\n"
    jobs = [job for job in jobs if _selected(job, options, environment)]
    form = (
        options.get("format")
        or environment.get("SQUEUE_FORMAT")
        or (START_FORMAT if "start" in options else DEFAULT_FORMAT)
    )
    lines = [] if "noheader" in options else [formatted(form, lambda code: HEADINGS.get(code, code))]
    for job in jobs:
        values = _squeue_values(job, environment, control, now)
        lines.append(formatted(form, lambda code, values=values: values.get(code, "")))  # type: ignore[misc]
    return 0, "".join(line + "\n" for line in lines), ""


def _selected(job: Job, options: Mapping[str, str], environment: Mapping[str, str]) -> bool:
    states = options.get("states") or environment.get("SQUEUE_STATES", "")
    if "start" in options:
        wanted = {PENDING}
    elif states.lower() == "all":
        wanted = None
    elif states:
        wanted = {part.strip().upper() for part in states.split(",")}
    else:
        wanted = {PENDING, "RUNNING", "COMPLETING", "SUSPENDED", "CONFIGURING"}
    if wanted is not None and job.state not in wanted and SHORT[job.state] not in wanted:
        return False
    checks = {
        "name": job.name,
        "qos": job.qos,
        "partition": job.partition,
        "account": job.account,
        "user": job.user,
    }
    return all(value in options[name].split(",") for name, value in checks.items() if name in options)


def _squeue_values(
    job: Job, environment: Mapping[str, str], control: Controller, now: float
) -> dict[str, str]:
    waiting = job.state == PENDING
    start = control.start_estimate(job, now) if waiting else job.start_time
    if waiting:
        end = None if start is None else start + job.time_limit_s
    else:
        end = job.end_time if job.finished else (job.start_time or now) + job.time_limit_s
    elapsed = job.elapsed_s(now)
    return {
        "i": str(job.job_id),
        "A": str(job.job_id),
        "F": str(job.job_id),
        "K": "N/A",
        "j": job.name,
        "u": job.user,
        "a": job.account,
        "P": job.partition,
        "q": job.qos,
        "T": job.state,
        "t": SHORT[job.state],
        "r": job.reason,
        "R": f"({job.reason})" if waiting or not job.node else job.node,
        "S": stamp(start, environment, "N/A"),
        "V": stamp(job.submit_time, environment, "N/A"),
        "e": stamp(end, environment, "N/A"),
        "M": short_duration(elapsed),
        "l": short_duration(job.time_limit_s),
        "L": short_duration(max(0, job.time_limit_s - elapsed)),
        "b": job.gres or "N/A",
        "Z": job.work_dir,
        "o": " ".join((job.command, *job.arguments)),
        "N": job.node,
        "B": job.node or "n/a",
        "k": job.comment or "(null)",
        "D": "1",
        "Q": str(job.priority),
        "C": str(job.cpus),
        "Y": "(null)",
        "p": f"{job.priority / 4294967295:.14f}",
    }


def formatted(form: str, value: Callable[[str], str]) -> str:
    """The form ``%[.][width]code``; everything else stands as it is."""

    def put(told: re.Match[str]) -> str:
        if told[3] == "%":
            return "%"
        text = value(told[3])
        if not told[2]:
            return text
        width = int(told[2])
        return text[:width].rjust(width) if told[1] else text[:width].ljust(width)

    return re.sub(r"%(\.?)(\d*)([%A-Za-z])", put, form)
