"""The test cluster itself, where no other test would see that it fails: it counts, it fills up, it leaves nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.real_cluster import Cluster
from tests.real_cluster.cluster import PROJECT, wait_until

pytestmark = pytest.mark.cluster


STARTER = """
import sys
from pathlib import Path
from tests.real_cluster import Cluster
cluster = Cluster.start(Path(sys.argv[1]))
print("up", flush=True)
sys.stdin.read()
"""


def test_nothing_is_left_when_the_starter_is_killed(tmp_path: Path) -> None:
    folder = tmp_path / "cluster with a blank"
    tmp_path.chmod(0o755)
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTER, str(folder)],
        cwd=PROJECT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert starter.stdout is not None and starter.stdout.readline() == b"up\n"
    marks = {e.name for e in Path("/proc").iterdir() if e.name.isdigit() and _belongs(e.name, folder)}
    assert len(marks) >= 8
    os.kill(starter.pid, signal.SIGKILL)
    starter.wait()
    wait_until(lambda: not any(Path("/proc", pid).exists() for pid in marks), what="every process to end")
    assert str(folder) not in Path("/proc/mounts").read_text()
    Cluster.attach(folder).down()
    assert list(folder.iterdir()) == []


def _belongs(pid: str, folder: Path) -> bool:
    """Whether a process lives in that cluster: its root directory lies in the folder."""
    try:
        return str(folder) in str(Path(f"/proc/{pid}/root").readlink())
    except OSError:
        return False
