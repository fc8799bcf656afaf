"""Thousands of lives of labtui, each cut, stalled and killed somewhere: exactly once, byte for byte, nothing forgotten.

``python -m tests.reliability.campaign ROUNDS [--seed S] [--lanes N]`` starts a cluster of its own. A round is one
life: a process opens the lab folder, takes up what the killed ones before it left, submits up to two jobs and
follows the logs, through a proxy that cuts, resets, stalls, delays or throttles its connection at a random byte;
then SIGKILL, at a random moment or just after a chosen word. Meanwhile sbatch, squeue and sacct are ended by signals,
the login node reboots, slurmctld freezes, munged and slurmdbd are killed, the lock file is removed and a second
process opens the folder, or the folder is copied and the copy opened (`Troubles`). After each life the folder is read:
nothing that was shown may be missing, every mirror must be a prefix of its remote file. After `LIVES` lives an
undisturbed process settles the folder, and the accounts are made: one job for every intent, its id known, every mirror
equal.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from labtui.domain.events import LabState, SubmissionState
from labtui.domain.model import SubmissionStatus
from labtui.domain.reduce import reduce_all
from labtui.session import mirrors
from labtui.session.folder import LabFolder
from labtui.session.session import Session
from labtui.session.store import Store
from tests.real_cluster import Cluster, ClusterSettings, FaultProxy
from tests.real_cluster.proxy import Fault
from tests.session.campaign import _complete as complete
from tests.session.campaign import make_lab

ROOT = Path(__file__).resolve().parents[2]
LIVES = 20
"""Lives in one lab folder before it is settled."""

SETTLE_S = 1800.0
"""An sbatch that was killed on the login node is given up after 300 s of the cluster's clock; then, and after a frozen
controller, Slurm has to say for as long as it was silent that there is no job."""

SIGNALS = tuple(
    number.name.removeprefix("SIG")
    for number in signal.Signals
    if number.name not in ("SIGCHLD", "SIGCONT", "SIGURG", "SIGWINCH", "SIGRTMIN", "SIGRTMAX")
)
"""What ends or stops a program; one that was stopped goes on a second later."""

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
"""A wrapper of a Slurm program that executes one order: a signal, so many seconds after the start."""

REBOOTING = threading.Lock()
"""The lanes share one login node: it comes back before it goes down again."""

FREEZING = threading.Lock()
"""One daemon suffers at a time: what one lane thaws another must not believe frozen."""

GUARD_S = 40.0
"""The longest life: one that waits for a word that never comes."""


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
        """A third of the lives is killed while sbatch is on its way, a fifth has the line break just there."""
        luck = chooser.random()
        if luck < 0.35:
            return cls(None, None, "sending", chooser.uniform(0, 0.12))
        if luck < 0.55:
            return cls(None, aimed_fault(chooser), "sending", chooser.uniform(0, 5))
        after = chooser.choice(("", "", "planned", "accepted"))
        fault = None if luck < 0.6 else anywhere(chooser)
        return cls(fault, None, after, chooser.uniform(0, 0.3 if after else 1.5))


def anywhere(chooser: random.Random) -> Fault:
    """A fault somewhere in a connection that logs in, pushes, submits twice and reads logs."""
    fault = Fault.random(chooser)
    if chooser.random() < 0.3:
        return fault
    return replace(fault, at_byte=chooser.randrange(1_500, 75_000 if fault.direction == "up" else 30_000))


def aimed_fault(chooser: random.Random) -> Fault:
    """A fault between the request to submit (some 2,300 bytes) and the end of its answer (some 1,400)."""
    fault = Fault.random(chooser)
    return replace(fault, at_byte=chooser.randrange(0, 2_600 if fault.direction == "up" else 1_700))


class AimedProxy(FaultProxy):
    """A proxy that can be told while connections are open."""

    def aim(self, fault: Fault) -> None:
        """Let `fault` strike the open connections, `at_byte` counted from now."""
        with self._gate:
            for link in self._links:
                link.fault = replace(fault, at_byte=fault.at_byte + link.passed[fault.direction])


@dataclass
class Tally:
    """What was done and found; every lane adds to its own."""

    rounds: int = 0
    killed: int = 0
    killed_after: Counter[str] = field(default_factory=Counter)
    faults_struck: Counter[str] = field(default_factory=Counter)
    troubles: Counter[str] = field(default_factory=Counter)
    frozen_s: float = 0.0
    intents: int = 0
    jobs: int = 0
    duplicates: int = 0
    lost: int = 0
    looked_up: int = 0
    mirrors: int = 0
    mirror_bytes: int = 0
    prefixes_compared: int = 0

    def add(self, other: Tally) -> None:
        """Sum up."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)


