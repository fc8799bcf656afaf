"""A training script's lines in the log: the lab's banner, and MLPerf records (mllog.py) of epoch times."""

import math
import os
import platform
import re
import socket
import time

import tensorflow as tf
from mllog import LOCK, Problem, gpu_joules, joules_since, point, record


def cores():
    """CPU cores this process may use (a job usually has fewer than the node)."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class RunLog(tf.keras.callbacks.Callback):
    """Prints the lab's banner and the MLPerf records of one training, and measures each epoch.

    `seconds` of an epoch_stop record is the time from Keras's on_epoch_begin to its on_epoch_end, on a
    monotonic clock. It includes waiting for data, all steps (forward, backward, exchange of gradients
    between replicas), and reading the metrics from the device, for which Keras waits before it calls
    on_epoch_end. In the first epoch it also includes tracing the graph, setting up the devices, and resizing
    and caching the images. It excludes what happens between epochs, which `run_seconds` (since run_start)
    shows.

    Keras's printed time is measured between the same two points: its progress bar is the last callback, so
    its clock starts and stops some microseconds after ours. To keep it so, nothing is printed in between:
    epoch_start is printed before the clock starts, epoch_stop when the next epoch begins or the training
    ends, which follows at once. There is no hook for single steps, because TensorFlow would wait after each.
    """

    current = None  # the run in progress, for abort()
    setup_began = None

    def __init__(self, args, train_ds):
        super().__init__()
        self.args = args
        images = getattr(train_ds, "images", None)
        self.images = images and images * args.trainings
        self.batch_size = args.batch_size * args.trainings
        self.finished_epoch = None

    # Keras calls these.

    def on_train_begin(self, logs=None):
        self._banner()
        self._facts()
        self.run_began = time.perf_counter()
        RunLog.current = self
        setup = None if RunLog.setup_began is None else self.run_began - RunLog.setup_began
        record("INTERVAL_START", "run_start", None, {"setup_seconds": setup})

    def on_epoch_begin(self, epoch, logs=None):
        self._report_epoch()
        record(
            "INTERVAL_START",
            "epoch_start",
            None,
            {"epoch_num": epoch + 1, "run_seconds": time.perf_counter() - self.run_began},
        )
        self.joules = gpu_joules(self.gpus)
        self.epoch_began = time.perf_counter()

    def on_epoch_end(self, epoch, logs=None):
        ended = time.perf_counter()
        used = joules_since(self.joules, self.gpus)
        self.finished_epoch = (epoch + 1, ended, time.time(), dict(logs or {}, **used))

    def on_train_end(self, logs=None):
        self._report_epoch()
        self._stop("success", {})

    # The records.

    def _banner(self):
        """Prints the lab's own lines; other programs rely on their exact form, blanks included."""
        print(" Model {} {} GPUs ".format(self.model_name, self.n_gpus), flush=True)
        print("-" * 40, flush=True)
        print("Batch_size: {}".format(self.batch_size), flush=True)
        print("Num_replicas: {} ".format(self.replicas), flush=True)
        if self.args.device == "cpu" and self.args.parallel:
            print("Device: cpu ({} CPU device(s) stand in for GPUs)".format(self.replicas), flush=True)

    def _facts(self):
        args = self.args
        point("model_name", self.model_name, keras_name=self.model.name, parameters=self.model.count_params())
        # "small": with CPU devices as stand-ins for GPUs, the times say nothing about GPUs.
        point(
            "device",
            args.device,
            names=args.device_names,
            threads=args.threads,
            cores=cores(),
            small=args.device == "cpu" and args.parallel,
        )
        point("num_replicas", self.replicas)
        if args.control == "one-batch" and not args.repeats:
            raise Problem(2, "--control one-batch does nothing here: call fit(batches(args, train_ds), ...).")
        if args.control != "none":
            point("control", args.control)
        point("n_gpus", self.n_gpus)
        point("global_batch_size", self.batch_size, per_replica=self.batch_size / self.replicas)
        point("train_samples", self.images, image_size=args.image_size)
        point("opt_name", type(self.model.optimizer).__name__.lower())
        point("opt_base_learning_rate", self._learning_rate())
        point("epochs", args.epochs, steps=self.steps)
        point(
            "framework",
            "tensorflow {}".format(tf.__version__),
            keras=getattr(tf.keras, "__version__", None),
            python=platform.python_version(),
        )
        point("host", socket.gethostname(), slurm_job_id=os.environ.get("SLURM_JOB_ID"))

    def _report_epoch(self):
        with LOCK:
            finished, self.finished_epoch = self.finished_epoch, None
            if finished is not None:
                self._print_epoch(*finished)

    def _print_epoch(self, number, ended, when, metrics):
        seconds = ended - self.epoch_began
        facts = {
            "epoch_num": number,
            "seconds": seconds,
            "steps": self.steps,
            "samples": self.images,
            "run_seconds": ended - self.run_began,
        }
        record("INTERVAL_END", "epoch_stop", None, facts, when)
        record("POINT_IN_TIME", "tracked_stats", metrics, {"epoch_num": number}, when)

    def _stop(self, status, metadata):
        with LOCK:
            RunLog.current = None
            metadata = dict(metadata, status=status, seconds=time.perf_counter() - self.run_began)
            record("INTERVAL_END", "run_stop", None, metadata)

    @staticmethod
    def abort(reason):
        """Ends the log of the run in progress, if there is one."""
        with LOCK:
            if RunLog.current is not None:
                RunLog.current._report_epoch()
                RunLog.current._stop("aborted", {"reason": reason})

    # From the model itself.

    @property
    def model_name(self):
        """The lab's short name of the network: ResNet50 for Keras's resnet50v2."""
        found = re.match(r"resnet(\d+)v2", self.model.name, re.IGNORECASE)
        return "ResNet" + found.group(1) if found else self.model.name

    @property
    def replicas(self):
        strategy = getattr(self.model, "distribute_strategy", None) or tf.distribute.get_strategy()
        return strategy.num_replicas_in_sync * self.args.trainings

    @property
    def gpus(self):
        """Indexes of GPUs whose energy is read; none for independent trainings: each sees only its own."""
        alone = self.args.trainings == 1 and self.args.device == "gpu"
        return range(self.args.replicas if alone else 0)

    @property
    def n_gpus(self):
        """Replicas that are GPUs, or stand in for them; 0 for the sequential training on the CPU."""
        return 0 if self.args.device == "cpu" and not self.args.parallel else self.replicas

    @property
    def steps(self):
        """Steps per epoch; the last batch may be short."""
        steps = (self.params or {}).get("steps")
        if steps is None and self.images:
            steps = math.ceil(self.images / self.batch_size)
        return steps

    def _learning_rate(self):
        """The optimizer's first learning rate, rounded to hide the errors of its 32-bit float."""
        rate = self.model.optimizer.learning_rate
        if callable(rate):  # a schedule
            rate = rate(0)
        return float("{:.7g}".format(float(rate.numpy() if hasattr(rate, "numpy") else rate)))
