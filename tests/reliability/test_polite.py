"""What labtui costs the login node: connections, channels and logins, counted at a proxy and in the SSH library."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import paramiko
import pytest

from labtui.session.session import Session
from tests.real_cluster import Cluster, FaultProxy, Student
from tests.session.small_job import draft, make_lab
from tests.session.test_real_cluster import HEAD

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.xdist_group("reliability")]


class Channels:
    """Counts the channels that each transport of this process has open, and every login that is begun."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.most: dict[int, int] = {}
        self.logins = 0
        self._guard = threading.Lock()
        opened, login = paramiko.Transport.open_channel, paramiko.Transport.auth_publickey
        counter = self

        def open_channel(transport: paramiko.Transport, *args: object, **more: object) -> paramiko.Channel:
            channel = opened(transport, *args, **more)  # type: ignore[arg-type]
            with counter._guard:
                now = sum(not one.closed for one in transport._channels.values())
                counter.most[id(transport)] = max(now, counter.most.get(id(transport), 0))
            return channel

        def auth_publickey(transport: paramiko.Transport, *args: object, **more: object) -> list[str]:
            with counter._guard:
                counter.logins += 1
            return login(transport, *args, **more)  # type: ignore[arg-type]

        monkeypatch.setattr(paramiko.Transport, "open_channel", open_channel)
        monkeypatch.setattr(paramiko.Transport, "auth_publickey", auth_publickey)


@pytest.fixture
def channels(monkeypatch: pytest.MonkeyPatch) -> Iterator[Channels]:
    yield Channels(monkeypatch)


def job(session: Session, student: Student, script: str) -> str:
    text = HEAD.format(account=student.account) + script
    return session.submit(draft(student.account), script=text).result(240)


def test_one_connection_and_never_more_than_two_further_channels(
    cluster: Cluster, student: Student, tmp_path: Path, channels: Channels
) -> None:
    """Submitting, cancelling, asking, pushing and five logs at once, with an impatient student."""
    with FaultProxy((student.host, student.port)) as proxy:
        folder = make_lab(tmp_path / "lab", student, proxy.port)
        with Session.open(folder.path) as session:
            tokens = {
                job(session, student, "for i in $(seq 1 400); do echo $i; sleep 0.02; done\n")
                for _ in range(5)
            }
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
    assert channels.logins == 1
    assert max(channels.most.values()) <= 3, "one for files, two for commands"
