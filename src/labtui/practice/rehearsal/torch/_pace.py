"""How long the course's PyTorch scripts would have taken on MareNostrum 5, and what memory they would have held.

Fitted to the published tables of chapters 11, 12 and 15 of the course's book. Where two tables contradict each other
(ViT in bf16 with a batch of 128: 196 and 172 images a second; compiled: 265 and 240), one of them is taken.
"""

from __future__ import annotations

from collections.abc import Mapping

from labtui.practice.rehearse import _interpolated

Options = Mapping[str, str]
"""Options of a script by name, as `named_options` reads them from its command."""

_SCALED = {
    # GPUs: images/s of micro-224 and of tiny-224, batches of one process in an epoch (tables 12.1 and 12.5)
    1: (240, 97, 242, 781),
    2: (464, 48, 475, 390),
    4: (892, 24, 935, 195),
    8: (1668, 12, 1817, 97),
    16: (3075, 6, 3597, 48),
    32: (5205, 3, 6914, 24),
}
_PER_GPU = 128
_RESNET = 2000.0
"""Images a second of a ResNet-50 on one GPU: a guess, no table of the course has it."""
_THESIS = {1: 1.0, 2: 1.065, 4: 1.029, 8: 1.071, 16: 1.055, 24: 1.058, 32: 1.089}
"""A step's time over that on one GPU: the thesis's Horovod with PyTorch, 128 images on each GPU (table 9)."""
_RATES = {
    ("fp32", 16): 79.5, ("fp32", 32): 84.5, ("fp32", 64): 91.5, ("fp16", 64): 182.5, ("fp16", 128): 190.5,
    ("bf16", 64): 186.5, ("bf16", 128): 196.5,
}  # fmt: skip
"""Images a second of ViT-H/14 on one GPU that never waits for images (tables 11.1 and 11.5)."""
_CUSTOM = {32: 1546.5, 64: 1765.5, 128: 1864.5, 256: 1863.5}
"""The plain network without loader workers (table 11.2)."""
_LOADER = {1: 2163.5, 2: 3871.5, 4: 6953.5, 8: 10818.5, 10: 10881.5, 16: 10746.5, 20: 10496.5}
"""Images a second that so many loader workers give (table 11.3)."""
_ALONE = 1872.0
"""Images a second that the training process itself reads and decodes."""
COMPILING = 295.0
"""Seconds that the first epoch of a compiled network takes longer (tables 12.1 and 12.5)."""
_FIRST = 12.0

_TOKENS = {
    # sequences, weights, arithmetic, attention, Liger: tokens/s, GiB (tables 15.1 to 15.9)
    (6, "fp32", "no", "eager", False): (10485, 61.89),
    (5, "fp32", "bf16", "eager", False): (11489, 58.27),
    (5, "bf16", "bf16", "eager", False): (13520, 47.66),
    (7, "bf16", "bf16", "eager", False): (14315, 61.32),
    (7, "bf16", "bf16", "sdpa", False): (24446, 39.27),
    (14, "bf16", "bf16", "sdpa", False): (27669, 60.89),
    (14, "bf16", "bf16", "sdpa", True): (36479, 32.46),
    (37, "bf16", "bf16", "sdpa", True): (48229, 62.34),
}
_TOKENS_KEPT = {
    1: 1.0,
    2: 46188 / 48229,
    4: 43432 / 48229,
    8: 42297 / 48229,
    16: 41869 / 48229,
    32: 41424 / 48229,
}
"""Share of one GPU's rate that each keeps (table 15.12)."""
_SEQUENCE = {"fp32 eager": 7.4, "bf16 eager": 6.83, "bf16 sdpa": 3.09, "liger": 1.3}
"""GiB that one more sequence of 1,024 tokens takes."""


