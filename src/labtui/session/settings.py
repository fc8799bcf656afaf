"""The settings of a lab folder (`lab.toml`), the profile and connection they describe, and whether it is trusted.

A lab folder is data and may come from anybody. For each folder that this user made or trusts, a small file in the
user's state directory (never in the folder itself), named after the folder's path, records its random id, its owner,
where it connects and as whom, and the commands in its own cluster profile. A folder is trusted while none of these
changes. Any other is opened for reading only: no connection, nothing sent, nothing written.
"""

import contextlib
import functools
import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import platformdirs

from labtui.cluster import local_files
from labtui.cluster.target import Endpoint, Overrides, resolve_hosts
from labtui.domain import decode
from labtui.domain.errors import LabError, failure, os_errors, suggest
from labtui.domain.profile import PLACE, Profile, check_image, fill, split_address
from labtui.domain.terminal_text import file_name

SETTINGS_FILE = "lab.toml"
_PROFILES = Path(__file__).resolve().parents[1] / "profiles"
_LAB_KEYS = ("edition", "group", "log_patterns", "notifications", "max_log_gib")
"""The keys under [lab]; all others are under [cluster]."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of `lab.toml`. Empty texts and None: the cluster profile or the SSH configuration decides.

    `edition` and `profile` are an id or the path of a TOML file. `host_key` is a fingerprint (``SHA256:...``),
    `identity` the path of a private key file, `root` the remote directory labtui works under. `max_per_gpu_batch` is
    the most images a step that plans give a GPU, for GPUs with less memory than the lab's own. `notifications` of a
    job's start, end and failure go to desktop and terminal, to the terminal only, or nowhere. A log is copied up to
    `max_log_gib` GiB. `log_patterns` are regular expressions for log lines that labtui does not know.
    """

    edition: str
    profile: str
    group: str = ""
    host: str = ""
    port: Annotated[int, msgspec.Meta(ge=1, le=65_535)] | None = None
    user: str = ""
    identity: str = ""
    host_key: str = ""
    account: str = ""
    qos: str = ""
    partition: str = ""
    root: str = ""
    data_dir: str = ""
    container: str = ""
    reservation: str = ""
    max_per_gpu_batch: Annotated[int, msgspec.Meta(ge=1)] | None = None
    log_patterns: tuple[str, ...] = ()
    notifications: Literal["desktop", "terminal", "off"] = "desktop"
    max_log_gib: Annotated[float, msgspec.Meta(gt=0, lt=1e6)] = 2.0

    def __post_init__(self) -> None:
        for key in self.__struct_fields__:
            value = getattr(self, key)
            if isinstance(value, str) and not value.isprintable():
                raise ValueError(f"{key} contains a control character")
        check_image(self.container)
        for text in self.log_patterns:
            from labtui.training_logs.patterns import own_pattern

            own_pattern(text)  # raises DataError


def read_settings(path: Path) -> Settings:
    """The settings in this `lab.toml`.

    Raises:
        DataError: it cannot be read, is not TOML, or a setting is unknown or not valid; names the line if known.
    """
    document = decode.from_toml(read_text(Path(path.name), path.name, path.parent), path.name)
    flat: dict[str, Any] = {}
    others = tuple(key for key in Settings.__struct_fields__ if key not in _LAB_KEYS)
    for table, known in (("lab", _LAB_KEYS), ("cluster", others)):
        section = document.get(table, {})
        if not isinstance(section, dict):
            raise failure("no-table", table=table, file=path.name)
        section.pop("practice", None)  # earlier versions wrote it
        _refuse_unknown(section, known, f"{path.name}: [{table}]")
        flat |= section
    return _checked(flat, Settings, "bad-settings", file=path.name, path=path)


def _checked(values: Mapping[str, Any], kind: type[decode.T], reason: str, **words: Any) -> decode.T:
    """The values as a `kind`. Raises the error for `reason`, which names the first key with a wrong value."""
    try:
        return decode.convert(values, kind)
    except msgspec.ValidationError as error:
        from labtui.lab.edition_file import schema_problem

        text = schema_problem(str(error), kind)[1]
        raise failure(reason, text=text if text.endswith(("?", ".")) else f"{text}.", **words) from error


