"""`ChartView`: one `ChartSpec` in a titled panel, its legend, and its numbers as a table."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from rich.style import Style
from rich.text import Text
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

from labtui.results.charts import ChartSpec, Point, Series
from labtui.results.numbers import with_half_width
from labtui.tui.widgets import plot_values
from labtui.tui.widgets.plot_values import EXPECTED_MARK, LIVE_SIGN, number_text, plain, short_names
from labtui.tui.widgets.tables import frame_texts

if TYPE_CHECKING:
    from textual.events import Click

    from labtui.results.charts import ChartSpec, Point
    from labtui.tui.widgets.plot_values import Palette


_PRACTICE = "practice"
_RATIOS = "This chart needs the same network on one GPU and on more. It fills in while the second run trains."
_MISSING = {
    "epoch-time": ("Epoch time", "This chart fills in with the first epoch. Press s to submit the runs."),
    "throughput": ("Throughput", "This chart fills in with the second epoch. Press s to submit the runs."),
    "speedup": ("Speedup", _RATIOS),
    "efficiency": ("Efficiency", _RATIOS),
}


class ChartView(Widget, can_focus=False):
    """A chart that is redrawn when its spec, its size or the theme changes."""

    DEFAULT_CSS = """
    ChartView { height: 1fr; min-height: 4; }
    """
    spec: reactive[ChartSpec | None] = reactive(None)
    plotter: ClassVar[str] = "unknown"  # then "loading", "ready" or "missing": one import for all charts

    class PlotterReady(Message):
        """The import of plotext ended."""

    class Clicked(Message):
        """A click on a chart that shows something."""

        def __init__(self, key: str) -> None:
            super().__init__()
            self.key = key

    def __init__(self, about: str = "", *, id: str | None = None, classes: str | None = None) -> None:
        """`about` is the chart's key: what to say while there is none."""
        super().__init__(id=id, classes=classes)
        self._about = about

    def on_mount(self) -> None:
        """Redraw in the new colours when the theme changes."""
        self._title_frame()
        self.app.theme_changed_signal.subscribe(self, lambda _: self.refresh())

    def on_resize(self) -> None:
        """The title has as much room as the chart."""
        self._title_frame()

    def watch_spec(self, spec: ChartSpec | None) -> None:
        """The first chart with something to show brings plotext in."""
        self._title_frame()
        if spec is not None and not spec.empty:
            self.call_after_refresh(self._load)

    def _load(self) -> None:
        if ChartView.plotter in {"ready", "missing"}:
            self.refresh()
            return
        ChartView.plotter = "loading"

        def load() -> None:
            from labtui.tui.widgets import plot_text

            ChartView.plotter = "ready" if plot_text.available() else "missing"
            self.post_message(self.PlotterReady())

        threading.Thread(target=load, name="labtui-plotext", daemon=True).start()

    def on_chart_view_plotter_ready(self, message: PlotterReady) -> None:
        """Draw what was waiting."""
        message.stop()
        self.refresh()

    def on_click(self, event: Click) -> None:
        if self.spec is not None:
            event.stop()
            self.post_message(self.Clicked(self.spec.key))

    def mark(self, marked: bool) -> None:
        """Show in the frame that this is the chosen one of several."""
        self.set_class(marked, "-chosen")

    def render(self) -> Text:
        """Plot and legend, titled by the frame; or the numbers as a list."""
        spec, width, height = self.spec, self.size.width, self.size.height
        if spec is None or spec.empty or width < 4:
            return self._nothing()
        if ChartView.plotter not in {"ready", "missing"}:
            return Text("…")
        palette = self._palette()
        above, below = self._heading(spec), self._legend(spec, palette)
        room = height - len(above) - len(below)
        drawn = None
        if ChartView.plotter == "ready":
            from labtui.tui.widgets import plot_text

            drawn = plot_text.draw(spec, width, room, palette)
        body = Text.from_ansi(drawn) if drawn is not None else _as_list(spec, room)
        return Text("\n").join([*above, body, *below])

    def _title_frame(self) -> None:
        spec = self.spec
        if spec is None or spec.empty:
            self.border_title = _MISSING.get(self._about, ("Chart", ""))[0]
            self.border_subtitle = ""
            return
        named = spec.y_label.casefold() in spec.title.casefold()
        title = spec.title if named else f"{spec.title}, {spec.y_label}"
        frame_texts(self, title, _PRACTICE if spec.practice else "")

    def _heading(self, spec: ChartSpec) -> list[Text]:
        """Title and unit, where there is no frame to hold them; "practice" is never cut."""
        if self.styles.border_top[0]:
            return []
        mark = f" ({_PRACTICE})" if spec.practice else ""
        line = Text(no_wrap=True, end="").append(spec.title, "bold").append(f"  {spec.y_label}")
        line.truncate(max(0, self.size.width - len(mark)), overflow="ellipsis")
        return [line.append(mark)]

    def _nothing(self) -> Text:
        title, when = _MISSING.get(
            self._about, ("", "Charts fill in while the runs train: press s to submit them.")
        )
        framed = bool(self.styles.border_top[0]) or not title
        return Text("" if framed else f"{title}\n", style="bold").append(when, style="not bold")

    def _legend(self, spec: ChartSpec, palette: Palette) -> list[Text]:
        """Marks and names, on as many lines as they need but at most a quarter of the height."""
        width, most = max(1, self.size.width), max(1, self.size.height // 4)
        lines: list[Text] = []
        for mark, name, colour in plot_values.legend(spec, palette):
            entry = Text(no_wrap=True, end="").append(f"{mark} ", _rich_style(colour))
            entry.append(plot_values.plain(name))
            if lines and lines[-1].cell_len + 3 + entry.cell_len <= width:
                lines[-1].append("   ").append_text(entry)
            elif len(lines) < most:
                entry.truncate(width, overflow="ellipsis")
                lines.append(entry)
            else:
                lines[-1].append(" …")
                lines[-1].truncate(width, overflow="ellipsis")
                break
        return lines or [Text("", end="")]

    def _palette(self) -> Palette:
        if self.app.no_color:
            return plot_values.NO_COLOUR
        return plot_values.DARK if self.app.current_theme.dark else plot_values.LIGHT


def _rich_style(colour: object) -> Style:
    if isinstance(colour, tuple):
        return Style(color="rgb({},{},{})".format(*colour))
    names = {"blue+": "bright_blue"}
    return Style() if colour == "default" else Style(color=names.get(str(colour), str(colour)))


def _as_list(spec: ChartSpec, rows: int) -> Text:
    names = dict(spec.x_ticks)
    lines = [
        f"{series.name}  {names.get(point.x, f'{point.x:g}')}: {_value(spec, point)}"
        for series in spec.series
        if series.role == "measured"
        for point in series.points
    ]
    shown = (
        lines
        if len(lines) <= rows
        else [*lines[: max(0, rows - 1)], f"and {len(lines) - max(0, rows - 1)} more"]
    )
    return Text("\n".join(shown))


def _value(spec: ChartSpec, point: Point) -> str:
    scale, unit = (100.0, " %") if spec.percent else (1.0, "")
    text = f"{point.y * scale:.4g}{unit}"
    if point.lo is not None and point.hi is not None and point.hi > point.lo:
        text += f" ({point.lo * scale:.4g} to {point.hi * scale:.4g}{unit})"
    return text + (" warm-up" if point.hollow else "") + (" still running" if point.live else "")


MOST_POSITIONS = 8
_WIDEST = 15
_SHORT = {
    "lost: short last batch": "batch",
    "lost: slower steps": "steps",
    "first epoch": "first",
    "steady epoch": "steady",
}
Table = tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]


