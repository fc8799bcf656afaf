"""Every log form that the documentation names is read, as it says; own forms; lines of an edition's programs."""

import math
import re
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labtui.commands.cli import main
from labtui.commands.parse import run_title
from labtui.domain.errors import DataError
from labtui.domain.model import Program
from labtui.training_logs.forms import TABLE, Forms
from labtui.training_logs.lines import LogLine
from labtui.training_logs.patterns import (
    Alike,
    line_pattern,
    own_pattern,
    read_hand_written,
    suggested_pattern,
)
from labtui.training_logs.reader import parse_log
from labtui.training_logs.runs import ParsedRun
from tests.training_logs.samples import ALL, LOGS, only_run
from tools import log_forms

FORMS = {form["title"]: form for form in log_forms.forms()}


def read_form(title: str, text: str) -> tuple[ParsedRun, ...]:
    own = [own_pattern(FORMS[title]["pattern"])] if "pattern" in FORMS[title] else []
    return parse_log(text.encode(), patterns=own).runs


def test_the_page_is_made_of_the_table():
    """After a change: `python tools/log_forms.py`."""
    assert log_forms.PAGE.read_text(encoding="utf-8") == log_forms.page()


@pytest.mark.parametrize("title", list(FORMS))
def test_a_form_is_read_and_its_line_is_what_is_read(title):
    runs = read_form(title, FORMS[title]["log"])
    assert any(run.epochs or run.throughput or run.batch_seconds for run in runs)
    line = FORMS[title]["line"].split("…")[0]
    lines = (each.strip().replace("\t", " ") for each in FORMS[title]["log"].splitlines())
    assert any(each.startswith(line) for each in lines), line
    drawn = re.sub("(.*)\n", "\x1b[?25l\x1b[1A\x1b[2K\r\\1\x1b[0m\x1b[K\n", FORMS[title]["log"])
    assert list(map(told, read_form(title, drawn))) == list(map(told, runs))


def told(run: ParsedRun) -> tuple[object, ...]:
    epochs = [(one.epoch, one.seconds, one.steps) for one in run.epochs]
    return epochs, run.throughput, run.batch_size, run.n_gpus, run.outcome


@pytest.mark.parametrize("prefix", ["0: ", "[default0]:", "[rank0]: ", "[1,0]<stdout>:", "[0]<stdout>:"])
@pytest.mark.parametrize("title", list(FORMS))
def test_a_form_is_read_behind_the_mark_of_its_rank(title, prefix):
    """One rank's mark changes nothing; a second rank that repeats every line adds nothing."""
    lines = FORMS[title]["log"].splitlines(keepends=True)
    other = prefix.replace("0", "1")
    (plain,) = read_form(title, FORMS[title]["log"])
    for repeated in (False, True):
        marked = (prefix + line + (other + line if repeated else "") for line in lines)
        (run,) = read_form(title, "".join(marked))
        assert told(run) == told(plain)


LINES = tomllib.loads((LOGS / "epochs.toml").read_text(encoding="utf-8"))
HAND_WRITTEN = LINES["hand-written"]


@pytest.mark.parametrize("line", HAND_WRITTEN)
def test_hand_written_lines(line):
    (epoch,) = parse_log(f"{line}\n".encode()).runs[0].epochs
    assert (epoch.epoch, epoch.seconds.lo, epoch.seconds.hi) == pytest.approx(HAND_WRITTEN[line])
    assert any(map(math.isnan, epoch.metrics.values())) is ("nan" in line.lower())
    forms, other = Forms(), re.sub(r"\d", lambda digit: str(9 - int(digit[0])), line)
    forms.read(LogLine(1, line), line)
    assert repr(forms.read(LogLine(2, other), other)) == repr(Forms().read(LogLine(2, other), other))


def test_a_line_like_the_first_is_read_without_a_search_in_a_log_of_a_million_epochs():
    alike, line = Alike(), "Epoch {}/1000000 | Time: 47.04s"
    assert alike.read(line.format(7)) is None and read_hand_written(line.format(1), alike=alike)
    assert alike.read(line.format(999_999)) == read_hand_written(line.format(999_999), alike=Alike())


