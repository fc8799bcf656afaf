"""`python ResNet50.py ...` inside a practice job: the script really runs, only the training is rehearsed.

The student's script is executed as it is, with a TensorFlow and a NumPy of our own in front (`rehearsal/`): a wrong
path, a pasted dash, a curly quote, a missing file fail as on the cluster. `model.fit` prints what Keras prints, at the
pace of MareNostrum 5, on a clock that runs faster. Runs in a process of its own and imports nothing else of labtui.

An epoch takes ``steps x overhead(n) + images x cost / n``: every step pays a fixed price that grows with the number of
GPUs (launching it, exchanging gradients), every image pays its arithmetic once. The constants are fitted to the
published epochs of the course's book, chapter 10 (milliseconds per step times steps), and reproduce them exactly:

    ResNet50    1 GPU, batch  256: 196 x  73 ms = 14.308 s     ResNet152   1 GPU, batch 1024: 49 x 668 ms = 32.732 s
    ResNet50    1 GPU, batch 2048:  25 x 544 ms = 13.600 s     ResNet152  2 GPUs, batch 2048: 25 x 718 ms = 17.950 s
    ResNet50   2 GPUs, batch 4096:  13 x 623 ms =  8.099 s     ResNet152  4 GPUs, batch 4096: 13 x 773 ms = 10.049 s
    ResNet50   4 GPUs, batch 8192:   7 x 768 ms =  5.376 s     ResNet50, CPU (20 cores): about 215 s

ResNet101 has no published epochs; its constants lie between the two by arithmetic per image (7.2 of 3.5 to 10.9 GFLOP).
"""

from __future__ import annotations

import builtins
import json
import math
import os
import random
import runpy
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

STUBS = Path(__file__).parent / "rehearsal"


class RehearsedTime:
    """A clock that `advance` moves, and that lets real time pass at `1/factor`.

    `advance` is exact: an epoch of 13.600 s takes 13.600 s on this clock, whatever the laptop does meanwhile.
    """

    def __init__(self, factor: float, now: float) -> None:
        self.factor = max(factor, 1e-6)
        self._now = now
        self._elapsed = 0.0
        self._real_start = time.monotonic()
        self._real_sleep = time.sleep
        self._real_monotonic = time.monotonic

    def advance(self, seconds: float) -> None:
        """Let that many seconds pass on the rehearsed clock."""
        self._elapsed += max(0.0, seconds)
        behind = self._elapsed / self.factor - (self._real_monotonic() - self._real_start)
        if behind > 0:
            self._real_sleep(behind)

    def time(self) -> float:
        """UNIX seconds on the rehearsed clock."""
        return self._now + self._elapsed

    def monotonic(self) -> float:
        """Seconds since the process began, on the rehearsed clock."""
        return self._elapsed

    def install(self) -> None:
        """Replace the functions of `time` in this process."""
        time.time = self.time
        time.monotonic = time.perf_counter = self.monotonic
        time.sleep = self.advance  # type: ignore[assignment]  # the parameter's name differs


def clock_from_environment() -> RehearsedTime:
    """The clock of the practice cluster that started this process."""
    factor = float(os.environ.get("LABTUI_PRACTICE_FACTOR", "1"))
    began = float(os.environ.get("LABTUI_PRACTICE_BEGAN", time.time()))
    ahead = float(os.environ.get("LABTUI_PRACTICE_AHEAD", "0"))
    return RehearsedTime(factor, began + ahead + (time.time() - began) * factor)


# --------------------------------------------------------------------------- the pace

IMAGES = 50_000
FULL_SIZE = 128
GPU_MEMORY_GIB = 63.4
"""What a framework can use of a 64 GB H100 of MareNostrum 5."""

NOISE = 0.004
"""Spread between epochs (standard deviation, as a fraction): steady epochs of the course's logs differ by under 1 %."""


@dataclass(frozen=True, slots=True)
class Network:
    """Constants of one network. Times in milliseconds, `warm_up` in seconds by GPU count, memory in MiB."""

    image_ms: float
    step_ms: dict[int, float]
    warm_up: dict[int, float]
    cpu_image_ms: float
    mib_per_image: float
    parameters: int
    keras_name: str


def _solved(epoch_s: float, steps: int, gpus: int, image_ms: float) -> float:
    """The price of a step (ms) that makes the model give this published epoch."""
    return (1000 * epoch_s - IMAGES * image_ms / gpus) / steps


