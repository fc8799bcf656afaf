# ruff: noqa: E501 (lines of logs)
"""What a log says went wrong, with its line and advice, and what it makes of the runs; noise is never flagged."""

import tomllib

import pytest

from labtui.training_logs.reader import parse_log
from tests.training_logs import samples
from tests.training_logs.test_faults import joined

CUDA = "I0000 00:00:1.2 1 cudart_stub.cc:31] Could not find cuda drivers on your machine, GPU will not be used.\n"


def diagnose(data):
    return parse_log(data, stream="err").diagnosis


TEXTS = tomllib.loads((samples.LOGS / "diagnosis.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind, texts in TEXTS.items() for text in texts])
def test_every_text_is_known(kind, text):
    found = diagnose(f"something before\n{text}\nsomething after\n".encode())
    assert [(one.kind, one.line, one.text) for one in found] == [(kind, 2, text[:300])]
    assert len(found[0].advice) > 30 and found[0].advice.endswith(".")


@pytest.mark.parametrize(("kind", "text"), [(kind, texts[0]) for kind, texts in TEXTS.items()])
def test_texts_are_known_behind_a_rank_and_glued_to_a_bar(kind, text):
    assert [one.kind for one in diagnose(f"0: {text}\n".encode())] == [kind]
    if kind in ("time-limit", "host-memory", "cancelled"):
        bar = samples.old_bar(3, 25, "ETA: 1s - loss: 2.0")
        assert [one.kind for one in diagnose(f"{bar}{text}\n".encode())] == [kind]


@pytest.mark.parametrize("line", samples.NOISE.splitlines())
def test_noise_is_never_flagged(line):
    report = parse_log((line + "\n").encode())
    assert report.diagnosis == () and report.failures == ()


UNFINISHED = samples.banner("ResNet50", 1, 64) + "Epoch 1/2\n25/25 - 3s - loss: 1.0\nEpoch 2/2\n"
FINISHED = UNFINISHED + "25/25 - 3s - loss: 1.0\n"
TRACE = 'Traceback (most recent call last):\n  File "a.py", line 3, in <module>\n    f()\n'
ENDED = "error: this training ended with exit status 1\n"

ENDS = {
    "failed": [
        TRACE + "ValueError: something of their own\n",
        TRACE + "my.module.Strange: no word for it\n",
        TEXTS["cancelled"][3], TEXTS["missing-module"][0], "slurm_script: line 30: 12345 Killed    python x.py",
        "/var/spool/slurmd/job1/slurm_script: line 30: 77 Segmentation fault (core dumped) python a.py",
        "srun: error: as01r1b09: task 0: Exited with exit code 1",
        "srun: error: node2: task 1: Killed\nerror: Rank 1 on node2 ended without a word (killed)",
    ],
    "cancelled": [TRACE + "KeyboardInterrupt\n", TEXTS["cancelled"][0]],
    "oom": [samples.ERRORS, TEXTS["host-memory"][0]],
    "time-limit": [TEXTS["time-limit"][0], TEXTS["cancelled"][6] + "\n" + TEXTS["time-limit"][0]],
    "unfinished": [TEXTS["no-gpu"][0], samples.NOISE, ""],
}  # fmt: skip


@pytest.mark.parametrize(("outcome", "text"), [(outcome, text) for outcome in ENDS for text in ENDS[outcome]])
@pytest.mark.parametrize("stream", ["out", "err"])
def test_outcomes_from_either_stream(text, outcome, stream):
    report = joined(UNFINISHED, text) if stream == "err" else parse_log((UNFINISHED + text).encode())
    assert report.runs[-1].outcome == outcome


def test_slurms_signal_says_no_more_than_its_time_limit():
    exercise = (samples.LOGS / "sa-miri-2021-ex12.err").read_text()
    for err in (f"{TEXTS['time-limit'][0]}\n{TEXTS['cancelled'][4]}\n", exercise):
        found = joined(UNFINISHED, err).diagnosis
        assert [(one.kind, one.stream) for one in found] == [("time-limit", "err")]


def test_failures_of_the_err_go_to_the_runs_that_stopped_in_order():
    err = samples.ERRORS + ENDED + TRACE + "ValueError: x\n" + ENDED + TEXTS["time-limit"][0]
    report = joined(UNFINISHED + FINISHED + UNFINISHED + UNFINISHED, err)
    assert [run.outcome for run in report.runs] == ["oom", "completed", "failed", "time-limit"]
    assert [one.kind for one in report.diagnosis] == ["oom", "traceback", "time-limit"]
    assert all(one.stream == "err" for one in report.diagnosis)


@pytest.mark.parametrize("before", ["", "a/long/path " * 40])
def test_a_cpu_job_finds_no_gpu_and_that_is_no_news(before):
    err = f"{before}{TEXTS['no-gpu'][1]}\n"
    assert joined(samples.banner("ResNet50", 0, 256) + "196/196 - 220s - loss: 2.0\n", err).diagnosis == ()
    assert [one.kind for one in diagnose(err.encode())] == ["no-gpu"]


def test_hints_of_a_missing_gpu_give_way_to_what_says_more():
    for strong in (TEXTS["no-gpu"][5], TEXTS["no-gpu"][0], TEXTS["missing-file"][4]):
        assert [one.text for one in joined("", CUDA + strong + "\n").diagnosis] == [strong]
    gpu = samples.banner("ResNet50", 1, 64) + "25/25 - 3s - loss: 1.0\n"
    assert [one.kind for one in joined(gpu, CUDA).diagnosis] == ["no-gpu"]


@pytest.mark.parametrize(("name", "outcome", "kind", "says"), [
    ("a-rank-killed", "failed", "process-lost", "Rank 1 on node2 was killed, or its node failed"),
    ("a-node-lost", "failed", "node-lost", "The node node2 failed while the job ran"),
    ("a-node-that-never-came", "failed", "rendezvous", "Not all nodes joined the training"),
    ("cancelled", "cancelled", "cancelled", "The job was cancelled, by you"),
])  # fmt: skip
def test_a_training_on_two_nodes_names_who_ended_it(name, outcome, kind, says):
    """What srun and torchrun end because of the first failure is neither cancelled nor out of memory."""
    report = joined(UNFINISHED, (samples.LOGS / f"two-nodes-{name}.err").read_text())
    assert (report.runs[0].outcome, report.diagnosis[0].kind) == (outcome, kind)
    assert report.diagnosis[0].advice.startswith(says)
    assert {found.kind for found in report.diagnosis} <= {kind, "process-lost"}


FULL = "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=5.0\n"
KILLED = "srun: error: node2: task 1: Killed\n"
MISSED = (
    "error: Rank 1 on node2 ended without a word (killed, or its node was lost); rank 0 on node1 says so.\n"
)
RANK_1 = "Rank 1 on node2 was killed, or its node failed"
EXITED = "srun: error: node1: task 0: Exited with exit code 1\n"
STEP = "slurmstepd: error: *** STEP 5.0 ON n1 CANCELLED AT 2026-11-21T10:00:00 ***\n"
NOT_FOUND = "\n\n/var/spool/slurmd/job00031/slurm_script: line 9: python: command not found\n"
NON_GPU = "WARNING: There are non-GPU devices in `tf.distribute.Strategy`, not using nccl allreduce.\n"
UNHEALTHY = TRACE + (
    "tensorflow.python.framework.errors_impl.UnavailableError: {{function_node __wrapped__CollectiveReduceV2_device_"
    "/job:worker/replica:0/task:0/device:CPU:0}} Collective ops is aborted by: Error reported from "
    "/job:worker/task:1: The following tasks are unhealthy (stopped sending heartbeats):\n"
)
# As the course's own script ends, which says nothing itself: each node's table has a root cause of its own.
TORCHRUN = TRACE + "RuntimeError: [gloo/pair.cc:547] Connection closed by peer [198.18.188.12]:39466\n"
KILLED_ERR = (samples.LOGS / "two-nodes-a-rank-killed.err").read_text().splitlines(keepends=True)
TORCHRUN += "".join(line for line in KILLED_ERR if not line.startswith("error: Rank"))
SAID = {
    "a kind once for each process": (samples.ERRORS * 3, ["oom"] * 3, ""),
    "a module of another cluster before what follows from it": (
        "ModuleCmd_Load.c(213):ERROR:105: Unable to locate a modulefile for 'python/3.7.4_ML'" + NOT_FOUND,
        ["missing-module"], "another cluster",
    ),
    "the same, as Lmod says it": (
        'Lmod has detected the following error:  The following module(s) are unknown: "gcc/8.3.0" "python/3.7.4_ML"' + NOT_FOUND,
        ["missing-module"], "another cluster",
    ),
    "no Python at its path": ("slurm_script: line 3: /opt/tf/bin/python: No such file or directory\n", ["missing-module"], "no program /opt/tf/bin/python on the node"),
    "a signal in torchrun's tables": (
        TORCHRUN, ["process-lost"],
        "A process was ended by signal 9 (9: by you, by the system, or because the memory was full)",
    ),
    "a killed task is the rank that the training misses": (KILLED + MISSED, ["process-lost"], RANK_1),
    "in the other order": (MISSED + KILLED, ["process-lost"], RANK_1),
    "of a full memory": (FULL + KILLED + MISSED, ["host-memory", "process-lost"], ""),
    "a worker of TensorFlow, not what the others raise": (
        KILLED + UNHEALTHY + EXITED, ["process-lost"],
        "task 1 on node2: killed (signal 9), by you, by the system, or because",
    ),
    "what the others raise alone": (UNHEALTHY, ["traceback"], ""),
    "a step that the student cancels": (STEP, ["cancelled"], ""),
    "did not fail": (EXITED + STEP, [], ""),
    "a killed task": (KILLED, ["process-lost"], ""),
    "of a job that ends": ("srun: forcing job termination\n" + KILLED, [], ""),
    "no GPU": (NON_GPU, ["no-gpu"], "--gres"),
    "no GPU in a container": (
        "+ singularity exec x.sif python ResNet50.py --epochs 5\n" + NON_GPU, ["no-gpu"], "singularity exec --nv",
    ),
    "no GPU in this build": ("This TensorFlow was built without GPU support.\n", ["no-gpu"], "This build has no GPU support"),
    "a kill without Slurm's word": (
        UNFINISHED + "slurm_script: line 30: 12345 Killed    python x.py\n", ["process-lost"],
        "Killed (signal 9): by you, by the system, or because the memory was full.",
    ),
    "chained tracebacks are one failure": (
        TRACE + "KeyError: 'x'\n\nDuring handling of the above exception, another exception occurred:\n\n" + TRACE + "ValueError: y\n",
        ["traceback"], "",
    ),
    "the own words of two trainings, the first of each": (
        CUDA + "error: 512 images were asked for, but x holds only 320.\nerror: more\n" + ENDED + "x: error: no\n" + ENDED,
        ["no-gpu", "traceback", "traceback"], "",
    ),
    "own words beside a known text": ("error: it failed\n" + TEXTS["oom"][0] + "\n", ["oom"], ""),
    "text is data": ("\x1b[31mKilled\x1b[0m\x07 \x1b]0;title\x07[bold]x[/bold]\n", ["process-lost"], ""),
}  # fmt: skip


@pytest.mark.parametrize("name", SAID)
def test_what_is_said_of_an_end(name):
    text, kinds, advice = SAID[name]
    found = diagnose(text.encode())
    assert [one.kind for one in found] == kinds
    assert not kinds or advice in found[0].advice
    assert "singularity" in text or not any("container" in one.advice for one in found)
    assert not any(sign in one.text for one in found for sign in "\x1b\x07")


def test_a_handled_exception_does_not_fail_a_run_that_goes_on():
    text = UNFINISHED + TRACE + "ValueError: logged and gone\n25/25 - 3s - loss: 1.0\n"
    assert [run.outcome for run in parse_log(text.encode()).runs] == ["completed"]
