# ruff: noqa: E501 (lines of logs)
"""Logs of other people's shapes that used to be read wrong: contradictions, resumed trainings, ranks, mixtures, tracebacks."""

from __future__ import annotations

from pathlib import Path

import pytest

from labtui.commands.cli import main
from labtui.training_logs.diagnosis import join_streams
from labtui.training_logs.reader import parse_log
from labtui.training_logs.runs import LogReport, ParsedRun
from tests.training_logs import samples


def read(text: str) -> LogReport:
    """The report, which must be the same for any cutting of the bytes."""
    report = parse_log(text.encode())
    assert parse_log(text[i : i + 7].encode() for i in range(0, len(text), 7)) == report
    return report


def only_run(text: str) -> ParsedRun:
    report = read(text)
    assert len(report.runs) == 1, report.runs
    return report.runs[0]


def keras(epochs: range, planned: int, steps: int = 25, seconds: int = 14) -> str:
    return "".join(
        f"Epoch {epoch}/{planned}\n{steps}/{steps} - {seconds}s - loss: 2.1 - {seconds}s/epoch - 544ms/step\n"
        for epoch in epochs
    )


def kinds(report: LogReport) -> list[str]:
    return [found.kind for found in report.diagnosis]


# --------------------------------------------------------------------------- how many GPUs

STRATEGY = "INFO:tensorflow:Using MirroredStrategy with devices ("


def devices(*numbers: int) -> str:
    return STRATEGY + ", ".join(f"'/job:localhost/replica:0/task:0/device:GPU:{n}'" for n in numbers) + ",)\n"


def test_replicas_count_more_than_the_banner() -> None:
    text = samples.banner("ResNet50", 4, 8192).replace("Num_replicas: 4", "Num_replicas: 1") + keras(
        range(1, 3), 2
    )
    report = read(text)
    (run,) = report.runs
    assert (run.n_gpus, run.device) == (1, "gpu")
    (sentence,) = run.contradictions
    assert (
        "line 1" in sentence
        and "4 GPUs" in sentence
        and "line 4" in sentence
        and "Num_replicas: 1" in sentence
    )
    (found,) = report.diagnosis
    assert (found.kind, found.line) == ("contradiction", 4) and "1 GPU" in found.advice


@pytest.mark.parametrize("before", [True, False])
def test_devices_count_more_than_replicas_and_banner(before: bool) -> None:
    banner = samples.banner("ResNet50", 4, 8192)
    text = (devices(0) + banner if before else banner + devices(0)) + keras(range(1, 3), 2)
    report = read(text)
    (run,) = report.runs
    assert (run.n_gpus, run.device) == (1, "gpu") and len(run.contradictions) == 1
    assert "device:GPU:0" in run.contradictions[0] and kinds(report) == ["contradiction"]


def test_lines_that_agree_are_no_contradiction() -> None:
    text = ""
    for gpus in (1, 2, 4):
        text += devices(*range(gpus)) + samples.banner("ResNet50", gpus, 2048 * gpus) + keras(range(1, 3), 2)
    report = read(text)
    assert [run.n_gpus for run in report.runs] == [1, 2, 4] and report.diagnosis == ()
    assert all(run.contradictions == () for run in report.runs)


def test_devices_of_several_workers() -> None:
    line = (
        "INFO:tensorflow:MultiWorkerMirroredStrategy with cluster_spec = {'worker': ['a:1', 'b:1']}, task_type = 'worker', "
        "task_id = 0, num_workers = 2, local_devices = ('/job:worker/replica:0/task:0/device:GPU:0', "
        "'/job:worker/replica:0/task:0/device:GPU:1'), communication = CommunicationImplementation.AUTO\n"
    )
    run = only_run(line + samples.banner("ResNet50", 4, 8192) + keras(range(1, 3), 2))
    assert run.n_gpus == 4 and run.contradictions == ()


