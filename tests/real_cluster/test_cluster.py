"""The test cluster itself, where no other test would see that it fails: it counts, it fills up, it leaves nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.real_cluster import Cluster, Student
from tests.real_cluster.cluster import PROJECT, wait_until

pytestmark = pytest.mark.cluster


def test_singularity_needs_its_image_and_nv(cluster: Cluster, student: Student) -> None:
    show = "python -c 'import os; print(os.environ.get(\"CUDA_VISIBLE_DEVICES\"))'"
    run = f"export CUDA_VISIBLE_DEVICES=0,1; module load singularity; singularity exec %s {show}"
    assert cluster.as_student(run % f"--nv {student.container}").out == "0,1"
    assert cluster.as_student(run % student.container).out == "-1"
    missing = cluster.as_student(run % "/gpfs/none.sif")
    assert missing.status == 255
    assert "FATAL:   could not open image /gpfs/none.sif: failed to retrieve path" in missing.err
    assert "module(s) are unknown" in cluster.as_student("module load nonsense").err
    assert cluster.as_student("singularity --version").status == 127


def test_disk_full(cluster: Cluster, student: Student) -> None:
    cluster.limit_disk(student.scratch, "64k")
    full = cluster.as_student(f"head -c 200000 /dev/zero > {student.scratch}/big")
    assert full.status != 0 and "No space left on device" in full.err
    cluster.unlimit_disk(student.scratch)
    assert cluster.as_student(f"ls -A {student.scratch}/big").status != 0


def test_requests_are_counted(cluster: Cluster, student: Student) -> None:
    before = cluster.student_requests()
    assert cluster.as_student("squeue --me -h").status == 0
    assert cluster.student_requests() > before


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
