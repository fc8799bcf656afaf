"""Lines of programs that are timed without epochs, as an edition declares them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labtui.commands.parse import run_title
from labtui.domain import errors, model
from labtui.training_logs import patterns, reader

SEQUENTIAL = "Sequential execution time: {milliseconds} ms"
PARALLEL = "Parallel execution time with {processes} processes: {milliseconds} ms"
PI = model.Program(name="pi", shown_in="ms", lines=(SEQUENTIAL, PARALLEL))
OF_SIZE = "Parallel execution time with {processes} processes and n = {size}: {milliseconds} ms"
WEAK = model.Program(name="pi-weak", shown_in="ms", scaling="weak", lines=(OF_SIZE,))
GPUS = "{size}: 1 GPU: {baseline_seconds}s, {processes} GPUs: {seconds}s, speedup: {number}, efficiency: {number}"
JACOBI = model.Program(name="jacobi", counts="GPUs", lines=(GPUS,))
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
    assert reader.parse_log(LOG).runs == (), "without the edition"
    runs = reader.parse_log(LOG, programs=ALL).runs
    assert reader.parse_log((LOG[i : i + 7] for i in range(0, len(LOG), 7)), programs=ALL).runs == runs
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
    program = model.Program(name="p", lines=("{processes} took {seconds} s",))
    (run,) = reader.parse_log(f"{count} took {seconds:.{places}f} s\n".encode(), programs=(program,)).runs
    assert run.processes == count
    assert run.epochs[0].seconds.lo <= seconds * (1 + 1e-12)
    assert run.epochs[0].seconds.hi >= seconds * (1 - 1e-12)


@pytest.mark.parametrize(("line", "words"), [
    *(("no time at all", "needs one time"), ("{seconds} s or {milliseconds} ms", "needs one time")),
    *(("{seconds} s, {seconds} s", "twice"), ("{hours} h, {seconds} s", "has {hours}")),
])  # fmt: skip
def test_a_line_that_cannot_be_read_is_refused_in_a_sentence(line, words):
    with pytest.raises(errors.DataError) as caught:
        patterns.line_pattern(line)
    assert words in caught.value.sentence
    regex = patterns.line_pattern("(a+)+$ took {seconds} s")  # text and no expression
    assert regex.fullmatch("(a+)+$ took 3.5 s") and not regex.fullmatch("aaaa took 3.5 s")
