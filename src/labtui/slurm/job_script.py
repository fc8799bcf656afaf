"""Renders job scripts from templates: the placeholders, their values, and the header lines that describe each run."""

import re
import shlex
from collections.abc import Mapping, Sequence
from urllib.parse import quote

import msgspec

from labtui.domain.errors import failure
from labtui.domain.model import PROCESS_PER_GPU, RunSpec, SubmissionDraft
from labtui.domain.profile import PLACE, Launch, Profile, fill, image_folder
from labtui.domain.run import join_names
from labtui.slurm.remote_command import shell_file
from labtui.slurm.values import duration_text

_DIRECTIVE_VALUE = re.compile(r"[A-Za-z0-9._+:=/@,%-]+")
PLACEHOLDER = re.compile(r"@\{([a-z][a-z0-9_]*)\}")
"""A placeholder ``@{name}``; one named ``..._lines`` is alone in its line and stands for any number of lines."""


def render(template: str, values: Mapping[str, str]) -> str:
    """Fill a template; each value becomes one quoted shell word, but is unquoted in directives and comments.

    Raises:
        TemplateError: for an unknown placeholder, or a value that is not allowed there.
    """
    if unknown := sorted(set(PLACEHOLDER.findall(template)) - values.keys()):
        raise failure("placeholder", name=unknown[0])
    rendered = []
    for line in template.split("\n"):
        block = PLACEHOLDER.fullmatch(line.strip())
        if block is None or not block[1].endswith("_lines"):
            rendered.append(_render_line(line, values))
        elif values[block[1]].strip():
            rendered.append(values[block[1]].rstrip("\n"))
    return "\n".join(rendered)


def _render_line(line: str, values: Mapping[str, str]) -> str:
    def word(place: re.Match[str]) -> str:
        value = _one_line(values[place[1]])
        if line.startswith("#SBATCH") and not _DIRECTIVE_VALUE.fullmatch(value):
            raise failure("directive-value", value=value, place=place[1].replace("_", " "))
        return value if line.startswith("#") else shlex.quote(value)

    return PLACEHOLDER.sub(word, line)


JOB_HEADER_END = "---- end ----"
"""Ends the lines about the job at the beginning of its log, and in its script the lines that print them."""
DATA_VARIABLE = "CIFAR10_DATA"
"""The environment variable in which `cifar-utils/cifar.py` looks for the data folder."""

STARTED_GUARD = shell_file("started-guard").partition("\n")[2]
"""Shell lines (``sh`` or ``bash``) that begin every job and end all but the first one in a directory."""

_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class JobContext(msgspec.Struct, frozen=True, kw_only=True):
    """What a job script needs besides its draft.

    `token` identifies the submission, `edition` is the lab's id, `practice` says whether the cluster is the practice
    cluster; `user` fills ``{user}`` in a profile's texts.
    """

    token: str
    edition: str
    practice: bool
    user: str = ""


