"""What goes wrong on purpose happens as Slurm would have it, once, and is explained."""

import pytest

from labtui.domain.errors import UsageError
from labtui.practice.clock import PracticeClock
from labtui.practice.incidents import ACTS, INCIDENTS, IncidentPlan, choose
from labtui.practice.slurm.commands import answer
from labtui.practice.slurm.controller import SIGKILL, SIGTERM, Controller
from labtui.practice.slurm.request import build_request, practice_site
from labtui.practice.slurm.written import Call


class Runner:
    def __init__(self):
        self.signals, self.lines = [], []

    def start(self, job):
        pass

    def signal(self, job_id, number):
        self.signals.append((job_id, number))

    def say(self, job, line):
        self.lines.append(line)


class Cluster:
    """As much of a practice cluster as an incident touches, with the time in the test's hand."""

    def __init__(self):
        self.runner = Runner()
        self.controller = Controller(practice_site(), self.runner)
        self.clock = PracticeClock(began=0.0, factor=1.0)
        self.full_for = 0.0
        self.dropped = 0

    def fill_disk(self, seconds):
        self.full_for = seconds

    def drop_connections(self):
        self.dropped += 1

    def submit(self, now, **options):
        request = build_request(
            {"account": "nct_000", "qos": "acc_training", "cpus-per-task": "20", "gres": "gpu:1", "time": "60",
             **options},
            name="job", work_dir="/w", site=self.controller.site,
        )  # fmt: skip
        return self.controller.submit(request, script=b"", command="c", arguments=(), environment={}, now=now)


def plan(cluster, name):
    """A plan, and `happened`: what it told of."""
    happened = []
    made = IncidentPlan(cluster, [name], happened.append)
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
    assert not trouble.happened, "nothing to happen to yet"
    if ACTS[name][0] == "PENDING":
        cluster.submit(1000.0)
    else:
        running_job(cluster)
    for now in (1200.0, 1201.0, 1300.0):
        trouble.look(now)
    assert [note.name for note in trouble.happened] == [name]
    assert len(trouble.happened[0].text) > 80


@pytest.mark.parametrize("name", [name for name in ACTS if ACTS[name][0] == "PENDING"])
def test_a_job_that_waits_for_a_moment_only_is_not_missed(name):
    cluster = Cluster()
    trouble = plan(cluster, name)
    cluster.submit(1000.0)
    cluster.controller.advance(2000.0)
    assert [note.name for note in trouble.happened] == [name], "before the job could start"
    trouble.close()


NODE_FAILURE = "DUE TO NODE FAILURE"


@pytest.mark.parametrize(
    ("name", "options", "number", "line", "state"),
    [
        ("time-limit", {}, SIGTERM, "DUE TO TIME LIMIT", "TIMEOUT"),
        ("node-failure", {"no-requeue": ""}, SIGKILL, NODE_FAILURE, "NODE_FAIL"),
        ("node-failure", {}, SIGKILL, NODE_FAILURE, "PENDING"),
        ("requeue", {"no-requeue": ""}, SIGKILL, NODE_FAILURE, "PENDING"),
        ("out-of-memory", {}, SIGKILL, "oom_kill", "OUT_OF_MEMORY"),
    ],
)
def test_a_running_job_is_ended(name, options, number, line, state):
    cluster = Cluster()
    job = running_job(cluster, **options)
    plan(cluster, name).look(1200.0)
    cluster.controller.advance(1201.0)
    assert (job.job_id, number) in cluster.runner.signals
    assert line in cluster.runner.lines[-1]
    cluster.controller.ended(job.job_id, 0, number, 1201.0)
    assert job.state == state
    if state == "PENDING":
        assert (job.submit_time, job.start_time) == (1201.0, None)
        call = Call(("show", "job", str(job.job_id)), "/", {})
        shown = answer("scontrol", call, cluster.controller, 1202.0)[1]
        assert "Requeue=1 Restarts=1" in shown and "Reason=BeginTime" in shown
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


@pytest.mark.parametrize(
    ("name", "program", "words"),
    [
        ("accounting", "sacct", "Connection refused"),
        ("controller", "squeue", "Unable to contact slurm controller"),
    ],
)
def test_what_does_not_answer_comes_back(name, program, words):
    cluster = Cluster()
    running_job(cluster)
    plan(cluster, name).look(1200.0)
    call = Call((), "/", {})
    status, _, err = answer(program, call, cluster.controller, 1201.0)
    assert status == 1 and words in err
    assert answer(program, call, cluster.controller, 2000.0)[0] == 0


def test_drop_and_quota():
    cluster = Cluster()
    running_job(cluster)
    plan(cluster, "drop").look(1200.0)
    assert cluster.dropped == 1
    cluster.submit(1200.0)
    plan(cluster, "quota").look(1201.0)
    assert cluster.full_for > 0


def test_choice_by_name_and_by_number():
    assert choose(["drop", "queue", "drop"], None) == ["drop", "queue"]
    assert choose([], 7) == choose([], 7) and len(choose([], 7)) == 3
    assert len({tuple(choose([], seed)) for seed in range(20)}) > 5
    with pytest.raises(UsageError) as caught:
        choose(["earthquake"], None)
    assert "queue" in caught.value.hint
