"""Where values stand beside their marks: over no line, no mark and no other value. Pure geometry, in points."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

Segment = tuple[float, float, float, float]
"""From (x0, y0) to (x1, y1); y grows upwards."""
_MARK = 3.4
_CROSSED, _ON_MARK, _ON_TEXT, _OUTSIDE, _ASTRAY = 1.0, 1.5, 3.0, 20.0, 14.0
_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Rect:
    """A rectangle; `y` grows upwards."""

    x0: float
    y0: float
    x1: float
    y1: float

    def shared(self, other: Rect) -> float:
        """The diagonal of what two rectangles share; 0 when they do not touch."""
        wide = min(self.x1, other.x1) - max(self.x0, other.x0)
        high = min(self.y1, other.y1) - max(self.y0, other.y0)
        return math.hypot(wide, high) if wide > 0 and high > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """A text for a mark at (x, y); `above` and `below` are the lengths of its error bar. `side` is preferred."""

    x: float
    y: float
    w: float
    h: float
    above: float = 0.0
    below: float = 0.0
    side: int = 1

    @property
    def mark(self) -> Rect:
        """What the mark covers."""
        return Rect(self.x - _MARK, self.y - _MARK, self.x + _MARK, self.y + _MARK)


@dataclass(frozen=True, slots=True)
class Spot:
    """A place beside a mark: the text's centre from the mark's, how little it is liked, its name in PowerPoint."""

    name: str
    dx: float
    dy: float
    dislike: float


def spots(wanted: Wanted, text: float, names: str = "") -> list[Spot]:
    """Every place beside a mark, the best liked first; `names` narrows them (``tblr``)."""
    up = wanted.above + 0.45 * text + wanted.h / 2
    down = -(wanted.below + 0.45 * text + wanted.h / 2)
    aside = wanted.w / 2 + 0.55 * text
    near = 0.12 * text + wanted.h / 2
    far = wanted.w / 2 + 0.22 * text
    likes = {"t": 0.0 if wanted.side > 0 else 5.0, "b": 5.0 if wanted.side > 0 else 0.0, "r": 8.0, "l": 8.0}
    # At the far end of a long error bar a value would be read as the bar's end.
    found = [
        Spot("t", 0.0, up, likes["t"] + 0.6 * wanted.above),
        Spot("b", 0.0, down, likes["b"] + 0.6 * wanted.below),
        Spot("r", aside, 0.0, likes["r"]),
        Spot("l", -aside, 0.0, likes["l"]),
        Spot("tl", -far, near, likes["t"] + 2.5),
        Spot("tr", far, near, likes["t"] + 2.5),
        Spot("br", far, -near, likes["b"] + 2.5),
        Spot("bl", -far, -near, likes["b"] + 2.5),
        Spot("ttl", -far, near + 0.8 * text, likes["t"] + 12.0),
        Spot("bbr", far, -near - 0.8 * text, likes["b"] + 12.0),
    ]
    return [spot for spot in found if not names or (len(spot.name) == 1 and spot.name in names)]


def placed(
    wanted: Sequence[Wanted],
    lines: Sequence[Segment],
    *,
    room: Rect,
    text: float,
    taken: Sequence[Rect] = (),
    names: str = "",
) -> list[Spot]:
    """A spot for each text, chosen one after the other, then again in view of all others."""
    choices = [spots(each, text, names) for each in wanted]
    chosen: list[Spot | None] = [None] * len(wanted)
    marks = [each.mark for each in wanted]
    for _ in range(_ROUNDS):
        before = list(chosen)
        for at, each in enumerate(wanted):
            others = [_box(wanted[i], spot) for i, spot in enumerate(chosen) if spot is not None and i != at]
            chosen[at] = min(
                choices[at],
                key=lambda spot, each=each, others=others: (  # type: ignore[misc]
                    spot.dislike
                    + _cost(_box(each, spot), lines, marks, [*taken, *others], room)
                    + _astray(each, spot, wanted)
                ),
            )
        if chosen == before:
            break
    return [spot for spot in chosen if spot is not None]


def _box(wanted: Wanted, spot: Spot) -> Rect:
    x, y = wanted.x + spot.dx, wanted.y + spot.dy
    return Rect(x - wanted.w / 2, y - wanted.h / 2, x + wanted.w / 2, y + wanted.h / 2)


def _astray(one: Wanted, spot: Spot, wanted: Sequence[Wanted]) -> float:
    """What it costs to stand nearer to another mark than to one's own: it would be read as that one's."""
    x, y = one.x + spot.dx, one.y + spot.dy
    own = math.hypot(spot.dx, spot.dy)
    near = [math.hypot(other.x - x, other.y - y) for other in wanted if other is not one]
    return _ASTRAY if near and min(near) < own - 0.01 else 0.0


def _cost(
    box: Rect, lines: Sequence[Segment], marks: Sequence[Rect], texts: Sequence[Rect], room: Rect
) -> float:
    cost = sum(_CROSSED * length_inside(line, box) for line in lines)
    cost += sum(_ON_MARK * box.shared(mark) for mark in marks)
    cost += sum(_ON_TEXT * box.shared(other) for other in texts)
    outside = max(room.x0 - box.x0, 0) + max(box.x1 - room.x1, 0)
    return cost + _OUTSIDE * (outside + max(room.y0 - box.y0, 0) + max(box.y1 - room.y1, 0))


def length_inside(line: Segment, box: Rect) -> float:
    """How much of a line lies in a rectangle (Liang and Barsky)."""
    x0, y0, x1, y1 = line
    dx, dy = x1 - x0, y1 - y0
    start, end = 0.0, 1.0
    for step, room in ((-dx, x0 - box.x0), (dx, box.x1 - x0), (-dy, y0 - box.y0), (dy, box.y1 - y0)):
        if step == 0:
            if room < 0:
                return 0.0
        elif step < 0:
            start = max(start, room / step)
        else:
            end = min(end, room / step)
    return max(0.0, end - start) * math.hypot(dx, dy)
