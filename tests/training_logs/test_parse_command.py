"""`labtui parse`: the shape other programs rely on, what it takes for a log, and a sentence for what it does not."""

import io
import json
import os
import sys
from pathlib import Path

import pytest

from benchmarks import parse_big_log
from labtui.commands.cli import main
from labtui.commands.parse import file_text, parse_files, read_log
from labtui.domain.errors import DataError
from tests.training_logs import samples

FILE_KEYS = {"path", "diagnosis", "runs"}
RUN_KEYS = {"model", "device", "n_gpus", "batch_size", "epochs_planned", "outcome", "epochs"}
EPOCH_KEYS = {"epoch", "count", "seconds", "lo", "hi", "printed_seconds", "steps", "ms_per_step", "metrics"}


def parse(capsys: pytest.CaptureFixture[str], *paths: str | Path) -> tuple[int, list[dict], str]:
    code = main(["parse", "--json", *map(str, paths)])
    captured = capsys.readouterr()
    return code, json.loads(captured.out)["files"], captured.err


def test_the_shape_of_a_file_and_of_stdin(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(samples.MIXED.encode())))
    code, (entry,), _ = parse(capsys, "-")
    assert (code, entry["path"], len(entry["runs"])) == (0, "-", 1)
    log = tmp_path / "job.out"
    log.write_text(samples.THREE_RUNS)
    code, (entry,), err = parse(capsys, log)
    assert (code, err) == (0, "")
    assert entry.keys() >= FILE_KEYS and entry["path"] == str(log) and entry["err_path"] is None
    assert [run.keys() >= RUN_KEYS for run in entry["runs"]] == [True] * 3
    run = entry["runs"][1]
    assert [run[key] for key in ("model", "device", "n_gpus", "batch_size")] == ["ResNet50", "gpu", 2, 4096]
    assert (run["epochs_planned"], run["outcome"]) == (2, "completed")
    epoch = run["epochs"][1]
    assert epoch.keys() >= EPOCH_KEYS
    assert (epoch["epoch"], epoch["printed_seconds"], epoch["steps"], epoch["ms_per_step"]) == (2, 8, 13, 623)
    assert (epoch["seconds"], epoch["lo"], epoch["hi"]) == pytest.approx((8.099, 8.0924, 8.1056))
    assert epoch["metrics"] == {"loss": 2.1533, "accuracy": 0.2064}


def test_every_bad_input_gets_a_sentence_and_the_rest_is_reported(tmp_path, capsys):
    good, empty, binary, missing = (tmp_path / name for name in ("a.out", "b.out", "c.out", "d.out"))
    good.write_text(samples.THREE_RUNS)
    empty.touch()
    binary.write_bytes(bytes(range(256)) * 100)
    paths = [empty, good, binary, missing, tmp_path]
    code, entries, err = parse(capsys, *paths)
    assert (code, [entry["path"] for entry in entries]) == (2, [str(path) for path in paths])
    assert [len(entry["runs"]) for entry in entries] == [0, 3, 0, 0, 0]
    said = {"sentence", "hint"}
    assert [set(entry.get("error", ())) for entry in entries] == [said, set(), said, said, said]
    for entry in entries:
        assert "error" not in entry or entry["error"]["sentence"] in err
    assert "Traceback" not in err and "saved as UTF-8" in entries[2]["error"]["hint"]


def test_the_err_beside_counts(tmp_path, capsys):
    out, err = tmp_path / "ResNet50.31337.out", tmp_path / "ResNet50.31337.err"
    out.write_text(samples.banner("ResNet50", 1, 2048) + "Epoch 1/2\n")
    err.write_text(samples.ERRORS)
    code, (first, second), _ = parse(capsys, out, err)
    assert (code, first["err_path"]) == (0, str(err))
    for entry in (first, second):
        (found,) = entry["diagnosis"]
        assert (found["kind"], found["stream"], found["line"]) == ("oom", "err", 1)
    assert [run["outcome"] for run in first["runs"]] == ["oom"]
    assert second["stream"] == "err" and second["runs"] == []
    out.write_bytes(b"")
    err.write_text("x.py: error: unrecognized arguments: -- epochs 5\n")
    code, (entry,), _ = parse(capsys, out)
    assert (code, [found["kind"] for found in entry["diagnosis"]]) == (0, ["bad-arguments"])


