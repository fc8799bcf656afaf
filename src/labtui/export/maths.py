r"""TeX formulas as a tree: MathML for browsers, Office's maths for PowerPoint, nodes for Typst.

latex2mathml parses; what it does not know (``\unknown``) or what is not closed gives no tree, and the writers show
the formula as it was typed.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

_NAMESPACE = "{http://www.w3.org/1998/Math/MathML}"
_KNOWN = {
    "math", "mrow", "mi", "mn", "mo", "mtext", "mspace", "mfrac", "msub", "msup", "msubsup", "msqrt", "mroot",
    "mover", "munder", "munderover", "mtable", "mtr", "mtd", "mstyle", "mpadded", "mphantom",
}  # fmt: skip
_PARTS = {
    "mfrac": 2,
    "msub": 2,
    "msup": 2,
    "msubsup": 3,
    "mroot": 2,
    "mover": 2,
    "munder": 2,
    "munderover": 3,
}


@functools.lru_cache(maxsize=512)
def mathml(tex: str) -> ET.Element | None:
    """The formula's MathML; None when it cannot be read as a whole."""
    from latex2mathml.converter import convert

    if not _balanced(tex):
        return None
    try:
        root = ET.fromstring(convert(tex))  # noqa: S314 - made by the library from a formula, no outside XML
    except Exception:  # the library raises whatever its parser meets
        return None
    for node in root.iter():
        node.tag = node.tag.removeprefix(_NAMESPACE)
        if (
            node.tag not in _KNOWN
            or "\\" in (node.text or "")
            or len(node) != _PARTS.get(node.tag, len(node))
        ):
            return None
    return root if "".join(root.itertext()).strip() else None


def _balanced(tex: str) -> bool:
    depth, escaped = 0, False
    for mark in tex:
        if not escaped:
            depth += (mark == "{") - (mark == "}")
        escaped = mark == "\\" and not escaped
        if depth < 0:
            return False
    return depth == 0 and not escaped


def mathml_text(tex: str, *, block: bool = False) -> str:
    """The formula as MathML for a web page, or as escaped TeX in code type."""
    from latex2mathml.converter import convert

    if mathml(tex) is None:
        return f"<code>{escape(tex)}</code>"
    text: str = convert(tex, display="block" if block else "inline")
    return text


# --------------------------------------------------------------------------- Typst


def typst_tree(tex: str) -> Any:
    """The formula as nested lists for the Typst templates: ``[kind, part, ...]``; None: show it as typed."""
    root = mathml(tex)
    return None if root is None else _tree(root)


def _tree(node: ET.Element) -> Any:  # noqa: PLR0911 - one case for each element
    kind, parts = node.tag, [_tree(child) for child in node]
    text = (node.text or "").replace("\u00a0", " ")
    if kind in ("mi", "mn", "mo", "mtext"):
        upright = kind == "mi" and (node.get("mathvariant") == "normal" or len(text) > 1)
        return ["word" if upright else kind, text]
    if kind == "mspace":
        return ["space", node.get("width", "")]
    if kind == "mfrac":
        return ["frac", *parts]
    if kind == "msqrt":
        return ["root", ["row", *parts]]
    if kind == "mroot":
        return ["root", *parts]
    if kind in ("msub", "msup", "msubsup", "munder", "mover", "munderover"):
        below = parts[1] if kind not in ("msup", "mover") else None
        above = parts[-1] if kind not in ("msub", "munder") else None
        return ["attach", parts[0], below, above, kind.startswith("mu") or node.get("accent") == "true"]
    if kind == "mtable":
        return ["table", *(["row", *row[1:]] for row in parts)]
    return ["row", *parts]


# --------------------------------------------------------------------------- PowerPoint


def line_spans(tex: str) -> list[tuple[str, bool, int]] | None:
    """A formula that is one line (no fraction, no root) as text, italic or not, raised or lowered in 1/1000 %.

    None when it needs more than a line, or cannot be read: then it is shown as typed.
    """
    root = mathml(tex)
    spans: list[tuple[str, bool, int]] = []
    return spans if root is not None and _spans(root, 0, spans) else None


