"""Rules for the files of a job: those that are not sent or not on the cluster, and the training script itself."""

import ast
import contextlib
import difflib
import io
import re
import tokenize
from collections.abc import Collection, Iterator

from labtui.domain.profile import CONTAINER_IMAGES
from labtui.preflight.directives import log_folder
from labtui.preflight.findings import Hit, PythonScript, ScriptContext, replace_line, rule
from labtui.slurm.batch_script import MAX_LINE, JobScript, without_comment
from labtui.slurm.probe import from_home
from labtui.slurm.script_commands import MOVE, Command, split_words

_RUNS = re.compile(r"\b(?:python[\d.]*(?:\s+-\w+)*|torchrun(?:\s+[^\s;|&]+)*?)\s+(?P<script>[\w./+-]+\.py)\b")
"""A command of a job script that runs a Python script."""
_CONFIG = re.compile(
    r"\s(?:--(?:config|cfg|data|input)(?:[-_]file)?|-c)[= ][\"']?(?!/)"
    r"([\w./+-]+\.(?:json|ya?ml|toml|ini|cfg|conf|py|np[yz]|[ct]sv|h5|pkl))\b"
)
"""The relative name of a training's configuration or data, in its command."""
_WRITES = re.compile(r"(?:>|\btee\s+(?:-a\s+)?|\b(?:cp|mv|ln)\s.*\s)\s*[\"']?([\w./+-]+\.\w+)\b")
"""A command of the job script that writes a script or another file, mostly by a here-document."""
_CHANGES_FOLDER = re.compile(
    r"(?:^|[\s(])(?:cd\s+(?![\"']?\$\{?SLURM_SUBMIT_DIR\}?[\"']?(?:\s|$))|pushd\s|(?:docker|podman|ssh|enroot)\s)"
    r"|\s--(?:pwd|cwd|chdir|workdir|container-\w+)\b|\s-[CDWw]\s*[/$]"
)
"""A command that leaves the folder in which the job starts, or runs another one elsewhere."""
_BRINGS = re.compile(
    r"(?:^|[\s(])(?:cp|mv|ln|rsync|scp|tar|unzip|git|wget|curl|make|install|jupyter|test|python[\d.]*\s+-c|"
    r"\[\[?\s+(?:!\s+)?-[efrs])\s"
)
"""A command that may bring a script, or asks whether it is there."""
_MAKES = re.compile(rf"\b(?:mkdir|makedirs|exists|isdir|open|echo|printf|ls|rm)\b|{_BRINGS.pattern}")
"""A line that may make a path, or asks whether it is there."""
_LAB_MODULES = re.compile(r"cifar|load_cifar|resnet_lab|run_log|mllog|ResNet\d+(?:_seq)?")
"""Modules of the lab, which no container has."""
_ABSOLUTE_PATH = re.compile(r"/(?:[\w.+-]+/)*[\w.+-]+/?")
"""An absolute path without variables or wildcards."""
_DATA_OPTION = re.compile(r"\s--data(?:set)?(?:[-_](?:dir|path|root|folder))?[= ]+(?!/tmp/|/dev/)([/$]\S+)")
"""The data folder in a training's command, except on the node's own disk."""
_PROGRAM = re.compile(r"(?<!\S)/\S+/bin/\S+")
_SCRIPT = re.compile(
    r"(?:srun\s+(?:-\S+\s+)*)?(?:\S+/)?python[\d.]*\s+(?:-\w+\s+)*((?!/tmp/)(?:~|\$HOME)?/\S+\.py)(?!\S)"
)
"""A command that runs a Python script by its absolute path or from home, outside a container."""
_SOURCE = re.compile(r"\s*(?:source|\.)\s+(\S+)")
_LEAVES = re.compile(r"\s*cd\s+((?:~|\$HOME)?/\S+?|~|\$HOME)/?\s*")
"""A move to an absolute path, or below home."""


