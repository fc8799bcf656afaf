"""`labtui push`: send `scripts/` to the cluster. Unchanged files cost nothing."""

from __future__ import annotations

import argparse
import json

from labtui.verbs.by_hand import add_show_commands, show_lessons
from labtui.verbs.terminal import Open, add_folder_argument, say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Folder and form of the answer."""
    add_folder_argument(parser)
    add_show_commands(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Send and report."""
    with Open(args, start=False) as lab:
        if args.show_commands:
            from labtui.engine.lessons import lessons_of_push

            return show_lessons([("sending scripts/", lessons_of_push(lab.session))], as_json=args.json)
        lab.session.start()
        future = lab.session.push()
        lab.online()
        report = future.result()
        if args.json:
            print(
                json.dumps({"sent": report.sent, "unchanged": report.unchanged, "bytes": report.bytes_sent})
            )
        else:
            for path in report.sent:
                print(f"sent       {path}")
            for path in report.unchanged:
                print(f"unchanged  {path}")
            say(f"{len(report.sent)} files sent, {report.bytes_sent} bytes.")
    return 0
