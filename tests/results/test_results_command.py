"""`labtui results` as others call it: bare files, bad files, a lab folder, every form of answer."""

import contextlib
import json
import os
from pathlib import Path

import pytest

from labtui.commands.cli import main
from labtui.domain.model import JobPhase
from labtui.domain.state import LabState
from labtui.session import opening, settings
from labtui.session.folder import LabFolder
from labtui.session.store import Store
from tests import changes
from tests.changes import accepted, after, ended, observed, planned
from tests.training_logs import samples

from .helpers import PUBLISHED, epoch, spec

R50 = str(PUBLISHED / "ResNet50.31337.out")
R152 = str(PUBLISHED / "ResNet152.31338.out")

ROW_FIELDS = {
    "model", "device", "n_gpus", "batch_size", "runs", "epochs", "epoch_seconds", "throughput", "speedup",
    "efficiency", "as_printed", "batch_factor", "step_factor", "karp_flatt",
}  # fmt: skip
START = 1_763_718_000.0


def call(capsys, *arguments):
    code = main(["results", *arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def is_interval(value):
    return set(value) == {"value", "lo", "hi"} and value["lo"] <= value["value"] <= value["hi"]


def test_the_models_of_logs_have_the_names_of_their_lab_but_in_json(capsys, tmp_path):
    (log := tmp_path / "vit.out").write_text(Path(R50).read_text().replace("ResNet50", "vit"))
    assert "ViT-H/14  1 GPU" in call(capsys, "--lab=hpc4ai-ch12", str(log))[1]
    assert '"model": "vit"' in call(capsys, "--lab=hpc4ai-ch12", "--json", str(log))[1]


def test_the_json_other_programs_rely_on(capsys, tmp_path):
    (tmp_path / "again.out").symlink_to(Path(R50).resolve())
    code, out, err = call(capsys, "--json", R50, R152, R50, str(tmp_path / "again.out"))
    report = json.loads(out)
    assert (code, err, report["images"]) == (0, "", 50_000) and set(report) >= {"images", "rows", "fits"}
    assert [row["runs"] for row in report["rows"]] == [1] * 6, "a log given twice is one run"
    for row in report["rows"]:
        assert set(row) >= ROW_FIELDS
        for name in ("epoch_seconds", "throughput", "speedup", "efficiency", "step_factor"):
            assert is_interval(row[name])
        assert set(row["as_printed"]) == {"epoch_seconds", "throughput", "speedup", "efficiency"}
        assert (row["karp_flatt"] is None) == (row["n_gpus"] == 1) and row["sources"][0]["line"] > 0
    four = report["rows"][2]
    assert (four["model"], four["device"], four["n_gpus"], four["batch_size"]) == ("ResNet50", "gpu", 4, 8192)
    assert (four["as_printed"]["speedup"], four["as_printed"]["efficiency"]) == (2.8, 0.7)
    assert four["batch_factor"] == pytest.approx(25 / 7 / 4)
    assert {fit["law"] for fit in report["fits"]} == {"amdahl", "gustafson"}
    for fit in report["fits"]:
        assert set(fit) >= {"model", "law", "serial_fraction", "points", "note"}
        assert is_interval(fit["serial_fraction"]) and fit["points"] == 3 and fit["note"]


def test_bad_inputs_get_a_sentence_each_and_the_rest_is_reported(capsys, tmp_path):
    empty = tmp_path / "empty.out"
    empty.write_bytes(b"")
    binary = tmp_path / "binary.out"
    binary.write_bytes(os.urandom(5000) + bytes(5000))
    unread = [str(tmp_path), str(tmp_path / "missing.out"), str(empty), str(binary)]
    code, out, err = call(capsys, "--json", *unread, R50)
    assert code == 2
    for path in unread:
        assert sum(line.startswith(f"labtui: {path}: ") for line in err.splitlines()) == 1
    assert "Traceback" not in err and len(json.loads(out)["rows"]) == 3


def test_the_readable_answer_holds_both_readings_laws_and_notes(command):
    assert "--images" in command(["results", "--images", "0", R50], 2).err, "a senseless number"
    out = command(["results", R50, R152, "--sources"]).out
    told = "All epochs but the first|2.53|a rate; – is neither|2.80|91.5 %|Amdahl, ResNet50|On 8 GPUs|line 27"
    assert [text for text in told.split("|") if text not in out] == []


def test_without_files_and_without_a_folder_or_a_run_there_is_a_hint(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    captured = command(["results"], 2)
    assert captured.out == ""
    assert "no lab folder" in captured.err and "--folder DIR or log files" in captured.err
    made = LabFolder.create(tmp_path / "new", settings.Settings(edition="hpc4ai-ch10", profile="mn5"))
    monkeypatch.chdir(made.path)
    captured = command(["results"], 1)
    assert captured.out == "" and "No run has been read yet" in captured.err


def test_the_samplers_file_is_read_with_its_log_and_is_no_log(capsys, tmp_path):
    log, sampler = tmp_path / "ResNet50.31337.out", tmp_path / "ResNet50.31337.gpu.csv"
    log.write_bytes(Path(R50).read_bytes())
    sampler.write_text("2025/11/21 09:40:00.000, 0, 97, 1, 1, 1, 1\n")
    code, out, err = call(capsys, "--json", str(log), str(sampler))
    report = json.loads(out)
    # These logs have no clock, so nothing can be laid beside them; it is no error either.
    assert (code, err, report["gpu_use"], len(report["rows"])) == (0, "", [], 3)
    code, _, err = call(capsys, "--json", str(tmp_path / "gone.gpu.csv"), str(log))
    assert code == 2 and "No such file" in err


def test_the_devices_in_the_err_beside_a_log_keep_its_run_out_of_speedups(capsys, tmp_path):
    """TensorFlow names the devices it uses in the .err; the script's banner in the .out promises four."""
    for count in (1, 4):
        head = f"Model ResNet50 {count} GPUs\nbatch_size: {512 * count}\n"
        (tmp_path / f"{count}.out").write_text(head + samples.keras(1, 3, 3))
        (tmp_path / f"{count}.err").write_text(samples.devices(0))
    assert main(["results", *[str(path) for path in sorted(tmp_path.iterdir())], "--json"]) == 0
    first, second = json.loads(capsys.readouterr().out)["rows"]
    assert [row["n_gpus"] for row in (first, second)] == [1, 1]
    assert all(row["speedup"] is None or row["speedup"]["value"] == 1 for row in (first, second))
    assert main(["parse", str(tmp_path / "4.out"), "--json"]) == 0
    (run,) = json.loads(capsys.readouterr().out)["files"][0]["runs"]
    assert run["n_gpus"] == 1 and ".err" in run["contradictions"][0]


def job(token: str, job_id: str, runs: list[tuple[int, int, float]], *, practice: bool = False) -> list:
    """A job whose runs (id, GPUs, steady seconds) each had a first epoch of 20 s and two steady ones."""
    plan = {run_id: spec(n) for run_id, n, _ in runs}
    over = {"start_time": START, "end_time": START + 180}
    steps = [
        planned(token, plan, START, form="one-job", job_name="ResNet50", gpus=4, cpus=80, practice=practice),
        accepted(token, job_id), observed(token, job_id, JobPhase.FINISHED, **over),
    ]  # fmt: skip
    clock = START
    for run_id, _, seconds in runs:
        for number, time in enumerate((20.0, seconds, seconds), start=1):
            clock += time
            sample = epoch(number, time, half_width=0.001, line=10 * run_id + number, ended_at=clock)
            steps.append(changes.epoch(run_id, sample))
        steps.append(ended(run_id, "completed"))
    return steps


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """A lab folder with a job of 1 and 4 GPUs and a practice job of 2."""
    made = LabFolder.create(tmp_path / "lab", settings.Settings(edition="hpc4ai-ch10", profile="mn5"))
    rehearsed = job("bbb", "42", [(3, 2, 1.0)], practice=True)
    state = after(*job("aaa", "41", [(1, 1, 14.0), (2, 4, 5.0)]), *rehearsed)
    with contextlib.closing(Store(made.database_path)) as store:
        store.write(LabState(), state)
        store.write_readings(state, {"aaa": "41", "bbb": "42"})
    monkeypatch.chdir(made.path)
    return made.path


def report_of(capsys, *arguments):
    assert main(["results", "--json", *arguments]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_rows_and_hours_of_a_folder_though_it_is_open_elsewhere(folder, capsys, command):
    lock = opening.lock_folder(LabFolder.open(folder).lock_path)
    assert lock is not None
    rows = report_of(capsys)["rows"]
    lock.release()
    assert [(row["n_gpus"], row["practice"]) for row in rows] == [(1, False), (4, False), (2, True)]
    assert rows[1]["speedup"]["value"] == pytest.approx(2.8)
    source = {"path": "logs/ResNet50.41.out", "job_id": "41", "run": 2, "epoch": 2, "line": 22}
    assert rows[1]["sources"][0] == source
    assert rows[2]["speedup"] is None, "a practice run has no real baseline"
    cost = report_of(capsys)["cost"]
    assert cost["total"]["gpu_hours_allocated"] == pytest.approx(4 * 180 / 3600)
    assert cost["total"]["gpu_hours_used"] == pytest.approx((1 * 48 + 4 * 30) / 3600)
    assert [job["job_id"] for job in cost["jobs"]] == ["41"]
    told = command(["results", "--details"]).out
    assert "used by training, 1 job\n" in told and "task 10.5: 0.20 allocated, 0.05 used" in told


def test_the_samplers_file_lies_beside_the_epochs(folder, capsys, command):
    for every, four in ((2, None), (1, 1.0)):  # ten samples of each GPU
        lines = [
            f"2025/11/21 09:{40 + second // 60:02d}:{second % 60:02d}.000, {gpu}, {busy}, 1, 1, 1, 1\n"
            for second in range(0, 80, every)
            for gpu in range(4)
            for busy in [100 if gpu < 2 or second > 48 else 0]  # GPU 1 is another's
        ]
        lines.insert(0, "timestamp, index, utilization.gpu\n")
        (folder / "logs" / "ResNet50.41.gpu.csv").write_text("".join(lines))
        use = [(each["n_gpus"], each["standing_by"], each["steady"]) for each in report_of(capsys)["gpu_use"]]
        assert use == [(1, 2, 1.0), (4, 0, four)]
        told = command(["results", "--details"]).out
        assert "on 1 GPU (job 41): 100.0 % busy after the first epoch; 2 of the job's GPUs were idle." in told
        assert (four is None) == ("(job 41): not known, too few samples after the first epoch." in told)


def test_a_folder_is_named_by_option_or_in_place_of_logs(folder, tmp_path, monkeypatch, capsys, command):
    here = report_of(capsys)["rows"]
    monkeypatch.chdir(tmp_path)
    out = ["--out", str(tmp_path / "plots"), "--format", "svg"]
    for words in (["--folder", str(folder)], [str(folder)]):
        assert json.loads(command(["results", *words, "--json"]).out)["rows"] == here
        assert "epoch-time" in command(["plot", *words, *out]).out
    assert "--folder" in command(["results", "--folder", str(folder), "job.out"], 2).err
    assert "--lab are for log files" in command(["results", str(folder), "--lab", "x"], 2).err
