"""Exactly once, whatever is cut or killed: random faults against a real sshd and a real Slurm.

``python -m tests.session.campaign N [--seed S] [--kill-only]`` runs N rounds on a cluster of its own. In each
round one process submits through a TCP proxy that cuts, resets, stalls, delays or throttles the connection at a
random byte, and is killed with SIGKILL at a random moment; then an undisturbed process opens the same lab folder.
In the end there must be exactly one job with the token of every stored intent, and the folder must know its id;
every mirror must equal its remote file. A seed that ever failed belongs into ``SEEDS`` of ``test_exactly_once``.
"""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from labtui.domain.events import SubmissionChanged
from labtui.domain.model import JobPhase, RunSpec, SubmissionDraft, SubmissionStatus
from labtui.session.folder import LabFolder
from labtui.session.session import Session, Update
from labtui.session.settings import Settings
from labtui.slurm.job_script import with_started_guard
from tests.real_cluster import Cluster, ClusterSettings, FaultProxy, Student
from tests.real_cluster.proxy import Fault

SCRIPT = with_started_guard("""#!/bin/bash
#SBATCH --account={account}
#SBATCH --qos=gp_training
#SBATCH --time=00:05:00
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=1
#SBATCH --output=%x.%j.out
#SBATCH --error=%x.%j.err
echo "hello from $SLURM_JOB_NAME"
seq 1 {lines}
printf 'no newline at the end'
""")
"""A small job, to be filled in with `str.format`; it goes on only as the first of its submission."""
ROOT = Path(__file__).resolve().parents[2]


def make_lab(path: Path, student: Student, port: int) -> LabFolder:
    """A lab folder whose connection goes through the proxy."""
    settings = Settings(
        edition="hpc4ai-ch10",
        profile="mn5",
        host="127.0.0.1",
        port=port,
        user=student.user,
        identity=str(student.key),
        host_key=student.host_key,
        account=student.account,
        root=f"{student.scratch}/labtui-{path.name}",
    )
    return LabFolder.create(path, settings)


def draft(account: str) -> SubmissionDraft:
    """A small job in a queue without a limit of submitted jobs."""
    spec = RunSpec(model="ResNet50", device="cpu", n_gpus=0, batch_size=8, epochs=1, script="ResNet50_seq.py")
    return SubmissionDraft(
        task_id="10.3",
        form="cpu",
        runs=(spec,),
        gpus=0,
        cpus=1,
        time_limit_minutes=5,
        account=account,
        qos="gp_training",
        job_name="once",
    )


def worker(path: str, account: str, lines: str) -> None:
    """The process that will be disturbed and killed."""
    session = Session.open(path, start=False)

    def tell(update: Update) -> None:
        for event in update.events:
            if isinstance(event, SubmissionChanged):
                print(event.status.value, flush=True)

    session.subscribe(tell)
    print("ready", flush=True)
    sys.stdin.readline()
    session.start()
    future = session.submit(draft(account), script=SCRIPT.format(account=account, lines=lines))
    print("stored", flush=True)
    future.result(timeout=240)
    session.close()


@dataclass
class Tally:
    """What a campaign did and found."""

    rounds: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    killed: int = 0
    accepted_at_once: int = 0
    unknown_after_kill: int = 0
    looked_up: int = 0
    seconds: float = 0.0


