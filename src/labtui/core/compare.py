"""What of the files to be sent the cluster has already: new, changed, unchanged, with the lines that differ.

Two words stand beside each file. One is about the newest submission that Slurm accepted, whose files lie in their
own directory there and are known here too; one is about the lab's shared copy, the directory that `labtui push` fills.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from labtui.core.model import JobForm, SubmissionStatus
from labtui.core.push import plan_push
from labtui.core.state import SubmissionState
from labtui.errors import UsageError

Standing = Literal["new", "changed", "unchanged"]
"""A file beside another copy of it: that one is not there, is another text, is the same."""

MAX_DIFFERENCE_BYTES = 200_000
"""Of longer files nobody reads the difference, and finding it would take seconds."""


@dataclass(frozen=True, slots=True)
class Sent:
    """What an accepted submission was sent with. `files` are the contents that are still kept here."""

    submission: SubmissionState
    files: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def job_id(self) -> str:
        """Slurm's number of its job."""
        return self.submission.job.job_id if self.submission.job is not None else ""


def newest_sent(submissions: Iterable[SubmissionState]) -> SubmissionState | None:
    """The newest submission that Slurm accepted and whose files are known; None when there is none."""
    known = _known(submissions)
    return max(known, key=lambda item: item.planned_at, default=None)


def nearest_sent(submissions: Iterable[SubmissionState], form: JobForm, gpus: int) -> SubmissionState | None:
    """The accepted submission whose job script is most like one of this form with so many GPUs; the newest of those."""
    known = _known(submissions)
    return max(
        known,
        key=lambda item: (item.form == form, item.form == form and item.gpus == gpus, item.planned_at),
        default=None,
    )


def _known(submissions: Iterable[SubmissionState]) -> list[SubmissionState]:
    """The accepted ones whose files are known, the last one first: of those planned in one moment it is meant."""
    found = [
        item
        for item in submissions
        if item.status is SubmissionStatus.ACCEPTED and item.job is not None and item.script_hashes
    ]
    return found[::-1]


def standing(data: bytes, digest: str | None, old: bytes | None = None) -> Standing:
    """How `data` stands beside a copy with this SHA-256 hex digest (None: there is none), or this content."""
    if old is not None:
        return "unchanged" if _unix(data) == _unix(old) else "changed"
    if digest is None:
        return "new"
    return "unchanged" if hashlib.sha256(data).hexdigest() == digest else "changed"


def pushed_digest(path: str, data: bytes) -> str:
    """The digest of a file as a push puts it there; empty when its name cannot be pushed."""
    try:
        (planned,) = plan_push({path: data})
    except UsageError:
        return ""
    return planned.digest


def as_if_now(old: bytes, sent: SubmissionState, token: str, job_name: str) -> bytes:
    """A job script of then with the identity of now: token, job name and directory differ in every submission."""
    return old.replace(sent.job_name.encode(), job_name.encode()).replace(sent.token.encode(), token.encode())


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
