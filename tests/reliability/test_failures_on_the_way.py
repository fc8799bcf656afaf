"""Failures between labtui and Slurm that no other test makes: answers, logging in, the SSH configuration."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import paramiko
import pytest

from labtui.cluster import connection as connecting
from labtui.cluster import target as resolve
from labtui.cluster.connection import Connection
from labtui.cluster.dial import dial
from labtui.cluster.login import Login, Memory
from labtui.cluster.target import Endpoint, NonInteractivePrompter, Overrides, Secret, resolve_target
from labtui.domain.errors import CannotConnect, ConnectionLost, LoginRefused, RemoteFailure, UsageError
from labtui.domain.profile import Profile
from labtui.slurm.job_control import cancel, end_after
from labtui.slurm.probe import present
from labtui.slurm.remote_command import Call, CommandResult
from labtui.slurm.submit import submit
from tests.cluster.prompting import Person, connection
from tests.reliability.saying import explains

# ----------------------------------------------------------------------------- what Slurm and the shell answer


class AnsweringConnection:
    """A connection whose commands end as a test says."""

    host = "login1"

    def __init__(self, status: int | None, out: str, err: str) -> None:
        self.result = CommandResult(out.encode(), err.encode(), status)
        self.files = SimpleNamespace(write_atomic=lambda *_: None, stat=None, read=None, read_into=None)

    def ask(self, call: Call[Any]) -> Any:
        return call.answer(self.result, "abc")


ASKS: dict[str, Callable[[AnsweringConnection], object]] = {
    "cancel": lambda line: line.ask(cancel("7")),
    "limit": lambda line: line.ask(end_after("7", 5)),
    "paths": lambda line: line.ask(present(["/a", "/b"])),
    "submit": lambda line: line.ask(submit("/r", "job.slurm", "lt-token-1", "job", attempt=1)),
    "push": lambda line: Connection.push(line, {"a.py": b"print()\n"}, "/r"),  # type: ignore[arg-type],
}
NO_ANSWER = (None, "", "")
DENIED = (1, "", "scancel: error: Kill job error on job id 7: Access/permission denied\n")
NO_CONTROLLER = (1, "", "slurm_update error: Unable to contact slurm controller (connect failure)\n")
READ_ONLY = (1, "", "mkdir: cannot create directory: Read-only file system\n")


@pytest.mark.parametrize(
    ("ask", "answer", "error", "words"),
    [
        ("cancel", NO_ANSWER, ConnectionLost, ["did not answer"]),
        ("cancel", DENIED, RemoteFailure, ["denied", "your own"]),
        ("cancel", (1, "", ""), RemoteFailure, ["no reason given"]),
        ("limit", NO_ANSWER, ConnectionLost, []),
        ("limit", NO_CONTROLLER, RemoteFailure, ["5 min", "7"]),
        ("paths", (0, "half an ans", ""), RemoteFailure, ["got no answer"]),
        ("submit", NO_ANSWER, ConnectionLost, ["did not arrive"]),
        ("submit", (0, "a banner, no number\n", ""), RemoteFailure, ["named no job number"]),
        ("push", NO_ANSWER, ConnectionLost, []),
        ("push", READ_ONLY, RemoteFailure, ["Read-only file system", "/r"]),
        ("push", (1, "", ""), RemoteFailure, ["no reason given"]),
    ],
)
def test_an_answer_that_stays_out_is_a_lost_line_and_a_no_is_told(
    ask: str, answer: tuple[int | None, str, str], error: type[Exception], words: list[str]
) -> None:
    with pytest.raises(error) as caught:
        ASKS[ask](AnsweringConnection(*answer))
    explains(caught.value, *words)


def test_a_server_without_a_free_channel_is_a_sentence_and_the_line_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = connection(tmp_path, port=22, user="me")
    monkeypatch.setattr(line, "_transport", lambda: SimpleNamespace(is_active=lambda: True))

    def refuse(*_: object, **__: object) -> CommandResult:
        raise paramiko.ChannelException(1, "Administratively prohibited")

    monkeypatch.setattr(connecting, "execute", refuse)
    with pytest.raises(RemoteFailure) as caught:
        line.run("true", timeout_s=5)
    explains(caught.value, "refuses another channel", "Close other sessions")
    assert caught.value.wait


def test_a_third_command_does_not_wait_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two questions to a hung controller must not keep the worker, which reads the logs, from going on."""
    monkeypatch.setattr(connecting, "TURN_LIMIT_S", 0.05)
    line = connection(tmp_path, port=22, user="me")
    assert [line._execs.acquire(blocking=False) for _ in range(3)] == [True, True, False]
    with pytest.raises(RemoteFailure) as refused:
        line.run("true", timeout_s=5)
    explains(refused.value, "two earlier requests")
    assert refused.value.wait
    for _ in range(2):
        line._execs.release()
    with pytest.raises(ConnectionLost):  # its turn came, and there is no line
        line.run("true", timeout_s=5)


