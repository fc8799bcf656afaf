"""Words and glyphs for states and numbers, times of runs, and sentences about jobs. Pure: no Textual, clock or I/O."""

from __future__ import annotations

import math
import re
import textwrap
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, takewhile
from string import ascii_lowercase
from typing import TYPE_CHECKING

from msgspec.structs import replace
from rich.cells import cell_len, set_cell_size

from labtui.domain.model import JobPhase, JobView, RunPhase, RunSpec, SubmissionStatus
from labtui.domain.run import run_numbers
from labtui.domain.state import PENDING, TRAINING, SubmissionState, submission_queue
from labtui.domain.terminal_text import clock_span, printable
from labtui.domain.tuning import distinguishing_words

if TYPE_CHECKING:
    from labtui.lab.checks import CheckItem
    from labtui.results.charts import ChartSpec
    from labtui.slurm.job_evidence import MyJob
    from labtui.tui.themes import Roles
    from labtui.tui.view import RunLine, View


TASK_GLYPHS = {"done": "✔", "partial": "◐", "open": "○", "stale": "◐"}
TASK_WORDS = {"done": "done", "partial": "begun", "open": "open", "stale": "outdated"}
PHASE_GLYPHS: dict[str, str] = dict(zip(RunPhase, "◌◔▷▶✔✘⊘?", strict=True))
PHASE_ROLES: dict[str, str] = {
    "starting": "busy",
    "running": "busy",
    "done": "good",
    "failed": "bad",
    "unknown": "warn",
    "partial": "busy",
    "stale": "warn",
}
"""The style of a phase or of a task's status, as a field of `themes.Roles`; those not listed are plain."""
_CONNECTIONS = {
    "online": ("●", "online", "good"),
    "connecting": ("○", "connecting", "quiet"),
    "stale": ("○", "no answer", "warn"),
    "offline": ("○", "offline", "warn"),
    "needs-login": ("!", "not logged in", "bad"),
}
MARKS, HOLLOW = "●◆▲■▼✚", "○◇△□▽✛"
"""The marks of a chart's series: of values that count, and of those that do not yet."""
NOTHING = "·"
"""Shown in a table for no value."""


def size_unit(specs: Iterable[RunSpec]) -> str:
    """The unit of the runs' sizes: GPUs, or what a program calls its processes."""
    return " or ".join(dict.fromkeys(spec.program.counts for spec in specs if spec.program)) or "GPUs"


def clock(at: float) -> str:
    """A UNIX time as local time of day: ``14:02``."""
    return time.strftime("%H:%M", time.localtime(at))


def span_text(seconds: float) -> str:
    """Seconds with a unit: ``58 s``, ``1:19 min``, ``1:02:03 h``."""
    if round(seconds) < 60:
        return f"{round(seconds)} s"
    return f"{clock_span(seconds)} {'min' if round(seconds) < 3600 else 'h'}"


def plain(label: str) -> str:
    """A label from outside as one line of at most 60 printable characters."""
    return printable(label)[:60].rstrip(" ,")


def shortened(name: str, room: int) -> str:
    """A name in so many cells: of a long one its start and its last number with a word; no number is cut."""
    if cell_len(name) <= room:
        return name
    ends = r" (run )?\S*\d\S*( \S+)?$" if " " in name else rf"(?<!\d)(?=\S*\d)\S{{0,{room // 2 - 1}}}$"
    last = re.search(ends, name)
    end = last[0] if last and cell_len(last[0]) + 2 < room else ""
    start = set_cell_size(name, max(0, room - 1 - cell_len(end))).rstrip(" ,(")
    if name[len(start) :][:1].isdigit():
        start = start.rstrip("0123456789.,")
    return f"{start}…{end}"


def all_shortened(names: Sequence[str], room: int) -> list[str]:
    """Names in so many cells each; a long one loses first what most others have, then what it has last.

    It keeps what tells it apart.
    """
    parts = [name.split(", ") for name in names]
    shared = Counter(chain.from_iterable(parts))
    for mine, name in zip(parts, names, strict=True):
        others = [{*each.split(", ")} for each in names if each != name]
        for part in sorted(mine, key=shared.__getitem__)[::-1]:
            rest = {*mine} - {part}
            if cell_len(", ".join(mine)) > room and rest and not any(rest <= each for each in others):
                mine.remove(part)
    return [shortened(", ".join(mine), room) for mine in parts]