class Zygote:
    """A running `tests.reliability.zygote`."""

    def __init__(self) -> None:
        self.stderr = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `close`)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.reliability.zygote"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.stderr,
            text=True,
            cwd=ROOT,
        )
        assert self._line() == "ready"

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def live(self, order: dict[str, object], plan: Plan, heard: Callable[[str], None]) -> list[list[str]]:
        """One life as planned; `heard` is told each word."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        answer = self._line().split()
        while answer[:1] != ["pid"]:
            assert answer, "the zygote is gone"
            answer = self._line().split()
        pid = int(answer[1])
        messages: list[list[str]] = []
        timer: threading.Timer | None = None
        guard = threading.Timer(GUARD_S, _kill, (pid,))
        guard.start()
        if not plan.kill_after:
            timer = threading.Timer(plan.patience, _kill, (pid,))
            timer.start()
        while (words := self._line().split()) != ["gone"]:
            assert words, "the zygote is gone"
            heard(words[0])
            messages.append(words)
            if words[0] == plan.kill_after and timer is None:
                timer = threading.Timer(plan.patience, _kill, (pid,))
                timer.start()
        for started in (guard, timer):
            if started is not None:
                started.cancel()
        return messages

    def close(self) -> None:
        """End it."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(20)
        self.stderr.seek(0)
        text = self.stderr.read()
        self.stderr.close()
        assert not text, f"on the student's screen: {text.decode(errors='replace')[:2000]}"


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


class Troubles:
    """What the cluster suffers while a life goes on; the other lanes suffer with it."""

    def __init__(self, cluster: Cluster, chooser: random.Random, tally: Tally) -> None:
        self.cluster, self.chooser, self.tally = cluster, chooser, tally

    def strike(self) -> list[threading.Thread]:
        """Order signals now and then, and start at most one of the greater troubles; the threads to wait for."""
        if self.chooser.random() < 0.6:
            self._order_a_signal()
        acts = (
            (0.004, self._reboot),
            (0.012, functools.partial(self._freeze, self.chooser.uniform(1, 12))),
            (0.004, functools.partial(self._freeze, 12 * (200 / 12) ** self.chooser.random())),
            (0.010, functools.partial(self._kill, "munged", self.chooser.uniform(0.2, 6))),
            (0.010, functools.partial(self._kill, "slurmdbd", self.chooser.uniform(0.2, 20))),
        )
        luck, wait_s = self.chooser.random(), self.chooser.uniform(0, 1.5)
        for share, act in acts:
            if luck < share:
                thread = threading.Timer(wait_s, act)
                thread.start()
                return [thread]
            luck -= share
        return []

    def _order_a_signal(self) -> None:
        name = self.chooser.choice(("sbatch", "sbatch", "sbatch", "squeue", "sacct"))
        place = self.cluster.outside(f"{self.cluster.settings.home}/faults")
        order = f"{self.chooser.choice(SIGNALS)} {self.chooser.uniform(0, 0.04):.3f}\n"
        with suppress(OSError):
            (place / f"{name}.{self.chooser.randrange(1 << 30):x}").write_text(order)

    def _reboot(self) -> None:
        with REBOOTING:
            self.tally.troubles["login node rebooted"] += 1
            self.cluster.kill_logins()
            deadline = time.monotonic() + 240
            while not self._sshd_answers():
                assert time.monotonic() < deadline, "sshd does not come back"
                self.cluster.start_sshd()
                time.sleep(0.2)

    def _sshd_answers(self) -> bool:
        student = self.cluster.student
        try:
            with socket.create_connection((student.host, student.port), timeout=5) as line:
                return line.recv(4) == b"SSH-"
        except OSError:
            return False

    def _freeze(self, seconds: float) -> None:
        with FREEZING:
            self.tally.troubles["slurmctld frozen"] += 1
            self.tally.frozen_s += seconds
            self.cluster.daemon("slurmctld", "pause")
            time.sleep(seconds)
            self.cluster.daemon("slurmctld", "resume")

    def _kill(self, name: str, seconds: float) -> None:
        with FREEZING:
            self.tally.troubles[f"{name} killed"] += 1
            self.cluster.daemon(name, "kill")
            time.sleep(seconds)
            self.cluster.daemon(name, "start")
            self.cluster.as_root("scontrol", "update", "NodeName=ALL", "State=RESUME")


