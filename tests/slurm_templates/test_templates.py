"""`render`: what may stand where, and what is refused."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labtui.domain.errors import TemplateError, UsageError
from labtui.session.folder import FORMS, list_remote, read_remote, read_template
from labtui.slurm.job_script import PLACE, STARTED_GUARD, render
from labtui.slurm.script_commands import open_quote
from labtui.slurm.submit import CONTROL_DIR, TWIN_STATUS

PRINTABLE = st.text().filter(lambda text: text.isprintable())


def test_values_by_place() -> None:
    template = "#SBATCH --job-name=@{name}\n# for @{name}\necho @{name}\n@{more_lines}\n  @{no_lines}\nend"
    text = render(template, {"name": "a.b", "more_lines": "one\ntwo\n", "no_lines": ""})
    assert text == "#SBATCH --job-name=a.b\n# for a.b\necho a.b\none\ntwo\nend"


def test_the_shells_own_words_are_left_alone() -> None:
    code = '"$@" ${list[@]} ${1:-x} $name $(date) a@b.c %x.%j {"k": 1} $$'
    assert render(code, {}) == code


@pytest.mark.parametrize(
    "name", ["a b", "a;b", "$(date)", "a'b", 'a"b', "a`b`", "a\\b", "", "ä", "#x", "a#b", "<account>"]
)
def test_directives_take_plain_words_only(name: str) -> None:
    with pytest.raises(TemplateError):
        render("#SBATCH --job-name=@{name}", {"name": name})


@pytest.mark.parametrize("bad", ["a\nb", "a\rb", "a\0b", "\x1b[31m", "a\u2028b", "\u200b", "\xa0"])
@pytest.mark.parametrize("line", ["#SBATCH -J @{x}", "# @{x}", "echo @{x}"])
def test_control_characters_are_refused_everywhere(bad: str, line: str) -> None:
    with pytest.raises(TemplateError):
        render(line, {"x": bad})


@given(PRINTABLE)
def test_a_value_in_code_is_one_word(value: str) -> None:
    line = render("say @{x} after", {"x": value})
    assert shlex.split(line, comments=True) == ["say", value, "after"]


# --------------------------------------------------------------------------- assets


def test_remote_holds_the_scripts_and_nothing_else() -> None:
    names = list_remote()
    assert {"ResNet50.py", "ResNet152_seq.py", "resnet_lab.py", "run_log.py", "cifar-utils/cifar.py"} <= set(
        names
    )
    assert all(name.endswith(".py") or name.startswith(("pi/", "jacobi/")) for name in names)
    assert b"def load_cifar" in read_remote("cifar-utils/cifar.py")


@pytest.mark.parametrize("name", ["nothing.py", "../pyproject.toml", "/etc/passwd", "cifar-utils", ""])
def test_only_listed_files_are_read(name: str) -> None:
    with pytest.raises(UsageError):
        read_remote(name)


@pytest.mark.parametrize("form", FORMS)
def test_a_template_for_every_form(form: str) -> None:
    """Every placeholder stands outside quotes, where a quoted value is one word."""
    lines = read_template(form).split("\n")
    assert lines[0] == "#!/bin/bash"
    for line in (line for line in lines if not line.startswith("#")):
        assert not any(open_quote(line[: place.start()]) for place in PLACE.finditer(line)), line
        assert "@{" not in PLACE.sub("", line)


def test_the_guard_of_a_second_job_ends_as_the_readers_expect() -> None:
    assert f"exit {TWIN_STATUS}\n" in STARTED_GUARD and f" {CONTROL_DIR}/started/job " in STARTED_GUARD


def test_an_unknown_form_is_refused_with_those_there_are() -> None:
    with pytest.raises(UsageError, match="two-jobs") as caught:
        read_template("two-jobs")
    assert "one-job" in caught.value.hint
