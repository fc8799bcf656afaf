"""An in-memory cluster with the interface that the worker uses and with faults on demand, and a fake clock."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec.structs import asdict, replace

from labtui.cluster.files import PEEK_BYTES, FileStat
from labtui.domain.errors import CannotConnect, ConnectionLost, SubmitRefused
from labtui.slurm.job_control import SbatchAnswer
from labtui.slurm.probe import FileDigest
from labtui.slurm.queue import QueueAnswer, job_row
from labtui.slurm.remote_command import Call
from labtui.slurm.submit import Lookup, accepted_unread, parse_submit

CUT = ConnectionLost("The connection is gone.")
LIMIT = SubmitRefused("This QoS accepts no further job of yours.", "labtui waits.", wait=True)


class FakeClock:
    """A clock that stands still until a test moves it."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.offset = 1_700_000_000.0

    def wall(self) -> float:
        return self.now + self.offset

    def steady(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class ScriptedJob(msgspec.Struct):
    """A job of the fake Slurm."""

    job_id: str
    token: str
    name: str
    work_dir: str
    state: str = "PENDING"
    in_queue: bool = True
    in_accounting: bool = True
    reason: str = "Priority"
    exit_code: str = "0:0"


@dataclass
class ScriptedCluster:
    """Files, jobs and faults. The next calls of a verb raise the errors in `faults[verb]`, in order."""

    clock: FakeClock
    contents: dict[str, bytes] = field(default_factory=dict)
    mtimes: dict[str, float] = field(default_factory=dict)
    jobs: dict[str, ScriptedJob] = field(default_factory=dict)
    options: dict[str, tuple[str, ...]] = field(default_factory=dict)
    faults: dict[str, list[BaseException | None]] = field(default_factory=dict)
    calls: list[tuple[str, object]] = field(default_factory=list)
    one_job_per_user: bool = False
    max_read: int = 1 << 30
    queue_down: bool = False
    accounting_down: bool = False
    reachable: bool = True
    connected: bool = False
    host: str = "login1"
    submit_then_cut: int = 0
    submit_never_arrives: int = 0
    accepted_as: str | None = None
    """What sbatch prints instead of the number of the job it made; then nothing else tells of the job."""
    queue_is_empty: bool = False
    has_sha256sum: bool = True
    missing: set[str] = field(default_factory=set)
    started: dict[str, str] = field(default_factory=dict)
    """By token, the job that reported first that it began."""

    def _call(self, verb: str, detail: object = None) -> None:
        self.calls.append((verb, detail))
        if verb != "connect" and not self.connected:
            raise ConnectionLost("There is no connection.")
        waiting = self.faults.get(verb)
        if waiting and (error := waiting.pop(0)) is not None:
            if isinstance(error, ConnectionLost):
                self.connected = False
            raise error

    def connect(self) -> None:
        self._call("connect")
        if not self.reachable:
            raise CannotConnect("login1 does not answer.", "Is the network up?")
        self.connected = True

    def close(self) -> None:
        self.connected = False

    def ping(self, deadline_s: float) -> None:
        self._call("ping", deadline_s)

    def home(self) -> str:
        return "/home/student"

    @property
    def files(self) -> ScriptedCluster:
        """The cluster itself, which also has the methods for files."""
        return self

    def stat(self, path: str) -> FileStat | None:
        self._call("stat", path)
        if path not in self.contents:
            return None
        return FileStat(len(self.contents[path]), self.mtimes.get(path, 0.0))

    def read(self, path: str, offset: int, limit: int) -> bytes:
        self._call("read", (path, offset, limit))
        return self.contents[path][offset : offset + min(limit, self.max_read)]

    def peek(self, path: str, offset: int) -> bytes:
        self._call("peek", (path, offset))
        return self.contents[path][offset : offset + min(PEEK_BYTES, self.max_read)]

    def read_into(
        self, path: str, offset: int, limit: int, take: Callable[[bytes], object], *, within_s: float
    ) -> None:
        """Read in pieces of 3,000 bytes; a fault for the verb "piece" is raised between two."""
        data = self.read(path, offset, limit)
        for start in range(0, len(data), 3000):
            take(data[start : start + 3000])
            if start and "piece" in self.faults:
                self._call("piece", start)

    def ask(self, call: Call[Any]) -> Any:
        """The answer to a call, by its name and positional arguments."""
        words = call.arguments
        answers: dict[str, Callable[[], object]] = {
            "tick": lambda: self.tick([text for text in words[3].split(",") if text]),
            "submit": lambda: self.submit(
            words[0], words[-1], words[2].partition(":")[2], words[10].partition("=")[2], words[11:-1] ),
            "find": lambda: self.find_token(words[0].split("/")[-2], call.read.keywords["taken"]),  # type: ignore
            "test-only": lambda: self.test_only(words[1]), "cancel": lambda: self.cancel(words[-1]),
            "hold": lambda: self.control(words[-1], "hold"),
            "release": lambda: self.control(words[-1], "release"),
            "early-end": lambda: self.end_after(words[-1], int(words[-2])),
            "look": lambda: self.present(words), "digest": lambda: self.digest(words[0]),
        }  # fmt: skip
        return answers[call.name]()

    def digest(self, path: str) -> FileDigest:
        self._call("digest", path)
        data = self.contents[path]
        return FileDigest(len(data), hashlib.sha256(data).hexdigest() if self.has_sha256sum else "")

    def push(self, files: Mapping[str, bytes], remote_dir: str) -> None:
        self._call("push", (remote_dir, tuple(files)))
        for name, data in files.items():
            self.contents[f"{remote_dir}/{name}"] = data

    def tick(self, vanished: Sequence[str]) -> QueueAnswer:
        self._call("tick", tuple(vanished))
        if self.queue_down:
            return QueueAnswer(jobs=None, accounting=None, problem="squeue failed: Socket timed out")
        rows = tuple(
            job_row(asdict(job) | {"comment": job.token and f"labtui:{job.token}", "exit_code": ""})
            for job in self.jobs.values()
            if job.in_queue
        )
        if self.accounting_down and vanished:
            return QueueAnswer(jobs=rows, accounting=None, accounting_problem="sacct failed: no connection")
        known = tuple(
            job_row(asdict(job) | {"reason": ""}, evidence="sacct")
            for job in self.jobs.values()
            if job.job_id in vanished and job.in_accounting
        )
        return QueueAnswer(jobs=rows, accounting=known)

    def submit(
        self, remote_dir: str, script_name: str, token: str, job_name: str, options: Sequence[str]
    ) -> str:
        self._call("submit", token)
        assert f"{remote_dir}/{script_name}" in self.contents, "submitted before the files were pushed"
        if self.submit_never_arrives:
            self.submit_never_arrives -= 1
            self.connected = False
            raise ConnectionLost("The connection is gone.")
        living = [job for job in self.jobs.values() if job.in_queue and job.state in ("PENDING", "RUNNING")]
        if self.one_job_per_user and living:
            raise LIMIT
        job_id = str(100 + len(self.jobs))
        self.options[job_id] = tuple(options)
        self.jobs[job_id] = ScriptedJob(job_id, token, job_name, remote_dir)
        if self.accepted_as is not None:
            if (named := parse_submit(self.accepted_as)) is not None:
                return named
            raise accepted_unread(self.accepted_as)
        if self.submit_then_cut:
            self.submit_then_cut -= 1
            self.connected = False
            raise ConnectionLost("The connection is gone.")
        return job_id

    def find_token(self, token: str, taken: Container[str]) -> Lookup:
        self._call("find_token", token)
        found = next((job.job_id for job in self.jobs.values() if job.token == token), None)
        tries = self.count("find_token") + self.count("submit")
        started = self.started.get(token)
        if self.accepted_as is not None:
            found = parse_submit(self.accepted_as, taken)
        if not (started or found) and self.accepted_as is not None:
            answered_at = self.clock.wall() if self.queue_is_empty else None
            said = f"{accepted_unread(self.accepted_as).sentence}. It is not sent again."
            return Lookup(attempts=tries, accepted=True, problem=said, no_job_at=answered_at)
        return Lookup(started or found, certain=True, attempts=tries, started_id=started)

    def test_only(self, script: str) -> SbatchAnswer:
        self._call("test_only", script)
        return SbatchAnswer(sentence="Slurm would accept this job.")

    def cancel(self, job_id: str) -> None:
        self._call("cancel", job_id)
        self.end(job_id, "CANCELLED")

    def control(self, job_id: str, control: str) -> None:
        self._call(control, job_id)
        self.jobs[job_id].reason = "JobHeldUser" if control == "hold" else "Priority"

    def end_after(self, job_id: str, minutes: int) -> None:
        self._call("end_after", (job_id, minutes))

    def present(self, paths: Sequence[str]) -> dict[str, bool]:
        self._call("present", tuple(paths))
        return {path: path not in self.missing for path in paths}

    def fail(self, verb: str, *errors: BaseException | None) -> None:
        """Let the next calls of `verb` raise these errors (None: succeed)."""
        self.faults.setdefault(verb, []).extend(errors)

    def start(self, job_id: str) -> None:
        self.jobs[job_id] = replace(self.jobs[job_id], state="RUNNING", reason="None")

    def end(self, job_id: str, state: str = "COMPLETED", *, in_queue: bool = True) -> None:
        self.jobs[job_id] = replace(self.jobs[job_id], state=state, in_queue=in_queue)

    def twin(self, job_id: str, state: str = "PENDING") -> str:
        """Make a second job of the same submission, as a late request would, and return its id."""
        number = str(100 + len(self.jobs))
        self.jobs[number] = replace(self.jobs[job_id], job_id=number, state=state)
        return number

    def log(self, job_id: str, suffix: str = "out") -> str:
        job = self.jobs[job_id]
        return f"{job.work_dir}/{job.name}.{job_id}.{suffix}"

    def write(self, job_id: str, data: bytes, suffix: str = "out") -> None:
        path = self.log(job_id, suffix)
        self.contents[path] = self.contents.get(path, b"") + data
        self.mtimes[path] = self.clock.wall()

    def put(self, job_id: str, data: bytes, suffix: str = "out") -> None:
        self.contents[self.log(job_id, suffix)] = data
        self.mtimes[self.log(job_id, suffix)] = self.clock.wall()

    def count(self, verb: str) -> int:
        return sum(1 for name, _ in self.calls if name == verb)


def keras_log(*epochs: int, head: bool = True, total: int = 5, batch: int = 256, n_gpus: int = 1) -> bytes:
    """A log as Keras prints it; `epochs` are the seconds of each epoch."""
    text = ""
    if head:
        text += f"+ python -u ResNet50.py --epochs {total} --batch_size {batch} --n_gpus {n_gpus}\n"
    for number, seconds in enumerate(epochs, start=1):
        text += f"Epoch {number}/{total}\n196/196 - {seconds}s - loss: 2.0{number} - accuracy: 0.2{number}\n"
    return text.encode()
