"""Rules for the commands of a job script: what runs, with which options, and on which GPUs and nodes."""

import re
from collections.abc import Iterator

from labtui.domain.model import plural
from labtui.preflight.directives import gpus_in_command
from labtui.preflight.findings import Hit, ScriptContext, replace_line, rule, swap, value_hit
from labtui.slurm.batch_script import PRINTS, Directive, JobScript, is_training, without_comment
from labtui.slurm.script_commands import RANK

_CONTAINER = re.compile(r"\b(?:bsc_)?(?:singularity|apptainer)\b(?P<options>.*?)\b(?:exec|run|shell)\b")
_BAD_ASSIGNMENT = re.compile(
    r"^\s*(?:export\s+)?[A-Za-z_]\w*"
    r"(?P<gap>[ \t]+=[ \t]*(?=[\"'/$.~\d])|=[ \t]+(?=[\"'\d]|/\S*(?:/|\.(?!sh\b|py\b)\w+)(?:\s|$)))"
    r"(?:\"[^\"]*\"|'[^']*'|[^\s\"';|&])+\s*(?:[;#]|$)"
)
"""A blank beside the `=`, and one word that is a value; ``VAR= program`` and ``VAR= program words`` are commands."""
_STARTERS = re.compile(r"\b(?:srun|mpirun|mpiexec|pdsh|clush|ssh|horovodrun|deepspeed|prun|ibrun|parallel)\b")
_AT_ONCE = re.compile(r"&\s*\Z|\b(?:parallel|xargs)\b")


@rule("no-nv", "error")
def no_nv(_context: ScriptContext, job: JobScript) -> Iterator[Hit]:
    """A container without `--nv` in a GPU job: it silently trains on the CPU.

    Only if GPUs are requested, and not if a variable may hold the flag: SINGULARITY_NV, or one unknown here.
    """
    told = re.search(r"\b(?:SINGULARITY|APPTAINER)_NV(?:CCLI)?=", job.text)
    for command in job.filled if job.gpus and not told else ():
        match = _CONTAINER.search(command.text)
        if match is None or re.search(r"--nv(?:ccli)?\b|--rocm\b", command.text):
            continue
        program = re.split(r"\s(?:python[\d.]*|torchrun|bash|sh)\b", command.text[match.end() :], maxsplit=1)
        if "$" in program[0] or "$" in match["options"]:
            continue
        effect = "Without --nv the container sees no GPU; TensorFlow then uses the CPU, 15 times slower."
        start = r"((?:singularity|apptainer)\b.*?\b(?:exec|run|shell))\b(?=\s)(?!\s+--nv\b)"
        fix = swap(job, command, start, r"\1 --nv", "add --nv")
        yield Hit(command.line, effect, fix, None if is_training(command.text) else "warning")


@rule("gpu-count", "error")
def gpu_count(context: ScriptContext, job: JobScript) -> Iterator[Hit]:
    """More GPUs than a node has; trainings that use more or fewer than the job has.

    `--n_gpus` against `--gres`: too many fail, too few leave GPUs idle for the whole job.
    """
    request = next(filter(None, map(job.last, ("gres", "gpus", "gpus-per-node"))), None)
    counts = ((1 if re.search(r"_seq\.py\b", c.text) else gpus_in_command(c.text), c) for c in job.launches)
    used = [(n, c) for n, c in counts if n is not None]
    site = context.profile.in_queue(*job.queues)
    if request is not None and request.name != "gpus" and job.gpus > (most := site.node_gpus):
        effect = f"A node of {site.title} has {most} GPUs, not {job.gpus}: use {most}, or ask for more nodes."
        hit = _other_gpus(job, request, context.profile.without_gpus or effect, most)
        fits = most and all(wanted <= most for wanted, _ in used)  # else another finding would follow
        yield hit if fits else hit._replace(fix=None)
        return
    if not job.gpus or request is None or not used or job.has("exclusive"):  # which gives all of a node
        return
    most, command = max(used, key=lambda item: item[0])
    at_once = any(_AT_ONCE.search(job.source(launch).text) for launch in job.launches)
    if most > job.gpus * job.nodes:
        fix = swap(job, command, rf"(--n_gpus[= ]+){most}\b", rf"\g<1>{job.gpus}", f"train on {job.gpus}")
        yield Hit(command.line, f"The training wants {plural(most, 'GPU')} and the job has {job.gpus}.", fix)
    elif most < job.gpus and len(used) == len(job.launches) and not at_once:
        effect = f"No training uses more than {most} of the {job.gpus} GPUs; the rest idle and are charged."
        yield _other_gpus(job, request, effect, most)._replace(severity="warning")


