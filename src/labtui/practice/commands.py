"""Slurm's commands as far as labtui sends them, and plain `squeue` and `sacct`.

There is only one user, so options that name a user are ignored.
"""

import contextlib
from collections.abc import Callable, Iterable, Mapping

import msgspec

from labtui.domain.profile import Queue
from labtui.practice import command_line
from labtui.practice.command_line import NO_CONTROLLER, VERSION, Answer, CommandError, Invocation, format_time
from labtui.practice.controller import Controller
from labtui.practice.job import FIELDS, HEADINGS, Job, account_row, formatted, queue_row
from labtui.practice.request import CLUSTER, MAX_PARTITION_S, Refused, all_options, build_request, sent_script
from labtui.slurm.values import duration_text, limit_minutes


class ParsedCall(msgspec.Struct, frozen=True):
    """A call with its parsed options, the controller that answers, and the time."""

    call: Invocation
    control: Controller
    now: float
    options: Mapping[str, str]
    rest: list[str]


def answer(program: str, call: Invocation, control: Controller, now: float) -> Answer:
    """Run one of Slurm's commands and return its answer."""
    text, run, down = _COMMANDS[program]
    known = command_line.SBATCH if program == "sbatch" else command_line.CommandOptions.of(program, text)
    try:
        options, rest = command_line.parse_argv(call.argv, known)
        if "version" in options:
            return 0, f"slurm-wlm {VERSION}\n", ""
        if down == _DATABASE and now < control.accounting_down_until:
            raise CommandError(f"{program}: error: {_DATABASE}\n")
        if down != _DATABASE and down and now < control.down_until:
            raise CommandError(f"{down}: {NO_CONTROLLER}\n")
        lines = run(ParsedCall(call, control, now, options, rest))
    except CommandError as error:
        return error.status, "", error.text
    return 0, "".join(f"{line}\n" for line in lines), ""


def _named(jobs: Iterable[Job], options: Mapping[str, str]) -> list[Job]:
    """The jobs that ``--jobs`` names; all of them without it."""
    return [job for job in jobs if "jobs" not in options or str(job.job_id) in options["jobs"].split(",")]


# ------------------------------------------------------------------------------- squeue, sacct, scancel


def squeue(parsed: ParsedCall) -> Iterable[str]:
    """``squeue`` as Slurm 22.05 answers it."""
    options = parsed.options
    jobs = _named(parsed.control.in_queue(parsed.now), options)
    if options.get("sort") == "-i":
        jobs.sort(key=lambda job: -job.job_id)
    form = options.get("format") or "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
    rows = [] if "noheader" in options else [HEADINGS]
    shown = (job for job in jobs if options.get("states") == "all" or not job.finished)
    rows += [queue_row(job, parsed.call.environment, parsed.control, parsed.now) for job in shown]
    return [formatted(form, row) for row in rows]


def sacct(parsed: ParsedCall) -> Iterable[str]:
    """``sacct``: the jobs in accounting, between bars."""
    options = parsed.options
    columns = options.get("format", "JobIDRaw,JobName,Partition,State,ExitCode").split(",")
    names = [{field.lower(): field for field in FIELDS}.get(each.lower(), "") for each in columns]
    if "" in names:
        raise CommandError(f'sacct: error: Invalid field requested: "{columns[names.index("")]}"\n')
    rows = [] if "noheader" in options else [dict(zip(FIELDS, FIELDS, strict=True))]
    jobs = _named(parsed.control.accounting(), options)
    rows += [account_row(job, parsed.call.environment, parsed.now) for job in jobs]
    mark = options.get("delimiter", "|")
    tail = mark if "parsable" in options else ""
    return [mark.join(row[name] for name in names) + tail for row in rows]


def scancel(parsed: ParsedCall) -> Iterable[str]:
    """``scancel``: cancel jobs by id."""
    for word in parsed.rest:
        if not word.isdecimal():
            raise CommandError(f"scancel: error: Invalid job id {word}\n")
        with contextlib.suppress(Refused):
            parsed.control.cancel(int(word), parsed.now)
    return ()


# ------------------------------------------------------------------------------------------------ sbatch


def sbatch(parsed: ParsedCall) -> Iterable[str]:
    """``sbatch``: read the script and the options, and queue the job, or with ``--test-only`` say whether it could."""
    call, control, now = parsed.call, parsed.control, parsed.now
    test_only = "test-only" in parsed.options
    try:
        script, name = sent_script(call, parsed.rest)
        options = {**all_options(script), **parsed.options}
        request = build_request(options, name=name, work_dir=call.folder, site=control.site)
        if now < control.down_until:
            raise Refused(final=NO_CONTROLLER)
        if test_only:
            control.check_limits(request)
            when = format_time(now + 60, call.environment, "")
            node = control.site.nodes_of(request.partition)[0]
            where = f"{request.cpus} processors on nodes {node.name} in partition {request.partition}"
            raise CommandError(f"sbatch: Job {control.next_id} to start at {when} using {where}\n", status=0)
        environment = command_line.select_environment(options.get("export", ""), call.environment)
        words = tuple(parsed.rest[1:])
        job = control.submit(request, script=script, arguments=words, environment=environment, now=now)
    except Refused as refused:
        raise CommandError(refused.text(test_only=test_only), refused.status) from None
    return [f"{job.job_id}" if "parsable" in options else f"Submitted batch job {job.job_id}"]


# ---------------------------------------------------------------------------------------------- scontrol


