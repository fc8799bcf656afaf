"""One job: what `scontrol show job` says of it, holding and releasing it, and what a finished one used, as `seff` says.

`scontrol`'s answer is read line by line: the paths stand on lines of their own, and a job's name comes before them, so
that the last line of a key is Slurm's and not one that a hostile job name made up.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import Literal

from labtui.slurm.remote_command import LIMIT, PINNED, PROGRAM_LIMIT_S, UNSET, RemoteCommand
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
_FIELDS = (
    "JobIDRaw",
    "State",
    "AllocCPUS",
    "NNodes",
    "ElapsedRaw",
    "TotalCPU",
    "ReqMem",
    "MaxRSS",
    "AllocTRES",
)
_BYTES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50}


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


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEfficiency:
    """What a job used of what it held. Absent figures are those that accounting does not keep.

    `cpu_seconds` is the CPU time of all its processes, `core_seconds` its cores times its wall time; `memory_bytes`
    the largest resident set of a task, times the tasks of its step; `memory_held_bytes` what Slurm set aside.
    `gpus` are those it held; how busy they were is not in accounting.
    """

    job_id: str
    state: str
    cores: int
    nodes: int
    wall_seconds: float
    cpu_seconds: float | None = None
    memory_bytes: float | None = None
    memory_held_bytes: float | None = None
    gpus: int = 0

    @property
    def core_seconds(self) -> float:
        """Core-seconds held."""
        return self.cores * self.wall_seconds

    @property
    def cpu(self) -> float | None:
        """CPU efficiency, as a fraction of 1."""
        return (
            None
            if self.cpu_seconds is None or not self.core_seconds
            else self.cpu_seconds / self.core_seconds
        )

    @property
    def memory(self) -> float | None:
        """Memory efficiency, as a fraction of 1."""
        if self.memory_bytes is None or not self.memory_held_bytes:
            return None
        return self.memory_bytes / self.memory_held_bytes


def efficiency_command(job_id: str) -> RemoteCommand:
    """Ask accounting about one job and its steps."""
    words = [
        "sacct",
        "--noheader",
        "--parsable2",
        f"--format={','.join((*_FIELDS, 'NTasks'))}",
        f"--jobs={job_id}",
    ]
    script = f"{PINNED}\n{LIMIT}\nlimit {PROGRAM_LIMIT_S} {shlex.join(words)}"
    return RemoteCommand("efficiency", script, {"job_id": job_id})


def parse_efficiency(text: str, job_id: str) -> JobEfficiency | None:
    """The job's line and its steps' lines; None when accounting has no complete record of it."""
    rows = [line.split("|") for line in text.splitlines() if line.count("|") == len(_FIELDS)]
    records = [dict(zip((*_FIELDS, "NTasks"), row, strict=True)) for row in rows]
    job = next((row for row in records if row["JobIDRaw"] == job_id), None)
    if job is None or not job["ElapsedRaw"].isdecimal():
        return None
    steps = [row for row in records if row["JobIDRaw"].startswith(f"{job_id}.")]
    cores, nodes = _number(job["AllocCPUS"]), _number(job["NNodes"])
    memory = [(value := _bytes(row["MaxRSS"])) and value * max(1, _number(row["NTasks"])) for row in steps]
    used = [value for value in memory if value]
    return JobEfficiency(
        job_id=job_id,
        state=job["State"].split(" ")[0],
        cores=cores,
        nodes=nodes,
        wall_seconds=float(job["ElapsedRaw"]),
        cpu_seconds=_seconds(job["TotalCPU"]),
        memory_bytes=max(used, default=None),
        memory_held_bytes=_held(job, cores, nodes),
        gpus=sum(int(n) for n in re.findall(r"(?:^|,)gres/gpu=(\d+)", job["AllocTRES"])),
    )


def _held(job: dict[str, str], cores: int, nodes: int) -> float | None:
    """The memory Slurm set aside: from the allocation, else from the request for each core or node."""
    allocated = re.search(r"(?:^|,)mem=([\d.]+[KMGTP]?)", job["AllocTRES"])
    if allocated:
        return _bytes(allocated[1])
    requested = re.fullmatch(r"([\d.]+[KMGTP]?)([cn]?)", job["ReqMem"])
    value = _bytes(requested[1]) if requested else None
    if requested is None or not value:
        return None
    return value * (cores if requested[2] == "c" else max(1, nodes))


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() else 0


def _bytes(text: str) -> float | None:
    match = re.fullmatch(r"([\d.]+)([KMGTP]?)", text)
    try:
        return float(match[1]) * _BYTES[match[2]] if match else None
    except ValueError:
        return None


def _seconds(text: str) -> float | None:
    """``1-02:03:04``, ``02:03:04``, ``03:04.567``; None for no record (accounting writes zero for that, too)."""
    match = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+(?:\.\d+)?)", text)
    if match is None:
        return None
    days, hours, minutes = (int(part or 0) for part in match.groups()[:3])
    return (days * 86400 + hours * 3600 + minutes * 60 + float(match[4])) or None
