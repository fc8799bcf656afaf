"""Host keys: what known_hosts says by the real ssh-keygen, and the question about an unknown one."""

from __future__ import annotations

import base64
import shutil
import stat
from pathlib import Path

import pytest

from labtui.cluster.known_hosts import (
    add_host,
    check_host_key,
    fingerprint,
    known_keys,
    preferred_types,
    same_fingerprint,
)
from labtui.cluster.target import Endpoint
from labtui.domain.errors import HostKeyProblem
from tests.cluster.prompting import Person
from tests.openssh import keygen, needs_openssh, openssh

KEY = "AAAAC3NzaC1lZDI1NTE5AAAAIIA2yFI0X0VQO0QbYpVX0nMWCm7rmTjRdXh0uR9c9Wcp"
OTHER = "AAAAC3NzaC1lZDI1NTE5AAAAIGb9Lr2tQ0v1Ck0GqjyJ9A6hQq8r0c8o3V7y7mQ5m4Xk"
blob = base64.b64decode


def check(
    tmp_path: Path,
    person: Person | None = None,
    key: str = KEY,
    lines: str = "",
    **endpoint: object,
) -> None:
    """Check a key against the user's file with these lines."""
    (tmp_path / "known").write_text(lines)
    values = {"host": "h", "port": 2222} | endpoint
    here = Endpoint(alias="h", user="me", known_hosts=(tmp_path / "known",), **values)  # type: ignore[arg-type]
    known = known_keys(here, tmp_path / "kh")
    check_host_key(
        here, "ssh-ed25519", blob(key), known=known, own_file=tmp_path / "kh", prompter=person or Person()
    )


MARKED = (
    f"# remark\n\n@cert-authority *.example ssh-ed25519 {OTHER}\n@revoked * ssh-ed25519 {OTHER}\n"
    "@strange a b c\nonly two\nh ssh-future %%%not-base64%%%\nh ssh-dss AAAAB3NzaC1kc3M= old\n"
    f"h,h2 ssh-ed25519 {KEY} with a comment\n"
)


@pytest.mark.parametrize(
    ("lines", "host", "port", "key", "says"),
    [
        (f"h ssh-ed25519 {KEY}", "h", 22, KEY, "known"),
        (f"h ssh-ed25519 {KEY}", "h", 22, OTHER, "has changed"),
        (f"h ssh-ed25519 {KEY}", "elsewhere", 22, KEY, "was not accepted"),
        (f"h ssh-ed25519 {KEY}", "h", 2222, KEY, "was not accepted"),
        (f"h ssh-ed25519 {KEY}", "h", 2222, OTHER, "was not accepted"),
        (f"[h]:2222 ssh-ed25519 {KEY}", "h", 22, KEY, "was not accepted"),
        (MARKED, "h2", 22, KEY, "known"),
        (MARKED, "h2", 22, OTHER, "revoked"),
        (MARKED, "new.example", 22, OTHER, "revoked"),
        (MARKED, "new.example", 22, KEY, "was not accepted"),  # an authority's line is no key of the host
        (f"*.bsc.es,!a2.bsc.es ssh-ed25519 {KEY}", "A1.bsc.es", 22, KEY, "known"),
        (f"*.bsc.es,!a2.bsc.es ssh-ed25519 {KEY}", "a2.bsc.es", 22, KEY, "was not accepted"),
        ("\x00\xff|1|broken|=\n|1|???|??? ssh-ed25519 x", "h", 22, KEY, "was not accepted"),
    ],
)
def test_what_known_hosts_says(tmp_path: Path, lines: str, host: str, port: int, key: str, says: str) -> None:
    openssh("ssh-keygen")
    if says == "known":
        check(tmp_path, key=key, lines=lines, host=host, port=port)
        return
    with pytest.raises(HostKeyProblem, match=says):
        check(tmp_path, key=key, lines=lines, host=host, port=port)


def test_hashed_names_and_fingerprints_agree_with_ssh_keygen(tmp_path: Path) -> None:
    path = tmp_path / "hashed"
    path.write_text(f"login.example ssh-ed25519 {KEY}\n[login.example]:2222 ssh-ed25519 {OTHER}\n")
    assert fingerprint(blob(KEY)) in keygen("-l", "-f", path)
    keygen("-H", "-f", path)
    lines = path.read_text()
    assert "login.example" not in lines
    check(tmp_path, lines=lines, host="login.example", port=22)
    check(tmp_path, key=OTHER, lines=lines, host="login.example", port=2222)
    with pytest.raises(HostKeyProblem, match="has changed"):
        check(tmp_path, key=OTHER, lines=lines, host="login.example", port=22)


