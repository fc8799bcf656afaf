"""`lab.toml`: which lab, which cluster, whose account. Data a student may read, edit and put in git.

No password, passphrase or code has a field here, and none is ever added: `identity` names a key file, it does
not hold one. Comments and unknown keys that a student wrote survive every save.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from labtui.errors import DataError, FolderError, UsageError

_LAB_KEYS = ("edition", "group", "practice")
_CLUSTER_KEYS = (
    "profile",
    "host",
    "port",
    "user",
    "identity",
    "host_key",
    "account",
    "qos",
    "root",
    "data_dir",
    "container",
    "reservation",
    "max_per_gpu_batch",
)


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What `lab.toml` says. Empty texts and None mean: as the cluster profile or the SSH configuration has it.

    `edition` and `profile` are an id or the path of a TOML file. `host_key` is a fingerprint (``SHA256:...``),
    `identity` the path of a private key file, `root` the remote directory labtui works under.
    `max_per_gpu_batch` is for GPUs with less memory than the lab's own: plans give no GPU more images a step.
    """

    edition: str
    profile: str
    group: str = ""
    practice: bool = False
    host: str = ""
    port: int | None = None
    user: str = ""
    identity: str = ""
    host_key: str = ""
    account: str = ""
    qos: str = ""
    root: str = ""
    data_dir: str = ""
    container: str = ""
    reservation: str = ""
    max_per_gpu_batch: int | None = None

    def __post_init__(self) -> None:
        if self.max_per_gpu_batch is not None and self.max_per_gpu_batch < 1:
            raise ValueError("max_per_gpu_batch must be at least 1")
        if self.port is not None and not 0 < self.port < 65536:
            raise ValueError(f"port {self.port} is not between 1 and 65535")


def read_settings(path: Path) -> Settings:
    """The settings in this `lab.toml`.

    Raises:
        FolderError: when the file cannot be read.
        DataError: when it is not TOML or a value does not fit; says which line where known.
    """
    import tomllib

    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FolderError(
            f"{path.name} cannot be read: {error.strerror}.", "Is this a lab folder? `labtui init` makes one."
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DataError(
            f"{path.name} is not valid TOML: {error}.", "Correct that line.", path=str(path)
        ) from error
    return _settings_of(document, path)


def _settings_of(document: dict[str, Any], path: Path) -> Settings:
    flat: dict[str, Any] = {}
    for table, keys in (("lab", _LAB_KEYS), ("cluster", _CLUSTER_KEYS)):
        section = document.get(table, {})
        if not isinstance(section, dict):
            raise DataError(f"[{table}] in {path.name} is not a table.", path=str(path))
        flat.update({key: section[key] for key in keys if key in section})
    try:
        return msgspec.convert(flat, Settings)
    except msgspec.ValidationError as error:
        hint = "`edition` belongs under [lab], `profile` under [cluster]; see `labtui init --help`."
        raise DataError(f"{path.name} does not fit: {error}.", hint, path=str(path)) from error


def write_settings(path: Path, settings: Settings) -> None:
    """Save the settings into `path`, keeping what else a student wrote there. Atomic, readable by the owner only.

    Raises:
        FolderError: when the folder cannot be written; the old file is then still there, whole.
    """
    import tomlkit

    document = _document(path)
    for table, keys in (("lab", _LAB_KEYS), ("cluster", _CLUSTER_KEYS)):
        if table not in document:
            document[table] = tomlkit.table()
        section: Any = document[table]
        for key in keys:
            value = getattr(settings, key)
            if value in ("", None) or (key == "practice" and not value):
                section.pop(key, None)
            else:
                section[key] = value
    write_private(path, tomlkit.dumps(document).encode())


def _document(path: Path) -> Any:
    import tomlkit

    if path.exists():
        return tomlkit.parse(path.read_text(encoding="utf-8"))
    document = tomlkit.document()
    document.add(
        tomlkit.comment("A labtui lab folder. Yours to read and edit; no password is ever stored here.")
    )
    return document


def write_private(path: Path, data: bytes) -> None:
    """Write a whole file under a temporary name, then rename it: readers see the old or the new one, never a part.

    Raises:
        FolderError: when it cannot be written; the old file stays.
    """
    try:
        make_private(path.parent)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise _cannot_write(path, error) from error
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except OSError as error:
        raise _cannot_write(path, error) from error
    finally:
        with contextlib.suppress(OSError):
            Path(temporary).unlink(missing_ok=True)


def make_private(folder: Path) -> None:
    """Make a folder and those above it that are missing, for the owner only. Raises OSError."""
    if not folder.is_dir():
        make_private(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def _cannot_write(path: Path, error: OSError) -> FolderError:
    return FolderError(
        f"{path} cannot be written: {error.strerror}.", "Is the disk full, or the folder not yours?"
    )


def changed(settings: Settings, **changes: Any) -> Settings:
    """The settings with some values replaced, checked.

    Raises:
        UsageError: when a value does not fit.
    """
    try:
        return msgspec.convert({**msgspec.structs.asdict(settings), **changes}, Settings)
    except (msgspec.ValidationError, ValueError) as error:
        raise UsageError(f"That does not fit: {error}.") from error