def _refuse_unknown(table: Mapping[str, Any], known: Sequence[str], place: str) -> None:
    """Raise DataError for a key of a table that is none of the `known` ones."""
    if (unknown := next((key for key in table if key not in known), None)) is not None:
        near, names = suggest(unknown, known, "`{}`"), ", ".join(known)
        raise failure("no-setting", place=place, name=unknown, near=near, known=names)


def read_text(path: Path, name: str, root: Path | None = None) -> str:
    """The text of a file, with no link followed below `root`; errors call it `name`.

    Raises:
        DataError: it cannot be read, or is not UTF-8.
    """
    with os_errors("closed-text", file=name):
        data = local_files.read_file(path, local_files.MAX_TEXT_BYTES, root)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise failure("not-utf-8", file=name) from None


def write_settings(path: Path, settings: Settings) -> None:
    """Save the settings into `path`, keeping what else the student wrote there. Atomic, readable by the owner only.

    Raises:
        FolderError: when the folder cannot be written; the old file then stays.
    """
    import tomlkit

    new = "# Settings of this labtui lab folder. You may edit them; no password is ever stored here.\n"
    document: Any = tomlkit.parse(path.read_text(encoding="utf-8-sig") if path.exists() else new)
    for field in msgspec.structs.fields(Settings):
        table = "lab" if field.name in _LAB_KEYS else "cluster"
        section: Any = document.setdefault(table, tomlkit.table())
        if (value := getattr(settings, field.name)) == field.default:
            section.pop(field.name, None)
        else:
            section[field.name] = list(value) if isinstance(value, tuple) else value
    local_files.write_private(path.parent, Path(path.name), tomlkit.dumps(document).encode())


def with_changes(settings: Settings, **changes: Any) -> Settings:
    """The settings with some values replaced and checked.

    Raises:
        UsageError: when a value is not valid.
    """
    return _checked({**msgspec.structs.asdict(settings), **changes}, Settings, "not-valid")


def list_profiles() -> tuple[str, ...]:
    """The ids of the profiles that come with labtui, sorted."""
    return tuple(sorted(path.stem for path in _PROFILES.glob("*.toml")))


def load_profile(name: str, base: Path | None = None) -> Profile:
    """The profile with this id, or in this TOML file (relative paths start at `base`).

    Raises:
        DataError: when there is none or it is not valid.
    """
    if name.endswith(".toml"):
        path = (base or Path()) / local_files.expand_home(name)
        return parse_profile(read_text(path, f"The cluster profile {path}"), str(path))
    if name not in list_profiles():
        near = suggest(name, list_profiles())
        raise failure("no-profile", name=name, near=near, known=", ".join(list_profiles()) or "none")
    return parse_profile((_PROFILES / f"{name}.toml").read_text(encoding="utf-8"), name)


def profile_of_host(host: str) -> str:
    """The id of labtui's current profile that has this login host; "" when there is none."""
    name = host.rpartition("@")[2].partition(":")[0].lower()
    profiles = map(load_profile, list_profiles())
    return next((each.id for each in profiles if each.status == "current" and name in each.login_hosts), "")


@functools.lru_cache(maxsize=8)  # each start parses the same one three times
def parse_profile(text: str, name: str) -> Profile:
    """A profile from its TOML text; errors call it `name`.

    Raises:
        DataError: when it is not valid.
    """
    document = decode.from_toml(text, f"The cluster profile {name}")
    document.pop("memory_gb_per_node", None)  # earlier versions wrote it
    _refuse_unknown(document, Profile.__struct_fields__, f"The cluster profile {name}")
    return _checked(document, Profile, "bad-settings", file=Path(name).name, path=name)


