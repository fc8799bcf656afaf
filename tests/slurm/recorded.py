"""Recorded answers of real Slurm commands (tests/fixtures/slurm/VERSION), as the commands' results."""

from __future__ import annotations

import json
from pathlib import Path

from labtui.core.remote import CommandResult

FOLDER = Path(__file__).parents[1] / "fixtures" / "slurm"
NONCE = "5ca1ab1e"
VERSIONS = sorted(path.name for path in FOLDER.iterdir() if (path / "index.json").exists())


def names(version: str) -> dict[str, dict[str, object]]:
    """What was recorded: name to command and status."""
    return json.loads((FOLDER / version / "index.json").read_text())  # type: ignore[no-any-return]


def answer(version: str, name: str) -> CommandResult:
    """One recorded answer."""
    told = names(version)[name]
    folder = FOLDER / version
    status = told["status"]
    assert isinstance(status, int)
    return CommandResult((folder / f"{name}.out").read_bytes(), (folder / f"{name}.err").read_bytes(), status)
