"""Control runs split slower steps, and are no point of a chart and no run of a task."""

import pytest

from labtui.results import compute, measured, messages
from labtui.results.catalogue import catalogue
from labtui.results.report import loss_remarks, losses_text
from labtui.results.rows import ResultRow, Results
from labtui.results.scaling import INDEPENDENT, ONE_BATCH, lost_efficiency, scaling_lines
from labtui.training_logs.reader import parse_log

from .helpers import mllog

IMAGES, BATCH = 2560, 64


def log(
    gpus: int, step_s: float, control: str = "", *, noise: float = 0.005, **told_of_epochs: float
) -> bytes:
    """A training whose steps take so many seconds, within half a percent; each epoch tells the rest."""
    steps = IMAGES // (BATCH * gpus)
    facts = {"model_name": "ResNet50", "device": "gpu", "n_gpus": gpus, "global_batch_size": BATCH * gpus}
    facts |= {"train_samples": IMAGES, "epochs": 5, **({"control": control} if control else {})}
    lines = [mllog(key, "POINT_IN_TIME", value) for key, value in facts.items()]
    lines.append(mllog("run_start", "INTERVAL_START", None))
    for number, factor in enumerate((3.0, 1 - noise, 1 + noise, 1 - noise, 1 + noise), start=1):
        told = {"epoch_num": number, "seconds": step_s * steps * factor, "steps": steps, "samples": IMAGES}
        lines.append(mllog("epoch_stop", "INTERVAL_END", None, **told))
        if told_of_epochs:
            lines.append(mllog("tracked_stats", "POINT_IN_TIME", told_of_epochs, epoch_num=number))
    lines.append(mllog("run_stop", "INTERVAL_END", None, status="success"))
    return "".join(f"{line}\n" for line in lines).encode()


def results(*logs: bytes) -> Results:
    reports = [(f"{at}.out", parse_log(each)) for at, each in enumerate(logs)]
    return compute.compute_results(measured.measured_from_reports(reports))


def on_four(found: Results) -> ResultRow:
    (row,) = (row for row in found.rows if row.n_gpus == 4 and not row.configuration.control)
    return row


def shares(*logs: bytes) -> dict[str, float]:
    """The parts of what four GPUs lose, in points; they add up to all of it."""
    row = on_four(results(*logs))
    parts = lost_efficiency(row)
    assert row.efficiency is not None
    assert sum(part.share.value for part in parts) == pytest.approx(1 - row.efficiency.value)
    assert all(part.share.lo <= part.share.value <= part.share.hi for part in parts)
    return {part.name: round(100 * part.share.value, 1) for part in parts if part.share.value > 1e-9}


TRAININGS = (log(1, 1.0), log(4, 2.0))


@pytest.mark.parametrize(("controls", "parts"), [
    ((), {"slower steps": 50}),
    (((4, 1.4, INDEPENDENT),), {"communication and waiting": 30, "contention on the node": 20}),
    (((4, 1.0, INDEPENDENT),), {"communication and waiting": 50}),
    (((4, 2.0, INDEPENDENT),), {"contention on the node": 50}),
    # A loader that costs 0.1 s on one GPU and 0.3 s on four; alone on one size it shows nothing.
    (((4, 1.7, ONE_BATCH),), {"slower steps": 50}),
    (((1, 0.9, ONE_BATCH), (4, 1.7, ONE_BATCH)), {"waiting for data": 10, "unexplained": 40}),
    # One process feeds all GPUs and takes 0.9 s longer for four batches; by itself each GPU waits for its own.
    (
        ((1, 0.9, ONE_BATCH), (4, 1.0, ONE_BATCH), (4, 1.0, INDEPENDENT)),
        {"waiting for data": 45, "communication and waiting": 5},
    ),
    (
        ((1, 0.9, ONE_BATCH), (4, 1.7, ONE_BATCH), (4, 1.4, INDEPENDENT)),
        {"waiting for data": 10, "communication and waiting": 30, "contention on the node": 10},
    ),
])  # fmt: skip
def test_each_cause_lands_in_its_part(controls, parts):
    assert shares(*TRAININGS, *(log(*each) for each in controls)) == parts


