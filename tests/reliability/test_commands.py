"""What the commands write onto a terminal and into a pipe, over hostile files, in every locale."""

# ruff: noqa: PTH118, PTH123, PTH208
# Names that are no text are the point here: bytes paths, which pathlib has not.

import json
import os
import re
import subprocess
import sys
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

import labtui.__main__ as entry
from labtui.commands.cli import SanitizedStream, guard_streams, main, raw_stream
from labtui.domain.terminal_text import sanitize
from labtui.session.folder import LabFolder
from tests.conftest import TextTerminal
from tests.reliability import show_hostile
from tests.reliability.hostile import EVIL, PYTHON_PATH, ROOT, Terminal, acts
from tests.tui import fed_session

LABTUI = [sys.executable, "-m", "labtui"]
LOCALES = (
    {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, {"PYTHONIOENCODING": "ascii"},
    {"PYTHONIOENCODING": "latin-1"},
)  # fmt: skip
OVER_A_FOLDER = (
    "queue --offline", "log 1", "log 1 --err", "results", "check 10.5", "labs evil.toml", "submit 10.5 --dry-run",
    "submit nosuch",
)  # fmt: skip
EACH = """import os, sys
from labtui.commands.cli import main
os.chdir(sys.argv[1])
for line in sys.argv[2:]:
    print("status", main(line.split()), "of", line)
"""


@pytest.fixture(scope="module")
def evil(tmp_path_factory: pytest.TempPathFactory) -> LabFolder:
    """A folder full of malice, stored."""
    folder = show_hostile.evil_folder(tmp_path_factory.mktemp("evil") / "lab – ñ 日本")
    session = show_hostile.EvilSession.open(folder.path, start=False, clock=fed_session.FrozenClock())
    session.requests = []
    show_hostile.fill(session)
    session.close()
    for name in (f"log{EVIL.replace('/', '_')}.7.out".encode(), b"bad\xff\x1b]0;PWNED\x07.8.out"):
        text = fed_session.log_text(fed_session.spec(gpus=4), 3).replace("loss", f"loss{EVIL}")
        text += f"ModuleNotFoundError: No module named '{EVIL}'\n"
        with open(os.path.join(os.fsencode(folder.path), name), "wb") as file:
            file.write(text.encode())
    return folder


def outs(folder: LabFolder) -> list[bytes]:
    """The hostile logs in the folder, by their raw names."""
    place = os.fsencode(folder.path)
    return [os.path.join(place, name) for name in sorted(os.listdir(place)) if name.endswith(b".out")]


@pytest.mark.terminal
def test_no_command_lets_text_act_on_the_terminal(evil):
    command = [sys.executable, "-c", EACH, str(evil.path), *OVER_A_FOLDER]
    with Terminal(command, env={"NO_COLOR": "1"}) as terminal:
        assert terminal.end() == 0
    assert acts(terminal.output) == []
    assert b"Traceback" not in terminal.output and b"went wrong" not in terminal.output
    statuses = re.findall(rb"status (\d) of ([^\r\n]+)", terminal.output)
    assert [line.decode() for _, line in statuses] == list(OVER_A_FOLDER)
    assert {int(status) for status, _ in statuses} <= {0, 1, 2}


@pytest.mark.parametrize("env", LOCALES, ids=lambda env: " ".join(env.values()))
def test_files_of_any_name_and_json_in_a_pipe_in_any_locale(evil, env):
    missing = f"no{EVIL}such".encode()
    with Terminal([*LABTUI, "parse", *outs(evil), missing], env=env) as terminal:
        terminal.end()
    assert acts(terminal.output) == []
    assert b"Traceback" not in terminal.output and b"went wrong" not in terminal.output
    environment = {**os.environ, "PYTHONPATH": PYTHON_PATH, **env}
    command = [*LABTUI, "parse", "--json", *outs(evil)]
    done = subprocess.run(command, capture_output=True, env=environment, check=False, cwd=ROOT)
    assert b"Traceback" not in done.stderr
    files = json.loads(done.stdout.decode("utf-8"))["files"]
    assert [os.fsencode(one["path"]) for one in files] == outs(evil)


def test_a_file_name_reaches_a_pipe_as_text_on_one_line(tmp_path, command):
    path = tmp_path / "a\x1b[31m\x9b2J\n  run 9: forged.out"
    path.write_text("Epoch 1/1\n10/10 - 5s 500ms/step\n")
    printed = command(["parse", str(path)]).out
    assert repr(str(path)) in printed.splitlines() and sanitize(printed) == printed
    assert json.loads(command(["parse", "--json", str(path)]).out)["files"][0]["path"] == str(path)
    assert len(command(["parse", f"{path}no"], 2).err.splitlines()) == 2


def test_a_home_that_cannot_be_written(tmp_path):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
    environment |= {"HOME": "/dev/null", "PYTHONPATH": PYTHON_PATH}
    for command in (
        ["labs"], ["parse", "nosuch.out"],
        ["init", "/dev/null/lab", "--lab", "hpc4ai-ch10", "--cluster", "mn5"],
    ):  # fmt: skip
        done = subprocess.run(
            [*LABTUI, *command], capture_output=True, env=environment, check=False, cwd=tmp_path
        )
        assert b"Traceback" not in done.stderr + done.stdout
        assert b"went wrong" not in done.stderr
        assert done.returncode in (0, 2), command


def test_a_bug_in_a_verb_is_a_sentence_and_a_file(monkeypatch, capsys, tmp_path):
    from labtui.commands import cli, lab_folders

    def broken(args: object) -> int:
        password = "s3" + "cret"
        raise KeyError(len(password))

    monkeypatch.setattr(lab_folders, "run_labs", broken)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert cli.main(["labs"]) == 2
    text = capsys.readouterr().err
    assert "Something went wrong inside labtui (KeyError)" in text
    assert "Traceback" not in text and "s3cret" not in text
    (written,) = tmp_path.glob("labtui-problem-*.log")
    assert "broken" in written.read_text() and "s3cret" not in written.read_text()
    assert os.name == "nt" or written.stat().st_mode & 0o777 == 0o600


@given(st.text())
def test_nothing_but_printable_text_passes_the_guard(text):
    below = TextTerminal()
    SanitizedStream(below).write(text)
    for passed in (below.getvalue(), sanitize(text)):
        assert all(char.isprintable() or char in "\n\r\t" for char in passed)
    printable = "".join(char for char in text if char.isprintable())
    assert sanitize(printable) == printable


def test_colours_of_our_own_pass(monkeypatch):
    below = TextTerminal()
    monkeypatch.setattr(sys, "stdout", below)
    with guard_streams():
        print("\x1b[31mno")
        print("\x1b[31myes", file=raw_stream(sys.stdout))
    assert below.getvalue() == "\N{REPLACEMENT CHARACTER}[31mno\n\x1b[31myes\n"
    assert sys.stdout is below


def test_closed_output_and_an_interrupted_start_are_no_faults(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    assert main(["labs"]) == 0 and sys.stdout is None
    monkeypatch.setattr("labtui.commands.cli.main", Mock(side_effect=KeyboardInterrupt))
    assert entry.main() == 130
