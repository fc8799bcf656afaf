"""What scripts and job scripts print about a run before it trains: banners, echoed commands, job headers.

What may not enter: which run a line belongs to.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from labtui.core.logs.models import model_of_script, short_model
from labtui.core.logs.runs import Facts

_BANNER = re.compile(r"\s*Model:? (?P<model>[\w.+-]{1,80}) (?P<count>\d{1,5}) (?P<device>GPU|CPU)s?\s*\Z")
_CPU_BANNER = re.compile(r"\s*Model:? (?P<model>[\w.+-]{1,80}) CPU\s*\Z")
_BATCH = re.compile(r"\s*(?:Global )?Batch(?:\\?_| )?size: +(\d{1,9})\s*\Z", re.IGNORECASE)
_REPLICAS = re.compile(r"\s*(?:N|Num)(?:ber of )?\\?_?(?:replicas|devices): +(\d{1,5})\s*\Z", re.IGNORECASE)
_TRAIN_ON = re.compile(r"\s*Train on (\d{1,12}) samples\b")
_JOB_NAME = re.compile(r"\s*Job Name\s*:\s+(\S{1,200})\s*\Z", re.IGNORECASE)
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*\Z")
_LAUNCHERS = {"torchrun", "horovodrun", "accelerate", "deepspeed"}
_PROMPT = re.compile(
    r"\s*(?:\++ |\$ |> |(?:running|command|executing|starting|launching|run|cmd)\b[^:]{0,40}: *)", re.I
)
_GPUS = ("--n_gpus", "--n-gpus", "--ngpus", "--num_gpus", "--num-gpus", "--gpus", "--n_gpu", "--num_gpu")
_BATCHES = ("--batch_size", "--batch-size", "--batch", "--bs", "-b")
_EPOCHS = ("--epochs", "--num_epochs", "--num-epochs", "--n_epochs", "--epoch")
_MODELS = ("--model", "-a", "--arch", "--model_name", "--model-name", "--network")
_RATES = ("--lr", "--learning_rate", "--learning-rate")
_RANKS = ("-np", "--np", "-n", "--ntasks", "--nproc_per_node", "--nproc-per-node", "--num-proc")


@dataclass(frozen=True, slots=True)
class Command:
    """An echoed command that starts a training. `no_gpu_flag`: a container without ``--nv`` asked for GPUs."""

    text: str
    facts: Facts
    no_gpu_flag: bool = False


def read_banner(text: str) -> Facts | None:
    """`` Model ResNet50 2 GPUs ``."""
    match = _BANNER.match(text)
    if match is None:
        found = _CPU_BANNER.match(text)
        return Facts(model=short_model(found["model"]), device="cpu", n_gpus=0) if found else None
    if match["device"] == "CPU" or int(match["count"]) == 0:
        return Facts(model=short_model(match["model"]), device="cpu", n_gpus=0)
    return Facts(model=short_model(match["model"]), device="gpu", n_gpus=int(match["count"]))


def read_head(text: str) -> Facts | None:
    """``Batch_size: 4096``, ``Num_replicas: 2``, ``Train on 50000 samples``: what completes a banner."""
    if match := _BATCH.match(text):
        return Facts(batch_size=int(match[1]) or None)
    if match := _REPLICAS.match(text):
        return Facts(n_gpus=int(match[1]))
    if match := _TRAIN_ON.match(text):
        return Facts(images=int(match[1]))
    return None


def is_batch_line(text: str) -> bool:
    """Whether the line gives the batch size: said twice, it belongs to two runs."""
    return _BATCH.match(text) is not None


def read_job_name(text: str) -> Facts | None:
    """``Job Name: ResNet50_seq_CPU``: facts that only fill gaps."""
    match = _JOB_NAME.match(text)
    return facts_of_job_name(match[1]) if match else None


def facts_of_job_name(name: str) -> Facts | None:
    """What a job's name tells of its model and device, if anything."""
    model = model_of_script(name)
    if model is None or not model.startswith("ResNet"):
        return None
    words = re.split(r"[^a-z0-9]+", name.lower())
    if "cpu" in words:
        return Facts(model=model, device="cpu", n_gpus=0)
    if "seq" in words and "gpu" in words:
        return Facts(model=model, device="gpu", n_gpus=1)
    return Facts(model=model)


