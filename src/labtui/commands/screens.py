"""The commands that open screens: `labtui` alone and `labtui practice`."""

from __future__ import annotations

import contextlib
import gc
import os
import shlex
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from labtui.cluster.local_files import expand_home
from labtui.commands import options, terminal
from labtui.domain.errors import failure
from labtui.session.folder import LabFolder
from labtui.session.settings import SETTINGS_FILE, Settings, forget_trust, read_settings, trust, with_changes

if TYPE_CHECKING:
    import argparse

    from labtui.practice.cluster import PracticeCluster
    from labtui.practice.incidents import IncidentNote
    from labtui.tui.app import LabApp


def open_folder(named: str | None, *, trust: bool = False) -> int:
    """Open the screens on the folder `named`, or the one here; ask first whether to trust it if that is not known.

    Raises:
        UsageError: there is no terminal, or the folder is not a lab folder.
    """
    path = _named_folder(named)
    if named and path is None and not has_terminal():
        raise failure("not-a-lab", name=named)
    require_screen("The commands work without one: `labtui --help` lists them (submit, watch, results ...).")
    if path is None:
        from labtui.tui.screens.wizard import WizardApp

        made = WizardApp(expand_home(named or Path.cwd() / "lab")).run()
        if made == "practice":
            from labtui.commands.cli import main

            return main(["practice"])
        if made is None:
            return 0
        path = Path(made)
    terminal.ask_trust(path, given=trust)
    return show(path)


def has_terminal() -> bool:
    """Whether all standard streams are a terminal; Textual draws on stderr."""
    return all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))


def require_screen(hint: str) -> None:
    """Raise UsageError if no screen can be drawn; on a dumb terminal Textual would never stop redrawing."""
    if not has_terminal():
        raise failure("no-screen", hint=hint)
    if os.environ.get("TERM") == "dumb":
        raise failure("dumb-screen", hint=hint)
    if os.name == "posix" and 0 in os.get_terminal_size(sys.stdin.fileno()):
        import termios

        # The terminal reports no size: Textual would switch between 80 x 24 and 80 x 25 endlessly.
        termios.tcsetwinsize(sys.stdin.fileno(), (24, 80))


def _named_folder(named: str | None) -> Path | None:
    """The path of the lab folder, or None if it has to be made. Raises UsageError if it cannot be made there."""
    if named is None:
        here = terminal.folder_here(None)
        return here.path if here is not None else None
    path = expand_home(named)
    if (path / SETTINGS_FILE).is_file():
        return path
    # a word without a slash is a mistyped command rather than a new folder
    free = not any(path.iterdir()) if path.is_dir() else not path.exists() and path.name != named
    if not free:
        raise failure("task-given" if options.is_task_id(named) else "no-command", name=named)
    return None


def show(
    folder: Path,
    *,
    incidents: Sequence[IncidentNote] = (),
    practice_factor: float | None = None,
    kept: bool = True,
) -> int:
    """Show the screens on a lab folder until the student leaves; return the exit code.

    `incidents` is a list to which another thread appends; each is shown as it comes.
    `practice_factor` is the speed of a practice cluster's clock. Its jobs end with the screens, and so does its folder
    unless it is `kept`.
    """
    gc.disable()  # nothing that is imported now can be freed; the app enables it again
    from labtui.session.session import Session
    from labtui.session.settings import is_first_start
    from labtui.tui.app import OPEN_AGAIN, LabApp
    from labtui.tui.messages import ScreenPrompter

    app: LabApp | None = None
    while app is None or app.return_code == OPEN_AGAIN:
        before, prompter = app, ScreenPrompter()
        session = Session.open(folder, prompter=prompter, start=False, takes_over=True)
        try:
            app = LabApp(session, prompter=prompter, incidents=incidents, factor=practice_factor, kept=kept)
            app.with_tour = is_first_start()
            if before is not None:  # the folder is opened again: the same task and pane are shown
                app.main.pane = before.main.pane
                app.view_model.choose_task(before.view_model.task_id)
            code = app.run()
        finally:
            session.close()
            gc.enable()
    if sys.stdout.isatty() and practice_factor is None:
        from labtui.commands.follow import describe_open_runs
        from labtui.tui.view import View

        if under_way := describe_open_runs(View.of(session)):
            print(f"{under_way} Open labtui again, or `labtui watch`, to follow them and to send what waits.")
    if app.view_model.exporting and kept:
        print("The export is still being written; its files are in place when it is done.")
    if app.keep_in is not None:
        _keep_copy(folder, app.keep_in)
    return code or app.return_code or 0


def _keep_copy(folder: Path, place: Path) -> None:
    """Copy the lab folder of a practice session, which ends with its cluster, to `place`, and trust the copy."""
    import shutil

    from labtui.session.store import Store

    database = LabFolder.open(folder).database_path
    shutil.copytree(folder, place, ignore=shutil.ignore_patterns(f"{database.name}*"))
    with contextlib.closing(Store(database, read_only=True)) as store:
        store.copy_to(place / database.name)
    trust(place)
    print(f"Kept in {place}. `labtui {shlex.quote(str(place))}` opens it; the practice cluster has ended.")


LAB = "hpc4ai-ch10"
"""The edition of a practice session by default."""


