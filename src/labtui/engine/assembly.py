"""Puts a lane together from a session's parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from labtui.core.events import AnyEvent, ConnectionChanged, ErrorRaised
from labtui.engine.context import Context
from labtui.engine.journal import Journal
from labtui.engine.lane import Lane
from labtui.engine.planning import shared_dir
from labtui.engine.ports import ClusterFactory
from labtui.engine.store import Store
from labtui.errors import LabError

if TYPE_CHECKING:
    from labtui.cluster.prompts import Prompter
    from labtui.core.profile import Profile
    from labtui.engine.session import Session
    from labtui.engine.settings import Settings


SETTINGS_KEY = "settings"


def check_settings(settings: Settings, profile: Profile) -> None:
    """Whether a lab folder with these settings could begin to connect; nothing is asked of the network.

    Raises:
        LabError: there is no login host, or the remote directory needs an account or user that is not known.
    """
    from labtui.engine.ssh import check_login, configured_user

    check_login(settings, profile)
    shared_dir(profile, settings, user=settings.user or profile.user or configured_user(settings, profile))


def not_started(error: LabError, at: float) -> tuple[AnyEvent, ...]:
    """What a lane that could not be made means to the state: offline, and why. `at` in UNIX seconds."""
    told = (error.sentence, error.hint)
    offline = ConnectionChanged(at=at, status="offline", sentence=told[0], hint=told[1])
    return offline, ErrorRaised(at=at, key=SETTINGS_KEY, sentence=told[0], hint=told[1])


def make_lane(
    session: Session,
    journal: Journal,
    store: Store,
    prompter: Prompter | None,
    factory: ClusterFactory | None,
) -> Lane:
    """The lane of a session, not started. Without a `factory` the cluster is the one the settings name."""
    from labtui.cluster.prompts import NobodyThere

    if factory is None:
        from labtui.engine.ssh import ssh_factory

        factory = ssh_factory(session.settings, session.profile)
    context = Context(
        folder=session.folder,
        profile=session.profile,
        store=store,
        journal=journal,
        cluster=factory(prompter or NobodyThere(), session.note_command),
        clock=session.clock,
        faults=session.faults,
    )
    return Lane(context, shared_dir(session.profile, session.settings, user=session.user))
