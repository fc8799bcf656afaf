"""What the screens say, from states alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from labtui.domain.events import ConnectionState, EpochSeen, LabState, RunEnded
from labtui.domain.model import Diagnosis, Interval, JobPhase, SubmissionStatus
from labtui.domain.reduce import reduce_all
from labtui.results.compute import compute_results
from labtui.results.measured import measured_from_state
from labtui.tui import format as words
from labtui.tui import view
from tests.tui.fed_session import NOW, accepted, finished_run, live_run, observed, planned, spec


def view_state(events: list[Any], **more: Any) -> view.ViewState:
    state = reduce_all(LabState(), events)
    values = {
        "state": state,
        "task_id": "10.5",
        "now": NOW,
        "results": compute_results(measured_from_state(state)),
    }
    return view.ViewState(**{**values, **more})


AGES = {
    0.2: "now",
    2: "2 s ago",
    59.6: "1 min ago",
    65: "1 min 05 s ago",
    720: "12 min ago",
    3900: "1 h 05 min ago",
    200_000: "2 d 7 h ago",
}


@pytest.mark.parametrize(("seconds", "shown"), AGES.items())
def test_ages_are_in_the_largest_fitting_unit(seconds: float, shown: str) -> None:
    assert words.age(seconds) == shown


def test_numbers_carry_their_bounds() -> None:
    assert words.whole(None) == words.ratio(None) == words.percent(None) == "-"
    assert words.whole(Interval.exact(3676.4)) == "3,676"
    assert words.percent(Interval.exact(0.6324)) == "63 %"
    assert words.bytes_size(700) == "700 B"
    assert words.bytes_size(3 * 1024 * 1024 * 1024) == "3072.0 MiB"


def test_every_connection_state_has_a_sign_and_a_word() -> None:
    for status in ("online", "connecting", "stale", "offline", "needs-login", "never heard of"):
        glyph, word = words.connection_label(ConnectionState(status=status))
        assert len(glyph) == 1
        assert word


def test_a_run_that_its_time_limit_will_end_says_in_which_epoch() -> None:
    going = live_run("lt1", "10.5", 1, spec(epochs=20), "7", 3)
    tight = observed(
        "lt1", "7", JobPhase.RUNNING, NOW, elapsed_s=93.0, time_limit_s=150.0, start_time=NOW - 93
    )
    shown = view_state([*going, tight], run_id=1)
    assert shown.run is not None
    assert view.run_detail(shown, shown.run)[1] == "At this pace its time limit will end it in epoch 8 of 20."
    wide = observed(
        "lt1", "7", JobPhase.RUNNING, NOW, elapsed_s=93.0, time_limit_s=7200.0, start_time=NOW - 93
    )
    roomy = view_state([*going, wide], run_id=1)
    assert roomy.run is not None
    assert len(view.run_detail(roomy, roomy.run)) == 1


def test_a_rehearsals_clock_goes_on_at_its_own_pace_between_two_looks() -> None:
    going = live_run("lt1", "10.5", 1, spec(epochs=20), "7", 3)
    seen = observed("lt1", "7", JobPhase.RUNNING, NOW - 2, elapsed_s=60.0, start_time=NOW - 62)
    shown = replace(view_state([*going, seen], run_id=1), factor=30.0)
    assert shown.run is not None
    assert "for 2 min" in view.run_detail(shown, shown.run)[0]


@pytest.mark.parametrize(
    ("phase", "begins"),
    [
        (JobPhase.QUEUED, "Job 7 is pending: Slurm has not said why yet."),
        (JobPhase.SETTLING, "Job 7 has left the queue"),
        (JobPhase.UNKNOWN, "Job 7: unknown"),
        (JobPhase.FINISHED, "Job 7: TIMEOUT"),
    ],
)
def test_every_phase_of_a_job_is_a_sentence(phase: JobPhase, begins: str) -> None:
    shown = view_state(
        [
            planned("lt1", "10.5", 1, spec()),
            accepted("lt1", "7"),
            observed("lt1", "7", phase, slurm_state="TIMEOUT"),
        ]
    )
    assert view.run_detail(shown, shown.state.runs[1])[0].startswith(begins)


@pytest.mark.parametrize("status", list(SubmissionStatus))
def test_every_way_into_slurm_has_words(status: SubmissionStatus) -> None:
    from labtui.domain.events import SubmissionChanged

    shown = view_state(
        [planned("lt1", "10.5", 1, spec()), SubmissionChanged(at=NOW, token="lt1", status=status)]
    )
    (row,) = view.run_rows(shown)
    assert row.state[1:].strip()
    assert bool(view.queued_here(shown)) == (status is SubmissionStatus.WAITING)


def test_a_task_says_what_is_under_way() -> None:
    shown = view_state([planned("lt1", "10.5", 1, spec()), *live_run("lt2", "10.5", 2, spec(gpus=2), "8", 1)])
    (row,) = view.task_rows(shown)
    assert (row.task_id, row.live, row.word) == ("10.5", "running", "running")
    assert view.first_task(shown) == "10.5"


def test_what_waits_says_the_true_reason() -> None:
    planned_only = view_state([planned("lt1", "10.5", 1, spec(epochs=5))], run_id=1)
    assert planned_only.run is not None
    busy = planned_only.state
    for status in ("offline", "needs-login"):
        cut = replace(planned_only, state=replace(busy, connection=ConnectionState(status=status)))
        assert view.queued_here(cut).endswith("(no connection)")
        assert view.run_detail(cut, cut.run) == [
            "In labtui's submission queue; it is sent when the cluster can be reached."
        ]
    online = replace(planned_only, state=replace(busy, connection=ConnectionState(status="online")))
    assert view.queued_here(online).endswith("(waiting for a free slot)")


def test_a_job_whose_log_says_that_all_is_done_does_not_run_any_more() -> None:
    done = finished_run("lt1", "10.5", 1, spec(epochs=5), "7")
    still = observed("lt1", "7", JobPhase.RUNNING, NOW, elapsed_s=93.0, start_time=NOW - 93)
    shown = view_state([*done, still], run_id=1)
    assert shown.run is not None
    assert view.run_detail(shown, shown.run)[0] == (
        "Job 7 has ended, as its log shows. The queue is asked again soon."
    )


def test_a_run_whose_log_is_still_read_does_not_look_as_if_it_ran() -> None:
    going = live_run("lt1", "10.5", 1, spec(epochs=20), "7", 3)
    over = observed("lt1", "7", JobPhase.FINISHED, NOW, slurm_state="CANCELLED by 1000")
    shown = view_state([*going, over], run_id=1)
    assert shown.run is not None
    assert words.run_label(shown.run, shown.submission_of(shown.run)) == "◌ cancelled"
    assert "It was cancelled. Its log is being read to the end." in view.run_detail(shown, shown.run)[0]
    over = observed("lt1", "7", JobPhase.FINISHED, NOW, slurm_state="COMPLETED")
    shown = view_state([*going, over], run_id=1)
    assert shown.run is not None
    assert words.run_label(shown.run, shown.submission_of(shown.run)) == "◌ ended, reading"


def test_a_time_limit_that_was_too_short_is_told_in_seconds_where_the_pace_is_known() -> None:
    over = observed("lt1", "7", JobPhase.FINISHED, NOW, slurm_state="TIMEOUT")
    why = Diagnosis(kind="time-limit", line=3, stream="err", text="x", advice="epochs x time per epoch")
    ended = RunEnded(at=NOW, run_id=1, outcome="time-limit", diagnosis=(why,))
    shown = view_state([*live_run("lt1", "10.5", 1, spec(epochs=20), "7", 3), over, ended], run_id=1)
    row = shown.rows_by_run[1]
    assert shown.run is not None and row.epoch_seconds is not None
    lacked = words.duration(17 * row.epoch_seconds.hi)
    messages = view.run_detail(shown, shown.run)[-1]
    assert messages.startswith(f"The 17 missing epochs need {lacked} more. R plans it again"), messages
    early = view_state([*live_run("lt1", "10.5", 1, spec(), "7", 1), over, ended], run_id=1)
    assert early.run is not None
    assert view.run_detail(early, early.run)[-1].startswith("The time limit was too short. R plans")


def test_configurations_that_share_a_name_are_told_apart_by_their_batch() -> None:
    one = finished_run("lt1", "10.4", 1, spec(batch=256), "7")
    other = finished_run("lt2", "10.5", 2, spec(batch=2048), "8")
    two = finished_run("lt3", "10.5", 3, spec(gpus=2), "9")
    names = [row[0] for row in view.number_rows(view_state([*one, *other, *two]))]
    assert names == ["ResNet50 1 GPU, batch 256", "ResNet50 1 GPU, batch 2,048", "ResNet50 2 GPUs"]


def test_a_run_that_measured_nothing_has_no_numbers_of_another() -> None:
    """Cancelled in its warm-up; later the same training ran to its end."""
    cut = [
        event
        for event in finished_run("lt1", "10.5", 1, spec(), "7", outcome="cancelled")
        if not isinstance(event, EpochSeen) or event.sample.epoch == 1
    ]
    shown = view_state([*cut, *finished_run("lt2", "10.5", 2, spec(), "8")])
    cancelled, done = view.run_rows(shown)
    numbers = [(row.epoch, row.rate, row.speedup, row.efficiency) for row in (cancelled, done)]
    assert set(numbers[0]) == {"-"}
    assert "-" not in numbers[1]
