"""A lab folder without a cluster: a real session and store, fed with what a worker would have seen.

Used by the screen tests and by the script that makes the pictures in `docs/pictures`.
"""

from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from labtui.domain import model as records
from labtui.domain.state import Change
from labtui.session.folder import LabFolder
from labtui.session.session import Session
from labtui.session.settings import Settings
from tests import changes

NOW = 1_763_715_600.0
HOST = "login.rehearsal.test"
PROFILE = Path(__file__).with_name("profile.toml").read_text(encoding="utf-8")


class FrozenClock:
    """A clock that always shows the same time."""

    def wall(self) -> float:
        return NOW

    def steady(self) -> float:
        return 1000.0


class FedSession(Session):
    """A session with the test as its worker: `feed` makes changes, and the test answers the requests in `requests`."""

    requests: list[tuple[str, Any, Future[Any]]]
    overridden: tuple[tuple[records.AcceptedFinding, ...], ...] = ()

    def start(self) -> None:
        """Do nothing, since there is no cluster."""

    def feed(self, *news: Change) -> None:
        """Make changes as if the worker had seen them."""
        self._journal.change(*news)

    def keep(self) -> None:
        """Store the runs as if they had been read from the logs, so that another process finds them, too."""
        items = [item for item in self.state.submissions.values() if item.job is not None]
        self._store.write_readings(self.state, {item.token: self.readings._source(item) for item in items})

    def close(self, timeout_s: float = 1.0) -> None:
        if not self.read_only and not self._closed:
            self.keep()
        super().close(timeout_s)

    def _ask(self, name: str, what: Any) -> Future[Any]:
        future: Future[Any] = Future()
        if not hasattr(self, "requests"):
            self.requests = []
        self.requests.append((name, what, future))
        return future

    def submit(
        self, draft: records.SubmissionDraft, *, script: str | None = None,
        accepted: Sequence[records.AcceptedFinding] = (),
    ) -> Future[str]:  # fmt: skip
        self.overridden = (*self.overridden, tuple(accepted))
        return self._ask("submit", (draft, script))

    def test_only(self, draft: records.SubmissionDraft, *, script: str | None = None) -> Future[Any]:
        return self._ask("test-only", draft)

    def cancel(self, run_id: int) -> Future[None]:
        return self._ask("cancel", run_id)

    def end_after(self, run_id: int, minutes: int) -> Future[None]:
        return self._ask("end-after", (run_id, minutes))

    def refresh(self) -> None:
        self._ask("refresh", None)


def make_folder(path: Path, edition: str = "hpc4ai-ch10", *, practice: bool = False) -> LabFolder:
    """A lab folder with the profile of the tests."""
    settings = Settings(edition=edition, profile="tests.toml", user="nct01001", account="nct_345")
    path.mkdir(parents=True, exist_ok=True)
    (path / "tests.toml").write_text(PROFILE.replace("generic", "practice") if practice else PROFILE)
    return LabFolder.create(path, settings, wanted=lambda of: not of.startswith(("pytorch/", "tensorflow/")))


def open_session(path: Path, *, start: bool = True) -> FedSession:
    """Open a folder as a `FedSession`."""
    return FedSession.open(path, start=start, clock=FrozenClock())  # type: ignore[return-value]


def spec(model: str = "ResNet50", gpus: int = 1, *, batch: int = 2048, epochs: int = 5) -> records.RunSpec:
    """A run with a constant per-GPU batch; 0 GPUs is the CPU."""
    if gpus == 0:
        return records.RunSpec(
            model=model, device="cpu", n_gpus=0, batch_size=256, epochs=2, script=f"{model}_seq.py"
        )
    return records.RunSpec(
        model=model, device="gpu", n_gpus=gpus, batch_size=batch * gpus, epochs=epochs,
        script=f"{model}.py", learning_rate=0.01 * gpus,
    )  # fmt: skip


def planned(
    token: str, task: str, run_id: int, what: records.RunSpec, at: float = NOW - 4000, **more: Any
) -> Change:
    """A submission with one run; `more` are fields of the submission."""
    name = f"{what.model}-{what.n_gpus}gpu-{token[-6:]}"
    values = {
        "task_id": task, "form": "job-per-size" if what.n_gpus else "cpu", "job_name": name,
        "account": "nct_345", "qos": "acc_debug", "gpus": what.n_gpus, "cpus": 20 * max(1, what.n_gpus),
        "time_limit_minutes": 30, "script_file": f"slurm/{name}.slurm", "remote_dir": f"labtui/{token}",
        "remote_logs": {"out": f"labtui/{token}/{name}.%j.out", "err": f"labtui/{token}/{name}.%j.err"},
    }  # fmt: skip
    return changes.planned(token, {run_id: what}, at, **{**values, **more})


def accepted(token: str, job_id: str, at: float = NOW - 3900) -> Change:
    return changes.accepted(token, job_id, at)


def observed(token: str, job_id: str, phase: records.JobPhase, at: float = NOW - 60, **more: Any) -> Change:
    return changes.observed(token, job_id, phase, seen_at=at, evidence="squeue", **more)


def epoch(
    run_id: int, number: int, seconds: float, half: float = 0.013, *, steps: int = 25, accuracy: float = 0.2
) -> Change:
    sample = records.EpochSample(
        epoch=number, seconds=records.Interval.around(seconds, half), printed_seconds=round(seconds), steps=steps,
        ms_per_step=round(seconds / steps * 1000),
        metrics={"loss": 2.2 - 0.05 * number, "accuracy": accuracy + 0.01 * number}, line=4 + 2 * number,
    )  # fmt: skip
    return changes.epoch(run_id, sample)


