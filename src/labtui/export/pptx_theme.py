"""The look of the PowerPoint deck: our own theme, or a teacher's template, its layouts found by their placeholders.

And DrawingML for the parts of its charts, as python-pptx's elements take it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from pptx import Presentation
from pptx.exc import PackageNotFoundError
from pptx.oxml import parse_xml
from pptx.oxml.ns import qn

from labtui.domain.errors import ExportError
from labtui.export import style
from labtui.export.slide_layout import BODY, HEIGHT, WIDTH, Box
from labtui.export.typst_writer import SLIDE_SIZES

EMU = 12700
TYPEFACE = "Verdana"
"""Nearly the widths of DejaVu Sans, and there on Windows and macOS."""
MONO = "Consolas"
A = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
CHART_NS = f'xmlns:c="http://schemas.openxmlformats.org/drawingml/2006/chart" {A}'
CHART_TEXT = int(SLIDE_SIZES["small"])
"""Points."""
LABEL_PARTS = ("showLegendKey", "showVal", "showCatName", "showSerName", "showPercent", "showBubbleSize")
_FOOTERS = ("DATE", "FOOTER", "SLIDE_NUMBER")
_ACCENTS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")


def scheme(name: str, *, alpha: int = 100, darker: int = 100) -> str:
    """A colour of the theme as XML, so that a dark or another template's colours are taken."""
    inner = (f'<a:lumMod val="{darker * 1000}"/>' if darker != 100 else "") + (
        f'<a:alpha val="{alpha * 1000}"/>' if alpha != 100 else ""
    )
    return f'<a:schemeClr val="{name}">{inner}</a:schemeClr>'


@dataclass(frozen=True, slots=True)
class Look:
    """A presentation to fill: its layouts, and where our zones go on its slides."""

    presentation: Any
    front: Any
    content: Any
    width: float
    body: Box
    kicker: Box

    def placed(self, box: Box) -> Box:
        """A zone of our slides on a slide of this presentation."""
        across, down = self.body.w / BODY.w, self.body.h / BODY.h
        return Box(
            self.body.x + (box.x - BODY.x) * across,
            self.body.y + (box.y - BODY.y) * down,
            box.w * across,
            box.h * down,
        )


# --------------------------------------------------------------------------- our own


def own_look() -> Look:
    """A 16:9 presentation with our theme and two layouts."""
    presentation: Any = Presentation()
    presentation.slide_width, presentation.slide_height = int(WIDTH * EMU), int(HEIGHT * EMU)
    _set_theme(presentation)
    layouts = presentation.slide_layouts
    front, content = layouts[0], layouts[1]
    for layout in list(layouts):
        if layout not in (front, content):
            layouts.remove(layout)
    master = presentation.slide_master
    for holder in (*master.placeholders, *front.placeholders, *content.placeholders):
        _settle(holder, front=holder in list(front.placeholders))
    _bar(front, Box(0, 0, 14, HEIGHT), scheme("accent1"))
    _bar(content, Box(40, 504, 880, 0.8), scheme("tx1", alpha=20))
    return Look(presentation, front, content, WIDTH, BODY, Box(40, 18, 560, 18))


def _settle(holder: Any, *, front: bool) -> None:
    """Give a placeholder its place and size of text in our layouts."""
    kind = holder.placeholder_format.type.name
    boxes = {
        "TITLE": Box(40, 42, 880, 66),
        "CENTER_TITLE": Box(64, 100, 832, 140),
        "SUBTITLE": Box(64, 250, 832, 116),
        "DATE": Box(40, 511, 1, 18),
        "FOOTER": Box(40, 511, 780, 20),
        "SLIDE_NUMBER": Box(840, 511, 80, 20),
    }
    put(holder, boxes.get(kind, BODY))
    frame = holder.text_frame
    frame.margin_left = frame.margin_right = frame.margin_top = frame.margin_bottom = 0
    body = frame._txBody.find(qn("a:bodyPr"))
    for old in list(body):
        body.remove(old)
    body.set("anchor", "b" if kind == "CENTER_TITLE" else "t")
    if kind in ("TITLE", "CENTER_TITLE"):
        _text_look(holder, SLIDE_SIZES["key" if front else "title"], bold=True, align="l")
    elif kind == "SUBTITLE":
        _text_look(holder, SLIDE_SIZES["body"], align="l")
    elif kind in _FOOTERS:
        _text_look(holder, SLIDE_SIZES["small"], align="r" if kind == "SLIDE_NUMBER" else "l", quiet=True)
    else:
        _text_look(holder, SLIDE_SIZES["body"], align="l")


