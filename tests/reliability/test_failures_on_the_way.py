"""Failures between labtui and Slurm that no other test makes: answers, logging in, the SSH configuration."""

from __future__ import annotations

import errno
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import paramiko
import pytest

from labtui.cluster import connection as connecting
from labtui.cluster import known_hosts
from labtui.cluster import target as resolve
from labtui.cluster.dial import dial
from labtui.cluster.files import _rename
from labtui.cluster.login import Login, Memory
from labtui.cluster.slurm_cluster import SlurmCluster
from labtui.cluster.target import Endpoint, NonInteractivePrompter, Overrides, Secret, resolve_target
from labtui.domain.errors import CannotConnect, ConnectionLost, LoginRefused, RemoteFailure, UsageError
from labtui.domain.profile import Profile
from labtui.slurm.remote_command import CommandResult
from tests.cluster.prompting import Person, connection
from tests.openssh import openssh
from tests.reliability.saying import explains

# ----------------------------------------------------------------------------- what Slurm and the shell answer


class AnsweringConnection:
    """A connection whose commands end as a test says."""

    host = "login1"

    def __init__(self, *answers: tuple[int | None, str, str]) -> None:
        self.answers = list(answers)
        self.files = SimpleNamespace(write_atomic=lambda *_: None, stat=None, read=None, read_into=None)

    def run(self, command: object, timeout_s: float) -> CommandResult:
        status, out, err = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return CommandResult(out.encode(), err.encode(), status)


def slurm(*answers: tuple[int | None, str, str]) -> SlurmCluster:
    return SlurmCluster(AnsweringConnection(*answers))  # type: ignore[arg-type]


NO_ANSWER = (None, "", "")


def test_no_answer_to_a_cancel_is_a_lost_line_and_a_no_is_told() -> None:
    with pytest.raises(ConnectionLost) as caught:
        slurm(NO_ANSWER).cancel("7")
    explains(caught.value, "got no answer")
    with pytest.raises(RemoteFailure) as refused:
        slurm((1, "", "scancel: error: Kill job error on job id 7: Access/permission denied\n")).cancel("7")
    explains(refused.value, "denied", "your own")
    with pytest.raises(RemoteFailure) as silent:
        slurm((1, "", "")).cancel("7")
    explains(silent.value, "no reason given")


def test_no_answer_to_a_limit_is_a_lost_line_and_a_no_is_told() -> None:
    with pytest.raises(ConnectionLost):
        slurm(NO_ANSWER).end_after("7", 5)
    with pytest.raises(RemoteFailure) as refused:
        slurm(
            (1, "", "slurm_update error: Unable to contact slurm controller (connect failure)\n")
        ).end_after("7", 5)
    explains(refused.value, "5 min", "7")


def test_an_answer_about_paths_that_cannot_be_read_is_no_answer() -> None:
    assert slurm(NO_ANSWER).present([]) == {}
    with pytest.raises(RemoteFailure) as caught:
        slurm((0, "half an ans", "")).present(["/a", "/b"])
    explains(caught.value, "got no answer")


def test_an_answer_of_sbatch_that_stayed_out_is_no_refusal() -> None:
    with pytest.raises(ConnectionLost) as caught:
        slurm((0, "a banner, no number\n", "")).submit("/r", "job.slurm", "lt-token-1", "job", (), attempt=1)
    explains(caught.value, "did not arrive")


FILES = {"a.py": b"print()\n"}


def test_pushing_without_an_answer_or_into_what_says_no() -> None:
    with pytest.raises(ConnectionLost):
        slurm(NO_ANSWER).push(FILES, "/r")
    with pytest.raises(RemoteFailure) as caught:
        slurm((1, "", "mkdir: cannot create directory: Read-only file system\n")).push(FILES, "/r")
    explains(caught.value, "Read-only file system", "/r")
    with pytest.raises(RemoteFailure) as silent:
        slurm((1, "", "")).push(FILES, "/r")
    explains(silent.value, "no reason given")


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


class OldServer:
    """SFTP without OpenSSH's rename."""

    def __init__(self, problem: OSError) -> None:
        self.problem = problem
        self.names = {"new": "old content", "part": "new content"}

    def posix_rename(self, old: str, new: str) -> None:
        raise self.problem

    def remove(self, name: str) -> None:
        del self.names[name]

    def rename(self, old: str, new: str) -> None:
        if new in self.names:
            raise OSError("Failure")
        self.names[new] = self.names.pop(old)


def test_a_server_without_openssh_s_rename_replaces_files_as_well() -> None:
    server = OldServer(OSError("Operation unsupported"))
    _rename(server, "part", "new")  # type: ignore[arg-type]
    assert server.names == {"new": "new content"}


def test_a_rename_that_is_forbidden_removes_nothing() -> None:
    server = OldServer(PermissionError(errno.EACCES, "Permission denied"))
    with pytest.raises(PermissionError):
        _rename(server, "part", "new")  # type: ignore[arg-type]
    assert server.names["new"] == "old content"


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

    def auth_publickey(self, user: str, key: object) -> list[str]:
        return self._answer("publickey")

    def auth_password(self, user: str, password: str, fallback: bool = True) -> list[str]:
        self.answers.append(password)
        return self._answer("password")

    def auth_interactive(
        self, user: str, handler: Callable[..., list[str]], submethods: str = ""
    ) -> list[str]:
        if self.prompts:
            self.answers += handler("", "", self.prompts)
        return self._answer("interactive")


