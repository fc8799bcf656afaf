"""`labtui labs` and `labtui check` on the command line."""

import json

import pytest
from msgspec.structs import replace

from labtui.commands.cli import main
from labtui.commands.lab_folders import _print_task
from labtui.session.folder import LabFolder
from labtui.session.labs import load_edition
from labtui.session.settings import Settings
from labtui.tui.view import TaskLine
from tests.lab.builders import EDITION, check, full, with_runs
from tests.lab.mistakes import GOOD, last
from tests.lab.test_editions import IDS


@pytest.fixture
def folder(tmp_path) -> LabFolder:
    return LabFolder.create(tmp_path / "lab", Settings(edition="hpc4ai-ch10", profile="mn5"))


def test_labs_lists_the_editions_and_wrong_use_exits_with_2(command):
    assert [line.split()[0] for line in command(["labs"]).out.splitlines()] == list(IDS)
    assert [row["id"] for row in json.loads(command(["labs", "--json"]).out)["labs"]] == list(IDS)
    assert "\n  10.6    A larger ResNet152\n" in command(["labs", "hpc4ai-ch10"]).out
    for words in (["check"], ["nothing"]):
        assert "hint:" in command(["labs", *words], 2).err


def test_labs_check_names_line_and_sentence_of_mistakes(tmp_path, capsys, command):
    path = tmp_path / "mine.toml"
    path.write_text(GOOD.replace("epochs = 5", "epochs = 0"), encoding="utf-8")
    assert main(["labs", "check", str(path)]) == 1
    line = last("epochs = 5")
    assert f"line {line}: task 1, sweep 1, epochs must be a whole number >= 1." in capsys.readouterr().out
    (found, _) = json.loads(command(["labs", "check", "--json", str(path), str(path)], 1).out)["files"]
    assert (found["ok"], found["line"]) == (False, line)
    assert main(["labs", "check", str(tmp_path / "none.toml")]) == 1
    path.write_text(GOOD, encoding="utf-8")
    assert f"{path}: mine, 1 task" in command(["labs", "check", str(path)]).out


def test_labs_check_knows_what_labtui_brings_and_a_folder_its_own(tmp_path, command):
    old, words = 'script = "ResNet50.py"', "'ResNet5O.py' does not come with labtui"
    path = tmp_path / "mine.toml"
    path.write_text(GOOD.replace(old, 'script = "ResNet5O.py"'), encoding="utf-8")
    line = GOOD.splitlines().index(old) + 1
    assert f"{path}, line {line}: {words}" in command(["labs", "check", str(path)], 1).out
    assert words in command(["init", str(tmp_path / "lab"), "--lab", str(path), "--cluster", "mn5"], 2).err
    folder = LabFolder.create(tmp_path / "lab", Settings(edition=str(path), profile="mn5"))
    assert load_edition(str(path), folder).id == "mine"


def test_what_shows_a_part_of_a_condition_is_called_so(capsys):
    ends = {2: None}  # it still trains: not "no" beside what looks like the evidence of a yes
    box = check("10.5", with_runs(full(), lambda r: replace(r, outcome=ends.get(r.spec.n_gpus, r.outcome))))
    _print_task(TaskLine(task_id="10.5", title="", status=box.status), box, full=True)
    told = capsys.readouterr().out
    assert "[so far: 2,048 on 1 GPU, 2,048 on 4 GPUs]" in told and "  [run 3, job 30003" in told
    met, _, missing = told.partition("         no ")
    assert "  yes " not in missing and f" {met.count('  yes ')} of {len(box.items)} done. ResNet" in missing
    box = check("10.5", with_runs(full(), lambda run: replace(run, practice=True)))  # small runs
    _print_task(TaskLine(task_id="10.5", title="", status=box.status), box, full=True)
    assert "[does not count: run 3" in capsys.readouterr().out


def test_check_says_no_and_what_is_missing_and_yes_to_a_task_of_words(folder, command):
    out = command(["check", "--folder", str(folder.path)], 1).out
    assert "0 of 7 tasks done; next is task 10.1." in out
    assert "came with labtui" in command(["check", "10.6", "--folder", str(folder.path)], 1).out
    assert main(["check", "nine", "--folder", str(folder.path)]) == 2
    task = EDITION.task("10.2")
    text = "\n\n".join(f"## {i}. {q.text}\n\nmy answer" for i, q in enumerate(task.questions, 1))
    (folder.answers / "10.2.md").write_text(text, encoding="utf-8")
    assert "done" in command(["check", "10.2", "--folder", str(folder.path)]).out
    found = json.loads(command(["check", "10.2", "--json", "--folder", str(folder.path)]).out)
    assert (found["lab"], found["tasks"][0]["status"]) == ("hpc4ai-ch10", "done")
