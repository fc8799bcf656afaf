"""The practice cluster on disk: home, project space and programs in one folder; its jobs and clock in a state file.

SFTP sees nothing outside that folder. The programs are the files of `shell/`. A kept cluster keeps its jobs and its
clock, as Slurm does; times are UNIX seconds on the cluster's clock.
"""

import json
import os
import pickle
import shlex
import stat
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import msgspec
from filelock import FileLock, Timeout

from labtui.cluster.local_files import mkdir_private, write_inside
from labtui.domain import decode
from labtui.domain.errors import failure
from labtui.practice.commands import PROGRAMS
from labtui.practice.controller import Controller
from labtui.practice.job import Job
from labtui.practice.pace import DATA_SETS
from labtui.practice.rehearse import IMAGES_FILE
from labtui.slurm.probe import CIFAR10

CONTAINER = "MN5-NGC-TensorFlow-23.03.sif"
PYTORCH = "nvidiaPytorch24.07"
HERE = Path(__file__).parent
SHELL = HERE / "shell"
SAME_PROGRAM = {
    **dict.fromkeys((*PROGRAMS, "bsc_quota", "date", "sleep", "nvidia-smi"), "program"),
    "apptainer": "singularity",
    "python3": "python",
}
"""Programs by the file of `shell/` that they share."""
CLASSES = 200


class Layout:
    """The paths of a practice cluster. `root` is absolute and owner-only; all others lie below it.

    `programs` is first in PATH, labtui works in `scratch`, `spool` has the scripts and temporary files of running jobs,
    `identity` is the student's key, `data_sets` are the image folders of the chapters on PyTorch, `pytorch` is their
    container image.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home, self.scratch, self.spool = root / "home", root / "scratch", root / "spool"
        self.keys, self.programs = root / "keys", root / "bin"
        self.identity = self.keys / "id_practice"
        project = root / "projects"
        self.data = project / "cifar-utils" / "cifar-10-batches-py"
        self.data_sets = project / "datasets"
        self.container, self.pytorch = project / CONTAINER, project / PYTORCH


def make_layout(layout: Layout, environment: Mapping[str, str], *, real_data: bool) -> None:
    """Create the cluster's files. The student's files of an earlier session (``--keep``) stay as they are."""
    layout.root.mkdir(parents=True, exist_ok=True)
    layout.root.chmod(stat.S_IRWXU)
    for folder in (layout.home, layout.scratch, layout.data, layout.programs, layout.spool, layout.keys):
        folder.mkdir(parents=True, exist_ok=True)
    for image in (layout.container, layout.pytorch):
        image.write_bytes(b"SIF_FAKE practice image: `singularity exec` runs what follows it\n")
    _write_data(layout.data, real=real_data)
    for name, images in DATA_SETS.items():
        _write_image_folder(layout.data_sets / name, images)
    files = {path.name: path.name for path in SHELL.iterdir() if not path.suffix} | SAME_PROGRAM
    for name in files.keys() - {"program"}:
        target = layout.programs / name
        target.write_bytes((SHELL / files[name]).read_bytes())
        target.chmod(0o755)
    exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in sorted(environment.items()))
    profile = (SHELL / "profile.sh").read_text(encoding="utf-8")
    (layout.home / ".bash_profile").write_text(exports + profile, encoding="utf-8")


def program_environment(layout: Layout) -> dict[str, str]:
    """The variables by which the cluster's programs find labtui's code."""
    return {
        "LABTUI_PRACTICE_BIN": str(layout.programs),
        "LABTUI_PRACTICE_CODE": str(HERE),
        "LABTUI_PRACTICE_PYTHON": sys.executable,
    }


def _write_data(folder: Path, *, real: bool) -> None:
    for name in CIFAR10:
        target = folder / name
        if real:
            # A few images of random pixels, which train as fast as photographs.
            images = [list(os.urandom(3072)) for _ in range(256 if name != "test_batch" else 64)]
            content = {b"data": images, b"labels": [i % 10 for i in range(len(images))]}
        else:
            content = {b"data": b"rehearsal:10000x3072", b"labels": list(range(10)) * 1000}
        target.write_bytes(pickle.dumps(content, protocol=2))


def _write_image_folder(folder: Path, images: Mapping[str, int]) -> None:
    """Make a data set of 200 empty class folders, and a file with the numbers of images, which `rehearse` reads."""
    if (folder / IMAGES_FILE).exists():
        return
    for part in images:
        for number in range(1, CLASSES + 1):
            (folder / part / f"n{number:08d}").mkdir(parents=True, exist_ok=True)
    (folder / IMAGES_FILE).write_text(json.dumps(images), encoding="ascii")


# --------------------------------------------------------------------------- the state of a kept cluster

STATE_FILE = "slurm_state.json"


class SavedCluster(msgspec.Struct, frozen=True):
    """The state of a practice cluster at `clock`, when a job last changed or the cluster ended."""

    clock: Annotated[float, msgspec.Meta(ge=0, lt=2**37)]  # up to the year 6325: times have four-digit years
    jobs: list[Job]
    factor: Annotated[float, msgspec.Meta(ge=0.1, le=1000)] | None = None
    train: bool = False


class StateFile:
    """The state file of a kept cluster, and the lock by which one process at a time uses its folder.

    Raises:
        UsageError: another practice session uses the folder.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / STATE_FILE
        mkdir_private(folder)
        self._held = FileLock(folder / ".lock", timeout=0, mode=0o600, thread_local=False)
        try:
            self._held.acquire()
        except Timeout as error:
            raise failure("practice-open", folder=folder) from error
        self._written = b""

    def load(self) -> SavedCluster | None:
        """The state that the last session saved; None if there is none.

        Raises:
            DataError: the file is damaged.
        """
        try:
            return decode.from_json(self._path.read_bytes(), SavedCluster)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError) as error:
            raise failure("practice-records", text=error, path=self._path) from error

    def save(self, controller: Controller, *, ended: bool = False, **cluster: float) -> None:
        """Write the file, with the further fields of `cluster`, if a job has changed or the cluster has `ended`.

        Raises:
            OSError: it cannot be written.
        """
        with controller.lock:
            jobs = msgspec.json.encode(controller.accounting())
            if ended or jobs != self._written:
                saved = {**cluster, "jobs": msgspec.Raw(jobs)}
                write_inside(self._path.parent, self._path.name, msgspec.json.encode(saved))
                self._written = jobs

    def close(self) -> None:
        """Release the folder for another session."""
        self._held.release()