def test_a_banner_cannot_promise_more_gpus_than_the_job_has() -> None:
    header = "---- labtui job ----\ngpus:      1\n---- end ----\n"
    report = read(header + " Model ResNet50 4 GPUs\n" + keras(range(1, 4), 3))
    (run,) = report.runs
    assert run.n_gpus == 1
    (sentence,) = run.contradictions
    assert "gpus:      1" in sentence and "4 GPUs" in sentence
    (found,) = report.diagnosis
    assert found.kind == "contradiction" and "the job has" in found.advice


def test_a_run_may_use_fewer_gpus_than_its_job_has_and_tensorflow_knows_best() -> None:
    header = "---- labtui job ----\ngpus:      {}\n---- end ----\n"
    fewer = read(header.format(4) + " Model ResNet50 1 GPUs\n" + keras(range(1, 4), 3))
    assert [(run.n_gpus, run.contradictions) for run in fewer.runs] == [(1, ())]
    edited = read(header.format(1) + " Model ResNet50 4 GPUs\nNum_replicas: 4\n" + keras(range(1, 4), 3))
    assert [(run.n_gpus, run.contradictions) for run in edited.runs] == [(4, ())]


def test_a_cpu_is_one_replica_and_no_contradiction() -> None:
    run = only_run(" Model ResNet50 CPU \nBatch_size: 2048\nNum_replicas: 1 \n" + keras(range(1, 3), 2))
    assert (run.device, run.n_gpus, run.contradictions) == ("cpu", 0, ())


def test_the_devices_of_a_training_that_died_are_not_the_next_ones() -> None:
    died = samples.banner("ResNet50", 4, 8192) + samples.ERRORS
    report = read(died + devices(0) + samples.banner("ResNet50", 1, 2048) + keras(range(1, 3), 2))
    assert [run.n_gpus for run in report.runs] == [4, 1]
    assert "contradiction" not in kinds(report)


# --------------------------------------------------------------------------- processes

STARTS = (
    "2026-11-21 10:00:00.1: I tensorflow/core/util/port.cc:110] oneDNN custom operations are on. You may see slightly "
    "different numerical results due to floating-point round-off errors from different computation orders.\n"
)


def starts(run: ParsedRun) -> list[int]:
    return [sample.epoch for sample in run.epochs if sample.starts_process]


def test_a_resumed_training_begins_with_the_warm_up_of_its_process() -> None:
    run = only_run(keras(range(3, 6), 5))
    assert [sample.epoch for sample in run.epochs] == [3, 4, 5] and starts(run) == [3]
    assert run.outcome == "completed"


@pytest.mark.parametrize(
    "between",
    [
        STARTS,
        "Resuming training from epoch 3\n",
        "slurmstepd: error: *** JOB 123 ON as01r1b09 CANCELLED AT 2026-11-21T10:00:00 DUE TO JOB REQUEUE ***\n",
        'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\nRuntimeError: gone\n',
    ],
)
def test_a_restart_in_the_same_log_pays_for_its_start_again(between: str) -> None:
    run = only_run(STARTS + keras(range(1, 3), 5) + between + keras(range(3, 6), 5))
    assert [sample.epoch for sample in run.epochs] == [1, 2, 3, 4, 5] and starts(run) == [1, 3]


def test_a_restart_amid_an_epoch_does_it_again() -> None:
    run = only_run(STARTS + keras(range(1, 3), 5) + "Epoch 3/5\n" + STARTS + keras(range(3, 6), 5))
    assert [sample.epoch for sample in run.epochs] == [1, 2, 3, 4, 5] and starts(run) == [1, 3]
    assert not run.interleaved


def test_words_that_come_late_start_no_process() -> None:
    """TensorFlow says some of them only when the first step runs."""
    head, tail = keras(range(1, 2), 3).split("\n", 1)
    run = only_run(f"{head}\n{STARTS}{tail}" + keras(range(2, 4), 3))
    assert starts(run) == [1]


def test_a_second_banner_begins_a_run_whose_first_epoch_is_a_start() -> None:
    banner = samples.banner("ResNet50", 1, 2048)
    report = read(banner + keras(range(1, 3), 5) + banner + keras(range(3, 6), 5))
    assert [starts(run) for run in report.runs] == [[1], [3]]


