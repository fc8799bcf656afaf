"""Slurm's commands: what labtui sends, and plain `squeue`, `sacct`, `sinfo`; (exit status, stdout, stderr).

There is one student, so options that name a user select nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from labtui.domain.profile import Queue
from labtui.practice.slurm.controller import Controller
from labtui.practice.slurm.facts import SACCT, SQUEUE, columns, details, facts, formatted
from labtui.practice.slurm.job import PENDING, Job
from labtui.practice.slurm.request import (
    CLUSTER,
    MAX_PARTITION_S,
    Refused,
    Site,
    all_options,
    build_request,
    minutes_s,
    priority_of,
    sent_script,
)
from labtui.practice.slurm.words import OptionProblem, Program, parse_words
from labtui.practice.slurm.written import (
    KILL_WAIT_S,
    MESSAGE_TIMEOUT_S,
    MIN_JOB_AGE_S,
    NO_CONTROLLER,
    VERSION,
    Answer,
    Call,
    duration,
    expanded,
    stamp,
)


@dataclass(frozen=True, slots=True)
class Asked:
    """A call whose options are read, and whom it asks."""

    call: Call
    control: Controller
    now: float
    options: Mapping[str, str]
    rest: list[str]


def answer(program: str, call: Call, control: Controller, now: float) -> Answer:
    """Run one of Slurm's commands."""
    if program in _IN_ORDER:  # their words have an order
        return _IN_ORDER[program](call, control, now)
    known, run, down = _COMMANDS[program]
    words = [word for word in call.words if word != "--"]
    try:
        parsed = parse_words(words, known)
    except OptionProblem as problem:
        return 1, "", f"{problem}\n"
    if "version" in parsed.options:
        return _VERSION
    if now < control.down_until and down:
        return 1, "", f"{down}: {NO_CONTROLLER}\n"
    return run(Asked(call, control, now, parsed.options, parsed.rest))


_VERSION = (0, f"slurm-wlm {VERSION}\n", "")


def _text(lines: Iterable[str]) -> Answer:
    return 0, "".join(f"{line}\n" for line in lines), ""


def _chosen(job: Job, options: Mapping[str, str]) -> bool:
    """Whether a job is one of those that the options name."""
    names = {"jobs": str(job.job_id), "name": job.request.name}
    return all(text in options[option].split(",") for option, text in names.items() if option in options)


# ------------------------------------------------------------------------------- squeue, sacct, scancel

_LIVING = {PENDING, "RUNNING", "COMPLETING"}


def squeue(asked: Asked) -> Answer:
    """``squeue`` as Slurm 22.05 answers it for the student."""
    options, jobs = asked.options, asked.control.in_queue(asked.now)
    if options.get("sort") == "-i":
        jobs.sort(key=lambda job: -job.job_id)
    wanted = options.get("jobs", "")
    if wanted.isdecimal() and not any(str(job.job_id) == wanted for job in jobs):
        return 1, "", "slurm_load_jobs error: Invalid job id specified\n"
    form = options.get("format") or "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
    heading = {letter: title for letter, (title, _) in SQUEUE.items()}
    rows = [] if "noheader" in options else [heading]
    for job in jobs:
        if _chosen(job, options) and (job.state in _LIVING or options.get("states", "").lower() == "all"):
            known = facts(job, asked.call.environment, asked.control, asked.now)
            rows.append({letter: known[fact] for letter, (_, fact) in SQUEUE.items()})
    return _text(formatted(form, row) for row in rows)


