"""Slurm's commands: what labtui sends, and plain `squeue`, `sacct`, `sinfo`; (exit status, stdout, stderr).

There is one student, so options that name a user select nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from labtui.domain.profile import Queue
from labtui.practice.slurm.controller import Controller
from labtui.practice.slurm.facts import FIELDS, HEADINGS, account_row, details, formatted, queue_row
from labtui.practice.slurm.job import Job
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
from labtui.practice.slurm.words import Program, parse_words
from labtui.practice.slurm.written import (
    KILL_WAIT_S,
    MESSAGE_TIMEOUT_S,
    MIN_JOB_AGE_S,
    NO_CONTROLLER,
    VERSION,
    Answer,
    Call,
    CommandError,
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
    try:
        parsed = parse_words([word for word in call.words if word != "--"], known)
    except CommandError as error:
        return error.status, "", error.text
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


def squeue(asked: Asked) -> Answer:
    """``squeue`` as Slurm 22.05 answers it for the student."""
    options, jobs = asked.options, asked.control.in_queue(asked.now)
    if options.get("sort") == "-i":
        jobs.sort(key=lambda job: -job.job_id)
    wanted = options.get("jobs", "")
    if wanted.isdecimal() and not any(str(job.job_id) == wanted for job in jobs):
        return _NO_SUCH_JOB
    form = options.get("format") or "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
    rows = [] if "noheader" in options else [HEADINGS]
    rows += [
        queue_row(job, asked.call.environment, asked.control, asked.now)
        for job in jobs
        if _chosen(job, options) and (not job.finished or options.get("states", "").lower() == "all")
    ]
    return _text(formatted(form, row) for row in rows)


_NO_SUCH_JOB = (1, "", "slurm_load_jobs error: Invalid job id specified\n")


def sacct(asked: Asked) -> Answer:
    """The jobs as accounting keeps them: between bars as labtui asks for them, else in columns."""
    options, control, now = asked.options, asked.control, asked.now
    if now < control.accounting_down_until:
        return 1, "", f"sacct: error: {_NO_DATABASE}\n"
    columns = options.get("format", "JobID,JobName,Partition,Account,AllocCPUS,State,ExitCode").split(",")
    names = [{field.lower(): field for field in FIELDS}.get(each.lower(), "") for each in columns]
    if "" in names:
        return 1, "", f'sacct: error: Invalid field requested: "{columns[names.index("")]}"\n'
    rows = [] if "noheader" in options else [dict(zip(FIELDS, FIELDS, strict=True))]
    rows += [
        account_row(job, asked.call.environment, control, now)
        for job in control.accounting()
        if _chosen(job, options)
    ]
    if "parsable" in options or "parsable2" in options:
        mark = options.get("delimiter", "|")
        tail = mark if "parsable" in options else ""
        return _text(mark.join(row[name] for name in names) + tail for row in rows)
    return _text(" ".join(f"{row[name]:<12.12}" for name in names) for row in rows)


_NO_DATABASE = "Problem talking to the database: Connection refused"


def scancel(asked: Asked) -> Answer:
    """Cancel jobs by id, with ``--state=PENDING`` only those that wait."""
    control, now = asked.control, asked.now
    for word in asked.rest:
        if not word.isdecimal():
            return 1, "", f"scancel: error: Invalid job id {word}\n"
        with contextlib.suppress(Refused):
            control.cancel(int(word), now, only_waiting="states" in asked.options)
    return 0, "", ""


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
    except CommandError as error:
        return error.status, "", error.text
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
        return _shown(what, names[0] if names else "", call, control, now)
    try:
        if verb in ("hold", "release"):
            control.hold(_job_id(what), verb == "hold", now)
            return 0, "", ""
        if verb == "update":
            return _update(words[1:], control, now)
    except Refused as refused:
        return 1, "", f"{refused.final} for job {what.rpartition('=')[2]}\n"
    return _bad_keyword(words)


def _job_id(text: str) -> int:
    return int(text) if text.isdecimal() else 0


def _bad_keyword(words: list[str]) -> Answer:
    return 1, "", f"invalid keyword: {' '.join(words)}\n"


def _shown(what: str, name: str, call: Call, control: Controller, now: float) -> Answer:
    if what == "job":
        jobs = [job for job in control.in_queue(now) if name in ("", str(job.job_id))]
        if name and not jobs:
            return _NO_SUCH_JOB
        text = "".join(details(job, call.environment, control, now) for job in jobs)
        return 0, text or "No jobs in the system\n", ""
    if what == "config":
        return 0, _config(stamp(now, call.environment, "")), ""
    if what == "partition":
        return _text(_partition(control.site, each) for each in control.site.partitions)
    if what == "hostnames":
        return _text(expanded(name or call.environment.get("SLURM_JOB_NODELIST", "")))
    return _bad_keyword(["show", what, name])


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
    """On one line, whether ``--oneliner`` is given or not."""
    nodes = site.nodes_of(name)
    default = "YES" if name == site.partitions[-1] else "NO"
    return (
        f"PartitionName={name} AllowAccounts=ALL AllowQos=ALL Default={default} MaxNodes=UNLIMITED "
        f"MaxTime={duration(MAX_PARTITION_S)} State=UP TotalCPUs={sum(node.cpus for node in nodes)} "
        f"TotalNodes={len(nodes)}"
    )


def _update(words: list[str], control: Controller, now: float) -> Answer:
    """Supports a job's time limit only: what labtui changes."""
    given = {name.lower(): value for name, _, value in (word.partition("=") for word in words)}
    if list(given) != ["jobid", "timelimit"]:
        return 1, "", f"Update of this parameter is not supported: {' '.join(words)}\nRequest aborted\n"
    limit_s = minutes_s(given["timelimit"])
    if limit_s is None:
        return 1, "", "scontrol: error: Invalid TimeLimit value\n"
    control.limit(_job_id(given["jobid"]), limit_s, now)
    return 0, "", ""


