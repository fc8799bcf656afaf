"""The engine's side: editions on disk, evidence from a real folder, answers and copies that lose nothing."""

import shutil
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from labtui.domain.errors import DataError, FolderError, UsageError
from labtui.domain.state import LabState
from labtui.lab.checks import check_task
from labtui.session import labs
from labtui.session.folder import LabFolder, read_remote
from labtui.session.labs import answer_path, gather_evidence
from labtui.session.settings import Settings
from tests import changes
from tests.lab.builders import EDITION

TASK = EDITION.task("10.4")


@pytest.fixture
def folder(tmp_path) -> LabFolder:
    return LabFolder.create(tmp_path / "lab", Settings(edition="hpc4ai-ch10", profile="mn5"))


def test_editions_by_id_by_path_and_from_the_lab_folder(folder):
    assert labs.load_edition("hpc4ai-ch10").id == "hpc4ai-ch10"
    shutil.copy(labs.LABS / "hpc4ai-ch10.toml", folder.path / "mine.toml")
    assert labs.load_edition("mine.toml", folder).id == "hpc4ai-ch10"
    assert labs.load_edition(folder.path / "mine.toml").id == "hpc4ai-ch10"
    with pytest.raises(UsageError) as caught:
        labs.load_edition("lab6")
    assert "cc-mei-2025-lab5" in caught.value.hint
    for name, error in (("nowhere.toml", DataError), ("..", UsageError)):
        with pytest.raises(error):
            labs.load_edition(name, folder)


def test_exports_are_known_by_their_names(folder):
    kinds = {"speedup.png": "speedup", "ResNet50-epoch-time.svg": "epoch-time"}
    kinds |= {"practice-efficiency.pdf": "efficiency", "efficiency-loss-resnet50.svg": "efficiency-loss"}
    for name in ("speedup.txt", *(kinds := kinds | {"cpu-gpu-throughput-x.png": "cpu-gpu-throughput"})):
        (folder.plots / name).write_bytes(b"x")
    found = {e.path: e for e in gather_evidence(folder, EDITION, LabState()).exports}
    assert {path: each.chart for path, each in found.items()} == {f"plots/{n}": kinds[n] for n in kinds}
    assert [found[f"plots/{name}"].models for name in [*kinds][:2]] == [(), ("ResNet50",)]
    assert found["plots/practice-efficiency.pdf"].mark == "practice"
    (folder.plots / "speedup-Mine.png").write_bytes(b"x")
    (folder.plots / "speedup-empty.png").touch()
    sent = changes.planned("lt1", {1: replace(TASK.runs[0].spec, model="Mine")})(LabState())
    extra = [export for export in gather_evidence(folder, EDITION, sent).exports if export.path not in found]
    assert [export.models for export in extra] == [("Mine",)], "no model of the lab; an empty file is none"
    (folder.plots / "tuning-ViT-H-14.svg").write_bytes(b"x")  # as the edition's hand-in calls its model
    exports = gather_evidence(folder, labs.load_edition("hpc4ai-ch11"), LabState()).exports
    assert ("tuning", ("vit",)) in [(export.chart, export.models) for export in exports]


def test_answers_are_made_once_and_never_overwritten(folder):
    path = folder.answers / "10.4.md"
    assert labs.open_answers(folder, TASK) == path
    path.write_text("## 1. x\n\nmine\n", encoding="utf-8")
    labs.open_answers(folder, TASK)
    assert path.read_text(encoding="utf-8") == "## 1. x\n\nmine\n"
    assert list(map(bool, labs.read_answers(folder, TASK))) == [True, False, False]


def test_two_students_one_after_the_other_lose_nothing(folder):
    session = SimpleNamespace(folder=folder, read_only=False, edition=EDITION)
    first, second = labs.AnswerFiles(session), labs.AnswerFiles(session)
    begun = first.load(TASK.id)
    assert second.load(TASK.id) == begun
    assert TASK.questions[0].text in begun and not answer_path(folder, TASK.id).exists()  # no word is written
    assert first.save(TASK.id, begun + "\nfirst student\n") == ""
    assert second.changed_outside(TASK.id) and not first.changed_outside(TASK.id)
    assert "changed by someone else" in second.save(TASK.id, begun + "\nsecond student\n")
    path = folder.answers / f"{TASK.id}.md"
    assert "second student" not in path.read_text(encoding="utf-8")
    for at, words in (("", "second student"), ("", "second student, longer"), ("2", "again")):
        if at:  # another conflict
            path.write_text(second.load(TASK.id) + "first student again\n")
        second.save(TASK.id, f"{begun}\n{words}\n")
        assert words in (folder.answers / f"{TASK.id}.yours{at}.md").read_text(encoding="utf-8")
    assert second.save(TASK.id, second.load(TASK.id) + "second student\n") == ""
    assert all(f"{who} student" in path.read_text(encoding="utf-8") for who in ("first", "second"))


def test_what_is_no_answer_file_holds_no_answer_and_a_huge_one_is_refused(folder):
    answer_path(folder, TASK.id).mkdir()
    assert not any(labs.read_answers(folder, TASK))
    answer_path(folder, TASK.id).rmdir()
    with answer_path(folder, TASK.id).open("wb") as file:
        file.truncate(5_000_000)
    with pytest.raises(FolderError, match="too large"):
        labs.read_answers(folder, TASK)


def test_a_copy_is_started_and_the_change_is_the_students(folder):
    def box():
        evidence = gather_evidence(folder, EDITION, LabState())
        return check_task(EDITION, EDITION.task("10.6"), evidence).items[0]

    path = folder.scripts / "ResNet152.py"
    path.write_bytes(read_remote("ResNet152.py"))
    assert "came with labtui" in box().missing
    assert labs.start_copy(folder, "ResNet50.py", "ResNet152.py") == path, "it gives way to a copy"
    assert path.read_bytes() == (folder.scripts / "ResNet50.py").read_bytes() == read_remote("ResNet50.py")
    assert not box().met and "make the change yourself" in box().missing
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("resnet_v2.ResNet50V2", "resnet_v2.ResNet152V2"), encoding="utf-8")
    assert box().met
    with pytest.raises(FolderError, match="not overwritten"):
        labs.start_copy(folder, "ResNet50.py", "ResNet152.py")
    assert "ResNet152V2" in path.read_text(encoding="utf-8")
    path.unlink()
    (folder.scripts / "ResNet50.py").unlink()
    with pytest.raises(FolderError):
        labs.start_copy(folder, "ResNet50.py", "ResNet152.py")
