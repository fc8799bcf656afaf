"""argparse as labtui speaks it. Opening the screens needs none of this, so it is no part of `cli`."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import NoReturn

from labtui import __version__
from labtui.errors import UsageError


class Parser(argparse.ArgumentParser):
    """argparse whose complaint is a sentence and a hint, as every other error of labtui."""

    def error(self, message: str) -> NoReturn:
        """Raise what `main` prints; exit code 2."""
        sentence = message[:1].upper() + message[1:]
        raise UsageError(
            sentence if sentence.endswith(".") else f"{sentence}.", f"`{self.prog} --help` shows how."
        )


def overview(verbs: Mapping[str, str]) -> argparse.ArgumentParser:
    """What `labtui` takes when no verb is named; its help lists the verbs."""
    lines = "\n".join(f"  {name:<10}{text}" for name, text in verbs.items())
    parser = Parser(
        prog="labtui",
        description="Run the parallel-training lab on a Slurm cluster from one terminal window.",
        epilog=f"verbs:\n{lines}\n\nWithout a verb, labtui opens the lab folder here (or makes one with you).\n"
        "`labtui VERB --help` tells more.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"labtui {__version__}")
    parser.add_argument(
        "folder", nargs="?", metavar="VERB | FOLDER", help="a verb below, or a lab folder to open"
    )
    return parser
