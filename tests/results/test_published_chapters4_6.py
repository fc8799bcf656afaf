"""Tables 4.2, 4.3 and 6.1 to 6.3 of the book: what follows from the times is derived, what contradicts is held here."""

from __future__ import annotations

import pytest

from labtui.domain.model import Interval
from labtui.export.measurements import Measurements
from labtui.results.catalogue import catalogue
from labtui.results.compute import compute_results
from labtui.results.measured import measured_from_reports
from labtui.results.serialize import results_json
from labtui.session.labs import load_edition
from labtui.training_logs.reader import parse_log
from tests.results.helpers import published

TABLES = published("chapters4_6.toml")
STRONG, JACOBI = TABLES["strong"], TABLES["jacobi"]


def results(lab: str, *lines: str):
    programs = tuple(each.program for each in load_edition(lab).programs)
    report = parse_log("".join(f"{line}\n" for line in lines).encode(), programs=programs)
    return compute_results(measured_from_reports([("lab.out", report)]))


@pytest.fixture(scope="module")
def pi():
    parallel = zip(STRONG["processes"], STRONG["ms"], strict=True)
    return results(
        "hpc4ai-ch4",
        f"Sequential execution time: {STRONG['sequential_ms']:.2f} ms",
        *(f"Parallel execution time with {n} processes: {ms:.2f} ms" for n, ms in parallel),
    )


@pytest.fixture(scope="module")
def jacobi():
    """The lines that the program prints, with the one-GPU times of table 6.1."""
    lines = []
    for side, times in JACOBI["seconds"].items():
        for n, seconds in zip(JACOBI["gpus"], times, strict=True):
            lines.append(
                f"{side}x{side}: 1 GPU: {times[0]:8.4f}s, {n} GPUs: {seconds:8.4f}s, speedup: 0.00, efficiency: 0.00"
            )
    return results("hpc4ai-ch6", *[line.replace("jacobi-default", "jacobi") for line in lines])


def test_table_4_2_and_every_speedup_and_efficiency_from_it(pi):
    assert [row.processes for row in pi.programs] == [1, *STRONG["processes"]]
    assert pi.rows == ()
    base = Interval.around(STRONG["sequential_ms"], 0.005)
    for row, ms in zip(pi.programs[1:], STRONG["ms"], strict=True):
        assert row.shown.value == pytest.approx(ms)
        assert row.shown.half_width == pytest.approx(0.005)
        wanted = base.over(Interval.around(ms, 0.005))
        assert (row.speedup.lo, row.speedup.hi) == pytest.approx((wanted.lo, wanted.hi))
        assert row.efficiency.value == pytest.approx(wanted.value / row.processes)
        assert row.weak_efficiency is None
    best = max(pi.programs, key=lambda row: row.speedup.value)
    assert best.processes == 32
    # 27.58 is 27.584 cut or rounded; 20.49 is 20.485 rounded
    assert round(best.speedup.value, 2) == STRONG["best_speedup"]
    assert round(pi.programs[-1].speedup.value, 2) == STRONG["last_speedup"]


def test_table_4_3_is_flat_and_weak_scaling_has_no_speedup():
    """The chapter has no time on one process, so no efficiency follows from its table; with one it is T1/Tn."""
    least, most = TABLES["weak"]["least_ms"], TABLES["weak"]["most_ms"]
    assert most / least - 1 == pytest.approx(0.0015, abs=5e-5)
    assert (
        most < STRONG["sequential_ms"] < 1.06 * least
    )  # the programs differ by 5 % where both have one process's work
    line = "Parallel execution time with {} processes and n = {}: {:.2f} ms"
    times = {1: least, 2: least, 64: most}
    found = results("hpc4ai-ch4", *(line.format(n, n * 2**32, ms) for n, ms in times.items()))
    assert [row.weak_efficiency.value for row in found.programs] == pytest.approx([1.0, 1.0, least / most])
    assert all(row.speedup is None and row.efficiency is None for row in found.programs)
    alone = results("hpc4ai-ch4", line.format(2, 2 * 2**32, least))
    assert alone.programs[0].weak_efficiency is None
    assert "1 process" in alone.programs[0].notes[0]
    grown = results("hpc4ai-ch4", line.format(1, 2**32, least), line.format(2, 2**32, least / 2))
    assert grown.programs[1].weak_efficiency is None
    assert "not weak scaling" in grown.programs[1].notes[0]


def test_tables_6_2_and_6_3_follow_from_6_1(jacobi):
    rows = {(row.size, row.processes): row for row in jacobi.programs}
    assert len(rows) == 18
    for side, times in JACOBI["seconds"].items():
        for n, seconds in zip(JACOBI["gpus"], times, strict=True):
            row = rows[f"{side}x{side}", n]
            assert row.speedup.value == pytest.approx(times[0] / seconds)
            assert row.efficiency.value == pytest.approx(times[0] / seconds / n)
    for side in ("32768", "8192"):
        last = rows[f"{side}x{side}", 32]
        assert round(last.speedup.value, 1) == JACOBI["speedup"][side]
        assert 100 * last.efficiency.value == pytest.approx(JACOBI["efficiency"][side], abs=0.3)
    # "30 %" is 30.27 %, cut; 9.7 is 9.687 rounded
    assert 100 * rows["8192x8192", 32].efficiency.value == pytest.approx(30.27, abs=0.01)


def test_a_line_without_a_run_on_one_gpu_is_compared_with_its_own_baseline():
    line = "16384x16384: 1 GPU: 648.9119s, 4 GPUs: 165.7268s, speedup: 3.92, efficiency: 97.89"
    (row,) = results("hpc4ai-ch6", line).programs
    assert (round(row.speedup.value, 2), round(100 * row.efficiency.value, 2)) == (3.92, 97.89)
    assert "in its own line" in row.notes[0]


def test_charts_say_processes_and_milliseconds_and_never_mix_the_two_scalings(pi):
    charts = {chart.key: chart for chart in catalogue(pi)}
    assert list(charts) == ["program-time", "program-speedup", "program-efficiency"]
    time = charts["program-time"]
    assert (time.x_label, time.y_label) == ("processes", "milliseconds") and time.x_log
    assert [text for _, text in time.x_ticks] == ["1", "2", "4", "8", "16", "32", "64"]
    assert [series.role for series in charts["program-speedup"].series] == ["measured", "ideal"]
    assert all("Strong scaling" in chart.notes[0] for chart in charts.values())


def test_grids_are_lines_of_one_chart(jacobi):
    speedup = next(chart for chart in catalogue(jacobi) if chart.key == "program-speedup")
    names = [series.name for series in speedup.series]
    assert len(names) == 4
    assert names[-1] == "ideal"
    assert speedup.x_label == "GPUs" and speedup.x_log


def test_results_json_gains_programs_and_changes_nothing_else(pi):
    found = results_json(pi)
    assert found["rows"] == []
    row = found["programs"][-1]
    assert (row["program"], row["scaling"], row["counts"], row["processes"]) == (
        "pi",
        "strong",
        "processes",
        64,
    )
    assert row["baseline"] == "the sequential program"
    assert row["seconds"]["lo"] < 0.21627 < row["seconds"]["hi"]
    assert Measurements().json(pi)["programs"] == found["programs"]
