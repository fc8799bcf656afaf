"""The one key: files of every kind, passphrases, the agent, certificates and their end."""

import base64
import os
import shutil
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from labtui.cluster.dial import add_host, check_host_key, fingerprint, known_keys, preferred_types
from labtui.cluster.keys import certificate_end, choose_key, within
from labtui.cluster.login import Login, RememberedLogins
from labtui.cluster.target import Endpoint, Secret
from labtui.doctor.examine import _check_key
from labtui.domain.errors import HostKeyProblem, LabError, LoginRefused
from tests.cluster.prompting import Person
from tests.openssh import keygen, needs_openssh, openssh


def make(path: Path, passphrase: str = "", kind: str = "ed25519", *more: str) -> Path:
    keygen("-q", "-t", kind, "-N", passphrase, "-f", path, *more)
    return path


def at(*paths: Path, named: bool = True, certificates: tuple[Path, ...] = (), **more: str) -> Endpoint:
    keys = {"identity_files": paths, "identity_configured": named, "certificate_files": certificates}
    return Endpoint(alias="h", host="h", port=22, user="me", **keys, **{"agent": "none", **more})  # type: ignore[arg-type]


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[str]:
    """A real ssh-agent with a socket of its own."""
    socket = str(tmp_path / "agent.sock")
    with subprocess.Popen([openssh("ssh-agent"), "-D", "-a", socket], stdout=subprocess.DEVNULL) as process:
        while not Path(socket).exists():
            assert process.poll() is None
        yield socket
        process.terminate()


def load(agent: str, path: Path) -> None:
    words, environment = [openssh("ssh-add"), "-q", str(path)], os.environ | {"SSH_AUTH_SOCK": agent}
    subprocess.run(words, check=True, env=environment, capture_output=True)


@pytest.mark.parametrize("kind", ["ed25519", "rsa -b 2048", "ecdsa", "rsa -b 2048 -m PEM"])
def test_keys_of_every_kind(tmp_path, kind):
    kind, *more = kind.split()
    path = make(tmp_path / "key", "", kind, *more)
    chosen = choose_key(at(path), Person())
    assert chosen is not None and chosen.origin == str(path)
    keygen("-q", "-p", "-N", "open sesame", "-f", path, *more[2:])
    person = Person(passphrase="open sesame")
    assert choose_key(at(path), person) is not None
    assert person.kinds == ["passphrase"] and str(path) in person.questions[0].text


def test_a_mistyped_passphrase_may_be_corrected_but_not_for_ever(tmp_path):
    path = make(tmp_path / "key", "right one")
    assert choose_key(at(path), Person(passphrase=["wrong", "right one"])) is not None
    person = Person(passphrase=["a", "b", "c", "right one"])
    with pytest.raises(LoginRefused, match="does not unlock"):
        choose_key(at(path), person)
    assert len(person.questions) == 3
    with pytest.raises(LoginRefused, match="protected by a passphrase"):
        choose_key(at(path), Person())


@pytest.mark.parametrize(("content", "hint"), [
    (b"PuTTY-User-Key-File-3: ssh-ed25519\n", "PuTTYgen"),
    (b"ssh-ed25519 AAAA me@here\n", "public half"),
    (b"-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n", "damaged"),
    (b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "ssh-keygen -p -f"),
    (b"", "public half"),
])  # fmt: skip
def test_files_that_are_no_key(tmp_path, content, hint):
    path = tmp_path / "key"
    path.write_bytes(content)
    with pytest.raises(LoginRefused, match="cannot be read") as caught:
        choose_key(at(path), Person())
    assert hint in caught.value.hint


def test_one_of_the_defaults_is_offered_and_a_named_key_has_to_be_there(tmp_path):
    gone, first, second = tmp_path / "gone", make(tmp_path / "id_ed25519"), make(tmp_path / "id_ecdsa")
    chosen = choose_key(at(gone, first, second, named=False), Person())
    assert chosen is not None and chosen.origin == str(first)
    assert choose_key(at(gone, named=False), Person()) is None
    with pytest.raises(LoginRefused, match="does not exist"):
        choose_key(at(gone), Person())


