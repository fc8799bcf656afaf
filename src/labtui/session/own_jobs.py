"""Job files of the student's own: found, and made into a draft and a job script.

`sbatch` gets the file's directives and a command that runs the file, which lies beside it unchanged, with the
interpreter its first line names. In front stand the facts of the submission, for who reads the script.

What the file's text does not decide of its runs is named in `RunSpec.unknown`, filled from the student's answers, or
told by the log.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from labtui.domain.errors import FolderError, UsageError
from labtui.domain.model import (
    RunSpec,
    Stream,
    SubmissionDraft,
)
from labtui.session.folder import MAX_SCRIPT_BYTES, SCRIPT_NAME, LabFolder
from labtui.slurm.batch_script import JobScript, read_script
from labtui.slurm.job_script import STARTED_GUARD, JobContext, run_facts
from labtui.slurm.script_commands import Command
from labtui.slurm.values import duration_seconds
from labtui.training_logs.run_headers import read_command

_RENDERED = re.compile(r"^say\s+token\s+\S", re.MULTILINE)
"""A line in the head of every job script that labtui made."""

FACTS = "labtui-facts"
"""The word that ends the facts; a shell reads them as a text that it gives to no command."""


def own_job_script(text: str, file_name: str, draft: SubmissionDraft, context: JobContext) -> str:
    """The job script that runs `file_name`, whose content is `text`, in the directory of its submission."""
    first, *rest = text.split("\n")
    interpreter = first[2:].strip().split() if first.startswith("#!") else []
    if not interpreter:
        interpreter, rest = ["/bin/bash"], [first, *rest]
    header = _header(rest)
    facts = [
        f"say token {shlex.quote(context.token)}",
        f"say lab {shlex.quote(context.edition)}",
        f"say task {shlex.quote(draft.task_id)}",
        f"say form {draft.form}",
        f"say practice {'yes' if context.practice else 'no'}",
        f"say name {shlex.quote(draft.job_name)}",
        f"say file {shlex.quote(file_name)}",
        *(f"say log-{stream} {shlex.quote(pattern)}" for stream, pattern in draft.log_patterns),
        *(run_facts(number, run) for number, run in enumerate(draft.runs, start=1)),
    ]
    return "\n".join(
        (
            "#!/bin/bash",
            *header,
            f"# Made by labtui: the lines above are those of {_printable(file_name)}, which is run below as it is.",
            f": << '{FACTS}'",
            *facts,
            FACTS,
            'here=$PWD; cd -- "$SLURM_SUBMIT_DIR" || exit',
            STARTED_GUARD.rstrip("\n"),
            'cd -- "$here" || exit',
            f'exec {shlex.join(interpreter)} "$SLURM_SUBMIT_DIR"/{shlex.quote(file_name)} "$@"',
            "",
        )
    )


def _header(lines: list[str]) -> list[str]:
    """The lines in which sbatch looks for directives: up to the first that is neither blank nor a comment."""
    end = next((n for n, line in enumerate(lines) if line.strip() and line.lstrip()[0] != "#"), len(lines))
    return lines[:end]


def _printable(name: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in name)


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
    """The draft of a job file. `given` are options for the command line of `sbatch`, by their long names.

    Raises:
        UsageError: when it is a job array.
    """
    script = read_script(name, text, given)
    if script.has("array"):
        raise UsageError(
            f"{name} is a job array, which labtui does not send.", "Submit one job for each task."
        )
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

    Without ``--error`` both streams go into one file, standard output's.
    """
    chdir = script.value("chdir").removeprefix("./").rstrip("/")
    logs: list[tuple[Stream, str]] = [("out", script.value("output") or "slurm-%j.out")]
    error = script.value("error")
    if error and error != logs[0][1]:
        logs.append(("err", error))
    return tuple(
        (stream, pattern if pattern.startswith("/") or chdir in ("", ".") else f"{chdir}/{pattern}")
        for stream, pattern in logs
        if pattern != "/dev/null"
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


def _run(script: JobScript, command: Command, answers: Answers) -> RunSpec | None:
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
        known_values = {name: value for name, value in values.items() if value is not None}
        known |= known_values.keys()
        spec = replace(spec, **known_values, learning_rate=facts.learning_rate)  # type: ignore[arg-type]
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


_SUFFIXES = (".slurm", ".sbatch", ".job", ".sh")
_NAMED = re.compile(
    r"(?<![\w/.~$-])(?:\./)?((?:[\w+-][\w.+-]*/)*[\w+-][\w.+-]*\.(?:py|sh|json|ya?ml|toml|txt|cfg))\b"
)
_IMPORTS = re.compile(r"^\s*(?:from\s+([\w.]+)\s+import|import\s+([\w., ]+))", re.MULTILINE)
_MAX_BESIDE = 200


def own_draft(
    path: Path,
    *,
    task_id: str = "",
    given: Mapping[str, str] | None = None,
    answers: Answers = Answers(),
) -> SubmissionDraft:
    """The draft of the job file at `path`, with the files beside it that it names.

    Raises:
        FolderError: when a file cannot be read, or is too large to be a script.
    """
    text = _read(path)
    name = path.name if path.name != SCRIPT_NAME else f"own-{SCRIPT_NAME}"
    draft = job_file_draft(
        name,
        text.decode("utf-8", "surrogateescape"),
        task_id=task_id,
        given=given,
        answers=answers,
    )
    if draft.job_name == name:
        draft = replace(draft, job_name=path.name)
    return replace(draft, beside=((name, text), *sorted(_beside(path, text).items())))


def own_files(draft: SubmissionDraft, context: JobContext, text: str | None) -> tuple[str, dict[str, bytes]]:
    """The job script for `sbatch`, and the files that travel with it; `text` replaces the job file's content."""
    files = {name: _sent(draft, name, data) for name, data in draft.beside}
    if text is not None:
        files[draft.job_file] = _sent(draft, draft.job_file, text.encode("utf-8", "surrogateescape"))
    content = files[draft.job_file].decode("utf-8", "surrogateescape")
    script = own_job_script(content, draft.job_file, draft, context)
    folders = {f"{folder}/.keep": b"" for folder in log_folders(draft)}
    return script, {**folders, **files, SCRIPT_NAME: script.encode("utf-8", "surrogateescape")}


def _sent(draft: SubmissionDraft, name: str, data: bytes) -> bytes:
    """A file as it is sent: shells and `sbatch` read no Windows line endings."""
    shell = name == draft.job_file or name.endswith(_SUFFIXES)
    return data.replace(b"\r\n", b"\n") if shell else data


def sent_with_other_ends(draft: SubmissionDraft) -> tuple[str, ...]:
    """The files of a draft whose Windows line endings are not sent."""
    return tuple(name for name, data in draft.beside if _sent(draft, name, data) != data)


def with_files_beside(path: Path) -> dict[str, bytes]:
    """A file and the files beside it that it names, by their paths from its folder.

    Raises:
        FolderError: when one cannot be read, or is too large to be a script.
    """
    text = _read(path)
    return {path.name: text, **_beside(path, text)}


def job_files(folder: LabFolder) -> tuple[Path, ...]:
    """The student's own job files under `slurm/`, those that labtui rendered or wrote for a submission left out."""
    found = []
    for path in sorted(folder.slurm.iterdir()) if folder.slurm.is_dir() else ():
        if path.suffix not in _SUFFIXES or not folder.has(path):
            continue
        text = folder.read(path).decode("utf-8", "replace")
        if "#SBATCH" in text and not _RENDERED.search(text):
            found.append(path)
    return tuple(found)


def _read(path: Path) -> bytes:
    try:
        if path.stat().st_size > MAX_SCRIPT_BYTES:
            raise FolderError(f"{path.name} is too large for a script.", "Data sets stay on the cluster.")
        return path.read_bytes()
    except OSError as error:
        raise FolderError(f"{path} cannot be read: {error.strerror}.", "Check its name.") from error


def _beside(path: Path, text: bytes) -> dict[str, bytes]:
    """The files beside a job file that it names, and the modules beside them that those import."""
    folder = path.resolve().parent
    script = read_script(path.name, text.decode("utf-8", "replace"))
    written, filled = (c.text for c in script.commands), (c.text for c in script.filled)
    code = "\n".join((*written, *filled))
    wanted = list(dict.fromkeys(_NAMED.findall(code)))
    found: dict[str, bytes] = {}
    for name in wanted:
        source = (folder / name).resolve()
        if (
            name in found
            or len(found) >= _MAX_BESIDE
            or not source.is_relative_to(folder)
            or not source.is_file()
        ):
            continue
        found[name] = _read(source)
        if name.endswith(".py"):
            parent = name.rpartition("/")[0]
            for module in _modules(found[name].decode("utf-8", "replace")):
                wanted.append(f"{parent}/{module}.py".lstrip("/"))
    found.pop(path.name, None)
    return found


def _modules(text: str) -> list[str]:
    names = [name for match in _IMPORTS.findall(text) for name in re.split(r"[,\s]+", match[0] or match[1])]
    return [name.replace(".", "/") for name in names if name and name != "as"]
