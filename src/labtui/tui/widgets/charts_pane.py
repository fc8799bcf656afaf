"""All charts of the task with the numbers beside them: four at once on large screens, one at a time on small ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.containers import Container
from textual.widgets import Static

from labtui.core.charts import ChartSpec, Kind, switchable, with_kind
from labtui.core.results.gallery import family
from labtui.tui.view import NUMBER_COLUMNS, Picture, number_rows
from labtui.tui.widgets.chart import ChartView
from labtui.tui.widgets.chart_names import ChartNames
from labtui.tui.widgets.chart_numbers import chart_table
from labtui.tui.widgets.keyed_table import Column, KeyedTable, Row

if TYPE_CHECKING:
    from labtui.tui.gallery import Gallery

KEYS = ("epoch-time", "throughput", "speedup", "efficiency")
PAGE = 4
SIDE = 36


class ChartsPane(Container, can_focus=True):
    """Names, charts, a table; what can be shown comes from the `gallery`.

    The first page is the lab's four charts, also while some of them wait for their numbers; further pages hold what
    else is known.
    """

    gallery: Gallery | None = None

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._chosen = "speedup"
        self._stepped = False
        self._enlarged = False
        self._kind: Kind | None = None
        self._network: str | None = None
        self._networks: tuple[str, ...] = ()
        self._charts: dict[str, ChartSpec] = {}
        self._picture: Picture | None = None

    def compose(self) -> ComposeResult:
        """The names, the four charts, places for four others, the numbers, the notes."""
        yield ChartNames(id="chart-which")
        with Container(id="chart-body"):
            with Container(id="chart-grid"):
                for key in KEYS:
                    yield ChartView(key, id=f"chart-{key}")
                for place in range(PAGE):
                    yield ChartView(id=f"chart-more-{place}")
            with Container(id="chart-side"):
                yield KeyedTable(id="chart-numbers")
                yield Static(Text(""), id="chart-notes", markup=False)

    def on_mount(self) -> None:
        """Small padding in the numbers."""
        table = self.query_one(KeyedTable)
        table.cell_padding = 0
        table.cursor_type = "none"
        table.can_focus = False
        self._apply()

    def show(self, picture: Picture) -> None:
        """Bring charts and numbers up to date."""
        self._picture = picture
        self._take()
        self._apply()

    def _take(self) -> None:
        """The charts of the chosen network, as bars or lines as chosen."""
        self._networks = self.gallery.networks() if self.gallery is not None else ()
        if len(self._networks) < 2 or self._network not in self._networks:
            self._network = None
        charts = self.gallery.charts(self._network) if self.gallery is not None else ()
        self._charts = {chart.key: with_kind(chart, self._kind) for chart in charts}
        if not self._stepped and self._chosen not in self._charts:
            self._chosen = next((KEYS[at] for at in (2, 0) if KEYS[at] in self._charts), self._chosen)
        elif self._charts and self._chosen not in self._charts:
            same = (key for key in self._charts if family(key) == family(self._chosen))
            self._chosen = next(same, next(iter(self._charts)))

    # ------------------------------------------------------------------ choosing

    def step(self, direction: int) -> None:
        """The next chart that shows something, or the one before; after the last comes the first."""
        keys = list(self._charts)
        if keys:
            at = keys.index(self._chosen) if self._chosen in keys else -1
            self.choose(keys[(at + direction) % len(keys)])

    def choose(self, key: str) -> None:
        """This chart."""
        self._stepped = True
        self._chosen = key
        self._apply()

    def step_network(self, direction: int) -> None:
        """The charts of all networks together, or of one after the other."""
        if len(self._networks) > 1:
            choices = (None, *self._networks)
            self._choose_network(choices[(choices.index(self._network) + direction) % len(choices)])

    def _choose_network(self, network: str | None) -> None:
        self._network = network
        self._take()
        self._apply()

    def switch_kind(self) -> bool:
        """Bars for lines, lines for bars, on all charts that can be both; False where the chosen one cannot."""
        spec = self._charts.get(self._chosen)
        if spec is None or not switchable(spec):
            return False
        self._kind = "lines" if spec.kind == "bars" else "bars"
        self._take()
        self._apply()
        return True

    def enlarge(self) -> None:
        """One chart over the whole pane, or four again."""
        self._enlarged = not self._enlarged
        self._apply()

    @on(ChartView.Clicked)
    def _chart_clicked(self, event: ChartView.Clicked) -> None:
        event.stop()
        self._enlarged = not self._enlarged
        self.choose(event.key)

    @on(ChartNames.Asked)
    def _name_clicked(self, event: ChartNames.Asked) -> None:
        event.stop()
        if event.chart is not None:
            self.choose(event.chart)
        elif event.network is not None:
            self._choose_network(event.network or None)

    # ------------------------------------------------------------------ showing

    def on_resize(self) -> None:
        """All columns where there is room for them, else the one of the chart that is shown."""
        self._apply()

    @property
    def _small(self) -> bool:
        """Whether the window has room for one chart only, with the numbers beside it."""
        return not (self.screen.has_class("-wide") and self.screen.has_class("-tall"))

    def _page(self) -> list[str]:
        """The keys of the charts on the page of the chosen one; the first page is always the same four."""
        further = [key for key in self._charts if key not in KEYS]
        if self._chosen not in further:
            return list(KEYS)
        start = further.index(self._chosen) // PAGE * PAGE
        return further[start : start + PAGE]

    def _apply(self) -> None:
        page, small = self._page(), self._small
        one = small or self._enlarged
        self.query_one(ChartNames).show(list(self._charts), self._chosen, self._networks, self._network)
        views = [self.query_one(f"#chart-{key}", ChartView) for key in KEYS]
        more = [self.query_one(f"#chart-more-{place}", ChartView) for place in range(PAGE)]
        for key, view in zip(KEYS, views, strict=True):
            _give(view, self._charts.get(key))
        first = page == list(KEYS)
        for place, view in enumerate(more):
            _give(view, self._charts.get(page[place]) if not first and place < len(page) else None)
        shown = dict(zip(page, views if first else more, strict=False))
        for view in (*views, *more):
            key = next((key for key, each in shown.items() if each is view), None)
            view.display = key is not None and (not one or key == self._chosen)
            view.mark(not one and key == self._chosen)
        self._arrange(1 if one else len(page))
        self._show_numbers(small)
        self._show_notes(page if first and not one else [self._chosen])

    def _arrange(self, count: int) -> None:
        grid = self.query_one("#chart-grid").styles
        grid.grid_size_columns = 1 if count == 1 else 2
        grid.grid_size_rows = 1 if count < 3 else 2

    def _show_numbers(self, small: bool) -> None:
        table, spec = self.query_one(KeyedTable), self._charts.get(self._chosen)
        titles, rows = self._task_numbers(small)
        if spec is not None and self._chosen not in KEYS:
            titles, rows = chart_table(spec, SIDE - 1 if small else max(SIDE, self.size.width * 6 // 10))
        columns = [Column(str(at), f"{'  ' if at else ''}{title}", at > 0) for at, title in enumerate(titles)]
        table.sync(columns, [_row(place, cells) for place, cells in enumerate(rows)])
        table.display = bool(rows)

    def _task_numbers(self, small: bool) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
        """The numbers of the lab's four charts: all of them, or those of the chart that is shown."""
        if self._picture is None:
            return (), ()
        models = frozenset({self._network}) if self._network is not None else None
        rows = number_rows(self._picture, models)
        chosen = KEYS.index(self._chosen) if self._chosen in KEYS else 0
        keep = (0, chosen + 1) if small else range(len(NUMBER_COLUMNS))
        titles = tuple(NUMBER_COLUMNS[at] for at in keep)
        return titles, tuple(tuple(cells[at] for at in keep) for cells in rows)

    def _show_notes(self, keys: list[str]) -> None:
        shown = [self._charts[key] for key in keys if key in self._charts]
        notes = dict.fromkeys(note for chart in shown for note in chart.notes)
        text = Text("\n".join(f"• {note}" for note in notes), style="dim")
        self.query_one("#chart-notes", Static).update(text)


def _give(view: ChartView, spec: ChartSpec | None) -> None:
    if view.spec != spec:
        view.spec = spec


def _row(place: int, cells: tuple[str, ...]) -> Row:
    return Row(f"{place}|{cells[0]}", tuple(f"{'  ' if at else ''}{cell}" for at, cell in enumerate(cells)))
