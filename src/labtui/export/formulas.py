r"""TeX formulas as pictures, drawn by matplotlib's mathtext; what it cannot read is shown as it was typed."""

from __future__ import annotations

import functools
import io
import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FormulaPicture:
    """An SVG or PNG, its size in units of the text size, and how much of it lies below the line."""

    data: bytes
    width: float
    height: float
    depth: float


@functools.lru_cache(maxsize=256)
def formula_picture(tex: str, form: str = "svg", colour: str = "#1B2733") -> FormulaPicture | None:
    """The formula as a picture; None for one that mathtext cannot read as a whole."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.mathtext import MathTextParser, math_to_image

    size = 20.0
    look = FontProperties(size=size, math_fontfamily="dejavusans")
    known = re.sub(r"\\(le|ge|ne)(?![A-Za-z])", r"\\\1q", tex.replace("$", ""))
    text = f"${known}$"
    try:
        parsed = MathTextParser("path").parse(text, dpi=72, prop=look)
        stream = io.BytesIO()
        math_to_image(text, stream, prop=look, dpi=72 if form == "svg" else 300, format=form, color=colour)
    except (ValueError, RuntimeError):
        return None
    return FormulaPicture(stream.getvalue(), parsed.width / size, parsed.height / size, parsed.depth / size)


_NAMES = {
    r"\cdot": "·", r"\times": "×", r"\le": "≤", r"\ge": "≥", r"\leq": "≤", r"\geq": "≥", r"\approx": "≈",
    r"\infty": "∞", r"\pm": "±", r"\sum": "Σ", r"\alpha": "α", r"\beta": "β", r"\sigma": "σ", r"\ldots": "…",
}  # fmt: skip
_SUB = str.maketrans("0123456789+-=()aehijklmnoprstuvx", "₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓ")
_SUPER = str.maketrans("0123456789+-=()n", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁿ")


def formula_text(tex: str) -> str:
    r"""A formula within a line of a slide, which holds no pictures: ``S₄ = T₁/T₄`` for ``S_4 = \frac{T_1}{T_4}``."""
    text = tex
    for name, mark in _NAMES.items():
        text = re.sub(re.escape(name) + r"(?![A-Za-z])", mark, text)
    for _ in range(4):
        text = re.sub(r"\\frac\{([^{}]*)\}\{([^{}]*)\}", lambda m: f"{_grouped(m[1])}/{_grouped(m[2])}", text)
        text = re.sub(r"\\(?:text|mathrm|mathbf|operatorname)\{([^{}]*)\}", r"\1", text)
    text = re.sub(r"_(?:\{([^{}]*)\}|(\w))", lambda m: _small(m[1] or m[2], _SUB, "_"), text)
    text = re.sub(r"\^(?:\{([^{}]*)\}|(\w))", lambda m: _small(m[1] or m[2], _SUPER, "^"), text)
    return tex if "\\" in text else text.replace("{", "").replace("}", "")


def _grouped(part: str) -> str:
    return f"({part})" if re.search(r"[+\- ]", part.strip()) else part


def _small(part: str, marks: dict[int, int], sign: str) -> str:
    small = part.translate(marks)
    return small if all(mark not in part for mark in small) else f"{sign}{part}"
