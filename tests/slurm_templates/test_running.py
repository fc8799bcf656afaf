"""Rendered job scripts, run by a real bash with stand-ins for Python, Singularity and nvidia-smi."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from labtui.domain.errors import TemplateError
from labtui.domain.model import JobForm
from labtui.domain.profile import Launch
from labtui.session.folder import read_template
from labtui.slurm.job_script import job_script, training_command
from labtui.slurm.submit import DUPLICATE_STATUS
from labtui.training_logs.gpu_sampler import read_samples
from labtui.training_logs.reader import parse_log
from tests.real_cluster.cluster import alive, wait_until
from tests.slurm_templates.samples import CONTEXT, HEADER_BEGIN, HEADER_END, PLAIN, draft, rendered, run

pytestmark = pytest.mark.skipif(
    shutil.which("bash") is None or shutil.which("stdbuf") is None, reason="needs bash and coreutils"
)

SAMPLER = """#!/bin/bash
case "$*" in
    *--loop*)
        echo "$BASHPID" > sampler.pid
        echo "timestamp, index, utilization.gpu [%], utilization.memory [%], memory.used [MiB], \\
memory.total [MiB], power.draw [W], clocks.current.sm [MHz], clocks_throttle_reasons.active"
        while :; do
            echo "$(date '+%Y/%m/%d %H:%M:%S.000'), 0, 97, 60, 61000, 65247, 512.30, 1755, 0x0000000000000004"
            sleep 0.05
        done ;;
    *clocks_event_reasons*) echo 'Field "clocks_event_reasons.active" is not a valid field to query.'; exit 2 ;;
    *--query-gpu*) echo "$*" >> probes ;;
    *) echo "| NVIDIA-SMI 535.86.10 |" ;;
