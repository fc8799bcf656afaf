"""Files and paths: where logs go, scripts that do not travel with the job, and things that are not on the cluster."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from labtui.preflight.findings import (
    Finding,
    Fix,
    ScriptContext,
    found,
    nodes_of,
    physical,
    replace_line,
    rule,
    set_value,
)
from labtui.slurm.batch_script import JobScript, ScriptCommand, without_comment
from labtui.slurm.script_commands import split_words


@rule("log-name", "warning", "A log that the next job overwrites, or that goes nowhere.", topic="logs")
def log_name(context: ScriptContext) -> Iterator[Finding]:
    """A name without the job's number, ``/dev/null``, a ``%`` that Slurm leaves as it is (a typing mistake)."""
    for job in context.jobs:
        for option, ending in (("output", "out"), ("error", "err")):
            given = job.last(option)
            effect = _log_trouble(given.value) if given and option not in job.given else ""
            if given is None or not effect:
                continue
            folder = given.value.rpartition("/")[0] if given.value != "/dev/null" else ""
            wanted = f"{folder}/%x.%j.{ending}" if folder else f"%x.%j.{ending}"
            fix = set_value(job, given.line, given.value, wanted, f"write {wanted}")
            yield found("log-name", job.name, given.line, given.text, effect, fix=fix)


def _log_trouble(pattern: str) -> str:
    if pattern == "/dev/null":
        return (
            "What the job prints is thrown away: there is nothing to follow and nothing to read numbers from."
        )
    if "\\" in pattern or not pattern:
        return ""
    codes = re.findall(r"%\d*(.)", pattern.replace("%%", ""))
    if wrong := [code for code in codes if code not in "AajJNnstuxb"]:
        return f"Slurm does not know %{wrong[0]} in a log name."
    if not set(codes) & set("jJA"):
        return f"{pattern} has no %j: the next job overwrites this one's log."
    if re.search(r"%x[oe]_", pattern):
        return "A letter follows %x: the log's name is the job's name with that letter added."
    return ""


@rule(
    "output-folder",
    "error",
    "Logs in a folder that does not exist: the job fails without a trace.",
    topic="logs",
)
def output_folder(context: ScriptContext) -> Iterator[Finding]:
    """Slurm makes no folders for logs. An absolute one that the cluster was not asked about is left alone."""
    for job in context.jobs:
        for option, ending in (("output", "out"), ("error", "err")):
            given = job.last(option)
            folder = log_folder(job, option)
            if given is None or not folder or option in job.given or "%" in folder:
                continue
            if folder.startswith("/"):
                missing = context.remote.get(folder) is False
            else:
                missing = not context.makes_folders and not context.remote.get(folder)
                missing = missing and not any(name.startswith(f"{folder}/") for name in context.files)
            if not missing:
                continue
            effect = f"Slurm does not make {folder}; without it the job ends at once and leaves no log."
            fix = set_value(
                job, given.line, given.value, f"%x.%j.{ending}", "put the log beside the job script"
            )
            yield found("output-folder", job.name, given.line, given.text, effect, fix=fix)


def log_folder(job: JobScript, option: str) -> str:
    """The folder a log goes into, with an absolute working directory before it; "" for the job's own directory."""
    folder = job.value(option).removeprefix("./").rpartition("/")[0]
    chdir = job.value("chdir")
    if folder.startswith("/") or not chdir.startswith("/"):
        return folder
    return f"{chdir.rstrip('/')}/{folder}".rstrip("/")


_RUNS = re.compile(r"\bpython[\d.]*(?:\s+-\w+)*\s+(?P<script>[\w./+-]+\.py)\b")
_OURS = re.compile(r"cifar|load_cifar|resnet_lab|run_log|ResNet\d+(?:_seq)?")
"""Modules of the lab: no container has them."""
_WHOLE = re.compile(r"/(?:[\w.+-]+/)*[\w.+-]+/?")
"""A path from the root and nothing else: no variable, no pattern."""


def absolute_paths(code: str) -> Iterator[str]:
    """The paths from the root in a line of code; what stands behind ``"$HOME"`` or a tilde is only the tail of one."""
    for word in split_words(code) if "/" in code else ():
        for piece in re.split(r"[\s=:,;<>|&()\[\]]+", word.replace('"', "").replace("'", "")):
            if _WHOLE.fullmatch(piece):
                yield piece.rstrip("/")


def alternative_path(path: str) -> str:
    """Where the same may lie: courses keep shared files under scratch or under projects; "" for any other path."""
    for here, there in (("/gpfs/scratch/", "/gpfs/projects/"), ("/gpfs/projects/", "/gpfs/scratch/")):
        if path.startswith(here):
            return there + path.removeprefix(here)
    return ""


def _instead(context: ScriptContext, path: str, wanted: str) -> str:
    """A path to use for one that is missing: its other place when that was seen, else the folder's own; or ""."""
    other = alternative_path(path)
    if other and context.remote.get(other):
        return other
    return wanted if wanted and wanted != path and context.remote.get(wanted, True) else ""


