"""What a deck says: every task, every run, every answer, numbers equal to `labtui results`, and where each was read."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import pytest

from labtui.core.model import RunPhase, SubmissionStatus
from labtui.core.results import results_json
from labtui.core.results.tables import AS_PRINTED, PRECISE, cells
from labtui.export.deck_build import build_deck
from labtui.export.deck_model import Callout, Code, Paragraph, Table
from labtui.export.tables import csv_text
from tests.export.helpers import DAY, EDITIONS, make_lab


def text_of(slide) -> str:
    parts = [slide.title]
    for block in slide.blocks:
        if isinstance(block, Paragraph):
            parts.append(block.text)
        elif isinstance(block, Callout):
            parts += [paragraph.text for paragraph in block.paragraphs]
        elif isinstance(block, Table):
            parts += [cell for row in (block.headings, *block.rows) for cell in row]
        elif isinstance(block, Code):
            parts += ["".join(run.text for run in line.runs) for line in block.lines]
    return "\n".join(parts)


@pytest.mark.parametrize("edition", EDITIONS)
def test_a_lab_with_nothing_has_a_marked_slide_for_every_task(tmp_path, edition):
    lab = make_lab(tmp_path / "lab", edition, full=False)
    deck = build_deck(lab.contents())
    for task in lab.edition.tasks:
        slides = [slide for slide in deck.slides if slide.kicker == f"Task {task.id}"]
        assert slides
        if task.runs or task.questions:
            assert slides[0].empty and "Nothing yet" in text_of(slides[0])
            for question in task.questions:
                assert " ".join(question.text.split()) in text_of(slides[0])


@pytest.mark.parametrize("edition", EDITIONS)
def test_a_full_lab_shows_runs_results_charts_answers_and_code(tmp_path, edition):
    lab = make_lab(tmp_path / "lab", edition, answer="We found **this**.")
    contents = lab.contents()
    deck = build_deck(contents)
    assert deck.lines[0] == "Group 7" and "March 2026" in deck.lines[2] and str(DAY.day) in deck.lines[2]
    for task in lab.edition.tasks:
        said = "\n".join(text_of(slide) for slide in deck.slides if slide.kicker == f"Task {task.id}")
        for run in contents.runs_of(task):
            job = contents.submission(run).job
            assert job.job_id in said and run.spec.label in said
        assert said.count("We found this.") == len(task.questions)
        if any(run.epochs[1:] for run in contents.runs_of(task)):
            assert any(slide.charts for slide in deck.slides if slide.kicker == f"Task {task.id}")
    for script in contents.changed:
        assert any(script.name in slide.title for slide in deck.slides if slide.title.startswith("Code"))


def test_the_four_charts_per_network_and_of_all_networks(tmp_path):
    lab = make_lab(tmp_path / "lab", "sa-miri-2025-pg")
    deck = build_deck(lab.contents())
    keys = ["epoch-time", "throughput", "speedup", "efficiency"]
    by_task = {
        s.kicker: [c.key for c in s.charts] for s in deck.slides if s.charts and s.kicker.startswith("Task")
    }
    assert by_task["Task 10.6"] == keys and by_task["Task 10.7"] == keys
    assert by_task["Task 10.8"] == keys
    combined = next(s for s in deck.slides if s.kicker == "Task 10.8" and s.charts)
    assert all(
        len({series.name for series in c.series if series.role == "measured"}) == 2 for c in combined.charts
    )
    speedup = combined.charts[2]
    assert [series.role for series in speedup.series].count("ideal") == 1
    assert "cpu-gpu-resnet50" in by_task["Task 10.4"]
    assert {"amdahl-resnet50", "gustafson-resnet152"} <= set(by_task["Task 10.10"])


@pytest.mark.parametrize("edition", EDITIONS)
def test_numbers_in_tables_are_those_of_the_results(tmp_path, edition):
    contents = make_lab(tmp_path / "lab", edition).contents()
    deck = build_deck(contents)
    exact = {tuple(row[1:]) for row in cells(contents.results.rows, PRECISE)}
    plain = {tuple(row[1:]) for row in cells(contents.results.rows, AS_PRINTED)}
    tables = [b for s in deck.slides for b in s.blocks if isinstance(b, Table) and b.headings[0] == "model"]
    assert tables
    for table in tables:
        known = exact if "epochs" in table.headings else plain
        assert {row[1:] for row in table.rows} <= known


def test_charts_hold_the_numbers_of_the_csv(tmp_path):
    contents = make_lab(tmp_path / "lab", "hpc4ai-ch10").contents()
    rows = list(csv.DictReader(io.StringIO(csv_text(contents.results))))
    deck = build_deck(contents)
    columns = {
        "epoch-time": "epoch_seconds",
        "throughput": "throughput",
        "speedup": "speedup",
        "efficiency": "efficiency",
    }
    seen = 0
    for slide in deck.slides:
        for chart in slide.charts:
            if chart.key not in columns:
                continue
            for series in chart.series:
                if series.role != "measured":
                    continue
                for point in series.points:
                    name = columns[chart.key]
                    fitting = [
                        r for r in rows if r["model"] == series.name and r["n_gpus"] == f"{point.x:.0f}"
                    ]
                    assert any(
                        (float(r[name]), float(r[f"{name}_lo"]), float(r[f"{name}_hi"]))
                        == (point.y, point.lo, point.hi)
                        for r in fitting
                    )
                    seen += 1
    assert seen >= 36


def test_every_row_can_be_traced(tmp_path):
    contents = make_lab(tmp_path / "lab", "hpc4ai-ch10").contents()
    last = build_deck(contents).slides[-1]
    said = text_of(last)
    for row in results_json(contents.results)["rows"]:
        for source in row["sources"]:
            assert source["path"] in said and source["job_id"] in said
            assert f"{source['line']} ({source['epoch']})" in said


def test_practice_is_marked_on_the_title_and_on_every_slide(tmp_path):
    lab = make_lab(tmp_path / "lab", "hpc4ai-ch10")
    runs = {number: replace(run, practice=True) for number, run in lab.state.runs.items()}
    subs = {token: replace(sub, practice=True) for token, sub in lab.state.submissions.items()}
    practice = replace(lab, state=replace(lab.state, runs=runs, submissions=subs))
    deck = build_deck(practice.contents())
    assert deck.practice
    for slide in deck.slides:
        assert slide.practice, slide.title
        assert all(chart.practice for chart in slide.charts)
    assert not build_deck(lab.contents()).practice
    assert not any(slide.practice for slide in build_deck(lab.contents()).slides)


def test_a_failed_and_a_live_run_are_called_so(tmp_path):
    lab = make_lab(tmp_path / "lab", "hpc4ai-ch10")
    first, second = sorted(n for n, run in lab.state.runs.items() if run.task_id == "10.5")[:2]
    runs = dict(lab.state.runs)
    runs[first] = replace(runs[first], phase=RunPhase.FAILED, outcome="oom")
    runs[second] = replace(runs[second], phase=RunPhase.RUNNING, outcome=None)
    contents = replace(lab, state=replace(lab.state, runs=runs)).contents()
    said = text_of(next(s for s in build_deck(contents).slides if s.kicker == "Task 10.5"))
    assert "out of memory" in said and "running" in said and "Still missing" in said


def test_a_refused_job_is_neither_listed_nor_shown(tmp_path):
    lab = make_lab(tmp_path / "lab", "hpc4ai-ch10")
    token, good = next((t, s) for t, s in lab.state.submissions.items() if s.task_id == "10.5")
    (lab.folder.slurm / "good.slurm").write_text("#!/bin/bash\n# the job whose numbers are shown\n")
    (lab.folder.slurm / "bad.slurm").write_text("#!/bin/bash\n# the refused job\n")
    number = max(lab.state.runs) + 1
    refused = replace(
        good,
        token="refused",
        status=SubmissionStatus.REFUSED,
        run_ids=(number,),
        script_file="slurm/bad.slurm",
        job=None,
    )
    run = replace(lab.state.runs[good.run_ids[0]], run_id=number, token="refused", epochs=(), outcome=None)
    submissions = {
        **lab.state.submissions,
        token: replace(good, script_file="slurm/good.slurm"),
        "refused": refused,
    }
    state = replace(lab.state, submissions=submissions, runs={**lab.state.runs, number: run})
    slides = build_deck(replace(lab, state=state).contents()).slides
    said = "\n".join(text_of(slide) for slide in slides)
    assert "the job whose numbers are shown" in said
    assert "the refused job" not in said
    before = build_deck(lab.contents()).slides
    table = [text_of(s) for s in before if s.kicker == "Task 10.5" and "What was run" in text_of(s)]
    assert [text_of(s) for s in slides if s.kicker == "Task 10.5" and "What was run" in text_of(s)] == table


def test_a_markup_in_a_name_is_text(tmp_path):
    lab = make_lab(tmp_path / "lab", "hpc4ai-ch10", answer='#image("x.png") \\\\ <b>&amp;</b> [[/red]]')
    said = "\n".join(text_of(slide) for slide in build_deck(lab.contents()).slides)
    assert '#image("x.png")' in said and "<b>&</b>" in said and "[[/red]]" in said
