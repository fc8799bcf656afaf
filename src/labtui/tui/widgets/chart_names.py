"""The names of the charts there are, in one flow that reacts to clicks: ``3 of 13  time  img/s  speedup ...``."""

from __future__ import annotations

from collections.abc import Sequence

from rich.style import Style
from rich.text import Text
from textual.events import Click
from textual.geometry import Size
from textual.message import Message
from textual.widget import Widget

from labtui.core.results.gallery import family
from labtui.tui.widgets.plot_look import plain

SHORT = {
    "epoch-time": "time",
    "throughput": "img/s",
    "speedup": "speedup",
    "efficiency": "eff.",
    "throughput-per-gpu": "img/s/GPU",
    "first-epoch": "1st epoch",
    "cpu-gpu": "CPU:GPU",
    "efficiency-loss": "losses",
    "amdahl": "Amdahl",
    "gustafson": "Gustafson",
    "epochs": "epochs",
    "accuracy": "accuracy",
    "gpu-utilization": "GPU use",
}
MOST_LINES = 2


def short_name(key: str) -> str:
    """What a chart is called in a list; jobs keep their number."""
    kind = family(key)
    name = SHORT.get(kind, kind)
    return f"{name} {key.removeprefix(kind + '-')}" if kind == "gpu-utilization" and key != kind else name


class ChartNames(Widget):
    """Where one is among the charts, their names, and the networks where there are several."""

    DEFAULT_CSS = """
    ChartNames { height: auto; width: 1fr; }
    """

    class Asked(Message):
        """A name was clicked: that of a chart, or of a network ("" for all together)."""

        def __init__(self, *, chart: str | None = None, network: str | None = None) -> None:
            super().__init__()
            self.chart = chart
            self.network = network

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._shown: tuple[tuple[str, ...], str, tuple[str, ...], str | None] = ((), "", (), None)

    def show(
        self, keys: Sequence[str], chosen: str, networks: Sequence[str] = (), network: str | None = None
    ) -> None:
        """Other charts, another chosen one, another network."""
        shown = (tuple(keys), chosen, tuple(networks), network)
        if shown != self._shown:
            self._shown = shown
            self.refresh(layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """As many lines as the names need."""
        return max(1, len(self._lines(width)))

    def render(self) -> Text:
        """The lines; each name carries what a click on it means."""
        return Text("\n").join(self._lines(self.size.width)) if self._shown[0] else Text("")

    def _lines(self, width: int) -> list[Text]:
        keys, chosen, networks, network = self._shown
        if not keys:
            return []
        at = keys.index(chosen) if chosen in keys else 0
        place = Text(f"{at + 1} of {len(keys)} ", style="bold", no_wrap=True, end="")
        names = [_name(short_name(key), key == chosen, chart=key) for key in keys]
        lines, spot = _flow(place, names, at, width)
        first = min(max(0, spot - 1), max(0, len(lines) - MOST_LINES))
        lines = lines[first : first + MOST_LINES]
        if len(networks) > 1:
            chips = [_name("all networks", network is None, network="")]
            chips += [_name(plain(each), each == network, network=each) for each in networks]
            wanted = 0 if network is None else networks.index(network) + 1
            flowed, spot = _flow(Text("", end=""), chips, wanted, width)
            lines.append(flowed[spot])
        return lines

    def on_click(self, event: Click) -> None:
        """A click on a name shows what it names."""
        meta = event.style.meta
        if "chart" in meta or "network" in meta:
            event.stop()
            self.post_message(self.Asked(chart=meta.get("chart"), network=meta.get("network")))


def _name(name: str, chosen: bool, **meta: str) -> Text:
    style = Style(reverse=chosen, bold=chosen, meta=meta)
    return Text(f" {name} ", style=style, no_wrap=True, end="")


def _flow(start: Text, names: Sequence[Text], chosen: int, width: int) -> tuple[list[Text], int]:
    """The names on as many lines as they need, and which line has the chosen one."""
    lines, spot = [Text(no_wrap=True, end="").append_text(start)], 0
    for place, name in enumerate(names):
        if lines[-1].cell_len and lines[-1].cell_len + name.cell_len > width:
            lines.append(Text(no_wrap=True, end=""))
        lines[-1].append_text(name)
        if place == chosen:
            spot = len(lines) - 1
    return lines, spot
