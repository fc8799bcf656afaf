"""The editions hold their documents' numbering, weights, GPUs, batches, epochs; each proves itself."""

import pytest

from labtui.export import _plots as exported_charts
from labtui.lab.edition import ChartsCheck, EditedCheck
from labtui.results.charts import slug
from labtui.session.folder import list_remote
from labtui.session.labs import load_edition
from tests.export.helpers import make_lab, practice_of
from tests.lab.proof import prove, published_row

IDS = (
    "cc-mei-2025-lab5", "hpc4ai-ch10", "hpc4ai-ch11", "hpc4ai-ch12", "hpc4ai-ch15", "hpc4ai-ch4", "hpc4ai-ch6",
    "sa-miri-2021-ex12", "sa-miri-2025-pg", "sa-miri-2025-ph", "sa-miri-2025-pi", "thesis-2019",
)  # fmt: skip


@pytest.mark.parametrize("name", IDS)
def test_every_box_is_open_on_nothing_and_ticks_when_all_is_done(name):
    assert [proof for proof in prove(load_edition(name)) if not proof.holds] == []


def test_scripts_the_student_makes():
    pi, jacobi, lab5 = map(load_edition, ("hpc4ai-ch4", "hpc4ai-ch6", "cc-mei-2025-lab5"))
    for edition, folder in ((pi, "pi/"), (jacobi, "jacobi/")):
        assert all(script.startswith(folder) is edition.needs(script) for script in list_remote())
    needed = {script for script in list_remote() if lab5.needs(script)}
    folders = ("pytorch/", "tensorflow/", "pi/", "jacobi/")
    assert needed == {name for name in list_remote() if not name.startswith(folders)} - {"ResNet152.py"}
    for name in IDS:
        for task in load_edition(name).tasks:
            for check in task.checks:
                if isinstance(check, EditedCheck):
                    assert check.script in {run.spec.script for run in task.runs}


@pytest.mark.parametrize("name", IDS)
def test_titles_fit_questions_have_facts_and_runs_published_numbers(name):
    edition = load_edition(name)
    assert [task.title for task in edition.tasks if len(f"{task.id} {task.title}") > 24] == []
    asked = [task for task in edition.tasks if task.questions and task.id not in {"1", "10.2"}]
    assert [task.id for task in asked if not edition.facts_of(task)] == [], "or it is about the code"
    for task in edition.tasks:
        for run in task.runs:
            assert published_row(edition, task, run) is not None, (task.id, run)


@pytest.mark.parametrize("name", IDS)
def test_every_chart_that_a_task_asks_for_is_exported_and_of_rehearsed_runs_with_the_mark(name, tmp_path):
    lab = practice_of(make_lab(tmp_path / "lab", name))
    charts = exported_charts(lab.contents())
    assert all(chart.mark == "practice" for chart in charts)
    checks = [check for task in lab.edition.tasks for check in task.checks if isinstance(check, ChartsCheck)]
    for check in checks:
        models = [slug(lab.edition.names.get(model, model)) for model in check.models]
        for wanted in (f"{chart}-{model}" for chart in check.charts for model in models):
            assert any(chart.key.startswith(wanted) for chart in charts), wanted
