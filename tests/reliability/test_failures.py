"""Failures between labtui and Slurm that no other test makes: answers, logging in, the SSH configuration."""

import errno
import getpass
import os
import socket
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import paramiko
import pytest

from labtui.cluster import connection as connecting
from labtui.cluster.connection import Connection
from labtui.cluster.dial import lost_error, reaching
from labtui.cluster.target import Endpoint, LoginQuestion, Secret
from labtui.commands.cli import main
from labtui.commands.terminal import TerminalPrompter
from labtui.doctor import examine
from labtui.domain import errors
from labtui.domain.model import SubmissionStatus
from labtui.session.folder import LabFolder
from labtui.session.journal import FaultLog
from labtui.session.opening import repair, stored_state
from labtui.session.settings import Settings, read_settings, write_settings
from labtui.slurm.job_control import cancel, end_after
from labtui.slurm.probe import paths_exist
from labtui.slurm.remote_command import Call, CommandResult
from labtui.slurm.submit import submit
from tests.cluster.prompting import connection
from tests.conftest import TextTerminal
from tests.openssh import keygen
from tests.reliability.hostile import explains
from tests.session.conftest import bench, draft, lab_path, only, open_bench


class AnsweringConnection:
    """A connection whose commands end as a test says."""

    host = "login1"

    def __init__(self, status: int | None, out: str, err: str) -> None:
        self.result = CommandResult(out.encode(), err.encode(), status)
        self.files = SimpleNamespace(write_atomic=lambda *_: None, stat=None, read=None, read_into=None)

    def ask(self, call: Call[Any]) -> Any:
        return call.answer(self.result, "abc")


ASKS: dict[str, Callable[[AnsweringConnection], object]] = {
    "cancel": lambda line: line.ask(cancel("7")), "limit": lambda line: line.ask(end_after("7", 5)),
    "paths": lambda line: line.ask(paths_exist(["/a", "/b"])),
    "submit": lambda line: line.ask(submit("/r", "job.slurm", "lt-token-1", "job", attempt=1)),
    "push": lambda line: Connection.push(line, {"a.py": b"print()\n"}, "/r"),  # type: ignore[arg-type],
}  # fmt: skip
NO_ANSWER = (None, "", "")
DENIED = (1, "", "scancel: error: Kill job error on job id 7: Access/permission denied\n")
NO_CONTROLLER = (1, "", "slurm_update error: Unable to contact slurm controller (connect failure)\n")
READ_ONLY = (1, "", "mkdir: cannot create directory: Read-only file system\n")


@pytest.mark.parametrize(("ask", "answer", "error", "words"), [
    ("cancel", NO_ANSWER, errors.ConnectionLost, ["did not answer"]),
    ("cancel", DENIED, errors.RemoteFailure, ["denied", "your own"]),
    ("cancel", (1, "", ""), errors.RemoteFailure, ["no reason given"]),
    ("limit", NO_ANSWER, errors.ConnectionLost, []),
    ("limit", NO_CONTROLLER, errors.RemoteFailure, ["5 min", "7"]),
    ("paths", (0, "half an ans", ""), errors.RemoteFailure, ["got no answer"]),
    ("submit", NO_ANSWER, errors.ConnectionLost, ["did not arrive"]),
    ("submit", (0, "a banner, no number\n", ""), errors.RemoteFailure, ["no single new job number"]),
    ("push", NO_ANSWER, errors.ConnectionLost, []),
    ("push", READ_ONLY, errors.RemoteFailure, ["Read-only file system", "/r"]),
    ("push", (1, "", ""), errors.RemoteFailure, ["no reason given"]),
])  # fmt: skip
def test_an_answer_that_stays_out_is_a_lost_line_and_a_no_is_told(ask, answer, error, words):
    with pytest.raises(error) as caught:
        ASKS[ask](AnsweringConnection(*answer))
    explains(caught.value, *words)


def test_a_server_without_a_free_channel_is_a_sentence_and_the_line_stays(tmp_path, monkeypatch):
    line = connection(tmp_path, port=22, user="me")
    refuse = Mock(side_effect=paramiko.ChannelException(1, "Administratively prohibited"))
    standing = SimpleNamespace(is_active=lambda: True, open_session=refuse)
    monkeypatch.setattr(line, "_transport", lambda: standing)
    with pytest.raises(errors.RemoteFailure) as caught:
        line.run("true", timeout_s=5)
    explains(caught.value, "refuses another channel", "Close other sessions")
    assert caught.value.wait