def job_script(draft: SubmissionDraft, profile: Profile, context: JobContext, template: str) -> str:
    """The rendered job script, to be submitted in a directory of its own.

    Raises:
        TemplateError: when a value is not allowed in a job script.
    """
    _check(draft)
    mpi, programs = draft.form == "mpi", [run.program for run in draft.runs if run.program is not None]
    # For Slurm these are the cores of each task.
    cpus = max(1, draft.cpus // draft.gpus) if draft.form == "task-per-gpu" else draft.cpus
    build = dict.fromkeys(_one_line(line) for program in programs for line in program.build)
    values = {
        "title": _title(draft),
        "job_name": draft.job_name,
        "account_lines": _account_lines(draft, profile),
        "time": duration_text(60 * draft.time_limit_minutes),
        "token": context.token,
        "edition": context.edition,
        "task": draft.task_id,
        "form": draft.form,
        "practice": "yes" if context.practice else "no",
        "once_lines": STARTED_GUARD,
        "run_facts_lines": "\n".join(run_facts(i, run) for i, run in enumerate(draft.runs, start=1)),
        "setup_lines": "\n".join(_setup_lines(draft, profile, context)),
        "run_lines": "\n".join(_one_line(_run_line(run, draft, profile, context)) for run in draft.runs),
        "cpus": str(cpus),
        "gpus": str(draft.gpus),
        "gres": profile.gres,
        "gres_lines": f"#SBATCH --gres={profile.gres}:{draft.gpus}" if draft.gpus else "",
        "cpus_per_gpu": str(profile.cpus_per_gpu),
        "nodes": str(draft.nodes),
        "all_gpus": str(draft.total_gpus),
        "tasks": str(max(run.processes for run in draft.runs)),
        "cpus_per_task": str(_cpus_per_task(draft)) if mpi else "",
        "build_lines": "\n".join("build " + shlex.join(shlex.split(line)) for line in build),
    }
    return render(template, values)


def _cpus_per_task(draft: SubmissionDraft) -> int:
    """CPU cores of each process if the largest run fills the nodes evenly."""
    each = -(-max(run.processes for run in draft.runs) // draft.nodes)
    return max(1, draft.cpus // each)


def _run_line(run: RunSpec, draft: SubmissionDraft, profile: Profile, context: JobContext) -> str:
    """The line of the job that trains one run; the template sets ``step``, ``rank`` and ``meeting``."""
    if run.program is not None:
        # srun does not derive the nodes and cores of a smaller step itself.
        step = ["srun", f"--nodes={run.nodes}", f"--ntasks={run.processes}"]
        step += [f"--cpus-per-task={_cpus_per_task(draft)}"]
        step = ["mpirun", "-np", str(run.processes)] if run.launcher == "mpirun" else step
        return "run " + shlex.join((*step, *run.arguments, *run.extra_args))
    words = training_command(run, draft, profile, context)
    if draft.form == "srun-python":
        return f'run srun "${{step[@]}}" {shlex.join(words)}'
    if draft.form == "task-per-gpu":
        return f'run srun "${{step[@]}}" "${{rank[@]}}" {shlex.join(words)}'
    if draft.form != "torchrun":
        return "run " + shlex.join(words)
    at = words.index(run.script)
    return f'run srun "${{step[@]}}" {shlex.join(words[:at])} "${{meeting[@]}}" {shlex.join(words[at:])}'


def training_command(
    run: RunSpec, draft: SubmissionDraft, profile: Profile, context: JobContext
) -> tuple[str, ...]:
    """The words of the command that trains one run, for torchrun without its rendezvous options."""
    usual = profile.container_for(pytorch=any(each.launcher in PROCESS_PER_GPU for each in draft.runs))
    image = _fill(draft.container or usual, draft, profile, context)  # "" for plain Python
    words: list[str] = []
    if image:
        words += [profile.launch.runtime, "exec", *([] if draft.gpus == 0 else ["--nv"]), image]
    if run.launcher == "torchrun":
        alone = ["--standalone", f"--nproc_per_node={run.n_gpus}"] if draft.form != "torchrun" else []
        python = profile.launch.python  # a Python named by its path need not have its torchrun on PATH
        start = ["torchrun"] if image or "/" not in python else [python, "-m", "torch.distributed.run"]
        return (*words, *start, *alone, *_torch_options(run, draft, profile, context))
    if run.launcher == "task-per-gpu":
        return (*words, profile.launch.python, "-u", *_torch_options(run, draft, profile, context))
    words += [profile.launch.python, "-u", run.script]
    if run.launcher == "srun-python":
        words += ["--model", run.model, "--expect_workers", str(run.nodes)]
    words += ["--epochs", str(run.epochs), "--batch_size", str(run.option_batch)]
    if run.launcher != "srun-python" and not run.script.endswith("_seq.py"):
        # The sequential scripts have no --n_gpus; the others must be told to use a CPU.
        words += ["--device", "cpu"] if run.device == "cpu" else ["--n_gpus", str(run.n_gpus)]
    return (*words, *_last_options(run))


def _last_options(run: RunSpec) -> tuple[str, ...]:
    rate = () if run.learning_rate is None else ("--learning_rate", f"{run.learning_rate:g}")
    return (*rate, *run.extra_args)


def _torch_options(
    run: RunSpec, draft: SubmissionDraft, profile: Profile, context: JobContext
) -> tuple[str, ...]:
    """The words for a training script of the course's PyTorch chapters and its options."""
    if run.arguments:
        return (run.script, *run.arguments, *run.extra_args)
    data = run.data_set
    if run.reads_folder:
        folder = _fill(draft.data_dir or profile.data_folder(images=True), draft, profile, context)
        data = image_folder(folder, data)
    name = run.model.lower() if run.model.startswith("ResNet") else run.model  # the script's own names
    words = [run.script, "--model_name", name, *(["--dataset", data] if data else [])]
    words += ["--num_epochs", str(run.epochs), "--batch_size", str(run.option_batch)]
    return (*words, *_last_options(run))


def _check(draft: SubmissionDraft) -> None:
    if not draft.runs:
        raise failure("no-training")
    if not _FILE_NAME.fullmatch(draft.job_name) or len(draft.job_name) > 120:
        raise failure("job-name", name=draft.job_name)
    if draft.cpus < 1 or draft.time_limit_minutes < 1:
        raise failure("no-time")


def _title(draft: SubmissionDraft) -> str:
    """What the job trains, in words: ``Task 10.5: ResNet50 on 1, 2 and 4 GPUs``."""
    sizes: dict[str, list[str]] = {}
    for run in draft.runs:
        size = run.program.count_label(run.processes) if run.program is not None else run.devices
        sizes.setdefault(run.model, []).append(size.replace("CPU", "the CPU"))
    nodes = f" of {draft.nodes} nodes" if draft.nodes > 1 and draft.runs[0].program is None else ""
    parts = (f"{model} on {join_names(dict.fromkeys(words))}{nodes}" for model, words in sizes.items())
    return f"Task {draft.task_id}: {'; '.join(parts)}"


def _account_lines(draft: SubmissionDraft, profile: Profile) -> str:
    """The directives for account, queue and reservation, without empty ones."""
    queue = profile.queue(draft.qos)
    options = {
        "account": draft.account,
        "qos": draft.qos,
        "partition": draft.partition or (queue.partition if queue else ""),
        "reservation": draft.reservation,
    }
    lines = (f"#SBATCH --{name}=@{{{name}}}" for name, value in options.items() if value)
    return render("\n".join(lines), options)


def run_facts(number: int, run: RunSpec) -> str:
    """The line that describes a run in the header of the job's log, and in the script."""
    names = ["model", "device", "n_gpus", "batch_size", "epochs", "script"]
    if run.program is not None:
        names += ["launcher", "processes", "size"]
    elif run.launcher != "python":
        names += ["nodes", "launcher", "batch_option"]
    names += [name for name in ("data_set", "variant") if getattr(run, name)]
    facts = {name: getattr(run, name) for name in names}
    if run.tuning:
        facts["options"] = ",".join(quote(word, "-_=./:+@") for word in (*run.arguments, *run.extra_args))
    if run.unknown:
        facts["unknown"] = ",".join(run.unknown)
    if run.learning_rate is not None:
        facts["learning_rate"] = f"{run.learning_rate:g}"
    pairs = " ".join(f"{name}={value}" for name, value in facts.items())
    return _one_line(shlex.join(["say", f"run-{number}", pairs]))


def load_lines(launch: Launch, modules: Sequence[str]) -> list[str]:
    """The shell lines that load `modules` and then do what else the site needs before a program is started."""
    purge = ["module purge"] if modules and launch.purge else []
    return [*purge, *(f"module load {shlex.quote(module)}" for module in modules), *launch.setup]


def _setup_lines(draft: SubmissionDraft, profile: Profile, context: JobContext) -> list[str]:
    launch = profile.launch
    if (program := draft.runs[0].program) is not None:
        return [_one_line(line) for line in load_lines(launch, profile.toolchains.get(program.toolchain, ()))]
    lines = load_lines(launch, launch.modules)
    folders = any(run.reads_folder for run in draft.runs)  # the command names the folder instead
    data = "" if folders else _fill(draft.data_dir or profile.data_dir, draft, profile, context)
    for name, value in launch.env.items():
        if not _VARIABLE.fullmatch(name):
            raise failure("variable", name=name)
        lines.append(f"export {name}={shlex.quote(_fill(value, draft, profile, context))}")
    if data:
        lines.append(f"export {DATA_VARIABLE}={_quote_path(data)}")
    return [_one_line(line) for line in lines]


def _quote_path(path: str) -> str:
    """A path as a shell word; a relative one starts at home, because each job's directory is new."""
    if path.startswith("/"):
        return shlex.quote(path)
    return f'"$HOME"/{shlex.quote(path.removeprefix("~/"))}'


def _fill(text: str, draft: SubmissionDraft, profile: Profile, context: JobContext) -> str:
    """A profile's text with ``{account}`` and ``{user}`` filled in."""
    filled = fill(text, {"account": draft.account, "user": context.user or profile.user})
    if lacks := PLACE.search(filled):
        raise failure("path-lacks", path=text, name=lacks[1])
    return filled


def _one_line(line: str) -> str:
    if any(not char.isprintable() and char != "\t" for char in line):
        raise failure("line-break", line=line)
    return line
