"""Slurm's commands, squeue and sacct aside: each takes a `Call` and gives (exit status, stdout, stderr)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from labtui.practice.slurm import options as sbatch_options
from labtui.practice.slurm.controller import Controller
from labtui.practice.slurm.job import (
    CLUSTER,
    KILL_WAIT_S,
    MESSAGE_TIMEOUT_S,
    MIN_JOB_AGE_S,
    NO_CONTROLLER,
    PENDING,
    VERSION,
    Answer,
    Call,
    Job,
    Node,
    expanded,
    long_duration,
    stamp,
    time_limit,
)
from labtui.practice.slurm.options import OptionProblem, Refused, build_request, parse_words, read_script
from labtui.practice.slurm.queue import formatted, sacct, squeue
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
        "srun: error: The practice cluster runs srun only inside a job: write a script and submit it with sbatch.\n",
    )


def sbatch(call: Call, control: Controller, now: float) -> Answer:
    """Read the script and the options, and put a job into the queue (or say whether it would be taken)."""
    try:
        parsed = parse_words(call.words)
        if "version" in parsed.options:
            return 0, f"slurm-wlm {VERSION}\n", ""
        script, name, command = read_script(call, parsed)
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
        test_only = "test-only" in call.words or "--test-only" in call.words
        return refused.status, "", refused.text(test_only=test_only)
    return 0, f"{job.job_id}\n" if "parsable" in options else f"Submitted batch job {job.job_id}\n", ""


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


# ------------------------------------------------------------------------------------------ scontrol


def scontrol(call: Call, control: Controller, now: float) -> Answer:
    """``show job|config|partition|node``, ``hold``, ``release``, ``update JobId= TimeLimit=``, ``--version``."""
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
    if words[:1] == ["show"] and len(words) > 1 and words[1].startswith("hostname"):
        names = words[2] if len(words) > 2 else call.environment.get("SLURM_JOB_NODELIST", "")
        return 0, "".join(f"{name}\n" for name in expanded(names)), ""
    if words[:1] == ["show"] and len(words) > 1 and words[1].startswith("node"):
        return (
            0,
            "".join(_node_text(node) for node in control.site.nodes if words[2:3] in ([], [node.name])),
            "",
        )
    if words[:1] in (["hold"], ["release"]) and len(words) > 1:
        return _hold(words, control, now)
    if words[:1] == ["update"]:
        return _update(words[1:], control, now)
    return 1, "", f"invalid keyword: {' '.join(words) or ''}\n"


def _update(words: list[str], control: Controller, now: float) -> Answer:
    """Supports a job's time limit only: what labtui changes."""
    if not words:
        return 1, "", "too few arguments for update keyword\n"
    given = {name.lower(): (name, value) for name, _, value in (word.partition("=") for word in words)}
    unknown = next((pair for key, pair in given.items() if key not in ("jobid", "timelimit")), None)
    if unknown is not None:
        pair = "=".join(unknown)
        return 1, "", f"Update of this parameter is not supported: {pair}\nRequest aborted\n"
    if "jobid" not in given:
        entities = '"NodeName", "PartitionName", "Reservation", "JobId", or "SlurmctldDebug"'
        return 1, "", f"No valid entity in update command\nInput line must include {entities}\n"
    job = given["jobid"][1]
    limit_s = time_limit(given.get("timelimit", ("", "-"))[1])
    if limit_s is None:
        return 1, "", "scontrol: error: Invalid TimeLimit value\n"
    problem = control.limit(int(job) if job.isdecimal() else 0, limit_s, now)
    return (1, "", f"{problem} for job {job}\n") if problem else (0, "", "")


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
    tres = f"cpu={job.cpus},mem=20000M,node={job.nodes},billing={job.cpus}" + (
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
        f"NodeList={job.node_list}",
        *([f"BatchHost={job.node}"] if job.node else []),
        f"NumNodes=1 NumCPUs={job.cpus} NumTasks={job.places} CPUs/Task={job.cpus_per_task or 1} ReqB:S:C:T=0:0:*:*",
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
    "Format": ("O", "yes"),
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
SINFO_FIELDS = {"nodehost": "N", "partition": "P", "statecomplete": "T", "gres": "G", "gresused": "used"}


def sinfo(call: Call, control: Controller, now: float) -> Answer:
    """Partitions and nodes; MareNostrum 5 refuses this to students, other clusters do not."""
    try:
        options = parse_words(call.words, "sinfo", SINFO).options
    except OptionProblem as problem:
        return 1, "", f"{problem}\n"
    if "version" in options:
        return 0, f"slurm-wlm {VERSION}\n", ""
    if now < control.down_until:
        return 1, "", f"slurm_load_partitions: {NO_CONTROLLER}\n"
    if "Format" in options:
        return _sinfo_fields(options["Format"], _node_rows(control, now))
    form = options.get("format") or (
        "%N %.6D %.9P %t" if "Node" in options else "%9P %.5a %.10l %.6D %.6t %N"
    )
    rows = [row for row in _node_rows(control, now) if options.get("partition", row["R"]) == row["R"]]
    lines = [] if "noheader" in options else [formatted(form, lambda code: SINFO_HEADINGS.get(code, code))]
    lines += [formatted(form, lambda code, row=row: row.get(code, "")) for row in rows]  # type: ignore[misc]
    return 0, "".join(line.rstrip() + "\n" for line in lines), ""


def _node_rows(control: Controller, now: float) -> list[dict[str, str]]:
    """What there is to say of each node of each partition, by `sinfo`'s letters; "used" are its GPUs in use."""
    living = [job for job in control.in_queue(now) if job.node and not job.finished]
    rows = []
    for partition in control.site.partitions:
        for node in control.site.nodes_of(partition):
            mark = "*" if partition == control.site.default_partition else ""
            here = [job for job in living if node.name in job.all_nodes]
            used = sum(job.gpus for job in here)
            rows.append(
                {
                    "P": partition + mark,
                    "R": partition,
                    "a": "up",
                    "l": long_duration(control.site.max_partition_s),
                    "D": "1",
                    "t": "mix" if here else "idle",
                    "T": "mixed" if here else "idle",
                    "N": node.name,
                    "c": str(node.cpus),
                    "G": f"gpu:hopper:{node.gpus}" if node.gpus else "(null)",
                    "used": f"gpu:hopper:{used}(IDX:{f'0-{used - 1}' if used else 'N/A'})"
                    if node.gpus
                    else "gpu:0",
                }
            )
    return rows


def _sinfo_fields(form: str, rows: list[dict[str, str]]) -> Answer:
    """The long form ``Field:SUFFIX,...``, without heading; sizes are not rehearsed."""
    fields = [word.partition(":")[::2] for word in form.split(",")]
    unknown = next((name for name, _ in fields if name.lower() not in SINFO_FIELDS), None)
    if unknown is not None:
        return 1, "", f"sinfo: error: Invalid job format specification: {unknown}\n"
    lines = ("".join(row[SINFO_FIELDS[name.lower()]] + suffix for name, suffix in fields) for row in rows)
    return 0, "".join(f"{line}\n" for line in lines), ""


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
    """The words ``show qos`` and ``show assoc`` in the parsable form, and in a table."""
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
    columns = next(
        (word.partition("=")[2] for word in words if word.lower().startswith("format=")), default
    ).split(",")
    names = [name.partition("%")[0] for name in columns]
    lines = [[row.get(name.lower(), "") for name in names] for row in rows]
    if "n" not in letters and "--noheader" not in flags:
        lines.insert(0, names)
    if plain or barred:
        tail = "" if plain else "|"
        return 0, "".join("|".join(line) + tail + "\n" for line in lines), ""
    return 0, "".join(" ".join(f"{text[:20]:>20}" for text in line) + " \n" for line in lines), ""


SSHARE = {
    "users": ("U", "no"),
    "noheader": ("h", "no"),
    "parsable2": ("P", "no"),
    "format": ("o", "yes"),
}


def sshare(call: Call, control: Controller, _now: float) -> Answer:
    """The student's share; nothing is used up in practice."""
    try:
        options = parse_words(call.words, "sshare", SSHARE).options
    except OptionProblem as problem:
        return 1, "", f"{problem}\n"
    site = control.site
    values = {
        "Account": site.account, "User": site.user, "RawShares": "1", "NormShares": "1.000000", "RawUsage": "0",
        "EffectvUsage": "0.000000", "FairShare": "1.000000",
    }  # fmt: skip
    names = options.get("format", ",".join(values)).split(",")
    if unknown := [name for name in names if name not in values]:
        return 1, "", f'sshare: error: Invalid field requested: "{unknown[0]}"\n'
    lines = [[values[name] for name in names]]
    if "noheader" not in options:
        lines.insert(0, names)
    if "parsable2" in options:
        return 0, "".join("|".join(line) + "\n" for line in lines), ""
    return 0, "".join(" ".join(f"{text:>12}" for text in line) + " \n" for line in lines), ""


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
