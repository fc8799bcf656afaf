"""Amdahl, Gustafson and Karp-Flatt on exact data, and against the truth on noisy data."""

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from labtui.domain.model import Interval
from labtui.results import laws, report, scaling
from labtui.results.compute import compute_results, measure
from labtui.results.messages import fit_sentences, law_lines, laws_message
from labtui.results.rows import ResultRow, Scatter, law_speedup, student_t95

from .helpers import results_of, run

QUANTILES = {1: 12.7062, 2: 4.3027, 5: 2.5706, 10: 2.2281, 30: 2.0423, 31: 2.0395, 60: 2.0003, 3.7: 3.1824}


def timed(n: int, one: Interval, seconds: Interval, scatter: Scatter | None = None) -> ResultRow:
    """A row on n GPUs whose epoch takes `seconds`, and that of its baseline `one`."""
    return replace(measure(run(n, [1])), epoch_seconds=seconds, speedup=one.over(seconds), scatter=scatter)


@given(times=st.lists(st.floats(1, 100), min_size=1, max_size=6), first=st.floats(1, 100))
def test_fits_are_least_squares(times, first):
    n = np.array([2, 4, 8, 16, 24, 32][: len(times)])
    speedups = first / np.array(times)
    exact = [Interval.exact(time) for time in (first, *times)]
    points = [timed(at, exact[0], time) for at, time in zip((1, *n), exact, strict=True)]
    rows = {"amdahl": (1 - 1 / n, 1 / speedups - 1 / n), "gustafson": (n - 1.0, n - speedups)}
    for law, (factors, wanted) in rows.items():
        ((fraction,), *_) = np.linalg.lstsq(factors[:, None], wanted, rcond=None)
        assert laws.fit_fraction(law, points).value == pytest.approx(fraction, rel=1e-9, abs=1e-9)


