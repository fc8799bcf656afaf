"""`labtui plot` and `labtui export`: the files they write, and what they say when they cannot."""

import errno
import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import DEFAULT, Mock

import pytest

from labtui.cluster.local_files import write_export
from labtui.commands import results as results_verb
from labtui.commands.cli import main
from labtui.domain.errors import ExportError
from labtui.export import contents, export_lab, write_files
from labtui.session.folder import LabFolder
from labtui.session.settings import Settings
from tests.export.helpers import DAY, make_lab
from tests.results.helpers import PUBLISHED
from tests.results.test_results_command import folder as stored  # noqa: F401 - a fixture: a folder with a database

LOGS = [str(PUBLISHED / name) for name in ("ResNet50.31337.out", "ResNet152.31338.out")]


def test_plot_draws_each_chart_and_says_why_a_small_run_is_in_none(tmp_path, capsys):
    small = tmp_path / "small.out"
    command = "+ python ResNet50.py --epochs 2 --batch_size 512 --n_gpus 2 --device cpu\n"
    log = Path(LOGS[0]).read_text(encoding="utf-8").split(" Model ResNet50 2 GPUs")[1].split(" Model ")[0]
    small.write_text(f"{command} Model ResNet50 2 GPUs{log}", encoding="utf-8")
    assert main(["plot", *LOGS, str(small), "--out", str(tmp_path / "p"), "--format", "svg"]) == 0
    names, said = {path.name for path in (tmp_path / "p").iterdir()}, capsys.readouterr()
    for key in ("epoch-time", "throughput", "speedup", "efficiency"):
        assert {f"{key}-ResNet50.svg", f"{key}-ResNet152.svg", f"{key}.svg"} <= names
    assert {Path(line).name for line in said.out.splitlines()} == names
    assert "ResNet50 on 2 GPUs is a small run, which does not count" in said.err
    assert main(["plot", str(small), "--out", str(tmp_path / "p")]) == 1
    assert "small run" in (said := capsys.readouterr()).err and "Nothing is measured" not in said.err


def test_plot_and_results_call_a_network_as_its_edition_does(tmp_path, command, monkeypatch):
    lab = make_lab(tmp_path / "lab", "hpc4ai-ch12")
    given = contents.measurements_of(lab.folder, lab.state, lab.edition)
    monkeypatch.setattr(results_verb, "measure_folder", lambda *_: given)
    monkeypatch.chdir(lab.folder.path)
    drawn = command(["plot", "--out", str(tmp_path / "plots"), "--format", "svg"]).out
    for text, shown in ((drawn, "speedup-ViT-H-14"), (command(["results"]).out, "ViT-H/14 (tiny-224")):
        assert shown in text and "vit" not in text.replace(str(tmp_path), "")
    assert {row["model"] for row in json.loads(command(["results", "--json"]).out)["rows"]} == {"vit"}


def test_plot_of_a_log_without_epochs_draws_nothing_and_else_each_format_named(tmp_path, command):
    (tmp_path / "empty.out").write_text("hello\n", encoding="utf-8")
    for name, code, said in (("empty", 1, "Nothing is measured"), ("missing", 2, "No such file")):
        assert said in command(["plot", f"{tmp_path / name}.out", "--out", f"{tmp_path / 'plots'}"], code).err
    assert not (tmp_path / "plots").exists()
    (tmp_path / "own.out").write_text("ep 1 11.0\nep 2 10.0\nep 3 10.5\n", encoding="utf-8")
    own = ["--pattern", r"ep (?P<epoch>\d+) (?P<seconds>[\d.]+)", "--out", str(tmp_path / "p")]
    drawn = command(["plot", str(tmp_path / "own.out"), *own, "--format", "png,pdf"]).out
    assert "epochs.png" in drawn and "epochs.pdf" in drawn and "unknown" not in drawn
    made = LabFolder.create(tmp_path / "new", Settings(edition="hpc4ai-ch10", profile="mn5"))
    assert command(["plot", "--folder", str(made.path)], 1) == ("", "Nothing is measured yet.\n")


