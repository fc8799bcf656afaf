"""The charts of a task by their own keys: views, cursor and its strip, models, law, one chart or four."""

from __future__ import annotations

import re
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace
from rich.text import Text
from textual.pilot import Pilot

from labtui.domain.model import EpochSample, Interval
from labtui.results.charts import Look, line_of
from labtui.tui.app import LabApp
from labtui.tui.screens.modals import palette
from labtui.tui.themes import roles as roles_of
from labtui.tui.view_model import VIEWS
from labtui.tui.widgets.charts_pane import ChartsPane, ShownCharts
from labtui.tui.widgets.log_pane import readable, shorten
from tests import changes
from tests.training_logs.samples import mllog
from tests.tui.fed_session import FedSession, finished_run, finished_runs, log_text, online, spec, write_log
from tests.tui.test_plot import chart
from tests.tui.waiting import press, screens, text_of, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


def pane_of(app: LabApp) -> ChartsPane:
    assert app.main is not None
    return app.main.query_one(ChartsPane)


def text(app: LabApp, part: str) -> str:
    """What the views, the sentence or the strip of the pane say."""
    return str(pane_of(app).query_one(f"#chart-{part}").render())


def shown(app: LabApp) -> set[str]:
    """The charts on the screen."""
    return {name for name in VIEWS if pane_of(app).query_one(f"#chart-{name}").display}


@asynccontextmanager
async def charts(session: FedSession, **how: Any) -> AsyncIterator[tuple[LabApp, Pilot[Any]]]:
    """The app with the charts of the middle of a lab session."""
    async with screens(session, "charts", **how) as (app, pilot):
        await until(pilot, lambda: "4 GPUs" in text(app, "strip") and pane_of(app).has_focus)
        yield app, pilot


async def test_numbers_choose_views_and_the_law_lies_over_the_speedups(filled_session):
    async with charts(filled_session) as (app, pilot):
        assert pane_of(app).shown.name == "speedup"
        for number, name in enumerate(VIEWS, 1):
            await pilot.press("r", str(number))
            await until(pilot, lambda name=name: app.main.pane == "charts" and shown(app) == {name}, name)
        assert text(app, "sentence").strip() == "Accuracy, ResNet50", "4 GPUs have less epochs by now"
        await pilot.press("1", "1", "4", "1")
        for count in ("1/2", "2/2"):  # its first chart comes first
            tabs = f"1 Time {count}   2 Throughput   3 Speedup   4 Efficiency 1/2   5 Training"
            await until(pilot, lambda tabs=tabs: tabs in text(app, "views"))
            await pilot.press(*"1"[count == "2/2" :])
        assert text(app, "sentence").startswith("Time of each epoch, ResNet50. Hollow or ↑: warm-up, not")
        pane = pane_of(app)
        pane.shown = replace(pane.shown, drawn={"time": replace(pane.shown.spec, notes=("A.", "B."))})
        assert str(pane._sentence()).endswith(", ResNet50. A. B.")
        pane.shown = replace(pane.shown, groups=(name := "gradual policy, then warm-up 12",), group=name)
        assert re.search("5 Training +m 1/1 gradual.*….* 12$", str(pane._views_text())), "shortened"
        await press(pilot, "4", "o", then=lambda: shown(app) == {"efficiency"} and "press 3" in text_of(app))
        await pilot.press("3", "o")
        await until(pilot, lambda: "(Amdahl" in text(app, "sentence") and "o Laws" in text_of(app))
        assert re.match(r"Serial part: .* % \(Amdahl.*, fits best\), .* % \(Gu", text(app, "sentence"))
        await pilot.press("3")
        await until(pilot, lambda: "chart. 1 to 5" in text_of(app) and text_of(app).count("Gustafson") == 2)
        await press(pilot, "o", then=lambda: "Gustafson" not in text_of(app))
        sentence = pane_of(app).query_one("#chart-sentence")
        pane_of(app)._sentence = lambda: Text("A long sentence " * 8)
        for size in ((120, 40), (80, 24)):
            await pilot.resize_terminal(*size)
            await until(pilot, lambda: sentence.size.height == 2, "it is not cut")
        chart = pane_of(app).query_one("#chart-speedup")
        long = "Time of each epoch of run 7"
        for heading, unit, told in (("Best", "best of all", "Best  of all"), (long, "seconds " * 7, long)):
            chart.heading, chart.spec = heading, replace(chart.spec, y_label=unit)
            assert chart.render().plain.startswith(f"{told}\n"), "nothing twice, no unit cut"


