"""From a draft to everything a submission needs: its values, and where its files and logs lie on the cluster."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from labtui.domain.errors import UsageError
from labtui.domain.model import AcceptedFinding, Stream, SubmissionDraft
from labtui.domain.profile import Profile
from labtui.domain.state import LabState, PlannedRun, RunState, SubmissionState
from labtui.domain.terminal_text import file_name
from labtui.session.folder import SCRIPT_NAME, hashes
from labtui.session.settings import Settings

if TYPE_CHECKING:
    from labtui.lab.plan import PlanOverrides
    from labtui.session.session import Session

BY_HAND = "slurm/by-hand"
"""Where a job script lies that the student may submit without labtui."""
DRY_RUN = "dry-run"
"""The remote directory, beside those of the submissions, of the script that Slurm is only asked about."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A submission ready to be stored, with its runs and files."""

    submission: SubmissionState
    runs: tuple[PlannedRun, ...]
    files: Mapping[str, bytes]

    def change(self, state: LabState) -> LabState:
        """The state with this submission in the submission queue."""
        return state.with_planned(self.submission, self.runs)


def lab_root(profile: Profile, settings: Settings, *, user: str, account: str = "") -> str:
    """The remote directory of this lab; relative ones count from the remote home.

    Raises:
        UsageError: when the profile's path needs an account or user that is not known.
    """
    root = settings.root or profile.root
    for name, value in (("account", profile.account_of(account, settings.account)), ("user", user)):
        if f"{{{name}}}" in root and not value:
            raise UsageError(
                f"The remote directory depends on the {name}, and none is known.",
                f"Set `{name}` under [cluster] in lab.toml, or use `labtui init --{name}`.",
            )
        root = root.replace(f"{{{name}}}", value)
    return f"{root.rstrip('/')}/{file_name(settings.edition)}"


def new_token() -> str:
    """A token nobody has used: the identity of one submission, on this computer and in Slurm's records."""
    return f"lt{secrets.token_hex(10)}"


def logs_of(remote_dir: str, job_name: str, *, gpus: int) -> dict[str, str]:
    """Where a job's logs will be, by stream; ``%j`` stands for the job id."""
    base = f"{remote_dir}/{job_name}.%j"
    logs = {"out": f"{base}.out", "err": f"{base}.err"}
    if gpus:
        logs["gpu"] = f"{base}.gpu.csv"
    return logs


def own_logs_of(remote_dir: str, patterns: Iterable[tuple[Stream, str]], *, user: str) -> dict[str, str]:
    """Where the logs of a student's own job file will be, by stream; sbatch's codes stand for what is to come."""
    logs: dict[str, str] = {}
    for stream, pattern in patterns:
        whole = (
            pattern
            if pattern.startswith("/")
            else f"{remote_dir.replace('%', '%%')}/{pattern.removeprefix('./')}"
        )
        logs[stream] = re.sub(r"%\d*u", lambda _: user, whole) if user else whole
    return logs


def log_names_of(draft: SubmissionDraft) -> dict[str, str]:
    """The names that a student's own job file gives its logs, where they tell jobs and streams apart."""
    names: dict[str, str] = {}
    for stream, pattern in draft.log_patterns:
        name = re.sub("%[jJA]", "%j", pattern.rpartition("/")[2]).replace("%x", file_name(draft.job_name))
        plain = name.replace("%j", "1")
        if plain != name and plain == file_name(plain):
            names[stream] = name
    return names if len(set(names.values())) == len(names) else {}


def drafts_of(
    session: Session, task_id: str, overrides: PlanOverrides | None = None
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
    session: Session,
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
    files = _files_of(session, named, script, token, remote_dir)
    script_file = f"{keep_in or 'slurm'}/{file_name(named.job_name)}{f'-{token[-8:]}' if own else ''}.slurm"
    if keep_in:
        session.folder.write(script_file, files[SCRIPT_NAME])
    first = max(session.state.runs, default=0) + 1
    runs = tuple(PlannedRun(run_id=first + i, spec=spec) for i, spec in enumerate(named.runs))
    submission = SubmissionState(
        planned_at=session.clock.wall(),
        token=token,
        run_ids=tuple(run.run_id for run in runs),
        script_file=script_file,
        remote_dir=remote_dir,
        remote_logs=own_logs_of(remote_dir, named.log_patterns, user=session.user)
        if own
        else logs_of(remote_dir, named.job_name, gpus=named.gpus),
        log_names=log_names_of(named) if own else {},
        script_hashes=hashes(files),
        practice=session.practice,
        accepted=tuple(accepted),
        **named.request,
    )
    return Planned(submission, runs, files)


def _files_of(
    session: Session, draft: SubmissionDraft, script: str | None, token: str, remote_dir: str
) -> dict[str, bytes]:
    """Every file that goes to the submission's directory, by its name there; the job script is one of them."""
    from labtui.slurm.job_script import JobContext, job_script

    files = session.folder.script_files()
    if draft.form == "own":
        from labtui.session.own_jobs import own_files

        return files | own_files(draft, script)
    from labtui.lab.plan import refuse_too_many_nodes

    refuse_too_many_nodes(draft, session.profile)
    if script is None:
        context = JobContext(
            token=token,
            remote_dir=remote_dir,
            edition=session.settings.edition,
            practice=session.practice,
            user=session.user,
        )
        script = job_script(draft, session.profile, context, session.folder.template(draft.form))
    return files | {SCRIPT_NAME: script.replace("\r\n", "\n").encode()}


def run_of(state: LabState, run_id: int) -> RunState:
    """The run with this number.

    Raises:
        UsageError: when there is none.
    """
    run = state.runs.get(run_id)
    if run is None:
        raise UsageError(f"There is no run {run_id} in this lab folder.", "`labtui queue` lists them.")
    return run
