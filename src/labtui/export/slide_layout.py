"""Which blocks stand on which slide, and in which zone of it: decided once, drawn by Typst and by PowerPoint.

How high a block is says Typst (`Typesetter.heights`); here it is only parted. What does not fit beside a page's
visuals stands in full behind the divider at the end; nothing is cut off.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from labtui.export import chart_geometry
from labtui.export.hand_in import (
    Block,
    Chart,
    HandInDocument,
    Listing,
    Page,
    Paragraph,
    Run,
    Table,
    block_text,
    plain,
)

Heights = Callable[[Sequence[tuple[Block, float]]], list[dict[str, Any]]]
Measure = Callable[[Block, float], dict[str, Any]]
"""``height``, ``before`` and ``parts`` of a block at a width, in points."""
_GAP = 14.0
_LABEL = 14.0
"""The size of a chart's text."""
_LINE = 26.0
"""Room for a line of words."""
_UNIT = re.compile(r"(?<=\d) (?=(?:%|s|GPUs?|images)(?!\w))")
_SENTENCE = re.compile(r"(?<=[.!?…])\s+")


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle in points; `y` grows downwards."""

    x: float
    y: float
    w: float
    h: float

    @property
    def bottom(self) -> float:
        """Its lower edge."""
        return self.y + self.h


BODY = Box(40, 118, 880, 378)
WIDTH, HEIGHT = 960.0, 540.0


@dataclass(frozen=True, slots=True)
class Zone:
    """A part of a slide: one visual, or words that follow each other (`words`)."""

    box: Box
    blocks: tuple[Block, ...]
    words: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Slide:
    """One slide. `notes` is what a speaker says and where the numbers are from; `front` is the title page."""

    title: str
    kicker: str = ""
    zones: tuple[Zone, ...] = ()
    notes: str = ""
    practice: bool = False
    front: bool = False


@dataclass(frozen=True, slots=True)
class Slides:
    """All slides, sentences about what stands elsewhere, and how high each block is at the width it has."""

    slides: tuple[Slide, ...]
    notes: tuple[str, ...]
    measured: Measure


def lay_out(deck: HandInDocument, heights: Heights) -> Slides:
    """Give every block its slide and its zone."""
    measured = _Measured(heights, deck)
    slides = [_front(deck)]
    shortened: list[Page] = []
    for page in deck.pages:
        parts, complete = _slides(page, measured)
        slides += parts
        if not complete and page.answered:
            shortened.append(page)
    notes = []
    if shortened:
        first = len(slides) + 1
        answers = tuple(
            plain(kicker, bullet="•", level=1) for kicker in dict.fromkeys(page.kicker for page in shortened)
        )
        slides.append(
            Slide(
                title="The answers in full", zones=(Zone(BODY, answers, words=True),), practice=deck.practice
            )
        )
        for page in shortened:
            full = replace(
                page, title=page.kicker, kicker="The answers in full", visuals=(), words=page.answer
            )
            slides += _slides(replace(full, flows=True), measured)[0]
            notes.append(
                f"{page.kicker}: the answer does not fit its slide; it is complete from slide {first} on."
            )
    measured.ask((block, zone.box.w) for slide in slides for zone in slide.zones for block in zone.blocks)
    return Slides(tuple(slides), tuple(notes), measured.of)


def _front(deck: HandInDocument) -> Slide:
    zones = (Zone(Box(64, 372, 832, 120), (deck.key_numbers,)),) if deck.key_numbers.items else ()
    notes = f"{deck.stamp}. {' '.join(deck.lines)}"
    return Slide(
        title=deck.title, kicker=deck.subtitle, zones=zones, practice=deck.practice, front=True, notes=notes
    )


class _Measured:
    """Heights of blocks at the widths they may stand in, asked of Typst at once and kept."""

    def __init__(self, heights: Heights, deck: HandInDocument) -> None:
        self._ask = heights
        self._known: dict[tuple[int, float], dict[str, Any]] = {}
        self._kept: list[Block] = []
        wanted: list[tuple[Block, float]] = []
        for page in deck.pages:
            zone = _zones(page)
            wanted += [(block, zone.words.w) for block in page.words if not isinstance(block, Chart)]
            wanted += [(block, zone.visual.w) for block in page.visuals if not isinstance(block, Chart)]
            wanted += [(block, BODY.w) for block in page.answer if not isinstance(block, Chart)]
            notes = _caption(page)
            wanted += [(notes, BODY.w)] if notes is not None else []
        self.ask(wanted)

    def ask(self, wanted: Iterable[tuple[Block, float]]) -> None:
        """Measure all of these at once, as far as they are not known."""
        requests = [
            (block, width)
            for block, width in wanted
            if (id(block), width) not in self._known and not isinstance(block, Chart)
        ]
        for (block, width), found in zip(requests, self._ask(requests), strict=True):
            self._known[id(block), width] = found
            self._kept.append(block)  # its identity is the key

    def of(self, block: Block, width: float) -> dict[str, Any]:
        """``height``, ``before`` and ``parts`` of a block at a width."""
        if isinstance(block, Chart):
            return {"height": 300.0, "before": 10.0, "parts": []}
        if (id(block), width) not in self._known:
            self.ask([(block, width)])
        return self._known[id(block), width]

    def stack(self, blocks: Sequence[Block], width: float) -> float:
        """The height of blocks below each other."""
        found = [self.of(block, width) for block in blocks]
        return sum(float(each["height"]) for each in found) + sum(float(each["before"]) for each in found[1:])


@dataclass(frozen=True, slots=True)
class _Plan:
    """Where a page's visuals and words go; a height of 0 means as high as the visuals are."""

    visual: Box
    words: Box