async def test_the_cursor_tells_value_interval_run_and_log_line(filled_session):
    async with charts(filled_session) as (app, pilot):
        assert re.search(r"4 GPUs +2.53× .*63.2 % efficient +so far .*run 4", text(app, "strip"))
        await press(pilot, "left", then=lambda: "2 GPUs" in text(app, "strip"))
        assert re.search(r"1.68×   84.0 % efficient +run 3, job 31336\n.*line ", text(app, "strip"))
        await pilot.press("2")
        await until(pilot, lambda: "6,173 images per second   (6,167 to 6,178)" in text(app, "strip"))
        assert "efficient" not in text(app, "strip") and text_of(app).count("images per second") == 3
        await press(pilot, "1", then=lambda: "8.10 s" in text(app, "strip"))
        assert "more digits narrow it" in text(app, "strip"), text(app, "strip")
        await pilot.press("3", "left", "left")  # the first has none before it
        await until(pilot, lambda: "run 2, job 31335" in text(app, "strip"))
        assert "efficient" not in text(app, "strip"), "it is compared with itself"
        filled_session.feed(changes.ended(2, "cancelled"))
        await until(pilot, lambda: "run 2 (cancelled), job 31335" in text(app, "strip"))
        await press(pilot, "right", "L", then=lambda: app.main is not None and app.main.pane == "log")
        await until(pilot, lambda: app.main.query_one("#log-view").match_line == 14, "its line is marked")
        await pilot.press("o", "escape")
        await until(pilot, lambda: app.main.pane == "charts" and "esc Back" not in text_of(app), "as it came")
        await pilot.press("L")
        await until(pilot, lambda: app.main.query_one("#log-view").match_line == 14, "not in standard error")
        tail = app.main.query_one("#log-view")
        record = f':::MLLOG {{"key": "{"a" * 99}", "value": {{"val_top1": 7}}, "to": "{"b" * 99}"}}'
        write_log(filled_session, "lt000000000000000ccc", f"{record}\n")
        await until(pilot, lambda: tail.file.hidden == 1)
        tail.mark(tail.file.last)
        assert (tail.match_line, tail.file.hidden) == (tail.file.last, 0), "a record that is cited is shown"
        assert tail._line_style(record, tail.file.last) == tail.get_component_rich_style("tail--current")


async def test_a_mean_says_of_how_many_epochs_and_runs_it_is_and_reads_through_no_link(filled_session):
    filled_session.feed(*finished_run("lt1", "10.5", 6, spec(gpus=2), "31340"))
    write_log(filled_session, "lt1", log_text(spec(gpus=2), 5))
    async with charts(filled_session) as (app, pilot):
        await until(pilot, lambda: "mean of 2 epochs, the last in line " in text(app, "strip"))
        await press(pilot, "left", then=lambda: "runs 3, 6" in text(app, "strip"))
        assert re.search("mean of 8 epochs of 2 runs, the last in run 6, line 14  13/13", text(app, "strip"))
        log = filled_session.log_path("lt1", "out")
        log.symlink_to(log.rename(log.with_name("other")))
        await press(pilot, "right", "left", then=lambda: text(app, "strip").endswith("runs 3, 6\n"))
        for at in range(7, 27):
            filled_session.feed(*finished_run(f"lt{at}", "10.5", at, spec(gpus=2), f"{31340 + at}"))
        await until(pilot, lambda: text(app, "strip").splitlines()[0].endswith(" 22 runs"), "list first")