def test_the_agent_signs_for_a_key_that_is_locked_on_disk_or_only_named_there(tmp_path, agent):
    path = make(tmp_path / "key")
    load(agent, path)
    keygen("-q", "-p", "-N", "locked now", "-f", path)
    for name in (path, path, tmp_path / "key.pub"):
        chosen = choose_key(at(name, agent=agent), person := Person())
        assert chosen is not None and "agent" in chosen.origin and not person.questions
        assert _check_key(at(name, agent=agent)).status == "ok"
        path.unlink(missing_ok=True)
    with pytest.raises(LoginRefused, match="public key"):
        choose_key(at(tmp_path / "key.pub"), Person())


def test_an_agent_full_of_keys_is_not_emptied_on_the_server(tmp_path, agent):
    assert choose_key(at(named=False, agent=str(tmp_path / "nothing.sock")), Person()) is None
    load(agent, make(tmp_path / "one"))
    lonely = choose_key(at(named=False, agent=agent), Person())
    assert lonely is not None and lonely.origin == "the agent's key"
    load(agent, make(tmp_path / "two"))
    assert choose_key(at(named=False, agent=agent), Person()) is None
    wanted = choose_key(at(tmp_path / "two", agent=agent), Person())
    assert wanted is not None and "two" in wanted.origin


def certify(tmp_path: Path, key: Path, validity: str) -> Path:
    authority = tmp_path / "ca"
    if not authority.exists():
        make(authority)
    keygen("-q", "-s", authority, "-I", "me", "-n", "me", "-V", validity, f"{key}.pub")
    return key.with_name(key.name + "-cert.pub")


def test_a_certificate_beside_the_key_is_used_and_its_end_told(tmp_path):
    path = make(tmp_path / "key")
    certificate = certify(tmp_path, path, "-1h:+5h")
    chosen = choose_key(at(path), Person())
    until = certificate_end(certificate)
    assert chosen is not None and until is not None and "with the certificate" in chosen.origin
    assert timedelta(hours=4) < until - datetime.now(UTC) < timedelta(hours=6)
    elsewhere = certificate.rename(tmp_path / "elsewhere-cert.pub")
    named = choose_key(at(path, certificates=(elsewhere,)), Person())
    assert named is not None and str(elsewhere) in named.origin


def test_an_expired_certificate_is_said_before_anything_is_sent_and_one_of_another_key_passed_over(tmp_path):
    path = make(tmp_path / "key")
    certify(tmp_path, path, "-5h:-1h")
    with pytest.raises(LoginRefused, match="expired on"):
        choose_key(at(path), Person())
    assert certificate_end(certify(tmp_path, path, "always:forever")) is None
    assert choose_key(at(path), Person()) is not None
    foreign = certify(tmp_path, make(tmp_path / "other"), "+1h")
    chosen = choose_key(at(make(tmp_path / "bare"), certificates=(foreign,)), Person())
    assert chosen is not None and chosen.key.public_blob is None
    told = _check_key(at(path, certificates=(foreign,)))
    assert told.status == "ok" and "/key-cert.pub is there" in told.sentence