def wants(*methods: str) -> paramiko.BadAuthenticationType:
    return paramiko.BadAuthenticationType("no", list(methods))


def login(server: Server, person: Any = None, memory: Memory | None = None, **settings: Any) -> Login:
    plain: dict[str, Any] = {"alias": "mn5", "host": "mn5", "port": 22, "user": "me", "agent": "none"}
    return Login(
        server, Endpoint(**(plain | settings)), person or NonInteractivePrompter(), memory or Memory()
    )  # type: ignore[arg-type]


def test_a_server_that_wants_a_key_where_there_is_none() -> None:
    with pytest.raises(LoginRefused) as caught:
        login(Server(none=wants("publickey"))).run()
    explains(caught.value, "requires an SSH key for me", "labtui key")


def test_a_server_with_ways_that_labtui_does_not_know() -> None:
    with pytest.raises(LoginRefused) as caught:
        login(Server(none=wants("gssapi-with-mic", "hostbased"))).run()
    explains(caught.value, "gssapi-with-mic, hostbased", "user name")


def test_a_key_that_is_refused_where_there_is_no_other_way(tmp_path: Path) -> None:
    key = tmp_path / "id_ed25519"
    subprocess.run([openssh("ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    server = Server(none=wants("publickey"), publickey=paramiko.AuthenticationException("no"))
    with pytest.raises(LoginRefused) as caught:
        login(server, identity_files=(key,), identity_named=True).run()
    explains(caught.value, "does not accept the key", str(key))


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        (paramiko.SSHException("Timeout in auth"), "did not answer"),
        (paramiko.SSHException("gone"), "closed the connection"),
        (EOFError(), "closed the connection"),
    ],
)
def test_a_server_that_goes_away_during_the_login(problem: Exception, words: str) -> None:
    with pytest.raises(CannotConnect) as caught:
        login(Server(none=problem)).run()
    explains(caught.value, words)


def test_a_server_that_asks_for_nothing_lets_in() -> None:
    assert login(Server()).run().methods == ()


def test_a_password_that_was_accepted_answers_a_prompt_on_reconnecting_and_is_asked_no_second_time() -> None:
    person, memory = Person(password="three blind mice"), Memory()
    first = Server(none=wants("keyboard-interactive"))
    login(first, person, memory).run()
    again = Server(none=wants("keyboard-interactive"))
    login(again, person, memory).run()
    assert person.kinds == ["password"]
    assert first.answers == again.answers == ["three blind mice"]


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
    login_result = login(server, Person(password="mice")).run()
    assert login_result.methods == ("password",)


def test_a_proxy_command_that_cannot_be_started(tmp_path: Path) -> None:
    endpoint = Endpoint(alias="mn5", host="mn5", port=22, user="me", proxy_command="/no/such/program %h")
    with pytest.raises(CannotConnect) as caught:
        dial(endpoint, own_known_hosts=tmp_path / "known", prompter=NonInteractivePrompter(), memory=Memory())
    explains(caught.value, "ProxyCommand", "/no/such/program")


# ----------------------------------------------------------------------------- the SSH configuration

NEWEST_DEFAULTS = "id_rsa id_ecdsa id_ecdsa_sk id_ed25519 id_ed25519_sk id_mldsa44_ed25519"


def test_the_defaults_of_newer_ssh_programs_are_named_by_nobody() -> None:
    """OpenSSH 10 prints a kind of key that labtui does not know: the student named none of them."""
    printed = resolve.parse_ssh_settings(
        "".join(f"identityfile ~/.ssh/{name}\n" for name in NEWEST_DEFAULTS.split())
    )
    files, named = resolve._identities(printed, "")
    assert not named
    assert Path("~/.ssh/id_ed25519").expanduser() in files
    mine = resolve.parse_ssh_settings("identityfile ~/.ssh/id_rsa\nidentityfile ~/keys/mn5\n")
    assert resolve._identities(mine, "") == (
        (Path("~/.ssh/id_rsa").expanduser(), Path("~/keys/mn5").expanduser()),
        True,
    )
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
    explains(caught.value, "ssh -G mn5")


def test_a_configuration_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    overrides = Overrides(config_file=tmp_path, use_ssh_program=False)  # a folder
    target = resolve_target(Profile(id="x", title="x", login_hosts=("mn5",)), overrides)
    assert target.endpoints[0].host == "mn5"


def test_odd_values_of_the_configuration() -> None:
    assert resolve._agent({"identityagent": ("SSH_AUTH_SOCK",)}) == ""
    assert resolve._agent({"identityagent": ("none",)}) == "none"
    assert list(resolve._paths(['"~/a b" "unclosed'])) != []


def test_known_hosts_lines_that_are_broken_match_nobody() -> None:
    lines = known_hosts.parse_known_hosts("|1|not base64!|at all| ssh-ed25519 AAAA\n|1|x ssh-rsa AAAA\n")
    assert known_hosts.known_types(lines, "mn5", 22) == ()
