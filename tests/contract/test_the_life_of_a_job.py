"""`squeue`, `scontrol`, `scancel`, `sacct`: a job's life as the controller and accounting tell it."""

import re

SECONDS = re.compile(r"[12]\d{9}")
DURATION = re.compile(r"(\d+-)?(\d+:)?\d{1,2}:\d\d")


def shape(row: dict[str, str]) -> None:
    """What every row must look like, whatever its state."""
    assert row["%A"].isdecimal()
    assert re.fullmatch(r"[A-Z_]+", row["%T"])
    # A reason is a word; some add which nodes are meant.
    assert re.fullmatch(r"[A-Za-z_]+(, \w+:\S+)?", row["%r"])
    assert SECONDS.fullmatch(row["%V"])
    assert DURATION.fullmatch(row["%l"]) and DURATION.fullmatch(row["%M"])
    for code in ("%S", "%e"):
        assert row[code] == "N/A" or SECONDS.fullmatch(row[code]), (code, row[code])


def test_rows_of_waiting_running_and_finished_jobs(jobs):
    held = jobs.submit(f"{jobs.cpu} --hold long.sh")
    running = jobs.submit(f"{jobs.gpu()} long.sh")
    done = jobs.submit(f"{jobs.cpu} ok.sh")
    failed = jobs.submit(f"{jobs.cpu} fail.sh")
    jobs.wait_for(running, "RUNNING")
    jobs.wait_for(done, "COMPLETED")
    jobs.wait_for(failed, "FAILED")
    rows = jobs.queue()
    for job in (held, running, done, failed):
        shape(rows[job])
    assert (rows[held]["%T"], rows[held]["%r"], rows[held]["%S"]) == ("PENDING", "JobHeldUser", "N/A")
    assert (rows[held]["%N"], rows[held]["%M"]) == ("", "0:00")
    life = rows[running]
    assert (life["%T"], life["%r"], life["%l"]) == ("RUNNING", "None", "10:00")
    assert life["%P"] == jobs.site.gpu_partition and life["%q"] == jobs.site.gpu_qos
    assert re.fullmatch(r"[a-z]+\d\w*", life["%N"])
    assert int(life["%e"]) == int(life["%S"]) + 600
    assert (rows[done]["%r"], rows[done]["%k"], rows[done]["%j"]) == ("None", "(null)", "ok")
    assert rows[done]["%Z"].removesuffix("/.") == jobs.directory
    assert rows[done]["%P"] == jobs.site.cpu_partition
    assert rows[failed]["%r"] == "NonZeroExitCode"
    jobs.run(f"scancel {held} {running}")
    jobs.wait_for(running, "CANCELLED")


def test_names_and_comments_come_back_as_given(jobs):
    job = jobs.submit(f"{jobs.cpu} --hold --comment='a|b;c\"d\té' --job-name='x y|z' long.sh")
    row = jobs.queue()[job]
    jobs.run(f"scancel {job}")
    assert (row["%k"], row["%j"]) == ('a|b;c"d\té', "x y|z")


def test_a_users_limit_can_be_made_shorter_and_the_job_ends_by_it(jobs):
    job, held = jobs.submit(f"{jobs.gpu()} long.sh"), jobs.submit(f"{jobs.cpu} --hold long.sh")
    jobs.wait_for(job, "RUNNING")
    for words in (f"hold {job}", *(f"update JobId={each} TimeLimit=5" for each in (job, held))):
        completed = jobs.run(f"scontrol {words}")
        assert (completed.status, completed.out, completed.err) == (0, "", "")
    rows = jobs.queue()
    assert [rows[each]["%l"] for each in (job, held)] == ["5:00", "5:00"]
    assert (rows[job]["%T"], rows[job]["%r"]) == ("RUNNING", "JobHeldUser"), "held to no effect"
    assert int(rows[job]["%e"]) == int(rows[job]["%S"]) + 300
    longer = jobs.run(f"scontrol update JobId={job} TimeLimit=9")
    assert (longer.status, longer.err) == (1, f"Access/permission denied for job {job}")
    assert jobs.run(f"scontrol update JobId={held} TimeLimit=9").status == 0
    jobs.run(f"scancel {job} {held}")
    jobs.wait_for(job, "CANCELLED")
    for wanted, sentence in ((job, "Job has already finished"), ("999999", "Invalid job id specified")):
        over = jobs.run(f"scontrol update JobId={wanted} TimeLimit=1")
        assert (over.status, over.err) == (1, f"{sentence} for job {wanted}")


def test_scancel_says_nothing_unless_the_id_is_no_number(jobs):
    held = jobs.submit(f"{jobs.cpu} --hold long.sh")
    silent = jobs.run(f"scancel {held}")
    assert (silent.status, silent.out, silent.err) == (0, "", "")
    assert jobs.wait_for(held, "CANCELLED")["%N"] == ""
    again = jobs.run(f"scancel {held}")
    assert again.status == 0 or re.search(r"already|[Ii]nvalid job id", again.err)
    unknown = jobs.run("scancel 999999")
    assert unknown.out == ""
    assert unknown.status == 0 or "Invalid job id specified" in unknown.err
    nonsense = jobs.run("scancel nonsense")
    assert nonsense.status == 1
    assert "Invalid job id nonsense" in nonsense.err


def test_who_cancelled_is_in_the_log_and_in_accounting(jobs):
    held, job = jobs.submit(f"{jobs.cpu} --hold long.sh"), jobs.submit(f"{jobs.cpu} long.sh")
    jobs.wait_for(job, "RUNNING")
    jobs.run(f"scancel {held} {job}")
    row = jobs.wait_for(job, "CANCELLED")
    assert int(row["%e"]) >= int(row["%S"])
    log = jobs.run(f"cat long_{job}.out").out
    expected = (  # the second forms are those of 26.05
        rf"(slurmstepd\S*:|\[\S+\]) error: \*\*\* JOB {job} ON \S+ CANCELLED AT \S+"
        r"( DUE to SIGNAL Terminated)? \*\*\*"
    )
    assert re.search(expected, log), log
    kept = [jobs.wait_for_accounting(each) for each in (held, job)]
    assert all(re.fullmatch(r"CANCELLED by \d+", each["State"]) for each in kept)
    assert [each["ExitCode"] for each in kept] == ["0:0", "0:0"]
    assert kept[0]["NodeList"] == "None assigned"


def test_finished_jobs(jobs):
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


def test_time_limit(jobs, limited_job):
    """The last test of this folder: the minute is over by then."""
    assert jobs.wait_for(limited_job, "TIMEOUT", deadline_s=800)["%r"] == "TimeLimit"
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
