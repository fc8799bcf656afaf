"""The top line: which lab, which cluster, how the line is, how old the picture, what it cost."""

from __future__ import annotations

from rich.style import Style
from rich.text import Text
from textual.reactive import reactive
from textual.widget import Widget

from labtui.tui import format as words
from labtui.tui.view import Picture

_STYLES = {
    "online": "header--good",
    "connecting": "header--quiet",
    "stale": "header--warn",
    "offline": "header--warn",
    "needs-login": "header--bad",
}


class HeaderBar(Widget):
    """One line; folds its middle on narrow screens."""

    DEFAULT_CSS = """
    HeaderBar { height: 1; dock: top; background: $panel; color: $foreground; }
    """
    COMPONENT_CLASSES = {"header--good", "header--warn", "header--bad", "header--quiet", "header--name"}  # noqa: RUF012
    picture: reactive[Picture | None] = reactive(None, always_update=True)

    def render(self) -> Text:
        """Left: lab. Middle: where. Right: connection, age, cost."""
        picture = self.picture
        name = self.get_component_rich_style("header--name", partial=True)
        if picture is None:
            return Text(" labtui", style=name)
        width = self.size.width
        right = self._right(picture, short=width < 100)
        left = Text(" labtui ", style=name)
        left.append(" ")
        title = picture.edition.title if picture.edition is not None else "" if picture.loading else "lab"
        middle = " · ".join(part for part in (picture.cluster, picture.account, picture.qos) if part)
        room = width - left.cell_len - right.cell_len - 2
        if len(title) + len(middle) + 3 <= room:
            left.append(title).append("   ").append(middle, style=self._style("header--quiet"))
        elif room > 3:
            lab = title.split(":")[0]
            tight = Text(f"{lab}  {middle}")
            tight.truncate(max(0, room), overflow="ellipsis")
            left.append_text(tight)
        if left.cell_len + right.cell_len > width:
            left = Text(" ")
        left.append(" " * max(1, width - left.cell_len - right.cell_len - 1))
        return left.append_text(right)

    def _style(self, name: str) -> Style:
        return self.get_component_rich_style(name, partial=True)

    def _right(self, picture: Picture, *, short: bool) -> Text:
        connection = picture.state.connection
        glyph, word = words.connection_label(connection)
        text = Text()
        if picture.practice:
            speed = f"{picture.factor:g} x " if picture.factor else ""
            text.append(f" practice {speed}", style="reverse").append("  ")
        if picture.read_only:
            text.append(" read-only ", style="reverse").append("  ")
        text.append(f"{glyph} {word}", style=self._style(_STYLES.get(connection.status, "header--quiet")))
        text.append(_age(picture))
        if picture.gpu_hours is not None:
            used = "" if short else " practised" if picture.practice else " used"
            text.append(f"{'  ' if short else '   '}{picture.gpu_hours:.2f} GPU-h{used}")
        return text


def _age(picture: Picture) -> str:
    """How old the queue's picture is; that nothing is asked while no job lives is said, too."""
    state = picture.state
    if state.connection.status == "online":  # the first paint comes before that and imports nothing for it
        from labtui.core.jobs import live

        if not live(state):
            return ", no jobs"
    return f", {words.age(picture.now - state.refreshed_at)}" if state.refreshed_at is not None else ""
