"""What scripts and job scripts print about a run before it trains: banners, echoed commands, job headers.

What may not enter: which run a line belongs to.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from labtui.core.logs.models import device_of, is_architecture, model_of_script, short_model
from labtui.core.logs.runs import Facts

_BANNER = re.compile(r"\s*Model:? (?P<model>[\w.+-]{1,80}) (?P<count>\d{1,5}) (?P<device>GPU|CPU)s?\s*\Z")
_CPU_BANNER = re.compile(r"\s*Model:? (?P<model>[\w.+-]{1,80}) CPU\s*\Z")
_BATCH = re.compile(r"\s*(?:Global )?Batch(?:\\?_| )?size: +(\d{1,9})\s*\Z", re.IGNORECASE)
_REPLICAS = re.compile(r"\s*(?:N|Num)(?:ber of )?\\?_?(?:replicas|devices): +(\d{1,5})\s*\Z", re.IGNORECASE)
_STAND_IN = re.compile(r"\s*Device: cpu \(.{0,40} stand in for GPUs\)")
_SAY = re.compile(r"(practice|job|run-\d{1,4}): +(\S.{0,2000})\Z")
_MODEL = re.compile(r"\s*Model: +\"?([\w.+-]{1,80})\"?\s*\Z")
_EARLY = re.compile(r"\s*Epoch \d{1,9}: early stopping\s*\Z")
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
    """An echoed command that starts a training.

    `no_gpu_flag`: it asks for GPUs from within a container that was started without ``--nv``.
    """

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


def read_model(text: str) -> Facts | None:
    """``Model: ResNet50`` of benchmarks, ``Model: "resnet50v2"`` of a Keras summary; other names say nothing."""
    match = _MODEL.match(text)
    return Facts(model=short_model(match[1])) if match and is_architecture(match[1]) else None


def read_head(text: str) -> Facts | None:
    """``Batch_size: 4096``, ``Num_replicas: 2``, ``Train on 50000 samples``: what completes a banner."""
    if match := _BATCH.match(text):
        return Facts(batch_size=int(match[1]) or None)
    if _STAND_IN.match(text):
        return Facts(practice=True)
    if (samples := read_samples(text)) is not None:
        return Facts(images=samples)
    return None


def read_samples(text: str) -> int | None:
    """``Train on 50000 samples``: Keras before tf.keras 2.2 counts samples, not steps."""
    match = _TRAIN_ON.match(text)
    return int(match[1]) if match else None


def read_replicas(text: str) -> int | None:
    """``Num_replicas: 2``: the number of GPUs when nothing better tells it (a CPU is one replica too)."""
    match = _REPLICAS.match(text)
    return int(match[1]) if match else None


def stopped_early(text: str) -> bool:
    """``Epoch 7: early stopping`` (``Epoch 00007`` in older releases): the run is complete."""
    return _EARLY.match(text) is not None


def is_batch_line(text: str) -> bool:
    """Whether the line gives the batch size: said twice, it belongs to two runs."""
    return _BATCH.match(text) is not None


def read_job_name(text: str) -> Facts | None:
    """``Job Name: ResNet50_seq_CPU``: facts that only fill gaps."""
    match = _JOB_NAME.match(text)
    return facts_of_job_name(match[1]) if match else None


@dataclass(frozen=True, slots=True)
class Said:
    """A line of the header that labtui's job scripts print: about the job, or (`run` from 1) about a run."""

    facts: Facts
    run: int = 0


def read_said(text: str) -> Said | None:
    """``run-2: model=ResNet50 device=gpu n_gpus=2 ...``, ``practice: yes``, ``job: 31337 ResNet50_4``."""
    match = _SAY.match(text)
    if match is None:
        return None
    key, value = match[1], match[2]
    if key == "practice":
        return Said(Facts(practice=value.strip() == "yes"))
    if key == "job":
        return Said(facts_of_job_name(value.split()[-1]) or Facts())
    pairs = dict(word.split("=", 1) for word in value.split() if "=" in word)
    numbers = {name: int(word) for name, word in pairs.items() if word.isascii() and word.isdigit()}
    return Said(
        Facts(
            model=short_model(pairs["model"]) if pairs.get("model") else None,
            device=device_of(pairs.get("device", "")),
            n_gpus=numbers.get("n_gpus"),
            batch_size=numbers.get("batch_size") or None,
            epochs_planned=numbers.get("epochs") or None,
            learning_rate=_float(pairs.get("learning_rate")),
        ),
        int(key[4:]),
    )


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
    if any(word.endswith(":") for word in before):
        return None  # bash's `script: line 30: 12345 Killed  python ...`, a message about a command
    facts = _facts(before, words[script], after)
    named = is_architecture(PurePosixPath(words[script]).stem)
    if not (facts.epochs_planned or facts.batch_size or facts.n_gpus is not None or named):
        return None
    asked = (_count(after, _GPUS) or 0) > 0 and _given(after, ("--device",)) != "cpu"
    return Command(" ".join(words), facts, asked and _container_without_gpu(before))


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
    facts = Facts(
        model=short_model(named) if named else model_of_script(stem),
        batch_size=_count(after, _BATCHES) or None,
        epochs_planned=_count(after, _EPOCHS) or None,
        learning_rate=_float(_given(after, _RATES)),
    )
    gpus = _gpus(before, stem, after)
    if facts.batch_size is not None and _per_worker(before, stem):
        facts = replace(facts, batch_size=facts.batch_size * max(1, gpus or 1))
    if _given(after, ("--device",)) == "cpu" and gpus:
        return replace(facts, device="gpu", n_gpus=gpus, practice=True)  # CPU devices stand in for GPUs
    if _container_without_gpu(before) or _given(after, ("--device",)) == "cpu":
        return replace(facts, device="cpu", n_gpus=0)
    if gpus is None and "--nv" in before and "seq" in stem.lower():
        gpus = 1
    return replace(facts, device="gpu" if gpus else None, n_gpus=gpus)


def _per_worker(before: Sequence[str], stem: str) -> bool:
    """Whether the batch option means one worker's batch."""
    return stem == "tf_cnn_benchmarks" or "horovod" in stem or "horovodrun" in before


def _gpus(before: Sequence[str], stem: str, after: Sequence[str]) -> int | None:
    gpus = _count(after, _GPUS)
    ranks = _ranks(before)
    if ranks is None or (ranks == 1 and not _per_worker(before, stem)):
        return gpus
    return ranks * (gpus or 1)


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
