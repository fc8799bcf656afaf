"""A practice cluster served as an SSH host, and a lab folder that says it is MareNostrum 5: nothing passes as real."""

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands.conftest import Labtui


@pytest.fixture
def served(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A running `labtui practice --serve` and the settings of the lab folder that it fills."""
    home = tmp_path / "host"
    home.mkdir()
    command = [sys.executable, "-m", "labtui", "practice", "--serve", "--factor", "200"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=Labtui(home, home).environment
    ) as server:
        assert server.stdout is not None
        for line in server.stdout:
            if found := re.match(r"lab folder +(.+)", line):
                folder = Path(found[1])
            if line.startswith("speed"):
                break
        yield tomllib.loads((folder / "lab.toml").read_text())["cluster"]
        server.terminate()


@pytest.mark.slow
def test_a_folder_that_claims_mn5_still_gives_marked_runs(served, tmp_path):
    labtui = Labtui(tmp_path / "home", tmp_path / "lab")
    labtui.home.mkdir()
    names = ["host", "port", "user", "identity", "host_key", "account", "root", "data_dir", "container"]
    words = [f"--{name.replace('_', '-')}={served[name]}" for name in names]
    labtui("init", str(labtui.folder), "--lab", "hpc4ai-ch10", "--cluster", "mn5", *words)
    assert "practice" not in (labtui.folder / "lab.toml").read_text().split("[cluster]")[0]
    labtui("submit", "10.5", "--gpus", "1,2", "--force", "a test", "--qos", "acc_training", "--time", "1200")
    labtui("watch")
    rows = labtui.json("results")["rows"]
    assert len(rows) == 2 and all(row["practice"] or row["small"] for row in rows)
    checked = json.loads(labtui("check", "10.5", "--json", code=None).stdout)
    assert "practice" in json.dumps(checked).lower()
