"""Failures that a student may meet and no other test makes: each is a sentence, loses nothing and heals.

Those of the worker, made exactly by a scripted cluster. `test_failures_on_the_way` and `test_failures_at_home` have the
others.
"""

from __future__ import annotations

import errno
import os

import pytest

from labtui.domain.errors import ConnectionLost, LabError, RemoteFailure, StoreError, UsageError
from labtui.domain.model import JobPhase, SubmissionStatus
from labtui.session import mirrors
from labtui.slurm.job_control import JobDetails
from tests.session.conftest import Bench, accepted, bench, draft, lab_path, only, open_bench
from tests.session.scripted import keras_log

__all__ = ["bench", "lab_path", "open_bench"]  # fixtures

CUT = ConnectionLost("The connection is gone.")
UNCLEAR = RemoteFailure("The login shell ended before the command.", "Look at .bashrc.")


def problems(bench: Bench) -> set[str]:
    return {problem.key.split(":")[0] for problem in bench.session.state.problems}


def mirrored(bench: Bench, token: str) -> bytes:
    path = bench.session.log_path(token, "out")
    return path.read_bytes() if path else b""


# ----------------------------------------------------------------------------- sending


def test_an_unclear_end_of_sbatch_is_looked_up_never_resent(bench: Bench) -> None:
    """The command ran and its shell broke off: the job may be there."""
    submit = bench.cluster.submit

    def broken(*words: object, **more: object) -> str:
        submit(*words, **more)  # type: ignore[arg-type]
        raise UNCLEAR

    bench.cluster.submit = broken  # type: ignore[method-assign]
    bench.online()
    future = bench.session.submit(draft())
    bench.run(5, lambda: only(bench).status is SubmissionStatus.UNKNOWN or future.done())
    bench.run(90, future.done)
    assert bench.cluster.count("submit") == 1
    assert only(bench).job.job_id == "100"


def test_a_look_up_that_fails_is_repeated_and_sends_nothing(bench: Bench) -> None:
    bench.cluster.submit_then_cut = 1
    bench.cluster.fail("find_token", UNCLEAR, UNCLEAR)
    bench.online()
    future = bench.session.submit(draft())
    bench.run(300, future.done)
    assert bench.cluster.count("find_token") == 3
    assert len(bench.cluster.jobs) == 1


def test_cancelled_while_unknown_and_never_arrived_is_withdrawn(bench: Bench) -> None:
    bench.cluster.submit_never_arrives = 1
    bench.cluster.fail("find_token", CUT)
    bench.online()
    future = bench.session.submit(draft())
    bench.run(5, lambda: only(bench).status is SubmissionStatus.UNKNOWN)
    gone = bench.session.cancel(1)
    bench.run(200, gone.done)
    assert only(bench).status is SubmissionStatus.WITHDRAWN
    assert bench.cluster.jobs == {}
    assert isinstance(future.exception(), LabError)


