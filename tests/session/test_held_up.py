"""What holds a submission up without ending it: no room for its files, a lost line, a controller that hangs."""

from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import pytest

from labtui.commands.submit import _news
from labtui.domain.errors import RemoteFailure, SubmitRefused, failure
from labtui.domain.model import JobPhase, SubmissionStatus
from tests.session.conftest import Bench, draft, only, submitted
from tests.session.scripted import CUT, LIMIT, keras_log

NO_ROOM = RemoteFailure("The files cannot be put there: your quota is used up.", "Make room.", wait=True)
NO_SFTP = failure("no-sftp", host="login1", wait=True)
NOT_YOURS = RemoteFailure("The files cannot be put there: not your directory.", "Check `root`.")


def status(bench: Bench, number: int = 0) -> SubmissionStatus:
    return list(bench.session.state.submissions.values())[number].status


def test_without_room_for_its_files_it_waits_with_the_reason_and_goes_on(bench):
    bench.online()
    bench.cluster.fail("ping", NO_SFTP)
    bench.run(20, lambda: bench.cluster.count("ping") > 0)
    assert bench.session.state.connection.status == "online", "it answered"
    bench.cluster.fail("push", NO_ROOM, NO_SFTP)
    future = bench.session.submit(draft(qos="acc_debug"))
    bench.run(10)
    assert (status(bench), only(bench).sentence) == (SubmissionStatus.WAITING, NO_ROOM.sentence)
    assert not future.done() and bench.cluster.count("push") == 1, "it is not hurried"
    bench.run(60, lambda: [each.key for each in bench.session.state.problems] == ["sftp"])
    assert f"labtui: {NO_SFTP.sentence}" in _news(bench.session.state, [], wait=True)
    bench.run(120, future.done)
    assert future.result() and bench.cluster.count("submit") == 1
    assert (status(bench), only(bench).sentence) == (SubmissionStatus.ACCEPTED, "")
    bench.session.submit(draft(2, qos="acc_debug"))  # it waits for the first one's job, not for room
    bench.run(300)
    assert not bench.session.state.problems, "its log could be looked for"
    assert status(bench, 1) is SubmissionStatus.WAITING and bench.cluster.count("push") == 3


def test_a_permanent_no_to_its_files_ends_it_and_a_line_lost_before_slurm_was_asked_loses_nothing(bench):
    bench.online()
    bench.cluster.fail("push", NOT_YOURS)
    refused = bench.settled(bench.session.submit(draft()), 10)
    assert refused.exception() is NOT_YOURS and status(bench) is SubmissionStatus.REFUSED
    bench.cluster.fail("push", CUT)
    future = bench.session.submit(draft())
    bench.run(1)
    assert status(bench, 1) is SubmissionStatus.WAITING
    bench.run(120, future.done)
    assert future.result() and bench.cluster.count("submit") == 1


class Aside:
    """Holds what the worker asks aside, until the test lets the answer come."""

    def __init__(self, bench: Bench) -> None:
        self.held: list[tuple[Callable[[], Any], Callable[..., None]]] = []
        self.bench = bench
        self.aside = bench.worker._context.ask_aside
        bench.worker._context.ask_aside = lambda work, done: self.held.append((work, done))

    def answer(self, instead: BaseException | None = None) -> None:
        """The oldest question is answered, in the worker's thread; `instead` is raised in place of the answer."""
        work, done = self.held.pop(0)
        self.aside(work if instead is None else Mock(side_effect=instead), done)
        self.bench.worker.turn()
        self.bench.worker.turn()


def test_the_queue_is_read_once_slurm_has_cancelled_and_accounting_with_it(bench):
    submitted(bench)
    bench.run(20)
    aside = Aside(bench)
    bench.session.cancel(1)
    bench.run(2)
    assert len(aside.held) == 1, "a poll before scancel's answer would show nothing new"
    aside.answer()
    bench.cluster.end("100", "CANCELLED", in_queue=False)
    bench.run(2)
    aside.answer()
    assert only(bench).job.phase is JobPhase.FINISHED


@pytest.fixture
def busy(bench: Bench) -> tuple[Bench, Aside]:
    """A first job runs, the controller hangs, and a second submission was just sent to it."""
    submitted(bench)
    bench.cluster.start("100")
    aside = Aside(bench)
    bench.session.submit(draft(2))
    bench.run(1)
    return bench, aside


def test_logs_go_on_while_the_controller_hangs(busy):
    bench, aside = busy
    assert status(bench, 1) is SubmissionStatus.SENDING
    assert bench.cluster.count("submit") == 1, "the second one hangs"
    bench.cluster.write("100", keras_log(5, 4))
    bench.run(60, lambda: len(bench.session.state.runs[1].epochs) == 2)
    bench.session.submit(draft(4))
    bench.run(60)
    assert status(bench, 2) is SubmissionStatus.WAITING, "one at a time"
    submits = [index for index, (work, _) in enumerate(aside.held) if work.args[0].name in ("submit", "find")]
    assert len(submits) == 1
    aside.held.insert(0, aside.held.pop(submits[0]))
    aside.answer()
    assert status(bench, 1) is SubmissionStatus.ACCEPTED


def only_sending(aside: Aside) -> None:
    """Forget questions about the queue: here it is about sending."""
    aside.held = [(work, done) for work, done in aside.held if work.args[0].name != "tick"]


@pytest.mark.parametrize(("answer", "became"), [
    *((LIMIT, SubmissionStatus.WITHDRAWN), (SubmitRefused("Never."), SubmissionStatus.REFUSED)),
    (None, SubmissionStatus.ACCEPTED),
])  # fmt: skip
def test_taken_back_while_the_answer_is_on_its_way(busy, answer, became):
    bench, aside = busy
    only_sending(aside)
    done = bench.session.cancel(2)
    bench.run(5)
    only_sending(aside)
    assert not done.done()
    aside.answer(answer)
    refused = became is SubmissionStatus.REFUSED
    if answer is not None:
        bench.run(5, lambda: bool(aside.held))  # the token is looked up once
        only_sending(aside)
        aside.answer()
    _, item = bench.session.state.submissions.values()
    assert item.status is became and ("run it again" in item.hint) is refused, "it says what to do"
    only_sending(aside)
    if became is SubmissionStatus.ACCEPTED:
        aside.answer()  # the cancelling itself
        assert bench.cluster.jobs["101"].state == "CANCELLED"
    assert done.result(timeout=0) is None
    bench.run(300)
    assert len(bench.cluster.jobs) == (2 if became is SubmissionStatus.ACCEPTED else 1)


def test_no_answer_is_looked_up_and_the_next_one_waits_for_that(busy):
    bench, aside = busy
    only_sending(aside)
    work, _ = aside.held[0]
    work()  # Slurm has the job; the answer is lost
    aside.answer(CUT)
    assert status(bench, 1) is SubmissionStatus.UNKNOWN
    bench.session.submit(draft(4))
    bench.run(60, lambda: any(work.args[0].name in ("submit", "find") for work, _ in aside.held))
    only_sending(aside)
    aside.answer()
    assert status(bench, 1) is SubmissionStatus.ACCEPTED
    assert bench.cluster.count("submit") == 2 and len(bench.cluster.jobs) == 2
