"""From a draft to everything a submission needs, and the preview that shows it: the same path, stopped earlier."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from labtui.cluster.atomic_file import write_private
from labtui.domain.errors import UsageError
from labtui.domain.events import LabState, PlannedRun, RunState, SubmissionPlanned
from labtui.domain.model import AcceptedFinding, Interval, SubmissionDraft
from labtui.domain.profile import Profile
from labtui.session.folder import file_name, hashes
from labtui.session.planned_submission import SCRIPT_NAME, Planned, lab_root, logs_of, new_token, own_logs_of

if TYPE_CHECKING:
    from concurrent.futures import Future

    from labtui.lab.edition import Edition
    from labtui.lab.plan import PlanOverrides
    from labtui.preflight import Finding
    from labtui.results.rows import Results
    from labtui.session.folder import LabFolder
    from labtui.session.journal import FaultLog
    from labtui.session.planned_submission import FileChange, SharedCopy
    from labtui.session.settings import Settings
    from labtui.session.worker_context import Clock
    from labtui.slurm.job_script import JobContext
    from labtui.slurm.remote_command import CommandRecord

PLACES_FRESH_S = 600.0
"""How long an answer about a remote path is worth something: nobody moves a data set every minute."""
MISSING_FRESH_S = 20.0
"""How soon a path that was missing is asked about again: a student may have just put it there."""


class OpenLab(Protocol):
    """An open lab folder, as far as planning a submission needs it. `Session` is one."""

    folder: LabFolder
    settings: Settings
    profile: Profile
    clock: Clock
    faults: FaultLog

    @property
    def shared(self) -> SharedCopy:
        """What the cluster's copy of the scripts is known to hold."""
        ...

    @property
    def state(self) -> LabState:
        """The latest state."""
        ...

    @property
    def edition(self) -> Edition:
        """The lab this folder is for."""
        ...

    def only_follow(self) -> None:
        """Another process writes the folder now: show what it stores."""
        ...

    @property
    def user(self) -> str:
        """The user name on the cluster; empty when unknown."""
        ...

    @property
    def practice(self) -> bool:
        """Whether what this folder submits is a rehearsal."""
        ...

    def results(self) -> Results:
        """The numbers of this folder's runs."""
        ...

    def files_of(self, token: str) -> dict[str, bytes]:
        """The files of a submission as they were when it was planned."""
        ...

    def look_at(self, paths: Sequence[str]) -> Future[Mapping[str, bool]] | None:
        """Ask the cluster whether remote paths are there; None when nobody can be asked now."""
        ...

    def note_command(self, record: CommandRecord) -> None:
        """Keep a remote command for the panel that shows them."""
        ...


@dataclass(frozen=True, slots=True)
class Preview:
    """What submitting a draft would do. `seconds` and `gpu_hours` are expectations, None where nothing is known.

    `left_out` names files that went with the newest job and are not sent any more.
    """

    script: str
    files: tuple[FileChange, ...]
    findings: tuple[Finding, ...]
    gpu_hours: Interval | None
    seconds: Interval | None
    left_out: tuple[str, ...] = ()


def drafts_of(
    session: OpenLab, task_id: str, overrides: PlanOverrides | None = None
) -> tuple[SubmissionDraft, ...]:
    """The edition's plan for a task; what the student says now goes before what the lab folder says."""
    from labtui.lab.plan import PlanOverrides, in_queue, task_drafts

    settings, profile = session.settings, session.profile
    chosen = overrides or PlanOverrides()
    merged = replace(
        chosen,
        account=chosen.account or settings.account,
        reservation=chosen.reservation or settings.reservation,
        container=chosen.container or settings.container,
        data_dir=chosen.data_dir or settings.data_dir,
        user=chosen.user or session.user,
        max_per_gpu_batch=chosen.max_per_gpu_batch or settings.max_per_gpu_batch,
    )
    drafts = task_drafts(session.edition, task_id, profile, merged)
    if chosen.qos or chosen.partition:
        return drafts
    return tuple(in_queue(draft, profile, qos=settings.qos, partition=settings.partition) for draft in drafts)


def plan(
    session: OpenLab,
    draft: SubmissionDraft,
    script: str | None,
    *,
    keep_in: str = "slurm",
    accepted: Sequence[AcceptedFinding] = (),
) -> Planned:
    """Give a draft its token, directory, run numbers and job script.

    The script is written into the folder `keep_in` of the lab folder; nowhere when that is empty. A script under
    `slurm/` itself says that its submission was wanted: what only looks keeps it elsewhere.

    Raises:
        UsageError: when the job needs more nodes than its queue takes.
        TemplateError: when the template does not fit the draft.
        FolderError: when scripts cannot be read or the rendered one cannot be written.
    """
    own, token = draft.form == "own", new_token()
    root = lab_root(session.profile, session.settings, user=session.user, account=draft.account)
    remote_dir = f"{root}/{token}"
    named = draft if own else replace(draft, job_name=f"{file_name(draft.job_name)}-{token[-8:]}")
    text, files = _files_of(session, named, script, token, remote_dir)
    script_file = f"{keep_in or 'slurm'}/{file_name(named.job_name)}{f'-{token[-8:]}' if own else ''}.slurm"
    if keep_in:
        write_private(session.folder.inside(script_file), files[SCRIPT_NAME])
    first = max(session.state.runs, default=0) + 1
    event = SubmissionPlanned(
        at=session.clock.wall(),
        token=token,
        task_id=named.task_id,
        form=named.form,
        job_name=named.job_name,
        runs=tuple(PlannedRun(run_id=first + i, spec=spec) for i, spec in enumerate(named.runs)),
        account=named.account,
        qos=named.queue,
        gpus=named.gpus,
        cpus=named.cpus,
        nodes=named.nodes,
        time_limit_minutes=named.time_limit_minutes,
        script_file=script_file,
        remote_dir=remote_dir,
        remote_logs=own_logs_of(remote_dir, named.log_patterns, user=session.user)
        if own
        else logs_of(remote_dir, named.job_name, gpus=named.gpus),
        script_hashes=hashes(files),
        practice=session.practice,
        options=named.options,
        job_file=named.job_file,
        accepted=tuple(accepted),
    )
    return Planned(event, text, files)


