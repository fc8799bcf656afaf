"""Authentication by key or certificate, keyboard-interactive and password, as far as the server allows them.

Each method is tried at most once and nothing is retried automatically: sites block an address after repeated
failures. paramiko's own client is not used, because it asks for a second factor on the terminal.
"""

import contextlib
import re
from collections.abc import Sequence

import msgspec
import paramiko

from labtui.cluster.keys import OfferedKey, choose_key
from labtui.cluster.target import Endpoint, LoginQuestion, Prompter, QuestionKind, Secret
from labtui.domain.errors import LabError, LoginRefused, failure
from labtui.domain.terminal_text import printable

AUTH_LIMIT_S = 30.0
ANSWER_LIMIT_S = 600.0
"""How long a person may take to enter a code; the server's own limit is usually shorter."""

_ORDER = ("publickey", "keyboard-interactive", "password")
_PASSWORD = re.compile(r"passw", re.IGNORECASE)
_NEW_PASSWORD = re.compile(r"\bnew\b.*passw", re.IGNORECASE)
_REFUSALS = {
    "password-expired": r"password (has|is) expired|required to change your password|password change required"
    r"|password must be changed|authentication token is no longer valid",
    "account-expired": r"account (has |is )?(expired|disabled|locked|closed|inactive)",
    "maintenance": r"(?<!next )(?<!planned )(?<!scheduled )maintenance|mantenimiento|manteniment|going down"
    r"|shutting down|log-?ins? (are |is )?(currently |temporarily )?(disabled|closed|not allowed|not permitted)",
}
"""By reason (see `failures.toml`): what servers say of it, matched without regard to case; the first match counts."""


def refusal_in(text: str, endpoint: Endpoint) -> LabError | None:
    """The error for a server's message on a login: maintenance, a closed account, an expired password; else None."""
    words = " ".join(printable(text).split())[-300:]
    said = (reason for reason, pattern in _REFUSALS.items() if re.search(pattern, words, re.IGNORECASE))
    reason = next(said, None)
    return failure(reason, host=endpoint.host, user=endpoint.user, words=words) if reason else None


class RememberedLogins(msgspec.Struct):
    """Unlocked keys and accepted passwords for reconnects, kept in memory only."""

    keys: dict[str, OfferedKey] = {}
    passwords: dict[str, Secret] = {}


