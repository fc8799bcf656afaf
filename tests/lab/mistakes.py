"""A good edition, and mistakes an author can make in it: what is written instead, on which line, what is said."""

# ruff: noqa: E501 - one mistake to a line

from __future__ import annotations

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
gpus = 2
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
    ("per_gpu_batch = 2048\n", "", line("[[tasks.runs]]"), "needs both batch sizes"),
    ("gpus = 2\nbatch", "gpus = 0\nbatch", last("gpus"), "a GPU run at least 1"),
    ('facts = ["f"]', 'facts = ["g"]', line("  { text"), "no fact with the id 'g'"),
    ("low = 1", "low = 3", line("[[bands]]"), "from low to high"),
    ("low = 1", "low = nan", line("low"), "finite number"),
    ('script = "ResNet50.py"', 'script = "../../etc/passwd"', last("script"), "not a plain file name"),
    ('script = "ResNet50.py"', 'script = "a b;rm -rf ~.py"', last("script"), "not a plain file name"),
    ('model = "ResNet50"\ndevice', 'model = "Res Net"\ndevice', last("model"), "not a model name"),
    ('id = "mine"', 'id = "Mine!"', line("id"), "lowercase letters"),
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
    ("gpus = 2\nlow", "gpus = -1\nlow", line("gpus"), "`gpus` is 0 for a CPU"),
    ('high = 2\nsource = "me"', 'high = 2\nsource = " "', last("source") , "needs its source"),
    ('text = "Why?"', 'text = " "', line("  { text"), "A question needs a text"),
    ("epochs = 5", "epochs = 5\ncpus = 0", last("epochs") + 1, "`cpus` is at least 1"),
    ("epochs = 5", "epochs = 5\nlearning_rate = 0.0", last("epochs") + 1, "`learning_rate` must be above 0"),
    ('form = "one-job"', 'form = "one-gpu"', last("form"), "for exactly one GPU"),
    ('form = "one-job"', 'form = "cpu"', last("form"), "does not fit the device 'gpu'"),
    ('kind = "runs"', 'kind = "runs", tasks = ["9"]', line("  { kind"), "There is no task '9'"),
    ('kind = "runs"', 'kind = "runs", min_epochs = -1', line("  { kind"), "`min_epochs` of 0 or more"),
    ('kind = "runs"', 'kind = "charts", charts = []', line("  { kind"), "at least one chart"),
    ('kind = "runs"', 'kind = "fit", model = "ResNet50", laws = []', line("  { kind"), "at least one law"),
    ('kind = "runs"', 'kind = "files", files = []', line("  { kind"), "at least one file"),
    ('kind = "runs"', 'kind = "files", files = ["/etc/passwd"]', line("  { kind"), "not a plain file name"),
    ('kind = "runs"', 'kind = "edited", script = "a.py", original = "b.py", names = []', line("  { kind"), "lists the names"),
    ('kind = "runs"', 'kind = "edited", script = "../a.py", original = "b.py", names = ["x"]', line("  { kind"), "not a plain"),
    ('what = "w"', 'what = "w"\nfiles = ["a/../../b.py"]', line("what") + 1, "not a plain file name"),
    ('what = "w"', 'what = "w"\nfacts = ["nowhere"]', line("what") + 1, "no fact with the id"),
    ('what = "w"', 'what = "w"\nweight = -100.0', None, "a share of the mark"),
    ('about = "a"', 'about = """' + "a" * 8001 + '"""', line("about"), "more than 8,000 characters"),
    ("epoch_seconds = 5 }", "epoch_seconds = 0 }", line("runs = [{"), "seconds above 0"),
    ("gpus = 2, first", 'task = "8", gpus = 2, first', line("runs = [{"), "There is no task '8'"),
    ("format = 1", "format = 2", line("format"), "format cannot be 2"),
    ('[[facts]]\nid = "f"', '[[facts]]\nid = "f"\ntext = "x"\nsource = "y"\n[[facts]]\nid = "f"', None, "two facts"),
    ('title = "A lab"', 'title = ""', line("title"), "`title` is empty"),
    ('course = "c"', 'course = " "', line("course"), "`course` is empty"),
    ('text = "fact"', 'text = ""', line("text"), "`text` is empty"),
    ('format = 1', 'format = 1\nprofiles = ["mn6"]', line("format") + 1, "no cluster profile 'mn6'; known are mn5"),
    ('format = 1', 'format = 1\nprofiles = ["mn5", "mn5"]', line("format") + 1, "'mn5' appears twice in `profiles`"),
    ('format = 1', 'format = 1\nimages = 2000000000', line("format") + 1, "above 1,000,000,000"),
    ('format = 1', 'format = 1\nimages = ' + "1" * 5000, line("format") + 1, "has too many digits"),
    ('format = 1', 'format = 1\nimages = 4000', last("batch_size") + 1, "more than all 4,000 images"),
    ('format = 1', 'format = 1\nstartup_seconds = [1, 2, 3]', line("format") + 1, "should be a list in square brackets of length 2"),
    ('script = "ResNet50.py"', 'script = "ResNet5O.py"', last("script"), "does not come with labtui, and no task makes it. Did you mean 'ResNet50.py'?"),
    ('script = "ResNet50.py"', 'script = "vgg.py"', last("script"), "goes under [[reference.scripts]]"),
    ('script = "ResNet50.py"', 'script = "job.sh"', last("script"), "a Python file ending in .py"),
    ('what = "w"', 'what = "w"\nfiles = ["ResNet5O.py"]', line("what") + 1, "does not come with labtui"),
    ('kind = "runs"', 'kind = "files", files = ["cifar-utils/cifra.py"]', line("  { kind"), "does not come with labtui"),
    ("low = 1", "batch_size = -7\nlow = 1", line("low"), "`batch_size` is at least 1"),
    ("low = 1", "batch_size = 8192\nlow = 1", line("low"), "with a global batch of at most 4,096, so this band is never used"),
    ("low = 1", "batch_size = 4097\nlow = 1", line("low"), "cannot be split evenly across 2 GPUs"),
    ('model = "ResNet50"\ngpus', 'model = "ResNet5O"\ngpus', line("model"), "No task plans a run of ResNet5O on 2 GPUs, so this band"),
    ("gpus = 2\nlow", "gpus = 8\nlow", line("gpus"), "No task plans a run of ResNet50 on 8 GPUs, so this band"),
    ("gpus = 2\nlow", "low", line("[[bands]]"), "No task plans a run of ResNet50 on 1 GPU, so this band"),
    ('quantity = "epoch-seconds"\nmodel = "ResNet50"\ngpus = 2', 'quantity = "speedup"\nmodel = "ResNet50"', line("[[bands]]"), "for two GPUs or more"),
    ('quantity = "epoch-seconds"\nmodel = "ResNet50"\ngpus = 2', 'quantity = "acceleration"\nmodel = "ResNet50"\ngpus = 0', line("gpus"), "for a GPU run"),
    ('"epoch-seconds"\nmodel = "ResNet50"\ngpus = 2\nlow = 1\nhigh = 2', '"efficiency"\nmodel = "ResNet50"\ngpus = 2\nlow = 50\nhigh = 90', line("high"), "not a percentage"),
    ('[[tasks]]', '[[bands]]\nquantity = "epoch-seconds"\nmodel = "ResNet50"\ngpus = 2\nlow = 3\nhigh = 9\nsource = "me"\n[[tasks]]', line("[[tasks]]"), "two bands of epoch-seconds"),
    ('facts = ["f"]', 'facts = []', line("[[facts]]"), "so it is never shown"),
    ('facts = ["f"]', 'facts = ["f", "f"]', line("  { text"), "'f' appears twice"),
    ('what = "w"', 'what = "w"\nhints = ["a", ""]', line("what") + 1, "`hints` is empty"),
    ('what = "w"', 'what = "w\u061c"', line("what"), "U+061C"),
    ('{ text = "Why?", facts = ["f"] },', '{ text = "Why?", facts = ["f"] },\n  { text = "Why?" },', line("  { text") + 1, "asked twice"),
    ("epochs = 5", "epochs = 1", line("  { kind"), "The check wants 2 epochs"),
    ("epochs = 5", "epochs = 10001", last("epochs"), "at most 10,000"),
    ("epochs = 5", "epochs = 5\ncpus = 20", last("epochs") + 1, "`cpus` is for CPU runs"),
    ("[[tasks.runs]]", GOOD[GOOD.index("[[tasks.runs]]"):GOOD.index("[reference]")] + "[[tasks.runs]]", line("[[tasks.runs]]") + 10, "ResNet50 on 2 GPUs with batch 4,096 twice"),
    ('kind = "runs" }', 'kind = "runs" }, { kind = "runs" }', line("  { kind"), "appears twice in `checks`"),
    ('kind = "runs"', 'kind = "runs", outcomes = ["completed", "completed"]', line("  { kind"), "appears twice in `outcomes`"),
    ('kind = "runs"', 'kind = "metric", metric = "val accuracy", at_least = 0.5', line("  { kind"), "not the name of a metric"),
    ('kind = "runs"', 'kind = "metric", metric = "accuracy", at_least = 0.0', line("  { kind"), "any run would reach this"),
    ('kind = "runs"', 'kind = "charts", charts = ["epoch-time"], models = ["ResNet5O"]', line("  { kind"), "Did you mean 'ResNet50'?"),
    ('kind = "runs"', 'kind = "charts", charts = ["speedup"], models = ["ResNet50"]', line("  { kind"), "fills the speedup chart"),
    ('kind = "runs"', 'kind = "fit", model = "ResNet5O", laws = ["amdahl"]', line("  { kind"), "No task plans a run of 'ResNet5O'"),
    ('kind = "runs"', 'kind = "fit", model = "ResNet50", laws = ["amdahl"]', line("  { kind"), "No law can be fitted"),
    ('kind = "runs"', 'kind = "edited", script = "a.py", original = "a.py", names = ["x"]', line("  { kind"), "needs another name"),
    ('kind = "runs"', 'kind = "edited", script = "a.py", original = "b.py", names = ["x()"]', line("  { kind"), "not a name in Python"),
    ('kind = "runs"', 'kind = "edited", script = "a.py", original = "b.py", names = ["x"]', line("  { kind"), "no text for a.py"),
    ('kind = "runs"', 'kind = "hand-in", files = ["out/deck.pdf"]', line("  { kind"), "in the lab folder itself"),
    ("epoch_seconds = 5 }", "epoch_seconds = 5, accuracy = 30 }", line("runs = [{"), "fraction from 0 to 1"),
    ("epoch_seconds = 5 }", "epoch_seconds = 5, epochs_read = 6 }", line("runs = [{"), "from 0 to the 5 epochs planned"),
    ("epoch_seconds = 5 }]", 'epoch_seconds = 5 }, { model = "ResNet5O", gpus = 2, first_epoch_seconds = 9, epoch_seconds = 5 }]', line("runs = [{"), "ResNet5O on 2 GPUs, which no task plans"),
    ("epoch_seconds = 5 }]", 'epoch_seconds = 5 }, { model = "ResNet50", gpus = 2, first_epoch_seconds = 8, epoch_seconds = 5 }]', line("runs = [{"), "two times for ResNet50 on 2 GPUs"),
    ("epoch_seconds = 5 }", 'epoch_seconds = 5, task = "1" }, { model = "ResNet50", gpus = 4, task = "1", first_epoch_seconds = 8, epoch_seconds = 5 }', line("runs = [{"), "Task 1 plans no run of ResNet50 on 4 GPUs"),
    ("[reference]", '[reference]\nfiles = ["../x"]', line("[reference]") + 1, "not a plain file name"),
    ('id = "mine"', 'id = "mine."', line("id"), "lowercase letters"),
]  # fmt: skip