def _advice(instead: str, path: str, setting: str) -> str:
    if not instead or instead != alternative_path(path):
        return ""
    return f" It is at {instead}: set `{setting}` to that under [cluster] in lab.toml."


def remote_paths(context: ScriptContext) -> tuple[str, ...]:
    """Absolute paths a job needs, worth asking the cluster about: data, container, those written in scripts."""
    paths: dict[str, None] = {}
    if context.draft is not None:
        paths.update(
            dict.fromkeys(p for p in (context.draft.data_dir, context.draft.container) if p[:1] == "/")
        )
    for _, _, _, code in _code_lines(context):
        for path in absolute_paths(code):
            whole = path.count("/") > 1  # "/cifar-10" alone is mostly a tail joined to something else
            if whole and (path.endswith((".sif", ".simg")) or "cifar" in path):
                paths.setdefault(path, None)
    for job in context.jobs:
        folders = (log_folder(job, option) for option in ("output", "error") if job.has(option))
        paths.update(dict.fromkeys(folder for folder in folders if folder[:1] == "/" and "%" not in folder))
    for _, path in _needed_entries(context):
        paths.setdefault(path, None)
    others = [other for path in paths if (other := alternative_path(path))]
    return tuple(dict.fromkeys([*paths, *others]))


@rule("script-missing", "error", "A script the job runs is not among the files sent.")
def script_missing(context: ScriptContext) -> Iterator[Finding]:
    """Relative names only: absolute ones are the cluster's business."""
    for job in context.jobs:
        moves = any(re.match(r"\s*cd\s", command.text) for command in job.commands)
        moves = moves or job.value("chdir")[:1] in ("/", "~", "$")
        for command in () if moves else job.filled:
            match = _RUNS.search(command.text)
            if match is None or match["script"].startswith("/") or command.repeated:
                continue
            name = match["script"].removeprefix("./")
            if name not in context.files:
                effect = f"{name} is not sent with the job: put it into scripts/, or correct its name."
                line = job.lines[command.line - 1]
                fix = _named_right(context, job, job.source(command), name)
                yield found("script-missing", job.name, command.line, line, effect, fix=fix)


_LOOKALIKES = str.maketrans("oli-", "011_")
"""Letters that are taken for others, once capitals are gone."""


def _named_right(context: ScriptContext, job: JobScript, command: ScriptCommand, name: str) -> Fix | None:
    """A fix where one script alone has the name apart from capitals and lookalikes (O and 0, l and 1, - and _)."""
    alike = name.casefold().translate(_LOOKALIKES)
    names = [n for n in context.files if n.endswith(".py") and n.casefold().translate(_LOOKALIKES) == alike]
    lines = [(n, text) for n, text in physical(job, command.line, command.end) if name in text]
    if len(names) != 1 or not lines:
        return None
    number, text = lines[0]
    return replace_line(job.name, number, text, text.replace(name, names[0]), f"write {names[0]}")


@rule("module-missing", "error", "A Python module the script imports is not sent with it.")
def module_missing(context: ScriptContext) -> Iterator[Finding]:
    """The lab's own modules (`cifar`, `resnet_lab` ...), unless the script adds a path of its own."""
    for name, tree in context.trees.items():
        text = context.pythons[name]
        if tree is None or "sys.path" in text:
            continue
        for node, module in _lab_imports(tree):
            if module not in context.modules:
                line = text.split("\n")[node.lineno - 1] if isinstance(node, ast.stmt) else ""
                number = node.lineno if isinstance(node, ast.stmt) else 0
                effect = f"Python will say: No module named '{module}'. Put {module}.py into scripts/ again."
                yield found("module-missing", name, number, line, effect)


@lru_cache(maxsize=128)
def _lab_imports(tree: ast.Module | None) -> tuple[tuple[ast.AST, str], ...]:
    """The imports of modules that come with the lab."""
    imports = ((node, module) for node in nodes_of(tree) for module in _imported(node))
    return tuple((node, module) for node, module in imports if _OURS.fullmatch(module))


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name.partition(".")[0] for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module and not node.level:
        return [node.module.partition(".")[0]]
    return []


