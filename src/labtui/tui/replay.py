"""The screens over a recorded session: played, paused, stepped; nothing can be changed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar

from rich.style import Style
from rich.text import Text
from textual import on
from textual.binding import Binding, BindingType
from textual.events import Click
from textual.message import Message
from textual.reactive import reactive
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input, TextArea

from labtui.domain.events import (
    AnyEvent,
    EpochSeen,
    JobObserved,
    RunEnded,
    SubmissionChanged,
    SubmissionPlanned,
)
from labtui.session.replay import Replay
from labtui.tui import actions
from labtui.tui.actions import Action
from labtui.tui.app import LabApp
from labtui.tui.screens.main import MainScreen
from labtui.tui.widgets.frame import KeyLine

TICK_S = 0.1
SLOWEST, FASTEST = 0.1, 100_000.0

_PLACE = ("replay",)
KEYS: tuple[Action, ...] = (
    Action("replay_pause", "space", "pause", "pause, continue; at the end: start again", "Replay", _PLACE),
    Action("replay_step(1)", "right,full_stop", "event", "the next event", "Replay", _PLACE),
    Action("replay_step(-1)", "left,comma", "previous event", "the previous event", "Replay", _PLACE),
    Action(
        "replay_jump(1)",
        "right_square_bracket",
        "jump",
        "the next start or end of a submission, a job or a run",
        "Replay",
        _PLACE,
    ),
    Action("replay_jump(-1)", "left_square_bracket", "jump back", "the same, backwards", "Replay", _PLACE),
    Action("replay_speed(2)", "plus", "faster", "twice as fast", "Replay", _PLACE),
    Action("replay_speed(0.5)", "minus", "slower", "half as fast", "Replay", _PLACE),
)
"""The keys of a replay. They take the place of keys that change something, so they are in a list of their own."""


def about(event: AnyEvent) -> str:
    """What an event tells, in a few words for the bar."""
    match event:
        case SubmissionPlanned():
            return f"task {event.task_id}: {event.job_name} planned"
        case SubmissionChanged():
            return f"submission {event.status.value}"
        case JobObserved():
            return f"job {event.job.job_id} {event.job.phase.value}"
        case EpochSeen():
            return f"run {event.run_id}, epoch {event.sample.epoch}"
        case RunEnded():
            return f"run {event.run_id} {event.outcome}"
        case _:
            return str(type(event).__struct_config__.tag).replace("-", " ")


class ReplayBar(Widget):
    """One line: playing or paused, the speed, a bar with a mark per chapter, the recorded time, the event."""

    DEFAULT_CSS = """
    ReplayBar { height: 1; background: $panel; color: $foreground; }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {"replay--done", "replay--rest"}
    place: reactive[float] = reactive(0.0)
    playing: reactive[bool] = reactive(True)
    speed: reactive[float] = reactive(60.0)

    class SeekRequested(Message):
        """A click on the bar: go to this share of it, from 0 to 1."""

        def __init__(self, share: float) -> None:
            super().__init__()
            self.share = share

    def __init__(self, replay: Replay) -> None:
        super().__init__(id="replay-bar")
        self._replay = replay
        self._chapters = tuple(replay.timeline.places[count - 1] for count in replay.timeline.chapters())
        self._bar = (0, 1)

    def render(self) -> Text:
        """The bar takes the room that the words leave."""
        replay = self._replay
        line, count = replay.timeline, max(1, replay.count)
        over = not self.playing and count == len(line.events)
        sign = "■" if over else "▶" if self.playing else "‖"
        left = Text(f" {sign} {self.speed:g}× ", no_wrap=True)
        right = Text(f" {datetime.fromtimestamp(replay.now):%d %b %H:%M:%S} ")
        right.append(f" {count}/{len(line.events)} ", Style(bold=True))
        if self.size.width >= 100:
            words = Text(about(line.events[count - 1]))
            words.truncate(30, overflow="ellipsis", pad=True)
            right.append_text(words)
        width = max(4, self.size.width - left.cell_len - right.cell_len)
        self._bar = (left.cell_len, width)
        return left.append_text(self._drawn(width)).append_text(right)

    def _drawn(self, width: int) -> Text:
        whole = self._replay.timeline.seconds or 1.0
        marks = {min(width - 1, int(place / whole * width)) for place in self._chapters}
        here = min(width - 1, int(self._replay.place / whole * width))
        bar = Text()
        for column in range(width):
            done = column <= here
            sign = "●" if column == here else "╋" if column in marks and done else "━" if done else "─"
            sign = "┼" if column in marks and not done else sign
            name = "replay--done" if done else "replay--rest"
            bar.append(sign, self.get_component_rich_style(name, partial=True))
        return bar

    def on_click(self, event: Click) -> None:
        first, width = self._bar
        if first <= event.x < first + width:
            self.post_message(self.SeekRequested((event.x - first) / max(1, width - 1)))


