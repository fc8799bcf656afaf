"""The texts of the plan screen: ticket, verdict, rows, findings and script. Pure."""

import re
import shlex
from collections import Counter
from collections.abc import Sequence

import msgspec
from rich.cells import cell_len
from rich.text import Text
from textual.content import Content

from labtui.domain.model import Interval, RunPhase, RunSpec, SubmissionDraft, plural
from labtui.domain.terminal_text import range_text
from labtui.domain.tuning import option_groups
from labtui.lab.expected_time import run_seconds, sum_intervals, time_and_cost
from labtui.lab.plan import PlanRow, expected_learning_rate
from labtui.preflight.findings import MAIN_SCRIPT
from labtui.results.cost import hours_text
from labtui.session.planning import OUT_OF_MEMORY_AGAIN
from labtui.tui import format as words
from labtui.tui.guidance import NextStep
from labtui.tui.plan_model import Plan, PlanFinding, Verdict
from labtui.tui.themes import Roles, ink
from labtui.tui.widgets import frame, selected_run

FORMS = {"torchrun": "torchrun", "task-per-gpu": "srun, one task per GPU", "srun-python": "srun python"}
"""The words for how a job starts its runs, for the forms that offer a choice."""
SCALED_FOR_BATCH = 256
"""The global batch for which the base rate of a policy that scales it is meant, as in `schedules.py`."""
UNKNOWN = "?"
"""Shown for what is unknown about a run of the student's own job file."""


# ------------------------------------------------------------------ the ticket


class Figure(msgspec.Struct, frozen=True):
    """A number of the ticket: large digits, their unit, and a caption below."""

    digits: str
    unit: str
    below: str

    @property
    def line(self) -> str:
        """The number, unit and caption on one line."""
        shown = f"{self.digits} {self.unit}"
        told = f"{shown}{', ' if self.unit == 'GPU-h' else ' '}{self.below}"
        return f"at most {shown}" if self.below == "at most" else told


def ticket(plan: Plan) -> tuple[Figure, ...]:
    """The figures of the ticket: runs, time and, for jobs with GPUs, GPU-hours; () without a job that can run."""
    if not plan.drafts or plan.lacks_gpus:
        return ()
    runs = sum(len(draft.runs) for draft in plan.drafts)
    of = plan.job_file.name if plan.job_file is not None else plural(len(plan.drafts), "job")
    figures = [Figure(str(runs), "run" if runs == 1 else "runs", f"in {of}")]
    each = [_seconds(run, draft, plan) for draft in plan.requests for run in draft.runs]
    hours = sum_intervals([time_and_cost(draft, plan.edition, plan.measured)[1] for draft in plan.requests])
    if (seconds := sum_intervals(each)) is not None:
        shown = sum(round(one.value) for one in each if one is not None)  # what the rows say adds up
        bounds = Interval(shown, min(shown, seconds.lo), max(shown, seconds.hi))
        below = f"expected, {range_text(bounds, shown)}".partition(", about")[0]
        digits, unit = words.span_text(shown).split()
        figures.append(Figure(digits, unit, below.replace(f", {digits} to ", ", up to ")))
    elif limits := sum(draft.time_limit_minutes for draft in plan.requests):
        figures.append(Figure(f"{limits:,}", "min", "at most"))
    most = sum(draft.total_gpus * draft.time_limit_minutes / 60 for draft in plan.requests)
    if most:
        limit = hours_text(most)
        cost, below = (limit, "at most") if hours is None else (hours_text(hours.value), f"at most {limit}")
        figures.append(Figure(cost, "GPU-h", below))
    return tuple(figures)


def _seconds(run: RunSpec, draft: SubmissionDraft | None, plan: Plan) -> Interval | None:
    """The expected seconds of a run in its job."""
    cpus = draft.cpus * draft.nodes if draft is not None else 0
    return run_seconds(run, plan.edition, plan.measured, cpus)


