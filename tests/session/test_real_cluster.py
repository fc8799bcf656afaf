"""The engine against a real sshd and a real Slurm, with what goes wrong on a train or on a login node."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from labtui.domain.model import JobPhase
from labtui.domain.state import SubmissionState
from labtui.session.session import Session
from labtui.session.worker_context import Clock
from tests.real_cluster import Cluster, FaultProxy, Student
from tests.real_cluster.cluster import wait_until
from tests.session.small_job import HEAD, draft, make_lab

pytestmark = pytest.mark.cluster


class JumpingClock(Clock):
    """The real clock, with a wall that a test can move: the computer slept."""

    def __init__(self) -> None:
        self.slept = 0.0

    def wall(self) -> float:
        return super().wall() + self.slept


@contextmanager
def session_on(path: Path, student: Student, port: int, clock: Clock | None = None) -> Iterator[Session]:
    """A lab folder with a running session."""
    folder = make_lab(path, student, port)
    with Session.open(folder.path, clock=clock) as session:
        yield session


def submit(session: Session, student: Student, script: str) -> str:
    return session.submit(
        draft(student.account), script=HEAD.format(account=student.account) + script
    ).result(240)


def of(session: Session, token: str) -> SubmissionState:
    return session.state.submissions[token]


def phase(session: Session, token: str) -> JobPhase:
    job = of(session, token).job
    assert job is not None
    return job.phase


def mirror(session: Session, token: str) -> bytes:
    path = session.log_path(token, "out")
    return path.read_bytes() if path else b""


def remote(cluster: Cluster, session: Session, token: str) -> bytes:
    item = of(session, token)
    assert item.job is not None
    return cluster.outside(item.remote_logs["out"].replace("%j", item.job.job_id)).read_bytes()


def until(condition: Callable[[], bool], what: str, deadline_s: float = 360) -> None:
    wait_until(condition, what=what, deadline_s=deadline_s)


@pytest.fixture
def session(tmp_path: Path, cluster: Cluster, student: Student) -> Iterator[Session]:
    with session_on(tmp_path / "lab", student, student.port) as opened:
        yield opened


def complete(session: Session, token: str) -> bool:
    item = of(session, token)
    return all(stream in item.logs and item.logs[stream].complete for stream in item.remote_logs)


# ----------------------------------------------------------------------------- the line


def test_a_frozen_line_is_noticed_on_waking_and_the_log_is_caught_up(tmp_path, cluster, student):
    clock = JumpingClock()
    with (
        FaultProxy((student.host, student.port)) as proxy,
        session_on(tmp_path / "lab", student, proxy.port, clock) as session,
    ):
        token = submit(session, student, "for i in $(seq 1 4000); do echo line $i; sleep 0.1; done\n")
        session.watch_logs({token})
        until(lambda: b"line 3\n" in mirror(session, token), "the first lines")
        connections = proxy.connections
        statuses: list[str] = []  # as they are told: waking may connect again at once
        session.subscribe(lambda update: statuses.append(update.state.connection.status))
        proxy.freeze()
        clock.slept += 600
        began = time.monotonic()
        until(lambda: any(status != "online" for status in statuses), "the dead line to be noticed")
        print(f"noticed after {time.monotonic() - began:.1f} s")
        until(lambda: session.state.connection.status == "online", "the new connection")
        assert proxy.connections > connections
        seen = len(mirror(session, token))
        until(lambda: len(mirror(session, token)) > seen, "the log to go on")
        copied = mirror(session, token)  # first, for the log goes on growing
        assert remote(cluster, session, token).startswith(copied)
        session.cancel(1).result(240)
