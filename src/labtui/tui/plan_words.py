"""What the plan screen says: cost, findings, verdicts, files and their differences. Pure."""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rich.text import Text

from labtui.domain.errors import LabError
from labtui.domain.model import Interval, RunSpec, SubmissionDraft
from labtui.lab.plan_table import PlanRow
from labtui.results.cost import gpu_hours_of_limit
from labtui.tui import format as words
from labtui.tui.themes import Roles
from labtui.tui.widgets.tables import Row, TableColumn

if TYPE_CHECKING:
    from pathlib import Path

    from textual.content import Content

    from labtui.preflight import Finding, FindingKey
    from labtui.session.batches import Boundary
    from labtui.session.preview import FileChange, Preview
    from labtui.session.session import Session


FINDING_COLUMNS = (
    TableColumn("severity", ""),
    TableColumn("fix", " "),
    TableColumn("place", " where"),
    TableColumn("effect", " what it does"),
)
SEVERITY = {"error": "✘ error", "warning": "! warning"}
FORMS = {
    "cpu": "on the CPU",
    "one-gpu": "one GPU",
    "one-job": "all sizes",
    "job-per-size": "this size",
    "torchrun": "torchrun",
    "task-per-gpu": "srun, one task per GPU",
    "srun-python": "srun python",
    "mpi": "all of it",
    "own": "your file",
}
UNKNOWN = "?"
"""What nothing tells about a run of the student's own job file."""


def cells(row: PlanRow, draft: SubmissionDraft | None, number: int) -> tuple[str, ...]:
    """One row of the plan table; a row that is left out says so."""
    spec = row.spec
    limit = f"{draft.time_limit_minutes} min" if draft and draft.time_limit_minutes else words.NOTHING
    rate = "script's" if spec.learning_rate is None else f"{spec.learning_rate:g}"
    job = f"  {number}: {FORMS[draft.form]}" if draft is not None else "  left out"
    if spec.program is not None:
        return (
            "✔" if row.included else "○",
            f" {spec.model}",
            f" {spec.processes}",
            f" {spec.size}",
            *[f" {words.NOTHING}"] * 3,
            f" {limit}",
            f"{job:<12}",
            f"  {shlex.join(_started(spec))}",
        )
    gpus = str(spec.n_gpus) if spec.device == "gpu" else "CPU"
    if draft is not None and draft.form != "own" and draft.nodes > 1:
        gpus = f"{gpus} on {draft.nodes} nodes"
    each = str(spec.per_gpu_batch) if spec.device == "gpu" else words.NOTHING
    unknown = set(spec.unknown)
    return (
        "✔" if row.included else "○",
        f" {UNKNOWN if 'model' in unknown else spec.model}",
        f" {UNKNOWN if 'n_gpus' in unknown else gpus}",
        f" {UNKNOWN if 'batch_size' in unknown else spec.batch_size}",
        f" {UNKNOWN if unknown & {'n_gpus', 'batch_size'} else each}",
        f" {rate}",
        f" {UNKNOWN if 'epochs' in unknown else spec.epochs}",
        f" {limit}",
        f"{job:<12}",
        f"  {shlex.join(spec.extra_args) or words.NOTHING}",
    )


def _started(spec: RunSpec) -> tuple[str, ...]:
    """The words that start a program, without those of srun's step."""
    count = ("-np", str(spec.processes)) if spec.launcher == "mpirun" else (f"--ntasks={spec.processes}",)
    return (spec.launcher, *count, *spec.arguments, *spec.extra_args)


def columns_of(columns: Sequence[TableColumn], rows: Sequence[PlanRow]) -> tuple[TableColumn, ...]:
    """The plan table's columns; for programs with what their runs differ by."""
    programs = [row.spec.program for row in rows if row.spec.program is not None]
    if not programs or len(programs) < len(rows):
        return tuple(columns)
    counts = " or ".join(dict.fromkeys(program.counts for program in programs))
    titles = {"model": " program", "gpus": f" {counts}", "batch": " size", "options": "  command"}
    return tuple(replace(each, title=titles.get(each.key, each.title)) for each in columns)


def runs_title(shown: Path | None, files: Sequence[Path]) -> str:
    """Whose runs these are; where job files of the student's own can be planned instead, the key that does it."""
    if shown is not None:
        return f"Runs of slurm/{shown.name} (J: next form)"
    if not files:
        return "Runs"
    return f"Runs (J: other forms, slurm/{files[0].name}{' ...' if len(files) > 1 else ''})"


_UNKNOWN_WORDS = {"model": "model", "n_gpus": "GPUs", "batch_size": "batch", "epochs": "epochs"}