_SACCT_WIDTHS = {"JobID": -12, "ExitCode": 8, "Start": 19, "End": 19, "Submit": 19}
_SINCE = {"m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def sacct(asked: Asked) -> Answer:
    """The jobs as accounting keeps them."""
    options, control, now = asked.options, asked.control, asked.now
    if now < control.accounting_down_until:
        return 1, "", f"sacct: error: {_NO_DATABASE}\n"
    names = []
    for column in options.get("format", "JobID,JobName,Partition,Account,AllocCPUS,State,ExitCode").split(
        ","
    ):
        name, _, width = column.strip().partition("%")
        known = next((field for field in SACCT if field.lower() == name.lower()), None)
        if known is None:
            return 1, "", f'sacct: error: Invalid field requested: "{name}"\n'
        names.append((known, int(width) if re.fullmatch(r"-?\d+", width) else _SACCT_WIDTHS.get(known, 10)))
    match = re.fullmatch(r"now-(\d+)([mhdw])\w*", options.get("starttime", ""))
    since = now - int(match[1]) * _SINCE[match[2]] if match else 0.0
    rows = [] if "noheader" in options else [{name: name for name in SACCT}]
    for job in control.accounting():
        if (job.end_time or now) < since or not _chosen(job, options):
            continue
        told = facts(job, asked.call.environment, control, now)
        rows.append({field: told[fact] for field, fact in SACCT.items()})
    if "parsable" in options or "parsable2" in options:
        mark = options.get("delimiter", "|")
        tail = mark if "parsable" in options else ""
        return _text(mark.join(row[name] for name, _ in names) + tail for row in rows)
    return 0, columns(rows, names, rule="noheader" not in options), ""


_NO_DATABASE = "Problem talking to the database: Connection refused"


def scancel(asked: Asked) -> Answer:
    """Cancel jobs by id, with ``--state=PENDING`` only those that wait."""
    control, now = asked.control, asked.now
    lines = []
    for word in asked.rest:
        if not word.isdecimal():
            return 1, "", f"scancel: error: Invalid job id {word}\n"
        job = control.find(int(word), now)
        if "states" in asked.options and (job is None or job.state != PENDING):
            continue
        problem = control.cancel(int(word), now)
        if "verbose" in asked.options and problem:
            trouble = problem.replace("Job has already finished", "Job/step already completing or completed")
            lines.append(f"scancel: error: Kill job error on job id {word}: {trouble}\n")
    return 0, "", "".join(lines)


# ------------------------------------------------------------------------------------------------ sbatch


def sbatch(call: Call, control: Controller, now: float) -> Answer:
    """Read the script and the options, and put a job into the queue (or say whether it would be taken)."""
    test_only = "--test-only" in call.words
    try:
        parsed = parse_words(call.words)
        if "version" in parsed.options:
            return _VERSION
        script, name, command = sent_script(call, parsed)
        options = all_options(script, parsed)
        request = build_request(options, name=name, work_dir=call.folder, site=control.site)
        if now < control.down_until:
            raise Refused(final=NO_CONTROLLER)
        if test_only:
            with control.lock:
                control.check_limits(request)
            node, when = (
                control.site.nodes_of(request.partition)[0].name,
                stamp(now + 60, call.environment, ""),
            )
            number = control.next_id
            where = f"{request.cpus} processors on nodes {node} in partition {request.partition}"
            return 0, "", f"sbatch: Job {number} to start at {when} using {where}\n"
        environment = {} if options.get("export", "").upper() == "NONE" else call.environment
        job = control.submit(
            request, script=script, command=command, arguments=tuple(parsed.rest[1:]), environment=environment, now=now
        )  # fmt: skip
    except OptionProblem as problem:
        return 255, "", f"{problem}\n"
    except Refused as refused:
        return refused.status, "", refused.text(test_only=test_only)
    return 0, f"{job.job_id}\n" if "parsable" in options else f"Submitted batch job {job.job_id}\n", ""


# ---------------------------------------------------------------------------------------------- scontrol


def scontrol(call: Call, control: Controller, now: float) -> Answer:
    """``show job|config|partition|hostnames``, ``hold``, ``release``, ``update JobId= TimeLimit=``."""
    words = [word for word in call.words if word not in ("-o", "--oneliner")]
    if words[:1] == ["--version"]:
        return _VERSION
    if now < control.down_until:
        return 1, "", f"slurm_load_jobs error: {NO_CONTROLLER}\n"
    verb, what, *names = [*words, "", ""][: max(2, len(words))]
    if verb == "show":
        blocks = _shown(what, names, call, control, now)
        if isinstance(blocks, str) and len(words) < len(call.words):
            blocks = re.sub(r"\n +", " ", blocks).replace("\n\n", "\n")
        return (0, blocks, "") if isinstance(blocks, str) else blocks
    if verb in ("hold", "release"):
        text = control.hold(int(what) if what.isdecimal() else 0, verb == "hold", now)
        return (1, "", f"{text} for job {what}\nslurm_suspend error: {text}\n") if text else (0, "", "")
    if verb == "update":
        return _update(words[1:], control, now)
    return _bad_keyword(words)


def _bad_keyword(words: list[str]) -> Answer:
    return 1, "", f"invalid keyword: {' '.join(words)}\n"


def _shown(what: str, names: list[str], call: Call, control: Controller, now: float) -> str | Answer:
    site = control.site
    if what == "job":
        jobs = [job for job in control.in_queue(now) if not names or names[0] == str(job.job_id)]
        if not jobs and names:
            return 1, "", "slurm_load_jobs error: Invalid job id specified\n"
        return (
            "".join(details(job, call.environment, control, now) for job in jobs) or "No jobs in the system\n"
        )
    if what == "config":
        return _config(stamp(now, call.environment, ""))
    if what.startswith("partition"):
        return "".join(_partition(site, name) for name in site.partitions if not names or name == names[0])
    if what.startswith("hostname"):
        text = names[0] if names else call.environment.get("SLURM_JOB_NODELIST", "")
        return "".join(f"{name}\n" for name in expanded(text))
    return _bad_keyword(["show", what, *names])


def _config(now: str) -> str:
    values = {
        "AccountingStorageEnforce": "associations,limits,qos",
        "ClusterName": CLUSTER,
        "KillWait": f"{KILL_WAIT_S} sec",
        "MessageTimeout": f"{MESSAGE_TIMEOUT_S} sec",
        "MinJobAge": f"{MIN_JOB_AGE_S} sec",
        "SLURM_VERSION": VERSION,
    }
    lines = (f"{name:<23} = {value}\n" for name, value in values.items())
    return f"Configuration data as of {now}\n" + "".join(lines)


def _partition(site: Site, name: str) -> str:
    nodes = site.nodes_of(name)
    default = "YES" if name == site.partitions[-1] else "NO"
    return (
        f"PartitionName={name}\n   AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL\n   Default={default} QoS=N/A\n"
        f"   MaxNodes=UNLIMITED MaxTime={duration(MAX_PARTITION_S)} MinNodes=0\n"
        f"   Nodes={','.join(node.name for node in nodes)}\n"
        f"   State=UP TotalCPUs={sum(node.cpus for node in nodes)} TotalNodes={len(nodes)}\n\n"
    )


def _update(words: list[str], control: Controller, now: float) -> Answer:
    """Supports a job's time limit only: what labtui changes."""
    given = {name.lower(): value for name, _, value in (word.partition("=") for word in words)}
    if given.keys() != {"jobid", "timelimit"}:
        return 1, "", f"Update of this parameter is not supported: {' '.join(words)}\nRequest aborted\n"
    limit_s = minutes_s(given["timelimit"])
    if limit_s is None:
        return 1, "", "scontrol: error: Invalid TimeLimit value\n"
    job = given["jobid"]
    problem = control.limit(int(job) if job.isdecimal() else 0, limit_s, now)
    return (1, "", f"{problem} for job {job}\n") if problem else (0, "", "")


# ------------------------------------------------------------------------------ sinfo, sacctmgr, sshare

_SINFO_HEADINGS = {
    "P": "PARTITION", "R": "PARTITION", "a": "AVAIL", "l": "TIMELIMIT", "D": "NODES", "t": "STATE", "N": "NODELIST",
    "c": "CPUS", "m": "MEMORY", "G": "GRES", "z": "S:C:T",
}  # fmt: skip
_SINFO_FIELDS = {"NodeHost": "N", "Partition": "P", "StateComplete": "T", "Gres": "G", "GresUsed": "used"}


def sinfo(asked: Asked) -> Answer:
    """A line for each node; MareNostrum 5 refuses this to students, other clusters do not."""
    options, rows = asked.options, _node_rows(asked.control, asked.now)
    if "Format" in options:
        fields = [word.partition(":")[::2] for word in options["Format"].split(",")]
        return _text("".join(row[_SINFO_FIELDS[name]] + tail for name, tail in fields) for row in rows)
    if "noheader" not in options:
        rows.insert(0, _SINFO_HEADINGS)
    form = options.get("format", "%9P %.5a %.10l %.6D %.6t %N")
    return _text(formatted(form, row).rstrip() for row in rows)


def _node_rows(control: Controller, now: float) -> list[dict[str, str]]:
    """What there is to say of each node, by `sinfo`'s letters; "used" are its GPUs in use."""
    living = [job for job in control.in_queue(now) if job.all_nodes and not job.finished]
    rows = []
    for node in sorted(control.site.nodes, key=lambda node: node.partition):
        here = [job for job in living if node.name in job.all_nodes]
        used = sum(job.request.gpus for job in here)
        numbers = f"0-{used - 1}" if used else "N/A"
        default = "*" * (node.partition == control.site.partitions[-1])
        rows.append(
            {
                "P": node.partition + default,
                "R": node.partition,
                "t": "mix" if here else "idle",
                "T": "mixed" if here else "idle",
                "a": "up",
                "D": "1",
                "N": node.name,
                "l": duration(MAX_PARTITION_S),
                "c": str(node.cpus),
                "m": "20000",
                "z": f"{node.cpus}:1:1",
                "G": node.gres,
                "used": f"gpu:hopper:{used}(IDX:{numbers})" if node.gpus else "gpu:0",
            }
        )
    return rows


def sacctmgr(asked: Asked) -> Answer:
    """``show qos``, ``show assoc`` and ``show user`` with ``--parsable2`` and a format."""
    site, words = asked.control.site, asked.rest
    if asked.now < asked.control.accounting_down_until:
        return 1, "", f"sacctmgr: error: {_NO_DATABASE}\n"
    named = [word.partition("=")[2] for word in words if word.lower().startswith("format=")]
    if words[:1] != ["show"] or len(words) < 2 or not named:
        return 1, "", f"sacctmgr: error: invalid keyword: {' '.join(words)}\n"
    if words[1] == "qos":
        return _table(asked, named[0], [_qos_row(queue) for queue in site.profile.queues])
    granted = ",".join(sorted(queue.name for queue in site.profile.queues))
    row = {"cluster": CLUSTER, "account": site.account, "user": site.user, "qos": granted,
           "defaultqos": "gp_debug", "defaultaccount": site.account}  # fmt: skip
    return _table(asked, named[0], [row])


def _qos_row(queue: Queue) -> dict[str, str]:
    limits = {"maxjobspu": queue.max_running_per_user, "maxsubmitpu": queue.max_submit_per_user}
    return {
        "name": queue.name,
        "priority": str(priority_of(queue)),
        "flags": "DenyOnLimit",
        "maxwall": duration(60 * (queue.max_minutes or 0)),
        **{name: "" if limit is None else str(limit) for name, limit in limits.items()},
    }


def sshare(asked: Asked) -> Answer:
    """The student's share; nothing is used up in practice."""
    site = asked.control.site
    row = {"account": site.account, "user": site.user, "fairshare": "1.000000"}
    return _table(asked, asked.options.get("format", "Account,User,FairShare"), [row])


def _table(asked: Asked, columns: str, rows: list[dict[str, str]]) -> Answer:
    """Fields between bars; `rows` are by the small names of the columns."""
    names = [name.partition("%")[0] for name in columns.split(",")]
    lines = [[row.get(name.lower(), "") for name in names] for row in rows]
    return _text("|".join(line) for line in ([] if "noheader" in asked.options else [names]) + lines)


_COMMANDS: dict[str, tuple[Program, Callable[[Asked], Answer], str]] = {
    "squeue": (
        Program.of(
            "squeue",
            "u=user= -=me h=noheader t=states= o=format= j=jobs= n=name= a=all S=sort= -=local V=version",
        ),
        squeue,
        "slurm_load_jobs error",
    ),
    "sacct": (
        Program.of(
            "sacct",
            "X=allocations n=noheader p=parsable P=parsable2 -=delimiter= o=format= j=jobs= S=starttime= -=name= "
            "u=user= V=version",
        ),
        sacct,
        "",
    ),
    "scancel": (
        Program.of("scancel", "t=states= v=verbose V=version"),
        scancel,
        "scancel: error: slurm_kill_job",
    ),
    "sinfo": (
        Program.of("sinfo", "h=noheader o=format= O=Format= N=Node e=exact V=version"),
        sinfo,
        "slurm_load_partitions",
    ),
    "sacctmgr": (Program.of("sacctmgr", "n=noheader P=parsable2 r=readonly V=version"), sacctmgr, ""),
    "sshare": (Program.of("sshare", "U=users h=noheader P=parsable2 o=format= V=version"), sshare, ""),
}
_IN_ORDER = {"sbatch": sbatch, "scontrol": scontrol}
PROGRAMS = (*_COMMANDS, *_IN_ORDER)
