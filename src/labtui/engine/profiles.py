"""Cluster profiles from where they lie: inside the package, or a student's own TOML file."""

from __future__ import annotations

import tomllib
from importlib import resources
from pathlib import Path

import msgspec

from labtui.core.profile import Profile
from labtui.errors import DataError


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
        path = (base or Path()) / Path(name).expanduser()
        try:
            return parse_profile(path.read_text(encoding="utf-8"), str(path))
        except OSError as error:
            raise DataError(
                f"The cluster profile {path} cannot be read: {error.strerror}.", path=str(path)
            ) from error
        except UnicodeDecodeError as error:
            raise DataError(
                f"The cluster profile {path} is not UTF-8 text.", "Save it as UTF-8.", path=str(path)
            ) from error
    if name not in list_profiles():
        known = ", ".join(list_profiles()) or "none"
        raise DataError(
            f"There is no cluster profile called {name!r}.",
            f"Known ones: {known}. Your own: give the path of a .toml.",
        )
    return parse_profile(
        (resources.files("labtui") / "profiles" / f"{name}.toml").read_text(encoding="utf-8"), name
    )


def parse_profile(text: str, name: str) -> Profile:
    """A profile from its TOML text.

    Raises:
        DataError: says what does not fit.
    """
    try:
        return msgspec.convert(tomllib.loads(text), Profile)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise DataError(
            f"The cluster profile {name} does not fit: {error}.", "Correct that entry."
        ) from error
