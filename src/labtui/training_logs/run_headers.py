"""What a run says of itself before it trains: banners, echoed commands, job headers, model names."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from labtui.domain.model import Device, batch_shares, named_options, tuning_of
from labtui.training_logs.runs import RunFacts
from labtui.training_logs.said import Begins, Said, Says

_RESNET = re.compile(r"resnet[-_ ]?(?:v\d[-_]?)?(\d{2,4})", re.IGNORECASE)
ARCHITECTURE = (
    r"(?i:resnet|vgg|mobilenet|densenet|inception|xception|efficientnet|nasnet|alexnet|lenet|mnist|cifar)"
)
_KNOWN = re.compile(ARCHITECTURE)
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
    "launch",
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
    words = bare.lower()
    return None if not bare or words in _PLAIN or "imagenet" in words or "launch" in words else bare[:80]


def device_of(word: str) -> Device | None:
    """``cpu`` or ``gpu`` from a word such as ``GPU``, ``cuda:0`` or ``/device:CPU:0``."""
    lower = word.lower()
    if "gpu" in lower or "cuda" in lower:
        return "gpu"
    return "cpu" if "cpu" in lower else None


_SAY = re.compile(r"(practice|job|run-\d{1,4}): +(\S.{0,2000})\Z")
_JOB_NAME = re.compile(r"\s*Job Name\s*:\s+(\S{1,200})\s*\Z", re.IGNORECASE)
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*\Z")
_LAUNCHERS = {"torchrun", "horovodrun", "accelerate", "deepspeed"}
_PROMPT = re.compile(
    r"\s*(?:\++ |\$ |> |(?:running|command|executing|starting|launching|run|cmd)\b[^:]{0,40}: *)", re.I
)
GPU_OPTIONS = (
    "--n_gpus",
    "--n-gpus",
    "--ngpus",
    "--num_gpus",
    "--num-gpus",
    "--gpus",
    "--n_gpu",
    "--num_gpu",
)
_BATCHES = ("--batch_size", "--per_device_train_batch_size", "--batch-size", "--batch", "--bs", "-b")
_EPOCHS = ("--epochs", "--num_epochs", "--num-epochs", "--n_epochs", "--epoch")
_MODELS = ("--model", "-a", "--arch", "--model_name", "--model-name", "--network")
_RATES = ("--lr", "--learning_rate", "--learning-rate")
_RANKS = (
    "-np",
    "--np",
    "-n",
    "--ntasks",
    "--nproc_per_node",
    "--nproc-per-node",
    "--num-proc",
    "--num_processes",
)


@dataclass(frozen=True, slots=True)
class TrainingCommand:
    """An echoed command that starts a training.

    `no_gpu_flag`: it asks for GPUs from within a container that was started without ``--nv``.
    """

    text: str
    facts: RunFacts
    no_gpu_flag: bool = False


def read_echo(text: str) -> list[Said] | None:
    """An echoed command that starts a training."""
    command = read_command(text)
    if command is None:
        return None
    return [Begins("command", command.facts, command.text, command.no_gpu_flag)]


def read_job_name(text: str) -> list[Said] | None:
    """``Job Name: ResNet50_4``."""
    match = _JOB_NAME.match(text)
    facts = facts_of_job_name(match[1]) if match is not None else None
    return None if facts is None else [Says(facts, job=True)]


def read_job_header(text: str) -> list[Said] | None:
    """``run-2: model=ResNet50 device=gpu n_gpus=2 ...``, ``practice: yes (...)``, ``job: 31337 ResNet50_4``."""
    header = _job_header(text)
    return None if header is None else [Says(header[0], job=True, run=header[1])]


def _job_header(text: str) -> tuple[RunFacts, int] | None:
    """What such a line tells, and the number of the run that it is about, 0 for the whole job."""
    match = _SAY.match(text)
    if match is None:
        return None
    key, value = match[1], match[2]
    if key == "practice":
        return RunFacts(practice=value.split()[0] == "yes"), 0
    if key == "job":
        return facts_of_job_name(value.split()[-1]) or RunFacts(), 0
    pairs = dict(word.split("=", 1) for word in value.split() if "=" in word)
    numbers = {name: int(word) for name, word in pairs.items() if word.isascii() and word.isdigit()}
    facts = RunFacts(
        model=short_model(pairs["model"]) if pairs.get("model") else None,
        device=device_of(pairs.get("device", "")),
        n_gpus=numbers.get("n_gpus"),
        batch_size=numbers.get("batch_size") or None,
        batch_shares=_shares(pairs, numbers),
        epochs_planned=numbers.get("epochs") or None,
        learning_rate=_float(pairs.get("learning_rate")),
        tuning=tuning_of(named_options(pairs.get("options", "").split(","))) or None,
    )
    return facts, int(key[4:])


def _shares(pairs: Mapping[str, str], numbers: Mapping[str, int]) -> int | None:
    gpus, nodes = numbers.get("n_gpus", 0), numbers.get("nodes", 1)
    option = pairs.get("batch_option")
    return batch_shares(option, gpus, nodes, pairs.get("launcher", "")) if option else None


def facts_of_job_name(name: str) -> RunFacts | None:
    """What a job's name tells of its model and device, if anything."""
    model = model_of_script(name)
    if model is None or not model.startswith("ResNet"):
        return None
    words = re.split(r"[^a-z0-9]+", name.lower())
    if "cpu" in words:
        return RunFacts(model=model, device="cpu", n_gpus=0)
    if "seq" in words and "gpu" in words:
        return RunFacts(model=model, device="gpu", n_gpus=1)
    return RunFacts(model=model)


