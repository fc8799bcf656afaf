"""Random histories of sbatch, scancel, failures, time: jobs only take transitions Slurm takes, limits always hold."""

import contextlib
from unittest.mock import MagicMock, Mock

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec.structs import replace

from labtui.domain.errors import UsageError
from labtui.practice.command_line import KILL_WAIT_S, MIN_JOB_AGE_S, Invocation
from labtui.practice.commands import answer
from labtui.practice.controller import SIGKILL, SIGTERM, Controller
from labtui.practice.incidents import ACTS, INCIDENTS, IncidentPlan, choose
from labtui.practice.job import FINAL, PENDING, RUNNING
from labtui.practice.programs import PracticeClock
from labtui.practice.request import Refused, build_request, practice_site

SITE = replace(practice_site(), max_jobs=4)
"""Few jobs at once, so that a short history meets that limit, too."""
TRANSITIONS = {
    PENDING: {RUNNING, "CANCELLED", "FAILED"},
    RUNNING: {PENDING, *FINAL},  # PENDING again: the node failed and the job may be requeued
    **{state: set() for state in FINAL},
}
"""From each state to those Slurm can move the job to; final states are final."""


class Runner:
    """Starts nothing; a job ends when the test says so, or when it is killed."""

    def __init__(self):
        self.running: dict[int, tuple[int, ...]] = {}
        self.signals: list[tuple[int, int]] = []
        self.lines: list[str] = []

    def start(self, job):
        assert job.state == RUNNING
        self.running[job.job_id] = job.gpu_numbers

    def signal(self, job_id, number):
        self.signals.append((job_id, number))

    def write_error(self, job, line):
        assert line.startswith("slurmstepd: error:")
        self.lines.append(line)


