"""What a check may look at: the state, the numbers, the scripts, the answers, what was exported.

The session gathers it from the lab folder; here it is a frozen value, so that a check is a pure function of it.

A task's answer file has questions as headings and the student's Markdown below them. labtui writes the headings once
and reads back which questions have a text; it never writes, moves or judges an answer. Comments (``<!-- -->``) are ours
or the student's notes and do not count.
"""

import contextlib
import hashlib
import io
import re
import tokenize
from collections.abc import Mapping
from functools import cached_property

import msgspec

from labtui.domain.run import Mark
from labtui.domain.state import NEVER_SENT, LabState, RunState, SubmissionState
from labtui.lab.edition import Task
from labtui.lab.plan import PlanOverrides
from labtui.preflight.findings import imported_files
from labtui.results.rows import Results

_HEADING = re.compile(r"^##\s+(?:(?P<number>\d+)[.)]?\s+)?(?P<text>.*?)\s*#*\s*$")
_FENCE = re.compile(r"^\s{0,3}(```+|~~~+)")
PLACEHOLDER = "<!-- your answer -->"
"""What stands below each question of a new answer file."""
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)


class AnswerSheet(msgspec.Struct, frozen=True):
    """The Markdown below each question of a task, in their order, without comments; `rest` stands under none.

    A text is "" where nothing was written: rules and empty list items are nothing.
    """

    texts: tuple[str, ...]
    rest: str = ""

    @property
    def answered(self) -> tuple[bool, ...]:
        return tuple(bool(text) for text in self.texts)


def new_sheet(task: Task) -> str:
    """The Markdown a task's answer file starts with: its title and its questions, and room below each."""
    lines = [f"# Task {task.id}: {task.title}", ""]
    lines.append("<!-- Write below each question. labtui looks for text there and never changes it. -->")
    for number, question in enumerate(task.questions, 1):
        lines += ["", f"## {number}. {one_line(question.text)}", "", PLACEHOLDER, ""]
    return "\n".join(lines) + ("" if lines[-1] == "" else "\n")


def read_sheet(task: Task, text: str) -> AnswerSheet:
    """The answers a file holds.

    A heading belongs to the question with the same words, else to the one with its number; other headings are
    part of the answer they stand in.
    """
    raw = {index: _COMMENT.sub("", part).strip("\n") for index, part in _texts(task, text).items()}
    shown = {index: part if any(char.isalnum() for char in part) else "" for index, part in raw.items()}
    return AnswerSheet(tuple(shown.get(index, "") for index in range(len(task.questions))), shown[None])


def answer_text(task: Task, text: str, index: int) -> str:
    """What stands below a question, for its author to edit: without the placeholder and blank lines around it."""
    lines = _texts(task, text).get(index, "").split("\n")
    return "\n".join(line for line in lines if line.strip() != PLACEHOLDER).strip("\n")


def with_answer(task: Task, text: str, index: int, answer: str) -> str:
    """The file with another text below one question; every other line stays. "" puts the placeholder back."""
    body = ["", *(answer.strip("\n") or PLACEHOLDER).split("\n"), ""]
    lines: list[str] = []
    written = False
    for current, heading, below in _parts(task, text):
        mine = current == index
        lines += [*heading, *(([] if written else body) if mine else below)]
        written |= mine
    if not written:
        lines += ["", f"## {index + 1}. {one_line(task.questions[index].text)}", *body]
    return "\n".join(lines).rstrip("\n") + "\n"


def one_line(text: str) -> str:
    """A text without line breaks and doubled blanks."""
    return " ".join(text.split())


def _texts(task: Task, text: str) -> dict[int | None, str]:
    """The text below each question's heading, by the question's index; under None what stands below no question."""
    found: dict[int | None, list[str]] = {}
    for index, _, below in _parts(task, text):
        found.setdefault(index, []).extend(below)
    return {index: "\n".join(lines) for index, lines in found.items()}