def _text_look(holder: Any, size: float, *, align: str, bold: bool = False, quiet: bool = False) -> None:
    body = holder.text_frame._txBody
    colour = scheme("tx1", alpha=65) if quiet else scheme("tx1")
    levels = "".join(
        f'<a:lvl{level}pPr marL="0" indent="0" algn="{align}"><a:spcBef><a:spcPts val="0"/></a:spcBef><a:buNone/>'
        f'<a:defRPr sz="{round(size * 100)}" b="{int(bold)}"><a:solidFill>{colour}</a:solidFill></a:defRPr>'
        f"</a:lvl{level}pPr>"
        for level in range(1, 6)
    )
    new = parse_xml(f"<a:lstStyle {A}>{levels}</a:lstStyle>")
    old = body.find(qn("a:lstStyle"))
    if old is not None:
        body.replace(old, new)
    else:
        body.insert(1, new)


def _bar(layout: Any, box: Box, colour: str) -> None:
    """A plain coloured rectangle in a layout, behind everything."""
    p = f'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main" {A}'
    shape = parse_xml(
        f'<p:sp {p}><p:nvSpPr><p:cNvPr id="{900 + len(layout.shapes)}" name="bar"/><p:cNvSpPr/><p:nvPr userDrawn="1"/>'
        f'</p:nvSpPr><p:spPr><a:xfrm><a:off x="{round(box.x * EMU)}" y="{round(box.y * EMU)}"/>'
        f'<a:ext cx="{round(box.w * EMU)}" cy="{round(box.h * EMU)}"/></a:xfrm><a:prstGeom prst="rect"><a:avLst/>'
        f"</a:prstGeom><a:solidFill>{colour}</a:solidFill><a:ln><a:noFill/></a:ln></p:spPr></p:sp>"
    )
    layout.shapes._spTree.insert(2, shape)


def _set_theme(presentation: Any) -> None:
    """Our typeface and colours in the theme, so that what a student adds looks alike."""
    for relation in presentation.slide_master.part.rels.values():
        if not relation.reltype.endswith("/theme"):
            continue
        text = relation.target_part.blob.decode("utf-8")
        text = re.sub(r'(<a:(?:major|minor)Font>\s*<a:latin typeface=")[^"]*', rf"\g<1>{TYPEFACE}", text)
        colours = {
            "dk1": style.INK,
            "dk2": style.QUIET,
            "lt2": style.PANEL,
            "hlink": style.ACCENT,
            "folHlink": style.QUIET,
        }
        colours |= {f"accent{at}": shade for at, shade in enumerate(_ACCENTS, 1)}
        for name, shade in colours.items():
            new = rf'\g<1><a:srgbClr val="{shade.lstrip("#").upper()}"/>\g<2>'
            text = re.sub(rf"(<a:{name}>).*?(</a:{name}>)", new, text, flags=re.DOTALL)
        relation.target_part._blob = text.encode("utf-8")


# --------------------------------------------------------------------------- a teacher's template


