"""Draw many random finite charts; run in a process of its own, because plotext's kernel may abort it."""

from __future__ import annotations

import random
import sys

from rich.text import Text

from labtui.results.charts import ChartSpec, Point, Series
from labtui.tui.widgets import plot_text, plot_values

LABELS = [
    "",
    "GPUs",
    "a label that is much longer than the chart could ever be " * 3,
    "日本語",
    "x\ny",
    "\x1b[31m",
    "é" * 30,
]
ROLES = ["measured", "measured", "ideal", "fit", "reference", "band"]
PALETTES = [plot_values.DARK, plot_values.LIGHT, plot_values.ANSI, plot_values.NO_COLOUR]


def number(dice: random.Random) -> float:
    kind = dice.randrange(8)
    if kind == 0:
        return 0.0
    if kind == 1:
        return dice.choice([-1, 1]) * 10 ** dice.uniform(-12, 12)
    if kind == 2:
        return dice.uniform(0, 1)
    return dice.choice([1, 2, 4, 8]) * dice.uniform(0.5, 50)


def point(dice: random.Random) -> Point:
    y = number(dice)
    spread = abs(number(dice)) if dice.random() < 0.5 else 0.0
    bounds = {"lo": y - spread, "hi": y + spread} if dice.random() < 0.7 else {}
    return Point(
        x=number(dice) if dice.random() < 0.5 else dice.choice([1, 2, 4]),
        y=y,
        hollow=dice.random() < 0.2,
        live=dice.random() < 0.2,
        **bounds,
    )


def chart(dice: random.Random) -> ChartSpec:
    series = tuple(
        Series(
            name=dice.choice(LABELS),
            role=dice.choice(ROLES),
            points=tuple(point(dice) for _ in range(dice.randrange(7))),
        )  # type: ignore[arg-type]
        for _ in range(dice.randrange(5))
    )
    limits = {"y_min": dice.choice([None, 0.0, number(dice)]), "y_max": dice.choice([None, number(dice)])}
    ticks = tuple((number(dice), dice.choice(LABELS)) for _ in range(dice.randrange(5)))
    return ChartSpec(
        key="fuzz", title=dice.choice(LABELS), x_label=dice.choice(LABELS), y_label=dice.choice(LABELS), series=series,
        kind=dice.choice(["bars", "lines"]), x_ticks=ticks, percent=dice.random() < 0.3, **limits,
    )  # fmt: skip


def main(count: int) -> None:
    drawn = 0
    for seed in range(count):
        dice = random.Random(seed)
        spec, width, height = chart(dice), dice.randrange(0, 160), dice.randrange(0, 50)
        print(seed, flush=True) if seed % 100 == 0 else None
        text = plot_text.draw(spec, width, height, dice.choice(PALETTES))
        if text is None:
            continue
        drawn += 1
        lines = Text.from_ansi(text).plain.split("\n")
        if len(lines) != height or any(Text(line).cell_len != width for line in lines):
            raise SystemExit(f"seed {seed}: wanted {width} x {height}, got {[len(line) for line in lines]}")
    print(f"{count} charts, {drawn} drawn")


if __name__ == "__main__":
    main(int(sys.argv[1]))
