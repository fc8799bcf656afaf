"""The record of a run as its log tells it: log readers fill it, a lab folder keeps it, results are computed from it."""

import re
from collections.abc import Collection, Iterable, Sequence
from itertools import groupby
from typing import Any, Literal, Self

import msgspec
from msgspec.structs import replace

from labtui.domain.decode import own_toml
from labtui.domain.model import Device, EpochSample, Interval, Outcome, Program, RunSpec, Stream, WorkUnit
from labtui.domain.tuning import Tuning

GpuSource = Literal["devices", "replicas", "job", "banner"]

_ENDS: dict[str, list[str]] = own_toml(__file__, "words.toml")["ends"]
DEEDS = {end: deed for end, (deed, _) in _ENDS.items()}
"""How a run ended, as a verb phrase after "run 3" or "it"; by `RunState.end`, where "" is a run in progress."""
CAUSES = {end: cause for end, (_, cause) in _ENDS.items()}
"""How a run ended, as a label; same keys."""
MIXED = "several trainings or processes wrote to this log at once, and nothing shows which epochs are whose"
WHAT_COUNTS = "More time does not help: only a run on the task's images and devices counts."
"""What to know after a small run, or one that fell back to the CPU, whose time limit ended it."""
IS_SMALL = "is a small run, which does not count as a result of the lab"
"""What follows its name."""

Mark = Literal["", "practice", "small"]
"""Marks numbers that do not count for the lab: from a practice cluster, or small ones from a real one."""
MARKS: dict[Mark, str] = {"": "", "practice": "practice", "small": "small run"}


def mark_words(mark: Mark) -> str:
    """The suffix of a name: `` (practice)``, `` (small run)`` or nothing."""
    return f" ({MARKS[mark]})" if mark else ""


def joint_mark(marks: Iterable[Mark]) -> Mark:
    """The mark of something made from several runs: practice if any is, else small if any is."""
    found = set(marks)
    return "practice" if "practice" in found else "small" if "small" in found else ""


def run_numbers(numbers: Sequence[object]) -> str:
    """Run numbers in words: ``Run 3``, ``Runs 3, 4``; three or more in a row are a range, ``Runs 3 to 9, 12``."""
    parts: list[str] = []
    for _, found in groupby(enumerate(numbers), lambda at: at[1] - at[0] if isinstance(at[1], int) else at):
        row = [str(number) for _, number in found]
        parts += row if len(row) < 3 else [f"{row[0]} to {row[-1]}"]
    return f"Run{'s' if len(numbers) > 1 else ''} {', '.join(parts)}"


def listed(noun: str, names: Collection[Any]) -> str:
    """``line 7``, ``lines 7, 9``, or nothing if there are no names."""
    return f"{noun}{'s' if len(names) > 1 else ''} {', '.join(map(str, names))}" if names else ""


def join_names(names: Iterable[str]) -> str:
    """Names in a sentence: ``A and B``, ``A, naive; B, constant``; in order: ``2 and 4 GPUs, naive``."""
    head, told, end = "", list(names), ""
    sizes = [size for name in told if (size := re.fullmatch(r"(.* · |)(\d+)( GPU| process)(e?s|)(.*)", name))]
    if len(sizes) == len(told) > 1 and len({size.group(1, 3, 5) for size in sizes}) == 1:
        sizes.sort(key=lambda size: int(size[2]))
        head, told, end = sizes[0][1], [size[2] for size in sizes], "".join(sizes[-1].group(3, 4, 5))
    if any(", " in name for name in told):
        return "; ".join(told)
    return head + " and ".join(filter(None, (", ".join(told[:-1]), *told[-1:]))) + end


class GpuCount(msgspec.Struct, frozen=True):
    """A number of GPUs as one line of the log gives it; `device` is "cpu" if the line names no GPU."""

    source: GpuSource
    count: int
    line: int
    text: str
    device: Device = "gpu"
    stream: Stream = "out"

    def __str__(self) -> str:
        place = f"line {self.line}{' of the .err' if self.stream == 'err' else ''}"
        return f'{place}: "{self.text.strip()[:120]}"'


class RunFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a banner, a command, a header line or a record tells about a run; None for what it does not tell."""

    model: str | None = None
    device: Device | None = None
    n_gpus: int | None = None
    batch_size: int | None = None
    """The global batch."""
    batch_per_gpu: int | None = None
    """The batch of one process, if the log prints it (torchrun scripts)."""
    batch_shares: int | None = None
    """The global batch divided by the script's own batch option, if the job's header says so."""
    epochs_planned: int | None = None
    images: int | None = None
    learning_rate: float | None = None
    framework: str | None = None
    practice: bool | None = None
    """Whether its log has the practice cluster's mark."""
    small: bool | None = None
    """Whether CPU devices stand in for GPUs, or the images are not the lab's: in number or in size."""
    tuning: Tuning | None = None
    """The options that change its speed."""
    sequence_length: int | None = None
    """Tokens per sequence, if the work is counted in tokens; a batch counts sequences."""
    program: Program | None = None
    """The program whose time this is: one sample, no epochs."""
    processes: int | None = None
    data_set: str | None = None
    """The images that it trains on, if the job's header says so."""
    size: str | None = None
    """The size of a program's problem as its line prints it."""
    gpu_kind: str | None = None
    """The GPU's name without the vendor's."""
    tokens_per_step: int | None = None
    process_samples: int | None = None
    """Samples per epoch of one process, if the log gives them; `process_steps` are its batches."""
    process_steps: int | None = None
    total_seconds: Interval | None = None
    """Seconds of the whole training as the script printed them, including set-up and first epoch."""
    gpu_memory: Interval | None = None
    """GiB of GPU memory that rank 0 held at the end, as the script printed it."""

    @property
    def mark(self) -> Mark:
        """The mark that the log itself gives its numbers."""
        return "practice" if self.practice else "small" if self.small else ""

    def given(self) -> dict[str, Any]:
        """The fields that are known."""
        return {name: value for name in _FACTS if (value := getattr(self, name)) is not None}

    def with_others(self, other: "RunFacts", *, sure: bool = True) -> Self:
        """These facts updated by another line's; an unsure line fills gaps only. True `practice` and `small` stay."""
        new = other.given()
        if not sure:
            new = {name: value for name, value in new.items() if getattr(self, name) is None}
        for name in ("practice", "small"):
            if getattr(self, name) or getattr(other, name):
                new[name] = True
        return replace(self, **new) if new else self


_FACTS = RunFacts.__struct_fields__
NO_FACTS = RunFacts()


class RunRecord(RunFacts, frozen=True, kw_only=True):
    """One run as its log tells it, in a lab folder or a bare file; `outcome` is None while unknown."""

    practice: bool = False
    small: bool = False
    framework: str = ""
    size: str = ""
    tuning: Tuning = ()
    outcome: Outcome | None = None
    epochs: tuple[EpochSample, ...] = ()
    throughput: Interval | None = None
    """Units of work per second as the trainer printed it, if the log gives a rate and no epoch times."""
    throughput_printed: float | None = None
    """That rate as printed, if it is not the middle of its interval (344 for [344, 345))."""
    batch_seconds: Interval | None = None
    """Seconds per batch as the trainer last printed it (PyTorch's ImageNet example and similar)."""
    unit: WorkUnit = "images"
    """The unit of its rate, in the log's word."""
    last_begun: int = 0
    """The last epoch that its log printed or began; 0 without one."""
    rate_line: int | None = None
    """The 1-based line that prints its rate."""
    contradictions: tuple[str, ...] = ()
    """Pairs of log lines that cannot both be true of this run, a sentence each. Such a run proves no scaling."""
    notes: tuple[str, ...] = ()
    """Sentences: why a figure of this run is absent or less exact than expected."""
    interleaved: bool = False
    first_line: int = 1
    last_line: int = 1
    stream: Stream = "out"
    """The log of its job that its lines are of."""
    gpu_lines: tuple[GpuCount, ...] = ()
    """The lines that give its number of GPUs."""

    @property
    def end(self) -> str:
        """How it ended, as a key of `DEEDS` and `CAUSES`; "" while unknown."""
        return self.outcome or ""

    @property
    def names_gpus(self) -> bool:
        """Whether the framework lists GPUs by name, which proves that there are some."""
        return any(line.source == "devices" and line.device == "gpu" for line in self.gpu_lines)

    @property
    def printed_rate(self) -> float | None:
        """Units of work per second as the log prints it."""
        if self.throughput_printed is not None or self.throughput is None:
            return self.throughput_printed
        return self.throughput.value

    @property
    def epochs_read(self) -> int:
        """The number of epochs that its log has; a sample may be of a block of them."""
        return sum(sample.count for sample in self.epochs)

    @property
    def trained_s(self) -> float:
        """The seconds of those epochs, the first included."""
        return sum(sample.seconds.value * sample.count for sample in self.epochs)

    def gpu_hours(self, n_gpus: int) -> float:
        """GPU-hours of training: GPUs x time of all epochs, the first included; else x time of the whole training."""
        whole = self.total_seconds.value if self.total_seconds is not None else 0.0
        return n_gpus * (self.trained_s or whole) / 3600


def planned_facts(spec: RunSpec) -> dict[str, Any]:
    """A run's plan by the field names of `RunRecord`, without the fields that are unknown."""
    names = {name: name for name in ("model", "n_gpus", "batch_size", "learning_rate", "program", "size")}
    names |= {"epochs_planned": "epochs"}
    known = {name: getattr(spec, own) for name, own in names.items() if own not in spec.unknown}
    if "n_gpus" in known:
        known["device"] = spec.device
    return known | {"tuning": spec.tuning, "processes": spec.processes or None}
