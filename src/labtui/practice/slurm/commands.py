"""sbatch, scancel, scontrol, sinfo, sacctmgr, sshare: each takes its words and gives (exit status, stdout, stderr).

`Call` is what a command line program knows: its words, where it stands, its environment, its standard input.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from labtui.practice.slurm import options as sbatch_options
from labtui.practice.slurm.controller import Controller
from labtui.practice.slurm.job import PENDING, Job
from labtui.practice.slurm.options import OptionProblem, parse_words
from labtui.practice.slurm.queue import Answer, formatted, sacct, squeue
from labtui.practice.slurm.request import Refused, build_request, check_script
from labtui.practice.slurm.site import CLUSTER, KILL_WAIT_S, MESSAGE_TIMEOUT_S, MIN_JOB_AGE_S, VERSION, Node
from labtui.practice.slurm.texts import long_duration, stamp

NO_CONTROLLER = "Unable to contact slurm controller (connect failure)"


@dataclass(frozen=True, slots=True)
class Call:
    """One run of a Slurm command on the practice cluster."""

    words: tuple[str, ...]
    folder: str
    environment: Mapping[str, str]
    stdin: bytes = b""


def answer(program: str, call: Call, control: Controller, now: float) -> Answer:
    """Run one of Slurm's commands."""
    if program == "squeue":
        return squeue(list(call.words), call.environment, control, now)
    if program == "sacct":
        return sacct(list(call.words), call.environment, control, now)
    return _COMMANDS[program](call, control, now)


# -------------------------------------------------------------------------------------------- sbatch


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
    said = []
    for job_id in wanted:
        outcome = control.cancel(job_id, now)
        if "verbose" in options:
            said.append(f"scancel: Terminating job {job_id}")
            if outcome != "ok":
                trouble = (
                    "Job/step already completing or completed"
                    if outcome == "finished"
                    else "Invalid job id specified"
                )
                said.append(f"scancel: error: Kill job error on job id {job_id}: {trouble}")
    return 0, "", "".join(line + "\n" for line in said)


# ------------------------------------------------------------------------------------------ scontrol


def scontrol(call: Call, control: Controller, now: float) -> Answer:
    """``show job|config|partition|node``, ``hold``, ``release``, ``--version``."""
    words = [word for word in call.words if word not in ("-o", "--oneliner", "-d", "--details")]
    if words[:1] in (["--version"], ["-V"]):
        return 0, f"slurm-wlm {VERSION}\n", ""
    if now < control.down_until:
        return 1, "", f"slurm_load_jobs error: {NO_CONTROLLER}\n"
    if words[:2] == ["show", "job"]:
        return _show_job(words[2:], call.environment, control, now)
    if words[:2] == ["show", "config"]:
        return 0, _config(call.environment, now), ""
    if words[:1] == ["show"] and len(words) > 1 and words[1].startswith("partition"):
        return 0, _partitions(control), ""
    if words[:1] == ["show"] and len(words) > 1 and words[1].startswith("node"):
        return (
            0,
            "".join(_node_text(node) for node in control.site.nodes if words[2:3] in ([], [node.name])),
            "",
        )
    if words[:1] in (["hold"], ["release"]) and len(words) > 1:
        return _hold(words, control, now)
    return 1, "", f"invalid keyword: {' '.join(words) or ''}\n"


def _hold(words: list[str], control: Controller, now: float) -> Answer:
    job_id = int(words[1]) if words[1].isdecimal() else 0
    outcome = control.hold(job_id, words[0] == "hold", now)
    if outcome == "ok":
        return 0, "", ""
    text = "Job has already finished" if outcome == "finished" else "Invalid job id specified"
    return 1, "", f"{text} for job {words[1]}\nslurm_suspend error: {text}\n"


def _show_job(words: list[str], environment: Mapping[str, str], control: Controller, now: float) -> Answer:
    jobs = control.in_queue(now)
    if words:
        jobs = [job for job in jobs if words[0] == str(job.job_id)]
    if not jobs:
        return (
            (1, "", "slurm_load_jobs error: Invalid job id specified\n")
            if words
            else (0, "No jobs in the system\n", "")
        )
    return 0, "".join(_job_text(job, environment, control, now) for job in jobs), ""


