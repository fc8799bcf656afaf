"""Which characters of a deck no typeface on this computer can show: said in words, never left as empty boxes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from labtui.export import measure
from labtui.export.deck_model import Block, Callout, Code, Deck, Paragraph, Table


def deck_text(deck: Deck) -> Iterator[str]:
    """Every text of a deck."""
    yield from (deck.title, deck.subtitle, deck.footer, *deck.lines)
    for slide in deck.slides:
        yield slide.title
        for block in slide.blocks:
            yield from _block_text(block)
        for chart in slide.charts:
            yield chart.title
            yield from (series.name for series in chart.series)


def _block_text(block: Block) -> Iterator[str]:
    if isinstance(block, Paragraph):
        yield block.text
    elif isinstance(block, Code):
        yield from (run.text for line in block.lines for run in line.runs)
    elif isinstance(block, Table):
        yield from (cell for row in (block.headings, *block.rows) for cell in row)
    elif isinstance(block, Callout):
        yield from (paragraph.text for paragraph in block.paragraphs)


def unshown(texts: Iterable[str]) -> str:
    """The characters that neither our typeface nor a typeface of this computer has, each once."""
    lacking = dict.fromkeys("".join(measure.missing(text) for text in texts))
    if not lacking:
        return ""
    wanted = {ord(mark) for mark in lacking}
    for known in _system_charmaps():
        wanted -= known
        if not wanted:
            break
    return "".join(mark for mark in lacking if ord(mark) in wanted)


def _system_charmaps() -> Iterator[set[int]]:
    """What each typeface of this computer can show; one that cannot be read shows nothing."""
    import typst
    from matplotlib.ft2font import FT2Font

    seen = set()
    for info in typst.Fonts().fonts():
        if info.path is None or (info.path, info.index) in seen:
            continue
        seen.add((info.path, info.index))
        try:
            yield set(FT2Font(info.path, face_index=info.index).get_charmap())
        except TypeError:  # matplotlib before 3.11 opens the first face of a collection only
            yield _first_face(info.path)
        except (OSError, RuntimeError):
            continue


def _first_face(path: str) -> set[int]:
    from matplotlib.ft2font import FT2Font

    try:
        return set(FT2Font(path).get_charmap())
    except (OSError, RuntimeError):
        return set()


def glyph_note(deck: Deck) -> str:
    """A sentence about what cannot be shown; "" when all can."""
    marks = unshown(deck_text(deck))
    if not marks:
        return ""
    shown = " ".join(marks[:12]) + (f" and {len(marks) - 12} more" if len(marks) > 12 else "")
    return (
        f"No typeface on this computer can show these characters, so deck.pdf has empty boxes there: {shown}. "
        "Install one that can (the Noto fonts have nearly all) and export again; deck.pptx shows them wherever "
        "PowerPoint can."
    )