def scontrol(parsed: ParsedCall) -> Iterable[str]:
    """``show config|partition|hostnames``, ``hold``, ``release``, ``update JobId= TimeLimit=``."""
    control, now = parsed.control, parsed.now
    verb, what, name, *_ = [*parsed.rest, "", "", ""]
    shown = {"config": _config, "partition": _partitions, "hostnames": _hostnames}.get(what)
    try:
        if verb == "show" and shown:
            return shown(parsed, name)
        if verb in ("hold", "release"):
            control.set_held(_job_id(what), verb == "hold", now)
            return ()
        if verb == "update":
            _update(parsed.rest[1:], control, now)
            return ()
    except Refused as refused:
        raise CommandError(f"{refused.final} for job {what.rpartition('=')[2]}\n") from None
    raise CommandError(f"invalid keyword: {' '.join(parsed.rest)}\n")


def _job_id(text: str) -> int:
    return int(text) if text.isdecimal() else 0


def _config(parsed: ParsedCall, _name: str) -> Iterable[str]:
    head = f"Configuration data as of {format_time(parsed.now, parsed.call.environment, '')}"
    return [head, f"ClusterName             = {CLUSTER}", f"SLURM_VERSION           = {VERSION}"]


def _partitions(parsed: ParsedCall, _name: str) -> Iterable[str]:
    """A line for each partition, with or without ``--oneliner``."""
    site = parsed.control.site
    for name in site.partitions:
        nodes, default = site.nodes_of(name), "YES" if name == site.partitions[-1] else "NO"
        yield (
            f"PartitionName={name} AllowAccounts=ALL AllowQos=ALL Default={default} MaxNodes=UNLIMITED "
            f"MaxTime={duration_text(MAX_PARTITION_S)} State=UP TotalCPUs={sum(node.cpus for node in nodes)} "
            f"TotalNodes={len(nodes)}"
        )


def _hostnames(parsed: ParsedCall, nodes: str) -> Iterable[str]:
    return command_line.expand_nodes(nodes or parsed.call.environment.get("SLURM_JOB_NODELIST", ""))


def _update(argv: list[str], control: Controller, now: float) -> None:
    """Change a job's time limit, the only change that labtui asks for."""
    given = {name.lower(): value for name, _, value in (word.partition("=") for word in argv)}
    if given.keys() != {"jobid", "timelimit"}:
        text = f"Update of this parameter is not supported: {' '.join(argv)}"
        raise CommandError(f"{text}\nRequest aborted\n")
    if (minutes := limit_minutes(given["timelimit"])) is None:
        raise CommandError("scontrol: error: Invalid TimeLimit value\n")
    control.set_time_limit(_job_id(given["jobid"]), minutes * 60, now)


# -------------------------------------------------------------------------------------- sinfo, sacctmgr


def sinfo(parsed: ParsedCall) -> Iterable[str]:
    """``sinfo --noheader``: partition, CPUs and GPUs of each node. Students may not run it on MareNostrum 5."""
    for node in parsed.control.site.nodes:
        gpus = f"gpu:hopper:{node.gpus}" if node.gpus else "(null)"
        row = {"R": node.partition, "c": str(node.cpus), "G": gpus}
        yield formatted(parsed.options.get("format", "%R %c %G"), row)


def sacctmgr(parsed: ParsedCall) -> Iterable[str]:
    """``show qos``, ``show assoc`` and ``show user`` with ``--parsable2`` and a format."""
    site, argv = parsed.control.site, parsed.rest
    named = [word.partition("=")[2] for word in argv if word.lower().startswith("format=")]
    if argv[:1] != ["show"] or len(argv) < 2 or not named:
        raise CommandError(f"sacctmgr: error: invalid keyword: {' '.join(argv)}\n")
    granted = ",".join(sorted(queue.name for queue in site.profile.queues))
    row = {"cluster": CLUSTER, "account": site.account, "user": site.user, "qos": granted,
           "defaultqos": "gp_debug", "defaultaccount": site.account}  # fmt: skip
    rows = [_qos_row(queue) for queue in site.profile.queues] if argv[1] == "qos" else [row]
    names = [name.partition("%")[0] for name in named[0].split(",")]
    lines = [[row.get(name.lower(), "") for name in names] for row in rows]
    return ["|".join(line) for line in ([] if "noheader" in parsed.options else [names]) + lines]


def _qos_row(queue: Queue) -> dict[str, str]:
    limits = {"maxjobspu": queue.max_running_per_user, "maxsubmitpu": queue.max_submit_per_user}
    row = {name: "" if limit is None else str(limit) for name, limit in limits.items()}
    return row | {"name": queue.name, "maxwall": duration_text(60 * (queue.max_minutes or 0))}


_DATABASE = "Problem talking to the database: Connection refused"
_SQUEUE = "u=user= -=me h=noheader t=states= o=format= j=jobs= a=all S=sort= -=local V=version"
_SACCT = "X=allocations n=noheader p=parsable P=parsable2 -=delimiter= o=format= j=jobs= S=starttime= u=user= V=version"
_COMMANDS: dict[str, tuple[str, Callable[[ParsedCall], Iterable[str]], str]] = {
    "sbatch": ("", sbatch, ""),
    "squeue": (_SQUEUE, squeue, "slurm_load_jobs error"),
    "sacct": (f"{_SACCT} D=duplicates", sacct, _DATABASE),
    "scancel": ("V=version", scancel, "scancel: error: slurm_kill_job"),
    "scontrol": ("o=oneliner V=version", scontrol, "slurm_load_jobs error"),
    "sinfo": ("h=noheader o=format= e=exact V=version", sinfo, "slurm_load_partitions"),
    "sacctmgr": ("n=noheader P=parsable2 r=readonly V=version", sacctmgr, _DATABASE),
}
"""By command: its options, its function, and its error while the controller or accounting is down (sbatch: own)."""
PROGRAMS = tuple(_COMMANDS)
