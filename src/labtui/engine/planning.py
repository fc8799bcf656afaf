"""From a draft to everything a submission needs, and the preview that shows it: the same path, stopped earlier."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from labtui.core.events import PlannedRun, SubmissionPlanned
from labtui.core.interval import Interval
from labtui.core.model import SubmissionDraft
from labtui.core.profile import Profile
from labtui.core.state import LabState, RunState
from labtui.engine.folder import file_name, hashes
from labtui.engine.settings import Settings, write_private
from labtui.errors import UsageError

if TYPE_CHECKING:
    from labtui.core.lab.plan import PlanOverrides
    from labtui.core.preflight import Finding
    from labtui.engine.comparing import FileChange
    from labtui.engine.session import Session

SCRIPT_NAME = "job.slurm"
"""The job script's name in its remote directory."""
BY_HAND = "slurm/by-hand"
"""Where a job script lies that the student may submit without labtui."""
DRY_RUN = "dry-run"
"""The remote directory, beside those of the submissions, of the script that Slurm is only asked about."""
PLACES_FRESH_S = 600.0
"""How long an answer about a remote path is worth something: nobody moves a data set every minute."""
MISSING_FRESH_S = 20.0
"""How soon a path that was missing is asked about again: a student may have just put it there."""


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


@dataclass(frozen=True, slots=True)
class Planned:
    """A submission ready to be stored: the event, the files by digest, and which file is where."""

    event: SubmissionPlanned
    script: str
    files: Mapping[str, bytes]

    @property
    def blobs(self) -> dict[str, bytes]:
        """File contents by SHA-256 hex digest."""
        return {hashlib.sha256(data).hexdigest(): data for data in self.files.values()}

    @property
    def snapshot(self) -> dict[str, dict[str, str]]:
        """Path -> digest of this submission's files."""
        return {self.event.token: hashes(self.files)}


def drafts_of(
    session: Session, task_id: str, overrides: PlanOverrides | None = None
) -> tuple[SubmissionDraft, ...]:
    """The edition's plan for a task; what the student says now goes before what the lab folder says."""
    from labtui.core.lab.plan import PlanOverrides, task_drafts

    settings, profile = session.settings, session.profile
    said = overrides or PlanOverrides()
    merged = replace(
        said,
        account=said.account or settings.account,
        reservation=said.reservation or settings.reservation,
        container=said.container or settings.container,
        data_dir=said.data_dir or settings.data_dir,
        user=said.user or session.user,
        max_per_gpu_batch=said.max_per_gpu_batch or settings.max_per_gpu_batch,
    )
    drafts = task_drafts(session.edition, task_id, profile, merged)
    return drafts if said.qos else tuple(_in_queue(draft, profile, settings.qos) for draft in drafts)


def _in_queue(draft: SubmissionDraft, profile: Profile, name: str) -> SubmissionDraft:
    """The draft in the folder's queue, unless the profile says that it is for other devices."""
    queue = profile.queue(name)
    devices = "gpu" if draft.gpus else "cpu"
    if not name or (queue is not None and queue.devices != devices):
        return draft
    return replace(draft, qos=name)


def lab_root(profile: Profile, settings: Settings, *, user: str, account: str = "") -> str:
    """The remote directory of this lab; relative ones count from the remote home.

    Raises:
        UsageError: when the profile's path needs an account or user that is not known.
    """
    root = settings.root or profile.root
    if "{account}" in root and not (account or settings.account or profile.default_account):
        raise UsageError(
            "The remote directory depends on the account, and none is known.",
            "Set `account` under [cluster] in lab.toml, or use `labtui init --account`.",
        )
    root = root.replace("{account}", account or settings.account or profile.default_account)
    if "{user}" in root and not user:
        raise UsageError(
            "The remote directory depends on the user name, and none is known.",
            "Set `user` under [cluster] in lab.toml, or use `labtui init --user`.",
        )
    root = root.replace("{user}", user)
    return f"{root.rstrip('/')}/{file_name(settings.edition)}"


