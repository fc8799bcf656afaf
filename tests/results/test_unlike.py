"""What is not compared, what is not invented, and a run's own numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from labtui.domain.model import EpochSample, Interval
from labtui.results.compute import compute_results, own_rows
from labtui.results.measured import MeasuredRun, steady_samples
from tests.results.helpers import run


def changed(base: MeasuredRun, **more: object) -> MeasuredRun:
    return replace(base, run=replace(base.run, **more))  # type: ignore[arg-type]


def validated(base: MeasuredRun) -> MeasuredRun:
    epochs = tuple(replace(one, metrics={"val_loss": 1.0}) for one in base.run.epochs)
    return changed(base, epochs=epochs)


@pytest.mark.parametrize(
    ("one", "four", "reason"),
    [
        (run(1, [9, 8, 8]), changed(run(4, [4, 2, 2]), tuning=("fp16",)), "other options (none, here fp16)"),
        (run(1, [9, 8, 8]), validated(run(4, [4, 2, 2])), "no validation inside its epochs"),
        (
            changed(run(1, [9, 8, 8]), gpu_kind="P100"),
            changed(run(4, [4, 2, 2]), gpu_kind="V100"),
            "another GPU (P100, here V100)",
        ),
    ],
)
def test_unlike_runs_are_in_the_table_without_a_speedup(
    one: MeasuredRun, four: MeasuredRun, reason: str
) -> None:
    rows = compute_results([one, four], images=50_000).rows
    row = next(row for row in rows if row.n_gpus == 4)
    assert row.speedup is None and row.throughput is not None
    assert any(reason in note and "no speedup" in note for note in row.notes), row.notes


def test_faster_than_ideal_is_questioned() -> None:
    rows = compute_results([run(1, [9, 8, 8]), run(4, [4, 1.5, 1.5])], images=50_000).rows
    assert any("Faster than ideal" in note for note in rows[-1].notes)
    rows = compute_results([run(1, [9, 8, 8]), run(4, [4, 2, 2])], images=50_000).rows
    assert not any("Faster than ideal" in note for note in rows[-1].notes)


def test_the_editions_images_are_those_of_its_own_scripts_only() -> None:
    """A student's own job of 2,000 images in 32 steps is no 78,125 images a second."""
    own = replace(changed(run(1, [1.0, 0.64, 0.64]), batch_size=None), takes_images=False)
    (row,) = compute_results([own], images=50_000).rows
    assert row.throughput is None and row.epoch_seconds is not None
    (row,) = compute_results([own], images=2_000, insist=True).rows
    assert row.throughput is not None and row.throughput.contains(3_125)


def test_a_run_has_its_own_row_beside_the_pooled_one() -> None:
    ten, other = run(1, [12, *[10.0] * 10]), run(1, [14, *[12.0, 13.0, 12.5]])
    results = compute_results([replace(ten, run_id=1), replace(other, run_id=2)], images=50_000)
    (pooled,) = results.rows
    assert pooled.runs == 2 and pooled.epoch_seconds is not None and pooled.epoch_seconds.value > 10
    rows = {one.run_id: row for one, row in own_rows(results)}
    assert rows[1].epoch_seconds == Interval.exact(10.0) and rows[1].scatter is not None
    assert rows[1].scatter.deviation == 0 and rows[1].speedup is not None and rows[1].runs == 1


def test_an_mlperf_epoch_that_broke_off_is_not_steady() -> None:
    def sample(number: int, seconds: float) -> EpochSample:
        return EpochSample(epoch=number, seconds=Interval.exact(seconds), source="mllog")

    base = run(1, [1.0])
    times = (20.0, 10.0, 10.1, 10.0, 3.0)
    epochs = tuple(sample(number, seconds) for number, seconds in enumerate(times, start=1))
    assert [one.epoch for one in steady_samples(changed(base, epochs=epochs))] == [2, 3, 4]
    whole = (*epochs[:-1], sample(5, 9.9))
    assert [one.epoch for one in steady_samples(changed(base, epochs=whole))] == [2, 3, 4, 5]


def test_a_block_weighs_as_many_epochs_as_it_has() -> None:
    first, block, last = run(1, [99, 10, 16]).run.epochs
    whole = (first, replace(block, epoch=2, count=4), replace(last, epoch=6, count=2))
    (row,) = compute_results([changed(run(1, [1] * 7), epochs=whole)], images=50_000).rows
    assert row.epoch_seconds is not None
    assert (row.epochs, row.epochs_read, row.epoch_seconds.value) == (6, 7, pytest.approx(12.0))
    assert not [note for note in row.notes if "The log has" in note]
    gap = (first, replace(block, epoch=2, count=2), replace(last, epoch=6, count=2))
    (row,) = compute_results([changed(run(1, [1] * 7), epochs=gap)], images=50_000).rows
    assert "The log has 5 epochs of 7." in row.notes


# --------------------------------------------------------------------------- logs that name no model


def nameless(*counts: int, source: str = "a.out") -> list[MeasuredRun]:
    made = [run(n, [20.0, 16.0 / n]) for n in counts]
    return [replace(each, run=replace(each.run, model=None), source=source) for each in made]


def test_the_sizes_of_one_nameless_log_are_compared() -> None:
    results = compute_results(nameless(1, 2, 4))
    assert [row.speedup.value for row in results.measured if row.speedup] == [1.0, 2.0, 4.0]
    assert ["names no model" in " ".join(row.notes) for row in results.measured] == [False, True, True]
    assert [fit.model for fit in results.fits] == ["unknown", "unknown"]


def test_sizes_that_repeat_may_be_several_models() -> None:
    results = compute_results(nameless(1, 2, 1, 2))
    assert [row.speedup for row in results.measured if row.n_gpus == 2] == [None] * 2


def test_nameless_logs_are_not_compared_with_each_other() -> None:
    results = compute_results([*nameless(1), *nameless(2, source="b.out")])
    assert [row.speedup and row.speedup.value for row in results.measured] == [1.0, None]


def test_the_order_of_files_changes_no_row() -> None:
    logs = ["a.out", "b.out", "c.out"]
    runs = {log: nameless(1, 2, 1, 4, source=log) for log in logs}
    forth = compute_results([each for log in logs for each in runs[log]])
    back = compute_results([each for log in reversed(logs) for each in runs[log]])
    assert [row.configuration for row in forth.rows] == [row.configuration for row in back.rows]