async def test_models_together_or_one_after_the_other(session, monkeypatch):
    sizes = ((1, 2048), (2, 2048), (4, 1024), (4, 2048))
    runs = [spec(model, gpus, batch=batch) for model in ("ResNet50", "ResNet152") for gpus, batch in sizes]
    session.feed(*finished_runs("10.7", runs), *online())
    async with screens(session, "charts") as (app, pilot):
        await until(pilot, lambda: bool(app.main.query(ChartsPane)))
        app.go_to_task("10.7")
        await until(pilot, lambda: "m Filter" in text(app, "views"))
        await pilot.resize_terminal(80, 24)
        await pilot.press("4", "down")
        pane, three = pane_of(app), chart({1: 1.0, 2: 1.0}, {1: 1.0, 2: 3.0}, {1: 1.0, 2: 2.0})
        with monkeypatch.context() as patched:
            two = {"charts": {"speedup": [three] * 2}, "drawn": {"speedup": three}, "panels": [three]}
            patched.setattr(ChartsPane, "_find", lambda *_: ShownCharts(name="speedup", **two))
            named = (f"network {at}" for at in (1, 2, 0, 7))  # the last one is not drawn
            assert [line_of(chart({1: 1.0}, *ends)) for ends in ([{1: 1.0}], [{1: 1.0, 2: 3.0}])] == [0, 1]
            lines = [(pane.on_resize(), pane.action_series(1), pane._line[-1])[2] for pane._line in named]
            pane._chosen = ""
            pane.action_view("speedup")
            assert pane._turn["speedup"] == 1, "the next chart of the view that opened by itself"
            patched.setattr("labtui.tui.format.plain", lambda _: "long " * 30)
            assert re.search(r"….* \d.00×", pane._strip().plain), "the name is cut, never the value"
        assert lines == [*"2011"], "down the names, which are in the order of the last values"
        await pilot.press("5")
        await until(
            pilot, lambda: "Accuracy, %, the same for 1, 2 and 4 GPUs" in text_of(app), "of one network"
        )
        app.choose_run(len(runs))  # of the second line
        await pilot.press("m", "r")
        await until(pilot, lambda: app.main.query_one("#glance-chart").cursor.series == 1)


async def test_data_sets_are_a_filter_in_the_colour_and_with_the_mark_they_have_together(session):
    names = ("micro-224", "tiny-224")
    runs = [replace(spec("ViT-H/14", n), data_set=each) for each in names for n in (1, 2, 4, 8)]
    session.feed(*finished_runs("10.7", runs), *online())
    async with screens(session, "charts") as (app, pilot):
        await until(pilot, lambda: bool(app.main and app.main.query(ChartsPane)))
        app.go_to_task("10.7")
        await until(pilot, lambda: "m Filter" in text(app, "views"))
        await pilot.press("5")  # a line for each of eight runs
        first = "1/8 micro-224, 1 GPU"
        for keys, told in ([], first), (["m"], "2/8 micro-224, 2 GPUs"), (["up"], first):
            await pilot.press(*keys)
            await until(pilot, lambda t=told: pane_of(app).query_one("#chart-training").heading == t[4:])
            assert re.search(f"m {told[:3]} mic.*{told[-6:]}$", text(app, "views"))
            assert [each.role for each in pane_of(app).shown.spec.series] == ["other"] * 7 + ["measured"]
            assert text(app, "strip")[2:].startswith(f"ViT-H/14, {told[4:]}, epoch 5")
        await pilot.press("3")  # the line goes along by its name
        await until(pilot, lambda: text(app, "views").endswith("m 1/2 micro-224"))
        assert pane_of(app).query_one("#chart-speedup").heading == "micro-224"
        await pilot.press("m", "5")  # a panel here, whatever was chosen there
        await until(pilot, lambda: pane_of(app).query_one("#chart-training").heading == "tiny-224, 1 GPU")
        await pilot.press("3", "m", "o")
        assert "fit" not in {each.role for each in pane_of(app).shown.spec.series}
        assert [each.message for each in app._notifications] == ["Laws need one line: choose it with m."]
        app.clear_notifications()
        await press(pilot, "m", "m", then=lambda: text(app, "views").endswith("m 2/2 tiny-224"))
        assert text(app, "strip").startswith("◆ tiny-224, 8 GPUs")
        pane = pane_of(app)
        assert [each.look for each in pane.shown.spec.measured] == [Look(0, 1, 1)]
        other = tuple(replace(each, x_log=not each.x_log) for each in pane.view.charts)
        assert pane._find(replace(pane.view, charts=other)).spec.x_log is not pane.shown.spec.x_log
        await pilot.press("left", "left", "left")
        await until(pilot, lambda: re.search("tiny-224, 1 GPU .*run 5, job 31335", text(app, "strip")))
        await press(pilot, "o", then=lambda: "(Amdahl" in text(app, "sentence"))
        await press(pilot, "m", then=lambda: "m Filter" in text(app, "views"))
        assert "use eight GPUs equally well" in text(app, "sentence")
        assert not app._notifications, "nobody asked for laws now"


