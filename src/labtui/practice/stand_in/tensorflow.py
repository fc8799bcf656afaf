"""TensorFlow 2.11 as far as its behaviour matters: devices, strategies, optimizers, and `model.fit` with Keras's lines.

`fit` reads the amount of work from the recorded data set, prints lines and calls callbacks as Keras does, and takes its
times from `labtui.practice.pace`.
"""

from __future__ import annotations

import inspect
import json
import os
import time
from collections.abc import Iterable, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any

from labtui.practice import stand_in
from labtui.practice.pace import NETWORKS, Training
from labtui.practice.stand_in import FrameworkBase, Recorded

Logs = Mapping[str, float]


# ---------------------------------------------------------------------------------- devices, strategies


def _devices(kind: str | None = None) -> list[SimpleNamespace]:
    names = ["CPU:0", *(f"GPU:{number}" for number in range(stand_in.visible_gpus()))]
    shown = (name for name in names if kind in (None, name[:3]))
    return [SimpleNamespace(name=f"/physical_device:{name}", device_type=name[:3]) for name in shown]


class Strategy:
    """A distribution strategy: its replicas, their GPUs (0 on the CPU), and the number of worker processes."""

    def __init__(self, replicas: int = 1, gpus: int | None = None, workers: int = 1) -> None:
        self.num_replicas_in_sync, self.workers = replicas, workers
        self.gpus = min(1, stand_in.visible_gpus()) if gpus is None else gpus

    def scope(self) -> Strategy:
        return self

    def __enter__(self) -> Strategy:
        _SCOPES.append(self)
        return self

    def __exit__(self, *_error: object) -> None:
        _SCOPES.pop()


_SCOPES: list[Strategy] = []


def _strategy_now() -> Strategy:
    return _SCOPES[-1] if _SCOPES else Strategy()


def _mirrored(devices: list[object] | None = None, **_options: object) -> Strategy:
    seen, names = stand_in.visible_gpus(), [str(name).lower() for name in devices or ()]
    on_cpu = any("cpu" in name for name in names) or (not names and not seen)
    wanted = len(names) or max(1, seen)
    if not on_cpu and wanted > seen:
        raise ValueError(f"Could not find device {names[-1]}: {seen} GPU(s) are visible to TensorFlow.")
    return Strategy(wanted, 0 if on_cpu else wanted)


def _multi_worker(*_args: object, **_options: object) -> Strategy:
    """The strategy with the workers of TF_CONFIG. Each worker's process simulates the whole training."""
    config = json.loads(os.environ.get("TF_CONFIG", "{}"))
    workers = max(1, len(config.get("cluster", {}).get("worker", ())))
    here = stand_in.visible_gpus()
    return Strategy(workers * max(1, here), workers * here, workers)


# --------------------------------------------------------------------------------------------- training


class Optimizer:
    def __init__(self, learning_rate: Any = None, **options: Any) -> None:
        usual = 0.01 if type(self).__name__ == "SGD" else 0.001
        rate = options.get("lr", learning_rate)
        self.learning_rate = self.lr = usual if rate is None else rate


class History(FrameworkBase):
    def __init__(self) -> None:
        self.epoch: list[int] = []
        self.history: dict[str, list[float]] = {}

    def on_epoch_end(self, epoch: int, metrics: Logs) -> None:
        self.epoch.append(epoch)
        for name, value in metrics.items():
            self.history.setdefault(name, []).append(value)


