"""What a kept practice cluster keeps: its jobs and its clock in one small file, as Slurm does.

Times are UNIX seconds of the cluster's own clock.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import msgspec

from labtui.cluster.local_files import make_private, write_atomic
from labtui.domain.errors import DataError, UsageError
from labtui.practice.slurm.controller import Controller
from labtui.practice.slurm.job import Job

STATE_FILE = "slurm_state.json"


@dataclass(frozen=True, slots=True)
class SavedCluster:
    """A practice cluster as it was at `clock`, when a job changed last or the cluster ended."""

    clock: float
    jobs: list[Job]


class StateFile:
    """The state file of one kept cluster, and the lock that lets one process at a time use its folder.

    Raises:
        UsageError: another practice session is using the folder.
    """

    def __init__(self, folder: Path) -> None:
        import fcntl  # not on Windows, where no cluster starts; it has a sentence of its own there

        self._path = folder / STATE_FILE
        make_private(folder)
        handle = os.open(folder / ".lock", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._held: BinaryIO = os.fdopen(handle, "ab")
        try:
            fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._held.close()
            raise UsageError(
                f"A practice session is already open in {folder}.",
                "Leave that one first, or keep this one in another folder.",
            ) from error
        self._lock = threading.Lock()
        self._written = b""

    def load(self) -> SavedCluster | None:
        """What the last session left; None before the first.

        Raises:
            DataError: the file is damaged.
        """
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=SavedCluster)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError) as error:
            raise DataError(
                f"The practice cluster's records cannot be read: {error}.",
                "Delete this file to continue without its earlier jobs.",
                path=str(self._path),
            ) from error

    def save(self, controller: Controller, now: float, *, ended: bool = False) -> None:
        """Write the file when a job changed, or the cluster ends.

        Raises:
            OSError: it cannot be written.
        """
        with self._lock, controller.lock:
            jobs = msgspec.json.encode(controller.accounting())
            if ended or jobs != self._written:
                saved = {"clock": now, "jobs": msgspec.Raw(jobs)}
                write_atomic(self._path, msgspec.json.encode(saved))
                self._written = jobs

    def close(self) -> None:
        """Let another session use the folder."""
        self._held.close()
