"""`labtui doctor`: find what would go wrong before a student meets it. Changes nothing on the cluster.

Exit 0: nothing is wrong (warnings may be told). Exit 1: something is.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from labtui.core.doctor import Check, Wanted, worst_status
from labtui.errors import UsageError
from labtui.stdio import trusted
from labtui.verbs.by_hand import add_show_commands, show_lessons
from labtui.verbs.connecting import (
    add_connection_arguments,
    overrides_of,
    plain,
    prompter_here,
    wanted_of,
)
from labtui.verbs.terminal import say

if TYPE_CHECKING:
    from labtui.cluster.target import Overrides
    from labtui.core.lab.shell import Lesson
    from labtui.core.profile import Profile
    from labtui.engine.folder import LabFolder

_GLYPHS = {"ok": "✔", "warning": "!", "problem": "✘", "skipped": "–"}
_COLOURS = {"ok": "32", "warning": "33", "problem": "31", "skipped": "2"}
DEFAULT_PROFILE = "mn5"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The folder, or what `init` would be told, and the form of the answer."""
    parser.add_argument("folder", nargs="?", metavar="FOLDER", help="the lab folder (default: the one here)")
    add_connection_arguments(parser)
    add_show_commands(parser)
    parser.add_argument("--json", action="store_true", help="print the checks as JSON")


def run(args: argparse.Namespace) -> int:
    """Examine and report; each check as soon as it is known."""
    from labtui.cluster.doctor import examine

    profile, overrides, wanted, folder = _what_is_meant(args)
    if args.show_commands:
        told = _by_hand(profile, overrides, wanted)
        return show_lessons([("finding what would go wrong", told)], as_json=args.json)
    checks = []
    seen: dict[str, bool] = {}
    for check in examine(profile, overrides, wanted, prompter_here(), seen.update):
        checks.append(check)
        if not args.json:
            _print(check)
    if folder is not None and seen:
        _remember(folder, seen)
    if args.json:
        print(
            json.dumps(
                {"profile": profile.id, "status": worst_status(checks), "checks": _plain(checks)}, indent=2
            )
        )
    else:
        _summary(checks)
    return 1 if worst_status(checks) == "problem" else 0


def _remember(folder: LabFolder, seen: dict[str, bool]) -> None:
    """Keep in the lab folder what was seen: the check of the set-up looks at it. No matter if it cannot be kept."""
    from labtui.engine.session import Session
    from labtui.errors import LabError

    with contextlib.suppress(LabError), Session.open(folder.path, start=False) as session:
        session.note_places(seen)


def _here(args: argparse.Namespace) -> Path | None:
    """The lab folder here or above; None without one, or when a cluster was named instead."""
    from labtui.engine.folder import find_folder

    if args.cluster:
        return None
    try:
        return find_folder()
    except UsageError:
        say(f"There is no lab folder here, so this is about the profile {DEFAULT_PROFILE} (see --cluster).")
        return None


def _what_is_meant(
    args: argparse.Namespace,
) -> tuple[Profile, Overrides, Wanted, LabFolder | None]:
    """The lab folder's settings with the options put on top; without a folder, the options and a profile."""
    from labtui.engine.folder import LabFolder
    from labtui.engine.profiles import load_profile
    from labtui.engine.settings import read_settings

    overrides, wanted = overrides_of(args), wanted_of(args)
    path = Path(args.folder) if args.folder else _here(args)
    if path is None:
        return load_profile(args.cluster or DEFAULT_PROFILE), overrides, wanted, None
    folder = LabFolder.open(path)
    told = read_settings(folder.settings_path)
    overrides = dataclasses.replace(
        overrides,
        hosts=overrides.hosts or ((told.host,) if told.host else ()),
        port=overrides.port or told.port,
        user=overrides.user or told.user,
        identity_file=overrides.identity_file or told.identity,
        host_key=overrides.host_key or told.host_key,
    )
    wanted = Wanted(
        account=wanted.account or told.account,
        qos=wanted.qos or told.qos,
        root=wanted.root or told.root,
        data_dir=told.data_dir,
        container=told.container,
    )
    return load_profile(args.cluster or told.profile, folder.path), overrides, wanted, folder


def _by_hand(profile: Profile, overrides: Overrides, wanted: Wanted) -> tuple[Lesson, ...]:
    """What a person would try: log in, ask Slurm, look at the places."""
    from labtui.core.lab.shell import Line, Subject, lessons

    hosts = overrides.hosts or profile.login_hosts
    line = Line(
        host=hosts[0] if hosts else "HOST",
        user=overrides.user or profile.user,
        port=overrides.port or profile.port,
        identity=overrides.identity_file,
    )
    account = wanted.account or profile.default_account or "ACCOUNT"
    paths = (
        wanted.data_dir or profile.data_dir,
        wanted.container or profile.launch.container or profile.container,
    )
    filled = tuple(
        path.replace("{account}", account).replace("{user}", line.user or "USER") for path in paths if path
    )
    about = Subject(paths=filled, quota_command=profile.quota_command)
    return lessons(line, about, ("log-in", "rights", "queue", "places"))


def _print(check: Check) -> None:
    glyph, word = _GLYPHS[check.status], check.status
    if sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
        glyph = f"\x1b[{_COLOURS[check.status]}m{glyph}\x1b[0m"
    word = "" if check.status == "ok" else f" ({word})"
    line = f"{glyph} {check.title}{word}: {plain(check.sentence)}"
    encoding = sys.stdout.encoding or "utf-8"
    print(line.encode(encoding, "replace").decode(encoding), file=trusted(sys.stdout))
    if check.fix:
        print(f"    fix: {plain(check.fix)}".encode(encoding, "replace").decode(encoding), flush=True)


def _summary(checks: Iterable[Check]) -> None:
    print(f"\n{summary(list(checks))}")


def summary(checks: Sequence[Check]) -> str:
    """All checks in a line, as in ``5 checks: 1 wrong, 2 to look at``."""
    counts = {"wrong": "problem", "to look at": "warning"}
    found = {word: sum(check.status == status for check in checks) for word, status in counts.items()}
    parts = [f"{count} {word}" for word, count in found.items() if count]
    if not parts:
        return f"All {len(checks)} checks are fine." if len(checks) != 1 else "The one check is fine."
    return f"{len(checks)} check{'s' if len(checks) != 1 else ''}: {', '.join(parts)}."


def _plain(checks: Iterable[Check]) -> list[dict[str, str]]:
    return [dataclasses.asdict(check) for check in checks]
