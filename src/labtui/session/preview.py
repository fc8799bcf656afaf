"""What submitting a draft would do: its findings, its cost, and its files. Nothing here asks the cluster."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from labtui.domain.model import Interval, SubmissionDraft
from labtui.domain.state import LabState
from labtui.session.folder import SCRIPT_NAME
from labtui.session.planning import Planned, plan

if TYPE_CHECKING:
    from labtui.preflight.findings import Finding
    from labtui.session.session import Session

PATHS_FRESH_S = 600.0
"""How long an answer about a remote path is worth something: nobody moves a data set every minute."""
MISSING_FRESH_S = 20.0
"""How soon a path that was missing is asked about again: a student may have just put it there."""


@dataclass(frozen=True, slots=True)
class Preview:
    """What submitting a draft would do. `seconds` and `gpu_hours` are expectations, None where nothing is known."""

    script: str
    files: tuple[FileChange, ...]
    findings: tuple[Finding, ...]
    gpu_hours: Interval | None
    seconds: Interval | None


def preview(session: Session, draft: SubmissionDraft, script: str | None) -> Preview:
    """What submitting this draft would do; nothing is written and nothing sent."""
    from labtui.lab.expected_time import expectation
    from labtui.preflight import preflight

    planned = plan(session, draft, script, keep_in="")
    seconds, gpu_hours = expectation(draft, session.edition, session.results().measured)
    needed = _paths_needed(session, draft, planned)
    remote = fresh_paths(session.state, needed, session.clock.wall())
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
        bash_errors=bash_errors(planned.files, draft.job_file or SCRIPT_NAME),
    )
    return Preview(
        script=planned.files[draft.job_file or SCRIPT_NAME].decode("utf-8", "surrogateescape"),
        files=_files(session, planned),
        findings=findings,
        gpu_hours=gpu_hours,
        seconds=seconds,
    )


def _own_account(session: Session, draft: SubmissionDraft) -> str:
    """The account that a student's own file should name: said for this time, else the folder's."""
    return session.profile.account_of(_given(draft).get("account", ""), session.settings.account)


def _given(draft: SubmissionDraft) -> dict[str, str]:
    """The options on the command line of `sbatch`, by their long names."""
    pairs = (option.removeprefix("--").partition("=") for option in draft.options)
    return {name: value for name, _, value in pairs}


def _paths_needed(session: Session, draft: SubmissionDraft, planned: Planned) -> tuple[str, ...]:
    from labtui.preflight import paths_to_ask

    main = draft.job_file or SCRIPT_NAME
    return paths_to_ask(planned.files, draft, session.profile, main=main, given=_given(draft))


def paths_to_look_at(session: Session, draft: SubmissionDraft, script: str | None) -> tuple[str, ...]:
    """The remote paths of a draft that `Session.look_at` should be given before its preview."""
    planned = plan(session, draft, script, keep_in="")
    needed = _paths_needed(session, draft, planned)
    return unknown_paths(session.state, needed, session.clock.wall())


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
    from labtui.session.folder import list_remote

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
