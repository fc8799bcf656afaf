"""Starts the PyTorch scripts rank by rank, as `srun python` does."""

import os
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import TORCH_PYTHON
from tests.real_cluster.settings import free_ports
from tests.remote.warm import Process, Warm

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "remote" / "pytorch"
TRAIN = str(SCRIPTS / "train_ddp.py")
SMALL = [
    *("--model_name", "custom", "--intermidiate_dimensions", "32", "--dataset", "synthetic", "--resolution", "32"),
    *("--images", "128", "--batch_size", "8", "--device", "cpu", "--rendezvous_timeout", "60"),
]  # fmt: skip
"""A training of a second or less, but for importing PyTorch."""


@dataclass(frozen=True)
class Ended:
    """A finished training: its exit code, and what was written."""

    code: int
    out: str
    err: str

    @property
    def errors(self) -> list[str]:
        return [line for line in self.err.splitlines() if line.startswith("error: ")]


def environment(**more: str) -> dict[str, str]:
    """This process's environment without variables of a job or a launcher, plus `more`."""
    gone = ("SLURM_", "CIFAR10", "RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_", "TORCHELASTIC")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(gone)}
    path = f"{TORCH_PYTHON.parent}{os.pathsep}{os.environ['PATH']}"
    return {**kept, "PATH": path, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1", **more}


TORCH = Warm(TORCH_PYTHON, "torch", "torch.distributed", "torch._dynamo", env=environment())


def run_script(folder: Path, *words: str, **more: str) -> Ended:
    """Run a Python script to its end, in a Python that has PyTorch imported."""
    out, err = folder / "script.out", folder / "script.err"
    code = TORCH.start(words, cwd=folder, env=environment(**more), out=out, err=err).wait(900)
    return Ended(code, out.read_text("utf-8"), err.read_text("utf-8"))


def run_code(folder: Path, code: str, *words: str, **more: str) -> Ended:
    """Run Python code to its end, in a Python that has PyTorch imported."""
    script = folder / "code.py"
    script.write_text(code, "utf-8")
    return run_script(folder, str(script), *words, **more)


class Ranks:
    """Ranks started one by one, as by `srun python`; `fewer` of them are never started.

    `everywhere` and `rank_1` are environment variables; `limit` is the memory of rank 1 in KiB.
    """

    def __init__(
        self,
        folder: Path,
        ranks: int,
        *words: str,
        script: str = TRAIN,
        fewer: int = 0,
        everywhere: Mapping[str, str] | None = None,
        rank_1: Mapping[str, str] | None = None,
        limit: int = 0,
    ) -> None:
        (port,) = free_ports(1)
        self.folder = folder
        self.processes: list[Process | subprocess.Popen[bytes]] = []
        for rank in range(ranks - fewer):
            more = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks)}
            more.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), **(everywhere or {}))
            more.update((rank_1 or {}) if rank == 1 else {})
            process = TORCH.start(
                (script, *words), cwd=folder, env=environment(**more), out=folder / f"{rank}.out",
                err=folder / f"{rank}.err", data_limit_kib=limit if rank == 1 else 0,
            )  # fmt: skip
            self.processes.append(process)

    def read(self, rank: int, stream: str = "err") -> str:
        return (self.folder / f"{rank}.{stream}").read_text("utf-8")

    def wait_for(self, text: str) -> None:
        until = time.monotonic() + 480
        while text not in self.read(0, "out"):
            if time.monotonic() > until or self.processes[0].poll() is not None:
                raise AssertionError(f"{text!r} never came: {self.read(0, 'out')}{self.read(0)}")
            time.sleep(0.05)

    def ended(self) -> list[Ended]:
        """Wait for all ranks, and return their results, rank 0 first."""
        try:
            codes = [process.wait(600) for process in self.processes]
        finally:
            for process in self.processes:
                process.kill()
                process.wait()
        return [Ended(code, self.read(rank, "out"), self.read(rank)) for rank, code in enumerate(codes)]


def trained(folder: Path, ranks: int, *words: str) -> Ended:
    """What rank 0 of a whole training wrote."""
    return Ranks(folder, ranks, *words).ended()[0]


def errors(ended: list[Ended]) -> list[str]:
    return [sentence for one in ended for sentence in one.errors]