def step(plan: Plan) -> NextStep:
    """The next step: a fix, or Submit."""
    if not plan.drafts and all_made(plan):
        return NextStep("Back", nothing_to_send(plan), "back", key="esc")
    if not plan.drafts:
        return NextStep("Add this run", nothing_to_send(plan), "drop_row(False)", key="d")
    if plan.problem is not None:
        return NextStep("Change the plan", plan.problem[1].sentence, "back", key="esc")
    if plan.errors:
        return _fix_step(plan, plan.errors[0])
    if why := plan.refusals or [f"{OUT_OF_MEMORY_AGAIN} s submits it unchanged."] * plan.starved:
        return NextStep("Edit the job", why[0], "edit", key="e")
    accepts = all(each is not None and each.result is not None and each.result.ok for each in plan.answers)
    said = "Slurm accepts it." if accepts else ""
    return NextStep(f"Submit {plural(len(plan.drafts), 'job')}", said, "send", key="s")


def all_made(plan: Plan) -> bool:
    """Whether all runs of a plan are done or under way."""
    return all(row.spec in plan.known for row in plan.rows)


def nothing_to_send(plan: Plan) -> str:
    """Why a plan has no job."""
    if not all_made(plan):
        return "Every run is left out. Press d to add one."
    under_way = " or under way" if any(plan.phase(row.spec) is not RunPhase.DONE for row in plan.rows) else ""
    return f"All runs of this task are done{under_way}. Press d to run the selected one again."


def _fix_step(plan: Plan, found: PlanFinding) -> NextStep:
    """The step that removes an error: a copy, a fix, a change of the plan, or an edit of the file."""
    if found.copy:
        return NextStep("Make the copy", found.finding.effect, "start_copy", key="b")
    if found.finding.fix is not None:
        return NextStep("Fix the error", found.where, "send", key="s")
    if plan.lacks_gpus:
        return NextStep("Back", "No change of the plan helps here.", "back", key="esc")
    if plan.lacks_path:
        return NextStep(
            "Edit lab.toml", f"{found.finding.effect} Set data_dir or container there.", "edit", key="e"
        )
    if plan.job_file is None and found.finding.file == MAIN_SCRIPT:
        return NextStep("Change the plan", found.finding.effect, "change_cell", key="enter")
    return NextStep("Edit the file", found.where, "edit", key="e")


# ------------------------------------------------------------------ the verdict below it


def verdict_lines(plan: Plan, styles: Roles) -> Text:
    """Slurm's answer, then the warnings about the rows."""
    lines = [_verdict(plan, styles)]
    lines += [ink(plan.why, styles.soft)] if plan.why else []
    told = filter(None, (idle_gpus(plan), *plan.warnings))
    lines += [ink("! ", styles.warn).append(each, "bold") for each in told]
    return Text("\n").join(lines)


def _verdict(plan: Plan, styles: Roles) -> Text:
    if not plan.drafts or not plan.checked:
        return ink("Checking the files ..." if plan.drafts else nothing_to_send(plan), styles.quiet)
    if plan.problem is not None:
        job, error = plan.problem
        return _line("✘", styles.bad, f"Job {job + 1} cannot be made: {error.sentence}", error.hint, styles)
    if plan.lacks_gpus:
        return _line("✘", styles.bad, "This plan cannot run on this cluster.", "o overrides this.", styles)
    given = [each for each in plan.answers if each is not None]
    if len(given) < len(plan.drafts):
        return _line("○", styles.quiet, "Slurm was not asked yet. Press i.", "", styles)
    return _slurm_answer(plan, given, styles)


def _slurm_answer(plan: Plan, given: Sequence[Verdict], styles: Roles) -> Text:
    """Slurm's answer: the first job without an acceptance, else that it accepts all."""
    for number, each in enumerate(given, 1):
        which = f"Job {number}: " if len(given) > 1 else ""
        if each.error is not None:
            return _line("?", styles.warn, f"{which}{each.error}", getattr(each.error, "hint", ""), styles)
        if each.result is not None and each.result.wait:
            return _line("◌", styles.soft, f"{which}{each.result.sentence}", each.result.hint, styles)
        if each.result is not None and not each.result.ok:
            said = f"{which}Slurm refuses this job: {each.result.sentence}"
            return _line("✘", styles.bad, said, each.result.hint, styles)
    if any(each.result is None for each in given):
        return _line("○", styles.quiet, "Asking Slurm ...", "", styles)
    what = "this job" if len(given) == 1 else f"these {len(given)} jobs"
    starts = re.search(r"to start at \d+-\d+-\d+T(\d+:\d+)", given[0].result.detail)
    end = f" and would start it at {starts[1]}." if starts and len(given) == 1 else "."
    asked = f"{plan.drafts[0].queue or 'the default queue'}, asked at {words.clock(given[0].at)}"
    return _line("✔", styles.good, f"Slurm accepts {what}{end}", asked, styles)


