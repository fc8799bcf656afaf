"""Lines of keys that can be clicked: the one mechanism behind the bottom line and the last line of a modal."""

from __future__ import annotations

from collections.abc import Iterable

from rich.style import Style
from rich.text import Text
from textual.events import Click
from textual.widget import Widget

from labtui.tui.messages import ActionAsked

Key = tuple[str, str, str]
"""How a key is written, what it does in a word or two, and the name of its action."""


class Keys(Widget, can_focus=False):
    """Each key, in bold, with its words; a click on either posts `ActionAsked`: the screen does what the key does."""

    COMPONENT_CLASSES = {"keys--key"}  # noqa: RUF012

    def key_text(self, keys: Iterable[Key]) -> Text:
        """The keys as text whose cells know their action."""
        key_style = self.get_component_rich_style("keys--key", partial=True)
        text = Text("")
        for key, words, action in keys:
            meta = Style(meta={"action_name": action})
            text.append(" ").append(key, key_style + meta).append(f" {words} ", meta)
        return text

    def on_click(self, event: Click) -> None:
        """A click on a key does what the key does."""
        if name := event.style.meta.get("action_name"):
            event.stop()
            self.post_message(ActionAsked(name))


class ModalKeys(Keys):
    """The keys of a modal, and a note behind them."""

    DEFAULT_CSS = """
    ModalKeys { height: auto; }
    """

    def __init__(self, *keys: Key, note: str = "", classes: str | None = None) -> None:
        super().__init__(classes=classes)
        self._keys, self._note = keys, note

    def render(self) -> Text:
        """Keys, then the note."""
        text = self.key_text(self._keys)
        text = text[1:]  # the first key stands where the lines above it begin
        return text.append(f" {self._note}", style="dim") if self._note else text
