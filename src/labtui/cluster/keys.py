"""Chooses the key that a login offers, from the agent or a file, with its certificate.

One key only: a server counts each key offered as a failed login, and some sites then block the address. Passphrases
are asked for, used and forgotten; the unlocked key is kept for reconnects.
"""

import base64
import contextlib
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import paramiko
from cryptography.hazmat.primitives import serialization
from paramiko.agent import AgentSSH

from labtui.cluster.target import Endpoint, LoginQuestion, Prompter, Secret, is_here, public_half
from labtui.domain.errors import failure

AGENT_LIMIT_S = 5.0
_LATEST_S = 253_402_300_799
"""The end of the year 9999; a certificate without expiry has a later end."""
PASSPHRASE_TRIES = 3
"""More than one, because wrong passphrases do not reach the server."""

T = TypeVar("T")


class OfferedKey(msgspec.Struct, frozen=True):
    """A key ready to sign. `origin` says in words where it comes from."""

    key: paramiko.PKey
    origin: str


def within(seconds: float, work: Callable[[], T]) -> T:
    """The result of `work`, run in a thread of its own because it has no time limit itself.

    Raises:
        TimeoutError: it did not return in time (its thread is left behind).
    """
    outcome: Future[T] = Future()

    def run() -> None:
        try:
            outcome.set_result(work())
        except BaseException as problem:
            outcome.set_exception(problem)

    threading.Thread(target=run, daemon=True, name="labtui-bounded").start()
    return outcome.result(seconds)


def choose_key(endpoint: Endpoint, prompter: Prompter) -> OfferedKey | None:
    """The key to offer to `endpoint`, or None.

    In this order: an identity that the agent holds, an existing identity file, the agent's only key.

    Raises:
        LoginRefused: a named key is missing, damaged or expired, or its passphrase was not given.
    """
    agent_keys = _agent_keys(endpoint.agent)
    candidates = key_files(endpoint)
    if endpoint.identity_configured and not candidates:
        wanted = endpoint.identity_files[0] if endpoint.identity_files else Path()
        raise failure("key-missing", path=wanted)
    for path in candidates:
        if (held := _held(path, agent_keys)) is not None:
            return _with_certificate(held, path, endpoint, f"{path} (held by the agent)")
    if private := [path for path in candidates if path.suffix != ".pub" and path.is_file()]:
        return _with_certificate(_load(private[0], endpoint, prompter), private[0], endpoint, str(private[0]))
    if candidates:
        raise failure("key-public", path=candidates[0])
    return OfferedKey(agent_keys[0], "the agent's key") if len(agent_keys) == 1 else None


def key_files(endpoint: Endpoint) -> list[Path]:
    """The keys that a login may offer, the first one first."""
    return [path for path in endpoint.identity_files if is_here(path)]


def first_key(endpoint: Endpoint) -> Path | None:
    """The first key whose private half is at hand, in its file or held by the agent."""
    agent_keys = _agent_keys(endpoint.agent)
    files = ((path, path.suffix != ".pub" and path.is_file()) for path in key_files(endpoint))
    return next((path for path, private in files if private or _held(path, agent_keys) is not None), None)


def _held(path: Path, agent_keys: tuple[Any, ...]) -> Any | None:
    """The agent's key of which `path` is a file."""
    blob = public_blob(path)
    return next((key for key in agent_keys if blob and key.asbytes() == blob), None)


def public_blob(path: Path) -> bytes | None:
    """The public half of a key, without opening the private one."""
    try:
        words = public_half(path).read_text(encoding="utf-8", errors="replace").split()
        return base64.b64decode(words[1], validate=True)
    except (OSError, IndexError, ValueError):
        return None


# --------------------------------------------------------------------------- the agent


def _agent_keys(where: str) -> tuple[Any, ...]:
    """The agent's keys; none if there is no agent or it does not answer."""
    if where == "none":
        return ()
    try:
        return within(AGENT_LIMIT_S, lambda: _ask_agent(where))
    except Exception:
        # No agent, a dead socket or an invalid answer: all mean that there is no key.
        return ()


