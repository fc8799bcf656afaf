"""The charts pane: five views, one large chart with a cursor on its points, or four charts on very large windows."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import ClassVar

import msgspec
from msgspec.structs import replace
from rich.cells import cell_len
from rich.text import Text
from textual import app, binding, containers, widget
from textual.reactive import reactive

from labtui.domain.model import Interval, plural
from labtui.domain.run import run_numbers
from labtui.results import charts as specs
from labtui.results.charts import FAMILIES, ChartSpec, Point, make_chart, with_curves, with_sizes
from labtui.results.messages import notes_with_names, without_baseline
from labtui.results.numbers import bounds_source, bounds_text, percent_text
from labtui.results.rows import ResultRow, with_rows
from labtui.tui import format as words
from labtui.tui.guidance import headline, instead_of_chart, unit_of
from labtui.tui.themes import ANSWER_S, ink, pointer, roles
from labtui.tui.view import ENDED_BADLY, RunLine, View, planned_sizes
from labtui.tui.view_model import VIEWS, can_fill, first_view, in_turn
from labtui.tui.widgets.frame import Pane, PlainText, clickable, key, left_right, say, sentences
from labtui.tui.widgets.log_pane import LogPane, line_text, readable, shorten
from labtui.tui.widgets.plot import Cursor, draw


def empty_chart(view: View, name: str) -> ChartSpec:
    """An empty chart for a view of the current task, with the planned sizes or epochs and what it waits for."""
    plans = [run.spec for run in view.task.runs] if view.task is not None else []
    counts = {each.program.counts for each in plans if each.program is not None}
    family = next(each for each in FAMILIES.values() if each.view == name)
    by_program = counts and (name == "time" or counts != {"GPUs"})  # an epoch is no time of a program
    family = FAMILIES.get(f"program-{name}", family) if by_program else family
    x_label = family.x_label.replace("processes", words.size_unit(plans))
    timed = counts and name in ("throughput", "training")
    rows = [row for row in view.charted if row.is_measured and row.program is None]
    lacks = [note for row in rows if name == "throughput" for note in row.notes_about("no throughput")]
    lacks += ["The logs print no accuracy and no loss."] if name == "training" and rows else []
    few = "Runs on one and on more GPUs fill this view."
    few = "This task has no runs on several GPUs." if plans else few
    lacks += [few] if not can_fill(view, name) and rows else []
    waits = "This program prints times only." if timed else "".join(lacks[:1]) or instead_of_chart(view)
    spec = make_chart(family.key, (), counted=unit_of(view), message=waits, x_label=x_label)
    epochs = {each.epochs for each in plans}
    if spec.x_axis == "epochs" and epochs:
        return replace(spec, x_ticks=tuple((float(at), f"{at}") for at in sorted({1, *epochs})))
    return with_sizes(spec, planned_sizes(view.task))


def is_panel_of(panel: ChartSpec, name: str) -> bool:
    """Whether a panel is of the line of this name in the filter; it may have only one of its sizes."""
    return f"{panel.heading}, ".startswith(f"{name}, ")


class ChartView(widget.Widget, can_focus=False):
    """A widget with a chart; it is redrawn when its spec, its cursor, its size or the theme changes."""

    spec: reactive[ChartSpec | None] = reactive(None)
    cursor: reactive[Cursor] = reactive(Cursor())
    heading: reactive[str] = reactive("")  # above the chart; "" for none
    chosen: reactive[bool] = reactive(False)

    def show(self, spec: ChartSpec | None) -> None:
        """Show a chart with its own heading; the line of the run that is chosen beside it stands out."""
        run = self.query_ancestor(Pane).view.run_id
        self.spec = panel = specs.panel_of(spec, run=run) if spec is not None else None
        self.heading = spec.heading.split(",")[0] if spec is not None else ""
        if panel is not None and panel is not spec:
            self.heading += f", {panel.heading}".removeprefix(f", {self.heading}")
        self.cursor = Cursor(specs.line_of(panel, run=run))

    def on_mount(self) -> None:
        """Redraw in the new colours when the theme changes."""
        self.app.theme_changed_signal.subscribe(self, lambda _: self.refresh())

    def render(self) -> Text:
        """The heading and the plot; empty if a plot does not fit, only the heading if there is no spec."""
        spec, look, said = self.spec, roles(self.app), self.heading.casefold()
        unit = "" if spec is None or (spec.unit and spec.measured and not said) else words.plain(spec.y_label)
        if said and (unit.casefold() in said or unit.casefold().startswith(said)):
            unit = unit[len(said) :].strip()
        unit *= cell_len(self.heading + unit) + 2 <= self.size.width or not (spec and spec.unit)  # y has it
        top = ink(self.heading, f"bold {look.busy}" if self.chosen else "bold", no_wrap=True)
        top.append("  " if said and unit else "").append(unit, look.quiet)
        top.truncate(self.size.width, overflow="ellipsis")
        lines = [top] if top else []
        height = self.size.height - len(lines)
        if spec is None:
            return Text("\n").join(lines)
        small = [ink("The window is too small for a chart.", look.quiet)]
        try:
            lines += draw(spec, self.size.width, height, look, self.cursor) or small
        except (ImportError, OSError):  # plotext's compiled kernel is missing on some systems
            lines.append(ink("plotext could not be loaded: there are no charts.", look.quiet))
        return Text("\n").join(lines)


class ShownCharts(msgspec.Struct, frozen=True, kw_only=True):
    """What the pane shows: the charts of each view that have data, and of each the one that is drawn."""

    name: str = "time"
    four: Sequence[str] = ()  # the views shown together; () for the current one alone
    charts: Mapping[str, Sequence[ChartSpec]] = {}
    drawn: Mapping[str, ChartSpec] = {}
    panels: Sequence[ChartSpec] = ()
    """Those of the chart of the current view; the chart itself if it has no panels."""
    groups: Sequence[str] = ()
    """The names of the panels, else of the lines that can be shown alone."""
    group: str = ""  # the one shown; "" for all lines
    heading: str = ""  # of a part of the chart
    no_law: str = ""  # why no law can be drawn

    @property
    def spec(self) -> ChartSpec | None:
        """The chart of the current view; None while it has no data."""
        return self.drawn.get(self.name)


class Spot(msgspec.Struct, frozen=True):
    """The point at the cursor: the index of its line, its row of results, its run and log line; of a mean the last."""

    at: int
    point: Point
    row: ResultRow | None = None
    line: RunLine | None = None
    number: int | None = None


def spot_of(view: View, spec: ChartSpec | None, name: str, x: float | None) -> Spot | None:
    """The spot on the line of this name at `x`, else at its end; None without data."""
    if spec is None or not spec.measured:
        return None
    at = specs.line_of(spec, name=name)
    points = spec.measured[at].points
    # At first the point that the title is about.
    start = min(points, key=lambda each: each.y) if spec.measured[at].part == "kept" else points[-1]
    point = next((each for each in points if each.x == x), start)
    row = next((row for row in view.charted if any(run.run_id == point.run for run in row.members)), None)
    places = [(each.run_id, each.line) for each in row.origins if each.run_id] if row is not None else []
    own = point.line or spec.family in specs.WHOLE_TRAINING  # of no epoch
    run, number = (point.run, point.line) if own else places[-1] if places else (None, None)
    return Spot(at, point, row, view.runs.get(run or 0), number)


class ChartsPane(Pane, containers.Container, can_focus=True):
    """The line with the views, the chart's sentence, the chart, and the strip about the point at the cursor."""

    BINDINGS: ClassVar[list[binding.BindingType]] = [
        key("left", "point(-1)", "Point", "the point before", show=True),
        key("right", "point(1)", "Next point", "the next point"),
        key("up", "series(-1)", "Line", "the line before", show=True),
        key("down", "series(1)", "Next line", "the line after it"),
        key("enter,space", "enlarge", "One or four", "on large windows: one chart, or four", show=True),
        key("m", "models", "Filter", "all lines together, or one after the other", show=True),
        key("o", "law", "Laws", "draw Amdahl's and Gustafson's law over the speedups, or not", show=True),
        key("L", "log_line", "Log line", "the line of the log that the point comes from", show=True),
    ]

    shown = ShownCharts()
    spot: Spot | None = None

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._chosen = ""  # the chosen view; "": none was chosen yet
        self._turn = Counter[str]()  # which of its charts each view shows alone, modulo their number
        self._only = ""  # the chosen line; "": all of them
        self._law = False
        self._alone = False
        self._line = ""  # the name of the chosen series; one that is not drawn: the first of the longest
        self._x: float | None = None  # the chosen position; None: the last of the series

    def compose(self) -> app.ComposeResult:
        yield PlainText(id="chart-views")
        yield PlainText(id="chart-sentence")
        with containers.Container(id="chart-grid"):
            for name in VIEWS:
                yield ChartView(id=f"chart-{name}")
        yield PlainText(id="chart-strip")

    # ------------------------------------------------------------------ the charts

    def show(self, view: View) -> None:
        if self.view.task_id != view.task_id:
            self._chosen, self._only, self._x, self._line = "", "", None, ""
            self._turn.clear()
        super().show(view)

    @property
    def _large(self) -> bool:
        """Whether four charts fit, each with at least 60 x 16 cells."""
        return self.size.width >= 122 and self.size.height >= 40

    def _panel(self, spec: ChartSpec) -> ChartSpec:
        """The panel of the chosen line, and of its series that the cursor is on; a chart without panels itself."""
        mine = [each for each in specs.screen_panels(spec) if self._only and is_panel_of(each, self._only)]
        panel = specs.panel_of(spec, name=self._line)
        return panel if panel in mine or not mine else mine[0]

    def _find(self, view: View) -> ShownCharts:
        """What is to be shown of a view, as chosen."""
        # a chart with panels shows the chosen line among the others, in grey
        panels = {each.family: each for each in view.charts if specs.screen_panels(each)[1:]}
        kinds = {each.family: {"x_log": each.x_log, "y_log": each.y_log} for each in view.charts}
        alone = view.by_line.get(self._only, tuple)()  # on axes of the same kind
        chosen = [replace(each, **kinds.get(each.family, {})) for each in alone] or view.charts
        every = in_turn(view.task, (panels.get(each.family, each) for each in chosen))
        name = self._chosen or first_view(view, every)
        four = self._large and not self._alone and name != "training"
        laws = [each for each in every if each.family == "laws"]
        charts = {tab: [each for each in every if each.view == tab and each not in laws] for tab in VIEWS}
        for tab in () if self._only in view.by_line else [tab for tab in VIEWS if not charts[tab]]:
            found = ([each for each in make() if each.view == tab] for make in view.by_line.values())
            charts[tab] = next(filter(None, found), [])  # too many lines for one chart: those of the first
        whole = {tab: of[0 if four else self._turn[tab] % len(of)] for tab, of in charts.items() if of}
        drawn = {tab: self._panel(each) for tab, each in whole.items()}
        no_law = "" if len(laws) == 1 else "A law needs three sizes, with one GPU."
        if view.by_line and self._only not in view.by_line:
            no_law = "Laws need one line: choose it with m."
        chart = drawn.get("speedup")
        if self._law and not no_law and chart is not None and chart.family == "speedup":
            series = (*chart.series, *(each for each in laws[0].series if each.role == "fit"))
            drawn["speedup"] = with_curves(replace(chart, series=series, message=laws[0].message))
        parts = specs.screen_panels(whole[name]) if name in whole else []
        together = [tab for tab in VIEWS if tab != "training" and (tab in drawn or can_fill(view, tab))]
        return ShownCharts(
            name=name,
            four=together if four and len(together) > 1 else (),
            charts=charts,
            drawn=drawn,
            panels=parts,
            groups=[*map(words.plain, [each.heading for each in parts] if parts[1:] else view.by_line)],
            group=words.plain(drawn[name].heading if parts[1:] else self._only),
            heading=words.plain(drawn[name].heading if parts and parts[0] is not whole[name] else self._only),
            no_law=no_law,
        )

    # ------------------------------------------------------------------ choosing

    def why_disabled(self, action: str, parameters: tuple[object, ...]) -> str | None:
        """Why an action is disabled for the current chart."""
        shown, lines = self.shown, [line for each in self.shown.panels for line in each.measured]
        law = "Laws are drawn over the speedup: press 3." if shown.name != "speedup" else shown.no_law
        one = "Training is shown alone." if self._large else "Only a larger window shows four charts."
        acts, reason = {
            "point": (any(len(each.points) > 1 for each in lines), "There is no other point here."),
            "series": (len(lines) > 1, "There is no other line here."),
            "enlarge": (self._large and shown.name != "training", one),
            "models": (bool(self.shown.groups), "This chart has no filter."),
            "law": (not law, law),
            "log_line": (bool(self.spot and self.spot.line), "No run of this lab has this point."),
        }.get(action, (True, ""))
        return "" if acts else reason

    def action_view(self, name: str, again: bool = True) -> None:
        """Show a view with its first chart; with `again`, the current one with its next chart."""
        if "training" in (name, self.shown.name) and name != self.shown.name:
            self._x = None  # its x axis has epochs, the others' have sizes
        if not again or name != self.shown.name:
            self._turn[name] = 0
        elif len(self.shown.charts.get(name, ())) > 1:
            self._turn[name] += 1
            self._alone = self._large  # four charts are the first of each view
        else:
            self.app.notify(f"{VIEWS[name]} has no other chart. 1 to 5 show the views.", timeout=ANSWER_S)
        self._chosen = name
        self.on_resize()

    def action_point(self, step: int) -> None:
        """Move the cursor to the previous (`step` -1) or the next point (1); it stays at either end."""
        if self.spot is not None and self.shown.spec is not None:
            xs = [point.x for point in self.shown.spec.measured[self.spot.at].points]
            self._x = xs[min(max(xs.index(self.spot.point.x) + step, 0), len(xs) - 1)]
            self.on_resize()

    def action_series(self, step: int) -> None:
        """Move the cursor to the previous (`step` -1) or the next line (1), of the next panel after the last."""
        shown = self.shown
        if shown.spec is not None and self.spot is not None:
            lines = [(each.measured[at].name, each) for each in shown.panels for at in specs.order_of(each)]
            at = [name for name, _ in lines].index(shown.spec.measured[self.spot.at].name) + step
            self._choose(*lines[at % len(lines)])

    def action_models(self) -> None:
        """Show the next panel, else the next line with a chart here, alone; after the last one, all lines."""
        shown = self.shown
        if shown.spec is not None and shown.panels[1:]:
            after = shown.panels[(shown.panels.index(shown.spec) + 1) % len(shown.panels)]
            self._choose(after.measured[0].name, after)
        else:
            makes, here = self.view.by_line, shown.name
            alone = [name for name in makes if here in {each.view for each in makes[name]() if each.measured}]
            at = [*makes].index(self._only) + 1 if self._only in makes else 0
            self._only = next((line for line in [*makes][at:] if line in (alone or makes)), "")
            self._line = ""
            self.on_resize()

    def _choose(self, name: str, panel: ChartSpec) -> None:
        """Move the cursor to a line; if that is in another panel, its group is chosen in all views."""
        self._line = name
        if self.shown.panels[1:] and panel != self.shown.spec:
            self._only = next((line for line in self.view.by_line if is_panel_of(panel, line)), self._only)
        self.on_resize()

    def action_law(self) -> None:
        """Show or hide the fitted laws over the speedups."""
        self._law = not self._law
        self.on_resize()

    def action_enlarge(self) -> None:
        """Switch between the chosen chart alone and four charts."""
        self._alone = not self._alone
        self.on_resize()

    async def action_log_line(self) -> None:
        """Open the log of the run that the point comes from, at the point's line."""
        spot = self.spot
        if spot is not None and spot.line is not None:
            await self.app.action_open_log_of(spot.line.run_id, "charts")
            log = self.screen.query_one(LogPane)
            log.call_after_refresh(log.show_line, spot.number)

    # ------------------------------------------------------------------ showing

    def paint(self, view: View) -> None:
        shown = self.shown = self._find(view)
        spot = self.spot = spot_of(view, shown.spec, self._line, self._x)
        self.set_class(bool(shown.four), "-four")
        say(self, "#chart-views", self._views_text())
        say(self, "#chart-sentence", self._sentence())
        for at, (name, title) in enumerate(VIEWS.items(), 1):
            chart, here = self.query_one(f"#chart-{name}", ChartView), name == shown.name
            chart.display = here or name in shown.four
            if not chart.display:
                continue
            chart.heading = f"{at} {title}" if shown.four else shown.heading
            chart.chosen = bool(shown.four) and here
            chart.spec = shown.drawn.get(name) or self._empty(view, name)
            if here and view.charts and chart.spec is not None and not chart.spec.measured:  # said above
                chart.spec = None if self._only in view.by_line else replace(chart.spec, message="")
            x = spot.point.x if here and spot is not None else None
            chart.cursor = Cursor(specs.line_of(chart.spec, name=self._line), x)
        say(self, "#chart-strip", self._strip())
        self.refresh_bindings()

    def _empty(self, view: View, name: str) -> ChartSpec | None:
        """An empty chart for a view without data; None for a task that needs no run."""
        if not view.lines and not planned_sizes(view.task):
            return None
        if self._only in view.by_line and view.results is not None:  # the reason is that of the line shown
            runs = {p.run for chart in view.by_line[self._only]() for s in chart.measured for p in s.points}
            rows = [row for row in view.charted if any(run.run_id in runs for run in row.members)]
            view = replace(view, results=with_rows(view.results, rows))
        return empty_chart(view, name)

    def _views_text(self) -> Text:
        shown, styles, left = self.shown, roles(self.app), Text(no_wrap=True)
        counts = {} if shown.four else {tab: len(of) for tab, of in shown.charts.items() if of[1:]}
        turns = {tab: f"{self._turn[tab] % count + 1}/{count} " for tab, count in counts.items()}
        taken = sum(map(len, (*VIEWS.values(), *turns.values()))) + min(16, cell_len(shown.group))
        if taken + 35 > self.size.width:  # with numbers, blanks and the filter's
            turns = {shown.name: turns.get(shown.name, "")}
        for at, (name, title) in enumerate(VIEWS.items(), 1):
            chosen = name == shown.name
            ground = f" on {self.app.current_theme.variables['tint']}" if chosen else ""
            some, action = shown.charts.get(name), f"screen.chart({at})"
            plain_style = f"bold{ground}" if chosen else styles.soft if some else styles.quiet
            number_style = f"bold {styles.busy}{ground}" if some else plain_style
            left.append(f"{pointer(chosen=chosen)}{at} ", clickable(action, number_style))
            left.append(f"{title} {turns.get(name, '')}", clickable(action, plain_style)).append(" ")
        left.right_crop(1)
        right, names, name = Text(), shown.groups, shown.group
        if names:
            filtered = f"{names.index(name) + 1}/{len(names)}" if name in names else "Filter"
            name, free = name.split(", the same ")[0], self.size.width - left.cell_len - len(filtered) - 4
            filtered += f" {words.shortened(name, free)}" if name and free >= min(8, cell_len(name)) else ""
            right = ink("m ", f"bold {styles.busy}").append(filtered, styles.soft)
        return left_right(left, right, self.size.width)

    def _sentence(self) -> Text:
        view, spec = self.view, self.shown.spec
        if spec is not None and self.shown.panels[1:]:  # a panel has the words of a chart of its lines alone
            makes = [make for name, make in view.by_line.items() if is_panel_of(spec, name)]
            alone = (each for make in makes for each in map(specs.without_repeats, make()))
            same = (c for c in alone if c.family == spec.family and len(c.measured) == len(spec.measured))
            spec = next(same, replace(spec, message=""))
        if spec is not None:
            compares = self.shown.name in ("speedup", "efficiency") and not self._only
            notes = spec.notes if spec.over_time else notes_with_names(view.charted, "pooled")
            notes = [*notes, *(without_baseline(view.charted) if compares and not spec.over_time else ())]
            said = " ".join([(spec.message or spec.title) + ("." if notes else ""), *notes])
        else:
            empty = self._empty(view, self.shown.name) if view.charts else None
            said = (empty.message if empty else headline(view)) or VIEWS[self.shown.name]
        said, more = said.replace("Hollow:", "Hollow or ↑:"), " … (hover for all)"
        shown = sentences(said, self.size.width, 2, more)
        self.query_one("#chart-sentence").tooltip = said if more in shown else None
        return ink(shown, "bold")

    def _run_words(self, number: int) -> str:
        """The number of a run, and how it ended if it ended badly."""
        line = self.view.runs.get(number)
        return f"{number} ({line.word})" if line is not None and line.phase in ENDED_BADLY else str(number)

    def _strip(self) -> Text:
        """The point at the cursor: its line and place, value, bounds and run; below them the log line."""
        spot, spec, styles = self.spot, self.shown.spec, roles(self.app)
        if spot is None or spec is None:
            return Text("")
        point, row, width = spot.point, spot.row, self.size.width
        mark, colour = words.look_of(spec, spot.at, styles, chosen=True, hollow=point.live or point.hollow)
        left = ink(f"{mark} ", colour, no_wrap=True)
        unit = f" {spec.y_label}" if spec.y_label.endswith(" per second") else ""
        value = f"   {specs.value_text(spec, point, seconds=True)}{unit}"
        name = f"{words.plain(spec.names[spot.at])}, {words.place_text(spec, point.x)}"
        left.append(words.shortened(name, width - 3 - len(value)), f"bold {colour}").append(value, "bold")
        told = row is not None and not row.is_baseline and self.shown.name == "speedup"
        share = f"{percent_text(row.efficiency)} efficient" if row is not None and told else ""
        far = "warm-up, not counted" if point.hollow else "so far" if point.live else ""
        digits, bounds = specs.value_text(spec, point).removesuffix("×"), ""
        if point.lo is not None and point.hi is not None:
            bounds = bounds_text(Interval(point.y, point.lo, point.hi), digits)
        for each in filter(None, (f"({bounds})" if bounds else "", share, far)):  # no number is cut
            left.append(f"   {each}" if left.cell_len + 3 + len(each) < width else "", styles.soft)
        numbers = [each.run_id for each in row.pooled if each.run_id] if row is not None else []
        numbers = [point.run] if point.line and point.run else numbers
        run = run_numbers(list(map(self._run_words, numbers))).lower() if numbers else ""
        job = spot.line.job if spot.line is not None and len(numbers) == 1 else None
        count = plural(len(numbers), "run") if numbers[1:] else ""
        origins = (f"{run}, job {job.job_id}" if job is not None else run, run, count)
        origin = next((each for each in origins if each and len(each) < width - left.cell_len - 1), "")
        source = f"   {bounds_source(row)}" if bounds and row is not None and not point.line else ""
        left.append(source if left.cell_len + len(source) + len(origin) < width else "", styles.quiet)
        return Text("\n").join([left_right(left, ink(origin, styles.soft), width), self._log_text(spot)])

    def _log_text(self, spot: Spot) -> Text:
        """The log line of a point; of a mean, that of the last epoch."""
        line, row, point = spot.line, spot.row, spot.point
        path = self.app.session.log_path(line.run.token, line.run.stream) if line is not None else None
        if path is None or spot.number is None or row is None or line is None:
            return Text("")
        last, of = (f"run {line.run_id}, ", f" of {row.runs} runs") if row.runs > 1 else ("", "")
        mean = f"mean of {row.epochs} epochs{of}, the last in {last}"
        styles, text = roles(self.app), line_text(self.app.session.folder.path, path, spot.number)
        place = f"{'' if point.line or row.epochs <= 1 else mean}line {spot.number}  "
        shown = shorten(readable(text, point.metric or "seconds"), self.size.width - len(place))
        return ink(place, styles.quiet, no_wrap=True).append(shown, styles.soft)
