"""The door: wrong use is a sentence and a hint, exit code 2; a misspelt command is recognised."""

import pytest

from labtui.commands.cli import COMMANDS, main


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["sbmit", "10.5"], "labtui submit"),
        (["reslts"], "labtui results"),
        (["submit"], "TASK"),
        (["submit", "10.5", "--josn"], "--josn"),
        (["cancel", "abc"], "abc"),
        (["parse"], "FILE"),
        (["submit", "10.5", "--epochs", "-1"], "-1"),
        (["submit", "10.5", "--batch-size", "0"], "0"),
        (["submit", "10.5", "--time", "soon"], "soon"),
        (["--nonsense"], "--nonsense"),
    ],
)
def test_wrong_use_is_a_sentence_and_a_hint(words, text, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    err = capsys.readouterr().err
    assert err.startswith("labtui: ") and "hint:" in err and text in err
    assert "usage:" not in err and "Traceback" not in err


@pytest.mark.parametrize("command", COMMANDS)
def test_every_verb_has_help(command, capsys):
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0 and f"labtui {command}" in capsys.readouterr().out
