"""Recorded answers of real Slurm commands (tests/fixtures/slurm/VERSION.json), as the commands' results."""

import json
from functools import cache
from pathlib import Path
from typing import Any

from labtui.slurm import queue
from labtui.slurm.probe import Association, SlurmProbe
from labtui.slurm.remote_command import Call, CommandResult, T

FOLDER = Path(__file__).parents[1] / "fixtures" / "slurm"
NONCE = "5ca1ab1e"
VERSIONS = sorted(path.stem for path in FOLDER.glob("*.json"))


PROBE = SlurmProbe(
    user="me", server_time=1000.0, missing=(), version=(24, 11), version_text="slurm 24.11.5", queue_problem="",
    accounting_problem="", associations=(Association(account="a", qos=("normal",)),), qos=(), has_module=False,
)  # fmt: skip
"""A cluster without anything special, for `replace`."""


@cache
def recorded(version: str) -> dict[str, dict[str, Any]]:
    """The recorded answers by name."""
    return json.loads((FOLDER / f"{version}.json").read_text("utf-8"))


def answer(version: str, name: str) -> CommandResult:
    found = recorded(version)[name]
    return CommandResult(found["stdout"].encode(), found["stderr"].encode(), found["status"])


def read(call: Call[T], out: str, err: str = "", status: int | None = 0) -> T:
    """The result that a call reads from these streams."""
    return call.answer(CommandResult(out.encode(), err.encode(), status), NONCE)


def queue_row(fields: dict[str, str]) -> str:
    """A row of squeue's answer; fields that are not given are N/A."""
    row_mark, between = queue.separators(NONCE)
    values = {field: "N/A" for field, _ in queue.FIELDS} | {"state": "RUNNING"} | fields
    return row_mark + between.join(values.values()) + "\n"


def accounting_row(**fields: str) -> str:
    """A row of sacct's answer; fields that are not given are empty."""
    values = dict.fromkeys(queue.ACCOUNTING_FIELDS.split(","), "") | fields
    return "".join(value + queue.separators(NONCE)[1] for value in values.values()) + "\n"