# Two published epochs on one GPU (196 and 25 steps) give both constants of ResNet50.
_R50_STEP = (14_308 - 13_600) / (196 - 25)
_R50_IMAGE = (13_600 - 25 * _R50_STEP) / IMAGES
# One GPU epoch is published for ResNet152: its step price is taken in proportion to its layers.
_R152_STEP = 3 * _R50_STEP
_R152_IMAGE = (32_732 - 49 * _R152_STEP) / IMAGES
_R101_IMAGE = (_R50_IMAGE + _R152_IMAGE) / 2

_R50_STEPS = {1: _R50_STEP, 2: _solved(8.099, 13, 2, _R50_IMAGE), 4: _solved(5.376, 7, 4, _R50_IMAGE)}
_R152_STEPS = {1: _R152_STEP, 2: _solved(17.950, 25, 2, _R152_IMAGE), 4: _solved(10.049, 13, 4, _R152_IMAGE)}

NETWORKS: dict[str, Network] = {
    "ResNet50V2": Network(
        _R50_IMAGE, _R50_STEPS, {1: 29.0, 2: 31.0, 4: 47.0}, 4.3, 21.5, 23_585_290, "resnet50v2"
    ),
    "ResNet101V2": Network(
        _R101_IMAGE,
        {n: (_R50_STEPS[n] + _R152_STEPS[n]) / 2 for n in (1, 2, 4)},
        {1: 46.0, 2: 53.0, 4: 86.0},
        7.6,
        32.5,
        42_647_050,
        "resnet101v2",
    ),
    "ResNet152V2": Network(
        _R152_IMAGE, _R152_STEPS, {1: 63.0, 2: 76.0, 4: 126.0}, 10.9, 45.0, 58_352_138, "resnet152v2"
    ),
}
"""By the name of Keras's constructor."""

SEQUENTIAL_WARM_UP = {"cpu": 1.023, "gpu": 24 / 14.308}
"""First epoch over steady epoch where the input pipeline, not graph building, is what is warmed up (220 s and 24 s)."""


@dataclass(frozen=True, slots=True)
class Training:
    """What is trained: `gpus` 0 is the CPU with `cores` cores; `batch` is the global batch."""

    network: str
    gpus: int
    batch: int
    images: int = IMAGES
    image_size: int = FULL_SIZE
    cores: int = 20
    mirrored: bool = True

    @property
    def steps(self) -> int:
        """Steps of an epoch; the last batch may be short."""
        return math.ceil(self.images / self.batch)

    @property
    def scale(self) -> float:
        """Arithmetic of an image relative to 128 x 128."""
        return (self.image_size / FULL_SIZE) ** 2


def steady_seconds(training: Training) -> float:
    """Seconds of an epoch after the first, without noise."""
    network = NETWORKS[training.network]
    if training.gpus == 0:
        per_image: float = network.cpu_image_ms * (20 / max(1, training.cores)) ** 0.75
        return training.images * per_image * training.scale / 1000
    step_ms = _interpolated(network.step_ms, training.gpus)
    image_ms = network.image_ms * training.scale
    return (training.steps * step_ms + training.images * image_ms / training.gpus) / 1000


def first_seconds(training: Training) -> float:
    """Seconds of the first epoch: graph building, device set-up, resizing and caching the images."""
    steady = steady_seconds(training)
    if not training.mirrored or training.gpus == 0:
        return steady * SEQUENTIAL_WARM_UP["gpu" if training.gpus else "cpu"]
    extra = _interpolated(NETWORKS[training.network].warm_up, training.gpus)
    published = steady_seconds(
        Training(training.network, training.gpus, _published_batch(training.network) * training.gpus)
    )
    return steady + max(0.0, extra - published)


def epoch_seconds(training: Training, epoch: int, chance: random.Random) -> float:
    """Seconds of epoch `epoch` (from 1) with the noise a real node shows."""
    ideal = first_seconds(training) if epoch == 1 else steady_seconds(training)
    return ideal * math.exp(chance.gauss(0.0, NOISE))


def memory_gib(training: Training) -> float:
    """GPU memory one replica needs, in GiB: activations of its share of the batch, and the network's own copies."""
    network = NETWORKS[training.network]
    share = math.ceil(training.batch / max(1, training.gpus))
    return (share * network.mib_per_image * training.scale + network.parameters * 16 / 2**20 + 900) / 1024


def fits(training: Training) -> bool:
    """Whether the batch fits into the GPU; on the CPU the node's memory is large enough."""
    return training.gpus == 0 or memory_gib(training) <= GPU_MEMORY_GIB


