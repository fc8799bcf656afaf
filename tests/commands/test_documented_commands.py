"""Every `labtui` command that README and the first day show exists, with the options shown; shells complete them."""

import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from labtui.commands.cli import COMMANDS, Parser, command_functions, main

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


def completion(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_command_is_in_it(shell, capsys):
    text = completion(shell, capsys)
    assert all(name in text for name in COMMANDS)


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
@pytest.mark.parametrize(
    ("words", "answer"),
    [("labtui sub", "submit"), ("labtui submit --dry", "--dry-run"), ("labtui li", "lint")],
)
def test_bash_completes(words, answer, capsys):
    place = len(words.split()) - 1
    ask = f'\nCOMP_WORDS=({words}); COMP_CWORD={place}; _shtab_labtui; echo "${{COMPREPLY[@]}}"\n'
    done = subprocess.run(
        ["bash", "-c", completion("bash", capsys) + ask], capture_output=True, text=True, check=True
    )
    assert sorted(done.stdout.split()) == sorted(answer.split())
