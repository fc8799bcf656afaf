"""Files and paths: scripts that do not travel with the job, and things that are not on the cluster."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from labtui.core.preflight.context import Context, found, physical, replace_line, rule
from labtui.core.preflight.findings import Finding, Fix
from labtui.core.preflight.script import Command, JobScript, without_comment

_RUNS = re.compile(r"\bpython[\d.]*(?:\s+-\w+)*\s+(?P<script>[\w./+-]+\.py)\b")
_OURS = re.compile(r"cifar|load_cifar|resnet_lab|run_log|ResNet\d+(?:_seq)?")
"""Modules of the lab: no container has them."""
_ABSOLUTE = re.compile(r"(?<![\w.~})*?\]])/(?:[\w.+-]+/)*[\w.+-]+")
"""A path from the root; what stands behind a variable, a tilde or a pattern is only the tail of one."""


def other_place(path: str) -> str:
    """Where the same may lie: courses keep shared files under scratch or under projects; "" for any other path."""
    for here, there in (("/gpfs/scratch/", "/gpfs/projects/"), ("/gpfs/projects/", "/gpfs/scratch/")):
        if path.startswith(here):
            return there + path.removeprefix(here)
    return ""


def _instead(context: Context, path: str, wanted: str) -> str:
    """A path to use for one that is missing: its other place when that was seen, else the folder's own; or ""."""
    other = other_place(path)
    if other and context.remote.get(other):
        return other
    return wanted if wanted and wanted != path and context.remote.get(wanted, True) else ""


def _advice(instead: str, path: str, setting: str) -> str:
    if not instead or instead != other_place(path):
        return ""
    return f" It is at {instead}: set `{setting}` to that under [cluster] in lab.toml."


def remote_paths(context: Context) -> tuple[str, ...]:
    """Absolute paths a job needs, worth asking the cluster about: data, container, those written in scripts."""
    paths: dict[str, None] = {}
    if context.draft is not None:
        paths.update(
            dict.fromkeys(p for p in (context.draft.data_dir, context.draft.container) if p[:1] == "/")
        )
    for _, _, _, code in _code_lines(context):
        for match in _ABSOLUTE.finditer(code):
            whole = match[0].count("/") > 1  # "/cifar-10" alone is mostly a tail joined to something else
            if whole and (match[0].endswith((".sif", ".simg")) or "cifar" in match[0]):
                paths.setdefault(match[0], None)
    others = [other for path in paths if (other := other_place(path))]
    return tuple(dict.fromkeys([*paths, *others]))


@rule("script-missing", "error", "paths", "A script the job runs is not among the files sent.")
def script_missing(context: Context) -> Iterator[Finding]:
    """Relative names only: absolute ones are the cluster's business."""
    for job in context.jobs:
        moves = any(re.match(r"\s*cd\s", command.text) for command in job.commands)
        for command in () if moves else job.commands:
            match = _RUNS.search(command.text)
            if match is None or match["script"].startswith("/"):
                continue
            name = match["script"].removeprefix("./")
            if name not in context.files:
                effect = (
                    f"{name} is not in scripts/, so the job would not find it. Make it, or correct its name."
                )
                line = job.lines[command.line - 1]
                fix = _named_right(context, job, command, name)
                yield found("script-missing", job.name, command.line, line, effect, fix=fix)


_LOOKALIKES = str.maketrans("oli-", "011_")
"""Letters that are taken for others, once capitals are gone."""


def _named_right(context: Context, job: JobScript, command: Command, name: str) -> Fix | None:
    """A fix where one script alone has the name apart from capitals and lookalikes (O and 0, l and 1, - and _)."""
    alike = name.casefold().translate(_LOOKALIKES)
    names = [n for n in context.files if n.endswith(".py") and n.casefold().translate(_LOOKALIKES) == alike]
    lines = [(n, text) for n, text in physical(job, command.line, command.end) if name in text]
    if len(names) != 1 or not lines:
        return None
    number, text = lines[0]
    return replace_line(job.name, number, text, text.replace(name, names[0]), f"write {names[0]}")


