"""Which steps of a practice job run now, and how many of its CPUs each holds: a file behind a lock."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from labtui.practice.slurm.steps import STEPS


class Ledger:
    """The CPUs of one job (`cpus` in all) and the steps that hold some of them; each step is this process's."""

    def __init__(self, folder: Path, cpus: int) -> None:
        self._path = folder / STEPS
        self._cpus = cpus

    def begin(self, cpus: int, say: Callable[[bool], None], pause_s: float = 0.1) -> int:
        """Take that many CPUs, waiting until they are free; the step's number, from 0.

        `say(True)` is called once when there is waiting to do, `say(False)` when it is over.
        """
        waited = False
        while (number := self._try(cpus)) is None:
            if not waited:
                say(True)
            waited = True
            time.sleep(pause_s)
        if waited:
            say(False)
        return number

    def end(self) -> None:
        """Give the CPUs back."""
        with self._open() as told:
            told["running"].pop(str(os.getpid()), None)

    def _try(self, cpus: int) -> int | None:
        with self._open() as told:
            told["running"] = {pid: held for pid, held in told["running"].items() if _alive(int(pid))}
            if cpus > self._cpus - sum(told["running"].values()):
                return None
            told["running"][str(os.getpid())] = cpus
            told["next"] += 1
            return int(told["next"]) - 1

    @contextlib.contextmanager
    def _open(self) -> Iterator[dict[str, Any]]:
        """The ledger's content, written back afterwards."""
        with self._path.open("a+", encoding="ascii") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            told = json.loads(file.read() or '{"next": 0, "running": {}}')
            yield told
            file.seek(0)
            file.truncate()
            json.dump(told, file)


def _alive(pid: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False
