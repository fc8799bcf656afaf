"""What commands print in a window: no line is wider, words stay whole, and a pipe gets everything as it is."""

import sys
from pathlib import Path

import pytest

from labtui.commands.cli import main
from tests.conftest import TextTerminal

PUBLISHED = Path(__file__).parents[1] / "fixtures" / "published"


def shown(monkeypatch: pytest.MonkeyPatch, arguments: list[str], columns: int) -> str:
    """All that a command prints in a window of so many columns."""
    window = TextTerminal()
    with monkeypatch.context() as patch:
        patch.setenv("COLUMNS", str(columns))
        patch.setattr(sys, "stdout", window)
        patch.setattr(sys, "stderr", window)
        main(arguments)
    return window.getvalue()


@pytest.mark.parametrize(
    "arguments",
    [
        ["labs"],
        ["labs", "show", "hpc4ai-ch10"],
        ["labs", "show", "hpc4ai-ch10", "10.5"],
        ["practice", "--list"],
        ["practice", "--rehearse", "nope"],
        ["frob"],
        ["results", str(PUBLISHED / "ResNet50.31337.out")],
        ["results", str(PUBLISHED / "no-such-log.out")],
    ],
)
def test_no_line_is_wider_than_the_window(arguments, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    main(arguments)
    piped = "".join(capsys.readouterr())
    assert max(map(len, piped.splitlines())) > 64
    text = shown(monkeypatch, arguments, 64)
    assert max(map(len, text.splitlines())) <= 64 + len(str(PUBLISHED)) * ("no-such" in arguments[-1])
    if arguments[0] != "results":
        assert text.split() == piped.split()


def test_sentences_are_no_wider_than_can_be_read(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = shown(monkeypatch, ["practice", "--list"], 200)
    assert max(map(len, text.splitlines())) <= 100
