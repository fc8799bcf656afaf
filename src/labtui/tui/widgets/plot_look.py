"""How charts look in the terminal: colours of each theme, marks of each series, the legend. Pure: no plotext.

Colours never are the only sign: lines differ by their marks, bars by their filling, a band by its shade.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from labtui.core.charts import ChartSpec, Series, stacked

Colour = tuple[int, int, int] | int | str
MARKS = ("●", "◆", "▲", "■", "▼", "✚")
HOLLOW_MARKS = ("○", "◇", "△", "□", "▽", "✛")
BAR_MARK, LIVE_MARK, HOLLOW_BAR = "█", "▒", "░"
BAR_MARKS = (BAR_MARK, "▚", "╳", "≡", "╱", "┼")
IDEAL_MARK = "·"
FIT_MARK = "⠒"
BAND_MARK = "░"
EXPECTED_MARK = "◎"
LIVE_SIGN = "▶"


@dataclass(frozen=True, slots=True)
class Palette:
    """Colours of one theme: `series` in turn, `quiet` for axes and ideal line; ``default`` leaves a cell as it is."""

    series: tuple[Colour, ...]
    quiet: Colour = "default"
    text: Colour = "default"  # plotext gives a text without colour one of its own
    faint: Colour = "default"  # the shade of a band

    def colour(self, index: int) -> Colour:
        """The colour of a series by its place."""
        return self.series[index % len(self.series)]


# Okabe and Ito's colours, told apart by colour-blind readers; the mark differs too.
DARK = Palette(
    ((86, 180, 233), (230, 159, 0), (0, 190, 140), (220, 140, 185), (240, 228, 66), (232, 112, 60)),
    quiet=(128, 136, 146),
    text=(216, 222, 230),
    faint=(84, 92, 104),
)
LIGHT = Palette(
    ((0, 114, 178), (213, 94, 0), (0, 130, 95), (170, 70, 130), (122, 98, 0), (70, 70, 70)),
    quiet=(110, 118, 128),
    text=(31, 40, 48),
    faint=(176, 184, 192),
)
ANSI = Palette(("blue+", "yellow", "green", "magenta", "cyan", "red"))
NO_COLOUR = Palette(("default",))


def measured_series(spec: ChartSpec) -> tuple[Series, ...]:
    """The series with measured marks."""
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
    for place, (mark, series, name) in enumerate(zip(marks_of(spec), measured, names, strict=True)):
        live = spec.kind == "lines" and any(point.live for point in series.points)
        entries.append((mark, f"{name} {LIVE_SIGN}" if live else name, palette.colour(place)))
    for series in spec.series:
        if series.points and series.role != "measured":
            entries.append(_other_entry(series, palette, len(measured)))
    return [*entries, *_signs(spec, measured, palette)]


def _other_entry(series: Series, palette: Palette, place: int) -> tuple[str, str, Colour]:
    if series.role == "band":
        return BAND_MARK * 2, series.name, palette.faint
    if series.role == "fit":
        return FIT_MARK * 2, series.name, palette.colour(place)
    if series.role == "reference" and len(series.points) == 1:
        return EXPECTED_MARK, series.name, palette.text
    return IDEAL_MARK * 2, series.name, palette.quiet


def _signs(spec: ChartSpec, measured: Sequence[Series], palette: Palette) -> list[tuple[str, str, Colour]]:
    """What live and hollow marks mean, where there are any that no series is named after."""
    points = [point for series in measured for point in series.points]
    signs: list[tuple[str, str, Colour]] = []
    if any(point.live for point in points):
        drawn = spec.kind == "bars" and not stacked(spec)
        signs.append((LIVE_MARK if drawn else LIVE_SIGN, "still running", palette.text))
    solid = [series for series in measured if not all(point.hollow for point in series.points)]
    if any(point.hollow for series in solid or measured for point in series.points):
        signs.append((HOLLOW_BAR if spec.kind == "bars" else HOLLOW_MARKS[0], "warm-up", palette.text))
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
