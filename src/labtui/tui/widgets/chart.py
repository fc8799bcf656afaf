"""`ChartView`: one `ChartSpec` on the screen, with a legend line of its own.

plotext is imported in a thread when the first chart is shown. Where it cannot be imported, or the place is too small,
the same numbers stand there as a list.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, ClassVar

from rich.style import Style
from rich.text import Text
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

if TYPE_CHECKING:
    from labtui.core.charts import ChartSpec, Point
    from labtui.tui.widgets.plot_text import Palette

_PRACTICE = "practice"
_RATIOS = "needs the same network on one GPU and on more; it fills in while the second run trains"
_MISSING = {
    "epoch-time": ("Epoch time", "fills in as soon as an epoch is read"),
    "throughput": ("Throughput", "fills in as soon as a second epoch is read"),
    "speedup": ("Speedup", _RATIOS),
    "efficiency": ("Parallel efficiency", _RATIOS),
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

    def __init__(self, about: str = "", *, id: str | None = None) -> None:
        """`about` is the chart's key: what to say while there is none."""
        super().__init__(id=id)
        self._about = about

    def on_mount(self) -> None:
        """Redraw in the new colours when the theme changes."""
        self.app.theme_changed_signal.subscribe(self, lambda _: self.refresh())

    def watch_spec(self, spec: ChartSpec | None) -> None:
        """The first chart with something to show brings plotext in."""
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

    def render(self) -> Text:
        """Title, plot, legend; or the numbers as a list."""
        spec, width, height = self.spec, self.size.width, self.size.height
        if spec is None or spec.empty or width < 4:
            return self._nothing()
        if ChartView.plotter not in {"ready", "missing"}:
            return Text("…", style="dim")
        from labtui.tui.widgets import plot_text

        palette = self._palette()
        title = Text(spec.title, style="bold", no_wrap=True, end="")
        mark = Text(f" {_PRACTICE} " if spec.practice else "", style="reverse")
        title.append(f"  {spec.y_label}", style="dim not bold")
        title.truncate(max(0, width - mark.cell_len - 1), overflow="ellipsis")  # the mark is never cut
        if spec.practice:
            title.append(" " if title.cell_len else "").append_text(mark)
        title.truncate(width, overflow="crop")
        below = [self._legend(spec, palette)]
        room = height - 1 - len(below)
        drawn = plot_text.draw(spec, width, room, palette) if ChartView.plotter == "ready" else None
        body = Text.from_ansi(drawn) if drawn is not None else _as_list(spec, room)
        return Text("\n").join([title, body, *below])

    def _nothing(self) -> Text:
        title, when = _MISSING.get(self._about, ("No chart yet", "it fills in as soon as an epoch is read"))
        return Text(f"{title}\n", style="bold").append(when, style="dim not bold")

    def _legend(self, spec: ChartSpec, palette: Palette) -> Text:
        from labtui.tui.widgets import plot_text

        text = Text(no_wrap=True, overflow="ellipsis", end="")
        for mark, name, colour in plot_text.legend(spec, palette):
            text.append(f"{mark} ", style=_rich_style(colour)).append(f"{name}   ")
        text.truncate(max(1, self.size.width), overflow="ellipsis")
        return text

    def _palette(self) -> Palette:
        from labtui.tui.widgets import plot_text

        if self.app.no_color:
            return plot_text.NO_COLOUR
        if self.app.native_ansi_color:
            return plot_text.ANSI
        return plot_text.DARK if self.app.current_theme.dark else plot_text.LIGHT


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
