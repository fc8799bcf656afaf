"""The commands of a job script: what runs, on which GPUs and nodes, and whether its failure would be seen."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from labtui.domain.model import SubmissionDraft
from labtui.preflight.directives import gpus_of, node_gpus
from labtui.preflight.findings import (
    Edit,
    Finding,
    Fix,
    ScriptContext,
    Severity,
    found,
    physical,
    replace_line,
    rule,
    set_value,
)
from labtui.slurm.batch_script import JobScript, ScriptCommand, without_comment
from labtui.slurm.script_commands import RANK, FilledCommand

CONTAINER_EXEC = re.compile(r"\b(?:bsc_)?(?:singularity|apptainer)\b(?P<options>.*?)\b(?:exec|run|shell)\b")
_BAD_ASSIGNMENT = re.compile(
    r"^(?P<head>\s*(?:export\s+)?(?P<name>[A-Za-z_]\w*))(?P<gap>=[ \t]+|[ \t]+=[ \t]*)(?=[\"'/$.~\d])"
)
_CLEAN_UP = re.compile(
    r"^\s*(?:rm|mv|cp|rmdir|touch|echo|printf|date|sleep|tar|gzip|rsync|module|deactivate|true|:|kill|mail|chmod|ls|nvidia-smi)\b"
)
_SELF = re.compile(r"\$\{?BASH_SOURCE\b|\bdirname\b[^)]*\$\{?0\b")
_SELF_DIR = re.compile(
    r"\"?\$\(\s*(?:cd\s+[^&;]*&&\s*)?(?:dirname|realpath)\b[^()]*(?:BASH_SOURCE|\$0|\$\{0)[^()]*\)\"?"
)


def _swap(job: JobScript, command: ScriptCommand, pattern: str, new: str, title: str) -> Fix | None:
    """A fix in the first physical line of a command where the pattern is found."""
    for number, line in physical(job, command.line, command.end):
        code = without_comment(line)
        changed = re.sub(pattern, new, code, count=1)
        if changed != code:
            return replace_line(job.name, number, line, changed + line[len(code) :], title)
    return None


@rule("no-nv", "error", "A container without `--nv` in a GPU job: it silently trains on the CPU.")
def no_nv(context: ScriptContext) -> Iterator[Finding]:
    """Only where GPUs are asked for, and not where a variable that only the job knows may hold the flag."""
    for job in context.jobs:
        for command in _once(job.filled) if job.gpus else ():
            match = CONTAINER_EXEC.search(command.text)
            if match is None or re.search(r"--nv(?:ccli)?\b|--rocm\b", command.text):
                continue
            if "$" in _before_program(command.text[match.end() :]) or "$" in match["options"]:
                continue
            effect = "Without --nv the container sees no GPU; TensorFlow then uses the CPU, 15 times slower."
            source = job.source(command)
            fix = _swap(job, source, r"\b(exec|run|shell)\b(?=\s)", r"\1 --nv", "add --nv")
            yield found("no-nv", job.name, command.line, job.lines[command.line - 1], effect, fix=fix)


def _before_program(text: str) -> str:
    """The options of a container and its image: what stands before the program that runs in it."""
    return re.split(r"\s(?:python[\d.]*|torchrun|bash|sh)\b", text, maxsplit=1)[0]


def _once(commands: Iterable[FilledCommand]) -> Iterator[FilledCommand]:
    """Each command of the script once, whatever loop it stands in."""
    return (command for command in commands if not command.repeated)


@rule("gpu-count", "error", "Trainings that use more or fewer GPUs than the job has.")
def gpu_count(context: ScriptContext) -> Iterator[Finding]:
    """`--n_gpus` against `--gres`: too many cannot work, too few leave GPUs idle for the whole job."""
    for job in context.jobs:
        request = job.gres_line
        used = [(n, c) for c in job.launches if (n := _used(c.text)) is not None]
        if not job.gpus or request is None or not used or job.gpus > node_gpus(context):
            continue
        most, command = max(used, key=lambda item: item[0])
        line = job.lines[command.line - 1]
        if most > job.gpus:
            effect = f"The training wants {most} GPUs and the job has {job.gpus}."
            fix = _swap(
                job,
                job.source(command),
                rf"(--n_gpus[= ]+){most}\b",
                rf"\g<1>{job.gpus}",
                f"train on {job.gpus} GPU{'s' * (job.gpus != 1)}",
            )
            yield found("gpu-count", job.name, command.line, line, effect, fix=fix)
        elif most < job.gpus and len(used) == len(job.launches) and not _several_at_once(job):
            effect = (
                f"No training uses more than {most} of the {job.gpus} GPUs; the rest idle and are charged."
            )
            value = re.sub(r"\d+$", str(most), request.value)
            fix = set_value(job, request.line, request.value, value, f"ask for {most}")
            yield found(
                "gpu-count", job.name, request.line, request.text, effect, fix=fix, severity="warning"
            )


def _used(command: str) -> int | None:
    if re.search(r"_seq\.py\b", command):
        return 1
    return gpus_of(command)


def _several_at_once(job: JobScript) -> bool:
    """Whether trainings run beside each other, so that each may have its own GPUs."""
    return any(job.source(command).text.rstrip().endswith("&") for command in job.launches)


@rule("one-epoch", "warning", "A single epoch: it is the warm-up, so there is no steady time.")
def one_epoch(context: ScriptContext) -> Iterator[Finding]:
    """And Keras prints no "Epoch" line for it."""
    if context.draft is not None and _search(context.draft):
        return
    for job in context.jobs:
        for command in _once(job.launches):
            if re.search(r"--(?:num_)?epochs[= ]+1(?!\d)", command.text):
                effect = "The first epoch is warm-up and does not count; one epoch measures nothing."
                pattern = r"(--(?:num_)?epochs[= ]+)1\b"
                fix = _swap(job, job.source(command), pattern, r"\g<1>2", "train two epochs")
                yield found("one-epoch", job.name, command.line, job.lines[command.line - 1], effect, fix=fix)


def _search(draft: SubmissionDraft) -> bool:
    """Whether a job tries several batches to find the one that fits; it measures no time."""
    batches = {run.batch_size for run in draft.runs}
    return len(batches) > 1 and all(run.epochs == 1 and run.n_gpus == 1 for run in draft.runs)


@rule("var-blank", "error", "A space beside the `=` of an assignment.")
def var_blank(context: ScriptContext) -> Iterator[Finding]:
    """`VAR= value` runs `value` with an empty VAR; `VAR =value` runs VAR. `IFS= read` is meant."""
    for job in context.shells:
        for command in job.commands:
            line = job.lines[command.line - 1]
            match = _BAD_ASSIGNMENT.match(line)
            if match is None or match["name"] == "IFS":
                continue
            effect = "Not an assignment to bash: it runs what follows the space; the variable stays empty."
            fixed = line[: match.start("gap")] + "=" + line[match.end("gap") :]
            fix = replace_line(job.name, command.line, line, fixed, "remove the space")
            yield found("var-blank", job.name, command.line, line, effect, fix=fix)


@rule("rank-in-quotes", "error", "`$SLURM_PROCID` filled in by the batch shell: the same for all tasks.")
def rank_in_quotes(context: ScriptContext) -> Iterator[Finding]:
    """In ``srun ... bash -c "..."`` and in variables the batch shell fills the rank in before the tasks start.

    One task has one rank anyway, and torchrun's c10d rendezvous gives out ranks of its own.
    """
    for job in context.shells:
        main = job.name in {item.name for item in context.jobs}
        for command in _once(job.filled):
            ranks = list(RANK.finditer(command.text))
            if (
                not ranks
                or not re.search(r"\bsrun\b", command.text)
                or (main and _one_task(job, command.text))
            ):
                continue
            number = int(ranks[0][2])
            effect = "The batch shell fills it in before srun starts the tasks: every task gets rank 0."
            severity: Severity = "error"
            if re.search(r"--rdzv[_-]backend[= ]+c10d\b", command.text):
                severity = "warning"
                effect += " The c10d rendezvous tolerates that; a static one hangs."
            at = next(
                (n for n in range(number, len(job.lines) + 1) if _RANK.search(job.lines[n - 1])), number
            )
            fix = _rank_escaped(job, at) if re.search(r"\b(?:ba)?sh\s+-l?c\b", command.text) else None
            text = job.lines[at - 1]
            yield found("rank-in-quotes", job.name, at, text, effect, fix=fix, severity=severity)


_RANK = re.compile(r"(?<!\\)\$(?=\{?(?:SLURM_PROCID|SLURM_NODEID|SLURM_LOCALID)\b)")


def _one_task(job: JobScript, command: str) -> bool:
    """Whether a step has a single task: its rank is 0 wherever it is filled in."""
    found = re.search(r"\bsrun\b((?:\s+-{1,2}\w[\w-]*(?:=\S*|\s+[^\s-]\S*)?)*)", command)
    options = found[1] if found else ""
    nodes = re.search(r"\s(?:-N|--nodes)[= ]?(\d{1,6})", options)
    tasks = re.search(r"\s(?:-n|--ntasks)[= ]?(\d{1,6})", options)
    if tasks:
        return int(tasks[1]) == 1
    counted = job.has("nodes") or job.has("ntasks") or job.has("ntasks-per-node")
    return counted and (int(nodes[1]) if nodes else job.nodes) * job.tasks_per_node == 1


def _rank_escaped(job: JobScript, number: int) -> Fix | None:
    line = job.lines[number - 1]
    return replace_line(job.name, number, line, _RANK.sub(r"\\$", line), "put a backslash before the $")


@rule("one-node-used", "error", "Several nodes, and nothing that starts a process on more than one.")
def one_node_used(context: ScriptContext) -> Iterator[Finding]:
    """A batch script runs on the first node alone; `srun` or `mpirun` start the others."""
    starters = r"\b(?:srun|mpirun|mpiexec|mpiexec\.hydra|pdsh|ssh|horovodrun|deepspeed|prun|ibrun|parallel)\b"
    for job in context.jobs:
        if job.nodes < 2 or not job.launches or any(re.search(starters, c.text) for c in job.filled):
            continue
        given = job.last("nodes")
        effect = (
            f"The script runs on the first of the {job.nodes} nodes alone; start the training with srun,"
            " or the others idle and are charged."
        )
        line = given.line if given else 1
        fix = set_value(job, line, given.value, "1", "ask for one node") if given else None
        yield found("one-node-used", job.name, line, job.lines[line - 1], effect, fix=fix)


_STARTS = re.compile(r"\b(?:srun|mpirun|mpiexec(?:\.hydra)?|torchrun)\b")
_NO_TRAINING = re.compile(
    r"\b(?:hostname|nvidia-smi|scontrol|date|echo|printf|true|sleep|mkdir|cp|rsync|rm)\b|--overlap\b"
)
_OF_NODES = re.compile(r"(?:\bsrun\b.*?\s(?:-N\s*|--nodes[= ])|--nnodes[= ])(\d{1,5})\b", re.S)
_OF_TASKS = re.compile(
    r"\b(?:srun|mpirun|mpiexec(?:\.hydra)?)\b.*?\s(?:-np?\s*|--ntasks[= ])(\d{1,6})\b", re.S
)


@rule("held-nodes", "warning", "A step that uses some of the job's nodes while the job holds all of them.")
def held_nodes(context: ScriptContext) -> Iterator[Finding]:
    """One job for all sizes, say; steps side by side, each on its nodes, are meant."""
    for job in context.jobs:
        if job.nodes < 2 or _several_at_once(job) or any(c.text.rstrip().endswith("&") for c in job.commands):
            continue
        steps = [c for c in job.filled if _STARTS.search(c.text) and not _NO_TRAINING.search(c.text)]
        smallest = min(steps, key=lambda step: _nodes_of(job, step.text), default=None)
        if smallest is None or (used := _nodes_of(job, smallest.text)) >= job.nodes:
            continue
        effect = f"It uses {used} of {job.nodes} nodes; the job holds all of them to its end, and they are charged."
        effect += " A job for each size costs less."
        yield found("held-nodes", job.name, smallest.line, job.lines[smallest.line - 1], effect)


def _nodes_of(job: JobScript, command: str) -> int:
    """Nodes that a step uses, as far as its text tells; else those of the job."""
    nodes, tasks = _OF_NODES.search(command), _OF_TASKS.search(command)
    if nodes:
        return int(nodes[1])
    if tasks and re.search(r"\bsrun\b", command):
        return min(
            job.nodes, int(tasks[1])
        )  # srun spreads them over all nodes, mpirun fills one after the other
    if tasks and (job.has("ntasks-per-node") or job.has("ntasks")):
        return -(-int(tasks[1]) // job.tasks_per_node)
    return job.nodes


_BUILDS_MPI = re.compile(r"\bmpi(?:cc|cxx|c\+\+|icc|icpc|icx|f90|fort|ifort)\b.*?\s-o\s*(\S+)", re.S)
_MPI_NAME = re.compile(r"(?:^|[_-])mpi(?:[_.-]|$)", re.IGNORECASE)
_MPI_TWICE = re.compile(r"\bsrun\b[^|;&]*?\s(?=mpi(?:run|exec)\b)")


@rule("mpi-start", "error", "An MPI program whose processes nothing starts, or that are started twice.")
def mpi_start(context: ScriptContext) -> Iterator[Finding]:
    """`srun` or `mpirun` start them, not both; torchrun and TensorFlow need no MPI."""
    for job in context.jobs:
        several = job.nodes * job.tasks_per_node > 1
        built = {match[1].rpartition("/")[2] for c in job.filled if (match := _BUILDS_MPI.search(c.text))}
        for command in _once(job.filled):
            line = job.lines[command.line - 1]
            source, program = job.source(command), _mpi_program(context, command.text, built)
            severity: Severity = "error"
            if _MPI_TWICE.search(command.text) and not _one_task(job, command.text):
                effect = "srun starts mpirun in every task, and each mpirun starts all processes once more."
                fix = _swap(job, source, _MPI_TWICE.pattern, "", "let mpirun start them")
            elif program and re.search(r"\bsrun\b.*--mpi[= ]none\b", command.text):
                effect = f"With --mpi=none the tasks of {program} do not connect to each other: each is rank 0 of 1."
                fix = _swap(job, source, r"\s--mpi[= ]none\b", "", "use the site's own")
            elif program and several and not _STARTS.search(command.text):
                effect = f"{program} runs as one process: srun or mpirun starts the others."
                severity = "warning"
                fix = _swap(job, source, r"^(\s*)", r"\1srun ", "start it with srun")
            else:
                continue
            yield found("mpi-start", job.name, command.line, line, effect, fix=fix, severity=severity)


def _mpi_program(context: ScriptContext, command: str, built: set[str]) -> str:
    """The program of MPI's that a command runs, by its name, by what compiled it or by what it imports; else ""."""
    for word in re.findall(r"(?:^|\s)([^\s=$'\"-][^\s=$'\"]*)", command):
        name = str(word).rpartition("/")[2]
        text = next((text for file, text in context.files.items() if file.rpartition("/")[2] == name), "")
        if name.endswith(".py") and re.search(r"^\s*(?:from|import)\s+mpi4py\b", text, re.MULTILINE):
            return name
        starts = command[: command.find(word)].strip() == "" or _STARTS.search(command) is not None
        if starts and (name in built or (_MPI_NAME.search(name) and "." not in name.removesuffix(".x"))):
            return name
    return ""


