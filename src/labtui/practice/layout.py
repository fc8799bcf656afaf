"""The practice cluster on disk: its folder with home, project space and programs, and what is kept between sessions.

Everything lies under one folder of ours; SFTP sees nothing else. A kept cluster writes its jobs, job numbers and clock
(UNIX seconds of its own clock) into one small file, as Slurm does in its state save location.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pickle
import shlex
import shutil
import stat
import sys
import threading
import time
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import msgspec

from labtui.cluster.atomic_file import write_atomic
from labtui.domain.errors import DataError, UsageError
from labtui.practice.rehearse import IMAGES_FILE
from labtui.practice.slurm.commands import PROGRAMS
from labtui.practice.slurm.controller import Controller
from labtui.practice.slurm.job import Job

DATA_FILES = ("data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch")
CONTAINER = "MN5-NGC-TensorFlow-23.03.sif"
PYTORCH = "nvidiaPytorch24.07"
HERE = Path(__file__).parent
IMAGE_FOLDERS = {
    "micro-224": {"train": 12_500, "val": 10_000},
    "tiny-224": {"train": 100_000, "val": 10_000},
}
CLASSES = 200

NOISE = """\
echo "load bsc/1.0 (PATH, MANPATH)"
echo "================================================================"
echo "  This is labtui's practice cluster. Nothing here is MareNostrum."
echo "================================================================"
echo "remark: your default modules have been loaded" >&2
"""

MODULE = """\
module() {
    local verb="${1:-}" name
    [ $# -gt 0 ] && shift
    case "$verb" in
        purge|list|avail|spider|show|use|unload|rm) return 0 ;;
        load|add)
            for name in "$@"; do
                case "${name%%/*}" in
                    singularity) LABTUI_PRACTICE_SINGULARITY=yes; export LABTUI_PRACTICE_SINGULARITY
                                 echo "load $name (PATH)" >&2 ;;
                    bsc|cuda|cudnn|nccl|gcc|intel|oneapi|nvidia-hpc-sdk|mkl|impi|hdf5|python|tensorflow) echo "load
                    $name (PATH)" >&2 ;;
                    *) echo "Lmod has detected the following error:  The following module(s) are unknown:
                    \\"$name\\"" >&2
                       return 1 ;;
                esac
            done ;;
        *) echo "module: unknown command '$verb'" >&2; return 1 ;;
    esac
}
export -f module
"""

SINGULARITY = """\
#!/usr/bin/env bash
# `singularity exec [--nv] IMAGE COMMAND...`: runs the command here. Without --nv it sees no GPU, as in a
# real container.
fatal() { printf 'FATAL:   %s\\n' "$1" >&2; exit 255; }
while [ $# -gt 0 ] && [[ "$1" == -* ]]; do
    [ "$1" = --version ] && { echo "singularity-ce version 4.1.5"; exit 0; }
    shift
done
verb="${1:-}"; [ $# -gt 0 ] && shift
case "$verb" in exec|run) ;; *) fatal "unknown command \\"$verb\\" for \\"singularity\\"" ;; esac
nv=
while [ $# -gt 0 ] && [[ "$1" == -* ]]; do
    case "$1" in
        --nv) nv=yes ;;
        -B|--bind|--env|--env-file|--pwd|-H|--home|-W|--workdir|-S|--scratch) shift ;;
    esac
    shift
