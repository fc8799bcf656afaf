"""Host keys: the files of known hosts, and whether a server's key is known, new, changed or revoked.

A changed key is refused without a question. An unknown one is shown by its SHA-256 fingerprint and asked
about once.
"""

from __future__ import annotations

import base64
import binascii
import fnmatch
import hashlib
import hmac
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from labtui.cluster.local_files import write_atomic
from labtui.cluster.target import Endpoint, LoginQuestion, Prompter
from labtui.domain.errors import HostKeyProblem

Judgement = Literal["known", "unknown", "changed", "revoked"]


@dataclass(frozen=True, slots=True)
class HostLine:
    """One readable line of a known_hosts file. `marker` is empty, ``@revoked`` or ``@cert-authority``."""

    marker: str
    patterns: str
    key_type: str
    key: bytes
    source: str

    def matches(self, name: str) -> bool:
        """True when the line speaks of `name` (``host`` or ``[host]:port``)."""
        return matches_host(self.patterns, name)


def fingerprint(key: bytes) -> str:
    """``SHA256:...`` of a public key blob, as `ssh-keygen -l` prints it."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(key).digest()).decode().rstrip("=")


def host_name(host: str, port: int) -> str:
    return host if port == 22 else f"[{host}]:{port}"


def matches_host(patterns: str, name: str) -> bool:
    """True when a known_hosts host field (hashed, or patterns with ``*``, ``?``, ``!``) speaks of `name`."""
    if patterns.startswith("|1|"):
        return _matches_hashed(patterns, name)
    lower = name.lower()
    positive = False
    for pattern in patterns.lower().split(","):
        negated = pattern.startswith("!")
        plain = pattern.removeprefix("!")
        # fnmatch would read [host]:port as a character class.
        quoted = plain.replace("[", "[[]")
        if fnmatch.fnmatchcase(lower, quoted):
            if negated:
                return False
            positive = True
    return positive


def _matches_hashed(field: str, name: str) -> bool:
    pieces = field.split("|")
    if len(pieces) != 4:
        return False
    try:
        salt, expected = base64.b64decode(pieces[2]), base64.b64decode(pieces[3])
    except (binascii.Error, ValueError):
        return False
    return hmac.compare_digest(hmac.new(salt, name.encode(), hashlib.sha1).digest(), expected)


def parse_known_hosts(text: str, source: str = "") -> tuple[HostLine, ...]:
    """The lines that can be read; the others are passed over."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        marker = words.pop(0) if words[0].startswith("@") else ""
        if len(words) < 3 or marker not in ("", "@revoked", "@cert-authority"):
            continue
        try:
            key = base64.b64decode(words[2], validate=True)
        except (binascii.Error, ValueError):
            continue
        found.append(HostLine(marker, words[0], words[1], key, f"{source}:{number}"))
    return tuple(found)


def read_known_hosts(paths: Iterable[Path]) -> tuple[HostLine, ...]:
    """All readable lines of those files that exist."""
    lines: list[HostLine] = []
    for path in paths:
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        lines += parse_known_hosts(text, str(path))
    return tuple(lines)


def lines_for(lines: Iterable[HostLine], host: str, port: int, alias: str = "") -> tuple[HostLine, ...]:
    """The lines that speak of a host: by its alias if it has one, else by host and port."""
    name = alias or host_name(host, port)
    return tuple(line for line in lines if line.matches(name))


@dataclass(frozen=True, slots=True)
class Verdict:
    """What known_hosts says about a key; `line` names the file and line it rests on."""

    judgement: Judgement
    line: str = ""


def judge(lines: Sequence[HostLine], host: str, port: int, key: bytes, alias: str = "") -> Verdict:
    """Is `key` the key of this host?

    A host that is known with another key, of whatever type, has *changed*: we ask the server for the type we
    know, so another type means another server or a new installation.
    """
    ours = lines_for(lines, host, port, alias)
    for line in lines:
        if line.marker == "@revoked" and line.key == key and (line in ours or line.matches(host)):
            return Verdict("revoked", line.source)
    plain = [line for line in ours if not line.marker]
    for line in plain:
        if line.key == key:
            return Verdict("known", line.source)
    if plain:
        return Verdict("changed", plain[0].source)
    if not alias and port != 22:
        # As OpenSSH does: the same key under the name without a port is good enough to know it.
        for line in lines_for(lines, host, 22):
            if not line.marker and line.key == key:
                return Verdict("known", line.source)
    return Verdict("unknown")


def known_types(lines: Sequence[HostLine], host: str, port: int, alias: str = "") -> tuple[str, ...]:
    """Key types that are known of a host, so that the server can be asked for one of them."""
    ours = lines_for(lines, host, port, alias)
    return tuple(dict.fromkeys(line.key_type for line in ours if not line.marker))


