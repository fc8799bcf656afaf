"""squeue and sacct: the jobs as the controller and as accounting see them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from labtui.practice.slurm.controller import Controller
from labtui.practice.slurm.job import (
    CLUSTER,
    PENDING,
    SHORT,
    VERSION,
    Answer,
    Job,
    long_duration,
    short_duration,
    stamp,
)
from labtui.practice.slurm.options import OptionProblem, parse_words

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
        "R": f"({job.reason})" if waiting or not job.node else job.node_list,
        "S": stamp(start, environment, "N/A"),
        "V": stamp(job.submit_time, environment, "N/A"),
        "e": stamp(end, environment, "N/A"),
        "M": short_duration(elapsed),
        "l": short_duration(job.time_limit_s),
        "L": short_duration(max(0, job.time_limit_s - elapsed)),
        "b": job.gres or "N/A",
        "Z": job.work_dir,
        "o": " ".join((job.command, *job.arguments)),
        "N": job.node_list,
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

    def put(match: re.Match[str]) -> str:
        if match[3] == "%":
            return "%"
        text = value(match[3])
        if not match[2]:
            return text
        width = int(match[2])
        return text[:width].rjust(width) if match[1] else text[:width].ljust(width)

    return re.sub(r"%(\.?)(\d*)([%A-Za-z])", put, form)


SACCT = {
    "allocations": ("X", "no"),
    "allusers": ("a", "no"),
    "noheader": ("n", "no"),
    "parsable": ("p", "no"),
    "parsable2": ("P", "no"),
    "delimiter": ("", "yes"),
    "format": ("o", "yes"),
    "jobs": ("j", "yes"),
    "starttime": ("S", "yes"),
    "endtime": ("E", "yes"),
    "state": ("s", "yes"),
    "name": ("", "yes"),
    "user": ("u", "yes"),
    "noconvert": ("", "no"),
    "units": ("", "yes"),
    "duplicates": ("D", "no"),
    "helpformat": ("e", "no"),
    "version": ("V", "no"),
    "account": ("A", "yes"),
    # Known to sacct, and without effect on a single small cluster.
    "local": ("L", "no"),
    "clusters": ("M", "yes"),
    "federation": ("", "no"),
    "allclusters": ("", "no"),
    "partition": ("r", "yes"),
    "qos": ("q", "yes"),
    "truncate": ("T", "no"),
    "verbose": ("v", "no"),
}
DEFAULT_FIELDS = "JobID,JobName,Partition,Account,AllocCPUS,State,ExitCode"
FIELDS = (
    "Account",
    "AllocCPUS",
    "AllocNodes",
    "AllocTRES",
    "Cluster",
    "Comment",
    "CPUTimeRAW",
    "DerivedExitCode",
    "Elapsed",
    "ElapsedRaw",
    "Eligible",
    "End",
    "ExitCode",
    "JobID",
    "JobIDRaw",
    "JobName",
    "MaxRSS",
    "NCPUS",
    "NNodes",
    "NodeList",
    "NTasks",
    "Partition",
    "Planned",
    "Priority",
    "QOS",
    "Reason",
    "ReqCPUS",
    "ReqMem",
    "ReqTRES",
    "Start",
    "State",
    "Submit",
    "SubmitLine",
    "Timelimit",
    "TimelimitRaw",
    "TotalCPU",
    "User",
    "WorkDir",
)


def sacct(words: list[str], environment: Mapping[str, str], control: Controller, now: float) -> Answer:
    """``sacct`` as Slurm 22.05 answers it for the student."""
    try:
        parsed = parse_words(words, "sacct", SACCT)
    except OptionProblem as problem:
        return 1, "", f"{problem}\n"
    options = parsed.options
    if "version" in options:
        return 0, f"slurm-wlm {VERSION}\n", ""
    if "helpformat" in options:
        return (
            0,
            "".join(f"{name:<20}" + ("\n" if number % 4 == 3 else "") for number, name in enumerate(FIELDS))
            + "\n",
            "",
        )
    if now < control.accounting_down_until:
        return (
            1,
            "",
            (
                "sacct: error: slurm_persist_conn_open_without_init: failed to open persistent "
                "connection to host:localhost:6819: Connection refused\n"
                "sacct: error: Sending PersistInit msg: Connection refused\n"
                "sacct: error: Problem talking to the database: Connection refused\n"
            ),
        )
    names = []
    for column in (options.get("format") or environment.get("SACCT_FORMAT") or DEFAULT_FIELDS).split(","):
        name, _, width = column.partition("%")
        known = next((field for field in FIELDS if field.lower() == name.strip().lower()), None)
        if known is None:
            return 1, "", f'sacct: error: Invalid field requested: "{name}"\n'
        names.append((known, width))
    rows = [
        row
        for job in _accounted(control, options, now)
        for row in _sacct_rows(job, options, environment, now)
    ]
    return 0, _sacct_text(names, rows, options), ""


def _accounted(control: Controller, options: Mapping[str, str], now: float) -> list[Job]:
    jobs = control.accounting()
    if "jobs" in options:
        wanted = {part.split(".")[0] for part in options["jobs"].split(",")}
        jobs = [job for job in jobs if str(job.job_id) in wanted]
    if "name" in options:
        jobs = [job for job in jobs if job.name in options["name"].split(",")]
    if "user" in options:
        jobs = [job for job in jobs if job.user in options["user"].split(",")]
    if "state" in options:
        states = {part.strip().upper() for part in options["state"].split(",")}
        jobs = [job for job in jobs if job.state in states or SHORT[job.state] in states]
    since = _since(options.get("starttime", ""), now)
    return [job for job in jobs if since is None or (job.end_time or now) >= since]


def _since(text: str, now: float) -> float | None:
    match = re.fullmatch(r"now-(\d+)(minutes?|hours?|days?|weeks?)", text)
    if not match:
        return None
    unit = {"m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}[match[2][0]]
    return now - int(match[1]) * unit


def _sacct_rows(
    job: Job, options: Mapping[str, str], environment: Mapping[str, str], now: float
) -> list[dict[str, str]]:
    """A job's row and, unless only allocations are wanted, that of its batch step."""
    row = _request_row(job) | _run_row(job, environment, now) | dict.fromkeys(_NOT_GATHERED, "")
    if "allocations" in options or not job.node:
        return [row]
    step = {**dict.fromkeys(_OF_THE_JOB, ""), "JobName": "batch", "NTasks": "1", "State": job.state}
    number = f"{job.job_id}.batch"
    return [row, {**row, **step, "JobID": number, "JobIDRaw": number}]


