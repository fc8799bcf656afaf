"""The lab folder: an ordinary folder that a student can browse, copy and put in git. One process writes it at a time.

    lab.toml    settings                    scripts/    their copies of the training scripts, theirs to edit
    labtui.db   the stored state            slurm/      rendered job scripts and their templates, theirs to edit
    logs/       mirrors of remote logs      answers/    one Markdown file per task        plots/   made by export

The student's files are never overwritten, and no name from outside can point out of the folder. A new folder gets
the scripts and templates that come with labtui: from ``labtui/_data`` in an installed wheel, from ``remote/`` and
``slurm_templates/`` in a source tree.
"""

import os
import re
from collections.abc import Callable, Mapping
from functools import cache
from io import FileIO
from pathlib import Path
from typing import get_args

import msgspec

from labtui.cluster import local_files
from labtui.domain import decode
from labtui.domain.errors import failure, os_errors
from labtui.domain.model import TemplateForm
from labtui.session.settings import SETTINGS_FILE, Settings, check_trust, read_settings, trust, write_settings

SCRIPT_NAME = "job.slurm"
"""The job script's name in its remote directory."""
SHELL_SUFFIXES = (".slurm", ".sbatch", ".job", ".sh")
"""The suffixes of job files and other shell scripts."""


def sent_as(job_file: str) -> str:
    """The remote name of a student's own job file; never that of labtui's job script, which lies beside it."""
    return job_file if job_file != SCRIPT_NAME else f"own-{SCRIPT_NAME}"


FORMS: tuple[TemplateForm, ...] = get_args(TemplateForm)


@cache
def list_remote() -> tuple[str, ...]:
    """The relative POSIX paths of the training scripts and their modules: ``cifar-utils/cifar.py``."""
    root = _asset_folder("remote")
    inner = (path.relative_to(root) for path in root.rglob("*") if path.is_file())
    return tuple(sorted(each.as_posix() for each in inner if _is_script(each)))


def _is_script(inner: Path) -> bool:
    """Whether a file in a scripts folder is part of the scripts, not a hidden, cache or compiled file."""
    return inner.suffix != ".pyc" and not any(part[0] == "." or part == "__pycache__" for part in inner.parts)


def read_remote(name: str) -> bytes:
    """The bytes of a file that `list_remote` names."""
    return (_asset_folder("remote") / name).read_bytes()


def read_template(form: str, suffix: str = ".slurm") -> str:
    """The job script template of a form (`TemplateForm`): a line ``@include NAME`` is the file ``parts/NAME``."""
    text = (_asset_folder("slurm_templates") / f"{form}{suffix}").read_text(encoding="utf-8")
    return re.sub(r"(?m)^@include (\S+)\n", lambda found: read_template(f"parts/{found[1]}", ""), text)


def _asset_folder(name: str) -> Path:
    """The path of a folder that comes with labtui, in an installed wheel or in a source tree."""
    package = Path(__file__).resolve().parents[1]
    packed = package / "_data" / name
    return packed if packed.is_dir() else package.parents[1] / name


_DIGESTS_FILE = ".labtui-scripts.json"
MAX_SCRIPT_BYTES = 2 * 1024 * 1024
"""A larger file is data, and data is not pushed with every submission."""

_GITIGNORE = b"labtui.db*\n.labtui*\n__pycache__/\n"


