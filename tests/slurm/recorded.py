"""Recorded answers of real Slurm commands (tests/fixtures/slurm/VERSION.json), as the commands' results."""

from __future__ import annotations

from pathlib import Path

from labtui.slurm.remote_command import CommandResult
from tests.contract.recorder import load_all

FOLDER = Path(__file__).parents[1] / "fixtures" / "slurm"
NONCE = "5ca1ab1e"
VERSIONS = sorted(path.stem for path in FOLDER.glob("*.json"))


def answer(version: str, name: str) -> CommandResult:
    """One recorded answer."""
    recording = load_all(version)[name]
    return CommandResult(recording.stdout, recording.stderr, recording.status)