def test_the_table_for_people(tmp_path, command):
    log = tmp_path / "job.out"
    limit = "slurmstepd: error: *** JOB 1 ON n CANCELLED AT x DUE TO TIME LIMIT ***\n"
    log.write_text(samples.THREE_RUNS + samples.banner("ResNet50", 0, 64) + samples.keras(1, 1, 1) + limit)
    shown = command(["parse", str(log)]).out
    assert "training 3: ResNet50, 4 GPUs, global batch 8,192, 2 of 2 epochs, completed" in shown
    assert "5.372 to 5.380" in shown and "time-limit, line" in shown
    assert "training 4: ResNet50, CPU, global batch 64, 1 of 1 epoch" in shown
    runs = samples.banner("ResNet50", 1, 2048) + samples.keras(1, 3, 3).replace("544", "580", 2)
    log.write_text(runs.replace("2.1", "2.1225", 1))
    assert "(3,399 to 3,720) images/s" in (shown := command(["parse", str(log)]).out) and " 2.1000\n" in shown
    head = "***** Running training *****\n  Num examples = 50,000\n  Num Epochs = 2\n"
    log.write_text(f"{head}{{'train_runtime': 247.4, 'train_samples_per_second': 404.161, 'epoch': 2.0}}\n")
    assert "124 s an epoch by its rate, 404 samples/s" in command(["parse", str(log)]).out


def test_a_step_takes_the_epochs_time_over_its_steps_not_keras_s_whole_second(tmp_path, capsys, command):
    log = tmp_path / "job.out"
    log.write_text(
        "Epoch 1/2\n196/196 - 220s - loss: 2.0 - accuracy: 0.2 - 220s/epoch - 1s/step\n"
        "Epoch 2/2\n196/196 - 14s - loss: 1.9 - accuracy: 0.3 - 14s/epoch - 73ms/step\n"
    )
    shown = command(["parse", str(log)]).out
    assert "1,120" in shown and "73.0 ±0.5" in shown and "1000" not in shown
    _, (entry,), _ = parse(capsys, log)
    first, second = entry["runs"][0]["epochs"]
    assert (first["ms_per_step"], second["ms_per_step"]) == (1000, 73), "as printed"
    step = first["step_seconds"]
    assert (step["lo"], step["value"], step["hi"]) == pytest.approx((219.5 / 196, 220 / 196, 220.5 / 196))
    log.write_text(samples.PYTORCH_OLD)
    _, (entry,), _ = parse(capsys, log)
    (mean,) = entry["runs"][0]["epochs"]
    assert (mean["step_seconds"], mean["ms_per_step"]) == (None, 633), "of a mean over batches, as printed"
    assert "633" in command(["parse", str(log)]).out


def test_in_a_window_the_table_is_stacked_and_no_cell_is_broken(tmp_path):
    log = tmp_path / "job.out"
    metrics = "loss: 0.1125 - accuracy: 0.2125 - val_loss: 0.3125"
    log.write_text(f"Epoch 1/1\n196/196 - 220s - {metrics} - 220s/epoch - 1s/step\n")
    (one,) = parse_files([str(log)])
    cells = set("".join(file_text(one).splitlines(keepends=True)[-2:]).split())
    for width in (80, 60, 40):
        lines = file_text(one, width).splitlines()[3:]
        assert max(map(len, lines)) <= width and cells <= set(" ".join(lines).split())
        assert sum(line.split()[:1] == ["epoch"] for line in lines) > 1, "each part names its epoch"


@pytest.mark.parametrize("variant", ["lines", "joined", "lines3", "joined3", "pytorch", "pytorch-ranks"])
def test_the_big_logs_of_the_benchmark_are_read_completely(variant, tmp_path):
    """The benchmark's own logs, small: every epoch is found. (Its ratios are not held here.)"""
    log = tmp_path / "big.out"
    epochs = parse_big_log.write(log, variant, 600_000)
    assert parse_big_log.read_labtui(log) == epochs > 0


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
@pytest.mark.parametrize("name", ["/dev/zero", "pipe"])
def test_what_has_no_end_is_not_waited_for(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    with pytest.raises(DataError, match="not a regular file") as caught:
        read_log(name, "out")
    assert "standard input" in caught.value.hint


def test_what_is_no_text_is_not_read_to_its_end(tmp_path):
    path = tmp_path / "holes.out"
    with path.open("wb") as file:
        file.truncate(50 << 20)  # a hole: 50 MiB of zeros
    assert read_log(str(path), "out").size < 10 << 20


def test_a_log_named_twice_is_read_once_and_numbers_that_json_does_not_know_are_null(tmp_path, capsys):
    path = tmp_path / "a.out"
    path.write_text("Epoch 1/2\n10/10 - 1s - loss: nan - accuracy: inf - val_loss: 0.5\n")
    first, second = parse_files([str(path), str(path)])
    assert first is second
    assert main(["parse", "--json", str(path)]) == 0
    answer = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    (epoch,) = answer["files"][0]["runs"][0]["epochs"]
    assert epoch["metrics"] == {"loss": None, "accuracy": None, "val_loss": 0.5}
    assert epoch["not_finite"] == {"loss": "nan", "accuracy": "inf"}
