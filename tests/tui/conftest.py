"""Sessions of lab folders that are fed by the test, ready to be shown."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tui.fed_session import FedSession, lab_session, make_folder, open_session


@pytest.fixture(autouse=True)
def _plain_terminal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Ignore the developer's own settings."""
    for name in ("NO_COLOR", "TEXTUAL", "VISUAL", "EDITOR"):
        monkeypatch.delenv(name, raising=False)
    for name in ("XDG_CONFIG_HOME", "APPDATA"):
        monkeypatch.setenv(name, str(tmp_path / "config"))


@pytest.fixture
def session(tmp_path: Path) -> Iterator[FedSession]:
    make_folder(tmp_path / "lab")
    opened = open_session(tmp_path / "lab", start=False)
    opened.requests = []
    yield opened
    opened.close()


@pytest.fixture
def filled_session(session: FedSession) -> FedSession:
    lab_session(session)
    return session
