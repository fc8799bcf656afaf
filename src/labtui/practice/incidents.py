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

_AFTER_S = 60
"""Seconds that a job has to run before something happens to it."""


@dataclass(frozen=True, slots=True)
class IncidentNote:
    """What the practice screen shows about an incident: its name, what happens, what it means."""

    name: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Incident:
    """`inject(cluster, job, now, chance)` is called once, for a job whose state is `moment`.

    `several_nodes`: it happens to jobs on several nodes alone.
    """

    note: IncidentNote
    moment: str
    inject: Callable[[PracticeCluster, Job, float, random.Random], None]
    several_nodes: bool = False


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


def _on_the_last_node(trouble: str) -> Callable[[PracticeCluster, Job, float, random.Random], None]:
    """What the processes of a rehearsed training do when they find this word (`rehearse.trouble`)."""

    def inject(cluster: PracticeCluster, job: Job, now: float, chance: random.Random) -> None:
        cluster.runner.trouble(job.job_id, trouble)

    return inject


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
            "The epochs that were printed still count; the unfinished one is lost. R plans the run again "
            "with twice the time.",
        ),
        RUNNING,
        _run_out_of_time,
    ),
    "node-failure": Incident(
        IncidentNote(
            "node-failure",
            "The job's node fails",
            "Not your fault. labtui asks Slurm not to restart its jobs, because a restart empties "
            "the log and spoils the timing: the run "
            "ends as a node failure, and you submit it again. A job without --no-requeue would start again with "
            "the same id: that is `requeue`.",
        ),
        RUNNING,
        _fail_node,
    ),
    "requeue": Incident(
        IncidentNote(
            "requeue",
            "The job's node fails, and an administrator requeues the job",
            "The job goes back into the queue with the same id, waits two minutes (BeginTime), and its script starts "
            "from the beginning: Slurm empties the log. The epochs of the first attempt do not count, because "
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
            "sacct fails while squeue works. A job that left the queue is 'settling', not "
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
    "slow-node": Incident(
        IncidentNote(
            "slow-node",
            "One of the job's nodes reads its images at half the speed",
            "Every step ends with an all-reduce, so all GPUs wait for the slowest: the whole job takes twice "
            "the time. Its log does not say which node it is. The GPU samples do: a GPU that waits in "
            "an all-reduce counts as busy, so the slow node is the one whose GPUs are not. Submit it again "
            "without that node (--exclude).",
        ),
        RUNNING,
        _on_the_last_node("slow"),
        several_nodes=True,
    ),
    "rank-killed": Incident(
        IncidentNote(
            "rank-killed",
            "One process of the training is killed",
            "The others notice at the next all-reduce and end too, each with its own error. Only one "
            "of them is the cause: torchrun's Root Cause with the odd exit code (-9 is SIGKILL), or srun's "
            "'Killed', names its rank and node. Most often that node's memory was full.",
        ),
        RUNNING,
        _on_the_last_node("killed"),
        several_nodes=True,
    ),
    "rendezvous": Incident(
        IncidentNote(
            "rendezvous",
            "One of the job's nodes never joins the training",
            "The processes meet before they train: the rendezvous. The others wait for its time limit "
            "(join_timeout, --rendezvous_timeout) and give up; without one they would wait until the job's own "
            "limit, and nothing would be in the log. Read what that node wrote: a container that did not start,"
            " a name that cannot be resolved there.",
        ),
        PENDING,
        _on_the_last_node("absent"),
        several_nodes=True,
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
            raise UsageError(
                f"There is no incident called {name!r}.",
                f"There are: {', '.join(INCIDENTS)}. `labtui practice --list` explains them.",
            )
        chosen.append(name)
    if seeded is not None:
        usual = sorted(name for name, incident in INCIDENTS.items() if not incident.several_nodes)
        chosen += random.Random(seeded).sample(usual, 3)
    return list(dict.fromkeys(chosen))


class IncidentPlan:
    """Triggers the chosen incidents in order, each on another job where there are enough."""

    def __init__(
        self,
        cluster: PracticeCluster,
        names: list[str],
        seed: int,
        notify: Callable[[IncidentNote], None] = lambda note: None,
    ) -> None:
        self._cluster = cluster
        self._waiting = list(names)
        self._chance = random.Random(seed)
        self._notify = notify
        self._injected: set[int] = set()
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
        if not self._stop.is_set() and any(INCIDENTS[name].moment == PENDING for name in self._waiting):
            self.look(now)

    def look(self, now: float) -> None:
        """Trigger the next incident if a job is in its state; one for several nodes keeps no other waiting."""
        with self._cluster.controller.lock:
            for name in self._waiting:
                incident = INCIDENTS[name]
                job = self._due_job(incident, now)
                if job is not None or not incident.several_nodes:
                    break
            else:
                return
            if job is None:
                return
            self._waiting.remove(name)
            self._injected.add(job.job_id)
        incident.inject(self._cluster, job, now, self._chance)
        self.happened.append(incident.note)
        self._notify(incident.note)

    def _due_job(self, incident: Incident, now: float) -> Job | None:
        """The first job that the incident may strike now."""
        for job in self._cluster.controller.accounting():
            ready = job.state == incident.moment and job.job_id not in self._injected
            ready = ready and (job.nodes > 1 or not incident.several_nodes)
            if ready and (incident.moment == PENDING or job.elapsed_s(now) >= _AFTER_S):
                return job
        return None
