"""What a preflight rule gets and gives: the scripts in their context, findings with a fix, and the table of rules.

A finding has its place, its effect, and a fix that is a pure edit of the text. A rule is a small function that yields
findings, registered with its id, its severity and the sentence that stands in the table of the documentation.
"""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Literal

from labtui.domain.model import AcceptedFinding, SubmissionDraft
from labtui.domain.profile import Profile
from labtui.slurm.batch_script import JobScript, read_script

Severity = Literal["error", "warning"]
"""An error stops a submission, a warning asks."""


@dataclass(frozen=True, slots=True)
class Edit:
    """Line `line` (1-based) reads `old`; `new` are the lines that take its place."""

    line: int
    old: str
    new: tuple[str, ...]

    @property
    def inserts(self) -> bool:
        """Whether the old line stays and others join it."""
        return len(self.new) > 1


@dataclass(frozen=True, slots=True)
class Fix:
    """A change of one file. `title` says it in words; its edits are applied all together or not at all."""

    file: str
    title: str
    edits: tuple[Edit, ...]


FindingKey = tuple[str, str, int, str]
"""Rule, file, line and effect of a finding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
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
    return not edit.inserts or (tuple(lines[at : at + len(edit.new)]) != edit.new and before != edit.new)


def preview_fix(text: str, fix: Fix) -> str:
    """The change as a unified diff, two lines of context; "" when nothing would change."""
    changed = apply_fix(text, fix)
    lines = difflib.unified_diff(
        text.split("\n"), changed.split("\n"), fix.file, f"{fix.file} (fixed)", lineterm="", n=2
    )
    return "\n".join(lines)


def accepted(
    findings: Iterable[Finding], reasons: Mapping[str, str], *, errors: str = ""
) -> tuple[AcceptedFinding, ...]:
    """The findings that are overridden: those of a rule with a reason, and every error where `errors` gives one."""
    return tuple(
        AcceptedFinding(rule=found.rule, file=found.file, line=found.line, effect=found.effect, reason=reason)
        for found in findings
        if (reason := reasons.get(found.rule, errors if found.severity == "error" else ""))
    )


def overridden(findings: Iterable[Finding], reasons: Mapping[FindingKey, str]) -> tuple[AcceptedFinding, ...]:
    """The findings that have a reason of their own, with it."""
    return tuple(
        AcceptedFinding(rule=found.rule, file=found.file, line=found.line, effect=found.effect, reason=reason)
        for found in findings
        if (reason := reasons.get(found.key))
    )


MAIN_SCRIPT = "job.slurm"
"""The job script of a submission, unless another is named; when it is there, other job scripts are not looked at."""

_JOB_NAME = re.compile(r"\.(?:slurm|sbatch|job)$")
_MODULES = re.compile(r"^\s*(?:from\s+([\w.]+)\s+import|import\s+([\w., ]+))", re.MULTILINE)


@dataclass(frozen=True)
class ScriptContext:
    """The files of a submission as text, and what is known about the cluster.

    `account` is the student's; `remote` says of remote paths whether they exist (unknown ones are absent). `main` names
    the job script, `given` are options on the command line of `sbatch`. `forecast_s` is how long the trainings should
    take together, at least (None: nothing is known); `makes_folders` says that relative log folders are made with the
    submission.
    """

    files: Mapping[str, str]
    draft: SubmissionDraft | None
    profile: Profile
    account: str = ""
    remote: Mapping[str, bool] = field(default_factory=dict)
    main: str = MAIN_SCRIPT
    given: Mapping[str, str] = field(default_factory=dict)
    forecast_s: float | None = None
    makes_folders: bool = False

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
        texts = "\n".join(job.text for job in self.jobs)
        helpers = [
            read_script(name, text)
            for name, text in self.files.items()
            if name.endswith(".sh")
            and name not in {job.name for job in self.jobs}
            and (not self.jobs or name.rpartition("/")[2] in texts)
        ]
        return (*self.jobs, *helpers)

    @cached_property
    def pythons(self) -> dict[str, str]:
        """The Python files the trainings run or import; all of them when no training names one."""
        every = {name: text for name, text in self.files.items() if name.endswith(".py")}
        named = {run.script for run in self.draft.runs} if self.draft else set()
        written = (command.text for job in self.shells for command in job.commands)
        filled = (command.text for job in self.shells for command in job.filled)
        commands = " ".join((*written, *filled))
        named |= {name for name in every if re.search(rf"(?<![\w.]){re.escape(name)}\b", commands)}
        if not named & set(every):
            return every if not self.draft and not self.jobs else {}
        return {name: every[name] for name in _closure(named & set(every), every)}

    @cached_property
    def trees(self) -> dict[str, ast.Module | None]:
        """Each Python file parsed; None where it does not parse."""
        return {name: _parse(text) for name, text in self.pythons.items()}

    @cached_property
    def modules(self) -> frozenset[str]:
        """The Python modules that are sent along."""
        names = (name.rpartition("/")[2] for name in self.files if name.endswith(".py"))
        return frozenset(name.removesuffix(".py") for name in names)


@lru_cache(maxsize=128)
def _parse(text: str) -> ast.Module | None:
    """Kept, as the jobs of a plan run the same few scripts."""
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


@lru_cache(maxsize=128)
def nodes_of(tree: ast.Module | None) -> tuple[ast.AST, ...]:
    """All nodes of a program, parents first; none where it did not parse."""
    return tuple(ast.walk(tree)) if tree is not None else ()


@lru_cache(maxsize=128)
def calls_of(tree: ast.Module | None) -> tuple[ast.Call, ...]:
    """All calls of a program."""
    return tuple(node for node in nodes_of(tree) if isinstance(node, ast.Call))


def _closure(start: set[str], every: Mapping[str, str]) -> list[str]:
    by_module = {name.rpartition("/")[2].removesuffix(".py"): name for name in every}
    found = sorted(start)
    for name in found:
        for match in _MODULES.finditer(every[name]):
            for module in re.split(r"[,\s]+", match[1] or match[2]):
                other = by_module.get(module.partition(".")[0])
                if other and other not in found:
                    found.append(other)
    return found


# --------------------------------------------------------------------------- rules


RuleFunction = Callable[[ScriptContext], Iterable[Finding]]


@dataclass(frozen=True, slots=True)
class Rule:
    """A registered rule: `id`, the usual severity, what it sees and what that does, in one sentence."""

    id: str
    severity: Severity
    topic: str
    sentence: str
    check: RuleFunction


RULES: dict[str, Rule] = {}


def rule(
    rule_id: str, severity: Severity, sentence: str, *, topic: str = ""
) -> Callable[[RuleFunction], RuleFunction]:
    """Registers the function below it; without a `topic` the rule's is the name of its module."""

    def register(check: RuleFunction) -> RuleFunction:
        named = topic or check.__module__.rpartition(".")[2]
        RULES[rule_id] = Rule(rule_id, severity, named, sentence, check)
        return check

    return register


