"""What lies over a screen: the palette, questions of the login, yes or no, minutes, a reason."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Static

from labtui.domain.events import RunState, SubmissionState
from labtui.slurm.states import early_end_refusal
from labtui.tui.actions import ACTIONS, Action
from labtui.tui.messages import ActionAsked
from labtui.tui.view import task_rows
from labtui.tui.widgets import frame

STYLES = Path(__file__).parent.parent / "styles"
_Answer = TypeVar("_Answer")


class ModalKeys(frame.Keys):
    """The keys of a modal, and a note behind them."""

    DEFAULT_CSS = """
    ModalKeys { height: auto; }
    """

    def __init__(self, *keys: frame.Key, note: str = "", classes: str | None = None) -> None:
        super().__init__(classes=classes)
        self._keys, self._note = keys, note

    def render(self) -> Text:
        text = self.key_text(self._keys)
        text = text[1:]  # the first key stands where the lines above it begin
        return text.append(f" {self._note}", style="dim") if self._note else text


class Modal(ModalScreen[_Answer]):
    """A screen over another one."""

    CSS_PATH = STYLES / "modals.tcss"

    async def on_action_asked(self, message: ActionAsked) -> None:
        """A click on one of the keys below does what the key does, here and in the wizard's app, too."""
        message.stop()
        await self.run_action(message.name)


@dataclass(frozen=True, slots=True)
class Command:
    """A line of the palette; `also` are further words that find it."""

    title: str
    help: str
    run: Callable[[], Any]
    also: str = ""
    listed: bool = True


class ActionProvider(Provider):
    """What can be done where the palette was opened."""

    def _commands(self) -> list[Command]:
        app: Any = self.app  # a `SessionApp`
        commands = [
            Command(f"{each.label}  ({each.key_label})", each.help, partial(app.do, each.name), each.also)
            for each in self._here()
        ]
        commands += [
            Command(
                f"task {row.task_id} {row.title}", "go to this task", partial(app.go_to_task, row.task_id)
            )
            for row in task_rows(app.view_model.view_state())
        ]
        commands += [
            Command(f"theme {name}", "change the colours", partial(app.choose_theme, name), listed=False)
            for name in sorted(app.available_themes, key=lambda name: (not name.startswith("labtui"), name))
        ]
        return commands

    def _here(self) -> list[Action]:
        places = set(getattr(self.screen, "PLACES", ("main", "log", "charts", "answers"))) | {"app"}
        return [each for each in ACTIONS if places & set(each.places) and not each.name.startswith("move")]

    async def discover(self) -> Hits:
        """Everything, before a letter is typed."""
        for each in self._commands():
            if each.listed:
                yield DiscoveryHit(each.title, each.run, help=each.help)

    async def search(self, query: str) -> Hits:
        """What was meant: whole words of title or `also` first, then what fits the letters of title or help."""
        matcher, wanted = self.matcher(query), query.casefold().strip()
        for each in self._commands():
            words = f"{each.title} {each.also}".casefold().replace("(", " ").split()
            score = matcher.match(each.title)
            if any(word.startswith(wanted) for word in words):
                score = max(score, 1.0) + (1.0 if each.title.casefold().startswith(wanted) else 0.5)
            elif wanted in each.help.casefold():
                score = max(score, 0.3)
            if score > 0:
                title = matcher.highlight(each.title) if matcher.match(each.title) else Text(each.title)
                yield Hit(score, title, each.run, help=each.help)


TITLES = {
    "password": "Password",
    "passphrase": "Passphrase of your key",
    "code": "Code",
    "host-key": "Unknown server",
}


def prompt_screen(question: Any) -> Modal[str | None]:
    if question.kind == "host-key":
        return AskHostKey(question)
    return AskSecret(question)


class AskSecret(Modal[str | None]):
    """A password, passphrase or code; hidden unless the server says that it may be seen. Nothing of it is kept."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "refuse", "cancel", show=False)]

    def __init__(self, question: Any) -> None:
        super().__init__()
        self.question = question

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(
                Text(f"{TITLES.get(self.question.kind, 'Question')}: {self.question.host}", style="bold"),
                markup=False,
            )
            yield Static(Text(self.question.text), markup=False, classes="dialog-text")
            yield Input(password=not self.question.echo, id="secret", compact=True)
            yield ModalKeys(
                ("enter", "answers", "accept"),
                ("esc", "cancels", "refuse"),
                note="It is not stored anywhere.",
            )

    def on_mount(self) -> None:
        self.query_one("#secret").focus()

    @on(Input.Submitted, "#secret")
    def _answered(self, event: Input.Submitted) -> None:
        event.stop()
        self.action_accept()

    def action_accept(self) -> None:
        self.dismiss(self.query_one("#secret", Input).value)

    def action_refuse(self) -> None:
        self.dismiss(None)


class YesOrNo(Modal[_Answer]):
    """The `body` and two buttons. `escape` means no; the cursor is on no, the safe answer."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,n", "answer(False)", "no", show=False),
        Binding("y", "answer(True)", "yes", show=False),
        Binding("left,right,up,down", "other", show=False),
    ]
    yes, no = "Yes", "No"

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield from self.body()
            with Horizontal(classes="dialog-buttons"):
                yield Button(Text(f"y  {self.yes}"), id="yes", compact=True)
                yield Button(Text(f"n  {self.no}"), id="no", compact=True)

    def body(self) -> ComposeResult:
        raise NotImplementedError

    def on_mount(self) -> None:
        self.query_one("#no").focus()

    @on(Button.Pressed)
    def _pressed(self, event: Button.Pressed) -> None:
        event.stop()
        self.action_answer(event.button.id == "yes")

    def action_answer(self, yes: bool) -> None:
        raise NotImplementedError

    def action_other(self) -> None:
        self.focus_next()