_STEP = re.compile(
    r"\bsrun\b(?P<options>.*?)\s(?:(?:bsc_)?singularity|apptainer|(?:ba)?sh|python[\d.]*|torchrun)\b", re.S
)


@rule("srun-cpus", "warning", "`srun` without the CPU cores that the job asked for: one core a task.")
def srun_cpus(context: ScriptContext) -> Iterator[Finding]:
    """From Slurm 22.05 srun does not take ``--cpus-per-task`` from the job; where tasks are bound they get one core."""
    for job in context.jobs:
        if (job.cpus or 1) < 2 or "SRUN_CPUS_PER_TASK" in job.text:
            continue
        for command in _once(job.launches):
            step = _STEP.search(command.text)
            options = step["options"] if step else "$"
            if re.search(r"[${]|--cpus-per-task\b|\s-c\s*\d|--exclusive\b|--overlap\b", options):
                continue
            effect = f"srun may bind each task to one of its {job.cpus} cores: since 22.05 it needs --cpus-per-task."
            source = job.source(command)
            new = 'srun --cpus-per-task="$SLURM_CPUS_PER_TASK"'
            fix = _swap(job, source, r"\bsrun\b", new, "give srun the cores")
            yield found("srun-cpus", job.name, command.line, job.lines[command.line - 1], effect, fix=fix)


