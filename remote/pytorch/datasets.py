"""The data: CIFAR-10 as published, a folder of images, or synthetic images; as bytes until on the device.

    cifar10      the folder cifar-10-batches-py: --data FOLDER, else the environment variable CIFAR10_DATA
    FOLDER       the same, or folders train/CLASS/... and val/CLASS/... of JPEG or PNG files (needs Pillow);
                 also Tiny ImageNet's val/images with val_annotations.txt
    synthetic    random images that depend on their class, the same on every rank and in every run

There is no augmentation, because the course measures time and every epoch should do the same work.
"""

import importlib.util
import os
import pickle

import numpy as np
import torch
from distributed import EXIT_DATA, EXIT_USAGE, Problem
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, DistributedSampler, Subset

CIFAR_TRAIN = tuple(f"data_batch_{number}" for number in range(1, 6))
CIFAR_TEST = ("test_batch",)
PICTURES = (".jpeg", ".jpg", ".png")
POOL = 512
"""The number of different synthetic images; a larger data set repeats them."""


def open_dataset(args):
    """Returns training data, validation data and the number of classes. Raises Problem."""
    folder = args.data or (os.environ.get("CIFAR10_DATA") if args.dataset == "cifar10" else args.dataset)
    if args.dataset == "synthetic":
        train = Synthetic(args.images or 1280, args.resolution, args.seed)
        return train, Synthetic(max(1, len(train) // 5), args.resolution, args.seed + 1), Synthetic.classes
    if not folder:
        raise Problem(
            EXIT_USAGE, "--dataset cifar10 needs --data FOLDER, or CIFAR10_DATA in the environment."
        )
    if not os.path.isdir(folder):
        raise Problem(EXIT_DATA, f"The data folder {folder} does not exist.")
    if args.dataset == "cifar10" or os.path.isfile(os.path.join(folder, CIFAR_TRAIN[0])):
        train, val, classes = InMemory(folder, CIFAR_TRAIN), InMemory(folder, CIFAR_TEST), 10
    else:
        train, val = open_pictures(folder, args.resolution)
        classes = len(train.classes)
    if args.images and args.images > len(train):
        raise Problem(EXIT_DATA, f"--images is {args.images}, but {folder} holds only {len(train)}.")
    if args.images:
        train, val = Subset(train, range(args.images)), Subset(val, range(min(args.images, len(val))))
    return train, val, classes


def make_loaders(train, val, args, team):
    """Returns the training loader, its sampler and the validation loader of this rank. Raises Problem.

    A training epoch has full batches only, the same number on every rank; the remaining images, different
    ones each epoch, are left out. Validation uses each image once, on one rank.
    """
    sampler = DistributedSampler(train, team.world, team.rank, shuffle=True, seed=args.seed, drop_last=True)
    if len(sampler) < args.batch_size:
        raise Problem(
            EXIT_USAGE,
            f"--batch_size is {args.batch_size} images per process, but {len(train)} images leave only "
            f"{len(sampler)} to each of {team.world}: no batch would be full.",
        )
    options = {"num_workers": args.num_workers, "pin_memory": args.device == "cuda"}
    options["persistent_workers"] = args.num_workers > 0
    loader = DataLoader(train, args.batch_size, sampler=sampler, drop_last=True, **options)
    mine = Subset(val, range(team.rank, len(val), team.world))
    return loader, sampler, DataLoader(mine, args.eval_batch_size, **options)


class OneBatch:
    """Repeats a loader's first batch, as often as the loader has batches."""

    def __init__(self, loader):
        self.batch, self.count = next(iter(loader)), len(loader)

    def __len__(self):
        return self.count

    def __iter__(self):
        return iter([self.batch] * self.count)


def on_device(images, labels, device, resolution):
    """Moves a batch to the device, as floats from -1 to 1, resized to resolution x resolution."""
    images = images.to(device, non_blocking=True).float().div_(127.5).sub_(1)
    if images.shape[-1] != resolution:
        images = functional.interpolate(images, (resolution, resolution), mode="bilinear", antialias=False)
    return images, labels.to(device, non_blocking=True)


class InMemory(Dataset):
    """CIFAR-10's pickled files in memory: uint8, N x 3 x 32 x 32."""

    def __init__(self, folder, names):
        images, labels = [], []
        for name in names:
            pixels, classes = read_batch(os.path.join(folder, name))
            images.append(pixels)
            labels.append(classes)
        self.images, self.labels = (
            torch.from_numpy(np.concatenate(images)),
            torch.from_numpy(np.concatenate(labels)),
        )

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.images[index], self.labels[index]


def read_batch(file):
    """One pickled file: a dictionary with b"data" (N x 3072 bytes) and b"labels" (N numbers)."""
    try:
        with open(file, "rb") as stream:
            content = pickle.load(stream, encoding="bytes")  # written by Python 2
        pixels = np.asarray(content[b"data"], dtype=np.uint8).reshape(-1, 3, 32, 32)
        classes = np.asarray(content[b"labels"], dtype=np.int64)
    except OSError as error:
        raise Problem(EXIT_DATA, f"{file} cannot be read: {error.strerror or error}.") from error
    except (
        pickle.UnpicklingError,
        EOFError,
        LookupError,
        TypeError,
        ValueError,
        AttributeError,
        ImportError,
    ) as error:
        raise Problem(EXIT_DATA, f"{file} is not a CIFAR-10 file, or was not copied completely.") from error
    if len(pixels) != len(classes) or not len(pixels):
        raise Problem(EXIT_DATA, f"{file} holds {len(pixels)} images and {len(classes)} labels.")
    return pixels, classes


class Synthetic(Dataset):
    """Noise whose brightness per channel depends on the class, so that a network can learn it."""

    classes = 10

    def __init__(self, count, resolution, seed):
        self.count = count
        chance = torch.Generator().manual_seed(seed)
        size = (min(count, POOL), 3, resolution, resolution)
        self.images = torch.randint(0, 128, size, dtype=torch.uint8, generator=chance)
        for index in range(len(self.images)):
            self.images[index, index % self.classes % 3] += 12 * (index % self.classes)

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        index %= len(self.images)
        return self.images[index], index % self.classes


class Pictures(Dataset):
    """Image files with their classes; decoded, resized and cropped to a square on access."""

    def __init__(self, files, classes, resolution):
        self.files, self.classes, self.resolution = files, classes, resolution

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        from PIL import Image

        file, label = self.files[index]
        with Image.open(file) as image:
            scale = self.resolution / min(image.size)
            width, height = (max(self.resolution, round(side * scale)) for side in image.size)
            left, top = (width - self.resolution) // 2, (height - self.resolution) // 2
            image = image.convert("RGB").resize((width, height), Image.BILINEAR)
            image = image.crop((left, top, left + self.resolution, top + self.resolution))
            return torch.from_numpy(np.array(image)).permute(2, 0, 1), label


def open_pictures(folder, resolution):
    """Returns training and validation data of a folder with train/ and val/. Raises Problem."""
    if importlib.util.find_spec("PIL") is None:
        raise Problem(EXIT_DATA, "Image files need Pillow, which this Python lacks: pip install pillow.")
    train, val = os.path.join(folder, "train"), os.path.join(folder, "val")
    for part in (train, val):
        if not os.path.isdir(part):
            raise Problem(
                EXIT_DATA, f"{folder} holds neither CIFAR-10 nor a folder {os.path.basename(part)}/."
            )
    classes = sorted(entry.name for entry in os.scandir(train) if entry.is_dir())
    sets = [Pictures(_labelled(part, classes), classes, resolution) for part in (train, val)]
    for part, found in zip((train, val), sets):
        if not len(found):
            raise Problem(EXIT_DATA, f"{part} holds no JPEG or PNG files in folders named for their classes.")
    return sets


def _labelled(part, classes):
    notes = os.path.join(part, "val_annotations.txt")  # Tiny ImageNet: file, class, box
    numbers = {name: number for number, name in enumerate(classes)}
    if os.path.isfile(notes):
        with open(notes, encoding="utf-8") as stream:
            rows = [line.split("\t")[:2] for line in stream if line.strip()]
        return [(os.path.join(part, "images", file), numbers[name]) for file, name in rows if name in numbers]
    found = []
    for name in classes:
        for where, _, files in sorted(os.walk(os.path.join(part, name))):
            found += [
                (os.path.join(where, file), numbers[name]) for file in sorted(files) if _is_picture(file)
            ]
    return found


def _is_picture(name):
    return name.lower().endswith(PICTURES)
