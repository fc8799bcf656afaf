"""The editions hold their documents' numbering, weights, GPUs, batches, epochs; each proves itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from labtui.lab.edition import ChartsCheck, EditedCheck, Edition, RunsCheck
from labtui.lab.plan import TRAINING_SCRIPTS, withheld_scripts
from labtui.lab.proof import prove, published_row
from labtui.session.labs import labs_folder, list_editions, load_edition

IDS = (
    "cc-mei-2025-lab5", "hpc4ai-ch10", "hpc4ai-ch11", "hpc4ai-ch12", "hpc4ai-ch15", "hpc4ai-ch4", "hpc4ai-ch6",
    "sa-miri-2021-ex12",
    "sa-miri-2025-pg", "sa-miri-2025-ph", "sa-miri-2025-pi", "thesis-2019",
)  # fmt: skip
R50 = [("ResNet50", 1, 2048, 2048, 5), ("ResNet50", 2, 4096, 2048, 5), ("ResNet50", 4, 8192, 2048, 5)]
R152 = [("ResNet152", 1, 1024, 1024, 5), ("ResNet152", 2, 2048, 1024, 5), ("ResNet152", 4, 4096, 1024, 5)]
R101 = [("ResNet101", n, batch, per, epochs) for _, n, batch, per, epochs in R152]
VIT = [("vit", n, 128 * n, 128, 5) for n in (1, 2, 4, 8, 16, 32)]
CPU = [("ResNet50", 0, 256, None, 2)]
ONE = [("ResNet50", 1, 256, 256, 2)]


def tuned(model: str, *batches: int) -> list[tuple[str, int, int, int, int]]:
    """Runs of five epochs on one GPU."""
    return [(model, 1, batch, batch, 5) for batch in batches]


def study(*sizes: int, each: int = 128) -> list[tuple[str, int, int, int, int]]:
    """Runs of the learning-rate study: 18 epochs stand for 90."""
    return [("ResNet50", n, n * each, each, 18) for n in sizes]


def tokens(*sizes: tuple[int, int]) -> list[tuple[str, int, int, int, int]]:
    """Runs of the language model: GPUs, and sequences for each."""
    return [("llama-1b", n, n * batch, batch, 1) for n, batch in sizes]


PLANS = {
    "cc-mei-2025-lab5": {"1": [], "2": CPU, "3": ONE, "4": [], "5": [], "6": R50, "7": R152, "8": []},
    "hpc4ai-ch10": {
        "10.1": [], "10.2": [], "10.3": CPU, "10.4": ONE, "10.5": R50, "10.6": R152, "10.7": [],
    },
    "hpc4ai-ch11": {
        "11.1": tuned("vit", 16, 32, 64, 128),
        "11.2": tuned("custom", 32, 64, 128, 256),
        "11.3": tuned("custom", *[256] * 8),
        "11.4": tuned("vit", *[64] * 8),
        "11.5": tuned("vit", 64, 128, 64, 128, 64, 128),
        "11.6": tuned("vit", 128, 128),
        "11.7": [],
    },
    "hpc4ai-ch12": {"12.1": VIT, "12.2": VIT, "12.3": [], "12.4": []},
    "hpc4ai-ch15": {
        "15.1": tokens((1, 6)), "15.2": tokens((1, 7)), "15.3": tokens((1, 5)), "15.4": tokens((1, 5)),
        "15.5": tokens((1, 7), (1, 8)), "15.6": tokens((1, 7)), "15.7": tokens((1, 14)),
        "15.8": tokens((1, 14)), "15.9": tokens((1, 37)),
        "15.10": tokens(*((n, 37) for n in (1, 2, 4, 8, 16, 32))), "15.11": [],
    },
    "thesis-2019": {
        "1": [("ResNet50", n, 128 * n, 128, 3) for n in (1, 2, 4, 8, 16, 24, 32)],
        "2": study(1, 2, 16, 24, 32), "3": study(1, 32), "4": study(8, 16, 24, 32), "5": study(32, each=32),
        "6": study(16, 24, 32), "7": study(24, 32), "8": [],
    },
    "sa-miri-2021-ex12": {
        "1": [], "2": [],
        "3": [("ResNet50", 0, 256, None, 5)],
        "4": [("ResNet50", 1, 256, 256, 5)],
        "5": [],
        "6": [("ResNet50", 1, 256, 256, 40)],
        "7": [("ResNet152", 1, 256, 256, 5)],
        "8": [],
    },
    "sa-miri-2025-pg": {
        "10.1": [], "10.2": [], "10.3": CPU, "10.4": ONE, "10.6": R50, "10.7": R152, "10.8": [], "10.9": R101,
        "10.10": [], "10.11": [],
    },
}  # fmt: skip
TIMED = {
    "hpc4ai-ch4": {
        "4.4": [("pi", 1, "4294967296")],
        "4.5": [("pi", n, "4294967296") for n in (2, 4, 8, 16, 32, 64)],
        "4.6": [("pi-weak", n, str(n * 2**32)) for n in (1, 2, 4, 8, 16, 32, 64)],
    },
    "hpc4ai-ch6": {
        "6.3": [("jacobi-default", 4, "16384x16384")],
        "6.4": [],
        "6.5": [("jacobi-optimized", 4, "16384x16384")],
        "6.6": [("jacobi", 4, "16384x16384")],
        "6.7": [
            ("jacobi", n, f"{side}x{side}") for side in (32768, 16384, 8192) for n in (1, 2, 4, 8, 16, 32)
        ],
    },
}
"""Programs that are timed: name, processes or GPUs, size."""
PLANS["sa-miri-2025-ph"] = PLANS["hpc4ai-ch11"] | {"11.8": tuned("vit", 128)}
PLANS["sa-miri-2025-pi"] = PLANS["hpc4ai-ch12"]


@pytest.fixture(scope="module")
def editions() -> dict[str, Edition]:
    return {name: load_edition(name) for name in IDS}


def test_the_list_holds_all_and_no_broken_one():
    entries = list_editions()
    assert [entry.id for entry in entries] == list(IDS)
    assert all(entry.tasks and not entry.problem for entry in entries)
    assert all(Path(entry.path).stem == entry.id for entry in entries)


@pytest.mark.parametrize("name", TIMED)
def test_programs_are_timed_on_the_numbers_of_the_document(editions, name):
    tasks = editions[name].tasks
    assert {task.id: [(r.model, r.processes, r.size) for r in task.runs] for task in tasks} == TIMED[name]
    for task in tasks:
        assert {r.gpus for r in task.runs} == (
            {0} if name == "hpc4ai-ch4" and task.runs else {r.processes for r in task.runs}
        )


@pytest.mark.parametrize("name", PLANS)
def test_numbers_are_those_of_the_document(editions, name):
    edition = editions[name]
    found = {
        task.id: [(r.model, r.gpus, r.batch_size, r.per_gpu_batch, r.epochs) for r in task.runs]
        for task in edition.tasks
    }
    assert found == PLANS[name]


@pytest.mark.parametrize("name", IDS)
def test_every_box_is_open_on_nothing_and_ticks_when_all_is_done(editions, name):
    assert [proof for proof in prove(editions[name]) if not proof.holds] == []


def test_lab5_has_the_weights_of_the_sheet(editions):
    weights = [task.weight for task in editions["cc-mei-2025-lab5"].tasks]
    assert weights == [10, 10, 10, 10, 10, 30, 10, 10]


def test_charts_asked_for(editions):
    def charts(name: str, task_id: str) -> tuple[set[str], tuple[str, ...]]:
        task = editions[name].task(task_id)
        check = next(c for c in task.checks if isinstance(c, ChartsCheck))
        return set(check.charts), check.models

    three = {"epoch-time", "throughput", "speedup"}
    four = three | {"efficiency"}
    assert charts("cc-mei-2025-lab5", "6") == (three, ("ResNet50",))
    assert charts("cc-mei-2025-lab5", "8") == (three, ("ResNet50", "ResNet152"))
    assert charts("hpc4ai-ch10", "10.5") == (four, ("ResNet50",))
    assert charts("hpc4ai-ch10", "10.7") == (four, ("ResNet50", "ResNet152"))
    assert charts("sa-miri-2025-pg", "10.9") == (four, ("ResNet50", "ResNet101", "ResNet152"))


def test_exercise_12_is_killed_by_its_five_minutes_and_wants_95_percent(editions):
    edition = editions["sa-miri-2021-ex12"]
    killed = edition.task("3")
    assert [run.time_limit_minutes for run in killed.runs] == [5]
    assert [run.cpus for run in killed.runs] == [160]
    check = next(c for c in killed.checks if isinstance(c, RunsCheck))
    assert "completed" not in check.outcomes
    assert "time-limit" in check.outcomes
    assert edition.task("4").runs[0].time_limit_minutes == 5
    accuracy = next(c for c in edition.task("6").checks if c.__struct_config__.tag == "metric")
    assert (accuracy.metric, accuracy.at_least) == ("accuracy", 0.95)
    assert edition.profiles[0] == "cte-power"


def test_what_is_not_handed_in(editions):
    for name in IDS:
        aside = [task.id for task in editions[name].tasks if not task.handed_in]
        assert aside == (["10.1", "10.2"] if name == "hpc4ai-ch10" else [])


def test_scripts_the_student_makes(editions):
    unused = {"pytorch/", "tensorflow/", "pi/", "jacobi/"}
    for name, own in (("hpc4ai-ch4", "pi/"), ("hpc4ai-ch6", "jacobi/")):
        assert withheld_scripts(editions[name]) == (unused - {own}) | {*TRAINING_SCRIPTS}
    assert withheld_scripts(editions["cc-mei-2025-lab5"]) == {"ResNet152.py"} | unused
    assert withheld_scripts(editions["sa-miri-2021-ex12"]) == {"ResNet152_seq.py"} | unused
    assert withheld_scripts(editions["sa-miri-2025-pg"]) == {"ResNet101.py", "ResNet152.py"} | unused
    for name in IDS:
        for task in editions[name].tasks:
            for check in task.checks:
                if isinstance(check, EditedCheck):
                    assert check.script in {run.script for run in task.runs}


@pytest.mark.parametrize("name", IDS)
def test_every_question_has_facts_or_is_about_the_code_and_every_band_a_source(editions, name):
    edition = editions[name]
    assert all(band.source for band in edition.bands)
    assert all(fact.source for fact in edition.facts)
    for task in edition.tasks:
        assert task.what
        assert task.why
        if task.questions and task.id not in {"1", "10.2"}:
            assert edition.facts_of(task), (name, task.id)


@pytest.mark.parametrize("name", IDS)
def test_every_planned_run_has_published_numbers(editions, name):
    """They give its band, its expected time and cost, and the pace of the practice cluster."""
    edition = editions[name]
    for task in edition.tasks:
        for run in task.runs:
            assert published_row(edition, task, run) is not None, (task.id, run)


def test_files_are_where_the_wheel_takes_them_from():
    assert {path.stem for path in labs_folder().glob("*.toml")} == set(IDS)
