"""A job file that labtui did not render: what it asks Slurm for, and which runs its command lines start.

What the text does not decide is named in `RunSpec.unknown`, filled from the student's answers, or told by the log.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from labtui.domain.model import RunSpec, Stream, SubmissionDraft
from labtui.slurm.batch_script import JobScript, read_script
from labtui.slurm.script_commands import FilledCommand
from labtui.slurm.states import duration_seconds
from labtui.training_logs.run_headers import read_command


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What the student says about the runs of a job file where its text does not; None: not said."""

    model: str | None = None
    n_gpus: int | None = None
    batch_size: int | None = None
    epochs: int | None = None


def job_file_draft(
    name: str,
    text: str,
    *,
    task_id: str = "",
    given: Mapping[str, str] | None = None,
    answers: Answers = Answers(),
) -> SubmissionDraft:
    """The draft of a job file. `given` are options for the command line of `sbatch`, by their long names."""
    script = read_script(name, text, given)
    return SubmissionDraft(
        task_id=task_id,
        form="own",
        runs=runs_of(script, answers),
        gpus=script.gpus,
        cpus=(script.cpus or 1) * script.tasks_per_node,
        time_limit_minutes=int((duration_seconds(script.value("time")) or 0) // 60),
        account=script.value("account"),
        qos=script.value("qos"),
        partition=script.value("partition"),
        job_name=script.value("job-name") or name,
        reservation=script.value("reservation"),
        nodes=script.nodes,
        options=tuple(f"--{option}={value}" for option, value in (given or {}).items()),
        job_file=name,
        log_patterns=log_patterns(script),
    )


def log_patterns(script: JobScript) -> tuple[tuple[Stream, str], ...]:
    """A job's logs by stream, as sbatch's patterns; relative ones count from the working directory.

    Without ``--error`` both streams go into one file, standard output's. Of an array, those of its last task.
    """
    default = "slurm-%A_%a.out" if script.has("array") else "slurm-%j.out"
    chdir = script.value("chdir").removeprefix("./").rstrip("/")
    logs: list[tuple[Stream, str]] = [("out", script.value("output") or default)]
    error = script.value("error")
    if error and error != logs[0][1]:
        logs.append(("err", error))
    last = _last_task(script.value("array"))
    return tuple(
        (
            stream,
            _of_task(
                pattern if pattern.startswith("/") or chdir in ("", ".") else f"{chdir}/{pattern}", last
            ),
        )
        for stream, pattern in logs
        if pattern != "/dev/null"
    )


def _last_task(array: str) -> int | None:
    """The highest index of ``1-4%2`` or ``0,3,8-15:4``: the task that keeps the number which sbatch gives the array."""
    numbers = [int(number) for number in re.findall(r"\d{1,7}", re.sub(r"[:%]\d+", "", array))]
    return max(numbers, default=None)


def _of_task(pattern: str, task: int | None) -> str:
    return (
        pattern if task is None else re.sub(r"%(\d?)\d*a", lambda m: str(task).zfill(int(m[1] or 0)), pattern)
    )


def log_folders(draft: SubmissionDraft) -> tuple[str, ...]:
    """The folders below a submission's own directory that its logs go into: Slurm makes none."""
    folders = (pattern.removeprefix("./").rpartition("/")[0] for _, pattern in draft.log_patterns)
    inside = (
        folder
        for folder in folders
        if folder
        and not folder.startswith(("/", "~"))
        and "%" not in folder
        and ".." not in folder.split("/")
    )
    return tuple(dict.fromkeys(inside))


def runs_of(script: JobScript, answers: Answers) -> tuple[RunSpec, ...]:
    """One run for each command that starts a training; a single one where no command shows it."""
    runs = [run for command in script.launches if (run := _run(script, command, answers)) is not None]
    return tuple(runs) or (_completed(script, RunSpec(**_NOTHING), answers, known=set()),)  # type: ignore[arg-type]


_NOTHING = {"model": "", "device": "gpu", "n_gpus": 0, "batch_size": 0, "epochs": 0, "script": ""}
_HELPERS = ("setup", "download", "prepare", "preprocess", "plot", "summary", "convert")


def _run(script: JobScript, command: FilledCommand, answers: Answers) -> RunSpec | None:
    """The run that a command starts; None for a program that only looks like one."""
    read = read_command(_inner(command.text))
    names = [
        word for word in command.text.replace("'", " ").replace('"', " ").split() if word.endswith(".py")
    ]
    stem = PurePosixPath(names[0]).stem if names else ""
    if read is None and (not stem or stem.lower().startswith(_HELPERS)):
        return None
    facts = read.facts if read is not None else None
    known: set[str] = set()
    spec = RunSpec(**{**_NOTHING, "script": PurePosixPath(names[0]).name if names else ""})  # type: ignore[arg-type]
    if facts is not None:
        values = {
            "model": facts.model,
            "n_gpus": facts.n_gpus,
            "batch_size": facts.batch_size,
            "epochs": facts.epochs_planned,
        }
        told = {name: value for name, value in values.items() if value is not None}
        known |= told.keys()
        spec = replace(spec, **told, learning_rate=facts.learning_rate)  # type: ignore[arg-type]
        if facts.device is not None:
            spec = replace(spec, device=facts.device)
            known |= {"n_gpus"} if facts.device == "cpu" else set()
    return _completed(script, spec, answers, known)


def _inner(command: str) -> str:
    """A command without what srun, a container and ``bash -c`` put before it, as far as a launcher is named."""
    for launcher in ("torchrun ", "horovodrun ", "accelerate launch ", "deepspeed "):
        place = command.find(launcher)
        if place >= 0:
            return command[place:]
    return command


def _completed(script: JobScript, spec: RunSpec, answers: Answers, known: set[str]) -> RunSpec:
    """The run with the student's answers where the text says nothing, and with what can be known of a job's GPUs."""
    for name in ("model", "n_gpus", "batch_size", "epochs"):
        value = getattr(answers, name)
        if name not in known and value is not None:
            spec = replace(spec, **{name: value})
            known = known | {name}
    if "n_gpus" not in known and script.gpus * script.nodes <= 1:
        spec = replace(spec, n_gpus=script.gpus)  # a job of one GPU, or of none, leaves no choice
        known = known | {"n_gpus"}
    if "n_gpus" in known:
        spec = replace(spec, device="gpu" if spec.n_gpus else "cpu")
    missing = tuple(name for name in ("model", "n_gpus", "batch_size", "epochs") if name not in known)
    return replace(spec, unknown=missing)
