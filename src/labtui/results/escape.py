"""Text from outside in each format that files are written in, so that nothing in it acts: one function a format.

Typst reads every text as a JSON string, PowerPoint through its XML library: both need only characters that XML can
carry (`export.hand_in.safe`).
"""

from __future__ import annotations

from labtui.results.numbers import clean

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
_MARKDOWN = str.maketrans(
    {mark: f"\\{mark}" for mark in "\\`*_{}[]()#|~$!"} | {"<": "&lt;", ">": "&gt;", "&": "&amp;"}
)
_LATEX = str.maketrans(
    {mark: f"\\{mark}" for mark in "&%$#_{}"}
    | {mark: f"${mark}$" for mark in "<>|"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {"±": r"$\pm$", "σ": r"$\sigma$", "–": "--", '"': r"\textquotedbl{}"}
)


def spreadsheet(text: str) -> str:
    """A cell that no spreadsheet takes for a formula."""
    shown = clean(text)
    return f"'{shown}" if shown.startswith(_FORMULA_STARTS) else shown


def markdown(text: str) -> str:
    """One line without marks, tags or links; in a notebook too."""
    return clean(text).translate(_MARKDOWN)


def latex(text: str) -> str:
    """Text with LaTeX's special characters escaped."""
    return text.translate(_LATEX)
