"""What the lab's training scripts share: options, checks, time measurement, and the lines of the log.

The training itself (network, strategy, fit) is in ResNet50.py and ResNet50_seq.py, not here.
Needs Python 3.8 or later and TensorFlow 2.11 or later, nothing else.

Exit codes: 0 done, 2 wrong options, 3 no usable data, 4 no usable GPUs, 5 out of memory,
143 terminated from outside (scancel, time limit), 1 anything else.
"""

import argparse
import importlib.util
import json
import math
import os
import platform
import re
import signal
import socket
import sys
import time

# A logical CPU device gets threads of its own only if this is set before TensorFlow starts (see use_cpu).
if "cpu" in " ".join(sys.argv[1:]).replace("=", " ").split():
    os.environ.setdefault("TF_OVERRIDE_GLOBAL_THREADPOOL", "1")

import tensorflow as tf  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "cifar-utils"))
if importlib.util.find_spec("cifar") is None:
    sys.exit(
        "ModuleNotFoundError: No module named 'cifar': cifar-utils/cifar.py does not lie beside this script."
    )

EXIT_USAGE = 2
EXIT_DATA = 3
EXIT_DEVICES = 4
EXIT_MEMORY = 5
EXIT_TERMINATED = 128 + signal.SIGTERM


class Problem(Exception):
    """Something the student can put right: a sentence, and the exit code that goes with it."""

    def __init__(self, code, sentence):
        super().__init__(sentence)
        self.code = code


class Terminated(Exception):
    """SIGTERM arrived: the job was cancelled or its time is over."""


# ---------------------------------------------------------------------------------------- the main program


def main(train, parallel):
    """Reads the options, prepares the devices, calls train(args), and ends the process with an exit code.

    parallel is True for the scripts that take --n_gpus.
    """
    signal.signal(signal.SIGTERM, _terminated)
    args = parse_options(parallel)
    RunLog.setup_began = time.perf_counter()
    try:
        choose_devices(args)
        train(args)
    except Problem as problem:
        _fail(problem.code, str(problem), "aborted")
    except _data_problem() as problem:
        _fail(EXIT_DATA, str(problem), "no data")
    except (tf.errors.ResourceExhaustedError, MemoryError) as error:
        _fail(EXIT_MEMORY, _memory_sentence(args, error), "out of memory")
    except Terminated:
        _fail(
            EXIT_TERMINATED,
            "The training was terminated from outside (cancelled, or out of time).",
            "terminated",
        )
    except BaseException as error:
        RunLog.abort(type(error).__name__)
        raise


def _terminated(number, frame):
    raise Terminated()


def _fail(code, sentence, reason):
    RunLog.abort(reason)
    sys.stdout.flush()
    print("error: " + " ".join(sentence.split()), file=sys.stderr, flush=True)
    sys.exit(code)


def _data_problem():
    """The exception of our cifar.py; another cifar.py (the course's) has none, then nothing matches."""
    return getattr(sys.modules.get("cifar"), "DataProblem", ())