def _spans(node: ET.Element, baseline: int, spans: list[tuple[str, bool, int]]) -> bool:
    kind, text = node.tag, (node.text or "").replace("\u00a0", " ")
    if kind in ("mi", "mn", "mo", "mtext", "mspace"):
        wide = kind == "mo" and text in "=<>≤≥≈+−×·" and baseline == 0
        italic = kind == "mi" and len(text) == 1 and node.get("mathvariant") != "normal"
        spans.append((f" {text} " if wide else " " if kind == "mspace" else text, italic, baseline))
        return True
    if kind in ("math", "mrow", "mstyle"):
        return all([_spans(child, baseline, spans) for child in node])  # noqa: C419 - every part is wanted
    if kind in ("msub", "msup", "msubsup") and baseline == 0:
        steps = {"msub": (0, -25000), "msup": (0, 30000), "msubsup": (0, -25000, 30000)}[kind]
        parts = [_spans(child, step, spans) for child, step in zip(node, steps, strict=True)]
        return all(parts)
    return False


OMML = 'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'


def omml(tex: str) -> str | None:
    """The formula as Office's maths (``m:oMath`` with its namespace); None: show it as typed."""
    root = mathml(tex)
    return None if root is None else f"<m:oMath {OMML}>{_office(list(root))}</m:oMath>"


def _office(nodes: Sequence[ET.Element]) -> str:
    return "".join(_office_node(node) for node in nodes)


def _arguments(node: ET.Element, *names: str) -> str:
    children = list(node)
    return "".join(
        f"<m:{name}>{_office([child])}</m:{name}>" for name, child in zip(names, children, strict=False)
    )


def _office_node(node: ET.Element) -> str:  # noqa: PLR0911 - one case for each element
    kind, text = node.tag, (node.text or "").replace("\u00a0", " ")
    if kind in ("mi", "mn", "mo", "mtext"):
        upright = kind == "mtext" or node.get("mathvariant") == "normal" or (kind == "mi" and len(text) > 1)
        look = '<m:rPr><m:sty m:val="p"/></m:rPr>' if upright else ""
        return f'<m:r>{look}<m:t xml:space="preserve">{escape(text)}</m:t></m:r>' if text else ""
    if kind == "mspace":
        return '<m:r><m:t xml:space="preserve"> </m:t></m:r>'
    if kind == "mfrac":
        return f"<m:f>{_arguments(node, 'num', 'den')}</m:f>"
    if kind == "msqrt":
        return f'<m:rad><m:radPr><m:degHide m:val="1"/></m:radPr><m:deg/><m:e>{_office(list(node))}</m:e></m:rad>'
    if kind == "mroot":
        base, degree = list(node)
        return f"<m:rad><m:deg>{_office([degree])}</m:deg><m:e>{_office([base])}</m:e></m:rad>"
    if kind in ("msub", "munder"):
        return f"<m:sSub>{_arguments(node, 'e', 'sub')}</m:sSub>"
    if kind == "mover" and node.get("accent") == "true":
        mark = escape("".join(node[1].itertext()))
        return f'<m:acc><m:accPr><m:chr m:val="{mark}"/></m:accPr><m:e>{_office([node[0]])}</m:e></m:acc>'
    if kind in ("msup", "mover"):
        return f"<m:sSup>{_arguments(node, 'e', 'sup')}</m:sSup>"
    if kind in ("msubsup", "munderover"):
        return f"<m:sSubSup>{_arguments(node, 'e', 'sub', 'sup')}</m:sSubSup>"
    if kind == "mtable":
        rows = "".join(
            "<m:mr>" + "".join(f"<m:e>{_office(list(cell))}</m:e>" for cell in row) + "</m:mr>"
            for row in node
        )
        return f"<m:m>{rows}</m:m>"
    return _office(list(node))
