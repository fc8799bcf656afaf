"""`sacct`: the command and the reader of its answer, for jobs that left the queue.

Only fields every release from 20.11 to 26.05 has: one unknown name fails the whole query.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from labtui.core.model import JobPhase, JobView
from labtui.core.slurm.states import phase_of, plain_state
from labtui.core.slurm.times import epoch_seconds

FIELDS = (
    "JobIDRaw",
    "State",
    "ExitCode",
    "Submit",
    "Start",
    "End",
    "ElapsedRaw",
    "TimelimitRaw",
    "NodeList",
    "Partition",
    "QOS",
    "Comment",
    "JobName",
)
SINCE = "now-60days"
"""How far back accounting is asked; without a start, sacct looks at today alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountingRow:
    """One job as accounting knows it. Times are UNIX seconds of the cluster."""

    job_id: str
    state: str
    exit_code: str = ""
    submit: float | None = None
    start: float | None = None
    end: float | None = None
    elapsed_s: float | None = None
    time_limit_s: float | None = None
    nodes: str = ""
    partition: str = ""
    qos: str = ""
    comment: str = ""
    name: str = ""

    @property
    def phase(self) -> JobPhase:
        """Queued, running or finished, by accounting's word."""
        return phase_of(self.state)

    def view(self, seen_at: float) -> JobView:
        """This row as evidence; `seen_at` is UNIX seconds of our clock."""
        return JobView(
            job_id=self.job_id,
            phase=self.phase,
            slurm_state=self.state,
            submit_time=self.submit,
            start_time=self.start,
            end_time=self.end if self.phase is JobPhase.FINISHED else None,
            time_limit_s=self.time_limit_s,
            elapsed_s=self.elapsed_s,
            node=self.nodes,
            partition=self.partition,
            exit_code=self.exit_code,
            evidence="sacct",
            seen_at=seen_at,
        )


def _common(nonce: str) -> str:
    fields = ",".join(FIELDS)
    return (
        f"sacct --allocations --noheader --parsable --starttime={SINCE} "
        f"--delimiter={shlex.quote(delimiter(nonce))} --format={fields}"
    )


def delimiter(nonce: str) -> str:
    """What stands after each field: a control character with the number of this call."""
    return f"\x1f{nonce}"


def accounting_command(job_ids: Sequence[str], nonce: str) -> str:
    """Ask for these jobs. Long options: site wrappers of sacct know them better."""
    return f"{_common(nonce)} --jobs={shlex.quote(','.join(job_ids))}"


def my_accounting_command(nonce: str) -> str:
    """Ask for all of my jobs: by name would miss short ones, which can stand there as ``allocation``."""
    return _common(nonce)


def parse_accounting(text: str, nonce: str) -> tuple[AccountingRow, ...]:
    """Rows in sacct's order; anything between them that is no row is dropped."""
    values = text.split(delimiter(nonce))[:-1]
    rows = []
    for start in range(0, len(values) - len(FIELDS) + 1, len(FIELDS)):
        told = dict(zip(FIELDS, values[start : start + len(FIELDS)], strict=True))
        told["JobIDRaw"] = told["JobIDRaw"].rpartition("\n")[2].strip()
        if told["JobIDRaw"].isdecimal():
            rows.append(_row(told))
    return tuple(rows)


def _row(told: dict[str, str]) -> AccountingRow:
    minutes = told["TimelimitRaw"].strip()
    elapsed = told["ElapsedRaw"].strip()
    nodes = told["NodeList"].strip()
    return AccountingRow(
        job_id=told["JobIDRaw"],
        state=plain_state(told["State"]),
        exit_code=told["ExitCode"].strip(),
        submit=epoch_seconds(told["Submit"]),
        start=epoch_seconds(told["Start"]),
        end=epoch_seconds(told["End"]),
        elapsed_s=float(elapsed) if elapsed.isdecimal() else None,
        time_limit_s=float(minutes) * 60 if minutes.isdecimal() else None,
        nodes="" if nodes == "None assigned" else nodes,
        partition=told["Partition"],
        qos=told["QOS"],
        comment=told["Comment"],
        name=told["JobName"],
    )
