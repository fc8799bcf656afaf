"""A good edition, and mistakes that an author can make in it: the changed text, its line, and the error message."""

# ruff: noqa: E501 - one mistake to a line

from pathlib import Path

GOOD = Path(__file__).with_name("good.toml").read_text(encoding="utf-8")
HEAD = GOOD.partition("\n[[facts]]")[0]
"""The head of an edition: its id, title and so on."""
SWEEP = GOOD[GOOD.index("[[tasks.sweeps]]") :]


def line(text: str) -> int:
    """The line of GOOD that begins with this text."""
    return next(i for i, content in enumerate(GOOD.splitlines(), 1) if content.startswith(text))


def last(text: str) -> int:
    return max(i for i, content in enumerate(GOOD.splitlines(), 1) if content.startswith(text))


ROW, CHECK, QUESTION = line("  { gpus"), line("  { kind"), line("  { text")
RUNS, CELL = 'kind = "runs"', "epoch_seconds = 5"

MISTAKES = [
    # TOML and the schema
    ('title = "A lab"', "title = A lab", line("title"), "not valid TOML"),
    ("[[published]]", "[published", line("[[published]]"), "not valid TOML"),
    ("epochs = 5", "epoch = 5", last("epochs"), "`epoch` is not a field of task 1, sweep 1. Did you mean `epochs`?"),
    ("epochs = 5\n", "", line("[[tasks.sweeps]]"), "`epochs` is missing in task 1, sweep 1."),
    ("epochs = 5", 'epochs = "5"', last("epochs"), "epochs must be a whole number, not text"),
    ("checks = [", "checks = []\nnochecks = [", line("checks"), "checks must be a list of length >= 1"),
    ('kind = "answers"', 'kind = "answer"', last('  { kind = "answers'), "one of runs, constant-batch"),
    ("format = 1", "format = 2", line("format"), "format cannot be 2"),
    ("format = 1", "format = 1\nstartup_seconds = [1, 2, 3]", line("format") + 1, "must be a list of length 2"),
    ('what = "w"', 'what = "\\u001b[31mred"', line("what"), "control or invisible character (U+001B)"),
    ('about = "a"', 'about = """' + "a" * 8001 + '"""', line("about"), "more than 8,000 characters"),
    ('title = "A lab"', 'title = ""', line("title"), "`title` is empty"),
    ("format = 1", "format = 1\nimages = 2000000000", line("format") + 1, "images must be a whole number <= 1000000000"),
    (CELL, "epoch_seconds = nan", ROW, "epoch_seconds must be a number > 0.0"),
    # what a single value may be
    ('id = "mine"', 'id = "Mine!"', line("id"), "`id` is lowercase letters"),
    ('id = "1"', 'id = "task one"', line('id = "1"'), "a task's number"),
    ('model = "ResNet50"\ngpus', 'model = "Res Net"\ngpus', last("model"), "`model` is a name"),
    ('script = "ResNet50.py"', 'script = "../../etc/passwd"', last("script"), "a plain file name"),
    ('script = "ResNet50.py"', 'script = "job.sh"', last("script"), "ends in .py"),
    (RUNS, 'kind = "files", files = ["/etc/passwd"]', CHECK, "a plain file name"),
    (RUNS, 'kind = "hand-in", files = ["out/deck.pdf"]', CHECK, "in the lab folder itself"),
    (RUNS, 'kind = "metric", metric = "val accuracy", at_least = 0.5', CHECK, "a name as Python's code has them"),
    (RUNS, 'kind = "edited", script = "a.py", original = "b.py", names = ["x()"]', CHECK, "a name as Python's code"),
    (CELL, CELL + ", accuracy = 30", ROW, "accuracy must be a number <= 1.0"),
    # what the values of one table say of each other
    ("format = 1", "format = 1\nstartup_seconds = [9, 1]", line("format") + 1, "is a range"),
    ("gpus = 2\nbatch", "gpus = 0\nbatch", last("gpus"), "at least 1 with the others"),
    ('form = "one-job"', 'form = "cpu"', last("gpus"), "`gpus` is 0 with the form 'cpu'"),
    ('form = "one-job"', 'form = "one-gpu"', last("form"), "for exactly one GPU"),
    ('form = "one-job"', 'form = "mpi"', last("form"), "is for programs"),
    ("epochs = 5", "epochs = 5\ncpus = 20", last("epochs") + 1, "`cpus` is for the form 'cpu'"),
    ("epochs = 5", 'epochs = 5\ndata_set = "tiny-224"', last("epochs") + 1, "`data_set` is for the form 'torchrun' or 'task-per-gpu'"),
    (RUNS, 'kind = "edited", script = "a.py", original = "a.py", names = ["x"]', CHECK, "must differ"),
    (CELL, CELL + ", tolerance = [2, 1]", ROW, "`tolerance` goes from low to high"),
    (CELL, "efficiency = [50, 90]", ROW, "not a percentage"),
    # what tables say of each other
    ('facts = ["f"]', 'facts = ["g"]', QUESTION, "no fact with the id 'g'"),
    ('what = "w"', 'what = "w"\nfacts = ["nowhere"]', line("what") + 1, "no fact with the id"),
    ('[[facts]]\nid = "f"', '[[facts]]\nid = "f"\ntext = "x"\nsource = "y"\n[[facts]]\nid = "f"', line("[[facts]]") + 5, "two facts with the id 'f'"),
    ("  { kind = \"runs\" },\n", "", None, None),
    (RUNS, RUNS + ', tasks = ["9"]', CHECK, "There is no task '9'"),
    (RUNS, 'kind = "charts", charts = ["epoch-times"]', CHECK, "no chart 'epoch-times'. Did you mean 'epoch-time'?"),
    (RUNS, 'kind = "fit", model = "ResNet5O", laws = ["amdahl"]', CHECK, "No task plans a run of 'ResNet5O'"),
    ("batch = 2048", "batch = [2048, 1024]", None, None),
    (RUNS, 'kind = "constant-batch"', None, None),
    ("[[tasks.sweeps]]", SWEEP + "[[tasks.sweeps]]", line("[[tasks.sweeps]]") + 7, "ResNet50 on 2 GPUs with batch 4,096 twice"),
    ("format = 1", "format = 1\nimages = 4000", last("batch") + 1, "more than all 4,000 images"),
    (', source = "book"', "", ROW, "need a `source`"),
    ("{ gpus = 2, epoch", "{ gpus = 8, epoch", ROW, "No task plans such a run of ResNet50 on 8 GPUs, so these numbers"),
    ("{ gpus = 2, epoch", "{ epoch", ROW, "No task plans such a run of ResNet50 on 1 GPU"),
    ('[[published]]\nmodel = "ResNet50"', '[[published]]\nmodel = "ResNet5O"', ROW, "Did you mean 'ResNet50'?"),
    # names of what exists elsewhere
    ('script = "ResNet50.py"', 'script = "ResNet5O.py"', last("script"), "a script of the course goes into `scripts`. Did you mean 'ResNet50.py'?"),
    ('what = "w"', 'what = "w"\nfiles = ["ResNet5O.py"]', line("what") + 1, "does not come with labtui"),
    (RUNS, 'kind = "files", files = ["cifar-utils/cifra.py"]', CHECK, "does not come with labtui"),
]  # fmt: skip
