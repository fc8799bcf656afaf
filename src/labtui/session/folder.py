"""The lab folder: a student's folder that can be seen, copied and put in git; one process writes it at a time.

    lab.toml    settings                    scripts/    their copies of the training scripts, theirs to edit
    labtui.db   what happened               slurm/      job scripts as rendered and their templates, theirs to edit
    logs/       mirrors of remote logs      answers/    one Markdown file per task        plots/   made by export

Files of the student are never overwritten. No name from outside leads out of the folder. A new folder is filled with
the scripts and templates that came with labtui: ``labtui/_data`` in an installed wheel, ``remote/`` and
``slurm_templates/`` in a source tree.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from functools import cache
from io import FileIO
from pathlib import Path
from typing import get_args

import msgspec

from labtui.cluster import local_files
from labtui.cluster.local_files import named_path
from labtui.domain import decode
from labtui.domain.errors import FolderError, UsageError
from labtui.domain.model import TemplateForm
from labtui.session.settings import (
    SETTINGS_FILE,
    Settings,
    check_trust,
    owner_of,
    read_settings,
    trust,
    write_settings,
)

SCRIPT_NAME = "job.slurm"
"""The job script's name in its remote directory."""
SHELL_SUFFIXES = (".slurm", ".sbatch", ".job", ".sh")
"""How the names of job files and other shell scripts end."""


def sent_as(job_file: str) -> str:
    """The name of a student's own job file in the directory of its submission, beside labtui's job script."""
    return job_file if job_file != SCRIPT_NAME else f"own-{SCRIPT_NAME}"


FORMS: tuple[TemplateForm, ...] = get_args(TemplateForm)


@cache
def list_remote() -> tuple[str, ...]:
    """Names of the training scripts and their modules, relative, with ``/``: ``cifar-utils/cifar.py``."""
    root = _brought("remote")
    inner = (path.relative_to(root) for path in root.rglob("*") if path.is_file())
    return tuple(sorted(each.as_posix() for each in inner if _is_script(each)))


def _is_script(inner: Path) -> bool:
    """Whether a file below a folder of scripts is one of them, and not what a program left there."""
    return inner.suffix != ".pyc" and not any(part[0] == "." or part == "__pycache__" for part in inner.parts)


def read_remote(name: str) -> bytes:
    """The bytes of a file that `list_remote` names."""
    return (_brought("remote") / name).read_bytes()


def read_template(form: str) -> str:
    """The job script template of a form (`labtui.domain.model.TemplateForm`)."""
    return _composed(f"{form}.slurm")


def _composed(name: str) -> str:
    """A file of ``slurm_templates``, where a line ``@include NAME`` stands for the file of that name in ``parts``."""
    text = (_brought("slurm_templates") / name).read_text(encoding="utf-8")
    return re.sub(
        r"^@include (\S+)\n", lambda found: _composed(f"parts/{found[1]}"), text, flags=re.MULTILINE
    )


def _brought(name: str) -> Path:
    """A folder that came with labtui: in an installed wheel, or in a source tree."""
    package = Path(__file__).resolve().parents[1]
    packed = package / "_data" / name
    return packed if packed.is_dir() else package.parents[1] / name


_BROUGHT_FILE = ".labtui-scripts.json"
MAX_SCRIPT_BYTES = 2 * 1024 * 1024
"""A script larger than this is data, and data does not travel with every submission."""

_GITIGNORE = b"labtui.db*\n.labtui*\n__pycache__/\n"


