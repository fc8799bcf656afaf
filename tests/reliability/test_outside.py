"""Nothing from outside is trusted: what the code may not contain, and what hostile files may do (nothing)."""

from __future__ import annotations

import ast
import contextlib
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import labtui
from labtui.domain.errors import LabError
from labtui.lab.edition_validation import parse_edition
from labtui.session import mirrors
from labtui.session.folder import LabFolder, file_name
from labtui.session.labs import load_edition
from labtui.session.settings import load_profile, read_settings
from labtui.session.store import decode_event
from tests.reliability.hostile import EVIL, SHELL

SOURCE = Path(labtui.__file__).parent
CORPUS = Path(__file__).parent / "corpus"
"""Files that once broke a reader, by the room that reads them: ``edition-*.toml``, ``profile-*``, ``settings-*``."""

LOADERS = {
    "pickle",
    "cPickle",
    "dill",
    "shelve",
    "marshal",
    "yaml",
    "tarfile",
    "zipfile",
    "shutil.unpack_archive",
}
PRETENDS = "practice"
"""The room that pretends to be a cluster and runs what a student submits there; every other one is looked through."""


def modules() -> Iterator[tuple[Path, ast.Module]]:
    """The program's own modules."""
    for path in sorted(SOURCE.rglob("*.py")):
        if path.relative_to(SOURCE).parts[0] != PRETENDS:
            yield path, ast.parse(path.read_text(encoding="utf-8"))


def calls(tree: ast.Module) -> Iterator[tuple[str, ast.Call]]:
    """Every call, with the dotted name of what is called."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


def test_no_archive_no_pickle_no_yaml_is_loaded() -> None:
    for path, tree in modules():
        imported = {
            name.name.split(".")[0]
            for node in ast.walk(tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for name in ([ast.alias(node.module or "")] if isinstance(node, ast.ImportFrom) else node.names)
        }
        # The student's own --template, by name; the deck just made, whose dates are set.
        allowed = {"zipfile"} if path.name in {"pptx_theme.py", "pptx_writer.py"} else set()
        assert not imported & LOADERS - allowed, path


def test_no_shell_here_and_no_code_from_text() -> None:
    for path, tree in modules():
        for name, call in calls(tree):
            assert name not in {"os.system", "os.popen", "eval", "exec", "compile", "__import__"}, path
            if name.startswith("subprocess."):
                assert not any(word.arg == "shell" for word in call.keywords), path
                assert not isinstance(call.args[0], ast.Constant | ast.JoinedStr), path


def test_host_keys_are_never_accepted_by_a_policy() -> None:
    for path, tree in modules():
        for name, _ in calls(tree):
            assert not name.endswith(("AutoAddPolicy", "WarningPolicy", "SSHClient")), path


def test_two_commands_and_one_file_channel_at_a_time() -> None:
    from labtui.cluster.connection import Connection
    from labtui.cluster.target import Endpoint, Target

    endpoint = Endpoint(alias="h", host="h", port=22, user="u")
    semaphore = Connection(Target(endpoints=(endpoint,), own_known_hosts=Path("none")))._execs
    assert [semaphore.acquire(blocking=False) for _ in range(3)] == [True, True, False]


def test_a_third_command_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two questions to a hung controller must not keep the worker, which reads the logs, from going on."""
    from labtui.cluster import connection
    from labtui.cluster.target import Endpoint, Target
    from labtui.domain.errors import ConnectionLost, RemoteFailure

    monkeypatch.setattr(connection, "TURN_LIMIT_S", 0.05)
    endpoint = Endpoint(alias="h", host="h", port=22, user="u")
    line = connection.Connection(Target(endpoints=(endpoint,), own_known_hosts=Path("none")))
    held = [line._execs.acquire(blocking=False) for _ in range(2)]
    with pytest.raises(RemoteFailure, match="two earlier requests") as refused:
        line.run("true")
    assert refused.value.wait
    assert refused.value.hint
    for _ in held:
        line._execs.release()
    with pytest.raises(ConnectionLost):  # its turn came, and there is no line
        line.run("true")
    assert line._execs.acquire(blocking=False) and line._execs.acquire(blocking=False)


names = st.one_of(
    st.text(), st.sampled_from([EVIL, SHELL, "../../x", "..", ".", "/etc/passwd", "CON", "a\0b", "C:\\x"])
)


