"""Puts a lane together from a session's parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from labtui.engine.context import Context
from labtui.engine.journal import Journal
from labtui.engine.lane import Lane
from labtui.engine.planning import lab_root
from labtui.engine.ports import ClusterFactory
from labtui.engine.store import Store

if TYPE_CHECKING:
    from labtui.cluster.prompts import Prompter
    from labtui.engine.session import Session


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
    return Lane(context, f"{lab_root(session.profile, session.settings, user=session.user)}/scripts")
