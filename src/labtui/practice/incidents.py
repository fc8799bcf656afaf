"""Incidents of the practice cluster: what can go wrong on a real one. `incidents.toml` explains each.

An incident waits for a job in its state (queued, or running for a while) and then acts on the cluster; labtui's session
is not told. `--rehearse NAME` chooses incidents.
"""

from collections.abc import Callable, Iterable

import msgspec
from msgspec.structs import replace

from labtui.domain import decode
from labtui.domain.errors import failure, suggest
from labtui.practice.cluster import PracticeCluster
from labtui.practice.job import PENDING, RUNNING, Job

_AFTER_S = 60
"""Seconds that a job has to run before an incident happens to it."""


class IncidentNote(msgspec.Struct, frozen=True):
    """What the practice screen shows about an incident: its name, what happens, and what that means."""

    name: str
    title: str
    text: str


def _wait_in_queue(cluster: PracticeCluster, job: Job, now: float) -> None:
    reasons = ("Priority", "Resources", "QOSGrpNodeLimit", "ReqNodeNotAvail")
    cluster.controller.waits[job.job_id] = [(reason, now + 65 * i) for i, reason in enumerate(reasons, 1)]


def _run_out_of_time(_cluster: PracticeCluster, job: Job, now: float) -> None:
    job.request = replace(job.request, time_limit_s=job.elapsed_s(now) + 1)


def _fail_node_and_requeue(cluster: PracticeCluster, job: Job, now: float) -> None:
    # `scontrol update Requeue=1`, as an administrator does for a broken rack
    job.request = replace(job.request, requeue=True)
    cluster.controller.fail_node(job.job_id, now)


# These two and `quota` last for real seconds, so that people have the time to see them.


def _stop_accounting(cluster: PracticeCluster, _job: Job, now: float) -> None:
    cluster.controller.accounting_down_until = now + 75 * cluster.clock.factor


def _stop_controller(cluster: PracticeCluster, _job: Job, now: float) -> None:
    cluster.controller.down_until = now + 45 * cluster.clock.factor


ACTS: dict[str, tuple[str, Callable[[PracticeCluster, Job, float], object]]] = {
    "queue": (PENDING, _wait_in_queue),
    "time-limit": (RUNNING, _run_out_of_time),
    "node-failure": (RUNNING, lambda cluster, job, now: cluster.controller.fail_node(job.job_id, now)),
    "requeue": (RUNNING, _fail_node_and_requeue),
    "out-of-memory": (RUNNING, lambda cluster, job, _: cluster.controller.run_out_of_memory(job.job_id)),
    "drop": (RUNNING, lambda cluster, _job, _now: cluster.drop_connections()),
    "accounting": (RUNNING, _stop_accounting),
    "controller": (RUNNING, _stop_controller),
    "quota": (PENDING, lambda cluster, _job, _now: cluster.fill_disk(60 * cluster.clock.factor)),
}
"""By incident: the state of the job that it waits for, and its action."""
_NOTES = decode.own_toml(__file__, "incidents.toml")
INCIDENTS = {name: IncidentNote(name, **_NOTES[name]) for name in ACTS}


def choose(names: Iterable[str]) -> list[str]:
    """The incidents of these names, each once.

    Raises:
        UsageError: a name is unknown.
    """
    chosen = list(dict.fromkeys(names))
    for name in chosen:
        if name not in INCIDENTS:
            raise failure("no-incident", name=name, known=", ".join(INCIDENTS), near=suggest(name, INCIDENTS))
    return chosen


class IncidentPlan:
    """Triggers the chosen incidents in order, each on a different job."""

    def __init__(
        self, cluster: PracticeCluster, names: list[str], notify: Callable[[IncidentNote], None]
    ) -> None:
        self._cluster, self._waiting, self._notify = cluster, list(names), notify
        self._injected: set[int] = set()
        cluster.controller.watchers.append(self.look)

    def close(self) -> list[str]:
        """Trigger no more incidents; return the names of those that did not happen."""
        left, self._waiting = self._waiting, []
        return left

    def look(self, now: float) -> None:
        """Trigger the next incident if a job is in the state that it waits for."""
        with self._cluster.controller.lock:
            if not self._waiting:
                return
            name = self._waiting[0]
            state, act = ACTS[name]
            jobs = (job for job in self._cluster.controller.accounting() if job.job_id not in self._injected)
            ready = (job for job in jobs if job.state == state)
            due = (job for job in ready if state == PENDING or job.elapsed_s(now) >= _AFTER_S)
            if (job := next(due, None)) is None:
                return
            self._waiting.pop(0)
            self._injected.add(job.job_id)
        act(self._cluster, job, now)
        self._notify(INCIDENTS[name])
