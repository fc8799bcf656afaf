"""What preflight rules share: the scripts that they check, findings and fixes, and the table of rules.

A rule checks one file and yields hits, ``(line, effect, fix)``; a fix is an edit of the text. A rule is registered with
an id and a severity; the first line of its docstring is its sentence in the documentation.
"""

import ast
import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, Literal, NamedTuple

import msgspec

from labtui.domain.model import AcceptedFinding, Interval, SubmissionDraft
from labtui.domain.profile import Profile, fill
from labtui.slurm.batch_script import JobScript, read_script, without_comment
from labtui.slurm.script_commands import Command

Severity = Literal["error", "warning"]
"""An error stops a submission; a warning asks for confirmation."""


class Edit(msgspec.Struct, frozen=True):
    """Replaces line `line` (1-based), which reads `old`, by the lines `new`."""

    line: int
    old: str
    new: tuple[str, ...]


class Fix(msgspec.Struct, frozen=True):
    """A change of one file. `title` describes it; either all its edits are applied or none."""

    file: str
    title: str
    edits: tuple[Edit, ...]


FindingKey = tuple[str, str, int, str]
"""Rule, file, line and effect of a finding."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A mistake found by a rule. `line` is 1-based, 0 for the whole file.

    `text` is the line as it stands; `effect` says in one or two sentences what it does and what would be right.
    """

    rule: str
    severity: Severity
    file: str
    line: int
    text: str
    effect: str
    fix: Fix | None = None

    @property
    def key(self) -> FindingKey:
        """The key of a reason to override it, which holds as long as the finding does not change."""
        return self.rule, self.file, self.line, self.effect


def apply_fix(text: str, fix: Fix) -> str:
    """The text with a fix applied.

    A fix that no longer fits (already applied, or a line has changed since) changes nothing.
    """
    lines = text.split("\n")
    if not fix.edits or not all(_can_apply(lines, edit) for edit in fix.edits):
        return text
    for edit in sorted(fix.edits, key=lambda item: item.line, reverse=True):
        lines[edit.line - 1 : edit.line] = edit.new
    return "\n".join(lines)


def _can_apply(lines: Sequence[str], edit: Edit) -> bool:
    at = edit.line - 1
    if not 0 <= at < len(lines) or lines[at] != edit.old or edit.new == (edit.old,):
        return False
    # An insertion keeps the old line, so check whether the new lines are already there.
    before = tuple(lines[max(0, at - len(edit.new) + 1) : at + 1])
    return len(edit.new) < 2 or (tuple(lines[at : at + len(edit.new)]) != edit.new and before != edit.new)


def preview_fix(text: str, fix: Fix) -> str:
    """The change as a unified diff with two lines of context; "" if nothing would change."""
    old, new = text.split("\n"), apply_fix(text, fix).split("\n")
    return "\n".join(difflib.unified_diff(old, new, fix.file, f"{fix.file} (fixed)", lineterm="", n=2))


def overridden(findings: Iterable[Finding], reasons: Mapping[FindingKey, str]) -> tuple[AcceptedFinding, ...]:
    """The findings that have a reason by their key, with that reason."""
    return tuple(
        AcceptedFinding(rule=found.rule, file=found.file, line=found.line, effect=found.effect, reason=reason)
        for found in findings
        if (reason := reasons.get(found.key))
    )


MAX_TEXT = 1_000_000
"""The bytes of a file that are checked: no script is longer, and data files need no check."""
MAIN_SCRIPT = "job.slurm"
"""The default name of a submission's job script; if that file exists, other job scripts are not checked."""


