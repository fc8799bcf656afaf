"""Boxes tick on evidence, say what is missing, turn stale, and never fail a result for being surprising."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from labtui.domain.model import Interval, RunPhase, SubmissionStatus
from labtui.domain.run import join_names
from labtui.domain.state import LogState, PathStatus
from labtui.lab.checks import check_all, progress
from labtui.lab.evidence import Evidence, ExportFact, FileFact
from labtui.preflight.files import code_names
from labtui.session.labs import load_edition
from labtui.tui.view import View
from tests.lab.builders import EDITION, check, full, is_run, with_runs, with_submissions

OUTCOMES = [None, "completed", "unfinished", "oom", "time-limit", "cancelled", "failed"]


def test_evidence_stands_beside_every_tick():
    box = check("10.5", full())
    assert box.status == "done" and box.missing == ""
    assert all(item.met and item.evidence for item in box.items)
    first = box.items[0]
    assert first.sentence.startswith("ResNet50 · 1 GPU (batch 2,048)") and first.run_id == 3
    assert first.evidence == "run 3, job 30003, ResNet50-1.30003.out, lines 2, 4, 6 and 2 more"
    silent = with_submissions(with_runs(full(), of(1, 0, outcome="failed")), logs={"out": LogState()})
    assert check("10.5", silent).items[0].evidence == "run 3, job 30003", "it printed nothing"


def of(gpus: int, count: int | None = None, *, batch: int | None = None, **changes: object):
    """ResNet50's run on so many GPUs, changed: its first epochs, its batch, or fields of it."""

    def change(run):
        if not is_run(run, "ResNet50", gpus):
            return run
        if batch is not None:
            changes["spec"] = replace(run.spec, batch_size=batch, unknown=() if batch else ("batch_size",))
        return replace(run, **{"epochs": run.epochs[:count]} | changes)

    return change


def without(gpus: int):
    return lambda run: None if is_run(run, "ResNet50", gpus) else run


@pytest.mark.parametrize(("task", "change", "words"), [
    ("10.5", without(4), "ResNet50 · 4 GPUs: not run yet."),
    ("10.4", without(0), "ResNet50 · CPU: not run yet (task 10.3)."),
    ("10.5", of(4, 3, outcome=None, phase=RunPhase.RUNNING), "run 5 is running: 3 of 5 epochs read."),
    ("10.5", of(2, outcome=None, phase=RunPhase.UNKNOWN), "run 4 has no known end yet: 5 of 5 epochs"),
    ("10.5", of(2, 1), "run 4 has 1 epoch in its log; 2 are needed, as the first is warm-up."),
    ("10.5", of(2, 0, outcome="oom"), "run 4 ran out of memory. Run again (R, or `labtui retry`)."),
    ("10.5", of(2, outcome="cancelled"), "run 4 was cancelled. Run again"),
    ("10.5", of(2, batch=2048), "run 4 has a global batch of 2,048; 4,096 is planned."),
    ("10.5", of(2, 0, batch=2048, outcome="failed"), "run 4 failed, with a global batch of 2,048; 4,096 is planned."),
    ("10.5", of(4, device="cpu"), "trained on the CPU, and a GPU is planned"),
    ("10.5", of(2, batch=0), "ResNet50: the log of run 4 names no batch, so nothing is compared."),
])  # fmt: skip
def test_a_run_that_is_missing_or_does_not_count_is_named(task, change, words):
    box = check(task, with_runs(full(), change))
    assert words in box.missing and box.status == "partial"
    elsewhere = check(task, replace(with_runs(full(), change), without_gpus="No GPU here.")).missing
    assert elsewhere == box.missing.replace("Run again (R, or `labtui retry`).", "No GPU here.")
    ending = check(task, with_submissions(with_runs(full(), change), cancelling=True))
    assert "is running" in words or ending.missing == box.missing
    assert "is running" not in words or "run 5 is being cancelled: 3 of 5" in ending.missing
    assert box.next_item.task_id == ("10.3" if "(task 10.3)" in words else "")