def _line(sign: str, role: str, sentence: str, rest: str, styles: Roles) -> Text:
    return ink(f"{sign} ", role).append(sentence, "bold").append(f"  {rest}" if rest else "", styles.soft)


def idle_gpus(plan: Plan) -> str:
    """The GPUs that a job leaves idle during its smaller runs, where a job for each size would not; "" for none."""
    told = plan.job_file is None and len(plan.drafts) == 1 and not plan.lacks_gpus
    if not told or ("job-per-size", None) not in plan.choices.values():
        return ""
    least = min(row.spec.n_gpus for row in plan.rows if row.included)
    idle = plan.drafts[0].total_gpus - least
    trains = f"{plural(least, 'GPU')} train{'s' if least == 1 else ''}"
    idles = f"{plural(idle, 'GPU')} idle{'s' if idle == 1 else ''}"
    return f"{idles} while {trains}. J makes a job for each size." if idle > 0 else ""


# ------------------------------------------------------------------ the runs


def runs_title(plan: Plan, styles: Roles) -> Text:
    """The title of the runs: what starts them (if there is a choice), and the number of control runs."""
    forms = dict.fromkeys(FORMS[each.form] for each in plan.drafts if each.form in FORMS)
    models = {plan.called(row).model for row in plan.rows if row.spec.program is None}
    started = "".join(f"  {name}" for name in models if len(models) == 1)  # else a column has them
    started += f"  started by {', '.join(forms)}" if forms else ""
    if plan.job_file is not None:
        untold = any(run.unknown for draft in plan.drafts for run in draft.runs)
        started = "  from your own job file, unchanged"
        started += f"; its log will tell what {UNKNOWN} stands for" if untold else ""
    text = ink("Runs", "bold").append(started, styles.quiet)
    if shared := shared_options(plan):
        text.append(f"  {'each ' if len(plan.rows) > 1 else ''}with {' '.join(shared)}", styles.quiet)
    if controls := sum(row.spec.is_control and row.included for row in plan.rows):
        text.append(f"  {plural(controls, 'control run')}", styles.soft)
    return text


def _options(spec: RunSpec) -> list[str]:
    """The further options of a run's script, each with its values: ``--lr 0.1``."""
    return list(map(shlex.join, option_groups(spec.extra_args)))


def shared_options(plan: Plan) -> list[str]:
    """The options that all rows share; none for programs."""
    trains = plan.rows and all(row.spec.program is None for row in plan.rows)
    every = [_options(row.spec) for row in plan.rows] if trains else [[]]
    return [each for each in every[0] if all(each in other for other in every)]


OPTIONAL = ("job", "batch", "expected")
"""The columns to drop, in this order, while the options column has fewer than `MIN_OPTIONS` cells."""
MIN_OPTIONS = 16


def table_of(plan: Plan, width: int) -> tuple[list[selected_run.TableColumn], selected_run.Rows]:
    """The table: one row a run, without columns that are empty for these runs; the last column is cut to fit."""
    rows = plan.rows
    programs = any(row.spec.program is not None for row in rows)
    titles = {
        "in": "send",
        "model": "program" if programs else "model" if plan.job_file is None else "name",
        "gpus": words.size_unit(row.spec for row in rows),
        "batch": "size" if programs else "global batch" if width > 80 else "batch",
        "per_gpu": "per GPU",
        "rate": "learning rate" if width > 80 else "LR",
        "epochs": "epochs",
        "limit": "limit",
        "expected": "expected",
        "job": "job",
        "options": "command" if programs else "options",
    }
    drop = {"per_gpu", "rate", "epochs"} if programs else set()
    drop |= {"job"} if len(plan.drafts) < 2 else set()
    drop |= {"model"} if plan.job_file is None and len({row.spec.model for row in rows}) < 2 else set()
    made = [cells(plan, at, row) for at, row in enumerate(rows)]
    for at, row in enumerate(made[1:], 1):
        if plan.draft_of(at) is not None and plan.draft_of(at) is plan.draft_of(at - 1):
            row["limit"] = ""  # a job has one
    wide = {name: max(map(cell_len, (titles[name], *(row[name] for row in made)))) for name in titles}
    wide["options"] = min(wide["options"], MIN_OPTIONS)
    shown = {name: (title, wide[name]) for name, title in titles.items() if name not in drop}
    columns = selected_run.layout(shown, ("in", "model", "options"), OPTIONAL, width)
    return columns, {str(at): [row[each.key] for each in columns] for at, row in enumerate(made)}


