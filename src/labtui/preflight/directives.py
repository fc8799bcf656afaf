"""The `#SBATCH` lines: are they read at all, and do they ask for what the site and the runs need?"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterator

from labtui.preflight.findings import (
    Edit,
    Finding,
    Fix,
    ScriptContext,
    Severity,
    add_directive,
    comment_out,
    found,
    replace_line,
    rule,
    set_value,
)
from labtui.slurm.batch_script import LONG_OPTIONS, SHORT_OPTIONS, JobScript, read_options
from labtui.slurm.values import duration_seconds

_SHEBANG = re.compile(r"#!\s*/(?:usr/)?bin/(?:env\s+)?(?:ba|z|da|k)?sh(?P<rest>.*)$")
_OTHER_PROGRAM = re.compile(r"#!\s*/\S+")


@rule("shebang", "error", "The first line is not a clean `#!/bin/bash`.")
def shebang(context: ScriptContext) -> Iterator[Finding]:
    """Missing, not in the first line, or with stray text behind the shell's name."""
    for job in context.jobs:
        if not job.text.strip():
            continue
        line = job.lines[0].rstrip("\r")
        match = _SHEBANG.match(line)
        if match and re.fullmatch(r"(?:\s+-\w+)*\s*", match["rest"]):
            continue
        if match is None and _OTHER_PROGRAM.match(line):
            continue  # another interpreter: unusual, but the student's choice
        if match is None and not line.startswith("#!"):
            effect = "sbatch requires a script whose first line starts with #! and names the shell."
            edit = Edit(1, job.lines[0], ("#!/bin/bash", job.lines[0]))
            if not line.strip() or line.strip("\ufeff \t\u200b").startswith("#!"):
                edit = Edit(1, job.lines[0], ("#!/bin/bash",))
        else:
            effect = "What follows the shell's name is passed to it as an argument; the job fails at once."
            edit = Edit(1, job.lines[0], ("#!/bin/bash",))
        yield found(
            "shebang", job.name, 1, line, effect, fix=Fix(job.name, "start with #!/bin/bash", (edit,))
        )


@rule("not-a-directive", "warning", "`# SBATCH` or `#sbatch`: a comment to Slurm.")
def not_a_directive(context: ScriptContext) -> Iterator[Finding]:
    """A directive is spelled `#SBATCH`, at the very start of the line."""
    for job in context.jobs:
        for number, line in job.code:
            match = re.match(r"(?P<head>\s*#\s*SBATCH)(?P<rest>\s+-.*)$", line, re.IGNORECASE)
            if match and match["head"] != "#SBATCH" and not _about_sbatch(match["head"], match["rest"]):
                effect = "Slurm reads only lines that begin with #SBATCH; this one is a comment to it."
                fixed = "#SBATCH" + match["rest"]
                fix = replace_line(job.name, number, line, fixed, "spell it #SBATCH")
                yield found("not-a-directive", job.name, number, line, effect, fix=fix)


def _about_sbatch(head: str, rest: str) -> bool:
    """Whether a comment speaks of the command: ``# sbatch --test-only job.slurm``, or of no option at all."""
    if re.fullmatch(r"\s*#\s+sbatch", head):
        return True
    return not all(option.known for option in read_options(rest)) or "`" in rest


@rule("glued-directives", "error", "Two directives in one line: the second one is lost.")
def glued_directives(context: ScriptContext) -> Iterator[Finding]:
    """``--error=%x.err#SBATCH --nodes=2``: a line break got lost."""
    for job in context.jobs:
        for number, line in job.code:
            if not line.startswith("#SBATCH"):
                continue
            pieces = [piece for piece in re.split(r"(?=#SBATCH\b)", line) if piece.strip()]
            if len(pieces) > 1 and "# #SBATCH" not in line and " ##SBATCH" not in line:
                effect = "Slurm reads one directive a line; what follows the second #SBATCH is lost."
                new = tuple(piece.rstrip() for piece in pieces)
                fix = Fix(job.name, "give each a line of its own", (Edit(number, line, new),))
                yield found("glued-directives", job.name, number, line, effect, fix=fix)


