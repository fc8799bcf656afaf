"""What an adversary found: sbatch ends or its answer is lost although the controller takes the request all the same.

The real sbatch against a real slurmctld that is frozen with the request in its socket; accounting counts the jobs.
"""

import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest

from labtui.domain.model import SubmissionStatus
from labtui.session.folder import LabFolder
from labtui.session.session import Session
from labtui.session.settings import trust
from tests.real_cluster import Cluster, Student
from tests.real_cluster.cluster import wait_until
from tests.session.small_job import SCRIPT, draft, make_lab

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.xdist_group("sbatch-dies")]

FROZEN_S = 45.0
SIGNALS = ("TERM", "SEGV", "KILL")
"""Longer than two questions to the queue wait for their answers."""


class Sbatch:
    """The real sbatch behind a door: a test lets it go on, and a script says what happens to it."""

    def __init__(self, cluster: Cluster, student: Student, body: str) -> None:
        self.home = cluster.outside(student.home)
        for name in ("asked", "go", "ended"):
            (self.home / name).unlink(missing_ok=True)
        cluster.wrap_program(
            "sbatch",
            'echo >>"$HOME/asked"; until [ -e "$HOME/go" ]; do sleep 0.05; done\n'
            f'{body}\nstatus=$?; touch "$HOME/ended"; exit $status',
        )

    def wait_for(self, name: str, deadline_s: float = 360) -> None:
        wait_until((self.home / name).exists, what=f"sbatch: {name}", deadline_s=deadline_s)

    def go(self) -> None:
        (self.home / "go").touch()


@pytest.fixture
def lab(tmp_path: Path, cluster: Cluster, student: Student) -> Iterator[LabFolder]:
    yield make_lab(tmp_path / "lab", student, student.port)
    cluster.wrap_program("sbatch", None)


def submit(session: Session, student: Student, sleep: str = ""):  # type: ignore[no-untyped-def]
    """A small job; `sleep` comes before its lines."""
    script = SCRIPT.format(account=student.account, lines=3).replace("seq 1", f"{sleep}seq 1")
    return session.submit(draft(student.account), script=script)


def assert_one_job(cluster: Cluster, session: Session, deadline_s: float = 800) -> None:
    """The one submission of the folder is accepted, with the one job that accounting has of it."""

    def known() -> bool:
        (item,) = session.state.submissions.values()
        assert item.status is not SubmissionStatus.REFUSED, item.sentence
        return item.status is SubmissionStatus.ACCEPTED

    wait_until(known, what="the submission to be accepted", deadline_s=deadline_s)
    ((token, item),) = session.state.submissions.items()
    assert item.job is not None
    wait_until(lambda: token in cluster.jobs_by_token(), what="accounting to know")
    assert cluster.jobs_by_token()[token] == [item.job.job_id]


def test_sbatch_ended_by_a_signal_is_neither_refused_nor_sent_twice(tmp_path, lab, cluster, student):
    sbatch = Sbatch(
        cluster,
        student,
        f'for signal in {" ".join(SIGNALS)}; do mkdir "$HOME/met-$signal" 2>/dev/null && break; done\n'
        '/usr/bin/sbatch "$@" & job=$!; sleep 2; kill -$signal $job; wait $job\n'
        'status=$?; touch "$HOME/met-$signal/ended"; (exit $status)',
    )
    met = [sbatch.home / f"met-{signal}" for signal in SIGNALS]
    labs = [lab, *(make_lab(tmp_path / f"lab-{number}", student, student.port) for number in range(2, 4))]
    with ExitStack() as stack:
        sessions = [stack.enter_context(Session.open(each.path)) for each in labs]
        futures = [submit(session, student) for session in sessions]
        sbatch.wait_for("asked")
        waiting = sbatch.home / "asked"
        wait_until(lambda: len(waiting.read_text().splitlines()) == len(SIGNALS), what="three times sbatch")
        cluster.daemon("slurmctld", "pause")
        sbatch.go()
        wait_until(
            lambda: all((place / "ended").exists() for place in met), what="three signals", deadline_s=360
        )
        frozen_until = time.monotonic() + FROZEN_S
        wait_until(
            lambda: all(future.done() for future in futures) or time.monotonic() > frozen_until,
            what="the controller to thaw",
        )
        cluster.daemon("slurmctld", "resume")
        for session, future in zip(sessions, futures, strict=True):
            assert_one_job(cluster, session)
            assert future.result(120)


def test_two_copies_of_a_folder_send_a_submission_once(lab, cluster, student):
    """Two laptops, or a disk whose locks do not hold: nothing but the cluster knows of both."""
    settings = lab.settings()
    lab.save_settings(msgspec.structs.replace(settings, port=1))  # nobody listens: the submission waits
    with Session.open(lab.path) as session:
        submit(session, student)
    lab.save_settings(settings)
    with sqlite3.connect(
        lab.database_path
    ) as database:  # as an older labtui left it: no record of its writer
        database.execute("DELETE FROM meta WHERE key = 'writer'")
    database.close()
    copy = lab.path.with_name("copy")
    shutil.copytree(lab.path, copy)
    trust(copy)
    sbatch = Sbatch(cluster, student, 'sleep 4; /usr/bin/sbatch "$@"')
    with Session.open(lab.path) as first:
        sbatch.wait_for("asked")
        sbatch.go()
        with Session.open(copy) as second:
            assert not first.read_only and not second.read_only
            assert_one_job(cluster, first)
            assert_one_job(cluster, second)


def test_a_request_that_arrives_hours_late_never_trains_twice(lab, cluster, student):
    """The same request once more, from outside: the job itself finds out and ends."""
    with Session.open(lab.path) as session:
        token = submit(session, student, "sleep 15; ").result(240)
        item = session.state.submissions[token]
        assert item.job is not None
        late = (
            f"cd {item.remote_dir} && /usr/bin/sbatch --parsable --comment=labtui:{token} "
            f"--job-name={item.job_name}"
        )
        running = lambda: cluster.jobs().get(item.job.job_id) == "RUNNING"  # type: ignore[union-attr]  # noqa: E731
        wait_until(running, what="the job to run")
        twin = cluster.as_student(f"{late} job.slurm").out
        log = cluster.outside(f"{item.remote_dir}/{item.job_name}.{twin}.out")
        wait_until(lambda: log.exists() and "exiting" in log.read_text(), what="the twin to end")
        assert f"job {twin} duplicates job {item.job.job_id}" in log.read_text()
        assert "hello from" not in log.read_text()
        session.refresh()
        assert session.state.submissions[token].job.job_id == item.job.job_id  # type: ignore[union-attr]
