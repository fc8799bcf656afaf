"""Which rows form a line of a scaling chart, and what follows from them: lost efficiency, outlook, cost."""

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from labtui.domain.model import Interval
from labtui.results.grouping import Configuration
from labtui.results.measured import grouped
from labtui.results.numbers import clean, fixed, lost_text, shown_bounds, three_digits, unique
from labtui.results.rows import ResultRow, StepTimes
from labtui.slurm.values import number
from labtui.training_logs.patterns import BASELINE

# --------------------------------------------------------------------------- which rows make a line


class ScalingLine(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of one model and one baseline, one row per GPU count, in rising order.

    `hidden` are further rows, with another batch per GPU, on numbers of GPUs that `rows` have.
    """

    name: str
    rows: tuple[ResultRow, ...]
    hidden: tuple[ResultRow, ...] = ()

    @property
    def compared(self) -> tuple[ResultRow, ...]:
        """The baseline, then the rows on more GPUs that can be compared with it; () without a baseline."""
        base = next((row for row in self.rows if row.is_baseline and row.speedup is not None), None)
        if base is None:
            return ()
        more = (row for row in self.rows if row.speedup is not None and row.from_rate == base.from_rate)
        return (base, *(row for row in more if row.processes > 1))

    @property
    def last(self) -> ResultRow:
        return self.rows[-1]


def same_batch(row: ResultRow, baseline: ResultRow) -> bool:
    """Whether both rows have the same batch per GPU."""
    return row.configuration.per_gpu_batch == baseline.configuration.per_gpu_batch


def by_size(rows: Iterable[ResultRow]) -> list[ResultRow]:
    """The rows with a speedup that is not in doubt: over one with the same batch per GPU. The largest size is last."""
    compared = [row for row in rows if row.speedup is not None and row.processes > 1]
    scaled = [row for row in compared if row.baseline is None or same_batch(row, row.baseline)]
    return sorted(scaled, key=lambda row: (row.processes, row.speedup.value if row.speedup else 0.0))


def scaling_lines(rows: Sequence[ResultRow]) -> tuple[ScalingLine, ...]:
    """The lines of a scaling chart, without CPU runs, control runs and runs whose log contradicts itself.

    Where other rows of a model vary the GPU count, its single rows (the sequential run with its small batch) are left
    out: they belong to the comparison of CPU and GPU, or of tunings. Those of a student's own scripts are shown.
    """

    def work(row: ResultRow) -> tuple[object, ...]:
        mine, baseline = row.configuration, row.baseline and row.baseline.configuration
        return (bool(row.mark), row.model, mine.framework, baseline or mine.work_key)

    found = (row for row in rows if row.n_gpus and not (row.contradicted or row.configuration.control))
    lines = list(map(_line, grouped(found, work).values()))
    scaling = {line.last.model for line in lines if len(line.rows) > 1 or line.last.apart_by}  # or are tuned
    own = [line for line in lines if "script" in dict(line.last.configuration.tuning)]
    shown = [line for line in lines if len(line.rows) > 1 or line in own or line.last.model not in scaling]
    firsts = [line.rows[0] for line in shown]
    names = unique([_line_name(each, firsts) for each in firsts], " ({})")
    return tuple(replace(line, name=name) for line, name in zip(shown, names, strict=True))


def _line(rows: Sequence[ResultRow]) -> ScalingLine:
    found: dict[int, ResultRow] = {}
    usual = Counter(row.configuration.per_gpu_batch for row in rows).most_common(1)[0][0]
    for row in rows:
        batch = row.baseline.configuration.per_gpu_batch if row.baseline is not None else usual
        if row.processes not in found or row.configuration.per_gpu_batch == batch:
            found[row.processes] = row
    hidden = tuple(row for row in rows if not same_batch(row, found[row.processes]))
    return ScalingLine(name=rows[0].model, rows=tuple(found[n] for n in sorted(found)), hidden=hidden)


def _line_name(row: ResultRow, siblings: Sequence[ResultRow]) -> str:
    """The title of a line, and what tells it apart from the other lines of this title."""
    others = [_line_words(each) for each in siblings if each.title == row.title]
    marks = [word for word in _line_words(row) if not all(word in each for each in others)]
    return f"{row.title} ({', '.join(marks)})" if marks else row.title


def _line_words(row: ResultRow) -> list[str]:
    mine = row.configuration
    images = f"{mine.images:,} images an epoch" if mine.whole_batches else ""
    batch = "" if mine.per_gpu_batch is None else f"{mine.per_gpu_batch:,.0f} per GPU"
    return list(filter(None, (mine.framework or "Keras", *row.apart_by, mine.data_set or images, batch)))


# --------------------------------------------------------------------------- colours

MODEL_HUES = {"ResNet50": 0, "ResNet152": 1, "ResNet101": 2}
"""The colours of these networks, by index, on every chart with several and in every file; others take free ones."""
HUES = 6
"""How many colours every drawer has."""


def hues_of(names: Iterable[str]) -> dict[str, int]:
    """The index of each one's colour: its own, else the next free one."""
    names = dict.fromkeys(names)
    own = {name: MODEL_HUES[name] for name in names if name in MODEL_HUES}
    free = itertools.cycle([hue for hue in range(HUES) if hue not in own.values()])
    return {name: own[name] if name in own else next(free) for name in names}


def with_hues(rows: Sequence[ResultRow]) -> list[ResultRow]:
    """The rows with a colour for each network or name of own jobs in a lab or on a page, the oldest first."""

    def name(row: ResultRow) -> str:
        return f"{row.called} {row.model}".strip()

    hues = hues_of(map(name, sorted(rows, key=attrgetter("first_run"))))
    return [replace(row, hue=hues[name(row)]) for row in rows]


# --------------------------------------------------------------------------- programs that are timed without epochs

# Strong and weak scaling are never mixed: a program is defined as one of the two.


def program_rows(measured: Sequence[ResultRow]) -> tuple[ResultRow, ...]:
    """The rows of programs that have a time, compared with the time of one process."""
    rows = [row for row in measured if row.program and row.epoch_seconds and row.epoch_seconds.lo > 0]
    return tuple(_compared(row, rows) for row in rows)


def work_of(size: str) -> int | None:
    """The work of a size like ``100x200``: the product of its numbers; None where it has another form."""
    numbers = [found for word in size.split("x") if (found := number(word)) is not None]
    return math.prod(numbers) if len(numbers) == size.count("x") + 1 else None


def _own_baseline(row: ResultRow) -> Interval | None:
    """The time of one process that the row's own log lines print."""
    found = (sample.metrics for run in row.members for sample in run.run.epochs)
    told = [each for each in found if each.keys() >= set(BASELINE) and each[BASELINE[1]] > 0]
    return Interval.mean([Interval(*(each[name] for name in BASELINE)) for each in told])


def _compared(row: ResultRow, rows: Sequence[ResultRow]) -> ResultRow:
    """The row with its ratios to the time of one process."""
    base = row.compared_with
    ones = [one for one in rows if (one.model, one.mark, one.processes) == (row.model, row.mark, 1)]
    alike = (one for one in ones if (_has_grown(row, one) if row.is_weak else one.size == row.size))
    first = next(alike, None)
    if row.is_weak and first is None and ones:
        said = f"Its size is not {row.processes:,} times that of one process: this is not weak scaling."
        return replace(row, baseline=ones[0]).with_notes(said)
    own = None if first is not None or row.is_weak else _own_baseline(row)
    one_process = own if first is None else first.epoch_seconds
    if one_process is None or row.epoch_seconds is None:
        return row.with_notes(f"There is no time of {base} to compare with.")
    ratio = Interval.exact(1.0) if first is row else one_process.over(row.epoch_seconds)
    if own is not None:
        row = row.with_notes(f"Compared with the time of {base} in its own line.")
    if row.is_weak:
        return replace(row, baseline=first, efficiency=ratio)
    return replace(row, baseline=first, speedup=ratio, efficiency=ratio.scaled(1 / row.processes))


def _has_grown(row: ResultRow, one: ResultRow) -> bool:
    """Whether a row's size is that of one process times its processes, as far as the sizes tell."""
    mine, its = work_of(row.size), work_of(one.size)
    return mine is None or its is None or mine == its * row.processes


def program_lines(rows: Iterable[ResultRow]) -> list[list[ScalingLine]]:
    """The lines of each program, one for each size in strong scaling; practice runs have their own."""
    programs = grouped(rows, lambda row: (row.mark, row.model)).values()
    lines = (grouped(each, lambda row: row.name).items() for each in programs)
    return [[ScalingLine(name=name, rows=tuple(found)) for name, found in each] for each in lines]


# --------------------------------------------------------------------------- control runs

INDEPENDENT, ONE_BATCH = "independent", "one-batch"
"""Control runs, each without one cause of waiting. Independent: all GPUs train at once, each by itself with the batch
and the images it has in the joint training; they share the node but exchange no gradients. One batch: the first batch
over and over, without a data loader."""


def with_controls(rows: Sequence[ResultRow]) -> list[ResultRow]:
    """The rows with the step times of their control runs on the same GPUs, in seconds."""
    found: dict[Configuration, dict[str, Interval]] = {}
    for row in rows:
        step, control = steady_step(row), row.configuration.control
        if control and step is not None:
            own = tuple(pair for pair in row.configuration.tuning if pair[0] != "control")
            found.setdefault(replace(row.configuration, tuning=own), {})[control] = step
    return [replace(row, controls=found.get(row.configuration, {})) for row in rows]


def steady_step(row: ResultRow) -> Interval | None:
    """The time of a step, with the wider of its rounding bounds and the 95 % interval of its epochs."""
    step = row.step_seconds
    if step is None or row.scatter is None or not row.steps:
        return None
    half = row.scatter.margin / row.steps
    return Interval(step.value, min(step.lo, step.value - half), max(step.hi, step.value + half))


def data_seconds(row: ResultRow) -> Interval | None:
    """Seconds that a step waits for data: its time minus that of a step in the one-batch control run."""
    step, without = steady_step(row), row.controls.get(ONE_BATCH)
    return None if step is None or without is None else step.minus(without)


# --------------------------------------------------------------------------- where the efficiency goes


class LostPart(NamedTuple):
    """A part of the lost efficiency: a fraction of 1, what it is known from, and its points of 100 as shown."""

    name: str
    share: Interval
    evidence: str
    text: str = ""

    @property
    def is_shown(self) -> bool:
        """Whether it is more than zero, or less, in the digits that are shown."""
        return bool(self.text.strip("-0."))


SHORT_BATCH, SLOWER_STEPS, UNEXPLAINED = "short last batch", "slower steps", "unexplained"
_MIN_SHARE = 0.001
"""A tenth of a point: less is not shown as a part of its own."""
WAITING_FOR_DATA, WAITING_FOR_SLOWEST = "waiting for data", "waiting for the slowest GPU"
COMMUNICATION, SLOWER_COMPUTING = "communication", "slower computing on each GPU"
_PARTS_OF_A_STEP = {
    "data_seconds": WAITING_FOR_DATA,
    "imbalance_seconds": WAITING_FOR_SLOWEST,
    "allreduce_seconds": COMMUNICATION,
    "compute_seconds": SLOWER_COMPUTING,
}
CONTENTION, EXCHANGE = "contention on the node", "communication and waiting"
COLOUR_OF_PART = {CONTENTION: 0, SLOWER_STEPS: 1, SHORT_BATCH: 2, EXCHANGE: 3}
COLOUR_OF_PART |= dict(zip(_PARTS_OF_A_STEP.values(), (1, 4, 3, 0), strict=True))
"""The index of a part's colour: a hue, or one more colour after them; the unexplained part is grey."""


def lost_efficiency(row: ResultRow) -> tuple[LostPart, ...]:
    """What a row loses of 100 %: with E = b x t, the short last batch costs 1 - b and slower steps b - E.

    Each is rounded by itself to the digits of `lost_text`; to one less where only then their texts add up to what is
    lost in all. Nothing is split where the baseline has another batch per GPU: its steps are other steps.
    """
    base = row.baseline
    if row.efficiency is None or row.batch_factor is None or base is None or not same_batch(row, base):
        return ()
    parts = _split(row, shown_bounds(row, row.efficiency, ratio=True), row.batch_factor)
    digits, lost = len(lost_text(row.efficiency).partition(".")[2]), 100 * (1 - row.efficiency.value)

    def shown(places: int) -> tuple[LostPart, ...]:
        return tuple(part._replace(text=fixed(100 * part.share.value, places)) for part in parts)

    def add_up(places: int) -> bool:
        return fixed(math.fsum(float(part.text) for part in shown(places)), places) == fixed(lost, places)

    fewer = digits > 0 and add_up(digits - 1) and not add_up(digits)
    return shown(digits - fewer)


def _split(row: ResultRow, efficiency: Interval, batch_factor: float) -> list[LostPart]:
    """The lost parts; slower steps are split into `measured_parts`.

    A part that its bounds cannot tell from zero stays in the rest, whose bounds it widens.
    """
    short = LostPart(SHORT_BATCH, Interval.exact(1 - batch_factor), "the number of steps")
    slower = Interval.exact(batch_factor).minus(efficiency)
    found = measured_parts(row)
    known = [part for part in found if part.share.lo > 0 and part.share.value >= _MIN_SHARE]
    if not known and not _step_times(row):
        return [short, LostPart(SLOWER_STEPS, slower, "the time of a step")]
    rest = slower
    for part in found:
        hidden = part.share.minus(Interval.exact(part.share.value))
        rest = rest.minus(part.share if part in known else hidden)
    unexplained = LostPart(UNEXPLAINED, rest, "what is left")
    nothing = not _step_times(row) and abs(rest.value) < _MIN_SHARE / 1000
    return [short, *known] if nothing else [short, *known, unexplained]


def loses(row: ResultRow) -> bool:
    """Whether a row loses some efficiency, in the digits that are shown."""
    return any(part.is_shown for part in lost_efficiency(row))


def measured_parts(row: ResultRow) -> list[LostPart]:
    """What each cause costs of 100 %, from the step times in the logs or from control runs, zeros included."""
    if row.efficiency is None or row.batch_factor is None:
        return []
    if times := _step_times(row):
        mine, base = times
        scale = row.batch_factor / mine.seconds.value
        parts = _PARTS_OF_A_STEP.items()
        more = {name: getattr(mine, field).minus(getattr(base, field)) for field, name in parts}
        told = "the step times of both logs"
        return [LostPart(name, seconds.scaled(scale), told) for name, seconds in more.items()]
    return _by_control_runs(row, row.efficiency, row.batch_factor)


def _step_times(row: ResultRow) -> tuple[StepTimes, StepTimes] | None:
    """The step times of a row and of its baseline, where both logs have them."""
    mine, base = row.step_times, row.baseline.step_times if row.baseline else None
    return None if mine is None or base is None else (mine, base)


def _by_control_runs(row: ResultRow, efficiency: Interval, batch_factor: float) -> list[LostPart]:
    step, alone = steady_step(row), row.controls.get(INDEPENDENT)
    data, data_on_one = data_seconds(row), data_seconds(row.baseline) if row.baseline else None
    if step is None:
        return []
    scale = batch_factor / step.value
    found, waiting = [], Interval.exact(0.0)
    if data is not None and data_on_one is not None:
        part = LostPart(WAITING_FOR_DATA, data.minus(data_on_one).scaled(scale), "one batch again and again")
        found.append(part)
        waiting = part.share if part.share.lo > 0 else waiting
    if alone is not None:
        slowed = alone.scaled(scale).minus(efficiency)
        # Independent trainings wait for data, too: by as much as they are slower than one, at most as in the joint one.
        theirs = min(waiting.value, max(0.0, slowed.value))
        bounds = (0.0, waiting.hi)
        exchange = step.minus(alone).scaled(scale).minus(Interval(waiting.value - theirs, *bounds))
        found.append(LostPart(EXCHANGE, exchange, "independent trainings at once"))
        contention = slowed.minus(Interval(theirs, *bounds))
        found.append(LostPart(CONTENTION, contention, "independent trainings at once"))
    return found


def pop_metrics(row: ResultRow) -> dict[str, Interval]:
    """The factors of the step's efficiency, as the POP project defines them (pop-coe.eu); {} without step times.

    The fastest GPU's computing stands for the mean of all. Waiting for data is part of the communication efficiency.
    """
    mine, base = _step_times(row) or (None, None)
    if not mine or not base or min(base.compute_seconds.lo, mine.compute_seconds.lo, mine.seconds.lo) <= 0:
        return {}
    longest = mine.compute_seconds.value + mine.imbalance_seconds.value
    return {
        "load balance": mine.compute_seconds.scaled(1 / longest),
        "communication efficiency": Interval.exact(longest).over(mine.seconds),
        "computation scaling": base.compute_seconds.over(mine.compute_seconds),
    }


# --------------------------------------------------------------------------- beyond the measured sizes


class Outlook(msgspec.Struct, frozen=True, kw_only=True):
    """Two speedups expected on `n_gpus`, twice the `measured` ones, with the same batch per GPU.

    `same`: the step takes as long as on `measured` GPUs; `grows`: it grows once more as it did from half of them.
    """

    line: ScalingLine
    measured: int
    n_gpus: int
    same: float
    grows: float

    @property
    def sentence(self) -> str:
        """Both speedups in words."""
        return (
            f"On {self.n_gpus} GPUs (not measured) {clean(self.line.name)} would have a speedup of "
            f"{three_digits(self.same)} if the step stays as on {self.measured} GPUs, of {three_digits(self.grows)} "
            f"if it grows as it did from {self.measured // 2} to {self.measured}."
        )


def outlooks(rows: Sequence[ResultRow]) -> tuple[Outlook, ...]:
    """An outlook for every line that was measured on n/2 and n GPUs with the same batch per GPU.

    None above 100 %, where what made it faster than ideal is not known.
    """
    return tuple(filter(None, map(_outlook, scaling_lines(rows))))


def _outlook(line: ScalingLine) -> Outlook | None:
    alike = {row.processes: row for row in line.compared if same_batch(row, line.compared[0])}
    n = line.compared[-1].processes if line.compared[1:] else 0
    half, last = {2 * at: row for at, row in alike.items()}.get(n), alike.get(n)
    if half is None or last is None:
        return None
    before, now = (row.step_factor or row.efficiency for row in (half, last))
    faster_than_ideal = last.efficiency is not None and last.efficiency.value > 1
    if before is None or now is None or now.value <= 0 or faster_than_ideal:
        return None
    whole = last.batch_factor_on(2 * n) if last.step_factor is not None else None
    same = 2 * n * (whole or 1.0) * now.value
    slower = before.value / now.value
    return Outlook(line=line, measured=n, n_gpus=2 * n, same=same, grows=same / max(1.0, slower))
