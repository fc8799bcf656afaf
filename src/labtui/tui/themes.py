"""The base class of labtui's apps, with the sanitizer of their output, the two themes, and the preferred theme."""

import asyncio
import contextlib
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import msgspec
from rich.segment import Segment
from rich.text import Text
from rich.theme import Theme as RichTheme
from textual.app import App, ReturnType, ScreenStackError
from textual.color import Color
from textual.css.query import NoMatches
from textual.driver import Driver
from textual.events import Event, Key
from textual.filter import LineFilter
from textual.notifications import Notification
from textual.screen import Screen
from textual.theme import Theme
from textual.widget import MountError, Widget

from labtui.domain.decode import own_toml
from labtui.domain.terminal_text import ascii_text, ascii_wanted, inert

if TYPE_CHECKING:
    from labtui.tui.messages import ScreenPrompter


class TerminalSanitizer(LineFilter):
    """A line filter that makes the text of every segment inert: no control characters reach the terminal.

    With `LABTUI_ASCII=1`, every character is replaced by one of ASCII.
    """

    shown = staticmethod(ascii_text if ascii_wanted(os.environ) else str)

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The filtered segments, each as wide as before."""
        return [
            segment if segment.control else Segment(inert(self.shown(segment.text)), segment.style)
            for segment in segments
        ]


class _Output:
    """The terminal's file, but writes to a closed terminal do not fail, so that the program can still end."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            self._file.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._file.flush()


class Notice(Notification):
    """A notification that always has time left: Textual's timer never returns from an interval below 0."""

    @property
    def time_left(self) -> float:
        return max(0.01, super().time_left)

    @property
    def has_expired(self) -> bool:
        return super().time_left <= 0


class SanitizedApp(App[ReturnType]):
    """The base class of labtui's apps: sanitized output, two themes, and no frame with outdated colours."""

    _sanitizer = TerminalSanitizer()
    prompter: "ScreenPrompter | None" = None
    keys_since = 0.0

    def __init__(self) -> None:
        """Replace Textual's themes by `OURS`, before the stylesheets are first parsed with the theme's variables."""
        super().__init__()
        for name in self.available_themes:
            self.unregister_theme(name)
        for theme in OURS:
            self.register_theme(theme)
        preferred = preferred_theme()
        self.theme = preferred if preferred in self.available_themes else DARK.name
        self._read_with: Theme | None = self.current_theme
        self.stylesheet.set_variables(self.get_css_variables())
        self.console.push_theme(RichTheme({"markdown.block_quote": "italic"}))  # Rich's own is magenta

    def on_mount(self) -> None:
        """Attach the prompter, and restore the terminal before a signal ends the program."""
        for name in ("SIGTERM", "SIGHUP") if not self.is_headless else ():
            with contextlib.suppress(AttributeError, NotImplementedError):  # on Windows
                asyncio.get_running_loop().add_signal_handler(getattr(signal, name), self.exit_on_signal)
        if self.prompter is not None:
            self.prompter.app = self

    def _build_driver(self, *how: Any, **more: Any) -> Driver:
        driver = super()._build_driver(*how, **more)
        if (file := getattr(driver, "_file", None)) is not None:
            driver._file = _Output(file)  # type: ignore[attr-defined]  # headless drivers have no file
        return driver

    def _handle_exception(self, error: Exception) -> None:
        """While the program is being left, a widget may be mounted without its parts or its screen: no error."""
        leaving = self._exit or not self.is_running
        if not (leaving and isinstance(error, MountError | NoMatches | ScreenStackError)):
            super()._handle_exception(error)

    def exit_on_signal(self) -> None:
        """Exit because of a signal."""
        self.exit(return_code=128 + signal.SIGTERM)

    def on_unmount(self) -> None:
        if self.prompter is not None:
            self.prompter.close()

    def action_change_theme(self) -> None:
        """Switch to the other theme, and store the choice; a folder that is not writable is ignored."""
        self.theme = LIGHT.name if self.theme == DARK.name else DARK.name
        path = preferences_file()
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{self.theme}\n", encoding="utf-8")

    def _fatal_error(self) -> None:
        """Show a crash in plain text: Textual's own page shows local variables, with untrusted text and secrets."""
        self.bell()
        lines = "".join(traceback.format_exception(*sys.exc_info())).splitlines()
        self._exit_renderables.append(Text("\n".join(map(inert, lines))))
        self._close_messages_no_wait()

    def refresh_css(self, animate: bool = True) -> None:
        """Skip the refresh at the start, since the stylesheets were already parsed with the current theme."""
        fresh, self._read_with = self._read_with == self.current_theme, None
        if not fresh:
            self.delay_update()  # texts get the new colours after the stylesheets: no frame shows two themes
            super().refresh_css(animate)

    @contextlib.contextmanager
    def one_frame(self, screen: Screen[Any], then: Callable[[], object] = int) -> Iterator[None]:
        """Paint all changes made meanwhile in one frame, after their layout; `then` is called with it."""
        held = contextlib.ExitStack()
        held.callback(then)
        held.enter_context(self.batch_update())
        try:
            yield
        finally:
            self._settle(screen, held)

    def _settle(self, screen: Screen[Any], held: contextlib.ExitStack, rounds: int = 2) -> None:
        """Let the widgets report what changed and get their new sizes before the screen is painted again."""
        for widget in screen.walk_children(Widget):
            widget._check_refresh()
        if screen._layout_required:
            screen._layout_required = False
            screen._refresh_layout()
            held.callback(screen.refresh)  # Textual drops some refreshes during a batch update
        screen.call_later(partial(self._settle, screen, held, rounds - 1) if rounds else held.close)

    async def on_event(self, event: Event) -> None:
        """Drop keys typed before `keys_since`, and say so of those that would confirm what was not shown yet.

        A message that asks for this key, or answered the one before, goes.
        """
        typed = event.character or "" if isinstance(event, Key) and not event.is_forwarded else None
        for each in list(self._notifications) if typed is not None else ():
            if each.timeout <= ANSWER_S or f"ress {typed} " in f"{each.message} ".replace(".", ""):
                self._unnotify(each)  # what it asks for is done
        after = getattr(self.screen, "confirms_after", 0.0) if self.screen_stack else 0.0
        if isinstance(event, Key) and event.time < after and event.key in ("s", "full_stop"):
            self.notify("The plan was not shown yet. Press s to submit it.", severity="warning")
        elif not (isinstance(event, Key) and event.time < self.keys_since):
            await super().on_event(event)

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Textual's filters, then the sanitizer."""
        return [*super().get_line_filters(), self._sanitizer]


