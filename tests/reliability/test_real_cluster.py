"""A large log in little memory, and what labtui costs the login node: against a real sshd and slurmctld."""

import os
import subprocess
import sys
import time
from functools import partial
from typing import Any

import paramiko
import pytest
from msgspec.structs import replace

from labtui.domain.state import LabState
from labtui.session.folder import LabFolder
from labtui.session.session import Session
from tests.real_cluster import FaultProxy, Student
from tests.real_cluster.cluster import wait_until
from tests.session.small_job import HEAD, complete, draft, make_lab

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.xdist_group("reliability")]


def submit(session: Session, student: Student, script: str) -> str:
    return session.submit(
        draft(student.account), script=HEAD.format(account=student.account) + script
    ).result(240)


FETCH = r"""
import re, sys, time
from pathlib import Path
from labtui.session.session import Session
with Session.open(sys.argv[1]) as session:
    token = next(iter(session.state.submissions))
    session.watch_logs({token})
    while True:
        item = session.state.submissions[token]
        if "out" in item.logs and item.logs["out"].complete:
            break
        time.sleep(0.2)
# getrusage() would tell the peak of the process that started this one where that was larger.
print(int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]) // 1024)
"""
SIZE = 100_000_000


def test_a_large_log_is_copied_in_little_memory(cluster, student, tmp_path):
    """Some lines, then 100 MB without one, then some lines: made by truncate, so that only copying takes time."""
    folder = make_lab(tmp_path / "lab", student, student.port)
    with Session.open(folder.path) as session:
        token = submit(session, student, "seq 1 1000; sleep 1; true\n")
        wait_until(lambda: complete(session.state.submissions[token]), what="the small log")
        item = session.state.submissions[token]
        path = cluster.outside(item.remote_logs["out"].replace("%j", item.job.job_id))
    with path.open("ab") as file:
        os.truncate(file.fileno(), SIZE)
        file.seek(0, os.SEEK_END)
        file.write("\nlast línea".encode())
    _forget_completion(folder)
    done = subprocess.run(
        [sys.executable, "-c", FETCH, str(folder.path)], capture_output=True, text=True, timeout=900,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    megabytes = int(done.stdout)
    print(f"peak memory {megabytes} MB")
    assert megabytes < 150
    mirrored = next((folder.path / "logs").glob("*.out"))
    assert subprocess.run(["cmp", str(mirrored), str(path)], check=False).returncode == 0


def _forget_completion(folder: LabFolder) -> None:
    """The log went on growing although it was thought complete: as if that had never been stored."""
    with Session.open(folder.path, start=False) as session:
        for token, submission in session.state.submissions.items():
            for stream, log in submission.logs.items():
                session._journal.change(
                    partial(LabState.with_log, token=token, stream=stream, log=replace(log, complete=False))
                )


def channels_at_once(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many channels were open after each that was opened, from now on."""
    counts: list[int] = []
    opened = paramiko.Transport.open_channel

    def open_channel(transport: paramiko.Transport, *args: Any, **more: Any) -> paramiko.Channel:
        channel = opened(transport, *args, **more)
        counts.append(sum(not one.closed for one in list(transport._channels.values())))
        return channel

    monkeypatch.setattr(paramiko.Transport, "open_channel", open_channel)
    return counts


def test_one_connection_and_never_more_than_two_further_channels(cluster, student, tmp_path, monkeypatch):
    """Submitting, cancelling, asking, pushing and five logs at once, with an impatient student."""
    channels = channels_at_once(monkeypatch)
    with FaultProxy((student.host, student.port)) as proxy:
        folder = make_lab(tmp_path / "lab", student, proxy.port)
        with Session.open(folder.path) as session:
            script = "for i in $(seq 1 400); do echo $i; sleep 0.02; done\n"
            tokens = {submit(session, student, script) for _ in range(5)}
            session.watch_logs(tokens)
            asked = [session.test_only(draft(student.account)) for _ in range(5)]
            for _ in range(30):
                session.refresh()
                time.sleep(0.1)
            for one in asked:
                one.result(240)
            for number in range(1, 6):
                session.cancel(number).result(240)
    assert proxy.connections == 1
    assert max(channels) <= 3, "one for files, two for commands"