def imagenet(epoch: int, steps: int = 250, every: int = 10, mean: float = 0.5) -> str:
    return "".join(
        f"Epoch: [{epoch}][{index:3d}/{steps}]\tTime  0.581 ( {mean:.3f})\tData  0.273 ( 0.283)\tLoss 6.9e+00 (6.8e+00)\n"
        for index in range(0, steps, every)
    )


def test_a_resumed_pytorch_training() -> None:
    text = imagenet(0) + " * Acc@1 10.130 Acc@5 30.862\n" + "=> loading checkpoint 'checkpoint.pth.tar'\n"
    run = only_run(
        text
        + imagenet(1)
        + " * Acc@1 11.130 Acc@5 31.862\n"
        + imagenet(2)
        + "Test: [ 0/98]\tTime  1.0 ( 1.0)\n"
    )
    assert [sample.epoch for sample in run.epochs] == [1, 2, 3] and starts(run) == [1, 2]


# --------------------------------------------------------------------------- one run per rank


def test_totals_of_every_rank_are_one_run() -> None:
    head = "TensorFlow:  1.12\nModel:       resnet50\nBatch size:  128 global\n             32 per device\nStep\tImg/sec\ttotal_loss\n"
    steps = [
        f"{n}\timages/sec: {rate} +/- 0.3 (jitter = 1.0)\t8.1\n"
        for n in (1, 10)
        for rate in (330.1, 329.8, 330.3, 330.0)
    ]
    totals = [
        f"{'-' * 64}\ntotal images/sec: {rate}\n{'-' * 64}\n" for rate in (1320.21, 1320.24, 1320.19, 1320.22)
    ]
    run = only_run(head * 4 + "".join(steps) + "".join(totals))
    assert run.throughput is not None and run.outcome == "completed" and run.interleaved
    assert run.throughput.lo <= 1320.19 and run.throughput.hi >= 1320.24 and run.throughput.half_width < 0.1


def test_two_benchmarks_one_after_the_other_are_two_runs() -> None:
    text = "".join(
        f"1\timages/sec: 330.1 +/- 0.0 (jitter = 0.0)\t8.1\ntotal images/sec: {rate}\n"
        for rate in (330.12, 640.5)
    )
    assert len(read(text).runs) == 2
    assert len(read("total images/sec: 330.12\ntotal images/sec: 640.50\n").runs) == 2


def test_mlperf_records_of_every_rank_are_one_run() -> None:
    def every(*args: object, **kwargs: object) -> str:
        return samples.mllog(*args, **kwargs) * 4  # type: ignore[arg-type]

    text = every("global_batch_size", 4096) + every("run_start", ms=1000)
    for number in (1, 2):
        text += every("epoch_start", ms=1000 * number, epoch_num=number)
        text += every("epoch_stop", ms=1000 * number + 900, epoch_num=number)
    text += every("run_stop", ms=3000, status="success")
    run = only_run(text)
    assert [sample.epoch for sample in run.epochs] == [1, 2] and run.outcome == "completed"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("3: [default0]:", "3: [default1]:"),
        ("2026-08-03T09:47:01.123456789Z [1,0]<stdout>:", "2026-08-03T09:47:01.123456789Z [1,1]<stdout>:"),
        ("[0]<stdout>:2026-11-21 10:00:00,123 - INFO - ", "[1]<stdout>:2026-11-21 10:00:00,123 - INFO - "),
    ],
)
def test_marks_of_launchers(first: str, second: str) -> None:
    lines = (samples.banner("ResNet50", 2, 4096) + keras(range(1, 4), 3)).splitlines(keepends=True)
    run = only_run("".join(second + line + first + line for line in lines))
    assert (run.model, run.n_gpus, run.batch_size) == ("ResNet50", 2, 4096)
    assert [sample.epoch for sample in run.epochs] == [1, 2, 3] and run.interleaved


def test_the_batch_of_one_process_is_not_called_global() -> None:
    run = only_run("+ torchrun --nproc_per_node 4 train.py --batch-size 64 --epochs 2\nhello\n")
    assert (run.n_gpus, run.batch_per_gpu, run.batch_size) == (4, 64, 256)
    run = only_run("+ torchrun --nproc_per_node gpu train.py --batch-size 64 --epochs 2\nhello\n")
    assert (run.n_gpus, run.batch_per_gpu, run.batch_size) == (None, 64, None)


