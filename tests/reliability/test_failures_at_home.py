"""Failures on the student's own computer that no other test makes: keys and hosts, the disk, the database."""

from __future__ import annotations

import errno
import os
import sqlite3
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from labtui.cluster.target import Endpoint, Target
from labtui.doctor import examine
from labtui.domain.errors import FolderError, StoreError
from labtui.domain.model import SubmissionStatus
from labtui.domain.profile import Profile
from labtui.session.folder import FolderLock
from labtui.session.journal import FaultLog
from labtui.session.settings import Settings, read_settings, write_settings
from labtui.session.store import _explained
from tests.openssh import openssh
from tests.reliability.saying import explains
from tests.session.conftest import Bench, bench, draft, lab_path, open_bench

__all__ = ["bench", "lab_path", "open_bench"]  # fixtures

# ----------------------------------------------------------------------------- the examine, before any connection


def endpoint(**values: Any) -> Endpoint:
    return Endpoint(**({"alias": "mn5", "host": "mn5", "port": 22, "user": "me"} | values))


@pytest.fixture
def key(tmp_path: Path) -> Path:
    path = tmp_path / "id_ed25519"
    subprocess.run([openssh("ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
    return path


def certified(key: Path, validity: str) -> Path:
    authority = key.with_name("authority")
    subprocess.run([openssh("ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-f", str(authority)], check=True)
    words = ["-q", "-s", str(authority), "-I", "me", "-n", "me", "-V", validity, f"{key}.pub"]
    subprocess.run([openssh("ssh-keygen"), *words], check=True)
    return key.with_name(f"{key.name}-cert.pub")


def test_the_doctor_on_keys_that_are_missing_or_open_to_others(tmp_path: Path, key: Path) -> None:
    gone = examine._key(endpoint(identity_files=(tmp_path / "gone",), identity_named=True))
    assert (gone.status, bool(gone.fix)) == ("problem", True)
    none = examine._key(endpoint(identity_files=(tmp_path / "gone",)))
    assert (none.status, bool(none.fix)) == ("warning", True)
    key.chmod(0o644)
    shared = examine._key(endpoint(identity_files=(key,)))
    assert shared.status == "warning"
    assert "chmod 600" in shared.fix
    key.chmod(0o600)
    assert examine._key(endpoint(identity_files=(key,))).status == "ok"


@pytest.mark.parametrize(
    ("validity", "status", "words"),
    [
        ("-5h:-1h", "problem", "expired"),
        ("-1h:+1h", "warning", "valid until"),
        ("-1h:+52w", "ok", "valid until"),
        ("always:forever", "ok", "with the certificate"),
    ],
)
def test_the_doctor_on_certificates(key: Path, validity: str, status: str, words: str) -> None:
    certified(key, validity)
    check = examine._key(endpoint(identity_files=(key,)))
    assert (check.status, words in check.sentence) == (status, True), check
    assert bool(check.fix) == (status != "ok")


def test_the_doctor_on_a_broken_certificate(key: Path) -> None:
    key.with_name(f"{key.name}-cert.pub").write_text("ssh-ed25519-cert-v01@openssh.com AAAA broken\n")
    assert examine._key(endpoint(identity_files=(key,))).status == "ok"


def test_the_doctor_on_hosts_it_knows_or_does_not_know(tmp_path: Path, key: Path) -> None:
    own = tmp_path / "known_hosts"
    target = Target(endpoints=(endpoint(),), own_known_hosts=own)
    profile = Profile(id="x", title="X", login_hosts=("mn5",))
    new = examine._known(target, profile)
    assert (new.status, "asks once whether its key is right" in new.sentence) == ("warning", True)
    own.write_text("mn5 " + Path(f"{key}.pub").read_text())
    assert examine._known(target, profile).status == "ok"
    pinned = replace(target, endpoints=(endpoint(host_key="SHA256:abc"),))
    assert "SHA256:abc" in examine._known(pinned, profile).sentence


def test_the_doctor_on_a_cluster_of_the_past() -> None:
    profile = Profile(id="mn4", title="MareNostrum 4", login_hosts=("mn1",), status="historical")
    checks = list(examine._configuration(profile, Target(endpoints=(endpoint(),), own_known_hosts=Path("x"))))
    assert checks[0].status == "problem"
    assert "MareNostrum 4" in checks[0].sentence


# ----------------------------------------------------------------------------- the lab folder


def test_a_disk_without_locks_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(FileLock, "acquire", refuse)
    with pytest.raises(FolderError) as caught:
        FolderLock(tmp_path / "lock").acquire()
    explains(caught.value, "cannot be locked")


def test_settings_that_cannot_be_read_or_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FolderError) as caught:
        read_settings(tmp_path)  # a folder where the file should be
    explains(caught.value, "cannot be read")
    (tmp_path / "file").write_text("")
    with pytest.raises(FolderError) as blocked:
        write_settings(tmp_path / "file" / "lab.toml", Settings(edition="x", profile="y"))
    explains(blocked.value, "cannot be written")
    whole = tmp_path / "lab.toml"
    write_settings(whole, Settings(edition="x", profile="y"))
    before = whole.read_bytes()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(FolderError) as caught:
            write_settings(whole, Settings(edition="other", profile="y"))
        explains(caught.value, "Free disk space")
    assert whole.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("database is locked", "busy"),
        ("database or disk is full", "full"),
        ("disk I/O error", "full"),
        ("attempt to write a readonly database", "Check who owns the folder"),
        ("unable to open database file", "Check who owns the folder"),
        ("database disk image is malformed", "repair"),
        ("something of a later release", "repair"),
    ],
)
def test_what_the_database_says_in_words_of_a_student(text: str, words: str) -> None:
    explains(_explained(sqlite3.OperationalError(text)), words)


def test_the_file_of_faults_does_not_grow_without_bound(tmp_path: Path) -> None:
    log = FaultLog(tmp_path / "problems.log")
    log.path.write_text("x" * 1_000_001)
    log.write(ValueError("the newest"))
    assert log.path.stat().st_size < 10_000
    assert "the newest" in log.path.read_text()
    assert len(list(tmp_path.iterdir())) == 2
    log.path.write_text("x" * 1_000_001)
    log.write(ValueError("another"))
    assert len(list(tmp_path.iterdir())) == 2


def test_who_only_looks_goes_on_after_a_database_that_was_busy(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, lab_path: Path
) -> None:
    from labtui.session.session import Session
    from tests.real_cluster.cluster import wait_until

    bench.online()
    future = bench.session.submit(draft())
    with Session.open(lab_path) as looking:
        assert looking.read_only
        news, failures = looking._store.news, []

        def busy() -> list[Any]:
            if not failures:
                failures.append(1)
                raise StoreError("The lab folder's database is busy.", "Try again.")
            return news()

        monkeypatch.setattr(looking._store, "news", busy)
        bench.run(20, future.done)
        token = future.result()
        wait_until(
            lambda: (
                looking.state.submissions[token].status is SubmissionStatus.ACCEPTED
                if token in looking.state.submissions
                else False
            ),
            what="the other process's news",
        )
        assert failures
        assert "busy" in looking.folder.problem_log.read_text()
