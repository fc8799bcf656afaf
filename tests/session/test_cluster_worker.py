"""The worker against a scripted cluster: sending once, waiting, polling, coming back."""

import itertools

import pytest

from labtui.domain import errors
from labtui.domain.errors import ConnectionLost, LoginRefused, RemoteFailure, SubmitRefused, UsageError
from labtui.domain.model import JobPhase, JobView, RunPhase, SubmissionStatus
from labtui.domain.state import LabState, SubmissionState
from labtui.session.settings import load_profile
from labtui.session.submitter import SILENT_SENTENCE
from labtui.slurm.job_control import SbatchAnswer
from labtui.slurm.job_evidence import my_jobs
from labtui.slurm.states import early_end_refusal
from labtui.slurm.submit import Lookup
from labtui.tui.format import clock, job_grid
from labtui.tui.view import View
from tests.session.conftest import Bench, accepted, draft, only, submitted
from tests.session.scripted import CUT, LIMIT, ScriptedJob

NOT_YOURS = SubmitRefused("Slurm does not accept this account for you.", "Use your own.")
MOON = SbatchAnswer(key="other", sentence="sbatch failed: The moon is full.", unclear=True)


def test_the_scripts_travel_as_they_were_when_submitted(bench):
    script = bench.session.folder.scripts / "mine.py"
    script.write_text("print('first')\n")
    future = bench.session.submit(draft())
    script.write_text("print('second')\n")
    bench.run(20, future.done)
    assert bench.cluster.contents[f"/home/student/{only(bench).remote_dir}/mine.py"] == b"print('first')\n"


@pytest.mark.parametrize(("fault", "asked"), [
    ("submit_then_cut", ["submit", "find_token"]),
    ("submit_never_arrives", ["submit", "find_token", "submit"]),
])  # fmt: skip
def test_a_lost_answer_is_looked_up_and_what_certainly_did_not_arrive_is_sent_again(bench, fault, asked):
    setattr(bench.cluster, fault, 1)
    bench.settled(bench.session.submit(draft()), 120)
    assert [verb for verb, _ in bench.cluster.calls if verb in ("submit", "find_token")] == asked
    assert list(bench.cluster.jobs) == [only(bench).job.job_id] == ["100"]


def test_a_job_accepted_without_a_number_is_never_sent_again(open_bench):
    """Slurm's words are told; the token, or the job's own word, may still bring its number."""
    first = open_bench()
    first.cluster.accepted_as = "Your job went to the other cluster."
    first.session.submit(draft())
    first.run(300, lambda: "other cluster" in only(first).sentence)
    first.session.close()
    second = open_bench(first.cluster)
    second.online()
    second.run(600)
    assert second.cluster.count("submit") == 1 and only(second).status is SubmissionStatus.UNKNOWN
    assert "went to the other cluster" in only(second).sentence and "not sent again" in only(second).sentence
    second.cluster.started[only(second).token] = "100"
    second.run(120, lambda: only(second).status is SubmissionStatus.ACCEPTED)
    assert only(second).job.job_id == "100"


def test_the_number_of_another_submissions_job_is_no_answer(bench):
    accepted(bench)
    bench.cluster.accepted_as = "100"
    bench.session.submit(draft())
    bench.run(300, lambda: "not sent again" in [*bench.session.state.submissions.values()][-1].sentence)
    first, second = bench.session.state.submissions.values()
    assert (first.job.job_id, second.job, second.status) == ("100", None, SubmissionStatus.UNKNOWN)
    assert bench.cluster.count("submit") == 2 and "new job number: 100" in second.sentence


def test_a_job_without_a_number_that_is_gone_frees_its_queue(bench):
    """Three complete answers without it over more than five minutes; it is never sent again."""
    bench.cluster.accepted_as = "Your job went to the other cluster."
    bench.session.submit(draft(qos="acc_debug"))
    bench.run(60, lambda: "other cluster" in only(bench).sentence)
    bench.cluster.queue_is_empty = True
    bench.run(280)
    assert only(bench).status is SubmissionStatus.UNKNOWN
    bench.run(200, lambda: only(bench).status is SubmissionStatus.WITHDRAWN)
    assert bench.cluster.count("submit") == 1 and "queue does not show it" in only(bench).sentence
    bench.cluster.accepted_as = None
    bench.run(20, bench.session.submit(draft(qos="acc_debug")).done)


