"""Names of models as the lab says them, from names as programs print them."""

from __future__ import annotations

import re

from labtui.core.model import Device

_RESNET = re.compile(r"resnet[-_ ]?(?:v\d[-_]?)?(\d{2,4})", re.IGNORECASE)
_KNOWN = re.compile(
    r"resnet|vgg|mobilenet|densenet|inception|xception|efficientnet|nasnet|alexnet|lenet|mnist|cifar",
    re.IGNORECASE,
)
_SUFFIX = re.compile(
    r"(?:[-_.](?:seq|sequential|parallel|mirrored|multi|cpu|gpu|v\d|hvd|horovod|ddp))+\Z", re.IGNORECASE
)
_PLAIN = {
    "main",
    "train",
    "train_ddp",
    "run",
    "training",
    "benchmark",
    "tf_cnn_benchmarks",
    "script",
    "fit",
    "test",
}


def is_architecture(stem: str) -> bool:
    """Whether a script's name is that of a network, so that running it is a training."""
    return _KNOWN.search(stem) is not None


def short_model(name: str) -> str:
    """``ResNet50V2``, ``resnet50`` and ``ResNet50_seq`` are all ``ResNet50``; other names stay."""
    found = _RESNET.search(name)
    return f"ResNet{found[1]}" if found else name.strip()[:80]


def model_of_script(stem: str) -> str | None:
    """The model a script is named for, or None when its name says nothing (``train.py``)."""
    if _RESNET.search(stem):
        return short_model(stem)
    bare = _SUFFIX.sub("", stem)
    return None if not bare or bare.lower() in _PLAIN or "imagenet" in bare.lower() else bare[:80]


def device_of(word: str) -> Device | None:
    """``cpu`` or ``gpu`` from a word such as ``GPU``, ``cuda:0`` or ``/device:CPU:0``."""
    lower = word.lower()
    if "gpu" in lower or "cuda" in lower:
        return "gpu"
    return "cpu" if "cpu" in lower else None
