"""One process writes a lab folder: also where the lock does not hold, and in a copy."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from labtui.domain.errors import FolderTaken
from labtui.domain.model import SubmissionStatus
from labtui.session.folder import LabFolder
from labtui.session.repair import repair
from labtui.session.session import Session
from labtui.session.trust import trust
from labtui.session.writer import Writer
from tests.session.conftest import Bench, draft
from tests.session.scripted import keras_log


def test_whoever_opened_last_writes_where_no_lock_holds(
    bench: Bench, open_bench: Callable[..., Bench]
) -> None:
    bench.online()
    (bench.session.folder.lock_path).unlink()
    second = open_bench(bench.cluster)
    assert not second.session.read_only
    with pytest.raises(FolderTaken, match="opened this lab folder for writing"):
        bench.session.submit(draft())
    assert bench.session.read_only
    assert [problem.key for problem in bench.session.state.problems] == ["taken"]
    future = second.session.submit(draft())
    second.online()
    second.run(20, future.done)
    assert bench.worker.turn() is None
    assert len(bench.cluster.jobs) == 1


def test_one_that_was_about_to_send_does_not(bench: Bench, open_bench: Callable[..., Bench]) -> None:
    bench.cluster.reachable = False
    bench.session.submit(draft())
    (bench.session.folder.lock_path).unlink()
    second = open_bench(bench.cluster)
    bench.cluster.reachable = True
    bench.run(200)
    assert bench.cluster.count("submit") == 0
    second.run(200, lambda: bool(bench.cluster.jobs))
    assert next(iter(second.session.state.submissions.values())).status is SubmissionStatus.ACCEPTED


def test_a_process_that_lost_its_folder_leaves_the_mirrors_alone(
    bench: Bench, open_bench: Callable[..., Bench]
) -> None:
    bench.online()
    token = bench.session.submit(draft())
    bench.run(20, token.done)
    bench.cluster.start("100")
    (bench.session.folder.lock_path).unlink()
    second = open_bench(bench.cluster)
    bench.cluster.write("100", keras_log(30, 5))
    bench.run(100)
    assert not list((bench.path / "logs").iterdir())
    second.run(100, lambda: bool(list((bench.path / "logs").iterdir())))
    assert (bench.path / "logs" / Path(bench.cluster.log("100")).name).read_bytes() == keras_log(30, 5)


def test_it_goes_on_showing_what_the_other_one_stores(bench: Bench, open_bench: Callable[..., Bench]) -> None:
    bench.online()
    (bench.session.folder.lock_path).unlink()
    second = open_bench(bench.cluster)
    bench.step()
    second.session.submit(draft())
    bench.session._look()
    assert len(bench.session.state.submissions) == 1


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
    repair(_folder(copy))
    with Session.open(copy, start=False) as own:
        assert not own.read_only and len(own.state.submissions) == 1


def _folder(path: Path):  # type: ignore[no-untyped-def]
    from labtui.session.folder import LabFolder

    return LabFolder.open(path)


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
    last = Writer(key="a", host="laptop", pid=1, path="/home/me/labtui.db", inode=1)
    assert msgspec.structs.replace(last, key="b", **change).copied_from(last) is copied


def test_a_folder_of_an_older_labtui_is_anybodys(lab_path: Path) -> None:
    with Session.open(lab_path, start=False) as session:
        session._store._connection.execute("UPDATE meta SET value = 'who knows' WHERE key = 'writer'")
    copy = lab_path.with_name("copy")
    shutil.copytree(lab_path, copy)
    trust(copy)
    assert (LabFolder(copy).database_path).exists()
    with Session.open(copy, start=False) as own:
        assert not own.read_only