@dataclass
class Campaign:
    """Rounds against one cluster and one lab folder."""

    cluster: Cluster
    path: Path
    chooser: random.Random
    kill_only: bool = False
    tally: Tally = field(default_factory=Tally)

    def run(self, rounds: int) -> Tally:
        """All rounds, then the accounts."""
        began = time.monotonic()
        student = self.cluster.student
        self._fault: Fault | None = None
        with FaultProxy((student.host, student.port), lambda _: self._fault) as proxy:
            folder = make_lab(self.path, student, proxy.port)
            for number in range(rounds):
                if number and number % 50 == 0:
                    print(self.tally, flush=True)
                self._disturbed(folder, student, proxy)
                proxy.cut()
                self._undisturbed(folder)
            self._check_logs(folder)
        self._check_jobs(folder)
        self.tally.seconds = time.monotonic() - began
        return self.tally

    def _disturbed(self, folder: LabFolder, student: Student, proxy: FaultProxy) -> None:
        self.tally.rounds += 1
        self._fault = None if self.kill_only or self.chooser.random() < 0.25 else Fault.random(self.chooser)
        self.tally.faults[self._fault.kind if self._fault else "none"] += 1
        command = [
            sys.executable,
            "-m",
            "tests.session.campaign",
            "--worker",
            str(folder.path),
            student.account,
        ]
        command.append(str(self.chooser.choice((0, 10, 3000))))
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
        )
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.stdin.write("\n")
        process.stdin.flush()
        text = self._let_live(process)
        self._said_stored = "stored" in text
        self.tally.accepted_at_once += "accepted" in text
        self._fault = None

    def _let_live(self, process: subprocess.Popen[str]) -> set[str]:
        """Kill it at a random moment: any, or shortly after it stored that it is about to send."""
        aimed = self.chooser.random() < 0.5
        patience = self.chooser.uniform(0, 0.12) if aimed else self.chooser.uniform(0, 1.5)
        messages: set[str] = set()
        sending = threading.Event()

        def listen() -> None:
            assert process.stdout is not None
            for line in process.stdout:
                messages.add(line.strip())
                if line.strip() == "sending":
                    sending.set()

        listener = threading.Thread(target=listen)
        listener.start()
        if aimed:
            sending.wait(6)
        try:
            process.wait(timeout=patience)
        except subprocess.TimeoutExpired:
            self.tally.killed += 1
            process.send_signal(signal.SIGKILL)
            process.wait()
        listener.join()
        return messages

    def _undisturbed(self, folder: LabFolder) -> None:
        with Session.open(folder.path, start=False) as session:
            assert not session.read_only, "the killed process still holds the lock"
            statuses = Counter(item.status for item in session.state.submissions.values())
            unknown = statuses[SubmissionStatus.SENDING] + statuses[SubmissionStatus.UNKNOWN]
            self.tally.unknown_after_kill += unknown
            known = len(session.state.submissions)
            assert known <= self.tally.rounds
            assert not self._said_stored or known >= 1
            session.start()
            deadline = time.monotonic() + 900
            while not all(
                item.status is SubmissionStatus.ACCEPTED for item in session.state.submissions.values()
            ):
                assert time.monotonic() < deadline, f"not settled: {session.state}"
                time.sleep(0.02)

    def _check_logs(self, folder: LabFolder) -> None:
        """Every job ends, and every mirror is its remote file."""
        with Session.open(folder.path) as session:
            deadline = time.monotonic() + 900
            while not all(_complete(item) for item in session.state.submissions.values()):
                assert time.monotonic() < deadline, "logs were not read to their ends"
                time.sleep(0.2)
            for token, item in session.state.submissions.items():
                mirror = session.log_path(token, "out")
                assert mirror is not None, token
                remote = self.cluster.outside(item.remote_logs["out"].replace("%j", item.job.job_id))
                assert mirror.read_bytes() == remote.read_bytes(), token

    def _check_jobs(self, folder: LabFolder) -> None:
        done = self.cluster.as_root(
            "sacct",
            "-a",
            "-X",
            "-n",
            "-P",
            "-S",
            "2020-01-01",
            "-o",
            "JobIDRaw,JobName",
            "--name",
            ",".join(_names(folder)),
        )
        rows = [line.split("|") for line in done.out.splitlines()]
        by_name = Counter(name for _, name in rows)
        ids = {name: job_id for job_id, name in rows}
        with Session.open(folder.path, start=False) as session:
            for item in session.state.submissions.values():
                assert by_name[item.job_name] == 1, f"{item.token}: {by_name[item.job_name]} jobs"
                assert ids[item.job_name] == item.job.job_id, item.token
            directories = list(self.cluster.outside(f"{session.settings.root}/hpc4ai-ch10").glob("lt*"))
            self.tally.looked_up = sum(
                len(list(place.glob(".labtui/attempt-*"))) > 1 for place in directories
            )
        assert len(by_name) == sum(by_name.values())


def _names(folder: LabFolder) -> list[str]:
    with Session.open(folder.path, start=False) as session:
        return [item.job_name for item in session.state.submissions.values()]


def _complete(item) -> bool:
    if item.job is None or item.job.phase is not JobPhase.FINISHED:
        return False
    return all(stream in item.logs and item.logs[stream].complete for stream in item.remote_logs)


def main() -> None:
    """The campaign by hand."""
    if sys.argv[1:2] == ["--worker"]:
        worker(*sys.argv[2:])
        return
    import tempfile

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rounds", type=int)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--kill-only", action="store_true", help="no faults on the line")
    args = parser.parse_args()
    print(f"seed {args.seed}", flush=True)
    cluster = Cluster.start(settings=ClusterSettings(min_job_age_s=20))
    try:
        with tempfile.TemporaryDirectory() as folder:
            campaign = Campaign(cluster, Path(folder) / "lab", random.Random(args.seed), args.kill_only)
            print(campaign.run(args.rounds))
    finally:
        cluster.down()


if __name__ == "__main__":
    main()
