"""Check that labtui attributes known causes of lost efficiency to the right part.

A known cause (a slow loader, a rank delayed in its backward pass, a slow line, withheld cores) is planted into real
trainings: two gloo processes of PyTorch, whose logs have step times, and two CPU devices of TensorFlow's
MirroredStrategy, whose parts come from control runs. For each cause it prints, in points of lost efficiency, what was
planted and what labtui finds in that part; how much the other parts differ from those of a training without a cause;
and how much the step that labtui predicts without the cause differs from the one measured without it. The planted
amount is the mean of the pauses made; for a slow line and for TensorFlow it is what removing the cause saves. Parts
have labtui's own bounds, differences between rounds have bounds that hold for a whole table at 95 %. Exit status 1 if
they do not agree.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from labtui.domain.model import Interval
from labtui.results.compute import compute_results
from labtui.results.measured import measured_from_reports
from labtui.results.numbers import grid_text
from labtui.results.rows import ResultRow, Scatter
from labtui.results.scaling import (
    COMMUNICATION,
    CONTENTION,
    SLOWER_COMPUTING,
    WAITING_FOR_DATA,
    WAITING_FOR_SLOWEST,
    measured_parts,
    steady_step,
)
from labtui.training_logs.reader import parse_log
from tests.conftest import TORCH_PYTHON
from tests.real_cluster.dataset import write_cifar
from tests.remote.conftest import REMOTE, trained
from tests.remote.small_network import BEFORE as TRAIN
from tests.remote.torch_ranks import SCRIPTS, SMALL, Ranks

CAUSE_S = 0.1
LINE_MBIT_S = 20
"""On such a line the gradients of the small network, 133 kB from each of two ranks, take about `CAUSE_S`."""
FIRST = """
import contextlib, os
with contextlib.suppress(OSError):  # where this may be: before whatever else is running here
    os.nice(-15)
    with open("/proc/self/autogroup", "w") as group:  # Linux shares the cores among sessions first
        group.write("-15")
if "CORE" in os.environ:
    os.sched_setaffinity(0, [int(os.environ["CORE"])])
"""
PYTORCH = f"""{FIRST}
import ctypes, sys, time
if "NETWORK" in os.environ:  # before any thread of gloo
    with open(os.environ["NETWORK"]) as namespace:
        assert ctypes.CDLL(None).setns(namespace.fileno(), 0) == 0
sys.path.insert(0, {str(SCRIPTS)!r})
import torch
import datasets, step_times, train_ddp
from torch.nn import functional

step_times.EVERY = 2
work = torch.rand(256, 256)
loaders, loss_of = datasets.make_loaders, functional.cross_entropy

def pause(cause):
    if cause in os.environ:
        began = time.perf_counter()
        time.sleep(float(os.environ[cause]))
        print("planted", time.perf_counter() - began, file=sys.stderr, flush=True)

class Slow:
    def __init__(self, loader):
        self.loader = loader
    def __len__(self):
        return len(self.loader)
    def __iter__(self):
        for batch in self.loader:
            pause("SLOW_LOADER")
            yield batch

def make_loaders(*words):
    train, sampler, val = loaders(*words)
    return Slow(train), sampler, val

def cross_entropy(*words):
    if "ONE_CORE" in os.environ:  # for what computes; gloo's own threads keep the other cores
        os.sched_setaffinity(0, [int(os.environ["ONE_CORE"])])
    loss = loss_of(*words)
    for _ in range(60):
        work @ work
    if loss.requires_grad and os.environ["RANK"] == "1":
        loss.register_hook(lambda gradient: pause("SLOW_RANK"))
    return loss

datasets.make_loaders, functional.cross_entropy = make_loaders, cross_entropy
train_ddp.main()
"""
BEFORE = ".batch(batch_size).prefetch(tf.data.AUTOTUNE)\n    test_ds"
SLOW = ".batch(batch_size).map(slow)\n    test_ds"
LOADER = '''


def slow(pixels, labels):
    """The batch, after a while."""
    def pause(count):
        time.sleep(float(os.environ.get("SLOW_LOADER", 0)) * int(count))
        return count

    tf.numpy_function(pause, [tf.shape(labels)[0]], tf.int32)
    return pixels, labels
'''
NETWORK = '''\
def network(include_top, weights, input_shape, classes):
    """Under ResNet50V2's name: enough to compute for a core, few weights to exchange."""
    layers = [tf.keras.Input(input_shape), tf.keras.layers.Conv2D(32, 5, activation="relu")]
    layers += [tf.keras.layers.Conv2D(32, 5, activation="relu") for _ in range(2)]
    layers += [tf.keras.layers.GlobalAveragePooling2D(), tf.keras.layers.Dense(classes, activation="softmax")]
    return tf.keras.Sequential(layers, name="resnet50v2")


