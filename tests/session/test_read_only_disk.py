"""A lab folder on a read-only or full disk is shown, and says why nothing can be changed."""

import asyncio
import contextlib
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from labtui.commands.cli import main
from labtui.domain.errors import NotWritable
from labtui.session.folder import LabFolder
from labtui.session.opening import repair, stored_state
from labtui.session.session import Session
from labtui.session.settings import trust
from tests.session.conftest import Bench, accepted, draft
from tests.session.scripted import keras_log
from tests.tui.waiting import text_of, until

CLOSED, FULL = ("Read-only file system", "read-only for you"), ("disk of this computer is full",)
SAYS = {"read-only": CLOSED, "full": FULL}
HINT = "hint: Free some space, or make the folder writable"
COMMANDS = (
    (0, "queue", "--offline"), (0, "results", "--json"), (0, "log", "1", "--follow"),
    (0, "export", "--no-plots", "--deck", "none", "--report", "ipynb", "--out", "OUT"),
    (2, "export", "--no-plots", "--deck", "none", "--report", "ipynb"), (2, "submit", "10.5", "--yes"),
)  # fmt: skip


@pytest.fixture(params=["read-only", "full"])
def disk(request: pytest.FixtureRequest, bench: Bench, tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A trusted folder with a run of five epochs, on a disk of its own that takes nothing more."""
    accepted(bench)
    bench.cluster.write("100", keras_log(30, 5, 5))
    bench.run(60, lambda: bool(bench.session.state.runs) and len(bench.session.state.runs[1].epochs) == 3)
    bench.session.close()
    mount = tmp_path / "disk"
    mount.mkdir()
    if _root("mount", "-t", "tmpfs", "-o", "size=4m", "none", str(mount)):
        pytest.skip("this user may not mount a disk of their own")
    try:
        shutil.copytree(bench.path, mount / "lab")
        with sqlite3.connect(mount / "lab" / "labtui.db") as database:
            database.execute("DELETE FROM meta WHERE key = 'writer'")  # no copy: the folder was made here
        database.close()
        trust(mount / "lab")
        Session.open(mount / "lab", start=False).close()
        if request.param == "full":
            with pytest.raises(OSError), (mount / "filler").open("wb", buffering=0) as filler:
                while True:
                    filler.write(b"\0" * 4096)
        else:
            assert _root("mount", "-o", "remount,ro", str(mount)) == 0
        yield request.param, mount / "lab"
    finally:
        _root("umount", "--lazy", str(mount))


def _root(*command: str) -> int:
    done = shutil.which(command[0]) and subprocess.run(command, capture_output=True, check=False)
    return done.returncode if done else 127


def test_it_is_shown_and_says_so(disk, bench, tmp_path, monkeypatch, capsys):
    kind, folder = disk
    calls = len(bench.cluster.calls)
    monkeypatch.setattr("labtui.session.lab_cluster.connection_to", lambda *_: bench.cluster)
    with Session.open(folder) as session:
        why = session.why_read_only
        assert isinstance(why, NotWritable) and "for reading only" in why.sentence
        assert SAYS[kind][0] in why.sentence and len(session.state.runs[1].epochs) == 3
        with pytest.raises(NotWritable, match="for reading only"):
            session.submit(draft())
    assert len(bench.cluster.calls) == calls, "what cannot be noted is not done"
    results = tmp_path / "results"
    monkeypatch.chdir(folder)
    for status, *words in COMMANDS:
        arguments = [str(results) if word == "OUT" else word for word in words]
        assert main(arguments) == status, (arguments, capsys.readouterr())
        said = " ".join(capsys.readouterr().err.split())
        assert "Traceback" not in said
        assert any(each in said for each in SAYS[kind]) and HINT in said, (arguments, said)
    assert any(results.rglob("*.csv"))
    asyncio.run(see_on_the_screens(folder, SAYS[kind][0]))


def test_repair_leaves_the_database_where_it_is_until_the_new_one_is_whole(disk):
    kind, folder = disk
    files = lambda: {path.name: path.read_bytes() for path in folder.glob("labtui.db*")}  # noqa: E731
    before, filler = files(), folder.with_name("filler")
    for _ in range(99 if kind == "full" else 1):
        with contextlib.suppress(NotWritable):
            assert not repair(LabFolder.open(folder)).damaged
            break
        assert files() == before
        if kind == "full":
            os.truncate(filler, filler.stat().st_size - 16384)
    assert (files() == before) is (kind == "read-only")
    assert len(stored_state(LabFolder(folder)).runs[1].epochs) == 3


async def see_on_the_screens(folder: Path, words: str) -> None:
    from labtui.tui.app import LabApp

    with Session.open(folder, start=False) as session:
        app = LabApp(session)
        async with app.run_test(size=(120, 40)) as pilot:
            await until(pilot, lambda: words in " ".join(text_of(app).split()))
