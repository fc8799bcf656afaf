"""A log that lost a line: each number stays, becomes wider, is absent, or stands beside a new remark.

Never does it become another number that claims to be as certain.
"""

import csv
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from labtui.commands.parse import file_json, parse_files
from labtui.domain.model import Interval
from labtui.export.tables import csv_text
from labtui.results.compute import compute_results
from labtui.results.measured import measured_from_reports
from labtui.results.report import results_json
from labtui.results.rows import ResultRow, Results
from labtui.training_logs import reader, runs
from tests.training_logs import samples
from tests.training_logs.test_bars import bars

from .helpers import PUBLISHED

NUMBERS = ["epoch_seconds", "step_seconds", "throughput", "speedup"]
NUMBERS += ["efficiency", "karp_flatt", "acceleration"]


def keras_log(gpus: int, step: float, steps: int) -> str:
    """Four epochs that differ by more than printing hides."""
    text = samples.banner("ResNet50", gpus, 64 * gpus)
    for epoch, factor in enumerate((3, 1.04, 1.06, 1.08), start=1):
        seconds, ms = steps * step * factor, round(1000 * step * factor)
        text += f"Epoch {epoch}/4\n{steps}/{steps} - {seconds:.0f}s - loss: 1.2 - {seconds:.0f}s/epoch - {ms}ms/step\n"
    return text


def mlperf_log() -> str:
    facts = {"submission_benchmark": "resnet50", "num_replicas": 2}
    facts |= {"global_batch_size": 512, "train_samples": 10_000}
    text = "".join(samples.mllog(*fact) for fact in facts.items()) + samples.mllog("run_start")
    for epoch, seconds in enumerate((9.0, 4.1, 4.3), start=1):
        text += samples.mllog("epoch_start", epoch_num=epoch)
        text += samples.mllog("epoch_stop", epoch_num=epoch, seconds=seconds, steps=20)
    return text + samples.mllog("run_stop", status="success")


RATE = (
    "TensorFlow:  1.12\nModel:       resnet50\nBatch size:  256 global\n"
    "Devices:     ['/gpu:0', '/gpu:1', '/gpu:2', '/gpu:3']\nStep\tImg/sec\ttotal_loss\n"
    "1\timages/sec: 952.1 +/- 0.0 (jitter = 0.0)\t8.169\ntotal images/sec: 951.12\n"
)
LONG, SHORT = (bars("2.6 to 2.15", [first, *[0.12] * 24], separate=True).decode() for first in (2.0, 0.3))
LOGS = {
    "the book's log": (PUBLISHED / "ResNet50.31337.out").read_text(),
    "three sizes in one log": keras_log(1, 0.5, 20) + keras_log(2, 0.55, 10) + keras_log(4, 0.6, 5),
    "MLPerf records": mlperf_log(),
    "ImageNet example": "python main.py -a resnet50 -b 256 --gpus 2 --epochs 3 /data\n"
    + "".join(f"{samples.imagenet(n, 100, 49, 0.5 + n / 100)} * Acc@1 {10 + n}.000\n" for n in range(3)),
    "progress bars": samples.banner("ResNet50", 1, 64)
    + "".join(f"Epoch {n}/3\n{epoch}" for n, epoch in ((1, LONG), (2, SHORT), (3, SHORT))),
    "a rate": RATE,
}


def read(text: str) -> tuple[runs.LogReport, Results]:
    report = reader.parse_log(text.encode())
    return report, compute_results(measured_from_reports([("run.out", report)]))


def name(row: ResultRow) -> tuple[object, ...]:
    return row.model, row.configuration.device, row.n_gpus


def counterpart(row: ResultRow, whole: Results) -> ResultRow | None:
    for other in whole.rows:
        same_model = row.model in (other.model, "unknown")
        if same_model and (row.n_gpus is None or name(row)[1:] == name(other)[1:]):
            return other
    return None