def _other_gpus(job: JobScript, request: Directive, effect: str, each: float) -> Hit:
    """A hit whose fix asks for so many GPUs on each node, if the request names nothing else."""
    count = each * (job.nodes if request.name == "gpus" else 1)
    value = re.sub(r"^([^,]*:|)\d+$", rf"\g<1>{count}", request.value)
    return value_hit(job, request.name, effect, value, title=f"ask for {count}")


@rule("one-epoch", "warning")
def one_epoch(_context: ScriptContext, job: JobScript) -> Iterator[Hit]:
    """A single epoch: it is the warm-up, so there is no steady time.

    Keras also prints no "Epoch" line for it.
    """
    effect = "The first epoch is warm-up and does not count; one epoch measures nothing."
    for command in job.launches:
        if re.search(r"--(?:num_)?epochs[= ]+1(?!\d)", command.text):
            fix = swap(job, command, r"(--(?:num_)?epochs[= ]+)1\b", r"\g<1>2", "train two epochs")
            yield Hit(command.line, effect, fix)


_OPTION = re.compile(r"(?<=\s)(--[A-Za-z][\w-]*)(?=[\s=]|\Z)")


@rule("script-option", "error")
def script_option(context: ScriptContext, job: JobScript) -> Iterator[Hit]:
    """An option that the training script does not have: it ends at once.

    Only of scripts that use argparse and name their options as literals.
    """
    for command in job.launches:
        name, _, rest = command.text.partition(".py")
        script = f"{name.split()[-1]}.py".removeprefix("./")
        if (known := context.options_of(script)) is None:
            continue
        for option in _OPTION.findall(re.split(r"[|;&<>]", rest)[0]):
            plain = "--" + option.removeprefix("--no-")  # as argparse.BooleanOptionalAction adds it
            if any(each.startswith((option, plain)) for each in [*known, "--help"]):
                continue
            effect = f"{script} has no option {option}: it ends at once. It has {', '.join(sorted(known))}."
            pattern = rf"\s+{option}(?:[= ][\w./:,+@][\w./:,+@-]*+)?+(?=\s|$)(?!\s+[\"'$`\\(])"  # not if it is quoted
            yield Hit(command.line, effect, swap(job, command, pattern, "", f"remove {option}"))


@rule("batch-size", "error")
def batch_size(context: ScriptContext, job: JobScript) -> Iterator[Hit]:
    """A batch larger than the data set.

    Only of the edition's own scripts, whose images per epoch are known.
    """
    for run in context.draft.runs if context.draft else ():
        images = context.images.get(run.data_set)
        if images is None or run.program is not None or run.unknown or run.batch_size <= images:
            continue
        given = re.compile(rf"{re.escape(run.script)}\b.*\b{run.option_batch}\b", re.S)
        line = next((command.line for command in job.launches if given.search(command.text)), 1)
        yield Hit(line, f"A batch of {run.batch_size:,} images is more than the {images:,} of the data set.")


@rule("var-blank", "error", over="shells")
def var_blank(_context: ScriptContext, job: JobScript) -> Iterator[Hit]:
    """A space beside the `=` of an assignment.

    `VAR= value` runs `value` with an empty VAR; `VAR =value` runs VAR. `IFS= read` is intended.
    """
    for command in job.commands:
        line = job.lines[command.line - 1]
        if (match := _BAD_ASSIGNMENT.match(line)) is not None:
            effect = "With a space beside = bash runs this as a command; the variable stays empty."
            fixed = line[: match.start("gap")] + "=" + line[match.end("gap") :]
            yield Hit(command.line, effect, replace_line(job, command.line, fixed, "remove the space"))


# --------------------------------------------------------------------------- tasks, cores and nodes

_TASK_RANK = re.compile(r"(?<!\\)\$(?=\{?(?:SLURM_PROCID|SLURM_NODEID|SLURM_LOCALID)\b)")


