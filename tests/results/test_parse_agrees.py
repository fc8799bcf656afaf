"""`labtui parse` and `labtui results` never differ on one file, and neither assumes a number of images."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from labtui.commands.parse import file_json, file_text, parse_files
from labtui.results.compute import compute_results
from labtui.results.measured import measured_from_reports
from labtui.results.serialize import results_json

from .helpers import PUBLISHED
from .test_deleted_lines import LOGS


def both(path: Path):
    """The runs as `parse` tells them and the rows as `results` does, from one file."""
    (one,) = parse_files([str(path)])
    results = compute_results(measured_from_reports([(str(path), one.report)]))
    return json.loads(json.dumps(file_json(one))), results_json(results), file_text(one)


def written(folder: Path, text: str) -> Path:
    path = folder / "train.out"
    path.write_text(text)
    return path


@pytest.mark.parametrize("name", [*LOGS, *sorted(path.name for path in PUBLISHED.glob("*.out"))])
def test_both_tell_the_same_numbers(name, tmp_path):
    path = written(tmp_path, LOGS[name]) if name in LOGS else PUBLISHED / name
    parsed, from_both, _ = both(path)
    rows = [row for row in from_both["rows"] if row["runs"] == 1]
    assert len(rows) == len(parsed["runs"]), "each log here has runs of different sizes"
    for run in parsed["runs"]:
        (row,) = [
            row for row in rows if row["n_gpus"] in (run["n_gpus"], 0 if run["device"] is None else None)
        ] or rows
        assert run["throughput"] == row["throughput"]
        assert run["steady_seconds"] == row["epoch_seconds"]
        assert run["images_bound"] == row["images_bound"]


def test_a_run_of_37_steps_without_a_batch_has_no_throughput(tmp_path):
    epochs = "".join(f"Epoch {k}/3\n37/37 - 5s - loss: 1.0 - 5s/epoch - 135ms/step\n" for k in (1, 2, 3))
    parsed, from_both, text = both(written(tmp_path, epochs))
    (run,), (row,) = parsed["runs"], from_both["rows"]
    assert run["throughput"] is None and row["throughput"] is None and row["images"] is None
    assert any("--images" in note for note in row["notes"]) and "--images" in text


def test_a_batch_makes_a_bound_of_the_steps(tmp_path):
    epochs = "".join(f"Epoch {k}/3\n37/37 - 5s - loss: 1.0 - 5s/epoch - 135ms/step\n" for k in (1, 2, 3))
    _, parsed, _ = both(written(tmp_path, "Batch size: 32\n" + epochs))
    (row,) = parsed["rows"]
    assert (row["images_bound"]["lo"], row["images_bound"]["hi"]) == (36 * 32 + 1, 37 * 32)
    seconds = row["epoch_seconds"]
    assert row["throughput"]["lo"] == pytest.approx((36 * 32 + 1) / seconds["hi"])
    assert row["throughput"]["hi"] == pytest.approx(37 * 32 / seconds["lo"])
    assert any("1,153 to 1,184" in note for note in row["notes"])


def test_where_the_lab_s_number_fits_it_is_the_value_and_the_bounds_stay():
    _, parsed, _ = both(PUBLISHED / "ResNet50.31337.out")
    four = parsed["rows"][2]
    assert four["throughput"]["value"] == pytest.approx(50_000 / 5.376)
    assert four["throughput"]["lo"] < 6 * 8192 / 5.37 and four["throughput"]["hi"] > 7 * 8192 / 5.38
    assert any("50,000 is in this range and is used" in note for note in four["notes"])
    assert four["as_printed"]["throughput"] == 10_000


@pytest.mark.parametrize("rate", ["total images/sec: 951.12", "total images/sec: 951.00"])
def test_a_rate_has_no_epoch_time_without_images(rate, tmp_path):
    _, parsed, _ = both(written(tmp_path, LOGS["a rate"].replace("total images/sec: 951.12", rate)))
    (row,) = parsed["rows"]
    assert row["epoch_seconds"] is None and row["steps"] is None
    assert row["step_seconds"]["value"] == pytest.approx(256 / float(rate.split()[-1]))


def test_unknown_images_leave_the_csv_empty_and_known_ones_whole(tmp_path, capsys):
    from labtui.commands.cli import main

    rated, recorded = tmp_path / "rate.out", tmp_path / "records.out"
    rated.write_text(LOGS["a rate"])
    recorded.write_text(LOGS["MLPerf records"])
    assert main(["results", "--csv", str(rated), str(recorded)]) == 0
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert sorted(row["images"] for row in rows) == ["", "10000"]
    assert next(row for row in rows if not row["images"])["epoch_seconds"] == ""