def cells(plan: Plan, at: int, row: PlanRow) -> dict[str, str]:
    """The cells of one row, by column; a row that is left out says so."""
    spec, unknown = row.spec, set(row.spec.unknown)
    draft = plan.requests[plan.job_of(at)] if plan.draft_of(at) is not None else None
    if draft is not None and draft.form != "own" and not draft.gpus:
        spec = msgspec.structs.replace(spec, device="cpu", n_gpus=0)  # its script asks for none
    gpus = str(spec.n_gpus) if spec.device == "gpu" else "CPU"
    if draft is not None and draft.form != "own" and draft.nodes > 1:
        gpus = f"{gpus} on {draft.nodes} nodes"
    done = plan.phase(spec) is RunPhase.DONE and not row.included  # how long it took is known
    expected = None if done or plan.lacks_gpus else _seconds(spec, draft, plan)
    named = draft.job_name if draft is not None else UNKNOWN  # as in the list of runs
    per_gpu = f"{spec.per_gpu_batch:,}" if spec.device == "gpu" else words.NOTHING
    rate = spec.learning_rate if plan.is_own(row) else expected_learning_rate(plan.edition, spec)
    shown = "" if rate is None else f"{rate:g}"
    if rate is not None and dict(spec.tuning).get("lr_policy") in ("linear", "stepping", "gradual"):
        shown = f"{rate * spec.batch_size / SCALED_FOR_BATCH:g} (base {shown})"
    found = {
        "in": "[x]" if row.included else "[ ]",
        "model": named if "model" in unknown else spec.variant or plan.called(row).model,
        "gpus": UNKNOWN if "n_gpus" in unknown else gpus,
        "batch": UNKNOWN if "batch_size" in unknown else f"{spec.batch_size:,}",
        "per_gpu": UNKNOWN if unknown & {"n_gpus", "batch_size"} else per_gpu,
        "rate": shown or words.NOTHING,
        "epochs": UNKNOWN if "epochs" in unknown else str(spec.epochs),
        "limit": f"{draft.time_limit_minutes} min" if draft and draft.time_limit_minutes else words.NOTHING,
        "expected": words.NOTHING if expected is None else words.span_text(expected.value),
        "job": str(plan.job_of(at) + 1) if draft is not None else words.NOTHING,
        "options": " ".join(each for each in _options(spec) if each not in shared_options(plan))
        or words.NOTHING,
    }
    if spec.program is not None:
        count = ("-np", str(spec.processes)) if spec.launcher == "mpirun" else (f"--ntasks={spec.processes}",)
        command = shlex.join((spec.launcher, *count, *spec.arguments, *spec.extra_args))
        found |= {"gpus": str(spec.processes), "batch": spec.size, "options": command}
    phase = plan.phase(spec)
    return found if draft is not None else found | {"in": phase.value if phase else "left out"}


# ------------------------------------------------------------------ findings


def findings_title(plan: Plan, styles: Roles) -> Text:
    """The title of the findings, with their number."""
    text = ink("Findings", "bold")
    if not plan.checked:
        return text
    counts = Counter(each.finding.severity for each in plan.findings)
    rest = ", ".join(plural(count, severity) for severity, count in counts.items())
    return text.append(f"  {rest or 'none in the scripts'}", styles.quiet)