def test_names_with_commas_are_separated_by_semicolons_and_what_all_share_is_said_once():
    assert join_names(["16 GPUs, naive, 3", "8 GPUs, naive, 3"]) == "8 and 16 GPUs, naive, 3"
    assert join_names(["2 processes", "4 processes", "1 process"]) == "1, 2 and 4 processes"
    assert join_names(["A · 1 GPU, naive", "A · 8 GPUs, linear"]) == "A · 1 GPU, naive; A · 8 GPUs, linear"


@pytest.mark.parametrize(
    "lacks", [{"task_id": "10.4"}, {"epochs": (), "outcome": None}, {"epochs": (), "outcome": "cancelled"}]
)
def test_a_run_of_another_task_or_without_an_epoch_says_nothing_of_a_batch(lacks):
    def other(run):
        changed = replace(run, spec=replace(run.spec, batch_size=256), **lacks)
        return changed if is_run(run, "ResNet50", 2, "10.5") else run

    box = check("10.5", with_runs(full(), other))
    assert "ResNet50 · 2 GPUs: not run yet." in [item.missing for item in box.items]
    chapter = load_edition("hpc4ai-ch11")  # plans the same run with four batches
    others = with_runs(full(chapter), lambda run: None if run.spec.batch_size == 64 else run)
    missing = check("11.2", others, chapter).missing
    assert missing == "custom · tiny-224 · 1 GPU (batch 64; tf32): not run yet."


@pytest.mark.parametrize(("kept", "status"), [("10.5", "open"), ("10.6", "partial")])
def test_only_a_run_of_its_own_begins_a_task(kept, status):
    """Task 10.7 compares runs of 10.5 and 10.6 and asks for charts; 10.6 has runs of its own."""
    evidence = with_runs(full(), lambda run: run if run.task_id == kept else None)
    untouched = replace(evidence, answers={}, exports=(), scripts={}, files=frozenset())
    assert check("10.6", untouched).status == status and check("10.7", untouched).status == "open"
    compared = replace(full(), answers={}, exports=(), scripts={}, files=frozenset())
    assert check("10.7", compared).status == "partial", "all that it compares is there"


def test_of_two_runs_that_do_not_count_the_later_is_named():
    evidence = with_runs(full(), of(1, 0, batch=16, outcome="failed"))
    run = replace(full().state.runs[3], run_id=99, token="late", spec=evidence.state.runs[3].spec)
    sent = replace(evidence.state.submissions[evidence.state.runs[3].token], token="late", practice=True)
    runs, submissions = evidence.state.runs | {99: run}, evidence.state.submissions | {"late": sent}
    state = replace(evidence.state, runs=runs, submissions=submissions)
    assert ": run 99 has a global batch of 16;" in check("10.5", replace(evidence, state=state)).missing
    ended = replace(run, run_id=100, outcome="failed", spec=full().state.runs[3].spec)
    trains = replace(ended, run_id=98, outcome=None, phase=RunPhase.RUNNING, epochs=run.epochs[:1])
    state = replace(state, runs=runs | {98: trains, 100: ended})
    assert ": run 98 is running" in check("10.5", replace(evidence, state=state)).missing


@pytest.mark.parametrize("status", [SubmissionStatus.REFUSED, SubmissionStatus.WITHDRAWN])
def test_what_slurm_never_took_is_no_run(status):
    without_epochs = with_runs(full(), lambda run: replace(run, epochs=()))
    box = check("10.5", with_submissions(without_epochs, status=status))
    assert not any(": run " in item.missing for item in box.items)
    assert any("not run yet" in item.missing for item in box.items)


