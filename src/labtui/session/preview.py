"""What submitting a draft would do: its findings, its cost, and its files beside what the cluster has.

A word stands beside each file that would be sent: whether it differs from the newest submission that Slurm accepted
(its files lie in their own directory there and are known here too).

Nothing here asks the cluster. What was sent with accepted jobs is known from the store, so most of it works without a
connection.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from labtui.domain.model import Interval, SubmissionDraft, SubmissionStatus
from labtui.domain.state import LabState, SubmissionState
from labtui.session.folder import SCRIPT_NAME
from labtui.session.planning import Planned, plan

if TYPE_CHECKING:
    from labtui.preflight import Finding
    from labtui.session.session import Session

PATHS_FRESH_S = 600.0
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


def preview(session: Session, draft: SubmissionDraft, script: str | None) -> Preview:
    """What submitting this draft would do; nothing is written and nothing sent."""
    from labtui.lab.expected_time import expectation
    from labtui.preflight import preflight

    planned = plan(session, draft, script, keep_in="")
    seconds, gpu_hours = expectation(draft, session.edition, session.results())
    needed = _paths_needed(session, draft, planned)
    now = session.clock.wall()
    session.look_at(unknown_paths(session.state, needed, now))
    remote = fresh_paths(session.state, needed, now)
    files, left_out = changes(planned, tuple(session.state.submissions.values()), session.files_of)
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
        files=files,
        findings=(*_other_ends(draft), *findings),
        gpu_hours=gpu_hours,
        seconds=seconds,
        left_out=left_out,
    )


def _other_ends(draft: SubmissionDraft) -> Iterator[Finding]:
    from labtui.preflight import Finding
    from labtui.session.own_jobs import sent_with_other_ends

    for name in sent_with_other_ends(draft):
        effect = "Windows line endings: the file is sent with LF; yours stays as it is."
        yield Finding(rule="crlf", severity="warning", file=name, line=0, text="", effect=effect)


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


Standing = Literal["new", "changed", "unchanged"]
"""A file beside another copy of it: that one is not there, is another text, is the same."""

MAX_DIFFERENCE_BYTES = 200_000
"""Of longer files nobody reads the difference, and finding it would take seconds."""


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file that travels with a submission, `size` in bytes.

    `changed` says that it differs from the one that came with labtui. `since` compares it with what the job
    `since_job` was sent with, the newest that Slurm accepted ("new" and no job when there is none); for the job script
    that is the newest job like this one, and its token, name and directory do not count.
    None where nobody knows. `difference` is the unified one since that job, empty
    where nothing changed or the old text is not kept.
    """

    path: str
    size: int
    changed: bool
    since: Standing | None = None
    since_job: str = ""
    difference: str = ""


def changes(
    planned: Planned,
    submissions: Sequence[SubmissionState],
    files_of: Callable[[str], dict[str, bytes]],
) -> tuple[tuple[FileChange, ...], tuple[str, ...]]:
    """Each file of a planned submission beside what the cluster has; and the names that are not sent any more.

    `files_of` gives the files of an earlier submission by its token.
    """
    accepted = [
        item
        for item in reversed(submissions)  # the last one first: of those planned in one moment it is meant
        if item.status is SubmissionStatus.ACCEPTED and item.job is not None and item.script_hashes
    ]
    newest = max(accepted, key=lambda item: item.planned_at, default=None)
    form, gpus = planned.submission.form, planned.submission.gpus
    alike = max(
        accepted,
        key=lambda item: (item.form == form, item.form == form and item.gpus == gpus, item.planned_at),
        default=None,
    )
    then = files_of(newest.token) if newest is not None else {}
    script_then = files_of(alike.token).get(SCRIPT_NAME) if alike is not None else None
    if alike is not None and script_then is not None:
        script_then = _as_if_now(script_then, alike, planned.submission)
    files = tuple(
        _change(name, data, alike, script_then)
        if name == SCRIPT_NAME
        else _change(name, data, newest, then.get(name))
        for name, data in sorted(planned.files.items())
    )
    before = newest.script_hashes if newest is not None else {}
    return files, tuple(sorted(set(before) - set(planned.files)))


def _change(name: str, data: bytes, sent: SubmissionState | None, old: bytes | None) -> FileChange:
    """A file beside what `sent` was sent with; `old` is its text then, where that is still kept here."""
    job_id = sent.job.job_id if sent is not None and sent.job is not None else ""
    since = standing(data, sent.script_hashes.get(name) if sent is not None else None, old)
    shown = ""
    if old is not None and since == "changed":
        shown = difference(old, data, name, f"job {job_id}")
    return FileChange(
        path=name,
        size=len(data),
        changed=_is_changed(name, data),
        since=since,
        since_job=job_id,
        difference=shown,
    )


def _is_changed(name: str, data: bytes) -> bool:
    """Whether a script differs from the one that came with labtui."""
    from labtui.session.folder import list_remote, read_remote

    return name in list_remote() and read_remote(name) != data


def standing(data: bytes, digest: str | None, old: bytes | None = None) -> Standing:
    """How `data` stands beside a copy with this SHA-256 hex digest (None: there is none), or this content."""
    if old is not None:
        return "unchanged" if _unix(data) == _unix(old) else "changed"
    if digest is None:
        return "new"
    return "unchanged" if hashlib.sha256(data).hexdigest() == digest else "changed"


def _as_if_now(old: bytes, then: SubmissionState, now: SubmissionState) -> bytes:
    """A job script of then with the identity of now: token, job name and directory differ in every submission."""
    named = old.replace(then.job_name.encode(), now.job_name.encode())
    return named.replace(then.token.encode(), now.token.encode())


def difference(old: bytes, new: bytes, path: str, since: str) -> str:
    """The unified difference of two texts; empty for binary or very long files.

    `since` says what the old one is, e.g. ``job 31337``.
    """
    if max(len(old), len(new)) > MAX_DIFFERENCE_BYTES or b"\0" in old + new:
        return ""
    import difflib

    lines = difflib.unified_diff(
        _unix(old).decode("utf-8", "replace").splitlines(),
        _unix(new).decode("utf-8", "replace").splitlines(),
        f"{path} ({since})",
        f"{path} (now)",
        lineterm="",
        n=2,
    )
    return "\n".join(lines)


def _unix(data: bytes) -> bytes:
    return data.replace(b"\r\n", b"\n")


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
