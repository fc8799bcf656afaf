"""Puts a session's parts together: the SSH connection, Slurm over it, and the cluster worker."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from labtui.domain.errors import LabError
from labtui.domain.events import AnyEvent, ConnectionChanged, ErrorRaised
from labtui.domain.profile import Profile
from labtui.session.cluster_worker import ClusterWorker
from labtui.session.journal import Journal
from labtui.session.planned_submission import shared_dir
from labtui.session.planning import OpenLab
from labtui.session.ports import ClusterFactory
from labtui.session.settings import Settings
from labtui.session.store import Store
from labtui.session.worker_context import WorkerContext

if TYPE_CHECKING:
    from labtui.cluster.slurm_cluster import SlurmCluster
    from labtui.cluster.target import Overrides, Prompter, Target
    from labtui.doctor.findings import Requirements
    from labtui.slurm.remote_command import CommandRecord


def overrides_of(settings: Settings) -> Overrides:
    """What a lab folder says about the connection."""
    from labtui.cluster.target import Overrides

    return Overrides(
        hosts=(settings.host,) if settings.host else (),
        port=settings.port,
        user=settings.user,
        identity_file=settings.identity,
        host_key=settings.host_key,
    )


def doctor_requirements(settings: Settings) -> Requirements:
    """What a folder's settings ask of the cluster."""
    from labtui.doctor.findings import Requirements

    return Requirements(
        account=settings.account,
        qos=settings.qos,
        root=settings.root,
        data_dir=settings.data_dir,
        container=settings.container,
    )


def _target(settings: Settings, profile: Profile) -> Target:
    from labtui.cluster.target import resolve_target

    return resolve_target(profile, overrides_of(settings))


def configured_user(settings: Settings, profile: Profile) -> str:
    """The user name that the SSH configuration gives; empty when there is no host or no readable configuration."""
    try:
        return _target(settings, profile).endpoints[0].user
    except LabError:
        return ""


def check_login(settings: Settings, profile: Profile) -> None:
    """Whether the settings name a login host that an SSH client could try.

    Raises:
        LabError: they do not.
    """
    _target(settings, profile)


def ssh_factory(settings: Settings, profile: Profile) -> ClusterFactory:
    """Makes the cluster that a lab folder's settings name, as OpenSSH would reach it."""

    def make(prompter: Prompter, on_command: Callable[[CommandRecord], None]) -> SlurmCluster:
        from labtui.cluster.connection import Connection
        from labtui.cluster.slurm_cluster import SlurmCluster

        connection = Connection(_target(settings, profile), prompter, on_command)
        return SlurmCluster(connection, practice=settings.practice)

    return make


SETTINGS_KEY = "settings"


def check_settings(settings: Settings, profile: Profile) -> None:
    """Whether a lab folder with these settings could begin to connect; nothing is asked of the network.

    Raises:
        LabError: there is no login host, or the remote directory needs an account or user that is not known.
    """
    check_login(settings, profile)
    shared_dir(profile, settings, user=settings.user or profile.user or configured_user(settings, profile))


def not_started(error: LabError, at: float) -> tuple[AnyEvent, ...]:
    """What a worker that could not be made means to the state: offline, and why. `at` in UNIX seconds."""
    words = (error.sentence, error.hint)
    offline = ConnectionChanged(at=at, status="offline", sentence=words[0], hint=words[1])
    return offline, ErrorRaised(at=at, key=SETTINGS_KEY, sentence=words[0], hint=words[1])


def make_worker(
    session: OpenLab,
    journal: Journal,
    store: Store,
    prompter: Prompter | None,
    factory: ClusterFactory | None,
) -> ClusterWorker:
    """The worker of a session, not started. Without a `factory` the cluster is the one the settings name."""
    from labtui.cluster.target import NobodyThere

    if factory is None:
        factory = ssh_factory(session.settings, session.profile)
    context = WorkerContext(
        folder=session.folder,
        profile=session.profile,
        store=store,
        journal=journal,
        cluster=factory(prompter or NobodyThere(), session.note_command),
        clock=session.clock,
        faults=session.faults,
    )
    remote = shared_dir(session.profile, session.settings, user=session.user)
    return ClusterWorker(context, remote, session.only_follow)
