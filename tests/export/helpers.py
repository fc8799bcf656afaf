"""Lab folders with all runs an edition plans, answers of every kind, and readers for exported documents."""

import itertools
import re
import subprocess
from datetime import date
from pathlib import Path
from shutil import which

import msgspec
import pytest
from msgspec.structs import replace

from labtui.domain.state import LabState
from labtui.export.contents import LabContents, read_contents
from labtui.export.hand_in import Block, Listing, Page, Paragraph
from labtui.lab.edition import Edition
from labtui.results.numbers import Table
from labtui.session.folder import LabFolder
from labtui.session.labs import load_edition, open_answers
from labtui.session.settings import Settings
from tests.lab.proof import own_script_texts
from tests.lab.published import published_lab

DAY = date(2026, 3, 5)

LONG = "\n\n".join(
    f"Paragraph {n}: the all-reduce after each step costs time that does not shrink with the number of GPUs, "
    "so the efficiency falls, and with a larger per-GPU batch it would fall less. " * 3
    for n in range(1, 13)
)
LANGUAGES = (
    "La velocitat creix: acceleració, eficiència, «paral·lel».\n\nΗ επιτάχυνση είναι υπογραμμική. Ускорение "
    "меньше идеального. 加速比は理想より小さい。 التسريع أقل من المثالي.\n\n- 日本語の長い答え: "
    + "並列学習の効率は通信で下がる。"
    * 12
)
MATHS = (
    "The speedup is $S_n = \\frac{T_1}{T_n}$ and the law says\n\n$$S = \\frac{1}{s + \\frac{1-s}{n}}$$\n\n"
    "It costs $5 or #let x = 1 and *stars* and `code_with_underscores` and $\\unknown{x} \\le \\infty$."
)
EVERYTHING = (
    "## A heading of mine\n\n1. first\n2. second with **bold** and *italic*\n   - inner\n\n"
    "> a quote\n> of two lines\n\n"
    "| GPUs | s |\n|---:|---:|\n| 1 | 13.6 |\n| 4 | 5.4 |\n\n```python\ndef f(x):  # a comment\n    return 'y' * "
    + "100_000 + " * 30
    + '1\n```\n\n<script>alert(1)</script> \\#read("/etc/passwd") '
    + "averylongwordwithoutanyblank" * 12
)
ANSWERS = {"long": LONG, "languages": LANGUAGES, "maths": MATHS, "everything": EVERYTHING}
EACH_KIND = "each kind"


class Lab(msgspec.Struct, frozen=True):
    folder: LabFolder
    edition: Edition
    state: LabState

    def contents(self) -> LabContents:
        return read_contents(self.folder, state=self.state, today=DAY)


def make_lab(path: Path, name: str, *, answer: str = "", full: bool = True) -> Lab:
    """A lab folder with all planned runs of an edition (or none) and each question answered alike or `EACH_KIND`."""
    edition = load_edition(name)
    folder = LabFolder.create(path, Settings(edition=name, profile="mn5", group="Group 7", account="nct_345"))
    evidence = published_lab(edition)
    if full:
        for name, text in own_script_texts(edition).items():
            (folder.scripts / name).write_text(text, encoding="utf-8")
        for submission in evidence.state.submissions.values():
            for run_id in submission.run_ids:
                log = folder.logs / f"{submission.job_name}.{submission.job.job_id}.out"
                log.write_text(f"run {run_id}\n", encoding="utf-8")
    if answer:
        turns = itertools.cycle(ANSWERS.values() if answer == EACH_KIND else [answer])
        for task in edition.tasks:
            if task.questions:
                sheet = open_answers(folder, task)
                text = sheet.read_text(encoding="utf-8")
                text = re.sub("<!-- your answer -->", lambda _: next(turns), text)
                sheet.write_text(text, encoding="utf-8")
    return Lab(folder, edition, evidence.state if full else LabState())


def pdf_words(path: Path) -> list[tuple[float, float, list[tuple[float, float, float, float, str]]]]:
    """For each page: width, height, and the words with their boxes in points, read by poppler."""
    which("pdftotext") or pytest.skip("poppler reads the PDF back")
    done = subprocess.run(["pdftotext", "-bbox", str(path), "-"], check=True, capture_output=True)
    pages = []
    for size, body in re.findall(r'<page width="([^>]*)">(.*?)</page>', done.stdout.decode(), re.DOTALL):
        width, height = (float(number) for number in re.findall(r"[\d.]+", size))
        boxes = re.findall(r'<word xMin="(\S+)" yMin="(\S+)" xMax="(\S+)" yMax="(\S+)">(.*?)</word>', body)
        pages.append((width, height, [(*map(float, box), word) for *box, word in boxes]))
    return pages


def practice_of(lab: Lab) -> Lab:
    """The same lab with every run as a practice run; its profile is still that of a real cluster."""
    sent = {token: replace(item, practice=True) for token, item in lab.state.submissions.items()}
    return small_of(replace(lab, state=replace(lab.state, submissions=sent)))


def small_of(lab: Lab) -> Lab:
    """The same lab with every run as a small run: its log says that CPU devices stood in for GPUs."""
    runs = {number: replace(run, practice=True) for number, run in lab.state.runs.items()}
    return replace(lab, state=replace(lab.state, runs=runs))


def page_text(page: Page) -> str:
    answers = (block for answer in page.answers for block in answer.blocks)
    words = map(block_text, (*page.blocks, *answers))
    facts = (f"{value} {label}" for value, label in page.facts)
    return "\n".join([page.title, *facts, *words, *page.warnings, page.note])


def block_text(block: Block) -> str:
    if isinstance(block, Paragraph):
        return f"{block.bullet} {''.join(run.text for run in block.runs)}".strip()
    if isinstance(block, Listing):
        return "\n".join(line.text for line in block.lines)
    if isinstance(block, Table):
        return "\n".join("  ".join(row) for row in (block.headings, *block.rows))
    return f"[{block.alt}]"
