"""One state: whatever is generated, no two parts of the screens say different things of one run."""

from collections.abc import Mapping
from types import MappingProxyType, SimpleNamespace
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from rich.console import Console

from labtui.domain import model
from labtui.domain import state as lab_state
from labtui.domain.model import EpochSample, Interval, JobPhase, JobView, RunPhase, SubmissionStatus
from labtui.domain.run import MIXED
from labtui.domain.state import LIVE, ConnectionState, LabState, RunState, SubmissionState
from labtui.domain.terminal_text import clock_span, range_text
from labtui.lab.checks import CheckItem, TaskCheck
from labtui.lab.expected_time import run_seconds
from labtui.results import compute, messages
from labtui.results.catalogue import catalogue
from labtui.results.charts import Point, Series, make_chart
from labtui.results.measured import measured_from_state
from labtui.results.numbers import percent_text, ratio_text
from labtui.session.labs import load_edition
from labtui.session.settings import load_profile
from labtui.slurm.job_evidence import observe
from labtui.slurm.queue import QueueAnswer
from labtui.tui import format as words
from labtui.tui import guidance, themes
from labtui.tui.guidance import headline, next_step, result_parts, status_line, title_remark
from labtui.tui.view import TaskLine, View, runs_of
from labtui.tui.view_model import ViewModel, asked_families, first_chart, first_task, gpu_load
from labtui.tui.widgets import charts_pane, log_pane, runs_pane, task_pane
from labtui.tui.widgets.frame import _about, _next, _title, sentences, task_text, wrap
from labtui.tui.widgets.runs_pane import error_card, run_facts, state_text, table_of
from tests import changes
from tests.lab.published import published_lab
from tests.tui.fed_session import NOW, FrozenClock, spec

ROLES = themes.Roles(*["white"] * 10)
EDITION = load_edition("hpc4ai-ch10")
WORDS = ("COMPLETED", "CANCELLED by 42", "TIMEOUT", "OUT_OF_MEMORY", "FAILED", "NODE_FAIL")
OOM = model.Diagnosis(kind="oom", line=9, text="OOM", advice="Halve.", stream="out")
UNDER_WAY = ("running", "queued", "starting", "waiting", "under way", "left.")


def sample(number: int, **more: Any) -> EpochSample:
    values = {"seconds": Interval.around(9.0, 0.1), "line": 10 + number, "metrics": {"loss": 2.0}}
    return EpochSample(epoch=number, **(values | more))


def in_epochs(*ends: float, what: model.RunSpec | None = None, **more: Any) -> RunState:
    """A run with an epoch for each time; it runs, but for what is said otherwise."""
    epochs = tuple(sample(number, ended_at=at) for number, at in enumerate(ends, 1))
    usual = {"phase": RunPhase.RUNNING, "started": True, "epochs": epochs, "images": 50_000}
    return one_run(what=what, **(usual | more))


def one_run(number: int = 1, what: model.RunSpec | None = None, **more: Any) -> RunState:
    """A run of task 10.5 (on one GPU) and of the submission ``lt1``, but for what is said otherwise."""
    values = {"token": "lt1", "task_id": "10.5", "spec": what or spec()}
    return RunState(run_id=number, **(values | more))


@st.composite
def states(draw: Any) -> LabState:
    """Submissions in any status, jobs in any phase, logs that tell or do not, a connection in any state."""
    runs, submissions = {}, {}
    for number, gpus in enumerate(draw(st.lists(st.sampled_from((1, 2, 4)), min_size=1, max_size=4)), 1):
        token = f"lt{number:018d}"
        status = draw(st.sampled_from(SubmissionStatus))
        phase = draw(st.sampled_from(JobPhase))
        word = draw(st.sampled_from(WORDS))
        since = NOW - 60 if phase is JobPhase.UNKNOWN else None
        job = JobView(job_id=str(number), phase=phase, slurm_state=word, unknown_since=since, seen_at=NOW - 5)
        accepted = status is SubmissionStatus.ACCEPTED
        submission = SubmissionState(
            token=token, task_id="10.5", form="job-per-size", job_name="j", run_ids=(number,), planned_at=NOW - 99,
            status=status, qos="acc_debug", gpus=gpus, job=job if accepted else None, runs=(spec(gpus=gpus),),
        )  # fmt: skip
        epochs = tuple(sample(each) for each in range(1, draw(st.integers(0, 5)) + 1)) if accepted else ()
        outcome = draw(st.sampled_from((None, *get_args(model.Outcome))))
        told = {"outcome": outcome if accepted else None, "diagnosis": (OOM,) if outcome == "oom" else ()}
        told |= {"started": bool(epochs), "epochs": epochs, "images": 50_000}
        run = one_run(number, spec(gpus=gpus), token=token, **told)
        runs[number] = replace(run, phase=lab_state.run_phase(submission, run, first_open=True))
        submissions[token] = submission
    status = draw(st.sampled_from(("online", "offline", "connecting", "stale", "needs-login")))
    sentence = draw(st.sampled_from(("", "The connection is cut.")))
    connection = ConnectionState(status=status, sentence=sentence, since=NOW - 29)
    return LabState(runs=runs, submissions=submissions, connection=connection, refreshed_at=NOW - 30)


def seen(state: LabState, **more: Any) -> View:
    results = compute.compute_results(measured_from_state(state), images=50_000)
    run_id = next(iter(state.runs))
    shown = {"results": results, "charts": catalogue(results), "task_id": "10.5", "chosen": run_id}
    return View(state=state, edition=EDITION, **(shown | {"now": NOW} | more))


def task_word(view: View) -> str:
    return next(row.word for row in view.tasks if row.task_id == view.task_id)


@settings(max_examples=300, deadline=None)
@given(states(), st.booleans())
def test_no_two_parts_contradict_each_other(state, cancel):
    for token in state.submissions:
        state = state.with_submission(token, cancelling=cancel)
    view = seen(state)
    step, (severity, note) = next_step(view), status_line(view)
    row = view.task_line
    assert row is not None
    phase, title = row.live, row.word
    rail = task_text(row, view, ROLES, 0).plain
    columns, rows = table_of(view, ROLES, 86)
    table = {int(each): " ".join(map(str, cells)) for each, cells in rows.items()}
    live = [line for line in view.lines if line.phase in LIVE]
    if live:  # header, list and title name the phase of the furthest run
        order = (*LIVE[:2], RunPhase.UNKNOWN, *LIVE[2:])
        furthest = max((line.phase for line in view.pending), key=order.index)
        told = {line.word for line in view.pending if line.phase is furthest and line.live}
        assert (phase, title) == (furthest, told.pop() if len(told) == 1 else furthest.value)
        assert not cancel or furthest not in LIVE or title == "cancelling"
        assert words.PHASE_GLYPHS[furthest] in rail and " left" not in step.reason * cancel
    else:
        assert (phase in LIVE) is any(line.ending for line in view.lines)
        assert not any(word in f"{step.label} {step.reason}" for word in UNDER_WAY)
    known = not severity and view.state.connection.status in ("online", "stale")
    assert "Offline" not in note or (not known and "Offline for 0:29." in note), "nothing is known to go on"
    if step.action == "refresh_now":
        assert not [line for line in live if line.submission is not None and line.submission.job is not None]
        assert severity == "warning"
    for line in view.lines:
        text = state_text(view, line, ROLES, columns[-1].width).plain
        assert text.removeprefix("failed: ") in table[line.run_id]
        shown = line.word if line.cancelling or line.ending else line.phase.value
        assert line.phase is RunPhase.RUNNING or shown in text
        assert line.sign in table[line.run_id]
        if line.run.outcome not in (None, "completed"):
            assert not line.live and line.not_counted
        if line.phase in LIVE[:2]:
            assert bool(words.why_it_waits(view, line) or words.waiting_text(view)) is not line.cancelling
        # what the chart draws hollow is a run that goes on, or nobody knows
        if line.row is not None and not line.row.live:
            assert line.phase is not RunPhase.RUNNING
        failed = runs_pane.failed_line(replace(view, chosen=line.run_id))
        assert (failed is not None) >= (line.phase is RunPhase.FAILED)
        facts = run_facts(view, line, (), ROLES).plain
        assert line.phase is not RunPhase.DONE or "pending" not in facts
        assert ("GPU use" in run_facts(view, line, (0.5,), ROLES).plain) is (line.phase is RunPhase.RUNNING)


@pytest.mark.parametrize(("task", "scope"), [
    *(("10.5", {"10.5", "own 10.5", "as 10.5"}), ("10.7", {"10.5", "10.6", "10.7", "as 10.5"})),
    *(("10.1", {"10.1"}), ("10.4", {"10.3", "10.4"}), ("10.2", {"as 10.5"})),
])  # fmt: skip
def test_a_task_shows_its_own_runs_or_those_it_compares(task, scope):
    names = ("10.1", "10.3", "10.4", "10.5", "10.6", "10.7", "own 10.5", "as 10.5")
    runs, submissions = {}, {}
    for number, name in enumerate(names, 1):
        theirs = spec(batch=2048 if "as" in name else 7)
        what = replace(spec(), model="mine") if name.startswith("own") else theirs
        of = "10.2" if "as" in name else name.removeprefix("own ")
        runs[number] = one_run(number, what, token=name, task_id=of)
        submissions[name] = SubmissionState(
            token=name, task_id=of, form="own", job_name="j", run_ids=(number,), planned_at=NOW,
            job_file="mine.slurm" if name.startswith("own") else "",
        )  # fmt: skip
    state = LabState(runs=runs, submissions=submissions)
    assert {run.token for run in runs_of(state, EDITION, task)} == scope
    alone = {number: run for number, run in runs.items() if run.task_id != "10.4"}
    assert not runs_of(replace(state, runs=alone), EDITION, "10.4"), "nothing to compare yet"


