"""The look of the PowerPoint deck: our own theme, or a teacher's template, its layouts found by their placeholders."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labtui.errors import ExportError
from labtui.export import style
from labtui.export.layout import Box, Geometry

EMU = 12700
TYPEFACE = "Verdana"
"""Nearly the widths of DejaVu Sans, and there on Windows and macOS."""
MONO = "Consolas"
_FOOTERS = ("DATE", "FOOTER", "SLIDE_NUMBER")


@dataclass(frozen=True, slots=True)
class Look:
    """A presentation to fill: its layouts, where things go, and whether the theme is ours."""

    presentation: Any
    front: Any
    content: Any
    geometry: Geometry
    ours: bool


# --------------------------------------------------------------------------- our own


def own_look() -> Look:
    """A 16:9 presentation with our theme and two layouts."""
    from pptx import Presentation

    geometry = Geometry()
    presentation = Presentation()
    presentation.slide_width = int(geometry.width * EMU)
    presentation.slide_height = int(geometry.height * EMU)
    _set_theme(presentation)
    layouts = presentation.slide_layouts
    front, content = layouts[0], layouts[5]
    for layout in list(layouts):
        if layout not in (front, content):
            layouts.remove(layout)
    master = presentation.slide_master
    for holder in (*master.placeholders, *front.placeholders, *content.placeholders):
        _settle(holder, geometry, front=holder in list(front.placeholders))
    _bar(front, Box(0, 0, geometry.width * 0.018, geometry.height))
    _bar(content, Box(geometry.footer.x, geometry.footer.y - 7, geometry.footer.w, 0.8), style.RULE)
    return Look(presentation, front, content, geometry, True)


def _settle(holder: Any, geometry: Geometry, *, front: bool) -> None:
    """Give a placeholder its place and size of text in our layouts."""
    kind = holder.placeholder_format.type.name
    footer, w, h = geometry.footer, geometry.width, geometry.height
    boxes = {
        "TITLE": geometry.title,
        "CENTER_TITLE": Box(w * 0.09, h * 0.3, w * 0.8, h * 0.27),
        "SUBTITLE": Box(w * 0.09, h * 0.58, w * 0.8, h * 0.3),
        "BODY": geometry.body,
        "DATE": Box(footer.x, footer.y, 1, footer.h),
        "FOOTER": Box(footer.x, footer.y, footer.w - 60, footer.h),
        "SLIDE_NUMBER": Box(footer.right - 60, footer.y, 60, footer.h),
    }
    put(holder, boxes.get(kind, geometry.body))
    frame = holder.text_frame
    frame.margin_left = frame.margin_right = frame.margin_top = frame.margin_bottom = 0
    if kind in ("TITLE", "CENTER_TITLE"):
        _text_look(holder, 38 if front else 26, style.INK, bold=True, align="l")
    elif kind == "SUBTITLE":
        _text_look(holder, 17, style.QUIET, bold=False, align="l")
    elif kind in _FOOTERS:
        _text_look(holder, 9.5, style.QUIET, bold=False, align="r" if kind == "SLIDE_NUMBER" else "l")
    anchor = "b" if kind == "CENTER_TITLE" else "t"
    holder.text_frame._txBody.find(_tag("a:bodyPr")).set("anchor", anchor)


def _text_look(holder: Any, size: float, colour: str, *, bold: bool, align: str) -> None:
    from pptx.oxml import parse_xml

    body = holder.text_frame._txBody
    old = body.find(_tag("a:lstStyle"))
    new = parse_xml(
        f'<a:lstStyle {_A}><a:lvl1pPr marL="0" indent="0" algn="{align}"><a:buNone/>'
        f'<a:defRPr sz="{round(size * 100)}" b="{int(bold)}"><a:solidFill><a:srgbClr val="{_hex(colour)}"/>'
        "</a:solidFill></a:defRPr></a:lvl1pPr></a:lstStyle>"
    )
    if old is not None:
        body.replace(old, new)
    else:
        body.insert(1, new)


_A = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
_P = f'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main" {_A}'


def _bar(layout: Any, box: Box, colour: str = style.ACCENT) -> None:
    """A plain coloured rectangle in a layout, behind everything."""
    from pptx.oxml import parse_xml

    shape = parse_xml(
        f'<p:sp {_P}><p:nvSpPr><p:cNvPr id="{900 + len(layout.shapes)}" name="bar"/><p:cNvSpPr/><p:nvPr userDrawn="1"/>'
        f'</p:nvSpPr><p:spPr><a:xfrm><a:off x="{round(box.x * EMU)}" y="{round(box.y * EMU)}"/>'
        f'<a:ext cx="{round(box.w * EMU)}" cy="{round(box.h * EMU)}"/></a:xfrm><a:prstGeom prst="rect"><a:avLst/>'
        f'</a:prstGeom><a:solidFill><a:srgbClr val="{_hex(colour)}"/></a:solidFill><a:ln><a:noFill/></a:ln></p:spPr>'
        "</p:sp>"
    )
    layout.shapes._spTree.insert(2, shape)


def _set_theme(presentation: Any) -> None:
    """Our typeface and colours in the theme, so that what a student adds looks alike."""
    for relation in presentation.slide_master.part.rels.values():
        if not relation.reltype.endswith("/theme"):
            continue
        text = relation.target_part.blob.decode("utf-8")
        text = re.sub(r'(<a:(?:major|minor)Font>\s*<a:latin typeface=")[^"]*', rf"\g<1>{TYPEFACE}", text)
        colours = {"dk2": style.INK, "lt2": style.PANEL, "hlink": style.ACCENT, "folHlink": style.QUIET}
        colours |= {f"accent{at}": shade for at, shade in enumerate(style.SERIES[:6], 1)}
        for name, shade in colours.items():
            new = rf'\g<1><a:srgbClr val="{_hex(shade)}"/>\g<2>'
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
            'Add a layout with a title placeholder ("Title Only" is best), or leave out --template.',
        )
    content = min(titled, key=lambda layout: (_others(layout), layouts.index(layout)))
    fronts = [layout for layout in layouts if _holder(layout, "CENTER_TITLE") is not None]
    fronts += [layout for layout in titled if _holder(layout, "SUBTITLE") is not None]
    return Look(
        presentation, (fronts or [content])[0], content, _geometry(presentation, content, path), False
    )


def _opened(path: Path) -> Any:
    from zipfile import BadZipFile

    from pptx import Presentation
    from pptx.exc import PackageNotFoundError

    hint = "Save it in PowerPoint as .pptx (not .potx, .ppt or .odp), or leave out --template."
    try:
        return Presentation(str(path))
    except PackageNotFoundError as error:
        if not path.exists():
            raise ExportError(f"There is no template {path}.", "Is the path right?") from error
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


def _others(layout: Any) -> int:
    """Placeholders besides title and footers: the fewer, the more room is ours."""
    names = [each.placeholder_format.type.name for each in layout.placeholders]
    return sum(name not in ("TITLE", *_FOOTERS) for name in names)


def _geometry(presentation: Any, layout: Any, path: Path) -> Geometry:
    """Where our things go on the template's slides: below its title, above its footers."""
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
    return Geometry(
        width=width,
        height=height,
        title=title,
        kicker=Box(title.x, max(2.0, title.y - 15), title.w * 0.6, 14),
        body=body,
        footer=Box(margin, min(foot, height - 18), width - 2 * margin, 14),
        text_width=body.w,
    )


def _box(holder: Any) -> Box | None:
    if holder is None or None in (holder.left, holder.top, holder.width, holder.height):
        return None
    return Box(holder.left / EMU, holder.top / EMU, holder.width / EMU, holder.height / EMU)


# --------------------------------------------------------------------------- helpers


def put(shape: Any, box: Box) -> None:
    """Place a shape."""
    shape.left, shape.top = round(box.x * EMU), round(box.y * EMU)
    shape.width, shape.height = max(1, round(box.w * EMU)), max(1, round(box.h * EMU))


def _hex(colour: str) -> str:
    return colour.lstrip("#").upper()


def _tag(name: str) -> str:
    from pptx.oxml.ns import qn

    return str(qn(name))
