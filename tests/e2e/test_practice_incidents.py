"""What goes wrong in a rehearsal, seen on the screen: what stands there is true while it lasts, and it heals."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from labtui.domain.events import SamplesReset
from labtui.domain.model import JobPhase, RunPhase
from labtui.practice.cluster import PracticeCluster
from labtui.practice.incidents import IncidentPlan
from labtui.practice.slurm.job import Job
from labtui.tui.app import LabApp
from tests.e2e.test_tui_practice import FACTOR, come_to, lab_on, open_app, submit_here
from tests.session.segments import segments_of
from tests.tui.waiting import text_of

pytestmark = [
    pytest.mark.skipif(os.name == "nt" or shutil.which("bash") is None, reason="needs bash"),
    pytest.mark.timeout(900),
    pytest.mark.slow,
]


@pytest.fixture
def cluster() -> Iterator[PracticeCluster]:
    with PracticeCluster.start(factor=FACTOR) as running:
        yield running


def over(app: LabApp) -> bool:
    """Everything is done, Slurm says so of each job, and nothing is wrong any more."""
    state = app.view_model.state
    return (
        bool(state.runs)
        and all(run.phase is RunPhase.DONE for run in state.runs.values())
        and all(item.job and item.job.phase is JobPhase.FINISHED for item in state.submissions.values())
        and not state.problems
    )


def says(pilot: Pilot[Any], *words: str) -> Callable[[], bool]:
    """These words are on the screen, wherever its lines break."""
    return lambda: all(word in " ".join(text_of(pilot.app).split()) for word in words)


async def session_with(
    cluster: PracticeCluster,
    path: Path,
    name: str,
    *seen: tuple[str, ...],
    mend: Callable[[], None] = lambda: None,
) -> LabApp:
    """Run 10.4 while this goes wrong; the words of `seen` come one after another; then all heals (after `mend`)."""
    lessons: list[str] = []
    plan = IncidentPlan(cluster, [name], lambda lesson: lessons.append(lesson.name))
    app, session = open_app(lab_on(cluster, path))
    async with app.run_test(size=(120, 40)) as pilot:
        await come_to(pilot, lambda: "● online" in text_of(app), "a connection")
        app.go_to_task("10.5")
        await submit_here(pilot, app)
        if name == "quota":
            await come_to(pilot, lambda: lessons == ["quota"], "a full disk")
            app.go_to_task("10.4")
            await submit_here(pilot, app)
        for words in seen:
            await come_to(pilot, says(pilot, *words), f"{name}: {words}")
        mend()
        await come_to(pilot, lambda: over(app), f"healing after {name}")
        await come_to(pilot, lambda: "● online" in text_of(app), "the line again")
        assert "Traceback" not in text_of(app)
        await pilot.press("q")
    plan.close()
    session.close()
    assert lessons == [name]
    assert not session.folder.problem_log.exists(), session.folder.problem_log.read_text()
    return app


async def test_a_cut_line_is_said_and_nothing_is_lost(cluster: PracticeCluster, tmp_path: Path) -> None:
    app = await session_with(cluster, tmp_path / "lab", "drop", ("○ offline",))
    assert [len(run.epochs) for run in app.view_model.state.runs.values()] == [5, 5, 5]


async def test_a_silent_controller_is_no_end(cluster: PracticeCluster, tmp_path: Path) -> None:
    await session_with(
        cluster, tmp_path / "lab", "controller", ("Unable to contact slurm controller",), ("unknown for",)
    )


async def test_without_accounting_a_job_settles(cluster: PracticeCluster, tmp_path: Path) -> None:
    """Accounting answers again at once: left alone, it is asked so seldom that the test would take minutes."""

    def mend() -> None:
        cluster.controller.accounting_down_until = 0.0

    seen = ("settling", "no accounting record yet")
    await session_with(cluster, tmp_path / "lab", "accounting", seen, mend=mend)


async def test_a_full_disk_keeps_the_run_in_the_waiting_line(
    cluster: PracticeCluster, tmp_path: Path
) -> None:
    await session_with(cluster, tmp_path / "lab", "quota", ("submission queue:", "quota"))


@pytest.mark.parametrize(
    ("name", "state", "sentence"),
    [
        ("time-limit", "✘ time limit", "reached its time limit"),
        ("out-of-memory", "✘", "main memory"),
        ("node-failure", "✘", "its node failed"),
    ],
)
async def test_a_bad_end_is_explained(
    cluster: PracticeCluster, tmp_path: Path, name: str, state: str, sentence: str
) -> None:
    plan = IncidentPlan(cluster, [name])
    app, session = open_app(lab_on(cluster, tmp_path / "lab"))
    async with app.run_test(size=(120, 40)) as pilot:
        await come_to(pilot, lambda: "● online" in text_of(app), "a connection")
        app.go_to_task("10.5")
        await submit_here(pilot, app)
        await come_to(pilot, says(pilot, state, sentence), f"what {name} means")
        assert RunPhase.DONE not in [run.phase for run in app.view_model.state.runs.values()][1:]
        await pilot.press("q")
    plan.close()
    session.close()


def remote_log(job: Job) -> bytes:
    """The job's standard output on the cluster."""
    return Path(job.stdout).read_bytes()


@pytest.fixture
def slower_cluster() -> Iterator[PracticeCluster]:
    """Leaves time between an epoch on the screen and the end of its job, on a busy machine, too."""
    with PracticeCluster.start(factor=FACTOR / 4) as running:
        yield running


async def test_epochs_of_a_first_try_do_not_count(slower_cluster: PracticeCluster, tmp_path: Path) -> None:
    """A requeued job begins its log anew: what was read of the first try goes, its copy stays."""
    cluster = slower_cluster
    app, session = open_app(lab_on(cluster, tmp_path / "lab"))
    resets: list[int] = []
    session.subscribe(
        lambda update: resets.extend(
            run_id for event in update.events if isinstance(event, SamplesReset) for run_id in event.run_ids
        )
    )
    async with app.run_test(size=(120, 40)) as pilot:
        await come_to(pilot, lambda: "● online" in text_of(app), "a connection")
        app.go_to_task("10.5")
        await submit_here(pilot, app)
        runs = lambda: app.view_model.state.runs  # noqa: E731
        await come_to(pilot, lambda: any(run.epochs for run in runs().values()), "an epoch of the first try")
        plan = IncidentPlan(cluster, ["requeue"])
        await come_to(pilot, lambda: over(app), "the end of the second try")
        await pilot.press("q")
    plan.close()
    assert [lesson.name for lesson in plan.happened] == ["requeue"]
    (job,) = [job for job in cluster.controller.accounting() if job.restarts]
    (submission,) = [
        item for item in session.state.submissions.values() if item.job.job_id == str(job.job_id)
    ]
    assert (job.state, job.restarts) == ("COMPLETED", 1)
    assert set(resets) & set(submission.run_ids), "what was read of the first try is forgotten"
    again = [runs()[run_id] for run_id in submission.run_ids]
    assert all(len(run.epochs) == 5 and run.outcome == "completed" for run in again)
    assert all(sample.ended_at > job.start_time for run in again for sample in run.epochs)
    first, second = segments_of(session, submission.token)
    assert b"Epoch 1/5" in first.read_bytes(), "the copy of the first try is kept"
    assert second.read_bytes() == remote_log(job)
    session.close()
