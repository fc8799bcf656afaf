"""Every kind of login and every way it can fail, against a real OpenSSH."""

import contextlib
import logging
import socket
import sys
import traceback
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from labtui.domain.errors import CannotConnect, HostKeyProblem, LabError, LoginRefused
from tests.cluster.conftest import Connect
from tests.cluster.prompting import Person

pytestmark = pytest.mark.cluster


class NoStdin:
    """Fails the test when anything reads from it."""

    def __getattr__(self, name: str) -> object:
        raise AssertionError(f"the login touched stdin ({name})")


@pytest.fixture(autouse=True)
def nobody_reads_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", NoStdin())


@pytest.mark.parametrize("kind", ["key", "certified_key"])
def test_a_key_or_a_certificate(connect, student, kind):
    person = Person()
    connection = connect(key=getattr(student, kind), person=person)
    connection.connect()
    assert connection.methods == ("publickey",) and not person.questions
    assert connection.run("id -un").out.strip() == connection.endpoint.user
    assert connection._transport().remote_cipher == "aes128-gcm@openssh.com", "the quick one goes first"


@pytest.mark.parametrize("kind", ["passphrase", "password"])
def test_a_secret_is_asked_once_and_kept_for_reconnects(connect, student, kind):
    person = Person(**{kind: [getattr(student, kind)]})
    connection = connect(key=student.encrypted_key if kind == "passphrase" else "", person=person)
    connection.connect()
    assert ("publickey" in connection.methods) == (kind == "passphrase") and not person.questions[0].echo
    connection.close()
    connection.connect()
    assert person.kinds == [kind]


def test_a_wrong_password_is_not_tried_again(connect, student):
    person = Person(password="not it at all")
    connection = connect(key="", person=person)
    with pytest.raises(LoginRefused, match="password"):
        connection.connect()
    assert person.kinds == ["password"]
    person.answers["password"] = student.password
    connection.connect()  # by hand, and nothing of the wrong one was kept
    assert person.kinds == ["password", "password"]
    with pytest.raises(LoginRefused, match="not given"):  # nobody to ask
        connect(key="").connect()


def test_a_key_and_then_a_code(connect, student):
    person = Person(code=student.code, password=student.code)
    connection = connect(port=student.code_port, person=person)
    connection.connect()
    assert connection.methods == ("publickey", "keyboard-interactive")
    assert len(person.questions) == 1
    connection.close()
    connection.connect()  # a code is for one time: it is asked for again
    assert len(person.questions) == 2


@pytest.mark.parametrize(("code", "says"), [("000000", "this password or code"), (None, "was not given")])
def test_a_wrong_code_or_none(connect, student, code, says):
    person = Person(code=code, password=code)
    with pytest.raises(LoginRefused, match=says):
        connect(port=student.code_port, person=person).connect()
    assert len(person.questions) == 1


@pytest.mark.parametrize("user", ["", "nobody-here"])
def test_a_wrong_key_or_user(connect, student, user):
    key = student.key if user else student.stranger_key
    with pytest.raises(LoginRefused, match="does not accept the key") as caught:
        connect(key=key, user=user or student.user).connect()
    assert "user name" in caught.value.hint


def test_a_wrong_key_and_the_password_instead(connect, student):
    person = Person(password=student.password)
    connection = connect(key=student.stranger_key, person=person)
    connection.connect()
    assert person.kinds == ["password"] and "publickey" not in connection.methods
    assert f"does not accept the key {student.stranger_key}" in person.questions[0].text


def test_a_changed_host_key_is_refused(connect, cluster, student):
    person = Person(host_key="yes")
    connect(host_key="", person=person).connect()
    assert person.questions[0].fingerprint == student.host_key
    cluster.change_host_keys()
    with pytest.raises(HostKeyProblem, match="has changed") as caught:
        connect(host_key="", person=person).connect()
    new = caught.value.sentence.partition("it is ")[2].split()[0]
    for pin, words in (new, "has changed"), (student.host_key, "settings pin"):
        with pytest.raises(HostKeyProblem, match=words):
            connect(host_key=pin, person=person).connect()
    assert person.kinds == ["host-key"]


