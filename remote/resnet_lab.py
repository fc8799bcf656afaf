"""Shared by the lab's training scripts: options, checks, devices, and the end of a script.

The training itself (network, strategy, fit) is in ResNet50.py and ResNet50_seq.py, the log in run_log.py.
Needs Python 3.8 or later and TensorFlow 2.11 or later, nothing else.

Exit codes: 0 done, 2 wrong options, 3 no usable data, 4 no usable GPUs, 5 out of memory,
143 terminated from outside (scancel, time limit), 1 anything else.
"""

import argparse
import importlib.util
import math
import os
import platform
import re
import subprocess
import sys
import time

import tensorflow as tf
from mllog import EXIT_TERMINATED, LOCK, TERMINATED, Problem, on_sigterm
from run_log import RunLog, cores

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "cifar-utils"))
if importlib.util.find_spec("cifar") is None:
    sys.exit(
        "ModuleNotFoundError: No module named 'cifar': cifar-utils/cifar.py is not beside this script."
    )

EXIT_USAGE = 2
EXIT_DATA = 3
EXIT_DEVICES = 4
EXIT_MEMORY = 5


# ---------------------------------------------------------------------------------------- the main program


def main(train, parallel):
    """Reads the options, prepares the devices, calls train(args), and ends the process with an exit code.

    parallel is True for the scripts that take --n_gpus.
    """
    on_sigterm(_terminated)
    args = parse_options(parallel)
    if args.control == "independent" and SHARE not in os.environ:
        sys.exit(train_apart(args))
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
    except BaseException as error:
        RunLog.abort(type(error).__name__)
        raise


def _terminated():
    if TRAININGS:  # each of them ends its own log
        for each in TRAININGS:
            each.terminate()
        os._exit(EXIT_TERMINATED)
    with LOCK:
        try:
            _close(TERMINATED, "terminated")
        finally:  # even if the log cannot be written
            os._exit(EXIT_TERMINATED)


def _fail(code, sentence, reason):
    _close(sentence, reason)
    sys.exit(code)


def _close(sentence, reason):
    """Ends the log: stops the record of the run in progress, then prints the error."""
    RunLog.abort(reason)
    sys.stdout.flush()
    print("error: " + " ".join(sentence.split()), file=sys.stderr, flush=True)


def _data_problem():
    """The exception of our cifar.py; () for the course's cifar.py, which has none: then nothing matches."""
    return getattr(sys.modules.get("cifar"), "DataProblem", ())


def _memory_sentence(args, error):
    text = str(error).strip() or "no details"
    found = re.search("OOM when allocating.*|.*out of memory.*", text)
    said = found.group() if found else text.splitlines()[0]
    return (
        "Out of memory with a global batch of {} on {} replica(s), {} images each: "
        "give a smaller --batch_size. TensorFlow says: {}: {}"
    ).format(
        args.batch_size,
        args.replicas,
        math.ceil(args.batch_size / args.replicas),
        type(error).__name__,
        said[:300],
    )


# ------------------------------------------------------------------------------------------------- options


class Options(argparse.ArgumentParser):
    """An argument parser that explains dashes and quotes pasted from a document."""

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
    """The lab's options as a namespace; exits with code 2 and a sentence if they are invalid."""
    parser = Options(description="Trains a ResNet on CIFAR-10, timing each epoch.", allow_abbrev=False)
    add_options(parser.add_argument, parallel)
    args = parser.parse_args(argv)
    args.replicas = args.n_gpus if parallel else 1
    args.parallel = parallel
    args.trainings, args.repeats = 1, False
    if args.learning_rate is None:
        args.learning_rate = 0.01 * args.replicas
    check_options(args, parser.error)
    share = os.environ.get(SHARE)
    if share is not None:  # one of the independent trainings: its log stands for all of them
        args.trainings, args.replicas = args.replicas, 1
        args.batch_size //= args.trainings
        args.images = (args.images or 50000) // args.trainings
    return args


def add_options(add, parallel):
    add("--epochs", type=int, default=5, help="how many epochs (the first one is warm-up)")
    add("--batch_size", type=int, default=2048, help="global batch: images per step over all replicas")
    if parallel:
        add("--n_gpus", type=int, default=1, help="how many GPUs, one replica on each")
    add(
        "--control",
        choices=["none", "one-batch"] + ["independent"] * parallel,
        default="none",
        help="to find what a step waits for: the first batch again and again"
        + ", or every GPU by itself on its share of the images" * parallel,
    )
    add("--learning_rate", type=float, metavar="RATE", help="default: 0.01 x number of replicas")
    add("--data", metavar="FOLDER", help="the folder cifar-10-batches-py")
    add("--images", type=int, metavar="N", help="use only the first N training images")
    add("--image-size", "--image_size", type=int, default=128, metavar="N", help="resize images to N x N")
    add(
        "--device",
        choices=["gpu", "cpu"],
        default="gpu" if parallel else None,
        help="cpu: CPU devices stand in for the GPUs, to rehearse on a machine without any"
        if parallel
        else "require the GPU or the CPU (otherwise: the GPU if the job has one)",
    )
    add("--threads", type=int, metavar="N", help="with --device cpu: CPU threads per replica")


