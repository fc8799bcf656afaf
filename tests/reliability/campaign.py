"""Thousands of lives of labtui, each cut, stalled and killed somewhere: exactly once, byte for byte, nothing forgotten.

``python -m tests.reliability.campaign ROUNDS [--seed S] [--lanes N]`` starts a cluster of its own. A round is one
life: a process opens the lab folder, takes up what the killed ones before it left, submits up to two jobs and
follows the logs, through a proxy that cuts, resets, stalls or delays its connection at a random byte;
then SIGKILL, at a random moment or just after a chosen word. Meanwhile sbatch, squeue and sacct are ended by signals,
and slurmctld freezes. After each life the folder is read: nothing that was shown may be missing, every mirror must be a
prefix of its remote file. After `LIVES` lives an undisturbed process settles the folder, and the accounts are made: one
job for every intent, its id known, every mirror equal.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from labtui.domain.model import SubmissionStatus
from labtui.domain.state import LabState, SubmissionState
from labtui.session.folder import LabFolder
from labtui.session.mirrors import state_of
from labtui.session.session import Session
from labtui.session.store import Store
from labtui.slurm.values import log_path
from tests.real_cluster import Cluster, ClusterSettings, FaultProxy
from tests.real_cluster.cluster import wait_until
from tests.real_cluster.proxy import Fault
from tests.session.small_job import complete, make_lab

ROOT = Path(__file__).resolve().parents[2]
LIVES = 20
"""Lives in one lab folder before it is settled."""
SETTLE_S = 1800.0
"""How long a folder may take to settle. An sbatch that was killed on the login node is given up after 300 s of the
cluster's clock; then, and after a frozen controller, Slurm has to report for some time that there is no job."""
GUARD_S = 40.0
"""The longest life: that of a process that waits for a word that never comes."""
HARMLESS = ("SIGCHLD", "SIGCONT", "SIGURG", "SIGWINCH", "SIGRTMIN", "SIGRTMAX")
SIGNALS = tuple(one.name.removeprefix("SIG") for one in signal.Signals if one.name not in HARMLESS)
"""Signals that end or stop a program; a stopped one continues a second later."""
SIGNALLED = """\
for order in "$HOME"/faults/{name}.*; do
    mine="$HOME/faults/taken.$$"
    mv "$order" "$mine" 2>/dev/null || continue
    read -r signal delay <"$mine"; rm "$mine"
    ( sleep "$delay"; kill -"$signal" $$ && echo "{name} $signal" >>"$HOME/faults/log"; sleep 1; kill -CONT $$
    ) >/dev/null 2>&1 </dev/null &
    break
done
exec /usr/bin/{name} "$@"
"""
"""A wrapper of a Slurm program that executes one order: a signal, some seconds after the start."""
ONE_DAEMON = threading.Lock()
"""Held while a daemon is frozen, so that no lane continues a daemon that another one froze."""


@dataclass(frozen=True)
class Plan:
    """How one life goes. `fault` strikes a new connection at its byte, `aimed` so many bytes after ``sending`` was
    told; SIGKILL comes `patience` seconds after the word `kill_after` (empty: after birth)."""

    fault: Fault | None
    aimed: Fault | None
    kill_after: str
    patience: float

    @classmethod
    def random(cls, chooser: random.Random) -> Plan:
        """A random plan: a third of the lives is killed during sbatch, and for a fifth the connection breaks then."""
        luck = chooser.random()
        if luck < 0.35:
            return cls(None, None, "sending", chooser.uniform(0, 0.12))
        fault = Fault.random(chooser)
        # Between the request to submit (some 2,300 bytes) and the end of its answer (some 1,400).
        if luck < 0.55:
            at_byte = chooser.randrange(2_600 if fault.direction == "up" else 1_700)
            return cls(None, replace(fault, at_byte=at_byte), "sending", chooser.uniform(0, 5))
        after = chooser.choice(("", "", "planned", "accepted"))
        # Anywhere in a connection that logs in, pushes, submits twice and reads logs.
        if chooser.random() < 0.7:
            fault = replace(
                fault, at_byte=chooser.randrange(1_500, 75_000 if fault.direction == "up" else 30_000)
            )
        return cls(None if luck < 0.6 else fault, None, after, chooser.uniform(0, 0.3 if after else 1.5))


class AimedProxy(FaultProxy):
    """A proxy whose faults can be set while connections are open."""

    def aim(self, fault: Fault) -> None:
        """Let `fault` strike the open connections, `at_byte` counted from now."""
        with self._gate:
            for link in self._links:
                link.fault = replace(fault, at_byte=fault.at_byte + link.passed[fault.direction])