def overrides_of(settings: Settings) -> Overrides:
    """The connection settings of a lab folder."""
    names = ("host", "port", "user", "identity", "host_key")
    return Overrides(**{name: getattr(settings, name) for name in names})


def hosts_of(settings: Settings, profile: Profile) -> tuple[Endpoint, ...]:
    """The login hosts of a lab folder, completed from the SSH configuration.

    Raises:
        LabError: they name no login host, or the SSH configuration cannot be read.
    """
    return resolve_hosts(profile, overrides_of(settings))


def login_of(settings: Settings, profile: Profile) -> tuple[str, str, int | None]:
    """(user, host, port) of a login as set; "" and None where the SSH configuration decides.

    Raises:
        UsageError: the text of `host` cannot be a host name.
    """
    given = settings.host or next(iter(profile.login_hosts), "")
    user, host, port = split_address(given) if given else ("", "", None)
    return user or settings.user or profile.user, host, port or settings.port or profile.port


def cluster_user(settings: Settings, profile: Profile) -> str:
    """The user name on the cluster: as set, or as the SSH configuration says; empty when that cannot be read."""
    try:
        return login_of(settings, profile)[0] or hosts_of(settings, profile)[0].user
    except LabError:
        return ""


def lab_root(profile: Profile, settings: Settings, *, user: str, account: str = "") -> str:
    """The remote directory of this lab; a relative one starts at the remote home.

    Raises:
        UsageError: when the profile's path needs an account or user that is not known.
    """
    places = {"account": profile.account_of(account, settings.account), "user": user}
    root = fill(settings.root or profile.root, places)
    if lacks := PLACE.search(root):
        raise failure("no-place", place=lacks[1])
    return f"{root.rstrip('/')}/{file_name(settings.edition)}"


# --------------------------------------------------------------------------- trust


ID_FILE = ".labtui-id"
_ID = re.compile(r"[0-9a-f]{32}")


