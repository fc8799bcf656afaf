"""How a chart looks in cells: colours, marks, legend, where values stand. Pure: no plotext.

Colours never are the only sign: lines differ by their marks, bars by their filling, a band by its shade.
Values stand on free cells, off other values, as little over lines as can be, and a larger one is never below a
smaller one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from labtui.results.charts import ChartSpec, Point, Series, series_hues

Colour = tuple[int, int, int] | int | str
MARKS = ("●", "◆", "▲", "■", "▼", "✚")
HOLLOW_MARKS = ("○", "◇", "△", "□", "▽", "✛")
BAR_MARK, LIVE_MARK, HOLLOW_BAR = "█", "▒", "░"
BAR_MARKS = (BAR_MARK, "▚", "╳", "≡", "╱", "┼")
IDEAL_MARK = "·"
IDEAL_CAP = "┄"
FIT_MARK = "⠒"
BAND_MARK = "░"
EXPECTED_MARK = "◎"
LIVE_SIGN = "▶"


@dataclass(frozen=True, slots=True)
class Palette:
    """Colours of one theme: `series` by slot, `quiet` for axes and ideal line; ``default`` leaves a cell as it is."""

    series: tuple[Colour, ...]
    quiet: Colour = "default"
    text: Colour = "default"  # plotext gives a text without colour one of its own
    faint: Colour = "default"  # the shade of a band

    def colour(self, hue: int) -> Colour:
        """The colour of a slot of `results.charts`."""
        return self.series[hue % len(self.series)]

    def colours(self, spec: ChartSpec) -> tuple[Colour, ...]:
        """The colour of each measured series with marks."""
        return tuple(self.colour(hue) for hue in series_hues(spec))


# Networks have colours of Okabe and Ito, GPU counts a scale from violet to yellow: told apart by colour-blind
# readers, and the mark differs too. In the order of the colour slots: networks, CPU, GPU counts, everything else.
DARK = Palette(
    (
        (86, 180, 233), (230, 159, 0), (0, 190, 140), (232, 112, 60),
        (158, 168, 180),
        (160, 140, 240), (226, 130, 190), (240, 215, 90), (240, 245, 200),
        (110, 200, 205), (200, 170, 130), (150, 190, 110), (190, 150, 170),
    ),
    quiet=(128, 136, 146),
    text=(216, 222, 230),
    faint=(84, 92, 104),
)  # fmt: skip
LIGHT = Palette(
    (
        (0, 98, 160), (190, 80, 0), (0, 120, 88), (150, 60, 20),
        (95, 104, 114),
        (98, 70, 190), (178, 50, 125), (128, 98, 0), (70, 75, 30),
        (0, 115, 125), (125, 90, 45), (75, 110, 30), (120, 70, 95),
    ),
    quiet=(110, 118, 128),
    text=(31, 40, 48),
    faint=(176, 184, 192),
)  # fmt: skip
NO_COLOUR = Palette(("default",))


def measured_series(spec: ChartSpec) -> tuple[Series, ...]:
    return tuple(each for each in spec.series if each.role == "measured" and each.points)


def marks_of(spec: ChartSpec) -> tuple[str, ...]:
    """The mark (or the filling of the bars) of each measured series; a series of warm-ups is hollow throughout."""
    marks, filled = [], 0
    for place, series in enumerate(measured_series(spec)):
        hollow = all(point.hollow for point in series.points)
        if spec.kind == "lines":
            marks.append((HOLLOW_MARKS if hollow else MARKS)[place % len(MARKS)])
        elif hollow:
            marks.append(HOLLOW_BAR)
        else:
            marks.append(BAR_MARKS[filled % len(BAR_MARKS)])
            filled += 1
    return tuple(marks)


def legend(spec: ChartSpec, palette: Palette) -> list[tuple[str, str, Colour]]:
    """Mark, name and colour of each series, for lines of our own under the chart."""
    entries: list[tuple[str, str, Colour]] = []
    measured = measured_series(spec)
    names = short_names([series.name for series in measured])
    for mark, series, name, colour in zip(
        marks_of(spec), measured, names, palette.colours(spec), strict=True
    ):
        live = spec.kind == "lines" and any(point.live for point in series.points)
        entries.append((mark, f"{name} {LIVE_SIGN}" if live else name, colour))
    for series in spec.series:
        if series.points and series.role != "measured":
            entries.append(_other_entry(spec, series, palette))
    return [*entries, *_signs(spec, measured, palette)]


def _other_entry(spec: ChartSpec, series: Series, palette: Palette) -> tuple[str, str, Colour]:
    if series.role == "band":
        return BAND_MARK * 2, series.name, palette.faint
    if series.role == "fit":
        return FIT_MARK * 2, series.name, palette.text
    if series.role == "reference" and len(series.points) == 1:
        return EXPECTED_MARK, series.name, palette.text
    return (IDEAL_CAP if spec.kind != "lines" else IDEAL_MARK) * 2, series.name, palette.quiet


def tick_texts(ticks: Sequence[float], *, percent: bool) -> list[str]:
    """The ticks of an axis as numbers; with more digits where two of them would look alike."""
    texts = [number_text(tick, percent=percent) for tick in ticks]
    if len(set(texts)) == len(texts):
        return texts
    scale, unit = (100.0, " %") if percent else (1.0, "")
    return [f"{tick * scale:.6g}{unit}" for tick in ticks]


def _signs(spec: ChartSpec, measured: Sequence[Series], palette: Palette) -> list[tuple[str, str, Colour]]:
    """What live and hollow marks mean, where there are any that no series is named after."""
    points = [point for series in measured for point in series.points]
    signs: list[tuple[str, str, Colour]] = []
    if any(point.live for point in points):
        drawn = spec.kind == "bars"
        signs.append((LIVE_MARK if drawn else LIVE_SIGN, "still running", palette.text))
    solid = [series for series in measured if not all(point.hollow for point in series.points)]
    if any(point.hollow for series in solid or measured for point in series.points):
        signs.append((HOLLOW_BAR if spec.kind != "lines" else HOLLOW_MARKS[0], "warm-up", palette.text))
    return signs


def short_names(names: Sequence[str]) -> list[str]:
    """Names without the words they all begin with: ``1 GPU``, ``2 GPUs`` for ``ResNet50 · 1 GPU`` and so on."""
    if len(names) < 2:
        return list(names)
    for cut in (" · ", ", "):
        heads = {name.partition(cut)[0] for name in names}
        if len(heads) == 1 and all(name.partition(cut)[2] for name in names):
            return [name.partition(cut)[2] for name in names]
    return list(names)


def plain(label: str) -> str:
    """A label from outside as one line of at most 40 printable characters."""
    return "".join(character if character.isprintable() else " " for character in label)[:40]


def number_text(value: float, *, percent: bool, exact: bool = False) -> str:
    """A number on an axis; with `exact` at a mark, with the digits a student copies."""
    if percent:
        return f"{value * 100:.0f} %"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    if not exact or abs(value) < 0.01:
        return f"{value:.3g}"
    return f"{value:.1f}" if abs(value) >= 100 else f"{value:.2f}"


MOST_POSITIONS = 8
MOST_VALUES = 24
_NEVER = 1000
_LINE = 3
_FAINT = 1


@dataclass(frozen=True, slots=True)
class Plane:
    """The plotting area in cells and in the axes' units; column 0 is left, row 0 is on top."""

    columns: int
    rows: int
    x_low: float
    x_high: float
    y_low: float
    y_high: float

    @property
    def row_height(self) -> float:
        return (self.y_high - self.y_low) / self.rows

    def cell(self, x: float, y: float) -> tuple[int, int]:
        return (
            _place(x, self.x_low, self.x_high, self.columns),
            self.rows - 1 - _place(y, self.y_low, self.y_high, self.rows),
        )

    def centre(self, column: int, row: int) -> tuple[float, float]:
        """The point in the middle of a cell."""
        across = (column + 0.5) / self.columns
        up = (self.rows - 0.5 - row) / self.rows
        return (
            self.x_low + across * (self.x_high - self.x_low),
            self.y_low + up * (self.y_high - self.y_low),
        )


