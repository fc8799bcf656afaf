"""A person at the keyboard, as a list of answers, and the shortest way to a connection for tests."""

from pathlib import Path

from labtui.cluster.connection import Connection
from labtui.cluster.target import LoginQuestion, Overrides, resolve_hosts
from labtui.domain.profile import Profile
from labtui.slurm.remote_command import CommandRecord


class Person:
    """Answers questions by kind; remembers what was asked. A kind that is not here is refused."""

    def __init__(self, **answers: str | list[str]) -> None:
        self.answers = {kind.replace("_", "-"): answer for kind, answer in answers.items()}
        self.questions: list[LoginQuestion] = []

    def ask(self, question: LoginQuestion) -> str | None:
        self.questions.append(question)
        answer = self.answers.get(question.kind)
        if isinstance(answer, list):
            return answer.pop(0) if answer else None
        return answer

    @property
    def kinds(self) -> list[str]:
        return [question.kind for question in self.questions]


PROFILE = Profile(id="test", title="test", login_hosts=("localhost",))


def connection(
    tmp_path: Path,
    *,
    host: str = "127.0.0.1",
    port: int,
    user: str = "",
    key: Path | str = "",
    host_key: str = "",
    person: Person | None = None,
    records: list[CommandRecord] | None = None,
    hosts: tuple[str, ...] = (),
    config: str = "",
) -> Connection:
    """A connection (not connected) that reads no file of the person who runs the tests."""
    config_file = tmp_path / "ssh_config"
    # A key that is asked for by nobody must not come from the home directory of whoever runs the tests.
    config_file.write_text(config or "Host *\n  IdentityAgent none\n  IdentityFile none\n")
    overrides = Overrides(
        hosts=hosts or (host,),
        port=port or None,
        user=user,
        identity_file=str(key),
        host_key=host_key,
        config_file=config_file,
        known_hosts=(tmp_path / "known_hosts",),
        own_known_hosts=tmp_path / "own" / "known_hosts",
    )
    return Connection(
        resolve_hosts(PROFILE, overrides), person, records.append if records is not None else None
    )
