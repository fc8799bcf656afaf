"""Nothing from outside is trusted: hostile names and damaged files. What code may not contain is ruff's (rules S)."""

import os
import random
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import labtui
from labtui.domain.errors import LabError
from labtui.domain.model import EpochSample, Interval
from labtui.domain.run import RunRecord
from labtui.domain.terminal_text import file_name
from labtui.results import measured
from labtui.session import mirrors
from labtui.session.folder import LabFolder
from labtui.session.labs import load_edition
from labtui.session.settings import load_profile, read_settings
from labtui.slurm.probe import parse_quota, slurm_probe
from labtui.slurm.remote_command import Call, CommandResult
from labtui.slurm.site_probe import site_probe
from tests.changes import accepted, after, planned
from tests.reliability.hostile import EVIL, SHELL, explains

SOURCE = Path(labtui.__file__).parent
CORPUS = Path(__file__).parent / "corpus"
"""Files that once broke a reader, by the room that reads them: ``edition-*.toml``, ``profile-*``, ``settings-*``."""

names = st.one_of(
    st.text(), st.sampled_from([EVIL, SHELL, "../../x", "..", ".", "/etc/passwd", "CON", "a\0b", "C:\\x"])
)


@given(names, names, st.sampled_from(mirrors.STREAMS), st.integers(0, 9))
def test_no_name_leaves_its_folder(job_name, job_id, stream, segment):
    state = after(planned("lt1", {}, job_name=job_name), accepted("lt1", job_id))
    mirror = state.submissions["lt1"].mirror(stream, segment)  # type: ignore[arg-type]
    for name in (file_name(job_name), mirror.removeprefix("logs/")):
        assert name not in ("", ".", "..")
        assert not set(name) & set('/\\:\0*?"<>|')
        assert name.isascii() and name.isprintable() and name.partition(".")[0].casefold() != "con"


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


SETTINGS = '[lab]\nedition = "hpc4ai-ch10"\n[cluster]\nprofile = "mn5"\nhost = "h"\nport = 22\nuser = "u"\n'
TEXTS = {
    "edition": (SOURCE / "labs" / "hpc4ai-ch10.toml").read_text(encoding="utf-8"),
    "profile": (SOURCE / "profiles" / "mn5.toml").read_text(encoding="utf-8"), "settings": SETTINGS,
}  # fmt: skip
READERS: dict[str, Callable[[Path], object]] = {
    "edition": load_edition, "profile": lambda path: load_profile(str(path)), "settings": read_settings,
}  # fmt: skip


@pytest.mark.parametrize("kind", READERS)
@given(seed=st.integers(0, 1 << 32), evil=st.sampled_from([EVIL, SHELL, "\ud800", "'" * 3, '"' * 3]))
@example(seed=0, evil="")
@example(seed=1071, evil="\ud800")
def test_a_mutilated_file_is_read_or_refused_with_a_sentence(kind, seed, evil, tmp_path):
    text = _mutilated(TEXTS[kind], seed, evil)
    (tmp_path / "file.toml").write_text(text, encoding="utf-8", errors="surrogatepass")
    try:
        READERS[kind](tmp_path / "file.toml")
    except LabError as error:
        line = getattr(error, "line", None)
        assert error.sentence and "Traceback" not in error.sentence
        assert line is None or 1 <= line <= len(text.splitlines()) + 2


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*.toml")), ids=lambda path: path.name)
def test_what_once_broke_a_reader(path):
    with pytest.raises(LabError):
        READERS[path.name.partition("-")[0]](path)


PROFILE_LINE, EDITION_LINE = 'profile = "mn5"', 'edition = "hpc4ai-ch10"'
RECEIVED = {
    "nested": (PROFILE_LINE, f"x = {'[' * 5000}{']' * 5000}", "nested too deeply"),
    "digits": (PROFILE_LINE, f"{PROFILE_LINE}\nport = {'9' * 5000}", "too many digits"),
    "NUL": (PROFILE_LINE, f'{PROFILE_LINE}\ndata_dir = "a\\u0000b"', "control character"),
    "line": (PROFILE_LINE, f'{PROFILE_LINE}\naccount = "a\\n#SBATCH -D /"', "control character"),
    "profile with NUL": (PROFILE_LINE, 'profile = "a\\u0000.toml"', "control character"),
    "edition with NUL": (EDITION_LINE, 'edition = "a\\u0000.toml"', "control character"),
    "profile of nobody": (PROFILE_LINE, 'profile = "~nobody-here/x.toml"', "cannot be read"),
    "edition of nobody": (EDITION_LINE, 'edition = "~nobody-here/x.toml"', "cannot be read"),
    "profile as a pipe": (PROFILE_LINE, 'profile = "pipe.toml"', "not a regular file"),
    "edition as a pipe": (EDITION_LINE, 'edition = "PLACE/pipe.toml"', "not a regular file"),
    "profile without an end": (PROFILE_LINE, 'profile = "/dev/zero/../zero.toml"', "cannot be read"),
    "profile as a device": (PROFILE_LINE, 'profile = "zero.toml"', "not a regular file"),
    "edition elsewhere": (EDITION_LINE, 'edition = "/etc/x.toml"', "names a file outside"),
    "edition of 1 TB": (EDITION_LINE, 'edition = "PLACE/sparse.toml"', "larger than"),
}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes and devices are POSIX")
@pytest.mark.parametrize("case", RECEIVED)
def test_odd_settings_of_a_received_folder_are_a_sentence(case, tmp_path):
    """Nothing is waited for, nothing is read without end."""
    old, new, words = RECEIVED[case]
    os.mkfifo(tmp_path / "pipe.toml")
    (tmp_path / "zero.toml").symlink_to("/dev/zero")
    with (tmp_path / "sparse.toml").open("wb") as file:
        file.truncate(1 << 40)
    (tmp_path / "lab.toml").write_text(SETTINGS.replace(old, new.replace("PLACE", str(tmp_path))))
    with pytest.raises(LabError) as caught:
        settings = read_settings(tmp_path / "lab.toml")
        load_profile(settings.profile, tmp_path)
        load_edition(settings.edition, LabFolder(tmp_path))
    explains(caught.value, words)


ENDLESS: dict[str, tuple[Call[Any] | None, str, str]] = {
    "a site's partitions": (site_probe(), "partitions", "a" * 300_000),
    "the resources of a node": (site_probe(), "sinfo", f"p|1|{'(' * 300_000}"),
    "no rows below their status": (slurm_probe(), "now", "\x1dn assoc-status 0\n\x1dn qos-status 0\n"),
    "spaces in a quota": (None, "", "home USR 1" + " " * 300_000),
    "spaces in a budget": (None, "", "Project: x (bsc)\n" + "a" + " " * 300_000),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("case", ENDLESS)
def test_an_endless_answer_is_read_in_one_go(case):
    """Patterns that try again from every place of a line took minutes for these, or an exception came of them."""
    call, name, text = ENDLESS[case]
    if call is None:
        assert parse_quota(text) == {}
    else:
        answer = CommandResult(f"\x1dn {name}\n{text}\n".encode(), b"", 0, nonce="n")
        assert call.answer(answer, "n") is not None


def test_absurd_numbers_of_a_stored_run_are_absent_or_counted():
    epoch = EpochSample(epoch=10**20, seconds=Interval.exact(1.0), ended_at=1e308)
    run: Any = SimpleNamespace(live=False, mark="", run=RunRecord(epochs=(epoch,)))
    assert "1 epoch of 100,000,000,000,000,000,000" in measured._missing_epochs(run)