def _zones(page: Page) -> _Plan:
    charts = [block for block in page.visuals if isinstance(block, Chart)]
    listings = [block for block in page.visuals if isinstance(block, Listing)]
    if listings and page.words and not page.flows:
        side = 300.0
        return _Plan(replace(BODY, w=BODY.w - side - 20), Box(BODY.x + BODY.w - side, BODY.y, side, BODY.h))
    if len(charts) == 1 and len(page.visuals) == 1 and page.words:
        return _Plan(replace(BODY, w=540), Box(BODY.x + 564, BODY.y, BODY.w - 564, BODY.h))
    return _Plan(BODY, BODY)


def _caption(page: Page) -> Paragraph | None:
    """The sentences under a page's charts, each once: a caveat never gives way to the number it is about."""
    notes = dict.fromkeys(
        note for block in page.visuals if isinstance(block, Chart) for note in block.spec.notes
    )
    return plain(" ".join(notes), "note") if notes else None


def _slides(page: Page, measured: _Measured) -> tuple[list[Slide], bool]:
    """The slides of a page, and whether they show all its words."""
    if page.flows or not page.visuals:
        bodies = [*_chart_pages(page), *_flow(_others(page), measured)]
        return [_slide(page, body, part, len(bodies)) for part, body in enumerate(bodies, 1)], True
    listings = [block for block in page.visuals if isinstance(block, Listing)]
    if listings and page.words and measured.stack(listings, _zones(page).visual.w) > BODY.h:
        flowing = [block for block in page.visuals if not isinstance(block, Chart)]
        bodies = [*_chart_pages(page), *_flow([*flowing, *page.words], measured)]
        return [_slide(page, body, part, len(bodies)) for part, body in enumerate(bodies, 1)], True
    charts = tuple(block for block in page.visuals if isinstance(block, Chart))
    others = tuple(block for block in page.visuals if not isinstance(block, Chart))
    if charts and others and measured.stack(others, BODY.w) > BODY.h - 260:  # they need slides of their own
        first, complete = _slides(replace(page, visuals=charts), measured)
        return [*first, *_slides(replace(page, visuals=others, words=(), flows=True), measured)[0]], complete
    _, room = _visual_zones(page, measured, page.words)
    words, complete = _fitting(page.words, room, measured)
    zones, room = _visual_zones(page, measured, words)
    if words:
        zones.append(Zone(room, words, words=True))
    left = _left_over(page, measured)
    bodies = [zones, *left] if zones or not left else [*left]  # nothing fits beside the title alone
    return [_slide(page, body, part, len(bodies)) for part, body in enumerate(bodies, 1)], complete


def _slide(page: Page, zones: Sequence[Zone], part: int, parts: int) -> Slide:
    where = f"{' · ' * bool(page.kicker)}{part} of {parts}" if parts > 1 else ""
    return Slide(
        title=_UNIT.sub("\u00a0", page.title),  # no line begins with a unit
        kicker=f"{page.kicker}{where}",
        zones=tuple(zones),
        practice=page.practice,
        notes=_notes(page),
    )


def _notes(page: Page) -> str:
    """What a speaker says: the answers in full, then where the page's numbers were read."""
    parts = ["\n".join(block_text(block) for block in page.answer)] if page.answer else []
    if page.numbers:
        parts.append("Where the numbers come from:\n" + "\n".join(page.numbers))
    return "\n\n".join(parts)


