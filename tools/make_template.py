"""Make src/labtui/export/template.pptx: our theme, a cover and a page layout, from python-pptx's own template.

Run it when the look changes; the file is kept in the repository.
"""

from __future__ import annotations

import re
from pathlib import Path

from pptx import Presentation
from pptx.util import Inches, Pt

TARGET = Path(__file__).parent.parent / "src" / "labtui" / "export" / "template.pptx"
COLOURS = {
    "dk1": "1B2733", "lt1": "FFFFFF", "dk2": "5B6773", "lt2": "E1E6EA", "accent1": "12406B", "accent2": "C2500A",
    "accent3": "26A282", "accent4": "8E5AA8", "accent5": "E0A458", "accent6": "8A5A00", "hlink": "12406B",
    "folHlink": "8E5AA8",
}  # fmt: skip
KEPT = ("Title Slide", "Title Only")


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
        if layout.name not in KEPT:
            master.slide_layouts.remove(layout)
    for owner in (master, *master.slide_layouts):
        for shape in list(owner.placeholders):
            if shape.placeholder_format.type.name in ("DATE", "FOOTER", "SLIDE_NUMBER"):
                shape._element.getparent().remove(shape._element)
    cover, page = master.slide_layouts
    _place(cover.placeholders[0], (0.6, 1.7, 11.4, 2.0), 44, bold=True, anchor="b")
    _place(cover.placeholders[1], (0.6, 3.85, 12.1, 0.8), 20, bold=False, anchor="t")
    _place(page.placeholders[0], (0.6, 0.62, 12.133, 0.95), 28, bold=True, anchor="t")
    _place(master.placeholders[0], (0.6, 0.62, 12.133, 0.95), 28, bold=True, anchor="t")
    presentation.save(str(TARGET))


def _place(shape, box, size, *, bold, anchor):  # type: ignore[no-untyped-def]
    shape.left, shape.top, shape.width, shape.height = (Inches(each) for each in box)
    body = shape.text_frame._txBody
    properties = body.bodyPr
    for name in ("lIns", "rIns", "tIns", "bIns"):
        properties.set(name, "0")
    properties.set("anchor", anchor)
    for child in list(properties):
        properties.remove(child)
    style = body.find("{http://schemas.openxmlformats.org/drawingml/2006/main}lstStyle")
    for child in list(style):
        style.remove(child)
    from lxml import etree

    space = "http://schemas.openxmlformats.org/drawingml/2006/main"
    level = etree.SubElement(style, f"{{{space}}}lvl1pPr", algn="l", marL="0", indent="0")
    etree.SubElement(level, f"{{{space}}}buNone")
    run = etree.SubElement(level, f"{{{space}}}defRPr", sz=str(int(Pt(size).pt * 100)), b=str(int(bold)))
    fill = etree.SubElement(run, f"{{{space}}}solidFill")
    etree.SubElement(fill, f"{{{space}}}schemeClr", val="tx1" if bold else "tx2")


if __name__ == "__main__":
    main()
