"""What the plan screen says about drafts, previews, findings and verdicts. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.text import Text

from labtui.core.interval import Interval
from labtui.core.model import SubmissionDraft
from labtui.errors import LabError
from labtui.tui import format as words
from labtui.tui import plan_files
from labtui.tui.plan_table import PlanRow
from labtui.tui.themes import Roles
from labtui.tui.widgets.keyed_table import Column, Row

if TYPE_CHECKING:
    from labtui.core.lab.batch_search import Boundary
    from labtui.core.preflight import Finding
    from labtui.engine.planning import Preview

FINDING_COLUMNS = (
    Column("severity", ""),
    Column("fix", " "),
    Column("place", " where"),
    Column("effect", " what it does"),
)
SEVERITY = {"error": "✘ error", "warning": "! warning"}
FORMS = {
    "cpu": "on the CPU",
    "one-gpu": "one GPU",
    "one-job": "all sizes",
    "job-per-size": "this size",
}


def cells(row: PlanRow, draft: SubmissionDraft | None, number: int) -> tuple[str, ...]:
    """One row of the plan table; a row that is left out says so."""
    spec = row.spec
    limit = f"{draft.time_limit_minutes} min" if draft is not None else words.NOTHING
    rate = "script's" if spec.learning_rate is None else f"{spec.learning_rate:g}"
    job = f"  {number}: {FORMS[draft.form]}" if draft is not None else "  left out"
    gpus = str(spec.n_gpus) if spec.device == "gpu" else "CPU"
    each = str(spec.per_gpu_batch) if spec.device == "gpu" else words.NOTHING
    return (
        "✔" if row.included else "○",
        f" {spec.model}",
        f" {gpus}",
        f" {spec.batch_size}",
        f" {each}",
        f" {rate}",
        f" {spec.epochs}",
        f" {limit}",
        f"{job:<12}",
        f"  {shlex.join(spec.extra_args) or words.NOTHING}",
    )


def _total(parts: Sequence[Interval | None]) -> Interval | None:
    known = [part for part in parts if part is not None]
    if not known or len(known) < len(parts):
        return None
    return Interval(sum(p.value for p in known), sum(p.lo for p in known), sum(p.hi for p in known))


def cost_line(
    drafts: Sequence[SubmissionDraft],
    previews: Sequence[Preview | LabError],
    verdicts: Mapping[SubmissionDraft, str],
    styles: Roles,
) -> Text:
    """Expected time and GPU-hours of the whole plan, then Slurm's verdicts."""
    text = Text(f"{len(drafts)} job{'s' if len(drafts) != 1 else ''}")
    good = [preview for preview in previews if not isinstance(preview, LabError)]
    seconds = _total([preview.seconds for preview in good]) if len(good) == len(drafts) else None
    hours = _total([preview.gpu_hours for preview in good]) if len(good) == len(drafts) else None
    most = sum(draft.gpus * draft.time_limit_minutes for draft in drafts) / 60
    if seconds is not None:
        text.append(f", expected to run {words.duration(seconds.lo)} to {words.duration(seconds.hi)} in all")
    if hours is not None and most:
        text.append(f", {hours.lo:.2f} to {hours.hi:.2f} GPU-h")
    if most:
        text.append(f" (at most {most:.2f} GPU-h by their time limits)", style=styles.quiet)
    if drafts:
        first = drafts[0]
        text.append(f"\naccount {first.account or '?'}, {first.qos or 'no QoS'}", style=styles.quiet)
    for number, draft in enumerate(drafts, 1):
        if word := verdicts.get(draft):
            text.append(f"\njob {number}: {word}")
    return text


def doubts(drafts: Sequence[SubmissionDraft], known: Mapping[str, Boundary], styles: Roles) -> Text:
    """What the table itself gives reason to doubt: batches per GPU that differ, or that did not fit before."""
    text = Text()
    specs = [spec for draft in drafts for spec in draft.runs if spec.device == "gpu"]
    for model, boundary in known.items():
        mine = [spec for spec in specs if spec.model == model]
        batches = sorted({spec.per_gpu_batch for spec in mine})
        if len(batches) > 1 and len({spec.n_gpus for spec in mine}) > 1:
            said = " and ".join(f"{batch:,}" for batch in batches)
            text.append(f"\n! {model}: {said} images per GPU; sizes compare only with the same.", styles.warn)
        if boundary.too_large is not None and batches and batches[-1] >= boundary.too_large:
            text.append(f"\n! {model}: {boundary.sentence}", styles.warn)
    return text


