"""What the lane's duties share."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from labtui.core.events import AnyEvent, ErrorCleared, ErrorRaised
from labtui.core.profile import Profile
from labtui.core.state import LabState
from labtui.engine.faults import FaultLog
from labtui.engine.folder import LabFolder
from labtui.engine.journal import Journal
from labtui.engine.ports import Clock, Cluster
from labtui.engine.store import Store
from labtui.errors import LabError

Done = Callable[[Callable[[], Any]], None]
"""Takes the outcome of work done aside: a function that gives its result or raises what it raised."""


def inline(work: Callable[[], Any], done: Done) -> None:
    """Do work at once; what a test wants, and what is right where nothing waits meanwhile."""
    outcome = outcome_of(work)
    done(outcome)


def outcome_of(work: Callable[[], Any]) -> Callable[[], Any]:
    """Do the work; its result or its exception as a function to be called elsewhere."""
    try:
        result = work()
    except Exception as error:
        caught = error

        def fail() -> Any:
            raise caught

        return fail
    return lambda: result


@dataclass(slots=True)
class Context:
    """One lab folder and one cluster, as the lane sees them. Only the lane's thread calls the cluster."""

    folder: LabFolder
    profile: Profile
    store: Store
    journal: Journal
    cluster: Cluster
    clock: Clock
    faults: FaultLog
    luck: random.Random = field(default_factory=random.Random)
    aside: Callable[[Callable[[], Any], Done], None] = inline
    """Runs one slow question beside the lane, on a channel of its own; `done` is called in the lane's thread."""

    @property
    def state(self) -> LabState:
        """The latest state."""
        return self.journal.state

    def now(self) -> float:
        """Seconds that never jump, for deadlines."""
        return self.clock.steady()

    def at(self) -> float:
        """UNIX seconds, for what is stored and shown."""
        return self.clock.wall()

    def commit(self, *events: AnyEvent) -> None:
        """Store and show what was observed."""
        self.journal.commit(events)

    def commit_all(self, events: Sequence[AnyEvent]) -> None:
        """Store and show what was observed, in one transaction."""
        self.journal.commit(events)

    def raise_problem(self, key: str, error: LabError) -> None:
        """Tell the student once; it stays in the panel until `clear_problem`."""
        known = next((problem for problem in self.state.problems if problem.key == key), None)
        if known is None or (known.sentence, known.hint) != (error.sentence, error.hint):
            self.commit(ErrorRaised(at=self.at(), key=key, sentence=error.sentence, hint=error.hint))

    def clear_problem(self, key: str) -> None:
        """That problem is over."""
        if any(problem.key == key for problem in self.state.problems):
            self.commit(ErrorCleared(at=self.at(), key=key))
