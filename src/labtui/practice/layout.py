"""The practice cluster's folder: a home, the project space with data and container, programs on PATH, login files.

Everything lies under one folder of ours; SFTP sees nothing else.
"""

from __future__ import annotations

import os
import pickle
import shlex
import shutil
import stat
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from labtui.practice.slurm.commands import PROGRAMS

DATA_FILES = ("data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch")
CONTAINER = "MN5-NGC-TensorFlow-23.03.sif"
HERE = Path(__file__).parent

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
                    bsc|cuda|cudnn|nccl|gcc|intel|mkl|impi|hdf5|python|tensorflow|anaconda) echo "load
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
    def container(self) -> Path:
        """The container's image file."""
        return self.project / CONTAINER

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
    layout.container.write_bytes(b"SIF_FAKE practice image: `singularity exec` runs what follows it\n")
    _write_data(layout.data, real=real_data)
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


def _write_programs(layout: Layout, environment: Mapping[str, str]) -> None:
    python = shlex.quote(sys.executable)
    # bash and not sh: dash drops the environment entry that holds the function `module`.
    shim = f"#!/usr/bin/env bash\nexec {python} -I -S {shlex.quote(str(HERE / 'shim.py'))} "
    scripts = {name: f'{shim}{name} "$@"\n' for name in PROGRAMS}
    tool = f"#!/usr/bin/env bash\nexec {python} -I -S {shlex.quote(str(HERE / 'tools.py'))} "
    scripts |= {name: f'{tool}{name} "$@"\n' for name in ("date", "sleep", "nvidia-smi")}
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
