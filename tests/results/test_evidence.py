"""What a log shows of its processes and devices decides what its times count as."""

import math

import pytest
from msgspec.structs import replace

from labtui.domain.model import Diagnosis, Interval
from labtui.results import measured
from labtui.results.compute import compute_results, own_rows
from labtui.results.measured import MeasuredRun, accuracy_curves, measured_from_reports, val_accuracy
from labtui.results.messages import loss_message, loss_sentence, why_no_speedup
from labtui.results.report import report_text
from labtui.training_logs.reader import parse_log
from labtui.training_logs.runs import LogReport, ParsedRun
from tests.results.helpers import epoch, run, task_charts


def results_of_text(*texts: str):
    reports = [(f"{place}.out", parse_log(text.encode())) for place, text in enumerate(texts)]
    return compute_results(measured_from_reports(reports))


def keras(first: int, last: int, planned: int, times: list[float], *, steps: int = 25) -> str:
    lines = []
    for number, seconds in zip(range(first, last + 1), times, strict=True):
        step = round(1000 * seconds / steps)
        lines.append(f"Epoch {number}/{planned}")
        lines.append(f"{steps}/{steps} - {seconds:.0f}s - loss: 1.0 - {seconds:.0f}s/epoch - {step}ms/step")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(("first", "last", "planned", "note"), [
    (3, 5, 5, "The log has 3 epochs of 5."),
    (1, 3, 999_999_999, "A run is unfinished in the log: 3 epochs of 999,999,999."),
    *((1, 1, 5, "A run is unfinished in the log: 1 epoch of 5."), (1, 3, 3, None)),
])  # fmt: skip
def test_missing_epochs_and_a_lost_loss_are_said_and_the_first_is_warm_up(first, last, planned, note):
    log = "Model ResNet50 1 GPU\n" + keras(first, last, planned, [30.0, 10.0, 10.0][: last - first + 1])
    (row,) = results_of_text(log).rows
    assert [each for each in row.notes if " of " in each] == ([note] if note else [])
    assert row.warmup_seconds.contains(30.0)
    if last > first:
        assert row.epoch_seconds.contains(10.0) and row.epoch_seconds.hi < 11 and row.epochs == 2
    log = "Model ResNet50 1 GPU\n" + keras(1, 3, 3, [30.0, 10.0, 10.0])
    (mixed,) = results_of_text(log.replace("loss: 1.0 - 30", "loss: 1.0 - val_loss: 2.0 - 30", 1)).rows
    assert not any("mean mixes both" in note for note in mixed.notes), "the first epoch is not counted"
    (mixed,) = results_of_text("val_loss: 2.0 - 10".join(log.rsplit("10", 1))).rows
    assert any("mean mixes both" in note for note in mixed.notes)
    for epochs, end in ((2, ", first in epoch 2: the training diverged."), (1, " in epoch 2.")):
        report = parse_log(log.replace("10s - loss: 1.0", "10s - loss: nan", epochs).encode())
        (one,) = measured_from_reports([("a.out", report)])
        (row,) = compute_results([replace(one, run_id=3), one]).rows
        said = [f"The loss{of} is not finite{end}" for of in (" of run 3", "")]
        assert [each for each in row.notes if "loss" in each] == said


def contradictory(n: int, times: list[float]) -> MeasuredRun:
    one = run(n, times).run
    lines = (f'line 1 "Model ResNet50 {n} GPU", line 2 "Num_replicas: 1"',)
    return MeasuredRun(run=replace(one, contradictions=lines), source="a.out")


def test_a_run_whose_log_contradicts_itself_is_not_compared_fitted_charted_or_pooled():
    clean = [run(1, [29, 14.0]), run(2, [29, 8.0])]
    results = compute_results([*clean, contradictory(4, [29, 14.0])])
    row = next(row for row in results.rows if row.n_gpus == 4)
    assert row.epoch_seconds.value == 14 and row.speedup is None and row.efficiency is None
    assert "Num_replicas: 1" in str(row.notes) and "contradicts itself" in why_no_speedup(results.rows)
    assert all(fit.n_gpus == (1, 2) for fit in results.fits)
    for chart in task_charts(results):
        assert all(point.x != 4 for series in chart.series for point in series.points), chart.key
    alone = compute_results([contradictory(4, [29, 14.0])])
    assert alone.rows and not task_charts(alone)
    results = compute_results([contradictory(1, [29, 14.0]), run(1, [29, 20.0]), run(2, [29, 10.0])])
    assert [row.runs for row in results.rows if row.n_gpus == 1] == [1, 1]
    assert next(row for row in results.rows if row.n_gpus == 2).speedup.value == 2