def test_an_ended_job_whose_log_is_not_read_is_not_running():
    run = one_run(1, spec(gpus=1), phase=RunPhase.RUNNING, started=True)
    ended = sent(JobPhase.FINISHED, slurm_state="TIMEOUT")
    view = seen(LabState(runs={1: run}, submissions={"lt1": ended}))
    assert (view.runs[1].phase, view.runs[1].word) == (RunPhase.FAILED, "failed: time limit")
    killed = sent(JobPhase.FINISHED, slurm_state="OUT_OF_MEMORY")
    full = seen(LabState(runs={1: run}, submissions={"lt1": killed}))
    assert full.runs[1].word == "failed: node memory", "Slurm counts the node's memory, not a GPU's"
    for cpus, advice in (20, "Raise --cpus-per-task, as"), (80, "It has all CPUs of a node: keep fewer"):
        on_mn5 = seen(LabState(runs={1: run}, submissions={"lt1": replace(killed, cpus=cpus)}))
        on_mn5 = replace(on_mn5, profile=load_profile("mn5"))
        assert advice in error_card(on_mn5, on_mn5.runs[1], ROLES, 120).plain
    other = sent(JobPhase.FINISHED, slurm_state="COMPLETED", seen_at=NOW)
    over = seen(LabState(runs={1: run}, submissions={"lt1": other}))
    line, later = (replace(over, now=at).runs[1] for at in (NOW + 9, NOW + 99))
    assert (line.word, later.word) == ("ending", "unknown (log not read)") and not later.cancellable
    assert (line.left_s, task_word(over), title_remark(over)) == (None, "ending", ""), "no clock goes on"
    aborted = replace(sent(JobPhase.RUNNING), token="lt2", run_ids=(2,), cancelling=True)
    both = {1: run, 2: replace(run, run_id=2, token="lt2")}
    two = LabState(runs=both, submissions={"lt1": other, "lt2": aborted})
    assert [line.word for line in seen(two).lines] == ["ending", "cancelling"]
    assert task_word(seen(two)) == "running", "what they have in common"
    going = in_epochs(NOW - 9, NOW)
    model = model_of(LabState(runs={1: going}, submissions={"lt1": sent(JobPhase.RUNNING)}))
    assert model.view().lines[0].row.live
    over = sent(JobPhase.SETTLING, slurm_state="TIMEOUT")
    model.state = replace(model.state, submissions={"lt1": over})
    points = [point for each in model.view().charts[0].measured for point in each.points]
    assert not any((model.view().lines[0].row.live, *(point.live for point in points))), "none is one so far"
    ran = (CheckItem(sentence="All sizes ran.", kind="runs"),)
    check = TaskCheck(task_id="10.5", status="partial", items=ran, missing="Export.")
    assert [row.live for row in view.tasks if row.task_id == "10.5"] == [RunPhase.FAILED]
    done = replace(view, checks={"10.5": check})
    assert [row.live for row in done.tasks if row.task_id == "10.5"] == [None], "one run more than asked for"


@pytest.mark.parametrize(("epochs", "ago"), [(0, 10.0), (0, 40.0), (1, 8.0), (3, 2.0)])
def test_the_time_left_goes_down_inside_an_epoch_and_is_at_most_what_the_job_has_left(epochs, ago):
    """By what is expected, while that holds, or as much more as its first epoch took; then by the run's own pace."""

    def begun(**limit: float) -> View:
        job = sent(JobPhase.RUNNING, **({"start_time": NOW} | limit))
        now = {"refreshed_at": NOW, "cluster_time": NOW, "connection": ConnectionState(status="online")}
        return seen(LabState(runs={1: in_epochs(*[NOW] * epochs)}, submissions={"lt1": job}, **now))

    before, after = (replace(begun(), now=NOW + later).runs[1].left_s for later in (0.0, ago))
    assert before is not None and after is not None and before - after == pytest.approx(ago)
    assert title_remark(begun()) == "", "not for 0:00"
    late = replace(begun(), now=NOW + 300 * (not epochs)).runs[1]
    left = {0: None, 1: pytest.approx(4 * 13.6), 3: 18.0}[epochs]
    assert late.left_s == left, "the first epoch is warm-up; the plan tells the rest until another is read"
    for run, said in (in_epochs(), "epoch 1"), (in_epochs(*[NOW] * 4), "epoch 5"):
        state = replace(begun(time_limit_s=1800.0).state, runs={1: run})
        views = [seen(state, now=NOW + later) for later in (150.0, 300.0)]
        bar, later = (state_text(each, each.runs[1], ROLES, 21).plain for each in views)
        assert bar == later and bar.startswith("━") and bar.endswith(f"─  {said}"), "as far as it was known"
        assert words.live_reason(views[0]) == "Run 1 is running."
    assert not epochs or " left on the practice clock." in words.live_reason(replace(begun(), factor=20.0))
    slow = replace((run := in_epochs(NOW)), epochs=(replace(run.epochs[0], seconds=Interval.exact(1000.0)),))
    assert (seen(replace(begun().state, runs={1: slow})).runs[1].left_s or 0) > 500, "all takes longer, then"
    unseen = seen(LabState(runs={1: in_epochs()}, submissions={"lt1": sent(JobPhase.RUNNING)}))
    assert unseen.runs[1].left_s is None, "no clock stands still while it is not known when the job began"
    limited = begun(time_limit_s=4.0)
    shares = [replace(limited, now=NOW + later).runs[1].share for later in (1.0, 3.0, 4.0)]
    assert limited.runs[1].left_s == 4.0 and shares == [0.25, 0.75, 1.0], "the bar goes to the limit"
    assert state_text(limited, limited.runs[1], ROLES, 21).plain.endswith("  0:04 to limit")
    assert state_text(limited, limited.runs[1], ROLES, 15).plain == "0:04 to limit", "no bar of few cells"
    past = replace(limited, now=NOW + 34)  # Slurm ends it a little later
    told = "Run 1 is past its time limit. Slurm may take a minute or more to end it."
    assert (title_remark(past), words.live_reason(past)) == (" for 0:34", told)
    for limit, warning in (102.0, ""), (100.5, "At this pace its time limit may end it in epoch 5 of 5."):
        runs = {1: in_epochs(*[NOW - 8] * 4)}  # its last epoch has a second left
        tight = replace(begun(start_time=NOW - 100, time_limit_s=limit).state, runs=runs)
        assert words.limit_warning(seen(tight).runs[1], seen(tight)) == warning
        cut = replace(tight, connection=ConnectionState(status="offline", sentence="Cut.", since=NOW + 0.25))
        for at in (1, 2, 9):
            later = seen(cut, now=NOW + at)
            told = (words.limit_warning(later.runs[1], later), later.runs[1].left_s, later.runs[1].took_s)
            assert told == (warning, min(0.75, limit - 100.25), 100.25), "no forecast while nothing is read"
        stuck = seen(tight, now=NOW + 11)
        assert words.limit_warning(stuck.runs[1], stuck) == "", "an epoch that is overdue foretells nothing"
        assert (stuck.runs[1].left_s, stuck.runs[1].to_limit) == (0.0, True), "its limit stays true"
    assert not View(state=past.state, loading=True).tasks and View(state=past.state).tasks, "with titles only"


def test_what_was_seen_before_this_connection_is_not_taken_for_now():
    run = in_epochs(NOW)
    job = sent(JobPhase.RUNNING, start_time=NOW - 100, seen_at=NOW - 90)
    item = CheckItem(sentence="It ran.", missing="1 GPU: run 1 is running.", kind="runs")
    checks = {"10.5": TaskCheck(task_id="10.5", status="partial", items=(item,), missing=item.missing)}
    state = LabState(runs={1: run}, submissions={"lt1": job}, refreshed_at=NOW - 80)
    opened = seen(replace(state, connection=ConnectionState(status="online", since=NOW - 5)))
    read = f"The queue was last read at {words.clock(NOW - 80)}; it is being read."
    assert (opened.runs[1].word, status_line(opened)) == ("running", ("", read)), "until the first answer"
    state = replace(state, connection=ConnectionState(status="online", since=NOW - 25))
    view = seen(state, checks=checks)
    unknown = f"unknown since {words.clock(NOW - 80)}"
    assert view.runs[1].word == unknown and task_word(view) == "unknown"
    assert next_step(view).reason == f"Run 1 is {unknown}.", "not: submit it again"
    later = one_run(2, spec(), token="lt2", task_id="10.6", phase=RunPhase.WAITING)
    waits = replace(sent(JobPhase.QUEUED), token="lt2", task_id="10.6", run_ids=(2,), job=None)
    waits = replace(waits, status=SubmissionStatus.WAITING)
    both = replace(state, runs={1: run, 2: later}, submissions={"lt1": job, "lt2": waits})
    assert first_task(seen(both)) == "10.5", "not the newest one's"
    for phase in RunPhase.WAITING, RunPhase.QUEUED:
        shared = replace(both, runs={1: run, 2: replace(later, task_id="10.5", phase=phase)})
        assert task_word(seen(shared)) == "unknown", "as its run that may run, not as the one that waits"
    cut = ConnectionState(status="offline", sentence="It is cut.", since=NOW - 6)
    for connection, at in (state.connection, 40), (cut, 9), (replace(cut, since=0.0), 9):
        again = seen(replace(state, refreshed_at=NOW - at, connection=connection), checks=checks)
        assert again.runs[1].word == "running", "a short cut changes no state"
    assert seen(replace(state, connection=cut)).runs[1].word == unknown, "nor does it make an old answer new"
    done = {"10.5": replace(checks["10.5"], status="done")}
    assert task_word(seen(state, checks=done)) == "unknown", "as the row says, not 'done'"
    online = replace(state, connection=ConnectionState(status="online"))
    assert seen(online).runs[1].word == "running" and seen(online, read_only=True).runs[1].word == unknown
    why_new = "Job 7: labtui does not know the state NEW."
    for base, phase, why in (state, JobPhase.QUEUED, ""), (online, JobPhase.UNKNOWN, why_new):
        told = seen(base.with_job("lt1", replace(job.job, phase=phase, slurm_state="NEW")))
        assert words.why_it_waits(told, told.runs[1]) == why
    assert told.runs[1].word == "unknown state NEW"