class Confirm(YesOrNo[bool | None]):
    """A question in words, with `details` where there are some."""

    def __init__(self, text: str, *, yes: str = "Yes", no: str = "No", details: Text | None = None) -> None:
        super().__init__()
        self.text, self.yes, self.no, self.details = text, yes, no, details

    def body(self) -> ComposeResult:
        yield Static(Text(self.text), markup=False, classes="dialog-text")
        if self.details is not None:
            with Vertical(classes="dialog-details"):
                yield Static(self.details, markup=False)

    def action_answer(self, yes: bool) -> None:
        self.dismiss(yes)


class AskHostKey(YesOrNo[str | None]):
    """An unknown server shows its key's fingerprint; only "yes" goes on."""

    yes, no = "It is the same: connect", "Do not connect"

    def __init__(self, question: Any) -> None:
        super().__init__()
        self.question = question

    def body(self) -> ComposeResult:
        yield Static(Text(f"Unknown host: {self.question.host}", style="bold"), markup=False)
        yield Static(Text(self.question.text), markup=False, classes="dialog-text")
        fingerprint = Text(self.question.fingerprint, style="bold")
        yield Static(fingerprint, markup=False, classes="dialog-text", id="fingerprint")
        compare = "Compare it with the fingerprint your teacher or the cluster's documentation gives."
        yield Static(Text(compare, style="dim"), markup=False)

    def action_answer(self, yes: bool) -> None:
        """Accept or refuse the key."""
        self.dismiss("yes" if yes else None)


class AskMinutes(Modal[int | None]):
    """Whole minutes, or None when left. What makes no sense for this job is said before it is asked of Slurm."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "leave", show=False)]

    def __init__(self, chosen: Sequence[tuple[RunState, SubmissionState | None]]) -> None:
        """`chosen` is a run of each job that is meant, with its submission."""
        super().__init__()
        self.chosen = chosen

    def _question(self) -> str:
        if len(self.chosen) > 1:
            numbers = ", ".join(f"#{run.run_id}" for run, _ in self.chosen)
            return f"End each of the runs {numbers} how many minutes after its job's start?"
        run, submission = self.chosen[0]
        others = [number for number in (submission.run_ids if submission else ()) if number != run.run_id]
        text = f"End run #{run.run_id} ({run.spec.label}) how many minutes after its job's start?"
        if others:
            text += f" The runs {', '.join(f'#{number}' for number in others)} are in the same job."
        if submission is not None and submission.time_limit_minutes:
            text += f" The job script asks for {submission.time_limit_minutes} min."
        return text

    def compose(self) -> ComposeResult:
        text = self._question()
        with Vertical(classes="dialog"):
            yield Static(Text(text), markup=False, classes="dialog-text")
            yield Input(id="minutes", compact=True, type="integer", max_length=5)
            yield Static(Text("", style="bold"), markup=False, id="minutes-problem")
            yield ModalKeys(
                ("enter", "sets the limit", "set_limit"),
                ("esc", "leaves", "leave"),
                note="Slurm ends the job then, even when labtui is closed.",
            )

    def on_mount(self) -> None:
        self.query_one("#minutes").focus()

    @on(Input.Submitted, "#minutes")
    def _answered(self, event: Input.Submitted) -> None:
        event.stop()
        self.action_set_limit()

    def action_set_limit(self) -> None:
        """What was typed, if it makes sense for every job that is meant."""
        text = self.query_one("#minutes", Input).value.strip()
        minutes = int(text) if text.isascii() and text.isdecimal() else 0
        for run, submission in self.chosen:
            refusal = early_end_refusal(submission, minutes) if submission is not None else None
            if refusal is not None:
                which = f"Run #{run.run_id}: " if len(self.chosen) > 1 else ""
                self.query_one("#minutes-problem", Static).update(Text(which + " ".join(refusal)))
                return
        self.dismiss(minutes)

    def action_leave(self) -> None:
        """No limit."""
        self.dismiss(None)


class AskReason(Modal[str | None]):
    """Why findings are overridden, in the student's words; None when left."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "leave", show=False)]

    def __init__(self, stops: str) -> None:
        super().__init__()
        self.stops = stops

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            text = f"{self.stops} Why submit it anyway? The reason is kept and appears on the last page of the hand-in."
            yield Static(Text(text), markup=False, classes="dialog-text")
            yield Input(id="reason", compact=True, max_length=200)
            yield ModalKeys(("enter", "overrides", "override"), ("esc", "leaves", "leave"))

    def on_mount(self) -> None:
        self.query_one("#reason").focus()

    @on(Input.Submitted, "#reason")
    def _answered(self, event: Input.Submitted) -> None:
        event.stop()
        self.action_override()

    def action_override(self) -> None:
        """What was typed, if anything."""
        if reason := self.query_one("#reason", Input).value.strip():
            self.dismiss(reason)

    def action_leave(self) -> None:
        """Nothing is overridden."""
        self.dismiss(None)