def absolute_paths(code: str) -> Iterator[str]:
    """The absolute paths in a line of code, and those below ``$HOME`` or ``~``, which are returned relative to it."""
    for word in split_words(code) if "/" in code else ():
        for piece in re.split(r"[\s=:,;<>|&()\[\]]+", word.replace('"', "").replace("'", "")):
            if _ABSOLUTE_PATH.fullmatch(piece.removeprefix("$HOME").removeprefix("~")):
                yield piece.removeprefix("$HOME/").removeprefix("~/").rstrip("/")


def alternative_path(path: str) -> str:
    """The other place of a shared file, which courses keep under scratch or projects; "" for any other path."""
    for here, there in (("/gpfs/scratch/", "/gpfs/projects/"), ("/gpfs/projects/", "/gpfs/scratch/")):
        if path.startswith(here):
            return there + path.removeprefix(here)
    return ""


def paths_to_ask(context: ScriptContext) -> tuple[str, ...]:
    """The paths to ask the cluster about: data, container, those in scripts. Relative ones start at the home."""
    draft = context.draft
    paths = [path.removeprefix("~/") for path in ((draft.data_dir, draft.container) if draft else ()) if path]
    scripts: tuple[JobScript | PythonScript, ...] = (*context.shells, *context.pythons)
    lines = (code for script in scripts for _, _, code in _path_lines(context, script))
    for path in (path for code in lines for path in absolute_paths(code)):
        complete = path.count("/") > 1  # "/cifar-10" alone is mostly appended to another path
        if complete and (path.endswith(CONTAINER_IMAGES) or "cifar" in path):
            paths.append(path)
    paths += _named_paths(context)
    for job in context.jobs:
        folders = (log_folder(job, option) for option in ("output", "error") if job.has(option))
        paths += [folder for folder in folders if folder[:1] == "/" and "%" not in folder]
    for script in context.pythons:
        paths += _needed_entries(context, script)
    return tuple(dict.fromkeys([*paths, *filter(None, map(alternative_path, paths))]))


def _named_paths(context: ScriptContext) -> list[str]:
    """The data folders and programs that the trainings' commands name by an absolute path, and the scripts."""
    commands = [command.text for job in context.jobs for command in job.launches]
    named = [each for text in commands for each in (*_DATA_OPTION.findall(text), *_PROGRAM.findall(text))]
    texts = [command.text for job in context.jobs for command in job.filled]
    named += [found[1] for found in map(_SCRIPT.match, texts) if found]
    sourced = [found[1] for found in map(_SOURCE.match, texts) if found]
    # an environment that another command names may be made by the job
    named += [each for each in sourced if sum(each.partition("/bin/")[0] in text for text in texts) == 1]
    elsewhere = [path for job in context.jobs for _, path in _run_elsewhere(job)]
    return [path for each in named for path in absolute_paths(each)] + elsewhere


def _run_elsewhere(job: JobScript) -> Iterator[tuple[int, str]]:
    """Line and path of each Python script that the job runs by a relative name in a folder that is not its own.

    Nothing after a command that may bring a script there.
    """
    folder = ""
    for command in job.filled:
        if re.match(r"\s*cd\b", command.text):
            folder = match[1] if (match := _LEAVES.fullmatch(command.text)) else ""
        elif _BRINGS.search(command.text):
            return
        elif folder and (run := _RUNS.search(command.text)):
            script = f"{folder}/{run['script'].removeprefix('./')}"
            yield from ((command.line, path) for path in absolute_paths(script))


def _path_lines(context: ScriptContext, script: JobScript | PythonScript) -> Iterator[tuple[int, str, str]]:
    """The number, text and code of each line that may contain a path.

    In a shell script these are the commands. In a Python script they are the lines with strings, except docstrings
    and ``sys.path`` entries from which nothing is imported.
    """
    if not isinstance(script, PythonScript):
        numbers = (n for command in script.commands for n in range(command.line, command.end + 1))
        lines = ((n, script.lines[n - 1]) for n in numbers)
        yield from ((n, line, without_comment(line)) for n, line in lines if len(line) <= MAX_LINE)
        return
    entries = {number for number, _ in script.path_entries}
    needed = _needed_entries(context, script)
    paths = ((n, text) for n, text in script.strings if "/" in text)
    found = {n for n, text in paths if n not in entries or text.rstrip("/") in needed}
    yield from ((n, script.lines[n - 1], script.lines[n - 1]) for n in sorted(found))


