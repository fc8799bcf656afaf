"""Answer files: headings once, the student's text untouched, what is answered read back."""

from hypothesis import given
from hypothesis import strategies as st

from labtui.lab.evidence import AnswerSheet, new_sheet, read_sheet
from tests.lab.builders import EDITION

TASK = EDITION.task("10.4")
SHEET = new_sheet(TASK)


def put(number: int, text: str, sheet: str = SHEET) -> str:
    """The sheet with an answer written below one question."""
    heading = next(line for line in sheet.splitlines() if line.startswith(f"## {number}."))
    return sheet.replace(heading, f"{heading}\n\n{text}")


def test_a_new_sheet_has_the_questions_and_no_answer():
    assert SHEET.startswith("# Task 10.4: ")
    assert SHEET.count("\n## ") == len(TASK.questions) == 3
    assert read_sheet(TASK, SHEET).answered == (False, False, False)


def test_text_below_a_heading_is_the_answer():
    sheet = read_sheet(TASK, put(2, "Because of *memory bandwidth*."))
    assert sheet.answered == (False, True, False) and sheet.texts[1] == "Because of *memory bandwidth*."
    for text in ("   \n\n", "<!-- later -->", "---", "- \n- \n", "***"):
        assert read_sheet(TASK, put(1, text)).answered == (False, False, False), text


def test_headings_may_be_reworded_renumbered_or_moved():
    _, second, third = (question.text for question in TASK.questions)
    text = f"## {third}\n\nc\n\n## 1. shorter\n\na\n\n## 9. {second.upper()} ##\n\nb\n"
    assert read_sheet(TASK, text).texts == ("a", "b", "c")


def test_sub_headings_and_code_belong_to_the_answer():
    answer = "### detail\n\n```sh\n## 2. not a heading\n```\n\n## An aside\n\nmore"
    sheet = read_sheet(TASK, put(1, answer))
    assert sheet.answered == (True, False, False)
    assert "An aside" in sheet.texts[0]


@given(st.text(max_size=300))
def test_any_file_is_read(text):
    assert len(read_sheet(TASK, text).texts) == 3


def test_answers_as_markdown_keep_blank_lines_and_what_stands_under_no_question():
    text = put(1, "First.\n\n- a\n- b") + "\n# Notes\n\nAfter all.\n"
    sheet = read_sheet(TASK, text)
    assert sheet.texts == ("First.\n\n- a\n- b", "", "")
    assert sheet.rest.strip() == "After all."
    assert read_sheet(TASK, SHEET) == AnswerSheet(("", "", ""))
