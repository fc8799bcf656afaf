"""The files of a planned submission beside what the cluster has of them. Asks the cluster nothing by itself.

What was sent with accepted jobs is known from the store, so most of it works without a connection. What lies in the
lab's shared directory is known once `SharedCopy` was told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING

from labtui.core.compare import (
    Sent,
    Standing,
    as_if_now,
    difference,
    nearest_sent,
    newest_sent,
    pushed_digest,
    standing,
)
from labtui.engine.planning import SCRIPT_NAME, Planned

if TYPE_CHECKING:
    from labtui.core.state import SubmissionState
    from labtui.engine.session import Session

Asked = Future[Mapping[str, "str | None"]]
Question = Callable[[Sequence[str]], Asked]

SHARED_FRESH_S = 30.0
"""How soon the cluster is asked again what lies in the shared directory."""
SHARED_KNOWN_S = 600.0
"""How long its answer is worth something: only `labtui push` fills that directory."""


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file that travels with a submission, `size` in bytes.

    `changed` says that it differs from the one that came with labtui. `since` compares it with what the job
    `since_job` was sent with, the newest that Slurm accepted ("new" and no job when there is none); for the job script
    that is the newest job like this one, and its token, name and directory do not count. `pushed` compares it with the
    copy that `labtui push` made. None where nobody knows. `difference` is the unified one since that job, empty
    where nothing changed or the old text is not kept.
    """

    path: str
    size: int
    changed: bool
    since: Standing | None = None
    since_job: str = ""
    pushed: Standing | None = None
    difference: str = ""


class SharedCopy:
    """What the cluster last said about the files in the lab's shared directory: SHA-256 by path, and when."""

    def __init__(self) -> None:
        self._digests: Mapping[str, str | None] = {}
        self._at: float | None = None
        self._asking: Future[Mapping[str, str | None]] | None = None

    def ask(self, question: Question, paths: Iterable[str], wall: Callable[[], float]) -> Asked | None:
        """Ask unless it is being asked or was just answered; the answer is kept. `wall` gives UNIX seconds.

        None when there is nothing to ask now.
        """
        fresh = self._at is not None and 0 <= wall() - self._at <= SHARED_FRESH_S
        busy = self._asking is not None and not self._asking.done()
        wanted = tuple(paths)
        if busy or not wanted or (fresh and set(wanted) <= set(self._digests)):
            return None

        def answered(future: Asked) -> None:
            if not future.cancelled() and future.exception() is None and self._asking is future:
                self._digests, self._at = dict(future.result()), wall()

        self._asking = question(wanted)
        self._asking.add_done_callback(answered)
        return self._asking

    def forget(self) -> None:
        """Something was sent there: what was said before is old, and so is what is being said."""
        self._at, self._asking = None, None

    def digests(self, now: float) -> Mapping[str, str | None]:
        """What is known now; empty when nothing is."""
        known = self._at is not None and 0 <= now - self._at <= SHARED_KNOWN_S
        return self._digests if known else {}


def changes(session: Session, planned: Planned) -> tuple[tuple[FileChange, ...], tuple[str, ...]]:
    """Each file of a planned submission beside what the cluster has; and the names that are not sent any more."""
    submissions = session.state.submissions.values()
    scripts = _sent(session, newest_sent(submissions))
    job = _sent(session, nearest_sent(submissions, planned.event.form, planned.event.gpus))
    shared = session.shared.digests(session.clock.wall())
    files = tuple(
        _change(name, data, planned, job if name == SCRIPT_NAME else scripts, shared)
        for name, data in sorted(planned.files.items())
    )
    before = scripts.submission.script_hashes if scripts is not None else {}
    return files, tuple(sorted(set(before) - set(planned.files)))


def _sent(session: Session, item: SubmissionState | None) -> Sent | None:
    return Sent(item, session.files_of(item.token)) if item is not None else None


def _change(
    name: str, data: bytes, planned: Planned, sent: Sent | None, shared: Mapping[str, str | None]
) -> FileChange:
    old = sent.files.get(name) if sent is not None else None
    if sent is not None and old is not None and name == SCRIPT_NAME:
        old = as_if_now(old, sent.submission, planned.event.token, planned.event.job_name)
    digest = sent.submission.script_hashes.get(name) if sent is not None else None
    since = standing(data, digest, old)
    shown = ""
    if sent is not None and old is not None and since == "changed":
        shown = difference(old, data, name, f"job {sent.job_id}")
    pushed: Standing | None = None
    if name in shared:
        there = shared[name]
        same = there is not None and there == pushed_digest(name, data)
        pushed = "new" if there is None else "unchanged" if same else "changed"
    return FileChange(
        path=name,
        size=len(data),
        changed=_is_changed(name, data),
        since=since,
        since_job=sent.job_id if sent is not None else "",
        pushed=pushed,
        difference=shown,
    )


def _is_changed(name: str, data: bytes) -> bool:
    """Whether a script differs from the one that came with labtui."""
    from labtui import assets

    return name in assets.list_remote() and assets.read_remote(name) != data
