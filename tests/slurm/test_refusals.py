"""Refusals, reasons and --test-only, by recorded answers of real Slurm."""

import re

import pytest

from labtui.domain.errors import RemoteFailure, SubmitRefused
from labtui.domain.model import JobPhase
from labtui.slurm.job_control import cancel, check_script, classify, control
from labtui.slurm.remote_command import CommandResult
from labtui.slurm.states import explain_reason, reason_words
from labtui.slurm.submit import submit
from tests.slurm.recorded import FOLDER, VERSIONS, answer, read, recorded

EXPECTED = {
    "option": "bad-directive bad-option",
    "shape": "bad-gres-type too-many-cpus too-many-gpus too-many-nodes", "gres": "bad-gres",
    "partition": "bad-partition", "reservation": "bad-reservation", "time-format": "bad-time",
    "missing-script": "blank-gres en-dash missing", "line-breaks": "crlf",
    "not-a-script": "empty no-shebang", "account": "foreign-account no-account wrong-account",
    "qos": "foreign-qos no-qos wrong-qos", "memory": "memory", "qos-submit-limit": "second-debug",
    "time-limit": "time-over-partition time-over-qos", "cpus-per-gpu": "too-few-cpus",
}  # fmt: skip
"""Recorded refusals by the kind that they are."""
CASES = [
    (version, name, key)
    for version in VERSIONS
    for key, names in EXPECTED.items()
    for name in names.split()
    if f"refused-{name}" in recorded(version)
]


@pytest.mark.parametrize(("version", "name", "key"), CASES)
def test_recorded_refusals(version, name, key):
    text = answer(version, f"refused-{name}")
    assert text.status in (1, 255)
    refusal = classify(text.err)
    assert (refusal.key, refusal.wait, refusal.unclear) == (key, name == "second-debug", False)
    assert refusal.sentence and refusal.hint and refusal.detail
    tested = check_script(options=()).read(answer(version, f"test-only-{name}"))
    assert not tested.ok and tested.wait == refusal.wait
    assert tested.sentence == classify(answer(version, f"test-only-{name}").err).sentence


@pytest.mark.parametrize("version", VERSIONS)
def test_recorded_test_only_answers(version):
    report = check_script(options=()).read(answer(version, "test-only-gpu"))
    assert report.ok and report.sentence == "Slurm would accept this job."
    assert check_script(options=()).read(answer(version, "test-only-local-time")).ok
    assert not check_script(options=()).read(CommandResult(b"", b"", None)).ok


@pytest.mark.parametrize(("stderr", "key", "words", "unclear"), [
    ("sbatch: error: Reason: Invalid qos for this project\nsbatch: error: Unspecified error", "qos", "", False),
    ("sbatch: error: Batch job submission failed: Required partition not available (inactive or drain)",
     "partition", "takes no jobs now", False),
    ("sbatch: error: invalid partition specified: gpux\nsbatch: error: Batch job submission failed: Invalid "
     "partition name specified", "partition", "partition gpux does not", False),
    ("sbatch: error: The moon is in the wrong house", "other", "failed: The moon is in the wrong house.", True),
    ("sbatch: unrecognized option '--b2'\nTry ...", "option", "script: unrecognized option '--b2'.", False),
    ("sbatch: error: Invalid directive found in batch script: b", "option", "batch script: b.", False),
    ('sbatch: error: Invalid numeric value "a" for --ntasks.', "option", "for --ntasks.", False),
    ("sbatch: error: \"abc\" is not a valid node count", "option", "abc", False),
    ("sbatch: option '--export' requires an argument\nTry ...", "option", "requires an argument.", False),
    *((f"sbatch: error: Batch job submission failed: {said}", "request", f"asks for: {said}.", False)
      for said in ("Invalid feature specification", "Invalid node name specified", "Job dependency problem")),
    *((f"sbatch: error: Batch job submission failed: {said}", key, "", False) for said, key in (
        ("Invalid Trackable RESource (TRES) specification", "gres"), ("Invalid group id", "permission"),
        ("Requested partition configuration not available now", "shape"),
        ("Memory required by task is not available", "memory"),
        ("Access denied to requested reservation", "reservation"))),
    ("sbatch: error: --cpus-per-gpu is mutually exclusive with --cpus-per-task", "request", "--cpus-per-g", False),
    ("sbatch: error: Reason: Not on Sundays\nsbatch: error: Batch job submission failed: Unspecified error",
     "other", "Not on Sundays", True),
])  # fmt: skip
def test_words_of_a_site(stderr, key, words, unclear):
    refusal = classify(stderr)
    assert (refusal.key, refusal.unclear, refusal.wait) == (key, unclear, False) and words in refusal.sentence
    with pytest.raises(RemoteFailure) as told:
        read(submit("/d", "job.slurm", "token", "name", attempt=0), "", stderr, 1)
    assert told.value.sentence == refusal.sentence and isinstance(told.value, SubmitRefused) is not unclear


