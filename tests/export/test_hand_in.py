"""What is handed in: the pages of every edition, their messages, what is missing, and where the numbers are from."""

import csv
import itertools
import json
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from msgspec.structs import replace
from PIL import Image

import labtui
from labtui.domain.model import AcceptedFinding
from labtui.export import contents as contents_module
from labtui.export import drawing, export_lab, lab_plots, markdown, tables
from labtui.export import pages as pages_module
from labtui.export.documents import _json_value, chart_height, pdf, picture_size
from labtui.export.drawing import PRACTICE_LINE, chart_rows, chart_style, chart_text, rows_of, split_lines
from labtui.export.hand_in import Listing, Paragraph, Picture
from labtui.export.pages import AS_BARS, default_pages, hand_in
from labtui.export.plots import figure_of, pictures, place_labels
from labtui.lab.edition import HandInPage
from labtui.results import cost, messages
from labtui.results.catalogue import by_line, catalogue, job_gpu_chart, lab_charts
from labtui.results.charts import ChartSpec, Point, Series, make_chart, with_log_axes
from labtui.results.compute import compute_results
from labtui.results.measured import val_accuracy
from labtui.results.numbers import PRECISE, Table, percent_text, text_table
from labtui.results.report import report_text, results_json
from labtui.session.labs import check_folder, load_edition
from labtui.training_logs.gpu_sampler import GpuSample
from tests.export.helpers import ANSWERS, DAY, block_text, make_lab, page_text, practice_of, small_of
from tests.lab.published import published_lab
from tests.results.helpers import results_of, run
from tests.tui.test_plot import rows_of as screen_rows

ANSWER = "The answer in one sentence. And one more."
EDITIONS = tuple(sorted(path.stem for path in Path(labtui.__file__).parent.joinpath("labs").glob("*.toml")))


@pytest.mark.parametrize("edition", EDITIONS)
def test_every_edition_is_filled_from_its_runs_and_says_what_is_missing(tmp_path, edition):
    document = hand_in(make_lab(tmp_path / "lab", edition, answer=ANSWER).contents())
    assert document.pages and all(page.title and page.shows for page in document.pages)
    notes = "".join(document.notes)  # no answer is left out in silence
    assert "Not here yet" not in notes and ("only in answers/10.2.md." in notes) is (edition == "hpc4ai-ch10")
    for page in document.pages:
        assert not (page.facts and page.charts) and len(page.facts) <= 4
        assert all(spec.measured for spec in page.charts)
        assert all([block_text(block) for block in answer.blocks] == [ANSWER] for answer in page.answers)
        assert not page.charts or page.title != page.kicker.partition("  ")[2], "what they show"
    assert len({page.title for page in document.pages}) == len(document.pages)
    nothing = hand_in(make_lab(tmp_path / "empty", edition, full=False).contents())
    assert not any(page.charts for page in nothing.pages)
    (missing,) = (note for note in nothing.notes if note.startswith("Not here yet"))
    assert missing in "\n".join(map(page_text, nothing.pages))


TITLES = {
    "hpc4ai-ch10": """
        10.3 An epoch of ResNet50 takes 215 s on the CPU
        10.4 One GPU is 15.0 times as fast as the CPU
        10.5 Four GPUs train ResNet50 2.53 times as fast as one, at 63.2 % efficiency
        10.7 On four GPUs, 9,290 images per second (ResNet50), 4,975 (ResNet152)
        10.7 ResNet152 gains more from four GPUs: 3.26× as fast, ResNet50 only 2.53×
        10.7 Slower steps cost most: 26.1 of the 36.8 points ResNet50 loses on four GPUs""",
    "hpc4ai-ch12": """
        12.1 ViT-H/14 on micro-224: 32 GPUs give 21.7 times as many images per second as one
        12.1 An epoch of ViT-H/14 on micro-224 takes 2.36 s on 32 GPUs
        12.3 tiny-224 scales better: 89.3 % against 67.8 % efficiency on 32 GPUs
        12.4 An epoch of ViT-H/14 on tiny-224 takes 14.2 s on 32 GPUs""",
    "sa-miri-2025-pg": """
        10.6 An epoch of ResNet50 takes 5.38 s on four GPUs, 13.6 s on one
        10.10 Serial by Amdahl's law: 19.3 % of ResNet50 and 8.2 % of ResNet152""",
}


@pytest.mark.parametrize("edition", TITLES)
def test_the_numbers_make_the_title(tmp_path, edition):
    pages = hand_in(make_lab(tmp_path / "lab", edition).contents()).pages
    made = {f"{page.kicker.split()[0]} {page.title}".replace("\u00a0", " ") for page in pages if page.kicker}
    assert made.issuperset(line.strip() for line in TITLES[edition].strip().splitlines())
    assert edition != "sa-miri-2025-pg" or "An epoch is" not in page_text(pages[-2]), "as the speedup says"
    scales = {chart.y_from for page in pages for chart in page.charts if chart.family == "efficiency"}
    assert edition != "hpc4ai-ch12" or (scales == {0.5} and "'epochs, GPU-h'" in str(pages[-2].blocks))


def document_of(lab, change):
    runs = {number: new for number, run in lab.state.runs.items() if (new := change(run)) is not None}
    return hand_in(replace(lab, state=replace(lab.state, runs=runs)).contents())


def test_a_title_tells_no_result_of_another_data_set(tmp_path):
    """Of tiny-224 there is one run so far, in its first epoch: nothing of micro-224 stands on its page."""

    def change(run):
        return replace(run, epochs=run.epochs[: run.spec.n_gpus == 1]) if "tiny" in run.spec.data_set else run

    pages = document_of(make_lab(tmp_path / "lab", "hpc4ai-ch12", answer=ANSWER), change).pages
    (page,) = (page for page in pages if page.kicker.startswith("12.2"))
    assert page.title == "tiny-224 scaled" and "micro" not in page_text(page)
    assert any("21.7\u00a0times" in page.title for page in pages if page.kicker.startswith("12.1"))


