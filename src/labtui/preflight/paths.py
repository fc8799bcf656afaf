"""Files and paths: scripts that do not travel with the job, paths of others, things that are not on the cluster."""

import re
from collections.abc import Iterator

from labtui.preflight.directives import log_folder
from labtui.preflight.findings import Hit, PythonScript, ScriptContext, replace_line, rule
from labtui.slurm.batch_script import JobScript, without_comment
from labtui.slurm.script_commands import split_words

_RUNS = re.compile(r"\b(?:python[\d.]*(?:\s+-\w+)*|torchrun(?:\s+[^\s;|&]+)*?)\s+(?P<script>[\w./+-]+\.py)\b")
_MADE = re.compile(r"(?:>|\btee\s+(?:-a\s+)?|\b(?:cp|mv|ln)\s.*\s)\s*[\"']?([\w./+-]+\.py)\b")
"""Files that the script itself writes, by a here document mostly."""
_MOVES = re.compile(r"\s*cd\s+(?![\"']?\$\{?SLURM_SUBMIT_DIR\}?[\"']?(?:\s|$))")
_OURS = re.compile(r"cifar|load_cifar|resnet_lab|run_log|mllog|ResNet\d+(?:_seq)?")
"""Modules of the lab: no container has them."""
_WHOLE = re.compile(r"/(?:[\w.+-]+/)*[\w.+-]+/?")
"""A path from the root and nothing else: no variable, no pattern."""
_IMAGES = (".sif", ".simg")


def absolute_paths(code: str) -> Iterator[str]:
    """The paths from the root in a line of code, and those behind ``"$HOME"/`` as the cluster is asked for them."""
    for word in split_words(code) if "/" in code else ():
        for piece in re.split(r"[\s=:,;<>|&()\[\]]+", word.replace('"', "").replace("'", "")):
            if _WHOLE.fullmatch(piece.removeprefix("$HOME")):
                yield piece.removeprefix("$HOME/").rstrip("/")


def alternative_path(path: str) -> str:
    """Where the same may lie: courses keep shared files under scratch or under projects; "" for any other path."""
    for here, there in (("/gpfs/scratch/", "/gpfs/projects/"), ("/gpfs/projects/", "/gpfs/scratch/")):
        if path.startswith(here):
            return there + path.removeprefix(here)
    return ""


def paths_to_ask(context: ScriptContext) -> tuple[str, ...]:
    """Paths a job needs, worth asking the cluster about: data, container, those in scripts; relative ones from home."""
    draft = context.draft
    paths = [path.removeprefix("~/") for path in ((draft.data_dir, draft.container) if draft else ()) if path]
    scripts: tuple[JobScript | PythonScript, ...] = (*context.shells, *context.pythons)
    lines = (code for script in scripts for _, _, code in _code(context, script))
    for path in (path for code in lines for path in absolute_paths(code)):
        whole = path.count("/") > 1  # "/cifar-10" alone is mostly a tail joined to something else
        if whole and (path.endswith(_IMAGES) or "cifar" in path):
            paths.append(path)
    for job in context.jobs:
        folders = (log_folder(job, option) for option in ("output", "error") if job.has(option))
        paths += [folder for folder in folders if folder[:1] == "/" and "%" not in folder]
    for script in context.pythons:
        paths += _needed_entries(context, script)
    others = [other for path in paths if (other := alternative_path(path))]
    return tuple(dict.fromkeys([*paths, *others]))


def _code(context: ScriptContext, script: JobScript | PythonScript) -> Iterator[tuple[int, str, str]]:
    """Number, line and code of each command line; of a program the lines that hold a path as a string.

    No docstrings, no ``sys.path`` entry that nothing comes from.
    """
    if not isinstance(script, PythonScript):
        yield from ((n, line, without_comment(line)) for n, line in script.code if not line.startswith("#"))
        return
    entries = {number for number, _ in script.path_entries}
    needed = _needed_entries(context, script)
    numbers = {
        number
        for number, text in script.strings
        if "/" in text and (number not in entries or text.rstrip("/") in needed)
    }
    yield from ((number, script.lines[number - 1], script.lines[number - 1]) for number in sorted(numbers))


# --------------------------------------------------------------------------- files that travel