def test_the_title_counts_the_seconds_of_the_run_and_a_comparison_names_the_run_it_waits_for():
    first = in_epochs(NOW - 40, NOW - 30, task_id="10.6", phase=RunPhase.DONE, outcome="completed")
    second = one_run(2, spec(gpus=2), task_id="10.6", phase=RunPhase.RUNNING, started=True)
    job = replace(sent(JobPhase.RUNNING, start_time=NOW - 500), run_ids=(1, 2), task_id="10.6")
    state = LabState(runs={1: first, 2: second}, submissions={"lt1": job}, refreshed_at=NOW, cluster_time=NOW)
    view = replace(seen(state), task_id="10.6")
    late = replace(view, state=replace(state, cluster_time=None))
    assert [*map(title_remark, (late, view))] == [" (run 2)", " for 0:30 (run 2)"], "once its start is known"
    compares = next(task for task in EDITION.tasks if not task.runs and runs_of(state, EDITION, task.id))
    seen_to = TaskCheck(task_id=compares.id, status="open", items=(), missing="")
    other = replace(view, task_id=compares.id, checks={compares.id: seen_to})
    assert [row.live for row in view.tasks if row.task_id == compares.id] == [None]
    assert (task_word(other), title_remark(other)) == ("open", f"  {words.live_reason(other)[:-1]}")
    done = replace(view, checks={view.task_id: replace(seen_to, task_id=view.task_id, status="done")})
    assert _title(done, ROLES, 90).plain.endswith("✔ done; one more is running for 0:30 (run 2)")


def test_a_job_that_is_held_and_one_that_failed_after_its_training_say_so():
    queued = one_run(1, spec(gpus=1), phase=RunPhase.QUEUED)
    pending = replace(sent(JobPhase.QUEUED, reason="JobHeldUser", start_estimate=NOW + 29), held=True)
    held = seen(LabState(runs={1: queued}, submissions={"lt1": pending}, refreshed_at=NOW, cluster_time=NOW))
    assert held.runs[1].word == "queued (held)"
    told = words.why_it_waits(held, held.runs[1]), words.live_reason(held)
    assert told == ("Job 7 is held. Press H to release it.", "Run 1 is queued (held).")
    refused = replace(pending, status=SubmissionStatus.SENDING, held=False, job=None, sentence="Refused: no.")
    waits = LabState(runs={1: replace(queued, phase=RunPhase.WAITING)}, submissions={"lt1": refused})
    assert seen(waits).runs[1].word == "waiting (checking)"
    done = in_epochs(NOW, outcome="completed", phase=RunPhase.DONE)
    failed = sent(JobPhase.FINISHED, slurm_state="FAILED")
    line = seen(LabState(runs={1: done}, submissions={"lt1": failed})).runs[1]
    assert line.word == "done, its job failed" and "job failed" in state_text(held, line, ROLES, 40).plain
    lost = replace(line, run=replace(done, diagnosis=(replace(OOM, text="No such file: 'out'"),)))
    told = "No such file: 'out'\nRun 1 ran to its end, and then its job failed: its epochs count."
    assert told in run_facts(held, lost, (), ROLES).plain
    late, hangs = (replace(failed, job=replace(failed.job, slurm_state=s)) for s in ("TIMEOUT", "RUNNING"))
    hangs = replace(hangs, job=replace(hangs.job, phase=JobPhase.RUNNING))
    lines = [seen(LabState(runs={1: done}, submissions={"lt1": each})).runs[1] for each in (late, hangs)]
    told = [(each.word, each.sign, each.cancellable) for each in lines]
    assert told == [("done, its job timed out", "✔", False), ("ending", "▶", True)], "as the keys for it say"
    assert task_word(seen(LabState(runs={1: done}, submissions={"lt1": hangs}))) == "ending"
    two = {1: done, 2: one_run(2, spec(gpus=2), outcome="oom", phase=RunPhase.FAILED)}
    both = LabState(runs=two, submissions={"lt1": replace(failed, run_ids=(1, 2))})
    assert seen(both).runs[1].word == "done"
    never = one_run(1, spec(gpus=1), outcome="failed", phase=RunPhase.FAILED)
    job = sent(JobPhase.FINISHED, slurm_state="FAILED", reason="BadConstraints")
    view = seen(LabState(runs={1: never}, submissions={"lt1": job}))
    assert "No node can ever give" in error_card(view, view.runs[1], ROLES, 90).plain


def test_an_own_run_without_a_model_is_called_by_its_job():
    runs = {n: one_run(n, replace(spec(), model=""), token=f"lt{n}", task_id="10.5") for n in (1, 2)}
    job = sent(JobPhase.QUEUED)
    jobs = {f"lt{n}": replace(job, token=f"lt{n}", job_name=f"{'mine' * 9}{n}") for n in runs}
    _, rows = table_of(seen(LabState(runs=runs, submissions=jobs)), ROLES, 100)
    assert [str(row[2]) for row in rows.values()] == ["minem…ine1", "minem…ine2"], "what tells them apart"
    mine = replace(jobs["lt2"], job_name="long", job_file="long.slurm", run_ids=(2,))
    state = LabState(runs={1: replace(runs[1], spec=spec()), 2: one_run(2, token="lt2")})
    view = seen(replace(state, submissions={"lt1": replace(job, run_ids=(1,)), "lt2": mine}))
    heads, rows = table_of(view, ROLES, 100)
    assert (heads[2].title, [str(row[2]) for row in rows.values()]) == ("name", ["ResNet50", "long"])
    assert "model    ResNet50" in run_facts(view, view.runs[2], (), ROLES).plain, "what its log names"
    limit = replace(view.runs[2].run, spec=replace(spec(), model="limit", named=True))
    assert view.state.called(limit, {}).model == "limit", "the student's own name for it"
    own = one_run(1, spec(), token="lt1", task_id="")
    mine = {1: one_run(1, spec(gpus=4), task_id=""), 2: replace(own, run_id=2)}
    assert [*table_of(seen(LabState(runs=mine), task_id=""), ROLES, 100)[1]] == ["1", "2"], "as they came"
    mine[1] = in_epochs(NOW, what=spec(gpus=2), device="cpu", task_id="")
    assert guidance.sizes_of(seen(LabState(runs=mine), task_id="")) == {1}, "not the GPUs it did not have"
    small = seen(LabState(runs={1: replace(own, spec=replace(own.spec, model="mini"))}), task_id="")
    heads = {each.title: each.width for each in table_of(small, ROLES, 78)[0]}
    assert all(len(title) <= cells for title, cells in heads.items()) and "images/s" in heads, "none is cut"
    words = [("--lr_policy", each, "--warmup_epochs", "1") for each in ("stepping", "gradual")]
    tuned = {at: one_run(at, replace(spec(), extra_args=each)) for at, each in enumerate(words, 1)}
    shown = [str(row[2]) for row in table_of(seen(LabState(runs=tuned)), ROLES, 86)[1].values()]
    assert shown == ["stepping, warm-up 1", "gradual, warm-up 1"], "as charts name a policy"


def test_runs_that_are_held_are_what_is_to_be_done_and_failed_ones_say_each_their_own_end():
    run = one_run(phase=RunPhase.WAITING)
    waits = replace(sent(JobPhase.QUEUED), status=SubmissionStatus.WAITING, job=None, held=True)
    view = seen(LabState(runs={1: run}, submissions={"lt1": waits}))
    step = next_step(view)
    assert view.runs[1].word == task_word(view) == "waiting (held)"
    assert (step.label, step.reason) == ("Release the runs", "Run 1: held. Press H to release.")
    one, two = (replace(waits, run_ids=(n,), held=False, cancelling=n == 1) for n in (1, 2))
    state = LabState(runs={1: run, 2: replace(run, run_id=2, token="2")}, submissions={"lt1": one, "2": two})
    assert words.live_reason(seen(state)) == "Run 2 is waiting.", "what the list says"
    lost = model.Diagnosis(kind="node-lost", line=9, text="Job 7 ended.", advice="Submit it again.")
    first = one_run(phase=RunPhase.RUNNING, started=True)
    runs = {1: first, 2: one_run(2, spec(gpus=2)), 3: one_run(3, spec(gpus=4))}
    job = replace(sent(JobPhase.FINISHED, slurm_state="NODE_FAIL"), run_ids=(1, 2, 3))
    view = seen(LabState(runs=runs, submissions={"lt1": job}))
    never = ["failed: never started"] * 2
    assert [line.word for line in view.lines] == ["failed: node failure", *never]
    assert headline(view) == "Run 1 failed: node failure."
    ended = {n: replace(each, phase=RunPhase.FAILED, outcome="unfinished") for n, each in runs.items()}
    ended[1] = replace(ended[1], outcome="failed", diagnosis=(lost,))
    again = seen(LabState(runs=ended, submissions={"lt1": job}))
    assert [line.word for line in again.lines] == ["failed: node failure", *never], "no other word later"
    ended[3] = replace(ended[3], diagnosis=(lost,))  # the job's lines are of all that had not begun
    told = seen(LabState(runs=ended, submissions={"lt1": job}))
    card = error_card(told, told.runs[3], ROLES, 90).plain
    assert "Run 3 never started.\n  Run 1 of the same job failed: node failure." in card and "7" not in card
    full = TaskCheck(task_id="10.5", status="done", items=(CheckItem("", kind="runs"),), missing="")
    assert not guidance.remedy(replace(told, checks={"10.5": full}), told.runs[3]).label, "others ran"
    (other, own) = (log_pane.read_as(replace(told, chosen=number), "out") for number in (3, 1))
    assert (other, own) == ({9: "run 1  error"}, {9: "error"}), "of the run it ended"
    assert selected(told.state) == 1, "the run that failed"


