"""Charts as data: the published figures from the published logs, and what every chart must hold."""

from functools import partial

import pytest
from msgspec.structs import replace

from labtui.domain.model import Interval
from labtui.results import cost, report, scaling_charts
from labtui.results.catalogue import _lines_of, accuracy_chart, catalogue, epoch_chart, lab_charts
from labtui.results.charts import ChartSpec, Look, Point, line_pieces, looks, slug, value_text, with_sizes
from labtui.results.compute import compute_results
from labtui.results.measured import best_curve
from labtui.results.messages import accuracy_message, loss_message, scaling_message, study_message
from labtui.results.numbers import ANSWER, in_digits_of, shown_bounds, text_table
from labtui.results.rows import with_rows
from labtui.results.scaling import lost_efficiency, scaling_lines
from tests.results.helpers import task_charts

from .helpers import read_logs, results_of, run

BOTH = ("ResNet50.31337.out", "ResNet152.31338.out")
CPU_GPU = ("ResNet50_seq_CPU.31335.out", "ResNet50_seq_GPU.31336.out")
KEYS = ("epoch-time", "throughput", "speedup", "efficiency")  # in the chapter's order


def by_key(charts) -> dict[str, ChartSpec]:
    found = {chart.key: chart for chart in charts}
    assert len(found) == len(charts), "two charts share a key"
    return found


def test_the_precise_reading_carries_intervals_and_the_same_numbers_as_the_rows():
    results = results_of(*BOTH)
    charts = by_key(task_charts(results, model="ResNet50"))
    rows = [row for row in results.rows if row.model == "ResNet50"]
    for key, field in zip(KEYS, ("epoch_seconds", "throughput", "speedup", "efficiency"), strict=True):
        for point, row in zip(charts[key].series[0].points, rows, strict=True):
            value = getattr(row, field)
            assert point.y == value.value and point.lo <= point.y <= point.hi
            shown = shown_bounds(row, value, ratio=key in ("speedup", "efficiency"))
            assert (point.lo, point.hi) == (shown.lo, shown.hi), "as results.csv has them"
    assert [point.label for point in charts["speedup"].series[0].points] == ["1.00", "1.68", "2.53"]
    assert [point.label for point in charts["efficiency"].series[0].points] == ["100.0 %", "84.0 %", "63.2 %"]


def test_every_chart_has_its_own_key_and_finite_marks_within_its_limits():
    charts = lab_charts(compute_results([*read_logs(*BOTH), *read_logs(*CPU_GPU)]))
    named = {f"{key}-ResNet50" for key in (*KEYS, "cpu-gpu", "laws")}
    assert {*KEYS, *named, "efficiency-loss", "laws-ResNet152"} < set(by_key(charts))
    for chart in charts:
        assert chart.title and chart.x_label and chart.y_label and chart.measured
    assert slug("../../etc/passwd") == "etc-passwd" and slug("☃") == "unnamed"
    charts = lab_charts(compute_results([run(1, [9, 5], model="../x"), run(2, [9, 3], model="../x")]))
    assert all("/" not in chart.key and "." not in chart.key for chart in charts), "names come from logs"


def test_cpu_against_gpu_whose_sequential_run_is_no_point_of_a_scaling_line():
    logs = [replace(each, run=replace(each.run, batch_size=None)) for each in read_logs(*CPU_GPU)]
    for results in (results_of(*CPU_GPU), compute_results(logs, images=50_000)):
        time, rate = (chart for chart in lab_charts(results) if chart.family.startswith("cpu-gpu"))
        assert time.x_ticks == rate.x_ticks == ((0, "CPU"), (1, "1 GPU"))
        assert [round(point.y, 3) for point in time.series[0].points] == [215, 14.308]
        assert "15.0 times" in time.notes[0]
        assert time.view == "time" and "times as fast as the CPU" in time.message
    assert rate.view == "throughput" and [point.label for point in rate.series[0].points] == ["233", "3,490"]
    assert rate.message == "One GPU trains on 3,490 images per second, the CPU on 233"
    (line,) = scaling_lines(compute_results([*read_logs(BOTH[0]), *read_logs(*CPU_GPU)]).rows)
    assert [row.batch_size for row in line.rows] == [2048, 4096, 8192]
    assert [row.n_gpus for line in scaling_lines(results_of(*CPU_GPU).rows) for row in line.rows] == [1]
    runs = [run(n, [9, 3], batch=batch) for n, batch in ((4, 64), (2, 256), (8, 1024), (4, 512))]
    (line,) = scaling_lines(compute_results(runs, images=50_000).rows)
    assert [row.batch_size for row in line.rows] == [256, 512, 1024], "the usual batch per GPU"