_MEETING = re.compile(r"--(?:rdzv[_-]endpoint[= ]+\S[^\n]*?:|master[_-]port[= ]+)(?P<port>\d{4,5})(?!\d)")
_OWN_PORT = "$((20000 + SLURM_JOB_ID % 10000))"


@rule("shared-port", "warning", "A fixed port that another job on the same node may also use.")
def shared_port(context: ScriptContext) -> Iterator[Finding]:
    """The second job waits in the first one's rendezvous and ends with it; whole nodes have nobody beside them."""
    profile = context.profile
    for job in context.jobs:
        whole = (
            job.gpus >= profile.gpus_per_node or (job.cpus or 0) * job.tasks_per_node >= profile.cpus_per_node
        )
        if job.has("exclusive") or whole:
            continue
        for command in _once(job.launches):
            match = _MEETING.search(command.text)
            if match is None:
                continue
            number = _line_of_port(job, match["port"], command)
            line = job.lines[number - 1]
            effect = f"Another job on this node that also uses port {match['port']} conflicts with this one"
            effect += "; take a port from the job's number."
            if not re.search(r"--rdzv[_-]id\b", command.text) and "--rdzv" in command.text:
                effect = effect.replace("conflicts with", "joins its processes to")
            fixed = re.sub(rf"([:= \"']){match['port']}(?!\d)", lambda m: m[1] + _OWN_PORT, line, count=1)
            fix = replace_line(job.name, number, line, fixed, "take the port from the job's number")
            yield found("shared-port", job.name, number, line, effect, fix=fix)


