"""The wheel a student installs: it builds, goes into an empty environment, starts, and carries its data."""

import re
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

EXPECTED = (
    "labtui/_data/remote/ResNet50.py",
    "labtui/_data/remote/ResNet50_seq.py",
    "labtui/_data/remote/ResNet152.py",
    "labtui/_data/remote/cifar-utils/cifar.py",
    "labtui/_data/remote/pytorch/train_ddp.py",
    "labtui/_data/remote/pytorch/distributed.py",
    "labtui/_data/remote/tensorflow/train_multiworker.py",
    "labtui/_data/slurm_templates/cpu.slurm",
    "labtui/_data/slurm_templates/one-gpu.slurm",
    "labtui/_data/slurm_templates/one-job.slurm",
    "labtui/_data/slurm_templates/job-per-size.slurm",
    "labtui/labs/cc-mei-2025-lab5.toml",
    "labtui/labs/hpc4ai-ch10.toml",
    "labtui/labs/sa-miri-2021-ex12.toml",
    "labtui/labs/sa-miri-2025-pg.toml",
    "labtui/profiles/mn5.toml",
    "labtui/py.typed",
)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    target = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(target), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return next(target.glob("labtui-*.whl"))


def test_the_wheel_carries_scripts_templates_editions_profiles_and_styles(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    assert set(EXPECTED) <= names
    source_styles = {path.name for path in (ROOT / "src/labtui/tui").rglob("*.tcss")}
    assert source_styles
    assert source_styles <= {Path(name).name for name in names}
    assert not [name for name in names if "__pycache__" in name or name.startswith("tests")]


@pytest.fixture(scope="module")
def site(wheel, tmp_path_factory):
    """An empty environment with labtui alone in it, without its dependencies: quick, and offline."""
    target = tmp_path_factory.mktemp("site")
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--target",
        str(target),
        str(wheel),
    ]
    subprocess.run(command, check=True, capture_output=True)
    return target


def in_site(site, flags, code):
    """Run `code` in a fresh interpreter that finds labtui in `site`, and nowhere else."""
    head = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import labtui; assert labtui.__file__.startswith(sys.argv[1])\n"
    )
    command = [sys.executable, *flags, "-c", head + code, str(site)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=site)


def test_the_wheel_works_in_an_empty_environment(site):
    done = in_site(site, ["-I", "-S"], "from labtui.commands.cli import main; main(['--version'])")
    assert done.stdout.startswith("labtui "), done.stderr


def test_the_command_that_installing_makes_runs(wheel, tmp_path):
    """The console script itself, in an environment of its own, started as a student starts it."""
    place = tmp_path / "environment"
    venv.create(place, with_pip=False)
    programs = place / ("Scripts" if sys.platform == "win32" else "bin")
    install = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(place),
        "install",
        "--quiet",
        "--no-deps",
        str(wheel),
    ]
    subprocess.run(install, check=True, capture_output=True)
    done = subprocess.run(
        [str(programs / "labtui"), "--version"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"labtui \d+\.\d+\S*\n", done.stdout)


def test_the_wheels_scripts_and_templates_are_found_from_the_wheel(site):
    code = (
        "from labtui.session.folder import read_remote, read_template\n"
        "print(len(read_remote('ResNet50.py')), len(read_template('one-job')))"
    )
    done = in_site(site, ["-I"], code)
    assert done.returncode == 0, done.stderr
    assert all(int(size) > 100 for size in done.stdout.split())
