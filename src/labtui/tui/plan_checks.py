"""Checks of a plan in a thread: previews of its jobs, once more when the cluster has answered about their paths."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING, Any

from labtui.domain.errors import LabError
from labtui.domain.model import SubmissionDraft

if TYPE_CHECKING:
    from labtui.session.preview import Preview
    from labtui.session.session import Session

LOOK_S = 40.0
"""How long the plan waits for the cluster's word on paths before it leaves the findings as they are."""
_GLANCE_S = 0.2
"""How soon a thread that waits for the cluster notices that its plan is an old one."""

Previews = list["Preview | LabError"]


def check(
    session: Session,
    drafts: tuple[SubmissionDraft, ...],
    scripts: Mapping[SubmissionDraft, str],
    current: Callable[[], bool],
    show: Callable[[Previews], Any],
) -> None:
    """Hand the previews to `show` as long as the plan is the `current` one."""
    paths: dict[str, None] = {}
    for draft in drafts:
        with contextlib.suppress(LabError):
            paths.update(dict.fromkeys(session.paths_to_ask(draft, script=scripts.get(draft))))
    asked = session.look_at(tuple(paths))
    show(_previews(session, drafts, scripts, current))
    if asked is not None and _answered(asked, current):
        show(_previews(session, drafts, scripts, current))


def _previews(
    session: Session,
    drafts: tuple[SubmissionDraft, ...],
    scripts: Mapping[SubmissionDraft, str],
    current: Callable[[], bool],
) -> Previews:
    made: Previews = []
    for draft in drafts:
        if not current():
            break
        try:
            made.append(session.preview(draft, script=scripts.get(draft)))
        except LabError as error:
            made.append(error)
    return made


def _answered(asked: Future[Any], current: Callable[[], bool]) -> bool:
    """Wait for the cluster's word, as long as the plan is the same; whether it came."""
    end = time.monotonic() + LOOK_S
    while current() and time.monotonic() < end:
        if wait([asked], timeout=_GLANCE_S).done:
            return not asked.cancelled() and asked.exception() is None
    return False