def test_many_exact_points_leave_nothing_to_say_and_one_or_two_give_no_fraction_and_no_law():
    both = []
    for law in ("gustafson", "amdahl"):  # the short report tells the one that fits each line best
        times = {n: 100 / law_speedup(law, 0.1, n) for n in (1, 2, 4, 8, 16)}
        made = [run(n, [200, t, t, t], batch=2048 * n, model=law) for n, t in times.items()]
        for runs in (made, both := [*both, *made]):
            told = report.short_report(results := compute_results(runs)).splitlines()
            told = [line.partition(",")[0] for line in told if "of each speedup" in line]
            assert told == [law.capitalize()] if runs is made else len(set(told)) == len(both) // len(made)
    amdahl = (results := compute_results(made)).fits[0]
    assert amdahl.remarks == () and amdahl.n_gpus == tuple(times)
    assert amdahl.serial_fraction.value == pytest.approx(0.1, abs=1e-9)
    (outlook,) = scaling.outlooks(results.rows)
    assert outlook.n_gpus == 32 and outlook.same > outlook.grows > 0
    whole = {n: 781 // n for n in (1, 2, 4, 8, 16)}  # PyTorch leaves out the short last batch
    told = [run(n, [9, s, s], batch=n, images=n * s, framework="pytorch") for n, s in whole.items()]
    dropped = compute_results(told)  # as many images per second on each GPU
    fractions = [fit.serial_fraction.value for fit in dropped.fits]
    assert fractions == pytest.approx([0, 0], abs=1e-12) and scaling.outlooks(dropped.rows)[0].same == 32
    assert not scaling.outlooks(compute_results([run(1, [9, 4]), run(2, [9, 1.9])]).rows), "faster than ideal"
    found = laws.karp_flatt(Interval(1.7, 1.6, 1.8), 2)
    assert (found.lo, found.hi) == pytest.approx([(1 / speedup - 0.5) / 0.5 for speedup in (1.8, 1.6)])
    assert laws.karp_flatt(Interval.exact(1.0), 1) is None
    for counts in ((1, 2), (1,), (2, 4)):
        assert not compute_results([run(n, [9, 9 / n]) for n in counts]).fits, "too few sizes, or no baseline"


@pytest.mark.parametrize(("times", "says"), [
    *(({1: 10, 2: 6, 4: 4}, "too few to determine a law"), ({1: 10, 2: 4.5, 4: 2.2}, "superlinear")),
    ({1: 100, 2: 52, 4: 40}, "rises with the GPUs"),
])  # fmt: skip
def test_a_fit_that_means_little_says_why(times, says):
    results = compute_results([run(n, [9, time]) for n, time in times.items()])
    assert all(says in " ".join(fit.remarks) for fit in results.fits)
    unsure = replace(results.fits[0], serial_fraction=Interval(0.02, -0.02, 0.06))
    assert "serial fraction 2 % (at most 6 %)" in fit_sentences([unsure])[0]
    negative = says == "superlinear"
    assert {fit.serial_fraction.hi < 0 for fit in results.fits} == {negative}, "not clipped"
    assert {row.karp_flatt.value < 0 for row in results.rows if row.karp_flatt} == {negative}
    told = [laws_message(results, ()), *fit_sentences(results.fits)]
    assert {"o serial part can be measured" in line for line in told} == {negative}
    twice = compute_results(run(n, [9, 9 / n**0.9], batch=b * n) for n in (1, 2, 4) for b in (256, 512))
    assert len(twice.fits) == 4 and not laws_message(twice, ()), "it would name one network twice"
    unlike = compute_results(run(n, [9, 9 / n**0.9], batch_size=256 if n < 2 else None) for n in (1, 2, 4))
    told = [" ".join(fit_sentences(found.fits)) for found in (twice, unlike)]
    assert ["256 images per GPU" in text for text in told] == [True, False] and "within 1.8 % of" in told[0]
    assert told[0].count("Amdahl") == told[0].count("of each speedup, fits best") == 2
    assert "'All of these: 3 sizes are too few" in str(law_lines(twice.fits))
    assert "3 sizes are too few" in (short := report.short_report(twice)) and "As printed" not in short
    tunings = [(("lr_policy", name),) for name in ("naive", "linear")]
    found = compute_results(run(n, [9, 9 / n], tuning=tuning) for n in (1, 2, 4) for tuning in tunings)
    assert "ResNet50, naive, 2" in fit_sentences(found.fits)[-1]
    assert report.row_json(found.rows[-1])["tuning"] == ["naive rate"]


def measured_with_noise(rng: random.Random, *, fraction: float, epochs: int, sigma: float, unit: float):
    """A point per size: epochs that scatter by sigma, printed in whole `unit`s (seconds)."""
    points = []
    for n in (1, 2, 4):
        true = 30.0 / law_speedup("amdahl", fraction, n)
        taken = [rng.gauss(true, sigma * true) for _ in range(epochs)]
        printed = [unit * round(time / unit) for time in taken]
        mean = sum(printed) / epochs
        deviation = math.sqrt(sum((time - mean) ** 2 for time in printed) / (epochs - 1))
        told = Interval.around(mean, unit / 2)
        one = points[0].epoch_seconds if points else told
        points.append(timed(n, one, told, Scatter(deviation, epochs)))
    return points


@pytest.mark.parametrize("epochs", [3, 4, 9])
@pytest.mark.parametrize("unit", [1e-6, 0.025])
def test_the_interval_contains_the_truth_at_the_stated_rate(epochs, unit):
    """95 % from scatter alone; the bounds of printing only widen it."""
    rng = random.Random(20260 + epochs)
    tries, fraction, held = 1500, 0.12, 0
    for _ in range(tries):
        points = measured_with_noise(rng, fraction=fraction, epochs=epochs, sigma=0.01, unit=unit)
        held += laws.fit_fraction("amdahl", points).contains(fraction)
    # 95 % of 1500 is 1425; three binomial standard deviations below is 1400.
    assert held >= 1400
    if unit < 1e-3:
        assert held < tries, "an interval that always holds the truth is too wide to be a 95 % interval"


def test_without_scatter_the_interval_is_a_hard_bound():
    """Times that are only rounded: the truth is always inside, and the note says what is not covered."""
    rng = random.Random(3)
    for _ in range(500):
        fraction = rng.uniform(0, 0.5)
        true = {n: 14.0 / law_speedup("amdahl", fraction, n) for n in (1, 2, 4)}
        printed = {n: Interval.around(round(time), 0.5) for n, time in true.items()}
        points = [timed(n, printed[1], time) for n, time in printed.items()]
        assert laws.fit_fraction("amdahl", points).contains(fraction)
    results = results_of("ResNet50.31337.out")
    assert all("not the scatter between epochs" in " ".join(fit.remarks) for fit in results.fits)


@pytest.mark.parametrize("degrees", QUANTILES)
def test_students_t_is_the_quantile_and_never_smaller(degrees):
    found, quantile = student_t95(degrees), QUANTILES[degrees]
    assert quantile - 1e-4 <= found <= (quantile + 1e-4 if degrees <= 30 else 2.05)
