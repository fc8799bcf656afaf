"""Trains an image network data-parallel over several nodes with TensorFlow's MultiWorkerMirroredStrategy.

    srun python train_multiworker.py --epochs 5 --batch_size 4096        # one task a node

The workers are read from Slurm's variables, or from TF_CONFIG if that is set; a process outside `srun` is a
single worker. --batch_size is the *global* batch. Only task 0 prints: Keras's lines and MLPerf records.

Keras 3 cannot train with this strategy: TensorFlow 2.16 and later needs the package tf_keras of its version.
Exit codes: 0 done, 2 wrong options, 3 no usable data, 4 wrong number of tasks, no GPU or no tf_keras,
1 anything else.
"""

import argparse
import importlib.util
import json
import os
import pickle
import re
import subprocess
import sys
import time

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import mllog  # noqa: E402  found one folder up
from mllog import Problem  # noqa: E402

EXIT_DATA, EXIT_SETUP = 3, 4
CIFAR = tuple(f"data_batch_{number}" for number in range(1, 6))


def parse_options(argv=None):
    parser = argparse.ArgumentParser(
        description="MultiWorkerMirroredStrategy over Slurm's tasks.", allow_abbrev=False
    )
    add = parser.add_argument
    add("--model", choices=["ResNet50", "ResNet101", "ResNet152", "small"], default="ResNet50")
    add("--epochs", type=int, default=5)
    add("--batch_size", type=int, default=2048, help="global batch: images per step over all workers")
    add("--learning_rate", type=float, default=0.01, help="of the global batch")
    add("--dataset", choices=["synthetic", "cifar10"], default="cifar10")
    add("--data", metavar="FOLDER", help="the folder cifar-10-batches-py (else CIFAR10_DATA)")
    add("--images", type=int, metavar="N", help="only the first N training images (synthetic: how many)")
    add("--image_size", type=int, default=32, metavar="N")
    add("--device", choices=["gpu", "cpu"], default="gpu", help="cpu: tasks stand in for GPUs")
    add("--port", type=int, help="default: from the job's id, so that two jobs on a node do not clash")
    add("--expect_workers", type=int, metavar="N", help="refuse to train unless N tasks take part")
    add(
        "--control",
        choices=["none", "independent", "one-batch"],
        default="none",
        help="to find what a step waits for: every task by itself, or the first batch again and again",
    )
    args = parser.parse_args(argv)
    for name in ("epochs", "batch_size", "image_size"):
        if getattr(args, name) < 1:
            parser.error(f"argument --{name}: must be at least 1, not {getattr(args, name)}")
    return args


# ------------------------------------------------------------------------------------------ who takes part


def expand(nodes):
    """The names in Slurm's short list of nodes, `as01r1b[01-02,5],login1`; by scontrol if there is one."""
    try:
        done = subprocess.run(["scontrol", "show", "hostnames", nodes], capture_output=True, text=True)
        if done.returncode == 0 and done.stdout.split():
            return done.stdout.split()
    except OSError:
        pass
    names = []
    for part in re.findall(r"[^,\[]+(?:\[[^\]]*\])?", nodes):  # a container has no scontrol
        stem, _, ranges = part.strip(",").partition("[")
        for piece in ranges.rstrip("]").split(",") if ranges else [""]:
            first, _, last = piece.partition("-")
            if not piece:
                names.append(stem)
            else:
                names += [f"{stem}{n:0{len(first)}d}" for n in range(int(first), int(last or first) + 1)]
    return names


def tf_config(env, port=None):
    """TF_CONFIG as a dictionary, from Slurm's variables; None for a single worker. Raises Problem."""
    if "TF_CONFIG" in env:
        return json.loads(env["TF_CONFIG"])
    tasks = int(env.get("SLURM_STEP_NUM_TASKS", 1))
    if tasks == 1:
        return None
    port = port or 20000 + int(env.get("SLURM_JOB_ID", 0)) % 10000
    hosts = expand(env.get("SLURM_STEP_NODELIST") or env["SLURM_JOB_NODELIST"])
    if tasks % len(hosts):
        raise Problem(
            EXIT_SETUP, f"{tasks} tasks on {len(hosts)} nodes: start as many on each (--ntasks-per-node)."
        )
    each = tasks // len(hosts)
    workers = [
        f"{host}:{port + local}" for host in hosts for local in range(each)
    ]  # srun's block distribution
    return {"cluster": {"worker": workers}, "task": {"type": "worker", "index": int(env["SLURM_PROCID"])}}


def prepare(args):
    """Sets the environment and imports TensorFlow; returns it, the task, the worker count. Raises Problem."""
    config = tf_config(os.environ, args.port)
    workers = len(config["cluster"]["worker"]) if config else 1
    if args.expect_workers and args.expect_workers != workers:
        raise Problem(
            EXIT_SETUP, f"--expect_workers is {args.expect_workers}, but there are {workers} tasks."
        )
    if args.batch_size < workers:
        raise Problem(
            EXIT_SETUP, f"--batch_size {args.batch_size} is the global batch, too small for {workers} tasks."
        )
    args.trainings = workers if args.control == "independent" else 1
    os.environ.pop("TF_CONFIG", None)
    if config and args.trainings == 1:
        os.environ["TF_CONFIG"] = json.dumps(config)
    os.environ["TF_USE_LEGACY_KERAS"] = "1"
    if args.device == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    import tensorflow as tf

    version = tuple(int(part) for part in tf.__version__.split(".")[:2])
    if version >= (2, 16) and importlib.util.find_spec("tf_keras") is None:
        raise Problem(
            EXIT_SETUP,
            f"TensorFlow {tf.__version__} needs the package tf_keras for several workers, as Keras 3 cannot "
            f"train with them: pip install tf_keras~={version[0]}.{version[1]}.0",
        )
    return tf, config["task"]["index"] if config else 0, workers