def test_a_disk_that_fills_up_before_sending_sends_nothing_until_there_is_room(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.online()
    bench.cluster.fail("push", CUT)
    future = bench.session.submit(draft())
    full = StoreError("The disk of this computer is full.", "Free some space.")

    def refuse(*_: object, **__: object) -> None:
        raise full

    with monkeypatch.context() as patched:
        patched.setattr(bench.session._journal, "commit_first", refuse)
        bench.run(60)
        assert bench.cluster.count("submit") == 0
        assert only(bench).status is SubmissionStatus.WAITING
        assert "store" in problems(bench)
    bench.run(60, future.done)
    assert bench.cluster.count("submit") == 1
    bench.run(20)
    assert problems(bench) == set()


def test_a_cancel_that_goes_wrong_inside_is_told_and_written_down(bench: Bench) -> None:
    accepted(bench)
    bench.cluster.fail("cancel", ZeroDivisionError("surprise"))
    done = bench.session.cancel(1)
    bench.run(20, done.done)
    assert isinstance(done.exception(), LabError)
    assert "surprise" in bench.session.folder.problem_log.read_text()
    again = bench.session.cancel(1)
    bench.run(20, again.done)
    assert again.exception() is None


def test_closing_tells_who_waits_for_a_cancel(bench: Bench) -> None:
    bench.cluster.submit_then_cut = 1
    bench.cluster.reachable = True
    bench.cluster.fail("find_token", *[CUT] * 50)
    bench.online()
    bench.session.submit(draft())
    bench.run(5, lambda: only(bench).status is SubmissionStatus.UNKNOWN)
    done = bench.session.cancel(1)
    bench.run(3)
    bench.session.close()
    assert isinstance(done.exception(0), LabError)


# ----------------------------------------------------------------------------- watching


def forgotten(bench: Bench) -> None:
    """The job is over, and neither queue nor accounting knows it."""
    accepted(bench)
    bench.cluster.jobs["100"].in_accounting = False
    bench.cluster.end("100", in_queue=False)


def test_the_controllers_memory_is_a_witness(bench: Bench) -> None:
    forgotten(bench)
    details = JobDetails(job_id="100", state="TIMEOUT", end=1_700_000_500.0, exit_code="0:15")
    bench.cluster.job_details = lambda job_id: details  # type: ignore[method-assign]
    bench.run(400, lambda: only(bench).job.phase is JobPhase.FINISHED)
    job = only(bench).job
    assert (job.evidence, job.slurm_state, job.exit_code) == ("scontrol", "TIMEOUT", "0:15")
    bench.run(200, lambda: bench.session.state.runs[1].outcome is not None)
    assert bench.session.state.runs[1].outcome == "time-limit"


@pytest.mark.parametrize("error", [UNCLEAR, CUT], ids=["no answer", "line lost"])
def test_a_silent_controller_is_no_witness(bench: Bench, error: LabError) -> None:
    forgotten(bench)
    bench.cluster.fail("job_details", *[error] * 3)
    bench.run(500)
    assert bench.cluster.count("job_details") >= 2
    assert only(bench).job.phase is JobPhase.SETTLING
    assert bench.session.state.runs[1].outcome is None


def test_a_job_that_still_lives_by_the_controllers_word_is_not_over(bench: Bench) -> None:
    forgotten(bench)
    running = JobDetails(job_id="100", state="RUNNING")
    bench.cluster.job_details = lambda job_id: running  # type: ignore[method-assign]
    bench.run(500)
    assert only(bench).job.phase is not JobPhase.FINISHED


def test_a_full_disk_of_our_own_stops_mirrors_and_they_go_on(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = accepted(bench)
    bench.cluster.write("100", keras_log(5, 4))

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(mirrors.os, "write", full)
        bench.run(30)
        assert "mirror" in problems(bench)
        assert mirrored(bench, token) == b""
        assert only(bench).job.phase is JobPhase.RUNNING
    bench.run(60, lambda: mirrored(bench, token) == keras_log(5, 4))
    assert problems(bench) == set()


def test_a_fault_in_one_duty_is_shown_until_that_duty_works_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = accepted(bench)

    def fails() -> None:
        raise StoreError("The lab folder's database is busy.", "Is another program reading it?")

    with monkeypatch.context() as patched:
        patched.setattr(bench.worker._log_follower, "step", fails)
        bench.run(10)
        assert "fault" in problems(bench)
    bench.cluster.write("100", keras_log(5))
    bench.run(60, lambda: mirrored(bench, token) == keras_log(5))
    assert problems(bench) == set()


# ----------------------------------------------------------------------------- the line


def test_a_stale_line_that_answers_is_online_again(bench: Bench) -> None:
    bench.online()
    bench.worker._connection.mark_stale(6.0)
    assert bench.session.state.connection.status == "stale"
    assert "6 seconds" in bench.session.state.connection.sentence
    bench.run(30, lambda: bench.session.state.connection.status == "online")


def test_a_setting_that_cannot_work_is_not_tried_again_and_again(bench: Bench) -> None:
    bench.cluster.fail("connect", UsageError("The SSH configuration cannot be read.", "Correct it."))
    bench.run(4000)
    assert bench.cluster.count("connect") == 1
    assert bench.session.state.connection.status == "needs-login"
    bench.session.connect_now()
    bench.run(5, lambda: bench.session.state.connection.status == "online")


@pytest.mark.parametrize("error", [UNCLEAR, CUT], ids=["no answer", "line lost"])
def test_paths_that_could_not_be_looked_at_are_not_called_missing(bench: Bench, error: LabError) -> None:
    bench.online()

    def fails(paths: object) -> dict[str, bool]:
        if isinstance(error, ConnectionLost):
            bench.cluster.connected = False
        raise error

    bench.cluster.present = fails  # type: ignore[method-assign]
    future = bench.worker.look_at(["/gpfs/projects/data"])
    bench.run(10, future.done)
    assert future.exception() is error
    assert bench.session.state.places == {}
    bench.run(60, lambda: bench.session.state.connection.status == "online")


def test_paths_are_not_asked_about_without_a_line(bench: Bench) -> None:
    bench.cluster.reachable = False
    future = bench.worker.look_at(["/gpfs/projects/data"])
    bench.run(10, future.done)
    assert "does not answer" in str(future.exception())