@rule("module-missing", "error", "paths", "A Python module the script imports is not sent with it.")
def module_missing(context: Context) -> Iterator[Finding]:
    """The lab's own modules (`cifar`, `resnet_lab` ...), unless the script adds a path of its own."""
    every = {name.rpartition("/")[2].removesuffix(".py") for name in context.files if name.endswith(".py")}
    for name, tree in context.trees.items():
        text = context.pythons[name]
        if tree is None or "sys.path" in text:
            continue
        for node in ast.walk(tree):
            for module in _imported(node):
                if _OURS.fullmatch(module) and module not in every:
                    line = text.split("\n")[node.lineno - 1] if isinstance(node, ast.stmt) else ""
                    number = node.lineno if isinstance(node, ast.stmt) else 0
                    effect = (
                        f"Python will say: No module named '{module}'. Put {module}.py into scripts/ again."
                    )
                    yield found("module-missing", name, number, line, effect)


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name.partition(".")[0] for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module and not node.level:
        return [node.module.partition(".")[0]]
    return []


@rule("other-path", "warning", "paths", "A path of another course's account.")
def other_path(context: Context) -> Iterator[Finding]:
    """In commands and in Python strings; the `--account` directive has its own rule."""
    pattern = context.profile.account_pattern
    if not pattern or not context.account:
        return
    try:
        group = re.compile(rf"(?<![A-Za-z0-9])(?:{pattern})(?![A-Za-z0-9])")
    except re.error:
        return
    for name, number, line, code in _code_lines(context):
        others = {m[0] for path in _ABSOLUTE.finditer(code) for m in group.finditer(path[0])} - {
            context.account
        }
        if others:
            fixed = code
            for other in others:
                fixed = re.sub(rf"(?<![A-Za-z0-9]){re.escape(other)}(?![A-Za-z0-9])", context.account, fixed)
            effect = f"This path belongs to {', '.join(sorted(others))}; your course's files are elsewhere."
            title = f"use {context.account}"
            fix = replace_line(name, number, line, fixed + line[len(code) :], title)
            yield found("other-path", name, number, line, effect, fix=fix)


def _code_lines(context: Context) -> Iterator[tuple[str, int, str, str]]:
    """File, line number, line and its code: commands of shells, and Python lines that hold a string."""
    for job in context.shells:
        for number, line in job.code:
            if not line.startswith("#"):
                yield job.name, number, line, without_comment(line)
    for name, text in context.pythons.items():
        tree = context.trees[name]
        strings = {
            node.lineno
            for node in (ast.walk(tree) if tree is not None else ())
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("/")
        }
        for number, line in enumerate(text.split("\n"), 1):
            if number in strings:
                yield name, number, line, line


@rule("container-missing", "error", "paths", "The container image is not on the cluster.")
def container_missing(context: Context) -> Iterator[Finding]:
    """Only where the cluster was asked."""
    for job in context.jobs:
        for number, line in job.code:
            for match in _ABSOLUTE.finditer(without_comment(line)):
                path = match[0]
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


@rule("data-missing", "error", "paths", "The data set is not where the job looks for it.")
def data_missing(context: Context) -> Iterator[Finding]:
    """Only where the cluster was asked."""
    for name, number, line, code in _code_lines(context):
        for match in _ABSOLUTE.finditer(code):
            path = match[0]
            if context.remote.get(path) is False and not path.endswith((".sif", ".simg")):
                wanted = context.draft.data_dir if context.draft and "cifar" in path else ""
                instead = _instead(context, path, wanted)
                fixed = line.replace(path, instead) if instead else line
                fix = replace_line(name, number, line, fixed, f"use {instead}")
                effect = f"{path} is not on the cluster.{_advice(instead, path, 'data_dir')}"
                yield found("data-missing", name, number, line, effect, fix=fix)