# -------------------------------------------------------------------------------------- sinfo, sacctmgr

_SINFO_HEADINGS = {
    "P": "PARTITION", "R": "PARTITION", "a": "AVAIL", "l": "TIMELIMIT", "D": "NODES", "t": "STATE", "N": "NODELIST",
    "c": "CPUS", "m": "MEMORY", "G": "GRES", "z": "S:C:T",
}  # fmt: skip


def sinfo(asked: Asked) -> Answer:
    """A line for each node; MareNostrum 5 refuses this to students, other clusters do not."""
    options, rows = asked.options, _node_rows(asked.control, asked.now)
    if "noheader" not in options:
        rows.insert(0, _SINFO_HEADINGS)
    form = options.get("format", "%9P %.5a %.10l %.6D %.6t %N")
    return _text(formatted(form, row).rstrip() for row in rows)


def _node_rows(control: Controller, now: float) -> list[dict[str, str]]:
    """What there is to say of each node, by `sinfo`'s letters."""
    used = {name for job in control.in_queue(now) if not job.finished for name in job.all_nodes}
    rows = []
    for node in sorted(control.site.nodes, key=lambda node: node.partition):
        default = "*" * (node.partition == control.site.partitions[-1])
        rows.append(
            {
                "P": node.partition + default,
                "R": node.partition,
                "t": "mix" if node.name in used else "idle",
                "a": "up",
                "D": "1",
                "N": node.name,
                "l": duration(MAX_PARTITION_S),
                "c": str(node.cpus),
                "m": "20000",
                "z": f"{node.cpus}:1:1",
                "G": node.gres,
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
        Program.of("scancel", "t=states= V=version"),
        scancel,
        "scancel: error: slurm_kill_job",
    ),
    "sinfo": (
        Program.of("sinfo", "h=noheader o=format= N=Node e=exact V=version"),
        sinfo,
        "slurm_load_partitions",
    ),
    "sacctmgr": (Program.of("sacctmgr", "n=noheader P=parsable2 r=readonly V=version"), sacctmgr, ""),
}
_IN_ORDER = {"sbatch": sbatch, "scontrol": scontrol}
PROGRAMS = (*_COMMANDS, *_IN_ORDER)
