"""A small data set in CIFAR-10's own format (pickled batches), with random but learnable images."""

import pickle
import random
from pathlib import Path

LABELS = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]


def write_cifar(folder: Path, *, per_file: int = 64, seed: int = 5) -> None:
    """Write ``data_batch_1..5``, ``test_batch`` and ``batches.meta`` with `per_file` images of 32x32x3 each.

    Needs NumPy, as the real files hold arrays. A class differs from others in the brightness of the channels.
    """
    import numpy

    folder.mkdir(parents=True, exist_ok=True)
    chooser = random.Random(seed)
    noise = numpy.random.default_rng(seed)
    for name in [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]:
        labels = [chooser.randrange(10) for _ in range(per_file)]
        data = noise.integers(0, 64, size=(per_file, 3072), dtype=numpy.uint8)
        for row, label in enumerate(labels):
            data[row, : 1024 * (1 + label % 3)] += numpy.uint8(16 * label)
        batch = {
            b"batch_label": name.encode(), b"labels": labels, b"data": data,
            b"filenames": [f"{LABELS[label]}_{i:06d}.png".encode() for i, label in enumerate(labels)],
        }  # fmt: skip
        # NumPy 1 cannot read the module names of NumPy 2: those in the published files are NumPy 1's
        as_published = (b"cnumpy._core.multiarray\n", b"cnumpy.core.multiarray\n")
        (folder / name).write_bytes(pickle.dumps(batch, protocol=2).replace(*as_published))
    meta = {
        b"num_cases_per_batch": per_file, b"label_names": [name.encode() for name in LABELS],
        b"num_vis": 3072,
    }  # fmt: skip
    (folder / "batches.meta").write_bytes(pickle.dumps(meta, protocol=2))