def wrapped(names: Mapping[float, str], room: int) -> dict[float, list[str]]:
    """Names as lines of so many cells; {} if a word does not fit."""
    lines = {x: textwrap.wrap(plain(name), max(1, room), break_long_words=False) for x, name in names.items()}
    return lines if all(cell_len(line) <= room for each in lines.values() for line in each) else {}


def place_text(spec: ChartSpec, x: float) -> str:
    """A position on the x axis in words: ``1 GPU``, ``4 GPUs``, ``epoch 2``, ``CPU``."""
    tick, what = dict(spec.x_ticks).get(x, f"{x:g}"), plain(spec.x_label.split(",")[0].split(" (")[0])
    if spec.x_axis == "epochs":
        return f"epoch {tick}"
    if spec.x_axis == "names" and not tick.isdigit():
        return plain(tick)
    one = what.removesuffix("es" if what.endswith("sses") else "s")
    return f"{plain(tick)} {one if tick == '1' else what}"


def look_of(spec: ChartSpec, at: int, look: Roles, *, chosen: bool, hollow: bool = False) -> tuple[str, str]:
    """The mark and colour of a measured series, each mark with a colour of its own; over epochs each training.

    Where lines are more than marks, only the chosen one has them; the others are grey, with letters at their points.
    """
    from labtui.results.charts import is_crowded, looks

    if not chosen and len(spec.measured) > len(MARKS):
        return NOTHING if is_crowded(spec) else ascii_lowercase[at % 26], look.quiet
    seen = looks(spec.measured)[spec.measured[at].name]
    place = seen.hue + seen.tone * len(look.series) if spec.over_time else seen.mark
    tone, hue = divmod(place, len(look.series))
    return (HOLLOW if hollow else MARKS)[seen.mark % len(MARKS)], look.series[hue][min(tone, 3)]


MAX_CALM_FACTOR = 100
"""How fast a practice clock may run before the seconds that a program needs to start are minutes of its job."""


def connection_label(view: View) -> tuple[str, str, str]:
    """The glyph, word and role of the connection; "connecting" until the first attempt has ended."""
    connection = view.state.connection
    glyph, word, role = _CONNECTIONS[connection.status if connection.tried else "connecting"]
    return glyph, "not connected" if view.read_only and word == "connecting" else word, role


def gpu_hours(view: View) -> float:
    """The GPU-hours of the lab's jobs, as far as known: they never fall, as an estimate up to now would.

    Of a rehearsed lab those of its trainings: on a fast clock the start of a program takes many times as long.
    """
    if view.loading or not any(each.job and each.gpus for each in view.state.submissions.values()):
        return 0.0
    from labtui.results.cost import lab_cost

    bill = lab_cost(view.state)
    return bill.total.used if bill.practice else bill.total.allocated


def about_practice(factor: float | None) -> str:
    """What a practice cluster is, whose clock runs `factor` times as fast as ours."""
    pace = f"; its clock runs {factor:g} times as fast" if factor else ""
    return f"The cluster is inside this program{pace}. Its numbers are marked."


def advice_on_time(submission: SubmissionState | None, factor: float | None) -> str:
    """What to do after a time limit, and why it came early: it was shortened (by T, `cancel --after`, a rehearsal).

    Else a practice clock that is `factor` times as fast as ours may be why.
    """
    more = "The new plan gives it more time, if the queue allows it."
    if submission is not None and submission.limit_minutes < submission.time_limit_minutes:
        planned, limit = submission.time_limit_minutes, submission.limit_minutes
        return f"Its limit had been shortened from {planned} to {limit} min. {more}"
    if not factor or factor <= MAX_CALM_FACTOR:
        return more
    pace = f"On the practice clock, {factor:g} times as fast"
    return f"{more} {pace}, the start of a program takes minutes: use a smaller --factor."


