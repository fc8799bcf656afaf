"""The commands of a job script: what runs, in which environment, and whether its failure would be seen."""

from __future__ import annotations

import re
from collections.abc import Iterator

from labtui.core.model import SubmissionDraft
from labtui.core.preflight.context import Context, comment_out, found, physical, replace_line, rule, set_value
from labtui.core.preflight.findings import Edit, Finding, Fix, Severity
from labtui.core.preflight.script import Command, JobScript, without_comment

_EXEC = re.compile(r"\b(?:singularity|apptainer)\b(?P<options>.*?)\b(?:exec|run|shell)\b")
_BAD_ASSIGNMENT = re.compile(
    r"^(?P<head>\s*(?:export\s+)?(?P<name>[A-Za-z_]\w*))(?P<gap>=[ \t]+|[ \t]+=[ \t]*)(?=[\"'/$.~\d])"
)
_RANK = re.compile(r"(?<!\\)\$(?=\{?(?:SLURM_PROCID|SLURM_NODEID|SLURM_LOCALID)\b)")
_CLEAN_UP = re.compile(
    r"^\s*(?:rm|mv|cp|rmdir|touch|echo|printf|date|sleep|tar|gzip|rsync|module|deactivate|true|:|kill|mail|chmod|ls|nvidia-smi)\b"
)
_DOWNLOAD = re.compile(
    r"^\s*(?:(?:sudo|srun|time)\s+)*(?:wget|curl|git\s+(?:clone|pull)|pip3?\s+(?:install|download)|"
    r"python[\d.]*\s+-m\s+pip\s+install|conda\s+(?:install|create)|huggingface-cli\s+download|singularity\s+pull|docker\s+pull)\b"
)
_SELF = re.compile(r"\$\{?BASH_SOURCE\b|\bdirname\b[^)]*\$\{?0\b")
_SELF_DIR = re.compile(
    r"\"?\$\(\s*(?:cd\s+[^&;]*&&\s*)?(?:dirname|realpath)\b[^()]*(?:BASH_SOURCE|\$0|\$\{0)[^()]*\)\"?"
)
_AT_HOME = re.compile(r"^(?:/gpfs)?/home(?:/|$)|^~|^\$\{?HOME\b")


def _number(command: Command, option: str) -> int | None:
    match = re.search(rf"--{option}[= ]+(\d{{1,6}})\b", command.text)
    return int(match[1]) if match else None


def _swap(job: JobScript, command: Command, pattern: str, new: str, title: str) -> Fix | None:
    """A fix in the first physical line of a command where the pattern is found."""
    for number, line in physical(job, command.line, command.end):
        code = without_comment(line)
        changed = re.sub(pattern, new, code, count=1)
        if changed != code:
            return replace_line(job.name, number, line, changed + line[len(code) :], title)
    return None


@rule(
    "no-nv",
    "error",
    "launch",
    "A container without `--nv` in a GPU job: it trains on the CPU without a word.",
)
def no_nv(context: Context) -> Iterator[Finding]:
    """Only where GPUs are asked for."""
    for job in context.jobs:
        for command in job.commands if job.gpus else ():
            match = _EXEC.search(command.text)
            if match and not re.search(r"--nv(?:ccli)?\b|--rocm\b", command.text):
                effect = (
                    "Without --nv the container sees no GPU; TensorFlow then uses the CPU, 15 times slower."
                )
                fix = _swap(job, command, r"\b(exec|run|shell)\b(?=\s)", r"\1 --nv", "add --nv")
                line = job.lines[command.line - 1]
                yield found("no-nv", job.name, command.line, line, effect, fix=fix)


@rule("gpu-count", "error", "launch", "Trainings that use more or fewer GPUs than the job has.")
def gpu_count(context: Context) -> Iterator[Finding]:
    """`--n_gpus` against `--gres`: too many cannot work, too few leave GPUs idle for the whole job."""
    for job in context.jobs:
        asked = job.gres_line
        used = [(n, c) for c in job.trainings if (n := _used(c)) is not None]
        if not job.gpus or asked is None or not used:
            continue
        most, command = max(used, key=lambda item: item[0])
        line = job.lines[command.line - 1]
        if most > job.gpus:
            effect = f"The training wants {most} GPUs and the job has {job.gpus}."
            fix = _swap(
                job,
                command,
                rf"(--n_gpus[= ]+){most}\b",
                rf"\g<1>{job.gpus}",
                f"train on {job.gpus} GPU{'s' * (job.gpus != 1)}",
            )
            yield found("gpu-count", job.name, command.line, line, effect, fix=fix)
        elif most < job.gpus:
            effect = (
                f"No training uses more than {most} of the {job.gpus} GPUs; the rest idle and are charged."
            )
            value = re.sub(r"\d+$", str(most), asked.value)
            fix = set_value(job, asked.line, asked.value, value, f"ask for {most}")
            yield found("gpu-count", job.name, asked.line, asked.text, effect, fix=fix, severity="warning")