def template_look(path: Path) -> Look:
    """A presentation made from a template: its theme and layouts stay, its sample slides go.

    Raises:
        ExportError: when the file is no usable presentation.
    """
    presentation = _opened(path)
    _drop_slides(presentation)
    layouts = list(presentation.slide_layouts)
    titled = [layout for layout in layouts if _holder(layout, "TITLE") is not None]
    if not titled:
        raise ExportError(
            f"The template {path.name} has no layout with a title.",
            'Add a layout with a title placeholder ("Title and Content" is best), or leave out --template.',
        )
    content = min(titled, key=lambda layout: (_distance(layout), layouts.index(layout)))
    fronts = [layout for layout in layouts if _holder(layout, "CENTER_TITLE") is not None]
    fronts += [layout for layout in titled if _holder(layout, "SUBTITLE") is not None]
    width, body, kicker = _geometry(presentation, content, path)
    return Look(presentation, (fronts or [content])[0], content, width, body, kicker)


def _opened(path: Path) -> Any:
    from zipfile import BadZipFile

    hint = "Save it in PowerPoint as .pptx (not .potx, .ppt or .odp), or leave out --template."
    try:
        return Presentation(str(path))
    except PackageNotFoundError as error:
        if not path.exists():
            raise ExportError(f"There is no template {path}.", "Check the path.") from error
        raise ExportError(f"The template {path.name} is not a PowerPoint file.", hint) from error
    except (BadZipFile, KeyError, ValueError, AttributeError, SyntaxError, OSError) as error:
        raise ExportError(f"The template {path.name} cannot be read as a PowerPoint file.", hint) from error


def _drop_slides(presentation: Any) -> None:
    slides = presentation.slides._sldIdLst
    for slide in list(slides):
        presentation.part.drop_rel(slide.rId)
        slides.remove(slide)


def _holder(layout: Any, kind: str) -> Any:
    return next((each for each in layout.placeholders if each.placeholder_format.type.name == kind), None)


def _distance(layout: Any) -> int:
    """How far a layout is from a title with one body: no body is worse than a second one."""
    names = [each.placeholder_format.type.name for each in layout.placeholders]
    bodies = sum(name in ("BODY", "OBJECT") for name in names)
    others = sum(name not in ("TITLE", "BODY", "OBJECT", *_FOOTERS) for name in names)
    return (10 if bodies == 0 else 4 * (bodies - 1)) + 5 * others


def _geometry(presentation: Any, layout: Any, path: Path) -> tuple[float, Box, Box]:
    """The width of the template's slides, the room below its title, and the place of the small line."""
    width, height = presentation.slide_width / EMU, presentation.slide_height / EMU
    margin = width * 0.05
    title = _box(_holder(layout, "TITLE")) or Box(margin, height * 0.06, width - 2 * margin, height * 0.12)
    if title.bottom > height * 0.45:  # a title at the side or at the foot leaves no room below it
        title = Box(margin, height * 0.05, width - 2 * margin, height * 0.11)
    feet = [
        box.y for name in _FOOTERS if (box := _box(_holder(layout, name))) is not None and box.y > height / 2
    ]
    foot = min(feet, default=height * 0.94)
    top = title.bottom + height * 0.02
    body = Box(margin, top, width - 2 * margin, foot - height * 0.015 - top)
    if body.h < 150 or body.w < 300:
        raise ExportError(
            f"The template {path.name} leaves too little room below its title.",
            "Make the title of its simplest layout lower and place it at the top, or leave out --template.",
        )
    return width, body, Box(title.x, max(2.0, title.y - 17), title.w * 0.6, 16)


def _box(holder: Any) -> Box | None:
    if holder is None or None in (holder.left, holder.top, holder.width, holder.height):
        return None
    return Box(holder.left / EMU, holder.top / EMU, holder.width / EMU, holder.height / EMU)


# --------------------------------------------------------------------------- helpers


def put(shape: Any, box: Box) -> None:
    shape.left, shape.top = round(box.x * EMU), round(box.y * EMU)
    shape.width, shape.height = max(1, round(box.w * EMU)), max(1, round(box.h * EMU))


# --------------------------------------------------------------------------- parts of a chart


def set_look(series: Any, inner: str) -> None:
    """The fill and edge of a series."""
    for name in ("c:spPr", "c:marker"):
        for old in series.findall(qn(name)):
            series.remove(old)
    series.find(qn("c:tx")).addnext(parse_xml(f"<c:spPr {CHART_NS}>{inner}</c:spPr>"))


