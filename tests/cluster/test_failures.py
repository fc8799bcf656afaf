"""Failures that no test machine can produce at will, and the questions on the terminal."""

import errno
import getpass
import socket
import sys

import paramiko
import pytest

from labtui.cluster.dial import cannot_connect, lost
from labtui.cluster.target import Endpoint, LoginQuestion, Secret
from labtui.commands.terminal import TerminalPrompter
from labtui.domain.errors import CannotConnect, ConnectionLost, LoginRefused
from tests.conftest import TextTerminal

WHERE = Endpoint(alias="h", host="h", port=22, user="me")


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        (socket.gaierror(socket.EAI_AGAIN, "try again"), "no name server answers"),
        (socket.gaierror(socket.EAI_NONAME, "unknown"), "There is no host named h"),
        (OSError(errno.EHOSTUNREACH, "No route to host"), "no network route"),
        (OSError(errno.ENETUNREACH, "Network is unreachable"), "no network route"),
        (ConnectionResetError(errno.ECONNRESET, "reset"), "closed the connection at once"),
        (BrokenPipeError(errno.EPIPE, "pipe"), "closed the connection at once"),
        (TimeoutError(), "does not answer"),
        (paramiko.ssh_exception.IncompatiblePeer("no acceptable kex algorithm"), "too old"),
        (KeyError("ssh-rsa"), "too old"),
        (paramiko.SSHException("Negotiation failed."), "closed the connection at once"),
        (EOFError(), "is not an SSH server"),
        (RuntimeError("something else"), "something else"),
    ],
)
def test_every_failure_is_a_sentence_and_a_hint(problem, words):
    error = cannot_connect(problem, WHERE)
    assert isinstance(error, CannotConnect)
    assert words in error.sentence and error.hint
    assert "Traceback" not in error.sentence


def test_a_lost_line_is_told_and_a_sentence_stays_a_sentence():
    error = LoginRefused("no")
    assert cannot_connect(error, WHERE) is error and lost(error, "h") is error
    assert "does not answer" in lost(TimeoutError(), "h").sentence
    assert isinstance(lost(EOFError(), "h"), ConnectionLost)


def question(kind: str, **values: object) -> LoginQuestion:
    return LoginQuestion(kind=kind, text="What?\x1b[2J", host="h", **values)  # type: ignore[arg-type]


def test_what_may_be_shown_is_read_from_the_line(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", TextTerminal("yes\n123456\n"))
    person = TerminalPrompter()
    assert person.ask(question("host-key", echo=True, fingerprint="SHA256:x")) == "yes"
    assert person.ask(question("code", echo=True)) == "123456"
    assert person.ask(question("code", echo=True)) is None
    shown = capsys.readouterr()
    assert "\x1b" not in shown.err and not shown.out
    assert shown.err.count("What?") == 3  # each question once


def test_secrets_are_read_without_an_echo(monkeypatch):
    monkeypatch.setattr(getpass, "getpass", lambda prompt, stream: "secret")
    monkeypatch.setattr(sys, "stdin", TextTerminal())
    assert TerminalPrompter().ask(question("password")) == "secret"
    assert "secret" not in f"{Secret('secret')!r} {Secret('secret')}"