def _files_of(
    session: OpenLab, draft: SubmissionDraft, script: str | None, token: str, remote_dir: str
) -> tuple[str, dict[str, bytes]]:
    """The job script, and every file that goes to the submission's directory, by its name there."""
    files = session.folder.script_files()
    if draft.form == "own":
        from labtui.session.own_jobs import own_files

        text, others = own_files(draft, _job_context(session, token, remote_dir), script)
        return text, files | others
    from labtui.lab.plan import refuse_too_many_nodes

    refuse_too_many_nodes(draft, session.profile)
    text = script if script is not None else render(session, draft, token, remote_dir)
    files[SCRIPT_NAME] = text.replace("\r\n", "\n").encode()
    return text, files


def render(session: OpenLab, draft: SubmissionDraft, token: str, remote_dir: str) -> str:
    """The job script of a draft."""
    from labtui.slurm.job_script import job_script

    context = _job_context(session, token, remote_dir)
    return job_script(draft, session.profile, context, session.folder.template(draft.form))


def _job_context(session: OpenLab, token: str, remote_dir: str) -> JobContext:
    from labtui.slurm.job_script import JobContext

    return JobContext(
        token=token,
        remote_dir=remote_dir,
        edition=session.settings.edition,
        practice=session.practice,
        user=session.user,
    )


def preview(session: OpenLab, draft: SubmissionDraft, script: str | None) -> Preview:
    """What submitting this draft would do; nothing is written and nothing sent."""
    from labtui.lab.plan import expectation
    from labtui.preflight import preflight
    from labtui.session.planned_submission import changes

    planned = plan(session, draft, script, keep_in="")
    seconds, gpu_hours = expectation(draft, session.edition, session.results())
    needed = _paths_needed(session, draft, planned)
    now = session.clock.wall()
    session.look_at(unknown_places(session.state, needed, now))
    remote = fresh_places(session.state, needed, now)
    files, left_out = changes(
        planned, session.state.submissions.values(), session.files_of, session.shared.digests(now)
    )
    findings = preflight(
        planned.files,
        draft,
        session.profile,
        draft.account if draft.form != "own" else _own_account(session, draft),
        remote=remote,
        main=draft.job_file or SCRIPT_NAME,
        given=_given(draft),
        forecast_s=seconds.lo if seconds is not None else None,
        makes_folders=True,
    )
    return Preview(
        script=planned.files[draft.job_file or SCRIPT_NAME].decode("utf-8", "surrogateescape"),
        files=files,
        findings=findings,
        gpu_hours=gpu_hours,
        seconds=seconds,
        left_out=left_out,
    )


def _own_account(session: OpenLab, draft: SubmissionDraft) -> str:
    """The account that a student's own file should name: said for this time, else the folder's."""
    return _given(draft).get("account") or session.settings.account or session.profile.default_account


def _given(draft: SubmissionDraft) -> dict[str, str]:
    """The options on the command line of `sbatch`, by their long names."""
    pairs = (option.removeprefix("--").partition("=") for option in draft.options)
    return {name: value for name, _, value in pairs}


def _paths_needed(session: OpenLab, draft: SubmissionDraft, planned: Planned) -> tuple[str, ...]:
    from labtui.preflight import paths_to_ask

    main = draft.job_file or SCRIPT_NAME
    return paths_to_ask(planned.files, draft, session.profile, main=main, given=_given(draft))


def places_to_ask(session: OpenLab, draft: SubmissionDraft, script: str | None) -> tuple[str, ...]:
    """The remote paths of a draft that `Session.look_at` should be given before its preview."""
    planned = plan(session, draft, script, keep_in="")
    needed = _paths_needed(session, draft, planned)
    return unknown_places(session.state, needed, session.clock.wall())


def fresh_places(state: LabState, paths: Iterable[str], now: float) -> dict[str, bool]:
    """What the cluster said lately of these paths; a word older than `PLACES_FRESH_S` is no ground to stop anybody."""
    seen = {path: state.places[path] for path in paths if path in state.places}
    return {path: place.there for path, place in seen.items() if 0 <= now - place.at <= PLACES_FRESH_S}


def unknown_places(state: LabState, paths: Iterable[str], now: float) -> tuple[str, ...]:
    """The paths to ask the cluster about again: never asked, asked long ago, or missing a short while ago."""
    known = fresh_places(state, paths, now)
    return tuple(
        path
        for path in paths
        if path not in known or (not known[path] and now - state.places[path].at > MISSING_FRESH_S)
    )


def run_of(state: LabState, run_id: int) -> RunState:
    """The run with this number.

    Raises:
        UsageError: when there is none.
    """
    run = state.runs.get(run_id)
    if run is None:
        raise UsageError(f"There is no run {run_id} in this lab folder.", "`labtui queue` lists them.")
    return run