def test_hosts_are_tried_in_turn_and_a_refused_login_is_not_taken_to_the_next(connect, student):
    with closed_port() as port:
        connection = connect(hosts=(f"127.0.0.1:{port}", f"127.0.0.1:{student.port}"), port=0)
        connection.connect()
        assert connection.connected and connection.run("id -un").out.strip() == student.user
    person = Person(password="wrong")
    hosts = (f"127.0.0.1:{student.port}", f"localhost:{student.port}")
    with pytest.raises(LoginRefused):
        connect(hosts=hosts, port=0, key="", person=person).connect()
    assert len(person.questions) == 1


def test_a_jump(connect, student):
    config = (
        f"Host inner\n  HostName 127.0.0.1\n  Port {student.port}\n  ProxyJump gate\n"
        f"Host gate\n  HostName localhost\n  Port {student.port}\n"
        f"Host *\n  User {student.user}\n  IdentityFile {student.key}\n  IdentityAgent none\n"
    )
    person = Person(host_key="yes")
    connection = connect(host="inner", port=0, user="", key="", host_key="", config=config, person=person)
    connection.connect()
    # The key of each host on the way was checked.
    assert [question.host for question in person.questions] == ["localhost", "127.0.0.1"]
    # As the server sees it, we come from the server itself.
    assert connection.run("echo $SSH_CONNECTION").out.split()[0] in ("127.0.0.1", "::1")
    assert connection.files.stat(".") is not None


RELAY = """
import os, socket, sys, threading
far = socket.create_connection((sys.argv[1], int(sys.argv[2])))
def back():
    while data := far.recv(65536):
        os.write(1, data)
threading.Thread(target=back, daemon=True).start()
while data := os.read(0, 65536):
    far.sendall(data)
"""


def test_a_proxy_command(connect, tmp_path, monkeypatch):
    relay = tmp_path / "relay.py"
    relay.write_text(RELAY)
    config = f"Host *\n  ProxyCommand {sys.executable} {relay} %h %p\n  IdentityAgent none\n"
    connection = connect(config=config)
    connection.connect()
    assert connection.run("echo through").out == "through\n"
    monkeypatch.setattr("labtui.cluster.dial.sys", SimpleNamespace(platform="win32"))
    assert "on Windows" in refusal(connect, config=config)


@contextlib.contextmanager
def closed_port() -> Iterator[int]:
    """A port of this machine that nobody listens on."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


def refusal(connect: Connect, **values: object) -> str:
    with pytest.raises(CannotConnect) as caught:
        connect(**values).connect()
    assert caught.value.hint
    return caught.value.sentence


def test_every_host_is_told_when_none_answers(connect):
    with closed_port() as one:
        assert "refuses connections" in refusal(connect, port=one)
        words = refusal(connect, hosts=(f"127.0.0.1:{one}", "login.mn5.invalid"), port=0)
    assert "refuses" in words and "login.mn5.invalid" in words


def test_secrets_show_nowhere(connect, student, caplog):
    caplog.set_level(logging.DEBUG)
    secrets = ("hunter2-password", "hunter2-passphrase")
    seen = ""
    locked = (student.encrypted_key, Person(passphrase=secrets[1]))
    for key, person in (("", Person(password=secrets[0])), locked):
        connection = connect(key=key, person=person)
        try:
            connection.connect()
        except LabError as error:
            trace = traceback.TracebackException.from_exception(error, capture_locals=False)
            seen += "".join(trace.format()) + error.sentence + error.hint
        seen += repr(connection.__dict__)
    good = connect(key="", person=Person(password=student.password))
    good.connect()
    good.run("true")
    seen += repr(good.__dict__) + repr(good._memory) + caplog.text
    assert not any(secret in seen for secret in (*secrets, student.password))
