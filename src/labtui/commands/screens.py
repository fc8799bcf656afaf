"""The commands that open screens: `labtui` alone and `labtui practice`."""

from __future__ import annotations

import contextlib
import gc
import os
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from labtui.cluster.local_files import named_path
from labtui.domain.errors import UsageError

if TYPE_CHECKING:
    import argparse

    from labtui.domain.state import LabState
    from labtui.practice.incidents import IncidentNote


LOOK_S = 2.0
CLOSE_S = 10.0
"""How long closing may take once the window is gone."""


def open_folder(named: str | None, *, trust: bool = False) -> int:
    """Open the screens over the folder named, or the one here; one that is not trusted is asked about first.

    Raises:
        UsageError: there is no terminal, or the folder named is no lab folder.
    """
    path = _folder(named)
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):  # Textual draws on stderr
        if named and path is None:
            raise UsageError(
                f"{named} is not a lab folder.",
                "`labtui init DIR --lab ID --cluster PROFILE` makes one; on a terminal `labtui DIR` does.",
            )
        raise UsageError(
            "The screens need a terminal.",
            "The commands work without one: `labtui --help` lists them (submit, watch, results ...).",
        )
    refuse_dumb_terminal()
    if path is None:
        made = _make_one(Path(named) if named else None)
        if made == "practice":
            from labtui.commands.cli import main

            return main(["practice"])
        if made is None:
            return 0
        path = Path(made)
    from labtui.commands.terminal import ask_trust

    ask_trust(path, given=trust)
    return show(path)


def refuse_dumb_terminal() -> None:
    """Screens need a cursor that moves; where there is none Textual would draw the same picture for ever.

    Raises:
        UsageError: the terminal says that it is a dumb one.
    """
    if os.environ.get("TERM") == "dumb":
        raise UsageError(
            "This terminal cannot show screens (TERM is dumb).",
            "Open a terminal window, or use the commands: `labtui --help` lists them.",
        )


def _folder(named: str | None) -> Path | None:
    """The lab folder meant, or None when it has to be made."""
    from labtui.session.folder import find_folder
    from labtui.session.settings import SETTINGS_FILE

    if named is None:
        try:
            return find_folder()
        except UsageError:
            return None
    path = named_path(named)
    if (path / SETTINGS_FILE).is_file():
        return path
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise UsageError(
            f"{named} is neither a command of labtui nor a lab folder.", "`labtui --help` lists the commands."
        )
    if not path.exists() and "/" not in named and "\\" not in named and not named.startswith("~"):
        raise UsageError(
            f"{named} is neither a command of labtui nor a folder.",
            "`labtui --help` lists the commands; `labtui ./NAME` makes a new lab folder.",
        )
    return None


def _make_one(place: Path | None) -> Path | Literal["practice"] | None:
    """The wizard; None when the student left it, "practice" where they want to practise first."""
    from labtui.tui.screens.wizard import WizardApp

    with leaving_with_the_terminal():
        return WizardApp(named_path(place or Path.cwd() / "lab")).run()


def show(
    folder: Path,
    *,
    incidents: Sequence[IncidentNote] = (),
    practice_factor: float | None = None,
    kept: bool = True,
) -> int:
    """The screens over a lab folder until the student leaves; the exit code.

    `incidents` is a list that another thread appends to: each is shown as it comes.
    `practice_factor` is how much faster than real a rehearsal's clock goes; then its jobs end with the screens, and
    its folder as well unless it is `kept`.
    """
    gc.disable()  # nothing of what is imported now will be freed; the app switches it on again
    from labtui.session.session import Session
    from labtui.tui.app import LabApp
    from labtui.tui.messages import ScreenPrompter

    prompter = ScreenPrompter()
    session = Session.open(folder, prompter=prompter, start=False)
    with leaving_with_the_terminal(session.close):
        try:
            app = LabApp(session, prompter=prompter, incidents=incidents, factor=practice_factor, kept=kept)
            code = app.run()
        finally:
            prompter.close()
            session.close()
            gc.enable()
    if sys.stdout.isatty() and practice_factor is None:
        _print_remaining_work(session.state)
    elif app.keep_in is not None:
        _keep(folder, app.keep_in)
    elif sys.stdout.isatty() and not kept and session.state.runs:
        print("The practice session is over. `labtui practice --keep DIR` keeps the next one.")
    return code or 0


def _keep(folder: Path, place: Path) -> None:
    """A copy of a practice session's lab folder, which ends with its cluster."""
    import shutil

    from labtui.session.trust import trust

    try:
        shutil.copytree(folder, place)
    except OSError as error:
        raise UsageError(f"{place} cannot be written: {error.strerror}.") from error
    trust(place)
    print(f"Kept in {place}. `labtui {shlex.quote(str(place))}` opens it; its cluster is over.")


