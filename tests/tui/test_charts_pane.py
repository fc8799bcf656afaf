"""The charts pane: every chart that has data, page by page, as bars or lines, by key and by mouse."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from rich.text import Text
from textual.pilot import Pilot

from labtui.lab.proof import published_evidence
from labtui.results.catalogue import catalogue
from labtui.results.charts import ChartSpec, Point, Series, with_kind
from labtui.results.compute import compute_results
from labtui.results.course_charts import job_gpu_chart
from labtui.results.measured import measured_from_state
from labtui.session.labs import load_edition
from labtui.training_logs.gpu_sampler import GpuSample
from labtui.tui.app import LabApp
from labtui.tui.view import glance_chart
from labtui.tui.view_model import ViewModel
from labtui.tui.widgets import plot_text, plot_values
from labtui.tui.widgets.chart import ChartView, chart_table
from labtui.tui.widgets.charts_pane import ChartsPane
from tests.tui.fed_session import NOW, FedSession, epoch, finished_run, spec, write_log
from tests.tui.waiting import text_of, until

Make = Callable[..., LabApp]
NARROW = (42, 15)
"""The cells a chart has in a window of 80 by 24."""


def samples() -> list[GpuSample]:
    return [
        GpuSample(at=2.0 * place, index=index, utilization=0.8 + 0.01 * (place % 7))
        for place in range(50)
        for index in range(4)
    ]


def add_fair_comparison(session: FedSession) -> None:
    """A run on one GPU with the CPU's batch, so that both can be compared."""
    token = "lt000000000000000cmp"
    session.feed(*finished_run(token, "10.5", 40, spec(gpus=1, batch=256), "31350"))


def add_second_network(session: FedSession, task: str = "10.5") -> None:
    for place, gpus in enumerate((1, 2, 4)):
        what = spec("ResNet152", gpus, batch=1024)
        session.feed(*finished_run(f"lt00000000000000{place}sec", task, 50 + place, what, f"4000{place}"))


def sampler_file(session: FedSession) -> None:
    lines = ["timestamp, index, utilization.gpu [%]"]
    for place in range(20):
        at = datetime.fromtimestamp(NOW - 90 + 2 * place, UTC).strftime("%Y/%m/%d %H:%M:%S.000")
        lines += [f"{at}, {index}, {80 + place % 5} %" for index in range(4)]
    write_log(session, "lt000000000000000ddd", "\n".join(lines) + "\n", "gpu")


@pytest.fixture
def charts(filled_session: FedSession) -> tuple[ChartSpec, ...]:
    add_fair_comparison(filled_session)
    found = catalogue(compute_results(measured_from_state(filled_session.state)))
    gpu = job_gpu_chart(samples(), "31337")
    assert gpu is not None
    return (*found, gpu)


OF_A_RUN = {
    "epoch-time", "throughput", "speedup", "efficiency", "throughput-per-gpu", "first-epoch", "cpu-gpu",
    "efficiency-loss", "laws", "epochs", "accuracy", "gpu-utilization",
}  # fmt: skip
OF_A_STUDY = {"tuning", "learning-rate", "error", "batch-accuracy"}
"""Kinds that only runs tuned in different ways have."""


def of_a_study() -> tuple[ChartSpec, ...]:
    """The charts of task 7 of the learning-rate study, and of task 1, as its reference has them."""
    edition = load_edition("thesis-2019")
    runs = measured_from_state(published_evidence(edition).state)
    return catalogue(compute_results([run for run in runs if run.task_id in ("1", "7")]), model="ResNet50")


def drawn(chart: ChartSpec, palette: plot_values.Palette = plot_values.NO_COLOUR) -> str:
    text = plot_text.draw(chart, *NARROW, palette)
    assert text is not None, chart.key
    return Text.from_ansi(text).plain


def test_every_kind_of_chart_is_there_and_can_be_read_in_a_small_window(
    charts: tuple[ChartSpec, ...],
) -> None:
    study = tuple(chart for chart in of_a_study() if chart.family in OF_A_STUDY)
    charts = (*charts, *study)
    assert {chart.family for chart in charts} == OF_A_RUN | OF_A_STUDY
    for chart in charts:
        lines = drawn(chart).split("\n")
        assert len(lines) == NARROW[1], chart.key
        assert {len(line) for line in lines} == {NARROW[0]}, chart.key
        marks = [mark.strip() for mark, _, _ in plot_values.legend(chart, plot_values.NO_COLOUR)]
        assert len(set(marks)) == len(marks), f"{chart.key}: two entries of the legend look the same"
        table = chart_table(chart, 35)
        assert len(table[0]) > 1 and table[1], chart.key
        assert max(sum(len(cell) + 2 for cell in row) for row in table[1]) <= 37, chart.key


