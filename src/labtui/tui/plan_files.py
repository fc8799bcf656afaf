"""What the plan screen says about files: which travel with the job, and how they differ from what was sent. Pure."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

from rich.text import Text

from labtui.tui import format as words
from labtui.tui.themes import Roles

if TYPE_CHECKING:
    from labtui.engine.comparing import FileChange
    from labtui.engine.planning import Preview

_SIZE = 10


def files_page(preview: Preview, session: Any, styles: Roles) -> Text:
    """Each file with its standing beside the last job and the pushed copy; below, one's own changes to the scripts."""
    last = _last_job(preview)
    since = f"since job {last}" if last else "sent before"
    wide = max([len(change.path) for change in preview.files] + [4])
    text = Text(f"{'file':<{wide}} {'size':>{_SIZE}}  {since:<16} pushed\n", style=styles.quiet)
    for change in preview.files:
        text.append(f"{change.path:<{wide}} {words.bytes_size(change.size):>{_SIZE}}  ")
        text.append(f"{_since(change, last):<16} ", style=_style(change.since, styles))
        text.append(f"{change.pushed or words.NOTHING:<9}", style=_style(change.pushed, styles))
        text.append(" changed by you\n" if change.changed else "\n", style=styles.warn)
    for name in preview.left_out:
        text.append(f"{name:<{wide}} {words.NOTHING:>{_SIZE}}  no longer sent\n", style=styles.warn)
    if not last:
        text.append(
            "\nNo job of this lab folder was accepted yet: every file is new there.\n", style=styles.quiet
        )
    for change in preview.files:
        if change.changed:
            text.append("\n").append(_beside_the_original(change.path, session, styles))
    return text


def difference_page(preview: Preview, session: Any, styles: Roles) -> Text:
    """The unified difference of every file since the job it is compared with."""
    del session
    text = Text()
    for change in preview.files:
        if change.difference:
            text.append(coloured(change.difference, styles)).append("\n")
        elif change.since == "changed":
            text.append(
                f"{change.path} differs from what job {change.since_job} was sent with; how cannot be shown.\n"
            )
        elif change.since == "new" and change.since_job:
            text.append(f"{change.path} is new: job {change.since_job} was sent without it.\n")
    for name in preview.left_out:
        text.append(f"{name} is not sent any more.\n")
    if text.plain:
        return text
    if not _last_job(preview):
        return Text("No job of this lab folder was accepted yet: there is nothing to compare with.")
    return Text(
        f"Nothing differs from what job {_last_job(preview)} was sent with, its own name and token aside."
    )


def coloured(lines: str, styles: Roles) -> Text:
    """A unified difference; colour only adds to its signs."""
    text = Text()
    for line in lines.splitlines():
        style = styles.good if line.startswith("+") else styles.bad if line.startswith("-") else ""
        text.append(f"{line}\n", style=style)
    return text


def _last_job(preview: Preview) -> str:
    """The job most files are compared with: the job script may have one of its own."""
    jobs = [change.since_job for change in preview.files if change.since_job]
    return max(jobs, key=jobs.count, default="")


def _since(change: FileChange, last: str) -> str:
    other = f" ({change.since_job})" if change.since_job not in {"", last} else ""
    return f"{change.since or words.NOTHING}{other}"


def _style(standing: str | None, styles: Roles) -> str:
    return {"changed": styles.warn, "new": styles.good}.get(standing or "", styles.quiet)


def _beside_the_original(path: str, session: Any, styles: Roles) -> Text:
    from labtui import assets

    own = session.folder.inside(f"scripts/{path}").read_bytes().decode("utf-8", "replace")
    original = assets.read_remote(path).decode("utf-8", "replace")
    lines = difflib.unified_diff(
        original.splitlines(),
        own.splitlines(),
        f"{path} (as it came)",
        f"{path} (yours)",
        lineterm="",
        n=1,
    )
    return coloured("\n".join(lines), styles)