def finding_text(plan: Plan, found: PlanFinding, styles: Roles, width: int, *, chosen: bool) -> Text:
    """A finding; the `chosen` one in full, with the change of its fix, or why it is overridden."""
    finding, reason = found.finding, plan.reasons.get(found.finding.key)
    role = styles.quiet if reason else styles.bad if finding.severity == "error" else styles.warn
    left = ink("○ " if reason else "✘ " if finding.severity == "error" else "! ", role)
    place = found.where
    if len(plan.drafts) > 1 and len(found.jobs) < len(plan.drafts):
        place += f" of job {', '.join(str(job + 1) for job in found.jobs)}"
    left.append(f"{place}  ", "bold")
    keys = Text()
    effect = finding.effect
    if chosen and (finding.fix is not None or found.copy):
        keys.append("b " if found.copy else "f ", f"bold {styles.busy}")
        keys.append("Make the copy" if found.copy else "Fix", styles.soft)
    if found.copy:
        effect += f" It begins as a copy of {found.copy}."
    whole = left.cell_len + len(effect) + keys.cell_len + 2 <= width
    text = frame.left_right(left.append(effect if whole or not chosen else ""), keys, width)
    if not chosen:
        return text
    if not whole:
        for line in frame.wrap(effect, max(20, width - 2)):
            text.append(f"\n  {line}")
    if reason:
        return text.append(f"\n  Overridden: {reason}", styles.soft)
    changes = re.findall(r"^[+-](?![+-]).*", plan.difference(found), re.MULTILINE)
    for change in coloured_diff("\n".join(changes[:4]), styles).split():
        text.append("\n  ").append_text(change)
    return text


def confirmation(plan: Plan) -> Text:
    """What to confirm before submitting: refusals, edited scripts, overridden findings, warnings; may be empty."""
    text = Text("".join(f"✘ Slurm refuses it: {each}\n" for each in plan.refusals))
    for name in sorted(plan.edited_jobs):
        text.append(f"{name}: script edited\n")
    accepted = [each.reason for job in range(len(plan.drafts)) for each in plan.accepted(job)]
    for reason, count in Counter(accepted).items():
        text.append(f"✘ {plural(count, 'finding')} overridden: {reason}\n")
    for found in plan.findings:
        if found.finding.severity == "warning" and found.finding.key not in plan.reasons:
            text.append(f"! {found.where}  {found.finding.effect}\n")
    for each in plan.warnings:
        text.append(f"! {each}\n")
    text.rstrip()
    return text


# ------------------------------------------------------------------ the script


def script_title(plan: Plan, job: int, styles: Roles, width: int) -> Text:
    """One line about the job script, with the key that shows it."""
    preview = plan.preview(job)
    if preview is None:
        return Text("")
    whose = f"slurm/{plan.job_file.name}" if plan.job_file is not None else "yours to edit"
    if plan.drafts[job] in plan.scripts:
        whose = "edited: it replaces the table"
    left = ink("▸ ", styles.quiet).append("Job script", "bold")
    left.append(f"  {plural(len(preview.script.splitlines()), 'line')}, {whose}", styles.soft)
    if changed := [each.path for each in preview.files if each.changed and each.used]:
        left.append(f"   {', '.join(changed)} changed by you", styles.warn)
    return frame.left_right(left, ink("v ", f"bold {styles.busy}").append("View", styles.soft), width)


def script(plan: Plan, job: int) -> Content:
    """The job script with syntax highlighting."""
    from textual.highlight import highlight

    options = " ".join(plan.drafts[job].options)
    head = f"# sbatch gets {options}, whatever the script says.\n\n" if options else ""
    shown = highlight(head + (plan.file_text(MAIN_SCRIPT, job) or ""), language="bash")
    for option in re.finditer(r"^#SBATCH.*$", shown.plain, re.MULTILINE):  # not comments to Slurm
        shown = shown.stylize("$foreground", *option.span())
    return shown


def coloured_diff(lines: str, styles: Roles) -> Text:
    """A unified diff in colours."""
    text = Text()
    for line in lines.splitlines():
        style = styles.good if line.startswith("+") else styles.bad if line.startswith("-") else ""
        text.append(f"{line}\n", style=style)
    return text
