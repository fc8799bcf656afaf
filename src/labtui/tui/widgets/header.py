"""The top line: which lab, which cluster, how the line is, how old the picture, what it cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

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
_SLACK = 1
"""Cells kept free, so that the line keeps its form when "9 s ago" becomes "10 s ago"."""


class HeaderBar(Widget):
    """One line; says less on narrow screens."""

    DEFAULT_CSS = """
    HeaderBar { height: 1; dock: top; background: $panel; color: $foreground; }
    """
    COMPONENT_CLASSES = {"header--good", "header--warn", "header--bad", "header--quiet", "header--name"}  # noqa: RUF012
    picture: reactive[Picture | None] = reactive(None, always_update=True)

    def render(self) -> Text:
        """Left: lab. Middle: where. Right: connection, age, cost. The fullest form that fits."""
        picture = self.picture
        if picture is None:
            return Text(" labtui", style=self._style("header--name"))
        width = self.size.width
        for left, right in self._forms(picture, short=width < 100):
            gap = width - left.cell_len - right.cell_len - 1
            if gap > _SLACK:
                return left.append(" " * gap).append_text(right)
        left.truncate(max(1, width - right.cell_len - 2), overflow="ellipsis")
        left.append(" " * max(1, width - left.cell_len - right.cell_len - 1))
        return left.append_text(right)

    def _forms(self, picture: Picture, *, short: bool) -> Iterator[tuple[Text, Text]]:
        """Left and right side, each time with less: cluster, program, speed of the rehearsal, account go in turn.

        A rehearsal's badge on the right says which cluster it is, so that its name does not stand there twice.
        """
        title = picture.edition.title if picture.edition is not None else "" if picture.loading else "lab"
        lab = title.split(":")[0]
        cluster = "" if picture.practice else picture.cluster
        where, own = (cluster, picture.account, picture.qos), (picture.account, picture.qos)
        right = self._right(picture, short=short)
        yield self._left(title, where, gap="   "), right
        yield self._left(lab, where), right
        yield self._left(lab, own), right
        yield self._left(lab, own, name=False), right
        right = self._right(picture, short=short, speed=False)
        yield self._left(lab, own, name=False), right
        yield self._left(lab, (picture.qos,), name=False), right

    def _left(self, lab: str, where: Iterable[str], *, name: bool = True, gap: str = "  ") -> Text:
        text = Text(" ", no_wrap=True)
        if name:
            text.append("labtui", style=self._style("header--name")).append("  ")
        place = " · ".join(part for part in where if part)
        return text.append(lab).append(gap if place else "").append(place, style=self._style("header--quiet"))

    def _style(self, name: str) -> Style:
        return self.get_component_rich_style(name, partial=True)

    def _right(self, picture: Picture, *, short: bool, speed: bool = True) -> Text:
        connection = picture.state.connection
        glyph, word = words.connection_label(connection)
        text = Text()
        if picture.practice:
            pace = f"{picture.factor:g} x " if picture.factor and speed else ""
            text.append(f" practice {pace}", style="reverse").append("  ")
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