def test_validation_is_a_curve_of_its_own_and_percent_is_a_fraction():
    values = enumerate((0.1, math.nan, 0.3), start=1)
    epochs = tuple(epoch(number, 5, metrics={"acc": top, "loss": 1.0}) for number, top in values)
    assert [point.epoch for point in accuracy_curves(run(1, [], epochs=epochs))[0].points] == [1, 3]
    metrics = {"accuracy": 0.5, "val_accuracy": 0.4, "val_acc1": 40.04, "top_5_accuracy": 0.9}
    both = run(1, [], epochs=(epoch(1, 5, metrics=metrics), epoch(2, 5)))
    told = [(curve.metric, curve.validation, curve.points[0].accuracy) for curve in accuracy_curves(both)]
    assert told == [("val_acc1", True, 0.4004), ("accuracy", False, 0.5), ("val_accuracy", True, 0.4)]
    text = report_text(compute_results([both, replace(both, source="a long name.out")]))
    assert val_accuracy(both.run) == 0.4004 and "40.0 %" in text and "long name" not in text
    unsure = epoch(1, 5, metrics={"val_acc": 71.2})
    assert val_accuracy(run(1, [], epochs=(unsure,)).run) is None, "percent, or 7,120 of them"


EPOCHS = (epoch(1, 29), epoch(2, 14))


def report(*runs: ParsedRun, lines: tuple[tuple[int, str], ...] = ()) -> LogReport:
    diagnosis = tuple(Diagnosis(kind="no-gpu", line=at, text="", advice="", stream=of) for at, of in lines)
    return LogReport(runs=runs, diagnosis=diagnosis)


@pytest.mark.parametrize(("name", "model", "device", "n_gpus", "job_id"), [
    ("logs/ResNet50_seq_CPU.31337.out", "ResNet50", "cpu", 0, "31337"),
    ("ResNet152_seq_GPU.7.out", "ResNet152", "gpu", 1, "7"),
    *(("resnet-101.out", "ResNet101", None, None, ""), ("slurm-31337.out", None, None, None, "")),
    *(("gpucluster.1.out", None, None, None, "1"), ("8xVM.GPU.H100.8", None, None, None, "")),
])  # fmt: skip
def test_what_a_file_name_tells(name, model, device, n_gpus, job_id):
    (one,) = measured_from_reports([(name, report(ParsedRun(epochs=EPOCHS)))])
    assert (one.run.model, one.run.device, one.run.n_gpus, one.job_id) == (model, device, n_gpus, job_id)
    (row,) = compute_results([one]).rows
    for word, known in (("model", model), ("device", device)):
        note = f"The {word} was read from the file's name; the log does not say."
        assert (note in row.notes) == bool(known)


def test_what_the_log_says_goes_before_its_name_and_where_it_leaves_open_which_run_all_have_a_doubt():
    other = run(2, [29, 14], model="ResNet152").run
    (one,) = measured_from_reports([("ResNet50_seq_CPU.1.out", report(other))])
    assert (one.run.model, one.run.n_gpus, one.run.notes) == ("ResNet152", 2, ())
    first = replace(run(1, [29, 14]).run, first_line=1, last_line=10)
    second = replace(run(2, [29, 8]).run, first_line=11, last_line=20)
    runs = measured_from_reports([("a.out", report(first, second, lines=((15, "out"),)))])
    assert [one.no_gpu for one in runs] == [False, True] and not runs[0].run.notes
    (alone,) = measured_from_reports([("a.out", report(first, lines=((3, "err"),)))])
    assert alone.no_gpu and not compute_results([alone]).rows
    both = measured_from_reports([("a.out", report(first, second, lines=((3, "err"),)))])
    rows = compute_results(both).rows
    assert len(rows) == 2 and all(any("found no GPU" in note for note in row.notes) for row in rows)


def changed(base: MeasuredRun, **more: object) -> MeasuredRun:
    return replace(base, run=replace(base.run, **more))  # type: ignore[arg-type]


VALIDATED = tuple(replace(one, metrics={"val_loss": 1.0}) for one in run(4, [4, 2, 2]).run.epochs)


@pytest.mark.parametrize(("one", "four", "reason"), [
    ({}, {"tuning": (("mixed_precision", "fp16"),)}, "has the same options (here fp16), so"),
    ({}, {"epochs": VALIDATED}, "has epochs with a validation, so"),
    ({"gpu_kind": "P100"}, {"gpu_kind": "V100"}, "has the same GPU (here V100), so"),
])  # fmt: skip
def test_unlike_runs_are_in_the_table_without_a_speedup(one, four, reason):
    runs = [changed(run(1, [9, 8, 8]), **one), changed(run(4, [4, 2, 2]), **four)]
    row = next(row for row in compute_results(runs, images=50_000).rows if row.n_gpus == 4)
    assert row.speedup is None and row.throughput is not None
    assert [reason in note for note in row.notes_about("no speedup")] == [True], row.notes


@pytest.mark.parametrize(("s", "said"), [(1.5, "are 33.3 points above ideal"), (2.5, "lose 20.0 points of")])
def test_faster_than_ideal_is_questioned_and_is_no_loss(s, said):
    rows = compute_results([run(1, [9, 8, 8]), run(4, [4, s, s])], images=50_000).rows
    doubted = any("Faster than ideal" in note for note in rows[-1].notes)
    assert doubted == ("above" in said) == (not loss_message(rows))
    assert loss_sentence(rows[-1]) == f"Four GPUs {said} efficiency."


