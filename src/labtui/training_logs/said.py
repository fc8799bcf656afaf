"""Records of what one line of a log says; `forms` makes them, `fold` takes them."""

from collections.abc import Mapping
from typing import Literal

import msgspec

from labtui.domain.model import Interval, Outcome, WorkUnit
from labtui.training_logs.keras import FirstStep, Summary
from labtui.training_logs.runs import NO_FACTS, GpuCount, RunFacts


class Says(msgspec.Struct):
    """A fact about the run that is announced and not yet training, else about the next.

    `about`: a `begun run` may have begun or ended before the line, which then fills gaps; a fact about the whole `job`
    fills gaps in all runs, one about a run by its number (from 1) in that run. `sure` is false for a fact that only
    fills gaps. `batch_line`: the line gives the batch, of all GPUs or perhaps (`open`) of each; two such lines are of
    two runs. `option` is an option of the script with its value. `starts`: only a starting process prints it, which may
    go on with a training; or a training's program evaluates. `shortage`: Keras's input ran out; the number of batches
    it needed (0: not given).
    """

    facts: RunFacts = NO_FACTS
    about: Literal["", "job", "begun run"] | int = ""
    batch_line: Literal["", "global", "open"] = ""
    option: tuple[str, str] | None = None
    sure: bool = True
    starts: Literal["", "anew", "resumed", "evaluation"] = ""
    shortage: int | None = None


class Begins(msgspec.Struct):
    """A training begins or is announced: by its echoed command, its banner, an MLPerf record, a sweep's line."""

    by: Literal["command", "banner", "record", "sweep", "config", "trainer", "fit"]
    facts: RunFacts = NO_FACTS
    text: str = ""
    masked: bool = False


class Opens(msgspec.Struct):
    """An epoch begins; `at` is in seconds by the writer's clock. `count`: the number of epochs in a block."""

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
    """An epoch is over. `number` is None where the line has none, `seconds` where the time is between two `at`.

    `count`: the number of epochs in a block. `rate`: the images per second of the epoch. `counts`: whole numbers in the
    line, by the word before each. `daytime`: its time may be that of a clock on the wall.
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
    counts: dict[str, int] = {}
    daytime: bool = False


class Measures(msgspec.Struct):
    """Metrics of an epoch that is over (`number`), or of the last one."""

    metrics: Mapping[str, float]
    number: float | None = None
    form: str = ""


class Rate(msgspec.Struct):
    """Work per second, or the seconds of a step. `total`: of the whole training, which is then over."""

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
    iteration: tuple[int, int] | None = None  # an epoch, or 0, and a count
    note: str = ""
    line: int = 0


class Ends(msgspec.Struct):
    """A training says that it ended. `final`: in its last record. `early`: before the planned epochs, on purpose."""

    success: bool = True
    outcome: Outcome | None = None
    early: bool = False
    final: bool = False
    facts: RunFacts = NO_FACTS


Said = Says | GpuCount | Begins | Opens | Summary | FirstStep | Batch | Epoch | Measures | Rate | Ends
TRAINS = (Opens, Summary, FirstStep, Batch, Epoch, Rate)
"""Records that only a training process makes: the lowest rank that makes one is the rank whose lines count."""