def model_of(state: LabState) -> ViewModel:
    told = {"practice": False, "read_only": False, "profile": None, "clock": FrozenClock()}
    model = ViewModel(SimpleNamespace(state=state, keep_choice=dict, **told))  # type: ignore[arg-type]
    model.choose_task("10.5")
    model.edition, model.loaded = EDITION, True
    return model


def selected(state: LabState, checks: Mapping[str, TaskCheck] = MappingProxyType({})) -> int | None:
    """The run of task 10.5 that is selected until the student chooses one."""
    model = model_of(state)
    model.loaded, model.checks = False, checks
    return model.view().run_id


def test_without_an_edition_no_number_of_images_is_assumed(filled_session):
    (model := ViewModel(filled_session)).load_edition()
    runs = {n: replace(run, images=None) for n, run in model.state.runs.items()}  # the logs do not say it
    model.state = replace(model.state, runs=runs)
    assert {row.images for row in model.view().results.measured} == {Interval.exact(50_000)}
    model.edition, model._cached = None, ((), {})  # as if it could not be read
    assert Interval.exact(50_000) not in {row.images for row in model.view().results.measured}


def sent(phase: JobPhase, **more: Any) -> SubmissionState:
    """The submission of one run, with its job."""
    job = JobView(job_id="7", phase=phase, **({"slurm_state": phase.value.upper()} | more))
    return SubmissionState(
        token="lt1", task_id="10.5", form="one-gpu", job_name="j", run_ids=(1,), planned_at=NOW, job=job,
        status=SubmissionStatus.ACCEPTED,
    )  # fmt: skip


@pytest.mark.parametrize("phase", [JobPhase.FINISHED, JobPhase.SETTLING, JobPhase.RUNNING])
def test_a_run_that_is_done_counts_no_more_seconds(phase):
    """By the clock in its log, also when Slurm says that the job ended later."""
    run = in_epochs(NOW - 9, NOW, phase=RunPhase.DONE, outcome="completed")
    job = sent(phase, start_time=NOW - 100, end_time=NOW + 1)
    view = seen(LabState(runs={1: run}, submissions={"lt1": job}))
    said = "ending" if phase is JobPhase.RUNNING else "done in 1:40"
    assert (state_text(view, view.runs[1], ROLES, 26).plain, view.runs[1].took_s) == (said, 100.0)


def test_gpu_hours_are_those_that_are_known_so_that_they_never_fall():
    job = replace(sent(JobPhase.RUNNING, start_time=NOW - 100), gpus=4)
    run = one_run(started=True, phase=RunPhase.RUNNING)
    read = {"refreshed_at": NOW - 60, "cluster_time": NOW - 60}
    view = seen(LabState(runs={1: run}, submissions={"lt1": job}, **read))
    assert (view.runs[1].took_s, words.gpu_hours(view)) == (100.0, pytest.approx(4 * 40 / 3600))
    practised = replace(view.state, submissions={"lt1": replace(job, practice=True)})
    assert words.gpu_hours(replace(view, state=practised)) == 4 * run.trained_s / 3600, "of its epochs alone"
    gone = ConnectionState(sentence="Lost.", hint="Start it.")
    lost = replace(view, state=replace(view.state, connection=gone))
    assert words.gpu_hours(lost) == words.gpu_hours(view), "as of the last answer"
    for jobs, at in ((None, NOW), (None, NOW + 99), ((), NOW + 999)):
        (unheard,) = observe(view.state, QueueAnswer(jobs=jobs, accounting=None), at).values()
        view = replace(view, state=view.state.with_job("lt1", unheard))
        assert words.gpu_hours(view) == words.gpu_hours(lost)
    unset = replace(lost.state, problems=(lab_state.Problem(key="settings", sentence="", hint=""),))
    assert status_line(lost)[1].endswith(". labtui keeps trying.")
    assert status_line(replace(lost, state=unset))[1] == "Lost. Start it.", "nothing tries"
    stopped = replace(lost, practice=True)  # a kept practice lab beside no practice cluster
    assert (next_step(stopped).action, status_line(stopped)[1]) == ("leave", "Start it.")
    step = next_step(replace(stopped, factor=20.0))
    assert (step.action, step.reason) == ("refresh_now", "labtui keeps trying; u tries now."), "only cut off"
    over = replace(stopped, state=replace(view.state, connection=replace(gone, hint=lab_state.CLUSTER_OVER)))
    assert (next_step(over).action, status_line(over)) == ("export", ("warning", lab_state.CLUSTER_OVER))
    answer, run = (CheckItem("", "Missing.", kind=kind) for kind in ("answers", "runs"))
    made = TaskCheck(task_id="10.3", status="partial", items=(replace(run, missing=""), answer), missing="")
    checks = {"10.6": replace(made, task_id="10.6", items=(run, answer)), "10.3": made}
    assert next_step(replace(over, checks=checks)).action == "export", "no run can be made"
    assert next_step(replace(over, checks=checks, task_id="10.3")).label == "Answer question 1"


@pytest.mark.parametrize(("outcome", "said"), [("completed", "done in"), ("cancelled", "cancelled after")])
def test_runs_of_one_job_say_how_long_each_took(outcome, said):
    """By the clock in their log: the first from the job's start, the next from the end of the one before."""
    runs = {}
    for number, ends in enumerate((NOW - 90, NOW - 20), 1):
        run = one_run(number, started=True, epochs=(sample(1, ended_at=ends), sample(2, ended_at=ends)))
        runs[number] = replace(run, outcome=outcome, phase=RunPhase(said.split()[0]))
    for start, first in ((NOW - 100, "0:10"), (None, "0:09")):  # not told yet: from the first epoch's start
        job = replace(sent(JobPhase.FINISHED, start_time=start, end_time=NOW), run_ids=(1, 2))
        view = seen(LabState(runs=runs, submissions={"lt1": job}))
        told = [state_text(view, line, ROLES, 26).plain for line in view.lines]
        assert told == [f"{said} {first}", f"{said} 1:10"]


def test_the_next_task_is_the_one_that_check_names():
    done = {"status": "done", "items": (CheckItem(sentence="It ran."),), "missing": ""}
    checks = {task.id: TaskCheck(task_id=task.id, **done) for task in EDITION.tasks}
    online = LabState(connection=ConnectionState(status="online"))
    view = View(state=online, edition=EDITION, task_id="10.5", checks=checks)
    assert next_step(view).reason.startswith("All tasks are done.")
    shown = replace(view, deck="deck.pdf")
    assert next_step(shown).label == "Hand in deck.pdf"
    told = next_step(replace(shown, practice=True)).reason
    assert "practice runs; hand in one of real runs: `labtui init`" in told
    for name, what in (("hpc4ai-ch10", "slides"), ("sa-miri-2021-ex12", "report")):
        assert next_step(replace(view, edition=load_edition(name))).label == f"Export the {what}"
    checks |= {name: replace(checks[name], status="open", missing="Run it.") for name in ("10.3", "10.6")}
    assert next_step(view).label == "Go to 10.3" and view.progress is not None
    assert (view.progress.current, view.progress.done) == ("10.3", 5)


