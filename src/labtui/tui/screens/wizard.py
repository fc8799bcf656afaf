"""The first run: choose a lab and a cluster, enter the account, test the connection, make the lab folder."""

import threading
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

from rich.text import Text
from textual import screen, widget
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widgets import Button, Footer, Input, Label, Select, Static

from labtui.domain.errors import LabError, UsageError
from labtui.session import lab_cluster, labs
from labtui.session.folder import LabFolder
from labtui.session.settings import Settings, list_profiles, load_profile, with_changes
from labtui.tui import STYLES, messages, themes

FIELDS = (
    ("user", "User name there", "as in `ssh USER@...`"),
    ("account", "Slurm account", "what jobs are charged to"),
    ("host", "Login host", "filled in by the cluster; or a name from your ~/.ssh/config"),
    ("port", "SSH port", "a number; empty: as your SSH configuration says, else 22"),
    ("identity", "Private key", "your SSH agent and default keys; or a file"),
    ("group", "Your group", "printed on the slides"),
)
GROUPS = ("user", "host", "group")
"""The fields with a blank line above them."""
PRACTICE: Literal["practice"] = "practice"
"""The wizard's result if the student wants to practise first."""


class WizardScreen(screen.Screen[None]):
    """The form. Nothing is written until the folder is made, and no secret ever is."""

    app: "WizardApp"
    AUTO_FOCUS = "#lab"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("p", "practice", "Practice"),
        Binding("tab", "app.focus_next", "Next field"),
        Binding("escape,ctrl+q", "app.quit", "Leave"),
        Binding("ctrl+t", "test", "Test"),
        Binding("ctrl+n", "make", "Make"),
    ]

    def compose(self) -> ComposeResult:
        editions = [(Text(f"{entry.title}"), entry.id) for entry in labs.list_editions()]
        profiles = [load_profile(name) for name in list_profiles()]
        clusters = [(Text(each.title), each.id) for each in profiles if each.status == "current"]
        yield Static(Text(" labtui: a new lab folder", style="bold"), markup=False, id="wizard-title")
        with VerticalScroll(id="wizard-form", can_focus=False):
            with Horizontal(id="wizard-practice"):
                yield Static("No account yet?  Practice runs inside labtui.", markup=False)
                yield Button("p  Practice", id="practice", compact=True, action="screen.practice")
            yield _row("Lab", Select(editions, allow_blank=False, id="lab", compact=True), first=True)
            yield _row("Cluster", Select(clusters, allow_blank=False, id="cluster", compact=True))
            other = "For another Slurm cluster leave this page and run `labtui init`."
            yield Static(other, markup=False, id="wizard-other")
            for name, title, meaning in FIELDS:
                digits = r"[0-9]*" if name == "port" else None
                field = Input(placeholder=meaning, id=name, restrict=digits, compact=True)
                yield _row(title, field, first=name in GROUPS)
            yield _row("Folder to make", Input(value=str(self.app.place), id="dir", compact=True))
        with Vertical(id="wizard-bottom"):
            yield Static(Text(""), markup=False, id="wizard-answer")
            with Horizontal(id="wizard-buttons"):
                yield Button("Test the connection", id="test", compact=True, action="screen.test")
                yield Button("Make the folder", id="make", compact=True, action="screen.make")
            yield Footer(compact=True, show_command_palette=False)

    # ------------------------------------------------------------------ what was typed

    def settings(self) -> Settings:
        """The settings as typed."""
        typed = {name: self.query_one(f"#{name}", Input).value.strip() for name, _, _ in FIELDS}
        port = typed.pop("port")
        lab, cluster = (str(self.query_one(name, Select).value) for name in ("#lab", "#cluster"))
        return with_changes(Settings(edition=lab, profile=cluster), **typed, port=int(port) if port else None)

    def _say(self, text: str, *, ok: bool | None = None) -> None:
        styles = themes.roles(self.app)
        mark, style = {None: ("", ""), True: ("✔ ", styles.good), False: ("✘ ", styles.bad)}[ok]
        self.query_one("#wizard-answer", Static).update(Text(f"{mark}{text}", style=style))

    # ------------------------------------------------------------------ testing

    def action_practice(self) -> None:
        """End the wizard with `PRACTICE`; no folder is made. Where something was typed, ask first."""
        from labtui.tui.screens.modals import Ask, yes_or_no

        if not any(self.query_one(f"#{name}", Input).value for name, _, _ in FIELDS):
            self.app.exit(PRACTICE)
            return
        ask = Ask("What you typed here is not kept. Practise now?", choices=yes_or_no("Practise", "Back"))
        self.app.push_screen(ask, lambda answer: self.app.exit(PRACTICE) if answer else None)

    def action_test(self) -> None:
        """Log in and out again, in a thread."""
        self._say("Connecting ...")
        work = partial(self._try, self.focused or self.query_one("#lab"))
        self.query_one("#test").focus()  # a login question waits while a text has the focus
        # not a Textual worker: the app would wait for it on exit
        threading.Thread(target=work, name="labtui-test", daemon=True).start()

    def _try(self, field: widget.Widget) -> None:
        """Log in and out again, and show whether it worked."""
        ok = False
        try:
            settings, prompter = self.settings(), self.app.prompter
            with closing(
                lab_cluster.connection_to(settings, load_profile(settings.profile), prompter)
            ) as cluster:
                cluster.connect()
                ok, text = True, f"Logged in to {cluster.host}; your home is {cluster.files.home()}."
        except LabError as error:
            text = f"{error.sentence} {error.hint}".strip()
        except Exception as error:  # nothing else would report an error of this thread
            text = f"The test ended unexpectedly ({type(error).__name__})."
        self.app.call_later(partial(self._say, text, ok=ok))
        self.app.call_later(lambda: field.focus() if self.query_one("#test").has_focus else None)

    # ------------------------------------------------------------------ making

    def action_make(self) -> None:
        """Make the folder and end the wizard, or say what is missing."""
        try:
            settings = self.settings()
            place = self.query_one("#dir", Input).value.strip()
            if not place:
                raise UsageError("Enter the folder to make.")
            try:
                lab_cluster.check_settings(settings, load_profile(settings.profile))
            except UsageError as error:
                raise UsageError(error.sentence, "Fill it in above.") from error
            folder = LabFolder.create(place, settings, wanted=labs.load_edition(settings.edition).needs)
        except LabError as error:
            self._say(f"{error.sentence} {error.hint}", ok=False)
            return
        self.app.exit(folder.path)


def _row(title: str, field: widget.Widget, *, first: bool = False) -> Horizontal:
    """A title and its field on one line; the `first` row of a group has a blank line above it."""
    return Horizontal(Label(title, markup=False), field, classes="wizard-row" + (" -first" if first else ""))


class WizardApp(themes.SanitizedApp[Path | Literal["practice"] | None]):
    """The app with only the wizard. It returns the folder that was made, `PRACTICE`, or None."""

    TITLE = "labtui"
    CSS_PATH = [STYLES / "base.tcss", STYLES / "wizard.tcss"]  # noqa: RUF012 - as Textual declares it
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, place: Path) -> None:
        super().__init__()
        self.place = place
        self.prompter = messages.ScreenPrompter()

    def get_default_screen(self) -> screen.Screen[Any]:
        return WizardScreen()
