"""One job: what `scontrol show job` says of it, holding and releasing it.

`scontrol`'s answer is read line by line: the paths stand on lines of their own, and a job's name comes before them, so
that the last line of a key is Slurm's and not one that a hostile job name made up.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import Literal

from labtui.slurm.remote_command import LIMIT, PINNED, UNSET, RemoteCommand
from labtui.slurm.states import plain_state
from labtui.slurm.values import epoch_seconds, number


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
    script = f"{PINNED}\n{LIMIT}\nlimit 25 scontrol show job {shlex.quote(job_id)}"
    return RemoteCommand("details", script, {"job_id": job_id})


def parse_details(text: str, job_id: str) -> JobDetails | None:
    """The details, or None when the text does not tell of this job."""
    if f"JobId={job_id}" not in text.split():
        return None

    def rest_of_line(key: str) -> str:
        found = re.findall(rf"^\s*{key}=(.*)$", text, re.MULTILINE)
        return "" if not found or found[-1] == "(null)" else found[-1].strip()

    def word(key: str) -> str:
        found = re.findall(rf"(?:^|\s){key}=(\S*)", text)
        return "" if not found or found[-1] in ("(null)", "N/A") else found[-1]

    return JobDetails(
        job_id=job_id,
        state=plain_state(word("JobState")),
        reason=word("Reason").replace("None", ""),
        stdout=rest_of_line("StdOut"),
        stderr=rest_of_line("StdErr"),
        work_dir=rest_of_line("WorkDir"),
        restarts=number(word("Restarts")) or 0,
        nodes=word("NodeList"),
        exit_code=word("ExitCode"),
        submit=epoch_seconds(word("SubmitTime")),
        start=epoch_seconds(word("StartTime")),
        end=epoch_seconds(word("EndTime")),
        tres=word("AllocTRES") or word("TRES") or word("ReqTRES"),
    )


NO_ARRAY = "4294967294"
"""What Slurm writes for ``%a`` in a job that is no array."""


def first_node(nodes: str) -> str:
    """The first host of ``as01r1b[01-03,07],gs02``; "" for none."""
    match = re.match(r"([^,\[]+)(?:\[(\w+))?", nodes)
    return match[1] + (match[2] or "") if match else ""


def expand_pattern(
    pattern: str, *, job_id: str, job_name: str, user: str = "", node: str = "", task: str = NO_ARRAY
) -> str:
    """A log name pattern (``%x.%j.out``, ``%J``, ``%5j``) as Slurm expands it for a plain batch job."""
    if "\\" in pattern:
        return pattern.replace("\\", "")
    values = {"A": job_id, "j": job_id, "J": job_id, "x": job_name, "u": user, "a": task, "N": node or None,
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
    return RemoteCommand(control, script, {"job_id": job_id})


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