def add_host(path: Path, name: str, key_type: str, key: bytes) -> None:
    """Add a key to labtui's own file: the file is replaced as a whole, for its owner's eyes alone.

    `name` is the host as known_hosts writes it (see `host_name`).

    Raises:
        OSError: the file cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        before = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        before = ""
    if before and not before.endswith("\n"):
        before += "\n"
    line = f"{name} {key_type} {base64.b64encode(key).decode()}\n"
    write_atomic(path, (before + line).encode())


_RSA = ("rsa-sha2-512", "rsa-sha2-256")


def lines_of(endpoint: Endpoint, own_file: Path) -> tuple[HostLine, ...]:
    """The user's lines and ours."""
    return read_known_hosts([*endpoint.known_hosts, own_file])


def preferred_types(
    lines: tuple[HostLine, ...], endpoint: Endpoint, offered: tuple[str, ...]
) -> tuple[str, ...]:
    """`offered` host key algorithms with those first of which we know a key, so that it can be compared."""
    wanted: list[str] = []
    for key_type in known_types(lines, endpoint.host, endpoint.port, endpoint.host_key_alias):
        wanted += _RSA if key_type == "ssh-rsa" else (key_type,)
    first = [name for name in wanted if name in offered]
    return (*first, *(name for name in offered if name not in first))


def check_host_key(
    endpoint: Endpoint,
    key_type: str,
    key: bytes,
    *,
    lines: tuple[HostLine, ...],
    own_file: Path,
    prompter: Prompter,
) -> None:
    """Return when the key may be trusted.

    Raises:
        HostKeyProblem: it has changed, is revoked, is not the pinned one, or was not accepted.
    """
    shown = fingerprint(key)
    host, alias = endpoint.host, endpoint.host_key_alias
    verdict = judge(lines, host, endpoint.port, key, alias)
    if verdict.judgement == "revoked":
        raise HostKeyProblem(
            f"The key of {host} is marked as revoked ({verdict.line}).",
            "Do not connect; ask the site's support.",
        )
    if endpoint.host_key:
        if not same_fingerprint(endpoint.host_key, shown):
            raise HostKeyProblem(
                f"{host} has the key {shown}, but the settings pin {endpoint.host_key}.",
                "Someone may be listening in. Compare with the fingerprint your site publishes.",
            )
        return
    if verdict.judgement == "known":
        return
    if verdict.judgement == "changed":
        raise HostKeyProblem(
            f"The key of {host} has changed: it is {shown} now, and {verdict.line} holds another.",
            "Someone may be listening in. If your site says the new key is right, remove the old one with "
            f'`ssh-keygen -R "{host_name(host, endpoint.port)}"` (or that line) and connect again.',
        )
    _ask(endpoint, key_type, shown, prompter)
    try:
        add_host(own_file, alias or host_name(host, endpoint.port), key_type, key)
    except OSError as problem:
        raise HostKeyProblem(
            f"The accepted key cannot be kept: {own_file} cannot be written ({problem.strerror}).",
            f"Make room for that file, or pin the key with --host-key {shown}.",
        ) from None


def same_fingerprint(expected: str, shown: str) -> bool:
    """Compare ``SHA256:...`` texts; padding and a missing prefix do not matter."""
    return expected.strip().removeprefix("SHA256:").rstrip("=") == shown.removeprefix("SHA256:")


def _ask(endpoint: Endpoint, key_type: str, shown: str, prompter: Prompter) -> None:
    name = host_name(endpoint.host, endpoint.port)
    text = (
        f"{name} is not in known_hosts. Its {_plain(key_type)} key is {shown}. {_published(endpoint, shown)}"
    )
    text += "Is this fingerprint correct?"
    answer = prompter.ask(
        LoginQuestion(kind="host-key", text=text, host=endpoint.host, echo=True, fingerprint=shown)
    )
    if answer is None or answer.strip().lower() not in ("yes", "y", shown.lower()):
        raise HostKeyProblem(
            f"The key of {endpoint.host} ({shown}) is unknown and was not accepted.",
            "Compare it with the fingerprint your site publishes, then accept it, "
            f"or pin it with --host-key {shown}.",
        )


def _published(endpoint: Endpoint, shown: str) -> str:
    """What the site publishes about this host's keys, compared with the one shown.

    Raises:
        HostKeyProblem: the site publishes others.
    """
    if any(same_fingerprint(known, shown) for known in endpoint.published):
        return f"The site publishes the same fingerprint ({endpoint.published_at}). "
    if endpoint.published:
        raise HostKeyProblem(
            f"{endpoint.host} shows the key {shown}, which is none of those its site publishes.",
            f"Someone may be listening in. Ask the site's support. {endpoint.published_at}".strip(),
        )
    return f"{endpoint.published_at} " if endpoint.published_at else ""


def _plain(key_type: str) -> str:
    return {"ssh-ed25519": "ED25519", "ssh-rsa": "RSA"}.get(
        key_type, "ECDSA" if key_type.startswith("ecdsa") else key_type
    )