def test_runs_that_are_still_to_be_made_are_named_on_their_page(tmp_path):
    lab = make_lab(tmp_path / "lab", "hpc4ai-ch10", answer=ANSWER)
    pages = document_of(lab, lambda run: run if run.spec.model != "ResNet152" else None).pages
    compared = [page for page in pages if page.kicker.startswith(("10.6", "10.7"))]
    said = "ResNet152 · 1, 2 and 4 GPUs: not run yet."
    assert compared and all(said in page_text(page) for page in compared)

    def one_fails(run):  # and the next has just started
        unmet = run.task_id == "10.6" and run.spec.n_gpus < 4
        if run.task_id == "10.5" and run.spec.n_gpus == 1:
            return replace(run, outcome="oom", diagnosis=(SimpleNamespace(kind="host-memory"),))
        return replace(run, epochs=(), outcome="oom" if run.spec.n_gpus == 1 else None) if unmet else run

    pages = (document := document_of(lab, one_fails)).pages
    texts = ["\n".join(document.notes), *map(page_text, pages)]
    assert {text.count("out of the node's memory") for text in texts} == {0, 1}, "each fact once"
    shown = "".join(page_text(each) for each in pages if each.kicker.startswith("10.6"))
    assert "ResNet152 · 1 GPU: run 6 ran out of memory." in shown and "2 GPUs: run 7 is" in shown
    assert "There is no one-GPU run of this model trained in the same way, so there is no speedup." in shown


def test_a_network_of_the_students_own_is_on_the_page_of_its_task_alone_for_which_no_other_stands(tmp_path):
    def own(run, task="10.5"):
        mine = replace(run, spec=replace(run.spec, model="My Net"), model="My Net")
        return mine if run.task_id == task else run

    lab = make_lab(tmp_path / "lab", "hpc4ai-ch10")
    pages = document_of(lab, own).pages
    mine = [page for page in pages if "My Net" in page.title]
    assert {page.kicker[:4] for page in mine} == {"10.5"}
    assert "Four GPUs train My Net 2.53" in mine[-1].title
    alone = [chart.heading for page in mine for chart in page.charts if len(chart.measured) == 1]
    assert alone and all("My Net" in heading for heading in alone), "the page is of ResNet50"
    more = {99: replace(lab.state.runs[3], run_id=99, task_id="")}
    lines = hand_in(replace(lab, state=replace(lab.state, runs=lab.state.runs | more)).contents()).pages
    assert any("Pooled with run 99, of no task" in page.note for page in lines)
    document = document_of(lab, lambda run: replace(own(run), task_id=run.task_id.replace("10.5", "")))
    assert "My Net" not in f"{document.facts}{''.join(map(page_text, document.pages))}"
    alone = document_of(lab, lambda run: own(run, "10.4") if run.task_id == "10.4" else None)
    assert alone.pages[0].title == "Runs that no task plans" and "Sent for 10.4: run 2." in alone.notes[0]

    def apart(run):  # the one-GPU run is of no task, the batch of the others is unknown
        mine = own(run)
        if mine is run or run.spec.n_gpus == 1:
            return replace(mine, task_id=run.task_id * (mine is run))
        return replace(mine, spec=replace(mine.spec, unknown=("batch_size",)), batch_size=None)

    document = document_of(lab, apart)
    first, last = (page for page in document.pages if "My Net" in page.title)
    assert "batch of My Net on 2 and 4 GPUs or of its one-GPU baseline" in last.note
    assert [len(chart.measured[0].points) for chart in first.charts if chart.family == "epoch-time"] == [3]
    assert "My Net on 1 GPU" in page_text(document.pages[-1]) and "My Net" not in f"{document.facts}"
    lab = make_lab(tmp_path / "other", "hpc4ai-ch15")
    pages = document_of(lab, lambda run: run if run.task_id == "15.1" else None).pages
    shown = {page.kicker.split()[0]: page_text(page) for page in pages if page.kicker.startswith("15.")}
    assert "10,4" in shown["15.1"] and not [task for task, text in shown.items() if "10,4" in text][1:]


def test_runs_of_no_task_alone_say_how_they_ended_and_where_their_numbers_are_from(tmp_path):
    def own(run, ends=("cancelled", "time-limit")):
        mine = {"task_id": "10.4" * (run.run_id > 5), "outcome": dict(enumerate(ends)).get(run.run_id)}
        name = f"own {9 - run.run_id}"
        return replace(run, **mine, model=name, spec=replace(run.spec, model=name))

    page, *_, sources = document_of(make_lab(tmp_path / "lab", "hpc4ai-ch10"), own).pages
    assert page.warnings == ("No task of the lab plans these runs. Sent for 10.4: run 6, run 7, run 8.",)
    assert page.note.count("Run 1 was stopped by its time limit before its end.") == 1
    assert sources.title == "Where the numbers come from" and "4 (2); time limit" in page_text(sources)
    toy = make_lab(tmp_path / "toy", "cc-mei-2025-lab5")
    first, *rest, sources = (document := document_of(toy, lambda run: replace(own(run), task_id=""))).pages
    assert not document.facts and not any(p.facts or "own 8" in page_text(p) for p in rest), "no result"
    assert first.title == "Runs that no task plans" and "own 8" in page_text(sources)


def test_the_edition_decides_what_is_drawn_as_bars_and_open_questions_are_one_line(tmp_path):
    document = hand_in(contents := make_lab(tmp_path / "lab", "hpc4ai-ch10").contents())
    *tasks, sources = [page.task or page.kind for page in default_pages(contents)]
    assert (tasks, sources) == ([f"10.{n}" for n in range(3, 8)], "sources"), "of an edition without pages"
    for texts in (map(page_text, document.pages), document.notes):
        assert any("questions 1, 2, 3, 4, 5 (answers/10.5.md)" in text for text in texts)
    files = [note.partition("answers/")[2] for note in document.notes if "No answer yet" in note]
    assert files == [f"10.{task}.md)." for task in range(2, 8)], "also of one without a page"
    kinds = {spec.family: spec.kind for page in document.pages for spec in page.charts}
    assert kinds["epoch-time"] == kinds["speedup"] == "bars" and kinds["throughput"] == "lines"
    pages = hand_in(make_lab(tmp_path / "other", "hpc4ai-ch12").contents()).pages
    assert {spec.kind for page in pages for spec in page.charts} == {"lines"}


