"""Remote commands and files on a real OpenSSH: noise, floods, deadlines, cuts, odd files, a full disk."""

import threading
from collections.abc import Iterator

import paramiko
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from labtui.cluster.connection import Connection
from labtui.domain.errors import ConnectionLost, RemoteFailure
from tests.cluster.conftest import Connect
from tests.real_cluster import Student
from tests.real_cluster.cluster import wait_until
from tests.real_cluster.proxy import Fault, FaultProxy

pytestmark = pytest.mark.cluster


def test_a_shell_that_hangs_is_not_waited_for(line, cluster):
    cluster.set_login_noise("sleep 300\n")
    with pytest.raises(ConnectionLost, match="did not get ready"):
        line.run("true", timeout_s=3)
    cluster.set_login_noise(None)
    assert line.run("true").status == 0


def test_floods_on_both_streams_and_one_without_end(line):
    floods = "head -c 3000000 /dev/zero >&2; head -c 3000000 /dev/zero; head -c 9 /dev/zero >&2"
    result = line.run(f"{floods}; exit 5")
    assert (len(result.stdout), len(result.stderr), result.status) == (3000000, 3000009, 5)
    assert line.run("yes").status is None and line.run("echo still here").out == "still here\n"


def test_a_deadline_leaves_the_status_unknown(line):
    result = line.run("echo early; sleep 300", timeout_s=8)  # a busy machine takes seconds to begin
    assert (result.status, result.timed_out, result.out) == (None, True, "early\n")
    assert line.run("true").status == 0


def test_an_end_of_input_that_comes_late_does_not_cost_the_connection(line, monkeypatch):
    """OpenSSH ends the connection when one comes for a channel that has ended, as on a busy laptop."""
    at_once = paramiko.Channel.shutdown_write

    def late(channel: paramiko.Channel) -> None:
        wait_until(lambda: channel.closed, what="the channel's end")
        channel.eof_sent = False
        at_once(channel)

    monkeypatch.setattr(paramiko.Channel, "shutdown_write", late)
    assert [line.run(f"echo {number}").out for number in range(3)] == ["0\n", "1\n", "2\n"]


def test_a_cut_line_is_lost_and_comes_back(through):
    line, proxy = through
    threading.Timer(0.3, proxy.cut).start()
    with pytest.raises(ConnectionLost):
        line.run("sleep 300")
    assert not line.connected
    for use in (lambda: line.files.stat("."), lambda: line.ping(5.0)):
        with pytest.raises(ConnectionLost):
            use()
    line.connect()
    assert line.run("true").status == 0


def test_close_unblocks_another_thread(line):
    threading.Timer(0.3, line.close).start()
    with pytest.raises(ConnectionLost):
        line.run("sleep 300")
    line.close()


@pytest.fixture
def through(connect: Connect, student: Student) -> Iterator[tuple[Connection, FaultProxy]]:
    """A line that stands, and the proxy that it goes through."""
    with FaultProxy((student.host, student.port)) as proxy:
        line = connect(port=proxy.port)
        line.connect()
        line.ping(5.0)
        yield line, proxy


def test_a_frozen_line_is_noticed_by_ping_and_left_at_once(through):
    line, proxy = through
    proxy.freeze()
    for words in ("does not answer", "."):
        with pytest.raises(ConnectionLost, match=words):
            line.ping(0.3)
        assert line.connected  # nobody has told us otherwise: that is why there is a ping
    line.close()
    line.connect()
    line.ping(5.0)


@pytest.mark.parametrize("at", [0, 20, 500, 1500, 2500, 3500])
@pytest.mark.parametrize("direction", ["up", "down"])
def test_a_cut_at_any_byte_of_the_login_is_a_sentence(connect, student, at, direction):
    with FaultProxy((student.host, student.port), {0: Fault("cut", direction, at)}.get) as proxy:
        line = connect(port=proxy.port)
        try:
            line.connect()
            for _ in range(300):  # the byte may come after the login: that depends on the ciphers
                if proxy.faults_struck:
                    break
                line.run("true")
            line.ping(5.0)
            line.ping(5.0)  # the cut may come right behind the last byte of an answer
        except ConnectionLost as lost:
            assert lost.sentence and lost.hint
            line.close()  # as the session does: paramiko ends channels a moment before the transport
        assert proxy.faults_struck
        line.connect()
        assert line.run("true").status == 0


def test_a_line_that_breaks_while_much_is_read_keeps_what_came_and_prints_nothing(connect, student, capfd):
    """No thread of the SSH library asks for the pieces: its exceptions would land on the screen."""
    with FaultProxy((student.host, student.port)) as proxy:
        line = connect(port=proxy.port)
        line.connect()
        line.run("seq 1 4000000 > huge.txt")
        line.ping(5.0)
        known, strangers = set(threading.enumerate()), set()
        got = bytearray()

        def take(piece: bytes) -> bool:
            strangers.update(set(threading.enumerate()) - known)
            got.extend(piece)
            if len(got) > 1_000_000:
                proxy.cut(reset=True)
            return True

        with pytest.raises(ConnectionLost):
            line.files.read_into("huge.txt", 0, 1 << 30, take)
        assert strangers == set()
        line.close()
        line.connect()
        whole = line.files.read("huge.txt", 0, 1 << 30)
    assert whole == b"".join(b"%d\n" % number for number in range(1, 4_000_001))
    assert 1_000_000 < len(got) < len(whole) and whole.startswith(got)
    assert capfd.readouterr().err == ""


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.text(st.characters(codec="utf-8", exclude_characters="\x00/"), min_size=1, max_size=20),
    data=st.binary(),
)
def test_any_name_and_any_bytes(line, name, data):
    if name in (".", ".."):
        return
    line.run("mkdir -p 'odd names'")
    line.files.write_atomic(f"odd names/{name}", data, 0o640)
    assert line.files.read(f"odd names/{name}", 0, len(data) + 1) == data
    listed = line.run("ls -A 'odd names' | wc -c; find 'odd names' -type f -printf '%m\\n'")
    assert listed.out.split() == [str(len(name.encode()) + 1), "640"]
    line.run("rm -rf 'odd names'")


def test_a_file_is_replaced_whole(line):
    line.files.write_atomic("script", b"old")
    assert line.files.peek("script", 0) == b"old" and not line.run("ln script second-name").err
    line.files.write_atomic("script", b"new one", 0o755)
    assert line.files.stat("script").size == 7 and line.files.peek("script", 0) == b"new one"
    assert line.files.read("second-name") == b"old"  # another file took the name; nobody saw a part
    line.run("rm -f script second-name")


def test_files_that_are_closed_to_us_or_not_there(line):
    assert line.files.stat("gone") is None
    with pytest.raises(RemoteFailure, match="is not on the cluster"):
        line.files.read("gone")
    with pytest.raises(RemoteFailure, match="may not"):
        line.files.read("/etc/shadow")
    with pytest.raises(RemoteFailure):
        line.files.write_atomic("/etc/labtui", b"x")


def test_a_full_disk_leaves_the_old_file(line, cluster, student):
    line.run("mkdir -p small")
    cluster.limit_disk(f"{student.home}/small", "64k")
    line.files.write_atomic("small/file", b"whole")
    with pytest.raises(RemoteFailure, match="could not write a file: often a full quota") as caught:
        line.files.write_atomic("small/file", b"x" * 500_000)
    assert caught.value.wait and "The cluster said only: " in caught.value.hint
    assert line.files.read("small/file") == b"whole"
    assert line.run("ls -A small").out == "file\n"
