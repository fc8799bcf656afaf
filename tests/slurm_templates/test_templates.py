"""`render`: what may stand where, and what is refused."""

from __future__ import annotations

import shlex
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labtui.domain.errors import TemplateError, UsageError
from labtui.session.folder import FORMS, list_remote, read_remote, read_template
from labtui.slurm.job_script import placeholders, render

PRINTABLE = st.text().filter(lambda text: text.isprintable())


def test_values_by_place() -> None:
    template = "#SBATCH --job-name=@{name}\n# for @{name}\necho @{name}\n@{more_lines}\n"
    text = render(template, {"name": "a.b", "more_lines": "one\ntwo\n"})
    assert text == "#SBATCH --job-name=a.b\n# for a.b\necho a.b\none\ntwo\n"


def test_an_empty_block_leaves_no_line() -> None:
    assert render("a\n  @{x_lines}\nb", {"x_lines": ""}) == "a\nb"


def test_the_shells_own_words_are_left_alone() -> None:
    code = '"$@" ${list[@]} ${1:-x} $name $(date) a@b.c %x.%j {"k": 1} $$'
    assert render(code, {}) == code
    assert placeholders(code + " @{z} @{a} @{z}") == ("z", "a")


def test_unknown_and_missing_are_named() -> None:
    with pytest.raises(TemplateError, match=r"has unknown placeholders: @\{qos\}"):
        render("@{qos} @{name}", {"name": "x"})
    with pytest.raises(TemplateError, match=r"no place for @\{account\}, @\{qos\}"):
        render("@{name}", {"name": "x", "qos": "q", "account": "a"})


@pytest.mark.parametrize("broken", ["@{", "@{}", "@{Name}", "@{a b}", "@{a", "@{1a}", "@{a-b}"])
def test_a_broken_placeholder_is_shown_with_its_line(broken: str) -> None:
    with pytest.raises(TemplateError, match="Line 2 "):
        render(f"fine\necho {broken}", {})


@pytest.mark.parametrize("line", ["echo '@{x}'", 'echo "@{x}"', 'echo "it\'s @{x}"', "echo a\\\\'@{x}'"])
def test_a_placeholder_in_quotes_is_refused(line: str) -> None:
    with pytest.raises(TemplateError, match="inside quotes"):
        render(line, {"x": "word"})


def test_quotes_that_are_closed_do_not_matter() -> None:
    assert render("echo 'a' \"b's\" \\' @{x}", {"x": "c d"}) == "echo 'a' \"b's\" \\' 'c d'"


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


@given(st.text(alphabet=string.printable + "@{}é\0"))
def test_any_template_gives_text_or_a_template_error(template: str) -> None:
    try:
        names = placeholders(template)
        render(template, dict.fromkeys(names, "word"))
    except TemplateError as error:
        assert str(error)


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


def test_a_template_for_every_form() -> None:
    assert all(read_template(form).startswith("#!/bin/bash\n") for form in FORMS)
    with pytest.raises(UsageError, match="two-jobs") as caught:
        read_template("two-jobs")
    assert "one-job" in caught.value.hint