def _line_of_port(job: JobScript, port: str, command: FilledCommand) -> int:
    """The line where a port is written: an assignment before the command, or the command itself."""
    written = re.compile(rf"(?:^\s*(?:export\s+)?\w*PORT=[\"']?|[:= ]){port}(?!\d)", re.IGNORECASE)
    places = (number for number, line in job.code if not line.startswith("#") and written.search(line))
    return next(places, command.line)


_LIST = r"\$(?:SLURM_(?:JOB_)?NODELIST\b|\{SLURM_(?:JOB_)?NODELIST\})"
_CUT = re.compile(rf"\$\{{SLURM_(?:JOB_)?NODELIST[^}}]|{_LIST}[\"']?\s*\|\s*(?:cut|awk|sed|tr|head|grep)\b")
_FIRST_NODE = '$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)'


@rule("cut-node-list", "error", "The first node's name cut from Slurm's short list of nodes.")
def cut_node_list(context: ScriptContext) -> Iterator[Finding]:
    """Several nodes stand as ``as01r1b[01-02]``; ``scontrol show hostnames`` writes them out."""
    for job in context.jobs:
        if job.nodes < 2:
            continue
        for number, line in job.code:
            code = without_comment(line)
            if not _CUT.search(code) or "scontrol" in code:
                continue
            effect = (
                "Slurm lists several nodes as node[01-02]: a part cut from that text is no host name, so the"
            )
            effect += " processes cannot connect."
            value = re.match(r"(\s*(?:export\s+)?[A-Za-z_]\w*=)(?:\S*|\"[^\"]*\"|\$\(.*\))\s*$", code)
            fix = None
            if value is not None:
                fixed = value[1] + _FIRST_NODE + line[len(code) :]
                fix = replace_line(job.name, number, line, fixed, "ask Slurm for the first node")
            yield found("cut-node-list", job.name, number, line, effect, fix=fix)


