"""What labtui costs the login node: connections and channels, counted at a proxy and in the SSH library."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import paramiko
import pytest

from labtui.session.session import Session
from tests.real_cluster import Cluster, FaultProxy, Student
from tests.session.small_job import draft, make_lab
from tests.session.test_real_cluster import submit

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.xdist_group("reliability")]


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


def test_one_connection_and_never_more_than_two_further_channels(
    cluster: Cluster, student: Student, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
                session.connect_now()
                time.sleep(0.1)
            for one in asked:
                one.result(240)
            for number in range(1, 6):
                session.cancel(number).result(240)
    assert proxy.connections == 1
    assert max(channels) <= 3, "one for files, two for commands"