async def test_the_words_of_a_panel_are_about_its_lines_and_equal_lines_are_one(session):
    sizes, one = (1, 2, 4, 8), EpochSample(epoch=1, seconds=Interval.exact(9.0))
    policies = (("--lr_policy", each) for each in ("linear", "naive"))
    runs = [replace(spec(gpus=n), extra_args=each) for each in policies for n in sizes]
    session.feed(*finished_runs("10.5", runs), *online())
    for at, run in enumerate(runs, 1):
        first = 0.1 * (run.n_gpus if at <= len(sizes) else 1)
        samples = (replace(one, epoch=n, metrics={"learning_rate": first / n}) for n in range(1, 6))
        session.feed(*(changes.epoch(at, each) for each in samples))
    async with screens(session, "charts") as (app, pilot):
        of = {"linear": " to 0.8", "naive": ""}
        linear, naive = (
            f"{name}: Learning rates reach 0.1{more} and end at 0.02" for name, more in of.items()
        )
        await press(pilot, "5", then=lambda: text(app, "sentence").startswith(linear))
        await press(pilot, "m", then=lambda: text(app, "sentence") == naive)
        drawn = pane_of(app).query_one("#chart-training")
        assert drawn.heading == "naive, the same for 1, 2, 4 and 8 GPUs" and len(drawn.spec.measured) == 1
        assert text(app, "views").endswith("m 2/2 naive")
        first = "Time of each epoch. Run 1 is the newest of many runs. "
        whole = replace(chart({1: 1.0}), message="", title=first * 3 + "Run 2 is another one of these")
        pane_of(app).shown = ShownCharts(name="time", drawn={"time": whole})
        told = f"{first * 2}Time of each epoch. … (hover for all)"
        assert pane_of(app)._sentence().plain == told, "no sentence is cut"
        assert "another one" in pane_of(app).query_one("#chart-sentence").tooltip


async def test_a_key_that_has_nothing_to_do_says_why_and_so_does_the_palette(filled_session):
    async with charts(filled_session) as (app, pilot):
        large, line = "Only a larger window shows four charts.", "There is no other line here."
        for pressed, why in ("m", "This chart has no filter."), ("enter", large), ("down", line):
            await pilot.press(pressed)
            await until(pilot, lambda why=why: why in [each.message for each in app._notifications], why)
            assert any(x.title.endswith(f"not now: {why}") for x in palette(app.screen))
        footer = " ".join(f"{each.key_display} {each.description}" for each in app.screen.query("FooterKey"))
        assert "←→ Point" in footer and "Filter" not in footer and "Enlarge" not in footer
        app.action_page("help")
        await until(pilot, lambda: "the next point" in text_of(app))
        assert "all lines together" not in text_of(app), "help has the keys that act"


@pytest.mark.parametrize(("line", "width", "shown"), [
    ("[11/26/2026 03:48:37 AM] INFO - [EPOCH: 5] Train: 51 img/s", 40, "… [EPOCH: 5] Train: 51 img/s"),
    ("13/13 - 10s - loss: 1.9545 - accuracy: 0.2066 - 773ms/step", 30, "13/13 - 10s - loss: 1.9545 …"),
    ("[EPOCH: 5] Accuracy: 0.751 | Validation throughput: 500.0 imgs/s", 27, "… Accuracy: 0.751 …"),
    ("Complete training Time: 3870 s ", 27, "… training Time: 3870 s"),
    ("GPU memory reserved:    53 GB", 27, "… memory reserved: 53 GB"),
    ("RuntimeError: CUDA out of memory, or so", 31, "RuntimeError: CUDA out of …"), ("x" * 9, 8, "xxxxx …"),
    (mllog("tracked_stats", {"top1": 76.95, "val_top1": 73.1, "lr": 0.001}), 24, "val_top1: 73.1 …"),
    (mllog("eval_accuracy", 0.5, of="a, b {c}\x1b"), 40, "of: a, b {c} , eval_accuracy: 0.5"),
])  # fmt: skip
def test_a_long_line_of_a_log_loses_what_says_least(line, width, shown):
    assert shorten(readable(line, "val_top1"), width) == shown and len(shown) <= width


async def test_on_a_very_large_window_four_charts_or_one(filled_session):
    async with charts(filled_session, size=(200, 55)) as (app, pilot):
        await until(pilot, lambda: len(shown(app)) == 4)
        for key, those in ("1", 4), ("1", 1), ("enter", 4), ("enter", 1):
            await until(pilot, lambda: "One or four" in text_of(app))
            await press(pilot, key, then=lambda those=those: len(shown(app)) == those)
            assert pane_of(app).shown.drawn["time"].family == ("epoch-time" if those == 4 else "epochs")
        await pilot.resize_terminal(120, 40)
        await pilot.press("3", "1", "1")  # its second chart, which is alone anyway
        await pilot.resize_terminal(200, 55)
        await until(pilot, lambda: len(shown(app)) == 4)
        await pilot.press("5", "5", "m")
        await until(pilot, lambda: shown(app) == {"training"} and "This chart has no filter." in text_of(app))
        assert "run 2, job 31335\nline 14  25/25 - 14s" in text(app, "strip"), "of this one epoch"


