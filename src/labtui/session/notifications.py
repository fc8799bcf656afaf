"""Notifies a student who is not watching that a job began, ended or failed: bell, terminal, desktop.

The text is labtui's own sentence about a job and its runs; text from logs never gets here.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Literal

import msgspec

from labtui.domain.model import JobPhase, SubmissionStatus
from labtui.domain.state import LabState, SubmissionState

if TYPE_CHECKING:
    from labtui.session.session import Session

# a computer without a desktop is nothing to warn about
logging.getLogger("desktop_notifier").addHandler(logging.NullHandler())

NoticeKind = Literal["started", "ended", "failed"]
_MAX_CHARS = 200


class Notice(msgspec.Struct, frozen=True):
    """One notification, as a title and a sentence."""

    title: str
    sentence: str


def _stage(item: SubmissionState, state: LabState) -> NoticeKind | None:
    """How far a submission has come; it has ended when it is known how every run ended."""
    if item.status is SubmissionStatus.REFUSED:
        return "failed"
    outcomes = {state.runs[run_id].outcome for run_id in item.run_ids}
    if item.job is None or item.status is SubmissionStatus.WITHDRAWN:
        return None
    if item.job.phase is JobPhase.FINISHED and None not in outcomes:
        return "ended" if outcomes <= {"completed", "cancelled"} else "failed"
    return "started" if item.job.phase is JobPhase.RUNNING else None


def _compose(kind: NoticeKind, item: SubmissionState, state: LabState, names: Mapping[str, str]) -> Notice:
    runs = [state.runs[run_id] for run_id in item.run_ids]
    labels = "; ".join(dict.fromkeys(state.called(run, names).label for run in runs))
    if kind == "failed" and item.status is SubmissionStatus.REFUSED:
        sentence = f"{labels}: refused."
    elif kind == "failed":
        bad = next(run for run in runs if run.outcome not in ("completed", "cancelled"))
        sentence = f"{state.called(bad, names).label}: {bad.cause}."
    else:
        sentence = f"{labels}."
    title = f"Job {kind}: {_plain(item.job_name)}"
    return Notice(f"{title} (practice)" if item.practice else title, _plain(sentence))


def _plain(text: str) -> str:
    """The text without characters that a terminal or a notification service could interpret."""
    return "".join(char if char.isprintable() and char not in ";\\" else " " for char in text)[:_MAX_CHARS]


def terminal_sequence(notice: Notice) -> str:
    """The text that rings the terminal's bell and, where supported, shows the notice: BEL, OSC 9 and OSC 777."""
    title, text = _plain(notice.title), _plain(notice.sentence)
    return f"\a\x1b]9;{title}: {text}\x1b\\\x1b]777;notify;{title};{text}\x1b\\"


def show_on_desktop(notice: Notice) -> None:
    """Show a notice from a thread of its own, if there is a desktop. Returns at once."""
    threading.Thread(target=_show, args=(notice,), name="labtui-notify", daemon=True).start()


def _show(notice: Notice) -> None:
    with contextlib.suppress(Exception):  # no desktop or no service: the terminal has shown it already
        from desktop_notifier.sync import DesktopNotifierSync

        DesktopNotifierSync(app_name="labtui").send(title=notice.title, message=notice.sentence)


class Notifier:
    """Notifies of each job's start and end once, in the terminal and on the desktop, as the settings say.

    What happened before it was created is not reported.
    """

    def __init__(self, session: Session, write: Callable[[str], object], *, desktop: bool = True) -> None:
        """`write` sends a sequence to the terminal."""
        self._session, self._write, state = session, write, session.state
        self._told = {token: _stage(item, state) for token, item in state.submissions.items()}
        self.desktop: Callable[[Notice], None] | None = show_on_desktop if desktop else None

    def __call__(self, state: LabState, names: Mapping[str, str]) -> None:
        """Notify of what is new in the latest `state`; `names` are the edition's names of models."""
        how = self._session.settings.notifications
        for notice in self.notices(state, names) if how != "off" else ():
            self._write(terminal_sequence(notice))
            if how == "desktop" and self.desktop is not None:
                self.desktop(notice)

    def notices(self, state: LabState, names: Mapping[str, str]) -> Iterator[Notice]:
        """The notices that are new in `state`; each is given once."""
        for token, item in state.submissions.items():
            kind, told = _stage(item, state), self._told.get(token)
            if kind is not None and kind != told and told in (None, "started"):
                self._told[token] = kind
                yield _compose(kind, item, state, names)
