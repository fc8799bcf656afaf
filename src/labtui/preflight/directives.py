"""Rules for the `#SBATCH` lines: whether Slurm reads them, whether they fit the runs, and where the logs go.

What Slurm refuses at once (an unknown option or feature, more than a node has) is left to Slurm.
"""

import difflib
import math
import re
from collections.abc import Iterator

from labtui.domain.model import plural
from labtui.domain.profile import Queue
from labtui.domain.terminal_text import range_text
from labtui.preflight.findings import Hit, ScriptContext, add_directive, change, replace_line, rule, value_hit
from labtui.slurm.batch_script import JobScript, read_options
from labtui.slurm.values import duration_text, limit_minutes
from labtui.training_logs.run_headers import GPU_OPTIONS

_SHEBANG = re.compile(r"#!\s*/(?:usr/)?bin/(?:env\s+)?(?:ba|z|da|k)?sh(?P<rest>.*)$")


@rule("shebang", "error")
def shebang(_context: ScriptContext, job: JobScript) -> Iterator[Hit]:
    """No job script, or stray text behind `#!/bin/bash`: the job fails at once.

    The kernel passes it to the shell as an argument. A script that names no shell is refused by sbatch.
    """
    # one with a pasted dash is no directive yet
    if not job.lines[0].startswith("#!") and "#SBATCH" not in job.text:
        yield Hit(1, "This is no job script (no #! line, no #SBATCH line): name the one that starts it.")
    match = _SHEBANG.match(job.lines[0].rstrip("\r"))
    if match is not None and not re.fullmatch(r"(?:\s+-[\w-]+)*\s*", match["rest"]):
        effect = "What follows the shell's name is passed to it as an argument; the job fails at once."
        yield Hit(1, effect, replace_line(job, 1, "#!/bin/bash", "start with #!/bin/bash"))


@rule("not-a-directive", "warning")
def not_a_directive(_context: ScriptContext, job: JobScript) -> Iterator[Hit]:
    """`# SBATCH` or `#sbatch`: a comment to Slurm.

    A directive is spelled `#SBATCH`, at the very start of the line.
    """
    for number, line in job.code:
        match = re.match(r"(?P<head>\s*#\s*SBATCH)(?P<rest>\s+-.*)$", line, re.IGNORECASE)
        if match is None or match["head"] == "#SBATCH" or "`" in match["rest"]:
            continue
        # "# sbatch --test-only job.slurm" is about the command
        words = re.fullmatch(r"\s*#\s+sbatch", match["head"])
        if not words and all(option.known for option in read_options(match["rest"])):
            effect = "Slurm reads only lines that begin with #SBATCH; this one is a comment to it."
            yield Hit(number, effect, replace_line(job, number, "#SBATCH" + match["rest"], "write #SBATCH"))


@rule("late-directive", "error")
def late_directive(_context: ScriptContext, job: JobScript) -> Iterator[Hit]:
    """A directive after the first command: Slurm ignores it.

    Directives count up to the first command only.
    """
    for number in dict.fromkeys(d.line for d in job.directives if d.late):
        line = job.lines[number - 1]
        first = job.commands[0].line
        lines: dict[int, tuple[str, ...]] = {number: (f"#{line}",)}
        if first < 2 or job.lines[first - 2] != line:
            lines = {first: (line, job.lines[first - 1]), **lines}
        effect = "Slurm stops reading directives at the first command; this one has no effect."
        yield Hit(number, effect, change(job, "move it up, before the first command", lines))


_NAME = re.compile(r"(?!.*(?:XX|NN))[A-Za-z0-9_.-]+")
"""A name and no placeholder, for which there is another rule."""


@rule("account", "error")
def account(context: ScriptContext, job: JobScript) -> Iterator[Hit]:
    """No account, or that of another course.

    The account in example scripts belongs to another year.
    """
    asked = job.value("account")
    if not context.account:
        return
    if not asked:
        if context.profile.account_pattern:
            fix = add_directive(job, f"--account={context.account}")
            yield Hit(1, "This site refuses jobs that name no account.", fix)
    elif asked != context.account and _NAME.fullmatch(asked):
        effect = f"The account {asked} is not the folder's, {context.account}; `labtui doctor` lists yours."
        hit = value_hit(job, "account", effect, context.account, title=f"use {context.account}")
        # One that is chosen for this job is meant; if the site's have no common pattern, both may be valid.
        sure = context.profile.account_pattern and asked != context.job_account
        yield hit if sure else hit._replace(severity="warning")


# --------------------------------------------------------------------------- time


