"""`--show-commands`: the plain shell commands that a verb stands for, printed instead of doing it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from labtui.verbs.terminal import plain, say

if TYPE_CHECKING:
    from labtui.core.lab.shell import Lesson

Group = tuple[str, "Sequence[Lesson]"]
"""What some lessons are about, and the lessons."""


def add_show_commands(parser: argparse.ArgumentParser) -> None:
    """``--show-commands``."""
    parser.add_argument(
        "--show-commands", action="store_true", help="print the shell commands this amounts to; send nothing"
    )


def show_lessons(groups: Sequence[Group], *, as_json: bool = False) -> int:
    """Print the commands, each with its sentence as a comment: what is printed can be run as it is. Exit code 0."""
    if as_json:
        rows = [{"about": about, "commands": [asdict(item) for item in told]} for about, told in groups]
        print(json.dumps({"by_hand": rows}, indent=1))
        return 0
    if any(told for _, told in groups):
        say("Run this in the lab folder.")
    for about, told in groups:
        if told:
            print(plain(f"# {about}, by hand:"))
        for item in told:
            print(f"{item.text}\n")
    return 0
