"""The lab folder: a student's folder that can be seen, copied and put in git.

    lab.toml    settings                    scripts/    their copies of the training scripts, theirs to edit
    labtui.db   what happened               slurm/      job scripts as rendered and their templates, theirs to edit
    logs/       mirrors of remote logs      answers/    one Markdown file per task        plots/   made by export

Files of the student are never overwritten. No name from outside leads out of the folder.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from labtui.engine.settings import Settings, read_settings, write_private, write_settings
from labtui.errors import FolderError, UsageError

SETTINGS_FILE = "lab.toml"
DATABASE_FILE = "labtui.db"
LOCK_FILE = ".labtui.lock"
PROBLEM_LOG = ".labtui-problems.log"
MAX_SCRIPT_BYTES = 2 * 1024 * 1024
"""A script larger than this is data, and data does not travel with every submission."""

_GITIGNORE = b"labtui.db*\n.labtui*\n__pycache__/\n"
_SAFE_NAME = re.compile(r"[^A-Za-z0-9._+-]+")


@dataclass(frozen=True, slots=True)
class LabFolder:
    """A lab folder that exists. `path` is absolute."""

    path: Path

    @classmethod
    def open(cls, path: str | Path) -> LabFolder:
        """The lab folder at `path`.

        Raises:
            FolderError: when there is none.
        """
        folder = cls(Path(path).expanduser().resolve())
        if not folder.settings_path.is_file():
            hint = "`labtui init DIR --lab ID --cluster PROFILE` makes one; `labtui labs` lists the labs."
            raise FolderError(f"{folder.path} is not a lab folder: it has no {SETTINGS_FILE}.", hint)
        return folder

    @classmethod
    def create(cls, path: str | Path, settings: Settings, *, withheld: Collection[str] = ()) -> LabFolder:
        """Make a lab folder (or complete one): settings, sub-folders, scripts and templates. Keeps every file there.

        `withheld` names scripts that the student is to make: the folder starts without them.

        Raises:
            FolderError: when it is already a lab folder or cannot be written.
        """
        folder = cls(Path(path).expanduser().resolve())
        if folder.settings_path.exists():
            raise FolderError(
                f"{folder.path} is a lab folder already.",
                f"Edit its {SETTINGS_FILE}, or choose another folder.",
            )
        try:
            folder.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.make_rooms()
        except OSError as error:
            raise FolderError(
                f"{folder.path} cannot be made: {error.strerror}.", "Choose another place."
            ) from error
        folder.write_new(".gitignore", _GITIGNORE)
        folder.fill_from_assets(withheld)
        write_settings(folder.settings_path, settings)  # last: only a complete folder counts as one
        return folder

    # ------------------------------------------------------------------ places

    @property
    def settings_path(self) -> Path:
        """`lab.toml`."""
        return self.path / SETTINGS_FILE

    @property
    def database_path(self) -> Path:
        """`labtui.db`."""
        return self.path / DATABASE_FILE

    @property
    def lock_path(self) -> Path:
        """The file whose lock makes one process the writer."""
        return self.path / LOCK_FILE

    @property
    def problem_log(self) -> Path:
        """Where unexpected exceptions are written, for a report."""
        return self.path / PROBLEM_LOG

    @property
    def scripts(self) -> Path:
        """The student's training scripts."""
        return self.path / "scripts"

    @property
    def slurm(self) -> Path:
        """Job scripts as rendered, and the templates they come from (`slurm/templates`)."""
        return self.path / "slurm"

    @property
    def logs(self) -> Path:
        """Mirrors of the remote logs."""
        return self.path / "logs"

    @property
    def answers(self) -> Path:
        """One Markdown file per task."""
        return self.path / "answers"

    @property
    def plots(self) -> Path:
        """Charts made by export."""
        return self.path / "plots"

    # ------------------------------------------------------------------ contents

    def settings(self) -> Settings:
        """What `lab.toml` says now."""
        return read_settings(self.settings_path)

    def save_settings(self, settings: Settings) -> None:
        """Write `lab.toml`; comments in it survive."""
        write_settings(self.settings_path, settings)

    def make_rooms(self) -> None:
        """Make the sub-folders that are missing."""
        for room in (self.scripts, self.slurm, self.logs, self.answers, self.plots):
            room.mkdir(mode=0o700, parents=True, exist_ok=True)

    def write_new(self, relative: str, data: bytes) -> bool:
        """Write a file unless there is one; says whether it was written."""
        path = self.inside(relative)
        if path.exists() or path.is_symlink():
            return False
        write_private(path, data)
        return True

    def fill_from_assets(self, withheld: Collection[str] = ()) -> tuple[str, ...]:
        """Copy training scripts and templates that are missing; returns the paths written, relative."""
        from labtui import assets

        written = []
        for name in assets.list_remote():
            if name not in withheld and self.write_new(f"scripts/{name}", assets.read_remote(name)):
                written.append(f"scripts/{name}")
        for form in assets.FORMS:
            name = f"slurm/templates/{form}.slurm"
            if self.write_new(name, assets.read_template(form).encode()):
                written.append(name)
        return tuple(written)

    def inside(self, relative: str) -> Path:
        """The path of something in this folder.

        Raises:
            FolderError: when the name would lead out of the folder.
        """
        path = (self.path / relative).resolve()
        if not path.is_relative_to(self.path):
            raise FolderError(f"{relative!r} leads out of the lab folder.")
        return path

    def script_files(self) -> dict[str, bytes]:
        """What travels with a submission: every file under `scripts/` by its relative POSIX path.

        Raises:
            FolderError: when a file is too large to be a script, or cannot be read.
        """
        files = {}
        for path in _visible_files(self.scripts):
            name = path.relative_to(self.scripts).as_posix()
            try:
                if path.stat().st_size > MAX_SCRIPT_BYTES:
                    raise FolderError(
                        f"scripts/{name} is {path.stat().st_size / 1e6:.0f} MB: too large for a script.",
                        "Data sets stay on the cluster; move the file out of scripts/.",
                    )
                files[name] = path.read_bytes()
            except OSError as error:
                raise FolderError(f"scripts/{name} cannot be read: {error.strerror}.") from error
        return files

    def template(self, form: str) -> str:
        """The template for a job form: the student's own in `slurm/templates`, or the one that came with labtui."""
        own = self.slurm / "templates" / f"{form}.slurm"
        if own.is_file():
            return own.read_text(encoding="utf-8")
        from labtui import assets

        return assets.read_template(form)


def _visible_files(root: Path) -> Iterator[Path]:
    """Files below `root`, sorted; no hidden ones, no byte code, no links that lead out."""
    base = root.resolve()
    for path in sorted(root.rglob("*")):
        parts = path.relative_to(root).parts
        if any(part.startswith(".") or part == "__pycache__" for part in parts) or path.suffix == ".pyc":
            continue
        if path.is_file() and path.resolve().is_relative_to(base):
            yield path


def file_name(text: str) -> str:
    """A text from outside as one harmless file name, the same on every system."""
    return _SAFE_NAME.sub("_", text).strip("._")[:120] or "unnamed"


def hashes(files: Mapping[str, bytes]) -> dict[str, str]:
    """SHA-256 hex digest of each file."""
    return {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}


def find_folder(start: str | Path = ".") -> Path:
    """The lab folder here or above.

    Raises:
        UsageError: when there is none on the way up.
    """
    here = Path(start).expanduser().resolve()
    for candidate in (here, *here.parents):
        if (candidate / SETTINGS_FILE).is_file():
            return candidate
    raise UsageError(
        f"There is no lab folder in {here} or above it.",
        "Go to yours, or make one: `labtui init DIR --lab ID --cluster PROFILE`.",
    )
