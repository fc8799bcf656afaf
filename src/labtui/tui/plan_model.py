"""The model of the plan screen: the runs as rows, their jobs, the findings and their fixes. No Textual."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from labtui.domain import model, state, tuning
from labtui.domain.errors import ConnectionLost, LabError, UsageError
from labtui.domain.model import PROCESS_PER_GPU, JobForm, RunPhase, RunSpec, SubmissionDraft, plural
from labtui.domain.run import listed, run_numbers
from labtui.lab.edition import Edition
from labtui.lab.plan import CONTROLS, PlanRow, drafts_from, refuse_over_limit
from labtui.lab.plan_table import WORDS, change_cell, control_rows, forms_of, rows_of
from labtui.preflight.findings import MAIN_SCRIPT, Finding, FindingKey, apply_fix, overridden, preview_fix
from labtui.results.cost import hours_text
from labtui.results.rows import ResultRow
from labtui.session import labs, own_jobs, planning
from labtui.session.preview import Preview
from labtui.session.session import Session
from labtui.tui.view import ENDED_BADLY

NOT_CHECKED = LabError("The files could not be checked.", "`labtui submit --dry-run` shows the same check.")


class PlanFinding(msgspec.Struct, frozen=True):
    """A finding with all its occurrences. `jobs` are indexes of jobs, `copy` is a script to copy as the remedy."""

    occurrences: tuple[Finding, ...]
    jobs: tuple[int, ...]
    copy: str = ""

    @property
    def finding(self) -> Finding:
        return self.occurrences[0]

    @property
    def where(self) -> str:
        """The file and its lines: ``ResNet50.py, line 41``, ``job.slurm, lines 87, 88``."""
        lines = dict.fromkeys(each.line for each in self.occurrences if each.line)
        return f"{self.finding.file}, {listed('line', lines)}" if lines else self.finding.file


class Verdict(msgspec.Struct, frozen=True):
    """Slurm's answer to a test of a job; empty while the question is pending. `at` is in UNIX seconds."""

    result: Any = None
    error: BaseException | None = None
    at: float = 0.0


Asked = tuple[SubmissionDraft, str | None]
"""What Slurm was asked about: a job, and its script if the student edited it."""


