"""Any mistake in an edition file is one sentence with the file and the line; nothing hostile gets through."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labtui.core.lab.edition import parse_edition
from labtui.core.lab.places import line_of
from labtui.engine.labs import labs_folder
from labtui.errors import DataError

GOOD = """format = 1
id = "mine"
title = "A lab"
course = "c"
term = "t"
source = "s"
about = "a"

[[facts]]
id = "f"
text = "fact"
source = "me"

[[bands]]
quantity = "epoch-seconds"
model = "ResNet50"
low = 1
high = 2
source = "me"

[[tasks]]
id = "1"
title = "t"
what = "w"
why = "y"
questions = [
  { text = "Why?", facts = ["f"] },
]
checks = [
  { kind = "runs" },
  { kind = "answers" },
]

[[tasks.runs]]
form = "one-job"
model = "ResNet50"
device = "gpu"
gpus = 2
batch_size = 4096
per_gpu_batch = 2048
epochs = 5
script = "ResNet50.py"

[reference]
runs = [{ model = "ResNet50", gpus = 2, first_epoch_seconds = 9, epoch_seconds = 5 }]
"""


def line(text: str) -> int:
    """The line of GOOD that begins with this text."""
    return next(i for i, content in enumerate(GOOD.splitlines(), 1) if content.startswith(text))


def last(text: str) -> int:
    return max(i for i, content in enumerate(GOOD.splitlines(), 1) if content.startswith(text))


MISTAKES = [
    ("epochs = 5", "epoch = 5", last("epochs"), "`epoch` is not a field of task 1, run 1. Did you mean `epochs`?"),
    ("epochs = 5\n", "", line("[[tasks.runs]]"), "`epochs` is missing in task 1, run 1."),
    ("epochs = 5", 'epochs = "5"', last("epochs"), "task 1, run 1, epochs should be a whole number, not text"),
    ("epochs = 5", "epochs = 0", last("epochs"), "`epochs` is at least 1."),
    ('device = "gpu"', 'device = "tpu"', last("device"), "one of cpu, gpu"),
    ('form = "one-job"', 'form = "array"', last("form"), "one of cpu, one-gpu, one-job, job-per-size"),
    ('kind = "answers"', 'kind = "answer"', last("  { kind = \"answers"), "one of runs,"),
    ("batch_size = 4096", "batch_size = 4095", last("batch_size"), "2 x 2048 per GPU is 4096"),
    ("per_gpu_batch = 2048\n", "", line("[[tasks.runs]]"), "says both batches"),
    ("gpus = 2", "gpus = 0", last("gpus"), "a GPU run at least 1"),
    ('facts = ["f"]', 'facts = ["g"]', line("  { text"), "no fact with the id 'g'"),
    ("low = 1", "low = 3", line("[[bands]]"), "from low to high"),
    ("low = 1", "low = nan", line("low"), "finite number"),
    ('script = "ResNet50.py"', 'script = "../../etc/passwd"', last("script"), "not a plain file name"),
    ('script = "ResNet50.py"', 'script = "a b;rm -rf ~.py"', last("script"), "not a plain file name"),
    ('model = "ResNet50"\ndevice', 'model = "Res Net"\ndevice', last("model"), "not a model name"),
    ('id = "mine"', 'id = "Mine!"', line("id"), "small letters"),
    ('id = "1"', 'id = "task one"', line('id = "1"'), "its number"),
    ('title = "t"', 'title = " "', last("title"), "needs a text for `title`"),
    ('what = "w"', 'what = "\\u001b[31mred"', line("what"), "control or invisible character (U+001B)"),
    ('what = "w"', 'what = "\u202egnirts"', line("what"), "U+202E"),
    ("checks = [", "checks = []\nnochecks = [", None, "`nochecks` is not a field"),
    ("  { kind = \"runs\" },\n", "", None, None),
    ('title = "A lab"', "title = A lab", line("title"), "not valid TOML"),
    ("[reference]", "[reference", line("[reference]"), "not valid TOML"),
    ("gpus = 2, first", "gpus = 4, first", line("[[tasks.runs]]"), "no time for ResNet50 on 2 GPUs"),
    ('format = 1', 'format = 1\nimages = 0', line("format") + 1, "counts the training images"),
    ('format = 1', 'format = 1\nbase_learning_rate = 0.0', line("format") + 1, "must be above 0"),
    ('format = 1', 'format = 1\nstartup_seconds = [9, 1]', line("format") + 1, "is a range"),
    ("low = 1", "gpus = -1\nlow = 1", line("low"), "`gpus` is 0 for a CPU"),
    ('high = 2\nsource = "me"', 'high = 2\nsource = " "', last("source") , "needs its source"),
    ('text = "Why?"', 'text = " "', line("  { text"), "A question needs its text"),
    ("epochs = 5", "epochs = 5\ncpus = 0", last("epochs") + 1, "`cpus` is at least 1"),
    ("epochs = 5", "epochs = 5\nlearning_rate = 0.0", last("epochs") + 1, "`learning_rate` must be above 0"),
    ('form = "one-job"', 'form = "one-gpu"', last("form"), "for exactly one GPU"),
    ('form = "one-job"', 'form = "cpu"', last("form"), "does not fit the device 'gpu'"),
    ('kind = "runs"', 'kind = "runs", tasks = ["9"]', line("  { kind"), "There is no task '9'"),
    ('kind = "runs"', 'kind = "runs", min_epochs = -1', line("  { kind"), "`min_epochs` from 0 on"),
    ('kind = "runs"', 'kind = "charts", charts = []', line("  { kind"), "at least one chart"),
    ('kind = "runs"', 'kind = "fit", model = "ResNet50", laws = []', line("  { kind"), "at least one law"),
    ('kind = "runs"', 'kind = "files", files = []', line("  { kind"), "at least one file"),
    ('kind = "runs"', 'kind = "files", files = ["/etc/passwd"]', line("  { kind"), "not a plain file name"),
    ('kind = "runs"', 'kind = "edited", script = "a.py", original = "b.py", names = []', line("  { kind"), "which names"),  # noqa: E501
    ('kind = "runs"', 'kind = "edited", script = "../a.py", original = "b.py", names = ["x"]', line("  { kind"), "not a plain"),  # noqa: E501
    ('what = "w"', 'what = "w"\nfiles = ["a/../../b.py"]', line("what") + 1, "not a plain file name"),
    ('what = "w"', 'what = "w"\nfacts = ["nowhere"]', line("what") + 1, "no fact with the id"),
    ('what = "w"', 'what = "w"\nweight = -100.0', None, "a share of the mark"),
    ('about = "a"', 'about = """' + "a" * 8001 + '"""', line("about"), "more than 8,000 characters"),
    ("epoch_seconds = 5 }", "epoch_seconds = 0 }", line("runs = [{"), "seconds above 0"),
    ("gpus = 2, first", 'task = "8", gpus = 2, first', line("runs = [{"), "There is no task '8'"),
    ("format = 1", "format = 2", line("format"), "format cannot be 2"),
    ('[[facts]]\nid = "f"', '[[facts]]\nid = "f"\ntext = "x"\nsource = "y"\n[[facts]]\nid = "f"', None, "two facts"),
]  # fmt: skip


def test_the_good_one_is_good():
    edition = parse_edition(GOOD, "lab.toml")
    assert edition.tasks[0].runs[0].per_gpu_batch == 2048


@pytest.mark.parametrize(
    ("old", "new", "where", "words"), MISTAKES, ids=[str(i) for i in range(len(MISTAKES))]
)
def test_a_mistake_has_file_line_and_sentence(old, new, where, words):
    assert old in GOOD
    text = GOOD.replace(old, new, 1)
    if words is None:
        parse_edition(text, "lab.toml")
        return
    with pytest.raises(DataError) as caught:
        parse_edition(text, "lab.toml")
    error = caught.value
    assert words in error.sentence
    assert error.sentence.startswith("lab.toml, line ")
    assert error.sentence.rstrip().endswith((".", "?"))
    assert error.path == "lab.toml"
    if where is not None:
        assert error.line == where, error.sentence


def test_a_task_without_a_check_is_refused():
    text = GOOD.replace('checks = [\n  { kind = "runs" },\n  { kind = "answers" },\n]', "checks = []")
    with pytest.raises(DataError, match="could never tick"):
        parse_edition(text)


def test_weights_must_add_up():
    with pytest.raises(DataError, match="add up to 30 percent"):
        parse_edition(GOOD.replace('title = "t"', 'title = "t"\nweight = 30'))


def test_positions_survive_strings_comments_and_inline_tables():
    text = 'a = 1 # [x]\nb = """\nc = 5\n[[t]]\n"""\n[[t]]\nk = [\n  1,\n  { z = "]" },\n]\n[[t]]\nk = [3]\nm.n = 4\n'
    assert line_of(text, ("a",)) == 1
    assert line_of(text, ("b",)) == 2
    assert line_of(text, ("c",)) is None
    assert line_of(text, ("t", 0)) == 6
    assert line_of(text, ("t", 0, "k", 1, "z")) == 9
    assert line_of(text, ("t", 1, "k", 0)) == 12
    assert line_of(text, ("t", 1, "m", "n")) == 13


SHIPPED = (labs_folder() / "hpc4ai-ch10.toml").read_text(encoding="utf-8")


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_a_damaged_file_is_read_or_refused_in_a_sentence(data):
    """Lines lost, doubled, swapped for others or for noise: never anything but a DataError with a sentence."""
    lines = SHIPPED.splitlines()
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(lines) - 1))
        kind = data.draw(st.sampled_from(["drop", "double", "noise", "cut"]))
        if kind == "drop":
            del lines[at]
        elif kind == "double":
            lines.insert(at, lines[at])
        elif kind == "noise":
            lines[at] = data.draw(st.text(max_size=40))
        else:
            lines[at] = lines[at][: len(lines[at]) // 2]
    try:
        parse_edition("\n".join(lines), "x.toml")
    except DataError as error:
        assert error.sentence
        assert error.line is None or 1 <= error.line <= len(lines) + 2
        assert "Traceback" not in error.sentence


@given(st.text(max_size=400))
@settings(max_examples=80, deadline=None)
def test_any_text_is_refused_in_a_sentence(text):
    with pytest.raises(DataError):
        parse_edition(text, "x.toml")


def test_deep_nesting_is_refused():
    with pytest.raises(DataError):
        parse_edition("a = " + "[" * 5000 + "]" * 5000, "x.toml")


def test_a_task_without_questions_has_nothing_to_answer_and_one_without_runs_nothing_to_run():
    text = GOOD.replace('questions = [\n  { text = "Why?", facts = ["f"] },\n]\n', "")
    with pytest.raises(DataError, match="asks no question"):
        parse_edition(text)
    head, _, tail = GOOD.partition("[[tasks.runs]]")
    with pytest.raises(DataError, match="none are planned"):
        parse_edition(head + tail[tail.index("[reference]") :])


def test_two_tasks_with_one_number_and_an_edition_without_tasks():
    start, end = GOOD.index("[[tasks]]"), GOOD.index("[reference]")
    with pytest.raises(DataError, match="two tasks with the id '1'"):
        parse_edition(GOOD[:end] + GOOD[start:end] + GOOD[end:])
    with pytest.raises(DataError, match="at least one task"):
        parse_edition("tasks = []\n" + GOOD[:start] + GOOD[end:])


def test_a_cpu_run_has_no_per_gpu_batch():
    text = GOOD.replace('form = "one-job"', 'form = "cpu"').replace('device = "gpu"', 'device = "cpu"')
    with pytest.raises(DataError, match="has no per-GPU batch"):
        parse_edition(text.replace("gpus = 2", "gpus = 0"))


def test_a_script_of_the_reference_stays_in_the_folder():
    text = GOOD + '[[reference.scripts]]\npath = "~/x.py"\ntext = ""\n'
    with pytest.raises(DataError, match="not a plain file name"):
        parse_edition(text)


def test_a_file_without_end_is_not_read():
    with pytest.raises(DataError, match="no edition needs that"):
        parse_edition("#" * 1_000_001)