class ReplayScreen(MainScreen):
    """The main screen with the bar above its keys. `app` is a `ReplayApp`."""

    app: ReplayApp
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(each.keys, each.name, each.label, show=False, priority=True) for each in KEYS),
        *actions.bindings("charts"),
    ]
    PLACES = ("log", "charts")

    def on_mount(self) -> None:
        self.query_one("#bottom").mount(ReplayBar(self.app.replay), before=self.query_one(KeyLine))

    def keys(self, places: Sequence[str], first: Sequence[str]) -> list[Action]:
        """The keys of the replay come first."""
        shown = super().keys(places, ())
        taken = {key for each in KEYS for key in each.keys.split(",")}
        own = [each for each in KEYS if each.name in {"replay_pause", "replay_step(1)", "replay_jump(1)"}]
        return [*own, *(each for each in shown if not taken & set(each.keys.split(",")))]

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """In a search they are letters."""
        if action.startswith("replay_") and isinstance(self.focused, Input | TextArea):
            return False
        return super().check_action(action, parameters)

    def action_replay_pause(self) -> None:
        self.app.pause()

    def action_replay_step(self, step: int) -> None:
        """The event before or after."""
        self.app.hold_at(self.app.replay.count + step)

    def action_replay_jump(self, step: int) -> None:
        """The chapter before or after."""
        self.app.jump(step)

    def action_replay_speed(self, factor: float) -> None:
        """Faster or slower."""
        self.app.change_speed(factor)

    @on(ReplayBar.SeekRequested)
    def _asked(self, event: ReplayBar.SeekRequested) -> None:
        event.stop()
        self.app.replay.go_to(event.share * self.app.replay.timeline.seconds)
        self.app.show_bar()


class ReplayApp(LabApp):
    """Plays a `Replay`, `speed` recorded seconds a second; the caller closes it."""

    def __init__(self, replay: Replay, *, speed: float = 60.0, playing: bool = True, pane: str = "") -> None:
        super().__init__(replay, clock=lambda: replay.now, start=False, pane=pane)
        self.view_model.replay = True
        self.replay = replay
        self.speed = speed
        self.playing = playing
        self._ticked = time.monotonic()

    def get_default_screen(self) -> Screen[None]:
        return ReplayScreen(self._first_pane)

    def on_mount(self) -> None:
        self.replay.start()
        self.set_interval(TICK_S, self._tick)

    def _tick(self) -> None:
        now = time.monotonic()
        seconds, self._ticked = now - self._ticked, now
        if self.playing:
            self.play(seconds)
        self.show_bar()

    def play(self, seconds: float) -> None:
        """Let `seconds` of the watcher's time go by; goes along to the task that is submitted next."""
        before = self.replay.count
        self.replay.go_to(self.replay.place + seconds * self.speed)
        for event in reversed(self.replay.timeline.events[before : self.replay.count]):
            if isinstance(event, SubmissionPlanned):
                if event.task_id != self.view_model.task_id:
                    self.view_model.arrived(self.replay.state)
                    self.view_model.choose_task(event.task_id)
                break
        if self.replay.place >= self.replay.timeline.seconds:
            self.playing = False

    def show_bar(self) -> None:
        for screen in self.screen_stack:
            for bar in screen.query(ReplayBar):
                bar.place, bar.playing, bar.speed = self.replay.place, self.playing, self.speed

    def pause(self) -> None:
        """Pause or go on; at the end, from the start."""
        self.playing = not self.playing
        if self.playing and self.replay.place >= self.replay.timeline.seconds:
            self.replay.go_to_event(1)
        self.show_bar()

    def hold_at(self, count: int) -> None:
        """Stand still after so many events."""
        self.playing = False
        self.replay.go_to_event(count)
        self.show_bar()

    def jump(self, step: int) -> None:
        """To the chapter after or before, playing or not."""
        here, chapters = self.replay.count, self.replay.timeline.chapters()
        ahead = [count for count in chapters if count > here] + [len(self.replay.timeline.events)]
        behind = [1] + [count for count in chapters if count < here]
        self.replay.go_to_event(ahead[0] if step > 0 else behind[-1])
        self.show_bar()

    def change_speed(self, factor: float) -> None:
        """So many times as fast."""
        self.speed = min(max(self.speed * factor, SLOWEST), FASTEST)
        self.show_bar()

    def action_help(self) -> None:
        """The keys of the replay, then those that look."""
        from labtui.tui.screens.pages import TextScreen

        page = Text()
        for each in KEYS:
            keys = " ".join(actions.key_text(key) for key in each.keys.split(","))
            page.append(f"{keys:8}", "bold").append(f"{each.help}\n")
        page.append("\nPanes, lists, search and charts have their usual keys; in Charts the arrow keys ")
        page.append("choose a chart and , . go through the events. Click on the bar to go there.\n")
        page.append("\nPauses of more than five minutes are shortened. ")
        page.append("Scripts are as they are now; answers and exports appear when they were last written.")
        self.push_screen(TextScreen("Keys of the replay", page))
