"""Which submission is sent next."""

from msgspec.structs import replace

from labtui.domain.model import JobPhase, RunSpec, SubmissionStatus
from labtui.domain.profile import Profile, Queue
from labtui.domain.state import Change, ConnectionState, submission_queue
from labtui.slurm.states import sendable, waiting_reason
from labtui.tui.format import waiting_text
from labtui.tui.view import View
from tests import changes
from tests.changes import after

SPEC = RunSpec(model="ResNet50", device="gpu", n_gpus=1, batch_size=8, epochs=1, script="a.py")
PROFILE = Profile(
    id="x", title="X", login_hosts=("h",),
    queues=(Queue(name="one", devices="gpu", max_submit_per_user=1), Queue(name="many", devices="gpu")),
)  # fmt: skip


def planned(number: int, qos: str) -> Change:
    return changes.planned(f"t{number}", {number: SPEC}, float(number), qos=qos)


def status(number: int, word: SubmissionStatus, job_id: str = "") -> Change:
    if word is SubmissionStatus.ACCEPTED:
        return changes.accepted(f"t{number}", job_id)
    return changes.status(f"t{number}", word)


def token(found) -> str | None:
    return found.token if found else None


def test_the_oldest_goes_first_and_a_queue_for_one_is_shut_until_evidence_says_it_is_free():
    lab = after(planned(1, "many"), planned(2, "many"), planned(3, "one"))
    assert token(sendable(lab, PROFILE)) == "t1"
    assert token(sendable(lab, PROFILE, closed={"many"})) == "t3"
    assert [item.token for item in submission_queue(lab)] == ["t1", "t2", "t3"]
    base = (planned(1, "one"), planned(2, "one"))
    for word in (SubmissionStatus.SENDING, SubmissionStatus.UNKNOWN, SubmissionStatus.ACCEPTED):
        assert sendable(after(*base, status(1, word, "7")), PROFILE) is None
    for phase in JobPhase:
        observed = changes.observed("t1", "7", phase)
        lab = after(*base, status(1, SubmissionStatus.ACCEPTED, "7"), observed)
        assert token(sendable(lab, PROFILE)) == ("t2" if phase is JobPhase.FINISHED else None)
    for word in (SubmissionStatus.REFUSED, SubmissionStatus.WITHDRAWN):
        assert token(sendable(after(*base, status(1, word)), PROFILE)) == "t2"
    lab = after(*base, status(1, SubmissionStatus.SENDING))
    waits = lab.submissions["t2"]
    assert waiting_reason(lab, PROFILE, waits) == "one takes one job per user; sent when run 1 ends."
    done = lab.with_runs([replace(lab.runs[1], outcome="completed")])
    assert waiting_reason(done, PROFILE, waits).endswith("sent when the job of run 1 has left the queue.")
    third = planned(3, "one")(lab)
    told = waiting_text(View(state=third, profile=PROFILE))
    assert told == "Runs 2, 3 wait. one takes one job per user; the next job is sent when run 1 ends."
    why = waiting_reason(third, PROFILE, third.submissions["t3"])
    assert why.endswith("when run 2 ends."), "it goes before"
    cut = replace(lab, connection=ConnectionState(sentence="It is cut."))
    assert waiting_reason(cut, PROFILE, waits) == "Sent when the cluster can be reached."
    assert "`labtui watch` or `labtui` sends it" in waiting_reason(lab, PROFILE, waits, served=False)
    assert waiting_reason(lab, PROFILE, lab.submissions["t1"]) == "The job of run 1 is being sent to Slurm."
    assert waiting_reason(after(*base), PROFILE, waits).startswith("one takes one job")
    for others in ((), (planned(1, "many"),)):  # nothing is ahead of it in its queue
        assert waiting_reason(after(*others, base[1]), PROFILE, waits) == "Sent next."
    two = after(planned(1, "many"), planned(2, "many"))
    assert waiting_reason(two, PROFILE, two.submissions["t2"]) == "Sent after run 1."
