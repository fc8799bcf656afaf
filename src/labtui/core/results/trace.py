"""Where a number came from: the job, the log, the line.

Every row and every mark of a chart can name its `Origin`s, so that a reader can go back to the log.
Only values here; whoever has the file looks up the line.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """One line of one log. `job_id` is "" for a bare file, `run_id` None outside a lab folder.

    `line` is 1-based and None when the reader could not tell it; `epoch` is the epoch that line speaks of
    (None for a line that gives a rate).
    """

    source: str
    job_id: str = ""
    run_id: int | None = None
    epoch: int | None = None
    line: int | None = None

    @property
    def text(self) -> str:
        """For people: ``job 31337, ResNet50.31337.out, line 42``."""
        parts = [f"job {self.job_id}"] if self.job_id else []
        if self.source:
            parts.append(self.source)
        if self.line is not None:
            parts.append(f"line {self.line}")
        return ", ".join(parts)


def cite(origins: Iterable[Origin], *, most: int = 4) -> str:
    """Name the origins in one short sentence part; says how many more there are beyond `most`.

    Lines of the same log are gathered: ``job 31337, ResNet50.31337.out, lines 5, 7, 9``.
    """
    logs: dict[tuple[str, str], list[int]] = {}
    for origin in origins:
        lines = logs.setdefault((origin.job_id, origin.source), [])
        if origin.line is not None and origin.line not in lines:
            lines.append(origin.line)
    texts = [_cite_log(job_id, source, lines) for (job_id, source), lines in logs.items()]
    rest = len(texts) - most
    return "; ".join(texts[:most]) + (f"; and {rest} more" if rest > 0 else "")


def _cite_log(job_id: str, source: str, lines: list[int]) -> str:
    if len(lines) <= 1:
        return Origin(source=source, job_id=job_id, line=lines[0] if lines else None).text
    where = Origin(source=source, job_id=job_id).text
    return f"{where}, lines {', '.join(map(str, lines))}"
