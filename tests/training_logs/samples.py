# ruff: noqa: E501 (lines of logs)
"""Logs of every grammar, built the way the programs build them; data for the tests of this folder."""

import json
from pathlib import Path

from labtui.training_logs import reader, runs

LOGS = Path(__file__).parents[1] / "fixtures" / "logs"


def runs_of(text: str) -> tuple[runs.ParsedRun, ...]:
    return reader.parse_log(text.encode()).runs


def only_run(text: str) -> runs.ParsedRun:
    (run,) = runs_of(text)
    return run


def banner(model: str, gpus: int, batch: int) -> str:
    """The lab scripts' head, blanks as in the original."""
    return f" Model {model} {gpus} GPUs \n{'-' * 40}\nBatch_size: {batch}\nNum_replicas: {gpus} \n"


def devices(*numbers: int) -> str:
    """What TensorFlow prints about the GPUs that it uses."""
    names = ", ".join(f"'/job:localhost/replica:0/task:0/device:GPU:{n}'" for n in numbers)
    return f"INFO:tensorflow:Using MirroredStrategy with devices ({names},)\n"


def keras(first: int, last: int, planned: int, steps: int = 25, seconds: int = 14) -> str:
    """Epochs of Keras 2.7 and later at verbose=2."""
    return "".join(
        f"Epoch {epoch}/{planned}\n{steps}/{steps} - {seconds}s - loss: 2.1 - {seconds}s/epoch - 544ms/step\n"
        for epoch in range(first, last + 1)
    )


def imagenet(epoch: int, steps: int = 250, every: int = 10, mean: float = 0.5) -> str:
    """An epoch of PyTorch's ImageNet example."""
    return "".join(
        f"Epoch: [{epoch}][{index:3d}/{steps}]\tTime  0.581 ( {mean:.3f})\tData  0.273 ( 0.283)\tLoss 6.9e+00 (6.8e+00)\n"
        for index in range(0, steps, every)
    )


def mllog(
    key: str, value: object = None, *, ms: int = 0, event: str = "POINT_IN_TIME", **metadata: object
) -> str:
    """One MLPerf record."""
    record = {"namespace": "", "time_ms": ms, "event_type": event, "key": key, "value": value}
    return f":::MLLOG {json.dumps(record | {'metadata': metadata})}\n"


def old_bar(done: int, total: int, tail: str) -> str:
    """The bar of Keras 2: 30 wide."""
    filled = done * 30 // total
    bar = "=" * filled if done == total else "=" * max(0, filled - 1) + ">" + "." * (30 - max(1, filled))
    return f"{done:{len(str(total))}d}/{total} [{bar}] - {tail}"


def new_bar(done: int, total: int, time: str, tail: str) -> str:
    """The bar of Keras 3: ANSI and U+2501, 20 wide; the time left has no label."""
    width = 20 * done // total
    filled = f"\x1b[32m{chr(0x2501) * width}\x1b[0m" if width else ""
    bar = f"{filled}\x1b[37m{chr(0x2501) * (20 - width)}\x1b[0m"
    return f"\x1b[1m{done:{len(str(total))}d}/{total}\x1b[0m {bar} \x1b[1m{time}\x1b[0m {tail}"


def joined(pieces: list[str]) -> str:
    """A bar as it lies in a file: each piece walks back over the last one."""
    out, width = "", 0
    for piece in pieces:
        out += "\b" * width + "\r" + piece
        width = len(piece)
    return out + "\n"


def old_epoch(total: int = 10, seconds: int = 2, step: str = "222ms/step", metrics: str = "loss: 2.0") -> str:
    """One epoch of Keras 2 at verbose=1."""
    pieces = [old_bar(done, total, f"ETA: 1:0{done % 10} - {metrics}") for done in range(1, total)]
    return joined([*pieces, old_bar(total, total, f"{seconds}s {step} - {metrics}")])


def new_epoch(total: int = 10, seconds: int = 2, step: str = "222ms/step", metrics: str = "loss: 2.0") -> str:
    """One epoch of Keras 3 at verbose=1."""
    pieces = [new_bar(done, total, f"{total - done}s", f"{step} - {metrics}") for done in range(1, total + 1)]
    return joined([*pieces, new_bar(total, total, f"{seconds}s", f"{step} - {metrics}")])


MIXED = (
    banner("ResNet50", 2, 4096)
    + mllog("global_batch_size", 4096)
    + mllog("train_samples", 50000)
    + mllog("run_start", ms=1_000, event="INTERVAL_START")
    + mllog("epoch_start", ms=1_000, event="INTERVAL_START", epoch_num=1)
    + "Epoch 1/2\n13/13 - 31s - loss: 2.2603 - accuracy: 0.1494 - 31s/epoch - 2s/step\n"
    + mllog("epoch_stop", ms=32_000, event="INTERVAL_END", epoch_num=1, seconds=31.0004, steps=13)
    + mllog("tracked_stats", {"loss": 2.26, "accuracy": 0.14936}, ms=32_000, epoch_num=1)
    + mllog("epoch_start", ms=32_001, event="INTERVAL_START", epoch_num=2)
    + "Epoch 2/2\n13/13 - 8s - loss: 2.1533 - accuracy: 0.2064 - 8s/epoch - 623ms/step\n"
    + mllog("epoch_stop", ms=40_100, event="INTERVAL_END", epoch_num=2, seconds=8.0991, steps=13)
    + mllog("eval_accuracy", 0.2, ms=40_150, epoch_num=2)
    + mllog("run_stop", ms=40_200, event="INTERVAL_END", status="success")
)

_LONG = old_epoch(seconds=3, step="300ms/step")
BARS = f"Epoch 1/3\n{old_epoch()}Epoch 2/3\n{new_epoch()}Epoch 3/3\n{_LONG}"

PYTORCH_OLD = "".join(
    f"0: Epoch: [0][{index}/20]\tTime 0.58{index % 10} (0.633)\tData 0.273 (0.283)\tLoss 6.9 (6.9)\tPrec@1 0.1 (0.1)\n"
    for index in range(20)
)

NAMES = ("noise.err", "out-of-memory.err", "three-runs.log")
NOISE, ERRORS, THREE_RUNS = ((LOGS / name).read_text(encoding="utf-8") for name in NAMES)

_PARTS = ("Epoch 1/2\n", old_epoch(), "Epoch 2/2\n", new_epoch())
RANKS = "".join(f"{rank}: {part}" for part in _PARTS for rank in (1, 0, 2))

ALL = (RANKS, THREE_RUNS, MIXED, BARS, PYTORCH_OLD, ERRORS, NOISE, BARS + ERRORS + THREE_RUNS)
