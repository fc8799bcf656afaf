"""The one key: files of every kind, passphrases, the agent, certificates and their end."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from labtui.cluster.keys import certificate_end, choose_key, within
from labtui.cluster.target import Endpoint
from labtui.domain.errors import LoginRefused
from tests.cluster.prompting import Person
from tests.openssh import keygen, openssh


def make(path: Path, passphrase: str = "", kind: str = "ed25519", *more: str) -> Path:
    keygen("-q", "-t", kind, "-N", passphrase, "-f", path, *more)
    return path


def at(
    *paths: Path, named: bool = True, agent: str = "none", certificates: tuple[Path, ...] = ()
) -> Endpoint:
    return Endpoint(
        alias="h", host="h", port=22, user="me", identity_files=paths, identity_named=named, agent=agent,
        certificate_files=certificates,
    )  # fmt: skip


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[str]:
    """A real ssh-agent with a socket of its own."""
    socket = str(tmp_path / "agent.sock")
    process = subprocess.Popen([openssh("ssh-agent"), "-D", "-a", socket], stdout=subprocess.DEVNULL)
    try:
        while not Path(socket).exists():
            assert process.poll() is None
        yield socket
    finally:
        process.terminate()
        process.wait()


def load(agent: str, path: Path) -> None:
    subprocess.run(
        [openssh("ssh-add"), "-q", str(path)],
        check=True,
        env=os.environ | {"SSH_AUTH_SOCK": agent},
        capture_output=True,
    )


@pytest.mark.parametrize(
    ("kind", "more"),
    [("ed25519", ()), ("rsa", ("-b", "2048")), ("ecdsa", ()), ("rsa", ("-b", "2048", "-m", "PEM"))],
)  # fmt: skip
def test_keys_of_every_kind(tmp_path: Path, kind: str, more: tuple[str, ...]) -> None:
    path = make(tmp_path / "key", "", kind, *more)
    chosen = choose_key(at(path), Person())
    assert chosen is not None and chosen.origin == str(path)
    locked = make(tmp_path / "locked", "open sesame", kind, *more)
    person = Person(passphrase="open sesame")
    assert choose_key(at(locked), person) is not None
    assert person.kinds == ["passphrase"] and str(locked) in person.questions[0].text


def test_a_mistyped_passphrase_may_be_corrected_but_not_for_ever(tmp_path: Path) -> None:
    path = make(tmp_path / "key", "right one")
    assert choose_key(at(path), Person(passphrase=["wrong", "right one"])) is not None
    person = Person(passphrase=["a", "b", "c", "right one"])
    with pytest.raises(LoginRefused, match="does not unlock"):
        choose_key(at(path), person)
    assert len(person.questions) == 3
    with pytest.raises(LoginRefused, match="protected by a passphrase"):
        choose_key(at(path), Person())


@pytest.mark.parametrize(
    ("content", "hint"),
    [
        (b"PuTTY-User-Key-File-3: ssh-ed25519\n", "PuTTYgen"),
        (b"ssh-ed25519 AAAA me@here\n", "public half"),
        (b"-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n", "damaged"),
        (b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "ssh-keygen -p -f"),
        (b"", "public half"),
    ],
)
def test_files_that_are_no_key(tmp_path: Path, content: bytes, hint: str) -> None:
    path = tmp_path / "key"
    path.write_bytes(content)
    with pytest.raises(LoginRefused, match="cannot be read") as caught:
        choose_key(at(path), Person())
    assert hint in caught.value.hint


def test_a_named_key_has_to_be_there(tmp_path: Path) -> None:
    with pytest.raises(LoginRefused, match="does not exist"):
        choose_key(at(tmp_path / "gone"), Person())
    assert choose_key(at(tmp_path / "gone", named=False), Person()) is None


def test_one_of_the_defaults_is_offered_and_not_all(tmp_path: Path) -> None:
    first, second = make(tmp_path / "id_ed25519"), make(tmp_path / "id_rsa", "", "rsa")
    chosen = choose_key(at(tmp_path / "gone", first, second, named=False), Person())
    assert chosen is not None and chosen.origin == str(first)


def test_the_agent_signs_for_a_key_that_is_locked_on_disk(tmp_path: Path, agent: str) -> None:
    path = make(tmp_path / "key")
    load(agent, path)
    keygen("-q", "-p", "-N", "locked now", "-f", path)
    person = Person()
    chosen = choose_key(at(path, agent=agent), person)
    assert chosen is not None and "agent" in chosen.origin and not person.questions


def test_the_public_half_names_a_key_of_the_agent(tmp_path: Path, agent: str) -> None:
    path = make(tmp_path / "key")
    load(agent, path)
    path.unlink()
    for name in (path, tmp_path / "key.pub"):
        chosen = choose_key(at(name, agent=agent), Person())
        assert chosen is not None and "agent" in chosen.origin
    with pytest.raises(LoginRefused, match="public key"):
        choose_key(at(tmp_path / "key.pub"), Person())


def test_an_agent_full_of_keys_is_not_emptied_on_the_server(tmp_path: Path, agent: str) -> None:
    load(agent, make(tmp_path / "one"))
    lonely = choose_key(at(named=False, agent=agent), Person())
    assert lonely is not None and lonely.origin == "the agent's key"
    load(agent, make(tmp_path / "two"))
    assert choose_key(at(named=False, agent=agent), Person()) is None
    wanted = choose_key(at(tmp_path / "two", agent=agent), Person())
    assert wanted is not None and "two" in wanted.origin


def test_an_agent_that_is_gone_is_no_agent(tmp_path: Path) -> None:
    assert choose_key(at(named=False, agent=str(tmp_path / "nothing.sock")), Person()) is None


# --------------------------------------------------------------------------- certificates


def certify(tmp_path: Path, key: Path, validity: str) -> Path:
    authority = tmp_path / "ca"
    if not authority.exists():
        make(authority)
    keygen("-q", "-s", authority, "-I", "me", "-n", "me", "-V", validity, f"{key}.pub")
    return key.with_name(key.name + "-cert.pub")


def test_a_certificate_beside_the_key_is_used_and_its_end_told(tmp_path: Path) -> None:
    path = make(tmp_path / "key")
    certificate = certify(tmp_path, path, "-1h:+5h")
    chosen = choose_key(at(path), Person())
    until = certificate_end(certificate)
    assert chosen is not None and until is not None and "with the certificate" in chosen.origin
    assert timedelta(hours=4) < until - datetime.now(UTC) < timedelta(hours=6)
    assert chosen.key.public_blob is not None
    elsewhere = certificate.rename(tmp_path / "elsewhere-cert.pub")
    named = choose_key(at(path, certificates=(elsewhere,)), Person())
    assert named is not None and str(elsewhere) in named.origin


def test_a_certificate_that_expired_is_said_before_anything_is_sent(tmp_path: Path) -> None:
    path = make(tmp_path / "key")
    certify(tmp_path, path, "-5h:-1h")
    with pytest.raises(LoginRefused, match="expired on"):
        choose_key(at(path), Person())


def test_a_certificate_for_ever(tmp_path: Path) -> None:
    path = make(tmp_path / "key")
    certificate = certify(tmp_path, path, "always:forever")
    assert certificate_end(certificate) is None
    assert choose_key(at(path), Person()) is not None


def test_a_certificate_of_another_key_is_passed_over(tmp_path: Path) -> None:
    path, other = make(tmp_path / "key"), make(tmp_path / "other")
    foreign = certify(tmp_path, other, "+1h")
    chosen = choose_key(at(path, certificates=(foreign,)), Person())
    assert chosen is not None and chosen.key.public_blob is None


def test_work_without_a_limit_gets_one() -> None:
    import threading

    assert within(5, lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        within(5, lambda: 1 // 0)
    never = threading.Event()
    with pytest.raises(TimeoutError):
        within(0.05, never.wait)
    never.set()
