"""Every copy that was made of a log."""

from __future__ import annotations

from pathlib import Path

from labtui.session.mirrors import segment_path, segments_on_disk
from labtui.session.session import Session


def segments_of(session: Session, token: str) -> tuple[Path, ...]:
    """The segments of a submission's standard output, oldest first."""
    submission = session.state.submissions[token]
    numbers = segments_on_disk(session.folder, submission, "out")
    paths = (segment_path(session.folder, submission, "out", number) for number in numbers)
    return tuple(path for path in paths if path is not None)
