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

    planned, state, now = plan(session, draft, script, keep_in=""), session.state, session.clock.wall()
    main, given = draft.job_file or SCRIPT_NAME, _given(draft)
    seconds, gpu_hours = expectation(draft, session.edition, session.results().rows)
    needed = paths_to_ask(planned.files, draft, session.profile, main=main, given=given)
    findings = preflight(
        planned.files,
        draft,
        session.profile,
        draft.account if draft.form != "own" else _own_account(session, draft),
        remote=fresh_paths(state, needed, now),
        main=main,
        given=given,
        forecast_s=seconds.lo if seconds is not None else None,
        makes_folders=True,
        bash_errors=bash_errors(planned.files, main),
    )
    return Preview(
        script=planned.files[main].decode("utf-8", "surrogateescape"),
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
