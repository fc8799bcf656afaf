"""labtui as a student runs it: in a process of its own, without a terminal, with a home directory of its own."""

import json
import os
import pkgutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import labtui as package
from labtui.commands.cli import main
from labtui.session.folder import LabFolder
from labtui.session.settings import Settings
from tests.real_cluster import Cluster, Student
from tests.remote.warm import Process, Warm

PROGRAM = str(Path(package.__file__).with_name("__main__.py"))
NOT_BEFORE = ("labtui.__main__", "labtui.export", "labtui.practice", "labtui.tui")
MODULES = [module.name for module in pkgutil.walk_packages(package.__path__, "labtui.", onerror=str)]
BEFORE = ("paramiko", *(name for name in MODULES if not name.startswith(NOT_BEFORE)))
LABTUI = Warm(sys.executable, *BEFORE, env=os.environ)
"""Each command is a fork of a Python process that has imported what all commands need."""

QUICK_TRAINING = '''\
"""Prints what a training prints, without one: for tests that are about everything else."""
import argparse, json, sys, time

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int)
parser.add_argument("--batch_size", type=int)
parser.add_argument("--n_gpus", type=int, default=1)
parser.add_argument("--pace", type=float, default=0.05)
parser.add_argument("--fail", action="store_true")
args, _ = parser.parse_known_args()
if args.fail:
    sys.exit("Traceback (most recent call last):\\nModuleNotFoundError: No module named 'tensorflow'")
steps = -(-50000 // args.batch_size)
learning_rate = 0.01 * args.n_gpus
for epoch in range(1, args.epochs + 1):
    time.sleep(args.pace)
    seconds = round(16 / args.n_gpus) if epoch > 1 else 30
    print("Epoch {}/{}".format(epoch, args.epochs))
    print("{0}/{0} - {1}s - loss: 2.{2:04d} - accuracy: 0.2{2:03d}".format(steps, seconds, epoch))
'''


@dataclass
class Labtui:
    """Runs the command line in one lab folder."""

    home: Path
    folder: Path
    printed: list[tuple[Path, Path]] = field(default_factory=list)

    @property
    def environment(self) -> dict[str, str]:
        return os.environ | {
            "HOME": str(self.home), "XDG_DATA_HOME": str(self.home / "data"), "NO_COLOR": "1",
        }  # fmt: skip

    def start(self, *arguments: str) -> Process | subprocess.Popen[bytes]:
        """Start labtui in the background; its output goes to the files in the last entry of `printed`."""
        place = self.home.with_name(f"{self.home.name}-{len(self.printed)}")
        self.printed.append((place.with_suffix(".out"), place.with_suffix(".err")))
        cwd = self.folder if self.folder.is_dir() else self.home
        return LABTUI.start([PROGRAM, *arguments], cwd, self.environment, *self.printed[-1])

    def __call__(
        self, *arguments: str, code: int | None = 0, timeout_s: float = 800
    ) -> subprocess.CompletedProcess[str]:
        process = self.start(*arguments)
        try:
            process.wait(timeout_s)
        finally:
            process.kill()
            out, err = (path.read_text(encoding="utf-8") for path in self.printed[-1])
            print(out, err)
        assert "Traceback" not in err, err
        if code is not None:
            assert process.returncode == code, f"exit {process.returncode}\n{out}\n{err}"
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)

    def json(self, *arguments: str, code: int = 0) -> Any:
        """The JSON a command prints."""
        return json.loads(self(*arguments, "--json", code=code).stdout)

    def lines(self, *arguments: str, code: int = 0) -> list[dict[str, Any]]:
        """The JSON lines a command prints."""
        return [json.loads(line) for line in self(*arguments, "--json", code=code).stdout.splitlines()]


def answer_of(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> Any:
    """The JSON that a command prints when it is run in this process."""
    capsys.readouterr()
    assert main([*arguments, "--json"]) == code
    return json.loads(capsys.readouterr().out)


@pytest.fixture
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LabFolder:
    """A new lab folder as the current directory; its cluster is a port on which nothing listens.

    The fixture's parameter says whether it is a practice folder.
    """
    given = {"edition": "hpc4ai-ch10", "host": "127.0.0.1", "port": 1, "user": "nct01000"}
    profile = "practice" if getattr(request, "param", False) else "mn5"
    made = LabFolder.create(tmp_path / "lab", Settings(account="nct_000", profile=profile, **given))
    monkeypatch.chdir(made.path)
    return made


@pytest.fixture
def labtui(tmp_path: Path) -> Labtui:
    """labtui without a lab folder yet; ``init`` makes one at ``labtui.folder``."""
    home = tmp_path / "home"
    home.mkdir()
    return Labtui(home, tmp_path / "lab")


def init_arguments(labtui: Labtui, student: Student, **changes: str) -> list[str]:
    """The arguments of ``labtui init`` for a test cluster; `changes` come last and take precedence."""
    root = f"{student.scratch}/{labtui.folder.parent.name}"
    lab = ["--lab=hpc4ai-ch10", "--cluster=mn5", f"--account={student.account}", f"--root={root}"]
    more = [f"--{name.replace('_', '-')}={value}" for name, value in changes.items()]
    return ["init", str(labtui.folder), *lab, *student.options, *more]


@pytest.fixture
def lab(labtui: Labtui, student: Student) -> Labtui:
    """A lab folder on the real cluster, with training scripts that only print."""
    labtui(*init_arguments(labtui, student))
    for name in ("ResNet50.py", "ResNet50_seq.py"):
        (labtui.folder / "scripts" / name).write_text(f"# {name}\n{QUICK_TRAINING}")
    return labtui


def remote_file(cluster: Cluster, path: str) -> bytes:
    """The content of a file on the cluster."""
    return cluster.outside(path).read_bytes()