def test_the_title_page_has_key_numbers_the_overview_its_machines_and_a_report_no_slides(tmp_path):
    document = hand_in(make_lab(tmp_path / "lab", "cc-mei-2025-lab5").contents())
    told = [f"{value} {said[:10]}" for value, said in document.facts]
    assert told == [f"{times}× as fast on" for times in (15.0, 2.53, 3.26)]
    overview = next(page for page in document.pages if page.title.startswith("One network"))
    assert [label for _, label in overview.facts] == ["CPU", "One GPU", "Two GPUs", "Four GPUs"]
    assert overview.numbers[0].startswith("ResNet50 on the CPU, batch 256: job "), "where they were read"
    assert document.pages[-1].title == "Where the numbers come from"
    lab = make_lab(tmp_path / "target", "sa-miri-2021-ex12")
    assert any("training accuracy" in label for _, label in hand_in(lab.contents()).facts)
    names = {path.name for path in export_lab(lab.folder.path, plots=False, state=lab.state).files}
    assert names >= {"report.pdf", "analysis.ipynb"} and not names & {"deck.pptx", "deck.pdf"}


def test_precise_and_as_printed_stand_side_by_side(tmp_path):
    def printed(run):
        epochs = (replace(each, printed_seconds=round(each.seconds.value)) for each in run.epochs)
        return replace(run, epochs=tuple(epochs))

    pages = document_of(lab := make_lab(tmp_path / "lab", "hpc4ai-ch10", answer=ANSWER), printed).pages
    title = "on four GPUs: 2.80× as printed, 2.53× when read precisely"
    (page,) = (page for page in pages if page.title.endswith(title))
    assert page.answers and page.blocks[0].groups and not page.charts, "on a page of its own"
    told = [" ".join(fact) for fact in pages[0].facts]
    assert told == ["215 epoch, s (as printed 215)", "233 images/s (as printed 233)", "256 global batch"]
    assert not pages[0].blocks, "no table of one row"
    assert len(hand_in(lab.contents()).pages) == len(pages) - 1, "where logs print no seconds"
    table = tables.readings_table(results_of("ResNet50.31337.out", "ResNet152.31338.out"))
    assert "; ".join(dict(table.groups)) == "; Precise: all digits of the log; As printed: whole seconds"
    assert sum(count for _, count in table.groups) == len(table.headings) and table.rows[0] == ("ResNet50",)
    assert table.rows[3][4:6] + table.rows[3][-2:] == ("2.53", "63.2 %", "2.80", "70.0 %")


def test_markdown_keeps_its_parts_and_every_word():
    text = (
        "Text[^1] and ![a chart](chart.png).\n\n- [x] done\n1. one\n   - inner\n\n|a|b|\n|---|--:|\n| 1 | $\\beta$ |"
        "\n\n```python\nx = 1\n```\n\n$$a^2$$\n\n> quoted\n\n[^1]: note\n"
    )
    blocks = markdown.blocks_of(text, {"chart.png": b"\x89PNG\r\n\x1a\n"}.get)
    assert {Picture, Table, Listing, Paragraph} == {type(block) for block in blocks}
    paragraphs = [block for block in blocks if isinstance(block, Paragraph)]
    assert [(b.bullet, b.level) for b in paragraphs if b.bullet] == [("•", 1), ("1.", 1), ("•", 2)]
    assert [b.runs[0].text for b in paragraphs if b.style == "formula"] == ["a^2"]
    words = " ".join(block_text(block) for block in blocks)
    assert all(part in words for part in ("Text[^1] and", "[x] done", "quoted", "[^1]: note", "x = 1", "β"))
    assert "[picture: a chart]" in " ".join(block_text(b) for b in markdown.blocks_of(text))