def read_command(text: str) -> Command | None:
    """The training that an echoed command line starts, or None when it is no such line."""
    if ".py" not in text or len(text) > 4000:
        return None
    bare = _PROMPT.sub("", text, count=1).strip()
    words = _split(bare)
    script = _script_index(words)
    if script is None:
        return None
    before, after = words[:script], words[script + 1 :]
    facts = _facts(before, words[script], after)
    named = facts.model is not None and words[script].endswith(".py")
    if not (facts.epochs_planned or facts.batch_size or facts.n_gpus is not None or named):
        return None
    no_flag = _container_without_gpu(before)
    return Command(" ".join(words), facts, no_flag and _given(after, _GPUS) is not None)


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text.rstrip("\\&"), comments=False)
    except ValueError:
        return text.split()


def _script_index(words: Sequence[str]) -> int | None:
    """Where the .py of a command stands: after a python or a launcher, with no other word that ends it."""
    for index, word in enumerate(words):
        name = PurePosixPath(word).name
        if not (_PYTHON.match(name) or name in _LAUNCHERS):
            continue
        for place in range(index + 1, len(words)):
            if words[place] == "-c":
                return None
            if words[place].endswith(".py"):
                return place
        return None
    return None


def _given(words: Sequence[str], names: Sequence[str]) -> str | None:
    for index, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name in names:
            return value if equals else (words[index + 1] if index + 1 < len(words) else None)
    return None


def _count(words: Sequence[str], names: Sequence[str]) -> int | None:
    value = _given(words, names)
    return int(value) if value and value.isascii() and value.isdigit() and len(value) < 10 else None


def _container_without_gpu(before: Sequence[str]) -> bool:
    names = {PurePosixPath(word).name for word in before}
    if not names & {"singularity", "apptainer"} or not names & {"exec", "run", "shell"}:
        return False
    return not names & {"--nv", "--nvccli", "--rocm"}


def _facts(before: Sequence[str], script: str, after: Sequence[str]) -> Facts:
    stem = PurePosixPath(script).stem
    named = _given(after, _MODELS)
    rate = _given(after, _RATES)
    gpus = _count(after, _GPUS)
    batch = _count(after, _BATCHES)
    ranks = _ranks(before)
    per_worker = stem == "tf_cnn_benchmarks" or "horovod" in stem or "horovodrun" in before
    if ranks is not None and (ranks > 1 or per_worker):
        gpus = ranks * (gpus or 1)
    if per_worker and batch is not None:
        batch *= max(1, gpus or 1)
    if _container_without_gpu(before):
        return _with_device(stem, named, batch, after, "cpu", 0, rate)
    device = "gpu" if gpus else None
    if gpus is None and ("--nv" in before) and "seq" in stem.lower():
        device, gpus = "gpu", 1
    return _with_device(stem, named, batch, after, device, gpus, rate)


def _with_device(
    stem: str, named: str | None, batch: int | None, after: Sequence[str], device: str | None,
    gpus: int | None, rate: str | None,
) -> Facts:  # fmt: skip
    return Facts(
        model=short_model(named) if named else model_of_script(stem),
        device="cpu" if device == "cpu" else "gpu" if device == "gpu" else None,
        n_gpus=gpus,
        batch_size=batch or None,
        epochs_planned=_count(after, _EPOCHS) or None,
        learning_rate=_float(rate),
    )


def _ranks(before: Sequence[str]) -> int | None:
    per_node = _count(before, _RANKS)
    nodes = _count(before, ("--nnodes",))
    return per_node * (nodes or 1) if per_node else None


def _float(text: str | None) -> float | None:
    try:
        value = float(text) if text else None
    except ValueError:
        return None
    return value if value is not None and 0 < value < 1e6 else None
