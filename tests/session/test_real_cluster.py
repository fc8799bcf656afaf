"""The engine against a real sshd and a real Slurm, with what goes wrong on a train or on a login node."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from labtui.domain.model import JobPhase, SubmissionStatus
from labtui.domain.state import SubmissionState
from labtui.session.session import Session
from labtui.session.worker_context import SystemClock
from tests.real_cluster import Cluster, FaultProxy, Student
from tests.real_cluster.cluster import wait_until
from tests.session.segments import segments_of
from tests.session.small_job import draft, make_lab

pytestmark = pytest.mark.cluster

HEAD = """#!/bin/bash
#SBATCH --account={account}
#SBATCH --qos=gp_training
#SBATCH --time=00:10:00
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=1
#SBATCH --output=%x.%j.out
#SBATCH --error=%x.%j.err
"""


class JumpingClock(SystemClock):
    """The real clock, with a wall that a test can move: the computer slept."""

    def __init__(self) -> None:
        self.slept = 0.0

    def wall(self) -> float:
        return super().wall() + self.slept


@contextmanager
def session_on(
    path: Path, student: Student, port: int, clock: SystemClock | None = None
) -> Iterator[Session]:
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


def requests_in_a_minute(cluster: Cluster, press: Callable[[], object]) -> tuple[int, int]:
    """The student's requests that the controller counts in a minute, while a key is pressed twice a second.

    Also the minutes begun meanwhile: one, unless asking for the count itself takes seconds. The two looks lie 58 s
    apart, so that no poll of the minute before, or after, falls into this one on a slow machine.
    """
    began = time.monotonic()
    before = cluster.student_requests()
    while time.monotonic() - began < 58:
        press()
        time.sleep(0.5)
    requests = cluster.student_requests() - before
    return requests, math.ceil((time.monotonic() - began) / 60)


@pytest.fixture
def session(tmp_path: Path, cluster: Cluster, student: Student) -> Iterator[Session]:
    with session_on(tmp_path / "lab", student, student.port) as opened:
        yield opened


def complete(session: Session, token: str) -> bool:
    item = of(session, token)
    return all(stream in item.logs and item.logs[stream].complete for stream in item.remote_logs)


# ----------------------------------------------------------------------------- the line


def test_a_frozen_line_is_noticed_on_waking_and_the_log_is_caught_up(
    tmp_path: Path, cluster: Cluster, student: Student
) -> None:
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


def test_the_login_node_reboots_and_everything_goes_on(
    cluster: Cluster, student: Student, session: Session
) -> None:
    token = submit(session, student, "for i in $(seq 1 100); do echo line $i; sleep 0.2; done\n")
    until(lambda: b"line 1\n" in mirror(session, token), "the first line")
    cluster.kill_logins()
    until(lambda: session.state.connection.status == "offline", "the loss to be noticed")
    assert session.state.connection.retry_at is not None
    assert phase(session, token) is not JobPhase.FINISHED
    cluster.start_sshd()
    until(lambda: session.state.connection.status == "online", "the new connection")
    until(lambda: complete(session, token), "the whole log")
    assert mirror(session, token) == remote(cluster, session, token)
    assert mirror(session, token).count(b"line") == 100


# ----------------------------------------------------------------------------- Slurm's own troubles


def test_a_stopped_controller_is_unknown_never_finished(
    cluster: Cluster, student: Student, session: Session
) -> None:
    token = submit(session, student, "sleep 600\n")
    until(lambda: phase(session, token) is JobPhase.RUNNING, "the job to run")
    cluster.daemon("slurmctld", "stop")
    session.refresh()
    until(lambda: of(session, token).job.unknown_since is not None, "the doubt")
    assert any(problem.key == "queue" for problem in session.state.problems)
    assert phase(session, token) in (JobPhase.RUNNING, JobPhase.UNKNOWN)
    cluster.daemon("slurmctld", "start")

    def healed() -> bool:
        session.refresh()
        return of(session, token).job.unknown_since is None and phase(session, token) is JobPhase.RUNNING

    until(healed, "the state to heal by itself")
    until(lambda: not session.state.problems, "the problem to be over")
    session.cancel(1).result(240)


def test_without_accounting_a_job_settles_until_it_speaks(
    cluster: Cluster, student: Student, session: Session
) -> None:
    token = submit(session, student, "sleep 600\n")
    until(lambda: phase(session, token) is JobPhase.RUNNING, "the job to run")
    job_id = of(session, token).job.job_id
    cluster.daemon("slurmdbd", "stop")
    cluster.as_root("scancel", job_id)
    # The controller forgets the job at once: the hard case, a job gone before it was asked about.
    until(lambda: cluster.jobs().get(job_id) not in ("RUNNING", "COMPLETING"), "the job to end")
    session.refresh()
    until(lambda: phase(session, token) in (JobPhase.SETTLING, JobPhase.FINISHED), "the end to be seen")
    if phase(session, token) is JobPhase.FINISHED:
        assert of(session, token).job.evidence == "squeue"
        assert of(session, token).job.slurm_state == "CANCELLED"
    cluster.daemon("slurmdbd", "start")
    until(lambda: phase(session, token) is JobPhase.FINISHED, "the end to be known")


def test_submitting_to_a_hung_controller_ends_as_one_job(
    cluster: Cluster, student: Student, session: Session
) -> None:
    """sbatch times out while its request waits in the frozen controller: one job in the end, and we know it."""
    until(lambda: session.state.connection.status == "online", "the connection")
    cluster.daemon("slurmctld", "pause")
    script = HEAD.format(account=student.account) + "sleep 1\n"
    future = session.submit(draft(student.account), script=script)
    (token,) = session.state.submissions
    until(
        lambda: of(session, token).status in (SubmissionStatus.SENDING, SubmissionStatus.UNKNOWN),
        "the sending",
    )
    time.sleep(12)  # longer than Slurm's own message timeout: sbatch gives its first answer up
    cluster.daemon("slurmctld", "resume")
    future.result(300)
    name = of(session, token).job_name
    ask = ("sacct", "-a", "-X", "-n", "-P", "-S", "2020-01-01", "-o", "JobIDRaw,State", "--name", name)
    until(lambda: "COMPLETED" in cluster.as_root(*ask).out, "accounting to know")
    assert cluster.as_root(*ask).out.split() == [f"{of(session, token).job.job_id}|COMPLETED"]


# ----------------------------------------------------------------------------- logs


def test_a_truncated_log_begins_a_new_segment(cluster: Cluster, student: Student, session: Session) -> None:
    script = (
        "for i in $(seq 1 20); do echo first $i; done; until [ -e read ]; do sleep 0.1; done\n"
        ": > $SLURM_JOB_NAME.$SLURM_JOB_ID.out; for i in $(seq 1 5); do echo second $i; done\n"
    )
    token = submit(session, student, script)
    session.watch_logs({token})
    until(lambda: b"first 20\n" in mirror(session, token), "the first log")
    cluster.as_student(f"touch {of(session, token).remote_dir}/read")
    until(lambda: complete(session, token), "the end")
    segments = [path.read_bytes() for path in segments_of(session, token)]
    assert segments[0] == b"".join(b"first %d\n" % number for number in range(1, 21))
    assert segments[-1] == remote(cluster, session, token)
    assert b"first" not in segments[-1]


def test_a_line_on_screen_arrives_quickly(cluster: Cluster, student: Student, session: Session) -> None:
    """The delays are printed; what is asserted is that every line arrives, in order, without a restart."""
    token = submit(session, student, "for i in $(seq 1 40); do date +%s.%N; sleep 0.33; done\n")
    session.watch_logs({token})
    delays, seen = [], 0
    deadline = time.monotonic() + 480
    while len(delays) < 40 and time.monotonic() < deadline:
        data = mirror(session, token)
        now = time.time()
        lines = data[seen:].split(b"\n")[:-1]
        seen += sum(len(line) + 1 for line in lines)
        delays += [now - float(line) for line in lines]
        time.sleep(0.005)
    assert len(delays) == 40
    late = sorted(delays)
    print(f"write to mirror: median {late[20] * 1000:.0f} ms, 95 % {late[37] * 1000:.0f} ms")
    assert len(segments_of(session, token)) == 1


def test_many_logs_at_once_are_equal_in_the_end(cluster: Cluster, student: Student, session: Session) -> None:
    script = (
        "for i in $(seq 1 20); do seq 1 2000; printf 'naïve ünicode ✓ without newline'; sleep 0.1; done\n"
    )
    futures = [
        session.submit(draft(student.account), script=HEAD.format(account=student.account) + script)
        for _ in range(12)
    ]
    tokens = [future.result(240) for future in futures]
    until(lambda: all(complete(session, token) for token in tokens), "all logs")
    for token in tokens:
        assert mirror(session, token) == remote(cluster, session, token)


@pytest.mark.slow
def test_the_controller_hears_little_from_us(cluster: Cluster, student: Student, session: Session) -> None:
    """Two running jobs and an impatient student for a minute: counted by the controller itself."""
    tokens = [
        submit(session, student, "for i in $(seq 1 2000); do echo $i; sleep 0.2; done\n") for _ in range(2)
    ]
    until(lambda: all(phase(session, token) is JobPhase.RUNNING for token in tokens), "both jobs to run")
    requests, minutes = requests_in_a_minute(cluster, session.refresh)
    assert all(phase(session, token) is JobPhase.RUNNING for token in tokens)
    print(f"{requests} controller requests in {minutes} min of pressing the refresh key")
    assert requests <= 10 * minutes
    for number in (1, 2):
        session.cancel(number).result(240)
