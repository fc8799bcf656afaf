"""The plan on the screen and the cluster's word on paths; commands by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future

from labtui.domain.events import PathsSeen
from labtui.session.settings import changed
from labtui.tui.app import LabApp
from labtui.tui.screens.pages import TextScreen
from labtui.tui.screens.plan import PlanScreen
from tests.tui.fed_session import NOW, FedSession
from tests.tui.waiting import text_of, until

Make = Callable[..., LabApp]
DATA = "/gpfs/projects/nct_345/cifar-10-batches-py"


async def test_data_that_is_not_there_shows_once_the_cluster_has_answered(
    session: FedSession, app_of: Make
) -> None:
    session.settings = changed(session.settings, data_dir=DATA)
    questions: list[tuple[Sequence[str], Future[Mapping[str, bool]]]] = []

    def look_at(paths: Sequence[str]) -> Future[Mapping[str, bool]] | None:
        if questions or not paths:
            return None
        questions.append((paths, Future()))
        return questions[0][1]

    session.look_at = look_at  # type: ignore[method-assign]
    app = app_of(session)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await until(pilot, lambda: app.view_model.loaded)
        app.go_to_task("10.5")
        await pilot.press("s")
        await until(
            pilot, lambda: isinstance(app.screen, PlanScreen) and "Findings of job 1: none" in text_of(app)
        )
        paths, future = questions[0]
        assert DATA in paths
        answer = dict.fromkeys(paths, True) | {DATA: False}
        session.feed(PathsSeen(at=NOW, paths=answer))
        future.set_result(answer)
        await until(pilot, lambda: "is not on the cluster" in text_of(app))


async def test_a_plans_commands_by_hand_name_a_job_script_that_is_there(
    session: FedSession, app_of: Make
) -> None:
    app = app_of(session)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await until(pilot, lambda: app.view_model.loaded)
        app.go_to_task("10.5")
        await pilot.press("s")
        await until(pilot, lambda: isinstance(app.screen, PlanScreen) and bool(app.screen.previews))
        await pilot.press("w")
        await until(
            pilot,
            lambda: isinstance(app.screen, TextScreen) and "make a directory on the cluster" in text_of(app),
        )
    (script,) = (session.folder.slurm / "by-hand").glob("*.slurm")
    assert "#SBATCH" in script.read_text()
