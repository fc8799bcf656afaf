"""What every app of ours is made from: the last gate, three calm themes, and what a student prefers."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from rich.segment import Segment
from textual.app import App
from textual.color import Color
from textual.filter import LineFilter
from textual.theme import Theme

from labtui.domain.terminal_text import ascii_text, ascii_wanted, inert


class TerminalSanitizer(LineFilter):
    """Makes every segment of every line inert, after the filters that Textual itself wants.

    One filter for all of them, because each filter of an app costs a new `Strip` per line.
    """

    def __init__(self, before: tuple[LineFilter, ...] = (), *, ascii_only: bool = False) -> None:
        """`ascii_only`: every sign as one of ASCII (`LABTUI_ASCII=1`)."""
        super().__init__()
        self.before, self.ascii_only = before, ascii_only

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The segments, each as wide as before."""
        for each in self.before:
            segments = each.apply(segments, background)
        if self.ascii_only:
            segments = [
                segment if segment.control else Segment(ascii_text(segment.text), segment.style)
                for segment in segments
            ]
        if all(segment.control or segment.text.isprintable() for segment in segments):
            return segments
        return [
            segment if segment.control else Segment(inert(segment.text), segment.style)
            for segment in segments
        ]


_Result = TypeVar("_Result")


class SanitizedApp(App[_Result]):
    """What every app of ours is made from."""

    _gate = TerminalSanitizer(ascii_only=ascii_wanted(os.environ))
    _read_with: Theme | None = None

    def choose_first_theme(self, name: str) -> None:
        """Before the start: the stylesheets are read with this theme's variables at once."""
        self.theme = name
        self._read_with = self.current_theme
        self.stylesheet.set_variables(self.get_css_variables())

    def refresh_css(self, animate: bool = True) -> None:
        """Textual asks for it at every start, to read all stylesheets again in the theme; ours were read in it."""
        fresh, self._read_with = self._read_with == self.current_theme, None
        if not fresh:
            super().refresh_css(animate)

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Textual's filters and ours, as one that stays the same while they do: lines are cached by it."""
        before = tuple(super().get_line_filters())
        if before != self._gate.before:
            self._gate = TerminalSanitizer(before, ascii_only=self._gate.ascii_only)
        return [self._gate]


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


def register(app: SanitizedApp[Any], chosen: str = "") -> None:
    """Make our themes known and choose the preferred one, else the dark one."""
    for theme in OURS:
        app.register_theme(theme)
    app.choose_first_theme(chosen if chosen in app.available_themes else DARK.name)


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
