"""Host keys the student has accepted: reading `known_hosts` leniently, judging a key, adding to our own file.

The user's files are read only, line by line: a line we cannot read (a marker, an unknown key type) is left
alone and spoils nothing. labtui writes to its own file alone, whole and at once, readable by its owner alone.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import fnmatch
import hashlib
import hmac
import os
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

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
    """The name under which a host stands in known_hosts."""
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
        salt, told = base64.b64decode(pieces[2]), base64.b64decode(pieces[3])
    except (binascii.Error, ValueError):
        return False
    return hmac.compare_digest(hmac.new(salt, name.encode(), hashlib.sha1).digest(), told)


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
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".known_hosts-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(before + line)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            Path(temporary).unlink()
        raise
