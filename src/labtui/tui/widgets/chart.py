"""`ChartView`: one `ChartSpec` on the screen, with a legend of its own under it.

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

from labtui.tui.widgets import plot_look

if TYPE_CHECKING:
    from textual.events import Click

    from labtui.core.charts import ChartSpec, Point
    from labtui.tui.widgets.plot_look import Palette

_PRACTICE = "practice"
_TALL = 12
"""From this height on a heading may take two lines."""
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

    class Clicked(Message):
        """A click on a chart that shows something."""

        def __init__(self, key: str) -> None:
            super().__init__()
            self.key = key

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

    def on_click(self, event: Click) -> None:
        """Tell which chart was clicked."""
        if self.spec is not None:
            event.stop()
            self.post_message(self.Clicked(self.spec.key))

    def mark(self, marked: bool) -> None:
        """Show in the title that this is the chosen one of several."""
        if self.has_class("-marked") is not marked:
            self.set_class(marked, "-marked")
            self.refresh()

    def render(self) -> Text:
        """Title, plot, legend; or the numbers as a list."""
        spec, width, height = self.spec, self.size.width, self.size.height
        if spec is None or spec.empty or width < 4:
            return self._nothing()
        if ChartView.plotter not in {"ready", "missing"}:
            return Text("…", style="dim")
        palette = self._palette()
        above, below = self._heading(spec), self._legend(spec, palette)
        room = height - len(above) - len(below)
        drawn = None
        if ChartView.plotter == "ready":
            from labtui.tui.widgets import plot_text

            drawn = plot_text.draw(spec, width, room, palette)
        body = Text.from_ansi(drawn) if drawn is not None else _as_list(spec, room)
        return Text("\n").join([*above, body, *below])

    def _heading(self, spec: ChartSpec) -> list[Text]:
        """Title and unit; on two lines where one is too narrow and there are enough."""
        width = self.size.width
        title = Text(no_wrap=True, end="").append(
            spec.title, "bold reverse" if self.has_class("-marked") else "bold"
        )
        mark = Text(f" {_PRACTICE} " if spec.practice else "", style="reverse")
        unit = Text(no_wrap=True, end="").append(spec.y_label, "dim")
        free = max(0, width - mark.cell_len - 1)  # the mark is never cut
        two = title.cell_len + 2 + unit.cell_len > free and self.size.height >= _TALL
        first, second = (title, unit) if two else (title.append("  ").append_text(unit), None)
        last = second if second is not None else first
        last.truncate(free, overflow="ellipsis")
        if spec.practice:
            last.append(" " if last.cell_len else "").append_text(mark)
        first.truncate(width, overflow="ellipsis" if two else "crop")
        return [first] if second is None else [first, second]

    def _nothing(self) -> Text:
        title, when = _MISSING.get(self._about, ("No chart yet", "it fills in as soon as an epoch is read"))
        return Text(f"{title}\n", style="bold").append(when, style="dim not bold")

    def _legend(self, spec: ChartSpec, palette: Palette) -> list[Text]:
        """Marks and names, on as many lines as they need but at most a quarter of the height."""
        width, most = max(1, self.size.width), max(1, self.size.height // 4)
        lines: list[Text] = []
        for mark, name, colour in plot_look.legend(spec, palette):
            entry = Text(no_wrap=True, end="").append(f"{mark} ", _rich_style(colour))
            entry.append(plot_look.plain(name))
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
            return plot_look.NO_COLOUR
        if self.app.native_ansi_color:
            return plot_look.ANSI
        return plot_look.DARK if self.app.current_theme.dark else plot_look.LIGHT


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