# --------------------------------------------------------------------------- files that travel


@rule("script-missing", "error")
def script_missing(context: ScriptContext, job: JobScript) -> Iterator[Hit]:
    """A script the job runs, or its `--config` or `--data` file, is not among the files sent.

    Relative names only, without those that the script itself writes. A warning after a command that may bring it; a
    script may write the configuration of the next one.
    """
    changes = [command.text for command in job.filled if _CHANGES_FOLDER.search(command.text)]
    if not all(map(MOVE.fullmatch, changes)) or job.value("chdir")[:1] in ("/", "~", "$"):
        return
    written = {name.removeprefix("./") for command in job.commands for name in _WRITES.findall(command.text)}
    rendered = context.draft is not None and context.draft.form != "own"  # by labtui, which brings no script
    unsure, named = bool(changes), list[tuple[Command, str, bool]]()
    for command in job.filled:
        unsure = unsure or (not rendered and _BRINGS.search(command.text) is not None)
        if match := _RUNS.search(command.text):
            configs = _CONFIG.findall(command.text, match.end())
            named += [(command, each, unsure or bool(named)) for each in configs]
            named.append((command, match["script"], unsure))
    for command, word, maybe in named:
        name = word.removeprefix("./")
        if word[0] == "/" or name in context.files or name in written:
            continue
        base, text = name.rpartition("/")[2], job.lines[command.line - 1]
        folder = "" if ".." in name else name.removesuffix(base)
        beside = "scripts/" if rendered else "the job file's folder or into scripts/"
        place = f"{folder} in the job file's folder or in scripts/" if folder else beside
        effect, fix = f"{name} is not sent with the job: put it into {place}, or correct its name.", None
        if base in context.files:
            effect = f"{name} is not there when the job runs: {base} is sent into the job's own folder."
            effect += f" Put it into {place}." if folder else ""
            if word in text:
                fix = replace_line(job, command.line, text.replace(word, base), f"write {base}")
        yield Hit(command.line, effect, fix, "warning" if maybe else None)
        if fix is None:
            written.add(name)  # said once, not of each run


@rule("module-missing", "error", over="pythons")
def module_missing(context: ScriptContext, script: PythonScript) -> Iterator[Hit]:
    """A Python module the script imports is not sent with it.

    The lab's own modules (`cifar`, `resnet_lab` ...), unless the script extends `sys.path`.
    """
    elsewhere = "sys.path" in script.text or any("PYTHONPATH" in job.text for job in context.shells)
    for number, module in _lab_imports(script) if not elsewhere else ():
        if module not in context.modules and script.lines[number - 2 : number - 1] != ("try:",):
            effect = f"Python will say: No module named '{module}'. Put {module}.py into scripts/ again."
            yield Hit(number, effect)


def _lab_imports(script: PythonScript) -> list[tuple[int, str]]:
    """Line and name of each import of a module that comes with the lab."""
    found = ((number, name.partition(".")[0]) for number, name in script.imports)
    return [(number, module) for number, module in found if _LAB_MODULES.fullmatch(module)]


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
    for number, line, code in _path_lines(context, script):
        yield from _other_accounts(context, script, number, code, line[len(code) :])
    for directive in script.directives if isinstance(script, JobScript) and script in context.jobs else ():
        if "/" in directive.value and directive.name != "account":
            yield from _other_accounts(context, script, directive.line, script.lines[directive.line - 1], "")


