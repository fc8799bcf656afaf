"""What labtui sends to a cluster, as it came with it: the training scripts and the job script templates.

In an installed wheel they lie in ``labtui/_data``; in a source tree in ``remote/`` and ``slurm_templates/``
at the top. What may not enter: the student's copies, which live in the lab folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath
from typing import get_args

from labtui.core.model import JobForm
from labtui.errors import UsageError

FORMS: tuple[JobForm, ...] = get_args(JobForm)


def list_remote() -> tuple[str, ...]:
    """Names of the training scripts and their modules, relative, with ``/``: ``cifar-utils/cifar.py``."""
    return tuple(sorted(_walk(_folder("remote"), "")))


def read_remote(name: str) -> bytes:
    """The bytes of a file that `list_remote` names.

    Raises:
        UsageError: when there is no such file.
    """
    if name not in list_remote():
        raise UsageError(f"labtui brings no training script {name!r}.", f"It has {', '.join(list_remote())}.")
    return _folder("remote").joinpath(*PurePosixPath(name).parts).read_bytes()


def read_template(form: str) -> str:
    """The job script template of a form (`labtui.core.model.JobForm`).

    Raises:
        UsageError: when there is no such form.
    """
    if form not in FORMS:
        raise UsageError(f"There is no job form {form!r}.", f"The forms are {', '.join(FORMS)}.")
    return _folder("slurm_templates").joinpath(f"{form}.slurm").read_text(encoding="utf-8")


def _folder(name: str) -> Traversable:
    packed = files("labtui").joinpath("_data", name)
    if packed.is_dir():
        return packed
    return Path(__file__).resolve().parents[2] / name


def _walk(folder: Traversable, prefix: str) -> Iterator[str]:
    for entry in folder.iterdir():
        if entry.name.startswith(".") or entry.name == "__pycache__" or entry.name.endswith(".pyc"):
            continue
        if entry.is_dir():
            yield from _walk(entry, f"{prefix}{entry.name}/")
        else:
            yield prefix + entry.name
