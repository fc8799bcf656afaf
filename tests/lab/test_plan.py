"""Drafts of a task: forms, resources, time limit, cost."""

import pytest
from msgspec.structs import replace

from labtui.domain.errors import UsageError
from labtui.domain.model import Interval
from labtui.domain.profile import Queue, fill
from labtui.lab.expected_time import run_seconds, time_and_cost, time_limit
from labtui.lab.plan import PlanOverrides, planned_specs, task_drafts, with_queue
from labtui.results.measured import sized_options
from labtui.session.labs import load_edition
from tests.lab.builders import EDITION, full, with_runs
from tests.preflight.cases import PROFILE


def test_the_editions_own_limit_and_cpus_win():
    edition = load_edition("sa-miri-2021-ex12")
    power = replace(PROFILE, cpus_per_node=160, cpus_per_gpu=40)
    (draft,) = task_drafts(edition, "3", power)
    assert (draft.time_limit_minutes, draft.cpus) == (5, 160)
    assert task_drafts(edition, "4", power)[0].cpus == 40
    assert task_drafts(edition, "3", PROFILE)[0].cpus == 80  # a node has no more


def test_the_limit_has_a_margin_stays_within_the_queue_and_bounds_the_cost():
    (draft,) = task_drafts(EDITION, "10.6", PROFILE)
    seconds, hours = time_and_cost(draft, EDITION)
    assert seconds.hi < draft.time_limit_minutes * 60 <= 2.5 * seconds.hi + 600
    assert draft.time_limit_minutes % 5 == 0
    assert hours.value == pytest.approx(seconds.value * 4 / 3600)
    long = task_drafts(EDITION, "10.6", PROFILE, PlanOverrides(epochs=400))[0]
    assert long.time_limit_minutes == time_limit(draft, EDITION, PROFILE, [300]) == 120
    (own,) = task_drafts(EDITION, "10.6", PROFILE, PlanOverrides(time_limit_minutes=7))
    assert own.time_limit_minutes == 7
    seconds, hours = time_and_cost(replace(draft, time_limit_minutes=2), EDITION)
    assert seconds.lo > 120 and hours.hi <= draft.gpus * 2 / 60
    edition = load_edition("sa-miri-2021-ex12")
    (draft,) = task_drafts(edition, "3", PROFILE)
    assert time_and_cost(draft, edition) == (None, None), "nothing is known of it"


def test_own_results_go_before_the_bands():
    (draft,) = task_drafts(EDITION, "10.5", PROFILE)
    banded, _ = time_and_cost(draft, EDITION)
    rows = full().results.measured
    few, pixels = ("--images", "500"), ("--image-size", "32")
    run = draft.runs[0]
    made = sized_options(replace(run, extra_args=pixels))
    small = [
        replace(row, epoch_seconds=Interval.exact(1.0), configuration=replace(row.configuration, **told))
        for row in rows for told in ({"mark": "small", "images": 500, "tuning": each} for each in ((), made))
    ]  # fmt: skip
    assert time_and_cost(draft, EDITION, small)[0] == banded, "a small run tells nothing about others"
    cases = (few, (), 0.136), (few, small, 1.0), (few + pixels, small, 1.0), (pixels, small, None)
    for words, known, epoch in cases:
        one, longer = (replace(run, extra_args=words, epochs=epochs) for epochs in (5, 6))
        one, longer = (run_seconds(each, EDITION, known) for each in (one, longer))
        assert (one and longer.value - one.value) == (epoch and pytest.approx(epoch)), words
    measured, _ = time_and_cost(draft, EDITION, [*rows, *small])
    exact = 3 * 20 + 29 + 4 * 13.6 + 31 + 4 * 8.1 + 47 + 4 * 5.38
    assert banded.value == measured.value == pytest.approx(exact, abs=0.1)
    assert measured.half_width < banded.half_width
    took = {4: 40.0}  # its end was noticed late
    members = [tuple(replace(one, startup=took.get(row.n_gpus, 7.0)) for one in row.members) for row in rows]
    started = [replace(row, members=each) for row, each in zip(rows, members, strict=True)]
    seconds, _ = time_and_cost(draft, EDITION, started)
    assert seconds.value == pytest.approx(exact - 3 * 13, abs=0.1)
    assert seconds.half_width < measured.half_width and seconds.hi - seconds.value > 3 * 7
    long = lambda e: replace(e, seconds=Interval.exact(60.0)) if e.epoch == 5 else e  # noqa: E731
    slow = with_runs(full(), lambda run: replace(run, epochs=tuple(map(long, run.epochs))))
    assert time_and_cost(draft, EDITION, slow.results.measured)[0].hi > 12 * 60, "all may take as long"