TIMES = {0: (220.0, 215.0), 1: (29.0, 13.60), 2: (31.0, 8.10), 4: (47.0, 5.376), 8: (49.0, 3.072)}
STEPS = {0: 196, 1: 25, 2: 13, 4: 7, 8: 4}


def finished_run(
    token: str, task: str, run_id: int, what: records.RunSpec, job_id: str, *, practice: bool = False,
    outcome: records.Outcome = "completed",
) -> list[Change]:  # fmt: skip
    """All changes of a run, from plan to end."""
    first, rest = TIMES[what.n_gpus]
    half = 0.0005 * STEPS[what.n_gpus] if what.n_gpus else 0.5
    factor = 2.4 if what.model == "ResNet152" else 1.0
    news: list[Change] = [
        planned(token, task, run_id, what, practice=practice), accepted(token, job_id),
        changes.started(run_id, images=50_000, framework="Keras"),
    ]  # fmt: skip
    times = enumerate([first, *[rest] * what.epochs][: what.epochs], 1)
    news += [epoch(run_id, n, took * factor, half, steps=STEPS[what.n_gpus]) for n, took in times]
    news.append(changes.ended(run_id, outcome))
    news.append(observed(
        token, job_id, records.JobPhase.FINISHED, NOW - 1900, slurm_state="COMPLETED", start_time=NOW - 2000,
        end_time=NOW - 1700, elapsed_s=300.0, exit_code="0:0", node="as01r1b04",
    ))  # fmt: skip
    return news


def finished_runs(task: str, runs: Iterable[records.RunSpec]) -> list[Change]:
    """All changes of runs 1, 2, … of a task, as jobs 31331, 31332, …"""
    numbered = enumerate(runs, 1)
    return [news for n, run in numbered for news in finished_run(f"lt{n}", task, n, run, str(31330 + n))]


def live_run(
    token: str, task: str, run_id: int, what: records.RunSpec, job_id: str, epochs: int, *, practice: bool = False
) -> list[Change]:  # fmt: skip
    """The changes of a run that has finished some of its epochs."""
    first, rest = TIMES[what.n_gpus]
    news: list[Change] = [
        planned(token, task, run_id, what, practice=practice), accepted(token, job_id),
        observed(token, job_id, records.JobPhase.RUNNING, NOW - 2, slurm_state="RUNNING", start_time=NOW - 95,
                 elapsed_s=93.0, time_limit_s=1800.0, node="as01r1b04"),
        changes.started(run_id, images=50_000, framework="Keras"),
    ]  # fmt: skip
    size = {"half": 0.0005 * STEPS[what.n_gpus], "steps": STEPS[what.n_gpus]}
    return news + [epoch(run_id, n, rest if n > 1 else first, **size) for n in range(1, epochs + 1)]


def online(at: float = NOW - 2) -> list[Change]:
    return [changes.connection("online", host=HOST), changes.refreshed(at, at)]


def log_text(what: records.RunSpec, epochs: int) -> str:
    """The log of such a run, as the lab's scripts print it."""
    first, rest = TIMES[what.n_gpus]
    steps = STEPS[what.n_gpus]
    lines = [
        "### ResNet training on CIFAR-10, 128x128",
        f"model: {what.model}V2   GPUs: {what.n_gpus}   global batch: {what.batch_size}   "
        f"per GPU: {what.per_gpu_batch}",
        f"learning rate: {what.learning_rate}   epochs: {what.epochs}",
        "",
    ]
    for number in range(1, epochs + 1):
        seconds = first if number == 1 else rest
        lines.append(f"Epoch {number}/{what.epochs}")
        lines.append(
            f"{steps}/{steps} - {seconds:.0f}s - loss: {2.2 - 0.05 * number:.4f} - accuracy: {0.2 + 0.01 * number:.4f}"
            f" - {seconds:.0f}s/epoch - {seconds / steps * 1000:.0f}ms/step"
        )
    return "\n".join(lines) + "\n"


def write_log(session: FedSession, token: str, text: str, stream: str = "out") -> Path:
    """Append text to the mirror of a submission's log, and record that it grew."""
    submission = session.state.submissions[token]
    path = session.folder.path / submission.mirror(stream)  # type: ignore[arg-type]
    with path.open("ab") as file:
        file.write(text.encode())
    session.feed(changes.grown(token, path.stat().st_size, stream))
    return path


def lab_session(session: FedSession, *, practice: bool = False) -> None:
    """Feed half a lab: the CPU run done, two of three sizes measured, the third running, and another run waiting."""
    session.feed(*finished_run("lt000000000000000aaa", "10.3", 1, spec(gpus=0), "31330", practice=practice))
    session.feed(*finished_run("lt000000000000000bbb", "10.5", 2, spec(gpus=1), "31335", practice=practice))
    session.feed(*finished_run("lt000000000000000ccc", "10.5", 3, spec(gpus=2), "31336", practice=practice))
    session.feed(*live_run("lt000000000000000ddd", "10.5", 4, spec(gpus=4), "31337", 3, practice=practice))
    waiting = planned("lt000000000000000eee", "10.6", 5, spec("ResNet152", 1, batch=1024), practice=practice)
    told = records.SubmissionStatus.WAITING, "acc_debug takes one job per user"
    session.feed(waiting, changes.status("lt000000000000000eee", *told), *online())
    for token, gpus, count in (("bbb", 1, 5), ("ccc", 2, 5), ("ddd", 4, 3)):
        write_log(session, f"lt000000000000000{token}", log_text(spec(gpus=gpus), count))
