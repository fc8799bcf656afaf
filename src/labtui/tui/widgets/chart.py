"""`ChartView`: one `ChartSpec` drawn in the cells there are, with a heading where several stand together."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual import work
from textual.reactive import reactive
from textual.widget import Widget

from labtui.results.charts import ChartSpec, doubling_axes
from labtui.tui.themes import Roles, ink, roles
from labtui.tui.widgets.plot import MIN_HEIGHT, Cursor, draw, plain

if TYPE_CHECKING:
    from labtui.tui.view import View

VIEWS = {name: name.capitalize() for name in ("time", "throughput", "speedup", "efficiency", "training")}
UNITS = {"time": "s", "throughput": "images/s", "speedup": "×", "efficiency": "%", "training": ""}


def empty_chart(view: View, name: str) -> ChartSpec:
    """The axes of a view of the task on the screen, with the sizes that it plans."""
    task, unit = view.task, UNITS[name]
    sizes = sorted({run.spec.n_gpus for run in task.runs} - {0}) if task is not None else []
    ticks = tuple((float(size), str(size)) for size in sizes)
    title = VIEWS[name]
    return doubling_axes(
        ChartSpec(
            key="empty", title=title, x_label="GPUs", y_label=unit, heading=title, x_ticks=ticks, unit=unit
        )
    )


class ChartView(Widget, can_focus=False):
    """A chart that is redrawn when its spec, its cursor, its size or the theme changes."""

    spec: reactive[ChartSpec | None] = reactive(None)
    cursor: reactive[Cursor] = reactive(Cursor())
    heading: reactive[str] = reactive("")
    """Stands above the chart, with the unit; "" for none."""
    chosen: reactive[bool] = reactive(False)
    plotter: ClassVar[str] = "unknown"  # then "ready" or "missing": one import for all charts

    def on_mount(self) -> None:
        """Redraw in the new colours when the theme changes."""
        self.app.theme_changed_signal.subscribe(self, lambda _: self.refresh())

    def watch_spec(self, spec: ChartSpec | None) -> None:
        """The first chart with something to show brings plotext in."""
        if spec is not None and spec.measured and ChartView.plotter == "unknown":
            self._load()

    @work(thread=True)
    def _load(self) -> None:
        try:
            import plotext  # noqa: F401 - it has no built kernel on some systems

            ChartView.plotter = "ready"
        except Exception:
            ChartView.plotter = "missing"
        self.app.call_later(self._loaded)

    def _loaded(self) -> None:
        for view in self.screen.query(ChartView):
            view.refresh()

    def render(self) -> Text:
        """Heading and plot; nothing below the heading where there is no room for a plot."""
        spec, look = self.spec, roles(self.app)
        lines = [self._heading(spec, look)] if self.heading else []
        height = self.size.height - len(lines)
        if spec is None or height < MIN_HEIGHT:
            return Text("\n").join(lines if spec is None else [])
        if ChartView.plotter == "ready" or not spec.measured:
            lines += draw(spec, self.size.width, height, look, self.cursor) or []
        elif ChartView.plotter == "missing":
            lines.append(ink("plotext could not be loaded: there are no charts.", look.quiet))
        return Text("\n").join(lines)

    def _heading(self, spec: ChartSpec | None, look: Roles) -> Text:
        text = ink(self.heading, f"bold {look.busy}" if self.chosen else "bold", no_wrap=True)
        return text.append(f"  {plain(spec.y_label)}" if spec is not None else "", look.quiet)
