"""What a check may look at: the state, the results, the scripts, the answers, the exported files.

The session gathers it from the lab folder; here it is a frozen value, so that a check is a pure function of it.

A task's answer file has the questions as headings and the student's Markdown below them. labtui writes the headings
once and reads which questions have an answer; it never writes, moves or judges one. Comments (``<!-- -->``) are
labtui's or the student's notes and do not count.
"""

import hashlib
import math
import re
from collections.abc import Collection, Mapping
from functools import cached_property

import msgspec

from labtui.domain.run import Mark
from labtui.domain.state import WITHOUT_JOB, LabState, PathStatus, RunState, SubmissionState
from labtui.lab.edition import Task
from labtui.lab.plan import PlanOverrides
from labtui.preflight.findings import imported_files
from labtui.results.rows import Results

_HEADING = re.compile(r"^##\s+(?:(?P<number>\d+)[.)]?\s+)?(?P<text>.*?)\s*#*\s*$")
_FENCE = re.compile(r"^\s{0,3}(`{3,}(?!.*`)|~{3,})\s*(.*)")
PLACEHOLDER = "<!-- your answer -->"
"""The text below each question of a new answer file."""
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)


Answers = tuple[str, ...]
"""The Markdown below each question of a task, in order, without comments.

A text without letters or digits counts as no answer and is "": rules, for example, and empty list items.
"""


def new_sheet(task: Task) -> str:
    """The Markdown of a task's new answer file: the title and the questions, with a placeholder below each."""
    lines = [f"# Task {task.id}: {task.title}", ""]
    lines.append("<!-- Write below each question. labtui looks for text there and never changes it. -->")
    for index in range(len(task.questions)):
        lines += ["", _heading(task, index), "", PLACEHOLDER, ""]
    return "\n".join(lines) + ("" if lines[-1] == "" else "\n")


def read_sheet(task: Task, text: str) -> Answers:
    """Read the answers from the `text` of an answer file.

    A heading belongs to the question with the same words, else to the one with its number if the file has no heading
    with that one's words; any other heading is part of the answer around it.
    """
    found = _texts(task, text)
    shown = (_COMMENT.sub("", found.get(index, "")).strip("\n") for index in range(len(task.questions)))
    return tuple(part if any(char.isalnum() for char in part) else "" for part in shown)


def text_above(task: Task, text: str) -> str:
    """A sentence on text above the first question, which is in no answer; "" where only a title is."""
    above = "\n".join(_split_sheet(task, text)[0][2])
    lines = _COMMENT.sub(lambda found: "\n" * found[0].count("\n"), above).split("\n")
    told = (at for at, line in enumerate(lines, 1) if re.search(r"\w", line) and not line.startswith("# "))
    at = next(told, 0)
    return f"answers/{task.id}.md, line {at}: text above the first question is in no answer." if at else ""


def text_to_edit(task: Task, text: str, index: int) -> str:
    """The text below a question, to be edited: without the placeholder and without blank lines at its ends."""
    lines = _texts(task, text).get(index, "").split("\n")
    return "\n".join(line for line in lines if line.strip() != PLACEHOLDER).strip("\n")


def with_answer(task: Task, text: str, index: int, answer: str) -> str:
    """The file's text with a new answer to one question; all other lines stay. "" puts the placeholder back."""
    body = ["", *(answer.strip("\n") or PLACEHOLDER).split("\n"), ""]
    lines: list[str] = []
    written = False
    for current, heading, below in _split_sheet(task, text):
        mine = current == index
        lines += [*heading, *(([] if written else body) if mine else below)]
        written |= mine
    if not written:
        lines += ["", _heading(task, index), *body]
    return "\n".join(lines).rstrip("\n") + "\n"


def one_line(text: str) -> str:
    """The text on one line, with single spaces."""
    return " ".join(text.split())


def _texts(task: Task, text: str) -> dict[int | None, str]:
    """The text below each question's heading, by the question's index; at None, what is below no question."""
    found: dict[int | None, list[str]] = {}
    for index, _, below in _split_sheet(task, text):
        found.setdefault(index, []).extend(below)
    return {index: "\n".join(lines) for index, lines in found.items()}


def _split_sheet(task: Task, text: str) -> list[tuple[int | None, list[str], list[str]]]:
    """Split the file at its questions: the question's index, the heading, the lines below; None before the first."""
    written, lines = [_heading(task, index) for index in range(len(task.questions))], text.splitlines()
    words = [_normalize(question.text) for question in task.questions]
    there = {_normalize(heading["text"]) for heading in map(_HEADING.match, lines) if heading}
    parts: list[tuple[int | None, list[str], list[str]]] = [(None, [], [])]
    fence = ""
    for line in lines:
        mark = _FENCE.match(line)
        if line in written:
            fence = ""  # the student has not closed it yet
        elif mark:
            ends = fence and mark[1].startswith(fence) and not mark[2]
            fence = "" if ends else fence or mark[1]
        heading = None if fence or mark else _HEADING.match(line)
        index = _question_index(heading, words, there) if heading else None
        if index is not None:
            parts.append((index, [line], []))
        else:
            parts[-1][2].append(line)
    return parts


