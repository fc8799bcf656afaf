"""Nothing from outside is trusted: hostile names and damaged files. What code may not contain is ruff's (rules S)."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import labtui
from labtui.domain.errors import LabError
from labtui.lab.edition_file import parse_edition
from labtui.session import mirrors
from labtui.session.folder import file_name
from labtui.session.labs import load_edition
from labtui.session.settings import load_profile, read_settings
from tests.reliability.hostile import EVIL, SHELL

SOURCE = Path(labtui.__file__).parent
CORPUS = Path(__file__).parent / "corpus"
"""Files that once broke a reader, by the room that reads them: ``edition-*.toml``, ``profile-*``, ``settings-*``."""

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
