"""Check that memory, threads and file descriptors do not grow while jobs come and go and the screens are open.

`python benchmarks/soak.py [--minutes 20]`: the practice cluster runs in a process of its own (`labtui practice
--serve`), the screens run headless in this one. About every six seconds a job is sent; it writes 2,000 lines of log and
ends up to three seconds later; every fifth one is cancelled. Meanwhile the panes are switched. Prints, as JSON, what
both processes held in the second and the last fifth of the time. Exit status 1 if they have grown: memory by more than
a tenth and the records of the new jobs; threads and descriptors by more than the few that come and go with a connection
or a question to the cluster.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks._budgets import Budget, verdict

if TYPE_CHECKING:
    from labtui.session.session import Session

EVERY = 5
"""Samples between two jobs; they are a second apart."""
LOOSE = 4
"""By how much the numbers of threads and descriptors may vary."""
SCRIPT = """#!/bin/bash
#SBATCH --account={account}
#SBATCH --qos=gp_training
#SBATCH --time=00:05:00
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=1
#SBATCH --output=%x.%j.out
#SBATCH --error=%x.%j.err
seq 1 {lines}
sleep {seconds}
"""
PER_JOB_MB = 0.02
"""Memory that a job may take permanently: its state and its rows."""


@dataclass
class Samples:
    """One value per second: memory, threads and descriptors of the screens' and the cluster's process; jobs."""

    memory_mb: list[float] = field(default_factory=list)
    threads: list[float] = field(default_factory=list)
    descriptors: list[float] = field(default_factory=list)
    cluster_mb: list[float] = field(default_factory=list)
    cluster_threads: list[float] = field(default_factory=list)
    cluster_descriptors: list[float] = field(default_factory=list)
    jobs: list[int] = field(default_factory=list)
    finished: list[int] = field(default_factory=list)

    def take(self, cluster_pid: int, session: Session) -> None:
        """Take one sample of each value."""
        for pid, prefix in (("self", ""), (str(cluster_pid), "cluster_")):
            status = (Path("/proc") / pid / "status").read_text(encoding="ascii").splitlines()
            words = dict(line.split(":", 1) for line in status)
            getattr(self, prefix + ("mb" if prefix else "memory_mb")).append(
                int(words["VmRSS"].split()[0]) / 1024
            )
            getattr(self, f"{prefix}threads").append(int(words["Threads"]))
            getattr(self, f"{prefix}descriptors").append(len(list((Path("/proc") / pid / "fd").iterdir())))
        jobs = [submission.job for submission in session.state.submissions.values()]
        self.jobs.append(len(jobs))
        self.finished.append(sum(job is not None and job.phase == "finished" for job in jobs))


@contextlib.contextmanager
def practice(place: Path, factor: float) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A practice cluster in a process of its own, and its lab folder."""
    command = [sys.executable, "-m", "labtui", "practice", "--serve", "--keep", str(place)]
    process = subprocess.Popen([*command, "--factor", f"{factor:g}"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("speed"):
                break
        yield process, place / "lab"
    finally:
        process.terminate()
        process.wait(30)


def submit(session: Session, number: int) -> None:
    """Submit a job, whose log has 2,000 lines."""
    from labtui.domain.model import RunSpec, SubmissionDraft

    account = session.settings.account
    spec = RunSpec(model="ResNet50", device="cpu", n_gpus=0, batch_size=8, epochs=1, script="ResNet50_seq.py")
    draft = SubmissionDraft(
        task_id="10.3",
        form="cpu",
        runs=(spec,),
        gpus=0,
        cpus=1,
        time_limit_minutes=5,
        account=account,
        qos="gp_training",
        job_name="soak",
    )
    session.submit(draft, script=SCRIPT.format(account=account, lines=2000, seconds=number % 7 * 10))


async def soak(lab: Path, cluster_pid: int, seconds: float) -> Samples:
    """Sample the open screens every second while jobs come and go."""
    from labtui.session.session import Session
    from labtui.tui.app import LabApp

    samples = Samples()
    with Session.open(lab, start=False) as session:
        app = LabApp(session)
        async with app.run_test(size=(120, 40)) as pilot:
            while session.state.connection.status != "online":
                await pilot.pause(0.1)
            end = time.monotonic() + seconds
            tick = 0
            while time.monotonic() < end:
                if tick % EVERY == 0:
                    submit(session, tick // EVERY)
                if tick % (5 * EVERY) == 2 * EVERY - 1:
                    session.cancel(max(session.state.runs))
                await pilot.press("]" if tick % 2 else "tab")
                await asyncio.sleep(1)
                samples.take(cluster_pid, session)
                tick += 1
                if tick % 60 == 0:  # the latest values, in case it is interrupted
                    seen = {name: round(values[-1], 1) for name, values in vars(samples).items()}
                    print(json.dumps(seen), file=sys.stderr, flush=True)
    return samples


def flat(samples: Samples) -> dict[str, float]:
    """The values in the second and the last fifth of the time: the most memory, the fewest threads and descriptors.

    Some of the latter come and go with a connection or a question; a leak raises the minimum.
    """
    fifth = max(1, len(samples.jobs) // 5)
    found: dict[str, float] = {}
    for name, values in vars(samples).items():
        held = min if name.endswith(("threads", "descriptors")) else max
        found[f"{name}_began"] = held(values[fifth : 2 * fifth] or values)
        found[f"{name}_ended"] = held(values[-fifth:])
    return found


def budgets(found: dict[str, float]) -> list[Budget]:
    """The budgets for the result of `flat`."""
    jobs = found["jobs_ended"] - found["jobs_began"]
    allowed = 1.1 * found["memory_mb_began"] + PER_JOB_MB * jobs
    return [
        Budget("soak: memory, MB", found["memory_mb_ended"], allowed),
        Budget("soak: jobs not seen to their end", found["jobs_ended"] - found["finished_ended"], 3),
        *(
            Budget(f"soak: {name}", found[f"{name}_ended"], found[f"{name}_began"] + LOOSE)
            for name in ("threads", "descriptors", "cluster_threads", "cluster_descriptors")
        ),
    ]


def main() -> int:
    """Measure and print JSON; return 1 if something grows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument(
        "--factor", type=float, default=20.0, help="the cluster's seconds per second (default 20)"
    )
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as place,
        practice(Path(place) / "kept", arguments.factor) as (cluster, lab),
    ):
        samples = asyncio.run(soak(lab, cluster.pid, arguments.minutes * 60))
    found = flat(samples)
    print(json.dumps({name: round(value, 1) for name, value in found.items()}), flush=True)
    return verdict(budgets(found))


if __name__ == "__main__":
    sys.exit(main())