@contextlib.contextmanager
def leaving_with_the_terminal(close: Callable[[], object] = lambda: None) -> Iterator[None]:
    """End the program, after `close`, when its window is gone without a hang-up (as under nohup).

    Textual's own threads would read the end of input for ever, and wait for ever to write.
    """
    over = threading.Event()

    def watch() -> None:
        while not over.wait(LOOK_S):
            if not _terminal_there():
                closing = threading.Thread(target=close, name="labtui-closing", daemon=True)
                closing.start()
                closing.join(CLOSE_S)
                os._exit(129)  # as a hang-up would have ended it

    threading.Thread(target=watch, name="labtui-terminal", daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _terminal_there() -> bool:
    try:
        return sys.__stdin__ is not None and sys.__stdin__.isatty()
    except (OSError, ValueError):
        return False


def _print_remaining_work(state: LabState) -> None:
    """After the screens are gone: what runs on without them."""
    from labtui.domain.model import RunPhase

    running = [
        run
        for run in state.runs.values()
        if run.phase in {RunPhase.QUEUED, RunPhase.STARTING, RunPhase.RUNNING}
    ]
    waiting = [run for run in state.runs.values() if run.phase is RunPhase.WAITING]
    if running:
        goes = "1 run continues" if len(running) == 1 else f"{len(running)} runs continue"
        print(f"{goes} on the cluster; open labtui again to catch up.")
    if waiting:
        stays = "1 run stays" if len(waiting) == 1 else f"{len(waiting)} runs stay"
        print(f"{stays} in the submission queue, to be sent while labtui or `labtui watch` is open.")


LAB = "hpc4ai-ch10"


def practice_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the rehearsal."""
    from labtui.commands.terminal import add_trust_argument

    parser.add_argument(
        "--lab", default=LAB, metavar="ID", help=f"the lab edition (default {LAB}; see `labtui labs`)"
    )
    add_trust_argument(parser)
    parser.add_argument(
        "--keep",
        metavar="DIR",
        help="keep the lab folder and the cluster in DIR, and continue there next time",
    )
    parser.add_argument(
        "--factor", type=float, metavar="N", help="the cluster's seconds per second (default 20)"
    )
    parser.add_argument(
        "--train", action="store_true", help="train for real on this computer's CPU, with small images"
    )
    parser.add_argument(
        "--rehearse",
        action="append",
        default=[],
        metavar="NAME",
        help="simulate this incident, once a job has run for a minute (--list shows them)",
    )
    parser.add_argument(
        "--seeded", type=int, metavar="N", help="simulate three incidents, chosen by this number"
    )
    parser.add_argument("--list", action="store_true", help="list the incidents and explain each")
    parser.add_argument(
        "--serve",
        action="store_true",
        help="no screens: start the cluster, print how to log in, and wait until interrupted",
    )


def run_practice(arguments: argparse.Namespace) -> int:
    """Start the cluster, then the screens on it (or wait, with ``--serve``)."""
    from labtui.practice.incidents import INCIDENTS, choose
    from labtui.session.trust import forget

    if arguments.list:
        from labtui.commands.terminal import print_wrapped

        for name, incident in INCIDENTS.items():
            print_wrapped(f"{name}\n  {incident.note.title}.\n  {incident.note.text}\n", hang=0)
        return 0
    names = choose(arguments.rehearse, arguments.seeded)
    _check(arguments)
    with _cluster(arguments) as cluster:
        folder = _lab_folder(arguments, cluster)
        if arguments.serve:
            return _serve(cluster, folder, names)
        code = _show(cluster, folder, names, kept=bool(arguments.keep))
        if not arguments.keep:
            forget(folder)
    if arguments.keep and sys.stdout.isatty():
        again = ["labtui", "practice", "--keep", arguments.keep]
        again += ["--lab", arguments.lab] if arguments.lab != LAB else []
        print(f"Kept in {arguments.keep}. To continue: {shlex.join(again)}")
    return code


def _check(arguments: argparse.Namespace) -> None:
    from labtui.domain.errors import UsageError
    from labtui.lab.plan import framework_scripts
    from labtui.session.labs import load_edition

    edition = load_edition(arguments.lab)  # a sentence now, not a lab folder that cannot be opened later
    if arguments.train and framework_scripts(edition):
        raise UsageError(
            f"--train is for the labs on one node with TensorFlow, not for {edition.title}.",
            "Without --train the training is simulated; see docs/training-scripts.md for training on pretend GPUs.",
        )
    if arguments.keep:
        _check_folder(named_path(arguments.keep), arguments)
    if arguments.factor is not None and not 0.1 <= arguments.factor <= 1000:
        raise UsageError("The factor must be between 0.1 and 1000.", "20 makes five minutes last 15 seconds.")
    if arguments.train:
        import importlib.util

        if importlib.util.find_spec("tensorflow") is None:
            raise UsageError(
                "--train needs TensorFlow, which is not installed here.",
                "`pipx inject labtui tensorflow`, or `uv tool install '.[train]'` where labtui's own files are. "
                "Without --train, training is simulated.",
            )
    if not arguments.serve and not all(each.isatty() for each in (sys.stdin, sys.stdout, sys.stderr)):
        raise UsageError(
            "The screens need a terminal.",
            "`labtui practice --serve` starts the cluster alone; the commands (submit, watch, results "
            "...) then work on it.",
        )
    if not arguments.serve:
        refuse_dumb_terminal()


def _check_folder(path: Path, arguments: argparse.Namespace) -> None:
    """Whether a practice session can be kept here: in a folder that is new or empty, or where one was kept before.

    Raises:
        UsageError: something else is here, which would get lost between the session's files.
        NotTrusted: it came from somebody else: its jobs would run on this computer.
    """
    from labtui.commands.terminal import require_trust
    from labtui.domain.errors import UsageError
    from labtui.practice.layout import Layout
    from labtui.session.settings import SETTINGS_FILE, read_settings

    try:
        empty = not path.exists() or not any(path.iterdir())
    except OSError as error:
        raise UsageError(f"{path} cannot be used: {error.strerror}.", "Name another folder.") from error
    if empty:
        return
    lab = path / "lab" / SETTINGS_FILE
    kept = (Layout(path / "cluster").programs / "sbatch").exists()
    if not kept or not lab.exists() or not read_settings(lab).practice:
        raise UsageError(
            f"{path} is not empty, and no practice session was kept there.",
            f"Name a new folder: labtui practice --keep {shlex.quote(str(path / 'practice'))}",
        )
    require_trust(lab.parent, arguments)


@contextlib.contextmanager
def _cluster(arguments: argparse.Namespace) -> Iterator[Any]:
    from labtui.practice.cluster import DEFAULT_FACTOR, PracticeCluster

    folder = named_path(arguments.keep) / "cluster" if arguments.keep else None
    cluster = PracticeCluster.start(
        folder, factor=arguments.factor or DEFAULT_FACTOR, train=arguments.train, seed=arguments.seeded or 0
    )
    ended = False

    both = (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM))

    def end(*_: object) -> None:
        nonlocal ended
        ended = True
        for number in both:  # a window that closes and a `kill` come together: closing is not interrupted
            signal.signal(number, signal.SIG_IGN)
        last = threading.Timer(CLOSE_S, os._exit, (143,))
        last.daemon = True
        last.start()
        sys.exit(143)

    # A closed window or a `kill` ends the cluster as a key does; after kill -9 its watchdog does it.
    for number in both:
        signal.signal(number, end)
    try:
        yield cluster
    finally:
        cluster.close()
        if ended:  # Textual's thread would read the end of input for ever, and Python wait for it
            os._exit(143)


def _lab_folder(arguments: argparse.Namespace, cluster: Any) -> Path:
    """The lab folder, made or brought up to date with this cluster's port and keys."""
    from labtui.lab.plan import framework_scripts, withheld_scripts
    from labtui.session.folder import LabFolder
    from labtui.session.labs import load_edition
    from labtui.session.settings import SETTINGS_FILE, Settings, changed

    path = named_path(arguments.keep) / "lab" if arguments.keep else cluster.layout.root / "lab"
    edition = load_edition(arguments.lab)
    login = cluster.login.settings_for(framework_scripts(edition))
    if (path / SETTINGS_FILE).exists():
        folder = LabFolder.open(path)
        folder.save_settings(changed(folder.settings(), **login))
    else:
        withheld = withheld_scripts(edition)
        settings = Settings(edition=arguments.lab, **login)
        folder = LabFolder.create(path, settings, withheld=withheld)
    return folder.path


def _serve(cluster: Any, folder: Path, names: list[str]) -> int:
    from labtui.practice.incidents import IncidentPlan

    login = cluster.login
    print(f"lab folder   {folder}")
    words = ["ssh", "-p", str(login.port), "-i", str(login.identity_file), "--", f"{login.user}@{login.host}"]
    print(f"log in       {shlex.join(words)}")
    print(f"host key     {login.host_key}")
    print(f"speed        {cluster.clock.factor:g} x", flush=True)
    plan = IncidentPlan(
        cluster, names, lambda note: print(f"incident     {note.title}. {note.text}", flush=True)
    )
    with contextlib.suppress(KeyboardInterrupt):
        signal.pause()
    plan.close()
    return 0


def _show(cluster: Any, folder: Path, names: list[str], *, kept: bool) -> int:
    from labtui.practice.incidents import IncidentPlan

    happened: list[IncidentNote] = []
    plan = IncidentPlan(cluster, names, happened.append)
    try:
        return show(folder, incidents=happened, practice_factor=cluster.clock.factor, kept=kept)
    finally:
        plan.close()