def read_command(text: str) -> TrainingCommand | None:
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
    wants_gpus = (_count(after, GPU_OPTIONS) or 0) > 0 and _given(after, ("--device",)) != "cpu"
    return TrainingCommand(" ".join(words), facts, wants_gpus and _container_without_gpu(before))


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
            launches = "launch" in words[place] and any(word.endswith(".py") for word in words[place + 1 :])
            if words[place].endswith(".py") and not launches:
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
    if not names & {"singularity", "bsc_singularity", "apptainer"} or not names & {"exec", "run", "shell"}:
        return False
    return not names & {"--nv", "--nvccli", "--rocm"}


def _facts(before: Sequence[str], script: str, after: Sequence[str]) -> RunFacts:
    stem = PurePosixPath(script).stem
    named = _given(after, _MODELS)
    facts = RunFacts(
        model=short_model(named) if named else model_of_script(stem),
        batch_size=_count(after, _BATCHES) or None,
        epochs_planned=_count(after, _EPOCHS) or None,
        learning_rate=_float(_given(after, _RATES)),
        tuning=tuning_of(named_options(after)) or None,
        sequence_length=_count(after, ("--sequence_length",)) or None,
    )
    gpus = _gpus(before, stem, after)
    if facts.batch_size is not None and _per_worker(before, stem):
        facts = replace(facts, batch_size=facts.batch_size * max(1, gpus or 1))
    elif facts.batch_size is not None and _process_per_gpu(before):
        total = facts.batch_size * gpus if gpus else None
        facts = replace(facts, batch_size=total, batch_per_gpu=facts.batch_size)
    if _given(after, ("--device",)) == "cpu" and gpus:
        return replace(facts, device="gpu", n_gpus=gpus, small=True)  # CPU devices stand in for GPUs
    if _container_without_gpu(before) or _given(after, ("--device",)) == "cpu":
        return replace(facts, device="cpu", n_gpus=0)
    if gpus is None and "--nv" in before and "seq" in stem.lower():
        gpus = 1
    return replace(facts, device="gpu" if gpus else None, n_gpus=gpus)


def _per_worker(before: Sequence[str], stem: str) -> bool:
    """Whether the batch option means one worker's batch."""
    return stem == "tf_cnn_benchmarks" or "horovod" in stem or "horovodrun" in before


def _process_per_gpu(before: Sequence[str]) -> bool:
    """Whether each of several processes gets the same options, so that its batch is not the global one."""
    return (_by_torchrun(before) or _by_srun(before)) and _ranks(before) != 1


def _by_srun(before: Sequence[str]) -> bool:
    """Whether srun starts the ranks, each told its own as by torchrun."""
    return "srun" in before and any("RANK=" in word for word in before)


def _by_torchrun(before: Sequence[str]) -> bool:
    launched = any(PurePosixPath(word).name in ("torchrun", "accelerate") for word in before)
    return launched or any(word.startswith("torch.distributed.") for word in before)


def _gpus(before: Sequence[str], stem: str, after: Sequence[str]) -> int | None:
    gpus = _count(after, GPU_OPTIONS)
    ranks = _ranks(before)
    if ranks == 1 and (_by_torchrun(before) or _by_srun(before)):
        return gpus or 1
    if ranks is None or (ranks == 1 and not _per_worker(before, stem)):
        return gpus
    return ranks * (1 if _process_per_gpu(before) else gpus or 1)


def _ranks(before: Sequence[str]) -> int | None:
    srun = _by_srun(before)
    per_node = _count(before, ("--ntasks-per-node",) if srun else _RANKS)
    nodes = _count(before, ("--nodes",) if srun else ("--nnodes",))
    return per_node * (nodes or 1) if per_node else None


def _float(text: str | None) -> float | None:
    try:
        value = float(text) if text else None
    except ValueError:
        return None
    return value if value is not None and 0 < value < 1e6 else None
