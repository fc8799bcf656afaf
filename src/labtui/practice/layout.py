"""The practice cluster on disk: its folder with home, project space and programs.

Everything lies under one folder of ours; SFTP sees nothing else. The programs are the files of `shell/`.
"""

from __future__ import annotations

import json
import os
import pickle
import shlex
import stat
import sys
from collections.abc import Mapping
from pathlib import Path

from labtui.practice.pace import DATA_SETS
from labtui.practice.rehearse import IMAGES_FILE
from labtui.practice.slurm.commands import PROGRAMS

DATA_FILES = (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch")
CONTAINER = "MN5-NGC-TensorFlow-23.03.sif"
PYTORCH = "nvidiaPytorch24.07"
HERE = Path(__file__).parent
SHELL = HERE / "shell"
SAME_PROGRAM = {
    **dict.fromkeys((*PROGRAMS, "date", "sleep", "nvidia-smi"), "program"),
    "apptainer": "singularity",
    "python3": "python",
}
"""Programs that are another one's file."""
CLASSES = 200


class Layout:
    """Where things are. `root` is absolute and owner-only; all other folders lie below it.

    `programs` is what PATH begins with, `scratch` where labtui works, `spool` for scripts and scratch space of running
    jobs, `data_sets` the image folders of the chapters on PyTorch, `pytorch` their container's image.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home, self.scratch, self.spool = root / "home", root / "scratch", root / "spool"
        self.keys, self.programs = root / "keys", root / "bin"
        project = root / "projects"
        self.data = project / "cifar-utils" / "cifar-10-batches-py"
        self.data_sets = project / "datasets"
        self.container, self.pytorch = project / CONTAINER, project / PYTORCH


def make_layout(layout: Layout, environment: Mapping[str, str], *, real_data: bool) -> None:
    """Create everything. The student's files of an earlier practice (``--keep``) are left as they are."""
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
    """What the cluster's programs need to find labtui's code."""
    return {
        "LABTUI_PRACTICE_BIN": str(layout.programs),
        "LABTUI_PRACTICE_CODE": str(HERE),
        "LABTUI_PRACTICE_PYTHON": sys.executable,
    }


def _write_data(folder: Path, *, real: bool) -> None:
    for name in DATA_FILES:
        target = folder / name
        if real:
            # Small but real pixels: random bytes train as fast as photographs.
            count = 256 if name != "test_batch" else 64
            content = {
                b"data": [list(os.urandom(3072)) for _ in range(count)],
                b"labels": [i % 10 for i in range(count)],
            }
        else:
            content = {b"data": b"rehearsal:10000x3072", b"labels": list(range(10)) * 1000}
        target.write_bytes(pickle.dumps(content, protocol=2))


def _write_image_folder(folder: Path, images: Mapping[str, int]) -> None:
    """A data set of image files in 200 classes; of the images there is only the number, which `rehearse` reads."""
    if (folder / IMAGES_FILE).exists():
        return
    for part in images:
        for number in range(1, CLASSES + 1):
            (folder / part / f"n{number:08d}").mkdir(parents=True, exist_ok=True)
    (folder / IMAGES_FILE).write_text(json.dumps(images), encoding="ascii")