@rule("time", "error")
def time(context: ScriptContext, job: JobScript) -> Iterator[Hit]:
    """No time limit, one above the queue's, or minutes that are read as seconds.

    `--time 00:15` is fifteen seconds: with two fields Slurm reads minutes and seconds.
    """
    value = job.value("time")
    if not job.has("time"):
        if context.draft is not None and context.draft.time_limit_minutes:
            effect = "No --time: the site refuses the job or sets its longest limit, so it waits longer."
            limit = duration_text(60 * context.draft.time_limit_minutes)
            yield Hit(1, effect, add_directive(job, f"--time={limit}"))
        else:
            yield Hit(1, "No --time: the queue's default limit ends the job.", None, "warning")
        return
    two = re.fullmatch(r"(\d{1,2}):(\d{2})", value)
    if two and "time" not in job.given and int(two[1]) < 5:
        seconds = int(two[1]) * 60 + int(two[2])
        effect = f"With two fields Slurm reads minutes and seconds: {value} is {seconds} seconds."
        hit = value_hit(job, "time", effect, f"{value}:00")
        yield hit if seconds < 60 else hit._replace(severity="warning")
        return
    queue = _queue(context, job)
    wanted, most = limit_minutes(value), queue.max_minutes if queue else None
    if queue is not None and wanted is not None and most is not None and wanted > most:
        effect = f"The profile says {queue.name} allows at most {most} min; Slurm may refuse the job."
        yield value_hit(job, "time", effect, duration_text(60 * most))._replace(severity="warning")


@rule("short-limit", "warning")
def short_limit(context: ScriptContext, job: JobScript) -> Iterator[Hit]:
    """A time limit shorter than the trainings may take.

    Slurm ends the job before the last run has any numbers.
    """
    minutes, seconds = limit_minutes(job.value("time")), context.forecast
    if seconds is None or not minutes:
        return
    if minutes < (high := math.ceil(seconds.hi / 60)):
        span = range_text(seconds, like=60)  # as the line that shows the job has it
        effect = f"The trainings should take {span} min; Slurm ends the job after {minutes}."
        most = context.profile.within_limit(job.value("qos") or job.value("partition"), high)
        hit = value_hit(job, "time", effect, duration_text(60 * most))
        yield hit if most > minutes else hit._replace(fix=None)


def _queue(context: ScriptContext, job: JobScript) -> Queue | None:
    return context.profile.queue(job.value("qos") or job.value("partition"))


@rule("queue", "warning")
def queue_listed(context: ScriptContext, job: JobScript) -> Iterator[Hit]:
    """A QoS or partition that the cluster's profile does not list: Slurm may refuse the job.

    Those of the lab folder are meant: a course may have its own.
    """
    queues, by_qos = context.profile.queues, context.profile.queue_option == "qos"
    listed = {context.profile.queue_option: [each.name for each in queues]}
    listed |= {"partition": [each.partition for each in queues if each.partition]} if by_qos else {}
    for option, names in listed.items():
        given = job.value(option)
        if names and _NAME.fullmatch(given) and given not in {*names, *context.queues}:
            what = "QoS" if option == "qos" else option
            known = ", ".join(dict.fromkeys(names))
            effect = f"The profile of {context.profile.title} lists no {what} {given}: {known}."
            near = next(iter(difflib.get_close_matches(given, names)), given)  # without one there is no fix
            yield value_hit(job, option, effect, near)


# --------------------------------------------------------------------------- GPUs and CPUs