class _Place:
    """A file or folder of a lab folder, by its name there."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, folder: LabFolder, owner: type[LabFolder]) -> Path:
        return folder.path / self._name


class LabFolder(msgspec.Struct, frozen=True):
    """A lab folder that exists. `path` is absolute."""

    path: Path

    @classmethod
    def open(cls, path: str | Path) -> LabFolder:
        """The lab folder at `path`.

        Raises:
            FolderError: when there is none.
        """
        folder = cls(named_path(path).resolve())
        if not folder.settings_path.is_file():
            hint = "`labtui init DIR --lab ID --cluster PROFILE` makes one; `labtui labs` lists the labs."
            raise FolderError(f"{folder.path} is not a lab folder: it has no {SETTINGS_FILE}.", hint)
        return folder

    @classmethod
    def create(
        cls,
        path: str | Path,
        settings: Settings,
        *,
        withheld: Collection[str] = (),
        extra: Mapping[str, str] | None = None,
    ) -> LabFolder:
        """Make a lab folder (or complete one): settings, sub-folders, scripts and templates. Keeps every file there.

        `withheld` names scripts that the student is to make: the folder starts without them. `extra` are further files
        by name.

        Raises:
            FolderError: when it is already a lab folder or cannot be written.
        """
        folder = cls(refuse_lab_folder(path))
        try:
            local_files.make_private(folder.path)
            for room in (folder.scripts, folder.slurm, folder.logs, folder.answers, folder.plots):
                local_files.make_folder_inside(folder.path, room)
        except OSError as error:
            raise FolderError(
                f"{folder.path} cannot be made: {error.strerror}.", "Choose another place."
            ) from error
        folder.write_new(".gitignore", _GITIGNORE)
        for name, text in (extra or {}).items():
            folder.write_new(name, text.encode())
        folder.fill_from_assets(withheld)
        write_settings(folder.settings_path, settings)  # last: only a complete folder counts as one
        trust(folder.path)
        return folder

    # ------------------------------------------------------------------ places

    settings_path = _Place(SETTINGS_FILE)
    database_path = _Place("labtui.db")
    lock_path = _Place(".labtui.lock")
    problem_log = _Place(".labtui-problems.log")
    """Where unexpected exceptions are written, for a report."""
    scripts = _Place("scripts")
    slurm = _Place("slurm")
    logs = _Place("logs")
    answers = _Place("answers")
    plots = _Place("plots")

    # ------------------------------------------------------------------ contents

    def settings(self) -> Settings:
        """What `lab.toml` says now."""
        return read_settings(self.settings_path)

    def save_settings(self, settings: Settings) -> None:
        """Write `lab.toml`; comments in it survive, and so does trust: it is the user who changes it here."""
        trusted = check_trust(self.path) is None
        write_settings(self.settings_path, settings)
        if trusted:
            trust(self.path)

    def reader(self, path: Path | str) -> FileIO:
        """A file of this folder, opened for reading through no link. Raises OSError."""
        return local_files.reader_inside(self.path, path)

    def read(self, path: Path | str) -> bytes:
        """The bytes of a file of this folder, read through no link. Raises OSError."""
        return local_files.read_inside(self.path, path)

    def write(self, path: Path | str, data: bytes) -> None:
        """Replace a file of this folder as a whole, through no link.

        Raises:
            FolderError: when it cannot be written; the old file stays.
        """
        local_files.write_private(self.path, self.inside(path), data)

    def status(self, path: Path | str) -> os.stat_result | None:
        """The status of a file of this folder; None without one, and where a link stands in its place."""
        return local_files.stat_inside(self.path, path)

    def has(self, path: Path | str) -> bool:
        """Whether this folder has that file, and no link in its place."""
        return self.status(path) is not None

    def write_new(self, relative: str, data: bytes) -> bool:
        """Write a file unless there is one; says whether it was written."""
        path = self.inside(relative)
        if path.exists() or path.is_symlink():
            return False
        self.write(path, data)
        return True

    def fill_from_assets(self, withheld: Collection[str] = ()) -> None:
        """Copy training scripts and templates that are missing.

        `withheld`: scripts, and folders by their name with ``/``, that are not copied.
        """
        folders, written = tuple(each for each in withheld if each.endswith("/")), self._brought()
        for name in list_remote():
            if name in withheld or name.startswith(folders):
                continue
            data = read_remote(name)
            if self.write_new(f"scripts/{name}", data):
                written[name] = _text_digest(data)
        self.write(_BROUGHT_FILE, msgspec.json.encode(written))
        for form in FORMS:
            self.write_new(f"slurm/templates/{form}.slurm", read_template(form).encode())

    def _brought(self) -> dict[str, str]:
        """The digest of each script that labtui wrote here, by name: a later labtui may bring another one."""
        try:
            return decode.from_json(self.read(_BROUGHT_FILE), dict[str, str])
        except (OSError, msgspec.MsgspecError):
            return {}

    def as_brought(self, files: Mapping[str, bytes]) -> frozenset[str]:
        """The names of the scripts that are as labtui brought them, whatever their line endings."""
        here, now = self._brought(), set(list_remote())
        return frozenset(
            name
            for name, data in files.items()
            if (digest := _text_digest(data)) == here.get(name)
            or (name in now and digest == _text_digest(read_remote(name)))
        )

    def inside(self, relative: Path | str) -> Path:
        """The path of something in this folder.

        Raises:
            FolderError: when the name would lead out of the folder.
        """
        path = self.path / relative
        if not path.is_relative_to(self.path) or ".." in path.parts:
            raise FolderError(f"{str(relative)!r} is outside the lab folder.")
        return path

    def script_files(self) -> dict[str, bytes]:
        """What travels with a submission: every file under `scripts/` by its relative POSIX path.

        Raises:
            FolderError: when a file is too large to be a script, or cannot be read.
        """
        files = {}
        for path in local_files.files_inside(self.path, self.scripts):
            inner = path.relative_to(self.scripts)
            if not _is_script(inner):
                continue
            name = inner.as_posix()
            try:
                if path.stat().st_size > MAX_SCRIPT_BYTES:
                    raise FolderError(
                        f"scripts/{name} is {path.stat().st_size / 1e6:.0f} MB: too large for a script.",
                        "Data sets stay on the cluster; move the file out of scripts/.",
                    )
                files[name] = self.read(path)
            except OSError as error:
                raise FolderError(f"scripts/{name} cannot be read: {error.strerror}.") from error
        return files

    def template(self, form: str) -> str:
        """The template for a job form: the student's own in `slurm/templates`, or the one that came with labtui."""
        own = self.slurm / "templates" / f"{form}.slurm"
        return self.read(own).decode() if self.has(own) else read_template(form)