@pytest.mark.parametrize(("printed", "metrics"), [
    ("top1: 70.2% | val_top1: 0.711", {"top1": 70.2}), ("top1: 70 | val_top1: 71.1", {"val_top1": 71.1}),
    ("acc: 70.2% | val_acc: 0.711", {"acc": 0.702}), ("acc: 70.2 | loss: 0.2", {"loss": 0.2}),
    ("top1: 0.702 | acc: 0.71", {"acc": 0.71}), ("acc: 0.7 | val_acc: 0.71", {"acc": 0.7, "val_acc": 0.71}),
])  # fmt: skip
def test_an_accuracy_that_may_be_in_percent_or_a_fraction_is_left_out(printed, metrics):
    log = "".join(f"Epoch {n} | {printed} | time: 12.{n} s\n" for n in (1, 2))
    assert [one.metrics for one in only_run(log).epochs] == [pytest.approx(metrics)] * 2


@pytest.mark.parametrize("form", [
    *("Epoch {} time: 12ms", "Epoch {}: 1.5 s, loss 12", "Epoch {} took 1:02:03", "Epoch {} took 1 min 35 s"),
    *("Epoch {} time: 13.75 seconds per step", "Epoch {}/3\n25/25 - 14s - loss: 1.2345e-04 - accuracy: 0.9123"),
])  # fmt: skip
def test_a_last_line_that_is_cut_anywhere_gives_no_other_number(form):
    def told(log: str) -> set[tuple[object, ...]]:
        epochs = [one for run in parse_log(log.encode()).runs for one in run.epochs]
        return {(one.epoch, *value) for one in epochs for value in [("", one.seconds), *one.metrics.items()]}

    log = "\n".join(form.format(number) for number in (1, 2, 3))
    assert told(log) == told(log + "\n"), "it lacks only its end"
    assert all(told(log[:size]) <= told(log) for size in range(len(log)))


@pytest.mark.parametrize("form", TABLE, ids=lambda form: form.example)
def test_each_row_reads_its_example_and_no_row_before_it_does(form):
    assert form.word in form.example
    named = [one for one in TABLE if one.word in form.example]
    assert [one for one in named if one.read(1, form.example, None) is not None][0] == form  # noqa: RUF015
    assert Forms().read(LogLine(1, form.example), form.example) == form.read(1, form.example, None)


@pytest.mark.parametrize("line", LINES["no-time"])
def test_what_is_no_epochs_time_is_left_out(line):
    assert parse_log(f"{line}\n".encode()).runs == ()


def test_a_time_below_a_header_that_was_not_keras_own_is_the_epoch_s():
    """Known when the next header comes, or the log ends; where Keras's own line is there, that one counts."""
    own = [f"Epoch {n}/3\nepoch {n} took {10 + n}.5 seconds\n" for n in (1, 2, 3)]
    (run,) = parse_log("".join(own).encode()).runs
    assert (run.outcome, run.epochs_planned) == ("completed", 3)
    assert [(each.epoch, each.seconds.value) for each in run.epochs] == [(1, 11.5), (2, 12.5), (3, 13.5)]
    keras = [f"{text}25/25 - 9s - loss: 1.0 - 360ms/epoch\n" for text in own]
    (run,) = parse_log("".join(keras).encode()).runs
    assert [each.source for each in run.epochs] == ["keras"] * 3
    (run,) = parse_log((keras[0] + own[1]).encode()).runs
    assert [each.epoch for each in run.epochs] == [1], "a callback's line is not Keras's"


@pytest.mark.parametrize("first", [0, 1])
def test_the_script_s_own_line_about_an_epoch_comes_before_the_bar_s_last_batch(first):
    bar = "Epoch {0}: 100%|###| 196/196 [00:24<00:00, 8.06it/s, loss=0.0287]\n"
    own = "epoch {0}: train loss 2.3{0}00, test accuracy 1{0}.0%\nEpoch {0}, step 9: loss 7.0\n"
    log = "".join((bar + own + f"epoch {n + 1}: loss 9.0, acc 99\n").format(n) for n in (first, first + 1))
    (run,) = parse_log(log.encode()).runs
    for n, each in enumerate(run.epochs, start=first):
        assert each.metrics == pytest.approx({"loss": 2.3 + n / 100, "val_accuracy": 0.1 + n / 100})
    assert [run.epochs[0].line_of(name) for name in ("seconds", "loss")] == [1, 2]