def test_resnet152_may_use_any_batch_but_the_same_on_all_sizes():
    def with_batch(per_gpu):
        def change(run):
            if run.spec.model != "ResNet152":
                return run
            batch = per_gpu(run.spec.n_gpus) * run.spec.n_gpus
            return replace(run, spec=replace(run.spec, batch_size=batch))

        return with_runs(full(), change)

    assert check("10.6", with_batch(lambda n: 512)).status == "done"
    box = check("10.6", with_batch(lambda n: 1024 if n < 4 else 512))
    assert box.status == "partial"
    assert "different batches per GPU (1,024 on 1 GPU, 1,024 on 2 GPUs, 512 on 4 GPUs)" in box.missing


def test_of_two_batches_the_one_tried_on_all_sizes_counts():
    """After an out-of-memory hunt there are runs of several batches in the folder."""
    evidence = full()
    (run,) = (run for run in evidence.state.runs.values() if is_run(run, "ResNet152", 1))
    other = replace(run, run_id=99, spec=replace(run.spec, batch_size=1536))
    state = replace(evidence.state, runs=evidence.state.runs | {99: other})
    box = check("10.6", replace(evidence, state=state))
    assert box.done and any("per GPU: 1,024 on 1 GPU, 1,024 on 2 " in item.evidence for item in box.items)


def test_the_rate_in_the_log_decides_and_without_one_the_script_is_read():
    box = check("10.5", with_runs(full(), lambda run: replace(run, learning_rate=0.01)))
    assert "trained with a learning rate of 0.01, not 0.02 (base 0.01 x 2)" in box.missing
    evidence = with_runs(full(), lambda run: replace(run, learning_rate=None))
    assert "shows the learning rate" in check("10.5", evidence).missing
    text = b"import tensorflow as tf\nopt = tf.keras.optimizers.SGD(0.01*n_gpus)\n"
    evidence = with_runs(sent_with({"ResNet50.py": text}), lambda run: replace(run, learning_rate=None))
    box = check("10.5", evidence)
    assert box.done and any("scripts/ResNet50.py, line 2: opt = " in item.evidence for item in box.items)


def test_a_changed_script_makes_the_box_stale_and_another_run_fresh():
    evidence = full()
    changed = {**evidence.scripts, "ResNet50.py": FileFact("ResNet50.py", b"# edited\n")}
    stale = replace(evidence, scripts=changed)
    box = check("10.5", stale)
    assert box.status == "stale"
    assert box.missing == "ResNet50.py changed after runs 3, 4 and 5: run them again, or undo the change."
    assert [item.missing for item in box.items if item.stale] == [box.missing] * 3
    assert check("10.3", stale).status == "done"  # it rests on ResNet50_seq.py
    again = with_submissions(stale, script_hashes={p: f.sha256 for p, f in changed.items()})
    assert check("10.5", again).status == "done"


def sent_with(files: dict[str, bytes]) -> Evidence:
    """The reference, all of its runs sent with these scripts beside the others."""
    evidence = full()
    scripts = {**evidence.scripts, **{path: FileFact(path, data) for path, data in files.items()}}
    hashes = {path: fact.sha256 for path, fact in scripts.items()}
    return with_submissions(replace(evidence, scripts=scripts), script_hashes=hashes)


def edited(evidence: Evidence, path: str) -> Evidence:
    return replace(evidence, scripts={**evidence.scripts, path: FileFact(path, b"two\n")})


def test_a_changed_helper_makes_the_runs_stale_that_import_it():
    helper = "cifar-utils/cifar.py"
    main = b"import resnet_lab as lab\nfrom cifar import load_cifar\n"
    evidence = sent_with({"ResNet50.py": main, helper: b"one\n"})
    assert check("10.5", evidence).status == "done"
    assert check("10.5", edited(evidence, helper)).status == "stale"
    gone = {path: fact for path, fact in evidence.scripts.items() if path != "ResNet50.py"}
    assert check("10.5", replace(evidence, scripts=gone)).status == "stale"
    named = b'"""How to use it:\n\nimport plots\n"""\nimport resnet_lab\n'  # in a text it is no import
    evidence = sent_with({"ResNet50.py": named, "plots.py": b"one\n"})
    assert check("10.5", edited(evidence, "plots.py")).status == "done"