def test_two_series_of_one_network_are_told_apart_and_two_networks_compared_on_the_sizes_of_both():
    runs = [run(n, [9, 20 / n], batch=b * n) for b in (1024, 2048) for n in (1, 2)]
    chart = by_key(task_charts(compute_results(runs)))["epoch-time"]
    assert [series.name for series in chart.series] == [f"ResNet50 ({b} per GPU)" for b in ("1,024", "2,048")]
    other = replace(run(2, [9, 7], batch=600), run_id=12)  # a student's own
    (time, *_) = task_charts(compute_results([*runs, other], images=50_000))
    assert time.notes[-1] == "Not shown: run 12 (other batch per GPU)."
    runs = [run(n, [9, 12 / n]) for n in (1, 2, 4)]
    runs += [run(n, [9, 40 / n], model="ResNet152") for n in (2, 4)]
    lines = scaling_lines(compute_results(runs, images=50_000).rows)
    said = "On four GPUs, 16,667 images per second (ResNet50), 5,000 (ResNet152)"
    for families in ({"throughput"}, {"throughput", "epoch-time"}):
        assert scaling_message(lines, families) == said


def test_the_parts_of_what_is_lost_add_up_in_the_digits_shown():
    assert lost_efficiency(compute_results([run(0, [9, 5])]).rows[0]) == (), "the CPU loses nothing"
    mixed = compute_results([run(n, [9, 4, 6]) for n in (1, 4)], images=50_000).rows[1]
    assert "64.3 ±10.0" in report.losses_text([mixed], [""]), "the scatter of both rows is more than rounding"
    ideal = compute_results([run(n, [9, 8 / n], batch=1000 * n, images=8000) for n in (1, 2)])
    assert "efficiency-loss" not in by_key(task_charts(ideal)) and loss_message(ideal.rows) == ""
    for row in results_of(*BOTH).rows:
        if row.n_gpus > 1:
            most = max(parts := lost_efficiency(row), key=lambda part: part.share.value)
            lost = in_digits_of(f"{most.text} points", 1 - row.efficiency.value)
            assert sum(float(part.text) for part in parts) == pytest.approx(float(lost.split()[0]))
            assert f"{most.text} of the {lost} " in loss_message([row])
    variants = [run(n, [9, t / n + n], tuning=(("t", f"{t}"),)) for n in (1, 2) for t in (6, 30)]
    assert "ResNet50 (t 6) loses" in loss_message(compute_results(variants, images=50_000).rows)


def test_a_law_chart_shows_both_curves_and_the_outlook():
    results = results_of(BOTH[0])
    (chart,) = scaling_charts.law_charts(results)
    roles = [series.role for series in chart.series]
    assert roles == ["measured", "fit", "fit", "reference", "reference", "ideal"]
    for sizes, last in (((), 8), ((2, 32), 32)):  # the outlook's last size, or a planned one
        lines = [each.points for each in with_sizes(chart, sizes).series if each.role in ("fit", "ideal")]
        assert {(round(points[0].y, 9), points[-1].x) for points in lines} == {(1, last)}
    same, grows = (series.points[-1] for series in chart.series if series.role == "reference")
    assert (same.x, grows.x) == (8, 8) and same.y > grows.y
    assert f"{100 * results.fits[0].serial_fraction.value:.1f} %" in chart.notes[0]


def test_live_runs_are_drawn_live_a_lone_first_epoch_hollow_and_practice_never_beside_them():
    results = compute_results([run(1, [29, 14]), run(2, [31], live=True), run(4, [47, 5], live=True)])
    chart = by_key(task_charts(results))["epoch-time"]
    (series,) = chart.series
    first, second, third = series.points
    assert (first.hollow, first.live) == (False, False) and (second.hollow, second.live) == (True, True)
    assert (third.hollow, third.live) == (False, True) and any("in progress" in note for note in chart.notes)
    results = compute_results([run(1, [29, 14]), run(4, [47, 5, 5], live=True)])
    message = by_key(task_charts(results))["speedup"].message
    assert message == "Four GPUs train ResNet50 2.80 times as fast as one, so far"
    runs = [run(n, [9, 20 / n], mark=mark) for n in (1, 2) for mark in ("", "practice")]
    charts = by_key(task_charts(compute_results(runs, images=50_000)))
    assert set(charts) == {*KEYS, *(f"{key}-practice" for key in KEYS)}
    for key, chart in charts.items():
        assert bool(chart.mark) == key.endswith("-practice")
    alone = task_charts(compute_results([run(1, [9, 5], mark="practice")]))
    assert all(chart.mark and not chart.key.endswith("-practice") for chart in alone)


