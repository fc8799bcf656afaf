"""Every `labtui` command that README and the first day show exists, with the options shown."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from labtui.commands.cli import COMMANDS, Parser, command_functions

PROJECT = Path(__file__).parents[2]


def shown() -> Iterator[tuple[str, str]]:
    for page in ("README.md", "docs/first-day.md", "docs/editions.md"):
        text = (PROJECT / page).read_text(encoding="utf-8")
        for block in re.findall(r"```\w*\n(.*?)```", text, re.DOTALL):
            yield from ((page, line) for line in block.splitlines() if line.startswith("labtui "))
        yield from ((page, line) for line in re.findall(r"`(labtui [a-z]+ --[^`]*)`", text))


@pytest.mark.parametrize(("page", "line"), shown())
def test_it_can_be_typed(page, line):
    words = shlex.split(line.partition("  #")[0])[1:]
    if not words or words[0].startswith("--"):
        assert words in ([], ["--version"], ["--help"])
        return
    assert words[0] in COMMANDS, page
    parser = Parser(prog=f"labtui {words[0]}")
    command_functions(words[0])[0](parser)
    known = {option for action in parser._actions for option in action.option_strings}
    assert {word.partition("=")[0] for word in words if word.startswith("--")} <= known