# --------------------------------------------------------------------------- two trainings in one file


def woven(*trainings: str) -> str:
    """Their lines in turn."""
    parts = [training.splitlines(keepends=True) for training in trainings]
    return "".join(line for lines in zip(*parts, strict=True) for line in lines)


@pytest.mark.parametrize(
    "text",
    [
        woven(keras(range(1, 6), 5, 25), keras(range(1, 6), 5, 49)),
        woven(keras(range(1, 6), 5, 25), keras(range(1, 6), 10, 49)),
        woven(imagenet(0, 250), imagenet(0, 250).replace("/250]", "/500]")),
    ],
)
def test_two_trainings_without_marks_are_refused(text: str) -> None:
    report = read(text)
    assert "mixed-trainings" in kinds(report)
    assert all(run.epochs == () and run.throughput is None for run in report.runs[-1:])
    assert any("two trainings" in note or "trainings of" in note for note in report.runs[-1].notes)


def test_a_training_prolonged_in_the_same_script_is_not_refused() -> None:
    report = read(keras(range(1, 6), 5) + keras(range(6, 11), 10))
    assert "mixed-trainings" not in kinds(report)
    assert [sample.epoch for run in report.runs for sample in run.epochs] == list(range(1, 11))


# --------------------------------------------------------------------------- tracebacks and benign lines

TRACE = (
    "Traceback (most recent call last):\n"
    '  File "/home/nct/nct01001/train.py", line 60, in main\n'
    "    model.fit(data)\n"
    '  File "/usr/lib/python3/dist-packages/keras/engine.py", line 1184, in fit\n'
    "    raise ValueError(text)\n"
    "ValueError: Shapes (32, 10) and (32, 100) are incompatible\n"
)


