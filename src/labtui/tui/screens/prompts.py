"""`Ask`: the one dialog, with choices or a line to type into; and what is asked with it at login and on leaving."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.events import Key
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Static

from labtui.domain.model import RunPhase
from labtui.tui import STYLES
from labtui.tui.app import LabApp
from labtui.tui.view import LIVE

_Answer = TypeVar("_Answer")

Choice = tuple[str, str, str | None]
"""A key, what it does in a word or two, and the answer it gives; None: nothing is to be done."""


class Modal(ModalScreen[_Answer]):
    """A screen over another one."""

    CSS_PATH = STYLES / "modals.tcss"


def yes_or_no(yes: str, no: str) -> tuple[Choice, ...]:
    """Two choices; the answer of the first is "yes"."""
    return ("y", yes, "yes"), ("n", no, None)


def typed(does: str) -> tuple[Choice, ...]:
    """The choices of a line to type into: enter `does` it, escape goes back."""
    return ("enter", does, ""), ("escape", "Back", None)


class Ask(Modal[str | None]):
    """A question. `escape` is the last choice, the safe one, and the cursor is on it.

    With `entry` it is a line that begins with this text, answered once `check` has no problem with it.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "last", "leave", show=False),
        Binding("left,up", "app.focus_previous", show=False),
        Binding("right,down", "app.focus_next", show=False),
    ]

    def __init__(
        self,
        text: str,
        *,
        title: str = "",
        details: Text | None = None,
        choices: Sequence[Choice] = yes_or_no("Yes", "No"),
        entry: str | None = None,
        check: Callable[[str], str] = lambda text: "",
        secret: bool = False,
    ) -> None:
        super().__init__()
        self.text, self.heading, self.details = text, title, details
        self.choices, self.entry, self.check, self.secret = choices, entry, check, secret

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            if self.heading:
                yield Static(Text(self.heading, style="bold"), markup=False)
            yield Static(Text(self.text), markup=False, classes="dialog-text")
            if self.details is not None:
                with VerticalScroll(classes="dialog-details", can_focus=False):
                    yield Static(self.details, markup=False)
            if self.entry is not None:
                yield Input(self.entry, password=self.secret, max_length=200, compact=True)
                yield Static(Text(""), markup=False, id="problem")
            with Horizontal(classes="dialog-buttons"):
                for name, label, _ in self.choices:
                    shown = "esc" if name == "escape" else name
                    yield Button(Text(f"{shown}  {label}"), id=f"choice-{name}", compact=True)

    def on_mount(self) -> None:
        """Where one types, else on the safe answer."""
        (self.query(Button).last() if self.entry is None else self.query_one(Input)).focus()

    def on_key(self, event: Key) -> None:
        """The key of a choice."""
        if event.key != "enter" and event.key in {name for name, _, _ in self.choices}:
            event.stop()
            self.choose(event.key)

    @on(Button.Pressed)
    def _pressed(self, event: Button.Pressed) -> None:
        event.stop()
        self.choose((event.button.id or "").removeprefix("choice-"))

    @on(Input.Submitted)
    def _entered(self, event: Input.Submitted) -> None:
        event.stop()
        self.choose("enter")

    def action_last(self) -> None:
        """The safe answer."""
        self.choose(self.choices[-1][0])

    def choose(self, name: str) -> None:
        """The answer of a choice, or what was typed; a key that comes after the answer is none."""
        if not self.is_active:
            return
        if self.entry is None or name != "enter":
            self.dismiss({each: answer for each, _, answer in self.choices}[name])
            return
        text = self.query_one(Input).value
        text = text if self.secret else text.strip()
        if problem := self.check(text):
            self.query_one("#problem", Static).update(Text(problem, style="bold"))
            self.query_one(Input).focus()
        else:
            self.dismiss(text)


def prompt_screen(question: Any) -> Ask:
    """A question of the login: an unknown server's fingerprint, or a secret of which nothing is kept."""
    if question.kind == "host-key":
        compare = "Compare it with the one your teacher or the cluster's documentation gives."
        return Ask(
            question.text,
            title=f"Unknown host: {question.host}",
            details=Text().append(question.fingerprint, "bold").append(f"\n\n{compare}"),
            choices=typed("Connect"),  # a letter meant for the text below must not answer
            entry="",
            check=lambda text: (
                "" if text == "yes" else "Type yes where it is the same; esc does not connect."
            ),
        )
    return Ask(
        f"{question.text}\nIt is not stored anywhere.",
        title=f"{question.kind.capitalize()}: {question.host}",
        choices=typed("Answer"),
        entry="",
        secret=not question.echo,
    )


STOPS = (
    "The practice cluster stops when you leave: running jobs end as if their node failed, waiting jobs start when you "
    "are back."
)
LOST = (
    "This practice session is not kept: its runs, answers and exports are deleted when you leave. "
    "`labtui practice --keep FOLDER` keeps its cluster, too."
)
NEW_FOLDER = "Name a folder that is not there yet."


async def ask_before_leaving(app: LabApp, *, kept: bool) -> None:
    """Leave at once where everything goes on or nothing is lost; else ask. `kept`: the folder stays."""
    state = app.view_model.state
    busy = any(run.phase in LIVE and run.phase is not RunPhase.WAITING for run in state.runs.values())
    stops = busy and app.view_model.factor is not None
    if app.session.read_only or (kept and not stops):
        app.exit(0)
        return
    leave = yes_or_no("Leave", "Stay")
    keep: tuple[Choice, ...] = () if kept else (("k", "Keep it in a folder", "keep"),)

    def ask() -> None:
        app.push_screen(Ask(STOPS if kept else LOST, choices=(*keep, *leave)), answered)

    def answered(answer: str | None) -> None:
        if answer == "keep":
            place = Ask(
                "The folder for its answers, logs and charts; the cluster ends with this session.",
                choices=typed("Keep it and leave"),
                entry=str(Path.cwd() / "practice"),
                check=lambda text: "" if text and not Path(text).expanduser().exists() else NEW_FOLDER,
            )
            app.push_screen(place, kept_in)
        elif answer:
            app.exit(0)

    def kept_in(text: str | None) -> None:
        if text is None:
            ask()
        else:
            app.keep_in = Path(text).expanduser().absolute()
            app.exit(0)

    ask()