@rule("one-node-sampled", "warning", "GPU samples of the first of several nodes alone.")
def one_node_sampled(context: ScriptContext) -> Iterator[Finding]:
    """A batch script runs on the first node; a sampler of each node is a job step beside the training."""
    for job in context.jobs:
        for command in job.commands if job.nodes > 1 else ():
            looping = r"\bnvidia-smi\b.*(?:\s-l\b|\s-lms\b|--loop|\bdmon\b|\bpmon\b)"
            if not re.search(looping, command.text, re.S) or re.search(r"\bsrun\b", command.text):
                continue
            effect = f"It samples the first of {job.nodes} nodes; "
            effect += "`srun --overlap --ntasks-per-node=1` starts one on each."
            line = job.lines[command.line - 1]
            yield found("one-node-sampled", job.name, command.line, line, effect)


@rule(
    "nccl-log",
    "warning",
    "`NCCL_DEBUG=INFO` on several nodes: its lines from all ranks bury the training's.",
)
def nccl_log(context: ScriptContext) -> Iterator[Finding]:
    """Each rank writes dozens of lines, in between those of the others; `NCCL_DEBUG_FILE` keeps them apart."""
    for job in context.jobs:
        if job.nodes < 2 or "NCCL_DEBUG_FILE" in job.text:
            continue
        for number, line in job.code:
            if line.lstrip().startswith("#") or not re.search(r"\bNCCL_DEBUG=[\"']?(?:INFO|TRACE)\b", line):
                continue
            fixed = re.sub(r"(\bNCCL_DEBUG=[\"']?)(?:INFO|TRACE)\b", r"\1WARN", line)
            effect = "Every rank writes what NCCL does into the log, between the lines of the training; WARN is enough."
            fix = replace_line(job.name, number, line, fixed, "log warnings only")
            yield found("nccl-log", job.name, number, line, effect, fix=fix)


