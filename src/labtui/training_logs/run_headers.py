"""Reads what a log says about a run before it trains: echoed commands, job headers, names of models and files."""

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote

from msgspec.structs import replace

from labtui.domain.model import Device, batch_shares
from labtui.domain.tuning import is_tuning, named_options, other_options, tuning_of
from labtui.training_logs.runs import EXPRESSIONS, OPTIONS, RunFacts, plain_number, whole_number
from labtui.training_logs.said import Begins, Said, Says


def short_model(name: str) -> str:
    """``ResNet50`` for ``ResNet50V2``, ``resnet50`` and ``ResNet50_seq``; other names are unchanged."""
    found = EXPRESSIONS["resnet"].search(name)
    return f"ResNet{found[1]}" if found else name.strip()[:80]


def model_of_script(stem: str) -> str | None:
    """The model that a script is named after, or None when its name says nothing (``train.py``)."""
    if EXPRESSIONS["resnet"].search(stem):
        return short_model(stem)
    bare = EXPRESSIONS["suffix"].sub("", stem)
    return None if EXPRESSIONS["plain"].match(bare) else bare[:80]


def device_of(word: str) -> Device | None:
    """``cpu`` or ``gpu`` from a word such as ``GPU``, ``cuda:0`` or ``/device:CPU:0``."""
    lower = word.lower()
    return "gpu" if "gpu" in lower or "cuda" in lower else "cpu" if "cpu" in lower else None


_COUNTS = (
    *("batch_size", "batch_per_gpu", "epochs_planned", "images", "tokens_per_step"),
    *("process_samples", "process_steps", "sequence_length"),
)
_TAKES: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(_COUNTS, lambda text: whole_number(text.replace(",", "")) or None),
    "n_gpus": lambda text: whole_number(text) if len(text) < 6 else None,
    **dict.fromkeys(("framework", "data_set", "gpu_kind"), str.strip),
    "model": short_model,
    "device": device_of,
    "learning_rate": lambda text: plain_number(text) or None,
}


def facts_of(texts: Mapping[str, str | None]) -> dict[str, Any]:
    """Facts from their texts in a line, header, command or record, by name; others are left out. No GPU means a CPU."""
    found = ((name, take(text)) for name, take in _TAKES.items() if (text := texts.get(name)))
    known = {name: value for name, value in found if value is not None}
    cpu = known.get("device") == "cpu" or known.get("n_gpus") == 0
    return known | ({"device": "cpu", "n_gpus": 0} if cpu else {})


GPU_OPTIONS = ("n_gpus", "ngpus", "num_gpus", "gpus", "n_gpu", "num_gpu")
"""Names of options, without leading dashes and with underscores for the dashes inside."""
_RANKS = ("np", "n", "ntasks", "nproc_per_node", "num_proc", "num_processes", "num_gpus")


def read_job_header(text: str, *_: Any) -> list[Said] | None:
    """Read ``run-2: model=ResNet50 device=gpu n_gpus=2 ...``, a run that the job's script starts."""
    match = EXPRESSIONS["run"].match(text)
    if match is None:
        return None
    pairs = dict(word.split("=", 1) for word in match[2].split() if "=" in word)
    known = facts_of(pairs | {"epochs_planned": pairs.get("epochs", "")})
    if option := pairs.get("batch_option"):
        nodes = whole_number(pairs.get("nodes")) or 1
        known["batch_shares"] = batch_shares(option, known.get("n_gpus", 0), nodes, pairs.get("launcher", ""))
    options = named_options([unquote(word) for word in pairs.get("options", "").split(",")])
    return [Says(RunFacts(**known, tuning=tuning_of(options) or None), about=int(match[1]))]


def facts_of_name(name: str) -> RunFacts:
    """Model and device from the name of a job or of a file."""
    model, device = EXPRESSIONS["resnet"].search(name), EXPRESSIONS["device"].search(name)
    told = {"model": model and model[0], "device": device and device[0], "n_gpus": device and "1"}
    return RunFacts(**facts_of(told))


