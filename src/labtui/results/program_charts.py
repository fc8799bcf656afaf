"""Charts of programs that are timed without epochs; strong and weak scaling are never mixed."""

from __future__ import annotations

from collections.abc import Sequence

from labtui.domain.model import Interval
from labtui.results import messages
from labtui.results.charts import ChartSpec, Series, View, distinct, interval_point
from labtui.results.numbers import percent_text, ratio_text, three_digits
from labtui.results.programs import ProgramRow, baseline_text
from labtui.results.quantity_charts import counts_chart

_UNITS = {"s": "seconds", "ms": "milliseconds"}


def program_charts(rows: Sequence[ProgramRow]) -> tuple[ChartSpec, ...]:
    """Time, speedup and efficiency of one program's strong scaling; time and efficiency of its weak scaling."""
    if not rows:
        return ()
    program = rows[0].program
    times = {row: (row.shown, three_digits(row.shown.value)) for row in rows}
    against = f"T1 is the time of {baseline_text(program)}."
    seconds = _UNITS[program.shown_in]
    if program.scaling == "weak":
        note = f"Weak scaling: n {program.counts} do n times the work. E = T1/Tn; {against}"
        shares = {row: (e, percent_text(e)) for row in rows if (e := row.weak_efficiency) is not None}
        made = [
            _program_chart(
                "weak-time", ("time", "Weak scaling: time", seconds, program.shown_in), times, note
            ),
            _program_chart(
                "weak-efficiency", ("efficiency", "Weak efficiency", "T1 / Tn", "%"), shares, note
            ),
        ]
    else:
        note = f"Strong scaling: the same work on n {program.counts}. {against}"
        ratios = {row: (s, ratio_text(s)) for row in rows if (s := row.speedup) is not None}
        shares = {row: (e, percent_text(e)) for row in rows if (e := row.efficiency) is not None}
        against_one, per_count = f"times {baseline_text(program)}", f"speedup / {program.counts}"
        made = [
            _program_chart("program-time", ("time", "Time", seconds, program.shown_in), times, note),
            _program_chart("program-speedup", ("speedup", "Speedup", against_one, "×"), ratios, note),
            _program_chart("program-efficiency", ("efficiency", "Efficiency", per_count, "%"), shares, note),
        ]
    return tuple(chart for chart in made if any(len(each.points) > 1 for each in chart.measured))


def _program_chart(
    key: str, titles: tuple[View, str, str, str], values: dict[ProgramRow, tuple[Interval, str]], note: str
) -> ChartSpec:
    view, title, y_label, unit = titles
    names = tuple(dict.fromkeys(row.series for row in values))
    series = [
        Series(
            name=name,
            short=short,
            points=tuple(
                interval_point(row.processes, value, label=text)
                for row, (value, text) in values.items()
                if row.series == name
            ),
        )
        for name, short in zip(names, distinct(names), strict=True)
    ]
    program = next(iter(values)).program if values else None
    return counts_chart(
        key,
        series,
        view=view,
        title=f"{title}, {program.name}" if program else title,
        heading=f"{title}, {unit}" if unit != "×" else title,
        message=messages.program_message(list(values)),
        x_label=program.counts if program else "processes",
        y_label=y_label,
        unit=unit,
        model=program.name if program else "",
        notes=(note,),
        practice=any(row.practice for row in values),
    )