def test_another_batch_takes_as_long_for_the_same_images_within_what_its_steps_may_take():
    rows = full().results.measured
    given = (PlanOverrides(gpus=(1,), per_gpu_batch=each) for each in (2048, 1024, 4096))
    runs = [task_drafts(EDITION, "10.5", PROFILE, each)[0].runs[0] for each in given]
    same, half, double = (run_seconds(run, EDITION, rows) for run in runs)
    assert (half.lo, half.value, half.hi) == pytest.approx((same.lo, same.value, same.hi + 5 * 13.61))
    assert double.hi == pytest.approx(same.hi) and double.value == same.value and double.lo < same.lo
    assert run_seconds(replace(runs[0], extra_args=("--control=independent",)), EDITION, rows) == same


@pytest.mark.parametrize("typed", ["5", "10,5", "105", "10.9", "x"])
def test_a_task_that_is_meant_has_the_same_digits(typed):
    with pytest.raises(UsageError) as caught:
        task_drafts(EDITION, typed, PROFILE)
    assert "10.7" in caught.value.hint
    assert caught.value.hint.partition("It has")[0] == "Did you mean 10.5? " * ("5" in typed)


def test_overrides_change_runs_and_jobs_and_make_no_run_twice():
    over = PlanOverrides(
        gpus=(2,), per_gpu_batch=512, epochs=3, account="nct_1", qos="acc_training",
        reservation="R", container="/x.sif", data_dir="/d/{user}", user="me",
    )  # fmt: skip
    (draft,) = task_drafts(EDITION, "10.5", PROFILE, over)
    (run,) = draft.runs
    assert (run.batch_size, run.per_gpu_batch, run.epochs) == (1024, 512, 3)
    assert (draft.account, draft.qos, draft.reservation) == ("nct_1", "acc_training", "R")
    assert (draft.container, draft.data_dir) == ("/x.sif", "/d/me")
    task = load_edition("hpc4ai-ch11").task("11.1")
    for runs, wanted in ((4, {}), (1, {"per_gpu_batch": 8}), (2, {"max_per_gpu_batch": 32})):
        assert len(planned_specs(task, PlanOverrides(**wanted))) == runs
    drafts = task_drafts(EDITION, "10.5", PROFILE, PlanOverrides(form="one-gpu"))
    assert [draft.form for draft in drafts] == ["one-gpu", "job-per-size", "job-per-size"]
    assert fill("/a/{account}/{user}/{other}", {"account": "n", "user": ""}) == "/a/n/{user}/{other}"


def test_a_qos_never_becomes_a_partition_and_a_folders_queue_is_for_its_devices():
    partitions = replace(
        PROFILE, queue_option="partition", gpu_queue="gpu", cpu_queue="main",
        queues=(Queue(name="gpu", devices="gpu", max_minutes=60), Queue(name="main", devices="cpu")),
    )  # fmt: skip
    (draft,) = task_drafts(EDITION, "10.5", partitions)
    assert (draft.qos, draft.partition, draft.queue) == ("", "gpu", "gpu")
    assert draft.time_limit_minutes <= 60
    (draft,) = task_drafts(EDITION, "10.5", partitions, PlanOverrides(qos="acc_debug"))
    assert (draft.qos, draft.partition) == ("acc_debug", "gpu")
    (draft,) = task_drafts(EDITION, "10.5", partitions, PlanOverrides(partition="other"))
    assert (draft.qos, draft.partition) == ("", "other")
    gpus, cpu = task_drafts(EDITION, "10.5", partitions)[0], task_drafts(EDITION, "10.3", partitions)[0]
    with_qos = replace(partitions, queues=(*partitions.queues, Queue(name="q", max_minutes=5)))
    assert with_queue(gpus, with_qos, qos="q", partition="").time_limit_minutes == 5
    assert with_queue(gpus, partitions, qos="", partition="main").partition == "gpu"
    assert with_queue(cpu, partitions, qos="", partition="gpu").partition == "main"
    assert with_queue(cpu, partitions, qos="", partition="long").partition == "long"
