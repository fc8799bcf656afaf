"""Two calm themes of our own; Textual's others, the ANSI ones among them, stay available in the palette."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from textual.theme import Theme

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
    variables={"footer-key-foreground": "#56b4e9", "block-cursor-text-style": "none"},
)
LIGHT = Theme(
    name="labtui-light",
    primary="#0b6aa8",
    secondary="#5a6b7b",
    accent="#a65300",
    foreground="#1f2830",
    background="#fafbfc",
    surface="#f1f4f7",
    panel="#e3e9ef",
    success="#00784f",
    warning="#8a5a00",
    error="#b3261e",
    dark=False,
    variables={"footer-key-foreground": "#0b6aa8", "block-cursor-text-style": "none"},
)


def register(app: Any) -> None:
    """Make both themes known and choose the dark one."""
    app.register_theme(DARK)
    app.register_theme(LIGHT)
    app.theme = DARK.name


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


def roles(app: Any) -> Roles:
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