def test_epochs_and_accuracy_over_time():
    results = results_of(BOTH[0])
    epochs = epoch_chart(results)
    assert [each.name for each in epochs.series] == [f"ResNet50 · {n}" for n in ("1 GPU", "2 GPUs", "4 GPUs")]
    first = epochs.series[0].points
    assert [(p.hollow, value_text(epochs, p)) for p in first] == [(True, "29.0"), (False, "13.6")]
    accuracy = accuracy_chart(results)
    assert [point.y for point in accuracy.series[0].points] == [0.1629, 0.2195]
    assert accuracy.percent and accuracy.message == "Training accuracy after two epochs: 20.6 to 22.0 %"
    assert accuracy_chart(results_of(*BOTH)).message == "Training accuracy after two epochs: 18.4 to 22.0 %"
    unlike = [run(1, [9, 8]), run(2, [9, 8, 8]), run(2, [9, 8], batch=1024)]
    for several in (unlike[:2], unlike[::2]):
        assert accuracy_chart(compute_results(several)).message == "", "by epochs or batch none is the best"
    cut = run(2, [9], batch=1024, outcome="time-limit", source="cut.out")  # its configuration has another run
    named = [each.name.partition(", ")[0] for each in epoch_chart(compute_results([*unlike[1:], cut])).series]
    assert named == ["global batch 1,024", "global batch 4,096"], "what differs, not the runs' numbers"
    ends = {"completed": 3, "oom": 3, "cancelled": 5, "failed": 2, "unfinished": 3}
    runs = [run(1, [9, 8], run_id=n, outcome=o, epochs_planned=p) for n, (o, p) in enumerate(ends.items(), 1)]
    told = [each.name.replace(", ResNet50 · 1 GPU", "") for each in epoch_chart(compute_results(runs)).series]
    assert told == ["run 1", "run 2, stopped", "run 3, stopped", "run 4", "run 5"]
    mixed = compute_results([replace(each, run_id=n) for n, each in enumerate([*unlike[1:], *runs[:2]], 1)])
    assert [each.name[4] for each in epoch_chart(mixed).series] == [*"3421"], "all by run"
    flat = [run(1, [9, 8]), run(2, [9, 8]), run(2, [9, 8], batch=1024)]

    def telling(one, lines=(), **top):
        epochs = tuple(replace(each, metrics=top, metric_lines=dict(lines)) for each in one.run.epochs)
        return replace(one, run=replace(one.run, epochs=epochs))

    (line,) = _lines_of(compute_results([telling(runs[2], loss=0.2)]), {"loss": ", training"})
    assert line.name == "ResNet50 · 1 GPU, training, stopped"
    level = [telling(one, acc=0.2) for one in flat]
    apart = [telling(one, acc=0.3, val_acc=0.2) for one in flat]
    told = [accuracy_chart(compute_results(each[1:])).message for each in (level, apart)]
    assert told == [f"{which} accuracy after two epochs: 20.0 %" for which in ("Training", "Validation")]
    two = compute_results((level[0], telling(level[1], acc=0.211)))
    assert accuracy_chart(two).message == "Training accuracy after two epochs: 20.0 to 21.1 %", "none is best"
    one = accuracy_chart(compute_results(level[:1])).message
    assert one == "Training accuracy of a run comes to 20.0 % after one epoch"
    long = epoch_chart(compute_results([run(1, [9] * 18), run(16, [2, 1])]))
    assert [x for x, _ in long.x_ticks] == [1, 5, 10, 15]
    assert long.y_log and not epoch_chart(compute_results(level)).y_log, "9 and 1 s are a row apart"
    for target, end in ((0.1, "above 10 %"), (0.2, "the aim of 20 %"), (0.3, "below 30 %")):
        assert accuracy_message(best_curve(compute_results(level[:1])), target).endswith(f", {end}")
    both = {"val_top1": 30.0, "accuracy": 0.2, "top1": 20.04, "val_accuracy": 0.3}
    for metrics, names, places in (
        ({"loss": 1.0, "acc": 0.2}, [""], [71]), (both, ["training", "validation"], [72, 70]),
    ):  # fmt: skip
        lines, measured = {name: 70 + at for at, name in enumerate(metrics)}, run(1, [9, 8])
        chart = accuracy_chart(compute_results([telling(measured, lines, **metrics)]))
        assert [each.name.partition(", ")[2] for each in chart.series] == names
        assert [each.points[0].line for each in chart.series] == places
    one, other = (replace(each, metrics={"loss": 2.0 / each.epoch}) for each in measured.run.epochs)
    first, last = replace(one, metrics={"acc": 0.1}), replace(other, metrics={"acc": 0.2, "val_acc": 0.3})
    some = "Validated after epoch 2 only."
    for epochs, lines, notes in (((one, other), ["loss"], ()), ((first, last), ["acc", "val_acc"], (some,))):
        results = compute_results([replace(measured, run=replace(measured.run, epochs=epochs))])
        (chart,) = (each for each in catalogue(results) if each.view == "training")
        assert [each.points[0].metric for each in chart.series] == lines and chart.notes == notes


