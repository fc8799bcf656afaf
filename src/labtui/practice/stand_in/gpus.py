"""The GPUs a practice job has, and what its `nvidia-smi` shows of them."""

from __future__ import annotations

import json
import os
from pathlib import Path


def visible_gpus() -> int:
    """How many GPUs this process can use: none without --nv, else those Slurm gave to the job."""
    return sum(part.strip().isdigit() for part in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(","))


def show_load(gpus: int, percent: float, gib: float) -> None:
    """Write the load of each node's GPUs for the job's nvidia-smi; the first process of a step does."""
    folder = os.environ.get("LABTUI_PRACTICE_JOB")
    if not folder or os.environ.get("SLURM_PROCID", "0") != "0":
        return
    load = {"gpus": gpus, "percent": percent, "gib": gib} if gpus else {"gpus": 0, "percent": 0.0, "gib": 0.0}
    beside = Path(folder) / "gpu.json.new"
    beside.write_text(json.dumps(load), encoding="ascii")
    beside.replace(Path(folder) / "gpu.json")
