"""Make src/labtui/export/template.pptx, with labtui's theme and three layouts, from python-pptx's default template.

Run it when the design changes; the file is kept in the repository.
"""

from __future__ import annotations

import re
from pathlib import Path

from pptx import Presentation
from pptx.oxml import parse_xml
from pptx.oxml.ns import nsdecls
from pptx.util import Inches

TARGET = Path(__file__).parent.parent / "src" / "labtui" / "export" / "template.pptx"
COLOURS = {
    "dk1": "1B2733", "lt1": "FFFFFF", "dk2": "5B6773", "lt2": "E1E6EA", "accent1": "12406B", "accent2": "C2500A",
    "accent3": "26A282", "accent4": "8E5AA8", "accent5": "E0A458", "accent6": "8A5A00", "hlink": "12406B",
    "folHlink": "8E5AA8",
}  # fmt: skip
TITLE = (0, "title", (0.6, 0.62, 12.133, 0.95), "t", ((28, "tx1", True),))
KICKER = (10, "body", (0.6, 0.36, 7.6, 0.3), "t", ((14, "accent1", True),))
MARK = (11, "body", (8.4, 0.36, 4.33, 0.3), "r", ((14, "accent6", False),))
LARGE, SMALL = ((54, "accent1", True), (16, "tx1", False)), ((34, "accent1", True), (16, "tx1", False))
NAMES = {"Title Slide": "cover", "Title Only": "page", "Comparison": "facts"}
LAYOUTS = {
    "Title Slide": (
        (0, "ctrTitle", (0.6, 1.7, 11.4, 2.0), "b", ((44, "tx1", True),)),
        (1, "subTitle", (0.6, 3.85, 12.1, 0.8), "t", ((20, "tx2", False),)),
        MARK,
        *((20 + at, "body", (0.6 + 4.1 * at, 5.4, 3.9, 1.4), "t", LARGE) for at in range(3)),
    ),
    "Title Only": (TITLE, KICKER, MARK),
    "Comparison": (
        TITLE, KICKER, MARK,
        *((20 + at, "body", (0.6 + 3.05 * at, 1.65, 2.95, 1.3), "t", SMALL) for at in range(4)),
    ),
}  # fmt: skip
"""The slots of each layout: number, kind, box in inches, alignment, and size, colour and bold for each level."""


def main() -> None:
    presentation = Presentation()
    presentation.slide_width, presentation.slide_height = Inches(13.333), Inches(7.5)
    master = presentation.slide_master
    for relation in master.part.rels.values():
        if relation.reltype.endswith("/theme"):
            text = relation.target_part.blob.decode()
            for name, colour in COLOURS.items():
                text = re.sub(
                    rf"<a:{name}>.*?</a:{name}>",
                    f'<a:{name}><a:srgbClr val="{colour}"/></a:{name}>',
                    text,
                    flags=re.S,
                )
            relation.target_part._blob = text.encode()
    for layout in list(master.slide_layouts):
        if layout.name not in LAYOUTS:
            master.slide_layouts.remove(layout)
    for owner in (master, *master.slide_layouts):
        for shape in list(owner.placeholders):
            if owner is not master or shape.placeholder_format.idx > 1:
                shape._element.getparent().remove(shape._element)
    title = master.placeholders[0]
    title._element.addprevious(_slot(*TITLE))
    title._element.getparent().remove(title._element)
    for layout in master.slide_layouts:
        for slot in LAYOUTS[layout.name]:
            layout.shapes._spTree.append(_slot(*slot))
        if layout.name != "Title Slide":
            layout.shapes._spTree.append(_foot("foot", 0.6, 10.5, "l", "<a:r><a:t>foot</a:t></a:r>"))
            layout.shapes._spTree.append(_foot("number", 11.7, 1.033, "r", _FIELD))
        layout._element.cSld.set("name", NAMES[layout.name])
    presentation.save(str(TARGET))


_FIELD = '<a:fld id="{B6F15528-21DE-4FAA-801E-634DDDAF4B2B}" type="slidenum"><a:t>1</a:t></a:fld>'


def _slot(number, kind, box, side, levels):  # type: ignore[no-untyped-def]
    """A placeholder for text; `side` aligns it to the top (t), bottom (b) or right (r)."""
    styles = "".join(
        f'<a:lvl{at}pPr algn="{"r" if side == "r" else "l"}" marL="0" indent="0">'
        f'<a:spcBef><a:spcPts val="0"/></a:spcBef><a:buNone/><a:defRPr sz="{100 * size}" b="{int(bold)}">'
        f'<a:solidFill><a:schemeClr val="{colour}"/></a:solidFill></a:defRPr></a:lvl{at}pPr>'
        for at, (size, colour, bold) in enumerate(levels, 1)
    )
    index = f' idx="{number}"' if number else ""
    return _shape(f"slot {number}", f'<p:ph type="{kind}"{index}/>', box, styles, side=side)


def _foot(name, x, width, side, words):  # type: ignore[no-untyped-def]
    """A text at the foot of every slide, part of the layout, so that slides need no copy."""
    style = (
        f'<a:lvl1pPr algn="{side}"><a:defRPr sz="1400"><a:solidFill><a:schemeClr val="tx2"/></a:solidFill></a:defRPr>'
        "</a:lvl1pPr>"
    )
    return _shape(name, "", (x, 6.95, width, 0.3), style, words=words)


def _shape(name, place, box, styles, *, side="t", words="<a:r><a:t>text</a:t></a:r>"):  # type: ignore[no-untyped-def]
    x, y, width, height = (int(Inches(each)) for each in box)
    number = 100 + sum(map(ord, name)) + x % 97
    return parse_xml(
        f'<p:sp {nsdecls("p", "a")}><p:nvSpPr><p:cNvPr id="{number}" name="{name}"/><p:cNvSpPr/>'
        f"<p:nvPr>{place}</p:nvPr></p:nvSpPr><p:spPr>"
        f'<a:xfrm><a:off x="{x}" y="{y}"/><a:ext cx="{width}" cy="{height}"/></a:xfrm>'
        '<a:prstGeom prst="rect"><a:avLst/></a:prstGeom></p:spPr><p:txBody>'
        f'<a:bodyPr lIns="0" tIns="0" rIns="0" bIns="0" anchor="{"b" if side == "b" else "t"}"><a:normAutofit/>'
        f"</a:bodyPr><a:lstStyle>{styles}</a:lstStyle><a:p>{words}</a:p></p:txBody></p:sp>"
    )


if __name__ == "__main__":
    main()