@rule("unknown-option", "error", "An option that `sbatch` does not have (`--D .`).")
def unknown_option(context: ScriptContext) -> Iterator[Finding]:
    """`sbatch` ends with "unrecognized option"; sites may add options of their own."""
    for job in context.jobs:
        for directive in job.directives:
            if directive.known or directive.late or not re.fullmatch(r"[A-Za-z][\w-]*", directive.name):
                continue
            dashes = "--" if len(directive.name) > 1 or f"--{directive.name}" in directive.text else "-"
            written = f"{dashes}{directive.name}"
            meant = _meant(directive.name)
            effect = f"sbatch has no option {written}; it refuses the script."
            fix = None
            if meant and written in directive.text:
                effect = f"sbatch has no option {written} and refuses the script; it has {meant}."
                fixed = directive.text.replace(written, meant, 1)
                fix = replace_line(job.name, directive.line, directive.text, fixed, f"write {meant}")
            yield found("unknown-option", job.name, directive.line, directive.text, effect, fix=fix)


def _meant(name: str) -> str:
    """The option that a misspelt one stands for; "" when none is near."""
    if len(name) == 1:
        return f"-{name}" if name in SHORT_OPTIONS else ""
    plain = name.replace("_", "-").casefold()
    near = difflib.get_close_matches(plain, sorted(LONG_OPTIONS), n=1, cutoff=0.75)
    return f"--{near[0]}" if near else ""


@rule(
    "option-as-constraint", "error", "An option written as a node feature (`--constraint=ntasks-per-node=1`)."
)
def option_as_constraint(context: ScriptContext) -> Iterator[Finding]:
    """Features are the site's names of node types; no node is called ``ntasks-per-node=1``."""
    for job in context.jobs:
        given = job.last("constraint")
        name, equals, _ = given.value.partition("=") if given else ("", "", "")
        if given is None or not equals or name not in LONG_OPTIONS:
            continue
        effect = f"--constraint names features of nodes, and --{name} is an option of its own: no node fits."
        fixed = re.sub(
            r"(?:--constraint[= ]\s*|-C\s*=?)(['\"]?)" + re.escape(given.value) + r"\1",
            f"--{given.value}",
            given.text,
        )
        fix = replace_line(job.name, given.line, given.text, fixed, f"write --{given.value}")
        yield found("option-as-constraint", job.name, given.line, given.text, effect, fix=fix)


@rule("late-directive", "error", "A directive after the first command: Slurm ignores it.")
def late_directive(context: ScriptContext) -> Iterator[Finding]:
    """Directives count up to the first command only."""
    for job in context.jobs:
        for number in dict.fromkeys(d.line for d in job.directives if d.late):
            line = job.lines[number - 1]
            first = job.commands[0].line
            command = job.lines[first - 1]
            edits = [Edit(number, line, (f"#{line}",))]
            if first < 2 or job.lines[first - 2] != line:
                edits.insert(0, Edit(first, command, (line, command)))
            effect = "Slurm stops reading directives at the first command; this one has no effect."
            fix = Fix(job.name, "move it up, before the first command", tuple(edits))
            yield found("late-directive", job.name, number, line, effect, fix=fix)


@rule("gres-blank", "error", "A space inside `gpu: 4`: the number is cut off.")
def gres_blank(context: ScriptContext) -> Iterator[Finding]:
    """`--gres gpu: 4`."""
    for job in context.jobs:
        for number, line in job.code:
            match = re.search(r"^#SBATCH\b.*--gres[= ]+[\w:]+:(?P<gap>[ \t]+)(?=\d)", line)
            if match:
                fixed = line[: match.start("gap")] + line[match.end("gap") :]
                effect = "Slurm cuts the value at the space: the number of GPUs is lost."
                fix = replace_line(job.name, number, line, fixed, "remove the space")
                yield found("gres-blank", job.name, number, line, effect, fix=fix)


# --------------------------------------------------------------------------- whose account


@rule("account", "error", "No account, or that of another course.")
def account(context: ScriptContext) -> Iterator[Finding]:
    """The account in example scripts belongs to another year."""
    for job in context.jobs:
        given = job.last("account")
        if "account" in job.given:
            continue
        if given is None:
            if context.account and context.profile.account_pattern:
                fix = add_directive(job, f"--account={context.account}")
                effect = "This site refuses jobs that name no account."
                yield found("account", job.name, 1, job.lines[0], effect, fix=fix)
            continue
        if context.account and given.value not in {"", context.account} and _plain(given.value):
            effect = f"The job would be charged to {given.value}; yours is {context.account}."
            title = f"use {context.account}"
            fix = set_value(job, given.line, given.value, context.account, title)
            yield found("account", job.name, given.line, given.text, effect, fix=fix)


def _plain(value: str) -> bool:
    """Whether a value is a name and no placeholder (those have their own rule)."""
    return re.fullmatch(r"[A-Za-z0-9_.-]+", value) is not None and not re.search(r"X{2,}|N{2,}", value)


# --------------------------------------------------------------------------- which queue