def shared_dir(profile: Profile, settings: Settings, *, user: str) -> str:
    """The remote directory that `labtui push` fills, beside those of the submissions.

    Raises:
        UsageError: as `lab_root`.
    """
    return f"{lab_root(profile, settings, user=user)}/scripts"


def new_token() -> str:
    """A token nobody has used: the identity of one submission, on this computer and in Slurm's records."""
    return f"lt{secrets.token_hex(10)}"


def plan(session: Session, draft: SubmissionDraft, script: str | None, *, keep_in: str = "slurm") -> Planned:
    """Give a draft its token, directory, run numbers and job script.

    The script is written into the folder `keep_in` of the lab folder; nowhere when that is empty. A script under
    `slurm/` itself says that its submission was wanted: what only looks keeps it elsewhere.

    Raises:
        TemplateError: when the template does not fit the draft.
        FolderError: when scripts cannot be read or the rendered one cannot be written.
    """
    token = new_token()
    root = lab_root(session.profile, session.settings, user=session.user, account=draft.account)
    remote_dir = f"{root}/{token}"
    named = replace(draft, job_name=f"{file_name(draft.job_name)}-{token[-8:]}")
    text = script if script is not None else render(session, named, token, remote_dir)
    files = {**session.folder.script_files(), SCRIPT_NAME: text.replace("\r\n", "\n").encode()}
    script_file = f"{keep_in or 'slurm'}/{named.job_name}.slurm"
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
        qos=named.qos,
        gpus=named.gpus,
        cpus=named.cpus,
        time_limit_minutes=named.time_limit_minutes,
        script_file=script_file,
        remote_dir=remote_dir,
        remote_logs=logs_of(remote_dir, named.job_name, gpus=named.gpus),
        script_hashes=hashes(files),
        practice=session.practice,
    )
    return Planned(event, text, files)


def logs_of(remote_dir: str, job_name: str, *, gpus: int) -> dict[str, str]:
    """Where a job's logs will be, by stream; ``%j`` stands for the job id."""
    base = f"{remote_dir}/{job_name}.%j"
    logs = {"out": f"{base}.out", "err": f"{base}.err"}
    if gpus:
        logs["gpu"] = f"{base}.gpu.csv"
    return logs


def render(session: Session, draft: SubmissionDraft, token: str, remote_dir: str) -> str:
    """The job script of a draft."""
    from labtui.core.jobscript import JobContext, job_script

    context = JobContext(
        token=token,
        remote_dir=remote_dir,
        edition=session.settings.edition,
        practice=session.practice,
        user=session.user,
    )
    return job_script(draft, session.profile, context, session.folder.template(draft.form))


def preview(session: Session, draft: SubmissionDraft, script: str | None) -> Preview:
    """What submitting this draft would do; nothing is written and nothing sent."""
    from labtui.core.lab.plan import expectation
    from labtui.core.preflight import paths_to_ask, preflight
    from labtui.engine.comparing import changes

    planned = plan(session, draft, script, keep_in="")
    seconds, gpu_hours = expectation(draft, session.edition, session.results())
    needed = paths_to_ask(planned.files, draft, session.profile)
    now = session.clock.wall()
    session.look_at(unknown_places(session.state, needed, now))
    remote = fresh_places(session.state, needed, now)
    files, left_out = changes(session, planned)
    return Preview(
        script=planned.script,
        files=files,
        findings=tuple(preflight(planned.files, draft, session.profile, draft.account, remote=remote)),
        gpu_hours=gpu_hours,
        seconds=seconds,
        left_out=left_out,
    )


def places_to_ask(session: Session, draft: SubmissionDraft, script: str | None) -> tuple[str, ...]:
    """The remote paths of a draft that `Session.look_at` should be given before its preview."""
    from labtui.core.preflight import paths_to_ask

    planned = plan(session, draft, script, keep_in="")
    needed = paths_to_ask(planned.files, draft, session.profile)
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