def test_answers_show_the_pictures_they_name_and_read_no_other_file(tmp_path, monkeypatch):
    answer = "See below.\n\n![the GPUs](smi.png) and ![](../../etc/passwd)"
    answer += f"\n\n![p](data:image/png;base64,{'iVBO/+A0' * 9_000}==)\n\n```" + "\nepoch" * 8_000
    lab = make_lab(tmp_path / "lab", "hpc4ai-ch10", answer=answer)
    contents, picture = lab.contents(), lab.folder.path / "answers" / "smi.png"
    for form in ("JPEG", "PNG"):
        Image.effect_noise((80, 40), 90).save(picture, form)
        whole = picture.read_bytes()
        for damaged in (whole[:9] + b"x" * 99, whole[: len(whole) // 2]):
            picture.write_bytes(damaged)
            assert contents.picture("smi.png") is None, "no document could hold it"
    picture.write_bytes(whole)
    assert picture_size(whole) == pytest.approx((80 / 150, 40 / 150)), "never above its own size"
    assert picture_size(whole, 8) == pytest.approx((7.6, 3.8))
    assert _json_value(Picture(whole, ""), tmp_path)["height"] == 40 / 150, "else it may be cropped"
    assert contents.picture("../../etc/passwd") is None
    document = hand_in(contents)
    blocks = [b for page in document.pages for each in page.answers for b in each.blocks]
    assert next(b for b in blocks if isinstance(b, Picture)).alt == "the GPUs"
    assert "Answer 1 of 10.5: ../../etc/passwd is not there, or not a PNG or JPEG file." in document.notes
    assert any("passwd" in block_text(block) for block in blocks)  # named in words
    assert any("a picture within the text" in note and len(note) < 120 for note in document.notes)
    assert "Answer 1 of 10.5: only answers/10.5.md has its last 7,607 lines." in document.notes
    assert len(blocks[-1].lines) < 400 and blocks[-1].lines[-1].text == "…", "the budget of an export"
    assert markdown.blocks_of("![alone](no.png)") == (), "no page of its own"
    monkeypatch.setattr("labtui.export.contents.MAX_PIXELS", 3199)
    assert lab.contents().picture("smi.png") is None, "drawn, it would fill the memory"
    (wide,) = markdown.blocks_of("\n".join("|".join(each * 21) for each in ("a", "-", "b")))
    assert isinstance(wide, Listing) and wide.lines[1].text == " | ".join("b" * 21), "no page is as wide"


def test_listings_are_what_was_written_or_changed(tmp_path, request):
    pages = hand_in(make_lab(tmp_path / "lab", "cc-mei-2025-lab5").contents()).pages
    listings = [block for page in pages for block in page.blocks if isinstance(block, Listing)]
    (changed, *_) = (block.lines for block in listings if "differs" in block.caption)
    assert any(line.change == "+" and "ResNet152V2" in line.text for line in changed)
    assert any(sum(bool(line.part) for line in block.lines) == 5 for block in listings)
    for path in sorted((request.config.rootpath / "tests/slurm_templates/golden").glob("*.slurm")):
        mine = markdown.own_part(path.read_text(encoding="utf-8"))
        assert "#SBATCH --job-name" in mine and "\nrun " in mine
        assert "say token" not in mine and "nvidia-smi" not in mine and "run() {" not in mine


def test_small_runs_of_a_real_cluster_are_never_called_practice_and_in_no_chart(tmp_path):
    contents = small_of(make_lab(tmp_path / "lab", "hpc4ai-ch10")).contents()
    document = hand_in(contents)
    assert not any(page.charts or page.facts for page in document.pages) and not document.mark
    assert not lab_plots(contents.measurements, contents.named)
    assert not catalogue(contents.named) and not by_line(contents.named, marked=False), "as on the screens"
    pages = map(page_text, document.pages)
    words = "\n".join((*pages, report_text(contents.results), document.stamp, *document.notes))
    assert "practice" not in words.lower() and "it is in no chart" in words
    rows = results_json(contents.results)["rows"]
    assert rows and all(row["small"] and not row["practice"] for row in rows)


def test_a_small_run_beside_others_is_in_no_chart_and_named_with_its_reason(tmp_path):
    lab = make_lab(tmp_path / "lab", "hpc4ai-ch10")
    small = {n: run for n, run in small_of(lab).state.runs.items() if run.spec.model == "ResNet152"}
    contents = replace(lab, state=replace(lab.state, runs={**lab.state.runs, **small})).contents()
    assert {row.model for row in contents.results.rows if row.mark == "small"} == {"ResNet152"}
    document = hand_in(contents)
    charts = [spec for page in document.pages for spec in page.charts]
    charts += lab_plots(contents.measurements, contents.named)
    assert charts and not any(spec.mark == "small" or "ResNet152" in chart_text(spec) for spec in charts)
    assert not document.mark and document.facts
    ended = {n: replace(run, outcome="cancelled") for n, run in lab.state.runs.items()}
    assert not hand_in(replace(lab, state=replace(lab.state, runs=ended)).contents()).facts
    assert any("ResNet152" in note and "small run" in note for note in document.notes)
    models = {row.model for row in contents.results.rows}
    marked = [page.practice for page in document.pages if all(name in page_text(page) for name in models)]
    assert marked and not any(marked)


def test_the_last_page_says_where_numbers_are_from_and_what_was_overridden(tmp_path):
    contents = make_lab(tmp_path / "lab", "hpc4ai-ch10").contents()
    token, item = next(iter(contents.state.submissions.items()))
    told = {"effect": "80 CPUs for 1 GPU.", "reason": "memory"}
    found = AcceptedFinding(rule="many-cpus", file="job.slurm", line=9, **told)
    sent = {token: replace(item, accepted=(found, found))}
    for name, job in (("no", None), ("never", replace(item.job, slurm_state="CANCELLED", start_time=None))):
        sent[name] = replace(item, token=name, job=job, accepted=(replace(found, reason="it did not run"),))
    submissions = {**contents.state.submissions, **sent}
    last = hand_in(replace(contents, state=replace(contents.state, submissions=submissions))).pages[-1]
    table = next(block for block in last.blocks if isinstance(block, Table))
    assert all(row[3].startswith("logs/") for row in table.rows) and "authors' own" in table.note
    text = page_text(last)
    assert "job.slurm:9" in text and "80 CPUs for 1 GPU." in text and "did not run" not in text
    assert text.count("Reason: memory") == 1 == text.count("ResNet50 on 1 GPU, batch 256")
    (row,) = compute_results([run(1, [9, 5], outcome="cancelled", source=f"{n}.out") for n in "ab"]).rows
    first, second = tables.source_rows(row)
    assert first[-2:] == ("a.out", "20 (2); cancelled") and second[:2] == (first[0], ""), "on a new page, too"


def test_one_export_reads_once_ticks_its_boxes_and_every_file_bears_its_stamp(tmp_path, monkeypatch):
    plot = "plots/accuracy-ViT-H-14.png"
    lab = make_lab(tmp_path / "lab", "hpc4ai-ch12", answer=ANSWERS["everything"] + f"\n\n![]({plot})\n")
    assert any("Export" in box.missing for box in check_folder(lab.folder, lab.edition, lab.state))
    made = []
    for module, name in ((contents_module, "measurements_of"), (pages_module, "_on_pages")):
        real = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *given, real=real: (made.append(real), real(*given))[1])
    report = export_lab(lab.folder.path, state=lab.state, today=DAY)
    assert len(set(made)) == len(made) == 2 and len(set(report.files)) == len(report.files) > 20
    after = check_folder(lab.folder, lab.edition, lab.state)
    assert not any("xport" in item.missing for box in after for item in box.items if not item.met)
    pictures = [path.read_bytes() for path in report.files if path.suffix == ".svg"]
    assert len(pictures) > 5 and len(set(pictures)) == len(pictures)
    there = lab.folder.path
    results = json.loads((there / "results.json").read_text("utf-8"))
    rows, stamp = csv.DictReader((there / "results.csv").read_text("utf-8").splitlines()), results["export"]
    assert [row["export"] for row in rows] == [stamp] * len(results["rows"])
    for path in report.files:
        if path.suffix in (".md", ".ipynb", ".svg"):
            assert stamp in path.read_text("utf-8"), path
        if path.suffix == ".png":
            with Image.open(path) as picture:
                assert picture.info["Description"].startswith(f"{stamp}, counts runs 1:5 2:5 ")
    with zipfile.ZipFile(there / "deck.pptx") as deck:
        assert stamp in deck.read("docProps/core.xml").decode()
        assert (there / plot).read_bytes() in map(deck.read, deck.namelist()), "not that of an earlier export"


def charts_of(edition):
    return lab_charts(published_lab(load_edition(edition)).results)


def drawn(*specs, width=13.333, height=7.5):
    with chart_style():
        figure = figure_of(specs, width, height)
        place_labels(figure)
        return figure


@pytest.mark.parametrize("kind", ["lines", "bars"])
def test_no_error_bar_runs_through_a_number(kind):
    runs = [run(n, [9, t / n - 1, t / n + 1], model=name) for n in (1, 2) for name, t in (("a", 5), ("b", 6))]
    axes = drawn(replace(catalogue(compute_results(runs))[0], kind=kind)).axes[0]
    boxes = [text.get_window_extent() for text in axes.texts if text.get_text()]
    paths = (path for bar in axes.collections for path in bar.get_paths())
    bars = [axes.transData.transform_path(path).get_extents() for path in paths]
    assert len(boxes) == len(bars) == 4 and not any(box.overlaps(bar) for box in boxes for bar in bars)


def test_every_chart_of_every_edition_is_drawn_and_no_labels_meet():
    seen = {}  # the editions share networks with the same numbers
    for edition in EDITIONS:
        first = {spec.family: spec for spec in reversed(charts_of(edition))}
        for spec in first.values():  # one line's name meets no other
            seen[str((spec.family, spec.kind, spec.series if len(spec.series) > 1 else ""))] = spec
    assert len(seen) > 30
    for spec in seen.values():
        figure = drawn(spec)
        for axes in figure.axes:
            boxes = [each.get_window_extent() for each in (*axes.texts, axes._left_title) if each.get_text()]
            for one, other in itertools.combinations(boxes, 2):
                assert not one.shrunk(1, 0.8).overlaps(other.shrunk(1, 0.8)), spec.key
            assert all(box.x1 <= figure.bbox.width + 2 for box in boxes), spec.key


def spec_of(*lines, **more):
    points = (tuple(Point(x=x, y=y, label=f"{y:g}") for x, y in line.items()) for line in lines)
    series = tuple(Series(name=f"line {n}", points=each) for n, each in enumerate(points))
    counts = sorted({x for line in lines for x in line})
    made = {"x_ticks": tuple((float(x), f"{x}") for x in counts), "x_label": "GPUs", "y_label": "s", **more}
    return ChartSpec(key="k", title="t", series=series, **made)


def test_the_axis_of_errors_ends_where_their_last_third_does_and_no_learning_rate_lies_on_an_edge():
    errors = [dict(enumerate([0.9, 0.5, 0.4, 0.3, 0.28, end], 1)) for end in (0.27, 0.24)]
    spec = spec_of(*errors, family="error", unit="%", x_axis="epochs", heading="Error, %")
    assert drawing.with_start(spec).heading == "Error, % (23 to 29)", "from near the least on"
    live = replace(spec, series=(*spec.series, spec_of({1: 0.9, 2: 0.6}).series[0]))
    assert drawing.y_limits(live)[1] >= 0.6, "each line ends in the plot"
    same = spec_of(*[{1: 0.1, 6: 0.001}] * 5, family="learning-rate", y_log=True, y_base=10, x_axis="epochs")
    assert drawing.y_limits(same) == pytest.approx((0.0001, 1))
    grouped = (replace(each, group="ab"[at > 2]) for at, each in enumerate(same.series))
    one, two = split_lines(replace(same, series=tuple(grouped)))
    assert len(one.measured) == len(two.measured) == 1 and "a, the same for line 0, line" in one.heading
    assert b"for line 0, line 1 and line 2" in pictures(replace(same, series=same.series[:3]), ["svg"])["svg"]


@pytest.mark.parametrize(("nets", "rows"), [("a", [4]), ("ab", [2, 2]), ("abc", [2, 2]), ("abcde", [1] * 4)])
def test_charts_that_do_not_fit_side_by_side_stand_on_more_slides(nets, rows):
    runs = [run(n, [9, 8 / n], model=f"train_{m}, style {m}", images=8000) for n in (1, 2, 4) for m in nets]
    found = {chart.family: chart for chart in catalogue(compute_results(runs))}
    bars = {family: replace(found[family], kind="bars") for family in AS_BARS if len(nets) < 5}
    charts = tuple((found | bars)[family] for family in messages.SCALING)
    assert [len(row) for row in chart_rows(charts)] == rows
    for row in chart_rows(tuple(replace(each, heading=f"{each.heading}, train_cnn") for each in charts)):
        titles = [axes._left_title.get_window_extent() for axes in drawn(*row, width=12.133, height=4).axes]
        assert all(one.x1 + 12 < other.x0 for one, other in itertools.pairwise(titles))


def test_a_page_of_each_row_of_charts_is_titled_by_what_it_shows(tmp_path):
    lab = make_lab(tmp_path / "lab", "thesis-2019", answer=f"{ANSWER}\n\n- One.\n- Two.")
    _, rate, error, *more, last, sources = (document := hand_in(lab.contents())).pages
    assert "4 (2) to 36 (18), 17 lines; accuracy 71.0 %: 36 (18)" in page_text(sources), "can be traced"
    assert "ResNet50 (tiny-224, linear)\n1 GPU, batch 128  50.0" in page_text(sources), "named once"
    assert b"/Count 6/" in pdf(document, "report"), "the table of sources is no narrow column over pages"
    assert "end at 0.0556" in rate.title and not (rate.answers or rate.facts)
    errors = [page for page in (error, *more) if page.charts and page.charts[0].family == "error"]
    titles = [each.title.replace("\u00a0", " ") for each in errors]
    assert len(titles) == 6 and all("error in validation" in title for title in titles)
    said = " ".join(chart.heading for page in document.pages for chart in page.charts)
    for sizes in ("1, 2, 16, 24 and 32", "8, 16, 24 and 32"):
        assert f"rate, the same for {sizes} GPUs" in said
    assert titles[3].endswith("29.0 % on 32 GPUs (stepping, warm-up 1)"), "not task 4's"
    pages = document_of(lab, lambda run: None if run.run_id == 20 else run).pages
    assert any(titles[3][-60:] in page.title.replace("\u00a0", " ") for page in pages), "else task 4's"
    assert [each.title.count(" ") for each in errors] == [1] * 6, "two lines, about as long"
    shown = page_text(few := next(page for page in more if page.blocks)).replace("\u00a0", " ")
    assert all(word in shown for word in ("8 GPUs", "val. accuracy", "GPU-h", "GPUs, 6.65 s on"))
    assert last.kicker[0] == "8" and chart_height(last) < 3.5, "its answers stand below its chart"
    assert chart_height(errors[3]) > 4 and few.answers, "the table is on the next, curves need height"
    (batches,) = last.charts
    told = [text for each in batches.measured for _, text, *_ in drawing.mark_numbers(batches, each)]
    assert told == [document.facts[0][0]] == ["71.3 %"], "the best is named where it is"


def test_a_bar_stands_out_where_it_is_best_and_a_part_alone_has_its_number_once():
    for values, colours in (((9, 5, 4), 2), ((9, 8, 4), 1), ((9, 9, 4), 1), ((99, 9, 4), 2)):  # each is ±1
        points = tuple(Point(x=x, y=y, lo=y - 1, hi=y + 1, live=x == 2) for x, y in enumerate(values))
        spec = replace(spec_of({}, kind="bars", x_axis="names"), series=(Series(name="x", points=points),))
        (axes,) = drawn(spec).axes
        assert len({bar.get_facecolor() for bar in axes.patches}) == colours
        assert len(axes.collections) == sum(y < 40 for y in values) and spec.captions, "beside long ones, too"
        assert [text.endswith(", so far") for text in words_of(axes.texts)] == [False, False, True]
    for edition, within in (("thesis-2019", False), ("hpc4ai-ch10", True)):
        spec = next(each for each in charts_of(edition) if each.family == "efficiency-loss")
        far = [replace(each, lo=each.y - 0.4, hi=each.y + 2) for each in spec.measured[-1].points]
        spec = replace(spec, series=(*spec.series[:-1], replace(spec.series[-1], points=tuple(far))))
        (axes,) = drawn(spec).axes
        low, high = axes.get_xlim()
        assert all(low < x < high for line in axes.lines for x in line.get_xdata()), "no bound is cut"
        assert all(word.endswith(" lost") is within for word in words_of(axes.get_yticklabels())), "a sum"
        assert "±" in " ".join(words_of(axes.texts)), "as in PowerPoint"


def test_a_picture_is_the_same_each_time_and_a_rehearsal_is_marked(tmp_path):
    notes = ("A note.", *(f"{at} {'long ' * 36}" for at in range(4)), "Another.")
    spec = spec_of({1: 4.0, 2: 2.0, 4: 1.5}, mark="practice", notes=notes)
    one = pictures(spec, ("png", "svg", "pdf"), stamp="state 1")
    assert one == pictures(spec, one, stamp="state 1") and set(one) == {"png", "svg", "pdf"}
    assert b"<!-- Practice cluster, not measured -->" in one["svg"]
    assert b"Another." in one["svg"] and b"3 long" not in one["svg"], "what does not fit is left out"
    lab = practice_of(make_lab(tmp_path / "lab", "hpc4ai-ch10"))
    document = hand_in(lab.contents())
    assert lab.folder.settings().profile == "mn5"
    assert all(page.practice for page in document.pages) and document.mark == PRACTICE_LINE
    assert all("(practice)" in chart_text(spec) for page in document.pages for spec in page.charts)


def test_more_than_four_lines_become_panels():
    lines = [{1: 1.0 + n, 2: 2.0 + n} for n in range(6)]
    assert len(split_lines(spec_of(*lines))) == 6 and len(split_lines(spec_of(*lines[:4]))) == 1
    for count, named in ((15, 15), (30, 0)):  # in one chart, since there is no room for so many panels
        (axes,) = drawn(spec_of(*(lines * 5)[:count])).axes
        assert len([text for text in axes.texts if text.get_gid() == "name"]) == named
    assert [rows_of(split_lines(spec_of(*lines[:count]))) for count in (5, 6)] == [1, 2]
    two_each = [replace(each, series=each.measured * 2) for each in split_lines(spec_of(*lines[:5]))]
    assert rows_of(two_each[:3]) == 1 and rows_of(two_each) == 2, "names beside several lines need room"
    series = tuple(replace(each, group="ab"[at < 7]) for at, each in enumerate(spec_of(*(lines * 2)).series))
    seven, five = drawn(replace(spec_of(*(lines * 2)), series=series)).axes
    assert [each.get_title(loc="left") for each in (seven, five)] == ["b, 7\u00a0runs", "a"]
    names = [each.get_text() for each in five.texts if each.get_gid() == "name"]
    assert names[0] == "3 line 7" and len(names) == 5 and not seven.texts
    study = published_lab(load_edition("thesis-2019")).results
    twice = replace(study.rows[-1], members=(mine := study.rows[-1].members[0], replace(mine, task_id="")))
    assert f" ({mine.label})" in text_table([twice], PRECISE), "the accuracy is that of one run"
    assert " ".join(tables.title_facts(study)[0]).endswith("last epoch, ResNet50 (tiny-224, linear) on 1 GPU")
    fact, titles = tables.title_facts(study)[1], {chart.family: chart.message for chart in lab_charts(study)}
    assert "ResNet50 (tiny-224, linear)" in fact[1]
    assert titles["epoch-time"] == "On 32 GPUs, an epoch takes 1.67 s"
    told = {"val_accuracy": round((end := mine.run.epochs[0]).metrics["val_top1"] / 100, 3)}
    end = replace(end, metrics=end.metrics | told, metric_lines={"val_accuracy": 193, "val_top1": 194})
    fell = replace(mine, run=replace(mine.run, epochs=(*mine.run.epochs[:0:-1], end)))
    lines = next(iter(tables.source_rows(replace(study.rows[-1], members=(fell,)))))[-1]
    assert f"accuracy {percent_text(val_accuracy(fell.run))}: 194" in lines, "that of table and cursor"
    (errors,) = (chart for chart in lab_charts(study) if chart.family == "error")
    by_policy = {each.family: len(split_lines(each)) for each in lab_charts(study)}
    assert (by_policy["error"], by_policy["epochs"]) == (5, 6), "a study has one for each policy"
    assert all(len(split_lines(each)) == 1 for each in lab_charts(study) if each.x_axis == "batch")
    axes = drawn(errors).axes[0]
    names = [each.get_window_extent() for each in axes.texts if each.get_gid() == "name"]
    grey = [each.get_path().transformed(axes.transData) for each in axes.lines if each.get_zorder() == 1]
    assert names and not any(line.intersects_bbox(name, filled=False) for line in grey for name in names)


def test_axes_are_logarithmic_where_sizes_double_often_and_shares_are_not():
    wide = {n: float(n) for n in (1, 2, 4, 8, 16)}
    (axes,) = drawn(with_log_axes(spec_of(wide))).axes
    assert (axes.get_xlabel(), axes.get_title(loc="left")) == ("GPUs (log scale)", "t (log scale)")
    assert with_log_axes(spec_of(wide, kind="bars")).x_title == "GPUs", "bars are not on a scale"
    assert not with_log_axes(spec_of(wide, unit="%")).y_log
    assert not with_log_axes(spec_of({1: 1.0, 4: 2.0})).x_log
    assert not with_log_axes(spec_of({1: 2.0, 16: 1.0})).y_log, "of a twofold range"
    panel = split_lines(spec_of(*[{1: 9.0, 2: 5.0, 4: 3.0}] * 5))[0]
    assert {"9", "3"} == set(words_of(drawn(panel).axes[0].texts)), "the first value and the last"
    (axes,) = drawn(replace(spec_of({2.0**n: 414 / 2.4**n for n in range(7)}), y_log=True)).axes
    assert [*axes.get_yticks()] == [1, 4, 16, 64, 256, 1024] and drawing.y_ticks(0, 4)[-1] == 4


def test_a_line_that_ends_before_the_others_has_its_name_at_its_own_end():
    spec = next(each for each in charts_of("hpc4ai-ch10") if each.family == "laws")
    (axes,) = drawn(spec).axes
    names = {text.get_text(): text for text in axes.texts if text.get_gid() == "name"}
    assert any(name.endswith("× if a step stays as on 4 GPUs") for name in names)
    at_four, at_eight = (axes.transData.transform((x, 1))[0] for x in (4, 8))
    box, end = names["2.53×"].get_window_extent(), axes.transData.transform((4, 2.53))[1]
    assert at_four < box.x1 < at_eight and box.y1 < end, "lines go on above it"
    assert words_of(axes.get_yticklabels())[:2] == ["0×", "2×"], "curves need an axis"
    (near,) = drawn(replace(spec_of({1: 0.741, 4: 0.749}), unit="%", x_axis="batch")).axes
    assert len(labels := words_of(near.get_yticklabels())) == len(set(labels)) > 2
    crowded = [each for each in charts_of("hpc4ai-ch12") if each.family == "laws"]
    assert [each.heading for each in crowded] == ["Speedup, micro-224", "Speedup, tiny-224"]
    for spec in crowded:
        (axes,) = drawn(spec).axes
        boxes = [text.get_window_extent() for text in axes.texts if text.get_gid() == "name"]
        laws = [line for line in axes.lines if line.get_label() in ("Amdahl", "Gustafson")]
        places = [place for law in laws for place in axes.transData.transform(law.get_xydata())]
        assert not any(box.contains(*place) for box in boxes for place in places), "no name lies on a law"
        assert spec.x_log and {"Amdahl", "Gustafson"} < set(words_of(axes.texts)), "named at their ends"
    sizes = spec_of(dict.fromkeys((1, 2, 4, 8, 16, 24, 32), 1.0))
    for width in (12, 3):
        labels = drawn(replace(sizes, x_log=True), width=width).axes[0].get_xticklabels()
        assert ("24" in words_of(each for each in labels if each.get_visible())) is (width == 12)


def words_of(texts):
    return [text.get_text() for text in texts]


def charts_on(tmp_path, edition, task):
    pages = hand_in(make_lab(tmp_path / task, edition).contents()).pages
    return [page.charts for page in pages if page.charts and page.kicker.startswith(f"{task} ")]


def test_numbers_of_bars_stand_apart_and_lines_of_one_colour_are_named_in_each_chart(tmp_path):
    pages = charts_on(tmp_path, "sa-miri-2025-pg", "10.9") + charts_on(tmp_path, "cc-mei-2025-lab5", "8")
    for charts in pages:
        axes = drawn(*charts, width=12.1, height=3).axes[0]
        numbers = [each.get_window_extent() for each in axes.texts if each.get_text()]
        inside = [each.get_window_extent() for each in axes.texts if each.get_gid() != "name"]
        assert max(each.width for each in inside) < 1.3 * axes.patches[0].get_window_extent().width
        assert not any(one.overlaps(other) for one, other in itertools.combinations(numbers, 2))
    spec = next(each for each in charts_of("hpc4ai-ch10") if each.family == "speedup")
    assert "ideal" in words_of(drawn(spec, replace(spec, kind="bars")).axes[1].texts)
    (charts,) = charts_on(tmp_path, "hpc4ai-ch12", "12.3")
    assert "67.8 % micro-224" in words_of(drawn(*charts).axes[1].texts)


def test_the_axis_of_a_share_begins_as_on_the_screen(tmp_path):
    for share, first in ((0.678, 50), (0.893, 80), (0.922, 85), (0.39, 0), (1.0, 90)):
        spec = make_chart("efficiency", spec_of({1: 1.0, 2: share}).series, x_ticks=((1, "1"), (2, "2")))
        assert words_of(drawn(spec).axes[0].get_yticklabels())[0] == f"{first} %"
        assert drawing.with_start(spec).heading == f"Efficiency, %{f' (from {first})' * (first > 0)}"
        for each, begins in ((spec, first), (replace(spec, kind="bars"), 0)):
            ticks = [row.split("┼")[0].strip() for row in screen_rows(each, 80, 24) if "┼" in row]
            assert ticks[-1] == f"{begins} %"
    assert drawing.y_limits(replace(spec_of({1: 0.7286, 4: 0.76}, unit="%"), x_axis="batch"))[0] == 0.72
    series = Series(name="x", points=(Point(x=1, y=1.0), Point(x=4, y=1.0, lo=0.6, hi=1.4)))
    assert drawing.y_limits(make_chart("efficiency", [series]))[1] > 1.4, "a bar of uncertainty is not"
    rows = drawn(make_chart("tuning", [series], x_ticks=((1, "a"), (4, "b")))).axes[0]
    assert rows.get_xlim()[1] > 1.4, "nor is it cut"
    (axes,) = drawn(*charts_on(tmp_path, "hpc4ai-ch11", "11.2")[0]).axes
    (bounds,), number = axes.collections, next(each for each in axes.texts if each.get_text() == "1,720")
    assert number.get_window_extent().x0 > bounds.get_window_extent().x1, "no bar crosses its number"


def test_the_accuracy_of_many_runs_has_a_panel_for_each_and_what_a_gpu_did_last_is_no_label(tmp_path):
    contents = make_lab(tmp_path / "lab", "hpc4ai-ch12").contents()
    (chart,) = (c for c in lab_plots(contents.measurements, contents.named) if c.family == "accuracy")
    assert len(chart.measured) == 12 and chart.measured[0].name == "ViT-H/14 · micro-224 · 1 GPU"
    assert [each.heading for each in split_lines(chart)][::11] == ["micro-224, 1 GPU", "tiny-224, 32 GPUs"]
    ends = ("training", "validation")
    both = [replace(each, name=f"{each.name}, {end}") for each in chart.measured[:6] for end in ends]
    both[1::2] = [replace(each, points=each.points[1:]) for each in both[1::2]]
    first, second, *_ = drawn(both := replace(chart, series=tuple(both))).axes
    assert "training" in words_of(first.texts)[0] and "training" not in " ".join(words_of(second.texts))
    last = tuple(replace(point, live=True) for point in both.series[0].points)
    live = replace(both, series=(replace(both.series[0], points=last), both.series[3]))
    assert [text.endswith("so far") for text in drawing.end_texts(live, named=True).values()] == [True, False]
    alone = replace(live, unit="", series=(replace(live.series[0], points=(Point(x=1, y=2, live=True),)),))
    assert [*drawing.end_texts(alone, named=True).values()] == ["so far"], "without a name no comma"
    lines = enumerate(both.measured[:6], 10)
    panels = (replace(each, group=f"a longer{n} run, CPUs {n}, sleep {n}") for n, each in lines)
    titles = [each.get_title(loc="left") for each in drawn(replace(both, series=tuple(panels))).axes]
    assert titles[0].endswith("\nsleep\u00a010"), "an option keeps its value"
    cpu = compute_results([run(0, [9, 8], model=name) for name in "ab"])
    (over,) = pages_module._charts(HandInPage(task="1", table="results"), cpu)
    assert over.family == "epochs", "a page of runs on the CPU has a chart"
    many = tuple(Point(x=x, y=1, hollow=x == 1) for x in range(1, 99))
    (axes,) = drawn(replace(chart, series=(replace(chart.measured[0], points=many),))).axes
    assert [line.get_marker() for line in axes.lines][1:] == ["None", "o"], "its warm-up has a mark"
    samples = [GpuSample(at=float(at), index=0, name="GPU 0", utilization=0.9) for at in (1, 3)]
    for steady in (0.9, None):  # not where `results` says that it is not known
        use = cost.RunUtilization(run=contents.measurements.runs[0], steady=steady, standing_by=0)
        given = SimpleNamespace(uses=[use], samples={use.run.source: samples})
        chart = lab_plots(given, contents.named)[-1]
        assert (chart.family == "gpu-utilisation") is (steady is not None)
        assert steady is None or chart.key.endswith("-ViT-H-14-micro-224-on-1-GPU")
        assert steady is None or chart.message == "ViT-H/14 (micro-224) keeps 1 GPU 90.0 % busy (job 30001)"
        assert steady is None or drawing.y_limits(chart)[0] == 0, "noise is no drama"
    twice = job_gpu_chart([replace(each, index=at, name=f"GPU {at}") for at in (1, 0) for each in samples])
    assert list(drawing.end_texts(twice, named=True).values()) == ["GPU 0", "GPU 1"]
    assert [each.hue for each in twice.series] == [0, 1]
