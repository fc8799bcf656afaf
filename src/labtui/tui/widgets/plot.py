"""Draws a `ChartSpec` in rows of cells: lines with plotext; marks, values, names and bars cell by cell."""

import math
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby, pairwise

import msgspec
from rich.cells import cell_len, set_cell_size
from rich.text import Text

from labtui.results import charts as specs
from labtui.results.numbers import round_epochs, tick_texts
from labtui.tui.format import NOTHING, all_shortened, look_of, place_text, plain, shortened, wrapped
from labtui.tui.themes import Roles, ascii_only
from labtui.tui.widgets.grid import Grid, axis_value, braille, longest_drawn, scale_of

MIN_HEIGHT, MIN_COLUMNS = 8, 24
"""With fewer rows a chart would mislead: different values would be on one row."""
FORMULAS = {"Amdahl": ("#", "⠤⠤⠤"), "Gustafson": ("######      ", "⠤ ⠤")}
IDEAL = "#   ", "⠄ ⠄"
"""Which dots of a curve are drawn, and a sample: where one curve lies on the other, both are seen."""


class Cursor(msgspec.Struct, frozen=True):
    """The chosen series, as an index into the measured ones, and the x of the chosen point; None: no point."""

    series: int = 0
    x: float | None = None


def draw(spec: specs.ChartSpec, width: int, height: int, look: Roles, cursor: Cursor) -> list[Text] | None:
    """The chart in exactly `width` by `height` cells; None if it does not fit."""
    small = width < MIN_COLUMNS or height < MIN_HEIGHT
    return None if small else _Drawing(spec, width, height, look, cursor).draw()


