"""`labtui check [TASK...]`: which boxes tick, on what evidence, and what is still missing.

Exit 0 when every task asked for is done, 1 when not. Practice counts in a practice folder and is called so.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from labtui.verbs.spent import spent
from labtui.verbs.terminal import Open, add_folder_argument, plain
from labtui.verbs.window import window_width

if TYPE_CHECKING:
    from labtui.core.lab.checks import TaskCheck
    from labtui.core.lab.edition import Edition
    from labtui.core.lab.progress import Progress

_GLYPHS = {"done": "✔", "partial": "◐", "open": "○", "stale": "↻"}
_WORDS = {"partial": "begun"}
"""The screens' words, where they are not those of the JSON."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which tasks, and the form of the answer."""
    parser.add_argument("task", nargs="*", metavar="TASK", help="a task's number (default: all of them)")
    add_folder_argument(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Look at the evidence in the folder; asks no cluster."""
    from labtui.core.lab.checks import check_all
    from labtui.core.lab.plan import task_of
    from labtui.core.lab.progress import progress
    from labtui.engine.labs import gather_evidence

    with Open(args, start=False) as lab:
        edition = lab.session.edition
        asked = [task_of(edition, name).id for name in args.task] or [task.id for task in edition.tasks]
        checks = check_all(edition, gather_evidence(lab.session.folder, edition, lab.state))
        bill = spent(lab.state, practice=lab.session.practice)
    far = progress(edition, checks)
    wanted = [check for check in checks if check.task_id in asked]
    if args.json:
        print(json.dumps(_json(edition, wanted, far) | {"spent": bill}, indent=1, ensure_ascii=False))
    else:
        for check in wanted:
            _print(edition, check, full=bool(args.task))
        if not args.task:
            _print_progress(far)
    return 0 if all(check.done for check in wanted) else 1


def _json(edition: Edition, checks: list[TaskCheck], far: Progress) -> dict[str, Any]:
    tasks = []
    for check in checks:
        row = asdict(check)
        row["title"] = next(task.title for task in edition.tasks if task.id == check.task_id)
        tasks.append(row)
    return {"lab": edition.id, "tasks": tasks, "progress": asdict(far)}


def _glyph(status: str) -> str:
    """The status as a sign, or as a letter where the output cannot show it."""
    try:
        _GLYPHS[status].encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return _word(status)[0].upper()
    return _GLYPHS[status]


def _word(status: str) -> str:
    """How the screens call it: ``begun`` for what JSON calls ``partial``."""
    return _WORDS.get(status, status)


def _print(edition: Edition, check: TaskCheck, *, full: bool) -> None:
    title = next(task.title for task in edition.tasks if task.id == check.task_id)
    word = _word(check.status) + (" (practice)" if check.practice and check.status == "done" else "")
    _tell(f"{_glyph(check.status)} {check.task_id:<6} {word:<16} {title}")
    if check.missing:
        _tell(f"         {check.missing}")
    for item in check.items if full else ():
        mark = "stale" if item.met and item.stale else "yes" if item.met else "no"
        shown = f"  [{item.evidence}]" if item.evidence else ""
        _tell(f"         {mark:<5} {item.sentence}{shown}")
    for note in check.notes:
        _tell(f"         note: {note}")


def _tell(text: str) -> None:
    """One line; in a window it is broken between words."""
    from labtui.core.results.narrow import fitted_lines

    width = window_width()
    for line in fitted_lines([plain(text)], width):
        print(line)


def _print_progress(far: Progress) -> None:
    where = f", now {far.current}" if far.current else ""
    after = f", then {far.next}" if far.next else ""
    print(f"{far.percent:.0f} % ({far.done} of {far.total} tasks done{where}{after})")
