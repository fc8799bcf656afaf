"""The test cluster itself: every way in, every kind of trouble, and nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import paramiko
import pytest

from tests.real_cluster import Cluster, FaultProxy, Student
from tests.real_cluster.cluster import PROJECT, wait_until
from tests.real_cluster.proxy import Fault

pytestmark = pytest.mark.cluster


def transport(student: Student, port: int | None = None) -> paramiko.Transport:
    link = paramiko.Transport((student.host, port or student.port))
    link.start_client(timeout=20)
    return link


def ssh(student: Student, command: str, *, port: int | None = None) -> subprocess.CompletedProcess[bytes]:
    """OpenSSH's own client, as far from labtui as can be."""
    return subprocess.run(
        [
            "ssh", "-p", str(port or student.port), "-i", str(student.key), "-o", "IdentitiesOnly=yes",
            "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR",
            "-F", "/dev/null", "-o", "BatchMode=yes", f"{student.user}@{student.host}", command,
        ],
        capture_output=True, check=False, timeout=240,
    )  # fmt: skip


def test_every_way_to_log_in(student: Student) -> None:
    plain = paramiko.Ed25519Key.from_private_key_file(str(student.key))
    encrypted = paramiko.Ed25519Key.from_private_key_file(str(student.encrypted_key), student.passphrase)
    certified = paramiko.Ed25519Key.from_private_key_file(str(student.certified_key))
    for key in (plain, encrypted):
        link = transport(student)
        assert link.auth_publickey(student.user, key) == []
        link.close()
    link = transport(student)
    with pytest.raises(paramiko.AuthenticationException):
        link.auth_publickey(student.user, certified)
    link.close()
    certified.load_certificate(str(student.certificate))
    link = transport(student)
    assert link.auth_publickey(student.user, certified) == []
    link.close()
    link = transport(student)
    assert link.auth_password(student.user, student.password) == []
    link.close()


def test_wrong_key_and_password_are_refused(student: Student) -> None:
    link = transport(student)
    stranger = paramiko.Ed25519Key.from_private_key_file(str(student.stranger_key))
    with pytest.raises(paramiko.AuthenticationException):
        link.auth_publickey(student.user, stranger)
    with pytest.raises(paramiko.AuthenticationException):
        link.auth_password(student.user, "wrong")
    link.close()


@pytest.mark.parametrize(("answer", "accepted"), [("314159", True), ("000000", False)])
def test_second_factor_asks_for_a_code(student: Student, answer: str, accepted: bool) -> None:
    prompts: list[tuple[str, bool]] = []

    def answers(_title: str, _instructions: str, requests: list[tuple[str, bool]]) -> list[str]:
        prompts.extend(requests)
        return [answer] * len(requests)

    link = transport(student, student.code_port)
    key = paramiko.Ed25519Key.from_private_key_file(str(student.key))
    assert link.auth_publickey(student.user, key) == ["keyboard-interactive"]
    if accepted:
        assert link.auth_interactive(student.user, answers) == []
        assert link.open_session(timeout=20) is not None
    else:
        with pytest.raises(paramiko.AuthenticationException):
            link.auth_interactive(student.user, answers)
    assert prompts[0] == ("Verification code: ", True)
    link.close()


def test_host_key_is_the_announced_one_until_it_is_changed(cluster: Cluster, student: Student) -> None:
    def seen() -> str:
        link = transport(student)
        try:
            return link.get_remote_server_key().fingerprint
        finally:
            link.close()

    assert seen() == student.host_key
    cluster.change_host_keys()
    assert seen() == cluster.student.host_key != student.host_key


def test_login_shell_prints_noise_and_knows_modules(student: Student) -> None:
    login = ssh(student, "bash -lc 'type -t module'")
    assert login.stdout.endswith(b"function\n") and login.stdout.startswith(b"load bsc")
    assert b"remark" in login.stderr
    assert ssh(student, "type -t module").stdout == b""