def _used(command: Command) -> int | None:
    if re.search(r"_seq\.py\b", command.text):
        return 1
    return _number(command, "n_gpus")


@rule("one-epoch", "warning", "launch", "A single epoch: the only one measured is the one to be thrown away.")
def one_epoch(context: Context) -> Iterator[Finding]:
    """And Keras prints no "Epoch" line for it."""
    if context.draft is not None and _search(context.draft):
        return
    for job in context.jobs:
        for command in job.trainings:
            if _number(command, "epochs") == 1:
                effect = "The first epoch is warm-up and does not count; one epoch measures nothing."
                fix = _swap(job, command, r"(--epochs[= ]+)1\b", r"\g<1>2", "train two epochs")
                yield found("one-epoch", job.name, command.line, job.lines[command.line - 1], effect, fix=fix)


def _search(draft: SubmissionDraft) -> bool:
    """Whether a job tries several batches to find the one that fits; it measures no time."""
    batches = {run.batch_size for run in draft.runs}
    return len(batches) > 1 and all(run.epochs == 1 and run.n_gpus == 1 for run in draft.runs)


@rule("var-blank", "error", "launch", "A blank beside the `=` of an assignment.")
def var_blank(context: Context) -> Iterator[Finding]:
    """`VAR= value` runs `value` with an empty VAR; `VAR =value` runs VAR. `IFS= read` is meant."""
    for job in context.shells:
        for command in job.commands:
            line = job.lines[command.line - 1]
            match = _BAD_ASSIGNMENT.match(line)
            if match is None or match["name"] == "IFS":
                continue
            effect = "No assignment to bash: it runs what stands behind the blank; the variable stays empty."
            fixed = line[: match.start("gap")] + "=" + line[match.end("gap") :]
            fix = replace_line(job.name, command.line, line, fixed, "close the gap")
            yield found("var-blank", job.name, command.line, line, effect, fix=fix)


@rule(
    "rank-in-quotes", "error", "launch", "`$SLURM_PROCID` in double quotes: expanded once, the same for all."
)
def rank_in_quotes(context: Context) -> Iterator[Finding]:
    """In `srun ... bash -c "..."` the outer shell fills in the rank before the tasks start."""
    for job in context.shells:
        for command in job.commands:
            quoted = re.search(r"\b(?:ba)?sh\s+-l?c\s+\"(?P<inner>(?:\\.|[^\"\\])*)\"", command.text)
            if not quoted or "srun" not in command.text or not _RANK.search(quoted["inner"]):
                continue
            effect = (
                "The batch shell fills it in before srun starts the tasks: every task believes it is rank 0."
            )
            fix = _ranks_escaped(job, command)
            yield found(
                "rank-in-quotes", job.name, command.line, job.lines[command.line - 1], effect, fix=fix
            )


def _ranks_escaped(job: JobScript, command: Command) -> Fix | None:
    edits = tuple(
        Edit(number, line, (_RANK.sub(r"\\$", line),))
        for number, line in physical(job, command.line, command.end)
        if _RANK.search(line)
    )
    return Fix(job.name, "put a backslash before the $", edits) if edits else None


@rule("hidden-status", "warning", "launch", "A clean-up command at the end hides the training's failure.")
def hidden_status(context: Context) -> Iterator[Finding]:
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


@rule(
    "script-location",
    "error",
    "launch",
    "`$BASH_SOURCE` or `dirname $0`: the copy Slurm made, not your script.",
)
def script_location(context: Context) -> Iterator[Finding]:
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


@rule("home-directory", "warning", "launch", "Running from the home file system.")
def home_directory(context: Context) -> Iterator[Finding]:
    """Homes are small and slow; the site wants jobs under scratch or projects."""
    if context.profile.status != "current":
        return
    for job in context.jobs:
        chdir = job.last("chdir")
        if chdir and _AT_HOME.match(chdir.value):
            fix = set_value(job, chdir.line, chdir.value, ".", "stay where it was submitted")
            yield _home(job, chdir.line, fix)
        for command in job.commands:
            match = re.match(r"^\s*cd\s+[\"']?(?P<to>\S+?)[\"']?\s*$", command.text)
            if match and _AT_HOME.match(match["to"]):
                yield _home(job, command.line, comment_out(job, command.line, "stay where it was submitted"))