def test_work_without_a_limit_gets_one():
    assert within(240, lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        within(240, lambda: 1 // 0)
    never = threading.Event()
    with pytest.raises(TimeoutError):
        within(0.05, never.wait)
    never.set()


def test_a_kept_password_is_given_once_also_after_a_code():
    person = Person(code="123", password="typed")
    memory = RememberedLogins(passwords={"me@h": Secret("kept")})
    login = Login(SimpleNamespace(), at(), person, memory)  # type: ignore[arg-type]
    assert login._answer("", "", [("Code:", True), ("Password:", False)]) == ["123", "kept"]
    assert login._answer("", "", [("Password:", False)]) == ["typed"]


KEY = "AAAAC3NzaC1lZDI1NTE5AAAAIIA2yFI0X0VQO0QbYpVX0nMWCm7rmTjRdXh0uR9c9Wcp"
OTHER = "AAAAC3NzaC1lZDI1NTE5AAAAIGb9Lr2tQ0v1Ck0GqjyJ9A6hQq8r0c8o3V7y7mQ5m4Xk"
blob = base64.b64decode


def check(
    tmp_path: Path, person: Person | None = None, key: str = KEY, lines: str = "", **endpoint: object
) -> None:
    """Check a key against the user's file with these lines."""
    (tmp_path / "known").write_text(lines)
    values = {"host": "h", "port": 2222} | endpoint
    values |= {"known_hosts": (tmp_path / "known",), "own_known_hosts": tmp_path / "kh"}
    here = Endpoint(alias="h", user="me", **values)  # type: ignore[arg-type]
    check_host_key(here, "ssh-ed25519", blob(key), known_keys(here), person or Person())


MARKED = (
    f"# remark\n\n@cert-authority *.example ssh-ed25519 {OTHER}\n@revoked * ssh-ed25519 {OTHER}\n"
    "@strange a b c\nonly two\nh ssh-future %%%not-base64%%%\nh ssh-dss AAAAB3NzaC1kc3M= old\n"
    f"h,h2 ssh-ed25519 {KEY} with a comment\n"
)


@pytest.mark.parametrize(("lines", "host", "port", "key", "says"), [
    (f"h ssh-ed25519 {KEY}", "h", 22, KEY, "known"),
    (f"h ssh-ed25519 {KEY}", "h", 22, OTHER, "has changed"),
    (f"h ssh-ed25519 {KEY}", "elsewhere", 22, KEY, "was not accepted"),
    (f"h ssh-ed25519 {KEY}", "h", 2222, KEY, "was not accepted"),
    (f"h ssh-ed25519 {KEY}", "h", 2222, OTHER, "was not accepted"),
    (f"[h]:2222 ssh-ed25519 {KEY}", "h", 22, KEY, "was not accepted"),
    *((MARKED, "h2", 22, KEY, "known"), (MARKED, "h2", 22, OTHER, "revoked")),
    (MARKED, "new.example", 22, OTHER, "revoked"),
    (MARKED, "new.example", 22, KEY, "was not accepted"),  # an authority's line is no key of the host
    (f"*.bsc.es,!a2.bsc.es ssh-ed25519 {KEY}", "A1.bsc.es", 22, KEY, "known"),
    (f"*.bsc.es,!a2.bsc.es ssh-ed25519 {KEY}", "a2.bsc.es", 22, KEY, "was not accepted"),
    ("\x00\xff|1|broken|=\n|1|???|??? ssh-ed25519 x", "h", 22, KEY, "was not accepted"),
])  # fmt: skip
def test_what_known_hosts_says(tmp_path, lines, host, port, key, says):
    openssh("ssh-keygen")
    with nullcontext() if says == "known" else pytest.raises(HostKeyProblem, match=says):
        check(tmp_path, key=key, lines=lines, host=host, port=port)


def test_hashed_names_and_fingerprints_agree_with_ssh_keygen(tmp_path):
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


def test_without_ssh_keygen_our_own_lines_still_count(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: sys.executable)  # refuses -F, as ssh-keygen a bad file
    with pytest.raises(LabError, match="cannot be read"):
        check(tmp_path)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(HostKeyProblem, match="revoked"):
        check(tmp_path, lines=f"@revoked\t[h]:2222\tssh-ed25519 {KEY}")
    check(tmp_path, Person(host_key="yes"))
    check(tmp_path)
    with pytest.raises(HostKeyProblem, match="has changed"):
        check(tmp_path, key=OTHER)


def test_our_own_file_is_private_and_whole(tmp_path):
    path = tmp_path / "new" / "known_hosts"
    add_host(path, "a", "ssh-ed25519", blob(KEY))
    path.write_text(path.read_text().rstrip("\n"))  # someone's editor took the last newline
    add_host(path, "[b]:2222", "ssh-ed25519", blob(OTHER))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [line.split()[0] for line in path.read_text().splitlines()] == ["a", "[b]:2222"]
    assert list(path.parent.iterdir()) == [path]


def test_the_server_is_asked_for_a_type_we_know(tmp_path):
    offered = ("ssh-ed25519", "ecdsa-sha2-nistp256", "rsa-sha2-512", "rsa-sha2-256")
    (tmp_path / "known").write_text("h ssh-rsa AAAAB3NzaC1yc2E=\n")
    here = Endpoint(alias="h", host="h", port=22, user="me", known_hosts=(tmp_path / "known",))
    assert preferred_types(known_keys(here), offered)[:2] == ("rsa-sha2-512", "rsa-sha2-256")
    assert preferred_types((), offered) == offered


def test_an_unknown_key_is_asked_about_once_and_kept_where_that_can_be_written(tmp_path):
    person = Person(host_key="yes")
    for answer in ("no", "", "y", fingerprint(blob(KEY)).lower()):
        with pytest.raises(HostKeyProblem, match="was not accepted"):
            check(tmp_path, Person(host_key=answer))
        assert not (tmp_path / "kh").exists()
    check(tmp_path, person)
    assert fingerprint(blob(KEY)) == person.questions[0].fingerprint in person.questions[0].text
    check(tmp_path, person)
    assert len(person.questions) == 1
    (tmp_path / "kh").unlink()
    (tmp_path / "kh").mkdir()
    with pytest.raises(HostKeyProblem, match="cannot be kept"):
        check(tmp_path, person)


@needs_openssh
def test_a_pin_decides_where_no_other_key_is_known_and_this_one_is_not_revoked(tmp_path):
    pin = fingerprint(blob(KEY))
    for written in (pin, f" {pin}=", pin.removeprefix("SHA256:")):
        check(tmp_path, Person(), host_key=written)
    with pytest.raises(HostKeyProblem, match="settings pin"):
        check(tmp_path, Person(host_key="yes"), host_key=fingerprint(blob(OTHER)))
    with pytest.raises(HostKeyProblem, match="revoked"):
        check(tmp_path, Person(), lines=f"@revoked * ssh-ed25519 {KEY}", host_key=pin)


def test_a_host_key_alias_is_the_name_that_is_known(tmp_path):
    person = Person(host_key="yes")
    check(tmp_path, person, host_key_alias="mn5", lines=f"[h]:2222 ssh-ed25519 {OTHER}")
    assert (tmp_path / "kh").read_text().startswith("mn5 ssh-ed25519 ")
    check(tmp_path, person, host_key_alias="mn5")
    assert len(person.questions) == 1


@pytest.mark.parametrize(("published", "source", "words"), [
    ((KEY,), "the site's page", "publishes the same fingerprint"),
    *(((), "no page gives them", "no page gives them"), ((), "", "Is this fingerprint correct?")),
])  # fmt: skip
def test_the_question_says_what_the_site_publishes(tmp_path, published, source, words):
    person = Person(host_key="yes")
    check(tmp_path, person, published_at=source, published=tuple(fingerprint(blob(key)) for key in published))
    assert words in person.questions[0].text


def test_a_key_that_the_site_does_not_publish_is_never_asked_about(tmp_path):
    person = Person(host_key="yes")
    with pytest.raises(HostKeyProblem, match="none of those its site publishes"):
        check(tmp_path, person, published=(fingerprint(blob(OTHER)),))
    assert not person.questions and not (tmp_path / "kh").exists()
