"""What a rule looks at, and how rules are declared.

A rule is a small function that yields findings. It is registered with its id, its severity and the sentence
that stands in the table of the documentation.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from labtui.core.model import SubmissionDraft
from labtui.core.preflight.findings import Edit, Finding, Fix, Severity
from labtui.core.preflight.script import JobScript, read_script
from labtui.core.profile import Profile

MAIN_SCRIPT = "job.slurm"
"""The job script of a submission; when it is there, other job scripts in the folder are not looked at."""

_JOB_NAME = re.compile(r"\.(?:slurm|sbatch|job)$")
_MODULES = re.compile(r"^\s*(?:from\s+([\w.]+)\s+import|import\s+([\w., ]+))", re.MULTILINE)


@dataclass(frozen=True)
class Context:
    """The files of a submission as text, and what is known about the cluster.

    `account` is the student's; `remote` says of remote paths whether they exist (unknown ones are absent).
    """

    files: Mapping[str, str]
    draft: SubmissionDraft | None
    profile: Profile
    account: str = ""
    remote: Mapping[str, bool] = field(default_factory=dict)

    @cached_property
    def jobs(self) -> tuple[JobScript, ...]:
        """The job scripts to look at."""
        if MAIN_SCRIPT in self.files:
            return (read_script(MAIN_SCRIPT, self.files[MAIN_SCRIPT]),)
        return tuple(
            read_script(name, text)
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
        commands = " ".join(command.text for job in self.shells for command in job.commands)
        named |= {name for name in every if re.search(rf"(?<![\w.]){re.escape(name)}\b", commands)}
        if not named & set(every):
            return every if not self.draft and not self.jobs else {}
        return {name: every[name] for name in _closure(named & set(every), every)}

    @cached_property
    def trees(self) -> dict[str, ast.Module | None]:
        """Each Python file parsed; None where it does not parse."""
        return {name: _parse(text) for name, text in self.pythons.items()}

    @property
    def wants_gpus(self) -> bool:
        """Whether the submission is meant for GPUs."""
        return self.draft is not None and self.draft.gpus > 0


def _parse(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


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


RuleFunction = Callable[[Context], Iterable[Finding]]


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
    rule_id: str, severity: Severity, topic: str, sentence: str
) -> Callable[[RuleFunction], RuleFunction]:
    """Register a rule under its id."""

    def register(check: RuleFunction) -> RuleFunction:
        RULES[rule_id] = Rule(rule_id, severity, topic, sentence, check)
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