def _other_accounts(
    context: ScriptContext, script: JobScript | PythonScript, number: int, code: str, comment: str
) -> Iterator[Hit]:
    if not (pattern := context.profile.account_pattern) or not context.job_account:
        return
    try:
        group = re.compile(rf"(?<![A-Za-z0-9])(?:{pattern})(?![A-Za-z0-9])")
    except re.error:
        return
    paths = re.findall(r"[^\s'\"=:,]*/[^\s'\"=:,]*", code)
    others = {match[0] for path in paths for match in group.finditer(path)} - {context.job_account}
    if not others:
        return
    fixed = code
    for other in others:
        fixed = re.sub(rf"(?<![A-Za-z0-9]){re.escape(other)}(?![A-Za-z0-9])", context.job_account, fixed)
    effect = f"This path belongs to {', '.join(sorted(others))}; your course's files are elsewhere."
    yield Hit(number, effect, replace_line(script, number, fixed + comment, f"use {context.job_account}"))


@rule("path-missing", over="pythons")
@rule("path-missing", "error", over="shells")
def path_missing(context: ScriptContext, script: JobScript | PythonScript) -> Iterator[Hit]:
    """A container image or data folder that is not on the cluster.

    Only paths that the cluster was asked about; a ``sys.path`` folder only if a lab module is not sent. A warning for
    what the job may make or its node may have: a folder that a command names by `--data`, a program, what it sources, a
    script in a folder that it goes to, a path in a line such as `mkdir`.
    """
    lines = list(_path_lines(context, script))
    made = (path for _, _, code in lines if _MAKES.search(code) for path in absolute_paths(code))
    own = {*_named_paths(context), *made} - {context.data_dir}
    named = [(number, path) for number, _, code in lines for path in absolute_paths(code)]
    for number, path in (*named, *(_run_elsewhere(script) if isinstance(script, JobScript) else ())):
        if context.remote.get(path) is not False:
            continue
        other, advice, fix = alternative_path(path), "", None
        if other and context.remote.get(other):
            setting = "container" if path.endswith(CONTAINER_IMAGES) else "data_dir"
            advice = f" It is at {other}: set `{setting}` to that under [cluster] in lab.toml."
            fixed = script.lines[number - 1].replace(path, other)
            fix = replace_line(script, number, fixed, f"use {other}")
        effect = f"{from_home(path)} is not on the cluster.{advice}"
        yield Hit(number, effect, fix, "warning" if path in own else None)


# --------------------------------------------------------------------------- the training script


@rule("large-file", "warning", over="pythons")
def large_file(context: ScriptContext, script: PythonScript) -> Iterator[Hit]:
    """A file beside the job file that a script names and that is too large to be sent."""
    for name, size in context.left_out.items():
        lines = [line for line, text in script.strings if f"/{name}".endswith(f"/{text}")]
        told = f"{name} is too large to be sent ({size / 1e6:,.0f} MB)"
        yield from (Hit(line, f"{told}: copy it with scp, give its path there.") for line in lines[:1])


@rule("python-syntax", "error", over="pythons")
def python_syntax(_context: ScriptContext, script: PythonScript) -> Iterator[Hit]:
    """A Python file that does not parse.

    It would fail on the cluster with the same message, after the wait in the queue.
    """
    if isinstance(script.parsed, SyntaxError):
        yield Hit(script.parsed.lineno or 0, f"Python will refuse this file: {script.parsed.msg}.")
    elif isinstance(script.parsed, Exception):
        yield Hit(0, "Python cannot read this file as a program.")


@rule("unchanged-copy", "error", over="pythons")
def unchanged_copy(context: ScriptContext, script: PythonScript) -> Iterator[Hit]:
    """A training script that is byte for byte the same as another one: both run the same training.

    The student forgot to change the copy, so its GPU-hours would measure the original again. No task asks for that
    in a job file of the student's own. A warning if the copy does not use the names that its task wants there.
    """
    runs = context.draft.runs if context.draft is not None and context.draft.form != "own" else ()
    if script.name in context.brought or script.name not in {run.script for run in runs}:
        return
    others = (name for name, text in sorted(context.files.items()) if text == script.text != "")
    names, wanted = code_names(script.text), context.wanted.get(script.name, ())
    if same := next((name for name in others if name != script.name), ""):
        effect = f"{script.name} is the same as {same}, so both run the same training."
        yield Hit(1, f"{effect} Make the change the task asks for.")
    elif effect := names_missing(script.name, names, wanted):
        like = [names[near] for name in wanted for near in difflib.get_close_matches(name, names, 1, 0.7)]
        yield Hit(max(like, default=1), effect, None, "warning")


