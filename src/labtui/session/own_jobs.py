"""Job files of the student's own: found, made into a draft and a job script; and job scripts read back.

`sbatch` gets the file's directives and a command that runs the file, which lies beside it unchanged, with the
interpreter its first line names. In front stand the facts by which `labtui repair` knows the submission. They and the
heads that `labtui.slurm.job_script` writes (``say token ...``, ``say run-1 ...``, the #SBATCH lines) are read as
far as they go; a script without a token is nobody's.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast, get_args

from labtui.domain.errors import FolderError
from labtui.domain.model import Device, JobForm, RunSpec, Stream, SubmissionDraft
from labtui.lab.job_file import Answers, job_file_draft, log_folders
from labtui.session.folder import MAX_SCRIPT_BYTES, LabFolder
from labtui.session.planned_submission import SCRIPT_NAME
from labtui.slurm.batch_script import read_script
from labtui.slurm.job_script import STARTED_GUARD, JobContext, run_facts

_DIRECTIVE = re.compile(r"^#SBATCH\s+--([a-z-]+)[= ](.+?)\s*$", re.MULTILINE)
_SAY = re.compile(r"^say\s+(\S+)\s+(.+?)\s*$", re.MULTILINE)
_TOKEN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{3,79}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptFacts:
    """What a job script tells about the submission it was made for."""

    token: str
    task_id: str
    form: JobForm
    job_name: str
    runs: tuple[RunSpec, ...]
    account: str = ""
    queue: str = ""
    gpus: int = 0
    cpus: int = 0
    nodes: int = 1
    time_limit_minutes: int = 0
    practice: bool = False
    job_file: str = ""
    log_patterns: tuple[tuple[Stream, str], ...] = ()


def read_script_facts(text: str) -> ScriptFacts | None:
    """The facts in a job script; None when it is not one of ours."""
    said = {name: _first_word(value) for name, value in _SAY.findall(text)}
    options = dict(_DIRECTIVE.findall(text))
    token, form = said.get("token", ""), said.get("form", "")
    runs = tuple(spec for name, value in said.items() if name.startswith("run-") and (spec := _spec(value)))
    if not _TOKEN.fullmatch(token) or form not in get_args(JobForm) or not runs:
        return None
    if "job-name" not in options and form != "own":
        return None
    return ScriptFacts(
        token=token,
        task_id=said.get("task", ""),
        form=cast("JobForm", form),
        job_name=options.get("job-name") or said.get("name", ""),
        runs=runs,
        account=options.get("account", ""),
        queue=options.get("qos") or options.get("partition") or "",
        gpus=_number(options.get("gres", "").rpartition(":")[2]),
        cpus=_number(options.get("cpus-per-task", "")),
        nodes=max(1, _number(options.get("nodes", ""))),
        time_limit_minutes=_minutes(options.get("time", "")),
        practice=said.get("practice", "") == "yes",
        job_file=said.get("file", ""),
        log_patterns=tuple((s, said[f"log-{s}"]) for s in get_args(Stream) if f"log-{s}" in said),
    )


def _first_word(value: str) -> str:
    try:
        words = shlex.split(value)
    except ValueError:
        return ""
    return words[0] if words else ""


def _spec(text: str) -> RunSpec | None:
    told = dict(piece.split("=", 1) for piece in text.split() if "=" in piece)
    device = told.get("device", "")
    if (
        device not in get_args(Device)
        or not {"model", "n_gpus", "batch_size", "epochs", "script"} <= told.keys()
    ):
        return None
    rate = told.get("learning_rate", "")
    return RunSpec(
        model=told["model"],
        device=cast("Device", device),
        n_gpus=_number(told["n_gpus"]),
        batch_size=_number(told["batch_size"]),
        epochs=_number(told["epochs"]),
        script=told["script"],
        learning_rate=float(rate) if re.fullmatch(r"[0-9.eE+-]+", rate) and rate[0].isdigit() else None,
        unknown=tuple(name for name in told.get("unknown", "").split(",") if name),
        nodes=max(1, _number(told.get("nodes", ""))),
        launcher="torchrun" if told.get("launcher") == "torchrun" else "python",
        batch_option="per-gpu" if told.get("batch_option") == "per-gpu" else "global",
        data_set=told.get("data_set", ""),
    )


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() else 0


def _minutes(text: str) -> int:
    told = re.fullmatch(r"(?:(\d+)-)?(\d+):(\d\d):(\d\d)", text)
    if told is None:
        return 0
    return int(told[1] or 0) * 1440 + int(told[2]) * 60 + int(told[3])


FACTS = "labtui-facts"
"""The word that ends the facts; a shell reads them as a text that it gives to no command."""


_GUARD = STARTED_GUARD.rstrip("\n").replace("$SLURM_JOB_ID", "${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}")
"""The guard with the number that all tasks of an array have in common."""


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
            _GUARD,
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
    answers: Answers = Answers(),  # noqa: B008 (frozen)
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
    files = dict(draft.beside)
    if text is not None:
        files[draft.job_file] = text.encode("utf-8", "surrogateescape")
    content = files[draft.job_file].decode("utf-8", "surrogateescape")
    script = own_job_script(content, draft.job_file, draft, context)
    folders = {f"{folder}/.keep": b"" for folder in log_folders(draft)}
    return script, {**folders, **files, SCRIPT_NAME: script.encode("utf-8", "surrogateescape")}


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
        if path.suffix not in _SUFFIXES or not path.is_file():
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        if "#SBATCH" in text and read_script_facts(text) is None:
            found.append(path)
    return tuple(found)


def _read(path: Path) -> bytes:
    try:
        if path.stat().st_size > MAX_SCRIPT_BYTES:
            raise FolderError(f"{path.name} is too large for a script.", "Data sets stay on the cluster.")
        return path.read_bytes()
    except OSError as error:
        raise FolderError(f"{path} cannot be read: {error.strerror}.", "Is its name right?") from error


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
