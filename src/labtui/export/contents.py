"""Everything that is handed in is made of, read from a lab folder once: after this, nothing is read any more.

The folder is only looked at, so this works beside a labtui that has it open.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from labtui.domain.errors import LabError
from labtui.domain.state import LabState, SubmissionState
from labtui.export.measurements import Measurements, measurements_of, stored_state
from labtui.export.style import PRACTICE_MARK, SMALL_MARK
from labtui.lab.checks import TaskCheck, check_all
from labtui.lab.edition import Edition, Task
from labtui.lab.evidence import NEVER_SENT, AnswerSheet
from labtui.lab.plan import copies_to_start
from labtui.results.rows import Results, renamed
from labtui.session.folder import LabFolder
from labtui.session.settings import Settings

MAX_SCRIPT_CHARACTERS = 400_000
"""A job script longer than this is shown up to here."""
MAX_LOG_BYTES = 1_000_000
"""Of a longer log the beginning and the end are looked at for the lines that matter."""
MAX_PICTURE_BYTES = 20_000_000
_PICTURE = re.compile(r"!\[[^\]\n]*\]\(\s*<?([^)>\s]+)")
_MAGIC = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff")


@dataclass(frozen=True, slots=True)
class ChangedScript:
    """A script of the student that differs from what labtui shipped; `original` is "" for one of their own."""

    name: str
    text: str
    original_name: str = ""
    original: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabContents:
    """A lab at one moment. `job_scripts` by token: name and text; `logs` by token: what stands in .out and .err.

    `pictures` are those the answers name, by that name.
    """

    edition: Edition
    settings: Settings
    cluster: str
    state: LabState
    measurements: Measurements
    results: Results
    checks: Mapping[str, TaskCheck]
    answers: Mapping[str, AnswerSheet]
    changed: tuple[ChangedScript, ...]
    job_scripts: Mapping[str, tuple[str, str]]
    logs: Mapping[str, Mapping[str, str]]
    scripts: Mapping[str, str]
    pictures: Mapping[str, bytes]
    today: date

    @property
    def named(self) -> Results:
        """The results with the edition's names of its models."""
        return renamed(self.results, self.edition.names)

    @property
    def rehearsal(self) -> bool:
        """Whether nothing in this folder is real: a practice folder, or one whose runs were all rehearsed."""
        runs = self.measurements.runs
        return self.settings.practice or (bool(runs) and all(run.practice for run in runs))

    @property
    def mark(self) -> str:
        """What stands on pages whose numbers are not the lab's."""
        marked = [run for run in self.measurements.runs if run.practice]
        return SMALL_MARK if marked and all(run.small for run in marked) else PRACTICE_MARK

    @property
    def practice(self) -> bool:
        """Whether there are rehearsal or small runs in it."""
        return any(run.practice for run in self.measurements.runs) or self.settings.practice

    def job_of(self, task: Task) -> SubmissionState | None:
        """The submission whose log a task's numbers rest on: the last one that gave epochs, else the last one sent."""

        def gave_epochs(submission: SubmissionState) -> bool:
            return any(self.state.runs[n].epochs for n in submission.run_ids if n in self.state.runs)

        sent = [
            s for s in self.state.submissions.values() if s.task_id == task.id and s.status not in NEVER_SENT
        ]
        return max(sent, key=lambda s: (gave_epochs(s), s.run_ids), default=None)


