"""The login shell, the programs a job finds, and what the site tells about itself."""

from __future__ import annotations

import re

from tests.contract.jobs import Jobs
from tests.contract.sites import Site


def test_a_login_shell_prints_before_it_obeys(slurm_site: Site) -> None:
    answer = slurm_site.raw("bash -lc 'echo here'")
    assert answer.status == 0
    assert answer.stdout.endswith(b"here\n") and answer.stdout != b"here\n"
    plain = slurm_site.raw("echo here; echo there >&2; exit 7")
    assert (plain.stdout, plain.stderr, plain.status) == (b"here\n", b"there\n", 7)


def test_module_is_known_to_login_shells_alone(slurm_site: Site) -> None:
    assert slurm_site.raw("type -t module").stdout == b""
    assert slurm_site.run("type -t module").out == "function"
    loaded = slurm_site.run("module purge; module load singularity; singularity --version")
    assert loaded.status == 0 and "singularity" in loaded.out
    unknown = slurm_site.run("module load nonsense")
    assert unknown.status != 0 and "nonsense" in unknown.err


def test_singularity(slurm_site: Site) -> None:
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


def test_a_job_knows_itself_and_its_gpus(jobs: Jobs) -> None:
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


def test_gpu_sampler(jobs: Jobs) -> None:
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


def test_a_cpu_job_sees_no_gpu(jobs: Jobs) -> None:
    job = jobs.submit(f"{jobs.cpu} show.sh")
    jobs.wait_for(job, "COMPLETED")
    assert "CUDA_VISIBLE_DEVICES" not in jobs.run(f"cat show.{job}.out").out