@pytest.mark.parametrize(("answer", "look", "job_id", "then"), [
    (RemoteFailure(MOON.sentence), Lookup(refusal=MOON, no_job_at=1.0), None, SubmissionStatus.ACCEPTED),
    (NOT_YOURS, Lookup(problem="squeue failed."), None, SubmissionStatus.REFUSED),
    (NOT_YOURS, Lookup(problem="squeue failed."), "100", SubmissionStatus.ACCEPTED),  # taken and refused, both
    (LIMIT, Lookup(problem="squeue failed."), "100", SubmissionStatus.ACCEPTED),
    (LIMIT, Lookup(problem="squeue failed."), None, SubmissionStatus.WAITING),
])  # fmt: skip
def test_what_slurm_said_stays_while_its_job_is_looked_for(bench, monkeypatch, answer, look, job_id, then):
    bench.cluster.fail("submit", answer)
    monkeypatch.setattr(bench.cluster, "find_token", lambda *_: look)
    bench.session.submit(draft())
    bench.run(60)
    said = (SubmissionStatus.UNKNOWN, f"{answer.sentence} {look.problem or SILENT_SENTENCE}")
    assert (only(bench).status, only(bench).sentence) == said
    monkeypatch.setattr(bench.cluster, "find_token", lambda *_: Lookup(job_id, certain=True))
    bench.run(100, lambda: only(bench).status is then)


def test_a_process_that_died_while_sending_goes_on_where_it_was(open_bench):
    first = open_bench()
    first.online()
    first.cluster.fail("submit", KeyboardInterrupt())  # stands for a kill: nothing after the stored "sending"
    first.session.submit(draft())
    with pytest.raises(KeyboardInterrupt):
        first.run(30)
    first.session.close()
    second = open_bench(first.cluster)
    assert only(second).status is SubmissionStatus.UNKNOWN
    second.run(60, lambda: only(second).status is SubmissionStatus.ACCEPTED)
    assert len(second.cluster.jobs) == 1


def test_a_queue_for_one_job_is_not_asked_while_ours_is_in_it(bench):
    bench.cluster.one_job_per_user = True
    futures = [bench.session.submit(draft(n, qos="acc_debug")) for n in (1, 2, 4)]
    for number in range(3):
        job_id = str(100 + number)
        bench.run(120, lambda job_id=job_id: job_id in bench.cluster.jobs)
        bench.run(30)
        assert len(bench.cluster.jobs) == number + 1
        bench.cluster.start(job_id)
        bench.run(40)
        bench.cluster.end(job_id)
    bench.run(60, lambda: all(future.done() for future in futures))
    assert bench.cluster.count("submit") == 3 and bench.session.state.problems == ()


def test_a_wait_refusal_keeps_the_run_in_line(bench):
    """Another program's job holds the slot: Slurm says "wait", the student sees a reason, no error."""
    bench.cluster.one_job_per_user = True
    bench.cluster.jobs["7"] = ScriptedJob("7", "somebody", "other", "/elsewhere", state="RUNNING")
    future = bench.session.submit(draft(qos="acc_training"))
    bench.run(40)
    assert only(bench).status is SubmissionStatus.WAITING and bench.session.state.problems == ()
    assert "accepts no further job" in only(bench).sentence
    assert bench.session.state.runs[1].phase is RunPhase.WAITING
    bench.cluster.end("7")
    bench.run(120, future.done)
    assert only(bench).status is SubmissionStatus.ACCEPTED


@pytest.mark.parametrize("silent", [False, True])
def test_a_plain_refusal_ends_the_submission_with_its_reason(bench, silent):
    bench.cluster.fail("submit", NOT_YOURS)
    bench.cluster.fail("find_token", *[RemoteFailure("The controller is busy.")] * silent)
    bench.online()
    told, keep, change = [], bench.session._journal, bench.session._journal.change
    keep.change = lambda *of: (change(*of), told.append(only(bench).sentence))[0]
    future = bench.settled(bench.session.submit(draft()), 20)
    assert any("Refused: " in each and "checks once whether" in each for each in told)
    assert any("The controller is busy." in each for each in told) is silent
    assert isinstance(future.exception(), SubmitRefused)
    assert (only(bench).status, only(bench).sentence) == (SubmissionStatus.REFUSED, NOT_YOURS.sentence)
    assert bench.session.state.runs[1].phase is RunPhase.FAILED