def why_it_waits(view: View, line: RunLine | None) -> str:
    """A sentence on the job of a run that waits or whose state is unknown; "" for other runs."""
    submission = line.submission if line is not None else None
    waits = (*PENDING, RunPhase.UNKNOWN)
    if line is None or submission is None or line.phase not in waits or line.cancelling:
        return ""
    job = submission.job
    if job is None:  # that it waits is said elsewhere
        told = f"{submission.sentence} {submission.hint}".strip()
        return told if submission in submission_queue(view.state) else waits_for(view, submission)
    if job.phase is JobPhase.QUEUED and line.phase is RunPhase.QUEUED:
        from labtui.slurm.states import reason_words

        why = reason_words(job.phase, job.reason.replace("None", "")) or "Slurm has not said why yet."
        held, queued = "held. Press H to release it.", f"queued. {why} {start_words(job, view)}".rstrip()
        return f"Job {job.job_id} is {held if submission.held else queued}"
    if job.phase is JobPhase.UNKNOWN:
        since = clock_span(view.now - job.unknown_since) if job.unknown_since else ""
        lost = f"unknown for {since}. The cluster has not reported how it ended."
        return f"Job {job.job_id}: {lost if since else f'labtui does not know the state {job.slurm_state}.'}"
    if job.phase is JobPhase.SETTLING:
        return f"Job {job.job_id} has left the queue; no accounting record yet."
    behind = line.phase is RunPhase.QUEUED and job.phase is JobPhase.RUNNING
    return f"Job {job.job_id} trains the runs before it first." if behind else ""


def waiting_text(view: View) -> str:
    """What waits in labtui's submission queue, and why; "" if nothing does."""
    waiting = [each for each in submission_queue(view.state) if not each.cancelling]
    if not waiting or view.loading:
        return ""
    numbers = tuple(sorted(run_id for each in waiting for run_id in each.run_ids))
    told = waits_for(view, replace(waiting[0], run_ids=numbers))
    return told.replace("; sent when", "; the next job is sent when") if waiting[1:] else told


def waits_for(view: View, submission: SubmissionState) -> str:
    """Why a submission has no job, for example ``Run 5 waits. Sent when the cluster can be reached.``."""
    from labtui.slurm.states import waiting_reason

    numbers = submission.run_ids
    head = f"{run_numbers(numbers)} wait{'s' if len(numbers) == 1 else ''}. "
    why = waiting_reason(view.state, view.profile, submission)
    return (head if submission.status is SubmissionStatus.WAITING else "") + why


def start_words(job: JobView, view: View) -> str:
    """In how long Slurm expects a job to start, on the cluster's clock; "" if it has not said."""
    now = cluster_now(view)
    if job.start_estimate is None or now is None:
        return ""
    wait = job.start_estimate - now
    return f"Slurm expects it to start in about {clock_span(wait)}." if wait > 0 else "It should start now."


def live_reason(view: View, lines: Sequence[RunLine] | None = None) -> str:
    """Return a sentence like ``Run 3 has 0:09 left.``, ``Run 4 is queued. It should start now.``."""
    pending = view.pending if lines is None else lines
    first = min(pending, key=lambda line: (line.word != RunPhase.RUNNING, line.cancelling), default=None)
    if first is None:
        return ""
    if first.left_s == 0 and first.to_limit:
        return f"Run {first.run_id} is past its time limit. Slurm may take a minute or more to end it."
    if first.left_s:  # else it takes longer than was expected
        left = f"{'to its time limit' if first.to_limit else 'left'}{' on the practice clock' if view.factor else ''}"
        return f"Run {first.run_id} has {clock_span(first.left_s)} {left}."
    if first.word == RunPhase.QUEUED and first.job is not None and first.job.start_estimate:
        return f"Run {first.run_id} is queued. {start_words(first.job, view)}".rstrip()
    return f"Run {first.run_id} is {'being cancelled' if first.cancelling else first.word}."


def pending_like_charted(view: View) -> list[RunLine]:
    """The runs that have not ended of the networks and options that the view has results of."""
    drawn = (view.runs[each.run_id].run.spec for row in view.charted for each in row.members if each.run_id)
    alike = {(spec.model, spec.tuning) for spec in drawn}
    return [line for line in view.pending if (line.run.spec.model, line.run.spec.tuning) in alike]


