"""known_hosts as OpenSSH writes it: compared with the real ssh-keygen; lenient where paramiko aborts."""

from __future__ import annotations

import stat
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labtui.cluster.known_hosts import (
    add_host,
    check_host_key,
    fingerprint,
    judge,
    known_types,
    matches_host,
    parse_known_hosts,
    preferred_types,
    read_known_hosts,
    same_fingerprint,
)
from labtui.cluster.target import Endpoint
from labtui.domain.errors import HostKeyProblem
from tests.cluster.prompting import Person
from tests.openssh import openssh

KEY = "AAAAC3NzaC1lZDI1NTE5AAAAIIA2yFI0X0VQO0QbYpVX0nMWCm7rmTjRdXh0uR9c9Wcp"
OTHER = "AAAAC3NzaC1lZDI1NTE5AAAAIGb9Lr2tQ0v1Ck0GqjyJ9A6hQq8r0c8o3V7y7mQ5m4Xk"


def blob(text: str) -> bytes:
    (line,) = parse_known_hosts(f"h ssh-ed25519 {text}")
    return line.key


def keygen(*arguments: str | Path) -> str:
    return subprocess.run(
        [openssh("ssh-keygen"), *map(str, arguments)], capture_output=True, text=True, check=False
    ).stdout


def test_fingerprints_and_hashed_names_agree_with_ssh_keygen(tmp_path: Path) -> None:
    path = tmp_path / "known_hosts"
    path.write_text(f"login.example ssh-ed25519 {KEY}\n[login.example]:2222 ssh-ed25519 {OTHER}\n")
    assert fingerprint(blob(KEY)) in keygen("-l", "-f", path)
    keygen("-H", "-f", path)
    assert "login.example" not in path.read_text()
    lines = read_known_hosts([path])
    assert judge(lines, "login.example", 22, blob(KEY)).judgement == "known"
    assert judge(lines, "login.example", 2222, blob(OTHER)).judgement == "known"
    assert judge(lines, "login.example", 22, blob(OTHER)).judgement == "changed"
    assert judge(lines, "elsewhere.example", 22, blob(KEY)).judgement == "unknown"


def test_markers_and_broken_lines_spoil_nothing() -> None:
    lines = parse_known_hosts(
        "# remark\n\n@cert-authority *.example ssh-ed25519 " + OTHER + "\n"
        "@revoked * ssh-ed25519 " + OTHER + "\n"
        "@strange a b c\nonly two\nh ssh-future %%%not-base64%%%\nh ssh-dss AAAAB3NzaC1kc3M= old\n"
        f"h,h2 ssh-ed25519 {KEY} with a comment\n"
    )
    assert judge(lines, "h2", 22, blob(KEY)).judgement == "known"
    assert judge(lines, "h2", 22, blob(OTHER)).judgement == "revoked"
    assert judge(lines, "new.example", 22, blob(OTHER)).judgement == "revoked"
    # A certificate authority's line is no key of the host.
    assert judge(lines, "new.example", 22, blob(KEY)).judgement == "unknown"
    assert known_types(lines, "h", 22) == ("ssh-dss", "ssh-ed25519")


@pytest.mark.parametrize(
    ("patterns", "name", "speaks"),
    [
        ("*.bsc.es", "alogin1.bsc.es", True),
        ("*.bsc.es,!alogin2.bsc.es", "alogin2.bsc.es", False),
        ("alogin?.bsc.es", "ALOGIN1.bsc.es", True),
        ("[127.0.0.1]:2222", "[127.0.0.1]:2222", True),
        ("[127.0.0.1]:2222", "127.0.0.1", False),
        ("!a", "a", False),
        ("|1|broken", "a", False),
        ("|1|???|???", "a", False),
    ],
)
def test_patterns(patterns: str, name: str, speaks: bool) -> None:
    assert matches_host(patterns, name) is speaks


def test_the_plain_name_is_good_enough_for_another_port() -> None:
    lines = parse_known_hosts(f"h ssh-ed25519 {KEY}")
    assert judge(lines, "h", 2222, blob(KEY)).judgement == "known"
    assert judge(lines, "h", 2222, blob(OTHER)).judgement == "unknown"


@given(st.text())
def test_no_text_breaks_the_reader(text: str) -> None:
    lines = parse_known_hosts(text)
    judge(lines, "h", 22, b"x")


