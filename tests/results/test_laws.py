"""Amdahl, Gustafson and Karp-Flatt against scipy on exact data, and against the truth on noisy data."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labtui.domain.model import Interval
from labtui.results.compute import compute_results
from labtui.results.laws import ScalingPoint, fit, karp_flatt, law_speedup
from labtui.results.rows import Scatter, student_t95
from labtui.results.scaling import outlooks

from .helpers import results_of, run


def exact(n: int, seconds: float) -> ScalingPoint:
    return ScalingPoint(n=n, seconds=Interval.exact(seconds))


@given(times=st.lists(st.floats(1, 100), min_size=1, max_size=6), first=st.floats(1, 100))
def test_fits_agree_with_scipy_on_any_data(times, first):
    import scipy.optimize  # late: each worker that collects tests would spend a second on it

    counts = [2, 4, 8, 16, 24, 32][: len(times)]
    points = [exact(n, time) for n, time in zip(counts, times, strict=True)]
    speedups = [first / time for time in times]
    amdahl = scipy.optimize.lsq_linear(
        [[1 - 1 / n] for n in counts],
        [1 / s - 1 / n for s, n in zip(speedups, counts, strict=True)],
        tol=1e-14,
    )
    gustafson = scipy.optimize.lsq_linear(
        [[n - 1.0] for n in counts], [n - s for s, n in zip(speedups, counts, strict=True)], tol=1e-14
    )
    scale = max(1.0, abs(amdahl.x[0]), abs(gustafson.x[0]))
    assert fit("amdahl", [exact(1, first), *points]).value == pytest.approx(amdahl.x[0], abs=1e-9 * scale)
    found = fit("gustafson", [exact(1, first), *points]).value
    assert found == pytest.approx(gustafson.x[0], abs=1e-9 * scale)


def test_karp_flatt_turns_the_bounds_and_means_nothing_for_one():
    found = karp_flatt(Interval(1.7, 1.6, 1.8), 2)
    assert found.lo == pytest.approx((1 / 1.8 - 0.5) / 0.5) and found.hi == pytest.approx(
        (1 / 1.6 - 0.5) / 0.5
    )
    assert karp_flatt(Interval.exact(1.0), 1) is None


def test_superlinear_runs_have_a_negative_fraction_that_is_said_and_not_clipped():
    results = compute_results([run(1, [9, 10.0]), run(2, [9, 4.5]), run(4, [9, 2.2])])
    for law in results.fits:
        assert law.serial_fraction.hi < 0
        assert "superlinear" in law.note
    assert all(row.karp_flatt is None or row.karp_flatt.value < 0 for row in results.rows)
    assert results.rows[1].efficiency.value > 1


def test_few_points_are_said_to_be_few():
    assert not compute_results([run(1, [9, 10]), run(2, [9, 6])]).fits
    three = compute_results([run(1, [9, 10]), run(2, [9, 6]), run(4, [9, 4])]).fits
    assert all("too few to determine a law" in fit.note for fit in three)
    assert not compute_results([run(1, [9, 10])]).fits
    assert not compute_results([run(2, [9, 6]), run(4, [9, 4])]).fits


def test_many_exact_points_leave_nothing_to_say():
    times = {n: 100 / law_speedup("amdahl", 0.1, n) for n in (1, 2, 4, 8, 16)}
    results = compute_results([run(n, [200, t, t, t], batch=2048 * n) for n, t in times.items()])
    amdahl = next(fit for fit in results.fits if fit.law == "amdahl")
    assert amdahl.note is None and amdahl.points == 5
    assert amdahl.serial_fraction.value == pytest.approx(0.1, abs=1e-9)
    (outlook,) = outlooks(results.rows)
    assert outlook.n_gpus == 32 and outlook.same > outlook.grows > 0


def test_a_growing_fraction_is_pointed_out():
    results = compute_results([run(1, [9, 100.0]), run(2, [9, 52.0]), run(4, [9, 40.0])])
    assert all("rises with the GPUs" in fit.note for fit in results.fits)


def test_a_problem_too_small_to_share_is_said_to_be_so():
    """MNIST on 1 to 4 GPUs, as a student published it: nothing is gained after two."""
    times = {1: 2.229, 2: 1.609, 3: 1.589, 4: 1.594}
    results = compute_results([run(n, [9, time]) for n, time in times.items()])
    assert all("from 2 to 3 GPUs gained nothing" in fit.note for fit in results.fits)
    assert not any("gained nothing" in fit.note for fit in results_of("ResNet50.31337.out").fits)


# --------------------------------------------------------------------------- noise


def measured_with_noise(rng: random.Random, *, fraction: float, epochs: int, sigma: float, unit: float):
    """A point per size: epochs that scatter by sigma, printed in whole `unit`s (seconds)."""
    points = []
    for n in (1, 2, 4):
        true = 30.0 / law_speedup("amdahl", fraction, n)
        taken = [rng.gauss(true, sigma * true) for _ in range(epochs)]
        printed = [unit * round(time / unit) for time in taken]
        mean = sum(printed) / epochs
        deviation = math.sqrt(sum((time - mean) ** 2 for time in printed) / (epochs - 1))
        points.append(ScalingPoint(n, Interval.around(mean, unit / 2), Scatter(deviation, epochs)))
    return points


@pytest.mark.parametrize("epochs", [3, 4, 9])
@pytest.mark.parametrize("unit", [1e-6, 0.025])
def test_the_interval_contains_the_truth_at_the_stated_rate(epochs, unit):
    """95 % from scatter alone; the bounds of printing only widen it."""
    rng = random.Random(20260 + epochs)
    tries, fraction = 1500, 0.12
    held = 0
    for _ in range(tries):
        points = measured_with_noise(rng, fraction=fraction, epochs=epochs, sigma=0.01, unit=unit)
        held += fit("amdahl", points).contains(fraction)
    # 95 % of 1500 is 1425; three binomial standard deviations below is 1400.
    assert held >= 1400
    if unit < 1e-3:
        assert held < tries, "an interval that always holds the truth is too wide to be a 95 % interval"


def test_without_scatter_the_interval_is_a_hard_bound():
    """Times that are only rounded: the truth is always inside, and the note says what is not covered."""
    rng = random.Random(3)
    for _ in range(500):
        fraction = rng.uniform(0, 0.5)
        points = []
        for n in (1, 2, 4):
            true = 14.0 / law_speedup("amdahl", fraction, n)
            points.append(ScalingPoint(n=n, seconds=Interval.around(round(true), 0.5)))
        assert fit("amdahl", points).contains(fraction)
    results = results_of("ResNet50.31337.out")
    assert all("not the scatter between epochs" in fit.note for fit in results.fits)


@pytest.mark.parametrize("degrees", [1, 2, 5, 10, 30, 31, 60, 1000, 3.7])
def test_students_t_is_scipys_and_never_smaller(degrees):
    import scipy.stats

    expected = scipy.stats.t.ppf(0.975, math.floor(degrees))
    assert expected - 1e-4 <= student_t95(degrees) <= (expected + 1e-4 if degrees <= 30 else 2.05)
