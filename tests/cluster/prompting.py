"""A prompter with prepared answers, and a function that makes connections for tests."""

from pathlib import Path

from labtui.cluster.connection import Connection
from labtui.cluster.target import LoginQuestion, Overrides, resolve_hosts
from labtui.domain.profile import Profile


class Person:
    """Answers questions by kind, and records them. Kinds without an answer are refused."""

    def __init__(self, **answers: str | list[str]) -> None:
        self.answers = {kind.replace("_", "-"): answer for kind, answer in answers.items()}
        self.questions: list[LoginQuestion] = []

    def __call__(self, question: LoginQuestion) -> str | None:
        self.questions.append(question)
        answer = self.answers.get(question.kind)
        if isinstance(answer, list):
            return answer.pop(0) if answer else None
        return answer

    @property
    def kinds(self) -> list[str]:
        return [question.kind for question in self.questions]


def connection(
    tmp_path: Path, *, port: int, host: str = "127.0.0.1", key: Path | str = "", person: Person | None = None,
    hosts: tuple[str, ...] = (), config: str = "", **login: str,
) -> Connection:  # fmt: skip
    """A connection (not connected) that reads no SSH files of the developer."""
    config_file = tmp_path / "ssh_config"
    # No key that a test does not name may come from the developer's home directory.
    config_file.write_text(config or "Host *\n  IdentityAgent none\n  IdentityFile none\n")
    overrides = Overrides(
        port=port or None, identity=str(key), config_file=config_file, known_hosts=(tmp_path / "known_hosts",),
        own_known_hosts=tmp_path / "own" / "known_hosts", **login,
    )  # fmt: skip
    profile = Profile(id="test", title="test", login_hosts=hosts or (host,))
    return Connection(resolve_hosts(profile, overrides), person)
