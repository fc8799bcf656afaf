"""Reading back what a rendered job script says about itself: the last witness of a submission.

The heads are written by `labtui.core.jobscript`: ``say token ...``, ``say run-1 'model=... ...'`` and the #SBATCH
lines. Hand-edited scripts are read as far as they go; one without a token is nobody's.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import cast, get_args

from labtui.core.model import Device, JobForm, RunSpec

_DIRECTIVE = re.compile(r"^#SBATCH\s+--([a-z-]+)[= ](.+?)\s*$", re.MULTILINE)
_SAY = re.compile(r"^say\s+(\S+)\s+(.+?)\s*$", re.MULTILINE)
_TOKEN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{3,79}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptFacts:
    """What a job script tells about the submission it was made for."""

    token: str
    task_id: str
    form: JobForm
    job_name: str
    runs: tuple[RunSpec, ...]
    account: str = ""
    qos: str = ""
    gpus: int = 0
    cpus: int = 0
    time_limit_minutes: int = 0
    practice: bool = False


def read_script_facts(text: str) -> ScriptFacts | None:
    """The facts in a job script; None when it is not one of ours."""
    said = {name: _first_word(value) for name, value in _SAY.findall(text)}
    options = dict(_DIRECTIVE.findall(text))
    token, form = said.get("token", ""), said.get("form", "")
    runs = tuple(spec for name, value in said.items() if name.startswith("run-") and (spec := _spec(value)))
    if not _TOKEN.fullmatch(token) or form not in get_args(JobForm) or not runs or "job-name" not in options:
        return None
    return ScriptFacts(
        token=token,
        task_id=said.get("task", ""),
        form=cast("JobForm", form),
        job_name=options["job-name"],
        runs=runs,
        account=options.get("account", ""),
        qos=options.get("qos") or options.get("partition") or "",
        gpus=_number(options.get("gres", "").rpartition(":")[2]),
        cpus=_number(options.get("cpus-per-task", "")),
        time_limit_minutes=_minutes(options.get("time", "")),
        practice=said.get("practice", "") == "yes",
    )


def _first_word(value: str) -> str:
    try:
        words = shlex.split(value)
    except ValueError:
        return ""
    return words[0] if words else ""


def _spec(text: str) -> RunSpec | None:
    told = dict(piece.split("=", 1) for piece in text.split() if "=" in piece)
    device = told.get("device", "")
    if (
        device not in get_args(Device)
        or not {"model", "n_gpus", "batch_size", "epochs", "script"} <= told.keys()
    ):
        return None
    rate = told.get("learning_rate", "")
    return RunSpec(
        model=told["model"],
        device=cast("Device", device),
        n_gpus=_number(told["n_gpus"]),
        batch_size=_number(told["batch_size"]),
        epochs=_number(told["epochs"]),
        script=told["script"],
        learning_rate=float(rate) if re.fullmatch(r"[0-9.eE+-]+", rate) and rate[0].isdigit() else None,
    )


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() else 0


def _minutes(text: str) -> int:
    told = re.fullmatch(r"(?:(\d+)-)?(\d+):(\d\d):(\d\d)", text)
    if told is None:
        return 0
    return int(told[1] or 0) * 1440 + int(told[2]) * 60 + int(told[3])