def _home(job: JobScript, number: int, fix: Fix | None) -> Finding:
    effect = (
        "The home file system is small and not made for jobs; labtui's directory for this job is elsewhere."
    )
    return found("home-directory", job.name, number, job.lines[number - 1], effect, fix=fix)


# --------------------------------------------------------------------------- which software


@rule("download", "error", "launch", "A download inside the job: compute nodes have no internet.")
def download(context: Context) -> Iterator[Finding]:
    """`wget`, `git clone`, `pip install` and the like in a job script."""
    severity: Severity = "error" if context.profile.status == "current" else "warning"
    for job in context.shells:
        for command in job.commands:
            if _DOWNLOAD.match(command.text) and "localhost" not in command.text:
                effect = (
                    "Compute nodes reach no internet: this hangs until it times out. Send the files instead."
                )
                fix = comment_out(job, command.line, "leave it out") if command.line == command.end else None
                line = job.lines[command.line - 1]
                yield found("download", job.name, command.line, line, effect, fix=fix, severity=severity)


@rule("cpu-framework", "warning", "launch", "A framework built for CPUs only: the GPU stays unused.")
def cpu_framework(context: Context) -> Iterator[Finding]:
    """`tensorflow-cpu`, `+cpu` wheels: in commands and in requirements files."""
    pattern = re.compile(r"\btensorflow[-_]cpu\b|\btorch\S*\+cpu\b|whl/cpu\b|\bintel-tensorflow\b")
    texts = [(job.name, n, line, without_comment(line)) for job in context.shells for n, line in job.code]
    for name, text in context.files.items():
        if name.rpartition("/")[2].startswith("requirements") and name.endswith(".txt"):
            texts += [(name, n, line, line.partition("#")[0]) for n, line in enumerate(text.split("\n"), 1)]
    for name, number, line, code in texts:
        match = pattern.search(code)
        if match:
            effect = "This build has no GPU code in it: the job gets a GPU and trains on the CPU."
            fixed = code.replace("tensorflow-cpu", "tensorflow").replace("+cpu", "") + line[len(code) :]
            fix = replace_line(name, number, line, fixed, "take the build with GPU support")
            yield found("cpu-framework", name, number, line, effect, fix=fix)


@rule("python-leak", "warning", "launch", "PYTHONPATH or a Python module leaks into the container.")
def python_leak(context: Context) -> Iterator[Finding]:
    """The Python module sets PYTHONHOME and PYTHONPATH, and the container takes them over."""
    for job in context.jobs:
        starts = [c for c in job.commands if _EXEC.search(c.text)]
        if not starts or any("--cleanenv" in c.text or re.search(r"\s-e\s", c.text) for c in starts):
            continue
        for command in job.commands:
            if command.line >= starts[0].line:
                break
            leak = re.match(
                r"^\s*(?:export\s+)?PYTHON(?:PATH|HOME)=\S|^\s*module\s+(?:load|add)\b.*\bpython",
                command.text,
                re.I,
            )
            if leak:
                effect = "The container's Python would look for its packages outside the container."
                fix = comment_out(job, command.line, "leave it out")
                yield found(
                    "python-leak", job.name, command.line, job.lines[command.line - 1], effect, fix=fix
                )


@rule("no-purge", "warning", "launch", "Modules loaded on top of whatever the login shell had.")
def no_purge(context: Context) -> Iterator[Finding]:
    """Only where the cluster's profile purges modules first."""
    if not context.profile.launch.purge or not context.profile.launch.modules:
        return
    for job in context.jobs:
        loads = [c for c in job.commands if re.match(r"^\s*module\s+(?:load|add)\b", c.text)]
        purges = [c for c in job.commands if re.match(r"^\s*module\s+purge\b", c.text)]
        if loads and not any(purge.line < loads[0].line for purge in purges):
            line = job.lines[loads[0].line - 1]
            effect = (
                "A job inherits the modules of the shell that submitted it; purge them for a known start."
            )
            edit = Edit(loads[0].line, line, ("module purge", line))
            fix = Fix(job.name, "add module purge before it", (edit,))
            yield found("no-purge", job.name, loads[0].line, line, effect, fix=fix)