def _job_text(job: Job, environment: Mapping[str, str], control: Controller, now: float) -> str:
    waiting = job.state == PENDING
    start = control.start_estimate(job, now) if waiting else job.start_time
    end = job.end_time if job.finished else None if start is None else start + job.time_limit_s
    tres = f"cpu={job.cpus},mem=20000M,node=1,billing={job.cpus}" + (
        f",gres/gpu={job.gpus}" if job.gpus else ""
    )

    def when(moment: float | None, unknown: str = "Unknown") -> str:
        return stamp(moment, environment, unknown)

    lines = [
        f"JobId={job.job_id} JobName={job.name}",
        f"UserId={job.user}(1000) GroupId={job.account}(1000) MCS_label=N/A",
        f"Priority={job.priority} Nice=0 Account={job.account} QOS={job.qos}",
        f"JobState={job.state} Reason={job.reason} Dependency=(null)",
        f"Requeue={int(job.requeue)} Restarts={job.restarts} BatchFlag=1 Reboot=0 ExitCode={job.exit_code}",
        f"RunTime={long_duration(job.elapsed_s(now))} TimeLimit={long_duration(job.time_limit_s)} TimeMin=N/A",
        f"SubmitTime={when(job.submit_time)} EligibleTime={when(job.submit_time)}",
        f"AccrueTime={when(job.submit_time)}",
        f"StartTime={when(start)} EndTime={when(end)} Deadline=N/A",
        f"SuspendTime=None SecsPreSuspend=0 LastSchedEval={when(job.submit_time)} Scheduler=Main",
        f"Partition={job.partition} AllocNode:Sid=localhost:1",
        "ReqNodeList=(null) ExcNodeList=(null)",
        f"NodeList={job.node}",
        *([f"BatchHost={job.node}"] if job.node else []),
        f"NumNodes=1 NumCPUs={job.cpus} NumTasks=1 CPUs/Task={job.cpus} ReqB:S:C:T=0:0:*:*",
        f"TRES={tres}",
        "Socks/Node=* NtasksPerN:B:S:C=0:0:*:* CoreSpec=*",
        f"MinCPUsNode={job.cpus} MinMemoryNode=0 MinTmpDiskNode=0",
        "Features=(null) DelayBoot=00:00:00",
        "OverSubscribe=OK Contiguous=0 Licenses=(null) Network=(null)",
        f"Command={' '.join((job.command, *job.arguments))}",
        f"WorkDir={job.work_dir}",
        *([f"Comment={job.comment} "] if job.comment else []),
        f"StdErr={job.stderr}",
        "StdIn=/dev/null",
        f"StdOut={job.stdout}",
        "Power=",
        *([f"TresPerNode={job.gres}"] if job.gres else []),
    ]
    return "\n   ".join(lines) + "\n   \n\n"


def _config(environment: Mapping[str, str], now: float) -> str:
    values = {
        "ClusterName": CLUSTER,
        "KillWait": f"{KILL_WAIT_S} sec",
        "MessageTimeout": f"{MESSAGE_TIMEOUT_S} sec",
        "MinJobAge": f"{MIN_JOB_AGE_S} sec",
        "SLURM_VERSION": VERSION,
    }
    return f"Configuration data as of {stamp(now, environment, '')}\n" + "".join(
        f"{name:<23} = {value}\n" for name, value in values.items()
    )


def _partitions(control: Controller) -> str:
    blocks = []
    for name in control.site.partitions:
        nodes = control.site.nodes_of(name)
        default = "YES" if name == control.site.default_partition else "NO"
        blocks.append(
            f"PartitionName={name}\n   AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL\n"
            f"   AllocNodes=ALL Default={default} QoS=N/A\n"
            f"   MaxNodes=UNLIMITED MaxTime=3-00:00:00 MinNodes=0\n   Nodes={','.join(node.name for node in nodes)}\n"
            f"   State=UP TotalCPUs={sum(node.cpus for node in nodes)} TotalNodes={len(nodes)}\n\n"
        )
    return "".join(blocks)


# -------------------------------------------------------------------------------- sinfo, sacctmgr ...


SINFO = {
    "noheader": ("h", "no"),
    "format": ("o", "yes"),
    "partition": ("p", "yes"),
    "Node": ("N", "no"),
    "long": ("l", "no"),
    "summarize": ("s", "no"),
    "version": ("V", "no"),
}
SINFO_HEADINGS = {
    "P": "PARTITION", "R": "PARTITION", "a": "AVAIL", "l": "TIMELIMIT", "D": "NODES", "t": "STATE", "T": "STATE",
    "N": "NODELIST", "c": "CPUS", "G": "GRES",
}  # fmt: skip