def test_other_line_endings_are_no_change():
    """git and editors on Windows write CRLF; what is sent is the same."""
    evidence = full()
    dos = {p: FileFact(p, f.text.replace("\n", "\r\n").encode()) for p, f in evidence.scripts.items()}
    assert check("10.5", replace(evidence, scripts=dos)).status == "done"
    sent = {path: fact.sha256 for path, fact in dos.items()}
    assert check("10.5", with_submissions(evidence, script_hashes=sent)).status == "done"


def test_practice_ticks_as_practice_and_a_real_run_goes_before_it():
    box = check("10.5", with_submissions(full(), practice=True))
    assert box.status == "done" and box.mark == "practice" and "Practice runs" in box.notes[0]
    evidence = full()
    small = {number: replace(run, practice=True) for number, run in evidence.state.runs.items()}
    box = check("10.5", replace(evidence, state=replace(evidence.state, runs=small)))
    assert not box.done and "is a small run, which does not count" in box.missing
    trains = {number: replace(run, outcome=None) for number, run in small.items()}
    assert check("10.5", replace(evidence, state=replace(evidence.state, runs=trains))).missing == box.missing
    set_up = check("10.1", replace(evidence, state=replace(evidence.state, runs=small)))
    assert not set_up.done and "not looked for" in set_up.missing, "small runs may have read too few data"
    one_is = {n: small[n] if run.spec.model == "ResNet50" else run for n, run in evidence.state.runs.items()}
    box = check("10.5", with_runs(evidence, lambda run: one_is[run.run_id]))
    assert any("chart of ResNet50" in each.missing for each in box.items), "no chart shows a small run"
    assert not check("10.5", evidence).mark
    submissions, runs = dict(evidence.state.submissions), dict(evidence.state.runs)
    for run in list(runs.values()):
        number = len(runs) + 1
        token = f"practice-{number}"
        submissions[token] = replace(submissions[run.token], token=token, practice=True)
        runs[number] = replace(run, run_id=number, token=token)
    both = replace(evidence, state=replace(evidence.state, submissions=submissions, runs=runs))
    assert not check("10.5", both).mark


def test_every_chart_is_asked_for_by_name():
    evidence = full()
    kept = tuple(e for e in evidence.exports if e.chart != "efficiency")
    unexported = check("10.5", replace(evidence, exports=kept))
    assert unexported.missing == "Export the efficiency chart of ResNet50."
    only_one = tuple(replace(e, models=("ResNet50",)) for e in evidence.exports)
    assert "of ResNet50 and ResNet152" in check("10.7", replace(evidence, exports=only_one)).missing
    unnamed = (*kept, ExportFact(path="plots/efficiency.svg", chart="efficiency"))
    assert check("10.5", replace(evidence, exports=unnamed)).status == "done"
    alone = check("10.5", with_runs(evidence, without(1)))  # whatever the exported files are called
    lacks = [item.missing for item in alone.items if item.kind == "charts" and not item.met]
    nothing = "There is nothing to show in the {} chart of ResNet50 yet."
    assert lacks == [nothing.format(chart) for chart in ("speedup", "efficiency")]


def test_a_chart_older_than_a_run_it_shows_is_stale():
    evidence = with_submissions(full(), planned_at=900.0)
    evidence = with_submissions(evidence, evidence.state.runs[5].token, planned_at=1000.0)
    old = tuple(replace(e, at=999.0) for e in evidence.exports)
    for task in ("10.5", ""):  # "": an own job's
        box = check("10.5", with_runs(replace(evidence, exports=old), of(4, task_id=task)))
        assert box.status == "stale" and "epoch-time chart is older than run 5: export it" in box.missing
    box = check("10.5", with_runs(replace(evidence, exports=old), of(4, batch=512, task_id="")))
    assert not any(item.stale for item in box.items), "no such chart shows a run of another batch"
    new = (*old, *(replace(e, at=1001.0) for e in evidence.exports))
    assert check("10.5", replace(evidence, exports=new)).status == "done"