@rule("rank-in-quotes", "error", over="shells")
def rank_in_quotes(context: ScriptContext, job: JobScript) -> Iterator[Hit]:
    """`$SLURM_PROCID` filled in by the batch shell: the same for all tasks.

    In ``srun ... bash -c "..."`` and in variables the batch shell fills the rank in before the tasks start.

    A single task has rank 0 anyway, and torchrun's c10d rendezvous assigns ranks itself.
    """
    for command in job.filled:
        ranks = list(RANK.finditer(command.text))
        if not ranks or not re.search(r"\bsrun\b", command.text):
            continue
        if job in context.jobs and _one_task(job, command.text):
            continue
        number = int(ranks[0][2])
        effect = "The batch shell fills it in before srun starts the tasks: every task gets rank 0."
        tolerated = re.search(r"--rdzv[_-]backend[= ]+c10d\b", command.text) is not None
        effect += " The c10d rendezvous tolerates that; a static one hangs." if tolerated else ""
        lines = range(number, len(job.lines) + 1)
        at = next((n for n in lines if _TASK_RANK.search(job.lines[n - 1])), number)
        fix = None
        if re.search(r"\b(?:ba)?sh\s+-l?c\b", command.text):
            fixed = _TASK_RANK.sub(r"\\$", job.lines[at - 1])
            fix = replace_line(job, at, fixed, "put a backslash before the $")
        yield Hit(at, effect, fix, "warning" if tolerated else "error")


def _one_task(job: JobScript, command: str) -> bool:
    """Whether a step has a single task, whose rank is always 0."""
    found = re.search(r"\bsrun\b((?:\s+-{1,2}\w[\w-]*(?:=\S*|\s+[^\s-]\S*)?)*)", command)
    options = found[1] if found else ""
    nodes = re.search(r"\s(?:-N|--nodes)[= ]?(\d{1,6})", options)
    tasks = re.search(r"\s(?:-n|--ntasks)[= ]?(\d{1,6})", options)
    if tasks:
        return int(tasks[1]) == 1
    counted = job.has("nodes") or job.has("ntasks") or job.has("ntasks-per-node")
    return counted and (int(nodes[1]) if nodes else job.nodes) * job.tasks_per_node == 1


@rule("one-node-used", "error")
def one_node_used(_context: ScriptContext, job: JobScript) -> Iterator[Hit]:
    """Several nodes, and nothing that starts a process on more than one.

    A batch script runs on the first node only; `srun` or `mpirun` start processes on the others.
    """
    if job.nodes < 2 or not job.launches or any(_STARTERS.search(c.text) for c in job.filled):
        return
    effect = f"Only the first of the {job.nodes} nodes runs the script: start the training with srun."
    yield value_hit(job, "nodes", effect, "1", title="ask for one node")


_STEP = re.compile(
    r"\bsrun\b(?P<options>.*?)\s(?:(?:bsc_)?singularity|apptainer|(?:ba)?sh|python[\d.]*|torchrun)\b", re.S
)


@rule("srun-cpus", "warning")
def srun_cpus(_context: ScriptContext, job: JobScript) -> Iterator[Hit]:
    """`srun` without the CPU cores that the job asked for: one core a task.

    Since Slurm 22.05 srun does not take ``--cpus-per-task`` from the job, and bound tasks get one core each.
    """
    if (job.cpus or 1) < 2 or "SRUN_CPUS_PER_TASK" in job.text:
        return
    for command in job.launches:
        step = _STEP.search(command.text)
        options = step["options"] if step else "$"
        if re.search(r"[${]|--cpus-per-task\b|\s-c\s*\d|--exclusive\b|--overlap\b", options):
            continue
        effect = f"srun may give a task one core, not {job.cpus}: since Slurm 22.05 it needs --cpus-per-task."
        new = 'srun --cpus-per-task="$SLURM_CPUS_PER_TASK"'
        yield Hit(command.line, effect, swap(job, command, r"\bsrun\b", new, "give srun the cores"))


_LIST = r"\$(?:SLURM_(?:JOB_)?NODELIST\b|\{SLURM_(?:JOB_)?NODELIST\})"
_CUT = re.compile(rf"\$\{{SLURM_(?:JOB_)?NODELIST(?:[%#/]|:\d)|{_LIST}[\"']?\s*\|\s*(?:cut|awk|sed|head)\b")


@rule("cut-node-list", "error")
def cut_node_list(_context: ScriptContext, job: JobScript) -> Iterator[Hit]:
    """The first node's name cut from Slurm's short list of nodes.

    Several nodes are written as ``as01r1b[01-02]``; ``scontrol show hostnames`` expands them.
    """
    for number, line in job.code if job.nodes > 1 else ():
        code = without_comment(line)
        if not _CUT.search(code) or "scontrol" in code or "\\[" in code or PRINTS.match(code):
            continue
        effect = "Cutting node[01-02] gives no host name: `scontrol show hostnames` lists the nodes."
        yield Hit(number, effect)
