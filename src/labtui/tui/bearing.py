"""What stands beside an answer: numbers or chart and facts that bear on the question, then all numbers, other facts.

Pure functions over a `Picture`; nothing here knows Textual. labtui sets these beside the text and writes no answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from labtui.tui.format import NOTHING
from labtui.tui.view import Picture, number_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from labtui.core.charts import ChartSpec
    from labtui.core.lab.edition import Fact

CHART_WORDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("efficiency", ("efficien",)),
    ("speedup", ("speedup", "speed-up", "speed up", "linear", "scal", "ideal")),
    ("throughput", ("throughput", "images per second", "images/s")),
    (
        "epoch-time",
        ("epoch", "times", "training time", "how long", "seconds", "longer", "slower", "faster", "acceler"),
    ),
)
"""Words of a question that a chart answers to."""
NUMBERS = {
    "epoch-time": "Epoch time, s",
    "throughput": "Throughput, img/s",
    "speedup": "Speedup",
    "efficiency": "Parallel efficiency",
}
"""The charts' keys, in the order of the numbers in a row, and what stands over those numbers."""


def chart_for(question: str, charts: Sequence[ChartSpec]) -> ChartSpec | None:
    """The chart of what a question names first, among those with something to show; else speedup, else any."""
    text = question.casefold()
    shown = {chart.key.removesuffix("-practice"): chart for chart in reversed(charts) if not chart.empty}
    there = {key: shown[key] for key in NUMBERS if key in shown}
    named = []
    for key, words in CHART_WORDS:
        places = [text.index(word) for word in words if word in text]
        if places and key in there:
            named.append((min(places), key))
    wanted = min(named)[1] if named else "speedup"
    return there.get(wanted) or next(iter(there.values()), None)


def facts_for(picture: Picture, question: int | None) -> tuple[tuple[Fact, ...], tuple[Fact, ...]]:
    """The facts that bear on a question, in the edition's order, and the other facts of its task."""
    task, edition = picture.task, picture.edition
    if task is None or edition is None:
        return (), ()
    facts = edition.facts_of(task)
    asked = question is not None and 0 <= question < len(task.questions)
    names = task.questions[question].facts if asked and question is not None else ()
    bearing = tuple(fact for name in names for fact in facts if fact.id == name)
    return bearing, tuple(fact for fact in facts if fact not in bearing)


def chart_beside(picture: Picture, question: int | None) -> ChartSpec | None:
    """The chart for the question the cursor is in."""
    task = picture.task
    text = ""
    if task is not None and question is not None and 0 <= question < len(task.questions):
        text = task.questions[question].text
    return chart_for(text, picture.charts)


def text_beside(picture: Picture, question: int | None, *, charted: bool = False) -> Text:
    """What bears on the question: its numbers (unless a chart shows them) and facts; then all numbers, other facts."""
    text = Text()
    bearing, others = facts_for(picture, question)
    rows = _rows(picture)
    if not charted:
        _numbers_of_question(text, picture, question, rows)
    if bearing and question is not None:
        _facts(text, f"Bears on question {question + 1}", bearing)
    _all_numbers(text, rows)
    _facts(text, "Other facts of this task" if bearing else "Facts", others)
    if not text.plain:
        text.append("Numbers stand here as soon as runs have epochs.", style="dim")
    text.rstrip()
    return text


def _numbers_of_question(
    text: Text, picture: Picture, question: int | None, rows: Sequence[tuple[str, ...]]
) -> None:
    """One line for each number that the question's chart would show."""
    chart = chart_beside(picture, question)
    if chart is None or question is None:
        return
    key = chart.key.removesuffix("-practice")
    at = list(NUMBERS).index(key) + 1
    lines = [f"{row[0]}  {row[at]}\n" for row in rows if row[at] != NOTHING]
    if lines:
        text.append(f"{NUMBERS[key]}\n", style="bold underline")
        text.append("".join(lines)).append("\n")


def _all_numbers(text: Text, rows: Sequence[tuple[str, ...]]) -> None:
    if not rows:
        return
    text.append("Your numbers\n", style="bold underline")
    for run, epoch, rate, speedup, efficiency in rows:
        text.append(f"{run}\n", style="bold")
        text.append(f"  {epoch} s, {rate} img/s\n")
        if speedup != NOTHING:
            text.append(f"  speedup {speedup}, {efficiency}\n")
    text.append("\n")


def _facts(text: Text, title: str, facts: Sequence[Fact]) -> None:
    if not facts:
        return
    text.append(f"{title}\n", style="bold underline")
    for fact in facts:
        text.append(f"• {' '.join(fact.text.split())}").append(f"  ({fact.source})\n", style="dim")
    text.append("\n")


def _rows(picture: Picture) -> Sequence[tuple[str, ...]]:
    """The numbers of the networks this task is about, then those of the others."""
    task = picture.task
    mine = {run.model for run in task.runs} if task is not None else set()
    mine |= {run.spec.model for run in picture.runs}
    everything = {row.model for row in picture.results.rows} if picture.results is not None else set()
    return number_rows(picture, frozenset(mine)) + number_rows(picture, frozenset(everything - mine))