def test_a_third_command_does_not_wait_for_ever(tmp_path, monkeypatch):
    """Two questions to a hung controller must not keep the worker, which reads the logs, from going on."""
    monkeypatch.setattr(connecting, "TURN_LIMIT_S", 0.05)
    line = connection(tmp_path, port=22, user="me")
    assert [line._execs.acquire(blocking=False) for _ in range(3)] == [True, True, False]
    with pytest.raises(errors.RemoteFailure) as refused:
        line.run("true", timeout_s=5)
    explains(refused.value, "two earlier requests")
    assert refused.value.wait
    for _ in range(2):
        line._execs.release()
    with pytest.raises(errors.ConnectionLost):  # its turn came, and there is no line
        line.run("true", timeout_s=5)


@pytest.fixture
def key(tmp_path: Path) -> Path:
    keygen("-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "id_ed25519")
    return tmp_path / "id_ed25519"


@pytest.mark.parametrize(("trouble", "status", "words"), [
    *(("none", "ok", ""), ("gone", "problem", ""), ("open to others", "warning", "chmod 600")),
    *(("broken certificate", "ok", ""), ("-5h:-1h", "problem", "expired")),
    *(("-1h:+1h", "warning", "valid until"), ("always:forever", "ok", "with the certificate")),
])  # fmt: skip
def test_the_doctor_on_keys_and_certificates(key, trouble, status, words):
    if trouble == "gone":
        key.unlink()
    elif trouble == "open to others":
        key.chmod(0o644)
    elif trouble == "broken certificate":
        key.with_name(f"{key.name}-cert.pub").write_text("ssh-ed25519-cert-v01@openssh.com AAAA broken\n")
    elif ":" in trouble:
        authority = key.with_name("authority")
        keygen("-q", "-t", "ed25519", "-N", "", "-f", authority)
        keygen("-q", "-s", authority, "-I", "me", "-n", "me", "-V", trouble, f"{key}.pub")
    endpoint = Endpoint(
        alias="mn5", host="mn5", port=22, user="me", identity_files=(key,), identity_configured=True
    )
    check = examine._check_key(endpoint)
    assert check.status == status, check
    assert words in f"{check.sentence} {check.fix}"
    assert bool(check.fix) == (status != "ok")


@pytest.mark.parametrize(("number", "name"), [(errno.ENOLCK, "BUSY"), (errno.ENOSYS, "IOERR_RDLOCK")])
def test_a_disk_without_locks_is_a_sentence_and_no_full_one(number, name, lab_path, monkeypatch, capsys):
    said, folder = sqlite3.OperationalError("disk I/O error"), LabFolder(lab_path)
    monkeypatch.setattr("labtui.session.store.open_database", Mock(side_effect=said))
    monkeypatch.setattr("fcntl.flock", Mock(side_effect=OSError(number, os.strerror(number))))
    folder.database_path.touch()
    said.sqlite_errorname = f"SQLITE_{name}"
    for ask in (stored_state, repair):
        with pytest.raises(errors.StoreError) as caught:
            ask(folder)
        explains(caught.value, "cannot be locked", "local disk")
    assert main(["init", str(lab_path.parent / "new"), "--lab", "hpc4ai-ch10", "--cluster", "mn5"]) == 0
    assert "cannot be locked" in capsys.readouterr().err, "at once"
    said.sqlite_errorname = "SQLITE_IOERR_READ"
    with pytest.raises(errors.NotWritable, match=r"labtui\.db cannot be opened: disk I/O error"):
        stored_state(folder)


def test_settings_that_cannot_be_read_or_written(tmp_path, monkeypatch):
    with pytest.raises(errors.DataError) as unread:
        read_settings(tmp_path)  # a folder where the file should be
    explains(unread.value, "cannot be read")
    (tmp_path / "file").write_text("")
    with pytest.raises(errors.FolderError) as blocked:
        write_settings(tmp_path / "file" / "lab.toml", Settings(edition="x", profile="y"))
    explains(blocked.value, "cannot be written")
    whole = tmp_path / "lab.toml"
    write_settings(whole, Settings(edition="x", profile="y"))
    before = whole.read_bytes()
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", Mock(side_effect=OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))))
        with pytest.raises(errors.FolderError) as caught:
            write_settings(whole, Settings(edition="other", profile="y"))
        explains(caught.value, "Free disk space")
    assert whole.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_the_file_of_faults_does_not_grow_without_bound(tmp_path):
    log = FaultLog(tmp_path / "problems.log")
    for _ in range(2):
        log.path.write_text("x" * 1_000_001)
        log.write(ValueError("the newest"))
        assert log.path.stat().st_size < 10_000
        assert "the newest" in log.path.read_text()
        assert len(list(tmp_path.iterdir())) == 2


__all__ = ["bench", "lab_path", "open_bench"]  # fixtures

CUT = errors.ConnectionLost("The connection is gone.")
UNCLEAR = errors.RemoteFailure("The login shell ended before the command.", "Look at .bashrc.")


def test_closing_tells_who_waits_for_a_cancel(bench):
    bench.cluster.submit_then_cut = 1
    bench.cluster.fail("find_token", *[CUT] * 50)
    bench.online()
    bench.session.submit(draft())
    bench.run(5, lambda: only(bench).status is SubmissionStatus.UNKNOWN)
    done = bench.session.cancel(1)
    bench.run(3)
    bench.session.close()
    assert isinstance(done.exception(0), errors.LabError)


@pytest.mark.parametrize("error", [UNCLEAR, CUT], ids=["no answer", "line lost"])
def test_paths_that_could_not_be_looked_at_are_not_called_missing(bench, error):
    bench.online()

    def fails(paths: object) -> dict[str, bool]:
        if isinstance(error, errors.ConnectionLost):
            bench.cluster.connected = False
        raise error

    bench.cluster.present = fails  # type: ignore[method-assign]
    future = bench.session.look_at(["/gpfs/projects/data"])
    bench.run(10, future.done)
    assert future.exception() is error
    assert bench.session.state.paths == {}
    bench.run(60, lambda: bench.session.state.connection.status == "online")


WHERE = Endpoint(alias="h", host="h", port=22, user="me")


@pytest.mark.parametrize(("problem", "words"), [
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
    *((EOFError(), "is not an SSH server"), (RuntimeError("something else"), "something else")),
])  # fmt: skip
def test_every_failure_is_a_sentence_and_a_hint(problem, words):
    with pytest.raises(errors.CannotConnect) as caught, reaching(WHERE):
        raise problem
    assert words in caught.value.sentence and caught.value.hint
    assert "Traceback" not in caught.value.sentence


def test_a_lost_line_is_told_and_a_sentence_stays_a_sentence():
    error = errors.LoginRefused("no")
    with pytest.raises(errors.LoginRefused, match="no"), reaching(WHERE):
        raise error
    assert "does not answer" in lost_error(TimeoutError(), "h").sentence
    assert isinstance(lost_error(EOFError(), "h"), errors.ConnectionLost)


def question(kind: str, **values: object) -> LoginQuestion:
    return LoginQuestion(kind=kind, text="What?\x1b[2J", host="h", **values)  # type: ignore[arg-type]


def test_what_may_be_shown_is_read_from_the_line(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", TextTerminal("y\n\nyes\n123456\n"))
    person = TerminalPrompter()
    assert person(question("host-key", echo=True, fingerprint="SHA256:x")) == "yes"
    assert person(question("code", echo=True)) == "123456"
    assert person(question("code", echo=True)) is None
    shown = capsys.readouterr()
    assert "\x1b" not in shown.err and not shown.out
    assert shown.err.count("What?") == 3  # each question once


def test_secrets_are_read_without_an_echo(monkeypatch):
    monkeypatch.setattr(getpass, "getpass", lambda prompt, stream: "secret")
    monkeypatch.setattr(sys, "stdin", TextTerminal())
    assert TerminalPrompter()(question("password")) == "secret"
    assert "secret" not in f"{Secret('secret')!r} {Secret('secret')}"