async def test_runs_on_the_cpu_have_bars_for_their_throughput_and_no_frame_for_a_speedup(session):
    session.feed(*finished_runs("", [spec("mykeras", 0), spec("mytorch", 0)]), *online())
    async with screens(session, "charts", size=(200, 55)) as (app, pilot):
        await press(pilot, "2", then=lambda: "the CPU, mytorch   233 images per second" in text(app, "strip"))
        await pilot.press("3")
        await until(pilot, lambda: text(app, "sentence") == "Runs on one and on more GPUs fill this view.")
        await pilot.resize_terminal(60, 12)
        await until(pilot, lambda: "The window is too small for a chart." in text_of(app))


async def test_a_task_without_runs_has_axes_with_its_sizes(session):
    session.feed(*online())
    async with screens(session, "charts", size=(80, 24)) as (app, pilot):
        await until(pilot, lambda: bool(app.main and app.main.query(ChartsPane)))
        app.go_to_task("10.5")
        await until(pilot, lambda: "Press s to plan" in text(app, "sentence"))
        chart, views = pane_of(app).query_one("#chart-speedup"), pane_of(app)._views_text()
        styles = " ".join(str(span.style) for span in views.spans)
        assert roles_of(app).busy not in styles and roles_of(app).quiet in styles, "empty views are dim"
        assert [label for _, label in chart.spec.x_ticks] == ["1", "2", "4"] and chart.size.height >= 8
        await pilot.press("2")
        await until(pilot, lambda: "images per second" in text_of(app), "each view has its own axis")
        await pilot.press("3")
        session.feed(changes.planned("lt2", {2: spec()}))
        await until(pilot, lambda: text(app, "sentence").strip() == "Speedup")
        assert "times one GPU" in text_of(app)
        assert text_of(app).count("Charts fill in as the runs train.") == 1
        assert "┈" not in text_of(app), "no grid before there is a number"
        session.feed(*finished_run("lt1", "10.5", 1, spec(), "9"))
        await press(pilot, "1", then=lambda: "13.6 s" in text_of(app))
        assert [label for _, label in pane_of(app).shown.spec.x_ticks] == ["1", "2", "4"]
        app.go_to_task("10.1")
        await until(pilot, lambda: "This task needs no run." in text(app, "sentence"))
        assert pane_of(app).query_one("#chart-time").spec is None, "no axes where no run is planned"


async def test_each_empty_view_says_why_and_runs_of_an_own_script_are_lines(session):
    session.feed(*finished_runs("10.5", [spec(), spec(gpus=4)]))
    session.feed(changes.started(2, images=49_500), *online())
    for at in (1, 2, 4):
        own = replace(spec(gpus=at), script="a.py", arguments=("--workers", f"{at}"))
        session.feed(changes.planned(f"own{at}", {10 + at: own}, form="own", task_id=""))
        each = EpochSample(epoch=1, seconds=Interval.exact(6.0 / at))
        session.feed(*(changes.epoch(10 + at, replace(each, epoch=number)) for number in (1, 2)))
    said = {"1": "workers 4", "2": "images an epoch", "5": "no accuracy", "3": "rs 2)", "mmm": "rs 4)"}
    async with screens(session, "charts") as (app, pilot):
        for keys, says in said.items():
            await pilot.press(*keys)
            await until(pilot, lambda: says in text_of(app))  # noqa: B023
        assert pane_of(app).query_one("#chart-speedup").spec is None, "the reason stands alone"
        app.go_to_task("10.5")
        await until(pilot, lambda: "No one-GPU run of this model has" in text(app, "sentence"))
        for number in (15, 16):  # a line with a speedup: the filter stops at no other
            more = replace(spec(gpus=number - 14), script="a.py", arguments=("--workers", "8"))
            session.feed(changes.planned(f"more{number}", {number: more}, form="own", task_id=""))
            session.feed(*(changes.epoch(number, replace(each, epoch=at)) for at in (1, 2)))
        await until(pilot, lambda: any(each.view == "speedup" and each.measured for each in app.view.charts))
        for said in ("m 4/4", "m Filter"):
            await pilot.press("3", "m")
            await until(pilot, lambda: said in text(app, "views") and pane_of(app).shown.spec)  # noqa: B023
        assert text(app, "sentence").endswith(
            " No one-GPU run to compare with: script a.py, workers 2; script a.py, workers 4."
        )
