"""Which lab folders this user made or trusts: a lab folder is data, and may come from anybody.

What is trusted is kept in the user's state directory, a small file for each folder, never in the folder itself: its
path, its random id, its owner, where it connects and as whom, and the commands that its own cluster profile brings. A
folder counts as trusted while all of them are as they were. Any other is open for reading only: no connection, nothing
sent, nothing written.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from pathlib import Path

import msgspec
import platformdirs

from labtui.cluster.local_files import make_private, read_inside, write_private
from labtui.domain.errors import FolderError, LabError
from labtui.domain.profile import Profile
from labtui.session.settings import SETTINGS_FILE, Settings, list_profiles, load_profile, read_settings

ID_FILE = ".labtui-id"
_ID = re.compile(r"[0-9a-f]{32}")


class NotTrusted(FolderError):
    """The folder is neither of this user's making nor trusted, or has changed since."""

    def __init__(self, path: Path, *, changed: bool = False) -> None:
        why = "has changed since you trusted it (host, user or commands)" if changed else "is not trusted"
        super().__init__(
            f"The lab folder {path} {why}: it can only be read.",
            f"{connection_line(path)} If you know whose it is and want that, add `--trust`.",
        )
        self.path = path


class _Record(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    id: str
    owner: int
    connects: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()


def records_folder() -> Path:
    """Where the records lie: a folder of this user's own."""
    return Path(platformdirs.user_state_dir("labtui", appauthor=False)) / "trusted"


def check_trust(folder: Path) -> NotTrusted | None:
    """Why a lab folder (its resolved path) may only be looked at; None where this user made or trusted it."""
    try:
        known = msgspec.json.decode(_record_path(folder).read_bytes(), type=_Record)
    except (OSError, msgspec.MsgspecError):
        return NotTrusted(folder)
    now = _record(folder)
    if known == now and known.id:
        return None
    return NotTrusted(folder, changed=(known.path, known.id, known.owner) == (now.path, now.id, now.owner))


def trust(folder: Path) -> None:
    """Trust a lab folder from now on, with the host, user and commands that it names now.

    Raises:
        FolderError: the folder, or this user's state directory, cannot be written.
    """
    if not _id_of(folder):
        write_private(folder, folder / ID_FILE, os.urandom(16).hex().encode())
    place = _record_path(folder)
    try:
        make_private(place.parent)
    except OSError as error:
        raise FolderError(
            f"{place.parent} cannot be made: {error.strerror}.", "labtui keeps there which folders you trust."
        ) from error
    write_private(place.parent, place, msgspec.json.encode(_record(folder)))


def forget(folder: Path) -> None:
    """Remove the record of a folder that is going away."""
    with contextlib.suppress(OSError):
        _record_path(folder).unlink(missing_ok=True)


def commands_of(folder: Path) -> tuple[str, ...]:
    """The commands that a lab folder's cluster profile brings."""
    return _record(folder).commands


def owner_of(path: Path) -> int:
    """The user id that owns a path; 0 on systems without."""
    try:
        return path.stat().st_uid
    except OSError:
        return -1


# --------------------------------------------------------------------------- the question


def connection_line(folder: Path) -> str:
    """Where a lab folder would connect, as whom and by which way."""
    try:
        settings, profile = _settings_of(folder)
    except LabError as error:
        return error.sentence
    host, port, user, _ = _connects(settings, profile)
    return (
        f"It would connect to {host or 'no host'}{f', port {port}' if port else ''}"
        f" as {user or 'the user of your SSH configuration'}"
        f"{f' with the key {settings.identity}' if settings.identity else ''}, by the way that your own SSH "
        "configuration has for that host (ProxyJump, ProxyCommand)."
    )


# --------------------------------------------------------------------------- the record


def _record(folder: Path) -> _Record:
    try:
        settings, profile = _settings_of(folder)
        connects, commands = _connects(settings, profile), _commands(settings, profile)
    except LabError:
        connects, commands = (), ()
    return _Record(
        path=os.fsencode(folder).decode("utf-8", "backslashreplace"),
        id=_id_of(folder),
        owner=owner_of(folder),
        connects=connects,
        commands=commands,
    )


def _record_path(folder: Path) -> Path:
    digest = hashlib.sha256(os.fsencode(folder)).hexdigest()
    return records_folder() / f"{digest[:32]}.json"


def _id_of(folder: Path) -> str:
    try:
        text = read_inside(folder, ID_FILE).decode("ascii", "replace").strip()
    except OSError:
        return ""
    return text if _ID.fullmatch(text) else ""


def _settings_of(folder: Path) -> tuple[Settings, Profile]:
    settings = read_settings(folder / SETTINGS_FILE)
    return settings, load_profile(settings.profile, folder)


def _connects(settings: Settings, profile: Profile) -> tuple[str, ...]:
    """Host, port, user, and the fingerprint that the host must show; empty as the SSH configuration has it."""
    host = settings.host or ", ".join(profile.login_hosts)
    return host, str(settings.port or profile.port or ""), settings.user or profile.user, settings.host_key


def _commands(settings: Settings, profile: Profile) -> tuple[str, ...]:
    """What a profile of the folder's own has run on the cluster; those of labtui's own profiles are known."""
    if settings.profile in list_profiles():
        return ()
    found = (profile.quota_command, *profile.launch.setup)
    return tuple(dict.fromkeys(command for command in found if command))
