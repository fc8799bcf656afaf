"""The charts of the task with their names and numbers: as many at once as have eight rows each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.containers import Container
from textual.events import Click
from textual.geometry import Size
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Static

from labtui.results.charts import ChartSpec, Kind, with_kind
from labtui.tui.view import NUMBER_COLUMNS, ViewState, number_rows
from labtui.tui.widgets.chart import ChartView, chart_table
from labtui.tui.widgets.plot_text import FRAME_ROWS, LEAST_ROWS
from labtui.tui.widgets.plot_values import plain
from labtui.tui.widgets.tables import KeyedTable, Row, TableColumn

if TYPE_CHECKING:
    from labtui.tui.view_model import Gallery


SHORT = {
    "epoch-time": "time",
    "throughput": "img/s",
    "speedup": "speedup",
    "efficiency": "eff.",
    "throughput-per-gpu": "img/s/GPU",
    "first-epoch": "1st epoch",
    "cpu-gpu": "CPU:GPU",
    "efficiency-loss": "losses",
    "program-time": "time",
    "program-speedup": "speedup",
    "program-efficiency": "efficiency",
    "weak-time": "weak: time",
    "weak-efficiency": "weak: efficiency",
    "laws": "laws",
    "epochs": "epochs",
    "accuracy": "accuracy",
    "gpu-utilization": "GPU use",
}
MOST_LINES = 2


def short_name(spec: ChartSpec) -> str:
    """What a chart is called in a list; jobs keep their number."""
    name = SHORT.get(spec.family, spec.family)
    job = spec.key.removeprefix(f"{spec.family}-")
    return f"{name} {job}" if spec.x_axis == "seconds" and job != spec.key else name


class ChartNames(Widget):
    """Where one is among the charts, their names, and the networks where there are several."""

    DEFAULT_CSS = """
    ChartNames { height: auto; width: 1fr; }
    """

    class ChartRequested(Message):
        """A name was clicked: that of a chart, or of a network ("" for all together)."""

        def __init__(self, *, chart: str | None = None, network: str | None = None) -> None:
            super().__init__()
            self.chart = chart
            self.network = network

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._shown: tuple[tuple[tuple[str, str], ...], str, tuple[str, ...], str | None] = ((), "", (), None)

    def show(
        self, names: Mapping[str, str], chosen: str, networks: Sequence[str] = (), network: str | None = None
    ) -> None:
        """Other charts (their names by key), another chosen one, another network."""
        shown = (tuple(names.items()), chosen, tuple(networks), network)
        if shown != self._shown:
            self._shown = shown
            self.refresh(layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """As many lines as the names need."""
        return max(1, len(self._lines(width)))

    def render(self) -> Text:
        """The lines; each name carries what a click on it means."""
        return Text("\n").join(self._lines(self.size.width)) if self._shown[0] else Text("")

    def _lines(self, width: int) -> list[Text]:
        named, chosen, networks, network = self._shown
        if not named:
            return []
        keys = [key for key, _ in named]
        at = keys.index(chosen) if chosen in keys else 0
        place = Text(f"{at + 1} of {len(keys)} ", style="bold", no_wrap=True, end="")
        names = [_name(name, key == chosen, chart=key) for key, name in named]
        lines, spot = _flow(place, names, at, width)
        first = min(max(0, spot - 1), max(0, len(lines) - MOST_LINES))
        lines = lines[first : first + MOST_LINES]
        if len(networks) > 1:
            chips = [_name("all networks", network is None, network="")]
            chips += [_name(plain(each), each == network, network=each) for each in networks]
            wanted = 0 if network is None else networks.index(network) + 1
            flowed, spot = _flow(Text("", end=""), chips, wanted, width)
            lines.append(flowed[spot])
        return lines

    def on_click(self, event: Click) -> None:
        meta = event.style.meta
        if "chart" in meta or "network" in meta:
            event.stop()
            self.post_message(self.ChartRequested(chart=meta.get("chart"), network=meta.get("network")))


def _name(name: str, chosen: bool, **meta: str) -> Text:
    style = Style(reverse=chosen, bold=chosen, meta=meta)
    return Text(f" {name} ", style=style, no_wrap=True, end="")


def _flow(start: Text, names: Sequence[Text], chosen: int, width: int) -> tuple[list[Text], int]:
    """The names on as many lines as they need, and which line has the chosen one."""
    lines, spot = [Text(no_wrap=True, end="").append_text(start)], 0
    for place, name in enumerate(names):
        if lines[-1].cell_len and lines[-1].cell_len + name.cell_len > width:
            lines.append(Text(no_wrap=True, end=""))
        lines[-1].append_text(name)
        if place == chosen:
            spot = len(lines) - 1
    return lines, spot


KEYS = ("epoch-time", "throughput", "speedup", "efficiency")
PAGE = 4
SIDE = 36
LEAST_HEIGHT = LEAST_ROWS + FRAME_ROWS + 4
"""Of a chart with its frame and a legend of two lines."""


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
        self._family = ""
        self._view_state: ViewState | None = None

    def compose(self) -> ComposeResult:
        yield ChartNames(id="chart-which")
        with Container(id="chart-body"):
            with Container(id="chart-grid"):
                for key in KEYS:
                    yield ChartView(key, id=f"chart-{key}", classes="panel")
                for place in range(PAGE):
                    yield ChartView(id=f"chart-more-{place}", classes="panel")
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

    def show(self, view_state: ViewState) -> None:
        if not self.display:
            return
        self._view_state = view_state
        self._take()
        self._apply()

    def _take(self) -> None:
        """The charts of the chosen network, as bars or lines as chosen."""
        self._networks = self.gallery.networks() if self.gallery is not None else ()
        if len(self._networks) < 2 or self._network not in self._networks:
            self._network = None
        charts = self.gallery.charts(self._network) if self.gallery is not None else ()
        self._charts = {chart.key: with_kind(chart, self._kind) for chart in charts}
        if not self._stepped and (self._chosen not in self._charts or self._chosen not in KEYS):
            first = next(iter(self._charts), self._chosen)  # while the lab's four have nothing to show
            self._chosen = next((KEYS[at] for at in (2, 0) if KEYS[at] in self._charts), first)
        elif self._charts and self._chosen not in self._charts:
            same = (key for key, spec in self._charts.items() if spec.family == self._family)
            self._chosen = next(same, next(iter(self._charts)))
        if self._chosen in self._charts:
            self._family = self._charts[self._chosen].family

    # ------------------------------------------------------------------ choosing

    def step(self, direction: int) -> None:
        """The next chart that shows something, or the one before; after the last comes the first."""
        keys = list(self._charts)
        if keys:
            at = keys.index(self._chosen) if self._chosen in keys else -1
            self.choose(keys[(at + direction) % len(keys)])

    def choose(self, key: str) -> None:
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
        if spec is None or not spec.switchable:
            return False
        self._kind = "lines" if spec.kind == "bars" else "bars"
        self._take()
        self._apply()
        return True

    def scroll_numbers(self, direction: int) -> None:
        """A page of what stands beside the charts, or below them."""
        side = self.query_one("#chart-side")
        if direction > 0:
            side.scroll_page_down(animate=False)
        else:
            side.scroll_page_up(animate=False)

    def enlarge(self) -> None:
        """One chart over the whole pane, or four again."""
        self._enlarged = not self._enlarged
        self._apply()

    @on(ChartView.Clicked)
    def _chart_clicked(self, event: ChartView.Clicked) -> None:
        event.stop()
        self._enlarged = not self._enlarged
        self.choose(event.key)

    @on(ChartNames.ChartRequested)
    def _name_clicked(self, event: ChartNames.ChartRequested) -> None:
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
        wide = self.screen.has_class("-wide") or self.screen.has_class("-huge")
        return not (wide and self.screen.has_class("-tall"))

    def _fitting(self) -> int:
        """How many charts fit so that each has its eight rows: four, two side by side, or one."""
        if self._small or self._enlarged:
            return 1
        below = self.size.height * 4 // 10  # at most; the notes of further charts take as much
        if self._chosen in KEYS:
            below = min(below, len(self._task_numbers(small=False)[1]) + 1)
        room = self.size.height - 1 - below
        return PAGE if room >= 2 * LEAST_HEIGHT else 2

    def _page(self, count: int) -> list[str]:
        """The keys of the charts on the page of the chosen one; the first pages are always the same four."""
        further = [key for key in self._charts if key not in KEYS]
        group = further if self._chosen in further else list(KEYS)
        start = group.index(self._chosen) // count * count if self._chosen in group else 0
        return group[start : start + count]

    def _apply(self) -> None:
        count = self._fitting()
        page = self._page(count)
        names = {key: short_name(spec) for key, spec in self._charts.items()}
        self.query_one(ChartNames).show(names, self._chosen, self._networks, self._network)
        views = [self.query_one(f"#chart-{key}", ChartView) for key in KEYS]
        more = [self.query_one(f"#chart-more-{place}", ChartView) for place in range(PAGE)]
        for key, view in zip(KEYS, views, strict=True):
            _give(view, self._charts.get(key))
            view.display = key in page
            view.mark(count > 1 and key == self._chosen)
        for place, view in enumerate(more):
            key = page[place] if place < len(page) and page[place] not in KEYS else ""
            _give(view, self._charts.get(key))
            view.display = bool(key)
            view.mark(count > 1 and key == self._chosen)
        self._arrange(len(page))
        self._show_numbers(self._small)
        self._show_notes(page)

    def _arrange(self, count: int) -> None:
        grid = self.query_one("#chart-grid").styles
        grid.grid_size_columns = 1 if count == 1 else 2
        grid.grid_size_rows = 1 if count < 3 else 2

    def _show_numbers(self, small: bool) -> None:
        table = self.query_one(KeyedTable)
        titles, rows = self._table(small)
        columns = [
            TableColumn(str(at), f"{'  ' if at else ''}{title}", at > 0) for at, title in enumerate(titles)
        ]
        table.sync(columns, [_row(place, cells) for place, cells in enumerate(rows)])
        table.display = bool(rows)

    def _table(self, small: bool) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
        """Titles and rows below (or beside) the charts: the task's numbers, or those of another chosen chart."""
        spec = self._charts.get(self._chosen)
        if spec is None or self._chosen in KEYS:
            return self._task_numbers(small)
        return chart_table(spec, SIDE - 1 if small else max(SIDE, self.size.width * 6 // 10))

    def _task_numbers(self, small: bool) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
        """The numbers of the lab's four charts: all of them, or those of the chart that is shown."""
        if self._view_state is None:
            return (), ()
        models = frozenset({self._network}) if self._network is not None else None
        rows = number_rows(self._view_state, models)
        chosen = KEYS.index(self._chosen) if self._chosen in KEYS else 0
        keep = (0, chosen + 1) if small else range(len(NUMBER_COLUMNS))
        titles = tuple(NUMBER_COLUMNS[at] for at in keep)
        numbers = tuple(tuple(cells[at] for at in keep) for cells in rows)
        return titles, _with_batches_below(numbers) if small else numbers

    def _show_notes(self, keys: list[str]) -> None:
        shown = [self._charts[key] for key in keys if key in self._charts]
        notes = dict.fromkeys(note for chart in shown for note in chart.notes)
        text = Text("\n".join(f"• {note}" for note in notes), style="dim")
        self.query_one("#chart-notes", Static).update(text)


def _give(view: ChartView, spec: ChartSpec | None) -> None:
    if view.spec != spec:
        view.spec = spec


def _with_batches_below(rows: tuple[tuple[str, ...], ...]) -> tuple[tuple[str, ...], ...]:
    """Names that are too long beside their number on two lines: the number is what must not be cut."""
    most = max((cell_len(cells[1]) for cells in rows), default=0)
    shown: list[tuple[str, ...]] = []
    for name, number in rows:
        first, comma, batch = name.partition(", ")
        if comma and cell_len(name) + 2 + max(most, len("throughput")) > SIDE - 1:
            shown += [(f"{first},", ""), (f"  {batch}", number)]
        else:
            shown.append((name, number))
    return tuple(shown)


def _row(place: int, cells: tuple[str, ...]) -> Row:
    return Row(f"{place}|{cells[0]}", tuple(f"{'  ' if at else ''}{cell}" for at, cell in enumerate(cells)))