def test_a_cancelled_job_is_told_in_the_list_and_in_words():
    begun = TaskCheck(task_id="10.6", status="partial", items=(), missing="Make the change.")
    view = seen(LabState(runs={1: one_run()}), task_id="10.6", checks={"10.6": begun})
    assert (task_word(view), title_remark(view)) == ("no run yet", "")
    how = {"task_id": "10.6", "phase": RunPhase.CANCELLED, "outcome": "cancelled"}
    larger = replace(spec(), model="ResNet152")
    cancelled = {number: one_run(number, larger, **how) for number in (6, 7)}
    view = replace(seen(LabState(runs=cancelled)), task_id="10.6")
    assert headline(view) == "Runs 6, 7 were cancelled."
    assert task_word(view) == "cancelled" and view.task_line.sign == "⊘"  # type: ignore[union-attr]
    assert "Runs 6, 7 were cancelled." in task_pane.task_page(view, ROLES, 90, whole=False).plain
    failed = {**cancelled, 6: replace(cancelled[6], phase=RunPhase.FAILED, outcome="oom")}
    view = replace(seen(LabState(runs=failed)), task_id="10.6")
    assert headline(view).startswith("Run 6 failed: out of memory.")
    later = one_run(8, replace(spec(gpus=2), model="ResNet152"), task_id="10.6", phase=RunPhase.DONE)
    view = replace(seen(LabState(runs={6: failed[6], 8: later})), task_id="10.6")
    assert view.task_line.word == "failed", "until that size is run"  # type: ignore[union-attr]
    own = one_run(9, task_id="", phase=RunPhase.FAILED, outcome="oom")
    view = seen(LabState(runs={9: own}), task_id="", checks={"10.6": begun})
    assert (task_word(view), view.tasks[-1].sign) == ("failed", "✘") and next_step(view).label != "Run again"
    said = "These jobs belong to no task. `labtui submit FILE` sends another.\n\nr shows"
    assert task_pane.task_page(view, ROLES, 90, whole=False).plain.startswith(said)
    chapter = load_edition("hpc4ai-ch11")
    first, other, *_ = (plan.spec for plan in chapter.task("11.2").runs)  # type: ignore[union-attr]
    made = {7: one_run(7, other, phase=RunPhase.FAILED), 8: one_run(8, first, outcome="completed")}
    view = View(state=LabState(runs=made), edition=chapter)
    assert [line.run_id for line in view.failures("11.2", view.runs.values())] == [7], "8 has another batch"
    done = replace(own, run_id=1, outcome="completed", phase=RunPhase.DONE)
    asked = {"lt1": replace(sent(JobPhase.FINISHED), cancelling=True, run_ids=(9,), runs=(spec(),))}
    gone = replace(own, phase=RunPhase.CANCELLED, outcome="cancelled")
    for number, ran, word in ((8, gone, "cancelled"), (10, gone, "done"), (10, own, "done")):  # as the newest
        runs = {9: ran, number: replace(done, run_id=number, token="lt2", spec=larger)}
        mine = LabState(runs=dict(sorted(runs.items())), submissions=asked)
        assert seen(mine, task_id="", checks={"10.6": begun}).tasks[-1].word == word
    files = {"b": replace(sent(JobPhase.FINISHED), job_file="b.slurm")}
    mine = LabState(runs={1: done, 2: replace(own, run_id=2), 9: replace(own, token="b")}, submissions=files)
    assert [line.run_id for line in View(state=mine).failures("", seen(mine, task_id="").lines)] == [2, 9]
    for script, left in ("my.py", [5]), ("", [2, 5]):  # without a script two files need not train the same
        state, plan = LabState(), replace(spec(), model="", script=script, unknown=("model",))
        for n, name in (1, "a.slurm"), (2, "bad.slurm"), (3, "good.slurm"), (5, "a.slurm"):
            state = changes.planned(f"{n}", {n: plan}, job_file=name, task_id="")(state)
        ends = {n: replace(state.runs[n], phase=RunPhase.FAILED, outcome="failed") for n in (2, 5)}
        ends |= {n: replace(done, run_id=n, token=f"{n}", spec=replace(plan, model="MLP")) for n in (1, 3)}
        view = View(state=replace(state, runs=dict(sorted(ends.items()))))
        assert [line.run_id for line in view.failures("", view.runs.values())] == left


def test_the_runs_stand_by_size_and_what_tells_them_apart_has_its_name_above_it():
    """Chapter 12's comparison: one network on two data sets, and a size that was sent once more."""
    chapter = load_edition("hpc4ai-ch12")
    sent = [("tiny-224", 32), ("micro-224", 8), ("micro-224", 32), ("tiny-224", 4), ("micro-224", 4)]
    runs = {}
    for number, (data, gpus) in enumerate(sent, 1):
        what = replace(spec(gpus=gpus, batch=128 * gpus), model="vit", data_set=data)
        ended = {"phase": RunPhase.DONE, "outcome": "finished", "total_seconds": Interval.exact(4176 / gpus)}
        runs[number] = one_run(number, what, task_id="12.3", **ended)

    def table(*numbers):
        view = seen(LabState(runs={each: runs[each] for each in numbers}))
        columns, rows = table_of(replace(view, edition=chapter, task_id="12.3"), ROLES, 118)
        assert all(str(row[-3]) == "1.16" for row in rows.values()), "GPU-hours; no run tells memory"
        return columns[2].title, [tuple(map(str, row[1:4])) for row in rows.values()]

    assert table(1, 2, 3, 4, 5) == ("data set", [
        ("4", "tiny-224", "4"), ("1", "tiny-224", "32"),
        ("5", "micro-224", "4"), ("2", "micro-224", "8"), ("3", "micro-224", "32"),
    ])  # fmt: skip
    assert table(2, 3)[0] == "GPUs", "of one data set nothing is said"
    runs[2] = replace(runs[2], spec=replace(runs[2].spec, model="custom"))
    assert table(2, 3) == ("model", [("2", "custom", "8"), ("3", "ViT-H/14", "32")])


@pytest.mark.parametrize("width", [78, 86, 118])
@pytest.mark.parametrize("name, task", [("hpc4ai-ch10", "10.6"), ("thesis-2019", "7"), ("thesis-2019", "3")])
def test_a_run_that_waits_trains_and_ends_changes_no_column(name, task, width):
    edition, heads = load_edition(name), set()
    plans = edition.task(task).runs[:2]  # type: ignore[union-attr]
    for phase, read in (("queued", 0), ("running", 0), ("running", 2), ("done", 2)):
        epochs = tuple(sample(at, metrics={"val_accuracy": 0.7}) for at in range(1, read + 1))
        more = {"task_id": task, "phase": RunPhase(phase), "epochs": epochs, "images": 50_000}
        runs = {at: one_run(at, plan.spec, token=f"lt{at}", **more) for at, plan in enumerate(plans, 1)}
        view = replace(seen(LabState(runs=runs)), edition=edition, task_id=task)
        heads.add(tuple(column.key for column in table_of(view, ROLES, width)[0]))
    assert len(heads) == 1


@pytest.mark.parametrize("width, failed", [(78, ""), (86, "failed: "), (90, "")])
def test_no_state_is_cut_batches_that_differ_are_shown_and_what_no_log_tells_is_left_out(width, failed):
    runs = {}
    for number, (batch, end) in enumerate(((2048, "time-limit"), (65536, "oom")), 1):
        run = in_epochs(NOW - 9, NOW, what=spec(batch=batch), phase=RunPhase.FAILED, outcome=end)
        runs[number] = replace(run, run_id=number)
    columns, rows = table_of(seen(LabState(runs=runs)), ROLES, width)
    titles = [column.title for column in columns]
    assert sum(column.width + 2 for column in columns) <= width and "images/s" in titles
    assert {str(row[-1]) for row in rows.values()} == {f"{failed}out of memory", f"{failed}time limit"}
    assert [str(row[titles.index("per GPU")]) for row in rows.values()] == ["65,536", "2,048"]
    done = {"phase": RunPhase.DONE, "outcome": "completed"}
    for gpus in (3, 4):
        runs[gpus] = replace(in_epochs(NOW - 30, NOW - 20, what=spec(gpus=gpus - 2), **done), run_id=gpus)
    columns, rows = table_of(seen(LabState(runs=runs)), ROLES, 71)
    assert {str(row[-1]) for row in rows.values()} == {"done", "failed"}, "a long state gives way"
    assert "efficiency" in {column.key for column in columns}
    runs = {number: one_run(number, replace(spec(), unknown=("n_gpus",))) for number in (1, 2)}
    assert "gpus" not in {column.key for column in table_of(seen(LabState(runs=runs)), ROLES, width)[0]}


def test_one_gpu_against_the_cpu_is_the_result_of_its_task():
    runs, submissions = {}, {}
    for number, (task, gpus, seconds) in enumerate((("10.3", 0, 215.0), ("10.4", 1, 14.0)), 1):
        epochs = tuple(sample(each, seconds=Interval.around(seconds, 0.1)) for each in (1, 2))
        how = {"token": f"lt{number}", "task_id": task, "phase": RunPhase.DONE, "started": True}
        how |= {"outcome": "completed", "images": 50_000, "framework": "Keras", "epochs": epochs}
        runs[number] = one_run(number, spec(gpus=gpus, batch=256, epochs=2), **how)
        submissions[f"lt{number}"] = SubmissionState(
            token=f"lt{number}", task_id=task, form="cpu", job_name="j", run_ids=(number,), planned_at=NOW,
            status=SubmissionStatus.ACCEPTED, job=JobView(job_id=str(number), phase=JobPhase.FINISHED),
        )  # fmt: skip
    items = (CheckItem("the CPU ran", kind="runs"), CheckItem("one GPU ran", missing="Run it.", kind="runs"))
    checks = {"10.4": TaskCheck(task_id="10.4", status="partial", items=items, missing="Run it.")}
    before = seen(LabState(runs={1: runs[1]}, submissions=submissions), checks=checks, task_id="10.4")
    assert headline(before) == "1 of 2 runs done. Press s to plan 1 run."
    assert task_word(before) == "1 of 2 runs"
    alone = replace(before, task_id="10.3")
    assert result_parts(alone) == ("215 s", "an epoch on the CPU", "233 images per second")
    untold = replace(runs[1], spec=replace(runs[1].spec, unknown=("n_gpus",)))
    untold = replace(seen(LabState(runs={1: untold}, submissions=submissions)), task_id="10.3")
    assert (*result_parts(untold)[:2], untold.charted[0].label) == ("215 s", "an epoch", "ResNet50")
    other = replace(runs[1], run_id=9, token="lt9", spec=replace(runs[1].spec, model="torch_mlp"))
    sent = submissions | {"lt9": replace(submissions["lt1"], token="lt9", run_ids=(9,), job_file="a.slurm")}
    for told, of in ({9: other}, "j, torch_mlp, not ResNet50"), ({1: runs[1], 9: other}, "ResNet50"):
        view = seen(LabState(runs=told, submissions=sent), task_id="10.3")
        assert result_parts(view)[1] == f"an epoch on the CPU ({of})", "the plan's network comes first"
    written = replace(checks["10.4"], items=(items[0], replace(items[1], kind="answers")))
    assert task_word(replace(before, checks={"10.4": written})) == "runs done"
    assert replace(before, checks={}).tasks[3].word == "", "not 'open' before it was looked at"
    view = replace(seen(LabState(runs=runs, submissions=submissions)), task_id="10.4")
    assert [line.run_id for line in view.lines] == [1, 2], "the CPU's run is shown beside the GPU's"
    assert result_parts(view)[:2] == ("15.4", "as fast on one GPU as on the CPU")
    told = {charts_pane.empty_chart(view, each).message for each in ("speedup", "efficiency")}
    assert told == {"This task has no runs on several GPUs."}
    first = first_chart(view, view.charts)
    assert first.family == "cpu-gpu" and "times as fast as the CPU" in first.message
    begun = runs_pane.glance_chart(seen(LabState(runs={1: in_epochs(NOW - 9, NOW)})))
    assert begun is not None and (begun.view, begun.measured) == ("speedup", ()), "it stays the same chart"
    thesis = replace(view, edition=load_edition("thesis-2019"))
    line = Series(name="x", points=(Point(x=1, y=1), Point(x=2, y=2)))
    kinds = ("speedup", "error", "batch-accuracy", "whole-training")
    charts = [make_chart(each, [line], message=each) for each in kinds]
    jacobi = replace(view, edition=load_edition("hpc4ai-ch6"), task_id="6.7")
    assert charts_pane.empty_chart(jacobi, "throughput").message == "This program prints times only."
    pi = replace(view, edition=load_edition("hpc4ai-ch4"), task_id="4.4")
    empty = [charts_pane.empty_chart(each, "time") for each in (pi, jacobi)]
    assert [(each.x_label, each.y_label) for each in empty] == [("processes", "seconds"), ("GPUs", "seconds")]
    sweet = replace(view, edition=load_edition("hpc4ai-ch12"), task_id="12.4")
    asked = (*(replace(thesis, task_id=each) for each in ("1", "2", "8")), sweet)
    families = [first_chart(each, charts).family for each in asked]
    assert families == [each.family for each in charts] and asked_families(sweet.task) == {"whole-training"}
    assert "speedup" not in {column.key for column in table_of(view, ROLES, 120)[0]}, "no other size"