class Zygote:
    """A running `tests.reliability.zygote`."""

    def __init__(self) -> None:
        self.stderr = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `close`)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.reliability.zygote"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self.stderr, text=True, cwd=ROOT,
        )  # fmt: skip
        assert self._line() == ["ready"]

    def _line(self) -> list[str]:
        assert self.process.stdout is not None
        words = self.process.stdout.readline().split()
        assert words, "the zygote is gone"
        return words

    def live(self, order: dict[str, object], plan: Plan, heard: Callable[[str], None]) -> list[list[str]]:
        """Run one life by a plan; `heard` is called with each word it prints."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        words = self._line()
        while words[0] != "pid":
            words = self._line()
        pid = int(words[1])
        timers = [threading.Timer(GUARD_S, _kill, (pid,))]
        if not plan.kill_after:
            timers.append(threading.Timer(plan.patience, _kill, (pid,)))
        for timer in timers:
            timer.start()
        messages: list[list[str]] = []
        while (words := self._line()) != ["gone"]:
            heard(words[0])
            messages.append(words)
            if words[0] == plan.kill_after and len(timers) == 1:
                timers.append(threading.Timer(plan.patience, _kill, (pid,)))
                timers[1].start()
        for timer in timers:
            timer.cancel()
        return messages

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(240)
        self.stderr.seek(0)
        text = self.stderr.read()
        self.stderr.close()
        assert not text, f"on the student's screen: {text.decode(errors='replace')[:2000]}"


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


class Lane:
    """Works through one lab folder after another; several lanes share a cluster."""

    def __init__(self, cluster: Cluster, place: Path, seed: str, longest_freeze_s: float) -> None:
        self.cluster, self.place, self.seed = cluster, place, seed
        self.longest_freeze_s = longest_freeze_s
        self.chooser = random.Random(seed)
        self.tally: Counter[str] = Counter()
        self._fault: Fault | None = None

    def run(self, rounds: int) -> Counter[str]:
        student = self.cluster.student
        self._zygote = Zygote()
        try:
            with AimedProxy((student.host, student.port), lambda _: self._fault) as proxy:
                for number, first in enumerate(range(0, rounds, LIVES)):
                    folder = make_lab(self.place / f"{self.seed}-{number}", student, proxy.port)
                    try:
                        self._folder(folder, proxy, min(LIVES, rounds - first))
                    except BaseException as error:
                        raise AssertionError(f"lane seed {self.seed!r}, folder {number}: {error}") from error
        finally:
            self._zygote.close()
        return self.tally

    def _folder(self, folder: LabFolder, proxy: AimedProxy, lives: int) -> None:
        shown: dict[str, str] = {}
        for _ in range(lives):
            self._life(folder, proxy, shown)
            self._check_after_a_life(folder, shown)
        self._settle(folder)
        self._accounts(folder, shown)

    # ------------------------------------------------------------------ lives

    def _life(self, folder: LabFolder, proxy: AimedProxy, shown: dict[str, str]) -> None:
        chooser = self.chooser
        plan = Plan.random(chooser)
        self._fault = plan.fault
        struck_before = len(proxy.faults_struck)
        jobs = [chooser.choice((0, 10, 3000, 40_000)) for _ in range(chooser.choice((0, 1, 1, 1, 2)))]
        order = {"path": str(folder.path), "account": self.cluster.settings.account, "jobs": jobs}
        threads = self._trouble()

        def heard(word: str) -> None:
            if word == "sending" and plan.aimed is not None:
                proxy.aim(plan.aimed)

        self._note(self._zygote.live(order, plan, heard), shown)
        for thread in threads:
            thread.join()
        self.tally["rounds"] += 1
        self.tally[f"killed after {plan.kill_after or 'any moment'}"] += 1
        self.tally.update(f"line: {fault.kind}" for fault in proxy.faults_struck[struck_before:])
        proxy.cut()
        self._fault = None

    def _note(self, messages: list[list[str]], shown: dict[str, str]) -> None:
        for words in messages:
            assert words[0] != "error", f"labtui ended by itself: {words}"
            if words[0] in ("planned", *SubmissionStatus):
                token, job_id = words[1], words[2] if len(words) > 2 else ""
                shown[token] = job_id or shown.get(token, "")

    def _trouble(self) -> list[threading.Timer]:
        """Now and then a signal for a program of Slurm; seldom, slurmctld freezes. What has to be waited for."""
        chooser = self.chooser
        if chooser.random() < 0.6:
            name = chooser.choice(("sbatch", "sbatch", "sbatch", "squeue", "sacct"))
            place = self.cluster.outside(f"{self.cluster.settings.home}/faults")
            order = f"{chooser.choice(SIGNALS)} {chooser.uniform(0, 0.04):.3f}\n"
            with suppress(OSError):
                (place / f"{name}.{chooser.randrange(1 << 30):x}").write_text(order)
        if chooser.random() >= 0.02:
            return []
        seconds = chooser.choice(
            (chooser.uniform(1, 12), 12 * (self.longest_freeze_s / 12) ** chooser.random())
        )
        timer = threading.Timer(chooser.uniform(0, 1.5), self._freeze, (seconds,))
        timer.start()
        return [timer]

    def _freeze(self, seconds: float) -> None:
        with ONE_DAEMON:
            self.tally["slurmctld frozen"] += 1
            self.cluster.daemon("slurmctld", "pause")
            time.sleep(seconds)
            self.cluster.daemon("slurmctld", "resume")

    # ------------------------------------------------------------------ invariants

    def _check_after_a_life(self, folder: LabFolder, shown: dict[str, str]) -> None:
        state = stored_state(folder)
        for token, job_id in shown.items():
            assert token in state.submissions, f"{token} was shown and is not stored"
            if job_id:
                job = state.submissions[token].job
                assert job is not None, f"{token}: job {job_id} was shown and is not stored"
                assert job.job_id == job_id, f"{token}: {job_id} was shown, {job.job_id} is stored"
        for submission in state.submissions.values():
            assert submission.status is not SubmissionStatus.REFUSED, submission.sentence
            for local, remote in self._copies(folder, submission):
                self.tally["prefixes compared"] += 1
                assert remote.startswith(local), f"a mirror of {submission.job_name} is no prefix"

    def _copies(self, folder: LabFolder, submission: SubmissionState) -> list[tuple[bytes, bytes]]:
        """Mirror and remote log of each stream; empty if the job never wrote it, as when slurmd could not start."""
        found = []
        for stream in ("out", "err"):
            mirror = folder.path / submission.mirror(stream)  # type: ignore[arg-type]
            remote = log_path(submission, stream)  # type: ignore[arg-type]
            if remote is not None:
                local = mirror.read_bytes() if mirror.is_file() else b""  # first: the log may still grow
                place = self.cluster.outside(remote)
                found.append((local, place.read_bytes() if place.exists() else b""))
        return found

    def _settle(self, folder: LabFolder) -> None:
        with Session.open(folder.path) as session:
            assert not session.read_only
            session.watch_logs(set(session.state.submissions))
            wait_until(
                lambda: all(complete(item) for item in session.state.submissions.values()),
                what="the folder to settle", deadline_s=SETTLE_S,
            )  # fmt: skip

    def _accounts(self, folder: LabFolder, shown: dict[str, str]) -> None:
        state = stored_state(folder)
        wait_until(
            lambda: state.submissions.keys() <= self.cluster.jobs_by_token().keys(),
            what="accounting to know every job", deadline_s=360,
        )  # fmt: skip
        jobs = self.cluster.jobs_by_token()
        assert set(shown) <= set(state.submissions)
        for token, submission in state.submissions.items():
            found = jobs.get(token, [])
            self.tally.update(intents=1, jobs=len(found))
            assert submission.status is SubmissionStatus.ACCEPTED, f"{token}: {submission}"
            assert submission.job is not None
            assert found == [submission.job.job_id], f"{token}: jobs {found}, known {submission.job.job_id}"
            control = self.cluster.outside(submission.remote_dir) / ".labtui"
            self.tally["looked up"] += len(list(control.glob("attempt-*"))) > 1
            copies = self._copies(folder, submission)
            assert len(copies) == 2
            for local, remote in copies:
                self.tally.update(mirrors=1, mirror_bytes=len(remote))
                assert local == remote, f"a mirror of {submission.job_name} differs"


def stored_state(folder: LabFolder) -> LabState:
    """The folder's state, as the next process would read it after the last one was killed."""
    with contextlib.closing(Store(folder.database_path)) as store:
        return state_of(folder, store)


