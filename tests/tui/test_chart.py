"""Charts: exact size, safe against every finite chart, readable without colour and without plotext."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from rich.text import Text
from textual.app import App, ComposeResult

from labtui.results.charts import ChartSpec, Point, Series
from labtui.tui.widgets import plot_text, plot_values
from labtui.tui.widgets.chart import ChartView
from tests.tui.waiting import text_of, until

FUZZ = Path(__file__).with_name("fuzz_charts.py")


def speedup(**more: object) -> ChartSpec:
    points = (
        Point(x=1, y=1.0, lo=0.99, hi=1.01),
        Point(x=2, y=1.68, lo=1.5, hi=1.9),
        Point(x=4, y=2.53, lo=2.2, hi=2.8, live=True),
    )
    ideal = Series(name="ideal", role="ideal", points=tuple(Point(x=x, y=x) for x in (1, 2, 4)))
    values = {
        "key": "speedup",
        "title": "Speedup",
        "x_label": "GPUs",
        "y_label": "times one GPU",
        "kind": "bars",
        "x_ticks": ((1, "1"), (2, "2"), (4, "4")),
        "series": (Series(name="ResNet50", points=points), ideal),
    }
    return ChartSpec(**{**values, **more})  # type: ignore[arg-type]


def plain(
    spec: ChartSpec, width: int = 60, height: int = 16, palette: plot_values.Palette = plot_values.DARK
) -> list[str]:
    drawn = plot_text.draw(spec, width, height, palette)
    assert drawn is not None
    return Text.from_ansi(drawn).plain.split("\n")


@pytest.mark.parametrize("kind", ["bars", "lines"])
@pytest.mark.parametrize(("width", "height"), [(24, 11), (47, 13), (120, 40)])
def test_a_chart_has_exactly_the_size_it_was_given(kind: str, width: int, height: int) -> None:
    lines = plain(speedup(kind=kind), width, height)
    assert len(lines) == height
    assert {len(line) for line in lines} == {width}


def test_bars_stand_at_the_measured_counts_with_their_values() -> None:
    lines = plain(speedup())
    assert lines[-2].split() == ["1", "2", "4"]
    text = "\n".join(lines)
    for value in ("1.00", "1.68", "2.53"):
        assert value in text
    assert plot_values.LIVE_MARK in text  # the run that still goes
    assert "│" in text.replace("│", "", 1)  # an interval
    assert plot_values.IDEAL_CAP in text


def test_a_warm_up_is_hollow_in_both_kinds() -> None:
    hollow = Series(name="ResNet50", points=(Point(x=1, y=29.0, hollow=True), Point(x=2, y=13.6)))
    lines = "\n".join(plain(speedup(kind="lines", series=(hollow,))))
    assert "○" in lines
    assert "●" in lines
    assert plot_values.HOLLOW_BAR in "\n".join(plain(speedup(series=(hollow,))))


def test_series_differ_by_mark_and_the_legend_names_them() -> None:
    both = tuple(
        Series(name=name, points=(Point(x=1, y=y), Point(x=2, y=y + 1))) for name, y in (("A", 1), ("B", 2))
    )
    spec = speedup(kind="lines", series=both)
    text = "\n".join(plain(spec))
    assert "●" in text
    assert "◆" in text
    assert [(mark, name) for mark, name, _ in plot_values.legend(spec, plot_values.DARK)] == [
        ("●", "A"),
        ("◆", "B"),
    ]


def test_what_cannot_be_drawn_is_refused_not_tried() -> None:
    assert plot_text.draw(speedup(), 10, 3, plot_values.DARK) is None
    assert plot_text.draw(speedup(series=()), 60, 16, plot_values.DARK) is None
    huge = Series(name="x", points=(Point(x=1, y=1e300),))
    assert plot_text.draw(speedup(series=(huge,)), 60, 16, plot_values.DARK) is None


def test_without_colour_nothing_is_coloured() -> None:
    drawn = plot_text.draw(speedup(), 60, 16, plot_values.NO_COLOUR)
    assert drawn is not None
    assert "\x1b[38" not in drawn
    assert "\x1b[48" not in drawn


def test_no_ground_is_painted_so_that_the_theme_shows_through() -> None:
    for palette in (plot_values.DARK, plot_values.LIGHT, plot_values.ANSI):
        drawn = plot_text.draw(speedup(), 60, 16, palette)
        assert drawn is not None
        assert "\x1b[48" not in drawn


@pytest.mark.slow
def test_no_finite_chart_aborts_the_process() -> None:
    """The kernel ends the process on bad numbers, so the proof runs in a process of its own."""
    done = subprocess.run([sys.executable, str(FUZZ), "1500"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"ended with {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    assert "1500 charts" in done.stdout


class Bench(App[None]):
    def __init__(self, spec: ChartSpec | None) -> None:
        super().__init__()
        self.spec = spec

    def compose(self) -> ComposeResult:
        view = ChartView()
        view.spec = self.spec
        yield view


async def test_the_widget_draws_title_unit_plot_and_legend() -> None:
    app = Bench(speedup(practice=True))
    async with app.run_test(size=(70, 18)) as pilot:
        await until(pilot, lambda: "2.53" in text_of(app))
        lines = text_of(app).split("\n")
        assert lines[0].startswith("Speedup  times one GPU")
        assert "practice" in lines[0]
        assert "ResNet50" in lines[-1]
        assert "ideal" in lines[-1]


async def test_without_plotext_the_numbers_stand_as_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plot_text, "available", lambda: False)
    monkeypatch.setattr(ChartView, "plotter", "unknown")
    app = Bench(speedup())
    async with app.run_test(size=(70, 18)) as pilot:
        await until(pilot, lambda: "ResNet50  4: 2.53 (2.2 to 2.8) still running" in text_of(app))


@pytest.mark.parametrize("spec", [None, speedup(series=())])
async def test_an_empty_chart_says_so(spec: ChartSpec | None) -> None:
    app = Bench(spec)
    async with app.run_test(size=(70, 18)) as pilot:
        await pilot.pause()
        assert "Charts fill in while the runs train" in text_of(app)


async def test_a_title_has_the_room_that_the_chart_has_now() -> None:
    class One(App[None]):
        CSS = "ChartView { border-top: solid white; }"

        def compose(self) -> ComposeResult:
            yield ChartView()

    app = One()
    async with app.run_test(size=(30, 20)) as pilot:
        view = app.query_one(ChartView)
        view.spec = speedup(title="Speedup of the larger network", practice=True)
        await pilot.pause()
        assert "…" in str(view.border_title) and "practice" in str(view.border_title)
        await pilot.resize_terminal(120, 20)
        await pilot.pause()
        assert "Speedup of the larger network, times one GPU   practice" in str(view.border_title)
