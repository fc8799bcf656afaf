"""Incidents of the practice cluster: what can go wrong on a real one, each with a note on what it means.

An incident waits for a job in its state (queued, or running for a while) and then acts on the cluster, without labtui's
knowledge. `--rehearse NAME` chooses incidents, `--seeded N` three by chance, the same for the same N.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from labtui.domain.errors import UsageError
from labtui.practice.cluster import PracticeCluster
from labtui.practice.slurm.job import PENDING, RUNNING, Job


@dataclass(frozen=True, slots=True)
class IncidentNote:
    """What the practice screen shows about an incident: its name, what happens, what it means."""

    name: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Incident:
    """`strike(cluster, job, now, chance)` is called once, for a job whose state is `moment`."""

    lesson: IncidentNote
    moment: str
    strike: Callable[[PracticeCluster, Job, float, random.Random], None]


def _wait_in_queue(cluster: PracticeCluster, job: Job, now: float, chance: random.Random) -> None:
    moment = now
    reasons = []
    for reason in ("Priority", "Resources", "QOSGrpNodeLimit", "ReqNodeNotAvail"):
        moment += chance.uniform(40, 90)
        reasons.append((reason, moment))
    with cluster.controller.lock:
        cluster.controller.waits[job.job_id] = reasons


def _run_out_of_time(cluster: PracticeCluster, job: Job, now: float, chance: random.Random) -> None:
    with cluster.controller.lock:
        job.time_limit_s = job.elapsed_s(now) + 1


def _fail_node(cluster: PracticeCluster, job: Job, now: float, chance: random.Random) -> None:
    cluster.controller.fail_node(job.job_id, now)


def _fail_node_and_requeue(cluster: PracticeCluster, job: Job, now: float, chance: random.Random) -> None:
    with cluster.controller.lock:
        job.requeue = (
            True  # `scontrol update Requeue=1`, as an administrator does it for all jobs of a broken rack
        )
    cluster.controller.fail_node(job.job_id, now)


def _run_out_of_memory(cluster: PracticeCluster, job: Job, now: float, chance: random.Random) -> None:
    cluster.controller.run_out_of_memory(job.job_id, now)


def _drop_connection(cluster: PracticeCluster, job: Job, now: float, chance: random.Random) -> None:
    cluster.drop_connections()


def _lasting(cluster: PracticeCluster, seconds: float) -> float:
    """Cluster seconds for so many real ones, so that a person has the time to see it."""
    return seconds * cluster.clock.factor


def _stop_accounting(cluster: PracticeCluster, job: Job, now: float, chance: random.Random) -> None:
    cluster.controller.accounting_down_until = now + _lasting(cluster, 75)


def _stop_controller(cluster: PracticeCluster, job: Job, now: float, chance: random.Random) -> None:
    cluster.controller.down_until = now + _lasting(cluster, 45)


def _fill_disk(cluster: PracticeCluster, job: Job, now: float, chance: random.Random) -> None:
    cluster.fill_disk(_lasting(cluster, 30))


INCIDENTS: dict[str, Incident] = {
    "queue": Incident(
        IncidentNote(
            "queue",
            "The job waits, for one reason after another",
            "Priority: others come first. Resources: it is next, but no node is free. A group "
            "limit: the course uses all it may. "
            "ReqNodeNotAvail: maintenance. Nothing is wrong with the job; a shorter time limit lets "
            "the scheduler fit it in earlier.",
        ),
        PENDING,
        _wait_in_queue,
    ),
    "time-limit": Incident(
        IncidentNote(
            "time-limit",
            "The job is killed at its time limit",
            "The epochs that were printed still count; the one under way is lost. R plans the run again "
            "with twice the time.",
        ),
        RUNNING,
        _run_out_of_time,
    ),
    "node-failure": Incident(
        IncidentNote(
            "node-failure",
            "The node dies under the job",
            "Not your fault. labtui asks Slurm not to restart its jobs, because a restart empties "
            "the log and spoils the timing: the run "
            "ends as a node failure, and you submit it again. A job without --no-requeue would "
            "start anew with the same id: that is `requeue`.",
        ),
        RUNNING,
        _fail_node,
    ),
    "requeue": Incident(
        IncidentNote(
            "requeue",
            "The node dies, and an administrator lets the job run again",
            "The job goes back into the queue with the same id, waits two minutes (BeginTime), and its script "
            "begins from the start: Slurm empties the log. The epochs of the first try do not count, because "
            "their log is gone from the cluster; labtui keeps its copy of it and reads the new one.",
        ),
        RUNNING,
        _fail_node_and_requeue,
    ),
    "out-of-memory": Incident(
        IncidentNote(
            "out-of-memory",
            "The node's memory is used up and the kernel ends the training",
            "This is host memory, not GPU memory: the cached images take 9.8 GB per process, and "
            "memory comes with the cores you ask for.",
        ),
        RUNNING,
        _run_out_of_memory,
    ),
    "drop": Incident(
        IncidentNote(
            "drop",
            "The connection is cut",
            "The job keeps running. labtui shows offline and the age of its data, reconnects by "
            "itself and reads what it missed.",
        ),
        RUNNING,
        _drop_connection,
    ),
    "accounting": Incident(
        IncidentNote(
            "accounting",
            "Accounting (slurmdbd) is down",
            "sacct refuses while squeue works. A job that left the queue is 'settling', not "
            "finished, until accounting answers again.",
        ),
        RUNNING,
        _stop_accounting,
    ),
    "controller": Incident(
        IncidentNote(
            "controller",
            "Slurm's controller does not answer",
            "squeue fails. labtui keeps the last known states, shows since when they are unknown, and "
            "never counts a job as finished without an answer.",
        ),
        RUNNING,
        _stop_controller,
    ),
    "quota": Incident(
        IncidentNote(
            "quota",
            "The disk quota is used up",
            "Files cannot be pushed and jobs cannot be submitted. Nothing is lost: the submission "
            "waits here; free space (bsc_quota shows it), "
            "then try again.",
        ),
        PENDING,
        _fill_disk,
    ),
}


def choose(names: Iterable[str], seeded: int | None) -> list[str]:
    """The incidents asked for by name, and three by chance when a seed is given.

    Raises:
        UsageError: a name is unknown.
    """
    chosen = []
    for name in names:
        if name not in INCIDENTS:
            raise UsageError(f"There is no incident called {name!r}.", f"There are: {', '.join(INCIDENTS)}.")
        chosen.append(name)
    if seeded is not None:
        chosen += random.Random(seeded).sample(sorted(INCIDENTS), 3)
    return list(dict.fromkeys(chosen))


class IncidentPlan:
    """Triggers the chosen incidents in order, each on another job where there are enough."""

    def __init__(
        self,
        cluster: PracticeCluster,
        names: list[str],
        seed: int,
        notify: Callable[[IncidentNote], None] = lambda lesson: None,
    ) -> None:
        self._cluster = cluster
        self._waiting = list(names)
        self._chance = random.Random(seed)
        self._notify = notify
        self._struck: set[int] = set()
        self._stop = threading.Event()
        self.happened: list[IncidentNote] = []
        if names:
            cluster.controller.arrivals.append(self._arrived)
            threading.Thread(target=self._watch, name="practice-incidents", daemon=True).start()

    def close(self) -> None:
        """Trigger no more incidents."""
        self._stop.set()

    def _watch(self) -> None:
        while self._waiting and not self._stop.wait(0.1):
            self.look(self._cluster.clock.now())

    def _arrived(self, now: float) -> None:
        """Called for each new job: on a fast clock it may have left the queue before the next `look`."""
        if not self._stop.is_set() and self._waiting and INCIDENTS[self._waiting[0]].moment == PENDING:
            self.look(now)

    def look(self, now: float) -> None:
        """Trigger the next incident if a job is in its state."""
        with self._cluster.controller.lock:
            if not self._waiting:
                return
            incident = INCIDENTS[self._waiting[0]]
            ripe = [
                job
                for job in self._cluster.controller.accounting()
                if job.state == incident.moment
                and job.job_id not in self._struck
                and (incident.moment == PENDING or job.elapsed_s(now) >= 60)
            ]
            if not ripe:
                return
            self._waiting.pop(0)
            self._struck.add(ripe[0].job_id)
        incident.strike(self._cluster, ripe[0], now, self._chance)
        self.happened.append(incident.lesson)
        self._notify(incident.lesson)