def wrap_programs(cluster: Cluster) -> None:
    """Let the student's Slurm programs execute the orders of `Troubles`."""
    place = cluster.outside(f"{cluster.settings.home}/faults")
    place.mkdir(exist_ok=True)
    place.chmod(0o777)
    for name in ("sbatch", "squeue", "sacct"):
        cluster.wrap_program(name, SIGNALLED.format(name=name))


def signals_sent(cluster: Cluster) -> Counter[str]:
    """How many signals met each program so far."""
    log = cluster.outside(f"{cluster.settings.home}/faults/log")
    return Counter(line.split()[0] for line in log.read_text().splitlines()) if log.exists() else Counter()


class Lane:
    """One lab folder after the other; several lanes share a cluster."""

    def __init__(self, cluster: Cluster, place: Path, seed: str, *, cluster_faults: bool) -> None:
        self.cluster, self.place, self.seed = cluster, place, seed
        self.chooser = random.Random(seed)
        self.cluster_faults = cluster_faults
        self.tally = Tally()
        self.troubles = Troubles(cluster, self.chooser, self.tally)
        self._fault: Fault | None = None
        self._found: list[BaseException] = []

    def run(self, rounds: int) -> Tally:
        """So many lives."""
        student = self.cluster.student
        zygote, self._guest = Zygote(), Zygote()
        try:
            with AimedProxy((student.host, student.port), lambda _: self._fault) as proxy:
                for number, first in enumerate(range(0, rounds, LIVES)):
                    folder = make_lab(self.place / f"{self.seed}-{number}", student, proxy.port)
                    try:
                        self._folder(folder, zygote, proxy, min(LIVES, rounds - first))
                    except BaseException as error:
                        raise AssertionError(f"lane seed {self.seed!r}, folder {number}: {error}") from error
        finally:
            zygote.close()
            self._guest.close()
        return self.tally

    def _folder(self, folder: LabFolder, zygote: Zygote, proxy: AimedProxy, lives: int) -> None:
        shown: dict[str, str] = {}
        for _ in range(lives):
            self._life(folder, zygote, proxy, shown)
            self._check_after_a_life(folder, shown)
        self._settle(folder)
        self._accounts(folder, shown)

    # ------------------------------------------------------------------ lives

    def _life(self, folder: LabFolder, zygote: Zygote, proxy: AimedProxy, shown: dict[str, str]) -> None:
        chooser, tally = self.chooser, self.tally
        plan = Plan.random(chooser)
        self._fault = plan.fault
        tally.rounds += 1
        struck_before = len(proxy.faults_struck)
        jobs = [chooser.choice((0, 10, 3000, 40_000)) for _ in range(chooser.choice((0, 1, 1, 1, 2)))]
        order = {"path": str(folder.path), "account": self.cluster.settings.account, "jobs": jobs}
        threads = self.troubles.strike() if self.cluster_faults else []
        threads += self._beside(folder, order, shown) if self.cluster_faults else []

        def heard(word: str) -> None:
            if word == "sending" and plan.aimed is not None:
                proxy.aim(plan.aimed)

        self._note(zygote.live(order, plan, heard), shown)
        for thread in threads:
            thread.join()
        tally.killed += 1
        tally.killed_after[plan.kill_after or "any moment"] += 1
        tally.faults_struck.update(fault.kind for fault in proxy.faults_struck[struck_before:])
        proxy.cut()
        self._fault = None

    def _note(self, messages: list[list[str]], shown: dict[str, str]) -> None:
        for words in messages:
            assert words[0] != "error", f"labtui ended by itself: {words}"
            if words[0] in ("planned", *SubmissionStatus):
                token, job_id = words[1], words[2] if len(words) > 2 else ""
                shown[token] = job_id or shown.get(token, "")
            elif words[0] in ("taken", "read-only", "copy-read-only", "copy-written", "copy-damaged"):
                self.tally.troubles[words[0]] += 1

    def _beside(
        self, folder: LabFolder, order: dict[str, object], shown: dict[str, str]
    ) -> list[threading.Thread]:
        """Now and then a second process: in the same folder, whose lock was removed, or in a copy of it."""
        luck, chooser = self.chooser.random(), self.chooser
        if luck >= 0.12:
            return []
        plan = Plan(None, None, "", chooser.uniform(0.3, 2.5))
        wait_s = chooser.uniform(0.1, 1.0)

        def same_folder() -> None:
            time.sleep(wait_s)
            folder.lock_path.unlink(missing_ok=True)
            if luck >= 0.06:  # removed, and nobody else comes
                self.tally.troubles["lock removed"] += 1
                return
            self.tally.troubles["two processes"] += 1
            self._note(self._guest.live({**order, "jobs": [10]}, plan, lambda _: None), shown)

        if luck < 0.06:
            order["beside"] = True

        def copy() -> None:
            time.sleep(wait_s)
            place = folder.path.with_name(f"{folder.path.name}-copy")
            with suppress(shutil.Error, OSError):  # files come and go while it works
                shutil.copytree(folder.path, place)
            self.tally.troubles["copies"] += 1
            if (place / "labtui.db").exists():
                text = self._guest.live({"path": str(place), "copy": True}, plan, lambda _: None)
                self._note(text, {})
                assert ["copy-written"] not in text, "a copy was written"
            shutil.rmtree(place, ignore_errors=True)

        thread = threading.Thread(target=self._kept(copy if luck >= 0.08 else same_folder))
        thread.start()
        return [thread]

    def _kept(self, work: Callable[[], None]) -> Callable[[], None]:
        """What a thread finds wrong is raised where the accounts are made."""

        def run() -> None:
            try:
                work()
            except BaseException as error:
                self._found.append(error)

        return run

    # ------------------------------------------------------------------ what must hold

    def _check_after_a_life(self, folder: LabFolder, shown: dict[str, str]) -> None:
        if self._found:
            raise self._found[0]
        state = stored_state(folder)
        for token, job_id in shown.items():
            assert token in state.submissions, f"{token} was shown and is not stored"
            if job_id:
                job = state.submissions[token].job
                assert job is not None, f"{token}: job {job_id} was shown and is not stored"
                assert job.job_id == job_id, f"{token}: {job_id} was shown, {job.job_id} is stored"
        for submission in state.submissions.values():
            assert submission.status is not SubmissionStatus.REFUSED, submission.sentence
            self._check_prefix(folder, submission)

    def _check_prefix(self, folder: LabFolder, submission: SubmissionState) -> None:
        for stream in ("out", "err"):
            mirror = mirrors.current_path(folder, submission, stream)
            remote = mirrors.remote_path(submission, stream)
            if mirror is None or remote is None or not mirror.exists():
                continue
            local = mirror.read_bytes()
            self.tally.prefixes_compared += 1
            assert self._remote(remote)[: len(local)] == local, f"{mirror.name} is no prefix"

    def _remote(self, path: str) -> bytes:
        """A remote log; empty when its job never made one, as when slurmd could not start it."""
        place = self.cluster.outside(path)
        return place.read_bytes() if place.exists() else b""

    def _settle(self, folder: LabFolder) -> None:
        deadline = time.monotonic() + SETTLE_S
        with Session.open(folder.path) as session:
            assert not session.read_only
            session.watch_logs(set(session.state.submissions))
            while not all(complete(item) for item in session.state.submissions.values()):
                assert time.monotonic() < deadline, f"not settled: {session.state}"
                time.sleep(0.2)

    def _accounts(self, folder: LabFolder, shown: dict[str, str]) -> None:
        tally, state = self.tally, stored_state(folder)
        jobs = self._jobs_by_token(set(state.submissions))
        assert set(shown) <= set(state.submissions)
        for token, submission in state.submissions.items():
            found = jobs.get(token, [])
            tally.intents += 1
            tally.jobs += len(found)
            tally.duplicates += max(0, len(found) - 1)
            tally.lost += not found
            assert submission.status is SubmissionStatus.ACCEPTED, f"{token}: {submission}"
            assert submission.job is not None
            assert found == [submission.job.job_id], (
                f"{token}: jobs {found}, known {submission.job.job_id}, of which accounting says "
                f"{self._said_of(submission.job.job_id)}"
            )
            control = self.cluster.outside(submission.remote_dir) / ".labtui"
            tally.looked_up += len(list(control.glob("attempt-*"))) > 1
            for stream in ("out", "err"):
                self._check_equal(folder, submission, stream)

    def _check_equal(self, folder: LabFolder, submission: SubmissionState, stream: str) -> None:
        mirror = mirrors.current_path(folder, submission, stream)  # type: ignore[arg-type]
        remote = mirrors.remote_path(submission, stream)  # type: ignore[arg-type]
        assert mirror is not None
        assert remote is not None
        assert mirrors.current_segment(submission, stream) == 0, "nothing was truncated"  # type: ignore[arg-type]
        expected = self._remote(remote)
        assert (mirror.read_bytes() if mirror.exists() else b"") == expected, mirror.name
        self.tally.mirrors += 1
        self.tally.mirror_bytes += len(expected)

    def _jobs_by_token(self, wanted: set[str]) -> dict[str, list[str]]:
        """By the comment in accounting, which nothing of labtui writes but sbatch; it may be late, or down just now."""
        ask = ("sacct", "-a", "-X", "-n", "-P", "-S", "2020-01-01", "-o", "JobIDRaw,Comment")
        deadline = time.monotonic() + 360
        while True:
            done = self.cluster.as_root(*ask)
            jobs: dict[str, list[str]] = {}
            for line in done.out.splitlines():
                job_id, _, comment = line.partition("|")
                jobs.setdefault(comment.removeprefix("labtui:"), []).append(job_id)
            if (done.status == 0 and wanted <= jobs.keys()) or time.monotonic() > deadline:
                return jobs
            time.sleep(1)

    def _said_of(self, job_id: str) -> str:
        ask = ("sacct", "-n", "-P", "-j", job_id, "-o", "JobIDRaw,JobName,State,Submit,End,Comment")
        return self.cluster.as_root(*ask).out