def _place(value: float, low: float, high: float, count: int) -> int:
    share = (value - low) / ((high - low) or 1.0)
    return min(count - 1, max(0, math.floor(share * count)))


@dataclass
class Occupied:
    """What each cell costs a value that would cover it."""

    plane: Plane
    costs: dict[tuple[int, int], int] = field(default_factory=dict)
    values: list[tuple[float, int]] = field(default_factory=list)
    """Values that stand already, with their rows."""

    def mark(self, x: float, y: float) -> None:
        """A mark must never be covered."""
        self._add(self.plane.cell(x, y), _NEVER)

    def line(self, places: Sequence[tuple[float, float]], *, faint: bool = False) -> None:
        """A line through these points; ideal lines and fits are faint."""
        cells = [self.plane.cell(x, y) for x, y in places]
        for (left, top), (right, bottom) in pairwise(cells):
            steps = max(abs(right - left), abs(bottom - top), 1)
            for step in range(steps + 1):
                column = round(left + (right - left) * step / steps)
                row = round(top + (bottom - top) * step / steps)
                self._add((column, row), _FAINT if faint else _LINE)

    def block(self, columns: Iterable[int], rows: Iterable[int], cost: int = _NEVER) -> None:
        """A filled rectangle, a bar for instance."""
        rows = tuple(rows)
        for column in columns:
            for row in rows:
                self._add((column, row), cost)

    def _add(self, cell: tuple[int, int], cost: int) -> None:
        self.costs[cell] = max(cost, self.costs.get(cell, 0))

    def price(self, column: int, row: int, width: int) -> int | None:
        """What a value costs there; None where it cannot stand."""
        if column < 0 or row < 0 or row >= self.plane.rows or column + width > self.plane.columns:
            return None
        total = sum(self.costs.get((at, row), 0) for at in range(column, column + width))
        # Two values side by side would read as one number.
        beside = max(self.costs.get((at, row), 0) for at in (column - 1, column + width))
        return None if total >= _NEVER else total + (2 if beside >= _NEVER else 0)

    def in_order(self, value: float, row: int) -> bool:
        """Whether a value on this row stands above all smaller ones and below all larger ones, or beside them."""
        return all(
            (other_row >= row or other >= value) and (other_row <= row or other <= value)
            for other, other_row in self.values
        )

    def put(
        self, x: float, y: float, width: int, *, value: float, below: bool = False, bars: bool = False
    ) -> tuple[int, int] | None:
        """The best place for a value of so many cells at a mark: its first cell, taken from now on, or None."""
        column, row = self.plane.cell(x, y)
        best: tuple[int, int, int] | None = None
        for rank, (dx, dy) in enumerate(_around(width, below=below, bars=bars)):
            price = self.price(column + dx, row + dy, width)
            if price is None or not self.in_order(value, row + dy):
                continue
            if best is None or price + rank < best[0]:
                best = (price + rank, column + dx, row + dy)
        if best is None:
            return None
        self.values.append((value, best[2]))
        self.block(range(best[1], best[1] + width), (best[2],))
        return best[1], best[2]


