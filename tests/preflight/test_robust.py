"""Any bytes in any file: preflight answers, and its fixes are pure edits that can be applied twice."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labtui.preflight.findings import apply_fix
from tests.preflight.cases import ACCOUNT, BROKEN, JOB, PROFILE, SCRIPT, draft, preflight

PIECES = sorted({swap[1] for case in BROKEN for swaps in case.change.values() for swap in swaps} - {""})
ODD = ["\r", "\\", '"', "'", "<<EOF", "EOF", "#SBATCH", "#SBATCH -", "\ufeff"]
LINES = [*JOB.split("\n"), *SCRIPT.split("\n"), *PIECES, *ODD]
line = st.one_of(st.sampled_from(LINES), st.text(max_size=30))
text = st.lists(line, max_size=25).map("\n".join)
FILES = st.fixed_dictionaries({"job.slurm": text, "ResNet50.py": text}, optional={"helper.sh": text})


@given(FILES)
def test_any_text_is_answered_and_every_fix_is_idempotent(files):
    data = {name: content.encode("utf-8", "surrogatepass") for name, content in files.items()}
    fixes = (finding.fix for finding in preflight(data, draft(), PROFILE, ACCOUNT, remote={}))
    for fix in filter(None, fixes):
        before = data[fix.file].decode("utf-8", "surrogateescape")
        once = apply_fix(before, fix)
        assert once != before and apply_fix(once, fix) == once


@given(st.binary(max_size=300))
def test_any_bytes_are_answered(data):
    preflight({"job.slurm": data, "ResNet50.py": data, "x.sh": data}, None, PROFILE, ACCOUNT)
    preflight({"job.slurm": data, "ResNet50.py": data}, draft(), PROFILE, ACCOUNT, remote={"/a": False})


@given(text, st.lists(st.text("abc \n", max_size=9), max_size=6).map("\n".join))
def test_a_fix_whose_lines_were_edited_since_changes_nothing(content, other):
    """A student may have edited the file after the finding was shown."""
    for finding in preflight({"job.slurm": content.encode("utf-8", "surrogatepass")}, None, PROFILE, ACCOUNT):
        if finding.fix and not {edit.old for edit in finding.fix.edits} <= set(other.split("\n")):
            assert apply_fix(other, finding.fix) == other


LONG = [
    *("singularity " * 40_000, "--epochs 1 python " * 20_000 + ".py", "python x.py -- epochs \\\n" * 10_000),
    *("“—x" * 50_000, "<a" * 100_000, "cat <<E\n" * 10_000),
]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("content", LONG, ids=range(len(LONG)))
def test_endless_lines_take_no_endless_time(content):
    """A pattern that goes back and forth over such a line would take hours."""
    files = {"job.slurm": JOB.encode() + content.encode(), "ResNet50.py": b"(" + content.encode()}
    rules = {finding.rule for finding in preflight(files, draft(), PROFILE, ACCOUNT)}
    assert "python-syntax" in rules or "pasted-character" in rules


def test_a_continued_command_ends_where_it_ends():
    content = JOB + "echo " + "a \\\n" * 3_000 + "b\npip install numpy\n"
    found = preflight({"job.slurm": content.encode(), "ResNet50.py": b""}, draft(), PROFILE, ACCOUNT)
    assert [f.text for f in found if f.rule == "download"] == ["pip install numpy"]
