"""The host key question: known, unknown, changed, revoked, pinned.

A changed key is refused without a question. An unknown one is shown by its SHA-256 fingerprint and asked
about once.
"""

from __future__ import annotations

from pathlib import Path

from labtui.cluster.known_hosts import (
    HostLine,
    add_host,
    fingerprint,
    host_name,
    judge,
    known_types,
    read_known_hosts,
)
from labtui.cluster.prompts import Prompter, Question
from labtui.cluster.target import Endpoint
from labtui.errors import HostKeyProblem

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
                f"{host} shows the key {shown}, but the settings ask for {endpoint.host_key}.",
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


def same_fingerprint(told: str, shown: str) -> bool:
    """Compare ``SHA256:...`` texts; padding and a missing prefix do not matter."""
    return told.strip().removeprefix("SHA256:").rstrip("=") == shown.removeprefix("SHA256:")


def _ask(endpoint: Endpoint, key_type: str, shown: str, prompter: Prompter) -> None:
    name = host_name(endpoint.host, endpoint.port)
    text = f"{name} is new here. It shows the {_plain(key_type)} key {shown}. Is that the right one?"
    answer = prompter.ask(
        Question(kind="host-key", text=text, host=endpoint.host, echo=True, fingerprint=shown)
    )
    if answer is None or answer.strip().lower() not in ("yes", "y", shown.lower()):
        raise HostKeyProblem(
            f"The key of {endpoint.host} ({shown}) is unknown and was not accepted.",
            "Compare it with the fingerprint your site publishes, then accept it, "
            f"or pin it with --host-key {shown}.",
        )


def _plain(key_type: str) -> str:
    return {"ssh-ed25519": "ED25519", "ssh-rsa": "RSA"}.get(
        key_type, "ECDSA" if key_type.startswith("ecdsa") else key_type
    )
