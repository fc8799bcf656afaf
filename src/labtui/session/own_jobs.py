"""The student's own job files: finds them and makes a draft and a job script of each.

`sbatch` gets a script with the file's directives and a command that runs the unchanged file beside it with the
interpreter of its first line.

What the file's text leaves open about its runs is named in `RunSpec.unknown`; the student's answers or the log fill it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from labtui.cluster.local_files import read_file
from labtui.domain.errors import failure, os_errors
from labtui.domain.model import RunSpec, Stream, SubmissionDraft, plural
from labtui.domain.terminal_text import inert
from labtui.lab.plan import task_of
from labtui.preflight.findings import python_script
from labtui.session.folder import MAX_SCRIPT_BYTES, SCRIPT_NAME, SHELL_SUFFIXES, LabFolder, sent_as
from labtui.session.run_matcher import UNPLANNED, facts_by_field, fill_unknown
from labtui.slurm.batch_script import JobScript, read_script
from labtui.slurm.job_script import STARTED_GUARD
from labtui.slurm.script_commands import Command
from labtui.slurm.values import limit_minutes
from labtui.training_logs.run_headers import model_of_script, read_command

if TYPE_CHECKING:
    from labtui.domain.profile import Profile
    from labtui.session.session import Session
    from labtui.session.settings import Settings


LABTUI_MARK = "# Made by labtui"
_RENDERED = re.compile(rf"^(say\s+token\s+\S|{LABTUI_MARK})".encode(), re.MULTILINE)
"""Matches a line that every job script made by labtui has."""


def own_job_script(text: str, file_name: str) -> str:
    """The job script that runs the job file `file_name` with the content `text` in its submission's directory."""
    first, *rest = text.split("\n")
    interpreter = first[2:].strip().split() if first.startswith("#!") else []
    if not interpreter:
        interpreter, rest = ["/bin/bash"], [first, *rest]
    # sbatch searches for directives up to the first command
    end = next((n for n, line in enumerate(rest) if line.strip() and line.lstrip()[0] != "#"), len(rest))
    head = "\n".join(("#!/bin/bash", *rest[:end]))
    return f"""{head}
{LABTUI_MARK}: the lines above are those of {inert(file_name)}, which is run below as it is.
here=$PWD; cd -- "$SLURM_SUBMIT_DIR" || exit
{STARTED_GUARD.rstrip()}
cd -- "$here" || exit
exec {shlex.join(interpreter)} "$SLURM_SUBMIT_DIR"/{shlex.quote(sent_as(file_name))} "$@"
"""


_COMPONENTS = re.compile(r"^#SBATCH\s+(het|pack)job\b", re.MULTILINE)
Answers = Mapping[str, Any]
"""What the student adds about the runs of a job file, by the fields of `RunSpec`; `batch_size` is that of one GPU."""


def job_file_draft(
    name: str, text: str, *, task_id: str = "", given: Mapping[str, str] | None = None,
    answers: Answers = MappingProxyType({}),
) -> SubmissionDraft:  # fmt: skip
    """The draft of a job file. `given` are options for the command line of `sbatch`, by their long names.

    Raises:
        UsageError: when it is a job array or has several components, or already sets what an answer gives.
    """
    script = read_script(name, text, given)
    if script.has("array") or _COMPONENTS.search(text):
        kind = "job array" if script.has("array") else "heterogeneous job"
        raise failure("not-one-job", file=name, kind=kind)
    named: dict[str, Any] = {o: script.value(o) for o in ("account", "qos", "partition", "reservation")}
    return SubmissionDraft(
        task_id=task_id,
        form="own",
        runs=_runs(script, answers),
        gpus=script.gpus,
        cpus=script.node_cpus,
        time_limit_minutes=limit_minutes(script.value("time")) or 0,
        job_name=script.value("job-name") or name,
        **named,
        nodes=script.nodes,
        options=tuple(f"--{option}={value}" for option, value in (given or {}).items()),
        job_file=name,
        log_patterns=log_patterns(script),
    )


def log_patterns(script: JobScript) -> tuple[tuple[Stream, str], ...]:
    """A job's logs by stream, as sbatch's filename patterns; relative ones start at the submission's directory.

    Without ``--error`` both streams go into the file of standard output.
    """
    chdir = script.value("chdir")
    logs: list[tuple[Stream, str]] = [("out", script.value("output") or "slurm-%j.out")]
    if (error := script.value("error")) and error != logs[0][1]:
        logs.append(("err", error))
    return tuple((stream, str(PurePosixPath(chdir, name))) for stream, name in logs if name != "/dev/null")


def log_folders(draft: SubmissionDraft) -> tuple[str, ...]:
    """The folders in a submission's directory that its logs go into; labtui makes them, as Slurm does not."""
    folders = (pattern.removeprefix("./").rpartition("/")[0] for _, pattern in draft.log_patterns)
    return tuple(dict.fromkeys(folder for folder in folders if _INSIDE.fullmatch(folder)))


_INSIDE = re.compile(r"(?!(.*/)?\.\.(/|\Z))[^/~%][^%]*")
"""A relative folder without a way up and without sbatch's codes."""