def _ask_agent(where: str) -> tuple[Any, ...]:
    if not where:
        return tuple(paramiko.Agent().get_keys())
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(AGENT_LIMIT_S)
    connection.connect(where)
    agent = AgentSSH()
    agent._connect(connection)  # type: ignore[attr-defined]
    return tuple(agent.get_keys())


# --------------------------------------------------------------------------- files


def _load(path: Path, endpoint: Endpoint, prompter: Prompter) -> paramiko.PKey:
    """The private key in `path`, unlocked with a passphrase if it needs one."""
    answer: Secret | None = None
    for attempt in range(PASSPHRASE_TRIES + 1):
        try:
            # Annotated as str by paramiko, but passed on to code that needs bytes.
            key = paramiko.PKey.from_path(path, answer.text.encode() if answer else None)  # type: ignore[arg-type]
        except Exception as problem:
            # A locked key raises TypeError without a passphrase and ValueError with a wrong one.
            if not isinstance(problem, ValueError if answer else TypeError):
                raise failure("key-unreadable", path=path, text=_why_unreadable(problem, path)) from None
        else:
            key.public_blob = None  # paramiko loads a certificate beside it, which may be another key's
            return key
        if attempt == PASSPHRASE_TRIES:
            break
        again = "That passphrase does not unlock it. " if attempt else ""
        text = f"{again}Passphrase of {path}:"
        reply = prompter(LoginQuestion(kind="passphrase", text=text, host=endpoint.host))
        if reply is None:
            raise failure("key-locked", path=path)
        answer = Secret(reply)
    raise failure("passphrase", path=path)


def _why_unreadable(problem: Exception, path: Path) -> str:
    if isinstance(problem, PermissionError):
        return "You have no permission to read it: chmod 600."
    with contextlib.suppress(OSError):
        head = path.read_bytes()[:64]
        if head.startswith(b"PuTTY-User-Key-File"):
            return "It is in PuTTY's format: export it as an OpenSSH key with PuTTYgen."
        if b"BEGIN PRIVATE KEY" in head or b"ENCRYPTED PRIVATE KEY" in head:
            return f"It is in PKCS #8 format: `ssh-keygen -p -f {path}` writes it in OpenSSH's."
        if b"PRIVATE KEY" not in head:
            return "It does not look like a private key. Did you name the public half?"
    return "Its type is not supported or the file is damaged; make a new one with ssh-keygen -t ed25519."


# --------------------------------------------------------------------------- certificates


def _with_certificate(key: Any, path: Path, endpoint: Endpoint, origin: str) -> OfferedKey:
    """The key with its certificate, if there is one.

    Raises:
        LoginRefused: the certificate has expired.
    """
    if (file := certificate_of(path, key.asbytes(), endpoint)) is None:
        return OfferedKey(key, origin)
    if (ends := certificate_end(file)) is not None and ends <= datetime.now(UTC):
        raise failure("certificate-over", path=file, time=f"{ends:%Y-%m-%d at %H:%M}")
    key.load_certificate(str(file))
    return OfferedKey(key, f"{origin} with the certificate {file}")


def certificate_of(path: Path, blob: bytes | None, endpoint: Endpoint) -> Path | None:
    """The file of the certificate for the key with this public half; if that is unknown, the first certificate."""
    base = path.with_suffix("") if path.suffix == ".pub" else path
    for file in (*endpoint.certificate_files, base.with_name(base.name + "-cert.pub")):
        certificate = _certificate(file)
        if certificate is not None:  # OpenSSH passes over another key's as well
            line = certificate.public_key().public_bytes(
                serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
            )
            if blob is None or base64.b64decode(line.split()[1]) == blob:
                return file
    return None


def certificate_end(path: Path) -> datetime | None:
    """When the OpenSSH certificate in a file expires; None for never, and if there is none."""
    if (certificate := _certificate(path)) is None or certificate.valid_before > _LATEST_S:
        return None
    return datetime.fromtimestamp(certificate.valid_before, UTC)


def _certificate(path: Path) -> serialization.SSHCertificate | None:
    """The OpenSSH certificate in a file; None if it cannot be read as one."""
    try:
        found = serialization.load_ssh_public_identity(path.read_bytes())
    except Exception:
        return None
    return found if isinstance(found, serialization.SSHCertificate) else None