@rule("no-gpu-asked", "error")
def no_gpu_asked(context: ScriptContext, job: JobScript) -> Iterator[Hit]:
    """GPU runs in a job that asks for no GPU.

    The plan, the student or a command names GPUs, the script has no `--gres`.
    """
    used = [gpus_in_command(c.text) or 0 for c in job.launches if " cpu" not in c.text]
    runs = context.draft.runs if context.draft else ()
    told = [run.n_gpus // job.nodes for run in runs if "n_gpus" not in run.unknown]
    wanted = max((*used, *told), default=0)
    broken = any("--gres" in line and line.startswith("#SBATCH") for line in job.lines)
    queue, planned = _queue(context, job), context.draft is not None and context.draft.form != "own"
    if job.gpus or broken or job.has("exclusive") or not wanted:
        return
    if not (planned or context.profile.node_gpus):
        if max(told, default=0):
            yield Hit(1, context.profile.without_gpus, None, "warning")
        return
    asks = f"The job asks for no GPU, the plan for {wanted}" if planned else "The job gets no GPU"
    fix = add_directive(job, f"--gres={context.profile.gres}:{wanted}")
    hit = Hit(1, f"{asks}: the training fails or silently uses the CPU.", fix)
    without = not context.profile.node_gpus or (queue is not None and queue.devices == "cpu")
    yield hit._replace(fix=None, severity="warning") if without else hit


_GPUS = re.compile(
    rf"--(?:{'|'.join(GPU_OPTIONS).replace('_', '[_-]')}|nproc[_-]per[_-]node)[= ]+(\d{{1,4}})\b"
)


def gpus_in_command(command: str) -> int | None:
    """The GPUs per node that a command's options name; None if they name none."""
    match = _GPUS.search(command)
    return int(match[1]) if match else None


@rule("few-cpus", "warning")
def few_cpus(context: ScriptContext, job: JobScript) -> Iterator[Hit]:
    """Fewer CPUs than the site asks for with each GPU, or more for a task than a node has.

    Fewer only if the site requires a number: elsewhere a node's CPUs divided by its GPUs are a fair share, not a rule.
    More not in queues without GPUs beside others with some, if the profile does not know their nodes.
    """
    given, site = job.last("cpus-per-task"), context.profile.in_queue(*job.queues)
    known = job.gpus or not context.profile.node_gpus or site is not context.profile
    if known and (job.cpus or 0) > site.cpus_per_node > 1:
        effect = f"A task asks for {job.cpus} CPUs; a node of {site.title} has {site.cpus_per_node}."
        yield Hit(given.line if given else 1, effect)
    needed = job.gpus * context.profile.cpus_per_gpu
    cpus = (job.cpus or 1) * job.tasks_per_node
    said = context.profile.status in ("current", "practice")
    unclear = any(map(job.has, ("exclusive", "cpus-per-gpu", "tres-per-task"))) or (given and not job.cpus)
    if not said or unclear or not job.gpus or job.gpus > context.profile.node_gpus or cpus >= needed:
        return
    effect = f"Here {plural(job.gpus, 'GPU')} must come with {needed} CPUs or more, not {cpus}."
    each = str(-(-needed // job.tasks_per_node))
    if given is None:
        yield Hit(1, effect, add_directive(job, f"--cpus-per-task={each}"))
    else:
        yield value_hit(job, "cpus-per-task", effect, each, title=f"ask for {each}")


# --------------------------------------------------------------------------- logs


@rule("log-name", "warning")
def log_name(context: ScriptContext, job: JobScript) -> Iterator[Hit]:
    """A log that the next job overwrites, or that goes nowhere.

    A name without the job's id, ``/dev/null``, or a ``%`` code that Slurm does not know.
    """
    for option, ending in (("output", "out"), ("error", "err")):
        given = job.last(option)
        effect = _log_problem(given.value, context) if given and option not in job.given else ""
        if given is not None and effect:
            folder, slash, _ = given.value.removeprefix("/dev/null").rpartition("/")
            yield value_hit(job, option, effect, f"{folder}{slash}%x.%j.{ending}")


def _log_problem(pattern: str, context: ScriptContext) -> str:
    if pattern == "/dev/null":
        return "What the job prints is thrown away: nothing can be followed and no number read."
    if "\\" in pattern or not pattern:
        return ""
    codes = re.findall(r"%\d*(.)", pattern.replace("%%", ""))
    if wrong := [code for code in codes if code not in "AajJNnstuxb"]:
        return f"Slurm does not know %{wrong[0]} in a log name."
    # labtui gives each job file of the student's a directory of its own
    own = context.draft is not None and context.draft.form == "own" and not pattern.startswith(("/", "~"))
    if not own and not set(codes) & set("jJA"):
        return f"{pattern} has no %j: the next job overwrites this one's log."
    if re.search(r"%x[oe]_", pattern):
        return "A letter follows %x: the log's name is the job's name with that letter added."
    return ""


@rule("output-folder", "error")
def output_folder(context: ScriptContext, job: JobScript) -> Iterator[Hit]:
    """Logs in a folder that does not exist: the job fails without a trace.

    Slurm makes no folders for logs. Nothing is said of an absolute one that the cluster was not asked about.
    """
    for option, ending in (("output", "out"), ("error", "err")):
        given = job.last(option)
        folder = log_folder(job, option)
        if given is None or not folder or option in job.given:
            continue
        relative, fixed = not folder.startswith("/"), "%" not in folder
        missing = "%j" in folder or context.remote.get(folder) is False
        if relative and fixed:
            missing = not context.remote.get(folder) and not (context.makes_folders and folder[:2] != "..")
            missing = missing and not any(name.startswith(f"{folder}/") for name in context.files)
        if missing:
            effect = f"Slurm does not make the folder {folder}/; without it the job ends at once and leaves no log."
            if relative:
                effect += " `labtui submit` makes only folders below the job's own, without % in their names."
            hit = value_hit(job, option, effect, f"%x.%j.{ending}", title="put the log beside the script")
            yield hit._replace(severity="warning") if relative and fixed else hit


def log_folder(job: JobScript, option: str) -> str:
    """The folder of a log, joined to the working directory if that is absolute; "" for the job's own directory."""
    folder = job.value(option).removeprefix("./").rpartition("/")[0]
    chdir = job.value("chdir")
    if folder.startswith("/") or not chdir.startswith("/"):
        return folder
    return f"{chdir.rstrip('/')}/{folder}".rstrip("/")


_BASH_LINE = re.compile(r"line (\d{1,6}): (.*)")


@rule("bash-syntax", "error", over="shells")
def bash_syntax(context: ScriptContext, job: JobScript) -> Iterator[Hit]:
    """Shell code that bash cannot read.

    The error of ``bash -n``, if the caller ran it.
    """
    said = context.bash_errors.get(job.name, "")
    match = _BASH_LINE.search(said)
    if said and match:
        number = min(int(match[1]), len(job.lines))
        effect = f"bash cannot read this script: {match[2].rstrip('.')}."
        # A job script is run by bash and stops at the mistake; a helper may be for another shell.
        yield Hit(number, effect, None, "error" if job in context.jobs else "warning")
