"""What a log tells of a run: the one record that log readers fill, a lab folder keeps and results are counted from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from labtui.domain.model import Device, EpochSample, Interval, Outcome, Program, RunSpec, Stream, WorkUnit
from labtui.domain.tuning import Tuning

GpuSource = Literal["devices", "replicas", "job", "banner"]

_ENDS = {
    "completed": ("ran to its end", "done"),
    "unfinished": ("ended early", "ended early"),
    "oom": ("ran out of memory", "out of memory"),
    "time-limit": ("was stopped by its time limit", "time limit"),
    "cancelled": ("was cancelled", "cancelled"),
    "failed": ("failed", "failed"),
    "node-lost": ("failed: node failure", "node failure"),
    "host-memory": ("ran out of the node's memory", "node memory"),
    "never-started": ("never started", "never started"),
    "": ("reports", ""),
}
DEEDS = {end: deed for end, (deed, _) in _ENDS.items()}
"""What happened to a run, after "it" or "a run that": by its outcome, or a nearer word; "" is a run that goes on."""
CAUSES = {end: cause for end, (_, cause) in _ENDS.items()}
"""The same as a label."""


Mark = Literal["", "practice", "small"]
"""Of numbers that are not the lab's: those of a practice cluster, or of a real one's run on stand-ins for GPUs."""
MARKS: dict[Mark, str] = {"": "", "practice": "practice", "small": "small run"}


def mark_words(mark: Mark) -> str:
    """What stands behind a name: `` (practice)``, `` (small run)`` or nothing."""
    return f" ({MARKS[mark]})" if mark else ""


def joint_mark(marks: Iterable[Mark]) -> Mark:
    """What stands on something that several runs are in."""
    found = set(marks)
    return "practice" if "practice" in found else "small" if "small" in found else ""


class GpuCount(msgspec.Struct, frozen=True):
    """A number of GPUs as one line of the log gives it; `device` is cpu where the line names no GPU."""

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
    """What a banner, a command, a header line or a record tells about a run; what it does not tell is None."""

    model: str | None = None
    device: Device | None = None
    n_gpus: int | None = None
    batch_size: int | None = None
    """The global batch."""
    batch_per_gpu: int | None = None
    """The batch of one process, for logs that print it (torchrun scripts)."""
    batch_shares: int | None = None
    """How many times the script's own batch option makes the global batch, where the job's header says so."""
    epochs_planned: int | None = None
    images: int | None = None
    learning_rate: float | None = None
    framework: str | None = None
    practice: bool | None = None
    """Whether the practice cluster's own mark stands in its log."""
    small: bool | None = None
    """A small run, or one on CPU devices that stand in for GPUs."""
    tuning: Tuning | None = None
    """What its options change of its speed."""
    sequence_length: int | None = None
    """Tokens of a sequence, where the work is counted in tokens; a batch counts sequences."""
    program: Program | None = None
    """The program whose time this is: it has one sample, and no epochs."""
    processes: int | None = None
    size: str | None = None
    """The size of a program's problem as its line prints it."""
    gpu_kind: str | None = None
    """The GPU's name, without its maker's."""
    tokens_per_step: int | None = None
    process_samples: int | None = None
    """Samples an epoch of one process, where the log gives those; `process_steps` its batches."""
    process_steps: int | None = None
    total_seconds: Interval | None = None
    """Seconds of the whole training as the script itself printed them: set-up and first epoch are in it."""
    gpu_memory: Interval | None = None
    """GiB of GPU memory that rank 0 held at the end, as the script itself printed it."""

    @property
    def mark(self) -> Mark:
        """What the log says of its numbers."""
        return "practice" if self.practice else "small" if self.small else ""

    def given(self) -> dict[str, Any]:
        """The fields that are known."""
        return {name: value for name in _FACTS if (value := getattr(self, name)) is not None}

    def with_others(self, other: RunFacts, *, sure: bool = True) -> RunFacts:
        """These facts with another line's; an unsure line fills gaps only. A rehearsal stays one."""
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
    """One run as its log tells it, in a lab folder or as a bare file; `outcome` is None while that is not known."""

    practice: bool = False
    small: bool = False
    framework: str = ""
    size: str = ""
    tuning: Tuning = ()
    outcome: Outcome | None = None
    epochs: tuple[EpochSample, ...] = ()
    throughput: Interval | None = None
    """Units of work per second as the trainer itself printed it, for logs that give a rate and no epoch times."""
    throughput_printed: float | None = None
    """The digits of that rate, where they are not the middle of what they may mean (344 for [344, 345))."""
    batch_seconds: Interval | None = None
    """Seconds a batch, as the trainer last printed it (PyTorch ImageNet and its like)."""
    unit: WorkUnit = "images"
    """What its rate counts, in the log's own word."""
    totals_line: int | None = None
    """The 1-based line of the figures about the whole run."""
    contradictions: tuple[str, ...] = ()
    """Lines of the log that cannot both be true of this run; each names both. Such a run proves no scaling."""
    notes: tuple[str, ...] = ()
    """Why a figure of this run is absent or wider than one would expect; sentences."""
    interleaved: bool = False
    first_line: int = 1
    last_line: int = 1
    gpu_lines: tuple[GpuCount, ...] = ()
    """The lines that tell its GPUs."""

    @property
    def printed_rate(self) -> float | None:
        """Units of work per second as the log prints them."""
        if self.throughput_printed is not None or self.throughput is None:
            return self.throughput_printed
        return self.throughput.value


def planned_facts(spec: RunSpec) -> dict[str, Any]:
    """What was planned of a run, by the fields of `RunRecord`; without what nothing tells yet."""
    names = {name: name for name in ("model", "n_gpus", "batch_size", "learning_rate", "program", "size")}
    names |= {"epochs_planned": "epochs"}
    known = {name: getattr(spec, own) for name, own in names.items() if own not in spec.unknown}
    if "n_gpus" in known:
        known["device"] = spec.device
    return known | {"tuning": spec.tuning, "processes": spec.processes or None}