class Model:
    """One of the lab's networks, as far as the log shows it."""

    def __init__(self, network: str) -> None:
        self.network, self.name = network, network.lower()
        self.distribute_strategy = _strategy_now()
        self.optimizer = Optimizer()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Recorded(f"model.{name}")

    def count_params(self) -> int:
        return NETWORKS[self.network][0]

    def summary(self, *_args: object, **_options: object) -> None:
        print(f'Model: "{self.name}"\nTotal params: {self.count_params():,}', flush=True)

    def compile(self, optimizer: object = None, *_args: object, **_options: object) -> None:
        self.optimizer = optimizer if isinstance(optimizer, Optimizer) else Optimizer()

    def fit(
        self, x: Any = None, y: object = None, batch_size: int | None = None, epochs: int = 1, verbose: Any = 1,
        callbacks: Iterable[Any] | None = None, **_options: object,
    ) -> History:  # fmt: skip
        training, strategy = self._training(x, batch_size), self.distribute_strategy
        rng, history = stand_in.job_random(repr(training)), History()
        all_callbacks = [history, *(callbacks or [])]

        def call_all(hook: str, *values: object) -> None:
            for callback in all_callbacks:
                getattr(callback, hook)(*values)

        for callback in all_callbacks:
            callback.params = {"verbose": verbose, "epochs": epochs, "steps": training.steps}
            callback.model = self
        call_all("on_train_begin", {})
        if not training.fits:
            self._run_out_of_memory(training)
        stand_in.show_load(training.gpus // strategy.workers, training.busy_percent, training.memory_gib)
        for epoch in range(epochs):
            if verbose and epochs > 1:
                print(f"Epoch {epoch + 1}/{epochs}", flush=True)
            call_all("on_epoch_begin", epoch, {})
            seconds, metrics = training.epoch_s(epoch + 1, rng), training.metrics(epoch + 1, rng)
            time.sleep(seconds)
            if verbose:  # a progress bar ends as the same line
                print(summary_line(training.steps, seconds, metrics), flush=True)
            call_all("on_epoch_end", epoch, dict(metrics))
        call_all("on_train_end", {})
        return history

    def _training(self, data: Any, batch_size: int | None) -> Training:
        """The training, from the calls that made the data set."""
        images, batch, size, each = stand_in.size_of(data) or 1, batch_size or 32, 128, 1
        for call in data._calls if isinstance(data, Recorded) else ():
            first = call.args[0] if call.args else None
            if call.name == "batch":
                batch = each = first if first is not None else call.kwargs["batch_size"]
                images -= images % batch if call.kwargs.get("drop_remainder") else 0
            elif call.name == "take" and first is not None:
                images = min(images, first * each)
            elif call.name == "repeat" and first is not None and first > 0:
                images *= first
            elif call.name == "map":
                size = _image_size(first, size)
        if not images:
            raise ValueError("Unexpected result of `train_function` (Empty Logs).")
        strategy = self.distribute_strategy
        cores = int(os.environ.get("SLURM_CPUS_PER_TASK") or os.environ.get("SLURM_CPUS_ON_NODE", "20"))
        return Training(self.network, strategy.gpus, batch, images, size, cores)

    def _run_out_of_memory(self, training: Training) -> None:
        time.sleep(25)
        share, size = -(-training.batch // max(1, training.gpus)), training.image_size // 4
        raise stand_in.resolve("tensorflow.errors.ResourceExhaustedError")(
            f"Graph execution error: OOM when allocating tensor with shape[{share},256,{size},{size}] and type float "
            "on /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc"
        )


def _image_size(function: Any, usual: int) -> int:
    """The image size in pixels after resizing: `image_size` or `size` in the closure of the function given to `map`."""
    closure = inspect.getclosurevars(function).nonlocals if inspect.isfunction(function) else {}
    found = [closure[name] for name in ("image_size", "size") if name in closure]
    return int(found[0][0] if isinstance(found[0], (tuple, list)) else found[0]) if found else usual


def summary_line(steps: int, seconds: float, metrics: Logs) -> str:
    """The line Keras 2.11 prints after an epoch with verbose=2."""
    forms = {name: ".4f" if value > 1e-3 else ".4e" for name, value in metrics.items()}
    values = "".join(f" - {name}: {metrics[name]:{form}}" for name, form in forms.items())
    return f"{steps}/{steps} - {seconds:.0f}s{values} - {_per(seconds, 'epoch')} - {_per(seconds / steps, 'step')}"


def _per(seconds: float, unit: str) -> str:
    """A time as Keras 2 rounds it: to seconds from 1 s on, to milliseconds from 1 ms on, else to microseconds."""
    if seconds >= 1 or seconds == 0:
        return f"{seconds:.0f}s/{unit}"
    return f"{seconds * 1e3:.0f}ms/{unit}" if seconds >= 1e-3 else f"{seconds * 1e6:.0f}us/{unit}"


def _construct(name: str, module: str = "") -> Any:
    # beside these, `applications` has ResNet50 and the like and ResNetRS50; any other network is recorded
    known = name in NETWORKS or (not module and (f"{name}V2" in NETWORKS or name.startswith("ResNetRS")))
    if name.startswith("Res") and not known:
        raise AttributeError(f"module 'keras.api._v2.keras.applications{module}' has no attribute '{name}'")

    def network(
        _top: bool = True, weights: str | None = "imagenet", *_rest: object, **_options: object
    ) -> Model:
        if weights == "imagenet":
            raise OSError(
                "URL fetch failure on https://storage.googleapis.com/tensorflow/keras-applications/resnet/"
                f"{name.lower()}_weights_tf_dim_ordering_tf_kernels.h5: None -- [Errno 101] Network is unreachable"
            )
        return Model(name)

    return network if name in NETWORKS else Recorded(f"tensorflow.keras.applications.{name}")


def _load_data(*_options: object) -> Any:
    return tuple((Recorded("images", size=size), Recorded("labels", size=size)) for size in (50_000, 10_000))


NAMES: dict[str, Any] = {
    "tensorflow.keras.datasets.cifar10.load_data": _load_data,
    "tensorflow.keras.datasets.cifar100.load_data": _load_data,
    "tensorflow.__version__": "2.11.0",
    "tensorflow.keras.__version__": "2.11.0",
    "tensorflow.config.list_physical_devices": _devices,
    "tensorflow.config.list_logical_devices": _devices,
    "tensorflow.config.experimental.list_physical_devices": _devices,
    "tensorflow.config.experimental.get_device_details": lambda _device: {"device_name": "NVIDIA H100"},
    "tensorflow.distribute.MirroredStrategy": _mirrored,
    "tensorflow.distribute.MultiWorkerMirroredStrategy": _multi_worker,
    "tensorflow.distribute.get_strategy": _strategy_now,
    "tensorflow.function": lambda function=None, **_options: function or (lambda same: same),
    "tensorflow.keras.applications.*": _construct,
    "tensorflow.keras.applications.resnet_v2.*": partial(_construct, module=".resnet_v2"),
    "tensorflow.keras.optimizers.*": stand_in.class_factory("tensorflow.keras.optimizers", Optimizer),
    "tensorflow.keras.optimizers.experimental": Recorded("tensorflow.keras.optimizers"),
}
