"""The real Extra-P opens our measurements, and its model of exact data agrees with ours.

Extra-P asks for NumPy 1, so it lives in an environment of its own; without it these tests are skipped, aloud.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from labtui.domain.model import Interval
from labtui.results.compute import compute_results
from labtui.results.laws import amdahl_speedup, gustafson_speedup
from labtui.results.serialize import extrap_lines

from .helpers import results_of, run

PYTHON = Path(__file__).parent.parent.parent / ".venv-extrap" / "bin" / "python"
SIZES = (1, 2, 4, 8, 16, 32)

# Prints for each call path and metric the constant and the terms [coefficient, exponents] of Extra-P's model.
MODEL = """
import json, sys
from extrap.fileio.file_reader.jsonlines_file_reader import read_jsonlines_file
from extrap.modelers.model_generator import ModelGenerator
from extrap.modelers.single_parameter.basic import SingleParameterModeler
experiment = read_jsonlines_file(sys.argv[1])
modeler = SingleParameterModeler()
modeler.allow_negative_exponents = sys.argv[2] == "negative"
modeler.allow_log_terms = False
generator = ModelGenerator(experiment, modeler=modeler)
generator.model_all()
found = {}
for (callpath, metric), model in generator.models.items():
    function = model.hypothesis.function
    terms = [[term.coefficient, [float(simple.exponent) for simple in term.simple_terms]]
             for term in function.compound_terms]
    found[f"{callpath.name}|{metric.name}"] = [function.constant_coefficient, terms]
print(json.dumps(found))
"""


@pytest.fixture
def model(tmp_path):
    if not PYTHON.exists():
        pytest.skip(
            "Extra-P is not installed in .venv-extrap (make .venv-extrap): its model was NOT compared"
        )

    def fitted(text: str, *, negative: bool) -> dict[str, list]:
        file = tmp_path / "measured.jsonl"
        file.write_text(text, "utf-8")
        command = [
            str(PYTHON),
            "-W",
            "ignore",
            "-c",
            MODEL,
            str(file),
            "negative" if negative else "positive",
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return fitted


def test_lines_have_extra_ps_form():
    lines = [json.loads(line) for line in extrap_lines(results_of("ResNet50.31337.out")).splitlines()]
    times = [line for line in lines if line["metric"] == "epoch_seconds"]
    assert [line["params"] for line in times] == [{"p": 1}, {"p": 2}, {"p": 4}]
    assert {line["callpath"] for line in lines} == {"ResNet50, 2048 per GPU"}
    assert [round(line["value"], 3) for line in times] == [13.6, 8.099, 5.376]


def test_every_steady_epoch_is_a_repetition_and_cpus_are_left_out():
    results = compute_results([run(1, [9, 5.0, 5.1, 5.2]), run(0, [99, 50])])
    lines = [json.loads(line) for line in extrap_lines(results).splitlines()]
    assert [line["value"] for line in lines if line["metric"] == "epoch_seconds"] == [5.0, 5.1, 5.2]
    assert extrap_lines(compute_results([])) == ""
    practice = extrap_lines(compute_results([run(1, [9, 5], practice=True)]))
    assert "practice" in json.loads(practice.splitlines()[0])["callpath"]


def test_extra_p_finds_amdahls_fraction(model):
    """T(p) = T_1 s + T_1 (1 - s) / p: Extra-P's constant over the sum of both is our s."""
    fraction = 0.15
    times = {n: 60 / amdahl_speedup(fraction, n) for n in SIZES}
    results = compute_results([run(n, [99, time, time], batch=256 * n) for n, time in times.items()])
    (ours,) = (fit for fit in results.fits if fit.law == "amdahl")
    constant, terms = model(extrap_lines(results), negative=True)["ResNet50, 256 per GPU|epoch_seconds"]
    ((coefficient, exponents),) = terms
    assert exponents == [-1.0]
    assert constant / (constant + coefficient) == pytest.approx(ours.serial_fraction.value, abs=1e-9)
    assert constant + coefficient == pytest.approx(60)


def test_extra_p_finds_gustafsons_fraction(model):
    """Throughput R(p) = R_1 s' + R_1 (1 - s') p: the same in weak scaling, read from rates."""
    fraction = 0.2
    rates = {n: 250.0 * gustafson_speedup(fraction, n) for n in SIZES}
    runs = [run(n, [], throughput=Interval.exact(rate), batch=64 * n) for n, rate in rates.items()]
    results = compute_results(runs)
    (ours,) = (fit for fit in results.fits if fit.law == "gustafson")
    constant, terms = model(extrap_lines(results), negative=False)["ResNet50, 64 per GPU|throughput"]
    ((coefficient, exponents),) = terms
    assert exponents == [1.0]
    assert constant / (constant + coefficient) == pytest.approx(ours.serial_fraction.value, abs=1e-9)


def test_extra_p_opens_the_published_runs_of_both_networks(model):
    text = extrap_lines(results_of("ResNet50.31337.out", "ResNet152.31338.out"))
    assert len(model(text, negative=True)) == 4


def test_the_documented_command_works(tmp_path):
    program = PYTHON.parent / "extrap"
    if not program.exists():
        pytest.skip("Extra-P is not installed in .venv-extrap (make .venv-extrap): its program was NOT run")
    file = tmp_path / "measured.jsonl"
    file.write_text(extrap_lines(results_of("ResNet50.31337.out")), "utf-8")
    command = [program, "--json", file, "--options", "allow_negative_exponents=1", "--disable-progress"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0 and "p^(-1)" in done.stdout