def _parts(task: Task, text: str) -> list[tuple[int | None, list[str], list[str]]]:
    """The file from one title or question's heading to the next: the question's index, the heading, the lines below."""
    words = [_normal(question.text) for question in task.questions]
    parts: list[tuple[int | None, list[str], list[str]]] = [(None, [], [])]
    fence = ""
    for line in text.splitlines():
        mark = _FENCE.match(line)
        if mark and (not fence or mark[1].startswith(fence)):
            fence = "" if fence else mark[1][:3]
        heading = None if fence or mark else _HEADING.match(line)
        index = _question(heading, words) if heading else None
        if index is not None or (line.startswith("# ") and not fence):
            parts.append((index, [line], []))
        else:
            parts[-1][2].append(line)
    return parts


def _question(heading: re.Match[str], words: list[str]) -> int | None:
    text = _normal(heading["text"])
    if text in words:
        return words.index(text)
    if heading["number"] and 0 < int(heading["number"][:6]) <= len(words):
        return int(heading["number"][:6]) - 1
    return None


def _normal(text: str) -> str:
    return re.sub(r"\W+", " ", text).strip().casefold()


class FileFact(msgspec.Struct, frozen=True, dict=True):
    """A script as it is now, by its path below `scripts/`."""

    path: str
    data: bytes

    @cached_property
    def text(self) -> str:
        return self.data.decode("utf-8", "replace")

    @cached_property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()

    def is_file(self, sha256: str) -> bool:
        """Whether a file with this digest has the same text; git and editors on Windows change line endings."""
        unix = self.data.replace(b"\r\n", b"\n")
        endings = (unix, unix.replace(b"\n", b"\r\n")) if b"\0" not in self.data else ()
        return sha256 == self.sha256 or any(sha256 == hashlib.sha256(each).hexdigest() for each in endings)


class ExportFact(msgspec.Struct, frozen=True, kw_only=True):
    """An exported chart: its file, its chart key, the models it shows (empty: all that were measured).

    `at` is when the file was written, in UNIX seconds of this computer; None when that is not known.
    """

    path: str
    chart: str
    models: tuple[str, ...] = ()
    mark: Mark = ""
    at: float | None = None


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a check looks at.

    `scripts` and `originals` go by path below `scripts/` (`originals`: as labtui ships them). `answers` by
    task id. `files` are the other files of the lab folder, relative. `remote` says of remote paths whether
    they are there, `remote_at` (UNIX seconds) when the cluster said so. `overrides` are the lab folder's own
    changes to the plan (smaller batches for smaller GPUs).
    """

    state: LabState = LabState()
    results: Results = Results(images=50_000)
    scripts: Mapping[str, FileFact] = {}
    originals: Mapping[str, FileFact] = {}
    exports: tuple[ExportFact, ...] = ()
    answers: Mapping[str, AnswerSheet] = {}
    files: frozenset[str] = frozenset()
    remote: Mapping[str, bool] = {}
    remote_at: float | None = None
    overrides: PlanOverrides = PlanOverrides()

    def submission(self, run: RunState) -> SubmissionState | None:
        return self.state.submissions.get(run.token)

    def sent(self, run: RunState) -> bool:
        """Whether a run reached Slurm or may still: a refused or withdrawn one is no run."""
        submission = self.submission(run)
        return submission is None or submission.status not in NEVER_SENT

    def is_cancelling(self, run: RunState) -> bool:
        """Whether the student wants a run's job to end."""
        submission = self.submission(run)
        return submission is not None and submission.cancelling

    def changed_since(self, run: RunState) -> tuple[str, ...]:
        """Scripts a run rests on that differ now from what was sent with it."""
        submission = self.submission(run)
        if submission is None:
            return ()
        changed = []
        for path in script_and_imports(run.spec.script, self.scripts):
            sent = submission.script_hashes.get(path)
            now = self.scripts.get(path)
            if sent is not None and (now is None or not now.is_file(sent)):
                changed.append(path)
        return tuple(changed)


def script_and_imports(script: str, scripts: Mapping[str, FileFact]) -> tuple[str, ...]:
    """A script and those of the folder it imports, directly or through others."""
    texts = {path: fact.text for path, fact in scripts.items()}
    return tuple(imported_files([script], texts))


_STARTS = {tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.COMMENT}


def code_names(text: str) -> dict[str, int]:
    """Names and quoted words in a Python text's code (not in comments, docstrings), each with its first line.

    A text that does not parse is read as far as it goes.
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
