"""Failures between labtui and Slurm that no other test makes: answers, logging in, the SSH configuration."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import paramiko
import pytest

from labtui.cluster import connection as connecting
from labtui.cluster.connection import Connection
from labtui.domain.errors import ConnectionLost, RemoteFailure
from labtui.slurm.job_control import cancel, end_after
from labtui.slurm.probe import present
from labtui.slurm.remote_command import Call, CommandResult
from labtui.slurm.submit import submit
from tests.cluster.prompting import connection
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
