"""Rows: what is pooled, what is compared, what is absent, and that the intervals hold the truth."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from labtui.domain.model import Interval
from labtui.results import grouping, measured, messages, numbers
from labtui.results.compute import compute_results
from labtui.results.measured import MeasuredRun, measured_from_reports, newest_validated
from labtui.results.report import results_json
from labtui.results.scaling import lost_efficiency, scaling_lines
from labtui.session.run_matcher import UNPLANNED
from labtui.training_logs.reader import parse_log
from labtui.training_logs.run_headers import read_command
from labtui.training_logs.runs import ParsedRun

from .helpers import epoch, run, task_charts


def only_row(*runs, **options):
    (row,) = compute_results(runs, **options).rows
    return row


def test_the_first_epoch_is_not_counted_and_not_lost_and_alone_gives_no_steady_time():
    row = only_row(run(1, [29.0, 14.0, 12.0], half_width=0.5))
    assert row.epoch_seconds == Interval(13.0, 12.5, 13.5)
    assert row.warmup_seconds == Interval(29.0, 28.5, 29.5)
    assert (row.epochs, row.epochs_read, row.runs) == (2, 3, 1)
    results = compute_results([run(1, [29.0])])
    (row,) = results.rows
    assert row.epoch_seconds is None and row.throughput is None and row.speedup is None
    assert row.as_printed.epoch_seconds is None
    assert any("Only warm-up epochs were read" in note for note in row.notes)
    zero = only_row(run(1, [9.0, 0.5, 0.5], half_width=0.5), images=50_000)
    assert zero.throughput is None and "prints 0 s" in zero.notes_about("no throughput")[0]
    report = results_json(results)
    assert report["rows"] == [] and report["without_steady_time"][0]["warmup_seconds"]["value"] == 29.0


def test_a_rate_that_an_epochs_line_prints_is_its_throughput_where_nothing_tells_the_images():
    epochs = ((1, 20, 2500), (2, 11.5, 4347), (3, 46.0, 1087))
    log = "".join(f"epoch {n} took {s} seconds, {rate} img/sec\n" for n, s, rate in epochs)
    logs = (log, log.replace("img", "samples"))
    runs, others = (measured_from_reports([("a.out", parse_log(each.encode()))]) for each in logs)
    row = only_row(*runs)
    assert row.throughput.contains(100_000 / 57.5) and row.throughput.hi < 1750, "not the mean of the rates"
    assert not any("no throughput" in note for note in row.notes)
    assert only_row(*runs, images=60_000).throughput.contains(60_000 / 28.75)
    rows = [only_row(*others, images=60_000, insist=told) for told in (False, True)]
    assert rows[0].throughput == row.throughput and rows[1].throughput.contains(60_000 / 28.75)
    assert {row.configuration.unit for row in rows} == {"samples"}, "in the log's own word"


def test_several_runs_of_one_configuration_are_pooled_live_and_broken_ones_too():
    row = only_row(run(2, [9, 8.0, 8.2]), run(2, [9, 8.4]))
    assert (row.runs, row.epochs) == (2, 3)
    assert row.epoch_seconds.value == pytest.approx((8.0 + 8.2 + 8.4) / 3)
    assert row.epoch_seconds.contains(8.1) and row.epoch_seconds.contains(8.4), "the mean of each run"
    assert (row.scatter.deviation, row.as_printed.epoch_seconds) == pytest.approx((0.2, 8.0))
    read = only_row(*(run(2, [9, time], run_id=n) for n, time in ((3, 2.0), (5, 0.4), (7, 0.6))))
    assert numbers.as_printed_text(read) == "1 s (run 7)", "no mean is a whole second"
    repeated = only_row(run(1, [9, 5]), run(1, [9, 7], live=True))
    assert (repeated.epoch_seconds.value, repeated.live, len(repeated.members)) == (5.0, False, 2)
    assert (live := only_row(run(1, [9, 5], live=True))).live and live.epoch_seconds is not None
    pooled = [*(run(1, [9, 5], run_id=n) for n in (3, 5, 6, 7)), run(1, [9], run_id=4, outcome="oom")]
    assert numbers.epochs_text(only_row(*pooled)) == "4 epochs of runs 3, 5 to 7"
    broken = only_row(run(1, [9, 5, 5], run_id=2, outcome="time-limit", epochs_planned=5))
    assert "Run 2 was stopped by its time limit before its end: 3 epochs of 5." in broken.notes


def own(n_gpus, seconds, words="", script="a.py", cpus=0, **more):
    device = "gpu" if n_gpus else "cpu"
    told = measured.own_options(
        replace(UNPLANNED, device=device, script=script, arguments=tuple(words.split())), cpus
    )
    return run(n_gpus, [9, seconds, seconds], tuning=told, **more)


def test_runs_of_own_scripts_are_pooled_and_compared_with_the_same_script_and_options_only():
    ones = own(1, 1.0, "--base 1 --lr 0.1"), own(1, 1.2, "--lr=0.5 -o x --base 1"), own(1, 4.0, "--base 4")
    more = own(1, 3.0, "--crash", outcome="failed"), own(1, 2.0, "--base 4", "b.py"), own(4, 9.0, "--base 8")
    twos = own(2, 0.55, "--n_gpus 2 --base 1 --epochs 9"), own(2, 0.55, "--base 16")
    rows = compute_results([*ones, *more, *twos]).rows
    assert [(row.name, row.runs, row.speedup and round(row.speedup.value, 2)) for row in rows] == [
        *(("ResNet50 (script a.py, base 1)", 2, 1), ("ResNet50 (script a.py, base 1)", 1, 2)),
        *(("ResNet50 (script a.py, base 4)", 1, 1), ("ResNet50 (script a.py, base 8)", 1, None)),
        *(("ResNet50 (script a.py, base 16)", 1, None), ("ResNet50 (script a.py, crash)", 1, 1)),
        ("ResNet50 (script b.py, base 4)", 1, 1),
    ]
    assert all(len({row.configuration.tuning for row in line.rows}) == 1 for line in scaling_lines(rows))
    lacks = "one-GPU run of this model has the same options (here script a.py, base 8), so"
    assert lacks in " ".join(rows[3].notes)


@pytest.mark.parametrize(("one", "two", "says"), [
    ("--size 32 --seed 1 --out_dir a --gpu-id 0", "--seed 2 --size=32 --dist-url b --local_rank=2 --lr 1", ""),
    *(("--size 224 --amp", "--size 160 --amp", "(here size 160)"), ("--augment", "", "(here none)")),
    ("--num_workers 4 --amp", "--amp --num_workers 8", "(here 8 workers)"),
])  # fmt: skip
def test_bare_logs_are_compared_under_the_same_options_of_their_commands_only(one, two, says):
    told = [read_command(f"python ResNet50.py --n_gpus 1 {words}").facts.tuning for words in (one, two)]
    rows = compute_results(run(n, [9, 4 / n], tuning=told[n - 1] or ()) for n in (1, 2)).rows
    row = next(row for row in rows if row.n_gpus == 2)
    assert (row.speedup and row.speedup.value) == (None if says else 2)
    assert says in " ".join(row.notes) and bool(says) is ("the same options" in " ".join(row.notes))


@pytest.mark.parametrize(("cpus", "rows", "gain"), [((4, 4), 2, 4.0), ((1, 4), 3, None)])
def test_cpu_runs_on_unlike_numbers_of_cpus_are_not_one_mean(cpus, rows, gain):
    measured = [own(0, 8.0, cpus=each) for each in cpus] + [own(1, 2.0)]
    found = compute_results(measured).rows
    assert len(found) == rows and (found[-1].acceleration and found[-1].acceleration.value) == gain


def test_steps_come_from_the_batch_and_are_not_split_without_one_or_against_another_per_gpu():
    for batch, note in ((None, "cannot be split"), (640, "mixes both effects")):
        epochs = {n: (epoch(1, 9, steps=25), epoch(2, 4 / n, steps=25)) for n in (1, 2)}
        runs = [run(n, [], batch_size=batch, epochs=told) for n, told in epochs.items()]
        row = compute_results(runs).rows[1]
        assert row.efficiency.value == 1 and lost_efficiency(row) == () and note in " ".join(row.notes)
    wrong = replace(run(1, [9, 5]).run, epochs=(epoch(1, 9, steps=7), epoch(2, 5, steps=7)))
    row = only_row(MeasuredRun(run=wrong), images=50_000)
    assert row.steps == 7 and any("7 steps of 2,048 are 12,289 to 14,336" in note for note in row.notes)
    assert row.throughput.lo == (6 * 2048 + 1) / 5 and row.throughput.hi == 7 * 2048 / 5
    named = only_row(MeasuredRun(run=replace(wrong, images=50_000)))
    assert named.throughput == row.throughput, "the log's own number counts no more than another"
    assert "The log names 50,000 images an epoch, but its 7 steps of" in " ".join(named.notes)
    assert only_row(run(4, [9, 5]), images=50_000).steps == math.ceil(50_000 / 8192)
    insisted = only_row(MeasuredRun(run=wrong), images=50_000, insist=True)
    assert insisted.throughput.value == 10_000 and any("are 25" in note for note in insisted.notes)
    assert only_row(run(1, [9, 5], images=1000), images=50_000).throughput.value == 200
    assert only_row(run(1, [9, 5]), images=100).throughput.value == 20


def test_a_comparison_with_several_runs_says_so_and_on_its_charts():
    ones = [run(1, [30, 10.0, 10.2], run_id=3), run(1, [30, 10.0, 10.2], run_id=15, outcome="cancelled")]
    trains = run(1, [30, 11.0], run_id=16, live=True)
    results = compute_results([*ones, run(1, [30], run_id=4), trains, run(4, [12, 4.0, 4.1], run_id=5)])
    note = "The one-GPU baseline is the mean of runs 3, 15."
    assert [note in row.notes for row in results.rows] == [False, True]
    assert "Run 16 still trains: it is not in the mean." in results.rows[0].notes
    assert {note in chart.notes for chart in task_charts(results)} == {False, True}
    both = compute_results([*ones, run(4, [9, 4]), *(run(n, [9, 8 / n], model="vit") for n in (1, 2))])
    assert messages.baseline_notes(both.rows) == [note.replace(" is", " of ResNet50 is")]
    far = compute_results([run(1, [50, 40.0]), run(1, [90, 80.0]), run(2, [30, 22.0])]).rows[1]
    assert "The runs of the one-GPU baseline differ: 40 to 80 s an epoch." in far.notes
    assert all("Run 15 was cancelled before its end." in chart.notes for chart in task_charts(results))


def test_what_differs_or_is_unknown_is_never_pooled_and_no_gpu_run_is_without_one():
    other = {"model": "ResNet152", "mark": "practice", "images": 1000, "framework": "pytorch", "batch": 2048}
    unlike = [run(2, [9, 4], **{name: value}) for name, value in other.items()]
    runs = [run(2, [9, 8]), *unlike, run(1, [9, 4], batch=4096), run(0, [9, 4], batch=4096)]
    assert len(compute_results(runs).rows) == len(runs)
    unknown = ParsedRun(epochs=(epoch(1, 9), epoch(2, 215)))
    results = compute_results([MeasuredRun(run=unknown, source="a"), MeasuredRun(run=unknown, source="a")])
    assert [row.runs for row in results.rows] == [1, 1]
    assert results.rows[0].configuration.device == "unknown" and results.rows[0].n_gpus is None
    assert results.rows[0].speedup is None and results.rows[0].epoch_seconds is not None
    for times, says in (([220, 215], "ran on the CPU"), ([], "no epoch")):  # it trained nothing
        results = compute_results([run(1, times, no_gpu=True)])
        assert not results.rows and says in results.left_out[0].reason


def test_runs_of_no_named_model_have_the_names_of_their_jobs_or_logs():
    own = ParsedRun(epochs=(epoch(1, 9), epoch(2, 215)), n_gpus=1, device="gpu")
    jobs = [MeasuredRun(run=own, source=f"{n}.out", run_id=n, job_name="mykeras") for n in (3, 4)]
    assert [row.name for row in compute_results(jobs).rows] == ["mykeras (run 3)", "mykeras (run 4)"]
    (alone,) = compute_results(jobs[:1]).rows
    assert alone.name == "mykeras" and any("names no model" in note for note in alone.notes)
    logs = [MeasuredRun(run=own, source=f"{name}.out") for name in "ab"]
    assert [row.name for row in compute_results(logs).rows] == ["unknown (a.out)", "unknown (b.out)"]


def test_practice_runs_are_compared_among_themselves_only_and_all_stand_in_reading_order():
    real, rehearsal = run(1, [9, 10]), run(2, [9, 4], mark="practice")
    for runs, speedup in (([], None), ([run(1, [9, 6], mark="practice")], 1.5)):
        results = compute_results([real, rehearsal, *runs])
        row = next(row for row in results.rows if row.mark and row.n_gpus == 2)
        assert not results.fits and (row.speedup and row.speedup.value) == pytest.approx(speedup)
    runs = [run(4, [9, 5]), run(1, [9, 5], model="ResNet152"), run(0, [9, 5]), run(1, [9, 5]), run(2, [9, 5])]
    *rows, last = compute_results([*runs, run(1, [9, 5], mark="practice")]).rows
    assert [row.n_gpus for row in rows] == [0, 1, 2, 4, 1] and rows[4].model == "ResNet152" and last.mark


def test_epochs_of_other_images_are_not_compared():
    """20 steps of 64 and 20 steps of 128 are not the same epoch: a ratio of their times is no speedup."""

    def trained(n, seconds):
        one = run(n, [9, seconds], batch=64 * n).run
        return MeasuredRun(run=replace(one, epochs=tuple(replace(each, steps=20) for each in one.epochs)))

    two = compute_results([trained(1, 10.0), trained(2, 11.0)]).rows[1]
    assert two.speedup is None and any("has the same number of images" in note for note in two.notes)


def test_the_baseline_has_the_same_per_gpu_batch_where_there_is_one():
    rows = compute_results([run(1, [9, 20], batch=256), run(1, [9, 14]), run(4, [9, 5])]).rows
    assert (rows[-1].baseline.batch_size, rows[-1].speedup.value) == (2048, pytest.approx(14 / 5))
    assert not any("baseline" in note for note in rows[-1].notes)
    row = compute_results([run(1, [9, 14], batch=2048), run(4, [9, 7], batch=2048)]).rows[-1]
    assert "2,048 images per GPU per step, this run 512" in str(row.notes) and row.speedup.value == 2


def test_versions_do_not_part_runs_but_software_does():
    families = {"pytorch": "pytorch", "Horovod 0.15.2 + TensorFlow 1.12.0": "horovod+tensorflow"}
    families |= dict.fromkeys(("", "keras", "mlperf", "TensorFlow 2.21.0"), "")
    assert {framework: grouping.software_family(framework) for framework in families} == families


times = st.floats(min_value=0.5, max_value=5000)
widths = st.floats(min_value=0, max_value=0.4)


@given(one=times, many=times, gpus=st.sampled_from([2, 3, 4, 8]), width=widths, off=st.floats(-1, 1))
def test_intervals_hold_the_truth_and_the_split_is_exact(one, many, gpus, width, off):
    """True times anywhere in their intervals give a true speedup in its interval; E is exactly b x t."""
    runs = [run(n, [time, time], half_width=width) for n, time in ((1, one), (gpus, many))]
    first, row = compute_results(runs, images=50_000).rows
    true = (one + off * width) / (many - off * width)
    assert row.speedup.lo <= true * (1 + 1e-12) and true <= row.speedup.hi * (1 + 1e-12)
    assert row.efficiency.value == pytest.approx(row.batch_factor * row.step_factor.value, rel=1e-12)
    assert row.efficiency.lo == pytest.approx(row.batch_factor * row.step_factor.lo, rel=1e-12)
    slower = first.step_seconds.value / row.step_seconds.value
    assert row.step_factor.value == pytest.approx(slower, rel=1e-9)
    assert row.throughput.value == pytest.approx(50_000 / row.epoch_seconds.value, rel=1e-12)


@given(st.lists(st.tuples(times, widths), min_size=1, max_size=6))
def test_the_mean_interval_holds_every_possible_mean(pairs):
    epochs = tuple(epoch(n, seconds, half_width=width) for n, (seconds, width) in enumerate(pairs, start=2))
    row = only_row(MeasuredRun(run=replace(run(1, [1, 1]).run, epochs=epochs)))
    low = sum(seconds - width for seconds, width in pairs) / len(pairs)
    high = sum(seconds + width for seconds, width in pairs) / len(pairs)
    assert row.epoch_seconds.lo == pytest.approx(low) and row.epoch_seconds.hi == pytest.approx(high)


def test_a_time_of_zero_gives_no_rate_and_no_speedup():
    rows = compute_results([run(1, [0.2, 0.0], half_width=0.0), run(2, [0.2, 0.0], half_width=0.0)]).rows
    assert all(row.throughput is None and row.speedup is None for row in rows)
    assert rows[0].as_printed == measured.AsPrinted(), "no time of 0 s"
    none = tuple(epoch(n, 5, steps=25, metrics={"energy_joules": 0.1}) for n in range(1, 5))
    assert only_row(run(1, [], epochs=none, batch_size=0)).throughput is None
    assert only_row(run(1, [], epochs=none, images=50_000)).joules_per_image.value == pytest.approx(2e-6)


def test_of_repeats_the_longest_tell_accuracy_and_whole_time_and_of_logs_alone_the_last_that_ended():
    def ended(at: float, accuracy: float, epochs: int = 3) -> MeasuredRun:
        made = run(1, [9.0, 5.0, 5.0][:epochs], source=f"{at}.out", total_seconds=Interval.exact(at))
        last = replace(made.run.epochs[-1], ended_at=at, metrics={"val_accuracy": accuracy})
        told = {"epochs": (*made.run.epochs[:-1], last), "throughput": Interval.exact(9.0)}
        return replace(made, run=replace(made.run, **told))

    (row,) = compute_results([ended(20.0, 0.4), ended(10.0, 0.3), ended(30.0, 0.1, epochs=2)]).rows
    assert newest_validated(row.members).source == "20.0.out" and row.total_seconds.value == 15.0
    assert row.gpu_hours * 3600 == 19.0
    (warmup,) = compute_results([ended(10.0, 0.3, epochs=1)]).rows
    assert warmup.throughput is None and warmup.epoch_seconds is None, "a rate of one epoch is its warm-up's"


@pytest.mark.parametrize(("device", "says"), [("cpu", "it"), ("gpu", "CPU devices are its GPUs, or it")])
def test_a_small_run_says_how_many_images_it_has(device, says):
    small = MeasuredRun(run=ParsedRun(images=320, model="a", device=device), mark="small")
    (note,) = measured.run_notes((small,))
    assert note == f"A small run, no result of the lab: {says} has other images (320 an epoch)."