def metrics(training: Training, epoch: int, chance: random.Random) -> dict[str, float]:
    """Loss and accuracy after `epoch`: learning slows with the number of updates, as large batches do."""
    updates = epoch * training.steps
    accuracy = 0.10 + 0.86 * (1 - math.exp(-((updates / 3000) ** 0.55)))
    accuracy = min(0.999, max(0.08, accuracy + chance.gauss(0, 0.004)))
    return {"loss": max(0.02, 2.42 * (1 - accuracy) ** 0.9 + chance.gauss(0, 0.01)), "accuracy": accuracy}


def utilisation(training: Training) -> float:
    """Percent of an epoch in which a GPU computes: the images' share of the time."""
    if training.gpus == 0:
        return 0.0
    network = NETWORKS[training.network]
    busy = training.images * network.image_ms * training.scale / training.gpus / 1000
    return min(99.0, 100 * busy / steady_seconds(training))


def _published_batch(network: str) -> int:
    """Images per GPU in the published runs."""
    return 2048 if network == "ResNet50V2" else 1024


def _interpolated(table: dict[int, float], gpus: int) -> float:
    """The table's value for this many GPUs; between and beyond its rows along straight lines."""
    if gpus in table:
        return table[gpus]
    known = sorted(table)
    low = max((n for n in known if n < gpus), default=known[0])
    high = min((n for n in known if n > gpus), default=known[-1])
    if low >= known[-1]:
        low, high = known[-2], known[-1]
    slope = (table[high] - table[low]) / (high - low)
    return table[low] + slope * (gpus - low)


# --------------------------------------------------------------------------- the script

CLOCK: RehearsedTime | None = None
"""The clock of this process, for `rehearsal/tensorflow`."""


IMAGES_FILE = "rehearsal.json"
"""In a data set's folder: how many images of each part (``train``, ``val``) its class folders would hold."""
_WALK = os.walk


def _walk_of_rehearsed_data(
    top: str, *arguments: Any, **options: Any
) -> Iterator[tuple[str, list[str], list[str]]]:
    """`os.walk`; a class folder of a rehearsed data set has its share of the images, which are names alone."""
    folder = Path(top)
    notes = folder.parents[1] / IMAGES_FILE if len(folder.parts) > 2 else None
    if notes is None or not notes.is_file():
        yield from _WALK(top, *arguments, **options)
        return
    images = json.loads(notes.read_text(encoding="ascii"))[folder.parent.name]
    classes = sorted(each.name for each in folder.parent.iterdir())
    share, more = divmod(images, len(classes))
    count = share + (classes.index(folder.name) < more)
    yield str(top), [], [f"{number:05d}.JPEG" for number in range(count)]


def _job_file(name: str) -> Path:
    return Path(os.environ.get("LABTUI_PRACTICE_JOB", ".")) / name


_LAUNCHER = {"--nnodes": "1", "--nproc_per_node": "1", "--nproc-per-node": "1"}
_WAIT_S = 0.1
_FOR_ALL = "LABTUI_PRACTICE_FOR_ALL"
"""Set in the process that rehearses rank 0."""


def torchrun(words: list[str]) -> int:
    """PyTorch's launcher: rank 0 is rehearsed on the first node, the other nodes wait for its end."""
    options = dict(_LAUNCHER)
    at = 0
    while at < len(words) and words[at].startswith("-"):
        name, equals, value = words[at].partition("=")
        takes = not equals and name not in ("--standalone", "--no-python") and at + 1 < len(words)
        options[name] = value if equals else words[at + 1] if takes else ""
        at += 2 if takes else 1
    if at == len(words):
        print("torchrun: error: the following arguments are required: training_script", file=sys.stderr)
        return 2
    each = options["--nproc-per-node"] if options["--nproc-per-node"] != "1" else options["--nproc_per_node"]
    nodes, processes = (int(text) if text.isdecimal() else 1 for text in (options["--nnodes"], each))
    here = int(os.environ.get("SLURM_NODEID", "0"))
    if processes > 1 and "OMP_NUM_THREADS" not in os.environ:
        stars = "*" * 41
        print(
            f"W1122 torch/distributed/run.py:779] \nW1122 torch/distributed/run.py:779] {stars}\n"
            "W1122 torch/distributed/run.py:779] Setting OMP_NUM_THREADS environment variable for each process to be 1 "
            f"in default, to avoid your system being overloaded\nW1122 torch/distributed/run.py:779] {stars}",
            file=sys.stderr,
            flush=True,
        )
    environment = {
        "RANK": "0",
        "LOCAL_RANK": "0",
        "WORLD_SIZE": str(nodes * processes),
        "OMP_NUM_THREADS": "1",
        "MASTER_ADDR": "127.0.0.1",
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "TORCHELASTIC_RESTART_COUNT": "0",
    }
    ended = _rank_0_for_all(words[at:], environment, here * processes)
    if ended and not here:
        print(_child_failed(words[at], ended), file=sys.stderr, flush=True)
    return 1 if ended else 0