@lru_cache(maxsize=128)
def _path_entries(tree: ast.Module | None) -> tuple[tuple[int, str], ...]:
    """Line and folder of each ``sys.path.append("/...")``, as far as they are written out."""
    return tuple(
        (value.lineno, value.value.rstrip("/"))
        for node in nodes_of(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("sys.path.")
        for value in ast.walk(node)
        if isinstance(value, ast.Constant) and isinstance(value.value, str) and value.value[:1] == "/"
    )


def _needed_entries(context: ScriptContext) -> Iterator[tuple[str, str]]:
    """File and folder of the ``sys.path`` entries without which a module of the lab would be missing."""
    for name, tree in context.trees.items():
        if {module for _, module in _lab_imports(tree)} - context.modules:
            yield from ((name, path) for _, path in _path_entries(tree))


@rule("sys-path", "error", "A `sys.path` folder that is not on the cluster, for a module not sent along.")
def sys_path(context: ScriptContext) -> Iterator[Finding]:
    """Only where the cluster was asked. A folder that nothing is imported from does no harm."""
    needed = set(_needed_entries(context))
    for name, tree in context.trees.items():
        for number, path in _path_entries(tree):
            if (name, path) not in needed or context.remote.get(path) is not False:
                continue
            line = context.pythons[name].split("\n")[number - 1]
            instead = _instead(context, path, "")
            fix = (
                replace_line(name, number, line, line.replace(path, instead), f"use {instead}")
                if instead
                else None
            )
            effect = f"{path} is not on the cluster: Python will not find the module. Put the module into scripts/."
            yield found("sys-path", name, number, line, effect, fix=fix)


@rule("other-path", "warning", "A path of another course's account.")
def other_path(context: ScriptContext) -> Iterator[Finding]:
    """In commands, directives and Python strings; the `--account` directive has its own rule."""
    pattern = context.profile.account_pattern
    if not pattern or not context.account:
        return
    try:
        group = re.compile(rf"(?<![A-Za-z0-9])(?:{pattern})(?![A-Za-z0-9])")
    except re.error:
        return
    for name, number, line, code in (*_code_lines(context), *_directive_lines(context)):
        others = {
            m[0] for path in re.findall(r"[^\s'\"=:,]*/[^\s'\"=:,]*", code) for m in group.finditer(path)
        } - {context.account}
        if others:
            fixed = code
            for other in others:
                fixed = re.sub(rf"(?<![A-Za-z0-9]){re.escape(other)}(?![A-Za-z0-9])", context.account, fixed)
            effect = f"This path belongs to {', '.join(sorted(others))}; your course's files are elsewhere."
            title = f"use {context.account}"
            fix = replace_line(name, number, line, fixed + line[len(code) :], title)
            yield found("other-path", name, number, line, effect, fix=fix)


def _directive_lines(context: ScriptContext) -> Iterator[tuple[str, int, str, str]]:
    """As `_code_lines`: the directives that hold a path."""
    for job in context.jobs:
        for directive in job.directives:
            if "/" in directive.value and directive.name != "account":
                yield job.name, directive.line, directive.text, directive.text


def _code_lines(context: ScriptContext) -> Iterator[tuple[str, int, str, str]]:
    """File, line number, line and its code: commands of shells, and Python lines that hold a path as a string.

    What Python only looks for modules in is left out: an entry too many there does no harm.
    """
    for job in context.shells:
        for number, line in job.code:
            if not line.startswith("#"):
                yield job.name, number, line, without_comment(line)
    needed_entries = tuple(_needed_entries(context))
    for name, text in context.pythons.items():
        tree = context.trees[name]
        entries = {number for number, _ in _path_entries(tree)}
        needed = {path for file, path in needed_entries if file == name}
        strings = {
            node.lineno
            for node in _values(tree)
            if "/" in node.value and (node.lineno not in entries or node.value.rstrip("/") in needed)
        }
        for number, line in enumerate(text.split("\n"), 1):
            if number in strings:
                yield name, number, line, line


@lru_cache(maxsize=128)
def _values(tree: ast.Module | None) -> tuple[_Text, ...]:
    """The strings of a program that are values: no docstrings."""
    idle = {id(node.value) for node in nodes_of(tree) if isinstance(node, ast.Expr)}
    return tuple(
        _Text(node.lineno, node.value)
        for node in nodes_of(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in idle
    )


class _Text(NamedTuple):
    lineno: int
    value: str


@rule("container-missing", "error", "The container image is not on the cluster.")
def container_missing(context: ScriptContext) -> Iterator[Finding]:
    """Only where the cluster was asked."""
    for job in context.jobs:
        for number, line in job.code:
            for path in absolute_paths(without_comment(line)):
                if path.endswith((".sif", ".simg")) and context.remote.get(path) is False:
                    wanted = context.draft.container if context.draft else ""
                    instead = _instead(context, path, wanted)
                    fixed = line.replace(path, instead) if instead else line
                    fix = replace_line(job.name, number, line, fixed, f"use {instead}")
                    effect = (
                        f"{path} is not on the cluster: singularity could not open the image."
                        f"{_advice(instead, path, 'container')}"
                    )
                    yield found("container-missing", job.name, number, line, effect, fix=fix)


@rule("data-missing", "error", "The data set is not where the job looks for it.")
def data_missing(context: ScriptContext) -> Iterator[Finding]:
    """Only where the cluster was asked."""
    entries = {path for _, path in _needed_entries(context)}
    for name, number, line, code in _code_lines(context):
        for path in absolute_paths(code):
            if (
                context.remote.get(path) is False
                and path not in entries
                and not path.endswith((".sif", ".simg"))
            ):
                wanted = context.draft.data_dir if context.draft and "cifar" in path else ""
                instead = _instead(context, path, wanted)
                fixed = line.replace(path, instead) if instead else line
                fix = replace_line(name, number, line, fixed, f"use {instead}")
                effect = f"{path} is not on the cluster.{_advice(instead, path, 'data_dir')}"
                yield found("data-missing", name, number, line, effect, fix=fix)
