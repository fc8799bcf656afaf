r"""Turns what a student wrote into blocks: Markdown with formulas; programs, job scripts and logs as listings.

A listing is a whole file, the lines of it that matter, or a diff.
"""

from __future__ import annotations

import difflib
import functools
import io
import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from labtui.export.drawing import TEXT
from labtui.export.hand_in import Block, CodeLine, Listing, Paragraph, Picture, Run, safe
from labtui.lab.evidence import one_line
from labtui.results.numbers import Table
from labtui.slurm.job_script import JOB_HEADER_END

if TYPE_CHECKING:
    from markdown_it.tree import SyntaxTreeNode

# --------------------------------------------------------------------------- listings

_HEADER = re.compile(rf"^# ---- Who this job is.*?^echo \"{JOB_HEADER_END}\"\n+", re.MULTILINE | re.DOTALL)
_HELPERS = re.compile(
    r"^# The GPUs of the job, once.*?^fi\n+|^status=0\n|^run\(\) \{.*?^\}\n|^trap [^\n]*\n|^exit [^\n]*\n?"
    r"|^# ---- The trainings\.[^\n]*\n(?:# ----[^\n]*\n)*",
    re.MULTILINE | re.DOTALL,
)
_FIRST, _LAST = 6, 4
"""How many of a log's many similar lines are shown from the beginning and from the end."""


def language_of(name: str) -> str:
    return "python" if name.endswith(".py") else "bash" if name.endswith((".slurm", ".sh")) else ""


def whole_file(text: str, name: str) -> Listing:
    """A whole file with line numbers."""
    lines = safe(text).expandtabs(4).rstrip("\n").splitlines()
    numbered = tuple(CodeLine(line, str(number)) for number, line in enumerate(lines, 1))
    return Listing(numbered, name, language_of(name))


def own_part(text: str) -> str:
    """A job script without the header and the helpers that labtui writes into every job script."""
    return _HELPERS.sub("", _HEADER.sub("", text))


def excerpt(text: str, name: str, patterns: Sequence[str]) -> Listing:
    """The lines that any of the regular expressions matches, with their numbers; gaps in a program are marked."""
    shown = whole_file(text, name)
    found = [line for line in shown.lines if any(re.search(each, line.text) for each in patterns)]
    if len(found) > _FIRST + _LAST + 2:
        left = CodeLine(f"… {len(found) - _FIRST - _LAST} more lines")
        found = [*found[:_FIRST], left, *found[-_LAST:]]
    lines: list[CodeLine] = []
    for line in found:
        before = lines[-1].number if lines else ""
        if shown.language == "python" and before and line.number and int(line.number) > int(before) + 1:
            lines.append(CodeLine("…"))
        lines.append(line)
    return replace(shown, lines=tuple(lines))


def with_parts(text: str, name: str, patterns: Sequence[str], parts: Sequence[str]) -> Listing:
    """A program without docstring and comments; each part's name is put at the first line that its pattern matches."""
    docstring = re.match(r'\s*("""|\'\'\').*?\1', text, re.DOTALL)
    skipped = text[: docstring.end()].count("\n") + 1 if docstring else 0
    shown = whole_file(text, name)
    lines = [line for line in shown.lines[skipped:] if line.text.strip()[:1] not in ("", "#")]
    for pattern, part in zip(patterns, parts, strict=True):
        at = next((at for at, line in enumerate(lines) if re.search(pattern, line.text)), None)
        if at is not None and not lines[at].part:
            lines[at] = replace(lines[at], part=part)
    return replace(shown, lines=tuple(lines))


def difference(original: str, changed: str, name: str, caption: str) -> Listing:
    """A diff from the original with one line of context; line numbers are those of the changed file."""
    before, after = original.splitlines(), changed.splitlines()
    lines: list[CodeLine] = []
    for group in difflib.SequenceMatcher(None, before, after, autojunk=False).get_grouped_opcodes(1):
        first, end = group[0][3] + 1, group[-1][4]
        lines.append(CodeLine(f"lines {first} to {max(first, end)}", change="@"))
        for code, old_from, old_to, new_from, new_to in group:
            if code in ("replace", "delete"):
                lines += [CodeLine(safe(line), change="-") for line in before[old_from:old_to]]
            if code != "delete":
                change: Any = "" if code == "equal" else "+"
                lines += [CodeLine(safe(after[at]), str(at + 1), change) for at in range(new_from, new_to)]
    return Listing(tuple(lines), caption, language_of(name))


# --------------------------------------------------------------------------- Markdown

