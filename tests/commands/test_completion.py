"""Completion scripts: bash itself completes with ours; zsh and fish at least know every command."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from labtui.commands.cli import COMMANDS, main


def script(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_command_is_in_it(shell, capsys):
    text = script(shell, capsys)
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
        ["bash", "-c", script("bash", capsys) + ask], capture_output=True, text=True, check=True
    )
    assert sorted(done.stdout.split()) == sorted(answer.split())
