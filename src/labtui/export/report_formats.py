"""The report in three more forms: LaTeX, a Jupyter notebook, and one page for a browser. Pure.

LaTeX uses booktabs and siunitx, with charts as PDF, and compiles on a bare TeX Live. The notebook works on
`results.csv`. The page holds the key numbers, each page's message, tables and charts, all in the file itself.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Sequence
from html import escape

from labtui.export import maths
from labtui.export.hand_in import (
    Block,
    Chart,
    Formula,
    HandInDocument,
    KeyNumbers,
    Listing,
    Paragraph,
    Picture,
    Run,
    Table,
    chart_text,
)
from labtui.export.style import (
    ACCENT,
    INK,
    PANEL,
    PRACTICE,
    PRACTICE_MARK,
    PRACTICE_PAPER,
    QUIET,
    RULE,
    SERIES,
)
from labtui.export.typst_writer import report_blocks
from labtui.results.charts import MODEL_HUES, ChartSpec

FileOf = Callable[[ChartSpec | Picture], str]
"""The path of a chart's or picture's file, relative to report.tex."""

_SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "–": "--", "—": "---", "…": r"\ldots{}", "×": r"$\times$",
    "±": r"$\pm$", "·": r"\textperiodcentered{}", "•": r"\textbullet{}", "→": r"$\rightarrow$", "≤": r"$\leq$",
    "≥": r"$\geq$", "☐": r"$\square$", "☑": r"$\boxtimes$", "✓": r"$\checkmark$", "\t": "    ",
    "<": r"\textless{}", ">": r"\textgreater{}", '"': r"\textquotedbl{}", "'": "'", "`": r"\textasciigrave{}",
    "σ": r"$\sigma$",
}  # fmt: skip
_NUMBER = re.compile(r"-?\d{1,3}(?:,\d{3})*(?:\.\d+)?(?: ±\d[\d,]*(?:\.\d+)?)?")
_HEAD = r"""\documentclass[11pt,a4paper]{article}
\usepackage{iftex}
\ifPDFTeX
  \pdfminorversion=7
  \usepackage[utf8]{inputenc}
  \usepackage[T1]{fontenc}
  \usepackage{textcomp}
\else
  \usepackage{fontspec}