def test_bars_become_lines_and_lines_bars_where_both_make_sense(charts: tuple[ChartSpec, ...]) -> None:
    switched = {chart.family for chart in charts if chart.switchable}
    assert switched == {
        "epoch-time", "throughput", "throughput-per-gpu", "speedup", "efficiency", "first-epoch",
    }  # fmt: skip
    for chart in charts:
        bars, lines = with_kind(chart, "bars"), with_kind(chart, "lines")
        if not chart.switchable:
            assert bars == lines == chart
            continue
        assert any(mark in drawn(bars) for mark in "█▒"), chart.key
        assert any(mark in drawn(lines) for mark in plot_values.MARKS), chart.key
        assert not any(mark in drawn(lines) for mark in "█▒"), chart.key


def test_lines_carry_the_values_of_their_points(charts: tuple[ChartSpec, ...]) -> None:
    by_key = {chart.key: with_kind(chart, "lines") for chart in charts}
    for key, values in (
        ("epoch-time", ("13.60", "8.10", "5.38")),
        ("throughput", ("3,676", "9,301")),
        ("speedup", ("1.00", "1.68", "2.53")),
        ("efficiency", ("100 %", "84 %", "63 %")),
    ):
        text = drawn(by_key[key])
        assert all(value in text for value in values), text


def test_values_cover_no_mark_and_no_other_value() -> None:
    points = {"A": (6.0, 16.0, 26.0), "B": (9.0, 19.0, 29.0), "C": (12.0, 22.0, 32.0)}
    several = tuple(
        Series(name=name, points=tuple(Point(x=x, y=y) for x, y in zip((1, 2, 4), ys, strict=True)))
        for name, ys in points.items()
    )
    chart = ChartSpec(
        key="x",
        title="x",
        x_label="GPUs",
        y_label="y",
        series=several,
        x_ticks=((1, "1"), (2, "2"), (4, "4")),
    )
    text = plot_text.draw(chart, 70, 24, plot_values.NO_COLOUR)
    assert text is not None
    shown = Text.from_ansi(text).plain
    assert [shown.count(mark) for mark in "●◆▲"] == [3, 3, 3]
    for ys in points.values():
        assert all(f"{y:.2f}" in shown for y in ys)


@pytest.mark.parametrize("moments", [12, 300])
def test_a_course_over_time_has_round_ticks_and_no_values(moments: int) -> None:
    found = [GpuSample(at=63.421 * at, index=0, utilization=at % 2) for at in range(moments)]
    chart = job_gpu_chart(found, "1")
    assert chart is not None
    *plot, _, ticks, _ = drawn(chart).split("\n")
    assert ticks.split() == (["0", "500"] if moments == 12 else ["0", "10,000", "20,000"])
    assert "0 %" not in "".join(line[6:] for line in plot)


def law(half: float) -> ChartSpec:
    """A law with a band of this half width at 8 GPUs."""
    places = [1 + step / 4 for step in range(29)]
    curve = tuple(Point(x=x, y=1 + (x - 1) * 0.5) for x in places)
    band = tuple(
        Point(x=p.x, y=p.y, lo=p.y - half * (p.x - 1) / 7, hi=p.y + half * (p.x - 1) / 7) for p in curve
    )
    return ChartSpec(
        key="amdahl-x",
        title="Amdahl's law",
        x_label="GPUs",
        y_label="speedup",
        series=(
            Series(name="measured", points=(Point(x=1, y=1), Point(x=4, y=2.5))),
            Series(name="Amdahl fit", points=curve, role="fit"),
            Series(name="band of the fit", points=band, role="band"),
            Series(name="ideal", points=(Point(x=1, y=1), Point(x=8, y=8)), role="ideal"),
            Series(name="expected on 8 GPUs", points=(Point(x=8, y=4.5),), role="reference"),
        ),
        x_ticks=((1, "1"), (4, "4"), (8, "8")),
    )


def test_a_band_is_a_shade_and_no_ideal_line() -> None:
    wide, narrow = drawn(law(1.5)), drawn(law(0.3))
    assert wide.count(plot_values.BAND_MARK) > 30 > narrow.count(plot_values.BAND_MARK)
    assert plot_values.EXPECTED_MARK in wide
    marks = {name: mark for mark, name, _ in plot_values.legend(law(1.5), plot_values.NO_COLOUR)}
    assert len(set(marks.values())) == len(marks) == 5
    last = [line for line in wide.split("\n") if plot_values.BAND_MARK in line]
    assert len(last) >= 4, "the band is as high as its bounds"


# --------------------------------------------------------------------------- the pane


