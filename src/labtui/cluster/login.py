"""Who you are: key, certificate, keyboard-interactive, password, in the order the server allows.

Each method is tried at most once and nothing is ever tried again by itself: repeated failures get an address
blocked. paramiko's own client is not used, because it asks on the terminal when a second factor is wanted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from labtui.cluster.keys import OfferedKey, choose_key
from labtui.cluster.target import Endpoint, LoginQuestion, Prompter, Secret
from labtui.domain.errors import CannotConnect, LabError, LoginRefused

if TYPE_CHECKING:
    import paramiko

AUTH_LIMIT_S = 30.0
ANSWER_LIMIT_S = 600.0
"""How long a person may take to find a code; the server's own limit is usually shorter."""

_ORDER = ("publickey", "keyboard-interactive", "password")
_KEY_HINT = (
    "Is the user name right? Does the site have this key (ssh-copy-id)? For another key: --identity FILE."
)
_PASSWORD = re.compile(r"passw", re.IGNORECASE)
_NEW_PASSWORD = re.compile(r"\bnew\b.*passw", re.IGNORECASE)
_PASSWORD_EXPIRED = re.compile(
    r"password (has|is) expired|required to change your password|password change required"
    r"|password must be changed|authentication token is no longer valid",
    re.IGNORECASE,
)
_ACCOUNT_EXPIRED = re.compile(r"account (has |is )?(expired|disabled|locked|closed|inactive)", re.IGNORECASE)
_MAINTENANCE = re.compile(
    r"maintenance|mantenimiento|manteniment|going down|shutting down"
    r"|log-?ins? (are |is )?(currently |temporarily )?(disabled|closed|not allowed|not permitted)",
    re.IGNORECASE,
)


def password_expired(host: str, user: str) -> LoginRefused:
    """The password has to be changed before anything else."""
    return LoginRefused(
        f"The password of {user} on {host} has to be changed before you can work.",
        f"Log in with `ssh {user}@{host}` in a terminal, follow the questions, then connect again.",
        reason="password-expired",
    )


def refused_by_server(text: str, endpoint: Endpoint) -> LabError | None:
    """The error in a server's own words about a login: maintenance, a closed account, an old password; else None."""
    words = " ".join("".join(char if char.isprintable() else " " for char in text).split())[-300:]
    if _PASSWORD_EXPIRED.search(words):
        return password_expired(endpoint.host, endpoint.user)
    if _ACCOUNT_EXPIRED.search(words):
        return LoginRefused(
            f"The account {endpoint.user} on {endpoint.host} is closed. The server says: {words}",
            "Ask your teacher or the site's support to open it again; no other key or password helps.",
            reason="account-expired",
        )
    if _MAINTENANCE.search(words):
        return CannotConnect(
            f"{endpoint.host} is in maintenance. The server says: {words}",
            "Try again when it is over; jobs that run are not affected by this.",
            reason="maintenance",
        )
    return None


@dataclass(slots=True)
class Memory:
    """What is kept between reconnects, in memory only: opened keys and passwords that were accepted."""

    keys: dict[str, OfferedKey] = field(default_factory=dict)
    passwords: dict[str, Secret] = field(default_factory=dict)

    def forget(self, label: str) -> None:
        """Drop what was kept for a login that is refused now."""
        self.keys.pop(label, None)
        self.passwords.pop(label, None)


