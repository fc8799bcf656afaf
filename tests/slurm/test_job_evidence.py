"""When the queue is read, and what its answers are evidence of."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from labtui.domain.model import JobPhase, JobView, RunPhase, SubmissionStatus
from labtui.slurm import queue
from labtui.slurm.job_evidence import differs, observe, other_jobs, view_if_unanswered
from labtui.slurm.queue import POLLS_PER_MINUTE, QueueAnswer, job_row, next_poll_at, poll_delay
from labtui.slurm.states import FINISHED, end_reason, reason_words
from tests import changes
from tests.changes import after, seen
from tests.slurm.test_submission_queue import planned, status

_phases = st.lists(st.sampled_from([JobPhase.QUEUED, JobPhase.RUNNING, JobPhase.SETTLING]), max_size=27)


@given(_phases, st.floats(0, 1e5), st.integers(0, 20), st.floats(0, 60))
def test_asking_slows_down_when_nothing_moves_and_when_it_fails(phases, since, failures, took):
    delay = poll_delay(phases, since_change_s=since, failures=failures, last_took_s=took)
    if not phases:
        assert delay is None
        return
    assert delay is not None and 4 <= delay <= 180
    later = poll_delay(phases, since_change_s=since + 100, failures=failures)
    worse = poll_delay(phases, since_change_s=since, failures=failures + 1)
    assert later is not None and worse is not None and (worse >= 10 or since < 8)


def test_a_job_of_another_submission_with_our_jobs_id_is_not_ours():
    state = after(planned(1, "many"), status(1, SubmissionStatus.ACCEPTED, "7"))
    row = JobView(job_id="7", phase=JobPhase.FINISHED, slurm_state="COMPLETED", comment="labtui:t2")
    assert observe(state, QueueAnswer(jobs=(row,), accounting=(row,)), 5.0)["t1"].phase is JobPhase.SETTLING
    views = observe(state, QueueAnswer(jobs=(replace(row, comment="labtui:t1"),)), 5.0)
    again, ended = replace(row, phase=JobPhase.RUNNING, comment=""), after(seen(views), state=state)
    assert ended.submissions["t1"].over and other_jobs(ended, [again]) == (again,), "the id is another's now"
    runs, ours = replace(again, name="by-hand", work_dir="/home/me"), replace(row, comment="labtui:t1")
    assert other_jobs(state, [runs, replace(ours, phase=JobPhase.RUNNING)]) == (runs,)
    for jobs, over in (((runs,), (again,)), ((runs,), (ours, again)), ((), (ours, again))):
        view = observe(state, QueueAnswer(jobs=jobs, accounting=over), 5.0)["t1"]  # sacct tells no directory
        assert view.phase is (JobPhase.FINISHED if ours in over else JobPhase.SETTLING)


def test_a_job_that_only_the_queue_lacks_has_not_ended():
    state, row = after(planned(1, "many"), status(1, SubmissionStatus.ACCEPTED, "7")), {"job_id": "7"}
    runs = job_row(row | {"state": "RUNNING"}, evidence="sacct")
    for at, phase in ((5.0, JobPhase.RUNNING), (30.0, JobPhase.UNKNOWN)):
        views = observe(state, QueueAnswer(jobs=(), accounting=(runs,)), at)
        state = after(seen(views), state=state)
        assert (views["t1"].phase, views["t1"].unknown_since, views["t1"].evidence) == (phase, 5.0, "gone")


@given(st.lists(st.floats(0, 30), max_size=60), st.booleans(), st.sampled_from([POLLS_PER_MINUTE, 20]))
def test_never_more_polls_in_a_minute_than_allowed(waits, pressed, limit):
    now, spent, polls = 0.0, 0.0, [0.0]  # their sums are rounded
    for wait in waits:
        due = next_poll_at(polls[-1], spent, 4.0, requested=pressed, limit=limit)
        assert due <= polls[-1] + max(4.0, 60 / limit) + 0.01, "no long gap after many"
        now = max(now + wait, due)
        spent = queue.spent_until(spent, now, limit)
        polls.append(now)
    most = 6 if limit == POLLS_PER_MINUTE else limit + queue.SPARE_POLLS
    assert all(sum(0 <= at - begin < 60 - 1e-6 for at in polls[1:]) <= most for begin in polls)


_LIVE = ("PENDING", "RUNNING", "COMPLETING", "SUSPENDED", "REQUEUED", "NEW_WORD_OF_2031")
_words = st.sampled_from([*FINISHED, *_LIVE])
_ticks = st.one_of(
    st.just(QueueAnswer(jobs=None, accounting=None, problem="squeue failed")),
    st.just(QueueAnswer(jobs=())),
    st.just(QueueAnswer(jobs=(), accounting=None, accounting_problem="sacct failed")),
    st.builds(lambda word: QueueAnswer(jobs=(job_row({"job_id": "7", "state": word}),)), _words),
)


@given(st.lists(_ticks, max_size=12), st.lists(st.floats(0.1, 900), min_size=12, max_size=12))
def test_finished_only_on_slurms_own_word(ticks, waits):
    lab, now = after(planned(1, "one"), status(1, SubmissionStatus.ACCEPTED, "7")), 100.0
    for tick, wait in zip(ticks, waits, strict=False):
        now += wait
        lab = after(seen(observe(lab, tick, now)), state=lab)
        job = lab.submissions["t1"].job
        assert job is not None
        states = {row.slurm_state for row in tick.jobs or ()}
        if job.phase is JobPhase.FINISHED:
            assert states & set(FINISHED)
            return
        if tick.jobs is None:
            assert job.unknown_since is not None
        if states:
            assert job.unknown_since is None
            assert job.seen_at == now or not differs(job, job)


def test_what_was_known_stays_beside_unknown_since():
    running = JobView(job_id="7", phase=JobPhase.RUNNING, slurm_state="RUNNING", node="n1", seen_at=50.0)
    first = view_if_unanswered(running, 100.0)
    assert (first.phase, first.unknown_since, first.node) == (JobPhase.RUNNING, 100.0, "n1")
    later = view_if_unanswered(first, 200.0)
    assert (later.phase, later.unknown_since, later.slurm_state) == (JobPhase.UNKNOWN, 100.0, "RUNNING")
    assert view_if_unanswered(first, 50.0).unknown_since == 50.0, "the clock was set back"


def test_the_clock_counts_to_the_limit_and_slurm_beyond():
    job = JobView(job_id="7", phase=JobPhase.RUNNING, start_time=100.0, time_limit_s=60.0, elapsed_s=50.0)
    for elapsed_s, now, ran_s in ((50.0, 158.0, 58), (50.0, 999.0, 60), (84.0, 999.0, 84)):
        assert replace(job, elapsed_s=elapsed_s).ran_s(now) == ran_s


def test_the_expected_start_is_on_the_clusters_clock_as_all_times_of_a_job():
    lab = after(planned(1, "one"), status(1, SubmissionStatus.ACCEPTED, "7"))
    told = {"job_id": "7", "state": "PENDING", "start": "9600"}
    assert job_row(told | {"reason": "JobHeldUser"}).start_estimate is None
    row = job_row(told)
    lab = after(seen(observe(lab, QueueAnswer(jobs=(row,), server_time=9_000.0), 10.0)), state=lab)
    assert lab.submissions["t1"].job.start_estimate == 9_600.0


@pytest.mark.parametrize(("state", "reason", "told"), [
    *(("CANCELLED", each, "") for each in ("Priority", "Resources", "JobHeldUser", "None", "AssocGrpGRES")),
    *(("RUNNING", "Priority", ""), ("FAILED", "BadConstraints", "No node can ever give what it asks for.")),
    ("FAILED", "RaisedSignal:53(Real-time signal 19)", "Its script was ended by a signal."),
])  # fmt: skip
def test_a_job_that_is_over_is_explained_only_by_a_reason_that_ended_it(state, reason, told):
    job = job_row({"job_id": "7", "state": state, "reason": reason})
    assert (end_reason(job), reason_words(job.phase, job.reason)) == (told, told)


def test_a_restart_that_nobody_saw_is_known_when_the_queue_speaks_again():
    """It ran, then nothing was known for long, and now it waits: its old start says that it ran before."""
    lab = after(planned(1, "one"), status(1, SubmissionStatus.ACCEPTED, "7"))
    running = job_row({"job_id": "7", "state": "RUNNING", "start": "5"})
    lab = after(seen(observe(lab, QueueAnswer(jobs=(running,)), 10.0)), state=lab)
    silent = QueueAnswer(jobs=None, accounting=None, problem="squeue failed")
    for moment in (20.0, 4000.0):
        lab = after(seen(observe(lab, silent, moment)), state=lab)
    assert lab.submissions["t1"].job.phase is JobPhase.UNKNOWN
    for moment in (4010.0, 4020.0):
        waiting = job_row({"job_id": "7", "state": "PENDING"})
        lab = after(seen(observe(lab, QueueAnswer(jobs=(waiting,)), moment)), state=lab)
    job = lab.submissions["t1"].job
    assert (job.start_time, job.phase, job.since) == (5.0, JobPhase.QUEUED, None)
    begun = after(changes.started(1), state=lab).runs[1]
    assert begun.phase is RunPhase.QUEUED, "what its log has is of the time before"