def own_sentence(draft: SubmissionDraft, place: str) -> str:
    """Which file this is, and what it does not tell about its runs."""
    missing = [
        word for name, word in _UNKNOWN_WORDS.items() if any(name in run.unknown for run in draft.runs)
    ]
    if not missing:
        return f"The plan is now {place}, your own job file, as it is."
    names = ", ".join(missing)
    return f"{place} does not set {names}. Press enter on a {UNKNOWN} to fill it in, or leave it to the log."


def _total(parts: Sequence[Interval | None]) -> Interval | None:
    known = [part for part in parts if part is not None]
    if not known or len(known) < len(parts):
        return None
    return Interval(sum(p.value for p in known), sum(p.lo for p in known), sum(p.hi for p in known))


def cost_text(
    drafts: Sequence[SubmissionDraft],
    other: Sequence[SubmissionDraft],
    previews: Sequence[Preview | LabError],
    verdicts: Mapping[SubmissionDraft, str],
    styles: Roles,
) -> Text:
    """Expected time, bars of GPU-hours (also of the other job form), then Slurm's verdicts."""
    good = [preview for preview in previews if not isinstance(preview, LabError)]
    whole = len(good) == len(drafts)
    seconds = _total([preview.seconds for preview in good]) if whole else None
    hours = _total([preview.gpu_hours for preview in good]) if whole else None
    text = Text(f"{len(drafts)} job{'s' if len(drafts) != 1 else ''}")
    if seconds is not None:
        text.append(
            f", {words.duration(seconds.lo)} to {words.duration(seconds.hi)} of running time expected"
        )
    if drafts:
        first = drafts[0]
        text.append(
            f"; account {first.account or '?'}, {first.queue or 'the default queue'}", style=styles.quiet
        )
    most, alternative = _most_hours(drafts), _most_hours(other)
    largest = max(most, alternative)
    if hours is not None and most:
        _cost_bar(
            text, "expected", hours.value / largest, f"{hours.lo:.2f} to {hours.hi:.2f} GPU-h", styles.good
        )
    if most:
        _cost_bar(text, "at most", most / largest, f"{most:.2f} GPU-h, by the time limits", styles.busy)
    if other and most:
        name = "as one job" if len(other) < len(drafts) else "one job per size"
        _cost_bar(text, name, alternative / largest, f"{alternative:.2f} GPU-h at most (J)", styles.quiet)
    for number, draft in enumerate(drafts, 1):
        if word := verdicts.get(draft):
            text.append(f"\nJob {number}: {word}")
    return text


def _most_hours(drafts: Sequence[SubmissionDraft]) -> float:
    return sum(gpu_hours_of_limit(draft.all_gpus, draft.time_limit_minutes) for draft in drafts)


def _cost_bar(text: Text, name: str, share: float, figure: str, style: str) -> None:
    full, empty = words.bar(share, 24)
    text.append(f"\n{name:<17}").append(full, style).append(empty.replace("─", " ")).append(f" {figure}")


def plan_warnings(drafts: Sequence[SubmissionDraft], known: Mapping[str, Boundary], styles: Roles) -> Text:
    """What the table itself gives reason to doubt: batches per GPU that differ, or that did not fit before."""
    text = Text()
    trained = [spec for draft in drafts for spec in draft.runs if spec.program is None]
    specs = [spec for spec in trained if spec.device == "gpu"]
    for model, boundary in known.items():
        mine = [spec for spec in specs if spec.model == model]
        batches = sorted({spec.per_gpu_batch for spec in mine})
        if len(batches) > 1 and len({spec.n_gpus for spec in mine}) > 1:
            sizes = " and ".join(f"{batch:,}" for batch in batches)
            text.append(
                f"\n! {model}: {sizes} images per GPU; only runs with the same can be compared.", styles.warn
            )
        if boundary.too_large is not None and batches and batches[-1] >= boundary.too_large:
            text.append(f"\n! {model}: {boundary.sentence}", styles.warn)
    return text


def findings_title(preview: Preview | LabError | None, place: int) -> str:
    """How many findings there are, by severity."""
    if preview is None or isinstance(preview, LabError):
        return "Findings"
    errors = sum(finding.severity == "error" for finding in preview.findings)
    warnings = len(preview.findings) - errors
    parts = [
        f"{count} {word}{'s' if count != 1 else ''}"
        for count, word in ((errors, "error"), (warnings, "warning"))
        if count
    ]
    return f"Findings of job {place + 1}: {', '.join(parts) or 'none'}{' (O: override)' if parts else ''}"