\fi
\usepackage[a4paper,margin=24mm]{geometry}
\usepackage{amsmath,amssymb}
\usepackage{graphicx}
\usepackage{booktabs}
\usepackage{siunitx}
\usepackage{longtable}
\usepackage[hidelinks]{hyperref}
\sisetup{group-separator={,},group-minimum-digits=4,separate-uncertainty=true}
\setlength{\parindent}{0pt}
\setlength{\parskip}{6pt}
"""


def escaped(text: str) -> str:
    """Text as LaTeX, so that nothing in it is a command; letters a bare TeX cannot set become a question mark."""
    return "".join(_SPECIAL.get(mark, mark if ord(mark) < 0x250 else "?") for mark in text)


def latex_report(deck: HandInDocument, file_of: FileOf) -> str:
    """The whole document."""
    mark = rf"\par\textbf{{{escaped(PRACTICE_MARK)}}}" if deck.practice else ""
    lines = r" \\ ".join(escaped(line) for line in (deck.subtitle, *deck.lines[1:]))
    parts = [
        _HEAD,
        rf"\hypersetup{{pdfauthor={{{escaped(deck.author)}}},pdftitle={{{escaped(deck.title)}}}}}",
        rf"\title{{{escaped(deck.title)}}}",
        rf"\author{{{escaped(deck.author)}}}",
        rf"\date{{{lines} \\ \small {escaped(f'Export: {deck.stamp}')}{mark}}}",
        r"\begin{document}",
        r"\maketitle",
    ]
    if deck.key_numbers.items:
        parts.append(_block(deck.key_numbers, file_of))
    for page in deck.pages:
        parts.append(rf"\section*{{{escaped(page.title)}}}")
        parts += [rf"\textbf{{\small {escaped(page.kicker)}}}"] if page.kicker else []
        if page.practice:
            parts.append(rf"\textbf{{\small {escaped(PRACTICE_MARK)}}}")
        parts += _latex_blocks(report_blocks(page.visuals, page.words, page.answer), file_of)
    parts.append(r"\end{document}")
    return "\n\n".join(parts) + "\n"


def _latex_blocks(blocks: Iterable[Block], file_of: FileOf) -> Iterable[str]:
    items: list[str] = []
    charts: list[Chart] = []
    for block in blocks:
        if isinstance(block, Chart):
            charts.append(block)
            continue
        yield from _chart_rows(charts, file_of)
        charts = []
        if isinstance(block, Paragraph) and block.bullet:
            items.append(rf"\item[{escaped(block.bullet)}] {_inline(block.runs)}")
            continue
        if items:
            yield _list(items)
            items = []
        yield _block(block, file_of)
    if items:
        yield _list(items)
    yield from _chart_rows(charts, file_of)


def _chart_rows(charts: Sequence[Chart], file_of: FileOf) -> Iterable[str]:
    """Charts of a section, two beside each other, their notes once below them."""
    width = 0.72 if len(charts) == 1 else 0.49
    for pair in (charts[at : at + 2] for at in range(0, len(charts), 2)):
        drawn = r"\hfill".join(
            rf"\includegraphics[width={width}\textwidth]{{{file_of(one.spec)}}}" for one in pair
        )
        notes = " ".join(dict.fromkeys(note for one in pair for note in one.spec.notes))
        words = rf"\par{{\small {escaped(notes)}}}" if notes else ""
        yield rf"\begin{{center}}{drawn}{words}\end{{center}}"


def _list(items: list[str]) -> str:
    return "\n".join([r"\begin{itemize}", *items, r"\end{itemize}"])


def _block(block: Block, file_of: FileOf) -> str:  # noqa: PLR0911 - one case for each kind
    if isinstance(block, Paragraph):
        text = _inline(block.runs)
        text = rf"\textbf{{{text}}}\nopagebreak" if block.style in ("heading", "question") else text
        text = rf"{{\small {text}}}" if block.style == "note" else text
        return f"\\begin{{quote}}\n{text}\n\\end{{quote}}" if block.quoted else text
    if isinstance(block, Formula):
        return rf"\[ {block.tex} \]" if _plain_maths(block.tex) else rf"\texttt{{{escaped(block.tex)}}}"
    if isinstance(block, Table):
        return latex_table(block)
    if isinstance(block, Listing):
        return _listing(block)
    if isinstance(block, KeyNumbers):
        cells = " & ".join(
            rf"\shortstack{{\Large\textbf{{{escaped(value)}}}\\ \small {escaped(label)}}}"
            for value, label in block.items
        )
        return rf"\begin{{center}}\begin{{tabular}}{{{'c' * len(block.items)}}} {cells} \end{{tabular}}\end{{center}}"
    if isinstance(block, Chart):
        return "".join(_chart_rows([block], file_of))
    words = rf"\par{{\small {escaped(block.alt)}}}" if block.alt else ""
    return rf"\begin{{center}}\includegraphics[width=0.7\textwidth]{{{file_of(block)}}}{words}\end{{center}}"


def latex_table(table: Table) -> str:
    """A table between booktabs rules; numbers by siunitx."""
    columns = "".join("r" if number else "l" for number in table.numeric)
    rows = [" & ".join(rf"\textbf{{{escaped(cell)}}}" for cell in table.headings) + r" \\"]
    rows.append(r"\midrule\endhead")
    rows += [" & ".join(_cell(cell) for cell in row) + r" \\" for row in table.rows]
    body = "\n".join(rows)
    return f"{{\\small\n\\begin{{longtable}}[l]{{{columns}}}\n\\toprule\n{body}\n\\bottomrule\n\\end{{longtable}}}}"


def _cell(text: str) -> str:
    if _NUMBER.fullmatch(text):
        return rf"\num{{{text.replace(',', '').replace(' ±', ' +- ')}}}"
    if text.endswith(" %") and _NUMBER.fullmatch(text[:-2]):
        return rf"\qty{{{text[:-2].replace(',', '')}}}{{\percent}}"
    return escaped(text)


def _listing(block: Listing) -> str:
    """Lines in a fixed type, each kept as it is; a character TeX cannot set is a question mark."""
    caption = rf"{{\small\textbf{{{escaped(block.caption)}}}}}\par" if block.caption else ""
    lines = []
    for line in block.lines:
        mark = line.change if line.change in ("+", "-") else " "
        text = f"{line.part + ': ' if line.part else ''}{line.number:>4} {mark} {line.text}".replace(
            "\t", "    "
        )
        lines.append("".join("~" if mark == " " else escaped(mark) for mark in text))
    body = r"\\".join(f"\n\\mbox{{}}{line}" for line in lines)
    return f"{caption}{{\\footnotesize\\ttfamily\\raggedright{body}\\par}}"


def _inline(runs: Iterable[Run]) -> str:
    return "".join(_run(run) for run in runs)


def _run(run: Run) -> str:
    if run.tex:
        return rf"\( {run.text} \)" if _plain_maths(run.text) else rf"\texttt{{{escaped(run.text)}}}"
    text = escaped(run.text)
    for command, used in (("texttt", run.mono), ("textbf", run.bold), ("emph", run.italic)):
        text = rf"\{command}{{{text}}}" if used and text.strip() else text
    return text


_DANGER = re.compile(
    r"\\(?:input|include|write|read|open|catcode|def|let|csname|special|immediate|usepackage|loop|expandafter)"
)


def _plain_maths(tex: str) -> bool:
    """Whether a formula is one as far as we can read it, so that it cannot stop or leave the document."""
    return maths.mathml(tex) is not None and not _DANGER.search(tex) and "%" not in tex.replace(r"\%", "")


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


Drawn = Callable[[ChartSpec], bytes]
"""The SVG of a chart."""

_STYLE = f"""
:root {{ color-scheme: light; }}
body {{ font: 16px/1.5 system-ui, sans-serif; color: {INK}; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }}
h1 {{ font-size: 1.7rem; margin-bottom: .2rem; }} h2 {{ font-size: 1.15rem; margin: 2rem 0 .3rem; }}
.quiet {{ color: {QUIET}; font-size: .85rem; }}
.key {{ display: flex; flex-wrap: wrap; gap: 1rem; background: {PANEL}; padding: 1rem; margin: 1rem 0; }}
.key div {{ flex: 1; text-align: center; }} .key b {{ display: block; font-size: 2rem; color: {ACCENT}; }}
.charts {{ display: flex; flex-wrap: wrap; gap: 1rem; }} .charts img {{ width: 26rem; max-width: 100%; }}
table {{ border-collapse: collapse; font-size: .9rem; }}
td, th {{ padding: .25rem .6rem; border-bottom: 1px solid {RULE}; }}
td.number {{ text-align: right; }} th {{ text-align: left; }}
.practice {{ background: {PRACTICE_PAPER}; color: {PRACTICE}; border: 1px solid {PRACTICE}; padding: .2rem .6rem; }}
@media print {{ body {{ margin: 0; max-width: none; font-size: 11px; }} }}
"""
_ID = re.compile(rb"<\?xml.*?\?>\s*<!DOCTYPE[^>]*>\s*", re.DOTALL)


def summary_html(deck: HandInDocument, drawn: Drawn) -> str:
    """The page as HTML that needs no other file."""
    mark = f'<p class="practice">{escape(PRACTICE_MARK)}</p>' if deck.practice else ""
    lines = " · ".join(escape(line) for line in (deck.subtitle, *deck.lines))
    key = "".join(
        f"<div><b>{escape(value)}</b>{escape(label)}</div>" for value, label in deck.key_numbers.items
    )
    parts = [
        "<!doctype html>",
        f'<html lang="{deck.language}"><head><meta charset="utf-8"><title>{escape(deck.title)}</title>',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f'<meta name="author" content="{escape(deck.author)}"><style>{_STYLE}</style></head><body>',
        f'<h1>{escape(deck.title)}</h1><p class="quiet">{lines}<br>{escape(f"Export: {deck.stamp}")}</p>{mark}',
        f'<div class="key">{key}</div>' if key else "",
    ]
    for page in deck.pages:
        badge = mark if page.practice and not deck.practice else ""
        parts.append(f'<h2>{escape(page.title)}</h2><p class="quiet">{escape(page.kicker)}</p>{badge}')
        parts += _html_blocks([*page.visuals, *page.words], drawn)
    return "\n".join([*parts, "</body></html>"]) + "\n"


def _html_blocks(blocks: Iterable[Block], drawn: Drawn) -> Iterable[str]:
    charts: list[Chart] = []
    rest: list[str] = []
    for block in blocks:
        if isinstance(block, Chart):
            charts.append(block)
        elif isinstance(block, Table):
            rest.append(_table(block))
        elif isinstance(block, Paragraph) and block.text.strip():
            rest.append(_paragraph(block))
        elif isinstance(block, Formula):
            rest.append(f"<p>{maths.mathml_text(block.tex, block=True)}</p>")
        elif isinstance(block, Picture):
            kind = "png" if block.data.startswith(b"\x89PNG") else "jpeg"
            rest.append(_image(f"image/{kind}", block.data, block.alt))
    if charts:
        pictures = "".join(
            _image("image/svg+xml", _ID.sub(b"", drawn(each.spec)), chart_text(each.spec)) for each in charts
        )
        notes = dict.fromkeys(note for each in charts for note in each.spec.notes)
        caption = f'<p class="quiet">{escape(" ".join(notes))}</p>' if notes else ""
        yield f'<div class="charts">{pictures}</div>{caption}'
    yield from rest


def _image(kind: str, data: bytes, alt: str) -> str:
    return f'<img src="data:{kind};base64,{base64.b64encode(data).decode()}" alt="{escape(alt)}">'


def _table(table: Table) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in table.headings)
    rows = "".join(
        "<tr>"
        + "".join(
            f"<td{' class=number' if number else ''}>{escape(cell)}</td>"
            for cell, number in zip(row, table.numeric, strict=False)
        )
        + "</tr>"
        for row in table.rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _paragraph(block: Paragraph) -> str:
    text = ""
    for run in block.runs:
        piece = maths.mathml_text(run.text) if run.tex else escape(run.text)
        for tag, used in (("code", run.mono), ("strong", run.bold), ("em", run.italic), ("s", run.strike)):
            piece = f"<{tag}>{piece}</{tag}>" if used and not run.tex else piece
        text += piece
    look = ' class="quiet"' if block.style == "note" else ""
    mark = f"{escape(block.bullet)} " if block.bullet else ""
    indent = f' style="margin-left:{1.2 * block.level}rem"' if block.level else ""
    return f"<p{look}{indent}>{mark}{text}</p>"
