# ruff: noqa: E501 (lines of logs)
"""Logs of other people's shapes that used to be read wrong: contradictions, resumed trainings, ranks, mixtures, tracebacks."""

import pytest

from labtui.training_logs.diagnosis import join_streams
from labtui.training_logs.reader import parse_log
from labtui.training_logs.runs import LogReport
from tests.training_logs import samples
from tests.training_logs.samples import keras


def read(text: str) -> LogReport:
    return parse_log(text.encode())


BANNER_4 = samples.banner("ResNet50", 4, 8192)
JOB_OF_1 = "---- labtui job ----\ngpus:      1\n---- end ----\n Model ResNet50 4 GPUs\n"


@pytest.mark.parametrize("text", [BANNER_4.replace("Num_replicas: 4", "Num_replicas: 1"), JOB_OF_1])
def test_two_lines_about_gpus_that_cannot_both_be_true_are_named(text):
    report = join_streams(read(text + keras(1, 2, 2)), None)
    (run,), (found,) = report.runs, report.diagnosis
    assert run.n_gpus == 1 and run.contradictions == (found.text,)
    assert "4 GPUs" in found.text and f"line {found.line}: " in found.text
    assert found.kind == "contradiction" and "counts 1 GPU," in found.advice


TRACE = (
    'Traceback (most recent call last):\n  File "/home/nct/nct01001/train.py", line 60, in main\n    model.fit(data)\n'
    '  File "/usr/lib/python3/dist-packages/keras/engine.py", line 1184, in fit\n    raise ValueError(text)\n'
    "ValueError: Shapes (32, 10) and (32, 100) are incompatible\n"
)


def test_a_log_that_ends_in_a_traceback_says_its_last_line_and_where(tmp_path, command):
    report = read(samples.banner("ResNet50", 1, 2048) + TRACE)
    (found,) = report.diagnosis
    assert (found.kind, found.line, found.text) == ("traceback", 10, TRACE.splitlines()[-1])
    assert "/home/nct/nct01001/train.py, line 60 (main)" in found.advice
    assert report.runs[0].outcome == "failed"
    log = tmp_path / "job.out"
    log.write_text("hello\n" + TRACE)
    assert "ValueError: Shapes" in command(["parse", str(log)]).out


def test_the_launchers_own_traceback_hides_no_cause():
    wrapper = 'Traceback (most recent call last):\n  File "/opt/conda/bin/torchrun", line 8, in <module>\n    sys.exit(main())\n'
    wrapper += "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
    ranked = "".join(f"[rank1]: {line}" for line in TRACE.splitlines(keepends=True))
    (found,) = read(ranked + wrapper).diagnosis
    assert found.text.startswith("ValueError: Shapes") and "train.py, line 60" in found.advice


def test_source_that_python_cannot_read_or_find():
    text = '  File "train.py", line 5\n    model = = 3\n            ^\nSyntaxError: invalid syntax\n'
    (found,) = read(text).diagnosis
    assert (found.kind, found.text) == ("traceback", "SyntaxError: invalid syntax")
    assert "train.py, line 5" in found.advice
    text = TRACE.rpartition("ValueError")[0] + "ModuleNotFoundError: No module named 'cifar'\n"
    (found,) = read(text).diagnosis
    assert found.kind == "missing-module" and "train.py, line 60 (main)" in found.advice


OUT_4 = "Model ResNet50 4 GPUs\nbatch_size: 8192\nEpoch 1/2\n7/7 - 40s - 6s/step\nEpoch 2/2\n7/7 - 5s - 768ms/step\n"
ERR_1, ERR_4 = samples.devices(0), samples.devices(*range(4))


def joined(out: str, err: str) -> LogReport:
    return join_streams(parse_log(out.encode()), parse_log(err.encode(), stream="err"))


def test_the_devices_in_the_err_are_surer_than_the_banner_in_the_out():
    report = joined(OUT_4, "2026-11-21 10:00:00: I tensorflow: hello\n" + ERR_1)
    (run,), (found,) = report.runs, report.diagnosis
    (sentence,) = run.contradictions
    assert (run.n_gpus, run.device, len(run.epochs)) == (1, "gpu", 2)
    assert "Model ResNet50 4 GPUs" in sentence and "line 2 of the .err" in sentence
    assert (found.kind, found.stream, found.line) == ("contradiction", "err", 2) and "1 GPU" in found.advice


def test_devices_in_the_err_that_agree_or_tell_what_nothing_else_does():
    for out in (OUT_4, OUT_4.partition("\n")[2]):
        report = joined(out, ERR_4)
        assert [(run.n_gpus, run.contradictions) for run in report.runs] == [(4, ())]
        assert report.diagnosis == ()
    no_gpu = "W There are non-GPU devices in `tf.distribute.Strategy`\n"
    report = joined(OUT_4.replace("4 GPUs", "1 GPUs"), ERR_1 + no_gpu)
    (run,), (found,) = report.runs, report.diagnosis
    assert (found.kind, found.stream) == ("no-gpu", "err")
    assert (run.device, run.n_gpus, run.contradictions) == ("cpu", 0, ())


def test_devices_of_several_runs_are_given_in_order_or_not_at_all():
    two = OUT_4 + OUT_4.replace("4 GPUs", "1 GPUs")
    swapped = joined(two, ERR_1 + ERR_4)
    assert [run.n_gpus for run in swapped.runs] == [1, 4] and all(run.contradictions for run in swapped.runs)
    for err in (ERR_4 + ERR_1, ERR_1, ERR_1 + ERR_4 + ERR_4):  # of the last two it is open which
        runs = joined(two, err).runs
        assert [(run.n_gpus, run.contradictions) for run in runs] == [(4, ()), (1, ())]
    per_process = joined(OUT_4, ERR_1 + ERR_1)
    assert [run.n_gpus for run in per_process.runs] == [1] and per_process.runs[0].contradictions