def runs_told(view: View, items: Sequence[CheckItem]) -> list[tuple[str, str]]:
    """A mark and a sentence for each planned run; those that were not made have one sentence.

    What all names begin with is left out; options that differ are added. What goes on or failed has its own sign.
    """
    from labtui.lab.run_choice import not_run_yet

    specs = [item.run for item in items if item.run is not None]
    parts = zip(*(each.label.split(" · ") for each in specs), strict=False)
    alike = [*takewhile(lambda each: len(set(each)) == 1, parts)]
    options = distinguishing_words([each.tuning for each in specs])
    found, not_made = list[tuple[str, str]](), dict[str, list[str]]()
    for item, spec, more in zip(items, specs, options, strict=True):
        short = " · ".join(spec.label.split(" · ")[len(alike) :]) or spec.label
        name, line = ", ".join((short, *more)), view.runs.get(item.run_id or 0)
        if line is None:
            not_made.setdefault(item.task_id and f" (task {item.task_id})", []).append(name)
            continue
        said = (item.missing or item.evidence.partition(",")[0]).removeprefix(f"{spec.label}: ")
        mark = "✔" if not item.missing else "○" if line.phase is RunPhase.DONE else line.sign
        found.append((mark, f"{name}: {said}"))
    return [*found, *(("○", not_run_yet(names, where)) for where, names in not_made.items())]


def job_grid(jobs: Sequence[MyJob]) -> list[list[str]]:
    """The student's jobs as a table: its heading, then a row each with the reason why it waits."""
    from labtui.slurm.states import reason_words
    from labtui.slurm.submit import is_of_another

    grid = [["job", "name", "state", "for", "queue", "node", "run", ""]]
    for job in jobs:
        lasted = NOTHING if job.lasted_s is None else clock_span(job.lasted_s)
        others = "another folder's" if is_of_another(job, "") else "not labtui's"
        runs = ", ".join(map(str, job.run_ids)) or others
        reason = reason_words(job.phase, job.reason) if job.phase is JobPhase.QUEUED else ""
        if not job.run_ids:
            reason = reason.replace("labtui release RUN", f"scontrol release {job.job_id}")
        why = " ".join(filter(None, ("holds the queue's slot" if job.holds_slot else "", reason)))
        state = "held" if job.held else job.phase.value
        grid.append([job.job_id or NOTHING, job.name, state, lasted, job.queue, job.node, runs, why])
    return grid


def cluster_now(view: View) -> float | None:
    """The cluster's UNIX time now, or when the connection was lost; None before it was read.

    A practice cluster's clock may run faster than ours.
    """
    state, lost = view.state, view.state.connection.lost
    if state.refreshed_at is None or state.cluster_time is None:
        return None
    known = min(view.now, state.connection.since) if lost else view.now
    return state.cluster_time + max(0.0, known - state.refreshed_at) * (view.factor or 1.0)


def in_epoch(line: RunLine, view: View) -> float:
    """The seconds that a run's current epoch has taken so far; 0 where that is not known."""
    began, now = last_epoch_end(line, view, line.run_id), cluster_now(view)
    return max(0.0, now - began) if began is not None and now is not None else 0.0


def epoch_of(line: RunLine) -> tuple[str, str]:
    """The epoch under way, or how many were read of a run that is over, and of how many: ``3`` and `` of 5``."""
    read, planned = line.run.epochs_read, line.run.used.epochs
    known = "epochs" not in line.run.used.unknown
    going = line.phase is RunPhase.RUNNING and not (known and read >= planned)
    return str(read + going), f" of {planned}" if known else ""