def _around(width: int, *, below: bool, bars: bool) -> list[tuple[int, int]]:
    """Offsets of a value's first cell from its mark, the nicest first."""
    middle = -(width // 2)
    if bars:
        return [(middle, -1), (middle + 1, -1), (middle, -2)]
    near = -1 if not below else 1
    return [
        (middle, near),
        (1, near),
        (-width, near),
        (2, 0),
        (-width - 1, 0),
        (middle, -near),
        (1, -near),
        (-width, -near),
        (middle, 2 * near),
        (2, 2 * near),
        (-width - 1, 2 * near),
    ]


def valued_points(spec: ChartSpec, series: Sequence[Series]) -> list[tuple[int, Point]]:
    """The marks that carry their value, with the place of their series: all where they can be read, else the last."""
    positions = {point.x for each in series for point in each.points}
    count = sum(len(each.points) for each in series)
    crowded = spec.kind == "lines" and len(series) > 2 and len(positions) > 4
    if crowded or len(positions) > MOST_POSITIONS or count > MOST_VALUES:
        if spec.kind != "lines":
            return []
        return [(place, max(each.points, key=lambda point: point.x)) for place, each in enumerate(series)]
    return [
        (place, point)
        for place, each in enumerate(series)
        for point in each.points
        if not _already_labelled(series[:place], point)
    ]


def _already_labelled(earlier: Sequence[Series], point: Point) -> bool:
    """Whether an earlier series has the same mark (all speedups are 1.00 on one GPU)."""
    return any(
        other.x == point.x and math.isclose(other.y, point.y, rel_tol=1e-3)
        for each in earlier
        for other in each.points
    )


def stands_below(series: Sequence[Series], place: int, point: Point) -> bool:
    """Whether a value goes below its mark: that of the lowest of several marks at one position."""
    others = [
        other.y
        for at, each in enumerate(series)
        if at != place
        for other in each.points
        if other.x == point.x
    ]
    return bool(others) and point.y < min(others)


def part_rows(shares: Sequence[float], rows: int) -> list[int]:
    """How many rows each part of a stacked bar has: as its share, and at least one from one percent on."""
    total = sum(shares) or 1.0
    exact = [share / total * rows for share in shares]
    counts = [
        max(math.floor(each), 1 if share >= 0.01 else 0) for each, share in zip(exact, shares, strict=True)
    ]
    places = range(len(shares))
    while sum(counts) < rows:
        counts[max(places, key=lambda at: exact[at] - counts[at])] += 1
    while sum(counts) > max(rows, 0) and max(counts) > 0:
        counts[max(places, key=lambda at: (counts[at] - exact[at], counts[at]))] -= 1
    return counts
