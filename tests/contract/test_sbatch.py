"""`sbatch`: what it answers, what it keeps, what it refuses and in which words."""

from __future__ import annotations

import re

import pytest

from tests.contract.commands import PINNED, REFUSALS
from tests.contract.jobs import Jobs

SAID_BY_SBATCH = {
    "bad-time", "bad-option", "bad-directive", "crlf", "no-shebang", "empty", "missing", "en-dash",
    "blank-gres",
}  # fmt: skip
"""Refused by sbatch itself, before it speaks to the controller."""


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals(jobs: Jobs, name: str) -> None:
    text, status, words = REFUSALS[name]
    options = text.format_map(jobs.words)
    before = {job for job, row in jobs.queue().items() if row["%T"] in ("PENDING", "RUNNING")}
    refused = jobs.run(f"sbatch --parsable {options}")
    assert refused.status == status, refused.err
    assert refused.out == ""
    assert re.search(words, refused.err), refused.err
    alive = {job for job, row in jobs.queue().items() if row["%T"] in ("PENDING", "RUNNING")}
    assert alive <= before, "a refused submission lives in the queue"
    tried = jobs.run(f"{PINNED}sbatch --test-only {options}")
    assert (tried.status, tried.out) == (status, "")
    assert re.search(words, tried.err), tried.err
    if name not in SAID_BY_SBATCH and name != "bad-gres":
        assert re.search(r"^(sbatch: error: .*\n)*(sbatch: error: )?allocation failure: \S", tried.err), (
            tried.err
        )


def test_test_only_tells_when_and_where(jobs: Jobs) -> None:
    before = set(jobs.queue())
    answer = jobs.run(f"{PINNED}sbatch --test-only {jobs.gpu(4)} ok.sh")
    assert (answer.status, answer.out) == (0, "")
    found = re.fullmatch(
        r"sbatch: Job \d+ to start at (\d+) (?:a )?using (\d+) processors on nodes (\S+) in partition (\S+)",
        answer.err,
    )
    assert found, answer.err
    assert (found[2], found[4]) == ("80", jobs.site.gpu_partition)
    local = jobs.run(f"unset SLURM_TIME_FORMAT; sbatch --test-only {jobs.gpu(4)} ok.sh")
    assert re.search(r" at \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d ", local.err), local.err
    assert set(jobs.queue()) == before, "a test submits nothing"


def test_parsable_answer_is_the_id_alone(jobs: Jobs) -> None:
    answer = jobs.run(f"sbatch --parsable {jobs.cpu} ok.sh")
    assert re.fullmatch(rb"\d+\n", answer.stdout)
    assert (answer.status, answer.stderr) == (0, b"")
    plain = jobs.run(f"sbatch {jobs.cpu} ok.sh")
    assert re.fullmatch(rb"Submitted batch job \d+\n", plain.stdout)


def test_command_line_beats_the_directives(jobs: Jobs) -> None:
    found = "--no-requeue --comment=labtui:tok-77 --job-name=Named-77 --output=o.%j.txt --error=e.%j.txt -t 7"
    job = jobs.submit(f"{found} {jobs.cpu} ok.sh")
    row = jobs.wait_for(job, "COMPLETED")
    assert (row["%k"], row["%j"], row["%l"]) == ("labtui:tok-77", "Named-77", "7:00")
    assert jobs.run(f"cat o.{job}.txt").out == "hello"
    assert jobs.run(f"cat e.{job}.txt").out == "trouble"
    assert "Requeue=0" in jobs.details(job)


def test_second_debug_job_is_refused_until_the_first_is_over(jobs: Jobs) -> None:
    site = jobs.site
    debug = f"-A {site.account} -q {site.debug_qos} -c 20 --gres=gpu:1 -t 10"
    first = jobs.submit(f"{debug} long.sh")
    for flag, last in (("--parsable", "Batch job submission failed"), ("--test-only", "allocation failure")):
        second = jobs.run(f"sbatch {flag} {debug} ok.sh")
        assert second.status == 1
        lines = [line.removeprefix("sbatch: error: ") for line in second.err.splitlines()]
        assert lines[0] == "QOSMaxSubmitJobPerUserLimit"
        assert lines[-1] == (
            f"{last}: Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"
        )
    assert jobs.run(f"scancel {first}").status == 0
    jobs.wait_for(first, "CANCELLED")
    again = jobs.submit(f"{debug} ok.sh")
    jobs.wait_for(again, "COMPLETED")


def test_missing_directory_fails_after_it_was_accepted(jobs: Jobs) -> None:
    job = jobs.submit(f"{jobs.cpu} --chdir /gpfs/none ok.sh")
    assert jobs.wait_for(job, "FAILED")["%Z"] == "/gpfs/none"