done
image="${1:-}"
[ -n "$image" ] || fatal "exec requires at least 2 argument(s), only received 0"
shift
[ $# -gt 0 ] || fatal "exec requires at least 2 argument(s), only received 1"
case "$image" in /*) full="$image" ;; *) full="$PWD/$image" ;; esac
[ -e "$full" ] || fatal "could not open image $full: failed to retrieve path for $full: \\
lstat $full: no such file or directory"
[ "$(head -c 8 -- "$full" 2>/dev/null)" = SIF_FAKE ] || fatal "could not open image $full: image format not recognized"
[ -n "$nv" ] || export CUDA_VISIBLE_DEVICES=-1
export SINGULARITY_CONTAINER="$full" LABTUI_PRACTICE_TENSORFLOW=yes
command -v -- "$1" >/dev/null 2>&1 || fatal "\\"$1\\": executable file not found in \\$PATH"
exec "$@"
"""


@dataclass(frozen=True, slots=True)
class Layout:
    """Where things are. `root` is absolute and owner-only; all other folders lie below it."""

    root: Path

    @property
    def home(self) -> Path:
        """The student's home on the cluster."""
        return self.root / "home"

    @property
    def scratch(self) -> Path:
        """Where labtui works."""
        return self.root / "scratch"

    @property
    def project(self) -> Path:
        """The course's shared folder: data and container."""
        return self.root / "projects"

    @property
    def data(self) -> Path:
        """The CIFAR-10 pickles."""
        return self.project / "cifar-utils" / "cifar-10-batches-py"

    @property
    def data_sets(self) -> Path:
        """The image folders of the chapters on PyTorch."""
        return self.project / "datasets"

    @property
    def container(self) -> Path:
        """The container's image file."""
        return self.project / CONTAINER

    @property
    def pytorch(self) -> Path:
        """The image of the chapters on PyTorch."""
        return self.project / PYTORCH

    @property
    def programs(self) -> Path:
        """What PATH begins with on the cluster."""
        return self.root / "bin"

    @property
    def spool(self) -> Path:
        """Scripts and scratch space of running jobs."""
        return self.root / "spool"

    @property
    def keys(self) -> Path:
        """The student's key for this cluster."""
        return self.root / "keys"


def make_layout(layout: Layout, environment: Mapping[str, str], *, real_data: bool) -> None:
    """Create everything. The student's files of an earlier practice (``--keep``) are left as they are."""
    layout.root.mkdir(parents=True, exist_ok=True)
    layout.root.chmod(stat.S_IRWXU)
    for folder in (layout.home, layout.scratch, layout.data, layout.programs, layout.spool, layout.keys):
        folder.mkdir(parents=True, exist_ok=True)
    for image in (layout.container, layout.pytorch):
        image.write_bytes(b"SIF_FAKE practice image: `singularity exec` runs what follows it\n")
    _write_data(layout.data, real=real_data)
    for name, images in IMAGE_FOLDERS.items():
        _write_image_folder(layout.data_sets / name, images)
    _write_programs(layout, environment)
    exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in sorted(environment.items()))
    profile = f"{exports}export PATH={shlex.quote(str(layout.programs))}:$PATH\n{MODULE}{NOISE}"
    (layout.home / ".bash_profile").write_text(profile, encoding="utf-8")


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


def _write_programs(layout: Layout, environment: Mapping[str, str]) -> None:
    python = shlex.quote(sys.executable)
    # bash and not sh: dash drops the environment entry that holds the function `module`.
    start = f"#!/usr/bin/env bash\nexec {python} -I -S {shlex.quote(str(HERE / 'programs.py'))} "
    scripts = {name: f'{start}{name} "$@"\n' for name in (*PROGRAMS, "date", "sleep", "nvidia-smi")}
    scripts["singularity"] = SINGULARITY
    scripts["apptainer"] = SINGULARITY
    scripts["srun"] = f'#!/usr/bin/env bash\nexec {python} -I -S {shlex.quote(str(HERE / "srun.py"))} "$@"\n'
    # Whoever the laptop's user is, on the cluster it is the student.
    scripts["whoami"] = '#!/bin/sh\necho "$USER"\n'
    scripts["id"] = (
        f'#!/bin/sh\n[ "$1" = -un ] && {{ echo "$USER"; exit; }}\nexec {shutil.which("id")} "$@"\n'
    )
    scripts["bsc_quota"] = (
        f"#!/bin/sh\necho 'group {environment.get('USER', 'nct')}'\necho 'gpfs_projects GRP 12.0 GB "
        f"1.0 TB 1.1 TB 0 KB'\n"
    )
    train = environment.get("LABTUI_PRACTICE_TRAIN") == "yes"
    scripts["python"] = (
        (_PYTHON_TRAIN if train else _PYTHON)
        .replace("@python@", python)
        .replace("@rehearse@", shlex.quote(str(HERE / "rehearse.py")))
    )
    scripts["python3"] = scripts["python"]
    scripts["torchrun"] = _TORCHRUN.replace("@python@", python).replace(
        "@rehearse@", shlex.quote(str(HERE / "rehearse.py"))
    )
    scripts["mpicc"] = _MPICC.replace("@python@", python).replace(
        "@program@", shlex.quote(str(HERE / "rehearsal" / "mpi_programs.py"))
    )
    scripts["mpirun"], scripts["make"] = _MPIRUN, _MAKE
    for name, text in scripts.items():
        target = layout.programs / name
        target.write_text(text, encoding="utf-8")
        target.chmod(0o755)


_PYTHON = """\
#!/usr/bin/env bash
# A training script is rehearsed; anything else is the laptop's own Python.
for word in "$@"; do
    case "$word" in
        -c|-m|-V|--version|-h|--help|-) break ;;
        -*) ;;
        *)  [ -n "$LABTUI_PRACTICE_JOB" ] || break
            exec @python@ -u @rehearse@ "$@" ;;
    esac
done
exec @python@ "$@"
"""

_TORCHRUN = """\
#!/usr/bin/env bash
# PyTorch's launcher: one process stands for all.
exec @python@ -u @rehearse@ torchrun "$@"
"""

_MPICC = """\
#!/usr/bin/env bash
# "Compiles" a C source into a program that prints what the real one prints, after the published time.
out=a.out source= flags=()
while [ $# -gt 0 ]; do
    case "$1" in
        -o) out="$2"; shift ;;
        -*) flags+=("$1") ;;
        *)  source="$1" ;;
    esac
    shift
done
[ -n "$source" ] || { echo "gcc: fatal error: no input files" >&2; exit 1; }
[ -f "$source" ] || { echo "gcc: error: $source: No such file or directory" >&2; exit 1; }
printf '%s\n' '#!/usr/bin/env bash' '[ "${SLURM_PROCID:-0}" = 0 ] || exit 0  # process 0 speaks for all' \
    "exec @python@ -I -S @program@ $(printf '%q ' "${source##*/}" "${flags[@]}")-- \\"\\$@\\"" > "$out"