def test_a_repeat_makes_a_chart_stale_once_it_counts_whatever_the_time():
    evidence = full()
    (first,) = (run for run in evidence.state.runs.values() if is_run(run, "ResNet50", 4))
    shown = frozenset(evidence.results.counted.values())
    for outcome, exported, status in (
        (None, shown, "done"), ("completed", shown, "stale"),  # also while its job still runs
        ("completed", shown | {"99:3"}, "done"), ("completed", shown | {"99:2"}, "stale"),
    ):  # fmt: skip
        run = replace(first, run_id=99, epochs=first.epochs[:3], outcome=outcome, phase=RunPhase.RUNNING)
        state = replace(evidence.state, runs=evidence.state.runs | {99: run})
        exports = tuple(replace(each, counted=exported, at=2e9) for each in evidence.exports)
        box = check("10.5", with_runs(replace(evidence, state=state, exports=exports), lambda run: run))
        assert box.status == status and ("older than run 99" in box.missing) is (status == "stale")


def test_a_chart_of_another_tasks_runs_is_none_of_its_own():
    chapter = load_edition("hpc4ai-ch12")
    evidence = with_submissions(full(chapter), planned_at=900.0)
    evidence = replace(evidence, exports=tuple(replace(e, at=999.0) for e in evidence.exports))
    assert check("12.1", evidence, chapter).status == check("12.2", evidence, chapter).status == "done"
    tokens = [run.token for run in evidence.state.runs.values() if run.task_id == "12.2"]
    later = with_submissions(evidence, *tokens, planned_at=1000.0)
    assert check("12.1", later, chapter).status == "done"
    not_run = with_runs(evidence, lambda run: None if run.task_id == "12.2" else run)
    for other in (not_run, later):  # the file does not show them yet
        charts = [item for item in check("12.2", other, chapter).items if item.kind == "charts"]
        assert not any(item.met for item in charts) and charts[0].missing.startswith("Export the throughput")


def test_unanswered_questions_are_counted_off():
    for answers, number in (("yes", "", "no"), 2), ((), 1):
        box = check("10.4", replace(full(), answers=full().answers | {"10.4": answers}))
        assert (box.status, box.missing) == ("partial", f"Question {number} has no answer yet.")


@pytest.mark.parametrize(("text", "words"), [
    (None, "Make ResNet152.py from ResNet50.py."),
    ("# ResNet50.py\n", "still identical to ResNet50.py: make the change yourself"),
    ("# shipped\n", "came with labtui"),
    ("x = 1  # ResNet152V2\n", "does not use ResNet152V2 in its code yet"),
    ('"""ResNet152V2"""\nmodel = ResNet50V2()\n', "does not use ResNet152V2"),
    ("model = ResNet152V2(\n", ""),  # does not parse, names it in code
    ("from tensorflow.keras.applications import ResNet152V2\n", ""),
    ("net = getattr(apps, 'ResNet152V2')\n", ""),
])  # fmt: skip
def test_the_students_own_copy(text, words):
    evidence = full()
    scripts = dict(evidence.scripts)
    del scripts["ResNet152.py"]
    if text is not None:
        scripts["ResNet152.py"] = FileFact("ResNet152.py", text.encode())
    originals = {**evidence.originals, "ResNet152.py": FileFact("ResNet152.py", b"# shipped\n")}
    item = check("10.6", replace(evidence, scripts=scripts, originals=originals)).items[0]
    assert item.met == (words == "") and words in item.missing
    assert not item.met or "ResNet152V2 in line 1" in item.evidence


