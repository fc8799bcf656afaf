"""The practice cluster from outside: who gets in, what is seen, what stays behind. Nothing does."""

import json
import math
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import paramiko
import pytest
from paramiko.common import cMSG_CHANNEL_SUCCESS

from labtui.commands.cli import main
from labtui.domain.errors import DataError, UsageError
from labtui.practice.cluster import PracticeCluster
from labtui.practice.command_line import MIN_JOB_AGE_S, Invocation
from labtui.practice.layout import STATE_FILE, Layout, make_layout, program_environment
from labtui.practice.request import Refused, build_request
from tests.real_cluster.cluster import alive, wait_until

pytestmark = pytest.mark.skipif(os.name == "nt" or shutil.which("bash") is None, reason="needs bash")


@pytest.fixture(scope="module")
def cluster():
    with PracticeCluster(factor=200) as running:
        yield running


def openssh(cluster, *words, **options):
    login = cluster.settings()
    told = ("IdentitiesOnly=yes", "BatchMode=yes", "StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null")
    command = ["ssh", "-p", str(login["port"]), "-i", login["identity"], "-oLogLevel=ERROR"]
    command += [*(f"-o{each}" for each in told), f"{login['user']}@{login['host']}", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, **options)


@pytest.mark.skipif(shutil.which("ssh") is None, reason="needs the OpenSSH client")
def test_the_openssh_client_logs_in_and_runs_commands(cluster):
    done = openssh(cluster, "echo out; echo err >&2; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, "out\n", "err\n")
    assert openssh(cluster, "bash -lc 'sbatch --version'").stdout.splitlines()[-1] == "slurm-wlm 22.05.8"
    assert openssh(cluster, "cat", input="through standard input").stdout == "through standard input"


def connect(cluster, key, user=""):
    transport = paramiko.Transport(("127.0.0.1", cluster.settings()["port"]))
    transport.start_client(timeout=120)
    transport.auth_publickey(user or cluster.site.user, key)
    return transport


def own_key(cluster):
    return paramiko.ECDSAKey.from_private_key_file(str(cluster.layout.identity))


def test_only_our_key_gets_in(cluster):
    for private in (cluster.layout.root, cluster.layout.identity):
        assert private.stat().st_mode & 0o077 == 0
    for key, user in ((paramiko.ECDSAKey.generate(), ""), (own_key(cluster), "root")):
        with pytest.raises(paramiko.AuthenticationException):
            connect(cluster, key, user)
    connect(cluster, own_key(cluster)).close()


def test_a_short_command_ends_after_its_request_was_confirmed(cluster, monkeypatch):
    send = paramiko.Transport._send_user_message

    def slow(self, message):
        time.sleep(1 if message.asbytes()[:1] == cMSG_CHANNEL_SUCCESS else 0)
        send(self, message)

    monkeypatch.setattr(paramiko.Transport, "_send_user_message", slow)
    with connect(cluster, own_key(cluster)) as transport:
        channel = transport.open_session()
        channel.exec_command("exit 7")
        assert channel.recv_exit_status() == 7


def test_nobody_elses_command_reaches_the_controller(cluster):
    control = cluster._ssh.environment["LABTUI_PRACTICE_CONTROL"]
    for wrong, words in (("", "JOBID"), ("x", "The practice cluster is no longer running.")):
        environment = {**cluster._ssh.environment, "LABTUI_PRACTICE_CONTROL": control + wrong}
        squeue = [cluster.layout.programs / "squeue"]
        done = subprocess.run(squeue, env=environment, capture_output=True, text=True, timeout=240)
        assert (done.returncode != 0) == bool(wrong) and words in (done.stderr if wrong else done.stdout)


def test_sftp_cannot_leave_the_folder(cluster):
    (cluster.layout.home / "link").symlink_to("/etc")
    with connect(cluster, own_key(cluster)) as line, paramiko.SFTPClient.from_transport(line) as sftp:
        for path in ("/etc/passwd", "../../../etc/passwd", "a/../../../../etc/passwd", "link/passwd", "/"):
            with pytest.raises(OSError):
                sftp.listdir(path) if path == "/" else sftp.open(path).read()
        with pytest.raises(OSError):
            sftp.symlink("/etc", "way-out")


SCRIPT = """
import os, subprocess, sys, time
from labtui.practice.cluster import PracticeCluster
cluster = PracticeCluster(factor=100)
script = b"#!/bin/bash\\n#SBATCH -A nct_000 -q gp_training\\necho $$ > pid\\n"
script += b"command sleep 600 & echo $! > child; /bin/sleep 600\\n"
(cluster.layout.home / "job.sh").write_bytes(script)
environment = {**cluster._ssh.environment}
subprocess.run([cluster.layout.programs / "sbatch", "job.sh"], cwd=cluster.layout.home, env=environment, check=True,
               stdout=subprocess.DEVNULL)
while not (cluster.layout.home / "child").exists() or not (cluster.layout.home / "child").read_text():
    time.sleep(0.05)
pids = [(cluster.layout.home / name).read_text().strip() for name in ("pid", "child")]
print(cluster.layout.root, *pids, flush=True)
if sys.argv[1] == "SIGKILL":
    time.sleep(600)
"""


@pytest.mark.parametrize("how", ["end", "SIGKILL"])
def test_nothing_stays_behind(how):
    process = subprocess.Popen([sys.executable, "-c", SCRIPT, how], stdout=subprocess.PIPE, text=True)
    root, *pids = process.stdout.readline().split()
    if how == "SIGKILL":
        assert all(alive(int(pid)) for pid in pids)
        process.kill()
    process.wait(240)
    wait_until(lambda: not Path(root).exists(), what="the folder to go", deadline_s=480)
    wait_until(lambda: not any(alive(int(pid)) for pid in pids), what="every process to end")


def test_a_finished_job_is_in_the_queue_as_long_as_on_a_real_cluster(cluster):
    control, began = cluster.controller, cluster.clock.now()
    job = control.jobs[submit_here(cluster, b"", hold="")]
    control.cancel(job.job_id, began)
    real = MIN_JOB_AGE_S * cluster.clock.factor
    assert job in control.in_queue(began + real - 1) and job not in control.in_queue(began + real)


def test_the_doctor_finds_a_full_disk_as_on_a_real_cluster(cluster, capsys):
    names, login = ("host", "port", "user", "identity", "host_key", "account", "root"), cluster.settings()
    words = [f"--{name.replace('_', '-')}={login[name]}" for name in names]
    found = []
    for cluster.controller.full_until in (math.inf, 0.0):
        main(["doctor", "--cluster", "practice", "--json", *words])
        checks = json.loads(capsys.readouterr().out)["checks"]
        found.append({each["key"] for each in checks if each["status"] == "problem"})
    assert found[0] - found[1] == {"quota", "room"}
    cluster.fill_disk(20.0)  # a tenth of a second
    with pytest.raises(Refused, match="I/O error"):
        submit_here(cluster, b"")


def submit_here(cluster, script, **options):
    control = cluster.controller
    options = {"account": "nct_000", "qos": "gp_training", "time": "10", **options}
    request = build_request(options, name="job", work_dir=str(cluster.layout.home), site=control.site)
    return control.submit(
        request, script=script, arguments=(), environment={"LABTUI_PRACTICE_X": "old", "MINE": "1"},
        now=cluster.clock.now(),
    ).job_id  # fmt: skip


def run_program(cluster, program, *words):
    call = Invocation(argv=tuple(words), folder="/", environment={"TZ": "UTC"}, stdin=b"")
    return cluster._answer(program, call)[:2]


SACCT = ("-n", "-X", "-P", "-o", "JobIDRaw,State,End,ExitCode", "-j")


@pytest.mark.parametrize("how", ["left", "killed"])
def test_a_kept_cluster_goes_on_with_its_jobs_accounting_and_clock(tmp_path, how):
    first = PracticeCluster(tmp_path / "kept", factor=5)
    over = submit_here(first, b"#!/bin/sh\nexit 3\n")
    running = submit_here(first, b"#!/bin/sh\n/bin/sleep 600\n", **{"no-requeue": ""})
    again = submit_here(first, b"#!/bin/sh\n/bin/sleep 600\n", requeue="")
    waiting = submit_here(first, b"#!/bin/sh\necho $MINE $LABTUI_PRACTICE_X > waited\n", hold="")
    jobs = first.controller.jobs
    run = lambda: jobs[over].finished and jobs[running].state == jobs[again].state == "RUNNING"  # noqa: E731
    wait_until(run, what="two jobs to run")
    text = run_program(first, "sacct", *SACCT, str(over))
    assert text[1].startswith(f"{over}|FAILED|")
    if how == "killed":
        first._save = lambda **_: None  # nothing more comes to the disk
    before = first.clock.now()
    first.close()

    with PracticeCluster(tmp_path / "kept", factor=20) as second:
        assert second.clock.now() >= (before if how == "left" else first.controller.jobs[over].end_time)
        assert run_program(second, "sacct", *SACCT, str(over)) == text
        state, end = run_program(second, "sacct", *SACCT, str(running))[1].split("|")[1:3]
        assert state == "NODE_FAIL" and end != "Unknown"
        assert second.controller.jobs[running].end_time <= second.clock.now()
        listed = run_program(second, "squeue", "-h", "-o", "%i %T %r")[1].splitlines()
        assert f"{waiting} PENDING JobHeldUser" in listed
        assert second.controller.jobs[again].restarts == 1 and f"\n{again} " in "\n".join(["", *listed])
        assert not any(line.startswith((f"{over} ", f"{running} ")) for line in listed)
        assert submit_here(second, b"#!/bin/sh\n", hold="") == 5, "no job number is given twice"
        assert run_program(second, "scontrol", "release", str(waiting))[0] == 0
        wait_until(lambda: second.controller.jobs[waiting].finished, what="the released job")
        assert (second.layout.home / "waited").read_text() == "1\n", "its script and environment are kept"
        ended = second.clock.now()
    with PracticeCluster(tmp_path / "kept") as same:
        assert (same.clock.factor, same.train) == (20, False), "as it was kept"
    with PracticeCluster(tmp_path / "kept", train=True) as third:
        assert third.clock.now() >= ended, "also when the clock goes slower now"
        assert run_program(third, "sacct", *SACCT, str(over)) == text
        shown = subprocess.check_output([third.layout.programs / "date", "+%s"], env=third._ssh.environment)
        assert int(shown) >= int(ended), "date shows the cluster's clock"


def test_no_byte_and_no_job_stops_the_scheduler(tmp_path):
    script = b"#!/bin/sh\n#SBATCH -A nct_000 -q gp_training -t 10\n"
    with PracticeCluster(tmp_path / "kept", factor=200) as cluster:
        environment, faults = {**cluster._ssh.environment, "NAME": "caf\udce9"}, [None]
        cluster.controller.watchers.append(lambda now: faults and faults.pop().missing)
        wait_until(lambda: not faults, what="the scheduler to fail once")
        odd = submit_here(cluster, script, output="a\0b")
        words = {"input": script, "env": environment, "cwd": tmp_path}
        done = subprocess.check_output([cluster.layout.programs / "sbatch"], **words)
        assert done == b"Submitted batch job 2\n"
        wait_until(lambda: cluster.controller.jobs[odd + 1].finished, what="the job after an odd one")
        assert cluster.controller.jobs[odd].state == "FAILED"


def test_an_sbatch_that_was_answered_is_on_the_disk_of_the_one_session(tmp_path):
    with PracticeCluster(tmp_path / "kept") as cluster:
        with pytest.raises(UsageError, match="already open") as caught:
            PracticeCluster(tmp_path / "kept")
        assert caught.value.hint
        script = b"#!/bin/sh\n#SBATCH -A nct_000 -q gp_training -t 10\n"
        call = Invocation(argv=("--hold",), folder=str(tmp_path), environment={}, stdin=script)
        assert cluster._answer("sbatch", call)[1] == "Submitted batch job 1\n"
        saved = json.loads((tmp_path / "kept" / STATE_FILE).read_text())
        assert [job["job_id"] for job in saved["jobs"]] == [1]
        assert (tmp_path / "kept" / STATE_FILE).stat().st_mode & 0o077 == 0
    PracticeCluster(tmp_path / "kept").close()
    for record in ('{"clock": 1', '{"clock": 1e300, "jobs": []}', '{"clock": 1, "jobs": [], "factor": -1}'):
        (tmp_path / STATE_FILE).write_text(record)
        with pytest.raises(DataError, match="records cannot be read") as caught:
            PracticeCluster(tmp_path)
        assert str(tmp_path / STATE_FILE) in caught.value.hint


@pytest.fixture
def shell(tmp_path):
    layout = Layout(tmp_path / "cluster")
    environment = {**program_environment(layout), "LABTUI_PRACTICE_TRAIN": "yes", "USER": "nct01000"}
    make_layout(layout, environment, real_data=False)

    def run(line, **values):
        return subprocess.run(
            ["bash", "-lc", line],
            env={**os.environ, "HOME": str(layout.home), **values}, cwd=tmp_path,
            capture_output=True, text=True, timeout=240, check=False,
        )  # fmt: skip

    return run


def test_a_module_that_is_loaded_is_one_line_and_a_real_training_is_small(shell, tmp_path):
    done = shell("module purge; module load singularity")
    lines = (done.stdout + done.stderr).splitlines()
    assert [line for line in lines if "singularity" in line] == ["load singularity (PATH)"]
    (tmp_path / "ResNet50.py").write_text("import sys\nprint('GOT', *sys.argv[1:])\n")
    usual = shell("python -u ResNet50.py --epochs 2", LABTUI_PRACTICE_JOB=str(tmp_path))
    assert "GOT --epochs 2 --device cpu --images 512 --image-size 32\n" in usual.stdout
    assert "command not found" not in usual.stderr
    chosen = shell("python ResNet50.py --device cpu --images 64", LABTUI_PRACTICE_JOB=str(tmp_path))
    assert "GOT --device cpu --images 64\n" in chosen.stdout