async def to_charts(pilot: Pilot[Any]) -> ChartsPane:
    app = pilot.app
    await until(pilot, lambda: app.view_model.loaded)
    await pilot.press("c")
    await until(pilot, lambda: " of " in text_of(app) and ChartView.plotter == "ready")
    await until(pilot, lambda: bool(app.screen.query(ChartsPane)))
    return app.screen.query_one(ChartsPane)


def place_of(app: LabApp, words: str) -> tuple[int, int]:
    for row, line in enumerate(text_of(app).split("\n")):
        if words in f"{line} ":
            return f"{line} ".index(words) + 1, row
    raise AssertionError(f"{words} is not on the screen\n{text_of(app)}")


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_right_goes_through_all_charts_and_says_where_one_is(
    filled_session: FedSession, app_of: Make, size: tuple[int, int]
) -> None:
    add_fair_comparison(filled_session)
    sampler_file(filled_session)
    app = app_of(filled_session)
    async with app.run_test(size=size) as pilot:
        pane = await to_charts(pilot)
        await until(pilot, lambda: "GPU use 31337" in text_of(app), "the sampler's file is read")
        keys = list(pane._charts)
        assert {spec.family for spec in pane._charts.values()} == OF_A_RUN
        assert f"3 of {len(keys)}" in text_of(app)
        for place in [*range(4, len(keys) + 1), 1, 2, 3]:
            await pilot.press("right")
            title = pane._charts[keys[place - 1]].title.split(",")[0][:24]  # a narrow panel cuts its title
            await until(
                pilot, lambda n=place, t=title: f"{n} of {len(keys)}" in text_of(app) and t in text_of(app)
            )
            shown = [view for view in pane.query(ChartView) if view.display]
            assert all(view.content_size.height >= plot_text.MIN_HEIGHT for view in shown), (
                "drawn, not told in words"
            )
        await pilot.press("left")
        await until(pilot, lambda: f"2 of {len(keys)}" in text_of(app))


async def test_one_key_switches_bars_and_lines(filled_session: FedSession, app_of: Make) -> None:
    app = app_of(filled_session)
    async with app.run_test(size=(80, 24)) as pilot:
        await to_charts(pilot)
        await until(pilot, lambda: "▐███" in text_of(app))
        await pilot.press("y")
        await until(pilot, lambda: "●" in text_of(app).split("Speedup", 1)[1] and "▐███" not in text_of(app))
        assert "2.53" in text_of(app)
        await pilot.press("right")
        await until(pilot, lambda: "Efficiency" in text_of(app) and "▐███" not in text_of(app))
        await pilot.press("y")
        await until(pilot, lambda: "▐███" in text_of(app), "bars again")
        await pilot.press(*["right"] * 3)
        await until(pilot, lambda: "Where the efficiency goes" in text_of(app))
        await pilot.press("y")
        await until(
            pilot, lambda: [n.message for n in app._notifications] == ["This chart has one form only."]
        )


async def test_at_80_columns_no_number_is_cut_and_the_notes_are_reached_by_keys(
    filled_session: FedSession, app_of: Make
) -> None:
    filled_session.feed(*finished_run("lt9", "10.5", 9, spec(batch=256), "39"))
    app = app_of(filled_session)
    async with app.run_test(size=(80, 24)) as pilot:
        pane = await to_charts(pilot)
        await until(pilot, lambda: "batch 2,048" in text_of(app))
        table = pane.query_one("#chart-numbers")
        for key in ("epoch-time", "throughput", "speedup", "efficiency"):
            pane.choose(key)
            await pilot.pause()
            assert 0 < table.virtual_size.width <= table.size.width, key
        pane.choose("speedup")
        last = str(pane.query_one("#chart-notes").render()).split()[-1]
        for _ in range(6):
            await pilot.press("pagedown")
        await until(pilot, lambda: last in text_of(app))


async def test_names_react_to_clicks(filled_session: FedSession, app_of: Make) -> None:
    app = app_of(filled_session)
    async with app.run_test(size=(80, 24)) as pilot:
        await to_charts(pilot)
        for name, title in (
            ("Amdahl", "Amdahl's law"),
            ("accuracy", "Accuracy,"),
            ("img/s", "Throughput"),
        ):
            await pilot.click(offset=place_of(app, f" {name} "))
            await until(pilot, lambda title=title: title in text_of(app))


async def test_a_click_or_space_shows_one_chart_large_and_four_again(
    filled_session: FedSession, app_of: Make
) -> None:
    app = app_of(filled_session)
    async with app.run_test(size=(200, 55)) as pilot:
        await to_charts(pilot)
        titles = ("Epoch time", "Throughput", "Speedup", "Efficiency")
        await until(pilot, lambda: all(f"{title}, ResNet50" in text_of(app) for title in titles))
        await pilot.click(offset=place_of(app, "Throughput"))
        await until(pilot, lambda: "Epoch time, ResNet50" not in text_of(app))
        assert "Throughput, ResNet50, images per second" in text_of(app)
        await pilot.press("space")
        await until(pilot, lambda: all(f"{title}, ResNet50" in text_of(app) for title in titles))


