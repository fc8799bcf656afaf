"""Fits of Amdahl's and Gustafson's laws with intervals, and the Karp-Flatt fraction.

Sources: Amdahl (AFIPS 1967), Gustafson (CACM 31(5), 1988), Karp and Flatt (CACM 33(5), 1990); docs/derivations.md has
the formulas.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Literal

from labtui.domain.model import Interval
from labtui.results.measured import grouped
from labtui.results.rows import ENOUGH_SIZES, Law, LawFit, ResultRow, law_speedup, student_t95
from labtui.results.scaling import same_batch, scaling_lines


def karp_flatt(speedup: Interval, n: int) -> Interval | None:
    """The experimentally determined serial fraction (Karp and Flatt); None for one device, where it is undefined."""
    if n < 2:
        return None
    # A larger speedup means a smaller fraction, so the bounds change places.
    return _ordered(*((1 / each - 1 / n) / (1 - 1 / n) for each in (speedup.value, speedup.hi, speedup.lo)))


def fit_fraction(law: Law, rows: Sequence[ResultRow]) -> Interval:
    """The fraction of a law with its interval, from the row on one device and one or more on several.

    Each law is linear in its fraction, so this is a least-squares fit to the speedups. Both fractions shrink as any of
    these grows, so the hard bounds lie at the corners of their intervals. When every mean is over two or more epochs,
    the bounds are widened by the 95 % interval of the scatter (first-order propagation, Welch-Satterthwaite degrees of
    freedom, Student's t).
    """
    amdahl, margin = law == "amdahl", 0.0
    speedups = {row.processes: row.speedup for row in rows[1:] if row.speedup is not None}
    # 1/S - 1/n = s (1 - 1/n), and n - S = s' (n - 1)
    weights = {n: 1 - 1 / n if amdahl else n - 1 for n in speedups}
    norm = math.fsum(weight**2 for weight in weights.values())

    def fraction(end: Literal["value", "lo", "hi"]) -> float:
        measured = {n: getattr(speedup, end) for n, speedup in speedups.items()}
        gaps = {n: 1 / s - 1 / n if amdahl else n - s for n, s in measured.items()}
        return math.fsum(weights[n] * gap for n, gap in gaps.items()) / norm

    value = fraction("value")
    known = [(row.scatter, row.epoch_seconds.value) for row in rows if row.scatter and row.epoch_seconds]
    errors = [(scatter.standard_error / mean, scatter.count - 1) for scatter, mean in known]
    if len(errors) == len(rows):
        # by how much the fraction moves with the logarithm of each time
        means = {n: 1 / each.value if amdahl else each.value for n, each in speedups.items()}
        slopes = [weights[n] * mean / norm for n, mean in means.items()]
        slopes = [math.fsum(slopes), *slopes]
        parts = [((k * error) ** 2, degrees) for k, (error, degrees) in zip(slopes, errors, strict=True)]
        variance = math.fsum(part for part, _ in parts)
        spread = math.fsum(part**2 / degrees for part, degrees in parts)
        margin = student_t95(variance**2 / spread) * math.sqrt(variance) if spread else 0.0
    return _ordered(value, fraction("hi") - margin, fraction("lo") + margin)


def _ordered(value: float, lo: float, hi: float) -> Interval:
    """An interval widened to contain its value: bounds that were computed separately may miss it by rounding."""
    return Interval(value, min(lo, value), max(hi, value))


_SAME = 1e-9
"""Fractions closer than this differ only by rounding."""

MIN_SIZES = 3
"""The fewest sizes a law is fitted to, one GPU among them; any law fits two sizes exactly."""


def fit_laws(rows: Sequence[ResultRow]) -> tuple[LawFit, ...]:
    """Both laws for every line that was measured on `MIN_SIZES` sizes or more.

    No law describes a line that is slower on more GPUs: a fraction above 1 is left out.
    """
    lines = [line.compared for line in scaling_lines(rows) if len(line.compared) >= MIN_SIZES]
    fits = (_fit_rows(law, line) for line in lines for law in ("amdahl", "gustafson"))
    return tuple(each for each in fits if each.serial_fraction.value <= 1)


def _fit_rows(law: Law, rows: Sequence[ResultRow]) -> LawFit:
    base, share = rows[0], fit_fraction(law, rows)
    told = [(row.speedup, law_speedup(law, share.value, row.processes)) for row in rows]
    return LawFit(
        law=law,
        serial_fraction=share,
        n_gpus=tuple(row.processes for row in rows),
        remarks=tuple(_remarks(share, rows)),
        baseline=base.configuration,
        batch_words=base.configuration.batch_words if all(same_batch(row, base) for row in rows) else "",
        misfit=max(abs(law_told / mine.value - 1) for mine, law_told in told if mine and law_told),
    )


def best_fits(fits: Iterable[LawFit]) -> list[LawFit]:
    """For each line the fit of the law that is nearest to what was measured; Amdahl's of equals."""
    lines = grouped(fits, lambda fit: fit.baseline).values()
    return [min(each, key=lambda fit: fit.misfit) for each in lines]


def _remarks(share: Interval, rows: Sequence[ResultRow]) -> Iterable[str]:
    """What the points cannot show, and where the law does not hold."""
    if len(rows) < ENOUGH_SIZES:
        yield f"{len(rows)} sizes are too few to determine a law: the fraction is a summary, not a forecast."
    if share.hi < 0:
        yield "The fraction is negative: the speedup is more than the number of GPUs (superlinear)."
    elif share.lo < 0:
        yield "The interval reaches below zero: a serial part cannot be distinguished from the uncertainty."
    if any(row.scatter is None for row in rows):
        rounding = "The interval covers the rounding of the printed times, not the scatter between epochs"
        yield f"{rounding}: one size has a single epoch."
    first, last = (fit_fraction("amdahl", (rows[0], row)) for row in (rows[1], rows[-1]))
    if share.hi < 0:  # no cost grows where more GPUs gain more
        return
    if last.lo > first.hi + _SAME:
        yield "The Karp-Flatt fraction rises with the GPUs: some cost grows with their number."
    elif last.hi < first.lo - _SAME:
        yield "The Karp-Flatt fraction falls with the GPUs: the loss is not one constant serial part."