def test_a_job_that_the_queue_shows_as_another_is_looked_up_again(bench):
    """sbatch's wrapper printed a number, and not that of the job. Each of the two can be cancelled."""
    bench.cluster.jobs["77"] = ScriptedJob("77", "", "by-hand", "/home/student", state="RUNNING")
    bench.cluster.accepted_as = "77"
    assert submitted(bench)
    bench.cluster.accepted_as = None
    bench.run(80, lambda: len(bench.session.my_jobs()) == 2 and only(bench).job.job_id != "77")
    ours, other = bench.session.my_jobs()
    assert (other.job_id, other.name, other.phase, other.run_ids) == ("77", "by-hand", JobPhase.RUNNING, ())
    list(map(bench.settled, (bench.session.cancel(1), bench.session.cancel_job("77"))))
    assert calls_of(bench, "cancel") == [ours.job_id, "77"]


def test_a_job_whose_id_another_one_has_is_gone_and_not_queued(bench):
    token = submitted(bench)
    bench.cluster.started[token] = "100"
    bench.cluster.jobs["100"] = ScriptedJob("100", "", "by-hand", "/home/student", state="RUNNING")
    bench.run(600, lambda: only(bench).job is not None and only(bench).job.evidence == "gone")
    bench.run(60)
    assert (bench.cluster.count("find_token"), only(bench).job.phase) == (1, JobPhase.SETTLING)
    jobs = [(job.job_id, job.name, job.run_ids) for job in bench.session.my_jobs()]
    assert jobs == [("100", only(bench).job_name, (1,)), ("100", "by-hand", ())]


@pytest.mark.parametrize("refusal", [
    LoginRefused("No."), errors.HostKeyProblem("The key changed."), UsageError("Not readable.", "Mend it."),
])  # fmt: skip
def test_a_refused_login_is_never_tried_again_by_itself(bench, refusal):
    bench.cluster.fail("connect", refusal)
    bench.run(4000)
    assert (bench.cluster.count("connect"), bench.session.state.connection.status) == (1, "needs-login")
    bench.session.refresh()
    bench.run(5, lambda: bench.session.state.connection.status == "online")
    assert bench.cluster.count("connect") == 2


def test_attempts_keep_their_distance_and_are_soon_enough_and_not_shown_unless_asked_for(bench):
    bench.cluster.reachable, times, said, connect = False, [], [], bench.cluster.connect
    told = lambda: said.append(bench.session.state.connection.status)  # noqa: E731
    bench.cluster.connect = lambda: (told(), times.append(bench.clock.now), connect())
    bench.run(400)
    assert said[0] == "connecting" and {*said[1:]} == {"offline"}
    assert "does not answer" in str(bench.settled(bench.session.test_only(draft())).exception())
    assert max(later - earlier for earlier, later in itertools.pairwise(times)) <= 31
    for _ in range(300):
        bench.session.refresh()
        bench.run(1)
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert min(gaps[1:]) >= 20
    bench.cluster.reachable = True
    bench.session.refresh()
    bench.run(30, lambda: bench.session.state.connection.status == "online")
    assert said[-1] == "connecting", "asked for by a key"


def test_cancel_in_every_state(bench):
    bench.cluster.one_job_per_user = True
    running = bench.session.submit(draft(qos="acc_debug"))
    waiting = bench.session.submit(draft(2, qos="acc_debug"))
    bench.run(20, running.done)
    bench.settled(bench.session.cancel(2))
    assert bench.session.state.runs[2].phase is RunPhase.CANCELLED
    assert isinstance(waiting.exception(0), SubmitRefused)
    bench.cluster.start("100")
    bench.settled(bench.session.cancel(1))
    assert bench.cluster.jobs["100"].state == "CANCELLED"
    bench.run(120, lambda: bench.session.state.runs[1].outcome is not None)
    assert bench.session.state.runs[1].phase is RunPhase.CANCELLED
    assert bench.settled(bench.session.cancel(1)).exception() is None and bench.cluster.count("cancel") == 1


