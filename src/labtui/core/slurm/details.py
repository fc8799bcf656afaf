"""`scontrol show job`: where a living job writes, and how often it was restarted.

Read line by line: the paths stand on lines of their own, and a job's name comes before them, so that the
last line of a key is Slurm's and not one that a hostile job name made up.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from labtui.core.remote import RemoteCommand
from labtui.core.slurm.shell import LIMIT, PINNED
from labtui.core.slurm.states import plain_state
from labtui.core.slurm.times import epoch_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDetails:
    """What Slurm keeps about a job while it remembers it. Paths are on the cluster, empty when unknown."""

    job_id: str
    state: str = ""
    reason: str = ""
    stdout: str = ""
    stderr: str = ""
    work_dir: str = ""
    restarts: int = 0
    nodes: str = ""
    exit_code: str = ""
    submit: float | None = None
    start: float | None = None
    end: float | None = None
    tres: str = ""


def details_command(job_id: str) -> RemoteCommand:
    """Ask about one job."""
    script = f"{PINNED}\n{LIMIT}\nlimit 25 scontrol show job {shlex.quote(job_id)}"
    return RemoteCommand("details", script, {"job_id": job_id})


def parse_details(text: str, job_id: str) -> JobDetails | None:
    """The details, or None when the text does not tell of this job."""
    if f"JobId={job_id}" not in text.split():
        return None

    def rest_of_line(key: str) -> str:
        told = re.findall(rf"^\s*{key}=(.*)$", text, re.MULTILINE)
        return "" if not told or told[-1] == "(null)" else told[-1].strip()

    def word(key: str) -> str:
        told = re.findall(rf"(?:^|\s){key}=(\S*)", text)
        return "" if not told or told[-1] in ("(null)", "N/A") else told[-1]

    restarts = word("Restarts")
    return JobDetails(
        job_id=job_id,
        state=plain_state(word("JobState")),
        reason=word("Reason").replace("None", ""),
        stdout=rest_of_line("StdOut"),
        stderr=rest_of_line("StdErr"),
        work_dir=rest_of_line("WorkDir"),
        restarts=int(restarts) if restarts.isdecimal() else 0,
        nodes=word("NodeList"),
        exit_code=word("ExitCode"),
        submit=epoch_seconds(word("SubmitTime")),
        start=epoch_seconds(word("StartTime")),
        end=epoch_seconds(word("EndTime")),
        tres=word("AllocTRES") or word("TRES") or word("ReqTRES"),
    )


def expand_pattern(pattern: str, *, job_id: str, job_name: str, user: str = "") -> str:
    """A log name pattern (``%x.%j.out``, ``%J``, ``%5j``) as Slurm expands it for a plain batch job."""
    if "\\" in pattern:
        return pattern.replace("\\", "")
    values = {"A": job_id, "j": job_id, "J": job_id, "x": job_name, "u": user, "a": "4294967294",
              "b": "4", "s": "batch", "t": "0", "n": "0"}  # fmt: skip

    def put(told: re.Match[str]) -> str:
        width, code = told[1], told[2]
        if code == "%":
            return "%"
        value = values.get(code)
        if value is None:
            return told[0]
        return value.zfill(min(int(width), 10)) if width and value.isdecimal() else value

    return re.sub(r"%(\d*)([%A-Za-z])", put, pattern)
