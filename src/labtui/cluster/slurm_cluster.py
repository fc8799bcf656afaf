"""A Slurm cluster as labtui uses it: the connection, files, push, submit, tick, look up, cancel.

Files are pushed by content. Beside the directories of submissions lies a store of file contents by SHA-256. One
command compares, copies what the store already has, and names what it needs; what is needed goes up once and the same
command is run again. So a file that did not change costs nothing, even in a new directory, and every file appears
whole or not at all.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
import secrets
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from labtui.cluster.connection import Connection
from labtui.domain.errors import (
    CannotConnect,
    ConnectionLost,
    LabError,
    RemoteFailure,
    SubmitRefused,
    UsageError,
)
from labtui.slurm import values
from labtui.slurm.job_control import (
    Control,
    JobDetails,
    control_command,
    control_problem,
    details_command,
    parse_details,
)
from labtui.slurm.probe import parse_present, parse_slurm_probe, present_command, slurm_probe_command
from labtui.slurm.queue import Tick, parse_tick, tick_command
from labtui.slurm.remote_command import PROGRAM_LIMIT_S, CommandResult, RemoteCommand
from labtui.slurm.sbatch_answers import TestOnly, classify, parse_test_only, test_only_command
from labtui.slurm.site_probe import SiteLoad, load_command, parse_load
from labtui.slurm.submit import (
    NO_DIRECTORY,
    NOT_ASKED,
    SBATCH_LIMIT_S,
    TAKEN_AWAY,
    Lookup,
    accepted_unread,
    already_over,
    broken_off,
    cancel_command,
    early_end_command,
    lookup_command,
    parse_lookup,
    parse_submit,
    submit_command,
)

LOOK_LIMIT_S = 30.0
BATCH = 200
"""Files asked about in one command."""


PRACTICE_HINT = (
    "A practice cluster runs only while `labtui practice --keep DIR` has this folder open: start that."
)


class SlurmCluster:
    """A connection with Slurm behind it. Blocking; every call has a deadline of its own and raises `LabError`s.

    Files, `push` and `connect` belong to one thread; everything else may run beside it.
    """

    def __init__(self, connection: Connection, *, practice: bool = False) -> None:
        self.connection = connection
        self.remote_files = connection.files
        self._practice = practice
        self._home = ""

    # ----------------------------------------------------------------- the connection

    @property
    def host(self) -> str:
        """The login host in use."""
        return self.connection.host

    @property
    def connected(self) -> bool:
        """Whether there is a connection that is not known to be dead."""
        return self.connection.connected

    def connect(self) -> None:
        """Connect and log in.

        Raises:
            CannotConnect, LoginRefused, HostKeyProblem.
        """
        try:
            self.connection.connect()
        except CannotConnect as error:
            if not self._practice:
                raise
            raise CannotConnect(error.sentence, PRACTICE_HINT) from None

    def close(self) -> None:
        """Drop the connection at once; unblocks whoever waits in another call. Any thread may call it."""
        self.connection.close()

    def ping(self, deadline_s: float) -> None:
        """A cheap request with a deadline. Raises ConnectionLost."""
        self.connection.ping(deadline_s)

    # ----------------------------------------------------------------- files

    def home(self) -> str:
        """The absolute path of the home directory; asked once."""
        if not self._home:
            self._home = self.remote_files.home()
        return self._home

    # ----------------------------------------------------------------- sending

    def push(self, files: Mapping[str, bytes], remote_dir: str) -> PushReport:
        """Make `remote_dir` hold `files` (paths relative to it); each is renamed into place when it is whole.

        Raises:
            RemoteFailure: no room, no permission.
            ConnectionLost: the line broke; pushing again costs only what is missing.
        """
        plan = plan_push(files)
        needed = [
            file
            for start in range(0, max(1, len(plan)), BATCH)
            for file in self._place(remote_dir, plan[start : start + BATCH])
        ]
        contents = {file.digest: file for file in needed}
        store = store_of(remote_dir)
        for digest, file in contents.items():
            self.remote_files.write_atomic(f"{store}/{digest}", file.data, 0o600)
        for start in range(0, len(needed), BATCH):
            if self._place(remote_dir, needed[start : start + BATCH]):
                raise RemoteFailure("Pushed files are missing on the cluster.", "Push again.", wait=True)
        sent = {file.path for file in needed}
        return PushReport(
            sent=tuple(file.path for file in plan if file.path in sent),
            unchanged=tuple(file.path for file in plan if file.path not in sent),
            bytes_sent=sum(len(file.data) for file in contents.values()),
        )

    def _place(self, remote_dir: str, files: Sequence[PushFile]) -> list[PushFile]:
        """Put in place what can be; the files that have to be sent."""
        result = self.connection.run(push_command(remote_dir, files), timeout_s=60)
        words = parse_push(result.out, len(files))
        if result.status is None:
            raise ConnectionLost(
                f"{self.host} gave no answer about the files.", "Push again; only missing files are sent."
            )
        if result.status != 0 or words is None or "failed" in words:
            raise _not_placed(remote_dir, result)
        return [file for file, word in zip(files, words, strict=True) if word == "need"]

    def submit(
        self,
        remote_dir: str,
        script_name: str,
        token: str,
        job_name: str,
        options: Sequence[str] = (),
        *,
        attempt: int,
    ) -> str:
        """Submit `script_name` in `remote_dir`; the job id. A job of this token that is there already is adopted.

        `attempt` is how many earlier tries are known to have made no job (`Lookup.attempts`, or one more after each
        refusal); with another number than there were tries nothing is sent. Whatever happens, this runs sbatch at
        most once. After `ConnectionLost` use `find_token`.

        Raises:
            SubmitRefused: Slurm said no; `wait` tells whether later may help. There is no job.
            RemoteFailure: Slurm said yes, and no number that can be read.
            ConnectionLost: it is not known whether there is a job.
        """
        command = submit_command(remote_dir, script_name, token, job_name, options, attempt=attempt)
        result = self.connection.run(command, timeout_s=SBATCH_LIMIT_S + PROGRAM_LIMIT_S + 15)
        return self._job_id(result)

    def _job_id(self, result: CommandResult) -> str:
        job_id = parse_submit(result.out) if result.status == 0 else None
        if job_id is not None:
            return job_id
        if result.status == 0:
            raise RemoteFailure(accepted_unread(result.out), "labtui looks the job up by its token.")
        if result.status == TAKEN_AWAY or broken_off(result.status):
            raise ConnectionLost(
                "Slurm's answer to the submission did not arrive.",
                "labtui looks the job up by its token; nothing is sent twice.",
            )
        refusal = classify(result.err)
        if result.status == NO_DIRECTORY and refusal.key != "quota":
            raise SubmitRefused(
                "The directory of this submission is not on the cluster.", "Push again.", detail=result.err
            )
        if result.status == NOT_ASKED and refusal.key != "no-sbatch":
            raise SubmitRefused(
                "Slurm's controller does not answer. Nothing was sent.",
                "labtui sends it when the controller answers again.",
                detail=result.err,
                wait=True,
            )
        if refusal.unclear:
            raise ConnectionLost(refusal.sentence, refusal.hint)
        hint = f"{refusal.hint} {self._open_to_user(refusal.key)}".strip()
        raise SubmitRefused(refusal.sentence, hint, detail=refusal.detail, wait=refusal.wait)

    def _open_to_user(self, key: str) -> str:
        """After a refused account or QoS: those that Slurm has for this user; "" where it does not say."""
        if key not in ("account", "qos"):
            return ""
        nonce = secrets.token_hex(8)
        try:
            result = self.connection.run(slurm_probe_command(nonce), timeout_s=60)
        except LabError:
            return ""
        found = parse_slurm_probe(result, nonce).associations or ()
        names = [name for item in found for name in ((item.account,) if key == "account" else item.qos)]
        return f"Open to you: {', '.join(dict.fromkeys(names))}." if names else ""

    def find_token(self, token: str, job_name: str, remote_dir: str) -> Lookup:
        """Look for the job with this token: its own word and the receipts in `remote_dir`, queue, accounting.

        A submit command that is still on its way can no longer act afterwards.

        Raises:
            ConnectionLost: no answer came.
        """
        nonce = secrets.token_hex(8)
        command = lookup_command(remote_dir, token, job_name, nonce)
        result = self.connection.run(command, timeout_s=3 * PROGRAM_LIMIT_S + 15)
        if result.status is None:
            raise ConnectionLost("The search for the job gave no answer.", "labtui asks again.")
        return parse_lookup(result, nonce, token, job_name)

    def test_only(self, remote_dir: str, script_name: str, options: Sequence[str] = ()) -> TestOnly:
        """Slurm's own word on a script that was pushed; nothing is submitted."""
        return parse_test_only(
            self.connection.run(test_only_command(remote_dir, script_name, options), timeout_s=75)
        )

    def present(self, paths: Sequence[str]) -> dict[str, bool]:
        """Which of these paths are there, in one remote command; a link that leads nowhere is not.

        Raises:
            RemoteFailure: the cluster gave no answer that can be read.
        """
        if not paths:
            return {}
        found = parse_present(self.connection.run(present_command(paths), timeout_s=LOOK_LIMIT_S).out, paths)
        if found is None:
            raise RemoteFailure(
                "The check for the data and the container got no answer.",
                "Its file system may be slow now; `labtui doctor` checks again.",
            )
        return found

    # ----------------------------------------------------------------- watching

    def tick(self, vanished: Sequence[str] = (), ours: Sequence[str] = ()) -> Tick:
        """The queue, and accounting for the ids in `vanished`, in one remote command; `ours` are always listed.

        Raises:
            ConnectionLost: the connection is gone. Slurm's own silence is not an error but `Tick.problem`.
        """
        nonce = secrets.token_hex(8)
        limit = PROGRAM_LIMIT_S * (2 if vanished else 1) + 15
        result = self.connection.run(tick_command(vanished, ours, nonce), timeout_s=limit)
        return parse_tick(result, nonce, asked_accounting=bool(vanished))

    def job_details(self, job_id: str) -> JobDetails | None:
        """What Slurm keeps about a living job (log paths, restarts); None when it does not remember it.

        Raises:
            RemoteFailure: Slurm could not be asked.
        """
        result = self.connection.run(details_command(job_id), timeout_s=40)
        if result.status == 0:
            return parse_details(result.out, job_id)
        if "invalid job id" in result.err.lower():
            return None
        refusal = classify(result.err)
        raise RemoteFailure(
            f"Slurm could not be asked about job {job_id}.", refusal.sentence, detail=result.err.strip()
        )

    def cancel(self, job_id: str, *, only_pending: bool = False) -> None:
        """Cancel a job; fine when it is over already. With `only_pending` one that started meanwhile is left alone.

        Raises:
            RemoteFailure: Slurm said no.
        """
        _must_be_a_number(job_id)
        result = self.connection.run(cancel_command(job_id, only_pending=only_pending), timeout_s=60)
        if result.status == 0 or already_over(result.err):
            return
        if result.status is None:
            raise ConnectionLost(
                "The cancellation got no answer from Slurm.", "Look at its state, then try again."
            )
        message = result.err.strip()
        raise RemoteFailure(
            f"Job {job_id} was not cancelled: {message.splitlines()[-1] if message else 'no reason given'}",
            "Only your own jobs can be changed; `labtui queue --all` shows them.",
            detail=message,
        )

    def control(self, job_id: str, control: Control) -> None:
        """Hold a job that waits, or release one that is held.

        Raises:
            RemoteFailure: Slurm said no.
        """
        _must_be_a_number(job_id)
        result = self.connection.run(control_command(control, job_id), timeout_s=60)
        if result.status is None:
            raise ConnectionLost("Slurm did not answer.", "Look at the job, then try again.")
        if result.status != 0:
            raise RemoteFailure(*control_problem(control, job_id, result.err), detail=result.err.strip())

    def site_load(self) -> SiteLoad:
        """What is free on the cluster now, and the student's fair share; what the site refuses is said in it.

        Raises:
            ConnectionLost: no answer came.
        """
        nonce = secrets.token_hex(8)
        result = self.connection.run(load_command(nonce), timeout_s=2 * PROGRAM_LIMIT_S + 15)
        if result.status is None:
            raise ConnectionLost("The query for free nodes got no answer.", "labtui asks again later.")
        return parse_load(result, nonce)

    def end_after(self, job_id: str, minutes: int) -> None:
        """Give a job a time limit of `minutes`, counted from its start; Slurm ends it then.

        Raises:
            RemoteFailure: Slurm said no: the job is over, or its limit is shorter already.
        """
        _must_be_a_number(job_id)
        result = self.connection.run(early_end_command(job_id, minutes), timeout_s=60)
        if result.status == 0:
            return
        if result.status is None:
            raise ConnectionLost(
                "The new time limit got no answer from Slurm.", "Look at the job, then try again."
            )
        message = result.err.strip()
        sentence = f"Slurm did not accept a limit of {minutes} min for job {job_id}"
        if already_over(message) or "already finished" in message.lower():
            raise RemoteFailure(f"{sentence}: it is over.", "There is nothing left to end.", detail=message)
        if "permission denied" in message.lower():
            hint = "A running job's limit can only be shortened, and only on your own job."
            raise RemoteFailure(f"{sentence}.", hint, detail=message)
        raise RemoteFailure(f"{sentence}.", classify(message).sentence, detail=message)


