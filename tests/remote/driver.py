"""Runs in a new interpreter with TensorFlow: many short checks of the training scripts after one import.

    python driver.py REMOTE DATA

Prints one JSON object. What ends a process (`sys.exit`) is caught and noted, so every case that never reaches
a training can share this process; cases that train have processes of their own in test_training.py.
"""

import contextlib
import io
import json
import pathlib
import runpy
import shutil
import sys
import tempfile

REMOTE, DATA = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])


def ending(script, *words, **environment):
    """Exit code, last line of standard error, and standard output of a script that ends before training."""
    import os

    sys.argv = [str(REMOTE / script), *words]
    out, err = io.StringIO(), io.StringIO()
    saved = dict(os.environ)
    os.environ.update(environment)
    code = 0
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            runpy.run_path(str(REMOTE / script), run_name="__main__")
    except SystemExit as end:
        code = end.code
    finally:
        os.environ.clear()
        os.environ.update(saved)
    return {"code": code, "err": err.getvalue(), "out": out.getvalue()}


def damaged(name, change):
    """A copy of the data folder in which one file was changed."""
    folder = pathlib.Path(tempfile.mkdtemp()) / "cifar-10-batches-py"
    shutil.copytree(DATA, folder)
    change(folder / name)
    return str(folder)


def endings():
    small = ["--device", "cpu", "--image-size", "32"]
    data = ["--data", str(DATA)]

    def cut(path):
        path.write_bytes(path.read_bytes()[:1000])

    def uneven(path):
        path.write_bytes(path.read_bytes().replace(b"labels", b"lobels"))

    return {
        "no data": ending("ResNet50.py", *small, "--data", "/nowhere/cifar-10-batches-py"),
        "default data": ending("ResNet50.py", *small),
        "file missing": ending(
            "ResNet50.py", *small, "--data", damaged("data_batch_3", lambda path: path.unlink())
        ),
        "file cut": ending("ResNet50_seq.py", *small, "--data", damaged("data_batch_2", cut)),
        "file strange": ending("ResNet50_seq.py", *small, "--data", damaged("test_batch", uneven)),
        "too many images": ending("ResNet50_seq.py", *small, *data, "--images", "100000"),
        "no gpu": ending("ResNet50.py", *data, "--n_gpus", "2"),
        "no gpu in a gpu job": ending("ResNet50_seq.py", *data, SLURM_JOB_GPUS="0"),
        "small batch": ending("ResNet152.py", *small, *data, "--batch_size", "3", "--n_gpus", "4"),
        "no epochs": ending("ResNet101_seq.py", *small, *data, "--epochs", "0"),
        "no rate": ending("ResNet50.py", *small, *data, "--learning_rate", "nan"),
        "long dash": ending("ResNet50.py", "\u2013epochs", "5"),
        "blank after dashes": ending("ResNet50.py", "--", "epochs", "5"),
        "help": ending("ResNet50.py", "--help"),
    }


def pipeline():
    import cifar
    import numpy as np

    train, test = cifar.load_cifar(7, str(DATA), image_size=32)
    batches = list(train.as_numpy_iterator())
    raw = np.concatenate([cifar.read_batch(str(DATA / name))[0] for name in cifar.TRAIN_FILES])
    seen = np.concatenate([images for images, _ in batches])
    large, _ = cifar.load_cifar(4, str(DATA), images=6)
    image = next(iter(large.as_numpy_iterator()))[0][0]
    return {
        "images": train.images,
        "batches": [len(labels) for _, labels in batches],
        "same pixels": bool(
            np.array_equal(seen, raw.transpose(0, 2, 3, 1).astype("float32") / np.float32(255))
        ),
        "type": str(seen.dtype),
        "large": list(image.shape),
        "large batches": [len(labels) for _, labels in large.as_numpy_iterator()],
        # Bilinear resizing by 4: the corner pixel is the source's, and nothing leaves the source's range.
        "corner": bool(np.allclose(image[0, 0], seen[0, 0, 0])),
        "range": bool(image.min() >= seen[0].min() and image.max() <= seen[0].max()),
        "test images": sum(len(labels) for _, labels in test.as_numpy_iterator()),
    }


def models():
    """The models that the scripts build, without training; only the smallest network is real."""
    import argparse
    import functools
    import importlib

    import tensorflow as tf

    def small(name, input_shape, classes, **_):
        layers = [tf.keras.Input(input_shape), tf.keras.layers.Flatten(), tf.keras.layers.Dense(classes)]
        return tf.keras.Sequential(layers, name=name.lower())

    networks = tf.keras.applications.resnet_v2
    for network in (networks.ResNet101V2, networks.ResNet152V2):
        setattr(networks, network.__name__, functools.partial(small, network.__name__))
    built = {}
    fits = []
    tf.keras.Model.fit = lambda model, data, **options: fits.append((model, options))
    for name in ("ResNet50", "ResNet101_seq", "ResNet152"):
        parallel = not name.endswith("_seq")
        devices = ["/cpu:0", "/cpu:1"] if name == "ResNet50" else ["/cpu:0"]  # the others run its code
        args = argparse.Namespace(
            batch_size=8, data=str(DATA), images=8, image_size=32, epochs=3, learning_rate=0.02, device="cpu",
            devices=devices, parallel=parallel, control="none", trainings=1,
        )  # fmt: skip
        importlib.import_module(name).train(args)
        model, options = fits.pop()
        log = options["callbacks"][0]
        log.set_model(model)
        built[name] = {
            "keras": model.name.lower(), "short": log.model_name, "classes": model.output_shape[-1],
            "rate": log._learning_rate(), "verbose": options["verbose"], "epochs": options["epochs"],
        }  # fmt: skip
    return built


def main():
    sys.path.insert(0, str(REMOTE))
    report = {"endings": endings()}
    report["pipeline"] = pipeline()
    report["models"] = models()
    print("REPORT " + json.dumps(report))


if __name__ == "__main__":
    main()
