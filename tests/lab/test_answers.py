"""Answer files: headings once, the student's text untouched, what is answered read back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from labtui.lab.evidence import new_sheet, read_sheet, text_to_edit, with_answer
from tests.lab.builders import EDITION

TASK = EDITION.task("10.4")
SHEET = new_sheet(TASK)


def put(number: int, text: str, sheet: str = SHEET) -> str:
    """The sheet with an answer written below one question."""
    heading = next(line for line in sheet.splitlines() if line.startswith(f"## {number}."))
    return sheet.replace(heading, f"{heading}\n\n{text}")


def test_a_new_sheet_has_the_questions_and_text_below_a_heading_is_the_answer():
    assert SHEET.startswith("# Task 10.4: ")
    assert SHEET.count("\n## ") == len(TASK.questions) == 3
    assert read_sheet(TASK, SHEET).answered == (False, False, False)
    sheet = read_sheet(TASK, put(2, "Because of *memory bandwidth*."))
    assert sheet.answered == (False, True, False) and sheet.texts[1] == "Because of *memory bandwidth*."
    for text in ("   \n\n", "<!-- later -->", "---", "- \n- \n", "***"):
        assert read_sheet(TASK, put(1, text)).answered == (False, False, False), text


def test_headings_may_be_reworded_renumbered_or_moved():
    _, second, third = (question.text for question in TASK.questions)
    text = f"## {third}\n\nc\n\n## 1. shorter\n\na\n\n## 9. {second.upper()} ##\n\nb\n"
    assert read_sheet(TASK, text).texts == ("a", "b", "c")


@pytest.mark.parametrize("answer", [
    "### detail\n\n```sh\n## 2. not a heading\n```\n\n## 1. An aside\n\nmore",
    *("````\n```\n# 1\n````\n\n# Title\n\n~~~text\n~~~ is no end", "```python", "```python\nx=1\n```", ""),
])  # fmt: skip
def test_an_answer_of_any_form_changes_no_other(answer):
    assert read_sheet(TASK, put(2, answer)).texts == ("", answer, "")
    before = with_answer(TASK, with_answer(TASK, SHEET, 1, "```python\n# open"), 2, "The last.")
    text = with_answer(TASK, before, 1, answer)
    assert read_sheet(TASK, text).texts == ("", answer, "The last.") and text_to_edit(TASK, text, 1) == answer
    assert text.count("\n## ") == 3 + answer.count("\n## ")
    twice = replace(TASK, questions=(TASK.questions[0], TASK.questions[0]))
    assert read_sheet(twice, with_answer(twice, new_sheet(twice), 1, answer)).texts == ("", answer)


@given(st.text(max_size=300))
def test_any_file_is_read_and_what_stands_under_no_question_is_no_answer(text):
    assert len(read_sheet(TASK, text).texts) == 3
    sheet = read_sheet(TASK, SHEET.replace("\n## 1", "\nBefore all.\n\n## 1"))
    assert sheet.texts == ("", "", "")