def train(args, network=network):
'''
BATCH, IMAGES, PAUSE_S = 16, 320, 0.01
"""For TensorFlow: the batch on each device, the number of images, and the pause of the slow loader per image, in s."""


class Case(NamedTuple):
    """A cause: the part to which it belongs, and the environment that plants it."""

    name: str
    part: str
    planted: Mapping[str, str]


class Measured(NamedTuple):
    """labtui's rows of one device and of two for some trainings, and the mean of the pauses made, in seconds."""

    one: ResultRow
    two: ResultRow
    pause: Interval | None

    def parts(self) -> dict[str, Interval]:
        """The seconds that each cause adds to a step on two devices, compared with one."""
        return {part.name: part.share.scaled(1 / self.points(1.0)) for part in measured_parts(self.two)}

    def points(self, seconds: float) -> float:
        """The efficiency lost by so many seconds of a step, as a fraction of 1."""
        assert self.two.batch_factor is not None
        step = self.two.step_times.seconds if self.two.step_times else known_step(self.two)
        return seconds * self.two.batch_factor / step.value

    def more(self) -> float:
        """How many seconds longer a step takes on two devices than on one, from the times of whole epochs."""
        return known_step(self.two).value - known_step(self.one).value


def known_step(row: ResultRow) -> Interval:
    step = steady_step(row)
    assert step is not None, "the epochs of a training have a steady step"
    return step


FIGURES = 24
"""At least the number of differences in a table (other parts, predictions, planted amounts), for the correction."""


def mean(values: Sequence[float], figures: int = 1) -> Interval:
    """The mean of two or more values, with bounds at 95 % for `figures` together (Bonferroni, Student's t)."""
    drawn = np.abs(np.random.default_rng(0).standard_t(len(values) - 1, 2_000_000))
    quantile = float(np.quantile(drawn, 1 - 0.05 / figures))
    return Interval.around(
        statistics.fmean(values), quantile * Scatter(statistics.stdev(values), len(values)).standard_error
    )


# --------------------------------------------------------------------------- trainings

Log = tuple[bytes, list[float]]
"""The log of a training, and the planted pauses in seconds."""


def pytorch(folder: Path, ranks: int, epochs: int, planted: Mapping[str, str]) -> Log:
    script = folder / "planted.py"
    script.write_text(PYTORCH, encoding="utf-8")
    words = [*SMALL, "--num_epochs", str(epochs), "--epochs_eval", str(epochs)]
    done = Ranks(folder, ranks, *words, script=str(script), everywhere=planted).ended()
    if any(each.code for each in done):
        raise SystemExit(f"A training failed:\n{done[0].err}")
    pauses = [float(each) for one in done for each in re.findall(r"planted (\S+)", one.err)]
    return done[0].out.encode(), pauses


def tensorflow(folder: Path, devices: int, control: str, epochs: int, planted: Mapping[str, str]) -> Log:
    scripts, data = folder / "remote", folder / "cifar-10-batches-py"
    if not scripts.exists():
        shutil.copytree(REMOTE, scripts)
        write_cifar(data, per_file=IMAGES // 5)
        loader, train = scripts / "cifar-utils" / "cifar.py", scripts / "ResNet50.py"
        text = (
            loader.read_text("utf-8").replace(BEFORE, SLOW).replace("import os\n", "import os\nimport time\n")
        )
        loader.write_text(text + LOADER, "utf-8")
        train.write_text(FIRST + train.read_text("utf-8").replace(TRAIN, NETWORK), "utf-8")
    here = Path(tempfile.mkdtemp(dir=folder))
    words = ["--epochs", str(epochs), "--batch_size", str(devices * BATCH), "--n_gpus", str(devices)]
    words += ["--data", str(data), "--images", str(IMAGES), "--control", control, "--threads", "1"]
    done = trained(here, str(scripts / "ResNet50.py"), *words, **planted)
    if done.status:
        raise SystemExit(f"A training failed:\n{done.err.decode()}")
    return done.out, []


def measure(logs: Sequence[Log]) -> Measured:
    reports = [(f"{at}.out", parse_log(out)) for at, (out, _) in enumerate(logs)]
    rows = [
        row for row in compute_results(measured_from_reports(reports)).rows if not row.configuration.control
    ]
    one, two = (next(row for row in rows if row.n_gpus == count) for count in (1, 2))
    pauses = [each for _, found in logs for each in found]
    return Measured(one, two, mean(pauses) if pauses else None)


# --------------------------------------------------------------------------- cases

FIRST_CORE = str(min(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0)
NONE = "none"
LOADER_IS_SLOW, RANK_IS_SLOW, LINE_IS_SLOW = "slow loader", "slow rank", "slow line"
TORCH = (
    Case(LOADER_IS_SLOW, WAITING_FOR_DATA, {"SLOW_LOADER": str(CAUSE_S)}),
    Case(RANK_IS_SLOW, WAITING_FOR_SLOWEST, {"SLOW_RANK": str(CAUSE_S)}),
    Case(LINE_IS_SLOW, COMMUNICATION, {"GLOO_SOCKET_IFNAME": "lo"}),
    Case("cores withheld", SLOWER_COMPUTING, {"ONE_CORE": FIRST_CORE}),
)
TENSORFLOW = (
    Case(LOADER_IS_SLOW, WAITING_FOR_DATA, {"SLOW_LOADER": str(PAUSE_S)}),
    Case("cores withheld", CONTENTION, {"CORE": FIRST_CORE}),
)


@contextlib.contextmanager
def slow_line() -> Iterator[str]:
    """The path of a network namespace with a slow loopback; "" if it cannot be made (needs Linux, root and tc)."""
    if shutil.which("unshare") is None:
        yield ""
        return
    shape = f"tc qdisc add dev lo root tbf rate {LINE_MBIT_S}mbit burst 16kb latency 5s"
    script = f"ip link set lo mtu 1500 up && {shape} && echo up && exec cat"
    holder = subprocess.Popen(
        ["unshare", "--net", "sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with holder:
        assert holder.stdin is not None and holder.stdout is not None
        yield f"/proc/{holder.pid}/ns/net" if holder.stdout.readline() == b"up\n" else ""
        holder.stdin.close()


Round = dict[str, list[Log]]
"""The logs of one training per cause; under ``none`` those without a cause."""


def torch_round(folder: Path, epochs: int) -> Round:
    """Run PyTorch's trainings; only those with two ranks have a cause."""
    one = pytorch(folder, 1, epochs, {})
    made = {NONE: [one, pytorch(folder, 2, epochs, {})]}
    for case in TORCH:
        with slow_line() if case.name == LINE_IS_SLOW else contextlib.nullcontext("here") as network:
            if network:
                more = {} if network == "here" else {"NETWORK": network}
                made[case.name] = [one, pytorch(folder, 2, epochs, {**case.planted, **more})]
    return made


def tensorflow_round(folder: Path, epochs: int) -> Round:
    """Run TensorFlow's trainings and control runs; all of them have the cause."""
    runs = [(1, "none"), (1, "one-batch"), (2, "none"), (2, "one-batch"), (2, "independent")]
    return {
        name: [tensorflow(folder, *run, epochs, planted) for run in runs]
        for name, _, planted in ((NONE, "", {}), *TENSORFLOW)
    }


# --------------------------------------------------------------------------- judging


def points(found: Measured, seconds: Interval) -> str:
    value, half = (100 * found.points(each) for each in (seconds.value, seconds.half_width))
    return f"{value:.1f} ±{half:.1f}"


def judge(case: Case, rounds: Sequence[Round]) -> tuple[list[str], list[str]]:
    """The row of the table, and what is wrong.

    The part has labtui's own bounds. It is compared with differences to the training without a cause of the same round,
    since the machine varies more between rounds than between epochs.
    """
    found = measure([log for each in rounds for log in each[case.name]])
    pairs = [(measure(each[case.name]), measure(each[NONE])) for each in rounds]
    mine = found.parts()[case.part]
    planted = found.pause or mean([each.more() - clean.more() for each, clean in pairs], FIGURES)
    held = mine.lo > 0 and mine.lo <= planted.hi and planted.lo <= mine.hi
    wrong = [] if held else [f"{case.part} does not hold what was planted"]
    others = []
    for name in found.parts().keys() - {case.part}:
        more = mean([each.parts()[name].value - clean.parts()[name].value for each, clean in pairs], FIGURES)
        others.append(f"{name} {points(found, more)}")
        wrong += [] if more.contains(0.0) else [f"{name} is not zero"]
    missed = mean(
        [each.more() - each.parts()[case.part].value - clean.more() for each, clean in pairs], FIGURES
    )
    wrong += [] if missed.contains(0.0) else ["the prediction without it misses"]
    prediction = f"{1e3 * missed.value:+.1f} ±{1e3 * missed.half_width:.1f} ms"
    lost = [points(found, seconds) for seconds in (planted, mine)]
    return [case.name, case.part, *lost, "; ".join(sorted(others)), prediction], wrong


def main() -> int:
    """Print the tables; return 1 if something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=["pytorch", "tensorflow"])
    parser.add_argument("--rounds", type=int, default=8, help="each training is made once in a round")
    parser.add_argument("--epochs", type=int, default=5, help="of each training; the first is not counted")
    options, _ = parser.parse_known_args()
    failures = []
    for name, train, cases in (("pytorch", torch_round, TORCH), ("tensorflow", tensorflow_round, TENSORFLOW)):
        if options.only not in (None, name) or (name == "pytorch" and not TORCH_PYTHON.exists()):
            continue
        grid = [
            ["cause", "part", "planted", "measured", "others, beside no cause", "predicted, beside no cause"]
        ]
        with tempfile.TemporaryDirectory() as folder:
            rounds = [train(Path(folder), options.epochs) for _ in range(options.rounds)]
        clean = measure([log for each in rounds for log in each[NONE]])
        shown = "; ".join(f"{part} {points(clean, seconds)}" for part, seconds in clean.parts().items())
        step = known_step(clean.two)
        print(f"{name}, no cause: {shown}; a step {1e3 * step.value:.0f} ±{1e3 * step.half_width:.0f} ms")
        for case in cases:
            if case.name in rounds[0]:
                row, wrong = judge(case, rounds)
                grid.append(row)
                failures += [f"{name}, {case.name}: {what}" for what in wrong]
        print(grid_text(grid, [False] * 6), flush=True)
    for failure in failures:
        print(f"wrong: {failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
