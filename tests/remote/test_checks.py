"""Everything the scripts say without training: checks of options, data and devices; pipeline and networks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.remote.conftest import IMAGES, REMOTE, ended, started

pytestmark = [pytest.mark.tensorflow, pytest.mark.slow, pytest.mark.xdist_group("tensorflow")]

DRIVER = Path(__file__).with_name("driver.py")


@pytest.fixture(scope="module")
def report(data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What driver.py found, in one process."""
    folder = tmp_path_factory.mktemp("driver")
    done = ended(started(folder, str(DRIVER), str(REMOTE), str(data)), folder)
    assert done.status == 0, done.err.decode()
    (line,) = [line for line in done.lines if line.startswith("REPORT ")]
    found: dict[str, Any] = json.loads(line.removeprefix("REPORT "))
    return found


@pytest.mark.parametrize(
    ("case", "code", "sentence"),
    [
        ("no data", 3, "error: The data folder /nowhere/cifar-10-batches-py does not exist. Name the folder"),
        (
            "default data",
            3,
            f"error: The data folder {REMOTE}/cifar-utils/cifar-10-batches-py does not exist.",
        ),
        ("file missing", 3, "is incomplete: data_batch_3 missing."),
        ("file cut", 3, "data_batch_2 is not a CIFAR-10 file, or was not copied completely."),
        ("file strange", 3, "test_batch is not a CIFAR-10 file"),
        ("too many images", 3, "100000 training images were asked for, but"),
        ("no gpu", 4, "error: 2 GPUs were asked for, but TensorFlow sees no GPU at all."),
        ("no gpu in a gpu job", 4, "error: This job was given a GPU, but TensorFlow sees none."),
        (
            "small batch",
            2,
            "error: argument --batch_size: 3 is the global batch, but must hold an image for each of 4 GPUs",
        ),
        ("no epochs", 2, "error: argument --epochs: must be at least 1, not 0"),
        ("no rate", 2, "error: argument --learning_rate: must be a number above 0, not nan"),
        ("long dash", 2, "error: unrecognized arguments: –epochs 5"),
        ("long dash", 2, "as copied from a document: type '--epochs 5' by hand."),
        ("blank after dashes", 2, "as copied from a document"),
    ],
)
def test_a_sentence_and_an_exit_code(report: dict[str, Any], case: str, code: int, sentence: str) -> None:
    ending = report["endings"][case]
    assert ending["code"] == code
    assert sentence in ending["err"]
    assert "Traceback" not in ending["err"]
    assert ending["out"] == "", "nothing that looks like a run"


def test_help_lists_the_labs_options(report: dict[str, Any]) -> None:
    ending = report["endings"]["help"]
    assert ending["code"] == 0
    assert all(option in ending["out"] for option in ("--epochs", "--batch_size", "--n_gpus", "--data"))


def test_pipeline(report: dict[str, Any]) -> None:
    found = report["pipeline"]
    assert found["images"] == IMAGES
    assert found["batches"] == [7, 7, 7, 7, 7, 5], "the last batch is short, not dropped"
    assert found["same pixels"] and found["type"] == "float32"
    assert found["large"] == [128, 128, 3]
    assert found["large batches"] == [4, 2]
    assert found["corner"] and found["range"] and found["test repeats"]


@pytest.mark.parametrize("script", ["ResNet50", "ResNet101_seq", "ResNet152"])
def test_each_script_trains_its_network(report: dict[str, Any], script: str) -> None:
    built, name = report["models"][script], script.removesuffix("_seq")
    assert built == {
        "keras": f"{name.lower()}v2",
        "short": name,
        "classes": 10,
        "rate": 0.02,
        "verbose": 2,
        "epochs": 3,
    }
