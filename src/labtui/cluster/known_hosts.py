"""Host keys: what the files of known hosts say of a server's key, and the one question about an unknown one.

``ssh-keygen -F`` finds the lines that speak of a host: hashed names, patterns and markers are its business. A changed
key is refused without a question. An unknown one is shown by its SHA-256 fingerprint and asked about once.
"""

import base64
import binascii
import hashlib
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from labtui.cluster.local_files import write_atomic
from labtui.cluster.target import Endpoint, LoginQuestion, Prompter, failure

_LIMIT_S = 20.0


class KnownKey(msgspec.Struct, frozen=True):
    """A key that a file holds for a host; `source` names file and line."""

    key_type: str
    key: bytes
    source: str
    revoked: bool = False


def fingerprint(key: bytes) -> str:
    """``SHA256:...`` of a public key blob, as `ssh-keygen -l` prints it."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(key).digest()).decode().rstrip("=")


def host_name(host: str, port: int) -> str:
    return host if port == 22 else f"[{host}]:{port}"


def known_name(endpoint: Endpoint) -> str:
    """What known_hosts calls a server: its alias, or host and port."""
    return endpoint.host_key_alias or host_name(endpoint.host, endpoint.port)


def known_keys(endpoint: Endpoint, own_file: Path) -> tuple[KnownKey, ...]:
    """The keys of a host in the user's files and ours."""
    files = (path for path in (*endpoint.known_hosts, own_file) if path.is_file())
    return tuple(key for path in files for key in _keys(_found(path, known_name(endpoint)), path))


def _found(path: Path, name: str) -> str:
    """The lines that speak of `name`, each below a remark with its number."""
    program = shutil.which("ssh-keygen")
    try:
        if program is not None:
            words = [program, "-F", name, "-f", str(path)]
            done = subprocess.run(
                words, capture_output=True, timeout=_LIMIT_S, check=False, stdin=subprocess.DEVNULL
            )
            return done.stdout.decode("utf-8", "replace")
        text = path.read_text(encoding="utf-8", errors="replace")
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise failure("unreadable", path=path, text=problem) from None
    # Without OpenSSH's programs: plain names, as labtui writes them.
    lines = enumerate(text.splitlines(), 1)
    return "\n".join(f"# line {n}\n{line}" for n, line in lines if name in line.partition(" ")[0].split(","))


def _keys(text: str, path: Path) -> Iterator[KnownKey]:
    number = ""
    for line in text.splitlines():
        words = line.split()
        if line.startswith("#"):
            match = re.search(r"line ([0-9]+)", line)
            number = match[1] if match else ""
            continue
        marker = words.pop(0) if words and words[0].startswith("@") else ""
        if len(words) < 3 or marker not in ("", "@revoked"):  # an authority's line is no key of the host
            continue
        try:
            key = base64.b64decode(words[2], validate=True)
        except (binascii.Error, ValueError):
            continue
        yield KnownKey(words[1], key, f"{path}:{number}", revoked=bool(marker))


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


def preferred_types(known: Sequence[KnownKey], offered: tuple[str, ...]) -> tuple[str, ...]:
    """`offered` host key algorithms with those first of which we know a key, so that it can be compared."""
    wanted: list[str] = []
    for each in known:
        if not each.revoked:
            wanted += _RSA if each.key_type == "ssh-rsa" else (each.key_type,)
    first = list(dict.fromkeys(name for name in wanted if name in offered))
    return (*first, *(name for name in offered if name not in first))


def check_host_key(
    endpoint: Endpoint,
    key_type: str,
    key: bytes,
    *,
    known: Sequence[KnownKey],
    own_file: Path,
    prompter: Prompter,
) -> None:
    """Return when the key may be trusted.

    A host that is known with another key, of whatever type, has *changed*: the server was asked for the type that is
    known, so another type means another server or a new installation.

    Raises:
        HostKeyProblem: it has changed, is revoked, is not the pinned one, or was not accepted.
    """
    shown = fingerprint(key)
    host, name = endpoint.host, known_name(endpoint)
    revoked = next((each for each in known if each.revoked and each.key == key), None)
    if revoked is not None:
        raise failure("revoked", host=host, source=revoked.source)
    if endpoint.host_key:
        if not same_fingerprint(endpoint.host_key, shown):
            raise failure("pinned", host=host, shown=shown, pin=endpoint.host_key)
        return
    good = [each for each in known if not each.revoked]
    if any(each.key == key for each in good):
        return
    if good:
        raise failure("changed", host=host, shown=shown, source=good[0].source, name=name)
    _ask(endpoint, key_type, shown, prompter)
    try:
        add_host(own_file, name, key_type, key)
    except OSError as problem:
        raise failure("not-kept", path=own_file, text=problem.strerror, shown=shown) from None


def same_fingerprint(expected: str, shown: str) -> bool:
    """Compare ``SHA256:...`` texts; padding and a missing prefix do not matter."""
    return expected.strip().removeprefix("SHA256:").rstrip("=") == shown.removeprefix("SHA256:")


def _ask(endpoint: Endpoint, key_type: str, shown: str, prompter: Prompter) -> None:
    name = host_name(endpoint.host, endpoint.port)
    published = _published(endpoint, shown)
    text = f"{name} is not in known_hosts. Its {key_type} key is {shown}. {published}Is this fingerprint correct?"
    answer = prompter.ask(
        LoginQuestion(kind="host-key", text=text, host=endpoint.host, echo=True, fingerprint=shown)
    )
    if answer is None or answer.strip().lower() not in ("yes", "y", shown.lower()):
        raise failure("not-accepted", host=endpoint.host, shown=shown)


def _published(endpoint: Endpoint, shown: str) -> str:
    """What the site publishes about this host's keys, compared with the one shown.

    Raises:
        HostKeyProblem: the site publishes others.
    """
    if any(same_fingerprint(known, shown) for known in endpoint.published):
        return f"The site publishes the same fingerprint ({endpoint.published_at}). "
    if endpoint.published:
        raise failure("not-published", host=endpoint.host, shown=shown, published_at=endpoint.published_at)
    return f"{endpoint.published_at} " if endpoint.published_at else ""
