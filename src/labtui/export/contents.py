"""Everything that is handed in is made of, read from a lab folder once: after this, nothing is read any more.

The folder is only looked at, so this works beside a labtui that has it open.
"""

import os
from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import Path

import msgspec
from msgspec.structs import replace

from labtui.domain.errors import LabError
from labtui.domain.state import NEVER_SENT, LabState, SubmissionState
from labtui.export.drawing import PRACTICE_MARK, SMALL_MARK
from labtui.export.measurements import Measurements, measurements_of, stored_state
from labtui.lab.checks import TaskCheck, check_all
from labtui.lab.edition import Edition, Task
from labtui.lab.evidence import AnswerSheet
from labtui.results.rows import Results
from labtui.session.folder import LabFolder
from labtui.session.settings import Settings

MAX_LOG_BYTES = 4_000_000
"""Of a longer file only its beginning is looked at for the lines that matter."""
MAX_PICTURE_BYTES = 20_000_000
_MAGIC = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff")


class LabContents(msgspec.Struct, frozen=True, kw_only=True):
    """A lab at one moment; job scripts, logs and pictures are read from its folder when a page shows them."""

    folder: LabFolder
    edition: Edition
    settings: Settings
    cluster: str
    state: LabState
    measurements: Measurements
    results: Results
    checks: Mapping[str, TaskCheck]
    answers: Mapping[str, AnswerSheet]
    scripts: Mapping[str, str]
    originals: Mapping[str, str]
    today: date

    @property
    def named(self) -> Results:
        """The results with the edition's names of its models."""
        return self.measurements.named(self.results)

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

        def has_epochs(submission: SubmissionState) -> bool:
            return any(self.state.runs[n].epochs for n in submission.run_ids if n in self.state.runs)

        sent = [
            s for s in self.state.submissions.values() if s.task_id == task.id and s.status not in NEVER_SENT
        ]
        return max(sent, key=lambda s: (has_epochs(s), s.run_ids), default=None)

    def original_of(self, script: str) -> tuple[str, str]:
        """What a script of the student began as: its name and text; a copy that the lab asks for has another name."""
        copied = {to: source for task in self.edition.tasks for source, to in task.copies_to_start}
        name = copied.get(script, script)
        text = self.scripts.get(name) if name != script else None
        return name, self.originals.get(name, "") if text is None else text

    def text(self, path: str) -> str:
        """A text file of the folder, a long one up to `MAX_LOG_BYTES`; "" without one."""
        try:
            with self.folder.reader(path) as stream:
                return stream.read(MAX_LOG_BYTES).decode("utf-8", "replace")
        except OSError:
            return ""

    def picture(self, name: str) -> bytes | None:
        """A picture that an answer names, a PNG or JPEG file beside it; None for any other."""
        for start in ("answers", ""):
            try:
                path = os.path.normpath(Path(start, name))
                status = self.folder.status(path)
                if status is not None and status.st_size <= MAX_PICTURE_BYTES:
                    data = self.folder.read(path)
                    if data.startswith(_MAGIC):
                        return data
            except (OSError, ValueError):
                continue
        return None


def read_contents(
    folder: LabFolder, *, state: LabState | None = None, today: date | None = None, made: Iterable[str] = ()
) -> LabContents:
    """Read a lab folder for its export.

    `state` when the caller has it, else as stored. `made` names files that this export is about to write, so that
    it does not call itself missing.

    Raises:
        LabError: when settings, edition, scripts or answers cannot be read.
    """
    from labtui.session.labs import gather_evidence, load_edition, read_answers

    settings = folder.settings()
    edition = load_edition(settings.edition, folder)
    state = stored_state(folder) if state is None else state
    measurements = measurements_of(folder, state)
    results = measurements.results()
    evidence = gather_evidence(folder, edition, state, results=results)
    evidence = replace(evidence, files=evidence.files | frozenset(made))
    answers = {task.id: read_answers(folder, task) for task in edition.tasks}
    return LabContents(
        folder=folder,
        edition=edition,
        settings=settings,
        cluster=_cluster(settings, folder),
        state=state,
        measurements=measurements,
        results=results,
        checks={check.task_id: check for check in check_all(edition, evidence)},
        answers=answers,
        scripts={path: fact.text for path, fact in evidence.scripts.items()},
        originals={path: fact.text for path, fact in evidence.originals.items()},
        today=today or date.today(),
    )


def _cluster(settings: Settings, folder: LabFolder) -> str:
    from labtui.session.settings import load_profile

    try:
        return load_profile(settings.profile, folder.path).title
    except LabError:
        return settings.profile
