"""A key instead of a password, on a real OpenSSH: made, sent once, tried; nothing secret is kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from labtui.cluster.target import Overrides
from labtui.doctor.setup import default_key, make_key, public_half, set_up_key
from labtui.domain.errors import LoginRefused, UsageError
from labtui.domain.profile import Profile
from tests.cluster.prompting import Person
from tests.real_cluster import Cluster, Student

PROFILE = Profile(id="p", title="p", login_hosts=("127.0.0.1",))


@pytest.fixture
def remote_ssh(cluster: Cluster, student: Student) -> Iterator[Path]:
    """The student's ~/.ssh on the cluster, which is not there before and after."""
    cluster.as_student("rm -rf ~/.ssh")
    yield cluster.outside(f"{student.home}/.ssh")
    cluster.as_student("rm -rf ~/.ssh")


def overrides(student: Student, tmp_path: Path) -> Overrides:
    config = tmp_path / "config"
    config.write_text("Host *\n  IdentityAgent none\n  IdentityFile none\n")
    return Overrides(
        port=student.port, user=student.user, host_key=student.host_key, config_file=config,
        known_hosts=(), own_known_hosts=tmp_path / "known_hosts",
    )  # fmt: skip


@pytest.mark.cluster
def test_made_sent_and_tried(student: Student, remote_ssh: Path, tmp_path: Path) -> None:
    path = tmp_path / "home/.ssh/id_ed25519"
    person = Person(password=student.password, passphrase="open sesame")
    done = set_up_key(PROFILE, overrides(student, tmp_path), person, path, "open sesame")
    assert done.made and done.sent and "publickey" in done.login
    assert path.stat().st_mode & 0o777 == 0o600
    listed = (remote_ssh / "authorized_keys").read_text()
    assert listed == public_half(path).read_text()
    assert (remote_ssh / "authorized_keys").stat().st_mode & 0o077 == 0
    kept = "".join(file.read_text() for file in tmp_path.rglob("*") if file.is_file())
    assert student.password not in kept and "open sesame" not in kept
    again = set_up_key(PROFILE, overrides(student, tmp_path), person, path)
    assert not again.made and not again.sent
    assert (remote_ssh / "authorized_keys").read_text() == listed, "a second time adds nothing"


@pytest.mark.cluster
def test_the_lines_that_are_there_stay(
    student: Student, cluster: Cluster, remote_ssh: Path, tmp_path: Path
) -> None:
    cluster.as_student("mkdir -m 700 ~/.ssh; printf 'ssh-ed25519 AAAA other' > ~/.ssh/authorized_keys")
    done = set_up_key(
        PROFILE, overrides(student, tmp_path), Person(password=student.password), tmp_path / "key", ""
    )
    first, second = (remote_ssh / "authorized_keys").read_text().splitlines()
    assert first == "ssh-ed25519 AAAA other" and done.sent
    assert second == public_half(done.path).read_text().strip()


@pytest.mark.cluster
def test_a_wrong_password_sends_nothing(student: Student, remote_ssh: Path, tmp_path: Path) -> None:
    with pytest.raises(LoginRefused) as caught:
        set_up_key(PROFILE, overrides(student, tmp_path), Person(password="wrong"), tmp_path / "key", "")
    assert "password" in caught.value.sentence
    assert not remote_ssh.exists()


@pytest.mark.cluster
def test_a_home_that_takes_no_key_is_named(
    student: Student, cluster: Cluster, remote_ssh: Path, tmp_path: Path
) -> None:
    cluster.as_student("mkdir -m 700 ~/.ssh; mkdir ~/.ssh/authorized_keys")
    with pytest.raises(Exception, match="could not be put on the cluster"):
        set_up_key(
            PROFILE, overrides(student, tmp_path), Person(password=student.password), tmp_path / "key", ""
        )


def test_files_that_are_there_are_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "id_ed25519"
    make_key(path, "", "me@here")
    before = path.read_bytes()
    with pytest.raises(UsageError, match="already exists"):
        make_key(path, "", "me@here")
    assert path.read_bytes() == before
    assert default_key(tmp_path) == path
    assert default_key(tmp_path / "empty") == tmp_path / "empty/id_ed25519"