@pytest.mark.parametrize("came", [
    [(0, name) for name in ("mykeras", "toolong", "mytorch", "big", "mykeras", "aa")],
    [(n, "ResNet50") for n in (4, 1, 2, 1, 8)],
], ids=["own", "sizes"])  # fmt: skip
def test_a_run_keeps_its_mark_and_its_colour_when_others_come(came):
    runs = [run(n, [4, 3, 3], model=model, run_id=at) for at, (n, model) in enumerate(came, 2)]
    seen: dict[int | None, Look] = {}
    for count in range(1, 1 + len(runs)):
        lines = epoch_chart(compute_results(runs[:count])).measured
        now = {each.points[0].run: look for each, look in zip(lines, looks(lines).values(), strict=True)}
        assert len({look.mark for look in now.values()}) == count and seen.items() <= now.items()
        seen = now
    told = [(each, {"metrics": {"loss": 1.0, "val_loss": 2.0}}) for each in runs]
    told = [
        replace(r, run=replace(r.run, epochs=tuple(replace(e, **m) for e in r.run.epochs))) for r, m in told
    ]
    drawn = [
        each for c in catalogue(compute_results(told), repeats=True) for each in c.measured if c.over_time
    ]
    found = {(each.points[0].run, each.look.hue, each.look.mark) for each in drawn}
    assert len(drawn) == 3 * len(found) == 3 * len(runs), "of times, and losses in training and validation"
    many = [run(0, [4, 3], model=model, run_id=at) for at, model in enumerate("aabbbca", 1)]
    live = run(0, [4, 3], model="b", run_id=8, outcome="unfinished", live=True)
    lines = [by_key(catalogue(compute_results(runs)))["epochs"].measured for runs in (many, [*many, live])]
    before, after = ({s.points[0].run: looks(drawn)[s.name] for s in drawn} for drawn in lines)
    assert before.keys() == {5, 6, 7} and before.items() < after.items(), "nor a run that stands for repeats"
    assert all(each.name == each.group for each in lines[0]), "the notes say which run it is"


def test_no_line_is_drawn_across_a_size_that_gave_no_time_and_a_baseline_alone_is_not_compared():
    tried = [run(1, [9, 8]), run(2, [9]), run(4, [9, 2]), run(1, [30, 20], model="ResNet152")]
    charts = {chart.family: chart for chart in task_charts(compute_results(tried, images=50_000))}
    for family in ("throughput", "speedup", "efficiency"):
        assert [x for x, _ in charts[family].x_ticks] == [1, 2, 4]
        (line,) = (series for series in charts[family].measured if series.name == "ResNet50")
        assert [len(piece) for piece in line_pieces(charts[family], line)] == [1, 1]
    times = charts["epoch-time"]
    assert [len(piece) for piece in line_pieces(times, times.measured[0])] == [1, 1, 1], "nor to a warm-up"
    drawn = [[each.name for each in charts[family].measured] for family in ("throughput", "speedup")]
    assert drawn == [["ResNet50", "ResNet152"], ["ResNet50"]]
    for sizes, pieces in (((1, 2, 4, 8, 32), [4, 1]), ((1, 2, 4, 8, 32, 16, 24), [7])):  # sizes double
        charts = task_charts(compute_results([run(n, [99, 80 / n]) for n in sizes], images=50_000))
        (speedup,) = (chart for chart in charts if chart.family == "speedup")
        assert [len(piece) for piece in line_pieces(speedup, speedup.measured[0])] == pieces