def time_left(line: RunLine, view: View) -> tuple[float | None, float, float]:
    """The seconds a running training needs, by its pace or as expected (None: unknown), and those its limit allows.

    Also by how much its epoch is late: that tells nothing of the rest, which is then what was left on time.
    """
    run, passed, late = line.run, in_epoch(line, view), 0.0
    if line.word != RunPhase.RUNNING or "epochs" in run.spec.unknown or not run.spec.epochs:
        return None, math.inf, late
    most = line.job.limit_left(cluster_now(view)) if line.job is not None else math.inf
    counted, whole, usual = line.row.epoch_seconds if line.row is not None else None, None, None
    if counted is None and view.edition is not None and last_epoch_end(line, view, line.run_id) is not None:
        from labtui.lab.expected_time import run_seconds

        rows, first = view.results.rows if view.results is not None else (), replace(run.used, epochs=1)
        whole, usual = (run_seconds(spec, view.edition, rows) for spec in (run.used, first))
    if whole is None or usual is None:
        pace = counted or (run.epochs[-1].seconds if run.epochs else None)
        missing = max(0, run.spec.epochs - run.epochs_read)
        left = None if pace is None else pace.value * missing - min(pace.value, passed)
        late = max(0.0, passed - 2 * pace.value) if pace is not None else 0.0
    elif not run.epochs:
        late = max(0.0, passed - usual.value)
        left = whole.value - passed + late
    else:  # the rest takes as much longer than expected as the first epoch, which is warm-up
        left = (whole.value - usual.value) * max(1.0, run.epochs[0].seconds.value / usual.value) - passed
    return (None if left is None else max(0.0, left)), most, late


def limit_warning(line: RunLine, view: View) -> str:
    """A warning that a run's time limit will or may end it too early; "" when it will not."""
    seconds = line.row.epoch_seconds if line.row is not None else None
    job, now = line.job, cluster_now(view)
    if line.left_s is None or line.submission is None or job is None or seconds is None:
        return ""
    done, planned, passed = line.run.epochs_read, line.run.spec.epochs, in_epoch(line, view)
    # all as of the end of its last epoch, since nothing is known of the next one before it ends
    rest, left = seconds.scaled(max(0, planned - done)), job.limit_left(now) + passed
    if rest.hi <= left or passed > 2 * seconds.value:
        return ""
    # The log does not tell the time between epochs: at most all that was no epoch so far, the start-up included.
    share = (job.ran_s(now) - passed) / max(1, done)
    slowest = max(seconds.value, share) if len(line.submission.run_ids) == 1 else seconds.value
    first = min(planned, done + 1 + int(left // slowest))
    sure, later = "will" if rest.lo > left + SLACK_S else "may", " or later" * (first < planned)
    return f"At this pace its time limit {sure} end it in epoch {first} of {planned}{later}."


SLACK_S = 120.0
"""Slurm looks at time limits twice a minute, then gives a job `KillWait` to end, and a site may allow more."""


def last_epoch_end(line: RunLine, view: View, last: int) -> float | None:
    """When the job's runs up to the number `last` finished their last epoch, else the job or its first epoch began."""
    submission = line.submission
    if submission is None or submission.job is None:
        return None
    mine = [view.state.runs[number] for number in submission.run_ids]
    epochs = [epoch for run in mine if run.run_id <= last for epoch in run.epochs]
    if epochs or submission.job.start_time:
        return epochs[-1].ended_at if epochs else submission.job.start_time
    first = next((epoch for run in mine for epoch in run.epochs), None)
    return first.ended_at - first.seconds.value if first is not None and first.ended_at else None


def time_taken(line: RunLine, view: View) -> float | None:
    """How long a run took, or has run, in seconds; in a shared job, counted from the end of the run before.

    A run that is done took until its log's last epoch, if that has a time, also when Slurm knows its job's end.
    """
    job, trains = line.job, line.phase in TRAINING and not line.ending
    if job is None or line.submission is None:
        return None
    now = cluster_now(view) if trains else None
    began = last_epoch_end(line, view, line.run_id - 1)
    ended = now if trains else last_epoch_end(line, view, line.run_id)
    told = began is not None and ended is not None and (trains or line.run.epochs)
    by_log = (ended or 0.0) - (began or 0.0) if told else None
    of_job = len(line.submission.run_ids) == 1 and (trains or job.phase is JobPhase.FINISHED)
    slurms = of_job and (by_log is None or not (trains or line.phase is RunPhase.DONE))
    return job.ran_s(now) or None if slurms else by_log
