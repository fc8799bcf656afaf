"""`tf.keras` of the rehearsal: networks that know their name, optimizers that know their rate, and `fit`.

`fit` prints Keras 2.11's lines (verbose 1 and 2), calls the callbacks where Keras calls them, and takes the time from
`labtui.practice.timing`.
"""

import json
import os
import random
import sys
from pathlib import Path

from labtui.practice import timing

BAR = 30


class Callback:
    def __init__(self):
        self.model = None
        self.params = {}

    def set_model(self, model):
        self.model = model

    def set_params(self, params):
        self.params = params

    def on_train_begin(self, logs=None):
        pass

    on_train_end = on_train_begin

    def on_epoch_begin(self, epoch, logs=None):
        pass

    on_epoch_end = on_epoch_begin


class History(Callback):
    def __init__(self):
        super().__init__()
        self.epoch, self.history = [], {}


class Optimizer:
    def __init__(self, learning_rate=0.01, **options):
        self.learning_rate = options.pop("lr", learning_rate)
        self.lr = self.learning_rate


class SGD(Optimizer):
    pass


class Adam(Optimizer):
    def __init__(self, learning_rate=0.001, **options):
        super().__init__(learning_rate, **options)


class Accuracy:
    def __init__(self, name="accuracy"):
        self.name = name


class Model:
    """A network of the lab. Only what the log shows of it is real."""

    clock = None
    out_of_memory = None
    strategy_now = None

    def __init__(self, constructor):
        self.constructor = constructor
        self.name = timing.NETWORKS[constructor].keras_name
        self.distribute_strategy = Model.strategy_now()
        self.optimizer = None

    def count_params(self):
        return timing.NETWORKS[self.constructor].parameters

    def summary(self, *_arguments, **_options):
        print(f'Model: "{self.name}"\nTotal params: {self.count_params():,}', flush=True)

    def compile(self, optimizer=None, loss=None, metrics=None, **_options):
        self.optimizer = optimizer if isinstance(optimizer, Optimizer) else SGD()

    def _training(self, dataset):
        strategy = self.distribute_strategy
        return timing.Training(
            network=self.constructor,
            gpus=strategy.gpus,
            batch=dataset._batch or 32,
            images=dataset._images,
            image_size=dataset._size,
            cores=int(os.environ.get("SLURM_CPUS_PER_TASK") or os.environ.get("SLURM_CPUS_ON_NODE", "20")),
            mirrored=strategy.mirrored,
        )

    def fit(self, x=None, y=None, epochs=1, verbose=1, callbacks=None, steps_per_epoch=None, **_options):
        training = self._training(x)
        chance = random.Random("-".join((os.environ.get("LABTUI_PRACTICE_SEED", "0"), str(training))))
        history = History()
        everyone = [history, *(callbacks or [])]
        for callback in everyone:
            callback.set_params({"verbose": verbose, "epochs": epochs, "steps": training.steps})
            callback.set_model(self)
        for callback in everyone:
            callback.on_train_begin({})
        self._refuse_what_does_not_fit(training)
        _show_gpus(training)
        for epoch in range(epochs):
            self._epoch(training, epoch, epochs, verbose, everyone, chance)
            history.epoch.append(epoch)
        _show_gpus(None)
        for callback in everyone:
            callback.on_train_end({})
        return history

    def _epoch(self, training, epoch, epochs, verbose, everyone, chance):
        if verbose and epochs > 1:
            print(f"Epoch {epoch + 1}/{epochs}", flush=True)
        for callback in everyone:
            callback.on_epoch_begin(epoch, {})
        seconds = timing.epoch_seconds(training, epoch + 1, chance)
        metrics = timing.metrics(training, epoch + 1, chance)
        if verbose == 1:
            _bars(training, seconds, metrics, Model.clock)
        else:
            Model.clock.advance(seconds)
        if verbose == 2:
            print(summary_line(training.steps, seconds, metrics), flush=True)
        for callback in everyone:
            callback.on_epoch_end(epoch, dict(metrics))

    def _refuse_what_does_not_fit(self, training):
        if timing.fits(training):
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

    def evaluate(self, x=None, verbose=1, **_options):
        Model.clock.advance(2.0)
        return [2.3, 0.1]

    def save(self, *_arguments, **_options):
        return None

    save_weights = save


def summary_line(steps, seconds, metrics):
    """The line Keras 2.11 prints after an epoch with verbose=2."""
    told = "".join(
        f" - {name}: {value:.4f}" if value > 1e-3 else f" - {name}: {value:.4e}"
        for name, value in metrics.items()
    )
    return f"{steps}/{steps} - {seconds:.0f}s{told}{_per(seconds, 'epoch')}{_per(seconds / steps, 'step')}"


def _per(seconds, unit):
    """Keras 2's rounding: whole seconds from 1 s on, whole milliseconds from 1 ms on, else microseconds."""
    if seconds >= 1 or seconds == 0:
        return f" - {seconds:.0f}s/{unit}"
    if seconds >= 1e-3:
        return f" - {seconds * 1e3:.0f}ms/{unit}"
    return f" - {seconds * 1e6:.0f}us/{unit}"


def _bars(training, seconds, metrics, clock):
    """verbose=1 as it lies in a file: backspaces and carriage returns between the bars."""
    previous = 0
    told = "".join(f" - {name}: {value:.4f}" for name, value in metrics.items())
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
        line = f"{step:>{width}}/{training.steps} [{bar}]{timed}{told}"
        sys.stdout.write("\b" * previous + ("\r" if previous else "") + line)
        sys.stdout.flush()
        previous = len(line)
    sys.stdout.write("\n")
    sys.stdout.flush()


def _show_gpus(training):
    """Tell the job's nvidia-smi what its GPUs are doing (None: nothing)."""
    folder = os.environ.get("LABTUI_PRACTICE_JOB")
    if not folder:
        return
    load = {"gpus": 0, "percent": 0.0, "gib": 0.0}
    if training is not None and training.gpus:
        load = {
            "gpus": training.gpus,
            "percent": timing.utilisation(training),
            "gib": timing.memory_gib(training),
        }
    beside = Path(folder) / "gpu.json.new"
    beside.write_text(json.dumps(load), encoding="ascii")
    beside.replace(Path(folder) / "gpu.json")


def _network(name):
    def construct(
        include_top=True, weights="imagenet", input_tensor=None, input_shape=None, classes=1000, **_options
    ):
        if weights == "imagenet":
            raise OSError(
                "URL fetch failure on https://storage.googleapis.com/tensorflow/keras-applications/resnet/"
                f"{timing.NETWORKS[name].keras_name}_weights_tf_dim_ordering_tf_kernels.h5: None -- "
                "[Errno 101] Network is unreachable"
            )
        return Model(name)

    construct.__name__ = name
    return construct


def build(module, get_strategy, out_of_memory, clock, dataset):
    """The module `tf.keras`, made with `module(name, **content)`."""
    Model.clock, Model.out_of_memory, Model.strategy_now = clock, out_of_memory, staticmethod(get_strategy)
    networks = {name: _network(name) for name in timing.NETWORKS}
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
