"""Leaving the program: what is lost by it is asked about first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from labtui.domain.errors import LabError
from labtui.domain.model import RunPhase
from labtui.tui.view import LIVE

if TYPE_CHECKING:
    from labtui.tui.app import LabApp

STOPS = (
    "The practice cluster stops when you leave: running jobs end as if their node failed, waiting jobs start when you "
    "are back."
)
LOST = (
    "This practice session is not kept: its runs, answers and exports are deleted when you leave. "
    "`labtui practice --keep FOLDER` keeps one."
)


async def ask_before_leaving(app: LabApp, *, kept: bool) -> None:
    """Leave at once where everything goes on or nothing is lost; else ask. `kept`: the folder stays."""
    from labtui.tui.screens.prompts import Confirm

    state = app.view_model.state
    busy = any(run.phase in LIVE and run.phase is not RunPhase.WAITING for run in state.runs.values())
    if (
        app.session.read_only
        or (kept and not (busy and app.view_model.factor is not None))
        or (not state.runs and (kept or not _answered(app)))
    ):
        app.exit(0)
    else:
        question = Confirm(STOPS if kept else LOST, yes="Leave", no="Stay")
        app.push_screen(question, lambda yes: app.exit(0) if yes else None)


def _answered(app: LabApp) -> bool:
    """Whether anything is written in the answer files; one that cannot be read may hold something."""
    from labtui.session.answers import all_answers

    try:
        sheets = all_answers(app.session.folder, app.session.edition)
    except LabError:
        return True
    return any(any(sheet.answered) for sheet in sheets.values())