_STARTS = {tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.COMMENT}


def code_names(text: str) -> dict[str, int]:
    """The names and string literals in Python code, each with its first line; comments and docstrings do not count.

    Code that cannot be tokenized is read up to the error.
    """
    names: dict[str, int] = {}
    before = tokenize.NEWLINE
    with contextlib.suppress(tokenize.TokenError, SyntaxError, ValueError):
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.NAME:
                names.setdefault(token.string, token.start[0])
            elif token.type == tokenize.STRING and before not in _STARTS:
                names.setdefault(token.string.strip("'\""), token.start[0])
            before = token.type
    return names


def names_missing(script: str, names: Collection[str], wanted: Collection[str]) -> str:
    """Which of the names that a task wants in a script are not in its code; "" if all are."""
    lacking = [name for name in wanted if name not in names]
    return f"{script} does not use {' and '.join(lacking)} in its code yet." if lacking else ""


# --------------------------------------------------------------------------- downloads

_DOWNLOAD = re.compile(
    r"^\s*(?:(?:sudo|srun|time)\s+)*(?:wget|curl|git\s+(?:clone|pull)|pip3?\s+(?:install|download)|"
    r"python[\d.]*\s+-m\s+pip\s+install|conda\s+(?:install|create)|huggingface-cli\s+download|singularity\s+pull|docker\s+pull)\b"
)
_HERE = re.compile(r"--no-index|--offline|--version|--help|://|[\s=](?:file:|\.{0,2}/|\.(?=\s|\Z)|\$)")
"""A download that may be none: from a file, folder or variable; ``://`` is that of a host named localhost."""
_DATASETS = {"cifar10", "cifar100", "mnist", "fashion_mnist", "imdb", "reuters", "boston_housing"}


@rule("download", "error", over="shells")
def download(context: ScriptContext, job: JobScript) -> Iterator[Hit]:
    """A download in the job: compute nodes have no internet.

    `wget`, `git clone`, `pip install` and the like, from a host or by name; not if the job names a proxy.
    """
    asked = re.search(r"(?:\[|\btest)\s+(?:!\s+)?-[defrs]\s", job.text)  # it may be there already
    for command in job.filled if "_proxy=" not in job.text.lower() else ():
        remote = re.search(r"://(?!localhost|127\.)|\bgit@", command.text) or not _HERE.search(command.text)
        if _DOWNLOAD.match(command.text) and remote:
            effect = "Compute nodes have no internet: this hangs until it times out. Send the files instead."
            sure = not asked and context.profile.status == "current" and "pip" not in command.text
            yield Hit(command.line, effect, None, None if sure else "warning")


@rule("download", over="pythons")
def data_download(_context: ScriptContext, script: PythonScript) -> Iterator[Hit]:
    """Keras's own data sets (`load_data()`) and pre-trained weights come from the internet."""
    for dotted, call in script.calls:
        if dotted.endswith(".load_data") and (".datasets." in dotted or dotted.split(".")[0] in _DATASETS):
            effect = f"{dotted}() may download the data; compute nodes have no internet. Use load_cifar()."
            yield Hit(call.lineno, effect, None, "warning")
        weights = next((keyword.value for keyword in call.keywords if keyword.arg == "weights"), None)
        if isinstance(weights, ast.Constant) and weights.value == "imagenet":
            effect = "This may download the weights, and compute nodes have no internet."
            yield Hit(weights.lineno, effect, None, "warning")
