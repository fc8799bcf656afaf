"""The words of the commands: those of the screens, in windows and pipes; those that the pages show; completion."""

import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from labtui.cluster.target import start_again
from labtui.commands import screens
from labtui.commands.cli import COMMANDS, Parser, add_arguments, main
from labtui.commands.follow import _NewsPrinter, describe_open_runs, news_of
from labtui.doctor.checks import Check, summary
from labtui.domain.state import CLUSTER_OVER
from labtui.session.session import Session
from labtui.session.settings import load_profile
from labtui.tui.view import View
from tests.commands.conftest import answer_of
from tests.conftest import TextTerminal
from tests.tui.fed_session import finished_run, lab_session, make_folder, open_session, spec

PUBLISHED = Path(__file__).parents[1] / "fixtures" / "published"
PROJECT = Path(__file__).parents[2]


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    make_folder(tmp_path / "lab")
    monkeypatch.chdir(tmp_path / "lab")
    return tmp_path / "lab"


@pytest.mark.parametrize(("statuses", "line"), [
    *((["problem"], "0 of 1 check passed, 1 wrong."), (["ok"], "1 of 1 check passed.")),
    (["ok", "skipped"], "1 of 2 checks passed, 1 not checked."),
    (["ok", "warning", "warning"], "1 of 3 checks passed, 2 to look at."),
    (["ok", "problem", "warning"], "1 of 3 checks passed, 1 wrong, 1 to look at."),
])  # fmt: skip
def test_the_doctor_counts_in_words_that_fit_the_number(statuses, line):
    checks = [Check(key="network", title="Network", status=status, sentence="") for status in statuses]
    assert summary(checks) == line


def test_watch_names_runs_and_tells_each_accuracy_once_and_in_percent(lab, monkeypatch, capsys):
    with open_session(lab, start=False) as session:
        empty = session.state
        session.feed(*finished_run("lt000000000000000bbb", "10.5", 2, spec(gpus=0), "7"))
        run = session.state.runs[2]
        metrics = {"loss": 2.5, "val_accuracy": 0.04, "val_top1": 3.966, "val_top5": 12.0}
        epochs = tuple(replace(each, metrics=metrics) for each in run.epochs)
        after = replace(session.state, runs={2: replace(run, epochs=epochs)})
        job = replace(after.submissions[run.token].job, reason="BadConstraints")
        failed = replace(after, runs={2: replace(run, outcome="failed")}).with_submission(run.token, job=job)
    assert any("  failed  No node can" in str(said) for _, _, said in news_of(after, failed, {})), "as queue"
    told = [line for _, _, said in news_of(empty, after, {}) for line in said]
    assert told[0].startswith("run 2  accepted  job 7") and "run 2  job 7 finished" in told
    assert sum(" s, warm-up  loss" in line for line in told) == 1
    assert any("  215 s  loss 2.5  val_accuracy 4.0 %  val_top5 12.0 %" in line for line in told)
    monkeypatch.setattr("labtui.commands.terminal.window_width", lambda _: 40)
    _NewsPrinter()({"type": ""}, "run 2", told)
    text = capsys.readouterr().out
    assert text.split() == " ".join(told).split() and max(map(len, text.splitlines())) <= 40, "at words"


def test_check_has_the_words_of_the_screens_and_json_its_own(lab, capsys, monkeypatch):
    session = open_session(lab, start=False)
    lab_session(session)
    assert describe_open_runs(View.of(session)) == "Run 4 is running, epoch 4 of 5. Run 5 is waiting."
    main(["check", "10.5"])
    shown = capsys.readouterr().out
    assert shown.startswith("? 10.5   unknown") and "run 4 has no known end yet" in shown, "seen long ago"
    assert "more: `" not in shown
    token = session.state.runs[4].token
    job = replace(session.state.submissions[token].job, seen_at=time.time())
    session.feed(lambda state: state.with_job(token, job))
    session.keep()
    main(["check"])  # beside the open window
    shown = capsys.readouterr().out
    assert "▶ 10.5   running" in shown and "◐ 10.3   runs done" in shown and "partial" not in shown
    assert re.search(r"\d more: `labtui check 10\.5`\.\n", shown)
    practice = {token: replace(each, practice=True) for token, each in session.state.submissions.items()}
    session.feed(lambda state: replace(state, submissions=practice))
    assert main(["check"]) and capsys.readouterr().out.count("not to be handed in") == 1
    for name in ("_submit", "_ask_paths"):
        monkeypatch.setattr(f"labtui.commands.submit.{name}", lambda *_: 0)
    assert main(["submit", "10.6"]) == 0 and "Not checked on the cluster: " in capsys.readouterr().err
    session.close()
    for task, sizes in (("10.3", [0]), ("10.5", [1, 2, 4])):
        assert [row["n_gpus"] for row in answer_of(capsys, "results", task)["rows"]] == sizes
    assert "partial" in {task["status"] for task in answer_of(capsys, "check", code=1)["tasks"]}


