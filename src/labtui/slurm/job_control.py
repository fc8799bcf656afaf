"""One job: what `scontrol show job` says of it, holding and releasing it."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import Literal

from labtui.slurm.remote_command import LIMIT, PINNED, UNSET, RemoteCommand
from labtui.slurm.states import plain_state
from labtui.slurm.values import epoch_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDetails:
    """How a job stands by the controller's own memory."""

    state: str = ""
    exit_code: str = ""
    end: float | None = None


def details_command(job_id: str) -> RemoteCommand:
    script = f"{PINNED}\n{LIMIT}\nlimit 25 scontrol show job {shlex.quote(job_id)}"
    return RemoteCommand("details", script)


def parse_details(text: str, job_id: str) -> JobDetails | None:
    """The details, or None when the text does not tell of this job."""
    if f"JobId={job_id}" not in text.split():
        return None

    def word(key: str) -> str:
        """The last word of that key: a job's name, which comes first, cannot make one up."""
        found = re.findall(rf"(?:^|\s){key}=(\S*)", text)
        return "" if not found or found[-1] in ("(null)", "N/A") else found[-1]

    return JobDetails(
        state=plain_state(word("JobState")),
        exit_code=word("ExitCode"),
        end=epoch_seconds(word("EndTime")),
    )


NO_ARRAY = "4294967294"
"""What Slurm writes for ``%a`` in a job that is no array."""


def first_node(nodes: str) -> str:
    """The first host of ``as01r1b[01-03,07],gs02``; "" for none."""
    match = re.match(r"([^,\[]+)(?:\[(\w+))?", nodes)
    return match[1] + (match[2] or "") if match else ""


def expand_pattern(pattern: str, *, job_id: str, job_name: str, user: str = "", node: str = "") -> str:
    """A log name pattern (``%x.%j.out``, ``%J``, ``%5j``) as Slurm expands it for a plain batch job."""
    if "\\" in pattern:
        return pattern.replace("\\", "")
    values = {"A": job_id, "j": job_id, "J": job_id, "x": job_name, "u": user, "a": NO_ARRAY, "N": node or None,
              "b": "4", "s": "batch", "t": "0", "n": "0"}  # fmt: skip

    def put(code_found: re.Match[str]) -> str:
        width, code = code_found[1], code_found[2]
        if code == "%":
            return "%"
        value = values.get(code)
        if value is None:
            return code_found[0]
        return value.zfill(min(int(width), 10)) if width and value.isdecimal() else value

    return re.sub(r"%([0-9]{0,3})([%A-Za-z])", put, pattern)


Control = Literal["hold", "release"]
_DONE = {"hold": "held", "release": "released"}


def control_command(control: Control, job_id: str) -> RemoteCommand:
    """Hold a pending job, or release a held one."""
    script = f"{UNSET}\nscontrol {control} {shlex.quote(job_id)}"
    return RemoteCommand(control, script)


def control_problem(control: Control, job_id: str, stderr: str) -> tuple[str, str]:
    """Why Slurm did not do it, as a sentence and a hint."""
    text = " ".join(stderr.split())
    sentence = f"Job {job_id} was not {_DONE[control]}"
    if re.search(
        r"job is no longer pending|already (?:running|finished|completing)|invalid job id", text, re.I
    ):
        return f"{sentence}: it is no longer waiting.", "Only a job that waits can be held."
    if re.search(r"permission denied", text, re.IGNORECASE):
        return (
            f"{sentence}: Slurm does not allow it.",
            "An administrator's hold can only be taken off by them.",
        )
    return f"{sentence}: {text or 'no reason given'}.", "Read the queue again, then try again."