def test_our_own_file_is_private_and_whole(tmp_path: Path) -> None:
    path = tmp_path / "new" / "known_hosts"
    add_host(path, "a", "ssh-ed25519", blob(KEY))
    path.write_text(path.read_text().rstrip("\n"))  # someone's editor took the last newline
    add_host(path, "[b]:2222", "ssh-ed25519", blob(OTHER))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [line.patterns for line in read_known_hosts([path])] == ["a", "[b]:2222"]
    assert list(path.parent.iterdir()) == [path]


def test_the_server_is_asked_for_a_type_we_know() -> None:
    endpoint = Endpoint(alias="h", host="h", port=22, user="me")
    offered = ("ssh-ed25519", "ecdsa-sha2-nistp256", "rsa-sha2-512", "rsa-sha2-256")
    lines = parse_known_hosts("h ssh-rsa AAAAB3NzaC1yc2E=")
    assert preferred_types(lines, endpoint, offered)[:2] == ("rsa-sha2-512", "rsa-sha2-256")
    assert preferred_types((), endpoint, offered) == offered


# --------------------------------------------------------------------------- the question


def check(
    tmp_path: Path, person: Person, key: str = KEY, lines: str = "", pin: str = "", alias: str = ""
) -> None:
    endpoint = Endpoint(alias="h", host="h", port=2222, user="me", host_key=pin, host_key_alias=alias)
    check_host_key(
        endpoint, "ssh-ed25519", blob(key), lines=parse_known_hosts(lines, "kh"), own_file=tmp_path / "kh",
        prompter=person,
    )  # fmt: skip


def test_an_unknown_key_is_asked_about_once_and_kept(tmp_path: Path) -> None:
    person = Person(host_key="yes")
    check(tmp_path, person)
    assert person.questions[0].fingerprint == fingerprint(blob(KEY))
    assert person.questions[0].fingerprint in person.questions[0].text
    check(tmp_path, person, lines=(tmp_path / "kh").read_text())
    assert len(person.questions) == 1


@pytest.mark.parametrize("answer", ["no", "", "maybe"])
def test_anything_but_yes_is_a_no(tmp_path: Path, answer: str) -> None:
    with pytest.raises(HostKeyProblem, match="was not accepted"):
        check(tmp_path, Person(host_key=answer))
    assert not (tmp_path / "kh").exists()


def test_a_changed_key_is_refused_without_a_question(tmp_path: Path) -> None:
    person = Person(host_key="yes")
    with pytest.raises(HostKeyProblem, match="has changed") as caught:
        check(tmp_path, person, lines=f"[h]:2222 ssh-ed25519 {OTHER}")
    assert not person.questions
    assert "kh:1" in caught.value.sentence and "ssh-keygen -R" in caught.value.hint


def test_a_revoked_key_is_refused_even_when_pinned(tmp_path: Path) -> None:
    with pytest.raises(HostKeyProblem, match="revoked"):
        check(tmp_path, Person(), lines=f"@revoked * ssh-ed25519 {KEY}", pin=fingerprint(blob(KEY)))


def test_a_pin_decides_alone(tmp_path: Path) -> None:
    check(tmp_path, Person(), pin=fingerprint(blob(KEY)), lines=f"[h]:2222 ssh-ed25519 {OTHER}")
    with pytest.raises(HostKeyProblem, match="settings pin"):
        check(tmp_path, Person(host_key="yes"), pin=fingerprint(blob(OTHER)))


def test_a_host_key_alias_is_the_name_that_is_known(tmp_path: Path) -> None:
    person = Person(host_key="yes")
    check(tmp_path, person, alias="mn5")
    assert (tmp_path / "kh").read_text().startswith("mn5 ssh-ed25519 ")
    check(tmp_path, person, alias="mn5", lines=(tmp_path / "kh").read_text())
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
    here = Endpoint(
        alias="h", host="h", port=22, user="me", published_at=source,
        published=tuple(fingerprint(blob(key)) for key in published),
    )  # fmt: skip
    check_host_key(here, "ssh-ed25519", blob(KEY), lines=(), own_file=tmp_path / "kh", prompter=person)
    assert words in person.questions[0].text


def test_a_key_that_the_site_does_not_publish_is_never_asked_about(tmp_path: Path) -> None:
    person = Person(host_key="yes")
    here = Endpoint(alias="h", host="h", port=22, user="me", published=(fingerprint(blob(OTHER)),))
    with pytest.raises(HostKeyProblem, match="none of those its site publishes"):
        check_host_key(here, "ssh-ed25519", blob(KEY), lines=(), own_file=tmp_path / "kh", prompter=person)
    assert not person.questions and not (tmp_path / "kh").exists()