@rule("script-missing", "error")
def script_missing(context: ScriptContext, job: JobScript) -> Iterator[Hit]:
    """A script the job runs is not among the files sent.

    Relative names only: absolute ones are the cluster's business. What the script itself writes is there.
    """
    moves = any(_MOVES.match(command.text) for command in job.commands)
    if moves or job.value("chdir")[:1] in ("/", "~", "$"):
        return
    made = {name.removeprefix("./") for c in job.commands for name in _MADE.findall(c.text)}
    for command in job.filled:
        match = _RUNS.search(command.text)
        if match is None or match["script"].startswith("/") or command.repeated:
            continue
        name = match["script"].removeprefix("./")
        if name in context.files or name in made:
            continue
        base, text = name.rpartition("/")[2], job.lines[command.line - 1]
        effect, fix = f"{name} is not sent with the job: put it into scripts/, or correct its name.", None
        if base in context.files:
            effect = f"{name} is not there when the job runs: {base} is sent into the job's own folder."
            if match["script"] in text:
                fix = replace_line(job, command.line, text.replace(match["script"], base), f"write {base}")
        yield Hit(command.line, effect, fix)


@rule("module-missing", "error", over="pythons")
def module_missing(context: ScriptContext, script: PythonScript) -> Iterator[Hit]:
    """A Python module the script imports is not sent with it.

    The lab's own modules (`cifar`, `resnet_lab` ...), unless the script adds a path of its own.
    """
    for number, module in _lab_imports(script) if "sys.path" not in script.text else ():
        if module not in context.modules:
            effect = f"Python will say: No module named '{module}'. Put {module}.py into scripts/ again."
            yield Hit(number, effect)


def _lab_imports(script: PythonScript) -> list[tuple[int, str]]:
    """Line and name of the imports of modules that come with the lab."""
    found = ((number, name.partition(".")[0]) for number, name in script.imports)
    return [(number, module) for number, module in found if _OURS.fullmatch(module)]


def _needed_entries(context: ScriptContext, script: PythonScript) -> list[str]:
    """The ``sys.path`` folders without which a module of the lab would be missing."""
    if {module for _, module in _lab_imports(script)} <= context.modules:
        return []
    return [path for _, path in script.path_entries]


# --------------------------------------------------------------------------- paths on the cluster


@rule("other-path", over="pythons")
@rule("other-path", "warning", over="shells")
def other_path(context: ScriptContext, script: JobScript | PythonScript) -> Iterator[Hit]:
    """A path of another course's account.

    In commands and directives; the `--account` directive has its own rule.
    """
    for number, line, code in _code(context, script):
        yield from _of_others(context, script, number, code, line[len(code) :])
    for directive in script.directives if isinstance(script, JobScript) and script in context.jobs else ():
        if "/" in directive.value and directive.name != "account":
            yield from _of_others(context, script, directive.line, script.lines[directive.line - 1], "")


def _of_others(
    context: ScriptContext, script: JobScript | PythonScript, number: int, code: str, comment: str
) -> Iterator[Hit]:
    pattern = context.profile.account_pattern
    if not pattern or not context.account:
        return
    try:
        group = re.compile(rf"(?<![A-Za-z0-9])(?:{pattern})(?![A-Za-z0-9])")
    except re.error:
        return
    paths = re.findall(r"[^\s'\"=:,]*/[^\s'\"=:,]*", code)
    others = {match[0] for path in paths for match in group.finditer(path)} - {context.account}
    if not others:
        return
    fixed = code
    for other in others:
        fixed = re.sub(rf"(?<![A-Za-z0-9]){re.escape(other)}(?![A-Za-z0-9])", context.account, fixed)
    effect = f"This path belongs to {', '.join(sorted(others))}; your course's files are elsewhere."
    yield Hit(number, effect, replace_line(script, number, fixed + comment, f"use {context.account}"))


@rule("path-missing", over="pythons")
@rule("path-missing", "error", over="shells")
def path_missing(context: ScriptContext, script: JobScript | PythonScript) -> Iterator[Hit]:
    """A container image or data folder that is not on the cluster.

    Only where the cluster was asked; a ``sys.path`` folder where a module is imported from it that is not sent.
    """
    lines = _code(context, script)
    for number, path in ((number, path) for number, _, code in lines for path in absolute_paths(code)):
        if context.remote.get(path) is not False:
            continue
        other, advice, fix = alternative_path(path), "", None
        if other and context.remote.get(other):
            setting = "container" if path.endswith(_IMAGES) else "data_dir"
            advice = f" It is at {other}: set `{setting}` to that under [cluster] in lab.toml."
            fixed = script.lines[number - 1].replace(path, other)
            fix = replace_line(script, number, fixed, f"use {other}")
        yield Hit(number, f"{path} is not on the cluster.{advice}", fix)
