"""The login shell, the programs a job finds, and what the site tells about itself."""

import random
import re
from contextlib import nullcontext

from labtui.cluster.files import RemoteFiles, request_size


def test_a_login_shell_prints_before_it_obeys(slurm_site):
    answer = slurm_site.raw("bash -lc 'echo here'")
    assert answer.status == 0
    assert answer.stdout.endswith(b"here\n") and answer.stdout != b"here\n"
    plain = slurm_site.raw("echo here; echo there >&2; exit 7")
    assert (plain.stdout, plain.stderr, plain.status) == (b"here\n", b"there\n", 7)


def test_module_is_known_to_login_shells_alone(slurm_site):
    assert slurm_site.raw("type -t module").stdout == b""
    assert slurm_site.run("type -t module").out == "function"
    loaded = slurm_site.run("module purge; module load singularity; singularity --version")
    assert loaded.status == 0 and "singularity" in loaded.out
    unknown = slurm_site.run("module load nonsense")
    assert unknown.status != 0 and "nonsense" in unknown.err


def test_singularity(slurm_site):
    load = "module load singularity; singularity exec"
    version = slurm_site.run(f"{load} --nv {slurm_site.container} python --version")
    assert version.status == 0 and re.match(r"Python 3\.", version.out)
    missing = slurm_site.run(f"{load} --nv /gpfs/none.sif python --version")
    assert missing.status == 255
    assert missing.err.endswith(
        "FATAL:   could not open image /gpfs/none.sif: failed to retrieve path for /gpfs/none.sif:"
        " lstat /gpfs/none.sif: no such file or directory"
    )
    program = slurm_site.run(f"{load} {slurm_site.container} no-such-program")
    assert program.status == 255
    assert 'FATAL:   "no-such-program": executable file not found in $PATH' in program.err


def test_a_job_knows_itself_and_its_gpus(jobs):
    job = jobs.submit(f"{jobs.gpu(2)} show.sh")
    jobs.wait_for(job, "COMPLETED")
    lines = jobs.run(f"cat show.{job}.out").out.splitlines()
    values = dict(line.split("=", 1) for line in lines if "=" in line)
    assert (values["SLURM_JOB_ID"], values["SLURM_JOB_NAME"]) == (job, "show")
    assert (values["SLURM_CPUS_PER_TASK"], values["SLURM_CPUS_ON_NODE"]) == ("40", "40")
    assert re.fullmatch(r"\d,\d", values["CUDA_VISIBLE_DEVICES"])
    assert values["SLURM_SUBMIT_DIR"] == jobs.directory
    assert (values["SLURM_JOB_ACCOUNT"], values["SLURM_JOB_QOS"]) == (jobs.site.account, jobs.site.gpu_qos)
    assert values["USER"] == jobs.site.user
    assert lines[-1] == "function", "module must be known inside a job that was submitted from a login shell"


def test_gpu_sampler(jobs):
    query = (
        "nvidia-smi --query-gpu=timestamp,index,utilization.gpu,memory.used,power.draw --format=csv,nounits"
    )
    jobs.site.write(
        f"{jobs.directory}/smi.sh",
        "#!/bin/bash\n#SBATCH --output smi.%j.out\n#SBATCH --time 5\n"
        f"nvidia-smi >/dev/null && {query}\n".encode(),
    )
    job = jobs.submit(f"{jobs.gpu(2)} smi.sh")
    jobs.wait_for(job, "COMPLETED")
    heading, *rows = jobs.run(f"cat smi.{job}.out").out.splitlines()
    assert heading == "timestamp, index, utilization.gpu [%], memory.used [MiB], power.draw [W]"
    assert len(rows) == 2
    for row in rows:
        assert re.fullmatch(r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{3}, \d, \d+, \d+, \d+\.\d\d", row), row


def test_reading_around_the_end_of_a_file(jobs):
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


def test_logs_lie_where_the_pattern_says(jobs):
    job = jobs.submit(f"{jobs.cpu} -J named --output=%x-%j-%u.txt ok.sh")
    jobs.wait_for(job, "COMPLETED")
    assert jobs.run(f"cat named-{job}-{jobs.site.user}.txt").out == "hello"
    default = jobs.submit(f"{jobs.cpu} fail.sh")
    jobs.wait_for(default, "FAILED")
    assert jobs.run(f"cat slurm-{default}.out").out == "before"
    capital = jobs.submit(f"{jobs.cpu} -t 5 -J capital --output=%x_%J.out ok.sh")
    jobs.wait_for(capital, "COMPLETED")
    assert jobs.run(f"cat capital_{capital}.out").out == "hello"


def test_missing_log_directory_fails_the_job_without_a_log_or_is_made(jobs):
    job = jobs.submit(f"{jobs.cpu} --output=results/%j.out --error=results/%j.err ok.sh")
    row = jobs.wait_for(job, "FAILED", "COMPLETED")
    if row["%T"] == "FAILED":  # 22.05
        assert jobs.run("ls results").status != 0
    else:  # 24.11 and later make the directory
        assert jobs.run(f"cat results/{job}.out").out == "hello"