def test_a_practice_session_that_is_kept_can_be_worked_in(lab, tmp_path, capsys):
    session = open_session(lab, start=False)
    lab_session(session)
    runs = session.state.runs.keys()
    session.close()
    screens._keep_copy(lab, tmp_path / "kept")
    assert "Kept in" in capsys.readouterr().out
    with Session.open(tmp_path / "kept", start=False) as kept:
        assert kept.why_read_only is None and kept.state.runs.keys() == runs
    key, practice = tmp_path / "cluster" / "keys" / "id", load_profile("practice")
    assert start_again(practice, str(tmp_path / "labtui-practice-1" / "keys" / "id")) == CLUSTER_OVER
    assert not start_again(load_profile("mn5"), str(key)) and start_again(practice, str(key)).endswith(" DIR")
    key.parent.mkdir(parents=True)
    key.touch()
    assert start_again(practice, str(key)).endswith(f": labtui practice --keep {tmp_path}")


def shown(monkeypatch: pytest.MonkeyPatch, arguments: list[str], columns: int) -> str:
    """All that a command prints in a window of so many columns."""
    window = TextTerminal()
    with monkeypatch.context() as patch:
        patch.setenv("COLUMNS", str(columns))
        patch.setattr(sys, "stdout", window)
        patch.setattr(sys, "stderr", window)
        main(arguments)
    return window.getvalue()


@pytest.mark.parametrize("arguments", [
    *(["labs"], ["practice", "--list"]),
    *(["practice", "--rehearse", "nope"], ["frob"]),
    ["results", str(PUBLISHED / "ResNet50.31337.out")],
    ["results", str(PUBLISHED / "no-such-log.out")],
])  # fmt: skip
def test_no_line_is_wider_than_the_window(arguments, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    main(arguments)
    piped = "".join(capsys.readouterr())
    assert max(map(len, piped.splitlines())) > 64
    text = shown(monkeypatch, arguments, 64)
    assert max(map(len, text.splitlines())) <= 64 + len(str(PUBLISHED)) * ("no-such" in arguments[-1])
    if arguments[0] != "results":
        assert text.split() == piped.split()
        assert max(map(len, shown(monkeypatch, arguments, 200).splitlines())) <= 100, "as can be read"


def documented() -> Iterator[tuple[str, str]]:
    for page in ("README.md", "docs/first-day.md", "docs/editions.md"):
        text = (PROJECT / page).read_text(encoding="utf-8")
        for block in re.findall(r"```\w*\n(.*?)```", text, re.DOTALL):
            yield from ((page, line) for line in block.splitlines() if line.startswith("labtui "))
        yield from ((page, line) for line in re.findall(r"`(labtui [a-z]+ --[^`]*)`", text))


@pytest.mark.parametrize(("page", "line"), documented())
def test_it_can_be_typed(page, line):
    words = shlex.split(line.partition("  #")[0])[1:]
    if not words or words[0].startswith("--"):
        assert words in ([], ["--version"], ["--help"])
        return
    assert words[0] in COMMANDS, page
    parser = Parser(prog=f"labtui {words[0]}")
    add_arguments(parser, words[0])
    known = {option for action in parser._actions for option in action.option_strings}
    assert {word.partition("=")[0] for word in words if word.startswith("--")} <= known


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_command_is_completed(shell, capsys):
    assert main(["completion", shell]) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in COMMANDS)
    known = {"labtui sub": "submit", "labtui submit --dry": "--dry-run", "labtui li": "lint"}
    for words, answer in known.items() if shell == "bash" and shutil.which("bash") else ():
        place = len(words.split()) - 1
        ask = f'\nCOMP_WORDS=({words}); COMP_CWORD={place}; _shtab_labtui; echo "${{COMPREPLY[@]}}"\n'
        done = subprocess.check_output(["bash", "-c", text + ask], text=True)
        assert done.split() == [answer]