def test_a_copy_of_an_edited_original_is_an_edit():
    """The change was made in ResNet50.py and saved there too, before the copy."""
    evidence = full()
    edited = {name: FileFact(name, b"model = ResNet152V2()\n") for name in ("ResNet50.py", "ResNet152.py")}
    item = check("10.6", replace(evidence, scripts={**evidence.scripts, **edited})).items[0]
    assert item.met, item.missing
    assert None not in map(code_names, ("\x00", "def f(:\n", "x" * 10_000, "(" * 3000, "\ud800"))


def test_data_reached_by_a_look_or_by_a_run():
    nothing = replace(full(), state=Evidence().state)
    assert not check("10.1", nothing).done
    there, missing = (PathStatus(there=yes, at=0.0) for yes in (True, False))
    seen = replace(nothing, remote={"/data": there, "/x.sif": there})
    assert check("10.1", seen).status == "done"
    assert check("10.1", with_submissions(full(), form="own")).status == "done"  # with the edition's scripts
    other = with_runs(full(), lambda run: replace(run, spec=replace(run.spec, script="own/keras_like.py")))
    assert not check("10.1", with_submissions(other, form="own")).done
    gone = replace(nothing, remote={"/data": there, "x.sif": missing})
    assert check("10.1", gone).missing == "Not on the cluster: ~/x.sif."


def slow(gpus: int, seconds: float):
    def change(run):
        first, *rest = run.epochs
        epochs = first, *(replace(each, seconds=Interval.around(seconds, 0.5)) for each in rest)
        return replace(run, epochs=epochs) if is_run(run, "ResNet50", gpus) else run

    return change


def test_a_surprise_is_a_note_with_its_source_and_no_failure():
    box = check("10.5", with_runs(full(), slow(1, 190)))
    assert box.status == "done"
    note = next(n for n in box.notes if "190" in n and "an epoch" in n)
    assert "9 to 22 s is usual (Chapter 10: 14 s" in note and "--nv" in note
    touching = check("10.5", with_runs(full(), slow(4, 9.0))).notes
    assert not any("an epoch" in note for note in touching), "8.5 to 9.5 s; 8.6 s is still usual"
    assert check("10.5", full()).notes == ()
    fewer = check("10.5", with_runs(full(), lambda run: replace(run, images=49_900)))
    assert fewer.status == "done"
    assert fewer.notes and all("on 49,900 images an epoch, not on 50,000" in note for note in fewer.notes)
    unsaid = lambda r: replace(r, images=None, configuration=replace(r.configuration, images=None))  # noqa: E731
    results = replace(full().results, rows=tuple(map(unsaid, full().results.rows)))
    assert not check("10.5", replace(full(), results=results)).notes


def test_exercise_12_wants_the_job_killed_and_an_accuracy_reached():
    evidence = full(edition := load_edition("sa-miri-2021-ex12"))
    assert check("3", evidence, edition).status == "done"
    edited = {**evidence.scripts, "ResNet50_seq.py": FileFact("ResNet50_seq.py", b"# edited")}
    failed = {"phase": RunPhase.FAILED}
    killed = with_runs(evidence, lambda run: replace(run, **failed) if run.task_id == "3" else None)
    outdated = check("3", replace(killed, scripts=edited), edition)
    rows = View(state=killed.state, edition=edition, checks={"3": outdated}).tasks
    (line,) = (row for row in rows if row.task_id == "3")
    assert (outdated.status, line.live) == ("stale", None), "it ended as it was to end"
    box = check("3", with_runs(evidence, lambda run: replace(run, outcome="completed")), edition)
    assert "this task wants one that was stopped by its time limit or was cancelled" in box.missing

    def dull(run):
        told = {"metrics": {"accuracy": 0.6}, "metric_lines": {"accuracy": 77}}
        return replace(run, epochs=tuple(replace(each, **told) for each in run.epochs))

    box = check("6", with_runs(evidence, dull), edition)
    assert "The best accuracy so far is 0.6; 0.95 is required" in box.missing
    assert any(item.evidence.endswith(", line 77") for item in box.items), "the line that prints it"
    runs = evidence.state.runs
    best, *_ = (run for run in runs.values() if run.task_id == "6")
    odd = tuple(replace(best.epochs[-1], metrics={"accuracy": top}) for top in (math.nan, 1.0))
    small = {99: replace(best, run_id=99, practice=True, epochs=odd)}
    box = check("6", replace(evidence, state=replace(evidence.state, runs=small | runs)), edition)
    assert box.done and not box.mark, "a real run that meets it goes before a better one of practice"
    assert "report.pdf" in check("8", replace(evidence, files=frozenset()), edition).missing
    assert check("8", replace(evidence, files=frozenset({"deck.pdf"})), edition).done


