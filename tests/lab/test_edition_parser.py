"""Any mistake in an edition file is one sentence with the file and the line; nothing hostile gets through."""

from itertools import product
from pathlib import Path

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from labtui.domain.errors import DataError
from labtui.lab.edition_file import line_of, parse_edition
from labtui.session.labs import LABS, read_edition_file
from tests.lab.mistakes import GOOD, MISTAKES
from tests.lab.proof import prove, published_rows

KNOWN = {"script": {"ResNet50.py", "cifar-utils/cifar.py"}, "profile": {"mn5", "practice"}}  # shipped
EXTENDING = Path(__file__).with_name("extending.toml").read_text(encoding="utf-8")
SHIPPED = (LABS / "hpc4ai-ch10.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize(("old", "new", "where", "words"), MISTAKES, ids=map(str, range(len(MISTAKES))))
def test_a_mistake_has_file_line_and_sentence(old, new, where, words):
    assert old in GOOD
    text = GOOD.replace(old, new, 1)
    if words is None:
        parse_edition(text, "lab.toml", KNOWN)
        return
    with pytest.raises(DataError) as caught:
        parse_edition(text, "lab.toml", KNOWN)
    error = caught.value
    assert words in error.sentence
    assert error.sentence.startswith("lab.toml, line ") and error.sentence.rstrip().endswith((".", "?"))
    assert error.line == where, error.sentence


def test_positions_survive_strings_comments_and_inline_tables():
    text = 'a = 1 # [x]\nb = """\nc = 5\n[[t]]\n"""\n[[t]]\nk = [\n  1,\n  { z = "]" },\n]\n[[t]]\nk = [3]\nm.n = 4\n'
    lines = {("a",): 1, ("b",): 2, ("c",): None, ("t", 0): 6, ("t", 0, "k", 1, "z"): 9, ("t", 1, "k", 0): 12}
    for place, line in (lines | {("t", 1, "m", "n"): 13}).items():
        assert line_of(text.replace("[x]", '\\"""' * 20_000), place) == line


def test_an_edition_that_extends_another_says_only_what_differs():
    base, mine = parse_edition(SHIPPED), parse_edition(EXTENDING, base=SHIPPED)
    assert (mine.id, mine.extends, mine.source) == ("mine", "hpc4ai-ch10", base.source)
    assert [task.id for task in mine.tasks] == [*(task.id for task in base.tasks), "11.1"]
    assert mine.task("10.4") == msgspec.structs.replace(base.task("10.4"), title="Another title")
    assert mine.bands[:-1] == base.bands and mine.hand_in == base.hand_in


def test_published_numbers_of_another_edition_come_before_its_own():
    shared = published_rows(parse_edition(SHIPPED))
    mine = published_rows(read_edition_file(LABS / "sa-miri-2025-pg.toml"))
    assert mine[: len(shared)] == shared and {row.model for row in mine[len(shared) :]} == {"ResNet101"}
    text = GOOD.replace("format = 1", 'format = 1\npublished_in = "nothing"')
    with pytest.raises(DataError, match="line 2: `published_in` cannot be 'nothing'"):
        parse_edition(text, "lab.toml")


@pytest.mark.parametrize(("old", "new", "line", "words"), [
    ('title = "One more"', 'title = " "', 7, "`title` is empty"),
    ('title = "Another title"', "title = 5", 16, "title must be text"),
    ("gpus = 2", "gpus = 3", 20, "so these numbers are never used"),
    ('model = "ResNet50"', 'model = "ResNet5"', 20, "so these numbers are never used"),
    ('extends = "hpc4ai-ch10"', 'extends = "nothing"', 2, "`extends` cannot be 'nothing'"),
    ('extends = "hpc4ai-ch10"', 'extends = "sa-miri-2025-pg"', 2, "one of labtui's that builds on no other"),
    ('id = "mine"', 'published_in = "hpc4ai-ch10"\nid = "mine"', 3, "is of no use beside `extends`"),
])  # fmt: skip
def test_a_mistake_in_what_extends_has_its_own_line(old, new, line, words, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(EXTENDING.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(DataError, match=words) as caught:
        read_edition_file(path, check_names=False)
    assert caught.value.line == line


@given(st.text(max_size=400))
@example("a = " + "[" * 5000 + "]" * 5000)
def test_any_text_is_refused_in_a_sentence(text):
    with pytest.raises(DataError):
        parse_edition(text, "x.toml")


def test_tasks_have_numbers_of_their_own_weights_that_add_up_and_an_edition_has_some():
    start = GOOD.index("[[tasks]]")
    for text, words in (
        (GOOD + GOOD[start:], "two tasks with the id '1'"),
        ("tasks = []\n" + GOOD[:start], "tasks must be a list of length >= 1"),
        (GOOD.replace('title = "t"', 'title = "t"\nweight = 30'), "add up to 30 percent"),
        ("#" * 200_001, "too long"),
    ):
        with pytest.raises(DataError, match=words):
            parse_edition(text)


def test_a_sweep_is_a_run_for_each_combination_gpus_changing_fastest():
    several = 'gpus = [2, 4]\nbatch = [64, 128]\nvary = [[], ["--compile"]]'
    (task,) = parse_edition(GOOD.replace("gpus = 2\nbatch = 2048", several)).tasks
    specs = [run.spec for run in task.runs]
    found = [(spec.extra_args, spec.per_gpu_batch, spec.n_gpus) for spec in specs]
    assert found == list(product(((), ("--compile",)), (64, 128), (2, 4)))
    assert all(spec.batch_size == spec.per_gpu_batch * spec.n_gpus for spec in specs)
    assert {spec.device for spec in specs} == {"gpu"}
    text = GOOD.replace('form = "one-job"', 'form = "cpu"').replace("gpus = 2", "gpus = 0")
    ((run,),) = (task.runs for task in parse_edition(text).tasks)
    assert (run.spec.device, run.spec.n_gpus, run.spec.batch_size) == ("cpu", 0, 2048)


def test_published_numbers_are_bands_by_their_tolerance():
    row = '{ gpus = 2, epoch_seconds = 5, source = "book" },'
    other = (
        "{ gpus = 2, epoch_seconds = 10, first_epoch_seconds = 20, first_tolerance = [0.5, 2], "
        'speedup = [1.5, 2], source = "slides", advice = "Look." },'
    )
    bands = parse_edition(GOOD.replace(row, row + other)).bands
    assert [(b.quantity, b.low, b.high, b.source, b.advice) for b in bands] == [
        ("epoch_seconds", 3.0, 16.0, "book; slides", "Look."),
        *(("first_epoch_seconds", 10.0, 40.0, "slides", ""), ("speedup", 1.5, 2.0, "slides", "Look.")),
    ]
    assert parse_edition(GOOD.replace("rows = [", "tolerance = [1, 1.2]\nrows = [")).bands[0].high == 6.0


@pytest.mark.parametrize(("old", "new", "words"), [
    ("epochs = 5", "epochs = 1", "2 are needed, as the first is warm-up"),
    ('"runs"', '"fit", model = "ResNet50", laws = ["amdahl"]', "on three sizes, one GPU among them"),
    ('"runs"', '"runs", outcomes = ["oom"]', "not done when all its runs are"),
])  # fmt: skip
def test_a_check_that_no_run_can_meet_is_seen_by_the_proof(old, new, words):
    (proof,) = prove(parse_edition(GOOD.replace(old, new, 1)))
    assert not proof.holds and words in proof.sentence


def test_what_an_edition_brings_itself_is_known():
    """A script of the course, one a task has copied; and a lab folder's own scripts are its own business."""
    own = GOOD.replace('script = "ResNet50.py"', 'script = "vgg.py"')
    parse_edition(own)
    parse_edition(own.replace("format = 1", 'format = 1\nscripts = ["vgg.py"]'), "lab.toml", KNOWN)
    edited = 'kind = "edited", script = "vgg.py", original = "ResNet50.py", names = ["x"]'
    parse_edition(own.replace('kind = "runs"', edited), "lab.toml", KNOWN)