def view_title(view: str, preview: Preview | LabError | None, place: int, *, edited: bool = False) -> str:
    """What the page shows, and which key shows the next."""
    names = {"script": "Job script", "files": "Files", "difference": "Difference"}
    count = ""
    if preview is not None and not isinstance(preview, LabError):
        if view == "script":
            count = ", edited: it is used, not the table" if edited else ""
        elif view == "files":
            count = f": {len(preview.files)}"
        elif view == "difference":
            count = f": {sum(change.since == 'changed' for change in preview.files) or 'none'}"
    return f"{names.get(view, '')} of job {place + 1}{count} (v: next view)"


def finding_rows(
    preview: Preview | LabError | None, styles: Roles, reasons: Mapping[FindingKey, str]
) -> list[Row]:
    """Severity, or that it is overridden; whether there is a fix, place, first sentence."""
    if preview is None or isinstance(preview, LabError):
        return []
    rows = []
    for index, finding in enumerate(preview.findings):
        style = styles.bad if finding.severity == "error" else styles.warn
        where = f" {finding.file}:{finding.line}" if finding.line else f" {finding.file}"
        effect = " ".join(finding.effect.split())
        overridden = finding.key in reasons
        rows.append(
            Row(
                f"{index}|{finding.rule}|{where}",
                (
                    Text("○ overridden", styles.quiet)
                    if overridden
                    else Text(SEVERITY[finding.severity], style),
                    " f fixes it" if finding.fix is not None else " ",
                    where,
                    f" {effect if len(effect) < 90 else effect[:89] + '…'}",
                ),
            )
        )
    return rows


def finding_text(
    preview: Preview | LabError | None,
    draft: SubmissionDraft | None,
    finding: Finding | None,
    reasons: Mapping[FindingKey, str],
    *,
    verdict: str = "",
    copies: Sequence[tuple[str, str]] = (),
) -> Text:
    """The finding under the cursor, or what is known instead of one; `verdict` is Slurm's own, once it was asked.

    `copies` are (original, new script) pairs that the task asks the student to make.
    """
    if preview is None:
        return Text("Checking the files ..." if draft is not None else "Every run is left out.")
    if isinstance(preview, LabError):
        return Text(f"{preview.sentence}\n{preview.hint}")
    if finding is None:
        ask = "" if verdict else " Press i to ask Slurm itself."
        return Text(f"No problem found in the scripts and the job file.{ask}")
    text = Text(f"{finding.text.strip()}\n", style="bold") if finding.text.strip() else Text()
    text.append(" ".join(finding.effect.split()), style="not bold")
    for original, made in copies if finding.rule == "script-missing" else ():
        if made in finding.effect:
            text.append(f" Press esc, then b: it begins as a copy of {original}.", style="not bold")
    if reason := reasons.get(finding.key):
        text.append(f"\nOverridden: {reason}", style="not bold")
    return text


def page(
    view: str,
    preview: Preview | LabError | None,
    draft: SubmissionDraft | None,
    session: Session,
    styles: Roles,
) -> Text | Content:
    """The job script with its syntax, the files, or their difference from what was sent."""
    if preview is None or isinstance(preview, LabError) or draft is None:
        return Text("")
    if view == "script":
        from textual.highlight import highlight

        script = highlight(preview.script, language="bash")
        for option in re.finditer(
            r"^#SBATCH.*$", script.plain, re.MULTILINE
        ):  # to Slurm they are no comments
            script = script.stylize("$foreground", *option.span())
        return script
    return files_page(preview, session, styles) if view == "files" else difference_page(preview, styles)


def verdict(result: Any, error: BaseException | None) -> str:
    """Slurm's own word in one line."""
    if error is not None:
        hint = getattr(error, "hint", "")
        return f"{error} {hint}".strip()
    word = "✔" if result.ok else "✘"
    sentence = result.sentence or ("Slurm would accept it." if result.ok else "Slurm would refuse it.")
    return f"{word} {sentence} {result.hint}".rstrip()


def stops(previews: Sequence[Preview | LabError], reasons: Mapping[FindingKey, str]) -> str:
    """A sentence when something must be put right first, else ""."""
    for number, preview in enumerate(previews, 1):
        if isinstance(preview, LabError):
            return f"Job {number} cannot be made: {preview.sentence}"
        errors = [
            finding
            for finding in preview.findings
            if finding.severity == "error" and finding.key not in reasons
        ]
        if errors:
            count = f"{len(errors)} error{'s' if len(errors) != 1 else ''}"
            return f"Job {number} has {count} to fix first ({errors[0].file}:{errors[0].line})."
    return ""