class SlurmUse(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.now = 1_000_000.0
        self.runner = Runner()
        self.control = Controller(SITE, self.runner)
        self.seen: dict[int, str] = {}
        self.gone: set[int] = set()

    @rule(
        qos=st.sampled_from(["acc_debug", "acc_training", "gp_training", "nonsense"]),
        gpus=st.integers(0, 5), minutes=st.integers(1, 200), requeue=st.booleans(),
    )  # fmt: skip
    def sbatch(self, qos, gpus, minutes, requeue):
        cpus = str(max(1, 20 * gpus))
        options = {"account": "nct_000", "qos": qos, "time": str(minutes), "cpus-per-task": cpus}
        options |= {"gres": f"gpu:{gpus}"} if gpus else {}
        options |= {} if requeue else {"no-requeue": ""}
        before = set(self.control.jobs)
        try:
            request = build_request(options, name="job", work_dir="/home/x", site=SITE)
            sent = {"script": b"#!/bin/sh\n", "arguments": (), "environment": {}}
            job = self.control.submit(request, **sent, now=self.now)
        except Refused:
            assert set(self.control.jobs) == before
        else:
            assert job.state == PENDING and job.job_id not in before

    @rule(number=st.integers(1, 12))
    def scancel(self, number):
        with contextlib.suppress(Refused):
            self.control.cancel(number, self.now)

    @rule(seconds=st.floats(0, 4000))
    def wait(self, seconds):
        self.now += seconds
        self.control.advance(self.now)

    @precondition(lambda self: self.runner.running)
    @rule(data=st.data(), status=st.sampled_from([0, 0, 0, 1, 5]), signal=st.sampled_from([0, 0, 9, 15]))
    def end(self, data, status, signal):
        job_id = data.draw(st.sampled_from(sorted(self.runner.running)))
        del self.runner.running[job_id]
        self.control.record_exit(job_id, status, signal, self.now)

    @precondition(lambda self: self.runner.running)
    @rule(data=st.data())
    def node_fails(self, data):
        self.control.fail_node(data.draw(st.sampled_from(sorted(self.runner.running))), self.now)

    @rule(number=st.integers(1, 12), held=st.booleans())
    def hold(self, number, held):
        with contextlib.suppress(Refused):
            self.control.set_held(number, held, self.now)

    @rule(seconds=st.floats(0, 2000))
    def accounting_fails(self, seconds):
        self.control.accounting_down_until = self.now + seconds

    @invariant()
    def only_slurms_transitions(self):
        for job in self.control.accounting():
            before = self.seen.get(job.job_id, PENDING)
            assert _reachable(before, job.state), f"{before} -> {job.state}"
            self.seen[job.job_id] = job.state

    @invariant()
    def limits_hold(self):
        living = [job for job in self.control.accounting() if not job.finished]
        assert sum(job.request.queue.name == "acc_debug" for job in living) <= 1
        running = [job for job in living if job.state == RUNNING]
        assert len(running) <= SITE.max_jobs
        for node in SITE.nodes:
            here = [job for job in running if job.node == node.name]
            assert sum(job.request.cpus for job in here) <= node.cpus
            numbers = [number for job in here for number in self.runner.running.get(job.job_id, ())]
            assert len(numbers) == len(set(numbers)) <= max(node.gpus, 0)

    @invariant()
    def records_are_coherent(self):
        for job in self.control.accounting():
            assert (job.end_time is not None) == job.finished
            assert job.finished == (job.state in FINAL)
            if job.state == RUNNING:
                assert job.node and job.start_time is not None
        shown = {job.job_id for job in self.control.in_queue(self.now)}
        down = self.now < self.control.accounting_down_until
        for job in self.control.accounting():
            if job.finished and (down or self.now - job.end_time >= MIN_JOB_AGE_S):
                self.gone.add(job.job_id)  # and stays away
            assert (job.job_id in shown) == (job.job_id not in self.gone)


def _reachable(start: str, goal: str) -> bool:
    found, edge = {start}, {start}
    while edge:
        edge = {after for state in edge for after in TRANSITIONS[state]} - found
        found |= edge
    return goal in found


TestSlurmUse = SlurmUse.TestCase
TestSlurmUse.settings = settings(max_examples=20, stateful_step_count=40, deadline=None)


def submitted(control, qos="gp_training", *, now=0.0, **options):
    options = {"account": "nct_000", "qos": qos, "time": "1", **options}
    request = build_request(options, name="job", work_dir="/home/x", site=control.site)
    return control.submit(request, script=b"#!/bin/sh\n", arguments=(), environment={}, now=now)


def test_a_job_that_does_not_stop_at_its_time_limit_is_killed():
    control = Controller(SITE, runner := Runner())
    job = submitted(control)
    control.advance(10.0)
    control.advance(69.0)
    assert (job.state, runner.signals) == (RUNNING, [])
    control.advance(70.0)
    control.advance(70.0 + KILL_WAIT_S - 1)
    assert runner.signals == [(job.job_id, SIGTERM)], "a minute is over: asked once"
    control.advance(70.0 + KILL_WAIT_S)
    assert runner.signals[-1] == (job.job_id, SIGKILL)
    control.record_exit(job.job_id, 0, SIGKILL, 101.0)
    assert job.state == "TIMEOUT"


def test_no_more_scripts_run_at_once_than_the_laptop_bears():
    control = Controller(site := practice_site(), runner := Runner())
    jobs = [submitted(control, time="10") for _ in range(45)]
    control.advance(60.0)
    assert len(runner.running) == site.max_jobs == 32, "112 CPUs would bear all of them"
    waiting = [job for job in jobs if job.state == PENDING]
    assert {job.reason for job in waiting} == {"Resources"}
    assert control.start_estimate(waiting[0], 60.0) == 60.0 + 600, "when the first may be over"
    control.record_exit(jobs[0].job_id, 0, 0, 100.0)
    control.advance(101.0)
    assert [job.state for job in waiting].count(RUNNING) == 1


def test_what_several_threads_ask_is_answered_under_the_lock():
    control = Controller(SITE, Runner())
    request = submitted(control).request
    control.lock = MagicMock()
    control.check_limits(request)
    assert not control.refuses_writes(0.0) and control.lock.__enter__.call_count == 2


def test_a_job_on_two_nodes_says_so_everywhere():
    control = Controller(SITE, Runner())
    submitted(control, "acc_training", nodes="2", gres="gpu:1", **{"cpus-per-task": "40"})
    control.advance(60.0)

    def asked(program, *words):
        return answer(program, Invocation(words, "/", {}), control, 61.0)[1]

    assert asked("squeue", "-h", "-o", "%i %D %N") == "1 2 as01r1b[01-02]\n"
    assert asked("squeue", "-h").split()[6] == "2"
    refused = "sbatch: error: practice cluster: --array is not supported\n"
    for line, told in (("scontrol update TimeLimit=1 JobId=1", ""), ("sbatch -a 1-3", refused)):
        program, *words = line.split()
        assert answer(program, Invocation(tuple(words), "/", {}), control, 62.0)[2] == told
    assert asked("sacct", "-X", "-n", "-P", "-o", "JobIDRaw,NodeList") == "1|as01r1b[01-02]\n"


class Cluster:
    """As much of a practice cluster as an incident touches, with the time in the test's hand."""

    def __init__(self):
        self.runner = Runner()
        self.controller = Controller(practice_site(), self.runner)
        self.clock = PracticeClock(began=0.0, factor=1.0)
        self.fill_disk, self.drop_connections = Mock(), Mock()

    def submit(self, now, **options):
        options = {"cpus-per-task": "20", "gres": "gpu:1", "time": "60", **options}
        return submitted(self.controller, "acc_training", now=now, **options)


def plan(cluster, name):
    made = IncidentPlan(cluster, [name], (happened := []).append)
    made.happened = happened
    return made


def running_job(cluster, **options):
    job = cluster.submit(1000.0, **options)
    cluster.controller.advance(1060.0)
    assert job.state == "RUNNING"
    return job


@pytest.mark.parametrize("name", INCIDENTS)
def test_it_happens_once_at_its_moment_and_is_explained(name):
    cluster = Cluster()
    trouble = plan(cluster, name)
    trouble.look(900.0)
    assert not trouble.happened and plan(cluster, name).close() == [name], "nothing to happen to yet"
    if ACTS[name][0] == "PENDING":
        cluster.submit(1000.0)
        cluster.controller.advance(2000.0)
        assert trouble.happened, "before the job could start"
    else:
        running_job(cluster)
    for now in (1200.0, 1201.0, 1300.0):
        trouble.look(now)
    assert [note.name for note in trouble.happened] == [name] and len(trouble.happened[0].text) > 80
    assert cluster.drop_connections.call_count == (name == "drop")
    assert cluster.fill_disk.called == (name == "quota")


@pytest.mark.parametrize(("name", "options", "number", "line", "state"), [
    ("time-limit", {}, SIGTERM, "DUE TO TIME LIMIT", "TIMEOUT"),
    ("node-failure", {"no-requeue": ""}, SIGKILL, "DUE TO NODE FAILURE", "NODE_FAIL"),
    ("node-failure", {}, SIGKILL, "DUE TO NODE FAILURE", "PENDING"),
    ("requeue", {"no-requeue": ""}, SIGKILL, "DUE TO NODE FAILURE", "PENDING"),
    ("out-of-memory", {}, SIGKILL, "oom_kill", "OUT_OF_MEMORY"),
])  # fmt: skip
def test_a_running_job_is_ended(name, options, number, line, state):
    cluster = Cluster()
    job = running_job(cluster, **options)
    plan(cluster, name).look(1200.0)
    cluster.controller.advance(1201.0)
    assert (job.job_id, number) in cluster.runner.signals and line in cluster.runner.lines[-1]
    cluster.controller.record_exit(job.job_id, 0, number, 1201.0)
    assert job.state == state
    if state == "PENDING":
        assert (job.submit_time, job.start_time, job.restarts) == (1201.0, None, 1)
        cluster.controller.advance(1321.0)
        assert (job.state, job.reason) == ("PENDING", "BeginTime"), "Slurm waits two minutes"
        cluster.controller.advance(1323.0)
        assert (job.state, job.restarts) == ("RUNNING", 1)


def test_waiting_with_changing_reasons():
    cluster = Cluster()
    job = cluster.submit(1000.0)
    plan(cluster, "queue").look(1001.0)
    seen = []
    for now in range(1010, 1800, 10):
        cluster.controller.advance(float(now))
        if job.state == "PENDING" and job.reason not in seen:
            seen.append(job.reason)
    assert seen == ["Priority", "Resources", "QOSGrpNodeLimit", "ReqNodeNotAvail"]
    assert job.state == "RUNNING"


@pytest.mark.parametrize(("name", "program", "words"), [
    ("accounting", "sacct", "Connection refused"),
    ("controller", "squeue", "Unable to contact slurm controller"),
])  # fmt: skip
def test_what_does_not_answer_comes_back(name, program, words):
    cluster = Cluster()
    running_job(cluster)
    plan(cluster, name).look(1200.0)
    call = Invocation((), "/", {})
    status, _, err = answer(program, call, cluster.controller, 1201.0)
    assert status == 1 and words in err
    assert answer(program, call, cluster.controller, 2000.0)[0] == 0


def test_choice_by_name_and_by_number():
    assert choose(["drop", "queue", "drop"]) == ["drop", "queue"]
    with pytest.raises(UsageError, match="Did you mean 'queue'") as caught:
        choose(["queu"])
    assert "queue" in caught.value.hint and "one without an end" in INCIDENTS["accounting"].text
