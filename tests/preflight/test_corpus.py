"""Job scripts as students have them, each with what must be found in it, and nothing else."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from labtui.session.settings import load_profile
from tests.preflight.cases import preflight

CORPUS = Path(__file__).parent / "corpus"
EXPECTED: dict[str, list[str]] = tomllib.loads((CORPUS / "expected.toml").read_text())
TOLD: dict[str, dict[str, Any]] = {
    "given-by-sbatch": {"given": {"account": "nct_345", "qos": "acc_debug"}},
    "short-limit": {"forecast_s": 1500.0},
    "own-sys-path": {"remote": {"/gpfs/scratch/nct_345/cifar-utils": False}},
}
"""What is known beside the files: options of the command line, the forecast, what the cluster answered."""
TRAININGS = ("ResNet50.py", "ResNet50_seq.py", "train.py", "train_ddp.py", "benchmark.py")
SCRIPTS = dict.fromkeys(TRAININGS, b"import tensorflow as tf\n") | {
    "with_path.py": b"import sys\nsys.path.append('/gpfs/scratch/nct_345/cifar-utils')\nfrom cifar import load_cifar\n",
    "cifar.py": b"def load_cifar(batch_size): ...\n",
}


def findings(name: str) -> set[str]:
    """``rule:line`` of each finding in one file, beside the scripts it runs."""
    file = f"{name}.slurm"
    files = {**SCRIPTS, file: (CORPUS / file).read_bytes()}
    notes = TOLD.get(name, {})
    found = preflight(files, None, load_profile("mn5"), "nct_345", main=file, makes_folders=True, **notes)
    assert {item.file for item in found} <= {file}
    return {f"{item.rule}:{item.line}" for item in found}


def test_every_file_has_its_expectation():
    assert {path.stem for path in CORPUS.glob("*.slurm")} == set(EXPECTED)
    assert sum(not wanted for wanted in EXPECTED.values()) >= 10, "files without a fault measure precision"


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_file_has_its_findings_and_no_other(name):
    assert findings(name) == set(EXPECTED[name])
