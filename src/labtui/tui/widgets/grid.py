"""A grid of coloured cells, and plotext's lines for it.

Each line is a plotext figure of its own, because a cell has one colour and lines in one figure would mix their dots.
plotext 6 draws in a kernel that aborts the process on a number that is not finite.
"""

import math
import re
from collections.abc import Container, Iterable, Sequence

from rich.cells import cell_len
from rich.text import Text

EIGHTHS = " ▁▂▃▄▅▆▇█"
BITS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""The bits of a braille character: of its four rows with two dots each."""
SHAPES = {
    "●": (" ## ", "####", "####", " ## "),
    "◆": ("  ##  ", "######", "######", "  ##  "),
    "▲": ("  ##  ", " #### ", " #### ", "######"),
    "■": ("####", "####", "####", "####"),
    "▼": ("######", " #### ", " #### ", "  ##  "),
    "✚": (" ## ", " ## ", "####", "####", " ## ", " ## "),
}
"""The dots of each mark."""
_ANSI = re.compile(r"\x1b\[[0-9;]*m")


class Grid:
    """A grid of cells, each with a character and a style; later writes overwrite earlier ones."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self.cells: dict[tuple[int, int], tuple[str, str]] = {}

    def put(self, column: int, row: int, text: str, style: str) -> None:
        """Write a text from a cell on; nothing if it does not fit."""
        if 0 <= row < self.height and column >= 0 and column + cell_len(text) <= self.width:
            for sign in text:
                self.cells[column, row], size = (sign, style), cell_len(sign)
                self.cells |= {(column + at, row): ("", style) for at in range(1, size)}
                column += size

    def free(self, column: int, row: int, width: int, around: int = 1) -> bool:
        """Whether `width` cells, and `around` more on each side, are blank or grid lines."""
        places = range(column - around, column + width + around)
        return all(self.cells.get((at, row), " ")[0] in (" ", "┈") for at in places)

    def dot(self, dots: Iterable[tuple[int, int]], style: str) -> None:
        """Add braille dots, two a column and four a row; what another style has in their cells goes."""
        for x, y in dots:
            cell = (x // 2, y // 4)
            sign, there = self.cells.get(cell, (" ", ""))
            before = ord(sign) if there == style and "\u2800" < sign <= "\u28ff" else 0x2800
            self.cells[cell] = chr(before | BITS[y % 4][x % 2]), style

    def mark(
        self, column: int, down: float, rows: Container[int], sign: str, style: str, *, hollow: bool
    ) -> None:
        """Draw a mark `down` rows from the top, to a quarter of a row, in these `rows`; a hollow one is its edge."""
        shape = SHAPES.get(sign, SHAPES["●"])
        left, top = 2 * column + 1 - len(shape[0]) // 2, max(0, round(4 * down - len(shape) / 2))
        dots = {(left + x, top + y) for y, row in enumerate(shape) for x, dot in enumerate(row) if dot == "#"}
        if hollow:
            for x, y in dots:
                self.put(x // 2, y // 4, " ", "")
            dots = {(x, y) for x, y in dots if not {(x - 1, y), (x + 1, y), (x, y - 1), (x, y + 1)} <= dots}
        self.dot([(x, y) for x, y in dots if y // 4 in rows], style)

    def bar(self, left: int, axis: int, wide: int, eighths: Sequence[int], style: str, *, live: bool) -> None:
        """Fill the cells between two heights above the row `axis`, in eighths of a row, over a longer bar's if any."""
        bottom, top = eighths
        for place in range(bottom // 8, math.ceil(top / 8) if top > bottom else 0):
            row, sign, tone = axis - 1 - place, EIGHTHS[min(8, top - place * 8)], style
            there, colour = self.cells.get((left, row), (" ", ""))
            if place * 8 < bottom:
                half = bottom - place * 8 == 4
                sign, tone = ("▀", style) if half else (EIGHTHS[bottom - place * 8], f"reverse {style}")
            elif there == "█" != sign:
                tone = f"{style} on {colour}"
            self.put(left, row, ("▒" if live and place * 8 >= bottom else sign) * wide, tone)

    def lines(self) -> list[Text]:
        cells = self.cells
        rows = ([cells.get((column, row), " ") for column in range(self.width)] for row in range(self.height))
        return [Text.assemble(*row, no_wrap=True, end="") for row in rows]


def braille(columns: int, rows: int, heights: Sequence[float]) -> Iterable[tuple[int, int, str]]:
    """The column, row and sign of each braille cell of a straight line between two `heights` (rows)."""
    import plotext

    plotext.terminal.limit(False, False)
    figure = plotext.figure
    figure.clear()
    figure.plot_size(max(2, columns), rows)
    figure.canvas("default")
    figure.legend(False)
    figure.axes(False)
    figure.ruler("x").lim(0, 1).ticks([])
    low, high = 5 / 8, rows - 5 / 8  # plotext's limits are dots near the middle of the outer rows
    figure.ruler("y").lim(low, high).ticks([])
    inside = [min(high, max(low, each)) for each in heights]
    figure.draw(figure.signal([0.0, 1.0], inside, marker="braille").density("full").lines(True))
    text = _ANSI.sub("", str(figure.build().string()))
    for row, line in enumerate(text.splitlines()[:rows]):
        yield from ((column, row, sign) for column, sign in enumerate(line) if sign not in " \u2800")
