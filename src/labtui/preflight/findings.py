"""What a preflight rule gets and gives: the scripts in their context, findings with a fix, and the table of rules.

A finding has its place, its effect, and a fix that is a pure edit of the text. A rule looks at one file and yields
hits, ``(line, effect, fix)``. It is registered with its id and its severity; the first line of its docstring is its
sentence in the documentation's table.
"""

import ast
import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, Literal, NamedTuple

import msgspec

from labtui.domain.model import AcceptedFinding, SubmissionDraft
from labtui.domain.profile import Profile
from labtui.slurm.batch_script import JobScript, read_script, without_comment
from labtui.slurm.script_commands import Command

Severity = Literal["error", "warning"]
"""An error stops a submission, a warning asks."""


class Edit(msgspec.Struct, frozen=True):
    """Line `line` (1-based) reads `old`; `new` are the lines that take its place."""

    line: int
    old: str
    new: tuple[str, ...]


class Fix(msgspec.Struct, frozen=True):
    """A change of one file. `title` says it in words; its edits are applied all together or not at all."""

    file: str
    title: str
    edits: tuple[Edit, ...]


FindingKey = tuple[str, str, int, str]
"""Rule, file, line and effect of a finding."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing seen in one line. `line` is 1-based, 0 when it is about the file as a whole.

    `text` is the line as it stands; `effect` one or two sentences: what it does, what would be right.
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
        """What a reason is kept by: it holds as long as the finding is found again just so."""
        return self.rule, self.file, self.line, self.effect


def apply_fix(text: str, fix: Fix) -> str:
    """The text with a fix applied.

    A fix that does not fit the text as it is now (applied already, or the line was edited since) changes
    nothing.
    """
    lines = text.split("\n")
    if not fix.edits or not all(_fits(lines, edit) for edit in fix.edits):
        return text
    for edit in sorted(fix.edits, key=lambda item: item.line, reverse=True):
        lines[edit.line - 1 : edit.line] = edit.new
    return "\n".join(lines)


def _fits(lines: Sequence[str], edit: Edit) -> bool:
    at = edit.line - 1
    if not 0 <= at < len(lines) or lines[at] != edit.old or edit.new == (edit.old,):
        return False
    # An insertion keeps its old line, so look whether the new ones stand there already.
    before = tuple(lines[max(0, at - len(edit.new) + 1) : at + 1])
    return len(edit.new) < 2 or (tuple(lines[at : at + len(edit.new)]) != edit.new and before != edit.new)


def preview_fix(text: str, fix: Fix) -> str:
    """The change as a unified diff, two lines of context; "" when nothing would change."""
    changed = apply_fix(text, fix)
    lines = difflib.unified_diff(
        text.split("\n"), changed.split("\n"), fix.file, f"{fix.file} (fixed)", lineterm="", n=2
    )
    return "\n".join(lines)


def accepted(
    findings: Sequence[Finding], reasons: Mapping[str, str], *, errors: str = ""
) -> tuple[AcceptedFinding, ...]:
    """The findings that are overridden: those of a rule with a reason, and every error where `errors` gives one."""
    usual = {found.key: errors for found in findings if found.severity == "error"}
    return overridden(findings, usual | {f.key: reasons[f.rule] for f in findings if f.rule in reasons})


def overridden(findings: Iterable[Finding], reasons: Mapping[FindingKey, str]) -> tuple[AcceptedFinding, ...]:
    """The findings that have a reason of their own, with it."""
    return tuple(
        AcceptedFinding(rule=found.rule, file=found.file, line=found.line, effect=found.effect, reason=reason)
        for found in findings
        if (reason := reasons.get(found.key))
    )


MAX_TEXT = 1_000_000
"""Characters of a file that are looked at: no script is longer, and data is none of our business."""
MAIN_SCRIPT = "job.slurm"
"""The job script of a submission, unless another is named; when it is there, other job scripts are not looked at."""

_JOB_NAME = re.compile(r"\.(?:slurm|sbatch|job)$")


class PythonScript(msgspec.Struct, frozen=True, dict=True):
    """A Python file that the trainings run or import; `tree` is None where it does not parse."""

    name: str
    text: str

    @cached_property
    def lines(self) -> tuple[str, ...]:
        return tuple(self.text.split("\n"))

    @cached_property
    def tree(self) -> ast.Module | None:
        try:
            return ast.parse(self.text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """All nodes of the program, parents first; none where it did not parse."""
        return tuple(ast.walk(self.tree)) if self.tree is not None else ()

    @cached_property
    def calls(self) -> tuple[tuple[str, ast.Call], ...]:
        """Each call and the dotted name of what is called: ``tf.keras.datasets.cifar10.load_data``."""
        return tuple((_dotted(node.func), node) for node in self.nodes if isinstance(node, ast.Call))

    @cached_property
    def options(self) -> frozenset[str] | None:
        """The long options that its calls name (``add("--epochs")``); None where its parser may know others, too."""
        for name, call in self.calls:
            first = call.args[0] if call.args else ast.Constant(None)
            handed_on = isinstance(first, ast.Name) and "pars" in first.id
            made_up = name.endswith("add_argument") and not isinstance(first, ast.Constant)
            if handed_on or made_up or name.endswith("parse_known_args"):
                return None
        texts = (text for _, call in self.calls for _, text in _texts(call.args))
        return frozenset(text for text in texts if re.fullmatch(r"--[A-Za-z][\w-]*", text))

    @cached_property
    def imports(self) -> tuple[tuple[int, str], ...]:
        """Line and full name of each module that is imported."""
        found = []
        for node in self.nodes:
            if isinstance(node, ast.Import):
                found += [(node.lineno, alias.name) for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.append((node.lineno, node.module))
        return tuple(found)

    @cached_property
    def strings(self) -> tuple[tuple[int, str], ...]:
        """Line and text of each string of the program; docstrings are none."""
        idle = {id(node.value) for node in self.nodes if isinstance(node, ast.Expr)}
        texts = ((node.lineno, text) for node, text in _texts(self.nodes) if id(node) not in idle)
        return tuple((line, text) for line, text in texts if line <= len(self.lines))

    @cached_property
    def path_entries(self) -> tuple[tuple[int, str], ...]:
        """Line and folder of each ``sys.path.append("/...")``, as far as they are written out."""
        nodes = (node for name, call in self.calls if name.startswith("sys.path.") for node in ast.walk(call))
        return tuple((node.lineno, text.rstrip("/")) for node, text in _texts(nodes) if text[:1] == "/")


def _texts(nodes: Iterable[ast.AST]) -> Iterator[tuple[ast.Constant, str]]:
    """Those of the nodes that are strings, with their texts."""
    constants = (node for node in nodes if isinstance(node, ast.Constant))
    return ((node, node.value) for node in constants if isinstance(node.value, str))


@lru_cache(maxsize=128)
def python_script(name: str, text: str) -> PythonScript:
    """Kept, as the jobs of a plan run the same few scripts."""
    return PythonScript(name, text)


def _dotted(node: ast.AST) -> str:
    """A dotted name as text, from its last part that is no name; "" for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join(reversed([*parts, node.id] if isinstance(node, ast.Name) else parts))