class PythonScript(msgspec.Struct, frozen=True, dict=True):
    """A Python file that the trainings run or import; `parsed` is the error if it does not parse."""

    name: str
    text: str

    @cached_property
    def lines(self) -> tuple[str, ...]:
        return tuple(self.text.split("\n"))

    @cached_property
    def parsed(self) -> ast.Module | Exception:
        try:
            return ast.parse(self.text)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            return error

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """All nodes of the program, parents first; empty if it does not parse."""
        return tuple(ast.walk(self.parsed)) if isinstance(self.parsed, ast.Module) else ()

    @cached_property
    def calls(self) -> tuple[tuple[str, ast.Call], ...]:
        """Each call with the dotted name of its function: ``tf.keras.datasets.cifar10.load_data``."""
        return tuple((_dotted_name(node.func), node) for node in self.nodes if isinstance(node, ast.Call))

    @cached_property
    def options(self) -> frozenset[str] | None:
        """The long options in its calls (``add("--epochs")``); None if its parser may know others, too."""
        parsers = set(re.findall(r"\b(\w+) *= *[\w.]*\b(?:ArgumentParser|add_argument_group)\(", self.text))
        for name, call in self.calls:
            values = [*call.args, *(keyword.value for keyword in call.keywords)]
            handed_on = any(isinstance(v, ast.Name) and ("parser" in v.id or v.id in parsers) for v in values)
            made_up = name.endswith("add_argument") and not isinstance(next(iter(values), None), ast.Constant)
            others = name.endswith("parse_known_args") or any(each.arg == "parents" for each in call.keywords)
            rest = any(_dotted_name(value).rpartition(".")[2] == "REMAINDER" for value in values)
            if handed_on or made_up or others or rest:
                return None
        texts = (text for _, call in self.calls for _, text in _strings(call.args))
        return frozenset(text for text in texts if re.fullmatch(r"--[A-Za-z][\w-]*", text))

    @cached_property
    def imports(self) -> tuple[tuple[int, str], ...]:
        """Line and full name of each imported module."""
        found = []
        for node in self.nodes:
            if isinstance(node, ast.Import):
                found += [(node.lineno, alias.name) for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.append((node.lineno, node.module))
        return tuple(found)

    @cached_property
    def strings(self) -> tuple[tuple[int, str], ...]:
        """Line and text of each string in the program, except docstrings."""
        idle = {id(node.value) for node in self.nodes if isinstance(node, ast.Expr)}
        texts = ((node.lineno, text) for node, text in _strings(self.nodes) if id(node) not in idle)
        return tuple((line, text) for line, text in texts if line <= len(self.lines))

    @cached_property
    def path_entries(self) -> tuple[tuple[int, str], ...]:
        """Line and folder of each ``sys.path.append("/...")`` whose folder is a literal."""
        nodes = (node for name, call in self.calls if name.startswith("sys.path.") for node in ast.walk(call))
        return tuple((node.lineno, text.rstrip("/")) for node, text in _strings(nodes) if text[:1] == "/")


def _strings(nodes: Iterable[ast.AST]) -> Iterator[tuple[ast.Constant, str]]:
    """The nodes that are strings, with their texts."""
    constants = (node for node in nodes if isinstance(node, ast.Constant))
    return ((node, node.value) for node in constants if isinstance(node.value, str))


@lru_cache(maxsize=128)
def python_script(name: str, text: str) -> PythonScript:
    """A parsed script, cached because the jobs of a plan run the same few scripts."""
    return PythonScript(name, text.removeprefix("\ufeff"))  # Python reads past a byte order mark, too


def _dotted_name(node: ast.AST) -> str:
    """The dotted name of an attribute (from after its last part that is not a name) or name; "" for other nodes."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join(reversed([*parts, node.id] if isinstance(node, ast.Name) else parts))


class ScriptContext(msgspec.Struct, frozen=True, dict=True):
    """The files of a submission, and what else is known about it.

    `sent` are the files that would be sent, by relative path. `account` and `queues` are the lab folder's; `remote`
    says whether remote paths exist (those not asked about are absent). `main` is the job script (if it is not among the
    files, every job script is checked); `given` are the options on `sbatch`'s command line, by long name. `forecast`
    are the seconds that the trainings should take together (None if unknown). With `makes_folders`, relative log
    folders are made on submission. `bash_errors` are the errors of ``bash -n`` by shell script; `images` the images per
    epoch of the edition's own scripts, by data set; `brought` the names of labtui's own files; `wanted` the names that
    the task wants in the code of a script, by script; `left_out` the files too large to be sent, with their bytes.
    """

    sent: Mapping[str, bytes]
    draft: SubmissionDraft | None
    profile: Profile
    account: str = ""
    queues: tuple[str, ...] = ()
    remote: Mapping[str, bool] = {}
    main: str = MAIN_SCRIPT
    given: Mapping[str, str] = {}
    forecast: Interval | None = None
    makes_folders: bool = False
    bash_errors: Mapping[str, str] = {}
    images: Mapping[str, int] = {}
    brought: frozenset[str] = frozenset()
    left_out: Mapping[str, int] = {}
    wanted: Mapping[str, tuple[str, ...]] = {}

    @cached_property
    def files(self) -> Mapping[str, str]:
        """The beginning of each file as text; bytes that are not UTF-8 survive a round trip."""
        return {name: data[:MAX_TEXT].decode("utf-8", "surrogateescape") for name, data in self.sent.items()}

    @property
    def job_account(self) -> str:
        """The account that was chosen for this job, else the lab folder's; that of a file's directive is not meant."""
        planned = self.draft.account if self.draft is not None and self.draft.form != "own" else ""
        return self.given.get("account", planned) or self.account

    @property
    def containers(self) -> set[str]:
        """The plan's container image, else the site's for what the scripts import: all, if they do not say."""
        imported = {name.partition(".")[0] for script in self.pythons for _, name in script.imports}
        kinds = {name == "torch" for name in imported & {"torch", "tensorflow", "keras"}} or (False, True)
        site = {self._fill_account(self.profile.container_for(pytorch=kind)) for kind in kinds}
        return ({self.draft.container} if self.draft and self.draft.container else site) - {""}

    @property
    def data_dir(self) -> str:
        """The plan's data folder, else the site's; "" for none."""
        return (self.draft.data_dir if self.draft else "") or self._fill_account(self.profile.data_dir)

    def _fill_account(self, path: str) -> str:
        filled = fill(path, {"account": self.job_account})
        return "" if "{" in filled else filled

    @cached_property
    def jobs(self) -> tuple[JobScript, ...]:
        if self.main in self.files:
            return (read_script(self.main, self.files[self.main], self.given),)
        return tuple(
            read_script(name, text, self.given)
            for name, text in self.files.items()
            if name.endswith((".slurm", ".sbatch", ".job")) or (name.endswith(".sh") and "#SBATCH" in text)
        )

    @cached_property
    def shells(self) -> tuple[JobScript, ...]:
        """Job scripts and the shell helpers they call."""
        jobs, texts = {job.name for job in self.jobs}, "\n".join(job.text for job in self.jobs)
        others = (name for name in self.files if name.endswith(".sh") and name not in jobs)
        called = (name for name in others if not jobs or _is_named(name.rpartition("/")[2], texts))
        return (*self.jobs, *(read_script(name, self.files[name]) for name in called))

    @cached_property
    def pythons(self) -> tuple[PythonScript, ...]:
        """The Python files that the trainings run or import; without a plan and a job script, all of them."""
        every = {name: text for name, text in self.files.items() if name.endswith(".py")}
        named = {run.script for run in self.draft.runs} if self.draft else set()
        written = (command.text for job in self.shells for command in job.commands)
        filled = (command.text for job in self.shells for command in job.filled)
        commands = " ".join((*written, *filled))
        named |= {name for name in every if _is_named(name, commands)}
        if not named & set(every):
            names = list(every) if not self.draft and not self.jobs else []
        else:
            names = imported_files(named & set(every), every)
        return tuple(python_script(name, every[name]) for name in names)

    def options_of(self, name: str) -> frozenset[str] | None:
        """The long options that argparse accepts in a script and its imports; None if that cannot be determined."""
        names = (each for each in imported_files([name], self.files) if each in self.files)
        parts = [python_script(each, self.files[each]) for each in names]
        known = [part.options for part in parts if part.options is not None]
        read = any(module == "argparse" for part in parts for _, module in part.imports)
        return frozenset().union(*known) if read and len(known) == len(parts) else None

    @cached_property
    def modules(self) -> frozenset[str]:
        """The Python modules that are sent along."""
        names = (name.rpartition("/")[2] for name in self.files if name.endswith(".py"))
        return frozenset(name.removesuffix(".py") for name in names)


def _is_named(file: str, text: str) -> bool:
    """Whether a text names this file, and not one whose name has it as a part."""
    return re.search(rf"(?<![\w.-]){re.escape(file)}(?![\w-]|\.\w)", text) is not None


def imported_files(start: Iterable[str], texts: Mapping[str, str]) -> list[str]:
    """`start`, and the files of `texts` that these import, directly or not. A module may lie in any folder."""
    by_module = {path.rpartition("/")[2].removesuffix(".py"): path for path in texts if path.endswith(".py")}
    found = sorted(start)
    for path in found:
        for _, name in python_script(path, texts.get(path, "")).imports:
            other = by_module.get(name.partition(".")[0])
            if other is not None and other not in found:
                found.append(other)
    return found


# --------------------------------------------------------------------------- rules

Files = Literal["jobs", "shells", "pythons"]
"""The files that a rule checks, one at a time: job scripts, these and the helpers they call, or Python files."""


class Hit(NamedTuple):
    """What a rule yields: line (0 for the whole file), effect, fix, and a severity if it differs from the rule's."""

    line: int
    effect: str
    fix: Fix | None = None
    severity: Severity | None = None


Look = Callable[[ScriptContext, Any], Iterable[Hit]]


class Rule(msgspec.Struct, frozen=True):
    """A registered rule: id, default severity, its sentence in the documentation, and its functions by files."""

    id: str
    severity: Severity
    sentence: str
    looks: list[tuple[Files, Look]]

    def findings(self, context: ScriptContext) -> Iterable[Finding]:
        for over, look in self.looks:
            for script in getattr(context, over):
                for line, effect, fix, severity in look(context, script):
                    text = script.lines[line - 1] if 0 < line <= len(script.lines) else ""
                    said = {"text": text.rstrip("\r"), "effect": " ".join(effect.split())}
                    kind = severity or self.severity
                    yield Finding(rule=self.id, severity=kind, file=script.name, line=line, fix=fix, **said)


RULES: dict[str, Rule] = {}


def rule(rule_id: str, severity: Severity = "error", *, over: Files = "jobs") -> Callable[[Look], Look]:
    """Register the decorated function. Further functions of a rule come after the first and give only the id."""

    def register(look: Look) -> Look:
        sentence = (look.__doc__ or "").partition("\n")[0]
        RULES.setdefault(rule_id, Rule(rule_id, severity, sentence, [])).looks.append((over, look))
        return look

    return register


# --------------------------------------------------------------------------- fixes


def change(script: JobScript | PythonScript, title: str, lines: Mapping[int, tuple[str, ...]]) -> Fix:
    """A fix that replaces each of these lines (1-based) by new ones."""
    edits = (Edit(line, script.lines[line - 1], new) for line, new in lines.items())
    return Fix(script.name, title, tuple(edits))


def replace_line(script: JobScript | PythonScript, line: int, new: str, title: str) -> Fix | None:
    """A fix that replaces one line; None if nothing would change."""
    return change(script, title, {line: (new,)}) if new != script.lines[line - 1] else None


def add_directive(job: JobScript, option: str) -> Fix:
    """A fix that adds a directive where Slurm reads it: after the last one, or at the top."""
    title, new = f"add #SBATCH {option}", f"#SBATCH {option}"
    read = [d.line for d in job.directives if not d.late]
    if not read and not job.lines[0].startswith("#"):
        return change(job, title, {1: (new, job.lines[0])})
    line = max(read, default=1)
    old = job.lines[line - 1]
    return change(job, title, {line: (old, new + ("\r" if old.endswith("\r") else ""))})


def code_of(line: str) -> str:
    """A line of a shell script without its comment; the comment behind a directive goes, too."""
    mark = "#SBATCH" if line.startswith("#SBATCH") else ""
    return mark + without_comment(line.removeprefix(mark))


def value_hit(job: JobScript, option: str, effect: str, new: str, *, title: str = "") -> Hit:
    """A hit for a wrong value of an option; the fix writes `new`. Without a line if sbatch's command line has it."""
    if (given := job.last(option)) is None or option in job.given:
        return Hit(0, effect)
    code = code_of(job.lines[given.line - 1])
    # another option in the line may have the same value
    before = rf"(--{option}[= ] *['\"]?)" if f"--{option}" in code else r"([\s='\"A-Za-z])"
    fixed, count = re.subn(rf"{before}{re.escape(given.value)}(?![^\s'\"])", lambda hit: hit[1] + new, code)
    fixed += job.lines[given.line - 1][len(code) :]
    fix = replace_line(job, given.line, fixed, title or f"write {new}") if count == 1 else None
    return Hit(given.line, effect, fix)


def swap(job: JobScript, filled: Command, pattern: str, new: str, title: str) -> Fix | None:
    """A fix that replaces the pattern in the first line where it occurs, of a command with its variables filled in."""
    command = job.source(filled)
    for number in range(command.line, min(command.end, len(job.lines)) + 1):
        line = job.lines[number - 1]
        code = without_comment(line)
        if (changed := re.sub(pattern, new, code, count=1)) != code:
            return replace_line(job, number, changed + line[len(code) :], title)
    return None
