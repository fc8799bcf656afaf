"""Questions a login may need answered by the student, and who answers them.

Answers are secrets: they are handed on, never kept here, never printed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

QuestionKind = Literal["password", "passphrase", "code", "host-key"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question. `text` may come from the server: show it as data, without markup.

    `echo` tells whether what is typed may be shown. A ``host-key`` question is answered ``"yes"`` or refused;
    `fingerprint` is then the key's ``SHA256:...``.
    """

    kind: QuestionKind
    text: str
    host: str
    echo: bool = False
    fingerprint: str = ""


class Prompter(Protocol):
    """Whoever can ask the student. Called from the thread that connects, or from one of its helpers."""

    def ask(self, question: Question) -> str | None:
        """The answer, or None when the student refuses or nobody is there."""
        ...


class NobodyThere:
    """Refuses every question: for scripts and pipes, where nothing may be asked."""

    def ask(self, question: Question) -> str | None:
        """Always None."""
        del question
        return None


class Secret:
    """A secret that does not show itself in a repr, a log or a traceback's local variables."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The secret itself, for the one call that needs it."""
        return self._text

    def __repr__(self) -> str:
        return "Secret(***)"