class ScriptContext(msgspec.Struct, frozen=True, dict=True):
    """The files of a submission, and what is known beside them.

    `sent` are the files that would be pushed, by relative path. `account` is the student's; `remote` says of remote
    paths whether they exist (unknown ones are absent). `main` names the job script (without it, every job script among
    them is looked at), `given` are options on the command line of `sbatch`, by their long names. `forecast_s` is how
    long the trainings should take together, at least (None: nothing is known); `makes_folders` says that relative log
    folders are made with the submission. `bash_errors` is what ``bash -n`` said of the shell scripts, by name; `images`
    how many an epoch of the edition's own scripts has, by data set; `brought` names the files that are labtui's own.
    """

    sent: Mapping[str, bytes]
    draft: SubmissionDraft | None
    profile: Profile
    account: str = ""
    remote: Mapping[str, bool] = {}
    main: str = MAIN_SCRIPT
    given: Mapping[str, str] = {}
    forecast_s: float | None = None
    makes_folders: bool = False
    bash_errors: Mapping[str, str] = {}
    images: Mapping[str, int] = {}
    brought: frozenset[str] = frozenset()

    @cached_property
    def files(self) -> Mapping[str, str]:
        """The beginning of each file as text; bytes that are no UTF-8 survive being written back."""
        return {name: data[:MAX_TEXT].decode("utf-8", "surrogateescape") for name, data in self.sent.items()}

    @property
    def container(self) -> str:
        """The plan's container image, else the site's; "" where neither names one."""
        site = self.profile.launch.container or self.profile.container
        return (self.draft.container if self.draft else "") or self._of_the_site(site)

    @property
    def data_dir(self) -> str:
        """The plan's data folder, else the site's; "" where neither names one."""
        return (self.draft.data_dir if self.draft else "") or self._of_the_site(self.profile.data_dir)

    def _of_the_site(self, path: str) -> str:
        filled = path.replace("{account}", self.account) if self.account else path
        return "" if "{" in filled else filled

    @property
    def no_internet(self) -> Severity:
        """What a download is: an error where the compute nodes are known to have no internet."""
        return "error" if self.profile.status == "current" else "warning"

    @cached_property
    def jobs(self) -> tuple[JobScript, ...]:
        if self.main in self.files:
            return (read_script(self.main, self.files[self.main], self.given),)
        return tuple(
            read_script(name, text, self.given)
            for name, text in self.files.items()
            if _JOB_NAME.search(name) or (name.endswith(".sh") and "#SBATCH" in text)
        )

    @cached_property
    def shells(self) -> tuple[JobScript, ...]:
        """Job scripts and the shell helpers they call."""
        jobs, texts = {job.name for job in self.jobs}, "\n".join(job.text for job in self.jobs)
        others = (name for name in self.files if name.endswith(".sh") and name not in jobs)
        called = (name for name in others if not jobs or name.rpartition("/")[2] in texts)
        return (*self.jobs, *(read_script(name, self.files[name]) for name in called))

    @cached_property
    def pythons(self) -> tuple[PythonScript, ...]:
        """The Python files the trainings run or import; all of them when no training names one."""
        every = {name: text for name, text in self.files.items() if name.endswith(".py")}
        named = {run.script for run in self.draft.runs} if self.draft else set()
        written = (command.text for job in self.shells for command in job.commands)
        filled = (command.text for job in self.shells for command in job.filled)
        commands = " ".join((*written, *filled))
        named |= {name for name in every if re.search(rf"(?<![\w.]){re.escape(name)}\b", commands)}
        if not named & set(every):
            names = list(every) if not self.draft and not self.jobs else []
        else:
            names = imported_files(named & set(every), every)
        return tuple(python_script(name, every[name]) for name in names)

    def options_of(self, name: str) -> frozenset[str] | None:
        """The long options that argparse reads in a script and what it imports; None where that cannot be told."""
        names = (each for each in imported_files([name], self.files) if each in self.files)
        parts = [python_script(each, self.files[each]) for each in names]
        known = [part.options for part in parts if part.options is not None]
        read = name in self.files and any("argparse" in part.text for part in parts)
        return frozenset().union(*known) if read and len(known) == len(parts) else None

    @cached_property
    def modules(self) -> frozenset[str]:
        """The Python modules that are sent along."""
        names = (name.rpartition("/")[2] for name in self.files if name.endswith(".py"))
        return frozenset(name.removesuffix(".py") for name in names)