def read_command(text: str) -> Begins | None:
    """The training that an echoed command line starts, or None for any other line.

    It is `masked` if it asks for GPUs inside a container that was started without ``--nv``.
    """
    if ".py" not in text or len(text) > 4000:
        return None
    words = _split(EXPRESSIONS["prompt"].sub("", text, count=1).strip())
    script = _script_index(words)
    if script is None:
        return None
    before, after = words[:script], words[script + 1 :]
    if any(word.endswith(":") for word in before):
        return None  # bash's `script: line 30: 12345 Killed  python ...`, a message about a command
    facts = _facts(before, words[script], after)
    named = EXPRESSIONS["known"].search(PurePosixPath(words[script]).stem)
    batch = facts.batch_size or facts.batch_per_gpu
    if not (facts.epochs_planned or batch or facts.n_gpus is not None or named):
        return None
    wants_gpus = whole_number(_given(after, *GPU_OPTIONS)) and _given(after, "device") != "cpu"
    masked = wants_gpus and EXPRESSIONS["without-gpu"].match(" ".join(before)) is not None
    return Begins("command", facts, " ".join(words), bool(masked))


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text.rstrip("\\&"), comments=False)
    except ValueError:
        return text.split()


def _script_index(words: Sequence[str]) -> int | None:
    """The index of a command's .py after a python or a launcher; None without one."""
    names = [PurePosixPath(word).name for word in words]
    starts = (at for at, name in enumerate(names) if EXPRESSIONS["python"].match(name))
    for place in range(next(starts, len(words)) + 1, len(words)):
        launches = "launch" in words[place] and any(word.endswith(".py") for word in words[place + 1 :])
        if words[place].endswith(".py") and not launches:
            return place
    return None


def _given(words: Sequence[str], *names: str) -> str | None:
    """The value of the first of these options that a command has."""
    return next((value for name, value in named_options(words).items() if name in names), None)


def _facts(before: Sequence[str], script: str, after: Sequence[str]) -> RunFacts:
    stem = PurePosixPath(script).stem
    options, on_cpu = named_options(after), _given(after, "device") == "cpu"
    others = (pair for pair in other_options(options) if not is_tuning(pair[0]))
    texts = {fact: _given(after, *names) for fact, names in OPTIONS.items()}
    texts["model"] = texts["model"] or model_of_script(stem)
    facts = RunFacts(**facts_of(texts), tuning=(*tuning_of(options), *others) or None)
    # with these, the batch is that of one worker
    workers = re.search("tf_cnn_benchmarks|horovod|hvd", stem) is not None or "horovodrun" in before
    ranks, told = _ranks(before)
    gpus = whole_number(_given(after, *GPU_OPTIONS))
    if ranks == 1 and told:
        gpus = gpus or 1
    elif ranks is not None and (ranks > 1 or workers):
        gpus = ranks * (1 if told else gpus or 1)
    if (batch := facts.batch_size) is not None and workers:
        facts = replace(facts, batch_size=batch * max(1, gpus or 1))
    elif batch is not None and told and ranks != 1:  # each process gets the same options
        facts = replace(facts, batch_size=batch * gpus if gpus else None, batch_per_gpu=batch)
    if on_cpu and gpus:
        return replace(facts, device="gpu", n_gpus=gpus, small=True)  # CPU devices stand in for GPUs
    if on_cpu or EXPRESSIONS["without-gpu"].match(" ".join(before)):
        return replace(facts, device="cpu", n_gpus=0)
    if gpus is None and "--nv" in before and "seq" in stem.lower():
        gpus = 1
    return replace(facts, device="gpu" if gpus else None, n_gpus=gpus)


def _ranks(before: Sequence[str]) -> tuple[int | None, bool]:
    """How many processes a launcher starts, and whether each is told its rank (also in srun's command)."""
    srun = "srun" in before and any("RANK=" in word for word in before)
    torchrun = any(EXPRESSIONS["torchrun"].match(word) for word in before)
    per_node = whole_number(_given(before, *(("ntasks_per_node",) if srun else _RANKS)))
    # ``--nnodes 1:4`` leaves the number open
    nodes = whole_number(_given(before, *(("nodes",) if srun else ("nnodes", "num_nodes"))) or "1")
    return per_node * nodes if per_node and nodes else None, srun or torchrun