chmod +x "$out"
"""

_MPIRUN = """\
#!/usr/bin/env bash
# Open MPI's launcher: one process stands for all.
count=1
while [ $# -gt 0 ]; do
    case "$1" in
        -np|-n|--np|-c) count="$2"; shift ;;
        --) shift; break ;;
        -*) ;;
        *)  break ;;
    esac
    shift
done
[ $# -gt 0 ] || { echo "mpirun could not find anything to do." >&2; exit 1; }
SLURM_PROCID=0 SLURM_NTASKS="$count" exec "$@"
"""

_MAKE = """\
#!/usr/bin/env bash
# Builds the first C source of a folder, by the cluster's mpicc.
folder=. target=default
while [ $# -gt 0 ]; do
    case "$1" in -C) folder="$2"; shift ;; -*) ;; *) target="$1" ;; esac
    shift
done
cd "$folder" || exit 2
[ -f Makefile ] || { echo "make: *** No targets specified and no makefile found.  Stop." >&2; exit 2; }
for source in *.c; do
    [ -f jacobi.c ] && source=jacobi.c
    echo "mpicc -DBUILD=$target $source -o ${source%.c} -lm"
    exec mpicc "-DBUILD=$target" "$source" -o "${source%.c}" -lm
done
"""

_PYTHON_TRAIN = """\
#!/usr/bin/env bash
# The training is real, on the laptop's CPU, with few and small images.
for word in "$@"; do
    case "$word" in
        *ResNet*.py) case " $* " in *" --device "*) ;; *) set -- "$@" --device cpu --images 512
        --image-size 32 ;; esac ;;
    esac
done
exec @python@ "$@"
"""


STATE_FILE = "slurm_state.json"
SAVE_EVERY_S = 10.0
"""The clock is saved this often (seconds of ours) when nothing else happens."""


@dataclass(frozen=True, slots=True)
class SavedCluster:
    """A practice cluster as it was at `clock`; `factor` is how fast that clock went."""

    clock: float
    factor: float
    ended: bool
    """Whether the session came to its end; else it was killed up to `SAVE_EVERY_S` later."""
    next_id: int
    jobs: list[Job]

    @property
    def latest_clock(self) -> float:
        """What the clock showed at most when the cluster ended."""
        return self.clock if self.ended else self.clock + 2 * SAVE_EVERY_S * self.factor


class StateFile:
    """The state file of one kept cluster, and the lock that lets one process at a time use its folder.

    Raises:
        UsageError: another practice session is using the folder.
    """

    def __init__(self, folder: Path) -> None:
        import fcntl  # not on Windows, where no cluster starts; it has a sentence of its own there

        self._path = folder / STATE_FILE
        folder.mkdir(parents=True, exist_ok=True)
        self._held: BinaryIO = (folder / ".lock").open("ab")
        try:
            fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._held.close()
            raise UsageError(
                f"A practice session is already open in {folder}.",
                "Leave that one first, or keep this one in another folder.",
            ) from error
        self._lock = threading.Lock()
        self._written: Hashable = None
        self._written_at = 0.0
        self._closed = False

    def load(self) -> SavedCluster | None:
        """What the last session left; None before the first.

        Raises:
            DataError: the file is damaged.
        """
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=SavedCluster)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError) as error:
            raise DataError(
                f"The practice cluster's records cannot be read: {error}.",
                "Delete this file to continue without its earlier jobs.",
                path=str(self._path),
            ) from error

    def save(self, controller: Controller, now: float, factor: float, *, ended: bool = False) -> None:
        """Write the file when a job changed, or now and then for the clock; never again after `ended`.

        Raises:
            OSError: it cannot be written.
        """
        with self._lock:
            if self._closed:
                return
            with controller.lock:
                jobs = controller.accounting()
                found = _changing(jobs)
                due = time.monotonic() - self._written_at >= SAVE_EVERY_S
                if not (ended or due or found != self._written):
                    return
                saved = SavedCluster(now, factor, ended, controller.next_id, [_slim(job) for job in jobs])
                data = msgspec.json.encode(saved)
            self._closed = ended
            write_atomic(self._path, data)
            self._written, self._written_at = found, time.monotonic()

    def close(self) -> None:
        """Let another session use the folder."""
        self._held.close()


def _changing(jobs: Sequence[Job]) -> Hashable:
    """What changes of jobs during their life."""
    return tuple(
        (job.job_id, job.state, job.wanted, job.time_limit_s, job.held, job.restarts) for job in jobs
    )


def _slim(job: Job) -> Job:
    """A finished job without what it took to start it."""
    return dataclasses.replace(job, script=b"", environment={}) if job.finished else job
