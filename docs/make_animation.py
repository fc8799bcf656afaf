"""Make the animated picture of the README: `python docs/make_animation.py`.

Three runs of one task, as a replay shows them: events like those of a practice session go into a lab folder, and the
real screens are photographed at moments of the replay. A row that does not change is drawn once, so the file stays
small; it moves in any browser without a script.
"""

from __future__ import annotations

import asyncio
import re
import sys
import tempfile
from collections.abc import Iterator
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
TARGET = ROOT / "docs" / "pictures" / "run.svg"
SIZE = (100, 30)
CELL = (8.4, 17.0)
FRAMES, FRAME_S, LAST_S = 28, 0.7, 4.0
MOST_BYTES = 300_000
START = 1_763_715_600.0
TASK, QUEUED_S = "10.5", 20.0

Row = tuple[tuple[str, str, str, bool], ...]
"""Pieces of a row: text, colour, background, bold."""


def record(lab: Path) -> None:
    """An hour of the lab in a folder: 1, 2 and 4 GPUs, one job after the other, with their logs."""
    from labtui.domain.events import AnyEvent, LogGrew, RunEnded, RunStarted
    from labtui.domain.model import JobPhase
    from tests.tui import replay as recorded

    events: list[AnyEvent] = []
    runs = [(f"lt0000000000000{at}aaaa", gpus) for at, gpus in enumerate((1, 2, 4), 1)]
    for number, (token, gpus) in enumerate(runs, 1):
        events.append(recorded.planned(token, TASK, number, recorded.spec(gpus=gpus), START, practice=True))
    at = START + 3
    for number, (token, gpus) in enumerate(runs, 1):
        job, (first, rest) = str(31334 + number), recorded.TIMES[gpus]
        events += [recorded.accepted(token, job, at), recorded.observed(token, job, JobPhase.QUEUED, at + 2)]
        at += QUEUED_S
        more = {"start_time": at, "time_limit_s": 1800.0, "node": "as01r1b04", "slurm_state": "RUNNING"}
        events.append(recorded.observed(token, job, JobPhase.RUNNING, at, **more))
        at += 6
        events.append(RunStarted(at=at, run_id=number, images=50_000, framework="Keras"))
        for epoch in range(1, 6):
            at += first if epoch == 1 else rest
            half = 0.0005 * recorded.STEPS[gpus]
            seconds = first if epoch == 1 else rest
            seen = recorded.epoch(number, epoch, seconds, half, steps=recorded.STEPS[gpus])
            sample = _replace(seen.sample, line=4 + 2 * epoch)
            events.append(_replace(seen, at=at, sample=sample))
        done = {**more, "slurm_state": "COMPLETED", "end_time": at + 2, "exit_code": "0:0"}
        events.append(RunEnded(at=at + 1, run_id=number, outcome="completed"))
        events.append(recorded.observed(token, job, JobPhase.FINISHED, at + 2, **done))
        at += 3
    with recorded.open_session(lab) as session:
        session.feed(*events)
        for token, gpus in runs:
            path = recorded.write_log(session, token, recorded.log_text(recorded.spec(gpus=gpus), 5))
            grown = LogGrew(
                at=at, token=token, stream="out", segment=0, size=path.stat().st_size, complete=True
            )
            session.feed(grown)


def _replace(value: object, **changes: object) -> object:
    import dataclasses

    import msgspec

    return (dataclasses.replace if dataclasses.is_dataclass(value) else msgspec.structs.replace)(
        value, **changes
    )


async def frames(lab: Path) -> list[list[Row]]:
    """The rows of the screen at evenly spaced moments, the end included."""
    from labtui.session.replay import open_replay
    from labtui.tui.replay import ReplayApp
    from tests.tui.waiting import until

    taken = []
    with open_replay(lab) as replay:
        app = ReplayApp(replay, playing=False, pane="runs")
        async with app.run_test(size=SIZE) as pilot:
            await until(pilot, lambda: app.view_model.checks)
            for number in range(FRAMES):
                replay.go_to(replay.timeline.seconds * number / (FRAMES - 1))
                await until(pilot, lambda: app.view_model.state is replay.state)
                app.view_model.choose_task(TASK)  # the run that trains
                app.repaint()
                app.show_bar()
                for _ in range(8):  # charts are drawn in a thread
                    await asyncio.sleep(0.05)
                    await pilot.pause()
                taken.append([_row(strip) for strip in app.screen._compositor.render_strips()])
    return taken