def test_the_chart_beside_the_runs_has_the_selected_one_before_the_others_in_grey():
    runs = {}
    for number in range(1, 9):
        run = in_epochs(NOW - 9, NOW, what=spec(f"net{number % 2}", 0), task_id="", outcome="completed")
        runs[number] = replace(run, run_id=number, outcome=None if number == 5 else run.outcome)
    for number in runs:  # others have the same configuration
        chart = runs_pane.glance_chart(seen(LabState(runs=runs), task_id="", chosen=number))
        assert chart is not None and chart.heading == f"Time of each epoch of run {number} (grey: other runs)"
        others = [point.run for each in chart.series for point in each.points if each.role == "other"]
        assert [{point.run for point in each.points} for each in chart.measured] == [{number}]
        assert len(set(others)) >= 2 and {run % 2 for run in others} == {number % 2}, "of its script only"
    one = replace(runs[2], task_id="10.3", phase=RunPhase.DONE)
    long = replace(in_epochs(*[NOW] * 40, what=spec("net0", 0), task_id="", outcome="completed"), run_id=8)
    chart = runs_pane.glance_chart(seen(LabState(runs=runs | {8: long}), task_id="", chosen=2))
    assert chart.x_ticks[-1][0] == max(p.x for each in chart.series for p in each.points) == 2, "as run 2"
    runs = {1: replace(one, run_id=1), 9: replace(one, run_id=9, token="lt9", practice=True)}
    runs[3] = one_run(3, task_id="10.3", phase=RunPhase.QUEUED)
    real = {"form": "cpu", "job_name": "j", "run_ids": (9,), "planned_at": NOW}
    sent = {"lt9": SubmissionState(token="lt9", task_id="10.3", **real)}
    for there, chosen, of in ((runs, 9, "9 (small run)"), ({9}, 9, "9 (small run)"), (runs, 3, "1")):
        state = LabState(runs={number: runs[number] for number in there}, submissions=sent)
        chart = runs_pane.glance_chart(view := seen(state, chosen=chosen, task_id="10.3"))
        assert chart is not None and chart.heading == f"Time of each epoch of run {of}"
        assert len(there) > 1 or guidance.instead_of_chart(view).endswith("compared. r shows each alone.")
        assert {point.run for each in chart.series for point in each.points} == {int(of[0])}


def test_a_run_that_ended_without_an_epoch_is_named_in_the_results():
    ended = one_run(outcome="time-limit", phase=RunPhase.FAILED, started=True)
    runs = {1: ended, 2: replace(ended, run_id=2, outcome="unfinished"), 3: one_run(3, outcome="unfinished")}
    runs[4] = one_run(4, outcome="completed", phase=RunPhase.DONE)
    runs[5] = replace(runs[4], run_id=5, notes=(MIXED,))
    assert messages.note_lines(compute.compute_results(measured_from_state(LabState(runs=runs)))) == [
        "Not counted: run 1, no epoch was finished: it was stopped by its time limit.",
        "Not counted: run 2, no epoch was finished: it ended early.",
        "Not counted: run 4, no epoch time was read: see `labtui parse `, then set log_patterns in lab.toml.",
        f"Not counted: run 5, no epoch time was read: {MIXED}.",
    ]
    view = seen(LabState(runs=runs), chosen=4)
    assert guidance.instead_of_chart(view).startswith("Run 4 is in no chart: no epoch time was read")
    assert "Not counted: no epoch time" in run_facts(view, view.runs[4], (), ROLES).plain
    two = in_epochs(NOW - 9, NOW, what=spec(gpus=2), outcome="completed", phase=RunPhase.DONE)
    other = one_run(2, replace(spec(), extra_args=("--lr_policy", "naive")), phase=RunPhase.RUNNING)
    later = seen(LabState(runs={1: two, 2: other, 3: one_run(3, phase=RunPhase.RUNNING, started=True)}))
    assert guidance.instead_of_chart(later) == "Run 3 is running. The speedup comes with run 3 (one GPU)."
    assert not runs_pane.glance_chart(seen(later.state, task_id="10.7")).measured, "it compares others' runs"


def test_the_use_of_gpus_is_that_of_the_run_s_own(tmp_path):
    path = tmp_path / "gpu.csv"
    rows = [f"2026/11/21 09:40:00.250, {gpu}, {80 if gpu == 0 else 0} %" for gpu in range(4)]
    path.write_text("\n".join(["timestamp, index, utilization.gpu [%]", *rows, ""]))
    began = 1795254000.0
    assert [gpu_load(tmp_path, path, gpus, (began, began), 0) for gpus in (1, 4)] == [(0.8,), (0.2,)]
    assert not any(gpu_load(tmp_path, path, 1, at, 0) for at in ((began + 1, began), (began, began + 1)))


@pytest.mark.parametrize(("seconds", "text"), [(9, "0:09"), (79, "1:19"), (3723, "1:02:03"), (-4, "0:00")])
def test_spans_read_as_a_clock_and_a_number_stays_beside_its_unit(seconds, text):
    assert clock_span(seconds) == text
    times = Interval(763.0, 763.0, 4557.0), Interval(73.0, 72.9, 73.2), Interval(52.0, 49.6, 58.2)
    told = [range_text(each, each.value) for each in times]
    assert told == ["12:43 to 75:57", "about 1:13", "50 to 58"] and words.span_text(58.2) == "58 s"
    assert sentences("For yet. Press D.", 16) == "For yet.", "a key is named whole or not at all"
    small = _next(guidance.NextStep("D", "The files in /gpfs/projects/nct_000/cifar are small."), ROLES, 20)
    assert small.plain.endswith("The files in …/cifar\nare small."), "not a path in pieces"
    assert wrap("an epoch of 5.38 s, 70 % of it", 15) == ["an epoch of", "5.38 s, 70 % of", "it"]


def test_a_task_takes_as_many_lines_of_the_list_while_it_runs():
    phases = (None, RunPhase.RUNNING)
    for title, lines in (("1, 2 and 4 GPUs", 1), ("The impact of GPU parallelism", 2)):
        rows = [TaskLine(task_id="10.5", title=title, status="open", live=live) for live in phases]
        texts = [task_text(row, View(state=LabState()), ROLES, 30, lines=3).plain for row in rows]
        assert [len(text.splitlines()) for text in texts] == [lines, lines]
        assert title in " ".join(texts[1].split()).replace("running ", "") and "▶" in texts[1]
    rows = [replace(row, title="Where the scaling ends and why it ends so") for row in rows]
    texts = [task_text(row, View(state=LabState()), ROLES, 78, lines=3).plain for row in rows]
    assert "…" not in "".join(texts)


@pytest.mark.parametrize(("batch", "advice"), [
    (8192, "Try a batch of 2,048 per GPU, the same on every size."),
    (2048, "Try a batch of 1,024 per GPU, the same on every size."),
    (1, "There is no smaller batch. R plans it as it was."),
    (0, "Set a smaller batch, then submit mine.slurm again. R plans it as it was."),
])  # fmt: skip
def test_after_an_out_of_memory_the_plan_s_batch_is_advised_where_the_run_s_was_larger(batch, advice):
    run = one_run(1, spec(batch=batch), outcome="oom", diagnosis=(OOM,), phase=RunPhase.FAILED)
    online = ConnectionState(status="online")
    own = {"lt1": replace(sent(JobPhase.FINISHED), job_file="mine.slurm" * (batch == 0))}
    view = seen(LabState(runs={1: run}, submissions=own, connection=online))
    card = error_card(view, view.runs[1], ROLES, 80).plain
    assert next_step(view).label == "Run again" and "R  Run again " in card and advice in card