def _must_be_a_number(job_id: str) -> None:
    if values.job_id(job_id) != job_id:
        raise RemoteFailure(f"{job_id!r} is not a job ID.", "`labtui queue` shows the IDs.")


# --------------------------------------------------------------------------- files by content

STORE = ".objects"
_TEXT_SUFFIXES = (".py", ".sh", ".bash", ".slurm", ".sbatch", ".txt", ".toml", ".cfg", ".md", ".csv")
_RUNNABLE_SUFFIXES = (".sh", ".bash", ".slurm", ".sbatch")


@dataclass(frozen=True, slots=True)
class PushFile:
    """One file as it will lie on the cluster: relative path, content, mode, SHA-256 in hex."""

    path: str
    data: bytes
    mode: int
    digest: str


@dataclass(frozen=True, slots=True)
class PushReport:
    """What a push did: paths that were sent, paths that cost nothing, bytes that went over the line."""

    sent: tuple[str, ...]
    unchanged: tuple[str, ...]
    bytes_sent: int


def plan_push(files: Mapping[str, bytes]) -> tuple[PushFile, ...]:
    """The files as they will lie there: scripts with Unix line breaks, runnable ones with their mode.

    Raises:
        UsageError: a path leaves the directory or cannot be a file name.
    """
    return tuple(_plan(path, data) for path, data in sorted(files.items()))