def test_export_writes_everything(stored, command, monkeypatch):  # noqa: F811
    sampler = "timestamp, index, utilization.gpu\n2025/11/21 09:40:50.000, 0, 97\n"
    (stored / "logs" / "ResNet50.41.gpu.csv").write_text(sampler)
    captured = command(["export", "--json"])
    assert "Too few samples for a chart of the GPU use: job 41.\n" in captured.err
    written = [*map(Path, json.loads(captured.out)["files"])]
    assert captured.err.startswith("Writing tables, plots and slides ...\n1 of ")
    names = {path.relative_to(stored).as_posix() for path in written}
    assert {"results.json", "results.csv", "results.md", "deck.pptx", "deck.pdf"} <= names
    assert {f"plots/epoch-time-ResNet50{end}" for end in (".png", ".svg", "-practice.svg")} <= names
    assert all(path.stat().st_size > 0 for path in written)
    made = contents.read_contents(LabFolder.open(stored))
    counted = frozenset({"runs", *made.results.counted.values()})
    assert {each.counted for each in made.exports} == {counted} and len(counted) > 1
    assert (stored / "deck.pdf").read_bytes().startswith(b"%PDF")
    monkeypatch.setattr("labtui.export.export_lab", lambda *_, **__: SimpleNamespace(files=written, notes=()))
    shown, counted = command(["export"]).out.splitlines(), sum(name.endswith(".png") for name in names)
    assert f"{stored / 'plots' / '*.png'}  ({counted} files)" in shown and len(shown) == 7 + 2
    shown = command(["results", "--json"]).out
    assert json.loads((stored / "results.json").read_text("utf-8")) == json.loads(shown)


def failing(monkeypatch: pytest.MonkeyPatch, call: str, number: int, name: str = "") -> None:
    """Let `os.replace` or `os.fsync` fail as on a full disk; with a name only for files of that name."""
    real = getattr(os, call)

    def fail(*arguments: Any, **more: Any) -> None:
        if name in str(arguments):
            raise OSError(number, os.strerror(number))
        real(*arguments, **more)

    monkeypatch.setattr(os, call, fail)


@pytest.mark.parametrize(
    ("number", "words"), [ *((errno.ENOSPC, "No space left"), (errno.EDQUOT, "quota")),
    *((errno.EROFS, "Read-only file system"), (errno.EIO, "could not be written")), ],
)  # fmt: skip
@pytest.mark.parametrize("call", ["replace", "fsync"])
def test_a_write_that_fails_is_a_sentence_and_leaves_the_old_file(tmp_path, monkeypatch, call, number, words):
    path = tmp_path / "deck.pdf"
    path.write_bytes(b"old")
    failing(monkeypatch, call, number)
    with pytest.raises(ExportError, match=words):
        write_export(path, b"new" * 1000)
    assert path.read_bytes() == b"old" and [each.name for each in tmp_path.iterdir()] == ["deck.pdf"]


def test_files_are_written_when_all_are_made_and_on_windows_a_moment_after_one_is_read(tmp_path, monkeypatch):
    work = {"a.txt": lambda: "a", "b.txt": lambda: f"{[*tmp_path.iterdir()]}"}
    write_files(work, tmp_path, None)
    assert (tmp_path / "b.txt").read_text() == "[]", "a chart counts as exported when the export is done"
    held = Mock(wraps=os.replace, side_effect=[PermissionError, PermissionError, DEFAULT])
    monkeypatch.setattr("labtui.cluster.local_files._HAS_DIR_FD", False)
    monkeypatch.setattr(os, "replace", held)
    write_export(tmp_path / "lab.toml", b"new")
    assert (tmp_path / "lab.toml").read_bytes() == b"new"


def test_a_file_that_cannot_be_replaced_stays_and_the_others_are_written(tmp_path, monkeypatch):
    lab = make_lab(tmp_path / "lab", "hpc4ai-ch10", full=False)
    deck = lab.folder.path / "deck.pptx"
    deck.write_bytes(b"last week's deck")
    with monkeypatch.context() as patched:
        failing(patched, "replace", errno.EACCES, "deck.pptx")
        with pytest.raises(ExportError) as caught:
            export_lab(lab.folder.path, state=lab.state)
    said = caught.value.sentence
    assert "Permission denied" in said and "deck.pptx" in said and "unchanged" in said and caught.value.hint
    kept = deck.with_name("deck.yours.pptx")
    assert deck.read_bytes() == kept.read_bytes() == b"last week's deck"
    assert (lab.folder.path / "deck.pdf").is_file() and (lab.folder.path / "results.csv").is_file()
    assert not list(lab.folder.path.glob(".*.part"))
    kept.unlink()
    for changed in (True, False, True):
        deck.write_bytes(b"a student's deck") if changed else None
        report = export_lab(lab.folder.path, formats=("pptx",), plots=False, state=lab.state, today=DAY)
        assert {path.name for path in report.files} >= {"deck.pptx", "results.csv"}
        assert any("is the one that you had changed" in note for note in report.notes) is changed
        assert "deck.pdf is of an earlier export." in report.notes
        assert any("no steady epoch time" in note for note in report.notes)
    assert kept.read_bytes() == kept.with_name("deck.yours2.pptx").read_bytes() == b"a student's deck"