def found(
    rule_id: str,
    file: str,
    line: int,
    text: str,
    effect: str,
    *,
    fix: Fix | None = None,
    severity: Severity | None = None,
) -> Finding:
    """A finding of a rule, with the rule's own severity unless another is given."""
    return Finding(
        rule=rule_id,
        severity=severity or RULES[rule_id].severity,
        file=file,
        line=line,
        text=text.rstrip("\r"),
        effect=effect,
        fix=fix,
    )


def replace_line(file: str, line: int, old: str, new: str, title: str) -> Fix | None:
    """A fix that gives one line another text; None when nothing would change."""
    return Fix(file, title, (Edit(line, old, (new,)),)) if new != old else None


def insert_after(job: JobScript, line: int, new: str, title: str) -> Fix:
    """A fix that puts a line after another one (1-based)."""
    old = job.lines[line - 1]
    end = "\r" if old.endswith("\r") else ""
    return Fix(job.name, title, (Edit(line, old, (old, new + end)),))


def add_directive(job: JobScript, option: str) -> Fix | None:
    """A fix that adds a directive where Slurm reads it: behind the last one, or at the top."""
    title, new = f"add #SBATCH {option}", f"#SBATCH {option}"
    read = [d.line for d in job.directives if not d.late]
    if read or job.lines[0].startswith("#"):
        return insert_after(job, max(read, default=1), new, title)
    return Fix(job.name, title, (Edit(1, job.lines[0], (new, job.lines[0])),))


def set_value(job: JobScript, line: int, old: str, new: str, title: str) -> Fix | None:
    """A fix that exchanges a value in a line, at its last place there."""
    text = job.lines[line - 1]
    head, hit, tail = text.rpartition(old)
    return replace_line(job.name, line, text, head + new + tail, title) if hit else None


def comment_out(job: JobScript, line: int, title: str) -> Fix | None:
    """A fix that turns a line into a comment: a directive loses its meaning to Slurm, a command to bash."""
    text = job.lines[line - 1]
    return replace_line(job.name, line, text, f"#{text}" if text.startswith("#") else f"# {text}", title)


def physical(job: JobScript, start: int, end: int) -> Iterator[tuple[int, str]]:
    """The physical lines from `start` to `end`, with their numbers."""
    for number in range(start, min(end, len(job.lines)) + 1):
        yield number, job.lines[number - 1]