def test_ones_own_limit_in_every_state(bench):
    bench.cluster.one_job_per_user = True
    running = bench.session.submit(draft(qos="acc_debug"))
    bench.session.submit(draft(2, qos="acc_debug"))
    bench.run(20, running.done)
    assert bench.settled(bench.session.end_after(2, 3)).exception() is None
    assert bench.cluster.count("end_after") == 0, "there is no job yet"
    bench.settled(bench.session.end_after(1, 40))  # Slurm decides whether a job that waits gets more
    bench.cluster.start("100")
    bench.run(60, lambda: bench.session.state.runs[1].phase is RunPhase.STARTING)
    bench.settled(bench.session.end_after(1, 4))
    assert calls_of(bench, "end_after") == [("100", 40), ("100", 4)]
    assert [item.options[-1] for item in bench.session.state.submissions.values()] == ["--time=4", "--time=3"]
    bench.cluster.end("100", "TIMEOUT")
    bench.run(120, lambda: bench.cluster.options.get("101") is not None)
    assert bench.cluster.options == {"100": (), "101": ("--time=3",)}
    assert "over" in str(bench.settled(bench.session.end_after(1, 4), 2).exception())


def test_ones_own_limit_that_slurm_refuses_or_never_hears_is_not_kept(bench):
    submitted(bench)
    bench.cluster.fail("end_after", RemoteFailure("No.", "Never."))
    assert isinstance(bench.settled(bench.session.end_after(1, 4)).exception(), RemoteFailure)
    bench.cluster.fail("cancel", CUT)
    lost = bench.settled(bench.session.cancel(1)).exception()
    assert isinstance(lost, ConnectionLost) and "not known whether run 1 was cancelled" in str(lost)
    bench.cluster.reachable = bench.cluster.connected = False
    bench.run(30, lambda: bench.session.state.connection.status == "offline")
    for unheard in (bench.session.end_after(1, 4), bench.session.cancel(1)):
        bench.run(2, unheard.done)
        assert isinstance(unheard.exception(), ConnectionLost) and "was not" in str(unheard.exception())
    assert only(bench).options == () and not only(bench).cancelling


@pytest.mark.parametrize("status", [SubmissionStatus.ACCEPTED, SubmissionStatus.UNKNOWN])
def test_a_cancellation_is_stored_before_slurm_is_asked_and_asked_by_the_next_process(open_bench, status):
    first = open_bench()
    lost = first.cluster.submit_then_cut = status is SubmissionStatus.UNKNOWN
    first.online()
    first.session.submit(draft())
    first.run(9, lambda: only(first).status is status)
    first.session.cancel(1)
    for _ in range(lost):
        first.worker.turn()
    assert only(first).cancelling and not first.cluster.count("cancel")
    first.session._worker = first.worker if lost else None  # killed: nobody tells those who wait
    first.session.close()
    second = open_bench(first.cluster)
    second.run(30, lambda: second.cluster.jobs["100"].state == "CANCELLED")
    assert only(second).cancelling and View.of(second.session).runs[1].word in ("cancelling", "cancelled")


def test_what_was_seen_before_a_connection_says_its_age_until_the_queue_was_read(bench):
    submitted(bench)
    bench.cluster.start("100")
    bench.run(60, lambda: View.of(bench.session).runs[1].word == "starting")
    bench.cluster.reachable = bench.cluster.connected = False
    asked = bench.clock.wall()
    bench.run(30, lambda: bench.session.state.connection.status == "offline")
    lost = bench.session.state.connection.since
    assert asked <= lost <= bench.clock.wall()
    bench.run(60)
    assert bench.session.state.connection.since == lost, "the attempts meanwhile are no new loss"
    bench.cluster.reachable = True
    bench.run(90, lambda: bench.session.state.connection.status == "online")
    assert View.of(bench.session).runs[1].word == "starting", "as last known until the first answer"
    read = bench.session.state.refreshed_at
    later = View.of(bench.session, now=bench.clock.wall() + 30).runs[1]
    assert later.word == f"unknown since {clock(read)}", "none came"
    assert bench.session._store.load().refreshed_at == read, "a new start knows it"
    bench.run(90, lambda: View.of(bench.session).runs[1].word == "starting")