def test_a_failed_run_is_told_while_others_of_its_task_go_on():
    bad, going = one_run(2, spec(gpus=2), outcome="failed", phase=RunPhase.FAILED), in_epochs(NOW)
    job, online = sent(JobPhase.RUNNING, start_time=NOW - 40), ConnectionState(status="online")
    state = LabState(runs={1: going, 2: bad}, submissions={"lt1": job}, connection=online)
    view = seen(replace(state, refreshed_at=NOW, cluster_time=NOW))
    assert (next_step(view).action, title_remark(view)) == ("retry_run((2,))", "  run 2 failed")
    asked = [CheckItem("", each, kind="answers") for each in ("?", "", "?")]
    for runs, missing in (({1: going}, "Run it."), ({}, "")):
        items = (CheckItem("", missing, kind="runs", run_id=1), *asked)
        check = TaskCheck(task_id="10.5", status="partial", items=items, missing="?")
        begun = replace(view, state=replace(view.state, runs=runs), checks={"10.5": check})
        assert next_step(begun).label == "Answer question 1", "the first without an answer, not the second"
        assert next_step(begun).reason.startswith("Meanwhile run 1 has " * bool(runs))
    over, waits = {"10.5": replace(check, items=())}, one_run(3, spec(gpus=2), phase=RunPhase.WAITING)
    done = replace(going, phase=RunPhase.DONE, outcome="completed")
    for first, run_id in (going, 1), (waits, 1), (done, 2):  # the failed one, once nothing trains or waits
        assert selected(replace(state, runs={1: replace(first, run_id=1), 2: bad}), over) == run_id
    model = model_of(ended := replace(state, runs={1: done, 2: replace(done, run_id=2)}))
    assert model.view().run_id == 1, "the first row"
    model = model_of(replace(state, runs={1: done, 2: replace(going, run_id=2)}))
    assert model.view().run_id == 2 and (setattr(model, "state", ended), model.view().run_id)[1] == 2
    for runs, label in (({3: waits}, "Watch the runs"), ({1: going}, "Watch the log")):
        state = replace(view.state, runs=runs, submissions={})
        assert next_step(replace(begun, checks=over, state=state)).label == label
    for made, label in ((1, ""), "Plan 2 runs"), ((None, ""), "Plan 3 runs"), ((1, "small"), "Plan the runs"):
        runs = (made, (2, ""), (None, ""))  # None: it is no run of the plan
        asked = (*(CheckItem("", "?", kind="runs", run_id=at, mark=mark) for at, mark in runs), *items)
        waits = replace(begun, checks={"10.5": replace(check, items=asked)}, state=state)
        assert next_step(waits).label == label, "before any answer"
        assert ("small" in made) is (next_step(waits).reason == "?"), "as `labtui check` says it"
        assert next_step(replace(waits, unchecked_from=1)).label == "Answer question 1", "not planned twice"
    asked = (CheckItem("", "?", kind="runs", run=spec(), run_id=1, mark="small"),)
    waits = replace(waits, checks={"10.5": replace(check, items=asked)})
    assert next_step(waits).action == "doctor", "the same again would be as small"
    items = tuple(CheckItem("", "?", kind="runs", run=spec(), task_id=each) for each in "23467")
    check = TaskCheck(task_id="8", status="open", items=items, missing="?")
    eight = View(state=LabState(), edition=load_edition("thesis-2019"), task_id="8", checks={"8": check})
    assert headline(eight) == "This task compares the runs of 2, 3, 4, 6 and 7."
    own = LabState(runs={1: going, 2: one_run(2, token="own", task_id="")})
    assert guidance.instead_of_runs(seen(own, task_id="10.7")) == "This task compares the runs of 10.5."
    half = replace(check, items=(replace(items[0], missing=""), *items[1:]))
    assert [each.tasks[-1].sign for each in (eight, replace(eight, checks={"8": half}))] == ["○", "◐"]


def test_a_run_that_is_meant_to_fail_asks_for_nothing_and_rates_have_their_unit():
    run = one_run(1, spec(batch=7), outcome="oom", diagnosis=(OOM,), phase=RunPhase.FAILED, task_id="15.2")
    met = CheckItem("the run ended", evidence="run 1", kind="runs")
    check = TaskCheck(task_id="15.2", status="partial", items=(met,), missing="")
    tokens = {"unit": "tokens", "throughput": Interval.exact(10_485)}
    done = replace(run, run_id=2, outcome="completed", phase=RunPhase.DONE, **tokens)
    online = ConnectionState(status="online")
    fifteen = {"edition": load_edition("hpc4ai-ch15"), "task_id": "15.2", "checks": {"15.2": check}}
    view = View(state=LabState(runs={1: run}, connection=online), chosen=1, now=NOW, **fifteen)
    card = error_card(view, view.runs[1], ROLES, 80).plain
    assert "This is what the task asks for." in card and "R  Run again" not in card
    row = state_text(view, view.runs[1], ROLES, 60).plain
    assert row == "failed: out of memory, as the task asks" and guidance.unit_of(view) == "tokens", "no log"
    runs = {n: replace(done, run_id=n, task_id=f"15.{n}") for n in (1, 2, 3)}
    compared = View(state=LabState(runs=runs), **(fifteen | {"task_id": "15.3"})).lines
    assert [line.run.task_id for line in compared] == ["15.1", "15.3"], "the runs that its chart compares"
    assert "epoch" not in [column.title for column in table_of(view, ROLES, 110)[0]]
    assert runs_pane.glance_chart(view).heading == "Tokens per second"  # type: ignore[union-attr]
    assert not next_step(view).action.startswith("retry_run")
    assert headline(view) == "Run 1 failed: out of memory. The task asks for no more."
    before = replace(view, state=LabState(connection=online))
    assert guidance.instead_of_chart(before).endswith("as the runs end."), "no second epoch is planned"
    both = seen(LabState(runs={2: done}, connection=online))
    assert "tokens/s" in [column.title for column in table_of(replace(both, task_id="15.2"), ROLES, 120)[0]]


def oom_and_done() -> LabState:
    """Run 1 with a batch that no GPU holds, run 2 of the same size with the task's, run 3 cancelled."""
    text = "  OOM when allocating " + "a tensor of shape [50000,64,64,64] " * 8 + "on the GPU"
    one = one_run(1, spec(batch=50_000), phase=RunPhase.FAILED)
    return LabState(
        runs={ 1: replace(one, outcome="oom", diagnosis=(replace(OOM, text=text),)),
        2: replace(one, run_id=2, token="b", spec=spec(), phase=RunPhase.CANCELLED, outcome="cancelled"),
        3: replace(one, run_id=3, token="c", spec=spec(), phase=RunPhase.DONE, outcome="completed"),
        4: replace(one, run_id=4, token="d", outcome="oom", diagnosis=(OOM,)), },
        connection=ConnectionState(status="online"),
    )  # fmt: skip


@pytest.mark.parametrize("width", [78, 86])
def test_the_quote_of_a_failed_run_is_whole_and_the_bar_stands_before_each_of_its_lines(width):
    view = seen(oom_and_done())
    card = error_card(view, view.runs[1], ROLES, width).plain
    assert all(len(line) <= width for line in card.splitlines())
    quote = card.partition("\n\n")[0].splitlines()
    assert all(line.startswith("▌ ") and len(line) <= width for line in quote)
    said = " ".join(line.removeprefix("▌ ") for line in quote[:-1])
    assert said.split() == view.runs[1].run.diagnosis[0].text.split()
    both = seen(replace(view.state, runs={**view.state.runs, 5: replace(view.state.runs[4], run_id=5)}))
    assert ", run 4 or 5\n" in error_card(both, both.runs[5], ROLES, width).plain, "not whose it is"
    assert log_pane.read_as(replace(both, chosen=5), "out") == {9: "run 4 or 5  error"}, "as the card says"


def test_a_size_that_is_done_with_a_smaller_batch_asks_for_nothing():
    view = seen(oom_and_done())
    card = error_card(view, view.runs[1], ROLES, 80).plain
    assert "Run 3 trained with a batch of 2,048 per GPU." in card and "R  Run again" not in card
    assert "Open the log" not in card, "there is no job"
    same = guidance.NextStep("", "Run 3 is the same again, and is done.")
    assert guidance.remedy(view, view.runs[2]) == same
    late = one_run(outcome="time-limit", phase=RunPhase.FAILED, started=True)
    told = [seen(LabState(runs={1: replace(late, last_begun=n)}), factor=n * 400.0) for n in (0, 1)]
    cut = replace(sent(JobPhase.FINISHED, time_limit_s=90.0), time_limit_minutes=120)
    told.append(seen(LabState(runs={1: late}, submissions={"lt1": cut}), factor=400.0))
    cards = [" ".join(error_card(each, each.runs[1], ROLES, 80).plain.split()) for each in told]
    assert "by its time limit before its log shows an epoch." in cards[0] and "clock" not in cards[0]
    assert "in epoch 1 of 5." in cards[1] and "On the practice clock, 400 times as fast" in cards[1]
    assert "shortened from 120 to 2 min. The new plan" in cards[2] and "clock" not in cards[2]
    trains = replace(view.state.runs[3], outcome=None, phase=RunPhase.RUNNING)
    now = seen(replace(view.state, runs={**view.state.runs, 3: trains}))
    assert guidance.remedy(now, now.runs[2]).reason.startswith("Run 3 is the same again, and is ")
    assert guidance.runs_to_retry(view) == (view.line,), "selected, if nothing misses it"
    check = TaskCheck(task_id=view.task_id, status="open", items=(CheckItem("", kind="runs"),), missing="")
    full = replace(view, checks={view.task_id: check})
    assert guidance.remedy(full, view.runs[4]) == guidance.NextStep("", "The task needs no other run.")
    none = replace(view, profile=replace(load_profile("mn5"), gpus_per_node=0))
    assert "this run needs another cluster" in guidance.remedy(none, view.runs[1]).reason
    open_ = {view.task_id: replace(check, items=(CheckItem("", "None.", kind="runs", run=spec()),))}
    bare = replace(none, state=LabState(), checks=open_)
    page = task_pane.task_page(bare, ROLES, 90, whole=False).plain
    assert "No run yet. Another cluster is needed first." in page and "s Plan" not in page
    assert [*table_of(view, ROLES, 86)[1]] == ["3", "1", "2", "4"], "what failed and is not needed is last"
    own = LabState(runs={at: replace(run, task_id="") for at, run in view.state.runs.items()})
    assert [*table_of(seen(own, task_id=""), ROLES, 86)[1]] == ["1", "2", "3", "4"], "as in the queue"
    assert selected(view.state) == 4  # what happened last
    assert selected(view.state, full.checks) == 3, "the run that counts"


