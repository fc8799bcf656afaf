"""Recorded answers of real Slurm commands (tests/fixtures/slurm/VERSION.json), as the commands' results."""

from __future__ import annotations

from pathlib import Path

from labtui.slurm.remote_command import Call, CommandResult, T
from tests.contract.recorder import load_all

FOLDER = Path(__file__).parents[1] / "fixtures" / "slurm"
NONCE = "5ca1ab1e"
VERSIONS = sorted(path.stem for path in FOLDER.glob("*.json"))


def answer(version: str, name: str) -> CommandResult:
    recording = load_all(version)[name]
    return CommandResult(recording.stdout, recording.stderr, recording.status)


def read(call: Call[T], out: str, err: str = "", status: int | None = 0) -> T:
    """What a question reads from these streams."""
    return call.answer(CommandResult(out.encode(), err.encode(), status), NONCE)
