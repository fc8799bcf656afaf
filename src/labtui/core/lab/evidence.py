"""What a check may look at: the state, the numbers, the scripts, the answers, what was exported.

The engine gathers it from the lab folder; here it is a frozen value, so that a check is a pure function of
it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from labtui.core.lab.answers import AnswerSheet
from labtui.core.lab.plan import PlanOverrides
from labtui.core.model import SubmissionStatus
from labtui.core.results import Results
from labtui.core.state import LabState, RunState, SubmissionState

_IMPORT = re.compile(r"^\s*(?:from\s+([\w.]+)\s+import|import\s+([\w., ]+))", re.MULTILINE)


NEVER_SENT = (SubmissionStatus.REFUSED, SubmissionStatus.WITHDRAWN)
"""Submissions that Slurm never took."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFact:
    """A script as it is now: its path below `scripts/`, SHA-256 hex digest, and text."""

    path: str
    sha256: str
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportFact:
    """An exported chart: its file, its chart key, the models it shows (empty: all that were measured).

    `at` is when the file was written, in UNIX seconds of this computer; None when that is not known.
    """

    path: str
    chart: str
    models: tuple[str, ...] = ()
    practice: bool = False
    at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Everything a check looks at.

    `scripts` and `originals` go by path below `scripts/` (`originals`: as labtui ships them). `answers` by
    task id. `files` are the other files of the lab folder, relative. `remote` says of remote paths whether
    they are there, `remote_at` (UNIX seconds) when the cluster said so. `overrides` are the lab folder's own
    changes to the plan (smaller batches for smaller GPUs).
    """

    state: LabState = field(default_factory=LabState)
    results: Results = field(default_factory=lambda: Results(images=50_000))
    scripts: Mapping[str, FileFact] = field(default_factory=dict)
    originals: Mapping[str, FileFact] = field(default_factory=dict)
    exports: tuple[ExportFact, ...] = ()
    answers: Mapping[str, AnswerSheet] = field(default_factory=dict)
    files: frozenset[str] = frozenset()
    remote: Mapping[str, bool] = field(default_factory=dict)
    remote_at: float | None = None
    overrides: PlanOverrides = field(default_factory=PlanOverrides)

    def submission(self, run: RunState) -> SubmissionState | None:
        """The submission that carried a run."""
        return self.state.submissions.get(run.token)

    def sent(self, run: RunState) -> bool:
        """Whether a run reached Slurm or may still: a refused or withdrawn one is no run."""
        submission = self.submission(run)
        return submission is None or submission.status not in NEVER_SENT

    def practice(self, run: RunState) -> bool:
        """Whether a run was a rehearsal."""
        submission = self.submission(run)
        return run.practice or bool(submission and submission.practice)

    def changed_since(self, run: RunState) -> tuple[str, ...]:
        """Scripts a run rests on that differ now from what was sent with it."""
        submission = self.submission(run)
        if submission is None:
            return ()
        changed = []
        for path in rests_on(run.spec.script, self.scripts):
            sent = submission.script_hashes.get(path)
            now = self.scripts.get(path)
            if sent is not None and (now is None or now.sha256 != sent):
                changed.append(path)
        return tuple(changed)


def rests_on(script: str, scripts: Mapping[str, FileFact]) -> tuple[str, ...]:
    """A script and those of the folder it imports, directly or through others."""
    by_module = {
        path.rpartition("/")[2].removesuffix(".py"): path for path in scripts if path.endswith(".py")
    }
    found = [script]
    for path in found:
        text = scripts[path].text if path in scripts else ""
        for match in _IMPORT.finditer(text):
            for name in re.split(r"[,\s]+", match[1] or match[2]):
                module = by_module.get(name.partition(".")[0])
                if module is not None and module not in found:
                    found.append(module)
    return tuple(found)


def code_names(text: str) -> dict[str, int]:
    """Names a Python text uses in its code (not in comments, docstrings), each with its first line.

    Falls back to reading words off lines without their comments when the text does not parse.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _words(text)
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    names: dict[str, int] = {}
    for node in ast.walk(tree):
        for name in _names_of(node, docstrings):
            line = getattr(node, "lineno", 1)
            names[name] = min(line, names.get(name, line))
    return names


def _names_of(node: ast.AST, docstrings: set[int]) -> list[str]:
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.Attribute):
        return [node.attr]
    if isinstance(node, ast.alias):
        return node.name.split(".")
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
        return [node.value]
    return []


def _words(text: str) -> dict[str, int]:
    names: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        for word in re.findall(r"\w+", line.partition("#")[0]):
            names.setdefault(word, number)
    return names
