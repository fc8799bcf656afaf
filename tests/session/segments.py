"""Every copy that was made of a log."""

from __future__ import annotations

from pathlib import Path

from labtui.session.mirrors import segment_paths
from labtui.session.session import Session


def segments_of(session: Session, token: str) -> tuple[Path, ...]:
    """The segments of a submission's standard output, oldest first."""
    return segment_paths(session.folder, session.state.submissions[token], "out")