def check_options(args, error):
    """Calls error(sentence) for the first invalid value."""
    for name, value in (
        ("--epochs", args.epochs),
        ("--batch_size", args.batch_size),
        ("--n_gpus", args.replicas),
        ("--images", args.images),
        ("--threads", args.threads),
    ):
        if value is not None and value < 1:
            error("argument {}: must be at least 1, not {}".format(name, value))
    if not 0 < args.learning_rate < math.inf:
        error("argument --learning_rate: must be a number above 0, not {}".format(args.learning_rate))
    if args.image_size < 32:
        error("argument --image-size: must be at least 32 for a ResNet, not {}".format(args.image_size))
    if args.batch_size < args.replicas:
        sentence = "argument --batch_size: {} is the global batch, but must hold an image for each of {} GPUs"
        error(sentence.format(args.batch_size, args.replicas))


# -------------------------------------------------------------------------------------------- control runs


def batches(args, train_ds):
    """The data set to train on; for --control one-batch, its first batch repeated in place of every batch."""
    if args.control != "one-batch":
        return train_ds
    args.repeats = True
    images = getattr(train_ds, "images", None) or args.images or 50000
    pixels, labels = next(iter(train_ds))
    same = tf.data.Dataset.from_tensors((pixels, labels)).repeat(images // args.batch_size)
    rest = images % args.batch_size
    if rest:  # the last batch is as short as in the training
        short = tf.data.Dataset.from_tensors((pixels[:rest], labels[:rest]))
        same = same.concatenate(short) if len(same) else short
    return same.prefetch(1)


SHARE = "INDEPENDENT_TRAINING"
TRAININGS = []


def train_apart(args):
    """Starts this script once for each GPU, on a share of the cores; returns the highest exit code.

    Only the first one's standard output is kept, as the log.
    """
    n = args.replicas
    mine = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    names = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    for i in range(n):
        gpu = names[i] if len(names) >= n else str(i)
        env = dict(os.environ, CUDA_VISIBLE_DEVICES=gpu, **{SHARE: str(i)})
        # A process inherits the cores of its parent.
        if mine:
            os.sched_setaffinity(0, mine[i * len(mine) // n : (i + 1) * len(mine) // n] or mine)
        out = subprocess.DEVNULL if i else None
        TRAININGS.append(subprocess.Popen([sys.executable, "-u"] + sys.argv, env=env, stdout=out))
    return max(abs(each.wait()) for each in TRAININGS)


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
            args.threads = max(1, cores() // 4)
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
    """Makes one logical CPU device per replica as a stand-in for a GPU; returns the devices' names.

    Two GPUs have twice the processors of one. To imitate that, each logical CPU device gets the same number
    of threads, however many replicas there are: by default a quarter of the cores, as the lab uses up to
    four replicas. The sequential scripts keep all cores, as the CPU baseline.
    """
    tf.config.set_visible_devices([], "GPU")
    if threads is not None:
        tf.config.threading.set_intra_op_parallelism_threads(threads)
    if parallel:
        # One thread pool per device instead of one for all; TensorFlow reads this when it makes its devices.
        os.environ["TF_OVERRIDE_GLOBAL_THREADPOOL"] = "1"
        cpu = tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * replicas)
        # MirroredStrategy warns of devices that are not GPUs (a forgotten --nv). Here they are intended.
        tf.get_logger().addFilter(lambda record: "non-GPU devices" not in record.getMessage())
    return ["/cpu:{}".format(i) for i in range(replicas)]


def _job_has_gpu():
    return any(os.environ.get(name) for name in ("SLURM_JOB_GPUS", "SLURM_STEP_GPUS", "GPU_DEVICE_ORDINAL"))


def _why_no_gpu(instead):
    why = "Ask Slurm for GPUs (#SBATCH --gres=gpu:N); a container sees them with 'singularity exec --nv'"
    if not tf.test.is_built_with_cuda():
        why = "This TensorFlow was built without GPU support"
    return "{}; to train on the CPU on purpose add --device {}.".format(why, instead)


def _gpu_name(gpu):
    return tf.config.experimental.get_device_details(gpu).get("device_name", gpu.name)
