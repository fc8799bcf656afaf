"""`labtui repair`: rebuild the database from what can still be read, the job scripts and the mirrors."""

from __future__ import annotations

import argparse

from labtui.verbs.terminal import add_folder_argument, say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The folder."""
    add_folder_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Rebuild; the damaged file is kept beside the new one."""
    from labtui.engine.folder import LabFolder, find_folder
    from labtui.engine.repair import repair

    report = repair(LabFolder.open(find_folder(args.folder)))
    print(f"events read from the old database: {report.events_kept}")
    print(f"submissions rebuilt from job scripts: {report.submissions_rebuilt}")
    print(f"epochs read from the mirrors: {report.epochs_read}")
    if report.old_database is not None:
        say(f"The old database is kept as {report.old_database.name}.")
    return 0