def torch_step_seconds(options: Options, gpus: int, batch: int, images: int) -> float:
    """Seconds of a training step of train_ddp.py on `gpus` GPUs, `batch` images on each, without noise."""
    if options.get("mixed_precision", "fp32") == "bf16" and "compile" in options and batch == _PER_GPU:
        return _scaled(gpus, images)[1]
    workers = int(options.get("num_workers", "0"))
    if options.get("model_name", "").startswith("resnet"):
        return batch / _RESNET * _interpolated(_THESIS, gpus)
    if options.get("model_name") == "custom":
        alone = _CUSTOM.get(batch) or 1 / (1 / 1864.0 + 0.0036 / batch)
        rate = _loader(workers) if workers else alone
    else:
        rate = _vit_rate(options, batch)
        rate = min(rate, _loader(workers)) if workers else 1 / (1 / rate + 1 / _ALONE)
    spread = _scaled(gpus, images)[1] / _scaled(1, images)[1] if gpus > 1 else 1.0
    return spread * batch / rate


def torch_epoch_seconds(options: Options, gpus: int, images: int) -> float:
    """Seconds that each epoch takes beside its steps: the loader's workers begin anew."""
    return _scaled(gpus, images)[0] if "compile" in options else 0.0


def torch_first_seconds(options: Options) -> float:
    """Seconds that the first epoch takes longer."""
    return COMPILING if "compile" in options else _FIRST


def torch_memory_gib(options: Options, batch: int) -> float:
    """GPU memory of train_ddp.py (tables 11.1, 11.5 and 12.1)."""
    if options.get("model_name") == "custom":
        return 3.4
    if options.get("model_name", "").startswith("resnet"):
        return 1.5 + 0.09 * batch
    if options.get("mixed_precision", "fp32") in ("fp16", "bf16"):
        return (7.0 if "compile" in options else 4.2) + 0.36 * batch
    return 3.6 + 0.67 * batch


def tokens_step_seconds(options: Options, gpus: int) -> float:
    """Seconds of a step of benchmark_lm.py."""
    batch, length = int(options.get("per_device_train_batch_size", "8")), _length(options)
    key = _tokens_key(options)
    near = min(_TOKENS, key=lambda known: (known[1:] != key[1:], abs(known[0] - batch)))
    return batch * length / (_TOKENS[near][0] * _interpolated(_TOKENS_KEPT, gpus))


def tokens_memory_gib(options: Options) -> float:
    """GPU memory of benchmark_lm.py; beyond the published rows each sequence takes what it took between two of them."""
    key = _tokens_key(options)
    if key in _TOKENS:
        return _TOKENS[key][1]
    near = min(_TOKENS, key=lambda known: (known[1:] != key[1:], abs(known[0] - key[0])))
    kind = "liger" if key[4] else f"{key[1]} {key[3]}"
    return _TOKENS[near][1] + (key[0] - near[0]) * _SEQUENCE.get(kind, 7.4) * _length(options) / 1024


def _tokens_key(options: Options) -> tuple[int, str, str, str, bool]:
    return (
        int(options.get("per_device_train_batch_size", "8")),
        options.get("model_precision", "fp32"),
        options.get("mixed_precision", "no"),
        options.get("attn", "sdpa"),
        "use_liger_kernel" in options,
    )


def _length(options: Options) -> int:
    return int(options.get("sequence_length", "8192"))


def _vit_rate(options: Options, batch: int) -> float:
    precision = options.get("mixed_precision", "fp32").replace("tf32", "fp32")
    near = min((b for kind, b in _RATES if kind == precision), key=lambda known: abs(known - batch))
    faster = 1.35 if "compile" in options else 1.0  # table 11.6: 265 images a second, in another run than 196
    return faster * _RATES[precision, near]


def _loader(workers: int) -> float:
    return _interpolated(_LOADER, workers) if workers < 20 else _LOADER[20]


def _scaled(gpus: int, images: int) -> tuple[float, float]:
    """Seconds once an epoch, and of a step, of ViT-H/14 in bf16, compiled, 128 images on each GPU.

    Both data sets take the same step: their two epochs give both numbers.
    """
    near = min(_SCALED, key=lambda known: abs(known - gpus))
    micro, few, tiny, many = _SCALED[near]
    short, long = (batches * _PER_GPU * near / (rate + 0.5) for rate, batches in ((micro, few), (tiny, many)))
    step = (long - short) / (many - few)
    return max(0.0, short - few * step), step