def test_without_ssh_keygen_our_own_lines_still_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    check(tmp_path, Person(host_key="yes"))
    check(tmp_path)
    with pytest.raises(HostKeyProblem, match="has changed"):
        check(tmp_path, key=OTHER)


def test_our_own_file_is_private_and_whole(tmp_path: Path) -> None:
    path = tmp_path / "new" / "known_hosts"
    add_host(path, "a", "ssh-ed25519", blob(KEY))
    path.write_text(path.read_text().rstrip("\n"))  # someone's editor took the last newline
    add_host(path, "[b]:2222", "ssh-ed25519", blob(OTHER))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [line.split()[0] for line in path.read_text().splitlines()] == ["a", "[b]:2222"]
    assert list(path.parent.iterdir()) == [path]


def test_the_server_is_asked_for_a_type_we_know(tmp_path: Path) -> None:
    offered = ("ssh-ed25519", "ecdsa-sha2-nistp256", "rsa-sha2-512", "rsa-sha2-256")
    (tmp_path / "known").write_text("h ssh-rsa AAAAB3NzaC1yc2E=\n")
    here = Endpoint(alias="h", host="h", port=22, user="me", known_hosts=(tmp_path / "known",))
    known = known_keys(here, tmp_path / "kh")
    assert preferred_types(known, offered)[:2] == ("rsa-sha2-512", "rsa-sha2-256")
    assert preferred_types((), offered) == offered


# --------------------------------------------------------------------------- the question


def test_an_unknown_key_is_asked_about_once_and_kept(tmp_path: Path) -> None:
    person = Person(host_key="yes")
    check(tmp_path, person)
    assert person.questions[0].fingerprint == fingerprint(blob(KEY))
    assert person.questions[0].fingerprint in person.questions[0].text
    check(tmp_path, person)
    assert len(person.questions) == 1


@pytest.mark.parametrize("answer", ["no", "", "maybe"])
def test_anything_but_yes_is_a_no(tmp_path: Path, answer: str) -> None:
    with pytest.raises(HostKeyProblem, match="was not accepted"):
        check(tmp_path, Person(host_key=answer))
    assert not (tmp_path / "kh").exists()


@needs_openssh
def test_a_revoked_key_is_refused_even_when_pinned(tmp_path: Path) -> None:
    with pytest.raises(HostKeyProblem, match="revoked"):
        check(tmp_path, Person(), lines=f"@revoked * ssh-ed25519 {KEY}", host_key=fingerprint(blob(KEY)))


def test_a_pin_decides_alone(tmp_path: Path) -> None:
    check(tmp_path, Person(), host_key=fingerprint(blob(KEY)), lines=f"[h]:2222 ssh-ed25519 {OTHER}")
    with pytest.raises(HostKeyProblem, match="settings pin"):
        check(tmp_path, Person(host_key="yes"), host_key=fingerprint(blob(OTHER)))


def test_a_host_key_alias_is_the_name_that_is_known(tmp_path: Path) -> None:
    person = Person(host_key="yes")
    check(tmp_path, person, host_key_alias="mn5", lines=f"[h]:2222 ssh-ed25519 {OTHER}")
    assert (tmp_path / "kh").read_text().startswith("mn5 ssh-ed25519 ")
    check(tmp_path, person, host_key_alias="mn5")
    assert len(person.questions) == 1


def test_a_file_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "kh").mkdir()
    with pytest.raises(HostKeyProblem, match="cannot be kept"):
        check(tmp_path, Person(host_key="yes"))


def test_fingerprints_compare_without_ceremony() -> None:
    assert same_fingerprint("SHA256:abc=", "SHA256:abc") and same_fingerprint(" abc", "SHA256:abc")
    assert not same_fingerprint("SHA256:abd", "SHA256:abc")


@pytest.mark.parametrize(
    ("published", "source", "words"),
    [
        ((KEY,), "the site's page", "publishes the same fingerprint"),
        ((), "no page gives them", "no page gives them"),
        ((), "", "Is this fingerprint correct?"),
    ],
)
def test_the_question_says_what_the_site_publishes(
    tmp_path: Path, published: tuple[str, ...], source: str, words: str
) -> None:
    person = Person(host_key="yes")
    check(tmp_path, person, published_at=source, published=tuple(fingerprint(blob(key)) for key in published))
    assert words in person.questions[0].text


def test_a_key_that_the_site_does_not_publish_is_never_asked_about(tmp_path: Path) -> None:
    person = Person(host_key="yes")
    with pytest.raises(HostKeyProblem, match="none of those its site publishes"):
        check(tmp_path, person, published=(fingerprint(blob(OTHER)),))
    assert not person.questions and not (tmp_path / "kh").exists()
