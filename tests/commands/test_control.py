"""`labtui submit --control`: which runs have a control run, what it is sent with, and that it counts for no task."""

from __future__ import annotations

import pytest

from labtui.commands.cli import main
from labtui.session.folder import LabFolder
from labtui.session.settings import Settings

DRY = ["--dry-run", "--offline"]


@pytest.fixture
def folder(request: pytest.FixtureRequest, tmp_path, monkeypatch: pytest.MonkeyPatch) -> LabFolder:
    given = {"edition": "hpc4ai-ch10", "profile": "mn5", "host": "127.0.0.1", "port": 1, "user": "nct01000"}
    practice = getattr(request, "param", False)
    made = LabFolder.create(tmp_path / "lab", Settings(account="nct_000", practice=practice, **given))
    monkeypatch.chdir(made.path)
    return made


def test_the_runs_on_several_gpus_are_made_once_more(folder: LabFolder, capsys) -> None:
    assert main(["submit", "10.5", "--control", "independent", *DRY]) in (0, 1)
    shown = capsys.readouterr().out
    commands = [
        line for line in shown.splitlines() if "--control independent" in line and "ResNet50.py" in line
    ]
    assert commands, shown
    assert all("--epochs 3" in line for line in commands)
    assert any("--n_gpus 4" in line for line in commands)
    assert not any("--n_gpus 1 " in line for line in commands)


def test_a_script_without_that_control_is_refused(folder: LabFolder, capsys) -> None:
    assert main(["submit", "10.5", "--control", "one-batch", *DRY]) == 2
    assert "No run of this plan has a control run one-batch." in capsys.readouterr().err


@pytest.mark.parametrize("folder", [True], indirect=True)
def test_the_practice_cluster_has_none(folder: LabFolder, capsys) -> None:
    assert main(["submit", "10.5", "--control", "independent", *DRY]) == 2
    assert "The practice cluster has no control runs." in capsys.readouterr().err