def _row(strip: object) -> Row:
    pieces: list[tuple[str, str, str, bool]] = []
    for segment in strip:  # type: ignore[attr-defined]
        style = segment.style
        colours = [getattr(style, name, None) for name in ("color", "bgcolor")]
        front, back = (_hex(colour) for colour in colours)
        if style is not None and style.reverse:
            front, back = back, front
        look = (front, back, bool(style and style.bold))
        if pieces and pieces[-1][1:] == look:
            pieces[-1] = (pieces[-1][0] + segment.text, *look)
        else:
            pieces.append((segment.text, *look))
    return tuple(pieces)


def _hex(colour: object) -> str:
    return colour.get_truecolor().hex if colour is not None else ""  # type: ignore[attr-defined]


def _drawn(row: Row, y: int, looks: dict[tuple[str, bool], str]) -> Iterator[str]:
    """A row as SVG: backgrounds that differ from the picture's, then the text, its class by colour and weight."""
    from rich.cells import cell_len

    x, (width, height) = 0, CELL
    for text, front, back, bold in row:
        cells = cell_len(text)
        left, wide = x * width, cells * width
        if back and back != BACK:
            yield f'<rect x="{left:g}" y="{y * height:g}" width="{wide:g}" height="{height:g}" fill="{back}"/>'
        for found in re.finditer(r"█+|[^█ ](?:[^█]*[^█ ])?", text):
            body, begin = found[0], left + cell_len(text[: found.start()]) * width
            long = cell_len(body) * width
            look = looks.setdefault((front, bold), f"c{len(looks)}")
            if body[0] == "█":  # a font may leave gaps between the rows
                yield f'<rect x="{begin:g}" y="{y * height:g}" width="{long:g}" height="{height:g}" class="{look}"/>'
                continue
            words = escape(body).replace(" ", "\u00a0")
            yield f'<text x="{begin:g}" y="{y * height + 13:g}" class="{look}" textLength="{long:g}">{words}</text>'
        x += cells


BACK = "#14181d"


def picture(taken: list[list[Row]]) -> str:
    """All frames as one SVG; each different content of a row is there once, with the times when it is seen."""
    seconds = FRAME_S * (len(taken) - 1) + LAST_S
    seen: dict[tuple[int, Row], list[int]] = {}
    for number, rows in enumerate(taken):
        for y, row in enumerate(rows):
            seen.setdefault((y, row), []).append(number)
    width, height = SIZE[0] * CELL[0], SIZE[1] * CELL[1]
    looks: dict[tuple[str, bool], str] = {}
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}"'
        f' font-family="Menlo, Consolas, DejaVu Sans Mono, monospace" font-size="14" shape-rendering="crispEdges">',
        f'<rect width="100%" height="100%" fill="{BACK}"/>',
    ]
    parts = []
    for (y, row), numbers in seen.items():
        body = "".join(_drawn(row, y, looks))
        if not body:
            continue
        if len(numbers) == len(taken):
            parts.append(f"<g>{body}</g>")
            continue
        values, times = [], []
        for number in range(len(taken)):
            word = "visible" if number in numbers else "hidden"
            if not values or values[-1] != word:
                values.append(word)
                times.append(f"{FRAME_S * number / seconds:.4f}".rstrip("0").rstrip(".") or "0")
        first = "" if len(taken) - 1 in numbers else ' visibility="hidden"'
        parts.append(
            f'<g{first}><animate attributeName="visibility" values="{";".join(values)}"'
            f' keyTimes="{";".join(times)}" dur="{seconds:g}s" calcMode="discrete" repeatCount="indefinite"/>'
            f"{body}</g>"
        )
    rules = (
        f".{name}{{fill:{front}{';font-weight:bold' if bold else ''}}}"
        for (front, bold), name in looks.items()
    )
    return "\n".join([*head, f"<style>{''.join(rules)}</style>", *parts, "</svg>", ""])


def main() -> None:
    """Write the picture."""
    from tests.tui.replay import make_folder

    with tempfile.TemporaryDirectory() as place:
        lab = make_folder(Path(place) / "lab", practice=True).path
        record(lab)
        text = picture(asyncio.run(frames(lab)))
    if len(text.encode()) > MOST_BYTES:
        raise SystemExit(f"{len(text.encode()):,} bytes are too many for a README")
    TARGET.write_text(text, encoding="utf-8", newline="\n")
    print(f"{TARGET.relative_to(ROOT)}, {len(text.encode()):,} bytes")  # noqa: T201 - what a script made


if __name__ == "__main__":
    main()
