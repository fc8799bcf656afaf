"""The wheel a student installs: it builds, installs into an empty environment, starts, and carries its data."""

import re
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    target = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(target), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return next(target.glob("labtui-*.whl"))


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory):
    """An environment with labtui alone in it, without its dependencies: quick, and offline."""
    place = tmp_path_factory.mktemp("environment")
    venv.create(place, with_pip=False)
    words = ["--python", str(place), "install", "--quiet", "--no-deps", str(wheel)]
    subprocess.run([sys.executable, "-m", "pip", *words], check=True, capture_output=True)
    return place / ("Scripts" if sys.platform == "win32" else "bin")


def test_the_wheel_carries_all_scripts_templates_editions_profiles_and_styles(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    assert not [name for name in names if "__pycache__" in name or name.startswith("tests")]
    listed = ["git", "ls-files", "remote", "slurm_templates", "src/labtui"]
    files = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=False)
    if files.returncode:
        pytest.skip("not a git checkout")
    carried = {name.removeprefix("labtui/").removeprefix("_data/") for name in names}
    there = {name for name in files.stdout.splitlines() if (ROOT / name).exists()}
    assert {"remote/ResNet50.py", "slurm_templates/one-job.slurm", "src/labtui/profiles/mn5.toml"} <= there
    assert {name.removeprefix("src/labtui/") for name in there} <= carried


def test_the_command_that_installing_makes_runs_and_finds_its_data(environment, tmp_path):
    """The console script itself, started as a student starts it; scripts and templates from the wheel."""
    how = {"capture_output": True, "text": True, "check": False, "cwd": tmp_path}
    done = subprocess.run([str(environment / "labtui"), "--version"], **how)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"labtui \d+\.\d+\S*\n", done.stdout)
    code = (
        "import sys, sysconfig; sys.path += sys.argv[1].split('|')\n"
        "import labtui; assert labtui.__file__.startswith(sys.prefix)\n"
        "from labtui.session.folder import read_remote, read_template\n"
        "print(len(read_remote('ResNet50.py')), len(read_template('one-job')))"
    )
    with_dependencies = "|".join(path for path in sys.path if "site-packages" in path)
    done = subprocess.run([str(environment / "python"), "-I", "-c", code, with_dependencies], **how)
    assert done.returncode == 0, done.stderr
    assert all(int(size) > 100 for size in done.stdout.split())
