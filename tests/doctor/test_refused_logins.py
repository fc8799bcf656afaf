"""What a real OpenSSH with a real PAM says when it lets nobody in, and what the doctor makes of it."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from labtui.cluster.login import refusal_in
from labtui.cluster.target import Endpoint, Overrides
from labtui.doctor.checks import check_refusal
from labtui.doctor.setup import KeySetup, default_key, make_key, public_half, set_up_key
from labtui.domain.errors import CannotConnect, LoginRefused, UsageError
from labtui.domain.profile import Profile
from tests.cluster.prompting import Person, connection
from tests.doctor.test_doctor import doctor_checks
from tests.real_cluster import Cluster, Student

HERE = Endpoint(alias="h", host="h", port=22, user="me")
SITE = Profile(id="p", title="p", login_hosts=("h",), data_hosts=("dt1",), password_host="dt1", support="h@x")


def problems(student: Student, capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, str]]:
    _, checks = doctor_checks(capsys, student, port=student.pam_port)
    return {key: check for key, check in checks.items() if check["status"] == "problem"}


TROUBLES: dict[str, tuple[Callable[[Cluster], None], str]] = {
    "account-expired": (lambda cluster: cluster.set_account(expired=True), "Your account has expired"),
    "password-expired": (lambda cluster: cluster.set_account(must_change_password=True), "has to be changed"),
    "maintenance": (
        lambda cluster: cluster.set_nologin("MareNostrum 5 is in maintenance until 18:00.\n"), "until 18:00",
    ),
}  # fmt: skip


@pytest.mark.cluster
@pytest.mark.parametrize("reason", TROUBLES)
def test_doctor_and_a_password_login_name_the_same_trouble(student, cluster, tmp_path, capsys, reason):
    strike, words = TROUBLES[reason]
    strike(cluster)
    found = problems(student, capsys)
    assert set(found) == {reason} and words in found[reason]["sentence"]
    assert "bsc.es" not in found[reason]["fix"], "the test cluster is no host of the site"
    person = Person(password=student.password)
    where = {"port": student.pam_port, "user": student.user, "host_key": student.host_key}
    line = connection(tmp_path, person=person, **where)
    with pytest.raises((LoginRefused, CannotConnect)) as caught:
        line.connect()
    assert caught.value.reason == reason and person.kinds == ["password"], "nobody is asked for a new one"


@pytest.mark.cluster
def test_file_transfer_names_the_password(student, cluster, tmp_path):
    """sshd opens no SFTP for a password that must be changed, and says why to a command only."""
    cluster.set_account(must_change_password=True)
    where = {"port": student.pam_port, "user": student.user, "host_key": student.host_key}
    line = connection(tmp_path, key=student.key, **where)
    line.connect()
    with contextlib.closing(line), pytest.raises(LoginRefused) as caught:
        line.ping(5.0)
    assert caught.value.reason == "password-expired"


@pytest.mark.cluster
def test_the_doctor_on_a_full_quota(student, cluster, tmp_path, capsys):
    quota = cluster.outside("/apps/modules/bsc/bin/bsc_quota")
    quota.parent.mkdir(parents=True, exist_ok=True)
    quota.write_text("#!/bin/bash\necho 'gpfs_projects GRP 1.10 TB 1.00 TB 1.10 TB 0 KB'\n")
    quota.chmod(0o755)
    cluster.limit_disk(student.scratch, "512k")
    try:
        found = problems(student, capsys)
        assert set(found) == {"quota", "room"} and "110 % full" in found["quota"]["sentence"]
    finally:
        quota.unlink()


@pytest.mark.parametrize(("text", "reason"), [
    ("Your account has expired; please contact your system administrator.", "account-expired"),
    ("WARNING: Your password has expired.\nPassword change required but no TTY.", "password-expired"),
    ("You are required to change your password immediately (by root).", "password-expired"),
    ("The system is going down for maintenance at 18:00", "maintenance"),
    ("\x1b[2JLogins are currently\x07 disabled.", "maintenance"),
    *((text, None) for text in ("Only for authorised users.", "Next planned maintenance: 3 March.", "")),
])  # fmt: skip
def test_a_servers_words(text, reason):
    error = refusal_in(text, HERE)
    assert (error.reason if isinstance(error, LoginRefused | CannotConnect) else None) == reason
    assert error is None or (error.hint and error.sentence.isprintable())


@pytest.mark.parametrize(("others", "key", "words", "fix"), [
    ({"dt1": True, "dt2": False}, "maintenance", "dt1 of the same site", "announcements"),
    ({"dt1": False}, "network", "other hosts", "VPN"),
    ({}, "network", "h:22 does not answer.", "Wait."),
])  # fmt: skip
def test_vpn_and_maintenance_are_told_apart(others, key, words, fix):
    error = CannotConnect("h:22 does not answer.", "Wait.", reason="timeout")
    check = check_refusal(error, SITE, "me", others)
    assert check.key == key and words in check.sentence and fix in check.fix


def test_where_a_password_is_changed_is_the_profiles_business():
    error = LoginRefused("The password has to be changed.", "Log in.", reason="password-expired")
    assert "ssh me@dt1" in check_refusal(error, SITE, "me").fix
    plain = msgspec.structs.replace(SITE, password_host="")
    assert check_refusal(error, plain, "me").fix == "Log in."
    wrong, closed, no_key = (
        check_refusal(LoginRefused("No.", "Ask.", reason=reason), SITE, "me")
        for reason in ("password", "account-expired", "no-key")
    )
    assert "first password" in wrong.fix and closed.fix == "Ask. Support: h@x."
    assert no_key.action == "set-up-key"


PROFILE = Profile(id="p", title="p", login_hosts=("127.0.0.1",))


@pytest.fixture
def remote_ssh(cluster: Cluster, student: Student) -> Iterator[Path]:
    """The student's ~/.ssh on the cluster, which is not there before and after."""
    cluster.as_student("rm -rf ~/.ssh")
    yield cluster.outside(f"{student.home}/.ssh")
    cluster.as_student("rm -rf ~/.ssh")


