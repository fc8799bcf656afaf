"""`labtui init DIR`: make a lab folder. Asks nothing; everything the wizard asks can be said here."""

from __future__ import annotations

import argparse

from labtui.errors import LabError, UsageError
from labtui.verbs.terminal import say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where, which lab, which cluster, whose account."""
    parser.add_argument(
        "dir", nargs="?", default=".", metavar="DIR", help="the folder to make (default: here)"
    )
    parser.add_argument(
        "--lab", metavar="ID", help="the lab edition, or a .toml file (`labtui labs` lists them)"
    )
    parser.add_argument("--cluster", metavar="PROFILE", help="the cluster profile, or a .toml file")
    parser.add_argument(
        "--host", default="", help="login host, instead of the profile's; a name in ~/.ssh/config works"
    )
    parser.add_argument("--port", type=int, help="SSH port")
    parser.add_argument("--user", default="", help="your user name on the cluster")
    parser.add_argument(
        "--identity", default="", metavar="FILE", help="private key file (its path is stored, not the key)"
    )
    parser.add_argument(
        "--host-key", default="", metavar="SHA256:...", help="the host key's fingerprint, to be checked"
    )
    parser.add_argument("--account", default="", metavar="A", help="Slurm account")
    parser.add_argument("--qos", default="", metavar="Q", help="Slurm QoS for GPU jobs")
    parser.add_argument("--root", default="", metavar="REMOTE_DIR", help="remote directory to work under")
    parser.add_argument(
        "--data-dir", default="", metavar="REMOTE_DIR", help="the CIFAR-10 pickles on the cluster"
    )
    parser.add_argument(
        "--container", default="", metavar="REMOTE_FILE", help="container image on the cluster"
    )
    parser.add_argument("--reservation", default="", help="Slurm reservation")
    parser.add_argument("--group", default="", metavar="NAME", help="your group's name, for the slides")


def run(args: argparse.Namespace) -> int:
    """Make the folder; say what to do next."""
    from labtui.core.lab.plan import withheld_scripts
    from labtui.engine.assembly import check_settings
    from labtui.engine.folder import LabFolder
    from labtui.engine.labs import list_editions, load_edition
    from labtui.engine.profiles import list_profiles, load_profile
    from labtui.engine.settings import Settings, changed

    if not args.lab:
        known = ", ".join(item.id for item in list_editions())
        raise UsageError("Say which lab: --lab ID.", f"labtui knows {known}.")
    if not args.cluster:
        raise UsageError(
            "Say which cluster: --cluster PROFILE.", f"labtui knows {', '.join(list_profiles())}."
        )
    if args.host_key and not args.host_key.startswith("SHA256:"):
        raise UsageError(
            "A host key's fingerprint begins with SHA256:", "`ssh-keygen -lf` and your site's pages show it."
        )
    edition = load_edition(args.lab)
    profile = load_profile(args.cluster)
    settings = changed(
        Settings(edition=_kept(args.lab), profile=_kept(args.cluster)),
        **{key: getattr(args, key) for key in _KEYS},
        practice=profile.status == "practice",
    )
    folder = LabFolder.create(args.dir, settings, withheld=withheld_scripts(edition))
    print(folder.path)
    say(f"A lab folder for {edition.title}, on {profile.title}.")
    try:
        check_settings(settings, profile)
    except LabError as error:
        say(f"Still missing: {error.sentence} {error.hint}")
    say(f"Next: cd {folder.path} && labtui doctor")
    return 0


_KEYS = (
    "host",
    "port",
    "user",
    "identity",
    "host_key",
    "account",
    "qos",
    "root",
    "data_dir",
    "container",
    "reservation",
    "group",
)


def _kept(name: str) -> str:
    """An id as it is; a file by its absolute path, so that the folder finds it from anywhere."""
    from pathlib import Path

    if name.endswith(".toml") or "/" in name or "\\" in name:
        return str(Path(name).expanduser().resolve())
    return name