async def test_where_four_charts_would_have_too_few_rows_there_are_two(
    filled_session: FedSession, app_of: Make
) -> None:
    app = app_of(filled_session)
    async with app.run_test(size=(120, 40)) as pilot:
        await to_charts(pilot)
        await until(pilot, lambda: "Speedup, ResNet50" in text_of(app) and "Efficiency" in text_of(app))
        assert "Epoch time, ResNet50" not in text_of(app)
        assert all(
            view.size.height >= plot_text.MIN_HEIGHT
            for view in app.screen.query("#pane-charts ChartView").results(ChartView)
            if view.display
        )


async def test_networks_are_shown_together_or_one_by_one(filled_session: FedSession, app_of: Make) -> None:
    add_second_network(filled_session)
    app = app_of(filled_session)
    async with app.run_test(size=(80, 24)) as pilot:
        pane = await to_charts(pilot)
        await until(pilot, lambda: "all networks" in text_of(app))
        assert {spec.family for spec in pane._charts.values()}.isdisjoint({"tuning"})
        await pilot.press("down")
        await until(pilot, lambda: "Speedup, ResNet50," in text_of(app) and "Amdahl" in text_of(app))
        assert "ResNet152 1 GPU" not in "\n".join(text_of(app).split("\n")[:-2]), "its numbers alone"
        await pilot.click(offset=place_of(app, " ResNet152 "))
        await until(pilot, lambda: "Speedup, ResNet152" in text_of(app))
        await pilot.click(offset=place_of(app, " all networks "))
        await until(pilot, lambda: "Speedup, times one GPU" in text_of(app))


async def test_what_is_not_known_is_not_listed(session: FedSession, app_of: Make) -> None:
    session.feed(*finished_run("lt000000000000000aaa", "10.3", 1, spec(gpus=0), "31330"))
    app = app_of(session)
    async with app.run_test(size=(80, 24)) as pilot:
        app.go_to_task("10.3")
        pane = await to_charts(pilot)
        await until(pilot, lambda: bool(pane._charts))
        assert {spec.family for spec in pane._charts.values()} == {"epochs", "accuracy"}


async def test_charts_are_made_only_where_they_are_shown(
    filled_session: FedSession, app_of: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    from labtui.results import catalogue as shown

    made: list[str | None] = []
    real = shown.gallery
    monkeypatch.setattr(
        shown, "gallery", lambda results, *, model=None: made.append(model) or real(results, model=model)
    )
    app = app_of(filled_session, "runs")
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: bool(app.view_model.checks))
        filled_session.feed(epoch(4, 4, 5.4, 0.004, steps=7))
        await until(pilot, lambda: "epoch 5 of 5" in text_of(app))
        assert made == []
        await to_charts(pilot)
        await until(pilot, lambda: made == [None])
        for _ in range(3):
            app.repaint()
            await pilot.pause()
        assert made == [None], "nothing changed, so nothing was computed again"
        await pilot.press("l")
        filled_session.feed(epoch(4, 5, 5.4, 0.004, steps=7))
        await until(pilot, lambda: len(app.view_model.state.runs[4].epochs) == 5)
        await pilot.pause()
        assert made == [None], "another pane is on the screen"
        await pilot.press("c")
        await until(pilot, lambda: made == [None, None])


async def test_the_first_chart_shown_is_one_that_has_something(session: FedSession, app_of: Make) -> None:
    """A run on the CPU alone has no speedup: its epochs are shown, and each title names its quantity once."""
    session.feed(*finished_run("lt000000000000000cpu", "10.3", 1, spec(gpus=0), "31335"))
    app = app_of(session, "charts")
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: app.view_model.loaded)
        app.go_to_task("10.3")
        await until(pilot, lambda: "Time of each epoch" in text_of(app))
        await pilot.press("right")
        await until(pilot, lambda: "Accuracy, ResNet50─" in text_of(app))
        assert "Accuracy, ResNet50, accuracy" not in text_of(app)


def test_the_glance_of_a_task_on_several_gpus_is_not_the_cpus(filled_session: FedSession) -> None:
    add_fair_comparison(filled_session)
    view = ViewModel(filled_session, clock=lambda: NOW)
    view.load_edition()
    found = view.view_state()
    compared = tuple(chart for chart in found.charts if chart.key.startswith("cpu-gpu"))
    assert any(run.spec.n_gpus > 1 for run in found.runs)
    assert glance_chart(replace(found, charts=compared)) is None
