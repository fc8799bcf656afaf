"""From a draft and a cluster profile to the job script: the values and the lines of code a template takes.

Every word of shell code made here goes through `shlex.quote`, except the lines a profile's author wrote as
code (`Launch.setup`). What may not enter: how a template looks (`templates`), and when a script is sent.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from labtui.core.model import RunSpec, SubmissionDraft
from labtui.core.profile import Profile
from labtui.core.templates import render, safe_word
from labtui.errors import TemplateError

DATA_VARIABLE = "CIFAR10_DATA"
"""The environment variable in which `cifar-utils/cifar.py` looks for the data folder."""

HEADER_BEGIN = "---- labtui job ----"
HEADER_END = "---- end ----"
"""The lines around the facts a job prints first, each ``key: value``."""

_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MINUTES_PER_DAY = 24 * 60


@dataclass(frozen=True, slots=True, kw_only=True)
class JobContext:
    """What a job script tells about itself besides its draft.

    `token` identifies the submission, `remote_dir` is where it is submitted and runs, `edition` the lab's id,
    `practice` whether the cluster is a rehearsal; `user` fills ``{user}`` in a profile's texts.
    """

    token: str
    remote_dir: str
    edition: str
    practice: bool
    user: str = ""


def job_script(draft: SubmissionDraft, profile: Profile, context: JobContext, template: str) -> str:
    """The rendered job script, to be submitted in `context.remote_dir`.

    Raises:
        TemplateError: when the template and its values do not fit, or a value may not stand in a job script.
    """
    _check(draft)
    values = {
        "title": _title(draft),
        "job_name": draft.job_name,
        "account_lines": _account_lines(draft, profile),
        "time": time_text(draft.time_limit_minutes),
        "cpus": str(draft.cpus),
        "token": context.token,
        "edition": context.edition,
        "task": draft.task_id,
        "form": draft.form,
        "practice": "yes" if context.practice else "no",
        "run_facts_lines": "\n".join(_run_facts(i, run) for i, run in enumerate(draft.runs, start=1)),
        "setup_lines": "\n".join(_setup_lines(draft, profile, context)),
        "run_lines": "\n".join(
            _one_line("run " + shlex.join(training_command(run, draft, profile, context)))
            for run in draft.runs
        ),
    }
    if draft.form != "cpu":
        values |= {"gpus": str(draft.gpus), "gres": profile.gres, "cpus_per_gpu": str(profile.cpus_per_gpu)}
    return render(template.replace("\r\n", "\n"), values)


def training_command(
    run: RunSpec, draft: SubmissionDraft, profile: Profile, context: JobContext
) -> tuple[str, ...]:
    """The words of the command that trains one run, as the job echoes and runs it."""
    image = container_of(draft, profile, context)
    words: list[str] = []
    if image:
        words += ["singularity", "exec", *([] if draft.gpus == 0 else ["--nv"]), image]
    words += [profile.launch.python, "-u", run.script]
    words += ["--epochs", str(run.epochs), "--batch_size", str(run.batch_size)]
    if not run.script.endswith("_seq.py"):
        # The sequential scripts take no --n_gpus; the others need to hear that a CPU is meant.
        words += ["--device", "cpu"] if run.device == "cpu" else ["--n_gpus", str(run.n_gpus)]
    if run.learning_rate is not None:
        words += ["--learning_rate", f"{run.learning_rate:g}"]
    return (*words, *run.extra_args)


def container_of(draft: SubmissionDraft, profile: Profile, context: JobContext) -> str:
    """The image the trainings run in; empty for plain Python. Raises TemplateError for a path from home."""
    image = _filled(draft.container or profile.launch.container or profile.container, draft, profile, context)
    if image.startswith("~"):
        raise TemplateError(
            f"The container {image!r} is named from your home, which Singularity does not look up.",
            "Write the whole path of the image, from its first slash.",
        )
    return image


def time_text(minutes: int) -> str:
    """Minutes in a form nobody misreads: ``01:15:00``, ``2-00:30:00`` (``75:00`` is read as 75 minutes)."""
    days, rest = divmod(minutes, _MINUTES_PER_DAY)
    clock = f"{rest // 60:02d}:{rest % 60:02d}:00"
    return f"{days}-{clock}" if days else clock


def _check(draft: SubmissionDraft) -> None:
    if not draft.runs:
        raise TemplateError("The job has no training to run.")
    if not _FILE_NAME.fullmatch(draft.job_name) or len(draft.job_name) > 120:
        raise TemplateError(
            f"{draft.job_name!r} cannot be a job name: the logs are named after it.",
            "Use letters, digits, dots, dashes and underscores, without blanks.",
        )
    if draft.cpus < 1 or draft.time_limit_minutes < 1:
        raise TemplateError("A job needs at least one CPU core and one minute.")
    if (draft.form == "cpu") != (draft.gpus == 0) or draft.gpus < 0:
        raise TemplateError(
            f"The job form {draft.form} does not fit {draft.gpus} GPUs.",
            "A CPU job asks for none, every other form for at least one.",
        )


def _title(draft: SubmissionDraft) -> str:
    """What the job trains, in words: ``Task 10.5: ResNet50 on 1, 2, 4 GPUs``."""
    parts = []
    for model in dict.fromkeys(run.model for run in draft.runs):
        counts = [run.n_gpus for run in draft.runs if run.model == model and run.device == "gpu"]
        places = ["the CPU"] if any(run.model == model and run.device == "cpu" for run in draft.runs) else []
        if counts:
            places.append(f"{', '.join(map(str, counts))} GPU{'s' if max(counts) > 1 else ''}")
        parts.append(f"{model} on {' and '.join(places)}")
    return f"Task {draft.task_id}: {'; '.join(parts)}"


def _account_lines(draft: SubmissionDraft, profile: Profile) -> str:
    """The directives that name account, queue and reservation; those that are empty are left out."""
    queue = profile.queue(draft.qos)
    options = {"account": draft.account, profile.queue_option: draft.qos}
    if queue is not None and queue.partition:
        options["partition"] = queue.partition
    options["reservation"] = draft.reservation
    lines = []
    for name, value in options.items():
        if not value:
            continue
        if not safe_word(value):
            raise TemplateError(
                f"{value!r} cannot be the {'QoS' if name == 'qos' else name} of a job.",
                "Use letters, digits, dots, dashes and underscores, without blanks.",
            )
        lines.append(f"#SBATCH --{name}={value}")
    return "\n".join(lines)


def _run_facts(number: int, run: RunSpec) -> str:
    facts = {
        "model": run.model,
        "device": run.device,
        "n_gpus": run.n_gpus,
        "batch_size": run.batch_size,
        "epochs": run.epochs,
        "script": run.script,
    }
    if run.learning_rate is not None:
        facts["learning_rate"] = f"{run.learning_rate:g}"
    said = " ".join(f"{name}={value}" for name, value in facts.items())
    return _one_line(shlex.join(["say", f"run-{number}", said]))


def _setup_lines(draft: SubmissionDraft, profile: Profile, context: JobContext) -> list[str]:
    launch = profile.launch
    lines = []
    if launch.modules:
        if launch.purge:
            lines.append("module purge")
        lines += [f"module load {shlex.quote(module)}" for module in launch.modules]
    lines += launch.setup
    data = _filled(draft.data_dir or profile.data_dir, draft, profile, context)
    for name, value in launch.env.items():
        if not _VARIABLE.fullmatch(name):
            raise TemplateError(f"{name!r} cannot be the name of an environment variable.")
        lines.append(f"export {name}={shlex.quote(_filled(value, draft, profile, context))}")
    if data:
        lines.append(f"export {DATA_VARIABLE}={_from_home(data)}")
    return [_one_line(line) for line in lines]


def _from_home(path: str) -> str:
    """The shell word of a path; a relative one starts at home, as the job's directory is new for each job."""
    if path.startswith("/"):
        return shlex.quote(path)
    return f'"$HOME"/{shlex.quote(path.removeprefix("~/"))}'


def _filled(text: str, draft: SubmissionDraft, profile: Profile, context: JobContext) -> str:
    """A profile's text with ``{account}`` and ``{user}`` replaced."""
    user = context.user or profile.user
    for name, value in (("account", draft.account), ("user", user)):
        if f"{{{name}}}" in text and not value:
            raise TemplateError(
                f"The path {text!r} needs the {name}, which is not known.",
                f"Name the {name} in lab.toml, or write the path out.",
            )
        text = text.replace(f"{{{name}}}", value)
    return text


def _one_line(line: str) -> str:
    if any(not char.isprintable() and char != "\t" for char in line):
        raise TemplateError(
            f"A line of the job script would contain a line break or a control character: {line!r}.",
            "Type the value again by hand: such characters come with copied text.",
        )
    return line