def stored_state(folder: LabFolder) -> LabState:
    """What the folder says, read without a lane; as the next process would open it, whenever the last was killed."""
    store = Store(folder.database_path)
    try:
        return reduce_all(LabState(), store.events())
    finally:
        store.close()


def campaign(
    cluster: Cluster,
    place: Path,
    seeds: Sequence[int],
    rounds: int,
    lanes: int,
    *,
    cluster_faults: bool = False,
) -> Tally:
    """So many lives for each seed, in so many lanes each; the total. Raises AssertionError with the lane's seed."""
    total, each = Tally(), -(-rounds // lanes)
    before: Counter[str] = Counter()
    if cluster_faults:
        wrap_programs(cluster)
        before = signals_sent(cluster)
    workers = [
        Lane(cluster, place, f"{seed}.{n}", cluster_faults=cluster_faults)
        for seed in seeds
        for n in range(lanes)
    ]
    with ThreadPoolExecutor(len(workers)) as pool:
        for future in [pool.submit(worker.run, each) for worker in workers]:
            total.add(future.result())
    total.troubles.update({f"{name} signalled": n for name, n in (signals_sent(cluster) - before).items()})
    return total


def main() -> None:
    """The campaign by hand."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rounds", type=int)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--lanes", type=int, default=12)
    args = parser.parse_args()
    print(f"seed {args.seed}", flush=True)
    batch, done, total, began = 20 * args.lanes, 0, Tally(), time.monotonic()
    cluster = Cluster.start(settings=ClusterSettings(min_job_age_s=20))
    try:
        with tempfile.TemporaryDirectory() as place:
            for number in range(-(-args.rounds // batch)):
                seed = args.seed + number
                rounds = min(batch, args.rounds - done)
                part = campaign(cluster, Path(place), (seed,), rounds, args.lanes, cluster_faults=True)
                total.add(part)
                done += part.rounds
                print(f"{time.monotonic() - began:.0f} s, batch seed {seed}: {total}", flush=True)
    finally:
        cluster.down()


if __name__ == "__main__":
    main()