@pytest.mark.parametrize(("minutes", "changes", "refusal_text"), [
    *((0, {}, "not a useful limit"), (500, {}, "The job's limit is 30 min")),
    (20, {"time_limit_s": 600.0}, "The job's limit is 10 min"),
    *((5, {"elapsed_s": 400.0}, "already been running for 7 min"), (8, {"elapsed_s": 400.0}, "")),
    (5, {"elapsed_s": 3.0, "start_time": 1000.0}, "already been running for 7 min"),
])  # fmt: skip
def test_limits_that_make_no_sense_are_said_beforehand(minutes, changes, refusal_text):
    submission = SubmissionState(
        token="lt1", task_id="6", form="one-gpu", job_name="x", run_ids=(1,), planned_at=0.0,
        status=SubmissionStatus.ACCEPTED, time_limit_minutes=30,
        job=JobView(job_id="1", phase=JobPhase.RUNNING, **changes),  # type: ignore[arg-type]
    )  # fmt: skip
    refusal = early_end_refusal(submission, minutes, 1400.0)
    assert (refusal_text in refusal.sentence and refusal.hint) if refusal else not refusal_text


def calls_of(bench: Bench, verb: str) -> list[object]:
    return [argument for name, argument in bench.cluster.calls if name == verb]


def test_how_long_a_job_lasts_is_by_the_clusters_clock_whatever_ours_says():
    waits = JobView(job_id="7", name="mine", phase=JobPhase.QUEUED, submit_time=9e3, reason="JobHeldUser")
    times = {"phase": JobPhase.RUNNING, "submit_time": 9_000.0, "start_time": 9_900.0}
    runs = JobView(job_id="8", name="mine", comment="labtui:0123456789abcdef0123", **times)
    profile, read = load_profile("mn5"), LabState(other_jobs=(waits, runs), cluster_time=1e4)
    assert [(job.lasted_s, job.since) for job in my_jobs(read, profile)] == [(1e3, 9_000.0), (100.0, 9_900.0)]
    assert [row[6] for row in job_grid(my_jobs(read, profile))[1:]] == ["not labtui's", "another folder's"]
    assert "`scontrol release 7` lets it go on" in job_grid(my_jobs(read, profile))[1][7]
    assert [job.lasted_s for job in my_jobs(LabState(other_jobs=(waits, runs)), profile)] == [None, None]


def test_a_held_submission_is_not_sent_until_it_is_released(bench):
    future = bench.session.submit(draft())
    bench.online()
    for sends in (True, False):  # `labtui queue` opens a folder without sending
        bench.session.hold(1, held=sends)
        bench.worker._context.sends = sends
        bench.run(60)
        assert only(bench).held is sends and only(bench).status is SubmissionStatus.WAITING
    assert calls_of(bench, "submit") == []
    bench.worker._context.sends = True
    bench.run(20, future.done)
    assert only(bench).status is SubmissionStatus.ACCEPTED


def test_a_queued_job_is_held_and_released_by_slurm_if_it_agrees(bench):
    submitted(bench, form="one-job", runs=draft().runs * 2)
    bench.cluster.faults["hold"] = [RemoteFailure("Job 100 was not held.")]
    assert bench.settled(bench.session.hold(1)).exception().sentence and not only(bench).held
    for held in (True, False, True):
        done = bench.settled(bench.session.hold(1, held=held))
        assert done.exception() is None and only(bench).held is held
    assert calls_of(bench, "hold") == ["100"] * 3 and calls_of(bench, "release") == ["100"]
    for reason, held in (("JobHeldUser", True), ("Priority", False), ("JobHeldUser", True)):  # by scontrol
        bench.cluster.jobs["100"].reason = reason
        bench.run(60)
        assert only(bench).held is held
    assert bench.settled(bench.session.hold(1, held=False)).exception() is None and not only(bench).job.reason
    bench.cluster.faults["hold"] = [RemoteFailure("It is already running.", reason="running")]
    polls, late = bench.cluster.count("tick"), bench.settled(bench.session.hold(1))
    assert isinstance(late.exception(), RemoteFailure) and bench.cluster.count("tick") == polls
    assert only(bench).job.phase is JobPhase.RUNNING and not only(bench).held, "the answer says so"
    assert "Run 2 is in one job with run 1, and" in str(bench.settled(bench.session.hold(2)).exception())
