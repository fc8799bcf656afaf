"""The training script itself: does it parse, what would it download, how does it print?"""

import ast
import re
from collections.abc import Iterator

from labtui.preflight.findings import Fix, Hit, PythonScript, ScriptContext, comment_out, replace_line, rule
from labtui.preflight.launch import ONE_EPOCH
from labtui.slurm.batch_script import JobScript


def _keyword(call: ast.Call, name: str) -> ast.keyword | None:
    return next((keyword for keyword in call.keywords if keyword.arg == name), None)


def _is_fit(dotted: str) -> bool:
    return dotted == "fit" or dotted.endswith(".fit")


def _swap_value(script: PythonScript, value: ast.expr, new: str, title: str) -> Fix | None:
    """A fix that writes another literal in place of one that stands on a single line."""
    if value.end_lineno != value.lineno or value.end_col_offset is None:
        return None
    raw = script.lines[value.lineno - 1].encode("utf-8", "surrogatepass")
    fixed = raw[: value.col_offset] + new.encode() + raw[value.end_col_offset :]
    return replace_line(script, value.lineno, fixed.decode("utf-8", "surrogatepass"), title)


@rule("python-syntax", "error", over="pythons")
def python_syntax(_context: ScriptContext, script: PythonScript) -> Iterator[Hit]:
    """A Python file that does not parse.

    It would fail on the cluster after the wait in the queue, with this very message.
    """
    if script.tree is not None:
        return
    try:
        ast.parse(script.text)
    except SyntaxError as error:
        yield Hit(error.lineno or 0, f"Python will refuse this file: {error.msg}.")
    except (ValueError, RecursionError, MemoryError):
        yield Hit(0, "Python cannot read this file as a program.")


@rule("unchanged-copy", "error", over="pythons")
def unchanged_copy(context: ScriptContext, script: PythonScript) -> Iterator[Hit]:
    """A training script that is byte for byte the same as another one: both run the same training.

    A copy whose change was forgotten: its GPU-hours would measure the network of the original once more.
    """
    runs = context.draft.runs if context.draft is not None else ()
    if script.name in context.brought or script.name not in {run.script for run in runs}:
        return
    others = (name for name, text in sorted(context.files.items()) if text == script.text != "")
    same = next((name for name in others if name != script.name), "")
    if same:
        effect = f"{script.name} is the same as {same}, so both run the same training."
        yield Hit(1, f"{effect} Make the change the task asks for.")


@rule("one-epoch", over="pythons")
def one_epoch_in_script(_context: ScriptContext, script: PythonScript) -> Iterator[Hit]:
    """``fit(epochs=1)``."""
    for name, call in script.calls:
        epochs = _keyword(call, "epochs")
        value = epochs.value if epochs is not None and _is_fit(name) else None
        if isinstance(value, ast.Constant) and value.value == 1 and value.value is not True:
            yield Hit(value.lineno, ONE_EPOCH, _swap_value(script, value, "2", "epochs=2"))


@rule("progress-bar", "warning", over="pythons")
def progress_bar(_context: ScriptContext, script: PythonScript) -> Iterator[Hit]:
    r"""fit() with a progress bar: huge logs of \r and \b.

    verbose=2 prints one line per epoch, which is what the lab reads; the default is the bar.
    """
    if "tensorflow" not in script.text and "keras" not in script.text:
        return
    effect = "In a batch job the bar fills the log with \\r and \\b; verbose=2 prints one line per epoch."
    for name, call in script.calls:
        if not _is_fit(name) or any(keyword.arg is None for keyword in call.keywords):
            continue  # fit(**options): nothing can be said
        verbose = _keyword(call, "verbose")
        if verbose is None:
            yield Hit(call.lineno, effect, _quiet(script, call))
        elif isinstance(verbose.value, ast.Constant) and verbose.value.value in (1, "auto", True):
            yield Hit(verbose.value.lineno, effect, _swap_value(script, verbose.value, "2", "verbose=2"))


def _quiet(script: PythonScript, call: ast.Call) -> Fix | None:
    """A fix that adds ``verbose=2`` as the last argument of a call."""
    if call.end_lineno is None or call.end_col_offset is None:
        return None
    raw = script.lines[call.end_lineno - 1].encode("utf-8", "surrogatepass")
    head = raw[: call.end_col_offset - 1].decode("utf-8", "surrogatepass")
    tail = raw[call.end_col_offset - 1 :].decode("utf-8", "surrogatepass")
    before = head if head.strip() else script.lines[call.end_lineno - 2]  # the bracket may stand alone
    comma = "" if before.rstrip().endswith((",", "(")) else ", "
    return replace_line(script, call.end_lineno, f"{head}{comma}verbose=2{tail}", "add verbose=2")


# --------------------------------------------------------------------------- downloads

_DOWNLOAD = re.compile(
    r"^\s*(?:(?:sudo|srun|time)\s+)*(?:wget|curl|git\s+(?:clone|pull)|pip3?\s+(?:install|download)|"
    r"python[\d.]*\s+-m\s+pip\s+install|conda\s+(?:install|create)|huggingface-cli\s+download|singularity\s+pull|docker\s+pull)\b"
)
_DATASETS = {"cifar10", "cifar100", "mnist", "fashion_mnist", "imdb", "reuters", "boston_housing"}


@rule("download", "error", over="shells")
def download(context: ScriptContext, job: JobScript) -> Iterator[Hit]:
    """A download in the job: compute nodes have no internet.

    `wget`, `git clone`, `pip install` and the like.
    """
    for command in job.commands:
        if _DOWNLOAD.match(command.text) and "localhost" not in command.text:
            effect = "Compute nodes have no internet: this hangs until it times out. Send the files instead."
            fix = comment_out(job, command.line, "leave it out") if command.line == command.end else None
            yield Hit(command.line, effect, fix, context.no_internet)


@rule("download", over="pythons")
def data_download(context: ScriptContext, script: PythonScript) -> Iterator[Hit]:
    """Keras's own data sets (`load_data()`) and pre-trained weights come from the internet."""
    for dotted, call in script.calls:
        if dotted.endswith(".load_data") and (".datasets." in dotted or dotted.split(".")[0] in _DATASETS):
            effect = (
                f"{dotted}() downloads the data set, and compute nodes have no internet. Use load_cifar()."
            )
            yield Hit(call.lineno, effect, None, context.no_internet)
        weights = _keyword(call, "weights")
        if weights and isinstance(weights.value, ast.Constant) and weights.value.value == "imagenet":
            effect = "Pre-trained weights are downloaded, and compute nodes have no internet."
            fix = _swap_value(script, weights.value, "None", "weights=None")
            yield Hit(weights.value.lineno, effect, fix, context.no_internet)
