"""The cluster of a lab folder: how to reach it, what to check on it, and a profile for a cluster labtui does not know.

Shared by sessions, `labtui doctor`, `labtui init` and the screens.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from labtui.cluster.target import Prompter, start_again
from labtui.domain.errors import os_errors
from labtui.domain.model import plural
from labtui.domain.profile import Profile
from labtui.session.settings import Settings, cluster_user, hosts_of, lab_root, with_changes

if TYPE_CHECKING:
    from labtui.cluster.connection import Connection
    from labtui.doctor.checks import Check
    from labtui.doctor.setup import SiteSetup
    from labtui.session.folder import LabFolder

IN_PROFILE = ("account", "partition", "data_dir", "container")
"""Settings that a profile made from a cluster's answers holds, so that lab.toml need not."""


def connection_to(settings: Settings, profile: Profile, prompter: Prompter | None) -> Connection:
    """The connection to the cluster that a lab folder's settings name, by OpenSSH's rules; not opened yet.

    Raises:
        LabError: they name no login host, or the SSH configuration cannot be read.
    """
    from labtui.cluster.connection import Connection

    return Connection(hosts_of(settings, profile), prompter, start_again(profile, settings.identity))


def check_settings(settings: Settings, profile: Profile) -> None:
    """Check that a lab folder with these settings could try to connect, without using the network.

    Raises:
        LabError: there is no login host, or the remote directory needs an account or user that is not known.
    """
    hosts_of(settings, profile)
    lab_root(profile, settings, user=cluster_user(settings, profile))


def fix_check(check: Check, folder: LabFolder) -> str:
    """Carry out a check's action "settings" or "protect-key"; return a sentence on what was done.

    Raises:
        UsageError: the key cannot be protected.
        FolderError: the settings cannot be written.
    """
    if check.action == "settings":
        folder.save_settings(with_changes(folder.settings(), **check.settings))
        return f"Wrote {', '.join(f'{key} = {value}' for key, value in check.settings.items())} in lab.toml."
    path = Path(check.settings["identity"])
    with os_errors("unprotected", path=path):
        path.chmod(0o600)
    return f"Only you can read {path} now."


def site_words(setup: SiteSetup) -> tuple[str, ...]:
    """What was learned, as sentences: the cluster, what is not known, and whether Slurm would accept a small job."""
    profile, trial = setup.profile, setup.trial
    gpus, cpus = profile.gpus_per_node, profile.cpus_per_node
    account = profile.default_account or "the default account"
    known = f"{plural(gpus, 'GPU')} and {plural(cpus, 'CPU')} a node; " if cpus > 1 else ""
    named = f"with the QoS {setup.qos} (qos in lab.toml), " if setup.qos else ""
    where = f"{'GPU jobs' if gpus else 'jobs'} go to {profile.gpu_queue or 'no queue yet'}"
    said = [f"{profile.title}: {known}{where}, {named}charged to {account}."]
    if (queue := profile.queue(setup.qos or profile.gpu_queue)) and queue.max_submit_per_user:
        said.append(f"{queue.name} takes {plural(queue.max_submit_per_user, 'job')} of yours at a time.")
    said += [f"Not known: {sentence}" for sentence in setup.unknown]
    lost = "is not on the login node; `labtui doctor` says where to correct it."
    said += [f"{path} {lost}" for path in setup.missing_paths]
    job = "a job with one GPU" if gpus else "a job on the CPU"
    if trial.ok:
        return (*said, f"Slurm would accept {job}.")
    return (*said, f"Slurm would refuse {job}: {trial.sentence} {trial.hint}")
