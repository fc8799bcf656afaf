"""From a draft to everything a submission needs: its values, and where its files and logs lie on the cluster.

A preview is what submitting it would do: its findings, its cost, and its files. Nothing here asks the cluster.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from labtui.domain.errors import UsageError
from labtui.domain.model import AcceptedFinding, Interval, Stream, SubmissionDraft
from labtui.domain.profile import Profile
from labtui.domain.state import LOG_ENDINGS, LabState, RunState, SubmissionState
from labtui.domain.terminal_text import file_name
from labtui.session.folder import SCRIPT_NAME, hashes, list_remote
from labtui.session.settings import Settings

if TYPE_CHECKING:
    from labtui.lab.plan import PlanOverrides
    from labtui.preflight.findings import Finding
    from labtui.session.session import Session

BY_HAND = "slurm/by-hand"
"""Where a job script lies that the student may submit without labtui."""
DRY_RUN = "dry-run"
"""The remote directory, beside those of the submissions, of the script that Slurm is only asked about."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A submission ready to be stored, with its files."""

    submission: SubmissionState
    files: Mapping[str, bytes]


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


def logs_of(draft: SubmissionDraft, remote_dir: str, *, user: str) -> dict[str, str]:
    """Where a job's logs will be, by stream; sbatch's codes stand for what is to come."""
    patterns: Iterable[tuple[Stream, str]] = draft.log_patterns
    if draft.form != "own":
        streams = (stream for stream in LOG_ENDINGS if stream != "gpu" or draft.gpus)
        patterns = ((stream, f"{draft.job_name}.%j{LOG_ENDINGS[stream]}") for stream in streams)
    logs: dict[str, str] = {}
    for stream, pattern in patterns:
        inside = f"{remote_dir.replace('%', '%%')}/{pattern.removeprefix('./')}"
        whole = pattern if pattern.startswith("/") else inside
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
    submission = SubmissionState(
        planned_at=session.clock.wall(),
        token=token,
        run_ids=tuple(range(first, first + len(named.runs))),
        script_file=script_file,
        remote_dir=remote_dir,
        remote_logs=logs_of(named, remote_dir, user=session.user),
        log_names=log_names_of(named),
        script_hashes=hashes(files),
        practice=session.practice,
        accepted=tuple(accepted),
        **named.request,
    )
    return Planned(submission, files)


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


# --------------------------------------------------------------------------- what submitting it would do

PATHS_FRESH_S = 600.0
"""How long an answer about a remote path is worth something: nobody moves a data set every minute."""
MISSING_FRESH_S = 20.0
"""How soon a path that was missing is asked about again: a student may have just put it there."""


@dataclass(frozen=True, slots=True)
class Preview:
    """What submitting a draft would do. `seconds` and `gpu_hours` are expectations, None where nothing is known.

    `unasked` are remote paths that it needs and the cluster said nothing about lately: for `Session.look_at`.
    """

    script: str
    files: tuple[FileChange, ...]
    findings: tuple[Finding, ...]
    gpu_hours: Interval | None
    seconds: Interval | None
    unasked: tuple[str, ...] = ()


def preview(session: Session, draft: SubmissionDraft, script: str | None) -> Preview:
    """What submitting this draft would do; nothing is written and nothing sent."""
    from labtui.lab.expected_time import expectation
    from labtui.preflight import paths_to_ask, preflight
    from labtui.session.own_jobs import sent_as

    planned, state, now = plan(session, draft, script, keep_in=""), session.state, session.clock.wall()
    main, given, files = draft.job_file or SCRIPT_NAME, _given(draft), dict(planned.files)
    if draft.job_file:  # findings name it as the student does
        files[main] = files.pop(sent_as(main))
    seconds, gpu_hours = expectation(draft, session.edition, session.results().rows)
    needed = paths_to_ask(files, draft, session.profile, main=main, given=given)
    findings = preflight(
        files,
        draft,
        session.profile,
        draft.account if draft.form != "own" else _own_account(session, draft),
        remote=fresh_paths(state, needed, now),
        main=main,
        given=given,
        forecast_s=seconds.lo if seconds is not None else None,
        makes_folders=True,
        bash_errors=bash_errors(files, main),
    )
    return Preview(
        script=files[main].decode("utf-8", "surrogateescape"),
        files=_files(session, planned),
        findings=findings,
        gpu_hours=gpu_hours,
        seconds=seconds,
        unasked=unknown_paths(state, needed, now),
    )


def _own_account(session: Session, draft: SubmissionDraft) -> str:
    """The account that a student's own file should name: said for this time, else the folder's."""
    return session.profile.account_of(_given(draft).get("account", ""), session.settings.account)


def _given(draft: SubmissionDraft) -> dict[str, str]:
    """The options on the command line of `sbatch`, by their long names."""
    pairs = (option.removeprefix("--").partition("=") for option in draft.options)
    return {name: value for name, _, value in pairs}


def fresh_paths(state: LabState, paths: Iterable[str], now: float) -> dict[str, bool]:
    """What the cluster said lately of these paths; a word older than `PATHS_FRESH_S` is no ground to stop anybody."""
    seen = {path: state.places[path] for path in paths if path in state.places}
    return {path: place.there for path, place in seen.items() if 0 <= now - place.at <= PATHS_FRESH_S}


def unknown_paths(state: LabState, paths: Iterable[str], now: float) -> tuple[str, ...]:
    """The paths to ask the cluster about again: never asked, asked long ago, or missing a short while ago."""
    known = fresh_paths(state, paths, now)
    return tuple(
        path
        for path in paths
        if path not in known or (not known[path] and now - state.places[path].at > MISSING_FRESH_S)
    )


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file that travels with a submission, `size` in bytes; `changed`: it differs from labtui's own."""

    path: str
    size: int
    changed: bool


def _files(session: Session, planned: Planned) -> tuple[FileChange, ...]:
    changed = set(list_remote()) - session.folder.as_brought(planned.files)
    files = sorted(planned.files.items())
    return tuple(FileChange(path=name, size=len(data), changed=name in changed) for name, data in files)


_SHELL_ENDINGS = (".sh", ".slurm", ".sbatch", ".job")
_BASH_PATIENCE_S = 5.0


def bash_errors(files: Mapping[str, bytes], main: str = "") -> dict[str, str]:
    """What bash cannot read (``bash -n`` executes nothing), by the script's name; nothing where there is no bash."""
    bash = shutil.which("bash") if os.name == "posix" else None
    found: dict[str, str] = {}
    for name, data in files.items() if bash else ():
        first = data.split(b"\n", 1)[0]
        if (name != main and not name.endswith(_SHELL_ENDINGS)) or (
            first[:2] == b"#!" and b"bash" not in first
        ):
            continue
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            done = subprocess.run(
                [str(bash), "--norc", "--noprofile", "-n"],
                input=data,
                capture_output=True,
                timeout=_BASH_PATIENCE_S,
                check=False,
                env={"LC_ALL": "C", "PATH": os.defpath},
            )
            if done.returncode:
                found[name] = done.stderr.decode("utf-8", "replace")
    return found
