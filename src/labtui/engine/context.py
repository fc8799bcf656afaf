"""What the lane's duties share."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from labtui.core.events import AnyEvent, ErrorCleared, ErrorRaised
from labtui.core.profile import Profile
from labtui.core.state import LabState
from labtui.engine.faults import FaultLog
from labtui.engine.folder import LabFolder
from labtui.engine.journal import Journal
from labtui.engine.ports import Clock, Cluster
from labtui.engine.store import Store
from labtui.errors import LabError


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
