"""A read-only session follows what the writing process stores: same events, same state, a moment later."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from labtui.engine import mirrors
from labtui.engine.faults import FaultLog
from labtui.engine.folder import LabFolder
from labtui.engine.journal import Journal
from labtui.engine.store import Store
from labtui.errors import StoreError

_PERIOD_S = 0.5


def follow(folder: LabFolder, store: Store, journal: Journal, faults: FaultLog) -> Callable[[], None]:
    """Begin to follow; returns the function that ends it."""
    stop = threading.Event()

    def work() -> None:
        while not stop.wait(_PERIOD_S):
            try:
                journal.replay(store.news())
                journal.replay(mirrors.sizes(folder, journal.state, time.time()))
            except (StoreError, OSError) as error:
                faults.write(error)

    thread = threading.Thread(target=work, name="labtui-follower", daemon=True)
    thread.start()

    def end() -> None:
        stop.set()
        thread.join(1.0)

    return end
