"""Which lab folders this user made or trusts: a lab folder is data, and may come from anybody.

What is trusted is kept in the user's state directory, a small file for each folder, never in the folder itself: its
path, its random id, its owner, and the commands that its own cluster profile brings. A folder counts as trusted while
all four are as they were. Any other is open for reading only: no connection, nothing sent, nothing written.
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
    """The folder is neither of this user's making nor trusted; `doing` says what it would do."""

    def __init__(self, path: Path, doing: tuple[str, ...]) -> None:
        super().__init__(
            f"The lab folder {path} is not trusted: it can only be read.",
            f"{doing[0]} If you know whose it is and want that, add `--trust`.",
        )
        self.doing = doing


class _Record(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    id: str
    owner: int
    commands: tuple[str, ...] = ()


def records_folder() -> Path:
    """Where the records lie: a folder of this user's own."""
    return Path(platformdirs.user_state_dir("labtui", appauthor=False)) / "trusted"


def check_trust(folder: Path) -> NotTrusted | None:
    """Why a lab folder (its resolved path) may only be looked at; None where this user made or trusted it."""
    try:
        known = msgspec.json.decode(_record_path(folder).read_bytes(), type=_Record)
    except (OSError, msgspec.MsgspecError):
        known = None
    now = _record(folder)
    if known is not None and known.id and known == now:
        return None
    return NotTrusted(folder, what_it_would_do(folder))


def trust(folder: Path) -> None:
    """Trust a lab folder from now on, with the commands its profile brings now.

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


def what_it_would_do(folder: Path) -> tuple[str, ...]:
    """Sentences for whoever is asked: where the folder would connect, as whom, what it would send and run."""
    try:
        settings = read_settings(folder / SETTINGS_FILE)
        profile = load_profile(settings.profile, folder)
    except LabError as error:
        return (error.sentence,)
    host = settings.host or ", ".join(profile.login_hosts) or "no host"
    port = f", port {settings.port or profile.port}" if settings.port or profile.port else ""
    user = settings.user or profile.user
    lines = [
        f"It would connect to {host}{port} as {user or 'the user of your SSH configuration'}"
        + (f" with the key {settings.identity}." if settings.identity else "."),
        "The way there is what your own SSH configuration says for that host (ProxyJump, ProxyCommand); "
        "a lab folder cannot name one.",
        "It would send its job scripts and everything in scripts/, and submit what waits in its submission queue.",
    ]
    lines += [f"Its cluster profile brings a command: {command}" for command in _commands(settings, profile)]
    return tuple(lines)


def _record(folder: Path) -> _Record:
    return _Record(
        path=os.fsencode(folder).decode("utf-8", "backslashreplace"),
        id=_id_of(folder),
        owner=owner_of(folder),
        commands=_commands_of(folder),
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


def owner_of(path: Path) -> int:
    """The user id that owns a path; 0 on systems without."""
    try:
        return path.stat().st_uid
    except OSError:
        return -1


def _commands_of(folder: Path) -> tuple[str, ...]:
    try:
        settings = read_settings(folder / SETTINGS_FILE)
        return _commands(settings, load_profile(settings.profile, folder))
    except LabError:
        return ()


def _commands(settings: Settings, profile: Profile) -> tuple[str, ...]:
    """What a profile of the folder's own has run on the cluster, before any job; labtui's own profiles are known."""
    if settings.profile in list_profiles():
        return ()
    found = (profile.quota_command, profile.budget_command, *profile.launch.setup)
    return tuple(dict.fromkeys(command for command in found if command))
