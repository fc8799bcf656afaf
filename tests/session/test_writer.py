"""A copy of a lab folder is only read."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest

from labtui.domain.errors import FolderTaken
from labtui.session.folder import LabFolder
from labtui.session.opening import repair
from labtui.session.records import Writer
from labtui.session.session import Session
from labtui.session.settings import trust
from tests.session.conftest import Bench, draft


def test_a_copy_is_only_read_until_it_is_made_a_folder_of_its_own(bench: Bench) -> None:
    bench.session.submit(draft())
    copy = bench.path.with_name("copy")
    shutil.copytree(bench.path, copy)
    trust(copy)
    with Session.open(copy, start=False) as looking:
        assert looking.read_only and len(looking.state.submissions) == 1
        with pytest.raises(FolderTaken, match="is a copy of") as caught:
            looking.submit(draft())
        assert str(bench.path) in caught.value.sentence and "labtui repair" in caught.value.hint
    bench.session.submit(draft())
    repair(LabFolder.open(copy))
    with Session.open(copy, start=False) as own:
        assert not own.read_only and len(own.state.submissions) == 1


def test_a_folder_that_was_moved_is_no_copy(lab_path: Path) -> None:
    with Session.open(lab_path, start=False):
        pass
    moved = lab_path.with_name("moved")
    lab_path.rename(moved)
    trust(moved)
    with Session.open(moved, start=False) as session:
        assert not session.read_only


@pytest.mark.parametrize(
    ("change", "copied"),
    [
        ({}, False),
        ({"path": "/elsewhere/labtui.db"}, False),  # moved
        ({"inode": 2}, False),  # restored in its place
        ({"host": "laptop.wlan"}, False),  # a laptop has many names
        ({"path": "/elsewhere/labtui.db", "inode": 2}, True),
        ({"host": "another", "inode": 2}, True),
    ],
)
def test_what_makes_a_copy(change: dict[str, object], copied: bool) -> None:
    last = Writer(host="laptop", path="/home/me/labtui.db", inode=1)
    assert msgspec.structs.replace(last, **change).copied_from(last) is copied


def test_a_folder_of_an_older_labtui_is_anybodys(lab_path: Path) -> None:
    with Session.open(lab_path, start=False) as session:
        session._store._connection.execute("UPDATE meta SET value = 'who knows' WHERE key = 'writer'")
    copy = lab_path.with_name("copy")
    shutil.copytree(lab_path, copy)
    trust(copy)
    assert (LabFolder(copy).database_path).exists()
    with Session.open(copy, start=False) as own:
        assert not own.read_only