def _heading(task: Task, index: int) -> str:
    """The heading of a question as labtui writes it."""
    return f"## {index + 1}. {one_line(task.questions[index].text)}"


def _question_index(heading: re.Match[str], words: list[str], there: Collection[str]) -> int | None:
    """The question of a heading; by its number alone only if no heading in the file has that question's words."""
    text, at = _normalize(heading["text"]), int((heading["number"] or "0")[:6]) - 1
    named = 0 <= at < len(words)
    if text in words:
        return at if named and words[at] == text else words.index(text)
    return at if named and words[at] not in there else None


def _normalize(text: str) -> str:
    return re.sub(r"\W+", " ", text).strip().casefold()


class FileFact(msgspec.Struct, frozen=True, dict=True):
    """The current content of a script; `path` is relative to `scripts/`."""

    path: str
    data: bytes

    @cached_property
    def text(self) -> str:
        return self.data.decode("utf-8-sig", "replace")

    @cached_property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()

    def matches(self, sha256: str) -> bool:
        """Whether a file with this digest has the same text. Line endings may differ: git and Windows change them."""
        unix = self.data.replace(b"\r\n", b"\n")
        endings = (unix, unix.replace(b"\n", b"\r\n")) if b"\0" not in self.data else ()
        return sha256 == self.sha256 or any(sha256 == hashlib.sha256(each).hexdigest() for each in endings)


class ExportFact(msgspec.Struct, frozen=True, kw_only=True):
    """An exported chart: its file, its chart key, the models it shows (empty: all that were measured).

    `at` is when the file was written, in UNIX seconds of this computer. `counted` are the runs that its numbers are
    made of, as in `Results.counted`; empty if the file does not say.
    """

    path: str
    chart: str
    models: tuple[str, ...] = ()
    mark: Mark = ""
    at: float = math.inf
    counted: frozenset[str] = frozenset()


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a check looks at.

    The keys of `scripts` and `originals` (the files as labtui ships them) are paths relative to `scripts/`, those of
    `answers` and `above` (a sentence on text above the questions) task ids. `files` are the relative paths of the lab
    folder's other files. `remote` says which remote paths exist, as the cluster told. `overrides` are the lab folder's
    own changes to the plan (smaller batches for smaller GPUs). `without_gpus` says why the cluster can run none with
    GPUs.
    """

    state: LabState = LabState()
    results: Results = Results()
    scripts: Mapping[str, FileFact] = {}
    originals: Mapping[str, FileFact] = {}
    exports: tuple[ExportFact, ...] = ()
    answers: Mapping[str, Answers] = {}
    above: Mapping[str, str] = {}
    files: frozenset[str] = frozenset()
    remote: Mapping[str, PathStatus] = {}
    overrides: PlanOverrides = PlanOverrides()
    without_gpus: str = ""

    def submission(self, run: RunState) -> SubmissionState:
        return self.state.submissions[run.token]

    def sent(self, run: RunState) -> bool:
        """Whether a run reached Slurm or may still do so; false for refused and withdrawn ones."""
        return self.submission(run).status not in WITHOUT_JOB

    def is_newer(self, run: RunState, export: ExportFact) -> bool:
        """Whether a run counts by now and an export lacks it; one that does not say is older than what came after."""
        told, planned_at = self.results.counted.get(run.run_id), self.submission(run).planned_at
        return told is not None and (told not in export.counted if export.counted else planned_at > export.at)

    def changed_since(self, run: RunState) -> tuple[str, ...]:
        """The run's script and its imports, if they differ now from what was sent with the run."""
        submission, changed = self.submission(run), []
        for path in script_and_imports(run.spec.script, self.scripts):
            sent = submission.script_hashes.get(path)
            now = self.scripts.get(path)
            beside = now is None and submission.form == "own"  # it lies beside the job file, not in scripts/
            if sent is not None and not beside and (now is None or not now.matches(sent)):
                changed.append(path)
        return tuple(changed)


def script_and_imports(script: str, scripts: Mapping[str, FileFact]) -> tuple[str, ...]:
    """A script, and the scripts of the folder that it imports, directly or through others."""
    return tuple(imported_files([script], {path: fact.text for path, fact in scripts.items()}))
