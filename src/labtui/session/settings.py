"""A lab folder's settings (`lab.toml`), the cluster profile they name, and the connection they describe."""

from __future__ import annotations

import tomllib
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from labtui.cluster.local_files import named_path, read_text_file, write_private
from labtui.domain.errors import DataError, LabError, UsageError
from labtui.domain.profile import Profile

if TYPE_CHECKING:
    from labtui.cluster.target import Overrides, Target

SETTINGS_FILE = "lab.toml"
_LAB_KEYS = ("edition", "group", "practice", "log_patterns", "notifications", "max_log_gib")
"""What stands under [lab]; everything else stands under [cluster]."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What `lab.toml` says. Empty texts and None mean: as the cluster profile or the SSH configuration has it.

    `edition` and `profile` are an id or the path of a TOML file. `host_key` is a fingerprint (``SHA256:...``),
    `identity` the path of a private key file, `root` the remote directory labtui works under.
    `max_per_gpu_batch` is for GPUs with less memory than the lab's own: plans give no GPU more images a step.
    `notifications` says how a job's start, end and failure are told: by the desktop and the terminal, by the terminal
    alone, or not at all.
    A log is copied up to `max_log_gib` GiB.
    `log_patterns` are regular expressions for lines of logs that labtui does not know.
    """

    edition: str
    profile: str
    group: str = ""
    practice: bool = False
    host: str = ""
    port: Annotated[int, msgspec.Meta(ge=1, le=65535)] | None = None
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
        for text in self.log_patterns:
            from labtui.training_logs.patterns import own_pattern

            try:
                own_pattern(text)
            except DataError as error:
                raise ValueError(error.sentence) from None


def read_settings(path: Path) -> Settings:
    """The settings in this `lab.toml`.

    Raises:
        DataError: it cannot be read, is not TOML, or a value does not fit; says which line where known.
    """
    return _settings_of(_toml(read_text(path, path.name), path.name, path), path)


def read_text(path: Path, name: str) -> str:
    """The text of a file that a person named, called `name`.

    Raises:
        DataError: it cannot be read, or is no UTF-8 text.
    """
    try:
        return read_text_file(path)
    except OSError as error:
        why, fix = f"cannot be read: {error.strerror}", "Check the path."
    except UnicodeDecodeError:
        why, fix = "is not UTF-8 text", "Save it as UTF-8."
    raise DataError(f"{name} {why}.", fix, path=str(path))


def _toml(text: str, name: str, path: Path | None = None) -> dict[str, Any]:
    """A table from its text. Raises DataError: what is wrong with it, and where it is known."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        why = str(error)
    except (RecursionError, ValueError):
        why = "it is nested too deeply, or a number has too many digits"
    raise DataError(f"{name} is not valid TOML: {why}.", "Correct that line.", path=str(path or name))


def _settings_of(document: dict[str, Any], path: Path) -> Settings:
    flat: dict[str, Any] = {}
    for table in ("lab", "cluster"):
        section = document.get(table, {})
        if not isinstance(section, dict):
            raise DataError(f"[{table}] in {path.name} is not a table.", path=str(path))
        flat |= {key: value for key, value in section.items() if (key in _LAB_KEYS) == (table == "lab")}
    try:
        return msgspec.convert(flat, Settings)
    except msgspec.ValidationError as error:
        hint = "`edition` belongs under [lab], `profile` under [cluster]; see `labtui init --help`."
        raise DataError(f"{path.name} is not valid: {error}.", hint, path=str(path)) from error


def write_settings(path: Path, settings: Settings) -> None:
    """Save the settings into `path`, keeping what else a student wrote there. Atomic, readable by the owner only.

    Raises:
        FolderError: when the folder cannot be written; the old file is then still there, whole.
    """
    import tomlkit

    document = _document(path)
    for field in msgspec.structs.fields(Settings):
        table = "lab" if field.name in _LAB_KEYS else "cluster"
        section: Any = document.setdefault(table, tomlkit.table())
        value = getattr(settings, field.name)
        if value == field.default:
            section.pop(field.name, None)
        else:
            section[field.name] = list(value) if isinstance(value, tuple) else value
    write_private(path.parent, path, tomlkit.dumps(document).encode())


def _document(path: Path) -> Any:
    import tomlkit

    if path.exists():
        return tomlkit.parse(path.read_text(encoding="utf-8"))
    document = tomlkit.document()
    document.add(
        tomlkit.comment(
            "Settings of this labtui lab folder. You may edit them; no password is ever stored here."
        )
    )
    return document


def changed(settings: Settings, **changes: Any) -> Settings:
    """The settings with some values replaced, checked.

    Raises:
        UsageError: when a value does not fit.
    """
    try:
        return msgspec.convert({**msgspec.structs.asdict(settings), **changes}, Settings)
    except (msgspec.ValidationError, ValueError) as error:
        raise UsageError(f"That is not valid: {error}.", "Give another value.") from error


def list_profiles() -> tuple[str, ...]:
    """The ids of the profiles that came with labtui, sorted."""
    folder = resources.files("labtui") / "profiles"
    return tuple(sorted(entry.name[:-5] for entry in folder.iterdir() if entry.name.endswith(".toml")))


def load_profile(name: str, base: Path | None = None) -> Profile:
    """The profile with this id, or in this TOML file (relative paths count from `base`).

    Raises:
        DataError: when there is none or it does not fit.
    """
    if name.endswith(".toml"):
        path = (base or Path()) / named_path(name)
        return parse_profile(read_text(path, f"The cluster profile {path}"), str(path))
    if name not in list_profiles():
        known = ", ".join(list_profiles()) or "none"
        raise DataError(
            f"There is no cluster profile called {name!r}.",
            f"Known profiles: {known}. For your own, give the path of a .toml file.",
        )
    return parse_profile(
        (resources.files("labtui") / "profiles" / f"{name}.toml").read_text(encoding="utf-8"), name
    )


def profile_of_host(host: str) -> str:
    """The id of the profile that came with labtui and names this login host; "" when there is none."""
    name = host.rpartition("@")[2].partition(":")[0].lower()
    found = (each for each in list_profiles() if name in load_profile(each).login_hosts)
    return next((each for each in found if load_profile(each).status == "current"), "") if name else ""


def parse_profile(text: str, name: str) -> Profile:
    """A profile from its TOML text.

    Raises:
        DataError: says what does not fit.
    """
    document = _toml(text, f"The cluster profile {name}")
    document.pop("memory_gb_per_node", None)  # earlier versions wrote it
    try:
        return msgspec.convert(document, Profile)
    except msgspec.ValidationError as error:
        raise DataError(
            f"The cluster profile {name} is not valid: {error}.", "Correct that entry."
        ) from error


def overrides_of(settings: Settings) -> Overrides:
    """What a lab folder says about the connection."""
    from labtui.cluster.target import Overrides

    return Overrides(
        hosts=(settings.host,) if settings.host else (),
        port=settings.port,
        user=settings.user,
        identity_file=settings.identity,
        host_key=settings.host_key,
    )


def target_of(settings: Settings, profile: Profile) -> Target:
    """Where a lab folder's settings lead, as OpenSSH would fill them in.

    Raises:
        LabError: they name no login host, or the SSH configuration cannot be read.
    """
    from labtui.cluster.target import resolve_target

    return resolve_target(profile, overrides_of(settings))


def cluster_user(settings: Settings, profile: Profile) -> str:
    """The user name on the cluster: as set, or as the SSH configuration says; empty when that cannot be read."""
    if settings.user or profile.user:
        return settings.user or profile.user
    try:
        return target_of(settings, profile).endpoints[0].user
    except LabError:
        return ""