# --------------------------------------------------------------------------- visuals


def _visual_zones(page: Page, measured: _Measured, words: Sequence[Block]) -> tuple[list[Zone], Box]:
    """The zones of the visuals and of their caption, and what is left for these words."""
    plan = _zones(page)
    charts = [block for block in page.visuals if isinstance(block, Chart)]
    others = [block for block in page.visuals if not isinstance(block, Chart)]
    caption = _caption(page)
    foot = measured.of(caption, BODY.w)["height"] + 6 if caption is not None else 0.0
    beside = plan.words.w < BODY.w
    zones: list[Zone] = []
    y = plan.visual.y
    for block in others:
        height = float(measured.of(block, plan.visual.w)["height"])
        if y + height > BODY.bottom:
            continue  # stands on a slide of its own
        zones.append(Zone(Box(plan.visual.x, y, plan.visual.w, height), (block,)))
        y += height + _GAP
    if charts:
        room = BODY.bottom - y - foot
        enough = measured.stack(words, BODY.w) + _GAP if words and not beside else 0.0
        least = max(_least_height(chart, plan.visual.w / len(charts)) for chart in charts)
        height = room if beside or not words else min(max(least, room - enough), room - 2 * _LINE)
        zones += _row(charts, Box(plan.visual.x, y, plan.visual.w, height))
        y += height + 4
    if caption is not None:
        top = BODY.bottom - foot + 6 if beside or not words else y
        zones.append(Zone(Box(BODY.x, top, BODY.w, foot - 6), (caption,)))
        y += foot
    if beside:
        return zones, replace(plan.words, h=BODY.h - foot)
    top = y + (10 if page.visuals else 0)
    return zones, Box(BODY.x, top, BODY.w, max(0.0, BODY.bottom - top))


def _least_height(chart: Chart, width: float) -> float:
    """The height below which a chart cannot be read; its legend and values that stand upright take more."""
    spec = chart.spec
    if spec.kind != "bars":
        return 235.0
    bars, groups = len(chart_geometry.bar_series(spec)), len(chart_geometry.categories(spec))
    upright = chart_geometry.upright_values(spec, width / max(1, groups) / (bars + 0.6), _LABEL)
    return 215.0 + 24.0 * chart_geometry.legend_rows(spec, width, _LABEL) + (40.0 if upright else 0.0)


def _row(charts: Sequence[Chart], box: Box) -> Iterable[Zone]:
    gap = 22.0
    width = (box.w - gap * (len(charts) - 1)) / len(charts)
    for at, chart in enumerate(charts):
        yield Zone(Box(box.x + at * (width + gap), box.y, width, box.h), (chart,))


def _left_over(page: Page, measured: _Measured) -> list[list[Zone]]:
    """Slides of their own for visuals that did not fit beside the others."""
    plan = _zones(page)
    y, left = plan.visual.y, []
    for block in page.visuals:
        if isinstance(block, Chart):
            continue
        height = float(measured.of(block, plan.visual.w)["height"])
        if y + height > BODY.bottom:
            left.append(block)
        else:
            y += height + _GAP
    return _flow(left, measured)


def _chart_pages(page: Page) -> Iterable[list[Zone]]:
    """Charts of a page that flows: two beside each other, their notes below them."""
    charts = [block for block in page.visuals if isinstance(block, Chart)]
    for pair in itertools.batched(charts, 2) if hasattr(itertools, "batched") else _pairs(charts):
        row = list(_row(pair, replace(BODY, h=BODY.h - 60)))
        caption = _caption(replace(page, visuals=tuple(pair)))
        foot = [Zone(Box(BODY.x, BODY.bottom - 54, BODY.w, 54), (caption,))] if caption is not None else []
        yield [*row, *foot]


def _pairs(charts: Sequence[Chart]) -> Iterable[tuple[Chart, ...]]:
    return (tuple(charts[at : at + 2]) for at in range(0, len(charts), 2))


def _others(page: Page) -> list[Block]:
    visuals = [block for block in page.visuals if not isinstance(block, Chart)]
    return [*page.words, *visuals] if page.flows else list(page.words)


# --------------------------------------------------------------------------- words


def _fitting(words: Sequence[Block], room: Box, measured: _Measured) -> tuple[tuple[Block, ...], bool]:
    """As many of the words as fit, the last paragraph up to a sentence's end; and whether that is all."""
    shown: list[Block] = []
    left = room.h
    for block in words:
        found = measured.of(block, room.w)
        need = float(found["height"]) + (float(found["before"]) if shown else 0.0)
        if need <= left:
            shown.append(block)
            left -= need
            continue
        part = _beginning(block, left / max(need, 1.0)) if left > _LINE else None
        if part is not None:
            shown.append(part)
        return tuple(shown), False
    return tuple(shown), True


