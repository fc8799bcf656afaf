"""Failures of the worker that no other test makes, made exactly by a scripted cluster."""

from __future__ import annotations

import pytest

from labtui.domain.errors import ConnectionLost, LabError, RemoteFailure
from labtui.domain.model import JobPhase, JobView, SubmissionStatus
from labtui.slurm.queue import job_row
from tests.session.conftest import Bench, accepted, bench, draft, lab_path, only, open_bench

__all__ = ["bench", "lab_path", "open_bench"]  # fixtures

CUT = ConnectionLost("The connection is gone.")
UNCLEAR = RemoteFailure("The login shell ended before the command.", "Look at .bashrc.")


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
    bench.cluster.fail("find_token", *[CUT] * 50)
    bench.online()
    bench.session.submit(draft())
    bench.run(5, lambda: only(bench).status is SubmissionStatus.UNKNOWN)
    done = bench.session.cancel(1)
    bench.run(3)
    bench.session.close()
    assert isinstance(done.exception(0), LabError)


ENDED = job_row("100", "TIMEOUT", end=1_700_000_500.0, exit_code="0:15")


@pytest.mark.parametrize(
    ("answer", "phase", "outcome"),
    [
        (ENDED, JobPhase.FINISHED, "time-limit"),
        (job_row("100", "RUNNING"), JobPhase.SETTLING, None),
        (UNCLEAR, JobPhase.SETTLING, None),
        (CUT, JobPhase.SETTLING, None),
    ],
    ids=["ended", "lives", "no answer", "line lost"],
)
def test_what_the_controller_says_of_a_job_that_queue_and_accounting_forgot(
    bench: Bench, answer: JobView | LabError, phase: JobPhase, outcome: str | None
) -> None:
    accepted(bench)
    bench.cluster.jobs["100"].in_accounting = False
    bench.cluster.end("100", in_queue=False)
    if isinstance(answer, LabError):
        bench.cluster.fail("job_details", *[answer] * 3)
    else:
        bench.cluster.job_details = lambda job_id: answer  # type: ignore[method-assign]
    bench.run(600)
    assert only(bench).job.phase is phase
    assert bench.session.state.runs[1].outcome == outcome


def test_a_stale_line_that_answers_is_online_again(bench: Bench) -> None:
    bench.online()
    bench.worker._connection.mark_stale(6.0)
    assert bench.session.state.connection.status == "stale"
    assert "6 seconds" in bench.session.state.connection.sentence
    bench.run(30, lambda: bench.session.state.connection.status == "online")


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
