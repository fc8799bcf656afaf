"""Answer files: headings once, the student's text untouched, what is answered read back."""

from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from labtui.lab.evidence import Evidence, new_sheet, read_sheet, text_above, text_to_edit, with_answer
from tests.lab.builders import EDITION, check

TASK = EDITION.task("10.4")
SHEET = new_sheet(TASK)
LINES = ["```", "````", "~~~", "~~~ a", "```py", "# T", "## 1. x", "## 9 y", "<!--", "-->", "text", "", "- a"]


def put(number: int, text: str, sheet: str = SHEET) -> str:
    """The sheet with an answer written below one question."""
    heading = next(line for line in sheet.splitlines() if line.startswith(f"## {number}."))
    return sheet.replace(heading, f"{heading}\n\n{text}")


def test_text_below_a_heading_is_the_answer_also_of_one_reworded_renumbered_or_moved():
    assert SHEET.startswith("# Task 10.4: ") and SHEET.count("\n## ") == len(TASK.questions) == 3
    assert read_sheet(TASK, SHEET) == ("", "", "")
    assert read_sheet(TASK, put(2, "As *memory bandwidth*.")) == ("", "As *memory bandwidth*.", "")
    for text in ("   \n\n", "<!-- later -->", "---", "- \n- \n", "***"):
        assert read_sheet(TASK, put(1, text)) == ("", "", ""), text
    _, second, third = (question.text for question in TASK.questions)
    text = f"## {third}\n\nc\n\n## 1. shorter\n\na\n\n## 9. {second.upper()} ##\n\nb\n"
    assert read_sheet(TASK, text) == ("a", "b", "c")


@given(st.lists(st.tuples(st.integers(0, 2), st.lists(st.sampled_from(LINES), max_size=6)), max_size=5))
@example([(2, ["last"]), (0, ["```python"]), (0, ["```python", "x=1", "```"])])
@example([(0, ["# T", "a"]), (0, ["# T", "b"])])
def test_answers_of_any_form_change_no_other(edits):
    sheet, wanted = SHEET, ["", "", ""]
    for index, lines in edits:
        wanted[index] = "\n".join(lines).strip("\n")
        sheet = with_answer(TASK, sheet, index, wanted[index])
    assert [text_to_edit(TASK, sheet, index) for index in range(3)] == wanted
    twice = replace(TASK, questions=(TASK.questions[0], TASK.questions[0]))
    assert read_sheet(twice, with_answer(twice, new_sheet(twice), 1, "b")) == ("", "b")


@given(st.text(max_size=300))
def test_any_file_is_read_and_what_stands_under_no_question_is_no_answer(text):
    assert len(read_sheet(TASK, text)) == 3
    above = SHEET.replace("\n## 1", "\nBefore all.\n\n## 1")
    assert read_sheet(TASK, above) == ("", "", "") and "Before all." in with_answer(TASK, above, 0, "a")
    line = above.splitlines().index("Before all.") + 1
    said = f"answers/10.4.md, line {line}: text above the first question is in no answer."
    assert (text_above(TASK, above), text_above(TASK, SHEET)) == (said, "")
    assert said in check("10.4", Evidence(above={"10.4": said})).notes