def _plan(path: str, data: bytes) -> PushFile:
    clean = posixpath.normpath(path.replace("\\", "/"))
    bad = (
        clean.startswith(("/", "../"))
        or clean in (".", "..")
        or re.search(r"[\x00-\x1f\x7f]|^[A-Za-z]:", clean)
    )
    if bad:
        raise UsageError(
            f"{path!r} cannot be pushed: it is not a path inside the folder.", "Rename the file."
        )
    script = data.startswith(b"#!")
    if script or clean.endswith(_TEXT_SUFFIXES):
        data = data.replace(b"\r\n", b"\n")
    mode = 0o755 if script or clean.endswith(_RUNNABLE_SUFFIXES) else 0o644
    return PushFile(clean, data, mode, hashlib.sha256(data).hexdigest())


def store_of(remote_dir: str) -> str:
    """The store that `remote_dir` shares with its neighbours."""
    return posixpath.join(posixpath.dirname(remote_dir.rstrip("/")) or ".", STORE)


def push_command(remote_dir: str, files: Iterable[PushFile]) -> RemoteCommand:
    """Make the directories, then say for each file ``same``, ``placed`` or ``need``, one word a line."""
    wanted = list(files)
    store = store_of(remote_dir)
    folders = sorted({posixpath.dirname(file.path) for file in wanted} - {""})
    lines = [
        f"mkdir -p -- {shlex.join([remote_dir, store])} || exit 74",
        f"store=$(cd -- {shlex.quote(store)} >/dev/null && pwd) || exit 74",
        f"cd -- {shlex.quote(remote_dir)} >/dev/null || exit 74",
        f"mkdir -p -- {shlex.join(f'./{name}' for name in folders)} || exit 74" if folders else ":",
        'sum() { sha256sum 2>/dev/null <"$1" | cut -c1-64; }',
        "put() {",
        '  if [ -f "$1" ] && [ "$(sum "$1")" = "$2" ]; then chmod "$3" "$1"; echo same; return; fi',
        '  if ! [ -f "$store/$2" ]; then echo need; return; fi',
        '  part="$1.$$.part"',
        '  if cp -- "$store/$2" "$part" && chmod "$3" "$part" && [ "$(sum "$part")" = "$2" ]; then',
        '    mv -f -- "$part" "$1" && echo placed && return',
        "  fi",
        '  rm -f -- "$part"; [ "$(sum "$store/$2")" = "$2" ] && echo failed && return',
        '  rm -f -- "$store/$2"; echo need',
        "}",
    ]
    lines += [f"put {shlex.quote('./' + file.path)} {file.digest} {file.mode:o}" for file in wanted]
    return RemoteCommand("push", "\n".join(lines))


def parse_push(text: str, count: int) -> list[str] | None:
    """One word for each file, or None when the answer is not complete."""
    words = text.split()
    good = len(words) == count and set(words) <= {"same", "placed", "need", "failed"}
    return words if good else None


def _not_placed(remote_dir: str, result: CommandResult) -> RemoteFailure:
    stderr = result.err.strip()
    refusal = classify(stderr)
    if refusal.key in ("quota", "permission"):
        return RemoteFailure(
            f"The files cannot be put into {remote_dir}: {refusal.sentence}",
            refusal.hint,
            detail=stderr,
            wait=refusal.key == "quota",
        )
    last = stderr.splitlines()[-1] if stderr else "no reason given"
    return RemoteFailure(
        f"The files cannot be put into {remote_dir}: {last}",
        "Check the remote folder (`root`).",
        detail=stderr,
    )