def _runs(script: JobScript, answers: Answers) -> tuple[RunSpec, ...]:
    """One run for each command that starts a training; a single unknown one if no command does."""
    gpus = script.gpus * script.nodes
    found = [run for command in script.launches if (run := _run(command, gpus)) is not None] or [UNPLANNED]
    if "model" in answers and len({"model" not in run.unknown and run.model for run in found}) == 1:
        found = [replace(run, named=True, unknown=(*run.unknown, "model")) for run in found]
    per_gpu, others = answers.get("batch_size", 0), {**answers}
    others.pop("batch_size", None)
    _check_batch(script.name, found, per_gpu)
    if told := [name for name in others if all(name not in run.unknown for run in found)]:
        what, value = _IN_WORDS[told[0]], getattr(found[0], told[0])
        raise failure("told-otherwise", file=script.name, what=f"{what}: {value}")
    if gpus and answers.get("n_gpus", 0) > gpus:
        raise failure("fewer-gpus", file=script.name, gpus=plural(gpus, "GPU"), wanted=answers["n_gpus"])
    # A script that is not the lab's may find GPUs that its job did not ask for, where Slurm does not manage them.
    if gpus == 1 or (not gpus and not any("model" in run.unknown for run in found)):
        others = {"n_gpus": gpus, **others}
    elif not gpus:
        found = [replace(run, device="cpu") if "n_gpus" in run.unknown else run for run in found]
    runs = [fill_unknown(run, others) for run in found]
    return tuple(fill_unknown(run, {"batch_size": per_gpu * run.replicas} if per_gpu else {}) for run in runs)


def _check_batch(name: str, found: list[RunSpec], per_gpu: int) -> None:
    """Raise UsageError if the student's batch of each GPU differs from that of a command, in a loop of any size."""
    left_open = {run.script for run in found if "batch_size" in run.unknown}
    for run in found if per_gpu else ():
        concerned = "batch_size" not in run.unknown and (not left_open or run.script in left_open)
        if concerned and run.per_gpu_batch != per_gpu:
            each = f", {run.per_gpu_batch:,} on each" if run.n_gpus > 1 else ""
            told = f"{run.batch_size:,} on {run.devices or 'each GPU'}{each}"
            raise failure("told-otherwise", file=name, what=f"batch: {told}, not {per_gpu:,}")


_IN_WORDS = {"n_gpus": "number of GPUs", "epochs": "epochs", "model": "model"}
_HELPERS = ("setup", "download", "prepare", "preprocess", "plot", "summary", "convert")


def _run(command: Command, gpus: int) -> RunSpec | None:
    """The run that a command starts in a job with `gpus` GPUs; None for a program that only looks like one."""
    inner = _LAUNCHER.search(command.text)
    read = read_command(inner[0] if inner else command.text)
    words = re.split(r"\s\d?[<>&]", re.sub("['\"]", " ", command.text))[0].split()
    at = next((at for at, word in enumerate(words) if word.endswith(".py")), len(words))
    script = PurePosixPath(words[at]) if words[at:] else None
    # the model stays unknown, as a log may name it, and is the script's name if none does
    model = (script and model_of_script(script.stem)) or ""
    name, arguments = script.name if script else "", tuple(words[at + 1 :])
    run = replace(UNPLANNED, model=model, script=name, arguments=arguments)
    if read is None:
        return None if script is None or script.stem.lower().startswith(_HELPERS) else run
    told = facts_by_field(read.facts)
    if read.facts.device == "cpu":
        told.setdefault("n_gpus", 0)
    own = not _OF_THE_LAB.match(run.script)
    if own and told.get("n_gpus", gpus) > 1 and read.facts.batch_per_gpu is None:
        told.pop("batch_size", None)  # that of all GPUs or of each: its log tells
    return fill_unknown(replace(run, learning_rate=read.facts.learning_rate), told)


def batch_file(run: RunSpec, job_file: str) -> str:
    """The file that sets the batch of an own job's run: its script where the command names none."""
    read = read_command(shlex.join(("python", run.script, *run.arguments)))
    named = read is not None and (read.facts.batch_size or read.facts.batch_per_gpu)
    return job_file if named or not run.script else run.script


_OF_THE_LAB = re.compile(r"ResNet\d+")
"""The lab's scripts and copies of them, whose option is the global batch."""
_LAUNCHER = re.compile(r"(?:torchrun|horovodrun|accelerate launch|deepspeed) .*", re.DOTALL)
"""A command from its launcher on, without srun, container and ``bash -c``."""


_NAMED = re.compile(r"(?<![\w/.~$-])(?:\./)?((?:[\w+-][\w.+-]*/)*[\w+-][\w.+-]*)\b")
"""What may be the name of a file below the job file's folder: data, too."""
_MAX_BESIDE, _MAX_NAME = 200, 200
MAX_BESIDE_BYTES = 16 * 1024 * 1024
"""A larger file is not sent: it belongs on the cluster."""