@rule("queue", "error", "No queue, one for CPUs under a GPU job, or one that does not fit its partition.")
def queue(context: ScriptContext) -> Iterator[Finding]:
    """The QoS (or partition) against the profile."""
    option = context.profile.queue_option
    for job in context.jobs:
        wanted = context.profile.gpu_queue if job.gpus else context.profile.cpu_queue
        given = job.last(option)
        if option in job.given:
            continue
        if given is None:
            if wanted and option == "qos":
                fix = add_directive(job, f"--{option}={wanted}")
                yield found(
                    "queue", job.name, 1, job.lines[0], "This site refuses jobs that name no QoS.", fix=fix
                )
            continue
        known = context.profile.queue(given.value)
        if known is None:
            if context.profile.queues and _plain(given.value):
                effect = f"The profile of {context.profile.title} does not know {given.value}."
                fix = set_value(job, given.line, given.value, wanted, f"use {wanted}") if wanted else None
                yield found("queue", job.name, given.line, given.text, effect, fix=fix, severity="warning")
            continue
        if job.gpus and known.devices == "cpu":
            effect = f"{given.value} leads to nodes without GPUs; the job waits forever or trains on the CPU."
            fix = set_value(job, given.line, given.value, wanted, f"use {wanted}") if wanted else None
            yield found("queue", job.name, given.line, given.text, effect, fix=fix)
        partition = job.last("partition")
        if option == "qos" and partition and known.partition and partition.value != known.partition:
            effect = f"{given.value} belongs to the partition {known.partition}, not to {partition.value}."
            title = f"use {known.partition}"
            fix = set_value(job, partition.line, partition.value, known.partition, title)
            yield found("queue", job.name, partition.line, partition.text, effect, fix=fix)


@rule("one-job-queue", "error", "An array, or a job that submits a job, where one is allowed at a time.")
def one_job_queue(context: ScriptContext) -> Iterator[Finding]:
    """Waiting and running jobs both count: acc_debug refuses the second."""
    for job in context.jobs:
        known = context.profile.queue(job.value(context.profile.queue_option))
        if known is None or known.max_submit_per_user != 1:
            continue
        effect = f"{known.name} takes one job of yours, waiting or running; the others are refused."
        array = job.last("array")
        if array is not None:
            fix = comment_out(job, array.line, "leave the array out")
            yield found("one-job-queue", job.name, array.line, array.text, effect, fix=fix)
        for command in job.commands:
            if re.match(r"^\s*sbatch\s", command.text):
                fix = comment_out(job, command.line, "leave it out") if command.line == command.end else None
                line = job.lines[command.line - 1]
                yield found("one-job-queue", job.name, command.line, line, effect, fix=fix)


@rule("forbidden-option", "error", "An option the site refuses, such as `--mem`.")
def forbidden_option(context: ScriptContext) -> Iterator[Finding]:
    """What the profile lists as refused, each with the site's reason."""
    refused = {name.lstrip("-"): reason for name, reason in context.profile.forbidden.items()}
    for job in context.jobs:
        for directive in job.directives:
            if directive.name in refused and not directive.late:
                effect = f"--{directive.name} is refused here: {refused[directive.name]}."
                fix = comment_out(job, directive.line, "leave the line out")
                yield found("forbidden-option", job.name, directive.line, directive.text, effect, fix=fix)


# --------------------------------------------------------------------------- time


@rule("time", "error", "No time limit, one above the queue's, or minutes that are read as seconds.")
def time(context: ScriptContext) -> Iterator[Finding]:
    """`--time 00:15` is fifteen seconds: with two fields Slurm reads minutes and seconds."""
    for job in context.jobs:
        given = job.last("time")
        if "time" in job.given:
            continue
        if given is None:
            minutes = context.draft.time_limit_minutes if context.draft else 0
            if minutes:
                fix = add_directive(job, f"--time={minutes // 60:02d}:{minutes % 60:02d}:00")
                effect = (
                    "Without a limit the site refuses the job, or takes the longest, which waits longest."
                )
                yield found("time", job.name, 1, job.lines[0], effect, fix=fix)
            continue
        two = re.fullmatch(r"(\d{1,2}):(\d{2})", given.value)
        if two and int(two[1]) < 5:
            seconds = int(two[1]) * 60 + int(two[2])
            effect = f"With two fields Slurm reads minutes and seconds: {given.value} is {seconds} seconds."
            fix = set_value(job, given.line, given.value, f"{given.value}:00", f"write {given.value}:00")
            severity: Severity = "error" if seconds < 60 else "warning"
            yield found("time", job.name, given.line, given.text, effect, fix=fix, severity=severity)
            continue
        known = context.profile.queue(job.value(context.profile.queue_option))
        wanted, most = _minutes(given.value), known.max_minutes if known else None
        if wanted is not None and most is not None and wanted > most:
            limit = f"{most // 60:02d}:{most % 60:02d}:00"
            effect = f"{known.name if known else ''} allows at most {most} minutes; the job would be refused."
            fix = set_value(job, given.line, given.value, limit, f"write {limit}")
            yield found("time", job.name, given.line, given.text, effect, fix=fix)