MAX_ANSWER = 400
"""The lines, cells and hundreds of letters of an answer that are shown: in memory they cost 25 MB."""
Pictures = Callable[[str], bytes | None]
"""Returns the bytes of a picture that an answer names, or None when there is none."""
_MISSING = "[picture: "
"""Begins the words for a picture that is missing; a line of nothing else is left out."""
_LOOKS: dict[str, dict[str, Any]] = {
    "strong": {"bold": True}, "em": {"italic": True}, "s": {"strike": True}, "link": {"tone": "accent"},
}  # fmt: skip


def shown_part(text: str) -> tuple[str, int]:
    """The part of an answer that documents show, and how many lines they leave out; of data of pictures, the kind."""
    lines = re.sub(r"(data:[\w./+-]+;)base64,[\w/+=%-]+", r"\1", text).split("\n")
    sizes = itertools.accumulate(1 + line.count("|") + len(line) // 100 for line in lines)
    count = sum(size <= MAX_ANSWER for size in sizes)
    return "\n".join(lines[:count] + ["…"] * (count < len(lines))), len(lines) - count


def blocks_of(text: str, pictures: Pictures = lambda name: None) -> tuple[Block, ...]:
    """The blocks of a Markdown text: CommonMark with tables, strikethrough and ``$`` formulas; HTML stays text."""
    from markdown_it import MarkdownIt
    from markdown_it.tree import SyntaxTreeNode
    from mdit_py_plugins.dollarmath import dollarmath_plugin

    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"]).disable("reference")
    parser.use(dollarmath_plugin, double_inline=True, allow_space=False)
    tree = SyntaxTreeNode(parser.parse(safe(shown_part(text)[0])))
    return tuple(block for node in tree.children for block in _blocks(node, 0, pictures))


def _blocks(node: SyntaxTreeNode, level: int, pictures: Pictures) -> Iterable[Block]:
    kind = node.type
    if kind == "heading":
        yield Paragraph(_runs(node, pictures), "heading", level)
    elif kind in ("paragraph", "inline"):
        yield from _paragraph(node, level, pictures)
    elif kind in ("bullet_list", "ordered_list"):
        for number, item in enumerate(node.children, int(node.attrs.get("start", 1))):
            inside = min(level + 1, 4)
            blocks = [block for child in item.children for block in _blocks(child, inside, pictures)]
            if blocks and isinstance(blocks[0], Paragraph):
                blocks[0] = replace(blocks[0], bullet=f"{number}." if kind == "ordered_list" else "•")
            yield from blocks
    elif kind in ("fence", "code_block"):
        language = (node.info or "").split()[:1]
        lines = node.content.expandtabs(4).rstrip("\n").split("\n")
        yield Listing(tuple(map(CodeLine, lines)), "", language[0] if language else "")
    elif kind == "table":
        yield _table(node, pictures)
    elif kind.startswith("math_block"):
        yield _formula(node)
    elif kind != "hr":
        for child in node.children:
            yield from _blocks(child, level + (kind == "blockquote"), pictures)


def _formula(node: SyntaxTreeNode) -> Paragraph:
    return Paragraph((Run(one_line(node.content), tex=True),), "formula")


def _table(node: SyntaxTreeNode, pictures: Pictures) -> Table | Listing:
    lines = [line.children for part in node.children for line in part.children]
    texts = [["".join(map(run_text, _runs(cell, pictures))) for cell in line] for line in lines]
    headings, *rows = map(tuple, texts)
    if len(headings) > MAX_COLUMNS:
        return Listing(tuple(CodeLine(" | ".join(row)) for row in (headings, *rows)))
    numeric = tuple("right" in str(cell.attrs.get("style", "")) for cell in lines[0])
    return Table(headings, tuple(rows), numeric)


def _paragraph(node: SyntaxTreeNode, level: int, pictures: Pictures) -> Iterable[Block]:
    """The lines of text as paragraphs; a picture or a displayed formula within them is a block of its own."""
    line: list[Run] = []
    for piece in [*_pieces(node, {}, pictures), Run("\n")]:
        if isinstance(piece, Run) and piece.text != "\n":
            line.append(piece)
            continue
        if any(run.text.strip() and not run.text.startswith(_MISSING) for run in line):
            yield Paragraph(tuple(line), "body", level)
        line = []
        if not isinstance(piece, Run):
            yield piece


def _runs(node: SyntaxTreeNode, pictures: Pictures) -> tuple[Run, ...]:
    return tuple(piece for piece in _pieces(node, {}, pictures) if isinstance(piece, Run))


def _pieces(node: SyntaxTreeNode, look: dict[str, Any], pictures: Pictures) -> Iterable[Run | Block]:
    """The parts of a line; a link's address is put after its text, since a printed page cannot be clicked."""
    for child in node.children:
        kind = child.type
        if kind in ("text", "code_inline"):
            yield Run(child.content, **look, mono=kind == "code_inline")
        elif kind in ("softbreak", "hardbreak"):
            yield Run(" " if kind == "softbreak" else "\n", **look)
        elif kind == "math_inline":
            yield Run(one_line(child.content), **look, tex=True)
        elif kind.startswith("math_inline"):  # between double dollar signs: on its own line
            yield _formula(child)
        elif kind == "image":
            name, alt = str(child.attrs.get("src", "")), one_line(child.content)
            data = pictures(name)
            missing = Run(f"{_MISSING}{alt or one_line(name)}]", **look | {"tone": "quiet"})
            yield missing if data is None else Picture(data, alt or one_line(name))
        else:
            yield from _pieces(child, look | _LOOKS.get(kind, {}), pictures)
            address = str(child.attrs.get("href", ""))
            if kind == "link" and address != "".join(each.content for each in child.children):
                yield Run(f" ({one_line(address)})", **look | {"tone": "quiet"})


# --------------------------------------------------------------------------- formulas

PNG_DPI = 300


class FormulaPicture(msgspec.Struct, frozen=True):
    """An SVG or PNG of a formula; height and depth below the baseline are in units of the text size."""

    data: bytes
    height: float
    depth: float


MAX_COLUMNS = 20
"""The columns of the widest table: no page has room for more, whose rows are then lines of text."""
MAX_FORMULA = 2000
"""The letters of the longest formula that is drawn, and the points of its width and height: more is on no page."""


@functools.lru_cache(maxsize=256)
def formula_picture(tex: str, form: str = "svg") -> FormulaPicture | None:
    """The formula as a picture; None where it is too large or Matplotlib's mathtext cannot parse all of it."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.mathtext import MathTextParser, math_to_image

    size = 20.0
    look = FontProperties(size=size, math_fontfamily="dejavusans")
    text = "$" + re.sub(r"\\(le|ge|ne)(?![A-Za-z])", r"\\\1q", tex.replace("$", "")) + "$"
    if len(text) > MAX_FORMULA:
        return None
    try:
        parsed = MathTextParser("path").parse(text, dpi=72, prop=look)
        if max(parsed.width, parsed.height) > MAX_FORMULA:
            return None
        stream = io.BytesIO()
        math_to_image(text, stream, prop=look, dpi=72 if form == "svg" else PNG_DPI, format=form, color=TEXT)
    except (ValueError, RuntimeError):
        return None
    return FormulaPicture(stream.getvalue(), parsed.height / size, parsed.depth / size)


_NAMES = {
    r"\cdot": "·", r"\times": "×", r"\le": "≤", r"\ge": "≥", r"\leq": "≤", r"\geq": "≥", r"\approx": "≈",
    **{rf"\{name}": name for name in ("exp", "ln", "log", "max", "min")},
    r"\infty": "∞", r"\pm": "±", r"\sum": "Σ", r"\alpha": "α", r"\beta": "β", r"\sigma": "σ", r"\ldots": "…",
}  # fmt: skip
_SIGNS = str.maketrans({"{": "", "}": "", "-": "\N{MINUS SIGN}", " ": "\N{NO-BREAK SPACE}"})


def formula_text(tex: str) -> str:
    r"""A formula as text for a slide's lines, which hold no pictures: ``S_4 = T_1/T_4`` for ``S_4 = \frac{T_1}{T_4}``.

    It breaks nowhere; of ``_x``, ``^2`` and ``_(max)`` the slides make small letters. What cannot be is as typed.
    """
    text = tex
    for name, mark in _NAMES.items():
        text = re.sub(re.escape(name) + r"(?![A-Za-z])", mark, text)
    for _ in range(4):
        text = re.sub(r"\\frac\{([^{}]*)\}\{([^{}]*)\}", lambda m: f"{_grouped(m[1])}/{_grouped(m[2])}", text)
        text = re.sub(r"\\(?:text|mathrm|mathbf|operatorname)\{([^{}]*)\}", r"\1", text)
        text = re.sub(r"\\sqrt\{([^{}]*)\}", r"√(\1)", text)
        text = re.sub(r"\\bar\{([^{}]*)\}", "\\1\N{COMBINING MACRON}", text)
    text = re.sub(r"([_^])\{([^{}]*)\}", r"\1(\2)", text)
    return f"${tex}$" if "\\" in text else text.translate(_SIGNS)


def run_text(run: Run) -> str:
    return formula_text(run.text) if run.tex else run.text


def _grouped(part: str) -> str:
    return f"({part})" if re.search(r"[+\- ]", part.strip()) else part
