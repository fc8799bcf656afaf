"""The training script itself, what it would download and print; and what it runs in: directory, packages, modules."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from labtui.preflight.findings import (
    Edit,
    Finding,
    Fix,
    ScriptContext,
    Severity,
    calls_of,
    comment_out,
    found,
    nodes_of,
    replace_line,
    rule,
    set_value,
)
from labtui.preflight.launch import CONTAINER_EXEC
from labtui.slurm.batch_script import JobScript, without_comment


def _calls(context: ScriptContext) -> Iterator[tuple[str, str, ast.Call]]:
    for name, tree in context.trees.items():
        for call in calls_of(tree):
            yield name, context.pythons[name], call


def _line(text: str, number: int) -> str:
    lines = text.split("\n")
    return lines[number - 1] if 0 < number <= len(lines) else ""


def _keyword(call: ast.Call, name: str) -> ast.keyword | None:
    return next((keyword for keyword in call.keywords if keyword.arg == name), None)


def _dotted(node: ast.AST) -> str:
    """A dotted name as text: ``tf.keras.datasets.cifar10.load_data``; "" for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join(reversed([*parts, node.id])) if isinstance(node, ast.Name) else ""


def _swap_value(file: str, text: str, value: ast.expr, new: str, title: str) -> Fix | None:
    """A fix that writes another literal in place of one that stands on a single line."""
    if value.end_lineno != value.lineno or value.end_col_offset is None:
        return None
    line = _line(text, value.lineno)
    raw = line.encode("utf-8", "surrogatepass")
    fixed = raw[: value.col_offset] + new.encode() + raw[value.end_col_offset :]
    return replace_line(file, value.lineno, line, fixed.decode("utf-8", "surrogatepass"), title)


@rule(
    "unchanged-copy",
    "warning",
    "A training script that is byte for byte the same as another one: both run the same training.",
)
def unchanged_copy(context: ScriptContext) -> Iterator[Finding]:
    """A copy whose change was forgotten: its GPU-hours would measure the network of the original once more."""
    for name in sorted({run.script for run in context.draft.runs} if context.draft else ()):
        text = context.files.get(name)
        same = next(
            (other for other in sorted(context.files) if other != name and context.files[other] == text), ""
        )
        if text and same:
            effect = f"{name} is the same as {same}, so both run the same training. Make the change the task asks for."
            yield found("unchanged-copy", name, 1, _line(text, 1), effect)


@rule("data-download", "error", '`load_data()` and `weights="imagenet"` download; there is no internet.')
def data_download(context: ScriptContext) -> Iterator[Finding]:
    """Keras's own data sets and pre-trained weights come from the internet."""
    severity: Severity = "error" if context.profile.status == "current" else "warning"
    for name, text, call in _calls(context):
        dotted = _dotted(call.func)
        if dotted.endswith(".load_data") and (".datasets." in dotted or dotted.split(".")[0] in _DATASETS):
            effect = (
                f"{dotted}() downloads the data set, and compute nodes have no internet. Use load_cifar()."
            )
            fix = _own_loader(name, text, context.trees[name], call) if "cifar10" in dotted else None
            line = _line(text, call.lineno)
            yield found("data-download", name, call.lineno, line, effect, fix=fix, severity=severity)
        weights = _keyword(call, "weights")
        if weights and isinstance(weights.value, ast.Constant) and weights.value.value == "imagenet":
            effect = "Pre-trained weights are downloaded, and compute nodes have no internet."
            fix = _swap_value(name, text, weights.value, "None", "weights=None")
            number = weights.value.lineno
            yield found(
                "data-download", name, number, _line(text, number), effect, fix=fix, severity=severity
            )


def _own_loader(name: str, text: str, tree: ast.Module | None, call: ast.Call) -> Fix | None:
    """A fix that calls the lab's loader, where that is certain to mean the same.

    The script imports `load_cifar` already, takes a pair, and trains on its first half as a data set; `load_data()`
    itself gives two pairs of arrays, and a script written for those needs more than another name.
    """
    nodes = nodes_of(tree)
    imported = any(
        isinstance(n, ast.ImportFrom) and any(a.name == "load_cifar" for a in n.names) for n in nodes
    )
    pair = next((_pair(n) for n in nodes if isinstance(n, ast.Assign) and n.value is call), None)
    batch = _batch_name(nodes, call)
    if not imported or pair is None or not batch or not any(_trains_on(n, pair) for n in nodes):
        return None
    return _swap_value(name, text, call, f"load_cifar({batch})", f"load_cifar({batch})")


def _pair(assign: ast.Assign) -> str | None:
    """The first of the two names a call's result is unpacked into."""
    target = assign.targets[0]
    if isinstance(target, ast.Tuple) and len(target.elts) == 2 and len(assign.targets) == 1:
        names = [item.id for item in target.elts if isinstance(item, ast.Name)]
        return names[0] if len(names) == 2 else None
    return None


