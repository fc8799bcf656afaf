"""The doctor for a lab folder, the repairs labtui can make by itself, and the folder of a cluster without a profile.

What `labtui doctor` and the screens both use.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from labtui.domain.errors import LabError, UsageError
from labtui.session.assembly import overrides_of
from labtui.session.settings import changed, load_profile, write_settings

if TYPE_CHECKING:
    from labtui.cluster.target import Prompter
    from labtui.doctor.examine import Seen
    from labtui.doctor.findings import Check, Requirements
    from labtui.doctor.setup import Answer, SiteSetup
    from labtui.session.folder import LabFolder
    from labtui.session.settings import Settings
    from labtui.slurm.site_profile import Choices

IN_PROFILE = ("account", "qos", "partition", "data_dir", "container")
"""What stands in the profile of a cluster that was asked about itself, and not in lab.toml as well."""
SETTABLE = ("account", "data_dir", "container")
"""The settings that a check may correct."""


def examine_folder(folder: LabFolder, prompter: Prompter, seen: Seen | None = None) -> Iterator[Check]:
    """The doctor's checks for this folder, each as soon as it is known; nothing is changed anywhere.

    Raises:
        LabError: the folder's settings or its profile cannot be read.
    """
    from labtui.doctor.examine import examine

    settings = folder.settings()
    profile = load_profile(settings.profile, folder.path)
    yield from examine(profile, overrides_of(settings), requirements_of(folder, settings), prompter, seen)


def requirements_of(folder: LabFolder, settings: Settings) -> Requirements:
    """What the folder's settings and its lab need of the cluster."""
    from labtui.doctor.findings import Requirements
    from labtui.session.labs import load_edition

    gpus: tuple[int, ...] = (1,)
    cpu_runs = False
    try:
        runs = [run for task in load_edition(settings.edition, folder).tasks for run in task.runs]
        gpus = tuple(sorted({run.gpus for run in runs if run.device == "gpu"}))
        cpu_runs = any(run.device == "cpu" for run in runs)
    except LabError:
        pass  # the lab's text cannot be read: the connection can be examined all the same
    return Requirements(
        account=settings.account,
        qos=settings.qos,
        partition=settings.partition,
        root=settings.root,
        data_dir=settings.data_dir,
        container=settings.container,
        gpus=gpus,
        cpu_runs=cpu_runs,
    )


def repair(check: Check, folder: LabFolder) -> str:
    """Do what labtui can do about a check; a sentence that says what was done.

    Raises:
        UsageError: there is nothing it can do (a key is set up by `labtui.doctor.setup`).
        FolderError: the settings cannot be written.
    """
    if check.action == "settings":
        values = {key: value for key, value in check.settings.items() if key in SETTABLE}
        write_settings(folder.settings_path, changed(folder.settings(), **values))
        return f"Wrote {', '.join(f'{key} = {value}' for key, value in values.items())} in lab.toml."
    if check.action == "protect-key":
        path = Path(check.settings["identity"])
        try:
            path.chmod(0o600)
        except OSError as error:
            raise UsageError(f"{path} cannot be protected: {error.strerror}.", f"chmod 600 {path}") from error
        return f"Only you can read {path} now."
    raise UsageError(f"labtui cannot repair this by itself: {check.sentence}", check.fix)


def use_key(folder: LabFolder, path: Path) -> None:
    """Name the key in lab.toml.

    Raises:
        FolderError: lab.toml cannot be written.
    """
    write_settings(folder.settings_path, changed(folder.settings(), identity=str(path)))


def ask_cluster(
    settings: Settings, prompter: Prompter, choices: Choices, answer: Answer, connected: Callable[[str], None]
) -> SiteSetup:
    """The profile of a cluster that labtui does not know, asked of the cluster itself; `settings` name its login host.

    `connected` is called with the host once the login stands.

    Raises:
        UsageError: no login host is named.
        LabError: the cluster cannot be reached.
    """
    from labtui.cluster.connection import Connection
    from labtui.cluster.target import resolve_target
    from labtui.doctor.setup import set_up_site

    connection = Connection(resolve_target(load_profile("slurm"), overrides_of(settings)), prompter)
    try:
        connection.connect()
        connected(connection.host)
        return set_up_site(connection, settings.host, choices, answer)
    finally:
        connection.close()


def lab_of_site(
    place: str | Path, settings: Settings, setup: SiteSetup, withheld: Collection[str]
) -> LabFolder:
    """A lab folder with the profile that was asked of its cluster, as `cluster.toml`.

    Raises:
        FolderError: as `LabFolder.create`.
    """
    from labtui.doctor.setup import PROFILE_FILE
    from labtui.session.folder import LabFolder

    own = changed(settings, profile=PROFILE_FILE, **dict.fromkeys(IN_PROFILE, ""))
    return LabFolder.create(place, own, withheld=withheld, extra={PROFILE_FILE: setup.text})


def site_words(setup: SiteSetup) -> tuple[str, ...]:
    """What was learned, as sentences: the cluster, what it did not tell, and Slurm's word on the smallest job."""
    profile, trial = setup.profile, setup.trial
    account = profile.default_account or "the default account"
    verdict = "Slurm would take a job with one GPU."
    if not trial.ok:
        verdict = f"Slurm would refuse a job with one GPU: {trial.sentence} {trial.hint}"
    return (
        f"{profile.title}: {profile.gpus_per_node} GPUs and {profile.cpus_per_node} CPUs a node; "
        f"GPU jobs go to {profile.gpu_queue or 'no queue yet'}, charged to {account}.",
        *(f"Not known: {sentence}" for sentence in setup.unknown),
        verdict,
    )
