"""`sacct`: what stays known of a job that has left the queue."""

from __future__ import annotations

import re

from tests.contract.commands import PINNED
from tests.contract.jobs import Jobs

SECONDS = re.compile(r"[12]\d{9}")


def test_finished_jobs(jobs: Jobs) -> None:
    done = jobs.submit(f"{jobs.cpu} --comment=labtui:acct-1 -J acct-1 ok.sh")
    failed = jobs.submit(f"{jobs.gpu()} -J acct-2 fail.sh")
    jobs.wait_for(done, "COMPLETED")
    jobs.wait_for(failed, "FAILED")
    row = jobs.wait_for_accounting(done)
    assert (row["State"], row["ExitCode"], row["JobName"]) == ("COMPLETED", "0:0", "acct-1")
    assert (row["Comment"], row["QOS"], row["Partition"]) == (
        "labtui:acct-1", jobs.site.cpu_qos, jobs.site.cpu_partition,
    )  # fmt: skip
    for field in ("Submit", "Start", "End"):
        assert SECONDS.fullmatch(row[field]), (field, row[field])
    assert row["ElapsedRaw"].isdecimal() and row["TimelimitRaw"] == "10"
    row = jobs.wait_for_accounting(failed)
    assert (row["State"], row["ExitCode"], row["Comment"]) == ("FAILED", "3:0", "")
    both = jobs.accounting(f"--jobs={done},{failed}")
    assert set(both) == {done, failed}
    assert set(jobs.accounting("--name=acct-1")) == {done}


def test_state_names_who_cancelled(jobs: Jobs) -> None:
    held = jobs.submit(f"{jobs.cpu} --hold -J acct-3 long.sh")
    running = jobs.submit(f"{jobs.cpu} -J acct-4 long.sh")
    jobs.wait_for(running, "RUNNING")
    jobs.run(f"scancel {held} {running}")
    for job in (held, running):
        row = jobs.wait_for_accounting(job)
        assert re.fullmatch(r"CANCELLED by \d+", row["State"])
    assert jobs.accounting(f"--jobs={held}")[held]["NodeList"] == "None assigned"


def test_time_limit(jobs: Jobs, limited_job: str) -> None:
    row = jobs.wait_for(limited_job, "TIMEOUT", deadline_s=800)
    assert row["%r"] == "TimeLimit"
    kept = jobs.wait_for_accounting(limited_job)
    assert (kept["State"], kept["ExitCode"], kept["Comment"]) == ("TIMEOUT", "0:0", "labtui:limited")
    assert kept["TimelimitRaw"] == "1" and int(kept["ElapsedRaw"]) >= 60
    assert abs(int(kept["End"]) - int(kept["Start"]) - int(kept["ElapsedRaw"])) <= 1  # whole seconds
    log = jobs.run(f"cat limited_{limited_job}.out").out
    expected = (
        rf"(slurmstepd\S*:|\[\S+\]) error: \*\*\* JOB {limited_job} ON \S+ "
        r"CANCELLED AT \S+ DUE TO TIME LIMIT \*\*\*"
    )
    assert re.search(expected, log), log
    assert "JobState=TIMEOUT Reason=TimeLimit" in jobs.run(f"{PINNED}scontrol show job {limited_job}").out