def _rank_0_for_all(words: list[str], environment: dict[str, str], rank: int) -> int:
    """The status of rank 0, which the first task of a step rehearses in a process of its own; the others wait."""
    step = os.environ.get("SLURM_STEP_ID", "0")
    done = _job_file(f"rank-0.{step}")
    if rank:
        while not done.exists() or not (ended := done.read_text(encoding="ascii")):
            time.sleep(_WAIT_S)
        return int(ended)
    status = subprocess.call(
        [sys.executable, "-u", __file__, *words], env={**os.environ, **environment, _FOR_ALL: "yes"}
    )
    done.write_text(str(status), encoding="ascii")
    return status


def _child_failed(script: str, code: int) -> str:
    """The launcher's last words about a process that ended badly."""
    return (
        f"E1122 torch/distributed/elastic/multiprocessing/api.py:833] failed (exitcode: {code}) local_rank: 0\n"
        f"torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n{'=' * 60}\n"
        f"{script} FAILED\n{'-' * 60}\nFailures:\n  <NO_OTHER_FAILURES>\n{'-' * 60}\n"
        f"Root Cause (first observed failure):\n[0]:\n  host      : {os.environ.get('SLURMD_NODENAME', 'localhost')}\n"
        f"  rank      : 0 (local_rank: 0)\n  exitcode  : {code} (pid: 40000)\n  error_file: <N/A>\n"
        f"  traceback : To enable traceback see the torchrun documentation\n{'=' * 60}"
    )


def _without_our_frames(error: BaseException) -> list[str]:
    """The traceback as the script's own interpreter would print it."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename in (
        __file__,
        runpy.__file__,
        "<frozen runpy>",
    ):
        frames = frames.tb_next
    return traceback.format_exception(type(error), error, frames)


def main(arguments: list[str]) -> int:
    """Run ``[options] script.py arguments`` and return the exit status."""
    while arguments and arguments[0].startswith("-"):
        arguments = arguments[1:]
    if arguments[:1] == ["torchrun"]:
        return torchrun(arguments[1:])
    script = arguments[0]
    if not Path(script).is_file():
        print(
            f"python: can't open file '{Path.cwd() / script}': [Errno 2] No such file or directory",
            file=sys.stderr,
        )
        return 2
    global CLOCK  # noqa: PLW0603  one process, one clock; the stub packages have no other way to it
    CLOCK = clock_from_environment()
    sys.modules["labtui.practice.rehearse"] = sys.modules[__name__]
    sys.path[:0] = [str(Path(script).resolve().parent), str(STUBS), str(Path(__file__).parents[2])]
    sys.argv = arguments
    CLOCK.install()
    socket.gethostname = lambda: os.environ.get("SLURMD_NODENAME", "localhost")  # the practice cluster's node
    os.walk = _walk_of_rehearsed_data  # type: ignore[assignment]  # for a folder's name, as the scripts call it
    # A traceback shows no frame of ours, as if python itself had run the script.
    try:
        source = Path(script).read_bytes()
        code = compile(source, script, "exec")
        module = type(sys)("__main__")
        module.__dict__.update(__file__=script, __builtins__=builtins)
        sys.modules["__main__"] = module
        exec(code, module.__dict__)  # noqa: S102  the student's own script is what this process is for
    except SystemExit as end:
        return _exit_status(end)
    except KeyboardInterrupt:
        return 130
    except BaseException as error:  # the interpreter's last resort, as python's own
        sys.stdout.flush()
        sys.stderr.writelines(_without_our_frames(error))
        return 1
    return 0


def _exit_status(end: SystemExit) -> int:
    if end.code is None:
        return 0
    if isinstance(end.code, int):
        return end.code
    sys.stdout.flush()
    print(end.code, file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]  # as in the course's container
    rank = os.environ.get("RANK", "")
    if rank and _FOR_ALL not in os.environ:  # srun has started a process for each rank
        status = _rank_0_for_all(sys.argv[1:], {}, int(rank))
        status = 1 if status and rank != "0" else status
    else:
        status = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # the rehearsed clock has nothing to wind up