class Plan:
    """A plan to edit: the student changes its rows, and `remake` makes jobs from them or from their own job file."""

    def __init__(
        self,
        session: Session,
        edition: Edition,
        task_id: str,
        planned: tuple[SubmissionDraft, ...],
        why: str = "",
    ) -> None:
        """`why` is a remark on these runs; with one, runs that are already done are planned again."""
        self.session, self.edition, self.task_id, self.planned = session, edition, task_id, planned
        self.why, self._last_run = why, session.state.last_run
        self.known: dict[RunSpec, state.RunState] = {}
        # a limit that `why` names is that of each form
        named = (draft.time_limit_minutes for draft in planned)
        limits = [minutes if f"try {minutes} min" in why else None for minutes in named]
        self.task_rows = [replace(row, limit=limits[row.origin]) for row in rows_of(planned)]
        self._exclude_known()
        self.forms: tuple[JobForm, ...] = forms_of(planned)
        kept = (form for form in self.forms if form == session.state.choices.get("jobs") and not why)
        self.form: JobForm | None = next(kept, next(iter(self.forms), None))
        self.drafts = self._drafts(self.task_rows, self.form)
        self.scripts: dict[SubmissionDraft, str] = {}  # job scripts the student edited
        self.reasons: dict[FindingKey, str] = {}  # why findings are overridden
        self.previews: list[Preview | LabError] = []
        self.verdicts: dict[Asked, Verdict] = {}
        self.measured: Sequence[ResultRow] = session.results().measured  # the basis of expected times
        self.job_file: Path | None = None  # the student's own, planned instead of the task's runs
        self._read: tuple[object, ...] = ()
        if not planned and (own := own_jobs.job_files(session.folder)):
            self.job_file = own[0]
        self._first = self._stamp()[:1]
        self.task = edition.task(task_id)
        self.copies = self.task.copies_to_start if self.task is not None else ()

    # ------------------------------------------------------------------ rows and jobs

    @property
    def rows(self) -> list[PlanRow]:
        """The runs of the student's own job file if one is chosen, else those of the task."""
        return self.task_rows if self.job_file is None else list(rows_of(self.drafts))

    def remake(self) -> None:
        """Make the jobs again. If the student's own job file cannot be read, return to the task's runs.

        Raises:
            LabError: the job file could not be read.
        """
        if self._read:
            self._exclude_known()
        self._read, self.previews = self._stamp(), []
        try:
            if self.job_file is not None:
                self.drafts = (own_jobs.own_draft(self.session, self.job_file, task_id=self.task_id),)
        except LabError:
            self.job_file, self.form = None, next(iter(self.forms), None)
            raise
        finally:
            if self.job_file is None:
                self.drafts = self._drafts(self.task_rows, self.form)

    def _exclude_known(self) -> None:
        """Exclude the runs that are already done or in progress, unless the plan is to repeat runs (`why`)."""
        known = {} if self.why else planning.known_runs(self.session, self.task_id, self.planned)
        fresh, self.known, rows = known.keys() - self.known.keys(), known, self.task_rows
        self.task_rows = [replace(row, included=row.included and row.spec not in fresh) for row in rows]

    def phase(self, spec: RunSpec) -> RunPhase | None:
        """The phase, as of now, of the run that is done or under way for `spec`; None if there is none."""
        run = self.known.get(spec)
        return self.session.state.runs.get(run.run_id, run).phase if run is not None else None

    def _drafts(self, rows: Sequence[PlanRow], form: JobForm | None) -> tuple[SubmissionDraft, ...]:
        return drafts_from(rows, self.planned, form, self.edition, self.session.profile)

    def make_previews(self) -> list[Preview | LabError]:
        """A preview of each job, or why it cannot be made."""
        made: list[Preview | LabError] = []
        for draft, script in [(draft, self.scripts.get(draft)) for draft in self.drafts]:
            try:
                made.append(self.session.preview(draft, script=script))
            except LabError as error:
                made.append(error)
        return made

    def preview(self, job: int) -> Preview | None:
        """The preview of a job; None if there is none yet, or the job cannot be made."""
        made = self.previews[job] if job < len(self.previews) else None
        return made if isinstance(made, Preview) else None

    def _stamp(self) -> tuple[object, ...]:
        """A value that changes when scripts, the student's job file or the runs do, whatever program changed them."""
        own = self.job_file.stat() if self.job_file is not None and self.job_file.exists() else None
        folder = self.session.folder
        scripts = str(folder.scripts)
        changed = frozenset(each for each in labs.files_stamp(folder) if each[0].startswith(scripts))
        runs = {number for number, run in self.session.state.runs.items() if run.phase not in ENDED_BADLY}
        return changed, own and (own.st_mtime_ns, own.st_size), runs, own_jobs.job_files(folder)

    @property
    def outdated(self) -> bool:
        """Whether files changed since the plan was made, or runs were added or failed."""
        return self._stamp() != self._read

    @property
    def lacks_path(self) -> bool:
        """Whether the first error is a path of the lab's settings that is not on the cluster."""
        first = [each.finding for each in self.errors[:1] if self.job_file is None]
        return any((each.rule, each.file, each.fix) == ("path-missing", MAIN_SCRIPT, None) for each in first)

    @property
    def edited_jobs(self) -> set[str]:
        """The jobs whose script the student edited."""
        return {draft.job_name for draft in self.drafts if draft in self.scripts}

    def job_of(self, row: int) -> int:
        """The job that a row is in, as an index into drafts and previews."""
        if not 0 <= row < len(self.rows) or not self.rows[row].included:
            return 0
        place = sum(1 for each in self.rows[:row] if each.included)
        numbers = [index for index, draft in enumerate(self.drafts) for _ in draft.runs]
        return numbers[place] if place < len(numbers) else 0

    def draft_of(self, row: int) -> SubmissionDraft | None:
        """The job that a row is in; None if the row is left out."""
        return self.drafts[self.job_of(row)] if self.rows[row].included and self.drafts else None

    def called(self, row: PlanRow) -> RunSpec:
        """The run of a row with the name that all pages give it."""
        sent = self.planned[row.origin] if self.job_file is None else self.drafts[0]
        return state.called_by_job(row.spec, sent, self.edition.names, sent.runs)

    # ------------------------------------------------------------------ one cell

    def cell_name(self, row: int, column: str) -> str:
        """The name of a cell's value; "" for whether the row is included.

        Raises:
            UsageError: the cell cannot be changed.
        """
        if self.is_own(self.rows[row]) and (self.job_file is not None or column not in ("in", "limit")):
            named = " `submit FILE --model` names it." if column == "model" else ""
            raise UsageError(f"It comes from your job file: e edits it.{named}")
        if column == "in":
            return ""
        if column not in WORDS:
            raise UsageError("This follows from the other numbers.")
        spec = self.rows[row].spec
        if spec.program is not None:
            own = {"gpus": f"number of {spec.program.counts}", "batch": "size of the problem"}
            return own.get(column, WORDS[column])
        if column in ("gpus", "per_gpu") and spec.device == "cpu":
            raise UsageError("A CPU run has no GPUs to change.")
        if column == "batch" and spec.device == "cpu":
            return "batch, the samples in one step"
        return WORDS[column]

    def is_own(self, row: PlanRow) -> bool:
        """Whether a row comes from the student's own job file: the chosen one, or one that is run again."""
        return self.job_file is not None or self.planned[row.origin].form == "own"

    def with_cell(self, row: int, column: str, text: str) -> list[PlanRow]:
        """The rows with one cell changed.

        Raises:
            UsageError: the text is not a valid value there.
        """
        new = change_cell(self.rows[row], column, text)
        refuse_over_limit(self.planned[new.origin].queue, new.limit, self.session.profile)
        return [*self.task_rows[:row], new, *self.task_rows[row + 1 :]]

    def refusal(self, row: int, column: str, text: str) -> str:
        """Why a text is not a valid value for a cell; "" if it is."""
        try:
            self.with_cell(row, column, text)
        except UsageError as error:
            return f"{error.sentence} {error.hint}".rstrip()
        return ""

    def with_row_toggled(self, at: int) -> list[PlanRow]:
        """The rows with one left out, or included again; an own job file starts all of its runs."""
        old, rows = self.rows[at], self.task_rows
        same = {id(row) for row in rows if row is old or (self.is_own(row) and row.origin == old.origin)}
        return [replace(row, included=not old.included) if id(row) in same else row for row in rows]

    def with_controls(self) -> list[PlanRow]:
        """The rows with control runs added, or with all control runs removed if there are any.

        Raises:
            UsageError: the rows can have no control runs.
        """
        plain = [row for row in self.rows if not row.spec.is_control]
        if len(plain) < len(self.rows):
            return plain
        trained = [row for row in plain if not self.is_own(row)]
        return [*plain, *control_rows(trained, CONTROLS, practice=self.session.practice)]

    # ------------------------------------------------------------------ job forms

    @property
    def choices(self) -> dict[str, tuple[JobForm | None, Path | None]]:
        """What can be submitted, by name: the forms that make other jobs, and the student's own job files."""
        found: dict[str, tuple[JobForm | None, Path | None]] = {}
        for form in (self.forms or (None,)) if self.planned else ():
            jobs = self._drafts(self.task_rows, form)
            started = f", {form}" if jobs and form in PROCESS_PER_GPU else ""
            most = sum(each.total_gpus * each.time_limit_minutes for each in jobs) / 60
            cost = f": at most {hours_text(most)} GPU-h" if most else ""
            found.setdefault(f"In {plural(len(jobs), 'job')}{started}{cost}", (form, None))
        return found | {path.name: (None, path) for path in own_jobs.job_files(self.session.folder)}

    @property
    def refusals(self) -> list[str]:
        """What Slurm said of the jobs that it refuses."""
        told = (each.result for each in self.answers if each is not None and each.result is not None)
        return [f"{each.sentence} {each.hint}".rstrip() for each in told if not each.ok and not each.wait]

    # ------------------------------------------------------------------ what is wrong

    @property
    def warnings(self) -> list[str]:
        """Warnings about runs made meanwhile, and those of `planning.warnings_of`."""
        runs = [run for run in self.session.state.runs.values() if run.task_id == self.task_id]
        late = [run.run_id for run in runs if run.run_id > self._last_run]
        lines = [f"Submitted after this plan was opened: {run_numbers(late).lower()}."] if late else []
        return lines + planning.warnings_of(self.session, self.drafts)

    @property
    def answers(self) -> list[Verdict | None]:
        """Slurm's answer for each job; None if it was not asked, or lost with a connection that is back."""
        lost = self.session.state.connection.lost
        found = (self.verdicts.get((draft, self.scripts.get(draft))) for draft in self.drafts)
        return [v if lost or not isinstance(v and v.error, ConnectionLost) else None for v in found]

    @property
    def checked(self) -> bool:
        return len(self.previews) == len(self.drafts)

    @property
    def requests(self) -> list[SubmissionDraft]:
        """The jobs, each with the GPUs and limit that its script asks for, as far as they were checked."""
        made = [self.preview(job) for job in range(len(self.drafts))]
        return [draft if each is None else each.draft for draft, each in zip(self.drafts, made, strict=True)]

    @property
    def problem(self) -> tuple[int, LabError] | None:
        """The first job that cannot be made, and why."""
        return next(((at, each) for at, each in enumerate(self.previews) if isinstance(each, LabError)), None)

    @property
    def findings(self) -> tuple[PlanFinding, ...]:
        """The findings of all jobs, with equal ones merged, errors first."""
        places: dict[tuple[object, ...], list[tuple[int, Finding]]] = {}
        for job, preview in enumerate(self.previews):
            for each in () if isinstance(preview, LabError) else preview.findings:
                line = each.line if each.fix is not None else 0
                places.setdefault((each.rule, each.file, line, each.effect), []).append((job, each))
        found = []
        for mine in places.values():
            first = mine[0][1]
            missing = first.rule == "script-missing"
            copy = next((source for source, made in self.copies if missing and made in first.effect), "")
            jobs = tuple(dict.fromkeys(job for job, _ in mine))
            found.append(PlanFinding(tuple(each for _, each in mine), jobs, copy))
        return tuple(sorted(found, key=lambda each: each.finding.severity != "error"))

    @property
    def errors(self) -> tuple[PlanFinding, ...]:
        """The errors that block the plan: those that are not overridden with a reason."""
        errors = (found for found in self.findings if found.finding.severity == "error")
        return tuple(one for one in errors if any(each.key not in self.reasons for each in one.occurrences))

    @property
    def starved(self) -> bool:
        """Whether a job ran out of the node's memory and is planned again without a change."""
        same = (self.planned, self._first) == (self.drafts, self._read[:1]) and not self.scripts
        return same and planning.OUT_OF_MEMORY_AGAIN in self.why

    @property
    def lacks_gpus(self) -> bool:
        """Whether an error stays that no change of the rows removes: the cluster has no GPU for any job."""
        found = [each for each in self.errors if each.finding.rule == "gpu-count" and not each.finding.fix]
        return self.job_file is None and any(len(each.jobs) == len(self.drafts) for each in found)

    def accepted(self, job: int) -> tuple[model.AcceptedFinding, ...]:
        """The overridden findings of a job, with their reasons."""
        preview = self.preview(job)
        return () if preview is None else overridden(preview.findings, self.reasons)

    # ------------------------------------------------------------------ files

    def file_text(self, name: str, job: int) -> str | None:
        """The current text of a file that a finding is about; None if it does not exist."""
        if self._is_script(name, job):
            preview = self.preview(job)
            return None if preview is None else preview.script
        try:
            path = self._path_of(name, job)
            return path.read_bytes().decode("utf-8", "surrogateescape") if path.is_file() else None
        except (LabError, OSError):
            return None

    def _is_script(self, name: str, job: int) -> bool:
        """Whether a finding is about a job's script: labtui's own, or the stored copy of a job file that goes again."""
        return name == MAIN_SCRIPT or (self.job_file is None and name == self.drafts[job].job_file)

    def _path_of(self, name: str, job: int) -> Path:
        """The path of a file that a finding is about: the job file, a file beside it, else a training script.

        Raises:
            FolderError: the name points out of the lab folder.
        """
        if self.job_file is not None:
            draft = self.drafts[job]
            if name == draft.job_file:
                return self.job_file
            if name in dict(draft.beside):
                return self.job_file.parent / name
        return self.session.folder.inside(f"scripts/{name}")

    def difference(self, found: PlanFinding) -> str:
        """The change of a fix as a unified diff; "" without a fix, or if the file has changed since."""
        fix = found.finding.fix
        text = self.file_text(fix.file, found.jobs[0]) if fix is not None else None
        return preview_fix(text, fix) if fix is not None and text is not None else ""

    def make_fix(self, found: PlanFinding) -> None:
        """Apply a fix: to the file, to the job script of each job with the finding, or to an option in the rows.

        Raises:
            LabError: the file cannot be written.
        """
        if found.finding.rule == "script-option" and found.finding.fix is not None and self.job_file is None:
            option = found.finding.fix.title.removeprefix("remove ")
            kept = [(row, tuning.without_option(row.spec.extra_args, option)) for row in self.task_rows]
            self.task_rows = [replace(row, spec=replace(row.spec, extra_args=each)) for row, each in kept]
            return
        for job, same in enumerate(self.previews):  # none while files that changed are checked again
            mine = [] if isinstance(same, LabError) or job not in found.jobs else same.findings
            fix = next((each.fix for each in mine if each.key == found.finding.key), None)
            text = self.file_text(fix.file, job) if fix is not None else None
            if fix is None or text is None:
                continue
            if self._is_script(fix.file, job):
                self.scripts[self.drafts[job]] = apply_fix(text, fix)
                continue
            data = apply_fix(text, fix).encode("utf-8", "surrogateescape")
            self.session.folder.write(self._path_of(fix.file, job), data)
            return

    def draft_file(self, job: int) -> Path:
        """Write the job script to a file to edit, and return its path.

        Raises:
            LabError: the script cannot be made or written.
        """
        if isinstance(preview := self.previews[job], LabError):
            raise preview
        path = self.session.folder.inside(f"{planning.MANUAL_FOLDER}/{self.drafts[job].job_name}.draft.slurm")
        self.session.folder.write(path, preview.script.encode())
        return path

    def use_script(self, job: int, path: Path) -> None:
        """Use the job script as the student edited it."""
        text = path.read_bytes().decode("utf-8-sig", "replace")
        if text != self.file_text(MAIN_SCRIPT, job):
            self.scripts[self.drafts[job]] = text
