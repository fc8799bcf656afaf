"""`labtui why`: the parts of the lost efficiency, and what differs between two runs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from labtui.commands.cli import main
from labtui.domain.model import EpochSample, Interval
from labtui.results.rows import StepTimes, step_times_of
from tests.tui.fed_session import finished_run, make_folder, open_session, spec

LOG = Path(__file__).parents[1] / "fixtures" / "logs" / "hpc4ai-ch10-resnet50.out"


def test_the_books_run_is_split_into_the_short_batch_and_slower_steps(capsys) -> None:
    assert main(["why", str(LOG)]) == 0
    shown, hint = capsys.readouterr()
    assert "--control independent" in hint
    assert "Of 36.8 points lost on four GPUs: 10.7 short last batch, 26.1 ±0.1 slower steps." in shown
    assert "POP" not in shown  # its log says nothing of a step's parts
    assert main(["why", "--json", str(LOG)]) == 0
    two, four = json.loads(capsys.readouterr().out)["rows"]
    assert (two["n_gpus"], four["n_gpus"], four["pop"], four["slowest_rank"]) == (2, 4, {}, None)
    total = sum(part["share"]["value"] for part in four["parts"])
    assert total == pytest.approx(1 - four["efficiency"]["value"])


def test_one_run_alone_has_nothing_to_split(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(make_folder(tmp_path / "lab").path)
    assert main(["why"]) == 1
    assert "a run on one GPU and one on more" in capsys.readouterr().err


def test_what_differs_between_two_runs(tmp_path: Path, monkeypatch, capsys) -> None:
    folder = make_folder(tmp_path / "lab")
    monkeypatch.chdir(folder.path)
    with open_session(folder.path, start=False) as session:
        session._journal.change(
            *finished_run("lt1", "10.5", 1, spec(), "7"),
            *finished_run("lt2", "10.5", 2, spec(gpus=4, batch=1024), "8"),
        )
    assert main(["why", "1", "2"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"^batch per GPU +2,048 +1,024$", shown, re.MULTILINE)
    assert "Make run 2 again with batch per GPU as in run 1" in shown
    assert main(["why", "1", "2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["runs"] == [1, 2]
    assert {"what": "GPUs", "first": "1 GPU", "second": "4 GPUs"} in found["differences"]
    assert main(["why", "1", "1"]) == 0
    assert "Nothing differs" in capsys.readouterr().out
    assert main(["why", "1", "9"]) == 2


def test_runs_of_two_models_are_told_to_be_no_comparison(tmp_path: Path, monkeypatch, capsys) -> None:
    folder = make_folder(tmp_path / "lab")
    monkeypatch.chdir(folder.path)
    with open_session(folder.path, start=False) as session:
        other = finished_run("lt2", "10.6", 2, spec("ResNet152"), "8")
        session._journal.change(*finished_run("lt1", "10.5", 1, spec(), "7"), *other)
    assert main(["why", "1", "2"]) == 0
    assert "trainings of two models" in capsys.readouterr().out


def steps(*means: float, **more: float) -> StepTimes | None:
    """Epochs whose step takes 1.0 s of which `means` are waiting for data."""
    names = ("compute", "imbalance", "allreduce")
    told = [
        {
            "step_seconds": 1.0,
            "step_data_seconds": mean,
            **{f"step_{name}_seconds": 0.1 for name in names},
            **more,
        }
        for mean in means
    ]
    second = Interval.exact(1.0)
    return step_times_of(
        EpochSample(epoch=2 + place, seconds=second, metrics=metrics, source="mllog", line=1)
        for place, metrics in enumerate(told)
    )


def test_a_part_lies_between_the_least_and_the_most_of_its_epochs() -> None:
    found = steps(0.2, 0.4, 0.3)
    assert found is not None and found.data_seconds == Interval(0.3, 0.2, 0.4)
    assert steps(0.2) is None  # one epoch says nothing of how much it differs
    assert steps(0.2, float("nan")) is None


def test_a_rank_is_named_only_where_it_is_the_last_in_every_epoch() -> None:
    always, often = ({"last_rank": 3.0, "last_rank_share": share} for share in (0.9, 0.5))
    assert steps(0.2, 0.2, **always).slowest_rank == 3
    assert steps(0.2, 0.2, **often).slowest_rank is None