def test_singularity_needs_its_image_and_nv(cluster: Cluster, student: Student) -> None:
    show = "python -c 'import os; print(os.environ.get(\"CUDA_VISIBLE_DEVICES\"))'"
    run = f"export CUDA_VISIBLE_DEVICES=0,1; module load singularity; singularity exec %s {show}"
    assert cluster.as_student(run % f"--nv {student.container}").out == "0,1"
    assert cluster.as_student(run % student.container).out == "-1"
    missing = cluster.as_student(run % "/gpfs/none.sif")
    assert missing.status == 255
    assert "FATAL:   could not open image /gpfs/none.sif: failed to retrieve path" in missing.err
    assert "module(s) are unknown" in cluster.as_student("module load nonsense").err
    assert cluster.as_student("singularity --version").status == 127


def test_daemons_can_be_stopped_and_frozen(cluster: Cluster, student: Student) -> None:
    cluster.daemon("slurmdbd", "stop")
    refused = cluster.as_student("sacct -X -n")
    assert refused.status != 0 and "refused" in refused.err
    assert cluster.as_student("squeue -h").status == 0
    cluster.daemon("slurmctld", "stop")
    assert "Unable to contact slurm controller" in cluster.as_student("squeue -h").err
    cluster.repair()
    wait_until(lambda: cluster.as_student("sacct -X -n").status == 0, what="accounting")
    assert cluster.as_student("squeue -h").status == 0


def test_reboot_of_the_login_node(cluster: Cluster, student: Student) -> None:
    link = transport(student)
    link.auth_password(student.user, student.password)
    cluster.kill_logins()
    wait_until(lambda: not link.is_active(), what="the session to break")
    with pytest.raises(paramiko.SSHException, match="Connection refused"):
        paramiko.Transport((student.host, student.port))
    cluster.start_sshd()
    transport(student).close()


def test_disk_full(cluster: Cluster, student: Student) -> None:
    cluster.limit_disk(student.scratch, "64k")
    full = cluster.as_student(f"head -c 200000 /dev/zero > {student.scratch}/big")
    assert full.status != 0 and "No space left on device" in full.err
    cluster.unlimit_disk(student.scratch)
    assert cluster.as_student(f"ls -A {student.scratch}/big").status != 0


def test_requests_are_counted(cluster: Cluster, student: Student) -> None:
    before = cluster.student_requests()
    assert cluster.as_student("squeue --me -h").status == 0
    assert cluster.student_requests() > before


def test_proxy_cuts_a_real_session(student: Student) -> None:
    with FaultProxy((student.host, student.port), lambda index: Fault("cut", "down", 6000)) as proxy:
        done = ssh(student, "head -c 100000 /dev/zero", port=proxy.port)
        assert done.returncode == 255
        assert proxy.faults_struck and proxy.bytes_passed["down"] == 6000


STARTER = """
import sys
from pathlib import Path
from tests.real_cluster import Cluster
cluster = Cluster.start(Path(sys.argv[1]))
print("up", flush=True)
sys.stdin.read()
"""


def test_nothing_is_left_when_the_starter_is_killed(tmp_path: Path) -> None:
    folder = tmp_path / "cluster with a blank"
    tmp_path.chmod(0o755)
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTER, str(folder)],
        cwd=PROJECT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert starter.stdout is not None and starter.stdout.readline() == b"up\n"
    marks = {e.name for e in Path("/proc").iterdir() if e.name.isdigit() and _belongs(e.name, folder)}
    assert len(marks) >= 8
    os.kill(starter.pid, signal.SIGKILL)
    starter.wait()
    wait_until(lambda: not any(Path("/proc", pid).exists() for pid in marks), what="every process to end")
    assert str(folder) not in Path("/proc/mounts").read_text()
    Cluster.attach(folder).down()
    assert list(folder.iterdir()) == []


def _belongs(pid: str, folder: Path) -> bool:
    """Whether a process lives in that cluster: its root directory lies in the folder."""
    try:
        return str(folder) in str(Path(f"/proc/{pid}/root").readlink())
    except OSError:
        return False