@pytest.fixture
def set_up(student: Student, tmp_path: Path) -> Callable[..., KeySetup]:
    """Sets up the key in `path` for the student, who types `password`."""
    config = tmp_path / "config"
    config.write_text("Host *\n  IdentityAgent none\n  IdentityFile none\n")
    overrides = Overrides(
        port=student.port, user=student.user, host_key=student.host_key, config_file=config,
        known_hosts=(), own_known_hosts=tmp_path / "known_hosts",
    )  # fmt: skip

    def run(path: Path, passphrase: str = "", password: str = student.password) -> KeySetup:
        person = Person(password=password, passphrase=passphrase)
        return set_up_key(PROFILE, overrides, person, path, passphrase)

    return run


@pytest.mark.cluster
def test_made_sent_and_tried(student, remote_ssh, set_up, tmp_path):
    path = tmp_path / "home/.ssh/id_ed25519"
    done = set_up(path, "open sesame")
    assert done.made and done.sent and "publickey" in done.login
    assert path.stat().st_mode & 0o777 == 0o600
    listed = (remote_ssh / "authorized_keys").read_text()
    assert listed == public_half(path).read_text()
    assert (remote_ssh / "authorized_keys").stat().st_mode & 0o077 == 0
    kept = "".join(file.read_text() for file in tmp_path.rglob("*") if file.is_file())
    assert student.password not in kept and "open sesame" not in kept
    again = set_up(path, "open sesame")
    assert not again.made and not again.sent
    assert (remote_ssh / "authorized_keys").read_text() == listed, "a second time adds nothing"


@pytest.mark.cluster
def test_the_lines_that_are_there_stay(cluster, remote_ssh, set_up, tmp_path):
    cluster.as_student("mkdir -m 700 ~/.ssh; printf 'ssh-ed25519 AAAA other' > ~/.ssh/authorized_keys")
    done = set_up(tmp_path / "key")
    first, second = (remote_ssh / "authorized_keys").read_text().splitlines()
    assert first == "ssh-ed25519 AAAA other" and done.sent
    assert second == public_half(tmp_path / "key").read_text().strip()


@pytest.mark.cluster
def test_a_wrong_password_and_a_home_that_takes_no_key(cluster, remote_ssh, set_up, tmp_path):
    with pytest.raises(LoginRefused) as caught:
        set_up(tmp_path / "key", password="wrong")
    assert "password" in caught.value.sentence and not remote_ssh.exists()
    cluster.as_student("mkdir -m 700 ~/.ssh; mkdir ~/.ssh/authorized_keys")
    with pytest.raises(Exception, match="could not be put on the cluster"):
        set_up(tmp_path / "key")


def test_files_that_are_there_are_never_replaced(tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    path = default_key()
    make_key(path, "", "me@here")
    before = path.read_bytes()
    with pytest.raises(UsageError, match="already exists"):
        make_key(path, "", "me@here")
    assert path.read_bytes() == before and default_key() == path == tmp_path / ".ssh" / "id_ed25519"