class Login:
    """One login on one transport."""

    def __init__(
        self, transport: paramiko.Transport, endpoint: Endpoint, prompter: Prompter, memory: Memory
    ) -> None:
        self.transport = transport
        self.endpoint = endpoint
        self.prompter = prompter
        self.memory = memory
        self.key: OfferedKey | None = None
        self.password: Secret | None = None
        self.accepted: list[str] = []
        self.refused: list[str] = []
        self.prompts_answered = 0
        self.gave_up = False
        self.must_change = False
        self.server_words = ""

    def run(self) -> tuple[str, ...]:
        """Log in; the methods that were accepted.

        Raises:
            LoginRefused: the server does not accept what there is, or the student gave no answer.
            CannotConnect: the server went away in the middle.
        """
        try:
            return self._run()
        except LoginRefused:
            self.memory.forget(self.endpoint.label)
            raise

    def _run(self) -> tuple[str, ...]:
        allowed = self._ask_methods()
        tried: set[str] = set()
        while not self.transport.is_authenticated():
            method = next((name for name in _ORDER if name in allowed and name not in tried), None)
            if method is None:
                raise self._no_way(allowed)
            tried.add(method)
            partial = self._try(method)
            if partial:
                self.accepted.append(method)
                allowed = set(partial)
            elif self.transport.is_authenticated():
                self.accepted.append(method)
            else:
                self.refused.append(method)
        if self.password is not None:
            self.memory.passwords[self.endpoint.label] = self.password
        if self.key is not None and "publickey" in self.accepted:
            self.memory.keys[self.endpoint.label] = self.key
        return tuple(self.accepted)

    def _ask_methods(self) -> set[str]:
        import paramiko

        self.transport.auth_timeout = AUTH_LIMIT_S
        try:
            self.transport.auth_none(self.endpoint.user)
        except paramiko.BadAuthenticationType as reply:
            return set(reply.allowed_types)
        except paramiko.SSHException as problem:
            raise self._went_away(problem) from None
        except EOFError as problem:
            raise self._went_away(problem) from None
        return set()

    def _try(self, method: str) -> Sequence[str]:
        """Try one method; returns the methods still wanted after a partial success, else nothing."""
        import paramiko

        if method == "publickey":
            self.key = self.memory.keys.get(self.endpoint.label) or choose_key(self.endpoint, self.prompter)
            if self.key is None:
                return ()
        try:
            if method == "publickey" and self.key is not None:
                return tuple(self.transport.auth_publickey(self.endpoint.user, self.key.key))
            if method == "password":
                return self._password()
            return self._interactive()
        except paramiko.BadAuthenticationType:
            return ()
        except (paramiko.SSHException, EOFError, OSError) as problem:
            return self._refusal(method, problem)

    def _refusal(self, method: str, problem: Exception) -> Sequence[str]:
        """Nothing, when the next method may be tried; otherwise the error."""
        import paramiko

        if self.must_change:
            raise password_expired(self.endpoint.host, self.endpoint.user)
        if self.gave_up:
            raise self._no_answer()
        if refusal := refused_by_server(self.server_words, self.endpoint):
            raise refusal
        if not self.transport.is_active() and (refusal := refused_by_server(self._banner(), self.endpoint)):
            raise refusal
        cut = not self.transport.is_active() or "timeout" in str(problem).lower()
        refused = isinstance(problem, paramiko.AuthenticationException) and not cut
        if refused and method == "publickey":
            return ()
        if refused and method == "keyboard-interactive" and not self.prompts_answered:
            return ()  # the server asked nothing: a password may still be wanted
        if refused or (cut and self.prompts_answered):
            raise LoginRefused(
                f"{self.endpoint.host} does not accept this password or code for {self.endpoint.user}.",
                "Check the user name, then connect again (u) and type it again. Sites block an address after a few "
                "failures.",
                reason="password",
            )
        if method == "publickey" and not cut:
            raise LoginRefused(
                f"The key {self.key.origin if self.key else ''} cannot be used to sign.",
                f"The agent or the key file refuses: {problem}",
            )
        raise self._went_away(problem)

    # ----------------------------------------------------------------- what a person types

    def _password(self) -> Sequence[str]:
        kept = self.memory.passwords.get(self.endpoint.label)
        if kept is None:
            reply = self.prompter.ask(
                LoginQuestion(
                    kind="password", text=f"Password of {self.endpoint.label}:", host=self.endpoint.host
                )
            )
            if reply is None:
                raise self._no_answer()
            kept = Secret(reply)
        self.password = kept
        self.prompts_answered += 1
        return tuple(self.transport.auth_password(self.endpoint.user, kept.reveal(), fallback=False))

    def _interactive(self) -> Sequence[str]:
        self.transport.auth_timeout = ANSWER_LIMIT_S
        try:
            return tuple(self.transport.auth_interactive(self.endpoint.user, self._answer))
        finally:
            self.transport.auth_timeout = AUTH_LIMIT_S

    def _answer(self, title: str, instructions: str, prompts: Sequence[tuple[str, bool]]) -> list[str]:
        """Answer the server's prompts; called in paramiko's thread, so it must not raise."""
        self.server_words += f"{title}\n{instructions}\n"
        # A password is changed in a terminal, never through labtui.
        if any(
            _PASSWORD_EXPIRED.search(f"{instructions}\n{text}") or _NEW_PASSWORD.search(text)
            for text, _ in prompts
        ):
            self.must_change = True
            self.transport.close()
            return []
        answers = []
        for text, echo in prompts:
            answer = self._answer_one(title, instructions, text, echo)
            if answer is None:
                self.gave_up = True
                self.transport.close()
                return []
            answers.append(answer)
        return answers

    def _answer_one(self, title: str, instructions: str, text: str, echo: bool) -> str | None:
        is_password = not echo and bool(_PASSWORD.search(text))
        kept = self.memory.passwords.get(self.endpoint.label)
        if is_password and kept is not None and not self.prompts_answered:
            self.password = kept
            self.prompts_answered += 1
            return kept.reveal()
        lines = [line.strip() for line in (title, instructions, text) if line.strip()]
        try:
            reply = self.prompter.ask(
                LoginQuestion(
                    kind="password" if is_password else "code",
                    text="\n".join(lines) or "Answer:",
                    host=self.endpoint.host,
                    echo=echo,
                )
            )
        except Exception:
            return None
        if reply is not None:
            self.prompts_answered += 1
            if is_password and self.password is None:
                self.password = Secret(reply)
        return reply

    # ----------------------------------------------------------------- how it is said

    def _key_words(self) -> str:
        if "publickey" in self.refused and self.key is not None:
            return f"does not accept the key {self.key.origin} for the user {self.endpoint.user}"
        return ""

    def _no_answer(self) -> LoginRefused:
        key = self._key_words()
        if key:
            return LoginRefused(
                f"{self.endpoint.host} {key}, and the password or code it asks for instead was not given.",
                _KEY_HINT,
            )
        return LoginRefused(
            f"{self.endpoint.host} asks for a password or a code, which was not given.",
            "Connect where it can be asked for, or set up a key with ssh-keygen and ssh-copy-id.",
        )

    def _no_way(self, allowed: set[str]) -> LoginRefused:
        key = self._key_words()
        if key:
            return LoginRefused(
                f"{self.endpoint.host} {key}.",
                _KEY_HINT,
            )
        if "publickey" in allowed and self.key is None:
            return LoginRefused(
                f"{self.endpoint.host} requires an SSH key for {self.endpoint.user}, and you have none.",
                "`labtui key` makes one; register it at the site, and name it with --identity FILE.",
                reason="no-key",
            )
        ways = ", ".join(sorted(allowed)) or "nothing"
        return LoginRefused(
            f"{self.endpoint.host} accepts no login method for {self.endpoint.user} that labtui supports ({ways}).",
            "Check the user name; ask the site how to log in.",
        )

    def _banner(self) -> str:
        """What the server said last before or beside a refusal; PAM's messages come this way."""
        handler = getattr(self.transport, "auth_handler", None)
        text = getattr(handler, "banner", None) or b""
        return text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)

    def _went_away(self, problem: BaseException) -> CannotConnect:
        if "timeout" in str(problem).lower():
            return CannotConnect(
                f"{self.endpoint.host} did not answer during the login.", "Try again in a moment."
            )
        return CannotConnect(
            f"{self.endpoint.host} closed the connection during the login.",
            "Too many failed logins from this address, or the account is closed; wait a few minutes.",
        )