def campaign(
    cluster: Cluster, place: Path, seed: int, rounds: int, lanes: int, longest_freeze_s: float = 200.0
) -> Counter[str]:
    """Run lives in several lanes, and return the totals. Raises AssertionError with the lane's seed."""
    faults = cluster.outside(f"{cluster.settings.home}/faults")
    faults.mkdir(exist_ok=True)
    faults.chmod(0o777)
    (faults / "log").unlink(missing_ok=True)
    for name in ("sbatch", "squeue", "sacct"):
        cluster.wrap_program(name, SIGNALLED.format(name=name))
    workers = [Lane(cluster, place, f"{seed}.{number}", longest_freeze_s) for number in range(lanes)]
    total: Counter[str] = Counter()
    with ThreadPoolExecutor(lanes) as pool:
        for future in [pool.submit(worker.run, -(-rounds // lanes)) for worker in workers]:
            total.update(future.result())
    if (faults / "log").exists():
        total.update(f"{line.split()[0]} signalled" for line in (faults / "log").read_text().splitlines())
    return total


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rounds", type=int)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--lanes", type=int, default=12)
    args = parser.parse_args()
    batch, total, began, seed = 20 * args.lanes, Counter(), time.monotonic(), args.seed
    cluster = Cluster.start(settings=ClusterSettings(min_job_age_s=20))
    try:
        with tempfile.TemporaryDirectory() as place:
            while (left := args.rounds - total["rounds"]) > 0:
                total.update(campaign(cluster, Path(place), seed, min(batch, left), args.lanes))
                print(f"{time.monotonic() - began:.0f} s, batch seed {seed}: {dict(total)}", flush=True)
                seed += 1
    finally:
        cluster.down()


if __name__ == "__main__":
    main()