def read_contents(
    folder: LabFolder, *, state: LabState | None = None, today: date | None = None, made: Iterable[str] = ()
) -> LabContents:
    """Read a lab folder for its export.

    `state` when the caller has it, else as stored. `made` names files that this export is about to write, so that
    it does not call itself missing.

    Raises:
        LabError: when settings, edition, scripts or answers cannot be read.
    """
    from labtui.session.answers import read_answers
    from labtui.session.labs import gather_evidence, load_edition

    settings = folder.settings()
    edition = load_edition(settings.edition, folder)
    state = stored_state(folder) if state is None else state
    measurements = measurements_of(folder, state)
    results = measurements.results()
    evidence = gather_evidence(folder, edition, state, results=results)
    evidence = replace(evidence, files=evidence.files | frozenset(made))
    scripts = {path: fact.text for path, fact in evidence.scripts.items()}
    originals = {path: fact.text for path, fact in evidence.originals.items()}
    answers = {task.id: read_answers(folder, task) for task in edition.tasks}
    return LabContents(
        edition=edition,
        settings=settings,
        cluster=_cluster(settings, folder),
        state=state,
        measurements=measurements,
        results=results,
        checks={check.task_id: check for check in check_all(edition, evidence)},
        answers=answers,
        changed=tuple(_changed(edition, scripts, originals)),
        job_scripts=_job_scripts(folder, state),
        logs=_logs(folder, state),
        scripts=scripts,
        pictures=dict(_pictures(folder, answers.values())),
        today=today or date.today(),
    )


def _cluster(settings: Settings, folder: LabFolder) -> str:
    from labtui.session.settings import load_profile

    try:
        return load_profile(settings.profile, folder.path).title
    except LabError:
        return settings.profile


def _changed(
    edition: Edition, scripts: Mapping[str, str], originals: Mapping[str, str]
) -> Iterable[ChangedScript]:
    """Scripts that differ from what was shipped; copies the lab asks for are compared with what they began as."""
    copied = {target: source for task in edition.tasks for source, target in copies_to_start(task)}
    for name, text in sorted(scripts.items()):
        if _same(text, originals.get(name)):
            continue
        source = copied.get(name, name if name in originals else "")
        original = scripts.get(source) if source != name else originals.get(source)
        if source and original is None:
            original = originals.get(source, "")
        yield ChangedScript(name, text, source, original or "")


def _same(text: str, other: str | None) -> bool:
    return other is not None and text.splitlines() == other.splitlines()


def _job_scripts(folder: LabFolder, state: LabState) -> dict[str, tuple[str, str]]:
    """The job script of each submission, by token, as it lies in the lab folder."""
    found = {}
    for token, submission in state.submissions.items():
        try:
            if submission.script_file and folder.has(submission.script_file):
                text = folder.read(submission.script_file)[:MAX_SCRIPT_CHARACTERS].decode("utf-8", "replace")
                found[token] = (submission.script_file, text)
        except OSError:
            continue
    return found


def _logs(folder: LabFolder, state: LabState) -> dict[str, dict[str, str]]:
    """What the logs of each job say, by token and stream."""
    found: dict[str, dict[str, str]] = {}
    for token, submission in state.submissions.items():
        if submission.job is None:
            continue
        out, err = submission.mirror("out"), submission.mirror("err")
        found[token] = {"out": _ends(folder, out), "err": _ends(folder, err)}
    return found


def _ends(folder: LabFolder, path: str) -> str:
    """A text file, or the beginning and the end of a long one; "" without one."""
    try:
        with folder.reader(path) as stream:
            head = stream.read(MAX_LOG_BYTES)
            size = os.fstat(stream.fileno()).st_size
            if size <= MAX_LOG_BYTES:
                return head.decode("utf-8", "replace")
            stream.seek(max(len(head), size - MAX_LOG_BYTES // 4))
            return head.decode("utf-8", "replace") + "\n" + stream.read().decode("utf-8", "replace")
    except OSError:
        return ""


def _pictures(folder: LabFolder, answers: Iterable[AnswerSheet]) -> Iterable[tuple[str, bytes]]:
    """The pictures that answers name, as PNG or JPEG files beside them; others are named in words."""
    for name in {
        name for answer in answers for text in (*answer.texts, answer.rest) for name in _PICTURE.findall(text)
    }:
        for start in ("answers", ""):
            try:
                path = os.path.normpath(Path(start, name))
                status = folder.status(path)
                if status is not None and status.st_size <= MAX_PICTURE_BYTES:
                    data = folder.read(path)
                    if data.startswith(_MAGIC):
                        yield name, data
                        break
            except (OSError, ValueError):
                continue