def _memory_sentence(args, error):
    lines = str(error).strip().splitlines() or ["no details"]
    said = next((line for line in lines if "OOM" in line or "memory" in line), lines[0])
    return (
        "Out of memory with a global batch of {} on {} replica(s), {} images each: try half the batch size "
        "(--batch_size {}). TensorFlow says: {}: {}"
    ).format(
        args.batch_size,
        args.replicas,
        math.ceil(args.batch_size / args.replicas),
        max(args.replicas, args.batch_size // 2),
        type(error).__name__,
        said[:300],
    )


# ------------------------------------------------------------------------------------------------- options


class Options(argparse.ArgumentParser):
    """argparse, with a word about dashes and quotes that were pasted from a document."""

    def error(self, message):
        if any(
            re.search("[\u2010-\u2015\u2212\u2018-\u201f]", word) or word == "--" for word in sys.argv[1:]
        ):
            message += (
                "\nerror: the command holds a long dash, a curly quote or a lone '--', as copied from "
                "a document: type '--epochs 5' by hand."
            )
        super().error(message)


def parse_options(parallel, argv=None):
    """The lab's options as a namespace; exits with code 2 and a sentence when they cannot be right."""
    parser = Options(description="Trains a ResNet on CIFAR-10, timing each epoch.", allow_abbrev=False)
    parser.add_argument("--epochs", type=int, default=5, help="how many epochs (the first one is warm-up)")
    parser.add_argument(
        "--batch_size", type=int, default=2048, help="global batch: images per step over all replicas"
    )
    if parallel:
        parser.add_argument("--n_gpus", type=int, default=1, help="how many GPUs, one replica on each")
    parser.add_argument(
        "--learning_rate", type=float, metavar="RATE", help="default: 0.01 x number of replicas"
    )
    parser.add_argument("--data", metavar="FOLDER", help="the folder cifar-10-batches-py")
    parser.add_argument("--images", type=int, metavar="N", help="use only the first N training images")
    parser.add_argument(
        "--image-size", "--image_size", type=int, default=128, metavar="N", help="resize images to N x N"
    )
    parser.add_argument(
        "--device",
        choices=["gpu", "cpu"],
        default="gpu" if parallel else None,
        help="cpu: CPU devices stand in for the GPUs, to rehearse on a machine without any"
        if parallel
        else "insist on the GPU or on the CPU (otherwise: the GPU if the job has one)",
    )
    parser.add_argument("--threads", type=int, metavar="N", help="with --device cpu: CPU threads per replica")
    args = parser.parse_args(argv)

    args.replicas = args.n_gpus if parallel else 1
    args.parallel = parallel
    for name, value in (
        ("--epochs", args.epochs),
        ("--batch_size", args.batch_size),
        ("--n_gpus", args.replicas),
        ("--images", args.images),
        ("--threads", args.threads),
    ):
        if value is not None and value < 1:
            parser.error("argument {}: must be at least 1, not {}".format(name, value))
    if args.learning_rate is None:
        args.learning_rate = 0.01 * args.replicas
    if not 0 < args.learning_rate < math.inf:
        parser.error("argument --learning_rate: must be a number above 0, not {}".format(args.learning_rate))
    if args.image_size < 32:
        parser.error(
            "argument --image-size: must be at least 32 for a ResNet, not {}".format(args.image_size)
        )
    if args.batch_size < args.replicas:
        sentence = "argument --batch_size: {} is the global batch, but must hold an image for each of {} GPUs"
        parser.error(sentence.format(args.batch_size, args.replicas))
    return args


# ------------------------------------------------------------------------------------------------- devices


def choose_devices(args):
    """Sets args.device ("gpu" or "cpu") and args.devices, the names for MirroredStrategy. Raises Problem."""
    gpus = tf.config.list_physical_devices("GPU")
    if args.device is None:
        if not gpus and _job_has_gpu():
            raise Problem(
                EXIT_DEVICES, "This job was given a GPU, but TensorFlow sees none. " + _why_no_gpu("cpu")
            )
        args.device = "gpu" if gpus else "cpu"
    if args.device == "cpu":
        if args.threads is None and args.parallel:
            args.threads = max(1, _cores() // 4)
        args.devices = use_cpu(args.replicas, args.threads, args.parallel)
        args.device_names = [platform.processor() or platform.machine()]
        return
    if len(gpus) < args.replicas:
        asked = "{} GPU{} asked for, but TensorFlow sees ".format(
            args.replicas, "s were" if args.replicas > 1 else " was"
        )
        if not gpus:
            raise Problem(EXIT_DEVICES, asked + "no GPU at all. " + _why_no_gpu("cpu"))
        raise Problem(
            EXIT_DEVICES,
            asked
            + "only {}. Ask Slurm for as many (#SBATCH --gres=gpu:{}), or lower --n_gpus.".format(
                len(gpus), args.replicas
            ),
        )
    args.devices = ["/gpu:{}".format(i) for i in range(args.replicas)]
    args.device_names = [_gpu_name(gpu) for gpu in gpus[: args.replicas]]


def use_cpu(replicas, threads, parallel):
    """Lets the CPU stand in for the GPUs: one logical device per replica; returns their names.

    A GPU is a device of fixed size, and two of them are twice as many processors. To rehearse that, each
    logical CPU device gets the same number of threads however many replicas there are: by default a quarter
    of the cores, as the lab goes up to four replicas. TF_OVERRIDE_GLOBAL_THREADPOOL (top of this file)
    makes TensorFlow keep one thread pool per device instead of one for all. The sequential scripts keep all
    cores: that is the CPU baseline."""
    tf.config.set_visible_devices([], "GPU")
    if threads is not None:
        tf.config.threading.set_intra_op_parallelism_threads(threads)
    if parallel:
        cpu = tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * replicas)
        # MirroredStrategy warns of devices that are no GPUs (a forgotten --nv). Here they are meant.
        tf.get_logger().addFilter(lambda record: "non-GPU devices" not in record.getMessage())
    return ["/cpu:{}".format(i) for i in range(replicas)]


def _cores():
    """CPU cores this process may use (a job usually has fewer than the node)."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _job_has_gpu():
    return any(os.environ.get(name) for name in ("SLURM_JOB_GPUS", "SLURM_STEP_GPUS", "GPU_DEVICE_ORDINAL"))


def _why_no_gpu(instead):
    why = "Start the container with 'singularity exec --nv' and ask Slurm for GPUs (#SBATCH --gres=gpu:N)"
    if not tf.test.is_built_with_cuda():
        why = "This TensorFlow was built without GPU support"
    return "{}; to train on the CPU on purpose add --device {}.".format(why, instead)


def _gpu_name(gpu):
    return tf.config.experimental.get_device_details(gpu).get("device_name", gpu.name)


# ----------------------------------------------------------------------------------------- lines of the log


def mllog(event_type, key, value=None, metadata=None, when=None):
    """Prints one record in the form of MLPerf logging (github.com/mlcommons/logging), flushed at once."""
    record = {
        "namespace": "",
        "time_ms": int(1000 * (time.time() if when is None else when)),
        "event_type": event_type,
        "key": key,
        "value": _plain(value),
        "metadata": _plain(metadata or {}),
    }
    print(":::MLLOG " + json.dumps(record, allow_nan=False), flush=True)


def point(key, value, **metadata):
    """A record about a moment, or a fact."""
    mllog("POINT_IN_TIME", key, value, metadata)


def _plain(value):
    """Plain JSON values: NumPy numbers become floats; JSON has no NaN and no infinity, they become null."""
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, (bool, int, str)):
        return value
    number = float(value)
    return number if math.isfinite(number) else None


class RunLog(tf.keras.callbacks.Callback):
    """Prints the lab's banner and the MLPerf records of one training, and measures each epoch.

    What `seconds` of an epoch_stop record include: everything from Keras's on_epoch_begin to its
    on_epoch_end, on a monotonic clock. That is waiting for data, all steps (forward, backward, exchange of
    gradients between replicas), and the reading of the metrics from the device, for which Keras waits
    before it calls on_epoch_end. In the first epoch it is also tracing the graph, setting up the devices,
    and resizing and caching the images. It is not what happens between two epochs; `run_seconds`, measured
    from run_start, shows it.

    Keras measures the time that it prints between the same two points: its own progress bar is the last in
    the list of callbacks, so its clock starts and stops some microseconds after ours. To keep it so,
    nothing is printed inside that span: epoch_start is printed before the clock starts, epoch_stop when the
    next epoch begins (or the training ends), which is at once. No hook is defined for single steps, as it
    would make TensorFlow wait after each."""

    current = None  # the run that has started and not yet stopped, for abort()
    setup_began = None

    def __init__(self, args, train_ds):
        super().__init__()
        self.args = args
        self.images = getattr(train_ds, "images", None)
        self.finished_epoch = None

    # Keras calls these.

    def on_train_begin(self, logs=None):
        self._banner()
        self._facts()
        self.run_began = time.perf_counter()
        RunLog.current = self
        setup = None if RunLog.setup_began is None else self.run_began - RunLog.setup_began
        mllog("INTERVAL_START", "run_start", None, {"setup_seconds": setup})

    def on_epoch_begin(self, epoch, logs=None):
        self._report_epoch()
        mllog(
            "INTERVAL_START",
            "epoch_start",
            None,
            {"epoch_num": epoch + 1, "run_seconds": time.perf_counter() - self.run_began},
        )
        self.epoch_began = time.perf_counter()

    def on_epoch_end(self, epoch, logs=None):
        ended = time.perf_counter()
        self.finished_epoch = (epoch + 1, ended, time.time(), dict(logs or {}))

    def on_train_end(self, logs=None):
        self._report_epoch()
        self._stop("success", {})

    # The records.

    def _banner(self):
        """The lab's own lines; readers of old logs rely on this shape, blanks included."""
        print(" Model {} {} GPUs ".format(self.model_name, self.n_gpus), flush=True)
        print("-" * 40, flush=True)
        print("Batch_size: {}".format(self.args.batch_size), flush=True)
        print("Num_replicas: {} ".format(self.replicas), flush=True)
        if self.args.device == "cpu" and self.args.parallel:
            print("Device: cpu ({} CPU device(s) stand in for GPUs)".format(self.replicas), flush=True)

    def _facts(self):
        args = self.args
        point("model_name", self.model_name, keras_name=self.model.name, parameters=self.model.count_params())
        # "practice": CPU devices that stand in for GPUs rehearse the lab; their times say nothing about GPUs.
        point(
            "device",
            args.device,
            names=args.device_names,
            threads=args.threads,
            cores=_cores(),
            practice=args.device == "cpu" and args.parallel,
        )
        point("num_replicas", self.replicas)
        point("n_gpus", self.n_gpus)
        point("global_batch_size", args.batch_size, per_replica=args.batch_size / self.replicas)
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
        if self.finished_epoch is None:
            return
        number, ended, when, metrics = self.finished_epoch
        self.finished_epoch = None
        seconds = ended - self.epoch_began
        facts = {
            "epoch_num": number,
            "seconds": seconds,
            "steps": self.steps,
            "samples": self.images,
            "run_seconds": ended - self.run_began,
        }
        mllog("INTERVAL_END", "epoch_stop", None, facts, when)
        mllog("POINT_IN_TIME", "tracked_stats", metrics, {"epoch_num": number}, when)

    def _stop(self, status, metadata):
        RunLog.current = None
        metadata = dict(metadata, status=status, seconds=time.perf_counter() - self.run_began)
        mllog("INTERVAL_END", "run_stop", None, metadata)

    @staticmethod
    def abort(reason):
        """Closes the run that is under way, if there is one, because it cannot go on."""
        if RunLog.current is not None:
            RunLog.current._report_epoch()
            RunLog.current._stop("aborted", {"reason": reason})

    # What the model itself tells.

    @property
    def model_name(self):
        """The lab's short name, from the network itself: ResNet50 for Keras's resnet50v2."""
        found = re.match(r"resnet(\d+)v2", self.model.name, re.IGNORECASE)
        return "ResNet" + found.group(1) if found else self.model.name

    @property
    def replicas(self):
        strategy = getattr(self.model, "distribute_strategy", None) or tf.distribute.get_strategy()
        return strategy.num_replicas_in_sync

    @property
    def n_gpus(self):
        """Replicas that are GPUs, or stand in for them; 0 for the sequential training on the CPU."""
        return 0 if self.args.device == "cpu" and not self.args.parallel else self.replicas

    @property
    def steps(self):
        """Steps of an epoch, the last one with a batch that may be short."""
        steps = (self.params or {}).get("steps")
        if steps is None and self.images:
            steps = math.ceil(self.images / self.args.batch_size)
        return steps

    def _learning_rate(self):
        """The rate the optimizer starts with, without the noise of its 32-bit number."""
        rate = self.model.optimizer.learning_rate
        if callable(rate):  # a schedule
            rate = rate(0)
        return float("{:.7g}".format(float(rate.numpy() if hasattr(rate, "numpy") else rate)))