def own_draft(
    session: Session, path: Path, *, task_id: str = "", given: Mapping[str, str] | None = None,
    answers: Answers = MappingProxyType({}),
) -> SubmissionDraft:  # fmt: skip
    """The draft of the job file at `path`, with the files beside it that it names.

    A file without account or queue gets the lab folder's. Shell files are sent with Unix line endings and without a
    byte order mark, as shells and `sbatch` want them.

    Raises:
        FolderError: when a file cannot be read, or is too large.
        UsageError: when it is a Python file or the edition has no such task, and as `job_file_draft`.
    """
    if named := path.name if path.suffix == ".py" else task_id:
        task_of(session.edition, named)
    name, (files, large) = path.name, with_files_beside(path)
    for each in files:
        if each == name or each.endswith(SHELL_SUFFIXES):
            files[each] = files[each].replace(b"\r\n", b"\n").removeprefix("\ufeff".encode())
    text = files[name].decode("utf-8", "surrogateescape")
    given = complete_options(read_script(name, text, given), session.profile, session.settings)
    draft = job_file_draft(name, text, task_id=task_id, given=given, answers=answers)
    if not draft.gpus and not session.profile.node_gpus:
        draft = replace(draft, runs=tuple(fill_unknown(run, {"n_gpus": 0}) for run in draft.runs))
    return replace(draft, beside=tuple(files.items()), left_out=tuple(large.items()))


def complete_options(script: JobScript, profile: Profile, settings: Settings) -> dict[str, str]:
    """The options for `sbatch`: those given, and what the file does not name: account, queue if no partition."""
    missing = {"account": profile.account_of(settings.account)}
    if not script.value("partition"):
        names = profile.queue_names(gpus=script.gpus > 0, qos=settings.qos, partition=settings.partition)
        missing |= names._asdict()
    found = {name: value for name, value in missing.items() if value and not script.value(name)}
    return {**found, **script.given}


def own_files(draft: SubmissionDraft, text: str | None) -> dict[str, bytes]:
    """The files of a submission, including the job script for `sbatch`; `text` replaces the job file's content."""
    files = dict(draft.beside)
    content = files.pop(draft.job_file)
    if text is not None:
        content = text.encode("utf-8", "surrogateescape")
    script = own_job_script(content.decode("utf-8", "surrogateescape"), draft.job_file)
    sent = {sent_as(draft.job_file): content, SCRIPT_NAME: script.encode("utf-8", "surrogateescape")}
    return {**{f"{folder}/.keep": b"" for folder in log_folders(draft)}, **files, **sent}


def with_files_beside(path: Path) -> tuple[dict[str, bytes], dict[str, int]]:
    """A file and the files beside it that it, or a script among them, names; by paths relative to its folder.

    A script that names a folder has its modules. A file that is too large is left out if only a string in a script
    may be its name; the second value are the sizes of these in bytes.

    Raises:
        FolderError: when one cannot be read, or is too large.
    """
    folder, text = path.resolve().parent, _read(path, MAX_SCRIPT_BYTES)
    named = _named_in(path.name, text)
    found, wanted, large = {path.name: text}, [*named], {}
    for name in wanted:
        source = (folder / name).resolve()
        inside = len(name) <= _MAX_NAME and source.is_relative_to(folder) and source.is_file()
        if name in found or len(found) > _MAX_BESIDE or not inside:
            continue
        if name not in named and (size := source.stat().st_size) > MAX_BESIDE_BYTES:
            large[name] = size
            continue
        found[name] = _read(source, MAX_BESIDE_BYTES)
        parent = name.rpartition("/")[0]
        if name.endswith(".py"):
            code = python_script(name, found[name].decode("utf-8", "replace"))
            texts = [text for _, text in code.strings if len(text) < _MAX_NAME and _NAMED.fullmatch(text)]
            near = [*texts, *(f"{module.replace('.', '/')}.py" for _, module in code.imports)]
            wanted += [*texts, *(f"{parent}/{each}".lstrip("/") for each in near)]
            modules = (each for text in texts for each in (folder / parent / text).glob("*.py"))
            wanted += sorted(each.relative_to(folder).as_posix() for each in modules)
        elif name.endswith(SHELL_SUFFIXES) or found[name].startswith(b"#!"):
            near = _named_in(name, found[name])  # in the job's folder, or in the script's own after a `cd`
            named += near
            wanted += [*near, *(f"{parent}/{each}".lstrip("/") for each in near)]
    return found, large


def _named_in(name: str, text: bytes) -> list[str]:
    """What may be the names of files in the commands of a shell script."""
    script = read_script(name, text.decode("utf-8", "replace"))
    return _NAMED.findall("\n".join(command.text for command in (*script.commands, *script.filled)))


def job_files(folder: LabFolder) -> tuple[Path, ...]:
    """The student's own job files under `slurm/`, without those that labtui rendered or wrote for a submission."""
    paths = sorted(folder.slurm.iterdir()) if folder.slurm.is_dir() else ()
    texts = {path: folder.read(path) for path in paths if path.suffix in SHELL_SUFFIXES and folder.has(path)}
    return tuple(path for path, text in texts.items() if b"#SBATCH" in text and not _RENDERED.search(text))


def _read(path: Path, max_bytes: int) -> bytes:
    with os_errors("closed-job-file", path=path):
        return read_file(path, max_bytes)
