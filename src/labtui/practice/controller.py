"""The practice cluster's slurmctld and slurmdbd: takes submissions, starts and ends jobs, keeps their records.

Every public method holds the lock while it reads or changes jobs; `now` is UNIX seconds on the cluster's clock.
`JobRunner` runs the jobs and calls `record_exit` when they are over. A finished job leaves the queue after
`min_job_age_s`; accounting keeps it.
"""

import math
import signal
import threading
from collections.abc import Callable, Iterable, Mapping

from msgspec.structs import replace

from labtui.practice.command_line import KILL_WAIT_S, MIN_JOB_AGE_S, format_time
from labtui.practice.job import PENDING, RUNNING, Job, JobRequest
from labtui.practice.request import POLICY, Node, Refused, Site
from labtui.practice.runner import JobRunner
from labtui.slurm.values import expand_pattern

SCHEDULE_DELAY_S = 8
"""A job waits at least this long: the scheduler looks at the queue every few seconds."""

REQUEUE_DELAY_S = 121
"""A requeued job waits at least until the credential of its first start has expired, as in Slurm."""

SIGTERM = int(signal.SIGTERM)
SIGKILL = int(getattr(signal, "SIGKILL", signal.SIGTERM))


class Controller:
    """All jobs of the practice cluster."""

    def __init__(self, site: Site, runner: JobRunner, *, min_job_age_s: float = MIN_JOB_AGE_S) -> None:
        self.site = site
        self.min_job_age_s = min_job_age_s
        self.runner = runner
        self.lock = threading.RLock()
        self.jobs: dict[int, Job] = {}
        self.down_until = 0.0
        self.accounting_down_until = 0.0
        self.full_until = self.full_for = 0.0
        self.waits: dict[int, list[tuple[str, float]]] = {}
        """By job id, the reasons for which incidents keep it waiting, each with the time at which it ends."""
        self.watchers: list[Callable[[float], None]] = []
        """Called with the time, before jobs are started and ended."""
        self.next_id = 1
        """The id of the next job."""

    def restore(self, jobs: Iterable[Job], ended_at: float) -> None:
        """Continue with the jobs of a cluster that ended at `ended_at`, as Slurm does after a power cut.

        Pending jobs stay pending. Running jobs are requeued where allowed, else they end as NODE_FAIL; a job that was
        being ended has ended.
        """
        with self.lock:
            self.jobs = {job.job_id: job for job in jobs}
            self.next_id = max([self.next_id, *(job_id + 1 for job_id in self.jobs)])
            for job in self._running():
                job.end_state = job.end_state or job.state_after_node_failure
                self.record_exit(job.job_id, 0, 0, ended_at)

    # ------------------------------------------------------------------ what the commands ask

    def in_queue(self, now: float) -> list[Job]:
        """The jobs slurmctld knows: pending, running and recently finished ones, by id."""
        # While accounting is down a finished job leaves at once, else squeue would answer in accounting's place.
        age = 0 if now < self.accounting_down_until else self.min_job_age_s
        with self.lock:
            for job in self.jobs.values():
                job.forgotten |= job.finished and now - (job.end_time or now) >= age
            return [job for job in self.accounting() if not job.forgotten]

    def accounting(self) -> list[Job]:
        """All jobs since the cluster was made, by id."""
        with self.lock:
            return [self.jobs[job_id] for job_id in sorted(self.jobs)]

    def start_estimate(self, job: Job, now: float) -> float | None:
        """When a pending job may start: once the first running job in its way reaches its limit. None if unknown."""
        with self.lock:
            if job.reason == "BeginTime":
                return job.begin
            if waits := self.waits.get(job.job_id):
                return waits[-1][1]
            alike = (other for other in self._running() if other.request.partition == job.request.partition)
            ends = ((other.start_time or now) + other.request.time_limit_s for other in alike)
            return min(ends, default=None) if job.reason == "Resources" else None

    def check_limits(self, request: JobRequest) -> None:
        """Check the limits on the number of jobs. Raises Refused."""
        limit = request.queue.max_submit_per_user
        with self.lock:
            live = [job.request.queue for job in self.jobs.values() if not job.finished]
        if limit is not None and live.count(request.queue) >= limit:
            raise Refused("QOSMaxSubmitJobPerUserLimit", final=POLICY)

    def refuses_writes(self, now: float) -> bool:
        """Whether the disk is full: for `full_for` seconds from the first write that is refused."""
        with self.lock:
            if self.full_until == math.inf:  # from the first write on
                self.full_until = now + self.full_for
            return now < self.full_until

    def submit(
        self, request: JobRequest, *, script: bytes, arguments: tuple[str, ...], environment: Mapping[str, str],
        now: float,
    ) -> Job:  # fmt: skip
        """Add a job to the queue. Raises Refused."""
        with self.lock:
            self.check_limits(request)
            if self.refuses_writes(now):
                raise Refused(final="I/O error writing script/environment to file")
            job_id = self.next_id
            self.next_id += 1

            def path(pattern: str) -> str:
                name = expand_pattern(pattern, job_id=str(job_id), job_name=request.name, user=self.site.user)
                return name if name.startswith("/") else f"{request.work_dir}/{name}"

            # A later session of this cluster may start the job, with another port and clock.
            own = (name for name in environment if not name.startswith("LABTUI_PRACTICE"))
            job = self.jobs[job_id] = Job(
                job_id=job_id,
                request=request,
                arguments=arguments,
                script=script,
                stdout=path(request.output),
                stderr=path(request.error),
                submit_time=now,
                environment={name: environment[name] for name in own},
            )
            if request.held:
                self.set_held(job_id, True, now)
            return job

    def cancel(self, job_id: int, now: float) -> None:
        """``scancel``. Raises Refused."""
        with self.lock:
            if (job := self._unfinished(job_id, now)).state == PENDING:
                job.reason = "None"
                job.finish("CANCELLED", now)
            else:
                self._terminate(job, "CANCELLED", "", now)

    def set_held(self, job_id: int, held: bool, now: float) -> None:
        """``scontrol hold`` and ``release``. Raises Refused."""
        with self.lock:
            job = self._unfinished(job_id, now)
            job.held = held
            job.reason = "JobHeldUser" if held else "None"

    def set_time_limit(self, job_id: int, limit_s: int, now: float) -> None:
        """``scontrol update TimeLimit``; the limit of a running job may only be lowered. Raises Refused."""
        with self.lock:
            job = self._unfinished(job_id, now)
            if job.state != PENDING and limit_s > job.request.time_limit_s:
                raise Refused(final="Access/permission denied")
            job.request = replace(job.request, time_limit_s=limit_s)

    def _unfinished(self, job_id: int, now: float) -> Job:
        """A pending or running job. Raises Refused."""
        job = next((job for job in self.in_queue(now) if job.job_id == job_id), None)
        if job is None or job.finished:
            raise Refused(final="Job has already finished" if job else "Invalid job id specified")
        return job

    # ------------------------------------------------------------------ time passes

    def advance(self, now: float) -> None:
        """Start the jobs that can start, and end those over their time limit."""
        for look in self.watchers:
            look(now)
        with self.lock:
            for job in list(self.jobs.values()):
                is_over = job.elapsed_s(now) >= job.request.time_limit_s
                if job.state == RUNNING and is_over and not job.end_state:
                    self._terminate(job, "TIMEOUT", "DUE TO TIME LIMIT", now)
                if job.kill_at is not None and now >= job.kill_at:
                    job.kill_at = None
                    self.runner.signal(job.job_id, SIGKILL)
            if now >= self.down_until:
                for job in self.accounting():
                    if job.state == PENDING:
                        self._consider(job, now)

    def record_exit(self, job_id: int, exit_status: int, signal_number: int, now: float) -> None:
        """Record that the job's script has ended, with this exit status or killed by this signal."""
        with self.lock:
            job = self.jobs[job_id]
            if job.state != RUNNING:
                return
            end_state, job.end_state, job.kill_at = job.end_state, "", None
            if end_state == PENDING:  # it is queued again
                job.state, job.reason, job.all_nodes = PENDING, "BeginTime", ()
                job.start_time = job.end_time = None
                job.submit_time, job.begin = now, now + REQUEUE_DELAY_S
                job.restarts += 1
                return
            failed = exit_status or signal_number
            if failed and not end_state:  # Slurm reports no status for a job that it ended itself
                job.exit_code = f"0:{signal_number}" if signal_number else f"{exit_status}:0"
                job.reason = "NonZeroExitCode"
            if end_state == "TIMEOUT":
                job.reason = "TimeLimit"
            job.finish(end_state or ("FAILED" if failed else "COMPLETED"), now)

    def fail_node(self, job_id: int, now: float) -> None:
        """Fail the job's node: the job is requeued where allowed, else it ends as NODE_FAIL."""
        with self.lock:
            job = self.jobs[job_id]
            if job.state != RUNNING:
                return
            tail = "DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS"
            self._terminate(job, job.state_after_node_failure, tail, now)
            self.runner.signal(job_id, SIGKILL)

    def run_out_of_memory(self, job_id: int) -> None:
        """Kill the job's processes, as the kernel does when the node's memory is used up."""
        with self.lock:
            if (job := self.jobs[job_id]).state == RUNNING:
                found = f"slurmstepd: error: Detected 1 oom_kill event in StepId={job_id}.batch."
                self.runner.write_error(job, f"{found} Some of the step tasks have been OOM Killed.")
                job.end_state = "OUT_OF_MEMORY"
                self.runner.signal(job_id, SIGKILL)

    # ------------------------------------------------------------------ inside

    def _terminate(self, job: Job, end_state: str, tail: str, now: float) -> None:
        job.end_state = end_state
        text = f"*** JOB {job.job_id} ON {job.node} CANCELLED AT {format_time(now, {}, '')} {tail}".rstrip()
        self.runner.write_error(job, f"slurmstepd: error: {text} ***")
        job.kill_at = now + KILL_WAIT_S
        self.runner.signal(job.job_id, SIGTERM)

    def _consider(self, job: Job, now: float) -> None:
        """Start a pending job, or set the reason why it cannot start yet."""
        if job.held:
            return
        queue, running, waits = job.request.queue, self._running(), self.waits.get(job.job_id)
        alike = sum(other.request.queue == queue for other in running)
        nodes = self._free_nodes(job, running) if len(running) < self.site.max_jobs else []
        if job.begin is not None and now < job.begin:
            job.reason = "BeginTime"
        elif now - job.submit_time < SCHEDULE_DELAY_S:
            job.reason = "None"
        elif waits:
            job.reason, until = waits[0]
            if now >= until:
                waits.pop(0)
        elif queue.max_running_per_user is not None and alike >= queue.max_running_per_user:
            job.reason = "QOSMaxJobsPerUserLimit"
        elif not nodes:
            job.reason = "Resources"
        else:
            self._start(job, nodes, running, now)

    def _running(self) -> list[Job]:
        return [job for job in self.jobs.values() if job.state == RUNNING]

    def _free_nodes(self, job: Job, running: list[Job]) -> list[Node]:
        """As many nodes as the job asks for, each with enough free CPUs and GPUs; none if there are too few."""
        asked, found = job.request, []
        for node in self.site.nodes_of(asked.partition):
            here = [other.request for other in running if node.name in other.all_nodes]
            cpus, gpus = sum(other.cpus // other.nodes for other in here), sum(other.gpus for other in here)
            if node.cpus - cpus >= asked.cpus // asked.nodes and node.gpus - gpus >= asked.gpus:
                found.append(node)
        return found[: asked.nodes] if len(found) >= asked.nodes else []

    def _start(self, job: Job, nodes: list[Node], running: list[Job], now: float) -> None:
        node = nodes[0]
        taken = {number for job in running if node.name in job.all_nodes for number in job.gpu_numbers}
        free = [number for number in range(node.gpus) if number not in taken]
        job.gpu_numbers = tuple(free[: job.request.gpus])
        job.state, job.reason, job.start_time = RUNNING, "None", now
        job.all_nodes = tuple(each.name for each in nodes)
        self.runner.start(job)
