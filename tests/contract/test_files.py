"""SFTP, and the files a job leaves."""

from __future__ import annotations

import random
import time
from contextlib import nullcontext, suppress

from labtui.cluster.files import RemoteFiles, request_size
from tests.contract.jobs import Jobs
from tests.contract.sites import Site


def test_reading_around_the_end_of_a_file(jobs: Jobs) -> None:
    """Labtui asks for more than there may be; what comes is what there is, and the channel goes on serving."""
    sftp = jobs.site.sftp()
    files = RemoteFiles(lambda: nullcontext(sftp))
    request = request_size(sftp)
    for size in (0, 1, request - 1, request, request + 1, 3 * request, 20 * request):
        data = random.Random(size).randbytes(size)
        files.write_atomic(f"{jobs.directory}/ends", data)
        for offset in {0, 1, size // 2, max(0, size - request), size, size + 1}:
            for limit in {1, request, size - offset, size - offset + 1, size + 2 * request}:
                got = files.read(f"{jobs.directory}/ends", offset, limit)
                assert got == data[offset : offset + max(0, limit)], (size, offset, limit)
        found = files.stat(f"{jobs.directory}/ends")
        assert found is not None and found.size == size
    sftp.close()


def test_a_growing_file_is_read_from_where_one_stopped(jobs: Jobs) -> None:
    jobs.site.write(
        f"{jobs.directory}/grow.sh",
        b"#!/bin/bash\n#SBATCH --output grow.%j.out\n#SBATCH --time 5\nfor i in 1 2 3 4; do"
        b" echo line $i; until [ -e seen$i ]; do sleep 0.1; done; done\nprintf end\n",
    )
    job = jobs.submit(f"{jobs.cpu} -J grow grow.sh")
    jobs.wait_for(job, "RUNNING")
    sftp = jobs.site.sftp()
    path = f"{jobs.directory}/grow.{job}.out"
    seen, pieces = b"", [b"line %d\n" % i for i in range(1, 5)] + [b"end"]
    deadline = time.monotonic() + 240
    for number, piece in enumerate(pieces, 1):
        before = seen
        while seen != before + piece and time.monotonic() < deadline:
            with suppress(FileNotFoundError), sftp.open(path, "rb") as file:
                file.seek(len(seen))
                seen += file.read(32_768)
            time.sleep(0.1)
        assert seen == before + piece
        jobs.site.write(f"{jobs.directory}/seen{number}", b"")
    sftp.close()


def test_logs_lie_where_the_pattern_says(jobs: Jobs) -> None:
    job = jobs.submit(f"{jobs.cpu} -J named --output=%x-%j-%u.txt ok.sh")
    jobs.wait_for(job, "COMPLETED")
    assert jobs.run(f"cat named-{job}-{jobs.site.user}.txt").out == "hello"
    default = jobs.submit(f"{jobs.cpu} fail.sh")
    jobs.wait_for(default, "FAILED")
    assert jobs.run(f"cat slurm-{default}.out").out == "before"
    capital = jobs.submit(f"{jobs.cpu} -t 5 -J capital --output=%x_%J.out ok.sh")
    jobs.wait_for(capital, "COMPLETED")
    assert jobs.run(f"cat capital_{capital}.out").out == "hello"


def test_missing_log_directory_fails_the_job_without_a_log_or_is_made(jobs: Jobs) -> None:
    job = jobs.submit(f"{jobs.cpu} --output=results/%j.out --error=results/%j.err ok.sh")
    row = jobs.wait_for(job, "FAILED", "COMPLETED")
    if row["%T"] == "FAILED":  # 22.05
        assert jobs.run("ls results").status != 0
    else:  # 24.11 and later make the directory
        assert jobs.run(f"cat results/{job}.out").out == "hello"


def test_the_labs_files_are_there(slurm_site: Site) -> None:
    listed = slurm_site.run(
        f"ls {slurm_site.data_dir}; test -r {slurm_site.container} && echo image"
    ).out.split()
    assert {"data_batch_1", "data_batch_5", "test_batch", "image"} <= set(listed)
