"""What one line of a log says, in the words that the fold understands; `forms` make them, `fold` takes them."""

from collections.abc import Mapping
from typing import Literal

import msgspec

from labtui.domain.model import Interval, Outcome, WorkUnit
from labtui.training_logs.keras import FirstStep, Summary
from labtui.training_logs.runs import NO_FACTS, GpuCount, RunFacts


class Says(msgspec.Struct):
    """A fact about a run: of the one announced and not yet training, else of the next.

    `batch_line`: the line gives the batch size; given twice, it belongs to two runs. `job`: it is about the whole job
    and only fills gaps; `run` (from 1): about that run of the job. `option` is an option of the script and its value.
    `late`: it may come after the run has begun, and fills gaps; `totals`: it is about the run that is over. `sure` is
    false for what only fills gaps. `workers`: the batch said before is one of so many. `starts`: only a starting
    process says it. `shortage`: Keras's input ended, which would have needed so many batches (0: not given).
    """

    facts: RunFacts = NO_FACTS
    batch_line: bool = False
    job: bool = False
    run: int = 0
    gpus: GpuCount | None = None
    option: tuple[str, str] | None = None
    late: bool = False
    totals: bool = False
    sure: bool = True
    workers: int = 0
    starts: bool = False
    shortage: int | None = None


class Begins(msgspec.Struct):
    """A training begins or is announced: by its echoed command, its banner, an MLPerf record, a sweep's line."""

    by: Literal["command", "banner", "record", "sweep", "config", "trainer", "fit"]
    facts: RunFacts = NO_FACTS
    text: str = ""
    masked: bool = False


class Opens(msgspec.Struct):
    """An epoch begins; `at` are seconds of the writer's clock. `count`: of a block of so many epochs."""

    form: str
    number: float | None
    planned: int | None = None
    at: float | None = None
    count: int = 0


class Batch(msgspec.Struct):
    """A batch of an epoch, with the running mean of a batch's seconds (PyTorch's ImageNet example)."""

    epoch: int
    index: int
    total: int
    mean: Interval
    meters: str


class Epoch(msgspec.Struct):
    """An epoch is over. `number` is None where the line does not say; `seconds` where two clock readings tell.

    `count`: of a block of so many epochs. `rate`: the images per second of the epoch.
    """

    form: str
    number: float | None = None
    seconds: Interval | None = None
    planned: int | None = None
    steps: int | None = None
    metrics: Mapping[str, float] = {}
    at: float | None = None
    count: int = 0
    rate: Interval | None = None


class Measures(msgspec.Struct):
    """Metrics of an epoch that is over (`number`), or of the last one."""

    metrics: Mapping[str, float]
    number: float | None = None
    form: str = ""


class Rate(msgspec.Struct):
    """Work per second, or the seconds of a step. `total`: of the whole training, which is over."""

    form: str
    rate: Interval | None = None
    unit: WorkUnit = "images"
    step_seconds: Interval | None = None
    printed: float | None = None
    total: bool = False
    first: bool = False
    per_gpu: bool = False
    facts: RunFacts = NO_FACTS
    steps_rate: Interval | None = None
    note: str = ""


class Ends(msgspec.Struct):
    """A training ended, by its own word: `final` of its last record. `early`: before the planned epochs, as meant."""

    success: bool = True
    outcome: Outcome | None = None
    early: bool = False
    final: bool = False
    facts: RunFacts = NO_FACTS


Said = Says | Begins | Opens | Summary | FirstStep | Batch | Epoch | Measures | Rate | Ends
TRAINS = (Opens, Summary, FirstStep, Batch, Epoch, Rate)
"""What only a training process says: the lowest rank that says it is the one whose lines count."""
