"""The first run: which lab, which cluster, who; try the connection; make the lab folder."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.message import Message
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Button, Footer, Input, Label, Select, Static

from labtui.domain.errors import LabError, UsageError
from labtui.tui import themes
from labtui.tui.messages import PromptAsked, ScreenPrompter
from labtui.tui.screens.prompts import prompt_screen
from labtui.tui.themes import SanitizedApp

if TYPE_CHECKING:
    from labtui.session.settings import Settings
    from labtui.slurm.site_profile import Choices

STYLES = Path(__file__).parent.parent / "styles"
FIELDS = (
    ("user", "User name there", "as in `ssh USER@...`"),
    ("account", "Slurm account", "what jobs are charged to, for example nct_NNN"),
    ("host", "Login host", "filled in by the cluster; or a name from your ~/.ssh/config"),
    ("port", "SSH port", "22, or as your SSH configuration says"),
    ("identity", "Private key", "your SSH agent and default keys; or a file"),
    ("group", "Your group", "printed on the slides"),
)
SITE_FIELDS = (
    ("queue", "GPU queue there", "the one labtui chooses; or a partition or QoS"),
    ("data_dir", "CIFAR-10 there", "where labtui finds it; or the folder cifar-10-batches-py"),
    ("training", "Python there", "with TensorFlow: a .sif image, a module, or a python"),
)
"""Asked only for a cluster without a profile, which is asked about everything else."""
UNKNOWN_CLUSTER = "slurm"
"""The profile of a cluster that labtui does not know."""
GROUPS = ("user", "host", "group", "queue")
"""Fields before which there is a blank line."""
NO_ACCOUNT = "No account yet?  Practice runs the whole evening inside labtui."
PRACTICE: Literal["practice"] = "practice"
"""What the wizard ends with when the student wants to practise first."""


class TestEnded(Message):
    """How the connection test went."""

    __test__ = False

    def __init__(self, ok: bool, text: str, folder: Path | None = None) -> None:
        super().__init__()
        self.ok = ok
        self.text = text
        self.folder = folder


class WizardScreen(Screen[None]):
    """A form; nothing is written before the folder is made, no secret is ever written."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("p", "practice", "Practice"),
        Binding("tab", "app.focus_next", "Next field"),
        Binding("escape,ctrl+q", "leave", "Leave"),
    ]

    def __init__(self, place: Path) -> None:
        super().__init__()
        self.place = place

    def compose(self) -> ComposeResult:
        from labtui.session.labs import list_editions
        from labtui.session.settings import list_profiles, load_profile

        labs = [(Text(f"{entry.title}"), entry.id) for entry in list_editions() if not entry.problem]
        profiles = [load_profile(name) for name in list_profiles()]
        clusters = [(Text(each.title), each.id) for each in profiles if each.status in {"current", "generic"}]
        yield Static(Text(" labtui: a new lab folder", style="bold"), markup=False, id="wizard-title")
        with VerticalScroll(id="wizard-form", can_focus=False):
            with Horizontal(id="wizard-practice"):
                yield Static(Text(NO_ACCOUNT), markup=False)
                yield Button("p  Practice", id="practice", variant="primary", compact=True)
            yield _row("Lab", Select(labs, allow_blank=False, id="lab", compact=True), first=True)
            yield _row("Cluster", Select(clusters, allow_blank=False, id="cluster", compact=True))
            for name, title, meaning in (*FIELDS, *SITE_FIELDS):
                field = Input(placeholder=meaning, id=name, compact=True)
                yield _row(title, field, first=name in GROUPS)
            yield _row("Folder to make", Input(value=str(self.place), id="dir", compact=True))
        with Vertical(id="wizard-bottom"):
            yield Static(Text(""), markup=False, id="wizard-answer")
            with Horizontal(id="wizard-buttons"):
                yield Button("Test the connection", id="test", compact=True)
                yield Button("Make the folder", id="make", variant="primary", compact=True)
            yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        """Begin with the lab."""
        self.query_one("#lab").focus()
        self._show_site_fields()

    @on(Select.Changed, "#cluster")
    def _show_site_fields(self) -> None:
        for name, _, _ in SITE_FIELDS:
            row = self.query_one(f"#{name}", Input).parent
            if isinstance(row, Widget):
                row.display = self._unknown_cluster

    @property
    def _unknown_cluster(self) -> bool:
        return str(self.query_one("#cluster", Select).value) == UNKNOWN_CLUSTER

    def _choices(self) -> Choices:
        """What was typed about a cluster without a profile."""
        from labtui.slurm.site_profile import Choices

        typed: dict[str, Any] = {
            name: self.query_one(f"#{name}", Input).value.strip() for name, _, _ in SITE_FIELDS
        }
        return Choices(account=self.query_one("#account", Input).value.strip(), **typed)

    # ------------------------------------------------------------------ what was typed

    def settings(self) -> Settings:
        """The settings as typed.

        Raises:
            UsageError: when something is missing or no number.
        """
        from labtui.session.settings import Settings, changed

        typed = {name: self.query_one(f"#{name}", Input).value.strip() for name, _, _ in FIELDS}
        port = typed.pop("port")
        if port and not port.isdigit():
            raise UsageError(f"The port must be a number, not {port!r}.", "Leave it empty for 22.")
        lab, cluster = (
            str(self.query_one("#lab", Select).value),
            str(self.query_one("#cluster", Select).value),
        )
        return changed(Settings(edition=lab, profile=cluster), **typed, port=int(port) if port else None)

    def _say(self, text: str, *, ok: bool | None = None) -> None:
        mark = "" if ok is None else "✔ " if ok else "✘ "
        styles = themes.roles(self.app)
        style = "" if ok is None else styles.good if ok else styles.bad
        self.query_one("#wizard-answer", Static).update(Text(f"{mark}{text}", style=style))

    # ------------------------------------------------------------------ testing

    @on(Button.Pressed, "#practice")
    def action_practice(self) -> None:
        """Practise first; no folder is made here."""
        self.app.exit(PRACTICE)

    @on(Button.Pressed, "#test")
    def _test(self) -> None:
        try:
            settings = self.settings()
        except LabError as error:
            self._say(f"{error.sentence} {error.hint}", ok=False)
            return
        self._start_test(settings)

    def _start_test(self, settings: Settings, place: str = "") -> None:
        """Try the connection in a thread; with `place`, make the folder of a cluster without a profile there."""
        self._say("Connecting ...")
        prompter: Any = self.app.prompter  # type: ignore[attr-defined]
        choices = self._choices() if self._unknown_cluster else None
        arguments = (settings, prompter, self.post_message, choices, place)
        threading.Thread(target=try_connection, args=arguments, name="labtui-test", daemon=True).start()

    def on_test_ended(self, message: TestEnded) -> None:
        """Say how it went; leave when a folder was made."""
        self._say(message.text, ok=message.ok)
        if message.folder is not None:
            self.app.exit(message.folder)

    # ------------------------------------------------------------------ making

    @on(Button.Pressed, "#make")
    def _make(self) -> None:
        from labtui.lab.plan import withheld_scripts
        from labtui.session.folder import LabFolder, refuse_lab_folder
        from labtui.session.labs import load_edition

        try:
            settings = self.settings()
            place = self.query_one("#dir", Input).value.strip()
            if not place:
                raise UsageError("Enter the folder to make.")
            self._check(settings)
            if self._unknown_cluster:
                refuse_lab_folder(place)
                self._start_test(settings, place)
                return
            withheld = withheld_scripts(load_edition(settings.edition))
            folder = LabFolder.create(place, settings, withheld=withheld)
        except LabError as error:
            self._say(f"{error.sentence} {error.hint}", ok=False)
            return
        self.app.exit(folder.path)

    def _check(self, settings: Settings) -> None:
        """Refuse what no connection could ever begin with."""
        from labtui.session.lab_cluster import check_settings
        from labtui.session.settings import load_profile

        try:
            check_settings(settings, load_profile(settings.profile))
        except UsageError as error:
            raise UsageError(error.sentence, "Fill it in above.") from error

    def action_leave(self) -> None:
        """No folder."""
        self.app.exit(None)