class _Record(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    owner: int
    connects: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()


def known_record(folder: Path) -> _Record | None:
    """What this user trusted a folder with this id and owner to do; None if there is no such folder."""
    try:
        known = decode.from_json(_record_path(folder).read_bytes(), _Record)
    except (OSError, msgspec.MsgspecError):
        return None
    return known if known.id and (known.id, known.owner) == (_read_id(folder), owner_of(folder)) else None


def check_trust(folder: Path) -> LabError | None:
    """Why a lab folder (its resolved path) may only be read; None if this user made or trusted it."""
    if (known := known_record(folder)) is not None and known == _record(folder):
        return None
    return failure("trust-changed" if known else "not-trusted", path=folder, effect=effects_of(folder)[0])


def is_outside(folder: Path, name: str) -> bool:
    """Whether a file that a folder's settings name is outside it, itself or by a link; it is not opened."""
    path = folder / local_files.expand_home(name)
    within = Path(os.path.normpath(path)).is_relative_to(os.path.normpath(folder))  # resolving may open it
    return not (within and path.resolve().is_relative_to(folder.resolve()))


def named_file(folder: Path, name: str) -> Path:
    """The path of a file that a folder's settings name.

    Raises:
        UsageError: it is outside the folder, itself or by a link, and the folder is not trusted.
    """
    if is_outside(folder, name) and check_trust(folder):
        raise failure("lab-outside", file=name, folder=folder)
    return folder / local_files.expand_home(name)


def trust(folder: Path) -> None:
    """Trust a lab folder from now on, as long as its host, user and commands do not change.

    Raises:
        FolderError: the folder, or this user's state directory, cannot be written.
    """
    if check_trust(folder) is not None:  # its sender knows the id that it came with
        local_files.write_private(folder, folder / ID_FILE, os.urandom(16).hex().encode())
    place = _record_path(folder)
    with os_errors("cannot-note-trust", path=place.parent):
        local_files.mkdir_private(place.parent)
    local_files.write_private(place.parent, place, msgspec.json.encode(_record(folder)))


def forget_trust(folder: Path) -> None:
    """Remove the trust record of a folder that is to be deleted."""
    with contextlib.suppress(OSError):
        _record_path(folder).unlink(missing_ok=True)


def owner_of(path: Path) -> int:
    """The user id of a path's owner; 0 on systems without user ids, -1 if the path cannot be examined."""
    try:
        return path.stat().st_uid
    except OSError:
        return -1


# --------------------------------------------------------------------------- sentences about trust


def effects_of(folder: Path) -> tuple[str, ...]:
    """Sentences on where a lab folder would connect, as whom and through what, and on each command it brings."""
    try:
        name = read_settings(folder / SETTINGS_FILE).profile
        if is_outside(folder, name) and known_record(folder) is None:  # to look at it may be a connection
            outside = "a profile outside the folder, read once it is trusted"
            return (f"It would connect where {name} says: {outside}.",)
        settings, profile = load_named(folder, trusting=True)
        host, port, user, _ = _connection_facts(settings, profile)
    except LabError as error:
        return (error.sentence,)
    return (
        f"It would connect to {host or 'no host'}{f', port {port}' if port else ''}"
        f" as {user or 'the user of your SSH configuration'}"
        f"{f' with the key {settings.identity}' if settings.identity else ''}"
        f"{f' and take the host key {settings.host_key} without asking' if settings.host_key else ''}"
        ", by the way that your own SSH configuration has for that host (ProxyJump, ProxyCommand).",
        *(f"Its cluster profile brings a command: {each}" for each in _commands(settings, profile)),
    )


# --------------------------------------------------------------------------- the trust record


def _record(folder: Path) -> _Record:
    try:
        settings, profile = load_named(folder, trusting=True)
        connects, commands = _connection_facts(settings, profile), _commands(settings, profile)
    except LabError:
        connects, commands = (), ()
    return _Record(id=_read_id(folder), owner=owner_of(folder), connects=connects, commands=commands)


def _read_id(folder: Path) -> str:
    try:
        text = local_files.read_inside(folder, ID_FILE).decode("ascii", "replace").strip()
    except OSError:
        text = ""
    return text if _ID.fullmatch(text) else ""


def _record_path(folder: Path) -> Path:
    """Its name stands for the folder's path."""
    return _state_dir() / "trusted" / f"{hashlib.sha256(os.fsencode(folder)).hexdigest()[:32]}.json"


def _state_dir() -> Path:
    """Where labtui keeps what it knows of this user, outside all lab folders."""
    return Path(platformdirs.user_state_dir("labtui", appauthor=False))


def is_first_start() -> bool:
    """Whether this user opens the screens for the first time, by a file that is made now; False if it cannot be."""
    place = _state_dir()
    try:
        local_files.mkdir_private(place)
        (place / "opened").touch(exist_ok=False)
    except OSError:
        return False
    return True


def load_named(folder: Path, *, trusting: bool = False) -> tuple[Settings, Profile]:
    """A lab folder's settings and the profile that they name; `trusting` if they are read to decide whether to trust.

    Raises:
        LabError: either cannot be read, or the folder is not trusted and names a profile outside it.
    """
    settings = read_settings(folder / SETTINGS_FILE)
    if not trusting:
        named_file(folder, settings.profile)  # an id is one, too, of a file inside
    return settings, load_profile(settings.profile, folder)


def _connection_facts(settings: Settings, profile: Profile) -> tuple[str, ...]:
    """Host, port, user and expected host key fingerprint; "" where the SSH configuration decides."""
    user, host, port = login_of(settings, profile)
    hosts = host if settings.host else ", ".join(profile.login_hosts)
    return hosts, str(port or ""), user, settings.host_key


def _commands(settings: Settings, profile: Profile) -> tuple[str, ...]:
    """The commands in a profile of the folder's own; empty for one of labtui's profiles, which are trusted."""
    if settings.profile in list_profiles():
        return ()
    found = (profile.quota_command, *profile.launch.setup)
    return tuple(dict.fromkeys(command for command in found if command))