def chart_table(spec: ChartSpec, width: int) -> Table:
    """Titles and rows that fit into so many cells; columns that do not fit are left out, the first ones stay."""
    shown = [each for each in spec.series if each.points and each.role == "measured"]
    positions = {point.x for series in shown for point in series.points}
    if len(positions) <= MOST_POSITIONS:
        whole = _with_short_names(_by_position(spec, shown), width)
        fitting = _fitting(*whole, width)
        if fitting == whole or not spec.over_time:
            return fitting
    return _fitting(*_with_short_names(_summary(spec, shown), width), width)


def _with_short_names(table: Table, width: int) -> Table:
    """The table with what stands first in its rows cut so that the next column has room."""
    titles, rows = table
    room = max(8, width - 2 - max((len(row[1]) for row in (titles, *rows) if len(row) > 1), default=0))
    cut = tuple((row[0] if len(row[0]) <= room else f"{row[0][: room - 1]}…", *row[1:]) for row in rows)
    return titles, cut


def _by_position(spec: ChartSpec, shown: Sequence[Series]) -> Table:
    expected = [each for each in spec.series if each.role == "reference" and len(each.points) == 1]
    positions = sorted({point.x for series in (*shown, *expected) for point in series.points})
    bounds = len(shown) == 1
    fits = [series for series in spec.series if series.role == "fit"]
    names = dict(spec.x_ticks)
    titles = [spec.x_label, *(_short(name) for name in short_names([series.name for series in shown]))]
    titles += [*(["expected"] if expected else []), *(series.name for series in fits)]
    rows = []
    for x in positions:
        live = any(point.live for series in shown for point in series.points if point.x == x)
        cells = [plain(names.get(x, f"{x:g}")) + (f" {LIVE_SIGN}" if live else "")]
        for series in shown:
            point = next((each for each in series.points if each.x == x), None)
            cells.append(_cell(spec, point, bounds=bounds) if point is not None else "")
        if expected:
            guess = next((each.points[0] for each in expected if each.points[0].x == x), None)
            cells.append(f"{_number(spec, guess.y)} {EXPECTED_MARK}" if guess is not None else "")
        cells += [_on_curve(spec, series, x) for series in fits]
        rows.append(tuple(cells))
    return tuple(titles), tuple(rows)