# ------------------------------------------------------------------------------------------ data and network


def load(args, np):
    """Returns the images (uint8, N x 32 x 32 x 3) and labels. Raises Problem."""
    if args.dataset == "synthetic":
        chance = np.random.default_rng(0)
        labels = np.arange(args.images or 1024) % 10
        images = chance.integers(0, 128, (len(labels), 32, 32, 3)) + 12 * labels[:, None, None, None]
        return images.astype("uint8"), labels
    folder = args.data or os.environ.get("CIFAR10_DATA") or "cifar-10-batches-py"
    images, labels = [], []
    for name in CIFAR:
        try:
            with open(os.path.join(folder, name), "rb") as stream:
                content = pickle.load(stream, encoding="bytes")
            images.append(np.asarray(content[b"data"], "uint8").reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
            labels.append(np.asarray(content[b"labels"]))
        except (OSError, pickle.UnpicklingError, EOFError, LookupError, ValueError) as error:
            raise Problem(EXIT_DATA, f"{os.path.join(folder, name)} cannot be read: {error}.") from error
    return np.concatenate(images)[: args.images], np.concatenate(labels)[: args.images]


def build(args, tf):
    shape = (args.image_size, args.image_size, 3)
    if args.model == "small":
        layers = tf.keras.layers
        return tf.keras.Sequential([layers.Input(shape), layers.Flatten(), layers.Dense(10, "softmax")])
    network = getattr(tf.keras.applications.resnet_v2, args.model + "V2")
    return network(include_top=True, weights=None, input_shape=shape, classes=10)


# ------------------------------------------------------------------------------------------ the log


def records(args, tf, replicas, images):
    """The callback of task 0, which prints facts and the seconds of each epoch on a monotonic clock."""

    class Records(tf.keras.callbacks.Callback):
        def on_train_begin(self, logs=None):
            mllog.point("model_name", args.model, parameters=int(self.model.count_params()))
            mllog.point("device", args.device, small=args.device == "cpu")
            if args.control != "none":
                mllog.point("control", args.control)
            mllog.point("n_gpus", replicas)
            mllog.point("global_batch_size", args.batch_size)
            mllog.point("train_samples", images)
            mllog.point("opt_base_learning_rate", args.learning_rate)
            mllog.point("epochs", args.epochs)
            mllog.point("framework", f"tensorflow {tf.__version__}")
            mllog.record("INTERVAL_START", "run_start")

        def on_epoch_begin(self, epoch, logs=None):
            mllog.record("INTERVAL_START", "epoch_start", None, {"epoch_num": epoch + 1})
            self.began = time.perf_counter()

        def on_epoch_end(self, epoch, logs=None):
            seconds = time.perf_counter() - self.began
            facts = {"epoch_num": epoch + 1, "seconds": seconds, "samples": images}
            mllog.record("INTERVAL_END", "epoch_stop", None, facts)

        def on_train_end(self, logs=None):
            mllog.record("INTERVAL_END", "run_stop", None, {"status": "success"})

    return Records()


def train(args):
    tf, task, workers = prepare(args)
    if args.device == "gpu" and not tf.config.list_physical_devices("GPU"):
        hint = "ask Slurm for GPUs and start the container with --nv; to train on the CPU add --device cpu"
        raise Problem(EXIT_SETUP, f"TensorFlow sees no GPU: {hint}.")
    import numpy as np

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    replicas = strategy.num_replicas_in_sync * args.trainings
    images, labels = load(args, np)
    steps = len(images) // args.batch_size
    share = steps * (args.batch_size // args.trainings) if args.trainings > 1 else len(images)
    images, labels = images[:share], labels[:share]
    size = (args.image_size, args.image_size)
    dataset = tf.data.Dataset.from_tensor_slices((images, labels))
    dataset = dataset.map(lambda image, label: (tf.image.resize(image, size) / 255.0, label)).cache()
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    dataset = dataset.batch(args.batch_size // args.trainings, drop_remainder=True)
    if not steps:
        raise Problem(EXIT_DATA, f"{len(images)} images do not fill one global batch of {args.batch_size}.")
    if args.control == "one-batch":
        dataset = tf.data.Dataset.from_tensors(next(iter(dataset))).repeat(steps)
    dataset = dataset.with_options(options)
    with strategy.scope():
        model = build(args, tf)
        optimizer = tf.keras.optimizers.SGD(args.learning_rate)
        model.compile(loss="sparse_categorical_crossentropy", optimizer=optimizer, metrics=["accuracy"])
    callbacks = [] if task else [records(args, tf, replicas, steps * args.batch_size)]
    if not task:
        print(f" Model {args.model} {replicas} GPUs \nBatch_size: {args.batch_size}", flush=True)
    model.fit(dataset, epochs=args.epochs, verbose=0 if task else 2, callbacks=callbacks)
    sys.stdout.flush()


def main():
    args = parse_options()
    first = os.environ.get("SLURM_PROCID", "0") == "0"
    try:
        train(args)
    except Problem as problem:
        if first or problem.code == EXIT_DATA:  # data may be missing on one node only
            print(f"error: {os.uname().nodename}: {problem}", file=sys.stderr, flush=True)
        sys.exit(problem.code)


if __name__ == "__main__":
    main()