def test_an_own_pattern_on_the_command_line(tmp_path, capsys, command):
    log = tmp_path / "job.out"
    log.write_text(" Model ResNet50 4 GPUs\npass 1: 52.17\npass 2: 47.04\npass 3: 47.10\n")
    assert "No epoch time or rate found." in command(["parse", str(log)], 1).out
    assert main(["parse", str(log), "--pattern", r"pass (?P<epoch>\d+): (?P<seconds>[\d.]+)"]) == 0
    assert "47.035 to 47.045" in capsys.readouterr().out


def test_an_own_pattern_with_a_rate_or_a_step_time():
    """The times may grow evenly: that they are an epoch's is the student's word."""
    at = [own_pattern(r"at (?P<rate>[\d.]+) img")]
    rate = parse_log(b"it 5 at 812.5 img a second\n", patterns=at).runs[0]
    assert rate.printed_rate == 812.5
    steps = [own_pattern(r"ep (?P<epoch>\w+): (?P<steps>\d+) x (?P<step_milliseconds>[\d.]+)")]
    (run,) = parse_log(b"ep 0: 10 x 25.0\nep 1: 10 x 30.0\nep 2: 10 x 35.0\nep x: 1 x 9", patterns=steps).runs
    assert [one.seconds.lo for one in run.epochs] == pytest.approx([0.2495, 0.2995, 0.3495])
    clock = [own_pattern(r"(?P<epoch>\d+): (?P<clock>[\d:]+)")]
    (run,) = parse_log(b"1: 9:47\n2: 9:46\n3: 9:4", patterns=clock).runs
    assert [one.seconds.value // 1 for one in run.epochs] == [587, 586], "9:4 may be cut off"
    for number in ("4\uff17", "\uff147", "\u0664.5", "1_0", "1_234.5"):
        plain = r"\S+" if number == "1_0" else r"[\d.]+"
        own = [own_pattern(rf"(?P<epoch>{plain}) took (?P<seconds>{plain})")]
        assert parse_log(f"1 took {number}\n{number} took 47.5\n".encode(), patterns=own).runs == ()


@pytest.mark.parametrize("pattern", ["(", r"(?P<epoch>.)", r"(?P<step_seconds>.)", r"(?P<seconds>.)\1"])
def test_what_is_no_pattern(pattern, command):
    with pytest.raises(DataError) as caught:
        own_pattern(pattern)
    assert caught.value.hint
    assert "pattern" in command(["parse", __file__, "--pattern", pattern], 2).err


UNREAD = [
    *((line, True) for line in LINES["with-pattern"]),
    *((line, False) for line in LINES["without-pattern"]),
]


@pytest.mark.parametrize(("line", "suggested"), UNREAD)
def test_the_likeliest_unread_line_is_named_with_a_pattern_that_matches(line, suggested, tmp_path, command):
    log = tmp_path / "job.out"
    log.write_text(f"epoch 1\nsee https://x/s\n{line}\n" if suggested else f"hello\nworld\n{line}\n")
    shown = command(["parse", str(log)], 1).out
    assert "No epoch time or rate found." in shown and "Hugging Face Trainer" in shown
    assert f"Line 3 may contain an epoch or a rate: {line.split(chr(9))[0]}" in shown
    pattern = suggested_pattern(line)
    assert suggested == (pattern is not None), "it would read a wrong number"
    assert f"--pattern '{pattern or 'REGEX'}'" in shown, "not one that is no pattern of this line"
    assert pattern is None or own_pattern(pattern).search(line) is not None


RECORDED = [path.read_text("utf-8") for path in sorted(LOGS.glob("*.out"))]
EXAMPLES = [form["log"] for form in FORMS.values() if "pattern" not in form]


@pytest.mark.parametrize("log", [*EXAMPLES, *RECORDED, *ALL])
def test_the_line_that_a_value_cites_has_its_digits(log):
    def cites(line: int | None, value: float, *units: float) -> bool:
        texts = re.findall(r"\d[\d.]*(?:[eE][-+]?\d+)?|nan|inf", log.split("\n")[(line or 0) - 1])
        given = [float(text) * unit for text in texts for unit in (1, *units)]
        return pytest.approx(value, nan_ok=True) in given

    for run in parse_log(log.encode()).runs:
        for epoch in run.epochs:
            assert all(cites(epoch.line_of(name), value, 0.01) for name, value in epoch.metrics.items())
        if run.printed_rate and not run.epochs:
            step = run.batch_seconds.value if run.batch_seconds else 0
            assert cites(run.rate_line, run.printed_rate, run.n_gpus or 1) or cites(run.rate_line, step, 1e-3)


SEQUENTIAL = "Sequential execution time: {milliseconds} ms"
PARALLEL = "Parallel execution time with {processes} processes: {milliseconds} ms"
PI = Program(name="pi", shown_in="ms", lines=(SEQUENTIAL, PARALLEL))
OF_SIZE = "Parallel execution time with {processes} processes and n = {size}: {milliseconds} ms"
WEAK = Program(name="pi-weak", shown_in="ms", scaling="weak", lines=(OF_SIZE,))
GPUS = "{size}: 1 GPU: {baseline_seconds}s, {processes} GPUs: {seconds}s, speedup: {number}, efficiency: {number}"
JACOBI = Program(name="jacobi", counts="GPUs", lines=(GPUS,))
ALL = (PI, WEAK, JACOBI)
LOG = b"""\
pi is about 3.141592653590
Sequential execution time: 4430.33 ms
0: Parallel execution time with 64 processes: 216.27 ms
Parallel execution time with 4 processes and n = 17179869184: 4215.08 ms\r
16384x16384:  1 GPU: 648.9119s,   4 GPUs: 165.7268s, speedup:     3.92, efficiency:    97.89
Parallel execution time with many processes: 1 ms
"""


def test_each_line_is_a_run_with_what_its_digits_leave_open():
    assert parse_log(LOG).runs == (), "without the edition"
    runs = parse_log(LOG, programs=ALL).runs
    assert parse_log((LOG[i : i + 7] for i in range(0, len(LOG), 7)), programs=ALL).runs == runs
    assert [(run.model, run.processes, run.size, run.n_gpus) for run in runs] == [
        ("pi", 1, "", 0), ("pi", 64, "", 0), ("pi-weak", 4, "17179869184", 0), ("jacobi", 4, "16384x16384", 4),
    ]  # fmt: skip
    assert all(run.outcome == "completed" and len(run.epochs) == 1 and not run.notes for run in runs)
    times = [run.epochs[0].seconds for run in runs]
    bounds = [number for each in times[:2] for number in (each.lo, each.value, each.hi)]
    assert bounds == pytest.approx([4.430325, 4.43033, 4.430335, 0.216265, 0.21627, 0.216275], abs=1e-9)
    baseline = {"baseline_seconds": 648.9119, "baseline_lo": 648.91185, "baseline_hi": 648.91195}
    assert runs[3].epochs[0].metrics == baseline
    assert [run.epochs[0].line for run in runs] == [2, 3, 4, 5]
    assert [run_title(run) for run in runs] == [
        *("pi, 1 process, 4,430.330 ±0.005 ms", "pi, 64 processes, 216.270 ±0.005 ms"),
        "pi-weak, size 17179869184, 4 processes, 4,215.080 ±0.005 ms",
        "jacobi, size 16384x16384, 4 GPUs, 165.72680 ±0.00005 s",
    ]


@given(st.floats(0.001, 1e9), st.integers(0, 9), st.integers(1, 9_999_999))
def test_a_printed_time_lies_in_its_interval(seconds, places, count):
    program = Program(name="p", lines=("{processes} took {seconds} s",))
    (run,) = parse_log(f"{count} took {seconds:.{places}f} s\n".encode(), programs=(program,)).runs
    assert run.processes == count
    assert run.epochs[0].seconds.lo <= seconds * (1 + 1e-12)
    assert run.epochs[0].seconds.hi >= seconds * (1 - 1e-12)


@pytest.mark.parametrize(("line", "words"), [
    *(("no time at all", "needs one time"), ("{seconds} s or {milliseconds} ms", "needs one time")),
    *(("{seconds} s, {seconds} s", "twice"), ("{hours} h, {seconds} s", "has {hours}")),
])  # fmt: skip
def test_a_line_that_cannot_be_read_is_refused_in_a_sentence(line, words):
    with pytest.raises(DataError) as caught:
        line_pattern(line)
    assert words in caught.value.sentence
    regex = line_pattern("(a+)+$ took {seconds} s")  # text and no expression
    assert regex.fullmatch("(a+)+$ took 3.5 s") and not regex.fullmatch("aaaa took 3.5 s")
