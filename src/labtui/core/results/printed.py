"""The "as printed" reading: what one gets with the whole seconds a log prints, as textbooks do.

Rules found by working backwards from the published tables (tests hold every one of them):

- epoch time: the whole seconds of epoch 2 (book, tables 10.1 and 10.2). Later epochs are not averaged in.
- speedup: quotient of two such times, rounded to two decimals.
- efficiency: that *rounded* speedup over the number of GPUs. Table 10.2 prints 91.5 % for 33 s and 18 s on
  two GPUs: 1.83 / 2 = 0.915, while 33 / 18 / 2 would be 91.7 %.
- logs that print a rate and no epoch time: quotient of the rates, not rounded (thesis, figures 14 to 17).

Half a unit is rounded up, on exact fractions, so no binary rounding error decides a digit.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from labtui.core.results.measured import MeasuredRun

SECOND_EPOCH = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class AsPrinted:
    """Plain numbers of a row in the "as printed" reading; None where the logs print nothing to go by.

    Units: seconds, images per second, ratio, fraction of 1.
    """

    epoch_seconds: float | None = None
    throughput: float | None = None
    speedup: float | None = None
    efficiency: float | None = None


def round_half_up(number: Fraction, places: int) -> float:
    """Round an exact fraction as a person with a pencil does."""
    scale: int = 10**places
    return ((number * scale + Fraction(1, 2)) // 1) / scale


def printed_epoch_seconds(runs: tuple[MeasuredRun, ...]) -> Fraction | None:
    """Whole seconds of epoch 2; the mean of them when several runs were pooled."""
    seconds = [
        sample.printed_seconds
        for run in runs
        for sample in run.run.epochs
        if sample.epoch == SECOND_EPOCH and sample.printed_seconds is not None
    ]
    return Fraction(sum(seconds), len(seconds)) if seconds else None


def printed_from_seconds(
    seconds: Fraction | None, baseline: Fraction | None, *, n_gpus: int | None, images: int
) -> AsPrinted:
    """The row's plain numbers from whole seconds; a time of zero seconds has no rate and no speedup."""
    if seconds is None:
        return AsPrinted()
    throughput = float(images / seconds) if seconds else None
    if not seconds or not baseline or not n_gpus:
        return AsPrinted(epoch_seconds=float(seconds), throughput=throughput)
    speedup = round_half_up(baseline / seconds, 2)
    return AsPrinted(
        epoch_seconds=float(seconds),
        throughput=throughput,
        speedup=speedup,
        efficiency=speedup / n_gpus,
    )


def printed_from_rate(rate: float, baseline: float | None, *, n_gpus: int | None) -> AsPrinted:
    """The row's plain numbers from a printed rate (images per second)."""
    if not baseline or not n_gpus:
        return AsPrinted(throughput=rate)
    return AsPrinted(throughput=rate, speedup=rate / baseline, efficiency=rate / baseline / n_gpus)