esac
"""

FAILING = """#!/bin/bash
echo "trains $*"
case "$*" in *"n_gpus 1") exit 0 ;; *"n_gpus 2") exit 5 ;; *) exit 7 ;; esac
"""
EPOCHS = """#!/bin/bash
echo 'Epoch 1/2'
echo '25/25 - 29s - loss: 2.2 - accuracy: 0.1 - 29s/epoch - 1s/step'
"""


class JobFolder:
    """A directory to run a job script in, with programs of its own in front of the PATH."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.job_id = "31337"
        self.programs = folder / "programs"
        self.programs.mkdir()

    def program(self, name: str, text: str) -> None:
        path = self.programs / name
        path.write_text(text)
        path.chmod(0o755)

    def start(self, script: str) -> subprocess.Popen[str]:
        """Start the script as the batch system would: in its own session, with Slurm's variables."""
        file = self.folder / f"job-{self.job_id}.slurm"
        file.write_text(script)
        slurm = {
            "SLURM_JOB_ID": self.job_id, "SLURM_JOB_NAME": "ResNet50-x", "SLURM_JOB_ACCOUNT": "nct_345",
            "SLURM_JOB_QOS": "acc_debug", "SLURM_JOB_PARTITION": "acc", "SLURM_JOB_NODELIST": "as01r1b09",
            "SLURM_CPUS_PER_TASK": "80",
        }  # fmt: skip
        return subprocess.Popen(
            ["bash", str(file)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            cwd=self.folder,
            env={"PATH": f"{self.programs}:/usr/bin:/bin", "HOME": str(self.folder), **slurm},
            start_new_session=True,
        )  # fmt: skip

    def run(self, script: str) -> tuple[int, str, str]:
        """Exit status and both streams."""
        process = self.start(script)
        out, err = process.communicate(timeout=240)
        return process.returncode, out, err


@pytest.fixture
def job_folder(tmp_path: Path) -> JobFolder:
    return JobFolder(tmp_path)


def test_a_job_says_what_it_is_and_runs_all_whatever_fails(job_folder):
    """The first failure becomes its exit status; labtui knows the runs from the echoed commands alone."""
    job_folder.program("python", FAILING)
    status, out, err = job_folder.run(rendered("one-job", PLAIN))
    assert status == 5
    lines = [line for line in out.splitlines() if line.startswith(("+ ", "trains "))]
    assert lines[0] == "+ python -u ResNet50.py --epochs 5 --batch_size 2048 --n_gpus 1"
    assert [line.split()[0] for line in lines] == ["+", "trains"] * 3
    assert err.splitlines() == [f"error: this training ended with exit status {code}" for code in (5, 7)]
    runs = parse_log(out.encode()).runs
    assert [(run.model, run.n_gpus, run.batch_size) for run in runs] == [
        ("ResNet50", n, 2048 * n) for n in (1, 2, 4)
    ]
    block = out.split(HEADER_BEGIN + "\n")[1].split(HEADER_END)[0]
    facts = {key: value.strip() for key, value in (line.split(":", 1) for line in block.splitlines())}
    assert facts.items() >= {
        "token": CONTEXT.token, "lab": CONTEXT.edition, "task": "10.5", "form": "one-job", "practice": "no",
        "gpus": "4", "job": "31337 ResNet50-x", "node": "as01r1b09", "cpus": "80",
        "run-2": "model=ResNet50 device=gpu n_gpus=2 batch_size=4096 epochs=5 script=ResNet50.py",
        "directory": str(job_folder.folder),
    }.items()  # fmt: skip
    assert facts["start"][:2] == "20"


def test_sampler_writes_beside_the_log_and_ends_with_the_job(job_folder):
    csv = "ResNet50-x.31337.gpu.csv"
    job_folder.program("nvidia-smi", SAMPLER)
    job_folder.program("python", f'#!/bin/bash\nuntil [ "$(wc -l < {csv})" -gt 3 ]; do sleep 0.02; done\n')
    status, out, _ = job_folder.run(rendered("one-gpu", PLAIN))
    assert status == 0
    assert "NVIDIA-SMI" in out
    samples = read_samples((job_folder.folder / csv).read_bytes())
    assert len(samples) >= 3 and samples[0].utilization == 0.97
    assert (samples[0].clock_mhz, samples[0].slowed_by) == (1755, {"power cap"})
    pid = int((job_folder.folder / "sampler.pid").read_text())
    wait_until(lambda: not alive(pid), what="the sampler to end")


def test_termination_ends_the_job_its_training_and_its_sampler(job_folder):
    """SIGTERM to every process of the job, as Slurm sends it at scancel and at the time limit."""
    job_folder.program("nvidia-smi", SAMPLER)
    job_folder.program("python", "#!/bin/bash\necho $$ >> trainings\nexec sleep 600\n")
    process = job_folder.start(rendered("one-job", PLAIN))
    trainings = job_folder.folder / "trainings"
    wait_until(
        lambda: trainings.exists() and trainings.read_text() and (job_folder.folder / "sampler.pid").exists(),
        what="the first training",
    )
    os.killpg(process.pid, signal.SIGTERM)
    process.communicate(timeout=240)
    assert process.returncode == 143
    assert len(trainings.read_text().split()) == 1, "the other trainings do not start"
    pids = [int(trainings.read_text()), int((job_folder.folder / "sampler.pid").read_text())]
    wait_until(lambda: not any(map(alive, pids)), what="training and sampler to end")


def test_container(job_folder):
    job_folder.program("singularity", '#!/bin/bash\nprintf "%s|" "$@"; echo\n')
    _, out, _ = job_folder.run(rendered("cpu", PLAIN, container="/images/my image.sif"))
    assert "exec|/images/my image.sif|python|-u|ResNet50_seq.py|--epochs|2|--batch_size|256|" in out
    _, out, _ = job_folder.run(rendered("one-gpu", PLAIN, container="/images/x.sif"))
    assert "exec|--nv|/images/x.sif|python|" in out


PIECES = st.sampled_from(
    [
        *("$(touch pwned)", "`touch pwned`", "; touch pwned;", "\ntouch pwned\n", "' touch pwned '"),
        *("&& touch pwned", '"; touch pwned; "', "| touch pwned", "${x:=$(touch pwned)}", "<(touch pwned)"),
        *("\n#SBATCH --mem=1\n", "\\", "'", '"', "#", " ", "*", "~", "!", "-", "@{token}", "\0", "\r\n", "é"),
        *("$HOME", "{account}"),
    ]
)
HOSTILE = st.lists(PIECES | st.text(max_size=3), min_size=1, max_size=4).map("".join)
FIELDS = st.sampled_from(
    [
        *("task_id", "job_name", "account", "qos", "reservation", "data_dir", "container", "model", "script"),
        *("extra", "token", "edition", "module", "env", "python", "user", "gres"),
    ]
)
FORM: JobForm = "one-gpu"


def hostile_job(field: str, value: str) -> tuple[str, tuple[str, ...]]:
    """The script, and the words its training must be called with, when a field holds a hostile value."""
    spec, plan, profile, context = run(1), draft(FORM, data_dir="/data"), PLAIN, CONTEXT
    if field in ("model", "script"):
        spec = replace(spec, **{field: value})
    elif field == "extra":
        spec = replace(spec, extra_args=(value, "--images", "1"))
    elif field in ("token", "edition", "user"):
        context = replace(context, **{field: value})
    elif field == "gres":
        profile = replace(profile, gres=value)
    elif field in ("module", "env", "python"):
        launch = {
            "module": Launch(modules=(value,)), "env": Launch(env={"X": value}),
            "python": Launch(python=value),
        }  # fmt: skip
        profile = replace(profile, launch=launch[field])
    else:
        plan = replace(plan, **{field: value})
    plan = replace(plan, runs=(spec,))
    script = job_script(plan, profile, context, read_template(FORM))
    return script, training_command(spec, plan, profile, context)


@given(field=FIELDS, value=HOSTILE)
@example(field="extra", value="a b'c\"d$(touch pwned)`touch pwned`")
@example(field="data_dir", value="/x y/$(touch pwned)")
@example(field="token", value="'; touch pwned; '")
def test_hostile_values_never_become_shell_words(tmp_path_factory, field, value):
    try:
        script, words = hostile_job(field, value)
    except TemplateError as error:
        assert error.sentence
        return
    lines = script.splitlines()
    first_code = next(i for i, line in enumerate(lines) if line and not line.startswith("#"))
    assert [line for line in lines[:first_code] if line.startswith("#SBATCH")] == [
        line for line in lines if line.startswith("#SBATCH")
    ]
    job_folder = JobFolder(tmp_path_factory.mktemp("hostile"))
    recorder = '#!/bin/bash\nprintf \'%s\\0\' "${0##*/}" "$@" > words\n'
    for name in ("python", "singularity"):
        job_folder.program(name, recorder)
    job_folder.program("module", "#!/bin/bash\n")
    status, _, err = job_folder.run(script)
    assert not (job_folder.folder / "pwned").exists()
    assert "syntax error" not in err
    if words[0] in ("python", "singularity"):
        assert status == 0
        assert (job_folder.folder / "words").read_bytes() == b"".join(word.encode() + b"\0" for word in words)


def test_a_second_job_of_a_submission_ends_at_once_and_says_whose_twin_it_is(job_folder):
    job_folder.program("python", EPOCHS)
    script = rendered("cpu", PLAIN)
    for job_folder.job_id in ("31336", "31337"):  # no submission of labtui: it runs as often as one likes
        assert job_folder.run(script)[0] == 0 and not (job_folder.folder / ".labtui").exists()
    (job_folder.folder / ".labtui").mkdir()
    first, out, _ = job_folder.run(script)
    assert first == 0 and "Epoch 1/2" in out
    job_folder.job_id = "31338"
    twin, out, err = job_folder.run(script)
    assert (twin, err) == (DUPLICATE_STATUS, "")
    assert out == (
        "labtui: job 31338 duplicates job 31337, which started first in this directory; exiting.\n"
    )
    job_folder.job_id = "31337"
    again, out, _ = job_folder.run(script)
    assert again == 0 and "Epoch 1/2" in out, "Slurm started the same job again"


def test_of_many_jobs_at_once_one_goes_on(job_folder):
    job_folder.program("python", EPOCHS)
    (job_folder.folder / ".labtui").mkdir()
    script = rendered("cpu", PLAIN)
    started = []
    for number in range(8):
        job_folder.job_id = str(40_000 + number)
        started.append(job_folder.start(script))
    ends = [(process.communicate(timeout=240)[0], process.returncode) for process in started]
    assert sorted(status for _, status in ends) == [0] + [DUPLICATE_STATUS] * 7
