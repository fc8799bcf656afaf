"""Plan and submit on the screen: edit, see, fix, ask, send."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from textual.widgets import Static

from labtui.domain.errors import RemoteFailure
from labtui.lab.plan import PlanOverrides, task_drafts
from labtui.lab.plan_table import rows_of
from labtui.session.labs import load_edition
from labtui.session.planning import plan
from labtui.session.settings import load_profile
from labtui.slurm.sbatch_answers import TestOnly
from labtui.tui.app import LabApp
from labtui.tui.plan_words import cells
from labtui.tui.screens.pages import TextScreen
from labtui.tui.screens.plan import COLUMNS, PlanScreen
from labtui.tui.screens.prompts import AskReason, Confirm
from tests.tui.fed_session import FedSession, accepted, finished_run, spec
from tests.tui.waiting import text_of, until

Make = Callable[..., LabApp]


async def open_plan(app: LabApp, pilot: object) -> PlanScreen:
    await until(pilot, lambda: app.view_model.loaded)  # type: ignore[arg-type]
    app.go_to_task("10.5")
    await pilot.press("s")  # type: ignore[attr-defined]
    await until(pilot, lambda: isinstance(app.screen, PlanScreen) and bool(app.screen.previews))  # type: ignore[arg-type]
    assert isinstance(app.screen, PlanScreen)
    return app.screen


def page_of(screen: PlanScreen) -> object:
    return screen.query_one("#plan-page", Static).render()


def column(key: str) -> int:
    return [each.key for each in COLUMNS].index(key)


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_the_plan_shows_runs_cost_and_what_would_be_sent(
    session: FedSession, app_of: Make, size: tuple[int, int]
) -> None:
    app = app_of(session)
    async with app.run_test(size=size, notifications=True) as pilot:
        screen = await open_plan(app, pilot)
        await until(pilot, lambda: "GPU-h" in text_of(app) and "Findings of job 1: none" in text_of(app))
        assert "8192" in text_of(app)
        if size[0] < 100:  # else the script stands there already
            await pilot.press("v")
        await until(pilot, lambda: "#!/bin/bash" in text_of(app))
        await pilot.press("v")
        await until(pilot, lambda: "ResNet50.py" in text_of(app))
        assert screen.view == "files"


async def test_files_stand_beside_what_the_last_job_was_sent_with(session: FedSession, app_of: Make) -> None:
    (draft, *_) = session.drafts("10.5")
    sent = plan(session, draft, None)
    session._journal.commit_first((sent.event,), blobs=sent.blobs, snapshot=sent.snapshot)
    session.feed(accepted(sent.event.token, "31337"))
    script = session.folder.scripts / "ResNet50.py"
    script.write_text(script.read_text() + "print('[bold]mine[/]')\n")
    (session.folder.scripts / "own.py").write_text("x = 1\n")
    app = app_of(session)
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        screen = await open_plan(app, pilot)
        await pilot.press("v", "v")
        await until(pilot, lambda: "since job 31337" in text_of(app))
        lines = {line.split()[0]: line for line in str(page_of(screen)).splitlines() if line.strip()}
        assert "changed " in lines["ResNet50.py"] and "changed by you" in lines["ResNet50.py"]
        assert "new" in lines["own.py"]
        assert "unchanged" in lines["job.slurm"]
        assert max(map(len, lines.values())) <= 78
        await pilot.press("v")
        await until(pilot, lambda: "+print('[bold]mine[/]')" in text_of(app))
        assert "own.py is new: job 31337 was sent without it." in str(page_of(screen))


async def test_before_the_first_job_there_is_nothing_to_compare_with(
    session: FedSession, app_of: Make
) -> None:
    app = app_of(session)
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await open_plan(app, pilot)
        await pilot.press("v", "v", "v")
        await until(pilot, lambda: "there is nothing to compare with" in " ".join(text_of(app).split()))


async def test_numbers_are_edited_in_place(session: FedSession, app_of: Make) -> None:
    app = app_of(session)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        screen = await open_plan(app, pilot)
        screen.focus_table_at(1, column("per_gpu"))
        await pilot.press("enter", *"512", "enter")
        await until(pilot, lambda: screen.rows[1].spec.batch_size == 1024)
        await pilot.press("plus")
        await until(pilot, lambda: screen.rows[1].spec.batch_size == 2048)
        await pilot.press("enter", *"x", "enter")
        await pilot.press("escape")
        assert screen.rows[1].spec.batch_size == 2048
        await pilot.press("J")
        await until(pilot, lambda: len(screen.drafts) == 3)
        await pilot.press("d")
        await until(pilot, lambda: len(screen.drafts) == 2 and "left out" in text_of(app))


async def test_what_torchrun_starts_can_be_started_by_srun(session: FedSession, app_of: Make) -> None:
    edition = load_edition("hpc4ai-ch12")
    task = next(task for task in edition.tasks if any(run.form == "torchrun" for run in task.runs))
    drafts = task_drafts(edition, task.id, load_profile("mn5"), PlanOverrides(account="nct_345", user="u1"))
    app = app_of(session)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await until(pilot, lambda: app.view_model.loaded)
        screen = PlanScreen(session, edition, task.id, drafts)
        await app.push_screen(screen)
        await until(pilot, lambda: "torchrun" in text_of(app))
        before = screen.drafts
        await pilot.press("J")
        await until(pilot, lambda: {draft.form for draft in screen.drafts} == {"task-per-gpu"})
        await until(pilot, lambda: "srun, one task per GPU" in text_of(app))
        assert {run.launcher for draft in screen.drafts for run in draft.runs} == {"task-per-gpu"}
        assert "one job per size" not in text_of(app)
        await pilot.press(*"J" * (len(screen.forms) - 1))
        await until(pilot, lambda: screen.drafts == before)


async def test_a_fix_is_shown_before_it_is_made_and_an_error_stops(session: FedSession, app_of: Make) -> None:
    template = session.folder.slurm / "templates" / "one-job.slurm"
    template.write_text(template.read_text().replace("#SBATCH --nodes=1", "#SBATCH \u2014nodes=1"))
    app = app_of(session)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        screen = await open_plan(app, pilot)
        await until(pilot, lambda: screen.finding is not None and screen.finding.fix is not None)
        assert "\u2718 error" in text_of(app)
        await pilot.press("s")
        await until(pilot, lambda: "to fix first" in text_of(app))
        assert not session.requests
        await pilot.press("f")
        await until(
            pilot, lambda: isinstance(app.screen, TextScreen) and "+#SBATCH --nodes=1" in text_of(app)
        )
        await pilot.press("n")
        await until(pilot, lambda: app.screen is screen)
        assert not screen.scripts
        await pilot.press("f")
        await until(pilot, lambda: isinstance(app.screen, TextScreen))
        await pilot.press("y")
        await until(pilot, lambda: "Findings of job 1: none" in text_of(app))
        assert "#SBATCH --nodes=1" in next(iter(screen.scripts.values()))


async def test_an_error_is_overridden_with_a_reason(session: FedSession, app_of: Make) -> None:
    template = session.folder.slurm / "templates" / "one-job.slurm"
    template.write_text(template.read_text().replace("#SBATCH --nodes=1", "#SBATCH -- nodes=1"))
    app = app_of(session)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        screen = await open_plan(app, pilot)
        await until(pilot, lambda: screen.finding is not None)
        await pilot.press("s")
        await until(pilot, lambda: "Submit again to override" in text_of(app))
        assert app.screen is screen
        await pilot.press("s")
        await until(pilot, lambda: isinstance(app.screen, AskReason))
        await pilot.press("enter")
        assert isinstance(app.screen, AskReason), "an empty reason is none"
        await pilot.press(*"our", "space", *"site", "enter")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press("y")
        await until(pilot, lambda: bool(session.overridden))
        (found,) = session.overridden[0]
        assert (found.rule, found.reason) == ("lone-dashes", "our site")


async def test_slurm_s_own_word_stands_beside_the_job(session: FedSession, app_of: Make) -> None:
    app = app_of(session)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await open_plan(app, pilot)
        await until(pilot, lambda: "Press i to ask Slurm" in text_of(app))
        await pilot.press("J", "i")
        await until(pilot, lambda: len(session.requests) == 3)
        session.requests[0][2].set_result(TestOnly(ok=True, sentence="Slurm would accept this job."))
        session.requests[1][2].set_result(
            TestOnly(ok=False, sentence="No such [QoS].", hint="Ask your teacher.")
        )
        session.requests[2][2].set_exception(RemoteFailure("The line broke.", "Try again."))
        await until(pilot, lambda: "Job 3: The line broke. Try again." in text_of(app))
        assert "Job 1: ✔ Slurm would accept this job." in text_of(app)
        assert "Job 2: ✘ No such [QoS]. Ask your teacher." in text_of(app)
        assert "Press i to ask Slurm" not in text_of(app)


async def test_submitting_asks_once_and_sends_every_job(session: FedSession, app_of: Make) -> None:
    app = app_of(session)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await open_plan(app, pilot)
        await pilot.press("J", "s")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        assert "Submit 3 jobs with 3 runs?" in text_of(app)
        await pilot.press("y")
        await until(pilot, lambda: len(session.requests) == 3)
        assert [(name, what[0].gpus) for name, what, _ in session.requests] == [
            ("submit", 1),
            ("submit", 2),
            ("submit", 4),
        ]
        await until(pilot, lambda: app.main is app.screen)


async def test_the_editor_s_job_script_is_what_is_submitted(
    session: FedSession, app_of: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def edited(path: Path) -> bool:
        path.write_text(path.read_text() + "echo mine\n")
        return True

    app = app_of(session)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        screen = await open_plan(app, pilot)
        monkeypatch.setattr(app, "open_editor", edited)
        await pilot.press("e")
        await until(pilot, lambda: bool(screen.scripts) and screen.previews[0].script.endswith("echo mine\n"))  # type: ignore[union-attr]
        await pilot.press("s")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press("y")
        await until(pilot, lambda: bool(session.requests))
        assert session.requests[0][1][1].endswith("echo mine\n")


async def test_the_same_by_hand_can_be_copied(session: FedSession, app_of: Make) -> None:
    app = app_of(session)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await open_plan(app, pilot)
        await pilot.press("w")
        await until(pilot, lambda: "sbatch" in text_of(app) and "scp" in text_of(app))
        await pilot.press("c")
        assert "sbatch" in app.clipboard


async def test_by_hand_sends_the_job_script_that_was_edited(session: FedSession, app_of: Make) -> None:
    app = app_of(session)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        screen = await open_plan(app, pilot)
        screen.scripts[screen.drafts[0]] = "#!/bin/bash\necho mine\n"
        await pilot.press("w")
        await until(pilot, lambda: isinstance(app.screen, TextScreen))
    (script,) = (session.folder.slurm / "by-hand").glob("*.slurm")
    assert script.read_text() == "#!/bin/bash\necho mine\n"


async def test_without_any_run_left_there_is_nothing_to_do_by_hand(session: FedSession, app_of: Make) -> None:
    app = app_of(session)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        screen = await open_plan(app, pilot)
        for row in range(len(screen.rows)):
            screen.focus_table_at(row, column("gpus"))
            await pilot.press("d")
        await until(pilot, lambda: not screen.drafts)
        await pilot.press("w")
        await until(pilot, lambda: "Every run is left out." in text_of(app))
        assert app.screen is screen


def test_what_was_measured_changes_what_the_plan_expects(session: FedSession) -> None:
    (draft, *_) = session.drafts("10.5")
    before = session.preview(draft)
    for number, gpus in enumerate((1, 2, 4), 1):
        session.feed(*finished_run(f"lt{number}", "10.5", number, spec(gpus=gpus), str(number)))
    after = session.preview(draft)
    assert before.seconds is not None and after.seconds is not None
    assert after.seconds != before.seconds
    assert after.seconds.hi - after.seconds.lo < before.seconds.hi - before.seconds.lo, "own runs tell more"


@pytest.mark.parametrize(("gpus", "says"), [(4, " 4"), (8, " 8 on 2 nodes"), (32, " 32 on 8 nodes")])
def test_the_cell_of_gpus_says_on_how_many_nodes(gpus: int, says: str) -> None:
    (job,) = task_drafts(
        load_edition("hpc4ai-ch12"),
        "12.1",
        load_profile("mn5"),
        PlanOverrides(gpus=(gpus,), account="nct_345"),
    )
    (row,) = rows_of([job])
    assert cells(row, job, 1)[[column.key for column in COLUMNS].index("gpus")] == says
