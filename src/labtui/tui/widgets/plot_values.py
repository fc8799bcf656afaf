"""Where values stand beside their marks: on free cells, off other values, as little over lines as can be. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from labtui.core.charts import ChartSpec, Point, Series

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

    def cell(self, x: float, y: float) -> tuple[int, int]:
        """The cell of a point."""
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

    def put(
        self, x: float, y: float, width: int, *, below: bool = False, bars: bool = False
    ) -> tuple[int, int] | None:
        """The best place for a value of so many cells at a mark: its first cell, taken from now on."""
        column, row = self.plane.cell(x, y)
        best: tuple[int, int, int] | None = None
        for rank, (dx, dy) in enumerate(_around(width, below=below, bars=bars)):
            price = self.price(column + dx, row + dy, width)
            if price is not None and (best is None or price + rank < best[0]):
                best = (price + rank, column + dx, row + dy)
        if best is None:
            return None
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
        if spec.kind == "bars":
            return []
        return [(place, max(each.points, key=lambda point: point.x)) for place, each in enumerate(series)]
    return [
        (place, point)
        for place, each in enumerate(series)
        for point in each.points
        if not _said_before(series[:place], point)
    ]


def _said_before(earlier: Sequence[Series], point: Point) -> bool:
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