# ----------------------------------------------------------------------------- logging in


class Server:
    """A transport that answers logins as a test says: `outcomes` are errors by method, or the methods still wanted."""

    def __init__(self, **outcomes: object) -> None:
        self.outcomes = outcomes
        self.passed = False
        self.auth_timeout = 0.0
        self.prompts: list[tuple[str, bool]] = [("Password: ", False)]
        self.answers: list[str] = []

    def is_authenticated(self) -> bool:
        return self.passed

    def is_active(self) -> bool:
        return True

    def close(self) -> None:
        pass

    def _answer(self, method: str) -> list[str]:
        what = self.outcomes.get(method, "yes")
        if isinstance(what, BaseException):
            raise what
        self.passed = what == "yes"
        return [] if self.passed else [str(what)]

    def auth_none(self, user: str) -> None:
        self._answer("none")

    def auth_password(self, user: str, password: str, fallback: bool = True) -> list[str]:
        return self._answer("password")

    def auth_interactive(
        self, user: str, handler: Callable[..., list[str]], submethods: str = ""
    ) -> list[str]:
        if self.prompts:
            self.answers += handler("", "", self.prompts)
        return self._answer("interactive")


def wants(*methods: str) -> paramiko.BadAuthenticationType:
    return paramiko.BadAuthenticationType("no", list(methods))


def login(server: Server, person: Any = None, memory: Memory | None = None) -> Login:
    endpoint = Endpoint(alias="mn5", host="mn5", port=22, user="me", agent="none")
    return Login(server, endpoint, person or NonInteractivePrompter(), memory or Memory())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        (wants("publickey"), LoginRefused, ["requires an SSH key for me", "labtui key"]),
        (wants("gssapi-with-mic", "hostbased"), LoginRefused, ["gssapi-with-mic, hostbased", "user name"]),
        (paramiko.SSHException("Timeout in auth"), CannotConnect, ["did not answer"]),
        (paramiko.SSHException("gone"), CannotConnect, ["closed the connection"]),
        (EOFError(), CannotConnect, ["closed the connection"]),
    ],
)
def test_a_server_that_does_not_let_in(answer: Exception, error: type[Exception], words: list[str]) -> None:
    with pytest.raises(error) as caught:
        login(Server(none=answer)).run()
    explains(caught.value, *words)


def test_a_kept_password_that_is_refused_now_is_forgotten() -> None:
    memory = Memory(passwords={"me@mn5": Secret("old")})
    server = Server(none=wants("keyboard-interactive"), interactive=paramiko.AuthenticationException("no"))
    with pytest.raises(LoginRefused):
        login(server, memory=memory).run()
    assert memory.passwords == {}
    assert server.answers == ["old"], "tried once"


def test_prompts_that_ask_nothing_leave_the_password_to_be_tried() -> None:
    server = Server(
        none=wants("keyboard-interactive", "password"), interactive=paramiko.AuthenticationException("no")
    )
    server.prompts = []
    assert login(server, Person(password="mice")).run() == ("password",)


def test_a_proxy_command_that_cannot_be_started(tmp_path: Path) -> None:
    endpoint = Endpoint(alias="mn5", host="mn5", port=22, user="me", proxy_command="/no/such/program %h")
    with pytest.raises(CannotConnect) as caught:
        dial(endpoint, own_known_hosts=tmp_path / "known", prompter=NonInteractivePrompter(), memory=Memory())
    explains(caught.value, "ProxyCommand", "/no/such/program")


# ----------------------------------------------------------------------------- the SSH configuration


def test_the_defaults_of_newer_ssh_programs_are_named_by_nobody() -> None:
    """OpenSSH 10 prints a kind of key that labtui does not know: the student named none of them."""
    kinds = ("rsa", "ecdsa", "ecdsa_sk", "ed25519", "ed25519_sk", "mldsa44_ed25519")
    printed = resolve.parse_ssh_settings("".join(f"identityfile ~/.ssh/id_{kind}\n" for kind in kinds))
    files, named = resolve._identities(printed, "")
    assert not named
    assert Path("~/.ssh/id_ed25519").expanduser() in files
    one = resolve.parse_ssh_settings("identityfile ~/.ssh/id_mldsa44_ed25519\n")
    assert resolve._identities(one, "")[1]


@pytest.mark.parametrize("problem", [OSError("no such program"), subprocess.TimeoutExpired("ssh", 20)])
def test_an_ssh_program_that_does_not_answer(monkeypatch: pytest.MonkeyPatch, problem: Exception) -> None:
    def fails(*_: object, **__: object) -> None:
        raise problem

    monkeypatch.setattr(resolve.shutil, "which", lambda name: "/usr/bin/ssh")
    monkeypatch.setattr(resolve.subprocess, "run", fails)
    with pytest.raises(UsageError) as caught:
        resolve_target(Profile(id="x", title="x", login_hosts=("mn5",)), Overrides())
    explains(caught.value, "ssh -G -- mn5")