def errors_of(previews: Sequence[Preview | LabError]) -> tuple[FindingKey, ...]:
    """The errors that stop the plan: a reason is given for these and no others."""
    return tuple(
        finding.key
        for preview in previews
        if not isinstance(preview, LabError)
        for finding in preview.findings
        if finding.severity == "error"
    )


def can_be_overridden(previews: Sequence[Preview | LabError]) -> bool:
    """Whether everything that stops the plan is a finding, which a reason overrides."""
    return not any(isinstance(preview, LabError) for preview in previews)


def overrides_text(previews: Sequence[Preview | LabError], reasons: Mapping[FindingKey, str]) -> Text:
    """How many findings are overridden for each reason, for the last question; nothing without any."""
    from labtui.preflight import overridden

    counts: dict[str, int] = {}
    for preview in previews:
        for found in () if isinstance(preview, LabError) else overridden(preview.findings, reasons):
            counts[found.reason] = counts.get(found.reason, 0) + 1
    text = Text()
    for reason, count in counts.items():
        text.append(f"✘ {count} finding{'s' * (count != 1)} overridden: {reason}\n")
    return text


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
        minutes = draft.time_limit_minutes
        limit = f"at most {minutes} min" if minutes else "the queue's time limit"
        details.append(f"{draft.job_name}: {limit}, {draft.queue or 'the default queue'}")
        details.append(", script edited by you\n" if draft in edited else "\n")
        for spec in draft.runs:
            details.append(f"  {_run_words(spec)}\n")
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
            "If Slurm takes one job at a time, the others wait in labtui's submission queue and are sent automatically."
        )
    return text, details


def _run_words(spec: RunSpec) -> str:
    """A run in a line; what nothing tells is left out."""
    parts = [spec.label]
    if spec.program is not None:
        return spec.label
    if "batch_size" not in spec.unknown:
        parts.append(f"{'global ' if spec.n_gpus > 1 else ''}batch {spec.batch_size:,}")
    if "epochs" not in spec.unknown:
        parts.append(f"{spec.epochs} epoch{'s' * (spec.epochs != 1)}")
    return ", ".join(parts)


_SIZE = 10


def files_page(preview: Preview, session: Session, styles: Roles) -> Text:
    """Each file with its standing beside the last job; below, one's own changes to the scripts."""
    last = _last_job(preview)
    since = f"since job {last}" if last else "sent before"
    wide = max([len(change.path) for change in preview.files] + [4])
    text = Text(f"{'file':<{wide}} {'size':>{_SIZE}}  {since}\n", style=styles.quiet)
    for change in preview.files:
        text.append(f"{change.path:<{wide}} {words.bytes_size(change.size):>{_SIZE}}  ")
        text.append(f"{_since(change, last):<16} ", style=_style(change.since, styles))
        text.append(" changed by you\n" if change.changed else "\n", style=styles.warn)
    for name in preview.left_out:
        text.append(f"{name:<{wide}} {words.NOTHING:>{_SIZE}}  no longer sent\n", style=styles.warn)
    if not last:
        text.append(
            "\nNo job of this lab folder has been accepted yet: every file is new there.\n",
            style=styles.quiet,
        )
    for change in preview.files:
        if change.changed:
            text.append("\n").append(_beside_the_original(change.path, session, styles))
    return text


def difference_page(preview: Preview, styles: Roles) -> Text:
    """The unified difference of every file since the job it is compared with."""
    text = Text()
    for change in preview.files:
        if change.difference:
            text.append(coloured(change.difference, styles)).append("\n")
        elif change.since == "changed":
            text.append(
                f"{change.path} differs from what job {change.since_job} was sent with; no difference can be shown.\n"
            )
        elif change.since == "new" and change.since_job:
            text.append(f"{change.path} is new: job {change.since_job} was sent without it.\n")
    for name in preview.left_out:
        text.append(f"{name} is not sent any more.\n")
    if text.plain:
        return text
    if not _last_job(preview):
        return Text("No job of this lab folder has been accepted yet: there is nothing to compare with.")
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


def _beside_the_original(path: str, session: Session, styles: Roles) -> Text:
    from labtui.session.folder import read_remote

    own = session.folder.read(f"scripts/{path}").decode("utf-8", "replace")
    original = read_remote(path).decode("utf-8", "replace")
    lines = difflib.unified_diff(
        original.splitlines(),
        own.splitlines(),
        f"{path} (original)",
        f"{path} (yours)",
        lineterm="",
        n=1,
    )
    return coloured("\n".join(lines), styles)