def test_what_a_log_says_of_the_whole_training_stands_beside_the_chart():
    run = replace(measured(("ResNet50", 1, 9.0)).runs[1], phase=RunPhase.DONE)
    told = replace(run, total_seconds=Interval(525.5, 525.0, 526.0), gpu_memory=Interval(53.0, 53.0, 53.99))
    last = replace(told.epochs[-1], metrics={"accuracy": 0.746, "val_accuracy": 0.709, "val_top1": 70.9})
    view = seen(LabState(runs={1: replace(told, epochs=(*told.epochs[:-1], last))}))
    assert table_of(view, ROLES, 86)[1]["1"][-4:-1] == ["0.008", "525 s", "53"]
    facts = run_facts(view, view.runs[1], (), ROLES).plain
    assert "training 525 s in all" in facts and "GPU mem. 53 GiB" in facts
    timed = seen(LabState(runs={1: one_run(program="jacobi", epochs=(sample(1),))}))
    assert log_pane.read_as(timed, "out") == {11: "9.00 s"}, "a program's time counts"
    assert "accuracy 74.6 %" in facts and "val. acc 70.9 %" in facts, "of which set is said"
    tuned = replace(run.spec, model="ResNet50, wide", arguments=("--lr-policy", "linear"))
    state = LabState(runs={1: replace(view.state.runs[1], task_id="2", spec=tuned)})
    study = replace(seen(state), edition=load_edition("thesis-2019"), task_id="2")
    assert headline(study) == "Top-1 accuracy in validation: 70.9 % at a global batch of 2,048"
    for each, column in ((view, "speedup"), (study, "accuracy")):
        assert column in {shown.key for shown in table_of(each, ROLES, 120)[0]}


def test_the_page_of_tasks_tells_waiting_runs_apart_as_the_task_does():
    tuned = [replace(spec(), extra_args=("--lr_policy", each)) for each in ("naive", "linear")]
    runs = {at: one_run(at, each) for at, each in enumerate(tuned, 1)}
    says = (f"{each.label}: run {at} is waiting." for at, each in enumerate(tuned, 1))
    items = tuple(CheckItem("", next(says), kind="runs", run=run.spec, run_id=at) for at, run in runs.items())
    check = TaskCheck(task_id="10.5", status="open", items=items, missing="")
    view, app = seen(LabState(runs=runs), checks={"10.5": check}), SimpleNamespace(console=Console())
    screen = SimpleNamespace(view=view, app=app, has_class=bool, size=SimpleNamespace(height=40))
    told = _about(screen, ROLES, 90).plain  # type: ignore[arg-type]
    assert "GPU, naive: run 1 is waiting" in told and "GPU, linear: run 2 is waiting" in told, told


def test_charts_older_than_a_run_are_to_be_exported_and_complete_runs_ask_for_no_smaller_batch():
    old = "The speedup chart is older than run 2: export it again."
    items = (
        CheckItem(sentence="All sizes ran.", kind="runs", run=spec(), run_id=1),
        CheckItem(sentence="the speedup chart is exported", kind="charts", missing=old, stale=True),
    )
    check = TaskCheck(task_id="10.5", status="stale", items=items, missing=old)
    run = one_run(1, spec(batch=8192), outcome="oom", phase=RunPhase.FAILED, diagnosis=(OOM,))
    state = LabState(runs={1: run}, connection=ConnectionState(status="online"))
    view = replace(seen(state), checks={"10.5": check})
    step = next_step(view)
    assert (step.label, step.reason, str(view.count("charts"))) == ("Export the charts", old, "0/1")
    assert view.task_line is not None and view.task_line.word == "outdated", "as `labtui check` says"
    assert " outdated" in task_text(view.task_line, view, ROLES, 90).plain, "so does the page of tasks"
    assert next_step(replace(view, exporting="1 of 2")) == guidance.NextStep("Exporting ..."), "one export"
    page = task_pane.task_page(view, ROLES, 90, whole=True).plain
    assert f"○ {old}" in page and "is exported" not in page and "○ Charts       0/1" in page
    made = replace(check, items=(items[0], replace(items[1], missing="", stale=False)))
    view = replace(view, checks={"10.5": made}, deck="deck.pdf", deck_old=True)
    assert "exported; deck.pdf is outdated" in task_pane.task_page(view, ROLES, 90, whole=False).plain


def measured(*trained: tuple[str, int, float]) -> LabState:
    """Runs that are done: network, GPUs, seconds an epoch."""
    runs = {}
    for number, (name, gpus, seconds) in enumerate(trained, 1):
        epochs = tuple(sample(each, seconds=Interval.around(seconds, 0.1)) for each in (1, 2, 3))
        one = one_run(number, spec(name, gpus), token=f"t{number}", epochs=epochs)
        runs[number] = replace(one, outcome="completed", images=50_000)
    return LabState(runs=runs)


def test_of_two_networks_the_larger_speedup_is_the_number():
    small = [("ResNet50", 1, 9.0), ("ResNet50", 4, 4.0)]
    large = [("ResNet152", 1, 9.0), ("ResNet152", 4, 3.0)]
    number, said, _ = result_parts(seen(measured(*large, *small)))
    assert (number, said) == ("3.0", "as fast with 4 GPUs as with one (ResNet152)")
    runs = measured(*large).runs.items()
    mixed = {n: replace(each, spec=replace(each.spec, batch_size=4096)) for n, each in runs}
    assert result_parts(seen(LabState(runs=mixed)))[0] == "", "its batch per GPU is another"
    rates = {n: replace(each, framework="pytorch", images=32768) for n, each in runs}  # whole batches only
    assert result_parts(seen(LabState(runs=rates)))[1] == "as many images per second on 4 GPUs as on one"
    assert runs_pane.notes_of(seen(LabState(runs=rates))) == "", "the epochs have the same images"
    rates[max(rates)] = replace(rates[max(rates)], images=24576)
    assert runs_pane.notes_of(seen(LabState(runs=rates))).startswith("Speedup and efficiency compare images")


def test_the_headline_is_that_of_the_chart_where_runs_are_repeated():
    runs = dict(measured(("ResNet50", 1, 9.0), ("ResNet50", 4, 4.0), ("ResNet50", 4, 3.0)).runs)
    view = seen(LabState(runs=runs))
    (four,) = (row for row in view.results.rows if row.n_gpus == 4)  # type: ignore[union-attr]
    assert len(four.members) == 2 and four.speedup is not None
    small = {at: replace(run, spec=replace(run.spec, data_set="micro-224")) for at, run in runs.items()}
    others = {**small, 9: replace(runs[1], run_id=9, task_id="10.6")}
    assert result_parts(view)[1] == "as fast with 4 GPUs as with one"
    assert result_parts(seen(LabState(runs=others)))[1].endswith("(micro-224)")
    (chart, *_), told = view.charts, "B scales better."
    two = replace(view, charts=(replace(chart, view="speedup", message=told, series=chart.series * 2),))
    assert headline(two) == result_parts(two)[2] == told, "not one of them alone"
    assert result_parts(view)[0] == ratio_text(four.speedup)
    assert result_parts(view)[2] == f"{percent_text(four.efficiency)} efficient (mean of runs 2, 3)"
    mean = "efficient so far (mean of runs 2, 3)"
    for at, said in (1, mean), (3, "efficient"):  # run 3 is not in the mean yet
        going = seen(LabState(runs=runs | {at: replace(runs[at], outcome=None, phase=RunPhase.RUNNING)}))
        assert result_parts(going)[2].partition(" % ")[2] == said
        assert runs_pane.notes_of(going).endswith("Run 3 still trains: it is not in the mean.") is (at == 3)
    own = replace(runs[2].spec, unknown=("epochs",))
    mine = replace(runs[3], spec=replace(own, model="mine"))
    both = {3: mine, 4: replace(mine, run_id=4, task_id="")}
    jobs = {mine.token: replace(sent(JobPhase.RUNNING), run_ids=(3,))}
    view = model_of(LabState(runs=both, submissions=jobs)).view()
    assert [row.runs for row in view.results.rows] == [2] and len(view.lines) == 1, "as in all results"
    assert "mine on 4 GPUs: Pooled with run 4, of no task: the same" in runs_pane.notes_of(view)
    assert [{p.run for s in c.series for p in s.points} for c in view.charts if c.over_time] == [{3}] * 2
    untold = replace(runs[2], outcome=None, phase=RunPhase.RUNNING, spec=own)
    assert result_parts(seen(LabState(runs={1: runs[1], 2: untold})))[2].endswith("so far, after 3 epochs")


def test_networks_are_called_as_the_edition_calls_them():
    """In charts, numbers and the expected time; the script's own word for it is `vit`."""
    edition = load_edition("hpc4ai-ch12")
    state = published_lab(edition).state
    real = {"practice": False, "profile": SimpleNamespace(status="current")}
    real |= {"state": state, "edition": edition, "read_only": False, "clock": FrozenClock()}
    model = ViewModel(SimpleNamespace(**real))
    model.load_edition()
    view = model.view()
    rows = view.results.measured
    assert {row.model for row in rows} == {"ViT-H/14"}
    run = rows[0].members[0].run.spec
    measured = compute.compute_results(measured_from_state(state), images=edition.images).rows
    assert run.model == "vit" and run_seconds(run, edition, rows) == run_seconds(run, edition, measured)
