"""verbose=1 in every generation of Keras: whatever the steps take, the truth lies in the interval, and it is narrow."""

import json
import statistics
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from labtui.domain.model import EpochSample
from labtui.training_logs.keras import CLOCK_SECONDS
from labtui.training_logs.reader import parse_log
from tests.training_logs.test_keras import unit as per_step

RECORDED = Path(__file__).parents[1] / "fixtures" / "keras"
TRUTHS = sorted(RECORDED.glob("*/*.json"))
GENERATIONS = ("to 2.0.8", "2.1 to 2.3", "2.2 to 2.5, late clock", "2.6 to 2.15", "3")


def left(seconds: float) -> str:
    """The time left as every release prints it: cut to whole seconds."""
    whole = int(seconds)
    if seconds > 3600:
        return f"{whole // 3600}:{whole % 3600 // 60:02d}:{whole % 60:02d}"
    return f"{whole // 60}:{whole % 60:02d}" if seconds > 60 else f"{whole}s"


def bars(generation: str, steps: list[float], validation: float = 0.0, *, separate: bool = False) -> bytes:
    """What a generation prints for one epoch of these step times, with `validation` seconds behind them."""
    count = len(steps)
    late = steps[0] if "late" in generation else 0.0
    newer = not generation.startswith(("to", "2.1"))
    pieces: list[str] = []
    now = shown = 0.0
    first = steps[0]

    def mean(done: int, now: float) -> float:
        return (now - first) / (done - 1) if newer and done > 1 else (now - late) / done

    def bar(done: int) -> str:
        if generation == "3":
            return f"\x1b[1m{done:{len(str(count))}d}/{count}\x1b[0m \x1b[32m{chr(0x2501) * 20}\x1b[0m"
        return f"{done:{len(str(count))}d}/{count} [{'=' * 30 if done == count else '>'.ljust(30, '.')}]"

    for done, step in enumerate(steps, start=1):
        now += step
        if (done == count and not newer) or (pieces and now - shown < 0.05):
            continue
        shown = now
        eta = left(mean(done, now) * (count - done))
        time = f"\x1b[1m{eta}\x1b[0m {per_step(mean(done, now))}" if generation == "3" else f"- ETA: {eta}"
        pieces.append(f"{bar(done)} {time} - loss: 1.0000")
    now += validation
    taken, unit = now - late, per_step(mean(count, now))
    if generation == "3":
        pieces.append(f"{bar(count)} \x1b[1m{taken:.0f}s\x1b[0m {unit} - loss: 1.0000")
    elif generation.startswith("to"):
        pieces.append(f"{bar(count)} - {int(taken)}s - loss: 1.0000")
    else:
        pieces.append(f"{bar(count)} - {taken:.0f}s {unit} - loss: 1.0000")
    between = "\n" if separate else "\b" * 60 + "\r"
    return ("" if separate else "\r").encode() + between.join(pieces).encode() + b"\n"


def read(epochs: list[bytes]) -> tuple[EpochSample, ...]:
    text = b"".join(b"Epoch %d/%d\n%s" % (k, len(epochs), one) for k, one in enumerate(epochs, start=1))
    (run,) = parse_log(text).runs
    return run.epochs


def holds(sample: EpochSample, seconds: float) -> bool:
    return sample.seconds.lo - 1e-9 <= seconds <= sample.seconds.hi + 1e-9


@pytest.mark.parametrize("separate", [False, True], ids=["overwritten", "one line each"])
@pytest.mark.parametrize("generation", GENERATIONS)
@given(
    mean=st.floats(0.002, 3.0), first=st.floats(0.5, 2.0),
    spread=st.lists(st.floats(0.8, 1.25), min_size=2, max_size=60),
    validation=st.sampled_from([0.0, 0.0, 0.4, 5.0]),
)  # fmt: skip
def test_the_truth_lies_in_the_interval(generation, separate, mean, first, spread, validation):
    steps = [mean * factor for factor in spread]
    steps[0] *= first
    if "late" in generation:  # the step it leaves out is bounded by two mean ones, where that can be seen
        assume(sum(steps[1:]) > 1.1 and steps[0] < 1.8 * statistics.fmean(steps[1:]))
    # "N/N 0s" ends an epoch of less than half a second, and is drawn before the end of longer ones.
    if separate:
        assume(sum(steps[1:]) > 0.6)
    one = bars(generation, steps, validation, separate=separate)
    for sample in read([one, one]):
        assert holds(sample, sum(steps) + validation), sample
        assert sample.seconds.value == pytest.approx((sample.seconds.lo + sample.seconds.hi) / 2)


def test_the_first_bar_tells_the_first_step_also_before_a_warning():
    """Without it the interval is wider, and holds the truth."""
    whole = bars("2.6 to 2.15", [4.0, *[0.1] * 24])
    cut = whole.index(b"\b")
    broken = whole[:cut] + b"WARNING:tensorflow:Callback method is slow\n" + whole[cut:]
    narrow, same, wide = (read([one, one])[0].seconds for one in (whole, broken, whole[cut:]))
    assert same == narrow
    assert wide.lo <= narrow.lo and narrow.hi <= wide.hi and wide.half_width > 3 * narrow.half_width


def test_real_fits_of_some_seconds_are_known_to_two_percent():
    """Of the recordings at verbose=1; that the truth lies inside is shown for all of them below."""
    widths = []
    for path in sorted(RECORDED.glob("*/verbose1-long.json")):
        (run,) = parse_log(path.with_suffix(".log").read_bytes()).runs
        for sample, true in zip(run.epochs, json.loads(path.read_text())["epochs"], strict=True):
            widths.append((sample.seconds.hi - sample.seconds.lo) / true["seconds"])
    assert len(widths) >= 6 and statistics.median(widths) <= 0.02


@pytest.mark.parametrize("path", TRUTHS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_truth_lies_within_every_interval_of_real_fits(path):
    """Each was recorded with a callback in front of Keras's own progress bar and one behind it, which noted a clock.

    The epoch's duration lies between `lo` (end in front - begin behind) and `hi` (end behind - begin in front).
    """
    truth = json.loads(path.read_text())
    report = parse_log(path.with_suffix(".log").read_bytes())
    (run,) = report.runs
    assert run.outcome == "completed" and not report.diagnosis
    assert [sample.epoch for sample in run.epochs] == [entry["epoch"] for entry in truth["epochs"]]
    for sample, entry in zip(run.epochs, truth["epochs"], strict=True):
        assert sample.seconds.lo <= entry["hi"] and sample.seconds.hi >= entry["lo"], (sample, entry)
        assert sample.steps == entry["steps"]
        assert sample.seconds.hi - sample.seconds.lo <= 1.0 + 2 * CLOCK_SECONDS + 1e-9
        assert sample.metrics.keys() == entry["metrics"].keys()
        for name, value in sample.metrics.items():
            assert value == pytest.approx(entry["metrics"][name], abs=5.1e-5, rel=1e-4)
        if path.parent.name != "2.6.5" and path.stem.startswith("verbose2") and "slow" not in path.stem:
            # from 2.7 on milliseconds: the bounds are those of the rounded step x the steps
            unit = 1e-6 if sample.ms_per_step < 1 else 1e-3
            assert sample.seconds.half_width <= 0.5 * unit * sample.steps * 1.001 + CLOCK_SECONDS