class _PathInside:
    """A property of `LabFolder`: the path of a file or folder in it, by name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, folder: "LabFolder", owner: type["LabFolder"]) -> Path:
        return folder.path / self._name


class LabFolder(msgspec.Struct, frozen=True):
    """A lab folder that exists. `path` is absolute."""

    path: Path

    @classmethod
    def open(cls, path: str | Path) -> "LabFolder":
        """The lab folder at `path`.

        Raises:
            FolderError: when there is none.
        """
        folder = cls(local_files.expand_home(path).resolve())
        if not folder.settings_path.is_file():
            raise failure("not-a-folder", path=folder.path, file=SETTINGS_FILE)
        return folder

    @classmethod
    def create(
        cls, path: str | Path, settings: Settings, *, wanted: Callable[[str], bool] = bool,
        extra: Mapping[str, str] | None = None,
    ) -> "LabFolder":  # fmt: skip
        """Make a lab folder (or complete one): settings, sub-folders, scripts and templates. Existing files stay.

        `wanted` says which of labtui's scripts the folder gets, by name. `extra` maps the names of further files to
        their texts.

        Raises:
            FolderError: when it is already a lab folder or cannot be written.
        """
        folder = cls(refuse_lab_folder(path))
        with os_errors("cannot-make", path=folder.path):
            local_files.mkdir_private(folder.path)
            for place in (folder.scripts, folder.slurm, folder.logs, folder.answers, folder.plots):
                local_files.make_folder_inside(folder.path, place)
        folder.write_new(".gitignore", _GITIGNORE)
        for name, text in (extra or {}).items():
            folder.write_new(name, text.encode())
        folder.fill_from_assets(wanted)
        write_settings(folder.settings_path, settings)  # last: only a complete folder counts as one
        trust(folder.path)
        return folder

    # ------------------------------------------------------------------ places

    settings_path = _PathInside(SETTINGS_FILE)
    database_path = _PathInside("labtui.db")
    lock_path = _PathInside(".labtui.lock")
    problem_log = _PathInside(".labtui-problems.log")
    """Where unexpected exceptions are written, for bug reports."""
    scripts = _PathInside("scripts")
    slurm = _PathInside("slurm")
    logs = _PathInside("logs")
    answers = _PathInside("answers")
    plots = _PathInside("plots")

    # ------------------------------------------------------------------ contents

    def settings(self) -> Settings:
        """What `lab.toml` says now."""
        return read_settings(self.settings_path)

    def save_settings(self, settings: Settings) -> None:
        """Write `lab.toml`. Its comments stay, and a trusted folder stays trusted: the change is the user's own."""
        trusted = check_trust(self.path) is None
        write_settings(self.settings_path, settings)
        if trusted:
            trust(self.path)

    def reader(self, path: Path | str) -> FileIO:
        """Open a file of this folder for reading; links are not followed. Raises OSError."""
        return local_files.reader_inside(self.path, path)

    def read(self, path: Path | str) -> bytes:
        """The bytes of a file of this folder; links are not followed. Raises OSError."""
        return local_files.read_inside(self.path, path)

    def write(self, path: Path | str, data: bytes) -> None:
        """Replace a file of this folder atomically; links are not followed.

        Raises:
            FolderError: when it cannot be written; the old file stays.
        """
        local_files.write_private(self.path, self.inside(path), data)

    def status(self, path: Path | str) -> os.stat_result | None:
        """The status of a file of this folder; None if it is missing or a link."""
        return local_files.stat_inside(self.path, path)

    def has(self, path: Path | str) -> bool:
        """Whether this folder has that file and it is not a link."""
        return self.status(path) is not None

    def write_new(self, relative: str, data: bytes) -> bool:
        """Write a file unless it exists; return whether it was written."""
        path = self.inside(relative)
        if path.exists() or path.is_symlink():
            return False
        self.write(path, data)
        return True

    def fill_from_assets(self, wanted: Callable[[str], bool]) -> None:
        """Copy the `wanted` training scripts, and the templates, that are missing."""
        written = self._shipped_digests()
        for name in filter(wanted, list_remote()):
            data = read_remote(name)
            if self.write_new(f"scripts/{name}", data):
                written[name] = _text_digest(data)
        self.write(_DIGESTS_FILE, msgspec.json.encode(written))
        for form in FORMS:
            self.write_new(f"slurm/templates/{form}.slurm", read_template(form).encode())

    def _shipped_digests(self) -> dict[str, str]:
        """The digests of the scripts that labtui wrote here, by name: a later version may ship other contents."""
        try:
            return decode.from_json(self.read(_DIGESTS_FILE), dict[str, str])
        except (OSError, msgspec.MsgspecError):
            return {}

    def unchanged_scripts(self, files: Mapping[str, bytes]) -> frozenset[str]:
        """The names of the scripts that are unchanged since labtui wrote them, apart from line endings."""
        here, now = self._shipped_digests(), set(list_remote())
        digests = {name: _text_digest(data) for name, data in files.items()}
        as_written = {name for name, digest in digests.items() if digest == here.get(name)}
        others = now & digests.keys() - as_written
        as_shipped = {name for name in others if digests[name] == _text_digest(read_remote(name))}
        return frozenset(as_written | as_shipped)

    def inside(self, relative: Path | str) -> Path:
        """The absolute path of a relative one in this folder.

        Raises:
            FolderError: when the name points out of the folder.
        """
        path = self.path / relative
        if not path.is_relative_to(self.path) or ".." in path.parts:
            raise failure("outside", path=str(relative))
        return path

    def script_files(self) -> dict[str, bytes]:
        """The files pushed with every submission: those under `scripts/`, by their relative POSIX paths.

        Raises:
            FolderError: when a file is too large to be a script, or cannot be read.
        """
        files = {}
        for path in local_files.files_inside(self.path, self.scripts):
            inner = path.relative_to(self.scripts)
            if not _is_script(inner):
                continue
            name = inner.as_posix()
            with os_errors("closed-script", name=name):
                if (size := path.stat().st_size) > MAX_SCRIPT_BYTES:
                    raise failure("large-script", name=name, mb=size / 1e6)
                files[name] = self.read(path)
        return files

    def template(self, form: str) -> str:
        """The template of a job form: the student's copy in `slurm/templates`, else the one that comes with labtui."""
        own = self.slurm / "templates" / f"{form}.slurm"
        return self.read(own).decode("utf-8-sig") if self.has(own) else read_template(form)


def _text_digest(data: bytes) -> str:
    return digest_of(data.replace(b"\r\n", b"\n"))


def digest_of(data: bytes) -> str:
    """SHA-256 in hex."""
    import hashlib  # late: slow to import, and the first paint needs no digest

    return hashlib.sha256(data).hexdigest()


def refuse_lab_folder(path: str | Path) -> Path:
    """The resolved path of a folder that is to become a lab folder.

    Raises:
        FolderError: when it is one already.
    """
    whole = local_files.expand_home(path).resolve()
    if (whole / SETTINGS_FILE).exists():
        raise failure("a-folder-already", path=whole, file=SETTINGS_FILE)
    return whole


def find_folder(start: str | Path = ".") -> Path:
    """The lab folder at `start` or above it; those above count only if they belong to this user.

    Raises:
        UsageError: when there is none.
    """
    here = local_files.expand_home(start).resolve()
    me = os.geteuid() if hasattr(os, "geteuid") else 0
    for candidate in (here, *(here.parents if here.is_dir() else ())):
        file = candidate / SETTINGS_FILE
        if file.is_file() and (candidate == here or {candidate.stat().st_uid, file.stat().st_uid} <= {me}):
            return candidate
    if (here / "lab" / SETTINGS_FILE).is_file():  # a kept practice cluster, or the folder the wizard proposes
        raise failure("folder-below", path=here, lab=here / "lab")
    raise failure("no-folder", path=here)