def test_the_editions_images_are_those_of_its_own_scripts_only():
    """A student's own job of 2,000 images in 32 steps is no 78,125 images a second."""
    own = replace(changed(run(1, [1.0, 0.64, 0.64]), batch_size=None), takes_images=False)
    (row,) = compute_results([own], images=50_000).rows
    assert row.throughput is None and row.epoch_seconds is not None
    assert any("--images" in note for note in row.notes)
    (row,) = compute_results([own], images=2_000, insist=True).rows
    assert row.throughput is not None and row.throughput.contains(3_125)


def test_a_run_has_its_own_row_beside_the_pooled_one():
    ten, other = run(1, [12, *[10.0] * 10]), run(1, [14, *[12.0, 13.0, 12.5]])
    results = compute_results([replace(ten, run_id=1), replace(other, run_id=2)], images=50_000)
    (pooled,) = results.rows
    assert pooled.runs == 2 and pooled.epoch_seconds is not None and pooled.epoch_seconds.value > 10
    rows = {one.run_id: row for one, row in own_rows(results)}
    assert (rows[1].epoch_seconds, rows[1].scatter.deviation, rows[1].runs) == (Interval.exact(10.0), 0, 1)
    assert (pooled.speedup.value, pooled.as_printed.speedup) == (1.0, 1.0), "it is its own baseline in both"
    assert rows[1].speedup.value == pytest.approx(pooled.epoch_seconds.value / 10), "against the mean"
    assert [rows[at].as_printed.speedup for at in (1, 2)] == [1.0, 0.83]


def test_a_warm_up_of_each_process_and_an_mlperf_epoch_that_broke_off_are_not_steady():
    for last, steady in ((4.9, [2, 3, 4]), (5.1, [2, 3, 4, 5])):
        times = enumerate((20.0, 10.0, 10.1, 10.0, last), start=1)
        epochs = tuple(epoch(number, seconds, source="mllog") for number, seconds in times)
        assert [one.epoch for one in measured.steady_samples(run(1, [], epochs=epochs))] == steady
    seconds = enumerate([30, 10, 10, 28, 10, 10], 1)
    samples = [replace(epoch(n, s), starts_process=n in (1, 4)) for n, s in seconds]
    one = replace(run(1, [1]).run, epochs=tuple(samples), epochs_planned=6)
    (row,) = compute_results([MeasuredRun(run=one)]).rows
    assert row.epoch_seconds.value == 10 and row.epochs == 4


def test_a_block_weighs_as_many_epochs_as_it_has():
    first, block, last = run(1, [99, 10, 16]).run.epochs
    whole = (first, replace(block, epoch=2, count=4), replace(last, epoch=6, count=2))
    (row,) = compute_results([changed(run(1, [1] * 7), epochs=whole)], images=50_000).rows
    assert (row.epochs, row.epochs_read, row.epoch_seconds.value) == (6, 7, pytest.approx(12.0))
    assert row.members[0].run.gpu_hours(2) == pytest.approx(2 * (99 + 4 * 10 + 2 * 16) / 3600)
    assert not [note for note in row.notes if "The log has" in note]
    gap = (first, replace(block, epoch=2, count=2), replace(last, epoch=6, count=2))
    (row,) = compute_results([changed(run(1, [1] * 7), epochs=gap)], images=50_000).rows
    assert "The log has 5 epochs of 7." in row.notes


def nameless(*counts: int, source: str = "a.out") -> list[MeasuredRun]:
    made = [run(n, [20.0, 16.0 / n]) for n in counts]
    return [replace(each, run=replace(each.run, model=None), source=source) for each in made]


def test_the_sizes_of_one_nameless_log_are_compared_unless_they_repeat_in_any_order_of_files():
    results = compute_results(nameless(1, 2, 4))
    assert [row.speedup.value for row in results.measured if row.speedup] == [1.0, 2.0, 4.0]
    assert ["names no model" in " ".join(row.notes) for row in results.measured] == [False, True, True]
    assert [fit.baseline.model for fit in results.fits] == ["unknown", "unknown"]
    results = compute_results(nameless(1, 2, 1, 2))
    assert [row.speedup for row in results.measured if row.n_gpus == 2] == [None] * 2
    results = compute_results([*nameless(1), *nameless(2, source="b.out")])
    assert [row.speedup and row.speedup.value for row in results.measured] == [1.0, None]
    logs = ["a.out", "b.out", "c.out"]
    runs = {log: nameless(1, 2, 1, 4, source=log) for log in logs}
    forth = compute_results([each for log in logs for each in runs[log]])
    back = compute_results([each for log in reversed(logs) for each in runs[log]])
    assert [row.configuration for row in forth.rows] == [row.configuration for row in back.rows]
