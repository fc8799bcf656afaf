"""Failures on the student's own computer that no other test makes: keys, the disk, settings."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from filelock import FileLock

from labtui.cluster.target import Endpoint
from labtui.doctor import examine
from labtui.domain.errors import DataError, FolderError
from labtui.session.journal import FaultLog
from labtui.session.opening import FolderLock
from labtui.session.settings import Settings, read_settings, write_settings
from tests.openssh import keygen
from tests.reliability.saying import explains


@pytest.fixture
def key(tmp_path: Path) -> Path:
    keygen("-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "id_ed25519")
    return tmp_path / "id_ed25519"


@pytest.mark.parametrize(
    ("trouble", "status", "words"),
    [
        ("none", "ok", ""),
        ("gone", "problem", ""),
        ("open to others", "warning", "chmod 600"),
        ("broken certificate", "ok", ""),
        ("-5h:-1h", "problem", "expired"),
        ("-1h:+1h", "warning", "valid until"),
        ("always:forever", "ok", "with the certificate"),
    ],
)
def test_the_doctor_on_keys_and_certificates(key: Path, trouble: str, status: str, words: str) -> None:
    if trouble == "gone":
        key.unlink()
    elif trouble == "open to others":
        key.chmod(0o644)
    elif trouble == "broken certificate":
        key.with_name(f"{key.name}-cert.pub").write_text("ssh-ed25519-cert-v01@openssh.com AAAA broken\n")
    elif ":" in trouble:
        authority = key.with_name("authority")
        keygen("-q", "-t", "ed25519", "-N", "", "-f", authority)
        keygen("-q", "-s", authority, "-I", "me", "-n", "me", "-V", trouble, f"{key}.pub")
    endpoint = Endpoint(
        alias="mn5", host="mn5", port=22, user="me", identity_files=(key,), identity_named=True
    )
    check = examine._key(endpoint)
    assert check.status == status, check
    assert words in f"{check.sentence} {check.fix}"
    assert bool(check.fix) == (status != "ok")


def test_a_disk_without_locks_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(FileLock, "acquire", refuse)
    with pytest.raises(FolderError) as caught:
        FolderLock(tmp_path / "lock").acquire()
    explains(caught.value, "cannot be locked")


def test_settings_that_cannot_be_read_or_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError) as unread:
        read_settings(tmp_path)  # a folder where the file should be
    explains(unread.value, "cannot be read")
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


def test_the_file_of_faults_does_not_grow_without_bound(tmp_path: Path) -> None:
    log = FaultLog(tmp_path / "problems.log")
    for _ in range(2):
        log.path.write_text("x" * 1_000_001)
        log.write(ValueError("the newest"))
        assert log.path.stat().st_size < 10_000
        assert "the newest" in log.path.read_text()
        assert len(list(tmp_path.iterdir())) == 2
