"""`ChartView`: one `ChartSpec` drawn in the cells there are, with a heading where several stand together."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

from labtui.tui.themes import ink, roles
from labtui.tui.widgets.plot import MIN_HEIGHT, Cursor, Look, draw, plain

if TYPE_CHECKING:
    from textual.events import Click

    from labtui.results.charts import ChartSpec


class ChartView(Widget, can_focus=False):
    """A chart that is redrawn when its spec, its cursor, its size or the theme changes."""

    spec: reactive[ChartSpec | None] = reactive(None)
    cursor: reactive[Cursor] = reactive(Cursor())
    heading: reactive[str] = reactive("")
    """Stands above the chart, with the unit; "" for none."""
    chosen: reactive[bool] = reactive(False)
    plotter: ClassVar[str] = "unknown"  # then "loading", "ready" or "missing": one import for all charts

    class PlotterReady(Message):
        """The import of plotext ended."""

    class Clicked(Message):
        """A click on a chart."""

        def __init__(self, view: ChartView) -> None:
            super().__init__()
            self.view = view

    def on_mount(self) -> None:
        """Redraw in the new colours when the theme changes."""
        self.app.theme_changed_signal.subscribe(self, lambda _: self.refresh())

    def watch_spec(self, spec: ChartSpec | None) -> None:
        """The first chart with something to show brings plotext in."""
        if spec is not None and spec.measured:
            self.call_after_refresh(self._load)

    def _load(self) -> None:
        if ChartView.plotter in {"ready", "missing"}:
            self.refresh()
            return
        ChartView.plotter = "loading"

        def load() -> None:
            try:
                import plotext  # noqa: F401 - it has no built kernel on some systems

                ChartView.plotter = "ready"
            except Exception:
                ChartView.plotter = "missing"
            self.post_message(self.PlotterReady())

        threading.Thread(target=load, name="labtui-plotext", daemon=True).start()

    def on_chart_view_plotter_ready(self, message: PlotterReady) -> None:
        """Draw what was waiting."""
        message.stop()
        for view in self.screen.query(ChartView):
            view.refresh()

    def on_click(self, event: Click) -> None:
        event.stop()
        self.post_message(self.Clicked(self))

    def look(self) -> Look:
        """The colours of the theme."""
        styles, theme = roles(self.app), self.app.current_theme
        return Look(
            accent=styles.busy,
            text=str(theme.foreground),
            soft=styles.soft,
            quiet=styles.quiet,
            axis=styles.axis,
            line=theme.variables["line"],
            chip=styles.chip,
        )

    def render(self) -> Text:
        """Heading and plot; nothing below the heading where there is no room for a plot."""
        spec, look = self.spec, self.look()
        lines = [self._heading(spec, look)] if self.heading else []
        height = self.size.height - len(lines)
        if spec is None or height < MIN_HEIGHT:
            return Text("\n").join(lines if spec is None else [])
        if ChartView.plotter == "ready" or not spec.measured:
            lines += draw(spec, self.size.width, height, look, self.cursor) or []
        elif ChartView.plotter == "missing":
            lines.append(ink("plotext could not be loaded: there are no charts.", look.quiet))
        return Text("\n").join(lines)

    def _heading(self, spec: ChartSpec | None, look: Look) -> Text:
        number, _, name = (
            self.heading.partition(" ") if self.heading[:1].isdecimal() else ("", "", self.heading)
        )
        text = Text(f"{number} " if number else "", look.accent, no_wrap=True)
        text.append(name, f"bold {look.accent if self.chosen else look.text}")
        return text.append(f"  {plain(spec.y_label)}" if spec is not None else "", look.quiet)
