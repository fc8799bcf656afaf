"""What squeue, sacct and scontrol say of a job, under one set of names; each command has its own names for them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from labtui.practice.slurm.controller import Controller
from labtui.practice.slurm.job import PENDING, SHORT, Job
from labtui.practice.slurm.request import CLUSTER
from labtui.practice.slurm.written import duration, stamp

SQUEUE = {
    "A": ("JOBID", "id"), "C": ("CPUS", "cpus"), "D": ("NODES", "nodes"), "F": ("ARRAY_JOB_ID", "id"),
    "M": ("TIME", "used_short"),
    "L": ("TIME_LEFT", "left_short"), "N": ("NODELIST", "node_list"), "P": ("PARTITION", "partition"),
    "Q": ("PRIORITY", "priority"), "R": ("NODELIST(REASON)", "where_or_why"), "S": ("START_TIME", "start_or_na"),
    "T": ("STATE", "state"), "V": ("SUBMIT_TIME", "submit"), "Z": ("WORK_DIR", "work_dir"), "a": ("ACCOUNT", "account"),
    "b": ("TRES_PER_NODE", "gres"), "e": ("END_TIME", "planned_end"), "i": ("JOBID", "id"), "j": ("NAME", "name"),
    "k": ("COMMENT", "comment_or_null"), "l": ("TIME_LIMIT", "limit_short"), "o": ("COMMAND", "command"),
    "q": ("QOS", "qos"), "r": ("REASON", "reason"), "t": ("ST", "short"), "u": ("USER", "user"),
}  # fmt: skip
"""By squeue's letter: the heading, and the fact."""
SACCT = {
    "Account": "account", "AllocCPUS": "allocated_cpus", "AllocTRES": "allocated", "Cluster": "cluster",
    "Comment": "comment", "Elapsed": "used", "ElapsedRaw": "used_s", "End": "end", "ExitCode": "exit_code",
    "JobID": "id", "JobIDRaw": "id", "JobName": "name", "NNodes": "nodes",
    "NodeList": "node_list_or_none", "Partition": "partition", "QOS": "qos", "ReqMem": "memory",
    "ReqTRES": "requested", "Start": "start", "State": "state_by_whom", "Submit": "submit",
    "Timelimit": "limit", "TimelimitRaw": "limit_minutes", "User": "user", "WorkDir": "work_dir",
}  # fmt: skip
"""By sacct's field."""
MEMORY = "20000M"


def facts(job: Job, environment: Mapping[str, str], control: Controller, now: float) -> dict[str, str]:
    """Everything as text; times as the caller's environment wants them."""
    asked, waiting, used_s = job.request, job.state == PENDING, job.elapsed_s(now)
    start = control.start_estimate(job, now) if waiting else job.start_time
    planned = job.end_time if job.finished else None if start is None else start + asked.time_limit_s
    tres = f"cpu={asked.cpus},mem={MEMORY},node={asked.nodes},billing={asked.cpus}"
    tres += f",gres/gpu={asked.gpus * asked.nodes}" if asked.gpus else ""

    def when(moment: float | None, unknown: str = "Unknown") -> str:
        return stamp(moment, environment, unknown)

    return {
        "id": str(job.job_id),
        "name": asked.name,
        "user": control.site.user,
        "account": asked.account,
        "cluster": CLUSTER,
        "partition": asked.partition,
        "qos": asked.queue.name,
        "state": job.state,
        "short": SHORT[job.state],
        "state_by_whom": "CANCELLED by 1000" if job.state == "CANCELLED" and job.cancelled else job.state,
        "reason": job.reason,
        "where_or_why": f"({job.reason})" if waiting or not job.node else job.node_list,
        "node_list": job.node_list,
        "node_list_or_none": job.node_list or "None assigned",
        "nodes": str(asked.nodes),
        "cpus": str(asked.cpus),
        "allocated_cpus": str(asked.cpus if job.node or (job.start_time is None and job.finished) else 0),
        "allocated": tres if job.node else "",
        "requested": tres,
        "memory": MEMORY,
        "gres": asked.gres or "N/A",
        "priority": str(job.priority),
        "submit": when(job.submit_time),
        "start": when(job.start_time),
        "start_planned": when(start),
        "start_or_na": when(start, "N/A"),
        "end": when(job.end_time if job.finished else None),
        "planned_end": when(planned, "N/A"),
        "used": duration(used_s),
        "used_s": str(used_s),
        "used_short": duration(used_s, hours=False),
        "left_short": duration(max(0, asked.time_limit_s - used_s), hours=False),
        "limit": duration(asked.time_limit_s),
        "limit_minutes": str(asked.time_limit_s // 60),
        "limit_short": duration(asked.time_limit_s, hours=False),
        "exit_code": job.exit_code,
        "comment": asked.comment,
        "comment_or_null": asked.comment or "(null)",
        "work_dir": asked.work_dir,
        "command": " ".join((job.command, *job.arguments)),
    }


def details(job: Job, environment: Mapping[str, str], control: Controller, now: float) -> str:
    """A job's paragraph of ``scontrol show job``."""
    known = facts(job, environment, control, now)
    lines = (
        "JobId={id} JobName={name}",
        "UserId={user}(1000) GroupId={account}(1000) MCS_label=N/A",
        "Priority={priority} Nice=0 Account={account} QOS={qos}",
        "JobState={state} Reason={reason} Dependency=(null)",
        f"Requeue={job.request.requeue:d} Restarts={job.restarts} BatchFlag=1 Reboot=0 ExitCode={{exit_code}}",
        "RunTime={used} TimeLimit={limit} TimeMin=N/A",
        "SubmitTime={submit} EligibleTime={submit}",
        "StartTime={start_planned} EndTime={planned_end} Deadline=N/A",
        "Partition={partition} AllocNode:Sid=localhost:1",
        "NodeList={node_list}",
        f"NumNodes={{nodes}} NumCPUs={{cpus}} NumTasks={job.places} CPUs/Task={job.request.cpus_per_task or 1}",
        "TRES={requested}",
        "Command={command}",
        "WorkDir={work_dir}",
        *(["Comment={comment} "] if job.request.comment else []),
        f"StdErr={_braced(job.stderr)}",
        "StdIn=/dev/null",
        f"StdOut={_braced(job.stdout)}",
        *([f"TresPerNode={job.request.gres}"] if job.request.gres else []),
    )
    return "\n   ".join(line.format_map(known) for line in lines) + "\n   \n\n"


def _braced(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def formatted(form: str, values: Mapping[str, str]) -> str:
    """The form ``%[.][width]code`` of squeue and sinfo; everything else stands as it is."""

    def put(match: re.Match[str]) -> str:
        text = "%" if match[3] == "%" else values.get(match[3], "")
        if not match[2]:
            return text
        width = int(match[2])
        return text[:width].rjust(width) if match[1] else text[:width].ljust(width)

    return re.sub(r"%(\.?)(\d*)([%A-Za-z])", put, form)


def columns(rows: list[dict[str, str]], names: list[tuple[str, int]], *, rule: bool) -> str:
    """The table of sacct: cells cut to their widths (negative: to the left), a rule below the heading."""

    def cell(text: str, width: int) -> str:
        text = text if len(text) <= abs(width) else text[: abs(width) - 1] + "+"
        return text.ljust(-width) if width < 0 else text.rjust(width)

    lines = [" ".join(cell(row[name], width) for name, width in names) + " \n" for row in rows]
    if rule:
        lines.insert(1, " ".join("-" * abs(width) for _, width in names) + " \n")
    return "".join(lines)
