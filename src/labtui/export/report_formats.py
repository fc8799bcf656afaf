"""The Jupyter notebook, which works on `results.csv`. Pure."""

from __future__ import annotations

import json

from labtui.export.hand_in import (
    HandInDocument,
    Paragraph,
    Run,
    Table,
)
from labtui.export.style import (
    PRACTICE_MARK,
    SERIES,
)
from labtui.export.typst_writer import report_blocks
from labtui.results.charts import MODEL_HUES

_LOAD = """\
import pandas as pd
import matplotlib.pyplot as plt

results = pd.read_csv("results.csv")
results[["model", "device", "n_gpus", "batch_size", "epochs", "epoch_seconds", "scatter_seconds"]]"""

_COLOURS = "colours = {colours}"

_SCALING = """\
gpus = results[(results["device"] == "gpu") & results["speedup"].notna()]
alike = gpus.groupby(["model", "per_gpu_batch_size"])
scaling = gpus[alike["n_gpus"].transform("nunique") > 1]
scaling[["model", "n_gpus", "epoch_seconds", "throughput", "speedup", "efficiency"]].round(3)"""

_CHARTS = """\
quantities = {"epoch_seconds": "seconds per epoch", "throughput": "images per second",
              "speedup": "times one GPU", "efficiency": "speedup / GPUs"}
figure, axes = plt.subplots(1, 4, figsize=(15, 4))
for axis, (column, unit) in zip(axes, quantities.items()):
    table = scaling.pivot_table(index="n_gpus", columns="model", values=column)
    if table.empty:
        continue
    shades = [colours.get(model, "grey") for model in table.columns]
    table.plot.bar(ax=axis, rot=0, color=shades, legend=axis is axes[0])
    if column == "speedup":
        for place, count in enumerate(table.index):
            axis.hlines(count, place - 0.3, place + 0.3, color="black", linewidth=1.5)
    axis.set(title=column.replace("_", " "), ylabel=unit, xlabel="GPUs")
figure.tight_layout()"""

_CHECK = """\
# Speedup and efficiency again, from the epoch times alone; they equal the columns above.
for model, rows in scaling.groupby("model"):
    one = rows.loc[rows["n_gpus"] == 1, "epoch_seconds"]
    if len(one) == 1:
        again = one.iloc[0] / rows["epoch_seconds"]
        assert (abs(again - rows["speedup"]) < 1e-9).all(), model
        assert (abs(again / rows["n_gpus"] - rows["efficiency"]) < 1e-9).all(), model
"checked\""""


def notebook(deck: HandInDocument) -> str:
    """The notebook as JSON; it runs from top to bottom beside results.csv."""
    mark = f"\n\n**{PRACTICE_MARK}**" if deck.practice else ""
    names = {model: SERIES[hue] for model, hue in MODEL_HUES.items()}
    lines = "  \n".join((deck.subtitle, *deck.lines, f"Export: {deck.stamp}"))
    head = f"# {deck.title}\n\n{lines}{mark}"
    cells = [
        _words(head),
        _code(_LOAD),
        _words("## Scaling\n\nThe configurations that were run on more than one number of GPUs."),
        _code(_COLOURS.format(colours=json.dumps(names))),
        _code(_SCALING),
        _code(_CHARTS),
        _code(_CHECK),
    ]
    for page in deck.pages:
        blocks = report_blocks((), page.words, page.answer)
        text = "\n\n".join(_markdown(block) for block in blocks if isinstance(block, Paragraph | Table))
        cells.append(_words(f"## {page.title}\n\n{page.kicker}\n\n{text}"))
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    python = {"display_name": "Python 3", "language": "python", "name": "python3"}
    book = {"cells": cells, "metadata": {"kernelspec": python}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(book, indent=1, ensure_ascii=False) + "\n"


def _words(text: str) -> dict[str, object]:
    return {"cell_type": "markdown", "metadata": {}, "source": text.splitlines(keepends=True)}


def _code(text: str) -> dict[str, object]:
    return {
        "cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [],
        "source": text.splitlines(keepends=True),
    }  # fmt: skip


def _markdown(block: Paragraph | Table) -> str:
    if isinstance(block, Table):
        rows = [block.headings, ["---"] * len(block.headings), *block.rows]
        return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)
    text = "".join(_span(run) for run in block.runs)
    mark = f"{'  ' * max(0, block.level - 1)}{'- ' if block.bullet else ''}"
    return (
        f"**{text}**"
        if block.style in ("heading", "question")
        else f"{'> ' if block.quoted else ''}{mark}{text}"
    )


def _span(run: Run) -> str:
    if run.tex:
        return f"${run.text}$"
    if run.mono:
        return f"`{run.text}`"
    text = run.text.replace("<", "&lt;")
    return (
        f"**{text}**" if run.bold and text.strip() else f"*{text}*" if run.italic and text.strip() else text
    )
