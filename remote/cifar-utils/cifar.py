"""CIFAR-10 as a TensorFlow input pipeline, read from the pickled files of the data set.

    from cifar import load_cifar
    train_ds, test_ds = load_cifar(batch_size)

What happens to an image, in this order:

    pickle file      uint8, 3 x 32 x 32, the way the data set is distributed
    map              transpose to 32 x 32 x 3, resize to 128 x 128 (bilinear), float32 between 0 and 1
    cache            keep the resized images in memory, so that only the first epoch resizes
    batch            the *global* batch; MirroredStrategy divides it among the replicas
    prefetch         prepare the next batch while the devices compute this one

The cache of the 50,000 training images takes 50,000 x 128 x 128 x 3 x 4 bytes = 9.8 GB of the node's memory.
There is no shuffling and no augmentation: the lab measures time, so every epoch should do the same work.
"""

import os
import pickle

import numpy as np
import tensorflow as tf

TRAIN_FILES = ["data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5"]
TEST_FILES = ["test_batch"]

# The data set's folder: CIFAR10_DATA if that is set, else the folder beside this file.
DATA_DIR = os.environ.get("CIFAR10_DATA") or os.path.join(
    os.path.dirname(os.path.abspath(__file__)), "cifar-10-batches-py"
)
WHERE = "Name the folder cifar-10-batches-py with --data FOLDER or in the environment variable CIFAR10_DATA."


class DataProblem(Exception):
    """The data set is missing, incomplete or damaged; the text says which file."""


def load_cifar(batch_size, path=None, images=None, image_size=128):
    """Returns (train_ds, test_ds): batches of images (float32, image_size x image_size x 3) and labels.

    batch_size  images per step, over all replicas together
    path        the folder cifar-10-batches-py (DATA_DIR when None)
    images      the number of training images to use, from the first on (all of them when None)
    image_size  height and width after resizing, in pixels

    train_ds.images holds the number of training images. Raises DataProblem.
    """
    path = path or DATA_DIR
    check_folder(path)
    train_images, train_labels = read_files(path, TRAIN_FILES, images)
    test_images, test_labels = read_files(path, TEST_FILES, images)
    if images is not None and images > len(train_images):
        raise DataProblem(
            "{} training images were asked for, but {} holds only {}.".format(images, path, len(train_images))
        )

    train_ds = pipeline(train_images, train_labels, image_size).batch(batch_size).prefetch(tf.data.AUTOTUNE)
    test_ds = pipeline(test_images, test_labels, image_size).batch(batch_size).prefetch(tf.data.AUTOTUNE)
    train_ds.images = len(train_images)
    return train_ds, test_ds


def pipeline(images, labels, image_size):
    """A data set of single images: transposed, resized, scaled, and cached."""

    def prepare(image, label):
        image = tf.transpose(image, (1, 2, 0))
        image = tf.image.resize(image, (image_size, image_size), method="bilinear")
        return tf.cast(image, tf.float32) / 255.0, label

    dataset = tf.data.Dataset.from_tensor_slices((images, labels))
    return dataset.map(prepare, num_parallel_calls=tf.data.AUTOTUNE).cache()


def check_folder(path):
    """Raises DataProblem if the folder or one of its files is missing."""
    if not os.path.isdir(path):
        raise DataProblem("The data folder {} does not exist. {}".format(path, WHERE))
    missing = [name for name in TRAIN_FILES + TEST_FILES if not os.path.isfile(os.path.join(path, name))]
    if missing:
        raise DataProblem(
            "The data folder {} is incomplete: {} missing. {}".format(path, ", ".join(missing), WHERE)
        )


def read_files(path, names, limit):
    """The images (uint8, N x 3 x 32 x 32) and labels (int64, N) of these files, at most `limit` of them."""
    images, labels = [], []
    count = 0
    for name in names:
        if limit is not None and count >= limit:
            break
        pixels, classes = read_batch(os.path.join(path, name))
        images.append(pixels)
        labels.append(classes)
        count += len(pixels)
    return np.concatenate(images)[:limit], np.concatenate(labels)[:limit]


def read_batch(file):
    """One pickled file: a dictionary with b"data" (N x 3072 bytes) and b"labels" (N numbers)."""
    try:
        with open(file, "rb") as stream:
            # Python 2 wrote the files; its strings are read as bytes.
            content = pickle.load(stream, encoding="bytes")
        pixels = np.asarray(content[b"data"], dtype=np.uint8).reshape(-1, 3, 32, 32)
        classes = np.asarray(content[b"labels"], dtype=np.int64)
    except OSError as error:
        raise DataProblem("{} cannot be read: {}.".format(file, error.strerror or error)) from error
    except (
        pickle.UnpicklingError,
        EOFError,
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
        ImportError,
    ) as error:
        raise DataProblem("{} is not a CIFAR-10 file, or was not copied completely.".format(file)) from error
    if len(pixels) != len(classes) or not len(pixels):
        raise DataProblem("{} holds {} images and {} labels.".format(file, len(pixels), len(classes)))
    return pixels, classes
