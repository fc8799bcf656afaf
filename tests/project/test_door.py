"""The door: wrong use is a sentence and a hint, exit code 2; a misspelt command is recognised."""

import pytest

from labtui.commands.cli import COMMANDS, main


@pytest.mark.parametrize(("words", "text"), [
    *((["sbmit", "10.5"], "labtui submit"), (["reslts"], "labtui results"), (["submit"], "TASK")),
    *((["submit", "10.5", "--josn"], "--josn"), (["cancel", "abc"], "abc"), (["parse"], "FILE")),
    *((["submit", "10.5", "--epochs", "-1"], "-1"), (["submit", "10.5", "--batch-size", "0"], "0")),
    *((["submit", "10.5", "--time", "soon"], "soon"), (["--nonsense"], "--nonsense")),
    *((["init"], "Name the lab"), (["init", "--lab", "hpc4ai-ch10"], "Name the cluster")),
    (["init", "--lab", "no-such-lab", "--cluster", "mn5"], "no-such-lab"),
    (["init", "--lab", "hpc4ai-ch10", "--cluster", "no-such"], "no-such"),
    (["init", "--lab", "hpc4ai-ch10", "--cluster", "mn5", "--host-key", "MD5:aa"], "SHA256"),
    (["init", "--lab", "hpc4ai-ch10", "--cluster", "mn5", "--port", "99999"], "65535"),
    *((["queue"], "no lab folder"), (["/nowhere/lab"], "/nowhere/lab is not a lab folder")),
    (["practice", "--rehearse", "drop", "nope"], "`labtui practice --list`"),
])  # fmt: skip
def test_wrong_use_is_a_sentence_and_a_hint(words, text, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert err.startswith("labtui: ") and "hint:" in err and text in err
    assert out == "" and list(tmp_path.iterdir()) == []
    assert "usage:" not in err and "Traceback" not in err


@pytest.mark.parametrize(("words", "accepted"), [
    (["results", "--images", "many"], "'many' is not a whole number of 1 or more"),
    (["plot", "--images", "0"], "'0' is not a whole number of 1 or more"),
    (["plot", "--format", "gif"], "'gif' is not one of png, svg, pdf"),
    (["completion", "tcsh"], "fish"),
    *((["submit", "10.5", "--form", "x"], "job-per-size"), (["labs", "list"], "Known labs: cc-mei")),
])  # fmt: skip
def test_a_refused_argument_says_what_is_accepted(words, accepted, capsys):
    assert main(words) == 2
    err = capsys.readouterr().err
    assert accepted in err and "_" not in err


@pytest.mark.parametrize("words", [[], *([command] for command in COMMANDS)], ids=" ".join)
def test_every_command_has_help_that_fits_80_columns(words, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as ended:
        main([*words, "--help"])
    text = capsys.readouterr().out
    assert ended.value.code == 0 and " ".join(["labtui", *words]) in text
    assert [line for line in text.splitlines() if len(line) > 80] == []
