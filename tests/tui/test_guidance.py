"""The next step and the keys of the context, from states alone; keys of one's own; what the palette finds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from labtui.domain.events import ConnectionChanged, LabState, RunEnded
from labtui.domain.reduce import reduce_all
from labtui.lab.checks import CheckItem, TaskCheck
from labtui.session.labs import load_edition
from labtui.tui import actions, guidance, themes, view
from tests.tui.fed_session import NOW, finished_run, live_run, online, spec


def state_of(events: list[Any], task: str = "10.5", **more: Any) -> view.ViewState:
    edition = load_edition("hpc4ai-ch10")
    state = reduce_all(LabState(), [*online(), *events])
    run = max((each.run_id for each in state.runs.values() if each.task_id == task), default=None)
    return view.ViewState(state=state, edition=edition, task_id=task, run_id=run, now=NOW, **more)


def check(task: str, *items: CheckItem) -> dict[str, TaskCheck]:
    unmet = next((item for item in items if not item.met), None)
    status: Any = "open" if unmet else "done"
    return {task: TaskCheck(task_id=task, status=status, items=items, missing=unmet.missing if unmet else "")}


def item(kind: str, missing: str) -> CheckItem:
    return CheckItem(met=not missing, sentence="", missing=missing, kind=kind)


@pytest.mark.parametrize(
    ("kind", "missing", "action"),
    [
        ("runs", "ResNet50 has not been run yet.", "plan"),
        ("answers", "Question 1 has no answer yet.", "pane('answers')"),
        ("charts", "Export the speedup chart.", "export"),
        ("data-read", "Not checked yet.", "doctor"),
        ("edited", "Make ResNet152.py from ResNet50.py.", "start_copy"),
        ("edited", "ResNet152.py is still identical to ResNet50.py.", "edit"),
    ],
)
def test_the_first_missing_condition_names_the_key_that_brings_it(
    kind: str, missing: str, action: str
) -> None:
    step = guidance.next_step(state_of([], checks=check("10.5", item(kind, missing))))
    assert (step.sentence, step.action) == (missing, action)
    assert actions.named(step.action) is not None


def test_a_run_that_another_task_plans_is_missing_so_the_step_goes_there() -> None:
    elsewhere = replace(item("runs", "ResNet50 · CPU has not been run yet (task 10.3)."), task_id="10.3")
    shown = state_of(finished_run("lt1", "10.4", 1, spec(), "7"), "10.4", checks=check("10.4", elsewhere))
    step = guidance.next_step(shown)
    assert (step.action, step.task_id, step.label) == ("go_to_missing", "10.3", "go to 10.3")
    assert actions.named(step.action) is not None and "go_to_missing" in guidance.context_keys(shown, "task")
    assert guidance.next_step(replace(shown, task_id="10.3", checks={})).action != "go_to_missing"


def test_out_of_memory_offers_its_remedy_until_a_smaller_batch_was_planned() -> None:
    failed = finished_run("lt1", "10.5", 1, spec(), "7", outcome="oom")
    shown = state_of(failed, checks=check("10.5", item("runs", "x")))
    run = shown.state.runs[1]
    if not run.gpu_memory_ran_out:
        pytest.skip("the fed run says nothing of GPU memory")
    assert guidance.next_step(shown).action == "halve_batch"
    assert guidance.context_keys(shown, "runs")[0] == "halve_batch"
    again = finished_run("lt2", "10.5", 2, spec(batch=1024), "8")
    assert guidance.next_step(state_of([*failed, *again])).action != "halve_batch"


def test_of_three_sizes_the_one_that_failed_is_planned_again() -> None:
    def run(number: int, gpus: int, outcome: str) -> list[Any]:
        return finished_run(f"lt{number}", "10.5", number, spec(gpus=gpus), str(number), outcome=outcome)

    runs = [*run(1, 1, "completed"), *run(2, 2, "failed"), *run(3, 4, "completed")]
    shown = state_of(runs, checks=check("10.5", item("runs", "ResNet50 2 GPUs has not been run yet.")))
    step = guidance.next_step(shown)
    assert (step.action, [each.run_id for each in step.again]) == ("retry_run", [2])
    assert "2 GPUs (run 2) failed" in step.sentence
    later = state_of([*runs, *live_run("lt4", "10.5", 4, spec(gpus=2), "4", 1)], checks=shown.checks)
    assert not guidance.failed_runs(later)
    mended = state_of([*runs, *run(4, 2, "completed"), *run(5, 2, "failed")], checks=shown.checks)
    assert not guidance.failed_runs(mended), "a size that completed once is there"


def test_a_lost_connection_comes_first_and_rows_stop_claiming() -> None:
    going = live_run("lt1", "10.5", 1, spec(), "7", 3)
    lost = ConnectionChanged(at=NOW, status="offline", sentence="The connection broke.")
    shown = state_of([*going, lost])
    assert guidance.next_step(shown).action == "refresh_now"
    assert "Not connected" in view.lost_sentence(shown) and "2 s old" in view.lost_sentence(shown)
    (row,) = view.run_rows(shown)
    assert row.state == "? last: epoch 3"
    assert view.lost_sentence(state_of(going)) == ""


def test_while_runs_are_under_way_the_questions_are_next() -> None:
    going = live_run("lt1", "10.5", 1, spec(), "7", 3)
    waiting = check("10.5", item("runs", "not yet"), item("answers", "Question 1 has no answer yet."))
    assert guidance.next_step(state_of(going, checks=waiting)).action == "pane('answers')"
    keys = guidance.context_keys(state_of(going), "runs")
    assert keys[:2] == ("cancel_run", "end_after")
    assert "cancel_run" not in guidance.context_keys(state_of([]), "runs")


def test_a_task_without_runs_offers_no_submission() -> None:
    assert "plan" not in guidance.context_keys(state_of([], task="10.1"), "task")
    assert "plan" in guidance.context_keys(state_of([], task="10.5"), "task")


def test_all_done_names_the_hand_in() -> None:
    edition = load_edition("hpc4ai-ch10")
    done = {
        task.id: TaskCheck(task_id=task.id, status="done", items=(), missing="") for task in edition.tasks
    }
    shown = state_of([], checks=done)
    assert guidance.next_step(shown).action == "export"
    ready = guidance.next_step(replace(shown, deck="deck.pdf"))
    assert "Hand in deck.pdf" in ready.sentence and "Slides" in ready.sentence
    finished = finished_run("lt1", "10.5", 1, spec(), "7")
    assert "done already" in guidance.done_already(state_of(finished, checks=done))


def test_progress_counts_epochs_and_estimates_the_rest() -> None:
    from labtui.results.compute import compute_results
    from labtui.results.measured import measured_from_state

    shown = state_of(live_run("lt1", "10.5", 1, spec(gpus=4), "7", 3))
    shown = replace(shown, results=compute_results(measured_from_state(shown.state)))
    (going,) = view.live_progress(shown)
    assert (going.done, going.epochs) == (3, 5)
    assert going.seconds_left == pytest.approx(2 * 5.376, abs=0.1)
    assert view.task_progress(shown) == (3.0, 15.0)


# ------------------------------------------------------------------ keys


def test_no_key_has_two_meanings_in_one_place_and_no_letter_does_harm() -> None:
    for place in ("main", "plan", "app", "log", "charts", "answers"):
        keys = [key for each in actions.actions_in(place) for key in each.keys.split(",") if key]
        assert len(set(keys)) == len(keys), place
    assert all(
        len(key) > 1 for each in actions.ACTIONS if each.id == "cancel_run" for key in each.keys.split(",")
    )
    assert {each.name for each in actions.ACTIONS if each.keys in {"j", "k"}} == {
        "move('down')",
        "move('up')",
    }
    ids = [each.id for each in actions.ACTIONS]
    assert len(set(ids)) == len(ids)


def test_keys_of_ones_own_are_taken_but_harm_stays_guarded() -> None:
    try:
        problems = actions.use_keys({"doctor": "f5", "cancel_run": "k", "no_such": "x"})
        assert len(problems) == 2
        doctor = actions.named("doctor")
        assert doctor is not None and doctor.key_label == "f5"
        assert actions.own_keys() == {"doctor": "f5"}
    finally:
        actions.use_keys({})


def test_preferences_are_read_and_the_theme_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "labtui" / "settings.toml"
    monkeypatch.setattr(themes, "preferences_file", lambda: path)
    assert themes.read_preferences() == themes.Preferences()
    path.parent.mkdir()
    path.write_text('# mine\n[keys]\ndoctor = "f5"\n')
    themes.keep_theme("labtui-light")
    read = themes.read_preferences()
    assert (read.theme, dict(read.keys)) == ("labtui-light", {"doctor": "f5"})
    assert "# mine" in path.read_text()
    path.write_text("theme = [")
    assert "not TOML" in themes.read_preferences().problem


def test_a_run_that_ended_badly_can_be_planned_again() -> None:
    ended = finished_run("lt1", "10.5", 1, spec(), "7", outcome="time-limit")
    keys = guidance.context_keys(state_of([*ended, RunEnded(at=NOW, run_id=1, outcome="time-limit")]), "runs")
    assert "retry_run" in keys