def test_the_laws_need_three_sizes():
    evidence = full(edition := load_edition("sa-miri-2025-pg"))
    box = check("10.11", evidence, edition)
    assert box.status == "done" and any("serial fraction" in item.evidence for item in box.items)
    alone = with_runs(evidence, lambda r: None if r.spec.model == "ResNet101" and r.spec.n_gpus > 2 else r)
    missing = [item.missing for item in check("10.11", alone, edition).items]
    assert any("needs ResNet101 on three sizes, one GPU among" in each for each in missing)


def test_progress_counts_tasks_and_names_the_first_that_is_not_done_also_of_a_fresh_folder():
    nothing = progress(EDITION, check_all(EDITION, Evidence()))
    assert (nothing.current, nothing.done, nothing.total) == ("10.1", 0, 7)
    everything = progress(EDITION, check_all(EDITION, full()))
    assert (everything.current, everything.done) == (None, 7)
    lab5 = load_edition("cc-mei-2025-lab5")
    no_runs = replace(full(lab5), state=Evidence().state, results=Evidence().results, exports=())
    some = progress(lab5, check_all(lab5, no_runs))
    assert (some.current, some.done) == ("2", 3)  # three tasks of words
    boxes = check_all(EDITION, Evidence(scripts=full().scripts))
    assert {box.status for box in boxes if box.task_id in {"10.1", "10.2", "10.5"}} == {"open"}


@given(st.data())
def test_any_mixture_of_runs_is_judged_and_a_tick_always_has_its_evidence(data):
    """Runs taken away, ended otherwise, with other batches or rates, practised, their scripts edited."""
    names = ("cc-mei-2025-lab5", "hpc4ai-ch10", "sa-miri-2021-ex12", "sa-miri-2025-pg")
    edition = load_edition(data.draw(st.sampled_from(names)))

    def change(run):
        kind = data.draw(st.sampled_from(["keep", "keep", "gone", "outcome", "batch", "rate", "short"]))
        if kind == "gone":
            return None
        if kind == "outcome":
            return replace(run, outcome=data.draw(st.sampled_from(OUTCOMES)))
        if kind == "batch":
            return replace(run, spec=replace(run.spec, batch_size=data.draw(st.integers(1, 20_000))))
        if kind == "rate":
            return replace(run, learning_rate=data.draw(st.sampled_from([None, 0.01, 0.5])))
        return replace(run, epochs=run.epochs[: data.draw(st.integers(0, 3))]) if kind == "short" else run

    evidence = with_runs(full(edition), change)
    if data.draw(st.booleans()):
        evidence = with_submissions(evidence, practice=True)
    if data.draw(st.booleans()):
        evidence = replace(evidence, scripts={})
    for box in check_all(edition, evidence):
        assert box.done == (all(i.met for i in box.items) and not any(i.stale for i in box.items))
        assert bool(box.missing) == (not box.done)
        assert all(item.evidence for item in box.items if item.met)
        assert all(item.missing.endswith((".", "?")) for item in box.items if not item.met)