STEP_PARTS = ("data", "compute", "imbalance", "allreduce")


def timed_log(gpus: int, *seconds: float, last_rank: int = 0) -> bytes:
    """A training whose log says what a step is made of, in the order of `STEP_PARTS`."""
    parts = {f"step_{part}_seconds": each for part, each in zip(STEP_PARTS, seconds, strict=True)}
    step = sum(seconds)
    return log(gpus, step, step_seconds=step, last_rank=last_rank, last_rank_share=1.0, **parts)


@pytest.mark.parametrize(("seconds", "points"), [
    *(((0.1, 0.9, 0.0, 0.0), (0, 0, 0, 0)), ((1.1, 0.9, 0.0, 0.0), (50, 0, 0, 0))),
    *(((0.1, 1.9, 0.0, 0.0), (0, 50, 0, 0)), ((0.1, 0.9, 1.0, 0.0), (0, 0, 50, 0))),
    *(((0.1, 0.9, 0.0, 1.0), (0, 0, 0, 50)), ((0.3, 1.1, 0.4, 0.2), (10, 10, 20, 10))),
    ((0.0, 1.0, 0.0, 1.0), (0, 5, 0, 50)),  # less waiting than on one GPU is no part: it is in the rest
])  # fmt: skip
def test_step_times_name_each_cause(seconds, points):
    logs = timed_log(1, 0.1, 0.9, 0.0, 0.0), timed_log(4, *seconds, last_rank=3)
    names = "waiting for data", "slower computing on each GPU", "waiting for the slowest GPU", "communication"
    assert shares(*logs) == {name: each for name, each in zip(names, points, strict=True) if each}
    step_times = on_four(results(*logs)).step_times
    assert step_times is not None and step_times.slowest_rank == 3


def test_a_control_run_moves_no_number_and_no_line():
    plain = results(*TRAININGS)
    both = results(*TRAININGS, log(1, 0.9, ONE_BATCH), log(4, 1.7, ONE_BATCH), log(4, 1.4, INDEPENDENT))
    assert len(both.rows) == 5
    told = [(row.speedup, row.epoch_seconds, row.runs, row.name) for row in map(on_four, (plain, both))]
    assert told[0] == told[1]
    (line,) = scaling_lines(both.rows)
    assert [row.n_gpus for row in line.rows] == [1, 4] and line.name == "ResNet50"
    names = {row.name for row in both.rows if row.configuration.control}
    assert names == {"ResNet50 (control: independent)", "ResNet50 (control: one-batch)"}


def test_causes_that_cost_nothing_have_no_column():
    head, cells, remark = losses_text([on_four(results(*TRAININGS))], [""]).splitlines()
    assert head.endswith("efficiency  slower steps") and cells.endswith("50.0 %     50.0 ±0.5")
    assert remark == "Points of efficiency lost by each cause (slower steps: from the time of a step)."
    charts = {chart.key: chart for chart in catalogue(results(*TRAININGS))}
    kept, alone = charts["efficiency-loss"].series[0].points[0], charts["efficiency"].series[0].points[1]
    assert (kept.y, kept.lo, kept.hi) == (alone.y, alone.lo, alone.hi), "one pair of bounds"
    message = messages.loss_message([on_four(results(*TRAININGS))])
    assert message == "Slower steps cost all 50.0 points ResNet50 loses on four GPUs"


def test_energy_stands_beside_speedup():
    one, four = (log(n, s, energy_joules=IMAGES * each) for n, s, each in ((1, 1.0, 0.2), (4, 2.0, 0.3)))
    (line,) = scaling_lines(results(one, four).rows)
    said = ["2.00 times as fast, 1.50 times the energy (0.300 J per image, 0.200 J on one)."]
    assert [*loss_remarks(line.last)] == said and not [*loss_remarks(on_four(results(*TRAININGS)))]