def view_line(
    view: str, views: Sequence[str], preview: Preview | LabError | None, place: int, *, edited: bool = False
) -> Text:
    """The names of the views with their counts; the current one reversed."""
    text = Text()
    for name in views:
        count = ""
        if preview is not None and not isinstance(preview, LabError):
            if name == "findings":
                count = f" {len(preview.findings)}" if preview.findings else " none"
            elif name == "script":
                count = " (edited: it counts, not the table)" if edited else ""
            elif name == "files":
                count = f" {len(preview.files)}"
            elif name == "difference":
                count = f" {sum(change.since == 'changed' for change in preview.files) or 'none'}"
        text.append(f" {name}{count} ", style="reverse" if name == view else "").append(" ")
    return text.append(f"of job {place + 1}", style="dim")


def finding_rows(preview: Preview | LabError | None, styles: Roles) -> list[Row]:
    """Severity, whether there is a fix, place, first sentence."""
    if preview is None or isinstance(preview, LabError):
        return []
    rows = []
    for index, finding in enumerate(preview.findings):
        style = styles.bad if finding.severity == "error" else styles.warn
        where = f" {finding.file}:{finding.line}" if finding.line else f" {finding.file}"
        effect = " ".join(finding.effect.split())
        rows.append(
            Row(
                f"{index}|{finding.rule}|{where}",
                (
                    Text(SEVERITY[finding.severity], style=style),
                    " f fixes it" if finding.fix is not None else " ",
                    where,
                    f" {effect if len(effect) < 90 else effect[:89] + '…'}",
                ),
            )
        )
    return rows


def page(  # noqa: PLR0917 - what a page rests on
    view: str,
    preview: Preview | LabError | None,
    draft: SubmissionDraft | None,
    finding: Finding | None,
    session: Any,
    styles: Roles,
) -> Text:
    """The text under the tabs."""
    if preview is None:
        return Text(
            "Looking at the files ..." if draft is not None else "Every run is left out.", style="dim"
        )
    if isinstance(preview, LabError):
        return Text(f"{preview.sentence}\n{preview.hint}")
    if view == "script":
        return Text(preview.script)
    if view in {"files", "difference"}:
        shown = plan_files.files_page if view == "files" else plan_files.difference_page
        return shown(preview, session, styles)
    if finding is None:
        return Text("Nothing to complain about in the scripts and the job file. Ask Slurm itself with i.")
    text = Text(f"{finding.text.strip()}\n", style="bold") if finding.text.strip() else Text()
    return text.append(" ".join(finding.effect.split()))


def verdict(result: Any, error: BaseException | None) -> str:
    """Slurm's own word in one line."""
    if error is not None:
        hint = getattr(error, "hint", "")
        return f"{error} {hint}".strip()
    word = "✔" if result.ok else "✘"
    said = result.sentence or ("Slurm would accept it." if result.ok else "Slurm would refuse it.")
    return f"{word} {said} {result.hint}".rstrip()


def stops(previews: Sequence[Preview | LabError]) -> str:
    """A sentence when something must be put right first, else ""."""
    for number, preview in enumerate(previews, 1):
        if isinstance(preview, LabError):
            return f"Job {number} cannot be made: {preview.sentence}"
        errors = [finding for finding in preview.findings if finding.severity == "error"]
        if errors:
            count = f"{len(errors)} error{'s' if len(errors) != 1 else ''}"
            return f"Job {number} has {count} to put right first ({errors[0].file}:{errors[0].line})."
    return ""


def question(
    drafts: Sequence[SubmissionDraft],
    previews: Sequence[Preview | LabError],
    edited: Collection[SubmissionDraft] = (),
) -> tuple[str, Text]:
    """The last question before submitting, and what is in it; `edited` are drafts with a script of the student's."""
    runs = sum(len(draft.runs) for draft in drafts)
    text = f"Submit {len(drafts)} job{'s' if len(drafts) != 1 else ''} with {runs} run{'s' if runs != 1 else ''}?"
    details = Text()
    for draft in drafts:
        details.append(f"{draft.job_name}: at most {draft.time_limit_minutes} min, QoS {draft.qos}")
        details.append(", script edited by you\n" if draft in edited else "\n")
        for spec in draft.runs:
            batch = f"global batch {spec.batch_size:,}" if spec.n_gpus > 1 else f"batch {spec.batch_size:,}"
            epochs = f"{spec.epochs} epoch{'s' * (spec.epochs != 1)}"
            details.append(f"  {spec.label}, {batch}, {epochs}\n")
    warnings = [
        f
        for preview in previews
        if not isinstance(preview, LabError)
        for f in preview.findings
        if f.severity == "warning"
    ]
    for finding in warnings[:6]:
        details.append(f"! {finding.file}:{finding.line} {' '.join(finding.effect.split())}\n")
    if len(drafts) > 1:
        details.append(
            "If the queue takes one job at a time, the others stay in labtui's waiting line and follow by themselves."
        )
    return text, details
