"""The error texts labtui knows, what each means, and what to do next (`errors.toml`); `diagnosis` applies them."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from importlib import resources
from typing import Any

from labtui.domain.model import DiagnosisKind, Outcome


@dataclass(frozen=True, slots=True)
class ErrorPattern:
    """A text, its kind, and what it makes of the run (`outcome` None: a surprise, no failure).

    `near` are words of which the text holds one: looking for them first is cheap. `in_container`: its advice holds for
    a container, too, where the log shows one.
    """

    kind: DiagnosisKind
    near: tuple[str, ...]
    pattern: re.Pattern[str]
    advice: str
    outcome: Outcome | None = "failed"
    job_level: bool = False
    in_container: bool = False

    def advise(self, text: str) -> str:
        """The advice with what the pattern found in the text."""
        match = self.pattern.search(text)
        parts = match.groupdict() if match is not None else {}
        return self.advice.format(**parts) if parts else self.advice


def _rule(row: dict[str, Any]) -> ErrorPattern:
    return ErrorPattern(
        kind=row["kind"],
        near=tuple(row["near"]),
        pattern=re.compile(row["pattern"]),
        advice=row["advice"],
        outcome=row.get("outcome", "failed") or None,
        job_level=row.get("job_level", False),
        in_container=row.get("add_in_container", False),
    )


IN_CONTAINER = " Start the container with `singularity exec --nv ...`, which gives it the GPUs."
"""What is added where the log shows a container."""
HARMLESS = re.compile(
    r"The caller indicates that this is not a failure"
    r"|Executor start aborting"
    r"|oneDNN|NUMA|numa_node|TF-TRT|TensorRT|libnvinfer"
    r"|This TensorFlow binary is optimized|cpu_feature_guard"
    r"|Unable to register cu(?:DNN|FFT|BLAS) factory"
    r"|Exception ignored in"
    r"|nvidia-smi: command not found"
    r"|: cannot (?:remove|access) "
    r"|WARNING: Skipping mount|squashfuse"
    r"|NCCL INFO |libnccl-(?:net|tuner|profiler|env)|/etc/[\w.-]*release: No such file|\.bashrc: No such file"
    r"|rdmav\d+\.so|libibverbs: Warning|from LD_PRELOAD cannot be preloaded|mesg: ttyname"
    r"|\[c10d\] The (?:client|server|IPv6) |Setting OMP_NUM_THREADS environment variable"
)
"""Lines that look alarming and are not: never flagged."""

NO_GPU_SIGN = "There are non-GPU devices in"
"""TensorFlow's own word that a MirroredStrategy runs on the CPU."""

WEAK_NO_GPU = re.compile(
    r"failed call to cuInit|Cannot dlopen some GPU libraries|no CUDA-capable device|Could not find cuda drivers"
    r"|Could not load dynamic library 'lib(?:cuda|cudart|cublas|cudnn)\b|Could not find any nv files on this host"
)
"""What TensorFlow and Singularity also say on a node that has no GPU and needs none: a hint, no proof."""

RULES = tuple(
    _rule(row)
    for row in tomllib.loads(
        resources.files("labtui.training_logs").joinpath("errors.toml").read_text("utf-8")
    )["errors"]
)
"""In order of trust: the first rule that matches a line speaks for it."""

SUSPECT: tuple[str, ...] = tuple(
    dict.fromkeys(
        [
            *(word for rule in RULES for word in rule.near),
            *(
                "error: ",
                ": line ",
                "Traceback (most",
                'File "',
                "SyntaxError: ",
                "IndentationError: ",
                "TabError: ",
                "above exception",
                "Exception ignored",
                "Logging error",
                "srun: ",
                "host      : ",
                "rank      : ",
                "exitcode  : ",
            ),
        ]
    )
)
"""A quick look: a line without any of these needs no rule."""