@pytest.mark.parametrize("stderr", [
    *(answer(v, f"{name}-slurmctld-sbatch").err for v in VERSIONS for name in ("frozen", "no")),
    *("", "Terminated", "bash: line 9: 4711 Segmentation fault      (core dumped) sbatch"),
    "sbatch: error: Batch job submission failed: Unspecified error",
    "sbatch: error: Batch job submission failed: Protocol authentication error",
    "sbatch: error: If munged is up, restart with --num-threads=10\nsbatch: error: Munge encode failed: "
    'Failed to access "/run/munge/munge.socket.2": No such file or directory\n'
    "sbatch: error: authentication: Socket communication error",
    "sbatch: error: Batch job submission failed: Zero Bytes were transmitted or received",
    "slurm_load_partitions: Unable to contact slurm controller (connect failure)",
])  # fmt: skip
def test_a_broken_question_is_no_refusal(stderr):
    assert (refusal := classify(stderr)).unclear and not refusal.wait


REASONS = (FOLDER / "reasons.txt").read_text().split()
"""Those of Slurm's source."""


@pytest.mark.parametrize("reason", REASONS)
def test_every_reason_is_explained(reason):
    sentence = explain_reason(reason)
    assert "names the reason" not in sentence and reason not in sentence and re.search(r"[.!]$", sentence)


@pytest.mark.parametrize(("reason", "words"), [
    *(("(Priority)", "higher priority"), ("JobHeldUser", "`labtui release RUN`")),
    ("ReqNodeNotAvail, UnavailableNodes:as01r1b[01-99]", "maintenance"),
    ("RaisedSignal:53(Real-time signal 19)", "ended by a signal"),
    *(("launch failed requeued held", "held"), ("QOSMaxJobsPerUserLimit", "running jobs")),
    *(("QOSGrpNodeLimit", "All jobs of this QoS together"), ("AssocGrpGRESMinutes", "budget")),
    *(("QOSMaxWallDurationPerJobLimit", "more time"), ("QOSMaxGRESPerUser", "GPUs")),
    *(("MoonPhase", "MoonPhase"), ("None", ".")),
])  # fmt: skip
def test_reasons_in_words(reason, words):
    assert words in explain_reason(reason) and explain_reason("") == ""


def test_a_refused_hold_says_why_and_only_a_job_that_waits_gets_advice():
    with pytest.raises(RemoteFailure, match="was not held: Job is no longer pending"):
        read(control("hold", "7"), "", "Job is no longer pending execution for job 7", 1)
    with pytest.raises(RemoteFailure, match="was not released"):
        read(control("release", "7"), "", "Access/permission denied for job 7", 1)
    with pytest.raises(RemoteFailure, match="it is already running") as runs:
        read(control("hold", "7"), "", "it is already running", 1)
    for over in ("Kill job error on job id 5: Invalid job id specified", "Job/step already completing"):
        read(cancel("5"), "", f"scancel: error: {over}", 1)
    assert (runs.value.reason, runs.value.hint) == ("running", "Only a job that waits can be held.")
    assert "Cancel it" in reason_words("queued", "BadConstraints"), "as `labtui queue` asks"
    assert reason_words(JobPhase.QUEUED, "") == ""
    assert reason_words("finished", "NonZeroExitCode") == "Its script ended with an error."