def test_one_network_has_its_analysis_several_what_compares_them_and_what_says_nothing_is_not_there():
    results, both = results_of(BOTH[0]), results_of(*BOTH)
    alone = {chart.family: chart.key for chart in catalogue(results)}
    assert tuple(alone)[:4] == KEYS and {"efficiency-loss", "laws", "epochs"} < set(alone)
    (laws,) = (chart for chart in catalogue(results) if chart.family == "laws")
    assert laws.notes[0].startswith("Amdahl: serial fraction ") and "fitted" not in laws.notes[0], "short"
    together = {chart.family: len(chart.series) for chart in catalogue(both)}
    assert {"speedup", "efficiency-loss"} <= set(together) and "tuning" not in together
    assert [chart.key for chart in catalogue(both, model="ResNet50")] == [*alone.values()]
    every = [each for row in both.rows for each in row.members]
    more = compute_results([*every, replace(every[0], source="again.out")])
    (drawn,) = (chart.series for chart in catalogue(more) if chart.family == "epochs")
    assert len(drawn) == 6 and all(each.name == each.group for each in drawn), "of repeats one"
    made = [run(0, [9, 5], model=f"net {at}") for at in range(1, 5)]
    batches = [run(0, [9, 5], model="net 1", batch=batch) for batch in (64, 128)]
    for several, told in ((batches, "batch {}"), ([*batches, made[1]], "net 1, batch {}")):
        chart = by_key(catalogue(compute_results(several, images=50_000)))["cpu-images-per-second"]
        assert [chart.x_label, *dict(chart.x_ticks).values()][:3] == ["model", *map(told.format, (64, 128))]
    many = compute_results([*made, *(run(0, [9, 5], model=f"net {at}") for at in range(5, 8))])
    assert "epochs" in by_key(catalogue(many)) and "epochs" in by_key(lab_charts(many)), "as on the screen"
    learned = [run(0, [9, 5, 5], model="net 0", run_id=n, source=f"{n}.out") for n in (2, 9, 7)]
    learned.append(run(0, [9, 5, 5, 5], model="net 0", run_id=11, outcome="cancelled", epochs_planned=9))
    learned.append(run(0, [9, 5], model="net 0", run_id=10))
    telling = []
    for told, one in [*(({"accuracy": 0.2}, one) for one in learned), *(({}, one) for one in made)]:
        epochs = tuple(replace(each, metrics=told | {"loss": 0.2}) for each in one.run.epochs)
        telling.append(replace(one, run=replace(one.run, epochs=epochs)))
    of_all = {chart.family: chart for chart in catalogue(compute_results(telling))}
    drawn = [{point.run for each in chart.series for point in each.points} for chart in of_all.values()]
    assert drawn == [{9, None}, {9}, {9, None}], "of repeats the newest of the longest that ended well"
    assert of_all["accuracy"].notes == of_all["loss"].notes == ("5 runs of net 0: run 9 is drawn.",)
    telling.append(run(0, [9], model="net 0", run_id=12, outcome="unfinished", live=True))
    (of_live,) = (each for each in catalogue(compute_results(telling)) if each.family == "epochs")
    assert of_live.notes[-1].endswith("run 9 and run 12 are drawn.") and of_live.measured[1].points[0].live
    cut = [replace(each, run=replace(each.run, outcome="failed", epochs_planned=9)) for each in learned[:3]]
    (of_cut,) = (each for each in catalogue(compute_results([*made, *cut])) if each.family == "epochs")
    assert of_cut.notes[-1] == "3 runs of net 0: run 9, which was stopped, is drawn."
    assert of_all["accuracy"].message == "Training accuracy of run 9 comes to 20.0 % after one epoch"
    beside = compute_results([*every[:3], run(1, [9, 5], model="own")])
    drawn = [chart.series for chart in lab_charts(beside)]
    assert all(drawn.count(each) == 1 for each in drawn), "one network is compared with nothing"
    assert {"epochs"} <= by_key(lab_charts(compute_results([run(0, [9, 5], model=None)]))).keys()
    lone = with_rows(results, [row for row in results.rows if row.n_gpus == 1])
    assert {chart.family for chart in catalogue(lone)}.isdisjoint({"cpu-gpu", "efficiency-loss"})
    assert all(chart.measured for chart in catalogue(lone)) and catalogue(with_rows(results, ())) == ()


