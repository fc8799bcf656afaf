"""Two jobs of one submission: one trains, the other ends itself; and a job that comes back after its end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from labtui.domain.model import JobPhase, RunPhase
from labtui.slurm.submit import TWIN_STATUS
from tests.session.conftest import Bench, accepted, only
from tests.session.scripted import keras_log


@pytest.mark.parametrize("accounting", [True, False])
def test_a_job_that_ended_as_a_twin_gives_way_to_the_one_that_trains(bench: Bench, accounting: bool) -> None:
    token = accepted(bench)
    twin = bench.cluster.twin("100", "RUNNING")
    bench.cluster.started[token] = twin
    bench.cluster.jobs["100"] = replace(
        bench.cluster.jobs["100"], state="FAILED", in_queue=not accounting, exit_code=f"{TWIN_STATUS}:0"
    )
    bench.run(120, lambda: only(bench).job.job_id == twin)
    assert bench.session.state.runs[1].outcome is None
    bench.run(60, lambda: only(bench).job.phase is JobPhase.RUNNING)


def test_a_job_put_back_into_the_queue_after_its_end_is_followed_again(bench: Bench) -> None:
    """By an administrator; its log begins anew."""
    accepted(bench)
    bench.cluster.write("100", keras_log(30, 5))
    bench.cluster.end("100", "NODE_FAIL")
    bench.run(200, lambda: bench.session.state.runs[1].outcome is not None)
    assert only(bench).logs["out"].complete
    bench.cluster.jobs["100"] = replace(bench.cluster.jobs["100"], state="PENDING", in_queue=True)
    bench.run(400, lambda: only(bench).job.phase is JobPhase.QUEUED)
    assert only(bench).job.restarts == 1 and not only(bench).logs["out"].complete
    bench.cluster.start("100")
    bench.cluster.put("100", keras_log(31, 6, 6))
    bench.run(200, lambda: len(bench.session.state.runs[1].epochs) == 3)
    assert bench.session.state.runs[1].phase is RunPhase.RUNNING
    assert only(bench).logs["out"].segment == 1


def test_nothing_is_asked_any_more_an_hour_after_the_end(bench: Bench) -> None:
    accepted(bench)
    bench.cluster.end("100")
    bench.run(4200)
    polls = bench.cluster.count("tick")
    bench.run(3600)
    assert bench.cluster.count("tick") == polls
