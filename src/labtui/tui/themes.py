"""Three calm themes of our own, and what a student prefers: theme and keys."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from textual.app import App
from textual.theme import Theme


@dataclass(frozen=True, slots=True)
class Preferences:
    """`keys` are by the names of actions (see the help page); `problem` says why the file could not be used."""

    theme: str = ""
    keys: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""


def preferences_file() -> Path:
    import platformdirs

    return Path(platformdirs.user_config_dir("labtui", appauthor=False)) / "settings.toml"


def read_preferences() -> Preferences:
    """The preferences; defaults where there is no file, and with a sentence where it cannot be used."""
    path = preferences_file()
    try:
        text = path.read_text(encoding="utf-8")
    except OSError:
        return Preferences()
    import tomllib

    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        return Preferences(problem=f"{path} is not TOML: {error}. The defaults are used.")
    theme, keys = document.get("theme", ""), document.get("keys", {})
    if not isinstance(theme, str) or not isinstance(keys, dict):
        return Preferences(problem=f"{path}: `theme` is a name, `[keys]` a table. The defaults are used.")
    named = {name: key for name, key in keys.items() if isinstance(key, str)}
    return Preferences(theme=theme, keys=named)


def keep_theme(name: str) -> None:
    """Store the chosen theme for the next time; a folder that cannot be written is no reason to stop."""
    import tomlkit

    path = preferences_file()
    with contextlib.suppress(OSError, tomlkit.exceptions.TOMLKitError):
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        document = tomlkit.parse(text)
        document["theme"] = name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(tomlkit.dumps(document), encoding="utf-8")


DARK = Theme(
    name="labtui-dark",
    primary="#56b4e9",
    secondary="#8fa1b3",
    accent="#e69f00",
    foreground="#d8dee6",
    background="#14181d",
    surface="#191e24",
    panel="#222a33",
    success="#3fbf8f",
    warning="#e6b450",
    error="#ec6a5e",
    dark=True,
    variables={"block-cursor-text-style": "none", "border": "#56b4e9", "border-blurred": "#34404d"},
)
DUSK = Theme(
    name="labtui-dusk",
    primary="#c6a0f0",
    secondary="#a6a0b8",
    accent="#f0b866",
    foreground="#e2dcea",
    background="#1d1a24",
    surface="#24202d",
    panel="#2e2939",
    success="#7fc99b",
    warning="#f0b866",
    error="#f0868c",
    dark=True,
    variables={"block-cursor-text-style": "none", "border": "#c6a0f0", "border-blurred": "#453e55"},
)
LIGHT = Theme(
    name="labtui-light",
    primary="#0a5f97",
    secondary="#4f5f6e",
    accent="#8f4700",
    foreground="#1f2830",
    background="#fafbfc",
    surface="#f1f4f7",
    panel="#e3e9ef",
    success="#006b46",
    warning="#7a4f00",
    error="#a8201a",
    dark=False,
    variables={"block-cursor-text-style": "none", "border": "#0a5f97", "border-blurred": "#b9c4ce"},
)
OURS = (DARK, DUSK, LIGHT)


def register(app: App[Any], chosen: str = "") -> None:
    """Make our themes known and choose the preferred one, else the dark one."""
    for theme in OURS:
        app.register_theme(theme)
    app.theme = chosen if chosen in app.available_themes else DARK.name


@dataclass(frozen=True, slots=True)
class Roles:
    """Rich styles by meaning, for text inside a widget; stylesheets use the theme's variables instead."""

    good: str
    warn: str
    bad: str
    busy: str
    quiet: str
    stale: str


_ANSI_ROLES = Roles("green", "yellow", "bold red", "blue", "dim", "magenta")


def roles(app: App[Any]) -> Roles:
    """The styles of the theme in use; named terminal colours where the theme is the terminal's own."""
    theme = app.current_theme
    if app.native_ansi_color or not theme.success or not theme.success.startswith("#"):
        return _ANSI_ROLES
    return Roles(
        good=theme.success,
        warn=theme.warning or "",
        bad=f"bold {theme.error or ''}".strip(),
        busy=theme.primary,
        quiet=theme.secondary if theme.secondary and theme.secondary.startswith("#") else "dim",
        stale=theme.accent or "",
    )
