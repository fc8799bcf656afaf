"""`tf.keras` of the rehearsal: networks with a name, optimizers with a rate, and `fit`.

`fit` prints Keras 2.11's lines (verbose 1 and 2), calls the callbacks where Keras calls them, and takes the time from
`labtui.practice.rehearse`.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from labtui.practice import rehearse
from labtui.practice.rehearse import RehearsedTime

Logs = Mapping[str, float]

BAR = 30


class Callback:
    def __init__(self) -> None:
        self.model: Model | None = None
        self.params: dict[str, Any] = {}

    def set_model(self, model: Model) -> None:
        self.model = model

    def set_params(self, params: dict[str, Any]) -> None:
        self.params = params

    def on_train_begin(self, logs: Logs | None = None) -> None:
        pass

    on_train_end = on_train_begin

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        pass

    on_epoch_end = on_epoch_begin


class History(Callback):
    def __init__(self) -> None:
        super().__init__()
        self.epoch: list[int] = []
        self.history: dict[str, list[float]] = {}


class Optimizer:
    def __init__(self, learning_rate: Any = 0.01, **options: Any) -> None:
        self.learning_rate = options.pop("lr", learning_rate)
        self.lr = self.learning_rate


class SGD(Optimizer):
    pass


class Adam(Optimizer):
    def __init__(self, learning_rate: Any = 0.001, **options: Any) -> None:
        super().__init__(learning_rate, **options)


class Accuracy:
    def __init__(self, name: str = "accuracy") -> None:
        self.name = name


class Model:
    """A network of the lab. Only what the log shows of it is real."""

    clock: ClassVar[RehearsedTime]
    out_of_memory: ClassVar[type[Exception]]
    strategy_now: ClassVar[Callable[[], Any]]

    def __init__(self, constructor: str) -> None:
        self.constructor = constructor
        self.name = rehearse.NETWORKS[constructor].keras_name
        self.distribute_strategy = Model.strategy_now()
        self.optimizer: Optimizer | None = None

    def count_params(self) -> int:
        return rehearse.NETWORKS[self.constructor].parameters

    def summary(self, *_arguments: object, **_options: object) -> None:
        print(f'Model: "{self.name}"\nTotal params: {self.count_params():,}', flush=True)

    def compile(
        self, optimizer: object = None, loss: object = None, metrics: object = None, **_options: object
    ) -> None:
        self.optimizer = optimizer if isinstance(optimizer, Optimizer) else SGD()

    def _training(self, dataset: Any) -> rehearse.Training:
        strategy = self.distribute_strategy
        return rehearse.Training(
            network=self.constructor,
            gpus=strategy.gpus,
            batch=dataset._batch or 32,
            images=dataset._images,
            image_size=dataset._size,
            cores=int(os.environ.get("SLURM_CPUS_PER_TASK") or os.environ.get("SLURM_CPUS_ON_NODE", "20")),
            mirrored=strategy.mirrored,
        )

    def fit(
        self,
        x: Any = None,
        y: object = None,
        epochs: int = 1,
        verbose: int = 1,
        callbacks: Iterable[Callback] | None = None,
        steps_per_epoch: object = None,
        **_options: object,
    ) -> History:
        training = self._training(x)
        # The job's number belongs to it: a repeat scatters as it would on a cluster, a session replayed does not.
        seed = [os.environ.get(name, "0") for name in ("LABTUI_PRACTICE_SEED", "SLURM_JOB_ID")]
        chance = random.Random("-".join((*seed, str(training))))
        history = History()
        everyone: list[Callback] = [history, *(callbacks or [])]
        for callback in everyone:
            callback.set_params({"verbose": verbose, "epochs": epochs, "steps": training.steps})
            callback.set_model(self)
        for callback in everyone:
            callback.on_train_begin({})
        self._refuse_what_does_not_fit(training)
        _show_gpus(training, training.gpus // self.distribute_strategy.workers)
        for epoch in range(epochs):
            self._epoch(training, epoch, epochs, verbose, everyone, chance)
            history.epoch.append(epoch)
        _show_gpus(None)
        for callback in everyone:
            callback.on_train_end({})
        return history

    def _epoch(
        self,
        training: rehearse.Training,
        epoch: int,
        epochs: int,
        verbose: int,
        everyone: list[Callback],
        chance: random.Random,
    ) -> None:
        if verbose and epochs > 1:
            print(f"Epoch {epoch + 1}/{epochs}", flush=True)
        for callback in everyone:
            callback.on_epoch_begin(epoch, {})
        seconds = rehearse.epoch_seconds(training, epoch + 1, chance)
        metrics = rehearse.metrics(training, epoch + 1, chance)
        if verbose == 1:
            _bars(training, seconds, metrics, Model.clock)
        else:
            Model.clock.advance(seconds)
        if verbose == 2:
            print(summary_line(training.steps, seconds, metrics), flush=True)
        for callback in everyone:
            callback.on_epoch_end(epoch, dict(metrics))

    def _refuse_what_does_not_fit(self, training: rehearse.Training) -> None:
        if rehearse.fits(training):
            return
        Model.clock.advance(25)
        share = -(-training.batch // max(1, training.gpus))
        size = training.image_size // 4
        shape = f"[{share},256,{size},{size}]"
        count = share * 256 * size * size * 4
        print(
            "W tensorflow/tsl/framework/bfc_allocator.cc:479] "
            "Allocator (GPU_0_bfc) ran out of memory trying to allocate "
            f"{count / 2**30:.2f}GiB (rounded to {count})requested by op "
            f"{self.name}/conv2_block1_3_conv/Conv2D",
            file=sys.stderr,
            flush=True,
        )
        raise Model.out_of_memory(
            f"Graph execution error: OOM when allocating tensor with shape{shape} and type float on "
            "/job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc"
        )

    def evaluate(self, x: object = None, verbose: int = 1, **_options: object) -> list[float]:
        Model.clock.advance(2.0)
        return [2.3, 0.1]

    def save(self, *_arguments: object, **_options: object) -> None:
        return None

    save_weights = save


def summary_line(steps: int, seconds: float, metrics: Logs) -> str:
    """The line Keras 2.11 prints after an epoch with verbose=2."""
    values = "".join(
        f" - {name}: {value:.4f}" if value > 1e-3 else f" - {name}: {value:.4e}"
        for name, value in metrics.items()
    )
    return f"{steps}/{steps} - {seconds:.0f}s{values}{_per(seconds, 'epoch')}{_per(seconds / steps, 'step')}"


def _per(seconds: float, unit: str) -> str:
    """Keras 2's rounding: whole seconds from 1 s on, whole milliseconds from 1 ms on, else microseconds."""
    if seconds >= 1 or seconds == 0:
        return f" - {seconds:.0f}s/{unit}"
    if seconds >= 1e-3:
        return f" - {seconds * 1e3:.0f}ms/{unit}"
    return f" - {seconds * 1e6:.0f}us/{unit}"