@pytest.mark.parametrize(("scatter", "says"), [(0.01, "b gains more"), (0.4, "a and b use two GPUs equally")])
def test_a_title_says_which_gains_more_only_beyond_the_scatter_of_the_baselines(scatter, says):
    runs = [run(1, [9, 6 - scatter, 6 + scatter], model=model) for model in "ab"]
    runs += [run(2, [9, seconds, seconds], model=model) for model, seconds in (("a", 3.3), ("b", 3.1))]
    rows = compute_results(runs, images=50_000).rows
    assert scaling_message(scaling_lines(rows), {"speedup"}).startswith(says)


def test_the_title_of_a_tuning_names_the_fastest_and_that_of_a_study_is_about_what_it_draws():
    for gpus, where in ((1, ""), (4, ", on four GPUs")):
        runs = [run(gpus, [9, 9 - at, 9 - at], batch=gpus * 32 * 2**at) for at in range(3)]
        (chart,) = scaling_charts.tuned_charts(compute_results(runs, images=50_000).rows)
        assert chart.message == f"Batch 128: 7,143 images per second, 1.29 times that of batch 32{where}"
    p = partial(Point, x=1)
    best = {"linear": {32: p(y=0.083), 64: p(y=0.0829)}, "gradual": {64: p(y=0.0832)}}
    best["fixed"] = {32: p(y=0.9)}
    text = study_message("accuracy", best)
    said = "in validation at the largest global batch, 64: "
    assert text == f"Best top-1 accuracy {said}8.3 % (gradual; linear)"
    alone = study_message("error", {"": {64: p(y=0.3), 99: p(y=0.2)}})
    assert "70.0 % at a global batch of 64, 80.0 % at 99" in alone
    worse = study_message("error", best | {"fixed": {64: p(y=0.05)}})
    assert worse == f"Lowest top-1 error {said}91.7 % (gradual; linear) to 95.0 % (fixed)"


@pytest.mark.parametrize(("told", "says"), [
    ({}, "Two GPUs train an epoch of ResNet50 2.00 times as fast as one"),
    ({"framework": "pytorch", "images": 8192}, "ResNet50: two GPUs give 2.00 times as many images per second as one"),
])  # fmt: skip
def test_a_title_beside_whole_trainings_says_what_is_faster(told, says):
    made = [run(n, [50, 20 / n], total_seconds=Interval.around(262.6, 1 - n / 2), **told) for n in (1, 2)]
    short = [run(n, [9], tuning=(("lr_policy", "linear"),), total_seconds=Interval.exact(9)) for n in (1, 2)]
    (mixed,) = (c for c in catalogue(compute_results([*short, *made])) if c.family == "whole-training")
    assert mixed.notes[-1].startswith("Trainings with other numbers of epochs") and len(mixed.series) == 1
    results = compute_results(made)
    charts = by_key(catalogue(results))
    speedup, whole, hours = charts["speedup"], charts["whole-training"], charts["gpu-hours"]
    assert whole.message == "The whole training of ResNet50 takes 263 s on two GPUs, 262 s on one GPU"
    assert hours.message.endswith(" cost 0.033 GPU-hours on two GPUs, 0.019 GPU-hours on one GPU")
    shown = [value_text(hours, each) for each in hours.series[0].points]
    assert shown == [*map(cost.GPU_HOURS.cell, results.rows)], "as in the tables"
    assert "whole training, s" in text_table(results.rows, ANSWER) and speedup.message.startswith(says)
    assert "a whole training's time and GPU-hours include it" in speedup.notes[0]


def test_an_epochs_time_is_not_titled_with_an_efficiency():
    runs = [run(n, [9, s / n ** (1 - 2 / s)], data_set=f"{s}") for n in (1, 2, 4) for s in (8, 40)]
    charts = by_key(task_charts(compute_results(runs, images=50_000)))
    assert "efficiency" in charts["efficiency"].message
    assert charts["epoch-time"].message.endswith("takes 2.83 s (8), 10.7 s (40)")
    rated = [run(n, [9, 20 / n], data_set=s, framework="pytorch", images=8192) for n in (1, 2) for s in "abc"]
    lines = scaling_lines(compute_results(rated).rows)
    assert scaling_message(lines, {"epoch-time"}) == "On two GPUs, an epoch takes 10.0 s"
    assert scaling_message(lines, {"speedup", "efficiency"}) == "On two GPUs, the speedup is 2.00"