_NOT_GATHERED = ("MaxRSS", "TotalCPU", "NTasks", "SubmitLine")
"""What a rehearsal uses says nothing of a training: as on a cluster that does not gather it."""
_OF_THE_JOB = ("Partition", "QOS", "User", "Timelimit", "TimelimitRaw", "Comment")
"""What a step's row leaves to that of its job."""


def _tres(job: Job) -> str:
    return f"billing={job.cpus},cpu={job.cpus}" + (f",gres/gpu={job.gpus}" if job.gpus else "")


def _request_row(job: Job) -> dict[str, str]:
    """What was asked for."""
    return {
        "Account": job.account,
        "Cluster": CLUSTER,
        "Comment": job.comment,
        "JobID": str(job.job_id),
        "JobIDRaw": str(job.job_id),
        "JobName": job.name,
        "NCPUS": str(job.cpus),
        "ReqMem": "20000M",
        "NNodes": "1",
        "Partition": job.partition,
        "Priority": str(job.priority),
        "QOS": job.qos,
        "ReqCPUS": str(job.cpus),
        "ReqTRES": f"{_tres(job)},mem=20000M,node={job.nodes}",
        "WorkDir": job.work_dir,
        "Timelimit": long_duration(job.time_limit_s),
        "TimelimitRaw": str(job.time_limit_s // 60),
        "User": job.user,
    }


def _run_row(job: Job, environment: Mapping[str, str], now: float) -> dict[str, str]:
    """What became of it."""
    elapsed = job.elapsed_s(now)
    state = "CANCELLED by 1000" if job.state == "CANCELLED" and job.cancelled_by else job.state
    return {
        "AllocCPUS": str(job.cpus if job.node or (job.start_time is None and job.finished) else 0),
        "AllocNodes": str(job.nodes) if job.node else "0",
        "AllocTRES": f"{_tres(job)},node={job.nodes}" if job.node else "",
        "CPUTimeRAW": str(elapsed * job.cpus),
        "DerivedExitCode": "0:0",
        "Elapsed": long_duration(elapsed),
        "ElapsedRaw": str(elapsed),
        "Eligible": stamp(job.submit_time, environment, "Unknown"),
        "End": stamp(job.end_time if job.finished else None, environment, "Unknown"),
        "ExitCode": job.exit_code,
        "NodeList": job.node_list or "None assigned",
        "Planned": long_duration(int((job.start_time or now) - job.submit_time)),
        "Reason": "None",
        "Start": stamp(job.start_time, environment, "Unknown"),
        "State": state,
        "Submit": stamp(job.submit_time, environment, "Unknown"),
    }


def _sacct_text(names: list[tuple[str, str]], rows: list[dict[str, str]], options: Mapping[str, str]) -> str:
    heading = {name: name for name, _ in names}
    lines = rows if "noheader" in options else [heading, *rows]
    if "parsable" in options or "parsable2" in options:
        mark = options.get("delimiter", "|")
        tail = mark if "parsable" in options else ""
        return "".join(mark.join(row[name] for name, _ in names) + tail + "\n" for row in lines)

    def cell(row: dict[str, str], name: str, width: str) -> str:
        count = (
            int(width)
            if width.lstrip("-").isdecimal()
            else {"JobID": -12, "ExitCode": 8, "Timelimit": 10}.get(name, 10)
        )
        if "start" in name.lower() or name in ("End", "Submit", "Eligible"):
            count = 19
        text = row[name]
        if len(text) > abs(count):
            text = text[: abs(count) - 1] + "+"
        return text.ljust(-count) if count < 0 else text.rjust(count)

    out = []
    for number, row in enumerate(lines):
        out.append(" ".join(cell(row, name, width) for name, width in names) + " \n")
        if number == 0 and "noheader" not in options:
            rule = {name: "-" * 40 for name, _ in names}
            out.append(" ".join("-" * len(cell(rule, name, width)) for name, width in names) + " \n")
    return "".join(out)