def _row(title: str, field: Widget, *, first: bool = False) -> Horizontal:
    """A question and its field on one line; the `first` of a group has a blank line above it."""
    return Horizontal(
        Label(title, markup=False), field, classes="wizard-row -first" if first else "wizard-row"
    )


class WizardApp(SanitizedApp[Path | Literal["practice"] | None]):
    """The wizard alone; ends with the folder that was made, `PRACTICE`, or None."""

    TITLE = "labtui"
    CSS_PATH = [  # noqa: RUF012 - as Textual declares it
        STYLES / "base.tcss",
        STYLES / "wizard.tcss",
    ]
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, place: Path) -> None:
        super().__init__()
        themes.register(self)
        self.place = place
        self.prompter = ScreenPrompter()

    def get_default_screen(self) -> Screen[Any]:
        return WizardScreen(self.place)

    def on_mount(self) -> None:
        """Questions of the connection test come here."""
        self.prompter.attach(self.post_message)

    def on_unmount(self) -> None:
        """Nobody answers any more."""
        self.prompter.close()

    def on_prompt_asked(self, message: PromptAsked) -> None:
        """Password, code, fingerprint."""
        self.push_screen(prompt_screen(message.question), message.reply.put)


def try_connection(
    settings: Settings, prompter: Any, post: Any, choices: Choices | None = None, place: str = ""
) -> None:
    """Log in and out; with `choices`, ask the cluster what it is like, and with `place` make the lab folder there.

    Runs in a thread; posts `TestEnded`.
    """
    try:
        if choices is not None:
            post(_ask_site(settings, prompter, choices, place))
            return
        from labtui.session.lab_cluster import ssh_factory
        from labtui.session.settings import load_profile

        cluster = ssh_factory(settings, load_profile(settings.profile))(prompter, lambda record: None)
        try:
            cluster.connect()
            home = cluster.home()
            post(TestEnded(True, f"Logged in to {cluster.host}; your home is {home}."))
        finally:
            cluster.close()
    except LabError as error:
        post(TestEnded(False, f"{error.sentence} {error.hint}".strip()))
    except Exception as error:  # a thread has nobody else to tell
        post(TestEnded(False, f"The test ended unexpectedly ({type(error).__name__})."))


def _ask_site(settings: Settings, prompter: Any, choices: Choices, place: str) -> TestEnded:
    from labtui.lab.plan import withheld_scripts
    from labtui.session.lab_cluster import ask_cluster, lab_of_site, site_words
    from labtui.session.labs import load_edition

    setup = ask_cluster(settings, prompter, choices, lambda question: question.default, lambda host: None)
    text = " ".join(site_words(setup))
    if not place:
        return TestEnded(setup.trial.ok, text)
    folder = lab_of_site(place, settings, setup, withheld_scripts(load_edition(settings.edition)))
    return TestEnded(True, text, folder.path)