def _trains_on(node: ast.AST, name: str) -> bool:
    """Whether a node is `fit(name, ...)` with no labels beside it: then the name is a data set."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "fit"):
        return False
    first = node.args[0] if len(node.args) == 1 else None
    return isinstance(first, ast.Name) and first.id == name and _keyword(node, "y") is None


def _batch_name(nodes: Sequence[ast.AST], call: ast.Call) -> str:
    """How the batch size is called where a call stands: a variable, or an option of the script; "" when unknown."""
    known = _names_at(nodes, call)
    if "batch_size" in known:
        return "batch_size"
    options = {n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    return "args.batch_size" if "args" in known and "--batch_size" in options else ""


def _names_at(nodes: Sequence[ast.AST], call: ast.Call) -> set[str]:
    """Variables a call can see: the module's and those of the functions around it."""
    functions = [n for n in nodes if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)]
    others = [f for f in functions if not any(n is call for n in ast.walk(f))]
    hidden = {id(n) for function in others for n in ast.walk(function)}
    seen = [n for n in nodes if id(n) not in hidden]
    stored = {n.id for n in seen if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return stored | {n.arg for n in seen if isinstance(n, ast.arg)}


_DATASETS = {"cifar10", "cifar100", "mnist", "fashion_mnist", "imdb", "reuters", "boston_housing"}


@rule("progress-bar", "warning", "fit() with a progress bar: huge logs of \\r and \\b.")
def progress_bar(context: ScriptContext) -> Iterator[Finding]:
    """verbose=2 prints one line per epoch, which is what the lab reads; the default is the bar."""
    for name, text, call in _calls(context):
        if not (isinstance(call.func, ast.Attribute) and call.func.attr == "fit" and _is_keras(text)):
            continue
        if any(keyword.arg is None for keyword in call.keywords):
            continue  # fit(**options): nothing can be said
        verbose = _keyword(call, "verbose")
        effect = "In a batch job the bar fills the log with \\r and \\b; verbose=2 prints one line per epoch."
        if verbose is None:
            yield found(
                "progress-bar",
                name,
                call.lineno,
                _line(text, call.lineno),
                effect,
                fix=_added(name, text, call),
            )
        elif isinstance(verbose.value, ast.Constant) and verbose.value.value in (1, "auto", True):
            fix = _swap_value(name, text, verbose.value, "2", "verbose=2")
            number = verbose.value.lineno
            yield found("progress-bar", name, number, _line(text, number), effect, fix=fix)


def _is_keras(text: str) -> bool:
    return "tensorflow" in text or "keras" in text


def _added(name: str, text: str, call: ast.Call) -> Fix | None:
    """A fix that adds ``verbose=2`` as the last argument of a call."""
    if call.end_lineno is None or call.end_col_offset is None:
        return None
    line = _line(text, call.end_lineno)
    raw = line.encode("utf-8", "surrogatepass")
    head = raw[: call.end_col_offset - 1].decode("utf-8", "surrogatepass")
    tail = raw[call.end_col_offset - 1 :].decode("utf-8", "surrogatepass")
    comma = "" if head.rstrip().endswith((",", "(")) else ", "
    if not head.strip():  # the bracket stands on a line of its own
        comma = "" if _line(text, call.end_lineno - 1).rstrip().endswith((",", "(")) else ", "
    return replace_line(name, call.end_lineno, line, f"{head}{comma}verbose=2{tail}", "add verbose=2")


@rule("epochs-in-script", "warning", "`epochs=1` written into the script.")
def epochs_in_script(context: ScriptContext) -> Iterator[Finding]:
    for name, text, call in _calls(context):
        epochs = _keyword(call, "epochs")
        if isinstance(call.func, ast.Attribute) and call.func.attr == "fit" and epochs is not None:
            value = epochs.value
            if isinstance(value, ast.Constant) and value.value == 1 and value.value is not True:
                effect = "The first epoch is warm-up and does not count; one epoch measures nothing."
                fix = _swap_value(name, text, value, "2", "epochs=2")
                yield found(
                    "epochs-in-script", name, value.lineno, _line(text, value.lineno), effect, fix=fix
                )


@rule("python-syntax", "error", "A Python file that does not parse.")
def python_syntax(context: ScriptContext) -> Iterator[Finding]:
    """It would fail on the cluster after the wait in the queue, with this very message."""
    for name, tree in context.trees.items():
        if tree is not None:
            continue
        text = context.pythons[name]
        try:
            ast.parse(text)
        except SyntaxError as error:
            number = error.lineno or 0
            effect = f"Python will refuse this file: {error.msg}."
            yield found("python-syntax", name, number, _line(text, number), effect)
        except (ValueError, RecursionError, MemoryError):
            yield found("python-syntax", name, 0, "", "Python cannot read this file as a program.")


# --------------------------------------------------------------------------- what it runs in

_DOWNLOAD = re.compile(
    r"^\s*(?:(?:sudo|srun|time)\s+)*(?:wget|curl|git\s+(?:clone|pull)|pip3?\s+(?:install|download)|"
    r"python[\d.]*\s+-m\s+pip\s+install|conda\s+(?:install|create)|huggingface-cli\s+download|singularity\s+pull|docker\s+pull)\b"
)
_AT_HOME = re.compile(r"^(?:/gpfs)?/home(?:/|$)|^~|^\$\{?HOME\b")


@rule("home-directory", "warning", "Running from the home file system.")
def home_directory(context: ScriptContext) -> Iterator[Finding]:
    """Homes are small and slow; the site wants jobs under scratch or projects."""
    if context.profile.status != "current":
        return
    for job in context.jobs:
        chdir = job.last("chdir")
        if chdir and _AT_HOME.match(chdir.value):
            fix = set_value(job, chdir.line, chdir.value, ".", "stay where it was submitted")
            yield _home(job, chdir.line, fix)
        for command in job.commands:
            match = re.match(r"^\s*cd\s+[\"']?(?P<to>\S+?)[\"']?\s*$", command.text)
            if match and _AT_HOME.match(match["to"]):
                yield _home(job, command.line, comment_out(job, command.line, "stay where it was submitted"))


def _home(job: JobScript, number: int, fix: Fix | None) -> Finding:
    effect = (
        "The home file system is small and not made for jobs; labtui's directory for this job is elsewhere."
    )
    return found("home-directory", job.name, number, job.lines[number - 1], effect, fix=fix)


# --------------------------------------------------------------------------- which software


@rule("download", "error", "A download inside the job: compute nodes have no internet.")
def download(context: ScriptContext) -> Iterator[Finding]:
    """`wget`, `git clone`, `pip install` and the like in a job script."""
    severity: Severity = "error" if context.profile.status == "current" else "warning"
    for job in context.shells:
        for command in job.commands:
            if _DOWNLOAD.match(command.text) and "localhost" not in command.text:
                effect = (
                    "Compute nodes have no internet: this hangs until it times out. Send the files instead."
                )
                fix = comment_out(job, command.line, "leave it out") if command.line == command.end else None
                line = job.lines[command.line - 1]
                yield found("download", job.name, command.line, line, effect, fix=fix, severity=severity)


@rule("cpu-framework", "warning", "A framework built for CPUs only: the GPU stays unused.")
def cpu_framework(context: ScriptContext) -> Iterator[Finding]:
    """`tensorflow-cpu`, `+cpu` wheels: in commands and in requirements files."""
    pattern = re.compile(r"\btensorflow[-_]cpu\b|\btorch\S*\+cpu\b|whl/cpu\b|\bintel-tensorflow\b")
    texts = [(job.name, n, line, without_comment(line)) for job in context.shells for n, line in job.code]
    for name, text in context.files.items():
        if name.rpartition("/")[2].startswith("requirements") and name.endswith(".txt"):
            texts += [(name, n, line, line.partition("#")[0]) for n, line in enumerate(text.split("\n"), 1)]
    for name, number, line, code in texts:
        match = pattern.search(code)
        if match:
            effect = "This build has no GPU code in it: the job gets a GPU and trains on the CPU."
            fixed = code.replace("tensorflow-cpu", "tensorflow").replace("+cpu", "") + line[len(code) :]
            fix = replace_line(name, number, line, fixed, "use the build with GPU support")
            yield found("cpu-framework", name, number, line, effect, fix=fix)


@rule("python-leak", "warning", "PYTHONPATH or a Python module leaks into the container.")
def python_leak(context: ScriptContext) -> Iterator[Finding]:
    """The Python module sets PYTHONHOME and PYTHONPATH, and the container takes them over."""
    for job in context.jobs:
        starts = [c for c in job.commands if CONTAINER_EXEC.search(c.text)]
        if not starts or any("--cleanenv" in c.text or re.search(r"\s-e\s", c.text) for c in starts):
            continue
        for command in job.commands:
            if command.line >= starts[0].line:
                break
            leak = re.match(
                r"^\s*(?:export\s+)?PYTHON(?:PATH|HOME)=\S|^\s*module\s+(?:load|add)\b.*\bpython",
                command.text,
                re.I,
            )
            if leak:
                effect = "The container's Python would look for its packages outside the container."
                fix = comment_out(job, command.line, "leave it out")
                yield found(
                    "python-leak", job.name, command.line, job.lines[command.line - 1], effect, fix=fix
                )


@rule("no-purge", "warning", "Modules loaded on top of whatever the login shell had.")
def no_purge(context: ScriptContext) -> Iterator[Finding]:
    """Only where the cluster's profile purges modules first."""
    if not context.profile.launch.purge or not context.profile.launch.modules:
        return
    for job in context.jobs:
        loads = [c for c in job.commands if re.match(r"^\s*module\s+(?:load|add)\b", c.text)]
        purges = [c for c in job.commands if re.match(r"^\s*module\s+purge\b", c.text)]
        if loads and not any(purge.line < loads[0].line for purge in purges):
            line = job.lines[loads[0].line - 1]
            effect = (
                "A job inherits the modules of the shell that submitted it; purge them for a known start."
            )
            edit = Edit(loads[0].line, line, ("module purge", line))
            fix = Fix(job.name, "add module purge before it", (edit,))
            yield found("no-purge", job.name, loads[0].line, line, effect, fix=fix)