@given(names, names, st.sampled_from(mirrors.STREAMS), st.integers(0, 9))
def test_no_name_leaves_its_folder(job_name: str, job_id: str, stream: str, segment: int) -> None:
    for name in (file_name(job_name), mirrors.mirror_name(job_name, job_id, stream, segment)):  # type: ignore[arg-type]
        assert name not in ("", ".", "..")
        assert not set(name) & set('/\\:\0*?"<>|')
        assert name.isascii() and name.isprintable()


def _mutilated(text: str, seed: int, evil: str) -> str:
    """The same file after some careless or hostile edits."""
    chooser = random.Random(seed)
    for _ in range(chooser.randrange(1, 6)):
        at, upto = sorted((chooser.randrange(len(text) + 1), chooser.randrange(len(text) + 1)))
        upto = min(upto, at + chooser.choice((0, 1, 20, 2000)))
        put = chooser.choice(
            (evil, "", text[at:upto] * 2, '"', "[", "= 1e999\n", "\n[[tasks]]\n", "\u0000", "-1")
        )
        text = text[:at] + put + text[upto:]
    return text


def _read_edition(text: str, place: Path) -> None:
    parse_edition(text, str(place / "edition.toml"))


def _read_profile(text: str, place: Path) -> None:
    (place / "p.toml").write_text(text, encoding="utf-8", errors="surrogatepass")
    load_profile("p.toml", place)


def _read_settings(text: str, place: Path) -> None:
    (place / "lab.toml").write_text(text, encoding="utf-8", errors="surrogatepass")
    read_settings(place / "lab.toml")


SETTINGS = '[lab]\nedition = "hpc4ai-ch10"\n[cluster]\nprofile = "mn5"\nhost = "h"\nport = 22\nuser = "u"\n'
READERS: dict[str, tuple[Callable[[str, Path], None], str]] = {
    "edition": (_read_edition, (SOURCE / "labs" / "hpc4ai-ch10.toml").read_text(encoding="utf-8")),
    "profile": (_read_profile, (SOURCE / "profiles" / "mn5.toml").read_text(encoding="utf-8")),
    "settings": (_read_settings, SETTINGS),
}


@pytest.mark.parametrize("kind", READERS)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 1 << 32), evil=st.sampled_from([EVIL, SHELL, "\ud800", "'" * 3, '"' * 3]))
@example(seed=0, evil="")
@example(seed=1071, evil="\ud800")
def test_a_mutilated_file_is_read_or_refused_with_a_sentence(
    kind: str, seed: int, evil: str, tmp_path: Path
) -> None:
    reader, text = READERS[kind]
    try:
        reader(_mutilated(text, seed, evil), tmp_path)
    except LabError as error:
        assert error.sentence


READ_FILE: dict[str, Callable[[Path, Path], object]] = {
    "edition": lambda path, _: load_edition(path),
    "profile": lambda path, _: load_profile(str(path)),
    "settings": lambda path, _: read_settings(path),
}


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*.toml")), ids=lambda path: path.name)
def test_what_once_broke_a_reader(path: Path, tmp_path: Path) -> None:
    kind = path.name.partition("-")[0]
    with pytest.raises(LabError):
        READ_FILE[kind](path, tmp_path)


@given(st.text())
def test_a_stored_event_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(ValueError):
        decode_event(text)


def test_the_folder_and_all_in_it_are_for_the_owner(tmp_path: Path) -> None:
    """What holds account names and logs is nobody else's business, whatever the umask."""
    import os

    if os.name == "nt":
        pytest.skip("Windows has other permissions")
    from labtui.session.session import Session
    from labtui.session.settings import Settings

    before = os.umask(0)
    try:
        folder = LabFolder.create(tmp_path / "lab", Settings(edition="hpc4ai-ch10", profile="mn5"))
        with Session.open(folder.path, start=False):
            kept = [
                folder.path,
                folder.path / "labtui.db",
                folder.path / "lab.toml",
                folder.lock_path,
                folder.logs,
            ]
            open_to_others = [str(path) for path in kept if path.exists() and path.stat().st_mode & 0o077]
    finally:
        os.umask(before)
    assert open_to_others == []