def _bars(training: rehearse.Training, seconds: float, metrics: Logs, clock: RehearsedTime) -> None:
    """verbose=1 as it lies in a file: backspaces and carriage returns between the bars."""
    previous = 0
    values = "".join(f" - {name}: {value:.4f}" for name, value in metrics.items())
    moments = min(training.steps, 12)
    for moment in range(1, moments + 1):
        step = training.steps * moment // moments
        clock.advance(seconds / moments)
        width = len(str(training.steps))
        filled = BAR * step // training.steps
        bar = (
            "=" * BAR
            if step == training.steps
            else "=" * max(0, filled - 1) + ">" + "." * (BAR - max(1, filled))
        )
        timed = (
            f" - {seconds:.0f}s{_per(seconds / training.steps, 'step').replace(' - ', ' ')}"
            if step == training.steps
            else f" - ETA: {seconds * (1 - step / training.steps):.0f}s"
        )
        line = f"{step:>{width}}/{training.steps} [{bar}]{timed}{values}"
        sys.stdout.write("\b" * previous + ("\r" if previous else "") + line)
        sys.stdout.flush()
        previous = len(line)
    sys.stdout.write("\n")
    sys.stdout.flush()


def _show_gpus(training: rehearse.Training | None, gpus: int = 0) -> None:
    """Write the load of each node's GPUs that the job's nvidia-smi shows (None: idle); the first worker does."""
    folder = os.environ.get("LABTUI_PRACTICE_JOB")
    if not folder or os.environ.get("SLURM_PROCID", "0") != "0":
        return
    load = {"gpus": 0, "percent": 0.0, "gib": 0.0}
    if training is not None and training.gpus:
        load = {
            "gpus": gpus,
            "percent": rehearse.utilisation(training),
            "gib": rehearse.memory_gib(training),
        }
    beside = Path(folder) / "gpu.json.new"
    beside.write_text(json.dumps(load), encoding="ascii")
    beside.replace(Path(folder) / "gpu.json")


def _network(name: str) -> Callable[..., Model]:
    def construct(
        include_top: bool = True,
        weights: str | None = "imagenet",
        input_tensor: object = None,
        input_shape: object = None,
        classes: int = 1000,
        **_options: object,
    ) -> Model:
        if weights == "imagenet":
            raise OSError(
                "URL fetch failure on https://storage.googleapis.com/tensorflow/keras-applications/resnet/"
                f"{rehearse.NETWORKS[name].keras_name}_weights_tf_dim_ordering_tf_kernels.h5: None -- "
                "[Errno 101] Network is unreachable"
            )
        return Model(name)

    construct.__name__ = name
    return construct


def build(
    module: Callable[..., Any],
    get_strategy: Callable[[], Any],
    out_of_memory: type[Exception],
    clock: RehearsedTime,
) -> Any:
    """The module `tf.keras`, made with `module(name, **content)`."""
    Model.clock, Model.out_of_memory, Model.strategy_now = clock, out_of_memory, staticmethod(get_strategy)
    networks = {name: _network(name) for name in rehearse.NETWORKS}
    resnet = module("keras.applications.resnet_v2", **networks)
    return module(
        "keras",
        __version__="2.11.0",
        Model=Model,
        applications=module("keras.applications", resnet_v2=resnet, **networks),
        callbacks=module("keras.callbacks", Callback=Callback, History=History),
        optimizers=module(
            "keras.optimizers",
            SGD=SGD,
            Adam=Adam,
            experimental=module("keras.optimizers.experimental", SGD=SGD, Adam=Adam),
        ),
        metrics=module("keras.metrics", Accuracy=Accuracy, SparseCategoricalAccuracy=Accuracy),
        losses=module("keras.losses", SparseCategoricalCrossentropy=lambda **_options: "loss"),
        layers=module("keras.layers"),
        models=module("keras.models", Model=Model),
        backend=module("keras.backend", clear_session=lambda: None),
    )