class Login(msgspec.Struct):
    """A login in progress, in which `run` tries the server's methods in order and fills the other fields.

    `key_refused` and `password` say what was tried, `prompts_answered` how many answers the server got, `gave_up` that
    the student gave none. `must_change`: the server demands a new password. `server_words` is what it printed.
    """

    transport: paramiko.Transport
    endpoint: Endpoint
    prompter: Prompter
    memory: RememberedLogins
    key: OfferedKey | None = None
    key_refused: bool = False
    password: Secret | None = None
    prompts_answered: int = 0
    gave_up: bool = False
    must_change: bool = False
    server_words: str = ""

    def run(self) -> tuple[str, ...]:
        """Log in; return the accepted methods.

        Raises:
            LoginRefused: the server accepts none of the methods, or the student gave no answer.
            CannotConnect: the server closed the connection or did not answer during the login.
        """
        label = self.endpoint.label
        try:
            accepted = self._run()
        except LoginRefused:
            self.memory.keys.pop(label, None)
            self.memory.passwords.pop(label, None)
            raise
        if self.password is not None:
            self.memory.passwords[label] = self.password
        if self.key is not None and "publickey" in accepted:
            self.memory.keys[label] = self.key
        return accepted

    def _run(self) -> tuple[str, ...]:
        """Try each method that the server allows once, until it accepts; return those it accepted."""
        allowed = self._ask_methods()
        tried: list[str] = []
        accepted: list[str] = []
        while not self.transport.is_authenticated():
            method = next((name for name in _ORDER if name in allowed and name not in tried), None)
            if method is None:
                if self.key_refused:
                    raise self._failure("key")
                lacks_key, ways = "publickey" in allowed and not self.key, ", ".join(sorted(allowed))
                raise self._failure("no-key" if lacks_key else "no-method", ways=ways or "nothing")
            tried.append(method)
            more = self._try(method)
            if more or self.transport.is_authenticated():
                accepted.append(method)
            allowed = set(more) or allowed
        return tuple(accepted)

    def _ask_methods(self) -> set[str]:
        """The methods that the server allows; none if it wants no login."""
        self.transport.auth_timeout = AUTH_LIMIT_S
        try:
            self.transport.auth_none(self.endpoint.user)
        except paramiko.BadAuthenticationType as reply:
            return set(reply.allowed_types)
        except (paramiko.SSHException, EOFError) as problem:
            raise self._connection_error(problem) from None
        return set()

    def _try(self, method: str) -> Sequence[str]:
        """Try one method; return the methods still required after a partial success, else nothing."""
        user, key = self.endpoint.user, None
        if method == "publickey":
            key = self.memory.keys.get(self.endpoint.label) or choose_key(self.endpoint, self.prompter)
            self.key = key
            if key is None:
                return ()
        try:
            if key is not None:
                return self.transport.auth_publickey(user, key.key)
            if method == "password":
                reply = self._ask_student("password", f"Password of {self.endpoint.label}:")
                if reply is None:
                    raise self._no_answer_error()
                return self.transport.auth_password(user, reply, fallback=False)
            self.transport.auth_timeout = ANSWER_LIMIT_S
            return self.transport.auth_interactive(user, self._answer)
        except paramiko.BadAuthenticationType:
            return ()
        except (paramiko.SSHException, EOFError, OSError) as problem:
            self._handle_error(method, problem)
            return ()
        finally:
            self.transport.auth_timeout = AUTH_LIMIT_S

    def _handle_error(self, method: str, problem: Exception) -> None:
        """Raise the error for a failed method; return if the next method may be tried."""
        if self.must_change:
            raise self._failure("password-expired")
        if self.gave_up:
            raise self._no_answer_error()
        gone = not self.transport.is_active()
        said = self.server_words + (self._banner() if gone else "")
        if refusal := refusal_in(said, self.endpoint):
            raise refusal
        cut = gone or _timed_out(problem)
        refused = isinstance(problem, paramiko.AuthenticationException) and not cut
        # A server that asked nothing may still accept a password.
        if refused and (method == "publickey" or not self.prompts_answered):
            self.key_refused |= method == "publickey"
            return
        # Some servers hang up instead of refusing the password.
        if refused or (cut and self.prompts_answered):
            raise self._failure("password")
        if method == "publickey" and not cut:
            raise self._failure("signature", text=str(problem))
        raise self._connection_error(problem)

    # ----------------------------------------------------------------- questions

    def _ask_student(self, kind: QuestionKind, text: str, *, echo: bool = False) -> str | None:
        """The password accepted before, offered once; else the student's answer, None if there is none."""
        kept = self.memory.passwords.get(self.endpoint.label) if kind == "password" else None
        if kept is not None and self.password is None:
            reply: str | None = kept.text
        else:
            if self.key_refused and self.endpoint.identity_configured and not self.prompts_answered:
                text = f"{self._failure('key').sentence}\n{text}"
            reply = self.prompter(LoginQuestion(kind=kind, text=text, host=self.endpoint.host, echo=echo))
        if reply is not None:
            self.prompts_answered += 1
            if kind == "password" and self.password is None:
                self.password = Secret(reply)
        return reply

    def _answer(self, title: str, instructions: str, prompts: Sequence[tuple[str, bool]]) -> list[str]:
        """Answer the server's prompts; called in paramiko's thread, so it must not raise."""
        self.server_words += f"{title}\n{instructions}\n"
        # Passwords are changed in a terminal, never through labtui.
        expired = re.compile(_REFUSALS["password-expired"], re.IGNORECASE)
        self.must_change = any(
            expired.search(f"{instructions}\n{text}") or _NEW_PASSWORD.search(text) for text, _ in prompts
        )
        answers: list[str] = []
        for text, echo in prompts:
            answer = None
            lines = "\n".join(line.strip() for line in (title, instructions, text) if line.strip())
            kind: QuestionKind = "password" if not echo and _PASSWORD.search(text) else "code"
            with contextlib.suppress(Exception):
                answer = None if self.must_change else self._ask_student(kind, lines or "Answer:", echo=echo)
            if answer is None:
                self.gave_up = True
                self.transport.close()
                return []
            answers.append(answer)
        return answers

    # ----------------------------------------------------------------- errors

    def _failure(self, reason: str, *, text: str = "", ways: str = "", did: str = "") -> LabError:
        host, user, origin = self.endpoint.host, self.endpoint.user, self.key.origin if self.key else ""
        return failure(reason, host=host, user=user, origin=origin, text=text, ways=ways, did=did)

    def _no_answer_error(self) -> LabError:
        return self._failure("key" if self.key_refused else "no-answer")

    def _banner(self) -> str:
        """The server's last banner, which includes PAM's messages about a refusal."""
        text = getattr(getattr(self.transport, "auth_handler", None), "banner", None) or b""
        return text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)

    def _connection_error(self, problem: BaseException) -> LabError:
        did = "did not answer" if _timed_out(problem) else "closed the connection"
        return self._failure("went-away", did=did)


def _timed_out(problem: BaseException) -> bool:
    return "timeout" in str(problem).lower()