def marker_xml(symbol: str, size: int, face: str, edge: str) -> str:
    looks = (
        f"<c:spPr><a:solidFill>{face}</a:solidFill><a:ln><a:solidFill>{edge}</a:solidFill></a:ln></c:spPr>"
    )
    more = "" if symbol == "none" else f'<c:size val="{size}"/>{looks}'
    return f'<c:marker><c:symbol val="{symbol}"/>{more}</c:marker>'


def marker_element(symbol: str, size: int, face: str, edge: str) -> Any:
    return parse_xml(marker_xml(symbol, size, face, edge).replace("<c:marker>", f"<c:marker {CHART_NS}>", 1))


def set_point(series: Any, at: int, inner: str) -> None:
    node = parse_xml(f'<c:dPt {CHART_NS}><c:idx val="{at}"/>{inner}</c:dPt>')
    insert_before(series, node, ("c:dLbls", "c:trendline", "c:errBars", "c:cat", "c:val", "c:xVal"))


def plain_line(line: Any, colour: str, *, dash: str, width: int) -> None:
    stroke = f"<a:solidFill>{colour}</a:solidFill>" if width else "<a:noFill/>"
    dashed = f'<a:prstDash val="{dash}"/>' if dash else ""
    set_look(line._element, f'<a:ln w="{width}">{stroke}{dashed}</a:ln>')
    line._element.find(qn("c:spPr")).addnext(marker_element("none", 5, colour, colour))


def label_xml(
    at: int, form: str, position: str, colour: str, shown: set[str], *, moved: float = 0.0, words: str = ""
) -> str:
    """A label of a point: what is `shown` of it, or `words`; `moved` up by a share of the chart's height."""
    flags = "".join(f'<c:{name} val="{int(name in shown)}"/>' for name in LABEL_PARTS)
    layout = f'<c:layout><c:manualLayout><c:x val="0"/><c:y val="{-moved:.5f}"/></c:manualLayout></c:layout>'
    look = f'sz="{CHART_TEXT * 100}" b="0"><a:solidFill>{colour}</a:solidFill>'
    text = (
        f'<c:tx><c:rich><a:bodyPr wrap="none"/><a:p><a:r><a:rPr lang="en-US" {look}</a:rPr><a:t>{escape(words)}</a:t>'
        "</a:r></a:p></c:rich></c:tx>"
    )
    return (
        f'<c:dLbl><c:idx val="{at}"/>{layout if abs(moved) > 0.002 else ""}{text if words else ""}'
        f'<c:numFmt formatCode="{form}" sourceLinked="0"/><c:spPr><a:noFill/></c:spPr>'
        f'<c:txPr><a:bodyPr wrap="none"/><a:lstStyle/><a:p><a:pPr><a:defRPr {look}'
        f'</a:defRPr></a:pPr><a:endParaRPr lang="en-US"/></a:p></c:txPr>'
        f'<c:dLblPos val="{position}"/>{flags}<c:separator>  </c:separator></c:dLbl>'
    )


def literal_numbers(values: Sequence[float]) -> str:
    points = "".join(f'<c:pt idx="{at}"><c:v>{value!r}</c:v></c:pt>' for at, value in enumerate(values))
    return (
        f'<c:numLit><c:formatCode>General</c:formatCode><c:ptCount val="{len(values)}"/>{points}</c:numLit>'
    )


def insert_before(parent: Any, child: Any, before: Sequence[str]) -> None:
    """Put a child where the schema wants it: before the first of these elements."""
    tags = {qn(name) for name in before}
    for place, found in enumerate(parent):
        if found.tag in tags:
            parent.insert(place, child)
            return
    parent.append(child)


def set_line(node: Any, colour: str) -> None:
    for old in list(node):
        node.remove(old)
    node.append(
        parse_xml(f'<c:spPr {CHART_NS}><a:ln w="9525"><a:solidFill>{colour}</a:solidFill></a:ln></c:spPr>')
    )
