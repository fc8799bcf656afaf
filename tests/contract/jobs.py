"""Submitting, waiting and looking on a site, for the contract tests."""

from __future__ import annotations

import shlex
import time
from dataclasses import dataclass

from tests.contract.commands import (
    ACCOUNTING,
    ACCOUNTING_FIELDS,
    FIELD,
    PINNED,
    QUEUE,
    QUEUE_FIELDS,
    ROW,
    SCRIPTS,
)
from tests.contract.sites import Answer, Site

OVER = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY")


@dataclass
class Jobs:
    """A directory on a site with the contract's scripts in it, and what is done there."""

    site: Site
    directory: str

    def prepare(self) -> None:
        for name, text in SCRIPTS.items():
            self.site.write(f"{self.directory}/{name}", text.encode())

    def run(self, command: str, *, timeout_s: float = 480.0) -> Answer:
        return self.site.run(f"cd {shlex.quote(self.directory)} && {{ {command}\n}}", timeout_s=timeout_s)

    @property
    def cpu(self) -> str:
        return f"-A {self.site.account} -q {self.site.cpu_qos}"

    @property
    def words(self) -> dict[str, object]:
        """What may stand in braces in `REFUSALS`: what the site names, and the options of a job on CPUs or GPUs."""
        return {**vars(self.site), "cpu": self.cpu, "gpu": f"-A {self.site.account} -q {self.site.gpu_qos}"}

    def gpu(self, gpus: int = 1) -> str:
        """Options of a job on GPUs, with 20 CPUs each."""
        return f"-A {self.site.account} -q {self.site.gpu_qos} -c {20 * gpus} --gres=gpu:{gpus}"

    def submit(self, words: str) -> str:
        answer = self.run(f"sbatch --parsable {words}")
        assert answer.status == 0, answer.err
        assert answer.out.isdecimal(), answer.out
        return answer.out

    def queue(self) -> dict[str, dict[str, str]]:
        """squeue's rows by job id, each with squeue's code as key."""
        answer = self.run(PINNED + QUEUE)
        assert (answer.status, answer.err) == (0, "")
        rows = {}
        for piece in answer.stdout.decode().split(ROW)[1:]:
            values = piece.removesuffix("\n").split(FIELD)
            assert len(values) == len(QUEUE_FIELDS), piece
            rows[values[0]] = dict(zip(QUEUE_FIELDS, values, strict=True))
        return rows

    def accounting(self, more: str) -> dict[str, dict[str, str]]:
        """sacct's rows by job id, each with sacct's field name as key."""
        answer = self.run(f"{PINNED}{ACCOUNTING} {more}")
        assert (answer.status, answer.err) == (0, "")
        values = answer.stdout.decode().split(FIELD)
        assert values.pop() in ("", "\n")
        count = len(ACCOUNTING_FIELDS)
        assert len(values) % count == 0
        rows = {}
        for start in range(0, len(values), count):
            row = dict(zip(ACCOUNTING_FIELDS, values[start : start + count], strict=True))
            rows[row["JobIDRaw"].strip()] = row
        return rows

    def details(self, job_id: str) -> str:
        answer = self.run(f"{PINNED}scontrol show job {job_id}")
        assert answer.status == 0, answer.err
        return answer.out

    def wait_for(self, job_id: str, *states: str, deadline_s: float = 480.0) -> dict[str, str]:
        """Until squeue shows one of the states; the row then."""
        end = time.monotonic() + deadline_s
        while True:
            row = self.queue().get(job_id, {})
            state = row.get("%T", "gone")
            if state in states:
                return row
            assert state not in OVER, f"job {job_id} is {state}, not {' or '.join(states)}"
            assert time.monotonic() < end, f"job {job_id} is {state}, not {' or '.join(states)}"
            time.sleep(0.2)

    def wait_for_accounting(self, job_id: str, deadline_s: float = 240.0) -> dict[str, str]:
        """Until accounting knows the job's end and its name; the row then."""
        end = time.monotonic() + deadline_s
        while True:
            row = self.accounting(f"--jobs={job_id}").get(job_id, {})
            if row.get("State", "").split(" ")[0] in OVER and row["QOS"] not in ("", "Unknown"):
                return row
            assert time.monotonic() < end, f"accounting says of job {job_id}: {row}"
            time.sleep(0.3)