def imported_files(start: Iterable[str], texts: Mapping[str, str]) -> list[str]:
    """The files to start with and those of `texts` they import; a module is found in any folder, as on `sys.path`."""
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
"""What a rule looks at, one by one: job scripts, these and the helpers they call, Python files."""


class Hit(NamedTuple):
    """What a rule yields: the line (0: the file as a whole), its effect, how to cure it, and a severity of its own."""

    line: int
    effect: str
    fix: Fix | None = None
    severity: Severity | None = None


Look = Callable[[ScriptContext, Any], Iterable[Hit]]


class Rule(msgspec.Struct, frozen=True):
    """A registered rule: `id`, the usual severity, what it sees and what that does, in one sentence."""

    id: str
    severity: Severity
    sentence: str
    looks: list[tuple[Files, Look]]

    def findings(self, context: ScriptContext) -> Iterable[Finding]:
        for over, look in self.looks:
            for script in getattr(context, over):
                for line, effect, fix, severity in look(context, script):
                    text = script.lines[line - 1] if 0 < line <= len(script.lines) else ""
                    yield Finding(
                        rule=self.id,
                        severity=severity or self.severity,
                        file=script.name,
                        line=line,
                        text=text.rstrip("\r"),
                        effect=effect,
                        fix=fix,
                    )