@rule("loader-workers", "warning", "More data loader processes than CPU cores.")
def loader_workers(context: ScriptContext) -> Iterator[Finding]:
    """`--num_workers` counts for each rank: 10 workers of 4 ranks are 40 processes."""
    for job in context.jobs:
        cores = (job.cpus or 0) * job.tasks_per_node
        for command in _once(job.launches) if cores else ():
            match = re.search(
                r"--(?:num_workers|num-workers|workers|dataloader_num_workers)[= ]+(\d{1,4})\b", command.text
            )
            ranks = re.search(r"--nproc[_-]per[_-]node[= ]+(\d{1,3})\b", command.text)
            each = int(ranks[1]) if ranks else 1
            if match is None or int(match[1]) * each * job.tasks_per_node <= cores:
                continue
            processes = f"{match[1]} workers" if each == 1 else f"{each} ranks with {match[1]} workers each"
            effect = (
                f"{processes} share {cores} CPU cores of a node: they wait for each other instead of loading."
            )
            line = job.lines[command.line - 1]
            yield found("loader-workers", job.name, command.line, line, effect)


@rule("hidden-status", "warning", "A clean-up command at the end hides the training's failure.")
def hidden_status(context: ScriptContext) -> Iterator[Finding]:
    """A script's exit status is that of its last command."""
    for job in context.jobs:
        if not job.trainings or not job.commands or job.commands[-1] in job.trainings:
            continue
        last, training = job.commands[-1], job.trainings[-1]
        guarded = any(re.match(r"^\s*(?:set\s+-\w*e|exit\b|trap\b.*\bERR\b)", c.text) for c in job.commands)
        if guarded or not _CLEAN_UP.match(last.text) or "||" in training.text or last.line < training.end:
            continue
        effect = "The last command's status becomes the job's: a failed training looks like a success."
        end = job.lines[training.end - 1]
        close = job.lines[last.end - 1]
        edits = (
            Edit(training.end, end, (f"{without_comment(end).rstrip()} || status=$?",)),
            Edit(last.end, close, (close, "exit ${status:-0}")),
        )
        fix = Fix(job.name, "end with the training's status", edits)
        yield found("hidden-status", job.name, last.line, job.lines[last.line - 1], effect, fix=fix)


# --------------------------------------------------------------------------- where it runs


@rule("script-location", "error", "`$BASH_SOURCE` or `dirname $0`: the copy Slurm made, not your script.")
def script_location(context: ScriptContext) -> Iterator[Finding]:
    """Slurm runs a copy of the script from its spool directory."""
    for job in context.jobs:
        for command in job.commands:
            if not _SELF.search(command.text):
                continue
            line = job.lines[command.line - 1]
            fixed = _SELF_DIR.sub('"$SLURM_SUBMIT_DIR"', line)
            effect = "Slurm runs a copy in its own directory; your files are in $SLURM_SUBMIT_DIR."
            fix = replace_line(job.name, command.line, line, fixed, "use $SLURM_SUBMIT_DIR")
            yield found("script-location", job.name, command.line, line, effect, fix=fix)
