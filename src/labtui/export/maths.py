r"""TeX formulas as readable text: ``\frac{T_1}{T_n}`` becomes ``T₁/Tₙ``. What is not known stays as it was typed."""

from __future__ import annotations

import re

_NAMES = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "varepsilon": "ε", "zeta": "ζ", "eta": "η",
    "theta": "θ", "kappa": "κ", "lambda": "λ", "mu": "μ", "nu": "ν", "xi": "ξ", "pi": "π", "rho": "ρ", "sigma": "σ",
    "tau": "τ", "phi": "φ", "varphi": "φ", "chi": "χ", "psi": "ψ", "omega": "ω", "Gamma": "Γ", "Delta": "Δ",
    "Theta": "Θ", "Lambda": "Λ", "Pi": "Π", "Sigma": "Σ", "Phi": "Φ", "Psi": "Ψ", "Omega": "Ω",
    "times": "×", "cdot": "·", "div": "÷", "pm": "±", "mp": "∓", "le": "≤", "leq": "≤", "ge": "≥", "geq": "≥",
    "ne": "≠", "neq": "≠", "approx": "≈", "sim": "∼", "propto": "∝", "equiv": "≡", "infty": "∞", "sum": "∑",
    "prod": "∏", "int": "∫", "partial": "∂", "nabla": "∇", "in": "∈", "notin": "∉", "forall": "∀", "exists": "∃",
    "to": "→", "rightarrow": "→", "leftarrow": "←", "Rightarrow": "⇒", "Leftrightarrow": "⇔", "ldots": "…",
    "dots": "…", "cdots": "⋯", "quad": " ", "qquad": "  ", "log": "log", "ln": "ln", "exp": "exp", "min": "min",
    "max": "max", "lim": "lim", "sin": "sin", "cos": "cos", "tan": "tan", "lfloor": "⌊", "rfloor": "⌋",
    "lceil": "⌈", "rceil": "⌉", "langle": "⟨", "rangle": "⟩", "cup": "∪", "cap": "∩", "subset": "⊂", "ll": "≪",
    "gg": "≫", "percent": "%", "degree": "°", "left": "", "right": "", "displaystyle": "", "big": "", "Big": "",
}  # fmt: skip
_UP = dict(zip("0123456789+-=()ni", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁿⁱ", strict=True))
_DOWN = dict(zip("0123456789+-=()aehijklmnoprstuvx", "₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓ", strict=True))
_FONTS = re.compile(
    r"\\(?:mathrm|mathbf|mathit|mathsf|mathcal|mathbb|text|textbf|textit|operatorname)\s*\{([^{}]*)\}"
)
_FRACTION = re.compile(r"\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}")
_ROOT = re.compile(r"\\sqrt\s*\{([^{}]*)\}")
_NAME = re.compile(r"\\([A-Za-z]+)")
_SCRIPT = re.compile(r"([\^_])(?:\{([^{}]*)\}|(\S))")
_SPACE = re.compile(r"\\[,;:! ]")
_MOST = 20


def readable(formula: str) -> str:
    """The formula as a line of text."""
    text = _SPACE.sub(" ", " ".join(formula.split()))
    text = (
        text.replace(r"\{", "❴")
        .replace(r"\}", "❵")
        .replace(r"\%", "%")
        .replace(r"\_", "＿")
        .replace(r"\\", " ")
    )
    for _ in range(_MOST):  # innermost first, so nested ones come out right
        changed = _FONTS.sub(r"\1", text)
        changed = _SCRIPT.sub(_script, changed)
        changed = _FRACTION.sub(lambda found: f"{_grouped(found[1])}/{_grouped(found[2])}", changed)
        changed = _ROOT.sub(lambda found: f"√{_grouped(found[1])}", changed)
        if changed == text:
            break
        text = changed
    text = _NAME.sub(lambda found: _NAMES.get(found[1], found[0]), text)
    text = text.replace("{", "").replace("}", "").replace("❴", "{").replace("❵", "}").replace("＿", "_")
    return " ".join(text.replace("&", " ").split())


def _grouped(part: str) -> str:
    """A part in parentheses unless it is one thing."""
    part = part.strip()
    return part if re.fullmatch(r"[\w.₀-ₜⁿ⁰-⁹\\]+", part) else f"({part})"


def _script(found: re.Match[str]) -> str:
    """A power or index in small digits where Unicode has them all, else marked plainly."""
    inner = found[2] if found[2] is not None else found[3]
    if "\\" in inner and found[3] is not None:  # x_\alpha: the name follows
        return found[0].replace("_", "＿").replace("^", "ˆ")
    table = _UP if found[1] == "^" else _DOWN
    if inner and all(mark in table for mark in inner):
        return "".join(table[mark] for mark in inner)
    sign = "ˆ" if found[1] == "^" else "＿"
    return f"{sign}{_grouped(inner)}" if inner else ""