def _text_digest(data: bytes) -> str:
    return digest_of(data.replace(b"\r\n", b"\n"))


def digest_of(data: bytes) -> str:
    """SHA-256 in hex."""
    import hashlib  # costs time, and the first paint needs no digest

    return hashlib.sha256(data).hexdigest()


def refuse_lab_folder(path: str | Path) -> Path:
    """The whole path of a folder to be made a lab folder.

    Raises:
        FolderError: it is one already.
    """
    whole = named_path(path).resolve()
    if (whole / SETTINGS_FILE).exists():
        hint = f"Edit its {SETTINGS_FILE}, or choose another folder."
        raise FolderError(f"{whole} is a lab folder already.", hint)
    return whole


def find_folder(start: str | Path = ".") -> Path:
    """The lab folder here or above; above, only one of the same owner counts.

    Raises:
        UsageError: when there is none on the way up.
    """
    here = named_path(start).resolve()
    me = os.geteuid() if hasattr(os, "geteuid") else 0
    for candidate in (here, *here.parents):
        file = candidate / SETTINGS_FILE
        if file.is_file() and (candidate == here or {owner_of(candidate), owner_of(file)} <= {me}):
            return candidate
    if (here / "lab" / SETTINGS_FILE).is_file():  # a kept practice session, or the folder the wizard proposes
        raise UsageError(f"{here} is not a lab folder, but {here / 'lab'} is.", "Name that one, or go there.")
    raise UsageError(
        f"There is no lab folder in {here} or above it.",
        "Go to yours, or make one: `labtui init DIR --lab ID --cluster PROFILE`.",
    )
