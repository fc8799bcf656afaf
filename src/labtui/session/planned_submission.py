"""A planned submission: its values, where its files and logs lie on the cluster, and which files lie there already.

Nothing here asks the cluster. What was sent with accepted jobs is known from the store, so most of it works without a
connection. What lies in the lab's shared directory is known once `SharedCopy` has the cluster's answer.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING

from labtui.cluster.push import (
    Sent,
    Standing,
    as_if_now,
    difference,
    nearest_sent,
    newest_sent,
    pushed_digest,
    standing,
)
from labtui.domain.errors import UsageError
from labtui.domain.events import SubmissionPlanned
from labtui.domain.model import Stream
from labtui.domain.profile import Profile
from labtui.session.folder import file_name, hashes
from labtui.session.settings import Settings

if TYPE_CHECKING:
    from labtui.domain.events import SubmissionState


SCRIPT_NAME = "job.slurm"
"""The job script's name in its remote directory."""
BY_HAND = "slurm/by-hand"
"""Where a job script lies that the student may submit without labtui."""
DRY_RUN = "dry-run"
"""The remote directory, beside those of the submissions, of the script that Slurm is only asked about."""


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

        None when there is nothing to ask now. The future is done when the answer is kept, not before: whoever waits
        on the question's own future can be quicker than its callbacks.
        """
        fresh = self._at is not None and 0 <= wall() - self._at <= SHARED_FRESH_S
        busy = self._asking is not None and not self._asking.done()
        wanted = tuple(paths)
        if busy or not wanted or (fresh and set(wanted) <= set(self._digests)):
            return None

        kept: Asked = Future()

        def answered(future: Asked) -> None:
            if future.cancelled():
                kept.cancel()
            elif (error := future.exception()) is not None:
                kept.set_exception(error)
            else:
                if self._asking is future:
                    self._digests, self._at = dict(future.result()), wall()
                kept.set_result(future.result())

        self._asking = question(wanted)
        self._asking.add_done_callback(answered)
        return kept

    def forget(self) -> None:
        """Something was sent there: what was said before is old, and so is what is being said."""
        self._at, self._asking = None, None

    def digests(self, now: float) -> Mapping[str, str | None]:
        """What is known now; empty when nothing is."""
        known = self._at is not None and 0 <= now - self._at <= SHARED_KNOWN_S
        return self._digests if known else {}


def changes(
    planned: Planned,
    submissions: Collection[SubmissionState],
    files_of: Callable[[str], dict[str, bytes]],
    shared: Mapping[str, str | None],
) -> tuple[tuple[FileChange, ...], tuple[str, ...]]:
    """Each file of a planned submission beside what the cluster has; and the names that are not sent any more.

    `files_of` gives the files of an earlier submission by its token, `shared` is `SharedCopy.digests`.
    """

    def sent(item: SubmissionState | None) -> Sent | None:
        return Sent(item, files_of(item.token)) if item is not None else None

    scripts = sent(newest_sent(submissions))
    job = sent(nearest_sent(submissions, planned.event.form, planned.event.gpus))
    files = tuple(
        _change(name, data, planned, job if name == SCRIPT_NAME else scripts, shared)
        for name, data in sorted(planned.files.items())
    )
    before = scripts.submission.script_hashes if scripts is not None else {}
    return files, tuple(sorted(set(before) - set(planned.files)))


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
    from labtui.session.folder import list_remote, read_remote

    return name in list_remote() and read_remote(name) != data
