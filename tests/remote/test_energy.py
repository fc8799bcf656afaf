"""The GPUs' energy counters through ctypes, with a library in NVML's place; and nothing where there is none."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.remote.conftest import REMOTE

NVML = Path(__file__).with_name("nvml.c").read_text(encoding="utf-8")
ASK = "import mllog; print(mllog.gpu_joules([0, 1]), mllog.joules_since(5000.0, [0]), mllog.joules_since(None, [0]))"


def asked(**more: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", ASK], cwd=REMOTE, env={"PATH": "/usr/bin:/bin", **more},
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> str:
    if shutil.which("cc") is None or sys.platform != "linux":
        pytest.skip("needs a C compiler and Linux")
    folder = tmp_path_factory.mktemp("nvml")
    (folder / "nvml.c").write_text(NVML)
    made = folder / "libnvidia-ml.so.1"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(made), str(folder / "nvml.c")], check=True)
    return str(folder)


@pytest.mark.parametrize(("more", "told"), [
    # GPU 1 of the node and one by its name; each reading of the stand-in finds 1.5 J more.
    ({"CUDA_VISIBLE_DEVICES": "1,GPU-ab"}, "12001.5 {'energy_joules': 3.0} {}"),
    *(({"NO_COUNTER": "1"}, "None {}"), ({"CUDA_VISIBLE_DEVICES": "7,8"}, "None {}")),
    ({"CUDA_VISIBLE_DEVICES": "MIG-x,1"}, "None {}"),
    ({"LD_LIBRARY_PATH": "/nowhere"}, "None {} {}"),
])  # fmt: skip
def test_the_counters_of_the_visible_gpus_are_added_where_there_are_any(library, more, told):
    assert asked(**{"LD_LIBRARY_PATH": library} | more).startswith(told)
