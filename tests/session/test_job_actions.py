"""Holding, releasing, another limit, and the jobs that other programs sent: stored, shown, asked of Slurm once."""

from labtui.domain.errors import RemoteFailure, UsageError
from labtui.domain.model import JobPhase, JobView, SubmissionStatus
from labtui.domain.state import LabState
from labtui.session.settings import load_profile
from labtui.slurm.job_evidence import my_jobs
from tests.session.conftest import Bench, draft, only, submitted
from tests.session.scripted import ScriptedJob


def calls_of(bench: Bench, verb: str) -> list[object]:
    return [argument for name, argument in bench.cluster.calls if name == verb]


def test_a_job_of_another_program_is_seen_and_holds_the_slot(bench):
    bench.cluster.jobs["77"] = ScriptedJob("77", "", "by-hand", "/home/me", state="RUNNING")
    bench.online()
    bench.run(20, lambda: bool(bench.session.state.other_jobs))
    (job,) = bench.session.my_jobs()
    assert (job.job_id, job.name, job.phase, job.run_ids) == ("77", "by-hand", JobPhase.RUNNING, ())
    bench.session.cancel_job("77")
    bench.run(130, lambda: not bench.session.state.other_jobs)
    assert calls_of(bench, "cancel") == ["77"]


def test_how_long_a_job_lasts_is_by_the_clusters_clock_whatever_ours_says():
    waits = JobView(job_id="7", name="by-hand", phase=JobPhase.QUEUED, submit_time=9_000.0)
    runs = JobView(job_id="8", name="mine", phase=JobPhase.RUNNING, submit_time=9_000.0, start_time=9_900.0)
    profile = load_profile("mn5")
    read = LabState(other_jobs=(waits, runs), refreshed_at=5.0, cluster_time=10_000.0)
    assert [job.lasted_s for job in my_jobs(read, profile)] == [1_000.0, 100.0]
    assert [job.since for job in my_jobs(read, profile)] == [9_000.0, 9_900.0]
    unread = LabState(other_jobs=(waits, runs), refreshed_at=5.0)
    assert [job.lasted_s for job in my_jobs(unread, profile)] == [None, None]


def test_a_held_submission_is_not_sent_until_it_is_released(bench):
    future = bench.session.submit(draft())
    bench.session.hold(1)
    bench.online()
    bench.run(60)
    assert only(bench).held and only(bench).status is SubmissionStatus.WAITING
    assert calls_of(bench, "submit") == []
    bench.session.hold(1, held=False)
    bench.run(20, future.done)
    assert only(bench).status is SubmissionStatus.ACCEPTED


def test_a_queued_job_is_held_and_released_by_slurm_if_it_agrees(bench):
    submitted(bench)
    bench.cluster.faults["hold"] = [RemoteFailure("Job 100 was not held.")]
    refused = bench.session.hold(1)
    bench.run(5, refused.done)
    assert isinstance(refused.exception(), RemoteFailure) and not only(bench).held
    for held in (True, False):
        done = bench.session.hold(1, held=held)
        bench.run(5, done.done)
        assert done.exception() is None and only(bench).held is held
    assert calls_of(bench, "hold") == ["100", "100"] and calls_of(bench, "release") == ["100"]
    bench.cluster.start("100")
    bench.run(40, lambda: only(bench).job.phase is JobPhase.RUNNING)
    late = bench.session.hold(1)
    bench.run(5, late.done)
    assert isinstance(late.exception(), UsageError)
