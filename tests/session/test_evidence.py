"""The worker's word on jobs: only what evidence shows, asked for seldom, healed by itself; also of twins."""

from unittest.mock import Mock

import pytest
from msgspec.structs import replace

from labtui.domain.errors import RemoteFailure, StoreError
from labtui.domain.model import JobPhase, RunPhase, SubmissionStatus
from labtui.slurm.submit import DUPLICATE_STATUS
from tests.session.conftest import accepted, draft, only
from tests.session.scripted import keras_log


def test_what_slurm_takes_or_shows_after_a_silence_ends_unknown_soon(bench):
    accepted(bench)
    bench.cluster.queue_down = True
    bench.run(400)
    bench.cluster.queue_down = False
    bench.settled(bench.session.submit(draft(2)), 5)
    bench.run(8, lambda: bench.session.state.runs[1].phase is not RunPhase.UNKNOWN)
    bench.cluster.submit_then_cut, silent = 1, RemoteFailure("The controller is busy.")
    bench.cluster.fail("find_token", *[silent] * 7)
    bench.session.submit(draft(4))
    bench.run(200, lambda: bench.cluster.count("find_token") == 7)
    assert bench.session.state.runs[3].phase is RunPhase.UNKNOWN and bench.cluster.count("submit") == 3
    bench.session.refresh()
    bench.run(20, lambda: all(item.job is not None for item in bench.session.state.submissions.values()))


def test_a_job_gone_from_the_queue_settles_until_accounting_speaks(bench):
    accepted(bench)
    bench.cluster.accounting_down = True
    bench.cluster.end("100", in_queue=False)
    bench.run(50)
    assert only(bench).job.phase is JobPhase.SETTLING
    assert any(problem.key == "accounting" for problem in bench.session.state.problems)
    bench.cluster.accounting_down = False
    bench.run(200, lambda: only(bench).job.phase is JobPhase.FINISHED)
    assert only(bench).job.evidence == "sacct" and bench.session.state.problems == ()


@pytest.mark.parametrize(("log", "phase", "outcome"), [
    (b"", JobPhase.UNKNOWN, None), (keras_log(5, 4, 4, 4, 4), JobPhase.FINISHED, "completed"),
])  # fmt: skip
def test_a_job_nobody_remembers_is_unknown_unless_its_log_shows_its_end(bench, log, phase, outcome):
    accepted(bench)
    bench.cluster.jobs["100"].in_accounting = False
    bench.cluster.write("100", log)
    bench.cluster.end("100", in_queue=False)
    bench.run(1500, lambda: only(bench).job.phase is phase)
    assert (only(bench).job.phase, bench.session.state.runs[1].outcome) == (phase, outcome)


def test_an_unexpected_exception_is_written_down_and_the_lane_lives_on(bench):
    accepted(bench)
    bench.cluster.fail("tick", ZeroDivisionError("surprise"))
    bench.run(60, lambda: any(problem.key == "fault" for problem in bench.session.state.problems))
    assert "surprise" in bench.session.folder.problem_log.read_text()
    bench.cluster.write("100", keras_log(5, 4))
    bench.run(60, lambda: len(bench.session.state.runs[1].epochs) == 2)


def test_an_error_after_an_answer_is_a_problem_of_that_duty(bench, monkeypatch):
    bench.cluster.submit_never_arrives = 1
    bench.session.submit(draft())
    bench.run(9, lambda: only(bench).status is SubmissionStatus.UNKNOWN)
    monkeypatch.setattr(bench.session._store, "snapshot", Mock(side_effect=StoreError("A file is damaged.")))
    bench.run(30, lambda: [each.key for each in bench.session.state.problems] == ["fault:submit"])


def test_a_job_taken_while_the_queue_was_being_asked_is_not_taken_for_gone(bench):
    """The answer is older than the job: it says nothing about it."""
    accepted(bench)
    answers = []
    aside = bench.worker._context.ask_aside
    bench.worker._context.ask_aside = lambda work, done: answers.append((work(), done))
    bench.session.refresh()
    bench.run(30, lambda: bool(answers))
    bench.worker._context.ask_aside = aside
    future = bench.settled(bench.session.submit(draft(2)), 10)
    tick, done = answers.pop()
    done(lambda: tick)
    assert bench.session.state.submissions[future.result()].job.phase is JobPhase.QUEUED
    assert bench.session.state.submissions[future.result()].job.evidence == "sbatch"


@pytest.mark.parametrize("accounting", [True, False])
def test_a_job_that_ended_as_a_twin_gives_way_to_the_one_that_trains(bench, accounting):
    token = accepted(bench)
    twin = bench.cluster.twin("100", "RUNNING")
    bench.cluster.started[token] = twin
    ended = {"state": "FAILED", "in_queue": not accounting, "exit_code": f"{DUPLICATE_STATUS}:0"}
    bench.cluster.jobs["100"] = replace(bench.cluster.jobs["100"], **ended)
    bench.run(120, lambda: only(bench).job.job_id == twin)
    assert bench.session.state.runs[1].outcome is None
    bench.run(60, lambda: only(bench).job.phase is JobPhase.RUNNING)


def test_jobs_that_begin_without_a_word_are_seen_at_once_also_many_in_a_minute(bench):
    bench.online()
    bench.run(60)
    for number in range(100, 106):
        token = bench.settled(bench.session.submit(draft()), 90).result()
        bench.run(4)
        bench.cluster.start(str(number))
        bench.cluster.write(str(number), b"")  # Slurm makes the file
        bench.run(13, lambda of=token: bench.session.state.submissions[of].job.phase is JobPhase.RUNNING)
    bench.cluster.write("105", b"slurmstepd: error: *** JOB 105 ON n1 CANCELLED AT 2026-11-29T13:16:57 ***\n")
    bench.cluster.end("105", "CANCELLED")
    bench.run(13, lambda: bench.session.state.submissions[token].job.phase is JobPhase.FINISHED)


def test_an_error_in_the_log_brings_the_end_soon_and_nothing_is_asked_after_it(bench):
    accepted(bench)
    bench.run(95)
    line = b"slurmstepd: error: *** JOB 100 ON a CANCELLED DUE TO TIME LIMIT ***\n"
    bench.cluster.write("100", line, "err")
    bench.cluster.end("100", "TIMEOUT")
    bench.run(9, lambda: only(bench).job.phase is JobPhase.FINISHED)
    bench.run(600)
    asked = len(bench.cluster.calls)
    bench.run(3600)
    assert {verb for verb, _ in bench.cluster.calls[asked:]} == {"ping"}