def sinfo(call: Call, control: Controller, now: float) -> Answer:
    """Partitions and nodes. (MareNostrum 5 refuses this to students; the practice cluster is smaller than that.)"""
    try:
        options = parse_words(call.words, "sinfo", SINFO).options
    except OptionProblem as problem:
        return 1, "", f"{problem}\n"
    if "version" in options:
        return 0, f"slurm-wlm {VERSION}\n", ""
    if now < control.down_until:
        return 1, "", f"slurm_load_partitions: {NO_CONTROLLER}\n"
    form = options.get("format") or (
        "%N %.6D %.9P %t" if "Node" in options else "%9P %.5a %.10l %.6D %.6t %N"
    )
    busy = {job.node for job in control.in_queue(now) if not job.finished}
    rows = []
    for partition in control.site.partitions:
        if options.get("partition", partition) != partition:
            continue
        for node in control.site.nodes_of(partition):
            mark = "*" if partition == control.site.default_partition else ""
            state = "mix" if node.name in busy else "idle"
            rows.append(
                {
                    "P": partition + mark,
                    "R": partition,
                    "a": "up",
                    "l": long_duration(control.site.max_partition_s),
                    "D": "1",
                    "t": state,
                    "T": state,
                    "N": node.name,
                    "c": str(node.cpus),
                    "G": f"gpu:hopper:{node.gpus}" if node.gpus else "(null)",
                }  # fmt: skip
            )
    lines = [] if "noheader" in options else [formatted(form, lambda code: SINFO_HEADINGS.get(code, code))]
    lines += [formatted(form, lambda code, row=row: row.get(code, "")) for row in rows]  # type: ignore[misc]
    return 0, "".join(line.rstrip() + "\n" for line in lines), ""


def _node_text(node: Node) -> str:
    gres = f"gpu:hopper:{node.gpus}" if node.gpus else "(null)"
    return (
        f"NodeName={node.name} Arch=x86_64 CoresPerSocket=1 \n"
        f"   CPUAlloc=0 CPUEfctv={node.cpus} CPUTot={node.cpus} CPULoad=0.00\n"
        f"   AvailableFeatures=(null)\n   ActiveFeatures=(null)\n   Gres={gres}\n"
        f"   NodeAddr=127.0.0.1 NodeHostName={node.name} Version={VERSION}\n   RealMemory=20000\n"
        f"   State=IDLE ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A\n   "
        f"Partitions={node.partition} \n\n"
    )


def sacctmgr(call: Call, control: Controller, now: float) -> Answer:
    """``show qos`` and ``show assoc`` in the parsable form, and in a table."""
    words = [word for word in call.words if not word.startswith("-")]
    flags = [word for word in call.words if word.startswith("-")]
    letters = {letter for word in flags if not word.startswith("--") for letter in word[1:]}
    plain = "P" in letters or "--parsable2" in flags
    barred = "p" in letters or "--parsable" in flags
    if now < control.accounting_down_until:
        return 1, "", "sacctmgr: error: Problem talking to the database: Connection refused\n"
    if words[:1] != ["show"] or len(words) < 2:
        return 1, "", f"sacctmgr: error: invalid keyword: {' '.join(words)}\n"
    site = control.site
    if words[1].startswith("qos"):
        default = "Name,Priority,Flags,MaxWall,MaxJobsPU,MaxSubmitPU"
        rows = [
            {
                "name": qos.name,
                "priority": str(qos.priority),
                "flags": "DenyOnLimit",
                "maxwall": long_duration(qos.max_wall_s),
                "maxjobspu": "" if qos.max_running is None else str(qos.max_running),
                "maxsubmitpu": "" if qos.max_submit is None else str(qos.max_submit),
                "maxtrespu": "",
            }
            for qos in site.qos
        ]
    else:
        default = "Cluster,Account,User,QOS,DefaultQOS"
        granted = ",".join(sorted(qos.name for qos in site.qos))
        rows = [
            {
                "cluster": CLUSTER,
                "account": site.account,
                "user": site.user,
                "partition": "",
                "qos": granted,
                "defaultqos": "gp_debug",
                "maxjobs": "",
                "maxsubmit": "",
            }
        ]
    asked = next(
        (word.partition("=")[2] for word in words if word.lower().startswith("format=")), default
    ).split(",")
    names = [name.partition("%")[0] for name in asked]
    lines = [[row.get(name.lower(), "") for name in names] for row in rows]
    if "n" not in letters and "--noheader" not in flags:
        lines.insert(0, names)
    if plain or barred:
        tail = "" if plain else "|"
        return 0, "".join("|".join(line) + tail + "\n" for line in lines), ""
    return 0, "".join(" ".join(f"{text[:20]:>20}" for text in line) + " \n" for line in lines), ""


def sshare(_call: Call, control: Controller, _now: float) -> Answer:
    """The student's share; nothing is used up in practice."""
    site = control.site
    return 0, (
        f"{'Account':<20} {'User':>10}  {'RawShares':>9}\n{'-' * 20} {'-' * 10} {'-' * 10}\n"
        f"{site.account:<20} {site.user:>10} {1:>10}\n"
    ), ""  # fmt: skip


_COMMANDS: dict[str, Callable[[Call, Controller, float], Answer]] = {
    "sbatch": sbatch,
    "scancel": scancel,
    "scontrol": scontrol,
    "sinfo": sinfo,
    "sacctmgr": sacctmgr,
    "sshare": sshare,
}
PROGRAMS = ("squeue", "sacct", *_COMMANDS)
