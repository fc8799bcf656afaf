"""Lab folders whose session works with a scripted cluster."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from labtui.domain.model import JobPhase, RunSpec, SubmissionDraft
from labtui.session.cluster_worker import ClusterWorker
from labtui.session.folder import LabFolder
from labtui.session.session import Session
from labtui.session.settings import Settings
from labtui.session.worker_context import ask_now
from tests.session.scripted import FakeClock, ScriptedCluster

PROFILE = Path(__file__).with_name("small.toml").read_text(encoding="utf-8")


def draft(n_gpus: int = 1, qos: str = "acc_training", epochs: int = 5, **more: object) -> SubmissionDraft:
    """A submission with one run."""
    size = {"n_gpus": n_gpus, "batch_size": 256 * n_gpus, "epochs": epochs}
    spec = RunSpec(model="ResNet50", device="gpu", script="ResNet50.py", **size)
    form = "one-gpu" if n_gpus == 1 else "job-per-size"
    values: dict[str, object] = {"task_id": "10.5", "form": form, "runs": (spec,), "time_limit_minutes": 30}
    values |= {"account": "nct_000", "qos": qos, "gpus": n_gpus, "cpus": 20 * n_gpus, "job_name": "ResNet50"}
    return SubmissionDraft(**{**values, **more})  # type: ignore[arg-type]


@dataclass
class Bench:
    """A session whose worker the test runs step by step, on a fake clock."""

    path: Path
    clock: FakeClock
    cluster: ScriptedCluster
    session: Session
    worker: ClusterWorker

    def run(self, seconds: float, until: Callable[[], bool] | None = None) -> None:
        """Let the worker work for `seconds` of the fake clock, with pauses; with `until`, no longer than needed."""
        end, at_once = self.clock.now + seconds, 0
        while self.clock.now < end:
            if until is not None and until():
                return
            pause = self.worker.turn()
            at_once = 0 if pause != 0.0 else at_once + 1
            assert at_once < 1000, "the worker has something to do at every moment"
            left = end - self.clock.now
            self.clock.sleep(left if pause is None else min(pause, left))
        if until is not None:
            assert until(), "it did not come to pass"

    def settled(self, future: Future[Any], seconds: float = 5) -> Future[Any]:
        """Let the worker work until a future is done."""
        self.run(seconds, future.done)
        return future

    def mirror(self, token: str) -> bytes:
        """The copy of a submission's standard output; empty if there is none yet."""
        path = self.session.log_path(token, "out")
        return path.read_bytes() if path else b""

    def online(self) -> None:
        self.run(10, lambda: self.session.state.connection.status == "online")


@pytest.fixture
def lab_path(tmp_path: Path) -> Path:
    """A lab folder on disk."""
    (tmp_path / "small.toml").write_text(PROFILE)
    settings = Settings(edition="hpc4ai-ch10", profile=str(tmp_path / "small.toml"))
    return LabFolder.create(tmp_path / "lab", settings).path


@pytest.fixture
def open_bench(lab_path: Path) -> Iterator[Callable[..., Bench]]:
    """A function that opens a bench; a second call acts as the next process, with the same or another cluster."""
    opened: list[Session] = []

    def make(cluster: ScriptedCluster | None = None, clock: FakeClock | None = None) -> Bench:
        clock = clock or (cluster.clock if cluster else FakeClock())
        cluster = cluster or ScriptedCluster(clock)
        session = Session.open(lab_path, start=False, clock=clock)
        opened.append(session)
        session._worker = worker = session._worker_on(cluster)  # type: ignore[arg-type]
        hand_over = lambda done, answer: worker._enqueue(lambda _: done(answer))  # noqa: E731
        worker._context.ask_aside = lambda work, done: ask_now(work, partial(hand_over, done))
        worker.resume()
        return Bench(lab_path, clock, cluster, session, worker)

    yield make
    for session in opened:
        session.close()


@pytest.fixture
def bench(open_bench: Callable[..., Bench]) -> Bench:
    """A bench with an empty folder and a healthy cluster."""
    return open_bench()


def only(bench: Bench):
    """The only submission."""
    (submission,) = bench.session.state.submissions.values()
    return submission


def submitted(bench: Bench, job: SubmissionDraft | None = None, **more: object) -> str:
    """Submit a job until Slurm has accepted it, and return its token; `more` is for `draft`."""
    bench.online()
    return bench.settled(bench.session.submit(job or draft(**more)), 20).result()  # type: ignore[arg-type]


def accepted(bench: Bench, job: SubmissionDraft | None = None, **more: object) -> str:
    """Submit a job until it runs, and return its token; `more` is for `draft`."""
    token = submitted(bench, job, **more)
    bench.cluster.start("100")
    bench.run(40, lambda: only(bench).job.phase is JobPhase.RUNNING)
    return token


def submit_two_runs(bench: Bench) -> None:
    """Submit and start a job with a run on one GPU and a run on two."""
    one = draft(1).runs[0]
    submitted(bench, draft(2, runs=(one, replace(one, n_gpus=2, batch_size=512)), form="one-job"))
    bench.cluster.start("100")
