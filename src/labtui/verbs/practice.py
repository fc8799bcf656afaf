"""`labtui practice`: the whole evening on a rehearsal cluster inside this program, without an account."""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

LAB = "hpc4ai-ch10"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the rehearsal."""
    parser.add_argument(
        "--lab", default=LAB, metavar="ID", help=f"the lab edition (default {LAB}; see `labtui labs`)"
    )
    parser.add_argument(
        "--keep", metavar="DIR", help="keep the lab folder and the cluster in DIR, and go on there next time"
    )
    parser.add_argument(
        "--factor", type=float, metavar="N", help="the cluster's seconds per second (default 20)"
    )
    parser.add_argument(
        "--train", action="store_true", help="really train, on this computer's CPU, with small images"
    )
    parser.add_argument(
        "--rehearse",
        action="append",
        default=[],
        metavar="NAME",
        help="let this go wrong (--list shows what can)",
    )
    parser.add_argument(
        "--seeded", type=int, metavar="N", help="let three things go wrong, chosen by the number"
    )
    parser.add_argument("--list", action="store_true", help="list what can go wrong, and what it teaches")
    parser.add_argument(
        "--serve",
        action="store_true",
        help="no screens: start the cluster, print how to log in, and wait until interrupted",
    )


def run(arguments: argparse.Namespace) -> int:
    """Start the cluster, then the screens on it (or wait, with ``--serve``)."""
    from labtui.practice.incidents import INCIDENTS, choose

    if arguments.list:
        for name, incident in INCIDENTS.items():
            print(f"{name}\n  {incident.lesson.title}.\n  {incident.lesson.text}\n")
        return 0
    _check(arguments)
    names = choose(arguments.rehearse, arguments.seeded)
    with _cluster(arguments) as cluster:
        folder = _lab_folder(arguments, cluster)
        if arguments.serve:
            return _serve(cluster, folder, names, arguments.seeded or 0)
        return _show(cluster, folder, names, arguments.seeded or 0, kept=bool(arguments.keep))


def _check(arguments: argparse.Namespace) -> None:
    from labtui.engine.labs import load_edition
    from labtui.errors import UsageError

    load_edition(arguments.lab)  # a sentence now, not a lab folder that cannot be opened later
    if arguments.factor is not None and not 0.1 <= arguments.factor <= 1000:
        raise UsageError(
            "The factor must lie between 0.1 and 1000.", "20 makes five minutes last 15 seconds."
        )
    if arguments.train:
        import importlib.util

        if importlib.util.find_spec("tensorflow") is None:
            raise UsageError(
                "Really training needs TensorFlow, which is not installed here.",
                "pipx inject labtui tensorflow (or: uv tool install 'labtui[train]'). Without "
                "--train, training is rehearsed.",
            )
    if not arguments.serve and not all(each.isatty() for each in (sys.stdin, sys.stdout, sys.stderr)):
        raise UsageError(
            "The screens need a terminal, and this is none.",
            "`labtui practice --serve` starts the cluster alone; the verbs (submit, watch, results "
            "...) then work on it.",
        )
    if not arguments.serve:
        from labtui.verbs.open_screen import refuse_dumb_terminal

        refuse_dumb_terminal()


@contextlib.contextmanager
def _cluster(arguments: argparse.Namespace) -> Iterator[Any]:
    from labtui.practice.cluster import DEFAULT_FACTOR, PracticeCluster

    folder = Path(arguments.keep).expanduser() / "cluster" if arguments.keep else None
    cluster = PracticeCluster.start(
        folder, factor=arguments.factor or DEFAULT_FACTOR, train=arguments.train, seed=arguments.seeded or 0
    )
    # A closed window or a `kill` ends the cluster as a key does; after kill -9 its watchdog does it.
    for number in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
        signal.signal(number, lambda *_: sys.exit(143))
    try:
        yield cluster
    finally:
        cluster.close()


def _lab_folder(arguments: argparse.Namespace, cluster: Any) -> Path:
    """The lab folder, made or brought up to date with this cluster's port and keys."""
    from labtui.core.lab.plan import withheld_scripts
    from labtui.engine.folder import SETTINGS_FILE, LabFolder
    from labtui.engine.labs import load_edition
    from labtui.engine.settings import Settings, changed

    path = Path(arguments.keep).expanduser() / "lab" if arguments.keep else cluster.layout.root / "lab"
    told = cluster.login.settings
    if (path / SETTINGS_FILE).exists():
        folder = LabFolder.open(path)
        folder.save_settings(changed(folder.settings(), **told))
    else:
        withheld = withheld_scripts(load_edition(arguments.lab))
        settings = Settings(edition=arguments.lab, **told)
        folder = LabFolder.create(path, settings, withheld=withheld)
    return folder.path


def _serve(cluster: Any, folder: Path, names: list[str], seed: int) -> int:
    from labtui.practice.incidents import IncidentPlan

    login = cluster.login
    print(f"lab folder   {folder}")
    print(f"log in       ssh -p {login.port} -i {login.identity_file} {login.user}@{login.host}")
    print(f"host key     {login.host_key}")
    print(f"speed        {cluster.clock.factor:g} x", flush=True)
    plan = IncidentPlan(
        cluster, names, seed, lambda lesson: print(f"lesson       {lesson.title}. {lesson.text}", flush=True)
    )
    with contextlib.suppress(KeyboardInterrupt):
        signal.pause()
    plan.close()
    return 0


def _show(cluster: Any, folder: Path, names: list[str], seed: int, *, kept: bool) -> int:
    from labtui.practice.incidents import IncidentPlan
    from labtui.verbs.open_screen import show

    notes: list[tuple[str, str]] = []
    plan = IncidentPlan(cluster, names, seed, lambda lesson: notes.append((lesson.title, lesson.text)))
    try:
        return show(folder, practice_notes=notes, practice_factor=cluster.clock.factor, kept=kept)
    finally:
        plan.close()
