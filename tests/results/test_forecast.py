"""More GPUs: exact steps times the band of step times, back-tested on every published doubling."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labtui.domain.model import Interval
from labtui.results.compute import compute_results
from labtui.results.forecast import STEP_MODELS, forecast_step
from labtui.results.laws import ScalingPoint

from .helpers import published, results_of, run


def points(times: dict[int, Interval]) -> list[ScalingPoint]:
    return [ScalingPoint(n, seconds) for n, seconds in times.items()]


def step_times() -> Iterator[tuple[str, dict[int, Interval]]]:
    """Every published series as step times up to a factor: GPUs over the rate, or seconds of a step."""
    for table in published("thesis.toml")["tables"]:
        name = f"thesis {table['ids']}, {table['per_gpu_batch']} per GPU"
        rates = {int(n): float(text) for n, text in table["throughput"].items()}
        yield (
            name,
            {n: Interval.exact(float(n)).over(Interval.around(rate, 0.005)) for n, rate in rates.items()},
        )
    for table in published("chapter12.toml")["tables"]:
        cut = {
            n: Interval(r + 0.5, r, r + 1) for n, r in zip(table["gpus"], table["throughput"], strict=True)
        }
        yield table["id"], {n: Interval.exact(float(n)).over(rate) for n, rate in cut.items()}
    for log in ("ResNet50.31337.out", "ResNet152.31338.out"):
        yield log, {row.n_gpus: row.step_seconds for row in results_of(log).rows if row.n_gpus}


def doublings() -> Iterator[tuple[str, dict[int, Interval], int, Interval]]:
    """The sizes known before each doubling, the doubled size, and what was measured there."""
    for name, times in step_times():
        for n in times:
            known = {m: time for m, time in times.items() if m < n and m & (m - 1) == 0}
            if len(known) >= 2 and n == 2 * max(known):
                yield name, known, n, times[n]


def test_published_doublings_fall_inside():
    """The figure that docs/numbers.md states: 29 of 29 forecasts hold; one series is refused."""
    held, refused, widths = [], [], []
    for name, known, n, measured in doublings():
        found = forecast_step(points(known), n)
        if found is None:
            refused.append((name, n))
            continue
        held.append(found.seconds.lo <= measured.hi and measured.lo <= found.seconds.hi)
        widths.append((found.seconds.hi - found.seconds.lo) / measured.value)
    assert (len(held), sum(held), len(refused)) == (29, 29, 1)
    assert statistics.median(widths) < 0.17


def test_the_forecast_of_the_book_s_runs():
    (prediction,) = results_of("ResNet50.31337.out").predictions
    assert (prediction.n_gpus, prediction.steps) == (8, Interval.exact(4))
    assert prediction.batch_ceiling == pytest.approx(25 / 4 / 8)
    assert prediction.speedup.lo < prediction.speedup.value < prediction.speedup.hi
    assert prediction.epoch_seconds.value * prediction.speedup.value == pytest.approx(13.6)
    assert prediction.throughput.value == pytest.approx(50_000 / 13.6 * prediction.speedup.value)
    assert prediction.models and all(name in prediction.note for name in prediction.models)
    assert (
        "The step time is extrapolated by every model that fits the measurements within 4 %"
        in prediction.note
    )
    assert "A second node would add its network, which no model includes." in prediction.note


def test_no_forecast_needs_a_step_faster_than_any_measured_one():
    for _, known, n, _ in doublings():
        found = forecast_step(points(known), n)
        assert found is None or found.seconds.lo >= min(time.lo for time in known.values())
    for log in ("ResNet50.31337.out", "ResNet152.31338.out"):
        results = results_of(log)
        (prediction,) = results.predictions
        assert prediction.step_seconds.lo >= min(row.step_seconds.lo for row in results.rows)


@pytest.mark.parametrize("model", STEP_MODELS, ids=lambda model: model.name)
@given(start=st.floats(0.01, 10), growth=st.floats(0, 0.3))
def test_a_series_that_follows_a_model_is_forecast_by_it(model, start, growth):
    times = {n: start * (1 + growth * model.growth(n)) for n in (1, 2, 4, 8)}
    found = forecast_step(points({n: Interval.exact(time) for n, time in times.items()}), 16)
    assert found is not None and model.name in found.models
    assert found.seconds.contains(start * (1 + growth * model.growth(16)))


def test_what_no_model_meets_is_not_forecast_and_says_so():
    wild = compute_results([run(n, [9, time]) for n, time in ((1, 40.0), (2, 20.0), (4, 30.0), (8, 4.0))])
    assert not wild.predictions
    assert any("no forecast for 16 GPUs" in note for note in wild.notes)


def test_a_size_with_another_batch_per_gpu_is_no_point_of_the_forecast():
    results = compute_results([run(1, [9, 14]), run(2, [9, 9], batch=2048), run(4, [9, 6], batch=2048)])
    assert not results.predictions and any("batch per GPU" in note for note in results.notes)


def test_images_known_by_bounds_give_steps_by_bounds():
    """37 steps of 32 images: 1,153 to 1,184, so on 8 GPUs 5 steps, whichever it was."""
    from dataclasses import replace

    from labtui.results.measured import MeasuredRun

    def trained(n: int, seconds: float, steps: int) -> MeasuredRun:
        one = run(n, [9, seconds], batch=32 * n).run
        return MeasuredRun(run=replace(one, epochs=tuple(replace(each, steps=steps) for each in one.epochs)))

    (prediction,) = compute_results([trained(1, 37.0, 37), trained(2, 20.0, 19)]).predictions
    assert prediction.steps == Interval.exact(5)