def remarks(report: runs.LogReport, results: Results, row: ResultRow | None) -> set[str]:
    found = {each.text for each in report.diagnosis} | {left.reason for left in results.left_out}
    for one in results.rows:
        mine = (row, row.baseline) if row is not None else ()
        if any(each is not None and each.configuration == one.configuration for each in mine):
            found |= set(one.notes)
    return found


def holds(before: Interval, after: Interval) -> bool:
    """Whether the number is the same, or says less and still holds what it said."""
    wider = after.hi - after.lo >= (before.hi - before.lo) * (1 - 1e-9)
    return wider and after.lo <= before.value * (1 + 1e-9) and before.value <= after.hi * (1 + 1e-9)


def deceptions(text: str) -> Iterator[str]:
    report, whole = read(text)
    lines = text.splitlines(keepends=True)
    for place, line in enumerate(lines):
        readings, left = read("".join(lines[:place] + lines[place + 1 :]))
        for row in left.rows:
            before = counterpart(row, whole)
            flagged = remarks(readings, left, row) - remarks(report, whole, before)
            if flagged:
                continue
            if before is None:
                yield f"without line {place + 1} ({line.strip()}) there is {name(row)} without a remark"
                continue
            for number in NUMBERS:
                was, now = getattr(before, number), getattr(row, number)
                if now is not None and (was is None or not holds(was, now)):
                    yield f"without line {place + 1} ({line.strip()[:60]}) {number} of {name(row)} is {now}, not {was}"


@pytest.mark.parametrize("text", LOGS.values(), ids=LOGS)
def test_no_lost_line_makes_another_number_as_certain(text):
    assert not list(deceptions(text))
    rows = read(text)[1].measured
    assert rows and all(row.throughput is not None for row in rows), "else an empty reading would do"


def both(path: Path):
    (one,) = parse_files([str(path)])
    results = compute_results(measured_from_reports([(str(path), one.report)]))
    return json.loads(json.dumps(file_json(one))), results_json(results)


def written(folder: Path, text: str) -> Path:
    path = folder / "train.out"
    path.write_text(text)
    return path


@pytest.mark.parametrize("name", [*LOGS, *sorted(path.name for path in PUBLISHED.glob("*.out"))])
def test_both_tell_the_same_numbers(name, tmp_path):
    parsed, from_both = both(written(tmp_path, LOGS[name]) if name in LOGS else PUBLISHED / name)
    rows = [row for row in from_both["rows"] if row["runs"] == 1]
    assert len(rows) == len(parsed["runs"]), "each log here has runs of different sizes"
    for run in parsed["runs"]:
        sizes = (run["n_gpus"], 0 if run["device"] is None else None)
        (row,) = [row for row in rows if row["n_gpus"] in sizes] or rows
        assert run["throughput"] == row["throughput"] and run["steady_seconds"] == row["epoch_seconds"]
        assert run["images_bound"] == row["images_bound"]


def test_the_lab_s_number_of_images_where_it_fits_the_log_s_or_none_in_the_csv(tmp_path):
    _, parsed = both(PUBLISHED / "ResNet50.31337.out")
    four = parsed["rows"][2]
    assert four["throughput"]["value"] == pytest.approx(50_000 / 5.376)
    assert four["throughput"]["lo"] < 6 * 8192 / 5.37 and four["throughput"]["hi"] > 7 * 8192 / 5.38
    assert any("50,000 fits its steps and is used" in note for note in four["notes"])
    assert four["as_printed"]["throughput"] == 10_000
    reports = [(name, reader.parse_log(LOGS[name].encode())) for name in ("a rate", "MLPerf records")]
    rows = list(csv.DictReader(csv_text(compute_results(measured_from_reports(reports))).splitlines()))
    assert sorted(row["images"] for row in rows) == ["", "10000"]
    assert next(row for row in rows if not row["images"])["epoch_seconds"] == ""
    (row,) = both(written(tmp_path, RATE))[1]["rows"]
    assert row["steps"] is None and row["step_seconds"]["value"] == pytest.approx(256 / 951.12)