def test_a_log_that_ends_in_a_traceback_says_its_last_line_and_where(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = read(samples.banner("ResNet50", 1, 2048) + TRACE)
    (found,) = report.diagnosis
    assert (found.kind, found.line) == ("traceback", 10)
    assert found.text == "ValueError: Shapes (32, 10) and (32, 100) are incompatible"
    assert "/home/nct/nct01001/train.py, line 60 (main)" in found.advice
    assert report.runs[0].outcome == "failed"
    log = tmp_path / "job.out"
    log.write_text("hello\n" + TRACE)
    assert main(["parse", str(log)]) == 0
    assert "ValueError: Shapes" in capsys.readouterr().out


def test_a_traceback_that_training_survives_is_no_end() -> None:
    report = read(keras(range(1, 3), 5) + TRACE + keras(range(3, 6), 5))
    assert report.diagnosis == () and report.runs[0].outcome == "completed"


def test_a_traceback_cut_short() -> None:
    report = read("".join(TRACE.splitlines(keepends=True)[:3]))
    (found,) = report.diagnosis
    assert found.kind == "traceback" and "inside a traceback" in found.advice and "line 60" in found.advice
    cut = read(samples.banner("ResNet50", 1, 2048) + TRACE.rpartition("ValueError")[0])
    assert cut.runs[0].outcome == "failed"


def test_the_launchers_own_traceback_hides_no_cause() -> None:
    wrapper = (
        "Traceback (most recent call last):\n"
        '  File "/opt/conda/bin/torchrun", line 8, in <module>\n    sys.exit(main())\n'
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
    )
    ranked = "".join(f"[rank1]: {line}" for line in TRACE.splitlines(keepends=True))
    (found,) = read(ranked + wrapper).diagnosis
    assert found.text.startswith("ValueError: Shapes") and "train.py, line 60" in found.advice


def test_a_known_error_says_where_it_was_raised() -> None:
    text = TRACE.replace(
        "ValueError: Shapes (32, 10) and (32, 100) are incompatible",
        "ModuleNotFoundError: No module named 'cifar'",
    )
    (found,) = read(text).diagnosis
    assert found.kind == "missing-module" and "train.py, line 60 (main)" in found.advice


def test_source_that_python_cannot_read() -> None:
    text = '  File "train.py", line 5\n    model = = 3\n            ^\nSyntaxError: invalid syntax\n'
    (found,) = read(text).diagnosis
    assert (found.kind, found.text) == (
        "traceback",
        "SyntaxError: invalid syntax",
    ) and "train.py, line 5" in found.advice


# --------------------------------------------------------------------------- outcomes and epochs that are none


def test_all_epochs_of_a_pytorch_log_without_its_command() -> None:
    run = only_run("".join(imagenet(epoch) + " * Acc@1 10.130 Acc@5 30.862\n" for epoch in range(3)))
    assert run.outcome == "completed" and any("how many epochs were planned" in note for note in run.notes)
    cut = only_run(imagenet(0) + " * Acc@1 10.130 Acc@5 30.862\n" + imagenet(1)[: len(imagenet(1)) // 2])
    assert cut.outcome == "unfinished"


def test_an_aborted_mlperf_run_is_not_completed() -> None:
    text = samples.mllog("epochs", 2) + samples.mllog("run_start", ms=0)
    for number in (1, 2):
        text += samples.mllog("epoch_start", ms=1000 * number, epoch_num=number)
        text += samples.mllog("epoch_stop", ms=1000 * number + 900, epoch_num=number)
    run = only_run(text + samples.mllog("run_stop", ms=3000, status="aborted"))
    assert run.outcome == "failed" and any('"aborted"' in note for note in run.notes) and len(run.epochs) == 2


def test_blocks_with_the_same_label_are_counted_on() -> None:
    text = samples.mllog("run_start", ms=0)
    for place, first in enumerate((1, 4, 4)):
        text += samples.mllog("block_start", ms=40_000 * place, first_epoch_num=first, epoch_count=4)
        text += samples.mllog("block_stop", ms=40_000 * place + 36_000 + 4000 * place, first_epoch_num=first)
    run = only_run(text + samples.mllog("run_stop", ms=200_000, status="success"))
    assert [(one.epoch, one.count, one.seconds.value) for one in run.epochs] == [
        (1, 4, 9),
        (5, 4, 10),
        (9, 4, 11),
    ]
    assert any("same numbers" in note for note in run.notes)


def test_an_epoch_whose_input_ran_out_is_none() -> None:
    warning = (
        "WARNING:tensorflow:Your input ran out of data; interrupting training. Make sure that your dataset or generator can "
        "generate at least `steps_per_epoch * epochs` batches (in this case, {} batches). You may need to use the repeat() function.\n"
    )
    short = "Epoch 3/5\n" + warning.format(125) + "25/25 - 5s - loss: 2.1 - 5s/epoch - 200ms/step\n"
    run = only_run(keras(range(1, 3), 5) + short)
    assert [sample.epoch for sample in run.epochs] == [1, 2] and any(
        "ran out of data" in note for note in run.notes
    )
    validation = (
        "Epoch 3/5\n"
        + warning.format(10)
        + "25/25 - 14s - loss: 2.1 - val_loss: 2.2 - 14s/epoch - 544ms/step\n"
    )
    run = only_run(keras(range(1, 3), 5) + validation)
    assert [sample.epoch for sample in run.epochs] == [1, 2, 3]


def test_an_epoch_that_trained_no_step_is_none() -> None:
    """Keras 3 goes on with an empty epoch after its input ran out, and warns only once."""
    empty = "Epoch {}/4\n250/250 - 0s - 1ms/step - accuracy: 0.0000e+00 - loss: 0.0000e+00\n"
    full = "Epoch {}/4\n250/250 - 14s - 56ms/step - accuracy: 0.3100 - loss: 1.9000\n"
    run = only_run(full.format(1) + empty.format(2) + full.format(3) + empty.format(4))
    assert [sample.epoch for sample in run.epochs] == [1, 3] and any("no step" in note for note in run.notes)


def test_early_stopping_completes_a_run() -> None:
    for line in ("Epoch 3: early stopping", "Epoch 00003: early stopping"):
        assert only_run(keras(range(1, 4), 10) + line + "\n").outcome == "completed"
    hand = "".join(f"Epoch {n}/10 | time: 12.{n}s\n" for n in (1, 2, 3))
    assert only_run(hand).outcome == "unfinished"
    assert only_run(hand + "Early stopping at epoch 3\n").outcome == "completed"


def test_a_predict_is_no_training() -> None:
    assert read("313/313 [==============================] - 1s 2ms/step\n").runs[0].epochs == ()
    run = only_run(keras(range(1, 3), 2) + "313/313 [==============================] - 1s 2ms/step\n")
    assert len(run.epochs) == 2


def test_a_line_that_may_be_an_evaluates_says_so() -> None:
    run = only_run("313/313 - 1s - loss: 1.9 - accuracy: 0.31 - 1s/epoch - 3ms/step\n")
    assert any("evaluate" in note for note in run.notes)


def test_validation_inside_an_epochs_time_is_told() -> None:
    text = "".join(
        f"Epoch {n}/2\n196/196 - 24s - loss: 2.0 - val_loss: 2.1 - 24s/epoch - 121ms/step\n" for n in (1, 2)
    )
    assert only_run(text).notes == ("Validation is inside each epoch's time.",)
    assert only_run(text.replace(" - val_loss: 2.1", "")).notes == ()


OUT_4 = "Model ResNet50 4 GPUs\nbatch_size: 8192\nEpoch 1/2\n7/7 - 40s - 6s/step\nEpoch 2/2\n7/7 - 5s - 768ms/step\n"
ERR_1 = f"{STRATEGY}'/job:localhost/replica:0/task:0/device:GPU:0',)\n"
ERR_4 = STRATEGY + ", ".join(f"'/job:localhost/replica:0/task:0/device:GPU:{n}'" for n in range(4)) + ")\n"


def joined(out: str, err: str) -> LogReport:
    return join_streams(parse_log(out.encode()), parse_log(err.encode(), stream="err"))


def test_the_devices_in_the_err_are_surer_than_the_banner_in_the_out() -> None:
    report = joined(OUT_4, "2026-11-21 10:00:00: I tensorflow: hello\n" + ERR_1)
    (run,) = report.runs
    (sentence,) = run.contradictions
    assert (run.n_gpus, run.device, len(run.epochs)) == (1, "gpu", 2)
    assert "Model ResNet50 4 GPUs" in sentence and "line 2 of the .err" in sentence
    (found,) = report.diagnosis
    assert (found.kind, found.stream, found.line) == ("contradiction", "err", 2) and "1 GPU" in found.advice


def test_devices_in_the_err_that_agree_or_tell_what_nothing_else_does() -> None:
    for out in (OUT_4, OUT_4.partition("\n")[2]):
        report = joined(out, ERR_4)
        assert [(run.n_gpus, run.contradictions) for run in report.runs] == [(4, ())]
        assert report.diagnosis == ()


def test_devices_of_several_runs_are_given_in_order_or_not_at_all() -> None:
    two = OUT_4 + OUT_4.replace("4 GPUs", "1 GPUs")
    assert [run.n_gpus for run in joined(two, ERR_4 + ERR_1).runs] == [4, 1]
    assert all(not run.contradictions for run in joined(two, ERR_4 + ERR_1).runs)
    swapped = joined(two, ERR_1 + ERR_4)
    assert [run.n_gpus for run in swapped.runs] == [1, 4] and all(run.contradictions for run in swapped.runs)
    for open_which in (ERR_1, ERR_1 + ERR_4 + ERR_4):
        runs = joined(two, open_which).runs
        assert [(run.n_gpus, run.contradictions) for run in runs] == [(4, ()), (1, ())]
    per_process = joined(OUT_4, ERR_1 + ERR_1)
    assert [run.n_gpus for run in per_process.runs] == [1] and per_process.runs[0].contradictions


def test_devices_in_the_err_say_nothing_of_a_cpu_or_a_rehearsal() -> None:
    seq = joined(
        OUT_4.replace("4 GPUs", "1 GPUs"), ERR_1 + "W There are non-GPU devices in `tf.distribute.Strategy`\n"
    )
    assert [(run.device, run.n_gpus, run.contradictions) for run in seq.runs] == [("cpu", 0, ())]
