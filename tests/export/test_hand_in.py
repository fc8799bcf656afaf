"""What is handed in: the pages an edition asks for, a message on each, one state, nothing lost, nothing false."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import zipfile
from dataclasses import replace

import pytest

from labtui.export import contents as contents_module
from labtui.export import export_lab
from labtui.export.hand_in import (
    Chart,
    KeyNumbers,
    Listing,
    Paragraph,
    Table,
    block_text,
    first_sentence,
    without_first_sentence,
)
from labtui.export.markdown import blocks_of
from labtui.export.pages import default_pages, hand_in, page_text
from labtui.export.slide_layout import BODY, lay_out
from labtui.export.typst_writer import Typesetter
from labtui.results.numbers import three_digits
from tests.export.helpers import ANSWERS, DAY, EDITIONS, has, make_lab

PAGES = {
    "hpc4ai-ch10": 9, "cc-mei-2025-lab5": 13, "sa-miri-2025-pg": 19, "sa-miri-2021-ex12": 9,
    "hpc4ai-ch11": 9, "hpc4ai-ch12": 6, "hpc4ai-ch15": 14, "thesis-2019": 10,
    "sa-miri-2025-ph": 11, "sa-miri-2025-pi": 6,
    "hpc4ai-ch4": 6, "hpc4ai-ch6": 8,
}  # fmt: skip
PYTORCH = ("hpc4ai-ch11", "hpc4ai-ch12", "hpc4ai-ch15", "thesis-2019")
ANSWER = "The answer in one sentence. And **more** about it."


@pytest.fixture(scope="module")
def typesetter():
    with Typesetter() as made:
        yield made


def practice_of(lab):
    """The lab with every run and submission rehearsed, its profile still that of a real cluster."""
    runs = {number: replace(run, practice=True) for number, run in lab.state.runs.items()}
    return replace(lab, state=replace(lab.state, runs=runs))


# --------------------------------------------------------------------------- which pages


@pytest.mark.parametrize("edition", tuple(PAGES))
def test_the_hand_in_is_what_the_edition_lists(tmp_path, edition, typesetter):
    lab = make_lab(tmp_path / "lab", edition, answer=ANSWER)
    deck = hand_in(lab.contents())
    assert len(deck.pages) + 1 == PAGES[edition] == len(lab.edition.hand_in.pages)
    titles = [slide.title for slide in lay_out(deck, typesetter.heights).slides]
    if lab.edition.hand_in.form == "slides":  # what is longer than its slide stands behind the divider
        before = titles.index("The answers in full") if "The answers in full" in titles else len(titles)
        sources = titles.count("Where the numbers come from")  # goes on over slides
        assert PAGES[edition] <= before <= PAGES[edition] + max(2, sources)
    shown = {page.kicker.split(" · ")[0] for page in deck.pages}
    for task in lab.edition.tasks:
        if task.handed_in and task.questions:
            assert task.id in shown
        if not task.handed_in:
            assert task.id not in shown


@pytest.mark.parametrize("answer", ["", ANSWER])
def test_a_page_leads_with_its_message_and_its_answers_stand_in_the_order_of_the_sheet(tmp_path, answer):
    lab = make_lab(tmp_path / "lab", "hpc4ai-ch10", answer=answer)
    deck = hand_in(lab.contents())
    for page in deck.pages:
        task = lab.edition.task(page.kicker.split(" · ")[0])
        if task is None or not page.questions:
            continue
        sheet = [question.text for question in task.questions]
        places = [sheet.index(text) for text in page.questions]
        assert places == sorted(places)
        requests = [
            block.text for block in page.answer if isinstance(block, Paragraph) and block.style == "question"
        ]
        assert requests == [sheet[place] for place in places]


def test_pages_on_pytorch_show_their_own_runs_their_data_sets_and_their_unit(tmp_path):
    decks = {name: hand_in(make_lab(tmp_path / name, name).contents()) for name in PYTORCH}

    def page(name, task, number=0):
        return [each for each in decks[name].pages if each.kicker.startswith(f"{task} ")][number]

    def parts(found, kind):
        return [block for block in found.visuals if isinstance(block, kind)]

    assert page("hpc4ai-ch12", "12.1").title == "Efficiency on 32 GPUs: micro-224 68 %, tiny-224 89 %"
    assert page("hpc4ai-ch12", "12.2").title == "32 GPUs: 28.6× as fast, 89 % efficiency (vit, tiny-224)"
    spot = "Least time on 32 GPUs, fewest GPU-hours on 1, 80 % efficiency up to 32"
    assert page("hpc4ai-ch12", "12.4").title == spot
    (chart,) = parts(page("hpc4ai-ch11", "11.3"), Chart)
    assert (chart.spec.x_label, [text for _, text in chart.spec.x_ticks][:3]) == ("workers", ["0", "1", "2"])
    (table,) = parts(page("hpc4ai-ch11", "11.5"), Table)
    assert "GPU memory, GB" in table.headings
    assert {row[0] for row in table.rows} == {f"vit (micro-224, {kind})" for kind in ("tf32", "fp16", "bf16")}
    # 0 workers are pooled with the equal run of task 11.2
    assert page("hpc4ai-ch11", "11.3").title == "custom, 10 workers: 10,881 images/s, 6.32 times 0 workers"
    rate, efficiency = (block.spec for block in parts(page("hpc4ai-ch12", "12.1"), Chart))
    assert {series.name for series in rate.series} == {"vit (micro-224)", "vit (tiny-224)"}
    assert [text for _, text in rate.x_ticks] == ["1", "2", "4", "8", "16", "32"]
    assert any("weak scaling" in note for note in efficiency.notes)
    (table,) = parts(page("hpc4ai-ch15", "15.10"), Table)
    assert table.headings == (
        "model",
        "device",
        "global batch",
        "tokens/s",
        "tokens/s per GPU",
        "GPU memory, GB",
    )
    assert ("32 GPUs", "1,184", "1,325,568", "41,424", "61.99") in {row[1:] for row in table.rows}
    charts = [block.spec for block in parts(page("hpc4ai-ch15", "15.10", 1), Chart)]
    assert [chart.key for chart in charts] == ["throughput", "speedup", "efficiency"]
    assert charts[0].y_label == "tokens per second"
    keys = {block.spec.key for each in decks["thesis-2019"].pages for block in parts(each, Chart)}
    assert keys >= {"learning-rate", "error", "batch-accuracy"}
    naive = page("thesis-2019", "2")
    assert naive.title == "Best top-1 in validation: 70.2 %, naive, 2 GPUs, batch 256"
    (chart,) = parts(page("thesis-2019", "8"), Chart)
    assert [text for _, text in chart.spec.x_ticks] == ["128", "256", "1,024", "2,048", "3,072", "4,096"]


def test_what_the_documents_ask_for_is_there(tmp_path):
    by_task: dict[tuple[str, str], list] = {}
    for edition in EDITIONS:
        contents = make_lab(tmp_path / edition, edition, answer=ANSWER).contents()
        for page in hand_in(contents).pages:
            by_task.setdefault((edition, page.kicker.split(" · ")[0]), []).append(page)
    keys = lambda page: [block.spec.key for block in page.visuals if isinstance(block, Chart)]  # noqa: E731
    four = ["epoch-time", "throughput", "speedup", "efficiency"]
    assert keys(by_task["hpc4ai-ch10", "10.5"][0]) == keys(by_task["hpc4ai-ch10", "10.6"][0]) == four
    compared = by_task["hpc4ai-ch10", "10.7"]
    assert [keys(page) for page in compared] == [
        four[:2],
        four[2:],
        ["efficiency-loss-resnet50", "efficiency-loss-resnet152"],
    ]
    assert len(by_task["cc-mei-2025-lab5", "4"]) == 2  # one slide on the measures, one on the parallelisms
    assert all(
        block.spec.kind == "bars" for page in by_task["cc-mei-2025-lab5", "8"] for block in page.visuals
    )
    code = by_task["cc-mei-2025-lab5", "1"][0].visuals[0]
    assert sum(bool(line.part) for line in code.lines) == 5
    lines = block_text(by_task["cc-mei-2025-lab5", "5"][0].visuals[0])
    assert "MirroredStrategy(" in lines and "strategy.scope" in lines and "import" not in lines
    laws = by_task["sa-miri-2025-pg", "10.10"]
    assert isinstance(laws[0].visuals[0], Table) and keys(laws[1]) == ["laws"]
    assert not any(series.role == "reference" for series in laws[1].visuals[0].spec.series)  # no forecast
    report = by_task["sa-miri-2021-ex12", "6"][0]
    chart = next(block.spec for block in report.visuals if isinstance(block, Chart))
    assert [series.name for series in chart.series if series.role == "ideal"] == ["95 %"]


@pytest.mark.parametrize("edition", EDITIONS)
def test_every_page_has_a_message_and_no_question_stands_twice(tmp_path, edition):
    lab = make_lab(tmp_path / "lab", edition, answer="")
    deck = hand_in(lab.contents())
    assert all(page.title for page in deck.pages)
    answered = hand_in(make_lab(tmp_path / "b", edition, answer=ANSWER).contents())
    assert "The answer in one sentence" in {page.title for page in answered.pages}
    for page in (*deck.pages, *answered.pages):
        assert not any(question in page_text(page) for question in page.questions)
        assert page_text(page).count("The answer in one sentence") <= max(1, len(page.questions))


def test_a_title_is_a_computed_fact_where_no_answer_is(tmp_path):
    titles = [page.title for page in hand_in(make_lab(tmp_path / "lab", "hpc4ai-ch10").contents()).pages]
    assert "Four GPUs: 2.5× as fast, 63 % efficiency (ResNet50)" in titles
    assert "One GPU is 15.0× as fast as the CPU (ResNet50, batch 256)" in titles


def test_a_title_speaks_of_the_charts_on_its_page_and_no_two_pages_have_the_same(tmp_path):
    lab = make_lab(tmp_path / "lab", "hpc4ai-ch10")
    runs = {number: run for number, run in lab.state.runs.items() if run.spec.model != "ResNet152"}
    pages = hand_in(replace(lab, state=replace(lab.state, runs=runs)).contents()).pages
    compared = [page for page in pages if page.kicker.startswith("10.7")]
    assert [page.title for page in compared[:2]] == [
        "Four GPUs: 5.38 s an epoch, 9,294 images/s (ResNet50)",
        "Two model sizes compared",
    ]
    for page in (*compared, next(page for page in pages if page.kicker.startswith("10.6"))):
        assert "ResNet152 has not been run yet." in page_text(page)
    assert sum("not been run yet" in page_text(page) for page in pages) == 4


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("edition", [*EDITIONS, *PYTORCH])
def test_titles_that_nobody_wrote_are_different(tmp_path, edition, full):
    titles = [page.title for page in hand_in(make_lab(tmp_path / "lab", edition, full=full).contents()).pages]
    assert len(set(titles)) == len(titles)


def test_a_page_without_numbers_says_which_runs_are_missing(tmp_path):
    pages = hand_in(make_lab(tmp_path / "lab", "hpc4ai-ch10", full=False).contents()).pages
    texts = {page.kicker.partition(" ")[0]: page_text(page) for page in reversed(pages)}
    assert "ResNet50 · CPU has not been run yet." in texts["10.3"]
    assert "ResNet50 · 1 GPU and ResNet50 · CPU have not been run yet." in texts["10.4"]
    assert "ResNet50 and ResNet152 have not been run yet." in texts["10.7"]


def test_long_sentences_formulas_and_lists_are_no_titles():
    long = blocks_of("A sentence " + "that goes on and on " * 12 + "and ends.")
    assert first_sentence(long) == ""
    assert first_sentence(blocks_of("Yes, it is. The all-reduce shows.")) == ""
    assert first_sentence(blocks_of("- a point\n- another")) == ""
    assert first_sentence(blocks_of("It is $x$ here. Then.")) == ""
    blocks = blocks_of("It costs 3.5 s. The rest **stays**.")
    assert first_sentence(blocks) == "It costs 3.5 s"
    assert [block_text(b) for b in without_first_sentence(blocks)] == ["The rest stays."]


def test_the_title_page_has_three_key_numbers_and_the_overview_steps(tmp_path):
    lab = make_lab(tmp_path / "lab", "cc-mei-2025-lab5")
    deck = hand_in(lab.contents())
    assert [value for value, _ in deck.key_numbers.items] == ["15.0×", "2.53×", "3.26×"]
    steps = next(b for page in deck.pages for b in page.visuals if isinstance(b, KeyNumbers) and b.steps)
    assert [label for _, label in steps.items] == ["CPU", "1 GPU", "2 GPUs", "4 GPUs"]


def test_an_accuracy_is_a_key_number_only_where_the_lab_asks_for_one(tmp_path):
    lab = make_lab(tmp_path / "lab", "hpc4ai-ch10")
    one_gpu = {number: run for number, run in lab.state.runs.items() if run.spec.n_gpus == 1}
    contents = replace(lab, state=replace(lab.state, runs=one_gpu)).contents()
    assert not any("accuracy" in words for _, words in hand_in(contents).key_numbers.items)
    contents = make_lab(tmp_path / "target", "sa-miri-2021-ex12").contents()
    words = [words for _, words in hand_in(contents).key_numbers.items if "accuracy" in words]
    assert words == ["best training accuracy, after 40 epochs"]


def test_an_edition_without_pages_gets_the_charts_its_checks_ask_for(tmp_path):
    lab = make_lab(tmp_path / "lab", "hpc4ai-ch10")
    contents = lab.contents()
    bare = replace(contents, edition=_without_pages(contents.edition))
    pages = default_pages(bare)
    assert [page.task for page in pages if page.kind == "task"] == ["10.3", "10.4", "10.5", "10.6", "10.7"]
    assert pages[-1].kind == "sources" and hand_in(bare).pages


def _without_pages(edition):
    import msgspec

    return msgspec.structs.replace(edition, hand_in=None)


# --------------------------------------------------------------------------- nothing is lost


@pytest.mark.parametrize("kind", ANSWERS)
def test_every_word_of_an_answer_is_in_the_slides_and_in_the_report(tmp_path, kind, typesetter):
    lab = make_lab(tmp_path / "lab", "hpc4ai-ch10", answer=ANSWERS[kind])
    deck = hand_in(lab.contents())
    laid = lay_out(deck, typesetter.heights)
    output = "".join(
        slide.title + "".join(block_text(block) for zone in slide.zones for block in zone.blocks)
        for slide in laid.slides
    )
    output = "".join(output.split())
    for block in blocks_of(ANSWERS[kind]):
        for part in block_text(block).split("\n"):
            for word in part.split():
                assert word.rstrip(".") in output, (kind, word)
    for slide in laid.slides:
        for zone in slide.zones:
            assert zone.box.x >= 0 and zone.box.y >= 0 and zone.box.h >= 0
            assert zone.box.bottom <= BODY.bottom + 1 and zone.box.x + zone.box.w <= 925


def test_what_does_not_fit_its_page_stands_behind_the_divider_and_the_student_is_told(tmp_path, typesetter):
    lab = make_lab(tmp_path / "lab", "hpc4ai-ch10", answer=ANSWERS["long"])
    laid = lay_out(hand_in(lab.contents()), typesetter.heights)
    titles = [slide.title for slide in laid.slides]
    divider = titles.index("The answers in full")
    assert divider == PAGES["hpc4ai-ch10"] and len(titles) > divider + 1 and laid.notes


def test_a_job_script_is_shown_without_what_labtui_writes_into_each(tmp_path):
    from pathlib import Path

    from labtui.export.markdown import own_part

    for path in sorted((Path(__file__).parents[1] / "slurm_templates" / "golden").glob("*.slurm")):
        mine = own_part(path.read_text(encoding="utf-8"))
        assert "#SBATCH --job-name" in mine and "\nrun " in mine
        assert "say token" not in mine and "nvidia-smi" not in mine and "run() {" not in mine


# --------------------------------------------------------------------------- true


def test_a_rehearsal_is_marked_whatever_profile_the_folder_names(tmp_path):
    lab = practice_of(make_lab(tmp_path / "lab", "hpc4ai-ch10"))
    assert lab.folder.settings().profile == "mn5" and not lab.folder.settings().practice
    deck = hand_in(lab.contents())
    assert deck.practice and all(page.practice for page in deck.pages)
    assert all(
        block.spec.practice for page in deck.pages for block in page.visuals if isinstance(block, Chart)
    )
    assert not hand_in(make_lab(tmp_path / "real", "hpc4ai-ch10").contents()).practice


def test_one_export_reads_once_and_every_file_bears_its_stamp(tmp_path, monkeypatch):
    from PIL import Image

    lab = make_lab(tmp_path / "lab", "hpc4ai-ch10", answer=ANSWER)
    reads = []
    real = contents_module.measurements_of
    monkeypatch.setattr(contents_module, "measurements_of", lambda *a: (reads.append(1), real(*a))[1])
    export_lab(lab.folder.path, state=lab.state, today=DAY)
    assert len(reads) == 1
    there = lab.folder.path
    stamp = json.loads((there / "results.json").read_text("utf-8"))["export"]
    rows = list(csv.DictReader(io.StringIO((there / "results.csv").read_text("utf-8"))))
    assert {row["export"] for row in rows} == {stamp}
    for name in ("results.md", "results.tex", "analysis.ipynb"):
        assert stamp in (there / name).read_text("utf-8"), name
    with zipfile.ZipFile(there / "deck.pptx") as deck:
        assert stamp in deck.read("docProps/core.xml").decode()
    with Image.open(there / "plots" / "speedup-ResNet50.png") as picture:
        assert picture.info["Description"] == stamp
    assert stamp in (there / "plots" / "speedup-ResNet50.svg").read_text("utf-8")
    if has("pdfinfo"):
        for name in ("deck.pdf", "report.pdf"):
            messages = subprocess.run(
                ["pdfinfo", str(there / name)], capture_output=True, text=True, check=True
            ).stdout
            assert stamp in messages and "Author:          Group 7" in messages
    assert set(json.loads((there / "results.json").read_text("utf-8"))["rows"][0])
    assert len(rows) == len(json.loads((there / "results.json").read_text("utf-8"))["rows"])


def test_a_caveat_stands_under_the_chart_it_is_about(tmp_path, typesetter):
    lab = make_lab(tmp_path / "lab", "hpc4ai-ch10", answer=ANSWERS["long"])
    deck = hand_in(lab.contents())
    slides = lay_out(deck, typesetter.heights).slides
    for slide in slides:
        blocks = [block for zone in slide.zones for block in zone.blocks]
        words = " ".join(block_text(block) for block in blocks if not isinstance(block, Chart))
        for block in blocks:
            if isinstance(block, Chart):
                assert all(" ".join(note.split()) in words for note in block.spec.notes), slide.title


def test_only_computed_numbers_are_said_to_come_from_logs(tmp_path):
    last = hand_in(make_lab(tmp_path / "lab", "hpc4ai-ch10").contents()).pages[-1]
    assert "authors' own" in page_text(last) and "Every number" not in page_text(last)
    logs = {row[3] for block in last.visuals if isinstance(block, Table) for row in block.rows}
    assert all(name.startswith("logs/") for name in logs)


def test_numbers_have_three_digits_and_say_what_their_uncertainty_is(tmp_path):
    page = next(
        p for p in hand_in(make_lab(tmp_path / "lab", "hpc4ai-ch10").contents()).pages if "10.3" in p.kicker
    )
    table = next(block for block in page.visuals if isinstance(block, Table))
    ((_, _, _, seconds, kind, _),) = table.rows
    assert seconds == three_digits(215.0) and kind == "one epoch"


def test_answers_show_the_pictures_they_name(tmp_path):
    from PIL import Image

    lab = make_lab(
        tmp_path / "lab", "hpc4ai-ch10", answer="See below.\n\n![the GPUs](smi.png) and ![](../../etc/passwd)"
    )
    Image.new("RGB", (80, 40), "red").save(lab.folder.path / "answers" / "smi.png")
    contents = lab.contents()
    assert list(contents.pictures) == ["smi.png"]
    pages = hand_in(contents).pages
    shown = [block for page in pages for block in page.answer if type(block).__name__ == "Picture"]
    assert shown and shown[0].alt == "the GPUs"
    assert "passwd" in "".join(page_text(page) for page in pages)  # named in words, never read


def test_listings_are_what_was_written_or_changed(tmp_path):
    lab = make_lab(tmp_path / "lab", "cc-mei-2025-lab5")
    pages = hand_in(lab.contents()).pages
    changes = [b for page in pages for b in page.visuals if isinstance(b, Listing) and "differs" in b.caption]
    assert changes and any(line.change == "+" and "ResNet152V2" in line.text for line in changes[0].lines)


def test_what_is_not_answered_is_one_line_and_no_slide_of_its_own(tmp_path, typesetter):
    lab = make_lab(tmp_path / "lab", "hpc4ai-ch10")
    laid = lay_out(hand_in(lab.contents()), typesetter.heights)
    assert not [note for note in laid.notes if "does not fit its slide" in note]
    output = [
        block_text(block)
        for slide in laid.slides
        for zone in slide.zones
        for block in zone.blocks
        if isinstance(block, Paragraph)
    ]
    missing = [text for text in output if text.startswith("No answer yet to question")]
    assert missing and all(text.endswith(".md).") for text in missing)
    assert any("questions 1, 2, 3, 4, 5 (answers/10.5.md)" in text for text in missing)