class _Drawing:
    """Draws one chart into its grid."""

    def __init__(self, spec: specs.ChartSpec, width: int, height: int, look: Roles, cursor: Cursor) -> None:
        self.spec, self.look, self.cursor = spec, look, cursor
        self.measured, self.names = spec.measured, list(map(plain, spec.names))
        self.others = [each for each in spec.series if each.role == "other"]
        self.formulas = [each for each in spec.series if not each.is_run and each.points]
        self.xs = sorted({x for x, _ in spec.x_ticks} | {p.x for each in spec.series for p in each.points})
        self.bars = spec.kind != "lines"
        self.few = len(self.measured) <= 2 and not self.bars  # then each mark has its value beside it
        self.grid = Grid(width, height)
        self.marked: dict[tuple[int, int], int] = {}  # the cells that have a mark, and whose it is
        self.paths = defaultdict[tuple[int, int], dict[int, str]](dict)  # the signs of each cell, by line
        self.rows = height - (3 if height > 11 else 2)
        names = dict(spec.x_ticks) if spec.x_axis == "names" and spec.kind == "bars" else {}
        more = max(map(len, wrapped(names, (width - 10) // max(1, len(self.xs)) - 2).values()), default=0) - 2
        self.rows -= more if 0 < more < self.rows - MIN_HEIGHT else 0
        self.listed = self.bars or specs.is_crowded(spec) or len(self.measured) > self.rows
        self.scale = scale_of(spec, self.rows)
        self.unit = " %" if spec.percent else {"×": "×", "s": " s"}.get(spec.unit, "")
        ticks = [spec.y_base**tick if spec.y_log else tick for tick in self.scale.ticks]
        self.y_labels = [f"{text}{self.unit}" for text in tick_texts(ticks, percent=spec.percent)]
        self.tick_rows = [self.rows - 1 - int(self.scale.height(n)) for n in self.scale.ticks]
        self.left = max(map(len, self.y_labels), default=1) + 1
        self.right = self._make_room(width)
        self.columns = max(8, width - self.left - 1 - self.right)
        longest = max((len(each.points) for each in self.measured), default=0)
        self.dense = 5 * longest > self.columns
        low, high = (self._fx(self.xs[0]), self._fx(self.xs[-1])) if self.xs else (0.0, 1.0)
        if high <= low:
            low, high = low - 1, high + 1
        self.x_low, self.x_high = low - (high - low) * 2.5 / self.columns, high

    def _make_room(self, width: int) -> int:
        """Set the widths of the names and values beside the plot, which are columns; return that of the labels."""
        several, points = len(self.measured) > 1, [p for each in self.measured for p in each.points]
        # a value at the end of a line over time would read as the run's
        timed = self.spec.over_time and self.spec.unit == "s" and not self.listed
        told = [] if timed or self.spec.kind in ("bars", "repeats") else points
        self.value_room = max((cell_len(self._value(each)) for each in told), default=0)
        self.name_room = max(map(cell_len, self.names)) if several else 0
        more = self.value_room + 3 + (4 if several else 0)  # with blanks and the mark
        wide = [7 + cell_len(each.short or each.name) for each in self.formulas]
        for name, each in zip(self.names, self.measured, strict=True):
            size = self.name_room if self.value_room else several * cell_len(name)
            wide.append(size + more + len(self._far(each.points[-1])))
        share = 1 / 3 if self.spec.over_time else 0.5 if width > 80 else 0.4  # most of a chart is the plot
        most = max(more + min(10, self.name_room), int(share * width)) if width >= 40 else width // 2
        room = min(max(wide, default=0), most)
        if room - more < min(8, self.name_room):  # names say more than values
            self.value_room, more = 0, 7
        self.name_room = min(self.name_room, max(3, room - more))
        self.names = all_shortened(self.names, self.name_room)
        return room if several or not (self.spec.over_time or self.bars) else 2

    def _fx(self, x: float) -> float:
        return math.log2(x) if self.spec.x_log and x > 0 else x

    def _column(self, x: float) -> int:
        """The column of an x; bars are in groups of equal width."""
        if self.bars:
            return self.left + 1 + int((self.xs.index(x) + 0.5) * (self.columns // len(self.xs)))
        share = (self._fx(x) - self.x_low) / (self.x_high - self.x_low)
        return self.left + 1 + min(self.columns - 1, max(0, round(share * (self.columns - 1))))

    def _height(self, y: float) -> float:
        """The height of a value above the lowest row's lower edge, in rows: a tick's is in the middle of a row."""
        return min(self.scale.height(axis_value(self.spec, y)), self.rows - (self.spec.kind == "bars"))

    def _row(self, y: float) -> int:
        """The row of a value, from the top."""
        return self.rows - 1 - int(self._height(y))

    def _rivals(self, point: specs.Point, lines: Iterable[specs.Series]) -> list[float]:
        """How much higher than a point those of other lines at its x are, in rows."""
        there = (p for each in lines for p in each.points if p.x == point.x and p is not point)
        return [self._height(each.y) - self._height(point.y) for each in there]

    def _beyond(self, point: specs.Point) -> bool:
        """Whether a warm-up is too long to be drawn at its height."""
        return point.hollow and point.y > longest_drawn(self.spec)

    def _look(self, at: int, *, hollow: bool = False) -> tuple[str, str]:
        """The mark and the colour of a line, or of bars."""
        look = self.look
        if self.spec.kind == "stacked":
            return "■", (look.busy, look.axis, look.soft, look.quiet, look.line)[at % 5]
        mark, colour = look_of(self.spec, at, look, chosen=at == self.cursor.series, hollow=hollow)
        return "■" if self.bars else mark, colour

    def draw(self) -> list[Text]:
        """Draw frame, formulas, lines (the best and the chosen one last), marks, names and values."""
        self._draw_frame()
        self._draw_x_ticks()
        if not self.spec.measured:
            lines = textwrap.wrap(self.spec.message, max(8, self.grid.width - self.left - 4))
            for at, text in enumerate(lines, self.rows // 3):
                self.grid.put(self.left + 3, at, text, self.look.soft)
            return self.grid.lines()
        if self.bars:
            self._draw_bars()
            if len(self.measured) > 1:
                self._write_list()
            return self.grid.lines()
        self._draw_formulas()
        best = 1 if self.spec.view == "time" or self.spec.family in ("error", "loss") else -1  # the least
        order = sorted(specs.order_of(self.spec)[::best], key=lambda at: at == self.cursor.series)
        self._draw_lines(order)
        self._draw_cursor()
        for at in order:
            self._draw_marks(at)
        if self.listed:
            self._write_list()
        else:
            self._write_names(order[::-1])
        if self.spec.over_time:
            self._tell_warmup()
        if self.few:
            self._write_values()
        return self.grid.lines()

    def _write(self, spots: Iterable[tuple[int, int]], text: str, style: str, around: int = 1) -> bool:
        """Write a text at the first of these places (column, row) that is free; return whether one is."""
        size, columns = cell_len(text), range(self.left + 1, self.grid.width - cell_len(text) + 1)
        inside = ((at, row) for at, row in spots if at in columns and 0 <= row < self.rows)
        free = next((spot for spot in inside if self.grid.free(*spot, size, around)), None)
        if free is not None:
            self.grid.put(*free, text, style)
        return free is not None

    def _draw_frame(self) -> None:
        look, grid = self.look, self.grid
        for row in range(self.rows):
            grid.put(self.left, row, "│", look.axis)
        for row, label in zip(self.tick_rows, self.y_labels, strict=True):
            grid.put(self.left, row, "┼", look.axis)
            grid.put(self.left - 1 - len(label), row, label, look.quiet)
            grid.put(self.left + 1, row, "┈" * self.columns, look.line)
        row = self._row(0.0) if self.bars else self.rows
        grid.put(self.left, row, ("┼" if self.bars else "└") + "─" * self.columns, look.axis)

    def _draw_x_ticks(self) -> None:
        label, low = plain(self.spec.x_label), self.rows + 2 >= self.grid.height
        names = {x: plain(name) for x, name in self.spec.x_ticks}
        if self.spec.x_axis == "epochs" and names:
            epochs = {self.cursor.x, *round_epochs(self.xs, self.columns // 5)}
            names = {x: name for x, name in names.items() if x in epochs}
        parts = {x: name.rpartition(" on ") for x, name in reversed(names.items())}
        if all(group for group, _, _ in parts.values()) and sum(map(len, names.values())) > self.columns:
            self._name_groups({x: group for x, (group, _, _) in parts.items()})
            names, label = {x: size.split()[0] for x, (_, _, size) in parts.items()}, ""
            self.grid.put(0, self.rows + 1, plain(self.spec.x_label), self.look.quiet)
        named = self.spec.x_axis == "names"
        lines = wrapped(names, self.columns // max(1, len(self.xs)) - 2) if named else {}
        if named and not 0 < max(map(len, lines.values()), default=0) < self.grid.height - self.rows:
            names, lines = {x: name for x, name in names.items() if x == self.cursor.x}, {}
        log = ("", "; y axis log", " (log scale)", " (both axes log)")[2 * self.spec.x_log + self.spec.y_log]
        label += log if label else ""
        if not (self.spec.y_log or self.bars) and label and min(self.scale.ticks, default=0) > 0:
            label += "; y does not begin at 0"
        first = () if named else (self.cursor.x, min(names, default=0.0), max(names, default=0.0))
        for x in sorted(names, key=lambda x: first.index(x) if x in first else 3 + x):
            told = place_text(self.spec, x) if label and low and x == max(names) else names[x]
            self.grid.put(column := self._column(x), self.rows, " ┬"[not self.bars], self.look.axis)
            style = f"bold {self._look(self.cursor.series)[1]}" if self.cursor.x == x else self.look.quiet
            for row, text in enumerate(lines.get(x, [shortened(told, self.grid.width)]), self.rows + 1):
                start = column - cell_len(text if lines else names[x]) // 2
                start = max(0, min(start, self.grid.width - cell_len(text)))
                if self.grid.free(start, row, cell_len(text), not named):
                    self.grid.put(start, row, text, style)
        if self.grid.free(0, self.rows + 2, self.grid.width, 0):
            self.grid.put(self.left + 1, self.rows + 2, f"{label:^{self.columns}}", self.look.quiet)

    def _name_groups(self, groups: Mapping[float, str]) -> None:
        """Write what bars side by side share below the middle of these."""
        short = dict(zip(groups, specs.tell_apart(list(groups.values())), strict=True))
        for name, of in groupby(sorted(short), key=short.__getitem__):
            columns = list(map(self._column, of))
            text = shortened(name, len(columns) * self.columns // len(self.xs) - 1)
            start = (columns[0] + columns[-1] - cell_len(text)) // 2
            self.grid.put(start, self.rows + 2, text, self.look.quiet)

    def _formula(self, series: specs.Series) -> tuple[str, str, str]:
        """The dots of a curve that was not measured, a sample, and its colour: the law that fits best stands out."""
        best = min((each.law.misfit for each in self.formulas if each.law), default=0.0)
        law = "none" if series.law is not None and series.law.misfit == best else self.look.soft
        colour = law if series.law is not None else self.look.quiet
        return *FORMULAS.get(series.short, IDEAL), colour

    def _draw_formulas(self) -> None:
        """Draw what was not measured: the ideal in dots, laws as curves."""
        for series, before, after in ((s, *ends) for s in self.formulas for ends in pairwise(s.points)):
            pattern, _, colour = self._formula(series)
            first, last = 2 * self._column(before.x), 2 * self._column(after.x) + 1
            low, high = self._height(before.y), self._height(after.y)
            for at in range(first, last + 1):
                height = low + (at - first) / (last - first) * (high - low)
                if pattern[at % len(pattern)] == "#":
                    self.grid.dot([(at, int(4 * (self.rows - height) - 1e-9))], colour)

    def _draw_lines(self, order: Sequence[int]) -> None:
        """Draw braille lines through the marks, dotted to a live point; of a few, those on one cell take turns.

        Those of other panels are grey, below all others; they have negative places. A curve below a line is seen, too.
        """
        for at in (*range(-len(self.others), 0), *order):
            pieces = specs.line_pieces(self.spec, self.others[at] if at < 0 else self.measured[at])
            for before, after in (pair for piece in pieces for pair in pairwise(piece)):
                first, last = self._column(before.x), self._column(after.x)
                heights, dotted = [self._height(before.y), self._height(after.y)], after.live or before.live
                for column, row, sign in braille(last - first + 1, self.rows, heights):
                    if not (dotted and column % 2) and not self._beyond(before):
                        self.paths[first + column, row][at] = sign
        for (column, row), there in self.paths.items():
            mine = [at for at in there if at >= 0] or [*there]
            turn = 0 if specs.is_crowded(self.spec) else column // 3 % len(mine)
            at = mine[-1 - turn]
            if column // 3 % 3 or self.grid.free(column, row, 1, 0):
                self.grid.put(column, row, there[at], self._look(at)[1] if at >= 0 else self.look.axis)

    def _draw_marks(self, at: int) -> None:
        """Draw the marks of a series; over time only the last where points are dense or another mark would touch."""
        points = self.measured[at].points
        mark, style = self._look(at)
        for back, point in zip(range(len(points))[::-1], points, strict=True):
            here, hollow = self.cursor == Cursor(at, point.x), point.live or point.hollow
            column, row, up = self._column(point.x), self._row(point.y), self._height(point.y)
            # marks on one cell take turns
            shared = not self.listed and self.marked.get((column, row), at) != at
            turn = shared and (back - at) % len(self.measured)
            ups = () if specs.is_crowded(self.spec) else self._rivals(point, self.measured)
            near = any(abs(each) < 1.5 and int(up + each) != int(up) for each in ups)
            between = mark == NOTHING or turn or (back and (near or self.dense))
            if self.spec.over_time and between and points[1:] and not (here or point.hollow):
                continue
            ends = [self._height(y) - up for y in (point.lo, point.hi) if y is not None]
            if ends and ends[0] < -1 and ends[1] > 1:  # both ends are seen
                for y in range(round(4 * (self.rows - up - ends[1])), round(4 * (self.rows - up - ends[0]))):
                    self.grid.dot([(2 * column, y)], style)
            self.marked[column, row] = at
            sign = "↑" if self._beyond(point) else mark
            if sign == "↑" or (sign.isalpha() and not point.hollow) or ascii_only():
                self.grid.put(column, row, sign, f"bold {style}")
            else:
                shown = (row,) if near else range(self.rows)  # there no other mark hides a part of it
                self.grid.mark(column, self.rows - up, shown, mark, "none" if here else style, hollow=hollow)

    def _tell_warmup(self) -> None:
        """Write the longest warm-up beyond the scale, once, beside its arrow."""
        if beyond := [p for series in self.measured for p in series.points if self._beyond(p)]:
            top = max(beyond, key=lambda point: point.y)
            text = f" {'up to ' if len(beyond) > 1 else ''}{specs.value_text(self.spec, top, seconds=True)}, warm-up "
            rows = sorted((0, 1), key=self.tick_rows.count)  # best off the grid
            self._write([(self._column(top.x) + 1, row) for row in rows], text, self.look.quiet, 0)

    def _draw_cursor(self) -> None:
        x, at = self.cursor.x, self.cursor.series
        for point in (each for series in self.measured[at : at + 1] for each in series.points if each.x == x):
            for row in range(self._row(point.y) + 1, self.rows):
                self.grid.put(self._column(point.x), row, "┊", self._look(at)[1])

    def _value(self, point: specs.Point) -> str:
        """A point's value, in brackets if it does not count yet."""
        text = specs.value_text(self.spec, point, seconds=True)
        beyond = "↑" if self.bars and self._beyond(point) else ""
        return f"{beyond}({text})" if point.live or point.hollow else text

    def _far(self, last: specs.Point) -> str:
        """What follows the value in the margin, of a line that ends with this point."""
        early = self.spec.over_time and last.x < self.xs[-1]
        ended = f" in {place_text(self.spec, last.x)}" if self.value_room and early else ""
        return "" if self.listed else ended + (" warm-up" if last.hollow else " so far" if last.live else "")

    def _label(self, at: int) -> tuple[str, str]:
        """A line's mark, name and value, and their style: the value at the cursor, or of few lines the last one."""
        points, x, chosen = self.measured[at].points, self.cursor.x, at == self.cursor.series
        last = points[-1]
        over = x is not None and self.spec.over_time and not self.listed and last.x < x  # it ended before
        told = last if self.few or x is None or over else next((p for p in points if p.x == x), None)
        mark, colour = self._look(at, hollow=last.live)
        name = set_cell_size(self.names[at], self.name_room) if self.value_room else self.names[at]
        text = f" {mark} {name} " if self.name_room else ""
        value = NOTHING if told is None else self._value(told)
        text += f" {value:>{self.value_room}}" if self.value_room else ""
        far = self._far(last) if told is last else ""
        text += far if cell_len(text) + len(far) + 2 <= self.right else ""
        here = bool(text and chosen and told and told.x == x) and not (self.bars or last.live or last.hollow)
        if self.spec.kind == "stacked":
            colour = self.look.busy if chosen else self.look.soft  # a part's own may be too dim for text
        return f"{text.rstrip()} ", ("bold " if chosen else "") + ("reverse " if here else "") + colour

    def _write_list(self) -> None:
        """Write the labels in their order below the place of the cursor; of many those near the chosen one."""
        order, x, column = specs.order_of(self.spec), self.cursor.x, self.left + self.columns + 2
        head = x is not None and self.spec.kind not in ("bars", "repeats")
        start = max(0, self.rows // 2 - 1) if self.bars else 0
        rows = self.rows - head - start
        first = max(0, min(order.index(self.cursor.series) - rows // 2, len(order) - rows))
        if x is not None and head:
            place, end = place_text(self.spec, x), column + cell_len(self._label(0)[0]) - 1
            self._write([(end - cell_len(place), start)], place, self.look.quiet)
        for row, at in enumerate(order[first : first + rows], start + head):
            self.grid.put(column, row, *self._label(at))
            if self.bars:
                self.grid.put(column + 1, row, *self._look(at))
        if len(order) > rows:
            self.grid.put(column, self.rows, f"  {len(order) - rows} more: ↑ ↓", self.look.quiet)

    def _write_names(self, order: Sequence[int]) -> None:
        """Write each label beside the end of its line, in the margin; the most important one comes first."""
        margin, down = self.left + self.columns + 2, specs.order_of(self.spec)
        ends = enumerate(self._row(self.measured[at].points[-1].y) for at in down)
        inside = [min(max(row, at), self.rows - len(down) + at) for at, row in ends]
        rows = dict(zip(down, map(int, specs.spread(inside, 1.0)), strict=True))
        away = sorted(range(-self.rows, self.rows), key=abs)  # a name near its line may lie in another's row
        for at in order:
            last = self.measured[at].points[-1]
            column, beside = self._column(last.x) + 2, self._row(last.y)
            spots = [(column, beside + by) for by in (0, -1, 1) if last.x < self.xs[-1] or not self.xs[1:]]
            spots += [(margin, rows[at] + by) for by in away]
            spots.sort(key=lambda spot: spot[1] in self.tick_rows and spot[0] < margin)  # off the grid
            self._write(spots, *self._label(at), 0)
        end = self.measured[0].points[-1].y
        for series in sorted(self.formulas, key=lambda each: abs(each.points[-1].y - end)):
            self._name_formula(series, margin, 1 if series.points[-1].y < end else -1)

    def _name_formula(self, series: specs.Series, margin: int, away: int) -> None:
        """Write what a curve is, seen or not, beside its end or `away` from the measured one's, else near."""
        _, sample, colour = self._formula(series)
        text, row = f" {sample} {series.short or series.name} ", self._row(series.points[-1].y)
        spots = [(margin, row + at) for at in (0, away, 2 * away)]
        spots += [(margin, row + at) for at in sorted(range(-self.rows, self.rows), key=abs)]
        self._write(spots, text, colour, 0)

    def _write_values(self) -> None:
        """Write the values of all points but the last if each has room, else of the first; over time at the cursor."""
        ratio = self.spec.unit == "×" or (self.spec.percent and self.spec.compares)  # each line begins at 1
        every = [(at, point) for at, each in enumerate(self.measured) for point in each.points[:-1]]
        inner = [each for each in every if not (self.spec.over_time or (ratio and each[1].y == 1))]
        for told in (inner, [each for each in inner if each[1].x == self.xs[0]], []):
            before = dict(self.grid.cells)
            if False not in [self._write_value(*each) for each in told]:
                break
            self.grid.cells = before
        for at, point in every:
            if self.cursor == Cursor(at, point.x) and (at, point) not in told:
                self._write_value(at, point)

    def _write_value(self, at: int, point: specs.Point) -> bool:
        """Write a value above or below its mark, away from the other line, or beside it; return whether it has room."""
        rivals = self._rivals(point, self.measured)
        text, colour = f" {self._value(point)} ", self._look(at)[1]  # no grid line touches a number
        here = self.cursor == Cursor(at, point.x)
        colour = f"bold reverse {colour}" if here else colour
        far = range(3 if here else 1)  # its ground tells whose it is
        column, end = self._column(point.x), self._column(self.xs[-1])
        row, size = self._row(point.y), cell_len(text)
        top = round(4 * (self.rows - self._height(point.y)) - 2)  # of the dots of the mark
        above, below = top // 4 - 1, (top + 3) // 4 + 1
        # on the side of another point that is near, a value would read as its
        near = [up for up in (*rivals, *self._rivals(point, self.formulas)) if 0.5 <= abs(up) < 4]
        sides = [above - by for by in far] if max(near, default=0) <= 0 else []
        sides += [below + by for by in far] if min(near, default=0) >= 0 else []
        starts = [column - back for back in (size // 2, 1, size - 2, 0, -1, size - 1)]
        spots = [(start, side) for start in starts for side in sides]
        spots += [(column + gap, row) for gap in (1, 3, -size, 5, 7)]  # its line may be steep
        spots.sort(key=lambda spot: (not above <= spot[1] <= below, spot[1] in self.tick_rows))

        def apart(at: int, side: int, mark: tuple[int, int]) -> int:
            """How far a text at a spot is from a mark, in columns; a row is as high as two."""
            return max(at + 1 - mark[0], 0, mark[0] - at - size + 2) + 2 * abs(side - mark[1])

        others = self.marked.keys() - {(column, row)}  # near one of them it would read as its
        nearest = {spot: min((apart(*spot, mark) for mark in others), default=99) for spot in spots}
        spots = [at for at in spots if at[0] < end and apart(*at, (column, row)) + 3 <= nearest[at]]
        # of marks that touch neither can have a value
        free = min(map(abs, rivals), default=1) >= 1
        return free and self._write(spots, text, colour, int(" " in self.unit))

    def _draw_bars(self) -> None:
        """Draw the bars of an x side by side with their values above, or on one another with these inside."""
        stack, texts = self.spec.kind == "stacked", []
        count = 1 if stack else len(self.measured)
        wide = max(1, min(12, int((self.columns / len(self.xs) - 1.5) / (count + 0.25))))
        for at in range(len(self.measured))[:: -1 if stack else 1]:  # lower parts over upper ones
            fill = self._look(at)[1]
            style = ("bold " if at == self.cursor.series else "") + fill
            for point in self.measured[at].points:
                left = self._column(point.x) - count * wide // 2 + at * wide * (not stack)
                below = [p.y for each in self.measured[:at] for p in each.points if p.x == point.x and stack]
                base, low, top = (round(self._height(y) * 8) for y in (0.0, sum(below), sum(below, point.y)))
                self.grid.bar(left, self.rows, wide, sorted((base, top)), fill, live=point.live)
                text = self._value(point)
                number = text.strip("()").split()[0]
                up = max(math.ceil(low / 8), (low + top) // 16)  # no part of a lower bar is in this row
                if stack and wide >= len(number) and top - 8 * up >= 4:
                    ink = "on" if fill in (self.look.axis, self.look.line) else "reverse"
                    row = self.rows - 1 - up
                    self.grid.put(left + (wide - len(number)) // 2, row, number, f"{ink} {fill}")
                self.grid.put(left, self.rows, "━" * wide * (self.cursor == Cursor(at, point.x)), style)
                if not stack:
                    texts.append((left, self.rows - math.ceil(self._height(max(0.0, point.y))), text, style))
        for left, row, whole, style in texts:  # above its bar, if no other bar or number is there
            text = whole if cell_len(whole) <= wide + 2 else whole.strip("() ").rstrip(" s%×")
            starts = [left + (wide - cell_len(text)) // 2, left, left + wide - cell_len(text)]
            spots = [(start, row - up) for up in (1, 2) for start in starts]
            self._write(spots, text, style, 0)