RULES: dict[str, Rule] = {}


def rule(rule_id: str, severity: Severity = "error", *, over: Files = "jobs") -> Callable[[Look], Look]:
    """Registers the function below it; a second function of a rule names the id alone, and stands behind the first."""

    def register(look: Look) -> Look:
        sentence = (look.__doc__ or "").partition("\n")[0]
        RULES.setdefault(rule_id, Rule(rule_id, severity, sentence, [])).looks.append((over, look))
        return look

    return register


# --------------------------------------------------------------------------- fixes


def change(script: JobScript | PythonScript, title: str, lines: Mapping[int, tuple[str, ...]]) -> Fix:
    """A fix that puts other lines in the place of these."""
    edits = (Edit(line, script.lines[line - 1], new) for line, new in lines.items())
    return Fix(script.name, title, tuple(edits))


def replace_line(script: JobScript | PythonScript, line: int, new: str, title: str) -> Fix | None:
    """A fix that gives one line another text; None when nothing would change."""
    return change(script, title, {line: (new,)}) if new != script.lines[line - 1] else None


def add_directive(job: JobScript, option: str) -> Fix:
    """A fix that adds a directive where Slurm reads it: behind the last one, or at the top."""
    title, new = f"add #SBATCH {option}", f"#SBATCH {option}"
    read = [d.line for d in job.directives if not d.late]
    if not read and not job.lines[0].startswith("#"):
        return change(job, title, {1: (new, job.lines[0])})
    line = max(read, default=1)
    old = job.lines[line - 1]
    return change(job, title, {line: (old, new + "\r" * old.endswith("\r"))})


def value_hit(job: JobScript, option: str, effect: str, new: str, *, title: str = "") -> Hit:
    """What is wrong with an option's value: its directive gets another one, unless sbatch was given one that counts."""
    given = job.last(option)
    if given is None or option in job.given:
        return Hit(given.line if given else 1, effect)
    head, found, tail = job.lines[given.line - 1].rpartition(given.value)
    fix = replace_line(job, given.line, head + new + tail, title or f"write {new}") if found else None
    return Hit(given.line, effect, fix)


def comment_out(job: JobScript, line: int, title: str) -> Fix | None:
    """A fix that turns a line into a comment: a directive loses its meaning to Slurm, a command to bash."""
    text = job.lines[line - 1]
    return replace_line(job, line, f"#{text}" if text.startswith("#") else f"# {text}", title)


def swap(job: JobScript, filled: Command, pattern: str, new: str, title: str) -> Fix | None:
    """A fix in the first physical line of a filled command where the pattern is found."""
    command = job.source(filled)
    for number in range(command.line, min(command.end, len(job.lines)) + 1):
        line = job.lines[number - 1]
        code = without_comment(line)
        changed = re.sub(pattern, new, code, count=1)
        if changed != code:
            return replace_line(job, number, changed + line[len(code) :], title)
    return None
