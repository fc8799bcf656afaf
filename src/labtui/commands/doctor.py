"""The commands that find and repair problems: `labtui doctor`, `labtui key` and `labtui repair`.

`doctor` checks the connection, the account, the paths and a small job; `key` makes an SSH key, sends its public half to
the cluster and logs in with it; `repair` rebuilds the database from its readable parts, the job scripts and the
mirrors.
"""

import argparse
import contextlib
import sys

from msgspec.structs import replace

from labtui.cluster.local_files import expand_home
from labtui.cluster.target import Overrides, public_half
from labtui.commands import options, terminal
from labtui.commands.terminal import TerminalPrompter, print_json, say
from labtui.doctor.checks import SIGNS, Requirements, summary, worst_status
from labtui.domain.errors import LabError, failure
from labtui.domain.profile import Profile
from labtui.session import labs, opening
from labtui.session.folder import LabFolder
from labtui.session.lab_cluster import fix_check
from labtui.session.session import Session
from labtui.session.settings import Settings, load_profile, overrides_of, with_changes

DEFAULT_PROFILE = "mn5"


def doctor_arguments(parser: argparse.ArgumentParser) -> None:
    words = "write the corrections to lab.toml; make your private key readable by you alone"
    parser.add_argument("--fix", action="store_true", help=words)


def run_doctor(args: argparse.Namespace) -> int:
    """Run the checks, then print a summary and a table of them."""
    from labtui.doctor.examine import examine

    profile, overrides, wanted, folder = choose_cluster(args)
    checks = []
    seen: dict[str, bool | str] = {}
    fixing = folder if args.fix else None
    say("Checking the connection, the account and the paths ...")
    for check in examine(profile, overrides, wanted, TerminalPrompter(), seen.update, fixes=bool(fixing)):
        checks.append(check)
        if fixing is not None and check.action in {"settings", "protect-key"}:
            done = fix_check(check, fixing)
            say(done)
            checks[-1] = replace(check, status="ok", sentence=done, fix="")
    if folder is not None and seen:  # the check of the set-up reads them
        with contextlib.suppress(LabError), Session.open(folder.path, start=False) as session:
            session.note_paths(seen)
    if args.json:
        print_json({"profile": profile.id, "status": worst_status(checks), "checks": checks})
    else:
        print(f"{summary(checks)}\n")
        rows = [(f"{SIGNS[check.status]} {check.title}", check.status, check.sentence) for check in checks]
        terminal.print_table(rows, below=[check.fix and f"fix: {check.fix}" for check in checks])
    return 1 if worst_status(checks) == "problem" else 0


def choose_cluster(args: argparse.Namespace) -> tuple[Profile, Overrides, Requirements, LabFolder | None]:
    """Choose the cluster: that of a trusted lab folder, or of a profile, with the options over its settings.

    Raises NotTrusted if the folder is not trusted.
    """
    folder = None if args.cluster and not args.folder else terminal.folder_here(args.folder)
    if folder is None and not args.cluster:
        say(f"There is no lab folder here, so the profile {DEFAULT_PROFILE} is used (see --cluster).")
    settings = Settings(edition="", profile=DEFAULT_PROFILE)
    if folder is not None:
        terminal.require_trust(folder.path, args)
        settings = folder.settings()
    given = {"profile": args.cluster, **{key: getattr(args, key) for key in options.CONNECTION_KEYS}}
    settings = with_changes(settings, **{key: value for key, value in given.items() if value})
    profile = load_profile(settings.profile, folder.path if folder is not None else None)
    return profile, overrides_of(settings), labs.requirements_of(folder, settings, profile), folder


def key_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--no-passphrase", action="store_true", help="make the new key without a passphrase")


def run_key(args: argparse.Namespace) -> int:
    """Make the key unless it exists, send it, log in with it, and print what was done."""
    from labtui.doctor.setup import AGENT_ADVICE, default_key, set_up_key

    profile, overrides, _, folder = choose_cluster(args)
    if profile.status == "practice":
        raise failure("practice-key")
    path = expand_home(overrides.identity) if overrides.identity else default_key()
    passphrase = None
    if path.exists():
        say(f"{path} already exists and is used as it is.")
    else:
        say(f"Making {path}: the private half stays here, {public_half(path).name} goes to the cluster.")
        passphrase = "" if args.no_passphrase else _passphrase()
        say("You are asked for your password once more, to copy it there.")
    done = set_up_key(profile, overrides, TerminalPrompter(), path, passphrase)
    if done.made:
        print(f"Made {path}.")
    print("Sent its public half to the cluster." if done.sent else "The cluster has it already.")
    print(f"Logged in: {done.login}.")
    if done.made and passphrase:
        say(AGENT_ADVICE.format(path=path))
    if folder is not None and path != default_key():
        folder.save_settings(with_changes(folder.settings(), identity=str(path)))
    return 0


def _passphrase() -> str:
    """Ask for a new passphrase twice; "" for none.

    Raises:
        UsageError: there is no terminal, or the two differ.
    """
    import getpass

    if not sys.stdin.isatty():
        raise failure("no-passphrase")
    first = getpass.getpass("New passphrase (Enter for none): ", stream=sys.stderr)
    if first != getpass.getpass("Same passphrase again: ", stream=sys.stderr):
        raise failure("passphrases")
    return first


def run_repair(args: argparse.Namespace) -> int:
    """Rebuild the database; the old file is kept beside the new one."""
    report = opening.repair(terminal.lab_folder(args.folder, args, writes=True))
    if report.old_database is not None and not report.damaged:
        say("No damage was found in the database.")
    rebuilt = f"{report.rebuilt} rebuilt from the files beside job scripts"
    print(f"submissions: {report.submissions}, of which {rebuilt}")
    print(f"epochs: {report.epochs}")
    if report.old_database is not None:
        say(f"The old database is kept as {report.old_database.name}.")
    return 0