def _summary(spec: ChartSpec, shown: Sequence[Series]) -> Table:
    over_time = spec.x_axis == "seconds"
    titles = ("", "lowest", "highest", "mean" if over_time else "last")
    rows = []
    for name, series in zip(short_names([each.name for each in shown]), shown, strict=True):
        values = [point.y for point in series.points]
        last = math.fsum(values) / len(values) if over_time else max(series.points, key=lambda each: each.x).y
        live = f" {LIVE_SIGN}" if any(point.live for point in series.points) else ""
        numbers = (_number(spec, value) for value in (min(values), max(values), last))
        rows.append((plain(name) + live, *numbers))
    return titles, tuple(rows)


def _cell(spec: ChartSpec, point: Point, *, bounds: bool) -> str:
    text = _number(spec, point.y)
    if bounds and point.lo is not None and point.hi is not None:
        half = (point.hi - point.lo) / 2
        if not spec.percent:
            return with_half_width(point.y, half, point.mark)
        margin = f"{100 * half:.1f}"
        text += f" {point.mark}{margin}" if float(margin) else ""
    return text


def _number(spec: ChartSpec, value: float) -> str:
    return f"{value * 100:.1f} %" if spec.percent else number_text(value, percent=False, exact=True)


def _on_curve(spec: ChartSpec, curve: Series, x: float) -> str:
    """The value of a fitted curve at a position it was computed for."""
    near = min(curve.points, key=lambda point: abs(point.x - x), default=None)
    return _number(spec, near.y) if near is not None and math.isclose(near.x, x, abs_tol=1e-6) else ""


def _short(name: str) -> str:
    for long, short in _SHORT.items():
        name = name.replace(long, short)
    name = plain(name).replace(", ", " ")
    return name if len(name) <= _WIDEST else f"{name[: _WIDEST - 1]}…"


def _fitting(titles: tuple[str, ...], rows: tuple[tuple[str, ...], ...], width: int) -> Table:
    widths = [max(len(row[at]) for row in (titles, *rows)) + (2 if at else 0) for at in range(len(titles))]
    count = next((n for n in range(len(titles), 1, -1) if sum(widths[:n]) <= width), min(2, len(titles)))
    return titles[:count], tuple(row[:count] for row in rows)