def practice_arguments(parser: argparse.ArgumentParser) -> None:
    words = f"the lab edition (default {LAB}; `labtui labs` lists them)"
    parser.add_argument("--lab", default=LAB, metavar="ID", help=words)
    parser.add_argument("--keep", metavar="DIR", help="keep lab folder and cluster in DIR; continue there")
    words = "cluster seconds per second (default 20, or as kept); over 100, jobs may run out of time before they train"
    parser.add_argument("--factor", type=float, metavar="N", help=words)
    parser.add_argument("--train", action="store_true", help="really train small images on this computer")
    words = "simulate these incidents in order, one in each job (--list explains them)"
    parser.add_argument("--rehearse", nargs="+", action="extend", default=[], metavar="NAME", help=words)
    parser.add_argument("--list", action="store_true", help="list the incidents and explain each")
    parser.add_argument("--serve", action="store_true", help="no screens: print how to log in, and wait")


def run_practice(args: argparse.Namespace) -> int:
    """Start the cluster, then the screens on it (or wait, with ``--serve``)."""
    from labtui.practice.cluster import PracticeCluster
    from labtui.practice.incidents import INCIDENTS, IncidentPlan, choose

    if args.list:
        for name, incident in INCIDENTS.items():
            terminal.print_wrapped(f"{name}\n  {incident.title}.\n  {incident.text}\n", hang=0)
        return 0
    names = choose(args.rehearse)
    _check_arguments(args)
    terminal.say("Starting the practice cluster ...")
    place = expand_home(args.keep) / "cluster" if args.keep else None
    with PracticeCluster(place, factor=args.factor, train=args.train) as cluster:
        folder = _prepare_lab_folder(args, cluster)
        happened: list[IncidentNote] = []
        plan = IncidentPlan(cluster, names, _print_incident if args.serve else happened.append)
        try:
            if args.serve:
                return _serve(cluster, folder)
            speed = cluster.clock.factor
            code = show(folder, incidents=happened, practice_factor=speed, kept=bool(args.keep))
        finally:
            if left := plan.close():
                terminal.say(f"Not simulated: {', '.join(left)}. Each incident needs a job of its own.")
            if not args.keep:
                forget_trust(folder)
    if args.keep and sys.stdout.isatty():
        print(f"Kept in {args.keep}. To continue: {shlex.join(['labtui', 'practice', '--keep', args.keep])}")
    return code


def _check_arguments(args: argparse.Namespace) -> None:
    """Raise UsageError for args that cannot work, before the cluster starts."""
    import importlib.util

    from labtui.session.labs import load_edition

    edition = load_edition(args.lab)
    if args.train and edition.framework_scripts:
        raise failure("train-here", title=edition.title)
    if args.train and importlib.util.find_spec("tensorflow") is None:
        raise failure("train-without")
    if args.keep:
        _check_keep_folder(expand_home(args.keep).resolve(), args)
    if args.factor is not None and not 0.1 <= args.factor <= 1000:
        raise failure("factor")
    if not args.serve:
        require_screen("`labtui practice --serve` starts the cluster alone; the commands then work on it.")


def _check_keep_folder(path: Path, args: argparse.Namespace) -> None:
    """Check that a practice session can be kept here: the folder is new, empty, or already keeps one.

    Raises:
        OSError: it is no folder, or cannot be read.
        UsageError: the folder has other files, which would be mixed with the session's.
        NotTrusted: the folder came from somebody else, and its jobs would run on this computer.
    """
    from labtui.practice.layout import Layout

    if not path.exists() or not any(path.iterdir()):
        return
    lab = path / "lab" / SETTINGS_FILE
    kept = (Layout(path / "cluster").programs / "sbatch").exists()
    if not kept or not lab.exists() or read_settings(lab).profile != "practice":
        raise failure("not-kept-there", path=path, new=shlex.quote(str(path / "practice")))
    terminal.require_trust(lab.parent, args)


def _prepare_lab_folder(args: argparse.Namespace, cluster: PracticeCluster) -> Path:
    """Make the lab folder, or update its settings to this cluster's port and keys; return its path."""
    from labtui.commands.lab_folders import id_or_path
    from labtui.session.labs import load_edition

    path = expand_home(args.keep) / "lab" if args.keep else cluster.layout.root / "lab"
    folder = LabFolder.open(path) if (path / SETTINGS_FILE).exists() else None
    settings = folder.settings() if folder else Settings(edition=id_or_path(args.lab), profile="practice")
    edition = load_edition(settings.edition, folder)
    settings = with_changes(settings, **cluster.settings(edition.framework_scripts))
    if folder is None:
        return LabFolder.create(path, settings, wanted=edition.needs).path
    folder.save_settings(settings)
    return folder.path


def _serve(cluster: PracticeCluster, folder: Path) -> int:
    login = cluster.settings()
    print(f"lab folder   {folder}")
    way = f"-p {login['port']} -i {shlex.quote(login['identity'])} -- {login['user']}@{login['host']}"
    print(f"log in       ssh {way}")
    print(f"host key     {login['host_key']}")
    print(f"speed        {cluster.clock.factor:g} x", flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        signal.pause()
    return 0


def _print_incident(note: IncidentNote) -> None:
    print(f"incident     {note.title}. {note.text}", flush=True)