@rule("short-limit", "warning", "A time limit shorter than the trainings should take.")
def short_limit(context: ScriptContext) -> Iterator[Finding]:
    """Slurm ends the job in the middle, and the last run has no numbers."""
    if context.forecast_s is None:
        return
    for job in context.jobs:
        minutes, given = _minutes(job.value("time")), job.last("time")
        if minutes is None or minutes * 60 >= context.forecast_s or minutes < 1:
            continue
        needed = int(context.forecast_s // 60) + 1
        effect = f"The trainings should take at least {needed} min; Slurm ends the job after {minutes:g}."
        limit = f"{needed * 3 // 2 // 60:02d}:{needed * 3 // 2 % 60:02d}:00"
        fixable = given is not None and "time" not in job.given
        fix = set_value(job, given.line, given.value, limit, f"write {limit}") if fixable and given else None
        line = given.line if given else 1
        yield found("short-limit", job.name, line, job.lines[line - 1], effect, fix=fix)


def _minutes(value: str) -> float | None:
    seconds = duration_seconds(value)
    return None if seconds is None else seconds / 60


# --------------------------------------------------------------------------- GPUs and CPUs


@rule("no-gpu-asked", "error", "GPU runs in a job that asks for no GPU.")
def no_gpu_asked(context: ScriptContext) -> Iterator[Finding]:
    """The plan or a command is for GPUs, the script has no `--gres`."""
    for job in context.jobs:
        planned = context.draft.gpus if context.draft else 0
        wanted = planned or max(
            (gpus_of(c.text) or 0 for c in job.launches if " cpu" not in c.text), default=0
        )
        broken = any("--gres" in line and line.startswith("#SBATCH") for line in job.lines)
        if wanted and job.gpus == 0 and not broken:
            fix = add_directive(job, f"--gres={context.profile.gres}:{wanted}")
            effect = "The job gets no GPU: the training fails or silently uses the CPU."
            yield found("no-gpu-asked", job.name, 1, job.lines[0], effect, fix=fix)


def gpus_of(command: str) -> int | None:
    """GPUs of a node that a command says it uses; None when it does not say."""
    match = re.search(r"--(?:n_gpus|n-gpus|num_gpus|ngpus|nproc[_-]per[_-]node)[= ]+(\d{1,4})\b", command)
    return int(match[1]) if match else None


def node_gpus(context: ScriptContext) -> float:
    """GPUs of a node; no bound where the profile does not know its nodes. What asks for more is `node-size`'s."""
    known = context.profile.status != "generic" and context.profile.cpus_per_node > 1
    return context.profile.gpus_per_node if known else math.inf


@rule("few-cpus", "error", "Fewer CPUs than the site requires for the GPUs asked for.")
def few_cpus(context: ScriptContext) -> Iterator[Finding]:
    """MareNostrum 5 wants 20 per GPU."""
    for job in context.jobs:
        if not job.gpus or job.gpus > node_gpus(context):
            continue
        needed = job.gpus * context.profile.cpus_per_gpu
        cpus = (job.cpus or 1) * job.tasks_per_node
        given = job.last("cpus-per-task")
        if cpus >= needed or (given is not None and job.cpus is None):
            continue
        effect = f"{job.gpus} GPU{'s' if job.gpus > 1 else ''} need at least {needed} CPUs here, not {cpus}."
        each = -(-needed // job.tasks_per_node)
        if given is None:
            fix = add_directive(job, f"--cpus-per-task={each}")
            yield found("few-cpus", job.name, 1, job.lines[0], effect, fix=fix)
        else:
            fix = set_value(job, given.line, given.value, str(each), f"ask for {each}")
            yield found("few-cpus", job.name, given.line, given.text, effect, fix=fix)


@rule("many-cpus", "warning", "A whole node's CPUs for a part of its GPUs.")
def many_cpus(context: ScriptContext) -> Iterator[Finding]:
    """80 CPUs for one GPU wait longer, and the first epoch then compares with no 20-CPU run's."""
    for job in context.jobs:
        fair = job.gpus * context.profile.cpus_per_gpu
        given = job.last("cpus-per-task")
        if (
            given
            and job.gpus
            and job.cpus
            and job.cpus >= 2 * fair
            and job.gpus < context.profile.gpus_per_node
            and not job.has("exclusive")
        ):
            effect = f"{job.cpus} CPUs for {job.gpus} GPU{'s' if job.gpus > 1 else ''}: {fair} are its share."
            fix = set_value(job, given.line, given.value, str(fair), f"ask for {fair}")
            yield found("many-cpus", job.name, given.line, given.text, effect, fix=fix)


@rule(
    "node-size",
    "error",
    "More GPUs or CPUs than a node has, or more nodes than the queue takes: the job can never start.",
)
def node_size(context: ScriptContext) -> Iterator[Finding]:
    """`Requested node configuration is not available`, or waiting forever. Only where the profile knows its nodes."""
    most_gpus = context.profile.gpus_per_node
    gpu_node = most_gpus * context.profile.cpus_per_gpu
    if context.profile.status == "generic" or context.profile.cpus_per_node <= 1:
        return
    name = context.profile.title[:1].upper() + context.profile.title[1:]
    for job in context.jobs:
        gres, cpus = job.gres_line, job.last("cpus-per-task")
        if gres is not None and job.gpus > most_gpus:
            word = "GPU" if most_gpus == 1 else "GPUs"
            effect = f"{name} has {most_gpus} {word} a node, not {job.gpus}."
            if job.nodes > 1 and gres.name != "gpus":
                effect += f" The number counts for each of the {job.nodes} nodes, not for all together."
            value = re.sub(r"\d+$", str(most_gpus), gres.value)
            fix = set_value(job, gres.line, gres.value, value, f"ask for {most_gpus} {word}")
            yield found("node-size", job.name, gres.line, gres.text, effect, fix=fix)
        queue = context.profile.queue(job.value(context.profile.queue_option))
        nodes = job.last("nodes")
        if nodes is not None and queue is not None and queue.max_nodes and job.nodes > queue.max_nodes:
            effect = f"{queue.name} takes jobs of at most {queue.max_nodes} nodes, not {job.nodes}."
            fix = set_value(
                job, nodes.line, nodes.value, str(queue.max_nodes), f"ask for {queue.max_nodes} nodes"
            )
            yield found("node-size", job.name, nodes.line, nodes.text, effect, fix=fix)
        most_cpus = max(context.profile.cpus_per_node, gpu_node if job.gpus else 0)
        most = min(most_cpus, (queue.max_cpus if queue else None) or most_cpus)
        if cpus is not None and job.cpus is not None and job.cpus > most and not _on_cpu_nodes(context, job):
            effect = f"{name} has {most_cpus} CPUs a node, not {job.cpus}."
            if queue is not None and most < most_cpus:
                effect = f"{queue.name} takes jobs of at most {most} CPUs, not {job.cpus}."
            fix = set_value(job, cpus.line, cpus.value, str(most), f"ask for {most} CPUs")
            yield found("node-size", job.name, cpus.line, cpus.text, effect, fix=fix)


def _on_cpu_nodes(context: ScriptContext, job: JobScript) -> bool:
    """Whether a job goes to nodes without GPUs, whose size the profile does not tell."""
    profile = context.profile
    queue = profile.queue(job.value(profile.queue_option) or profile.cpu_queue)
    return not job.gpus and queue is not None and queue.devices == "cpu" and queue.max_cpus is None


@rule("host-memory", "warning", "Too few CPUs (and so too little memory) for the data cache.")
def host_memory(context: ScriptContext) -> Iterator[Finding]:
    """A training's cache takes 9.83 GB; a job's CPUs bring it their share of the node's memory."""
    share = context.profile.cpus_per_gpu
    if context.profile.memory_gb_per_node is None:
        return
    each = context.profile.memory_gb_per_node / context.profile.cpus_per_node
    for job in context.jobs:
        given = job.last("cpus-per-task")
        at_once = max(1, sum(command.text.rstrip().endswith("&") for command in job.trainings))
        if given and job.trainings and job.cpus and job.cpus < share and job.cpus * each < 12.0 * at_once:
            effect = f"{at_once} data cache{'s' if at_once > 1 else ''} of 9.8 GB in the memory of {job.cpus} CPUs."
            fix = set_value(job, given.line, given.value, str(share * at_once), f"ask for {share * at_once}")
            yield found("host-memory", job.name, given.line, given.text, effect, fix=fix)
