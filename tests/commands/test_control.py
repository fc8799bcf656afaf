"""`labtui submit --control`: which runs have a control run, what it is sent with, and that it counts for no task."""

from __future__ import annotations

import re

import pytest

from labtui.commands.cli import main

DRY = ["--dry-run", "--offline"]


@pytest.mark.parametrize(("control", "sizes"), [("independent", {2, 4}), ("one-batch", {1, 2, 4})])
def test_the_runs_are_made_once_more(folder, capsys, control, sizes):
    assert main(["submit", "10.5", "--control", control, *DRY]) in (0, 1)
    shown = capsys.readouterr().out
    commands = [line for line in shown.splitlines() if f"--control {control}" in line]
    assert {int(found) for line in commands for found in re.findall(r"--n_gpus (\d+)", line)} == sizes, shown
    assert all("ResNet50.py" in line and "--epochs 4" in line for line in commands)


def test_what_has_no_control_run_is_refused(folder, capsys):
    assert main(["submit", "10.5", "--control", "independent", "--gpus", "1", *DRY]) == 2
    assert "No run of this plan has such a control run." in capsys.readouterr().err


@pytest.mark.parametrize("folder", [True], indirect=True)
def test_the_practice_cluster_has_none(folder, capsys):
    assert main(["submit", "10.5", "--control", "independent", *DRY]) == 2
    assert "The practice cluster has no control runs." in capsys.readouterr().err
