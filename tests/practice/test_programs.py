"""The cluster's programs as files on PATH: what a student's shell and job scripts call."""

import os
import shutil
import subprocess

import pytest

from labtui.practice.layout import SHELL, Layout, make_layout, program_environment

pytestmark = pytest.mark.skipif(os.name == "nt" or shutil.which("bash") is None, reason="needs bash")


@pytest.fixture
def shell(tmp_path):
    """Runs a line in a login shell of a cluster whose trainings are real."""
    layout = Layout(tmp_path / "cluster")
    environment = {**program_environment(layout), "LABTUI_PRACTICE_TRAIN": "yes", "USER": "nct01000"}
    make_layout(layout, environment, real_data=False)

    def run(line, **values):
        return subprocess.run(
            ["bash", "-lc", line],
            env={**os.environ, "HOME": str(layout.home), **values}, cwd=tmp_path,
            capture_output=True, text=True, timeout=240, check=False,
        )  # fmt: skip

    return run


def test_a_real_training_is_small(shell, tmp_path):
    (tmp_path / "ResNet50.py").write_text("import sys\nprint('GOT', *sys.argv[1:])\n")
    usual = shell("python -u ResNet50.py --epochs 2", LABTUI_PRACTICE_JOB=str(tmp_path))
    assert "GOT --epochs 2 --device cpu --images 512 --image-size 32\n" in usual.stdout
    assert "command not found" not in usual.stderr
    chosen = shell("python ResNet50.py --device cpu --images 64", LABTUI_PRACTICE_JOB=str(tmp_path))
    assert "GOT --device cpu --images 64\n" in chosen.stdout


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="needs shellcheck")
def test_shellcheck_finds_nothing():
    files = [str(path) for path in SHELL.iterdir()]
    done = subprocess.run(["shellcheck", "--shell=bash", *files], capture_output=True, text=True, check=False)
    assert done.stdout == ""