def preferences_file() -> Path:
    import platformdirs

    return Path(platformdirs.user_config_dir("labtui", appauthor=False)) / "theme"


def preferred_theme() -> str:
    """The name of the theme that was chosen last; "" if there is none."""
    try:
        return preferences_file().read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def _theme(name: str, tables: dict[str, Any]) -> Theme:
    """A theme with its colours, also under Textual's names for the parts of widgets."""
    own, variables = tables[name], tables[name]["variables"]
    parts = {part: (own | variables)[colour] for part, colour in tables["parts"].items()}
    own["variables"] = {"block-cursor-text-style": "none", **variables, **parts}
    return Theme(name, **own)


_TABLES = own_toml(__file__, "themes.toml")
OURS = DARK, LIGHT = _theme("labtui-dark", _TABLES), _theme("labtui-light", _TABLES)
ANSWER_S = 4.0
"""How long a message that answers a key stands, if no other key is pressed."""


class Roles(msgspec.Struct, frozen=True):
    """Rich styles by meaning, for text inside a widget; stylesheets use the theme's variables instead."""

    good: str
    warn: str
    bad: str
    busy: str
    quiet: str
    soft: str
    axis: str
    line: str
    chip: str
    bad_ground: str
    series: tuple[tuple[str, ...], ...] = ()
    """The colours of lines and bars, each with its tones; distinct for colour-blind readers, none that of a state."""


def ascii_only() -> bool:
    """Whether only ASCII is shown: without lines and colours, and no digits made of signs."""
    return ascii_wanted(os.environ)


def pointer(*, chosen: bool) -> str:
    """What stands before the chosen one of a row: a sign where no line or colour may tell it."""
    return ">" if chosen and ascii_only() else " "


def ink(text: str, style: str = "", *, no_wrap: bool = False) -> Text:
    """A text with a style that does not extend to what is appended later."""
    return Text(no_wrap=no_wrap, overflow="ellipsis" if no_wrap else None).append(text, style)


@lru_cache
def _tones(colour: str, text: str) -> tuple[str, ...]:
    """Tones of a colour that stay as legible as text: from it towards the colour of text."""
    return tuple(Color.parse(colour).blend(Color.parse(text), share).hex for share in (0, 0.45, 0.8, 0.65))


def roles(app: App[Any]) -> Roles:
    """The styles of the theme in use."""
    theme, variables = app.current_theme, app.current_theme.variables
    tones = (variables[name] for name in ("quiet", "soft", "axis", "line"))
    chip, ground = f"bold {variables['on-accent']} on {theme.accent}", variables["error-ground"]
    colours = (str(theme.accent), *(variables[f"series-{place}"] for place in range(2, 6)))
    series = tuple(_tones(colour, str(theme.foreground)) for colour in colours)
    styles: list[Any] = [theme.success, theme.warning, theme.error, theme.accent, *tones]
    return Roles(*styles, *[chip, ground, series])
