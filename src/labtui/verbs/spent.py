"""GPU-hours spent, as the verbs print them: per task and for the whole lab."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

from labtui.core.state import LabState


def spent(state: LabState, *, practice: bool) -> dict[str, Any]:
    """GPU-hours allocated and used, core-hours and jobs: ``{"practice", "total", "tasks": {id: ...}, "jobs": [...]}``.

    In a practice folder those of the rehearsal, which nobody pays for, and which says so.
    """
    from labtui.core.cost import lab_cost

    cost = lab_cost(state, now=time.time(), practice=practice)
    return {
        "practice": practice,
        "total": asdict(cost.total),
        "tasks": {task: asdict(total) for task, total in cost.tasks.items()},
        "jobs": [asdict(job) for job in cost.jobs],
    }
