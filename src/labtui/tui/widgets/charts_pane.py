"""The four charts with the numbers beside them: all at once on large screens, one at a time on small ones."""

from __future__ import annotations

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Container
from textual.widgets import Static

from labtui.core.charts import ChartSpec
from labtui.tui.view import NUMBER_COLUMNS, Picture, number_rows
from labtui.tui.widgets.chart import ChartView
from labtui.tui.widgets.keyed_table import Column, KeyedTable, Row

KEYS = ("epoch-time", "throughput", "speedup", "efficiency")
SHORT = {"epoch-time": "time", "throughput": "img/s", "speedup": "speedup", "efficiency": "eff."}


class ChartsPane(Container):
    """Grid of charts and a table; ``-one`` shows a single chart."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._chosen = 2
        self._stepped = False
        self._charts: dict[str, ChartSpec] = {}
        self._numbers: list[tuple[str, ...]] = []

    def compose(self) -> ComposeResult:
        """Four charts, the numbers, the notes."""
        with Container(id="chart-grid"):
            for key in KEYS:
                yield ChartView(key, id=f"chart-{key}")
        with Container(id="chart-side"):
            yield Static(Text(""), id="chart-which", markup=False)
            yield KeyedTable(id="chart-numbers")
            yield Static(Text(""), id="chart-notes", markup=False)

    def on_mount(self) -> None:
        """Small padding in the numbers."""
        self.query_one(KeyedTable).cell_padding = 0
        self.query_one(KeyedTable).cursor_type = "none"
        self._apply()

    def show(self, picture: Picture) -> None:
        """Bring charts and numbers up to date."""
        self._charts = {chart.key: chart for chart in picture.charts}
        for key in KEYS:
            view = self.query_one(f"#chart-{key}", ChartView)
            if view.spec != self._charts.get(key):
                view.spec = self._charts.get(key)
        self._numbers = number_rows(picture)
        if not self._stepped and KEYS[self._chosen] not in self._charts:
            self._chosen = next((at for at in (2, 0) if KEYS[at] in self._charts), self._chosen)
        self._apply()

    def step(self, direction: int) -> None:
        """Another chart, where one is shown at a time."""
        self._stepped = True
        self._chosen = (self._chosen + direction) % len(KEYS)
        self._apply()

    def on_resize(self) -> None:
        """All columns where there is room for them, else the one of the chart that is shown."""
        self._apply()

    def _show_numbers(self) -> None:
        table = self.query_one(KeyedTable)
        one = self.query_one("#chart-which").display
        keep = (0, self._chosen + 1) if one else range(len(NUMBER_COLUMNS))
        columns = [
            Column(NUMBER_COLUMNS[at], f"{'  ' if at else ''}{NUMBER_COLUMNS[at]}", at > 0) for at in keep
        ]
        rows = [
            Row(f"{place}|{cells[0]}", tuple(f"{'  ' if at else ''}{cells[at]}" for at in keep))
            for place, cells in enumerate(self._numbers)
        ]
        table.sync(columns, rows)
        table.display = bool(rows)

    def _apply(self) -> None:
        self._show_numbers()
        for index, key in enumerate(KEYS):
            self.query_one(f"#chart-{key}").set_class(index == self._chosen, "-chosen")
        names = Text("", no_wrap=True)
        for index, key in enumerate(KEYS):
            names.append(f" {SHORT[key]} ", style="reverse" if index == self._chosen else "dim")
        self.query_one("#chart-which", Static).update(names)
        one = self.query_one("#chart-which").display
        shown = [
            self._charts[key]
            for key in KEYS
            if key in self._charts and (not one or key == KEYS[self._chosen])
        ]
        notes = dict.fromkeys(note for chart in shown for note in chart.notes)
        self.query_one("#chart-notes", Static).update(
            Text("\n".join(f"• {note}" for note in notes), style="dim")
        )
