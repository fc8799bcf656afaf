"""Failures that a student may meet and no other test makes: each is a sentence, loses nothing and heals.

They are made exactly, by a scripted cluster or by a stand-in for one part of the way to it.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import paramiko
import pytest
from filelock import FileLock

from labtui.cluster import connection as connecting
from labtui.cluster import doctor, known_hosts, resolve
from labtui.cluster.dial import dial
from labtui.cluster.files import _rename
from labtui.cluster.login import Login, Memory
from labtui.cluster.prompts import NobodyThere, Secret
from labtui.cluster.push import push_files
from labtui.cluster.resolve import resolve_target
from labtui.cluster.slurm_cluster import SlurmCluster
from labtui.cluster.target import Endpoint, Overrides, Target
from labtui.core.model import JobPhase, SubmissionStatus
from labtui.core.profile import Profile
from labtui.core.remote import CommandResult
from labtui.core.slurm.details import JobDetails
from labtui.engine import copying
from labtui.engine.faults import FaultLog
from labtui.engine.lock import FolderLock
from labtui.engine.settings import Settings, read_settings, write_settings
from labtui.engine.store import _explained
from labtui.errors import (
    CannotConnect,
    ConnectionLost,
    FolderError,
    LabError,
    LoginRefused,
    RemoteFailure,
    StoreError,
    UsageError,
)
from tests.cluster_room.prompting import Person, connection
from tests.engine.conftest import Bench, bench, draft, lab_path, open_bench
from tests.engine.scripted import keras_log

__all__ = ["bench", "lab_path", "open_bench"]  # fixtures

CUT = ConnectionLost("The connection is gone.")
UNCLEAR = RemoteFailure("The login shell ended before the command.", "Look at .bashrc.")


def told(error: LabError, *words: str) -> None:
    """A sentence and a hint, with these words in one of them."""
    assert error.sentence.endswith((".", ")", "?")) or ":" in error.sentence, error.sentence
    assert error.hint
    for word in words:
        assert word in f"{error.sentence} {error.hint}", (word, error.sentence, error.hint)


def only(bench: Bench) -> Any:
    (submission,) = bench.session.state.submissions.values()
    return submission


def accepted(bench: Bench) -> str:
    bench.online()
    future = bench.session.submit(draft())
    bench.run(20, future.done)
    bench.cluster.start("100")
    bench.run(40, lambda: only(bench).job.phase is JobPhase.RUNNING)
    return future.result()


def problems(bench: Bench) -> set[str]:
    return {problem.key.split(":")[0] for problem in bench.session.state.problems}


def mirrored(bench: Bench, token: str) -> bytes:
    path = bench.session.log_path(token, "out")
    return path.read_bytes() if path else b""


# ----------------------------------------------------------------------------- sending


def test_an_unclear_end_of_sbatch_is_looked_up_never_resent(bench: Bench) -> None:
    """The command ran and its shell broke off: the job may be there."""
    submit = bench.cluster.submit

    def broken(*words: object, **more: object) -> str:
        submit(*words, **more)  # type: ignore[arg-type]
        raise UNCLEAR

    bench.cluster.submit = broken  # type: ignore[method-assign]
    bench.online()
    future = bench.session.submit(draft())
    bench.run(5, lambda: only(bench).status is SubmissionStatus.UNKNOWN or future.done())
    bench.run(90, future.done)
    assert bench.cluster.count("submit") == 1
    assert only(bench).job.job_id == "100"


def test_a_look_up_that_fails_is_repeated_and_sends_nothing(bench: Bench) -> None:
    bench.cluster.submit_then_cut = 1
    bench.cluster.fail("find_token", UNCLEAR, UNCLEAR)
    bench.online()
    future = bench.session.submit(draft())
    bench.run(300, future.done)
    assert bench.cluster.count("find_token") == 3
    assert len(bench.cluster.jobs) == 1


def test_cancelled_while_unknown_and_never_arrived_is_withdrawn(bench: Bench) -> None:
    bench.cluster.submit_never_arrives = 1
    bench.cluster.fail("find_token", CUT)
    bench.online()
    future = bench.session.submit(draft())
    bench.run(5, lambda: only(bench).status is SubmissionStatus.UNKNOWN)
    gone = bench.session.cancel(1)
    bench.run(200, gone.done)
    assert only(bench).status is SubmissionStatus.WITHDRAWN
    assert bench.cluster.jobs == {}
    assert isinstance(future.exception(), LabError)


def test_a_disk_that_fills_up_before_sending_sends_nothing_until_there_is_room(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.online()
    bench.cluster.fail("push", CUT)
    future = bench.session.submit(draft())
    full = StoreError("The disk of this computer is full.", "Free some space.")

    def refuse(*_: object, **__: object) -> None:
        raise full

    with monkeypatch.context() as patched:
        patched.setattr(bench.session._journal, "commit_first", refuse)
        bench.run(60)
        assert bench.cluster.count("submit") == 0
        assert only(bench).status is SubmissionStatus.WAITING
        assert "store" in problems(bench)
    bench.run(60, future.done)
    assert bench.cluster.count("submit") == 1
    bench.run(20)
    assert problems(bench) == set()


def test_a_cancel_that_goes_wrong_inside_is_told_and_written_down(bench: Bench) -> None:
    accepted(bench)
    bench.cluster.fail("cancel", ZeroDivisionError("surprise"))
    done = bench.session.cancel(1)
    bench.run(20, done.done)
    assert isinstance(done.exception(), LabError)
    assert "surprise" in bench.session.folder.problem_log.read_text()
    again = bench.session.cancel(1)
    bench.run(20, again.done)
    assert again.exception() is None


def test_closing_tells_who_waits_for_a_cancel(bench: Bench) -> None:
    bench.cluster.submit_then_cut = 1
    bench.cluster.reachable = True
    bench.cluster.fail("find_token", *[CUT] * 50)
    bench.online()
    bench.session.submit(draft())
    bench.run(5, lambda: only(bench).status is SubmissionStatus.UNKNOWN)
    done = bench.session.cancel(1)
    bench.run(3)
    bench.session.close()
    assert isinstance(done.exception(0), LabError)


# ----------------------------------------------------------------------------- watching


def forgotten(bench: Bench) -> None:
    """The job is over, and neither queue nor accounting knows it."""
    accepted(bench)
    bench.cluster.jobs["100"].in_accounting = False
    bench.cluster.end("100", in_queue=False)


def test_the_controllers_memory_is_a_witness(bench: Bench) -> None:
    forgotten(bench)
    details = JobDetails(job_id="100", state="TIMEOUT", end=1_700_000_500.0, exit_code="0:15")
    bench.cluster.job_details = lambda job_id: details  # type: ignore[method-assign]
    bench.run(400, lambda: only(bench).job.phase is JobPhase.FINISHED)
    job = only(bench).job
    assert (job.evidence, job.slurm_state, job.exit_code) == ("scontrol", "TIMEOUT", "0:15")
    bench.run(200, lambda: bench.session.state.runs[1].outcome is not None)
    assert bench.session.state.runs[1].outcome == "time-limit"


@pytest.mark.parametrize("error", [UNCLEAR, CUT], ids=["no answer", "line lost"])
def test_a_silent_controller_is_no_witness(bench: Bench, error: LabError) -> None:
    forgotten(bench)
    bench.cluster.fail("job_details", *[error] * 3)
    bench.run(500)
    assert bench.cluster.count("job_details") >= 2
    assert only(bench).job.phase is JobPhase.SETTLING
    assert bench.session.state.runs[1].outcome is None


def test_a_job_that_still_lives_by_the_controllers_word_is_not_over(bench: Bench) -> None:
    forgotten(bench)
    running = JobDetails(job_id="100", state="RUNNING")
    bench.cluster.job_details = lambda job_id: running  # type: ignore[method-assign]
    bench.run(500)
    assert only(bench).job.phase is not JobPhase.FINISHED


def test_a_full_disk_of_our_own_stops_mirrors_and_they_go_on(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = accepted(bench)
    bench.cluster.write("100", keras_log(5, 4))

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(copying.os, "write", full)
        bench.run(30)
        assert "mirror" in problems(bench)
        assert mirrored(bench, token) == b""
        assert only(bench).job.phase is JobPhase.RUNNING
    bench.run(60, lambda: mirrored(bench, token) == keras_log(5, 4))
    assert problems(bench) == set()


def test_a_fault_in_one_duty_is_shown_until_that_duty_works_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = accepted(bench)

    def fails() -> None:
        raise StoreError("The lab folder's database is busy.", "Is another program reading it?")

    with monkeypatch.context() as patched:
        patched.setattr(bench.lane._tailer, "step", fails)
        bench.run(10)
        assert "fault" in problems(bench)
    bench.cluster.write("100", keras_log(5))
    bench.run(60, lambda: mirrored(bench, token) == keras_log(5))
    assert problems(bench) == set()


# ----------------------------------------------------------------------------- the line


def test_a_stale_line_that_answers_is_online_again(bench: Bench) -> None:
    bench.online()
    bench.lane._line.mark_stale(6.0)
    assert bench.session.state.connection.status == "stale"
    assert "6 seconds" in bench.session.state.connection.sentence
    bench.run(30, lambda: bench.session.state.connection.status == "online")


def test_a_setting_that_cannot_work_is_not_tried_again_and_again(bench: Bench) -> None:
    bench.cluster.fail("connect", UsageError("The SSH configuration cannot be read.", "Correct it."))
    bench.run(4000)
    assert bench.cluster.count("connect") == 1
    assert bench.session.state.connection.status == "needs-login"
    bench.session.connect_now()
    bench.run(5, lambda: bench.session.state.connection.status == "online")


@pytest.mark.parametrize("error", [UNCLEAR, CUT], ids=["no answer", "line lost"])
def test_paths_that_could_not_be_looked_at_are_not_called_missing(bench: Bench, error: LabError) -> None:
    bench.online()

    def fails(paths: object) -> dict[str, bool]:
        if isinstance(error, ConnectionLost):
            bench.cluster.connected = False
        raise error

    bench.cluster.present = fails  # type: ignore[method-assign]
    asked = bench.lane.look_at(["/gpfs/projects/data"])
    bench.run(10, asked.done)
    assert asked.exception() is error
    assert bench.session.state.places == {}
    bench.run(60, lambda: bench.session.state.connection.status == "online")


def test_paths_are_not_asked_about_without_a_line(bench: Bench) -> None:
    bench.cluster.reachable = False
    asked = bench.lane.look_at(["/gpfs/projects/data"])
    bench.run(10, asked.done)
    assert "does not answer" in str(asked.exception())


# ----------------------------------------------------------------------------- what Slurm and the shell answer


class Line:
    """A connection whose commands end as a test says."""

    host = "login1"

    def __init__(self, *answers: tuple[int | None, str, str]) -> None:
        self.answers = list(answers)
        self.files = SimpleNamespace(write_atomic=lambda *_: None)

    def run(self, command: object, timeout_s: float) -> CommandResult:
        status, out, err = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return CommandResult(out.encode(), err.encode(), status)


def slurm(*answers: tuple[int | None, str, str]) -> SlurmCluster:
    return SlurmCluster(Line(*answers), Profile(id="x", title="x", login_hosts=()))  # type: ignore[arg-type]


NO_ANSWER = (None, "", "")


def test_no_answer_to_a_cancel_is_a_lost_line_and_a_no_is_told() -> None:
    with pytest.raises(ConnectionLost) as caught:
        slurm(NO_ANSWER).cancel("7")
    told(caught.value, "did not say")
    with pytest.raises(RemoteFailure) as refused:
        slurm((1, "", "scancel: error: Kill job error on job id 7: Access/permission denied\n")).cancel("7")
    told(refused.value, "denied", "your own")
    with pytest.raises(RemoteFailure) as silent:
        slurm((1, "", "")).cancel("7")
    told(silent.value, "no reason given")


def test_no_answer_to_a_limit_is_a_lost_line_and_a_no_is_told() -> None:
    with pytest.raises(ConnectionLost):
        slurm(NO_ANSWER).end_after("7", 5)
    with pytest.raises(RemoteFailure) as refused:
        slurm(
            (1, "", "slurm_update error: Unable to contact slurm controller (connect failure)\n")
        ).end_after("7", 5)
    told(refused.value, "5 min", "7")


def test_an_answer_about_paths_that_cannot_be_read_is_no_answer() -> None:
    assert slurm(NO_ANSWER).present([]) == {}
    with pytest.raises(RemoteFailure) as caught:
        slurm((0, "half an ans", "")).present(["/a", "/b"])
    told(caught.value, "did not say")


def test_an_answer_of_sbatch_that_stayed_out_is_no_refusal() -> None:
    with pytest.raises(ConnectionLost) as caught:
        slurm((0, "a banner, no number\n", "")).submit("/r", "job.slurm", "lt-token-1", "job", (), attempt=1)
    told(caught.value, "did not arrive")


FILES = {"a.py": b"print()\n"}


def test_pushing_without_an_answer_or_into_what_says_no() -> None:
    with pytest.raises(ConnectionLost):
        push_files(Line(NO_ANSWER), FILES, "/r")  # type: ignore[arg-type]
    with pytest.raises(RemoteFailure) as caught:
        push_files(Line((1, "", "mkdir: cannot create directory: Read-only file system\n")), FILES, "/r")  # type: ignore[arg-type]
    told(caught.value, "Read-only file system", "/r")
    with pytest.raises(RemoteFailure) as silent:
        push_files(Line((1, "", "")), FILES, "/r")  # type: ignore[arg-type]
    told(silent.value, "no reason given")


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
    told(caught.value, "no further channel", "Close other sessions")
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
    """A transport that answers logins as a test says: `told` are the errors, by method, or the methods still wanted."""

    def __init__(self, **told: object) -> None:
        self.told = told
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
        what = self.told.get(method, "yes")
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


def login(server: Server, person: Any = None, memory: Memory | None = None, **said: Any) -> Login:
    plain: dict[str, Any] = {"alias": "mn5", "host": "mn5", "port": 22, "user": "me", "agent": "none"}
    return Login(server, Endpoint(**(plain | said)), person or NobodyThere(), memory or Memory())  # type: ignore[arg-type]


def test_a_server_that_wants_a_key_where_there_is_none() -> None:
    with pytest.raises(LoginRefused) as caught:
        login(Server(none=wants("publickey"))).run()
    told(caught.value, "wants a key from me", "ssh-keygen")


def test_a_server_with_ways_that_labtui_does_not_know() -> None:
    with pytest.raises(LoginRefused) as caught:
        login(Server(none=wants("gssapi-with-mic", "hostbased"))).run()
    told(caught.value, "gssapi-with-mic, hostbased", "user name")


def test_a_key_that_is_refused_where_there_is_no_other_way(tmp_path: Path) -> None:
    key = tmp_path / "id_ed25519"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    server = Server(none=wants("publickey"), publickey=paramiko.AuthenticationException("no"))
    with pytest.raises(LoginRefused) as caught:
        login(server, identity_files=(key,), identity_named=True).run()
    told(caught.value, "does not accept the key", str(key))


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
    told(caught.value, words)


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
    welcome = login(server, Person(password="mice")).run()
    assert welcome.methods == ("password",)


def test_a_proxy_command_that_cannot_be_started(tmp_path: Path) -> None:
    endpoint = Endpoint(alias="mn5", host="mn5", port=22, user="me", proxy_command="/no/such/program %h")
    with pytest.raises(CannotConnect) as caught:
        dial(endpoint, own_known_hosts=tmp_path / "known", prompter=NobodyThere(), memory=Memory())
    told(caught.value, "ProxyCommand", "/no/such/program")


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
    told(caught.value, "ssh -G mn5")


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


# ----------------------------------------------------------------------------- the doctor, before any connection


def endpoint(**said: Any) -> Endpoint:
    return Endpoint(**({"alias": "mn5", "host": "mn5", "port": 22, "user": "me"} | said))


@pytest.fixture
def key(tmp_path: Path) -> Path:
    path = tmp_path / "id_ed25519"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
    return path


def certified(key: Path, validity: str) -> Path:
    authority = key.with_name("authority")
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(authority)], check=True)
    words = ["-q", "-s", str(authority), "-I", "me", "-n", "me", "-V", validity, f"{key}.pub"]
    subprocess.run(["ssh-keygen", *words], check=True)
    return key.with_name(f"{key.name}-cert.pub")


def test_the_doctor_on_keys_that_are_missing_or_open_to_others(tmp_path: Path, key: Path) -> None:
    gone = doctor._key(endpoint(identity_files=(tmp_path / "gone",), identity_named=True))
    assert (gone.status, bool(gone.fix)) == ("problem", True)
    none = doctor._key(endpoint(identity_files=(tmp_path / "gone",)))
    assert (none.status, bool(none.fix)) == ("warning", True)
    key.chmod(0o644)
    shared = doctor._key(endpoint(identity_files=(key,)))
    assert shared.status == "warning"
    assert "chmod 600" in shared.fix
    key.chmod(0o600)
    assert doctor._key(endpoint(identity_files=(key,))).status == "ok"


@pytest.mark.parametrize(
    ("validity", "status", "words"),
    [
        ("-5h:-1h", "problem", "ran out"),
        ("-1h:+1h", "warning", "valid until"),
        ("-1h:+52w", "ok", "valid until"),
        ("always:forever", "ok", "with the certificate"),
    ],
)
def test_the_doctor_on_certificates(key: Path, validity: str, status: str, words: str) -> None:
    certified(key, validity)
    check = doctor._key(endpoint(identity_files=(key,)))
    assert (check.status, words in check.sentence) == (status, True), check
    assert bool(check.fix) == (status != "ok")


def test_the_doctor_on_a_broken_certificate(key: Path) -> None:
    key.with_name(f"{key.name}-cert.pub").write_text("ssh-ed25519-cert-v01@openssh.com AAAA broken\n")
    assert doctor._key(endpoint(identity_files=(key,))).status == "ok"


def test_the_doctor_on_hosts_it_knows_or_does_not_know(tmp_path: Path, key: Path) -> None:
    own = tmp_path / "known_hosts"
    target = Target(endpoints=(endpoint(),), own_known_hosts=own)
    new = doctor._known(target)
    assert (new.status, "asked about once" in new.sentence) == ("warning", True)
    own.write_text("mn5 " + Path(f"{key}.pub").read_text())
    assert doctor._known(target).status == "ok"
    pinned = replace(target, endpoints=(endpoint(host_key="SHA256:abc"),))
    assert "SHA256:abc" in doctor._known(pinned).sentence


def test_the_doctor_on_a_cluster_of_the_past() -> None:
    profile = Profile(id="mn4", title="MareNostrum 4", login_hosts=("mn1",), status="historical")
    checks = list(doctor._configuration(profile, Target(endpoints=(endpoint(),), own_known_hosts=Path("x"))))
    assert checks[0].status == "problem"
    assert "MareNostrum 4" in checks[0].sentence


# ----------------------------------------------------------------------------- the lab folder


def test_a_disk_without_locks_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(FileLock, "acquire", refuse)
    with pytest.raises(FolderError) as caught:
        FolderLock(tmp_path / "lock").acquire()
    told(caught.value, "cannot be locked")


def test_settings_that_cannot_be_read_or_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FolderError) as caught:
        read_settings(tmp_path)  # a folder where the file should be
    told(caught.value, "cannot be read")
    (tmp_path / "file").write_text("")
    with pytest.raises(FolderError) as blocked:
        write_settings(tmp_path / "file" / "lab.toml", Settings(edition="x", profile="y"))
    told(blocked.value, "cannot be written")
    whole = tmp_path / "lab.toml"
    write_settings(whole, Settings(edition="x", profile="y"))
    before = whole.read_bytes()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(FolderError) as caught:
            write_settings(whole, Settings(edition="other", profile="y"))
        told(caught.value, "Is the disk full")
    assert whole.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("database is locked", "busy"),
        ("database or disk is full", "full"),
        ("disk I/O error", "full"),
        ("attempt to write a readonly database", "Is the folder yours"),
        ("unable to open database file", "Is the folder yours"),
        ("database disk image is malformed", "repair"),
        ("something of a later release", "repair"),
    ],
)
def test_what_the_database_says_in_words_of_a_student(said: str, words: str) -> None:
    told(_explained(sqlite3.OperationalError(said)), words)


def test_the_file_of_faults_does_not_grow_without_bound(tmp_path: Path) -> None:
    log = FaultLog(tmp_path / "problems.log")
    log.path.write_text("x" * 1_000_001)
    log.write(ValueError("the newest"))
    assert log.path.stat().st_size < 10_000
    assert "the newest" in log.path.read_text()
    assert len(list(tmp_path.iterdir())) == 2
    log.path.write_text("x" * 1_000_001)
    log.write(ValueError("another"))
    assert len(list(tmp_path.iterdir())) == 2


def test_who_only_looks_goes_on_after_a_database_that_was_busy(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, lab_path: Path
) -> None:
    from labtui.engine.session import Session
    from tests.cluster.cluster import wait_until

    bench.online()
    future = bench.session.submit(draft())
    with Session.open(lab_path) as looking:
        assert looking.read_only
        news, failures = looking._store.news, []

        def busy() -> list[Any]:
            if not failures:
                failures.append(1)
                raise StoreError("The lab folder's database is busy.", "Try again.")
            return news()

        monkeypatch.setattr(looking._store, "news", busy)
        bench.run(20, future.done)
        token = future.result()
        wait_until(
            lambda: (
                looking.state.submissions[token].status is SubmissionStatus.ACCEPTED
                if token in looking.state.submissions
                else False
            ),
            what="the other process's news",
        )
        assert failures
        assert "busy" in looking.folder.problem_log.read_text()