def _beginning(block: Block, share: float) -> Block | None:
    """The first whole sentences of a paragraph, as far as they surely fit."""
    if not isinstance(block, Paragraph):
        return None
    text = "".join(run.text for run in itertools.takewhile(lambda run: not run.tex, block.runs))
    most = int(len(block.text) * share * 0.9) - 2
    kept = ""
    for sentence in _SENTENCE.split(text) if text == block.text else _SENTENCE.split(text)[:-1]:
        if len(kept) + len(sentence) + 1 > most:
            break
        kept = f"{kept} {sentence}".strip()
    return replace(block, runs=(Run(f"{kept} …"),)) if kept else None


def _flow(blocks: Sequence[Block], measured: _Measured) -> list[list[Zone]]:
    """The slides that blocks need when they follow each other; long ones are parted at lines, rows or sentences."""
    pages: list[list[Zone]] = []
    page: list[Block] = []
    used = 0.0
    queue = list(blocks)
    while queue:
        block = queue.pop(0)
        found = measured.of(block, BODY.w)
        need = float(found["height"]) + (float(found["before"]) if page else 0.0)
        if used + need <= BODY.h:
            page.append(block)
            used += need
            continue
        first, rest = _parted(block, found, BODY.h - used - (float(found["before"]) if page else 0.0))
        if first is not None:
            page.append(first)
        elif not page:
            page, rest = [block], None  # higher than a slide and not to be parted: it is drawn as it is
        else:
            rest = block
        carried = [] if len(page) < 2 or not _heads(page[-1]) or first is not None else [page.pop()]
        pages.append([Zone(BODY, tuple(page), words=True)])
        page, used = [], 0.0
        queue = [*carried, *([rest] if rest is not None else []), *queue]
    if page:
        pages.append([Zone(BODY, tuple(page), words=True)])
    return pages


def _heads(block: Block) -> bool:
    return isinstance(block, Paragraph) and block.style in ("heading", "question")


def _parted(block: Block, found: dict[str, Any], room: float) -> tuple[Block | None, Block | None]:
    """A block in two, the first of which fits the room; (None, block) when there is no such place."""
    if isinstance(block, Listing):
        rest, count = room - 34.0, 0
        slack = max(1.0, (float(found["height"]) - 30.0) / max(1.0, sum(map(float, found["parts"]))))
        for height in found["parts"]:
            rest -= float(height) * slack
            if rest < 0:
                break
            count += 1
        if min(3, len(block.lines)) <= count < len(block.lines):
            caption = f"{block.caption.removesuffix(' (continued)')} (continued)" if block.caption else ""
            return replace(block, lines=block.lines[:count]), replace(
                block, lines=block.lines[count:], caption=caption
            )
    elif isinstance(block, Table) and found["parts"]:
        count = sum(float(height) <= room * 0.97 for height in found["parts"]) - 1
        if count >= 1:
            return replace(block, rows=block.rows[:count]), replace(block, rows=block.rows[count:])
    elif isinstance(block, Paragraph) and room > 3 * _LINE:
        return _sentences(block, room / float(found["height"]))
    return None, block


def _sentences(block: Paragraph, share: float) -> tuple[Block | None, Block | None]:
    """A long paragraph in two at a sentence's end, or at a blank."""
    most = int(len(block.text) * min(share, 1.0) * 0.9)
    ends = [match.start() for match in _SENTENCE.finditer(block.text) if match.start() < most]
    ends = ends or [at for at, mark in enumerate(block.text[:most]) if mark == " "]
    cut = ends[-1] if ends else most
    if cut < 20 or cut >= len(block.text):
        return None, block
    first: list[Run] = []
    rest: list[Run] = []
    at = 0
    for run in block.runs:
        head, tail = run.text[: max(0, cut - at)], run.text[max(0, cut - at) :]
        if run.tex:
            head, tail = (run.text, "") if at < cut else ("", run.text)
        first += [replace(run, text=head)] if head else []
        rest += (
            [replace(run, text=tail if rest else tail.lstrip())] if tail.strip() or (tail and rest) else []
        )
        at += len(run.text)
    return replace(block, runs=tuple(first)), replace(
        block, runs=tuple(rest), bullet="", level=block.level
    ) if rest else None
